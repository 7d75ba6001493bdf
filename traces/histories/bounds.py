"""Safety: none; where nothing goes wrong an operation takes no more requests than its conflicts account for.

An update is LIST, GET the latest, PUT the next, GET the boundary. It begins again for two reasons: another's file was there
first, or the file that it listed has been collected. A read is LIST, GET, GET the boundary, and begins again if that file has
been collected or put behind the boundary. Each of these is somebody else's request, between this operation's begin and end,
and accounts for one round at most.
"""

from collections.abc import Iterable
from typing import NamedTuple

from highwater.impl.layout import Namespace
from highwater.traces.event import AWAITED, KIND, Event

UPDATE, READ = 4, 3  # requests, if nobody is in the way
AGAIN = 3  # after a conflict: LIST, GET, PUT; after a refused read: LIST, GET, GET
STALE = 1  # a writer that knows its own file, of which another has created the next before this update began: PUT
READ_BACK = 2  # a client whose SDK may have sent its create twice: GET what is there, GET the boundary
MISSING = 2  # after a file was not there any more: LIST, GET


class Taken(NamedTuple):
    """Of one operation. A listing of many pages counts as one request."""

    client: str
    op: str  # what it was told in the end
    update: str  # "" for a read
    requests: int
    conflicts: int  # files that others have created meanwhile
    deletes: int
    advances: int


def operations(events: Iterable[Event], namespace: Namespace) -> Iterable[Taken]:
    """Of a trace without faults, each operation that somebody was told the end of."""
    creates = deletes = advances = 0
    open_: dict[str, list[int]] = {}  # client -> requests; of creates, deletes, advances so many before, its own creates too
    for e in events:
        if e.kind == "told":
            requests, *before = open_.pop(e.client, [0, creates, deletes, advances])
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
    """Whether every request was answered. (A slow answer is no fault here.)"""
    return {"applied", "told"}.issuperset(map(KIND, events)) and all(map(AWAITED, events))


def most(taken: Taken, reads_back: bool = False, knows: bool = False) -> int:
    """So many requests it may take."""
    if taken.op == "read":
        return READ + AGAIN * taken.advances + MISSING * taken.deletes
    return UPDATE + STALE * knows + (AGAIN + READ_BACK * reads_back) * taken.conflicts + MISSING * taken.deletes


def too_many(events: list[Event], namespace: Namespace, reads_back: bool = False, knows: bool = False) -> str:
    """Of the first operation of a run without faults that took more requests than it may, or "". `knows`: writers may begin
    from their own last file."""
    for taken in operations(events, namespace) if faultless(events) else ():
        if taken.requests > most(taken, reads_back, knows):
            return (f"{taken.client} took {taken.requests} requests for {taken.update or 'a read'} ({taken.op}), and may take "
                    f"{most(taken, reads_back, knows)}: meanwhile others have created {taken.conflicts} files, deleted "
                    f"{taken.deletes}, and moved the boundary {taken.advances} times")
    return ""
