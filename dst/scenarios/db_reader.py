"""Simulate readers of a database, a writer that flushes and compacts, and collectors, of impl/protocols/db_reader.py.

traces/protocols/db_reader.py judges them. The writer puts WAL objects with one row each, flushes them into SSTs, and puts one
SST in the place of all others. The collector is that of impl/protocols/database_gc.py. A reader opens, begins scans, and ends
them later, while its poller and its refresher run beside it as tasks. With an audit a reader opens once more, and must see each
row.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Draw, Scenario
from highwater.dst.scripts import db_reader as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.rows import Row, decode_rows, encode_rows
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import named, newest_l0
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, UpdateConflict
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import database_gc, database_metadata
from highwater.impl.protocols.database_gc import Options as GcOptions
from highwater.impl.protocols.database_gc import Plan
from highwater.impl.protocols.database_gc_uploads import upload
from highwater.impl.protocols.db_reader import DbReader, Options, Scan
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World, list_all
from highwater.traces.event import Event
from highwater.traces.protocols.db_reader import COMPACTIONS, KEYS, MANIFEST, ROOT, SSTS, WAL, Trace, constants, refiner
from highwater.traces.protocols.db_reader_calls import CALLS
from highwater.traces.refine import Failure, refiner_of


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 1
    writes: int = 8
    readers: int = 1
    scans: int = 4
    collectors: int = 1
    rounds: int = 4
    poll_ms: int = 60
    lifetime_ms: int = 600  # of a reader's checkpoints
    memtable_bytes: int = 40
    min_age_ms: int = 60
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 1, "readers": 2, "collectors": 2}  # what the model is made for
FEW = 4  # keys


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writes=(8, 4, 12), readers=(1, 2), scans=(4, 2, 6), collectors=(1, 2, 0), rounds=(4, 2, 8),
                       poll_ms=(60, 20, 150), lifetime_ms=(600, 320, 2000), memtable_bytes=(40, 1, 1000),
                       min_age_ms=(20, 1, 60), pause_ms=(60, 1, 200), page_size=(1000, 1000, 2), chaos=(30, 5),
                       audit=(True, False), skew_ms=(0, 50, 400), store=("s3", "s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.poll_ms, shape.lifetime_ms


def length(shape: Shape) -> int:
    return 8 * shape.writers * shape.writes + 40 * shape.readers * shape.scans + 16 * shape.collectors * shape.rounds


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(*MOST.values())), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape skew_ms={shape.skew_ms}"] if shape.skew_ms else []


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    stores: Stores
    reader: type[DbReader] = DbReader
    collect: Callable[..., Awaitable[Plan]] = database_gc.collect


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(database_metadata.stores_of(world, ROOT))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), DATABASE.encode(Manifest()), 0)
    store.put(COMPACTIONS.key(FIRST_ID), compactions_json.encode(Compactions()), 0)


def row_of(i: int) -> Row:
    """Return the row in WAL object `i`."""
    return Row(i, f"k{i % FEW}", f"v{i}" if i % 5 else None)


# --- the writer

WRITES = ("append", "append", "append", "append", "flush", "flush", "compact")


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    stores, logged = actors.build(world, actors.shape, number).stores, list[int]()
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        what = WRITES[actors.choose(f"{client.name}.write", len(WRITES))]
        lag = actors.choose(f"{client.name}.lag", 3) if what == "flush" else 0
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            "append": lambda: append(world, stores, logged), "flush": lambda lag=lag: flush(world, stores, logged, lag),
            "compact": lambda: compact(world, stores)}
        said = await said_by(CALLS, what, actors.in_time(client, asked[what]()))
        actors.tell(client, said.told, b"%d" % said.value if said.told == "logged" else b"", keys=said.keys)


async def append(world: World, stores: Stores, logged: list[int]) -> int:
    """Put the next WAL object; return its id. `logged` has the ids of this writer's life. Its fences are another protocol."""
    if not logged:
        ids = [WAL.file_id(entry.key) or 0 for entry in await list_all(world.store, WAL.prefix)]
        logged.append(max((*ids, (await stores.manifest.current()).value.last_l0_seq)))
    i = logged[-1] + 1
    while True:
        try:
            await world.store.create(WAL.key(i), encode_rows([row_of(i)]))
        except OutcomeUnknown:
            continue  # nothing is put behind it before it is there
        except AlreadyExists:
            pass
        logged.append(i)
        return i


