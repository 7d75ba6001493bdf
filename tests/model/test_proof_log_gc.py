"""The log whose entries are collected is proved for any number of clients; with a safeguard off the proof fails."""

import pytest

from highwater.model.proofs import log_gc as proofs
from highwater.model.proofs.engine import inductive, instances
from highwater.model.proofs.engine.cti import Finder
from highwater.model.protocols import log_gc as m


@pytest.mark.parametrize("which", proofs.SYSTEMS.values(), ids=str)
def test_it_is_proved(which):
    proof = proofs.prove(**which)
    assert proof.holds, (proof.failing, proof.impossible)
    assert {row.clause for row in proof.rows if row.action == "Property"} == set(m.ALWAYS)


@pytest.mark.parametrize("off, role, action", [
    ({"GC": "min_age"}, "Appender", "CreateNext"), ({"CHECK": "off"}, "Appender", "CreateNext"),
    ({"CHECK": "before"}, "Appender", "CreateNext"), ({"BOUNDARY_FIRST": False}, "Collector", "Delete"),
    ({"CONDITIONAL_ADVANCE": False}, "Collector", "Advance"), ({"SNAPSHOT_FIRST": False}, "Collector", "ListSnapshots"),
    ({"KEEP_LATEST": False}, "Property", "EndIsKnown"), ({"KEEP_SNAPSHOT": False}, "Collector", "DeleteSnapshot"),
    ({"CHECK_READS": False}, "Reader", "ReadEnd"), ({"REAPPEND": True}, "Appender", "Reject"),
], ids=str)
def test_with_a_safeguard_off_it_is_not(off, role, action):
    """Only the action that breaks the invariant is checked, because all actions would take long."""
    assert off in proofs.SAFEGUARDS_OFF
    actions = {} if role == "Property" else {role: {action: proofs.ACTIONS[role][action]}}
    constants = m.Constants(**off)._replace(**proofs.UNBOUNDED)
    proof = inductive.prove(proofs.SYSTEM._replace(actions=actions), constants, explain=False)
    wrong = {(row.action, row.clause) for row in proof.rows if row.verdict == "fails"}
    assert ("Property", action) in wrong if role == "Property" else f"{role}.{action}" in {name for name, _ in wrong}


def test_a_state_can_be_written_where_the_clauses_do_not_say_what_an_entry_holds():
    finder = Finder(proofs.SYSTEM, m.Constants(CHECK="off")._replace(**proofs.UNBOUNDED))
    text = finder.find(proofs.CLAUSES["AckedIsFirst"], "Appender.CreateNext", "Appender", "CreateNext")
    assert "fails of " in text or "They are written as:\nlog " in text, text


def test_every_safeguard_is_switched_off():
    assert {name for off in proofs.SAFEGUARDS_OFF for name in off} | {"END"} == proofs.SAFEGUARDS


def test_every_action_is_compared():
    """Also what takes two snapshots or the other check, of which the smallest instances have a safeguard off."""
    off = ({"CHECK": "before", "MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary"},
           {"KEEP_SNAPSHOT": False, "APPENDERS": 1, "ENTRIES": 2},
           {"KEEP_SNAPSHOT": False, "APPENDERS": 1, "MAX_ID": 1, "KEEP_LATEST": False, "MAX_PENDING": 1})
    ties = [instances.tie(proofs, m.Constants(**instance), 1_000) for instance in proofs.INSTANCES]
    ties += [instances.tie(proofs, m.Constants(**instance)) for instance in off]
    actions = {f"{role}.{action}".lstrip(".") for role, those in proofs.ACTIONS.items() for action in those}
    assert actions == frozenset().union(*(tie.actions for tie in ties)) and not any(tie.mismatches for tie in ties)
