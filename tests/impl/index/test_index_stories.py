"""Each safeguard of the metadata index with its shortest story: the promise holds, and with the safeguard off it breaks."""

from collections.abc import Callable
from hashlib import sha256

import pytest

from highwater.impl.codecs.index import rows, snapshot, ulids
from highwater.impl.codecs.index.messages import AddBlock, Dataset, copied
from highwater.impl.codecs.index.partitions import Partition, partition_of
from highwater.impl.codecs.index.rows import Unit
from highwater.impl.index import (
    add,
    jobs,
    kv,
    machine,
    plan_update,
    planner,
    removed,
    replace,
    tombstones,
    truncate,
    units,
    validate,
)
from highwater.impl.index.answers import ABORTED, INVALID, OK, PRECONDITION
from highwater.impl.index.config import LONGEST_NS, Config, ConfigRefused, Level, S, checked
from highwater.impl.index.kv import MemoryKV
from tests.support.metadata_index import SMALL, START_S, Story, anonymous, block, progress, success

AHEAD_S = 5000  # of a writer's clock


# --- each datum once

def removed_after_its_tombstone_left():
    """A writer's clock is ahead. Its block's answer is lost; the block is compacted, its object deleted; it tries again."""
    story = Story()
    lost = block(1, AHEAD_S)
    story.add(lost)
    story.now_s = 40
    (first,) = story.assign()
    story.finish(first)
    story.now_s = 300
    story.add(block(2, 300))
    story.now_s = 340
    carrying = next(one for one in story.assign() if one.plan.tombstones)
    assert story.add(lost).code == OK
    story.check()
    story.finish(carrying)
    assert not [one for one in story.tombstones() if lost.id in one.blocks.blocks]
    assert story.add(lost).code == OK
    story.check()


def removed_and_tried_again():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    story.finish(job)
    assert story.data() == {"d0": 1, "d1": 1}
    assert story.add(block(1)).code == OK
    story.check()


def removed_and_tried_again_after_all_is_forgotten(clock_s: int = 2000):
    """The object is deleted and the horizon is over, so nothing is known of the block any more."""
    story = Story()
    story.add(block(1))
    story.now_s = 40
    story.finish(story.assign()[0])
    story.now_s = 300
    story.add(block(2, 300))
    story.now_s = 2000
    for job in story.assign():
        story.finish(job)
    story.put(None)
    with story.machine.kv.snapshot() as rows:
        assert not removed.is_removed(rows, replace.Block(block(1).id, 1, ""))
    story.now_s = clock_s
    answer = story.add(block(1))
    story.check()
    assert answer.code == PRECONDITION and "horizon of 100000 ms" in answer.text


def the_same_and_the_next_leaders_clock_is_behind():
    removed_and_tried_again_after_all_is_forgotten(clock_s=50)


def only_in_a_free_tombstone(rows, named):
    """Pyroscope's check: a tombstone leaves the index as soon as a job takes it."""
    return any(named.ulid in one.message.blocks.blocks and not one.message.job for one in tombstones.all_of(rows))


# --- one live job per source

def a_block_that_is_planned_is_added_again():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    story.poll()
    story.add(block(1))
    story.add(block(2))
    story.poll()
    story.check()


def a_plan_that_came_twice():
    """A plan is proposed twice, since its first answer is lost. The second comes after its jobs have ended."""
    story = Story()
    story.add(block(0))
    story.add(block(1))
    plan = story.get_plan()
    story.update_plan(plan)
    (job,) = story.poll().assigned_jobs
    story.finish(job)
    before = story.content()
    assert not story.update_plan(plan).value.new_jobs
    assert story.content() == before
    story.check()


def sources_that_wait_or_not(rows, plan):
    """Takes the rows of the queue that are there."""
    from highwater.impl.index import queue
    return [one for one in queue.waiting(rows) if one.ulid in plan.source_blocks]


# --- replacing is atomic

class Failing(MemoryKV):
    """A store in whose transactions the n-th row cannot be written."""

    fails_at = 1 << 30

    def transaction(self):
        outer = super().transaction()
        store = self

        class Counted:
            def __enter__(self):
                self.rows = outer.__enter__()
                inner, left = self.rows.put, store.fails_at

                def put(key, value):
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise MemoryError("no room for this row")
                    inner(key, value)

                self.rows.put = put
                return self.rows

            def __exit__(self, *error):
                return store.ended(outer, error)

        return Counted()

    @staticmethod
    def ended(outer, error):
        return outer.__exit__(*error)


