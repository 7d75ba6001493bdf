"""Safety, for any number of writers, collectors, records, ids, epochs, flushes and requests in flight: every `always` property
of model/protocols/wal_fencing.py, by an inductive invariant, action by action.

The invariant. Let high be the largest WAL id ever written, first what was first written under each: the log; after is the
manifest's replay_after, epoch its writer_epoch.

The store
- IdsAreContiguous: 0 <= after <= high; an object is of an id from 1 to high, and there is one of every id after `after`. So
  what is created ahead of `after` is created at high+1. FirstIsOne: one record, or none, was first under an id.
  ObjectIsFirst: ahead of `after` an object is what was first written there. What is behind is nobody's business.
- FlushedIsFirst: flushed is what was first under the ids up to `after`. AckedIsFirst: an acknowledged record is first under
  some id, so flushed or ahead: nothing need be said of the way to it, for no id is missing. RefusedIsNowhere: a refused one
  under none.
- OpenedIsClaimed: top <= epoch. ClaimedIsPast: a claimed epoch is at most that. OneWriterPerEpoch. OneWriterAcks.
A writer. It is current while its epoch is the manifest's and it is not stopped. It serves when it has opened. It is sound
if it serves, or is current and has begun to replay: nobody else can have moved `after`, so what it has read was ahead of it.
- WriterHasItsEpoch, which it has claimed, and top is at least that if it serves. WriterKnowsIds: n is at most high, ahead of
  the base, before the fence while it replays, not before it when it serves.
- BaseIsKnown, from when it has read it; BaseIsPast: epoch and replay_after of it are at most the manifest's, and its epoch is
  the writer's once that has claimed; BaseIsFirst: its flushed is what was first up to its replay_after. So a manifest that is
  still the base is of its epoch: only a current writer flushes. (No more is needed of manifests not to recur.)
- CurrentIsAhead: a current one has replayed, or written, up to `after` at least.
- FenceIsEmpty: first under the id of its fence is no record. WriterKnowsLog: a sound one has what was first up to n.
  ReplayIsWhole, ReplayIsFirst: and has read, so far, what was first written there, and that alone.
- AckedIsBeforeFence: while a current one replays, what is acknowledged is first before its fence. So AckedIsHad, once it
  serves, as long as no later one has opened.
- CreatedIsFirst: what a current one has created is first under n+1; so to acknowledge is to compare the epoch after the
  create.
- RecordIsFresh: a record that it has not begun is nowhere in first. RefusedIsOver: a refused one is not put again.
A request in flight, which may be applied at any time
- PendingCreateIsNext: 1 <= id <= high+1. PendingIsOne, record or fence; PendingIsBegun, and not refused: a writer tells its
  caller that a record is nowhere only if it never had another request for it.
- PendingManifestIsNext: it claims the epoch after the one that it replaces, or flushes in it. Where that is the manifest's,
  PendingManifestIsFirst, as of flushed, and PendingFlushIsBehind: not ahead of what the current writer has replayed.
A collector
- KnownIsDurable: the replay_after that it knows is at most the manifest's.
Checkpoints
- CheckpointIsWhole: each object that a listed one refers to is there, and is what was first written. It was so when the
  checkpoint was taken, because its ids were ahead of `after`. CheckpointKnowsIds: these ids are at most high.
- CheckpointIsKnown: a collector knows each listed one, or its ids are ahead of the replay_after that the collector knows.
- PendingCheckpointIsAhead: a request lists no checkpoint but those of the manifest that it replaces, and one whose ids are
  ahead of that manifest's replay_after.

The same clauses hold where a writer lists before it claims; where it puts no fence; where fences are not collected; and where a
replay passes over what is missing. RESOLVE_ONCE off is in the relation, but nothing is proved of it: ReplayIsContiguous fails.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import authored, larger, nothing, one_more, own, room, same, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import wal_fencing as m

Id = NewType("Id", int)  # of a WAL object
Epoch = NewType("Epoch", int)
Count = NewType("Count", int)
Record = NewType("Record", object)
Request = NewType("Request", object)  # in flight, nobody waits for it
Writer, Collector = NewType("Writer", View), NewType("Collector", View)

ROLES = {"Writer": Writer, "Collector": Collector}

CHECKPOINTS = {  # of a manifest: which are listed, the replay_after and the last id of each, and how many were taken
    "checkpoints": (Count, bool), "starts": (Count, Id), "ends": (Count, Id), "taken": (Count,),
}
FIELDS = {
    "": {
        "epoch": (Epoch,), "after": (Id,), "flushed": (Record, bool),  # the manifest
        **CHECKPOINTS,
        "high": (Id,), "present": (Id, bool), "holds": (Id, Record, bool),  # an object that holds nothing is a fence
        "kind": (Request, Literal["None", "Create", "Manifest"]),
        "id": (Request, Id),  # of a Create; of a Manifest, replay_after
        "with_holds": (Request, Record, bool),  # what is to be created, or flushed
        "to_epoch": (Request, Epoch), "over_epoch": (Request, Epoch), "over_after": (Request, Id),
        "over_flushed": (Request, Record, bool),  # the manifest that it is to replace
        **{copy + name: (Request, *sorts) for copy in ("with_", "over_") for name, sorts in CHECKPOINTS.items()},
        "sent": (Count,), "lost": (Count,), "crashes": (Count,),
        "claimed": (Writer, Epoch, bool), "top": (Epoch,), "late": (bool,), "acked": (Record, bool), "refused": (Record, bool),
        "was": (Id, bool), "first": (Id, Record, bool),  # what was first written under each id
    },
    "Writer": {
        "pc": (Literal["Closed", "Probed", "Ready", "Claimed", "Listed", "Resolve", "Replaying", "Validating", "Open",
                       "Created", "Doubt", "Refused", "Reread", "Fenced", "Dead"],),
        "epoch": (Epoch,), "knows": (bool,),  # a manifest, base_..
        "base_epoch": (Epoch,), "base_after": (Id,), "base_flushed": (Record, bool),
        **{"base_" + name: sorts for name, sorts in CHECKPOINTS.items()},
        "n": (Id,), "fence": (Id,), "end": (Id,), "has": (Record, bool), "k": (Count,), "f": (Count,), "since": (Id,),
        "got": (Id, bool), "got_holds": (Id, Record, bool),
    },
    "Collector": {"n": (Id,), "spared_checkpoints": (Count, bool), "spared_starts": (Count, Id), "spared_ends": (Count, Id)},
}
RIGID = {"author": (Record, Writer), "number": (Record, Count)}


NO_CHECKPOINTS = {"checkpoints": nothing, "starts": zero, "ends": zero, "taken": 0}
UNKNOWING = {"knows": False, "base_epoch": 0, "base_after": 0, "base_flushed": nothing,
             **{"base_" + name: value for name, value in NO_CHECKPOINTS.items()}}
WRITER = {"pc": "Closed", "epoch": 0, **UNKNOWING, "n": 0, "fence": 0, "end": 0, "has": nothing, "k": 0, "f": 0, "since": 0,
          "got": nothing, "got_holds": nothing}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {
        "epoch": 0, "after": 0, "flushed": nothing, **NO_CHECKPOINTS, "high": 0, "present": nothing, "holds": nothing,
        "kind": lambda r: "None", "id": zero, "with_holds": nothing, "to_epoch": zero, "over_epoch": zero, "over_after": zero,
        "over_flushed": nothing, **{copy + name: nothing if name == "checkpoints" else zero
                                    for copy in ("with_", "over_") for name in CHECKPOINTS},
        "sent": 0, "lost": 0, "crashes": 0, "claimed": nothing, "top": 0, "late": False,
        "acked": nothing, "refused": nothing, "was": nothing, "first": nothing}
    spared = {"spared_checkpoints": nothing, "spared_starts": zero, "spared_ends": zero}
    return {"": shared, "Writer": WRITER, "Collector": {"n": 0, **spared}}


# --- the transition relation, action by action as in model/protocols/wal_fencing.py
# -----------------------------------------------

def put(s, i, is_record):
    """Return the changes of a put of `is_record` at id i; it becomes the first of i if there was none."""
    return s.but(
        high=larger(i, s.high), present=lambda j: Or(j == i, s.present(j)),
        holds=lambda j, u: If(j == i, is_record(u), s.holds(j, u)), was=lambda j: Or(j == i, s.was(j)),
        first=lambda j, u: If(And(j == i, Not(s.was(i))), is_record(u), s.first(j, u)))


def taken(c, s, i):
    return And(c.CREATE_IF_ABSENT, s.present(i))


def is_fence(s, i):
    return And(s.present(i), Not(s.some(Record, lambda u: s.holds(i, u))))


def listed(s, of, q=()):
    """Return the checkpoint fields of the manifest whose fields begin with `of`; `q`: those of this request."""
    def one(name):
        field = getattr(s, of + name)
        if len(CHECKPOINTS[name]) == 1:
            return field(*q) if q else field
        return (lambda k: field(*q, k)) if q else field
    return {name: one(name) for name in CHECKPOINTS}


def unlike(c, s, epoch, after, flushed, marks):
    """Say that a put of the manifest, conditional on this one, is refused. `marks`: the checkpoint fields of this one."""
    same = And(s.epoch == epoch, s.after == after, s.every(Record, lambda u: s.flushed(u) == flushed(u)),
               s.taken == marks["taken"], s.every(Count, lambda k: And(*(
                   getattr(s, name)(k) == marks[name](k) for name in ("checkpoints", "starts", "ends")))))
    return And(c.MANIFEST_CAS, Not(same))


def changed(c, s, w):
    return unlike(c, s, w.base_epoch, w.base_after, w.base_flushed, listed(w, "base_"))


Ways = Iterable[tuple[Any, Any, Any]]  # guard, shared', local'


def steps(ways: Ways) -> Iterator[tuple]:
    for guard, s, w in ways:
        yield guard, (), s, w


# A writer opens.

def before_claim(c):
    return "Closed" if c.ORDER == "claim" else "Probed"


def read_manifest(c, s, w):
    yield at(w.pc, before_claim(c)), (), s, rebased(s, w).but(pc="Ready")


def rebased(s, w):
    return w.but(knows=True, base_epoch=s.epoch, base_after=s.after, base_flushed=s.flushed,
                 **{"base_" + name: value for name, value in listed(s, "").items()})


def with_base(s, w, **fields):
    """Return the shared state in which the manifest is the writer's base, but for these fields."""
    return s.but(**{"epoch": w.base_epoch, "after": w.base_after, "flushed": w.base_flushed, **listed(w, "base_"), **fields})


