"""The report of campaigns agrees with the rows, calls no failure safe, and shows the verdict first.

In reading order: intervals; sums; the verdict; the page; many campaigns; earlier campaigns, and the bundles of triage;
unfinished campaigns; refusals.
"""

import os
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.campaign.folder import VERSION, Asked, opened, read_json, write_json
from highwater.dst.campaign.rows import SCHEMA, run_range, table_of
from highwater.dst.campaign.what import Campaign, CampaignError, Refused, Work, campaign_of
from highwater.dst.search.reached import bits
from highwater.dst.version import CODE
from highwater.gate import exits
from highwater.reports.campaign import figures as campaign_figures
from highwater.reports.campaign.figures import Growth, cells_of, figures, folders
from highwater.reports.campaign.numbers import at_most, between, digits, lasting, share, short, sure, wilson
from highwater.reports.campaign.plot import growth_plot, ticks
from highwater.reports.campaign.report import report
from highwater.reports.campaign.sections import level
from highwater.reports.campaign.verdict import few, sureness, untried, untried_of_many, verdict
from highwater.reports.markup import Html, el, joined

ROOT = Path(__file__).resolve().parents[2]
REAL = campaign_of("sequenced_write")
NASTY = "<script>alert('&')</script>\" [bold]"


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["campaign", *map(str, words)])
    return result.exit_code, result.output


def row_of(seed: int, campaign: Campaign = REAL, **fields: object) -> tuple:
    usual = {"seed": seed, "scenario": campaign.scenario, "mutant": campaign.mutant, "strategy": "times", "profile": "s3",
             "kind": "", "signature": "", "message": "", "digest": "d", "requests": 10, "steps": 20, "virtual_ms": 30,
             "shape": "", "swarm": [], "faults": [], "reached": 0, "model_states": [], "model_steps": [],
             "cpu_us": 1000, "output": ""}
    return tuple((usual | fields)[name] for name in SCHEMA.names)


def failed(seed: int, kind: str = "safety", signature: str = "told:committed", **fields: object) -> tuple:
    return row_of(seed, kind=kind, signature=signature, message=f"why {seed}", **fields)


