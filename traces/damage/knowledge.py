"""What has to be known of a protocol to damage its traces, and to tell a harmless damage from a hole in the checker.

The machinery works without it, as GENERALLY says. A protocol that knows more says so in traces/damage/protocols/STEM.py.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from highwater.traces.damage.damage import others
from highwater.traces.damage.survivors import GENERAL, Equivalences
from highwater.traces.event import Event


def no_history(good: list[Event], where: Any, least_ms: int) -> Callable[[list[Event]], bool]:
    """Nothing is known of what callers may see: refinement alone judges."""
    return lambda events: False


class Knowledge(NamedTuple):
    """`contents(events, i)`: other contents for event `i`. `history(good, where, least_ms)` returns a function that tells
    whether the callers' history of a damaged trace shows harm. `equivalences`: why a survivor is no damage. `complete`: these
    explain every survivor, so that one without an explanation is a hole in the checker."""

    contents: Callable[[list[Event], int], Iterable[bytes]] = others
    history: Callable[[list[Event], Any, int], Callable[[list[Event]], bool]] = no_history
    equivalences: Equivalences = GENERAL
    complete: bool = False


GENERALLY = Knowledge()
