"""Safety, for any number of databases, cloned from each other to any depth, and of cloners, attempts, checkpoints, SSTs, WAL
objects, detachers and collectors: every `always` property of model/protocols/clones.py, by an inductive invariant, action by
action.

The SSTs of a database are known by their numbers there. What a checkpoint names never changes, so it is a table of its own.

The invariant
- Why nothing dangles. OwnIsThere, PinIsWhole: the SSTs that the latest manifest, or a listed checkpoint, names of its own
  database are there; a collector deletes only others. EntryIsPinned, PinIsPinned: what an initialized database names of another
  one, a listed final there names as well. FinalStays: before a clone is initialized, nobody drops a final that it uses.
- Why a final is right. FinalHasSource, FinalHasNames: a final names what its source names. EntryHasSource: the SSTs of an entry
  are those of its source, or fewer. SourceIsOne: an entry has one source.
- Why a detach finds its final. EntryIsOne, NamedIsOne: of each database one entry is in use. EntryIsOfClone: a final belongs
  to one clone. NoPinIsLost: it has an entry, or a slow cloner made it.
- The WAL of a clone. CopyIsOld: its copies are those that its source has seen. OwnIsNew: what its writer put is behind them.
  CopiesAreThere: they are there once it is initialized.
The other clauses say that names are fresh, and that ids are in their ranges.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import nothing, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import clones as m

Db = NewType("Db", int)
Number = NewType("Number", int)  # of an SST in its database
Log = NewType("Log", int)  # the id of a WAL object
Count = NewType("Count", int)
Pin = NewType("Pin", object)
Cloner, Writer = NewType("Cloner", View), NewType("Writer", View)
Detacher, Collector = NewType("Detacher", View), NewType("Collector", View)

ROLES = {"Cloner": Cloner, "Writer": Writer, "Detacher": Detacher, "Collector": Collector}
FIELDS = {
    "": {
        "there": (Db, bool), "ready": (Db, bool), "own": (Db, Number, bool), "entry": (Db, Pin, bool),
        "names": (Db, Pin, Number, bool), "listed": (Pin, bool), "seen": (Db, Log), "base": (Db, Log),
        "ssts": (Db, Number, bool), "wal": (Db, Log, Db, bool),
        "known": (Pin, bool), "of_own": (Pin, Number, bool), "of_names": (Pin, Pin, Number, bool), "of_seen": (Pin, Log),
        "source": (Pin, Pin, bool), "acked": (Db, Log, bool), "late": (Pin, bool),
    },
    "Cloner": {"t": (Count,), "k": (Count,)},
    "Writer": {"k": (Number,), "a": (Count,)},
    "Detacher": {},
    "Collector": {},
}
RIGID = {"author": (Pin, Cloner), "number": (Pin, Count), "home": (Pin, Db), "path": (Pin, Db), "parent": (Db, Db),
         "writer": (Db, Writer)}


def meaning(c: Any) -> dict:
    return {"author": lambda u: u[0], "number": lambda u: u[1], "home": lambda u: u[2], "path": lambda u: u[3],
            "parent": lambda d: m.parent(c, d) if 0 < d <= len(c.PARENTS) else 0, "writer": lambda d: d}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {
        "there": lambda d: d == 0, "ready": lambda d: d == 0, "own": lambda d, n: And(d == 0, n == 0), "entry": nothing,
        "names": nothing, "listed": nothing, "seen": zero, "base": zero, "ssts": lambda d, n: And(d == 0, n == 0),
        "wal": nothing, "known": nothing, "of_own": nothing, "of_names": nothing, "of_seen": zero, "source": nothing,
        "acked": nothing, "late": nothing}
    return {"": shared, "Cloner": {"t": 0, "k": 0}, "Writer": {"k": 0, "a": 0}, "Detacher": {}, "Collector": {}}


# --- the transition relation, action by action as in model/protocols/clones.py --------------------------------------------

def is_final(s, u):
    return s.home(u) != s.path(u)


def put(s, table, *keys):
    """Return the table with one more fact."""
    return lambda *xs: Or(And(*(x == key for x, key in zip(xs, keys))), table(*xs))


def without(table, *keys):
    return lambda *xs: And(table(*xs), Not(And(*(x == key for x, key in zip(xs, keys)))))


def used(c, s, f):
    d = s.path(f)
    latest = s.some(Number, lambda n: s.names(d, f, n))
    if not c.DETACH_CHECKPOINTS:
        return latest
    return Or(latest, s.some(Pin, lambda u: And(s.listed(u), s.home(u) == d, s.some(Number, lambda n: s.of_names(u, f, n)))))


def take(c, s, w, d: Db, u: Pin):
    guard = And(room(w.t, c.TAKES), s.ready(d), s.author(u) == w.me, s.number(u) == w.t, s.home(u) == d, s.path(u) == d)
    yield guard, (d,), s.but(
        known=put(s, s.known, u), listed=put(s, s.listed, u), of_own=lambda v, n: If(v == u, s.own(d, n), s.of_own(v, n)),
        of_names=lambda v, f, n: If(v == u, s.names(d, f, n), s.of_names(v, f, n)),
        of_seen=lambda v: If(v == u, s.seen(d), s.of_seen(v))), w.but(t=w.t + 1)


def is_source(s, d, u):
    return And(d >= 1, s.parent(d) >= 0, s.parent(d) < d, s.known(u), s.home(u) == s.parent(d), Not(is_final(s, u)))


def one_name(s, w, d):
    """Say that a final's name determines it. So it is in the model, in which it is its name."""
    def mine(f):
        return And(s.author(f) == w.me, s.number(f) == w.k, s.path(f) == d)
    return s.every(Pin, lambda f: s.every(Pin, lambda g: Implies(And(mine(f), mine(g), s.home(f) == s.home(g)), f == g)))


