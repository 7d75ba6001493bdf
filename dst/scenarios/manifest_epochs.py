"""Simulate writers, compactors, collectors and readers of impl/protocols/manifest_epochs.py.

traces/protocols/manifest_epochs.py judges them. A writer, compactor or collector is one instance. It opens, perhaps while
others open too, and updates until its work is done or another instance of its role fences it. It does not return after a crash.
Readers poll. If the run has an audit, the first client of each role does nothing before it. Then it must open, flush, compact
or collect without disturbance. An instance is also called where it must refuse: when it is not open, is open already,
has ended, or has another update in doubt.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any

from highwater.dst.actors import Actors, raise_anomalies, said_by
from highwater.dst.scenario import RARE, BaseShape, Cached, Draw, Scenario
from highwater.dst.scripts import manifest_epochs as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json.manifest import EPOCHS, Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, FencedUnapplied, Indefinite
from highwater.impl.protocols.manifest_epochs import InDoubt, Instance, ManifestReader, Polled, initialise
from highwater.impl.protocols.sequenced_metadata import Committed
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.beginning import Beginning
from highwater.traces.calls import content, outcomes
from highwater.traces.event import Event
from highwater.traces.histories.serial import Operation, anomalies
from highwater.traces.protocols.manifest_epochs import MANIFESTS, Trace, constants, refiner
from highwater.traces.protocols.manifest_epochs_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"
LASTING = Checkpoint("0", FIRST_ID, 0)
LONG_AGO_MS = -1_000_000


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    flushes: int = 2
    compactors: int = 0
    compactions: int = 2
    collectors: int = 0
    collections: int = 1
    readers: int = 0
    polls: int = 2
    checkpoints: int = 2  # in the first manifest, beside one that never expires
    ends_every_ms: int = 0  # time between their expiries; 0: all have expired before the run
    retry_for_s: int = 0  # how long an open that lost its race retries; 0: it fails
    deadline_ms: int = 0  # of an update; 0: none
    fresh: bool = False  # True: the store is empty, and every client initialises it first
    apart_ms: int = 300  # an instance opens at most this late
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 6, "compactors": 3, "collectors": 3, "readers": 2}  # clients of the model that checks the traces


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 6, 6), flushes=(2, 8, 8), compactors=(0, 1, 2, 3), compactions=(2, 1, 3),
                       collectors=(0, 0, 1, 2, 3), collections=(1, 2), readers=(0, 1, 2), polls=(2, 3, 4),
                       retry_for_s=(0, 1, 1), deadline_ms=(0, 0, 1, 300), apart_ms=(300, 1, 1000, 1000, 1000),
                       pause_ms=(60, 1, 300), page_size=(1000, 2), chaos=(3, 30), audit=(False, False, True), skew_ms=(0, 50),
                       store=("s3", "s3", "s3", *STORES), fresh=(False, False, True))


STORES = ("gcs", "azure", "r2", "minio-2025-08", "minio-2024-03", "ceph", "strict-rfc9110")  # they refuse a second create


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.apart_ms


def length(shape: Shape) -> int:
    return 4 * (shape.writers * (1 + shape.flushes) + shape.compactors * (1 + shape.compactions)
                + shape.collectors * (1 + shape.collections)) + 3 * shape.readers * shape.polls


def trace_of(shape: Shape) -> Trace:
    of = refiner_of(refiner, constants(*MOST.values(), checkpoints=shape.checkpoints, retries=bool(shape.retry_for_s)))
    if not shape.fresh:
        return Trace(of, MANIFESTS, shape.skew_ms)
    trace = FreshTrace(of, MANIFESTS, shape.skew_ms)
    trace.first = MANIFESTS.key(FIRST_ID), EPOCHS.encode(first_manifest(shape))
    return trace


class FreshTrace(Beginning, Trace):
    """The trace of instances that initialise first."""


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape retry_for_s={shape.retry_for_s}"] * bool(shape.retry_for_s) + ["--shape fresh=True"] * shape.fresh


Codec = Cached(EPOCHS)


def production(world: World, shape: Shape, role: str) -> Instance | ManifestReader:
    return ManifestReader(world, ROOT, Codec) if role == "reader" else Instance(world, ROOT, role, Codec)


def begin(store: SimulatedStore, shape: Shape) -> None:
    if not shape.fresh:
        store.put(MANIFESTS.key(FIRST_ID), EPOCHS.encode(first_manifest(shape)), 0)


def first_manifest(shape: Shape) -> Manifest:
    ends_ms = [(i + 1) * shape.ends_every_ms or LONG_AGO_MS for i in range(shape.checkpoints)]
    checkpoints = [Checkpoint(str(i), FIRST_ID, end_ms) for i, end_ms in enumerate(ends_ms, 1)]
    return Manifest(checkpoints=(LASTING, *checkpoints))


# --- instances

async def initialised(actors: Actors, client: Client, world: World) -> None:
    await actors.initialise(client, lambda: initialise(world, ROOT, first_manifest(actors.shape)))


async def opened(actors: Actors, client: Client, world: World) -> Instance | None:
    """Open an instance. Returns None if that fails."""
    shape, role = actors.shape, client.name.partition("#")[0].lower()
    instance = actors.build(world, shape, role)
    await initialised(actors, client, world)
    if shape.apart_ms > 1 and not actors.auditing:
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.opens", shape.apart_ms))
    await refuses(instance.flush(""), RuntimeError)
    while True:
        asked = actors.in_time(client, instance.open(shape.retry_for_s))
        said = await said_by(CALLS, "open", asked, key_of, content=shown)
        if said.told == "opened":
            actors.tell(client, said.told, b"%d" % instance.epoch, said.key, said.keys)
            await refuses(instance.open(), RuntimeError)
            return instance
        actors.tell(client, said.told, b"", keys=said.keys)
        if said.told == "version_exists":
            await refuses(instance.open(), RuntimeError)
        if said.told != "failed" or actors.choose(f"{client.name}.gives_up", 2):
            return None


def shown(of: Committed | Polled) -> str:
    return content(Codec.encode(of.value if isinstance(of, Committed) else of.manifest))


def key_of(of: Committed | Polled) -> str:
    return MANIFESTS.key(of.id)


async def refuses(call: Coroutine[Any, Any, Any], error: type[Exception]) -> None:
    """Check that a call is refused with this error. It sends nothing, or the trace shows it. Raises Failure."""
    try:
        await call
    except error:
        return
    except (Definite, Indefinite):
        pass
    raise Failure("safety", "told:misuse", f"a call is not refused with {error.__name__}, as it should be")


Update = Callable[[Instance, str, int | None], Coroutine[Any, Any, Committed | None]]  # name, deadline in ms


async def live(actors: Actors, client: Client, world: World, number: int, update: Update, call: str) -> None:
    """Open, and update until the work is done, the instance is fenced, or the caller gives up an indeterminate update. A caller
    whose instance is fenced asks for the same update once more if it was applied, and perhaps if it was not."""
    times, deadline_ms = actors.left[client.name], actors.shape.deadline_ms
    if not times or (actors.shape.audit and number == 0 and not actors.auditing):
        return
    actors.left[client.name] = 0  # it does not return
    instance, done = await opened(actors, client, world), CALLS[call]["Committed"].told
    while instance and times:
        times -= 1
        name, told, fenced = actors.name_update(client.name), "unknown", 0
        while told in ("unknown", "failed", "version_exists", *FENCED):
            actors.begin(client, name)
            asked = actors.in_time(client, update(instance, name, deadline_of(world, deadline_ms)))
            said = await said_by(CALLS, call, asked, key_of, content=shown)
            told = said.told
            actors.end(client, told, said.key, keys=said.keys)
            if instance.attempt.doubt and instance.role == "writer" and told not in FENCED:
                await refuses(instance.flush(f"{name} and another"), InDoubt)
            if told in FENCED:
                fenced += 1
                if instance.role == "writer":
                    await refuses(instance.flush(f"{name} and another"), FencedUnapplied)
                if fenced > 1 or (told == "fenced" and actors.choose(f"{client.name}.believes_it", 4)):
                    return
            elif told != done and actors.choose(f"{client.name}.gives_up", 2):
                if told == "unknown":
                    return
                break
        await actors.pause(client, world)


FENCED = ("fenced", "fenced_applied")


def deadline_of(world: World, deadline_ms: int) -> int | None:
    return world.clock.now_ms() + deadline_ms if deadline_ms else None


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    await live(actors, client, world, number, Instance.flush, "flush")


async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    def compact(instance: Instance, name: str, deadline_ms: int | None) -> Coroutine[Any, Any, Committed | None]:
        return instance.compact(lambda picked: actors.pause(client, world), deadline_ms)

    await live(actors, client, world, number, compact, "compact")


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    def collect(instance: Instance, name: str, deadline_ms: int | None) -> Coroutine[Any, Any, Committed | None]:
        return instance.drop_ended_checkpoints(deadline_ms)

    await live(actors, client, world, number, collect, "drop_ended_checkpoints")


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    polls = actors.build(world, actors.shape, "reader")
    await initialised(actors, client, world)
    earlier = count()  # polls of this reader that have returned
    await actors.read_one_by_one(
        client, world, lambda: said_by(CALLS, "poll", actors.in_time(client, polls.poll()), key_of, content=shown,
                                       new=lambda of: " ".join([str(next(earlier)), *of.new])),
        lambda polled: in_order(polled.manifest))


# --- when the faults have stopped

def in_order(manifest: Manifest) -> tuple[str, ...]:
    """Return its SSTs in the order of their flushes: a compaction takes all of L0."""
    return manifest.compacted + manifest.l0


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history of flushes, that epochs are unique, that the checkpoint without expiry is there, and that the
    last writer's own checkpoint keeps every SST."""
    last = [key for key in actors.store.keys if key.startswith(MANIFESTS.prefix)][-1]
    final = EPOCHS.decode(actors.store.objects[last][0].body)
    found = [*anomalies(flushes(actors.history()), in_order(final)), *taken_twice(actors.told)]
    if LASTING not in final.checkpoints:
        found.append("lost checkpoint: one that never expires has been collected")
    found += unpinned(actors, final)
    raise_anomalies(found)
    if actors.shape.audit:
        nothing_left(actors, final)


