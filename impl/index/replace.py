"""Safety: the blocks of a result become visible in the step in which its sources stop to be. Each datum is in one of them.

The sources are kept as removed, and their objects get a tombstone. A result that belongs to a unit that retention has dropped
does not become visible: it is removed at once, and its object is deleted like the sources'.
"""

from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.partitions import partition_of
from highwater.impl.codecs.index.rows import Block, Unit
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.index import queue, removed, tombstones, units
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction
from highwater.impl.index.validate import invalid_block


def unit_of(block: Block) -> Unit:
    return Unit(partition_of(block.ulid), block.tenant, block.shard)


def is_visible(rows: Rows, block: Block) -> bool:
    return units.has(rows, unit_of(block), block.ulid)


def sources_of(plan: Any) -> list[Block]:
    return [Block(ulid, plan.shard, plan.tenant) for ulid in plan.source_blocks]


def invalid_new(block: Any, plan: Any) -> str | None:
    """Return why a block cannot be in the result of a job, or None."""
    if (wrong := invalid_block(block)) is not None:
        return wrong
    if block.shard != plan.shard or block.compaction_level != plan.compaction_level + 1:
        return f"block {block.id} is of shard {block.shard}, level {block.compaction_level}; the job is {plan.name}"
    if plan.tenant and tenant_of(block) != plan.tenant:
        return f"block {block.id} is of the tenant {tenant_of(block)!r}; the job is {plan.name}"
    if ulids.time_ms(block.id) not in map(ulids.time_ms, plan.source_blocks):
        return f"block {block.id} has the time of none of its sources"
    return None


def invalid_result(rows: Rows, plan: Any, result: Any) -> str | None:
    """Return why a job cannot end with this result, or None."""
    if sorted(result.source_blocks.blocks) != sorted(plan.source_blocks):
        return f"the result of {plan.name} has other sources"
    if not result.new_blocks:
        return f"the result of {plan.name} has no blocks"
    missing = [block.ulid for block in sources_of(plan) if not is_visible(rows, block)]
    if missing:
        return f"source {missing[0]} of {plan.name} is gone"
    seen = set()
    for block in result.new_blocks:
        try:
            if (wrong := invalid_new(block, plan)) is not None:
                return wrong
            named = Block(block.id, block.shard, tenant_of(block))
        except Undecodable as error:
            return str(error)
        if named in seen or is_visible(rows, named) or removed.is_removed(rows, named):
            return f"block {block.id} is known already"
        seen.add(named)
    return None


def replace(rows: Transaction, plan: Any, blocks: list[Any], index: int, now_ns: int, config: Config) -> None:
    """Put `blocks` in the place of a job's sources, by the log entry `index`."""
    bury(rows, sources_of(plan), plan.name, plan.compaction_level, index, now_ns)
    late: dict[str, list[Block]] = {}  # tenant -> blocks of dropped units
    for block in blocks:
        named = Block(block.id, block.shard, tenant_of(block))
        if is_dropped(rows, named, now_ns, config):
            late.setdefault(named.tenant, []).append(named)
            continue
        units.insert(rows, unit_of(named), block, index)
        queue.enqueue(rows, named, block.compaction_level, index, now_ns, config)
    for tenant, several in late.items():
        bury(rows, several, f"{plan.name}-dropped-T{tenant}", plan.compaction_level + 1, index, now_ns)


def is_dropped(rows: Rows, block: Block, now_ns: int, config: Config) -> bool:
    """Return whether a result must not become visible, because retention has dropped its unit.

    Once the horizon refuses the unit's blocks it may be forgotten as dropped, while its tombstone is still there and would
    delete the result's object. A job has such a result if an operator has added its source past the horizon.
    """
    unit = unit_of(block)
    return removed.is_dropped(rows, unit) or (
        removed.is_too_old(block.ulid, now_ns, config) and tombstones.names_unit(rows, unit))


def bury(rows: Transaction, blocks: list[Block], name: str, level: int, index: int, now_ns: int) -> None:
    """Remove blocks, keep that they are, and let their objects be deleted."""
    for block in blocks:
        if is_visible(rows, block):
            units.remove(rows, unit_of(block), block.ulid)
        removed.remember(rows, block, index)
    tombstones.add(rows, tombstones.of_blocks(name, level, blocks), index, now_ns)
