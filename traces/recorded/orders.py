"""Safety: a log passes only if its requests have an order that their times allow, in which each could be answered as it was.

Of a program that nobody instrumented no linearization point is known: a request took effect between `sent` and `answered`, and
one that has no answer at any time after it was sent, or never. So orders are searched, depth first, until one is complete. A
read that could be answered so now is taken at once: it changes nothing that others are answered by, so no order is lost. (But
one that tells what nobody knew settles what was there before: whoever makes the steps says of it that it changes.) Of
changes that overlap each may come first; a point from which no order was complete is not entered again.

    machine.take(step) -> Refusal | None    takes it, or tells why it cannot be next
    machine.mark(), undo(mark), digest()    where it is; back to there; a value that is equal only where all is

Nothing here knows a protocol.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

NEVER = 1 << 62  # when what has no answer was answered
BUDGET = 2_000_000  # steps of a search


class Step(NamedTuple):
    """A request, or one of the keys that a request is about. `what`: the machine's."""

    number: int  # its own
    sent: int
    answered: int  # NEVER
    changes: bool
    what: Any


class Refusal(NamedTuple):
    """Why a step cannot be next: which guard does not hold. `harm`: a property fails, it is not only an action that is not
    possible."""

    guard: str
    why: str
    harm: bool = False


class Found(NamedTuple):
    """`verdict`: complete; stuck: no order is; undecided: none was found within the budget. `matched`: how many steps the
    longest order has; `refused`: each step that by its time could come next, and why it cannot."""

    verdict: str
    matched: int
    tried: int
    refused: tuple[tuple[Step, Refusal], ...] = ()


class Machine(Protocol):
    def take(self, step: Step) -> Refusal | None: ...
    def mark(self) -> int: ...
    def undo(self, mark: int) -> None: ...
    def digest(self) -> Any: ...


class Point(NamedTuple):
    """Where a change was taken: back here, the next of `left` is tried."""

    mark: int
    matched: int
    following: int
    under_way: tuple[Step, ...]
    left: list[Step]


def search(steps: Sequence[Step], machine: Machine, budget: int = BUDGET) -> Found:
    """`steps` in the order of `sent`. The machine is left where the order ends that is complete, or was tried last."""
    following = matched = tried = 0
    under_way: list[Step] = []
    points: list[Point] = []
    dead: dict[tuple, set] = {}  # key_of -> digests: from here no order is complete
    best = Found("stuck", -1, 0)
    while True:
        following = begun(steps, following, under_way)
        if following == len(steps) and all(step.answered == NEVER for step in under_way):
            return Found("complete", matched, tried)
        refused: list[tuple[Step, Refusal]] = []
        for step in under_way:
            if not step.changes:
                tried += 1
                refusal = machine.take(step)
                if refusal is None:
                    break
                refused.append((step, refusal))
        else:
            left = sorted((step for step in under_way if step.changes), key=lambda step: -step.answered)
            digests = dead.get(key_of(under_way, following)) if dead else None
            if digests and machine.digest() in digests:
                left = []
            points.append(Point(machine.mark(), matched, following, tuple(under_way), left))
            step = None
        while step is None:
            if not points:
                return best._replace(tried=tried)
            if tried > budget:
                return best._replace(verdict="undecided", tried=tried)
            point = points[-1]
            machine.undo(point.mark)
            if point.left:
                tried += 1
                refusal = machine.take(point.left[-1])
                if refusal is None:
                    step = point.left.pop()
                    following, matched, under_way = point.following, point.matched, list(point.under_way)
                elif point.matched >= best.matched:
                    refused.append((point.left.pop(), refusal))
                else:
                    point.left.pop()
            else:
                if point.matched > best.matched:
                    best = Found("stuck", point.matched, 0, tuple(refused))
                dead.setdefault(key_of(point.under_way, point.following), set()).add(machine.digest())
                points.pop()
                refused = []
        under_way.remove(step)
        matched += 1


def begun(steps: Sequence[Step], following: int, under_way: list[Step]) -> int:
    """Puts under way what may be next: what was sent before anything that is under way was answered."""
    first = min((step.answered for step in under_way), default=NEVER)
    while following < len(steps) and steps[following].sent < first:
        under_way.append(steps[following])
        first = min(first, steps[following].answered)
        following += 1
    return following


def key_of(under_way: Sequence[Step], following: int) -> tuple:
    return following, tuple(sorted(step.number for step in under_way))
