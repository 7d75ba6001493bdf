"""The generated pages agree with the models, for every protocol; no label of a diagram overlaps another."""

import re
import sys
from functools import partial
from itertools import combinations
from xml.etree import ElementTree

import pytest

from bench import lines
from bench.min_age import harmed
from bench.pages import protocol as page_protocol
from bench.pages import safeguards as page_safeguards
from bench.pages.branch import branched, counterexample, files_of, history
from bench.pages.diagram import LETTER, lines_of, order, svg
from bench.pages.parts import PARTS, main, with_part
from bench.pages.protocol import DOCS, NOWHERE, ROOT, Instances, instances, instances_of, page_data, reading_order, stems
from bench.pages.readme import exit_codes
from bench.pages.reference import locals_of, reference
from highwater.gate import boundary_peer, exits
from highwater.model.explore.tabulated import explore
from highwater.model.guards import guards_of, notes, sections
from highwater.model.protocols import sequenced_metadata_boundary as protocol

SVG = "{http://www.w3.org/2000/svg}"


NOT_COMPARED = ("min_age", "lines")  # one takes minutes; any edit changes the other, and `make docs` writes it anew
LONG = {"cost", "demo", "protocols", "queries", "refinements", "trace_damage", "trace_damage_by_protocol", "witnesses"}


def long(name):
    return name in LONG or name.rpartition(".")[2] in ("reference", "starvation")


@pytest.mark.parametrize("name", [name for name in PARTS if name not in NOT_COMPARED and not long(name)])
def test_part_is_current(name, capsys):
    assert main([name, "--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in PARTS if long(name)])
def test_a_part_that_takes_long_is_current(name, capsys):
    test_part_is_current(name, capsys)


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


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["--check", "nonsuch"], 2), (["--chek"], 2)])
def test_nothing_is_written_for_what_is_not_understood(monkeypatch, arguments, code):
    monkeypatch.setattr("bench.pages.parts.PARTS", {})
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code


def test_lines_are_counted_without_blanks_and_comments(tmp_path):
    for suffix, count in ((".py", 2), (".fizz", 2), (".md", 3)):  # in Markdown `#` begins a heading
        path = tmp_path / f"x{suffix}"
        path.write_text('"""A docstring."""\n\n  # a comment\nx = 1  # a value\n   \n')
        assert lines.lines_of(path) == count
    counted = lines.measured()
    assert all(counted[stem]["spec"] and counted[stem]["model"] for stem in counted if stem != lines.SHARED)
    assert {layer for layer, count in counted[lines.SHARED].items() if count} == {
        layer for layer, (_, shared) in lines.LAYERS.items() if shared}


@pytest.mark.parametrize("stem", stems())
def test_a_protocol_has_a_page_and_a_reference_with_all_diagrams(stem):
    page, text = (DOCS / f"{stem}.md").read_text(), (DOCS / f"reference/{stem}.md").read_text()
    assert f"](reference/{stem}.md" in page and f"](../{stem}.md)" in text
    assert set(re.findall(r"<!-- generated: (\w+) -->", page)) == {
        name.rpartition(".")[2] for name in PARTS if name.startswith(f"{stem}.")} - {"svg", "reference"}
    assert set(re.findall(r"\]\(../../images/(\S+\.svg)\)", text)) == {
        name for name in PARTS if name.startswith(f"{stem}.") and name.endswith(".svg")}
    assert NOWHERE not in text, "there is no instance in which this action is taken"
    assert stem in reading_order()


def test_the_images_are_those_that_are_generated_or_shown():
    drawn = {path.rpartition("/")[2] for path, _ in PARTS.values() if path.startswith("docs/images/")}
    assert {path.name for path in (ROOT / "docs/images").iterdir()} == {*drawn, "min_age.svg", "timeline.png"}


@pytest.mark.parametrize("stem", [stem for stem in stems() if "branch" in page_data(stem)])
def test_a_branch_is_drawn_from_the_counterexample(stem):
    of = branched(stem)
    assert f"](../images/{stem}.branch.svg)" in (DOCS / f"{stem}.md").read_text()
    trace = counterexample(of)
    files = files_of(of, trace)
    branch, = (file for file in files if file.branch)
    first, = (file for file in files if file.id == branch.id and not file.branch)
    assert branch == files[-1] and branch.notes == [f"{done} in step {len(trace) - 1}" for done in ("put", "acknowledged")]
    assert [note.partition(" ")[0] for note in first.notes if not note.startswith("in snapshot")] == [
        "put", "acknowledged", "deleted"]
    assert branch.name not in history(of, trace[-1].state.shared)


# --- what a page says of its model

BOUNDARY = instances_of("sequenced_metadata_boundary")


def rows_of(text: str) -> dict[str, list[str]]:
    """Read the rows of all tables of a text: first cell -> the other cells."""
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


@pytest.mark.parametrize("stem, larger, steps", [
    ("sequenced_metadata_boundary", {"COMMITS": 1, "CHECKPOINTS": 1, "PAGE": 1, "MAX_PENDING": 1}, 20),
    ("log_gc", {"APPENDERS": 1, "ENTRIES": 2, "MAX_PENDING": 1, "MAX_LOST": 1}, 20),
    ("wal_fencing", {"COLLECTORS": 0, "FLUSHES": 0, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}, 20),
])
def test_larger_instances_do_nothing_else(stem, larger, steps):
    """The diagrams come from small instances. A larger one, with several faults, takes no step that they lack."""
    found, of = {}, instances_of(stem)
    page_protocol.gather(of.module.model(of.module.Constants(**larger)), found)
    drawn = page_protocol.facts(of)[0]
    assert sum(len(done.between) for done in found.values()) > steps
    for action, done in found.items():
        assert done.between.keys() <= drawn[action].between.keys() and done.shared.keys() <= drawn[action].shared.keys()


def test_every_safeguard_has_its_counterexample():
    knobs = page_protocol.safeguards_of(protocol)
    text = page_safeguards.counterexamples(BOUNDARY)
    assert len(knobs) == 10 and all(f"<b>{row.id}</b>" in text for row in page_safeguards.failing(BOUNDARY))
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


def test_another_protocol_needs_no_entry(monkeypatch):
    """A model without manifest, simulation and faults is rendered as far as it goes."""
    monkeypatch.setitem(sys.modules, "highwater.model.protocols.boundary_peer", boundary_peer)
    of = instances("boundary_peer", {"W": 2, "K": 1}, {"W": 1, "K": 1, "G": 2})
    assert isinstance(of, Instances) and page_protocol.drawn(of) == ["Writer", "Collector"]
    told = rows_of(page_protocol.actions(of))
    assert told["**PutLost**"] == [
        "Versioned → Desired", '`g.pc == "Versioned"`<br>`s.boundary != g.b`<br>`c.CONDITIONAL_PUT`']
    assert "| `bad` | `int` | `0` | ghost: 1: an id" in page_protocol.state(of)
    assert page_protocol.diagram(of, "Collector").count('class="state"') == 5
    assert page_safeguards.counterexamples(of) == ""
    assert reference(of).startswith("# Reference of `boundary_peer`") and "## What each safeguard prevents" not in reference(of)
    assert locals_of(of) == "`w` is the local state of a writer. `g` is the local state of a collector."


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
    """Return left, top, right and bottom of every text and every state."""
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
    assert len(rects) >= 2 and (name == "sst.svg" or len(texts) - len(outside) == len(rects))  # each state has its name within
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
