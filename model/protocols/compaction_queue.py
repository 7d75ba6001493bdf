"""Safety: each batch of blocks waits, or one job compacts it, or it is compacted; who has lost its job changes nothing.
Liveness: if workers heal, every batch that can be compacted is, also if others always fail.

The jobs of a metadata index (Pyroscope's) and the leases of its workers. A batch is as many blocks as one job compacts. A
worker that has nothing to do polls. A poll assigns a job, and plans another one for the batch that has waited longest. Some
batches are bad: whoever compacts one dies of it. specs/CompactionQueue.fizz has the same names, states and labelled edges.

There is no clock. The lease of a worker that is dead, or has not heard of its job, ends in the end. A failed job is tried again
after a pause in which there was at least one poll. A worker that dies of its job has reported before. Failures are counted up
to the limit.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, one_more, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    BATCHES: int = 2
    BAD: int = 0  # the first batches, which nobody can compact
    WORKERS: int = 1
    JOBS: int = 1  # at most, planned and running
    FAILURES: int = 1  # leases that ended without a result, after which a job has failed
    # Faults, each bounded
    MAX_DEATHS: int | None = 0  # of workers, in a job that is not bad
    MAX_LOST: int | None = 0  # answers to polls
    MAX_STALLS: int | None = 0  # leases that end though their worker is alive
    # For liveness alone: switch it off and a batch is not compacted
    EVICT_AT_LIMIT: bool = True  # at the limit a failed job makes room
    EVICTED_LAST: bool = True  # its batch waits behind the others; False: before them
    RETRY_FAILED: bool = True  # a failed job is tried again after a pause
    # Safeguards: switch one off and a property must fail
    REQUEUE: bool = True  # the batch of a job that is given up waits again
    HEARD: bool = True  # a lease counts as failed only if its worker has reported
    TOKEN: bool = True  # only the worker that took a job last renews or ends it
    JOB_EXISTS: bool = True  # only a job that is there is renewed or ended


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("BATCHES", "BAD", "WORKERS", "MAX_DEATHS", "MAX_LOST", "MAX_STALLS"), MANY),
    **dict.fromkeys(("JOBS", "FAILURES"), MANY[1:])}

Batch = int


class Job(NamedTuple):
    batch: Batch
    taken: bool = False  # a worker got it
    holder: int | None = None  # that worker; None: it is dead, or its answer was lost
    heard: bool = False  # the holder has reported
    over: bool = False  # its lease has ended
    failures: int = 0  # in the leases before
    paused: bool = False  # there was a poll since it has failed


class Shared(NamedTuple):
    queue: tuple[Batch, ...]  # that wait, the first first
    jobs: tuple[Job, ...]  # in the order in which they were planned
    done: frozenset[Batch]
    deaths: int
    lost: int
    stalls: int
    # ghosts
    arrived: frozenset[Batch]
    usurped: bool  # a worker that had lost its job has changed it
    wronged: bool  # an answer that was lost counted as a failure


class Worker(NamedTuple):
    batch: Batch | None = None  # that it compacts
    told: bool = False  # it has reported


# --- jobs

def is_free(j: Job) -> bool:
    """Tell whether no worker has a job."""
    return not j.taken or j.over


def failures(c: Constants, j: Job) -> int:
    ended = j.taken and j.over and (j.heard or not c.HEARD)
    return min(j.failures + ended, c.FAILURES)


def has_failed(c: Constants, j: Job) -> bool:
    return is_free(j) and failures(c, j) == c.FAILURES


def may_assign(c: Constants, j: Job) -> bool:
    return is_free(j) and (not has_failed(c, j) or (j.paused and c.RETRY_FAILED))


def place(s: Shared, b: Batch) -> int | None:
    """Return the place of a batch's job; None if there is none."""
    return next((i for i, j in enumerate(s.jobs) if j.batch == b), None)


def with_jobs(s: Shared, i: int, *jobs: Job) -> Shared:
    """Put these jobs, one or none, in place `i`."""
    return s._replace(jobs=(*s.jobs[:i], *jobs, *s.jobs[i + 1:]))


# --- a poll

def next_job(c: Constants, s: Shared) -> int | None:
    """Return the place of the job that a worker gets: one that has failed least, and of these the first."""
    free = [i for i, j in enumerate(s.jobs) if may_assign(c, j)]
    return min(free, key=lambda i: (failures(c, s.jobs[i]), i)) if free else None


