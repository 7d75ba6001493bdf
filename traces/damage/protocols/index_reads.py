"""Define what else may hold of a damaged trace of an index's readers.

Writers, the worker and the operator have no state in the model: they may do at any time what they do, and are told nothing.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.protocols.index_retention import last_entry, not_needed
from highwater.traces.damage.survivors import ENDS, Survivor, of_client, same_but
from highwater.traces.event import EMPTY, Event
from highwater.traces.protocols.index_reads import READ


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


def another_asks(s: Survivor) -> bool:
    """Return whether another client reads the index. A reader that does begins anew, and the call before is told nothing."""
    return s.before.key == READ and same_but(s, "client")


def deletes_another(s: Survivor) -> bool:
    """Return whether the worker deletes another object, and nobody looks for either afterwards."""
    keys = {s.before.key, s.after.key} if same_but(s, "key") and s.before.op == "delete" else {""}
    return "" not in keys and not any(keys & {o.key, *o.keys} for o in s.rest)


def all_are_read(e: Event, s: Survivor) -> bool:
    """Return whether the caller of a reader is told that all objects are read."""
    end = next((o for o in of_client(e, s.rest) if o.kind in ("told", "crash") or o.key == READ), EMPTY)
    return end.op == "read"


def reads_less(s: Survivor) -> bool:
    """Return whether a reader leaves out an object, or another one reads it, and no caller is told that all are read."""
    e = s.before
    if (e.kind, e.op) != ("applied", "get") or not (s.damage.kind == "drop" or same_but(s, "client")):
        return False
    return not any(all_are_read(o, s) for o in ((e, s.after) if s.damage.kind == "edit" else (e,)))


KNOWLEDGE = Knowledge(held=4, equivalences={
    **OF_ALL,
    "another does": ("the worker, writers and the operator may do at any time what they do", another_does),
    "in vain": ("they may ask for what changes nothing, or not", in_vain),
    "not needed": ("nobody lists or deletes the object, and it was written before or is not added", not_needed),
    "last entry": ("no entry follows that shows whether it is there", last_entry),
    "another asks": ("any client may read the index at any time, and a reader begins anew with it", another_asks),
    "reads less": ("a reader may leave out an object, if its caller is not told that it has read all", reads_less),
    "deletes another": ("nobody looks for the objects any more, and a worker may delete late or once more", deletes_another),
    "ends": ("a time-out and a crash are the same to who begins anew", ends),
})
