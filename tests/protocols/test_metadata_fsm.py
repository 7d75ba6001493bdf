"""The state machine of the metadata index: the model's sizes, what breaks it, how soon, and the stories that are told of it."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.metadata_fsm import Constants, model, raw, result_of

A, B = raw(0), raw(1)


def followed(constants, *steps):
    """Return the last state of a story: the processes, their actions and choices are given."""
    of, state = model(constants), init(model(constants))
    for who, action, *choices in steps:
        label = (who, action, tuple(choices))
        state = next((state for taken, state in moves(of, state) if taken == label), None)
        assert state is not None, f"{label} is not possible"
    return state


def possible(constants, state):
    return {(who, action, *choices) for (who, action, choices), _ in moves(model(constants), state)}


def added(*data):
    return [("", action, d) for d in data for action in ("Put", "Add")]


def compacted(*sources, who="Worker#0"):
    return [("", "NewJob", sources), (who, "Assign", sources), (who, "Run"), (who, "Complete")]


@pytest.mark.parametrize("changed, states, transitions, never", [
    ({}, 185, 313, ()), ({"WORKERS": 2}, 518, 983, ()), ({"BLOCKS": 3}, 2_218, 5_355, ()),
    ({"LEVELS": 2, "ASSIGNS": 3}, 3_064, 8_696, ()), ({"TRUNCATES": 1, "AGES": 2}, 6_567, 21_934, ())])
def test_size(changed, states, transitions, never):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, never)


def test_the_reference_explorer_agrees():
    assert plainly(model(Constants(EVICTS=1))) == explore(model(Constants(EVICTS=1)))


STORIES = [  # safeguard, instance, steps, what breaks
    ("TOMB_CHECK", {}, 7, "EachDatumOnce"), ("KEEP_REMOVED", {}, 9, "EachDatumOnce"),
    ("KEEP_GONE", {}, 10, "EachDatumOnce"), ("HORIZON", {"AGES": 1}, 11, "EachDatumOnce"),
    ("CLOCK", {"AGES": 1, "MAX_TERM": 2}, 12, "EachDatumOnce"), ("BLOCK_STATE", {}, 4, "OneJobPerSource"),
    ("ONE_WINDOW", {"WINDOWS": 2}, 8, "BlockHasOneWindow"),
    ("SOURCES_WAIT", {"MAX_LATE": 1}, 7, "OneJobPerSource"),
    ("TERM_CHECK", {"MAX_LATE": 1, "MAX_TERM": 2}, 5, "DeposedChangesNothing"), ("TX", {}, 6, "EachDatumOnce"),
    ("TOKEN", {"WORKERS": 2}, 7, "LostJobChangesNothing"), ("JOB_EXISTS", {"EVICTS": 1}, 7, "WorkIsVisible"),
    ("REQUEUE", {"EVICTS": 1}, 4, "NothingIsLeftOut"), ("DROPPED", {"TRUNCATES": 1}, 4, "DroppedStaysDropped"),
    ("DROPPED_KEPT", {"TRUNCATES": 1, "AGES": 2}, 17, "NoDangling"),
    ("SHARD_PREFIX_BOUND", {"TRUNCATES": 1, "WINDOWS": 2}, 6, "NoDangling"), ("CONFIRM", {}, 13, "RemovedIsBuried"),
    ("TAKE_BACK", {"EVICTS": 1}, 11, "RemovedIsBuried")]


@pytest.mark.parametrize("off, changed, steps, violated", STORIES)
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps, violated):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (violated, steps)


def test_each_safeguard_has_a_story():
    names = Constants._fields
    assert [off for off, *_ in STORIES] == list(names[names.index("TOMB_CHECK"):])


def test_a_block_that_was_compacted_is_not_added_again_though_its_tombstone_left():
    state = followed(Constants(), *added(0), *compacted(A), ("", "Delete", A), ("", "Confirm", A))
    assert not {("", "Add", 0), ("", "Forget", A)} & possible(Constants(), state)
    assert state.shared.visible == {result_of((A,))} and state.shared.removed == {A}


def test_it_is_forgotten_once_the_horizon_refuses_it():
    c = Constants(AGES=1)
    story = [*added(0), *compacted(A), ("", "Delete", A), ("", "Confirm", A), ("", "Age", 0), ("", "Forget", A)]
    state = followed(c, *story)
    assert not state.shared.removed and ("", "Add", 0) not in possible(c, state)


def test_a_result_whose_unit_was_dropped_is_removed_at_once():
    c = Constants(TRUNCATES=1)
    state = followed(c, *added(0, 1), *compacted(A), *compacted(B)[:-1], ("", "Truncate", (0, 1)), ("Worker#0", "Complete"))
    assert not state.shared.visible and result_of((B,)) in state.shared.removed and state.shared.expired == {0, 1}


def test_a_dropped_unit_stays_known_while_a_job_may_have_a_result_of_it():
    c = Constants(TRUNCATES=1, AGES=2)
    story = [*added(0, 1), *compacted(A), *compacted(B)[:-1], ("", "Truncate", (0, 1)), ("", "Age", 0), ("", "Age", 1)]
    assert ("", "ForgetUnit", (0, 1)) not in possible(c, followed(c, *story))
    assert ("", "ForgetUnit", (0, 1)) in possible(c, followed(c, *story, ("Worker#0", "Complete")))


def test_a_job_that_is_given_up_frees_its_tombstones_and_its_sources_wait():
    c = Constants(EVICTS=1)
    story = [*added(0, 1), *compacted(A), ("", "NewJob", (B,)), ("", "HandOut", (B,), A), ("", "Evict", (B,))]
    state = followed(c, *story)
    assert (state.shared.tombs, state.shared.queue) == ({(A, ())}, {B})


def test_a_plan_of_an_earlier_term_has_no_effect():
    c = Constants(MAX_LATE=1, MAX_TERM=2)
    story = [*added(0), ("", "Propose", (A,))]
    late = ("", "LateJob", ((A,), 1))
    assert late in possible(c, followed(c, *story))
    assert late not in possible(c, followed(c, *story, ("", "Elect")))


def test_results_are_compacted_again_below_the_highest_level():
    c = Constants(LEVELS=2, ASSIGNS=3)
    first, second = result_of((A,)), result_of((B,))
    state = followed(c, *added(0, 1), *compacted(A), *compacted(B), *compacted(first, second))
    assert state.shared.visible == {(2, (0, 1))} and not state.shared.queue


def test_a_bound_of_none_is_not_counted():
    c = Constants(ASSIGNS=None, TRUNCATES=None, AGES=None, EVICTS=None, MAX_LATE=None, MAX_TERM=None)
    story = [*added(0, 1), ("", "Propose", (A,)), ("", "Elect"), ("", "NewJob", (A, B)), ("", "Evict", (A, B)), ("", "Age", 0),
             ("", "Truncate", (0, 0))]
    state = followed(c, *story)
    assert (state.shared.evicts, state.shared.truncates, state.shared.proposals, state.shared.term) == (0, 0, 0, 2)
