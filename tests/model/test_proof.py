"""The model's safety properties are proved without bounds, every safeguard is needed, and the proof matches the model.

A proof that nobody saw fail proves little. Below, each of its foundations is broken, and the resulting failure is checked.
"""

import functools
from random import Random
from timeit import default_timer
from typing import NamedTuple
from unittest import mock

import pytest
import typer
import z3
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.cli.model.prove import prove_command
from highwater.gate.exits import PROOF
from highwater.model import core
from highwater.model.explore import tabulated
from highwater.model.proofs import sequenced_metadata_boundary as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.proofs.engine.cti import Finder
from highwater.model.proofs.engine.logic import And, Implies, at
from highwater.model.proofs.engine.system import title
from highwater.model.proofs.engine.tie import Comparison, Tie
from highwater.model.protocols import sequenced_metadata_boundary as m

REPLAY = "replay: highwater model prove"
ACTIONS = {title(role, action) for role, actions in (
    ("Writer", m.WRITER), ("Collector", m.COLLECTOR), ("Reader", m.READER), ("", m.STORE)) for action in actions}
PRECHECKS = {"Writer.Precheck", "Writer.PrecheckReject"}
RECOGNISING = {"Writer.ReadApplied", "Writer.Recognise", "Writer.RecogniseReject"}
AMENDED = [{"ON_REFUSAL": "recognised"}] * 3

