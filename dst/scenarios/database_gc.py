"""Simulate a database with SSTs as objects: writers, compactors, operators of checkpoints and collectors, of
impl/protocols/database_gc.py and impl/protocols/database_gc_uploads.py.

traces/protocols/database_gc.py judges them. A writer uploads SSTs and commits each to L0; the first one puts WAL objects, too.
A compactor has one life: it opens, perhaps while another works, and lists, uploads and commits its outputs. An operator takes,
renews and drops checkpoints. It reads its own, and must find every object. In the audit a compactor opens, a writer commits a
last SST, and a collector must leave no garbage.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Draw, Scenario
from highwater.dst.scripts import database_gc as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import named, newest_l0, time_ms
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown
from highwater.impl.layout import key_of_sst, sst_of
from highwater.impl.protocols import database_gc, database_gc_uploads, database_metadata
from highwater.impl.protocols.database_gc import Options, Plan
from highwater.impl.protocols.database_gc_uploads import Flushed, SstCompactor
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World, list_all
from highwater.traces.event import Event
from highwater.traces.histories.history import too_young
from highwater.traces.protocols.database_gc import COMPACTIONS, KEYS, MANIFEST, ROOT, SSTS, WAL, Trace, constants, refiner
from highwater.traces.protocols.database_gc_calls import CALLS
from highwater.traces.refine import Failure, refiner_of


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 1
    flushes: int = 4
    compactors: int = 2  # over time; with an audit the first of them opens last
    compactions: int = 2
    outputs: int = 1  # of a compaction
    operators: int = 1
    changes: int = 4
    collectors: int = 1
    rounds: int = 4
    min_age_ms: int = 60
    apart_ms: int = 300  # a compactor opens at most this late
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 2, "compactors": 3, "operators": 2, "collectors": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(1, 2, 1), flushes=(4, 2, 6), compactors=(2, 1, 3), compactions=(2, 1, 3), outputs=(1, 2),
                       operators=(1, 2, 0), changes=(4, 2, 6), collectors=(1, 2, 2), rounds=(4, 2, 8),
                       min_age_ms=(20, 1, 60, 150), apart_ms=(300, 1, 600), pause_ms=(60, 1, 200), page_size=(1000, 1000, 2),
                       chaos=(30, 5), audit=(True, False), skew_ms=(0, 50, 400), store=("s3", "s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.apart_ms


def length(shape: Shape) -> int:
    return (12 * shape.writers * shape.flushes + shape.compactors * (9 + 16 * shape.compactions)
            + 8 * shape.operators * shape.changes + 20 * shape.collectors * shape.rounds)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(*MOST.values())), KEYS, shape.skew_ms)


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    stores: Stores
    flush: Callable[..., Awaitable[str]] = database_gc_uploads.flush
    compactor: type[SstCompactor] = SstCompactor
    take: Callable = database_metadata.take_checkpoint
    renew: Callable = database_metadata.renew_checkpoint
    drop: Callable = database_metadata.drop_checkpoint
    collect: Callable[..., Awaitable[Plan]] = database_gc.collect


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(database_metadata.stores_of(world, ROOT))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), DATABASE.encode(Manifest()), 0)
    store.put(COMPACTIONS.key(FIRST_ID), compactions_json.encode(Compactions()), 0)


# --- writers

async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    impl, logged = actors.build(world, actors.shape, number), list[int]()
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        while number == 0 and not actors.auditing and actors.choose(f"{client.name}.appends", 2):
            said = await said_by(CALLS, "append", actors.in_time(client, append(world, impl.stores, logged)))
            actors.tell(client, said.told, b"" if said.value is None else b"%d" % said.value, keys=said.keys)
        wal = Flushed(logged[-2] if len(logged) > 1 else 0, logged[-1]) if logged else Flushed()
        said = await said_by(CALLS, "flush", actors.in_time(client, impl.flush(impl.stores.manifest, ROOT, b"rows", wal)))
        actors.tell(client, said.told, said.value.encode() if said.value else b"", keys=said.keys)
        if actors.auditing and said.told != "flushed":
            raise Failure("liveness", "liveness:flush", f"{client.name} was told {said.told!r}, with nobody else at work")
        await actors.pause(client, world)


async def append(world: World, stores: Stores, logged: list[int]) -> int:
    """Put the next WAL object; return its id. `logged` has the ids of this writer's life. Its fences are another protocol."""
    if logged:
        i = logged[-1] + 1
    else:
        ids = [WAL.file_id(entry.key) or 0 for entry in await list_all(world.store, WAL.prefix)]
        i = max((*ids, (await stores.manifest.current()).value.replay_after_wal_id)) + 1
    while True:
        try:
            await world.store.create(WAL.key(i), b"record")
        except OutcomeUnknown:
            continue  # nothing is put behind it before it is there
        except AlreadyExists:
            pass
        logged.append(i)
        return i


# --- compactors

