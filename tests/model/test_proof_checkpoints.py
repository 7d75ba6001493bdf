"""Checkpoints are proved for any number of clients, checkpoints, SSTs and collectors; without a safeguard the proof fails."""

import pytest

from highwater.model.proofs import checkpoints as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import checkpoints as m

BREAKS = {  # safeguard -> a clause that some action breaks without it
    "SPARE_CHECKPOINTED": ("Collector.Condemn", "OldIsFree"), "DROP_EXPIRED_FIRST": ("Collector.Condemn", "OldIsFree"),
    "SPARE_LATEST": ("Collector.Condemn", "DeadIsNotLatest"), "SPARE_SSTS": ("Collector.Condemn", "DeadIsFree"),
    "SOURCE_IN_SAME_CAS": ("Client.CreateFrom", "NothingIsUnreferencedTwice"),
    "REFRESH_NEEDS_ENTRY": ("Client.Refresh", "NothingIsUnreferencedTwice"), "RECOGNISE": ("Client.Create", "CheckpointOnce"),
    "SKEW_MARGIN": ("Collector.Drop", "LeaseIsHonoured"),
}


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_with_a_safeguard_off_it_is_not(off):
    name, = off
    assert BREAKS[name] in proofs.prove(m.Constants(**off), explain=False).failing


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_the_relation_is_the_model_with_a_safeguard_off(off):
    tie = instances.tie(proofs, m.Constants(**{"OPS": 1, "MAX_ID": 3, **off}), nearest=100)
    assert not tie.mismatches, tie.mismatches


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), nearest=60) for instance in proofs.INSTANCES]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert frozenset().union(*(tie.actions for tie in ties)) == actions
