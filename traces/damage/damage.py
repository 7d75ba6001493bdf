"""Damage a good trace in one place, to test the checker, which should refuse the result.

Each event is dropped, doubled, swapped and edited in every field, and each response to a caller loses its tie to its requests
(responses.py). Numbers of requests are rising names, so they are spread first: then there is a free number between any two.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from highwater.traces import machines
from highwater.traces.damage import responses
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.form import ANSWERS

KINDS = ("applied", "refused", "timeout", "crash", "told")
OF_NODES = (*NODE_KINDS, "told")
STATUSES = (0, 200, 204, 304, 404, 412, 503)
OF_DISKS = (0, machines.OK, machines.MISSING, machines.LOCKED, machines.FAILED, machines.FULL)
DROP, SWAP = "drop", "swap, same client"
IN_PLACE = (DROP, "duplicate", "repeat", SWAP, "swap, another", "edit")
KINDS_OF_DAMAGE = (*IN_PLACE, *responses.KINDS)


class Damage(NamedTuple):
    kind: str  # one of KINDS_OF_DAMAGE
    field: str  # the edited field, or ""
    at: int  # number of the first changed event
    to: int  # swap: number of the event that now stands there; of a response: number of the last event that takes part
    events: list[Event]  # all of the damaged trace


class Words(NamedTuple):
    """The values that may occur in the traces of one protocol."""

    clients: tuple[str, ...]  # the first client of each role
    told: tuple[str, ...]  # the responses to callers
    contents: Callable[[list[Event], int], Iterable[bytes]]  # other contents for event `i`
    ties: responses.Ties  # damages to the tie between responses and their requests


def shown(events: list[Event]) -> Words:
    """Collect the Words that these events contain."""
    clients = {e.client.partition("#")[0]: e.client for e in sorted(events, key=lambda e: e.client, reverse=True)}
    return Words(tuple(clients.values()), tuple(dict.fromkeys(e.op for e in events if e.kind == "told")), others,
                 responses.Ties(events))


def spread(events: list[Event]) -> list[Event]:
    """Return the same trace, with free numbers between those of its requests."""
    return [e._replace(request=3 * e.request) for e in events]


def damages(events: list[Event], i: int, words: Words | None = None) -> Iterator[Damage]:
    """Yield all damages to event `i` of a spread trace. `words`: None for those that the trace itself contains."""
    words = words or shown(events)
    e = events[i]
    before, after = events[:i], events[i + 1:]
    yield dropped(events, i)
    yield Damage("duplicate", "", i, i, [*before, e, e, *after])
    if e.request:
        yield Damage("repeat", "", i, i, [*before, e, e._replace(request=e.request + 1), *after])
    for kind, same in ((SWAP, True), ("swap, another", False)):
        j = next((j for j in range(i + 1, len(events)) if (events[j].client == e.client) is same), 0)
        if j:
            yield swapped(events, i, j, kind)
    for field, edit in EDITS.items():
        for other in dict.fromkeys(edit(events, i, words)):
            if other != getattr(e, field):
                yield Damage("edit", field, i, i, [*before, e._replace(**{field: other}), *after])
    yield from (Damage(kind, "", i, to, damaged) for kind, to, damaged in words.ties.at(i))


def dropped(events: list[Event], i: int) -> Damage:
    return Damage(DROP, "", i, i, events[:i] + events[i + 1:])


def swapped(events: list[Event], i: int, j: int, kind: str) -> Damage:
    found = list(events)
    found[i], found[j] = events[j]._replace(t_ms=events[i].t_ms), events[i]._replace(t_ms=events[j].t_ms)
    return Damage(kind, "", i, j, found)


# --- other values for a field

def times(events: list[Event], i: int, words: Words) -> Iterator[int]:
    t_ms = events[i].t_ms
    yield from (t_ms - 1, t_ms + 1, t_ms + 100_000)
    if i:
        yield from (events[i - 1].t_ms, events[i - 1].t_ms - 1)
    if i + 1 < len(events):
        yield from (events[i + 1].t_ms, events[i + 1].t_ms + 1)


def numbers(events: list[Event], i: int, words: Words) -> tuple[int, ...]:
    number = events[i].request
    earlier = [e.request for e in events[:i] if e.client == events[i].client and 0 < e.request < number]
    return (0, number + 1, number - 1, number + 1_000_000, *earlier[-1:])


def clients(events: list[Event], i: int, words: Words) -> Iterator[str]:
    role, _, number = events[i].client.partition("/")[0].partition("#")
    if number:
        yield f"{role}#{1 - int(number) if int(number) < 2 else 0}"
    yield from words.clients


def bodies(events: list[Event], i: int, words: Words) -> Iterator[bytes]:
    body = events[i].body
    yield b""
    if body.isdigit():
        yield from (b"%d" % (int(body) + 1), b"%d" % abs(int(body) - 1))
    elif re.fullmatch(rb"\d+\.\d+", body):
        writer, number = map(int, body.split(b"."))
        yield from (b"%d.%d" % (writer, number + 1), b"%d.%d" % (1 - writer, number), b"%d.%d" % (writer, max(number - 1, 0)))
    else:
        yield from words.contents(events, i)


def others(events: list[Event], i: int) -> Iterator[bytes]:
    """Yield other contents without knowledge of the protocol: that of another event, a changed document, changed names."""
    e = events[i]
    yield next((o.body for o in events if (o.kind, o.op) == (e.kind, e.op) and o.body not in (b"", e.body)), b"1")
    if e.body[:1] == b"{":
        yield from (json.dumps(other, sort_keys=True, separators=(",", ":")).encode() for other in changed(json.loads(e.body)))
    elif b" " in e.body:
        yield from (b" ".join(other) for other in changed(e.body.split(b" ")))


def changed(value: Any) -> Iterator[Any]:
    """Yield values that differ from this one in one place: a list shorter, reversed or longer; another number."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}9"
    elif isinstance(value, list) and value:
        yield from (value[:-1], value[::-1], value + value[-1:])
        yield from ([*value[:-1], last] for last in changed(value[-1]))
    elif isinstance(value, dict):
        yield from (value | {name: other} for name, part in value.items() for other in changed(part))


