"""The only wrapper of the FizzBee CLI: check | graph | guided trace.

Claim: a verdict and a graph are of the spec and the constants that were asked for, whole, or there is an exception. FizzBee
0.5.4 alone does not promise that; what it does instead, measured, and what is done here about it:

- Its exit status tells nothing. Verdicts are read from its output and its files.
- It cuts every path after 100 actions unless told otherwise, and says PASSED. Here `max_actions` is 10^9 unless the spec's
  front matter says otherwise, and a graph that was cut is an error.
- `--preinit-hook 'N = 3'` does not reach what was computed from N before: a constant `M = N + 1`, and every top-level `def`,
  which keeps the N of its definition; and a misspelt name is accepted. Here the constant's own line is rewritten in a
  scratch copy, so all of the spec sees the value, and an unknown name is an error.
- Its parser recovers from some syntax errors with a message on stderr, goes on, and exits with 0. Its stdout is another
  matter: megabytes of its own tracing, buffered or not as the environment has it. Here the two streams are kept apart, and
  anything on stderr is an error, the parser's as well as the checker's: on no spec of this folder, and in no run of
  tests/specs/test_fizz.py and tests/specs/test_conform.py that came to a verdict, did either write a byte there, so nothing is
  let pass. What the checker's source has for stderr is what breaks: panics, "Error in executing init", a module that "failed
  to load" and is done without. (Its bar of progress, and that of simulations, are for terminals and for runs that are not made
  here.)
- Both programs run in an environment of few names (`INHERITED`), so that what they say does not hang on who calls.
- In a guided trace an action that is disabled uses up its line, and the run PASSED. Here the path is walked again in the
  graph that the run wrote.
- `--experimental_no_graph` is 1.4 times faster, but crashes where a transition assertion fails, sees deadlocks that are
  none, and gives no states. Here it is used for what then passes (or lacks a witness); anything else is run again.
- `always eventually`: a FAILED is right, a PASSED may be wrong. What it judges is weak fairness, per role instance and action:
  a cycle counts unless some `fair` action is enabled in each of its states and taken by none of its steps; a self-loop
  counts as a step; a state may last for ever where no `fair` action is enabled (a deadlock, too); whoever takes a fair
  action may choose badly for ever (`oneof`; `fair oneof` is another matter). All of that is as it should be. But it
  searches once, depth first, for cycles that close over the search's own path: a cycle that leads through a state already
  left is never looked at. Of 3,000 random graphs of 2 to 6 states (2 role instances, 2 fair actions each) it agreed about
  the 570 that hold, about all 1,120 with a run that just stops, and about 1,276 of the 1,310 that fail on a cycle; the
  other 34 it PASSED. Three states are enough for that: tests/model/test_liveness.py. (Upstream, issue 212 has two `eventually
  always` that contradict each other and PASSED.) So the model's judgement is the one to believe (model/liveness.py), and
  conformance wants both to be the same. Its search copies its path at each step, which is quadratic: keep such rows small.
  The reference says that liveness is off by default; it is on.

A canonical state is `(globals, roles)`: globals are `((name, value), ...)` sorted by name, roles are
`((ref_string, ((field, value), ...)), ...)` sorted by role and number, parameters left out. Values, as FizzBee's JSON has them:

    FizzBee                          JSON                          here
    None, bool, int, string, enum    null, true, 1, "a"            None, True, 1, "a"
    tuple, list, range               array                         tuple
    set, bag                         array, sorted as JSON TEXT    tuple, in that order: {2, 9, 10} is (10, 2, 9)
    dict                             object, keys as strings       ((key, value), ...) sorted; "1" and "(1, 2)" parsed
    record, struct                   object                        ((field, value), ...) sorted
    role                             "role Writer#0"               the same string

So a list, a tuple and a set of the same elements are indistinguishable, as they are to FizzBee itself, whose identity of
states is this text. `canonical` brings plain Python values, frozensets and named tuples to the same form. A set's elements
are never sets, lists, dicts or records (FizzBee: unhashable); structs are.

Uses: stdlib, and tools/fizzbee/build.py to find the CLI. Errors raised: FizzMissing, SpecError, FizzError.
"""

import argparse
import ast
import hashlib
import importlib.util
import json
import marshal
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

