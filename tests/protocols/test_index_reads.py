"""The readers of a metadata index: the model's sizes, what breaks it, and how soon."""

import pytest

from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.index_reads import Constants, delay, model


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 58, 119), ({"BLOCKS": 2}, 796, 2_190), ({"READERS": 2}, 184, 576), ({"BLOCKS": 2, "READERS": 2}, 5_662, 22_418),
    ({"AHEAD": 1, "DELAY": 3, "MAX_NOW": 4}, 396, 1_304), ({"QUERY": 2, "DELAY": 3, "MAX_NOW": 4}, 85, 184)], ids=str)
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, ())


def test_the_reference_explorer_agrees():
    c = Constants(AHEAD=1, DELAY=3)
    assert plainly(model(c)) == explore(model(c))


@pytest.mark.parametrize("off, changed, steps", [
    ("DELAYED", {}, 6), ("LONGER", {}, 7), ("CLOCKS", {"AHEAD": 1, "DELAY": 3}, 8), ("ENDS", {}, 8), ("CURRENT", {}, 9)])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, steps):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == ("ReadsFind", steps)


@pytest.mark.parametrize("query, ahead", [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2)])
def test_the_delay_is_longer_than_a_query_and_than_clocks_differ(query, ahead):
    """Test that one step more suffices, and that an object is missing without it."""
    long, short = (Constants(QUERY=query, AHEAD=ahead, DELAY=query + ahead + more, MAX_NOW=query + ahead + 2)
                   for more in (1, 0))
    assert explore(model(long)).violated is None and delay(long) == query + ahead + 1
    assert explore(model(short)).violated == "ReadsFind"
