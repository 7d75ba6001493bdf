"""Safety: a file of another version than those that are known is refused, and never read as one of them.

SlateDB's manifests and compactions files begin with a big-endian u16, the version; the rest is one FlatBuffer, whose offsets
and alignment count from byte 2 on.
"""

from highwater.impl.errors import Definite


class InvalidFile(Definite):
    """Not a file of SlateDB's, or of a version that is not known here."""


def version_of(body: bytes) -> int:
    """Raises InvalidFile."""
    if len(body) < 2:
        raise InvalidFile(f"it has {len(body)} bytes, and not even a version: the file is cut off")
    return int.from_bytes(body[:2], "big")


def opened(body: bytes, what: str, known: tuple[int, ...]) -> tuple[int, bytes]:
    """The version, and the FlatBuffer. Raises InvalidFile."""
    version = version_of(body)
    if version not in known:
        versions = " or ".join(map(str, known))
        raise InvalidFile(f"its version is {version}: {what} are of version {versions} here; read it by a newer release, if it "
                          "is not damaged")
    return version, body[2:]


def closed(version: int, buffer: bytes) -> bytes:
    return version.to_bytes(2, "big") + buffer
