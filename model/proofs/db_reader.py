"""Safety, for any number of readers, SSTs, WAL objects and checkpoints: every `always` property of
model/protocols/db_reader.py, by an inductive invariant, action by action.

The invariant. What the latest manifest or a listed checkpoint names is there (LatestIsThere, CheckpointIsThere), and so is the
WAL after the latest manifest, and that which a checkpoint has seen (WalIsThere). What a reader builds, shows or scans names no
more than its checkpoint does, and that is listed, or a collector has dropped it (NextIsHeld, ViewIsHeld, ScanIsHeld). The rows
in memory are those after the SSTs', up to the last row: RowsAreNext. Two facts keep it so when another view is built:

- Its SSTs have all rows that those of the view have, because checkpoints are numbered as they are taken (ViewIsBehind,
  NextIsBehind, CheckpointsRise).
- It is replayed up to no later than the last row that it shows, so the next row follows (AtIsShown).

It begins with the rows of the view, so its last row is never before that of the view (NextIsAhead).

`top` is the last row of a view: max(upto, rows). Two checks tie this to the model. `tie` evaluates the relation below in plain
Python, on every reachable state of an instance. `walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import larger, nothing, one_more, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import db_reader as m

Id = NewType("Id", int)  # of a checkpoint; 0: none
Sst = NewType("Sst", int)
Log = NewType("Log", int)  # a row, and its WAL object
Count = NewType("Count", int)
Writer, Reader, Collector = NewType("Writer", View), NewType("Reader", View), NewType("Collector", View)

ROLES = {"Writer": Writer, "Reader": Reader, "Collector": Collector}
VIEW = {"k": (Id,), "ssts": (Sst, bool), "upto": (Log,), "rows": (Log, bool), "top": (Log,)}
FIELDS = {
    "": {
        "named": (Sst, bool), "upto": (Log,), "after": (Log,), "seen": (Log,),
        "cp": (Id, bool), "cp_by": (Id, Reader, bool), "cp_ssts": (Id, Sst, bool), "cp_upto": (Id, Log), "cp_after": (Id, Log),
        "cp_seen": (Id, Log),
        "ssts": (Sst, bool), "made": (Sst,), "wal": (Log, bool), "logged": (Log,), "taken": (Id,), "ended": (Id, bool),
        "lapses": (Count,), "dropped": (Id, bool),
    },
    "Writer": {"a": (Count,), "f": (Count,), "m": (Count,)},
    "Reader": {
        "pins": (Count,), "lost": (Count,), "closed": (Count,), "base_read": (bool,), "base_ssts": (Sst, bool),
        "base_upto": (Log,), "base_after": (Log,), **{f"{of}_{name}": sort for of in ("next", "view", "scan")
                                                      for name, sort in VIEW.items()},
        "next_at": (Log,), "next_to": (Log,), "most": (Log,),
    },
    "Collector": {},
}
RIGID: dict = {}
EMPTY = {"k": 0, "ssts": nothing, "upto": 0, "rows": nothing, "top": 0}


def of_view(name: str, those: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_{field}": value for field, value in those.items()}


NO_BASE = {"base_read": False, "base_ssts": nothing, "base_upto": 0, "base_after": 0}
NO_NEXT = of_view("next", EMPTY) | {"next_at": 0, "next_to": 0}


def meaning(_: Any) -> dict:
    return {}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"named": nothing, "upto": 0, "after": 0, "seen": 0, "cp": nothing, "cp_by": nothing, "cp_ssts": nothing,
              "cp_upto": zero, "cp_after": zero, "cp_seen": zero, "ssts": nothing, "made": 0, "wal": nothing, "logged": 0,
              "taken": 0, "ended": nothing, "lapses": 0, "dropped": nothing}
    reader = {"pins": 0, "lost": 0, "closed": 0, **NO_BASE, **NO_NEXT, **of_view("view", EMPTY), **of_view("scan", EMPTY),
              "most": 0}
    return {"": shared, "Writer": {"a": 0, "f": 0, "m": 0}, "Reader": reader, "Collector": {}}


# --- the transition relation, action by action as in model/protocols/db_reader.py ---------------------------------------

def append(c, s, w):
    new = s.logged + 1
    yield room(w.a, c.APPENDS), (), s.but(wal=lambda i: Or(i == new, s.wal(i)), logged=new), w.but(a=one_more(w.a, c.APPENDS))


def flush(c, s, w, upto: Log, after: Log):
    new = s.made + 1
    guard = And(room(w.f, c.FLUSHES), upto > s.upto, upto <= s.logged, after >= s.after, after <= upto)
    yield guard, (upto, after), s.but(
        named=lambda x: Or(x == new, s.named(x)), upto=upto, after=after, made=new, ssts=lambda x: Or(x == new, s.ssts(x))), \
        w.but(f=one_more(w.f, c.FLUSHES))


def compact(c, s, w):
    new = s.made + 1
    yield And(room(w.m, c.COMPACTIONS), s.some(Sst, s.named)), (), s.but(
        named=lambda x: x == new, made=new, ssts=lambda x: Or(x == new, s.ssts(x))), w.but(m=one_more(w.m, c.COMPACTIONS))


def needs(c, s, r):
    lost = And(c.SEES_LOSS, Or(Not(s.cp(r.view_k)), s.ended(r.view_k)))
    return Or(r.view_k == 0, s.some(Sst, lambda x: r.view_ssts(x) != s.named(x)), lost)


def pinned(c, s, r, seen):
    new, written = s.taken + 1, seen if c.LAST_SEEN else s.seen
    return s.but(
        seen=written, taken=new, cp=lambda k: Or(k == new, s.cp(k)),
        cp_by=lambda k, of: If(k == new, of == r.me, s.cp_by(k, of)),
        cp_ssts=lambda k, x: If(k == new, s.named(x), s.cp_ssts(k, x)), cp_upto=lambda k: If(k == new, s.upto, s.cp_upto(k)),
        cp_after=lambda k: If(k == new, s.after, s.cp_after(k)), cp_seen=lambda k: If(k == new, written, s.cp_seen(k)))


def built(c, r, k, ssts, upto, after, to):
    """Return the reader that begins to build a view of checkpoint `k`."""
    if not c.REPLACE_AFTER_BUILT:
        return shown(r.but(**NO_BASE, next_k=k, next_ssts=ssts, next_upto=upto, next_rows=nothing, next_top=upto,
                           next_at=after, next_to=to))
    bound = upto if c.PURGE_BY_SEQ else after
    return r.but(**NO_BASE, next_k=k, next_ssts=ssts, next_upto=upto, next_rows=lambda i: And(i > bound, r.view_rows(i)),
                 next_top=larger(upto, r.view_top), next_at=larger(after, r.view_top), next_to=to)


def shown(r):
    return r.but(**{f"view_{name}": getattr(r, f"next_{name}") for name in VIEW}, most=larger(r.most, r.next_top))


def look(c, s, r):
    guard = And(not c.PIN_BEFORE_READ, Not(r.base_read), r.next_k == 0, needs(c, s, r), room(r.pins, c.PINS))
    yield guard, (), s, r.but(base_read=True, base_ssts=s.named, base_upto=s.upto, base_after=s.after)


def pin(c, s, r, seen: Log):
    guard = And(r.next_k == 0, room(r.pins, c.PINS), seen >= s.seen, seen <= s.logged,
                Or(r.base_read, And(c.PIN_BEFORE_READ, needs(c, s, r))))
    of = (s.named, s.upto, s.after) if c.PIN_BEFORE_READ else (r.base_ssts, r.base_upto, r.base_after)
    yield guard, (seen,), pinned(c, s, r, seen), built(c, r.but(pins=one_more(r.pins, c.PINS)), s.taken + 1, *of, seen)


def stray(c, s, r, seen: Log):
    guard = And(room(r.lost, c.MAX_LOST), room(r.pins, c.PINS), seen >= s.seen, seen <= s.logged)
    yield guard, (seen,), pinned(c, s, r, seen), r.but(pins=one_more(r.pins, c.PINS), lost=one_more(r.lost, c.MAX_LOST))


def adopt(c, s, r, k: Id):
    yield And(r.next_k == 0, s.cp(k), s.cp_by(k, r.me), k > r.view_k), (k,), s, built(
        c, r, k, lambda x: s.cp_ssts(k, x), s.cp_upto(k), s.cp_after(k), s.cp_seen(k))


def replay(c, s, r):
    i = r.next_at + 1
    added = Or(i > r.next_upto, Not(c.REPLAY_SKIPS_SEQ))
    after = r.but(next_at=i, next_rows=lambda j: Or(And(j == i, added), r.next_rows(j)), next_top=larger(r.next_top, i))
    yield And(r.next_k > 0, i <= r.next_to, s.wal(i)), (), s, after if c.REPLACE_AFTER_BUILT else shown(after)


def miss(c, s, r):
    yield And(r.next_k > 0, r.next_at < r.next_to, Not(s.wal(r.next_at + 1))), (), s, r.but(**NO_NEXT)


def swap(c, s, r):
    yield And(r.next_k > 0, r.next_at >= r.next_to), (), s, shown(r).but(**NO_NEXT)


def give_up(c, s, r):
    yield And(r.next_k > 0, room(r.lost, c.MAX_LOST)), (), s, r.but(**NO_NEXT, lost=one_more(r.lost, c.MAX_LOST))


def start_scan(c, s, r):
    yield And(r.view_k > 0, r.scan_k == 0), (), s, r.but(**{f"scan_{name}": getattr(r, f"view_{name}") for name in VIEW})


def end_scan(c, s, r):
    yield r.scan_k > 0, (), s, r.but(**of_view("scan", EMPTY))


def release(c, s, r, k: Id):
    used = Or(k == r.next_k, k == r.view_k, And(c.KEEP_OLD_UNTIL_READ, k == r.scan_k))
    yield And(s.cp(k), s.cp_by(k, r.me), Not(used)), (k,), without(s, k), r


def refresh(c, s, r, k: Id):
    yield And(s.cp(k), s.cp_by(k, r.me), s.ended(k)), (k,), s.but(ended=lambda j: And(j != k, s.ended(j))), r


def close(c, s, r):
    yield And(r.view_k + r.next_k + r.scan_k > 0, room(r.closed, c.MAX_CLOSED)), (), s, r.but(
        **NO_BASE, **NO_NEXT, **of_view("view", EMPTY), **of_view("scan", EMPTY), most=0,
        closed=one_more(r.closed, c.MAX_CLOSED))


def without(s, k):
    """Return the state with a manifest without checkpoint `k`."""
    return s.but(
        cp=lambda j: And(j != k, s.cp(j)), cp_by=lambda j, of: And(j != k, s.cp_by(j, of)),
        cp_ssts=lambda j, x: And(j != k, s.cp_ssts(j, x)), cp_upto=lambda j: If(j == k, 0, s.cp_upto(j)),
        cp_after=lambda j: If(j == k, 0, s.cp_after(j)), cp_seen=lambda j: If(j == k, 0, s.cp_seen(j)),
        ended=lambda j: And(j != k, s.ended(j)))


def drop(c, s, g, k: Id):
    yield s.ended(k), (k,), without(s, k).but(dropped=lambda j: Or(j == k, s.dropped(j))), g


def delete_sst(c, s, g, x: Sst):
    kept = Or(s.named(x), s.some(Id, lambda k: And(s.cp(k), s.cp_ssts(k, x))))
    yield And(s.ssts(x), Not(kept)), (x,), s.but(ssts=lambda y: And(y != x, s.ssts(y))), g


def delete_wal(c, s, g, i: Log):
    kept = s.some(Id, lambda k: And(s.cp(k), s.cp_after(k) < i, i <= s.cp_seen(k)))
    yield And(s.wal(i), i <= s.after, Not(kept)), (i,), s.but(wal=lambda j: And(j != i, s.wal(j))), g


def end_lease(c, s, _, k: Id):
    yield And(room(s.lapses, c.MAX_ENDED), s.cp(k), Not(s.ended(k))), (k,), s.but(
        ended=lambda j: Or(j == k, s.ended(j)), lapses=one_more(s.lapses, c.MAX_ENDED)), _


ACTIONS = {
    "Writer": {"Append": append, "Flush": flush, "Compact": compact},
    "Reader": {
        "Look": look, "Pin": pin, "Stray": stray, "Adopt": adopt, "Replay": replay, "Miss": miss, "Swap": swap,
        "GiveUp": give_up, "StartScan": start_scan, "EndScan": end_scan, "Release": release, "Refresh": refresh, "Close": close,
    },
    "Collector": {"Drop": drop, "DeleteSst": delete_sst, "DeleteWal": delete_wal},
    "": {"EndLease": end_lease},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def is_prefix(r, of, i):
    rows, upto, top = (getattr(r, f"{of}_{name}") for name in ("rows", "upto", "top"))
    return And(Implies(rows(i), And(upto < i, i <= top)), Implies(And(upto < i, i <= top), rows(i)))


def reader_is_complete(c, s, r: Reader, i: Log):
    return And(is_prefix(r, "view", i), is_prefix(r, "scan", i))


def nothing_is_missing(c, s, r: Reader, x: Sst, i: Log):
    next_ = Or(s.dropped(r.next_k), And(Implies(r.next_ssts(x), s.ssts(x)),
                                        Implies(And(r.next_at < i, i <= r.next_to), s.wal(i))))
    return And(next_, Or(s.dropped(r.view_k), Implies(r.view_ssts(x), s.ssts(x))),
               Or(s.dropped(r.scan_k), Implies(r.scan_ssts(x), s.ssts(x))))


def reader_never_goes_back(c, s, r: Reader):
    return r.view_top >= r.most


def latest_is_there(c, s, x: Sst):
    return And(s.made >= 0, Implies(s.named(x), s.ssts(x)), Implies(s.ssts(x), And(x >= 1, x <= s.made)))


def checkpoint_is_there(c, s, k: Id, x: Sst):
    return Implies(And(s.cp(k), s.cp_ssts(k, x)), s.ssts(x))


def wal_is_there(c, s, k: Id, i: Log):
    return And(Implies(And(s.after < i, i <= s.logged), s.wal(i)), Implies(s.wal(i), And(i >= 1, i <= s.logged)),
               Implies(And(s.cp(k), s.cp_after(k) < i, i <= s.cp_seen(k)), s.wal(i)))


def wal_is_known(c, s):
    return And(s.after >= 0, s.after <= s.upto, s.upto <= s.logged, s.seen >= 0, s.seen <= s.logged)


def checkpoint_is_known(c, s, k: Id):
    return And(s.taken >= 0, Implies(s.ended(k), s.cp(k)), Implies(Or(s.cp(k), s.dropped(k)), And(k >= 1, k <= s.taken)),
               Implies(s.cp(k), And(s.cp_after(k) >= 0, s.cp_after(k) <= s.cp_upto(k), s.cp_after(k) <= s.after,
                                    s.cp_upto(k) <= s.upto, s.cp_seen(k) <= s.seen)))


def checkpoints_rise(c, s, j: Id, k: Id):
    return Implies(And(s.cp(j), s.cp(k), j < k), s.cp_upto(j) <= s.cp_upto(k))


def checkpoint_is_of_one(c, s, r: Reader, q: Reader, k: Id):
    return Implies(And(s.cp_by(k, r.me), s.cp_by(k, q.me)), r.me == q.me)


def is_held(s, r, of, x):
    k, ssts = getattr(r, f"{of}_k"), getattr(r, f"{of}_ssts")
    there = And(s.cp(k), s.cp_by(k, r.me), Implies(ssts(x), s.cp_ssts(k, x)))
    return And(k >= 0, k <= s.taken, Implies(k == 0, Not(ssts(x))), Implies(k > 0, Or(s.dropped(k), there)))


def next_is_held(c, s, r: Reader, x: Sst):
    return And(is_held(s, r, "next", x), Implies(r.next_k == 0, And(r.next_at == 0, r.next_to == 0)),
               Or(r.next_k == 0, s.dropped(r.next_k), And(s.cp_after(r.next_k) <= r.next_at, r.next_to <= s.cp_seen(r.next_k))))


def view_is_held(c, s, r: Reader, x: Sst):
    return is_held(s, r, "view", x)


def scan_is_held(c, s, r: Reader, x: Sst):
    return is_held(s, r, "scan", x)


def rows_are_next(c, s, r: Reader, i: Log):
    return is_prefix(r, "next", i)


def at_is_shown(c, s, r: Reader):
    return And(r.next_at <= r.next_top, r.next_upto <= r.next_top, r.view_upto <= r.view_top, Not(r.base_read), r.next_at >= 0)


def next_is_ahead(c, s, r: Reader):
    return And(Implies(r.next_k > 0, And(r.next_top >= r.view_top, r.next_upto >= r.view_upto)), r.view_top >= 0,
               Implies(r.view_k == 0, And(r.view_top == 0, r.view_upto == 0)))


def view_is_behind(c, s, r: Reader, k: Id):
    return And(r.view_upto <= s.upto, Implies(And(s.cp(k), k > r.view_k), r.view_upto <= s.cp_upto(k)))


def next_is_behind(c, s, r: Reader, k: Id):
    return And(r.next_upto <= s.upto, Implies(And(s.cp(k), k > r.next_k, r.next_k > 0), r.next_upto <= s.cp_upto(k)))


PROPERTIES = {
    "ReaderIsComplete": reader_is_complete, "NothingIsMissing": nothing_is_missing,
    "ReaderNeverGoesBack": reader_never_goes_back,
}
CLAUSES = PROPERTIES | {
    "LatestIsThere": latest_is_there, "CheckpointIsThere": checkpoint_is_there, "WalIsThere": wal_is_there,
    "WalIsKnown": wal_is_known, "CheckpointIsKnown": checkpoint_is_known, "CheckpointsRise": checkpoints_rise,
    "CheckpointIsOfOne": checkpoint_is_of_one,
    "NextIsHeld": next_is_held, "ViewIsHeld": view_is_held, "ScanIsHeld": scan_is_held, "RowsAreNext": rows_are_next,
    "AtIsShown": at_is_shown, "NextIsAhead": next_is_ahead, "ViewIsBehind": view_is_behind, "NextIsBehind": next_is_behind,
}


# --- the model's values as tables, and back -------------------------------------------------------------------------------

def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role == "Reader":
        for of in ("base", "next", "view", "scan"):
            tables |= {f"{of}_{name}": field for name, field in tables.pop(of)._asdict().items()}
        return tables | {f"{of}_top": m.top(getattr(value, of)) for of in ("next", "view", "scan")}
    if role:
        return tables
    latest = tables.pop("latest")
    those = {one.k: one for one in latest.checkpoints}
    return tables | {
        "named": latest.ssts, "upto": latest.upto, "after": latest.after, "seen": latest.seen, "cp": frozenset(those),
        "cp_by": frozenset((k, one.by) for k, one in those.items()),
        "cp_ssts": frozenset((k, x) for k, one in those.items() for x in one.ssts),
        **{f"cp_{name}": defaultdict(int, ((k, getattr(one, name)) for k, one in those.items()))
           for name in ("upto", "after", "seen")}}


def write(role: str, t: Tables) -> Any:
    if role == "Reader":
        def of(kind: Any, name: str) -> Any:
            return kind(*(t[f"{name}_{field}"] for field in kind._fields))

        return m.Reader(t["pins"], t["lost"], t["closed"], of(m.Base, "base"), of(m.Build, "next"), of(m.View, "view"),
                        of(m.View, "scan"), t["most"])
    if role:
        return {"Writer": m.Writer, "Collector": m.Collector}[role](**t)
    by = dict(t["cp_by"])
    checkpoints = frozenset(m.Checkpoint(k, by[k], tuple(sorted(x for one, x in t["cp_ssts"] if one == k)), t["cp_upto"][k],
                                         t["cp_after"][k], t["cp_seen"][k]) for k in t["cp"])
    latest = m.Manifest(t["named"], t["upto"], t["after"], t["seen"], checkpoints)
    return m.Shared(latest, *(t[name] for name in m.Shared._fields[1:]))


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    pins, logs = c.READERS * c.PINS, c.WRITERS * c.APPENDS
    most = max(c.APPENDS, c.FLUSHES, c.COMPACTIONS, c.PINS, c.MAX_ENDED, c.MAX_LOST, c.MAX_CLOSED, 1)
    return {Id: [*range(pins + 1)], Sst: [*range(c.WRITERS * (c.FLUSHES + c.COMPACTIONS) + 1)], Log: [*range(logs + 2)],
            Count: [*range(most + 1)], Writer: [*range(c.WRITERS)], Reader: [*range(c.READERS)],
            Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(MAX_ENDED=1, MAX_LOST=1, MAX_CLOSED=1))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write)
UNBOUNDED = dict.fromkeys(("APPENDS", "FLUSHES", "COMPACTIONS", "PINS", "MAX_ENDED", "MAX_LOST", "MAX_CLOSED"))
SAFEGUARDS = {*m.Constants._fields} - {"WRITERS", "READERS", "COLLECTORS", "SEES_LOSS", *UNBOUNDED}
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action but Look.
INSTANCES = (
    {"MAX_ENDED": 1}, {"MAX_LOST": 1, "COMPACTIONS": 0}, {"MAX_CLOSED": 1, "COMPACTIONS": 0},
    {"READERS": 2, "PINS": 1, "COMPACTIONS": 0}, {"APPENDS": 2, "COMPACTIONS": 0},
)
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"READERS": 2, "APPENDS": 3, "FLUSHES": 2, "COMPACTIONS": 2, "PINS": 3, "MAX_ENDED": 2, "MAX_LOST": 2,
          "MAX_CLOSED": 1}
WALKS, STEPS = 6, 60


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
