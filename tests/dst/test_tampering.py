"""Somebody breaks a promise of the environment: callers get named errors, none is told a false success, and no call hangs."""

import asyncio

import pytest

from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS
from highwater.dst.mutants.simple_conditional import BUILDS as SIMPLE
from highwater.dst.run_spec import Run, RunSpec, drawn_shape
from highwater.dst.scenarios import mutants_of, named, stems
from highwater.dst.scenarios.log_gc import SNAPSHOTS_LOST
from highwater.dst.scenarios.sequenced_metadata_boundary import BREAKS, RARE_BREAKS
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGED
from highwater.impl.errors import ListingNeverEnds
from highwater.impl.layout import Namespace
from highwater.impl.world import Entry, Page, list_all
from highwater.traces.calls import misjudged
from highwater.traces.event import EMPTY, Event
from highwater.traces.histories.promises import recovered_rightly, trusted
from highwater.traces.protocols import simple_conditional_calls as calls

WHERE = Namespace("db", "manifest")
LOG, SNAPSHOTS = Namespace("db", "log"), Namespace("db", "snapshot")
LISTED = {"file_misnamed": "InvalidName", "listing_stops": "ListingNeverEnds"}  # what is broken -> the error that names it


def run(seed: int, name: str, build=None, **kept: object) -> Outcome:
    settings = next(of for of in RARE_BREAKS if of["broken"] == name)
    return simulate(Run(seed, shape=drawn_shape(seed)._replace(**{**settings, "patience_ms": 0, **kept})), build)


@pytest.mark.parametrize("name", BREAKS)
def test_production_keeps_what_still_holds(name):
    for seed in range(150):
        outcome = run(seed, name)
        assert not outcome.kind, (seed, outcome.signature, outcome.message)


@pytest.mark.parametrize("mutant, name", [
    ("lost_boundary_is_none", "boundary_lost"), ("invalid_boundary_is_ignored", "boundary_emptied"),
    ("invalid_boundary_is_ignored", "boundary_set_back"), ("repeated_key_is_listed", "listing_repeats"),
    ("listing_without_end", "listing_never_ends"), ("empty_page_ends_listing", "listing_stops"),
    ("misnamed_file_is_skipped", "file_misnamed"), ("looks_for_ever", "listing_hides"), ("listed_is_there", "listing_invents"),
    ("boundary_ahead_is_believed", "boundary_set_ahead")])
def test_a_mutant_dies_of_nothing_else(mutant, name):
    build = BUILDS[mutant][1]
    assert not [seed for seed in range(60) if run(seed, name, build, broken="").kind]
    assert any(run(seed, name, build).kind for seed in range(60))


def boundary(body: bytes, status: int = 200, request: int = 1, **more: object) -> Event:
    return EMPTY._replace(client="Writer#0", request=request, kind="applied", op="get", key=WHERE.boundary_key, status=status,
                          body=body, **more)


def test_a_client_that_asks_until_it_is_answered_hangs_if_the_bucket_is_gone():
    build = mutants_of("sequenced_write").builds["asks_until_answered"][1]
    assert not any(simulate(Run(seed, "sequenced_write"), build).kind for seed in range(60))
    signatures = {damaged_run(seed, "sequenced_write", build, "bucket_gone").signature for seed in range(20)}
    assert {signature.partition(":")[0] for signature in signatures - {""}} == {"liveness"}


OTHERS = [stem for stem in stems() if DAMAGED in named(stem).breaks]


def damaged_run(seed: int, stem: str, build=None, broken: str = DAMAGED) -> Outcome:
    shape = drawn_shape(seed, stem)._replace(broken=broken, patience_ms=0, **{"page_size": 2} if broken != DAMAGED else {})
    return simulate(Run(seed, stem, shape=shape), build)


def test_every_scenario_of_a_protocol_with_objects_of_its_own_damages_them():
    assert [stem for stem in stems() if stem not in OTHERS] == [
        "compaction_queue", "consistent_read", "database_clones", "dlq_recovery", "index_reads", "index_retention",
        "log_snapshot", "metadata_fsm", "raft", "raft_membership", "store_primitives"]


@pytest.mark.parametrize("stem", OTHERS)
def test_a_damaged_object_gives_answers_of_the_table(stem):
    for seed in range(60):
        outcome = damaged_run(seed, stem)
        assert not outcome.kind, (seed, outcome.signature, outcome.message)


