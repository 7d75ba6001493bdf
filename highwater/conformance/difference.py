"""Safety: a model's graph and FizzBee's are equal, or the first difference is reported. It is at the end of a shortest path on
which both agree, and is printed field by field, with the source of the action on both sides.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NamedTuple

from highwater import project
from highwater.model.core import Label, Model, State
from highwater.model.explore.tabulated import Explorer
from highwater.model.guards import is_helper
from highwater.specs.fizzbee.files import Graph
from highwater.specs.fizzbee.reader import Block, read
from highwater.specs.fizzbee.values import canonical
from highwater.specs.runs import Row

ROOT = Path(__file__).parent.parent  # the package highwater
HOLDER = "clients"  # the spec's global that holds its roles; the model has none
EDGES_SHOWN, ACTIONS_SHOWN = 4, 2  # at most
ABSENT = "absent"

Canonical = Any  # a state: ((variable, value), ...), ((process, ((field, value), ...)), ...)
Edge = tuple[Label, Canonical]


class Difference(NamedTuple):
    path: tuple[Label, ...]
    before: Canonical  # the state at its end; if the initial states differ, FizzBee's
    model_only: tuple[Edge, ...]
    spec_only: tuple[Edge, ...]
    initial: Canonical = None  # the model's initial state, if the initial states differ


class Compared(NamedTuple):
    """The number of common states and edges, and the difference, if there is one."""

    states: int
    edges: int
    difference: Difference | None


def compare(row: Row, model: Model, graph: Graph) -> Compared:
    """Walk both graphs together, breadth-first, until they differ."""
    x, as_spec = Explorer(model), in_words_of_the_spec(row, model)
    states = [without_holder(state) for state in graph.states]
    number_of = {state: number for number, state in enumerate(states)}
    edges: list[set[tuple[Label, int]]] = [set() for _ in states]
    for source, (process, action, choices), target in graph.edges:
        edges[source].add(((process, action, tuple(value for _, value in choices)), target))

    numbers: dict[int, int | None] = {}  # packed -> FizzBee's number of the state, None if it has no such state
    labels: dict[Label, Label] = {}

    def number(packed: int) -> int | None:
        if packed not in numbers:
            numbers[packed] = number_of.get(as_spec(x.unpack(packed)))
        return numbers[packed]

    if number(x.initial) != graph.initial:
        return Compared(0, 0, Difference((), states[graph.initial], (), (), as_spec(x.unpack(x.initial))))
    parents: dict[int, tuple[int, Label] | None] = {x.initial: None}
    queue, count = [x.initial], 0
    for packed in queue:  # the loop appends to it
        here: dict[tuple[Label, int | None], int] = {}
        for label, successor in x.successors(packed):
            if label not in labels:
                labels[label] = (label[0], label[1], canonical(label[2]))
            here[labels[label], number(successor)] = successor
            if successor not in parents:
                parents[successor] = packed, labels[label]
                queue.append(successor)
        known = number(packed)
        assert known is not None  # the walk ends before it comes to a state that FizzBee does not have
        there = edges[known]
        if here.keys() != there:
            ours = [(label, as_spec(x.unpack(successor))) for (label, n), successor in here.items() if (label, n) not in there]
            theirs = [(label, states[n]) for label, n in there - here.keys()]
            path = tuple(reversed(list(back(parents, packed))))
            return Compared(len(parents), count, Difference(
                path, states[known], tuple(sorted(ours, key=repr)), tuple(sorted(theirs, key=repr))))
        count += len(here)
    return Compared(len(parents), count, None)


def back(parents: dict[int, tuple[int, Label] | None], packed: int) -> Iterator[Label]:
    while before := parents[packed]:
        packed, label = before
        yield label


def without_holder(state: tuple) -> Canonical:
    return tuple(pair for pair in state[0] if pair[0] != HOLDER), tuple(sorted(state[1]))


def as_spec_of(stem: str) -> dict[str, Callable[[Any], Any]]:
    """Return the conversions of model variables that the spec writes differently. A user's own model has none."""
    return getattr(project.load("model", stem), "AS_SPEC", {}) if project.has("model", stem) else {}