def ahead(c, n, after):
    return larger(n, after) if c.FENCE_AHEAD else n


def claim(c, s, w):
    guard, epoch = And(at(w.pc, "Ready"), Not(changed(c, s, w))), w.base_epoch + 1
    s2 = with_base(s, w, epoch=epoch, claimed=lambda v, e: Or(s.claimed(v, e), And(v == w.me, e == epoch)))
    after = w.but(epoch=epoch, base_epoch=epoch, since=w.base_after)
    if c.ORDER == "fence":
        yield from steps(ready(c, guard, s2, after))
    elif c.ORDER == "list":
        yield guard, (), s2, after.but(pc="Listed", n=ahead(c, w.n, w.base_after))
    else:
        yield guard, (), s2, after.but(pc="Claimed")


def claim_conflict(c, s, w):
    yield And(at(w.pc, "Ready"), changed(c, s, w)), (), s, w.but(pc=before_claim(c), **UNKNOWING)


def writer_list(c, s, w):
    last = s.greatest(Id, s.present)
    guard, n = at(w.pc, "Claimed"), ahead(c, last, w.base_after)
    if c.FENCE:
        yield guard, (), s, w.but(pc="Listed", n=n)
    else:
        yield from steps(ready(c, guard, s, w.but(fence=n + 1)))
    yield (And(c.ORDER != "claim", at(w.pc, "Closed")), (),
           s, w.but(pc="Probed" if c.ORDER == "list" else "Listed", n=last))


def create_fence(c, s, w):
    guard = And(at(w.pc, "Listed"), Not(taken(c, s, w.n + 1)))
    s2, after = put(s, w.n + 1, nothing), w.but(n=0, fence=w.n + 1)
    if c.ORDER == "fence":
        yield guard, (), s2, after.but(pc="Probed")
    else:
        yield from steps(ready(c, guard, s2, after))


