"""The replicated log of Raft: the model's sizes, what breaks it, how soon, and what is no harm."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.raft import ALWAYS, Constants, agree, committed, last, model


def labels(trace):
    return [(label[0], label[1], *label[2]) for label, _ in trace[1:]]


def followed(constants, *steps):
    """Return the states of a story: the processes, their actions and choices are given."""
    of, states = model(constants), [init(model(constants))]
    for who, action, *choices in steps:
        label = (f"Server#{who}", action, tuple(choices))
        states.append(next(state for taken, state in moves(of, states[-1]) if taken == label))
    return states


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 3_213, 6_246), ({"CANDIDATES": 3}, 10_620, 20_811), ({"ELECTED": True, "MAX_LOG": 2}, 2_720, 7_255),
    ({"ELECTED": True, "RESTARTS": 1}, 1_212, 3_198), ({"ELECTED": True, "INSTALLED": 1}, 511, 976),
    ({"ELECTED": True, "TORN": 1}, 349, 654), ({"SERVERS": 1, "CANDIDATES": 1}, 17, 16)])
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated) == (states, transitions, None)


def test_the_reference_explorer_agrees():
    assert plainly(model(Constants(ELECTED=True))) == explore(model(Constants(ELECTED=True)))


@pytest.mark.parametrize("off, changed, property_, steps", [
    ("VOTE_ONCE", {}, "OneLeaderPerTerm", 6), ("MAJORITY", {}, "OneLeaderPerTerm", 4),
    ("UP_TO_DATE", {}, "LeaderCompleteness", 9),
    ("PREV_MATCH", {"MAX_LOG": 2}, "LogMatching", 10), ("COMMIT_MATCHED", {"LEARNED": 1}, "AppliedIsCommitted", 11),
    ("SYNC_VOTE", {"RESTARTS": 1}, "OneLeaderPerTerm", 6), ("SYNC_LOG", {"RESTARTS": 1}, "CommittedIsDurable", 7),
    ("SYNC_OWN", {"AHEAD": 1}, "CommittedIsDurable", 6), ("SNAPSHOT_COMMITTED", {"INSTALLED": 1}, "CommittedIsDurable", 11)])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, property_, steps):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (property_, steps)


def test_what_is_lost_at_a_restart_becomes_a_leader_that_lacks_it():
    """CommittedIsDurable says so at once. The other properties see it when the server that lost its log has voted."""
    of = model(Constants(SYNC_LOG=False, RESTARTS=1))
    found = explore(of._replace(always={name: ALWAYS[name] for name in ALWAYS if name != "CommittedIsDurable"}))
    assert (found.violated, len(found.trace) - 1) == ("LeaderCompleteness", 10)


FIGURE_8 = [
    (0, "Propose", True), (0, "Timeout"), (0, "Timeout"), (1, "Timeout"), (2, "Grant", 2, 1), (1, "BecomeLeader"),
    (1, "Propose", True), (1, "Timeout"), (1, "Timeout"), (2, "Grant", 3, 0), (0, "BecomeLeader"), (2, "Accept", 3, 1)]


def test_figure_8_of_the_raft_paper():
    """An entry of an earlier term is on two of three disks. If that commits it, the next leader lacks what is committed."""
    story = [*FIGURE_8, (0, "AdvanceCommit", 1), (0, "Grant", 4, 1), (1, "BecomeLeader")]
    shared, _ = followed(Constants(ELECTED=True, MAX_TERM=4, OWN_TERM=False), *story)[-1]
    assert len(story) == 15 and shared.logs == ((1,), (2,), (1,)) and committed(shared) == [(3, (1,))]
    fails = [name for name in ("OneLeaderPerTerm", "LogMatching", "LeaderCompleteness", "StateMachineSafety")
             if not ALWAYS[name][1](Constants(), shared)]
    assert fails == ["LeaderCompleteness"]


def test_with_own_term_figure_8_commits_nothing():
    safe = Constants(ELECTED=True, MAX_TERM=4)
    state = followed(safe, *FIGURE_8)[-1]
    assert "AdvanceCommit" not in {label[1] for label, _ in moves(model(safe), state)}


def test_an_entry_of_an_earlier_term_is_committed_with_one_of_the_leaders_own():
    """Server 1 has the entry of term 1 that nobody committed. It leads term 2, appends, and commits both."""
    story = [(0, "Propose", True), (1, "Accept", 1, 1), (1, "Timeout"), (2, "Grant", 2, 1), (1, "BecomeLeader"),
             (1, "Propose", True), (2, "Accept", 2, 2), (1, "AdvanceCommit", 2)]
    shared, _ = followed(Constants(ELECTED=True, MAX_LOG=2), *story)[-1]
    assert committed(shared) == [(2, (1, 2))]


def test_a_leader_commits_what_is_not_yet_on_its_own_disk():
    """Two followers have it. The leader's own sync may come later, or never."""
    story = [(0, "Propose", False), (1, "Accept", 1, 1), (2, "Accept", 1, 1), (0, "AdvanceCommit", 1)]
    shared, _ = followed(Constants(ELECTED=True, AHEAD=1), *story)[-1]
    assert shared.logs == ((), (1,), (1,)) and shared.commits == {(1, 1)}


