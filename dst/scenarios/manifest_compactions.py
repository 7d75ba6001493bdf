"""Simulate a writer, compactors that take over from each other, and collectors, of impl/protocols/manifest_compactions.py.

traces/protocols/manifest_compactions.py judges them. The writer flushes each SST until it is acknowledged, or gives up for now.
Each compactor is one instance with one life: it opens, perhaps while another works, compacts a few times, and ends when it is
fenced or crashes. With an audit Compactor#0 opens at the end, and must leave no claim and an empty L0.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Draw, Scenario
from highwater.dst.scripts import manifest_compactions as scripts
from highwater.dst.scripts import manifest_compactions_slatedb as scripts_slatedb
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.json.manifest import COMPACTED
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, FencedInDoubt, Indefinite
from highwater.impl.protocols import manifest_compactions
from highwater.impl.protocols.manifest_compactions import (
    Compactor,
    Stores,
    stores_of,
)
from highwater.impl.protocols.sequenced_metadata import Committed, Recognised
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.calls import UNFINISHED, content
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.manifest_compactions import BOUNDARIES, COMPACTIONS, KEYS, MANIFEST, Trace, constants, refiner
from highwater.traces.protocols.manifest_compactions_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 1
    flushes: int = 4
    compactors: int = 3  # over time; with an audit the first of them opens last
    compactions: int = 2
    collectors: int = 1
    rounds: int = 3
    min_age_ms: int = 60
    apart_ms: int = 300  # an instance opens at most this late
    pin_ms: int = 0  # lifetime of a compactor's pin; 0: it takes none
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 1, "compactors": 4, "collectors": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(1, 1, 1, 0), flushes=(4, 2, 8), compactors=(2, 3, 4), compactions=(2, 1, 4),
                       collectors=(1, 0, 2), rounds=(3, 6), min_age_ms=(60, 1, 150, 400), apart_ms=(300, 1, 1000),
                       pause_ms=(60, 1, 300), chaos=(30, 5), audit=(True, False), skew_ms=(0, 50),
                       store=("s3", "s3", "s3", *STORES), pin_ms=(0, 0, 30, 400))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.apart_ms


def length(shape: Shape) -> int:
    return (5 * shape.writers * shape.flushes + shape.compactors * (9 + 12 * shape.compactions)
            + 8 * shape.collectors * shape.rounds)


def trace_of(shape: Shape) -> Trace:
    of = constants(*MOST.values())._replace(PINS=shape.pin_ms > 0)
    return Trace(refiner_of(refiner, of), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape pin_ms={shape.pin_ms}"] * bool(shape.pin_ms)


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    stores: Stores
    compactor: type[Compactor]
    flush: Callable
    collect: Callable


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(stores_of(world, ROOT, shape.pin_ms > 0), Compactor, manifest_compactions.flush, manifest_compactions.collect)


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), COMPACTED.encode(Manifest()), 0)
    store.put(COMPACTIONS.key(FIRST_ID), compactions_json.encode(Compactions()), 0)


# --- clients

async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        name, said = actors.name_update(client.name), ""
        while said != "committed":
            actors.begin(client, name)
            answer = await said_by(CALLS, "flush", actors.in_time(client, impl.flush(impl.stores, name)), value=held)
            said = answer.told
            if said == "failed" and any(of.update == name and of.said != "failed" for of in actors.operations):
                said = UNFINISHED  # does not say whether an earlier call was applied
            actors.end(client, said, keys=answer.keys)
            if said != "committed" and not actors.auditing and actors.choose(f"{client.name}.gives_up", 2):
                break
        await actors.pause(client, world)


def held(of: Committed | Recognised) -> str:
    return f"{MANIFEST.key(of.id)} {content(COMPACTED.encode(of.value))}"


async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, times = actors.shape, actors.left[client.name]
    if not times or (shape.audit and number == 0 and not actors.auditing):
        return
    actors.left[client.name] = 0  # it has one life
    if shape.apart_ms > 1 and not actors.auditing:
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.opens", shape.apart_ms))
    impl = actors.build(world, shape, number)
    instance = impl.compactor(impl.stores, pin_ms=shape.pin_ms)
    try:
        await actors.in_time(client, instance.open())
    except (Definite, Indefinite):
        actors.tell(client, "not open", b"")
        return
    actors.tell(client, "opened", b"%d" % instance.epoch)

    async def merge(job: Job) -> None:
        await actors.pause(client, world)

    said = ""
    while said != "fenced" and (times or (actors.auditing and said != "nothing")):
        times -= bool(times)
        said, job = await compacted(actors.in_time(client, instance.compact(merge)))
        actors.tell(client, said, " ".join(job).encode())
        await actors.pause(client, world)


async def compacted(asked: Awaitable[Job]) -> tuple[str, Job]:
    try:
        job = await asked
        return ("compacted" if job else "nothing"), job
    except FencedInDoubt:
        return "fenced", ()
    except (Definite, Indefinite):
        return "not compacted", ()


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: actors.pause(client, world),
                                   lambda: said_by(CALLS, "collect", actors.in_time(client, impl.collect(
                                       impl.stores, actors.shape.min_age_ms)), deleted=deleted))


def deleted(ids: tuple[list[int], list[int]]) -> str:
    """Return the keys that a round has deleted."""
    return " ".join(sorted(of.key(file_id) for of, those in zip((MANIFEST, COMPACTIONS), ids) for file_id in those))


# --- when the faults have stopped

def final(store: SimulatedStore) -> tuple[Manifest, Compactions]:
    def latest(prefix: str) -> bytes:
        return store.objects[max(key for key in store.keys if key.startswith(prefix))][0].body

    return COMPACTED.decode(latest(MANIFEST.prefix)), compactions_json.decode(latest(COMPACTIONS.prefix))


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history of flushes, that reported compactions are there, and that epochs are unique and not lost."""
    manifest, compactions = final(actors.store)
    found = anomalies(actors.history(), manifest.compacted + manifest.l0)
    found += [f"lost compaction: {e.client} was told that {sst} is compacted, and it is not" for e in actors.told
              if e.op == "compacted" for sst in e.body.decode().split() if sst not in manifest.compacted]
    opens = sorted((int(e.body), e.client) for e in actors.told if e.op == "opened")
    found += [f"one epoch twice: {one[1]} and {other[1]} have opened with epoch {one[0]}"
              for one, other in pairwise(opens) if one[0] == other[0]]
    if opens and min(manifest.compactor_epoch, compactions.compactor_epoch) < opens[-1][0]:
        found.append(f"lost epoch: {opens[-1][1]} has opened with epoch {opens[-1][0]}, and in the end there are "
                     f"{manifest.compactor_epoch} and {compactions.compactor_epoch}")
    found += [f"lost manifest: {one.name!r} refers to manifest {one.manifest_id}, which is gone" for one in manifest.checkpoints
              if MANIFEST.key(one.manifest_id) not in actors.store.objects]
    raise_anomalies(found)
    if actors.shape.audit and actors.shape.compactors:
        nothing_left(manifest, compactions)


