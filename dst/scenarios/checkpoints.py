"""Simulate clients that take, renew and delete checkpoints, compactors, and collectors, of impl/protocols/checkpoints.py.

traces/protocols/checkpoints.py judges them. A client creates checkpoints of the latest manifest and from others, refreshes and
deletes its own and those of others, and lists them. An operation whose outcome is unknown is called again with the same id,
until its client gives up. A compactor uploads an SST, and puts it beside the others in the manifest, or in the place of one.
The manifests are in this repository's JSON form, or in SlateDB's V1 or V2. With an audit a collector leaves no checkpoint that
has ended.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Cached, Draw, Scenario
from highwater.dst.scripts import checkpoints as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import Sst, SstInfo, View
from highwater.impl.errors import AlreadyExists, Definite, Indefinite
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.calls import UNFINISHED, content
from highwater.traces.event import Event
from highwater.traces.protocols.checkpoints import Trace, constants, refiner
from highwater.traces.protocols.checkpoints_calls import CALLS
from highwater.traces.protocols.checkpoints_contents import (
    KEYS,
    MANIFEST,
    ROOT,
    checkpoint_name,
    decoded,
    ends_ms,
    short_name,
    sst_name,
)
from highwater.traces.refine import Failure, refiner_of
from highwater.traces.trace import update_of


class OneForm(Cached):
    """A codec of manifests. What it encodes and decodes is cached for each process."""

    def __init__(self, codec: Any):
        super().__init__(codec)
        self.checkpoint, self.is_initialized = codec.checkpoint, codec.is_initialized


FORMS = {"json": OneForm(DATABASE), "v1": OneForm(ManifestCodec(Phase.WRITE_V1)), "v2": OneForm(ManifestCodec(Phase.WRITE_V2))}


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    clients: int = 2
    ops: int = 4
    compactors: int = 1
    replaces: int = 3
    collectors: int = 1
    rounds: int = 3
    form: str = "json"  # of the manifests: a name in FORMS
    lifetime_ms: int = 120  # of a short lease; the others are three times as long, or never end
    min_age_ms: int = 60
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"clients": 3, "compactors": 2, "collectors": 2}  # what the model is made for
IN_SECONDS = 10  # leases of SlateDB's forms last so many times longer, because they are whole seconds


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, clients=(2, 1, 3), ops=(4, 3, 6), compactors=(1, 2, 0), replaces=(3, 5), collectors=(1, 2, 2, 0),
                       rounds=(3, 5), form=("json", "json", "v1", "v2"), lifetime_ms=(120, 30, 400), min_age_ms=(60, 1, 150),
                       pause_ms=(60, 1, 300), page_size=(1000, 1000, 2), chaos=(30, 5), audit=(True, False), skew_ms=(0, 50),
                       store=("s3", "s3", "s3", *STORES))


def lease_ms(shape: Shape) -> int:
    return shape.lifetime_ms if shape.form == "json" else IN_SECONDS * shape.lifetime_ms


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, lease_ms(shape)


def length(shape: Shape) -> int:
    return (5 * shape.clients * shape.ops + 6 * shape.compactors * shape.replaces
            + 16 * shape.collectors * shape.rounds)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(*MOST.values())), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape skew_ms={shape.skew_ms}"] if shape.skew_ms else []


def swapped(shape: Shape, new: str, at: int, _: int, m: Manifest) -> Manifest:
    """Return the next manifest, with a new SST in the place of the old one, or beside the others if there is none such."""
    if shape.form == "json":
        return m._replace(l0=(*m.l0[:at], new, *m.l0[at + 1:]))
    gone = {view.sst_id for view in m.l0[at:at + 1]}
    return m._replace(l0=(*m.l0[:at], View(new, new), *m.l0[at + 1:]),
                      ssts=(*(one for one in m.ssts if one.id not in gone), Sst(new, SstInfo())))


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    manifests: MetadataStore
    create: Callable = checkpoints.create
    refresh: Callable = checkpoints.refresh
    delete: Callable = checkpoints.delete
    listed: Callable = checkpoints.listed
    collect: Callable = checkpoints.collect
    replace: Callable[..., Manifest] = swapped  # (shape, new SST, which it replaces, id of the next file, latest manifest)


def production(world: World, shape: Shape, number: int) -> Impl:
    return Impl(MetadataStore(world, MANIFEST, FORMS[shape.form]))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(MANIFEST.key(FIRST_ID), FORMS[shape.form].encode(Manifest(initialized=shape.form != "json")), 0)


# --- clients

# What a client does next, and how long a lease lasts: in short leases; 0: it never ends
OPERATIONS = ("create 0", "create 1", "create 1", "create 3", "from 0", "from 1", "from 3", "refresh 0", "refresh 1",
              "refresh 3", "refresh 3", "delete", "delete", "list")
TRIES = 4  # of an operation whose outcome is unknown
WHICH = 4  # the other checkpoint of an operation is one of the last so many


async def client(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    await world.clock.sleep_ms(1 + actors.shape.skew_ms)  # until no clock is before 1970, which SlateDB's files cannot hold
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        drawn, _, leases = OPERATIONS[actors.choose(f"{client.name}.operation", len(OPERATIONS))].partition(" ")
        others = known(actors)
        if drawn == "list":
            await read_list(actors, client, impl)
        else:
            other = others[actors.choose(f"{client.name}.which", WHICH) % len(others)] if others else ""
            what = drawn if other else "create"
            lifetime_ms = int(leases or 1) * lease_ms(actors.shape) or None
            await operate(actors, client, world, impl, (what, other, lifetime_ms))
        await actors.pause(client, world)


def known(actors: Actors) -> list[str]:
    """Return the checkpoints that anybody was told it has, the last one first."""
    return [checkpoint_name(*update_of(e.body.decode())) for e in reversed(actors.told) if e.op == "committed"][:WHICH]


def held(shape: Shape) -> Callable[[Committed | Recognised], str]:
    return lambda of: f"{MANIFEST.key(of.id)} {content(FORMS[shape.form].encode(of.value))}"


async def operate(actors: Actors, client: Client, world: World, impl: Impl, drawn: tuple[str, str, int | None]) -> None:
    """Do an operation, again while its outcome is unknown and the client does not give up."""
    what, other, lifetime_ms = drawn
    manifests, name = impl.manifests, own_name(actors, client)
    which = name if what in ("create", "from") else other
    asks: dict[str, tuple[str, Callable[[], Awaitable[Any]]]] = {
        "create": ("create", lambda: impl.create(manifests, which, lifetime_ms)),
        "from": ("create", lambda: impl.create(manifests, which, lifetime_ms, None, other)),
        "refresh": ("refresh", lambda: impl.refresh(manifests, which, lifetime_ms)),
        "delete": ("delete", lambda: impl.delete(manifests, which)),
    }
    call, ask = asks[what]
    doubt = False
    for left in reversed(range(TRIES)):
        begun_ms = world.clock.now_ms()
        actors.begin(client, f"{what} {which} {other}")
        said = await said_by(CALLS, call, actors.in_time(client, ask()), value=held(actors.shape))
        told = UNFINISHED if doubt and said.error and said.told != "unknown" else said.told
        about = other if told in ("missing", "ended") and what == "from" else which
        actors.end(client, told, body=short_name(about).encode(), keys=said.keys)
        if said.value is not None:
            check_entry(what, which, other, begun_ms + lifetime_ms if lifetime_ms else 0, said)
            return
        doubt = doubt or said.told == "unknown"
        if not doubt and (said.told != "failed" or actors.shape.broken):
            return
        if not left or (not actors.auditing and actors.choose(f"{client.name}.gives_up", 3) == 0):
            break
        await actors.pause(client, world)
    if doubt:
        actors.tell(client, "given up", short_name(which).encode())


def own_name(actors: Actors, client: Client) -> str:
    """Return the id of the checkpoint that the client's next operation may create, as the model counts operations."""
    number, _, count = actors.name_update(client.name).partition(".")
    return checkpoint_name(int(number), int(count))


