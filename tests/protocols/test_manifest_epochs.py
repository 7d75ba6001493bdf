"""The model of epochs in a manifest: the sentences of SlateDB's page and of the essay. (Counts and knobs: test_rows.py.)"""

from itertools import permutations

import pytest

from highwater.conformance.conform import model_of
from highwater.impl.codecs.json.manifest import EPOCHS
from highwater.impl.codecs.manifest import Manifest
from highwater.model.core import State, init, moves
from highwater.model.explore.tabulated import explore, graph
from highwater.model.liveness import eventually
from highwater.model.protocols.manifest_epochs import Constants, flush_is_kept, model
from highwater.specs.runs import rows
from highwater.traces.event import EMPTY
from highwater.traces.protocols.manifest_epochs import Trace, refiner
from highwater.traces.protocols.manifest_epochs import constants as unbounded
from highwater.traces.refine import Failure

encode = EPOCHS.encode

ROWS = {row.id: row for row in rows() if row.spec == "ManifestEpochs"}
LIVE = [row for row in ROWS.values() if row.how == "live"]


@pytest.mark.parametrize("constants", [{"CREATE_IF_ABSENT": False, "COMPACTORS": 1},
                                       {"REAPPLY": False, "WRITERS": 1, "COMPACTORS": 1, "FLUSHES": 2},
                                       {"REREAD": False, "WRITERS": 1, "COMPACTORS": 1, "FLUSHES": 2}], ids=str)
def test_what_else_loses_a_flush(constants):
    """Rows name the first property that fails; a reported flush goes, too."""
    of = model(Constants(**constants))._replace(always={"FlushIsKept": (None, flush_is_kept)}, sometimes={})
    assert explore(of).violated == "FlushIsKept"


def test_what_else_drops_the_checkpoint_of_a_writer():
    """A compactor that puts its old lists drops the checkpoint of a writer that has opened since."""
    of = model(Constants(REAPPLY=False, COMPACTORS=1))
    kept = of._replace(always={"WriterCheckpointIsKept": of.always["WriterCheckpointIsKept"]}, sometimes={})
    assert explore(kept).violated == "WriterCheckpointIsKept"


def test_a_lost_open_leaves_a_checkpoint_and_the_next_open_drops_it():
    of = model(Constants(WRITERS=2, FLUSHES=0, MAX_LOST=1))
    after = walked(of, init(of), *opening(0, "LoseReply"), *opening(1, "CreateNext"))
    assert [m.writer_checkpoints for m in after.shared.files] == [set(), {(1, 2)}, {(2, 3)}]


# --- the sources' sentences

def walked(of, state: State, *labels) -> State:
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def opening(i: int, *more: str) -> list[tuple[str, str]]:
    return [(f"Writer#{i}", action) for action in ("List", "ReadLatest", *more)]


def states(of):
    x, edges = graph(of)
    return [x.unpack(packed) for packed in edges]


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_of_three_that_open_simultaneously_exactly_one_succeeds(order):
    """«If multiple instances of SlateDB attempt to db::open the same database for write simultaneously, only one will
    succeed»; the others get «a SlateDBError::ManifestVersionExists error»."""
    of = model(Constants(WRITERS=3))
    all_read = walked(of, init(of), *(label for i in range(3) for label in opening(i)))
    first, second, third = (f"Writer#{i}" for i in order)
    after = walked(of, all_read, (first, "CreateNext"), (second, "CreateConflict"), (third, "CreateConflict"))
    pcs = {f"Writer#{i}": (w.pc, w.open) for i, w in enumerate(after.locals[:3])}
    assert pcs == {first: ("Idle", True), second: ("Failed", False), third: ("Failed", False)}
    assert after.shared.opened == {("Writer", order[0], 1)} and len(after.shared.files) == 2


def test_of_three_opens_in_sequence_all_succeed_and_the_earlier_are_fenced():
    """«each instance will successfully open the database»; the earlier ones «will discover the epoch in the manifest is
    greater than the epoch they expect» when they update it."""
    of = model(Constants(WRITERS=3))
    after = walked(of, init(of), *(label for i in range(3) for label in opening(i, "CreateNext")))
    assert after.shared.opened == {("Writer", i, i + 1) for i in range(3)}
    assert [m.writer_epoch for m in after.shared.files] == [0, 1, 2, 3]
    for earlier in (0, 1):
        fenced = walked(of, after, (f"Writer#{earlier}", "List"), (f"Writer#{earlier}", "ReadFenced"))
        assert fenced.locals[earlier].pc == "Fenced" and not [*of_process(of, fenced, f"Writer#{earlier}")]
    flushed = walked(of, after, *opening(2, "CreateNext"))
    assert flushed.shared.acked == {(2, 0)} == flushed.shared.files[-1].l0


def of_process(of, state: State, name: str):
    return (step for step in moves(of, state) if step.label[0] == name)


