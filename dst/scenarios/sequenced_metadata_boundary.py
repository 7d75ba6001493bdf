"""Simulate writers, collectors and readers of the boundary protocol, with impl/ unchanged, for traces/ to judge.

Each writer does its updates one after another. An update with an indeterminate outcome is not repeated; one that was certainly
not applied is. It may also take, renew or remove a checkpoint, or remove all that have ended. A renewal may come late, when the
checkpoint has ended by a collector's clock. Collectors work in rounds. Readers read the current value. After the faults have
stopped and every request in flight has arrived, one writer, one reader and one collector must each succeed, and nothing stale
may be left.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from highwater.dst.actors import Actors, Change, Said, raise_anomalies, said_by
from highwater.dst.scenario import PATIENCE, STORES, BaseShape, Cached, Draw, Scenario, counted
from highwater.dst.scripts import boundary_object, sequenced_metadata
from highwater.dst.scripts import sequenced_metadata_boundary as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world import tampering
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.sdk import IN_SIMULATION, SdkStore
from highwater.dst.world.store import SimulatedStore
from highwater.impl.codecs.json.manifest import UPDATES, Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Recognised
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.stores.verified import verified
from highwater.impl.world import World
from highwater.model.protocols.sequenced_metadata_boundary import Shared, latest, present
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.histories import linear, promises, serial
from highwater.traces.histories.ambiguity import SOMETIMES as AMBIGUOUS
from highwater.traces.histories.bounds import too_many
from highwater.traces.histories.history import damage, too_young, updates_in
from highwater.traces.protocols import sequenced_metadata_boundary_retries as retries
from highwater.traces.protocols.sequenced_metadata_boundary import Trace, constants, refiner
from highwater.traces.protocols.sequenced_metadata_boundary_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

Build = Callable[[World, Namespace, bool, int], MetadataStore]  # world, namespace, spare checkpoints, number of the client


Checkpoints = Callable[[int, Manifest], Manifest]  # id of the next file, its content so far -> the same with other checkpoints


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    commits: int = 3
    collectors: int = 1
    rounds: int = 1
    readers: int = 0
    reads: int = 0
    page_size: int = 1000
    min_age_ms: int = 150
    manifest: bool = False  # True: the namespace with checkpoints
    think_ms: int = 300  # longest pause of a writer between two updates
    attempts: int = 0  # of one update; 0: no limit
    chaos: int = 1000  # times min_age until the faults stop


MOST = {"writers": 3, "collectors": 2, "readers": 1}  # the model's limits; a run may have fewer


def draw_shape(of: Draw) -> Shape:
    shape = Shape.drawn(of, readers=(0, 1), writers=(2, 3), commits=(2, 3, 4), collectors=(1, 2), rounds=(1, 2, 3),
                        reads=(1, 2, 3), page_size=(1000, 1000, 2), min_age_ms=(60, 150, 400), manifest=(False, True),
                        think_ms=(1, 1, 300), chaos=(3, 30, 1000), audit=(True, False, False, False), skew_ms=(0, 50),
                        store=("s3", "s3", "s3", "s3", *STORES), sdk=(*NO_SDK, *DRAWN_SDKS), attempts=(0, 0, 0, 1, 2))
    return shape._replace(reads=shape.readers * shape.reads)


SDKS = tuple(IN_SIMULATION)
DRAWN_SDKS = (*SDKS[:-1], "object_store")  # drawn twice as often, because it reads back after a single attempt
NO_SDK = ("",) * (2 * len(DRAWN_SDKS))  # most runs have no SDK


def unit_ms(shape: Shape) -> int:
    return shape.min_age_ms


def waits_ms(shape: Shape) -> tuple[int, ...]:
    """Return the waiting times of the protocol and its callers: min_age, time-out, lifetime of a checkpoint, pause."""
    return shape.min_age_ms, TIMEOUT_MS, 3 * shape.min_age_ms, shape.think_ms


def length(shape: Shape) -> int:
    """Estimate the number of events in a run without faults. Tests calibrate it."""
    return 6 * shape.writers * shape.commits + 6 * shape.collectors * shape.rounds + 4 * shape.readers * shape.reads


def trace_of(shape: Shape) -> Trace:
    page = shape.page_size if shape.page_size < 1000 else 0
    of = refiner_of(retries.refiner if shape.sdk else refiner,
                    constants(*MOST.values(), page_size=page, checkpoints=shape.manifest))
    return (retries.RetryingTrace if shape.sdk else Trace)(of, namespace(shape), shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    """Return the options that `trace check` needs for a run of this shape."""
    return [f"--namespace {namespace(shape).name}"] + [f"--page-size {shape.page_size}"] * (shape.page_size < 1000) + [
        f"--skew-ms {shape.skew_ms}"] * bool(shape.skew_ms) + ["--retries"] * bool(shape.sdk)


def shape_options(shape: Shape) -> list[str]:
    """Return the same options for another scenario with this shape and these keys: `trace check --protocol` takes --shape."""
    return [f"--shape {name}={getattr(shape, name)}" for name in ("manifest", "page_size", "skew_ms")
            if getattr(shape, name) != getattr(Shape(), name)]


NAMESPACES = {True: Namespace("db", "manifest"), False: Namespace("db", "compactions")}


def namespace(shape: Shape) -> Namespace:
    return NAMESPACES[shape.manifest]


Codec = Cached(UPDATES)


def production(world: World, where: Namespace, spare_checkpoints: bool, client: int) -> MetadataStore:
    return MetadataStore(world, where, Codec, Policies(spare_checkpoints=spare_checkpoints))


def begin(store: SimulatedStore, shape: Shape) -> None:
    store.put(namespace(shape).key(FIRST_ID), Codec.encode(Manifest()), 0)


def made(actors: Actors, client: Client, world: World, number: int) -> tuple[World, MetadataStore]:
    """Make a client's world and implementation. With an SDK, which may repeat requests, the outcome of its creates is
    verified."""
    shape = actors.shape
    if shape.sdk:
        policy = IN_SIMULATION[shape.sdk]
        sdk = SdkStore(world.store, world.clock, policy, actors.choose, client.name)
        world = verified(world._replace(store=sdk), namespace(shape), silent=not policy.tells)
    return world, actors.build(world, namespace(shape), shape.manifest, number)


def key_of(actors: Actors, file_id: int) -> str:
    return namespace(actors.shape).key(file_id)


def shown(of: Committed | Recognised) -> str:
    return content(Codec.encode(of.value))


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    world, store = made(actors, client, world, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1  # counted when begun: not repeated after a crash
        if actors.auditing and actors.shape.manifest:
            await world.clock.sleep_ms(pause_ms(actors, client))  # until checkpoints have ended
        update = actors.name_update(client.name)
        checkpoints = drawn_change(actors, client, world, update)

        def change(next_id: int, manifest: Manifest, update: str = update, then: Checkpoints = checkpoints) -> Manifest:
            return then(next_id, manifest.with_update(update))

        while True:
            actors.begin(client, update)
            watched = Change(change)
            asked = actors.in_time(client, store.update(watched, actors.shape.attempts or None))
            said = await said_by(CALLS, "update", asked, lambda of: key_of(actors, of.id), content=shown,
                                 attempts=lambda _: str(actors.shape.attempts))
            actors.end(client, said.told, said.key, keys=said.keys)
            if said.value is not None:
                watched.check(said.value)
            if said.told != "failed" or actors.shape.broken:
                break
        if actors.left[client.name] and actors.shape.think_ms > 1:
            await world.clock.sleep_ms(actors.choose(f"{client.name}.think", actors.shape.think_ms))


def drawn_change(actors: Actors, client: Client, world: World, update: str) -> Checkpoints:
    """Draw what an update does to the checkpoints. The audit's update removes those that have ended."""
    if not actors.shape.manifest:
        return lambda next_id, manifest: manifest
    age_ms = actors.shape.min_age_ms
    drawn = "ended" if actors.auditing else CHANGES[actors.choose(f"{client.name}.checkpoint", len(CHANGES))]
    what, lifetimes = drawn.partition(" ")[::2]
    number = actors.choose(f"{client.name}.which", 4) if what in ("renew", "remove") else 0

    def change(next_id: int, manifest: Manifest) -> Manifest:
        expiry_ms = int(lifetimes) and actors.kernel.now_ms + int(lifetimes) * age_ms if lifetimes else 0
        if what == "take":
            return manifest.with_checkpoint(Checkpoint(update, next_id, expiry_ms))
        if what == "ended":
            return manifest.without_ended(world.clock.now_ms())
        those = manifest.checkpoints
        if what == "keep" or not those:
            return manifest
        at = number % len(those)
        new = (those[at]._replace(expiry_ms=expiry_ms),) if what == "renew" else ()
        return manifest._replace(checkpoints=(*those[:at], *new, *those[at + 1:]))

    return change