def check_entry(what: str, which: str, other: str, until_ms: int, said: Said) -> None:
    """Check what this call has put: a checkpoint of the right manifest, and a lease that lasts as long as was asked."""
    if said.keys[1] != "Committed" or what == "delete":
        return
    of = {one.id: one for one in said.value.value.checkpoints}
    names, right = (of[one].manifest_id if one in of else 0 for one in (which, other))
    if which not in of or (what != "refresh" and names != (right if what == "from" else said.value.id)):
        raise Failure("safety", "told:source", f"{which} names manifest {names}, and should name "
                      f"{right if what == 'from' else said.value.id}")
    lease = of[which].expiry_ms if "expiry_ms" in of[which]._fields else of[which].expire_time_s * 1000
    if (lease == 0) != (until_ms == 0) or lease < until_ms:
        raise Failure("safety", "told:lease", f"the lease of {which} ends at {lease} ms, and should last until {until_ms} ms")


async def read_list(actors: Actors, client: Client, impl: Impl) -> None:
    actors.begin(client)
    said = await said_by(CALLS, "listed", actors.in_time(client, impl.listed(impl.manifests)))
    if said.told != "listed":
        actors.open.pop(client.name)
        return actors.not_read(client, said)
    return actors.end(client, "listed", body=" ".join(short_name(one.id) for one in said.value).encode(), keys=said.keys)


# --- compactors

MOST_SSTS = 2  # of a manifest, and one at least is replaced when there are so many


async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        _, _, count = actors.name_update(client.name).partition(".")
        new, at = sst_name(number, int(count)), actors.choose(f"{client.name}.which", MOST_SSTS)
        try:
            await world.store.create(key_of_sst(ROOT, new), b"")
        except AlreadyExists:
            pass  # an earlier attempt uploaded it, and no manifest names it
        except (Definite, Indefinite):
            continue
        said = await said_by(CALLS, "update", actors.in_time(client, impl.manifests.update(
            partial(impl.replace, shape, new, at))), value=held(shape))
        actors.tell(client, said.told, b"", keys=said.keys)


