"""Find the causal slice of a failing event: the earlier events that it depends on, and why.

Happens-before has two sources: the order within each client, and the store, where a request meets what earlier ones left. Few
earlier events matter. The slice is found backwards from the failing event. It holds the steps of the same operation, the
writes that a read saw, the cause of a condition's outcome, the boundary that a file is behind, and the request that was sent
long before it was applied.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.form import MUTATIONS
from highwater.traces.trace import Trace

PAUSE_MS = 60  # a longer pause of a client is mentioned
AT_REST = ("Idle", "Done")  # a client's `pc` in the model, between two operations
REFUSALS = {429: "too many requests"}  # status -> its meaning for every store


class Cause(NamedTuple):
    number: int  # of the event that mattered
    to: int  # the event that it mattered to
    why: str


DURABLE = ("sync", "sync_names", "truncate")  # operations of a disk after which a node may say more
AFTER = {"received": "it took this message before", "died": "it died before", "disk": "its disk had done this before"}


class Link(NamedTuple):
    number: int  # of the earlier event
    why: str
    further: bool  # whether the causes of that event matter too


class History:
    """The events so far, with lookups for causes. `trace`: a Trace of their protocol. `local(number, client)`: the client's
    model state before that event, or None. `refusals`: status -> why this store refuses with it."""

    def __init__(self, events: list[Event], trace: Trace, local: Callable[[int, str], Any],
                 refusals: Mapping[int, str] = REFUSALS):
        self.events, self.namespace, self.local = events, trace.namespace, local
        self.refusals = {**REFUSALS, **refusals}
        self.updates = [trace.update_put(e) for e in events]  # by event: the update that it puts, or ""
        self.before: list[int] = []  # by event: the previous event of the same client, or -1
        self.wrote: list[int] = []  # by event: the last event that changed the object of its key, or -1
        self.boundary: list[int] = []  # by event: the last event that changed the boundary, or -1
        self.sent: dict[int, int] = {}  # request -> the event in which its client stopped waiting for it
        self.messages = {e.request: number for number, e in enumerate(events) if e.kind == "sent"}
        last: dict[str, int] = {}
        writes: dict[str, int] = {}
        for number, e in enumerate(events):
            self.before.append(last.get(e.client, -1))
            self.wrote.append(writes.get(e.keys[-1] if e.op == "list" and e.keys else e.key, -1))
            self.boundary.append(writes.get(trace.namespace.boundary_key, -1))
            if changes(e):
                writes[e.key] = number
            if e.pending:
                self.sent[e.request] = number
            if e.kind != "applied" or e.awaited:
                last[e.client] = number

    def links(self, number: int) -> Iterator[Link]:
        """Yield the direct causes of one event."""
        e, before, wrote = self.events[number], self.before[number], self.wrote[number]
        if e.kind in NODE_KINDS:
            yield from self.of_node(number)
            return
        late = e.kind == "applied" and not e.awaited
        if late and e.request in self.sent:
            yield Link(self.sent[e.request], f"then it stopped waiting for what arrives as {number}", True)
        elif before >= 0 and not late and self.goes_on(number):
            pause_ms = e.t_ms - self.events[before].t_ms
            pause = f", and went on {pause_ms} ms later" if pause_ms > PAUSE_MS else ""
            yield Link(before, f"from here {self.learned(self.events[before])}{pause}", True)
        if e.kind == "applied" and wrote >= 0:
            further = e.key == self.namespace.boundary_key or self.events[wrote].op == "delete"
            yield Link(wrote, f"{self.effect(wrote, e)} {number}", further)
        if e.kind == "applied" and e.op == "create" and e.status == 200 and self.behind(number):
            yield Link(self.boundary[number], f"it put the boundary that the file of {number} is behind", True)
        if self.sent_before(number) >= 0:
            yield Link(self.sent_before(number), f"it had sent the update of {number} before", True)
        if e.kind == "told" and e.op != "read":
            yield from self.told(number)

    def of_node(self, number: int) -> Iterator[Link]:
        """Yield the causes of what a node did: a message and its sender's step, the step before, and what was synced before."""
        e = self.events[number]
        if e.kind == "received":
            if e.request in self.messages:
                yield Link(self.messages[e.request], f"it sent the message of {number}", True)
            return
        node = process_of(e)
        for earlier in range(number - 1, -1, -1):
            old = self.events[earlier]
            if process_of(old) != node or old.kind == "told" or (old.kind == "disk" and old.op not in DURABLE):
                continue
            if old.kind == "step":
                yield Link(earlier, f"{node} had come here before {number}", e.kind == "sent")
                return
            if old.kind in ("received", "died", "disk"):
                yield Link(earlier, f"{AFTER[old.kind]} {number}", old.kind == "received")
            if old.kind == "died":
                return

    def told(self, number: int) -> Iterator[Link]:
        """Yield the causes of a response about an update: its first put, the put that committed it, the last boundary read."""
        e, asked = self.events[number], -1
        name = e.body.decode(errors="replace")
        puts = [earlier for earlier in range(number)
                if name and self.updates[earlier] == name and self.events[earlier].client == e.client]
        for earlier in puts:
            if earlier == puts[0] or changes(self.events[earlier]):
                yield Link(earlier, f"it put the update that {number} tells of", not self.events[earlier].awaited)
        for earlier in range(number):
            if self.events[earlier].client == e.client and self.events[earlier].key == self.namespace.boundary_key:
                asked = earlier
        if e.op == "committed" and asked >= 0:
            yield Link(asked, f"{e.client} last asked for the boundary before {number}", True)

    def goes_on(self, number: int) -> bool:
        """Return whether the client is within an operation, so that this step depends on its previous one."""
        e = self.events[number]
        local = self.local(number, e.client)
        return e.kind == "told" or getattr(local, "pc", "") not in AT_REST

    def sent_before(self, number: int) -> int:
        """Return the event of an earlier put of the same update by the same client that may have been applied; or -1."""
        e, own = self.events[number], self.updates[number]
        return next((earlier for earlier in range(number - 1, -1, -1) if own and self.updates[earlier] == own
                     and (other := self.events[earlier]).client == e.client and other.request != e.request
                     and other.status < 300 and other.kind in ("applied", "timeout", "crash")), -1)

    def behind(self, number: int) -> bool:
        wrote, file_id = self.boundary[number], self.namespace.file_id(self.events[number].key)
        return wrote >= 0 and file_id is not None and file_id <= int(self.events[wrote].body)

    def name(self, key: str) -> str:
        file_id = self.namespace.file_id(key)
        return "the boundary" if key == self.namespace.boundary_key else key if file_id is None else f"id {file_id}"

    def learned(self, e: Event) -> str:
        """Describe what a client learned from its step."""
        if e.kind == "refused" and e.status >= 500 and e.op in MUTATIONS:
            return f"{e.client} was answered {e.status}, and could not tell whether that was applied"
        if e.kind == "refused":
            return f"{e.client} was refused ({': '.join(filter(None, (str(e.status), self.refusals.get(e.status))))})"
        if e.kind != "applied":
            return f"{e.client} waited no longer for it" if e.kind != "told" else f"{e.client} went on"
        if e.op == "list":
            return f"{e.client} knew of {self.name(e.keys[-1])}" if e.keys else f"{e.client} knew that there is nothing"
        value = f", {e.body.decode(errors='replace')}" if e.key == self.namespace.boundary_key else ""
        if e.op.startswith(("get", "head")):
            what = "did not find" if e.status == 404 else "had"
            return f"{e.client} {what} {self.name(e.key)}{value if e.status == 200 else ''}"
        if e.status >= 300:
            return f"{e.client} knew that {self.name(e.key)} is not as it thought"
        return f"{self.name(e.key)} was {'gone' if e.op == 'delete' else f'there{value}'}, by {e.client}"

    def effect(self, wrote: int, e: Event) -> str:
        """Describe what an earlier write was to a request that met it."""
        if self.events[wrote].op == "delete":
            return "it made the id free again for" if e.op == "create" else "it deleted what is sought in"
        if e.op == "list":
            return "it put the latest that is listed in"
        if e.op == "delete":
            return "it put what is deleted in"
        if e.status == 412:
            return "it is what is in the way of"
        return "it put what is read in" if e.op.startswith(("get", "head")) else "it put what is replaced in"


