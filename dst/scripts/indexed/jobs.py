"""Scripts of jobs and tombstones of a metadata index: who may have a job, which comes first, and when one is given up."""

from typing import Any

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.indexed.one import SMALL, START_S, at, block, opened, ulid
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    UNASSIGNED,
    BlockTombstones,
    CompactedBlocks,
    JobPlan,
    JobState,
    Tombstones,
    encode,
)
from highwater.impl.codecs.index.names import block_path
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Block, Queued, Unit
from highwater.impl.index import jobs, planner, queue, removed, replace, tombstones
from highwater.impl.index.config import Level, S
from highwater.impl.index.kv import View, Writing, under

NOW = START_S * S
LEASE, PAUSE = 10 * S, 50 * S  # of SMALL


def job(name: str = "j", **fields: Any) -> Any:
    return JobState(name=name, **fields)


def held(name: str = "j", expires_s: float = 10, **fields: Any) -> Any:
    """Return a job that some worker has or had, until so many seconds after the start."""
    return job(name, status=IN_PROGRESS, token=5, lease_expires_at=NOW + round(expires_s * S), **fields)


async def a_worker_has_a_job_until_its_lease_ends(alone: Alone) -> None:
    same([jobs.holds(held(), 5), jobs.holds(held(), 4), jobs.holds(job(token=5), 5)], [True, False, False])
    same([jobs.is_free(held(), NOW + of) for of in (LEASE - 1, LEASE, LEASE + 1)], [False, True, True])
    same(jobs.is_free(job(lease_expires_at=NOW + 9), NOW), True)
    for heard, failures, now_ns, right in ((True, 1, NOW, 1), (True, 1, NOW + LEASE, 2), (False, 1, NOW + LEASE, 1)):
        same(jobs.failures(held(heard=heard, failures=failures), now_ns), right)
    same([jobs.has_failed(held(failures=of), NOW, SMALL) for of in (1, 2, 3)], [False, True, True])
    same(jobs.has_failed(held(failures=1, heard=True), NOW + LEASE, SMALL), True)


async def a_failed_job_pauses_before_it_is_tried_again(alone: Alone) -> None:
    ended = NOW + LEASE
    for of, now_ns, assign, evict in (
            (job(), NOW, True, False), (held(), NOW, False, False), (held(), ended, True, False),
            (held(failures=2), NOW, False, False), (held(failures=2), ended, False, True),
            (held(failures=2), ended + PAUSE, False, True), (held(failures=2, paused=True), ended + PAUSE - 1, False, True),
            (held(failures=2, paused=True), ended + PAUSE, True, True), (held(failures=1, heard=True), ended, False, True),
            (held(failures=1, paused=True), ended, True, False)):
        same((jobs.may_assign(of, now_ns, SMALL), jobs.may_evict(of, now_ns, SMALL)), (assign, evict),
             f"may {of!r} at {now_ns}")
    same([jobs.may_add(count, SMALL) for count in (0, 1, 2, 3)], [True, True, False, False])


async def states_of_a_job_follow_each_other(alone: Alone) -> None:
    before = held(failures=1, heard=True, paused=True, added_at=3, compaction_level=1)
    same(jobs.assigned(before, 9, NOW + LEASE, SMALL), job(
        status=IN_PROGRESS, token=9, lease_expires_at=NOW + 2 * LEASE, failures=2, added_at=3, compaction_level=1))
    same(jobs.assigned(job(), 9, NOW, SMALL), job(status=IN_PROGRESS, token=9, lease_expires_at=NOW + LEASE))
    same(jobs.reported(before, NOW + 3, SMALL), job(
        status=IN_PROGRESS, token=5, lease_expires_at=NOW + 3 + LEASE, failures=1, heard=True, added_at=3, compaction_level=1))
    same(jobs.paused(held(failures=2)), held(failures=2, paused=True))
    same(before, held(failures=1, heard=True, paused=True, added_at=3, compaction_level=1))


async def jobs_have_an_order(alone: Alone) -> None:
    later = NOW + LEASE
    right = [job("f", added_at=9), job("b", added_at=10), held("c", added_at=10),
             held("a", failures=1, added_at=1), held("e", heard=True, added_at=2), job("d", compaction_level=1, added_at=1),
             held("g", failures=2, added_at=5), held("h", failures=9, added_at=6), held("i", failures=2, compaction_level=1)]
    for several in (right, right[::-1], [*right[4:], *right[:4]]):
        same([one.name for one in jobs.in_order(several, later, SMALL)], [one.name for one in right])
    same(getattr(jobs.evictable(right, later, SMALL), "name", ""), "i")
    same(getattr(jobs.evictable(right[:-1], later, SMALL), "name", ""), "g")
    same(jobs.evictable(right[:-3], later, SMALL), None)
    same(jobs.evictable([held("g", failures=2)], NOW, SMALL), None)
    same(getattr(jobs.evictable([held("y", failures=2), held("x", failures=2)], later, SMALL), "name", ""), "x")


