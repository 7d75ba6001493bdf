"""Safety: retention drops a block only if its cleaner has read it, its tenant's period has passed since its window and its last
datum, and no other leader has come since. What is dropped stays dropped, and every visible block has its object.

The retention of a metadata index (Pyroscope's), which drops units as a whole: the blocks of one window of time and one tenant.
A cleaner runs beside each leader. It lists the units by a consistent read, decides by the policy, and proposes a command, which
has an effect only in the term in which it was made, and only if the unit is as it was read. A unit that is dropped stays known
for a while, so that no retry of a writer, late job or dead letter brings a block of it back. Its tombstone lets workers delete
the objects that were made inside its window.

A datum is in the writer's block, which is anonymous: its unit has the data of all tenants. A job turns it into a block of the
datum's tenant, in the same window. Blocks are numbers: that of datum d is d, and the job's is DATA + d. The log is abstract, as
in metadata_fsm, which has the rest of the index. Time is counted in windows, and is the same for all. specs/IndexRetention.fizz
has the same names, states and labelled edges.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    DATA: int = 1
    WINDOWS: int = 1  # in which the data are by turns
    TENANTS: int = 1  # whose the data are by turns
    JOBS: int = 1  # of the data, the first: jobs may compact their blocks
    PERIOD: int = 1  # of the first tenant; 0: for ever
    PERIODS: int = 1  # of each other tenant
    AHEAD: int = 0  # windows by which the last datum is later than its block's window; below 0: it is earlier
    HORIZON: int = 2  # windows after which a block is too old to be added
    CLEANERS: int = 1
    MAX_NOW: int | None = 3
    MAX_TERM: int | None = 1
    # Safeguards: switch one off and a property must fail
    UNIT_VERSION: bool = True  # a unit that has changed since it was read stays
    TERM_CHECK: bool = True  # a command has an effect in the term in which it was made only
    DROPPED: bool = True  # nothing comes back into a dropped unit
    FLOOR_KEPT: bool = True  # that is known until the horizon refuses its blocks
    DROPPED_KEPT: bool = True  # and until no job can bring a result of the unit
    TOO_OLD: bool = True  # a block that is older than the horizon is not added
    SHARD_PREFIX_BOUND: bool = True  # a unit's tombstone deletes objects of its window only; False: older ones, too
    WINDOW_END: bool = True  # the period begins after the window; False: only the data count
    MAX_TIME: bool = True  # the period begins after the last datum; False: only the window counts
    LONGEST: bool = True  # of an anonymous unit, the longest period counts; False: the first tenant's
    NEVER: bool = True  # a period of 0 never ends; False: it has always ended


LIMITS = {**dict.fromkeys(("JOBS", "PERIOD", "PERIODS", "HORIZON", "CLEANERS", "MAX_NOW", "MAX_TERM"), MANY),
          "DATA": MANY[1:], "WINDOWS": MANY[1:], "TENANTS": MANY[1:],
          "AHEAD": range(-3, 4)}

Block = int
Unit = tuple[int, int]  # window, tenant; 0: anonymous
Blocks = frozenset[Block]
NONE: Blocks = frozenset()


class Shared(NamedTuple):
    objects: Blocks  # in the store
    deleted: Blocks  # whose object somebody has deleted
    visible: Blocks
    removed: Blocks  # known as removed: jobs have replaced them
    units: frozenset[tuple[Unit, int, int]]  # that are there: how often each has changed, and when its last datum is
    dropped: frozenset[Unit]  # known as dropped
    buried: frozenset[Unit]  # whose tombstone somebody may have
    now: int
    term: int
    # ghosts
    expired: Blocks  # that retention has dropped
    unread: bool  # a block was dropped that its cleaner had not read
    early: bool  # a block was dropped before its tenant's period had passed
    deposed: bool  # a command of an earlier term had an effect


class Cleaner(NamedTuple):
    leads: int = 0  # the term that it leads, as far as it knows
    made: int = 0  # the term of its command; 0: it has none
    unit: Unit = (0, 0)
    version: int = 0  # of the unit, as it has read it
    saw: Blocks = NONE  # ghost: the unit's blocks then


# --- what things are

def window_of(c: Constants, b: Block) -> int:
    return b % c.DATA % c.WINDOWS


def owner_of(c: Constants, b: Block) -> int:
    """Return the tenant whose datum is in a block, from 1 on."""
    return b % c.DATA % c.TENANTS + 1


def unit_of(c: Constants, b: Block) -> Unit:
    return window_of(c, b), owner_of(c, b) if b >= c.DATA else 0


def upto_of(c: Constants, b: Block) -> int:
    """Return when a block's datum is."""
    return window_of(c, b) + 1 + (c.AHEAD if b % c.DATA == c.DATA - 1 else 0)


def period_of(c: Constants, tenant: int) -> int:
    return c.PERIOD if tenant == 1 else c.PERIODS