def in_words_of_the_spec(row: Row, model: Model) -> Callable[[State], Canonical]:
    """Return a function that writes a state as the spec does. It caches shared parts and locals, which recur."""
    written = as_spec_of(row.stem)
    clients = sorted((p.name, p.role, i) for i, p in enumerate(model.processes) if p.name)
    kept: dict[tuple[str, Any], Canonical] = {}

    def form(role: str, part: Any) -> Canonical:
        if (role, part) not in kept:
            words = written if not role else {}
            kept[role, part] = canonical({name: words[name](value) if name in words else value
                                          for name, value in part._asdict().items()})
        return kept[role, part]

    return lambda state: (form("", state.shared), tuple((name, form(role, state.locals[i])) for name, role, i in clients))


# --- a state in FizzBee's JSON

def differing(stem: str, model: Model, end: State, state: dict[str, Any]) -> list[str]:
    """List the variables and clients that differ between FizzBee's state and the model's."""
    written = as_spec_of(stem)
    ours = {name: written[name](value) if name in written else value for name, value in end.shared._asdict().items()}
    ours |= {process.name: local for process, local in zip(model.processes, end.locals) if process.name}
    return [name for name, value in ours.items() if name not in state or not alike(value, state[name])]


def alike(ours: Any, theirs: Any) -> bool:
    """Compare a value of the model with FizzBee's JSON: a record is an object there, and a set is a list in any order."""
    if hasattr(ours, "_asdict"):
        ours = ours._asdict()
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and {str(key) for key in ours} == theirs.keys() and all(
            alike(value, theirs[str(key)]) for key, value in ours.items())
    if isinstance(ours, (tuple, frozenset)):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            return False
        ordered = isinstance(ours, tuple)
        return all(map(alike, ours, theirs)) if ordered else all(any(alike(x, y) for y in theirs) for x in ours)
    return ours == theirs


# --- in words

def described(row: Row, model: Model, difference: Difference) -> str:
    """Describe the difference: the path to it, the state before it, what each side does then, and both sides' source."""
    path, before = difference.path, difference.before
    if difference.initial is not None:
        return "\n".join(["the initial states differ:", *indented(unlike(difference.initial, before, "model", "FizzBee"))])
    lines = [f"after {len(path)} steps: {', '.join(map(label_text, path)) or 'Init'}", "the state, the same in spec and model:"]
    lines += indented(f"{part}: {', '.join(f'{name} = {plain(value)}' for name, value in fields.items())}"
                      for part, fields in parts(before).items())
    ours, theirs = dict(difference.model_only), dict(difference.spec_only)
    differing = sorted(ours.keys() | theirs.keys(), key=lambda label: ((label in ours) != (label in theirs), repr(label)))
    for label in differing[:EDGES_SHOWN]:
        if label in ours and label in theirs:
            lines += [f"both take {label_text(label)}, but reach different states:",
                      *indented(unlike(ours[label], theirs[label], "model", "FizzBee"))]
        else:
            who, after = ("the model", ours[label]) if label in ours else ("FizzBee", theirs[label])
            lines += [f"only {who} can take {label_text(label)}, which changes",
                      *(indented(changes(before, after)) or ["  nothing"])]
    lines += [f"and {len(differing) - EDGES_SHOWN} more edges differ"] if len(differing) > EDGES_SHOWN else []
    actions = dict.fromkeys((process.partition("#")[0], action) for process, action, _ in differing)
    for role, action in list(actions)[:ACTIONS_SHOWN]:
        lines += action_read(row, model, role, action)
    return "\n".join(lines)


def label_text(label: Label) -> str:
    process, action, choices = label
    return f"{process}.{action}".lstrip(".") + (f"({', '.join(map(plain, choices))})" if choices else "")


def plain(value: Any) -> str:
    """Format a value, with sets, lists and tuples alike, as FizzBee does."""
    return f"({', '.join(map(plain, value))})" if isinstance(value, tuple) else str(value) if value == ABSENT else repr(value)


