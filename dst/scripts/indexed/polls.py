"""Scripts of polls: what a poll plans, hands out and ends, and what a plan that came late still changes."""

from typing import Any

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.indexed.one import SMALL, START_S, at, block, opened, ulid
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    SUCCESS,
    UNASSIGNED,
    CompactedBlocks,
    GetPlan,
    JobPlan,
    JobState,
    PlanUpdate,
    PollRequest,
    TombstoneKey,
    Truncate,
    UpdatePlan,
)
from highwater.impl.codecs.index.names import compacted_id, job_name
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Block, Queued, Times, Unit
from highwater.impl.index import jobs, queue, removed, tombstones, units
from highwater.impl.index.config import Level, S
from highwater.impl.index.kv import View, Writing, under
from highwater.impl.index.library import InvalidArgument, PollAgain
from highwater.impl.index.plan_update import waiting_for
from highwater.impl.index.replicated import machine
from highwater.impl.raft.faults import LeadershipLost

NOW = START_S * S
ONE = SMALL._replace(levels=(Level(1, S), Level(2, 60 * S)), jobs=9)  # each block has a job of its own


def report(of: Any, status: int, token: int, new: tuple[Any, ...] = (), deleted: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return what a worker says of a job; `of`: the job as the worker got it."""
    told = CompactedBlocks(source_blocks={"blocks": of.source_blocks}, new_blocks=new)
    return {"name": of.name, "token": token, "status": status, "compacted_blocks": told,
            "deleted": [TombstoneKey(index=one.index, name=tombstones.name_of(one)) for one in deleted]}


async def poll(index: Any, capacity: int = 1, *reports: dict[str, Any], overdue: bool = False) -> Any:
    return await index.poll(PollRequest(job_capacity=capacity, status_updates=reports, takes_overdue=overdue))


def result_of(of: Any, number: int, data: tuple[str, ...] = ()) -> Any:
    """Return a result of a job's sources."""
    made = block(number, tenant=of.tenant, shard=of.shard, level=of.compaction_level + 1, data=data)
    made.id = compacted_id(list(of.source_blocks), of.compaction_level + 1, of.tenant)
    return made


def waiting(index: Any) -> list[Queued]:
    return [*queue.waiting(index.node.value)]


def known(index: Any) -> list[str]:
    return [ulid_ for _, ulid_ in units.visible(index.node.value)]


def state_of(index: Any, name: str) -> Any:
    return jobs.state(index.node.value, name)


def plan_of(index: Any, name: str) -> Any:
    return jobs.plan(index.node.value, name)


async def handed(alone: Alone, index: Any, second: float) -> tuple[Any, int]:
    """Poll until there is a job, from this second on. Return the job and its token."""
    for part in range(3):
        at(alone, second + part)
        answer = await poll(index)
        if answer.compaction_jobs:
            return answer.compaction_jobs[0], answer.assignments[0].token
    check(False, "a poll gives a job")
    raise AssertionError


# --- the life of a job

async def a_job_is_planned_handed_out_and_ended(alone: Alone) -> None:
    index = opened(alone)
    for number in (1, 2):
        await index.add(block(number, tenant="t"))
    name = job_name("t", 1, 0, [ulid(1), ulid(2)])
    same((await poll(index)).ByteSize(), 0)
    same(jobs.state(index.node.value, name), JobState(name=name, added_at=NOW + 2, status=UNASSIGNED))
    same(jobs.plan(index.node.value, name), JobPlan(name=name, tenant="t", shard=1, source_blocks=[ulid(1), ulid(2)]))
    same((waiting(index), index.node.index), ([], 4))
    at(alone, 3)
    answer = await poll(index)
    (job,), (lease,) = answer.compaction_jobs, answer.assignments
    same((job.name, job.tenant, job.shard, job.compaction_level, list(job.source_blocks), len(job.tombstones)),
         (name, "t", 1, 0, [ulid(1), ulid(2)], 0))
    same((lease.name, lease.token, lease.lease_expires_at, index.node.index), (name, 5, NOW + 13 * S, 6))
    at(alone, 8)
    answer = await poll(index, 1, report(job, IN_PROGRESS, 5))
    same((len(answer.compaction_jobs), [(one.name, one.token, one.lease_expires_at) for one in answer.assignments]),
         (0, [(name, 5, NOW + 18 * S)]))
    state = state_of(index, name)
    same((state.heard, state.failures, state.status, state.token), (True, 0, IN_PROGRESS, 5))
    before, entries = index.node.value, index.node.index
    for wrong in (report(job, IN_PROGRESS, 4), report(job, SUCCESS, 4, (result_of(job, 5),)), report(job, 0, 5),
                  report(JobPlan(name="other"), IN_PROGRESS, 5)):
        same((await poll(index, 1, wrong)).ByteSize(), 0)
    same((jobs.state(index.node.value, name), index.node.index), (jobs.state(before, name), entries + 4))
    at(alone, 9)
    result = result_of(job, 5, ("d1", "d2"))
    done = await poll(index, 1, report(job, SUCCESS, 5, (result,)))
    same((done.ByteSize(), known(index)), (0, [result.id]))
    same(units.times(index.node.value, Unit(Partition(NOW), "t", 1)), Times(1000, 2000, 5))
    same(([*jobs.states(index.node.value)], jobs.plan(index.node.value, name)), ([], None))
    same(waiting(index), [Queued(index.node.index, result.id, NOW + 9 * S + 1, 1, 1, "t")])
    same([of.string_table[of.datasets[0].name] for of in await index.get("t", 1, [result.id])], ["d1"])
    (buried,) = tombstones.all_of(index.node.value)
    same((buried.name, buried.index, buried.message.job, list(buried.message.blocks.blocks)),
         (name, index.node.index, "", [ulid(1), ulid(2)]))
    same((buried.message.blocks.tenant, buried.message.blocks.shard, buried.message.blocks.compaction_level), ("t", 1, 0))
    check(all(removed.is_removed(index.node.value, Block(ulid(of), 1, "t")) for of in (1, 2)),
          "the sources are known as removed")
    await index.add(block(1, tenant="t"))
    same((known(index), (await poll(index, 1, report(job, SUCCESS, 5, (result,)))).ByteSize()), ([result.id], 0))


async def a_result_that_breaks_a_rule_ends_no_job(alone: Alone) -> None:
    index = opened(alone, ONE)
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    bad = result_of(job, 5)
    bad.min_time = 0
    good, other = report(job, SUCCESS, token, (result_of(job, 5),)), report(JobPlan(name="other"), IN_PROGRESS, 1)
    for reports in ((report(job, SUCCESS, token, (bad,)),), (report(job, SUCCESS, token, (result_of(job, 5), bad)),),
                    (other, report(job, SUCCESS, token, (bad,))), (good, report(JobPlan(name="other"), SUCCESS, 1, (bad,)))):
        raised = await alone.raises(InvalidArgument, poll(index, 1, *reports))
        same((str(raised), known(index)), ("min_time 0 and max_time 2000 are no range of times after 0", [ulid(1)]))
    for wrong in ((), (block(5, 7, level=1),), (block(5, level=2),), (result_of(job, 5), result_of(job, 5))):
        same((await poll(index, 0, report(job, SUCCESS, token, wrong))).ByteSize(), 0)
        same((known(index), jobs.state(index.node.value, job.name) is not None), ([ulid(1)], True))
    several = (result_of(job, 5), block(6, tenant="u", level=1), block(7, tenant="v", level=1))
    await poll(index, 0, report(job, SUCCESS, token, several))
    same(sorted(known(index)), sorted(of.id for of in several))
    same(sorted((one.level, one.tenant) for one in waiting(index)), [(1, ""), (1, "u"), (1, "v")])


async def a_poll_does_several_things(alone: Alone) -> None:
    """Two jobs are ended, two go on, two are handed out, and two are planned, in one poll."""
    index = opened(alone, ONE)
    for number in range(1, 7):
        await index.add(block(number))
    at(alone, 2)
    same((await poll(index, 6)).ByteSize(), 0)
    same((len([*jobs.states(index.node.value)]), waiting(index)), (6, []))
    answer = await poll(index, 4)
    given = answer.compaction_jobs
    same([list(one.source_blocks) for one in given], [[one] for one in sorted(
        (ulid(number) for number in range(1, 7)), key=lambda one: job_name("", 1, 0, [one]))][:4])
    same({one.token for one in answer.assignments}, {index.node.index - 1})
    token = index.node.index - 1
    for number in (7, 8, 9):
        await index.add(block(number))
    at(alone, 4)
    results = [result_of(one, 10) for one in given[:2]]
    answer = await poll(index, 2, *(report(one, SUCCESS, token, (made,)) for one, made in zip(given, results)),
                        *(report(one, IN_PROGRESS, token) for one in given[2:]))
    again = index.node.index - 1
    same([(one.name, one.token) for one in answer.assignments],
         [*((one.name, again) for one in answer.compaction_jobs), *((one.name, token) for one in given[2:])])
    same((len(answer.compaction_jobs), len({one.name for one in answer.assignments})), (2, 4))
    ended = {source for one in given[:2] for source in one.source_blocks}
    same({*known(index)}, {*(made.id for made in results), *map(ulid, range(1, 10))} - ended)
    same([(one.ulid, one.level) for one in waiting(index)], [(ulid(9), 0), *((made.id, 1) for made in results)])
    same(len([*jobs.states(index.node.value)]), 6)
    same((await poll(index, 0)).ByteSize(), 0)
    same(len([*jobs.states(index.node.value)]), 6)


async def a_plan_that_is_large_gets_no_more_jobs(alone: Alone) -> None:
    """A job carries tombstones, and each of them has many blocks."""
    for many, planned in ((7_000, 2), (10_000, 1)):
        index = opened(alone, ONE)
        for number in (1, 2):
            await index.add(block(number))
        writing = Writing(index.node.value, 99)
        buried = [Block(ulid(number, -300), 1, "t") for number in range(many)]
        tombstones.add(writing, tombstones.of_blocks("some", 1, buried), 1, NOW - 300 * S)
        index.node.value = View(writing.root)
        at(alone, 2)
        for jobs_ in (planned, 2, 2):
            await poll(index, 9)
            same(len([*jobs.states(index.node.value)]), jobs_)


async def many_jobs_are_handed_out_and_ended(alone: Alone) -> None:
    index = opened(alone, ONE._replace(jobs=99, tombstones=30, levels=(Level(1, S),)))
    for number in range(50):
        await index.add(block(number))
    at(alone, 2)
    await poll(index, 99)
    same((len([*jobs.states(index.node.value)]), waiting(index)), (50, []))
    answer = await poll(index, 99)
    token = index.node.index - 1
    same((len({one.name for one in answer.compaction_jobs}), [(one.name, one.token) for one in answer.assignments]),
         (50, [(one.name, token) for one in answer.compaction_jobs]))
    goes_on = await poll(index, 0, *(report(job, IN_PROGRESS, token) for job in answer.compaction_jobs))
    same([one.name for one in goes_on.assignments], [one.name for one in answer.compaction_jobs])
    results = [result_of(job, number) for number, job in enumerate(answer.compaction_jobs)]
    await poll(index, 0, *(report(job, SUCCESS, token, (made,)) for job, made in zip(answer.compaction_jobs, results)))
    same((known(index), [*jobs.states(index.node.value)]), (sorted(of.id for of in results), []))
    at(alone, 250)
    for number in (1, 2):
        await index.add(block(number, 250))
    at(alone, 252)
    await poll(index, 2)
    answer = await poll(index, 2)
    same([len(job.tombstones) for job in sorted(answer.compaction_jobs, key=lambda job: job.source_blocks[0])], [30, 20])
    await poll(index, 0, *(report(job, SUCCESS, answer.assignments[0].token, (result_of(job, 3),), tuple(job.tombstones))
                           for job in answer.compaction_jobs))
    same(len([*tombstones.all_of(index.node.value)]), 2)
    at(alone, 900)
    overdue = await index.overdue()
    same(len(overdue), 2)


async def a_worker_that_ends_a_job_gets_no_job_that_is_over(alone: Alone) -> None:
    """A lease has ended, and its worker reports: the job goes on with it, and is not handed out beside."""
    index = opened(alone, ONE)
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    at(alone, 30)
    answer = await poll(index, 1, report(job, IN_PROGRESS, token))
    same(([one.name for one in answer.compaction_jobs], [one.token for one in answer.assignments]), ([], [token]))
    at(alone, 60)
    answer = await poll(index, 1)
    (lease,) = answer.assignments
    same((lease.token == token, state_of(index, job.name).failures), (False, 1))
    same((await poll(index, 0, report(job, SUCCESS, token, (result_of(job, 5),)))).ByteSize(), 0)
    same(known(index), [ulid(1)])


async def a_result_counts_with_the_token_that_it_was_reported_with(alone: Alone) -> None:
    """A worker has a job, loses it, and has it again. It reports both leases in one poll, in either order."""
    for is_first in (True, False):
        for status in (SUCCESS, IN_PROGRESS):
            index = opened(alone, ONE)
            await index.add(block(1))
            job, before = await handed(alone, index, 2)
            at(alone, 40)
            token = (await poll(index)).assignments[0].token
            check(token != before, "the job is handed out again")
            lost = report(job, status, before, (result_of(job, 5, ("lost",)),) if status == SUCCESS else ())
            reports = [report(job, SUCCESS, token, (result_of(job, 5, ("right",)),)), lost]
            await poll(index, 0, *(reports if is_first else reports[::-1]))
            same([of.string_table[of.datasets[0].name] for of in await index.get("", 1, known(index))], ["right"])


async def a_job_that_is_reported_twice_has_the_first_result(alone: Alone) -> None:
    index = opened(alone, ONE)
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    await poll(index, 0, *(report(job, SUCCESS, token, (result_of(job, 5, (data,)),)) for data in ("first", "second")))
    same([of.string_table[of.datasets[0].name] for of in await index.get("", 1, known(index))], ["first"])


async def blocks_of_a_level_that_is_compacted_no_more_wait(alone: Alone) -> None:
    """A backup was restored into an index with fewer levels than there were when the blocks came."""
    index = opened(alone, ONE)
    await index.add(block(1, tenant="t", level=1))
    await index.add(block(2, tenant="t"))
    for levels, level in ((ONE.levels[:1], 0), ((), None), (ONE.levels, 1)):
        index.node.machine = machine(ONE._replace(levels=levels))
        at(alone, 100)
        plan = (await index._proposed(GetPlan(assign_jobs_max=1))).answer.value
        same([part.plan.compaction_level for part in plan.new_jobs], [] if level is None else [0])
    plan = (await index._proposed(GetPlan(assign_jobs_max=2))).answer.value
    same([part.plan.compaction_level for part in plan.new_jobs], [0, 1])
    same([one.level for one in waiting(index)], [1, 0])


async def a_report_after_the_lease_keeps_the_job(alone: Alone) -> None:
    """Nobody else has the job yet. It takes no room from the jobs that the worker asks for, and it does not pause."""
    for is_heard in (True, False):
        index = opened(alone, ONE._replace(failures=1))
        for number in (1, 2):
            await index.add(block(number))
        at(alone, 2)
        await poll(index, 1)
        answer = await poll(index, 1)
        (job,), token = answer.compaction_jobs, answer.assignments[0].token
        at(alone, 4)
        if is_heard:
            await poll(index, 0, report(job, IN_PROGRESS, token))
        at(alone, 30)
        answer = await poll(index, 1, report(job, IN_PROGRESS, token))
        same(([one.name == job.name for one in answer.compaction_jobs], answer.assignments[-1].token), ([False], token))
        state = state_of(index, job.name)
        same((state.paused, state.heard, state.failures, state.lease_expires_at), (False, True, 0, NOW + 40 * S))


async def failed_jobs_make_room(alone: Alone) -> None:
    """Two jobs are allowed, and fail twice. The first poll lets them pause; a later one gives one up for a new job."""
    config = ONE._replace(jobs=2)
    index = opened(alone, config)
    for number in (1, 2):
        await index.add(block(number))
    at(alone, 2)
    await poll(index, 2)
    for second in (3, 14):
        at(alone, second)
        answer = await poll(index, 2)
        same(len(answer.compaction_jobs), 2)
        at(alone, second + 0.5)
        await poll(index, 0, *(report(job, IN_PROGRESS, answer.assignments[0].token) for job in answer.compaction_jobs))
    names = [one.name for one in jobs.states(index.node.value)]
    at(alone, 30)
    same((await poll(index, 0)).ByteSize(), 0)
    same([(one.paused, one.failures, one.heard) for one in jobs.states(index.node.value)], [(False, 1, True)] * 2)
    entries = index.node.index
    answer = await poll(index, 2)
    same((answer.ByteSize(), [(one.paused, one.failures) for one in jobs.states(index.node.value)], index.node.index - entries),
         (0, [(True, 1)] * 2, 2))
    same(((await poll(index, 2)).ByteSize(), index.node.index - entries), (0, 3))
    await index.add(block(3))
    at(alone, 40)
    await poll(index, 1)
    left = {one.name: one.paused for one in jobs.states(index.node.value)}
    same(left, {max(names): True, job_name("", 1, 0, [ulid(3)]): False})
    (again,) = waiting(index)
    same((job_name("", 1, 0, [again.ulid]), again.level, again.index, again.appended_ns), (
        min(names), 0, index.node.index, NOW + 40 * S + 1))
    at(alone, 76)
    answer = await poll(index, 2)
    same({one.name for one in answer.compaction_jobs}, set(left))
    same({one.name: (one.failures, one.paused) for one in jobs.states(index.node.value)},
         {max(names): (2, False), job_name("", 1, 0, [ulid(3)]): (0, False)})


async def one_poll_gives_up_no_more_than_it_needs(alone: Alone) -> None:
    config = ONE._replace(jobs=2, failures=1)
    index = opened(alone, config)
    for number in range(1, 6):
        await index.add(block(number))
    at(alone, 2)
    await poll(index, 5)
    same(([one.ulid for one in waiting(index)], len([*jobs.states(index.node.value)])), ([ulid(3), ulid(4), ulid(5)], 2))
    answer = await poll(index, 5)
    await poll(index, 0, *(report(job, IN_PROGRESS, answer.assignments[0].token) for job in answer.compaction_jobs))
    at(alone, 30)
    await poll(index, 1)
    names = {job_name("", 1, 0, [ulid(number)]): number for number in range(1, 6)}
    there = sorted(names[one.name] for one in jobs.states(index.node.value))
    same((len(there), 3 in there, len(waiting(index))), (2, True, 3))
    paused = {names[one.name]: one.paused for one in jobs.states(index.node.value)}
    same(sorted(paused.values()), [False, True])
    await poll(index, 5)
    there = sorted(names[one.name] for one in jobs.states(index.node.value))
    same((3 in there, 4 in there, len(there)), (True, True, 2))
    same(state_of(index, job_name("", 1, 0, [ulid(3)])).status, IN_PROGRESS)


# --- tombstones

async def a_job_carries_tombstones_until_one_is_confirmed(alone: Alone) -> None:
    index = opened(alone, ONE._replace(hand_outs=1))
    for number in (1, 2, 3):
        await index.add(block(number))
    at(alone, 2)
    await poll(index, 3)
    answer = await poll(index, 3)
    token = answer.assignments[0].token
    await poll(index, 0, *(report(job, SUCCESS, token, (result_of(job, 5),)) for job in answer.compaction_jobs))
    buried = [one.name for one in tombstones.all_of(index.node.value)]
    same(sorted(buried), sorted(one.name for one in answer.compaction_jobs))
    at(alone, 201)
    await index.add(block(7, 201))
    await index.add(block(8, 201))
    at(alone, 202)
    await poll(index, 1)
    same([one.message.job for one in tombstones.all_of(index.node.value)], ["", "", ""])
    at(alone, 203)
    await index.add(block(9, 203))
    at(alone, 205)
    await poll(index, 2)
    plans = {job.name: plan_of(index, job.name) for job in jobs.states(index.node.value)}
    carried = {name: [tombstones.name_of(one) for one in plan.tombstones] for name, plan in plans.items()}
    by_8, by_9 = (job_name("", 1, 0, [of]) for of in (ulid(8, 201), ulid(9, 203)))
    same((carried[by_8], carried[by_9], carried[job_name("", 1, 0, [ulid(7, 201)])]), (buried[:2], buried[2:], []))
    same([(one.message.job, one.message.handed_out) for one in tombstones.all_of(index.node.value)],
         [(by_8, 1), (by_8, 1), (by_9, 1)])
    same([(one.job, one.handed_out) for one in plans[by_8].tombstones], [(by_8, 1)] * 2)
    answer = await poll(index, 9, overdue=True)
    told = {job.name: job for job in answer.compaction_jobs}
    same(([tombstones.name_of(one) for one in told[by_8].tombstones], len(answer.overdue)), (buried[:2], 0))
    token = answer.assignments[0].token
    done = await poll(index, 0, report(told[by_8], SUCCESS, token, (result_of(told[by_8], 5),), (told[by_8].tombstones[0],)))
    same(done.ByteSize(), 0)
    left = {one.name: one.message.job for one in tombstones.all_of(index.node.value) if one.name in buried}
    same(left, {buried[1]: "", buried[2]: by_9})
    answer = await poll(index, 0, overdue=True)
    same([tombstones.name_of(one) for one in answer.overdue], [buried[1]])
    same([tombstones.name_of(one) for one in await index.overdue()], [buried[1]])
    await index.confirm(answer.overdue)
    same([one.name for one in tombstones.all_of(index.node.value) if one.name in buried], [buried[2]])
    reads = index.node.reads
    same(((await poll(index, 0)).ByteSize(), index.node.reads), (0, reads))


async def a_tombstone_that_jobs_carry_in_vain_is_overdue(alone: Alone) -> None:
    """Each job ends without a word of it. After two jobs the index's own deleter takes it, and no third job does."""
    index = opened(alone, ONE._replace(jobs=1))
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    await poll(index, 0, report(job, SUCCESS, token, (result_of(job, 5),)))
    carried = []
    for number, second in ((2, 210), (3, 220), (4, 230)):
        await index.add(block(number, 205))
        job, token = await handed(alone, index, second)
        carried.append([(one.handed_out, one.job == job.name) for one in job.tombstones])
        same((await index.overdue()) == [], number < 4, "what is carried is not overdue")
        await poll(index, 0, report(job, SUCCESS, token, (result_of(job, 5),)))
    same(carried, [[(1, True)], [(2, True)], []])
    reads = index.node.reads
    (stored,) = await index.overdue()
    same((stored.handed_out, index.node.reads), (2, reads + 1), "it is read as of now")


async def what_is_deleted_may_be_told_with_any_report(alone: Alone) -> None:
    """A worker that goes on with a job, one that has lost its job, and one that has none tell what they have deleted."""
    for status, is_named in ((IN_PROGRESS, True), (UNASSIGNED, True), (UNASSIGNED, False)):
        index = opened(alone, ONE)
        await index.add(block(1))
        job, token = await handed(alone, index, 2)
        await poll(index, 0, report(job, SUCCESS, token, (result_of(job, 5),)))
        (stored,) = tombstones.all_of(index.node.value)
        await index.add(block(2, 205))
        job, token = await handed(alone, index, 210)
        same([one.index for one in job.tombstones], [stored.index])
        told = report(job, status, token, (), tuple(job.tombstones))
        await poll(index, 0, told if is_named else {"deleted": told["deleted"]})
        same([*tombstones.all_of(index.node.value)], [])


async def jobs_of_a_higher_level_end_without_a_result(alone: Alone) -> None:
    """One is given up, and its sources wait at its level; one ends with its unit."""
    config = SMALL._replace(levels=(Level(1, S), Level(1, S)), failures=1, jobs=1)
    unit = {"name": "2025-06-20 06:00:00 (6h0m0s)-Tt-S1", "timestamp": NOW, "duration": WINDOW_S * S, "shard": 1, "tenant": "t",
            "unit_version": 1}
    for is_dropped in (True, False):
        index = opened(alone, config)
        await index.add(block(1, tenant="t", level=1))
        job, token = await handed(alone, index, 2)
        same(job.compaction_level, 1)
        if is_dropped:
            await index.truncate(Truncate(term=1, tombstones=[{"shard": unit}]))
            same(([*jobs.states(index.node.value)], waiting(index)), ([], []))
        else:
            await poll(index, 0, report(job, IN_PROGRESS, token))
            await index.add(block(2, tenant="t"))
            at(alone, 30)
            await poll(index, 1)
            same([one.name for one in jobs.states(index.node.value)], [job_name("t", 1, 0, [ulid(2)])])
            same([(one.ulid, one.level, one.tenant, one.shard) for one in waiting(index)], [(ulid(1), 1, "t", 1)])


async def a_result_of_a_dropped_unit_is_buried(alone: Alone) -> None:
    index = opened(alone, ONE)
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    unit = {"name": "2025-06-20 06:00:00 (6h0m0s)-Tt-S1", "timestamp": NOW, "duration": WINDOW_S * S, "shard": 1, "tenant": "t",
            "unit_version": 1}
    await index.add(block(3, tenant="t"))
    await index.truncate(Truncate(term=1, tombstones=[{"shard": unit}]))
    kept, late = result_of(job, 5), block(6, tenant="t", level=1)
    await poll(index, 0, report(job, SUCCESS, token, (late, kept)))
    same(known(index), [kept.id])
    buried = {one.name: one.message.blocks for one in tombstones.all_of(index.node.value)}
    same(set(buried), {unit["name"], job.name, f"{job.name}-dropped-Tt"})
    of = buried[f"{job.name}-dropped-Tt"]
    same((list(of.blocks), of.tenant, of.shard, of.compaction_level), ([late.id], "t", 1, 1))
    check(removed.is_removed(index.node.value, Block(late.id, 1, "t")), "the late block is known as removed")
    same([one.ulid for one in waiting(index)], [kept.id])


async def a_result_of_a_unit_that_is_still_to_be_deleted_is_buried(alone: Alone) -> None:
    """The dropped unit is forgotten, and its tombstone is not done. Then an operator adds an anonymous block, which a job makes
    the tenant's."""
    index = opened(alone, ONE)
    unit = {"name": "2025-06-20 06:00:00 (6h0m0s)-Tt-S1", "timestamp": NOW, "duration": WINDOW_S * S, "shard": 1, "tenant": "t",
            "unit_version": 1}
    await index.add(block(3, tenant="t", level=1))
    at(alone, WINDOW_S + 1)
    await index.truncate(Truncate(term=1, tombstones=[{"shard": unit}]))
    at(alone, WINDOW_S + 101)
    await index.truncate(Truncate(term=1))
    check(not removed.is_dropped(index.node.value, Unit(Partition(NOW), "t", 1)), "the unit is forgotten")
    for number in (1, 2):
        await index.add(block(number), past_horizon=True)
    job, token = await handed(alone, index, WINDOW_S + 104)
    late, other = block(6, tenant="t", level=1), block(7, tenant="u", level=1)
    await poll(index, 0, report(job, SUCCESS, token, (late, other)))
    same(known(index), [ulid(2), other.id])
    check(f"{job.name}-dropped-Tt" in {one.name for one in tombstones.all_of(index.node.value)}, "the late block is buried")
    (whole,) = [one for one in tombstones.all_of(index.node.value) if one.message.HasField("shard")]
    at(alone, WINDOW_S + 301)
    await index.confirm([whole.message])
    job, token = await handed(alone, index, WINDOW_S + 302)
    late = block(8, tenant="t", level=1)
    await poll(index, 0, report(job, SUCCESS, token, (late,)))
    same(known(index), [late.id, other.id])


async def a_dropped_unit_ends_its_jobs(alone: Alone) -> None:
    index = opened(alone, ONE)
    for number, tenant, shard in ((1, "", 1), (2, "", 2), (3, "t", 1)):
        await index.add(block(number, tenant=tenant, shard=shard))
    at(alone, 2)
    await poll(index, 9)
    unit = {"name": "2025-06-20 06:00:00 (6h0m0s)-T-S1", "timestamp": NOW, "duration": WINDOW_S * S, "shard": 1,
            "unit_version": 1}
    await index.truncate(Truncate(term=1, tombstones=[{"shard": unit}]))
    same({one.name for one in jobs.states(index.node.value)},
         {job_name("", 2, 0, [ulid(2)]), job_name("t", 1, 0, [ulid(3)])})
    same(jobs.plan(index.node.value, job_name("", 1, 0, [ulid(1)])), None)
    same((known(index), waiting(index)), ([ulid(2), ulid(3)], []))


# --- plans that come late

async def a_plan_changes_what_is_still_as_it_was(alone: Alone) -> None:
    index = opened(alone, ONE)
    await index.add(block(1))
    at(alone, 2)
    plan = (await index._proposed(GetPlan(assign_jobs_max=1))).answer.value
    same((len(plan.new_jobs), plan.new_jobs[0].plan.source_blocks[0]), (1, ulid(1)))
    raised = await alone.raises(PollAgain, index._proposed(UpdatePlan(term=2, plan_update=plan)))
    same(str(raised), "the plan was made in term 2, and appended in term 1: poll again")
    name = plan.new_jobs[0].state.name
    for changes in ({"name": "other"}, {"source_blocks": []}, {"source_blocks": [ulid(1), ulid(1)]},
                    {"source_blocks": [ulid(2)]},
                    {"tenant": "t"}, {"shard": 2}, {"compaction_level": 1}):
        wrong = PlanUpdate()
        wrong.CopyFrom(plan)
        for field, value in changes.items():
            if isinstance(value, list):
                del wrong.new_jobs[0].plan.source_blocks[:]
                wrong.new_jobs[0].plan.source_blocks.extend(value)
            else:
                setattr(wrong.new_jobs[0].plan, field, value)
        if "name" not in changes:
            of = wrong.new_jobs[0].plan
            of.name = wrong.new_jobs[0].state.name = job_name(of.tenant, of.shard, of.compaction_level, list(of.source_blocks))
        done = (await index._proposed(UpdatePlan(term=1, plan_update=wrong))).answer.value
        same((done.ByteSize(), [*jobs.states(index.node.value)], len(waiting(index))), (0, [], 1))
    named = PlanUpdate()
    named.CopyFrom(plan)
    named.new_jobs[0].state.name = "other"
    same((await index._proposed(UpdatePlan(term=1, plan_update=named))).answer.value.ByteSize(), 0)
    done = (await index._proposed(UpdatePlan(term=1, plan_update=plan))).answer.value
    same(done, plan)
    done = (await index._proposed(UpdatePlan(term=1, plan_update=plan))).answer.value
    same((done.ByteSize(), [one.name for one in jobs.states(index.node.value)]), (0, [name]))
    assign = (await index._proposed(GetPlan(assign_jobs_max=1))).answer.value
    same([part.state.token for part in assign.assigned_jobs], [index.node.index])
    for right in (True, False):
        done = (await index._proposed(UpdatePlan(term=1, plan_update=assign))).answer.value
        same([part.plan.name for part in done.assigned_jobs], [name] * right)
    evict = PlanUpdate()
    evict.evicted_jobs.add().state.name = name
    evict.evicted_jobs.add().state.name = "gone"
    evict.updated_jobs.add().state.CopyFrom(jobs.paused(JobState(name=name, status=IN_PROGRESS, token=1)))
    evict.assigned_jobs.add().state.name = "gone"
    evict.completed_jobs.add().state.name = "gone"
    evict.deleted.add(index=1, name="gone")
    same((await index._proposed(UpdatePlan(term=1, plan_update=evict))).answer.value.ByteSize(), 0)
    same(jobs.state(index.node.value, name), assign.assigned_jobs[0].state)


async def a_plan_adds_no_more_jobs_than_there_may_be(alone: Alone) -> None:
    index = opened(alone, ONE._replace(jobs=1))
    for number in (1, 2):
        await index.add(block(number))
    at(alone, 2)
    plan = (await index._proposed(GetPlan(assign_jobs_max=2))).answer.value
    same(len(plan.new_jobs), 1)
    second = JobPlan(name=job_name("", 1, 0, [ulid(2)]), shard=1, source_blocks=[ulid(2)])
    plan.new_jobs.add(state=JobState(name=second.name), plan=second)
    done = (await index._proposed(UpdatePlan(term=1, plan_update=plan))).answer.value
    same(([part.state.name for part in done.new_jobs], [one.ulid for one in waiting(index)]),
         ([job_name("", 1, 0, [ulid(1)])], [ulid(2)]))
    same([one.ulid for one in waiting_for(index.node.value, second) or ()], [ulid(2)])
    same(waiting_for(index.node.value, JobPlan(shard=1, source_blocks=[ulid(2), ulid(1)])), None)


async def a_plan_carries_only_tombstones_that_are_free(alone: Alone) -> None:
    index = opened(alone, ONE)
    await index.add(block(1))
    job, token = await handed(alone, index, 2)
    await poll(index, 0, report(job, SUCCESS, token, (result_of(job, 5),)))
    at(alone, 250)
    await index.add(block(2, 250))
    await index.add(block(3, 250))
    at(alone, 252)
    plan = (await index._proposed(GetPlan(assign_jobs_max=2))).answer.value
    same([len(part.plan.tombstones) for part in plan.new_jobs], [1, 0])
    plan.new_jobs[1].plan.tombstones.extend(plan.new_jobs[0].plan.tombstones)
    plan.new_jobs[0].plan.tombstones.add(index=1, blocks={"name": "gone"})
    done = (await index._proposed(UpdatePlan(term=1, plan_update=plan))).answer.value
    same([len(plan_of(index, part.state.name).tombstones) for part in done.new_jobs], [1, 0])


async def a_job_without_a_plan_ends_without_one(alone: Alone) -> None:
    """Such rows are none that a release writes. The job is given up, and nothing else happens."""
    index = opened(alone, ONE._replace(failures=1))
    writing = Writing(index.node.value, 1)
    jobs.put_state(writing, JobState(name="j", status=IN_PROGRESS, token=1, heard=True, lease_expires_at=1))
    index.node.value = type(index.node.value)(writing.root)
    part = PlanUpdate()
    part.evicted_jobs.add().state.name = "j"
    part.completed_jobs.add().state.CopyFrom(JobState(name="j", token=1))
    done = (await index._proposed(UpdatePlan(term=1, plan_update=part))).answer.value
    same((len(done.evicted_jobs), len(done.completed_jobs), [*under(index.node.value, row.JOB_STATE)]), (1, 0, []))


async def polls_take_turns(alone: Alone) -> None:
    index = opened(alone, ONE)
    index.node.troubles = [LeadershipLost("gone")]
    await alone.raises(LeadershipLost, poll(index))
    same(index.polling, None)
    await index.add(block(1))
    turn = index.world.signals.signal()
    index.polling = turn
    steps: list[str] = []

    async def waited() -> None:
        steps.append("waits")
        turn.happened = True  # pyright: ignore[reportAttributeAccessIssue]
        index.polling = None

    turn.wait = waited  # pyright: ignore[reportAttributeAccessIssue]
    at(alone, 2)
    await poll(index)
    same((steps, len([*jobs.states(index.node.value)])), (["waits"], 1))


SCRIPTS: tuple[Script, ...] = (
    a_job_is_planned_handed_out_and_ended, a_result_that_breaks_a_rule_ends_no_job, a_poll_does_several_things,
    a_plan_that_is_large_gets_no_more_jobs, many_jobs_are_handed_out_and_ended,
    a_worker_that_ends_a_job_gets_no_job_that_is_over,
    a_result_counts_with_the_token_that_it_was_reported_with, a_job_that_is_reported_twice_has_the_first_result,
    blocks_of_a_level_that_is_compacted_no_more_wait,
    a_report_after_the_lease_keeps_the_job, failed_jobs_make_room, one_poll_gives_up_no_more_than_it_needs,
    a_job_carries_tombstones_until_one_is_confirmed, a_tombstone_that_jobs_carry_in_vain_is_overdue,
    what_is_deleted_may_be_told_with_any_report, jobs_of_a_higher_level_end_without_a_result,
    a_result_of_a_dropped_unit_is_buried, a_result_of_a_unit_that_is_still_to_be_deleted_is_buried,
    a_dropped_unit_ends_its_jobs,
    a_plan_changes_what_is_still_as_it_was, a_plan_adds_no_more_jobs_than_there_may_be,
    a_plan_carries_only_tombstones_that_are_free, a_job_without_a_plan_ends_without_one, polls_take_turns)
