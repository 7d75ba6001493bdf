"""Define what else may hold of a damaged trace of an index's retention.

Writers and the worker have no state in the model: they may do at any time what they do, and are told nothing.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but
from highwater.traces.event import Event


def is_free(e: Event) -> bool:
    return e.client.startswith("W")


def changes_nothing(e: Event) -> bool:
    return (e.kind in ("timeout", "refused") and not e.pending) or (e.kind == "applied" and (e.op, e.status) in (
        ("create", 412), ("list", 200)))


def another_writer(s: Survivor) -> bool:
    """Return whether another writer does the same."""
    return is_free(s.before) and is_free(s.after) and same_but(s, "client")


def in_vain(s: Survivor) -> bool:
    """Return whether a writer or the worker sends a request more or less that changes nothing."""
    return is_free(s.before) and changes_nothing(s.before) and (
        s.damage.kind in ("drop", "repeat") or s.damage.kind.startswith("swap") or same_but(s, "awaited", "client"))


def ends(s: Survivor) -> bool:
    """Return whether a writer or the worker crashes in place of a time-out, or the other way round."""
    return is_free(s.before) and same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"}


def another_leads(s: Survivor) -> bool:
    """Return whether another node begins a term of which nobody makes use."""
    return s.before.key == "index/lead" and same_but(s, "client")


KNOWLEDGE = Knowledge(equivalences={
    **OF_ALL,
    "another writer": ("any writer may write and add any block", another_writer),
    "in vain": ("the worker and writers may ask for what changes nothing, or not", in_vain),
    "another leads": ("nobody makes use of the term, so any node may have begun it", another_leads),
    "ends": ("a time-out and a crash are the same to the worker and writers, which begin anew", ends),
})
