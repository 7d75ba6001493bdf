"""The reader of a database is proved for any number of readers; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import db_reader as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.protocols import db_reader as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


FAILING = [
    ({"PIN_BEFORE_READ": False}, "Look"), ({"LAST_SEEN": False}, "Pin"), ({"KEEP_OLD_UNTIL_READ": False}, "Release"),
    ({"REPLAY_SKIPS_SEQ": False}, "Replay"), ({"PURGE_BY_SEQ": False}, "Pin"), ({"REPLACE_AFTER_BUILT": False}, "Pin"),
]


@pytest.mark.parametrize("off, action", FAILING, ids=str)
def test_with_a_safeguard_off_it_is_not(off, action):
    """Only the action that breaks the invariant is checked, because all actions would take long."""
    constants = m.Constants(**off)._replace(**proofs.UNBOUNDED)
    system = proofs.SYSTEM._replace(actions={"Reader": {action: proofs.ACTIONS["Reader"][action]}})
    proof = inductive.prove(system, constants)
    assert f"Reader.{action}" in {row.action for row in proof.rows if row.verdict == "fails"}


def test_every_safeguard_is_switched_off():
    """SEES_LOSS is of liveness alone: a reader that stays away shows what it has."""
    assert [off for off, _ in FAILING] == [*proofs.SAFEGUARDS_OFF]
    assert {name for off in proofs.SAFEGUARDS_OFF for name in off} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance), 1_500) for instance in proofs.INSTANCES]
    ties.append(instances.tie(proofs, m.Constants(PIN_BEFORE_READ=False), nearest=300))
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert not any(tie.mismatches for tie in ties)
    assert actions == frozenset().union(*(tie.actions for tie in ties))
