"""Safety: the rows that a table returns are those of its object, in the order of its kind, or an error says what is wrong.

A table is an SST or a WAL object whose bytes are in memory. The seam has no ranged read: an object is read whole, by one
request. Blocks are checked and unpacked one by one, when they are asked for.

The rows of an SST ascend by key; the versions of one key descend by number. Those of a WAL object have the order of commits.
"""

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import block, bloom
from highwater.impl.db.damaged import DamagedObject, Place
from highwater.impl.db.parts import WAL, Index, Stats, content_of, info_of, table_of
from highwater.impl.db.rows import Row


class Table:
    """The table in the object `key`. Raises DamagedObject, CodecMissing; so do its methods."""

    def __init__(self, key: str, body: bytes, expected: SstInfo | None = None):
        """`expected` is what a manifest says of it."""
        self.key, self.body = key, body
        self.info, self.version, self.info_offset = info_of(body, key)
        if expected is not None and expected != self.info:
            raise DamagedObject(key, self.info_offset, "info", f"it is {self.info}, and the manifest says {expected}: the "
                                "object is another one, or damaged")
        index, place = self.part("index", self.info.index_offset, self.info.index_len)
        metas = table_of(index, Index, place).block_meta
        self.offsets = [meta.offset for meta in metas]
        self.first_keys = [meta.first_key for meta in metas]
        self.end_of_blocks = self.info.filter_offset if self.info.filter_len else self.info.index_offset
        if metas and (self.offsets[0] or any(a >= b for a, b in pairwise((*self.offsets, self.end_of_blocks)))):
            raise place.damaged(0, "offsets of blocks", f"they do not rise from 0 up to the last block, before byte "
                                f"{self.end_of_blocks:,}")
        if not self.is_wal and any(a > b for a, b in pairwise(self.first_keys)):
            raise place.damaged(0, "first keys of blocks", "they do not ascend")

    @property
    def is_wal(self) -> bool:
        return self.info.sst_type == WAL

    def part(self, name: str, offset: int, length: int) -> tuple[bytes, Place]:
        return content_of(self.body[offset:offset + length], self.info.compression, Place(self.key, offset, name))

    @cached_property
    def bloom(self) -> bloom.Bloom | None:
        """The filter; None if there is none that this release knows."""
        if not self.info.filter_len or self.info.filter_format != bloom.COMPOSITE:
            return None
        return bloom.decode(*self.part("filter", self.info.filter_offset, self.info.filter_len))

    @cached_property
    def stats(self) -> Stats | None:
        """The statistics; None if the object has none, as WAL objects do."""
        if not self.info.stats_len:
            return None
        content, place = self.part("stats", self.info.stats_offset, self.info.stats_len)
        return table_of(content, Stats, place)

    def block(self, number: int) -> list[Row]:
        """Return the rows of a block, and check their order."""
        start = self.offsets[number]
        end = self.offsets[number + 1] if number + 1 < len(self.offsets) else self.end_of_blocks
        content, place = self.part(f"block {number}", start, end - start)
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
        seqs = [row.seq for row in rows]
        first = self.first_keys[number]
        if any(a > b for a, b in pairwise(seqs)) or (first and int.from_bytes(first, "big") > seqs[0]):
            raise place.damaged(0, "numbers of rows", f"{seqs[:3]} .. do not ascend from the index's {first!r}")

    def blocks(self, start: bytes = b"", end: bytes | None = None) -> Iterator[list[Row]]:
        """Yield the rows of each block that may have keys from `start` on and before `end`; no others are read."""
        first = 0 if self.is_wal else max(0, self.block_before(start))
        for number in range(first, len(self.offsets)):
            if end is not None and not self.is_wal and number and self.first_keys[number] >= end:
                return
            yield self.block(number)

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
        first, last = self.info.first_entry, self.info.last_entry
        if not self.is_wal and ((first is not None and key < first) or (last is not None and key > last)):
            return False
        return self.bloom is None or self.bloom.may_contain(key)