def fence_conflict(c, s, w):
    yield And(at(w.pc, "Listed"), taken(c, s, w.n + 1)), (), s, w.but(n=w.n + 1)


def ready(c, guard, s, w) -> Ways:
    if c.VALIDATE == "before":
        yield guard, s, w.but(pc="Validating")
    else:
        yield from settled(c, guard, s, w)


def settled(c, guard, s, w) -> Ways:
    after = w.but(n=w.base_after, end=w.fence, has=w.base_flushed)
    if c.RESOLVE_ONCE:
        yield from replayed(c, guard, s, after)
    else:
        yield guard, s, after.but(pc="Resolve")


def list_again(c, s, w, i: Id):
    """Return the steps of a second listing. `i`: the lowest id that it shows."""
    if c.RESOLVE_ONCE:
        return

    def shown(j):
        return And(s.present(j), j > w.base_after)
    lowest = And(at(w.pc, "Resolve"), shown(i), s.every(Id, lambda j: Implies(shown(j), i <= j)))
    none = And(at(w.pc, "Resolve"), Not(s.some(Id, shown)))
    yield from steps(replayed(c, lowest, s, w.but(n=i + -1, end=s.greatest(Id, s.present) + 1)))
    yield from steps(replayed(c, none, s, w))


def replayed(c, guard, s, w) -> Ways:
    more = w.n + 1 < w.end
    yield And(guard, more), s, w.but(pc="Replaying")
    if c.VALIDATE == "after":
        yield And(guard, Not(more)), s, w.but(pc="Validating")
    else:
        yield opened(c, And(guard, Not(more)), s, w)


def opened(c, guard, s, w):
    return guard, s.but(top=larger(s.top, w.epoch)), w.but(pc="Open", n=larger(w.fence if c.FENCE else 0, w.end + -1))


def read_next(c, s, w):
    i = w.n + 1
    yield from steps(replayed(c, And(at(w.pc, "Replaying"), s.present(i)), s, w.but(
        n=i, has=lambda u: Or(w.has(u), s.holds(i, u)), got=lambda j: Or(j == i, w.got(j)),
        got_holds=lambda j, u: If(j == i, s.holds(i, u), w.got_holds(j, u)))))


def read_missing(c, s, w):
    guard = And(at(w.pc, "Replaying"), Not(s.present(w.n + 1)))
    if c.MISSING_IS_FENCED:
        yield guard, (), s, stopped(w)
    else:
        yield from steps(replayed(c, guard, s, w.but(n=w.n + 1)))


def validate(c, s, w):
    guard = And(at(w.pc, "Validating"), s.epoch == w.epoch)
    if c.VALIDATE == "after":
        yield from steps([opened(c, guard, s, w)])
    else:
        yield from steps(settled(c, guard, s, w))


def validate_fenced(c, s, w):
    yield And(at(w.pc, "Validating"), s.epoch != w.epoch), (), s, stopped(w)


def stopped(w):
    return w.but(**{**WRITER, "pc": "Fenced", "epoch": w.epoch, "k": w.k})


# It appends.

def may_append(c, w):
    return Or(at(w.pc, "Doubt"), And(at(w.pc, "Open"), room(w.k, c.APPENDS)))


def acknowledged(s, w):
    mine = s.but(acked=lambda u: Or(s.acked(u), own(s, w, u)), late=Or(s.late, w.epoch < s.top))
    return mine, w.but(pc="Open", n=w.n + 1, has=lambda u: Or(w.has(u), own(s, w, u)), k=w.k + 1)


def durable(c, guard, s, w):
    yield guard, (), *(acknowledged(s, w) if c.CHECK == "none" else (s, w.but(pc="Created")))


def with_own(s, w):
    return put(s, w.n + 1, lambda u: own(s, w, u))


def refused(s, w):
    return s.but(refused=lambda u: Or(s.refused(u), own(s, w, u)))


def recognises(c):
    return c.UNKNOWN in ("recognise", "conclude")


def create_next(c, s, w):
    yield from durable(c, And(may_append(c, w), Not(taken(c, s, w.n + 1))), with_own(s, w), w)


def create_conflict(c, s, w):
    guard, doubts = And(may_append(c, w), taken(c, s, w.n + 1)), And(recognises(c), at(w.pc, "Doubt"))
    yield And(guard, doubts), (), s, w.but(pc="Refused")
    yield And(guard, Not(doubts)), (), refused(s, w), stopped(w)


def in_the_way(s, w):
    """Say that the object after n is the writer's own."""
    return And(s.present(w.n + 1), s.some(Record, lambda u: And(own(s, w, u), s.holds(w.n + 1, u))))


def read_own(c, s, w):
    yield from durable(c, And(at(w.pc, "Refused"), in_the_way(s, w)), s, w)


def read_other(c, s, w):
    guard = And(at(w.pc, "Refused"), s.present(w.n + 1), Not(in_the_way(s, w)))
    yield guard, (), refused(s, w) if c.UNKNOWN == "conclude" else s, stopped(w)


def read_gone(c, s, w):
    yield And(at(w.pc, "Refused"), Not(s.present(w.n + 1))), (), s, stopped(w)


def passes(c, s, w):
    return s.epoch == w.epoch if c.CHECK == "epoch" else w.n + 1 > s.after


def accept(c, s, w):
    yield And(at(w.pc, "Created"), passes(c, s, w)), (), *acknowledged(s, w)


def reject(c, s, w):
    yield And(at(w.pc, "Created"), Not(passes(c, s, w))), (), s, stopped(w)


# It flushes.

def flushing(c, s, w):
    """Return whether it may flush, and the flush: replay_after, records."""
    upto = w.n if c.FLUSH_EXACT else If(at(w.pc, "Open"), w.n, w.end)
    news = Or(upto != w.base_after, s.some(Record, lambda u: And(w.has(u), Not(w.base_flushed(u)))))
    return (And(at(w.pc, "Open", "Replaying"), room(w.f, c.FLUSHES), news), upto,
            lambda u: Or(w.base_flushed(u), w.has(u)))


def flush_next(c, s, w):
    may, upto, flushed = flushing(c, s, w)
    yield (And(may, Not(changed(c, s, w))), (),
           with_base(s, w, after=upto, flushed=flushed, late=Or(s.late, w.epoch < s.top)),
           w.but(base_after=upto, base_flushed=flushed, f=one_more(w.f, c.FLUSHES)))


