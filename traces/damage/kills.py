"""Count the damaged traces that the checker accepts. Each survivor is explained by an equivalence, or is a hole.

A damaged trace is checked from the state of the good one before the damage, so that the beginning is checked only once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from highwater.traces.damage.damage import EDITS, IN_PLACE, Damage, Words, damages, dropped, spread
from highwater.traces.damage.knowledge import GENERALLY, Knowledge
from highwater.traces.damage.responses import ANOTHER, EARLY, KINDS, LOST, VALUE, WRONG, Roles, Ties
from highwater.traces.damage.survivors import Survivor, explained, no_roles
from highwater.traces.event import Event
from highwater.traces.form import READS
from highwater.traces.refine import Failure, Refiner
from highwater.traces.trace import Trace, copied


class Good(NamedTuple):
    """A correct trace, and the model that it is checked against."""

    name: str  # a file, or a seed
    events: list[Event]
    begin: Callable[[], Trace]  # a new one
    least_ms: int = 0  # age at which a file may be deleted; 0: any
    told: tuple[str, ...] = ()  # the responses to callers of the protocol
    of: Knowledge = GENERALLY
    roles: Callable[[], Roles] = no_roles  # the responses that each role receives, in other runs as well


class Tally(NamedTuple):
    """The counts by kind of event, kind of damage and field: damages tried, and damages noticed."""

    tried: Counter
    noticed: Counter
    survived: Counter  # by equivalence; "" for unexplained survivors
    holes: list[str]  # the unexplained survivors, in words
    unexplained: Counter  # the same, by kind of event, kind of damage and field
    why: dict[str, str]  # equivalence -> its explanation, in the order in which they are tried


def kind_of(e: Event) -> str:
    boundary = " boundary" * e.key.endswith(".boundary")
    if e.kind == "told":
        return f"told {e.op}"
    if e.kind != "applied":
        return f"{'read' if e.op in READS else 'write'}: {e.kind}{', in flight' * e.pending}"
    if not e.awaited:
        return f"{'read' if e.op in READS else 'write'}: not awaited"
    return f"{e.op}{boundary}: {e.status}"


States = list[tuple[int, ...]]  # of each refiner of a trace


def states_of(trace: Trace) -> States:
    return [refiner.states for refiner in trace.refiners]


def resumed(trace: Trace, states: States) -> Trace:
    """Return a copy of the trace that continues from these states and shares nothing that changes."""
    again = copied(trace)
    go_on(again, states)
    return again


def go_on(trace: Trace, states: States) -> None:
    for refiner, those in zip(trace.refiners, states, strict=True):
        refiner.states = those


def refused(trace: Trace, rest: list[Event], is_good: Callable[[int], bool] | None = None) -> str:
    """Check the rest of a trace. Return the signature of its failure, or "" if it is accepted. `is_good(left)`: does the trace,
    with so many events to come, stand as the good one does then?"""
    try:
        for at, e in enumerate(rest, 1):
            trace.observe(e)
            if is_good and at & (at - 1) == 0 and is_good(len(rest) - at):  # looked up ever more seldom
                return ""
    except Failure as failure:
        return failure.signature
    return ""


def updates_in(trace: Trace, e: Event) -> list[str]:
    """Return the updates in the content that is put, in any order; none if it is not of this protocol."""
    try:
        return sorted(trace._updates(e))
    except trace.alien:
        return []


def first_clients(refiner: Refiner) -> tuple[str, ...]:
    """Return the first client of each role of the model."""
    return tuple({name.partition("#")[0]: name for name in sorted(filter(None, refiner.index), reverse=True)}.values())


def survivors(good: Good, each: Callable[[Event, Damage, bool], None]) -> Iterator[Survivor]:
    """Yield the survivors of all damages to one trace. `each` is called for every damage. Raises ValueError for a bad trace."""
    events, trace = spread(good.events), good.begin()
    if not trace.resumable:
        raise ValueError(f"{good.name}: the judge of this protocol cannot go on from the middle of a trace, because it keeps "
                         "more than the states of one model: add --draw N, which judges N drawn damages from the beginning")
    where, refiner = trace.namespace, trace.refiner
    words = Words(first_clients(refiner), good.told, good.of.contents, Ties(events))
    shows_harm = good.of.history(events, where, good.least_ms)
    begun = states_of(trace)
    standings = standings_of(good.name, resumed(trace, begun), events)
    go_on(trace, begun)
    for i, e in enumerate(events):
        states = states_of(trace)
        here = resumed(trace, states)
        knew = {client: refiner.local(client) for client in refiner.index if client}
        failed = refused(trace, [e])
        if failed:
            raise ValueError(f"{good.name}: event {i} of the undamaged trace is refused: {failed}")
        after = states_of(trace)
        for found in damages(events, i, words):
            damaged = resumed(here, states)
            is_good = partial(stands_as, damaged, standings[found.to + 1:]) if standings else None
            noticed = refused(damaged, found.events[i:], is_good) or shows_harm(found.events)
            each(e, found, bool(noticed))
            if not noticed:
                yield Survivor(events, found, where, knew, good.of.clients, partial(updates_in, trace), good.roles)
        go_on(trace, after)
    if shows_harm(events):
        raise ValueError(f"{good.name}: the callers' history of the undamaged trace is refused")


def standings_of(name: str, trace: Trace, events: list[Event]) -> list[Any]:
    """Return how a good trace stands after each event; nothing if it cannot be compared. Raises ValueError for a bad trace."""
    found = list[Any]()
    for i, e in enumerate(events):
        if failed := refused(trace, [e]):
            raise ValueError(f"{name}: event {i} of the undamaged trace is refused: {failed}")
        standing = resumed(trace, states_of(trace)).standing()
        if standing is None:
            return []
        found.append(standing)
    return found


def stands_as(trace: Trace, standings: list[Any], left: int) -> bool:
    """Return whether a damaged trace, with so many events to come, stands as the good one does then. `standings`: of the good
    trace after each event behind the damage."""
    return left < len(standings) and trace.standing() == standings[len(standings) - 1 - left]


def measure(traces: Iterable[Good]) -> Tally:
    tally = Tally(Counter(), Counter(), Counter(), [], Counter(), {})

    def each(e: Event, found: Damage, noticed: bool) -> None:
        cell = kind_of(e), found.kind, found.field
        tally.tried[cell] += 1
        tally.noticed[cell] += noticed

    for good in traces:
        tally.why.update((name, why) for of in (good.of.equivalences, good.of.responses) for name, (why, _) in of.items())
        for survivor in survivors(good, each):
            name = reason(survivor, good.of)
            tally.survived[name] += 1
            if not name:
                tally.holes.append(told(good, survivor))
                tally.unexplained[kind_of(survivor.before), survivor.damage.kind, survivor.damage.field] += 1
    return tally


def reason(s: Survivor, of: Knowledge) -> str:
    """Return the name of the equivalence that explains the survivor, or "". A lost request is one that need not be sent."""
    if s.damage.kind not in KINDS:
        return explained(s, of.equivalences)
    found = explained(s, of.responses)
    if found or s.damage.kind != LOST:
        return found
    return explained(s._replace(damage=dropped(s.good, s.damage.at)), of.equivalences)


def told(good: Good, s: Survivor) -> str:
    e, how = s.before, s.damage
    if how.kind in KINDS:
        return f"{good.name}: {described(s)}"
    what = f"{how.kind} {how.field} {getattr(e, how.field)!r} -> {getattr(s.after, how.field)!r}" if how.field else \
        f"{how.kind}{f' with {how.to}' * (how.to != how.at)}"
    return f"{good.name}: event {how.at}, {e.client} {kind_of(e)} {e.key}: {what}"


def described(s: Survivor) -> str:
    """Return what was damaged, in words."""
    e, at, to = s.before, s.damage.at, s.damage.to
    where = f"{at}, {e.client} {kind_of(e)} {e.key}".rstrip()
    if s.damage.kind == EARLY:
        return f"{to}, {said(s.good[to])} -> before {where}"
    if s.damage.kind in (ANOTHER, WRONG):
        return f"{at}, {said(e)} -> also {s.damage.events[at + 1].client}"
    if s.damage.kind == VALUE:
        return f"{at}, {said(e)} -> {said(s.after)}"
    return where


def said(e: Event) -> str:
    words = (e.client, e.op, e.key, e.body.decode("ascii", "replace"), *e.keys[:2], *e.keys[3:])
    return " ".join(word for word in words if word)


# --- in tables

def rate(tally: Tally, chosen: Callable[[tuple], bool]) -> str:
    tried, noticed = (sum(n for cell, n in count.items() if chosen(cell)) for count in (tally.tried, tally.noticed))
    return f"{noticed:,}/{tried:,}" if tried else ""


def by_event(tally: Tally) -> list[list[str]]:
    """Make the table of noticed/tried, by kind of event and kind of damage."""
    columns = {**{kind: (kind,) for kind in IN_PLACE}, "response": KINDS, "all": (*IN_PLACE, *KINDS)}
    rows = [["event", *columns]]
    for kind in [*sorted({cell[0] for cell in tally.tried}), ""]:
        rows.append([kind or "all", *(rate(tally, lambda cell: (not kind or cell[0] == kind) and cell[1] in how)  # noqa: B023
                                      for how in columns.values())])
    return rows


def by_field(tally: Tally) -> list[list[str]]:
    return [["field", "noticed"], *([field, rate(tally, lambda cell: cell[2] == field)] for field in EDITS)]  # noqa: B023


def by_equivalence(tally: Tally) -> list[list[str]]:
    return [["survivors", "how many", "why the trace is still possible"],
            *([name, f"{tally.survived[name]:,}", why] for name, why in tally.why.items() if tally.survived[name])]


def by_kind(tally: Tally) -> list[list[str]]:
    """Make the table of the unexplained survivors, the most frequent kind first."""
    return [["unexplained", "damage", "how many"],
            *([kind, f"{how} {field}".strip(), f"{many:,}"] for (kind, how, field), many in sorted(
                tally.unexplained.items(), key=lambda item: (-item[1], item[0])))]
