"""A shrunk run fails like the original, is no larger, and replays; it comes near to the model's shortest counterexample.

Hypothesis, which draws the tape, is held to the same."""

import re
from functools import cache
from itertools import islice
from statistics import median

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from typer.testing import CliRunner

from bench.shrinking import SHORTEST
from highwater.cli.dst import shrink as dst_shrink
from highwater.cli.main import app
from highwater.conformance.conform import model_of
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Build, Shape
from highwater.dst.search.shrink import Plan, Steered, faults, measure, shrink
from highwater.dst.sim.tapes import Played, runs
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import NONE
from highwater.model.explore.tabulated import explore
from highwater.specs.runs import rows


@cache
def failing(mutant: str, amount: int = 3) -> list[Outcome]:
    """Return the first `amount` failing runs of a mutant."""
    outcomes = (simulate(Run(seed), ZOO[mutant][1]) for seed in range(400))
    return list(islice((outcome for outcome in outcomes if outcome.kind), amount))


def ran(*arguments: str):
    return CliRunner().invoke(app, arguments)


MUTANTS = ("no_check", "check_before_create", "reported_though_refused", "one_old_writer", "cached_boundary",
           "delete_before_advance", "boundary_moves_backward", "latest_deleted", "age_ignored", "checkpoints_not_spared",
           "reads_not_checked", "lost_reply_is_conflict", "refused_is_applied_again")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_it_fails_as_before_with_less_and_replays(mutant):
    build = ZOO[mutant][1]
    for outcome in failing(mutant)[:2]:
        found = shrink(outcome, build)
        small = found.outcome
        assert (small.kind, small.signature) == (outcome.kind, outcome.signature)
        assert measure(small) <= measure(outcome) and small.requests < 20 and found.runs <= 2000
        run = Run(outcome.seed, strategy=small.strategy, shape=found.shape, weights=found.weights)
        again = simulate(run, build, tape=small.tape)
        assert (again.digest, again.signature, again.tape) == (small.digest, small.signature, small.tape)


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name in {row.id for row in rows()} | SHORTEST.keys()])
def test_it_is_as_short_as_the_models_counterexample_or_nearly(mutant):
    row = next(row for row in rows() if row.id == SHORTEST.get(mutant, mutant))
    steps = len(explore(model_of(row)).trace) - 1
    requests = [shrink(outcome, ZOO[mutant][1]).outcome.requests for outcome in failing(mutant)]
    assert len(requests) == 3 and median(requests) <= 1.5 * steps, (requests, steps)


def test_it_is_the_same_each_time_and_keeps_to_its_budget():
    outcome, build = failing("delete_before_advance")[2], ZOO["delete_before_advance"][1]
    one, two = shrink(outcome, build), shrink(outcome, build)
    assert (one.outcome.digest, one.outcome.tape, one.runs) == (two.outcome.digest, two.outcome.tape, two.runs)
    sizes = [shrink(outcome, build, budget=budget) for budget in (1, 5, 25, 60)]
    assert [found.runs for found in sizes] == [1, 5, 25, 60]
    assert all(measure(found.outcome) <= measure(outcome) for found in sizes)
    assert measure(sizes[-1].outcome) < measure(sizes[0].outcome)


def test_a_small_run_stays_as_small():
    outcome, build = failing("no_check")[0], ZOO["no_check"][1]
    once = shrink(outcome, build)
    twice = shrink(once.outcome, build, once.shape, once.weights)
    assert measure(twice.outcome) == measure(once.outcome)


def test_what_has_not_failed_is_not_shrunk():
    with pytest.raises(ValueError, match="has not failed"):
        shrink(simulate(Run(1)), ZOO["no_check"][1])


def test_another_failure_is_not_taken_for_the_same():
    """Each of this mutant's signatures keeps its own shrunk run."""
    build, by_signature = ZOO["latest_deleted"][1], {}
    for outcome in failing("latest_deleted", 15):
        by_signature.setdefault(outcome.signature, outcome)
    assert len(by_signature) >= 2
    for signature, outcome in by_signature.items():
        assert shrink(outcome, build).outcome.signature == signature


