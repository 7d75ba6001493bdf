"""The simulated Raft group: what its judges see, each by itself, and that a failing run is replayed and shrunk."""

from collections import Counter

import pytest

from highwater.dst.mutants.raft import BUILDS, ONLY_LENGTHS_COMPARED, TRANSFER_NEVER_ENDS
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.raft import SCENARIO, Shape
from highwater.dst.search.shrink import shrink
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.node_faults import NodeWeights
from highwater.impl.raft import snapshots
from highwater.traces.event import Event, digest
from highwater.traces.machines import node_of
from highwater.traces.nodes import asks
from highwater.traces.protocols.raft import Save, Step, body_of, step_of
from highwater.traces.refine import Failure


def found(weights: NodeWeights) -> Counter:
    return Counter(simulate(Run(seed, "raft", weights=weights), by_model=False).signature for seed in range(12))


@pytest.mark.parametrize("mutant, signatures", [
    ("half_elects", {"safety:R1"}), ("voted_twice", {"safety:R1"}), ("log_not_compared", {"safety:R3"}),
    ("cuts_what_agrees", {"safety:R3", "safety:R4", "safety:R5"}), ("folder_unsynced", {"safety:R5"}),
    ("log_unsynced", {"safety:R5"}), ("half_commits", {"safety:R5"})])
def test_the_properties_over_all_nodes_need_no_model(mutant, signatures):
    build = BUILDS[mutant][1]
    runs = (simulate(Run(seed, "raft"), build, by_model=False) for seed in range(100))
    assert any(outcome.signature in signatures for outcome in runs)


def test_a_sync_that_lies_breaks_what_is_committed_is_durable():
    lies = NodeWeights()._replace(lie=100)
    assert found(lies)["safety:R5"] and found(lies._replace(lie=0)) == Counter({"": 12})


def test_a_vote_that_compares_lengths_alone_elects_a_leader_without_what_is_committed():
    build, weights = ONLY_LENGTHS_COMPARED
    assert simulate(Run(14, "raft", weights=weights), build).signature == "refinement:Server.Grant"


def test_a_transfer_that_never_ends_leaves_callers_waiting():
    build, weights = TRANSFER_NEVER_ENDS
    lost = Run(75, "raft", shape=Shape(transfers=3), weights=weights)
    assert (simulate(lost, build).signature, simulate(lost).kind) == ("liveness:Server", "")


def test_snapshots_are_made_installed_and_found_again_and_leadership_is_transferred():
    reached = set()
    for seed in range(60):
        outcome = simulate(Run(seed, "raft"), by_model=False)
        reached |= SCENARIO.moments_of(outcome.events, outcome.shape) | {e.op for e in outcome.events if e.kind == "told"}
    assert reached >= {*SCENARIO.moments, "transferred", "not transferred"}


def run(seed: int = 0, **shape: object) -> Outcome:
    outcome = simulate(Run(seed, "raft", shape=Shape(**shape)))
    assert not outcome.kind, outcome.message
    return outcome


def judged(outcome: Outcome, events: list[Event]) -> str:
    trace = SCENARIO.trace_of(outcome.shape)
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


def changes(step: Step) -> list[tuple[str, Step]]:
    """Return other steps, each with what is wrong with it."""
    found = [("a term", step._replace(term=step.term + 1))] if step.role == "leader" else []
    if step.commit:
        found.append(("a commit", step._replace(commit=step.commit + 50)))
    if step.agreed:
        found.append(("an acknowledgement", step._replace(agreed=step.agreed + 1)))
    if step.save and step.save.terms:
        found.append(("an entry", step._replace(save=step.save._replace(terms=(*step.save.terms[:-1], 99)))))
    if step.save and step.save.vote:
        found.append(("a vote", step._replace(save=step.save._replace(vote="Server#9"))))
    if step.save and step.save.base:
        index, term = step.save.base
        found.append(("a snapshot", step._replace(save=step.save._replace(base=(index, term + 1)))))
    if step.found and step.found[3]:
        term, vote, base, terms = step.found
        found.append(("what was found", step._replace(found=(term, vote, base, terms[:-1]))))
    return found


def is_of_server(e: Event) -> bool:
    return e.kind == "step" and not asks(e)


def test_a_changed_step_is_refused():
    """Some changes are steps of another run. So each kind must be refused most of the time, and none be taken for good."""
    tried, refused = Counter(), Counter()
    for seed, snapshot_entries in ((0, 0), (1, 0), (9, 3)):
        outcome = run(seed, proposals=3, snapshot_entries=snapshot_entries, keep_entries=0)
        assert judged(outcome, outcome.events) == ""
        for at, e in enumerate(outcome.events):
            for what, step in changes(step_of(e.body)) if is_of_server(e) else ():
                if what == "a commit" and step.role != "leader":
                    continue  # a follower may know of a commit before its disk has the entry
                changed = e._replace(body=body_of(step))
                tried[what] += 1
                refused[what] += judged(outcome, [*outcome.events[:at], changed, *outcome.events[at + 1:]]) != ""
    assert {"a term", "a commit", "an acknowledgement", "an entry", "a vote", "a snapshot"} <= tried.keys()
    assert all(refused[what] > 0.6 * tried[what] for what in tried), (tried, refused)


