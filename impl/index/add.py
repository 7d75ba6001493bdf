"""Safety: a block that is added again, at any time, is in the index at most once, and never after it was removed."""

from typing import Any

from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.index import queue, removed, tombstones, units
from highwater.impl.index.answers import DONE, INVALID, PRECONDITION, Answer
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction
from highwater.impl.index.validate import invalid_block


def is_here(rows: Rows, unit: Unit, ulid: str) -> bool:
    """Return whether a block is in the index, so that it was added before."""
    return units.has(rows, unit, ulid)


def add(rows: Transaction, command: Any, index: int, now_ns: int, config: Config) -> Answer:
    """Apply an AddBlock entry. A block that was here is answered OK, and nothing changes.

    FAILED_PRECONDITION is final: the block is older than the horizon, or retention has dropped its unit. An operator
    who knows that a block was never added may say so: then it is added past the horizon.
    """
    block = command.metadata
    if (wrong := invalid_block(block)) is not None:
        return Answer(INVALID, wrong)
    unit = units.unit_of(block)
    named = Block(block.id, unit.shard, unit.tenant)
    if is_here(rows, unit, block.id) or removed.is_removed(rows, named):
        return DONE
    if removed.is_too_old(block.id, now_ns, config) and not command.past_horizon:
        return Answer(PRECONDITION, f"block {block.id} is older than the horizon of {config.horizon_ns // 1_000_000} ms, so "
                                    "nobody knows whether it was added before; keep it aside")
    if removed.is_dropped(rows, unit) or (command.past_horizon and tombstones.names_unit(rows, unit)):
        return Answer(PRECONDITION, f"retention has dropped the unit of block {block.id}")
    units.insert(rows, unit, block, index)
    queue.enqueue(rows, named, block.compaction_level, index, now_ns, config)
    return DONE
