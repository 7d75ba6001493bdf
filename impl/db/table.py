"""Safety: the rows that a table returns are those of its object, in the order of its kind, or an error says what is wrong.

A table is an SST or a WAL object. Its end is in memory: index, statistics and info; mostly the filter, too, and perhaps its
blocks. Blocks are checked and unpacked one by one, when they are asked for. impl/db/ssts.py reads those that are not in memory.

The rows of an SST ascend by key; the versions of one key descend by number. Those of a WAL object have the order of commits.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import block, bloom
from highwater.impl.db.damaged import DamagedObject, Place
from highwater.impl.db.parts import WAL, Index, Stats, content_of, info_of, table_of
from highwater.impl.db.rows import LONGEST_KEY, Row

LEAST_BLOCK = 10  # bytes: no codec packs a row and the trailer of its block into fewer, with a checksum
INDEXED, COUNTED = LONGEST_KEY + 200, 200  # bytes of index and statistics for one block, at most, or for the rest of the part


class Table:
    """The table in the object `key`. Raises DamagedObject, CodecMissing; so do its methods."""

    def __init__(self, key: str, body: bytes, expected: SstInfo | None = None, start: int = 0):
        """`expected` is what a manifest says of it. `body`: the object from byte `start` on, which is at most where the index
        begins. What needs bytes before `start` must not be called: `block`, `blocks` and `rows`, and perhaps `bloom`."""
        self.key, self.body, self.start = key, body, start
        self.unpacked_bytes = 0  # of the filter, once it was asked for
        self.info, self.version, self.info_offset = info_of(body, key, start)
        if expected is not None and expected != self.info:
            raise DamagedObject(key, self.info_offset, "info", f"it is {self.info}, and the manifest says {expected}: the "
                                "object is another one, or damaged")
        self.most_blocks = self.end_of_blocks // LEAST_BLOCK
        index, place = self.part("index", self.info.index_offset, self.info.index_len, INDEXED)
        metas = table_of(index, Index, place, self.most_blocks).block_meta
        self.offsets = [meta.offset for meta in metas]
        self.first_keys = [meta.first_key for meta in metas]
        if metas and (self.offsets[0] or any(a >= b for a, b in pairwise((*self.offsets, self.end_of_blocks)))):
            raise place.damaged(0, "offsets of blocks", f"they do not rise from 0 up to the last block, before byte "
                                f"{self.end_of_blocks:,}")
        if not self.is_wal and any(a > b for a, b in pairwise(self.first_keys)):
            raise place.damaged(0, "first keys of blocks", "they do not ascend")

    @property
    def is_wal(self) -> bool:
        return self.info.sst_type == WAL

    @property
    def end_of_blocks(self) -> int:
        return self.info.filter_offset if self.info.filter_len else self.info.index_offset

    @property
    def size_bytes(self) -> int:
        """The length of the object."""
        return self.start + len(self.body)

    def part(self, name: str, offset: int, length: int, per_block: int | None = None) -> tuple[bytes, Place]:
        """Return the content of a part. It has at most `per_block` bytes for each block that the object has room for."""
        at, place = offset - self.start, Place(self.key, offset, name)
        if at < 0:
            raise place.damaged(0, "place", "it is among the blocks, and should be behind them")
        return content_of(self.body[at:at + length], self.info.compression, place,
                          None if per_block is None else per_block * (1 + self.most_blocks))

    @cached_property
    def bloom(self) -> bloom.Bloom | None:
        """The filter; None if there is none that this release knows."""
        if not self.info.filter_len or self.info.filter_format != bloom.COMPOSITE:
            return None
        found = bloom.decode(*self.part("filter", self.info.filter_offset, self.info.filter_len))
        self.unpacked_bytes = len(found.bits) if found else 0
        return found

    @cached_property
    def stats(self) -> Stats | None:
        """The statistics; None if the object has none, as WAL objects do."""
        if not self.info.stats_len:
            return None
        content, place = self.part("stats", self.info.stats_offset, self.info.stats_len, COUNTED)
        return table_of(content, Stats, place, self.most_blocks)

    def place_of(self, number: int) -> tuple[int, int]:
        """Return where a block begins and ends."""
        return self.offsets[number], self.offsets[number + 1] if number + 1 < len(self.offsets) else self.end_of_blocks

    def block(self, number: int) -> list[Row]:
        """Return the rows of a block in memory, and check their order."""
        assert not self.start, f"{self.key}: block {number} is not in memory"
        start, end = self.place_of(number)
        return self.decoded(number, self.body[start:end])

    def decoded(self, number: int, part: bytes) -> list[Row]:
        """Return the rows of a block whose bytes are `part`, and check their checksum and their order."""
        content, place = content_of(part, self.info.compression, Place(self.key, self.offsets[number], f"block {number}"))
        rows = block.decode(content, self.version, place)
        (self.check_commits if self.is_wal else self.check_keys)(number, rows, place)
        return rows

    def check_keys(self, number: int, rows: list[Row], place: Place) -> None:
        last = rows[0]
        for row in rows[1:]:
            if row.key <= last.key and (row.key < last.key or row.seq >= last.seq):
                raise place.damaged(0, "order of rows", f"{row.key!r} of number {row.seq} follows {last.key!r} of {last.seq}")
            last = row
        after = self.first_keys[number + 1] if number + 1 < len(self.first_keys) else None
        if rows[0].key < self.first_keys[number] or (after is not None and last.key > after):
            raise place.damaged(0, "keys", f"{rows[0].key!r} to {last.key!r} are not those of the index, from "
                                f"{self.first_keys[number]!r} up to {after!r}")
        if (number == 0 and self.info.first_entry is not None and rows[0].key != self.info.first_entry) or (
                after is None and self.info.last_entry is not None and last.key != self.info.last_entry):
            raise place.damaged(0, "keys", f"{rows[0].key!r} to {last.key!r} are not those of info, from "
                                f"{self.info.first_entry!r} up to {self.info.last_entry!r}")

    def check_commits(self, number: int, rows: list[Row], place: Place) -> None:
        seqs, first = [row.seq for row in rows], int.from_bytes(self.first_keys[number], "big")
        after = int.from_bytes(self.first_keys[number + 1], "big") if number + 1 < len(self.first_keys) else None
        if any(a > b for a, b in pairwise(seqs)) or first > seqs[0] or (after is not None and seqs[-1] > after):
            raise place.damaged(0, "numbers of rows", f"{seqs[0]} to {seqs[-1]} do not ascend as in the index, from {first} up "
                                f"to {after}")
        said = seqs[0] if self.info.first_entry is None else int.from_bytes(self.info.first_entry, "big")
        if number == 0 and said != seqs[0]:
            raise place.damaged(0, "numbers of rows", f"they begin with {seqs[0]}, and info says {said}: a part is of another "
                                "object")

    def numbers(self, start: bytes = b"", end: bytes | None = None) -> range:
        """Return the numbers of the blocks that may have keys from `start` on and before `end`."""
        if self.is_wal:
            return range(len(self.offsets))
        last = len(self.offsets) if end is None else max(1, bisect_left(self.first_keys, end))
        return range(max(0, self.block_before(start)), min(last, len(self.offsets)))

    def blocks(self, start: bytes = b"", end: bytes | None = None) -> Iterator[list[Row]]:
        """Yield the rows of each block that may have keys from `start` on and before `end`; no others are unpacked."""
        return map(self.block, self.numbers(start, end))

    def block_before(self, key: bytes) -> int:
        """Return the first block that may have `key`. Versions of one key may be in several blocks."""
        number = bisect_right(self.first_keys, key) - 1
        while number > 0 and self.first_keys[number] == key:
            number -= 1
        return number

    def rows(self, start: bytes = b"", end: bytes | None = None) -> Iterator[Row]:
        """Yield the rows with keys from `start` on and before `end`, in the order of the object."""
        for rows in self.blocks(start, end):
            if start <= rows[0].key and (end is None or rows[-1].key < end) and not self.is_wal:
                yield from rows
            else:
                yield from (row for row in rows if start <= row.key and (end is None or row.key < end))

    def may_contain(self, key: bytes) -> bool:
        """Return False only if no row has the key: the filter, or the first and last key, exclude it."""
        return (self.is_wal or within_ends(self.info, key)) and (self.bloom is None or self.bloom.may_contain(key))


def within_ends(info: SstInfo, key: bytes) -> bool:
    """Return whether a key is from an SST's first key up to its last one, as far as info has them."""
    first, last = info.first_entry, info.last_entry
    return (first is None or key >= first) and (last is None or key <= last)
