"""The compaction queue: the model's sizes, what breaks it, how soon, and what happens in the end."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import eventually
from highwater.model.protocols.compaction_queue import Constants, model


def followed(constants, *steps):
    """Return the last state of a story. A step is an action of the index, or a worker's number and its action."""
    of, state = model(constants), init(model(constants))
    for step in steps:
        label = (f"Worker#{step[0]}", step[1], ()) if isinstance(step[0], int) else ("", step[0], step[1:])
        state = next((state for taken, state in moves(of, state) if taken == label), None)
        assert state is not None, f"{label} is not possible"
    return state


def live(**changed):
    return eventually(model(Constants(**changed)))["WaitingIsCompacted"]


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 28, 42), ({"BAD": 1}, 46, 65), ({"WORKERS": 2, "MAX_STALLS": 1}, 257, 618),
    ({"WORKERS": 2, "MAX_STALLS": 1, "BAD": 1, "MAX_DEATHS": 1}, 795, 2_050)])
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, ())


def test_the_reference_explorer_agrees():
    assert plainly(model(Constants(BAD=1, MAX_LOST=1))) == explore(model(Constants(BAD=1, MAX_LOST=1)))


@pytest.mark.parametrize("off, changed, steps, violated", [
    ("REQUEUE", {"BAD": 1}, 8, "EachBatchOnce"), ("HEARD", {"MAX_LOST": 1}, 6, "LostAnswerIsNoFailure"),
    ("TOKEN", {"WORKERS": 2, "MAX_STALLS": 1}, 6, "LostJobChangesNothing"),
    ("JOB_EXISTS", {"WORKERS": 2, "MAX_STALLS": 1}, 7, "EachBatchOnce")])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps, violated):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (violated, steps)


@pytest.mark.parametrize("changed", [
    {}, {"BAD": 1, "MAX_DEATHS": 1, "MAX_LOST": 1}, {"BATCHES": 3, "BAD": 2}, {"BATCHES": 3, "BAD": 2, "JOBS": 2},
    {"WORKERS": 2, "MAX_STALLS": 1}, {"MAX_DEATHS": 2, "FAILURES": 2}], ids=str)
def test_what_waits_is_compacted_in_the_end(changed):
    assert live(**changed) is None


@pytest.mark.parametrize("off, changed", [
    ("EVICT_AT_LIMIT", {"BAD": 1}), ("EVICTED_LAST", {"BATCHES": 3, "BAD": 2}), ("RETRY_FAILED", {"MAX_DEATHS": 1})])
def test_without_it_something_waits_for_ever(off, changed):
    assert live(**changed) is None
    lasso = live(**changed, **{off: False})
    assert lasso is not None and lasso.violated == "WaitingIsCompacted"


BAD = [("Arrive", 0), (0, "Poll"), (0, "Poll"), (0, "Report"), (0, "DieOfJob"), ("Expire", 0)]


def test_a_failed_job_makes_room_and_waits_behind_the_others():
    state = followed(Constants(BAD=1), *BAD, ("Arrive", 1), (0, "Poll"))
    assert ([job.batch for job in state.shared.jobs], state.shared.queue) == ([1], (0,))


def test_a_failed_job_is_tried_again_after_a_poll_if_nothing_else_waits():
    state = followed(Constants(BAD=1), *BAD, (0, "Poll"))
    assert state.locals[0].batch is None and state.shared.jobs[0].paused
    assert followed(Constants(BAD=1), *BAD, (0, "Poll"), (0, "Poll")).locals[0].batch == 0


def test_a_lost_answer_is_no_failure():
    story = [("Arrive", 0), (0, "Poll"), (0, "LoseAnswer"), ("Expire", 0), (0, "Poll")]
    state = followed(Constants(MAX_LOST=1), *story)
    assert (state.locals[0].batch, state.shared.jobs[0].failures) == (0, 0)


def test_a_worker_that_has_lost_its_job_stops():
    c = Constants(WORKERS=2, MAX_STALLS=1)
    state = followed(c, ("Arrive", 0), (0, "Poll"), (0, "Poll"), (0, "Stall"), (1, "Poll"), (0, "Report"))
    assert (state.locals[0].batch, state.shared.jobs[0].holder) == (None, 1)


def test_a_bound_of_none_is_not_counted():
    c = Constants(MAX_DEATHS=None, MAX_LOST=None, MAX_STALLS=None)
    state = followed(c, ("Arrive", 1), (0, "Poll"), (0, "LoseAnswer"), ("Expire", 1), (0, "Poll"), (0, "Stall"), (0, "Die"))
    assert (state.shared.deaths, state.shared.lost, state.shared.stalls) == (0, 0, 0)
