"""A consistent read over a replicated log: the model's sizes, what breaks it, how soon, and what is no harm."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.consistent_read import Constants, model


def followed(constants, *steps):
    """Return the last state of a story: the processes, their actions and choices are given."""
    of, state = model(constants), init(model(constants))
    for who, action, *choices in steps:
        label = (f"Server#{who}", action, tuple(choices))
        state = next(state for taken, state in moves(of, state) if taken == label)
    return state


def possible(constants, state):
    return {(int(who[-1]), action) for (who, action, _), _ in moves(model(constants), state)}


@pytest.mark.parametrize("changed, states, transitions, never", [
    ({}, 9_365, 26_352, ()), ({"MAX_TERM": 1}, 1_070, 2_836, ("LeaderIsStale",)), ({"RESTORES": 1}, 24_155, 83_123, ())])
def test_size(changed, states, transitions, never):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, never)


def test_the_reference_explorer_agrees():
    assert plainly(model(Constants(SERVERS=2))) == explore(model(Constants(SERVERS=2)))


@pytest.mark.parametrize("off, changed, steps", [
    ("WAIT_APPLIED", {}, 8), ("RECHECK", {"RESTORES": 1}, 9), ("ROUND", {}, 7), ("FRESH", {}, 8), ("NOOP", {}, 8),
    ("SAME_TERM", {"MAX_TERM": 3}, 9)])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == ("ReadIsCurrent", steps)


def test_half_of_the_servers_elect_two_leaders_of_one_term():
    found = explore(model(Constants(MAJORITY=False, MAX_TERM=1)))
    assert (found.violated, len(found.trace) - 1) == ("OneLeaderPerTerm", 3)


def test_two_terms_do_not_show_that_the_round_must_be_of_the_same_term():
    assert explore(model(Constants(SAME_TERM=False))).violated is None


A, B = (0, 2), (1, 2)  # quorums
DEPOSED = [(0, "Elect", A), (1, "Elect", B), (1, "Write", B), (1, "Apply"), (0, "Begin"), (0, "Index")]


def test_an_earlier_leader_that_has_not_heard_takes_an_index_and_is_not_confirmed():
    state = followed(Constants(), *DEPOSED)
    assert (state.shared.read.index, state.shared.read.must) == (0, 1)
    assert not {(0, "Round"), (0, "Read")} & possible(Constants(), state)


def test_a_leader_that_is_elected_again_does_not_confirm_its_earlier_index():
    state = followed(Constants(MAX_TERM=3), *DEPOSED, (0, "Elect", A))
    assert not {(0, "Round"), (0, "Read")} & possible(Constants(MAX_TERM=3), state)
    assert (0, "Round") in possible(Constants(MAX_TERM=3, SAME_TERM=False), state)


def test_a_follower_waits_for_the_index_and_serves():
    story = [(1, "Elect", B), (1, "Write", B), (1, "Apply"), (0, "Begin"), (1, "Index"), (1, "Round", B), (0, "Queue")]
    assert (0, "Read") not in possible(Constants(), followed(Constants(), *story))
    state = followed(Constants(), *story, (0, "Apply"), (0, "Read"))
    assert (state.shared.read.got, state.shared.read.at, state.shared.read.leader) == (1, 0, 1)


def test_a_restore_makes_the_read_wait_again():
    story = [(0, "Elect", A), (0, "Write", A), (0, "Apply"), (0, "Begin"), (0, "Index"), (0, "Round", A), (0, "Restore", 0)]
    c = Constants(RESTORES=1)
    assert (0, "Read") not in possible(c, followed(c, *story))
    assert followed(c, *story, (0, "Apply"), (0, "Read")).shared.read.got == 1


def test_a_bound_of_none_is_not_counted():
    c = Constants(CANDIDATES=None, ASKED=None, MAX_TERM=None, MAX_LOG=None, RESTORES=None)
    story = [(2, "Elect", A), (2, "Write", B), (2, "Write", A), (2, "Apply"), (2, "Restore", 0), (2, "Begin")]
    state = followed(c, *story)
    assert (state.shared.restores, state.shared.log, state.shared.acknowledged, state.shared.read.at) == (0, (1, 1), 1, 2)