async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, times = actors.shape, actors.left[client.name]
    if not times or (shape.audit and number == 0 and not actors.auditing):
        return
    actors.left[client.name] = 0  # it has one life
    if shape.apart_ms > 1 and not actors.auditing:
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.opens", shape.apart_ms))
    impl = actors.build(world, shape, number)
    instance = impl.compactor(impl.stores, ROOT)
    opened = await said_by(CALLS, "open", actors.in_time(client, instance.open()))
    actors.tell(client, opened.told, b"" if opened.value is None else b"%d" % opened.value, keys=opened.keys)
    if opened.value is None:
        return
    told = ""
    while times and told != "fenced":
        times -= 1
        await actors.pause(client, world)
        said = await said_by(CALLS, "compact", actors.in_time(client, instance.compact((b"rows",) * shape.outputs)))
        told = "nothing" if said.value == () else said.told
        actors.tell(client, told, " ".join(said.value or ()).encode(), keys=() if told == "nothing" else said.keys)


# --- operators

# What an operator does next, and the lifetime in multiples of min_age (0: the checkpoint never ends)
CHANGES = ("take 0", "take 0", "take 1", "take 3", "renew 0", "renew 3", "read", "read", "drop")


class Read(NamedTuple):
    """A checkpoint as it was read. `manifest` is None if it is no longer listed."""

    manifest: Manifest | None


async def operator(actors: Actors, client: Client, world: World, number: int) -> None:
    impl, own = actors.build(world, actors.shape, number), list[str]()
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await change(actors, client, world, impl, own)
        await actors.pause(client, world)


async def change(actors: Actors, client: Client, world: World, impl: Impl, own: list[str]) -> None:
    """Make one change, or read a checkpoint. `own` has the checkpoints that this operator may have taken."""
    what, _, lifetimes = CHANGES[actors.choose(f"{client.name}.change", len(CHANGES))].partition(" ")
    if not own:
        what, lifetimes = "take", lifetimes or "0"
    actors.named[client.name] += 1
    update, manifests = f"{client.name.partition('#')[2]}.{actors.named[client.name]}", impl.stores.manifest
    checkpoint = update if what == "take" else own[actors.choose(f"{client.name}.which", 4) % len(own)]
    expiry_ms = int(lifetimes or 0) and world.clock.now_ms() + int(lifetimes) * actors.shape.min_age_ms
    ask: dict[str, Callable[[], Awaitable[Any]]] = {
        "take": lambda: impl.take(manifests, update, expiry_ms),
        "renew": lambda: impl.renew(manifests, update, checkpoint, expiry_ms),
        "drop": lambda: impl.drop(manifests, checkpoint),
        "read": lambda: read(world, impl.stores, checkpoint),
    }
    said = await said_by(CALLS, f"{what}_checkpoint", actors.in_time(client, ask[what]()), key_in)
    actors.tell(client, said.told, b"" if said.told == "not read" else checkpoint.encode(), said.key, keys=said.keys)
    if what == "take" and said.told != "not changed":
        own.append(checkpoint)
    elif what == "drop":
        own.remove(checkpoint)


def key_in(of: Any) -> str:
    """Return the key of the manifest that a result names."""
    return "" if isinstance(of, Read) else MANIFEST.key(of.id)


async def read(world: World, stores: Stores, checkpoint: str) -> Read:
    """Read a checkpoint with all objects that it names. Raises NotFound if one is gone, and the checkpoint is listed still."""
    if (one := await found(stores, checkpoint)) is None:
        return Read(None)
    try:
        manifest = await stores.manifest.read(one.manifest_id)
        for sst in sorted(named(manifest)):
            await world.store.get(key_of_sst(ROOT, sst))
        for i in range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1):
            await world.store.get(WAL.key(i))
    except NotFound:
        if await found(stores, checkpoint):
            raise
        return Read(None)
    return Read(manifest)


async def found(stores: Stores, checkpoint: str) -> Any:
    """Return a checkpoint as the latest manifest lists it; None if it does not."""
    return next((one for one in (await stores.manifest.current()).value.checkpoints if one.id == checkpoint), None)


# --- collectors

async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(pause_ms(actors, client)), lambda: said_by(
        CALLS, "collect", actors.in_time(client, impl.collect(impl.stores, ROOT, Options(shape.min_age_ms))), deleted=deleted))


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 4 * shape.min_age_ms + 4 * shape.skew_ms + 10  # everything is old
    return shape.min_age_ms // 2 + 1 + actors.choose(f"{client.name}.pause", 2 * shape.min_age_ms)


