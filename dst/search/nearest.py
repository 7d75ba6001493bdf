"""Find the nearest passing run of a failing one. Safety: each reported change was tried, and with it alone the run passes.

The search makes one choice of the failing tape mild at a time, and runs the tape leniently. A fault does not happen, the
schedule picks the earliest event, or a time is the shortest. Among the changes that make the run pass, the nearest keep the
longest prefix of the trace.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from highwater.dst.scenarios import named
from highwater.dst.sim.alarm import MOST_HUNG
from highwater.dst.sim.choose import Choice
from highwater.dst.simulate import Outcome, stalls_ms
from highwater.dst.world.faults import FATES, LOG_UNIFORM
from highwater.dst.world.network import OPS, REFUSALS
from highwater.traces.event import Event

BUDGET = 400  # runs
REQUESTS = 60_000  # about so many requests in all: long runs are repeated less often
LONG = ("stall", "late", "crash", "cut_off")  # fates that draw times or kinds
DRAWN = ("crash", "late", "cut_off", "stall", "stall.around", "late.around", "restart", "restart.around")  # with a fate
FAULTS, PICKS, TIMES = range(3)  # they are tried and reported in this order


class Change(NamedTuple):
    """A choice of the tape made mild."""

    place: int  # in the tape
    kind: int
    words: str  # "Writer#1 had not stalled 340 ms at its 7th request"


class Passing(NamedTuple):
    change: Change
    outcome: Outcome
    parts: int  # number of the first event that differs


class Search(NamedTuple):
    passing: list[Passing]  # nearest first
    tried: int
    changes: int  # number of possible changes


def nearest(outcome: Outcome, run: Callable[[list[Choice]], Outcome | None], budget: int = BUDGET) -> Search:
    """Search for passing runs. `run` runs a tape leniently, and returns None if the run does not end. The search ends after a
    few such runs. Other choices are tried only if no change of a fault helps."""
    found: list[Passing] = []
    changes = sorted(changes_of(outcome), key=lambda change: (change.kind, -change.place))
    tried, hung, budget = 0, 0, min(budget, 10 + REQUESTS // max(outcome.requests, 1))
    for kind in (FAULTS, PICKS, TIMES):
        for change in changes if not found else ():
            if change.kind == kind and tried < budget and hung < MOST_HUNG:
                tried += 1
                other = run(without(outcome.tape, change))
                hung += other is None
                if other and not other.kind:
                    found.append(Passing(change, other, parting(outcome.events, other.events)))
    return Search(sorted(found, key=lambda passing: (-passing.parts, passing.change.place)), tried, len(changes))


def without(tape: list[Choice], change: Change) -> list[Choice]:
    """Return the tape with that choice 0. Choices drawn for a removed fault are removed too, so that no other fault takes
    them."""
    site, _, bound = tape[change.place]
    rest = change.place + 1
    if change.kind == FAULTS:
        rest += drawn_with(tape, change.place)
    return [*tape[:change.place], (site, 0, bound), *tape[rest:]]


def drawn_with(tape: list[Choice], place: int) -> int:
    """Return the number of choices after a fate that belong to it."""
    client, rest = tape[place][0].partition(".")[0], place + 1
    while rest < len(tape) and tape[rest][0].partition(".")[0] == client and tape[rest][0].partition(".")[2] in DRAWN:
        rest += 1
    return rest - place - 1


def parting(one: list[Event], other: list[Event]) -> int:
    """Return the first event at which two traces differ, apart from times and numbers of requests."""
    number = 0
    for number, (x, y) in enumerate(zip(one, other)):
        if x._replace(t_ms=0, request=0) != y._replace(t_ms=0, request=0):
            return number
    return min(len(one), len(other))


# --- what a choice was, in words ------------------------------------------------------------------------------------------

def changes_of(outcome: Outcome) -> Iterator[Change]:
    """Yield every choice that may be milder, except those drawn for the run as a whole."""
    requests: dict[str, int] = {}
    picks = 0
    around_ms = stalls_ms(named(outcome.scenario), outcome.shape)
    for place, (site, choice, _) in enumerate(outcome.tape):
        client, _, of = site.partition(".")
        picks += site == "schedule"
        if of in OPS:
            requests[client] = requests.get(client, 0) + 1
            if choice:
                own = {name.partition(".")[2]: value for name, value, _ in
                       outcome.tape[place + 1:place + 1 + drawn_with(outcome.tape, place)]}
                at = f"at its {ordinal(requests[client])} request ({of.replace('_', ' ')})"
                if FATES[choice] in LONG and not own:
                    continue  # the client was cut off then, so the fate had no effect
                yield Change(place, FAULTS, f"{client} had not {befell(FATES[choice], own, around_ms)} {at}")
        elif site == "schedule" and choice:
            yield Change(place, PICKS, f"the earliest event had happened at the {ordinal(picks)} choice of the schedule, not "
                         f"the {ordinal(choice + 1)}")
        elif of == "latency" and choice:
            yield Change(place, TIMES, f"the {ordinal(requests.get(client, 0) + 1)} request of {client} had not taken "
                         f"{choice} ms more than the least")
        elif of == "patience" and choice:
            yield Change(place, TIMES, f"{client} had not cancelled after {choice} ms the call that its "
                         f"{ordinal(requests.get(client, 0) + 1)} request begins")
        elif of in ("think", "pause") and choice:
            yield Change(place, TIMES, f"{client} had not waited {choice} ms more before its "
                         f"{ordinal(requests.get(client, 0) + 1)} request")
        elif of == "checkpoint" and choice:
            yield Change(place, TIMES, f"{client} had taken no checkpoint with the update that its "
                         f"{ordinal(requests.get(client, 0) + 1)} request begins")


def befell(fate: str, own: dict[str, int], around_ms: tuple[int, ...]) -> str:
    def long_ms(of: str) -> int:
        return LOG_UNIFORM[own[of]] * around_ms[own.get(f"{of}.around", 0)] // 1000 + 1

    match fate:
        case "stall":
            return f"stalled {long_ms('stall')} ms"
        case "late":
            return f"been told of a time-out {long_ms('late')} ms before the request arrived,"
        case "refused" | "conflict":
            return f"been answered {REFUSALS[fate]}"
        case "crash":
            return "crashed"
        case "cut_off":
            return f"been cut off for {long_ms('late')} ms"
        case _:
            return f"lost the {fate.removesuffix('_lost')}"


def ordinal(number: int) -> str:
    return f"{number}{'th' if 10 <= number % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def told(search: Search, outcome: Outcome, words: Callable[[Event], str]) -> str:
    """Describe which single choices make the difference, and what happens instead."""
    if not search.passing:
        of = "all" if search.tried == search.changes else f"{search.tried} of {search.changes}"
        return (f"The nearest passing run: none is one choice away ({of} single choices tried: faults, picks of the schedule, "
                "times). This failure does not hang on one of them.")
    (change, other, parts), *more = search.passing
    lines = [f"The nearest passing run: if {change.words}, nothing would have failed."]
    if parts < len(outcome.events):
        lines += [f"The traces part at event {parts}:", f"  this run:         {words(outcome.events[parts])}"]
        lines += ["  the passing run:  " + (words(other.events[parts]) if parts < len(other.events) else "is over")]
    lines += [f"Nor if {passing.change.words}." for passing in more[:2]]
    lines += [f"({len(search.passing)} of {search.tried} single choices tried make the difference.)"] if more else []
    return "\n".join(lines)
