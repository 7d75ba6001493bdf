"""Membership of Raft: the model's sizes, what breaks it and how soon, and the story of the bug of 2015."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.raft_membership import ALWAYS, Constants, members, model

RIVALS = Constants(START=4, LED=2, MAX_TERM=3, MAX_LOG=1, CHANGES=2, CANDIDATES=1)


def followed(constants, *steps):
    """Return the last state of a story: each step is (server, action, choices ..)."""
    of, state = model(constants), init(model(constants))
    for who, action, *choices in steps:
        wanted = (f"Server#{who}", action, tuple(choices))
        state = next((after for label, after in moves(of, state) if label == wanted), None)
        assert state is not None, f"{wanted} is not possible"
    return state


def violated(constants, state) -> set[str]:
    return {name for name, (_, holds) in ALWAYS.items() if not holds(constants, state.shared)}


@pytest.mark.parametrize("changed, states, transitions, never", [
    ({"SERVERS": 3}, 4_452, 11_442, ()),
    ({"SERVERS": 3, "START": 2}, 7_192, 20_175, ("ChangeIsUndone",)),
    ({"SERVERS": 3, "START": 2, "LED": 0, "CANDIDATES": 1}, 4_013, 11_043, ("ChangeIsUndone",))])
def test_size(changed, states, transitions, never):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, never)


def test_the_reference_explorer_agrees():
    small = Constants(SERVERS=3, START=2, MAX_LOG=1)
    assert plainly(model(small)) == explore(model(small))


@pytest.mark.parametrize("off, changed, property_, steps", [
    ("OWN_TERM_FIRST", RIVALS._asdict(), "LeaderCompleteness", 8),
    ("ONE_AT_A_TIME", {"SERVERS": 3, "MAX_LOG": 3, "CHANGES": 2}, "LeaderCompleteness", 9),
    ("ONE_SERVER", {"SERVERS": 3}, "LeaderCompleteness", 8),
    ("MEMBERS_ONLY", {"MAX_LOG": 0, "CHANGES": 0}, "OneLeaderPerTerm", 6)])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, property_, steps):
    found = explore(model(Constants(**{**changed, off: False})))
    assert (found.violated, len(found.trace) - 1) == (property_, steps)


# Servers 0 and 1 lead terms 1 and 2 of {0, 1, 2, 3}. Each removes another one, and is with one more server a majority then.
BUG = [(0, "Change", (0, 1, 2), True), (1, "Change", (0, 1, 3), True), (3, "Accept", 2, 1), (1, "AdvanceCommit", 1),
       (0, "Timeout"), (0, "Timeout"), (2, "Grant", 3, 0), (0, "BecomeLeader")]


def test_the_bug_of_2015_loses_what_is_committed():
    constants = RIVALS._replace(OWN_TERM_FIRST=False)
    assert violated(constants, followed(constants, *BUG[:-1])) == set()
    assert violated(constants, followed(constants, *BUG)) == {"LeaderCompleteness"}
    applied = [*BUG, (2, "Accept", 3, 1), (0, "AdvanceCommit", 1)]
    assert violated(constants, followed(constants._replace(MAX_LOG=2), *BUG, (0, "Propose", True), (2, "Accept", 3, 2),
                                        (0, "AdvanceCommit", 2))) == {"LeaderCompleteness", "StateMachineSafety"}
    with pytest.raises(AssertionError, match="AdvanceCommit"):  # the change is of term 1: it is not committed by counting
        followed(constants, *applied)


def test_with_the_safeguard_the_second_leader_commits_an_entry_of_its_own_first_and_the_first_is_not_elected():
    with pytest.raises(AssertionError, match="Change"):
        followed(RIVALS, *BUG)
    story = [(1, "Propose", True), (2, "Accept", 2, 1), (3, "Accept", 2, 1), (1, "AdvanceCommit", 1),
             (1, "Change", (0, 1, 3), True), (3, "Accept", 2, 2), (1, "AdvanceCommit", 2), (0, "Timeout"), (0, "Timeout")]
    constants = RIVALS._replace(MAX_LOG=2)
    state = followed(constants, *story)
    assert [label for label, _ in moves(model(constants), state) if label[1] == "Grant"] == []


def test_a_change_is_in_force_before_it_is_committed_and_a_new_leader_may_undo_it():
    constants = Constants(SERVERS=3)
    begin = [(0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1), (0, "Change", (0, 1), True)]
    state = followed(constants, *begin)
    assert [members(constants, log) for log in state.shared.logs] == [(0, 1), (0, 1, 2), (0, 1, 2)]
    undone = followed(constants, *begin, (1, "Timeout"), (2, "Grant", 2, 1), (1, "BecomeLeader"), (1, "Propose", True),
                      (0, "Accept", 2, 2))
    assert members(constants, undone.shared.logs[0]) == (0, 1, 2)


def test_a_learner_takes_entries_and_is_not_counted():
    constants = Constants(START=3)
    with pytest.raises(AssertionError, match="AdvanceCommit"):
        followed(constants, (0, "Propose", True), (3, "Accept", 1, 1), (0, "AdvanceCommit", 1))
    followed(constants, (0, "Propose", True), (3, "Accept", 1, 1), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1),
             (0, "Change", (0, 1, 2, 3), True), (3, "Accept", 1, 2), (1, "Accept", 1, 2), (0, "AdvanceCommit", 2))


def test_a_server_that_was_removed_before_the_last_change_does_not_stand_for_election():
    constants = Constants(SERVERS=3, CANDIDATES=3, MAX_LOG=3, CHANGES=2)
    removed = [(0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1), (0, "Change", (0, 1), True),
               (1, "Accept", 1, 2), (0, "AdvanceCommit", 2), (0, "Change", (0,), True), (2, "Accept", 1, 3)]
    with pytest.raises(AssertionError, match="Timeout"):
        followed(constants, *removed, (2, "Timeout"))
    followed(constants, *removed, (1, "Accept", 1, 3), (1, "Timeout"))


def test_only_a_server_that_an_uncommitted_change_removes_can_be_elected():
    """Servers 0 and 1. Server 0 removes itself, and loses its leadership before server 1 has the change."""
    constants = Constants(SERVERS=2, START=2, CANDIDATES=2, MAX_TERM=4, RESTARTS=1)
    alone = [(0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1), (0, "Change", (1,), True), (0, "Restart")]
    with pytest.raises(AssertionError, match="Grant"):
        followed(constants, *alone, (1, "Timeout"), (0, "Grant", 2, 1))
    followed(constants, *alone, (0, "Timeout"), (1, "Grant", 2, 0), (0, "BecomeLeader"), (1, "Accept", 2, 2))


def test_a_snapshot_carries_the_members():
    constants = Constants(SERVERS=3, INSTALLED=1)
    state = followed(constants, (0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1), (0, "Change", (0, 1), True),
                     (1, "Accept", 1, 2), (0, "AdvanceCommit", 2), (2, "Install", 1, 2))
    assert [members(constants, log) for log in state.shared.logs] == [(0, 1)] * 3


def test_a_change_that_its_leader_sent_before_its_own_sync_may_be_gone_after_a_restart():
    constants = Constants(SERVERS=3, AHEAD=1, RESTARTS=1)
    state = followed(constants, (0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1),
                     (0, "Change", (0, 1), False), (0, "Restart"))
    assert [members(constants, log) for log in state.shared.logs] == [(0, 1, 2)] * 3


def test_a_bound_of_none_is_not_counted():
    constants = Constants(SERVERS=3, CANDIDATES=None, MAX_TERM=None, MAX_LOG=None, CHANGES=None, AHEAD=None, SEEN=None,
                          INSTALLED=None, RESTARTS=None, TORN=None)
    state = followed(constants, (0, "Propose", True), (1, "Accept", 1, 1), (0, "AdvanceCommit", 1), (0, "Change", (0, 1), True),
                     (2, "Timeout"), (0, "SeeTerm", 2))
    assert (state.shared.changes, state.shared.seen) == (0, 0)
