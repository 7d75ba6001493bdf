"""Safety: each part of an SST is checked against its checksum before a byte of it is used, and no part reaches into another.

    blocks · filter · index · stats · info · offset of info, u64 · version, u16

Each part but the last two is a payload and its CRC-32, u32. The checksum is of the packed payload; info is never packed. The
lengths in info include it. All numbers of the file are big-endian, those of FlatBuffers little-endian.
"""

import struct
import zlib
from typing import Annotated, Any, NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import REQUIRED, U16, U64, DamagedBuffer, read
from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db.compression import unpack
from highwater.impl.db.damaged import DamagedObject, Place

FOOTER = struct.Struct(">QH")
CRC = 4
VERSIONS = (1, 2)  # of blocks; 2 is written
COMPACTED, WAL = 0, 1  # the types of an SST


class BlockMeta(NamedTuple):
    """A block in the index."""

    offset: U64 = 0
    first_key: Annotated[bytes, REQUIRED] = b""  # a key after the block before, up to the first one of this; b"" for block 0
    encoded_len: U64 = 0  # since 0.18


class Index(NamedTuple):
    """The blocks of an SST, in order."""

    block_meta: Annotated[tuple[BlockMeta, ...], REQUIRED] = ()


class BlockStats(NamedTuple):
    """How many rows of each kind a block has."""

    puts: U16 = 0
    deletes: U16 = 0
    merges: U16 = 0


class Stats(NamedTuple):
    """How many rows of each kind an SST has, and how many bytes their keys and values."""

    puts: U64 = 0
    deletes: U64 = 0
    merges: U64 = 0
    raw_key_bytes: U64 = 0
    raw_value_bytes: U64 = 0
    blocks: tuple[BlockStats, ...] = ()  # absent in the fences of 0.13.1


def sealed(payload: bytes) -> bytes:
    """Return a part: its payload and its checksum."""
    return payload + zlib.crc32(payload).to_bytes(CRC, "big")


def payload_of(part: bytes, place: Place) -> bytes:
    """Return the payload of a part. Raises DamagedObject if its checksum is wrong."""
    payload, crc = part[:-CRC], int.from_bytes(part[-CRC:], "big")
    if len(part) < CRC or zlib.crc32(payload) != crc:
        raise place.damaged(max(0, len(part) - CRC), "checksum", f"{crc:#010x} is not the CRC-32 of its {len(payload):,} bytes")
    return payload


def content_of(part: bytes, codec: int, place: Place, most: int | None = None) -> tuple[bytes, Place]:
    """Return the content of a part, of at most `most` bytes, and its place: offsets of errors count in the content.

    Raises DamagedObject."""
    return unpack(payload_of(part, place), codec, place, most), place._replace(packed=codec != 0)


def table_of(buffer: bytes, table: type, place: Place, most: int | None = None) -> Any:
    """Return a FlatBuffer's table, each of whose vectors has at most so many parts. Raises DamagedObject."""
    try:
        return read(buffer, table, most)[0]
    except DamagedBuffer as error:
        raise place.damaged(error.offset, error.field, error.what) from None


def info_of(body: bytes, key: str, start: int = 0) -> tuple[SstInfo, int, int]:
    """Return an SST's info, the version of its blocks, and the offset of info. `body`: the object from byte `start` on.

    Raises DamagedObject."""
    size, end = start + len(body), start + len(body) - FOOTER.size
    if end - start < CRC:
        raise DamagedObject(key, start, "footer", f"the object has {size} bytes, fewer than a footer and a checksum")
    offset, version = FOOTER.unpack_from(body, end - start)
    if version not in VERSIONS:
        raise DamagedObject(key, end + 8, "version", f"{version} is none that this release knows")
    if not start <= offset <= end - CRC:
        raise DamagedObject(key, end, "offset of info", f"{offset:,} is not in bytes {start:,} to {size:,} of the object")
    place = Place(key, offset, "info")
    info: SstInfo = table_of(payload_of(body[offset - start:end - start], place), SstInfo, place)
    for name in ("index", "filter", "stats"):
        start, length = getattr(info, f"{name}_offset"), getattr(info, f"{name}_len")
        if start + length > offset:
            raise place.damaged(0, f"{name}_offset", f"bytes {start:,} to {start + length:,} reach beyond info at {offset:,}")
    if info.filter_len and info.filter_offset + info.filter_len > info.index_offset:
        raise place.damaged(0, "filter_offset", f"the filter at {info.filter_offset:,} of {info.filter_len:,} bytes reaches "
                            f"into the index at {info.index_offset:,}")
    return info, version, offset
