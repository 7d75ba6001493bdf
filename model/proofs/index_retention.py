"""Safety, for any number of blocks, units, tenants, periods, cleaners and terms: every `always` property of
model/protocols/index_retention.py, by an inductive invariant, action by action.

Blocks and units are elements of sorts. What never changes about them are rigid functions: the unit of a block, the end of a
unit's window, when the horizon closes it, the period of a unit by the policy, and that of a block's own tenant. `Longest`
assumes that the period of a unit is at least that of each of its blocks' tenants.

The invariant. A unit is buried if its tombstone may be somewhere.
- VisibleIsThere: the unit of a visible block is there. BuriedShowsNothing: a buried unit is not there, and never will be:
- BuriedIsOver: it is known as dropped, or the horizon refuses its blocks, and no job can have a result in it.
- DroppedIsBuried, ExpiredIsBuried, DeletedIsBuried: so what was dropped is not visible, and what is visible was not deleted.
- CommandIsOfItsTerm, UnitIsOne. CommandIsRead: a unit's version is at least the one that a cleaner has read, or it is buried.
- SawAll, PolicyHolds: as long as it is that version, the cleaner has read all blocks, and the policy drops the unit.
- UptoIsKnown: a unit's times reach to the datum of each of its blocks.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import larger, nothing, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import index_retention as m

Block = NewType("Block", object)
Unit = NewType("Unit", object)
Time = NewType("Time", int)
Term = NewType("Term", int)
Count = NewType("Count", int)
Cleaner = NewType("Cleaner", View)

ROLES = {"Cleaner": Cleaner}
FIELDS = {
    "": {
        "objects": (Block, bool), "deleted": (Block, bool), "visible": (Block, bool), "removed": (Block, bool),
        "version": (Unit, Count), "upto": (Unit, Time), "dropped": (Unit, bool), "buried": (Unit, bool), "now": (Time,),
        "term": (Term,), "expired": (Block, bool), "unread": (bool,), "early": (bool,), "deposed": (bool,),
    },
    "Cleaner": {"leads": (Term,), "made": (Term,), "unit": (Unit, bool), "version": (Count,), "saw": (Block, bool)},
}
RIGID = {
    "of": (Block, Unit), "raw": (Block, bool), "compacts": (Block, bool), "result": (Block, Block), "last": (Block, Time),
    "own": (Block, Time), "named": (Unit, bool), "anonymous": (Unit, Unit), "same": (Unit, Unit, bool), "end": (Unit, Time),
    "closes": (Unit, Time), "period": (Unit, Time),
}


def meaning(c: m.Constants) -> dict:
    """`last`: when a block's datum is; `own`: its tenant's period; `same`: two units are of one tenant."""
    return {
        "of": lambda b: m.unit_of(c, b), "raw": lambda b: b < c.DATA, "compacts": lambda b: b < c.JOBS,
        "result": lambda b: b + c.DATA if b < c.JOBS else b, "last": lambda b: m.upto_of(c, b),
        "own": lambda b: m.period_of(c, m.owner_of(c, b)), "named": lambda u: u[1] > 0, "anonymous": lambda u: (u[0], 0),
        "same": lambda u, v: u[1] == v[1], "end": lambda u: u[0] + 1, "closes": lambda u: u[0] + 1 + c.HORIZON,
        "period": lambda u: m.period_of_unit(c, u)}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = dict.fromkeys(FIELDS[""], nothing) | dict.fromkeys(("version", "upto"), zero)
    return {"": shared | {"now": 0, "term": 0, "unread": False, "early": False, "deposed": False},
            "Cleaner": {"leads": 0, "made": 0, "unit": nothing, "version": 0, "saw": nothing}}


# --- the transition relation, action by action as in model/protocols/index_retention.py -----------------------------------

def is_written(s, b):
    return Or(s.objects(b), s.deleted(b))


def is_too_old(s, u):
    return s.closes(u) <= s.now


def is_dropped(c, s, b):
    return And(c.DROPPED, s.dropped(s.of(b)))


def has_passed(c, period, since, now):
    return And(since + period <= now, Or(period > 0, not c.NEVER))


def may_drop(c, s, u, upto):
    period = s.period(u)
    return And(Or(not c.WINDOW_END, has_passed(c, period, s.end(u), s.now)),
               Or(not c.MAX_TIME, has_passed(c, period, upto, s.now)))


def is_due(s, b):
    period = s.own(b)
    return And(period > 0, s.end(s.of(b)) + period <= s.now, s.last(b) + period <= s.now)


def come(s, b):
    u = s.of(b)
    return s.but(visible=lambda x: Or(x == b, s.visible(x)), version=lambda v: If(v == u, s.version(v) + 1, s.version(v)),
                 upto=lambda v: If(v == u, larger(s.upto(v), s.last(b)), s.upto(v)))


def replaced(s, b):
    u = s.of(b)
    return s.but(visible=lambda x: And(x != b, s.visible(x)), removed=lambda x: Or(x == b, s.removed(x)),
                 version=lambda v: If(v == u, s.version(v) + 1, s.version(v)))


def put(c, s, _, b: Block):
    yield Not(is_written(s, b)), (b,), s.but(objects=lambda x: Or(x == b, s.objects(x))), None


def add(c, s, _, b: Block):
    new = And(s.raw(b), is_written(s, b), Not(s.visible(b)), Not(s.removed(b)))
    yield And(new, Not(is_dropped(c, s, b)), Or(not c.TOO_OLD, Not(is_too_old(s, s.of(b))))), (b,), come(s, b), None


def job_end(c, s, _, b: Block):
    r = s.result(b)
    ends, late, after = And(s.compacts(b), s.visible(b), is_written(s, r)), is_dropped(c, s, r), replaced(s, b)
    yield And(ends, late), (b,), after.but(expired=lambda x: Or(x == r, s.expired(x))), None
    yield And(ends, Not(late)), (b,), come(after, r), None


def elect(c, s, w):
    yield room(s.term, c.MAX_TERM), (), s.but(term=s.term + 1), w.but(leads=s.term + 1)


def cleaner_read(c, s, w, u: Unit):
    yield And(w.leads == s.term, w.made == 0, w.leads > 0, s.version(u) > 0, may_drop(c, s, u, s.upto(u))), (u,), s, \
        w.but(made=w.leads, unit=lambda v: v == u, version=s.version(u), saw=lambda b: And(s.visible(b), s.of(b) == u))


def has_effect(c, s, w, u):
    return And(s.version(u) > 0, Or(not c.UNIT_VERSION, s.version(u) == w.version), Or(not c.TERM_CHECK, w.made == w.leads))


def rest(w):
    return w.but(made=0, unit=nothing, version=0, saw=nothing)


def truncate(c, s, w, u: Unit):
    def hit(b):
        return And(s.visible(b), s.of(b) == u)

    yield And(w.made > 0, w.leads == s.term, w.unit(u), has_effect(c, s, w, u)), (u,), s.but(
        visible=lambda b: And(s.visible(b), s.of(b) != u), expired=lambda b: Or(hit(b), s.expired(b)),
        version=lambda v: If(v == u, 0, s.version(v)), upto=lambda v: If(v == u, 0, s.upto(v)),
        dropped=lambda v: Or(v == u, s.dropped(v)), buried=lambda v: Or(v == u, s.buried(v)),
        unread=Or(s.unread, s.some(Block, lambda b: And(hit(b), Not(w.saw(b))))),
        early=Or(s.early, s.some(Block, lambda b: And(hit(b), Not(is_due(s, b))))),
        deposed=Or(s.deposed, w.made != w.leads)), rest(w)


def truncate_refused(c, s, w, u: Unit):
    yield And(w.made > 0, w.leads == s.term, w.unit(u), Not(has_effect(c, s, w, u))), (u,), s, rest(w)


def is_swept(c, s, b, u):
    older = And(s.same(s.of(b), u), s.end(s.of(b)) < s.end(u))
    return And(s.objects(b), Or(s.of(b) == u, And(not c.SHARD_PREFIX_BOUND, older)))


def sweep(c, s, _, u: Unit):
    yield And(s.buried(u), s.some(Block, lambda b: is_swept(c, s, b, u))), (u,), s.but(
        objects=lambda b: And(s.objects(b), Not(is_swept(c, s, b, u))),
        deleted=lambda b: Or(is_swept(c, s, b, u), s.deleted(b))), None


def forget_unit(c, s, _, u: Unit):
    may_come_back = And(c.DROPPED_KEPT, s.named(u), s.version(s.anonymous(u)) > 0)
    yield And(s.dropped(u), Not(may_come_back), Or(is_too_old(s, u), not c.FLOOR_KEPT)), (u,), s.but(
        dropped=lambda v: And(v != u, s.dropped(v))), None


def tick(c, s, _):
    yield room(s.now, c.MAX_NOW), (), s.but(now=s.now + 1), None


ACTIONS = {
    "": {"Put": put, "Add": add, "JobEnd": job_end, "Sweep": sweep, "ForgetUnit": forget_unit, "Tick": tick},
    "Cleaner": {"Elect": elect, "Read": cleaner_read, "Truncate": truncate, "TruncateRefused": truncate_refused},
}


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    """Leave out the unit of a cleaner's own command, which the model does not choose."""
    return () if action in ("Truncate", "TruncateRefused") else chosen


