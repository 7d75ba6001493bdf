"""Safety: a query looks into every unit whose own times overlap the query's, whenever its blocks were made, and into no dataset
of another tenant.

Pyroscope computes from the query's times which partitions to look into, a day around them. A block whose data is older than
that is missed there.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.codecs.index import partitions
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index.kv import Row, Rows, after_prefix
from highwater.impl.index.query.columns import Cache, Columns
from highwater.impl.index.query.matching import Pair, conditions_of, satisfies
from highwater.impl.index.query.request import Query


class Found(NamedTuple):
    """The datasets of a unit that a query asks for. `hits`: their numbers. `sets`: for each number of labels among them, the
    label sets that satisfy the matchers."""

    columns: Columns
    hits: Any
    sets: dict[int, tuple[tuple[Pair, ...], ...]]


def first(rows: Rows, start: bytes, end: bytes | None) -> Row | None:
    return next(iter(rows.range(start, end)), None)


def all_units(rows: Rows, tenants: list[str] | None = None) -> Iterator[tuple[Unit, Times]]:
    """Yield the units of these tenants, or of all, with their times; in the order of partitions, tenants, shards."""
    start, last = row.INDEX, after_prefix(row.INDEX)
    while (at := first(rows, start, last)) is not None:
        unit, _ = row.unit_of(at[0][1:])
        partition = row.INDEX + partitions.encode(unit.partition)
        for prefix in [partition] if tenants is None else [partition + row.tenant_bytes(one) + b"\0" for one in tenants]:
            yield from units_under(rows, prefix)
        start = partition + b"\xff"  # no tenant's name has this byte


def units_under(rows: Rows, prefix: bytes) -> Iterator[tuple[Unit, Times]]:
    start, last = prefix, after_prefix(prefix)
    while (at := first(rows, start, last)) is not None:
        unit, kind = row.unit_of(at[0][1:])
        if kind == row.TIMES:  # its first row
            yield unit, row.times_of(at[1])
        start = row.index_key(unit) + b"\xff"


def units_of(rows: Rows, query: Query) -> list[tuple[Unit, Times]]:
    """Return the units to look into, in the order of tenants, shards, partitions."""
    found = [(unit, times) for unit, times in all_units(rows, sorted({"", *query.tenants}))
             if times.min_ms <= query.max_ms and query.min_ms <= times.max_ms
             and (not query.shards or unit.shard in query.shards)]
    return sorted(found, key=lambda one: (one[0].tenant, one[0].shard, one[0].partition))


def datasets_of(columns: Columns, query: Query) -> Found:
    """Return the datasets of a unit that are of the query's tenants and times, and satisfy its matchers."""
    table = columns.strings
    asked = [number for tenant in query.tenants if (number := table.index.get(tenant)) is not None]
    inside = (columns.min_ms <= query.max_ms) & (columns.max_ms >= query.min_ms)
    hits = np.flatnonzero(inside & np.isin(columns.tenant, asked))
    conditions = conditions_of(query.matchers, table.strings, table.index, query.semantics)
    labels = columns.labels[hits]
    sets = {}
    for number in np.unique(labels).tolist():
        if holding := tuple(pairs for pairs in columns.distinct[number] if satisfies(pairs, conditions)):
            sets[number] = holding
    return Found(columns, hits[np.isin(labels, list(sets))], sets)


def search(rows: Rows, query: Query, cache: Cache) -> Iterator[Found]:
    """Yield what each unit has for a query, in the order of units. Raises DamagedRow, DamagedMessage, MalformedLabels."""
    for unit, times in units_of(rows, query):
        found = datasets_of(cache.columns(rows, unit, times), query)
        if len(found.hits):
            yield found
