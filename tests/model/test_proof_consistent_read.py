"""A consistent read is proved for any number of servers, terms and entries; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import consistent_read as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import consistent_read as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


FAILING = [
    ("WAIT_APPLIED", "Read", "ReadIsCurrent"), ("RECHECK", "Read", "ReadIsCurrent"),
    ("ROUND", "Index", "ConfirmedIsEnough"), ("FRESH", "Index", "ConfirmedIsEnough"),
    ("NOOP", "Elect", "LeaderKnowsBefore"), ("SAME_TERM", "Round", "ConfirmedIsEnough"),
    ("MAJORITY", "Elect", "LeadIsPromised"),
]


@pytest.mark.parametrize("off, action, clause", FAILING, ids=str)
def test_with_a_safeguard_off_it_is_not(off, action, clause):
    proof = proofs.prove(m.Constants(**{off: False}))
    row = next(row for row in proof.rows if (row.action, row.clause) == (f"Server.{action}", clause))
    assert row.verdict == "fails" and "\nfails of " in row.counterexample


def test_every_safeguard_is_switched_off():
    assert {off for off, *_ in FAILING} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 600) for instance in proofs.INSTANCES]
    ties.append(instances.tie(proofs, m.Constants(RECHECK=False, MAX_TERM=1), nearest=600))
    assert not any(tie.mismatches for tie in ties)
    assert {f"Server.{action}" for action in proofs.ACTIONS["Server"]} == frozenset().union(*(tie.actions for tie in ties))


@pytest.mark.parametrize("off", sorted(proofs.SAFEGUARDS))
def test_the_relation_is_the_models_with_a_safeguard_off(off):
    tie = instances.tie(proofs, m.Constants(**{off: False}), nearest=300)
    assert not tie.mismatches, tie.mismatches