# --- what is assumed of blocks and units ----------------------------------------------------------------------------------

def longest(c, s, b: Block):
    """A unit's period is at least that of each of its blocks' tenants, and lasts for ever if one of them does."""
    own, period = s.own(b), s.period(s.of(b))
    never = Or(period == 0, And(not c.NEVER, s.raw(b)))
    covers = And(Implies(own == 0, never), Implies(And(own > 0, period > 0), own <= period))
    return And(own >= 0, period >= 0, Or(And(not c.LONGEST, s.raw(b)), covers))


def same_window(c, s, u: Unit):
    """Every unit has an anonymous one in its window."""
    return And(Not(s.named(s.anonymous(u))), s.end(s.anonymous(u)) == s.end(u), s.closes(s.anonymous(u)) == s.closes(u))


def jobs_stay_in_the_window(c, s, b: Block):
    """A job makes a named block of an anonymous one, in the same window."""
    return And(s.raw(b) == Not(s.named(s.of(b))), Implies(s.compacts(b), And(
        s.raw(b), Not(s.raw(s.result(b))), s.of(b) == s.anonymous(s.of(s.result(b))))))


AXIOMS = {"Longest": longest, "SameWindow": same_window, "JobsStayInTheWindow": jobs_stay_in_the_window}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def only_read_is_dropped(c, s):
    return Not(s.unread)


