"""Safety: none; of what happened before a failing event it tells what the failing event depends on, and why.

Happens-before has two sources: a client's own order, and the store, where a request meets what earlier ones left. Of all that
happened before, little mattered. What mattered (the causal slice) is found backwards from the failing event: the steps of
the same operation of the client, whose writes a read saw, what made a condition hold or fail, the boundary that a file is
behind, the request that was sent long before it was applied.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.trace import Trace

PAUSE_MS = 60  # a client that goes on after more than this is told of
AT_REST = ("Idle", "Done")  # a client's `pc` in the model, between two operations
REFUSALS = {429: "too many requests"}  # what a status says by itself


class Cause(NamedTuple):
    number: int  # of the event that mattered
    to: int  # the event that it mattered to
    why: str


class Link(NamedTuple):
    number: int  # of the earlier event
    why: str
    further: bool  # whether what that event depends on matters, too


class History:
    """The events so far, as causes look them up. `trace`: one of their protocol. `local(number, client)`: its state in the
    model before that event, or None. `refusals`: status -> why this store refuses with it."""

    def __init__(self, events: list[Event], trace: Trace, local: Callable[[int, str], Any],
                 refusals: Mapping[int, str] = REFUSALS):
        self.events, self.namespace, self.local = events, trace.namespace, local
        self.refusals = {**REFUSALS, **refusals}
        self.updates = [trace.update_put(e) for e in events]  # of each event the update that it puts, or ""
        self.before: list[int] = []  # of each event the one before of the same client, or -1
        self.wrote: list[int] = []  # and the last that changed the object of its key
        self.boundary: list[int] = []  # and the last that changed the boundary
        self.sent: dict[int, int] = {}  # request -> the event in which its client stopped waiting for it
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
        """What one event depends on directly."""
        e, before, wrote = self.events[number], self.before[number], self.wrote[number]
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

    def told(self, number: int) -> Iterator[Link]:
        """Of an update: what first put it, what brought it home, and when its client last asked for the boundary."""
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
        """Whether the client is within an operation: what it does depends on what it did just before."""
        e = self.events[number]
        local = self.local(number, e.client)
        return e.kind == "told" or getattr(local, "pc", "") not in AT_REST

    def sent_before(self, number: int) -> int:
        """The event of another put of the same update by the same client, which was or may be applied; or -1."""
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
        """What a client had from its step."""
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
        """What an earlier write was to a request that met it."""
        if self.events[wrote].op == "delete":
            return "it made the id free again for" if e.op == "create" else "it deleted what is sought in"
        if e.op == "list":
            return "it put the latest that is listed in"
        if e.op == "delete":
            return "it put what is deleted in"
        if e.status == 412:
            return "it is what is in the way of"
        return "it put what is read in" if e.op.startswith(("get", "head")) else "it put what is replaced in"


def changes(e: Event) -> bool:
    return e.kind == "applied" and e.op in ("create", "update", "put", "delete") and e.status < 300


def causes(history: History, failing: list[int]) -> list[Cause]:
    """The causal slice, in the order of time, without the failing events themselves. Of an event that matters for more than
    one reason two are told, the latest first; `to` is of the first."""
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
    """Clients send, the store applies, clients hear: three moments of each request that ran well, each after the former. One
    whose reply nobody waits for is not heard, one that was never applied is only sent."""
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
        if e.request and e.request not in sent:
            asked = e._replace(body=b"") if e.op.startswith(("get", "head")) else e  # what it reads it does not know yet
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
