"""The explorer page agrees with the model: states, moves, the reason why an action is refused, and failures.

It works without a network and with any text, and has the same bytes on every run. Its JavaScript runs if node is installed."""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from highwater.conformance.conform import model_of
from highwater.gate import boundary_peer
from highwater.model import parts
from highwater.model.core import Model, Process, State, Step
from highwater.model.explore.reductions import merged
from highwater.model.explore.tabulated import explore, graph
from highwater.model.guards import refusal, show
from highwater.model.liveness import eventually
from highwater.model.protocols import sequenced_metadata_boundary as protocol
from highwater.reports.page import embedded, fields, page, tabulate, told
from highwater.specs.runs import rows

ROOT = Path(__file__).resolve().parents[2]
ROWS = {row.id: row for row in rows()}
LARGE = 1_000_000


def initial(model: Model) -> State:
    return State(model.shared, tuple(process.local for process in model.processes))


def data_of(html: str) -> dict:
    return json.loads(html.partition('<script id="data" type="application/json">')[2].partition("</script>")[0])


def page_of(name: str, **options: object) -> tuple[Model, tuple[Step, ...], dict]:
    model = model_of(ROWS[name])
    found = explore(model)
    return model, found.trace, data_of(page(model, found.trace, found.violated, **options))


def as_shown(model: Model, state: State) -> str:
    """A state as the page shows it."""
    return json.dumps([fields(model, part, value) for part, value in enumerate((state.shared, *state.locals))])


class Decoded:
    """The embedded data, read by its own rules."""

    def __init__(self, data: dict):
        self.data, self.texts = data, data["texts"]
        self.tables = [{(row[0], row[1]): row for row in table} for table in data["moves"]]

    def state(self, state: tuple[int, ...]) -> str:
        values = self.data["values"]
        return json.dumps([[self.texts[text] for text in values[part][number]] for part, number in enumerate(state)])

    def moves(self, state: tuple[int, ...]) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
        for p, table in enumerate(self.tables):
            name, role = self.data["processes"][p]
            row = table.get((state[0], state[p + 1]), [])[4:]
            for action, choices, shared, local in zip(*[iter(row)] * 4):
                yield (name, self.data["roles"][role]["actions"][action][0], self.texts[choices],
                       (shared, *state[1:p + 1], local, *state[p + 2:]))

    def refusals(self, p: int, row: list[int]) -> Iterator[tuple[str, dict]]:
        role = self.data["processes"][p][1]
        for action, number in zip(self.data["roles"][role]["actions"], self.data["rows"][row[2]]):
            if number >= 0:
                yield action[0], self.refusal(number)

    def refusal(self, number: int) -> dict:
        guard, where, operands, needs = self.data["refusals"][number]
        return {"guard": self.texts[guard], "where": self.texts[where], "operands": [self.texts[o] for o in operands],
                "needs": self.refusal(needs) if needs >= 0 else None}


# --- states and moves

@pytest.mark.parametrize("name", ["status_quo", "fault_pending", "checkpoints_not_spared", "reader"])
def test_the_graph_in_the_page_is_the_models(name):
    model, _, data = page_of(name)
    decoded, (x, edges) = Decoded(data), graph(model)
    start = tuple(data["trace"][0][0])
    seen, queue, theirs = {start}, [start], set()
    for state in queue:
        for process, action, choices, after in decoded.moves(state):
            theirs.add((decoded.state(state), process, action, choices, decoded.state(after)))
            if after not in seen:
                seen.add(after)
                queue.append(after)
    actions = {(p.name, name): action for p in model.processes for name, action in p.actions.items()}
    shown = {packed: as_shown(model, x.unpack(packed)) for packed in edges}
    ours = {(shown[packed], process or "store", action, told(actions[process, action], choices), shown[after])
            for packed, moves in edges.items() for (process, action, choices), after in moves}
    assert theirs == ours
    assert {decoded.state(state) for state in seen} == set(shown.values())
    assert data["radius"] is None and data["states"] == len(seen) == len(edges) == len(set(shown.values()))
    assert data["edges"] == sum(map(len, edges.values()))


