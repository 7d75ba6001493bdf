"""Explain why a trace was refused, down to the line of the model.

The trace is replayed with a refiner that records the action of each event. For an action that was not possible, its source is
evaluated on the failing state, down to the first `if` or `for` that let nothing pass. The models need no code for this. The
text is a function of the arguments: no machine path and no hash order goes into it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from textwrap import fill
from typing import Any, NamedTuple

from highwater.model.core import Label, Local, Shared, State
from highwater.model.guards import notes, place_of, refusal, show, why_not
from highwater.traces.event import NODE_KINDS, Event
from highwater.traces.explain.causes import AT_REST, REFUSALS, Cause, History, causes
from highwater.traces.explain.causes import changes as changes_object
from highwater.traces.form import MUTATIONS
from highwater.traces.refine import STUTTER, Effect, Failure, Match, Refiner

LAST = 12  # events shown before the failing one
REQUESTS = {"create": "put {} if absent", "update": "put {} over the version read", "get_if_changed": "get {} if changed",
            "get_range": "get a part of {}"}
REPLIES = {304: "not changed", 404: "not there", 412: "condition failed", 416: "no such bytes", 429: "too many requests",
           503: "unavailable"}
OF_DISKS = {200: "", 404: "there is no such file", 423: "another process holds the folder", 500: "it failed",
            507: "the disk is full"}


class Row(NamedTuple):
    """One event, its steps in the model, and the state after it."""

    event: Event
    steps: tuple[Label, ...]  # several: something also expired or was sent, or the trace leaves open which it was
    after: State | None  # None from the first event that the model cannot follow


class Replayed(NamedTuple):
    rows: list[Row]  # of all events
    initial: State
    failing: int | None  # the number of the event that the model cannot follow
    error: BaseException | None  # why it was refused
    record: "Record"
    first: int = 0  # the number of the first row, if only the last ones are there

    def before(self, number: int) -> State | None:
        """Return the model's state before an event."""
        return self.rows[number - 1].after if number else self.initial


def replay(events: Iterable[Event], trace: Any, last: int | None = None) -> Replayed:
    """Feed the events to a trace of the same kind that records the model's steps. `last`: how many rows to keep, the last ones
    up to the event that fails; None: all."""
    record = Record(trace.refiner.model)
    trace = trace.anew(record)
    rows, failing, error, initial, number = deque[Row](maxlen=last), None, None, record.unpacked()[0], -1
    for number, event in enumerate(events):
        record.taken = []
        if error is None:
            try:
                trace.observe(event)
            except (Failure, Exception) as refused:  # an event that nobody can have sent may raise anything
                failing, error = number, refused
        rows.append(Row(event, tuple(record.taken), None if error else record.unpacked()[0]))
        if error and last:
            break
    return Replayed([*rows], initial, failing, error, record, number + 1 - len(rows))


def explain(events: Iterable[Event], failure: BaseException, trace: Any, command: str = "", by_model: bool = True,
            width: int | None = None) -> str:
    """Return the explanation of a failure as text.

    `events`: up to the failing one. `trace`: a Trace of the same kind, used or not. `command`: the command that replays the
    run. `by_model`: False if the failure was found without the model; the events may then go on after a step that the model
    forbids. `width`: the most that a line of a table may have. For a failure outside the trace (liveness, an
    exception of impl) the text shows the last events and the state."""
    return told(replay(events, trace, LAST + 1 if by_model else None), failure, command, by_model, width)


def told(replayed: Replayed, failure: BaseException, command: str = "", by_model: bool = True, width: int | None = None) -> str:
    rows, _, failing, found, record, first = replayed
    if not by_model:
        failing = found = None
    rows = rows[:len(rows) if failing is None else failing + 1 - first]
    event = rows[-1].event if rows else None
    error = found or failure
    parts = [f"{getattr(error, 'signature', type(error).__name__)}\n{error}"]
    if event:
        shown = [(str(number), f"{e.t_ms} ms", e.client, request(e), reply(e), in_the_model(steps))
                 for number, (e, steps, _) in enumerate(rows, first)]
        parts += [f"{'Failing' if found else 'Last'} event, number {first + len(rows) - 1}:\n  {words(event)}",
                  "The last events, and what each was in the model:\n" + table(shown[-LAST - 1:], width=width)]
    if not by_model:
        parts += forbidden(replayed)
    elif isinstance(error, Failure):
        parts += reasons(error, record, client_of(error, event))
    return "\n\n".join([*parts, f"Replay: {command}"] if command else parts) + "\n"