def test_a_missing_step_is_refused_and_a_message_that_nobody_sent():
    outcome = run(1, proposals=3)
    events = outcome.events
    at = next(at for at, e in enumerate(events) if is_of_server(e) and step_of(e.body).role == "leader")
    assert judged(outcome, [*events[:at], *events[at + 1:]]).startswith("refinement:")
    received = {e.request for e in events if e.kind == "received"}
    sent = next(at for at, e in enumerate(events) if e.kind == "sent" and e.request in received)
    assert judged(outcome, [*events[:sent], *events[sent + 1:]]) == "refinement:machine"
    assert judged(outcome, [events[0]._replace(t_ms=events[-1].t_ms + 1), *events[1:]]) == "refinement:order"
    assert judged(outcome, [events[0]._replace(kind="applied")]) == "refinement:form"


def without_the_sync_of_names(events: list[Event], at: int) -> list[Event]:
    """Return the events without the sync of the folder that follows event `at`: it is the same task's next operation."""
    client = events[at].client
    of = next(place for place, e in enumerate(events[at + 1:], at + 1) if e.client == client and e.kind == "disk")
    assert events[of].op == "sync_names"
    return [*events[:of], *events[of + 1:]]


def test_a_snapshot_counts_only_once_its_name_is_durable():
    """The log is cut after it, and older snapshots go. Without the sync of its name a crash of the machine loses them all."""
    tried = Counter()
    for seed in (9, 10, 11):
        outcome = run(seed, proposals=4, snapshot_entries=3, keep_entries=0, segment_bytes=300)
        assert judged(outcome, outcome.events) == ""
        for at, e in enumerate(outcome.events):
            if e.kind == "disk" and e.op == "rename" and e.status == 200 and e.key == "snapshot.tmp":
                later = [f for f in outcome.events[at:] if node_of(f.client) == node_of(e.client)]
                lives = next((place for place, f in enumerate(later) if f.kind == "died"), len(later))
                syncs = [place for place, f in enumerate(later) if f.op == "sync_names"]
                cuts = [place for place, f in enumerate(later[:lives]) if f.op in ("remove", "Installed")]
                if cuts and (len(syncs) < 2 or cuts[0] < syncs[1]):
                    tried[judged(outcome, without_the_sync_of_names(outcome.events, at))] += 1
    assert set(tried) == {"refinement:Server.disk"} and tried.total() > 5, tried


def test_a_snapshot_of_what_is_not_committed_is_refused():
    tried = Counter()
    for seed in (9, 10, 11):
        outcome = run(seed, proposals=4, snapshot_entries=3, keep_entries=0)
        for at, e in enumerate(outcome.events):
            if e.kind == "disk" and e.op == "rename" and e.key == "snapshot.tmp":
                changed = e._replace(condition=snapshots.name_of(int(e.condition[9:25]) + 50, 1))
                tried[judged(outcome, [*outcome.events[:at], changed])] += 1
    assert set(tried) == {"refinement:Server.disk"} and tried.total() > 5, tried


def test_the_body_of_a_step_is_read_as_it_was_written():
    for step in (Step("leader", 3, 2, 7, Save(4, 3, "Server#1", 5, (2, 3), (4, 1)), 2, 5, None),
                 Step("follower", 0, 0, 0, None, 0, 0, (0, "", (0, 0), ()))):
        assert step_of(body_of(step)) == step
    with pytest.raises((ValueError, TypeError)):
        step_of(b'{"roll":"leader"}')


def test_a_failing_run_is_replayed_from_its_tape_and_shrunk():
    build = BUILDS["acknowledged_early"][1]
    outcome = next(of for of in (simulate(Run(seed, "raft"), build, by_model=False) for seed in range(300)) if of.kind)
    again = simulate(Run(outcome.seed, "raft"), build, outcome.tape, by_model=False)
    assert (again.digest, again.signature) == (outcome.digest, outcome.signature) and digest(again.events) == outcome.digest
    with_model = next(of for of in (simulate(Run(seed, "raft"), build) for seed in range(20)) if of.kind)
    small = shrink(with_model, build, budget=60)
    assert small.outcome.signature == with_model.signature
    assert small.outcome.requests < with_model.requests
    repeated = simulate(Run(with_model.seed, "raft", None, small.outcome.strategy, small.shape, small.weights), build,
                        small.outcome.tape)
    assert repeated.digest == small.outcome.digest
