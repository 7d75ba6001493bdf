"""Safety: an object's metadata is decoded only if its checksum holds, so that a cut or changed object is never read as another.

An object ends with `metadata | be_u32 size of the metadata | be_u32 CRC-32C of metadata and size`. The field `size` of the
metadata is that of the whole object. It is 0 in the object, and the reader fills it in.
"""

import struct
from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.codecs.index.messages import BlockMeta, decode, encode

TAIL = struct.Struct(">II")  # size of the metadata, checksum


class DamagedFooter(Undecodable):
    """The end of an object is not a footer, or it is damaged."""


def footer(block: Any) -> bytes:
    """Return what stands after an object's data."""
    metadata = encode(block)
    sized = metadata + struct.pack(">I", len(metadata))
    return sized + struct.pack(">I", crc32c(sized))


def footer_size_bytes(tail: bytes) -> int:
    """Return the size of the footer, of which these are the last 8 bytes or more. Raises DamagedFooter."""
    if len(tail) < TAIL.size:
        raise DamagedFooter(f"{len(tail)} bytes are too few for a footer", field="footer")
    return TAIL.unpack_from(tail, len(tail) - TAIL.size)[0] + TAIL.size


def metadata_of(tail: bytes, object_size_bytes: int | None = None) -> Any:
    """Return the BlockMeta in the footer at the end of `tail`; with `object_size_bytes` its `size` is set.

    Raises DamagedFooter, DamagedMessage.
    """
    start = len(tail) - footer_size_bytes(tail)
    if start < 0:
        raise DamagedFooter(f"the footer needs {-start} bytes more than there are", len(tail) - TAIL.size, "size")
    told = TAIL.unpack_from(tail, len(tail) - TAIL.size)[1]
    if told != crc32c(tail[start:-4]):
        raise DamagedFooter("the CRC-32C does not hold", len(tail) - 4, "checksum")
    block = decode(BlockMeta, tail[start:-TAIL.size], "metadata")
    if object_size_bytes is not None:
        block.size = object_size_bytes
    return block
