"""Safety: none; it says why a trace was refused, so that a stranger can follow it to the line of the model.

The trace is fed again to a refiner that keeps what each event was in the model. Of an action that was not possible the
source is taken and walked on the failing state, down to the first `if` or `for` that let nothing pass; the models know
nothing of it. The text is a function of the arguments: no path of this machine and no order of hashing goes into it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from model.core import State
from model.guards import show, why_not
from traces.event import Event
from traces.refine import STUTTER, Failure, Match, Refiner

LAST = 12  # events shown before the failing one
REQUESTS = {"create": "put {} if absent", "update": "put {} over the version read", "get_if_changed": "get {} if changed"}
REPLIES = {304: "not changed", 404: "not there", 412: "condition failed", 503: "refused"}


def explain(events: list[Event], failure: Exception, trace: Any, command: str = "") -> str:
    """`events`: up to the failing one; `trace`: a Trace of the same kind, used or not; `command`: what replays the run. A
    failure that is not of the trace (liveness, an exception of impl) is told with the last events and the state."""
    record = Record(trace.refiner.model)
    trace = type(trace)(record, trace.namespace, trace.skew_ms)
    rows, found, event = [], None, None
    for number, event in enumerate(events):
        record.taken = []
        try:
            trace.observe(event)
        except Exception as error:  # a Failure, or what an event that nobody can have sent leads to
            found = error
        rows.append((str(number), f"{event.t_ms} ms", event.client, request(event), reply(event), ", ".join(record.taken)))
        if found:
            break
    error = found or failure
    parts = [f"{getattr(error, 'signature', type(error).__name__)}\n{error}"]
    if event:
        parts += [f"{'Failing' if found else 'Last'} event, number {rows[-1][0]}:\n  {words(event)}",
                  "The last events, and what each was in the model:\n" + table(rows[-LAST - 1:])]
    if isinstance(error, Failure):
        parts += reasons(error, record, error.match.process if error.match else event.client if event else "")
    return "\n\n".join([*parts, f"Replay: {command}"] if command else parts) + "\n"


class Record(Refiner):
    """Keeps what the steps of an event were, and the states before the last step. It looks nothing up, so it is slow."""

    def event(self, process: str, event: tuple, match: Callable[[Event], Match | None]) -> None:
        found = match(event)
        if found is not None:
            self.step(found)

    def step(self, match: Match, event: tuple | None = None) -> None:
        self.before = self.unpacked()
        of = self.arguments(match.process, self.before[0])[2:]
        self.taken += [labelled(action, move[0]) for action in filter(None, match.actions)
                       for move in self.possible(match.process, action, self.before[0])
                       if match.choices in (None, move[0]) and (not match.agrees or match.agrees(action, *of, *move[1:]))]
        super().step(match)

    def arguments(self, process: str, state: State) -> tuple:
        p = self.index[process]
        return self.model.constants, self.model.processes[p].index, state.shared, state.locals[p]

    def possible(self, process: str, action: str, state: State) -> list[tuple]:
        return list(self.model.processes[self.index[process]].actions[action](*self.arguments(process, state)))


# --- in words -----------------------------------------------------------------------------------------------------------

def thing(key: str, body: bytes = b"") -> str:
    number = re.search(r"\d{20}", key)
    return f"boundary {body.decode(errors='replace')}".rstrip() if key.endswith(".boundary") else \
        f"id {int(number[0])}" if number else key


def request(e: Event) -> str:
    if e.kind == "told":
        return " ".join(filter(None, ("was told:", e.op, e.op != "read" and e.body.decode(errors="replace"), thing(e.key))))
    after = f" after {thing(e.condition)}" if e.op == "list" and e.condition else ""
    return REQUESTS.get(e.op, e.op + " {}").format(thing(e.key, e.body)) + after


def reply(e: Event) -> str:
    if e.kind in ("told", "crash", "timeout"):
        return "" if e.kind == "told" else e.kind + ", it may still be applied" * e.pending
    listed = f": {', '.join(map(thing, e.keys))}{', and more' * e.truncated}" if e.op == "list" else ""
    return f"{e.status} {REPLIES.get(e.status, '')}".rstrip() + listed + ", nobody waits" * (not e.awaited)


def words(e: Event) -> str:
    of = f" (request {e.request}, {e.key})" if e.request else ""
    content = f"\n  content {e.body.decode(errors='replace')}" if e.body[:1] == b"{" else ""
    return f"{e.client} at {e.t_ms} ms: {request(e)}{of}{'; ' * (e.kind != 'told')}{reply(e)}{content}"


def table(rows: list[tuple[str, ...]]) -> str:
    rows = [("#", "time", "client", "request", "reply", "in the model"), *rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def labelled(action: str, choices: tuple) -> str:
    return " ".join([action, *map(show, choices)])


def fields(name: str, record: Any) -> str:
    return f"{name} in the model (what is empty or 0 is left out):" + "".join(
        f"\n  {field}: {show(value)}" for field, value in record._asdict().items() if value)


# --- why ----------------------------------------------------------------------------------------------------------------

def reasons(failure: Failure, record: Record, client: str) -> Iterator[str]:
    states, match, model = failure.states or record.unpacked(), failure.match, record.model
    for number, state in enumerate(states):
        if len(states) > 1:
            yield f"State {number + 1} of the {len(states)} that the model may be in:"
        if failure.kind == "refinement" and match:
            yield "\n".join(impossible(record, match, action, state) for action in match.actions if action or match.agrees)
        if failure.signature.startswith("safety:"):
            role, holds = model.always[failure.signature.removeprefix("safety:")]
            c, _, *of = record.arguments(client, state)
            yield f"{' '.join((holds.__doc__ or '').split())}\nIt needs {why_not(holds, c, *of[:2 if role else 1])}"
            yield "The last step changed" + "".join(changes(record, record.before[0], state))
        if client in record.index:
            able = [labelled(action, move[0]) for action in model.processes[record.index[client]].actions
                    for move in record.possible(client, action, state)]
            yield f"What {client or 'the store'} could do here: {', '.join(able) or 'nothing'}"
            if hasattr(record.arguments(client, state)[3], "_fields"):
                yield fields(client, record.arguments(client, state)[3])
        yield fields("Shared", state.shared)


def impossible(record: Record, match: Match, action: str | None, state: State) -> str:
    process, of = record.model.processes[record.index[match.process]], record.arguments(match.process, state)
    if action is STUTTER:
        return f"To take no step: expected {why_not(match.agrees, action, *of[2:], *of[2:])}"
    name, moves = f"{process.role}.{action}".lstrip("."), record.possible(match.process, action, state)
    if not moves:
        return f"{name} needs {why_not(process.actions[action], *of, observed=match.choices)}"
    chosen = [move for move in moves if match.choices in (None, move[0])]
    if not chosen:
        offered = " or ".join(labelled(action, move[0]) for move in moves)
        return f"{name} is possible, but not this one: expected {offered}, observed {labelled(action, match.choices)}"
    return f"{name} is possible, but shows something else: " + "\n  or ".join(dict.fromkeys(
        f"expected {why_not(match.agrees, action, *of[2:], *move[1:])}" for move in chosen))


def changes(record: Record, before: State, after: State) -> Iterator[str]:
    for name, old, new in zip(("shared", *record.index), (before.shared, *before.locals), (after.shared, *after.locals)):
        for field in getattr(old, "_fields", ()):
            if getattr(old, field) != getattr(new, field):
                yield f"\n  {name}.{field}: {show(getattr(old, field))} -> {show(getattr(new, field))}"
