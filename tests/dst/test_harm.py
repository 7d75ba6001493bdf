"""A run that leaves the model also reports whether its callers came to harm; every way to run it again reports the same."""

import json
import re

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.bundle import read
from highwater.dst.harm import callers, harmed, without_the_model
from highwater.dst.run_spec import Run
from highwater.dst.sim.choose import Lenient
from highwater.dst.simulate import simulate
from highwater.dst.zoo import build_of
from highwater.gate.exits import of_kinds

MUTANT = "latest_deleted"
BUILD = build_of(MUTANT, "sequenced_metadata_boundary")
UNHARMED, HARMED = 8, 10  # seeds


def test_the_same_choices_are_run_to_the_end():
    for seed in (1, UNHARMED, HARMED):
        outcome = simulate(Run(seed), BUILD)
        found = without_the_model(outcome, BUILD)
        assert outcome.kind == "refinement" and found.tape[:len(outcome.tape)] == outcome.tape
        assert len(found.events) > len(outcome.events)


def test_harm_is_what_the_history_says():
    assert "nobody came to harm" in callers(simulate(Run(UNHARMED), BUILD), BUILD)
    assert "came to harm: history:nothing left: there is no file left" in callers(simulate(Run(HARMED), BUILD), BUILD)


def test_other_failures_and_good_runs_say_nothing_more():
    lied = build_of("reported_though_refused", "sequenced_metadata_boundary")
    outcome = simulate(Run(1), lied)
    assert outcome.kind == "safety" and callers(outcome, lied) == "" == callers(simulate(Run(1)), None)


def test_a_tape_says_what_its_seed_says():
    outcome = simulate(Run(HARMED), BUILD)
    again = simulate(Run(HARMED, strategy=outcome.strategy), BUILD, tape=outcome.tape)
    assert callers(again, BUILD) == callers(outcome, BUILD)


def test_a_tape_that_is_no_seeds_is_run_to_the_end_too():
    other = simulate(Run(HARMED, strategy="times"), BUILD, chooser=Lenient(HARMED, simulate(Run(UNHARMED), BUILD).tape))
    if other.kind == "refinement":
        assert without_the_model(other, BUILD).tape[:len(other.tape)] == other.tape
    assert other.kind == "refinement" and callers(other, BUILD).startswith("Callers: ")


def test_every_verb_says_it(tmp_path):
    line = callers(simulate(Run(HARMED), BUILD), BUILD)
    kept = tmp_path / "kept"
    for arguments in (["run", "--seed", HARMED, "--mutant", MUTANT, "--out", kept], ["replay", HARMED, "--mutant", MUTANT],
                      ["replay", kept], ["explain", kept]):
        result = CliRunner().invoke(app, ["dst", *map(str, arguments)])
        assert line in result.output.splitlines() and result.exit_code == of_kinds(["refinement"]), arguments
    assert line in (kept / "report.txt").read_text().splitlines()


# --- shrinking


