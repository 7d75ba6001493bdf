"""The state machine of the metadata index is proved for any number of blocks, jobs and units; without a safeguard it is not."""

import pytest

from highwater.model.proofs import metadata_fsm as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import metadata_fsm as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)
    assert proof.disabled == ("Show",)


FAILING = [
    ("TOMB_CHECK", "Add", "AtMostOne"), ("KEEP_REMOVED", "Add", "AtMostOne"), ("KEEP_GONE", "Forget", "ShownIsKnown"),
    ("HORIZON", "Add", "AtMostOne"), ("CLOCK", "Elect", "ShownIsKnown"), ("BLOCK_STATE", "Add", "OneJobPerSource"),
    ("ONE_WINDOW", "NewJob", "LiveHasOneWindow"),
    ("SOURCES_WAIT", "LateJob", "OneJobPerSource"), ("TERM_CHECK", "LateJob", "DeposedChangesNothing"),
    ("TX", "Worker.Complete", "AtLeastOne"), ("TOKEN", "Worker.Complete", "LostJobChangesNothing"),
    ("JOB_EXISTS", "Worker.Complete", "WorkIsVisible"), ("REQUEUE", "Evict", "NothingIsLeftOut"),
    ("DROPPED", "Add", "DroppedShowsNothing"), ("DROPPED_KEPT", "ForgetUnit", "RanIsThere"),
    ("SHARD_PREFIX_BOUND", "Sweep", "NoDangling"), ("CONFIRM", "Worker.Complete", "RemovedIsBuried"),
    ("TAKE_BACK", "Evict", "RemovedIsBuried"),
]


@pytest.mark.parametrize("off, action, clause", FAILING, ids=str)
def test_with_a_safeguard_off_it_is_not(off, action, clause):
    proof = proofs.prove(m.Constants(**{off: False}), timeout_ms=2_000)
    row = next(row for row in proof.rows if (row.action, row.clause) == (action, clause))
    assert row.verdict == "fails" and "\nfails of " in row.counterexample


def test_every_safeguard_is_switched_off():
    assert {off for off, *_ in FAILING} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 600) for instance in proofs.INSTANCES]
    ties.append(instances.tie(proofs, m.Constants(TX=False), nearest=300))
    assert not any(tie.mismatches for tie in ties)
    every = {f"{role}.{action}" if role else action for role, actions in proofs.ACTIONS.items() for action in actions}
    assert every == frozenset().union(*(tie.actions for tie in ties))


@pytest.mark.parametrize("off", sorted(proofs.SAFEGUARDS))
def test_the_relation_is_the_models_with_a_safeguard_off(off):
    c = m.Constants(TRUNCATES=1, AGES=1, EVICTS=1, MAX_LATE=1, MAX_TERM=2, **{off: False})
    tie = instances.tie(proofs, c, nearest=300)
    assert not tie.mismatches, tie.mismatches
