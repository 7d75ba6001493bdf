"""One request for runs, from the command line to a row: what it resolves to, what it refuses, and the command it prints."""

import pytest

from highwater.dst.run_spec import Run, RunSpec, fields_of, run_of
from highwater.dst.scenarios import DEFAULT, STEMS, named, resolved
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import NONE


@pytest.mark.parametrize("protocol, scenario, stem", [
    (None, None, DEFAULT), ("log_gc", None, "log_gc"), (None, "known_latest", "known_latest"), (None, "log_gc", "log_gc"),
    (DEFAULT, "update_ids", "update_ids"), (DEFAULT, DEFAULT, DEFAULT)])
def test_a_scenario_is_found(protocol, scenario, stem):
    assert resolved(protocol, scenario) == stem


@pytest.mark.parametrize("protocol, scenario, says", [
    ("nothing", None, "no protocol 'nothing'; there are: baseline, checkpoints, clones, compaction_queue, consistent_read, "),
    (None, "nothing", "no scenario 'nothing'; there are: baseline, checkpoints, clones, compaction_queue, consistent_read, "),
    ("log_gc", "nothing", "there is no scenario 'nothing'"),
    ("known_latest", None, f"--protocol {DEFAULT} --scenario known_latest"),
    ("log_gc", "known_latest", f"is not a scenario of log_gc, but of {DEFAULT}; log_gc has: log_gc")])
def test_what_there_is_not_is_refused_with_what_there_is(protocol, scenario, says):
    with pytest.raises(LookupError, match=says):
        resolved(protocol, scenario)


@pytest.mark.parametrize("stem", STEMS)
def test_the_command_names_the_protocol_and_what_was_asked_for(stem):
    words = RunSpec(stem, "m", "pct", "gcs", ("writers=2",), ("late=9",)).command(7).split()
    options = dict(zip(words[3::2], words[4::2]))
    assert resolved(options["--protocol"], options.get("--scenario")) == stem
    assert ("--scenario" in options) == bool(named(stem).model)
    assert words[-10:] == ["--mutant", "m", "--strategy", "pct", "--profile", "gcs", "--shape", "writers=2",
                           "--fault", "late=9"]
    assert Run(7, stem).command() == RunSpec(stem).command(7)


def test_a_run_resolves_what_is_set_and_leaves_the_rest_to_the_seed():
    assert RunSpec().at(5) == Run(5)
    run = RunSpec("log_gc", "no_check", shape=("appenders=3",), faults=("late=9",)).at(5)
    drawn = simulate(Run(5, "log_gc")).shape
    assert run.shape == drawn._replace(appenders=3) and run.weights == NONE._replace(late=9)
    assert run_of(fields_of(run)) == run and list(fields_of(run)) == [
        "scenario", "seed", "mutant", "strategy", "shape", "weights"]  # the order of a bundle's files
    assert simulate(Run(5, "log_gc", "naive")).digest != simulate(Run(5, "log_gc")).digest


@pytest.mark.parametrize("spec, says", [
    (RunSpec(mutant="x"), "there is no mutant 'x'"), (RunSpec(profile="x"), "there is no profile 'x'"),
    (RunSpec(strategy="x"), "there is no strategy 'x'"), (RunSpec(shape=("x=1",)), "--shape: x=1: there is no 'x'"),
    (RunSpec(faults=("late=1001",)), "--fault: 1001 of 1,000"), (RunSpec("x"), "there is no scenario 'x'")])
def test_what_cannot_be_run_is_refused(spec, says):
    with pytest.raises((LookupError, ValueError), match=says):
        spec.at(0)