def replacing_fails_at_each_row():
    for row in range(12):
        store = Failing()
        story = Story(kv=store)
        story.add(block(0))
        story.add(block(1))
        (job,) = story.assign()
        plan = story.get_plan((success(job),), 0)
        before = story.content()
        store.fails_at = row
        try:
            story.update_plan(plan, {job.state.name: story.result(job.plan)})
        except MemoryError:
            assert story.content() == before
        else:
            assert row > 8
        assert story.data() == {"d0": 1, "d1": 1}


def kept_although_it_failed(outer, error):
    return outer.__exit__(None, None, None)


# --- commands of a deposed leader

def a_plan_of_an_earlier_term():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    plan = story.get_plan()
    story.term = 3
    before = story.content()
    answer = story.update_plan(plan, made_in=1)
    assert story.content() == before and answer.code == ABORTED and "term 1" in answer.text


def a_truncation_of_an_earlier_term():
    story = Story()
    story.add(block(0))
    story.term = 3
    before = story.content()
    answer = story.truncate(anonymous(), made_in=1)
    assert story.content() == before and answer.code == ABORTED


# --- retention is final

def a_block_of_a_dropped_unit_is_added_again():
    story = Story()
    story.add(block(0))
    assert story.truncate(anonymous()).code == OK
    assert story.add(block(0)).code == PRECONDITION
    assert not story.visible()
    story.check()


def a_job_ends_after_its_results_unit_is_dropped():
    """The anonymous sources are there; the unit of the tenant that the result belongs to is not."""
    story = Story()
    story.add(block(9, tenant="t", level=2))
    story.objects.add(f"blocks/1/t/{block(9).id}/block.bin")
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    unit = Unit(anonymous().partition, "t", 1)
    story.truncate(unit)
    story.finish(job)
    with story.machine.kv.snapshot() as rows:
        assert truncate.units.times(rows, unit) is None, "the dropped unit is back"
    story.check()


def a_job_ends_long_after_its_results_unit_is_dropped_and_deleted():
    """The tombstone of the dropped unit deletes the object that a slow worker has written already."""
    story = Story()
    story.add(block(9, tenant="t", level=2))
    story.objects.add(f"blocks/1/t/{block(9).id}/block.bin")
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    result = story.result(job.plan)
    story.truncate(Unit(anonymous().partition, "t", 1))
    story.now_s = 2 * 6 * 3600
    story.poll((), 0, story.delete(story.tombstones()))
    story.truncate()
    story.now_s = 5  # within the lease; the time of the log stands still
    plan = story.get_plan((success(job),), 0)
    story.update_plan(plan, {job.state.name: result})
    story.check()
    assert not story.data()


def dropped_units_are_forgotten():
    """Nothing is kept for ever: once the anonymous unit is dropped, too, and the horizon is over."""
    story = Story()
    story.add(block(9, tenant="t", level=2))
    story.add(block(0))
    story.truncate(Unit(anonymous().partition, "t", 1))
    story.now_s = 2 * 6 * 3600
    story.truncate()
    kept = story.content()
    story.truncate(anonymous())
    assert [key for key, _ in kept if key[:1] == rows.DROPPED] and not [
        key for key, _ in story.content() if key[:1] == rows.DROPPED]


def a_block_came_after_the_cleaner_had_read():
    story = Story()
    story.add(block(0))
    read = story.version(anonymous())
    story.add(block(1))
    story.truncate(anonymous(), version=read)
    assert story.data() == {"d0": 1, "d1": 1}


# --- one result per job

def two_workers(story):
    """The first worker's lease ends, and another one gets the job."""
    story.add(block(0))
    story.add(block(1))
    (first,) = story.assign()
    story.now_s += 11
    (second,) = story.poll().assigned_jobs
    assert second.state.name == first.state.name and second.state.token > first.state.token
    return first, second


