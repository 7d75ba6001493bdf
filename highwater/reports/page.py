"""Safety: what the explorer page shows of a state is what the model says of it: its fields, its moves (asked of the readable
actions, once for each pair of shared and own local state), for every other action the guard that refuses it, and the
verdict of each property.

The page is one file that needs no network: page.html, with page.css, page.js and the graph put into it. It walks from any
counterexample, or from the initial state. A graph of more than `max_states` states is cut to the neighbourhood of the
counterexample.
"""

import json
import re
from collections.abc import Callable
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from highwater.conformance.difference import as_spec_of
from highwater.model.core import Label, Model, State, Step, init, moves
from highwater.model.guards import Refusal, choices_of, doc, guards_of, notes, place_of, refusal, show

ASSETS = Path(__file__).parent / "assets"
MAX_STATES = 20_000
Numbered = tuple[int, ...]  # a state: the numbers of its shared part and of each local part
Move = tuple[str, tuple, int, int]  # action, choices, number of shared', number of local'


class Tables(NamedTuple):
    """The graph around some states. Moves depend only on the pair (shared, own local) of a process, and are kept by pair."""

    values: list[list[Any]]  # of the shared part, then of each process's local part: number -> value
    numbers: list[dict[Any, int]]  # and value -> number
    moves: list[dict[tuple[int, int], list[Move]]]  # of each process: pair -> its moves
    states: dict[Numbered, int]  # steps from the nearest start
    radius: int | None  # all states within this many steps are included; None: all states


def tabulate(model: Model, starts: list[State], max_states: int | None = None) -> Tables:
    """Tabulate the graph breadth-first from `starts`: the starts, and whole levels up to `max_states` states."""
    values: list[list[Any]] = [[] for _ in range(len(model.processes) + 1)]
    numbers: list[dict[Any, int]] = [{} for _ in values]
    moves: list[dict[tuple[int, int], list[Move]]] = [{} for _ in model.processes]

    def number(part: int, value: Any) -> int:
        found = numbers[part].setdefault(value, len(values[part]))
        if found == len(values[part]):
            values[part].append(value)
        return found

    def expand(p: int, pair: tuple[int, int]) -> list[Move]:
        process, shared, local = model.processes[p], values[0][pair[0]], values[p + 1][pair[1]]
        return [(action, choices, number(0, shared2), number(p + 1, local2)) for action, of in process.actions.items()
                for choices, shared2, local2 in of(model.constants, process.index, shared, local)]

    states: dict[Numbered, int] = {}
    level = dict.fromkeys((number(0, s.shared), *(number(p, local) for p, local in enumerate(s.locals, 1))) for s in starts)
    radius = -1
    while level and (radius < 0 or max_states is None or len(states) + len(level) <= max_states):
        radius += 1
        states.update(dict.fromkeys(level, radius))
        following: dict[Numbered, None] = {}
        for state in level:
            for p, table in enumerate(moves):
                pair = state[0], state[p + 1]
                if pair not in table:
                    table[pair] = expand(p, pair)
                for _, _, shared2, local2 in table[pair]:
                    successor = (shared2, *state[1:p + 1], local2, *state[p + 2:])
                    if successor not in states:
                        following[successor] = None
        level = following
    return Tables(values, numbers, moves, states, radius if level else None)


class Interned(list):
    """A list of distinct things, in the order of their first use. Things with equal `key` are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[Any, int] = {}

    def number(self, thing: Any, key: Any = None) -> int:
        key = key or repr(thing)
        if key not in self.at:
            self.at[key] = len(self)
            self.append(thing)
        return self.at[key]


def page(model: Model, trace: tuple[Step, ...] = (), violated: str | None = None, *, loop: int | None = None,
         command: str = "", more: str = "", max_states: int = MAX_STATES) -> str:
    """Return the HTML text: the same bytes for the same arguments.

    `trace`: from the initial state; `violated`: the property that fails in its last state, or on its cycle, which goes from
    the last state back to step `loop`. `command`: what writes this page; `more`: what writes one with more states. Raises
    ValueError for a trace that is not the model's."""
    data = embedded(model, trace, violated, loop, max_states)
    data = {"size": "@SIZE@", **data, "command": command, "more": more}
    return written("page", f"{model.name}: {violated} fails" if violated else f"{model.name}: states", data)