BUILD = Path(__file__).parent.parent.parent / "tools" / "fizzbee" / "build.py"
OPTIONS = "options:\n  max_actions: 1000000000\n"  # fizz.yaml; a spec's front matter overrides it
LONGEST_GUIDED = 100  # actions: FizzBee's trace mode has this bound and ignores every setting
GRACE_S = 15  # from asking FizzBee to stop to killing it
INHERITED = ("PATH", "HOME", "LD_LIBRARY_PATH", "GOGC", "GOMEMLIMIT", "GOMAXPROCS")  # nothing else of our environment
UNWITNESSED = "FAILED: Expected states never reached"

Value = Any  # None | bool | int | float | str | tuple of Values
Label = tuple[str, str, tuple[tuple[str, Value], ...]]  # role instance or "", action, choices
State = tuple[tuple[tuple[str, Value], ...], tuple[tuple[str, tuple[tuple[str, Value], ...]], ...]]


class FizzError(Exception):
    """FizzBee could not do what was asked; the message opens with one line that says why."""


class FizzMissing(FizzError):
    """There is no FizzBee CLI on this machine."""


class SpecError(FizzError):
    """The spec does not parse, or does not have the constants that were set."""


@dataclass(frozen=True)
class CheckResult:
    """What FizzBee found.

    `states` are FizzBee's unique states, `nodes` its nodes, inner ones included; a run that ends at a failure does not count
    states: 0. `trace` is what led to a failure (or, guided, what was followed): `("Init", state)`, then one entry for each of
    FizzBee's links, `Writer#0.Create` and `Any:k=1` apart, so that its names are a guided trace. A state is
    `{global: value, ..., "Writer#0": {field: value}}`, plain JSON. A failed `exists` has no trace.
    """

    verdict: str  # PASSED | FAILED | DEADLOCK | STOPPED (time-out, or a guided trace not followed to its end) | ERROR
    states: int
    nodes: int
    seconds: float
    failed_assertions: tuple[str, ...]
    trace: tuple[tuple[str, dict], ...]
    output: str
    error: str | None = None  # one line; ERROR only
    followed: int | None = None  # guided only: how many of the links asked for

    @property
    def failed_assertion(self) -> str | None:
        """The first of them; only `exists` assertions fail together."""
        return self.failed_assertions[0] if self.failed_assertions else None


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


# --- values


def order(value: Value) -> tuple:
    """A total order on canonical values: None, bool, number, string, tuple."""
    if isinstance(value, tuple):
        return (4, tuple(order(part) for part in value))
    if isinstance(value, str):
        return (3, value)
    return (0,) if value is None else (1, value) if isinstance(value, bool) else (2, value)


def pairs(items: Iterable[tuple[Value, Value]]) -> tuple[tuple[Value, Value], ...]:
    return tuple(sorted(items, key=order))