def period_of_unit(c: Constants, u: Unit) -> int:
    """Return the period of a unit; 0: for ever. An anonymous one has data of all tenants."""
    if u[1] or not c.LONGEST:
        return period_of(c, u[1] or 1)
    periods = [period_of(c, tenant + 1) for tenant in range(c.TENANTS)]
    return 0 if 0 in periods and c.NEVER else max(periods)


def has_passed(c: Constants, period: int, since: int, now: int) -> bool:
    return since + period <= now and (period > 0 or not c.NEVER)


def times(s: Shared, u: Unit) -> tuple[int, int]:
    """Return how often a unit has changed, and when its last datum is; (0, 0) if it is not there."""
    return next(((version, upto) for unit, version, upto in sorted(s.units) if unit == u), (0, 0))


def may_drop(c: Constants, s: Shared, u: Unit, upto: int) -> bool:
    """Apply the policy to a unit whose last datum is at `upto`."""
    period = period_of_unit(c, u)
    return (not c.WINDOW_END or has_passed(c, period, u[0] + 1, s.now)) and (
        not c.MAX_TIME or has_passed(c, period, upto, s.now))


def is_due(c: Constants, s: Shared, b: Block) -> bool:
    """Tell whether the period of a block's tenant has passed since its window and its datum."""
    period = period_of(c, owner_of(c, b))
    return period > 0 and max(window_of(c, b) + 1, upto_of(c, b)) + period <= s.now


def is_too_old(c: Constants, s: Shared, window: int) -> bool:
    return window + 1 + c.HORIZON <= s.now


def without_unit(s: Shared, u: Unit) -> frozenset[tuple[Unit, int, int]]:
    return frozenset(one for one in s.units if one[0] != u)


def come(c: Constants, s: Shared, b: Block) -> Shared:
    """Show a block."""
    u = unit_of(c, b)
    version, upto = times(s, u)
    return s._replace(visible=s.visible | {b}, units=without_unit(s, u) | {(u, version + 1, max(upto, upto_of(c, b)))})


def replaced(c: Constants, s: Shared, b: Block) -> Shared:
    """Remove a block that a job has replaced. The times of its unit stay."""
    u = unit_of(c, b)
    version, upto = times(s, u)
    return s._replace(visible=s.visible - {b}, removed=s.removed | {b}, units=without_unit(s, u) | {(u, version + 1, upto)})


# --- writers and workers

