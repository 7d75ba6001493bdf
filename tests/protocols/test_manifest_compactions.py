"""The model of manifest and compactions: the anomalies of the real system as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.model.core import State, init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.manifest_compactions import Constants, latest, model


@pytest.mark.parametrize("constants, states", [
    ({"MAX_CRASHES": 1}, 6044), ({"MAX_LOST": 1}, 17762), ({"COMPACTORS": 1, "COLLECTORS": 1, "FLUSHES": 2}, 13361),
], ids=str)
def test_larger_instances_than_fizzbee_is_given(constants, states):
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.states) == (None, states)


def failing(**constants) -> set[str]:
    """All that fail, each judged by itself."""
    of = model(Constants(**constants))
    return {name for name, prop in of.always.items() if explore(of._replace(always={name: prop}, sometimes={})).violated}


FAILING = [
    ({"MANIFEST_FIRST": False}, {"FencedChangesNothing"}),  # and nothing else: nothing is lost, or applied twice
    ({"MANIFEST_FIRST": False, "MAX_CRASHES": 1}, {"FencedChangesNothing"}),
    ({"HEAL": False, "WRITERS": 0, "MAX_CRASHES": 1}, {"EpochsAgree"}),
    ({"EPOCH_CHECK": False}, {"EpochsAgree", "FencedChangesNothing", "ClaimIsWorkedOn"}),
    ({"RECOGNISE": False, "COMPACTORS": 1, "MAX_LOST": 1}, {"AppliedOnce"}),
    ({"CHECK": "compactions", "COMPACTORS": 1, "COLLECTORS": 1, "FLUSHES": 2},
     {"ReportIsChecked", "EpochsAgree", "FlushIsKept"}),
    ({"CHECK": "compactions", "COMPACTORS": 3, "COLLECTORS": 1, "WRITERS": 0}, {"ReportIsChecked", "OneCompactorPerEpoch"}),
    ({"APPLY_FIRST": False, "COMPACTORS": 1}, {"ClaimOutIsApplied"}),
]


@pytest.mark.parametrize("constants, properties", FAILING, ids=[str(constants) for constants, _ in FAILING])
def test_what_else_fails_with_it(constants, properties):
    assert failing(**constants) == properties


# --- cases

def walked(of, state: State, *labels) -> State:
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def of_compactor(i: int, *actions: str) -> list[tuple[str, str]]:
    return [(f"Compactor#{i}", action) for action in actions]


CHANGE = ("Read", "CreateNext", "Accept")


def test_a_crash_between_the_two_bumps_is_healed_by_the_next_open():
    """slatedb#1095, #1152: «crash between the epoch bump in .manifest and in .compactions left them apart»"""
    of = model(Constants(MAX_CRASHES=1))
    apart = walked(of, init(of), *of_compactor(0, *CHANGE, "Crash"))
    assert (latest(apart.shared.manifests).epoch, latest(apart.shared.compactions).epoch) == (1, 0)
    healed = walked(of, apart, *of_compactor(1, *CHANGE, *CHANGE))
    assert (latest(healed.shared.manifests).epoch, latest(healed.shared.compactions).epoch) == (2, 2)
    assert healed.shared.opened == (2,)


FLUSH = [("Writer#0", action) for action in CHANGE]


def test_a_crash_between_the_manifest_and_the_claim_neither_loses_nor_repeats_the_compaction():
    of = model(Constants(MAX_CRASHES=1))
    applied = walked(of, init(of), *FLUSH, *of_compactor(0, *CHANGE, *CHANGE, "Read", *CHANGE, *CHANGE, "Crash"))
    assert latest(applied.shared.manifests).compacted == (0,) and latest(applied.shared.compactions).jobs == {(0,)}
    taken = walked(of, applied, *of_compactor(1, *CHANGE, *CHANGE, "ReadLanded", *CHANGE))
    assert latest(taken.shared.manifests).compacted == (0,) and latest(taken.shared.compactions).jobs == set()
    assert taken.shared.finished == {(0,)}


def test_a_compactor_that_is_fenced_stops_before_it_changes_the_manifest():
    of = model(Constants())
    claimed = walked(of, init(of), *FLUSH, *of_compactor(0, *CHANGE, *CHANGE, "Read", *CHANGE), *of_compactor(1, *CHANGE))
    fenced = walked(of, claimed, *of_compactor(0, "ReadFenced"))
    assert fenced.locals[1].pc == "Fenced"
    done = walked(of, fenced, *of_compactor(1, *CHANGE, *CHANGE, *CHANGE))
    assert latest(done.shared.manifests).compacted == (0,) and done.shared.finished == {(0,)}


def test_a_compaction_that_was_refused_after_it_was_built_upon_is_recognised():
    of = model(Constants(COMPACTORS=1, COLLECTORS=1, FLUSHES=2))
    landed = walked(of, init(of), *FLUSH, *of_compactor(0, *CHANGE, *CHANGE, "Read", *CHANGE, "Read", "CreateNext"), *FLUSH)
    step, = (step for step in moves(of, landed) if step.label == ("Collector#0", "AdvanceManifest", (4,)))
    refused = walked(of, step.state, *of_compactor(0, "Reject", "ReadLanded", *CHANGE))
    m = latest(refused.shared.manifests)
    assert (m.compacted, m.l0, refused.shared.finished) == ((0,), {1}, {(0,)})
