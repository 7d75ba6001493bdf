"""Check what still holds after somebody has changed the boundary: a client that saw it never trusts what contradicts that.

No store and no model explains such a run. What remains is each client's own view. If the last boundary that a client read is
gone, is no number, or is less than one that it saw before, no caller of its may be told `committed` or `read`. No caller may be
told so of an id that is not ahead of a boundary that its client saw. The class of an error says what is wrong with the
boundary.
"""

from collections.abc import Iterable

from highwater.impl.layout import Namespace
from highwater.traces.event import Event

SUCCESS = ("committed", "read")
LOST, INVALID = "BoundaryLost", "InvalidBoundary"


def trusted(events: Iterable[Event], namespace: Namespace) -> str:
    """Return why a caller was told of a success that its client could not know; "" if that never happened."""
    events = list(events)
    lost = {(e.client, e.request) for e in events if e.kind in ("timeout", "crash")}  # their replies never arrived
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
    return ""


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