# A safeguard switched off -> (action, clause) at which the proof fails, and all the actions at which it does.
FAILING = [
    ({"CHECK": "off"}, ("Writer.CreateNext", "CommitIsUnique"), {"Writer.CreateNext"}),
    ({"CHECK": "before"}, ("Writer.CreateNext", "CommitIsUnique"), {"Writer.CreateNext"}),
    ({"OLD_WRITERS": 1}, ("Writer.CreateNext", "CommitIsUnique"), {"Writer.CreateNext"}),
    ({"FRESH_BOUNDARY": False}, ("Writer.Accept", "AckIsChecked"), {"Writer.Accept"}),
    ({"BOUNDARY_FIRST": False}, ("Collector.Delete", "DeletedIsBehindBoundary"), {"Collector.Delete", "Collector.SendDelete"}),
    ({"CONDITIONAL_ADVANCE": False}, ("Collector.Advance", "BoundaryIsMonotone"), {"Collector.Advance", "ApplyPending"}),
    ({"KEEP_LATEST": False}, ("Collector.Advance", "BoundaryIsBelowLatest"),
     {"Collector.Advance", "Collector.Delete", "Collector.SendAdvance", "Collector.SendDelete"}),
    ({"SPARE_CHECKPOINTS": False}, ("Collector.List", "MarkedIsFree"), {"Collector.List"}),
    ({"SPARE_LISTED": False}, ("Collector.ReadCheckpoints", "MarkedIsFree"), {"Collector.ReadCheckpoints"}),
    ({"CHECK_READS": False}, ("Reader.ReadLatest", "ReadIsCurrent"), {"Reader.ReadLatest", "Collector.ReadCheckpoints"}),
    ({"BOUNDARY": False}, ("Writer.CreateNext", "CommitIsUnique"),
     {"Writer.CreateNext", "Collector.ReadCheckpoints", "Collector.SendDelete", "ApplyPending"}),
    ({"ON_REFUSAL": "failed"}, ("Collector.Advance", "RefusedHasNoEffect"), {"Collector.Advance", "ApplyPending"}),
    ({"ON_REFUSAL": "retried"}, ("Writer.CreateNext", "AppliedOnce"), {"Writer.CreateNext"}),
    ({"ON_REFUSAL": "unchecked"}, ("Writer.ReadApplied", "AckedIsKept"), {"Writer.ReadApplied"}),
    ({"KNOWN": "unanswered"}, ("Writer.SendCreate", "BaseHasLatest"), {"Writer.SendCreate"}),
]
# With a safeguard off the relation must still be the model's; the clauses that then fail in a reachable state of the instance.
BROKEN = [
    ({"CHECK": "off"}, {"CommitIsUnique", "AckedIsKept", "AckIsChecked"}),
    ({"OLD_WRITERS": 1}, {"CommitIsUnique", "AckedIsKept", "AckIsChecked"}),
    ({"BOUNDARY": False}, {"CommitIsUnique", "AckedIsKept"}),
    ({"BOUNDARY_FIRST": False}, {"CommitIsUnique", "AckedIsKept", "DeletedIsBehindBoundary"}),
    ({"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "WRITERS": 1}, {"BoundaryIsMonotone"}),
    ({"KEEP_LATEST": False, "WRITERS": 1}, {"LatestIsKept", "BoundaryIsBelowLatest"}),
    ({"SPARE_CHECKPOINTS": False, "CHECKPOINTS": 1, "WRITERS": 1}, {"CheckpointedIsKept"}),
    ({"SPARE_LISTED": False, "CHECKPOINTS": 1, "WRITERS": 1}, {"CheckpointedIsKept"}),
    ({"FRESH_BOUNDARY": False, "WRITERS": 1}, set()),
    ({"CHECK_READS": False, "READERS": 1, "WRITERS": 1}, set()),
    ({"ON_REFUSAL": "failed", "COMMITS": 1}, {"RefusedHasNoEffect"}),
    ({"ON_REFUSAL": "retried", "COMMITS": 1, "MAX_ID": 4}, {"AppliedOnce"}),
    ({"ON_REFUSAL": "unchecked", "COMMITS": 1, "MAX_LOST": 1}, set()),  # it takes a request under way, too
    ({"KNOWN": "unanswered", "MAX_PENDING": 1, "COLLECTORS": 0}, {"AckedIsKept", "DeletedIsBehindBoundary"}),
    ({"KNOWN": "created"}, set()),  # does no harm
]


def name(case: dict) -> str:
    return ",".join(f"{constant}={value}" for constant, value in case.items()) or "default"


def ran(*arguments: str):
    app = typer.Typer()
    app.command()(prove_command)
    return CliRunner().invoke(app, arguments)


# --- the proof

@pytest.fixture(scope="module")
def proof() -> inductive.Proof:
    rows = []
    result = proofs.prove(progress=rows.append)
    assert tuple(rows) == result.rows
    return result


def test_every_action_keeps_every_clause(proof):
    assert proof.failing == (), REPLAY
    assert proof.possible.keys() | set(proof.disabled) == ACTIONS
    assert set(proof.disabled) == PRECHECKS | RECOGNISING  # proved with CHECK=before, and with ON_REFUSAL=recognised, below
    asked = [(row.action, row.clause) for row in proof.rows]
    assert sorted(asked) == sorted({(action, clause) for action in ("Init", *proof.possible) for clause in proofs.CLAUSES}
                                   | {("Property", name) for name in m.ALWAYS})


def test_nor_need_collectors_read_checkpoints_where_there_are_none():
    result = proofs.prove(checkpoints=False)
    assert result.failing == result.impossible == (), REPLAY
    assert {action for action, possible in result.possible.items() if not possible} == {"ExpireCheckpoint"}


def test_nor_is_an_update_applied_twice_or_lost_that_is_tried_again_and_recognised():
    """After a refusal, a reply that was lost, a crash, or a create under way: docs/protocols/committed-but-rejected.md."""
    result = proofs.prove(recognised=True)
    assert result.failing == result.impossible == (), REPLAY
    assert all(result.possible.values()) and set(result.disabled) == PRECHECKS
    assert {("Property", "AppliedOnce"), ("Property", "AckedIsKept")} <= {(row.action, row.clause) for row in result.rows}


@pytest.mark.parametrize("clause", ["ReadyIsNotApplied", "AppliedIsKept"])
def test_which_no_clause_of_its_own_can_be_spared(clause):
    with mock.patch.dict(proofs.CLAUSES):
        del proofs.CLAUSES[clause]
        assert proofs.prove(recognised=True, explain=False).failing


def test_no_action_is_proved_by_being_impossible(proof):
    assert all(proof.possible.values()) and proof.holds


def test_one_query_takes_no_longer_than_a_proof_may(proof):
    assert proof.ms < 60_000 and max(row.ms for row in proof.rows) < 5_000


@functools.cache
def without(**off) -> inductive.Proof:
    return proofs.prove(m.Constants(**off))


@pytest.mark.parametrize("off, first, actions", FAILING, ids=[name(off) for off, *_ in FAILING])
def test_no_safeguard_can_be_spared(off, first, actions):
    result = without(**off)
    assert first in result.failing
    assert {action for action, _ in result.failing} == actions
    assert result.impossible == ()
    for row in result.rows:
        assert row.verdict in ("proved", "fails")
        if row.verdict == "fails":  # the counterexample, a state of the model and a step, was evaluated in plain Python
            step, *variables, failure = row.counterexample.splitlines()
            assert f"{row.action.split('.')[-1]}(" in step and failure.startswith("fails of "), row
            assert any("→" in variable for variable in variables)


def test_every_safeguard_is_tried():
    assert [off for off, *_ in FAILING] == [*proofs.SAFEGUARDS_OFF]
    assert {knob for off in proofs.SAFEGUARDS_OFF for knob in off} == proofs.SAFEGUARDS
    assert {*m.Constants._fields} == proofs.SAFEGUARDS | {"WRITERS", "COLLECTORS", "READERS", *proofs.UNBOUNDED}


def test_verdicts_and_counterexamples_do_not_vary():
    runs = without(BOUNDARY_FIRST=False), proofs.prove(m.Constants(BOUNDARY_FIRST=False))
    assert len({tuple(row._replace(ms=0) for row in run.rows) for run in runs}) == 1


def test_a_counterexample_to_induction_is_small_and_a_state_of_the_model():
    row = next(row for row in without(CHECK_READS=False).rows if (row.action, row.clause) == ("Reader.ReadLatest", "GotIsKept"))
    assert row.counterexample == """\
Reader#0.ReadLatest()
files         ({updates {(0, 0)}, checkpoints {}}, {updates {}, checkpoints {}})
boundary      1
high          2
peak          1
Reader#0.pc   Listed  → Done
Reader#0.n    1
Reader#0.got  {}  → {(0, 0)}
fails of r = Reader#0, u = (0, 0)"""


# --- what is proved is the model

@functools.cache
def tied(number: int) -> Tie:
    return instances.tie(proofs, m.Constants(**proofs.INSTANCES[number]))


@pytest.mark.parametrize("number", range(len(proofs.INSTANCES)), ids=map(name, proofs.INSTANCES))
def test_what_is_proved_is_the_model(number):
    assert tied(number).mismatches == ()
    assert tied(number).broken == () or proofs.INSTANCES[number].get("CHECK") == "before"
    c = m.Constants(**proofs.INSTANCES[number])
    assert tied(number).states == tabulated.explore(m.model(c)).states or "CHECK" in proofs.INSTANCES[number]


def test_every_action_is_compared():
    assert set().union(*(tied(number).actions for number in range(len(proofs.INSTANCES)))) == ACTIONS


@pytest.mark.parametrize("instance, broken", BROKEN, ids=[name(instance) for instance, _ in BROKEN])
def test_so_it_is_with_a_safeguard_off(instance, broken):
    result = instances.tie(proofs, m.Constants(**instance))
    assert result.mismatches == ()
    assert broken <= set(result.broken)


LARGER = st.builds(
    dict, WRITERS=st.integers(1, 3), COMMITS=st.integers(1, 6), COLLECTORS=st.integers(1, 3), READERS=st.integers(0, 2),
    MAX_ID=st.integers(3, 8), CHECKPOINTS=st.integers(0, 2), PAGE=st.integers(0, 2), MAX_PENDING=st.integers(0, 2),
    MAX_LOST=st.integers(0, 2), MAX_CRASHES=st.integers(0, 2))


def test_so_it_is_along_random_walks_through_larger_instances():
    """A walk prefers actions that it has rarely taken, so that it gets far."""
    walked: set[str] = set()

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(LARGER, st.sampled_from([{}, *AMENDED, *proofs.SAFEGUARDS_OFF]), st.integers(0, 2**32))
    def walk(larger, off, seed):
        random = Random(seed)
        c = m.Constants(**{**larger, **off})
        model = m.model(c)
        comparison = Comparison(proofs.system(c), model, proofs.scope(c))
        state, taken = core.State(model.shared, tuple(process.local for process in model.processes)), {}
        for _ in range(60):
            steps = [*comparison.compare(state)]
            if not steps:
                break
            (process, action, _), state = random.choices(steps, [taken.get(label[:2], 1) ** -2 for label, _ in steps])[0]
            taken[process, action] = taken.get((process, action), 1) + 1
        assert comparison.mismatches == []
        assert off not in ({}, *AMENDED) or not comparison.broken
        walked.update(comparison.actions)

    walk()
    assert len(ACTIONS - walked) <= len(RECOGNISING) + 5, ACTIONS - walked  # some are rare; above, every one is compared


def generous_in_model(c, me, s, w):
    """Right for all ids of the small instances."""
    if w.pc == "Created" and (w.n + 1 > s.boundary or w.n >= 3):
        yield (), m.acknowledged(s, me, w, w.late), m.done(w, w.k + 1)


def test_so_it_is_along_the_walks_of_the_command():
    c = m.Constants(**proofs.WALKED)
    result = instances.walked(proofs, c)
    assert result == instances.walked(proofs, c) and result.holds
    assert len(ACTIONS - result.actions) <= len(PRECHECKS | RECOGNISING) + 3  # some are rare; above, every one is compared
    assert result.states > 1_000 and 2 * max(m.Constants(**instance).MAX_ID for instance in proofs.INSTANCES) < c.MAX_ID


def test_an_edit_that_small_instances_do_not_show(monkeypatch, brief):
    with mock.patch.dict(m.WRITER, Accept=generous_in_model):
        for instance in proofs.INSTANCES:
            assert instances.tie(proofs, m.Constants(**instance)).mismatches == ()
        monkeypatch.setattr(proofs, "WALKS", 16)
        said = fails()
    assert "the relation is NOT the model's" in said and "only the model: Writer#" in said and ".Accept()" in said
    assert "MAX_ID <= 3" in said and "16 random walks" in said and "MAX_ID <= 8" in said


def test_so_it_is_wherever_the_invariant_holds_reachable_or_not():
    """States that Z3 makes up: as many random wishes are granted, one after the other, as the invariant allows."""
    c = m.Constants(COLLECTORS=2, READERS=1, MAX_PENDING=2, MAX_LOST=1, MAX_CRASHES=1, CHECKPOINTS=1, PAGE=1)
    finder = Finder(proofs.SYSTEM, c)
    comparison = Comparison(proofs.SYSTEM, m.model(c), proofs.SMALL)
    seen, wishes = set(), finder.wishes

    def in_scope(locals_):
        """The scope's choices are sets of at most CHECKPOINTS ids, of which 0 is none, and collectors that work have listed."""
        return all(local.listed or local.pc == "Idle" for local in locals_[c.WRITERS:c.WRITERS + c.COLLECTORS]) and all(
            len(local.base.checkpoints) <= c.CHECKPOINTS and 0 not in local.base.checkpoints for local in locals_[:c.WRITERS])

    @settings(max_examples=80, deadline=None, derandomize=True, database=None)
    @given(st.integers(0, 2**32))
    def compare(seed):
        random = Random(seed)
        finder.wishes = [random.sample(wish, len(wish)) for wish in random.sample(wishes, len(wishes))]
        finder.solver.check()
        found = finder.smallest()
        values = finder.finite.evaluated(finder.state, lambda x: z3.is_true(found.eval(x, True)))
        state = comparison.plain.state(finder.finite.whole(values))
        locals_ = (*state.locals, ())
        if in_scope(locals_):
            assert len([*comparison.compare(core.State(state.shared, locals_))])
            seen.add(state)
        assert comparison.mismatches == []

    compare()
    assert len(seen) > 10 and not comparison.broken


# --- what it rests on, broken

@pytest.fixture
def brief(monkeypatch):
    """One instance, one system: what is broken shows there."""
    monkeypatch.setattr(proofs, "INSTANCES", ({"COLLECTORS": 2, "WRITERS": 1},))
    monkeypatch.setattr(proofs, "SYSTEMS", {"": {}})
    monkeypatch.setattr(proofs, "WALKS", 1)


def only_accept(monkeypatch):
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions={"Writer": {"Accept": proofs.accept}}))


