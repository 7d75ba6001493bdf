"""Following a run gives the verdict of observing its events, at the same event, for good runs, mutants and damaged runs."""

from itertools import islice

import pytest

from highwater.dst.bulk.packets import number_of
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, mutants_of, named
from highwater.dst.simulate import Outcome, simulate
from highwater.traces import trace
from highwater.traces.damage.damage import damages, spread
from highwater.traces.event import Event
from highwater.traces.follow import Acquaintances, Events, follow
from highwater.traces.protocols.sequenced_metadata_boundary import Trace as Boundarys
from highwater.traces.refine import Failure

BOUNDARY = "sequenced_metadata_boundary"


class Follower:
    """A process's cache of the events that it has met, across runs."""

    def __init__(self) -> None:
        self.rests: list[tuple] = []
        self.numbers: dict[tuple, int] = {}
        self.known: dict[int, Acquaintances] = {}

    def __call__(self, of: trace.Trace, events: list[Event]) -> None:
        numbers = [number_of(e[2:], self.rests, self.numbers) for e in events]
        known = self.known.get(id(of.refiner))
        if known is None or known.effects is not of.refiner.effects:
            known = self.known[id(of.refiner)] = Acquaintances(of.refiner)
        follow(of, ([e.t_ms for e in events], [e.request for e in events], numbers), self.rests, known)


def observe(of: trace.Trace, events: list[Event]) -> None:
    for event in events:
        of.observe(event)


def verdict(way, stem: str, shape, events: list[Event]) -> tuple:
    """Check a run and return its failure or None, the events taken, the model states and the time."""
    of = named(stem).trace_of(shape)
    failure = None
    try:
        way(of, events)
    except Failure as error:
        failure = error.kind, error.signature, error.message, error.states
    return failure, list(of.events), of.refiner.unpacked(), of.now_ms


def outcomes(stem: str, seeds: int) -> list[Outcome]:
    """Simulate `seeds` runs of the protocol, and three of each of its mutants."""
    builds = [None, *[build for _, build in mutants_of(stem).builds.values()]]
    return [simulate(Run(seed, scenario=stem), build) for build in builds for seed in range(seeds if build is None else 3)]


@pytest.mark.parametrize("stem", STEMS)
def test_followed_as_observed(stem):
    follower, failed, runs = Follower(), 0, outcomes(stem, round(25 * min(1, named(stem).share)))
    for twice in range(2):
        for of in runs:
            followed = verdict(follower, stem, of.shape, of.events)
            assert followed == verdict(observe, stem, of.shape, of.events), (of.seed, twice)
            failed += followed[0] is not None
    assert failed or not mutants_of(stem).builds


@pytest.mark.parametrize(("seed", "stem"), [(4, BOUNDARY), (5, BOUNDARY), (1, "sequenced_write"), (5, "manifest_migration")])
def test_what_is_damaged_is_noticed_at_the_same_event(seed, stem):
    """After the good run, so that all that is known comes into play."""
    of, follower = simulate(Run(seed, scenario=stem)), Follower()
    assert not getattr(of.shape, "sdk", "")  # else all is observed
    events, noticed, all_of_them = spread(of.events), 0, 0
    assert verdict(follower, stem, of.shape, events) == verdict(observe, stem, of.shape, events)
    for i in range(len(events)):
        for damage in islice(damages(events, i), None, None, 3):
            followed = verdict(follower, stem, of.shape, damage.events)
            assert followed == verdict(observe, stem, of.shape, damage.events), damage[:4]
            noticed, all_of_them = noticed + (followed[0] is not None), all_of_them + 1
    assert noticed > all_of_them / 2 > 100


def test_the_model_is_where_it_was_after_each_event():
    """Time passes by the clocks of clients, which are ahead of the store's."""
    runs = map(simulate, map(Run, range(28, 200)))
    for of in islice((of for of in runs if of.shape.manifest and of.shape.skew_ms and not of.shape.sdk), 3):
        follower = Follower()
        for length in range(len(of.events), 0, -1):
            events = of.events[:length]
            found = verdict(follower, BOUNDARY, of.shape, events)
            assert found == verdict(observe, BOUNDARY, of.shape, events), (of.seed, length)


def test_a_property_that_fails_after_a_step_that_is_known_is_told():
    of, follower = simulate(Run(5)), Follower()
    assert verdict(follower, BOUNDARY, of.shape, of.events)[0] is None
    for at in range(len(of.events)):
        e, whole = of.events[at], named(BOUNDARY).trace_of(of.shape)
        observe(whole, of.events[:at + 1])
        pair = whole.refiner.index[e.client], whole.refiner.pair(e.client)
        whole.refiner.broken[pair] = "NothingIsWrong"
        try:
            followed = verdict(follower, BOUNDARY, of.shape, of.events)
            assert followed == verdict(observe, BOUNDARY, of.shape, of.events)
            assert followed[0] is None or followed[0][:2] == ("safety", "safety:NothingIsWrong")
        finally:
            del whole.refiner.broken[pair]



def test_old_acquaintances_are_not_observed(monkeypatch):
    of = next(o for o in (simulate(Run(seed)) for seed in range(100)) if not o.shape.sdk and o.events)
    follower, seen = Follower(), []
    verdict(follower, BOUNDARY, of.shape, of.events)
    whole = trace.Trace.observe
    monkeypatch.setattr(trace.Trace, "observe", lambda self, e: (seen.append(e), whole(self, e)))
    verdict(follower, BOUNDARY, of.shape, of.events)
    assert len(seen) < len(of.events) / 3


def test_a_refiner_that_starts_anew_is_met_anew():
    of, follower = simulate(Run(3)), Follower()
    refiner = named(BOUNDARY).trace_of(of.shape).refiner
    first = verdict(follower, BOUNDARY, of.shape, of.events)
    refiner._start_tables()
    assert verdict(follower, BOUNDARY, of.shape, of.events) == first == verdict(observe, BOUNDARY, of.shape, of.events)


def test_time_brings_nothing_but_what_expires():
    """`follow` asks for `expiries`, and for nothing else that time might bring. It observes a kind that has its own `_take`."""
    kinds = {type(named(stem).trace_of(named(stem).shape())) for stem in STEMS}
    followed = {kind for kind in kinds if kind._take is trace.Trace._take}
    assert {kind._pass_time for kind in followed} == {trace.Trace._pass_time, Boundarys._pass_time}


def test_events_are_made_when_asked_for():
    rests, numbers = [], {}
    whole = simulate(Run(3)).events
    which = [number_of(e[2:], rests, numbers) for e in whole]
    events = Events(([e.t_ms for e in whole], [e.request for e in whole], which), rests)
    assert list(events) == [] and len(events) == 0
    for _ in whole[:5]:
        events.append(_)
    assert (len(events), list(events), events[-1], list(events[-2::-1])) == (5, whole[:5], whole[4], whole[3::-1])
    with pytest.raises(IndexError):
        events[5]
    assert Events.whole(events.numbers, rests) == whole
