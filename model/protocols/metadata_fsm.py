"""Safety: each datum that was added is in exactly one visible block, until retention drops it for ever. Every visible block
has its object, and every removed object is deleted, or a tombstone still names it.

The state machine of a metadata index (Pyroscope's): blocks are added, compacted, dropped, and their objects deleted. The log is
abstract. An entry is one step, so all replicas are one shared state here, and what is concurrent are the clients: writers that
add a block again whenever they lost an answer, workers that may be slow or dead, a cleaner, leaders. specs/MetadataFsm.fizz has
the same names, states and labelled edges.

A block is (level, data). A writer's block has level 0 and one datum. A job is its sources, blocks of one level; its result is
the block of the next level with their data. A block belongs to a unit: the window of time of its oldest datum, and a tenant,
which is 0 for writers' blocks (they are anonymous) and 1 for results.

There is no clock. Blocks grow too old for the horizon at any time, leases end at any time, tombstones are due at once. A worker
that takes another job has forgotten the one before. A plan that its leader proposes late is a fact: it may be applied later,
more than once, or never. An object may be deleted as long as a tombstone names it, a unit's objects also later.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, one_more, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    BLOCKS: int = 2  # of writers, with one datum each
    WINDOWS: int = 1  # of time, in which the data are by turns
    LEVELS: int = 1  # from 0, of which blocks are compacted
    WORKERS: int = 1
    ASSIGNS: int | None = 2  # jobs that workers take
    TRUNCATES: int | None = 0  # units that retention drops
    AGES: int | None = 0  # data that grow too old for the horizon
    # Faults, each bounded
    EVICTS: int | None = 0  # jobs that are given up
    MAX_LATE: int | None = 0  # plans that are proposed late
    MAX_TERM: int | None = 1
    # Safeguards: switch one off and a property must fail
    TOMB_CHECK: bool = True  # a block that was removed is not added again
    KEEP_REMOVED: bool = True  # a removed block is known after a job took its tombstone; False: it is looked for in the others
    KEEP_GONE: bool = True  # it is known until the horizon refuses it; False: until its object is deleted
    HORIZON: bool = True  # a block that is too old is not added
    CLOCK: bool = True  # what is too old stays so; False: the next leader's clock may be behind
    BLOCK_STATE: bool = True  # adding a visible block changes nothing; False: it waits once more
    ONE_WINDOW: bool = True  # a job compacts blocks of one window; False: of any
    SOURCES_WAIT: bool = True  # the sources of a new job wait when it is applied; False: they did when it was planned
    TERM_CHECK: bool = True  # a plan has an effect in the term in which it was made only
    TX: bool = True  # sources go and the result comes in one step; False: in two
    TOKEN: bool = True  # only the worker that took a job last ends it
    JOB_EXISTS: bool = True  # only a job that is there is ended
    REQUEUE: bool = True  # the sources of a job that is given up wait again
    DROPPED: bool = True  # nothing comes back into a dropped unit
    DROPPED_KEPT: bool = True  # that is known until no job can bring a result of the unit
    SHARD_PREFIX_BOUND: bool = True  # a unit's tombstone deletes objects of its window only; False: older ones, too
    CONFIRM: bool = True  # a tombstone stays until its object is deleted; False: until the job that carries it has ended
    TAKE_BACK: bool = True  # the tombstones of a job that is given up are free again


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WORKERS", "ASSIGNS", "TRUNCATES", "AGES", "EVICTS", "MAX_LATE", "MAX_TERM"), MANY),
    "BLOCKS": MANY[1:], "WINDOWS": MANY[1:], "LEVELS": MANY[1:]}

Datum = int
Block = tuple[int, tuple[Datum, ...]]  # level, data
Unit = tuple[int, int]  # window, tenant
Sources = tuple[Block, ...]  # name a job


class Shared(NamedTuple):
    objects: frozenset[Block]  # in the store
    deleted: frozenset[Block]  # whose object somebody has deleted
    visible: frozenset[Block]
    removed: frozenset[Block]  # known as removed
    queue: frozenset[Block]  # that wait for their compaction
    jobs: frozenset[tuple[Sources, int]]  # with the token of the worker that has it; 0: none has
    tombs: frozenset[tuple[Block, Sources]]  # tombstones, with the job that carries it; (): none does
    unit_tombs: frozenset[tuple[Unit, Sources]]
    swept: frozenset[Unit]  # whose objects somebody has deleted
    dropped: frozenset[Unit]  # known as dropped
    old: frozenset[Datum]  # too old for the horizon
    late: frozenset[tuple[Sources, int]]  # plans of new jobs, with the term in which each was made
    proposals: int  # plans that were proposed late, so far
    half: Sources  # the job whose sources are gone, and whose result is not there yet, where TX is off
    assigns: int
    truncates: int
    evicts: int
    term: int
    # ghosts
    shown: frozenset[Block]  # that were visible once, or removed as soon as they came
    expired: frozenset[Datum]  # that retention has dropped
    usurped: bool  # a worker that had lost its job has ended it
    deposed: bool  # a plan of an earlier term had an effect


class Worker(NamedTuple):
    job: Sources = ()
    token: int = 0
    ran: bool = False  # it has written the object of the result


# --- what things are

def raw(d: Datum) -> Block:
    return (0, (d,))


def result_of(job: Sources) -> Block:
    return (job[0][0] + 1, tuple(sorted({d for _, data in job for d in data})))


def unit_of(c: Constants, b: Block) -> Unit:
    return (min(d % c.WINDOWS for d in b[1]), min(b[0], 1))


def window_of(c: Constants, b: Block) -> int:
    """Return the window by which blocks are compacted."""
    return unit_of(c, b)[0] if c.ONE_WINDOW else 0


def token_of(s: Shared, job: Sources) -> int | None:
    """Return the token of a job that is there; None if it is not."""
    return next((token for name, token in s.jobs if name == job), None)


def is_removed(c: Constants, s: Shared, b: Block) -> bool:
    return c.TOMB_CHECK and (b in s.removed if c.KEEP_REMOVED else (b, ()) in s.tombs)


def batches(c: Constants, s: Shared) -> Iterator[Sources]:
    """Yield the jobs that may be made of what waits, and are not there."""
    for level, window in sorted({(b[0], window_of(c, b)) for b in s.queue}):
        those = sorted(b for b in s.queue if (b[0], window_of(c, b)) == (level, window))
        for n in range(1, len(those) + 1):
            for sources in combinations(those, n):
                if token_of(s, sources) is None:
                    yield sources


def waiting(c: Constants, blocks: frozenset[Block] | set[Block]) -> frozenset[Block]:
    """Return those of the blocks that are compacted."""
    return frozenset(b for b in blocks if b[0] < c.LEVELS)


# --- writers

def put(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A writer writes the object of its block."""
    for d in range(c.BLOCKS):
        if raw(d) not in s.objects | s.deleted:
            yield (d,), s._replace(objects=s.objects | {raw(d)}), ()