def the_first_of_two_workers_reports():
    story = Story()
    first, _ = two_workers(story)
    before = story.content()
    for report in (progress(first), success(first)):
        story.poll((report,), 0, results={first.state.name: story.result(first.plan)})
        assert story.content() == before, "who lost its job changes something"


def a_result_comes_twice():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    plan, result = story.get_plan((success(job),), 0), story.result(job.plan)
    story.update_plan(plan, {job.state.name: result})
    before = story.content()
    story.update_plan(plan, {job.state.name: result})
    assert story.content() == before
    story.check()


def a_job_is_renewed_after_it_is_gone():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    plan = story.get_plan((progress(job),), 0)
    story.truncate(anonymous())
    story.update_plan(plan)
    assert not story.states(), "a job that is gone is there again"


# --- every queued block is compacted

def two_jobs_at_the_limit_that_always_fail():
    """Two jobs fill the limit, and their workers die of them. Others' blocks have to be compacted all the same."""
    story = Story()
    for number in range(4):
        story.add(block(number, shard=7))
    for number in range(4, 6):
        story.add(block(number, shard=8))
    for _ in range(60):
        for given in story.poll().assigned_jobs:
            story.poll((progress(given),), 0)
            if given.plan.shard == 8:
                story.finish(given)
        story.now_s += 6
        story.check()
    assert not [one for one in story.waiting() if one.shard == 8]
    assert not [name for name, plan in story.plans().items() if plan.shard == 8]
    assert len(story.states()) <= story.config.jobs


def workers_heal():
    """Workers die three times in each job, and then no more."""
    story = Story()
    story.add(block(0))
    story.add(block(1))
    for _ in range(3):
        for given in story.assign():
            story.poll((progress(given),), 0)
        story.now_s += 11
    story.now_s += 60
    for _ in range(9):
        for given in story.assign():
            story.finish(given)
        story.now_s += 61
    assert not story.waiting() and not story.states() and story.data() == {"d0": 1, "d1": 1}


def answers_to_polls_are_lost():
    story = Story()
    story.add(block(0))
    story.add(block(1))
    for _ in range(5):
        story.assign()  # nobody hears of it
        story.now_s += 11
    (state,) = story.states().values()
    assert jobs.failures(state, (START_S + story.now_s) * 10**9) == 0
    assert len(story.poll().assigned_jobs) == 1


# --- objects

def an_older_unit_is_kept():
    """An older unit stays for its later data; a younger one is dropped."""
    story = Story(SMALL)
    story.add(block(0))
    story.now_s = 6 * 3600
    story.add(block(1, story.now_s))
    story.truncate(anonymous(story.now_s))
    story.now_s += 300
    story.put(None)
    story.delete(story.tombstones())
    story.check()
    assert story.data() == {"d0": 1} and len(story.objects) == 1


def a_worker_dies_after_its_success():
    """It has reported its result, and not deleted what its tombstones name."""
    story = Story()
    story.add(block(0))
    story.now_s = 40
    story.finish(story.assign()[0])
    story.now_s = 300
    story.add(block(1, 300))
    story.now_s = 340
    carrying = next(one for one in story.assign() if one.plan.tombstones)
    story.finish(carrying, deleted=False)
    later_jobs_delete(story)


def a_job_with_tombstones_is_cancelled():
    story = Story()
    story.add(block(0))
    story.now_s = 40
    story.finish(story.assign()[0])
    story.now_s = 300
    story.add(block(1, 300, shard=2))
    story.now_s = 340
    next(one for one in story.assign() if one.plan.tombstones)
    story.truncate(Unit(anonymous().partition, "", 2))
    later_jobs_delete(story)


def later_jobs_delete(story):
    """Let time pass, with new blocks and workers that do what they should; every removed object is deleted then."""
    for number in range(20, 40):
        story.now_s += 300
        story.add(block(number, story.now_s))
        for given in story.assign():
            story.finish(given)
        story.poll((), 0, story.delete(story.overdue()))
    story.check()
    removed_ = {block(0).id, block(1, 300).id, block(1, 300, shard=2).id}
    assert not [key for key in story.objects if key.split("/")[3] in removed_], "a removed object stays for ever"


def handed_out_and_forgotten(rows, stored, job):
    """Pyroscope's way: the tombstone leaves the index with the job."""
    rows.delete(stored.key)
    return stored.message


