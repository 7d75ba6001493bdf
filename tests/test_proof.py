"""The model's safety properties are proved without bounds, no safeguard can be spared, and what is proved is the model."""

import functools

import pytest

from model import sequenced_metadata_boundary as m
from model.proofs import inductive
from model.proofs import sequenced_metadata_boundary as proofs
from model.proofs.inductive import And

REPLAY = "replay: python -m model.proofs.sequenced_metadata_boundary"
ACTIONS = {inductive.title(role, action) for role, actions in (
    ("Writer", m.WRITER), ("Collector", m.COLLECTOR), ("Reader", m.READER), ("", m.STORE)) for action in actions}
PRECHECKS = {"Writer.Precheck", "Writer.PrecheckReject"}

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
    ({"CHECK_READS": False}, ("Reader.ReadLatest", "ReadIsCurrent"), {"Reader.ReadLatest"}),
    ({"BOUNDARY": False}, ("Writer.CreateNext", "CommitIsUnique"),
     {"Writer.CreateNext", "Collector.SendDelete", "ApplyPending"}),
]

# Instances for the tie; together they take every action.
INSTANCES = [
    {},
    {"PAGE": 1, "WRITERS": 1, "COLLECTORS": 2, "MAX_LOST": 1},
    {"WRITERS": 1, "READERS": 1, "PAGE": 1, "MAX_CRASHES": 1},
    {"WRITERS": 1, "CHECKPOINTS": 1, "MAX_PENDING": 1, "COMMITS": 1},
    {"WRITERS": 1, "COLLECTORS": 2, "MAX_PENDING": 1, "COMMITS": 1, "MAX_LOST": 1},
    {"WRITERS": 1, "COLLECTORS": 2, "CHECKPOINTS": 1},
    {"WRITERS": 1, "READERS": 1, "MAX_LOST": 1, "CHECKPOINTS": 1, "COMMITS": 1},
    {"CHECK": "before"},
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
    ({"FRESH_BOUNDARY": False, "WRITERS": 1}, set()),
    ({"CHECK_READS": False, "READERS": 1, "WRITERS": 1}, set()),
]


def name(case: dict) -> str:
    return ",".join(f"{constant}={value}" for constant, value in case.items()) or "default"


@pytest.fixture(scope="module")
def proof() -> inductive.Proof:
    rows = []
    result = proofs.prove(progress=rows.append)
    assert tuple(rows) == result.rows
    return result


def test_every_action_keeps_every_clause(proof):
    assert proof.failing == (), REPLAY
    assert proof.possible.keys() | set(proof.disabled) == ACTIONS
    assert set(proof.disabled) == PRECHECKS  # proved with CHECK=before, below
    asked = [(row.action, row.clause) for row in proof.rows]
    assert sorted(asked) == sorted({(action, clause) for action in ("Init", *proof.possible) for clause in proofs.CLAUSES}
                                   | {("Property", name) for name in m.ALWAYS})


def test_nor_need_collectors_read_checkpoints_where_there_are_none():
    result = proofs.prove(checkpoints=False)
    assert result.failing == (), REPLAY
    assert {action for action, possible in result.possible.items() if not possible} == {"ExpireCheckpoint"}


def test_no_action_is_proved_by_being_impossible(proof):
    assert all(proof.possible.values())


def test_an_impossible_action_does_not_pass(monkeypatch):
    def accept(c, s, w):
        for guard, choices, s2, w2 in proofs.accept(c, s, w):
            yield And(guard, s.boundary > s.high), choices, s2, w2
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions={"Writer": {"Accept": accept}}))
    result = proofs.prove()
    assert result.failing == () and result.possible == {"Writer.Accept": False} and not result.holds


def test_no_answer_is_no_proof(monkeypatch):
    monkeypatch.setattr(inductive, "RLIMIT", 1)
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions={"Writer": {"Accept": proofs.accept}}))
    result = proofs.prove()
    assert "unknown" in {row.verdict for row in result.rows} and not result.holds


@functools.cache
def without(**off) -> inductive.Proof:
    return proofs.prove(m.Constants(**off))


