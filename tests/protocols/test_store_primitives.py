"""The essay's object store: the essay's sentences as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.conformance.conform import model_of
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.store_primitives import Constants, model, present
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.stem == "store_primitives"}
LENGTHS = {  # of a shortest counterexample
    "store_torn": 4, "store_blind_create": 4, "store_blind_update": 7, "store_false_conflict": 2, "store_stale_reads": 5,
    "store_session_reads": 5, "store_stale_listing": 5, "store_digest_update": 7, "store_digest_read": 7,
    "store_coarse_version": 7}


def steps(name: str) -> list[str]:
    return [f"{process}.{action}" for (process, action, _), _ in explore(model_of(ROWS[name])).trace[1:]]


@pytest.mark.parametrize("name", LENGTHS)
def test_a_shortest_counterexample_is_so_long(name):
    found = explore(model_of(ROWS[name]))
    assert (found.violated, len(found.trace) - 1) == (ROWS[name].violates, LENGTHS[name])


def test_every_counterexample_is_pinned():
    assert {row.id for row in ROWS.values() if row.expect == "FAILED"} == LENGTHS.keys()


# --- the source's sentences

def test_data_is_entirely_from_one_write_while_two_race():
    """«writer A and writer B can write to the same path and there's no guarantee to whose write wins»"""
    last = set()

    def note(c, s, w):
        if s.objects[0].n == 2:
            last.add(s.objects[0])
        return True

    instance = model(Constants(READS=0))
    assert not explore(instance._replace(always={**instance.always, "Noted": ("Client", note)})).violated
    assert {(o.front, o.back) for o in last} == {(1, 1), (2, 2)}


def test_a_write_is_torn_by_a_read_between_its_halves():
    assert steps("store_torn") == ["Client#0.SendPut", "Client#0.ApplyHalf", "Client#1.SendGet", "Client#1.ApplyGet"]


def test_torn_halves_of_two_writes_stay():
    """«there is no interleaving data»: without atomic writes there is, even when all is over."""
    def mixed(c, s):
        return s.objects[0].front == s.objects[0].back or s.objects[0].n < 4

    instance = model(Constants(READS=0, WRITES_ARE_ATOMIC=False))
    found = explore(instance._replace(always={"Mixed": (None, mixed)}))
    assert found.violated == "Mixed" and len(found.trace) - 1 == 6


def test_the_former_will_only_allow_a_write_if_there_is_no_file_with_that_path():
    assert steps("store_blind_create")[1:] == ["Client#0.ApplyPut", "Client#1.SendCreate", "Client#1.ApplyCreate"]


def test_session_guarantees_are_not_enough():
    """«read-your-writes» holds of each client alone, and yet one does not see what another was told is written."""
    trace = steps("store_session_reads")
    assert trace == ["Client#0.SendPut", "Client#0.ApplyPut", "Client#0.Reply", "Client#1.SendGet", "Client#1.StaleGet"]


def test_as_soon_as_a_put_returns_200_a_list_shows_it():
    assert steps("store_stale_listing")[1:3] == ["Client#0.ApplyPut", "Client#0.Reply"]


@pytest.mark.parametrize("constants", [{}, {"WRITES": 2, "READS": 0, "BODIES": 1}, {"MAX_PENDING": 1, "BODIES": 1}])
def test_with_digests_304_means_equal_and_all_holds_but_what_speaks_of_writes(constants):
    """«matches the content hash (or generation ID in some implementations)»: only generations tell that nobody wrote."""
    instance = model(Constants(VERSION="digest", **constants))
    weaker = {name: prop for name, prop in instance.always.items() if name not in ("UpdateIsNext", "NotModifiedIsUnwritten")}
    assert explore(instance._replace(always=weaker)).violated is None


def test_of_updates_that_name_one_version_one_wins():
    """From every state in which two such are under way for the latest write, one is applied and the other refused."""
    updated = model(Constants(WRITES=2, READS=1, BODIES=1))
    wins = {}

    def note(c, s, w):
        if w.pc == "Applied" and w.kind == "Update":
            named = w.known[0].n
            wins.setdefault((named, w.outcome), set()).add(w.got.n - named)
        return True

    assert not explore(updated._replace(always={"Noted": ("Client", note)})).violated
    assert all(gaps == {1} for (_, outcome), gaps in wins.items() if outcome == "Ok")
    assert all(min(gaps) == 1 for (_, outcome), gaps in wins.items() if outcome == "Conflict")


def test_a_write_that_nobody_waits_for_may_be_applied_after_all_else():
    """A time-out is never evidence that nothing happened."""
    instance = model(Constants(MAX_PENDING=1, BODIES=1))

    def later(c, s):
        return not (s.told[0] == 1 and s.objects[0].n == 2 and not s.pool)

    assert explore(instance._replace(always={"Later": (None, later)})).violated == "Later"
    assert present(explore(instance._replace(always={"Later": (None, later)})).trace[-1].state.shared.objects[0])