def test_a_late_append_of_an_earlier_leader_is_refused_and_a_conflicting_tail_is_cut():
    of = Constants(ELECTED=True, MAX_LOG=2)
    story = [(0, "Propose", True), (1, "Timeout"), (2, "Grant", 2, 1), (1, "BecomeLeader"), (1, "Propose", True)]
    states = followed(of, *story)
    assert (2, "Accept", 1, 1) not in {(int(label[0][-1]), label[1], *label[2]) for label, _ in moves(model(of), states[-1])}
    shared, _ = followed(of, *story, (0, "Accept", 2, 1))[-1]
    assert shared.logs == ((2,), (2,), ())


def test_a_shorter_accept_cuts_nothing_that_is_not_in_conflict():
    story = [(0, "Propose", True), (0, "Propose", True), (1, "Accept", 1, 2)]
    shared, _ = followed(Constants(ELECTED=True, MAX_LOG=2), *story)[-1]
    assert shared.acks == {(1, 0, 2), (1, 1, 2)} and shared.logs[1] == (1, 1)


DEPOSED = [(0, "Propose", True), (2, "Accept", 1, 1), (0, "AdvanceCommit", 1), (1, "Timeout")]


def test_the_snapshot_of_a_deposed_leader_may_still_be_installed():
    """Server 1 stands for election in term 2, and then has the snapshot of term 1 on its disk: its term and vote stay. Its
    candidacy had an empty log, so it is none any more."""
    shared, servers = followed(Constants(ELECTED=True, INSTALLED=1), *DEPOSED, (1, "Install", 1, 1))[-1]
    assert shared.logs == ((1,), (1,), (1,)) and servers[1] == ("Follower", 2, 1, 0)
    assert (2, 1, ()) in shared.cands and (1, 1, 1) not in shared.acks


def test_a_snapshot_of_a_later_entry_brings_its_term():
    story = [(0, "Timeout"), (1, "Grant", 2, 0), (0, "BecomeLeader"), (0, "Propose", True), (1, "Accept", 2, 1),
             (0, "AdvanceCommit", 1), (2, "Install", 2, 1)]
    shared, servers = followed(Constants(ELECTED=True, INSTALLED=1), *story)[-1]
    assert shared.logs[2] == (2,) and servers[2] == ("Follower", 2, None, 0)


def test_what_the_log_has_of_a_snapshot_is_not_installed():
    of = Constants(ELECTED=True, INSTALLED=1)
    state = followed(of, *DEPOSED)[-1]
    assert {label[0] for label, _ in moves(model(of), state) if label[1] == "Install"} == {"Server#1"}


def test_a_torn_write_leaves_neither_the_old_entries_nor_the_new_ones():
    """Server 0 was to have entry 2 of server 1 in the place of its own entry."""
    story = [(0, "Propose", True), (1, "Timeout"), (2, "Grant", 2, 1), (1, "BecomeLeader"), (1, "Propose", True),
             (0, "Timeout"), (0, "Tear", 0)]
    shared, servers = followed(Constants(ELECTED=True, TORN=1), *story)[-1]
    assert shared.logs == ((), (2,), ()) and servers[0] == ("Follower", 2, 0, 0)
    of = Constants(ELECTED=True, TORN=1)
    assert not [label for label, _ in moves(model(of), followed(of, *story[:-2])[-1]) if label[1] == "Tear"]


def test_a_bound_of_none_is_not_counted():
    c = Constants(CANDIDATES=None, MAX_TERM=None, MAX_LOG=None, AHEAD=None, LEARNED=None, SEEN=None,
                  INSTALLED=None, RESTARTS=None, TORN=None)
    story = [(2, "Timeout"), (1, "Grant", 1, 2), (2, "BecomeLeader"), (2, "Propose", False), (1, "Accept", 1, 1),
             (2, "Accept", 1, 1), (2, "AdvanceCommit", 1), (1, "LearnCommit", 1), (1, "Restart", 1), (0, "SeeTerm", 1),
             (0, "Install", 1, 1)]
    shared, servers = followed(c, *story)[-1]
    assert (shared.restarts, shared.ahead, shared.learned, shared.seen, shared.installed, shared.torn) == (0, 0, 0, 0, 0, 0)
    assert [server.commit for server in servers] == [0, 0, 1] and {server.term for server in servers} == {1}


@pytest.mark.parametrize("log, other, later", [
    ((), (1,), False), ((2,), (1, 1, 1), True), ((1, 1), (1,), True), ((1,), (1,), True)])
def test_a_log_ends_later_by_its_last_term_and_then_by_its_length(log, other, later):
    assert (last(log) >= last(other)) is later


@pytest.mark.parametrize("a, b, same", [((), (1,), True), ((1, 2), (1,), True), ((1, 2), (1, 3), False)])
def test_logs_agree_as_far_as_both_reach(a, b, same):
    assert agree(a, b) is same