def attempt(c, s, w, d, u):
    def new(f):
        fresh = And(s.author(f) == w.me, s.number(f) == w.k, s.path(f) == d)
        if c.FRESH_FINALS:
            return fresh
        kept = s.some(Pin, lambda g: And(s.entry(d, g), s.home(g) == s.home(f)))
        return If(kept, s.entry(d, f), fresh)

    def of_parent(f):
        return And(new(f), s.home(f) == s.parent(d))

    def inherits(f, g):
        """Say that this final stands for an entry of the source that is in use."""
        return And(new(f), s.home(f) == s.home(g), s.home(f) != s.parent(d), s.some(Number, lambda n: s.of_names(u, g, n)))

    def names(f, n):
        return Or(And(of_parent(f), s.of_own(u, n)), s.some(Pin, lambda g: And(inherits(f, g), s.of_names(u, g, n))))

    is_new = lambda f: Or(of_parent(f), s.some(Pin, lambda g: inherits(f, g)))  # noqa: E731
    return s.but(
        there=put(s, s.there, d), entry=lambda e, f: Or(s.entry(e, f), And(e == d, is_new(f))),
        names=lambda e, f, n: If(e == d, names(f, n), s.names(e, f, n)),
        source=lambda f, g: Or(s.source(f, g), And(of_parent(f), g == u), inherits(f, g)),
        base=lambda e: If(e == d, s.of_seen(u), s.base(e)),
        seen=lambda e: If(e == d, s.of_seen(u) if c.SEEN_OF_SOURCE else s.seen(s.parent(d)), s.seen(e)))


def begin(c, s, w, d: Db, u: Pin):
    guard = And(room(w.k, c.TRIES), is_source(s, d, u), Not(s.there(d)), Not(s.ready(d)), one_name(s, w, d))
    yield guard, (d, u), attempt(c, s, w, d, u), w.but(k=w.k + 1)


