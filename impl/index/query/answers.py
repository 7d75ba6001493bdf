"""Safety: an answer is whole, or there is none: what is too large is refused, with what to narrow.

A view of the rows never changes, so other tasks may run between two units of a query.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.impl.codecs.index.messages import (
    LabelsResponse,
    QueryResponse,
    TenantResponse,
    TenantsResponse,
)
from highwater.impl.errors import Definite
from highwater.impl.index.kv import Rows
from highwater.impl.index.query.blocks import blocks_of
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.found import search
from highwater.impl.index.query.label_sets import messages_of, values_of
from highwater.impl.index.query.request import Query
from highwater.impl.index.query.tenants import tenants, times_of

Breath = Callable[[], Awaitable[None]]  # lets other tasks run


class AnswerTooLarge(Definite):
    """The answer has more bytes than this node sends. The message says how many, and what to narrow."""

    def __init__(self, most_bytes: int):
        super().__init__(f"the answer has more than {most_bytes} bytes: ask for a shorter time, fewer tenants, shards or "
                         "labels, or add a matcher")


async def metadata(rows: Rows, query: Query, cache: Cache, most_bytes: int, breath: Breath) -> Any:
    """Return the QueryMetadataResponse. Raises AnswerTooLarge, and what `search` raises."""
    answer, size = QueryResponse(), 0
    for found in search(rows, query, cache):
        for block in blocks_of(found, query.labels, answer.blocks.add):
            size += block.ByteSize()
            if size > most_bytes:
                raise AnswerTooLarge(most_bytes)
        await breath()
    return answer


async def label_sets(rows: Rows, query: Query, cache: Cache, most_bytes: int, breath: Breath) -> Any:
    """Return the QueryMetadataLabelsResponse; without requested labels it is empty. Raises what `metadata` raises."""
    values = set[tuple[str, ...]]()
    for found in search(rows, query, cache) if query.labels else ():
        values |= values_of(found, query.labels)
        await breath()
    answer = LabelsResponse(labels=messages_of(query.labels, values))
    if answer.ByteSize() > most_bytes:
        raise AnswerTooLarge(most_bytes)
    return answer


def tenant_names(rows: Rows, cache: Cache) -> Any:
    """Return the GetTenantsResponse."""
    return TenantsResponse(tenant_ids=tenants(rows, cache))


def tenant_stats(rows: Rows, tenant: str, cache: Cache) -> Any:
    """Return the GetTenantResponse: whether the tenant has data in the index, and from when to when."""
    found = times_of(rows, tenant, cache)
    if found is None:
        return TenantResponse(stats={})
    return TenantResponse(stats={"data_ingested": True, "oldest_profile_time": found.min_ms,
                                 "newest_profile_time": found.max_ms})
