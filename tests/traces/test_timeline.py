"""The timeline shows every event of the trace once, with the model's state after it and the times of its request.

It opens at the failure, works without a network and with any text, and stays small and quick with 2,000 events. Its JavaScript
runs if node is installed, and its look is checked if a browser is."""

import json
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.dst.explain import Told, look, text_of
from highwater.cli.dst.timeline import page, page_of, page_of_trace, plain
from highwater.cli.main import app
from highwater.cli.trace.app import recorded
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape
from highwater.dst.simulate import simulate
from highwater.model.guards import show
from highwater.traces.explain.explain import request
from highwater.traces.explain.timeline import sent_at

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "no_check.ndjson"
RUN = CliRunner()


def data_of(html: str) -> dict:
    return json.loads(html.partition('<script id="data" type="application/json">')[2].partition("</script>")[0])


@cache
def failing(mutant: str = "reported_though_refused", signature: str = "told:committed") -> Told:
    for seed in range(3000):
        outcome = simulate(Run(seed), ZOO[mutant][1])
        if outcome.signature == signature:
            return look(outcome, mutant)
    raise AssertionError(f"{mutant} does not fail")


@cache
def faulty() -> Told:
    """A good run with much that went wrong in it."""
    for seed in range(500):
        outcome = simulate(Run(seed))
        kinds = {e.kind for e in outcome.events} | {"zombie" for e in outcome.events if not e.awaited and e.kind == "applied"}
        told = look(outcome)
        if not outcome.kind and {"timeout", "crash", "refused", "zombie"} <= kinds and any(
                pause[4] == "down" for pause in data_of(page_of(told))["pauses"]):
            return told
    raise AssertionError("no such run")


# --- the data

def test_every_event_is_shown_once_with_the_state_after_it():
    for told in (failing(), faulty()):
        data, rows = data_of(page_of(told)), told.replayed.rows
        assert [row["ask"] for row in data["rows"]] == [request(row.event) for row in rows]
        assert [row["t"] for row in data["rows"]] == [row.event.t_ms for row in rows]
        shown = [name for name, _ in data["locals"]]
        for row, (e, _, after) in zip(data["rows"], rows):
            assert data["clients"][row["c"]] == e.client and row["late"] == (e.kind == "applied" and not e.awaited)
            if after is None:
                assert row["state"] is None
                continue
            own = [after.locals[told.replayed.record.index[name]] for name in shown]
            for part, fields in zip(row["state"], (after.shared, *own)):
                for said, (name, value) in zip(data["parts"][part], fields._asdict().items()):
                    texts = [data["texts"][n] for n in said] if isinstance(said, list) else data["texts"][said]
                    if isinstance(value, (frozenset, tuple)) and not hasattr(value, "_fields"):
                        wanted = [f"id {i}: {show(of)}" if name == "files" else show(of) for i, of in enumerate(value, 1)
                                  if of is not None]
                        assert sorted(texts) == sorted(wanted)
                    else:
                        assert texts == show(value)
        assert not told.outcome.kind or f"What mattered, {data['mattered']}:" in text_of(told)
        assert data["failing"] == told.failing and [cause[0] for cause in data["causes"]] == [c.number for c in told.causes]