def restart(c, s, w, d: Db, u: Pin):
    forward = s.of_seen(u) >= s.base(d) if c.RESTART_FORWARD else True
    guard = And(room(w.k, c.TRIES), is_source(s, d, u), s.there(d), Not(s.ready(d)), forward, one_name(s, w, d))
    yield guard, (d, u), attempt(c, s, w, d, u), w.but(k=w.k + 1)


def pin(c, s, w, f: Pin, g: Pin):
    guard = And(s.source(f, g), Not(s.listed(f)), s.known(g), Or(s.listed(g), not c.FINAL_NEEDS_SOURCE))
    first = lambda v: And(v == f, Not(s.known(f)))  # noqa: E731
    yield guard, (f, g), s.but(
        listed=put(s, s.listed, f), known=put(s, s.known, f), late=lambda v: Or(s.late(v), And(v == f, Not(used(c, s, f)))),
        of_own=lambda v, n: If(first(v), s.of_own(g, n), s.of_own(v, n)),
        of_names=lambda v, e, n: If(first(v), s.of_names(g, e, n), s.of_names(v, e, n)),
        of_seen=lambda v: If(first(v), s.of_seen(g), s.of_seen(v))), w


def exists(s, d, i):
    return s.some(Db, lambda by: s.wal(d, i, by))


def copy(c, s, w, d: Db, i: Log, by: Db):
    most = i <= s.base(d) if c.SEEN_OF_SOURCE else Or(i <= s.base(d), i <= s.seen(d))
    guard = And(d >= 1, s.parent(d) >= 0, s.parent(d) < d, s.there(d), s.wal(s.parent(d), i, by), most,
                Not(exists(s, d, i)) if c.COPY_IF_ABSENT else Not(s.wal(d, i, by)))
    yield guard, (d, i, by), s.but(
        wal=lambda e, j, a: If(And(e == d, j == i), a == by, s.wal(e, j, a))), w


def initialize(c, s, w, d: Db):
    pinned = s.every(Pin, lambda f: s.every(Number, lambda n: Implies(s.names(d, f, n), s.known(f))))
    copied = s.every(Log, lambda i: Implies(And(i >= 1, i <= s.base(d)), exists(s, d, i)))
    guard = And(s.there(d), Not(s.ready(d)), Or(pinned, not c.FINAL_FIRST), Or(copied, not c.COPY_BEFORE_INIT))
    yield guard, (d,), s.but(ready=put(s, s.ready, d)), w


def is_open(c, s, d):
    return s.ready(d) if c.OPEN_INITIALIZED else s.there(d)


def is_last(s, d, i):
    """Say that this is the largest id of the database's WAL objects; 0: there is none."""
    return And(Or(exists(s, d, i), i == 0), i >= 0, s.every(Log, lambda j: Implies(exists(s, d, j), j <= i)))


def flush(c, s, w, d: Db, seen: Log, old_db: Db, old: Number):
    new = w.k + 1
    is_seen = Or(seen == s.seen(d), And(seen > s.seen(d), s.some(Log, lambda i: And(exists(s, d, i), seen <= i))))
    guard = And(s.writer(d) == w.me, room(w.k, c.SSTS), is_open(c, s, d), is_seen)
    replaces = Or(And(old_db == d, s.own(d, old)), s.some(Pin, lambda f: And(s.home(f) == old_db, s.names(d, f, old))))
    for compacts in (False, True):
        after = s.but(
            own=lambda e, n, compacts=compacts: Or(And(e == d, n == new), And(s.own(e, n), Not(And(
                compacts, e == d, old_db == d, n == old)))),
            names=lambda e, f, n, compacts=compacts: And(s.names(e, f, n), Not(And(
                compacts, e == d, s.home(f) == old_db, n == old))),
            seen=lambda e: If(e == d, seen, s.seen(e)), ssts=put(s, s.ssts, d, new))
        yield And(guard, Or(replaces, not compacts)), ((old_db, old) if compacts else (), seen), after, w.but(k=new)


