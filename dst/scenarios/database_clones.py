"""Simulate a database and its clones, each with writers, compactors, readers, operators and collectors of its own, while
cloners clone and detachers detach: impl/protocols/database_clones.py.

traces/protocols/database_clones.py judges them. The clients of a database are those of dst/scenarios/database_metadata.py, and
cloners and detachers those of dst/scenarios/clones.py. Here they work on the same manifests. A client of a clone waits until
the clone is initialized. Database 2 is a clone of the clone in some runs, and a second clone in the others.

With an audit the first client of each database works last, undisturbed: a writer must serve every acknowledged record.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, raise_anomalies, said_by
from highwater.dst.scenario import PATIENCE, STORES, BaseShape, Cached, Draw, Scenario
from highwater.dst.scenarios import clones as cloning
from highwater.dst.scenarios import database_metadata as database
from highwater.dst.scripts import database_clones as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.database import CLONED
from highwater.impl.codecs.json.wal import decode_record
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.layout import Namespace
from highwater.impl.protocols import clones, database_clones, database_metadata
from highwater.impl.protocols.database_clones import MergingCompactor
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.cloned.contents import COMPACTIONS, ROOT_OF, parts_in
from highwater.traces.protocols.clones_contents import MANIFESTS, ROOTS, WALS
from highwater.traces.protocols.database_clones import KEYS, Constants, Trace, refiner
from highwater.traces.protocols.database_clones_calls import CALLS
from highwater.traces.refine import Failure, refiner_of


class Form(Cached):
    """The codec of the manifests. What it encodes and decodes is cached for each process."""

    def __init__(self):
        super().__init__(CLONED)
        self.checkpoint, self.is_initialized = CLONED.checkpoint, CLONED.is_initialized


CODEC = Form()
FIRST = len(ROOTS)  # of each role the first one of each database works last, if there is an audit


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given. The client with number i works on database ROOT_OF[i]."""

    writers: int = 6
    appends: int = 3
    compactors: int = 5
    compactions: int = 2
    readers: int = 2
    reads: int = 2
    operators: int = 2
    changes: int = 3
    collectors: int = 3
    rounds: int = 3
    cloners: int = 2
    clones: int = 4
    detachers: int = 1
    detaches: int = 2
    nested: bool = True  # database 2 is cloned from database 1, and not from 0
    flush_every: int = 2  # appends; 0: never
    replay_flush: int = 0  # records flushed at a time during a replay; 0: none
    attempts: int = 5  # of a writer's request whose outcome stays unknown, or of a read without an answer
    pin_ms: int = 0  # the lifetime of a compactor's pin; 0: it takes none
    lifetime_ms: int = 2000  # of a cloner's checkpoint
    min_age_ms: int = 60
    apart_ms: int = 300  # an instance opens at most this late
    pause_ms: int = 60  # between two operations of a client, at most
    habit: str = ""  # of cloners: one of HABITS or ORDERED