def add(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A writer adds its block, for the first time or once more. What changes nothing is no step."""
    for d in range(c.BLOCKS):
        b = raw(d)
        if b in s.visible:
            if not c.BLOCK_STATE and b not in s.queue:
                yield (d,), s._replace(queue=s.queue | {b}), ()
        elif b in s.objects | s.deleted and not (
                is_removed(c, s, b) or (c.HORIZON and d in s.old) or (c.DROPPED and unit_of(c, b) in s.dropped)):
            yield (d,), s._replace(visible=s.visible | {b}, queue=s.queue | {b}, shown=s.shown | {b}), ()


# --- jobs

def with_job(s: Shared, sources: Sources) -> Shared:
    return s._replace(jobs=s.jobs | {(sources, 0)}, queue=s.queue - {*sources})


def new_job(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A leader plans a job, and the plan is applied before anything else."""
    for sources in batches(c, s):
        yield (sources,), with_job(s, sources), ()


def propose(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A leader plans a job, and the plan is applied later, or never."""
    for sources in batches(c, s):
        if below(s.proposals, c.MAX_LATE) and (sources, s.term) not in s.late:
            yield (sources,), s._replace(late=s.late | {(sources, s.term)}, proposals=one_more(s.proposals, c.MAX_LATE)), ()


def late_job(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A plan that was proposed late is applied, perhaps not for the first time."""
    for sources, term in sorted(s.late):
        if token_of(s, sources) is None and (term == s.term or not c.TERM_CHECK) and (
                s.queue.issuperset(sources) or not c.SOURCES_WAIT):
            yield ((sources, term),), with_job(s, sources)._replace(deposed=s.deposed or term != s.term), ()


def hand_out(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A job that nobody has yet gets a tombstone to carry."""
    for job in sorted(job for job, token in s.jobs if token == 0):
        for b in sorted(b for b, carrier in s.tombs if not carrier):
            yield (job, b), s._replace(tombs=s.tombs - {(b, ())} | {(b, job)}), ()


def hand_out_unit(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for job in sorted(job for job, token in s.jobs if token == 0):
        for u in sorted(u for u, carrier in s.unit_tombs if not carrier):
            yield (job, u), s._replace(unit_tombs=s.unit_tombs - {(u, ())} | {(u, job)}), ()


def freed(tombs: frozenset, jobs: set[Sources], kept: bool) -> frozenset:
    """Return the tombstones once some jobs are gone: those that they carried are free, or are gone, too."""
    return frozenset((what, () if carrier in jobs else carrier) for what, carrier in tombs if kept or carrier not in jobs)


def without_jobs(s: Shared, jobs: set[Sources], kept: bool) -> Shared:
    return s._replace(jobs=frozenset(one for one in s.jobs if one[0] not in jobs),
                      tombs=freed(s.tombs, jobs, kept), unit_tombs=freed(s.unit_tombs, jobs, kept))


def cancelled(c: Constants, s: Shared, jobs: set[Sources]) -> Shared:
    """End jobs without a result: their sources that are still visible wait again."""
    back = {b for job in jobs for b in job} & s.visible if c.REQUEUE else frozenset[Block]()
    return without_jobs(s, jobs, c.TAKE_BACK)._replace(queue=s.queue | back)


def evict(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A job that has failed too often is given up."""
    for job, _token in sorted(s.jobs):
        if below(s.evicts, c.EVICTS):
            yield (job,), cancelled(c, s, {job})._replace(evicts=one_more(s.evicts, c.EVICTS)), ()


# --- workers

def assign(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """A worker takes a job that nobody has, or that another one has had for too long."""
    for job, token in sorted(s.jobs):
        if below(s.assigns, c.ASSIGNS):
            n = s.assigns + 1
            yield (job,), s._replace(assigns=n, jobs=s.jobs - {(job, token)} | {(job, n)}), Worker(job, n)


def run(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """It reads the objects of the sources, and writes that of the result."""
    if w.job and not w.ran and s.objects.issuperset(w.job):
        yield (), s._replace(objects=s.objects | {result_of(w.job)}), w._replace(ran=True)


def may_end(c: Constants, s: Shared, w: Worker) -> bool:
    """Tell whether the index takes a worker's report that its job is done."""
    token, new = token_of(s, w.job), result_of(w.job) if w.job else None
    has_it = not c.JOB_EXISTS if token is None else token == w.token or not c.TOKEN
    return w.ran and has_it and s.visible.issuperset(w.job) and new not in s.visible and new not in s.removed


def buried(s: Shared, blocks: set[Block]) -> Shared:
    """Remove blocks: they are known as removed, and have tombstones."""
    return s._replace(visible=s.visible - blocks, removed=s.removed | blocks, tombs=s.tombs | {(b, ()) for b in blocks})


def with_result(c: Constants, s: Shared, b: Block) -> Shared:
    """Show a result; one of a dropped unit is removed at once."""
    after = s._replace(shown=s.shown | {b})
    if c.DROPPED and unit_of(c, b) in s.dropped:
        return buried(after, {b})._replace(expired=s.expired | {*b[1]})
    return after._replace(visible=s.visible | {b}, queue=s.queue | waiting(c, {b}))


def complete(c: Constants, me: int, s: Shared, w: Worker) -> Iterator:
    """A worker reports its result, which replaces the sources."""
    if may_end(c, s, w):
        after = buried(without_jobs(s, {w.job}, c.CONFIRM), {*w.job})._replace(
            usurped=s.usurped or token_of(s, w.job) not in (None, w.token))
        if c.TX:
            yield (), with_result(c, after, result_of(w.job)), Worker()
        elif not s.half:
            yield (), after._replace(half=w.job), Worker()


def show(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The second half of a replacement, where it is two steps."""
    if s.half:
        yield (), with_result(c, s, result_of(s.half))._replace(half=()), ()


# --- deletion

def delete(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A worker deletes the object that a tombstone names."""
    for b in sorted({b for b, _ in s.tombs}):
        if b in s.objects or b not in s.deleted:
            yield (b,), s._replace(objects=s.objects - {b}, deleted=s.deleted | {b}), ()


def swept_by(c: Constants, s: Shared, u: Unit) -> frozenset[Block]:
    """Return the objects that a unit's tombstone deletes: of its tenant, and inside its window."""
    return frozenset(b for b in s.objects for window, tenant in [unit_of(c, b)]
                     if tenant == u[1] and (window == u[0] or (window < u[0] and not c.SHARD_PREFIX_BOUND)))


def sweep(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A worker deletes the objects of a dropped unit; a slow one may do so later, too."""
    for u in sorted(s.swept | {u for u, _ in s.unit_tombs}):
        hit = swept_by(c, s, u)
        if hit or u not in s.swept:
            yield (u,), s._replace(objects=s.objects - hit, deleted=s.deleted | hit, swept=s.swept | {u}), ()


def confirm(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A worker reports that it has deleted what a tombstone names."""
    for b in sorted({b for b, _ in s.tombs} & s.deleted):
        yield (b,), s._replace(tombs=frozenset(one for one in s.tombs if one[0] != b)), ()


def confirm_unit(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for u in sorted({u for u, _ in s.unit_tombs} & s.swept):
        yield (u,), s._replace(unit_tombs=frozenset(one for one in s.unit_tombs if one[0] != u)), ()


def forget(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The index forgets a removed block without a tombstone, once nobody may add it any more."""
    for b in sorted(s.removed):
        if all(b != of for of, _ in s.tombs) and (b[0] > 0 or b[1][0] in s.old or not c.KEEP_GONE):
            yield (b,), s._replace(removed=s.removed - {b}), ()


# --- retention

def truncate(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """Retention drops a unit that has had blocks, and the jobs that compact blocks of it."""
    for u in sorted({unit_of(c, b) for b in s.shown} - s.dropped):
        if below(s.truncates, c.TRUNCATES):
            gone = frozenset(b for b in s.visible if unit_of(c, b) == u)
            after = s._replace(
                visible=s.visible - gone, queue=s.queue - gone, expired=s.expired | {d for b in gone for d in b[1]},
                dropped=s.dropped | {u}, unit_tombs=s.unit_tombs | {(u, ())}, truncates=one_more(s.truncates, c.TRUNCATES))
            yield (u,), cancelled(c, after, {job for job, _ in s.jobs if gone & {*job}}), ()


def forget_unit(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The index forgets a dropped unit once the horizon refuses its blocks, and no job can bring a result of it."""
    for u in sorted(s.dropped):
        if all(d in s.old for d in range(c.BLOCKS) if unit_of(c, raw(d))[0] == u[0]) and (
                not c.DROPPED_KEPT or all(b[0] > 0 or unit_of(c, b)[0] != u[0] for b in s.visible)):
            yield (u,), s._replace(dropped=s.dropped - {u}), ()


# --- time, and leaders

def age(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for d in range(c.BLOCKS):
        if d not in s.old and below(len(s.old), c.AGES):
            yield (d,), s._replace(old=s.old | {d}), ()


def elect(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    if below(s.term, c.MAX_TERM):
        yield (), s._replace(term=s.term + 1, old=s.old if c.CLOCK else frozenset[Datum]()), ()


# --- properties

def each_datum_once(c: Constants, s: Shared) -> bool:
    """A datum that was added is in exactly one visible block, unless retention has dropped it; then it is in one at most."""
    counts = {d: sum(d in data for _, data in s.visible) for d in range(c.BLOCKS)}
    return all(n == 1 or (n == 0 and (raw(d) not in s.shown or d in s.expired)) for d, n in counts.items())


def dropped_stays_dropped(c: Constants, s: Shared) -> bool:
    """Nothing that retention has dropped is visible again, and a unit that is known as dropped shows nothing."""
    return all(s.expired.isdisjoint(b[1]) and unit_of(c, b) not in s.dropped for b in s.visible)


def block_has_one_window(c: Constants, s: Shared) -> bool:
    """The data of a block are of its unit's window. So retention drops no younger ones with a unit, or into a dropped one."""
    return all(d % c.WINDOWS == unit_of(c, b)[0] for b in s.shown for d in b[1])


def one_job_per_source(c: Constants, s: Shared) -> bool:
    """A block waits, or one job compacts it."""
    sources = [b for job, _ in s.jobs for b in job]
    return len(sources) == len({*sources}) and s.queue.isdisjoint(sources)


def work_is_visible(c: Constants, s: Shared) -> bool:
    """A block that waits, or is a source of a job, is visible."""
    return s.visible >= s.queue and all(s.visible.issuperset(job) for job, _ in s.jobs)


def nothing_is_left_out(c: Constants, s: Shared) -> bool:
    """A visible block below the highest level waits, or a job compacts it."""
    return waiting(c, s.visible) <= s.queue | {b for job, _ in s.jobs for b in job}


def lost_job_changes_nothing(c: Constants, s: Shared) -> bool:
    """No worker ends a job that another one has taken."""
    return not s.usurped


def deposed_changes_nothing(c: Constants, s: Shared) -> bool:
    """No plan of an earlier term has an effect."""
    return not s.deposed


def no_dangling(c: Constants, s: Shared) -> bool:
    """A visible block has its object."""
    return s.visible <= s.objects


def removed_is_buried(c: Constants, s: Shared) -> bool:
    """The object of a block that is not visible any more was deleted, or a tombstone names it, free or carried by a job."""
    there = {(), *(job for job, _ in s.jobs)}
    named = {b for b, carrier in s.tombs if carrier in there}
    units = {u for u, carrier in s.unit_tombs if carrier in there}
    return all(b in s.visible or b in s.deleted or b in named or unit_of(c, b) in units for b in s.shown)


def is_compacted(c: Constants, s: Shared) -> bool:
    return any(level > 0 for level, _ in s.visible)


def object_outlives_its_block(c: Constants, s: Shared) -> bool:
    """A block is removed, and its object is still there, for queries that have begun before."""
    return not s.objects.isdisjoint(s.removed)


def job_has_many_sources(c: Constants, s: Shared) -> bool:
    return any(len(job) > 1 for job, _ in s.jobs)


def windows_wait(c: Constants, s: Shared) -> bool:
    """Blocks of two windows wait, and no job may compact both."""
    return len({unit_of(c, b)[0] for b in s.queue}) > 1


def is_carried(c: Constants, s: Shared) -> bool:
    """A job carries a tombstone."""
    return any(carrier for _, carrier in s.tombs)


def is_forgotten(c: Constants, s: Shared) -> bool:
    """Nothing but the horizon refuses a writer's block that was removed."""
    return any(b not in s.visible and b not in s.removed and unit_of(c, b) not in s.dropped for b in s.shown if b[0] == 0)


def is_dropped(c: Constants, s: Shared) -> bool:
    return bool(s.expired)


def result_is_late(c: Constants, s: Shared) -> bool:
    """A result came after its unit was dropped."""
    return any(level > 0 for level, _ in s.removed)


def job_is_lost(c: Constants, s: Shared, w: Worker) -> bool:
    """A worker has a result, and another one has the job."""
    return w.ran and token_of(s, w.job) not in (None, w.token)


def plan_is_late(c: Constants, s: Shared) -> bool:
    """A plan of an earlier term could be applied, but for its term."""
    return any(term < s.term and token_of(s, sources) is None and s.queue.issuperset(sources) for sources, term in s.late)


WORKER = {"Assign": assign, "Run": run, "Complete": complete}
INDEX = {
    "Put": put, "Add": add, "NewJob": new_job, "Propose": propose, "LateJob": late_job, "HandOut": hand_out,
    "HandOutUnit": hand_out_unit, "Evict": evict, "Show": show, "Delete": delete, "Sweep": sweep, "Confirm": confirm,
    "ConfirmUnit": confirm_unit, "Forget": forget, "Truncate": truncate, "ForgetUnit": forget_unit, "Age": age, "Elect": elect,
}

ALWAYS = {
    "EachDatumOnce": (None, each_datum_once),
    "DroppedStaysDropped": (None, dropped_stays_dropped),
    "BlockHasOneWindow": (None, block_has_one_window),
    "OneJobPerSource": (None, one_job_per_source),
    "WorkIsVisible": (None, work_is_visible),
    "NothingIsLeftOut": (None, nothing_is_left_out),
    "LostJobChangesNothing": (None, lost_job_changes_nothing),
    "DeposedChangesNothing": (None, deposed_changes_nothing),
    "NoDangling": (None, no_dangling),
    "RemovedIsBuried": (None, removed_is_buried),
}
SOMETIMES: dict[str, Property] = {
    "IsCompacted": (None, is_compacted),
    "ObjectOutlivesItsBlock": (None, object_outlives_its_block),
    "JobHasManySources": (None, job_has_many_sources),
    "WindowsWait": (None, windows_wait),
    "IsCarried": (None, is_carried),
    "IsForgotten": (None, is_forgotten),
    "IsDropped": (None, is_dropped),
    "ResultIsLate": (None, result_is_late),
    "JobIsLost": ("Worker", job_is_lost),
    "PlanIsLate": (None, plan_is_late),
}


def initial() -> Shared:
    none = frozenset()
    return Shared(
        objects=none, deleted=none, visible=none, removed=none, queue=none, jobs=none,
        tombs=none, unit_tombs=none, swept=none, dropped=none, old=none, late=none, proposals=0, half=(), assigns=0,
        truncates=0, evicts=0, term=1, shown=none, expired=none, usurped=False, deposed=False)


def model(c: Constants) -> Model:
    absent = {"IsDropped", "ResultIsLate"} if c.TRUNCATES == 0 else set[str]()
    absent |= {"IsForgotten"} if c.AGES == 0 or not c.WORKERS else set()
    absent |= {"PlanIsLate"} if c.MAX_LATE == 0 or c.MAX_TERM == 1 else set()
    absent |= {"JobIsLost"} if c.WORKERS < 2 else set()
    absent |= {"IsCompacted", "ObjectOutlivesItsBlock", "IsCarried", "ResultIsLate"} if not c.WORKERS else set()
    absent |= {"JobHasManySources"} if (c.WINDOWS if c.ONE_WINDOW else 1) >= c.BLOCKS else set()
    absent |= {"WindowsWait"} if min(c.BLOCKS, c.WINDOWS) == 1 else set()
    return Model("metadata_fsm", c, initial(), (*clients(("Worker", c.WORKERS, Worker(), WORKER)), store(INDEX)), ALWAYS,
                 all_but(SOMETIMES, absent), renamed={"Worker": None})