def flush_conflict(c, s, w):
    yield And(flushing(c, s, w)[0], changed(c, s, w)), (), s, w.but(pc="Reread")


def reread_current(c, s, w):
    guard, more = And(at(w.pc, "Reread"), Or(s.epoch == w.epoch, not c.EPOCH_CHECK)), w.n + 1 < w.end
    yield And(guard, more), (), s, rebased(s, w).but(pc="Replaying")
    yield And(guard, Not(more)), (), s, rebased(s, w).but(pc="Open")


def reread_fenced(c, s, w):
    yield And(at(w.pc, "Reread"), s.epoch != w.epoch, c.EPOCH_CHECK), (), s, stopped(w)


# It takes a checkpoint, or drops one.

def remarks(c, w, i):
    """Yield (guard, the checkpoint fields that it puts) for each of the two things that it may do about `i`."""
    if c.CHECKPOINTS == 0:
        return
    takes, old = And(i == w.base_taken, room(i, c.CHECKPOINTS)), listed(w, "base_")
    yield And(at(w.pc, "Open"), takes), {
        "checkpoints": lambda k: Or(k == i, old["checkpoints"](k)),
        "starts": lambda k: If(k == i, w.base_after, old["starts"](k)),
        "ends": lambda k: If(k == i, w.n, old["ends"](k)), "taken": i + 1}
    yield And(at(w.pc, "Open"), Not(takes), old["checkpoints"](i)), {
        "checkpoints": lambda k: And(k != i, old["checkpoints"](k)), "starts": lambda k: If(k == i, 0, old["starts"](k)),
        "ends": lambda k: If(k == i, 0, old["ends"](k)), "taken": w.base_taken}


def checkpoint_next(c, s, w, i: Count):
    for guard, marks in remarks(c, w, i):
        yield (And(guard, Not(changed(c, s, w))), (i,), with_base(s, w, **marks),
               w.but(**{"base_" + name: value for name, value in marks.items()}))


def checkpoint_conflict(c, s, w, i: Count):
    for guard, _ in remarks(c, w, i):
        yield And(guard, changed(c, s, w)), (i,), s, w.but(pc="Reread")


# Faults.

def in_doubt(c, w):
    return w.but(pc="Open", n=w.n + 1, k=w.k + 1) if c.UNKNOWN == "skip" else w.but(pc="Doubt")


def sent(c, s, r, kind, **fields):
    """Return the guard that `r` is unused, and the shared state with `r` in flight."""
    def with_r(field, value):
        if callable(value):
            return lambda q, *of: If(q == r, value(*of), getattr(s, field)(q, *of))
        return lambda q: If(q == r, value, getattr(s, field)(q))
    return And(at(s.kind(r), "None"), room(s.sent, c.MAX_PENDING)), s.but(sent=one_more(s.sent, c.MAX_PENDING), **{
        field: with_r(field, value) for field, value in {"kind": kind, **fields}.items()})


def lost(c, s):
    return s.but(lost=one_more(s.lost, c.MAX_LOST))


def send_create(c, s, w, r: Request):
    unused, after = sent(c, s, r, "Create", id=w.n + 1, with_holds=lambda u: own(s, w, u))
    yield And(may_append(c, w), unused), (), after, in_doubt(c, w)


def lose_create(c, s, w):
    guard, no = And(may_append(c, w), room(s.lost, c.MAX_LOST)), taken(c, s, w.n + 1)
    yield And(guard, no), (), lost(c, s), in_doubt(c, w)
    yield And(guard, Not(no)), (), lost(c, with_own(s, w)), in_doubt(c, w)


def send_fence(c, s, w, r: Request):
    unused, after = sent(c, s, r, "Create", id=w.n + 1, with_holds=nothing)
    yield And(at(w.pc, "Listed"), unused), (), after, w


def lose_fence(c, s, w):
    guard, no = And(at(w.pc, "Listed"), room(s.lost, c.MAX_LOST)), taken(c, s, w.n + 1)
    yield And(guard, no), (), lost(c, s), w
    yield And(guard, Not(no)), (), lost(c, put(s, w.n + 1, nothing)), w


def putting(c, s, w):
    """Yield (guard, the manifest that it puts now, its local state if the outcome stays unknown)."""
    yield at(w.pc, "Ready"), {"epoch": w.base_epoch + 1}, w.but(pc=before_claim(c), **UNKNOWING)
    may, upto, flushed = flushing(c, s, w)
    yield may, {"after": upto, "flushed": flushed}, w.but(pc="Reread", f=one_more(w.f, c.FLUSHES))


def sends(c, s, w, r, guard, fields, w2, choices=()):
    """Return the step that puts into flight the base with these fields."""
    new = with_base(s, w, **fields)
    marks = {copy + name: value for copy, fields in (("with_", listed(new, "")), ("over_", listed(w, "base_")))
             for name, value in fields.items()}
    unused, s2 = sent(c, s, r, "Manifest", id=new.after, with_holds=new.flushed, to_epoch=new.epoch, over_epoch=w.base_epoch,
                      over_after=w.base_after, over_flushed=w.base_flushed, **marks)
    return And(guard, unused), choices, s2, w2


def loses(c, s, w, may, fields, w2, choices=()):
    """Yield the steps that put the base with these fields, and whose outcome the writer does not learn."""
    guard, no = And(may, room(s.lost, c.MAX_LOST)), changed(c, s, w)
    yield And(guard, no), choices, lost(c, s), w2
    yield And(guard, Not(no)), choices, lost(c, with_base(s, w, **fields)), w2


def send_manifest(c, s, w, r: Request):
    for guard, fields, w2 in putting(c, s, w):
        yield sends(c, s, w, r, guard, fields, w2)


def lose_manifest(c, s, w):
    for may, fields, w2 in putting(c, s, w):
        yield from loses(c, s, w, may, fields, w2)


def send_checkpoint(c, s, w, i: Count, r: Request):
    for guard, marks in remarks(c, w, i):
        yield sends(c, s, w, r, guard, marks, w.but(pc="Reread"), (i,))


def lose_checkpoint(c, s, w, i: Count):
    for guard, marks in remarks(c, w, i):
        yield from loses(c, s, w, guard, marks, w.but(pc="Reread"), (i,))