def test_events_happen_in_the_order_asked_for_as_far_as_they_can():
    shape = Shape(writers=2, commits=1, audit=False)
    order = [("Writer#1", "applied", True)] * 4 + [("Writer#0", "applied", True)] * 4
    for wanted in (order, order[::-1]):
        steered = Steered(0, Plan(shape, (("untimed", 1, 2),), tuple(wanted)))
        outcome = simulate(Run(0, shape=shape, weights=NONE), chooser=steered)
        assert not outcome.kind
        clients = [event.client for event in outcome.events if event.client.startswith("Writer") and event.kind == "applied"]
        assert clients[:8] == [client for client, _, _ in wanted]


def test_the_verb(tmp_path, monkeypatch):
    seed = str(failing("latest_deleted")[0].seed)
    result = ran("dst", "shrink", seed, "--mutant", "latest_deleted", "-o", str(tmp_path / "b"))
    assert result.exit_code == 0, result.output
    before, after = map(int, re.search(r"requests (\d+) -> (\d+), faults \d+ -> \d+", result.output).groups())
    assert after < before and "runs used" in result.output and "replays strictly in a fresh process" in result.output
    again = ran("dst", "replay", str(tmp_path / "b"), "--shrunk")
    assert again.exit_code in (10, 11) and f": {after} requests" in again.output
    assert ran("dst", "replay", str(tmp_path / "b" / "shrunk.tape.json")).exit_code == again.exit_code
    shrunk_again = ran("dst", "shrink", str(tmp_path / "b"))  # into the bundle that it came from
    assert shrunk_again.exit_code == 0 and f"requests {before} -> {after}" in shrunk_again.output
    monkeypatch.setattr(dst_shrink, "replays", lambda *_: False)
    result = ran("dst", "shrink", seed, "--mutant", "latest_deleted")
    assert result.exit_code == 13 and "replays strictly" not in result.output


@pytest.mark.parametrize("arguments, says", [
    (["1"], "1 does not fail: there is nothing to shrink"),
    (["1", "--mutant", "nobody"], "there is no mutant 'nobody'"),
    (["1", "--strategy", "luck"], "there is no strategy 'luck'"),
    (["nowhere"], "nowhere: not a tape"),
    (["nowhere", "--mutant", "no_check"], "need a seed"),
])
def test_what_cannot_be_shrunk_is_refused_in_one_line(arguments, says):
    result = ran("dst", "shrink", *arguments)
    assert result.exit_code == 2 and says in result.output and result.output.count("\n") == 1


# --- Hypothesis

SMALL = Shape(writers=1, commits=2, collectors=1, rounds=1, min_age_ms=60, think_ms=1, chaos=30, audit=False)
QUIETLY = {"database": None, "derandomize": True, "suppress_health_check": list(HealthCheck), "deadline": None}


def falsified(build: Build, strategy: str, shrinking: bool) -> Played:
    """Return Hypothesis' last failing run. Its first draws depend on the imported modules: it takes constants from them."""
    seen: list[Played] = []
    phases = [Phase.generate, Phase.shrink] if shrinking else [Phase.generate]

    @settings(max_examples=2_000, phases=phases, print_blob=False, report_multiple_bugs=False, **QUIETLY)
    @given(runs(build, SMALL, strategy=strategy))
    def refines(run: Played) -> None:
        if run.kind:
            seen.append(run)
        assert not run.kind

    with pytest.raises(AssertionError):
        refines()
    return seen[-1]


@pytest.mark.parametrize("strategy", ["times", "random"])
def test_hypothesis_finds_a_mutant_and_shrinks_its_tape(strategy):
    build = ZOO["lost_reply_is_conflict"][1]
    first, last = falsified(build, strategy, False), falsified(build, strategy, True)
    assert len(last.tape) <= len(first.tape) and measure(last)[1] < measure(first)[1]  # what it makes smaller, in this order
    assert last.requests <= 12 and faults(last) <= 2 and measure(last)[1] <= 7
    assert len(repr(last)) < 200
    again = simulate(Run(0, strategy=strategy, shape=SMALL), build, tape=last.tape)
    assert (again.digest, again.signature) == (last.digest, last.signature)


@settings(max_examples=30, **QUIETLY)
@given(runs(shape=SMALL))
def test_hypothesis_finds_nothing_in_the_implementation(run):
    assert not run.kind, run.message