# What an update may do to the checkpoints, and the lifetime in multiples of min_age (0: it never ends).
CHANGES = ("keep", "keep", "keep", "take 0", "take 1", "take 1", "take 3", "renew 3", "renew 0", "remove", "ended")


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    world, store = made(actors, client, world, number)
    await actors.collect_in_rounds(client, lambda: world.clock.sleep_ms(pause_ms(actors, client)),
                                   lambda: collected(actors, client, store))


async def collected(actors: Actors, client: Client, store: MetadataStore) -> Said:
    """Collect once, and say which keys were deleted."""
    return await said_by(CALLS, "collect", actors.in_time(client, store.collect(actors.shape.min_age_ms)),
                         deleted=lambda ids: " ".join(sorted(key_of(actors, file_id) for file_id in ids)))


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    world, store = made(actors, client, world, number)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(pause_ms(actors, client))
        actors.begin(client)
        said = await said_by(CALLS, "current", actors.in_time(client, store.current()))
        if said.told != "read":
            actors.not_read(client, said)
            continue
        file_id, manifest = said.value
        actors.end(client, "read", key_of(actors, file_id), Codec.encode(manifest), manifest.updates, said.keys)


def pause_ms(actors: Actors, client: Client) -> int:
    shape = actors.shape
    if actors.auditing:
        return 4 * shape.min_age_ms + 2 * shape.skew_ms + 1  # everything is old; checkpoints have ended
    return shape.min_age_ms // 2 + actors.choose(f"{client.name}.pause", 2 * shape.min_age_ms)