def assigned(c: Constants, s: Shared, i: int, holder: int | None) -> Shared:
    j = s.jobs[i]
    n = failures(c, j)
    return with_jobs(s, i, Job(j.batch, True, holder, False, False, n))._replace(
        wronged=s.wronged or (n > j.failures and not j.heard))


def planned(c: Constants, s: Shared, busy: Batch | None) -> Shared:
    """Plan a job for the first batch that waits. At the limit a failed job makes room, but not the one of `busy`."""
    if not s.queue:
        return s
    first, after = s.queue[0], s._replace(queue=s.queue[1:])
    if len(s.jobs) >= c.JOBS:
        failed = [i for i, j in enumerate(s.jobs) if has_failed(c, j) and j.batch != busy]
        if not failed or not c.EVICT_AT_LIMIT:
            return s
        evicted = (s.jobs[failed[0]].batch,) if c.REQUEUE else ()
        after = with_jobs(after, failed[0])._replace(
            queue=after.queue + evicted if c.EVICTED_LAST else evicted + after.queue)
    return after._replace(jobs=(*after.jobs, Job(first)))


def polled(c: Constants, s: Shared, holder: int | None) -> tuple[Shared, Batch | None]:
    """Return the state after a poll, and the batch that its worker gets."""
    i = next_job(c, s)
    got = None if i is None else s.jobs[i].batch
    after = planned(c, s if i is None else assigned(c, s, i, holder), got)
    return after._replace(jobs=tuple(j._replace(paused=has_failed(c, j)) for j in after.jobs)), got