def written(stem: str, title: str, data: dict, *styles: str) -> str:
    """Fill <stem>.html with these styles, its own style, its script and the data. "@SIZE@" in the data becomes the page's
    size."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    html, script = (ASSETS.joinpath(f"{stem}.{kind}").read_text() for kind in ("html", "js"))
    style = "".join(ASSETS.joinpath(f"{name}.css").read_text() for name in (*styles, stem))
    size = sum(len(part.encode()) for part in (html, style, script, text))
    weight = f"{size / 1024:,.0f} KiB" if size < 10 << 20 else f"{size / 2**20:,.0f} MiB"
    parts = {"TITLE": escape(title), "STYLE": style, "SCRIPT": script, "DATA": text.replace("@SIZE@", weight, 1)}
    return re.sub("@(TITLE|STYLE|SCRIPT|DATA)@", lambda match: parts[match[1]], html)


def embedded(model: Model, trace: tuple[Step, ...], violated: str | None, loop: int | None, max_states: int) -> dict:
    initial = init(model)
    trace = trace or (Step(("", "Init", ()), initial),)
    if trace[0].state != initial:
        raise ValueError("the trace does not begin in the initial state")
    apart = [plain_steps(model, number, *steps) for number, steps in enumerate(pairwise(trace), 1)]
    loop = loop and sum(map(len, apart[:loop]))
    trace = (trace[0], *(step for steps in apart for step in steps))
    tables = tabulate(model, [step.state for step in trace], max_states)
    texts, refusals, rows, verdicts = Interned(), Interned(), Interned(), Interned()

    def refused(found: Refusal) -> int:
        if found not in refusals.at:
            needs = refused(found.needs) if found.needs else -1
            refusals.number([*map(texts.number, found[:2]), [*map(texts.number, found.operands)], needs], found)
        return refusals.at[found]

    def disabled(p: int, shared: Any, local: Any, able: set[str]) -> int:
        process = model.processes[p]
        return rows.number([-1 if name in able else refused(refusal(action, model.constants, process.index, shared, local))
                            for name, action in process.actions.items()])

    def verdict(role: str | None, *of: Any) -> int:
        """[[failing `always` property, why] ..], [those of the others that are true here ..]"""
        failing, true = [], []
        for number, (kind, name, _) in enumerate(judged):
            of_role, holds = getattr(model, kind)[name]
            if of_role == role and bool(holds(model.constants, *of)) != (kind == "always"):
                if kind == "always":
                    failing.append([number, refused(refusal(holds, model.constants, *of))])
                else:
                    true.append(number)
        return verdicts.number([failing, true])

    judged = [(kind, name, role) for kind in ("always", "sometimes", "eventually")
              for name, (role, _) in getattr(model, kind).items()]
    roles = {process.role: process for process in reversed(model.processes)}
    moves = []
    for p, process in enumerate(model.processes):
        names, table = list(process.actions), []
        for pair, found in tables.moves[p].items():
            shared, local = tables.values[0][pair[0]], tables.values[p + 1][pair[1]]
            table.append([*pair, disabled(p, shared, local, {move[0] for move in found}), verdict(process.role, shared, local)])
            for action, choices, shared2, local2 in found:
                table[-1] += [names.index(action), texts.number(told(process.actions[action], choices)), shared2, local2]
        moves.append(table)
    constants, defaults = model.constants, getattr(model.constants, "_field_defaults", {})
    return {
        "name": model.name, "violated": violated, "loop": loop,
        "constants": [[name, show(value), name in defaults and value != defaults[name], said]
                      for (name, said), value in zip(noted(constants).items(), constants)],
        "processes": [[p.name or "store", p.role] for p in model.processes],
        "roles": {role: {"fields": list(noted(p.local).items()), "actions": [about(name, f) for name, f in p.actions.items()]}
                  for role, p in roles.items()},
        "shared": list(noted(model.shared).items()),
        "values": [[[texts.number(field) for field in fields(model, part, value)] for value in of]
                   for part, of in enumerate(tables.values)],
        "judged": [verdict(None, shared) for shared in tables.values[0]],
        "moves": moves, "rows": rows, "refusals": refusals, "verdicts": verdicts,
        "properties": [[kind, name, role, doc(getattr(model, kind)[name][1])] for kind, name, role in judged],
        "trace": [[numbered(tables, step.state), *labelled(model, texts, step.label)] for step in trace],
        "states": len(tables.states), "edges": edges(tables), "radius": tables.radius, "limit": max_states,
        "texts": texts,
    }


def plain_steps(model: Model, number: int, before: Step, after: Step) -> list[Step]:
    """Return the model's steps for a step of a trace: one, or several for a step of a merged model
    (model/explore/reductions.py). Raises ValueError if the model has no such step."""
    (process, action, choices), state = after
    role = next((p.role for p in model.processes if p.name == process), "")
    waiting = [(step,) for step in moves(model, before.state) if step.label[:2] == (process, action)]
    for steps in waiting:  # grows while we walk it
        if steps[-1].state == state and (len(steps) > 1 or steps[0].label == after.label):
            return list(steps)
        if choices[:len(steps[0].label[2])] == steps[0].label[2] and len(steps) < len(choices):
            waiting += [(*steps, step) for step in moves(model, steps[-1].state)
                        if step.label[0] == process and step.label[1] in model.unseen.get(role, ())]
    raise ValueError(f"step {number} of the trace, {process}.{action}{choices or ''}, is no move of the model")


def numbered(tables: Tables, state: State) -> list[int]:
    return [numbers[part] for numbers, part in zip(tables.numbers, (state.shared, *state.locals))]


def edges(tables: Tables) -> int:
    return sum(len(table[state[0], state[p]]) for state in tables.states for p, table in enumerate(tables.moves, 1))


def labelled(model: Model, texts: Interned, label: Label) -> list[int]:
    """Return the numbers of the process, of its action (-1: Init), and of the text of the choices."""
    process, action, choices = label
    p = next((p for p, of in enumerate(model.processes) if of.name == process and action in of.actions), -1)
    if p < 0:
        return [-1, -1, texts.number("")]
    actions = model.processes[p].actions
    return [p, list(actions).index(action), texts.number(told(actions[action], choices))]


# --- texts --------------------------------------------------------------------------------------------------------------

def told(action: Callable, choices: tuple) -> str:
    """pin=False"""
    names = choices_of(action)
    return ", ".join(f"{name}={show(value)}" if name else show(value)
                     for name, value in zip(names if len(names) == len(choices) else [""] * len(choices), choices))


def about(name: str, action: Callable) -> list:
    return [name, doc(action), place_of(action), list(guards_of(action))]


def noted(record: Any) -> dict[str, str]:
    """Return the names and comments of the fields. A part that is no record has one unnamed field, unless it is empty."""
    return notes(type(record)) if hasattr(record, "_fields") else {"": ""} if record != () else {}


def fields(model: Model, part: int, value: Any) -> list:
    """Return the value to show for each field: a text, or `["{", element ..]`, `["(", element ..]`, `["=", [key, text] ..]`,
    whose elements are compared one by one."""
    if not hasattr(value, "_fields"):
        return [shown(value)] if value != () else []
    written = as_spec_of(model.name) if part == 0 else {}
    return [shown(written[name](field) if name in written else field) for name, field in value._asdict().items()]


def shown(value: Any) -> str | list:
    if isinstance(value, dict):
        return ["=", *([show(key), show(of)] for key, of in value.items())]
    if isinstance(value, (frozenset, set)):
        return ["{", *sorted(map(show, value), key=lambda text: (len(text), text))]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        if any(hasattr(part, "_fields") or isinstance(part, frozenset) for part in value):
            return ["=", *([str(place), show(part)] for place, part in enumerate(value))]
        if any(isinstance(part, tuple) for part in value):
            return ["(", *map(show, value)]
    return show(value)
