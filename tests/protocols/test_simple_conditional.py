"""The essay's simple conditional protocol: its sentences as cases. (Counts and knobs: test_rows.py.)"""

import pytest

from highwater.conformance.conform import model_of
from highwater.model.core import init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import TAKEN, always_possible, eventually
from highwater.model.protocols.simple_conditional import Constants, condition_means_unchanged, model
from highwater.specs.runs import rows

ROWS = {row.id: row for row in rows() if row.stem == "simple_conditional" and row.how != "live"}
LIVE = {row.id: row for row in rows() if row.stem == "simple_conditional" and row.how == "live"}
LENGTHS = {  # of a shortest counterexample
    "conditional_no_etag": 4, "conditional_no_reread": 6, "conditional_aba": 6, "conditional_aba_late": 7,
    "conditional_reapply": 5, "conditional_check_flag": 6, "conditional_check_flag_lost": 7, "conditional_stale_reads": 4}
FAULTY = {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}


def steps(name: str) -> list[str]:
    return [f"{process}.{action}" for (process, action, _), _ in explore(model_of(ROWS[name])).trace[1:]]


def but(instance, *names: str):
    """The model without these properties."""
    return instance._replace(always={name: prop for name, prop in instance.always.items() if name not in names})


@pytest.mark.parametrize("name", LENGTHS)
def test_a_shortest_counterexample_is_so_long(name):
    found = explore(model_of(ROWS[name]))
    assert (found.violated, len(found.trace) - 1) == (ROWS[name].violates, LENGTHS[name])


@pytest.mark.parametrize("constants", [{"CONTENT": "flag", "READERS": 1}, {"BUSY": 1}])
def test_what_makes_no_sense_is_refused(constants):
    with pytest.raises(ValueError, match="readers need CONTENT"):
        model(Constants(**constants))


def test_every_counterexample_is_pinned():
    assert {row.id for row in ROWS.values() if row.expect == "FAILED"} == LENGTHS.keys()


@pytest.mark.parametrize("resolve, states", [("unknown", 4_670), ("check", 20_947)])
def test_all_faults_together(resolve, states):
    """More states than a row may have."""
    found = explore(model(Constants(**FAULTY, RESOLVE=resolve)), symmetry=True)
    assert (found.violated, found.never, found.states) == (None, (), states)


# --- the source's sentences

def test_one_writer_would_simply_overwrite_the_data_from_another():
    assert steps("conditional_no_etag") == ["Writer#0.Read", "Writer#1.Read", "Writer#0.PutOk", "Writer#1.PutOk"]


def test_the_conflicting_data_is_re_read():
    """To take the new version alone is to overwrite what it stands for."""
    assert steps("conditional_no_reread")[-3:] == ["Writer#1.PutConflict", "Writer#1.Head", "Writer#1.PutOk"]


def along(instance, *names: str):
    """The state after these steps. KeyError: one of them cannot be taken."""
    state = init(instance)
    for name in names:
        state = {f"{step.label[0]}.{step.label[1]}": step.state for step in moves(instance, state)}[name]
    return state


def test_a_conflict_costs_three_round_trips():
    """«the initial attempt, the GET, and the final PUT with the resolved data»; and «it doesn't need an additional GET to write
    again»."""
    first = ["Writer#0.Read", "Writer#0.PutOk", "Writer#0.Acknowledge"]
    assert along(model(Constants()), *first, "Writer#0.PutOk").shared.content == ((0, 0), (0, 1))
    other, conflict = ["Writer#1.Read", "Writer#1.PutOk"], ["Writer#0.PutConflict", "Writer#0.Read", "Writer#0.PutOk"]
    assert along(model(Constants()), *first, *other, *conflict).shared.content == ((0, 0), (1, 0), (0, 1))
    with pytest.raises(KeyError):
        along(model(Constants()), *first, *other, "Writer#0.PutOk")


