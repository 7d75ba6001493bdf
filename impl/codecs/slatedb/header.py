"""Safety: a file of an unknown version is refused, never read as a known one.

SlateDB's manifests and compactions files begin with the version, a big-endian u16. The rest is one FlatBuffer; its offsets and
its alignment count from byte 2.
"""

from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.slatedb.flatbuffer import DamagedBuffer, read

START = 2  # of the FlatBuffer


class InvalidFile(Undecodable):
    """A file that SlateDB did not write, or whose version is not known here."""


def version_of(body: bytes) -> int:
    """Return the version of a file. Raises InvalidFile if the file has fewer than 2 bytes."""
    if len(body) < 2:
        raise InvalidFile(f"it has {len(body)} bytes, too few for a version: the file is cut off", 0, "version")
    return int.from_bytes(body[:2], "big")


def opened(body: bytes, what: str, known: tuple[int, ...]) -> tuple[int, bytes]:
    """Split a file into its version and its FlatBuffer. Raises InvalidFile unless the version is one of `known`."""
    version = version_of(body)
    if version not in known:
        versions = " or ".join(map(str, known))
        raise InvalidFile(f"its version is {version}, but this release reads {what} of version {versions}: read it with a "
                          "newer release, if it is not damaged", 0, "version")
    return version, body[START:]


def table_in(buffer: bytes, table: type) -> tuple[Any, tuple[str, ...]]:
    """Return the table in a file's FlatBuffer, and its unknown fields. Raises DamagedBuffer, with the offset in the file."""
    try:
        return read(buffer, table)
    except DamagedBuffer as error:
        raise error.of("", START) from None


def closed(version: int, buffer: bytes) -> bytes:
    """Return a file: its version, then its FlatBuffer."""
    return version.to_bytes(2, "big") + buffer