@pytest.mark.parametrize("off, first, actions", FAILING, ids=[name(off) for off, *_ in FAILING])
def test_no_safeguard_can_be_spared(off, first, actions):
    result = without(**off)
    assert first in result.failing
    assert {action for action, _ in result.failing} == actions
    assert all(result.possible.values())
    for row in result.rows:
        assert row.verdict in ("proved", "fails")
        if row.verdict == "fails":  # the counterexample, a state of the model and a step, was evaluated in plain Python
            assert f"{row.action.split('.')[-1]}(" in row.counterexample.splitlines()[-1], row


def test_every_safeguard_is_tried():
    assert [off for off, *_ in FAILING] == [*proofs.SAFEGUARDS_OFF]
    bounds = {"WRITERS", "COLLECTORS", "READERS", *proofs.UNBOUNDED}
    assert {knob for off in proofs.SAFEGUARDS_OFF for knob in off} == {*m.Constants._fields} - bounds


def test_verdicts_do_not_vary():
    runs = without(BOUNDARY_FIRST=False), proofs.prove(m.Constants(BOUNDARY_FIRST=False))
    assert len({tuple(row._replace(ms=0) for row in run.rows) for run in runs}) == 1


@functools.cache
def tied(number: int) -> inductive.Tie:
    return proofs.tie(m.Constants(**INSTANCES[number]))


@pytest.mark.parametrize("number", range(len(INSTANCES)), ids=map(name, INSTANCES))
def test_what_is_proved_is_the_model(number):
    assert tied(number).mismatches == ()
    assert tied(number).broken == () or INSTANCES[number].get("CHECK") == "before"


def test_every_action_is_compared():
    assert set().union(*(tied(number).actions for number in range(len(INSTANCES)))) == ACTIONS


@pytest.mark.parametrize("instance, broken", BROKEN, ids=[name(instance) for instance, _ in BROKEN])
def test_so_it_is_with_a_safeguard_off(instance, broken):
    result = proofs.tie(m.Constants(**instance))
    assert result.mismatches == ()
    assert broken <= set(result.broken)


def unconditional_in_model(c, me, s, g):
    yield from m.advance(c._replace(CONDITIONAL_ADVANCE=False), me, s, g)


def unconditional_in_relation(c, s, g, d: proofs.Id):
    yield from proofs.advance(c._replace(CONDITIONAL_ADVANCE=False), s, g, d)


def late_in_model(c, me, s, w):
    for choices, s2, w2 in m.accept(c, me, s, w):
        yield choices, s2, w2._replace(late=w.late or s.boundary > 0)


def late_in_relation(c, s, w):
    for guard, choices, s2, w2 in proofs.accept(c, s, w):
        yield guard, choices, s2, w2.but(late=s.boundary > 0)


@pytest.mark.parametrize("table, action, mutant, where", [
    (m.COLLECTOR, "Advance", unconditional_in_model, "only the model: Collector#"),
    (proofs.ACTIONS["Collector"], "Advance", unconditional_in_relation, "only the relation: Collector#"),
    (m.WRITER, "Accept", late_in_model, "only the model: Writer#0 (Accept"),
    (proofs.ACTIONS["Writer"], "Accept", late_in_relation, "only the relation: Writer#0 (Accept"),
    (m.STORE, "Tick", lambda c, me, s, _: (), "the actions of "),
    (m.ALWAYS, "BoundaryIsBelowLatest", (None, lambda c, s: s.boundary < 1), "BoundaryIsBelowLatest from"),
    (proofs.PROPERTIES, "BoundaryIsBelowLatest", lambda c, s: s.boundary < 1, "BoundaryIsBelowLatest from"),
], ids=["guard-model", "guard-relation", "effect-model", "effect-relation", "action-model", "property-model",
        "property-relation"])
def test_neither_changes_alone(monkeypatch, table, action, mutant, where):
    monkeypatch.setitem(table, action, mutant)
    result = proofs.tie(m.Constants(COLLECTORS=2, WRITERS=1))
    assert any(mismatch.startswith(where) for mismatch in result.mismatches)
