"""Reads SSTs by ranges, and counts the requests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import ssts
from highwater.impl.db.cache import Cache
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import Object

KEY = "db/compacted/x.sst"


class Counting(MemoryStore):
    """A store that remembers which ranges it was asked for."""

    def __init__(self):
        super().__init__()
        self.ranges: list[tuple[int, int]] = []

    async def get_range(self, key: str, start: int, end: int) -> Object:
        self.ranges.append((start, end))
        return await super().get_range(key, start, end)

    def sent(self) -> int:
        """Return the number of ranges since the last call of this."""
        ranges, self.ranges = self.ranges, []
        return len(ranges)


def store_of(body: bytes) -> Counting:
    store = Counting()
    asyncio.run(store.put(KEY, body))
    return store


@contextmanager
def sizes(small: int = 0, together: int = 0, first: int = 1 << 16, most: int = 1 << 20) -> Iterator[None]:
    """Read as if SSTs were much larger: no SST is small, and each filter is read alone."""
    with patch.multiple(ssts, SMALL=small, TOGETHER=together, FIRST=first, MOST=most):
        yield


def rows_by_ranges(body: bytes, info: SstInfo | None = None, span: Span = EVERYTHING, cache: Cache | None = None) -> list[Row]:
    """Return the rows of all blocks that may have keys of the span. Without `info` it is as if no manifest were there."""
    async def go() -> list[Row]:
        of = Ssts(MemoryStore(), cache)
        await of.store.put(KEY, body)
        end = await of.end(KEY, info) if info else await of.end_without_manifest(KEY)
        return [row async for rows in of.blocks_of(end, span) for row in rows]

    return asyncio.run(go())
