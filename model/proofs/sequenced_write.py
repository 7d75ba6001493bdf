"""Safety, for any number of writers, readers, updates, ids and requests in flight, in both uses: every `always` property of
model/protocols/sequenced_write.py, by an inductive invariant, action by action.

Where USE is "state" the file of id i has i places, and the history is that of the latest file; where it is "log" a file has
one, and the history is all files in order. Let top be the number of files. The invariant:
- IdsAreContiguous: there is a file of each id from 1 to top. FileIsFull: all its places. PlaceIsOfOne: one update in each.
- FileIsPrefix: a file is a prefix of the history. OldFileIsKept: it is what was first written under its id.
- AckedIsKept: an acknowledged update is in the history at the place of its id. So CommitIsUnique.
- UpdateIsOnce. UpdateIsFresh: an update that a writer has not begun is nowhere; the one that it is about to put is not in the
  history, unless it is in doubt of it: then only at the place after n.
- WriterKnowsIds: 0 <= n <= top. WriterKnowsHistory: what it builds on is the history up to n.
- A request in flight: PendingIsNext, its id is at most top+1; PendingKnowsHistory, it holds the history and one more;
  PendingIsFresh, if its id is top+1 its update is not in the history; PendingIsKnown: what a writer is about to put is under
  way only for ids that are taken, or for the same id while it is in doubt.
- A reader: ReaderKnowsIds; ReadIsAPrefix; OwedIsKept: what it must show is in the history, up to n where it has listed;
  ReadIsCurrent.

An update is known by its writer and its number: what is said of one is said of all with these two.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance. ENDLESS, which leaves ids out, is not in it.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import authored, nothing, one_more, own, room, same, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import sequenced_write as m

Id = NewType("Id", int)  # of a file; and a place in one, from 1
Count = NewType("Count", int)
Update = NewType("Update", object)
Request = NewType("Request", object)  # in flight, nobody waits for it
Writer, Reader = NewType("Writer", View), NewType("Reader", View)

ROLES = {"Writer": Writer, "Reader": Reader}

FIELDS = {
    "": {
        "top": (Id,), "present": (Id, bool), "holds": (Id, Id, Update, bool), "size": (Id, Id),  # of the file of that id
        "first_holds": (Id, Id, Update, bool), "first_size": (Id, Id),
        "busy": (Request, bool), "id": (Request, Id), "with_holds": (Request, Id, Update, bool), "with_size": (Request, Id),
        "lost": (Count,), "crashes": (Count,), "acked": (Id, Update, bool),
    },
    "Writer": {
        "pc": (Literal["Idle", "Listed", "Ready", "Doubt", "Refused"],), "n": (Id,),
        "base_holds": (Id, Update, bool), "base_size": (Id,), "k": (Count,),
    },
    "Reader": {
        "pc": (Literal["Idle", "Listed", "Reading", "Done"],), "n": (Id,),
        "must": (Update, bool), "got_holds": (Id, Update, bool), "got_size": (Id,),
    },
}
RIGID = {"author": (Update, Writer), "number": (Update, Count)}


WRITER = {"pc": "Idle", "n": 0, "base_holds": nothing, "base_size": 0, "k": 0}
READER = {"pc": "Idle", "n": 0, "must": nothing, "got_holds": nothing, "got_size": 0}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"top": 0, "present": nothing, "holds": nothing, "size": zero, "first_holds": nothing, "first_size": zero,
              "busy": nothing, "id": zero, "with_holds": nothing, "with_size": zero, "lost": 0, "crashes": 0, "acked": nothing}
    return {"": shared, "Writer": WRITER, "Reader": READER}


# --- the transition relation, action by action as in model/protocols/sequenced_write.py
# -------------------------------------------

def is_state(c: m.Constants) -> bool:
    return c.USE == "state"


def content(s, w):
    """Return the file that the writer puts next: a test of what each place holds, and the number of places."""
    return lambda p, u: Or(w.base_holds(p, u), And(p == w.base_size + 1, own(s, w, u))), w.base_size + 1


def put(s, i, holds, size):
    return s.but(
        top=If(i > s.top, i, s.top), present=lambda j: Or(j == i, s.present(j)),
        holds=lambda j, p, u: If(j == i, holds(p, u), s.holds(j, p, u)),
        size=lambda j: If(j == i, size, s.size(j)),
        first_holds=lambda j, p, u: If(And(j == i, Not(s.present(i))), holds(p, u), s.first_holds(j, p, u)),
        first_size=lambda j: If(And(j == i, Not(s.present(i))), size, s.first_size(j)))


def idle(w: View, k: Any) -> View:
    return w.but(**{**WRITER, "k": k})


def begin(c, s, w):
    yield False, (), s, w


def writer_list(c, s, w):
    guard, files = And(at(w.pc, "Idle"), room(w.k, c.COMMITS)), And(is_state(c), s.top > 0)
    yield And(guard, files), (), s, w.but(pc="Listed", n=s.top)
    yield And(guard, Not(files)), (), s, w.but(pc="Ready", n=s.top)


def writer_read_latest(c, s, w):
    yield at(w.pc, "Listed"), (), s, w.but(pc="Ready", base_holds=lambda p, u: s.holds(w.n, p, u), base_size=s.size(w.n))


def skip(c, s, w):
    yield And(c.GAPS, at(w.pc, "Ready"), w.n == s.top), (), s, w.but(n=w.n + 1)


def committed(c, guard, s, w):
    after = s.but(acked=lambda i, u: Or(s.acked(i, u), And(i == w.n + 1, own(s, w, u))))
    more = room(w.k + 1, c.COMMITS)
    holds, size = content(s, w) if is_state(c) else (nothing, 0)
    yield And(guard, more), (), after, w.but(pc="Ready", n=w.n + 1, base_holds=holds, base_size=size, k=w.k + 1)
    yield And(guard, Not(more)), (), after, idle(w, w.k + 1)


def refused(c, s, i):
    return And(c.CREATE_IF_ABSENT, s.present(i))


def create_next(c, s, w):
    guard = And(at(w.pc, "Ready", "Doubt"), Not(refused(c, s, w.n + 1)))
    yield from committed(c, guard, put(s, w.n + 1, *content(s, w)), w)


def create_conflict(c, s, w):
    conflict = refused(c, s, w.n + 1)
    yield And(at(w.pc, "Doubt"), conflict), (), s, w.but(pc="Refused")
    guard = And(at(w.pc, "Ready"), conflict)
    if not is_state(c) or c.RESOLVE == "off":
        yield guard, (), s, w.but(n=w.n + 1)
    elif c.RESOLVE == "get":
        yield guard, (), s, idle(w, w.k).but(pc="Listed", n=w.n + 1)
    else:
        yield guard, (), s, idle(w, w.k)


def in_the_way(s, w):
    """Say that the file after n is the writer's own."""
    return s.some(Update, lambda u: And(own(s, w, u), s.holds(w.n + 1, s.size(w.n + 1), u)))


