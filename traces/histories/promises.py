"""Check what still holds after somebody has changed the boundary: a client that saw it never trusts what contradicts that.

No store and no model explains such a run. What remains is each client's own view. If the last boundary that a client read is
gone, is no number, or is less than one that it saw before, no caller of its may be told `committed` or `read`. No caller may be
told so of an id that is not ahead of a boundary that its client saw, nor after a listing without a file ahead of it. The class
of an error says what is wrong with the boundary.
"""

from collections.abc import Iterable

from highwater.impl.layout import Namespace
from highwater.traces.event import Event

SUCCESS = ("committed", "read")
LOST, INVALID, BEHIND = "BoundaryLost", "InvalidBoundary", "ObjectVersionBehindBoundary"


def trusted(events: Iterable[Event], namespace: Namespace) -> str:
    """Return why a caller was told of a success that its client could not know; "" if that never happened."""
    events = list(events)
    lost = unanswered(events)
    seen: dict[str, int] = {}  # client -> the largest boundary that it saw in this life
    wrong: dict[str, tuple[str, str]] = {}  # client -> the error that fits, and what is wrong with what it read last
    for e in events:
        if e.kind == "crash":
            seen.pop(e.client, None)
            wrong.pop(e.client, None)
        elif (e.client, e.request) in lost:
            continue
        elif e.kind == "told" and e.op in SUCCESS:
            file_id = namespace.file_id(e.key)
            if e.client in wrong:
                return f"untrue success: {e.client} was told {e.op!r}, but the boundary that it read {wrong[e.client][1]}"
            if file_id is not None and file_id <= seen.get(e.client, 0):
                return f"untrue success: {e.client} was told {e.op!r} of id {file_id}, and saw the boundary {seen[e.client]}"
        elif e.kind == "told" and e.client in wrong and e.keys[1:2] in ((LOST,), (INVALID,)):
            error, (right, what) = e.keys[1], wrong[e.client]
            if error != right:
                return f"untrue error: {e.client} was told {error}, but the boundary that it read {what}"
        elif e.kind == "applied" and e.awaited and e.key == namespace.boundary_key and e.status in (200, 304, 404):
            learn(e, seen, wrong)
    return noticed(events, lost, namespace)


def noticed(events: list[Event], lost: set[tuple[str, int]], namespace: Namespace) -> str:
    """Return why a call cannot have ended so: it was listed no file that is ahead of a boundary that its client saw before."""
    seen: dict[str, int] = {}  # client -> the boundary that it read last in this life
    latest: dict[str, int] = {}  # client -> the latest file of the pages that it was listed last
    ahead: dict[str, str] = {}  # client -> what is wrong, in the call under way
    for e in events:
        if e.kind == "crash":
            seen.pop(e.client, None)
        if e.kind in ("crash", "told"):
            what = ahead.pop(e.client, "")
            if what and (e.op in SUCCESS or e.keys[1:2] == (BEHIND,)):
                return f"untrue answer: {e.client} was told {e.op!r}, but {what}"
        elif e.kind == "applied" and e.awaited and (e.client, e.request) not in lost:
            if e.key == namespace.boundary_key and e.body.isdigit():
                seen[e.client] = int(e.body)
            elif e.op == "list" and e.key == namespace.prefix:
                before = latest.get(e.client, 0) if e.condition else 0  # on the pages before this one
                of = latest[e.client] = max([before, *filter(None, map(namespace.file_id, (e.condition, *e.keys)))])
                if not e.truncated and 0 < of <= seen.get(e.client, 0):
                    ahead[e.client] = f"the boundary was {seen[e.client]}, and then the latest file {of}"
    return ""


def unanswered(events: list[Event]) -> set[tuple[str, int]]:
    """Return client and number of the requests whose reply never arrived. (After a crash a client knows nothing anyway.)"""
    return {(e.client, e.request) for e in events if e.kind == "timeout" and e.awaited}


def learn(e: Event, seen: dict[str, int], wrong: dict[str, tuple[str, str]]) -> None:
    """Note what a client's request shows of the boundary."""
    known = seen.get(e.client)
    if e.status == 200 and not e.body.isdigit():
        wrong[e.client] = INVALID, f"holds {e.body!r}"
    elif e.status == 200 and int(e.body) < (known or 0):
        wrong[e.client] = INVALID, f"went back from {known} to {int(e.body)}"
    elif e.status == 404 and known is not None:
        wrong[e.client] = LOST, f"was {known} and is gone"
    else:
        wrong.pop(e.client, None)
        if e.status == 200:
            seen[e.client] = int(e.body)


def recovered_rightly(events: Iterable[Event], snapshots: Namespace, boundary_key: str) -> str:
    """Return why a recovery's answer cannot be right after snapshots were lost; "" if each can.

    A recovery that succeeds has listed a snapshot that the boundary, read afterwards, has not passed. After a listing without
    such a snapshot for a boundary read before it, the recovery gives up at once, with InvalidBoundary."""
    events = list(events)
    lost = unanswered(events)
    seen: dict[str, int] = {}  # client -> the boundary that it read last in this life
    latest: dict[str, int] = {}  # client -> the latest snapshot that it listed in this call
    behind: set[str] = set()  # clients that were listed, in this call, no snapshot that the boundary has not passed
    for e in events:
        if e.kind == "crash":
            seen.pop(e.client, None)
        if e.kind in ("crash", "told"):
            of, known, missed = latest.pop(e.client, 0), seen.get(e.client, 0), e.client in behind
            behind.discard(e.client)
            says = e.keys[1] if e.keys[1:] else ""
            if e.op in ("read", "snapshot") and of < known:
                return f"untrue success: {e.client} was told {e.op!r}, but saw the boundary {known} and snapshot {of} at most"
            if missed != (says == INVALID) and says in (INVALID, "NotRecovered"):
                return f"untrue error: {e.client} was told {says}, and saw the boundary {known} and snapshot {of} at most"
        elif e.kind == "applied" and e.awaited and (e.client, e.request) not in lost:
            if e.key == boundary_key and e.body.isdigit():
                seen[e.client] = int(e.body)
            elif e.op == "list" and e.key == snapshots.prefix:
                of = latest[e.client] = max(filter(None, map(snapshots.file_id, e.keys)), default=0)
                if not e.truncated and of < seen.get(e.client, 0) and not e.client.startswith("Collector"):
                    behind.add(e.client)
    return ""