def append(c, s, w, d: Db, last: Log):
    guard = And(s.writer(d) == w.me, room(w.a, c.APPENDS), is_open(c, s, d), is_last(s, d, last))
    yield guard, (), s.but(wal=put(s, s.wal, d, last + 1, d), acked=put(s, s.acked, d, last + 1)), w.but(a=w.a + 1)


def release(c, s, w, f: Pin):
    yield (And(s.listed(f), is_final(s, f), Not(used(c, s, f))), (f,),
           s.but(listed=without(s.listed, f), late=without(s.late, f)), w)


def remove(c, s, w, d: Db, f: Pin):
    guard = And(s.there(d), s.entry(d, f), Not(used(c, s, f)), Or(Not(s.listed(f)), s.late(f), not c.PARENT_FIRST))
    yield guard, (d, f), s.but(entry=without(s.entry, d, f)), w


def end_lease(c, s, w, u: Pin):
    yield And(s.listed(u), Not(is_final(s, u))), (u,), s.but(listed=without(s.listed, u)), w


def collect(c, s, w, d: Db, n: Number):
    kept = Or(s.own(d, n), s.some(Pin, lambda u: And(s.listed(u), s.home(u) == d, s.of_own(u, n))))
    yield And(s.ssts(d, n), Not(kept)), (d, n), s.but(ssts=without(s.ssts, d, n)), w


ACTIONS = {
    "Cloner": {"Take": take, "Begin": begin, "Restart": restart, "Pin": pin, "Copy": copy, "Initialize": initialize},
    "Writer": {"Flush": flush, "Append": append},
    "Detacher": {"Release": release, "Remove": remove},
    "Collector": {"EndLease": end_lease, "Collect": collect},
}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def own_is_there(c, s, d: Db, n: Number):
    return Implies(s.own(d, n), s.ssts(d, n))


def pin_is_whole(c, s, u: Pin, n: Number):
    return Implies(And(s.listed(u), s.of_own(u, n)), s.ssts(s.home(u), n))


def entry_is_pinned(c, s, d: Db, f: Pin, n: Number):
    return Implies(And(s.ready(d), s.names(d, f, n)), And(s.listed(f), s.of_own(f, n)))


def pin_is_pinned(c, s, u: Pin, f: Pin, n: Number):
    return Implies(And(s.listed(u), s.of_names(u, f, n)), And(s.listed(f), s.of_own(f, n)))


def final_stays(c, s, d: Db, f: Pin, n: Number):
    return Implies(And(s.names(d, f, n), s.known(f)), s.listed(f))


def named_is_made(c, s, u: Pin, f: Pin, n: Number):
    return Implies(s.of_names(u, f, n), And(s.known(f), s.of_own(f, n)))


def final_has_source(c, s, f: Pin, g: Pin, n: Number):
    return Implies(And(s.source(f, g), s.known(f)), And(s.known(g), s.of_own(f, n) == s.of_own(g, n)))


def final_has_names(c, s, f: Pin, g: Pin, e: Pin, n: Number):
    return Implies(And(s.source(f, g), s.known(f)), s.of_names(f, e, n) == s.of_names(g, e, n))


def entry_has_source(c, s, d: Db, f: Pin, n: Number):
    """An entry names only what its source names."""
    return Implies(s.names(d, f, n), s.some(Pin, lambda g: And(s.source(f, g), s.known(g), s.of_own(g, n))))


def source_is_one(c, s, f: Pin, g: Pin, h: Pin):
    return Implies(And(s.source(f, g), s.source(f, h)), g == h)


def source_is_near(c, s, f: Pin, g: Pin):
    """A source is a checkpoint of the final's database, and the final is one of a clone."""
    return Implies(s.source(f, g), And(s.home(f) == s.home(g), is_final(s, f), s.known(g)))