def test_the_trace_is_the_counterexample_and_its_end_fails():
    _, trace, data = page_of("no_check")
    decoded = Decoded(data)
    assert len(data["trace"]) == len(trace) == 14 and data["violated"] == "CommitIsUnique"
    for (before, *_), (after, p, action, choices) in pairwise(data["trace"]):
        name, role = data["processes"][p]
        step = name, data["roles"][role]["actions"][action][0], data["texts"][choices], tuple(after)
        assert step in list(decoded.moves(tuple(before)))
    fails = [[data["properties"][number][1] for number, _ in data["verdicts"][data["judged"][state[0]]][0]]
             for state, *_ in data["trace"]]
    assert not any(fails[:-1]) and "CommitIsUnique" in fails[-1]


@pytest.mark.parametrize("name, most", [("reads_not_checked", 3000), ("plain", 500), ("no_check", 1)])
def test_a_cut_graph_says_truly_how_far_it_goes(name, most):
    model, trace, data = page_of(name, max_states=most)
    starts = [step.state for step in trace] or [initial(model)]
    whole = tabulate(model, starts, LARGE)
    near = [state for state, steps in whole.states.items() if steps <= data["radius"]]
    assert len(near) == data["states"] <= max(most, len(starts))
    assert most < len([state for state, steps in whole.states.items() if steps <= data["radius"] + 1])
    assert set(whole.states.values()) == set(range(max(whole.states.values()) + 1)) and whole.radius is None
    inside = {(p, whole.values[0][state[0]], whole.values[p + 1][state[p + 1]])
              for state in near for p in range(len(whole.moves))}
    cut = tabulate(model, starts, most)
    assert {(p, cut.values[0][shared], cut.values[p + 1][local]) for p, table in enumerate(cut.moves)
            for shared, local in table} == inside


def test_a_trace_that_is_not_the_models_is_refused():
    model, trace, _ = page_of("status_quo")
    with pytest.raises(ValueError, match="does not begin"):
        page(model, trace[1:])
    with pytest.raises(ValueError, match=r"step 1 of the trace, Writer#0\.ReadLatest, is no move"):
        page(model, (trace[0], trace[2]))
    wrong = Step(("Writer#1", *trace[1].label[1:]), trace[1].state)
    with pytest.raises(ValueError, match="step 1"):
        page(model, (trace[0], wrong))


def test_steps_of_a_merged_model_are_taken_apart():
    model = boundary_peer.model(boundary_peer.Constants(CHECK=False))
    found = explore(merged(model))
    assert any("Accept" in step.label[2] for step in found.trace)
    data = embedded(model, found.trace, found.violated, None, 1)
    decoded, states = Decoded(data), [tuple(state) for state, *_ in data["trace"]]
    assert len(states) > len(found.trace) and decoded.state(states[-1]) == as_shown(model, found.trace[-1].state)
    assert all(after in [move[-1] for move in decoded.moves(before)] for before, after in pairwise(states))


# --- why not

def observed_modules() -> tuple[dict, dict]:
    """The model's module, and model/parts.py, once more, with every test in them noting its value: (names of the model's
    module, {(path, line, text): values})."""
    values: dict[tuple[str, int, str], list] = {}
    names = observed_module(protocol, values)
    shared = observed_module(parts, values)
    names.update({name: function for name, function in shared.items() if name in names and name in vars(parts)})
    return names, values


