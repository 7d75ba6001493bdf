"""Simulate cloners, the writers of a root and of its clones, detachers, and collectors, of impl/protocols/clones.py.

traces/protocols/clones.py judges them. A cloner takes checkpoints, deletes its own, and clones a database, in several attempts;
it may begin again from another source. A clone has clones of its own in some runs, and a sibling in others. A writer opens its
database once that is initialized. It puts WAL objects, uploads SSTs, and puts them in the place of others, also of those of a
parent. A detacher detaches clones. A collector collects the manifests and SSTs of every database.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Cached, Draw, Scenario
from highwater.dst.scripts import clones as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Sst, SstInfo, View
from highwater.impl.errors import AlreadyExists, Definite, Indefinite, OutcomeUnknown, TimedOut
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import checkpoints, clones
from highwater.impl.protocols.clones_manifest import without_sst
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World, list_all
from highwater.traces.event import Event
from highwater.traces.protocols.clones import Trace, constants, refiner
from highwater.traces.protocols.clones_calls import CALLS
from highwater.traces.protocols.clones_contents import FIRST_SST, KEYS, MANIFESTS, ROOTS, SLATEDB, WALS, of_manifest
from highwater.traces.refine import Failure, refiner_of


class Form(Cached):
    """The codec of the manifests. What it encodes and decodes is cached for each process."""

    def __init__(self):
        super().__init__(SLATEDB)
        self.checkpoint, self.is_initialized = SLATEDB.checkpoint, SLATEDB.is_initialized


CODEC = Form()


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    cloners: int = 2
    clones: int = 4  # operations of a cloner
    writers: int = 2  # of databases 0, 1, ..
    flushes: int = 3
    detachers: int = 1
    detaches: int = 2
    collectors: int = 1
    rounds: int = 2
    nested: bool = True  # database 2 is cloned from database 1, and not from 0
    lifetime_ms: int = 2000  # of a checkpoint
    min_age_ms: int = 60
    pause_ms: int = 60  # between two operations of a client, at most
    habit: str = ""  # of cloners: one of HABITS or ORDERED


MOST = {"cloners": 3, "writers": 3, "detachers": 1, "collectors": 1}  # what the model is made for


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, cloners=(2, 1, 3), clones=(4, 3, 6), writers=(2, 2, 3, 1), flushes=(3, 2, 5), detachers=(1, 1, 0),
                       detaches=(2, 4), collectors=(1, 1, 0), rounds=(2, 4), nested=(True, False),
                       lifetime_ms=(2000, 1000, 9000), min_age_ms=(60, 1, 150), pause_ms=(60, 1, 300),
                       habit=("", "restarts", "ends", "holds"),
                       page_size=(1000, 1000, 2), chaos=(30, 5), audit=(True, False),
                       skew_ms=(0, 50), store=("s3", "s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms, shape.lifetime_ms


def length(shape: Shape) -> int:
    return (12 * shape.cloners * shape.clones + 10 * shape.writers * shape.flushes + 12 * shape.detachers * shape.detaches
            + 30 * shape.collectors * shape.rounds)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants("01" if shape.nested else "00", MOST["cloners"])), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape nested={shape.nested}"]


class Impl(NamedTuple):
    """The parts of a client, each of which a mutant may replace."""

    stores: clones.StoreOf
    clone: Callable = clones.clone
    detach: Callable = clones.detach
    opened: Callable = clones.opened
    create: Callable = checkpoints.create
    without_sst: Callable = without_sst


def production(world: World, shape: Shape, number: int) -> Impl:
    stores = {root: MetadataStore(world, of, CODEC) for root, of in zip(ROOTS, MANIFESTS)}
    return Impl(stores.__getitem__)


def begin(store: SimulatedStore, shape: Shape) -> None:
    first = Manifest(initialized=True, l0=(View(FIRST_SST, FIRST_SST),), ssts=(Sst(FIRST_SST, SstInfo()),))
    store.put(key_of_sst(ROOTS[0], FIRST_SST), b"", 0)
    store.put(MANIFESTS[0].key(FIRST_ID), CODEC.encode(first), 0)


def parent_of(shape: Shape, d: int) -> int:
    return d - 1 if shape.nested else 0


# --- cloners

# What a cloner does next, and with which database. In most runs cloners have a habit, so that rare stories are drawn often.
HABITS = {
    "": ("clone 1", "clone 1", "clone 2", "from 1", "from 2", "stop 1", "stop 2", "again 1", "again 2", "take 0", "take 0",
         "take 1", "end"),
    "holds": ("clone 1", "clone 1", "take 1", "take 1", "clone 2"),
}
ORDERED = {  # one after the other, with time for a writer between them
    "restarts": ("take 0", "stop 1", "again 1", "clone 1"),
    "ends": ("take 0", "from 1", "end", "clone 1"),
}
WAIT_MS = 800  # for a clone to be there
REQUESTS = 16  # of a clone, about


async def cloner(actors: Actors, client: Client, world: World, number: int) -> None:
    impl, own = actors.build(world, actors.shape, number), list[tuple[int, str]]()
    await world.clock.sleep_ms(1 + actors.shape.skew_ms)  # until no clock is before 1970, which the files cannot hold
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        if those := ORDERED.get(actors.shape.habit):
            what, _, d = those[(actors.shape.clones - 1 - actors.left[client.name]) % len(those)].partition(" ")
            await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.wait", WAIT_MS))
        else:
            those = HABITS[actors.shape.habit]
            what, _, d = those[actors.choose(f"{client.name}.operation", len(those))].partition(" ")
        if actors.auditing:
            what, d = "clone", "1"
        if what in ("take", "end"):
            await change(actors, client, impl, own, int(d or 0), what)
        else:
            await clone(actors, client, world, impl, own, int(d), what)
        await actors.pause(client, world)


SENT = ("get", "list_page", "create", "update", "put", "delete")


class Stopping:
    """Send so many requests, and then raise TimedOut: the caller has given up."""

    def __init__(self, store: Any, left: int):
        self.store, self.left = store, left

    def __getattr__(self, op: str) -> Any:
        if op not in SENT:
            return getattr(self.store, op)

        def sent(*arguments: Any) -> Any:
            if not self.left:
                raise TimedOut("the caller has given up")
            self.left -= 1
            return getattr(self.store, op)(*arguments)

        return sent


async def change(actors: Actors, client: Client, impl: Impl, own: list[tuple[int, str]], d: int, what: str) -> None:
    """Take a checkpoint, or delete one of this client's."""
    if what == "end" and own:
        d, which = own.pop(actors.choose(f"{client.name}.ends", len(own)))
        said = await said_by(CALLS, "delete", actors.in_time(client, checkpoints.delete(impl.stores(ROOTS[d]), which)))
    else:
        which = checkpoints.new_id(impl.stores(ROOTS[d]))
        said = await said_by(CALLS, "create", actors.in_time(client, impl.create(
            impl.stores(ROOTS[d]), which, actors.shape.lifetime_ms)))
        own += [(d, which)] if said.value is not None else []
    actors.tell(client, said.told, ROOTS[d].encode(), keys=said.keys)


