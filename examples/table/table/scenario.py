"""Simulate writers that commit to the table, and cleaners that delete what nobody can commit any more."""

from dataclasses import dataclass

from highwater import Event, Scenario, World
from highwater.dst.actors import Actors, raise_anomalies
from highwater.dst.scenario import STORES, BaseShape, Draw
from highwater.dst.sim.kernel import Client
from highwater.dst.world.store import SimulatedStore
from highwater.traces.histories.serial import anomalies
from highwater.traces.refine import refiner_of

from .impl import FILES, TABLE, Content, Table, decode, encode, number_of
from .mapping import KEYS, Trace, refiner
from .scripts import SCRIPTS


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    commits: int = 3
    cleaners: int = 1
    rounds: int = 3
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 3, "cleaners": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), commits=(2, 3, 4), cleaners=(1, 2), rounds=(3, 6), pause_ms=(60, 1, 300),
                       page_size=(1000, 2), chaos=(3, 30), audit=(True, False), store=("s3", "s3", *STORES))


def length(shape: Shape) -> int:
    return 4 * shape.writers * shape.commits + 4 * shape.cleaners * shape.rounds


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, (MOST["writers"], MOST["cleaners"])), KEYS, shape.skew_ms)


def production(world: World, shape: Shape, number: int) -> Table:
    return Table(world)


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(TABLE, encode(Content()), 0)


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    table = actors.build(world, actors.shape, number)

    async def write(update: str) -> str:
        await table.append(update, update.encode())
        return ""

    await actors.write_one_by_one(client, world, write)


async def cleaner(actors: Actors, client: Client, world: World, number: int) -> None:
    table = actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: actors.pause(client, world), table.clean)


def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge what callers were told by what the store holds in the end, without the model."""
    objects = actors.store.objects
    content = decode(objects[TABLE][0].body)
    raise_anomalies(anomalies(actors.history(), [name.partition("-")[2] for name in content.names]))
    raise_anomalies([f"file missing: the table names {name}" for name in content.names if FILES + name not in objects])
    if actors.auditing and actors.shape.cleaners:  # a cleaner has done a last round, without faults
        kept = [key for key in objects if key.startswith(FILES) and is_garbage(key.removeprefix(FILES), content)]
        raise_anomalies([f"garbage kept: {key} is still there" for key in kept])


def is_garbage(name: str, content: Content) -> bool:
    return number_of(name) <= content.number and name not in content.names


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    """Return which of `moments` the run has reached. A campaign says which were never reached."""
    late = [e for e in events if e.kind == "applied" and not e.awaited]
    return {f"late {e.op}" for e in late} | {"second page" for e in events if e.op == "list" and e.condition}


SCENARIO = Scenario(
    stem="table",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "commits"), "Cleaner": ("cleaners", "rounds")},
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(commits=1, rounds=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Cleaner": cleaner},
    audit=(("Writer#0",), ("Cleaner#0",)),
    optional=("Cleaner",),
    trace_of=trace_of,
    final_check=final_check,
    told=("committed", "failed", "unknown"),
    moments=("late put", "late update", "late delete", "second page"),
    moments_of=moments_of,
    needs=("update",),
    scripts=SCRIPTS,
)