def observed_module(module: ModuleType, values: dict) -> dict:
    source, path = inspect.getsource(module), f"{module.__name__.removeprefix('highwater.').replace('.', '/')}.py"

    def noted(line: int, text: str, value: object) -> object:
        value = list(value) if isinstance(value, Iterator) else value  # a generator that yields nothing is true
        values.setdefault((path, line, text), []).append(bool(value))
        return value

    def wrapped(node: ast.expr) -> ast.expr:
        text = " ".join(ast.get_source_segment(source, node).split())
        if isinstance(node, ast.BoolOp):
            node.values = [wrapped(part) for part in node.values]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = wrapped(node.operand)
        elif isinstance(node, ast.IfExp):
            node.body, node.orelse = wrapped(node.body), wrapped(node.orelse)
        call = ast.Call(ast.Name("_noted", ast.Load()), [ast.Constant(node.lineno), ast.Constant(text), node], [])
        return ast.copy_location(call, node)

    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            node.test = wrapped(node.test)
        elif isinstance(node, ast.For):
            node.iter = wrapped(node.iter)
        elif isinstance(node, ast.Return) and node.value:
            node.value = wrapped(node.value)
    names = {"__name__": "observed", "_noted": noted}
    exec(compile(ast.fix_missing_locations(tree), "<observed>", "exec"), names)
    return names


@pytest.mark.parametrize("name", ["checkpoints_not_spared", "fault_pending", "reader"])
def test_every_refusal_is_true(name):
    """Held against a run of the action itself, whose tests note what they come to."""
    model, _, data = page_of(name)
    decoded, (names, values) = Decoded(data), observed_modules()
    tables = tabulate(model, [initial(model)] if not data["violated"] else [step.state for step in explore(model).trace], LARGE)
    checked, lines = Counter(), {path: (ROOT / path).read_text().splitlines() for path in (
        "model/protocols/sequenced_metadata_boundary.py", "model/parts.py")}
    for p, process in enumerate(model.processes):
        for n, (pair, row) in enumerate(decoded.tables[p].items()):
            of = model.constants, process.index, tables.values[0][pair[0]], tables.values[p + 1][pair[1]]
            refused = dict(decoded.refusals(p, row))
            assert set(process.actions) - {a for a, f in process.actions.items() if list(f(*of))} == set(refused)
            for action, why in refused.items() if n % 7 == 0 else ():
                values.clear()
                assert not list(names[process.actions[action].__name__](*of))
                scope = dict(zip(inspect.signature(process.actions[action]).parameters, of))
                for operand in why["operands"]:
                    expression, _, value = operand.partition(" is ")
                    if {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)} <= {
                            *scope, *vars(protocol), "len", "max"}:
                        assert show(eval(expression, {**vars(protocol), **scope})) == value
                while why:
                    path, line = why["where"].split(":")
                    text = why["guard"].removeprefix("not ")
                    assert text in lines[path][int(line) - 1]
                    assert (text != why["guard"]) in values[path, int(line), text], why
                    why, checked[path] = why["needs"], checked[path] + 1
    assert checked.total() > 500 and checked["model/parts.py"]


def test_a_property_that_fails_says_why():
    model, trace, data = page_of("no_check")
    decoded, (state, *_) = Decoded(data), data["trace"][-1]
    why = {data["properties"][n][1]: decoded.refusal(w) for n, w in data["verdicts"][data["judged"][state[0]]][0]}
    assert why["AckIsChecked"]["guard"] == "not s.unchecked" and why["AckIsChecked"]["operands"] == ["s.unchecked is {2}"]
    holds = model.always["AckIsChecked"][1]
    assert refusal(holds, model.constants, trace[-1].state.shared).guard == "not s.unchecked"


# --- any text, any model; bytes

class Cell(NamedTuple):
    text: str  # <i>anything</i> & "more"
    done: frozenset[str] = frozenset()


def write(c: None, me: int, s: Cell, w: int) -> Iterator:
    """Puts </script><b>text</b> there."""
    for word in ("</script><script>alert(1)</script>", "<!--", "&amp;'\"\\", "\u2028π"):
        if w < 2 and word not in s.done:
            yield (word,), Cell(word, s.done | {word}), w + 1