async def clone(actors: Actors, client: Client, world: World, impl: Impl, own: list[tuple[int, str]], d: int, what: str
                ) -> None:
    """Clone a database, from a checkpoint of this client or from the latest state. "stop": give up, mostly before its end."""
    parent = parent_of(actors.shape, d)
    those: list[str | None] = [u for of, u in own if of == parent and what != "clone"]
    those = [None] if what == "stop" or not those else those
    source = those[actors.choose(f"{client.name}.source", len(those))]
    again = what == "again" or actors.auditing
    if what == "stop" or (what == "from" and actors.choose(f"{client.name}.stops", 2)):
        stops = Stopping(world.store, 1 + actors.choose(f"{client.name}.stop", REQUESTS))
        impl = actors.build(world._replace(store=stops), actors.shape, int(client.name.partition("#")[2]))
    said = await said_by(CALLS, "clone", actors.in_time(client, impl.clone(
        impl.stores, ROOTS[d], ROOTS[parent], source, again)))
    actors.tell(client, said.told, ROOTS[d].encode(), keys=said.keys)
    done = said.value is not None or said.keys[1] == "OtherParent"  # it is detached
    if actors.auditing and not done and not actors.shape.broken:
        raise Failure("liveness", "liveness:clone", f"{client.name} was told {said.keys}, with nobody else at work")


# --- writers

class Log:
    """The end of a database's WAL, as its only writer knows it. 0: not known."""

    last: int = 0


async def writer(actors: Actors, client: Client, world: World, d: int) -> None:
    impl, log = actors.build(world, actors.shape, d), Log()
    manifests, is_open = impl.stores(ROOTS[d]), False
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        if not is_open:
            said = await said_by(CALLS, "open", actors.in_time(client, impl.opened(manifests)))
            actors.tell(client, said.told, ROOTS[d].encode(), keys=said.keys)
            is_open = said.value is not None
            if not is_open:
                await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.wait", WAIT_MS))
                continue
        for _ in range(actors.choose(f"{client.name}.appends", 3) or not log.last):
            said = await said_by(CALLS, "append", append(world, d, log))
            actors.tell(client, said.told, ROOTS[d].encode(), keys=said.keys)
            if said.value is None:
                break
        sst = world.ids.new_id()
        try:
            await world.store.create(key_of_sst(ROOTS[d], sst), b"")
        except (Definite, Indefinite):
            continue
        at = actors.choose(f"{client.name}.which", 3)
        said = await said_by(CALLS, "flush", actors.in_time(client, manifests.update(
            partial(swapped, impl.without_sst, sst, at, log.last))))
        actors.tell(client, said.told, ROOTS[d].encode(), keys=said.keys)


def swapped(without: Callable, new: str, at: int, seen: int, _: int, m: Manifest) -> Manifest:
    """Return the next manifest: with a new SST in the place of an old one, or beside the others if there is none such.

    `at` counts from the oldest one, so that those of the parent go soon."""
    m = without(m, m.l0[-1 - at].sst_id) if at < len(m.l0) else m
    return m._replace(l0=(View(new, new), *m.l0), ssts=(*m.ssts, Sst(new, SstInfo())),
                      wal_id_last_seen=max(seen, m.wal_id_last_seen))