def crash(c, s, w):
    yield (And(Not(at(w.pc, "Closed", "Fenced", "Dead")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), w.but(**{**WRITER, "pc": "Dead"}))


# A collector, and zombie requests.

def collector_read_manifest(c, s, g):
    yield True, (), s, g.but(n=s.after, spared_checkpoints=s.checkpoints, spared_starts=s.starts, spared_ends=s.ends)


def delete(c, s, g, i: Id):
    behind = And(i <= g.n, i <= s.high) if c.GC_BEHIND else i < s.greatest(Id, s.present)
    spared = s.some(Count, lambda k: And(g.spared_checkpoints(k), g.spared_starts(k) < i, i <= g.spared_ends(k)))
    yield (And(i >= 1, behind, Or(c.FENCE_GC, Not(is_fence(s, i))), Not(And(c.SPARE_CHECKPOINTED, spared))), (i,),
           s.but(present=lambda j: And(s.present(j), j != i)), g)


def apply_pending(c, s, _, r: Request):
    creates, puts, i = at(s.kind(r), "Create"), at(s.kind(r), "Manifest"), s.id(r)
    done = s.but(kind=lambda q: If(q == r, "None", s.kind(q)))
    yield And(creates, taken(c, s, i)), (r,), done, None
    yield And(creates, Not(taken(c, s, i))), (r,), put(done, i, lambda u: s.with_holds(r, u)), None
    no = unlike(c, s, s.over_epoch(r), s.over_after(r), lambda u: s.over_flushed(r, u), listed(s, "over_", (r,)))
    yield And(puts, no), (r,), done, None
    yield (And(puts, Not(no)), (r,), done.but(
        epoch=s.to_epoch(r), after=i, flushed=lambda u: s.with_holds(r, u), **listed(s, "with_", (r,))), None)


ACTIONS = {
    "Writer": {
        "ReadManifest": read_manifest, "Claim": claim, "ClaimConflict": claim_conflict, "List": writer_list,
        "CreateFence": create_fence, "FenceConflict": fence_conflict, "ListAgain": list_again, "ReadNext": read_next,
        "ReadMissing": read_missing, "Validate": validate, "ValidateFenced": validate_fenced,
        "CreateNext": create_next, "CreateConflict": create_conflict, "ReadOwn": read_own, "ReadOther": read_other,
        "ReadGone": read_gone, "Accept": accept, "Reject": reject,
        "FlushNext": flush_next, "FlushConflict": flush_conflict, "RereadCurrent": reread_current,
        "RereadFenced": reread_fenced, "CheckpointNext": checkpoint_next, "CheckpointConflict": checkpoint_conflict,
        "SendCreate": send_create, "LoseCreate": lose_create, "SendFence": send_fence, "LoseFence": lose_fence,
        "SendManifest": send_manifest, "LoseManifest": lose_manifest, "SendCheckpoint": send_checkpoint,
        "LoseCheckpoint": lose_checkpoint, "Crash": crash,
    },
    "Collector": {"ReadManifest": collector_read_manifest, "Delete": delete},
    "": {"ApplyPending": apply_pending},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def upto(s, n, u):
    """Say that this record was first written under some id up to `n`."""
    return s.some(Id, lambda i: And(i <= n, s.first(i, u)))


UNSETTLED = ("Claimed", "Listed")
SETTLED = ("Replaying", "Validating", "Open", "Created", "Doubt", "Refused", "Reread")


def current(s, w):
    """Say that it has the latest claimed epoch, and is neither fenced nor dead."""
    return And(w.epoch == s.epoch, at(w.pc, *UNSETTLED, *SETTLED))


def serves(w):
    """Say that it has opened, and may still serve."""
    return Or(at(w.pc, *m.SERVING), And(at(w.pc, "Reread"), w.n + 1 >= w.end))


def sound(s, w):
    """Say that its replay so far is part of the log."""
    return And(at(w.pc, *SETTLED), Or(serves(w), w.epoch == s.epoch))


def last_before(c, w):
    """Return the end of what was written before its claim: its fence, or without one the end of the listing."""
    return w.fence if c.FENCE else w.fence + -1


def reach(w):
    """Return the id up to which it has replayed, and may have flushed."""
    return If(at(w.pc, *UNSETTLED), w.base_after, w.n)


def ids_are_contiguous(c, s, i: Id):
    there = And(i >= 1, i <= s.high)
    return And(s.after >= 0, s.after <= s.high, s.was(i) == there, Implies(s.present(i), there),
               Implies(And(there, i > s.after), s.present(i)))


def first_is_one(c, s, i: Id, u: Record, v: Record):
    return Implies(s.first(i, u), And(i >= 1, i <= s.high, s.first(i, v) == same(s, u, v)))


def object_is_first(c, s, i: Id, u: Record):
    return Implies(And(s.present(i), i > s.after), s.holds(i, u) == s.first(i, u))


def flushed_is_first(c, s, u: Record):
    return s.flushed(u) == upto(s, s.after, u)


def acked_is_first(c, s, u: Record):
    return Implies(s.acked(u), upto(s, s.high, u))


def refused_is_nowhere(c, s, i: Id, u: Record):
    return Implies(s.refused(u), Not(s.first(i, u)))


def opened_is_claimed(c, s):
    return And(s.top >= 0, s.top <= s.epoch)


def claimed_is_past(c, s, e: Epoch):
    return s.every(Writer, lambda w: Implies(s.claimed(w, e), And(e >= 1, e <= s.epoch)))


def one_writer_per_epoch(c, s, e: Epoch):
    return s.every(Writer, lambda w: s.every(Writer, lambda v: Implies(And(s.claimed(w, e), s.claimed(v, e)), w == v)))


def one_writer_acks(c, s):
    return Not(s.late)


def writer_has_its_epoch(c, s, w: Writer):
    has = at(w.pc, *UNSETTLED, *SETTLED)
    return And(w.epoch >= 0, Implies(w.epoch > 0, s.claimed(w.me, w.epoch)), Implies(has, w.epoch >= 1),
               Implies(at(w.pc, "Closed", "Probed", "Ready"), w.epoch == 0), Not(at(w.pc, "Resolve")),
               Implies(serves(w), w.epoch <= s.top))


def base_is_known(c, s, w: Writer, u: Record):
    there = at(w.pc, "Ready", *UNSETTLED, *SETTLED)
    return And(w.knows == there, Or(there, And(w.base_epoch == 0, w.base_after == 0, Not(w.base_flushed(u)))))


def base_is_past(c, s, w: Writer):
    epoch = If(at(w.pc, "Ready"), w.base_epoch <= s.epoch, w.base_epoch == w.epoch)
    return Implies(at(w.pc, "Ready", *UNSETTLED, *SETTLED), And(
        w.base_epoch >= 0, epoch, w.base_after >= 0, w.base_after <= s.after))


def base_is_first(c, s, w: Writer, u: Record):
    return Implies(at(w.pc, "Ready", *UNSETTLED, *SETTLED), w.base_flushed(u) == upto(s, w.base_after, u))


def writer_knows_ids(c, s, w: Writer):
    return And(
        w.n >= 0, If(at(w.pc, "Created"), w.n + 1, w.n) <= s.high,
        Implies(at(w.pc, "Listed", *SETTLED), w.base_after <= w.n),
        Implies(at(w.pc, *UNSETTLED), w.since == w.base_after),
        Implies(at(w.pc, *SETTLED), And(
            w.since >= 0, w.since <= w.n, w.end == w.fence, w.fence >= 1, last_before(c, w) <= s.high)),
        Implies(at(w.pc, "Replaying"), w.n + 1 < w.end), Implies(at(w.pc, "Validating"), w.n + 1 == w.end),
        Implies(serves(w), w.n >= last_before(c, w)))


def current_is_ahead(c, s, w: Writer):
    return Implies(current(s, w), s.after <= reach(w))


def fence_is_empty(c, s, w: Writer, u: Record):
    return Implies(And(c.FENCE, sound(s, w)), Not(s.first(w.fence, u)))


def writer_knows_log(c, s, w: Writer, u: Record):
    return Implies(sound(s, w), w.has(u) == upto(s, w.n, u))


def replay_is_whole(c, s, w: Writer, i: Id):
    """Say that the replay is complete so far."""
    got = And(w.since < i, i <= w.n, i < w.fence)
    return If(at(w.pc, *SETTLED), Implies(sound(s, w), w.got(i) == got), Not(w.got(i)))


def replay_is_first(c, s, w: Writer, i: Id, u: Record):
    return Implies(And(sound(s, w), w.got(i)), w.got_holds(i, u) == s.first(i, u))


def acked_is_before_fence(c, s, w: Writer, u: Record):
    opening = And(current(s, w), at(w.pc, *SETTLED), Not(serves(w)))
    return Implies(And(opening, s.acked(u)), upto(s, last_before(c, w), u))


def acked_is_had(c, s, w: Writer, u: Record):
    return Implies(And(serves(w), w.epoch >= s.top, s.acked(u)), w.has(u))


def created_is_first(c, s, w: Writer, u: Record):
    return Implies(And(at(w.pc, "Created"), current(s, w)), s.first(w.n + 1, u) == own(s, w, u))


def begun(s, w, u):
    """Say that the record is another writer's, or one of this writer's that may have been put."""
    stopped = at(w.pc, "Fenced", "Dead")
    mine = And(s.number(u) == w.k, at(w.pc, "Doubt", "Refused", "Created"))
    return Or(s.author(u) != w.me, s.number(u) < w.k, stopped, mine)


def record_is_fresh(c, s, w: Writer, i: Id, u: Record):
    return Implies(s.first(i, u), begun(s, w, u))


def refused_is_over(c, s, w: Writer, u: Record):
    return Implies(And(s.refused(u), s.author(u) == w.me), Or(s.number(u) < w.k, at(w.pc, "Fenced", "Dead")))


def creates(s, r, u):
    return And(at(s.kind(r), "Create"), s.with_holds(r, u))


def pending_create_is_next(c, s, r: Request):
    return Implies(at(s.kind(r), "Create"), And(s.id(r) >= 1, s.id(r) <= s.high + 1))


def pending_is_one(c, s, r: Request, u: Record, v: Record):
    return Implies(creates(s, r, u), s.with_holds(r, v) == same(s, u, v))


def pending_is_begun(c, s, w: Writer, r: Request, u: Record):
    return Implies(creates(s, r, u), And(Not(s.refused(u)), begun(s, w, u)))


def pending_manifest_is_next(c, s, r: Request):
    claims = And(s.to_epoch(r) == s.over_epoch(r) + 1, s.id(r) == s.over_after(r))
    flushes = And(s.to_epoch(r) == s.over_epoch(r), s.id(r) >= s.over_after(r))
    return Implies(at(s.kind(r), "Manifest"), And(
        s.over_epoch(r) >= 0, s.over_epoch(r) <= s.epoch, s.id(r) <= s.high, Or(claims, flushes)))


def pending_manifest_is_first(c, s, r: Request, u: Record):
    true = s.with_holds(r, u) == upto(s, s.id(r), u)
    return Implies(And(at(s.kind(r), "Manifest"), s.over_epoch(r) == s.epoch), true)


def pending_flush_is_behind(c, s, w: Writer, r: Request):
    flushes = And(at(s.kind(r), "Manifest"), s.over_epoch(r) == s.epoch, s.to_epoch(r) == s.epoch)
    return Implies(And(current(s, w), flushes), s.id(r) <= reach(w))


def known_is_durable(c, s, g: Collector):
    return g.n <= s.after


def checkpoint_is_whole(c, s, k: Count, i: Id, u: Record):
    refers = And(s.checkpoints(k), s.starts(k) < i, i <= s.ends(k))
    return Implies(refers, And(s.present(i), s.holds(i, u) == s.first(i, u)))


def checkpoint_knows_ids(c, s, k: Count):
    return Implies(s.checkpoints(k), And(s.starts(k) >= 0, s.ends(k) <= s.high))


def checkpoint_is_known(c, s, g: Collector, k: Count):
    knows = And(g.spared_checkpoints(k), g.spared_starts(k) == s.starts(k), g.spared_ends(k) == s.ends(k))
    return Implies(s.checkpoints(k), Or(g.n <= s.starts(k), knows))


def pending_checkpoint_is_ahead(c, s, r: Request, k: Count):
    """Say that a request lists what the manifest that it replaces does, or what is ahead of its replay_after."""
    start, end = s.with_starts(r, k), s.with_ends(r, k)
    old = And(s.over_checkpoints(r, k), start == s.over_starts(r, k), end == s.over_ends(r, k))
    new = And(start == s.over_after(r), start >= 0, end <= s.high)
    return Implies(And(at(s.kind(r), "Manifest"), s.with_checkpoints(r, k)), Or(old, new))


CLAUSES = {
    "IdsAreContiguous": ids_are_contiguous, "FirstIsOne": first_is_one, "ObjectIsFirst": object_is_first,
    "FlushedIsFirst": flushed_is_first, "AckedIsFirst": acked_is_first, "RefusedIsNowhere": refused_is_nowhere,
    "OpenedIsClaimed": opened_is_claimed, "ClaimedIsPast": claimed_is_past,
    "OneWriterPerEpoch": one_writer_per_epoch, "OneWriterAcks": one_writer_acks,
    "WriterHasItsEpoch": writer_has_its_epoch, "BaseIsKnown": base_is_known, "BaseIsPast": base_is_past,
    "BaseIsFirst": base_is_first,
    "WriterKnowsIds": writer_knows_ids,
    "CurrentIsAhead": current_is_ahead, "FenceIsEmpty": fence_is_empty, "WriterKnowsLog": writer_knows_log,
    "ReplayIsWhole": replay_is_whole, "ReplayIsFirst": replay_is_first, "AckedIsBeforeFence": acked_is_before_fence,
    "AckedIsHad": acked_is_had,
    "CreatedIsFirst": created_is_first, "RecordIsFresh": record_is_fresh, "RefusedIsOver": refused_is_over,
    "PendingCreateIsNext": pending_create_is_next, "PendingIsOne": pending_is_one, "PendingIsBegun": pending_is_begun,
    "PendingManifestIsNext": pending_manifest_is_next, "PendingManifestIsFirst": pending_manifest_is_first,
    "PendingFlushIsBehind": pending_flush_is_behind,
    "KnownIsDurable": known_is_durable,
    "CheckpointIsWhole": checkpoint_is_whole, "CheckpointKnowsIds": checkpoint_knows_ids,
    "CheckpointIsKnown": checkpoint_is_known, "PendingCheckpointIsAhead": pending_checkpoint_is_ahead,
}


# --- the properties, as the model states them -----------------------------------------------------------------------------

def acked_is_durable(c, s, u: Record):
    """Say that an acknowledged record is flushed, or in the log from there to the first free slot."""
    def whole(i):
        return s.every(Id, lambda j: Implies(And(j > s.after, j <= i), s.present(j)))
    return Implies(s.acked(u), Or(s.flushed(u), s.some(Id, lambda i: And(
        i > s.after, s.present(i), s.holds(i, u), whole(i)))))


def refused_is_not_ahead(c, s, i: Id, u: Record):
    return Implies(s.refused(u), Not(Or(s.flushed(u), And(i > s.after, s.present(i), s.holds(i, u)))))


def acked_is_served(c, s, w: Writer, u: Record):
    return Implies(And(at(w.pc, *m.SERVING), w.epoch >= s.top, s.acked(u)), w.has(u))


def replay_is_contiguous(c, s, w: Writer, i: Id, u: Record):
    due = And(w.since < i, i < w.fence, s.was(i))
    return Implies(at(w.pc, *m.SERVING), And(w.got(i) == due, Implies(due, w.got_holds(i, u) == s.first(i, u))))


PROPERTIES = {
    "OneWriterPerEpoch": one_writer_per_epoch, "AckedIsDurable": acked_is_durable, "OneWriterAcks": one_writer_acks,
    "RefusedIsNowhere": refused_is_not_ahead, "AckedIsServed": acked_is_served, "ReplayIsContiguous": replay_is_contiguous,
    "CheckpointIsWhole": checkpoint_is_whole,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def objects(slots: tuple[m.Slot, ...]) -> list[tuple[int, m.Body]]:
    return [(i, body) for i, one in enumerate(slots, 1) for body in one]


def records(bodies: Any) -> frozenset:
    return frozenset((i, body) for i, body in bodies if body)


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Collector":
        return tables | marks("spared_", {None: m.Manifest(checkpoints=value.spared)})
    if role:
        base = value.base or m.Manifest()
        return tables | {
            "knows": value.base is not None, "base_epoch": base.writer_epoch, "base_after": base.replay_after,
            "base_flushed": base.flushed, **marks("base_", {None: base}),
            "got": frozenset(i for i, _ in value.got), "got_holds": records(value.got)}
    wal, first = objects(value.wal), objects(value.first)
    pool = [*enumerate(value.pool)]
    manifests = [(r, where, what) for r, (kind, where, what) in pool if kind == "Manifest"]
    created = [(r, i, body) for r, (kind, i, body) in pool if kind == "Create"]
    return tables | {
        "epoch": value.manifest.writer_epoch, "after": value.manifest.replay_after, "flushed": value.manifest.flushed,
        **marks("", {None: value.manifest}), "high": len(value.wal),
        "present": frozenset(i for i, _ in wal), "holds": records(wal),
        "was": frozenset(i for i, _ in first), "first": records(first),
        "kind": defaultdict(lambda: "None", ((r, request[0]) for r, request in pool)),
        "id": defaultdict(int, [(r, i) for r, i, _ in created] + [(r, what.replay_after) for r, _, what in manifests]),
        "with_holds": frozenset([(r, body) for r, _, body in created if body]
                                + [(r, u) for r, _, what in manifests for u in what.flushed]),
        "to_epoch": defaultdict(int, ((r, what.writer_epoch) for r, _, what in manifests)),
        "over_epoch": defaultdict(int, ((r, where.writer_epoch) for r, where, _ in manifests)),
        "over_after": defaultdict(int, ((r, where.replay_after) for r, where, _ in manifests)),
        "over_flushed": frozenset((r, u) for r, where, _ in manifests for u in where.flushed),
        **marks("with_", {r: what for r, _, what in manifests}), **marks("over_", {r: where for r, where, _ in manifests})}


def marks(copy: str, of: dict[int | None, m.Manifest]) -> Tables:
    """Return the checkpoint fields of the manifest of each request; of the only manifest, whose key is None."""
    ids = {k if r is None else (r, k): ids for r, manifest in of.items() for k, *ids in manifest.checkpoints}
    taken = {r: manifest.taken for r, manifest in of.items()}
    return {copy + "checkpoints": frozenset(ids), copy + "starts": defaultdict(int, {key: i for key, (i, _) in ids.items()}),
            copy + "ends": defaultdict(int, {key: i for key, (_, i) in ids.items()}),
            copy + "taken": taken.get(None, defaultdict(int, taken))}


def marked(t: Tables, copy: str, r: int | None = None) -> frozenset[m.Checkpoint]:
    """Return the checkpoints in the fields of the manifest of request `r`, or of the only one."""
    keys = [(key, key) for key in t[copy + "checkpoints"]] if r is None else [
        ((q, k), k) for q, k in t[copy + "checkpoints"] if q == r]
    return frozenset((k, t[copy + "starts"][key], t[copy + "ends"][key]) for key, k in keys)


def body_of(pairs: Any, i: int) -> m.Body:
    return next((u for j, u in pairs if j == i), ())


def write(role: str, t: Tables) -> Any:
    if role == "Collector":
        return m.Collector(t["n"], marked(t, "spared_"))
    if role:
        base = m.Manifest(t["base_epoch"], t["base_after"], t["base_flushed"], marked(t, "base_"), t["base_taken"])
        got = tuple((i, body_of(t["got_holds"], i)) for i in sorted(t["got"]))
        return m.Writer(t["pc"], t["epoch"], base if t["knows"] else None, t["n"], t["fence"], t["end"], t["has"], t["k"],
                        t["f"], t["since"], got)
    ids = range(1, t["high"] + 1)
    wal, first = (tuple((body_of(t[holds], i),) if i in t[there] else () for i in ids)
                  for there, holds in (("present", "holds"), ("was", "first")))
    pool = tuple(request(t, r) for r, kind in sorted(t["kind"].items()) if kind != "None")
    manifest = m.Manifest(t["epoch"], t["after"], t["flushed"], marked(t, ""), t["taken"])
    return m.Shared(manifest, wal, pool, *(t[f] for f in ("sent", "lost", "crashes", "claimed", "top", "late", "acked",
                                                         "refused")), first=first)


def request(t: Tables, r: int) -> tuple:
    def carried(field):
        return frozenset(u for q, u in t[field] if q == r)
    if t["kind"][r] == "Create":
        return "Create", t["id"][r], body_of(t["with_holds"], r)
    over = m.Manifest(t["over_epoch"][r], t["over_after"][r], carried("over_flushed"), marked(t, "over_", r),
                      t["over_taken"][r])
    return "Manifest", over, m.Manifest(t["to_epoch"][r], t["id"][r], carried("with_holds"), marked(t, "with_", r),
                                        t["with_taken"][r])


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    faults = c.MAX_PENDING + c.MAX_LOST
    return {Id: [*range(c.WRITERS * (1 + c.APPENDS) + faults + 2)], Epoch: [*range(c.WRITERS + faults + 1)],
            Count: [*range(max(c.APPENDS, c.FLUSHES, c.CHECKPOINTS, c.MAX_PENDING, c.MAX_LOST, c.MAX_CRASHES) + 1)],
            Record: [(w, k) for w in range(c.WRITERS) for k in range(c.APPENDS)], Request: [*range(c.MAX_PENDING)],
            Writer: [*range(c.WRITERS)], Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = {Id: [*range(5)], Epoch: [*range(4)], Count: [0, 1], Record: [(w, k) for w in range(2) for k in range(2)], Request: [0],
         Writer: [0, 1], Collector: [0]}
SYSTEM = System(FIELDS, ROLES, RIGID, authored, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write)
UNBOUNDED = dict.fromkeys(("APPENDS", "FLUSHES", "CHECKPOINTS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "COLLECTORS", *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"CREATE_IF_ABSENT": False}, {"MANIFEST_CAS": False}, {"ORDER": "fence"}, {"FENCE_AHEAD": False}, {"VALIDATE": "before"},
    {"VALIDATE": "none"}, {"CHECK": "boundary"}, {"CHECK": "none"}, {"RESOLVE_ONCE": False}, {"FLUSH_EXACT": False},
    {"EPOCH_CHECK": False}, {"GC_BEHIND": False}, {"SPARE_CHECKPOINTED": False},
    {"UNKNOWN": "conclude"}, {"UNKNOWN": "refuse"}, {"UNKNOWN": "skip"},
    {"FENCE": False, "CHECK": "none"}, {"FENCE_GC": False, "CHECK": "none"}, {"MISSING_IS_FENCED": False, "VALIDATE": "before"},
)
# The systems that are proved, each separately.
SYSTEMS = {"": {}, " where a writer lists before it claims": {"order": "list"}, " where there is no fence": {"fence": False}}
# Instances for the tie that together take every action but ListAgain.
INSTANCES = (
    {"COLLECTORS": 0}, {"MAX_LOST": 1, "FLUSHES": 0, "COLLECTORS": 0}, {"MAX_PENDING": 1, "WRITERS": 1},
    {"MAX_CRASHES": 1, "COLLECTORS": 0, "FLUSHES": 0}, {"ORDER": "list", "COLLECTORS": 0}, {"FENCE": False, "MAX_LOST": 1},
    {"MAX_PENDING": 1, "APPENDS": 0, "COLLECTORS": 0}, {"APPENDS": 0},
    {"WRITERS": 1, "CHECKPOINTS": 1, "MAX_LOST": 1}, {"WRITERS": 1, "FLUSHES": 0, "CHECKPOINTS": 1, "MAX_PENDING": 1},
)
NEAREST = 600  # states of each that `make verify` compares; `make verify-deep` compares all
UNTAKEN = {"Writer.ListAgain", "Writer.ReadGone"}  # actions that no state of them takes
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 3, "APPENDS": 3, "FLUSHES": 2, "CHECKPOINTS": 2, "COLLECTORS": 2, "MAX_PENDING": 2, "MAX_LOST": 2,
          "MAX_CRASHES": 1}
WALKS, STEPS = 24, 100


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, order: str = "", fence: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    c = c._replace(ORDER=order or c.ORDER, FENCE=c.FENCE and fence)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
