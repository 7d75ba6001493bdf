"""Safety: a timeline shows each event of the trace once, in order, with the model's state after it. It adds only what the
simulator recorded: when requests were sent, and their faults.

The result is the data of highwater/reports/assets/timeline.html, as plain JSON. A place is the number of an event; a place
between two events ends in .5.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from highwater.model.core import Model, State
from highwater.model.guards import show
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.explain.causes import Cause, process_of
from highwater.traces.explain.explain import Replayed, counted, fields_in, in_the_model, notes_in, reply, request

MUTATIONS = ("create", "update", "put", "delete")
LONGEST = 4000  # characters of a body


class Watched(NamedTuple):
    """One fact of a run that its trace does not show."""

    t_ms: int
    what: str  # "issue", or a fault
    client: str
    request: int


class Numbered(list):
    """Texts or lists, each once, in the order of first use."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[Any, int] = {}

    def number(self, thing: Any) -> int:
        key = tuple(map(str, thing)) if isinstance(thing, list) else thing
        if key not in self.at:
            self.at[key] = len(self)
            self.append(thing)
        return self.at[key]


def timeline(replayed: Replayed, failing: list[int], found: list[Cause], watched: Sequence[Watched] = ()) -> dict:
    """Return the data of a timeline. `failing`: numbers of the failing events. `found`: their causal slice."""
    model, events = replayed.record.model, [row.event for row in replayed.rows]
    clients = list(dict.fromkeys([p.name for p in model.processes if any(e.client == p.name for e in events)]))
    clients += sorted({lane_of(e) for e in events} - set(clients))
    if any(e.kind in NODE_KINDS for e in events):
        clients.sort()  # each disk beside its node
    parts, said = Numbered(), Said()
    shown = [p for p, process in enumerate(model.processes) if process.name in clients]
    sent = sent_at(events, watched)
    told = {(w.request, w.what) for w in watched if w.what != "issue"}
    rows = []
    for number, (e, steps, after) in enumerate(replayed.rows):
        befell = sorted(what for of, what in told if of == e.request)
        rows.append({
            "t": e.t_ms, "c": clients.index(lane_of(e)), "kind": e.kind, "op": e.op, "ask": request(e), "answer": reply(e),
            "model": in_the_model(steps), "sent": sent.get(number, -1), "late": e.kind == "applied" and not e.awaited,
            "ok": e.status < 400, "befell": befell, "clock": any(action == "ExpireCheckpoint" for _, action, _ in steps),
            "body": e.body.decode(errors="replace")[:LONGEST] if e.kind != "told" or e.op == "read" else "",
            "state": [parts.number(of) for of in state_parts(said, after, shown)] if after else None,
            **({"from": clients.index(e.key)} if e.kind == "received" and e.key in clients else {}),
        })
    return {
        **({"store": False} if clients and not any(e.kind == "applied" for e in events) else {}),
        "clients": clients, "rows": rows, "pauses": list(pauses(events, clients, watched, sent)),
        "failing": failing, "causes": [list(cause) for cause in found], "mattered": counted(replayed, found, failing),
        "shared": list(notes_in(model.shared).items()), "locals": fields_of(model, shown),
        "initial": [parts.number(of) for of in state_parts(said, replayed.initial, shown)],
        "parts": parts, "texts": said.texts,
    }


def lane_of(e: Event) -> str:
    """Return the lane of an event: its client's, or that of a node or its disk."""
    return e.client if e.kind not in NODE_KINDS else f"{process_of(e)} disk" if e.kind == "disk" else process_of(e)


def fields_of(model: Model, shown: list[int]) -> list:
    return [[model.processes[p].name, list(notes_in(model.processes[p].local).items())] for p in shown]


def state_parts(said: "Said", state: State, shown: list[int]) -> Iterator[list]:
    for part in (state.shared, *(state.locals[p] for p in shown)):
        yield [said.value(name, field) for name, field in fields_in(part).items()]


