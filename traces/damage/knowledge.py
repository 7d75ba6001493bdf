"""Define the knowledge of a protocol that damages its traces and tells a harmless damage from a hole in the checker.

GENERALLY holds for every protocol. A protocol with more knowledge has a module traces/damage/protocols/STEM.py.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.damage import others
from highwater.traces.damage.possible import OF_RESPONSES
from highwater.traces.damage.survivors import Clients, Equivalences
from highwater.traces.event import Event


def no_history(good: list[Event], where: Any, least_ms: int) -> Callable[[list[Event]], bool]:
    """Return a history check that accepts everything, so that refinement alone judges."""
    return lambda events: False


class Knowledge(NamedTuple):
    """Knowledge of one protocol.

    `contents(events, i)` yields other contents for event `i`. `history(good, where, least_ms)` returns a function: does the
    callers' history of a damaged trace show harm? `equivalences` explain survivors, and `responses` explain those of
    responses.KINDS. `complete`: they explain every survivor, so that an unexplained one is a hole in the checker. `clients`:
    what its clients may do. `held`: for so many simulated traces `highwater verify` requires that they do."""

    contents: Callable[[list[Event], int], Iterable[bytes]] = others
    history: Callable[[list[Event], Any, int], Callable[[list[Event]], bool]] = no_history
    equivalences: Equivalences = OF_ALL
    responses: Equivalences = OF_RESPONSES
    complete: bool = False
    clients: Clients = Clients()
    held: int = 0


GENERALLY = Knowledge()
