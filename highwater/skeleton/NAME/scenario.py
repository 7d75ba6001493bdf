"""Simulate clients that claim the same jobs."""

from dataclasses import dataclass

from highwater import Definite, Event, Indefinite, Scenario, World
from highwater.dst.actors import Actors, raise_anomalies
from highwater.dst.scenario import STORES, BaseShape, Draw
from highwater.dst.sim.kernel import Client
from highwater.traces.histories.serial import anomalies
from highwater.traces.refine import refiner_of

from .impl import PREFIX, Claims
from .mapping import KEYS, Trace, refiner


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run: these fields and those of BaseShape. CHANGE: the first two, and add your own."""

    clients: int = 2
    jobs: int = 3
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"clients": 3}  # the model is made for so many


def draw_shape(of: Draw) -> Shape:
    """Draw each field from these values; the first is the mildest. A field that is not named keeps its default."""
    return Shape.drawn(of, clients=(2, 3), jobs=(2, 3, 4), pause_ms=(60, 1, 300), chaos=(3, 30), audit=(True, False),
                       store=("s3", "s3", *STORES))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, MOST["clients"]), KEYS, shape.skew_ms)


def production(world: World, shape: Shape, number: int) -> Claims:
    return Claims(world)


async def client(actors: Actors, client: Client, world: World, number: int) -> None:
    """Claim one job after another. `actors.left` counts the jobs that are left, also after a crash."""
    claims = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        job = len({done.update for done in actors.history() if done.client == client.name})  # the number of jobs before this
        update = f"{number}.{job}"  # a name that is never used again
        while True:
            actors.begin(client, update)
            try:
                said = "committed" if await claims.claim(job, update.encode()) else "taken"
            except Definite:  # nothing was applied: the same job again
                actors.end(client, "failed")
                continue
            except Indefinite:  # a time-out is never evidence that nothing happened
                said = "unknown"
            actors.end(client, said)
            break
        await actors.pause(client, world)


def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge what callers were told by what the store holds in the end. This check does not use the model."""
    final = [stored[0].body.decode() for key, stored in actors.store.objects.items() if key.startswith(PREFIX)]
    raise_anomalies(anomalies(actors.history(), final, ordered=False))


SCENARIO = Scenario(
    stem="NAME",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Client": ("clients", "jobs")},  # role -> the fields of its shape: number of clients, operations of each
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),  # the shrinker changes a failing run towards this
    tiny=Shape(jobs=1, pause_ms=1, audit=False),  # `dst exhaust` runs all schedules of this
    length=lambda shape: shape.clients * shape.jobs,  # about so many requests in a run without faults
    production=production,
    work={"Client": client},
    audit=(("Client#0",),),  # that start anew at the end, and do one more operation; () for none
    trace_of=trace_of,
    final_check=final_check,
    told=("committed", "taken", "failed", "unknown"),
    needs=("create",),  # what the protocol needs of a store beside GET, PUT and DELETE
)