class Said:
    """Values as texts. Most parts of a state are the same objects as in the state before, so they are cached by identity."""

    def __init__(self) -> None:
        self.texts, self.known, self.alive = Numbered(), {}, []

    def text(self, value: Any) -> str:
        return self.once("", value, show)

    def value(self, name: str, value: Any) -> int | list[int]:
        """Return the number of a text; for a collection those of its elements, so that a reader sees which were added."""
        return self.once(name, value, lambda value: self.numbers(name, value))

    def once(self, name: str, value: Any, compute: Callable[[Any], Any]) -> Any:
        key = name, id(value)
        if key not in self.known:
            self.alive.append(value)  # else its id could be reused
            self.known[key] = compute(value)
        return self.known[key]

    def numbers(self, name: str, value: Any) -> int | list[int]:
        number = self.texts.number
        if name.rpartition(".")[2] == "files":
            return [number(f"id {place}: {self.text(file)}") for place, file in enumerate(value, 1) if file is not None]
        if isinstance(value, (frozenset, set)):
            return [number(text) for text in sorted(map(show, value), key=lambda text: (len(text), text))]
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return [number(show(element)) for element in value]
        return number(show(value))


def sent_at(events: list[Event], watched: Sequence[Watched]) -> dict[int, float]:
    """Return the place at which the request of each event was sent; if that was not watched, the client's previous event."""
    issued = {w.request: w.t_ms for w in watched if w.what == "issue"}
    found: dict[int, float] = {}
    first: dict[int, float] = {}
    last: dict[str, int] = {}
    for number, e in enumerate(events):
        if e.kind in NODE_KINDS:
            if e.kind == "sent":
                first[e.request] = number
            elif e.kind == "received":
                found[number] = first.get(e.request, number)
            continue
        if e.request:
            if e.request not in first:
                first[e.request] = place_of(events, issued.get(e.request), last.get(e.client, -1), number)
            found[number] = first[e.request]
        if e.kind != "applied" or e.awaited:
            last[e.client] = number
    return found


def place_of(events: list[Event], t_ms: int | None, before: int, number: int) -> float:
    """Return the place of a moment `t_ms` in the order of events, after event `before` and ahead of event `number`."""
    if t_ms is None or (before >= 0 and events[before].t_ms >= t_ms):
        return before if before >= 0 else -0.5
    place = number
    while place - 1 > before and events[place - 1].t_ms > t_ms:
        place -= 1
    return place - 0.5


def pauses(events: list[Event], clients: list[str], watched: Sequence[Watched], sent: dict[int, float]) -> Iterator[list]:
    """Yield [client, from, to, milliseconds, what] for each stall, and for the time that a crashed client is down."""
    stalled = {w.request for w in watched if w.what == "stall"}
    issued = {w.request: w.t_ms for w in watched if w.what == "issue"}
    begun: dict[str, tuple[int, str]] = {}
    seen: set[int] = set()
    for number, e in enumerate(events):
        if e.kind == "died":
            begun[e.client] = number, "down"
        elif e.kind == "started" and e.client in begun:
            start, what = begun.pop(e.client)
            yield [clients.index(e.client), start, number, e.t_ms - events[start].t_ms, what]
        if e.kind in NODE_KINDS:
            continue
        fresh = e.request and e.request not in seen
        if e.client in begun and (fresh or e.kind == "told"):
            start, what = begun.pop(e.client)
            end, t_ms = (sent[number], issued.get(e.request, e.t_ms)) if fresh else (number, e.t_ms)
            if end > start:
                yield [clients.index(e.client), start, end, t_ms - events[start].t_ms, what]
        seen.add(e.request)
        if e.kind == "crash":
            begun[e.client] = number, "down"
        elif e.kind == "applied" and e.awaited and e.request in stalled:
            begun[e.client] = number, "stall"