def test_the_etag_is_a_hash_of_the_content():
    """Then a flag that was turned over twice looks as if nobody had been there: the condition does not mean what it says."""
    assert steps("conditional_aba") == ["Writer#0.Read", "Writer#1.Read", "Writer#0.PutOk", "Writer#0.Acknowledge",
                                        "Writer#0.PutOk", "Writer#1.PutOk"]
    assert steps("conditional_aba_late")[1] == "Writer#0.SendPut" and steps("conditional_aba_late")[-1] == ".ApplyPending"


@pytest.mark.parametrize("constants", [{}, FAULTY, {"WRITERS": 3, "UPDATES": 1, "MAX_PENDING": 1}])
def test_with_digests_a_history_of_full_states_is_serial_all_the_same(constants):
    """All but ConditionMeansUnchanged holds: what is put is the whole state, computed from an equal one."""
    instance = model(Constants(CONTENT="flag", VERSION="digest", **constants))
    assert explore(instance).violated == "ConditionMeansUnchanged"
    assert explore(but(instance, "ConditionMeansUnchanged")).violated is None


@pytest.mark.parametrize("constants", [{"READERS": 1}, FAULTY, {"RESOLVE": "check", "UPDATES": 1, **FAULTY}])
def test_digests_of_a_log_are_as_good_as_unique_versions(constants):
    digest, unique = (explore(model(Constants(VERSION=version, **constants))) for version in ("digest", "unique"))
    assert digest == unique and digest.violated is None


def test_unique_versions_keep_a_late_put_out_for_ever_and_digests_do_not():
    """With unique versions a writer that has written again is safe from its own late request."""
    for version, broken in (("unique", None), ("digest", "ConditionMeansUnchanged")):
        instance = model(Constants(VERSION=version, CONTENT="flag", MAX_PENDING=1, WRITERS=1, UPDATES=3))
        assert explore(instance).violated == broken


def test_a_put_of_unknown_outcome_is_not_applied_again_blindly():
    assert steps("conditional_reapply") == ["Writer#0.Read", "Writer#0.PutOk", "Writer#0.LoseReply", "Writer#0.Read",
                                            "Writer#0.PutOk"]


def test_only_a_content_that_tells_can_be_asked_whether_it_was():
    assert explore(model(Constants(RESOLVE="check", MAX_PENDING=1, MAX_LOST=1, UPDATES=1))).violated is None
    assert steps("conditional_check_flag")[-1] == "Writer#0.Recognise"


def test_the_property_is_of_the_condition_not_of_who_puts():
    """A late PUT counts as well."""
    trace = explore(model_of(ROWS["conditional_aba_late"])).trace
    instance = model_of(ROWS["conditional_aba_late"])
    assert not condition_means_unchanged(instance.constants, trace[-1].state.shared)


# --- «the second writer might get starved»

def judged(name: str):
    return eventually(model_of(LIVE[name]), ["UpdatesEnd"])["UpdatesEnd"]


def test_the_second_writer_might_get_starved():
    """Although both are weakly fair: each time that it has read, the first has written before it puts."""
    lasso = judged("conditional_starvation")
    around = {(process, action) for (process, action, _), _ in lasso.cycle}
    assert lasso.process == "Writer#1" and ("Writer#1", "PutOk") not in around
    assert around >= {("Writer#1", "Read"), ("Writer#1", "PutConflict"), ("Writer#0", "PutOk")}
    assert {w.action for w in lasso.fair if w.process == "Writer#1" and w.how == TAKEN} == {"Read", "PutConflict"}


def test_starving_is_all_the_harm():
    """From every state the starved writer's update can still be committed."""
    instance = model_of(LIVE["conditional_starvation"])
    assert explore(instance).violated is None
    assert always_possible(instance, lambda c, s: (1, 0) in s.acked) is None


@pytest.mark.parametrize("name", ["conditional_updates_end", "conditional_contention_ends"])
def test_alone_or_among_writers_who_end_it_ends(name):
    assert judged(name) is None


def test_it_ends_with_every_fault_among_writers_who_end():
    instance = model(Constants(UPDATES=1, **FAULTY))
    assert eventually(instance, ["UpdatesEnd"])["UpdatesEnd"] is None
