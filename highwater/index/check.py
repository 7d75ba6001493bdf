"""Checks the folder of a node of an index that does not run: its log, its snapshot, and the rows in that.

The log's entries behind the snapshot are read, and not applied: which of them are committed, only the cluster knows.
"""

from collections import Counter
from typing import Any, NamedTuple

from highwater.cluster import check as cluster
from highwater.cluster.check import Content
from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import BlockMeta, JobPlan, JobState, Tombstones, decode
from highwater.impl.codecs.index.rows import U64, Block, Times, Unit
from highwater.impl.codecs.index.strings import exported
from highwater.impl.index import removed, units
from highwater.impl.index.config import Config, ConfigRefused, Level
from highwater.impl.index.kv import Rows, under
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.replicated import load, machine
from highwater.impl.index.validate import invalid_block
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity
from highwater.impl.raft.entries import COMMAND
from highwater.impl.raft.faults import OtherSettings
from highwater.impl.raft.machine import Machine


class Found(NamedTuple):
    """The content of a folder, and what is wrong with it: a line each, nothing if all is well."""

    content: Content
    units: int
    blocks: int
    wrong: tuple[str, ...]


async def checked(disk: Disk) -> Found:
    """Check a folder, and change nothing. Raises DiskLocked, NoFolder, Damaged, OtherVersion."""
    content = await cluster.checked(disk)
    wrong = wrong_entries(content)
    if not content.snapshot.index:
        return Found(content, 0, 0, tuple(wrong))
    try:
        rows = load(content.snapshot.content)
        wrong += wrong_rows(rows)
        return Found(content, sum(1 for _ in all_units(rows)), sum(1 for _ in units.visible(rows)), tuple(wrong))
    except Undecodable as error:
        return Found(content, 0, 0, (*wrong, f"the snapshot up to entry {content.snapshot.index:,}: {error}"))


def machine_of(content: Content) -> Machine:
    """Return the machine of an index with the settings that its folder names. Raises OtherSettings."""
    text = content.whose.settings if content.whose else ""
    try:
        numbers = dict(setting.split("=") for setting in text.split())
        levels = tuple(Level(*map(int, level.split(":"))) for level in numbers.pop("levels", "").split(",") if level)
        config = Config(retry_ns=1, query_ns=1)._replace(**{name: int(number) for name, number in numbers.items()})
        return machine(config._replace(levels=levels) if text else Config())
    except (ValueError, TypeError, ConfigRefused) as error:
        raise OtherSettings(f"{identity.FILE}: {text!r} are not the settings of an index: {error}") from None


def wrong_entries(content: Content) -> list[str]:
    """Return which entries of the log are none of an index."""
    wrong = []
    for index, entry in enumerate(content.log.entries, content.first):
        if entry.kind == COMMAND:
            try:
                command_of(entry.body[U64.size:])
            except Undecodable as error:
                wrong.append(f"entry {index:,}: {error}")
    return wrong


def wrong_rows(rows: Rows) -> list[str]:
    """Return what is wrong with the rows of an index. Raises Undecodable for a row that cannot be read."""
    visible = {Block(ulid, unit.shard, unit.tenant) for unit, ulid in units.visible(rows)}
    return [*wrong_units(rows), *wrong_work(rows, visible), *wrong_tombstones(rows, visible)]


def wrong_units(rows: Rows) -> list[str]:
    wrong: list[str] = []
    for unit, times in all_units(rows):
        strings = units.table(rows, unit).strings
        for key, value in under(rows, row.index_key(unit, row.BLOCK)):
            ulid = row.ulid_of(row.unit_of(key[1:])[1][1:])
            block = exported(strings, decode(BlockMeta, value))
            wrong += [f"block {ulid} of {named(unit)}: {what}" for what in wrong_block(rows, unit, times, ulid, block)]
    return wrong


def wrong_block(rows: Rows, unit: Unit, times: Times, ulid: str, meta: Any) -> list[str]:
    wrong = [what] if (what := invalid_block(meta)) is not None else []
    if not wrong and (meta.id != ulid or units.unit_of(meta) != unit):
        wrong.append(f"its entry is {meta.id} of {named(units.unit_of(meta))}")
    if not times.min_ms <= meta.min_time <= meta.max_time <= times.max_ms:
        wrong.append(f"its times {meta.min_time} to {meta.max_time} are outside its unit's")
    if removed.is_removed(rows, Block(ulid, unit.shard, unit.tenant)):
        wrong.append("it is visible, and known as removed")
    if removed.is_dropped(rows, unit):
        wrong.append("retention has dropped its unit")
    return wrong


def named(unit: Unit) -> str:
    return f"tenant {unit.tenant!r}, shard {unit.shard}"


def wrong_work(rows: Rows, visible: set[Block]) -> list[str]:
    """Return what is wrong with the queue and the jobs: each block is in one of them at most, and visible."""
    wrong, held = [], Counter[Block]()
    for key, value in under(rows, row.QUEUE):
        queued = row.queued_of(key, value)
        held[Block(queued.ulid, queued.shard, queued.tenant)] += 1
    plans = {key[1:]: decode(JobPlan, value) for key, value in under(rows, row.JOB_PLAN)}
    states = {key[1:]: decode(JobState, value) for key, value in under(rows, row.JOB_STATE)}
    wrong += [f"job {name.decode(errors='replace')!r} has no {'plan' if name in states else 'state'}"
              for name in sorted(plans.keys() ^ states.keys())]
    for plan in plans.values():
        held.update(Block(ulid, plan.shard, plan.tenant) for ulid in plan.source_blocks)
    for block in sorted(held):
        if held[block] > 1:
            wrong.append(f"block {block.ulid} waits or is compacted {held[block]} times at once")
        if block not in visible:
            wrong.append(f"block {block.ulid} waits or is compacted, and is not in the index")
    return wrong


def wrong_tombstones(rows: Rows, visible: set[Block]) -> list[str]:
    """Return which visible blocks a tombstone would delete."""
    wrong = []
    for _, value in under(rows, row.TOMBSTONES):
        of = decode(Tombstones, value).blocks
        wrong += [f"block {ulid} is visible, and tombstone {of.name!r} deletes its object" for ulid in of.blocks
                  if Block(ulid, of.shard, of.tenant) in visible]
    return wrong
