"""Safety: the rows of a block are what its bytes say, or an error names the byte that no writer writes.

A block of format 2 has entries, the offsets of those with a whole key (every 16th), and the number of the offsets:

    shared, unshared, length (each LEB128) · the rest of the key · value · seq u64 · flags u8 · [expires i64] [created i64]

Offsets and their number are u16; `shared` bytes are those of the previous key. Format 1 has the offset of every entry, and
shares with the block's first key:

    shared u16, unshared u16 · the rest of the key · seq u64 · flags u8 · [expires i64] [created i64] · [length u32, value]

Numbers are big-endian. A block has no key range of its own: the index does. impl/db/table.py checks the checksum before.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise

from highwater.impl.db.damaged import Place
from highwater.impl.db.rows import HAS_CREATION, HAS_EXPIRY, KNOWN_FLAGS, LONGEST_KEY, MERGE, TOMBSTONE, Row, check, flags_of

RESTART_EVERY = 16
U16, I64, SEQ_FLAGS = struct.Struct(">H"), struct.Struct(">q"), struct.Struct(">QB")
HEAD_V1 = struct.Struct(">HH")
LAST_START = (1 << 16) - 1  # offsets are u16; a larger block has one row, or none that begins after this
LONGEST_NUMBER = 5  # bytes of a LEB128 that stands for a u32


def decode(block: bytes, version: int, place: Place) -> list[Row]:
    """Return the rows of a block. Raises DamagedObject."""
    offsets, end = trailer(block, place)
    return decode_v1(block, offsets, end, place) if version == 1 else decode_v2(block, offsets, end, place)


def trailer(block: bytes, place: Place) -> tuple[tuple[int, ...], int]:
    """Return the offsets at the end of a block, and where its entries end."""
    if len(block) < 2:
        raise place.damaged(0, "number of offsets", f"the block has {len(block)} bytes")
    number = U16.unpack_from(block, len(block) - 2)[0]
    end = len(block) - 2 - 2 * number
    if not number or end <= 0:
        raise place.damaged(len(block) - 2, "number of offsets", f"{number} offsets in a block of {len(block)} bytes")
    offsets = struct.unpack_from(f">{number}H", block, end)
    if offsets[0] or any(a >= b for a, b in pairwise(offsets)) or offsets[-1] >= end:
        raise place.damaged(end, "offsets", "they do not begin with 0 and rise up to the last entry")
    return offsets, end


def decode_v2(block: bytes, restarts: tuple[int, ...], end: int, place: Place) -> list[Row]:
    rows: list[Row] = []
    at, key, restart = 0, b"", 0
    while at < end:
        start = at
        if start > LAST_START:
            raise place.damaged(start, "entry", f"it begins after byte {LAST_START:,}, where no offset leads to")
        try:
            shared, unshared, length = block[at], block[at + 1], block[at + 2]
            if shared > 127 or unshared > 127 or length > 127:
                shared, at = number(block, at, "shared bytes of the key", place)
                unshared, at = number(block, at, "other bytes of the key", place)
                length, at = number(block, at, "length of the value", place)
            else:
                at += 3
            if shared > len(key) or not 0 < shared + unshared <= LONGEST_KEY:
                raise place.damaged(start, "lengths of the key", f"{shared} shared bytes and {unshared} others, after a key of "
                                    f"{len(key)}")
            key = key[:shared] + block[at:at + unshared]
            at += unshared
            value = block[at:at + length]
            at += length
            seq, flags = SEQ_FLAGS.unpack_from(block, at)
            at += 9
            expire_ms = create_ms = None
            if flags & HAS_EXPIRY:
                expire_ms = I64.unpack_from(block, at)[0]
                at += 8
            if flags & HAS_CREATION:
                create_ms = I64.unpack_from(block, at)[0]
                at += 8
        except (IndexError, struct.error):
            raise place.damaged(start, "entry", f"it goes beyond the block's {len(block)} bytes") from None
        if at > end:
            raise place.damaged(start, "entry", f"it goes beyond the block's entries, which end at {end}")
        if restart < len(restarts) and restarts[restart] <= start:
            if restarts[restart] != start or shared:
                raise place.damaged(start, "restart", f"offset {restarts[restart]} is no entry with a whole key")
            restart += 1
        kind = kind_of(flags, len(value), start, place)
        rows.append(Row(key, seq, kind, value, create_ms, expire_ms))
    if restart < len(restarts):
        raise place.damaged(end, "restart", f"offset {restarts[restart]} is no entry with a whole key")
    return rows


def decode_v1(block: bytes, offsets: tuple[int, ...], end: int, place: Place) -> list[Row]:
    rows: list[Row] = []
    first = b""
    for start, after in zip(offsets, (*offsets[1:], end)):
        entry, at = block[start:after], 4
        try:
            shared, unshared = HEAD_V1.unpack_from(entry, 0)
            if shared > len(first) or not shared + unshared:
                raise place.damaged(start, "lengths of the key", f"{shared} shared bytes and {unshared} others, after a first "
                                    f"key of {len(first)}")
            key = first[:shared] + entry[at:at + unshared]
            at += unshared
            seq, flags = SEQ_FLAGS.unpack_from(entry, at)
            at += 9
            expire_ms = create_ms = None
            if flags & HAS_EXPIRY:
                expire_ms = I64.unpack_from(entry, at)[0]
                at += 8
            if flags & HAS_CREATION:
                create_ms = I64.unpack_from(entry, at)[0]
                at += 8
            value = b""
            if not flags & TOMBSTONE:
                length = struct.unpack_from(">I", entry, at)[0]
                value = entry[at + 4:at + 4 + length]
                at += 4 + length
        except struct.error:
            raise place.damaged(start, "entry", f"it goes beyond its end at {after}") from None
        if at != len(entry):
            raise place.damaged(start, "entry", f"it has {at} bytes, but the next one begins after {len(entry)}")
        kind = kind_of(flags, len(value), start, place)
        first = first or key
        rows.append(Row(key, seq, kind, value, create_ms, expire_ms))
    return rows


def kind_of(flags: int, length: int, start: int, place: Place) -> int:
    """Return the kind that the flags of an entry name. Raises DamagedObject for those that no writer writes."""
    kind = flags & (TOMBSTONE | MERGE)
    if flags & ~KNOWN_FLAGS or kind == TOMBSTONE | MERGE:
        raise place.damaged(start, "flags", f"{flags:#04x} is no value, tombstone or merge that this release knows")
    if kind == TOMBSTONE and length:
        raise place.damaged(start, "length of the value", f"a tombstone with {length} bytes")
    return kind


def number(block: bytes, at: int, field: str, place: Place) -> tuple[int, int]:
    """Return a number in LEB128, and where it ends."""
    value = 0
    for place_of, byte in enumerate(block[at:at + LONGEST_NUMBER]):
        value |= (byte & 127) << 7 * place_of
        if byte < 128:
            if value >= 1 << 32:
                break
            return value, at + place_of + 1
    raise place.damaged(at, field, "it is no number of 32 bits")


# ------------------------------------------------------------------------------------------------------------- writing

def leb128(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def entry_of(row: Row, before: bytes) -> bytes:
    """Return the entry of a row after the key `before`; b"" for a restart. Raises ValueError for a row that cannot be held."""
    check(row)
    shared = shared_prefix(before, row.key)
    times = b"".join(I64.pack(time) for time in (row.expire_ms, row.create_ms) if time is not None)
    return b"".join((leb128(shared), leb128(len(row.key) - shared), leb128(len(row.value)), row.key[shared:], row.value,
                     SEQ_FLAGS.pack(row.seq, flags_of(row)), times))


def shared_prefix(a: bytes, b: bytes) -> int:
    """Return how many bytes two keys begin with together."""
    most = min(len(a), len(b))
    if a[:most] == b[:most]:
        return most
    return next(place for place in range(most) if a[place] != b[place])


def blocks_of(rows: Sequence[Row], size: int) -> list[tuple[list[Row], bytes]]:
    """Return the rows in blocks of format 2, each of at most `size` bytes unless it has one row."""
    blocks: list[tuple[list[Row], bytes]] = []
    entries, held, restarts, at, before = [], [], [], 0, b""
    for row in rows:
        is_restart = len(held) % RESTART_EVERY == 0
        entry = entry_of(row, b"" if is_restart else before)
        if held and at + len(entry) + 2 * (len(restarts) + is_restart) + 2 > size:
            blocks.append((held, closed(entries, restarts)))
            entries, held, restarts, at, is_restart = [], [], [], 0, True
            entry = entry_of(row, b"")
        if is_restart:
            restarts.append(at)
        entries.append(entry)
        held.append(row)
        at, before = at + len(entry), row.key
    return [*blocks, (held, closed(entries, restarts))] if held else blocks


def closed(entries: list[bytes], restarts: list[int]) -> bytes:
    return b"".join((*entries, struct.pack(f">{len(restarts) + 1}H", *restarts, len(restarts))))