async def flush(world: World, stores: Stores, logged: list[int], lag: int) -> str:
    """Put an SST with the rows that no other has; return its name, or "". The WAL is replayed from `lag` rows before its end.
    """
    manifest = (await stores.manifest.current()).value
    upto, last = manifest.last_l0_seq, max(logged, default=0)
    if last <= upto:
        return ""
    sst = await upload(world, ROOT, newest_l0(manifest), encode_rows(map(row_of, range(upto + 1, last + 1))))
    await replace(stores, sst, named(manifest), lambda m: m._replace(
        l0=(*m.l0, sst), last_l0_seq=last, replay_after_wal_id=max(m.replay_after_wal_id, last - lag)))
    return sst


async def compact(world: World, stores: Stores) -> str:
    """Put an SST in the place of all others; return its name, or ""."""
    manifest = (await stores.manifest.current()).value
    inputs, rows = named(manifest), list[Row]()
    for sst in sorted(inputs):
        rows += decode_rows((await world.store.get(key_of_sst(ROOT, sst))).body)
    if not inputs:
        return ""
    sst = await upload(world, ROOT, newest_l0(manifest), encode_rows(sorted(rows)))
    await replace(stores, sst, inputs, lambda m: m._replace(l0=(), compacted=(sst,), last_compacted_l0_sst_id=newest_l0(m)))
    return sst


async def replace(stores: Stores, sst: str, inputs: frozenset[str], change: Callable[[Manifest], Manifest]) -> None:
    """Change the SSTs of the manifest, if they are still `inputs`. Raises UpdateConflict."""
    await stores.manifest.update_recognised(
        lambda m: sst in named(m) or (named(m) != inputs and UpdateConflict(f"{sst} is of other SSTs")), lambda _, m: change(m))


# --- readers

async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await world.clock.sleep_ms(1 + shape.skew_ms)  # until no clock is before 1970: an expiry of 0 means never
    instance = None
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        if instance is None:
            instance = await opened(actors, client, impl)
        if instance is None:
            continue
        scan: Scan = instance.scan()
        actors.tell(client, "scanning", scan.view.checkpoint.encode())
        if not actors.auditing:
            await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.scan", 2 * shape.poll_ms))
        said = await said_by(CALLS, "rows", actors.in_time(client, scan.rows()), rows=counted)
        scan.end()
        if not shape.broken:
            check_rows(said)
        actors.tell(client, said.told, b"" if said.told == "not read" else scan.view.checkpoint.encode(), keys=said.keys)
        if actors.auditing:
            check_audit(actors, said)
    if instance is not None:
        await instance.close()
        actors.tell(client, "closed", b"")


async def opened(actors: Actors, client: Client, impl: Impl) -> DbReader | None:
    """Open a reader; return None if that failed, and nobody breaks the database."""
    shape = actors.shape
    instance = impl.reader(impl.stores.manifest, ROOT, Options(shape.poll_ms, shape.lifetime_ms, shape.memtable_bytes, 8))
    said = await said_by(CALLS, "open", actors.in_time(client, instance.open()))
    actors.tell(client, said.told, said.value.checkpoint.encode() if said.value else b"", keys=said.keys)
    if said.value is not None:
        return instance
    if actors.auditing and not shape.broken:
        raise Failure("liveness", "liveness:open", f"{client.name} was told {said.told!r}, with nobody else at work")
    return None


