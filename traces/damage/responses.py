"""Damage the tie between a response to a caller and the requests behind it, where each event alone stays possible.

damage.py changes one field of one event, which mostly makes that event impossible. Here the trace stays well formed, and the
store's answers still follow from its requests wherever that can be: a checker notices only if it ties what a caller was told to
the requests of its own call. Callers are named by their `told` events: "Writer#0" also sends as "Writer#0/poll 1", and
"Server#0/writer0" is a task of the node "Server#0".
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from highwater.traces.event import NODE_KINDS, Event, range_of
from highwater.traces.form import MUTATIONS, PUTS, READS

EARLY, LOST, EXCHANGE, ANOTHER, WRONG, VALUE = (
    "told early", "lost", "exchange", "told another", "told another role", "another value")
KINDS = (EARLY, LOST, EXCHANGE, ANOTHER, WRONG, VALUE)
NEAR = 3  # steps of a node before which a response to its caller is moved
DIGITS = re.compile(r"\d+")
Roles = Mapping[str, frozenset[str]]  # role -> the responses that callers of this role receive
Edit = tuple[str, int, list[Event]]  # kind, number of the last event that takes part, and all events of the damaged trace


def role_of(client: str) -> str:
    """Return the role of a caller: "Writer" of "Writer#0", and "worker" of "Server#0/worker1"."""
    process, _, task = client.partition("/")
    return DIGITS.sub("", task) or process.partition("#")[0]


def roles_of(traces: Iterable[list[Event]]) -> Roles:
    """Return the responses that each role receives in these traces."""
    roles: dict[str, set[str]] = {}
    for e in (e for events in traces for e in events if e.kind == "told"):
        roles.setdefault(role_of(e.client), set()).add(e.op)
    return {role: frozenset(ops) for role, ops in roles.items()}


def is_own(e: Event, caller: str) -> bool:
    """Return whether the event is a request of this caller, or of a task of it."""
    return e.kind != "told" and (e.client == caller or e.client.startswith(f"{caller}/"))


class Call(NamedTuple):
    """A call that returned, or raised: the numbers of its requests in order, and that of its response."""

    requests: list[int]
    told: int


def calls_of(events: list[Event]) -> list[Call]:
    """Return the calls in the order of their responses. A call begins after the caller's response before, or its crash. The
    last steps of its node, at most NEAR of them, belong to the call of a caller that is a task of a node."""
    callers = {e.client for e in events if e.kind == "told"}
    own: dict[str, list[int]] = {caller: [] for caller in sorted(callers)}
    steps: dict[str, list[int]] = {}
    calls = []
    for i, e in enumerate(events):
        node = e.client.partition("/")[0]
        if e.kind == "told":
            of_node = steps.get(node, []) if e.client != node else []
            calls.append(Call(sorted({*own[e.client], *of_node[-NEAR:]}), i))
            own[e.client] = []
            continue
        if e.kind == "step":
            steps.setdefault(e.client, []).append(i)
        caller = e.client if e.client in callers else node
        if caller in callers:
            own[caller] = [] if e.kind == "crash" else [*own[caller], i]
    return calls


class Ties:
    """The damages to one trace, by the number of the first event that changes."""

    def __init__(self, events: list[Event]):
        self.events = events
        self.roles = roles_of([events])
        self.callers = sorted({e.client for e in events if e.kind == "told"})
        self.calls = calls_of(events)
        self.by_request: dict[int, list[Call]] = {}
        for call in self.calls:
            for i in call.requests:
                self.by_request.setdefault(i, []).append(call)
        self.ends: dict[tuple[str, int], list[int]] = {}
        for i, e in enumerate(events):
            if e.request:
                self.ends.setdefault((e.client, e.request), []).append(i)

    def at(self, i: int) -> Iterator[Edit]:
        """Yield the damages of which event `i` is the first that changes."""
        e = self.events[i]
        if e.kind == "told":
            yield from self._to_others(i)
            yield from self._values(i)
        for call in self.by_request.get(i, ()):
            yield from self._early(i, call)
        yield from self._losses(i)
        if is_put(e):
            yield from self._exchanges(i)

    def _early(self, i: int, call: Call) -> Iterator[Edit]:
        """Move the response before a request of its call: the first one, the last one, and the last write."""
        events, told = self.events, self.events[call.told]
        writes = [j for j in call.requests if events[j].op in MUTATIONS and events[j].kind == "applied"]
        if i in (call.requests[0], call.requests[-1], *writes[-1:]):
            moved = told._replace(t_ms=events[i].t_ms)
            yield EARLY, call.told, [*events[:i], moved, *events[i:call.told], *events[call.told + 1:]]

    def _losses(self, i: int) -> Iterator[Edit]:
        """Lose a request of a call before it reaches the store. Its caller receives the response all the same."""
        if i not in self.by_request:
            return
        e, only = self.events[i], self.ends.get((self.events[i].client, self.events[i].request), [])
        if e.kind == "applied" and e.awaited and only == [i] and (e.op in READS or e.status < 300):
            body = e.body if e.op in PUTS else b""
            lost = e._replace(kind="timeout", status=0, version="", body=body, keys=(), truncated=False)
            yield LOST, i, [*self.events[:i], lost, *self.events[i + 1:]]

    def _exchanges(self, i: int) -> Iterator[Edit]:
        """Exchange the contents of two puts of one kind, and those of all reads of the two objects: the next put of the same
        client, and the next one of another client."""
        e = self.events[i]
        later = [j for j in range(i + 1, len(self.events)) if is_like(e, self.events[j])]
        for same in (True, False):
            j = next((j for j in later if (self.events[j].client == e.client) is same), 0)
            if j and not any(k < i for n in (i, j) for k in self.ends.get((self.events[n].client, self.events[n].request), ())):
                edited, last = exchanged(self.events, i, j)
                if edited:
                    yield EXCHANGE, last, edited

    def _to_others(self, i: int) -> Iterator[Edit]:
        """Tell another caller of this role the same, and one of a role that receives no such response."""
        e = self.events[i]
        mine = role_of(e.client)
        same = [c for c in self.callers if role_of(c) == mine and c != e.client]
        wrong = [c for c in self.callers if role_of(c) != mine and e.op not in self.roles[role_of(c)]]
        for kind, clients in ((ANOTHER, same), (WRONG, wrong)):
            if clients:
                other = e._replace(client=clients[i % len(clients)])
                yield kind, i, [*self.events[:i + 1], other, *self.events[i + 1:]]

    def _values(self, i: int) -> Iterator[Edit]:
        """Tell the value of another response of this kind: of the one before, and of the next one."""
        e = self.events[i]
        others = [(j, o) for j, o in enumerate(self.events) if (o.kind, o.op, o.keys[:3]) == (e.kind, e.op, e.keys[:3])
                  and (o.key, o.body, o.keys) != (e.key, e.body, e.keys)]
        before, after = [o for j, o in others if j < i], [o for j, o in others if j > i]
        for o in dict.fromkeys((o.key, o.body, o.keys) for o in (*before[-1:], *after[:1])):
            yield VALUE, i, [*self.events[:i], e._replace(key=o[0], body=o[1], keys=o[2]), *self.events[i + 1:]]


def is_put(e: Event) -> bool:
    """Return whether the event puts a content that is not empty: at the store, or as a step of a client."""
    if e.kind in NODE_KINDS:
        return e.kind == "step" and "/" in e.client and bool(e.body)
    return e.kind == "applied" and e.op in PUTS and e.status == 200


def is_like(e: Event, other: Event) -> bool:
    """Return whether another put is of the same kind, with another content."""
    return is_put(other) and (e.kind, e.op) == (other.kind, other.op) and e.body != other.body and (
        DIGITS.sub("", e.key) == DIGITS.sub("", other.key))


def exchanged(events: list[Event], i: int, j: int) -> tuple[list[Event], int]:
    """Return the events with the contents of two puts exchanged, and the number of the last event that changed; nothing if
    a read of a range cannot show the other content."""
    one, two = events[i], events[j]
    new: dict[tuple[str, str], Event] = {(one.key, one.version): two}
    new.setdefault((two.key, two.version), one)
    edited, last = list(events), j
    if one.kind in NODE_KINDS:
        edited[i], edited[j] = one._replace(body=two.body), two._replace(body=one.body)
        return edited, j
    requests = {(one.client, one.request): two, (two.client, two.request): one}
    for k in range(i, len(events)):
        e = events[k]
        other = requests.get((e.client, e.request)) if e.request else None
        found, asked = new.get((e.key, e.version)), new.get((e.key, e.condition))
        if other is not None:
            shown = e._replace(body=other.body, version=other.version if e.version else "")
        else:
            shown = e if found is None else e._replace(version=found.version, body=seen(e, found.body))
            if found is not None and e.op == "get_range" and not shown.body:
                return [], 0
        edited[k] = shown if asked is None else shown._replace(condition=asked.version)
        last = max(last, k) if edited[k] != e else last
    return edited, last


def seen(e: Event, content: bytes) -> bytes:
    """Return what a read shows of a content."""
    if e.op == "head" or e.status == 304:
        return e.body
    asked = range_of(e.condition) if e.op == "get_range" else None
    return content[slice(*asked)] if asked else content
