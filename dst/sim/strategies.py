"""Safety: none; a strategy says only which of the events that may happen next does. Whatever it says is a legal run.

A strategy has three methods: `begin` a run, `pick` one of the waiting events, and hear that it `ran`. Its own random numbers go
onto no tape, only its picks do, so that a tape means the same whatever strategy made it: pick 0 is the earliest event, and a
run of such picks is what would happen without any strategy.

`times` is none of these classes but the absence of one: events happen at their time, which is drawn, with stalls around the
protocol's own constants (faults.py).
"""

from collections.abc import Callable
from typing import Any, Protocol

from highwater.dst.sim.dependency import dependent
from highwater.dst.sim.kernel import Event, Request

Draw = Callable[[int], int]  # draw(bound) -> 0..bound-1


class Strategy(Protocol):
    def begin(self, draw: Draw, length: int) -> None:
        """`draw` gives the strategy's random numbers; a run of this shape takes about `length` picks."""

    def pick(self, events: list[Event]) -> int:
        """The place of the next one. `events` are sorted by their time, and at least two."""
        ...

    def ran(self, event: Event, left: list[Event]) -> None:
        """`event` is what was picked; `left` may still happen."""


class Random:
    """Any event is as likely as any other."""

    def begin(self, draw: Draw, length: int) -> None:
        self.draw = draw

    def pick(self, events: list[Event]) -> int:
        return self.draw(len(events))

    def ran(self, event: Event, left: list[Event]) -> None:
        pass


class PCT:
    """Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the client of the highest priority goes on; at
    depth - 1 places of the run, drawn before, who has just gone on falls behind all that never fell, to a rank that was
    drawn as well (so that who fell first may, or may not, go on first). One of depth 2 to 5 is drawn. A client of low
    priority is one that stalls. A bug of depth d among n clients and k steps shows with 1 / (n k^(d-1)) at least."""

    def __init__(self, depth: int = 0):
        self.depth = depth  # 0: drawn

    def begin(self, draw: Draw, length: int) -> None:
        self.draw, self.step = draw, 0
        depth = self.depth or 2 + draw(4)
        self.changes = {1 + draw(max(length, 1)): -rank for rank in range(1, depth)}  # after which step, to which priority
        self.priorities: dict[str, int] = {}

    def pick(self, events: list[Event]) -> int:
        return highest(self.priorities, [event.owner for event in events], self.draw)

    def ran(self, event: Event, left: list[Event]) -> None:
        self.step += 1
        if self.step in self.changes:
            self.priorities[event.owner] = self.changes[self.step]


class POS:
    """Partial order sampling (Yuan et al., CAV 2018): each event has a priority, and the highest happens; those that race
    with it, as `dependent` says, are given another."""

    def begin(self, draw: Draw, length: int) -> None:
        self.draw, self.priorities = draw, {}

    def pick(self, events: list[Event]) -> int:
        return highest(self.priorities, [event.number for event in events], self.draw)

    def ran(self, event: Event, left: list[Event]) -> None:
        request = request_of(event)
        for other in left:
            if racing(request, request_of(other)):
                self.priorities.pop(other.number, None)


def highest(priorities: dict[Any, int], keys: list[Any], draw: Draw) -> int:
    """The place of the key of the highest priority. One that has none is given one."""
    for key in keys:
        if key not in priorities:
            priorities[key] = draw(1 << 30)
    ranks = [priorities[key] for key in keys]
    return ranks.index(max(ranks))


def request_of(event: Event) -> Request | None:
    return next((arg for arg in event.args if type(arg) is Request), None)


def racing(one: Request | None, other: Request | None) -> bool:
    """Whether the order of two events may matter. What is no request (a client wakes up) races with nothing."""
    return one is not None and other is not None and dependent(one, other)


STRATEGIES: dict[str, Any] = {"times": None, "random": Random, "pct": PCT, "pos": POS}
PORTFOLIO = ("times", "times", "times", "times", "pct", "pct", "pos", "random")  # one of these is drawn for each run
