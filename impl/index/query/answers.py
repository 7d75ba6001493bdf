"""Safety: an answer is whole, or there is none: what is too large is refused, with what to narrow.

A query goes unit by unit. Each step is a plain function, which `Apart` calls: in a thread, or after other tasks had their
turn. A view of the rows never changes, and the steps of all queries of a node run one at a time, because they share a cache.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from highwater.impl.codecs.index.messages import (
    LabelsResponse,
    QueryResponse,
    TenantResponse,
    TenantsResponse,
)
from highwater.impl.errors import Definite
from highwater.impl.index import units
from highwater.impl.index.kv import Rows
from highwater.impl.index.query.blocks import blocks_of
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.found import search
from highwater.impl.index.query.label_sets import add_values, messages_of
from highwater.impl.index.query.meter import Meter
from highwater.impl.index.query.request import Query
from highwater.impl.index.query.tenants import tenants, times_of

Result = TypeVar("Result")


class Apart(Protocol):
    """Calls a step of a query so that the other tasks of the node are not held up."""

    async def __call__(self, step: Callable[[], Result], /) -> Result: ...


NARROW = "a shorter time, fewer tenants, shards or labels, or add a matcher"


class AnswerTooLarge(Definite):
    """The answer has more bytes than this node sends. The message says how many, and what to narrow."""

    def __init__(self, most_bytes: int, what: str = NARROW):
        super().__init__(f"the answer has more than {most_bytes} bytes: ask for {what}")


async def metadata(rows: Rows, query: Query, cache: Cache, most_bytes: int, meter: Meter, apart: Apart) -> Any:
    """Return the QueryMetadataResponse. Raises AnswerTooLarge, and what `search` raises."""
    answer, size, parts = QueryResponse(), 0, search(rows, query, cache, meter)

    def add_unit() -> bool:
        """Add the blocks of the next unit; return whether there was one."""
        nonlocal size
        for found in parts:
            for block in blocks_of(found, query.labels, meter, answer.blocks.add):
                size += block.ByteSize()
                if size > most_bytes:
                    raise AnswerTooLarge(most_bytes)
            return True
        return False

    while await apart(add_unit):
        pass
    return answer


async def label_sets(rows: Rows, query: Query, cache: Cache, most_bytes: int, meter: Meter, apart: Apart) -> Any:
    """Return the QueryMetadataLabelsResponse; without requested labels it is empty. Raises what `metadata` raises."""
    values, letters, parts = set[tuple[str, ...]](), 0, search(rows, query, cache, meter)

    def add_unit() -> bool:
        """Add the label sets of the next unit; return whether there was one."""
        nonlocal letters
        for found in parts:
            letters += add_values(found, query.labels, values, meter)
            if letters > most_bytes:
                raise AnswerTooLarge(most_bytes)
            return True
        return False

    def message() -> Any:
        answer = LabelsResponse(labels=messages_of(query.labels, values))
        if answer.ByteSize() > most_bytes:
            raise AnswerTooLarge(most_bytes)
        return answer

    while query.labels and await apart(add_unit):
        pass
    return await apart(message)


def blocks(rows: Rows, tenant: str, shard: int, ulids: list[str], most_bytes: int, meter: Meter) -> list[Any]:
    """Return those of these blocks that are in the index. Raises InvalidUlid, AnswerTooLarge, and what `meter` raises."""
    size = 0

    def check(block: Any) -> None:
        nonlocal size
        meter.read()
        size += block.ByteSize()
        if size > most_bytes:
            raise AnswerTooLarge(most_bytes, "fewer blocks")

    return units.get(rows, tenant, shard, ulids, check)


def tenant_names(rows: Rows, cache: Cache, meter: Meter) -> Any:
    """Return the GetTenantsResponse. Raises what `meter` raises."""
    return TenantsResponse(tenant_ids=tenants(rows, cache, meter))


def tenant_stats(rows: Rows, tenant: str, cache: Cache, meter: Meter) -> Any:
    """Return the GetTenantResponse: whether the tenant has data in the index, and from when to when. Raises what `meter`
    raises."""
    found = times_of(rows, tenant, cache, meter)
    if found is None:
        return TenantResponse(stats={})
    return TenantResponse(stats={"data_ingested": True, "oldest_profile_time": found.min_ms,
                                 "newest_profile_time": found.max_ms})
