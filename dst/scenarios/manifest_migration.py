"""Simulate writers of several releases at once, and collectors, for traces/protocols/manifest_migration.py to judge.

Each writer is in one phase of the migration in SlateDB's RFC on checkpoints and clones. Now and then its operator replaces it
by a writer of the next phase. The operator's duty is kept: a phase begins only when no writer is two phases behind it. Phase 3
begins by impl/protocols/manifest_migration.py. An update changes a field that both versions have (the sequence tracker), or
one that only V2 has (a segment). A writer in phase 1 may be asked for the latter, and must refuse it. A checkpoint may keep the
first manifest. With an audit, the operator brings the migration to its end.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import RARE, STORES, BaseShape, Draw, Scenario
from highwater.dst.scripts import manifest_migration as scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.dst.world.tampering import DAMAGE
from highwater.impl.codecs.manifest import CannotHold, Manifest
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields
from highwater.impl.codecs.slatedb.header import InvalidFile, version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import Checkpoint, Segment
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.protocols import manifest_migration
from highwater.impl.protocols.manifest_migration import V1Remains
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import FIRST_ID
from highwater.impl.world import World
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.protocols.manifest_migration import CODEC, MANIFESTS, NEW, Trace, constants, names_in, refiner
from highwater.traces.protocols.manifest_migration_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

ROOT = "db"
KEPT = "00000000-0000-0000-0000-000000000001"  # the checkpoint's id
LASTING_S = 1000


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 2
    updates: int = 5  # of a writer: updates, and phases that it begins
    collectors: int = 1
    rounds: int = 3
    first: int = 1  # the phase in which all begin: 0 or 1
    kept_s: int = 0  # how long a checkpoint keeps the first manifest; 0: no checkpoint
    min_age_ms: int = 60
    pause_ms: int = 60  # between two operations of a client, at most


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, writers=(2, 3), updates=(5, 3, 8), collectors=(1, 1, 0, 2), rounds=(3, 6), first=(1, 0),
                       kept_s=(0, 0, 1, LASTING_S), min_age_ms=(60, 1, 150), pause_ms=(60, 1, 300), chaos=(30, 5),
                       audit=(True, False), store=("s3", "s3", *STORES))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS, shape.min_age_ms


def length(shape: Shape) -> int:
    return 6 * shape.writers * shape.updates + 6 * shape.collectors * shape.rounds


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.writers, shape.first)), MANIFESTS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    usual = Shape()
    return [f"--shape {name}={getattr(shape, name)}" for name in ("writers", "first")
            if getattr(shape, name) != getattr(usual, name)]


class Impl(NamedTuple):
    """A writer of one phase, and its way into phase 3."""

    store: MetadataStore
    begin_v2_only: Callable[[World, str], Awaitable[MetadataStore]]


class Codec(ManifestCodec):
    """The codec of production. What it decodes and encodes is cached for each process."""

    def decode(self, body: bytes) -> Manifest:
        return decoded(self.phase, self.reads, body)

    def encode(self, manifest: Manifest) -> bytes:
        return encoded(self.phase, manifest)


@lru_cache(10_000)
def decoded(phase: Phase, reads: tuple[int, ...], body: bytes) -> Manifest:
    codec = ManifestCodec(phase)
    codec.reads = reads  # pyright: ignore[reportAttributeAccessIssue]  # of this one alone
    return codec.decode(body)


@lru_cache(10_000)
def encoded(phase: Phase, manifest: Manifest) -> bytes:
    return ManifestCodec(phase).encode(manifest)


def codec_of(phase: int, codec: type[ManifestCodec] = Codec) -> ManifestCodec:
    """Return a phase's codec. Phase 0 is the release before the migration, which has no phases and knows only V1."""
    if phase:
        return codec(Phase(phase))
    old = codec(Phase.WRITE_V1)
    old.reads = (1,)  # pyright: ignore[reportAttributeAccessIssue]  # of this one alone
    return old


def production(world: World, shape: Shape, phase: int) -> Impl:
    return Impl(MetadataStore(world, MANIFESTS, codec_of(phase)), manifest_migration.begin_v2_only)


def begin(store: SimulatedStore, shape: Shape) -> None:
    ends_s = 0 if shape.kept_s == LASTING_S else shape.kept_s
    checkpoints = (Checkpoint(KEPT, FIRST_ID, ends_s),) if shape.kept_s else ()
    first = ManifestCodec(Phase.WRITE_V1).encode(Manifest(initialized=True, checkpoints=checkpoints))
    store.put(MANIFESTS.key(FIRST_ID), first, 0)


# --- writers, and who replaces them

def phases(actors: Actors) -> dict[str, int]:
    """Return the phase of each writer."""
    first = {f"Writer#{i}": actors.shape.first for i in range(actors.shape.writers)}
    return {**first, **{e.client: int(e.body) for e in actors.told if e.op == "began"}}


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    impl: Any = None
    known = -1
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        phase = phases(actors)[client.name]
        if phase != known:
            impl, known = actors.build(world, actors.shape, phase), phase
        may = phase < 3 and min(phases(actors).values()) >= phase  # no writer would be two phases behind
        if may and (actors.auditing or actors.choose(f"{client.name}.is_replaced", 3)):
            await begin_phase(actors, client, world, impl, phase + 1)
        else:
            await update(actors, client, world, impl, phase)
        await actors.pause(client, world)


