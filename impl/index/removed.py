"""Safety: a block that was compacted or dropped is never added again, however late its writer tries once more.

An id stays known as removed until its object is deleted and the horizon refuses it. A dropped unit stays known until the
horizon refuses all its blocks, and no job can bring one of them back any more. Pyroscope looks for the id in the tombstones,
and these leave the index with the next job.
"""

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, under

FORGOTTEN_AT_ONCE = 100  # rows that one entry forgets at most


def remember(rows: Transaction, block: Block, index: int) -> None:
    """Keep that the log entry `index` has removed a block."""
    rows.put(row.removed_key(row.REMOVED, block), row.U64.pack(index))


def is_removed(rows: Rows, block: Block) -> bool:
    return any(rows.get(row.removed_key(bucket, block)) is not None for bucket in (row.REMOVED, row.GONE))


def gone(rows: Transaction, block: Block) -> None:
    """Keep that a removed block's object is deleted."""
    value = rows.get(row.removed_key(row.REMOVED, block))
    if value is not None:
        rows.delete(row.removed_key(row.REMOVED, block))
        rows.put(row.removed_key(row.GONE, block), value)


def remember_dropped(rows: Transaction, unit: Unit, index: int, now_ns: int) -> None:
    """Keep that the log entry `index` has dropped a unit."""
    rows.put(row.dropped_key(unit), row.TWO_U64.pack(index, now_ns))


def is_dropped(rows: Rows, unit: Unit) -> bool:
    return rows.get(row.dropped_key(unit)) is not None


def is_too_old(ulid: str, now_ns: int, config: Config) -> bool:
    """Return whether a block was made before the horizon, so that nothing is known of whether it was here once."""
    return ulids.time_ns(ulid) < now_ns - config.horizon_ns


def forget(rows: Transaction, now_ns: int, config: Config) -> None:
    """Forget ids whose objects are deleted and which the horizon refuses anyway; they are sorted by their time."""
    old: list[bytes] = []
    before_ns = now_ns - config.horizon_ns
    for key, _ in under(rows, row.GONE):
        if len(old) == FORGOTTEN_AT_ONCE or ulids.time_ns(row.removed_of(key).ulid) >= before_ns:
            break
        old.append(key)
    for key in old:
        rows.delete(key)


def may_come_back(rows: Rows, unit: Unit) -> bool:
    """Return whether a job may still have a block of this unit as its result: its sources would be anonymous blocks."""
    anonymous = unit._replace(tenant="")
    return unit.tenant != "" and rows.get(row.index_key(anonymous, row.TIMES)) is not None


def forget_dropped(rows: Transaction, now_ns: int, config: Config) -> None:
    """Forget the dropped units of which the horizon refuses every block, and no job can bring one back."""
    old: list[bytes] = []
    for key, _ in under(rows, row.DROPPED):
        unit, _ = row.unit_of(key[1:])
        if unit.partition.end_ns <= now_ns - config.horizon_ns and not may_come_back(rows, unit):
            old.append(key)
    for key in old:
        rows.delete(key)
