"""The retention of a metadata index: the model's sizes, what breaks it, and how soon."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.index_retention import Constants, model

LEADERS = {"CLEANERS": 2, "MAX_TERM": 3, "JOBS": 0}


def followed(constants, *steps):
    """Return the last state of a story. A step is an action of the index and its choices, behind the name of a client."""
    of, state = model(constants), init(model(constants))
    for step in steps:
        label = (step[0], step[1], step[2:]) if "#" in step[0] else ("", step[0], step[1:])
        state = next((state for taken, state in moves(of, state) if taken == label), None)
        assert state is not None, f"{label} is not possible"
    return state


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 118, 259), ({"DATA": 2, "JOBS": 2}, 1_454, 4_430), (LEADERS, 372, 836),
    ({"DATA": 2, "JOBS": 2, "TENANTS": 2, "PERIODS": 2, "MAX_NOW": 4}, 1_923, 6_323)], ids=str)
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, ())


def test_the_reference_explorer_agrees():
    assert plainly(model(Constants(**LEADERS))) == explore(model(Constants(**LEADERS)))


@pytest.mark.parametrize("off, changed, steps, violated", [
    ("UNIT_VERSION", {"DATA": 2, "JOBS": 0}, 9, "OnlyReadIsDropped"), ("TERM_CHECK", LEADERS, 8, "DeposedChangesNothing"),
    ("DROPPED", {"JOBS": 0}, 8, "DroppedStaysDropped"), ("FLOOR_KEPT", {"JOBS": 0}, 9, "DroppedStaysDropped"),
    ("TOO_OLD", {"JOBS": 0}, 10, "DroppedStaysDropped"), ("DROPPED_KEPT", {"DATA": 2, "JOBS": 2}, 16, "NoDangling"),
    ("SHARD_PREFIX_BOUND", {"DATA": 2, "WINDOWS": 2, "JOBS": 0}, 11, "NoDangling"),
    ("WINDOW_END", {"AHEAD": -1, "JOBS": 0}, 6, "NothingIsDroppedEarly"),
    ("MAX_TIME", {"AHEAD": 1, "JOBS": 0}, 7, "NothingIsDroppedEarly"),
    ("LONGEST", {"DATA": 2, "TENANTS": 2, "PERIODS": 2, "JOBS": 0}, 7, "NothingIsDroppedEarly"),
    ("NEVER", {"PERIOD": 0, "JOBS": 0}, 6, "NothingIsDroppedEarly")])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps, violated):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (violated, steps)


def test_a_late_block_keeps_its_unit():
    story = [("Cleaner#0", "Elect"), ("Put", 0), ("Add", 0), ("Tick",), ("Tick",), ("Cleaner#0", "Read", (0, 0)), ("Put", 1),
             ("Add", 1), ("Cleaner#0", "TruncateRefused")]
    assert followed(Constants(DATA=2, JOBS=0), *story).shared.visible == {0, 1}


def test_a_bound_of_none_is_not_a_limit():
    c = Constants(MAX_NOW=None, MAX_TERM=None)
    assert followed(c, *[("Tick",)] * 9, *[("Cleaner#0", "Elect")] * 9).shared[7:9] == (9, 9)