def never_twice(c: None, s: Cell) -> bool:
    """At most <one> word."""
    return len(s.done) < 2


HOSTILE = Model("<b>hostile</b>", None, Cell(""), (Process("Pen#0", "Pen", 0, 0, {"Write": write}),),
                {"NeverTwice": (None, never_twice)}, {})


def test_texts_are_escaped_and_parts_need_be_no_records():
    html = page(HOSTILE._replace(constants=()), explore(HOSTILE).trace, "NeverTwice", command="--set X='</script>'")
    assert html.count("</script>") == 2 and "<b>" not in html and "<!--" not in html and "\u2028" not in html
    data = data_of(html)
    assert {"</script><script>alert(1)</script>", "pen"} & {text for text in map(str, data["texts"])} or data["command"]
    assert data["command"] == "--set X='</script>'" and data["name"] == "<b>hostile</b>"
    assert data["states"] == 1 + 4 + 4 * 3
    assert data["roles"]["Pen"]["fields"] == [["", ""]] and data["shared"][0] == ["text", '<i>anything</i> & "more"']


def test_nothing_is_fetched_and_the_size_is_told():
    model = model_of(ROWS["no_check"])
    found = explore(model)
    html = page(model, found.trace, found.violated)
    assert not re.search(r"https?:|//[a-z]|\bsrc=|@import|url\(|<link|fetch\(|XMLHttp|innerHTML|eval\(", html)
    told_kib = int(data_of(html)["size"].removesuffix(" KiB"))
    assert abs(told_kib * 1024 - len(html.encode())) <= 1024 and told_kib < 100
    assert "@SIZE@" not in html and "@DATA@" not in html and "@TITLE@" not in html