async def append(world: World, d: int, log: Log) -> int:
    """Put the next WAL object; return its id. Its fences are another protocol."""
    if log.last:
        i = log.last + 1
    else:
        i = max((WALS[d].file_id(entry.key) or 0 for entry in await list_all(world.store, WALS[d].prefix)), default=0) + 1
    while True:
        try:
            await world.store.create(WALS[d].key(i), b"%d.%d" % (d, i))
        except OutcomeUnknown:
            continue  # nothing is put behind it before it is there
        except AlreadyExists:
            pass
        log.last = i
        return i


# --- detachers and collectors

async def detacher(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.wait", WAIT_MS))
        for root in ROOTS[1:]:
            said = await said_by(CALLS, "detach", actors.in_time(client, impl.detach(impl.stores, root)))
            actors.tell(client, said.told, root.encode() if said.told == "detached" else b"", keys=said.keys)


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(pause_ms(actors, client))
        for d, root in enumerate(ROOTS):
            said = await said_by(CALLS, "collect", actors.in_time(client, checkpoints.collect(
                impl.stores(root), root, shape.min_age_ms, 2 * shape.skew_ms)), deleted=partial(deleted, d))
            actors.tell(client, said.told, b"", keys=said.keys)


def deleted(d: int, gone: tuple[list[int], list[str]]) -> str:
    ids, ssts = gone
    return " ".join(sorted([*map(MANIFESTS[d].key, ids), *(key_of_sst(ROOTS[d], sst) for sst in ssts)]))


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 310_000 + 4 * (shape.skew_ms + shape.min_age_ms)  # every lease has ended, everything is old
    return 1 + shape.min_age_ms + actors.choose(f"{client.name}.pause", shape.lifetime_ms)


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check in the store that what an initialized database names is there, with the WAL objects that its source has seen."""
    store = actors.store
    for d, root in enumerate(ROOTS):
        bodies = [store.objects[key][0].body for key in sorted(store.keys) if key.startswith(MANIFESTS[d].prefix)]
        latest = CODEC.decode(bodies[-1]) if bodies else Manifest()
        if not latest.initialized:
            continue
        check_there(store, root, latest)
        for one in latest.checkpoints:
            found = store.objects.get(MANIFESTS[d].key(one.manifest_id))
            if found is None:
                raise Failure("safety", "history:manifest gone", f"{one.id} of {root} names a manifest that is gone")
            check_there(store, root, CODEC.decode(found[0].body))
        if missing := [i for i in range(1, latest.wal_id_last_seen + 1) if WALS[d].key(i) not in store.objects]:
            raise Failure("safety", "history:rows gone", f"{root} has seen WAL object {missing[0]}, which is not there")
    check_logged(actors, events)


def check_logged(actors: Actors, events: list[Event]) -> None:
    """Check that what a writer put is still there, as it put it."""
    for e in events:
        if e.kind == "applied" and e.op == "create" and e.status == 200 and e.client.startswith("Writer") and "/wal/" in e.key:
            found = actors.store.objects.get(e.key)
            if found is None or found[0].body != e.body:
                raise Failure("safety", "history:record lost", f"{e.key} is not what {e.client} put there")


def check_there(store: SimulatedStore, root: str, manifest: Manifest) -> None:
    file = of_manifest(manifest)
    wanted = [(root, sst) for sst in sorted(file.own)] + [(path, sst) for _, path, _, ssts in file.entries for sst in ssts]
    if missing := [key_of_sst(*one) for one in wanted if key_of_sst(*one) not in store.objects]:
        raise Failure("safety", "history:sst gone", f"{root} names {missing[0]}, which is gone")


# --- what a campaign should reach

def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    for e in events:
        if e.kind == "told":
            found |= {e.op, *e.keys[1:2]} & {"cloned", "detached", *NAMED}
        elif e.kind == "applied" and e.op == "delete" and e.status == 204 and e.key.endswith(".sst"):
            found.add("sst collected")
    return found


NAMED = ("AttemptReplaced", "SourceBehind", "CheckpointMissing")

SCENARIO = Scenario(
    stem="clones",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Cloner": ("cloners", "clones"), "Writer": ("writers", "flushes"), "Detacher": ("detachers", "detaches"),
           "Collector": ("collectors", "rounds")},
    most=MOST,
    optional=("Detacher", "Collector"),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(cloners=1, clones=4, writers=1, flushes=2, detachers=0, detaches=0, collectors=0, rounds=0, pause_ms=1,
               audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Cloner": cloner, "Writer": writer, "Detacher": detacher, "Collector": collector},
    audit=(("Cloner#0",),),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("cloned", "not cloned", "detached", "not detached", "taken", "dropped", "not changed", "missing", "ended", "flushed",
          "not flushed", "logged", "not logged", "open", "not open", "deleted", "not deleted", "unknown"),
    moments=("cloned", "detached", "sst collected", *NAMED),
    moments_of=moments_of,
    cost={},
    breaks=DAMAGE,
    rare=RARE,
    needs=("create", "update", "cache", "list"),
)
