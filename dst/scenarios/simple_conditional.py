"""Simulate writers and readers of impl/protocols/simple_conditional.py, for traces/protocols/simple_conditional.py to judge.

One object is the whole database, and its content is a log of updates. Each writer does its updates one after another. An update
that was certainly not applied is repeated; one with an indeterminate outcome is not. The store's versions may be digests.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import STORES, BaseShape, Cached, Draw, Scenario, counted, rarely
from highwater.dst.scripts import simple_conditional as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.store import SimulatedStore, profile_of
from highwater.dst.world.tampering import DAMAGE, DAMAGED
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.protocols.simple_conditional import Content, SimpleConditional
from highwater.impl.world import World
from highwater.traces.beginning import Beginning
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.simple_conditional import KEY, KEYS, Trace, constants, refiner
from highwater.traces.protocols.simple_conditional_calls import CALLS
from highwater.traces.refine import refiner_of


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    updates: int = 3
    readers: int = 1
    reads: int = 2
    check: bool = False  # True: after a PUT without a response the writer looks for its update; False: the caller is told
    attempts: int = 0  # of one update; 0: no limit
    fresh: bool = False  # True: the store is empty, and every client initialises it first
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 3, "readers": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(2, 3, 4), readers=(1, 2), reads=(1, 2, 3), check=(False, True),
                       attempts=(0, 0, 2, 4), pause_ms=(60, 1, 300), chaos=(3, 30), audit=(True, False),
                       store=("s3", "s3", *STORES), fresh=(False, False, True))


def length(shape: Shape) -> int:
    return 2 * shape.writers * shape.updates + 2 * (shape.writers - 1) * shape.updates + shape.readers * shape.reads


def resolve(shape: Shape) -> str:
    return "check" if shape.check else "unknown"


def trace_of(shape: Shape) -> Trace:
    of = constants(MOST["writers"], MOST["readers"], resolve(shape), profile_of(shape.store).version == "digest")
    return (FreshTrace if shape.fresh else Trace)(refiner_of(refiner, of), KEYS, shape.skew_ms)


class FreshTrace(Beginning, Trace):
    first = KEY, UPDATES.encode(Manifest())


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape store={shape.store}"] + ["--shape check=True"] * shape.check + ["--shape fresh=True"] * shape.fresh


Codec = Cached(UPDATES)


def production(world: World, shape: Shape, number: int) -> SimpleConditional:
    return SimpleConditional(world, KEY, Codec, resolve(shape))


def begin(store: SimulatedStore, shape: Shape) -> None:
    if not shape.fresh:
        store.put(KEY, UPDATES.encode(Manifest()), 0)


SHOWN: dict[str, Callable[[Content], str]] = {  # of a result: its key, and what it claims
    "key": lambda of: KEY, "content": lambda of: content(Codec.encode(of.value)), "version": lambda of: of.version,
}


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    database = actors.build(world, actors.shape, number)
    await actors.initialise(client, lambda: database.initialise(Manifest()))

    shown = {**SHOWN, "attempts": lambda _: str(actors.shape.attempts)}

    def write(update: str) -> Awaitable[Said]:
        asked = database.update(update, lambda value: value.with_update(update), actors.shape.attempts or None)
        return said_by(CALLS, "update", asked, **shown)

    await actors.write_one_by_one(client, world, write)


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    database = actors.build(world, actors.shape, number)
    await actors.initialise(client, lambda: database.initialise(Manifest()))

    await actors.read_one_by_one(
        client, world, lambda: said_by(CALLS, "current", actors.in_time(client, database.current()), **SHOWN),
        lambda found: found.value.updates)


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history against the object's content.

    «one writer would simply overwrite the data from another»: conditional puts prevent that."""
    final = UPDATES.decode(actors.store.objects[KEY][0].body).updates
    found = anomalies(actors.history(), final)
    raise_anomalies(found)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, last = set(), {}  # client -> the end of its last request, and its conflicts in a row
    for e in events:
        if e.kind == "applied" and not e.awaited and e.op == "update":
            found.add("late put applied" if e.status == 200 else "late put refused")
        elif e.kind == "applied" and e.op == "update":
            before, times = last.get(e.client, ("", 0))
            times = times + 1 if e.status == 412 else 0
            found |= {"conflict"} if times else {"put without a read"} if before == "update" else set()
            found |= {"overtaken twice"} if times > 1 else set()
            last[e.client] = "update" if e.status == 200 else "", times
        elif e.kind != "told":
            last[e.client] = "", last.get(e.client, ("", 0))[1] if e.op == "get" else 0
    return found


SCENARIO = Scenario(
    stem="simple_conditional",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "updates"), "Reader": ("readers", "reads")},
    most=MOST,
    optional=("Reader",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writers=2, updates=1, readers=1, reads=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Reader": reader},
    audit=(("Writer#0",), ("Reader#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "unknown", "read", "not read", "initialising", "initialised"),
    moments=("conflict", "overtaken twice", "put without a read", "late put refused", "late put applied"),
    moments_of=moments_of,
    cost={counted(n, "writer"): Shape(writers=n, updates=40, readers=0, reads=0, pause_ms=1, audit=False) for n in (1, 4)},
    breaks={name: DAMAGE[name] for name in (DAMAGED, "bucket_gone")},  # it lists nothing
    rare=rarely(DAMAGED, "bucket_gone"),
    needs=("create", "update"),
)
