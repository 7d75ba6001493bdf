"""A run that leaves the model also reports whether its callers came to harm; every way to run it again reports the same."""

from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.harm import callers, without_the_model
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
