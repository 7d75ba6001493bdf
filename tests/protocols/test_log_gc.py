"""The model of a log whose entries are collected: the sources' sentences as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.model.core import init, moves
from highwater.model.explore.tabulated import explore, graph
from highwater.model.liveness import always_possible
from highwater.model.protocols.log_gc import ALWAYS, Constants, history, model, stale_entries_are_collected


@pytest.mark.parametrize("constants, states", [
    ({"ENTRIES": 2}, 13_972), ({"APPENDERS": 1, "ENTRIES": 3, "MAX_ID": 3}, 5_652),
    ({"APPENDERS": 1, "ENTRIES": 2, "MAX_PENDING": 1}, 18_494), ({"APPENDERS": 1, "ENTRIES": 2, "READERS": 2}, 53_286),
    ({"MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary", "MAX_PENDING": 1}, 15_876),
    ({"MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary", "MAX_LOST": 1, "MAX_CRASHES": 1}, 12_584),
], ids=str)
def test_larger_instances_hold(constants, states):
    """FizzBee would take minutes for these instances."""
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.complete, found.states) == (None, True, states)


SMALL = {"MAX_ID": 1, "KEEP_LATEST": False, "END": "boundary"}


@pytest.mark.parametrize("name, constants", [
    ("AppendIsUnique", {"GC": "min_age", "ENTRIES": 2}), ("AppendIsUnique", SMALL | {"CHECK": "off"}),
    ("AckedIsKept", {"GC": "min_age", "ENTRIES": 2}), ("AckedIsKept", SMALL | {"CHECK": "off"}),
    ("AckedIsKept", {"SNAPSHOT_FIRST": False}), ("AckedIsKept", {"KEEP_SNAPSHOT": False}),
    ("AckedIsKept", {"KEEP_LATEST": False, "REAPPEND": True, "GC": "min_age"}),
    ("HistoryOnlyGrows", {"KEEP_SNAPSHOT": False}), ("EntryIsOnce", {"REAPPEND": True, "MAX_ID": 3}),
    ("BoundaryIsMonotone", {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "APPENDERS": 1, "ENTRIES": 2, "KEEP_LATEST": False,
                            "END": "boundary"}),
    ("BoundaryIsBehindSnapshot", {"SNAPSHOT_FIRST": False}), ("DeletedIsBehindBoundary", {"BOUNDARY_FIRST": False}),
    ("EndIsKnown", {"KEEP_LATEST": False}),
    ("ReadIsAPrefix", SMALL | {"CHECK_READS": False, "READERS": 2}),
    ("ReadIsCurrent", SMALL | {"CHECK_READS": False, "READERS": 2, "APPENDERS": 1}),
], ids=str)
def test_every_property_can_fail(name, constants):
    """Rows name the property that fails first; this one fails too, where it is judged alone."""
    assert explore(model(Constants(**constants))._replace(always={name: ALWAYS[name]}, sometimes={})).violated == name


# --- the sources' sentences

def steps(of, *labels):
    """The state after these (process, action), each the only one of its name."""
    state = init(of)
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def by(process, *actions):
    return [(process, action) for action in actions]


RECOVERED = by("Reader#0", "ListSnapshots", "ReadNext", "ReadNext", "ReadEnd")
STALLED = [("Appender#0", "List"), *by("Appender#1", "List")]


def test_a_stalled_appender_makes_a_branch():
    """«it might come back online and continue processing requests without noticing that it has inadvertently created a
    branch in the database»: its entry is acknowledged, and in no recovery."""
    of = model(Constants(GC="min_age", ENTRIES=2))
    after = steps(of, *STALLED, *by("Appender#0", "CreateNext", "CreateNext"), *RECOVERED, ("Reader#0", "CreateSnapshot"),
                  *by("Collector#0", "List", "ListSnapshots", "Delete"), ("Appender#1", "CreateNext"))
    assert after.shared.acked == {(1, 0, 0), (2, 0, 1), (1, 1, 0)}
    assert after.shared.log == ((1, 0), (0, 1)) and history(after.shared) == ((0, 0), (0, 1))


def test_with_the_boundary_it_is_refused():
    """«This file is updated before any data is cleaned up, and is checked after any file is written»"""
    of = model(Constants(ENTRIES=2))
    after = steps(of, *STALLED, *by("Appender#0", "CreateNext", "Accept", "CreateNext", "Accept"), *RECOVERED,
                  *by("Reader#0", "ReadAccept", "CreateSnapshot"),
                  *by("Collector#0", "List", "ListSnapshots", "ReadBoundary", "Advance", "Delete"),
                  *by("Appender#1", "CreateNext", "Reject"))
    assert after.shared.acked == {(1, 0, 0), (2, 0, 1)} and history(after.shared) == ((0, 0), (0, 1))
    assert after.shared.log[0] == (1, 0)  # nobody reads it, and «eventually the garbage collector will LIST and notice» it


def test_a_conflict_costs_no_get():
    """«reduces the cost of contention from three S3 round trips to two by avoiding the GET»: as without collection."""
    of = model(Constants())
    after = steps(of, *STALLED, *by("Appender#0", "CreateNext", "Accept"),
                  *by("Appender#1", "CreateConflict", "CreateNext", "Accept"))
    assert after.shared.acked == {(1, 0, 0), (2, 1, 0)}


def states(of):
    x, edges = graph(of)
    return [x.unpack(packed) for packed in edges]


@pytest.mark.parametrize("constants", [{}, SMALL, {"APPENDERS": 1, "ENTRIES": 2, "MAX_PENDING": 1}], ids=str)
def test_what_a_snapshot_holds_follows_from_its_id(constants):
    """So one put twice, late, or by two, changes nothing: it needs no condition, and old ones go without a boundary."""
    for state in states(model(Constants(**constants))):
        held = [(i, one) for i, one in enumerate(state.shared.snapshots, 1) if one]
        held += [request[1:] for request in state.shared.pool if request[0] == "Snapshot"]
        assert all(one == state.shared.first[:i] for i, one in held)


def test_unchecked_reads_put_a_refused_entry_into_a_snapshot():
    """Why a reader checks the boundary, too: what it read may be from the branch, and a snapshot would make it history."""
    of = model(Constants(READERS=2, ENTRIES=2, CHECK_READS=False))
    after = steps(of, *STALLED, *by("Appender#0", "CreateNext", "Accept"), ("Reader#1", "ListSnapshots"),
                  *by("Reader#0", "ListSnapshots", "ReadNext", "ReadEnd", "CreateSnapshot"),
                  *by("Appender#0", "CreateNext", "Accept"),
                  *by("Collector#0", "List", "ListSnapshots", "ReadBoundary", "Advance", "Delete"),
                  *by("Appender#1", "CreateNext", "Reject"),
                  *by("Reader#1", "ReadNext", "ReadNext", "ReadEnd", "CreateSnapshot"))
    assert history(after.shared) == ((1, 0), (0, 1)) != after.shared.first
    assert (1, 0, 0) in after.shared.acked


def test_what_a_snapshot_holds_can_always_be_collected():
    """Nobody must collect; but from every state it remains possible."""
    for constants in ({"MAX_LOST": 1}, {"APPENDERS": 1, "ENTRIES": 2, "MAX_CRASHES": 1}):
        assert always_possible(model(Constants(**constants)), stale_entries_are_collected) is None
    assert always_possible(model(Constants(APPENDERS=1, ENTRIES=2, COLLECTORS=0)), stale_entries_are_collected) is not None
