"""Destruction is proved for any number of writers, checkpoints and operators; without a safeguard the proof fails."""

import pytest

from highwater.model.proofs import destroy as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import destroy as m

BREAKS = {  # safeguard -> a clause that some action breaks without it
    "CHECK_PINS": ("Operator.Mark", "HardIsFree"), "CHECK_AND_MARK_IN_ONE_CAS": ("Operator.Mark", "HardIsFree"),
    "REFUSE_PINS": ("Client.Pin", "HardIsFree"), "CLAIM_EPOCH": ("Writer.Commit", "NothingIsWrittenAfterTheMark"),
    "KEEP_GRACE": ("Operator.Check", "CheckedIsOver"), "SEAL": ("Operator.Seal", "LatestIsThere"),
    "KEEP_TOMBSTONE": ("Operator.DeleteTombstone", "GoneIsSealed"),
    "MANIFEST_LAST": ("Operator.DeleteManifest", "ManifestLast"),
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
    tie = instances.tie(proofs, m.Constants(**{"MAX_ID": 3, "MARKS": 1, **off}), nearest=100)
    assert not tie.mismatches, tie.mismatches


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), nearest=60) for instance in proofs.INSTANCES]
    assert not [tie.mismatches for tie in ties if tie.mismatches]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert frozenset().union(*(tie.actions for tie in ties)) == actions
