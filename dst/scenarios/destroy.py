"""Simulate writers, clients with checkpoints, and operators that destroy the database, of impl/protocols/destroy.py.

traces/protocols/destroy.py judges them. A writer uploads an SST and puts it into the manifest. A client takes checkpoints of
the latest manifest and from others, as a clone does, and deletes its own and those of others. An operator marks the database
softly or hard, and finishes what is marked. All writers have one epoch, which the mark ends. With an audit the clients let go
of all checkpoints, and an operator finishes: then nothing of a marked database is left.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Cached, Draw, Scenario
from highwater.dst.scripts import destroy as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.destroyed import HARD, MARK, SOFT, mark_of
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, Definite, Indefinite
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import checkpoints, destroy
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.protocols.checkpoints_contents import MANIFEST, ROOT, checkpoint_name, short_name, sst_name
from highwater.traces.protocols.destroy import SEALED, WHERE, Trace, constants, refiner
from highwater.traces.protocols.destroy_calls import CALLS
from highwater.traces.refine import Failure, refiner_of
from highwater.traces.trace import update_of


class Codec(Cached):
    """The codec of manifests. What it encodes and decodes is cached for each process."""

    def __init__(self, codec: Any):
        super().__init__(codec)
        self.checkpoint, self.is_initialized = codec.checkpoint, codec.is_initialized


CODEC = Codec(DATABASE)
EPOCH = 1  # of all writers


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 1
    writes: int = 3
    clients: int = 1
    pins: int = 4
    operators: int = 2
    rounds: int = 4
    hard: int = 3  # one mark in so many is hard
    grace_ms: int = 60
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 2, "clients": 2, "operators": 3}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(1, 2, 0), writes=(3, 5), clients=(1, 2, 2, 0), pins=(4, 2, 6), operators=(2, 1, 3),
                       rounds=(4, 6), hard=(3, 1), grace_ms=(60, 1, 200), pause_ms=(60, 1, 200), page_size=(1000, 1000, 2),
                       chaos=(30, 5), audit=(True, False), skew_ms=(0, 50), store=("s3", "s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.grace_ms


def length(shape: Shape) -> int:
    return 6 * shape.writers * shape.writes + 5 * shape.clients * shape.pins + 14 * shape.operators * shape.rounds


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(*MOST.values())), WHERE, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape skew_ms={shape.skew_ms}"] if shape.skew_ms else []


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    manifests: MetadataStore
    epoch: int = EPOCH  # of a writer; 0: it compares none
    create: Callable = checkpoints.create
    delete: Callable = checkpoints.delete
    mark: Callable = destroy.mark
    finish: Callable = destroy.finish


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(MetadataStore(world, MANIFEST, CODEC, Policies(epoch="writer_epoch")))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), CODEC.encode(Manifest(writer_epoch=EPOCH)), 0)


def held(of: Committed | Recognised) -> str:
    return f"{MANIFEST.key(of.id)} {content(CODEC.encode(of.value))}"


# --- writers

async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        update = actors.name_update(client.name)
        new = sst_name(*update_of(update))
        try:
            await world.store.create(key_of_sst(ROOT, new), b"")
        except AlreadyExists:
            pass  # an earlier attempt uploaded it, and no manifest names it
        except (Definite, Indefinite):
            continue
        actors.begin(client, update)
        said = await said_by(CALLS, "commit", actors.in_time(client, commit(impl, new)), value=held)
        actors.end(client, said.told, body=update.encode() if said.told == "committed" else b"", keys=said.keys)


async def commit(impl: Impl, new: str) -> Committed | Recognised:
    async def decide(latest: int, m: Manifest) -> Put | Verdict:
        return Verdict(Recognised(latest, m)) if new in m.l0 else Put(m._replace(l0=(*m.l0, new)))

    return checkpoints.done(await impl.manifests.apply(decide, False, epoch=impl.epoch))


# --- clients

OPERATIONS = ("pin", "pin", "from", "drop", "drop")
WHICH = 3  # the other checkpoint of an operation is one of the last so many


async def client(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        if actors.auditing:
            await let_go(actors, client, impl)
            return
        drawn = OPERATIONS[actors.choose(f"{client.name}.operation", len(OPERATIONS))]
        others = known(actors)
        other = others[actors.choose(f"{client.name}.which", WHICH) % len(others)] if others else ""
        if drawn == "drop" and other:
            await operate(actors, client, "delete", other, impl.delete(impl.manifests, other))
        else:
            which = checkpoint_name(*update_of(actors.name_update(client.name)))
            source = other if drawn == "from" and other else None
            await operate(actors, client, "create", which, impl.create(impl.manifests, which, None, None, source))
        await actors.pause(client, world)


def known(actors: Actors) -> list[str]:
    """Return the checkpoints that anybody was told it has, the last one first."""
    return [checkpoint_name(*update_of(e.body.decode())) for e in reversed(actors.told)
            if e.op == "committed" and e.client.startswith("Client")][:WHICH]


async def operate(actors: Actors, client: Client, call: str, which: str, asked: Any) -> Said:
    actors.begin(client, f"{call} {short_name(which)}")
    said = await said_by(CALLS, call, actors.in_time(client, asked), value=held)
    actors.end(client, said.told, body=short_name(which).encode(), keys=said.keys)
    return said


async def let_go(actors: Actors, client: Client, impl: Impl) -> None:
    """Delete every checkpoint that is listed."""
    try:
        listed = await checkpoints.listed(impl.manifests)
    except (Definite, Indefinite):
        return  # the database is destroyed
    for one in listed:
        if one.id != MARK:
            await operate(actors, client, "delete", one.id, impl.delete(impl.manifests, one.id))


# --- operators

async def operator(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        if actors.auditing:
            await world.clock.sleep_ms(shape.grace_ms + 4 * shape.skew_ms + 1000)
        else:
            await actors.pause(client, world)
        drawn = actors.choose(f"{client.name}.operation", 3 * shape.hard)
        if not drawn and not actors.auditing:
            await ask(actors, client, "mark", impl.mark(impl.manifests, HARD))
        elif drawn < shape.hard and not actors.auditing:
            await ask(actors, client, "mark", impl.mark(impl.manifests, SOFT, shape.grace_ms))
        await ask(actors, client, "finish", impl.finish(impl.manifests, ROOT, 2 * shape.skew_ms))


async def ask(actors: Actors, client: Client, call: str, asked: Any) -> None:
    said = await said_by(CALLS, call, actors.in_time(client, asked), value=held, deleted=deleted)
    actors.tell(client, said.told, b"", keys=said.keys)


def deleted(keys: list[str]) -> str:
    return " ".join(sorted({*keys}))


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check in the store that checkpoints which nobody let go keep what they name, and that what is destroyed is gone."""
    store, shape = actors.store, actors.shape
    bodies = {i: of[0].body for key, of in store.objects.items()
              if key.startswith(MANIFEST.prefix) and (i := MANIFEST.file_id(key)) is not None}
    boundary = store.objects.get(MANIFEST.boundary_key)
    sealed = boundary is not None and boundary[0].body == SEALED
    let_go = {old.update.partition(" ")[2] for old in actors.history() if old.update.startswith("delete ")}
    pins = {e.body.decode() for e in actors.told if e.op == "committed" and e.client.startswith("Client")} - let_go
    if pins and (sealed or not bodies):
        raise Failure("safety", "history:pinned is deleted", f"checkpoint {min(pins)} was taken, and the database is destroyed")
    if any(e.op == "destroyed" for e in actors.told) and not sealed:
        raise Failure("safety", "history:no tombstone", "the database was destroyed, and its boundary lets creates pass")
    if not sealed:
        check_whole(store, bodies)
    if shape.audit and shape.operators and not shape.broken:
        nothing_left(store, bodies, sealed)