def nothing_is_dropped_early(c, s):
    return Not(s.early)


def deposed_changes_nothing(c, s):
    return Not(s.deposed)


def dropped_stays_dropped(c, s, b: Block):
    return Implies(s.visible(b), And(Not(s.expired(b)), Not(s.dropped(s.of(b)))))


def no_dangling(c, s, b: Block):
    return Implies(s.visible(b), s.objects(b))


def visible_is_there(c, s, b: Block):
    return Implies(s.visible(b), s.version(s.of(b)) > 0)


def version_counts(c, s, u: Unit):
    return s.version(u) >= 0


def buried_shows_nothing(c, s, u: Unit):
    return Implies(s.buried(u), s.version(u) == 0)


def buried_is_over(c, s, u: Unit):
    return Implies(s.buried(u), Or(s.dropped(u), And(
        is_too_old(s, u), Implies(s.named(u), s.version(s.anonymous(u)) == 0))))


def dropped_is_buried(c, s, u: Unit):
    return Implies(s.dropped(u), s.buried(u))


def expired_is_buried(c, s, b: Block):
    return Implies(s.expired(b), s.buried(s.of(b)))


def deleted_is_buried(c, s, b: Block):
    return Implies(s.deleted(b), s.buried(s.of(b)))


def command_is_of_its_term(c, s, w: Cleaner):
    return And(w.made >= 0, w.made <= w.leads, w.leads <= s.term)


def unit_is_one(c, s, w: Cleaner, u: Unit, v: Unit):
    return And(Implies(And(w.unit(u), w.unit(v)), u == v), Implies(w.unit(u), w.made > 0))


def command_is_read(c, s, w: Cleaner, u: Unit):
    return Implies(w.unit(u), And(w.version > 0, Or(s.buried(u), w.version <= s.version(u))))


def saw_all(c, s, w: Cleaner, b: Block):
    return Implies(And(w.unit(s.of(b)), w.version == s.version(s.of(b)), s.visible(b)), w.saw(b))


def policy_holds(c, s, w: Cleaner, u: Unit):
    return Implies(And(w.unit(u), w.version == s.version(u)), may_drop(c, s, u, s.upto(u)))


