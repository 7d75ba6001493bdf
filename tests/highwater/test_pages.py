"""What the docs generate is what they say, of any protocol; and no label of a diagram lies on another."""

import re
import sys
from functools import partial
from importlib import import_module
from itertools import combinations
from xml.etree import ElementTree

import pytest

from bench import lines, page_protocol, page_safeguards
from bench.min_age import harmed
from bench.page_branch import BRANCHED, counterexample, files_of
from bench.page_diagram import LETTER, lines_of, order, svg
from bench.page_protocol import NOWHERE, Instances
from bench.pages import PARTS, PROTOCOLS, ROOT, exit_codes, instances, main, with_part
from highwater.gate import boundary_peer, exits
from highwater.model.explore.tabulated import explore
from highwater.model.guards import guards_of, notes, sections
from highwater.model.protocols import sequenced_metadata_boundary as protocol

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", [name for name in PARTS if name != "min_age"])
def test_part_is_current(name, capsys):
    assert main([name, "--check"]) == 0, capsys.readouterr().out


def test_the_exit_table_names_every_code():
    codes = {value for value in vars(exits).values() if isinstance(value, int)}
    assert exits.MEANING.keys() == {0, *codes} and {2, 3, 10, 130} <= codes
    head, _, meanings = exit_codes().splitlines()
    assert head == "| 0 | 2 | 3 | 10 | 11 | 12 | 13 | 14 | 15 | 16 | 17 | 130 |"
    assert "bad usage" in meanings.split("|")[2] and "interrupted" in meanings.split("|")[12]


def test_a_stale_part_is_noticed(monkeypatch, tmp_path, capsys):
    text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n"
    assert with_part(text, "x", "new\n") == text.replace("old", "new")
    with pytest.raises(ValueError, match="'y'"):
        with_part(text, "y", "")
    monkeypatch.setitem(PARTS, "drawn.svg", (str(tmp_path / "drawn.svg"), lambda: "<svg/>"))
    assert main(["drawn.svg", "--check"]) == 1 and "stale: drawn.svg" in capsys.readouterr().out
    assert main(["drawn.svg"]) == 0 == main(["drawn.svg", "--check"])


def test_lines_are_counted_without_blanks_and_comments(tmp_path):
    for suffix, count in ((".py", 2), (".fizz", 2), (".md", 3)):  # in Markdown `#` begins a heading
        path = tmp_path / f"x{suffix}"
        path.write_text('"""A docstring."""\n\n  # a comment\nx = 1  # a value\n   \n')
        assert lines.lines_of(path) == count
    counted = lines.measured()
    assert all(counted[stem]["spec"] and counted[stem]["model"] for stem in counted if stem != lines.SHARED)
    assert {layer for layer, count in counted[lines.SHARED].items() if count} == {
        layer for layer, (_, shared) in lines.LAYERS.items() if shared}


def test_every_part_and_diagram_stands_in_a_page():
    for of in PROTOCOLS:
        text = (ROOT / f"docs/{of.stem}.md").read_text()
        assert set(re.findall(r"<!-- generated: (\w+) -->", text)) == {
            name.rpartition(".")[2] for name in PARTS if name.startswith(of.stem)} - {"svg"}
        assert set(re.findall(r"\]\((\S+\.svg)\)", text)) == {
            name for name in PARTS if name.startswith(of.stem) and name.endswith(".svg")}
        assert NOWHERE not in text, "there is no instance in which this action is taken"


@pytest.mark.parametrize("of", BRANCHED, ids=lambda of: of.stem)
def test_a_branch_is_drawn_from_the_counterexample(of):
    assert f"]({of.stem}.branch.svg)" in (ROOT / f"docs/{of.stem}.md").read_text()
    trace = counterexample(of)
    files = files_of(of, trace)
    branch, = (file for file in files if file.branch)
    first, = (file for file in files if file.id == branch.id and not file.branch)
    assert branch == files[-1] and branch.notes == [f"{done} in step {len(trace) - 1}" for done in ("put", "acknowledged")]
    assert [note.partition(" ")[0] for note in first.notes if not note.startswith("in snapshot")] == [
        "put", "acknowledged", "deleted"]
    assert branch.name not in of.history(import_module(f"highwater.model.protocols.{of.stem}"), trace[-1].state.shared)


# --- what a page says of its model

BOUNDARY = PROTOCOLS[0]


