"""Safety: a history of calls is accepted only if an order of them explains every result of an object given as a function.

The object is any deterministic function (state, call) -> (state, result). Objects that no call shares are judged one by one:
the caller splits the history by key.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from highwater.traces.histories.order import stuck


class Call(NamedTuple):
    """One call of a client, and its result."""

    asked: Any
    called: int  # `called` and `returned` are ordinals of one sequence for the whole history
    returned: int | None = None  # None: no result is known; it may have had its effect at any time after `called`, or have none
    result: Any = None


Rule = Callable[[Any, Any], tuple[Any, Any]]


def unexplained(history: Sequence[Call], initial: Hashable, rule: Rule) -> str:
    """Return why no order of the calls explains the results of the object; "" if one does. Raises ValueError for a call that
    returned before it was made."""
    for call in history:
        if call.returned is not None and call.returned <= call.called:
            raise ValueError(f"a call that returned before it was made: {call}")

    def applied(call: Call, state: Any) -> tuple[bool, Any]:
        after, result = rule(state, call.asked)
        return call.returned is None or result == call.result, after

    found = stuck(sorted(history, key=lambda call: call.called), initial, applied)
    if found is None:
        return ""
    done, left = found
    return f"{done} calls have an order, but none of these can be the next: " + "; ".join(
        f"{call.asked} [{call.called}, {call.returned}] -> {call.result!r}" for call in left)
