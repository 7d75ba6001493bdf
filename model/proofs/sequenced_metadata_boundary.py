"""Safety, for any number of writers, collectors, readers, updates, ids, checkpoints and requests in flight: every `always`
property of model/protocols/sequenced_metadata_boundary.py, by an inductive invariant, action by action.

The invariant. Let high be the largest id ever created; the clauses say of it what is true of the latest file.

The store
- BoundaryIsMonotone: the boundary is the largest that ever was. BoundaryIsBelowLatest: 0 <= boundary < high.
- LatestIsKept: file high is there. FileIsCreated: 1 <= i <= high for every file i.
- DeletedIsBehindBoundary: every id above the boundary, up to high, has its file. So an id can be created a second time only
  at or behind the boundary: with AcceptedIsNew and OneMayAccept, this is the whole protocol.
- CommitIsUnique: an id is acknowledged to one update (0, which says that it was recognised, to many). AckedIsCreated: it is at
  most high. AckIsChecked: none without a check.
- AckedIsKept: the latest file has every acknowledged update. HistoryIsKept: and all that a file ahead of the boundary has.
  So no chain over the files is needed: what happens behind the boundary is nobody's business, ahead of it files only come.
- CheckpointedIsKept: the file of a checkpoint that the latest file lists is there, whether the checkpoint has expired or not.
  So no clause speaks of expiry, and it does not matter when a checkpoint is renewed.
- FileKnowsCheckpoints: every file i ahead of the boundary has the checkpoints of the latest file up to i, because a later file
  adds no checkpoint but itself. A file behind the boundary may lack some: its writer may have dropped them in vain.
A writer
- WriterKnowsCreated: it has listed 0 <= n <= high, and created n+1 <= high.
- Ready to create the next latest file (n = high): BaseHasLatest, its base has the updates of the latest file, and
  BaseIsOfLatest, exactly its checkpoints. An older one lands behind the boundary, where no claim is made.
- It may accept if it has created n+1 and n+1 > boundary. Then AcceptedIsNew: n+1 is not acknowledged; OneMayAccept: no other
  writer may accept it; AcceptedIsKept: the latest file has its update. LateIsBehindBoundary: a create that landed at or
  behind the boundary still is there, as the boundary only rises.
- Where it recognises what it has done (ON_REFUSAL): ReadyIsNotApplied, it builds on no file that holds its update, so, by
  AppliedOnce, no file that is made of such a one is put into the history; and AppliedIsKept: while the file in which it found
  its update is ahead of the boundary, the latest has that update, too. Where a refusal is said to be a failure,
  RefusedHasNoEffect: of those that were in time none is behind the boundary. (It does not hold, and so is no claim otherwise.)
- Where it knows its own file for the latest (KNOWN): AcceptedIsOwn, while it may accept it the file is there, as it was put:
  ahead of the boundary nobody deletes it, so nobody puts another in its place. Once accepted it is a base as good as one got.
  (Were it kept though refused, it would be behind the boundary, so not the latest, and its next create refused or a conflict:
  so that is sound, too.)
A collector
- ListedIsCreated: 1 <= i <= high for what it listed. So what it listed before another is below high.
- KnownIsDurable: the boundary that it knows is at most the boundary.
- MarkedIsFree: it has read the checkpoints of the last file that it listed, and has checked that this file is ahead of the
  boundary, or it is still ahead. Then the latest file has no checkpoint of what it may delete, and no later one will.
A request in flight, which may be applied at any time: what its sender knew, in terms that time does not change
- PendingCreateIsNext: 1 <= id <= high+1. If it is high+1, it has the updates of the latest file (PendingHasLatest), and no
  checkpoint but those of the latest file and itself (PendingIsOfLatest).
- PendingAdvanceIsForward: 0 <= the boundary that it replaces < the boundary to be < high.
- PendingDeleteIsFree: the id is at or behind the boundary, and no checkpoint of the latest file.
A reader (must: what the read has to show; got: what it has seen)
- OwedIsKept: the latest file has what it must show. GotIsKept: and what it has seen, unless it is about to discard it.
- While n > boundary, file n cannot have been replaced. So ListedHasOwed: file n has what it must show, and ReadHasOwed: so has
  what it got. ReadIsCurrent: when it is done, too.

If CHECKPOINTS is 0 a collector does not read them. That is another system with its own proof, and three more clauses: no file,
base or request has any. Other bounds only take steps away from the unbounded system, so its proof covers all of them.

Every clause but LatestIsKept, which follows, is necessary. `high` needs no definition by the files, and with it no query
needs induction over them. That a set of ids has a greatest (a listing ends with it) is taken from the sets being finite.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance. To cross-check the explorer, `bounded` unrolls the same
relation for one instance.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import nothing, one_more, room
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import sequenced_metadata_boundary as m

Id = NewType("Id", int)  # of a file
Count = NewType("Count", int)
Update = NewType("Update", object)  # s.update(writer, k)
Request = NewType("Request", object)  # in flight, nobody waits for it
Choice = NewType("Choice", object)  # any set of ids: of the checkpoints that one update drops or renews
Writer, Collector, Reader = NewType("Writer", View), NewType("Collector", View), NewType("Reader", View)

ROLES = {"Writer": Writer, "Collector": Collector, "Reader": Reader}

FIELDS = {
    "": {
        "present": (Id, bool), "updates": (Id, Update, bool), "checkpoints": (Id, Id, bool),  # of the file of that id
        "boundary": (Id,), "expired": (Id, bool), "lost": (Count,), "crashes": (Count,),
        "kind": (Request, Literal["None", "Create", "Advance", "Delete"]),
        "id": (Request, Id), "over": (Request, Id),  # of an Advance: the boundary to be, and the one that it replaces
        "with_updates": (Request, Update, bool), "with_checkpoints": (Request, Id, bool),  # of a Create
        "acked": (Id, Update, bool), "unchecked": (Id, bool), "high": (Id,), "peak": (Id,),
    },
    "Writer": {
        "pc": (Literal["Idle", "Listing", "Listed", "Ready", "Prechecked", "Created", "Applied"],), "n": (Id,),
        "base_updates": (Update, bool), "base_checkpoints": (Id, bool), "k": (Count,), "late": (bool,), "seen": (Id,),
    },
    "Collector": {
        "pc": (Literal["Idle", "Listing", "Listed", "Known"],), "listed": (Id, bool), "marked": (bool,), "checked": (bool,),
        "b": (Id,),
    },
    "Reader": {
        "pc": (Literal["Idle", "Listing", "Listed", "Read", "Done"],), "n": (Id,),
        "must": (Update, bool), "got": (Update, bool),
    },
}
RIGID = {"update": (Writer, Count, Update), "old": (Writer, bool), "chosen": (Choice, Id, bool)}
# old: of a version that does not check


def meaning(c: m.Constants) -> dict:
    return {"update": lambda w, k: (w, k), "old": lambda w: w < c.OLD_WRITERS, "chosen": lambda x, p: p in x}


WRITER = {"pc": "Idle", "n": 0, "base_updates": nothing, "base_checkpoints": nothing, "k": 0, "late": False, "seen": 0}
COLLECTOR = {"pc": "Idle", "listed": nothing, "marked": False, "checked": False, "b": 0}
READER = {"pc": "Idle", "n": 0, "must": nothing, "got": nothing}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {
        "present": lambda i: i == 1, "updates": nothing, "checkpoints": nothing, "boundary": 0, "expired": nothing,
        "lost": 0, "crashes": 0, "kind": lambda r: "None", "id": lambda r: 0, "over": lambda r: 0,
        "with_updates": nothing, "with_checkpoints": nothing, "acked": nothing, "unchecked": nothing, "high": 1, "peak": 0}
    return {"": shared, "Writer": WRITER, "Collector": COLLECTOR, "Reader": READER}


# --- the transition relation, action by action as in model/protocols/sequenced_metadata_boundary.py
# -----------------------------

def checks(c: m.Constants, s: View, w: View, when: str) -> Any:
    return And(c.BOUNDARY, when == c.CHECK, c.OLD_WRITERS == 0 or Not(s.old(w.me)))


def full_page(c: m.Constants, s: View, cursor: Any, end: Any) -> Any:
    """Say that the page after `cursor` ends with the id `end`, and more follow. PAGE None: a page may have any size."""
    size = True if c.PAGE is None else s.count(Id, lambda i: And(s.present(i), cursor < i, i <= end)) == c.PAGE
    more = s.some(Id, lambda i: And(s.present(i), i > end))
    return And(c.PAGE != 0, s.present(end), cursor < end, size, more)


def last_page(c: m.Constants, s: View, cursor: Any) -> Any:
    return True if not c.PAGE else s.count(Id, lambda i: And(s.present(i), cursor < i)) <= c.PAGE


def listed_after(s: View, cursor: Any) -> Any:
    """Return the last id of a listing that ends now, after `cursor`."""
    return s.greatest(Id, lambda i: Or(i == cursor, And(s.present(i), i > cursor)))


def writer_idle(w: View, k: Any) -> View:
    return w.but(**{**WRITER, "k": k, "seen": w.seen})


def holding(c, w, updates, checkpoints):
    """Yield (guard, state) of a writer that knows the file it just put: with another update, and without."""
    more = room(w.k + 1, c.COMMITS)
    yield more, w.but(pc="Ready", n=w.n + 1, base_updates=updates, base_checkpoints=checkpoints, k=w.k + 1, late=False)
    yield Not(more), writer_idle(w, w.k + 1)


def committed(c, w, updates, checkpoints):
    if m.known(c) == "never":
        yield True, writer_idle(w, w.k + 1)
    else:
        yield from holding(c, w, updates, checkpoints)


def writer_list_page(c, s, w, end: Id):
    yield (And(at(w.pc, "Idle", "Listing"), room(w.k, c.COMMITS), full_page(c, s, w.n, end)), (),
           s, w.but(pc="Listing", n=end))


def writer_list(c, s, w):
    guard = And(at(w.pc, "Idle", "Listing"), room(w.k, c.COMMITS), last_page(c, s, w.n))
    yield guard, (), s, w.but(pc="Listed", n=listed_after(s, w.n))


def recognises(c):
    return c.ON_REFUSAL in ("recognised", "unchecked")


def applied(c, s, w):
    return And(recognises(c), s.updates(w.n, s.update(w.me, w.k)))


def read_latest(c, s, w):
    yield (And(at(w.pc, "Listed"), s.present(w.n), Not(applied(c, s, w))), (), s, w.but(
        pc="Ready", base_updates=lambda u: s.updates(w.n, u), base_checkpoints=lambda p: s.checkpoints(w.n, p)))


def read_applied(c, s, w):
    here = And(at(w.pc, "Listed"), s.present(w.n), applied(c, s, w))
    yield And(here, c.ON_REFUSAL == "recognised"), (), s, w.but(pc="Applied")
    yield And(here, c.ON_REFUSAL == "unchecked"), (), recognised(s, w), writer_idle(w, w.k + 1)


def recognised(s, w):
    return s.but(acked=lambda i, u: Or(s.acked(i, u), And(i == 0, u == s.update(w.me, w.k))))


def read_missing(c, s, w):
    yield And(at(w.pc, "Listed"), Not(s.present(w.n))), (), s, w.but(pc="Idle", n=0)


def precheck(c, s, w):
    yield And(at(w.pc, "Ready"), checks(c, s, w, "before"), w.n + 1 > s.boundary), (), s, w.but(pc="Prechecked")


def precheck_reject(c, s, w):
    yield And(at(w.pc, "Ready"), checks(c, s, w, "before"), w.n + 1 <= s.boundary), (), s, writer_idle(w, w.k)


def about_to_create(c, s, w):
    first = checks(c, s, w, "before")
    return And(Or(And(first, at(w.pc, "Prechecked")), And(Not(first), at(w.pc, "Ready"))), room(w.n, c.MAX_ID))


def extended(c, s, w, x):
    """Return the contents that the writer may put next: change of the checkpoints, its guard, updates, checkpoints."""
    none = s.every(Id, lambda p: Not(s.chosen(x, p)))
    listed = s.every(Id, lambda p: Implies(s.chosen(x, p), w.base_checkpoints(p)))
    expired = s.every(Id, lambda p: Implies(s.chosen(x, p), s.expired(p)))
    for change, guard, checkpoints in (
            ("Keep", none, w.base_checkpoints),
            ("Take", And(none, room(lambda: s.count(Id, w.base_checkpoints), c.CHECKPOINTS)),
             lambda p: Or(w.base_checkpoints(p), p == w.n + 1)),
            ("Drop", And(Not(none), listed), lambda p: And(w.base_checkpoints(p), Not(s.chosen(x, p)))),
            ("Renew", And(Not(none), listed, expired, w.n + 1 > s.boundary), w.base_checkpoints)):
        yield change, guard, lambda u: Or(w.base_updates(u), u == s.update(w.me, w.k)), checkpoints


def created(s, i, updates, checkpoints):
    return s.but(
        present=lambda j: Or(j == i, s.present(j)),
        updates=lambda j, u: If(j == i, updates(u), s.updates(j, u)),
        checkpoints=lambda j, p: If(j == i, checkpoints(p), s.checkpoints(j, p)),
        high=If(i > s.high, i, s.high))


def acknowledged(s, w, late):
    return s.but(acked=lambda i, u: Or(s.acked(i, u), And(i == w.n + 1, u == s.update(w.me, w.k))),
                 unchecked=lambda i: Or(s.unchecked(i), And(i == w.n + 1, late)))


def create_next(c, s, w, x: Choice):
    late, checked = w.n + 1 <= s.boundary, checks(c, s, w, "after")
    for change, guard, updates, checkpoints in extended(c, s, w, x):
        here = And(about_to_create(c, s, w), Not(s.present(w.n + 1)), guard)
        after = created(s, w.n + 1, updates, checkpoints)
        if change == "Renew":
            after = after.but(expired=lambda p: And(s.expired(p), Not(s.chosen(x, p))))
        twice = w.base_updates(s.update(w.me, w.k))
        known = {"base_updates": updates, "base_checkpoints": checkpoints} if m.known(c) != "never" else {
            "base_updates": lambda u, twice=twice: And(twice, w.base_updates(u)),
            "base_checkpoints": lambda p, twice=twice: And(twice, w.base_checkpoints(p))}
        yield And(here, checked), (change, x), after, w.but(pc="Created", late=late, **known)
        for more, own in committed(c, w, updates, checkpoints):
            yield And(here, Not(checked), more), (change, x), acknowledged(after, w, late), own


def create_conflict(c, s, w):
    yield And(about_to_create(c, s, w), s.present(w.n + 1)), (), s, writer_idle(w, w.k)


def boundary_seen(c, s, w):
    return s.boundary if c.FRESH_BOUNDARY else If(w.seen == 0, s.boundary, w.seen)


def cached(c, s, w):
    return 0 if c.FRESH_BOUNDARY else boundary_seen(c, s, w)


def accept(c, s, w):
    for more, own in committed(c, w, w.base_updates, w.base_checkpoints):
        yield (And(at(w.pc, "Created"), w.n + 1 > boundary_seen(c, s, w), more), (),
               acknowledged(s, w, w.late), own.but(seen=cached(c, s, w)))


def reject(c, s, w):
    refused = And(at(w.pc, "Created"), w.n + 1 <= boundary_seen(c, s, w))
    if m.known(c) == "created":
        for more, own in holding(c, w, w.base_updates, w.base_checkpoints):
            yield And(refused, more), (), s, own.but(seen=cached(c, s, w))
    else:
        again = recognises(c) or c.ON_REFUSAL == "retried"
        yield refused, (), s, writer_idle(w, w.k if again else w.k + 1).but(seen=cached(c, s, w))


def recognise(c, s, w):
    yield (And(c.ON_REFUSAL == "recognised", at(w.pc, "Applied"), w.n > boundary_seen(c, s, w)), (),
           recognised(s, w), writer_idle(w, w.k + 1).but(seen=cached(c, s, w)))


def recognise_reject(c, s, w):
    yield (And(c.ON_REFUSAL == "recognised", at(w.pc, "Applied"), w.n <= boundary_seen(c, s, w)), (),
           s, writer_idle(w, w.k).but(seen=cached(c, s, w)))


def doubtful(c, w):
    return w.k if recognises(c) else w.k + 1


def in_doubt(c, w, updates, checkpoints):
    if m.known(c) == "unanswered":
        yield from holding(c, w, updates, checkpoints)
    else:
        yield True, writer_idle(w, doubtful(c, w))


def sent(c, s, r, kind, **fields):
    """Return the guard that `r` is unused, and the shared state with `r` in flight."""
    guard = And(at(s.kind(r), "None"), room(lambda: s.count(Request, lambda q: Not(at(s.kind(q), "None"))), c.MAX_PENDING))

    def put(field, value):
        if callable(value):
            return lambda q, x: If(q == r, value(x), getattr(s, field)(q, x))
        return lambda q: If(q == r, value, getattr(s, field)(q))
    return guard, s.but(**{field: put(field, value) for field, value in {"kind": kind, **fields}.items()})


def send_create(c, s, w, x: Choice, r: Request):
    for change, guard, updates, checkpoints in extended(c, s, w, x):
        if change == "Renew":
            continue
        unused, after = sent(c, s, r, "Create", id=w.n + 1, with_updates=updates, with_checkpoints=checkpoints)
        for more, own in in_doubt(c, w, updates, checkpoints):
            yield And(about_to_create(c, s, w), guard, unused, more), (change, x), after, own


def writer_lose_reply(c, s, w):
    may, after = room(s.lost, c.MAX_LOST), s.but(lost=one_more(s.lost, c.MAX_LOST))
    yield And(Not(at(w.pc, "Idle", "Created")), may), (), after, writer_idle(w, w.k)
    for more, own in in_doubt(c, w, w.base_updates, w.base_checkpoints):
        yield And(at(w.pc, "Created"), may, more), (), after, own


def writer_crash(c, s, w):
    yield (And(Or(Not(at(w.pc, "Idle")), w.seen != 0), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)),
           w.but(**{**WRITER, "k": If(at(w.pc, "Idle"), w.k, doubtful(c, w))}))


def collector_listing(c, s, g):
    """Return the ids of a listing so far, and the largest of them; none when the listing begins."""
    def listed(i):
        return And(at(g.pc, "Listing"), g.listed(i))
    return listed, s.greatest(Id, listed)


def collector_list_page(c, s, g, end: Id):
    listed, cursor = collector_listing(c, s, g)
    yield full_page(c, s, cursor, end), (), s, g.but(**{
        **COLLECTOR, "pc": "Listing", "listed": lambda i: Or(listed(i), And(s.present(i), cursor < i, i <= end))})


def collector_list(c, s, g):
    listed, cursor = collector_listing(c, s, g)

    def now(i):
        return Or(listed(i), And(s.present(i), cursor < i))
    two = s.some(Id, lambda i: And(now(i), s.some(Id, lambda j: And(now(j), i < j))))
    free = c.CHECKPOINTS == 0 or not c.SPARE_CHECKPOINTS
    yield And(last_page(c, s, cursor), two), (), s, g.but(pc="Listed", listed=now, marked=free, checked=free, b=0)


def read_checkpoints(c, s, g):
    last = s.greatest(Id, g.listed)

    def spared(i):
        return And(s.checkpoints(last, i), Or(c.SPARE_LISTED, Not(s.expired(i))), i != last)
    yield And(at(g.pc, "Listed", "Known"), Not(g.marked), s.present(last)), (), s, g.but(
        listed=lambda i: And(g.listed(i), Not(spared(i))), marked=True, checked=not (c.BOUNDARY and c.CHECK_READS))


def checkpoints_missing(c, s, g):
    guard = And(at(g.pc, "Listed", "Known"), Not(g.marked), Not(s.present(s.greatest(Id, g.listed))))
    yield guard, (), s, g.but(**COLLECTOR)


def last_is_ahead(s, g):
    return s.some(Id, lambda j: And(g.listed(j), j > s.boundary))


def checkpoints_accept(c, s, g):
    yield And(g.marked, Not(g.checked), last_is_ahead(s, g)), (), s, g.but(checked=True)


def checkpoints_reject(c, s, g):
    yield And(g.marked, Not(g.checked), Not(last_is_ahead(s, g))), (), s, g.but(**COLLECTOR)


def read_boundary(c, s, g):
    yield And(at(g.pc, "Listed"), c.BOUNDARY), (), s, g.but(pc="Known", b=s.boundary)


def is_old(c, s, g, i):
    """Say that the collector may treat `i` as old: it listed `i`, and (KEEP_LATEST) another after it."""
    return And(g.listed(i), not c.KEEP_LATEST or s.some(Id, lambda j: And(g.listed(j), i < j)))


def advanced(s, d):
    return s.but(boundary=d, peak=If(d > s.peak, d, s.peak))


def advance(c, s, g, d: Id):
    current = Or(not c.CONDITIONAL_ADVANCE, s.boundary == g.b)
    yield And(at(g.pc, "Known"), current, d > g.b, is_old(c, s, g, d)), (d,), advanced(s, d), g.but(b=d)


def advance_conflict(c, s, g):
    ahead = s.some(Id, lambda d: And(d > g.b, is_old(c, s, g, d)))
    yield (And(at(g.pc, "Known"), c.CONDITIONAL_ADVANCE, s.boundary != g.b, ahead), (),
           s, g.but(pc="Listed", b=0))


def may_delete(c, s, g, i):
    first = c.BOUNDARY and c.BOUNDARY_FIRST
    return And(g.checked, Or(at(g.pc, "Known"), And(not first, at(g.pc, "Listed"))), Or(not first, i <= g.b),
               is_old(c, s, g, i))


def without(c, s, g, i):
    """Yield (guard, state) of a collector that is done with `i`: with more to delete, and without."""
    more = s.some(Id, lambda j: And(g.listed(j), j != i))
    yield more, g.but(listed=lambda j: And(g.listed(j), j != i))
    yield Not(more), g.but(**COLLECTOR)


def delete(c, s, g, i: Id):
    for guard, after in without(c, s, g, i):
        yield And(may_delete(c, s, g, i), guard), (i,), s.but(present=lambda j: And(s.present(j), j != i)), after


def send_advance(c, s, g, d: Id, r: Request):
    unused, after = sent(c, s, r, "Advance", id=d, over=g.b)
    yield And(at(g.pc, "Known"), d > g.b, is_old(c, s, g, d), unused), (d,), after, g.but(pc="Listed", b=0)


def send_delete(c, s, g, i: Id, r: Request):
    unused, after = sent(c, s, r, "Delete", id=i)
    for guard, own in without(c, s, g, i):
        yield And(may_delete(c, s, g, i), unused, guard), (i,), after, own


def collector_lose_reply(c, s, g):
    after = s.but(lost=one_more(s.lost, c.MAX_LOST))
    yield And(at(g.pc, "Known"), room(s.lost, c.MAX_LOST)), (), after, g.but(pc="Listed", b=0)
    yield And(at(g.pc, "Listing"), room(s.lost, c.MAX_LOST)), (), after, g.but(**COLLECTOR)


def collector_crash(c, s, g):
    yield (And(Not(at(g.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), g.but(**COLLECTOR))


def reader_listing(s, r):
    """Return the cursor of a listing that begins or continues, and the updates that the read must show."""
    begun = at(r.pc, "Listing")

    def must(u):
        return Or(r.must(u), And(Not(begun), Or(r.got(u), s.some(Id, lambda i: s.acked(i, u)))))
    return If(begun, r.n, 0), must


def reader_list_page(c, s, r, end: Id):
    cursor, must = reader_listing(s, r)
    yield (And(at(r.pc, "Idle", "Listing", "Done"), full_page(c, s, cursor, end)), (),
           s, r.but(pc="Listing", n=end, must=must, got=nothing))


def reader_list(c, s, r):
    cursor, must = reader_listing(s, r)
    yield (And(at(r.pc, "Idle", "Listing", "Done"), last_page(c, s, cursor)), (),
           s, r.but(pc="Listed", n=listed_after(s, cursor), must=must, got=nothing))


def reader_read_latest(c, s, r):
    yield (And(at(r.pc, "Listed"), s.present(r.n)), (),
           s, r.but(pc="Read" if c.CHECK_READS else "Done", got=lambda u: s.updates(r.n, u)))


def reader_read_missing(c, s, r):
    yield And(at(r.pc, "Listed"), Not(s.present(r.n))), (), s, r.but(pc="Idle", n=0)


def read_accept(c, s, r):
    yield And(at(r.pc, "Read"), r.n > s.boundary), (), s, r.but(pc="Done")


def read_reject(c, s, r):
    yield And(at(r.pc, "Read"), r.n <= s.boundary), (), s, r.but(pc="Idle", n=0, got=nothing)


def reader_lose_reply(c, s, r):
    yield (And(Not(at(r.pc, "Idle", "Done")), room(s.lost, c.MAX_LOST)), (), s.but(lost=one_more(s.lost, c.MAX_LOST)),
           r.but(**{**READER, "must": r.must}))


def reader_crash(c, s, r):
    yield (And(Not(at(r.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), r.but(**READER))


def apply_pending(c, s, _, r: Request):
    i, current = s.id(r), Or(not c.CONDITIONAL_ADVANCE, s.boundary == s.over(r))
    creates, advances, deletes = (at(s.kind(r), kind) for kind in ("Create", "Advance", "Delete"))
    done = s.but(kind=lambda q: If(q == r, "None", s.kind(q)))
    yield (And(creates, Not(s.present(i))), (r,),
           created(done, i, lambda u: s.with_updates(r, u), lambda p: s.with_checkpoints(r, p)), None)
    yield And(creates, s.present(i)), (r,), done, None
    yield And(advances, current), (r,), advanced(done, i), None
    yield And(advances, Not(current)), (r,), done, None
    yield deletes, (r,), done.but(present=lambda j: And(s.present(j), j != i)), None


def expire_checkpoint(c, s, _, p: Id):
    taken = s.some(Id, lambda i: And(s.present(i), s.checkpoints(i, p)))
    yield And(Not(s.expired(p)), taken), (p,), s.but(expired=lambda q: Or(s.expired(q), q == p)), None


ACTIONS = {
    "Writer": {
        "ListPage": writer_list_page, "List": writer_list, "ReadLatest": read_latest, "ReadApplied": read_applied,
        "ReadMissing": read_missing, "Precheck": precheck, "PrecheckReject": precheck_reject, "CreateNext": create_next,
        "CreateConflict": create_conflict, "Accept": accept, "Reject": reject, "Recognise": recognise,
        "RecogniseReject": recognise_reject,
        "SendCreate": send_create, "LoseReply": writer_lose_reply, "Crash": writer_crash,
    },
    "Collector": {
        "ListPage": collector_list_page, "List": collector_list, "ReadCheckpoints": read_checkpoints,
        "CheckpointsMissing": checkpoints_missing, "CheckpointsAccept": checkpoints_accept,
        "CheckpointsReject": checkpoints_reject, "ReadBoundary": read_boundary, "Advance": advance,
        "AdvanceConflict": advance_conflict, "Delete": delete, "SendAdvance": send_advance, "SendDelete": send_delete,
        "LoseReply": collector_lose_reply, "Crash": collector_crash,
    },
    "Reader": {
        "ListPage": reader_list_page, "List": reader_list, "ReadLatest": reader_read_latest,
        "ReadMissing": reader_read_missing, "ReadAccept": read_accept, "ReadReject": read_reject,
        "LoseReply": reader_lose_reply, "Crash": reader_crash,
    },
    "": {"ApplyPending": apply_pending, "ExpireCheckpoint": expire_checkpoint},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def boundary_is_monotone(c, s):
    return s.boundary == s.peak


def boundary_is_below_latest(c, s):
    return And(s.boundary >= 0, s.boundary < s.high)


def latest_is_kept(c, s):
    return s.present(s.high)


def file_is_created(c, s, i: Id):
    return Implies(s.present(i), And(i >= 1, i <= s.high))


def deleted_is_behind_boundary(c, s, i: Id):
    return Implies(And(c.BOUNDARY, s.boundary < i, i <= s.high), s.present(i))


def commit_is_unique(c, s, i: Id, u: Update, v: Update):
    return Implies(And(i != 0, s.acked(i, u), s.acked(i, v)), u == v)


def acked_is_created(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), i <= s.high)


def ack_is_checked(c, s, i: Id):
    return Not(s.unchecked(i))


def acked_is_kept(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), s.updates(s.high, u))


def history_is_kept(c, s, i: Id, u: Update):
    return Implies(And(s.boundary < i, s.present(i), s.updates(i, u)), s.updates(s.high, u))


def checkpointed_is_kept(c, s, p: Id):
    return Implies(s.checkpoints(s.high, p), s.present(p))


def file_knows_checkpoints(c, s, i: Id, p: Id):
    return Implies(And(s.present(i), s.boundary < i, s.checkpoints(s.high, p), p <= i), s.checkpoints(i, p))


def writer_knows_created(c, s, w: Writer):
    return And(w.n >= 0, If(at(w.pc, "Created"), w.n + 1, w.n) <= s.high)


def ready(w):
    return at(w.pc, "Ready", "Prechecked")


def base_has_latest(c, s, w: Writer, u: Update):
    return Implies(And(ready(w), w.n == s.high, s.updates(s.high, u)), w.base_updates(u))


def base_is_of_latest(c, s, w: Writer, p: Id):
    return Implies(And(ready(w), w.n == s.high), w.base_checkpoints(p) == s.checkpoints(s.high, p))


def may_accept(s, w):
    return And(at(w.pc, "Created"), w.n + 1 > s.boundary)


def accepted_is_new(c, s, w: Writer, u: Update):
    return Implies(may_accept(s, w), Not(s.acked(w.n + 1, u)))


def one_may_accept(c, s, w: Writer, v: Writer):
    return Implies(And(may_accept(s, w), may_accept(s, v), w.n == v.n), w.me == v.me)


def accepted_is_kept(c, s, w: Writer):
    return Implies(may_accept(s, w), s.updates(s.high, s.update(w.me, w.k)))


def ready_is_not_applied(c, s, w: Writer):
    return Implies(And(recognises(c), ready(w)), Not(w.base_updates(s.update(w.me, w.k))))


def applied_once(c, s, w: Writer, u: Update):
    return Or(c.ON_REFUSAL in ("told", "failed"), Implies(And(at(w.pc, "Created"), Not(w.late)), Not(w.base_updates(u))))


def applied_is_kept(c, s, w: Writer):
    return Implies(And(at(w.pc, "Applied"), w.n > s.boundary), s.updates(s.high, s.update(w.me, w.k)))


def refused_has_no_effect(c, s, w: Writer):
    in_time = And(at(w.pc, "Created"), w.n + 1 <= s.boundary, Not(w.late))
    return Implies(c.ON_REFUSAL == "failed", Not(in_time))


def accepted_is_own(c, s, w: Writer, u: Update, p: Id):
    i = w.n + 1
    own = And(s.present(i), s.updates(i, u) == w.base_updates(u), s.checkpoints(i, p) == w.base_checkpoints(p))
    return m.known(c) == "never" or Implies(may_accept(s, w), own)


def late_is_behind_boundary(c, s, w: Writer):
    return Implies(And(at(w.pc, "Created"), w.late), w.n + 1 <= s.boundary)


def listed_is_created(c, s, g: Collector, i: Id):
    return Implies(g.listed(i), And(i >= 1, i <= s.high))


def known_is_durable(c, s, g: Collector):
    return Implies(at(g.pc, "Known"), And(g.b >= 0, g.b <= s.boundary))


def marked_is_free(c, s, g: Collector, i: Id, j: Id):
    known = Or(g.checked, And(g.marked, s.boundary < j))
    return Implies(And(known, g.listed(i), g.listed(j), i < j), Not(s.checkpoints(s.high, i)))


def pending_create_is_next(c, s, r: Request):
    return Implies(at(s.kind(r), "Create"), And(s.id(r) >= 1, s.id(r) <= s.high + 1))


def creates_latest(s, r):
    return And(at(s.kind(r), "Create"), s.id(r) == s.high + 1)


def pending_has_latest(c, s, r: Request, u: Update):
    return Implies(And(creates_latest(s, r), s.updates(s.high, u)), s.with_updates(r, u))


def pending_is_of_latest(c, s, r: Request, p: Id):
    return Implies(And(creates_latest(s, r), s.with_checkpoints(r, p), p != s.id(r)), s.checkpoints(s.high, p))


def pending_advance_is_forward(c, s, r: Request):
    return Implies(at(s.kind(r), "Advance"), And(s.over(r) >= 0, s.over(r) < s.id(r), s.id(r) < s.high))


def pending_delete_is_free(c, s, r: Request):
    return Implies(at(s.kind(r), "Delete"), And(s.id(r) >= 1, s.id(r) <= s.boundary, Not(s.checkpoints(s.high, s.id(r)))))


def owed_is_kept(c, s, r: Reader, u: Update):
    return Implies(r.must(u), s.updates(s.high, u))


def got_is_kept(c, s, r: Reader, u: Update):
    discards = And(at(r.pc, "Read"), r.n <= s.boundary)
    return Implies(And(r.got(u), Not(discards)), s.updates(s.high, u))


def listed_has_owed(c, s, r: Reader, u: Update):
    return Implies(And(at(r.pc, "Listed"), r.n > s.boundary, s.present(r.n), r.must(u)), s.updates(r.n, u))


def read_has_owed(c, s, r: Reader, u: Update):
    return Implies(And(at(r.pc, "Read"), r.n > s.boundary, r.must(u)), r.got(u))


def read_is_current(c, s, r: Reader, u: Update):
    return Implies(And(at(r.pc, "Done"), r.must(u)), r.got(u))


CLAUSES = {
    "BoundaryIsMonotone": boundary_is_monotone, "BoundaryIsBelowLatest": boundary_is_below_latest,
    "LatestIsKept": latest_is_kept, "FileIsCreated": file_is_created,
    "DeletedIsBehindBoundary": deleted_is_behind_boundary, "CommitIsUnique": commit_is_unique,
    "AckedIsCreated": acked_is_created, "AckIsChecked": ack_is_checked, "AckedIsKept": acked_is_kept,
    "HistoryIsKept": history_is_kept, "CheckpointedIsKept": checkpointed_is_kept,
    "FileKnowsCheckpoints": file_knows_checkpoints,
    "WriterKnowsCreated": writer_knows_created, "BaseHasLatest": base_has_latest, "BaseIsOfLatest": base_is_of_latest,
    "AcceptedIsNew": accepted_is_new, "OneMayAccept": one_may_accept,
    "AcceptedIsKept": accepted_is_kept, "LateIsBehindBoundary": late_is_behind_boundary,
    "ReadyIsNotApplied": ready_is_not_applied, "AppliedOnce": applied_once, "AppliedIsKept": applied_is_kept,
    "RefusedHasNoEffect": refused_has_no_effect, "AcceptedIsOwn": accepted_is_own,
    "ListedIsCreated": listed_is_created, "KnownIsDurable": known_is_durable, "MarkedIsFree": marked_is_free,
    "PendingCreateIsNext": pending_create_is_next, "PendingHasLatest": pending_has_latest,
    "PendingIsOfLatest": pending_is_of_latest,
    "PendingAdvanceIsForward": pending_advance_is_forward, "PendingDeleteIsFree": pending_delete_is_free,
    "OwedIsKept": owed_is_kept, "GotIsKept": got_is_kept, "ListedHasOwed": listed_has_owed,
    "ReadHasOwed": read_has_owed, "ReadIsCurrent": read_is_current,
}


def file_has_no_checkpoint(c, s, i: Id, p: Id):
    return Not(s.checkpoints(i, p))


def base_has_no_checkpoint(c, s, w: Writer, p: Id):
    return Not(w.base_checkpoints(p))


def pending_has_no_checkpoint(c, s, r: Request, p: Id):
    return Not(s.with_checkpoints(r, p))


NO_CHECKPOINTS = {
    "FileHasNoCheckpoint": file_has_no_checkpoint, "BaseHasNoCheckpoint": base_has_no_checkpoint,
    "PendingHasNoCheckpoint": pending_has_no_checkpoint,
}


# --- the properties, as the model states them: of the latest file that is there -------------------------------------------

def is_latest(s, i):
    return And(s.present(i), s.every(Id, lambda j: Implies(s.present(j), j <= i)))


def latest_is_above_boundary(c, s):
    return s.some(Id, lambda i: And(is_latest(s, i), s.boundary < i))


def high_is_latest(c, s):
    return is_latest(s, s.high)


def latest_has_acked(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), s.some(Id, lambda j: And(is_latest(s, j), s.updates(j, u))))


def latest_has_checkpointed(c, s, i: Id, p: Id):
    return Implies(And(is_latest(s, i), s.checkpoints(i, p), Not(s.expired(p))), s.present(p))


def refused_is_not_built_upon(c, s, w: Writer):
    in_time = And(at(w.pc, "Created"), w.n + 1 <= s.boundary, Not(w.late))
    return Implies(c.ON_REFUSAL == "failed", Not(And(in_time, s.some(Id, lambda i: And(s.present(i), i > w.n + 1)))))


PROPERTIES = {
    "CommitIsUnique": commit_is_unique, "AckedIsKept": latest_has_acked, "AckIsChecked": ack_is_checked,
    "BoundaryIsMonotone": boundary_is_monotone, "BoundaryIsBelowLatest": latest_is_above_boundary,
    "LatestIsKept": high_is_latest, "DeletedIsBehindBoundary": deleted_is_behind_boundary,
    "CheckpointedIsKept": latest_has_checkpointed, "ReadIsCurrent": read_is_current,
    "AppliedOnce": applied_once, "RefusedHasNoEffect": refused_is_not_built_upon,
    "AcceptedIsOwn": accepted_is_own,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Writer":
        return tables | {"base_updates": value.base.updates, "base_checkpoints": value.base.checkpoints}
    if role:
        return tables
    files = {i: file for i, file in enumerate(value.files, 1) if file}
    creates = {r: request for r, request in enumerate(value.pool) if request[0] == "Create"}
    advances = {r: request for r, request in enumerate(value.pool) if request[0] == "Advance"}
    return tables | {
        "present": frozenset(files), "updates": frozenset((i, u) for i, file in files.items() for u in file.updates),
        "checkpoints": frozenset((i, p) for i, file in files.items() for p in file.checkpoints),
        "kind": defaultdict(lambda: "None", ((r, request[0]) for r, request in enumerate(value.pool))),
        "id": defaultdict(int, ((r, request[2 if r in advances else 1]) for r, request in enumerate(value.pool))),
        "over": defaultdict(int, ((r, request[1]) for r, request in advances.items())),
        "with_updates": frozenset((r, u) for r, request in creates.items() for u in request[2]),
        "with_checkpoints": frozenset((r, p) for r, request in creates.items() for p in request[3]),
        "acked": frozenset((i, (w, k)) for i, w, k in value.acked)}


def write(role: str, t: Tables) -> Any:
    if role == "Writer":
        return m.Writer(t["pc"], t["n"], m.File(t["base_updates"], t["base_checkpoints"]), t["k"], t["late"], t["seen"])
    if role:
        return {"Collector": m.Collector, "Reader": m.Reader}[role](**t)
    files = (m.File(of(t["updates"], i), of(t["checkpoints"], i)) if i in t["present"] else None
             for i in range(1, t["high"] + 1))
    pool = sorted(request(t, r) for r, kind in t["kind"].items() if kind != "None")
    acked = frozenset((i, w, k) for i, (w, k) in t["acked"])
    return m.Shared(tuple(files), t["boundary"], tuple(pool), t["expired"], t["lost"], t["crashes"], acked, t["unchecked"],
                    t["high"], t["peak"])


def of(pairs: frozenset, x: Any) -> frozenset:
    return frozenset(b for a, b in pairs if a == x)


def request(t: Tables, r: int) -> tuple:
    kind, i = t["kind"][r], t["id"][r]
    if kind == "Create":
        return kind, i, tuple(sorted(of(t["with_updates"], r))), tuple(sorted(of(t["with_checkpoints"], r)))
    return (kind, t["over"][r], i) if kind == "Advance" else (kind, i)


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    if action == "ApplyPending":
        return (request(shared, *chosen),)
    return (chosen,) if action in ("CreateNext", "SendCreate") else chosen  # a change: its kind and its ids


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    return {Id: [*range(c.MAX_ID + 1)], Count: [*range(max(c.COMMITS, c.MAX_LOST, c.MAX_CRASHES) + 1)],
            Update: [(w, k) for w in range(c.WRITERS) for k in range(c.COMMITS)], Request: [*range(c.MAX_PENDING)],
            Choice: [x for size in range(c.CHECKPOINTS + 1) for x in combinations(range(1, c.MAX_ID + 1), size)],
            Writer: [*range(c.WRITERS)], Collector: [*range(c.COLLECTORS)], Reader: [*range(c.READERS)]}


# Instances in which counterexamples to induction are searched. A writer may begin any update that there is.
SMALL = scope(m.Constants(WRITERS=2, COMMITS=2, COLLECTORS=2, READERS=1, MAX_ID=3, CHECKPOINTS=1, MAX_PENDING=2)) | {
    Count: [0, 1]}
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("COMMITS", "MAX_ID", "CHECKPOINTS", "PAGE", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "COLLECTORS", "READERS", *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"CHECK": "off"}, {"CHECK": "before"}, {"OLD_WRITERS": 1}, {"FRESH_BOUNDARY": False}, {"BOUNDARY_FIRST": False},
    {"CONDITIONAL_ADVANCE": False}, {"KEEP_LATEST": False}, {"SPARE_CHECKPOINTS": False}, {"SPARE_LISTED": False},
    {"CHECK_READS": False}, {"BOUNDARY": False}, {"ON_REFUSAL": "failed"}, {"ON_REFUSAL": "retried"},
    {"ON_REFUSAL": "unchecked"}, {"KNOWN": "unanswered"},
)
SYSTEMS = {  # the systems that are proved, each separately
    "": {}, " where CHECKPOINTS is 0": {"checkpoints": False}, " where ON_REFUSAL is recognised": {"recognised": True},
    " where KNOWN is accepted": {"known": "accepted"},
}
# Instances for the tie that together take every action.
INSTANCES = (
    {}, {"CHECK": "before"},
    {"WRITERS": 1, "PAGE": 1, "MAX_LOST": 1},
    {"WRITERS": 1, "PAGE": 1, "COMMITS": 1, "COLLECTORS": 2, "MAX_LOST": 1},
    {"WRITERS": 1, "PAGE": 1, "COMMITS": 1, "READERS": 1, "MAX_CRASHES": 1},
    {"WRITERS": 1, "COMMITS": 1, "CHECKPOINTS": 1, "MAX_PENDING": 1},
    {"WRITERS": 1, "COMMITS": 1, "COLLECTORS": 2, "MAX_PENDING": 1, "MAX_LOST": 1},
    {"WRITERS": 1, "COMMITS": 1, "READERS": 1, "CHECKPOINTS": 1, "MAX_LOST": 1},
    {"WRITERS": 1, "COLLECTORS": 2, "CHECKPOINTS": 1},
    {"ON_REFUSAL": "recognised", "COMMITS": 1, "MAX_LOST": 1},
    {"KNOWN": "accepted", "MAX_LOST": 1}, {"KNOWN": "accepted", "WRITERS": 1, "CHECKPOINTS": 1, "MAX_PENDING": 1},
)
NEAREST = 1_000  # states of each that `make verify` compares; `make verify-deep` compares all
UNTAKEN = {"Collector.CheckpointsMissing", "Collector.CheckpointsReject"}  # actions that no state of them takes
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 3, "COMMITS": 4, "COLLECTORS": 2, "READERS": 1, "MAX_ID": 8, "CHECKPOINTS": 1, "PAGE": 3,
          "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}
WALKS, STEPS = 16, 120


def system(c: m.Constants) -> System:
    return SYSTEM._replace(clauses=CLAUSES | NO_CHECKPOINTS) if c.CHECKPOINTS == 0 else SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, checkpoints: bool = True, timeout_ms: int = inductive.TIMEOUT_MS,
          recognised: bool = False, known: str = "never") -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded, a page of a listing may have any
    size, and OLD_WRITERS is any set of the writers. `explain`: find counterexamples to induction. Without `checkpoints`:
    CHECKPOINTS=0. `recognised`: with the amendment. `known`: when a writer knows that its own file is the latest."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    c = c if checkpoints else c._replace(CHECKPOINTS=0)
    c = c._replace(ON_REFUSAL="recognised") if recognised else c
    c = c._replace(KNOWN=known) if known != "never" else c
    never = frozenset() if checkpoints else frozenset({"ExpireCheckpoint"})
    return inductive.prove(system(c), c, progress, explain, timeout_ms, never)