def forbidden(replayed: Replayed) -> Iterator[str]:
    """Describe the first event that the model cannot follow in a run that was judged without it."""
    number, error = replayed.failing, replayed.error
    if number is None:
        return
    event = replayed.rows[number].event
    yield f"Event {number} is the first step that the model forbids:\n  {words(event)}\n  {error}"
    if isinstance(error, Failure):
        yield from reasons(error, replayed.record, client_of(error, event))


def client_of(error: Failure, event: Event | None) -> str:
    return error.match.process if error.match else event.client if event else ""


def in_the_model(steps: tuple[Label, ...]) -> str:
    return ", ".join(labelled(action, choices) for _, action, choices in steps)


def instead(replayed: Replayed, number: int) -> list[str]:
    """Return the false guard of each other action of the client at an event, unless that guard is on its `pc`."""
    e, steps, _ = replayed.rows[number]
    state, record, found = replayed.before(number), replayed.record, []
    if not steps or state is None or e.client not in record.index:
        return found
    process, of = record.model.processes[record.index[e.client]], record.arguments(e.client, state)
    for action, function in process.actions.items():
        if not record.possible(e.client, action, state):
            last = why = refusal(function, *of)
            while last.needs:
                last = last.needs
            if ".pc" not in last.guard:
                found.append(f"{action} needs {why}")
    return found


def step_before(replayed: Replayed, failing: list[int]) -> int | None:
    """Return the last event of the client before a false response to its caller; None if no response failed."""
    last = max(failing, default=-1)
    if last < 0 or replayed.rows[last].event.kind != "told":
        return None
    client = replayed.rows[last].event.client
    return next((number for number in range(last - 1, -1, -1) if replayed.rows[number].event.client == client), None)


def skipped(replayed: Replayed, failing: list[int]) -> str:
    """Say which actions the model's client takes before it responds, and where they are defined; "" if it was at rest."""
    last = max(failing, default=-1)
    if last < 0:
        return ""
    e, state, record = replayed.rows[last].event, replayed.before(last), replayed.record
    if e.kind != "told" or state is None or e.client not in record.index:
        return ""
    process, of = record.model.processes[record.index[e.client]], record.arguments(e.client, state)
    fair = record.model.fair.get(process.role, frozenset())
    able = [f"{action} ({place_of(function)})" for action, function in process.actions.items()
            if action in fair and record.possible(e.client, action, state)]
    if not able or getattr(of[3], "pc", AT_REST[0]) in AT_REST:
        return ""
    return f"Before {e.client} tells its caller it does {' or '.join(able)}, and no event was that"


# --- the causal slice ---------------------------------------------------------------------------------------------------

def failing_events(replayed: Replayed, failure: BaseException | None, by_model: bool = True) -> list[int]:
    """The event that the model cannot follow; of a failure that is found in the end, or without the model, those that its
    message names by client and time, or by what a caller was told; else the last."""
    if replayed.failing is not None and by_model:
        return [replayed.failing]
    if failure is None or not replayed.rows:
        return []
    text = str(failure)
    named = [number for number, (e, *_) in enumerate(replayed.rows)
             if (e.client in text and e.key in text and f"at {e.t_ms} ms" in text) or
             (e.op == "committed" and re.search(rf"\b{re.escape(e.body.decode(errors='replace'))}\b", text))]
    return named or [len(replayed.rows) - 1]


def mattered(replayed: Replayed, failing: list[int], trace: Any, refusals: Mapping[int, str] = REFUSALS,
             by_model: bool = True) -> list[Cause]:
    """`trace`, `refusals`: as traces/explain/causes.py has them. In a run that was judged without the model, the step that the
    model forbids and later changes of the objects that the failing events name matter, too."""
    def local(number: int, client: str) -> Any:
        state, index = replayed.before(number), replayed.record.index
        return state.locals[index[client]] if state and client in index else None

    events = [row.event for row in replayed.rows]
    more = {} if by_model else {cause.number: cause for cause in later_causes(replayed, failing)}
    found = causes(History(events, trace, local, refusals), sorted({*failing, *more}))
    return sorted([*found, *more.values()])


def later_causes(replayed: Replayed, failing: list[int]) -> Iterator[Cause]:
    """Yield what no failing event depends on: the step that the model forbids, and what became of the objects since."""
    events = [row.event for row in replayed.rows]
    for number in failing:
        for later, e in enumerate(events[number + 1:], number + 1):
            if events[number].key and e.key == events[number].key and changes_object(e) and later not in failing:
                yield Cause(later, number, f"it {'deletes' if e.op == 'delete' else 'replaces'} what {number} names")
    if replayed.failing is not None and replayed.failing not in failing:
        why = " ".join(str(replayed.error).split())
        yield Cause(replayed.failing, failing[-1], f"the model forbids it: {why}")


