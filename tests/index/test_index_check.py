"""`highwater index check` on the rows of an index, each rule broken once."""

import asyncio
from typing import Any

import pytest

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.messages import BlockMeta, JobPlan, Tombstones, decode, encode
from highwater.impl.codecs.index.rows import Block, Times
from highwater.impl.index import removed, units
from highwater.impl.index.kv import under
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.index.check import checked, wrong_rows
from highwater.index.restore import FolderIdentity, restore
from tests.support.metadata_index import Story, block

BLOCKS = [block(number, at_s=number) for number in range(5)]


def story() -> Story:
    """Return an index with two blocks in a job, two that wait, and a tombstone of two that were compacted."""
    made = Story()
    for one in BLOCKS[:2]:
        made.add(one)
    (given,) = made.assign()
    made.finish(given, deleted=False)
    for one in BLOCKS[2:4]:
        made.add(one)
    made.assign()
    made.add(BLOCKS[4])
    return made


def first(rows: Any, bucket: bytes) -> tuple[bytes, bytes]:
    return next(iter(under(rows, bucket)))


def edit(what: str, rows: Any) -> None:
    unit = units.unit_of(BLOCKS[4])
    named = Block(BLOCKS[4].id, unit.shard, unit.tenant)
    key = row.block_key(unit, BLOCKS[4].id)
    if what == "id":
        other = decode(BlockMeta, rows.get(key))
        other.id = BLOCKS[3].id
        rows.put(key, encode(other))
    elif what == "strings":
        rows.delete_range(row.index_key(unit, row.STRINGS), row.index_key(unit, row.BLOCK))
    elif what == "times":
        rows.put(row.index_key(unit, row.TIMES), row.times_value(Times(1001, 1999, 9)))
    elif what == "removed":
        removed.remember(rows, named, 1)
    elif what == "dropped":
        removed.remember_dropped(rows, unit, 1, 1)
    elif what == "twice":
        rows.put(row.queue_key(1, BLOCKS[4].id), next(
            value for key, value in under(rows, row.QUEUE) if key.endswith(BLOCKS[4].id.encode())))
    elif what == "gone":
        units.remove(rows, unit, BLOCKS[4].id)
    elif what == "state":
        rows.delete(first(rows, row.JOB_STATE)[0])
    elif what == "job":
        key, value = first(rows, row.JOB_PLAN)
        plan = decode(JobPlan, value)
        plan.source_blocks.append(BLOCKS[4].id)
        rows.put(key, encode(plan))
    elif what == "tombstone":
        key, value = first(rows, row.TOMBSTONES)
        told = decode(Tombstones, value)
        told.blocks.blocks.append(BLOCKS[4].id)
        rows.put(key, encode(told))


def test_what_the_index_makes_is_right():
    with story().machine.kv.snapshot() as rows:
        for bucket in (row.QUEUE, row.JOB_PLAN, row.TOMBSTONES, row.REMOVED):
            assert next(iter(under(rows, bucket)), None) is not None
        assert wrong_rows(rows) == []


@pytest.mark.parametrize("what, why", [
    ("id", f"its entry is {BLOCKS[3].id}"), ("times", "are outside its unit's"), ("removed", "visible, and known as removed"),
    ("dropped", "retention has dropped its unit"), ("twice", "waits or is compacted 2 times at once"),
    ("gone", "waits or is compacted, and is not in the index"), ("state", "has no state"),
    ("job", "waits or is compacted 2 times at once"), ("tombstone", "deletes its object"), ("strings", "reference"),
])
def test_each_rule_is_broken_and_told(tmp_path, what, why):
    made = story()
    with made.machine.kv.transaction() as rows:
        edit(what, rows)
    backup = made.machine.snapshot(())

    async def found() -> Any:
        disk = FolderDisk(str(tmp_path / "1"))
        await restore(snapshot.encode(*backup), disk, FolderIdentity("main", "1", ("1",)))
        await disk.close()
        disk = FolderDisk(str(tmp_path / "1"))
        try:
            return await checked(disk)
        finally:
            await disk.close()

    wrong = asyncio.run(found()).wrong
    assert any(why in line for line in wrong), wrong