async def rows_of_jobs(alone: Alone) -> None:
    rows = Writing(View(), 1)
    for name in ("j", "k"):
        jobs.put_state(rows, job(name, token=7))
        jobs.put_plan(rows, JobPlan(name=name, shard=3))
    same((jobs.state(rows, "j"), jobs.plan(rows, "k")), (job("j", token=7), JobPlan(name="k", shard=3)))
    same((jobs.state(rows, "x"), jobs.plan(rows, "x")), (None, None))
    jobs.delete(rows, "j")
    same(([*jobs.states(rows)], jobs.plan(rows, "j"), [key for key, _ in rows.range(b"", None)]),
         ([job("k", token=7)], None, [b"\5k", b"\6k"]))


# --- the queue

async def blocks_wait_for_their_jobs(alone: Alone) -> None:
    config = SMALL._replace(levels=(Level(2, 30 * S), Level(3, 60 * S)))
    rows = Writing(View(), 1)
    for index, level, shard, tenant in ((4, 1, 1, "t"), (5, 0, 1, ""), (6, 1, 1, "t"), (7, 0, 2, ""), (8, 0, 1, ""), (9, 2, 1,
        "t"),
                                        (10, 1, 1, "t"), (11, 1, 1, "u"), (12, 0, 1, "")):
        queue.enqueue(rows, Block(ulid(index), shard, tenant), level, index, NOW + index, config)

    def batches(now_ns: int) -> list[list[int]]:
        return [[queued.index for queued in batch] for batch in planner.batches(rows, now_ns, config)]

    same([queued.index for queued in queue.waiting(rows)], [4, 5, 6, 7, 8, 10, 11, 12])
    first = next(iter(queue.waiting(rows)))
    same((first, queue.block_of(first)), (Queued(4, ulid(4), NOW + 4, 1, 1, "t"), Block(ulid(4), 1, "t")))
    same(batches(NOW + 7 + 30 * S - 1), [[5, 8], [4, 6, 10]])
    same(batches(NOW + 7 + 30 * S), [[5, 8], [7], [4, 6, 10]])
    same(batches(NOW + 11 + 60 * S - 1), [[5, 8], [7], [12], [4, 6, 10]])
    same(batches(NOW + 11 + 60 * S), [[5, 8], [7], [12], [4, 6, 10], [11]])
    queue.enqueue(rows, Block(ulid(13), 1, "u"), 1, 13, NOW + 13 + 60 * S, config)  # it joins one that has waited long enough
    same(batches(NOW + 13 + 60 * S), [[5, 8], [7], [12], [4, 6, 10], [11, 13]])
    state, plan = planner.planned([*queue.waiting(rows)][:3:2], NOW)
    same((state.name, plan.name, state.added_at, state.compaction_level, state.status), (plan.name, state.name, NOW, 1,
        UNASSIGNED))
    same((plan.tenant, plan.shard, plan.compaction_level, list(plan.source_blocks)), ("t", 1, 1, [ulid(4), ulid(6)]))
    queue.dequeue(rows, [queued for queued in queue.waiting(rows) if queued.level == 1])
    same([queued.index for queued in queue.waiting(rows)], [5, 7, 8, 12])


# --- tombstones

def buried(index: int, name: str = "j", second: float = 0, **fields: Any) -> tombstones.Stored:
    message = Tombstones(blocks=BlockTombstones(name=name), index=index, **fields)
    now_ns = NOW + round(second * S)
    return tombstones.Stored(row.tombstone_key(index, now_ns, name), index, now_ns, name, message)


async def a_tombstone_waits_for_queries_and_then_for_a_job(alone: Alone) -> None:
    due = NOW + 200 * S
    for of, now_ns, is_due, is_free in ((buried(1), due - 1, False, False), (buried(1), due, True, True),
                                        (buried(1, job="k"), due, True, False), (buried(1, handed_out=1), due, True, True),
                                        (buried(1, handed_out=2), due, True, False)):
        same((tombstones.is_due(of, now_ns, SMALL), tombstones.is_free(of, now_ns, SMALL)), (is_due, is_free))
    rows = Writing(View(), 1)
    kept: tuple[dict[str, Any], ...] = ({}, {"handed_out": 1}, {"handed_out": 2}, {"handed_out": 3, "job": "k"})
    for index, fields in enumerate(kept, 1):
        stored = buried(index, **fields)
        rows.put(stored.key, encode(stored.message))
    same([[one.index for one in tombstones.for_own_deleter(rows, now_ns, SMALL)] for now_ns in (
        due - 1, due, due + 200 * S - 1, due + 200 * S)], [[], [3], [3], [1, 2, 3]])
    same([one.index for one in tombstones.all_of(rows)], [1, 2, 3, 4])


