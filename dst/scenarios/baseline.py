"""Safety: none of its own; writers and readers of impl/protocols/baseline.py, for traces/protocols/baseline.py to judge.

Each writer brings its writes home one after another; of unknown outcome none is repeated by its caller. Readers recover.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.dst.actors import Actors
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.protocols.baseline import Baseline
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.baseline import KEYS, PREFIX, Trace, constants, refiner
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"


class Shape(NamedTuple):
    """How large a run is, drawn from its seed unless given."""

    writers: int = 2
    updates: int = 3
    readers: int = 1
    reads: int = 2
    attempts: int = 1  # of a write that has no reply
    pause_ms: int = 60  # between two operations of a client, at most
    page_size: int = 1000
    chaos: int = 30  # after so many times pause_ms the faults stop
    audit: bool = True
    skew_ms: int = 0
    store: str = "s3"
    stall_ms: int = 0
    sdk: str = ""


def draw_shape(of: Callable[..., Any]) -> Shape:
    return Shape(of("writers", 2, 3), of("updates", 2, 3, 4), of("readers", 1, 2), of("reads", 1, 2, 3), of("attempts", 1, 2),
                 of("pause_ms", 60, 1, 300), chaos=of("chaos", 3, 30), audit=bool(of("audit", 1, 0)),
                 store=of("store", "s3", "s3", "gcs", "azure", "r2"))


def unit_ms(shape: Shape) -> int:
    return max(shape.pause_ms, 60)


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS


def length(shape: Shape) -> int:
    return 3 * shape.writers * shape.updates + shape.readers * shape.reads * (2 + shape.writers * shape.updates)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(MOST["writers"], MOST["readers"])), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return []


def production(world: World, shape: Shape, number: int) -> Baseline:
    return Baseline(world, ROOT, shape.attempts)


def begin(store: SimulatedStore, shape: Shape) -> None:
    """There is nothing."""


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    base = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        update = actors.name_update(client.name)
        while True:
            actors.begin(client, update)
            try:
                await base.write(update, update.encode())
                actors.end(client, "committed")
            except Definite:
                actors.end(client, "failed")
                if not actors.choose(f"{client.name}.gives_up", 2):
                    continue
            except Indefinite:
                actors.end(client, "unknown")
            break
        await actors.pause(client, world)


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    base = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        actors.begin(client)
        try:
            found = await base.recover()
        except Definite:
            continue
        seen = tuple(body.decode() for body in found.values())
        actors.end(client, "read", body=" ".join(seen).encode(), seen=seen)


def final_check(actors: Actors, events: list[Event]) -> None:
    """«If at any point the database crashes, we'll have only acknowledged writes stored»: and those of unknown outcome."""
    final = [stored[0].body.decode() for key, stored in sorted(actors.store.objects.items()) if key.startswith(PREFIX)]
    found = anomalies(actors.history(), final, ordered=False)
    if found:
        raise Failure("safety", f"history:{found[0].partition(':')[0]}", "; ".join(found))


TOLD = ("committed", "failed", "unknown", "read")
SEEN = ("written again",)


def seen(events: list[Event], shape: Shape) -> set[str]:
    puts = [e.key for e in events if e.op == "put" and e.kind == "applied"]
    return {"written again"} if len(set(puts)) < len(puts) else set()


WORK = {"Writer": writer, "Reader": reader}
AUDIT = (("Writer#0",), ("Reader#0",))
ROLES = {"Writer": ("writers", "updates"), "Reader": ("readers", "reads")}
OPTIONAL = ("Reader",)
MOST = {"writers": 3, "readers": 2}
MILDEST = {**Shape()._asdict(), "pause_ms": 1, "audit": False}
COST = {f"{n} writer{'s' * (n > 1)}": Shape(writers=n, updates=40, readers=0, reads=0, pause_ms=1, audit=False) for n in (1, 4)}
NEEDS = ("list",)  # of a store
TINY = Shape(writers=2, updates=1, readers=1, reads=1, pause_ms=1, audit=False)
