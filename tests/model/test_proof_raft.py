"""Raft is proved for any number of servers, terms and entries; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import raft as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.protocols import raft as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)
    assert {row.clause for row in proof.rows if row.action == "Lemma"} == set(proofs.LEMMAS["Property"])


FAILING = [
    ("VOTE_ONCE", "Grant", {"VotesAreUnique", "VoteIsKnown"}), ("UP_TO_DATE", "Grant", {"VoteFact"}),
    ("VOTE_NEAR", "Grant", {"VoteIsKnown", "LatestIsKnown"}),
    ("MAJORITY", "BecomeLeader", {"TermHasNoLeader", "LaterIsVoted", "NeverChosen"}),
    ("OWN_TERM", "AdvanceCommit", {"CommitIsAcked"}),
    ("SYNC_VOTE", "Restart", {"VoteIsKnown", "CandidacyIsKnown", "LatestIsKnown", "DiskLog", "AckIsKnown", "Retained"}),
    ("PREV_MATCH", "Accept", {"DiskLog", "DiskMatches", "Retained"}),
    ("COMMIT_MATCHED", "LearnCommit", {"AppliedIsCommitted"}), ("SYNC_LOG", "Restart", {"Retained"}),
    ("SYNC_OWN", "Propose", {"Retained"}), ("SNAPSHOT_COMMITTED", "Install", {"Retained"}),
]


def of_action(off: str, action: str, explain: bool) -> inductive.Proof:
    """Prove with a safeguard off, for one action, because all actions would take long."""
    c = m.Constants(**{off: False})._replace(**proofs.UNBOUNDED)
    system = proofs.system(c)._replace(actions={"Server": {action: proofs.ACTIONS["Server"][action]}})
    return inductive.prove(system, c, explain=explain, timeout_ms=4_000)


@pytest.mark.parametrize("off, action, clauses", FAILING, ids=str)
def test_with_a_safeguard_off_it_is_not(off, action, clauses):
    assert {(name, clause) for name, clause in of_action(off, action, explain=False).failing} == {
        (f"Server.{action}", clause) for clause in clauses}


def test_every_safeguard_is_switched_off():
    assert {off for off, *_ in FAILING} == proofs.SAFEGUARDS


def test_a_failing_clause_is_shown_in_a_small_state():
    """The candidate's log is empty, and the voter has acknowledged an entry of term 1."""
    row, = [row for row in of_action("UP_TO_DATE", "Grant", explain=True).rows if row.verdict != "proved"]
    assert row.clause == "VoteFact" and row.counterexample.endswith("fails of t = 1, u = 2, n = 1")


def test_without_the_axiom_of_quorums_it_is_not_proved():
    c = m.Constants()._replace(**proofs.UNBOUNDED)
    system = proofs.SYSTEM._replace(axioms={}, actions={"Server": {"BecomeLeader": proofs.become_leader}})
    assert ("Server.BecomeLeader", "TermHasNoLeader") in inductive.prove(system, c, explain=False, timeout_ms=4_000).failing


def test_an_axiom_that_is_not_so_is_found():
    """A quorum of half of the servers need not meet another: the comparison with the model says so."""
    system = proofs.SYSTEM._replace(axioms={"Meet": lambda c, s, p, q: False})
    system.axioms["Meet"].__annotations__.update(p=proofs.Quorum, q=proofs.Quorum)
    c = m.Constants(MAX_LOG=0)
    assert "Meet" in instances.tying.tie(system, m.model(c), proofs.scope(c), 10).broken


def test_a_lemma_that_does_not_follow_is_not_used_in_silence():
    c = m.Constants()._replace(**proofs.UNBOUNDED)
    system = proofs.SYSTEM._replace(lemmas={"Server.Grant": {"Wrong": lambda c, s, w, t, who: s.ruled(t)}},
                                    actions={"Server": {"Grant": proofs.grant}})
    assert ("Server.Grant", "Wrong") in inductive.prove(system, c, explain=False, timeout_ms=4_000).failing


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 1_000) for instance in proofs.INSTANCES]
    assert not any(tie.mismatches for tie in ties)
    assert {f"Server.{action}" for action in proofs.ACTIONS["Server"]} == frozenset().union(*(tie.actions for tie in ties))


@pytest.mark.parametrize("off", [
    {"VOTE_ONCE": False}, {"UP_TO_DATE": False}, {"OWN_TERM": False}, {"SYNC_LOG": False, "RESTARTS": 1},
    {"PREV_MATCH": False, "MAX_LOG": 2}, {"COMMIT_MATCHED": False, "LEARNED": 1, "MAX_TERM": 1},
    {"SYNC_OWN": False, "AHEAD": 1}, {"SNAPSHOT_COMMITTED": False, "INSTALLED": 1, "MAX_TERM": 1}], ids=str)
def test_the_relation_is_the_models_with_a_safeguard_off(off):
    tie = instances.tie(proofs, m.Constants(**off), nearest=300)
    assert not tie.mismatches, tie.mismatches
