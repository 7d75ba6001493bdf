"""Safety: what the checker lets pass of damaged traces is counted, and each survivor has its explanation or is a hole.

A damaged trace goes on from where the good one was, so that its beginning is checked once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from typing import NamedTuple

from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.layout import InvalidName, Namespace
from highwater.traces.damage.damage import EDITS, KINDS_OF_DAMAGE, Damage, damages, spread
from highwater.traces.damage.survivors import EQUIVALENCES, Survivor, explained
from highwater.traces.event import Event
from highwater.traces.form import READS
from highwater.traces.histories.history import damage, too_young
from highwater.traces.protocols.sequenced_metadata_boundary import Trace
from highwater.traces.refine import Failure


class Good(NamedTuple):
    """A trace that is as it should be, and what it is to be held against."""

    name: str  # a file, or a seed
    events: list[Event]
    begin: Callable[[], Trace]  # a new one
    least_ms: int = 0  # age at which a file may be deleted; 0: any


class Tally(NamedTuple):
    """By kind of event, kind of damage and field: how many were tried, and how many were noticed."""

    tried: Counter
    noticed: Counter
    survived: Counter  # by equivalence
    holes: list[str]  # survivors that nothing explains, in words


def kind_of(e: Event) -> str:
    boundary = " boundary" * e.key.endswith(".boundary")
    if e.kind == "told":
        return f"told {e.op}"
    if e.kind != "applied":
        return f"{'read' if e.op in READS else 'write'}: {e.kind}{', under way' * e.pending}"
    if not e.awaited:
        return f"{'read' if e.op in READS else 'write'}: nobody waits"
    return f"{e.op}{boundary}: {e.status}"


def resumed(trace: Trace, states: tuple[int, ...]) -> Trace:
    """A trace that goes on from where this one is, without touching it."""
    again = copy(trace)
    vars(again).update({name: copy(value) for name, value in vars(trace).items() if isinstance(value, (list, dict))})
    again.refiner.states = states
    return again


def refused(trace: Trace, rest: list[Event]) -> str:
    """The failure's signature, or ""."""
    try:
        for e in rest:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


def history(events: list[Event], where: Namespace, final: bytes, least_ms: int) -> bool:
    """Whether the callers' history tells that something is wrong, as in the end of a simulation."""
    try:
        return bool(damage(events, where, final) or (least_ms and too_young(events, where, least_ms)))
    except (InvalidManifest, InvalidName):
        return True


def latest(events: Iterable[Event], where: Namespace) -> bytes:
    """The content of the latest file in the end."""
    objects = {where.key(1): b'{"checkpoints":[],"updates":[]}'}
    for e in events:
        if e.kind == "applied" and e.key.startswith(where.prefix):
            if e.op == "create" and e.status == 200:
                objects[e.key] = e.body
            elif e.op == "delete":
                objects.pop(e.key, None)
    return objects[max(objects)]


def survivors(good: Good, each: Callable[[Event, Damage, bool], None]) -> Iterator[Survivor]:
    """Those of all damages to one trace; `each` is told of all of them. Raises ValueError for a trace that is not good."""
    events, trace = spread(good.events), good.begin()
    where, refiner = trace.namespace, trace.refiner
    final = latest(events, where)
    for i, e in enumerate(events):
        states, here = refiner.states, resumed(trace, refiner.states)
        knew = {client: refiner.local(client) for client in refiner.index if client}
        failed = refused(trace, [e])
        if failed:
            raise ValueError(f"{good.name}: event {i} of the trace itself is refused: {failed}")
        after = refiner.states
        for found in damages(events, i):
            noticed = refused(resumed(here, states), found.events[i:]) or history(found.events, where, final, good.least_ms)
            each(e, found, bool(noticed))
            if not noticed:
                yield Survivor(events, found, where, knew)
        refiner.states = after
    if history(events, where, final, good.least_ms):
        raise ValueError(f"{good.name}: the callers' history of the trace itself is refused")


def measure(traces: Iterable[Good]) -> Tally:
    tally = Tally(Counter(), Counter(), Counter(), [])

    def each(e: Event, found: Damage, noticed: bool) -> None:
        cell = kind_of(e), found.kind, found.field
        tally.tried[cell] += 1
        tally.noticed[cell] += noticed

    for good in traces:
        for survivor in survivors(good, each):
            name = explained(survivor)
            tally.survived[name] += 1
            if not name:
                tally.holes.append(told(good, survivor))
    return tally


def told(good: Good, s: Survivor) -> str:
    e, how = s.before, s.damage
    what = f"{how.kind} {how.field} {getattr(e, how.field)!r} -> {getattr(s.after, how.field)!r}" if how.field else \
        f"{how.kind}{f' with {how.to}' * (how.to != how.at)}"
    return f"{good.name}: event {how.at}, {e.client} {kind_of(e)} {e.key}: {what}"


# --- in tables

def rate(tally: Tally, chosen: Callable[[tuple], bool]) -> str:
    tried, noticed = (sum(n for cell, n in count.items() if chosen(cell)) for count in (tally.tried, tally.noticed))
    return f"{noticed:,}/{tried:,}" if tried else ""


def by_event(tally: Tally) -> list[list[str]]:
    """Noticed/tried, of each kind of event by kind of damage."""
    rows = [["event", *KINDS_OF_DAMAGE, "all"]]
    for kind in [*sorted({cell[0] for cell in tally.tried}), ""]:
        rows.append([kind or "all", *(rate(tally, lambda cell: (not kind or cell[0] == kind) and how in ("", cell[1]))  # noqa: B023
                                      for how in (*KINDS_OF_DAMAGE, ""))])
    return rows


def by_field(tally: Tally) -> list[list[str]]:
    return [["field", "noticed"], *([field, rate(tally, lambda cell: cell[2] == field)] for field in EDITS)]  # noqa: B023


def by_equivalence(tally: Tally) -> list[list[str]]:
    return [["survivors", "how many", "why they are no damage"],
            *([name, f"{tally.survived[name]:,}", why] for name, (why, _) in EQUIVALENCES.items() if tally.survived[name])]
