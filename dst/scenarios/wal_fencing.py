"""Simulate writers that open one after another or at once, and collectors, of impl/protocols/wal_fencing.py.

traces/protocols/wal_fencing.py judges them. Each writer opens once, appends, and flushes now and then. It ends when it is
stopped, because another one takes over. With an audit Writer#0 opens at the end, and must find every acknowledged record.

In some runs each writer is a store of keys and values (`WalKv`), which also gets. A writer that was stopped is asked once more.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import RARE, BaseShape, Draw, Scenario
from highwater.dst.scripts import wal_fencing as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.ids import RecordIds
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json.wal import WalManifest, decode_manifest, decode_record
from highwater.impl.errors import Definite, FencedUnapplied, Indefinite
from highwater.impl.kv.wal import WalKv
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Closed, Wal
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.history import too_young
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.wal_fencing import KEYS, MANIFEST, WAL, Trace, constants, name_of, refiner
from highwater.traces.protocols.wal_fencing_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 3  # over time; with an audit the first of them opens last
    appends: int = 4
    collectors: int = 1
    rounds: int = 3
    flush_every: int = 2  # appends; 0: never
    replay_flush: int = 0  # records flushed at a time during a replay; 0: none
    attempts: int = 5  # of a request whose outcome stays unknown, or of a read without an answer
    keys: int = 0  # of a store of keys and values; 0: a writer appends records
    checkpoint_every: int = 0  # appends after which a checkpoint is taken, or the oldest of two is dropped; 0: never
    min_age_ms: int = 0  # of a WAL object, for a collector; 0: of any age
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 4, "collectors": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(3, 2, 4), appends=(3, 2, 4), collectors=(1, 0, 2), rounds=(3, 6), flush_every=(2, 1, 0),
                       replay_flush=(0, 1), pause_ms=(60, 1, 300), chaos=(30, 5), audit=(True, False),
                       store=("s3", "s3", "gcs", "azure", "r2"), attempts=(5, 2, 2, 1), keys=(0, 0, 1, 2),
                       min_age_ms=(0, 0, 60, 300), skew_ms=(0, 0, 50), checkpoint_every=(0, 0, 1, 2))


def length(shape: Shape) -> int:
    return shape.writers * (6 + 3 * shape.appends) + 4 * shape.collectors * shape.rounds


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(MOST["writers"], MOST["collectors"])), KEYS, shape.skew_ms)


class Impl(NamedTuple):
    """The parts of a client that mutants replace. `open(world, root, flush_every)`, `open_kv` likewise, and `collect(world,
    root, min_age_ms)`. Without `open_kv` a store is made of what `open` returns."""

    open: Callable
    collect: Callable
    open_kv: Callable | None = None


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(partial(wal_fencing.open, attempts=shape.attempts), wal_fencing.collect,
                partial(WalKv.open, attempts=shape.attempts))


def begin(store: SimulatedStore, shape: Shape) -> None:
    """Begin with an empty store: the first writer creates the manifest."""


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    shape = actors.shape
    if number == 0 and shape.audit and not actors.auditing:
        return
    todo, actors.left[client.name] = actors.left[client.name], 0  # a writer that crashed does not return
    if not todo:
        return
    if not actors.auditing:
        await actors.pause(client, world)
    actors.begin(client)
    impl, flush_every = actors.build(world, shape, number), shape.replay_flush or None
    world = world._replace(ids=RecordIds(number))
    asked = opened_kv(impl, world, flush_every) if shape.keys else impl.open(world, ROOT, flush_every=flush_every)
    said = await said_by(CALLS, "open", actors.in_time(client, asked), attempts=lambda _: str(shape.attempts))
    if said.value is None:
        actors.end(client, said.told, body=b"", keys=said.keys)
        return
    kv = said.value if shape.keys else None
    wal: Wal = kv.wal if kv else said.value
    found = tuple(name_of(record.body).decode() for record in wal.records)
    actors.end(client, "opened", body=" ".join(found).encode(), seen=found)
    await serve(actors, client, wal, kv, todo)
    if wal.closed:
        await refuses(wal, kv)


async def opened_kv(impl: Impl, world: World, flush_every: int | None) -> WalKv:
    if impl.open_kv:
        return await impl.open_kv(world, ROOT, flush_every=flush_every)
    return WalKv(await impl.open(world, ROOT, flush_every=flush_every))


async def serve(actors: Actors, client: Client, wal: Wal, kv: WalKv | None, todo: int) -> None:
    """Append or put, get and flush, until the work is done or the writer must stop."""
    shape = actors.shape
    for done in range(1, todo + 1):
        name = actors.name_update(client.name)
        await told(actors, client, name, kv.put(key_of(shape, name), name.encode()) if kv else wal.append(name.encode()))
        if wal.closed:
            return
        for key in (key_of(shape, f"0.{number}") for number in range(shape.keys)):
            actors.begin(client)
            value = await kv.get(key) if kv else None
            actors.end(client, "got", key, value or b"")
        if shape.checkpoint_every and done % shape.checkpoint_every == 0 and not await checkpointed(actors, client, wal):
            return
        if shape.flush_every and done % shape.flush_every == 0 and not await flushed(actors, client, wal, kv):
            return
        await actors.pause(client, wal.world)


async def told(actors: Actors, client: Client, name: str, append: Awaitable) -> None:
    """Append one record, and tell the caller."""
    actors.begin(client, name)
    said = await said_by(CALLS, "append", actors.in_time(client, append), epoch=lambda record: str(record.epoch))
    actors.end(client, said.told, keys=said.keys)


def key_of(shape: Shape, name: str) -> str:
    """Return the key that an update puts. Writers share their keys."""
    return f"{int(name.partition('.')[2]) % shape.keys}"


async def refuses(wal: Wal, kv: WalKv | None) -> None:
    """Check that a writer which has stopped refuses every call, as it says that it does, and sends nothing."""
    calls: tuple[Callable[[], Awaitable], ...] = (
        lambda: wal.append(b""), wal.flush, wal.checkpoint, lambda: wal.drop(0), *([lambda: kv.get("0")] if kv else []))
    for call in calls:
        try:
            await call()
        except (FencedUnapplied, Closed):
            continue
        except (Definite, Indefinite):
            pass
        raise Failure("safety", "told:closed", f"the writer of epoch {wal.epoch} has stopped, and does not refuse a call")


async def flushed(actors: Actors, client: Client, wal: Wal, kv: WalKv | None) -> bool:
    actors.begin(client)
    said = await said_by(CALLS, "flush", actors.in_time(client, (kv or wal).flush()), unapplied=lambda _: "")
    actors.end(client, said.told, body=b"", keys=said.keys)
    return wal.closed is None


async def checkpointed(actors: Actors, client: Client, wal: Wal) -> bool:
    """Take a checkpoint, or drop the oldest if two are listed."""
    listed = wal.known.manifest.checkpoints
    actors.begin(client)
    if len(listed) < 2:
        said = await said_by(CALLS, "checkpoint", actors.in_time(client, wal.checkpoint()), unapplied=lambda _: "")
        body = ".".join(map(str, said.value)) if said.value else ""
    else:
        said = await said_by(CALLS, "drop", actors.in_time(client, wal.drop(listed[0].number)), unapplied=lambda _: "")
        body = str(listed[0].number) if said.told == "dropped" else ""
    actors.end(client, said.told, body=body.encode(), keys=said.keys)
    return wal.closed is None


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: actors.pause(client, world),
                                   lambda: collected(actors, client, impl.collect(world, ROOT, actors.shape.min_age_ms)))


async def collected(actors: Actors, client: Client, round_: Awaitable[list[int]]) -> Said:
    asked = actors.in_time(client, round_)
    return await said_by(CALLS, "collect", asked, deleted=lambda ids: " ".join(map(WAL.key, sorted(ids))))


def recoverable(store: SimulatedStore) -> list[str]:
    """Return the records that a writer would recover if it opened now, in order."""
    found = store.objects.get(MANIFEST)
    manifest = decode_manifest(found[0].body) if found else None
    names = [name_of(record.body).decode() for record in manifest.flushed] if manifest else []
    i = manifest.replay_after + 1 if manifest else 1
    while WAL.key(i) in store.objects:
        record = decode_record(store.objects[WAL.key(i)][0].body)
        names += [name_of(record.body).decode()] if record else []
        i += 1
    return names


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that every acknowledged record is recovered once, in log order, and that every open saw a prefix of the log."""
    said = {"opened": "read", "fenced": "failed"}  # a caller told "fenced" may conclude that no log has the record
    found = anomalies([of._replace(said=said.get(of.said, of.said)) for of in actors.history()], recoverable(actors.store))
    raise_anomalies(found + strange_gets(actors))
    raise_anomalies(lost_objects(actors.store))
    shape = actors.shape
    young = actors.trace and shape.min_age_ms and too_young(
        events, WAL, shape.min_age_ms - shape.skew_ms - actors.store.profile.last_modified_ms + 1)
    if young:
        raise Failure("safety", "history:too young", young)


