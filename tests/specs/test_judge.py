"""FizzBee judges simulated runs: it accepts good ones, and refuses a mutant's and one whose store holds other bytes."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from highwater.conformance.difference import alike
from highwater.conformance.guided import TooLarge, guided, row_of
from highwater.conformance.judge import PROTOCOLS, judge, limit, own, rate, small_run, small_runs
from highwater.conformance.protocols.sequenced_metadata_boundary import SMALL, compared, stored
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, STEMS, mutants_of, named
from highwater.dst.scenarios.sequenced_metadata_boundary import namespace
from highwater.dst.simulate import Outcome, simulate
from highwater.gate import exits, simulation
from highwater.gate.rows import timed
from highwater.gate.sizes import GATE
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing
from highwater.specs.fizzbee.verdict import CheckResult
from highwater.traces.protocols.sequenced_metadata_boundary import decoded

SEED = next(seed for seed in range(50) if not limit(small_run(DEFAULT, seed)))


@pytest.fixture(scope="module")
def fizz() -> Fizz:
    try:
        return Fizz.find()
    except FizzMissing as error:
        pytest.skip(f"FizzBee is missing, runs are NOT judged by it: {error}")


def test_every_protocol_with_a_scenario_is_judged() -> None:
    compositions = {"database_metadata", "database_clones", "db"}  # without specs
    nodes = {"raft", "raft_membership", "consistent_read", "log_snapshot", "metadata_fsm", "compaction_queue",
             "dlq_recovery", "index_retention", "index_reads"}  # without a log, or one of more than the store
    assert set(PROTOCOLS) == set(STEMS) - compositions - nodes
    for scenario in PROTOCOLS:
        assert own(scenario).IMPOSSIBLE in mutants_of(scenario).builds
        assert row_of(named(scenario).protocol).path.exists()
    with pytest.raises(LookupError, match="cannot judge runs of 'nothing'"):
        own("nothing")


def test_good_runs_are_accepted_and_each_is_another_kind(fizz: Fizz) -> None:
    runs = small_runs(DEFAULT, "", 2)
    assert len({frozenset((e.kind, e.pending) for e in outcome.events) for outcome, _ in runs}) == 2
    for outcome, _ in runs:
        found = judge(fizz, outcome)
        assert found.accepted and found.steps > 10, found


@pytest.mark.parametrize("scenario", PROTOCOLS)
def test_a_good_run_is_accepted_and_a_mutants_is_not(scenario: str, fizz: Fizz) -> None:
    (good, _), = small_runs(scenario, "", 1)
    found = judge(fizz, good)
    assert found.accepted and found.steps == sum(1 for _ in guided(good).links) > 5, found
    (bad, name), = small_runs(scenario, own(scenario).IMPOSSIBLE, 1)
    found = judge(fizz, bad)
    assert bad.kind == "refinement" and not found.accepted and "FizzBee cannot take link" in found.why
    assert own(scenario).IMPOSSIBLE in name


def test_the_model_and_the_log_end_with_the_same_files() -> None:
    """FizzBee's last state is compared with the store's files; so is the model's."""
    outcome = small_run(DEFAULT, SEED)
    assert not outcome.kind
    files, boundary = stored(outcome.events, namespace(SMALL))
    assert boundary > 0 and 1 not in files
    listed = [e for e in outcome.events if e.op == "list" and e.kind == "applied"]
    assert set(map(namespace(SMALL).file_id, listed[-1].keys)) >= set(files)
    last = [e for e in outcome.events if e.op == "create" and e.status == 200 and e.key == namespace(SMALL).key(max(files))][-1]
    assert files[max(files)] == decoded(last.body)[0].updates


STATE = {"files": {"2": {"updates": [[0, 0]]}}, "boundary": 1}


@pytest.mark.parametrize(("log", "accepted"), [
    (({2: frozenset({(0, 0)})}, 1), True), (({2: frozenset({(0, 1)})}, 1), False), (({2: frozenset({(0, 0)})}, 0), False),
    (({1: frozenset(), 2: frozenset({(0, 0)})}, 1), False)])