def check_whole(store: SimulatedStore, bodies: dict[int, bytes]) -> None:
    """Check that the latest manifest has its SSTs, and the manifests that its checkpoints name."""
    if not bodies:
        raise Failure("safety", "history:manifest gone", "there is no manifest, and no tombstone")
    latest = CODEC.decode(bodies[max(bodies)])
    for i in sorted({max(bodies), *latest.referenced()}):
        if i not in bodies:
            raise Failure("safety", "history:manifest gone", f"a checkpoint names manifest {i}, which is gone")
        for sst in sorted(CODEC.decode(bodies[i]).named_ssts):
            if key_of_sst(ROOT, sst) not in store.objects:
                raise Failure("safety", "history:sst gone", f"manifest {i} names SST {sst}, which is gone")


def nothing_left(store: SimulatedStore, bodies: dict[int, bytes], sealed: bool) -> None:
    """Check that nothing is left of a database that is sealed, or marked without a checkpoint."""
    latest = CODEC.decode(bodies[max(bodies)]) if bodies else Manifest()
    marked = mark_of(latest) is not None and len(latest.checkpoints) == 1
    if (sealed or marked) and (rest := [key for key in store.keys if key != MANIFEST.boundary_key]):
        raise Failure("liveness", "liveness:destroyed stays", f"{rest[0]} is left, and nobody is at work")


# --- what a campaign should reach

def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    sealed = gone = False
    for e in events:
        if e.kind == "told":
            found |= {{"pinned": "checkpoint in the way", "waits": "grace runs", "refused": "checkpoint refused",
                       "fenced": "writer fenced", "destroyed": "destroyed"}.get(e.op, "")} - {""}
            gone = gone or e.op == "destroyed"
        elif e.kind == "applied" and e.key == MANIFEST.boundary_key and e.body == SEALED:
            sealed = True
        elif e.kind == "applied" and e.op == "create" and e.status == 200 and sealed:
            found.add("late manifest" if e.key.startswith(MANIFEST.prefix) else "late upload")
    return found


BUSY = Shape(writers=1, writes=20, clients=0, operators=0, pause_ms=1, audit=False)


SCENARIO = Scenario(
    stem="destroy",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "writes"), "Client": ("clients", "pins"), "Operator": ("operators", "rounds")},
    most=MOST,
    optional=("Writer", "Client"),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writers=1, writes=1, clients=1, pins=1, operators=1, rounds=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Client": client, "Operator": operator},
    audit=(("Client#0",), ("Operator#0",)),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "dropped", "missing", "ended", "refused", "unknown", "failed", "fenced", "marked", "pinned", "destroyed",
          "waits", "not marked"),
    moments=("checkpoint in the way", "grace runs", "checkpoint refused", "writer fenced", "destroyed", "late manifest",
             "late upload"),
    moments_of=moments_of,
    cost={"one writer": BUSY},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