def lost_objects(store: SimulatedStore) -> list[str]:
    """Return the WAL objects that a listed checkpoint refers to, and that are not there."""
    found = store.objects.get(MANIFEST)
    listed = decode_manifest(found[0].body).checkpoints if found else ()
    return [f"lost object: checkpoint {one.number} refers to WAL id {i}, which is gone"
            for one in listed for i in range(one.replay_after + 1, one.last_id + 1) if WAL.key(i) not in store.objects]


def strange_gets(actors: Actors) -> list[str]:
    """Return the gets that did not show the last put of the writer's own log: of its records, and of its acknowledged puts."""
    tables: dict[str, dict[str, str]] = {}
    found = []
    for e in actors.told if actors.shape.keys else ():
        table = tables.setdefault(e.client, {})
        if e.op in ("opened", "committed"):
            table.update({key_of(actors.shape, name): name for name in e.body.decode().split()})
        elif e.op == "got" and e.body.decode() != table.get(e.key, ""):
            found.append(f"strange get: {e.client} got {e.body.decode()!r} of key {e.key}, "
                         f"but {table.get(e.key)!r} was put last")
    return found


def is_spared(manifest: WalManifest, i: int) -> bool:
    return any(one.refers_to(i) for one in manifest.checkpoints)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, last = set(), WalManifest()
    for e in events:
        if e.kind == "applied" and e.awaited and e.client.startswith("Writer") and e.key.startswith(WAL.prefix):
            if e.op == "create" and e.status == 412 and e.body:
                found.add("fence in the way")
            if e.op == "get" and e.status == 404:
                found.add("WAL object gone in a replay")
            if e.op == "create" and e.status == 200 and e.body and (WAL.file_id(e.key) or 0) <= last.replay_after:
                found.add("append behind replay_after")
        if e.kind == "applied" and e.key == MANIFEST and e.op in ("create", "update") and e.status == 200:
            last = decode_manifest(e.body)
        if e.kind == "applied" and e.op == "list" and e.client.startswith("Collector") and any(
                i <= last.replay_after and is_spared(last, i) for i in filter(None, map(WAL.file_id, e.keys))):
            found.add("WAL object spared")
    return found


SCENARIO = Scenario(
    stem="wal_fencing",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "appends"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Collector",),
    mildest=Shape(pause_ms=1, replay_flush=0, audit=False),
    tiny=Shape(writers=2, appends=1, collectors=1, rounds=1, flush_every=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Collector": collector},
    audit=(("Writer#0",), ("Collector#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    final_check=final_check,
    told=("opened", "not open", "committed", "fenced", "failed", "unknown", "flushed", "not flushed", "checkpointed", "dropped",
          "not checkpointed", "got", "deleted", "not deleted"),
    moments=("fence in the way", "WAL object gone in a replay", "append behind replay_after", "WAL object spared"),
    moments_of=moments_of,
    cost={"1 writer, flush every 10": Shape(writers=1, appends=60, rounds=6, flush_every=10, pause_ms=1, audit=False),
          "1 writer, no flush": Shape(writers=1, appends=60, rounds=0, collectors=0, flush_every=0, pause_ms=1, audit=False)},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
