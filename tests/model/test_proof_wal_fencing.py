"""The WAL of one writer at a time is proved for any number of writers; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import wal_fencing as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.protocols import wal_fencing as m


@pytest.mark.parametrize("which", proofs.SYSTEMS.values(), ids=str)
def test_it_is_proved(which):
    proof = proofs.prove(**which)
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)
    assert proof.disabled == ("Writer.ListAgain",)


@pytest.mark.parametrize("spared", [{"MISSING_IS_FENCED": False}, {"FENCE_GC": False}], ids=str)
def test_what_is_not_needed_where_a_replay_is_judged_when_it_is_over_and_appends_are_checked(spared):
    assert proofs.prove(m.Constants(**spared), explain=False).holds


@pytest.mark.parametrize("off, action, clause", [
    ({"CREATE_IF_ABSENT": False}, "Writer.CreateNext", "ObjectIsFirst"),
    ({"MANIFEST_CAS": False}, "Writer.Claim", "OneWriterPerEpoch"),
    ({"ORDER": "fence"}, "Writer.Claim", "AckedIsBeforeFence"),
    ({"FENCE_AHEAD": False}, "Writer.List", "WriterKnowsIds"),
    ({"VALIDATE": "before"}, "Writer.ReadNext", "ReplayIsFirst"),
    ({"VALIDATE": "none"}, "Writer.ReadNext", "AckedIsHad"),
    ({"CHECK": "boundary"}, "Writer.Accept", "OneWriterAcks"),
    ({"CHECK": "none"}, "Writer.CreateNext", "AckedIsFirst"),
    ({"RESOLVE_ONCE": False}, "Writer.CreateFence", "WriterHasItsEpoch"),
    ({"FLUSH_EXACT": False}, "Writer.FlushNext", "FlushedIsFirst"),
    ({"EPOCH_CHECK": False}, "Writer.RereadCurrent", "BaseIsPast"),
    ({"GC_BEHIND": False}, "Collector.Delete", "IdsAreContiguous"),
    ({"SPARE_CHECKPOINTED": False}, "Collector.Delete", "CheckpointIsWhole"),
    ({"UNKNOWN": "conclude"}, "Writer.ReadOther", "RefusedIsNowhere"),
    ({"UNKNOWN": "refuse"}, "Writer.CreateConflict", "RefusedIsNowhere"),
    ({"UNKNOWN": "skip"}, "Writer.SendCreate", "WriterKnowsIds"),
    ({"FENCE": False, "CHECK": "none"}, "Writer.CreateNext", "AckedIsFirst"),
    ({"FENCE_GC": False, "CHECK": "none"}, "Writer.ReadOwn", "OneWriterAcks"),
    ({"MISSING_IS_FENCED": False, "VALIDATE": "before"}, "Writer.ReadMissing", "ReplayIsWhole"),
], ids=str)
def test_with_a_safeguard_off_it_is_not(off, action, clause):
    """Only the action that breaks the invariant is checked, because all actions would take long."""
    assert off in proofs.SAFEGUARDS_OFF
    role, of = action.split(".")
    system = proofs.SYSTEM._replace(actions={role: {of: proofs.ACTIONS[role][of]}})
    proof = inductive.prove(system, m.Constants(**off)._replace(**proofs.UNBOUNDED), explain=False)
    assert (action, clause) in {(row.action, row.clause) for row in proof.rows if row.verdict == "fails"}


def test_every_safeguard_is_switched_off():
    assert {name for off in proofs.SAFEGUARDS_OFF for name in off} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    ties = [instances.tie(proofs, m.Constants(**instance))
            for instance in (*proofs.INSTANCES, {"RESOLVE_ONCE": False, "COLLECTORS": 0})]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert actions == frozenset().union(*(tie.actions for tie in ties)) and not any(tie.mismatches for tie in ties)
