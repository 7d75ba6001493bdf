"""Safety: a reader finds the object of every block that an answer names, or is told that its time is over.

A removed block's object is deleted after a delay, which is longer than a query may take. So a reader counts the time since it
asked. What it is answered once that is over counts for nothing: the object may have been deleted before. The index must be
asked for a current answer. A stale one may name blocks that were removed long ago.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.impl.codecs.index.names import block_path
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import Definite, NotFound
from highwater.impl.world import Object, World

Query = Callable[[Any], Awaitable[Any]]  # a QueryRequest -> a QueryResponse; raises StoreError


class QueryOver(Definite):
    """The time of a query is over, so the objects of its answer may be deleted. Ask again for less, or read faster."""


class Reader:
    """A reader of one index and one store."""

    def __init__(self, world: World, query: Query, query_ms: int):
        """Make a reader. `query` asks the index, and for no stale answer; `query_ms`: at most the index's `query_ns`."""
        self.world, self.query, self.query_ms = world, query, query_ms

    async def read(self, request: Any, take: Callable[[Any, Object], None]) -> int:
        """Call `take` with each block of the answer to a QueryRequest, and its object. Return how many there are.

        Raises QueryOver, NotFound if somebody else has deleted an object, and what the index and the store raise.
        """
        began_ms = self.world.clock.monotonic_ms()
        blocks = (await self.query(request)).blocks
        for block in blocks:
            path = block_path(block.shard, tenant_of(block), block.id, block.compaction_level)
            try:
                found = await self.world.store.get(path)
            except NotFound:
                self.check(began_ms)
                raise
            self.check(began_ms)
            take(block, found)
        return len(blocks)

    def check(self, began_ms: int) -> None:
        """Raise QueryOver if the time of a query is over that began then."""
        if self.world.clock.monotonic_ms() - began_ms > self.query_ms:
            raise QueryOver(f"the query has read for more than {self.query_ms} ms: ask again for less, or read faster")
