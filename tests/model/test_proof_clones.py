"""Clones are proved for any number and depth; without a safeguard the proof fails."""

import pytest

from highwater.model.proofs import clones as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import clones as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_with_a_safeguard_off_it_is_not(off):
    assert proofs.prove(m.Constants(**off), explain=False).failing


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_the_relation_is_the_model_with_a_safeguard_off(off):
    tie = instances.tie(proofs, m.Constants(**{"TRIES": 2, **off}), nearest=60)
    assert not tie.mismatches, tie.mismatches


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), nearest=400) for instance in proofs.INSTANCES]
    assert not any(tie.mismatches for tie in ties)
    assert frozenset().union(*(tie.actions for tie in ties)) == {
        f"{role}.{action}" for role, those in proofs.ACTIONS.items() for action in those}
