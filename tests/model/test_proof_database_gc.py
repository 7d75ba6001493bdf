"""The collector of a database is proved for any number of clients; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import database_gc as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.protocols import database_gc as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


FAILING = [
    ({"ORDER": m.ORDERS[1]}, "Collector", "ListSsts"), ({"ORDER": m.ORDERS[2]}, "Collector", "ReadManifest"),
    ({"L0_CUTOFF": False}, "Collector", "ReadManifest"), ({"COMPACTION_CUTOFF": False}, "Collector", "ReadManifest"),
    ({"REFUSE_OLDER": False}, "Writer", "Commit"), ({"KEEP_NEWEST": False}, "Compactor", "Apply"),
    ({"OUTPUT_AFTER": False}, "Compactor", "Output"),
    ({"CLAIM_FIRST": False}, "Compactor", "Output"), ({"FINISH_LAST": False}, "Compactor", "Finish"),
    ({"EPOCH_CHECK": False}, "Compactor", "Apply"), ({"SPARE_LATEST": False}, "Collector", "ReadManifest"),
    ({"SPARE_CHECKPOINTED": False}, "Collector", "ReadManifest"), ({"SPARE_LISTED": False}, "Collector", "ReadManifest"),
    ({"SPARE_SEEN": False}, "Collector", "ReadManifest"),
]


@pytest.mark.parametrize("off, role, action", FAILING, ids=str)
def test_with_a_safeguard_off_it_is_not(off, role, action):
    """Only the action that breaks the invariant is checked, because all actions would take long."""
    constants = m.Constants(**off, KINDS="ssts manifests wal")._replace(**proofs.UNBOUNDED)
    system = proofs.SYSTEM._replace(actions={role: {action: proofs.ACTIONS[role][action]}})
    proof = inductive.prove(system, constants)
    assert f"{role}.{action}" in {row.action for row in proof.rows if row.verdict == "fails"}


def test_every_safeguard_is_switched_off():
    """CLEAR is of liveness alone: what a dead compactor has listed keeps more, and never less."""
    assert [off for off, _, _ in FAILING] == [*proofs.SAFEGUARDS_OFF]
    assert {name for off in proofs.SAFEGUARDS_OFF for name in off} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 1_500) for instance in proofs.INSTANCES]
    actions = {f"{role}.{action}" for role, those in proofs.ACTIONS.items() for action in those}
    assert not any(tie.mismatches for tie in ties)
    assert actions == frozenset().union(*(tie.actions for tie in ties))
