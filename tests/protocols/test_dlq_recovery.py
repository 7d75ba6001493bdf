"""The dead letter queue: the model's sizes, what breaks it, how soon, and what happens in the end."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import eventually
from highwater.model.protocols.dlq_recovery import Constants, model


def followed(constants, *steps):
    """Return the last state of a story. A step is a client's name and its action, or an action of the index and a choice."""
    of, state = model(constants), init(model(constants))
    for step in steps:
        label = (step[0], step[1], step[2:]) if "#" in step[0] else ("", step[0], step[1:])
        state = next((state for taken, state in moves(of, state) if taken == label), None)
        assert state is not None, f"{label} is not possible"
    return state


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 39, 75), ({"BLOCKS": 2, "BAD": 1}, 529, 1_265), ({"AGES": 1}, 125, 273), ({"MAX_PENDING": 1}, 801, 3_497),
    ({"MAX_PENDING": 1, "AGES": 1}, 3_622, 16_245)], ids=str)
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, ())


def test_the_reference_explorer_agrees():
    c = Constants(BLOCKS=2, BAD=1, SWEEPERS=1, MAX_CRASHES=1)
    assert plainly(model(c)) == explore(model(c))


@pytest.mark.parametrize("off, changed, steps, violated", [
    ("DELETE_AFTER_ADD", {}, 4, "NothingIsLost"), ("DELETE_AFTER_COPY", {"BAD": 1}, 4, "NothingIsLost"),
    ("WAIT_COMMITTED", {"MAX_PENDING": 1}, 5, "NothingIsLost"), ("KEEP_REJECTED", {"BAD": 1}, 4, "NothingIsLost"),
    ("KEEP_ASIDE", {"AGES": 1}, 6, "NothingIsLost"), ("KNOWN", {}, 8, "AddedOnce"),
    ("HORIZON", {"AGES": 1}, 10, "AddedOnce")])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps, violated):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (violated, steps)


@pytest.mark.parametrize("changed", [
    {}, {"BLOCKS": 2, "BAD": 1}, {"AGES": 1, "MAX_CRASHES": 1}, {"BAD": 1, "MAX_CRASHES": 2}], ids=str)
def test_every_letter_leaves_the_queue_in_the_end(changed):
    assert eventually(model(Constants(**changed)))["LettersAreSettled"] is None


def test_one_damaged_letter_would_stop_all_sweeps():
    lasso = eventually(model(Constants(SKIP_BAD=False, BLOCKS=2, BAD=1)))["LettersAreSettled"]
    assert lasso is not None and lasso.violated == "LettersAreSettled"


def test_a_damaged_letter_does_not_stop_the_one_behind_it():
    story = [("Writer#0", "PutLetter"), ("Writer#0", "PutLetter"), ("Sweeper#0", "List"), ("Sweeper#0", "Get", 0),
             ("Sweeper#0", "Copy"), ("Sweeper#0", "Delete"), ("Sweeper#0", "Get", 1), ("Sweeper#0", "ReAdd"),
             ("Sweeper#0", "Delete")]
    s = followed(Constants(BLOCKS=2, BAD=1), *story).shared
    assert (s.letters, s.rejected, s.visible) == (set(), {0}, {1})


def test_a_late_letter_of_a_block_that_is_compacted_changes_nothing():
    story = [("Writer#0", "SendLetter"), ("Writer#0", "Add"), ("Remove", 0), ("ApplyPending", ("Letter", 0)),
             ("Sweeper#0", "List"), ("Sweeper#0", "Get", 0), ("Sweeper#0", "ReAdd"), ("Sweeper#0", "Delete")]
    s = followed(Constants(MAX_PENDING=1), *story).shared
    assert (s.letters, s.visible, s.removed) == (set(), set(), {0})


def test_a_bound_of_none_is_not_counted():
    c = Constants(MAX_PENDING=None, MAX_CRASHES=None, AGES=None)
    s = followed(c, ("Writer#0", "SendAdd"), ("Writer#0", "PutLetter"), ("Sweeper#0", "List"), ("Sweeper#0", "Crash")).shared
    assert (s.crashes, len(s.pool)) == (0, 1)
