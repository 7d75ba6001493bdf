"""Define what else may hold of a damaged trace of an index's readers.

Writers, the worker and the operator have no state in the model: they may do at any time what they do, and are told nothing.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.protocols.index_retention import last_entry, not_needed
from highwater.traces.damage.survivors import ENDS, Survivor, of_client, same_but
from highwater.traces.event import EMPTY, Event
from highwater.traces.protocols.index_reads import READ


USES = ("get", "read")  # what a reader does with an answer, and what its caller is told then


def is_free(e: Event) -> bool:
    return not e.client.startswith("Reader")


def changes_nothing(e: Event) -> bool:
    return (e.kind in ENDS and not e.pending) or (e.kind == "applied" and (
        e.op in ("list", "get") or (e.op, e.status) == ("create", 412)))


def another_does(s: Survivor) -> bool:
    """Return whether another client of a kind without a state does the same."""
    return same_but(s, "client") and is_free(s.before) and is_free(s.after)


def in_vain(s: Survivor) -> bool:
    """Return whether such a client sends a request more or less that changes nothing."""
    return is_free(s.before) and changes_nothing(s.before) and (
        s.damage.kind in ("drop", "repeat") or s.damage.kind.startswith("swap") or same_but(s, "awaited", "client", "key"))


def ends(s: Survivor) -> bool:
    """Return whether such a client crashes in place of a time-out, or the other way round."""
    return is_free(s.before) and same_but(s, "kind") and {s.before.kind, s.after.kind} == {"timeout", "crash"}


def asks_in_vain(s: Survivor) -> bool:
    """Return whether another client reads the index. A reader that did makes no use of the answer, and one that does has read no
    object of the answer before."""
    if s.before.key != READ or not same_but(s, "client"):
        return False
    own, other = (next(of_client(e, s.rest), EMPTY) for e in (s.before, s.after))
    before = next(of_client(s.after, reversed(s.good[:s.damage.at])), EMPTY)
    return (is_free(s.before) or own.op not in USES) and (
        is_free(s.after) or other.op not in USES or (before.kind, before.key) == ("applied", READ))


def deletes_another(s: Survivor) -> bool:
    """Return whether the worker deletes another object, and nobody looks for either afterwards."""
    keys = {s.before.key, s.after.key} if same_but(s, "key") and s.before.op == "delete" else {""}
    return "" not in keys and not any(keys & {o.key, *o.keys} for o in s.rest)


def reads_less(s: Survivor) -> bool:
    """Return whether a reader leaves out an object, and its caller is not told that all are read."""
    e, after = s.before, [o for o in of_client(s.before, s.rest) if o.kind in ("told", "crash") or o.key == READ][:1]
    return s.damage.kind == "drop" and (e.kind, e.op) == ("applied", "get") and not any(o.op == "read" for o in after)


KNOWLEDGE = Knowledge(held=4, equivalences={
    **OF_ALL,
    "another does": ("the worker, writers and the operator may do at any time what they do", another_does),
    "in vain": ("they may ask for what changes nothing, or not", in_vain),
    "not needed": ("nobody lists or deletes the object, and it was written before or is not added", not_needed),
    "last entry": ("no entry follows that shows whether it is there", last_entry),
    "asks in vain": ("any client may read the index at any time, and has no use for the answer", asks_in_vain),
    "reads less": ("a reader may leave out an object, if its caller is not told that it has read all", reads_less),
    "deletes another": ("nobody looks for the objects any more, and a worker may delete late or once more", deletes_another),
    "ends": ("a time-out and a crash are the same to who begins anew", ends),
})