def json_text(value: Any) -> str:
    """A Python value as FizzBee's JSON has it: what it sorts sets by."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        items = sorted((str(k), v) for k, v in value.items())
        return "{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in items) + "}"
    if isinstance(value, (set, frozenset)):
        return "[" + ",".join(sorted((json_text(v) for v in value), key=str.encode)) + "]"
    if isinstance(value, (tuple, list, range)):
        return "[" + ",".join(json_text(v) for v in value) + "]"
    text = json.dumps(value, ensure_ascii=False)
    for char in "<>&\u2028\u2029":  # as Go's encoder does
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def canonical(value: Any) -> Value:
    """A plain Python value (a model's, say) in the form in which FizzBee's come out of `graph`."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return pairs((canonical(k), canonical(v)) for k, v in value.items())
    if isinstance(value, (set, frozenset)):
        return tuple(canonical(v) for v in sorted(value, key=lambda v: json_text(v).encode()))
    if isinstance(value, (tuple, list, range)):
        return tuple(canonical(v) for v in value)
    return value


def key_value(text: str) -> Value:
    """A dict's key from its string: ints, tuples, None, bools are parsed, so the string "1" cannot be told from 1."""
    if re.fullmatch(r"-?\d+|\(.*\)|None|True|False", text, re.DOTALL):
        try:
            return canonical(ast.literal_eval(text))
        except (ValueError, SyntaxError):
            pass
    return text


def decoded(value: Any) -> Value:
    """FizzBee's JSON as a canonical value."""
    if isinstance(value, list):
        return tuple(decoded(v) for v in value)
    if isinstance(value, dict):
        return pairs((key_value(k), decoded(v)) for k, v in value.items())
    return value


def printed(text: str) -> Value:
    """A value as FizzBee prints it in a link's name, `(1, "a")` or `set([1])`, as a canonical value; else the text."""
    role = re.match(r"role \w+#\d+", text)
    if role:
        return role[0]

    def value(node: ast.expr) -> Any:
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(value(part) for part in node.elts)
        if isinstance(node, ast.Dict):
            return {value(k): value(v) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.Call) and node.func.id in ("set", "bag"):
            return frozenset(value(part) for part in node.args[0].elts) if node.args else frozenset()
        if isinstance(node, ast.Call) and node.func.id in ("struct", "record"):
            return {keyword.arg: value(keyword.value) for keyword in node.keywords}
        return ast.literal_eval(node)

    try:
        return canonical(value(ast.parse(text, mode="eval").body))
    except (ValueError, SyntaxError, AttributeError, TypeError):
        return text


def literal(value: Any) -> str:
    """A Python value as FizzBee source; also how FizzBee prints it, sets of more than one element aside."""
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (set, frozenset)):
        return f"set([{', '.join(sorted(literal(v) for v in value))}])"
    if isinstance(value, list):
        return f"[{', '.join(literal(v) for v in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(literal(v) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    raise FizzError(f"no FizzBee literal for {value!r}")


def link_names(label: Label) -> list[str]:
    """The lines of a guided trace for an edge of the graph; several choices in the order in which the action makes them."""
    role, action, choices = label
    return [f"{role}.{action}" if role else action,
            *(f"Stmt:{v}" if name == "oneof" else f"Any:{name}={literal(v)}" for name, v in choices)]


# --- a spec's text


def with_constants(text: str, constants: dict[str, object], spec: Path) -> str:
    """The spec's text with its top-level `NAME = ...` lines rewritten; the number of lines stays."""
    for name, value in constants.items():
        found = list(re.finditer(rf"^{re.escape(name)}[ \t]*=(?!=)(.*)$", text, re.MULTILINE))
        if len(found) != 1:
            raise SpecError(f"{spec}: {'no' if not found else 'more than one'} top-level constant {name}")
        try:
            ast.parse(found[0][1].strip(), mode="eval")
        except SyntaxError:
            raise SpecError(f"{spec}: the constant {name} is not on one line") from None
        text = f"{text[:found[0].start()]}{name} = {literal(value)}{text[found[0].end():]}"
    return text


ASSERTION = re.compile(r"^[a-z ]*\bassertion\b", re.MULTILINE)
LIVENESS = re.compile(r"^[a-z ]*\beventually\b[a-z ]*\bassertion\b", re.MULTILINE)


def others(only: Collection[str], text: str, spec: Path) -> re.Pattern:
    """The header of every assertion but those named. Raises SpecError for a name that the spec does not have."""
    known = re.findall(rf"{ASSERTION.pattern}\s+(\w+)", text, re.MULTILINE)
    unknown = [name for name in only if name not in known]
    if unknown:
        raise SpecError(f"{spec}: no assertion {unknown[0]}")
    kept = "".join(rf"(?!\s+{name}\b)" for name in only)
    return re.compile(ASSERTION.pattern + kept, re.MULTILINE)


def without(which: re.Pattern, text: str) -> str:
    """The spec's text with these of its top-level assertions blanked; the number of lines stays."""
    lines, inside = [], False
    for line in text.split("\n"):
        if line and not line[0].isspace() and line[0] != "#":
            inside = bool(which.match(line))
        lines.append("" if inside else line)
    return "\n".join(lines)


# --- FizzBee's files: protobuf's wire format, as far as proto/graph.proto needs it


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where the next thing starts."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def message(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """A message's fields in order: (number, an int or, where the length is written, bytes)."""
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


def read_nodes(out: Path, pattern: str) -> list[dict]:
    """The nodes' JSON in order (message Nodes: 1 = json)."""
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
    """For people and for traces: globals and roles side by side."""
    return node["state"] | {role["ref_string"]: role["fields"] for role in node["roles"] or []}