def a_tombstone_waits_for_queries():
    story = Story()
    story.add(block(0))
    story.now_s = 40
    (job,) = story.assign()
    story.finish(job)
    story.add(block(1, 41))
    story.now_s = 80
    assert not [one for given in story.assign() for one in given.plan.tombstones], "a running query loses its objects"
    story.now_s = 241
    story.add(block(2, 241))
    story.now_s = 272
    assert [one for given in story.assign() for one in given.plan.tombstones]


# --- windows

def a_late_block_waits_beside_a_fresh_one():
    """Retention has dropped the tenant's unit of the late one's window. The fresh datum stays."""
    story, day_s = Story(Config(levels=(Level(2, 36 * S),))), 24 * 3600
    old = block(9, tenant="t", level=2)
    story.add(old)
    story.now_s = 2 * day_s
    story.truncate(Unit(partition_of(old.id), "t", 1))
    story.add(block(0))
    story.add(block(1, 2 * day_s))
    for _ in range(2):
        story.now_s += 60
        for job in story.assign():
            story.finish(job)
    assert dict(story.data()) == {"d1": 1}
    story.check()


def a_block_is_added_past_the_horizon_while_its_unit_is_to_be_deleted():
    story = Story()
    story.add(block(9, tenant="t", level=2))
    story.now_s = 7 * 3600
    late = block(3, tenant="t", level=2)
    story.truncate(units.unit_of(late))
    story.now_s += 60
    story.truncate(Unit(Partition(START_S * S), "u", 1))  # forgets what is dropped and too old
    assert story.put(AddBlock(metadata=late, past_horizon=True)).code == PRECONDITION


# --- bad blocks

def a_block_with_anothers_strings():
    story = Story()
    story.add(block(0, tenant="victim"))
    bad = copied(block(1, tenant="thief"))
    bad.datasets.append(Dataset(name=len(bad.string_table) + 2))
    before = story.content()
    answer = story.add(bad)
    assert answer.code == INVALID and story.content() == before


STORIES: list[tuple[str, Callable[[], None], object, str, Callable]] = [  # safeguard, story, where it is, what it is without
    ("KEEP_REMOVED", removed_after_its_tombstone_left, removed, "is_removed", only_in_a_free_tombstone),
    ("KEEP_GONE", removed_after_its_tombstone_left, removed, "gone",
     lambda rows, named: rows.delete(removed.row.removed_key(removed.row.REMOVED, named))),
    ("TOMB_CHECK", removed_and_tried_again, removed, "is_removed", lambda rows, named: False),
    ("HORIZON", removed_and_tried_again_after_all_is_forgotten, removed, "is_too_old", lambda ulid, now_ns, config: False),
    ("CLOCK", the_same_and_the_next_leaders_clock_is_behind, machine, "clock_ns", lambda rows: 0),
    ("BLOCK_STATE", a_block_that_is_planned_is_added_again, add, "is_here", lambda rows, unit, ulid: False),
    ("ONE_WINDOW", a_late_block_waits_beside_a_fresh_one, planner, "unit_of",
     lambda queued: Unit(Partition(0), queued.tenant, queued.shard)),
    ("SOURCES_WAIT", a_plan_that_came_twice, plan_update, "waiting_for", sources_that_wait_or_not),
    ("TX", replacing_fails_at_each_row, Failing, "ended", staticmethod(kept_although_it_failed)),
    ("TERM_CHECK", a_plan_of_an_earlier_term, plan_update, "is_of_term", lambda entry, request: True),
    ("TERM_CHECK_TRUNCATE", a_truncation_of_an_earlier_term, plan_update, "is_of_term", lambda entry, request: True),
    ("DROPPED", a_block_of_a_dropped_unit_is_added_again, removed, "is_dropped", lambda rows, unit: False),
    ("DROPPED_JOB", a_job_ends_after_its_results_unit_is_dropped, removed, "is_dropped", lambda rows, unit: False),
    ("DROPPED_KEPT", a_job_ends_long_after_its_results_unit_is_dropped_and_deleted, removed, "may_come_back",
     lambda rows, unit: False),
    ("FORGET_DROPPED", dropped_units_are_forgotten, removed, "may_come_back", lambda rows, unit: True),
    ("DROPPED_PAST_HORIZON", a_block_is_added_past_the_horizon_while_its_unit_is_to_be_deleted, tombstones, "names_unit",
     lambda rows, unit: False),
    ("UNIT_VERSION", a_block_came_after_the_cleaner_had_read, truncate, "is_unchanged", lambda rows, told: True),
    ("TOKEN", the_first_of_two_workers_reports, jobs, "holds", lambda job, token: True),
    ("JOB_EXISTS", a_job_is_renewed_after_it_is_gone, plan_update, "is_current", lambda rows, told: True),
    ("EVICT_AT_LIMIT", two_jobs_at_the_limit_that_always_fail, jobs, "evictable", lambda several, now_ns, config: None),
    ("RETRY_FAILED", workers_heal, jobs, "may_assign", lambda job, now_ns, config: (
        jobs.is_free(job, now_ns) and not jobs.has_failed(job, now_ns, config))),
    ("HEARD", answers_to_polls_are_lost, jobs, "failures", lambda job, now_ns: (
        job.failures + (job.status == 1 and jobs.is_free(job, now_ns)))),
    ("SHARD_PREFIX_BOUND", an_older_unit_is_kept, tombstones, "is_inside", lambda window, ulid: (
        ulids.time_ns(ulid) < window.end_ns)),
    ("CONFIRM", a_worker_dies_after_its_success, tombstones, "hand_out", handed_out_and_forgotten),
    ("TAKE_BACK", a_job_with_tombstones_is_cancelled, tombstones, "take_back", lambda rows, job, carried: None),
    ("DELAY", a_tombstone_waits_for_queries, tombstones, "is_due", lambda stored, now_ns, config: True),
    ("VALIDATE", a_block_with_anothers_strings, add, "invalid_block", lambda made: None),
]
NAMES = [name for name, *_ in STORIES]


