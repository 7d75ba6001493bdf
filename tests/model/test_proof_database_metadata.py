"""The facts on which the projection of a database's metadata rests are proved. Each needs a clause of the invariant, and each
safeguard of the boundary."""

import pytest

from highwater.model.proofs import database_metadata as proof
from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.instances import tie


def test_the_facts_are_proved():
    found = proof.prove()
    assert found.holds and {row.clause for row in found.rows if row.action == "Property"} == set(proof.FACTS)


@pytest.mark.parametrize("off", proof.SAFEGUARDS_OFF, ids=str)
def test_without_a_safeguard_they_are_not(off):
    assert not proof.prove(proof.m.Constants(**off), explain=False).holds


RESTS_ON = {
    "DeletedIsBehindBoundary": {"LandingIsNext", "LandingHasLatest", "PendingIsNext", "PendingHasAll"},
    "BaseHasLatest": {"LandingHasLatest"},
    "PendingHasLatest": {"PendingHasAll"},
    "GotIsKept": {"GotIsOfHistory"},
    "ReadIsOfHistory": {"LandingHasLatest", "ReadIsOfHistory"},
}


@pytest.mark.parametrize("clause", RESTS_ON)
def test_each_fact_needs_a_clause_of_the_invariant(clause):
    clauses = {name: of for name, of in proof.CLAUSES.items() if name != clause}
    idle: dict = {role: {} for role in proof.SYSTEM.actions}
    c = proof.m.Constants()._replace(**proof.UNBOUNDED, ON_REFUSAL="recognised")
    found = inductive.prove(proof.SYSTEM._replace(clauses=clauses, actions=idle), c, explain=False)
    assert {row.clause for row in found.rows if row.action == "Property" and row.verdict == "fails"} == RESTS_ON[clause]


@pytest.mark.parametrize("constants", proof.INSTANCES, ids=str)
def test_the_clauses_hold_in_the_model(constants):
    found = tie(proof, proof.m.Constants(**constants))
    assert not found.mismatches and not found.broken