def unpinned(actors: Actors, final: Manifest) -> list[str]:
    """Only writers add SSTs. So the manifest that the last of them put names all that the final manifest names."""
    kept = [one.manifest_id for one in final.checkpoints if one.writer_epoch is not None]
    if len(kept) != (final.writer_epoch > 0):
        return [f"writer checkpoint: {len(kept)} are listed, and the writer epoch is {final.writer_epoch}"]
    named = [EPOCHS.decode(actors.store.objects[MANIFESTS.key(of)][0].body).sst_names for of in kept]
    lost = sorted({*final.sst_names}.difference(*named)) if named else []
    return [f"writer checkpoint: it does not keep {', '.join(lost)}"] if lost else []


MEANS = outcomes(CALLS)


def flushes(history: list[Operation]) -> list[Operation]:
    """Return reads, and a writer's flushes: each from its first call to its last response."""
    found: dict[object, Operation] = {}
    for place, of in enumerate(history):
        if of.client.startswith("Reader"):
            found[place] = of
        elif of.client.startswith("Writer"):
            first = found.get(of.update, of)
            found[of.update] = of._replace(begin=first.begin, said=MEANS.get(of.said, of.said))
    return list(found.values())


def taken_twice(told: list[Event]) -> list[str]:
    opens = sorted((e.client.partition("#")[0], int(e.body), e.client) for e in told if e.op == "opened")
    return [f"one epoch twice: {one[2]} and {other[2]} have opened with epoch {one[1]}"
            for one, other in pairwise(opens) if one[:2] == other[:2]]


