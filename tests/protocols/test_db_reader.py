"""The model of the reader of a database: cases, and how long the shortest stories are. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.model.core import State, init, moves
from highwater.model.explore.plain import explore
from highwater.model.protocols.db_reader import Constants, listed, model

STORIES = [  # the shortest, by breadth-first search: it is as long as the page says
    ({"PIN_BEFORE_READ": False}, "NothingIsMissing", 5), ({"LAST_SEEN": False}, "NothingIsMissing", 4),
    ({"KEEP_OLD_UNTIL_READ": False}, "NothingIsMissing", 10), ({"REPLAY_SKIPS_SEQ": False}, "ReaderIsComplete", 5),
    ({"PURGE_BY_SEQ": False}, "ReaderIsComplete", 7),
    ({"REPLACE_AFTER_BUILT": False, "APPENDS": 2, "COMPACTIONS": 0}, "ReaderNeverGoesBack", 8),
]


@pytest.mark.parametrize("constants, violated, steps", STORIES, ids=[str(story[0]) for story in STORIES])
def test_the_shortest_story(constants, violated, steps):
    found = explore(model(Constants(**constants)))
    assert (found.violated, len(found.trace)) == (violated, steps + 1)  # the first is Init


def walked(of, state: State, *labels) -> State:
    """Take the steps with these labels: (process, action), or with its choices."""
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:len(label)] == label)
    return state


READER = "Reader#0"


def test_a_dropped_checkpoint_excuses_a_missing_object_and_another_one_is_taken():
    of = model(Constants(MAX_ENDED=1))
    lost = walked(of, init(of), ("Writer#0", "Append"), (READER, "Pin", (1,)), ("Writer#0", "Flush", (1, 1)), ("", "EndLease"),
                  ("Collector#0", "Drop"), ("Collector#0", "DeleteWal"))
    assert [step.label[1] for step in moves(of, lost) if step.label[0] == READER] == ["Miss"]
    again = walked(of, lost, (READER, "Miss"), (READER, "Pin"), (READER, "Swap"))
    assert again.locals[1].view.k == 2 and listed(again.shared) == {2}


def test_a_checkpoint_that_nobody_waited_for_is_found_and_used():
    of = model(Constants(MAX_LOST=1))
    found = walked(of, init(of), (READER, "Stray"), (READER, "Adopt"), (READER, "Swap"))
    assert found.locals[1].view.k == 1


def test_a_scan_keeps_its_checkpoint():
    of = model(Constants())
    begun = walked(of, init(of), ("Writer#0", "Append"), (READER, "Pin", (0,)), (READER, "Swap"), (READER, "StartScan"),
                   ("Writer#0", "Flush", (1, 1)), (READER, "Pin", (1,)), (READER, "Swap"))
    assert not [step for step in moves(of, begun) if step.label[1] == "Release"]
    ended = walked(of, begun, (READER, "EndScan"), (READER, "Release", (1,)))
    assert listed(ended.shared) == {2}
