"""The model of the essay's sequenced write: the essay's sentences as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.conformance.conform import model_of
from highwater.model.core import init, moves
from highwater.model.explore.tabulated import graph
from highwater.model.liveness import eventually
from highwater.model.protocols.sequenced_write import Constants, history, model
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.spec == "SequencedWrite"}
LIVE = [row for row in ROWS.values() if row.how == "live"]


# --- the source's sentences

def steps(of, *labels):
    """The state after these (process, action), each the only one of its name."""
    state = init(of)
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def alone(of, state):
    """Let Writer#1 act alone until its update is acknowledged. Return its actions and the acknowledgements."""
    taken = []
    while not any(w == 1 for _, w, _ in state.shared.acked):
        step, = (step for step in moves(of, state) if step.label[0] == "Writer#1")
        taken.append(step.label[1])
        state = step.state
    return taken, state.shared.acked


def test_a_conflict_costs_three_round_trips_of_the_state_and_two_of_the_log():
    """«reduces the cost of contention from three S3 round trips to two by avoiding the GET»"""
    race = [("Writer#0", "List"), ("Writer#1", "List"), ("Writer#0", "CreateNext")]
    both = frozenset({(1, 0, 0), (2, 1, 0)})
    state, log = (model(Constants(USE=use, COMMITS=1)) for use in ("state", "log"))
    assert alone(state, steps(state, *race)) == (["CreateConflict", "ReadLatest", "CreateNext"], both)
    assert alone(log, steps(log, *race)) == (["CreateConflict", "CreateNext"], both)


def test_a_writer_that_wins_needs_no_get_to_write_again():
    """«the first writer is writing often because it doesn't need an additional GET to write again»"""
    of = model(Constants(WRITERS=1))
    after = steps(of, ("Writer#0", "List"), ("Writer#0", "CreateNext"), ("Writer#0", "CreateNext"))
    assert after.shared.files == (((0, 0),), ((0, 0), (0, 1)))


@pytest.mark.parametrize("use", ["state", "log"])
def test_every_run_ends_in_one_serial_history(use):
    """«implement a serializable history»: where all is done, both writers' updates, each once, each writer's in its order."""
    of = model(Constants(USE=use))
    x, edges = graph(of)
    ends = {history(of.constants, x.unpack(packed).shared) for packed, after in edges.items() if not after}
    assert len(ends) == 6  # the interleavings of two and two
    for end in ends:
        assert sorted(end) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert [u for u in end if u[0] == 0] == [(0, 0), (0, 1)] and [u for u in end if u[0] == 1] == [(1, 0), (1, 1)]


@pytest.mark.parametrize("row", [row for row in LIVE if row.expect == "FAILED"], ids=lambda row: row.id)
def test_who_starves_tries_again_and_again(row):
    """Not one that sleeps: in the cycle it is refused, and its rival is not."""
    lasso = eventually(model_of(row), [row.eventually])[row.eventually]
    taken = {(step.label[0] == lasso.process, step.label[1]) for step in lasso.cycle}
    assert (True, "CreateConflict") in taken and (True, "CreateNext") not in taken and (False, "CreateNext") in taken


def test_in_doubt_the_same_request_is_put_again_and_recognised():
    """A reply is lost, the retry is refused by the writer's own file: neither a false conflict nor a second update."""
    of = model(Constants(UNKNOWN="recognise", WRITERS=1, COMMITS=1, MAX_LOST=1))
    after = steps(of, *[("Writer#0", action) for action in ("List", "LoseReply", "CreateConflict", "ReadOwn")])
    assert after.shared.acked == {(1, 0, 0)} and after.shared.files == (((0, 0),),)
