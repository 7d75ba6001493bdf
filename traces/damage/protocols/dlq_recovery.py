"""Define what else may hold of a damaged trace of dead letters.

A sweeper may leave a letter at any time without a request: its node may not lead. A compactor knows nothing of its last
request.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but
from highwater.traces.event import Event


def has_no_effect(e: Event) -> bool:
    """Return whether a request without a reply never reaches the store."""
    return e.kind == "timeout" and not e.pending


def of_a_sweep(e: Event) -> bool:
    return not e.client.startswith("Writer")


def left(s: Survivor) -> bool:
    """Return whether a sweeper or compactor sends one request less, or another one does, that has no effect."""
    return of_a_sweep(s.before) and has_no_effect(s.before) and (s.damage.kind == "drop" or same_but(s, "client", "awaited"))


def compactor_ends(s: Survivor) -> bool:
    """Return whether a compactor crashes in place of a time-out, or the other way round."""
    return s.before.client.startswith("Compactor") and same_but(s, "kind") and {s.before.kind, s.after.kind} == {
        "timeout", "crash"}


def another_sweep(s: Survivor) -> bool:
    """Return whether another sweeper is told that its sweep has ended, which has listed all letters as well."""
    return s.before.kind == "told" and of_a_sweep(s.before) and of_a_sweep(s.after) and same_but(s, "client")


KNOWLEDGE = Knowledge(held=4, equivalences={
    **OF_ALL,
    "left": ("a sweeper may leave a letter at any time, and a request that never arrives changes nothing", left),
    "another sweep": ("the other sweeper has listed all letters, too", another_sweep),
    "compactor ends": ("a time-out and a crash are the same to a compactor, which begins anew", compactor_ends),
})
