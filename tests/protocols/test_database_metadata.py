"""The model of a whole database's metadata: its instances, what its joint steps are, and what only the composition breaks."""

from typing import Any

import pytest

from highwater.model.compose import ordered, taken
from highwater.model.core import Model, State, broken, init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.explore.walk import walk
from highwater.model.protocols.database import history
from highwater.model.protocols.database.constants import WITHOUT, Constants
from highwater.model.protocols.database_metadata import model
from highwater.model.refine import Mapped, failure, refining
from highwater.model.refinements import database_metadata as mapping

SMALL = {"WAL": False, "MAX_ID": 6}


@pytest.mark.parametrize("constants, states", [
    ({}, 27),
    ({**SMALL, "WRITERS": 2}, 235),
    ({**SMALL, "COMPACTORS": 1}, 383),
    ({"WRITERS": 2, "MAX_ID": 6}, 3281),
    ({"WAL_COLLECTORS": 1}, 412),
    ({**SMALL, "READERS": 1, "COLLECTORS": 1}, 991),
    ({**SMALL, "WRITERS": 2, "MAX_LOST": 1}, 1393),
    ({**SMALL, "WRITERS": 2, "MAX_PENDING": 1}, 4131),
    ({**SMALL, "WRITERS": 2, "MAX_CRASHES": 1}, 491),
    ({**SMALL, "COMPACTORS": 1, "MAX_LOST": 1}, 2747),
    ({**SMALL, "COMPACTORS": 1, "MAX_PENDING": 1}, 7777),
    ({"MAX_LOST": 1}, 108),
    ({"MAX_PENDING": 1}, 242),
], ids=str)
def test_every_property_of_every_part_holds(constants, states):
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.states, found.never) == (None, states, ())


# --- the joint steps

def lists(c: int, me: int, s: int, w: str) -> Any:
    if w == "Idle":
        yield (), s, "Listed"


def adds(c: int, me: int, s: int, w: str) -> Any:
    if w == "Listed":
        for more in range(1, c + 1):
            yield (more,), s + more, "Idle"


ACTIONS = {"List": lists, "Add": adds}


def test_actions_are_taken_one_after_another():
    assert list(taken(ACTIONS, ("List", "Add"), 2, 0, 5, "Idle")) == [((1,), 6, "Idle"), ((2,), 7, "Idle")]
    assert not list(taken(ACTIONS, ("Add", "List"), 2, 0, 5, "Idle"))


def test_a_step_of_one_part_leaves_the_others_alone():
    of = model(Constants())
    step = next(step for step in moves(of, init(of)) if step.label[1] == "List")
    before, after = of.shared, step.state.shared
    assert before == after and step.state.locals[0].epochs == init(of).locals[0].epochs
    assert step.state.locals[0].manifest.pc == "Listed"


def test_the_order_of_actions_has_each_way_in_it():
    assert ordered({"part": (("List",), ("ReadLatest", "List"))}) == {"part": ("ReadLatest", "List")}
    assert ordered({"part": (("Read", "Put"),)}, {"part": (("Landed", "Read", "Put", "Accept"),), "other": (("Put",),)}) == {
        "part": ("Landed", "Read", "Put", "Accept"), "other": ("Put",)}


LEFT_OUT = [(kind, part) for kind, follow in history.LANDS.items() for part in follow]


@pytest.mark.parametrize("kind, part", LEFT_OUT, ids=[f"{kind}, {part}" for kind, part in LEFT_OUT])
def test_a_part_that_does_not_follow_is_noticed(monkeypatch, kind, part):
    """Leave one part out of the table: the parts then disagree on the history."""
    monkeypatch.delitem(history.LANDS[kind], part)
    constants = {"WRITERS": 1} if part == "wal" else {**SMALL, "COMPACTORS": 1}
    assert explore(model(Constants(**constants)), max_states=5_000).violated in ("PartsFollow", "OneHistory", "PartsAgree")


# --- stories

def walked(of: Model, *labels: tuple[str, str] | tuple[str, str, Any]) -> State:
    """Return the state after these steps: (process, action), and where there are several, one of the choices."""
    state = init(of)
    for process, action, *choice in labels:
        found = [step.state for step in moves(of, state) if step.label[:2] == (process, action)
                 and (not choice or choice[0] in step.label[2])]
        assert len(found) == 1, (process, action, len(found), [step.label for step in moves(of, state)])
        state, = found
    return state


def by(process: str, *actions: str | tuple[str, Any]) -> list[Any]:
    return [(process, action) if isinstance(action, str) else (process, *action) for action in actions]


KEEP = ("Keep", ())
READ, PUT = ("List", "ReadLatest"), ("List", "ReadLatest", ("CreateNext", KEEP))
OPEN = (*READ, ("CreateNext", "heard"), "Accept")


def collected(i: int) -> list[Any]:
    return by("Collector#0", "List", "ReadBoundary", ("Advance", i), ("Delete", i))


# Writer#0 lists the manifest 3. Before it gets it, the manifest 3 is collected, and a create of Writer#1, which is late, takes
# its id. It has a higher epoch, and it is in nobody's history.
LATE_CLAIM = [*by("Writer#0", *OPEN), *by("Writer#1", *READ), *by("Operator#0", *PUT), *by("Writer#0", "List"),
              *by("Operator#0", "Accept", *PUT), *collected(3), *by("Writer#1", "CreateNext"), *by("Writer#0", "ReadLatest")]
TWO_WRITERS = {"WAL": False, "WRITERS": 2, "OPERATORS": 1, "TAKES": 2, "COLLECTORS": 1}


