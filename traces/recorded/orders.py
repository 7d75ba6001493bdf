"""Safety: a log passes only if its requests have an order that their times allow and that explains every answer.

In a program without instrumentation no linearization point is known. A request took effect between `sent` and `answered`; one
without an answer did so at any time after it was sent, or never. So orders are searched, depth first, until one is complete. A
read that could be answered now is taken at once: it changes no other answer, so no order is lost. One kind of read is an
exception: the first to tell what a key holds settles what was there before, and is declared as a change. Of changes that
overlap, each may come first. A point from which no order was complete is not entered again.

    machine.take(step) -> Refusal | None    takes the step, or says why it cannot be next
    machine.mark(), undo(mark), digest()    its position; return to it; a value that is equal only for equal states

Nothing here depends on a protocol.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

NEVER = 1 << 62  # the value of `answered` if there was no answer
BUDGET = 2_000_000  # limit for the steps of a search


class Step(NamedTuple):
    """A request, or the part of a request that concerns one key. `what` belongs to the machine."""

    number: int  # unique
    sent: int
    answered: int  # NEVER without an answer
    changes: bool
    what: Any


class Refusal(NamedTuple):
    """The reason why a step cannot be next: the guard that does not hold. With `harm` a property fails, not only a guard.

    `explain` finds the guard, which takes time, and is called only for what a search returns.
    """

    guard: str
    why: str
    harm: bool = False
    needs: str = ""  # the guard as a model's source has it, with its line and operands
    explain: "Callable[[Refusal], Refusal] | None" = None


class Found(NamedTuple):
    """The result of a search.

    `verdict` is complete, stuck (no order is complete) or undecided (none was found within the budget). `matched` is the length
    of the longest order. `refused` has each step that by its time could come next, with the reason why it cannot.
    """

    verdict: str
    matched: int
    tried: int
    refused: tuple[tuple[Step, Refusal], ...] = ()


class Machine(Protocol):
    """The state of a search, as one system's rules define it."""

    def take(self, step: Step) -> Refusal | None: ...
    def mark(self) -> int: ...
    def undo(self, mark: int) -> None: ...
    def digest(self) -> Any: ...


class Point(NamedTuple):
    """A point at which a change was taken; after backtracking the next of `left` is tried."""

    mark: int
    matched: int
    following: int
    under_way: tuple[Step, ...]
    left: list[Step]


def search(steps: Sequence[Step], machine: Machine, budget: int = BUDGET) -> Found:
    """Search for an order of `steps`, which must be sorted by `sent`.

    The machine is left at the end of the complete order, or of the order tried last.
    """
    following = matched = tried = 0
    under_way: list[Step] = []
    points: list[Point] = []
    dead: dict[tuple, set] = {}  # key_of -> digests of states from which no order is complete
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
                return explained(best._replace(tried=tried))
            if tried > budget:
                return explained(best._replace(verdict="undecided", tried=tried))
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


def explained(found: Found) -> Found:
    return found._replace(refused=tuple((step, of.explain(of) if of.explain else of) for step, of in found.refused))


def begun(steps: Sequence[Step], following: int, under_way: list[Step]) -> int:
    """Add the steps that may come next to `under_way`: those sent before any step in it was answered. Return the next index."""
    first = min((step.answered for step in under_way), default=NEVER)
    while following < len(steps) and steps[following].sent < first:
        under_way.append(steps[following])
        first = min(first, steps[following].answered)
        following += 1
    return following


def key_of(under_way: Sequence[Step], following: int) -> tuple:
    return following, tuple(sorted(step.number for step in under_way))