ALL = sorted({story for _, story, *_ in STORIES} | {a_result_comes_twice}, key=lambda one: one.__name__)


@pytest.mark.parametrize("story", ALL)
def test_the_promise_holds(story):
    story()


@pytest.mark.parametrize("name, story, where, function, without", STORIES, ids=NAMES)
def test_without_the_safeguard_it_breaks(monkeypatch, name, story, where, function, without):
    monkeypatch.setattr(where, function, without)
    with pytest.raises(Exception) as broken:
        story()
    assert broken.type is AssertionError or name == "VALIDATE"


# --- more of the same

def test_a_delay_that_is_not_above_the_horizon_is_refused():
    with pytest.raises(ConfigRefused, match="set a longer delay"):
        checked(Config(horizon_ns=5, delay_ns=5, query_ns=1))
    for name in ("lease_ns", "jobs", "failures", "hand_outs", "tombstones", "retry_failed_ns", "horizon_ns", "retry_ns",
                 "query_ns"):
        with pytest.raises(ConfigRefused, match=name):
            checked(Config()._replace(**{name: 0}))
    with pytest.raises(ConfigRefused, match="level"):
        checked(Config(levels=(Config().levels[0]._replace(blocks=0),)))
    assert checked(Config()) == Config()


def test_a_time_of_more_than_a_hundred_years_is_refused():
    """The end of a lease has to fit into 64 bits, or no node could apply the entry that gives the job to a worker."""
    most = LONGEST_NS
    assert checked(Config(lease_ns=most))
    for config, name in ((Config(lease_ns=most + 1), "lease_ns"), (Config(levels=(Level(2, most + 1),)), "age_ns of a level")):
        with pytest.raises(ConfigRefused, match=f"{name} is {most + 1}, and may be {most} at most, which are 100 years"):
            checked(config)
    story = Story(SMALL._replace(lease_ns=most))
    for number in range(SMALL.levels[0].blocks):
        story.add(block(number))
    assert story.assign()


def test_a_delay_that_is_not_above_the_time_of_a_query_is_refused():
    with pytest.raises(ConfigRefused, match="a query still reads it"):
        checked(Config(query_ns=Config().delay_ns))
    assert checked(Config(query_ns=Config().delay_ns - 1)).query_ns == Config().delay_ns - 1


