"""Simulate a database: writers, compactors, a reader, an operator and collectors, of impl/protocols/database_metadata.py.

traces/protocols/database_metadata.py judges them. Writers and compactors have one life each: one opens, perhaps while another
works, and ends when it is fenced or crashes. The operator takes checkpoints, renews and drops its own, and drops those that
have ended. With an audit the last ones of all work undisturbed: a writer must serve every acknowledged record and flush it, a
compactor must leave no claim and an empty L0, and a collector nothing that is no longer needed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import PATIENCE, STORES, BaseShape, Draw, Scenario
from highwater.dst.scripts import database_metadata as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world import tampering
from highwater.dst.world.ids import RecordIds
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.ssts import records_of
from highwater.impl.codecs.json.wal import FENCE, decode_record
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, FencedUnapplied, Indefinite
from highwater.impl.layout import Namespace
from highwater.impl.protocols import database_metadata
from highwater.impl.protocols.manifest_compactions import Compactor, Stores
from highwater.impl.protocols.sequenced_metadata import Committed
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.protocols.wal_fencing import Closed, Wal
from highwater.impl.world import World
from highwater.traces.calls import CALL, UNFINISHED
from highwater.traces.event import Event
from highwater.traces.histories import promises
from highwater.traces.histories.history import too_young
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.database_metadata import COMPACTIONS, KEYS, MANIFEST, WAL, Trace, constants, refiner
from highwater.traces.protocols.database_metadata_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2  # over time; with an audit the first of them opens last
    appends: int = 3
    compactors: int = 2  # likewise
    compactions: int = 2
    readers: int = 1
    reads: int = 2
    operators: int = 1
    changes: int = 3
    collectors: int = 1
    rounds: int = 2
    flush_every: int = 2  # appends; 0: never
    replay_flush: int = 0  # records flushed at a time during a replay; 0: none
    attempts: int = 5  # of a writer's request whose outcome stays unknown, or of a read without an answer
    pin_ms: int = 0  # the lifetime of a compactor's pin; 0: it takes none
    min_age_ms: int = 60
    apart_ms: int = 300  # an instance opens at most this late
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 4, "compactors": 3, "readers": 1, "operators": 2, "collectors": 2}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3, 4), appends=(3, 2, 4), compactors=(2, 3, 1), compactions=(2, 1, 3), readers=(1, 0),
                       reads=(2, 4), operators=(1, 2, 0), changes=(3, 2, 5), collectors=(1, 2, 2, 0), rounds=(3, 2, 6),
                       flush_every=(1, 2, 0), replay_flush=(0, 0, 1), attempts=(5, 2, 1), min_age_ms=(60, 1, 150, 400),
                       apart_ms=(300, 1, 1000), pause_ms=(60, 1, 300), page_size=(1000, 1000, 2), chaos=(30, 5),
                       audit=(True, False), skew_ms=(0, 50), store=("s3", "s3", "s3", *STORES), pin_ms=(0, 0, 300, 900_000))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.apart_ms


def length(shape: Shape) -> int:
    return (shape.writers * (12 + 5 * shape.appends) + shape.compactors * (9 + 12 * shape.compactions)
            + 3 * shape.readers * shape.reads + 4 * shape.operators * shape.changes + 12 * shape.collectors * shape.rounds)


def trace_of(shape: Shape) -> Trace:
    page = shape.page_size if shape.page_size < 1000 else 0
    return Trace(refiner_of(refiner, constants(*MOST.values(), page_size=page)), KEYS, shape.skew_ms,
                 shape.pin_ms > 0)


def trace_options(shape: Shape) -> list[str]:
    """Return the options that `trace check` needs for a run of this shape."""
    return [f"--shape {name}={getattr(shape, name)}" for name in ("page_size", "skew_ms", "pin_ms")
            if getattr(shape, name) != getattr(Shape(), name)]


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace. `open(stores, root, flush_every)`, `take(manifests, update
    id, expiry)`, `renew(manifests, update id, checkpoint, expiry)`, `drop(manifests, checkpoint)`, `collect(stores, root, age)`
    """

    stores: Stores
    open: Callable[..., Awaitable[Wal]]
    compactor: Callable[..., Compactor] = Compactor  # of its stores, and pin_ms
    take: Callable = database_metadata.take_checkpoint
    renew: Callable = database_metadata.renew_checkpoint
    drop: Callable = database_metadata.drop_checkpoint
    collect: Callable = database_metadata.collect


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(database_metadata.stores_of(world, ROOT), partial(database_metadata.open, attempts=shape.attempts))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), DATABASE.encode(Manifest()), 0)
    store.put(COMPACTIONS.key(FIRST_ID), compactions_json.encode(Compactions()), 0)