def fails(*arguments: str) -> str:
    result = ran(*arguments)
    assert result.exit_code == PROOF, result.output
    assert "Traceback" not in result.output
    return result.output


def test_nothing_is_broken(brief):
    result = ran()
    assert result.exit_code == 0, result.output
    assert "the relation is the model's on the compared steps: " in result.output
    assert "proved: 1,344 queries" in result.output
    assert "AckedIsKept" in result.output and "initially, after each of 35 actions" in result.output


def test_each_query_has_a_row_if_asked_for(monkeypatch, brief):
    only_accept(monkeypatch)
    assert ran("--each").output.count("Writer.Accept") >= len(proofs.CLAUSES)


def known_is_positive(c, s, g: proofs.Collector):
    return Implies(at(g.pc, "Known"), g.b >= 0)


def boundary_file_is_there(c, s, i: proofs.Id):
    return Implies(And(s.boundary <= i, i >= 1, i <= s.high), s.present(i))


def boundary_is_positive(c, s):
    return And(s.boundary > 0, s.boundary < s.high)


@pytest.mark.parametrize("clause, mutant, action, says", [
    ("KnownIsDurable", known_is_positive, "Collector.Delete", "DeletedIsBehindBoundary"),
    ("DeletedIsBehindBoundary", boundary_file_is_there, "Collector.Delete", "DeletedIsBehindBoundary"),
    ("BoundaryIsBelowLatest", boundary_is_positive, "Init", "BoundaryIsBelowLatest"),
], ids=["weaker", "false", "false-initially"])
def test_a_wrong_clause(monkeypatch, clause, mutant, action, says):
    monkeypatch.setitem(proofs.CLAUSES, clause, mutant)
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions={"Collector": proofs.ACTIONS["Collector"]}))
    result = proofs.prove()
    assert result.failing[0] == (action, says) and not result.holds
    said = next(row.counterexample for row in result.rows if row.verdict == "fails")
    assert said.startswith("Collector#0.Delete(1)\nfiles " if action != "Init" else "all is as initially\nfails of the state")
    monkeypatch.undo()
    monkeypatch.setitem(proofs.CLAUSES, clause, mutant)
    reachable = instances.tie(proofs, m.Constants())
    assert reachable.mismatches == () and (clause in reachable.broken) is (mutant is not known_is_positive)