def counted(rows: list[Row]) -> str:
    """Return the number of rows, if they are the first ones, each once; else their numbers."""
    seqs = [row.seq for row in rows]
    return str(len(seqs)) if seqs == [*range(1, len(seqs) + 1)] else ",".join(map(str, seqs))


def check_rows(said: Said) -> None:
    """Check what a caller can: the rows are the log up to some row, each once, with the right values."""
    if said.value is None:
        return
    wrong = [row for at, row in enumerate(said.value, 1) if row != row_of(at)]
    raise_anomalies([f"wrong row: row {at} of a scan is {row}" for at, row in enumerate(said.value, 1) if row in wrong][:1])


def check_audit(actors: Actors, said: Said) -> None:
    """Check that a scan, which nobody disturbs, has each row that is logged."""
    last = max((int(e.body) for e in actors.told if e.op == "logged"), default=0)
    if not actors.shape.broken and (said.value is None or len(said.value) < last):
        raise Failure("liveness", "liveness:scan", f"the last scan was told {said.told!r}, and {last} rows are logged")


# --- collectors

async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    options = GcOptions(shape.min_age_ms)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(pause_ms(actors, client)), lambda: said_by(
        CALLS, "collect", actors.in_time(client, impl.collect(impl.stores, ROOT, options)), deleted=deleted))


def pause_ms(actors: Actors, client: Client) -> int:
    return actors.shape.min_age_ms // 2 + 1 + actors.choose(f"{client.name}.pause", 2 * actors.shape.min_age_ms)


def deleted(of: Plan) -> str:
    """Return the keys that a round has deleted."""
    ids = ((MANIFEST, of.manifests), (COMPACTIONS, of.compactions), (WAL, of.wal))
    files = [where.key(i) for where, those in ids for i in those]
    return " ".join(sorted((*files, *(key_of_sst(ROOT, sst) for sst in of.ssts))))


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check what callers saw: a reader never shows less than it has shown in the same life."""
    seen: dict[str, int] = {}
    for e in actors.told if not actors.shape.broken else ():
        if e.op in ("opened", "not open", "closed"):
            seen.pop(e.client, None)
        elif e.op == "scanned":
            rows = next((int(value) for name, _, value in (key.partition("=") for key in e.keys[3:]) if name == "rows"), 0)
            if rows < seen.get(e.client, 0):
                raise_anomalies([f"went back: {e.client} has shown {seen[e.client]} rows, and then {rows}"])
            seen[e.client] = rows


# --- what a campaign should reach

def moments_of(events: list[Event], shape: Shape) -> set[str]:
    reached = set[str]()
    for e in events:
        _, _, task = e.client.partition("/")
        if e.kind == "told":
            reached |= {"checkpoint lost"} if e.op == "lost" else set()
        elif e.kind == "applied" and e.op == "delete" and e.status == 204:
            reached |= {f"{name} collected" for name, prefix in PREFIXES.items() if e.key.startswith(prefix)}
        elif e.kind == "applied" and e.op == "create" and e.status == 200 and e.key.startswith(MANIFEST.prefix) and task:
            reached.add("refreshed" if task == "refresher" else "taken or released")
    return reached


PREFIXES = {"SST": SSTS, "WAL object": WAL.prefix}
BUSY = Shape(writes=20, scans=10, collectors=0, rounds=0, poll_ms=100, lifetime_ms=1000, pause_ms=200, audit=False)

SCENARIO = Scenario(
    stem="db_reader",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "writes"), "Reader": ("readers", "scans"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Collector",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writes=2, scans=1, collectors=0, rounds=0, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Reader": reader, "Collector": collector},
    audit=(("Writer#0",), ("Reader#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("logged", "not logged", "flushed", "not flushed", "flush unknown", "compacted", "not compacted", "compaction unknown",
          "opened", "not open", "scanning", "scanned", "lost", "not read", "closed", "deleted", "not deleted"),
    moments=("checkpoint lost", "SST collected", "WAL object collected", "refreshed", "taken or released"),
    moments_of=moments_of,
    cost={},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