@pytest.mark.parametrize("stem, broken", [
    (stem, broken) for stem in OTHERS for broken in LISTED if broken in named(stem).breaks])
def test_a_call_that_is_listed_nonsense_says_so(stem, broken):
    said = set()
    for seed in range(60):
        outcome = damaged_run(seed, stem, broken=broken)
        assert not outcome.kind, (seed, outcome.signature, outcome.message)
        said |= {e.keys[1] for e in outcome.events if e.kind == "told" and e.keys}
    assert LISTED[broken] in said


def page(*keys: str, truncated: bool = False, after: str = "") -> Event:
    return EMPTY._replace(client="Writer#0", request=1, kind="applied", op="list", key=WHERE.prefix, condition=after,
                          status=200, keys=keys, truncated=truncated, awaited=True)


@pytest.mark.parametrize("listed, error", [
    (page("db/manifest/0000000000000000001.manifest"), "InvalidName"),
    (page(WHERE.key(1), "db/manifest/99999999999999999999.manifest"), "InvalidName"),
    (page(truncated=True), "ListingNeverEnds"), (page(WHERE.key(2), truncated=True, after=WHERE.key(2)), "ListingNeverEnds"),
    (page(WHERE.key(1), WHERE.key(2), truncated=True), ""), (page(), "")])
def test_an_answer_fits_the_pages_of_its_call(listed, error):
    trace = named("sequenced_metadata_boundary").trace_of(drawn_shape(0))
    trace.by_client["Writer#0"].append(listed)
    for says, kind in (("InvalidName", "definite"), ("ListingNeverEnds", "definite"), ("Committed", "returned")):
        told = EMPTY._replace(client="Writer#0", kind="told", keys=("current", says, kind))
        assert bool(misjudged(trace, told)) == (says != error if kind == "definite" else bool(error)), says


def test_a_call_may_delete_what_has_a_wrong_name():
    trace = named("sequenced_metadata_boundary").trace_of(drawn_shape(0))
    strange = page("db/manifest/x1.manifest")
    trace.by_client["Writer#0"].append(strange)
    returned = EMPTY._replace(client="Writer#0", kind="told", keys=("collect", "list", "returned"))
    assert misjudged(trace, returned)
    trace.by_client["Writer#0"].append(strange._replace(op="delete", key=strange.keys[0], keys=(), status=204))
    assert not misjudged(trace, returned)


def recovery(*snapshots: int, first: int = 3, then: int = 3, says: str = "Recovered", op: str = "read") -> list[Event]:
    """The events of one recovery: the boundary, a listing, the boundary again."""
    listed = page(*map(SNAPSHOTS.key, snapshots))._replace(client="Reader#0", key=SNAPSHOTS.prefix)
    read = boundary(b"%d" % first)._replace(client="Reader#0", key=LOG.boundary_key)
    return [read, listed, read._replace(body=b"%d" % then),
            EMPTY._replace(client="Reader#0", kind="told", op=op, keys=("recover", says, ""))]


@pytest.mark.parametrize("events, says", [
    (recovery(3), ""), (recovery(3, then=4), "untrue success"), (recovery(2), "untrue success"),
    (recovery(3, says="InvalidBoundary", op="not read"), "untrue error"), (recovery(says="NotRecovered", op="not read"),
                                                                           "untrue error"),
    (recovery(says="InvalidBoundary", op="not read"), ""), (recovery(3, says="NotRecovered", op="not read"), ""),
    (recovery(2, says="Unavailable", op="not read"), "")])
def test_what_a_recovery_saw_says_what_its_caller_may_be_told(events, says):
    found = recovered_rightly(events, SNAPSHOTS, LOG.boundary_key)
    assert (says in found) if says else not found


def test_snapshots_that_are_lost_are_met():
    """Production says which object is wrong, and never that collectors were faster."""
    lost = {"broken": SNAPSHOTS_LOST, "patience_ms": 0, "min_age_ms": 20, "rounds": 6, "reads": 6}
    runs = [simulate(Run(seed, "log_gc", shape=drawn_shape(seed, "log_gc")._replace(**lost))) for seed in range(60)]
    assert not [outcome.signature for outcome in runs if outcome.kind]
    assert "InvalidBoundary" in {e.keys[1] for outcome in runs for e in outcome.events if e.kind == "told" and e.keys}


