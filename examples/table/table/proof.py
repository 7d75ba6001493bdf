"""Safety, for any number of writers, cleaners, commits and requests in flight: both `always` properties of model.py.

The invariant is CLAUSES, at the end. Let top be the number of the table's latest commit.
- NamedIsThere: each file that the table names exists. AckedIsKept. NumberIsReached: each has a number from 1 to top.
- WriterKnows, CleanerKnows: a client has read a beginning of the table.
- StoredIsThere: the file of a writer that is about to make commit top+1 exists. CommittedIsNamed: the table names the file of a
  writer that has committed.
- PendingCommit: a table in flight is a beginning of the table and one more file; if its number is top+1, that file exists.
- PendingDelete: a file whose deletion is in flight has a number up to top, and the table does not name it.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import authored, nothing, one_more, own, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View

from . import model as m

Id = NewType("Id", int)  # the number of a commit
Count = NewType("Count", int)
Update = NewType("Update", object)
Request = NewType("Request", object)  # in flight
Writer, Cleaner = NewType("Writer", View), NewType("Cleaner", View)

ROLES = {"Writer": Writer, "Cleaner": Cleaner}
FIELDS = {
    "": {
        "top": (Id,), "names": (Id, Update, bool), "files": (Id, Update, bool), "deleted": (Id, Update, bool),
        "kind": (Request, Literal["None", "Store", "Commit", "Delete"]), "id": (Request, Id),
        "has": (Request, Id, Update, bool),
        "lost": (Count,), "crashes": (Count,), "acked": (Id, Update, bool),
    },
    "Writer": {"pc": (Literal["Idle", "Read", "Stored", "Committed"],), "n": (Id,), "base": (Id, Update, bool), "k": (Count,)},
    "Cleaner": {"pc": (Literal["Idle", "Cleaning"],), "n": (Id,), "base": (Id, Update, bool)},
}
RIGID = {"author": (Update, Writer), "number": (Update, Count)}  # whose commit an update is, and which of the writer's

CLEANER = {"pc": "Idle", "n": 0, "base": nothing}
WRITER = {**CLEANER, "k": 0}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"top": 0, "names": nothing, "files": nothing, "deleted": nothing, "kind": lambda r: "None", "id": zero,
              "has": nothing, "lost": 0, "crashes": 0, "acked": nothing}
    return {"": shared, "Writer": WRITER, "Cleaner": CLEANER}


# --- the transition relation, action by action as in model.py -----------------------------------------------------------

def idle(w: View, k: Any) -> View:
    return w.but(**{**WRITER, "k": k})


def writer_read(c, s, w):
    yield And(Not(at(w.pc, "Committed")), room(w.k, c.COMMITS)), (), s, w.but(pc="Read", n=s.top, base=s.names)


def is_file(s, w, i, u):
    """Say that this is the file that the writer stores next."""
    return And(i == w.n + 1, own(s, w, u))


def puts(s, w, i, u):
    """Say that the table that the writer puts next names this file."""
    return Or(w.base(i, u), is_file(s, w, i, u))


def store_file(c, s, w):
    yield at(w.pc, "Read"), (), s.but(files=lambda i, u: Or(s.files(i, u), is_file(s, w, i, u))), w.but(pc="Stored")


def commit(c, s, w):
    yield (And(at(w.pc, "Stored"), Or(not c.CONDITIONAL, s.top == w.n)), (),
           s.but(top=w.n + 1, names=lambda i, u: puts(s, w, i, u)), w.but(pc="Committed"))


def commit_conflict(c, s, w):
    yield And(at(w.pc, "Stored"), c.CONDITIONAL, s.top != w.n), (), s, idle(w, w.k)


def acknowledge(c, s, w):
    yield at(w.pc, "Committed"), (), s.but(acked=lambda i, u: Or(s.acked(i, u), is_file(s, w, i, u))), idle(w, w.k + 1)


def give_up(c, s, w):
    yield And(at(w.pc, "Idle"), room(w.k, c.COMMITS)), (), s, idle(w, w.k + 1)


def cleaner_read(c, s, w):
    yield True, (), s, w.but(pc="Cleaning", n=s.top, base=s.names)


def is_garbage(c, s, w, i, u):
    seen = Or(s.files(i, u), s.deleted(i, u))
    return And(seen, at(w.pc, "Cleaning"), Not(w.base(i, u)), Or(not c.ONLY_REACHED, i <= w.n))


def delete(c, s, w, i: Id, u: Update):
    yield is_garbage(c, s, w, i, u), (i, u), without(s, lambda j, v: And(j == i, v == u)), w


def without(s, those):
    return s.but(files=lambda i, u: And(s.files(i, u), Not(those(i, u))), deleted=lambda i, u: Or(s.deleted(i, u), those(i, u)))


def sent(c, s, r, kind, has, number=0):
    """Return the guard that request `r` may be sent, and the shared state with it in flight."""
    unused = And(at(s.kind(r), "None"), room(lambda: s.count(Request, lambda q: Not(at(s.kind(q), "None"))), c.MAX_PENDING))
    return unused, s.but(kind=lambda q: If(q == r, kind, s.kind(q)), id=lambda q: If(q == r, number, s.id(q)),
                         has=lambda q, i, u: If(q == r, has(i, u), s.has(q, i, u)))


def send_file(c, s, w, r: Request):
    unused, after = sent(c, s, r, "Store", lambda i, u: is_file(s, w, i, u))
    yield And(at(w.pc, "Read"), unused), (), after, idle(w, w.k) if c.CONFIRMED else w.but(pc="Stored")


def send_commit(c, s, w, r: Request):
    unused, after = sent(c, s, r, "Commit", lambda i, u: puts(s, w, i, u), w.n + 1)
    yield And(at(w.pc, "Stored"), unused), (), after, idle(w, w.k + 1)


def send_delete(c, s, w, i: Id, u: Update, r: Request):
    unused, after = sent(c, s, r, "Delete", lambda j, v: And(j == i, v == u))
    yield And(is_garbage(c, s, w, i, u), unused), (i, u), after, w


def lose_reply(c, s, w):
    yield And(at(w.pc, "Committed"), room(s.lost, c.MAX_LOST)), (), s.but(lost=one_more(s.lost, c.MAX_LOST)), idle(w, w.k + 1)


def crash(c, s, w):
    after = idle(w, w.k + 1) if w.role == "Writer" else w.but(**CLEANER)
    guard = And(Not(at(w.pc, "Idle")), room(s.crashes, c.MAX_CRASHES))
    yield guard, (), s.but(crashes=one_more(s.crashes, c.MAX_CRASHES)), after


def apply_pending(c, s, _, r: Request):
    rest = s.but(kind=lambda q: If(q == r, "None", s.kind(q)))
    met = Or(not c.CONDITIONAL, s.top + 1 == s.id(r))
    yield (at(s.kind(r), "Store"), (r,), rest.but(files=lambda i, u: Or(s.files(i, u), s.has(r, i, u))), None)
    yield (at(s.kind(r), "Delete"), (r,), without(rest, lambda i, u: s.has(r, i, u)), None)
    yield And(at(s.kind(r), "Commit"), Not(met)), (r,), rest, None
    yield And(at(s.kind(r), "Commit"), met), (r,), rest.but(top=s.id(r), names=lambda i, u: s.has(r, i, u)), None


ACTIONS = {
    "Writer": {
        "ReadTable": writer_read, "StoreFile": store_file, "Commit": commit, "CommitConflict": commit_conflict,
        "Acknowledge": acknowledge, "GiveUp": give_up, "SendFile": send_file, "SendCommit": send_commit,
        "LoseReply": lose_reply, "Crash": crash,
    },
    "Cleaner": {"ReadTable": cleaner_read, "Delete": delete, "SendDelete": send_delete, "Crash": crash},
    "": {"ApplyPending": apply_pending},
}


# --- the properties, as the model states them ---------------------------------------------------------------------------

def named_is_there(c, s, i: Id, u: Update):
    return Implies(s.names(i, u), s.files(i, u))


def acked_is_kept(c, s, i: Id, u: Update):
    return Implies(s.acked(i, u), s.names(i, u))


PROPERTIES = {"NamedIsThere": named_is_there, "AckedIsKept": acked_is_kept}
CLAUSES: dict[str, Callable] = {**PROPERTIES}  # of the invariant; more follow below


# --- the model's values as tables, and back -----------------------------------------------------------------------------

def pairs(files: Any) -> frozenset:
    return frozenset((i, (w, k)) for i, w, k in files)


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables | {"n": value.base.number, "base": pairs(value.base.files)}
    pool = [*enumerate(value.pool)]
    return tables | {
        "top": value.table.number, "names": pairs(value.table.files), "files": pairs(value.files),
        "deleted": pairs(value.deleted), "acked": pairs(value.acked),
        "kind": defaultdict(lambda: "None", {r: op for r, (op, _, _) in pool}),
        "id": defaultdict(int, {r: number for r, (_, number, _) in pool}),
        "has": frozenset((r, *pair) for r, (_, _, files) in pool for pair in pairs(files))}


def files_of(those: Any) -> tuple:
    return tuple(sorted((i, *u) for i, u in those))


def request(t: Tables, r: int) -> tuple:
    return t["kind"][r], t["id"][r], files_of((i, u) for q, i, u in t["has"] if q == r)


def write(role: str, t: Tables) -> Any:
    if role:
        base = m.Table(t["n"], files_of(t["base"]))
        return m.Writer(t["pc"], base, t["k"]) if role == "Writer" else m.Cleaner(t["pc"], base)
    pool = tuple(sorted(request(t, r) for r, kind in t["kind"].items() if kind != "None"))
    files, deleted, acked = (frozenset(files_of(t[name])) for name in ("files", "deleted", "acked"))
    return m.Shared(m.Table(t["top"], files_of(t["names"])), files, deleted, pool, t["lost"], t["crashes"], acked)


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    if action == "ApplyPending":
        return (request(shared, *chosen),)
    return ((chosen[0], *chosen[1]),) if chosen else ()


# --- what is proved -----------------------------------------------------------------------------------------------------

def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    commits = c.WRITERS * c.COMMITS
    return {Id: [*range(commits + 2)], Count: [*range(max(c.COMMITS, c.MAX_LOST, c.MAX_CRASHES) + 1)],
            Update: [(w, k) for w in range(c.WRITERS) for k in range(c.COMMITS)], Request: [*range(c.MAX_PENDING)],
            Writer: [*range(c.WRITERS)], Cleaner: [*range(c.CLEANERS)]}


SMALL = scope(m.Constants(MAX_PENDING=1))  # where counterexamples to induction are searched
SYSTEM = System(FIELDS, ROLES, RIGID, authored, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
SYSTEMS = {"": {}}  # what is proved, each separately: a note -> further arguments of `prove`
UNBOUNDED = dict.fromkeys(("COMMITS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))
SAFEGUARDS = {"CONDITIONAL", "CONFIRMED", "ONLY_REACHED"}
SAFEGUARDS_OFF = tuple({name: False} for name in sorted(SAFEGUARDS))  # without each of them a clause must fail
# Instances in which the relation is compared with the model. Together they take every action.
INSTANCES = ({}, {"MAX_PENDING": 1}, {"MAX_LOST": 1, "MAX_CRASHES": 1}, {"CONFIRMED": False, "MAX_PENDING": 1})
# A larger instance, the number of random walks through it, and the steps of a walk.
WALKED = {"WRITERS": 3, "CLEANERS": 2, "COMMITS": 2, "MAX_PENDING": 2, "MAX_LOST": 1, "MAX_CRASHES": 1}
WALKS, STEPS = 8, 60


def system(c: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Only the safeguards matter: nothing is bounded. `explain`: find counterexamples."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)


# --- the invariant: what a client that is about to act relies on --------------------------------------------------------

def stored_is_there(c, s, w: Writer, u: Update):
    return Implies(And(at(w.pc, "Stored"), w.n == s.top, own(s, w, u)), s.files(w.n + 1, u))


def committed_is_named(c, s, w: Writer, u: Update):
    return Implies(And(at(w.pc, "Committed"), own(s, w, u)), s.names(w.n + 1, u))


CLAUSES.update({"StoredIsThere": stored_is_there, "CommittedIsNamed": committed_is_named})


# --- the invariant: what clients have read ------------------------------------------------------------------------------

def number_is_reached(c, s, i: Id, u: Update):
    return And(s.top >= 0, Implies(s.names(i, u), And(i >= 1, i <= s.top)))


def knows(s, w, i, u):
    return And(w.n >= 0, w.n <= s.top, w.base(i, u) == And(i <= w.n, s.names(i, u)))


def writer_knows(c, s, w: Writer, i: Id, u: Update):
    return knows(s, w, i, u)


def cleaner_knows(c, s, w: Cleaner, i: Id, u: Update):
    return knows(s, w, i, u)


CLAUSES.update({"NumberIsReached": number_is_reached, "WriterKnows": writer_knows, "CleanerKnows": cleaner_knows})


# --- the invariant: requests in flight ----------------------------------------------------------------------------------

def pending_commit(c, s, r: Request, i: Id, u: Update):
    number, has = s.id(r), s.has(r, i, u)
    return Implies(at(s.kind(r), "Commit"), And(
        number >= 1, number <= s.top + 1, Implies(has, And(i >= 1, i <= number)), Implies(i < number, has == s.names(i, u)),
        Implies(And(has, i > s.top), s.files(i, u))))


def pending_delete(c, s, r: Request, i: Id, u: Update):
    return Implies(And(at(s.kind(r), "Delete"), s.has(r, i, u)), And(i <= s.top, Not(s.names(i, u))))


CLAUSES.update({"PendingCommit": pending_commit, "PendingDelete": pending_delete})
