"""Safety: a snapshot is read whole or refused. One that is cut, changed, or from a newer release never gives a state.

A snapshot file holds the rows of the index after the entry with its log index:

    "HWIX" | u32 version | u32 length | header | u64 length | zstd of rows | u64 number of rows | u32 CRC-32C of all before
    header  u64 log index, u64 term, u32 number of voters, u64 each
    rows    (u32 length, key, u32 length, value) in ascending order of keys

`stream` is what replicas compare: before compression it is equal for equal rows, whatever store holds them.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import zstandard

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.crc32c import crc32c

MAGIC, VERSION = b"HWIX", 1
HEAD, POSITION, TAIL = struct.Struct(">4sII"), struct.Struct(">QQI"), struct.Struct(">QI")
U32, U64 = struct.Struct(">I"), struct.Struct(">Q")
LEVEL = 3  # of zstd's compression
LARGEST_BYTES = 1 << 36  # of rows: what claims to hold more is damaged
Row = tuple[bytes, bytes]


class DamagedSnapshot(Undecodable):
    """A file that is not a whole snapshot of this version."""


class Position(NamedTuple):
    """The last applied entry, and the ids of the voters then."""

    index: int
    term: int
    voters: tuple[int, ...]


def stream(rows: Iterable[Row]) -> tuple[bytes, int]:
    """Return the rows as bytes, and their number. Raises ValueError if the keys do not ascend."""
    parts: list[bytes] = []
    last = None
    for key, value in rows:
        if last is not None and key <= last:
            raise ValueError(f"key {key!r} after {last!r}")
        last = key
        parts += (U32.pack(len(key)), key, U32.pack(len(value)), value)
    return b"".join(parts), len(parts) // 4


def rows_of(body: bytes) -> list[Row]:
    """Return the rows of a stream. Raises DamagedSnapshot."""
    found: list[Row] = []
    at = 0

    def part() -> bytes:
        nonlocal at
        if at + 4 > len(body):
            raise DamagedSnapshot("cut short", at, "rows")
        (size,) = U32.unpack_from(body, at)
        at += 4 + size
        if at > len(body):
            raise DamagedSnapshot("cut short", at, "rows")
        return body[at - size:at]

    while at < len(body):
        row = part(), part()
        if found and row[0] <= found[-1][0]:
            raise DamagedSnapshot("keys do not ascend", at, "rows")
        found.append(row)
    return found


def encode(position: Position, rows: Iterable[Row]) -> bytes:
    """Return the file. Raises ValueError if the keys do not ascend."""
    body, count = stream(rows)
    packed = zstandard.ZstdCompressor(level=LEVEL).compress(body)
    header = POSITION.pack(position.index, position.term, len(position.voters))
    header += b"".join(U64.pack(voter) for voter in position.voters)
    file = HEAD.pack(MAGIC, VERSION, len(header)) + header + U64.pack(len(packed)) + packed + U64.pack(count)
    return file + U32.pack(crc32c(file))


def decode(file: bytes) -> tuple[Position, list[Row]]:
    """Return what a snapshot file holds. Raises DamagedSnapshot."""
    if len(file) < HEAD.size + POSITION.size + 8 + TAIL.size:
        raise DamagedSnapshot(f"{len(file)} bytes are too few", field="snapshot")
    magic, version, size = HEAD.unpack_from(file)
    if magic != MAGIC:
        raise DamagedSnapshot("this is no snapshot", field="magic")
    if version != VERSION:
        raise DamagedSnapshot(f"version {version}: this release reads version {VERSION}", 4, "version")
    count, told = TAIL.unpack_from(file, len(file) - TAIL.size)
    if crc32c(file[:-4]) != told:
        raise DamagedSnapshot("the CRC-32C does not hold", len(file) - 4, "checksum")
    at = HEAD.size + size  # from here on the checksum holds, so what is wrong was written so
    if size < POSITION.size or len(file) < at + 8 + TAIL.size:
        raise DamagedSnapshot("its length is not that of its parts", HEAD.size, "header")
    index, term, voters = POSITION.unpack_from(file, HEAD.size)
    (packed,) = U64.unpack_from(file, at)
    if size != POSITION.size + 8 * voters or len(file) != at + 8 + packed + TAIL.size:
        raise DamagedSnapshot("its length is not that of its parts", at, "rows")
    ids = struct.unpack_from(f">{voters}Q", file, HEAD.size + POSITION.size)
    rows = rows_of(unpacked(file[at + 8:at + 8 + packed], at + 8))
    if len(rows) != count:
        raise DamagedSnapshot(f"{len(rows)} rows, and not {count}", len(file) - TAIL.size, "number of rows")
    return Position(index, term, ids), rows


def unpacked(packed: bytes, at: int) -> bytes:
    """Return what was compressed. Raises DamagedSnapshot."""
    try:
        if zstandard.frame_content_size(packed) > LARGEST_BYTES:
            raise DamagedSnapshot("it claims to hold too much", at, "rows")
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamagedSnapshot(f"zstd: {error}", at, "rows") from None
    except MemoryError:
        raise DamagedSnapshot("zstd: it claims to hold more than this machine has memory for", at, "rows") from None
