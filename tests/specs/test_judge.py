"""FizzBee judges runs of the simulation: good ones are accepted; a mutant's is not, nor one whose store holds other bytes."""

from dataclasses import replace

import pytest

from highwater.conformance.judge import SMALL, compared, fits, judge, small_runs, stored
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import namespace
from highwater.dst.simulate import Outcome, simulate
from highwater.gate import engines as checks_engines
from highwater.gate import exits
from highwater.specs.fizzbee.cli import CheckResult, Fizz, FizzMissing
from highwater.traces.protocols.sequenced_metadata_boundary import decoded

SEED = next(seed for seed in range(50) if fits(simulate(Run(seed, shape=SMALL))))


@pytest.fixture(scope="module")
def fizz() -> Fizz:
    try:
        return Fizz.find()
    except FizzMissing as error:
        pytest.skip(f"FizzBee is missing, runs are NOT judged by it: {error}")


def test_good_runs_are_accepted_and_each_is_another_kind(fizz: Fizz) -> None:
    runs = small_runs("", 2)
    assert len({frozenset((e.kind, e.pending) for e in outcome.events) for outcome, _ in runs}) == 2
    for outcome, _ in runs:
        found = judge(fizz, outcome)
        assert found.accepted and found.steps > 10, found


def test_a_mutants_run_is_rejected(fizz: Fizz) -> None:
    (outcome, name), = small_runs(checks_engines.IMPOSSIBLE, 1)
    found = judge(fizz, outcome)
    assert outcome.kind == "refinement" and not found.accepted and "Collector#0.Delete" in found.why
    assert checks_engines.IMPOSSIBLE in name


def test_the_model_and_the_log_end_with_the_same_files() -> None:
    """What FizzBee's last state is held against is the store's, as the first judge's is, too."""
    outcome = simulate(Run(SEED, shape=SMALL))
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
    found = compared(STATE, log, 7)
    assert (found.accepted, found.steps, bool(found.why)) == (accepted, 7, not accepted)


class Says:
    """A FizzBee that says this."""

    def __init__(self, **said: object):
        self.said = CheckResult("PASSED", 0, 0, 0.0, (), (("Init", STATE),), "", followed=0)
        self.said = replace(self.said, **said)

    def guided(self, *asked: object, **options: object) -> CheckResult:
        return self.said


def test_an_assertion_that_fails_on_the_way_rejects() -> None:
    outcome: Outcome = simulate(Run(SEED, shape=SMALL))
    found = judge(Says(verdict="FAILED", failed_assertions=("CommitIsUnique",), followed=3), outcome)
    assert not found.accepted and found.why == "CommitIsUnique fails after 3 links"
    assert not judge(Says(verdict="STOPPED", followed=3), outcome).accepted


def test_the_gate_fails_where_the_judges_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks_engines, "JUDGED", 1)
    monkeypatch.setattr(Fizz, "find", lambda: Says(verdict="STOPPED", followed=0))
    found = checks_engines.second_judge()
    assert found.code == exits.SPEC and "ours says ok" in found.message

    def missing() -> None:
        raise FizzMissing("there is none")

    monkeypatch.setattr(Fizz, "find", missing)
    assert checks_engines.second_judge().code == exits.INCOMPLETE
