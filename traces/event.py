"""One event of a trace: what the store did with a request, or what a client was told.

A trace is the store's request log in the order of application, together with what clients stopped waiting for, their
crashes, and what their callers were told (`told`). Version 1; one JSON object a line.
"""

import json
from typing import NamedTuple

VERSION = 1


class Event(NamedTuple):
    t_ms: int  # by the store's clock
    client: str  # "Writer#0"
    kind: str  # applied | refused (not applied, and said so) | timeout | crash | restart | told
    request: int  # number of the request; 0 for none
    op: str  # create update put get get_if_changed list delete head; for `told`: committed conflict refused unknown read
    key: str  # for a list: prefix
    condition: str  # version named by the request; for a list: the key to begin after
    status: int  # as HTTP: 200 204 304 404 412 503
    version: str  # of the object, after the request
    body: bytes  # sent by a put, received by a get
    keys: tuple[str, ...] = ()  # of a page
    truncated: bool = False
    awaited: bool = True  # applied: its client still waits for the reply
    pending: bool = False  # timeout, crash: the request that was waited for may still be applied

    def line(self) -> str:
        """Canonical and unambiguous: what the digest of a trace is taken over."""
        return repr(tuple(self))


def to_json(event: Event) -> str:
    fields = {name: value for name, value in event._asdict().items() if value not in ("", b"", (), 0, False)}
    fields["awaited"] = event.awaited
    if event.body:
        fields["body"] = event.body.decode("utf-8", "backslashreplace")
    return json.dumps({"v": VERSION, **fields}, sort_keys=True, separators=(",", ":"))


def from_json(line: str) -> Event:
    """Raises ValueError for a line that is no event of this version."""
    fields = json.loads(line)
    if fields.pop("v", None) != VERSION:
        raise ValueError(f"not an event of version {VERSION}: {line[:80]!r}")
    empty = Event(0, "", "", 0, "", "", "", 0, "", b"")
    try:
        event = empty._replace(**fields)
    except ValueError as error:
        raise ValueError(f"{error} in {line[:80]!r}") from None
    return event._replace(keys=tuple(event.keys), body=str(event.body).encode() if isinstance(event.body, str) else b"")