def upto_is_known(c, s, b: Block):
    return Implies(s.visible(b), s.last(b) <= s.upto(s.of(b)))


PROPERTIES = {
    "OnlyReadIsDropped": only_read_is_dropped, "NothingIsDroppedEarly": nothing_is_dropped_early,
    "DeposedChangesNothing": deposed_changes_nothing, "DroppedStaysDropped": dropped_stays_dropped, "NoDangling": no_dangling,
}
CLAUSES = PROPERTIES | {
    "VisibleIsThere": visible_is_there, "VersionCounts": version_counts, "BuriedShowsNothing": buried_shows_nothing,
    "BuriedIsOver": buried_is_over, "DroppedIsBuried": dropped_is_buried, "ExpiredIsBuried": expired_is_buried,
    "DeletedIsBuried": deleted_is_buried, "CommandIsOfItsTerm": command_is_of_its_term, "UnitIsOne": unit_is_one,
    "CommandIsRead": command_is_read, "SawAll": saw_all, "PolicyHolds": policy_holds, "UptoIsKnown": upto_is_known,
}


# --- the model's values as tables, and back -------------------------------------------------------------------------------

def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables | {"unit": frozenset({value.unit} if value.made else ())}
    units = tables.pop("units")
    return tables | {"version": defaultdict(int, {u: version for u, version, _ in units}),
                     "upto": defaultdict(int, {u: upto for u, _, upto in units})}


def written(role: str, t: Tables) -> Any:
    if role:
        return m.Cleaner(t["leads"], t["made"], next(iter(t["unit"]), (0, 0)), t["version"], t["saw"])
    t = dict(t)
    version, upto = t.pop("version"), t.pop("upto")
    return m.Shared(**t, units=frozenset((u, n, upto[u]) for u, n in version.items() if n))


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    last = c.WINDOWS + max(c.AHEAD, 0) + c.HORIZON + max(c.PERIOD, c.PERIODS)
    return {Block: [*range(c.DATA + c.JOBS)], Unit: [(w, t) for w in range(c.WINDOWS) for t in range(c.TENANTS + 1)],
            Time: [*range(min(c.AHEAD, 0), max(c.MAX_NOW, last) + 1)], Term: [*range(c.MAX_TERM + 1)],
            Count: [*range(2 * c.DATA + 1)], Cleaner: [*range(c.CLEANERS)]}


# The instance in which counterexamples to induction are searched, and what they need beside without a safeguard.
SMALL: dict[str, Any] = {"DATA": 2, "WINDOWS": 2, "JOBS": 2, "MAX_TERM": 2}
SHOWN = {"WINDOW_END": {"AHEAD": -1}, "MAX_TIME": {"AHEAD": 1}, "NEVER": {"PERIOD": 0},
         "LONGEST": {"WINDOWS": 1, "TENANTS": 2, "PERIODS": 2, "MAX_NOW": 4}}
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES,
                scope(m.Constants(**SMALL)), read, written, choices=choices, axioms=AXIOMS)
UNBOUNDED = dict.fromkeys(("MAX_NOW", "MAX_TERM"))
SAFEGUARDS = set(m.Constants._fields[m.Constants._fields.index("UNIT_VERSION"):])
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action.
INSTANCES: tuple[dict[str, Any], ...] = (
    {}, {"DATA": 2, "JOBS": 2}, {"CLEANERS": 2, "MAX_TERM": 3, "JOBS": 0}, {"DATA": 2, "WINDOWS": 2, "JOBS": 0},
    {"DATA": 2, "TENANTS": 2, "PERIODS": 0})
NEAREST, UNTAKEN = 1_000, frozenset[str]()
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"DATA": 4, "WINDOWS": 2, "TENANTS": 2, "JOBS": 4, "PERIODS": 2, "AHEAD": 1, "CLEANERS": 2, "MAX_NOW": 7,
          "MAX_TERM": 3}
WALKS, STEPS = 10, 50


def system(_: m.Constants) -> System:
    return SYSTEM


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**SMALL)
    for safeguard, needed in SHOWN.items():
        c = c if getattr(c, safeguard) else c._replace(**needed)
    return inductive.prove(SYSTEM._replace(scope=scope(c)), c._replace(**UNBOUNDED), progress, explain, timeout_ms)