def test_an_open_that_retries_reads_the_epoch_anew():
    """Released code: after a lost race the open begins anew, and all three are open in the end, with epochs of their own."""
    of = model(Constants(WRITERS=3, FLUSHES=0, OPEN_RETRIES=2))
    ends = [state for state in states(of) if not [*moves(of, state)]]
    assert ends and all({epoch for _, _, epoch in state.shared.opened} == {1, 2, 3} for state in ends)


def test_a_conflict_with_another_role_is_retried():
    """«if a writer reads back a file after a conflict and notices that its epoch is the same, then the change must've been
    caused from a non-conflicting role such as the compactor»"""
    of = model(Constants(WRITERS=1, COMPACTORS=1))
    compactor = [("Compactor#0", action) for action in ("List", "ReadLatest", "CreateNext")]
    after = walked(of, init(of), *opening(0, "CreateNext"), *opening(0), *compactor, ("Writer#0", "CreateConflict"),
                   *opening(0, "CreateNext"))
    latest = after.shared.files[-1]
    assert (latest.writer_epoch, latest.compactor_epoch, latest.l0) == (1, 1, {(0, 0)})
    assert (latest.last_wal, latest.next_wal) == (1, 2)


def test_a_flush_that_meets_a_compaction_keeps_it():
    """«discover the most recently updated manifest and re-apply our changes to the manifest»"""
    of = model(Constants(WRITERS=1, COMPACTORS=1, FLUSHES=2))
    compactor = [("Compactor#0", action) for action in ("List", "ReadLatest", "CreateNext")]
    after = walked(of, init(of), *opening(0, "CreateNext"), *opening(0, "CreateNext"), *compactor, *opening(0), *compactor,
                   ("Writer#0", "CreateConflict"), *opening(0, "CreateNext"))
    latest = after.shared.files[-1]
    assert (latest.l0, latest.compacted, after.shared.acked) == ({(0, 1)}, {(0, 0)}, {(0, 0), (0, 1)})


def test_a_fenced_writer_is_told_and_no_flush_of_its_is_reported():
    """The NOTE of SlateDB's page on the manifest: a fenced writer never gets more than the error."""
    of = model(Constants(FLUSHES=2))
    fenced = [state for state in states(of) if any(w.pc == "Fenced" for w in state.locals[:2])]
    assert fenced
    for state in fenced:
        for i, w in enumerate(state.locals[:2]):
            if w.pc == "Fenced":
                assert (i, w.k) not in state.shared.acked and not [*of_process(of, state, f"Writer#{i}")]


def test_an_open_whose_reply_is_lost_fences_although_nobody_has_its_epoch():
    """A difference from SlateDB's page on the manifest, which stops at the CAS error. The old writer stops; none is open."""
    of = model(Constants(MAX_LOST=1))
    assert any(w.pc == "Fenced" and len(state.shared.opened) == 1 for state in states(of) for w in state.locals[:2])


@pytest.mark.parametrize("row", [row for row in LIVE if row.expect == "FAILED"], ids=lambda row: row.id)
def test_who_starves_tries_again_and_again(row):
    """«Too many conflicts can lead to starvation»: not one that sleeps; in the cycle it is refused, and its rival is not."""
    lasso = eventually(model_of(row), [row.eventually])[row.eventually]
    taken = {(step.label[0] == lasso.process, step.label[1]) for step in lasso.cycle}
    assert (True, "CreateConflict") in taken and (True, "CreateNext") not in taken and (False, "CreateNext") in taken


# --- traces


ASKED = EMPTY._replace(request=1, client="Writer#0", kind="applied", op="list", key="db/manifest/", status=200,
                       keys=("db/manifest/00000000000000000001.manifest",))
GET = EMPTY._replace(request=2, client="Writer#0", kind="applied", op="get", key=ASKED.keys[0], status=200, version="1",
                     body=encode(Manifest()))
REFUSED = GET._replace(kind="refused", status=503, version="", body=b"")
TIMED_OUT = REFUSED._replace(kind="timeout", status=0)


@pytest.mark.parametrize("events, refines", [
    ([ASKED, REFUSED, ASKED, GET], True),  # as impl/protocols/manifest_epochs.py
    ([ASKED, REFUSED, GET], True),  # an SDK that has asked again
    ([ASKED, TIMED_OUT, ASKED, REFUSED, ASKED, GET], True),
    ([ASKED, REFUSED, ASKED], True), ([ASKED, ASKED], False), ([ASKED, GET, ASKED], False), ([GET], False)])
def test_after_a_get_that_came_to_nothing_an_instance_begins_anew(events, refines):
    trace = Trace(refiner(unbounded(1, 0, 0, 0, 0, False)))
    try:
        for number, event in enumerate(events, 1):
            trace.observe(event._replace(request=number))
    except Failure as failure:
        assert not refines and failure.signature.startswith("refinement:Writer."), failure
    else:
        assert refines