async def tombstones_are_handed_out_and_taken_back(alone: Alone) -> None:
    rows = Writing(View(), 1)
    blocks = [Block(ulid(1), 3, "t"), Block(ulid(2), 3, "t")]
    for index, name in ((7, "a"), (7, "b"), (8, "a")):
        tombstones.add(rows, tombstones.of_blocks(name, 1, blocks), index, NOW + index)
    message = Tombstones(index=7, blocks=BlockTombstones(name="b", shard=3, tenant="t", compaction_level=1,
                                                         blocks=[ulid(1), ulid(2)]))
    found = tombstones.find(rows, 7, "b")
    same(found, tombstones.Stored(row.tombstone_key(7, NOW + 7, "b"), 7, NOW + 7, "b", message))
    same([tombstones.find(rows, *of) for of in ((8, "b"), (6, "a"), (7, "c"))], [None, None, None])
    assert found is not None
    carried = tombstones.hand_out(rows, found, "job")
    same((carried.job, carried.handed_out, found.message.job), ("job", 1, ""))
    again = tombstones.find(rows, 7, "b")
    same(again, found._replace(message=carried))
    tombstones.take_back(rows, "other", [carried])
    same(tombstones.find(rows, 7, "b"), again)
    gone = Tombstones(index=9, blocks=BlockTombstones(name="gone"))
    tombstones.take_back(rows, "job", [gone, carried])
    message.handed_out = 1
    same(tombstones.find(rows, 7, "b"), found._replace(message=message))
    for block_ in blocks:
        removed.remember(rows, block_, 7)
    same(tombstones.confirm(rows, 7, "b", NOW + 7 + 200 * S - 1, SMALL), False)
    same(tombstones.confirm(rows, 7, "c", NOW + 900 * S, SMALL), False)
    same(tombstones.confirm(rows, 7, "b", NOW + 7 + 200 * S, SMALL), True)
    same([(one.index, one.name) for one in tombstones.all_of(rows)], [(7, "a"), (8, "a")])
    same([key for key, _ in under(rows, row.REMOVED)], [])
    same([row.removed_of(key) for key, _ in under(rows, row.GONE)], blocks)


async def objects_that_a_tombstone_names(alone: Alone) -> None:
    told = tombstones.of_blocks("j", 1, [Block(ulid(1), 3, "t"), Block(ulid(2), 3, "t")])
    same(tombstones.objects_of(told, [(ulid(5), "k")]), [block_path(3, "t", ulid(of), 1) for of in (1, 2)])
    unit = Tombstones(shard={"name": "u", "timestamp": NOW, "duration": WINDOW_S * S, "shard": 1, "tenant": "t"})
    same([tombstones.name_of(of) for of in (told, unit)], ["j", "u"])
    listed = [(ulid(1, of), str(of)) for of in (-1, 0, WINDOW_S - 1, WINDOW_S)]
    same(tombstones.objects_of(unit, [*listed, ("no ulid", "x")]), ["0", str(WINDOW_S - 1)])
    same(tombstones.objects_of(Tombstones(shard={"timestamp": NOW, "duration": S}), listed), ["0"])


async def removed_blocks_are_known_until_nobody_asks(alone: Alone) -> None:
    rows = Writing(View(), 1)
    blocks = [Block(ulid(number, number), 1, "") for number in range(120)]
    for one in blocks:
        removed.remember(rows, one, 7)
    same([removed.is_removed(rows, of) for of in (blocks[0], blocks[0]._replace(shard=2), blocks[0]._replace(tenant="t"))],
         [True, False, False])
    removed.gone(rows, Block(ulid(500), 1, ""))
    for one in blocks[:-1]:
        removed.gone(rows, one)
    same((removed.is_removed(rows, blocks[0]), [*under(rows, row.REMOVED)]), (True, [(row.removed_key(row.REMOVED, blocks[-1]),
                                                                                      row.U64.pack(7))]))
    same([value for _, value in under(rows, row.GONE)], [row.U64.pack(7)] * 119)
    removed.forget(rows, NOW + 103 * S, SMALL)
    same([removed.is_removed(rows, one) for one in blocks[:5]], [False, False, False, True, True])
    removed.forget(rows, NOW + 500 * S, SMALL)
    same(len([*under(rows, row.GONE)]), 16)
    removed.forget(rows, NOW + 500 * S, SMALL)
    same(([*under(rows, row.GONE)], removed.is_removed(rows, blocks[-1])), ([], True))
    same([removed.is_too_old(ulid(1, 5), NOW + of, SMALL) for of in (105 * S - 1, 105 * S, 105 * S + 1)], [False, False, True])


