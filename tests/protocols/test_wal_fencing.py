"""WAL fencing: known bugs of the real system as cases of the model. (Counts and knobs: test_rows.py.)

tests/impl/protocols/test_impl_wal_fencing.py tests the implementation.
"""

import pytest

from highwater.model.core import State, broken, init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.wal_fencing import ALWAYS, Constants, model, recoverable

# --- the model

@pytest.mark.parametrize(("constants", "states"), [
    ({"MAX_LOST": 1}, 22_770), ({"MAX_PENDING": 1}, 42_969), ({"MAX_CRASHES": 1}, 5_672), ({"COLLECTORS": 2}, 7_152),
    ({"APPENDS": 2}, 16_860), ({"CHECKPOINTS": 1}, 32_050), ({"WRITERS": 3, "COLLECTORS": 0, "FLUSHES": 0}, 14_258)], ids=str)
def test_larger_instances_hold(constants, states):
    """Larger than a row may be."""
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.complete, found.states) == (None, True, states)


def only(of, *names: str):
    """The model with these of its properties."""
    return of._replace(always={name: of.always[name] for name in names}, sometimes={})


# --- known bugs, each with its safeguard on as well

STALE_NEXT_ID = {"CHECK": "none"}  # 2: «stale WAL writer's next wal id was GC'd so its acked write is ignored on recovery»
FENCE_IN_COLLECTED_SLOT = {"ORDER": "list", "FENCE_AHEAD": False, "FENCE_GC": False, "CHECK": "none", "APPENDS": 2}  # 3
RESOLVED_AGAIN = {"RESOLVE_ONCE": False, "VALIDATE": "before"}  # 4: «too many or too few WALs»
NOT_FOUND_SKIPPED = {  # 4: «NotFound in replay must become Fenced»
    "MISSING_IS_FENCED": False, "VALIDATE": "before", "MAX_LOST": 1, "APPENDS": 0}
ID_BEFORE_EPOCH = {"ORDER": "fence", "COLLECTORS": 0, "FLUSHES": 0}  # 5: «wal id chosen before the epoch bump»
AHEAD_OF_FLUSHED = {"FLUSH_EXACT": False, "COLLECTORS": 0}  # 6: «replay_after_wal_id beyond what the flushed memtable holds»


@pytest.mark.parametrize(("bug", "mended", "violates"), [
    (STALE_NEXT_ID, {"CHECK": "epoch"}, "AckedIsDurable"),
    (STALE_NEXT_ID, {"FENCE_GC": False}, "AckedIsDurable"),
    (FENCE_IN_COLLECTED_SLOT, {"FENCE_AHEAD": True}, "OneWriterAcks"),
    (RESOLVED_AGAIN, {"RESOLVE_ONCE": True}, "ReplayIsContiguous"),
    (NOT_FOUND_SKIPPED, {"MISSING_IS_FENCED": True}, "ReplayIsContiguous"),
    (NOT_FOUND_SKIPPED, {"VALIDATE": "after"}, "ReplayIsContiguous"),
    (ID_BEFORE_EPOCH, {"ORDER": "claim"}, "AckedIsServed"),
    (ID_BEFORE_EPOCH, {"ORDER": "list"}, "AckedIsServed"),
    (AHEAD_OF_FLUSHED, {"FLUSH_EXACT": True}, "AckedIsDurable")], ids=str)
def test_a_known_bug_is_found_and_its_mend_holds(bug, mended, violates):
    assert explore(model(Constants(**bug))).violated == violates
    assert explore(model(Constants(**{**bug, **mended}))).violated is None


def test_a_fence_in_a_collected_slot_hides_records_even_where_appends_are_checked():
    """Records that the old writer acknowledged before the claim, past the slot of the fence, are not replayed."""
    constants = {**FENCE_IN_COLLECTED_SLOT, "CHECK": "epoch", "FENCE_GC": True}
    assert explore(only(model(Constants(**constants)), "AckedIsServed")).violated == "AckedIsServed"


def test_to_fence_before_the_claim_hides_records_from_the_later_writer_although_they_are_there():
    """«let two writers be open at once»: what is lost to it is in the log, past its fence."""
    found = explore(model(Constants(**ID_BEFORE_EPOCH)))
    end = found.trace[-1].state
    hidden = end.shared.acked - next(w.has for w in end.locals[:2] if w.pc == "Open" and w.epoch == end.shared.top)
    assert hidden and hidden <= recoverable(end.shared)


def test_to_check_the_boundary_alone_keeps_every_record():
    """`replay_after` then serves as a boundary file does. A writer may still acknowledge after another has succeeded it."""
    of = model(Constants(CHECK="boundary", MAX_LOST=1))
    assert explore(only(of, *(ALWAYS.keys() - {"OneWriterAcks"}))).violated is None
    assert explore(of).violated == "OneWriterAcks"


def test_what_is_replayed_after_the_range_was_resolved_again_is_too_much_or_too_little():
    of, found = model(Constants(**RESOLVED_AGAIN, MAX_LOST=1, APPENDS=0)), set()

    def told(c, s, w):
        right, got = range(w.since + 1, w.fence), [i for i, _ in w.got]
        if w.pc == "Open":
            found.update("much" for i in got if i not in right)
            found.update("little" for i in right if i not in got)
        return True

    assert explore(of._replace(always={"Told": ("Writer", told)}, sometimes={})).complete
    assert found == {"much", "little"}


