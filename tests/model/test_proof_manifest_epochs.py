"""The manifest's epochs are proved for any number of instances, faults and retries; without a safeguard the proof fails."""

import functools

import pytest

from highwater.model.proofs import manifest_epochs as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.proofs.engine.cti import Finder
from highwater.model.protocols import manifest_epochs as m

# A safeguard switched off -> where the proof fails: a role, an action, a clause.
FAILING = [
    ({"CREATE_IF_ABSENT": False}, "Writer", "CreateNext", "WriterIsUnique"),
    ({"OPEN_ANEW": False}, "Writer", "CreateConflict", "WriterEpochIsNext"),
    ({"BUMP_OWN_ONLY": False}, "Compactor", "CreateNext", "NumbersFollow"),
    ({"EPOCH_CHECK": False}, "Collector", "ReadLatest", "CollectorEpochIsNext"),
    ({"CHECK_AFTER_CONFLICT": False}, "Writer", "ReadLatest", "WriterEpochIsNext"),
    ({"COMPACTOR_EPOCH": False}, "Compactor", "ReadLatest", "CompactorEpochIsNext"),
    ({"REREAD": False}, "Writer", "CreateConflict", "WriterBaseIsRead"),
    ({"REAPPLY": False}, "Writer", "CreateConflict", "WriterKnowsIds"),
    ({"SWALLOW_FENCED": True}, "Writer", "ReadFenced", "FencedIsTold"),
    ({"UNKNOWN_IS_DONE": True}, "Writer", "SendCreate", "AckedIsKept"),
    ({"POLL_LIST": False}, "Reader", "List", "OwedIsKept"),
    ({"CHECKPOINT_AT_OPEN": False}, "Writer", "CreateNext", "WriterIsPinned"),
    ({"DROP_PREDECESSORS": False}, "Writer", "CreateNext", "WriterCheckpointHasEpoch"),
    ({"REPLACE_CHECKPOINT": False}, "Writer", "SendCreate", "PendingIsPinned"),
]
# A clause that is left out -> where the proof then fails: a role (of a property: none), an action, a clause.
OF_ROLE = {"IsPast": ("CreateNext", "{}IsUnique"), "KnowsIds": ("ReadLatest", "{}BaseIsRead"),
           "BaseIsRead": ("CreateNext", "NumbersFollow"), "BaseHoldsSsts": ("CreateNext", "SstsFollow"),
           "BaseHoldsCheckpoints": ("CreateNext", "CheckpointsFollow"), "EpochIsNext": ("CreateNext", "LatestIsHighest")}
NEEDED = {
    "FirstIsThere": ("Reader", "List", "ReaderKnowsIds"), "NumbersFollow": ("", "Property", "OnlyOwnEpochIsBumped"),
    "SstsFollow": ("", "Property", "OthersChangesAreKept"), "CheckpointsFollow": ("", "Property", "OthersChangesAreKept"),
    "SstIsOnce": ("", "Property", "OthersChangesAreKept"), "WalIsBehind": ("Writer", "CreateNext", "NumbersFollow"),
    "LatestIsHighest": ("", "ApplyPending", "CommitsAreOfLatest"), "LatestHoldsAll": ("Writer", "ReadLatest", "FlushIsNew"),
    "CommitsAreOfLatest": ("", "Property", "AtMostOneActiveWriterCommits"), "AckedIsKept": ("", "Property", "FlushIsKept"),
    **{clause: ("", "Property", clause) for clause in ("WriterIsPinned", "WriterCheckpointIsKept")},
    **{clause: ("", "Property", "OneWriterCheckpoint") for clause in ("WriterCheckpointHasEpoch", "WriterHasOneCheckpoint")},
    "PendingIsPinned": ("", "ApplyPending", "WriterIsPinned"),
    "PendingCheckpointHasEpoch": ("", "ApplyPending", "WriterCheckpointHasEpoch"),
    "PendingWriterHasOneCheckpoint": ("", "ApplyPending", "WriterHasOneCheckpoint"),
    "PendingCheckpointIsKept": ("", "ApplyPending", "WriterCheckpointIsKept"),
    "CompactorBaseHoldsPins": ("Compactor", "CreateNext", "WriterCheckpointIsKept"),
    "CollectorBaseHoldsPins": ("Collector", "CreateNext", "WriterCheckpointIsKept"),
    **{f"{role}IsUnique": ("", "Property", "OneWriterPerEpoch") for role in proofs.INSTANCES_OF},
    **{role + clause: (role, action, fails.format(role)) for role in proofs.INSTANCES_OF
       for clause, (action, fails) in OF_ROLE.items()},
    "WriterIsOpened": ("Writer", "CreateNext", "WriterCheckpointHasEpoch"),
    "WriterIsFresh": ("Writer", "ReadLatest", "FlushIsNew"), "FlushIsNew": ("Writer", "CreateNext", "SstIsOnce"),
    "FencedIsTold": ("", "Property", "FencedIsTold"), "PickedIsKept": ("Compactor", "CreateNext", "WriterIsFresh"),
    "PendingIsNext": ("", "ApplyPending", "NumbersFollow"), "PendingNumbersFollow": ("", "ApplyPending", "NumbersFollow"),
    "PendingSstsFollow": ("", "ApplyPending", "SstsFollow"),
    "PendingCheckpointsFollow": ("", "ApplyPending", "CheckpointsFollow"),
    "PendingSstIsOnce": ("", "ApplyPending", "SstIsOnce"), "PendingWalIsBehind": ("", "ApplyPending", "WalIsBehind"),
    "PendingIsFresh": ("", "ApplyPending", "WriterIsFresh"), "ReaderKnowsIds": ("Reader", "ReadLatest", "OwedIsKept"),
    "OwedIsKept": ("Reader", "ReadLatest", "ReadIsCurrent"), "GotIsKept": ("Reader", "List", "OwedIsKept"),
    "ReadIsCurrent": ("", "Property", "ReadIsCurrent"),
}