def read_own(c, s, w):
    yield from committed(c, And(at(w.pc, "Refused"), in_the_way(s, w)), s, w)


def read_other(c, s, w):
    i = w.n + 1
    holds, size = (lambda p, u: s.holds(i, p, u), s.size(i)) if is_state(c) else (nothing, 0)
    yield And(at(w.pc, "Refused"), Not(in_the_way(s, w))), (), s, w.but(pc="Ready", n=i, base_holds=holds, base_size=size)


def in_doubt(c, w):
    if c.UNKNOWN == "recognise":
        return w.but(pc="Doubt")
    return idle(w, w.k + 1 if c.UNKNOWN == "report" else w.k)


def send_create(c, s, w, r: Request):
    unused = And(Not(s.busy(r)), room(lambda: s.count(Request, s.busy), c.MAX_PENDING))
    holds, size = content(s, w)
    yield And(at(w.pc, "Ready", "Doubt"), unused), (), s.but(
        busy=lambda q: Or(q == r, s.busy(q)), id=lambda q: If(q == r, w.n + 1, s.id(q)),
        with_holds=lambda q, p, u: If(q == r, holds(p, u), s.with_holds(q, p, u)),
        with_size=lambda q: If(q == r, size, s.with_size(q))), in_doubt(c, w)