MOST = {"writers": 8, "compactors": 8, "readers": 3, "operators": 3, "collectors": 3, "cloners": 2, "detachers": 1}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(6, 5, 8), appends=(3, 2, 4), compactors=(5, 6, 3), compactions=(2, 1, 3), readers=(2, 0),
                       reads=(2, 4), operators=(2, 1, 3, 0), changes=(3, 2, 5), collectors=(3, 2, 3), rounds=(4, 3, 8),
                       cloners=(2, 1), clones=(4, 3, 6), detachers=(1, 1, 0), detaches=(3, 2), nested=(True, False),
                       flush_every=(1, 2, 0), replay_flush=(0, 0, 1), attempts=(5, 2), pin_ms=(0, 300, 900_000),
                       lifetime_ms=(2000, 500, 9000), min_age_ms=(60, 1, 150), apart_ms=(300, 1, 1000), pause_ms=(60, 1, 300),
                       habit=("", "restarts", "ends", "holds"), chaos=(30, 5), audit=(True, False), skew_ms=(0, 50),
                       store=("s3", "s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.lifetime_ms


def length(shape: Shape) -> int:
    return (shape.writers * (15 + 6 * shape.appends) + shape.compactors * (12 + 14 * shape.compactions)
            + 3 * shape.readers * shape.reads + 4 * shape.operators * shape.changes + 20 * shape.collectors * shape.rounds
            + 12 * shape.cloners * shape.clones + 12 * shape.detachers * shape.detaches)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, Constants(shape.nested, *MOST.values())), KEYS, shape.skew_ms, shape.pin_ms > 0)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape nested={shape.nested}", *[f"--shape pin_ms={shape.pin_ms}"] * bool(shape.pin_ms)]


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace.

    `open(stores, root, world, flush_every)`, `compactor(stores, root, pin_ms=)`, `collect(stores, root, age)`. The
    others are as in the scenarios of database_metadata and clones."""

    stores: Callable[[str], Stores]  # of the database at a root
    open: Callable[..., Awaitable[Any]]
    compactor: Callable[..., MergingCompactor] = MergingCompactor
    take: Callable = database_metadata.take_checkpoint
    renew: Callable = database_metadata.renew_checkpoint
    drop: Callable = database_metadata.drop_checkpoint
    collect: Callable = database_clones.collect
    clone: Callable = clones.clone
    detach: Callable = clones.detach
    create: Callable = database_clones.take_seen
    initialized: Callable = clones.opened


def production(world: World, shape: Shape, number: int) -> Impl:
    of = {root: database_clones.stores_of(world, root, CODEC) for root in ROOTS}
    return Impl(of.__getitem__, partial(database_clones.open, attempts=shape.attempts))


def begin(store: SimulatedStore, shape: Shape) -> None:
    """Make the root. The compactions of a clone begin empty, so they are there from the beginning."""
    store.put(MANIFESTS[0].key(FIRST_ID), CODEC.encode(Manifest(initialized=True)), 0)
    for of in COMPACTIONS:
        store.put(of.key(FIRST_ID), compactions_json.encode(Compactions()), 0)


# --- the clients of a database

class OfDatabase:
    """The actors of a run, as clients of one of its databases see them: with other clients built."""

    def __init__(self, actors: Actors, build: Callable[..., Any]):
        self.actors, self.build = actors, build

    def __getattr__(self, name: str) -> Any:
        return getattr(self.actors, name)


def of_database(actors: Actors, d: int) -> Any:
    """Return actors whose clients are those of database `d`, in the form of dst/scenarios/database_metadata.py."""
    def build(world: World, shape: Shape, number: int) -> database.Impl:
        impl, root = actors.build(world, shape, number), ROOTS[d]
        stores = impl.stores(root)
        return database.Impl(
            stores, lambda _, __, **more: impl.open(stores, root, world, **more),
            lambda _, pin_ms: impl.compactor(stores, root, pin_ms=pin_ms), impl.take, impl.renew, impl.drop,
            lambda _, __, min_age_ms: impl.collect(stores, root, min_age_ms))

    return OfDatabase(actors, build)


LOOKS, LOOK_MS = 8, 500  # how often a client looks for its clone, and the pause between


async def is_there(actors: Actors, client: Client, world: World, number: int) -> bool:
    """Wait until the client's database is initialized; return whether it is."""
    d = ROOT_OF[number]
    impl = actors.build(world, actors.shape, number)
    for _ in range(LOOKS if d else 0):
        try:
            await impl.initialized(impl.stores(ROOTS[d]).manifest)
            return True
        except (Definite, Indefinite):
            if actors.auditing:
                return False
            await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.looks", LOOK_MS))
    return not d


def working(work: Callable[..., Any], one_life: bool) -> Callable[..., Any]:
    """Return the work of a client of one database. `one_life`: it does not come back after a crash, even if it only waits, and
    the first one of each database works last in an audit."""
    async def works(actors: Actors, client: Client, world: World, number: int) -> None:
        if one_life and actors.shape.audit and number < FIRST and not actors.auditing:
            return
        times = actors.left[client.name]
        if one_life:
            actors.left[client.name] = 0
        if times and await is_there(actors, client, world, number):
            actors.left[client.name] = times
            await work(of_database(actors, ROOT_OF[number]), client, world, number)

    return works


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    """Collect a database, also while it is being cloned."""
    of, d = of_database(actors, ROOT_OF[number]), ROOT_OF[number]
    impl = of.build(world, actors.shape, number)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(database.pause_ms(actors, client)), lambda: said_by(
        CALLS, "collect", actors.in_time(client, impl.collect(impl.stores, "", actors.shape.min_age_ms)),
        deleted=partial(deleted, d)))


