"""Safety: spec and model are one: the same states and the same labelled edges, and each row of the manifest comes out as
it says, in FizzBee and in the model.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from model.core import Explorer, Label, Model, explore, graph
from specs.fizz import Fizz, Graph, canonical, link_names
from specs.manifest import Row

Canonical = Any
Edges = dict[Canonical, set[tuple[Label, Canonical]]]


class Result(NamedTuple):
    row: Row
    ok: bool
    kind: str  # of a failure: "spec" (spec and model differ), "safety" (a verdict is not as expected)
    figure: str
    message: str


# How a variable of the model is written in the spec, where it is not the same.
AS_SPEC: dict[str, dict[str, Callable[[Any], Any]]] = {
    "sequenced_metadata_boundary": {"files": lambda files: {i: file for i, file in enumerate(files, 1) if file}},
}


def model_of(row: Row, **constants: object) -> Model:
    module = import_module(f"model.{row.stem}")
    return module.model(module.Constants(**{**row.constants, **constants}))


def conform(row: Row, fizz: Fizz, model: Model | None = None, cache: bool = True) -> Result:
    """Run one row, on FizzBee and on the model."""
    model = model or model_of(row)
    found = explore(model)
    explorer, edges = graph(model)
    if len(edges) != row.states:
        return Result(row, False, "spec", f"{len(edges):,} states", f"the model has {len(edges):,} states, the manifest says "
                      f"{row.states:,}")
    if (found.violated or "") != row.violates or (not row.violates and found.never != row.never):
        return Result(row, False, "safety", "", f"the model: violated {found.violated}, never witnessed {list(found.never)}; "
                      f"the manifest: {row.violates or None}, {list(row.never)}")
    if row.how == "guided":
        return guided(row, fizz, found)
    checked = fizz.check(row.path, row.constants, cache=cache)
    if (checked.verdict, checked.failed_assertion or "") != (row.expect, row.violates):
        return Result(row, False, "safety", "", f"FizzBee says {checked.verdict} {checked.failed_assertions or ''}, expected "
                      f"{row.expect} {row.violates}")
    if row.how == "check":
        return Result(row, True, "", f"{row.expect} as expected", "")
    theirs = fizz.graph(row.path, row.constants, cache=cache)
    difference = differ(as_canonical(row, explorer, edges), spec_edges(theirs))
    if difference:
        return Result(row, False, "spec", "graphs differ", difference)
    count = sum(map(len, edges.values()))
    return Result(row, True, "", f"{len(edges):,} states, {count:,} edges equal", "")


def guided(row: Row, fizz: Fizz, found: Any) -> Result:
    """Drive FizzBee along the model's counterexample."""
    variables = choice_variables(row.path.read_text())
    links = []
    for (process, action, choices), _ in found.trace[1:]:
        names = variables.get((process.partition("#")[0], action), [])
        links += link_names((process, action, tuple(zip(names, choices))))
    result = fizz.guided(row.path, row.constants, links)
    if result.verdict != "FAILED" or result.failed_assertion != row.violates or result.followed != len(links):
        return Result(row, False, "spec", "", f"FizzBee, driven along the model's counterexample: {result.verdict} "
                      f"{result.failed_assertions} after {result.followed} of {len(links)} links")
    return Result(row, True, "", f"{len(found.trace) - 1} steps followed, {row.violates} fails", "")


def choice_variables(spec: str) -> dict[tuple[str, str], list[str]]:
    """(role or "", action) -> the variables that its `oneof` choices are bound to."""
    found: dict[tuple[str, str], list[str]] = {}
    role = action = ""
    for line in spec.splitlines():
        if match := re.match(r"role (\w+):", line):
            role = match[1]
        elif match := re.match(r"(\s*)atomic action (\w+):", line):
            role, action = role if match[1] else "", match[2]
        elif match := re.match(r"\s+(\w+) = oneof ", line):
            found.setdefault((role, action), []).append(match[1])
    return found


# --- both graphs in one form: canonical state -> {(label, canonical state)}

def as_canonical(row: Row, x: Explorer, edges: dict[int, list[tuple[Label, int]]]) -> Edges:
    written = AS_SPEC.get(row.stem, {})

    def state(packed: int) -> Canonical:
        shared, locals_ = x.unpack(packed)
        variables = {name: written.get(name, lambda value: value)(value) for name, value in shared._asdict().items()}
        roles = {p.name: local for p, local in zip(x.model.processes, locals_) if p.name}
        return canonical(variables), canonical({name: local._asdict() for name, local in roles.items()})

    states = {packed: state(packed) for packed in edges}
    return {states[packed]: {((p, a, canonical(choices)), states[successor]) for (p, a, choices), successor in moves}
            for packed, moves in edges.items()}


def spec_edges(g: Graph) -> Edges:
    """FizzBee's, without the global that holds its roles, which the model has no need of."""
    def state(s: tuple) -> Canonical:
        return tuple(pair for pair in s[0] if pair[0] != "clients"), tuple(sorted(s[1]))

    states = [state(s) for s in g.states]
    edges: Edges = {s: set() for s in states}
    for source, (process, action, choices), target in g.edges:
        edges[states[source]].add(((process, action, tuple(value for _, value in choices)), states[target]))
    return edges


def differ(ours: Edges, theirs: Edges) -> str:
    """Empty if equal; else the shortest path to a state whose edges are not the same on both sides, and what differs."""
    if ours == theirs:
        return ""
    initial = next(iter(ours))
    if initial not in theirs:
        return f"the initial states differ:\n  model   {initial}\n  FizzBee {next(iter(theirs))}"
    paths: dict[Canonical, tuple] = {initial: ()}
    for state in (queue := [initial]):
        here, there = ours.get(state, set()), theirs.get(state, set())
        if here != there:
            lines = [f"after {' '.join(map(spelt, paths[state])) or 'Init'}:"]
            lines += [f"  only the model has   {spelt(label)} -> {target}" for label, target in sorted(here - there, key=repr)]
            lines += [f"  only FizzBee has     {spelt(label)} -> {target}" for label, target in sorted(there - here, key=repr)]
            return "\n".join(lines[:8])
        for label, target in sorted(here, key=repr):
            if target not in paths:
                paths[target] = (*paths[state], label)
                queue.append(target)
    return "a state that is not reachable on one side"


def spelt(label: Label) -> str:
    process, action, choices = label
    return f"{process}.{action}{choices if choices else ''}".lstrip(".")
