"""Decide which waiting event happens next. Every decision gives a legal run.

A strategy has three methods: `begin` a run, `pick` a waiting event, and `ran`, which reports the event that happened. Its own
random numbers are not on the tape; its picks are. So a tape means the same with any strategy. Pick 0 is the earliest event, and
a run with only such picks is a run without a strategy.

`times` is the absence of a strategy: events happen at their times, which are drawn, with stalls around the protocol's own
constants (faults.py).
"""

from collections.abc import Callable
from typing import Any, Protocol

from highwater.dst.sim.dependency import dependent
from highwater.dst.sim.kernel import Delivery, Event, Request

Draw = Callable[[int], int]  # draw(bound) -> 0..bound-1


class Strategy(Protocol):
    def begin(self, draw: Draw, length: int) -> None:
        """Begin a run. `draw` gives the strategy's random numbers; a run of this shape has about `length` picks."""

    def pick(self, events: list[Event]) -> int:
        """Return the place of the next event. `events` has at least two, sorted by time."""
        ...

    def ran(self, event: Event, left: list[Event]) -> None:
        """Note that `event` was picked; `left` are the events that may still happen."""


class Random:
    """Picks every event with equal probability."""

    def begin(self, draw: Draw, length: int) -> None:
        self.draw = draw

    def pick(self, events: list[Event]) -> int:
        return self.draw(len(events))

    def ran(self, event: Event, left: list[Event]) -> None:
        pass


class PCT:
    """Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010).

    The client with the highest priority continues. At depth - 1 places drawn in advance, the client that has just continued
    falls to a drawn rank below all that never fell. Depths 2 to 5 are drawn. A client of low priority is one that stalls. With
    n clients and k steps, a bug of depth d shows with probability at least 1 / (n k^(d-1))."""

    def __init__(self, depth: int = 0):
        self.depth = depth  # 0: drawn

    def begin(self, draw: Draw, length: int) -> None:
        self.draw, self.step = draw, 0
        depth = self.depth or 2 + draw(4)
        self.changes = {1 + draw(max(length, 1)): -rank for rank in range(1, depth)}  # step -> the priority after it
        self.priorities: dict[str, int] = {}

    def pick(self, events: list[Event]) -> int:
        return highest(self.priorities, [event.owner for event in events], self.draw)

    def ran(self, event: Event, left: list[Event]) -> None:
        self.step += 1
        if self.step in self.changes:
            self.priorities[event.owner] = self.changes[self.step]


class POS:
    """Partial order sampling (Yuan et al., CAV 2018).

    Each event has a random priority, and the highest happens. Events that race with it, as `dependent` says, get new
    priorities."""

    def begin(self, draw: Draw, length: int) -> None:
        self.draw, self.priorities = draw, {}

    def pick(self, events: list[Event]) -> int:
        return highest(self.priorities, [event.number for event in events], self.draw)

    def ran(self, event: Event, left: list[Event]) -> None:
        sent = sent_in(event)
        for other in left:
            if racing(sent, sent_in(other)):
                self.priorities.pop(other.number, None)


def highest(priorities: dict[Any, int], keys: list[Any], draw: Draw) -> int:
    """Return the place of the key with the highest priority. Keys without one get a random one."""
    for key in keys:
        if key not in priorities:
            priorities[key] = draw(1 << 30)
    ranks = [priorities[key] for key in keys]
    return ranks.index(max(ranks))


def request_of(event: Event) -> Request | None:
    return next((arg for arg in event.args if type(arg) is Request), None)


def sent_in(event: Event) -> Request | Delivery | None:
    """Return the request or the message that is under way in an event."""
    return next((arg for arg in event.args if type(arg) in (Request, Delivery)), None)


def racing(one: Request | Delivery | None, other: Request | Delivery | None) -> bool:
    """Tell whether the order of two events may matter. An event that is neither, such as a wake-up, races with nothing."""
    return one is not None and other is not None and dependent(one, other)


STRATEGIES: dict[str, Any] = {"times": None, "random": Random, "pct": PCT, "pos": POS}
PORTFOLIO = ("times", "times", "times", "times", "pct", "pct", "pos", "random")  # one is drawn for each run