def test_the_end_has_to_be_the_stores(log: tuple, accepted: bool) -> None:
    assert bool(compared(STATE, log)) != accepted


class File(NamedTuple):
    updates: frozenset


@pytest.mark.parametrize(("ours", "theirs", "same"), [
    ({2: File(frozenset({(0, 0), (1, 0)}))}, {"2": {"updates": [[1, 0], [0, 0]]}}, True),
    ({2: File(frozenset({(0, 0)}))}, {"2": {"updates": [[1, 0]]}}, False),
    ({2: File(frozenset())}, {"3": {"updates": []}}, False), ((1, 2), [1, 2], True), ((1, 2), [2, 1], False),
    (frozenset({1, 2}), [2, 1], True), (frozenset({1}), [1, 2], False), (None, None, True), ("a", ["a"], False)])
def test_a_state_of_the_model_is_compared_with_what_fizzbee_prints(ours: object, theirs: object, same: bool) -> None:
    assert alike(ours, theirs) == same


class Says:
    """A FizzBee that says this."""

    def __init__(self, **said: object):
        self.said = CheckResult("PASSED", 0, 0, 0.0, (), (("Init", STATE),), "", followed=0)
        self.said = replace(self.said, **said)

    def guided(self, *asked: object, **options: object) -> CheckResult:
        return self.said


def test_an_assertion_that_fails_on_the_way_rejects() -> None:
    outcome: Outcome = small_run(DEFAULT, SEED)
    found = judge(Says(verdict="FAILED", failed_assertions=("CommitIsUnique",), followed=3), outcome)
    assert not found.accepted and found.why == "CommitIsUnique fails after 3 links"
    assert not judge(Says(verdict="STOPPED", followed=3), outcome).accepted


@pytest.mark.parametrize("scenario", [DEFAULT, "wal_fencing"])
def test_another_last_state_than_the_models_rejects(scenario: str) -> None:
    (outcome, _), = small_runs(scenario, "", 1)
    found = judge(Says(followed=len(guided(outcome).links)), outcome)
    assert not found.accepted and "FizzBee's last state differs from the model's in " in found.why


def test_what_cannot_be_followed_is_told_with_its_limit() -> None:
    """A step that only the trace's model has; more steps than FizzBee follows; what is no step at all."""
    migrating = rate("manifest_migration", 20)
    assert 0 < migrating.fit < migrating.runs == 20 and "the spec has no such action" in str(migrating)
    assert sum(count for _, count in migrating.limits) == migrating.runs - migrating.fit
    outcomes = (simulate(Run(seed, "log_gc")) for seed in range(50))
    with pytest.raises(TooLarge, match="at most 100 actions"):
        guided(next(outcome for outcome in outcomes if len(outcome.events) > 250))
    with pytest.raises(TooLarge, match="refuses the run for something that is not a step of the spec"):
        guided(small_run("log_gc", 0, "blind_create"))


def test_the_gate_fails_where_fewer_runs_fit_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fizz, "find", lambda: Says(verdict="PASSED"))
    monkeypatch.setattr("highwater.conformance.judge.small_runs", lambda protocol, mutant, most: [("run", "command")])
    found = simulation.second_judge(DEFAULT, 2, 1)
    assert found.code == exits.HARNESS and found.message.startswith("1 good runs and 1 of a mutant fit")


def test_the_gate_fails_where_the_judges_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fizz, "find", lambda: Says(verdict="STOPPED", followed=0))
    found = simulation.second_judge(DEFAULT, 1, 1)
    assert found.code == exits.SPEC and "ours says ok" in found.message

    def missing() -> None:
        raise FizzMissing("there is none")

    monkeypatch.setattr(Fizz, "find", missing)
    [check] = [check for check in simulation.checks(DEFAULT, GATE) if check.run is simulation.second_judge]
    assert timed(check).code == exits.INCOMPLETE
