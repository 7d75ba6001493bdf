"""The model of destruction: what SlateDB's RFC leaves open, and what released SlateDB does, as cases. (Counts and knobs:
test_rows.py.)"""

import pytest

from highwater.model.core import State, init, moves
from highwater.model.explore.plain import explore
from highwater.model.protocols.destroy import Constants, model

SMALL = {"MAX_ID": 4, "MARKS": 1}
STORIES = [  # the shortest, by breadth-first search: it is as long as the page says
    ({"CHECK_PINS": False}, "DestroyRespectsPins", 6), ({"CHECK_AND_MARK_IN_ONE_CAS": False}, "DestroyRespectsPins", 7),
    ({"REFUSE_PINS": False}, "DestroyRespectsPins", 7), ({"CLAIM_EPOCH": False}, "NothingIsWrittenAfterTheMark", 3),
    ({"KEEP_GRACE": False}, "GraceIsKept", 5), ({"MANIFEST_LAST": False}, "ManifestLast", 8),
    ({"SEAL": False, "MAX_PENDING": 1, "MARKS": 2}, "DestroyedStaysDestroyed", 9),
    ({"KEEP_TOMBSTONE": False, "MAX_PENDING": 1}, "DestroyedStaysDestroyed", 9),
]


@pytest.mark.parametrize("constants, violated, steps", STORIES, ids=[str(constants) for constants, *_ in STORIES])
def test_the_shortest_story(constants, violated, steps):
    found = explore(model(Constants(**{**SMALL, **constants})))
    assert (found.violated, len(found.trace)) == (violated, steps + 1)  # the first is Init


def walked(of, state: State, *labels) -> State:
    """Take the steps with these labels: (process, action), or with its choices."""
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:len(label)] == label)
    return state


def can(of, state: State, *label) -> bool:
    return any(step.label[:len(label)] == label for step in moves(of, state))


HARD, SOFT = ("Operator#0", "Mark", ("Hard",)), ("Operator#0", "Mark", ("Soft",))
END = [("Operator#0", "Check"), ("Operator#0", "Seal"), ("Operator#0", "FindEmpty")]


def test_a_hard_mark_waits_for_no_grace_and_is_refused_while_a_checkpoint_is_listed():
    of = model(Constants())
    assert can(of, walked(of, init(of), HARD), "Operator#0", "Check")
    pinned = walked(of, init(of), ("Client#0", "Pin"))
    assert not can(of, pinned, *HARD) and can(of, pinned, *SOFT)


def test_a_soft_mark_waits_for_the_grace_and_the_last_checkpoint():
    of = model(Constants())
    marked = walked(of, init(of), ("Client#0", "Pin"), SOFT)
    over = walked(of, marked, ("", "EndGrace"))
    assert not can(of, marked, "Operator#0", "Check") and not can(of, over, "Operator#0", "Check")
    assert can(of, walked(of, over, ("Client#0", "Unpin")), "Operator#0", "Check")


def test_a_late_create_of_a_higher_id_is_refused_by_the_seal_alone():
    """A boundary at the manifest that was checked lets the next id pass: an operator's second mark, in flight since before."""
    for seal, left in ((True, 0), (False, 1)):
        of = model(Constants(SEAL=seal, MAX_PENDING=1))
        late = ("Operator#0", "SendMark", ("Hard",))
        gone = walked(of, init(of), SOFT, late, ("", "EndGrace"), *END, ("Operator#0", "DeleteManifest", (1,)),
                      ("Operator#0", "DeleteManifest", (2,)), ("", "ApplyPending"))
        assert len([one for one in gone.shared.files if one]) == left


def test_a_late_upload_lands_and_another_operator_deletes_it():
    """A deletion that ends when nothing is listed may not be the last one: the tombstone tells the next operator to go on."""
    of = model(Constants(MAX_PENDING=1, MAX_CRASHES=1))
    gone = walked(of, init(of), ("Writer#0", "SendUpload"), HARD, *END, ("Operator#0", "DeleteManifest", (1,)),
                  ("Operator#0", "DeleteManifest", (2,)), ("Operator#0", "Crash"), ("", "ApplyUpload"))
    assert gone.shared.ssts and gone.shared.gone
    assert not walked(of, gone, ("Operator#0", "Check"), ("Operator#0", "DeleteSst")).shared.ssts