def test_bytes_do_not_depend_on_hashing():
    code = ("import sys; from tests.model.test_explorer_page import *; "
            "m = model_of(ROWS['checkpoints_not_spared']); f = explore(m); sys.stdout.write(page(m, f.trace, f.violated))")
    texts = {subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": "."}).stdout for hashing in "12"}
    assert len(texts) == 1 and len(*texts) > 10_000


def test_a_lasso_is_walked_around():
    model = model_of(ROWS["stale_files_stay"])
    lasso = eventually(model, ["StaleFilesAreCollected"])["StaleFilesAreCollected"]
    data = embedded(model, lasso.stem + lasso.cycle, lasso.violated, len(lasso.stem) - 1, LARGE)
    assert data["trace"][data["loop"]][0] == data["trace"][-1][0]
    goal = next(n for n, (_, name, *_) in enumerate(data["properties"]) if name == lasso.violated)
    held = [goal in data["verdicts"][data["judged"][state[0]]][1] for state, *_ in data["trace"]]
    assert held[0] and not any(held[data["loop"]:])


# --- the JavaScript

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here: the page's JavaScript is not run")


def run_js(tmp_path: Path, html: str, code: str) -> str:
    """Run the page's script under node, on a document that has only what the page uses; `code` follows it."""
    data, script = data_of(html), html.partition("<script>\n")[2].partition("</script>")[0]
    path = tmp_path / "page.js"
    path.write_text(f"{FAKE}\nconst DATA = {json.dumps(json.dumps(data))};\n{script}\n{code}")
    result = subprocess.run(["node", str(path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


FAKE = r"""
class Node {
  constructor(tag) {
    Object.assign(this, {tag, children: [], attributes: {}, style: {}, clientHeight: 0, offsetTop: 0, open: false});
  }
  append(...nodes) {
    this.children.push(...nodes);
    for (const node of nodes) if (node instanceof Node) node.parentNode = this;
  }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  get classList() { return {toggle() {}}; }
  get text() { return this.children.map(c => c instanceof Node ? c.text : String(c)).join(""); }
  all(test) { return this.children.filter(c => c instanceof Node).flatMap(c => [...(test(c) ? [c] : []), ...c.all(test)]); }
  querySelector(wanted) {
    return this.all(c => wanted === "[aria-current]" ? c.attributes["aria-current"] : c.tag === wanted)[0];
  }
  showModal() { this.open = true; }
}
const IDS = {}, body = new Node("body"), TAGS = {};
globalThis.document = {
  body, createElement: tag => new Node(tag), querySelector: tag => TAGS[tag] ??= new Node(tag),
  getElementById: id => id === "data" ? {textContent: DATA} : IDS[id] ??= new Node(id),
};
globalThis.window = globalThis;
globalThis.location = {
  at: "", get hash() { return this.at; }, set hash(to) { this.at = to; if (window.onhashchange) window.onhashchange(); },
};
const press = key => document.onkeydown({key, preventDefault() {}});
const shown = id => IDS[id].text;
"""


@needs_node
def test_the_script_walks_the_whole_graph(tmp_path):
    model = model_of(ROWS["no_check"])
    found = explore(model)
    out = run_js(tmp_path, page(model, found.trace, found.violated), r"""
        const world = World(JSON.parse(DATA)), start = world.base[0].state, seen = new Set([start.join()]), queue = [start];
        const goal = world.d.properties.findIndex(([, name]) => name === "UpdatesEnd");
        let moves = 0, refused = 0, failing = 0, beyond = 0, ended = 0;
        for (const state of queue) {
          const able = new Set();
          for (const move of world.moves(state)) {
            moves++;
            able.add(move.p + world.name(move.p, move.action));
            if (!seen.has(move.state.join())) { seen.add(move.state.join()); queue.push(move.state); }
          }
          for (let p = 0; p < world.d.processes.length; p++) for (const {action, why} of world.refused(state, p)) {
            refused++;
            if (able.has(p + world.name(p, action)) || !why.guard || !why.where) throw new Error("both able and refused");
          }
          refused += able.size;
          failing += world.verdicts(state).failing.length > 0;
          ended += world.verdicts(state).held.has(goal);
          beyond += world.beyond(state).length;
        }
        console.log(JSON.stringify([queue.length, moves, refused, failing, ended, beyond]));
    """)
    x, edges = graph(model)
    states = [x.unpack(packed) for packed in edges]
    failing = sum(not all(holds(model.constants, state.shared) for role, holds in model.always.values() if role is None)
                  for state in states)
    actions = sum(len(process.actions) for process in model.processes)
    ended = sum(all(protocol.updates_end(model.constants, state.shared, local) for process, local in
                    zip(model.processes, state.locals) if process.role == "Writer") for state in states)
    assert json.loads(out) == [len(edges), sum(map(len, edges.values())), len(edges) * actions, failing, ended, 0]


@needs_node
def test_the_page_goes_back_and_forth_and_its_address_is_the_place(tmp_path):
    model = model_of(ROWS["no_check"])
    found = explore(model)
    out = run_js(tmp_path, page(model, found.trace, found.violated), r"""
        const say = () => console.log(
          [location.hash, shown("bar").match(/step \d+ of \d+/)[0], /fails here/.test(shown("bar"))].join(" "));
        say();                                            // it opens where the property fails
        press("ArrowLeft"); say(); press("Home"); say();
        for (let i = 0; i < 40; i++) press("ArrowRight"); say();
        location.hash = "#7"; press("1"); say();          // the counterexample's own next step
        location.hash = "#7"; press("2"); say(); press("1"); say();   // another
        press("ArrowLeft"); say(); press("ArrowRight"); say();          // along one's own steps
        location.hash = "#3"; press("End"); say(); press("c"); say();   // and back to the counterexample
        location.hash = "#7.99"; say(); location.hash = "#999"; say(); location.hash = "#x<b>"; say();
        location.hash = "#12";
        const next = IDS["moves"].all(node => /\bnext\b/.test(node.attributes.class || ""));
        console.log(next.length, next[0].text);
        next[0].onclick(); say();
        press("?"); console.log(IDS["help"].open);
    """)
    assert out.splitlines() == [
        " step 13 of 13 true", "#12 step 12 of 13 false", "#0 step 0 of 13 false", "#13 step 13 of 13 true",
        "#8 step 8 of 13 false",
        "#7.1 step 8 of 8 false", "#7.1.0 step 9 of 9 false",
        "#7.1 step 8 of 9 false", "#7.1.0 step 9 of 9 false",
        "#7.1.0 step 9 of 9 false", "#7 step 7 of 13 false",
        "#7.99 step 7 of 13 false", "#999 step 13 of 13 true", "#x<b> step 13 of 13 true",
        "1 CreateNext change=(\"Keep\", ())✗ → 1Ready → Idle; changes files, acked, unchecked; and its own n, k",
        "#13 step 13 of 13 true", "true"]


@needs_node
def test_only_the_move_that_breaks_a_property_is_marked(tmp_path):
    model = model_of(ROWS["latest_deleted"])
    found = explore(model)
    last = len(found.trace) - 1
    out = run_js(tmp_path, page(model, found.trace, found.violated), f"""
        const marked = () => IDS["moves"].all(node => node.attributes.class === "risk").map(node => node.attributes.title);
        const moves = () => IDS["moves"].all(node => /^move\\b/.test(node.attributes.class || ""));
        for (const place of [0, {last - 1}, {last}]) {{
          location.hash = "#" + place;
          console.log(moves().length > marked().length, marked().join());
        }}
    """)
    assert found.violated == "BoundaryIsBelowLatest"
    assert out.splitlines() == ["true ", "true BoundaryIsBelowLatest holds here and fails in that state",
                                "true LatestIsKept holds here and fails in that state"]


@needs_node
def test_the_edge_of_a_page_is_told(tmp_path):
    model = model_of(ROWS["reads_not_checked"])
    found = explore(model)
    html = page(model, found.trace, found.violated, max_states=200, more="highwater model explore --more")
    out = run_js(tmp_path, html, r"""
        console.log(TAGS["footer"].text);
        const world = World(JSON.parse(DATA)), queue = [[world.base[0].state, "#0"]];
        for (const [state, hash] of queue) {
          location.hash = hash;
          if (world.beyond(state).length) break;
          world.moves(state).forEach((move, i) => queue.push([move.state, hash + "." + i]));
        }
        console.log(shown("moves")); console.log(shown("bar")); console.log(shown("state"));
    """)
    assert re.search(r"Not the whole graph: the \d+ states within \d+ steps? of the trace, with their", out)
    assert "The edge of this page" in out and re.search("What .* here is not in this page", out)
    assert "A page with more: highwater model explore --more" in out
    assert "All `always` properties hold here" not in out and "No property that the page can check fails in it" in out


@needs_node
def test_hostile_texts_stay_texts_and_a_cycle_goes_round(tmp_path):
    html = page(HOSTILE._replace(constants=()), explore(HOSTILE).trace, "NeverTwice")
    out = run_js(tmp_path, html, 'console.log(shown("state")); press("Home"); console.log(shown("moves"));')
    assert "</script><script>alert(1)</script>" in out and "At most <one> word." in out
    model = model_of(ROWS["stale_files_stay"])
    lasso = eventually(model, ["StaleFilesAreCollected"])["StaleFilesAreCollected"]
    html = page(model, lasso.stem + lasso.cycle, lasso.violated, loop=len(lasso.stem) - 1)
    out = run_js(tmp_path, html, """
        console.log(shown("bar")); press("ArrowRight"); console.log(location.hash); console.log(shown("steps"));
    """)
    assert "can repeat forever" in out and f"#{len(lasso.stem)}\n" in out and "the cycle begins here" in out
