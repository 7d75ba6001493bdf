"""The model of a database's garbage collector: the bugs of the real system as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.model.core import State, init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.database_gc import Constants, absent, model, named

ALL = "ssts manifests wal"


@pytest.mark.parametrize("constants, states", [
    ({"MAX_CRASHES": 1, "OPERATORS": 0, "SKEW": 1}, 17654), ({"OPERATORS": 0, "COLLECTORS": 2, "UPLOADS": 1}, 1326),
], ids=str)
def test_larger_instances_than_fizzbee_is_given(constants, states):
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.states) == (None, states)


def failing(**constants) -> set[str]:
    """All that fail, each judged by itself."""
    of = model(Constants(**constants))
    return {name for name, prop in of.always.items() if explore(of._replace(always={name: prop}, sometimes={})).violated}


FAILING = [
    ({"OPERATORS": 0, "COMPACTORS": 0, "L0_CUTOFF": False}, {"UploadIsThere", "LatestIsThere"}),
    ({"OPERATORS": 0, "UPLOADS": 1, "COMPACTION_CUTOFF": False}, {"OutputIsThere", "LatestIsThere"}),
    ({"OPERATORS": 0, "COMPACTORS": 0, "REFUSE_OLDER": False}, {"LatestIsThere"}),
    ({"COMPACTORS": 0, "UPLOADS": 1, "KINDS": "manifests", "SPARE_LISTED": False}, {"CheckpointIsThere"}),
    ({"COMPACTORS": 0, "APPENDS": 2, "KINDS": "wal", "SPARE_SEEN": False}, {"WalIsThere"}),
]


@pytest.mark.parametrize("constants, properties", FAILING, ids=[str(constants) for constants, _ in FAILING])
def test_what_else_fails_with_it(constants, properties):
    assert failing(**constants) == properties


# --- cases

def walked(of, state: State, *labels) -> State:
    """Take a step for each label (process, action, choices); choices may be left out if there is one step."""
    for process, action, *choices in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == (process, action)
                  and (not choices or step.label[2] == choices[0]))
    return state


ROUND = [("Collector#0", action) for action in ("ListSsts", "ReadCompactions", "ReadManifest")]


def test_an_upload_in_flight_is_not_planned():
    """slatedb#604, #984: an L0 that is uploaded, and not yet in the manifest, was collected."""
    upload = ("Writer#0", "Upload")
    for off in ({}, {"L0_CUTOFF": False}):
        of = model(Constants(OPERATORS=0, COMPACTORS=0, **off))
        state = walked(of, init(of), upload, ("Writer#0", "Commit"), upload, *ROUND)
        assert state.locals[-1].ssts == (frozenset() if not off else {2})


def test_outputs_in_flight_are_not_planned():
    """slatedb#1028, #1029: outputs of a compaction were collected before they were in the manifest."""
    compaction = [("Compactor#0", action) for action in ("OpenManifest", "OpenCompactions", "Claim", "Output")]
    for off in ({}, {"COMPACTION_CUTOFF": False}):
        of = model(Constants(OPERATORS=0, **off))
        upload, commit = ("Writer#0", "Upload"), ("Writer#0", "Commit")
        state = walked(of, init(of), upload, commit, *compaction, upload, commit, *ROUND)
        assert state.locals[-1].ssts == (frozenset() if not off else {3})


def test_an_older_upload_is_not_committed():
    """slatedb#1822: two uploads end in the other order, and the cut-off passes the one that is in flight."""
    upload = ("Writer#0", "Upload")
    newer = ("Writer#0", "Commit", (2, 0, 0))
    for off in ({}, {"REFUSE_OLDER": False}):
        of = model(Constants(OPERATORS=0, COMPACTORS=0, **off))
        state = walked(of, init(of), upload, upload, newer, *ROUND)
        assert state.locals[-1].ssts == {1}
        commits = [step for step in moves(of, state) if step.label[1] == "Commit"]
        assert bool(commits) == bool(off)
        for step in commits:
            after = walked(of, step.state, ("Collector#0", "DeleteSst"))
            assert not named(after.shared.latest) <= after.shared.ssts


def test_a_late_round_deletes_only_what_is_dead():
    """A DELETE that is applied late is one that is sent late: what a plan has stays garbage."""
    of = model(Constants(COMPACTORS=0, UPLOADS=2))
    state = walked(of, init(of), ("Writer#0", "Upload"), ("Writer#0", "Upload"), ("Writer#0", "Commit", (2, 0, 0)), *ROUND,
                   ("Operator#0", "Take"), *ROUND, ("Collector#0", "DeleteSst"))
    assert state.shared.ssts == {2} and state.locals[0].mine == {1}


def test_witnesses_that_an_instance_cannot_have_are_not_asked_for():
    assert {*absent(Constants(KINDS=ALL, APPENDS=1, COMPACTORS=2))} == set()
    assert "WalIsCollected" in {*absent(Constants(KINDS=ALL))}
