"""Safety, for any number of blocks, data, units, levels, jobs, workers, late plans and terms: every `always` property of
model/protocols/metadata_fsm.py, by an inductive invariant, action by action.

Blocks, jobs and units are elements of sorts. What never changes about them are rigid functions: the data of a block, the
sources of a job, its result, the unit of a block. Which levels are compacted is any set of levels.

The invariant. A block is finished if it was visible and is not; a unit is over if its objects may be deleted.
Data
- AtMostOne, AtLeastOne: together EachDatumOnce. DataRises: the levels of the visible blocks of a datum never fall. So a result
  is shown once, and a finished block stays finished.
- ShownIsKnown: a writer's block that was shown is visible, removed, too old, or of a dropped unit. ShownHasRaw: a datum in a
  block that was shown was added. VisibleIsShown, RemovedIsShown: what is removed is finished.
- ExpiredIsShown, ExpiredIsNotVisible, DroppedShowsNothing: retention is final.
Jobs
- OneJobPerSource, WorkIsVisible, NothingIsLeftOut. WorkerKnows: the sources of a worker's job were shown.
  WorkerHasOneJob. LiveHasOneWindow, LateHasOneWindow, WorkerHasOneWindow: so has each block (BlockHasOneWindow).
Objects
- TombIsRemoved: a tombstone names a removed block. CarrierIsThere, UnitCarrierIsThere: a job that carries a tombstone is there.
- RawIsThere: the object of a writer's block that may be added is there. RanIsThere: that of a result is, unless the result
  cannot be shown any more. NoDangling, RemovedIsBuried. GoneIsDeleted, RanIsKnown: an object that is not there was deleted.
  SweptIsDeleted: the finished blocks of a swept unit were, or have tombstones.
- OverIsOld, OverShowsNothing: a unit that is over is known as dropped, or all data of its window are too old, and nothing in
  the window is visible that could come into the unit.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import nothing, one_more, room
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import metadata_fsm as m

Datum = NewType("Datum", object)
Block = NewType("Block", object)
Job = NewType("Job", object)
Unit = NewType("Unit", object)
Level = NewType("Level", int)
Window = NewType("Window", int)
Token = NewType("Token", int)
Term = NewType("Term", int)
Count = NewType("Count", int)
Worker = NewType("Worker", View)

ROLES = {"Worker": Worker}
FIELDS = {
    "": {
        "objects": (Block, bool), "deleted": (Block, bool), "visible": (Block, bool), "removed": (Block, bool),
        "queue": (Block, bool), "live": (Job, bool), "tokens": (Job, Token), "free": (Block, bool),
        "carried": (Block, Job, bool), "unit_free": (Unit, bool),
        "unit_carried": (Unit, Job, bool), "swept": (Unit, bool), "dropped": (Unit, bool),
        "old": (Datum, bool), "late": (Job, Term, bool), "proposals": (Count,), "half": (Job, bool), "assigns": (Token,),
        "truncates": (Count,), "evicts": (Count,), "term": (Term,), "shown": (Block, bool), "expired": (Datum, bool),
        "usurped": (bool,), "deposed": (bool,),
    },
    "Worker": {"job": (Job, bool), "token": (Token,), "ran": (bool,)},
}
RIGID = {
    "has": (Block, Datum, bool), "raw": (Datum, Block), "first": (Block, Datum), "level": (Block, Level),
    "compacts": (Level, bool), "unit": (Block, Unit), "window": (Unit, Window), "named": (Unit, bool),
    "source": (Job, Block, bool), "result": (Job, Block), "origin": (Job, Datum, Block), "lead": (Job, Block),
}


def meaning(c: m.Constants) -> dict:
    """`origin`: the source that brings a datum into the result; `lead`: the source whose window the result has."""
    return {
        "has": lambda b, d: d in b[1], "raw": m.raw, "first": lambda b: b[1][0], "level": lambda b: b[0],
        "compacts": lambda n: n < c.LEVELS, "unit": lambda b: m.unit_of(c, b), "window": lambda u: u[0],
        "named": lambda u: u[1] > 0, "source": lambda j, b: b in j, "result": m.result_of,
        "origin": lambda j, d: next((b for b in j if d in b[1]), j[0]), "lead": lambda j: min(j, key=lambda b: m.unit_of(c, b))}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = dict.fromkeys(FIELDS[""], nothing) | dict.fromkeys(("proposals", "assigns", "truncates", "evicts"), 0)
    return {"": shared | {"tokens": lambda j: 0, "term": 1, "usurped": False, "deposed": False},
            "Worker": {"job": nothing, "token": 0, "ran": False}}


# --- the transition relation, action by action as in model/protocols/metadata_fsm.py --------------------------------------

def tombed(s, b):
    return Or(s.free(b), s.some(Job, lambda j: s.carried(b, j)))


def unit_tombed(s, u):
    return Or(s.unit_free(u), s.some(Job, lambda j: s.unit_carried(u, j)))


def is_dropped(c, s, b):
    return And(c.DROPPED, s.dropped(s.unit(b)))


def all_sources(s, j, holds):
    return s.every(Block, lambda b: Implies(s.source(j, b), holds(b)))


def is_written(s, b):
    return Or(s.objects(b), s.deleted(b))


def put(c, s, _, d: Datum):
    b = s.raw(d)
    yield Not(is_written(s, b)), (d,), s.but(objects=lambda x: Or(x == b, s.objects(x))), None


def add(c, s, _, d: Datum):
    b = s.raw(d)
    known = And(c.TOMB_CHECK, s.removed(b) if c.KEEP_REMOVED else s.free(b))
    refused = Or(known, And(c.HORIZON, s.old(d)), is_dropped(c, s, b))
    waits = s.but(queue=lambda x: Or(x == b, s.queue(x)))
    yield And(s.visible(b), not c.BLOCK_STATE, Not(s.queue(b))), (d,), waits, None
    yield And(Not(s.visible(b)), is_written(s, b), Not(refused)), (d,), waits.but(
        visible=lambda x: Or(x == b, s.visible(x)), shown=lambda x: Or(x == b, s.shown(x))), None


def has_one_window(s, j):
    return all_sources(s, j, lambda b: in_window(s, b, s.unit(s.result(j))))


def may_plan(c, s, j):
    return And(Not(s.live(j)), all_sources(s, j, s.queue), Or(not c.ONE_WINDOW, has_one_window(s, j)))


def with_job(s, j):
    return s.but(live=lambda k: Or(k == j, s.live(k)), tokens=lambda k: If(k == j, 0, s.tokens(k)),
                 queue=lambda b: And(s.queue(b), Not(s.source(j, b))))


def new_job(c, s, _, j: Job):
    yield may_plan(c, s, j), (j,), with_job(s, j), None


def propose(c, s, _, j: Job):
    yield And(may_plan(c, s, j), room(s.proposals, c.MAX_LATE), Not(s.late(j, s.term))), (j,), s.but(
        late=lambda k, t: Or(And(k == j, t == s.term), s.late(k, t)), proposals=one_more(s.proposals, c.MAX_LATE)), None


def late_job(c, s, _, j: Job, t: Term):
    wait = all_sources(s, j, s.queue) if c.SOURCES_WAIT else True
    yield And(s.late(j, t), Not(s.live(j)), Or(t == s.term, not c.TERM_CHECK), wait), ((j, t),), \
        with_job(s, j).but(deposed=Or(s.deposed, t != s.term)), None


def hand_out(c, s, _, j: Job, b: Block):
    yield And(s.live(j), s.tokens(j) == 0, s.free(b)), (j, b), s.but(
        free=lambda x: And(s.free(x), x != b), carried=lambda x, k: Or(And(x == b, k == j), s.carried(x, k))), None


def hand_out_unit(c, s, _, j: Job, u: Unit):
    yield And(s.live(j), s.tokens(j) == 0, s.unit_free(u)), (j, u), s.but(
        unit_free=lambda v: And(s.unit_free(v), v != u),
        unit_carried=lambda v, k: Or(And(v == u, k == j), s.unit_carried(v, k))), None


def without_jobs(s, gone, kept):
    """Let jobs go; their tombstones are free, or go, too."""
    def freed(free, carried):
        return lambda x: Or(free(x), And(kept, s.some(Job, lambda j: And(gone(j), carried(x, j)))))
    return s.but(live=lambda j: And(s.live(j), Not(gone(j))), tokens=lambda j: If(gone(j), 0, s.tokens(j)),
                 free=freed(s.free, s.carried), carried=lambda b, j: And(s.carried(b, j), Not(gone(j))),
                 unit_free=freed(s.unit_free, s.unit_carried),
                 unit_carried=lambda u, j: And(s.unit_carried(u, j), Not(gone(j))))


def cancelled(c, s, gone):
    """End jobs without a result."""
    def back(b):
        return And(c.REQUEUE, s.visible(b), s.some(Job, lambda j: And(gone(j), s.source(j, b))))
    return without_jobs(s, gone, c.TAKE_BACK).but(queue=lambda b: Or(s.queue(b), back(b)))


def evict(c, s, _, j: Job):
    yield And(s.live(j), room(s.evicts, c.EVICTS)), (j,), cancelled(c, s, lambda k: k == j).but(
        evicts=one_more(s.evicts, c.EVICTS)), None


def assign(c, s, w, j: Job):
    n = s.assigns + 1
    yield And(s.live(j), room(s.assigns, c.ASSIGNS)), (j,), s.but(
        assigns=n, tokens=lambda k: If(k == j, n, s.tokens(k))), w.but(job=lambda k: k == j, token=n, ran=False)


def run(c, s, w, j: Job):
    new = s.result(j)
    yield And(w.job(j), Not(w.ran), all_sources(s, j, s.objects)), (), \
        s.but(objects=lambda b: Or(b == new, s.objects(b))), w.but(ran=True)


def buried(s, those):
    return s.but(visible=lambda b: And(s.visible(b), Not(those(b))), removed=lambda b: Or(s.removed(b), those(b)),
                 free=lambda b: Or(s.free(b), those(b)))


def with_result(c, s, new):
    """Yield (condition, the state with a result): it is visible, or removed at once."""
    late, after = is_dropped(c, s, new), s.but(shown=lambda b: Or(b == new, s.shown(b)))
    yield late, buried(after, lambda b: b == new).but(expired=lambda d: Or(s.expired(d), s.has(new, d)))
    yield Not(late), after.but(visible=lambda b: Or(b == new, s.visible(b)),
                               queue=lambda b: Or(s.queue(b), And(b == new, s.compacts(s.level(new)))))


def complete(c, s, w, j: Job):
    new, lost = s.result(j), And(s.live(j), s.tokens(j) != w.token)
    may = And(w.job(j), w.ran, Or(s.live(j), not c.JOB_EXISTS), Or(Not(lost), not c.TOKEN), all_sources(s, j, s.visible),
              Not(s.visible(new)), Not(s.removed(new)))
    after = buried(without_jobs(s, lambda k: k == j, c.CONFIRM), lambda b: s.source(j, b)).but(usurped=Or(s.usurped, lost))
    own = w.but(job=nothing, token=0, ran=False)
    if c.TX:
        for condition, shared in with_result(c, after, new):
            yield And(may, condition), (), shared, own
    else:
        yield And(may, Not(s.some(Job, s.half))), (), after.but(half=lambda k: k == j), own


def show(c, s, _, j: Job):
    for condition, shared in with_result(c, s, s.result(j)):
        yield And(not c.TX, s.half(j), condition), (), shared.but(half=nothing), None


def delete(c, s, _, b: Block):
    yield And(tombed(s, b), Or(s.objects(b), Not(s.deleted(b)))), (b,), s.but(
        objects=lambda x: And(s.objects(x), x != b), deleted=lambda x: Or(x == b, s.deleted(x))), None


def sweep(c, s, _, u: Unit):
    def hit(b):
        v = s.unit(b)
        inside = s.window(v) == s.window(u) if c.SHARD_PREFIX_BOUND else s.window(v) <= s.window(u)
        return And(s.objects(b), s.named(v) == s.named(u), inside)
    yield And(Or(s.swept(u), unit_tombed(s, u)), Or(Not(s.swept(u)), s.some(Block, hit))), (u,), s.but(
        objects=lambda b: And(s.objects(b), Not(hit(b))), deleted=lambda b: Or(s.deleted(b), hit(b)),
        swept=lambda v: Or(v == u, s.swept(v))), None


def confirm(c, s, _, b: Block):
    yield And(tombed(s, b), s.deleted(b)), (b,), s.but(
        free=lambda x: And(s.free(x), x != b), carried=lambda x, j: And(s.carried(x, j), x != b)), None


def confirm_unit(c, s, _, u: Unit):
    yield And(unit_tombed(s, u), s.swept(u)), (u,), s.but(
        unit_free=lambda v: And(s.unit_free(v), v != u), unit_carried=lambda v, j: And(s.unit_carried(v, j), v != u)), None


def forget(c, s, _, b: Block):
    refused = Or(s.level(b) > 0, s.old(s.first(b)), not c.KEEP_GONE)
    yield And(s.removed(b), Not(tombed(s, b)), refused), (b,), s.but(removed=lambda x: And(s.removed(x), x != b)), None


def truncate(c, s, _, u: Unit):
    def gone(b):
        return And(s.visible(b), s.unit(b) == u)
    ends = s.define("cancelled", (Unit, Job), lambda v, j: And(s.live(j), s.some(
        Block, lambda b: And(s.source(j, b), s.visible(b), s.unit(b) == v))))
    after = s.but(
        visible=lambda b: And(s.visible(b), s.unit(b) != u), queue=lambda b: And(s.queue(b), Not(gone(b))),
        expired=lambda d: Or(s.expired(d), s.some(Block, lambda b: And(gone(b), s.has(b, d)))),
        dropped=lambda v: Or(v == u, s.dropped(v)), unit_free=lambda v: Or(v == u, s.unit_free(v)),
        truncates=one_more(s.truncates, c.TRUNCATES))
    had = And(Not(s.dropped(u)), s.some(Block, lambda b: And(s.shown(b), s.unit(b) == u)))
    yield And(had, room(s.truncates, c.TRUNCATES)), (u,), cancelled(c, after, lambda j: ends(u, j)), None


def in_window(s, b, u):
    return s.window(s.unit(b)) == s.window(u)


def forget_unit(c, s, _, u: Unit):
    old = s.every(Datum, lambda d: Implies(in_window(s, s.raw(d), u), s.old(d)))
    none = Not(s.some(Block, lambda b: And(s.visible(b), s.level(b) == 0, in_window(s, b, u)))) if c.DROPPED_KEPT else True
    yield And(s.dropped(u), old, none), (u,), s.but(dropped=lambda v: And(s.dropped(v), v != u)), None


def age(c, s, _, d: Datum):
    few = room(lambda: s.count(Datum, s.old), c.AGES)
    yield And(Not(s.old(d)), few), (d,), s.but(old=lambda e: Or(e == d, s.old(e))), None


def elect(c, s, _):
    yield room(s.term, c.MAX_TERM), (), s.but(term=s.term + 1, old=s.old if c.CLOCK else nothing), None


ACTIONS = {
    "Worker": {"Assign": assign, "Run": run, "Complete": complete},
    "": {"Put": put, "Add": add, "NewJob": new_job, "Propose": propose, "LateJob": late_job, "HandOut": hand_out,
         "HandOutUnit": hand_out_unit, "Evict": evict, "Show": show, "Delete": delete, "Sweep": sweep, "Confirm": confirm,
         "ConfirmUnit": confirm_unit, "Forget": forget, "Truncate": truncate, "ForgetUnit": forget_unit, "Age": age,
         "Elect": elect},
}


# --- what never changes ---------------------------------------------------------------------------------------------------

def raw_is_its_datum(c, s, d: Datum, e: Datum):
    return And(s.has(s.raw(d), e) == (d == e), s.level(s.raw(d)) == 0)


def block_has_data(c, s, b: Block):
    return And(s.has(b, s.first(b)), s.level(b) >= 0, Implies(s.level(b) == 0, s.raw(s.first(b)) == b))


def result_has_the_data(c, s, j: Job, b: Block, d: Datum):
    return Implies(And(s.source(j, b), s.has(b, d)), s.has(s.result(j), d))


def result_has_no_more(c, s, j: Job, d: Datum):
    return Implies(s.has(s.result(j), d), And(s.source(j, s.origin(j, d)), s.has(s.origin(j, d), d)))


def result_is_above(c, s, j: Job, b: Block):
    return Implies(s.source(j, b), s.level(s.result(j)) == s.level(b) + 1)


def result_has_a_window(c, s, j: Job):
    return And(s.source(j, s.lead(j)), in_window(s, s.result(j), s.unit(s.lead(j))))


def unit_of_level(c, s, b: Block):
    return s.named(s.unit(b)) == (s.level(b) > 0)


def unit_is_its_window(c, s, u: Unit, v: Unit):
    return Implies(And(s.window(u) == s.window(v), s.named(u) == s.named(v)), u == v)


AXIOMS = {
    "RawIsItsDatum": raw_is_its_datum, "BlockHasData": block_has_data, "ResultHasTheData": result_has_the_data,
    "ResultHasNoMore": result_has_no_more, "ResultIsAbove": result_is_above, "ResultHasAWindow": result_has_a_window,
    "UnitOfLevel": unit_of_level, "UnitIsItsWindow": unit_is_its_window}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def at_most_one(c, s, b: Block, e: Block, d: Datum):
    return Implies(And(s.visible(b), s.visible(e), s.has(b, d), s.has(e, d)), b == e)


def at_least_one(c, s, d: Datum):
    return Implies(And(s.shown(s.raw(d)), Not(s.expired(d))), s.some(Block, lambda b: And(s.visible(b), s.has(b, d))))


def each_datum_once(c, s, b: Block, e: Block, d: Datum):
    return And(at_most_one(c, s, b, e, d), at_least_one(c, s, d))


def dropped_shows_nothing(c, s, b: Block):
    return Not(And(s.visible(b), s.dropped(s.unit(b))))


def expired_is_not_visible(c, s, b: Block, d: Datum):
    return Not(And(s.visible(b), s.has(b, d), s.expired(d)))


def dropped_stays_dropped(c, s, b: Block, d: Datum):
    return And(expired_is_not_visible(c, s, b, d), dropped_shows_nothing(c, s, b))


def block_has_one_window(c, s, b: Block, d: Datum):
    return Implies(And(s.shown(b), s.has(b, d)), in_window(s, s.raw(d), s.unit(b)))


def one_job_per_source(c, s, j: Job, k: Job, b: Block):
    return Implies(And(s.live(j), s.source(j, b)), And(Not(s.queue(b)), Implies(And(s.live(k), s.source(k, b)), j == k)))


def work_is_visible(c, s, j: Job, b: Block):
    return Implies(Or(s.queue(b), And(s.live(j), s.source(j, b))), s.visible(b))


def nothing_is_left_out(c, s, b: Block):
    return Implies(And(s.visible(b), s.compacts(s.level(b))),
                   Or(s.queue(b), s.some(Job, lambda j: And(s.live(j), s.source(j, b)))))


def lost_job_changes_nothing(c, s):
    return Not(s.usurped)


def deposed_changes_nothing(c, s):
    return Not(s.deposed)


def no_dangling(c, s, b: Block):
    return Implies(s.visible(b), s.objects(b))


def is_finished(s, b):
    return And(s.shown(b), Not(s.visible(b)))


def removed_is_buried(c, s, b: Block):
    def there(carried, x):
        return s.some(Job, lambda j: And(carried(x, j), s.live(j)))
    u = s.unit(b)
    named = Or(s.free(b), there(s.carried, b), s.unit_free(u), there(s.unit_carried, u))
    return Implies(is_finished(s, b), Or(s.deleted(b), named))


def data_rises(c, s, b: Block, e: Block, d: Datum):
    return Implies(And(s.shown(b), s.visible(e), s.has(b, d), s.has(e, d)), s.level(b) <= s.level(e))


def shown_is_known(c, s, d: Datum):
    b = s.raw(d)
    return Implies(s.shown(b), Or(s.visible(b), s.removed(b), s.old(d), s.dropped(s.unit(b))))


def shown_has_raw(c, s, b: Block, d: Datum):
    return Implies(And(s.shown(b), s.has(b, d)), s.shown(s.raw(d)))


def visible_is_shown(c, s, b: Block):
    return Implies(s.visible(b), s.shown(b))


def removed_is_shown(c, s, b: Block):
    return Implies(s.removed(b), is_finished(s, b))


def expired_is_shown(c, s, d: Datum):
    return Implies(s.expired(d), s.shown(s.raw(d)))


def worker_knows(c, s, w: Worker, j: Job, b: Block):
    return Implies(And(w.job(j), s.source(j, b)), s.shown(b))


def live_has_one_window(c, s, j: Job):
    return Implies(s.live(j), has_one_window(s, j))


def late_has_one_window(c, s, j: Job, t: Term):
    return Implies(s.late(j, t), has_one_window(s, j))


def worker_has_one_window(c, s, w: Worker, j: Job):
    return Implies(w.job(j), has_one_window(s, j))


def worker_has_one_job(c, s, w: Worker, j: Job, k: Job):
    return Implies(And(w.job(j), w.job(k)), j == k)


def half_is_none(c, s, j: Job):
    return Or(not c.TX, Not(s.half(j)))


def token_is_new(c, s, j: Job):
    return And(s.assigns >= 0, s.tokens(j) >= 0, s.tokens(j) <= s.assigns)


def tomb_is_removed(c, s, b: Block, j: Job):
    return Implies(Or(s.free(b), s.carried(b, j)), s.removed(b))


def carrier_is_there(c, s, b: Block, j: Job):
    return Implies(s.carried(b, j), s.live(j))


def unit_carrier_is_there(c, s, u: Unit, j: Job):
    return Implies(s.unit_carried(u, j), s.live(j))


def raw_is_there(c, s, d: Datum):
    b = s.raw(d)
    return Implies(s.deleted(b), Or(s.objects(b), s.shown(b), s.old(d), s.dropped(s.unit(b))))


def ran_is_there(c, s, w: Worker, j: Job):
    new, lead = s.result(j), s.lead(j)
    return Implies(And(w.ran, w.job(j)), Or(s.objects(new), s.shown(new), s.dropped(s.unit(new)), is_finished(s, lead)))


def ran_is_known(c, s, w: Worker, j: Job):
    new = s.result(j)
    return Implies(And(w.ran, w.job(j)), is_written(s, new))


def gone_is_deleted(c, s, b: Block):
    return Implies(s.shown(b), is_written(s, b))


def swept_is_deleted(c, s, b: Block):
    return Implies(And(s.swept(s.unit(b)), is_finished(s, b)), Or(s.deleted(b), tombed(s, b)))


def is_over(s, u, j):
    return Or(s.swept(u), s.unit_free(u), s.unit_carried(u, j))


def over_is_old(c, s, u: Unit, d: Datum, j: Job):
    return Implies(And(is_over(s, u, j), in_window(s, s.raw(d), u)), Or(s.dropped(u), s.old(d)))


def over_shows_nothing(c, s, u: Unit, b: Block, j: Job):
    comes = And(s.visible(b), in_window(s, b, u), Or(s.level(b) == 0, s.unit(b) == u))
    return Implies(And(is_over(s, u, j), comes), s.dropped(u))


PROPERTIES = {
    "EachDatumOnce": each_datum_once, "DroppedStaysDropped": dropped_stays_dropped, "BlockHasOneWindow": block_has_one_window,
    "OneJobPerSource": one_job_per_source,
    "WorkIsVisible": work_is_visible, "NothingIsLeftOut": nothing_is_left_out,
    "LostJobChangesNothing": lost_job_changes_nothing, "DeposedChangesNothing": deposed_changes_nothing,
    "NoDangling": no_dangling, "RemovedIsBuried": removed_is_buried,
}
CLAUSES = {name: clause for name, clause in PROPERTIES.items() if name not in ("EachDatumOnce", "DroppedStaysDropped")} | {
    "AtMostOne": at_most_one, "AtLeastOne": at_least_one, "DataRises": data_rises, "ShownIsKnown": shown_is_known,
    "ShownHasRaw": shown_has_raw, "VisibleIsShown": visible_is_shown, "RemovedIsShown": removed_is_shown,
    "ExpiredIsShown": expired_is_shown, "ExpiredIsNotVisible": expired_is_not_visible,
    "DroppedShowsNothing": dropped_shows_nothing, "WorkerKnows": worker_knows, "WorkerHasOneJob": worker_has_one_job,
    "LiveHasOneWindow": live_has_one_window, "LateHasOneWindow": late_has_one_window,
    "WorkerHasOneWindow": worker_has_one_window,
    "HalfIsNone": half_is_none,
    "TokenIsNew": token_is_new, "TombIsRemoved": tomb_is_removed, "CarrierIsThere": carrier_is_there,
    "UnitCarrierIsThere": unit_carrier_is_there, "RawIsThere": raw_is_there, "RanIsThere": ran_is_there,
    "RanIsKnown": ran_is_known, "GoneIsDeleted": gone_is_deleted, "SweptIsDeleted": swept_is_deleted, "OverIsOld": over_is_old,
    "OverShowsNothing": over_shows_nothing,
}

OVER = ("OverShowsNothing", "DroppedShowsNothing")
BURIED = ("TombIsRemoved", "RemovedIsShown")
NEEDS = {  # what the queries that take longest may use
    ("Worker.Complete", "OverShowsNothing"): (), ("Delete", "NoDangling"): BURIED, ("Delete", "RanIsThere"): BURIED,
    ("Sweep", "NoDangling"): OVER, ("Sweep", "RanIsThere"): ("OverShowsNothing", "WorkerKnows"),
    ("Truncate", "SweptIsDeleted"): OVER, ("HandOut", "SweptIsDeleted"): (),
}


# --- the model's values as tables, and back -------------------------------------------------------------------------------

def split(tombs: frozenset) -> tuple[frozenset, frozenset]:
    """Return what free tombstones name, and the pairs of carried ones."""
    return frozenset(what for what, job in tombs if not job), frozenset(one for one in tombs if one[1])


def joined(free: frozenset, carried: frozenset) -> frozenset:
    return frozenset((what, ()) for what in free) | carried


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables | {"job": frozenset({value.job} - {()})}
    jobs, tombs, unit_tombs = (tables.pop(name) for name in ("jobs", "tombs", "unit_tombs"))
    free, carried = split(tombs)
    unit_free, unit_carried = split(unit_tombs)
    return tables | {"live": frozenset(job for job, _ in jobs), "tokens": defaultdict(int, jobs), "free": free,
                     "carried": carried, "unit_free": unit_free, "unit_carried": unit_carried,
                     "half": frozenset({value.half} - {()})}


def written(role: str, t: Tables) -> Any:
    if role:
        return m.Worker(next(iter(t["job"]), ()), t["token"], t["ran"])
    t = dict(t)
    tokens, live = t.pop("tokens"), t.pop("live")
    return m.Shared(**t | {"jobs": frozenset((j, tokens[j]) for j in live), "half": next(iter(t["half"]), ()),
                           "tombs": joined(t.pop("free"), t.pop("carried")),
                           "unit_tombs": joined(t.pop("unit_free"), t.pop("unit_carried"))})


def subsets(blocks: list[m.Block]) -> list[m.Sources]:
    return [sources for n in range(1, len(blocks) + 1) for sources in combinations(sorted(blocks), n)]


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    blocks = level = [m.raw(d) for d in range(c.BLOCKS)]
    jobs: list[m.Sources] = []
    for _ in range(c.LEVELS):
        jobs = jobs + (those := subsets(level))
        level = sorted({m.result_of(job) for job in those})
        blocks = blocks + level
    return {Datum: [*range(c.BLOCKS)], Block: blocks, Job: jobs, Level: [*range(c.LEVELS + 1)],
            Unit: [(window, tenant) for window in range(c.WINDOWS) for tenant in (0, 1)], Window: [*range(c.WINDOWS)],
            Token: [*range(c.ASSIGNS + 1)], Term: [*range(1, c.MAX_TERM + 1)],
            Count: [*range(max(c.TRUNCATES, c.EVICTS, c.MAX_LATE) + 1)], Worker: [*range(c.WORKERS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(WINDOWS=2, ASSIGNS=2, TRUNCATES=1, EVICTS=1, MAX_LATE=1, MAX_TERM=2))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, written, axioms=AXIOMS,
                needs=NEEDS)
UNBOUNDED = dict.fromkeys(("ASSIGNS", "TRUNCATES", "AGES", "EVICTS", "MAX_LATE", "MAX_TERM"))
SAFEGUARDS = set(m.Constants._fields[m.Constants._fields.index("TOMB_CHECK"):])
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action but Show.
INSTANCES: tuple[dict[str, Any], ...] = (
    {"BLOCKS": 1, "AGES": 1}, {"TRUNCATES": 1, "AGES": 2}, {"MAX_LATE": 1, "MAX_TERM": 2, "EVICTS": 1},
    {"TRUNCATES": 1, "WINDOWS": 2}, {"LEVELS": 2, "ASSIGNS": 3})
NEAREST, UNTAKEN = 500, frozenset({"Show"})
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"BLOCKS": 3, "WORKERS": 2, "ASSIGNS": 6, "WINDOWS": 2, "TRUNCATES": 2, "AGES": 2, "EVICTS": 2, "MAX_LATE": 2,
          "MAX_TERM": 3}
WALKS, STEPS = 10, 40


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
