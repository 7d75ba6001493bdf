"""Safety, for any number of clients, checkpoints, compactors, SSTs, collectors, manifests and requests in flight: every
`always` property of model/protocols/checkpoints.py, by an inductive invariant, action by action.

The invariant. Let high be the id of the latest manifest, and let a manifest be named if a checkpoint that is listed there names
it. What is named or is the latest is in use.

The store
- LatestIsThere: the latest manifest is there. FileIsKnown: 1 <= i <= high for every manifest i, and FileHasContent: only a
  manifest that is there names SSTs.
- NamedIsThere: a manifest that is named is there. NamedIsWhole, LatestIsWhole: the SSTs of what is in use are there.
- NothingIsUnreferencedTwice: an update names nothing new but itself. So what is not in use now is not in use later.
- CheckpointOnce: a checkpoint is listed once. LeaseIsHonoured: what is held is listed. EndedIsNotHeld.
- SstIsFresh: an SST that its compactor has not added is not in the store, NameIsFresh: nor named by a manifest, DeadIsFresh:
  nor condemned, PendingIsFresh: nor in flight.
A collector
- OldIsOld: what it has condemned is behind the latest manifest, OldIsFree: and is not named. DeadIsNotLatest, DeadIsFree: an
  SST that it has condemned is in nothing that is in use.
A request in flight, which creates the next manifest if its id is still the next one
- PendingIsNext: it asks for high + 1 at most. If it asks for high + 1:
- PendingNames: it names itself and what is named now. PendingIsNew: its SSTs are those of the latest manifest, and one that is
  not in the store. PendingIsAlive: none of them is condemned. PendingIsOnce: it lists a checkpoint once.

No clause speaks of time: a lease may end at any moment, and a collector may delete what it has condemned at any later one.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import nothing, one_more, own, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import checkpoints as m

Id = NewType("Id", int)  # of a manifest
Count = NewType("Count", int)
Place = NewType("Place", int)  # in the pool, from 0
Checkpoint = NewType("Checkpoint", object)
Sst = NewType("Sst", object)
Client, Compactor, Collector = NewType("Client", View), NewType("Compactor", View), NewType("Collector", View)

ROLES = {"Client": Client, "Compactor": Compactor, "Collector": Collector}
FIELDS = {
    "": {
        "high": (Id,), "present": (Id, bool), "names": (Id, Sst, bool),
        "forever": (Id, Checkpoint, Id, bool), "leased": (Id, Checkpoint, Id, bool),  # entries without a lease, and with one
        "ssts": (Sst, bool), "ended": (Checkpoint, bool),
        "size": (Place,), "id": (Place, Id), "with_names": (Place, Sst, bool),
        "with_forever": (Place, Checkpoint, Id, bool), "with_leased": (Place, Checkpoint, Id, bool),
        "lost": (Count,), "held": (Checkpoint, bool), "revived": (bool,), "taken": (Checkpoint, Id, bool),
    },
    "Client": {
        "pc": (Literal["Idle", "Asked"],), "k": (Count,), "kind": (Literal["None", "Create", "Refresh", "Delete"],),
        "about": (Checkpoint, bool), "done": (bool,), "found": (Id,),
    },
    "Compactor": {"k": (Count,)},
    "Collector": {"old": (Id, bool), "dead": (Sst, bool)},
}
RIGID = {"author": (Checkpoint, Client), "number": (Checkpoint, Count), "maker": (Sst, Compactor), "made": (Sst, Count)}


def meaning(_: Any) -> dict:
    return {"author": lambda u: u[0], "number": lambda u: u[1], "maker": lambda x: x[0], "made": lambda x: x[1]}


CLIENT = {"pc": "Idle", "k": 0, "kind": "None", "about": nothing, "done": False, "found": 0}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"high": 1, "present": lambda i: i == 1, "names": nothing, "forever": nothing, "leased": nothing, "ssts": nothing,
              "ended": nothing, "size": 0, "id": zero, "with_names": nothing, "with_forever": nothing, "with_leased": nothing,
              "lost": 0, "held": nothing, "revived": False, "taken": nothing}
    return {"": shared, "Client": CLIENT, "Compactor": {"k": 0}, "Collector": {"old": nothing, "dead": nothing}}


# --- manifests

class Content:
    """A manifest: its SSTs, and its checkpoints without a lease, and with one, each with the manifest that it names."""

    def __init__(self, names: Callable, forever: Callable, leased: Callable):
        self.names, self.forever, self.leased = names, forever, leased

    def lists(self, u: Any, o: Any) -> Any:
        return Or(self.forever(u, o), self.leased(u, o))


def file(s: View, i: Any) -> Content:
    return Content(lambda x: s.names(i, x), lambda u, o: s.forever(i, u, o), lambda u, o: s.leased(i, u, o))


def latest(s: View) -> Content:
    return file(s, s.high)


def listed(s: View, of: Content, u: Any) -> Any:
    """Say that some entry of the manifest has this id."""
    return s.some(Id, lambda o: of.lists(u, o))


def named(s: View, of: Content, o: Any) -> Any:
    """Say that some checkpoint of the manifest names `o`."""
    return s.some(Checkpoint, lambda u: of.lists(u, o))


def put(s: View, new: Content) -> View:
    base, i = latest(s), s.high + 1
    revived = s.some(Checkpoint, lambda u: s.some(Id, lambda o: And(
        new.lists(u, o), o != i, o != s.high, Not(named(s, base, o)))))
    return s.but(
        high=i, present=lambda j: Or(j == i, s.present(j)), names=lambda j, x: If(j == i, new.names(x), s.names(j, x)),
        forever=lambda j, u, o: If(j == i, new.forever(u, o), s.forever(j, u, o)),
        leased=lambda j, u, o: If(j == i, new.leased(u, o), s.leased(j, u, o)),
        ssts=lambda x: Or(s.ssts(x), And(new.names(x), Not(base.names(x)))), revived=Or(s.revived, revived))


def send(s: View, new: Content) -> View:
    end = s.size
    return s.but(
        size=end + 1, id=lambda q: If(q == end, s.high + 1, s.id(q)),
        with_names=lambda q, x: If(q == end, new.names(x), s.with_names(q, x)),
        with_forever=lambda q, u, o: If(q == end, new.forever(u, o), s.with_forever(q, u, o)),
        with_leased=lambda q, u, o: If(q == end, new.leased(u, o), s.with_leased(q, u, o)))


def may_send(c, s):
    return room(s.size, c.MAX_PENDING)


# --- the transition relation, action by action as in model/protocols/checkpoints.py -------------------------------------

def may_ask(c, s, w, kind, which):
    again = And(at(w.pc, "Asked"), at(w.kind, kind), w.about(which), room(s.lost, c.MAX_LOST))
    return And(room(s.high, c.MAX_ID), Or(again, And(at(w.pc, "Idle"), room(w.k, c.OPS))))


def may_create(c, s, w, u):
    unseen = Not(listed(s, latest(s), u)) if c.RECOGNISE else True
    return And(own(s, w, u), may_ask(c, s, w, "Create", u), unseen)


def asked(c, s, w, kind, which, applied):
    lost = s.lost if c.MAX_LOST is None else If(at(w.pc, "Asked"), s.lost + 1, s.lost)
    return s.but(lost=lost), w.but(pc="Asked", kind=kind, about=lambda v: v == which, done=Or(w.done, applied), found=0)


def with_entry(of, which, manifest, finite):
    def entry(u, o):
        return And(u == which, o == manifest)
    return Content(of.names, lambda u, o: Or(of.forever(u, o), And(not finite, entry(u, o))),
                   lambda u, o: Or(of.leased(u, o), And(finite, entry(u, o))))


def without(of, gone):
    return Content(of.names, lambda u, o: And(of.forever(u, o), Not(gone(u))), lambda u, o: And(of.leased(u, o), Not(gone(u))))


def refreshed(c, s, which, finite):
    of = latest(s)
    back = False if c.REFRESH_NEEDS_ENTRY else Not(listed(s, of, which))  # it is listed again

    def renewed(kept, has):
        def entries(u, o):
            again = And(has, back, s.taken(which, o))
            return If(u == which, Or(And(has, of.lists(u, o)), again), kept(u, o))
        return entries
    return Content(of.names, renewed(of.forever, not finite), renewed(of.leased, finite))


def holding(s, which, of=None):
    """Return the state in which the checkpoint is held: its lease runs."""
    after = s.but(held=lambda u: Or(u == which, s.held(u)), ended=lambda u: And(s.ended(u), u != which))
    return after if of is None else after.but(taken=lambda u, o: Or(s.taken(u, o), And(u == which, o == of)))


def created(c, s, w, u, of, finite):
    after = holding(put(s, with_entry(latest(s), u, of, finite)), u, None if c.REFRESH_NEEDS_ENTRY else of)
    return asked(c, after, w, "Create", u, True)


def sent_create(c, s, w, u, of, finite):
    return asked(c, send(s, with_entry(latest(s), u, of, finite)), w, "Create", u, False)


def running(s, v, of, leased):
    """Say that this entry is listed, and has not ended."""
    return And((latest(s).leased if leased else latest(s).forever)(v, of), Not(s.ended(v)))


def sources(c, s, w, v, of):
    """Yield (guard, choice, manifest) of each source from which the client may create."""
    if not c.SOURCE_IN_SAME_CAS:
        yield And(w.found > 0, of == w.found), (of,)
        return
    for leased in (False, True):
        yield running(s, v, of, leased), (v, of, leased)


def create(c, s, w, u: Checkpoint):
    for finite in (False, True):
        yield may_create(c, s, w, u), (finite,), *created(c, s, w, u, s.high + 1, finite)


def create_from(c, s, w, u: Checkpoint, v: Checkpoint, of: Id):
    for finite in (False, True):
        for guard, source in sources(c, s, w, v, of):
            yield And(may_create(c, s, w, u), guard), (finite, *source), *created(c, s, w, u, of, finite)


def may_refresh(c, s, w, which):
    if c.REFRESH_NEEDS_ENTRY:
        there = And(listed(s, latest(s), which), Not(s.ended(which)))
    else:
        there = s.some(Id, lambda o: s.taken(which, o))
    return And(there, may_ask(c, s, w, "Refresh", which))


def refresh(c, s, w, which: Checkpoint):
    for finite in (False, True):
        after = holding(put(s, refreshed(c, s, which, finite)), which)
        yield may_refresh(c, s, w, which), (finite, which), *asked(c, after, w, "Refresh", which, True)


def may_delete(c, s, w, which):
    return And(listed(s, latest(s), which), may_ask(c, s, w, "Delete", which))


def delete(c, s, w, which: Checkpoint):
    after = put(s, without(latest(s), lambda u: u == which))
    after = after.but(held=lambda u: And(s.held(u), u != which), ended=lambda u: And(s.ended(u), u != which))
    yield may_delete(c, s, w, which), (which,), *asked(c, after, w, "Delete", which, True)


def send_create(c, s, w, u: Checkpoint):
    for finite in (False, True):
        yield And(may_create(c, s, w, u), may_send(c, s)), (finite,), *sent_create(c, s, w, u, s.high + 1, finite)


def send_create_from(c, s, w, u: Checkpoint, v: Checkpoint, of: Id):
    for finite in (False, True):
        for guard, source in sources(c, s, w, v, of):
            yield (And(may_create(c, s, w, u), may_send(c, s), guard), (finite, *source),
                   *sent_create(c, s, w, u, of, finite))


def send_refresh(c, s, w, which: Checkpoint):
    for finite in (False, True):
        yield (And(may_refresh(c, s, w, which), may_send(c, s)), (finite, which),
               *asked(c, send(s, refreshed(c, s, which, finite)), w, "Refresh", which, False))


def send_delete(c, s, w, which: Checkpoint):
    sent = send(s, without(latest(s), lambda u: u == which))
    yield And(may_delete(c, s, w, which), may_send(c, s)), (which,), *asked(c, sent, w, "Delete", which, False)


def find_source(c, s, w, v: Checkpoint, of: Id):
    guard = And(not c.SOURCE_IN_SAME_CAS, at(w.pc, "Idle"), room(w.k, c.OPS), w.found == 0)
    for leased in (False, True):
        yield And(guard, running(s, v, of, leased)), (v, of, leased), s, w.but(found=of)


def finished(w):
    return w.but(**{**CLIENT, "k": w.k + 1})


def reply(c, s, w):
    yield And(at(w.pc, "Asked"), w.done), (), s, finished(w)


def give_up(c, s, w):
    yield at(w.pc, "Asked"), (), s, finished(w)


def may_add(c, s, w, new):
    return And(s.maker(new) == w.me, s.made(new) == w.k, room(w.k, c.SSTS), room(s.high, c.MAX_ID))


def added(s, new, old=None):
    of = latest(s)
    kept = of.names if old is None else lambda x: And(of.names(x), x != old)
    return Content(lambda x: Or(x == new, kept(x)), of.forever, of.leased)


def flush(c, s, w, new: Sst):
    yield may_add(c, s, w, new), (), put(s, added(s, new)), w.but(k=w.k + 1)


def replace(c, s, w, old: Sst, new: Sst):
    yield And(may_add(c, s, w, new), latest(s).names(old)), (old,), put(s, added(s, new, old)), w.but(k=w.k + 1)


def abandon(c, s, w):
    yield (And(room(w.k, c.SSTS), room(s.lost, c.MAX_LOST)), (), s.but(lost=one_more(s.lost, c.MAX_LOST)),
           w.but(k=w.k + 1))


def send_flush(c, s, w, new: Sst):
    yield And(may_add(c, s, w, new), may_send(c, s)), (), send(s, added(s, new)), w.but(k=w.k + 1)


def send_replace(c, s, w, old: Sst, new: Sst):
    yield (And(may_add(c, s, w, new), may_send(c, s), latest(s).names(old)), (old,),
           send(s, added(s, new, old)), w.but(k=w.k + 1))


def drop(c, s, g):
    def gone(u):
        there = s.some(Id, lambda o: latest(s).leased(u, o))
        return And(there, Or(s.ended(u), not c.SKEW_MARGIN))
    after = put(s, without(latest(s), gone))
    yield s.some(Checkpoint, gone), (), after.but(ended=lambda u: And(s.ended(u), Not(gone(u)))), g


def spared(c, s, i):
    if not c.SPARE_CHECKPOINTED:
        return False
    return s.some(Checkpoint, lambda u: And(latest(s).lists(u, i), Or(c.DROP_EXPIRED_FIRST, Not(s.ended(u)))))


def condemn(c, s, g):
    def old(i):
        return And(i >= 1, i < s.high, s.present(i), Not(spared(c, s, i)))

    def alive(x):
        in_latest = latest(s).names(x) if c.SPARE_LATEST else False
        in_named = s.some(Id, lambda i: And(spared(c, s, i), s.present(i), s.names(i, x))) if c.SPARE_SSTS else False
        return Or(in_latest, in_named)

    def dead(x):
        return And(s.ssts(x), Not(alive(x)))
    more = Or(s.some(Id, lambda i: And(old(i), Not(g.old(i)))), s.some(Sst, lambda x: And(dead(x), Not(g.dead(x)))))
    yield more, (), s, g.but(old=lambda i: Or(g.old(i), old(i)), dead=lambda x: Or(g.dead(x), dead(x)))


def delete_manifest(c, s, g, i: Id):
    after = s.but(
        present=lambda j: And(s.present(j), j != i), names=lambda j, x: And(s.names(j, x), j != i),
        forever=lambda j, u, o: And(s.forever(j, u, o), j != i), leased=lambda j, u, o: And(s.leased(j, u, o), j != i))
    yield g.old(i), (i,), after, g.but(old=lambda j: And(g.old(j), j != i))


def delete_sst(c, s, g, x: Sst):
    yield g.dead(x), (x,), s.but(ssts=lambda y: And(s.ssts(y), y != x)), g.but(dead=lambda y: And(g.dead(y), y != x))


ROW = ("id", "with_names", "with_forever", "with_leased")


def pending(s, q):
    return Content(lambda x: s.with_names(q, x), lambda u, o: s.with_forever(q, u, o), lambda u, o: s.with_leased(q, u, o))


def apply_pending(c, s, _, q: Place):
    def moved_up(old: Callable) -> Callable:
        return lambda p, *xs: If(p < q, old(p, *xs), old(p + 1, *xs))
    done = s.but(size=s.size - 1, **{name: moved_up(getattr(s, name)) for name in ROW})
    guard, new = And(q >= 0, q < s.size), pending(s, q)
    yield And(guard, s.id(q) != s.high + 1), (q,), done, None
    after = put(done, new).but(held=lambda u: listed(s, new, u), ended=nothing)
    if not c.REFRESH_NEEDS_ENTRY:
        after = after.but(taken=lambda u, o: Or(s.taken(u, o), new.lists(u, o)))
    yield And(guard, s.id(q) == s.high + 1), (q,), after, None


def end_lease(c, s, _, which: Checkpoint):
    there = s.some(Id, lambda o: latest(s).leased(which, o))
    yield (And(there, Not(s.ended(which))), (which,),
           s.but(ended=lambda u: Or(u == which, s.ended(u)), held=lambda u: And(s.held(u), u != which)), None)


ACTIONS = {
    "Client": {
        "Create": create, "CreateFrom": create_from, "Refresh": refresh, "Delete": delete, "SendCreate": send_create,
        "SendCreateFrom": send_create_from, "SendRefresh": send_refresh, "SendDelete": send_delete, "FindSource": find_source,
        "Reply": reply, "GiveUp": give_up,
    },
    "Compactor": {"Flush": flush, "Replace": replace, "Abandon": abandon, "SendFlush": send_flush,
                  "SendReplace": send_replace},
    "Collector": {"Drop": drop, "Condemn": condemn, "DeleteManifest": delete_manifest, "DeleteSst": delete_sst},
    "": {"ApplyPending": apply_pending, "EndLease": end_lease},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def latest_is_there(c, s):
    return And(s.high >= 1, s.present(s.high))


def file_is_known(c, s, i: Id):
    return Implies(s.present(i), And(i >= 1, i <= s.high))


def file_has_content(c, s, i: Id, x: Sst):
    return Implies(s.names(i, x), s.present(i))


def named_is_there(c, s, u: Checkpoint, o: Id):
    return Implies(latest(s).lists(u, o), s.present(o))


def named_is_whole(c, s, u: Checkpoint, o: Id, x: Sst):
    return Implies(And(latest(s).lists(u, o), s.names(o, x)), s.ssts(x))


def latest_is_whole(c, s, x: Sst):
    return Implies(latest(s).names(x), s.ssts(x))


def nothing_is_unreferenced_twice(c, s):
    return Not(s.revived)


def once(of, u, o, p):
    return Implies(And(of.lists(u, o), of.lists(u, p)), And(o == p, Not(And(of.forever(u, o), of.leased(u, o)))))


def checkpoint_once(c, s, u: Checkpoint, o: Id, p: Id):
    return once(latest(s), u, o, p)


def lease_is_honoured(c, s, u: Checkpoint):
    return Implies(s.held(u), listed(s, latest(s), u))


def ended_is_not_held(c, s, u: Checkpoint):
    return Not(And(s.ended(u), s.held(u)))


def unmade(s, w, x):
    return And(s.maker(x) == w.me, s.made(x) >= w.k)


def sst_is_fresh(c, s, w: Compactor, x: Sst):
    return Implies(unmade(s, w, x), Not(s.ssts(x)))


def name_is_fresh(c, s, w: Compactor, i: Id, x: Sst):
    return Implies(unmade(s, w, x), Not(s.names(i, x)))


def dead_is_fresh(c, s, w: Compactor, g: Collector, x: Sst):
    return Implies(unmade(s, w, x), Not(g.dead(x)))


def in_flight(s, q):
    return And(q >= 0, q < s.size)


def pending_is_fresh(c, s, w: Compactor, q: Place, x: Sst):
    return Implies(And(in_flight(s, q), unmade(s, w, x)), Not(s.with_names(q, x)))


def old_is_old(c, s, g: Collector, i: Id):
    return Implies(g.old(i), And(i >= 1, i < s.high))


def old_is_free(c, s, g: Collector, i: Id, u: Checkpoint):
    return Implies(g.old(i), Not(latest(s).lists(u, i)))


def dead_is_not_latest(c, s, g: Collector, x: Sst):
    return Implies(g.dead(x), Not(latest(s).names(x)))


def dead_is_free(c, s, g: Collector, x: Sst, u: Checkpoint, o: Id):
    return Implies(And(g.dead(x), latest(s).lists(u, o)), Not(s.names(o, x)))


def pending_is_next(c, s, q: Place):
    return Implies(in_flight(s, q), s.id(q) <= s.high + 1)


def is_next(s, q):
    return And(in_flight(s, q), s.id(q) == s.high + 1)


def pending_names(c, s, q: Place, u: Checkpoint, o: Id):
    return Implies(And(is_next(s, q), pending(s, q).lists(u, o)), Or(o == s.high + 1, named(s, latest(s), o)))


def pending_is_new(c, s, q: Place, x: Sst):
    return Implies(And(is_next(s, q), s.with_names(q, x)), Or(latest(s).names(x), Not(s.ssts(x))))


def pending_is_alive(c, s, g: Collector, q: Place, x: Sst):
    return Implies(And(is_next(s, q), s.with_names(q, x)), Not(g.dead(x)))


def pending_is_once(c, s, q: Place, u: Checkpoint, o: Id, p: Id):
    return Implies(is_next(s, q), once(pending(s, q), u, o, p))


CLAUSES = {
    "LatestIsThere": latest_is_there, "FileIsKnown": file_is_known, "FileHasContent": file_has_content,
    "NamedIsThere": named_is_there, "NamedIsWhole": named_is_whole, "LatestIsWhole": latest_is_whole,
    "NothingIsUnreferencedTwice": nothing_is_unreferenced_twice, "CheckpointOnce": checkpoint_once,
    "LeaseIsHonoured": lease_is_honoured, "EndedIsNotHeld": ended_is_not_held, "SstIsFresh": sst_is_fresh,
    "NameIsFresh": name_is_fresh, "DeadIsFresh": dead_is_fresh, "PendingIsFresh": pending_is_fresh, "OldIsOld": old_is_old,
    "OldIsFree": old_is_free, "DeadIsNotLatest": dead_is_not_latest, "DeadIsFree": dead_is_free,
    "PendingIsNext": pending_is_next, "PendingNames": pending_names, "PendingIsNew": pending_is_new,
    "PendingIsAlive": pending_is_alive, "PendingIsOnce": pending_is_once,
}


# --- the properties, as the model states them ------------------------------------------------------------------------------

def checkpoint_pins(c, s, u: Checkpoint, o: Id):
    return Implies(latest(s).lists(u, o), And(s.present(o), s.every(Sst, lambda x: Implies(s.names(o, x), s.ssts(x)))))


PROPERTIES = {
    "CheckpointPins": checkpoint_pins, "LatestIsWhole": latest_is_whole,
    "NothingIsUnreferencedTwice": nothing_is_unreferenced_twice, "CheckpointOnce": checkpoint_once,
    "LeaseIsHonoured": lease_is_honoured,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def entries(pairs: Any, finite: bool) -> frozenset:
    """Return the entries of numbered manifests with a lease, or without one."""
    return frozenset((i, u, o) for i, file in pairs for u, o, leased in file.checkpoints if leased is finite)


def names(pairs: Any) -> frozenset:
    return frozenset((i, x) for i, file in pairs for x in file.ssts)


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Client":
        kind, about = value.op or ("None", None)
        del tables["op"]
        return tables | {"kind": kind, "about": frozenset() if about is None else frozenset({about})}
    if role:
        return tables
    files = [(i, one) for i, one in enumerate(value.files, 1) if one is not None]
    pool = [(q, one) for q, (_, one) in enumerate(value.pool)]
    del tables["files"], tables["pool"]
    return tables | {
        "high": len(value.files), "present": frozenset(i for i, _ in files), "names": names(files),
        "forever": entries(files, False), "leased": entries(files, True), "size": len(pool),
        "id": defaultdict(int, ((q, i) for q, (i, _) in enumerate(value.pool))), "with_names": names(pool),
        "with_forever": entries(pool, False), "with_leased": entries(pool, True)}


def manifest(t: Tables, prefix: str, i: int) -> m.Manifest:
    kinds = ((False, t[f"{prefix}forever"]), (True, t[f"{prefix}leased"]))
    return m.Manifest(frozenset(x for j, x in t[f"{prefix}names"] if j == i),
                      frozenset((u, o, finite) for finite, those in kinds for j, u, o in those if j == i))


def write(role: str, t: Tables) -> Any:
    if role == "Client":
        op = (t["kind"], *t["about"]) if t["kind"] != "None" else ()
        return m.Client(t["pc"], t["k"], op, t["done"], t["found"])
    if role:
        return {"Compactor": m.Compactor, "Collector": m.Collector}[role](**t)
    files = tuple(manifest(t, "", i) if i in t["present"] else None for i in range(1, t["high"] + 1))
    pool = tuple((t["id"][q], manifest(t, "with_", q)) for q in range(t["size"]))
    return m.Shared(files, t["ssts"], t["ended"], pool, t["lost"], t["held"], t["revived"], t["taken"])


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    """Return the choices of the model's label: of a source it has the entry."""
    if action == "FindSource":
        return (chosen,)
    if not action.endswith("CreateFrom"):
        return chosen
    finite, *source = chosen
    return finite, tuple(source) if len(source) > 1 else ((-1, -1), source[0], False)


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded. Collectors go beyond MAX_ID."""
    return {Id: [*range(c.MAX_ID + c.CLIENTS * c.OPS * (c.COLLECTORS > 0) + 1)], Place: [*range(c.MAX_PENDING + 1)],
            Count: [*range(max(c.OPS, c.SSTS, c.MAX_LOST) + 1)],
            Checkpoint: [(w, k) for w in range(c.CLIENTS) for k in range(c.OPS)],
            Sst: [(w, k) for w in range(c.COMPACTORS) for k in range(c.SSTS)], Client: [*range(c.CLIENTS)],
            Compactor: [*range(c.COMPACTORS)], Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(MAX_ID=2, MAX_PENDING=1)) | {Id: [0, 1, 2, 3, 4]}
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("OPS", "SSTS", "MAX_ID", "MAX_PENDING", "MAX_LOST"))
SAFEGUARDS = {*m.Constants._fields} - {"CLIENTS", "COMPACTORS", "COLLECTORS", *UNBOUNDED}
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
# The systems that are proved, each separately.
SYSTEMS = {"": {}}
# Instances for the tie that together take every action.
INSTANCES = (
    {"OPS": 1, "MAX_ID": 3, "MAX_LOST": 1}, {"MAX_ID": 3, "MAX_LOST": 1, "COLLECTORS": 0, "COMPACTORS": 0},
    {"OPS": 1, "MAX_ID": 2, "MAX_PENDING": 1}, {"MAX_ID": 3, "MAX_PENDING": 1, "COMPACTORS": 0, "COLLECTORS": 0},
    {"MAX_ID": 3, "MAX_PENDING": 1, "CLIENTS": 0}, {"SOURCE_IN_SAME_CAS": False, "MAX_ID": 3, "COMPACTORS": 0, "COLLECTORS": 0},
)
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"CLIENTS": 2, "OPS": 2, "COMPACTORS": 2, "SSTS": 2, "COLLECTORS": 2, "MAX_ID": 6, "MAX_PENDING": 1, "MAX_LOST": 1}
WALKS, STEPS = 4, 30


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms, frozenset({"Client.FindSource"}))