def nothing_left(manifest: Manifest, compactions: Compactions) -> None:
    """Check that the last compactor, which nobody disturbed, left no work."""
    if manifest.compactor_epoch != compactions.compactor_epoch:
        raise Failure("liveness", "liveness:epochs apart", f"the epochs are {manifest.compactor_epoch} in the manifest and "
                      f"{compactions.compactor_epoch} in the compactions after the last open")
    if manifest.l0 or compactions.jobs:
        raise Failure("liveness", "liveness:left", f"after the last compaction {manifest.l0} are in L0, and {compactions.jobs} "
                      "are claimed")


# --- what a campaign should reach


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, created, epochs, claimed, boundaries, waits = set(), set(), {}, {}, {}, {}
    for e in events:
        if e.kind == "told" and e.op == "compacted" and claimed.get(e.body, e.client) != e.client:
            found.add("claim taken over")
        if e.kind != "applied":
            continue
        file = e.op == "create" and e.key not in BOUNDARIES
        if file and e.status == 200:
            if e.key in created:
                found.add("id used twice")
            created.add(e.key)
            waits[e.client] = KEYS.file_id(e.key), e.key.startswith(MANIFEST.prefix)
            manifest = e.key.startswith(MANIFEST.prefix)
            value: Any = (COMPACTED if manifest else compactions_json).decode(e.body)
            epochs[manifest] = value.compactor_epoch
            for job in () if manifest else value.jobs:
                claimed.setdefault(" ".join(job).encode(), e.client)
            if e.client.startswith("Compactor") and not e.awaited and epochs.get(True, 0) > epochs.get(False, 0):
                found.add("epochs apart")
        elif file and e.awaited:
            found.add("create conflict")
        elif e.key in BOUNDARIES and e.status == 200 and e.body:
            boundaries[e.key == BOUNDARIES[0]] = int(e.body)
        if e.key in BOUNDARIES and e.op in ("get", "get_if_changed") and e.awaited and e.client in waits:
            i, manifest = waits.pop(e.client)
            if manifest == (e.key == BOUNDARIES[0]) and i <= boundaries.get(manifest, 0):
                found.add("refused by the boundary")
    return found


BUSY = Shape(flushes=40, compactors=0, collectors=0, apart_ms=1, pause_ms=1, audit=False)


SCENARIO = Scenario(
    stem="manifest_compactions",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "flushes"), "Compactor": ("compactors", "compactions"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Writer", "Collector"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(flushes=1, compactors=2, compactions=1, collectors=0, rounds=0, apart_ms=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Compactor": compactor, "Collector": collector},
    audit=(("Writer#0",), ("Compactor#0",), ("Collector#0",)),
    scripts=(*scripts.SCRIPTS, *scripts_slatedb.SCRIPTS),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "unknown", UNFINISHED, "deleted", "not deleted",
          "opened", "not open", "compacted", "nothing", "fenced", "not compacted"),
    moments=("create conflict", "refused by the boundary", "epochs apart", "claim taken over", "id used twice"),
    moments_of=moments_of,
    cost={
        "writer": BUSY,
        "writer and compactor": BUSY._replace(compactors=1, compactions=40),
        "writer, compactor that pins": BUSY._replace(compactors=1, compactions=40, pin_ms=900_000),
        "writer, compactor, collector": BUSY._replace(compactors=1, compactions=40, collectors=1, rounds=20, min_age_ms=1_000),
    },
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