def names_in(ssts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names "w.k" of the records in SSTs, in their order."""
    return tuple(record.body.decode() for sst in ssts for record in records_of(sst))


# --- writers

async def opening(actors: Actors, client: Client, world: World, number: int) -> int:
    """Wait until an instance opens; return how much it has to do. It has one life."""
    shape, times = actors.shape, actors.left[client.name]
    if shape.audit and number == 0 and not actors.auditing:
        return 0
    actors.left[client.name] = 0
    if times and shape.apart_ms > 1 and not actors.auditing:
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.opens", shape.apart_ms))
    return times


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, todo = actors.shape, await opening(actors, client, world, number)
    if not todo:
        return None
    impl = actors.build(world, shape, number)
    impl.stores.manifest.world = world._replace(ids=RecordIds(number))
    actors.begin(client)
    said = await said_by(CALLS, "open", actors.in_time(client, impl.open(
        impl.stores, ROOT, flush_every=shape.replay_flush or None)), attempts=lambda _: str(shape.attempts))
    if said.value is None:
        return actors.end(client, said.told, body=b"", keys=said.keys)
    wal: Wal = said.value
    found = served(wal)
    actors.end(client, "opened", body=" ".join(found).encode(), seen=found)
    for done in range(1, todo + 1):
        await append(actors, client, wal)
        if not wal.closed and (actors.auditing or (shape.flush_every and done % shape.flush_every == 0)):
            await flush(actors, client, wal)
        if wal.closed:
            return await refuses(wal)
        await actors.pause(client, world)
    return None


async def refuses(wal: Wal) -> None:
    """Check that a writer which has stopped refuses every call, as it says that it does, and sends nothing."""
    for call in (lambda: wal.append(b""), wal.flush):
        try:
            await call()
        except (FencedUnapplied, Closed):
            continue
        except (Definite, Indefinite):
            pass
        raise Failure("safety", "told:closed", f"the writer of epoch {wal.epoch} has stopped, and does not refuse a call")


def served(wal: Wal) -> tuple[str, ...]:
    return tuple(record.body.decode() for record in wal.records)


async def append(actors: Actors, client: Client, wal: Wal) -> None:
    name = actors.name_update(client.name)
    actors.begin(client, name)
    said = await said_by(CALLS, "append", actors.in_time(client, wal.append(name.encode())),
                         epoch=lambda record: str(record.epoch))
    actors.end(client, said.told, keys=said.keys)


async def flush(actors: Actors, client: Client, wal: Wal) -> None:
    """Flush; if it is done, the operation has `seen` all records of the writer."""
    actors.begin(client)
    said = await said_by(CALLS, "flush", actors.in_time(client, wal.flush()), unapplied=lambda _: "")
    actors.end(client, said.told, body=b"", seen=served(wal) if said.told == "flushed" else (), keys=said.keys)


# --- compactors

async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, times = actors.shape, await opening(actors, client, world, number)
    if not times:
        return
    impl = actors.build(world, shape, number)
    instance = impl.compactor(impl.stores, pin_ms=shape.pin_ms)
    opened = await said_by(CALLS, "open_compactor", actors.in_time(client, instance.open()))
    actors.tell(client, opened.told, b"" if opened.value is None else b"%d" % opened.value, keys=opened.keys)
    if opened.value is None:
        return

    async def merge(job: Job) -> None:
        await actors.pause(client, world)

    told = ""
    while told != "fenced" and (times or (actors.auditing and told != "nothing")):
        times -= bool(times)
        said = await said_by(CALLS, "compact", actors.in_time(client, instance.compact(merge)))
        told = "nothing" if said.value == () else said.told
        names = () if actors.shape.broken else names_in(said.value or ())
        actors.tell(client, told, " ".join(names).encode(), keys=() if told == "nothing" else said.keys)
        await actors.pause(client, world)


# --- a reader

async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)

    async def read() -> Said:
        return await said_by(CALLS, "current", actors.in_time(client, impl.stores.manifest.current()), key_in(impl))

    await actors.read_one_by_one(client, world, read, lambda of: names_in((*of.value.compacted, *of.value.l0)))


def key_in(impl: Impl) -> Callable[[Committed], str]:
    """Return the function that names the manifest of a result."""
    return lambda of: impl.stores.manifest.bounded.storage.namespace.key(of.id)


# --- an operator

# What it does next, and the lifetime in multiples of min_age (0: the checkpoint never ends)
CHANGES = ("take 0", "take 0", "take 1", "take 1", "take 3", "renew 0", "renew 3", "drop", "ended", "ended")
TRIES = 3  # of a change whose outcome is unknown


async def operator(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        if actors.auditing:
            await world.clock.sleep_ms(4 * shape.min_age_ms + 2 * shape.skew_ms + 1)  # until checkpoints have ended
        drawn = "ended" if actors.auditing else CHANGES[actors.choose(f"{client.name}.change", len(CHANGES))]
        await change(actors, client, world, impl, *drawn.partition(" ")[::2])
        await actors.pause(client, world)


async def change(actors: Actors, client: Client, world: World, impl: Impl, what: str, lifetimes: str) -> None:
    """Make one change, again if its outcome is unknown and the caller does not give up. The operation is named after it."""
    actors.named[client.name] += 1
    update, manifests = f"{client.name.partition('#')[2]}.{actors.named[client.name]}", impl.stores.manifest
    own = taken(actors, client)
    if what in ("renew", "drop") and not own:
        what, lifetimes = "take", lifetimes or "0"
    checkpoint = update if what == "take" else own[actors.choose(f"{client.name}.which", 4) % len(own)] if own else ""
    expiry_ms = int(lifetimes) and world.clock.now_ms() + int(lifetimes) * actors.shape.min_age_ms if lifetimes else 0
    ask: dict[str, Callable[[], Awaitable[Any]]] = {
        "take": lambda: impl.take(manifests, update, expiry_ms),
        "renew": lambda: impl.renew(manifests, update, checkpoint, expiry_ms),
        "drop": lambda: impl.drop(manifests, checkpoint),
        "ended": manifests.drop_ended,
    }
    doubt = False
    for left in reversed(range(TRIES)):
        actors.begin(client, " ".join(filter(None, (what, checkpoint if what != "ended" else "", lifetimes))))
        call = "drop_ended" if what == "ended" else f"{what}_checkpoint"
        said = await said_by(CALLS, call, actors.in_time(client, ask[what]()), key_in(impl))
        told = UNFINISHED if doubt and said.told == "not changed" else said.told
        actors.end(client, told, said.key, b"" if what == "ended" or told == UNFINISHED else checkpoint.encode(),
                   keys=said.keys)
        doubt = doubt or told != "not changed"
        if said.value is not None or not left or not (actors.auditing or actors.choose(f"{client.name}.again", 2)):
            return
        await actors.pause(client, world)


def taken(actors: Actors, client: Client) -> list[str]:
    """Return the checkpoints that were reported as taken and that this operator has not asked to drop."""
    asked = {of.update.split()[1] for of in actors.history() if of.client == client.name and of.update.startswith("drop ")}
    return [id_ for e in actors.told if e.client == client.name and e.op == "taken" and (id_ := e.body.decode()) not in asked]


# --- collectors

async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(pause_ms(actors, client)), lambda: said_by(
        CALLS, "collect", actors.in_time(client, impl.collect(impl.stores, ROOT, shape.min_age_ms)), deleted=deleted))


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 4 * shape.min_age_ms + 2 * shape.skew_ms + 1  # everything is old
    return shape.min_age_ms // 2 + 1 + actors.choose(f"{client.name}.pause", 2 * shape.min_age_ms)


def deleted(ids: database_metadata.Deleted) -> str:
    """Return the keys that a round has deleted."""
    return " ".join(sorted(of.key(i) for of, those in zip((MANIFEST, COMPACTIONS, WAL), ids) for i in those))


# --- when the faults have stopped

class Final(NamedTuple):
    """The content of the store at the end."""

    manifest: Manifest
    compactions: Compactions
    flushed: tuple[str, ...]  # names of the records in the manifest
    logged: tuple[str, ...]  # names of those in the WAL behind them, which a writer would replay
    ids: dict[str, list[int]]  # name of the namespace -> the ids of its files


def final(store: SimulatedStore) -> Final:
    ids = {of.name: [i for key in store.keys if key.startswith(of.prefix) and (i := of.file_id(key)) is not None]
           for of in (MANIFEST, COMPACTIONS, WAL)}
    if not (ids[MANIFEST.name] and ids[COMPACTIONS.name]):
        raise Failure("safety", "history:nothing left", "there is no manifest left, or no compactions file")
    manifest = DATABASE.decode(store.objects[MANIFEST.key(ids[MANIFEST.name][-1])][0].body)
    logged, i, there = [], manifest.replay_after_wal_id + 1, set(ids[WAL.name])
    while i in there:
        record = decode_record(store.objects[WAL.key(i)][0].body)
        logged += [record.body.decode()] if record else []
        i += 1
    return Final(manifest, compactions_json.decode(store.objects[COMPACTIONS.key(ids[COMPACTIONS.name][-1])][0].body),
                 names_in((*manifest.compacted, *manifest.l0)), tuple(logged), ids)


DONE = ("opened", "flushed", "compacted", "nothing", "taken", "renewed", "dropped", "ended")  # successes beside committed, read


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check what callers of all roles were told against each other and against the end."""
    if actors.shape.broken.startswith("boundary"):
        judged = [e._replace(op="committed") if e.kind == "told" and e.op in DONE else e for e in events]
        raise_anomalies([found for where in (MANIFEST, COMPACTIONS) if (found := promises.trusted(judged, where))])
        return
    if actors.shape.broken.startswith("listing"):
        raise_anomalies([f"untrue error: {e.client} was told {e.keys[1]}, and nobody has changed a boundary"
                         for e in actors.told if e.keys[1:2] in (("InvalidBoundary",), ("BoundaryLost",))])
    end = final(actors.store)
    raise_anomalies(list(dict.fromkeys([
        *of_log(actors, end), *of_reads(actors, end), *of_compactions(actors, end), *of_epochs(actors, end),
        *of_checkpoints(actors, end)])))
    shape = actors.shape
    for where in (MANIFEST, COMPACTIONS, WAL) if actors.trace else ():
        young = too_young(events, where, shape.min_age_ms - actors.store.profile.last_modified_ms + 1, actors.ahead_ms())
        if young and shape.min_age_ms:
            raise Failure("safety", "history:too young", young)
    if shape.audit and not shape.broken:
        nothing_left(actors, end)


def of_log(actors: Actors, end: Final) -> list[str]:
    """Judge appends and opens: each open has served a prefix of the log, with every record acknowledged before."""
    said = {"opened": "read", "fenced": "failed"}  # a caller told "fenced" may conclude that no log has the record
    return anomalies([of._replace(said=said.get(of.said, of.said)) for of in actors.history()
                      if of.client.startswith("Writer")], end.flushed + end.logged)


def of_reads(actors: Actors, end: Final) -> list[str]:
    """Judge flushes and reads: a read shows a prefix of the log, with every record that was reported as flushed before."""
    history, flushed = actors.history(), {}
    for of in history:
        for name in of.seen if of.said == "flushed" else ():
            flushed[name] = min(of.end, flushed.get(name, of.end))
    records = [of._replace(end=flushed.get(of.update), said="committed" if of.update in flushed else "unknown")
               for of in history if of.client.startswith("Writer") and of.update]
    found = anomalies([*records, *(of for of in history if of.client.startswith("Reader"))], end.flushed)
    keys: dict[str, str] = {}
    for e in actors.told:
        if e.op == "read":
            if e.key < keys.get(e.client, ""):
                found.append(f"read went back: {e.client} was given {e.key} after {keys[e.client]}")
            keys[e.client] = e.key
    return found


def of_compactions(actors: Actors, end: Final) -> list[str]:
    compacted = {*names_in(end.manifest.compacted)}
    return [f"lost compaction: {e.client} was told that {name} is compacted, and it is not" for e in actors.told
            if e.op == "compacted" for name in e.body.decode().split() if name not in compacted]


def of_epochs(actors: Actors, end: Final) -> list[str]:
    """Judge epochs: no two writers, and no two compactors, have one epoch, and the end has none that is smaller."""
    owners: dict[tuple[str, int], str] = {}
    found = []
    for e in actors.told:
        role, epoch = e.client.partition("#")[0], epoch_of(e)
        if epoch and owners.setdefault((role, epoch), e.client) != e.client:
            found.append(f"one epoch twice: {owners[role, epoch]} and {e.client} have epoch {epoch}")
    stored = {"Writer": end.manifest.writer_epoch,
              "Compactor": min(end.manifest.compactor_epoch, end.compactions.compactor_epoch)}
    return found + [f"lost epoch: {client} has epoch {epoch}, and in the end there is {stored[role]}"
                    for (role, epoch), client in owners.items() if epoch > stored[role]]


def epoch_of(e: Event) -> int:
    """Return the epoch in a response to the caller of a compactor's open, or of an append; 0 if there is none."""
    if e.op == "opened" and e.client.startswith("Compactor"):
        return int(e.body)
    return next((int(claim[len("epoch="):]) for claim in e.keys[len(CALL):] if claim.startswith("epoch=")), 0)


def of_checkpoints(actors: Actors, end: Final) -> list[str]:
    """Judge checkpoints: the file of each that is listed is there, and each that was taken for ever, and that nobody asked to
    drop or to end, is listed."""
    listed = {one.id for one in end.manifest.checkpoints}
    found = [f"lost checkpoint: the latest file lists {one.id} of id {one.manifest_id}, which is gone"
             for one in end.manifest.checkpoints if one.manifest_id not in end.ids[MANIFEST.name]]
    asked: dict[str, set[str]] = {}  # checkpoint -> what was asked for it
    for of in actors.history():
        what, _, rest = of.update.partition(" ")
        if of.client.startswith("Operator") and rest:
            asked.setdefault(rest.split()[0], set()).add(f"{what} {rest.partition(' ')[2]}".strip())
    for e in actors.told:
        id_ = e.body.decode()
        if e.op == "taken" and asked[id_] <= {"take 0", "renew 0"} and id_ not in listed:
            found.append(f"lost checkpoint: {e.client} was told that {id_} is taken, and it is not listed")
        if e.op == "dropped" and id_ in listed:
            found.append(f"resurrected checkpoint: {e.client} was told that {id_} is dropped, and it is listed")
    return found


def nothing_left(actors: Actors, end: Final) -> None:
    """Check that the last ones of each role, which nobody disturbed, left no work."""
    shape, manifest, compactions = actors.shape, end.manifest, end.compactions
    left = []
    if end.logged:
        left += [f"{end.logged} are not flushed"]
    if shape.compactors and (manifest.l0 or compactions.jobs):
        left += [f"{manifest.l0} are in L0, and {compactions.jobs} are claimed"]
    if shape.compactors and manifest.compactor_epoch != compactions.compactor_epoch:
        left += [f"the compactors' epochs are {manifest.compactor_epoch} and {compactions.compactor_epoch}"]
    if shape.operators and (ended := [one.id for one in manifest.checkpoints if one.name is None  # a pin may end later than all
                                      and not one.active(actors.kernel.now_ms - 2 * shape.skew_ms - shape.min_age_ms)]):
        left += [f"checkpoints {ended} have ended"]
    if shape.collectors:
        kept = {MANIFEST.name: manifest.referenced(), COMPACTIONS.name: frozenset(), WAL.name: frozenset()}
        for name, ids in end.ids.items():
            stale = [i for i in ids if i not in kept[name] and (
                i <= manifest.replay_after_wal_id if name == WAL.name else i != ids[-1])]
            left += [f"{name} {stale} are not collected"] if stale else []
    if left:
        raise Failure("liveness", "liveness:left", f"in the end {'; '.join(left)}")


# --- what a campaign should reach

MOMENTS = ("create conflict", "refused by the boundary", "id used twice", "epoch claimed and refused", "fence in the way",
           "fence collected", "WAL object gone in a replay", "append behind replay_after", "claim taken over",
           "compaction across a boundary advance")
BOUNDARIES = {MANIFEST.boundary_key: MANIFEST, COMPACTIONS.boundary_key: COMPACTIONS}


def namespace_of(key: str) -> Namespace | None:
    return next((of for of in (MANIFEST, COMPACTIONS, WAL) if key.startswith(of.prefix)), None)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    times: dict[str, int] = {}  # key -> how often it was created
    bodies: dict[str, bytes] = {}  # of WAL objects
    boundaries: dict[str, int] = {of.name: 0 for of in BOUNDARIES.values()}
    listed: dict[str, int] = {}  # compactor -> the boundary of the manifest at its last LIST of it
    last: dict[str, tuple[Event, bool]] = {}  # client -> its create or get of a file, just before; whether it claims an epoch
    claimed: dict[bytes, str] = {}
    epochs, replay_after = (0, 0), 0
    for e in events:
        if e.kind != "applied":
            if e.kind == "told" and e.op == "compacted" and claimed.get(e.body, e.client) != e.client:
                found.add("claim taken over")
            continue
        of, role = namespace_of(e.key), e.client.partition("#")[0]
        before, claims = last.pop(e.client, (None, False))
        if e.key in BOUNDARIES:
            where = BOUNDARIES[e.key]
            if e.op in ("create", "update") and e.status == 200:
                boundaries[where.name] = int(e.body)
            elif before and e.awaited and before.key.startswith(where.prefix) and (
                    where.file_id(before.key) or 0) <= boundaries[where.name]:
                found |= {"refused by the boundary"} if before.op == "create" else set()
                found |= {"epoch claimed and refused"} if claims else set()
        elif of is WAL:
            if e.op == "create" and e.status == 200:
                bodies[e.key] = e.body
                if e.body and e.awaited and (WAL.file_id(e.key) or 0) <= replay_after:
                    found.add("append behind replay_after")
            elif e.op == "create" and e.status == 412 and e.body and bodies.get(e.key) == FENCE:
                found.add("fence in the way")
            elif e.op == "delete" and bodies.pop(e.key, b"?") == FENCE:
                found.add("fence collected")
            elif e.op == "get" and e.status == 404 and role == "Writer":
                found.add("WAL object gone in a replay")
        elif of and e.op == "list" and of is MANIFEST:
            listed[e.client] = boundaries[of.name]
        elif of and e.op in ("create", "get"):
            last[e.client] = e, False
            if e.op == "create" and e.status == 412 and e.awaited:
                found.add("create conflict")
            if e.op == "create" and e.status == 200:
                times[e.key] = times.get(e.key, 0) + 1
                if times[e.key] > 1:
                    found.add("id used twice")
                if of is COMPACTIONS:
                    for job in compactions_json.decode(e.body).jobs:
                        claimed.setdefault(" ".join(names_in(job)).encode(), e.client)
                else:
                    manifest = DATABASE.decode(e.body)
                    replay_after = max(replay_after, manifest.replay_after_wal_id)
                    last[e.client] = e, manifest.writer_epoch > epochs[0] or manifest.compactor_epoch > epochs[1]
                    epochs = max(epochs[0], manifest.writer_epoch), max(epochs[1], manifest.compactor_epoch)
                    if role == "Compactor" and listed.get(e.client, 0) != boundaries[of.name]:
                        found.add("compaction across a boundary advance")
    return found


def boundary_broken(where: Namespace) -> dict[str, tampering.Breach]:
    """Return how the boundary of a sequence is broken."""
    def key_of(shape: Shape) -> str:
        return where.boundary_key

    return {f"boundary_{name}_of_{where.name}": breach for name, breach in {
        "lost": tampering.lost(key_of),
        "emptied": tampering.overwritten(key_of, lambda body: b""),
        "set_back": tampering.overwritten(key_of, tampering.halved),
        "set_ahead": tampering.overwritten(key_of, lambda body: b"%d" % (int(body) + 1000)),
    }.items()}


BREAKS = {**boundary_broken(MANIFEST), **boundary_broken(COMPACTIONS), "listing_repeats": tampering.lists("repeats"),
          "listing_never_ends": tampering.lists("never ends")}
MANY = {"compactors": 3, "compactions": 3, "flush_every": 1, "collectors": 2, "rounds": 6, "min_age_ms": 60}
FAR_APART = {"skew_ms": 2_000, **MANY}  # several times min_age and the lifetimes of checkpoints
RARE_BREAKS = [{"broken": name, "page_size": 2, **MANY} for name in (*BREAKS, *tampering.DAMAGE) if name != tampering.DAMAGED]


SCENARIO = Scenario(
    stem="database_metadata",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "appends"), "Compactor": ("compactors", "compactions"), "Reader": ("readers", "reads"),
           "Operator": ("operators", "changes"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Compactor", "Reader", "Operator", "Collector"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(writers=2, appends=1, compactors=1, compactions=1, readers=0, reads=0, operators=0, changes=0, collectors=1,
               rounds=1, flush_every=1, apart_ms=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Compactor": compactor, "Reader": reader, "Operator": operator, "Collector": collector},
    audit=(("Writer#0",), ("Compactor#0",), ("Operator#0",), ("Collector#0", "Reader#0")),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("opened", "not open", "committed", "fenced", "failed", "unknown", "flushed", "not flushed",
          "compacted", "nothing", "not compacted", "read", "not read",
          "taken", "renewed", "dropped", "ended", "not changed", "change unknown", UNFINISHED, "deleted", "not deleted"),
    moments=MOMENTS,
    moments_of=moments_of,
    cost={
        "writer, flush every 10": (BUSY := Shape(writers=1, appends=40, compactors=0, readers=0, operators=0, collectors=0,
                                                 flush_every=10, apart_ms=1, pause_ms=1, audit=False)),
        "writer and compactor": BUSY._replace(compactors=1, compactions=40),
        "all roles": BUSY._replace(compactors=1, compactions=40, operators=1, changes=10, collectors=1, rounds=20,
                                   min_age_ms=1_000),
    },
    breaks={**BREAKS, **tampering.DAMAGE},
    rare=(PATIENCE, PATIENCE, FAR_APART, {"broken": tampering.DAMAGED}, FAR_APART, *RARE_BREAKS),
    needs=("create", "update", "cache", "list"),
)