def put(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """Somebody writes the object of a block."""
    for b in (*range(c.DATA), *range(c.DATA, c.DATA + c.JOBS)):
        if b not in s.objects | s.deleted:
            yield (b,), s._replace(objects=s.objects | {b}), ()


def add(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A writer adds its block, for the first time or once more, or a sweeper of dead letters does."""
    for b in range(c.DATA):
        new = b in s.objects | s.deleted and b not in s.visible | s.removed
        refused = (c.DROPPED and unit_of(c, b) in s.dropped) or (c.TOO_OLD and is_too_old(c, s, window_of(c, b)))
        if new and not refused:
            yield (b,), come(c, s, b), ()


def job_end(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A job replaces a block. A result of a dropped unit is removed at once."""
    for b in range(c.JOBS):
        result = c.DATA + b
        if b in s.visible and result in s.objects | s.deleted:
            after = replaced(c, s, b)
            if c.DROPPED and unit_of(c, result) in s.dropped:
                yield (b,), after._replace(expired=s.expired | {result}), ()
            else:
                yield (b,), come(c, after, result), ()


# --- cleaners

def elect(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """The node of a cleaner leads the next term. The one that led before does not know it."""
    if below(s.term, c.MAX_TERM):
        yield (), s._replace(term=s.term + 1), w._replace(leads=s.term + 1)


def cleaner_read(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """It reads the units, and makes a command for one that the policy drops."""
    if w.leads == s.term and not w.made and w.leads:
        for u, version, upto in sorted(s.units):
            if may_drop(c, s, u, upto):
                saw = frozenset(b for b in s.visible if unit_of(c, b) == u)
                yield (u,), s, Cleaner(w.leads, w.leads, u, version, saw)


def has_effect(c: Constants, s: Shared, w: Cleaner) -> bool:
    version, _ = times(s, w.unit)
    return version > 0 and (not c.UNIT_VERSION or version == w.version) and (not c.TERM_CHECK or w.made == w.leads)


def truncate(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """Its node leads, and the command drops the unit."""
    if w.made and w.leads == s.term and has_effect(c, s, w):
        hit = frozenset(b for b in s.visible if unit_of(c, b) == w.unit)
        yield (), s._replace(
            visible=s.visible - hit, expired=s.expired | hit, units=without_unit(s, w.unit), dropped=s.dropped | {w.unit},
            buried=s.buried | {w.unit}, unread=s.unread or not hit <= w.saw, deposed=s.deposed or w.made != w.leads,
            early=s.early or not all(is_due(c, s, b) for b in hit)), Cleaner(w.leads)


def truncate_refused(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """Its node leads, and the command has no effect."""
    if w.made and w.leads == s.term and not has_effect(c, s, w):
        yield (), s, Cleaner(w.leads)


# --- the rest

def swept_by(c: Constants, s: Shared, u: Unit) -> Blocks:
    """Return the objects that a unit's tombstone deletes: of its tenant, and inside its window."""
    return frozenset(b for b in s.objects for window, tenant in [unit_of(c, b)]
                     if tenant == u[1] and (window == u[0] or (window < u[0] and not c.SHARD_PREFIX_BOUND)))


def sweep(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A worker deletes the objects of a dropped unit; a slow one may do so much later."""
    for u in sorted(s.buried):
        hit = swept_by(c, s, u)
        if hit:
            yield (u,), s._replace(objects=s.objects - hit, deleted=s.deleted | hit), ()


def forget_unit(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The index forgets a dropped unit."""
    for u in sorted(s.dropped):
        may_come_back = c.DROPPED_KEPT and u[1] > 0 and times(s, (u[0], 0)) != (0, 0)
        if not may_come_back and (is_too_old(c, s, u[0]) or not c.FLOOR_KEPT):
            yield (u,), s._replace(dropped=s.dropped - {u}), ()


def tick(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    if below(s.now, c.MAX_NOW):
        yield (), s._replace(now=s.now + 1), ()


# --- properties

def only_read_is_dropped(c: Constants, s: Shared) -> bool:
    """Retention drops no block that its cleaner has not read."""
    return not s.unread


def nothing_is_dropped_early(c: Constants, s: Shared) -> bool:
    """Retention drops no block before its tenant's period has passed since its window and its last datum."""
    return not s.early


def deposed_changes_nothing(c: Constants, s: Shared) -> bool:
    """No command of an earlier term has an effect."""
    return not s.deposed


def dropped_stays_dropped(c: Constants, s: Shared) -> bool:
    """Nothing that retention has dropped is visible again, and a unit that is known as dropped shows nothing."""
    return s.visible.isdisjoint(s.expired) and all(unit_of(c, b) not in s.dropped for b in s.visible)


def no_dangling(c: Constants, s: Shared) -> bool:
    """A visible block has its object."""
    return s.visible <= s.objects


def is_dropped(c: Constants, s: Shared) -> bool:
    return bool(s.expired)


def is_swept(c: Constants, s: Shared) -> bool:
    return bool(s.deleted)


def is_forgotten(c: Constants, s: Shared) -> bool:
    """Nothing but the horizon refuses a block of a unit that was dropped."""
    return bool(s.buried - s.dropped)


def unit_has_changed(c: Constants, s: Shared, w: Cleaner) -> bool:
    """A cleaner's command is for a unit that has changed since it was read."""
    return bool(w.made) and times(s, w.unit)[0] not in (0, w.version)


def command_is_old(c: Constants, s: Shared, w: Cleaner) -> bool:
    """A cleaner leads again, and has a command of before."""
    return bool(w.made) and w.made != w.leads


CLEANER = {"Elect": elect, "Read": cleaner_read, "Truncate": truncate, "TruncateRefused": truncate_refused}
INDEX = {"Put": put, "Add": add, "JobEnd": job_end, "Sweep": sweep, "ForgetUnit": forget_unit, "Tick": tick}

ALWAYS = {
    "OnlyReadIsDropped": (None, only_read_is_dropped),
    "NothingIsDroppedEarly": (None, nothing_is_dropped_early),
    "DeposedChangesNothing": (None, deposed_changes_nothing),
    "DroppedStaysDropped": (None, dropped_stays_dropped),
    "NoDangling": (None, no_dangling),
}
SOMETIMES: dict[str, Property] = {
    "IsDropped": (None, is_dropped),
    "IsSwept": (None, is_swept),
    "IsForgotten": (None, is_forgotten),
    "UnitHasChanged": ("Cleaner", unit_has_changed),
    "CommandIsOld": ("Cleaner", command_is_old),
}


def model(c: Constants) -> Model:
    none = frozenset()
    first = Shared(NONE, NONE, NONE, NONE, units=none, dropped=none, buried=none, now=0, term=0, expired=NONE, unread=False,
                   early=False, deposed=False)
    absent = {"CommandIsOld"} if c.CLEANERS < 1 or c.MAX_TERM == 1 else set[str]()
    absent |= {"UnitHasChanged"} if c.DATA == 1 and not c.JOBS else set()
    return Model("index_retention", c, first, (*clients(("Cleaner", c.CLEANERS, Cleaner(), CLEANER)), store(INDEX)), ALWAYS,
                 all_but(SOMETIMES, absent), renamed={"Cleaner": None})