def lose_reply(c, s, w):
    guard, no = And(at(w.pc, "Ready", "Doubt"), room(s.lost, c.MAX_LOST)), refused(c, s, w.n + 1)
    after = s.but(lost=one_more(s.lost, c.MAX_LOST))
    yield And(guard, no), (), after, in_doubt(c, w)
    yield And(guard, Not(no)), (), put(after, w.n + 1, *content(s, w)), in_doubt(c, w)


def crash(c, s, w):
    yield (And(Not(at(w.pc, "Idle")), room(s.crashes, c.MAX_CRASHES)), (),
           s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), idle(w, w.k + 1))


def expected(s, r):
    """Return the test for the updates that a read must show."""
    return lambda u: Or(r.must(u), s.some(Id, lambda p: r.got_holds(p, u)), s.some(Id, lambda i: s.acked(i, u)))


def reader_list(c, s, r):
    guard, must = And(is_state(c), at(r.pc, "Idle", "Done")), expected(s, r)
    yield And(guard, s.top > 0), (), s, r.but(pc="Listed", n=s.top, must=must, got_holds=nothing, got_size=0)
    yield And(guard, s.top == 0), (), s, r.but(pc="Done", n=s.top, must=must, got_holds=nothing, got_size=0)


def reader_read_latest(c, s, r):
    yield at(r.pc, "Listed"), (), s, r.but(pc="Done", got_holds=lambda p, u: s.holds(r.n, p, u), got_size=s.size(r.n))


def unread(c, s, r, i):
    if c.IN_ORDER:
        return And(s.present(i), i == r.got_size + 1)
    return And(s.present(i), Not(s.some(Update, lambda u: And(
        s.holds(i, 1, u), s.some(Id, lambda p: r.got_holds(p, u))))))


def read_next(c, s, r, i: Id):
    begun = at(r.pc, "Reading")
    yield And(not is_state(c), unread(c, s, r, i)), (i,), s, r.but(
        pc="Reading", n=0, must=lambda u: If(begun, r.must(u), expected(s, r)(u)),
        got_holds=lambda p, u: Or(r.got_holds(p, u), And(p == r.got_size + 1, s.holds(i, 1, u))), got_size=r.got_size + 1)


def read_end(c, s, r):
    begun, guard = at(r.pc, "Reading"), And(not is_state(c), Not(s.some(Id, lambda i: unread(c, s, r, i))))
    yield guard, (), s, r.but(pc="Done", must=lambda u: If(begun, r.must(u), expected(s, r)(u)))


def apply_pending(c, s, _, r: Request):
    done, no = s.but(busy=lambda q: And(q != r, s.busy(q))), refused(c, s, s.id(r))
    yield And(s.busy(r), no), (r,), done, None
    yield And(s.busy(r), Not(no)), (r,), put(done, s.id(r), lambda p, u: s.with_holds(r, p, u), s.with_size(r)), None


