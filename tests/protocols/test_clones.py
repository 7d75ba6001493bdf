"""The model of clones: the shortest story of each safeguard, and one that alone harms nobody. (Counts: test_rows.py.)"""

import pytest

from highwater.model.explore.plain import explore
from highwater.model.protocols.clones import Constants, model

STORIES = [  # the shortest, by breadth-first search: it is as long as the page says
    ({"FINAL_FIRST": False}, "DetachIsFree", 3), ({"FINAL_NEEDS_SOURCE": False}, "CloneIsPinned", 6),
    ({"FRESH_FINALS": False, "TAKES": 2, "TRIES": 2}, "CloneIsPinned", 9),
    ({"OPEN_INITIALIZED": False, "APPENDS": 1}, "CloneIsTheCheckpoint", 7),
    ({"OPEN_INITIALIZED": False, "COPY_IF_ABSENT": False, "APPENDS": 1}, "CopyTouchesNobody", 6),
    ({"DETACH_CHECKPOINTS": False, "TAKES": 2}, "DetachIsFree", 7), ({"PARENT_FIRST": False}, "NoPinIsLost", 6),
    ({"COPY_BEFORE_INIT": False, "APPENDS": 1}, "CloneIsTheCheckpoint", 6),
    ({"RESTART_FORWARD": False, "APPENDS": 1, "TAKES": 2, "TRIES": 2, "DETACHERS": 0, "COLLECTORS": 0},
     "CloneIsTheCheckpoint", 9),
    ({"SEEN_OF_SOURCE": False, "APPENDS": 1}, "CloneIsTheCheckpoint", 7),
]


@pytest.mark.parametrize("constants, fails, steps", STORIES, ids=[str(constants) for constants, *_ in STORIES])
def test_the_shortest_story(constants, fails, steps):
    found = explore(model(Constants(**constants)))
    assert (found.violated, len(found.trace) - 1) == (fails, steps)


def test_a_copy_without_a_condition_alone_harms_nobody():
    """A writer that opens its clone only after it is initialized never has an id that is still copied."""
    assert explore(model(Constants(COPY_IF_ABSENT=False, APPENDS=1))).violated is None