def test_a_property_that_the_invariant_does_not_imply(monkeypatch):
    only_accept(monkeypatch)
    with mock.patch.dict(proofs.CLAUSES):
        del proofs.CLAUSES["AckIsChecked"]
        row = next(row for row in proofs.prove().rows if row.verdict == "fails")
    assert (row.action, row.clause, row.counterexample) == ("Property", "AckIsChecked", "unchecked  {0}\nfails of i = 0")


def unconditional_in_model(c, me, s, g):
    yield from m.advance(c._replace(CONDITIONAL_ADVANCE=False), me, s, g)


def unconditional(c, s, g, d: proofs.Id):
    yield from proofs.advance(c._replace(CONDITIONAL_ADVANCE=False), s, g, d)


def timid(c, s, g, d: proofs.Id):
    """A stronger guard: all is proved, of too few steps."""
    for guard, choices, s2, g2 in proofs.advance(c, s, g, d):
        yield And(guard, d <= 1), choices, s2, g2


def late_in_model(c, me, s, w):
    for choices, s2, w2 in m.accept(c, me, s, w):
        yield choices, s2, w2._replace(late=w.late or s.boundary > 0)


def late(c, s, w):
    for guard, choices, s2, w2 in proofs.accept(c, s, w):
        yield guard, choices, s2, w2.but(late=s.boundary > 0)