def counted(replayed: Replayed, found: list[Cause], failing: list[int]) -> str:
    """Say how many of a run's events mattered."""
    fail = "the one that fails" if len(failing) == 1 else f"the {len(failing)} that fail"
    return (f"{len(found) + len(failing)} of {len(replayed.rows)} events ({fail}, and {len(found)} that led to "
            f"{'it' if len(failing) == 1 else 'them'})")


def what_mattered(replayed: Replayed, found: list[Cause], failing: list[int], width: int | None = None) -> str:
    rows = []
    for number, why in sorted([(cause.number, cause.why) for cause in found] + [(number, "fails") for number in failing]):
        e, steps, _ = replayed.rows[number]
        rows.append((str(number), f"{e.t_ms} ms", e.client, request(e), reply(e), in_the_model(steps), why))
    return f"What mattered, {counted(replayed, found, failing)}:\n" + table(rows, (*HEAD, "why it matters"), width)


class Record(Refiner):
    """A refiner that records the steps of each event and the states before the last step. It caches nothing, so it is slow."""

    taken: list[Any]  # Labels

    def event(self, process: str, event: Any, match: Callable[[Event], Match | None]) -> None:
        found = match(event)
        if found is not None:
            self.step(found)

    def step(self, match: Match, effect: Effect | None = None) -> None:
        self.before = self.unpacked()
        of = self.arguments(match.process, self.before[0])[2:]
        self.taken += [(match.process, action, move[0]) for action in filter(None, match.actions)
                       for move in self.possible(match.process, action, self.before[0])
                       if match.choices in (None, move[0]) and (not match.agrees or match.agrees(action, *of, *move[1:]))]
        super().step(match)

    def keep(self, process: str, so: Callable[[Shared, Local], object]) -> bool:
        self.before = self.unpacked()
        return super().keep(process, so)

    def arguments(self, process: str, state: State) -> tuple[Any, int, Any, Any]:
        p = self.index[process]
        return self.model.constants, self.model.processes[p].index, state.shared, state.locals[p]

    def possible(self, process: str, action: str, state: State) -> list[tuple]:
        of = self.model.processes[self.index[process]].actions.get(action)  # None: an action of other roles
        return list(of(*self.arguments(process, state))) if of else []


# --- in words -----------------------------------------------------------------------------------------------------------

def thing(key: str, body: bytes = b"") -> str:
    """Name an object in few letters: a file of a sequence by its id; one with a longer name by folder, id and the rest."""
    if key.endswith(".boundary"):
        return f"boundary {body.decode(errors='replace')}".rstrip()
    number = re.search(r"\d{20}", key)
    longer = re.search(r"([^/]*)/(\d{20})([^/]+)$", key)
    if longer and longer[3] not in (".sst", f".{longer[1]}"):
        return f"{longer[1]}/{int(longer[2])}{longer[3]}"
    return f"id {int(number[0])}" if number else key


def of_node(e: Event) -> str:
    """Say in few words what a node did."""
    if e.kind == "sent":
        return f"sends {len(e.body):,} bytes to {e.key} as message {e.request}"
    if e.kind == "received":
        return f"receives message {e.request} of {e.key}"
    if e.kind == "step":
        return f"step {e.op}: {e.body.decode(errors='replace')}"
    if e.kind != "disk":
        return f"its {e.op} {e.kind}"
    size = f", {len(e.body):,} bytes" if e.op in ("append", "read") else ""
    return " ".join(filter(None, (e.op, e.key, e.condition and f"to {e.condition}"))) + size


def request(e: Event) -> str:
    if e.kind in NODE_KINDS:
        return of_node(e)
    if e.kind == "told":
        body = "" if e.op == "read" else e.body.decode(errors="replace")
        return " ".join(filter(None, ("was told:", e.op, body, thing(e.key))))
    after = f" after {thing(e.condition)}" if e.op == "list" and e.condition else ""
    return REQUESTS.get(e.op, e.op + " {}").format(thing(e.key, e.body)) + after