# --- when the faults have stopped

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history, and that nothing young was deleted and nothing stale is left.

    The essay on object-store protocols: «Eventually the garbage collector will LIST and notice the conflicting file, cleaning
    it up.»"""
    shape, where, store = actors.shape, namespace(actors.shape), actors.store
    if shape.broken.startswith("boundary"):
        raise_anomalies([found for found in [promises.trusted(events, where)] if found])
        return
    files = [key for key in store.keys if key.startswith(where.prefix)]
    if not files:
        raise Failure("safety", "history:nothing left", "there is no file left")
    final = store.objects[files[-1]][0].body
    found = damage(actors.told, where, final) or linear.anomalies(events, where, linear.id_of(files[-1], where), final) \
        or serial.anomalies(actors.history(), updates_in(final))
    raise_anomalies(found)
    young = actors.trace and too_young(events, where, shape.min_age_ms - store.profile.last_modified_ms + 1, actors.ahead_ms())
    if young:
        raise Failure("safety", "history:too young", young)
    lost = [one for one in Codec.decode(final).checkpoints if where.key(one.manifest_id) not in files]
    if lost:
        raise Failure("safety", "history:lost checkpoint", f"the latest file lists checkpoint {lost[0].id} of id "
                      f"{lost[0].manifest_id}, which is gone")
    many = actors.trace and too_many(  # slow, and harmless to callers
        events, where, bool(shape.sdk), actors.trace.refiner.model.constants.KNOWN != "never")
    if many:
        raise Failure("liveness", "liveness:requests", many)
    if actors.trace and shape.audit:
        ended = [one.id for one in Codec.decode(final).checkpoints if not one.active(actors.kernel.now_ms - 2 * shape.skew_ms)]
        if ended:
            raise Failure("liveness", "liveness:stale", f"checkpoint {ended[0]} has ended and is still listed")
        nothing_stale(actors.trace.refiner.shared())


def nothing_stale(shared: Shared) -> None:
    kept = latest(shared).checkpoints
    stale = [i for i in range(1, shared.high) if present(shared, i) and i not in kept]
    if stale:
        raise Failure("liveness", "liveness:stale", f"after the last round of collection ids {stale} are still there, "
                      "though neither the latest nor held by a checkpoint")


# --- what a campaign should reach

WITH_SDK = tuple(name for name in AMBIGUOUS if not name.startswith("late_after_"))  # those that need a repeated request
MOMENTS = ("create conflict", "advance conflict", "listing of many pages", "file gone before it was read", "boundary unchanged",
           "reader refused", "nobody waits for it: condition failed", *WITH_SDK, "late_after_timeout", "late_after_crash")
WITHOUT_SDK = tuple(name for name in MOMENTS if name not in WITH_SDK)
REPLIED = {  # (op, status, whether it is the boundary) -> witness
    ("create", 412, False): "create conflict", ("create", 412, True): "advance conflict",
    ("update", 412, True): "advance conflict", ("get", 404, False): "file gone before it was read",
    ("get_if_changed", 304, True): "boundary unchanged",
}


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, given_up = set(), {}
    for e in events:
        boundary = e.key.endswith(".boundary")
        if e.kind != "applied":
            if e.pending:
                given_up[e.request] = e.kind
        elif not e.awaited:
            if e.status >= 300:
                found.add("nobody waits for it: condition failed")
            elif e.op == "create" and e.request in given_up and not boundary:
                found.add(f"late_after_{given_up[e.request]}")
        else:
            if (e.op, e.status, boundary) in REPLIED:
                found.add(REPLIED[e.op, e.status, boundary])
            if e.truncated:
                found.add("listing of many pages")
    found |= {name for name in WITH_SDK if shape.sdk and AMBIGUOUS[name](events)}
    return found | {"reader refused"} if any(reader_refused(events)) else found


def reader_refused(events: list[Event]) -> Iterator[bool]:
    """Yield True where a reader that asked for the boundary asks for a listing next, with no response to its caller in
    between."""
    asked: set[str] = set()
    for e in events:
        if e.client.startswith("Reader"):
            yield e.op == "list" and e.client in asked
            asked = asked | {e.client} if e.kind == "applied" and e.awaited and e.key.endswith(".boundary") else \
                asked - {e.client}


def boundary_key(shape: Shape) -> str:
    return namespace(shape).boundary_key


BREAKS = {
    "boundary_lost": tampering.lost(boundary_key),
    "boundary_emptied": tampering.overwritten(boundary_key, lambda body: b""),
    "boundary_set_back": tampering.overwritten(boundary_key, tampering.halved),
    "boundary_set_ahead": tampering.overwritten(boundary_key, lambda body: b"%d" % (int(body) + 1000)),
    "listing_repeats": tampering.lists("repeats"),
    "listing_never_ends": tampering.lists("never ends"),
}

FAR_APART = {"skew_ms": 2_000}  # several times min_age and the lifetimes of checkpoints
# Long runs with much to collect. No SDK: what it reads back with has a boundary of its own.
ASKED_FOR = (tampering.DAMAGED, "bucket_gone")  # breaks that are not drawn, so that the others are not drawn less often
RARE_BREAKS = [{"broken": name, "page_size": 2, "sdk": "", "commits": 4, "rounds": 8, "min_age_ms": 60, "think_ms": 100}
               for name in (*BREAKS, *tampering.DAMAGE) if name not in ASKED_FOR]


SCENARIO = Scenario(
    stem="sequenced_metadata_boundary",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "commits"), "Collector": ("collectors", "rounds"), "Reader": ("readers", "reads")},
    most=MOST,
    optional=("Reader",),
    mildest=Shape(min_age_ms=60, think_ms=1, audit=False),
    tiny=Shape(writers=2, commits=2, collectors=1, rounds=1, min_age_ms=2, think_ms=1, audit=False),
    unit_ms=unit_ms,
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Collector": collector, "Reader": reader},
    audit=(("Writer#0",), ("Collector#0", "Reader#0")),  # when everything is old enough, one more round and read
    scripts=(*boundary_object.SCRIPTS, *sequenced_metadata.SCRIPTS, *scripts.SCRIPTS),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "refused", "unknown", "read", "not read", "deleted", "not deleted"),
    moments=MOMENTS,
    moments_of=moments_of,
    cost={counted(n, "writer"): Shape(writers=n, commits=40, rounds=10, min_age_ms=2_000, think_ms=1, audit=False)
          for n in (1, 2, 4, 8)},
    breaks={**BREAKS, **tampering.DAMAGE},
    # Two settings are there twice: their mutants die more seldom than the others.
    rare=({"sdk": "once"}, FAR_APART, FAR_APART, PATIENCE, PATIENCE, *RARE_BREAKS),
    needs=("create", "update", "cache", "list"),
)
