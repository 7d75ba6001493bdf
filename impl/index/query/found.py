"""Safety: a query looks into every unit whose own times overlap the query's, whenever its blocks were made, and into no dataset
of another tenant.

Pyroscope computes from the query's times which partitions to look into, a day around them. A block whose data is older than
that is missed there.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index.kv import Rows
from highwater.impl.index.query.columns import Cache, Columns
from highwater.impl.index.query.matching import Pair, holding
from highwater.impl.index.query.meter import Meter
from highwater.impl.index.query.request import Query

NOTHING = np.zeros(0, np.int64)


class Found(NamedTuple):
    """The datasets of a unit that a query asks for. `hits`: their numbers. `sets`: for each number of labels among them, the
    label sets that satisfy the matchers."""

    columns: Columns
    hits: Any
    sets: dict[int, tuple[tuple[Pair, ...], ...]]


def units_of(rows: Rows, query: Query, cache: Cache, meter: Meter | None = None) -> list[tuple[Unit, Times]]:
    """Return the units to look into, in the order of tenants, shards, partitions. Raises what `meter` raises."""
    found = [(unit, times) for unit, times in cache.units_in(rows, tuple(sorted({"", *query.tenants})), meter)
             if times.min_ms <= query.max_ms and query.min_ms <= times.max_ms
             and (not query.shards or unit.shard in query.shards)]
    return sorted(found, key=lambda one: (one[0].tenant, one[0].shard, one[0].partition))


def datasets_of(columns: Columns, unit: Unit, query: Query, meter: Meter) -> Found:
    """Return the datasets of a unit that are of the query's tenants and times, and satisfy its matchers."""
    table, holds = columns.strings, holding(columns.sets, query.matchers, columns.strings.strings, columns.strings.index,
                                            query.semantics, meter)
    good = np.zeros(len(columns.distinct), bool)
    good[columns.owner[holds[columns.member]]] = True
    if not good.any():
        return Found(columns, NOTHING, {})
    chosen = good[columns.labels] & (columns.min_ms <= query.max_ms) & (columns.max_ms >= query.min_ms)
    if not unit.tenant:  # a tenant's own unit has its datasets only: validate.py
        own = np.zeros(len(table.strings), bool)
        own[[table.index[tenant] for tenant in sorted(query.tenants) if tenant in table.index]] = True
        chosen &= own[columns.tenant]
    hits = np.flatnonzero(chosen)
    sets = {number: tuple(columns.sets.sets[one] for one in columns.distinct[number] if holds[one])
            for number in dict.fromkeys(columns.labels[hits].tolist())}
    return Found(columns, hits, sets)


def search(rows: Rows, query: Query, cache: Cache, meter: Meter) -> Iterator[Found]:
    """Yield what each unit has for a query, in the order of units, also if it has nothing: each is a step.

    Raises DamagedRow, DamagedMessage, MalformedLabels, and what `meter` raises."""
    for unit, times in units_of(rows, query, cache, meter):
        meter.read()
        yield datasets_of(cache.columns(rows, unit, times, meter), unit, query, meter)
