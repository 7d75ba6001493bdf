"""The sequenced write protocol is proved for any number of clients, in both uses; without a safeguard the proof fails."""

import pytest

from highwater.model.proofs import sequenced_write as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.protocols import sequenced_write as m


@pytest.mark.parametrize("which", proofs.SYSTEMS.values(), ids=str)
def test_it_is_proved(which):
    proof = proofs.prove(**which)
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_with_a_safeguard_off_it_is_not(off):
    assert proofs.prove(m.Constants(**off), explain=False).failing


@pytest.mark.parametrize("off", proofs.SAFEGUARDS_OFF, ids=str)
def test_the_relation_is_the_model_with_a_safeguard_off(off):
    tie = instances.tie(proofs, m.Constants(**{"COMMITS": 1, "READERS": 1, "MAX_LOST": 1, **off}), nearest=300)
    assert not tie.mismatches, tie.mismatches


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance)) for instance in proofs.INSTANCES]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert frozenset().union(*(tie.actions for tie in ties)) == actions - {"Writer.Begin", "Writer.Skip"}


def test_query_that_was_given_up_is_tried_with_seeds(monkeypatch):
    """Z3 gave up on one query of a proof in one process, and answered it at once in another."""
    asked, verdict_of = [], inductive.verdict_of

    def gives_up_once(solver, *assumptions):
        asked.append(solver)
        return "timeout" if len(asked) == 1 else verdict_of(solver, *assumptions)

    monkeypatch.setattr(inductive, "verdict_of", gives_up_once)
    assert {row.verdict for row in proofs.prove(explain=False).rows} == {"proved"} and len({*map(id, asked[:2])}) == 2