def test_requests_are_drawn_from_when_they_were_sent():
    told = faulty()
    rows, issued = data_of(page_of(told))["rows"], {w.request: w.t_ms for w in told.watched if w.what == "issue"}
    assert len(issued) == told.outcome.requests
    events = told.outcome.events
    for number, (row, e) in enumerate(zip(rows, events)):
        if e.request:
            place, t_ms = row["sent"], issued[e.request]
            assert place < number
            before, after = int(place // 1), int(-(-place // 1))
            assert before < 0 or events[before].t_ms <= t_ms
            assert place == before or events[after].t_ms >= t_ms
    first = {e.request: n for n, e in reversed(list(enumerate(events))) if e.request}
    late = [n for n, row in enumerate(rows) if row["late"]]
    assert late and all(rows[n]["sent"] < first[events[n].request] <= n for n in late)  # from where it was sent, long before


def test_without_issue_times_they_are_drawn_from_the_event_before():
    events = faulty().outcome.events
    last: dict[str, int] = {}
    seen: set[int] = set()
    found = sent_at(events, [])
    for number, e in enumerate(events):
        if e.request and e.request not in seen:
            assert found[number] == last.get(e.client, -0.5)
        seen.add(e.request)
        if e.kind != "applied" or e.awaited:
            last[e.client] = number


def test_stalls_are_as_long_as_the_client_slept():
    told = failing()
    data = data_of(page_of(told))
    stalls = [pause for pause in data["pauses"] if pause[4] == "stall"]
    assert stalls
    for client, start, end, ms, _ in stalls:
        assert start < end and ms > 0
        own = [n for n, row in enumerate(data["rows"]) if row["c"] == client and start < n < end and not row["late"]]
        assert not own  # nothing is heard of it meanwhile
    assert {"crash"} <= {row["kind"] for row in data_of(page_of(faulty()))["rows"]}
    assert any(pause[4] == "down" for pause in data_of(page_of(faulty()))["pauses"])


def test_the_story_says_what_failed_and_what_would_not_have():
    told = failing()
    data = data_of(page_of(told))
    (kind, wrong), (_, well) = data["story"]
    assert kind == "wrong" and "was told 'committed'" in wrong and "Its step before: get boundary" in wrong
    assert told.nearest.passing[0].change.words in well
    assert plain("x of db/manifest/00000000000000000004.manifest, y") == "x of id 4, y"
    needs = data_of(page_of(failing("boundary_moves_backward", "refinement:Collector.Advance")))
    assert "needs s.boundary == g.b" in needs["story"][0][1] and "sequenced_metadata_boundary.py:" in needs["why"]


# --- the file

def test_nothing_is_fetched_and_texts_are_escaped():
    told = failing()
    html = page_of(told._replace(mutant="</script><b>&", command="<!-- \u2028"))
    without_svg = html.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]|\bsrc=|@import|url\(|<link|fetch\(|XMLHttp|innerHTML|eval\(", without_svg)
    assert html.count("</script>") == 2 and "<b>" not in html and "<!--" not in html and "\u2028" not in html
    assert data_of(html)["title"].startswith("</script><b>&, seed") and str(ROOT) not in html
    assert len(html) < 120_000 and page(told.outcome, told.mutant) == page_of(look(told.outcome, told.mutant))


def test_a_trace_alone(tmp_path):
    html = page_of_trace(GOLDEN, *recorded(GOLDEN, "db", "compactions", 0, 0))
    data = data_of(html)
    assert len(data["rows"]) == len(GOLDEN.read_text().splitlines()) and data["failing"] and not data["pauses"]
    out = tmp_path / "x.html"
    assert RUN.invoke(app, ["dst", "timeline", str(GOLDEN), "-o", str(out)]).exit_code == 0
    assert out.read_text() == html
    strange, empty = tmp_path / "strange.ndjson", tmp_path / "empty.ndjson"
    strange.write_text(GOLDEN.read_text().replace("Writer#0", "Painter#0"))
    empty.write_text("")
    for wrong in ("nothing.ndjson", "nothing", str(strange), str(empty)):
        assert RUN.invoke(app, ["dst", "timeline", wrong, "-o", str(out)]).exit_code == 2
    told = failing()
    arguments = ["dst", "timeline", str(told.outcome.seed), "--mutant", told.mutant, "-o", str(out)]
    assert RUN.invoke(app, arguments).exit_code == 0 and data_of(out.read_text())["failing"] == told.failing


@cache
def large() -> str:
    return page(simulate(Run(3, shape=Shape(writers=3, commits=90, collectors=2, rounds=20, readers=1, reads=10))))


def test_two_thousand_events_are_a_file_of_a_few_megabytes():
    started = time.monotonic()
    html = large()
    assert len(data_of(html)["rows"]) > 1800 and len(html) < 5_000_000 and time.monotonic() - started < 60


# --- the JavaScript

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here: the page's JavaScript is not run")
FAKE = r"""
class Node {
  constructor(tag) {
    Object.assign(this, {tag, children: [], attributes: {}, clientHeight: 600, clientWidth: 950, scrollTop: 0, open: false});
  }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = []; this.append(...nodes); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getBoundingClientRect() { return {top: -IDS["scroll"].scrollTop}; }
  get text() { return this.children.map(c => c instanceof Node ? c.text : String(c)).join(""); }
  all(test) { return this.children.filter(c => c instanceof Node).flatMap(c => [...(test(c) ? [c] : []), ...c.all(test)]); }
  showModal() { this.open = true; }
}
const IDS = {}, TAGS = {};
globalThis.document = {
  createElement: tag => new Node(tag), createElementNS: (space, tag) => new Node(tag),
  querySelector: tag => TAGS[tag] ??= new Node(tag),
  getElementById: id => id === "data" ? {textContent: DATA} : IDS[id] ??= new Node(id),
};
globalThis.window = globalThis;
globalThis.location = {hash: ""};
globalThis.history = {replaceState(state, title, to) { location.hash = to; }};
const press = key => document.onkeydown({key, preventDefault() {}});
const kind = name => IDS["drawing"].all(node => (node.attributes.class || "").split(" ").includes(name));
const high = () => Number(IDS["drawing"].attributes.height);
"""


def run_js(tmp_path: Path, html: str, code: str, data: dict | None = None) -> list:
    """Run the page's script under node, on a document that has only what the page uses; `code` follows it. `data` replaces
    the page's."""
    script = html.partition("<script>\n")[2].partition("</script>")[0]
    path = tmp_path / "page.js"
    path.write_text(f"{FAKE}\nconst DATA = {json.dumps(json.dumps(data or data_of(html)))};\n{script}\n"
                    f"const out = [], say = value => out.push(value);\n{code}\nconsole.log(JSON.stringify(out));")
    result = subprocess.run(["node", str(path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)


@needs_node
def test_it_opens_where_the_run_fails_and_keys_lead_along_what_mattered(tmp_path):
    told = failing()
    last, numbers = told.failing[0], [cause.number for cause in told.causes]
    found = run_js(tmp_path, page_of(told), """
        say(location.hash); say(IDS["side"].text.includes("Here it fails.")); say(kind("failing").length);
        say(kind("mattered").length); say(kind("fails").length);
        press("ArrowLeft"); say(location.hash); press("ArrowUp"); say(location.hash); press("f"); say(location.hash);
        press("Home"); say(location.hash); press("ArrowDown"); say(location.hash); press("ArrowRight"); say(location.hash);
        press("End"); say(location.hash); press("?"); say(IDS["help"].open); IDS["help"].open = false;
        say(IDS["bar"].text.includes("false")); say(IDS["bar"].text.includes("what mattered: " + JSON.parse(DATA).mattered));
        press("f"); for (const _ of JSON.parse(DATA).causes) press("ArrowLeft"); say(location.hash);
    """)
    after = next(number for number in [*numbers, last] if number > 1)
    assert found[:3] == [f"#{last}", True, 1] and len(numbers) // 2 <= found[3] <= len(numbers) and found[4] == 1
    assert found[5:] == [f"#{numbers[-1]}", f"#{numbers[-1] - 1}", f"#{last}", "#0", "#1", f"#{after}", f"#{last}", True, False,
                         True, f"#{numbers[0]}"]


@needs_node
def test_zoom_folding_and_the_mouse(tmp_path):
    told = failing()
    found = run_js(tmp_path, page_of(told), """
        const folded = high(); press("a"); const all = high(); press("a"); say(high() === folded); say(all > folded);
        press("+"); say(high() > folded); press("0"); press("-"); say(high() < folded * 1.3);
        press("0"); IDS["scroll"].onwheel({ctrlKey: true, deltaY: -1, preventDefault() {}}); say(high() > folded);
        IDS["scroll"].onwheel({ctrlKey: false}); press("Home"); IDS["drawing"].onclick({clientY: 1e6}); say(location.hash);
        for (let i = 0; i < 50; i++) press("-"); say(high() > 20);
    """)
    count = len(told.replayed.rows) - 1
    assert found == [True, True, True, True, True, f"#{count}", True]


@needs_node
def test_zombies_faults_and_the_state_at_the_cursor(tmp_path):
    told = faulty()
    rows = [row.event for row in told.replayed.rows]
    late = next(number for number, e in enumerate(rows) if e.kind == "applied" and not e.awaited)
    found = run_js(tmp_path, page_of(told), f"""
        press("Home"); for (let i = 0; i < {late}; i++) press("ArrowDown");
        say(IDS["side"].text.includes("A zombie")); say(kind("late").length > 0);
        press("Home"); const seen = new Set();
        for (const _ of DATA.match(/"ask"/g)) {{
          for (const name of ["timeout", "crash", "refused", "told"]) if (kind(name).length) seen.add(name);
          press("ArrowDown");
        }}
        say([...seen].sort()); say(IDS["legend"].text);
        const run = Run(JSON.parse(DATA)), changes = [];
        for (let i = 0; i < run.rows.length; i++) changes.push(run.fields(i, 0).filter(run.changed).map(field => field.name));
        say(changes);
    """)
    assert found[:3] == [True, True, ["crash", "refused", "timeout", "told"]]
    assert "a zombie: applied after its client stopped waiting" in found[3]
    for number, (row, changed) in enumerate(zip(told.replayed.rows, found[4])):
        before, after = told.replayed.before(number).shared, row.after.shared
        assert changed == [name for name in before._fields if getattr(before, name) != getattr(after, name)]


@needs_node
@pytest.mark.parametrize("key, width", [(10, 1400), (150, 1400), (150, 950), (150, 600)])
def test_long_key_is_shortened_and_the_status_shown(tmp_path, key, width):
    told = failing()
    data, mattered = data_of(page_of(told)), {cause.number for cause in told.causes}
    number = next(n for n, row in enumerate(data["rows"]) if n in mattered and row["ask"].startswith("put id"))
    ask = data["rows"][number]["ask"] = f"put warehouse/{'k' * key}/metadata.json if absent"
    said, = run_js(tmp_path, page_of(told), f"""
        IDS["scroll"].clientWidth = {width}; window.onresize(); press("Home");
        for (let i = 0; i < {number}; i++) press("ArrowDown");
        say(IDS["drawing"].all(node => node.tag === "text").map(node => node.children.filter(c => c.tag !== "title")
          .map(c => c.text ?? c).join("")).find(text => text.includes("put wareh")));
    """, data)
    assert said.endswith(f" → {data['rows'][number]['answer']}")
    assert (ask in said) == (key == 10) == ("…" not in said)
    assert said.startswith("W#" if width == 600 else "Writer#")  # a narrow page has no room for names


@needs_node
def test_narrow_page_leaves_the_models_step_to_the_panel(tmp_path):
    drawn = run_js(tmp_path, page_of(failing()), """
        for (const width of [1400, 600]) {
          IDS["scroll"].clientWidth = width; window.onresize(); say(kind("model").length); say(IDS["lanes"].text);
        }
        press("f"); press("ArrowUp"); say(IDS["side"].text);
    """)
    assert drawn[0] > 0 and "in the model" in drawn[1] and drawn[2] == 0 and "in the model" not in drawn[3]
    assert "in the model: Reject" in drawn[4]


@needs_node
def test_fields_of_zero_are_shown(tmp_path):
    told = failing()
    rows, empty = run_js(tmp_path, page_of(told), r"""
        press("f"); press("ArrowUp");
        say(IDS["side"].all(node => node.tag === "dl")[0].children.map(row => row.children.map(cell => cell.text)));
        say(IDS["side"].all(node => /\bempty\b/.test(node.attributes.class || "")).map(node => node.children[0].text));
    """)
    shared = told.replayed.before(told.failing[0]).shared._asdict()
    zeros = [name for name, value in shared.items() if type(value) is int and not value]
    assert [name for name, _ in rows] == list(shared)
    assert zeros and all([name, "0"] in rows and name in empty for name in zeros)


@needs_node
def test_of_a_large_trace_only_what_is_in_view_is_drawn(tmp_path):
    nodes, moved, milliseconds = run_js(tmp_path, large(), """
        say(IDS["drawing"].all(() => true).length);
        const started = Date.now();
        for (let i = 0; i < 50; i++) press("ArrowUp");
        say(location.hash); say((Date.now() - started) / 50);
    """)
    assert nodes < 1500 and moved == f"#{len(data_of(large())['rows']) - 51}" and milliseconds < 100


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium here: the page is not looked at")
def test_a_browser_shows_the_failing_end_without_a_word_of_complaint(tmp_path):
    told = failing()
    path = tmp_path / "page.html"
    path.write_text(page_of(told))
    result = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--dump-dom",
                             f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", f"file://{path}"],
                            capture_output=True, text=True, timeout=120)
    body = result.stdout.partition('<script id="data"')[0]
    assert result.returncode == 0 and "CONSOLE" not in result.stderr, result.stderr[-2000:]
    assert "was told: committed" in body and 'class="failing"' in body and "Here it fails." in body
    rect = re.search(r'<rect x="0" y="([\d.]+)" width="[\d.]+" height="[\d.]+" class="failing"', body)
    assert 0 < float(rect[1]) < float(re.search(r'<svg id="drawing" height="([\d.]+)"', body)[1])