def poll(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """A worker that has nothing to do polls. What changes nothing is no step."""
    after, got = polled(c, s, me)
    if w.batch is None and after != s:
        yield (), after, Worker(got)


def lose_answer(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """It polls, and the answer is lost."""
    after, got = polled(c, s, None)
    if w.batch is None and got is not None and below(s.lost, c.MAX_LOST):
        yield (), after._replace(lost=one_more(s.lost, c.MAX_LOST)), w


# --- a worker with a job

def is_mine(s: Shared, me: int, w: Worker) -> bool:
    """Tell whether the index knows that this worker has its job."""
    i = None if w.batch is None else place(s, w.batch)
    return i is not None and s.jobs[i].taken and s.jobs[i].holder == me


def is_taken(c: Constants, s: Shared, me: int, w: Worker) -> bool:
    """Tell whether the index takes what a worker reports of its job."""
    assert w.batch is not None
    return not c.JOB_EXISTS if place(s, w.batch) is None else is_mine(s, me, w) or not c.TOKEN


def usurping(s: Shared, me: int, w: Worker) -> bool:
    return s.usurped or not is_mine(s, me, w)


def report(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """It reports that it goes on, which renews its lease. If it has lost the job it stops."""
    if w.batch is None:
        return
    i = place(s, w.batch)
    if not is_taken(c, s, me, w):
        yield (), s, Worker()
    elif i is None:
        yield (), s._replace(jobs=(*s.jobs, Job(w.batch, True, me, True))), w._replace(told=True)
    elif not w.told or s.jobs[i].over:
        yield (), with_jobs(s, i, s.jobs[i]._replace(heard=True, over=False, paused=False))._replace(
            usurped=usurping(s, me, w)), w._replace(told=True)


def finish(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """It reports its result."""
    if w.batch is not None and w.batch >= c.BAD and is_taken(c, s, me, w):
        i = place(s, w.batch)
        after = s if i is None else with_jobs(s, i)._replace(usurped=usurping(s, me, w))
        yield (), after._replace(done=s.done | {w.batch}), Worker()


def abandoned(s: Shared, me: int, w: Worker) -> Shared:
    """Return the state once a worker is dead."""
    i = None if w.batch is None else place(s, w.batch)
    return with_jobs(s, i, s.jobs[i]._replace(holder=None)) if i is not None and is_mine(s, me, w) else s


def die(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """It dies, and another one comes in its place."""
    if w.batch is not None and w.batch >= c.BAD and below(s.deaths, c.MAX_DEATHS):
        yield (), abandoned(s, me, w)._replace(deaths=one_more(s.deaths, c.MAX_DEATHS)), Worker()


def die_of_job(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    if w.batch is not None and w.batch < c.BAD and w.told:
        yield (), abandoned(s, me, w), Worker()


def stall(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """Its lease ends, and it does not know."""
    if w.batch is not None and is_mine(s, me, w) and below(s.stalls, c.MAX_STALLS):
        i = place(s, w.batch)
        if i is not None and not s.jobs[i].over:
            yield (), with_jobs(s, i, s.jobs[i]._replace(over=True))._replace(stalls=one_more(s.stalls, c.MAX_STALLS)), w


# --- the index

def arrive(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """So many blocks have come that a job can compact them."""
    for b in range(c.BATCHES):
        if b not in s.arrived:
            yield (b,), s._replace(queue=(*s.queue, b), arrived=s.arrived | {b}), ()


def expire(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The lease of a job ends that no worker works on."""
    for i, j in enumerate(s.jobs):
        if j.taken and j.holder is None and not j.over:
            yield (j.batch,), with_jobs(s, i, j._replace(over=True)), ()


# --- properties

def each_batch_once(c: Constants, s: Shared) -> bool:
    """A batch waits, or one job compacts it, or it is compacted."""
    where = [*s.queue, *(j.batch for j in s.jobs), *sorted(s.done)]
    return sorted(where) == sorted(s.arrived)


def jobs_are_bounded(c: Constants, s: Shared) -> bool:
    """The index never has more jobs than the limit."""
    return len(s.jobs) <= c.JOBS


def lost_job_changes_nothing(c: Constants, s: Shared) -> bool:
    """No worker renews or ends a job that another one has taken."""
    return not s.usurped


def lost_answer_is_no_failure(c: Constants, s: Shared) -> bool:
    """A lease counts as failed only if its worker had heard of it."""
    return not s.wronged


def is_compacted(c: Constants, s: Shared) -> bool:
    return bool(s.done)


def is_at_limit(c: Constants, s: Shared) -> bool:
    """A batch waits because there are as many jobs as may be."""
    return len(s.jobs) == c.JOBS and bool(s.queue)


def is_tried_again(c: Constants, s: Shared) -> bool:
    return any(j.taken and j.failures == c.FAILURES for j in s.jobs)


def job_is_lost(c: Constants, s: Shared, w: Worker) -> bool:
    """A worker compacts a batch that another one has by now."""
    i = None if w.batch is None else place(s, w.batch)
    return i is not None and w.told and not s.jobs[i].heard


def waiting_is_compacted(c: Constants, s: Shared) -> bool:
    """Every batch that came and is not bad is compacted, again and again."""
    return all(b < c.BAD or b in s.done for b in s.arrived)


WORKER = {"Poll": poll, "LoseAnswer": lose_answer, "Report": report, "Finish": finish, "Die": die, "DieOfJob": die_of_job,
          "Stall": stall}
INDEX = {"Arrive": arrive, "Expire": expire}

ALWAYS = {
    "EachBatchOnce": (None, each_batch_once),
    "JobsAreBounded": (None, jobs_are_bounded),
    "LostJobChangesNothing": (None, lost_job_changes_nothing),
    "LostAnswerIsNoFailure": (None, lost_answer_is_no_failure),
}
SOMETIMES: dict[str, Property] = {
    "IsCompacted": (None, is_compacted),
    "IsAtLimit": (None, is_at_limit),
    "IsTriedAgain": (None, is_tried_again),
    "JobIsLost": ("Worker", job_is_lost),
}
EVENTUALLY = {"WaitingIsCompacted": (None, waiting_is_compacted)}
FAULTS = {"LoseAnswer", "Die", "Stall", "Arrive"}  # never obligatory, so not fair
FAIR = {"Worker": frozenset({"Poll", "Report", "Finish", "DieOfJob"}), "": frozenset({"Expire"})}


def initial() -> Shared:
    none = frozenset()
    return Shared(queue=(), jobs=(), done=none, deaths=0, lost=0, stalls=0, arrived=none, usurped=False, wronged=False)


def model(c: Constants) -> Model:
    absent = {"IsCompacted"} if c.BAD >= c.BATCHES else set[str]()
    absent |= {"IsAtLimit"} if c.BATCHES <= c.JOBS else set()
    absent |= {"IsTriedAgain"} if c.BAD == 0 and c.MAX_DEATHS == 0 and c.MAX_STALLS == 0 else set()
    absent |= {"JobIsLost"} if c.WORKERS < 2 or c.MAX_STALLS == 0 else set()
    return Model("compaction_queue", c, initial(), (*clients(("Worker", c.WORKERS, Worker(), WORKER)), store(INDEX)), ALWAYS,
                 all_but(SOMETIMES, absent), EVENTUALLY, FAIR)
