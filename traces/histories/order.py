"""Safety: a history is accepted only if its operations have an order that respects time and explains every reply.

The search of Wing and Gong, as in Lowe's variant: take any operation that was called before the first return among those left,
ask whether the object can answer so, go on, and backtrack. The pairs (set of operations done, state) that were tried are
remembered. An operation without a return may have happened or not, at any time after its call.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar


class Timed(Protocol):
    """An operation: ordinals of one sequence for the whole history."""

    @property
    def called(self) -> int: ...

    @property
    def returned(self) -> int | None:
        """None: no response."""
        ...


Operation = TypeVar("Operation", bound=Timed)


def stuck(history: Sequence[Operation], initial: Hashable, applied: Callable[[Operation, Any], tuple[bool, Hashable]]
          ) -> tuple[int, list[Operation]] | None:
    """Search depth first for an order; return None if there is one.

    Otherwise return how many operations have an order at most, and the answered ones of which none can be the next.
    `applied` tells whether the object may answer an operation so in a state, and its state afterwards. A state of the search is
    the set of operations done, as bits, and the object's state.
    """
    must = sum(1 << i for i, o in enumerate(history) if o.returned is not None)
    stack: list[tuple[int, Hashable]] = [(0, initial)]
    tried = set(stack)
    furthest = 0
    while stack:
        done, found = stack.pop()
        if done & must == must:
            return None
        furthest = max(furthest, done & must, key=int.bit_count)
        for i in candidates(history, done):
            possible, after = applied(history[i], found)
            state = done | 1 << i, after
            if possible and state not in tried:
                tried.add(state)
                stack.append(state)
    left = [history[i] for i in candidates(history, furthest) if history[i].returned is not None]
    return furthest.bit_count(), left


def candidates(history: Sequence[Operation], done: int) -> list[int]:
    """Return the operations left that were called before any other operation left had returned; the first to return is last, so
    that it is tried first."""
    left = [i for i in range(len(history)) if not done >> i & 1]
    first = min((end for i in left if (end := history[i].returned) is not None), default=None)
    chosen = [i for i in left if first is None or history[i].called < first]
    return sorted(chosen, key=lambda i: (history[i].returned is not None, -(history[i].returned or 0)))
