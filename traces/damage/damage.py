"""Safety: the checker is held against traces that are wrong: a good trace, damaged in one place, is to be refused.

Every way in which one event can be lost, doubled, moved or altered, at every event. Numbers of requests are names that
rise, so they are spread first: then there is one between any two.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from highwater.traces.event import Event
from highwater.traces.form import ANSWERS

TOLD = ("committed", "refused", "unknown", "failed", "read")
KINDS = ("applied", "refused", "timeout", "crash", "told")
STATUSES = (0, 200, 204, 304, 404, 412, 503)
KINDS_OF_DAMAGE = ("drop", "duplicate", "repeat", "swap, same client", "swap, another", "edit")


class Damage(NamedTuple):
    kind: str  # of KINDS_OF_DAMAGE
    field: str  # that is edited, or ""
    at: int  # number of the first event that is another
    to: int  # swap: number of the event that is now there
    events: list[Event]  # all of the damaged trace


def spread(events: list[Event]) -> list[Event]:
    """The same trace, with room between the numbers of its requests."""
    return [e._replace(request=3 * e.request) for e in events]


def damages(events: list[Event], i: int) -> Iterator[Damage]:
    """All of event `i` of a spread trace."""
    e = events[i]
    before, after = events[:i], events[i + 1:]
    yield Damage("drop", "", i, i, before + after)
    yield Damage("duplicate", "", i, i, [*before, e, e, *after])
    if e.request:
        yield Damage("repeat", "", i, i, [*before, e, e._replace(request=e.request + 1), *after])
    for kind, same in (("swap, same client", True), ("swap, another", False)):
        j = next((j for j in range(i + 1, len(events)) if (events[j].client == e.client) is same), 0)
        if j:
            swapped = list(events)
            swapped[i], swapped[j] = events[j]._replace(t_ms=e.t_ms), e._replace(t_ms=events[j].t_ms)
            yield Damage(kind, "", i, j, swapped)
    for field, edit in EDITS.items():
        for other in dict.fromkeys(edit(events, i)):
            if other != getattr(e, field):
                yield Damage("edit", field, i, i, [*before, e._replace(**{field: other}), *after])


# --- what else may stand in a field

def times(events: list[Event], i: int) -> Iterator[int]:
    t_ms = events[i].t_ms
    yield from (t_ms - 1, t_ms + 1, t_ms + 100_000)
    if i:
        yield from (events[i - 1].t_ms, events[i - 1].t_ms - 1)
    if i + 1 < len(events):
        yield from (events[i + 1].t_ms, events[i + 1].t_ms + 1)


def numbers(events: list[Event], i: int) -> tuple[int, ...]:
    number = events[i].request
    earlier = [e.request for e in events[:i] if e.client == events[i].client and 0 < e.request < number]
    return (0, number + 1, number - 1, number + 1_000_000, *earlier[-1:])


def clients(events: list[Event], i: int) -> tuple[str, ...]:
    role, _, number = events[i].client.partition("#")
    return f"{role}#{1 - int(number) if int(number) < 2 else 0}", "Writer#0", "Collector#0", "Reader#0"


def bodies(events: list[Event], i: int) -> Iterator[bytes]:
    body = events[i].body
    yield b""
    if body.isdigit():
        yield from (b"%d" % (int(body) + 1), b"%d" % abs(int(body) - 1))
    elif re.fullmatch(rb"\d+\.\d+", body):
        writer, number = map(int, body.split(b"."))
        yield from (b"%d.%d" % (writer, number + 1), b"%d.%d" % (1 - writer, number), b"%d.%d" % (writer, max(number - 1, 0)))
    elif body[:1] == b"{":
        yield from contents(body)
    else:
        yield from (b"1", b'{"checkpoints":[],"updates":[]}')


def contents(body: bytes) -> Iterator[bytes]:
    """Another update, one less, another order, one twice; a checkpoint less, of another file, with another end."""
    document = json.loads(body)
    updates, checkpoints = document["updates"], document["checkpoints"]
    last = checkpoints[-1] if checkpoints else {}
    others = [{"updates": [*updates, "1.99"]}, {"updates": updates[:-1]}, {"updates": updates[::-1]},
              {"updates": updates + updates[-1:]}, {"checkpoints": checkpoints[:-1]},
              *({"checkpoints": [*checkpoints[:-1], {**last, field: last[field] + 1}]}
                for field in ("manifest_id", "expiry_ms") if last)]
    for other in others:
        yield json.dumps(document | other, sort_keys=True, separators=(",", ":")).encode()


def keys(events: list[Event], i: int) -> Iterator[tuple[str, ...]]:
    listed = events[i].keys
    yield from (listed[:-1], listed[1:], listed[::-1], (*listed, *listed[-1:]))
    yield (*listed, moved(listed[-1]) if listed else events[i].key)


def moved(key: str, by: int = 1) -> str:
    """The key of the next id, if it names one."""
    return re.sub(r"\d{20}", lambda found: f"{max(int(found[0]) + by, 0):020d}", key)


def key_of(events: list[Event], i: int) -> Iterator[str]:
    key = events[i].key
    yield from ("", moved(key), moved(key, -1), f"x{key}", f"{key}x")
    yield from dict.fromkeys(e.key for e in events if e.key.endswith(".boundary"))
    yield next((e.key for e in events if e.op == "create"), key)


def conditions(events: list[Event], i: int) -> tuple[str, ...]:
    key, condition = events[i].key, events[i].condition
    return "", "0", moved(condition), next((e.version for e in events if e.version and e.key == key), "0")


def versions(events: list[Event], i: int) -> tuple[str, ...]:
    key = events[i].key
    return "", "0", next((e.version for e in events if e.version and e.key == key), "0")


def operations(events: list[Event], i: int) -> tuple[str, ...]:
    return TOLD if events[i].kind == "told" else tuple(ANSWERS)


EDITS: dict[str, Callable] = {
    "t_ms": times, "request": numbers, "client": clients, "kind": lambda events, i: KINDS, "op": operations, "key": key_of,
    "condition": conditions, "status": lambda events, i: STATUSES, "version": versions, "body": bodies, "keys": keys,
    **dict.fromkeys(("truncated", "awaited", "pending"), lambda events, i: (False, True)),
}