# --- a few walks

def walked(of, state: State, *labels) -> State:
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def by(i: int, *actions: str) -> list[tuple[str, str]]:
    return [(f"Writer#{i}", action) for action in actions]


START = ("ReadManifest", "Claim", "List", "CreateFence")
OPEN = (*START, "Validate")
REPLAY = (*START, "ReadNext", "Validate")


def test_the_old_writers_next_create_meets_the_fence_and_its_caller_is_told():
    of = model(Constants(APPENDS=2))
    after = walked(of, init(of), *by(0, *OPEN, "CreateNext", "Accept"), *by(1, *START, "ReadNext", "ReadNext", "Validate"),
                   *by(0, "CreateConflict"))
    old, new = after.locals[:2]
    assert after.shared.wal == (((),), ((0, 0),), ((),))
    assert (old.pc, after.shared.refused) == ("Fenced", {(0, 1)})
    assert (new.pc, new.has, new.got) == ("Open", {(0, 0)}, ((1, ()), (2, (0, 0))))


def test_an_object_that_lands_behind_the_boundary_is_not_acknowledged():
    """Bug 2, with the safeguard: the create succeeds, for the fence was collected; the read of the manifest tells."""
    of = model(Constants())
    after = walked(of, init(of), *by(0, *OPEN), *by(1, *REPLAY, "FlushNext"), ("Collector#0", "ReadManifest"))
    for slot in (1, 2):
        after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (slot,)))
    after = walked(of, after, *by(0, "CreateNext", "Reject"))
    assert after.shared.wal[1] == ((0, 0),) and after.shared.manifest.replay_after == 2
    assert after.locals[0].pc == "Fenced" and not after.shared.acked and not after.shared.refused


def test_an_open_that_was_overtaken_may_fence_its_successor():
    """Told as it is: its fence is put in the next slot of a writer of a later epoch, which must open again; nothing is lost."""
    of = model(Constants(COLLECTORS=0))
    after = walked(of, init(of), *by(0, "ReadManifest", "Claim", "List"), *by(1, *OPEN),
                   *by(0, "FenceConflict", "CreateFence", "ReadNext", "ValidateFenced"), *by(1, "CreateConflict"))
    assert [w.pc for w in after.locals[:2]] == ["Fenced", "Fenced"] and after.shared.manifest.writer_epoch == 2


@pytest.mark.parametrize("validate", ["before", "after"])
def test_a_replay_that_is_judged_before_it_is_over_may_be_of_objects_that_are_not_of_the_log(validate):
    """Beyond what is known of the real system. Writer#1 is overtaken as it replays; what it is about to read is collected, and
    in the free slot lands a record of Writer#0, which is not acknowledged. An object that is gone would have told; this does
    not, and the writer serves a record that nobody will know later."""
    of = model(Constants(WRITERS=3, MAX_LOST=1, VALIDATE=validate))
    first, last = (["Validate"], []) if validate == "before" else ([], ["Validate"])
    start = [*START, *first]
    after = walked(of, init(of), *by(0, *start, *last),
                   *by(1, *START[:3], "LoseFence", "FenceConflict", "CreateFence", *first, "ReadNext"),
                   *by(2, *start, *["ReadNext"] * 3, *last, "FlushNext"), ("Collector#0", "ReadManifest"))
    after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (2,)))
    after = walked(of, after, *by(0, "CreateNext", "Reject"), *by(1, "ReadNext"))
    overtaken = after.locals[1]
    if validate == "before":
        assert overtaken.pc == "Open" and overtaken.has == {(0, 0)} and not recoverable(after.shared)
        assert broken(of, after) == ["ReplayIsContiguous"]
    else:
        assert walked(of, after, *by(1, "ValidateFenced")).locals[1].pc == "Fenced"


@pytest.mark.parametrize("unknown", ["conclude", "recognise"])
def test_anothers_object_does_not_tell_that_its_own_was_never_there(unknown):
    """Beyond what is known of the real system. The record of Writer#0, whose reply was lost, is replayed, flushed and
    collected; in the free slot lands a fence that Writer#1 had sent, and no longer waits for."""
    of = model(Constants(MAX_LOST=1, MAX_PENDING=1, UNKNOWN=unknown))
    after = walked(of, init(of), *by(0, *OPEN), *by(1, *START[:3]), *by(0, "LoseCreate"),
                   *by(1, "SendFence", "FenceConflict", "CreateFence", "ReadNext", "ReadNext", "Validate", "FlushNext"),
                   ("Collector#0", "ReadManifest"))
    after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (2,)))
    after = walked(of, after, ("", "ApplyPending"), *by(0, "CreateConflict", "ReadOther"))
    assert after.locals[0].pc == "Fenced" and after.shared.manifest.flushed == {(0, 0)} == after.locals[1].has
    assert broken(of, after) == (["RefusedIsNowhere"] if unknown == "conclude" else [])