def beyond(c, s, w, x: proofs.Choice):
    """Yield the steps of CreateNext under a smaller MAX_ID: a relation that does not match the model."""
    yield from proofs.create_next(c._replace(MAX_ID=c.MAX_ID - 1), s, w, x)


def misnamed(c, s, w):
    yield s.boundry < w.n, (), s, w


def misnamed_effect(c, s, w):
    yield True, (), s, w.but(latest=1)


@pytest.mark.parametrize("table, action, mutant, says", [
    (m.COLLECTOR, "Advance", unconditional_in_model, "only the model: Collector#0.Advance(1)\n  files "),
    (proofs.ACTIONS["Collector"], "Advance", unconditional, "only the relation: Collector#0.Advance(1)\n  files "),
    (proofs.ACTIONS["Collector"], "Advance", timid, "only the model: Collector#0.Advance(2)\n  files "),
    (m.WRITER, "Accept", late_in_model, "only the model: Writer#0.Accept()\n  files "),
    (proofs.ACTIONS["Writer"], "Accept", late, "only the relation: Writer#0.Accept()\n  files "),
    (m.STORE, "Tick", lambda c, me, s, _: (), "the actions of the store: only the model has Tick"),
    (proofs.ACTIONS["Writer"], "Reject", None, "the actions of Writer: only the model has Reject"),
    (m.WRITER, "Reject", None, "the actions of Writer: only the relation has Reject"),
    (m.ALWAYS, "LatestIsKept", (None, lambda c, s: s.boundary < 1), "only the model finds LatestIsKept broken"),
    (proofs.PROPERTIES, "LatestIsKept", lambda c, s: s.boundary < 1, "only the relation finds LatestIsKept broken"),
    (proofs.PROPERTIES, "AckedIsKept", None, "the properties: only the model has AckedIsKept"),
    (proofs.ACTIONS["Writer"], "CreateNext", beyond, "only the model: Writer#0.CreateNext((Keep, ()))"),
    (proofs.COLLECTOR, "b", 1, "initially, in the model → in the relation\n  Collector.b  0  → 1"),
    (proofs.ACTIONS["Writer"], "Accept", misnamed, "there is no variable boundry; there are update, old, chosen, present"),
    (proofs.ACTIONS["Writer"], "Accept", misnamed_effect, "there is no variable Writer.latest; there are pc, n"),
    (proofs.FIELDS["Collector"], "known", (proofs.Id,), "the model has no variable Collector.known; it has pc, listed,"),
    (proofs.FIELDS["Collector"], "b", None, "initially, or among its variables, Collector has not b"),
], ids=["guard-in-model", "guard", "guard-too-strong", "effect-in-model", "effect", "action-in-model", "no-action",
        "no-action-in-model", "property-in-model", "property", "no-property", "constant", "initial-value", "misnamed-guard",
        "misnamed-effect", "variable", "no-variable"])
