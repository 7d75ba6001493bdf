"""Simulate writers and readers of impl/protocols/baseline.py, for traces/protocols/baseline.py to judge.

Each writer does its writes one after another. Its caller does not repeat a write with an indeterminate outcome. Readers
recover.

In some runs each writer is a store of keys and values (`BaselineKv`) that opens anew after a crash, and now and then without
one. It puts and gets keys of its own. Readers open a store and get a key, or recover.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import BaseShape, Draw, Scenario, counted, rarely
from highwater.dst.scripts import baseline as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.protocols.baseline import Baseline, BaselineKv, record
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories import linearizable
from highwater.traces.histories.serial import HAPPENED, Operation, anomalies
from highwater.traces.protocols.baseline import KEYS, PREFIX, KvTrace, Trace, constants, refiner
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
    keys: int = 0  # of each writer's store of keys and values; 0: writes have no keys
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 3, "readers": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(2, 3, 4), readers=(1, 2), reads=(1, 2, 3), attempts=(1, 2),
                       pause_ms=(60, 1, 300), chaos=(3, 30), audit=(True, False), store=("s3", "s3", "gcs", "azure", "r2"),
                       keys=(0, 0, 1, 2))


def length(shape: Shape) -> int:
    return 3 * shape.writers * shape.updates + shape.readers * shape.reads * (2 + shape.writers * shape.updates)


def trace_of(shape: Shape) -> Trace:
    of = refiner_of(refiner, constants(MOST["writers"], MOST["readers"]))
    return (KvTrace if shape.keys else Trace)(of, KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape keys={shape.keys}"] * bool(shape.keys)


class Impl(NamedTuple):
    """The parts of a client that mutants replace."""

    base: Baseline
    open: Callable[[World, str, int], Awaitable[BaselineKv]] = BaselineKv.open


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(Baseline(world, ROOT, shape.attempts))


# --- clients

async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    if actors.shape.keys:
        await kv_writer(actors, client, world, number)
        return
    base = actors.build(world, actors.shape, number).base

    def write(update: str) -> Awaitable[Said]:
        return said_by(CALLS, "write", base.write(update, update.encode()))

    await actors.write_one_by_one(client, world, write, may_give_up=True)


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    impl, shape = actors.build(world, actors.shape, number), actors.shape

    def seen_in(found: dict[str, bytes]) -> tuple[str, ...]:
        return tuple([(record(name, body)[1] if shape.keys else body).decode() for name, body in found.items()])

    while actors.left[client.name] and shape.keys and actors.choose(f"{client.name}.gets", 3):
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        for key in [f"{writer}-{key}" for writer in range(shape.writers) for key in range(shape.keys)]:
            actors.begin(client)
            if kv := await opened(actors, client, world, impl):
                await got(actors, client, kv, key)
    await actors.read_one_by_one(
        client, world, lambda: said_by(CALLS, "recover", actors.in_time(client, impl.base.recover()), writes=listed), seen_in)


def listed(found: dict[str, bytes]) -> str:
    return " ".join([f"{name}:{content(body)}" for name, body in found.items()])


async def opened(actors: Actors, client: Client, world: World, impl: Impl) -> BaselineKv | None:
    """Open a store of keys and values; return None if that fails."""
    said = await said_by(CALLS, "open", impl.open(world, ROOT, actors.shape.attempts))
    if said.value is None:
        actors.not_read(client, said)
    return said.value


class Names:
    """Ids that need not rise from one instance of a store to the next."""

    def __init__(self, actors: Actors, client: Client):
        self.actors, self.client = actors, client

    def new_id(self) -> str:
        self.actors.begun += 1
        return f"{self.actors.choose(f'{self.client.name}.id', 10)}-{self.actors.begun}"


async def kv_writer(actors: Actors, client: Client, world: World, number: int) -> None:
    """Put and get one key after another. Another process may take over between two puts."""
    shape, world = actors.shape, world._replace(ids=Names(actors, client))
    impl, kv = actors.build(world, shape, number), None
    while actors.left[client.name]:
        if kv is None or not actors.choose(f"{client.name}.stays", 3):
            kv = await opened(actors, client, world, impl)
            if kv is None:
                actors.left[client.name] -= bool(shape.broken)
                continue
        actors.left[client.name] -= 1
        update = actors.name_update(client.name)
        await put(actors, client, kv, update)
        for _ in range(1 + actors.choose(f"{client.name}.gets", 4)):
            actors.begin(client)
            await got(actors, client, kv, key_of(shape, update))
            await actors.pause(client, world)


async def put(actors: Actors, client: Client, kv: BaselineKv, update: str) -> None:
    actors.begin(client, update)
    said = await said_by(CALLS, "put", actors.in_time(client, kv.put(key_of(actors.shape, update), update.encode())))
    actors.end(client, said.told, keys=said.keys)


async def got(actors: Actors, client: Client, kv: BaselineKv, key: str) -> None:
    """Get a key and tell the caller."""
    said = await said_by(CALLS, "get", actors.in_time(client, kv.get(key)))
    await kv.flush()
    if said.told != "got":
        actors.not_read(client, said)
        return
    value = said.value or b""
    actors.end(client, "got", key, value, seen=(key, value.decode(errors="replace")), keys=said.keys)


def key_of(shape: Shape, update: str) -> str:
    """Return the key that an update puts: writers share none, because only one instance of a store may run."""
    writer, _, number = update.partition(".")
    return f"{writer}-{int(number) % shape.keys}"


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Judge the callers' history against the final state.

    «If at any point the database crashes, we'll have only acknowledged writes stored»: or writes with an indeterminate
    outcome."""
    shape, history = actors.shape, actors.history()
    stored = [(key, found[0].body) for key, found in sorted(actors.store.objects.items()) if key.startswith(PREFIX)]
    final = [(record(key, body)[1] if shape.keys else body).decode() for key, body in stored]
    raise_anomalies(anomalies(history, final, ordered=False))
    wrong = linearizable.check(registers(history, shape)) if shape.keys else ""
    raise_anomalies([f"not linearizable: {wrong}"] if wrong else [])


def registers(history: list[Operation], shape: Shape) -> Iterator[linearizable.Operation]:
    """Yield the puts and gets of keys. A name that failed may be put again, so all calls with it are one put."""
    puts: dict[str, Operation] = {}
    for of in history:
        if of.update:
            puts[of.update] = of._replace(begin=puts.get(of.update, of).begin)
        elif of.said == "got":
            key, value = of.seen
            result = (value.encode(), value) if value else linearizable.MISSING
            yield linearizable.Operation("get", key, b"", "", of.begin, of.end, result)
    for update, of in puts.items():
        if of.said != "failed":
            ended = of.end if of.said in HAPPENED else None
            yield linearizable.Operation("put", key_of(shape, update), update.encode(), "", of.begin, ended, update)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    puts = [e.key for e in events if e.op == "put" and e.kind == "applied"]
    return {"written again"} if len(set(puts)) < len(puts) else set()


BREAKS = {name: breach for name, breach in DAMAGE.items() if name != "file_misnamed"}  # no object has a number for its name


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
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "unknown", "read", "not read", "got"),
    moments=("written again",),
    moments_of=moments_of,
    cost={counted(n, "writer"): Shape(writers=n, updates=40, readers=0, reads=0, pause_ms=1, audit=False) for n in (1, 4)},
    breaks=BREAKS,
    rare=rarely(*BREAKS),
    needs=("list",),
)