def entry_is_of_clone(c, s, d: Db, f: Pin):
    return Implies(s.entry(d, f), And(s.path(f) == d, s.home(f) < d, s.there(d)))


def names_is_entry(c, s, d: Db, f: Pin, n: Number):
    return Implies(s.names(d, f, n), And(s.entry(d, f), s.there(d)))


def named_is_before(c, s, u: Pin, f: Pin, n: Number):
    return Implies(s.of_names(u, f, n), s.home(f) < s.home(u))


def named_is_of_clone(c, s, u: Pin, f: Pin, n: Number):
    return Implies(s.of_names(u, f, n), s.path(f) == s.home(u))


def named_is_entry(c, s, u: Pin, f: Pin, n: Number):
    """An entry that a listed checkpoint uses is in the latest manifest."""
    return Implies(And(s.listed(u), s.of_names(u, f, n)), s.entry(s.home(u), f))


def entry_is_one(c, s, d: Db, f: Pin, g: Pin, n: Number, o: Number):
    return Implies(And(s.names(d, f, n), s.names(d, g, o), s.home(f) == s.home(g)), f == g)


def named_is_one(c, s, u: Pin, f: Pin, g: Pin, n: Number, o: Number):
    return Implies(And(s.of_names(u, f, n), s.of_names(u, g, o), s.home(f) == s.home(g)), f == g)


def pin_is_known(c, s, u: Pin):
    """Only an initialized database has checkpoints."""
    return And(Implies(s.listed(u), s.known(u)), Implies(s.known(u), s.ready(s.home(u))),
               Implies(And(s.known(u), is_final(s, u)), s.some(Pin, lambda g: s.source(u, g))))


def known_has_content(c, s, u: Pin, f: Pin, n: Number):
    return Implies(Or(s.of_own(u, n), s.of_names(u, f, n)), s.known(u))


def no_pin_is_lost(c, s, f: Pin):
    return Implies(And(s.listed(f), is_final(s, f)), Or(s.late(f), s.entry(s.path(f), f)))


def root_is_ready(c, s, d: Db):
    return And(s.ready(0), s.there(0), Implies(s.there(d), d >= 0), Implies(s.ready(d), s.there(d)))


def pin_is_fresh(c, s, w: Cloner, u: Pin, g: Pin, d: Db):
    ahead = And(s.author(u) == w.me, If(is_final(s, u), s.number(u) >= w.k, s.number(u) >= w.t))
    return Implies(ahead, And(Not(s.known(u)), Not(s.source(u, g)), Not(s.entry(d, u))))


def name_is_fresh(c, s, w: Writer, d: Db, n: Number):
    return And(w.k >= 0, Implies(And(s.writer(d) == w.me, n > w.k), And(Not(s.ssts(d, n)), Not(s.own(d, n)))))


def content_is_old(c, s, w: Writer, u: Pin, n: Number):
    return Implies(And(s.writer(s.home(u)) == w.me, n > w.k), Not(s.of_own(u, n)))


def ids_are_positive(c, s, d: Db, i: Log, by: Db, u: Pin):
    return And(Implies(s.wal(d, i, by), And(i >= 1, s.there(d), by <= d)), s.base(d) >= 0, s.seen(d) >= 0, s.of_seen(u) >= 0,
               s.base(0) == 0)



def copy_is_old(c, s, d: Db, i: Log, by: Db):
    return Implies(And(s.wal(d, i, by), by != d), And(i >= 1, i <= s.base(d)))


def own_is_new(c, s, d: Db, i: Log):
    return Implies(s.wal(d, i, d), And(s.ready(d), i > s.base(d)))


def copies_are_there(c, s, d: Db, i: Log):
    return Implies(And(s.ready(d), i >= 1, i <= s.base(d)), s.some(Db, lambda by: And(by != d, s.wal(d, i, by))))


