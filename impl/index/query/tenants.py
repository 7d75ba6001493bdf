"""Safety: a tenant is known from its first block on, also if that is one with datasets of several tenants.

A tenant's times are those of its datasets in such anonymous blocks, and of its own units. The times of a unit only widen, so
they may be wider than its blocks' after a compaction.
"""

from typing import NamedTuple

import numpy as np

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.rows import Unit
from highwater.impl.index.kv import Rows, under
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.meter import Meter


class Range(NamedTuple):
    """The first and the last time of a tenant's data, in ms."""

    min_ms: int
    max_ms: int


def has_blocks(rows: Rows, unit: Unit) -> bool:
    return next(iter(under(rows, row.index_key(unit, row.BLOCK))), None) is not None


def tenants(rows: Rows, cache: Cache, meter: Meter) -> list[str]:
    """Return the tenants that have data in the index, sorted. Raises what `meter` raises."""
    found = set[str]()
    for unit, times in all_units(rows, None, meter):
        if not unit.tenant:
            columns = cache.columns(rows, unit, times, meter)
            found.update(columns.strings.strings[number] for number in np.unique(columns.tenant).tolist())
        elif unit.tenant not in found and has_blocks(rows, unit):
            found.add(unit.tenant)
    return sorted(found - {""})


def times_of(rows: Rows, tenant: str, cache: Cache, meter: Meter) -> Range | None:
    """Return the times of a tenant's data; None if it has none in the index. Raises what `meter` raises."""
    ranges: list[tuple[int, int]] = []
    for unit, times in all_units(rows, ["", tenant], meter):
        if unit.tenant:
            ranges += [(times.min_ms, times.max_ms)] if has_blocks(rows, unit) else []
            continue
        columns = cache.columns(rows, unit, times, meter)
        own = columns.tenant == columns.strings.index.get(tenant, -1)
        ranges += [(int(columns.min_ms[own].min()), int(columns.max_ms[own].max()))] if own.any() else []
    return Range(min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
