"""The model of checkpoints: what SlateDB's RFC leaves open, and what released SlateDB does, as cases. (Counts and knobs:
test_rows.py.)"""

import pytest

from highwater.model.core import State, init, moves
from highwater.model.explore.plain import explore
from highwater.model.protocols.checkpoints import Constants, ids, latest, model, named


def failing(**constants) -> set[str]:
    """All that fail, each judged by itself."""
    of = model(Constants(**constants))
    return {name for name, prop in of.always.items() if explore(of._replace(always={name: prop}, sometimes={})).violated}


FAILING = [
    ({"SPARE_CHECKPOINTED": False}, {"CheckpointPins"}),
    ({"DROP_EXPIRED_FIRST": False}, {"CheckpointPins"}),
    ({"SPARE_LATEST": False}, {"LatestIsWhole", "CheckpointPins"}),  # a checkpoint may be taken of what is not whole
    ({"SPARE_SSTS": False}, {"CheckpointPins"}),
    ({"SOURCE_IN_SAME_CAS": False, "COMPACTORS": 0}, {"NothingIsUnreferencedTwice", "CheckpointPins"}),
    ({"REFRESH_NEEDS_ENTRY": False, "COMPACTORS": 0}, {"NothingIsUnreferencedTwice", "CheckpointPins"}),
    ({"RECOGNISE": False, "MAX_LOST": 1, "MAX_ID": 3}, {"CheckpointOnce"}),
    ({"SKEW_MARGIN": False, "MAX_ID": 3}, {"LeaseIsHonoured"}),  # an owner loses what it thinks it has; nothing dangles
]


@pytest.mark.parametrize("constants, properties", FAILING, ids=[str(constants) for constants, _ in FAILING])
def test_what_else_fails_with_it(constants, properties):
    assert failing(**constants) == properties


STORIES = [  # the shortest, by breadth-first search: it is as long as the page says
    ({"SPARE_CHECKPOINTED": False}, 4), ({"DROP_EXPIRED_FIRST": False}, 5), ({"SPARE_LATEST": False}, 3),
    ({"SPARE_SSTS": False}, 5), ({"SOURCE_IN_SAME_CAS": False}, 6), ({"REFRESH_NEEDS_ENTRY": False}, 5),
    ({"RECOGNISE": False, "MAX_LOST": 1}, 2), ({"SKEW_MARGIN": False}, 2),
]


@pytest.mark.parametrize("constants, steps", STORIES, ids=[str(constants) for constants, _ in STORIES])
def test_the_shortest_story(constants, steps):
    assert len(explore(model(Constants(**constants))).trace) == steps + 1  # the first is Init


# --- cases

def walked(of, state: State, *labels) -> State:
    """Take the steps with these labels: (process, action), or with its choices."""
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:len(label)] == label)
    return state


TAKE = [("Client#0", "Create", (True,)), ("Client#0", "Reply")]
END = ("", "EndLease", ((0, 0),))


def test_an_ended_checkpoint_pins_until_it_is_dropped_by_an_update():
    """The RFC checks «no active checkpoints» before it removes those that have expired. An owner may still renew one."""
    of = model(Constants())
    ended = walked(of, init(of), *TAKE, ("Compactor#0", "Flush"), END, ("Collector#0", "Condemn"))
    assert ended.locals[2].old == {1} and named(latest(ended.shared)) == {2}
    dropped = walked(of, ended, ("Collector#0", "Drop"), ("Collector#0", "Condemn"))
    assert dropped.locals[2].old == {1, 2, 3} and ids(latest(dropped.shared)) == []


def test_a_copy_keeps_what_its_source_kept_after_the_source_has_gone():
    of = model(Constants())
    copied = walked(of, init(of), *TAKE, ("Client#0", "CreateFrom", (False, ((0, 0), 2, True))), ("Client#0", "Reply"))
    dropped = walked(of, copied, END, ("Collector#0", "Drop"), ("Collector#0", "Condemn"))
    assert named(latest(dropped.shared)) == {2} and dropped.locals[2].old == {1, 3}


def test_a_create_that_was_applied_before_its_reply_was_lost_is_not_made_again():
    """The committed-but-rejected write: released SlateDB lists the checkpoint twice."""
    of = model(Constants(MAX_LOST=1))
    asked = walked(of, init(of), ("Client#0", "Create", (False,)))
    assert not [step for step in moves(of, asked) if step.label[:2] == ("Client#0", "Create")]
    deleted = explore(of)
    assert deleted.violated is None


def test_a_late_create_is_the_next_manifest_or_nothing():
    of = model(Constants(MAX_PENDING=1))
    sent = walked(of, init(of), ("Client#0", "SendCreate", (True,)))
    late = walked(of, sent, ("Compactor#0", "Flush"), ("", "ApplyPending"))
    assert len(late.shared.files) == 2 and ids(latest(late.shared)) == []
    in_time = walked(of, sent, ("", "ApplyPending"))
    assert ids(latest(in_time.shared)) == [(0, 0)] == sorted(in_time.shared.held)