def parts(state: Canonical) -> dict[str, dict[str, Any]]:
    shared, locals_ = state
    return {"shared": dict(leaves("", shared))} | {name: dict(leaves("", local)) for name, local in locals_}


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield ("files[2].updates", value) and the like: records, and dicts of records, are split into fields."""
    if is_record(value):
        for field, part in value:
            yield from leaves(f"{name}.{field}".lstrip("."), part)
    elif isinstance(value, tuple) and value and all(isinstance(v, tuple) and len(v) == 2 and is_record(v[1]) for v in value):
        for key, part in value:
            yield from leaves(f"{name}[{plain(key)}]", part)
    else:
        yield name, value


def is_record(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(
        isinstance(v, tuple) and len(v) == 2 and isinstance(v[0], str) and re.fullmatch(r"\w+", v[0]) and not v[0].istitle()
        for v in value) and len({v[0] for v in value}) == len(value)


def fields(state: Canonical) -> dict[str, Any]:
    return {f"{part}.{name}" if part != "shared" else name: value
            for part, found in parts(state).items() for name, value in found.items()}


def pairs(one: Canonical, other: Canonical) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, value in one state, value in the other) for each field that differs."""
    left, right = fields(one), fields(other)
    for name in [*left, *(name for name in right if name not in left)]:
        if left.get(name, ABSENT) != right.get(name, ABSENT):
            yield name, left.get(name, ABSENT), right.get(name, ABSENT)


def changes(before: Canonical, after: Canonical) -> list[str]:
    return [f"{name}: {plain(old)} → {plain(new)}" for name, old, new in pairs(before, after)]


def unlike(one: Canonical, other: Canonical, first: str, second: str) -> list[str]:
    return [f"{name}: {first} {plain(left)}, {second} {plain(right)}" for name, left, right in pairs(one, other)]


def indented(lines: Any) -> list[str]:
    return [f"  {line}" for line in lines]


# --- both sides' source of an action or a property

def action_read(row: Row, model: Model, role: str, action: str) -> list[str]:
    function = next((p.actions[action] for p in model.processes if p.role == role and action in p.actions), None)
    name = f"{action} of {role}" if role else action
    return both(name, row, read(row.path.read_text()).action(role, action), function)


def property_read(row: Row, model: Model, name: str) -> list[str]:
    _, function = {**model.always, **model.eventually}.get(name, (None, None))
    return both(name, row, read(row.path.read_text()).assertion(name), function)


def both(name: str, row: Row, block: Block | None, function: Callable | None) -> list[str]:
    lines = [f"the spec has no {name}"]
    if block:
        lines = [f"{name} in the spec, {short(row.path)}:{block.line}", indent(block.text, "  | "),
                 *spec_helpers(row, block.text)]
    if function is None:
        return [*lines, f"the model has no {name}"]
    try:
        (text, start), file = inspect.getsourcelines(function), inspect.getsourcefile(function)
    except (OSError, TypeError):  # a function that does not come from a file
        text, start, file = [], 0, None
    if file is None:
        return [*lines, f"{name} in the model: {function!r}"]
    where = f"{short(Path(file))}:{start}"
    return [*lines, f"{name} in the model, {where}", indent(dedent("".join(text)).rstrip(), "  | "), *model_helpers(function)]


def spec_helpers(row: Row, block: str) -> list[str]:
    """List the places of the functions that the block calls."""
    called = dict.fromkeys(re.findall(r"\b(\w+)\(", block))
    found = {function.name: function.line for function in read(row.path.read_text()).functions}
    return using(f"{name} :{found[name]}" for name in called if name in found)


def model_helpers(function: Callable) -> list[str]:
    codes = [getattr(function, "__code__", None)]
    for code in codes:  # the loop appends to it: a comprehension has a code object of its own
        codes += [part for part in getattr(code, "co_consts", ()) if inspect.iscode(part)]
    names = dict.fromkeys(name for code in codes if code for name in code.co_names)
    globals_ = getattr(function, "__globals__", {})
    helpers = {name: globals_[name] for name in names if is_helper(globals_.get(name), function)}
    return using(f"{name} {place(helper, function)}" for name, helper in helpers.items())


def place(helper: Callable, function: Callable) -> str:
    """Return the line of a helper, with its file if that differs from the function's."""
    path = "" if helper.__module__ == function.__module__ else short(Path(inspect.getsourcefile(helper) or ""))
    return f"{path}:{helper.__code__.co_firstlineno}"


def using(found: Iterator[str]) -> list[str]:
    text = ", ".join(found)
    return [f"  uses {text}"] if text else []


def short(path: Path) -> str:
    """Return the path relative to the package, or to the folder that holds the package."""
    root = next((root for root in (ROOT, ROOT.parent) if path.is_relative_to(root)), None)
    return path.relative_to(root).as_posix() if root else str(path)
