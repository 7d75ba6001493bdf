"""Simulate writers and readers of impl/protocols/baseline.py, for traces/protocols/baseline.py to judge.

Each writer does its writes one after another. Its caller does not repeat a write with an indeterminate outcome. Readers
recover.
"""

from dataclasses import dataclass

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import BaseShape, Draw, Scenario, counted
from highwater.dst.sim.kernel import Client
from highwater.impl.protocols.baseline import Baseline
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.baseline import KEYS, PREFIX, Trace, constants, refiner
from highwater.traces.protocols.baseline_calls import CALLS
from highwater.traces.refine import refiner_of

ROOT = "db"


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    updates: int = 3
    readers: int = 1
    reads: int = 2
    attempts: int = 1  # of a write that has no response
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 3, "readers": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(2, 3, 4), readers=(1, 2), reads=(1, 2, 3), attempts=(1, 2),
                       pause_ms=(60, 1, 300), chaos=(3, 30), audit=(True, False), store=("s3", "s3", "gcs", "azure", "r2"))


def length(shape: Shape) -> int:
    return 3 * shape.writers * shape.updates + shape.readers * shape.reads * (2 + shape.writers * shape.updates)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(MOST["writers"], MOST["readers"])), KEYS, shape.skew_ms)


def production(world: World, shape: Shape, number: int) -> Baseline:
    return Baseline(world, ROOT, shape.attempts)


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    base = actors.build(world, actors.shape, number)

    async def write(update: str) -> Said:
        return await said_by(CALLS, "write", base.write(update, update.encode()))

    await actors.write_one_by_one(client, world, write, may_give_up=True)


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    base = actors.build(world, actors.shape, number)

    await actors.read_one_by_one(client, world, lambda: said_by(CALLS, "recover", base.recover(), writes=listed),
                                 lambda found: tuple(body.decode() for body in found.values()))


def listed(found: dict[str, bytes]) -> str:
    return " ".join(f"{name}:{content(body)}" for name, body in found.items())


def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge the callers' history against the final state.

    «If at any point the database crashes, we'll have only acknowledged writes stored»: or writes with an indeterminate
    outcome."""
    final = [stored[0].body.decode() for key, stored in sorted(actors.store.objects.items()) if key.startswith(PREFIX)]
    found = anomalies(actors.history(), final, ordered=False)
    raise_anomalies(found)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    puts = [e.key for e in events if e.op == "put" and e.kind == "applied"]
    return {"written again"} if len(set(puts)) < len(puts) else set()


SCENARIO = Scenario(
    stem="baseline",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "updates"), "Reader": ("readers", "reads")},
    most=MOST,
    optional=("Reader",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writers=2, updates=1, readers=1, reads=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Writer": writer, "Reader": reader},
    audit=(("Writer#0",), ("Reader#0",)),
    trace_of=trace_of,
    final_check=final_check,
    told=("committed", "failed", "unknown", "read", "not read"),
    moments=("written again",),
    moments_of=moments_of,
    cost={counted(n, "writer"): Shape(writers=n, updates=40, readers=0, reads=0, pause_ms=1, audit=False) for n in (1, 4)},
    needs=("list",),
)