async def dropped_units_are_known_until_no_job_can_make_one(alone: Alone) -> None:
    rows = Writing(View(), 1)
    window = Partition(NOW)
    dropped = [Unit(window, tenant, shard) for tenant, shard in (("", 1), ("", 2), ("t", 1), ("t", 2))]
    for unit in dropped:
        removed.remember_dropped(rows, unit, 7, NOW)
    rows.put(row.index_key(dropped[0], row.TIMES), b"there again")
    same([removed.may_come_back(rows, unit) for unit in dropped], [False, False, True, False])
    end = window.end_ns + SMALL.horizon_ns
    for now_ns, known in ((end - 1, [True, True, True, True]), (end, [False, False, True, False])):
        removed.forget_dropped(rows, now_ns, SMALL)
        same([removed.is_dropped(rows, unit) for unit in dropped], known)
    check(not removed.is_dropped(rows, dropped[2]._replace(partition=Partition(NOW + 1))), "another window was not dropped")


# --- results

async def a_result_that_is_not_of_its_job_is_refused(alone: Alone) -> None:
    index = opened(alone)
    for number in (1, 2, 3):
        await index.add(block(number, number, tenant="t"))
    await index.add(block(8, 1, tenant="t", level=1))
    rows = index.node.value
    sources = [ulid(1, 1), ulid(2, 2)]

    def refusal(*blocks: Any, of: Any = sources, tenant: str = "t", planned: Any = sources, shard: int = 1) -> str | None:
        plan = JobPlan(name="j", tenant=tenant, shard=shard, source_blocks=planned)
        result = replace_result(blocks, of)
        return replace.invalid_result(rows, plan, result)

    good = block(5, 1, tenant="t", level=1)
    same((refusal(good), refusal(good, of=sources[::-1]), refusal(good, block(6, 2, tenant="t", level=1))), (None, None, None))
    same(refusal(good, of=sources[:1]), "the result of j has other sources")
    same(refusal(good, of=[*sources, sources[0]]), "the result of j has other sources")
    same(refusal(), "the result of j has no blocks")
    same(refusal(good, planned=[*sources, ulid(9)], of=[*sources, ulid(9)]), f"source {ulid(9)} of j is gone")
    for wrong, why in (
            (block(5, 1, tenant="t", level=1, min_time=0), "min_time 0 and max_time 2000 are no range of times after 0"),
            (block(5, 1, tenant="t", level=2), f"block {ulid(5, 1)} is of shard 1, level 2; the job is j"),
            (block(5, 1, tenant="t"), f"block {ulid(5, 1)} is of shard 1, level 0; the job is j"),
            (block(5, 1, tenant="t", level=1, shard=2), f"block {ulid(5, 1)} is of shard 2, level 1; the job is j"),
            (block(5, 1, tenant="u", level=1), f"block {ulid(5, 1)} is of the tenant 'u'; the job is j"),
            (block(5, 3, tenant="t", level=1), f"block {ulid(5, 3)} has the time of none of its sources"),
            (block(8, 1, tenant="t", level=1), f"block {ulid(8, 1)} is known already"),
            (good, f"block {ulid(5, 1)} is known already")):
        same(refusal(good, wrong), why)
    same(refusal(block(5, 1, tenant="u", level=1), tenant="", planned=[], of=[]),
         f"block {ulid(5, 1)} has the time of none of its "
         "sources")
    writing = Writing(rows, 99)
    removed.remember(writing, Block(ulid(5, 1), 1, "t"), 1)
    plan = JobPlan(name="j", tenant="t", shard=1, source_blocks=sources)
    same(replace.invalid_result(writing, plan, replace_result((good,), sources)), f"block {ulid(5, 1)} is known already")
    old = JobPlan(name="j", tenant="t", shard=1, source_blocks=["no ulid"])
    try:
        replace.invalid_new(good, old)
    except replace.Undecodable as error:
        check("no ulid" in str(error), "the ULID is named")
    else:
        check(False, "a source without a ULID is refused")
    at(alone, 0)


def replace_result(blocks: Any, sources: Any) -> Any:
    return CompactedBlocks(source_blocks={"blocks": sources}, new_blocks=blocks)


SCRIPTS: tuple[Script, ...] = (
    a_worker_has_a_job_until_its_lease_ends, a_failed_job_pauses_before_it_is_tried_again, states_of_a_job_follow_each_other,
    jobs_have_an_order, rows_of_jobs, blocks_wait_for_their_jobs, a_tombstone_waits_for_queries_and_then_for_a_job,
    tombstones_are_handed_out_and_taken_back, objects_that_a_tombstone_names, removed_blocks_are_known_until_nobody_asks,
    dropped_units_are_known_until_no_job_can_make_one, a_result_that_is_not_of_its_job_is_refused)
