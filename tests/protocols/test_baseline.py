"""The baseline of the essay on object-store protocols: its sentences as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.conformance.conform import model_of
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import always_possible
from highwater.model.protocols.baseline import Constants, acked_is_stored, model, stored
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.stem == "baseline"}
LENGTHS = {  # of a shortest counterexample
    "baseline_ack_before_put": 1, "baseline_shared_keys": 3, "baseline_timeout_is_failure": 2,
    "baseline_timeout_is_failure_late": 2, "baseline_stale_listing": 3}
FAULTY = {"UPDATES": 1, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}


def steps(name: str) -> list[str]:
    return [f"{process}.{action}" for (process, action, _), _ in explore(model_of(ROWS[name])).trace[1:]]


@pytest.mark.parametrize("name", LENGTHS)
def test_a_shortest_counterexample_is_so_long(name):
    found = explore(model_of(ROWS[name]))
    assert (found.violated, len(found.trace) - 1) == (ROWS[name].violates, LENGTHS[name])


def test_every_counterexample_is_pinned():
    assert {row.id for row in ROWS.values() if row.expect == "FAILED"} == LENGTHS.keys()


def test_all_faults_together():
    """More states than a row may have."""
    found = explore(model(Constants(**FAULTY)))
    assert (found.violated, found.never, found.states) == (None, (), 6_132)


# --- the source's sentences

def test_stored_is_acknowledged_or_unknown():
    """«If at any point the database crashes, we'll have only acknowledged writes stored»: without a crash between a put and
    its acknowledgement, that is so at rest; with any fault it is not, and what is stored besides was never reported."""
    def only_acknowledged(c, s):
        return stored(s) <= s.acked

    def at_rest(c, s):
        return len(s.acked) < c.WRITERS or stored(s) == s.acked

    plain = model(Constants(UPDATES=1, READERS=0))
    found = explore(plain._replace(always={"OnlyAcknowledged": (None, only_acknowledged)}))
    assert [step.label[1] for step in found.trace[1:]] == ["Put"]  # its reply is on the way
    assert explore(plain._replace(always={"AtRest": (None, at_rest)})).violated is None
    crashed = model(Constants(UPDATES=1, READERS=0, MAX_CRASHES=1))
    assert always_possible(crashed, only_acknowledged) is not None  # for ever: nobody will be told
    assert explore(crashed).violated is None


def test_acknowledged_before_the_put_is_lost_for_good():
    lost = always_possible(model_of(ROWS["baseline_ack_before_put"]), acked_is_stored)
    assert [step.label[1] for step in lost[1:]] == ["Acknowledge", "Crash"]


def test_unique_ids_inherently_avoid_conflicts():
    """«append-only files with unique IDs»; with a shared one the other's acknowledged write is gone."""
    assert steps("baseline_shared_keys") == ["Writer#0.Put", "Writer#0.Acknowledge", "Writer#1.Put"]


def test_sent_again_under_its_own_key_it_is_one_update():
    """Any number of late or repeated PUTs of an update leave one object."""
    def one_object(c, s):
        return len(s.objects) == len(stored(s)) == len({key for key, _ in s.objects})

    instance = model(Constants(WRITERS=1, UPDATES=2, MAX_PENDING=2, MAX_LOST=2))
    assert explore(instance._replace(always={**instance.always, "OneObject": (None, one_object)})).violated is None


def test_a_time_out_is_not_a_failure():
    assert steps("baseline_timeout_is_failure") == ["Writer#0.Put", "Writer#0.LoseReply"]
    assert steps("baseline_timeout_is_failure_late") == ["Writer#0.SendPut", ".ApplyPending"]


def test_read_your_writes_guarantees_correctness_during_fail_overs():
    """A reader that begins after its predecessor's crash reads whatever was acknowledged; one with a stale listing does not."""
    assert explore(model(Constants(READERS=2, UPDATES=1, MAX_CRASHES=1))).violated is None
    assert steps("baseline_stale_listing")[-1] == "Reader#0.StaleList"