def process_of(e: Event) -> str:
    return e.client.partition("/")[0]


def changes(e: Event) -> bool:
    return e.kind == "applied" and e.op in ("create", "update", "put", "delete") and e.status < 300


def causes(history: History, failing: list[int]) -> list[Cause]:
    """Return the causal slice in order of time, without the failing events. An event has at most two reasons, the latest
    first; `to` belongs to the first."""
    found: dict[int, Cause] = {}
    further, waiting = set(failing), sorted(failing)
    while waiting:
        number = waiting.pop()
        for link in history.links(number):
            if link.number not in failing:
                cause = found.setdefault(link.number, Cause(link.number, number, link.why))
                if link.why not in cause.why and "; " not in cause.why:
                    found[link.number] = cause._replace(why=f"{cause.why}; {link.why}")
            if link.further and link.number not in further:
                further.add(link.number)
                waiting.append(link.number)
                waiting.sort()
    return [found[number] for number in sorted(found)]


# --- happens-before, as vector clocks -----------------------------------------------------------------------------------

Clock = dict[str, int]


class Moment(NamedTuple):
    """One event of a space-time diagram."""

    host: str  # a client, or "store"
    clock: Clock
    text: str


def moments(events: list[Event], request: Callable[[Event], str], reply: Callable[[Event], str]) -> list[Moment]:
    """Return the moments of all events: of each request that it was sent, applied, and its reply received, in that order. If
    nobody waits for the reply, the last is absent. A request that was never applied was only sent."""
    clocks: dict[str, Clock] = {}
    sent: dict[int, Clock] = {}  # request -> the clock that it carries
    found: list[Moment] = []

    def at(host: str, text: str, heard: Clock) -> Clock:
        clock = clocks.get(host, {})
        clock = {name: max(clock.get(name, 0), heard.get(name, 0)) for name in {**clock, **heard}}
        clocks[host] = {**clock, host: clock.get(host, 0) + 1}
        found.append(Moment(host, clocks[host], text))
        return clocks[host]

    last = {e.request: number for number, e in enumerate(events)}
    for number, e in enumerate(events):
        if e.kind in NODE_KINDS:
            clock = at(process_of(e), request(e), sent.get(e.request, {}) if e.kind == "received" else {})
            if e.kind == "sent":
                sent[e.request] = clock
            continue
        if e.request and e.request not in sent:
            asked = e._replace(body=b"") if e.op.startswith(("get", "head")) else e  # the client does not know the content yet
            sent[e.request] = at(e.client, f"sends {request(asked)}", {})
        if e.kind == "applied":
            clock = at("store", f"{request(e)} of {e.client}: {reply(e)}", sent[e.request])
            if e.awaited and last[e.request] == number:
                at(e.client, f"hears {reply(e)}", clock)
        elif e.kind == "told":
            at(e.client, request(e), {})
        else:
            at(e.client, f"{reply(e)}: {request(e)}", {})
    return found
