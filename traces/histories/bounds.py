"""Checks that without faults an operation takes no more requests than its conflicts account for.

An update is LIST, GET the latest, PUT the next, GET the boundary. It starts again for two reasons: another client's file was
there first, or the file that it listed has been collected. A read is LIST, GET, GET the boundary. It starts again if that file
has been collected or is behind the boundary. Each of these is another client's request during this operation, and accounts for
one more round at most.
"""

from collections.abc import Iterable
from typing import NamedTuple

from highwater.impl.layout import Namespace
from highwater.traces.event import AWAITED, KIND, Event

UPDATE, READ = 4, 3  # requests of an operation without conflicts
AGAIN = 3  # more after a conflict: LIST, GET, PUT; more after a refused read: LIST, GET, GET
STALE = 1  # more if a writer starts from its own last file and another client has created the next one: PUT
READ_BACK = 2  # more if the client's SDK may have sent its create twice: GET the file, GET the boundary
MISSING = 2  # more after a file was missing: LIST, GET


class Taken(NamedTuple):
    """The requests of one operation. A listing of many pages counts as one request."""

    client: str
    op: str  # the response that its caller got
    update: str  # "" for a read
    requests: int
    conflicts: int  # files that other clients created meanwhile
    deletes: int
    advances: int


def operations(events: Iterable[Event], namespace: Namespace) -> Iterable[Taken]:
    """Yield each operation of a trace without faults whose caller got a response."""
    creates = deletes = advances = 0
    open_: dict[str, list[int]] = {}  # client -> its requests; creates (with its own), deletes and advances before
    for e in events:
        if e.kind == "told":
            requests, *before = open_.pop(e.client, [0, creates, deletes, advances])
            if not e.body and e.op != "read":  # a round of collection, or a read that failed
                continue
            yield Taken(e.client, e.op, "" if e.op == "read" else e.body.decode(), requests,
                        *(now - then for now, then in zip((creates, deletes, advances), before)))
            continue
        mine = open_.setdefault(e.client, [0, creates, deletes, advances])
        mine[0] += not (e.op == "list" and e.condition)
        if e.op == "delete":
            deletes += 1
        elif e.op in ("create", "update", "put") and e.status < 300:
            if e.key == namespace.boundary_key:
                advances += 1
            else:
                creates += 1
                mine[1] += 1


def faultless(events: list[Event]) -> bool:
    """Return whether every request was answered. A slow answer is not a fault here."""
    return {"applied", "told"}.issuperset(map(KIND, events)) and all(map(AWAITED, events))


def most(taken: Taken, reads_back: bool = False, knows: bool = False) -> int:
    """Return the largest number of requests that the operation may take."""
    if taken.op == "read":
        return READ + AGAIN * taken.advances + MISSING * taken.deletes
    return UPDATE + STALE * knows + (AGAIN + READ_BACK * reads_back) * taken.conflicts + MISSING * taken.deletes


def too_many(events: list[Event], namespace: Namespace, reads_back: bool = False, knows: bool = False) -> str:
    """Describe the first operation of a run without faults that took too many requests; "" if there is none.

    `knows` says that writers may start from their own last file.
    """
    for taken in operations(events, namespace) if faultless(events) else ():
        if taken.requests > most(taken, reads_back, knows):
            return (f"{taken.client} took {taken.requests} requests for {taken.update or 'a read'} ({taken.op}), and may take "
                    f"{most(taken, reads_back, knows)}: meanwhile others have created {taken.conflicts} files, deleted "
                    f"{taken.deletes}, and moved the boundary {taken.advances} times")
    return ""