def rows_of(text: str) -> dict[str, list[str]]:
    """Of the tables of a text: the first cell -> the others."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in cells}


def test_every_action_field_and_property_is_told():
    told = rows_of(page_protocol.actions(BOUNDARY).partition("### Collector")[0])
    assert {name.strip("*").partition("*")[0] for name in told} == {"action", "---", *protocol.WRITER}
    assert "`present(s, w.n)`" in told["**ReadLatest**"][1] and "Listed → Ready" in told["**ReadLatest**"][0]
    assert "put id if absent: 409, 412" in told["**CreateConflict**"][0]  # some stores say it by 409
    state = page_protocol.state(BOUNDARY)
    for record in (protocol.Shared, protocol.Writer, protocol.Collector, protocol.Reader):
        assert all(f"| `{field}` |" in state for field in record._fields)
    assert rows_of(page_protocol.properties(BOUNDARY)).keys() > protocol.ALWAYS.keys()
    assert rows_of(page_protocol.witnesses(BOUNDARY)).keys() > protocol.SOMETIMES.keys()
    assert rows_of(page_protocol.liveness(BOUNDARY)).keys() > protocol.EVENTUALLY.keys()


def test_larger_instances_do_nothing_else():
    """What is drawn is of small instances. A larger one, with everything on, has no step that is not drawn."""
    found = {}
    page_protocol.gather(protocol.model(protocol.Constants(
        COMMITS=1, CHECKPOINTS=1, PAGE=1, MAX_PENDING=1)), found)
    drawn = page_protocol.facts(BOUNDARY)[0]
    assert sum(len(done.between) for done in found.values()) > 20
    for action, done in found.items():
        assert done.between.keys() <= drawn[action].between.keys() and done.shared.keys() <= drawn[action].shared.keys()


def test_every_safeguard_has_its_counterexample():
    knobs = page_protocol.safeguards_of(protocol)
    text = page_safeguards.counterexamples(BOUNDARY)
    assert len(knobs) == 9 and all(f"<b>{row.id}</b>" in text for row in page_safeguards.failing(BOUNDARY))
    assert all(f"`{name}`: {said}." in text for name, said in knobs.items())
    one = text.partition("<b>delete_before_advance</b>")[2].partition("</details>")[0]
    found = explore(protocol.model(protocol.Constants(BOUNDARY_FIRST=False, COMMITS=1)))
    assert [line.split()[1:3] for line in re.findall(r"^ *\d+  .*", one, re.M)] == [
        [process, action] for (process, action, _), _ in found.trace[1:]]
    assert "files[1] gone" in one and "DeletedIsBehindBoundary fails" in one and "s.boundary is 0" in one


@pytest.mark.parametrize("field, old, new, says", [
    ("acked", frozenset({1}), frozenset({1, 12, 3}), ["acked + 3, 12"]),
    ("acked", frozenset({1}), frozenset({2}), ["acked − 1", "acked + 2"]),
    ("acked", frozenset(), frozenset({2}), ["acked {} → {2}"]),
    ("files", {1: "x", 2: "y"}, {2: "z", 3: "y"}, ["files[1] gone", 'files[2] = "z"', 'files[3] = "y"']),
    ("pc", "Idle", "Listed", ['pc "Idle" → "Listed"']),
])
def test_a_change_is_told_shortly(field, old, new, says):
    assert page_safeguards.apart(field, old, new) == says


def test_another_protocol_comes_by_one_entry(monkeypatch):
    """With a model that has no manifest, no simulation and no faults: what there is is told."""
    monkeypatch.setitem(sys.modules, "highwater.model.protocols.boundary_peer", boundary_peer)
    of = instances("boundary_peer", {"W": 2, "K": 1}, {"W": 1, "K": 1, "G": 2})
    assert isinstance(of, Instances) and page_protocol.drawn(of) == ["Writer", "Collector"]
    told = rows_of(page_protocol.actions(of))
    assert told["**PutLost**"] == [
        "Versioned → Desired", '`g.pc == "Versioned"`<br>`s.boundary != g.b`<br>`c.CONDITIONAL_PUT`']
    assert "| `bad` | `int` | `0` | ghost: 1: an id" in page_protocol.state(of)
    assert page_protocol.diagram(of, "Collector").count('class="state"') == 5
    assert page_safeguards.counterexamples(of) == ""


# --- what is read from a source

def offer(c, me, s, w):
    ids, _ = sorted(s), w
    unused = me
    if not w:
        return
    if w > 1 and ids:
        for i in ids:
            if i > w or c:
                if i == me:
                    yield (i,), s, w
                else:
                    yield (unused,), s, w


def test_guards_are_told_as_they_are_written():
    assert guards_of(offer) == ("ids, _ = sorted(s), w", "not (not w)", "w > 1", "ids", "for i in ids", "i > w or c")
    assert guards_of(protocol.accept) == ('w.pc == "Created"', "w.n + 1 > boundary_seen(c, s, w)")
    assert notes(protocol.Shared)["boundary"] == "durable; 0: never written" and notes(protocol.Reader)["n"] == ""
    assert sections(protocol.Shared)["files"] == "" and sections(protocol.Shared)["acked"] == "ghosts"


# --- diagrams

def boxes(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """Of all texts, and of the states: left, top, right, bottom."""
    found = []
    for text in root.iter(f"{SVG}text"):
        wide, x = len("".join(text.itertext())) * LETTER, float(text.get("x"))
        left = x - wide * {"end": 1, "middle": 0.5}.get(text.get("text-anchor"), 0)
        found.append((left, float(text.get("y")) - 10, left + wide, float(text.get("y")) + 3))
    return found


DIAGRAMS = {name: render for name, (_, render) in PARTS.items() if name.endswith(".svg")}
CROWDED = {("A", "B"): [("Go", False)] * 9, ("B", "A"): [("Back", True)] * 12, ("A", "C"): [("Jump", False)] * 7,
           ("B", "B"): [("Loop", False)] * 8, ("C", "B"): [("Return", True)], ("A", "D"): [("Leap", False)],
           ("D", "C"): [("Up", False)], ("D", "D"): [("Stay", True)], ("C", "A"): [("Home", False)] * 3}
DIAGRAMS["crowded"] = partial(svg, "AVeryLongNameOfARole", "A", CROWDED)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_nothing_in_a_diagram_lies_on_anything(name):
    root = ElementTree.fromstring(DIAGRAMS[name]())
    texts, states = boxes(root), [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "state"]
    rects = [tuple(float(rect.get(key)) for key in ("x", "y", "width", "height")) for rect in states]
    rects = [(x, y, x + wide, y + high) for x, y, wide, high in rects]
    outside = [box for box in texts if not any(x <= box[0] and box[2] <= x2 and y <= box[1] <= y2 for x, y, x2, y2 in rects)]
    assert len(texts) - len(outside) == len(rects) >= 4  # each state has its name within
    for (a, b, c, d), (e, f, g, h) in [*combinations(texts, 2), *((box, rect) for box in outside for rect in rects)]:
        assert c <= e or g <= a or d <= f or h <= b, "two lie on each other"
    for (a, b, c, d) in texts:
        assert a >= 0 and b >= 0 and c <= float(root.get("width")) and d <= float(root.get("height"))
    for path in root.iter(f"{SVG}path"):  # a vertical lane goes through no text
        for x, y, y2 in re.findall(r"([\d.]+) ([\d.]+)V([\d.]+)", path.get("d")):
            x, (low, high) = float(x), sorted((float(y), float(y2)))
            assert not any(a < x < c and b < high and low < d for a, b, c, d in outside), "a lane goes through a label"


def test_a_diagram_draws_each_step_once():
    for role in page_protocol.drawn(BOUNDARY):
        edges, root = page_protocol.edges_of(BOUNDARY, role), ElementTree.fromstring(page_protocol.diagram(BOUNDARY, role))
        drawn = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
        for action in {action for actions in edges.values() for action, _ in actions}:
            times = sum(action == name for actions in edges.values() for name, _ in actions)
            assert len(re.findall(rf"\b{action}\b", drawn)) == times
        assert {state for between in edges for state in between} == set(order(protocol.Writer().pc, edges))
    assert lines_of([("Aaaa", False), ("Bbbb", True), ("Cc", False)], 10) == [
        [("Aaaa", False), ("Bbbb", True)], [("Cc", False)]]


def test_the_plot_tells_the_truth_in_small():
    assert harmed(("min_age alone", 400, 90)) > harmed(("min_age alone", 12800, 90)) > 0
    assert harmed(("with the boundary", 50, 90)) == harmed(("with the boundary", 400, 90)) == 0