def reply(e: Event) -> str:
    if e.kind in NODE_KINDS:
        return OF_DISKS[e.status] if e.kind == "disk" else "; ".join(e.keys)
    if e.kind in ("told", "crash", "timeout"):
        return "" if e.kind == "told" else e.kind + ", it may still be applied" * (e.pending and e.op in MUTATIONS)
    listed = ""
    if e.op == "list" and e.status == 200:
        listed = f": {', '.join(map(thing, e.keys)) or 'nothing'}{', and more' * e.truncated}"
    return f"{e.status} {REPLIES.get(e.status, '')}".rstrip() + listed + ", nobody waits" * (not e.awaited)


def words(e: Event) -> str:
    of = f" (request {e.request}, {e.key})" if e.request and e.kind not in NODE_KINDS else ""
    content = f"\n  content {e.body.decode(errors='replace')}" if e.body[:1] == b"{" else ""
    return f"{e.client} at {e.t_ms} ms: {request(e)}{of}{'; ' * bool(reply(e))}{reply(e)}{content}"


HEAD = "#", "time", "client", "request", "reply", "in the model"


def table(rows: list[tuple[str, ...]], head: tuple[str, ...] = HEAD, width: int | None = None) -> str:
    """Lay out events in columns; if the lines would exceed `width`, the columns after the request go below it."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
    if width is None or max(map(len, lines)) <= width:
        return "\n".join(lines)
    indent = " " * (sum(widths[:3]) + 8)
    folded = partial(fill, width=width, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(line for row in rows for line in (
        folded("  " + "  ".join([*map(str.ljust, row[:3], widths), ": ".join(filter(None, row[3:5]))])),
        *(folded(f"{name}: {cell}", initial_indent=indent) for name, cell in zip(head[5:], row[5:]) if cell)))


def labelled(action: str, choices: Any) -> str:
    return " ".join([action, *map(show, choices)])


def fields(name: str, record: Any) -> str:
    return f"{name} in the model (what is empty or 0 is left out):" + "".join(
        f"\n  {field}: {show(value)}" for field, value in fields_in(record).items() if value)


def fields_in(record: Any) -> dict[str, Any]:
    """Return name -> value of a state's fields. A product of models (`PRODUCT`) has those of its parts: "wal.pool". A state
    that is no record, and a part that is None, have no fields."""
    found = record._asdict() if hasattr(record, "_fields") else {}
    if not getattr(record, "PRODUCT", False):
        return found
    return {f"{part}.{name}": value for part, of in found.items() for name, value in fields_in(of).items()}


def notes_in(record: Any) -> dict[str, str]:
    """Return name -> comment of the fields that `fields_in` returns."""
    if not getattr(record, "PRODUCT", False):
        return notes(type(record)) if hasattr(record, "_fields") else {}
    return {f"{part}.{name}": note for part, of in record._asdict().items() for name, note in notes_in(of).items()}


# --- why ----------------------------------------------------------------------------------------------------------------

def reasons(failure: Failure, record: Record, client: str) -> Iterator[str]:
    states, match, model = failure.states or record.unpacked(), failure.match, record.model
    for number, state in enumerate(states):
        if len(states) > 1:
            yield f"State {number + 1} of the {len(states)} that the model may be in:"
        if failure.kind == "refinement" and match:
            yield "\n".join(impossible(record, match, action, state) for action in match.actions if action or match.agrees)
        if (name := failure.signature.removeprefix("safety:")) in model.always:  # a product of models has none of its own
            role, holds = model.always[name]
            c, _, *of = record.arguments(client, state)
            yield f"{' '.join((holds.__doc__ or '').split())}\nIt needs {why_not(holds, c, *of[:2 if role else 1])}"
            yield "The last step changed" + "".join(changes(record, record.before[0], state))
        if client in record.index:
            able = [labelled(action, move[0]) for action in model.processes[record.index[client]].actions
                    for move in record.possible(client, action, state)]
            yield f"What {client or 'the store'} could do here: {', '.join(able) or 'nothing'}"
            if fields_in(local := record.arguments(client, state)[3]):
                yield fields(client, local)
        if fields_in(state.shared):  # else a machine of its own judges the trace: traces/protocols/db.py
            yield fields("Shared", state.shared)


def impossible(record: Record, match: Match, action: str | None, state: State) -> str:
    process, of = record.model.processes[record.index[match.process]], record.arguments(match.process, state)
    if action is STUTTER:
        return f"To take no step: expected {why_not(match.agrees, action, *of[2:], *of[2:])}"
    if action not in process.actions:
        return f"{action} is no action of a {process.role}; it has {', '.join(process.actions)}"
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
        was, now = fields_in(old), fields_in(new)
        for field in now:
            if was.get(field) != now[field]:
                yield f"\n  {name}.{field}: {show(was.get(field))} -> {show(now[field])}"