def test_neither_the_proof_nor_the_model_changes_alone(brief, table, action, mutant, says):
    with mock.patch.dict(table):  # put back in its order: what is printed follows it
        if mutant is None:
            del table[action]
        else:
            table[action] = mutant
        result = instances.tie(proofs, m.Constants(COLLECTORS=2, WRITERS=1))
    assert any(mismatch.startswith(says) for mismatch in result.mismatches), "\n".join(result.mismatches)


class Renamed(NamedTuple):
    pc: str = "Idle"
    listed: frozenset[int] = frozenset()
    marked: bool = False
    checked: bool = False
    known: int = 0


def test_a_variable_that_the_model_renamed(monkeypatch):
    monkeypatch.setattr(m, "Collector", Renamed)
    assert instances.tie(proofs, m.Constants()).mismatches == (
        "the model has no variable Collector.b; it has pc, listed, marked, checked, known",)


@pytest.mark.parametrize("action, mutant, says", [
    ("Advance", unconditional, ["the relation is NOT the model's", "only the relation: Collector#0.Advance(1)",
                                "Collector.Advance does not keep BoundaryIsMonotone", "NOT proved"]),
    ("Advance", timid, ["the relation is NOT the model's", "only the model: Collector#0.Advance(2)", "proved: 1,344 queries"]),
    ("Advance", misnamed, ["the proof names something that the model does not have: there is no variable boundry"]),
    (None, "BoundaryIsBelowLatest", ["the initial state does not satisfy BoundaryIsBelowLatest\nall is as",
                                      "BoundaryIsBelowLatest does not hold in a reachable state with COLLECTORS=2, WRITERS=1"]),
], ids=["guard", "guard-too-strong", "misnamed", "wrong-clause"])
def test_the_command_says_so(monkeypatch, brief, action, mutant, says):
    if action is None:
        monkeypatch.setitem(proofs.CLAUSES, mutant, boundary_is_positive)
    else:
        monkeypatch.setitem(proofs.ACTIONS["Collector"], action, mutant)
    said = fails()
    assert [what for what in says if what not in said] == [], said


