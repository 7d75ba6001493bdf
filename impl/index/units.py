"""Safety: a block's row, its unit's strings and times change together, and a block is read with the strings it was added with.

A unit is the blocks of one partition, tenant and shard. Here are its rows: one block of it is added, removed, or read;
retention drops it as a whole. The times of a unit only widen.
"""

from collections.abc import Callable, Iterator
from typing import Any

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import BlockMeta, decode, encode
from highwater.impl.codecs.index.partitions import partition_of
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.codecs.index.strings import Table, exported, imported, table_of_rows, tenant_of
from highwater.impl.index.kv import Rows, Transaction, under


def unit_of(block: Any) -> Unit:
    """Return the unit that a valid block belongs to."""
    return Unit(partition_of(block.id), tenant_of(block), block.shard)


def times(rows: Rows, unit: Unit) -> Times | None:
    """Return the times of a unit; None if there is no such unit."""
    value = rows.get(row.index_key(unit, row.TIMES))
    return None if value is None else row.times_of(value)


def table(rows: Rows, unit: Unit) -> Table:
    """Return the strings of a unit."""
    return table_of_rows(tuple(value for _, value in under(rows, row.index_key(unit, row.STRINGS))))


def has(rows: Rows, unit: Unit, ulid: str) -> bool:
    return rows.get(row.block_key(unit, ulid)) is not None


def insert(rows: Transaction, unit: Unit, block: Any, index: int) -> None:
    """Add a block by the log entry `index`. It is valid, and the unit does not have it."""
    before_it = table(rows, unit)
    own, new = imported(before_it, block)
    if new:
        rows.put(row.strings_key(unit, len(before_it.strings)), row.strings_value(new))
    rows.put(row.block_key(unit, block.id), encode(own))
    before = times(rows, unit)
    if before is None:
        rows.put(row.index_key(unit, row.INCARNATION), row.U64.pack(index))
        before = Times(block.min_time, block.max_time, 0)
    after = Times(min(before.min_ms, block.min_time), max(before.max_ms, block.max_time), before.version + 1)
    rows.put(row.index_key(unit, row.TIMES), row.times_value(after))


def remove(rows: Transaction, unit: Unit, ulid: str) -> None:
    """Remove a block that the unit has."""
    rows.delete(row.block_key(unit, ulid))
    before = times(rows, unit)
    if before is not None:
        rows.put(row.index_key(unit, row.TIMES), row.times_value(before._replace(version=before.version + 1)))


def ids(rows: Rows, unit: Unit) -> list[str]:
    """Return the ULIDs of a unit's blocks, in order. Raises DamagedRow."""
    prefix = row.index_key(unit, row.BLOCK)
    return [row.ulid_of(key[len(prefix):]) for key, _ in under(rows, prefix)]


def drop(rows: Transaction, unit: Unit) -> None:
    """Remove all rows of a unit."""
    prefix = row.index_key(unit)
    rows.delete_range(prefix + b"\0", prefix + b"\xff")


def get(rows: Rows, tenant: str, shard: int, ulids: list[str], check: Callable[[Any], None] = lambda block: None) -> list[Any]:
    """Return those of these blocks that are in the index, each with a string table of its own. `check` is called with each.

    Raises InvalidUlid, and what `check` raises."""
    found, tables = [], {}
    for ulid in ulids:
        unit = Unit(partition_of(ulid), tenant, shard)
        value = rows.get(row.block_key(unit, ulid))
        if value is not None:
            if unit not in tables:
                tables[unit] = table(rows, unit).strings
            found.append(exported(tables[unit], decode(BlockMeta, value)))
            check(found[-1])
    return found


def visible(rows: Rows) -> Iterator[tuple[Unit, str]]:
    """Yield (unit, ULID) of every block, in the order of partitions, tenants, shards. Raises DamagedRow."""
    for key, _ in under(rows, row.INDEX):
        unit, rest = row.unit_of(key[1:])
        if rest[:1] == row.BLOCK:
            yield unit, row.ulid_of(rest[1:])
