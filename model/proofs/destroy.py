"""Safety, for any number of writers, SSTs, clients, checkpoints, operators, manifests and requests in flight: every `always`
property of model/protocols/destroy.py, by an inductive invariant, action by action.

The invariant. Let high be the id of the latest manifest. The store is condemned if it is sealed, or an operator has checked.

The store
- FileIsKnown: 1 <= i <= high for every manifest i, and FileHasContent: only a manifest that is there has content. MarkIsOne.
- LatestIsThere: until the store is sealed every manifest is there. OthersGoFirst: if the latest one is gone, all are.
- SealedIsOver, CheckedIsOver: what is condemned does not wait for the grace. SealedIsFree, CheckedIsFree: it has no checkpoint,
  SealedIsMarked, CheckedIsMarked: and its latest manifest is marked. HardIsFree, HardIsOver: so is a hard mark.
- HeldIsListed: a checkpoint of the last manifest that was created is listed there, if that is there, and the other way round.
- PinIsThere: what the latest manifest lists names a manifest. NamedIsThere: until the store is sealed the SSTs of all manifests
  are there.
- GoneIsSealed: after the last manifest is deleted the store is sealed, and there is no manifest.
- EmptyIsEmpty: an operator that has listed no SST is right about those that manifests name, as the store is sealed.
SSTs
- NameIsUsed, PendingIsUsed: a manifest, also one in flight, names SSTs that their writers have done with. UploadIsUsed: so are
  those in flight, UploadIsNotNamed, UploadIsNotPending: and no manifest names them. ReadyIsThere: what a writer has uploaded
  is there.
A request in flight, which creates the next manifest if its id is still the next one and the store is not sealed
- PendingIsNext: it asks for high + 1 at most. If it asks for high + 1:
- PendingIsMarked: it keeps the mark, PendingIsFree: a hard one lists no checkpoint, PendingIsNotNew: and after a mark it adds
  none. PendingNames: it names itself, or what the latest manifest names. PendingIsWhole: its SSTs are there.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import nothing, one_more, own, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import destroy as m

Id = NewType("Id", int)  # of a manifest
Count = NewType("Count", int)
Place = NewType("Place", int)  # in the pool, from 0
Checkpoint = NewType("Checkpoint", object)
Sst = NewType("Sst", object)
Writer, Client, Operator = NewType("Writer", View), NewType("Client", View), NewType("Operator", View)

ROLES = {"Writer": Writer, "Client": Client, "Operator": Operator}
FIELDS = {
    "": {
        "high": (Id,), "present": (Id, bool), "names": (Id, Sst, bool), "pins": (Id, Checkpoint, Id, bool), "soft": (Id, bool),
        "hard": (Id, bool), "ssts": (Sst, bool), "uploads": (Sst, bool), "boundary": (Id,), "sealed": (bool,), "over": (bool,),
        "size": (Place,), "id": (Place, Id), "with_names": (Place, Sst, bool), "with_pins": (Place, Checkpoint, Id, bool),
        "with_soft": (Place, bool), "with_hard": (Place, bool), "late": (Count,), "crashes": (Count,),
        "held": (Checkpoint, bool), "gone": (bool,), "early": (bool,), "orphaned": (bool,), "wrote": (bool,),
    },
    "Writer": {"k": (Count,), "up": (bool,)},
    "Client": {"k": (Count,)},
    "Operator": {"k": (Count,), "looked": (bool,), "checked": (Id,), "empty": (bool,)},
}
RIGID = {"author": (Checkpoint, Client), "number": (Checkpoint, Count), "maker": (Sst, Writer), "made": (Sst, Count)}


def meaning(_: Any) -> dict:
    return {"author": lambda u: u[0], "number": lambda u: u[1], "maker": lambda x: x[0], "made": lambda x: x[1]}


OPERATOR = {"looked": False, "checked": 0, "empty": False}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"high": 1, "present": lambda i: i == 1, "names": nothing, "pins": nothing, "soft": nothing, "hard": nothing,
              "ssts": nothing, "uploads": nothing, "boundary": 0, "sealed": False, "over": False, "size": 0, "id": zero,
              "with_names": nothing, "with_pins": nothing, "with_soft": nothing, "with_hard": nothing, "late": 0, "crashes": 0,
              "held": nothing, "gone": False, "early": False, "orphaned": False, "wrote": False}
    return {"": shared, "Writer": {"k": 0, "up": False}, "Client": {"k": 0}, "Operator": {"k": 0, **OPERATOR}}


# --- manifests

class Content:
    """A manifest: its SSTs, its checkpoints, each with the manifest that it names, and its mark."""

    def __init__(self, names: Callable, pins: Callable, soft: Any, hard: Any):
        self.names, self.pins, self.soft, self.hard = names, pins, soft, hard
        self.marked = Or(soft, hard)

    def but(self, **changes: Any) -> "Content":
        return Content(**{"names": self.names, "pins": self.pins, "soft": self.soft, "hard": self.hard, **changes})


def file(s: View, i: Any) -> Content:
    return Content(lambda x: s.names(i, x), lambda u, o: s.pins(i, u, o), s.soft(i), s.hard(i))


def latest(s: View) -> Content:
    return file(s, s.high)


def pending(s: View, q: Any) -> Content:
    return Content(lambda x: s.with_names(q, x), lambda u, o: s.with_pins(q, u, o), s.with_soft(q), s.with_hard(q))


def listed(s: View, of: Content, u: Any) -> Any:
    """Say that some entry of the manifest has this id."""
    return s.some(Id, lambda o: of.pins(u, o))


def free(s: View, of: Content) -> Any:
    """Say that the manifest has no checkpoint."""
    return Not(s.some(Checkpoint, lambda u: listed(s, of, u)))


def is_behind(s: View, i: Any) -> Any:
    return Or(s.sealed, i <= s.boundary)


def is_current(s: View) -> Any:
    return And(s.present(s.high), Not(is_behind(s, s.high)))


def put(s: View, i: Any, new: Content) -> View:
    return s.but(
        high=If(i > s.high, i, s.high), present=lambda j: Or(j == i, s.present(j)),
        names=lambda j, x: If(j == i, new.names(x), s.names(j, x)),
        pins=lambda j, u, o: If(j == i, new.pins(u, o), s.pins(j, u, o)),
        soft=lambda j: If(j == i, new.soft, s.soft(j)), hard=lambda j: If(j == i, new.hard, s.hard(j)),
        over=Or(s.over, new.hard), held=lambda u: listed(s, new, u))


def put_next(s: View, new: Content) -> View:
    return put(s, s.high + 1, new)


def send(s: View, new: Content) -> View:
    end = s.size
    return s.but(
        size=end + 1, id=lambda q: If(q == end, s.high + 1, s.id(q)),
        with_names=lambda q, x: If(q == end, new.names(x), s.with_names(q, x)),
        with_pins=lambda q, u, o: If(q == end, new.pins(u, o), s.with_pins(q, u, o)),
        with_soft=lambda q: If(q == end, new.soft, s.with_soft(q)), with_hard=lambda q: If(q == end, new.hard, s.with_hard(q)))


# --- the transition relation, action by action as in model/protocols/destroy.py -----------------------------------------

def may_put(c, s):
    return And(is_current(s), room(s.high, c.MAX_ID))


def may_send(c, s):
    return room(lambda: s.size + s.late, c.MAX_PENDING)


def is_next_of(s, w, x):
    """Say that `x` is the SST that the writer is at."""
    return And(s.maker(x) == w.me, s.made(x) == w.k)


def may_upload(c, w):
    return And(room(w.k, c.WRITES), Not(w.up))


def upload(c, s, w):
    yield may_upload(c, w), (), s.but(ssts=lambda x: Or(is_next_of(s, w, x), s.ssts(x))), w.but(up=True)


def send_upload(c, s, w):
    after = s.but(uploads=lambda x: Or(is_next_of(s, w, x), s.uploads(x)), late=one_more(s.late, c.MAX_PENDING))
    yield And(may_upload(c, w), may_send(c, s)), (), after, w.but(k=w.k + 1)


def may_commit(c, s, w, x):
    unmarked = Not(latest(s).marked) if c.CLAIM_EPOCH else True
    return And(w.up, is_next_of(s, w, x), may_put(c, s), unmarked)


def with_sst(s, x):
    of = latest(s)
    return of.but(names=lambda y: Or(y == x, of.names(y)))


def commit(c, s, w, x: Sst):
    after = put_next(s, with_sst(s, x)).but(wrote=Or(s.wrote, latest(s).marked))
    yield may_commit(c, s, w, x), (), after, w.but(k=w.k + 1, up=False)


def send_commit(c, s, w, x: Sst):
    yield And(may_commit(c, s, w, x), may_send(c, s)), (), send(s, with_sst(s, x)), w.but(k=w.k + 1, up=False)


def abandon(c, s, w):
    yield w.up, (), s, w.but(k=w.k + 1, up=False)


def may_pin(c, s, w, u, i):
    of = latest(s)
    unmarked = Not(of.marked) if c.REFUSE_PINS else True
    source = s.some(Checkpoint, lambda v: of.pins(v, i))
    return And(own(s, w, u), may_put(c, s), room(w.k, c.PINS), Not(listed(s, of, u)), unmarked, Or(i == s.high + 1, source))


def with_pin(s, u, i):
    of = latest(s)
    return of.but(pins=lambda v, o: Or(And(v == u, o == i), of.pins(v, o)))


def pin(c, s, w, u: Checkpoint, i: Id):
    yield may_pin(c, s, w, u, i), (i,), put_next(s, with_pin(s, u, i)), w


def send_pin(c, s, w, u: Checkpoint, i: Id):
    yield And(may_pin(c, s, w, u, i), may_send(c, s)), (i,), send(s, with_pin(s, u, i)), w


def without(s, which):
    of = latest(s)
    return of.but(pins=lambda v, o: And(of.pins(v, o), v != which))


def unpin(c, s, w, which: Checkpoint):
    yield And(is_current(s), listed(s, latest(s), which)), (which,), put_next(s, without(s, which)), w


def send_unpin(c, s, w, which: Checkpoint):
    yield And(is_current(s), listed(s, latest(s), which), may_send(c, s)), (which,), send(s, without(s, which)), w


def go_on(c, s, w):
    yield room(w.k, c.PINS), (), s, w.but(k=w.k + 1)


def may_mark(c, s, w, kind):
    of = latest(s)
    unlike = Not(of.marked) if kind == "Soft" else Not(of.hard)
    unpinned = (free(s, of) if c.CHECK_AND_MARK_IN_ONE_CAS else w.looked) if kind == "Hard" and c.CHECK_PINS else True
    return And(may_put(c, s), room(w.k, c.MARKS), unlike, unpinned)


def marked(s, kind):
    return latest(s).but(soft=kind == "Soft", hard=kind == "Hard")


def marks(c, w):
    return w.but(k=one_more(w.k, c.MARKS), looked=False)


def mark(c, s, w):
    for kind in m.KINDS:
        yield may_mark(c, s, w, kind), (kind,), put_next(s, marked(s, kind)), marks(c, w)


def send_mark(c, s, w):
    for kind in m.KINDS:
        yield And(may_mark(c, s, w, kind), may_send(c, s)), (kind,), send(s, marked(s, kind)), marks(c, w)


def look(c, s, w):
    guard = And(not c.CHECK_AND_MARK_IN_ONE_CAS, Not(w.looked), is_current(s), free(s, latest(s)))
    yield guard, (), s, w.but(looked=True)


def check(c, s, w):
    of = latest(s)
    grace = s.over if c.KEEP_GRACE else True
    may = And(is_current(s), of.marked, grace, Or(of.hard, free(s, of)) if c.CHECK_PINS else True)
    tombstone = And(Not(is_current(s)), s.sealed, c.RESUME)
    yield And(w.checked == 0, Or(may, tombstone)), (), s, w.but(checked=s.high, looked=False)


def seal(c, s, w):
    after = s.but(sealed=True) if c.SEAL else s.but(boundary=w.checked)
    yield And(w.checked > 0, Not(s.gone), Not(is_behind(s, w.checked))), (), after, w


def has_begun(s, w):
    return And(w.checked > 0, is_behind(s, w.checked))


def delete_sst(c, s, w, x: Sst):
    after = s.but(ssts=lambda y: And(s.ssts(y), y != x), early=Or(s.early, Not(s.over)))
    yield And(has_begun(s, w), s.ssts(x)), (x,), after, w


def find_empty(c, s, w):
    yield And(has_begun(s, w), Not(s.some(Sst, s.ssts)), Not(w.empty)), (), s, w.but(empty=True)


def delete_manifest(c, s, w, i: Id):
    top = Not(s.some(Id, lambda j: And(s.present(j), j > i)))
    last = Not(s.some(Id, lambda j: And(s.present(j), j != i)))
    left_behind = And(last, s.some(Sst, lambda x: And(s.names(i, x), s.ssts(x))))
    after = s.but(
        present=lambda j: And(s.present(j), j != i), names=lambda j, x: And(s.names(j, x), j != i),
        pins=lambda j, u, o: And(s.pins(j, u, o), j != i), soft=lambda j: And(s.soft(j), j != i),
        hard=lambda j: And(s.hard(j), j != i), gone=Or(s.gone, last), early=Or(s.early, Not(s.over)),
        orphaned=Or(s.orphaned, left_behind))
    ready = w.empty if c.MANIFEST_LAST else True
    yield And(has_begun(s, w), ready, s.present(i), Or(Not(top), last)), (i,), after, w


def delete_tombstone(c, s, w):
    none = Not(s.some(Id, s.present))
    yield And(not c.KEEP_TOMBSTONE, has_begun(s, w), none), (), s.but(sealed=False, boundary=0), w


def crash(c, s, w):
    after = s.but(crashes=one_more(s.crashes, c.MAX_CRASHES))
    yield And(room(s.crashes, c.MAX_CRASHES), Or(w.checked > 0, w.looked)), (), after, w.but(**OPERATOR)


ROW = ("id", "with_names", "with_pins", "with_soft", "with_hard")


def apply_pending(c, s, _, q: Place):
    def moved_up(old: Callable) -> Callable:
        return lambda p, *xs: If(p < q, old(p, *xs), old(p + 1, *xs))
    done = s.but(size=s.size - 1, **{name: moved_up(getattr(s, name)) for name in ROW})
    guard, i = And(q >= 0, q < s.size), s.id(q)
    lands = And(Not(s.present(i)), Not(is_behind(s, i)))
    yield And(guard, Not(lands)), (q,), done, None
    yield And(guard, lands), (q,), put(done, i, pending(s, q)), None


def apply_upload(c, s, _, x: Sst):
    after = s.but(uploads=lambda y: And(s.uploads(y), y != x), ssts=lambda y: Or(y == x, s.ssts(y)),
                  late=0 if c.MAX_PENDING is None else s.late - 1)
    yield s.uploads(x), (x,), after, None


def end_grace(c, s, _):
    yield And(is_current(s), latest(s).marked, Not(s.over)), (), s.but(over=True), None


ACTIONS = {
    "Writer": {"Upload": upload, "SendUpload": send_upload, "Commit": commit, "SendCommit": send_commit, "Abandon": abandon},
    "Client": {"Pin": pin, "SendPin": send_pin, "Unpin": unpin, "SendUnpin": send_unpin, "GoOn": go_on},
    "Operator": {"Mark": mark, "SendMark": send_mark, "Look": look, "Check": check, "Seal": seal, "DeleteSst": delete_sst,
                 "FindEmpty": find_empty, "DeleteManifest": delete_manifest, "DeleteTombstone": delete_tombstone,
                 "Crash": crash},
    "": {"ApplyPending": apply_pending, "ApplyUpload": apply_upload, "EndGrace": end_grace},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def file_is_known(c, s, i: Id):
    return And(s.high >= 1, Implies(s.present(i), And(i >= 1, i <= s.high)))


def file_has_content(c, s, i: Id, x: Sst, u: Checkpoint, o: Id):
    return Implies(Or(s.names(i, x), s.pins(i, u, o), s.soft(i), s.hard(i)), s.present(i))


def mark_is_one(c, s, i: Id):
    return Not(And(s.soft(i), s.hard(i)))


def latest_is_there(c, s, i: Id):
    return And(s.boundary == 0, Or(s.sealed, Implies(And(i >= 1, i <= s.high), s.present(i))))


def others_go_first(c, s, i: Id):
    return Implies(s.present(i), s.present(s.high))


def sealed_is_over(c, s):
    return Implies(s.sealed, s.over)


def checked_is_over(c, s, w: Operator):
    return Implies(w.checked > 0, s.over)


def sealed_is_free(c, s, u: Checkpoint):
    return Implies(s.sealed, Not(s.held(u)))


def checked_is_free(c, s, w: Operator, u: Checkpoint):
    return Implies(w.checked > 0, Not(s.held(u)))


def is_marked(s):
    return Or(Not(s.present(s.high)), latest(s).marked)


def sealed_is_marked(c, s):
    return Implies(s.sealed, is_marked(s))


def checked_is_marked(c, s, w: Operator):
    return Implies(w.checked > 0, is_marked(s))


def hard_is_free(c, s, u: Checkpoint):
    return Implies(latest(s).hard, Not(s.held(u)))


def hard_is_over(c, s):
    return Implies(latest(s).hard, s.over)


def held_is_listed(c, s, u: Checkpoint):
    return If(s.held(u), And(s.present(s.high), listed(s, latest(s), u)), Not(listed(s, latest(s), u)))


def pin_is_there(c, s, u: Checkpoint, o: Id):
    return Implies(latest(s).pins(u, o), s.present(o))


def named_is_there(c, s, i: Id, x: Sst):
    return Implies(And(Not(s.sealed), s.names(i, x)), s.ssts(x))


def gone_is_sealed(c, s, i: Id):
    return Implies(s.gone, And(s.sealed, Not(s.present(i))))


def empty_is_empty(c, s, w: Operator, i: Id, x: Sst):
    return Implies(w.empty, And(s.sealed, Not(And(s.names(i, x), s.ssts(x)))))


def used(w, x, s):
    return Implies(s.maker(x) == w.me, s.made(x) < w.k)


def name_is_used(c, s, w: Writer, i: Id, x: Sst):
    return Implies(s.names(i, x), used(w, x, s))


def in_flight(s, q):
    return And(q >= 0, q < s.size)


def pending_is_used(c, s, w: Writer, q: Place, x: Sst):
    return Implies(And(in_flight(s, q), s.with_names(q, x)), used(w, x, s))


def upload_is_used(c, s, w: Writer, x: Sst):
    return Implies(s.uploads(x), used(w, x, s))


def upload_is_not_named(c, s, i: Id, x: Sst):
    return Not(And(s.uploads(x), s.names(i, x)))


def upload_is_not_pending(c, s, q: Place, x: Sst):
    return Not(And(in_flight(s, q), s.uploads(x), s.with_names(q, x)))


def ready_is_there(c, s, w: Writer, x: Sst):
    return Implies(And(w.up, is_next_of(s, w, x), Not(s.sealed)), s.ssts(x))


def pending_is_next(c, s, q: Place):
    return Implies(in_flight(s, q), s.id(q) <= s.high + 1)


def pending_is_known(c, s, q: Place):
    return Implies(in_flight(s, q), s.id(q) >= 1)


def is_next(s, q):
    return And(in_flight(s, q), s.id(q) == s.high + 1)


def pending_is_marked(c, s, q: Place):
    of = pending(s, q)
    return Implies(is_next(s, q), And(Not(And(of.soft, of.hard)), Implies(latest(s).marked, of.marked),
                                      Implies(latest(s).hard, of.hard)))


def pending_is_free(c, s, q: Place, u: Checkpoint, o: Id):
    return Implies(And(is_next(s, q), s.with_hard(q)), Not(s.with_pins(q, u, o)))


def pending_is_not_new(c, s, q: Place, u: Checkpoint, o: Id):
    return Implies(And(is_next(s, q), latest(s).marked, s.with_pins(q, u, o)), latest(s).pins(u, o))


def pending_names(c, s, q: Place, u: Checkpoint, o: Id):
    named = s.some(Checkpoint, lambda v: latest(s).pins(v, o))
    return Implies(And(is_next(s, q), s.with_pins(q, u, o)), Or(o == s.high + 1, named))


def pending_is_whole(c, s, q: Place, x: Sst):
    return Implies(And(is_next(s, q), Not(s.sealed), s.with_names(q, x)), s.ssts(x))


# --- the properties, as the model states them ------------------------------------------------------------------------------

def destroy_respects_pins(c, s, u: Checkpoint, o: Id):
    there = And(s.present(o), s.every(Sst, lambda x: Implies(s.names(o, x), s.ssts(x))))
    return And(Implies(s.held(u), s.present(s.high)), Implies(latest(s).pins(u, o), there))


def destroyed_stays_destroyed(c, s, i: Id):
    return Not(And(s.gone, s.present(i)))


def manifest_last(c, s):
    return Not(s.orphaned)


def grace_is_kept(c, s):
    return Not(s.early)


def nothing_is_written_after_the_mark(c, s):
    return Not(s.wrote)


PROPERTIES = {
    "DestroyRespectsPins": destroy_respects_pins, "DestroyedStaysDestroyed": destroyed_stays_destroyed,
    "ManifestLast": manifest_last, "GraceIsKept": grace_is_kept,
    "NothingIsWrittenAfterTheMark": nothing_is_written_after_the_mark,
}
CLAUSES = {
    "FileIsKnown": file_is_known, "FileHasContent": file_has_content, "MarkIsOne": mark_is_one,
    "LatestIsThere": latest_is_there, "OthersGoFirst": others_go_first, "SealedIsOver": sealed_is_over,
    "CheckedIsOver": checked_is_over, "SealedIsFree": sealed_is_free, "CheckedIsFree": checked_is_free,
    "SealedIsMarked": sealed_is_marked, "CheckedIsMarked": checked_is_marked, "HardIsFree": hard_is_free,
    "HardIsOver": hard_is_over, "HeldIsListed": held_is_listed, "PinIsThere": pin_is_there, "NamedIsThere": named_is_there,
    "GoneIsSealed": gone_is_sealed, "EmptyIsEmpty": empty_is_empty, "NameIsUsed": name_is_used,
    "PendingIsUsed": pending_is_used, "UploadIsUsed": upload_is_used, "UploadIsNotNamed": upload_is_not_named,
    "UploadIsNotPending": upload_is_not_pending, "ReadyIsThere": ready_is_there, "PendingIsNext": pending_is_next,
    "PendingIsKnown": pending_is_known, "PendingIsMarked": pending_is_marked, "PendingIsFree": pending_is_free,
    "PendingIsNotNew": pending_is_not_new, "PendingNames": pending_names, "PendingIsWhole": pending_is_whole,
    "ManifestLast": manifest_last, "GraceIsKept": grace_is_kept,
    "NothingIsWrittenAfterTheMark": nothing_is_written_after_the_mark,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def names(pairs: Any) -> frozenset:
    return frozenset((i, x) for i, one in pairs for x in one.ssts)


def pins(pairs: Any) -> frozenset:
    return frozenset((i, u, o) for i, one in pairs for u, o in one.pins)


def of_mark(pairs: Any, kind: str) -> frozenset:
    return frozenset(i for i, one in pairs if one.mark == kind)


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables
    files = [(i, one) for i, one in enumerate(value.files, 1) if one is not None]
    pool = [(q, one) for q, (_, one) in enumerate(value.pool)]
    del tables["files"], tables["pool"]
    return tables | {
        "high": len(value.files), "present": frozenset(i for i, _ in files), "names": names(files), "pins": pins(files),
        "soft": of_mark(files, "Soft"), "hard": of_mark(files, "Hard"), "size": len(pool), "late": len(value.uploads),
        "id": defaultdict(int, ((q, i) for q, (i, _) in enumerate(value.pool))), "with_names": names(pool),
        "with_pins": pins(pool), "with_soft": of_mark(pool, "Soft"), "with_hard": of_mark(pool, "Hard")}


def manifest(t: Tables, prefix: str, i: int) -> m.Manifest:
    mark = "Soft" if i in t[f"{prefix}soft"] else "Hard" if i in t[f"{prefix}hard"] else ""
    return m.Manifest(frozenset(x for j, x in t[f"{prefix}names"] if j == i),
                      frozenset((u, o) for j, u, o in t[f"{prefix}pins"] if j == i), mark)


def write(role: str, t: Tables) -> Any:
    if role:
        return {"Writer": m.Writer, "Client": m.Client, "Operator": m.Operator}[role](**t)
    files = tuple(manifest(t, "", i) if i in t["present"] else None for i in range(1, t["high"] + 1))
    pool = tuple((t["id"][q], manifest(t, "with_", q)) for q in range(t["size"]))
    return m.Shared(files, t["ssts"], pool, t["uploads"], t["boundary"], t["sealed"], t["over"], t["crashes"], t["held"],
                    t["gone"], t["early"], t["orphaned"], t["wrote"])


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded. An unpin goes beyond MAX_ID."""
    return {Id: [*range(c.MAX_ID + c.CLIENTS * c.PINS + 1)], Place: [*range(c.MAX_PENDING + 1)],
            Count: [*range(max(c.WRITES, c.PINS, c.MARKS, c.MAX_PENDING, c.MAX_CRASHES) + 1)],
            Checkpoint: [(w, k) for w in range(c.CLIENTS) for k in range(c.PINS)],
            Sst: [(w, k) for w in range(c.WRITERS) for k in range(c.WRITES)], Writer: [*range(c.WRITERS)],
            Client: [*range(c.CLIENTS)], Operator: [*range(c.OPERATORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(MAX_ID=2, MAX_PENDING=1)) | {Id: [0, 1, 2, 3, 4]}
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write)
UNBOUNDED = dict.fromkeys(("WRITES", "PINS", "MARKS", "MAX_ID", "MAX_PENDING", "MAX_CRASHES"))
LIVENESS = {"RESUME"}  # a safeguard of `eventually` properties alone
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "CLIENTS", "OPERATORS", *UNBOUNDED, *LIVENESS}
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
# The systems that are proved, each separately.
SYSTEMS = {"": {}}
# Instances for the tie that together take every action.
INSTANCES = (
    {"MAX_ID": 3, "MARKS": 1}, {"MAX_ID": 3, "MARKS": 1, "MAX_CRASHES": 1, "WRITERS": 0},
    {"MAX_ID": 2, "MARKS": 1, "MAX_PENDING": 1}, {"MAX_ID": 3, "MARKS": 1, "CHECK_AND_MARK_IN_ONE_CAS": False, "WRITERS": 0},
    {"MAX_ID": 3, "MARKS": 1, "KEEP_TOMBSTONE": False, "CLIENTS": 0},
)
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 2, "WRITES": 2, "CLIENTS": 2, "PINS": 2, "OPERATORS": 2, "MAX_ID": 7, "MAX_PENDING": 1, "MAX_CRASHES": 1}
WALKS, STEPS = 4, 30


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms, frozenset({"Operator.Look", "Operator.DeleteTombstone"}))
