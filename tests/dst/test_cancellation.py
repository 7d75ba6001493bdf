"""A caller cancels its calls at any await: the implementation stays correct, and the same objects are used again."""

import asyncio

import pytest

from highwater.dst.actors import METRICS, STORE
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios import STEMS, mutants_of, named
from highwater.dst.search.shrink import shrink
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.clock import ClientClock
from highwater.dst.world.network import OPS, Network
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import Indefinite, TimedOut
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Closed
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import SystemClock, Ulids
from highwater.impl.world import World


def run_of(seed: int, stem: str, patience_ms: int = 300) -> Run:
    return Run(seed, stem, shape=drawn_shape(seed, stem)._replace(patience_ms=patience_ms))


# --- the seam

async def called(seconds: float, said: list[str]) -> str:
    try:
        await asyncio.sleep(seconds)
        return "done"
    finally:
        said.append("finally")


def test_in_production_a_call_is_cancelled_where_it_awaits():
    said: list[str] = []
    assert asyncio.run(SystemClock().timeout(5_000, called(0, said))) == "done"
    with pytest.raises(TimedOut, match="cancelled after 1 ms") as caught:
        asyncio.run(SystemClock().timeout(1, called(60, said)))
    assert said == ["finally"] * 2 and isinstance(caught.value, Indefinite)


def test_a_time_out_of_the_call_itself_is_not_its_callers():
    async def fails() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(SystemClock().timeout(5_000, fails()))


def played(work, *latencies: int) -> list:
    """Run one client, whose requests take these times. Returns what it said, and the events of the trace."""
    left, events = iter(latencies), []
    kernel, client = Kernel(None), Client("Writer#0")
    Network(kernel, SimulatedStore(), lambda e: events.append((e.t_ms, e.kind, e.op, e.pending, e.awaited)),
            lambda site, bound: next(left), lambda site, bound: 0, None, None, b"", (60,), 0, lambda client: None)
    kernel.start(client, work(ClientClock(kernel, client)))
    kernel.run(10_000, 100)
    assert client.done
    return events


def test_in_simulation_a_request_in_flight_is_not_recalled():
    said = []

    async def work(clock: ClientClock) -> None:
        with pytest.raises(TimedOut):
            await clock.timeout(10, STORE.create("k", b"1"))
        said.append(clock.now_ms())
        said.append((await STORE.get("k")).body)

    assert played(work, 30, 40) == [(10, "timeout", "create", True, True), (31, "applied", "create", False, False),
                                    (51, "applied", "get", False, True)]
    assert said == [10, b"1"]


def test_an_inner_time_out_is_over_before_the_outer_one():
    said = []

    async def inner(clock: ClientClock) -> None:
        try:
            await clock.timeout(20, clock.sleep_ms(100))
        except TimedOut:
            said.append(clock.now_ms())
        try:
            await clock.sleep_ms(100)
        finally:
            said.append(clock.now_ms())

    async def work(clock: ClientClock) -> None:
        with pytest.raises(TimedOut):
            await clock.timeout(50, inner(clock))
        await clock.sleep_ms(200)  # what it awaited before no longer resumes it
        said.append(clock.now_ms())

    assert played(work) == [] and said == [20, 50, 250]


# --- every scenario

@pytest.mark.parametrize("stem", STEMS)
def test_callers_that_cancel_their_calls_find_nothing_wrong(stem):
    assert {"patience_ms": 300} in named(stem).rare
    for seed in range(100):
        outcome = simulate(run_of(seed, stem))
        assert not outcome.kind, (seed, outcome.signature, outcome.message)


def test_a_call_is_cancelled_at_every_request():
    found: set[str] = set()
    for seed in range(150):
        watched: list[tuple] = []
        outcome = simulate(run_of(seed, "sequenced_metadata_boundary"), watch=lambda *what, seen=watched: seen.append(what))
        ended = {e.request: e.op for e in outcome.events if e.kind == "timeout"}
        found |= {ended[number] for _, what, _, number in watched if what == "cancelled" and number in ended}
    assert found == set(OPS) - {"get_range", "head", "put"}


def test_a_call_that_is_cancelled_while_it_sleeps_has_had_its_reply():
    """A compactor accepts its claim, is cancelled while it merges, and goes on from the claim: seed 8796."""
    outcome = simulate(Run(8796, "manifest_compactions"))
    heard = [e for e in outcome.events if e.kind == "timeout" and not e.awaited]
    assert not outcome.kind and heard and not any(e.pending for e in heard)
    for e in heard:
        assert any(of.kind == "applied" and of.awaited and of.request == e.request for of in outcome.events)


# --- the mutants that only it kills

def first_failure(stem: str, name: str, patience_ms: int) -> Outcome | None:
    build = mutants_of(stem).builds[name][1]
    return next((of for seed in range(200) if (of := simulate(run_of(seed, stem, patience_ms), build)).kind), None)


@pytest.mark.parametrize("stem, name", [("known_latest", "known_before_its_answer"), ("wal_fencing", "open_after_cancel")])
def test_a_mutant_dies_of_nothing_else(stem, name):
    assert first_failure(stem, name, 0) is None
    assert first_failure(stem, name, 300)


def test_a_run_with_a_cancelled_call_is_replayed_and_shrunk():
    stem, name = "known_latest", "known_before_its_answer"
    outcome = first_failure(stem, name, 300)
    assert outcome
    build = mutants_of(stem).builds[name][1]
    assert simulate(Run(outcome.seed, stem, shape=outcome.shape), build, outcome.tape).digest == outcome.digest
    shrunk = shrink(outcome, build, budget=150)
    assert shrunk.outcome.requests < outcome.requests and shrunk.outcome.shape.patience_ms == 300


def test_a_wal_whose_call_was_cancelled_refuses_the_next_one():
    async def work() -> None:
        world = World(MemoryStore(), SystemClock(), Ulids(), METRICS)
        wal = await wal_fencing.open(world, "db")
        wal._refresh = lambda: asyncio.sleep(60)
        with pytest.raises(TimedOut):
            await world.clock.timeout(1, wal.append(b"1"))
        with pytest.raises(Closed, match="open another one"):
            await wal.append(b"2")

    asyncio.run(work())