def test_damage_is_met():
    """Callers get errors that they get in no other run."""
    told = {e.keys[1] for seed in range(40) for e in damaged_run(seed, "simple_conditional").events if len(e.keys) > 1}
    assert {"NotFound", "InvalidManifest"} <= told


def test_an_error_that_no_table_has_fails_a_damaged_run(monkeypatch):
    monkeypatch.setitem(calls.CALLS, "current", {name: answer for name, answer in calls.CALLS["current"].items()
                                                 if name != "InvalidManifest"})
    found = {damaged_run(seed, "simple_conditional").signature for seed in range(40)}
    assert found == {"", "call:current InvalidManifest"}


@pytest.mark.parametrize("mutant", ["damage_not_named", "damage_is_empty"])
def test_a_mutant_that_only_damage_kills(mutant):
    build = SIMPLE[mutant][1]
    assert not [seed for seed in range(60) if simulate(Run(seed, "simple_conditional"), build).kind]
    assert [seed for seed in range(60) if damaged_run(seed, "simple_conditional", build).kind]


def test_a_break_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="broken=x: sequenced_metadata_boundary has boundary_lost, boundary_emptied"):
        RunSpec(shape=("broken=x",)).at(0)


@pytest.mark.parametrize("events, says", [
    ([boundary(b"3"), boundary(b"", 404, 2)], "was 3 and is gone"), ([boundary(b"")], "holds b''"),
    ([boundary(b"3"), boundary(b"2", 200, 2)], "went back from 3 to 2"), ([boundary(b"4")], "saw the boundary 4"),
    ([boundary(b"3"), page(WHERE.key(3))], "the latest file 3"), ([boundary(b"3"), page(WHERE.key(4))], ""),
    ([boundary(b"3"), page(WHERE.key(3), truncated=True), page(WHERE.key(4), after=WHERE.key(3))], ""),
    ([boundary(b"", 404)], ""), ([boundary(b"3"), boundary(b"", 404, 2), boundary(b"3", 200, 3)], ""),
    ([boundary(b"3"), EMPTY._replace(client="Writer#0", kind="crash", request=2, op="get"), boundary(b"", 404, 3)], ""),
    ([boundary(b"3"), boundary(b"", 404, 2), EMPTY._replace(client="Writer#0", kind="timeout", request=2, op="get")], "")])
def test_what_a_client_saw_says_what_its_caller_may_be_told(events, says):
    committed = EMPTY._replace(client="Writer#0", kind="told", op="committed", key=WHERE.key(4))
    found = trusted([*events, committed], WHERE)
    assert (says in found) if says else not found


@pytest.mark.parametrize("events, right", [
    ([boundary(b"3"), boundary(b"", 404, 2)], "BoundaryLost"), ([boundary(b"3"), boundary(b"2")], "InvalidBoundary"),
    ([boundary(b"")], "InvalidBoundary")])
def test_an_error_says_what_is_wrong_with_the_boundary(events, right):
    for error in ("BoundaryLost", "InvalidBoundary"):
        said = EMPTY._replace(client="Writer#0", kind="told", op="unknown", keys=("update", error, "indefinite"))
        assert trusted([*events, said], WHERE).startswith("untrue error: Writer#0 was told" if error != right else "")
        assert bool(trusted([*events, said], WHERE)) == (error != right)


class Listing:
    """A store of the keys that lists them as a broken store does."""

    def __init__(self, how: str, size: int, *keys: str):
        self.store = SimulatedStore(size)
        for key in keys:
            self.store.put(key, b"", 0)
        self.store.lists_wrongly(how)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return self.store.apply("list", prefix, b"", after, 0).answer


def listed(how: str, size: int) -> list[str]:
    found: list[Entry] = asyncio.run(list_all(Listing(how, size, "k/1", "k/2", "k/3"), "k/"))
    return [entry.key for entry in found]


def test_a_repeated_key_is_listed_once():
    assert listed("repeats", 2) == listed("repeats", 3) == ["k/1", "k/2", "k/3"]


@pytest.mark.parametrize("how, size", [("repeats", 1), ("never ends", 2)])
def test_a_listing_that_does_not_go_on_is_an_error(how, size):
    with pytest.raises(ListingNeverEnds):
        listed(how, size)