def test_a_horizon_below_the_time_of_retries_is_refused():
    with pytest.raises(ConfigRefused, match="set a longer horizon"):
        checked(Config(horizon_ns=59 * S, retry_ns=60 * S))
    assert checked(Config(horizon_ns=60 * S, retry_ns=60 * S)).retry_ns == 60 * S
    assert Config().horizon_ns == 7 * 24 * 3600 * S


def test_an_entry_is_applied_once_and_in_its_place():
    story = Story()
    story.add(block(0))
    assert story.machine.apply(story.log[0]) is None
    before = story.machine.dump()
    with pytest.raises(machine.EntryMissing, match="entry 3 came after entry 1"):
        story.machine.apply(story.log[0]._replace(index=3))
    assert story.machine.dump() == before


@pytest.mark.parametrize("body", [b"\0\0\0\x05", b"\0\0\0\1\xff", b"\0"])
def test_an_entry_that_nobody_can_read_changes_nothing(body):
    story = Story()
    story.add(block(0))
    before = story.machine.dump()
    with pytest.raises(machine.Definite):
        story.machine.apply(machine.Entry(2, 1, 0, body))
    assert story.machine.dump() == before


BAD = {
    "ULID": dict(id="!" * 26), "year 2262": dict(id="7" + "Z" * 25),
    "no ULID": dict(id=""), "times": dict(min_time=0), "times back": dict(max_time=5),
    "tenant": dict(tenant=99), "negative": dict(tenant=-1), "creator": dict(created_by=99),
    "first string": dict(string_table=["x", "writer", "kind", "cpu", "d1"])}


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_bad_blocks_are_refused_and_nothing_changes(change):
    story = Story()
    bad = block(1)
    for name, value in change.items():
        if name == "string_table":
            bad.string_table[:] = value
        else:
            setattr(bad, name, value)
    assert validate.invalid_block(bad) and not validate.invalid_block(block(1))
    assert story.add(bad).code == INVALID and not story.content()


@pytest.mark.parametrize("tenant", ["-", "anonymous", ".", "..", "a/b", "a\0b", "x" * 151])
def test_tenants_that_have_no_rows_or_paths_of_their_own(tenant):
    assert "tenant" in (validate.invalid_block(block(1, tenant=tenant)) or "")


def test_a_named_block_has_its_tenants_datasets_only():
    bad = block(1, tenant="t")
    bad.string_table.append("other")
    bad.datasets.add(tenant=len(bad.string_table) - 1)
    assert "'other'" in (validate.invalid_block(bad) or "")
    bad.tenant = 0
    assert validate.invalid_block(bad) is None, "an anonymous block has any tenant's"


def test_datasets_are_inside_their_block():
    bad = block(1)
    bad.datasets.add(min_time=1000, max_time=2001)
    assert "dataset 1" in (validate.invalid_block(bad) or "")
    bad.datasets[1].max_time = bad.datasets[1].min_time = 0
    assert validate.invalid_block(bad) is None


def test_a_block_that_is_too_large_is_refused():
    large = block(1)
    large.string_table.append("x" * validate.LARGEST_BLOCK_BYTES)
    assert "bytes" in (validate.invalid_block(large) or "")


def test_an_argument_is_never_changed():
    story, made = Story(), block(1, tenant="t")
    before = made.SerializeToString()
    story.add(made)
    assert made.SerializeToString() == before


@pytest.mark.parametrize("change", ["sources", "none", "level", "shard", "time", "invalid", "twice"])
def test_a_result_that_is_not_of_its_job_changes_nothing(change):
    story = Story()
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    result = story.result(job.plan)
    match change:
        case "sources":
            del result.source_blocks.blocks[1:]
        case "none":
            del result.new_blocks[:]
        case "level":
            result.new_blocks[0].compaction_level = 2
        case "shard":
            result.new_blocks[0].shard = 9
        case "time":
            result.new_blocks[0].id = block(5, 77).id
        case "invalid":
            result.new_blocks[0].tenant = 99
        case "twice":
            result.new_blocks.append(result.new_blocks[0])
    before = story.content()
    story.finish(job, result=result)
    assert story.content() == before
    story.finish(job)
    assert story.data() == {"d0": 1, "d1": 1} and not story.states()