ACTIONS = {
    "Writer": {
        "Begin": begin, "List": writer_list, "ReadLatest": writer_read_latest, "Skip": skip, "CreateNext": create_next,
        "CreateConflict": create_conflict, "ReadOwn": read_own, "ReadOther": read_other,
        "SendCreate": send_create, "LoseReply": lose_reply, "Crash": crash,
    },
    "Reader": {"List": reader_list, "ReadLatest": reader_read_latest, "ReadNext": read_next, "ReadEnd": read_end},
    "": {"ApplyPending": apply_pending},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def history(c, s, p, u):
    """Say that the history has this update at this place."""
    return s.holds(s.top, p, u) if is_state(c) else And(s.present(p), s.holds(p, 1, u))


def ids_are_contiguous(c, s, i: Id):
    return And(s.top >= 0, s.present(i) == And(i >= 1, i <= s.top))


def file_is_full(c, s, i: Id, p: Id, u: Update):
    size = i if is_state(c) else 1
    return Implies(s.present(i), And(s.size(i) == size, Implies(s.holds(i, p, u), And(p >= 1, p <= size))))


def place_is_of_one(c, s, i: Id, p: Id, u: Update, v: Update):
    return Implies(And(s.present(i), s.holds(i, p, u)), s.holds(i, p, v) == same(s, u, v))


def file_is_prefix(c, s, i: Id, p: Id, u: Update):
    return Implies(And(is_state(c), s.present(i), p <= i), s.holds(i, p, u) == s.holds(s.top, p, u))


def old_file_is_kept(c, s, i: Id, p: Id, u: Update):
    return Implies(s.present(i), And(s.size(i) == s.first_size(i), s.holds(i, p, u) == s.first_holds(i, p, u)))


def acked_is_kept(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), And(i >= 1, i <= s.top, history(c, s, i, u)))


def update_is_once(c, s, p: Id, q: Id, u: Update):
    there = And(s.top >= 1, history(c, s, p, u), history(c, s, q, u))
    return Implies(there, p == q)


def doubts(w):
    return at(w.pc, "Doubt", "Refused")


def update_is_fresh(c, s, w: Writer, p: Id, u: Update):
    there = And(s.top >= 1, s.author(u) == w.me, s.number(u) >= w.k, history(c, s, p, u))
    return Implies(there, And(doubts(w), s.number(u) == w.k, p == w.n + 1))


def writer_knows_ids(c, s, w: Writer):
    return And(w.n >= 0, If(at(w.pc, "Refused"), w.n + 1, w.n) <= s.top, w.base_size >= 0,
               Implies(at(w.pc, "Listed"), And(w.n >= 1, is_state(c))), Implies(doubts(w), c.UNKNOWN == "recognise"))


def writer_knows_history(c, s, w: Writer, p: Id, u: Update):
    builds = Or(at(w.pc, "Ready"), doubts(w))
    if is_state(c):
        base = And(w.base_size == w.n, w.base_holds(p, u) == And(p >= 1, p <= w.n, s.holds(s.top, p, u)))
    else:
        base = And(w.base_size == 0, Not(w.base_holds(p, u)))
    return If(builds, base, And(w.base_size == 0, Not(w.base_holds(p, u))))


def pending_is_next(c, s, r: Request):
    return Implies(s.busy(r), And(s.id(r) >= 1, s.id(r) <= s.top + 1, s.with_size(r) == (s.id(r) if is_state(c) else 1)))


def pending_knows_history(c, s, r: Request, p: Id, u: Update, v: Update):
    holds = s.with_holds(r, p, u)
    before = And(is_state(c), p < s.with_size(r))
    return Implies(s.busy(r), And(
        Implies(holds, And(p >= 1, p <= s.with_size(r))),
        Implies(And(before, p >= 1), holds == s.holds(s.top, p, u)),
        Implies(And(p == s.with_size(r), holds), s.with_holds(r, p, v) == same(s, u, v))))


def puts(s, r, u):
    """Say that this is the update that the request adds."""
    return And(s.busy(r), s.with_holds(r, s.with_size(r), u))


def pending_is_fresh(c, s, r: Request, p: Id, u: Update):
    return Implies(And(puts(s, r, u), s.id(r) > s.top, s.top >= 1), Not(history(c, s, p, u)))


def pending_is_known(c, s, w: Writer, r: Request, u: Update):
    mine = And(puts(s, r, u), s.author(u) == w.me, s.number(u) >= w.k)
    return Implies(mine, And(s.number(u) == w.k, Or(s.id(r) <= s.top, And(doubts(w), s.id(r) == w.n + 1))))


def reader_knows_ids(c, s, r: Reader):
    return And(Implies(at(r.pc, "Listed"), And(is_state(c), r.n >= 1, r.n <= s.top)), r.got_size >= 0, r.got_size <= s.top)


