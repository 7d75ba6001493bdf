"""Define the event of a trace: what the store did with a request, or the response that a caller received.

A trace is the store's request log in the order of application. It also holds the time-outs and crashes of clients, and the
responses to their callers (`told`). Where nodes have disks and send messages, it holds what these do, too, and each step of a
node. An event is a line of JSON, with the version of the format in "v". docs/checking/event-format.md describes the fields and
the rule for versions.
"""

import json
import re
from functools import lru_cache
from hashlib import blake2b
from marshal import dumps
from operator import itemgetter
from struct import pack
from typing import NamedTuple

from highwater.outside import check_text, json_of, quoted

VERSION = 2  # of the format; a line, or a file, that names none is of version 1
NODE_KINDS = ("sent", "received", "disk", "step", "started", "died")  # of version 2; a line of any other kind is of version 1
LIMIT = 100_000


class Event(NamedTuple):
    """One event: what the store did with a request, what happened to a client, or a response to its caller."""

    t_ms: int  # by the store's clock
    request: int  # number of the request, rising for each client, which has one at a time; 0 for none
    client: str  # "Writer#0"
    # applied | timeout | crash | told | refused. A refused request is never applied, and the client received an error status.
    # 403, 409 and 429 are definite errors: nothing was applied. A 503 to a mutation is indefinite.
    # Of a node: sent | received | disk | step | started | died.
    kind: str
    # create update put get get_range get_if_changed list delete head; for `told`: committed refused unknown failed read
    # disk: lock names read create append truncate sync rename remove sync_names; step: the input; died: process machine
    op: str
    key: str  # for a list: prefix
    condition: str  # version named by the request; for a list: the key to begin after; for a get_range: "bytes=0-99"
    status: int  # as HTTP: 200 204 206 304 404 412 416; of a refused request 403 409 429 503
    version: str  # of the object, after the request
    body: bytes  # sent by a put, received by a get or get_range
    keys: tuple[str, ...] = ()  # of a page; for `told`: what the call returned or raised (traces/calls.py)
    truncated: bool = False
    awaited: bool = True  # applied: its client still waits for the reply; timeout: it waited for it, and not for something else
    pending: bool = False  # timeout, crash: the request in flight may still be applied


def digest(events: list[Event]) -> str:
    """Return 128 bits in hex of all fields of all events: times, request numbers, and a digest of the rest of each."""
    marks = [MARKS.get(fields) or mark(fields) for fields in map(REST, events)]
    return blake2b(pack(f"<{2 * len(marks)}q", *map(TIME, events), *map(NUMBER, events)) + b"".join(marks),
                   digest_size=16).hexdigest()


TIME, NUMBER, KIND, OP, AWAITED = map(itemgetter, (0, 1, 3, 4, 12))  # read from each event of each run
REST = itemgetter(slice(2, None))
MARKS: dict[tuple, bytes] = {}  # fields after the request number -> their digest; they recur often


def mark(fields: tuple) -> bytes:
    """Return 16 bytes that identify the fields. Format 2 of marshal is the same in every version of Python 3."""
    if len(MARKS) > LIMIT:
        MARKS.clear()
    found = MARKS[fields] = blake2b(dumps(fields, 2), digest_size=16).digest()
    return found


RANGE = re.compile(r"bytes=(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})")
EMPTY = Event(0, 0, "", "", "", "", "", 0, "", b"")
USUALS = tuple((EMPTY._asdict() | {"body": ""}).items())  # as a line has them
TYPES = tuple(type(value) for _, value in USUALS)
BODY, KEYS = map(Event._fields.index, ("body", "keys"))
LARGEST = (1 << 63) - 1


def range_text(start: int, end: int) -> str:
    """Return the condition of a `get_range` for the bytes from `start` up to before `end`: the header Range of HTTP."""
    return f"bytes={start}-{end - 1}"


@lru_cache(10_000)
def range_of(condition: str) -> tuple[int, int] | None:
    """Return the range that the condition of a `get_range` names, from its first byte up to before its end. None if it names
    none, or no byte."""
    match = RANGE.fullmatch(condition)
    start, end = (int(match[1]), int(match[2]) + 1) if match else (0, 0)
    return (start, end) if start < end else None


def to_json(event: Event) -> str:
    """Return the event as one line of JSON, without the line's end."""
    fields = {name: value for name, value in event._asdict().items() if value != getattr(EMPTY, name)}
    if event.body:
        fields["body"] = event.body.decode("utf-8", "surrogateescape")
    return json.dumps({"v": version_of(event), **fields}, sort_keys=True, separators=(",", ":"))


def version_of(event: Event) -> int:
    """Return the oldest version of the format that has such an event."""
    return 2 if event.kind in NODE_KINDS else 1


class NewerVersion(ValueError):
    """The event is of a version that this release does not read."""


def check_version(found: object) -> None:
    """Check that this release reads the version. Raises NewerVersion, or ValueError if it is not a version at all."""
    if type(found) is not int or found < 1:
        raise ValueError(f"its version is {found!r}, and should be a whole number from 1 on")
    if found > VERSION:
        raise NewerVersion(f"its events are of format version {found}, and this release of highwater reads version {VERSION}: "
                           f"install a newer release, or write the file again in version {VERSION}")


def from_json(line: str) -> Event:
    """Return the event in one line of JSON. Raises NewerVersion, or ValueError for a line that is no event."""
    try:
        fields = json_of(line)
    except ValueError as error:
        raise no_event(error, line) from None
    return from_fields(fields, line)


def from_fields(fields: dict, line: str) -> Event:
    """Return the event with these fields; `line` is quoted in errors. Raises as `from_json` does."""
    try:
        if type(fields) is not dict:
            raise ValueError("it is not an object")
        version = fields.pop("v", 1)
        check_version(version)
        values = [fields.pop(name, usual) for name, usual in USUALS]
        if fields:
            raise ValueError(f"it has no field {next(iter(fields))!r}")
        if type(values[KEYS]) is list:
            values[KEYS] = tuple(values[KEYS])
        if (*map(type, values),) != TYPES:
            raise ValueError(next(f"{name} is {quoted(value)}" for (name, _), value, of in zip(USUALS, values, TYPES)
                                  if type(value) is not of))
        if wrong := [key for key in values[KEYS] if type(key) is not str]:
            raise ValueError(f"keys has {quoted(wrong[0])}")
        values[BODY] = values[BODY].encode("utf-8", "surrogateescape")
        event = tuple.__new__(Event, values)
        if version < version_of(event):
            raise ValueError(f"a line of version {version} has no kind {event.kind!r}: its v should be {version_of(event)}")
        if "\\u" in line or not line.isascii():  # else no text of it can be half of a surrogate pair
            for text in (*event[2:7], event.version, *event.keys):
                check_text(text)
        if not max(abs(event.t_ms), abs(event.request), abs(event.status)) <= LARGEST:
            raise ValueError("t_ms, request and status are not whole numbers of 64 bits")
        return event
    except NewerVersion:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise no_event(error, line) from None


def no_event(why: Exception | str, line: str) -> ValueError:
    return ValueError(f"no event of a trace: {why}: {quoted(line)}")