def canonical_state(node: dict) -> State:
    roles = sorted(node["roles"] or [], key=lambda role: (role["name"], role["ref"]))
    return decoded(node["state"]), tuple((role["ref_string"], decoded(role["fields"])) for role in roles)


def choice(link: str) -> tuple[tuple[str, Value], ...]:
    """The choice in the name of a link that leaves an inner node."""
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
    """FizzBee's files as a Graph: inner nodes collapsed, their choices joined."""
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
            paths = [(target, ())]
            while paths:
                here, choices = paths.pop()
                if inner[here]:
                    paths.extend((after, choices + choice(link)) for link, after in leaving[here])
                else:
                    edges.add((at[source], (role, action, pairs(choices)), at[here]))
    return Graph(list(index), 0, edges)


def error_trace(out: Path) -> tuple[tuple[str, dict], ...]:
    """The path that a failed run wrote."""
    names = ["Init", *(name for _, name, _ in read_links(out, "adjacency_lists_errors.pb"))]
    return tuple(zip(names, map(plain_state, read_nodes(out, "nodes_errors.pb"))))


def walked(out: Path, links: list[str]) -> tuple[tuple[str, dict], ...]:
    """As much of a guided trace as the run's own graph has."""
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


# --- running it


def build_module() -> ModuleType:
    """tools/fizzbee/build.py, which knows where the CLI and the cache folder are."""
    found = importlib.util.spec_from_file_location("highwater_fizzbee_build", BUILD)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Run:
    """One run of the checker, over and its files still there."""

    output: str
    errors: str
    stopped: bool
    seconds: float
    out: Path