def read_is_a_prefix(c, s, r: Reader, p: Id, u: Update):
    return r.got_holds(p, u) == And(p >= 1, p <= r.got_size, history(c, s, p, u))


def owed_is_kept(c, s, r: Reader, u: Update):
    within = If(at(r.pc, "Listed"), r.n, s.top)
    return Implies(r.must(u), s.some(Id, lambda p: And(p >= 1, p <= within, history(c, s, p, u))))


def read_is_current(c, s, r: Reader, u: Update):
    return Implies(And(at(r.pc, "Done"), r.must(u)), s.some(Id, lambda p: r.got_holds(p, u)))


CLAUSES = {
    "IdsAreContiguous": ids_are_contiguous, "FileIsFull": file_is_full, "PlaceIsOfOne": place_is_of_one,
    "FileIsPrefix": file_is_prefix, "OldFileIsKept": old_file_is_kept, "AckedIsKept": acked_is_kept,
    "UpdateIsOnce": update_is_once, "UpdateIsFresh": update_is_fresh, "WriterKnowsIds": writer_knows_ids,
    "WriterKnowsHistory": writer_knows_history,
    "PendingIsNext": pending_is_next, "PendingKnowsHistory": pending_knows_history, "PendingIsFresh": pending_is_fresh,
    "PendingIsKnown": pending_is_known, "ReaderKnowsIds": reader_knows_ids,
    "ReadIsAPrefix": read_is_a_prefix, "OwedIsKept": owed_is_kept,
    "ReadIsCurrent": read_is_current,
}


# --- the properties, as the model states them -----------------------------------------------------------------------------

def commit_is_unique(c, s, i: Id, u: Update, v: Update):
    return Implies(And(s.acked(i, u), s.acked(i, v)), same(s, u, v))


def got_is_history(c, s, r: Reader, p: Id, u: Update):
    longer = r.got_size <= (If(s.top == 0, 0, s.size(s.top)) if is_state(c) else s.top)
    return And(longer, Implies(p <= r.got_size, r.got_holds(p, u) == And(s.top >= 1, history(c, s, p, u))))


def acked_is_in_history(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), And(s.top >= 1, history(c, s, i, u)))