def deleted(of: Plan) -> str:
    """Return the keys that a round has deleted."""
    ids = ((MANIFEST, of.manifests), (COMPACTIONS, of.compactions), (WAL, of.wal))
    files = [where.key(i) for where, those in ids for i in those]
    return " ".join(sorted((*files, *(key_of_sst(ROOT, sst) for sst in of.ssts))))


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that nothing was deleted too young, that all that is named is there, and that the audit's round left no garbage."""
    shape, store = actors.shape, actors.store
    manifest = DATABASE.decode(store.objects[max(key for key in store.keys if key.startswith(MANIFEST.prefix))][0].body)
    raise_anomalies(missing(manifest, store))
    least_ms = shape.min_age_ms - store.profile.last_modified_ms + 1
    for where in (MANIFEST, COMPACTIONS, WAL) if actors.trace and not shape.broken else ():
        if young := too_young(events, where, least_ms, actors.ahead_ms()):
            raise Failure("safety", "history:too young", young)
    if shape.audit and shape.collectors and shape.compactors and not shape.broken:
        nothing_left(manifest, store)


def held_by(manifest: Manifest, store: SimulatedStore) -> list[tuple[str, Manifest | None]]:
    """Return the listed checkpoints and their manifests; None for one that is gone."""
    keys = [(one.id, MANIFEST.key(one.manifest_id)) for one in manifest.checkpoints]
    return [(id_, DATABASE.decode(store.objects[key][0].body) if key in store.objects else None) for id_, key in keys]


def missing(manifest: Manifest, store: SimulatedStore) -> list[str]:
    """Return what the latest manifest or a checkpoint names, and is not there."""
    found = []
    for whose, of in (("the latest manifest", manifest), *held_by(manifest, store)):
        if of is None:
            found.append(f"lost checkpoint: the manifest of {whose} is gone")
            continue
        keys = [key_of_sst(ROOT, sst) for sst in sorted(named(of))]
        keys += [WAL.key(i) for i in range(of.replay_after_wal_id + 1, of.wal_id_last_seen + 1)]
        found += [f"lost object: {whose} names {key}, which is gone" for key in keys if key not in store.objects]
    return found


def nothing_left(manifest: Manifest, store: SimulatedStore) -> None:
    """Check that the last round, which nobody disturbed, left no SST and no manifest that is old and that nothing names."""
    held = held_by(manifest, store)
    kept = frozenset[str]().union(*(named(of) for _, of in (("", manifest), *held) if of))
    newest = newest_l0(manifest)
    ssts = [sst for key in store.keys if key.startswith(SSTS) and (sst := sst_of(ROOT, key))]
    left = [sst for sst in ssts if sst not in kept and newest and time_ms(sst) < time_ms(newest)]
    files = [i for key in store.keys if key.startswith(MANIFEST.prefix) and (i := MANIFEST.file_id(key))]
    left += [MANIFEST.key(i) for i in files[:-1] if i not in manifest.referenced()]
    if left:
        raise Failure("liveness", "liveness:garbage", f"after the last round {left} are still there, and nothing names them")


# --- what a campaign should reach

def moments_of(events: list[Event], shape: Shape) -> set[str]:
    reached, pending = set[str](), set[str]()
    for e in events:
        if e.kind != "applied":
            continue
        if e.key.startswith(SSTS) and e.op == "create" and e.status == 200:
            pending.add(sst_of(ROOT, e.key) or "")
        elif e.key.startswith(SSTS) and e.op == "list" and e.client.startswith("Collector"):
            reached |= {"upload in flight listed"} if {sst_of(ROOT, key) for key in e.keys} & pending else set()
        elif e.op == "delete" and e.status in (200, 204):
            reached |= {f"{name} deleted" for name, prefix in PREFIXES.items() if e.key.startswith(prefix)}
            reached |= {"orphan deleted"} if sst_of(ROOT, e.key) in pending else set()
        elif e.op == "create" and e.status == 200 and e.key.startswith(MANIFEST.prefix):
            stored = DATABASE.decode(e.body)
            pending -= named(stored)
    return reached


PREFIXES = {"SST": SSTS, "manifest": MANIFEST.prefix, "compactions file": COMPACTIONS.prefix, "WAL object": WAL.prefix}


SCENARIO = Scenario(
    stem="database_gc",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "flushes"), "Compactor": ("compactors", "compactions"), "Operator": ("operators", "changes"),
           "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Operator", "Compactor", "Collector"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(flushes=1, compactors=0, compactions=0, operators=0, changes=0, collectors=1, rounds=1, min_age_ms=1, apart_ms=1,
               pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Compactor": compactor, "Operator": operator, "Collector": collector},
    audit=(("Compactor#0",), ("Writer#0",), ("Collector#0",), ("Collector#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    final_check=final_check,
    told=("logged", "not logged", "flushed", "not flushed", "flush unknown", "opened", "not open", "compacted", "nothing",
          "fenced", "not compacted", "taken", "renewed", "dropped", "not changed", "change unknown", "read", "not read",
          "deleted", "not deleted"),
    moments=("upload in flight listed", "orphan deleted", *(f"{name} deleted" for name in PREFIXES)),
    moments_of=moments_of,
    cost={},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