def ran(*arguments: object):
    return CliRunner().invoke(app, ["dst", *map(str, arguments)])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle with a shrunk run that harms, of a run that leaves the model."""
    folder = tmp_path_factory.mktemp("harm") / "bundle"
    result = ran("shrink", HARMED, "--mutant", MUTANT, "--harm", "--budget", 400, "-o", folder)
    assert result.exit_code == 0 and "replays strictly in a fresh process" in result.output, result.output
    return folder


@pytest.mark.parametrize("kind, signature, expected", [
    ("safety", "told:committed", True), ("safety", "call:commit Committed", True), ("safety", "history:lost update", True),
    ("safety", "mine: lost", True), ("", "", False), ("refinement", "refinement:Writer.Put", False),
    ("liveness", "liveness:Writer", False), ("safety", "safety:AckdIsKept", False), ("safety", "exception:KeyError", False),
    ("safety", "script:two_writers", False), ("safety", "script", False), ("nondeterminism", "nondeterminism:tape", False)])
def test_harm_is_a_false_response_or_history(kind, signature, expected):
    outcome = simulate(Run(1))._replace(kind=kind, signature=signature)
    assert (harmed(outcome, None) is outcome) == expected


def test_exception_of_the_implementation_is_no_harm():
    outcome = simulate(Run(3), BUILD)
    assert without_the_model(outcome, BUILD).signature.startswith("exception:")
    assert callers(outcome, BUILD).startswith("Callers: did not get on: exception:")


def test_shrink_keeps_the_harm(bundle):
    saved, whole = read(bundle), without_the_model(simulate(Run(HARMED), BUILD), BUILD)
    small = simulate(saved.run, tape=saved.tape)
    assert saved.shrunk and not saved.run.by_model and (small.kind, small.signature) == (whole.kind, whole.signature)
    assert small.requests < whole.requests / 2
    assert read(bundle, shrunk=False).run.by_model


def test_shrunk_harm_is_replayed_and_explained(bundle, tmp_path):
    for verb in ("replay", "explain"):
        result = ran(verb, bundle)
        assert result.exit_code == of_kinds(["safety"]), result.output
        assert "there is no file left" in result.output
        assert re.search(r"\nEvent \d+ is the first step that the model forbids:\n  Collector#", result.output)
        assert "could do here" not in result.output.partition("the first step")[0]
        assert f"highwater dst replay {bundle} --shrunk" in result.output
    assert ran("timeline", bundle, "-o", tmp_path / "x.html").exit_code == 0
    html = (tmp_path / "x.html").read_text()
    data = json.loads(html.partition('<script id="data" type="application/json">')[2].partition("</script>")[0])
    forbidden = next(number for number, row in enumerate(data["rows"]) if row["state"] is None)
    assert min(data["failing"]) > forbidden
    assert [why for number, _, why in data["causes"] if number == forbidden][-1].startswith("the model forbids it")
    assert "to its end, judged by the callers" in data["facts"] and "no file left" in data["story"][0][1]


def test_shrink_without_harm_says_that_the_run_is_cut(tmp_path):
    result = ran("shrink", HARMED, "--mutant", MUTANT, "--budget", 20, "-o", tmp_path / "b")
    line = "the run is cut at the first step that the model forbids; --harm keeps what harms a caller or reader"
    assert result.exit_code == 0 and line in result.output
    for name in ("shrunk.report.txt", "shrunk.timeline.html"):
        assert "cut at the first step that the model forbids" in (tmp_path / "b" / name).read_text()
    told = ran("shrink", 1, "--mutant", "reported_though_refused", "--budget", 20)
    assert told.exit_code == 0 and "is cut" not in told.output


def test_shrink_with_harm_refuses_a_run_that_harms_nobody():
    for mutant, seed in ((MUTANT, UNHARMED), (MUTANT, 3)):
        result = ran("shrink", seed, "--mutant", mutant, "--harm")
        assert result.exit_code == 2 and f"{seed} harms no caller or reader" in result.output, result.output


def test_shrink_with_harm_of_a_false_response_is_as_without():
    arguments = ("shrink", 1, "--mutant", "reported_though_refused", "--budget", 20)
    with_harm, without = (ran(*arguments, *more).output for more in (["--harm"], []))
    assert with_harm.replace(" --harm", "") == without


@pytest.mark.parametrize("value", [0, 1, None, "no"])
def test_tape_with_another_judge_is_refused(bundle, tmp_path, value):
    tape = json.loads((bundle / "shrunk.tape.json").read_text())
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "by_model": value}))
    result = ran("replay", tmp_path / "tape.json")
    assert result.exit_code == 2 and "by_model" in result.output


def test_shrunk_harm_shows_what_became_of_an_acknowledged_write(tmp_path):
    assert ran("shrink", 1, "--mutant", MUTANT, "--harm", "--budget", 900, "-o", tmp_path / "b").exit_code == 0
    text = ran("explain", tmp_path / "b").output
    told = re.search(r"\n  (\d+) .* was told: committed 0.0 id 2 .* fails\n", text)
    assert told and re.search(rf" delete id 2 .* it deletes what {told[1]} names", text), text
    assert "the model forbids it: Collector#0" in text and "At event" not in text
