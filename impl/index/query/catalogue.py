"""The units of an index, found by jumps from one to the next: none of their blocks is looked at."""

from collections.abc import Iterator, Sequence

from highwater.impl.codecs.index import partitions
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index.kv import Row, Rows, after_prefix
from highwater.impl.index.query.meter import Meter


def first(rows: Rows, start: bytes, end: bytes | None) -> Row | None:
    return next(iter(rows.range(start, end)), None)


def all_units(rows: Rows, tenants: Sequence[str] | None = None, meter: Meter | None = None) -> Iterator[tuple[Unit, Times]]:
    """Yield the units of these tenants, or of all, with their times; in the order of partitions, tenants, shards.

    `meter` counts each jump. Raises what it raises."""
    meter = meter or Meter(1 << 62)
    start, last = row.INDEX, after_prefix(row.INDEX)
    while (at := first(rows, start, last)) is not None:
        unit, _ = row.unit_of(at[0][1:])
        partition = row.INDEX + partitions.encode(unit.partition)
        for prefix in [partition] if tenants is None else [partition + row.tenant_bytes(one) + b"\0" for one in tenants]:
            yield from units_under(rows, prefix, meter)
        start = partition + b"\xff"  # no tenant's name has this byte


def units_under(rows: Rows, prefix: bytes, meter: Meter) -> Iterator[tuple[Unit, Times]]:
    start, last = prefix, after_prefix(prefix)
    meter.read()
    while (at := first(rows, start, last)) is not None:
        meter.read()
        unit, kind = row.unit_of(at[0][1:])
        if kind == row.TIMES:  # its first row
            yield unit, row.times_of(at[1])
        start = row.index_key(unit) + b"\xff"