def made(out: Path, rows: list[tuple], campaign: Campaign = REAL, asked: int = 0, waves: int = 1, **more: object) -> Path:
    """A campaign's folder, with these rows, some in each wave. `asked`: seeds; as many as there are rows, if not given."""
    size = max(1, -(-len(rows) // waves))
    for number in range(0, len(rows), size):
        wave = out / "rows" / f"wave={number // size}"
        wave.mkdir(parents=True)
        pq.write_table(table_of(rows[number:number + size]), wave / "rows.parquet")
    out.mkdir(parents=True, exist_ok=True)
    wanted = Asked((0, asked or len(rows)))._replace(**more)
    write_json(out / "campaign.json", {"version": VERSION, **campaign._asdict(), "asked": wanted._asdict()})
    return out


# --- intervals

def test_intervals():
    """Wilson's: the shares from which what was seen is 1.96 standard deviations away. Of none: what gives none in 5 of 100."""
    for k, n in ((34, 3000), (1, 10), (9, 10), (500_000, 1_000_000)):
        for bound in wilson(k, n):
            assert abs(k / n - bound) == pytest.approx(1.959964 * (bound * (1 - bound) / n) ** 0.5)
    assert [round(of, 4) for of in wilson(1, 10)] == [0.0179, 0.4042]
    assert wilson(0, 0) == (0, 1) and at_most(0) == 1
    for n in (1, 10, 100_000):
        assert (1 - at_most(n)) ** n == pytest.approx(0.05)
        assert at_most(n) <= 3 / n
        assert wilson(n, n)[1] == pytest.approx(1) and wilson(0, n)[0] == pytest.approx(0)


def test_how_sure_in_words():
    assert sure(0, 100_000) == "at most 30 in a million" and sure(0, 100) == "at most 3 %"
    assert sure(0, 0) == "nothing is known"
    assert sure(34, 3000) == "0.81 to 1.6 %" and sure(2000, 2000) == "at least 99.8 %"
    assert sure(2, 1_000_000) == "0.55 to 7.3 in a million"
    assert between(0.2, 0.5) == "20 to 50 %" and share(0.0005) == "500 in a million"
    assert [digits(of) for of in (0, 0.123, 1.26, 12.6, 499.4, 12_345)] == ["0", "0.12", "1.3", "13", "499", "12,300"]
    assert [short(of) for of in (12_345, 130_000, 1.2e6, 2e9)] == ["12,345", "130 k", "1.2 M", "2.0 G"]
    assert [lasting(of) for of in (12, 300, 9000)] == ["12 s", "5 min", "2.5 h"]


# --- sums

@pytest.fixture(scope="module")
def real() -> pa.Table:
    """Rows of 90 seeds of a mutant, and of one that nobody could judge."""
    return run_range(Work(campaign_of("sequenced_metadata_boundary", "age_ignored"), 60), (0, 90))


@pytest.mark.parametrize("sizes", [(100_000, 4_000_000), (7, 3)], ids=["at once", "in pieces"])
def test_sums_are_those_of_the_rows(real, tmp_path, monkeypatch, sizes):
    monkeypatch.setattr(campaign_figures, "AT_ONCE", sizes[0])
    monkeypatch.setattr(campaign_figures, "UNION", sizes[1])
    rows, campaign = real.to_pylist(), campaign_of("sequenced_metadata_boundary", "age_ignored")
    f = figures(made(tmp_path, [tuple(row.values()) for row in rows], campaign, waves=4))
    assert (f.done, f.left, f.requests, f.steps, f.virtual_ms) == (
        90, 0, *(sum(row[name] for row in rows) for name in ("requests", "steps", "virtual_ms")))
    cells = Counter((row["strategy"], row["profile"]) for row in rows)
    wrong = Counter((row["strategy"], row["profile"]) for row in rows if row["kind"])
    assert [cell[:4] for cell in f.cells] == [(*key, count, wrong[key]) for key, count in sorted(cells.items())]
    assert sum(cell.cpu_us for cell in f.cells) == sum(row["cpu_us"] for row in rows)
    bad = [row for row in rows if row["kind"]]
    failure, = f.failures
    assert failure[:5] == ("safety", "history:too young", len(bad), bad[0]["seed"], bad[0]["message"])
    assert failure.replay == "highwater dst run --protocol sequenced_metadata_boundary --seed 23 --mutant age_ignored"
    assert sum(failure.strategies.values()) == len(bad)
    hits = {name: [row["seed"] for row in rows if row["reached"] & bit] for name, bit in bits().items()}
    assert f.witnesses == {name: (len(seeds), min(seeds, default=-1)) for name, seeds in hits.items()}
    times = Counter()
    for row in rows:
        times.update(dict(row["faults"]))
    assert {" ".join(key): count for key, count in f.faults.items()} == times
    for growth, name in ((f.states, "model_states"), (f.model_steps, "model_steps")):
        seen = Counter(of for row in rows for of in row[name])
        late = {of for row in rows[81:] for of in row[name]} - {of for row in rows[:81] for of in row[name]}
        sketched = sum(bool(row[name]) for row in rows)  # few samples of a short run may all miss
        assert growth.total == growth.points[-1][1] == 8 * len(seen)
        assert f.sketched == sum(bool(row["model_states"]) for row in rows)
        assert growth.last_tenth == pytest.approx(len(late) / len(seen))
        assert growth.next_run == pytest.approx(8 * sum(1 for count in seen.values() if count == 1) / sketched)
        for at, count in growth.points:
            assert count == 8 * len({of for row in rows[:at] for of in row[name]})


def test_a_seed_with_two_rows_is_told(tmp_path):
    out = made(tmp_path / "out", [row_of(0), row_of(1), row_of(1)], waves=3, asked=2)
    with pytest.raises(CampaignError, match="seed 1 is in .*wave=1 and .*wave=2: keep one of them"):
        figures(out)
    code, said = called("status", out)
    assert code == exits.HARNESS and "more than one row for a seed" in said


def test_seeds_a_second_leave_pauses_out(tmp_path):
    out = made(tmp_path, [row_of(seed) for seed in range(40)], waves=4)
    for wave, ended_s in enumerate((100, 102, 1000, 1002)):  # between the second and the third nobody ran it
        os.utime(out / "rows" / f"wave={wave}", (ended_s, ended_s))
    f = figures(out)
    assert f.seeds_per_s == 5 and f.ended_s == 1002


def test_what_could_befall_whom():
    cells = cells_of({("timeout", "get", "later"): 3, ("429", "create", "never"): 2})
    assert cells["timeout", "get", "later"] == 3 and cells["crash", "create", "applied"] == 0
    assert ("409", "get", "never") not in cells and ("429", "get", "never") not in cells
    assert cells["409", "create", "never"] == 0
    assert ("503", "get", "later") not in cells and cells_of({}) == {}


def test_levels_off():
    def growth(last_tenth: float) -> Growth:
        return Growth([(0, 0), (100, 80)], 80, last_tenth, 1.0)

    assert [level(growth(of)) for of in (0.1, 0.04, 0.005)] == ["still growing", "slowing", "levelled off"]
    assert level(Growth([], 0, 0, 0)) == "not sampled"


def test_the_plot_is_of_its_points():
    states = Growth([(0, 0), (50, 40), (100, 80)], 80, 0.1, 1)
    drawn = growth_plot({"states": states, "steps": Growth([(0, 0), (100, 160)], 160, 0, 1)})
    lines = [[tuple(map(float, point.split(","))) for point in line.split()] for line in re.findall(r'points="([^"]+)"', drawn)]
    assert len(lines) == 2 and all(x < after and y >= below for line in lines for (x, y), (after, below) in pairwise(line))
    assert lines[0][1][1] == pytest.approx((lines[0][0][1] + lines[0][2][1]) / 2, abs=0.1)  # half of the states, half way up
    assert "80 states" in drawn and "160 steps" in drawn
    assert "Nothing was reached" in growth_plot({"states": Growth([(0, 0)], 0, 0, 0)})
    assert ticks(100) == [0, 20, 40, 60, 80, 100] and ticks(7) == [0, 2, 4, 6] and ticks(1) == [0, 1]
    assert all(len(ticks(most)) <= 6 for most in range(1, 3000))


# --- the verdict

MUTANT = campaign_of("sequenced_write", "overwrites")
GOOD = [row_of(seed) for seed in range(8)]


@pytest.mark.parametrize("rows, campaign, asked, tone, answer, sure_", [
    (GOOD, REAL, 8, "good", "No failure was found", "At most 31 % of runs fail"),
    (GOOD, REAL, 9, "open", "No failure so far", "At most 31 % of runs fail"),
    ([], REAL, 9, "open", "Nothing has run yet", "Not at all"),
    ([*GOOD, failed(8)], REAL, 9, "bad", "Not safe", "2 to 43 % of runs fail"),
    ([*GOOD, failed(8, "refinement")], REAL, 20, "bad", "Not safe", "2 to 43 % of runs fail"),
    ([*GOOD, failed(8, "liveness")], REAL, 9, "bad", "A client makes no progress", "2 to 43 % of runs fail"),
    ([*GOOD, failed(8, "liveness"), failed(9)], REAL, 10, "bad", "Not safe", "5.7 to 51 % of runs fail"),
    *(([*GOOD, failed(8, kind)], REAL, 9, "open", "No failure, but some runs were not judged", "At most 31 % of runs fail")
      for kind in ("timeout", "memory", "death", "harness", "nondeterminism")),
    ([*GOOD, failed(8, "death"), failed(9)], REAL, 10, "bad", "Not safe", "2 to 43 % of runs fail"),
    (GOOD, MUTANT, 8, "open", "Known-bad, and not caught", "At most 31 % of runs fail"),
    ([*GOOD, failed(8, "death")], MUTANT, 9, "open", "Known-bad, and not caught", "At most 31 % of runs fail"),
    ([*GOOD, failed(8)], MUTANT, 9, "found", "Known-bad, and caught", "2 to 43 % of runs fail"),
])
def test_verdict(tmp_path, rows, campaign, asked, tone, answer, sure_):
    f = figures(made(tmp_path, rows, campaign, asked))
    assert verdict(f)[::2] == (tone, answer) and sureness(f)[0] == sure_


def test_what_no_campaign_tried_is_told_of_many_and_mutants_last(tmp_path):
    """A store or a fault that one of them met was tried."""
    one = made(tmp_path / "a", [row_of(0, profile="gcs", faults=[("crash create never", 1)])])
    other = made(tmp_path / "b", [row_of(0, faults=[("503 get never", 1)])], REAL._replace(scenario="baseline"))
    said = untried_of_many([figures(one), figures(other)])
    names = dict(said)
    drawn, asked = (line for words, line in said if words.endswith(" stores"))
    assert drawn.startswith("stores that no run used: azure, ") and not {"gcs", "s3"} & set(re.split(r"[ ,:]+", drawn))
    assert asked.startswith("stores that no run draws (--profile chooses one): s3express, minio-2024-03, ")
    assert names["3 kinds of fault"] == "kinds of fault that never occurred: timeout, 409, 403"
    assert said[-1][0].endswith("mutants") and said[0][0].endswith("scenarios")


def test_names_are_cut_only_where_many_are_left():
    names = [f"n{of}" for of in range(14)]
    assert few(names[:13]) == ", ".join(names[:13]) and few(names).endswith("n11 and 2 more, below")


def test_a_failure_that_only_the_summary_has_is_not_green(tmp_path):
    """A sample of seeds is run again in other processes; what that finds is of no row."""
    out = made(tmp_path, GOOD)
    other = {"kind": "nondeterminism", "signature": "nondeterminism:processes", "count": 1, "smallest_seed": 0,
             "message": "choice 3", "replay": "highwater dst doctor"}
    write_json(out / "summary.json", {"seeds": "0:8", "failures": [other], "reached": {}, "never": []})
    f = figures(out)
    assert verdict(f).tone == "open" and f.failures[0].replay == "highwater dst doctor"


def test_what_was_not_tried(tmp_path):
    names = bits("sequenced_write")
    reached = sum(names.values()) - names["fault: crash"]
    out = made(tmp_path, [row_of(seed, reached=reached, model_states=[8 * seed], faults=[("timeout get later", 1)])
                          for seed in range(0, 40)], asked=50)
    said = dict(untried(figures(out)))
    assert said["10 seeds"] == "10 of 50 seeds have not run yet"
    assert said["1 witness"] == f"1 of {len(names)} witnesses were never reached: fault: crash"
    assert said["2 combinations with a fault"] == (
        "2 of 8 combinations of fault, operation and phase never occurred, although the fault did: "
        "timeout get applied, timeout get never")
    assert said["4 kinds of fault"] == "kinds of fault that never occurred: crash, 503, 409, 403"
    assert said["3 strategies"] == "strategies that no run used: random, pct, pos"
    assert "10 % of the states reached were new in the last tenth of 40 seeds; as many seeds again would" in said["more states"]
    assert [words.split()[1] for words in said][:5] == ["seeds", "stores", "kinds", "undrawn", "combinations"]


# --- the page

class Parsed(HTMLParser):
    """Elements and texts; every element must be closed by its own end."""

    def __init__(self, page: str):
        super().__init__()
        self.open, self.tags, self.texts, self.links = [], Counter(), [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)


def page_of(*given: Path, against: tuple[Path, ...] = ()) -> Parsed:
    return Parsed(report(list(given), list(against), given[0] / "report.html").text)


def test_texts_are_texts():
    assert el("p", NASTY, el("b", "x"), title=NASTY) == (
        '<p title="&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;&quot; [bold]">'
        "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;&quot; [bold]<b>x</b></p>")
    assert el("a", href="#c", class_="x", open=True, style=None, text_anchor=False) == '<a href="#c" class="x" open></a>'
    assert joined("<", Html("<br>"), 3) == "&lt;<br>3" and el("line", x1=1) == '<line x1="1"/>'


def test_nothing_that_a_run_says_is_markup(tmp_path):
    nasty = {"signature": NASTY, "message": NASTY, "strategy": NASTY, "profile": NASTY, "faults": [(f"{NASTY} b c", 1)]}
    row = row_of(8, kind="safety", **{**nasty, "faults": [("<script>x</script> <b> <i>", 1)]})
    page = page_of(made(tmp_path / "a <b>", [*GOOD, row]))
    assert page.tags["script"] == 0 and page.tags["b"] == page.tags["i"] == 0
    assert page.texts.count(NASTY) >= 4 and "<script>x</script>" in page.texts
    many = page_of(tmp_path / "a <b>", made(tmp_path / "<i>", GOOD))
    assert many.tags["script"] == 0 and many.tags["b"] == many.tags["i"] == 0


def test_the_page_needs_nothing_else_and_is_the_same_again(tmp_path):
    out = made(tmp_path, [*GOOD, failed(8)])
    text = report([out], [], out / "report.html").text
    assert text == report([out], [], out / "report.html").text
    assert Parsed(text).links == [] and "@import" not in text and "url(" not in text
    assert "prefers-color-scheme: dark" in text


def test_page_css_hides_none_of_it(tmp_path):
    """The style of the other pages comes first, and leaves some things out where the window is narrow."""
    text = report([made(tmp_path, [*GOOD, failed(8)])], [], tmp_path / "report.html").text
    classes = {of for names in re.findall(r'class="([^"]+)"', text) for of in names.split()}
    rules = re.findall(r"([^{}]+)\{[^}]*display: none", (ROOT / "highwater" / "reports" / "assets" / "page.css").read_text())
    hidden = {of for selectors in rules for of in re.findall(r"\.(\w+)", selectors)}
    assert len(classes) > 15 and "wide" in hidden and not classes & hidden


def test_the_command_writes_it_in_the_folder_and_resume_does_not_mind(tmp_path):
    out = made(tmp_path / "out", GOOD)
    code, text = called("report", out)
    assert code == 0 and "report.html" in text and "No failure was found" in (out / "report.html").read_text()
    with opened(out, REAL):
        pass
    assert called("report", out, "-o", tmp_path / "new" / "x.html")[0] == 0 and (tmp_path / "new" / "x.html").exists()


# --- many campaigns

def test_one_that_fails_is_seen_among_many(tmp_path):
    for number in range(12):
        made(tmp_path / f"c{number:02}", [row_of(seed) for seed in range(50)])
    made(tmp_path / "c05x", [row_of(seed, MUTANT) for seed in range(49)] + [failed(49)], MUTANT)
    assert len(folders([tmp_path])) == 13
    page = report([tmp_path], [], tmp_path / "report.html").text
    first = re.findall(r"<tr class=\"(\w+)\">(.*?)</tr>", page)[0]
    assert first[0] == "found" and MUTANT.mutant in first[1] and "1/50" in first[1] and 'class="hit"' in first[1]
    assert page.count('class="hit"') < 10 and page.index("c05x") < page.index("c00")
    top = page[page.index("Is it safe?"):page.index("How sure")]
    assert MUTANT.mutant in top and "1 of 1 known-bad" in top and "No failure in 12 implementations" in top
    made(tmp_path / "c06x", [*GOOD, failed(8)])
    page = report([tmp_path], [], tmp_path / "report.html").text
    assert "Not safe: 1 of 13" in page and page.index("c06x") < page.index("c05x")


def test_strategies_are_columns_of_the_table(tmp_path):
    made(tmp_path / "a", [row_of(0, strategy="pct"), failed(1, strategy="pct"), row_of(2, strategy="times")])
    made(tmp_path / "b", [row_of(0, strategy="pos")])
    page = report([tmp_path], [], tmp_path / "report.html").text
    assert page.index("<th>verdict</th>") < page.index("<th>scenario</th>")  # seen first where the window is narrow
    head = re.search(r"<th>scenario</th>(.*?)</tr>", page)[1]
    assert re.findall(r"<th>(pct|pos|times)</th>", head) == ["pct", "pos", "times"]
    cells = re.search(r"<tr class=\"bad\">(.*?)</tr>", page)[1]
    assert re.findall(r">(\d/\d|·)<", cells) == ["1/3", "1/2", "·", "0/1"]


# --- earlier campaigns, and what triage kept

def test_new_known_gone(tmp_path):
    earlier = made(tmp_path / "earlier", [failed(0, signature="told:x"), failed(1, signature="told:y")])
    now = made(tmp_path / "now", [failed(0, signature="told:x"), failed(1, signature="told:z")])
    page = report([now], [earlier], now / "report.html").text
    tags = re.findall(r"<h3>(told:.)<span class=\"chip\">safety</span><span class=\"tag \w+\">(\w+)</span>", page)
    assert tags == [("told:x", "known"), ("told:z", "new")]
    assert "Failures of the earlier campaign that are gone: told:y" in page
    unfinished = made(tmp_path / "unfinished", [failed(0, signature="told:x")], asked=5)
    page = report([unfinished], [tmp_path / "earlier"], tmp_path / "r.html").text
    assert "Failures of the earlier campaign that are not seen yet: told:y" in page
    other = made(tmp_path / "other", [row_of(0, MUTANT)], MUTANT)
    assert called("report", now, "--against", other) == (
        exits.BAD_INPUT, f"{other} has another scenario or mutant than {now}, so nothing can be compared\n")


def test_a_bundle_is_shown_linked_and_replayed(tmp_path):
    out = made(tmp_path / "my runs", [*GOOD, failed(8)])
    assert "highwater campaign triage ." in report([out], [], out / "report.html").text
    (out / "bundles" / "told").mkdir(parents=True)
    (out / "bundles" / "told" / "shrunk.report.txt").write_text("because <of that>\n\nReplay: in this folder: highwater x")
    (out / "bundles" / "told" / "shrunk.timeline.html").write_text("<title>\"it\" & more</title><script>x</script>")
    write_json(out / "triage.json", {"failures": [{"signature": "told:committed", "state": "new", "bundle": "bundles/told",
                                                   "requests": "9 -> 3"}]})
    page = Parsed(text := report([out], [], tmp_path / "elsewhere" / "report.html").text)
    assert "because <of that>\n\nReplay: in the bundle's folder: highwater x" in page.texts
    assert page.tags["script"] == 0 and page.tags["iframe"] == 1
    assert 'srcdoc="&lt;title&gt;&quot;it&quot; &amp; more' in text and 'sandbox="allow-scripts"' in text
    assert page.links == ["../my runs/bundles/told/shrunk.timeline.html"]
    assert "highwater dst replay '../my runs/bundles/told' --shrunk" in page.texts
    moved = Parsed(report([out], [], out / "report.html").text)
    assert "highwater dst replay bundles/told --shrunk" in moved.texts and str(tmp_path) not in " ".join(
        text for text in moved.texts if text.startswith("highwater"))
    assert "highwater dst run --protocol sequenced_write --seed 8" in page.texts


# --- campaigns that are not done

def test_a_running_one_and_a_stopped_one(tmp_path):
    out = made(tmp_path, GOOD, asked=100)
    assert "highwater campaign resume ." in page_of(out).texts
    with opened(out, REAL):
        text = " ".join(page_of(out).texts)
    assert "running; code" in text and "campaign resume" not in text and "92 of 100 seeds have not run yet" in text


def test_none_has_run_yet(tmp_path):
    out = made(tmp_path / "out", [], asked=5)
    for _ in range(2):
        assert "Nothing has run yet" in page_of(out).texts
        (out / "rows").mkdir(exist_ok=True)


def test_one_that_stopped_at_its_failures_is_done(tmp_path):
    out = made(tmp_path, [*GOOD, failed(8)], asked=100, stop_after=1)
    write_json(out / "summary.json", {"seeds": "0:9", "failures": [], "reached": {}, "never": []})
    assert figures(out).left == 0 and "up to 1 failures" in " ".join(page_of(out).texts)


def test_what_ran_beyond_the_last_failure_that_was_asked_for_is_not_told_of(tmp_path):
    """How much that is depends on how the seeds were cut."""
    out = made(tmp_path, [*GOOD, failed(8), row_of(9), failed(10)], asked=100, stop_after=1)
    write_json(out / "summary.json", {"seeds": "0:9", "failures": [], "reached": {}, "never": []})
    f = figures(out)
    assert (f.done, f.failed, f.left) == (9, 1, 0)
    code, said = called("status", out)
    assert code == 0 and "done; 9 have rows, 0 are left; 1 failed" in said


def test_rows_that_are_lost_after_the_summary_are_told_everywhere(tmp_path):
    out = made(tmp_path / "a", GOOD, waves=2)
    write_json(out / "summary.json", {"seeds": "0:8", "failures": [], "reached": {}, "never": []})
    assert called("status", out)[0] == called("report", out)[0] == 0
    shutil.rmtree(out / "rows" / "wave=1")
    for verb in ("status", "report", "triage"):
        code, said = called(verb, out)
        assert code == exits.HARNESS and "lost the rows of 4 seeds since" in said and f"campaign resume {out}" in said


def test_campaigns_are_found_however_deep(tmp_path):
    made(tmp_path / "nightly" / "2026-11-22" / "a", GOOD)
    made(tmp_path / "b", GOOD)
    assert folders([tmp_path]) == [tmp_path / "b", tmp_path / "nightly" / "2026-11-22" / "a"]


def test_of_other_code_witnesses_are_told_as_it_named_them_or_not_at_all(tmp_path):
    old = REAL._replace(code="0" * 16)
    out = made(tmp_path, [row_of(0, reached=1)], old)
    assert figures(out).witnesses is None and "witnesses" in dict(untried(figures(out)))
    reached = {"seen: it": {"runs": 1, "smallest_seed": 0}}
    write_json(out / "summary.json", {"seeds": "0:1", "failures": [], "reached": reached, "never": ["seen: that"]})
    assert figures(out).witnesses == {"seen: it": (1, 0), "seen: that": (0, -1)}
    assert "0" * 16 + ", not the current code" in page_of(out).texts


# --- refusals

def test_bad_input_is_one_line(tmp_path):
    assert called("report", tmp_path / "x") == (exits.BAD_INPUT, f"{tmp_path / 'x'}: there is no such folder\n")
    code, text = called("report", tmp_path)
    assert code == exits.BAD_INPUT and "holds none" in text
    out = made(tmp_path / "out", GOOD)
    code, text = called("report", out, "-o", out / "campaign.json" / "x.html")
    assert code == exits.BAD_INPUT and "cannot be written" in text
    label = read_json(out / "campaign.json")
    asked = label["asked"]
    for wrong in ({"asked": asked | {"seeds": [0, "q"]}}, {"asked": asked | {"seeds": [5, 5]}}, {"strategy": 3}, {"asked": []},
                  {"asked": asked | {"stop_after": None}}, {"shape": 3}):
        write_json(out / "campaign.json", label | wrong)
        for verb in ("report", "status", "resume", "triage"):
            code, text = called(verb, out)
            assert code == exits.BAD_INPUT and "campaign.json is damaged (" in text and len(text.strip().splitlines()) == 1
    write_json(out / "campaign.json", {"version": 1})
    code, text = called("report", out)
    assert code == exits.BAD_INPUT and "is of version 1" in text


def test_a_file_that_is_cut_short_is_named(tmp_path):
    out = made(tmp_path / "out", GOOD)
    (file,) = out.glob("rows/*/*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    code, text = called("report", out)
    assert code == exits.HARNESS and "rows.parquet cannot be read" in text and "campaign resume" in text
    with pytest.raises(Refused):
        folders([tmp_path / "nothing"])


SUMMARY = '{"seeds": "0:8", "failures": [], "reached": {}, "never": []}'


@pytest.mark.parametrize("name, text", [("triage.json", "[]"), ("triage.json", '{"failures": [1]}'), ("triage.json", "{"),
                                        ("triage.json", '{"failures": [{"state": "new"}]}'), ("summary.json", "{}"),
                                        ("summary.json", SUMMARY.replace("0:8", "all")),
                                        ("summary.json", "[1]")])
def test_a_damaged_file_is_told_with_what_mends_it(tmp_path, name, text):
    """And not taken for one that is not there."""
    out = made(tmp_path / "out", [*GOOD, failed(8)])
    (out / name).write_text(text)
    code, said = called("report", out)
    assert code == exits.HARNESS and f"{name} is damaged" in said and "writes it anew" in said
    assert not (out / "report.html").exists()
    if name == "summary.json":
        for verb in ("status", "triage"):
            code, said = called(verb, out)
            assert code == exits.HARNESS and "summary.json is damaged" in said


def test_one_that_is_damaged_does_not_hide_the_others_and_nothing_is_called_safe(tmp_path):
    for name in ("a", "b"):
        made(tmp_path / name, GOOD)
    (tmp_path / "b" / "campaign.json").write_text("{")
    code, said = called("report", tmp_path)
    assert code == exits.HARNESS and "b/campaign.json is damaged" in said and "written:" in said
    page = (tmp_path / "report.html").read_text()
    assert "1 of 2 campaigns cannot be read" in page and 'class="verdict open"' in page and "campaign.json is damaged" in page
    (tmp_path / "a" / "campaign.json").write_text("{")
    code, said = called("report", tmp_path, "-o", tmp_path / "x.html")
    assert code == exits.BAD_INPUT and not (tmp_path / "x.html").exists()


def test_the_page_is_of_no_campaigns_code():
    """To mend it must not make folders ones of other code."""
    package = ROOT / "highwater"
    pages = set((package / "reports" / "campaign").glob("*.py"))
    assert len(pages) > 5 and not {path for pattern in CODE for path in package.glob(pattern)} & pages