def name(off: dict) -> str:
    return ",".join(off)


@functools.cache
def proof() -> inductive.Proof:
    return proofs.prove()


def test_it_is_proved():
    assert proof().holds, (proof().failing, proof().impossible)
    assert {row.clause for row in proof().rows if row.action == "Property"} == set(m.ALWAYS)


def test_every_action_is_possible():
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    begins = {action for action in actions if action.endswith(".Begin")}  # where updates have no end
    assert set(proof().disabled) == begins and {*proof().possible} == actions - begins and all(proof().possible.values())


def test_one_query_takes_no_longer_than_a_proof_may():
    assert proof().ms < 60_000 and max(row.ms for row in proof().rows) < 5_000


@functools.cache
def of_action(role: str, action: str, *off: tuple) -> inductive.Proof:
    """Prove one action, because all actions would take long."""
    constants = m.Constants(**dict(off))._replace(**proofs.UNBOUNDED)
    only = proofs.SYSTEM._replace(actions={role: {action: proofs.ACTIONS[role][action]}})
    return inductive.prove(only, constants, explain=False, rlimit=proofs.RLIMIT)


@pytest.mark.parametrize("off, role, action, clause", FAILING, ids=[name(off) for off, *_ in FAILING])
def test_with_a_safeguard_off_it_is_not(off, role, action, clause):
    rows = of_action(role, action, *off.items()).rows
    assert (f"{role}.{action}", clause) in {(row.action, row.clause) for row in rows if row.verdict != "proved"}


@pytest.mark.parametrize("clause", proofs.CLAUSES)
def test_no_clause_can_be_spared(clause):
    role, action, fails = NEEDED[clause]
    actions = {} if action == "Property" else {role: {action: proofs.ACTIONS[role][action]}}
    without = proofs.SYSTEM._replace(
        clauses={other: each for other, each in proofs.CLAUSES.items() if other != clause}, actions=actions)
    rows = inductive.prove(without, m.Constants()._replace(**proofs.UNBOUNDED), explain=False,
                           rlimit=100_000).rows
    wanted = action if action == "Property" else f"{role}.{action}".lstrip(".")
    assert (wanted, fails) in {(row.action, row.clause) for row in rows if row.verdict != "proved"}


def test_every_safeguard_is_switched_off():
    assert [off for off, *_ in FAILING] == [*proofs.SAFEGUARDS_OFF]
    assert {knob for off in proofs.SAFEGUARDS_OFF for knob in off} == proofs.SAFEGUARDS


@pytest.mark.parametrize("off, role, action, clause", [FAILING[4], FAILING[8], FAILING[9]],
                         ids=["checks", "tells", "knows"])
def test_and_a_counterexample_to_induction_is_a_step_of_the_model(off, role, action, clause):
    constants = m.Constants(**off)._replace(**proofs.UNBOUNDED)
    text = Finder(proofs.SYSTEM, constants).find(proofs.CLAUSES[clause], f"{role}.{action}", role, action)
    step, *variables, failure = text.splitlines()
    assert f"{action}(" in step and failure.startswith("fails of ") and any("→" in variable for variable in variables)


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=name)
@pytest.mark.parametrize("instance", [{"READERS": 1}, {"WRITERS": 1, "COMPACTORS": 1}], ids=str)
def test_the_relation_is_the_model_with_a_safeguard_off(instance, off):
    constants = m.Constants(**{"MAX_PENDING": 1, "MAX_LOST": 1, "OPEN_RETRIES": 1, **instance, **off})
    tie = instances.tie(proofs, constants, nearest=150)
    assert not tie.mismatches, tie.mismatches


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 1_000) for instance in proofs.INSTANCES]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert frozenset().union(*(tie.actions for tie in ties)) == {x for x in actions if not x.endswith(".Begin")}