# --- collectors

async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await actors.collect_in_rounds(
        client, lambda: world.clock.sleep_ms(pause_ms(actors, client)),
        lambda: said_by(CALLS, "collect", actors.in_time(client, impl.collect(
            impl.manifests, ROOT, shape.min_age_ms, 2 * shape.skew_ms)), deleted=deleted))


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 4 * (lease_ms(shape) + shape.skew_ms + shape.min_age_ms) + 2000  # every lease has ended, everything is old
    return 1 + shape.min_age_ms // 2 + actors.choose(f"{client.name}.pause", lease_ms(shape))


def deleted(those: tuple[list[int], list[str]]) -> str:
    """Return the keys that a round has deleted."""
    return " ".join(sorted([*map(MANIFEST.key, those[0]), *(key_of_sst(ROOT, sst) for sst in those[1])]))


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check in the store that what is listed is there; and with an audit that nothing else is listed any more."""
    store = actors.store
    body = store.objects[max(key for key in store.keys if key.startswith(MANIFEST.prefix))][0].body
    latest = decoded(body)
    check_there(store, "the latest manifest", latest)
    names = [one.id for one in latest.checkpoints]
    if len(set(names)) < len(names):
        raise Failure("safety", "history:listed twice", f"{max(names, key=names.count)} is listed twice")
    for one in latest.checkpoints:
        found = store.objects.get(MANIFEST.key(one.manifest_id))
        if found is None:
            raise Failure("safety", "history:manifest gone", f"{one.id} names manifest {one.manifest_id}, which is gone")
        check_there(store, one.id, decoded(found[0].body))
    if actors.shape.audit and actors.shape.collectors and not actors.shape.broken:
        nothing_left(store, latest)


def nothing_left(store: SimulatedStore, latest: Manifest) -> None:
    """Check that the last collector, which nobody disturbed, left no ended lease, and no manifest that nothing names."""
    if left := [one.id for one in latest.checkpoints if ends_ms(one)]:
        raise Failure("liveness", "liveness:ended is listed", f"{left[0]} is still listed")
    ids = [i for i in map(MANIFEST.file_id, (key for key in store.keys if key.startswith(MANIFEST.prefix))) if i is not None]
    if left := [i for i in ids if i not in latest.referenced() and i < max(ids)]:
        raise Failure("liveness", "liveness:garbage is left", f"manifest {left[0]} is still there, and nothing names it")


def check_there(store: SimulatedStore, what: str, manifest: Manifest) -> None:
    missing = [sst for sst in sorted(manifest.named_ssts) if key_of_sst(ROOT, sst) not in store.objects]
    if missing:
        raise Failure("safety", "history:sst gone", f"{what} names SST {missing[0]}, which is gone")


# --- what a campaign should reach

def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    boundary, created = 0, dict[str, int]()
    for e in events:
        if e.kind == "told":
            found |= {{"missing": "checkpoint missing", "ended": "lease ended", "given up": "given up"}.get(e.op, "")} - {""}
            if e.op == "committed" and e.keys[1:2] == ("Recognised",):
                found.add("checkpoint recognised")
        elif e.kind == "applied" and e.op == "delete" and e.status == 204:
            found.add("sst collected" if e.key.endswith(".sst") else "manifest collected")
        elif e.kind == "applied" and e.key == MANIFEST.boundary_key:
            boundary = int(e.body) if e.body else boundary
            if e.op in ("get", "get_if_changed") and 0 < created.pop(e.client, 0) <= boundary:
                found.add("refused by the boundary")
        elif e.kind == "applied" and e.op == "create" and e.status == 200 and e.key.startswith(MANIFEST.prefix) and e.awaited:
            created[e.client] = MANIFEST.file_id(e.key) or 0
            if e.client.startswith("Collector"):
                found.add("ended dropped")
    return found


BUSY = Shape(clients=1, ops=20, compactors=0, collectors=0, pause_ms=1, audit=False)


SCENARIO = Scenario(
    stem="checkpoints",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Client": ("clients", "ops"), "Compactor": ("compactors", "replaces"), "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Compactor", "Collector"),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(clients=1, ops=2, compactors=1, replaces=1, collectors=0, rounds=0, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Client": client, "Compactor": compactor, "Collector": collector},
    audit=(("Collector#0",),),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "renewed", "dropped", "missing", "ended", "unknown", "failed", "given up", UNFINISHED,
          "listed", "not read", "replaced", "deleted", "not deleted"),
    moments=("checkpoint missing", "lease ended", "given up", "checkpoint recognised", "sst collected", "manifest collected",
             "refused by the boundary", "ended dropped"),
    moments_of=moments_of,
    cost={
        "one client": BUSY,
        "client and compactor": BUSY._replace(compactors=1, replaces=20),
        "client, compactor, collector": BUSY._replace(compactors=1, replaces=20, collectors=1, rounds=10, min_age_ms=1_000),
    },
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
