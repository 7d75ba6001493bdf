"""Safety: a unit that retention has dropped stays dropped, and no more is dropped than the cleaner has read.

The command names units by their tombstones. It has an effect only in the term in which it was made. A unit that has changed
since it was read stays. The unit's blocks leave the queue, and the jobs that compact them end.
"""

from typing import Any

from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.index import jobs, plan_update, queue, removed, tombstones, units
from highwater.impl.index.answers import ABORTED, DONE, INVALID, Answer
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction
from highwater.impl.index.validate import invalid_tenant

WINDOW_NS = WINDOW_S * 1_000_000_000


def unit_of(tombstone: Any) -> Unit:
    return Unit(Partition(tombstone.timestamp), tombstone.tenant, tombstone.shard)


def invalid(message: Any) -> str | None:
    """Return what is wrong with a tombstone of a Truncate command, or None."""
    if not message.HasField("shard") or message.HasField("blocks"):
        return "a tombstone names no unit: single blocks are not dropped"
    told = message.shard
    if (wrong := invalid_tenant(told.tenant)) is not None:
        return wrong
    if told.duration != WINDOW_NS or told.timestamp % WINDOW_NS or told.timestamp < 0:
        return f"{told.name}: {told.timestamp} ns, for {told.duration} ns, is no partition"
    if told.name != names.unit_tombstone_name(Partition(told.timestamp), told.tenant, told.shard):
        return f"{told.name} is not the name of its unit"
    return None


def is_unchanged(rows: Rows, tombstone: Any) -> bool:
    """Return whether a unit is there, and as the cleaner has read it."""
    times = units.times(rows, unit_of(tombstone))
    return times is not None and times.version == tombstone.unit_version


def truncate(rows: Transaction, request: Any, term: int, index: int, now_ns: int, config: Config) -> Answer:
    """Apply a Truncate entry."""
    if not plan_update.is_of_term(term, request.term):
        return Answer(ABORTED, f"the command was made in term {request.term}, and appended in term {term}: read again")
    for message in request.tombstones:
        if (wrong := invalid(message)) is not None:
            return Answer(INVALID, wrong)
    for message in request.tombstones:
        if is_unchanged(rows, message.shard):
            drop(rows, unit_of(message.shard), message, index, now_ns, config)
    removed.forget_dropped(rows, now_ns, config)
    return DONE


def drop(rows: Transaction, unit: Unit, message: Any, index: int, now_ns: int, config: Config) -> None:
    """Drop a unit by the log entry `index`: its rows, what waits of it, and the jobs that compact it."""
    blocks = {Block(ulid, unit.shard, unit.tenant) for ulid in units.ids(rows, unit)}
    units.drop(rows, unit)
    removed.remember_dropped(rows, unit, index, now_ns)
    tombstones.add(rows, message, index, now_ns)
    queue.dequeue(rows, [queued for queued in queue.waiting(rows) if queue.block_of(queued) in blocks])
    for state in list(jobs.states(rows)):
        plan = jobs.plan(rows, state.name)
        if plan is not None and (plan.tenant, plan.shard) == (unit.tenant, unit.shard) and any(
                Block(ulid, unit.shard, unit.tenant) in blocks for ulid in plan.source_blocks):
            plan_update.cancel(rows, plan.name, index, now_ns, config)