def acked_is_there(c, s, d: Db, i: Log):
    return Implies(s.acked(d, i), s.wal(d, i, d))


CLAUSES = {
    "OwnIsThere": own_is_there, "PinIsWhole": pin_is_whole, "EntryIsPinned": entry_is_pinned, "PinIsPinned": pin_is_pinned,
    "FinalStays": final_stays, "NamedIsMade": named_is_made, "FinalHasSource": final_has_source,
    "FinalHasNames": final_has_names,
    "EntryHasSource": entry_has_source, "SourceIsOne": source_is_one, "SourceIsNear": source_is_near,
    "EntryIsOfClone": entry_is_of_clone, "NamesIsEntry": names_is_entry, "NamedIsBefore": named_is_before,
    "NamedIsOfClone": named_is_of_clone, "NamedIsEntry": named_is_entry, "EntryIsOne": entry_is_one,
    "NamedIsOne": named_is_one, "PinIsKnown": pin_is_known, "KnownHasContent": known_has_content,
    "NoPinIsLost": no_pin_is_lost, "RootIsReady": root_is_ready, "PinIsFresh": pin_is_fresh, "NameIsFresh": name_is_fresh,
    "ContentIsOld": content_is_old, "IdsArePositive": ids_are_positive, "CopyIsOld": copy_is_old, "OwnIsNew": own_is_new,
    "CopiesAreThere": copies_are_there, "AckedIsThere": acked_is_there,
}


# --- the properties, as the model states them ------------------------------------------------------------------------------

def clone_is_pinned(c, s, d: Db, u: Pin, f: Pin, n: Number):
    listed = And(s.listed(u), s.ready(s.home(u)))
    return And(Implies(And(s.ready(d), s.own(d, n)), s.ssts(d, n)), Implies(And(listed, s.of_own(u, n)), s.ssts(s.home(u), n)),
               Implies(And(s.ready(d), s.names(d, f, n)), s.ssts(s.home(f), n)),
               Implies(And(listed, s.of_names(u, f, n)), s.ssts(s.home(f), n)))


def detach_is_free(c, s, d: Db, u: Pin, f: Pin, n: Number):
    return And(Implies(And(s.ready(d), s.names(d, f, n)), s.listed(f)),
               Implies(And(s.listed(u), s.ready(s.home(u)), s.of_names(u, f, n)), s.listed(f)))


def clone_is_the_checkpoint(c, s, d: Db, i: Log):
    copied = s.some(Db, lambda by: And(by != d, s.wal(d, i, by)))
    return Implies(And(s.ready(d), d >= 1), copied == And(i >= 1, i <= s.base(d)))


PROPERTIES = {
    "CloneIsPinned": clone_is_pinned, "DetachIsFree": detach_is_free, "NoPinIsLost": no_pin_is_lost,
    "CloneIsTheCheckpoint": clone_is_the_checkpoint, "CopyTouchesNobody": acked_is_there,
}


# --- the model's values as tables, and back ------------------------------------------------------------------------------

def read(role: str, value: Any) -> Tables:
    if role:
        return value._asdict()
    dbs, contents = [*enumerate(value.dbs)], value.contents
    return {
        "there": frozenset(d for d, of in dbs if of.there), "ready": frozenset(d for d, of in dbs if of.ready),
        "own": frozenset(x for _, of in dbs for x in of.own),
        "entry": frozenset((d, f) for d, of in dbs for f, _ in of.entries),
        "names": frozenset((d, f, n) for d, of in dbs for f, ssts in of.entries for _, n in ssts),
        "listed": frozenset(u for _, of in dbs for u in of.pins), "seen": defaultdict(int, ((d, of.seen) for d, of in dbs)),
        "base": defaultdict(int, ((d, of.base) for d, of in dbs)), "ssts": value.ssts, "wal": value.wal,
        "known": frozenset(one.pin for one in contents),
        "of_own": frozenset((one.pin, n) for one in contents for _, n in one.own),
        "of_names": frozenset((one.pin, f, n) for one in contents for f, ssts in one.entries for _, n in ssts),
        "of_seen": defaultdict(int, ((one.pin, one.seen) for one in contents)),
        "source": value.sources, "acked": value.acked, "late": value.late}