def deleted(d: int, ids: database_clones.Deleted) -> str:
    """Return the keys that a round has deleted."""
    manifests, compactions, wal, ssts = ids
    files = [of[d].key(i) for of, those in ((MANIFESTS, manifests), (COMPACTIONS, compactions), (WALS, wal)) for i in those]
    return " ".join(sorted([*files, *(database_clones.key_of(ROOTS[d], sst) for sst in ssts)]))


# --- cloners and detachers

def of_clones(actors: Actors) -> Any:
    """Return actors whose clients are those of dst/scenarios/clones.py."""
    def build(world: World, shape: Shape, number: int) -> cloning.Impl:
        impl = actors.build(world, shape, number)
        return cloning.Impl(lambda root: impl.stores(root).manifest, impl.clone, impl.detach, impl.initialized, impl.create)

    return OfDatabase(actors, build)


async def cloner(actors: Actors, client: Client, world: World, number: int) -> None:
    await cloning.cloner(of_clones(actors), client, world, number)


async def detacher(actors: Actors, client: Client, world: World, number: int) -> None:
    await cloning.detacher(of_clones(actors), client, world, number)


# --- when the faults have stopped

class Final(NamedTuple):
    """The content of one database at the end."""

    manifest: Manifest
    records: tuple[str, ...]  # the names of those that are flushed, and then of those in the WAL, which a writer would replay


def final(store: SimulatedStore, d: int) -> Final | None:
    """Return the content of a database; None if it is not there, or is not initialized."""
    keys = sorted(key for key in store.keys if key.startswith(MANIFESTS[d].prefix))
    manifest = CODEC.decode(store.objects[keys[-1]][0].body) if keys else Manifest()
    if not manifest.initialized:
        return None
    logged, i = [], manifest.replay_after_wal_id + 1
    while WALS[d].key(i) in store.objects:
        record = decode_record(store.objects[WALS[d].key(i)][0].body)
        logged += [record.body.decode()] if record else []
        i += 1
    flushed = database.names_in(parts_in((*manifest.compacted, *manifest.l0)))
    return Final(manifest, (*flushed, *logged))


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check in the store that what an initialized database names is there, and what callers were told against the end."""
    store = actors.store
    ends = {d: end for d in range(len(ROOTS)) if (end := final(store, d))}
    if 0 not in ends:
        raise Failure("safety", "history:nothing left", "there is no manifest of the root left")
    for d, end in ends.items():
        check_named(store, d, end.manifest)
        raise_anomalies(of_log(actors, d, end))
    check_cloned(actors, events, ends)
    check_copies(events)


def check_named(store: SimulatedStore, d: int, latest: Manifest) -> None:
    """Check that the latest manifest and those of its checkpoints name only what is there."""
    check_ssts(store, d, latest)
    for one in latest.checkpoints:
        found = store.objects.get(MANIFESTS[d].key(one.manifest_id))
        if found is None:
            raise Failure("safety", "history:manifest gone", f"{one.id} of {ROOTS[d]} names a manifest that is gone")
        of = CODEC.decode(found[0].body)
        check_ssts(store, d, of)
        for i in range(of.replay_after_wal_id + 1, of.wal_id_last_seen + 1):
            if WALS[d].key(i) not in store.objects:
                raise Failure("safety", "history:rows gone", f"{one.id} of {ROOTS[d]} has seen WAL object {i}, which is gone")


def check_ssts(store: SimulatedStore, d: int, manifest: Manifest) -> None:
    wanted = [(ROOTS[d], sst) for sst in sorted(manifest.named_ssts)]
    names = frozenset(manifest.all_ssts)
    wanted += [(of.path, sst) for of in manifest.external_dbs for sst in of.sst_ids if sst in names]
    if missing := [key for key in (database_clones.key_of(*one) for one in wanted) if key not in store.objects]:
        raise Failure("safety", "history:sst gone", f"{ROOTS[d]} names {missing[0]}, which is gone")


def of_log(actors: Actors, d: int, end: Final) -> list[str]:
    """Judge appends and opens of a database. What its ancestors' writers have appended may be in it."""
    said = {"opened": "read", "fenced": "failed"}
    found = []
    for of in actors.history():
        role, _, number = of.client.partition("#")
        if role == "Writer" and ROOT_OF[int(number)] == d:
            found.append(of._replace(said=said.get(of.said, of.said)))
        elif role == "Writer" and of.update:
            found.append(of._replace(end=None, said="unknown"))
    return anomalies(found, end.records)


