"""Safety, for any number of appenders, readers, collectors, entries, ids and requests in flight: every `always` property of
model/protocols/log_gc.py, by an inductive invariant, action by action.

The invariant. Let high be the number of ids ever written, and first what was first written under each: the history.

The store
- FirstIsOne: one entry was first under each id from 1 to high, EntryIsOnce: and that under no other.
- BoundaryIsMonotone. BoundaryIsBehindEnd: 0 <= boundary <= high, and where the last entry of a listing is kept, below high
  once there is one. BoundaryIsBehindSnapshot: some snapshot is at or ahead of it.
- EntryIsWritten: 1 <= i <= high for every entry i. DeletedIsBehindBoundary: every id above the boundary, up to high, has its
  entry; EntryIsFirst: and it is the first. So an id can be written a second time only at or behind the boundary.
- SnapshotIsTrue: the snapshot of id i holds the first entries 1 .. i, and 1 <= i <= high. So it follows from its id.
- AckedIsFirst: an acknowledged entry is the first of its id. So AppendIsUnique.
An appender
- AppenderKnowsIds: 0 <= n <= high, and what it created is at most high.
- AcceptedIsFirst: what it created ahead of the boundary is the first of its id.
- EntryIsFresh: an entry that it has not begun is nowhere in first; the one that it is at, only where it created it.
A reader. It is to be trusted when it is done, or while its snapshot is at or ahead of the boundary: then no entry after
that snapshot has been deleted.
- ReaderKnowsIds: its snapshot, what it has got and what it must have are at most high.
- GotIsTrue: if it is to be trusted, it has got the first entries, in their order.
- EndIsTrue: if it has come to the end, too, it has got all that it must have.
A collector
- ListedIsWritten: 1 <= i <= high for what it listed. OldIsHeld: what may go is held by the snapshot that it listed, and, where
  the last entry of a listing is kept, below high. SnapshotIsKept: that snapshot, or a later one, is there.
- KnownIsDurable: the boundary that it knows is at most the boundary.
A request in flight, which may be applied at any time
- PendingCreateIsNext: 1 <= id <= high+1. PendingIsOne: it puts one entry; PendingIsFresh: which is nowhere in first,
  PendingIsOnce: nor in flight otherwise; PendingIsBegun: nor still to be begun.
- PendingSnapshotIsTrue, as of snapshots. PendingAdvanceIsHeld: as of what may go; it is forward. PendingDeleteIsFree: the id is
  at or behind the boundary. PendingSnapshotIsOld: there is a later snapshot than the one that is to be deleted.

Snapshots need no boundary: to delete one is harmless because there is a later, and to put one again because it is true.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import authored, larger, nothing, one_more, own, room, same, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import log_gc as m

Id = NewType("Id", int)  # of an entry or a snapshot; and a place in a state, from 1
Count = NewType("Count", int)
Entry = NewType("Entry", object)
Request = NewType("Request", object)  # in flight, nobody waits for it
Appender, Reader, Collector = NewType("Appender", View), NewType("Reader", View), NewType("Collector", View)

ROLES = {"Appender": Appender, "Reader": Reader, "Collector": Collector}

FIELDS = {
    "": {
        "high": (Id,), "first": (Id, Entry, bool), "present": (Id, bool), "holds": (Id, Entry, bool),
        "snap": (Id, bool), "snap_holds": (Id, Id, Entry, bool), "snaps": (Id,),  # snaps: the largest id of a snapshot ever
        "boundary": (Id,), "lost": (Count,), "crashes": (Count,),
        "kind": (Request, Literal["None", "Create", "Snapshot", "Advance", "Delete", "DeleteSnapshot"]),
        "id": (Request, Id), "over": (Request, Id),  # of an Advance: the boundary to be, and the one that it replaces
        "with_holds": (Request, Id, Entry, bool),  # of a Create, at the place of its id; of a Snapshot
        "acked": (Id, Entry, bool), "peak": (Id,),
    },
    "Appender": {"pc": (Literal["Idle", "Listed", "Ready", "Prechecked", "Created"],), "n": (Id,), "k": (Count,)},
    "Reader": {
        "pc": (Literal["Idle", "Listed", "Reading", "Ended", "Done"],), "s": (Id,),
        "got_holds": (Id, Entry, bool), "got_size": (Id,), "must": (Id,),
    },
    "Collector": {"pc": (Literal["Idle", "Listed", "Ready", "Known"],), "listed": (Id, bool), "s": (Id,), "b": (Id,)},
}
RIGID = {"author": (Entry, Appender), "number": (Entry, Count)}


APPENDER = {"pc": "Idle", "n": 0, "k": 0}
READER = {"pc": "Idle", "s": 0, "got_holds": nothing, "got_size": 0, "must": 0}
COLLECTOR = {"pc": "Idle", "listed": nothing, "s": 0, "b": 0}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"high": 0, "first": nothing, "present": nothing, "holds": nothing, "snap": nothing, "snap_holds": nothing,
              "snaps": 0, "boundary": 0, "lost": 0, "crashes": 0, "kind": lambda r: "None", "id": zero, "over": zero,
              "with_holds": nothing, "acked": nothing, "peak": 0}
    return {"": shared, "Appender": APPENDER, "Reader": READER, "Collector": COLLECTOR}


# --- the transition relation, action by action as in model/protocols/log_gc.py
# ----------------------------------------------------

def bounded_gc(c: m.Constants) -> bool:
    return c.GC == "boundary"


def checks(c: m.Constants) -> str:
    return c.CHECK if bounded_gc(c) else "off"


def idle(a: View, k: Any) -> View:
    return a.but(**{**APPENDER, "k": k})


def appender_list(c, s, a):
    yield (And(at(a.pc, "Idle"), room(a.k, c.ENTRIES)), (),
           s, a.but(pc="Listed" if c.END == "boundary" else "Ready", n=s.greatest(Id, s.present)))


def appender_read_boundary(c, s, a):
    yield And(c.END == "boundary", at(a.pc, "Listed")), (), s, a.but(pc="Ready", n=larger(a.n, s.boundary))


def precheck(c, s, a):
    yield And(checks(c) == "before", at(a.pc, "Ready"), a.n + 1 > s.boundary), (), s, a.but(pc="Prechecked")


def precheck_reject(c, s, a):
    yield And(checks(c) == "before", at(a.pc, "Ready"), a.n + 1 <= s.boundary), (), s, idle(a, a.k)


def about_to_create(c, a):
    return And(at(a.pc, "Prechecked" if checks(c) == "before" else "Ready"), room(a.n, c.MAX_ID))


def created(s, i, is_entry):
    """Return the changes of a create of `is_entry` at id i; it becomes the first of i if there was none."""
    fresh = i > s.high
    return s.but(
        high=larger(i, s.high), present=lambda j: Or(j == i, s.present(j)),
        holds=lambda j, u: If(j == i, is_entry(u), s.holds(j, u)),
        first=lambda j, u: If(And(j == i, fresh), is_entry(u), s.first(j, u)))


def appended(c, guard, s, a):
    after = s.but(acked=lambda i, u: Or(s.acked(i, u), And(i == a.n + 1, own(s, a, u))))
    more = room(a.k + 1, c.ENTRIES)
    yield And(guard, more), (), after, a.but(pc="Ready", n=a.n + 1, k=a.k + 1)
    yield And(guard, Not(more)), (), after, idle(a, a.k + 1)


def create_next(c, s, a):
    guard = And(about_to_create(c, a), Not(s.present(a.n + 1)))
    after = created(s, a.n + 1, lambda u: own(s, a, u))
    if checks(c) == "after":
        yield guard, (), after, a.but(pc="Created")
    else:
        yield from appended(c, guard, after, a)


def create_conflict(c, s, a):
    yield And(about_to_create(c, a), s.present(a.n + 1)), (), s, a.but(pc="Ready", n=a.n + 1)


def accept(c, s, a):
    yield from appended(c, And(checks(c) == "after", at(a.pc, "Created"), a.n + 1 > s.boundary), s, a)


def reject(c, s, a):
    yield (And(checks(c) == "after", at(a.pc, "Created"), a.n + 1 <= s.boundary), (),
           s, idle(a, a.k if c.REAPPEND else a.k + 1))


def sent(c, s, r, kind, **fields):
    """Return the guard that `r` is unused, and the shared state with `r` in flight."""
    guard = And(at(s.kind(r), "None"), room(lambda: s.count(Request, lambda q: Not(at(s.kind(q), "None"))), c.MAX_PENDING))

    def put(field, value):
        if callable(value):
            return lambda q, p, u: If(q == r, value(p, u), getattr(s, field)(q, p, u))
        return lambda q: If(q == r, value, getattr(s, field)(q))
    return guard, s.but(**{field: put(field, value) for field, value in {"kind": kind, **fields}.items()})


def send_create(c, s, a, r: Request):
    unused, after = sent(c, s, r, "Create", id=a.n + 1, with_holds=lambda p, u: And(p == a.n + 1, own(s, a, u)))
    yield And(about_to_create(c, a), unused), (), after, idle(a, a.k + 1)


def appender_lose_reply(c, s, a):
    yield (And(Not(at(a.pc, "Idle")), room(s.lost, c.MAX_LOST)), (), s.but(lost=one_more(s.lost, c.MAX_LOST)),
           idle(a, If(at(a.pc, "Created"), a.k + 1, a.k)))


def appender_crash(c, s, a):
    yield (And(Not(at(a.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), idle(a, a.k + 1))


def reader_list_snapshots(c, s, r):
    last = s.greatest(Id, s.snap)
    must = s.greatest(Id, lambda i: Or(i == r.must, i == r.got_size, s.some(Entry, lambda u: s.acked(i, u))))
    guard, after = at(r.pc, "Idle", "Done"), {"s": last, "got_holds": nothing, "got_size": 0, "must": must}
    yield And(guard, last > 0), (), s, r.but(pc="Listed", **after)
    yield And(guard, Not(last > 0)), (), s, r.but(pc="Reading", **after)


def read_snapshot(c, s, r):
    yield (And(at(r.pc, "Listed"), s.snap(r.s)), (),
           s, r.but(pc="Reading", got_holds=lambda p, u: s.snap_holds(r.s, p, u), got_size=r.s))


def again(r, must):
    return r.but(**{**READER, "must": must})


def snapshot_missing(c, s, r):
    yield And(at(r.pc, "Listed"), Not(s.snap(r.s))), (), s, again(r, r.must)


def read_next(c, s, r):
    i = r.got_size + 1
    yield And(at(r.pc, "Reading"), s.present(i)), (), s, r.but(
        got_holds=lambda p, u: If(p == i, s.holds(i, u), r.got_holds(p, u)), got_size=i)


def read_end(c, s, r):
    yield (And(at(r.pc, "Reading"), Not(s.present(r.got_size + 1))), (),
           s, r.but(pc="Ended" if bounded_gc(c) and c.CHECK_READS else "Done"))


def read_accept(c, s, r):
    yield And(bounded_gc(c) and c.CHECK_READS, at(r.pc, "Ended"), r.s >= s.boundary), (), s, r.but(pc="Done")


def read_reject(c, s, r):
    yield And(bounded_gc(c) and c.CHECK_READS, at(r.pc, "Ended"), r.s < s.boundary), (), s, again(r, r.must)


def with_snapshot(s, i, holds):
    return s.but(snap=lambda j: Or(j == i, s.snap(j)), snaps=larger(i, s.snaps),
                 snap_holds=lambda j, p, u: If(j == i, holds(p, u), s.snap_holds(j, p, u)))


def has_more(r):
    return And(at(r.pc, "Done"), r.got_size > r.s)


def create_snapshot(c, s, r):
    yield (And(has_more(r), Not(s.snap(r.got_size))), (),
           with_snapshot(s, r.got_size, lambda p, u: r.got_holds(p, u)), r.but(s=r.got_size))


def snapshot_conflict(c, s, r):
    yield And(has_more(r), s.snap(r.got_size)), (), s, r.but(s=r.got_size)


def send_snapshot(c, s, r, q: Request):
    unused, after = sent(c, s, q, "Snapshot", id=r.got_size, with_holds=lambda p, u: r.got_holds(p, u))
    yield And(has_more(r), unused), (), after, again(r, larger(r.must, r.got_size))


def reader_lose_reply(c, s, r):
    yield (And(Not(at(r.pc, "Idle", "Done")), room(s.lost, c.MAX_LOST)), (), s.but(lost=one_more(s.lost, c.MAX_LOST)),
           again(r, r.must))


def reader_crash(c, s, r):
    yield (And(Not(at(r.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), again(r, 0))


def collector_list(c, s, g):
    yield s.some(Id, s.present), (), s, g.but(pc="Listed", listed=s.present, s=0, b=0)


def rest(s, guard, g, listed, last):
    """Yield (guard, state) of a collector for its remaining work; it is Idle if nothing is left."""
    more = Or(last > 1, s.some(Id, listed))
    yield And(guard, more), g.but(listed=listed, s=last)
    yield And(guard, Not(more)), g.but(**COLLECTOR)


def collector_list_snapshots(c, s, g):
    last = s.greatest(Id, s.snap)

    def old(i):
        return And(g.listed(i), Or(not c.SNAPSHOT_FIRST, i <= last),
                   not c.KEEP_LATEST or s.some(Id, lambda j: And(g.listed(j), i < j)))
    for guard, after in rest(s, at(g.pc, "Listed"), g.but(pc="Ready", b=0), old, last):
        yield guard, (), s, after


def collector_read_boundary(c, s, g):
    yield And(bounded_gc(c), at(g.pc, "Ready"), s.some(Id, g.listed)), (), s, g.but(pc="Known", b=s.boundary)


def advanced(s, d):
    return s.but(boundary=d, peak=larger(d, s.peak))


def known(c, g):
    return And(bounded_gc(c), at(g.pc, "Known"))


def advance(c, s, g, d: Id):
    current = Or(not c.CONDITIONAL_ADVANCE, s.boundary == g.b)
    yield And(known(c, g), current, g.listed(d), d > g.b), (d,), advanced(s, d), g.but(b=d)


def advance_conflict(c, s, g):
    ahead = s.some(Id, lambda d: And(g.listed(d), d > g.b))
    yield And(known(c, g), c.CONDITIONAL_ADVANCE, s.boundary != g.b, ahead), (), s, g.but(pc="Ready", b=0)


def may_delete(c, g, i):
    first = bounded_gc(c) and c.BOUNDARY_FIRST
    return And(g.listed(i), Or(at(g.pc, "Known"), And(not first, at(g.pc, "Ready"))), Or(not first, i <= g.b))


def without(s, guard, g, i):
    yield from rest(s, guard, g, lambda j: And(g.listed(j), j != i), g.s)


def deleted(s, i):
    return s.but(present=lambda j: And(s.present(j), j != i))


def delete(c, s, g, i: Id):
    for guard, own_after in without(s, may_delete(c, g, i), g, i):
        yield guard, (i,), deleted(s, i), own_after


def may_delete_snapshot(c, g, i):
    return And(at(g.pc, "Ready", "Known"), i >= 1, i < g.s if c.KEEP_SNAPSHOT else i <= g.s)


def snapshot_deleted(s, i):
    return s.but(snap=lambda j: And(s.snap(j), j != i))


def delete_snapshot(c, s, g, i: Id):
    yield may_delete_snapshot(c, g, i), (i,), snapshot_deleted(s, i), g


def send_advance(c, s, g, d: Id, r: Request):
    unused, after = sent(c, s, r, "Advance", id=d, over=g.b)
    yield And(known(c, g), g.listed(d), d > g.b, unused), (d,), after, g.but(pc="Ready", b=0)


def send_delete(c, s, g, i: Id, r: Request):
    unused, after = sent(c, s, r, "Delete", id=i)
    for guard, own_after in without(s, And(may_delete(c, g, i), unused), g, i):
        yield guard, (i,), after, own_after


def send_delete_snapshot(c, s, g, i: Id, r: Request):
    unused, after = sent(c, s, r, "DeleteSnapshot", id=i)
    yield And(may_delete_snapshot(c, g, i), unused), (i,), after, g


def collector_lose_reply(c, s, g):
    guard, after = room(s.lost, c.MAX_LOST), s.but(lost=one_more(s.lost, c.MAX_LOST))
    yield And(at(g.pc, "Known"), guard), (), after, g.but(pc="Ready", b=0)
    yield And(at(g.pc, "Listed"), guard), (), after, g.but(**COLLECTOR)


def collector_crash(c, s, g):
    yield (And(Not(at(g.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), g.but(**COLLECTOR))


def apply_pending(c, s, _, r: Request):
    i, current = s.id(r), Or(not c.CONDITIONAL_ADVANCE, s.boundary == s.over(r))
    creates, writes, advances = (at(s.kind(r), kind) for kind in ("Create", "Snapshot", "Advance"))
    done = s.but(kind=lambda q: If(q == r, "None", s.kind(q)))
    yield And(creates, Not(s.present(i))), (r,), created(done, i, lambda u: s.with_holds(r, i, u)), None
    yield And(creates, s.present(i)), (r,), done, None
    yield And(writes, Not(s.snap(i))), (r,), with_snapshot(done, i, lambda p, u: s.with_holds(r, p, u)), None
    yield And(writes, s.snap(i)), (r,), done, None
    yield And(advances, current), (r,), advanced(done, i), None
    yield And(advances, Not(current)), (r,), done, None
    yield at(s.kind(r), "Delete"), (r,), deleted(done, i), None
    yield at(s.kind(r), "DeleteSnapshot"), (r,), snapshot_deleted(done, i), None


ACTIONS = {
    "Appender": {
        "List": appender_list, "ReadBoundary": appender_read_boundary, "Precheck": precheck,
        "PrecheckReject": precheck_reject, "CreateNext": create_next, "CreateConflict": create_conflict,
        "Accept": accept, "Reject": reject, "SendCreate": send_create, "LoseReply": appender_lose_reply,
        "Crash": appender_crash,
    },
    "Reader": {
        "ListSnapshots": reader_list_snapshots, "ReadSnapshot": read_snapshot, "SnapshotMissing": snapshot_missing,
        "ReadNext": read_next, "ReadEnd": read_end, "ReadAccept": read_accept, "ReadReject": read_reject,
        "CreateSnapshot": create_snapshot, "SnapshotConflict": snapshot_conflict, "SendSnapshot": send_snapshot,
        "LoseReply": reader_lose_reply, "Crash": reader_crash,
    },
    "Collector": {
        "List": collector_list, "ListSnapshots": collector_list_snapshots, "ReadBoundary": collector_read_boundary,
        "Advance": advance, "AdvanceConflict": advance_conflict, "Delete": delete, "DeleteSnapshot": delete_snapshot,
        "SendAdvance": send_advance, "SendDelete": send_delete, "SendDeleteSnapshot": send_delete_snapshot,
        "LoseReply": collector_lose_reply, "Crash": collector_crash,
    },
    "": {"ApplyPending": apply_pending},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def held(s, i):
    """Say that some snapshot is at or ahead of `i`."""
    return s.some(Id, lambda j: And(s.snap(j), j >= i))


def below_end(c, s, i):
    """Say that `i` is below the end of the log, as for the entries that a collector may treat as old."""
    return i < s.high if c.KEEP_LATEST else i <= s.high


def first_is_one(c, s, i: Id, u: Entry, v: Entry):
    return Implies(s.first(i, u), And(i >= 1, i <= s.high, s.first(i, v) == same(s, u, v)))


def entry_is_once(c, s, p: Id, q: Id, u: Entry):
    return Implies(And(s.first(p, u), s.first(q, u)), p == q)


def boundary_is_monotone(c, s):
    return s.boundary == s.peak


def boundary_is_behind_end(c, s):
    return And(s.high >= 0, s.boundary >= 0, Or(s.boundary == 0, below_end(c, s, s.boundary)))


def boundary_is_behind_snapshot(c, s):
    return Or(s.boundary <= 0, held(s, s.boundary))


def entry_is_written(c, s, i: Id):
    return Implies(s.present(i), And(i >= 1, i <= s.high))


def deleted_is_behind_boundary(c, s, i: Id):
    return Implies(And(bounded_gc(c), i >= 1, s.boundary < i, i <= s.high), s.present(i))


def entry_is_first(c, s, i: Id, u: Entry):
    return Implies(And(s.present(i), s.boundary < i), s.holds(i, u) == s.first(i, u))


def snapshot_is_true(c, s, i: Id, p: Id, u: Entry):
    true = s.snap_holds(i, p, u) == And(p >= 1, p <= i, s.first(p, u))
    return Implies(s.snap(i), And(i >= 1, i <= s.high, true))


def acked_is_first(c, s, i: Id, u: Entry):
    return Implies(s.acked(i, u), s.first(i, u))


def appender_knows_ids(c, s, a: Appender):
    return And(a.n >= 0, If(at(a.pc, "Created"), a.n + 1, a.n) <= s.high)


def accepted_is_first(c, s, a: Appender, u: Entry):
    return Implies(And(at(a.pc, "Created"), a.n + 1 > s.boundary, own(s, a, u)), s.first(a.n + 1, u))


def entry_is_fresh(c, s, a: Appender, p: Id, u: Entry):
    there = And(s.author(u) == a.me, s.number(u) >= a.k, s.first(p, u))
    return Implies(there, And(at(a.pc, "Created"), s.number(u) == a.k, p == a.n + 1))


def reader_knows_ids(c, s, r: Reader):
    within = And(r.s >= 0, r.s <= s.high, r.got_size >= 0, r.got_size <= s.high, r.must >= 0, r.must <= s.high)
    return And(within, Implies(at(r.pc, "Reading", "Ended", "Done"), r.s <= r.got_size), Implies(at(r.pc, "Listed"), r.s >= 1))


def got_is_true(c, s, r: Reader, p: Id, u: Entry):
    trusted = Or(at(r.pc, "Done"), And(at(r.pc, "Reading", "Ended"), r.s >= s.boundary))
    return Implies(trusted, r.got_holds(p, u) == And(p >= 1, p <= r.got_size, s.first(p, u)))


def end_is_true(c, s, r: Reader):
    return Implies(Or(at(r.pc, "Done"), And(at(r.pc, "Ended"), r.s >= s.boundary)), r.must <= r.got_size)


def listed_is_written(c, s, g: Collector, i: Id):
    return Implies(g.listed(i), And(i >= 1, i <= s.high))


def old_is_held(c, s, g: Collector, i: Id):
    return Implies(And(at(g.pc, "Ready", "Known"), g.listed(i)), And(i <= g.s, below_end(c, s, i)))


def snapshot_is_kept(c, s, g: Collector):
    return Or(g.s <= 0, held(s, g.s))


def known_is_durable(c, s, g: Collector):
    return And(g.b >= 0, g.b <= s.boundary)


def creates(s, r, u):
    """Say that the request puts the entry `u`."""
    return And(at(s.kind(r), "Create"), s.with_holds(r, s.id(r), u))


def pending_create_is_next(c, s, r: Request):
    return Implies(at(s.kind(r), "Create"), And(s.id(r) >= 1, s.id(r) <= s.high + 1))


def pending_is_one(c, s, r: Request, u: Entry, v: Entry):
    return Implies(creates(s, r, u), s.with_holds(r, s.id(r), v) == same(s, u, v))


def pending_is_fresh(c, s, r: Request, p: Id, u: Entry):
    return Implies(creates(s, r, u), Not(s.first(p, u)))


def pending_is_once(c, s, r: Request, q: Request, u: Entry):
    return Implies(And(creates(s, r, u), creates(s, q, u)), r == q)


def pending_is_begun(c, s, a: Appender, r: Request, u: Entry):
    return Implies(And(creates(s, r, u), s.author(u) == a.me), s.number(u) < a.k)


def pending_snapshot_is_true(c, s, r: Request, p: Id, u: Entry):
    i = s.id(r)
    true = s.with_holds(r, p, u) == And(p >= 1, p <= i, s.first(p, u))
    return Implies(at(s.kind(r), "Snapshot"), And(i >= 1, i <= s.high, true))


def pending_advance_is_held(c, s, r: Request):
    i = s.id(r)
    return Implies(at(s.kind(r), "Advance"), And(s.over(r) >= 0, s.over(r) < i, below_end(c, s, i), held(s, i)))


def pending_delete_is_free(c, s, r: Request):
    return Implies(at(s.kind(r), "Delete"), And(s.id(r) >= 1, s.id(r) <= s.boundary))


def pending_snapshot_is_old(c, s, r: Request):
    return Implies(at(s.kind(r), "DeleteSnapshot"), held(s, s.id(r) + 1))


CLAUSES = {
    "FirstIsOne": first_is_one, "EntryIsOnce": entry_is_once, "BoundaryIsMonotone": boundary_is_monotone,
    "BoundaryIsBehindEnd": boundary_is_behind_end, "BoundaryIsBehindSnapshot": boundary_is_behind_snapshot,
    "EntryIsWritten": entry_is_written, "DeletedIsBehindBoundary": deleted_is_behind_boundary,
    "EntryIsFirst": entry_is_first, "SnapshotIsTrue": snapshot_is_true, "AckedIsFirst": acked_is_first,
    "AppenderKnowsIds": appender_knows_ids, "AcceptedIsFirst": accepted_is_first, "EntryIsFresh": entry_is_fresh,
    "ReaderKnowsIds": reader_knows_ids, "GotIsTrue": got_is_true, "EndIsTrue": end_is_true,
    "ListedIsWritten": listed_is_written, "OldIsHeld": old_is_held, "SnapshotIsKept": snapshot_is_kept,
    "KnownIsDurable": known_is_durable, "PendingCreateIsNext": pending_create_is_next, "PendingIsOne": pending_is_one,
    "PendingIsFresh": pending_is_fresh, "PendingIsOnce": pending_is_once, "PendingIsBegun": pending_is_begun,
    "PendingSnapshotIsTrue": pending_snapshot_is_true, "PendingAdvanceIsHeld": pending_advance_is_held,
    "PendingDeleteIsFree": pending_delete_is_free, "PendingSnapshotIsOld": pending_snapshot_is_old,
}


# --- the properties, as the model states them: of the latest snapshot that is there ---------------------------------------

def is_top(s, i):
    """Say that `i` is the latest snapshot, 0 if there is none."""
    return And(Or(i == 0, s.snap(i)), s.every(Id, lambda j: Implies(s.snap(j), j <= i)))


def in_history(s, top, p):
    """Say that `p` is a place of the history."""
    return And(p >= 1, Or(p <= top, s.every(Id, lambda q: Implies(And(q > top, q <= p), s.present(q)))))


def history(s, top, p, u):
    """Say that the history has this entry at this place."""
    return And(in_history(s, top, p), If(p <= top, s.snap_holds(top, p, u), s.holds(p, u)))


def append_is_unique(c, s, i: Id, u: Entry, v: Entry):
    return Implies(And(s.acked(i, u), s.acked(i, v)), same(s, u, v))


def acked_is_kept(c, s, top: Id, i: Id, u: Entry):
    return Implies(And(is_top(s, top), s.acked(i, u)), history(s, top, i, u))


def history_only_grows(c, s, top: Id, p: Id, u: Entry):
    place = in_history(s, top, p) == And(p >= 1, p <= s.high)
    return Implies(is_top(s, top), And(place, Implies(in_history(s, top, p), history(s, top, p, u) == s.first(p, u))))


def history_is_once(c, s, top: Id, p: Id, q: Id, u: Entry):
    return Implies(And(is_top(s, top), history(s, top, p, u), history(s, top, q, u)), p == q)


def end_is_known(c, s, i: Id):
    end = And(c.END == "boundary", s.boundary == s.high)
    return And(Implies(s.present(i), i <= s.high), Or(c.END != "boundary", s.boundary <= s.high),
               Or(s.high == 0, s.present(s.high), end))


def read_is_a_prefix(c, s, r: Reader, top: Id, p: Id, u: Entry):
    there = And(at(r.pc, "Done"), is_top(s, top), p >= 1, p <= r.got_size)
    return Implies(there, And(in_history(s, top, p), r.got_holds(p, u) == history(s, top, p, u)))


def read_is_current(c, s, r: Reader):
    return Implies(at(r.pc, "Done"), r.must <= r.got_size)


PROPERTIES = {
    "AppendIsUnique": append_is_unique, "AckedIsKept": acked_is_kept, "HistoryOnlyGrows": history_only_grows,
    "EntryIsOnce": history_is_once, "BoundaryIsMonotone": boundary_is_monotone,
    "BoundaryIsBehindSnapshot": boundary_is_behind_snapshot, "DeletedIsBehindBoundary": deleted_is_behind_boundary,
    "EndIsKnown": end_is_known, "ReadIsAPrefix": read_is_a_prefix, "ReadIsCurrent": read_is_current,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def places(state: m.State) -> frozenset:
    return frozenset(enumerate(state, 1))


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Reader":
        return tables | {"got_holds": places(value.got), "got_size": len(value.got)}
    if role:
        return tables
    there = [(i, one) for i, one in enumerate(value.snapshots, 1) if one]
    pool = [*enumerate(value.pool)]
    carried = {"Create": lambda i, entry: [(i, entry)], "Snapshot": lambda i, state: places(state)}
    return tables | {
        "high": len(value.first), "first": places(value.first),
        "present": frozenset(i for i, entry in enumerate(value.log, 1) if entry),
        "holds": frozenset((i, entry) for i, entry in enumerate(value.log, 1) if entry),
        "snap": frozenset(i for i, _ in there), "snaps": len(value.snapshots),
        "snap_holds": frozenset((i, p, u) for i, one in there for p, u in places(one)),
        "kind": defaultdict(lambda: "None", ((r, request[0]) for r, request in pool)),
        "id": defaultdict(int, ((r, request[2 if request[0] == "Advance" else 1]) for r, request in pool)),
        "over": defaultdict(int, ((r, request[1]) for r, request in pool if request[0] == "Advance")),
        "with_holds": frozenset((r, p, u) for r, request in pool if request[0] in carried
                                for p, u in carried[request[0]](*request[1:])),
        "acked": frozenset((i, (w, k)) for i, w, k in value.acked)}


def state_of(pairs: Any) -> m.State:
    return tuple(u for _, u in sorted(pairs))


def write(role: str, t: Tables) -> Any:
    if role == "Reader":
        return m.Reader(t["pc"], t["s"], state_of(t["got_holds"]), t["must"])
    if role:
        return {"Appender": m.Appender, "Collector": m.Collector}[role](**t)
    first = defaultdict(lambda: (0, 0), t["first"])  # where the clauses do not say what an entry holds, any content will do
    entries = first | dict(t["holds"])
    ids, acked = range(1, t["high"] + 1), frozenset((i, w, k) for i, (w, k) in t["acked"])
    snapshots = tuple(state_of((p, u) for j, p, u in t["snap_holds"] if j == i) if i in t["snap"] else ()
                      for i in range(1, t["snaps"] + 1))
    pool = sorted(request(t, r) for r, kind in t["kind"].items() if kind != "None")
    log = tuple(entries[i] if i in t["present"] else () for i in ids)
    return m.Shared(log, snapshots, t["boundary"], tuple(pool), t["lost"], t["crashes"], tuple(first[i] for i in ids), acked,
                    t["peak"])


def request(t: Tables, r: int) -> tuple:
    kind, i = t["kind"][r], t["id"][r]
    carried = state_of((p, u) for q, p, u in t["with_holds"] if q == r)
    if kind == "Create":
        return kind, i, *carried
    return (kind, i, carried) if kind == "Snapshot" else (kind, t["over"][r], i) if kind == "Advance" else (kind, i)


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    return (request(shared, *chosen),) if action == "ApplyPending" else chosen


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    return {Id: [*range(c.MAX_ID + 1)], Count: [*range(max(c.ENTRIES, c.MAX_LOST, c.MAX_CRASHES) + 1)],
            Entry: [(w, k) for w in range(c.APPENDERS) for k in range(c.ENTRIES)], Request: [*range(c.MAX_PENDING)],
            Appender: [*range(c.APPENDERS)], Reader: [*range(c.READERS)], Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(MAX_PENDING=1)) | {Count: [0, 1]}
SYSTEM = System(FIELDS, ROLES, RIGID, authored, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("ENTRIES", "MAX_ID", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
SAFEGUARDS = {*m.Constants._fields} - {"APPENDERS", "READERS", "COLLECTORS", *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"GC": "min_age"}, {"CHECK": "off"}, {"CHECK": "before"}, {"BOUNDARY_FIRST": False}, {"CONDITIONAL_ADVANCE": False},
    {"SNAPSHOT_FIRST": False}, {"KEEP_LATEST": False}, {"KEEP_SNAPSHOT": False}, {"CHECK_READS": False}, {"REAPPEND": True},
)
# The systems that are proved, each separately.
SYSTEMS = {"": {}, " where the last entry may go, too": {"keep_latest": False}}
# Instances for the tie that together take every action.
INSTANCES = (
    {"APPENDERS": 1, "ENTRIES": 2, "MAX_LOST": 1}, {"MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary", "MAX_CRASHES": 1},
    {"APPENDERS": 1, "MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary", "COLLECTORS": 2},
    {"APPENDERS": 1, "MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary", "MAX_PENDING": 1},
    {"APPENDERS": 1, "ENTRIES": 2, "COLLECTORS": 0, "MAX_PENDING": 1}, {},
)
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"APPENDERS": 3, "ENTRIES": 3, "READERS": 2, "COLLECTORS": 2, "MAX_ID": 6, "MAX_PENDING": 1, "MAX_LOST": 1,
          "MAX_CRASHES": 1}
WALKS, STEPS = 8, 80


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, keep_latest: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction. Without `keep_latest` the last entry may be deleted, and appenders ask the boundary for the end. If Z3 finds no
    state that enables an action, within its budget, a reachable one of a small instance serves: all clauses hold there."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    c = c if keep_latest else c._replace(KEEP_LATEST=False, END="boundary")
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