def keys(events: list[Event], i: int, words: Words) -> Iterator[tuple[str, ...]]:
    listed = events[i].keys
    yield from (listed[:-1], listed[1:], listed[::-1], (*listed, *listed[-1:]))
    yield (*listed, moved(listed[-1]) if listed else events[i].key)


def moved(key: str, by: int = 1) -> str:
    """Return the key of the id that is higher by `by`; the same key if it has no id."""
    return re.sub(r"\d{20}", lambda found: f"{max(int(found[0]) + by, 0):020d}", key)


def key_of(events: list[Event], i: int, words: Words) -> Iterator[str]:
    key = events[i].key
    yield from ("", moved(key), moved(key, -1), f"x{key}", f"{key}x")
    yield from dict.fromkeys(e.key for e in events if e.key.endswith(".boundary"))
    yield next((e.key for e in events if e.op == "create"), key)
    if events[i].kind in NODE_KINDS:
        yield from dict.fromkeys(e.key for e in events if e.kind == events[i].kind)


def conditions(events: list[Event], i: int, words: Words) -> tuple[str, ...]:
    key, condition = events[i].key, events[i].condition
    return "", "0", moved(condition), next((e.version for e in events if e.version and e.key == key), "0")


def versions(events: list[Event], i: int, words: Words) -> tuple[str, ...]:
    key = events[i].key
    return "", "0", next((e.version for e in events if e.version and e.key == key), "0")


def operations(events: list[Event], i: int, words: Words) -> tuple[str, ...]:
    kind = events[i].kind
    if kind not in NODE_KINDS:
        return words.told if kind == "told" else tuple(ANSWERS)
    return tuple(machines.ANSWERS) if kind == "disk" else tuple(dict.fromkeys(e.op for e in events if e.kind in NODE_KINDS))


def kinds(events: list[Event], i: int, words: Words) -> tuple[str, ...]:
    return OF_NODES if events[i].kind in NODE_KINDS else KINDS


def statuses(events: list[Event], i: int, words: Words) -> tuple[int, ...]:
    return OF_DISKS if events[i].kind in NODE_KINDS else STATUSES


EDITS: dict[str, Callable[[list[Event], int, Words], Iterable]] = {
    "t_ms": times, "request": numbers, "client": clients, "kind": kinds, "op": operations,
    "key": key_of, "condition": conditions, "status": statuses, "version": versions, "body": bodies,
    "keys": keys, **dict.fromkeys(("truncated", "awaited", "pending"), lambda events, i, words: (False, True)),
}