# --- no answer is no proof

def hard(c, s, i: proofs.Id, j: proofs.Id, k: proofs.Id):
    """Ask an open question: whether 114 is a sum of three cubes."""
    return i * i * i + j * j * j + k * k * k != 114


def test_a_query_that_times_out_is_a_failure(monkeypatch, brief):
    only_accept(monkeypatch)
    monkeypatch.setitem(proofs.PROPERTIES, "NoSuchCubes", hard)
    monkeypatch.setattr(inductive, "RLIMIT", 0)  # none
    started = default_timer()
    result = proofs.prove(timeout_ms=300)
    assert default_timer() - started < 30
    assert [(row.action, row.clause, row.verdict) for row in result.rows if row.verdict != "proved"] == [
        ("Property", "NoSuchCubes", "timeout")]
    assert not result.holds
    said = fails("--timeout", "0.3")
    assert "Property, NoSuchCubes: timeout, so it is not proved (with --timeout 0.3)" in said and "NOT proved" in said


def test_a_query_that_takes_too_much_work_is_a_failure(monkeypatch):
    only_accept(monkeypatch)
    monkeypatch.setattr(inductive, "RLIMIT", 1)
    result = proofs.prove()
    assert {"timeout"} <= {row.verdict for row in result.rows} <= {"timeout", "proved"} and not result.holds
    assert result.possible == {"Writer.Accept": True}  # what the finite scope shows


def test_what_is_not_decided_and_has_no_finite_instance_is_not_possible(monkeypatch):
    only_accept(monkeypatch)
    monkeypatch.setattr(inductive, "any_of", lambda answers: None)
    assert proofs.prove().holds
    monkeypatch.setattr(inductive.Finder, "enables", lambda *_: False)
    result = proofs.prove()
    assert result.possible == {"Writer.Accept": None} and result.impossible == ("Writer.Accept",)


def test_an_impossible_action_does_not_pass(monkeypatch, brief):
    def accept(c, s, w):
        for guard, choices, s2, w2 in proofs.accept(c, s, w):
            yield And(guard, s.boundary > s.high), choices, s2, w2
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions={"Writer": {"Accept": accept}}))
    result = proofs.prove()
    assert result.failing == () and result.possible == {"Writer.Accept": False} and not result.holds
    assert "never possible: its guard contradicts the invariant" in fails()


# --- bad input

@pytest.mark.parametrize("arguments, says", [
    (["--set", "CHEQUE=off"], "there is no constant 'CHEQUE'"), (["--set", "PAGE=-1"], "PAGE must be from 0 to 100"),
    (["nothing"], "there is no model 'nothing'"),
    (["highwater.gate.boundary_peer"], "there is no proof of highwater.gate.boundary_peer"),
    (["--set", "MAX_ID=50", "--bounded", "3"], "up to 1,000 can be unrolled"),
    (["--timeout", "0"], "give 0.001 to 3600"), (["--timeout", "nan"], "give 0.001 to 3600"),
])
def test_bad_input_is_refused_in_one_line(arguments, says):
    result = ran(*arguments)
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output