PROPERTIES = {
    "CommitIsUnique": commit_is_unique, "OldFileIsKept": old_file_is_kept, "AckedIsKept": acked_is_in_history,
    "UpdateIsOnce": update_is_once, "ReadIsAPrefix": got_is_history, "ReadIsCurrent": read_is_current,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def places(file: m.File) -> frozenset:
    return frozenset(enumerate(file, 1))


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Writer":
        return tables | {"base_holds": places(value.base), "base_size": len(value.base)}
    if role:
        return tables | {"got_holds": places(value.got), "got_size": len(value.got)}
    files, first = ([(i, file) for i, file in enumerate(those, 1) if file] for those in (value.files, value.first))
    pool = [*enumerate(value.pool)]
    return tables | {
        "top": len(value.files), "present": frozenset(i for i, _ in files),
        "holds": frozenset((i, p, u) for i, file in files for p, u in places(file)),
        "size": defaultdict(int, ((i, len(file)) for i, file in files)),
        "first_holds": frozenset((i, p, u) for i, file in first for p, u in places(file)),
        "first_size": defaultdict(int, ((i, len(file)) for i, file in first)),
        "busy": frozenset(r for r, _ in pool), "id": defaultdict(int, ((r, i) for r, (_, i, _) in pool)),
        "with_holds": frozenset((r, p, u) for r, (_, _, file) in pool for p, u in places(file)),
        "with_size": defaultdict(int, ((r, len(file)) for r, (_, _, file) in pool)),
        "acked": frozenset((i, (w, k)) for i, w, k in value.acked)}


def file_of(pairs: Any) -> m.File:
    return tuple(u for _, u in sorted(pairs))


def write(role: str, t: Tables) -> Any:
    if role == "Writer":
        return m.Writer(t["pc"], t["n"], file_of(t["base_holds"]), t["k"])
    if role:
        return m.Reader(t["pc"], t["n"], t["must"], file_of(t["got_holds"]))
    files, first = (tuple(file_of((p, u) for j, p, u in t[holds] if j == i) for i in range(1, t["top"] + 1))
                    for holds in ("holds", "first_holds"))
    pool = tuple(sorted(request(t, r) for r in t["busy"]))
    return m.Shared(files, pool, t["lost"], t["crashes"], (), frozenset((i, w, k) for i, (w, k) in t["acked"]), first)


def request(t: Tables, r: int) -> tuple:
    return "Create", t["id"][r], file_of((p, u) for q, p, u in t["with_holds"] if q == r)


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    return (request(shared, *chosen),) if action == "ApplyPending" else chosen


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    ids = c.WRITERS * c.COMMITS * (2 if c.GAPS else 1)
    return {Id: [*range(ids + 2)], Count: [*range(max(c.COMMITS, c.MAX_LOST, c.MAX_CRASHES) + 1)],
            Update: [(w, k) for w in range(c.WRITERS) for k in range(c.COMMITS)], Request: [*range(c.MAX_PENDING)],
            Writer: [*range(c.WRITERS)], Reader: [*range(c.READERS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(WRITERS=2, COMMITS=1, READERS=1, MAX_PENDING=1)) | {Count: [0, 1]}
SYSTEM = System(FIELDS, ROLES, RIGID, authored, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("COMMITS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "READERS", "ENDLESS", *UNBOUNDED}
SAFEGUARDS_OFF = (
    {"CREATE_IF_ABSENT": False}, {"CREATE_IF_ABSENT": False, "USE": "log"}, {"RESOLVE": "off"}, {"GAPS": True},
    {"GAPS": True, "USE": "log"}, {"UNKNOWN": "reapply"}, {"UNKNOWN": "reapply", "USE": "log"},
    {"IN_ORDER": False, "USE": "log"},
)
# The systems that are proved, each separately.
SYSTEMS = {"": {}, " where an unknown outcome is recognised": {"unknown": "recognise"}, " of the log": {"use": "log"},
           " of the log, where an unknown outcome is recognised": {"use": "log", "unknown": "recognise"},
           " where a conflict is resolved by a new LIST": {"resolve": "list"}}
# Instances for the tie that together take every action.
INSTANCES = (
    {}, {"USE": "log"}, {"READERS": 1, "COMMITS": 1}, {"USE": "log", "READERS": 1, "COMMITS": 1},
    {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1, "COMMITS": 1},
    {"UNKNOWN": "recognise", "MAX_PENDING": 1, "MAX_LOST": 1, "COMMITS": 1},
    {"USE": "log", "UNKNOWN": "recognise", "MAX_PENDING": 1, "MAX_LOST": 1, "COMMITS": 1},
    {"RESOLVE": "list", "MAX_CRASHES": 1},
)
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 3, "COMMITS": 3, "READERS": 1, "MAX_PENDING": 2, "MAX_LOST": 2, "MAX_CRASHES": 1}
WALKS, STEPS = 8, 60


def system(_: m.Constants) -> System:
    return SYSTEM


def unbounded(constants: m.Constants, use: str = "", unknown: str = "", resolve: str = "") -> m.Constants:
    """Return the constants of a system that is proved."""
    given = {name: value for name, value in (("USE", use), ("UNKNOWN", unknown), ("RESOLVE", resolve)) if value}
    return constants._replace(**UNBOUNDED)._replace(**given)


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, use: str = "", unknown: str = "", resolve: str = "",
          timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Only the safeguards and USE matter: nothing is bounded. `explain`: find counterexamples."""
    c = unbounded(constants or m.Constants(), use, unknown, resolve)
    never = {"Writer.ReadOwn", "Writer.ReadOther"} if c.UNKNOWN != "recognise" else set()
    never |= {"Writer.ReadLatest", "Reader.ReadLatest"} if not is_state(c) else set()
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms, frozenset(never))
