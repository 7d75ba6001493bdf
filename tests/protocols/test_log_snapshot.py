"""A log and its snapshots: the model's sizes, what breaks it, how soon, and what is no harm."""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.plain import explore as plainly
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.log_snapshot import ALWAYS, Constants, model


def followed(constants, *steps):
    """Return the last state of a story: the actions and their choices are given."""
    of, state = model(constants), init(model(constants))
    for action, *choices in steps:
        state = next(state for (_, name, chosen), state in moves(of, state) if (name, chosen) == (action, tuple(choices)))
    return state


@pytest.mark.parametrize("changed, states, transitions", [
    ({}, 25, 33), ({"MAX_CRASHES": 1}, 155, 239), ({"BATCH": 2, "MAX_CRASHES": 1}, 179, 271),
    ({"MAX_FAILED": 2, "MAX_CRASHES": 2, "SNAPSHOTS": 2}, 2_374, 5_481)])
def test_size(changed, states, transitions):
    found = explore(model(Constants(**changed)))
    assert (found.states, found.transitions, found.violated, found.never) == (states, transitions, None, ())


def test_the_reference_explorer_agrees():
    faults = Constants(MAX_CRASHES=1, MAX_FAILED=1)
    assert plainly(model(faults)) == explore(model(faults))


@pytest.mark.parametrize("off, changed, property_, steps", [
    ("APPLIED_IN_TX", {"MAX_CRASHES": 1}, "StateIsReplay", 5), ("VERIFY", {"MAX_FAILED": 1}, "AckedIsKept", 6),
    ("FATAL_IO", {"MAX_FAILED": 1}, "AckedIsKept", 5)])
def test_with_a_safeguard_off_it_breaks_after_so_many_steps(off, changed, property_, steps):
    found = explore(model(Constants(**changed, **{off: False})))
    assert (found.violated, len(found.trace) - 1) == (property_, steps)


@pytest.mark.parametrize("off, changed, property_, steps", [
    ("VERIFY", {"MAX_CRASHES": 1}, "StateIsReplay", ["FinishSnapshot", "Crash", "Restart"]),
    ("FATAL_IO", {"MAX_FAILED": 1}, "RefusedIsNotApplied", ["FailSync", "LateWrite", "Apply"])])
def test_what_a_server_shows_then(off, changed, property_, steps):
    """A snapshot that was not synced is restored. A write that was reported as failed is applied."""
    of = model(Constants(**changed, **{off: False}))
    found = explore(of._replace(always={property_: ALWAYS[property_]}))
    assert found.violated == property_
    taken = [label[1] for label, _ in found.trace]
    assert [action for action in taken if action in steps] == steps


CUT = [("Append",), ("Sync",), ("Apply",), ("BeginSnapshot",), ("FinishSnapshot",), ("CutLog", 1), ("Append",)]


@pytest.mark.parametrize("kept, rows", [(1, (1,)), (2, (1, 2))])
def test_a_server_that_has_lost_its_database_restores_the_snapshot_and_replays_the_log(kept, rows):
    """The entry that was not yet synced may be there, and then it is applied."""
    story = [*CUT, ("Crash", kept, True), ("Restart",), *[("Apply",)] * (kept - 1)]
    state = followed(Constants(MAX_CRASHES=1), *story)
    assert (state.shared.rows, state.shared.index, state.shared.acked) == (rows, kept, {1})


def test_a_snapshot_that_has_failed_is_discarded_and_the_log_stays():
    story = [("Append",), ("Sync",), ("Apply",), ("BeginSnapshot",), ("FailSink",), ("DiscardSnapshot",)]
    state = followed(Constants(MAX_FAILED=1), *story)
    assert state.shared.snapshot.state == state.shared.temp.state == "None" and state.shared.log == (1,)


def test_if_it_takes_its_name_all_the_same_the_log_is_cut_and_a_restart_shows_nothing_of_it():
    unchecked = Constants(MAX_FAILED=1, MAX_CRASHES=1, VERIFY=False)
    story = [*CUT[:4], ("FailSink",), *CUT[4:6], ("Crash", 1, True), ("Restart",)]
    shared = followed(unchecked, *story).shared
    assert (shared.rows, shared.index, shared.acked, shared.log) == ((), 1, {1}, ())


def test_a_failed_write_ends_the_server_and_its_entry_may_be_there_or_not():
    failed = [("Append",), ("FailSync", 0), ("Restart",)], [("Append",), ("FailSync", 1), ("Restart",)]
    states = [followed(Constants(MAX_FAILED=1), *story).shared for story in failed]
    assert [(s.log, s.committed, s.acked, s.refused) for s in states] == [((), (), set(), set()), ((1,), (1,), set(), set())]


def test_a_crash_keeps_one_of_two_entries_that_one_sync_was_to_cover():
    """The kept entry is decided, and its caller was told nothing."""
    c = Constants(BATCH=2, MAX_CRASHES=1)
    shared = followed(c, ("Append",), ("Append",), ("Crash", 1, True), ("Restart",)).shared
    assert (shared.log, shared.committed, shared.acked) == ((1,), (1,), set())


def test_a_machine_crashes_after_the_process_has_ended():
    """A failed sync has ended it, and then the database goes, too."""
    story = [("Append",), ("Sync",), ("Apply",), ("Append",), ("FailSync", 1), ("Crash", 1, True), ("Restart",), ("Apply",)]
    assert followed(Constants(MAX_FAILED=1, MAX_CRASHES=1), *story).shared.rows == (1,)


def test_a_bound_of_none_is_not_counted():
    c = Constants(None, None, None, None, None)
    shared, (server, _) = followed(c, *CUT, ("FailSync", 1), ("Restart",), ("Crash", 1, False))
    assert (shared.failed, shared.crashes, server.made) == (0, 0, 0)
