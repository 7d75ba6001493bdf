"""The relation of each proof is compared with its model; test_proof.py does it for the boundary protocol."""

from importlib import import_module

import pytest

from highwater.model.proofs.engine import instances

PROOFS = {name: import_module(f"highwater.model.proofs.{name}")
          for name in ("checkpoints", "consistent_read", "database_gc", "db_reader", "log_gc", "manifest_epochs",
                       "metadata_fsm", "index_retention", "raft", "sequenced_write", "wal_fencing")}
FAULTY = {"MAX_LOST": 1, "MAX_PENDING": 1}


def named(cases: list) -> list:
    return [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in cases]


@pytest.mark.parametrize("name, instance", named([(name, of) for name, proofs in PROOFS.items() for of in proofs.INSTANCES]))
def test_the_relation_is_the_model(name, instance):
    tie = instances.tie(PROOFS[name], PROOFS[name].m.Constants(**instance))
    assert tie.holds, (tie.broken, *tie.mismatches)


@pytest.mark.parametrize("name", PROOFS)
def test_so_it_is_on_long_walks(name):
    tie = instances.walked(PROOFS[name], PROOFS[name].m.Constants(**PROOFS[name].WALKED))
    assert tie.holds, (tie.broken, *tie.mismatches)


@pytest.mark.parametrize("name, off", named([(name, off) for name in ("log_gc", "wal_fencing")
                                             for off in PROOFS[name].SAFEGUARDS_OFF]))
def test_so_it_is_with_a_safeguard_off(name, off):
    tie = instances.tie(PROOFS[name], PROOFS[name].m.Constants(**FAULTY | off), nearest=300)
    assert not tie.mismatches, tie.mismatches