def nothing_left(actors: Actors, final: Manifest) -> None:
    """Check that the last compactor and the last collector, which nobody disturbed, left no work."""
    shape = actors.shape
    ended = [checkpoint for checkpoint in final.checkpoints if checkpoint != LASTING and checkpoint.writer_epoch is None]
    if (shape.compactors and shape.compactions and final.l0) or (shape.collectors and shape.collections and ended):
        raise Failure("liveness", "liveness:left", f"after the last compaction and collection {final.l0} are in L0, and "
                      f"{len(ended)} ended checkpoints are there")


# --- what a campaign should reach


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, is_open, doubtful = set(), set(), set()
    for e in events:
        if e.op == "opened":
            is_open.add(e.client)
        elif e.op == "create" and e.kind == "applied" and e.status != 200 and e.awaited:
            found.add("update conflict" if e.client in is_open else "open conflict")
        elif e.truncated:
            found.add("listing of many pages")
        elif e.op == "unknown":
            doubtful.add((e.client, e.body))
        elif e.op == "committed" and (e.client, e.body) in doubtful:
            found.add("told unknown, and then committed")
    return found


BUSY = Shape(writers=1, flushes=40, retry_for_s=300, apart_ms=1, pause_ms=1, audit=False)


SCENARIO = Scenario(
    stem="manifest_epochs",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "flushes"), "Compactor": ("compactors", "compactions"),
           "Collector": ("collectors", "collections"), "Reader": ("readers", "polls")},
    most=MOST,
    optional=("Compactor", "Collector", "Reader"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(writers=2, flushes=1, apart_ms=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Compactor": compactor, "Collector": collector, "Reader": reader},
    audit=(("Writer#0",), ("Compactor#0",), ("Collector#0",), ("Reader#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("opened", "version_exists", "fenced", "fenced_applied", "committed", "compacted", "collected", "nothing", "unknown",
          "failed", "read", "not read", "initialising", "initialised"),
    moments=("open conflict", "update conflict", "listing of many pages", "told unknown, and then committed"),
    moments_of=moments_of,
    cost={
        "1 writer": BUSY,
        "writer and compactor": BUSY._replace(compactors=1, compactions=40),
        "writer, compactor, collector": BUSY._replace(compactors=1, compactions=40, collectors=1, collections=40,
                                                                  checkpoints=40, ends_every_ms=150),
    },
    breaks=DAMAGE,
    rare=(*RARE, {"skew_ms": 2_000}),
    needs=("create", "list"),
)