def test_a_writer_takes_a_claim_that_is_in_nobodys_history_for_its_successor():
    of = model(Constants(**TWO_WRITERS, VERDICT_CHECKED=False))
    state = walked(of, *LATE_CLAIM, ("Writer#0", "Believe"))
    assert "FencedIsSo" in broken(of, state) and state.shared.epochs.files[-1].writer_epoch == 1


def test_a_writer_that_checks_the_boundary_reads_again():
    of = model(Constants(**TWO_WRITERS, MAX_ID=6))
    state = walked(of, *LATE_CLAIM)
    assert {step.label[1] for step in moves(of, state) if step.label[0] == "Writer#0"} == {"Doubt"}
    state = walked(of, *LATE_CLAIM, *by("Writer#0", "Doubt", *PUT, "Accept"), ("Writer#1", "Reject"))
    assert not broken(of, state) and state.shared.epochs.acked == {(0, 0)}


# The writer is about to put a flush of its record as the manifest 3. It stalls. The manifest 3 of an operator is collected, and
# the flush takes its id. A collector of the WAL has listed it before.
VALIDATE = ("List", "ReadLatest", "Current")
LATE_FLUSH = [*by("Writer#0", *OPEN, "WalList", "CreateFence", *VALIDATE, "Append", *VALIDATE, *READ),
              *by("Operator#0", *PUT, "Accept"), *by("WalCollector#0", "List"), *by("Operator#0", *PUT), *collected(3),
              *by("Writer#0", "CreateNext"), *by("WalCollector#0", "ReadLatest")]
LOGGING = {"OPERATORS": 1, "TAKES": 2, "COLLECTORS": 1, "WAL_COLLECTORS": 1}


def test_a_collector_of_the_wal_deletes_a_record_that_no_manifest_of_the_history_has():
    of = model(Constants(**LOGGING, WAL_CHECKED=False))
    state = walked(of, *LATE_FLUSH, ("WalCollector#0", "Delete", 2))
    assert broken(of, state) == ["wal.AckedIsDurable"]
    assert state.shared.wal.acked == {(0, 0)} and not state.shared.wal.manifest.flushed


def test_a_collector_of_the_wal_that_checks_the_boundary_deletes_nothing():
    of = model(Constants(**LOGGING))
    state = walked(of, *LATE_FLUSH)
    assert {step.label[1] for step in moves(of, state) if step.label[0] == "WalCollector#0"} == {"ReadReject"}


def test_a_collector_that_takes_the_boundary_of_the_other_sequence_deletes_too_much():
    of = model(Constants(**SMALL, WRITERS=0, COMPACTORS=2, COLLECTORS=1, COMPACTIONS_COLLECTORS=1, OWN_BOUNDARY=False))
    found = explore(of, max_states=20_000)
    assert found.violated == "compactions.DeletedIsBehindBoundary"


def test_a_claim_that_is_believed_before_it_is_checked_may_be_in_nobodys_history():
    of = model(Constants(WRITERS=2, COLLECTORS=1, APPENDS=0, MAX_ID=6, FENCE_CHECKED=False))
    assert explore(of, max_states=60_000).violated == "PartsFollow"


# --- safeguards

def test_each_safeguard_of_a_part_is_named_in_the_mapping_or_shown_by_a_story():
    off = {constants.get("OFF", "") for constants in mapping.OFF}
    assert set(WITHOUT) - off == set(STORIES)


STORIES = {"wal.MISSING_IS_FENCED"}


def test_a_replay_that_misses_an_object_is_over():
    """Writer#1 replays, and what it has not read yet is flushed by its successor and collected."""
    c = Constants(WRITERS=3, WAL_COLLECTORS=1, MAX_ID=6, OFF="wal.MISSING_IS_FENCED")
    of = model(c)
    state = walked(of, *by("Writer#0", *OPEN, "WalList", "CreateFence", *VALIDATE, "Append", *VALIDATE),
                   *by("Writer#1", *OPEN, "WalList", "CreateFence"),
                   *by("Writer#2", *OPEN, "WalList", "CreateFence", "ReadNext", "ReadNext", "ReadNext", *VALIDATE, *PUT),
                   *by("WalCollector#0", "List", "ReadLatest", "ReadAccept", ("Delete", 1)))
    wrong = failure(Mapped(of, mapping.refinement(c, "wal")), state)
    assert wrong and (wrong.process, wrong.action) == ("Writer#1", "WalReadMissing")


# --- large instances

LARGE = {"WRITERS": 2, "COMPACTORS": 1, "COLLECTORS": 1, "MAX_ID": 6, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}


def test_walks_in_a_larger_instance():
    found = walk(model(Constants(**LARGE)), walks=60, steps=200)
    assert not found.violated and found.longest == 200


def test_walks_refine_each_part():
    of, c = model(Constants(**LARGE)), Constants(**LARGE)
    mapped = [Mapped(of, mapping.refinement(c, onto)) for onto in mapping.ONTO if mapping.has_clients(c, onto)]
    assert len(mapped) == 5 and not walk(refining(*mapped), walks=20, steps=150).violated


def test_only_writers_act_as_the_one_writer_of_claims():
    """A step of another client that changed its local part would be none of claims."""
    def flushes(c: Any, me: int, s: Any, w: Any) -> Any:
        yield (), s._replace(flusher=s.flusher._replace(k=9)), w

    c = Constants(**SMALL, COMPACTORS=1)
    of = model(c)
    wrong = of._replace(processes=tuple(
        one._replace(actions={**one.actions, "List": flushes}) if one.role == "Compactor" else one for one in of.processes))
    found = failure(Mapped(wrong, mapping.refinement(c, "claims")), init(wrong))
    assert found and found.why == ("it changes the local part of Writer#0, which only Writer acts as",)
