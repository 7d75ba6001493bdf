"""The gate stays short: FizzBee explores few states. What it only follows there is in small runs, too, and in `verify --deep`.

Nothing is timed here. FizzBee takes 5 to 14 ms for a state, so the numbers of states bound the time: docs/gate.md."""

from functools import cache

import pytest

from highwater.conformance.conform import model_of
from highwater.specs.runs import Row, deeper, rows, silent

ROWS = rows()
STEMS = sorted({row.stem for row in ROWS})
MOST, MOST_OF_ALL = 1_900, 8_500  # states that FizzBee explores in one run, and in all runs of one protocol
LARGER = {"database_gc_garbage_stays": 4_263}  # no smaller instance has the cycle
FOLLOWED_IN_BOTH = {  # most are failing runs with more than 10,000 states
    "cached_boundary", "clones_begun_again_from_before", "clones_with_old_finals", "compactions_bumped_first",
    "compactions_crash_reapplied", "compactions_manifest_unchecked", "compactions_not_taken_over",
    "compactions_refused_reapplied", "compactions_unchecked", "database_gc_checkpointed_not_spared",
    "expired_not_spared", "log_gc_appended_again", "log_gc_boundary_moves_backward", "raft_membership_four",
    "raft_membership_rivals", "raft_membership_two_at_once", "raft_membership_two_changes", "raft_membership_two_leaders",
    "raft_old_term_commits",
    "read_by_an_earlier_round", "read_confirmed_in_another_term", "reads_not_checked",
    "recognised_unchecked", "store_coarse_version", "wal_fence_behind", "wal_fence_behind_where_all_is_collected",
    "wal_neither_fence_nor_check"}
ONLY_FOLLOWED = {"Writer.RecogniseReject"} | {  # the smallest instance that takes it has 1,902 states;
    "Age", "ConfirmUnit", "Elect", "Forget", "ForgetUnit", "HandOutUnit", "LateJob", "Propose", "Sweep", "Truncate"}
# of metadata_fsm: 827 to 6,567 states, whose graphs the deeper gate compares
WHOLLY_FOLLOWED = {"raft_membership"}  # its smallest instance has 3,617 states; the deeper gate compares four graphs


def explored(row: Row) -> int:
    """The states that FizzBee explores: a graph of a run that fails takes it a second run."""
    return 0 if row.how == "guided" else row.states * (2 if row.expect == "FAILED" and row.how != "live" else 1)


@pytest.mark.parametrize("stem", STEMS)
def test_fizzbee_explores_few_states_of_each_protocol_in_the_gate(stem):
    numbers = {row.id: explored(row) for row in ROWS if row.stem == stem}
    assert {name: number for name, number in numbers.items() if number > MOST and LARGER.get(name) != number} == {}
    assert sum(numbers.values()) <= MOST_OF_ALL


def test_what_fizzbee_only_follows_in_the_gate_is_explored_in_the_deeper_gate():
    assert {row.id for row in ROWS if row.how == "guided" and deeper(row).how != "graph"} == FOLLOWED_IN_BOTH


@cache
def taken(row_id: str) -> frozenset[str]:
    """The actions that fire in a run: all but those that its table lists as silent, which a row checks."""
    row = next(row for row in ROWS if row.id == row_id)
    model = model_of(row)
    actions = {f"{process.role}.{action}".lstrip(".") for process in model.processes for action in process.actions}
    return frozenset(actions - silent(row.spec, model.constants._asdict()) - {*row.silent})


@pytest.mark.parametrize("stem", STEMS)
def test_every_action_that_fizzbee_follows_is_in_a_graph_that_the_gate_compares(stem):
    passing = [row for row in ROWS if row.stem == stem and row.expect == "PASSED" and row.how != "live"]
    whole = frozenset[str]().union(*(taken(row.id) for row in passing if row.how == "graph"))
    assert stem in WHOLLY_FOLLOWED or frozenset[str]().union(*(taken(row.id) for row in passing)) - whole <= ONLY_FOLLOWED