def check_cloned(actors: Actors, events: list[Event], ends: dict[int, Final]) -> None:
    """Check that a clone has each acknowledged record that was in the WAL up to the last object that its source had seen."""
    acked = {of.update for of in actors.history() if of.client.startswith("Writer") and of.said == "committed"}
    for d, end in ends.items():
        first = next((CODEC.decode(e.body) for e in events if d and e.op == "create" and e.status == 200
                      and e.key.startswith(MANIFESTS[d].prefix) and CODEC.decode(e.body).initialized), None)
        if first is None:
            continue
        parent = Namespace(first.external_dbs[0].path, "wal")
        for i, record in first_written(events, parent).items():
            if i <= first.wal_id_last_seen and record in acked and record not in end.records:
                raise Failure("safety", "history:record not cloned", f"{ROOTS[d]} was cloned from a source that has seen WAL "
                              f"object {i} with {record}, and does not have it")


def first_written(events: list[Event], wal: Namespace) -> dict[int, str]:
    """Return what was first put under each id of a WAL: the name of its record."""
    found: dict[int, str] = {}
    for e in events:
        if e.kind == "applied" and e.op == "create" and e.status == 200 and e.key.startswith(wal.prefix):
            record = decode_record(e.body)
            found.setdefault(wal.file_id(e.key) or 0, record.body.decode() if record else "")
    return found


def check_copies(events: list[Event]) -> None:
    """Check that no WAL object was overwritten."""
    for e in events:
        if e.kind == "applied" and e.op in ("put", "update") and e.status == 200 and "/wal/" in e.key:
            raise Failure("safety", "history:overwritten", f"{e.client} has overwritten {e.key}")


MOMENTS = ("cloned", "detached", "sst collected", "clone compacted", "clone appended", "wal copied", "nested clone")


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    for e in events:
        if e.kind == "told":
            found |= {e.op} & {"cloned", "detached"}
            if e.op == "cloned" and e.body == ROOTS[2].encode() and shape.nested:
                found.add("nested clone")
            if e.op == "compacted" and ROOT_OF[int(e.client.partition("#")[2])]:
                found.add("clone compacted")
            if e.op == "committed" and ROOT_OF[int(e.client.partition("#")[2])]:
                found.add("clone appended")
        elif e.kind == "applied" and e.op == "delete" and e.status == 204 and "/compacted/" in e.key:
            found.add("sst collected")
        elif e.kind == "applied" and e.op == "create" and e.status == 200 and "/wal/" in e.key:
            found |= {"wal copied"} if e.client.startswith("Cloner") else set()
    return found


SCENARIO = Scenario(
    stem="database_clones",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "appends"), "Compactor": ("compactors", "compactions"), "Reader": ("readers", "reads"),
           "Operator": ("operators", "changes"), "Collector": ("collectors", "rounds"), "Cloner": ("cloners", "clones"),
           "Detacher": ("detachers", "detaches")},
    most=MOST,
    optional=("Compactor", "Reader", "Operator", "Collector", "Detacher"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(writers=2, appends=1, compactors=1, compactions=1, readers=0, reads=0, operators=0, changes=0, collectors=1,
               rounds=1, cloners=1, clones=1, detachers=0, detaches=0, flush_every=1, apart_ms=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": working(database.writer, True), "Compactor": working(database.compactor, True),
          "Reader": working(database.reader, False), "Operator": working(database.operator, False), "Collector": collector,
          "Cloner": cloner, "Detacher": detacher},
    audit=(("Cloner#0",), ("Writer#0", "Writer#1", "Writer#2"), ("Compactor#0", "Compactor#1", "Compactor#2"),
           ("Operator#0",), ("Detacher#0",), ("Collector#0", "Collector#1", "Collector#2")),
    share=0.2,
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=(*database.SCENARIO.told, "cloned", "not cloned", "detached", "not detached", "missing"),
    moments=MOMENTS,
    moments_of=moments_of,
    cost={},
    model="database_metadata",
    rare=(PATIENCE, PATIENCE),
    needs=("create", "update", "cache", "list"),
)
