"""Safety: rows that come from ranges of an SST are those of one whole object, which is the one that the manifest means.

An SST is written once, and its end says where everything is:

    blocks · filter · index · stats · info · offset of info, version

A manifest repeats info, so the place of each part is known before the first request. The requests are few:

    small       an SST of at most SMALL bytes is read whole, by one request
    end         else one request brings what is behind the blocks, from the filter on
    long end    if that has more than TOGETHER bytes, the filter is read alone; if it excludes a key, nothing else is read
    blocks      neighbours by one request: a point read up to MOST bytes; a scan FIRST bytes ahead, then twice as many each
                time, up to MOST

So a point read sends 3 requests at most, and 1 if filter and index are kept, unless the blocks that may have its key are longer
than MOST. What is kept is in a Cache. A scan puts only ends there, and no blocks: these would push out what point reads need.

All that is used is checked as in an object that was read whole (impl/db/table.py): the end has info, which must be what the
manifest says, and the version of the blocks. Only a filter that is read alone is used before that, with its own checksum.
Blocks must be of the same version of the object as the end. If the object has been written again, its end is read again: it
must have the same index, or the read fails.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import bloom
from highwater.impl.db.bloom import Bloom
from highwater.impl.db.cache import Cache
from highwater.impl.db.compression import MOST as LONGEST_PART
from highwater.impl.db.damaged import DamagedObject, Place
from highwater.impl.db.parts import content_of, info_of
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table, within_ends
from highwater.impl.errors import BeyondEnd
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.world import Object, ObjectStore

SMALL, TOGETHER = 1 << 16, 1 << 18  # bytes
FIRST, MOST = 1 << 16, 1 << 20  # bytes that a scan reads ahead
LONGEST_INFO = 1 << 18  # bytes of info and footer: info has two keys, of 64 KiB at most
LONGEST_OBJECT = 1 << 44  # bytes, more than any store takes
ROW_BYTES, BLOCK_BYTES = 200, 100  # what a row, and a block's entry in the index, take in memory beside their own bytes


class End(NamedTuple):
    """The end of an SST, or all of it."""

    table: Table
    version: str  # of the object


class Ssts:
    """The SSTs in a store. Its methods raise NotFound, DamagedObject, CodecMissing."""

    def __init__(self, store: ObjectStore, cache: Cache | None = None):
        """`cache` may be shared by all that read this store."""
        self.store, self.cache = store, Cache() if cache is None else cache

    async def may_contain(self, key: str, info: SstInfo, row_key: bytes) -> bool:
        """Return False only if no row of the SST `key` has `row_key`: its filter, or its first and last key, exclude it."""
        if not within_ends(info, row_key):
            return False
        if not reads_filter_alone(info):
            end = await self.end(key, info)
            known = end.table.unpacked_bytes
            found = end.table.may_contain(row_key)
            if end.table.unpacked_bytes != known:  # its filter has been unpacked
                self.cache.put((key, "end"), end, size_of_end(end.table))
            return found
        bloom_filter = await self._filter(key, info)
        return bloom_filter is None or bloom_filter.may_contain(row_key)

    async def blocks(self, key: str, info: SstInfo, span: Span = EVERYTHING, keep: bool = False) -> AsyncIterator[list[Row]]:
        """Yield the rows of each block that may have keys of the span; no others are read. A point read `keep`s them."""
        end = await self.end(key, info)
        async for rows in self.blocks_of(end, span, keep):
            yield rows

    async def blocks_of(self, end: End, span: Span = EVERYTHING, keep: bool = False) -> AsyncIterator[list[Row]]:
        """Yield the same, of an SST whose end has been read."""
        table = end.table
        numbers, ahead = table.numbers(span.start, span.end), MOST if keep else FIRST
        at = numbers.start
        while at < numbers.stop:
            kept = self.cache.get((table.key, at))
            if kept is not None:
                yield kept
                at += 1
                continue
            first, stop = table.place_of(at)
            last = at + 1
            while last < numbers.stop and (further := table.place_of(last)[1]) - first <= ahead:
                last, stop = last + 1, further
            end, part = await self._part(end, first, stop)
            for number in range(at, last):
                begin, stop = table.place_of(number)
                rows = table.decoded(number, part[begin - first:stop - first])
                if keep:
                    self.cache.put((table.key, number), rows, size_of(rows))
                yield rows
            at, ahead = last, min(2 * ahead, MOST)

    async def end(self, key: str, info: SstInfo) -> End:
        """Return the end of an SST, which is kept."""
        found: End | None = self.cache.get((key, "end"))
        return found if found is not None and found.table.info == info else await self._read_end(key, info)

    async def end_without_manifest(self, key: str) -> End:
        """Return the end of an SST of which no manifest says anything, with its filter. It is not kept."""
        size = (await self.store.head(key)).size_bytes
        start = max(0, size - LONGEST_INFO - TOGETHER)
        found = await self._range(key, start, max(size, 1))
        info, _, _ = info_of(found.body, key, start)
        if (first := begin_of(info)) < start:
            start = first
            found = await self._range(key, start, size)
        return End(Table(key, found.body, None, start), found.version)

    async def _read_end(self, key: str, info: SstInfo) -> End:
        check(key, info)
        stop = end_of_parts(info)
        start = 0 if stop <= SMALL else info.index_offset if reads_filter_alone(info) else begin_of(info)
        found = await self._range(key, start, stop + LONGEST_INFO)
        end = End(Table(key, found.body, info, start), found.version)
        self.cache.put((key, "end"), end, size_of_end(end.table))
        return end

    async def _filter(self, key: str, info: SstInfo) -> Bloom | None:
        """Return the filter of an SST with a long end, which is kept; None if the part has none that this release knows."""
        kept: tuple[Bloom | None] | None = self.cache.get((key, "filter"))
        if kept is not None:
            return kept[0]
        check(key, info)
        found = await self._range(key, info.filter_offset, info.filter_offset + info.filter_len)
        decoded = bloom.decode(*content_of(found.body, info.compression, Place(key, info.filter_offset, "filter")))
        self.cache.put((key, "filter"), (decoded,), BLOCK_BYTES + (len(decoded.bits) if decoded else 0))
        return decoded

    async def _part(self, end: End, start: int, stop: int) -> tuple[End, bytes]:
        """Return bytes of an SST, and its end, which is read again if the object has been written again."""
        table = end.table
        if start >= table.start:
            return end, table.body[start - table.start:stop - table.start]
        found = await self._range(table.key, start, stop)
        if found.version != end.version:
            end = await self._read_end(table.key, table.info)
            if (end.version, end.table.offsets, end.table.first_keys) != (found.version, table.offsets, table.first_keys):
                raise DamagedObject(table.key, start, "version", "while it was read, another object was put in its place")
        return end, found.body

    async def _range(self, key: str, start: int, stop: int) -> Object:
        try:
            return await self.store.get_range(key, start, stop)
        except BeyondEnd:
            raise DamagedObject(key, start, "end", "the object ends here, or before, and should go on: it is cut off, or "
                                "another one, or the manifest is damaged") from None


def has_filter(info: SstInfo) -> bool:
    """Return whether there is a filter that this release knows."""
    return bool(info.filter_len) and info.filter_format == bloom.COMPOSITE


def begin_of(info: SstInfo) -> int:
    """Return where the parts begin that reads need beside the blocks."""
    return info.filter_offset if has_filter(info) else info.index_offset


def end_of_parts(info: SstInfo) -> int:
    """Return where info begins, as the places of the other parts tell."""
    return max(info.index_offset + info.index_len, info.stats_offset + info.stats_len)


def reads_filter_alone(info: SstInfo) -> bool:
    """Return whether an SST has a filter, and so long an end that the filter is worth a request of its own."""
    return has_filter(info) and end_of_parts(info) > SMALL and end_of_parts(info) - begin_of(info) > TOGETHER


def check(key: str, info: SstInfo) -> None:
    """Check that a manifest's info names bytes that an object can have. Raises DamagedObject."""
    for name in ("filter", "index", "stats"):
        start, length = getattr(info, f"{name}_offset"), getattr(info, f"{name}_len")
        if start + length > LONGEST_OBJECT or length > LONGEST_PART:
            raise DamagedObject(key, 0, f"{name} as the manifest has it", f"{length:,} bytes from byte {start:,} on are more "
                                "than an SST has")
    if info.filter_len and info.filter_offset > info.index_offset:
        raise DamagedObject(key, 0, "filter as the manifest has it", f"it is at byte {info.filter_offset:,}, behind the index "
                            f"at {info.index_offset:,}")


def size_of(rows: list[Row]) -> int:
    return sum(len(row.key) + len(row.value) for row in rows) + ROW_BYTES * len(rows)


def size_of_end(table: Table) -> int:
    """Return the bytes that an end takes: its own, its filter once it is unpacked, and the decoded index."""
    return len(table.body) + table.unpacked_bytes + sum(map(len, table.first_keys)) + BLOCK_BYTES * len(table.offsets)
