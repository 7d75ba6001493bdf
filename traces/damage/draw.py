"""Draw damages to the tie between responses and requests, judge each from the beginning of its trace, and list the survivors.

kills.py goes on from the middle of a trace, for damages in every place. Here a sample is judged as a recorded trace is, so the
judges that keep more than the states of one model are tested, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from highwater.traces.damage.damage import SWAP, Damage, dropped, spread, swapped
from highwater.traces.damage.kills import Good, described, reason, refused, updates_in
from highwater.traces.damage.possible import claims_nothing
from highwater.traces.damage.responses import ANOTHER, EARLY, EXCHANGE, LOST, VALUE, WRONG, Ties
from highwater.traces.damage.survivors import Survivor
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, READS

NO_WRITE, NO_READ, EARLY_READ = "drop a write", "drop a read", "read early"
LABELS = (EARLY, NO_WRITE, LOST, EXCHANGE, ANOTHER, WRONG, VALUE, NO_READ, EARLY_READ)


class Drawn(NamedTuple):
    """A drawn damage, and what became of it."""

    good: Good
    label: str  # one of LABELS
    survivor: Survivor | None  # None: the damage is noticed
    reason: str  # name of the equivalence that explains the survivor; "" for none


def labelled(events: list[Event], ties: Ties) -> Iterator[tuple[str, Damage]]:
    """Yield all damages to a trace's responses, and to the requests behind those that claim something."""
    for i, e in enumerate(events):
        yield from ((kind, Damage(kind, "", i, to, damaged)) for kind, to, damaged in ties.at(i))
        call = next((call for call in ties.by_request.get(i, ()) if not claims_nothing(events[call.told])), None)
        if call is None:
            continue
        if e.op in READS and e.kind == "applied":
            yield NO_READ, dropped(events, i)
        elif (e.op in MUTATIONS and e.kind == "applied" and e.status < 300) or (e.kind == "step" and "/" in e.client):
            yield NO_WRITE, dropped(events, i)
            j = next((j for j in call.requests if j > i and events[j].client == e.client), 0)
            if j and events[j].op in READS:
                yield EARLY_READ, swapped(events, i, j, SWAP)


def drawn(traces: Iterable[Good], number: int, seed: int = 0) -> Iterator[Drawn]:
    """Judge so many damages, of each label equally many as far as there are. The same seed draws the same ones. Raises
    ValueError for a bad trace."""
    pools: dict[str, list[tuple[Good, Damage, list[Event]]]] = {label: [] for label in LABELS}
    for good in traces:
        events = spread(good.events)
        if failed := refused(good.begin(), events):
            raise ValueError(f"{good.name}: the undamaged trace is refused: {failed}")
        for label, damage in labelled(events, Ties(events)):
            pools[label].append((good, damage, events))
    for pool in pools.values():
        pool.sort(key=lambda item: chance(seed, item[0].name, item[1]))
    while number > 0 and any(pools.values()):
        for label, pool in pools.items():
            if pool and number > 0:
                number -= 1
                yield judged(label, *pool.pop())


def chance(seed: int, name: str, damage: Damage) -> bytes:
    """Return a value that orders damages at random, the same in every process."""
    return blake2b(repr((seed, name, damage.kind, damage.at, damage.to)).encode(), digest_size=8).digest()


def judged(label: str, good: Good, damage: Damage, events: list[Event]) -> Drawn:
    trace = good.begin()
    harm = good.of.history(events, trace.namespace, good.least_ms)
    if refused(trace, damage.events) or harm(damage.events):
        return Drawn(good, label, None, "")
    survivor = Survivor(events, damage, trace.namespace, {}, good.of.clients, partial(updates_in, trace), good.roles)
    return Drawn(good, label, survivor, reason(survivor, good.of))


# --- in tables

def by_label(found: list[Drawn]) -> list[list[str]]:
    """Make the table of drawn, noticed, explained and unexplained damages, by label."""
    rows = [["damage", "drawn", "noticed", "explained", "unexplained"]]
    for label in (*LABELS, "all"):
        of = [one for one in found if label in (one.label, "all")]
        count = Counter("noticed" if one.survivor is None else "explained" if one.reason else "unexplained" for one in of)
        rows.append([label, str(len(of)), *(str(count[column]) for column in rows[0][2:])])
    return rows


def accepted(found: list[Drawn]) -> list[str]:
    """Return a line for each survivor: what was damaged, and the reason for which that is possible."""
    return [f"{one.good.name}: {one.label}: {described(one.survivor)}: {one.reason or 'UNEXPLAINED'}"
            for one in sorted(found, key=lambda one: LABELS.index(one.label)) if one.survivor is not None]
