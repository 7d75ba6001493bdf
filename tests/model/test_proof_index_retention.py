"""Retention is proved for any number of blocks, units, tenants and cleaners; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import index_retention as proofs
from highwater.model.proofs.engine import instances
from highwater.model.protocols import index_retention as m


def test_it_is_proved():
    proof = proofs.prove()
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


FAILING = [
    ("UNIT_VERSION", "Cleaner.Truncate", "OnlyReadIsDropped"), ("TERM_CHECK", "Cleaner.Truncate", "DeposedChangesNothing"),
    ("DROPPED", "Add", "DroppedStaysDropped"), ("FLOOR_KEPT", "ForgetUnit", "BuriedIsOver"),
    ("DROPPED_KEPT", "ForgetUnit", "BuriedIsOver"), ("TOO_OLD", "Add", "BuriedShowsNothing"),
    ("SHARD_PREFIX_BOUND", "Sweep", "NoDangling"), ("WINDOW_END", "Cleaner.Truncate", "NothingIsDroppedEarly"),
    ("MAX_TIME", "Cleaner.Truncate", "NothingIsDroppedEarly"), ("LONGEST", "Cleaner.Truncate", "NothingIsDroppedEarly"),
    ("NEVER", "Cleaner.Truncate", "NothingIsDroppedEarly"),
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
    assert not any(tie.mismatches for tie in ties)
    every = {f"{role}.{action}" if role else action for role, actions in proofs.ACTIONS.items() for action in actions}
    assert every == frozenset().union(*(tie.actions for tie in ties))


@pytest.mark.parametrize("off", sorted(proofs.SAFEGUARDS))
def test_the_relation_is_the_models_with_a_safeguard_off(off):
    c = m.Constants(DATA=2, WINDOWS=2, TENANTS=2, PERIODS=2, JOBS=2, AHEAD=1, MAX_TERM=2, MAX_NOW=5, **{off: False})
    tie = instances.tie(proofs, c, nearest=300)
    assert not tie.mismatches, tie.mismatches
