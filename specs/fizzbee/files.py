"""Read the files that a run of FizzBee writes: its state graph, and the path to a failure.

Safety: a graph is whole, and of atomic actions from one initial state, or FizzError is raised. The files are in protobuf's wire
format, which is read as far as FizzBee's proto/graph.proto needs it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highwater.specs.fizzbee.errors import FizzError
from highwater.specs.fizzbee.values import Label, State, Value, decoded, pairs, printed


@dataclass(frozen=True)
class Graph:
    """The whole state graph: canonical states, the initial one's index, edges `(source index, label, target index)`.

    A label is `(role instance or "", action, choices)`, choices sorted `(variable, value)` pairs; a branch taken in an
    `oneof:` block is the variable "oneof" with the branch's number. An action that is enabled and changes nothing is a
    self-loop.
    """

    states: list[State]
    initial: int
    edges: set[tuple[int, Label, int]]


# --- the wire format


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and the index after it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def message(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield a message's fields in order: (number, an int, or bytes for a field with a length)."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire in (1, 2, 5):
            size, at = varint(data, at) if wire == 2 else (8 if wire == 1 else 4, at)
            value, at = data[at:at + size], at + size
            if len(value) != size:
                raise FizzError("a protobuf file of FizzBee is cut short")
        else:
            raise FizzError(f"wire type {wire} in a protobuf file of FizzBee")
        yield tag >> 3, value


# --- nodes and links


def read_nodes(out: Path, pattern: str) -> list[dict]:
    """Return the nodes' JSON in order (message Nodes: 1 = json)."""
    return [json.loads(value) for path in sorted(out.glob(pattern))
            for number, value in message(path.read_bytes()) if number == 1]


def read_links(out: Path, pattern: str) -> list[tuple[int, str, int]]:
    """(source, name, destination) in order (message Links: 2 = links; Link: 1 = src, 2 = dest, 3 = name)."""
    links = []
    for path in sorted(out.glob(pattern)):
        for number, value in message(path.read_bytes()):
            if number == 2:
                fields = dict(message(value))
                links.append((fields.get(1, 0), fields.get(3, b"").decode(), fields.get(2, 0)))
    return links


def plain_state(node: dict) -> dict:
    """Return a state as people and traces show it: globals and roles side by side."""
    return node["state"] | {role["ref_string"]: role["fields"] for role in node["roles"] or []}


def canonical_state(node: dict) -> State:
    roles = sorted(node["roles"] or [], key=lambda role: (role["name"], role["ref"]))
    return decoded(node["state"]), tuple((role["ref_string"], decoded(role["fields"])) for role in roles)


def choice(link: str) -> tuple[tuple[str, Value], ...]:
    """Return the choice in the name of a link that leaves an inner node."""
    kind, colon, rest = link.partition(":")
    if kind == "Any" and colon:
        name, _, text = rest.partition("=")
        return ((name, printed(text)),)
    if kind in ("Stmt", "For") and colon:
        return (("oneof" if kind == "Stmt" else "for", printed(rest)),)
    if link == "checkpoint":
        return ()
    raise FizzError(f"a graph needs atomic actions; this one has the link {link!r}")


def read_graph(out: Path, max_actions: int) -> Graph:
    """Return FizzBee's files as a Graph: inner nodes collapsed, their choices joined."""
    nodes = read_nodes(out, "nodes_0*.pb")
    if max((node["stats"]["totalActions"] for node in nodes), default=0) >= max_actions:
        raise FizzError(f"the graph is cut off after max_actions: {max_actions}; leave that option out")
    leaving: list[list[tuple[str, int]]] = [[] for _ in nodes]
    for source, name, target in read_links(out, "adjacency_lists_0*.pb"):
        if name != "end":
            leaving[source].append((name, target))
    inner = [bool(node["threads"]) for node in nodes]
    if any(inside and node["name"] == "yield" for inside, node in zip(inner, nodes)):
        raise FizzError("a graph needs atomic actions; this spec has a serial one")
    if not nodes or inner[0]:
        raise FizzError("a graph needs one initial state; this spec's Init makes a choice")
    said = json.dumps([nodes[0]["state"], [role["fields"] for role in nodes[0]["roles"] or []]])
    lost = [role["ref_string"] for role in nodes[0]["roles"] or [] if f'"role {role["ref_string"]}"' not in said]
    if lost:
        raise FizzError(f"no global leads to the role {lost[0]}, so FizzBee drops it after the first action")
    index: dict[State, int] = {}
    at = [-1 if inside else index.setdefault(canonical_state(node), len(index)) for inside, node in zip(inner, nodes)]
    if len(index) != inner.count(False):
        raise FizzError("two states of FizzBee's are the same here: is there a dict that is sometimes a list of pairs?")

    edges = set()
    for source in range(len(nodes)):
        if inner[source]:
            continue
        for name, target in leaving[source]:
            role, _, action = name.rpartition(".")
            paths: list[tuple[int, tuple[tuple[str, Value], ...]]] = [(target, ())]
            while paths:
                here, choices = paths.pop()
                if inner[here]:
                    paths.extend((after, choices + choice(link)) for link, after in leaving[here])
                else:
                    edges.add((at[source], (role, action, pairs(choices)), at[here]))
    return Graph(list(index), 0, edges)


def error_trace(out: Path) -> tuple[tuple[str, dict], ...]:
    """Return the path that a failed run wrote."""
    names = ["Init", *(name for _, name, _ in read_links(out, "adjacency_lists_errors.pb"))]
    return tuple(zip(names, map(plain_state, read_nodes(out, "nodes_errors.pb"))))


def walked(out: Path, links: list[str]) -> tuple[tuple[str, dict], ...]:
    """Return the longest prefix of a guided trace that the run's own graph has, each link with its state."""
    nodes = read_nodes(out, "nodes_0*.pb")
    if not nodes:
        return ()
    after = {(source, name): target for source, name, target in read_links(out, "adjacency_lists_0*.pb") if name != "end"}
    here, path = 0, [("Init", plain_state(nodes[0]))]
    for link in links:
        if (here, link) not in after:
            break
        here = after[here, link]
        path.append((link, plain_state(nodes[here])))
    if nodes[here]["threads"]:  # in the middle of an action: a choice is missing
        while path and path[-1][0].startswith(("Any:", "Stmt:")):
            path.pop()
        path.pop()
    return tuple(path)