def test_a_truncation_that_names_no_unit_is_refused():
    story = Story()
    story.add(block(0))
    before = story.content()
    for change in (dict(name="other"), dict(duration=1), dict(timestamp=1), dict(tenant="a\0b")):
        command = machine.Truncate(term=1)
        told = command.tombstones.add().shard
        told.name = "2025-06-20 06:00:00 (6h0m0s)-T-S1"
        told.timestamp, told.duration, told.shard, told.unit_version = START_S * 10**9, truncate.WINDOW_NS, 1, 1
        for name, value in change.items():
            setattr(told, name, value)
        assert story.put(command).code == INVALID and story.content() == before
    command = machine.Truncate(term=1, tombstones=[tombstones.of_blocks("j", 0, [replace.Block(block(0).id, 1, "")])])
    assert story.put(command).code == INVALID and story.content() == before


def test_jobs_wait_for_enough_blocks_or_long_enough():
    story = Story()
    story.add(block(0))
    assert not story.poll().new_jobs
    story.now_s = 29
    assert not story.poll().new_jobs
    story.now_s = 30
    assert [list(one.plan.source_blocks) for one in story.poll().new_jobs] == [[block(0).id]]


def test_waiting_blocks_of_a_level_that_is_no_more_stay_as_they_are():
    """A backup may be restored into an index with fewer levels: rows of its queue may be of one that is not compacted."""
    story = Story()
    story.add(block(0, level=1))
    story.add(block(1))
    fewer = story.config._replace(levels=story.config.levels[:1])
    with story.machine.kv.snapshot() as rows:
        (batch,) = planner.batches(rows, (START_S + 999) * 10**9, fewer)
        assert [queued.ulid for queued in batch] == [block(1).id]
        assert len(list(planner.batches(rows, (START_S + 999) * 10**9, story.config))) == 2, "and they go on with the level"


def test_groups_are_of_one_tenant_shard_and_level():
    story = Story(SMALL._replace(jobs=9))
    for number, (tenant, shard, level) in enumerate([("", 1, 0), ("t", 1, 0), ("", 2, 0), ("", 1, 1), ("", 1, 0)]):
        made = block(number, tenant=tenant, shard=shard, level=level)
        story.add(made)
    (job,) = story.poll().new_jobs
    assert list(job.plan.source_blocks) == [block(0).id, block(4).id]
    with story.machine.kv.snapshot() as rows:
        assert len(list(planner.batches(rows, (START_S + 999) * 10**9, story.config))) == 3, "one is planned, two levels wait"


def test_a_removed_block_is_a_snapshot_away():
    """A reader that began before the replacement sees the sources, and not the result."""
    story = Story()
    story.add(block(0))
    story.add(block(1))
    (job,) = story.assign()
    with story.machine.kv.snapshot() as before:
        story.finish(job)
        assert [ulid for _, ulid in truncate.units.visible(before)] == [block(0).id, block(1).id]
    assert len(story.visible()) == 1
    assert kv.after_prefix(b"a") == b"b"


def test_the_bytes_of_a_state_stay_as_they_are():
    """A state with every kind of row but what is gone; a snapshot that an earlier commit has written is read."""
    story = Story()
    for number in range(2):
        story.add(block(number))
    story.finish(story.assign()[0])
    story.add(block(2, shard=2))
    story.add(block(3, shard=2))
    story.poll()
    story.add(block(4, tenant="t", shard=3))
    story.truncate(Unit(anonymous().partition, "t", 3))
    story.add(block(5))
    kinds = {key[0] for key, _ in story.content()} | {rows.APPLIED[0], rows.CLOCK[0]}
    assert kinds == set(range(1, 11)) - {rows.GONE[0]}
    assert sha256(story.machine.dump()).hexdigest() == (
        "f65cefabcc10d5bd9261723cd0964427e27c504a607e9aad4453ae35a76ddfbc")
    written = bytes.fromhex(
        "48574958000000010000002400000000000000050000000000000002000000020000000000000001000000000000000300000000000000"
        "2128b52ffd203bc50000800000000161000000013162000000283202007055b0162400000000000000028d16c632")
    assert snapshot.decode(written) == (snapshot.Position(5, 2, (1, 3)), [(b"a", b"1"), (b"b", b"2" * 40)])