def environment(scratch: Path) -> dict[str, str]:
    """What FizzBee's programs run in. With Go's usual settings, collecting garbage was 1/3 of a run."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"GOGC": "400", "GOMEMLIMIT": "4GiB"} | inherited | {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "TMPDIR": str(scratch)}


def execute(command: list[str], scratch: Path, timeout: float | None) -> tuple[str, str, int, bool]:
    """stdout, stderr, the exit status, and whether it was asked to stop (and, when it did not, killed) after `timeout`
    seconds."""
    process = subprocess.Popen(command, cwd=scratch, env=environment(scratch), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
    stopped = False
    try:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            stopped = True
            process.terminate()
            output, errors = process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return output, errors, process.returncode, stopped


def parse_error(errors: str, status: int, spec: Path) -> str | None:
    """What the parser said on stderr, in one line that opens with the file, or None: it said nothing and exits with 0."""
    found = re.search(r"line (\d+):(\d+) (.*)$", errors, re.MULTILINE)
    if found:
        return f"{spec}:{found[1]}:{int(found[2]) + 1}: {found[3]}"
    if errors or status:
        return f"{spec}: {(errors.strip().splitlines() or ['the parser failed and does not say why'])[-1].strip()}"
    return None


def runtime_error(run: Run, spec: Path) -> str:
    """Why a run has no verdict, in one line."""
    said = f"{run.errors}\n{run.output}"
    detail = re.search(r"^E\d+ .*?\] (.*)$", said, re.MULTILINE)
    panic = re.search(r"^(?:panic|Error|.* refused): ?(.*)$", said, re.MULTILINE)
    parts = [found[1] for found in (panic, detail) if found]
    last = (run.errors.strip().splitlines() or run.output.strip().splitlines() or ["no output"])[-1]
    why = "FizzBee complained" if run.errors else "FizzBee ended without a verdict"
    return f"{spec}: {'; '.join(parts) or f'{why}: {last}'}".replace("spec.fizz:", "line ")


def read_result(run: Run, spec: Path) -> CheckResult:
    """The verdict, from the output's lines; ERROR for a run with anything on stderr, whatever its output says. States and
    nodes come from whatever count it printed."""
    output = run.output
    counts = re.search(r"^(?:Valid Nodes|Visited entries): (\d+)\s+Unique states: (\d+)", output, re.MULTILINE)
    visited = re.findall(r"^Nodes: (\d+),", output, re.MULTILINE)
    nodes, states = (int(counts[1]), int(counts[2])) if counts else (int(visited[-1]) if visited else 0, 0)
    failed = tuple(re.findall(r"^(?:FAILED: .*)?(?:Transition )?Invariant(?: \d+)?: +(\w+)", output, re.MULTILINE))
    begins = set(re.findall(r"^(DEADLOCK|FAILED|Model checker stopped|PASSED)", output, re.MULTILINE))
    stopped = run.stopped or "Model checker stopped" in begins
    verdict = ("ERROR" if run.errors else
               "DEADLOCK" if "DEADLOCK" in begins else
               "FAILED" if "FAILED" in begins and not (stopped and UNWITNESSED in output) else  # also said of a stopped run
               "STOPPED" if stopped else
               "PASSED" if "PASSED" in begins else "ERROR")
    failed = failed if verdict == "FAILED" else ()
    return CheckResult(verdict, states, nodes, run.seconds, failed, error_trace(run.out), output,
                       runtime_error(run, spec) if verdict == "ERROR" else None)


@dataclass(frozen=True)
class Fizz:
    """A FizzBee CLI: its two programs, and its version or what stands for it."""

    parser: Path
    checker: Path
    version: str

    @classmethod
    def find(cls) -> "Fizz":
        """The `fizz` on PATH, else the one that tools/fizzbee/build.py built. FizzMissing when there is neither."""
        found = build_module().find()
        if not found:
            place = BUILD.resolve()  # in an installed package there is no tools/ below the current folder
            shown = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
            raise FizzMissing(f"FizzBee is missing: run `python3 {shown}`, or put `fizz` on PATH")
        return cls(*found)

    def check(self, spec: Path, constants: dict[str, object] | None = None, *, liveness: bool | None = None,
              only: Collection[str] | None = None, graph: bool = False, timeout: float | None = None,
              cache: bool = False) -> CheckResult:
        """Explores every state and checks every assertion. Raises SpecError; a run-time error is the verdict ERROR.

        `liveness`: None checks `eventually` assertions where the spec has some, False leaves them out. `only` leaves out
        all assertions but these. `graph` keeps FizzBee's state graph while exploring: slower, no other result. `timeout` is
        in seconds; past it: STOPPED. `cache` returns an earlier PASSED, FAILED or DEADLOCK of the same spec, constants,
        options, FizzBee and wrapper.
        """
        spec, constants = Path(spec), dict(constants or {})
        if cache:
            return self._cached("check", spec, constants, [liveness, only and sorted(only), graph], lambda: self.check(
                spec, constants, liveness=liveness, only=only, graph=graph, timeout=timeout))
        text = with_constants(spec.read_text(), constants, spec)
        if liveness is False:
            text = without(LIVENESS, text)
        if only is not None:
            text = without(others(only, text, spec), text)
        symmetry = [] if re.search(r"symmetric|symmetry", text) else ["--no-symmetry-reduction"]  # the same states, sooner
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._parse(Path(folder), spec, text)
            fast = None
            if not graph and not LIVENESS.search(text):
                fast = read_result(self._run(scratch, "fast", [*symmetry, "--experimental_no_graph"], timeout), spec)
                if fast.verdict in ("PASSED", "STOPPED") or (fast.verdict == "FAILED" and UNWITNESSED in fast.output):
                    return fast
            left = timeout and max(1.0, timeout - (time.monotonic() - started))
            full = read_result(self._run(scratch, "full", symmetry, left), spec)
            result = fast if fast and fast.verdict == "FAILED" and full.verdict == "STOPPED" else full
            return replace(result, seconds=time.monotonic() - started)

    def graph(self, spec: Path, constants: dict[str, object] | None = None, *, timeout: float | None = None,
              cache: bool = False) -> Graph:
        """The whole state graph, assertions left out (so that an ablated spec has one too). Raises FizzError, SpecError."""
        spec, constants = Path(spec), dict(constants or {})
        if cache:
            return self._cached("graph", spec, constants, [], lambda: self.graph(spec, constants, timeout=timeout))
        text = without(ASSERTION, with_constants(spec.read_text(), constants, spec))
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._parse(Path(folder), spec, text)
            run = self._run(scratch, "graph", ["--no-symmetry-reduction", "--experimental_no_state_returns"], timeout)
            result = read_result(run, spec)
            if result.verdict == "DEADLOCK":
                raise FizzError(f"{spec}: a state in which nothing is enabled; a graph needs `deadlock_detection: false`")
            if result.verdict != "PASSED":
                raise FizzError(result.error or f"{spec}: no graph: FizzBee said {result.verdict} after {result.seconds:.0f} s")
            longest = re.search(r"max_actions:(\d+)", run.output)
            try:
                return read_graph(run.out, int(longest[1]) if longest else 0)
            except FizzError as error:
                raise FizzError(f"{spec}: {error}") from error

    def guided(self, spec: Path, constants: dict[str, object] | None, trace: Iterable[str], *,
               assertions: bool = True, timeout: float | None = None, cache: bool = False) -> CheckResult:
        """Drives FizzBee along link names, at most 100 actions, checking `always` and `transition` assertions on the way,
        unless `assertions` is False.

        The names are those of CheckResult.trace: `Writer#0.Create`, then for each choice that the action makes a line
        `Any:k=1` (or `Stmt:0`, a branch of an `oneof:` block); a leading `Init` is skipped. PASSED: followed to the end.
        STOPPED: `followed` links, then the next one was not enabled (or unknown). FAILED: an assertion failed in the last
        state of `trace`, after `followed` links.
        """
        spec, links = Path(spec), [link.strip() for link in trace]
        links = links[1:] if links[:1] == ["Init"] else links
        if sum(not link.startswith(("Any:", "Stmt:")) for link in links) > LONGEST_GUIDED:
            raise FizzError(f"FizzBee follows at most {LONGEST_GUIDED} actions of a guided trace; this one is longer")
        if cache:
            return self._cached("guided", spec, dict(constants or {}), [assertions, *links], lambda: self.guided(
                spec, constants, links, assertions=assertions, timeout=timeout))
        text = with_constants(spec.read_text(), dict(constants or {}), spec)
        text = text if assertions else without(ASSERTION, text)
        started, ask = time.monotonic(), len(links)
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._parse(Path(folder), spec, text)
            while True:
                (scratch / "trace").write_text("\n".join(links[:ask]) or "nothing")  # FizzBee refuses an empty one
                run = self._run(scratch, str(ask), ["--no-symmetry-reduction", "--trace-file", "trace"], timeout)
                result = replace(read_result(run, spec), seconds=time.monotonic() - started)
                if result.verdict == "FAILED":
                    return replace(result, followed=len(result.trace) - 1)
                if run.errors:
                    return replace(result, followed=0)
                executed = re.search(r"^WARNING: Trace execution incomplete.* executed (\d+) links", run.output, re.MULTILINE)
                if not executed:
                    break
                if ask == 0:
                    return replace(result, verdict="STOPPED" if links else "PASSED", error=None, followed=0)
                ask = min(int(executed[1]), ask - 1)
            path = walked(run.out, links[:ask]) if result.verdict == "PASSED" else ()
        followed = max(len(path) - 1, 0)
        verdict = "STOPPED" if result.verdict == "PASSED" and followed < len(links) else result.verdict
        return replace(result, verdict=verdict, trace=path, followed=followed)

    def _parse(self, scratch: Path, spec: Path, text: str) -> Path:
        """Writes the spec into the scratch folder and parses it there, where the parser leaves its JSON. Raises SpecError."""
        (scratch / "fizz.yaml").write_text(OPTIONS)
        (scratch / "spec.fizz").write_text(text)
        _, errors, status, _ = execute([str(self.parser), "spec.fizz"], scratch, None)
        wrong = parse_error(errors, status, spec)
        if wrong:
            raise SpecError(wrong)
        return scratch

    def _run(self, scratch: Path, name: str, options: list[str], timeout: float | None) -> Run:
        """Runs the checker on the parsed spec, its files in a folder of that name."""
        started = time.monotonic()
        command = [str(self.checker), *options, "--output-dir", str(scratch / name), "spec.json"]
        output, errors, status, stopped = execute(command, scratch, timeout)
        if status < 0 and not stopped:
            errors += f"it was killed by signal {-status}\n"  # by the kernel, say, for want of memory
        return Run(output, errors, stopped, time.monotonic() - started, scratch / name)

    def _cached(self, what: str, spec: Path, constants: dict[str, object], options: list, compute) -> Any:
        """The result of `compute`, kept in the cache folder; an entry that cannot be read is computed again. This file is part
        of the key: an entry of an earlier wrapper, which may have let something pass, is not found. ERROR is not kept."""
        digest = hashlib.sha256()
        knobs = {name: literal(value) for name, value in constants.items()}
        for part in (spec.read_bytes(), Path(__file__).read_bytes(),
                     json.dumps([what, spec.name, self.version, options, knobs, marshal.version], sort_keys=True).encode()):
            digest.update(len(part).to_bytes(8, "big") + part)
        folder = build_module().cache() / "specs"
        path = folder / f"{spec.stem}-{what}-{digest.hexdigest()[:32]}.z"
        try:
            entry = marshal.loads(zlib.decompress(path.read_bytes()))
            return Graph(*entry) if what == "graph" else CheckResult(**entry)
        except (OSError, zlib.error, ValueError, TypeError, EOFError):
            pass
        result = compute()
        if isinstance(result, Graph) or result.verdict in ("PASSED", "FAILED", "DEADLOCK"):
            folder.mkdir(parents=True, exist_ok=True)
            entry = (result.states, result.initial, result.edges) if isinstance(result, Graph) else asdict(result)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".new-", delete=False) as new:
                new.write(zlib.compress(marshal.dumps(entry)))
            os.replace(new.name, path)
        return result


# --- by hand


def setting(text: str) -> tuple[str, object]:
    """NAME=VALUE of --set; VALUE is a Python literal."""
    name, equals, value = text.partition("=")
    try:
        if not (equals and name.isidentifier()):
            raise ValueError
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with a Python literal, like N=3 or CHECK=False") from None


def print_check(result: CheckResult) -> int:
    """Shows a verdict and its trace; 0 for PASSED, 1 for a failure, 3 for an error."""
    print(f"{result.verdict}: {result.states} states, {result.nodes} nodes, {result.seconds:.1f} s"
          + (f": {', '.join(result.failed_assertions)}" if result.failed_assertions else ""))
    before: dict = {}
    for name, state in result.trace:
        print(f"  {name}")
        for key in state:
            if key not in before or before[key] != state[key]:
                print(f"      {key} = {json.dumps(state[key])}")
        before = state
    if result.error:
        print(result.error)
    return 0 if result.verdict == "PASSED" else 3 if result.verdict == "ERROR" else 1


def print_graph(graph: Graph) -> int:
    """Shows how many states and edges there are, by action."""
    print(f"{len(graph.states)} states, {len(graph.edges)} edges")
    actions: dict[str, int] = {}
    for _, (role, action, _), _ in graph.edges:
        name = f"{role.partition('#')[0]}.{action}" if role else action
        actions[name] = actions.get(name, 0) + 1
    for name in sorted(actions):
        print(f"  {actions[name]:8} {name}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """python -m highwater.specs.fizzbee.cli check|graph|guided FILE.fizz [--set NAME=VALUE ...]"""
    parser = argparse.ArgumentParser(prog="python -m highwater.specs.fizzbee.cli", description=main.__doc__)
    parser.add_argument("verb", choices=["check", "graph", "guided"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--set", dest="constants", type=setting, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--only", action="append", metavar="ASSERTION", help="check: leave out all others; may be repeated")
    parser.add_argument("--trace", type=Path, help="guided: a file with a link name on each line")
    parser.add_argument("--timeout", type=float, metavar="SECONDS")
    asked = parser.parse_args(arguments)
    constants = dict(asked.constants)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the checker ends and its scratch folder goes
    try:
        fizz = Fizz.find()
        if asked.verb == "graph":
            return print_graph(fizz.graph(asked.file, constants, timeout=asked.timeout))
        if asked.verb == "check":
            return print_check(fizz.check(asked.file, constants, only=asked.only, timeout=asked.timeout))
        if not asked.trace:
            parser.error("guided needs --trace FILE")
        links = [line for line in asked.trace.read_text().splitlines() if line.strip() and not line.startswith("#")]
        result = fizz.guided(asked.file, constants, links, timeout=asked.timeout)
        print(f"followed {result.followed} of {len(links)} links")
        return print_check(result)
    except (FizzError, OSError) as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