async def begin_phase(actors: Actors, client: Client, world: World, impl: Impl, phase: int) -> None:
    if phase < 3:
        actors.tell(client, "began", b"%d" % phase)
        return
    try:
        store = await actors.in_time(client, impl.begin_v2_only(world, ROOT))
    except V1Remains:
        actors.tell(client, "remains", b"")
    except (Definite, Indefinite):
        actors.tell(client, "not begun", b"")
    else:
        actors.tell(client, "began", b"3")
        await read_kept(actors, client, store)


async def read_kept(actors: Actors, client: Client, store: MetadataStore) -> None:
    """Read the manifests that checkpoints keep."""
    try:
        for file_id in sorted({checkpoint.manifest_id for checkpoint in (await store.current()).value.checkpoints}):
            await store.read(file_id)
    except InvalidFile:
        actors.tell(client, "unreadable", b"")
    except (Definite, Indefinite):  # the checkpoint has ended, or the store is unavailable
        pass


def with_update(manifest: Manifest, name: str) -> Manifest:
    if name.endswith(NEW):
        return manifest._replace(segments=(*manifest.segments, Segment(name.encode())))
    tracker = f"{(manifest.sequence_tracker or b'').decode(errors='replace')} {name}".strip()
    return manifest._replace(sequence_tracker=tracker.encode())


async def update(actors: Actors, client: Client, world: World, impl: Impl, phase: int) -> None:
    """Commit one update. It also removes a checkpoint that has ended, which would keep the first manifest for ever."""
    name = actors.name_update(client.name)
    if phase and actors.choose(f"{client.name}.new_field", 3) == 2:
        name += NEW
    while True:
        actors.begin(client, name)
        try:
            committed = await actors.in_time(client, impl.store.update(
                lambda _, manifest: with_update(manifest.without_ended(world.clock.now_ms()), name)))
            actors.end(client, "committed", MANIFESTS.key(committed.id))
        except (CannotHold, NewerFields):
            actors.end(client, "refused")
        except InvalidFile:
            actors.end(client, "unreadable")
        except Definite:
            actors.end(client, "failed")
            if actors.shape.broken:
                return
            continue
        except Indefinite:
            actors.end(client, "unknown")
        return


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    store = actors.build(world, actors.shape, Phase.WRITE_V2).store  # writes no manifest, and reads both versions

    async def wait() -> None:
        await actors.pause(client, world)
        if actors.auditing:
            await world.clock.sleep_ms(actors.shape.min_age_ms + 2000)  # everything but the latest is old

    async def collect() -> Said:
        asked = actors.in_time(client, store.collect(actors.shape.min_age_ms))
        return await said_by(CALLS, "collect", asked, deleted=lambda ids: " ".join(map(MANIFESTS.key, sorted(ids))))

    await actors.collect_in_rounds(client, wait, collect)


# --- when the faults have stopped

MEANS = {"refused": "failed", "unreadable": "failed"}


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check the callers' history, that no client met an unreadable manifest, and that the migration finishes."""
    shape, objects = actors.shape, actors.store.objects
    there = {key: objects[key][0].body for key in actors.store.keys if key.startswith(MANIFESTS.prefix)}
    final = names_in(CODEC.decode(there[max(there)]))
    history = [of._replace(said=MEANS.get(of.said, of.said)) for of in actors.history()]
    found = anomalies(history, final, ordered=False)
    found += [f"unreadable manifest: {e.client} has met one" for e in actors.told if e.op == "unreadable"]
    raise_anomalies(found)
    old = sorted(key for key, body in there.items() if version_of(body) == 1)
    behind = sorted(name for name, phase in phases(actors).items() if phase < 3)
    if shape.audit and behind and ((shape.collectors and not shape.kept_s) or not old):
        raise Failure("liveness", "liveness:behind", f"{', '.join(behind)} did not come into phase 3; V1 manifests: {old}")


# --- what a campaign should reach


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, created, versions = set(), set(), set()
    for e in events:
        file = e.op == "create" and e.key.startswith(MANIFESTS.prefix) and e.kind == "applied"
        version = version_of(e.body) if file else 0
        if file and not e.awaited and version == 1:
            found.add("late V1 create applied" if e.status == 200 else "late V1 create refused")
        if file and e.awaited and e.status != 200:
            found.add("create conflict")
        if file and e.status == 200:
            found |= {"id used twice"} if e.key in created else set()
            found |= {"V1 after V2"} if version == 1 and 2 in versions else set()
            created.add(e.key)
            versions.add(version)
        if (e.op, e.body) == ("began", b"3"):
            found.add("phase 3")
        if e.op == "remains" and shape.kept_s == LASTING_S:
            found.add("manifest kept by a checkpoint")
    return found


ONE_BY_ONE = tuple((f"Writer#{i}",) for i in range(3))


SCENARIO = Scenario(
    stem="manifest_migration",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "updates"), "Collector": ("collectors", "rounds")},
    most={"writers": 3, "collectors": 2},
    optional=("Collector",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(writers=2, updates=2, collectors=0, rounds=0, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    begin=begin,
    work={"Writer": writer, "Collector": collector},
    audit=(*ONE_BY_ONE * 5, ("Collector#0",), *ONE_BY_ONE),
    scripts=scripts.SCRIPTS,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("began", "remains", "not begun", "committed", "refused", "failed", "unknown", "deleted", "not deleted"),
    moments=("create conflict", "V1 after V2", "phase 3", "late V1 create applied", "late V1 create refused", "id used twice",
             "manifest kept by a checkpoint"),
    moments_of=moments_of,
    cost={},
    breaks=DAMAGE,
    rare=RARE,
)
