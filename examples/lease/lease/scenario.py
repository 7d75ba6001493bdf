"""Simulate clients that append to the data, each as the holder of the lock."""

import json
from dataclasses import dataclass

from highwater import Event, Scenario, Unavailable, World
from highwater.dst.actors import Actors, raise_anomalies
from highwater.dst.scenario import STORES, BaseShape, Draw
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.traces.histories.serial import anomalies
from highwater.traces.refine import refiner_of

from .impl import DATA, Lease, encode
from .mapping import KEYS, Trace, refiner


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    clients: int = 2
    updates: int = 3
    lease_ms: int = 400
    release: bool = False  # a client gives the lock up after its last update
    pause_ms: int = 60  # between two updates of a client, at most


MOST = {"clients": 3}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, clients=(2, 3), updates=(2, 3, 4), lease_ms=(400, 100, 1000), release=(False, True),
                       pause_ms=(60, 1, 300), chaos=(3, 30), audit=(True, False), skew_ms=(0, 50, 500),
                       store=("s3", "s3", *STORES))


def length(shape: Shape) -> int:
    return 4 * shape.clients * shape.updates


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.lease_ms, shape.pause_ms, TIMEOUT_MS


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, MOST["clients"]), KEYS, shape.skew_ms)


def production(world: World, shape: Shape, number: int) -> Lease:
    return Lease(world, f"Client#{number}", shape.lease_ms)


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(DATA, encode([]), 0)


async def client(actors: Actors, client: Client, world: World, number: int) -> None:
    lease = actors.build(world, actors.shape, number)

    async def write(update: str) -> str:
        await lease.append(update)
        return ""

    await actors.write_one_by_one(client, world, write)
    if actors.shape.release:
        try:
            await lease.release()
        except Unavailable:
            pass


def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge what callers were told by what the data holds in the end, without the model."""
    final = json.loads(actors.store.objects[DATA][0].body)
    raise_anomalies(anomalies(actors.history(), [update for _, update in final]))
    tokens = [token for token, _ in final]
    holders = {(token, update.partition(".")[0]) for token, update in final}
    raise_anomalies(["token fell: an earlier holder wrote after a later one"] * (tokens != sorted(tokens)))
    raise_anomalies(["token shared: two clients wrote with one token"] * (len(holders) > len(set(tokens))))


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    """Return which of `moments` the run has reached. A campaign says which were never reached."""
    late = [e for e in events if e.kind == "applied" and not e.awaited and e.op == "update" and e.key == DATA]
    return {"late append applied" if e.status == 200 else "late append refused" for e in late}


SCENARIO = Scenario(
    stem="lease",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Client": ("clients", "updates")},
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(clients=2, updates=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    begin=begin,
    work={"Client": client},
    audit=(("Client#0",),),
    trace_of=trace_of,
    final_check=final_check,
    told=("committed", "failed", "unknown"),
    waits_ms=waits_ms,
    moments=("late append applied", "late append refused"),
    moments_of=moments_of,
    needs=("create", "update"),
)