def write(role: str, t: Tables) -> Any:
    if role:
        return {"Cloner": m.Cloner, "Writer": m.Writer}.get(role, m.Nothing)(**t)

    def entry(f: Any, numbers: Any) -> m.Entry:
        return f, tuple(sorted((f[2], n) for n in numbers))

    dbs = tuple(m.Database(
        d in t["there"], d in t["ready"], frozenset(x for x in t["own"] if x[0] == d),
        frozenset(entry(f, [n for e, g, n in t["names"] if (e, g) == (d, f)]) for e, f in t["entry"] if e == d),
        frozenset(u for u in t["listed"] if u[2] == d), t["seen"][d], t["base"][d]) for d in range(len(t["seen"])))
    contents = frozenset(m.Content(
        u, tuple(sorted((u[2], n) for v, n in t["of_own"] if v == u)),
        tuple(sorted(entry(f, [n for v, g, n in t["of_names"] if (v, g) == (u, f)])
                     for f in {f for v, f, _ in t["of_names"] if v == u})), t["of_seen"][u]) for u in t["known"])
    return m.Shared(dbs, t["ssts"], t["wal"], contents, t["source"], t["acked"], t["late"])


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    """Return the choices of the model's label."""
    if action in ("Pin", "Collect"):
        return (chosen,)
    if action == "Copy":
        d, i, by = chosen
        return d, next((e, j, a) for e, j, a in shared["wal"] if e != d and (j, a) == (i, by))
    return chosen


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    dbs = [*range(len(c.PARENTS) + 1)]
    pins = [(w, k, home, path) for w in range(c.CLONERS) for k in range(max(c.TAKES, c.TRIES)) for home in dbs for path in dbs
            if home < path or (home == path and k < c.TAKES)]
    return {Db: dbs, Number: [*range(c.SSTS + 1)], Log: [*range(c.APPENDS * len(dbs) + 1)],
            Count: [*range(max(c.TAKES, c.TRIES, c.APPENDS) + 1)], Pin: pins, Cloner: [*range(c.CLONERS)], Writer: dbs,
            Detacher: [*range(c.DETACHERS)], Collector: [*range(c.COLLECTORS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(APPENDS=1))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, choices)
UNBOUNDED = dict.fromkeys(("TAKES", "TRIES", "SSTS", "APPENDS"))
SAFEGUARDS = {*m.Constants._fields} - {"PARENTS", "CLONERS", "DETACHERS", "COLLECTORS", *UNBOUNDED}
# A WAL object is overwritten only if a writer opens a clone too early, too.
SAFEGUARDS_OFF = (*({name: False} for name in m.Constants._fields if name in SAFEGUARDS - {"COPY_IF_ABSENT"}),
                  {"OPEN_INITIALIZED": False, "COPY_IF_ABSENT": False})
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action.
INSTANCES = ({"TAKES": 2}, {"TRIES": 2}, {"APPENDS": 1, "DETACHERS": 0, "COLLECTORS": 0},
             {"PARENTS": "01", "TAKES": 2, "TRIES": 2, "SSTS": 0, "DETACHERS": 0, "COLLECTORS": 0},
             {"CLONERS": 2, "SSTS": 0})
NEAREST = 200  # states of each that `make verify` compares; `make verify-deep` compares all
UNTAKEN = frozenset[str]()  # actions that no state of them takes
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"PARENTS": "01", "CLONERS": 2, "TAKES": 2, "TRIES": 2, "SSTS": 2, "APPENDS": 2}
WALKS, STEPS = 4, 40


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
