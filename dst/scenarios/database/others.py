"""The clients beside the writers of a database: readers, operators, compactors and collectors."""

from collections.abc import Awaitable
from typing import Any

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.scenarios.database.calls import Call, Kept, View, asked, read, seq_of
from highwater.dst.scenarios.database.shape import POLL_MS, Impl, Shape
from highwater.dst.sim.kernel import Client
from highwater.impl.db import compactor as compaction
from highwater.impl.db.compaction import Form
from highwater.impl.db.compactor import DbCompactor
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.tiers import Tiers
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints, db_reader
from highwater.impl.protocols.database_gc import Options as GcOptions
from highwater.impl.protocols.database_gc import Plan
from highwater.impl.world import World
from highwater.traces.protocols.db import ROOT, ROOTS
from highwater.traces.protocols.db_calls import CALLS


async def begun(actors: Actors, client: Client, world: World) -> None:
    """Wait until a writer has perhaps opened the database, and no clock is before 1970: an expiry of 0 means never."""
    await world.clock.sleep_ms(1 + actors.shape.skew_ms + actors.choose(f"{client.name}.apart", 2 * actors.shape.apart_ms))


async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    """Follow the writers, and read snapshots, some of them long after they were taken."""
    impl = actors.build(world, actors.shape, number)
    await begun(actors, client, world)
    instance: DbReader | None = None
    snapshots: list[tuple[Any, int]] = []
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        if instance is None:
            instance = await followed(actors, client, world, impl)
            continue
        snapshots.append((instance.snapshot(), seq_of(instance)))
        at = actors.choose(f"{client.name}.snapshot", len(snapshots))
        await read(actors, client, snapshots[at][1], snapshots[at][0])
        if actors.choose(f"{client.name}.ends", 2):
            snapshots.pop(at)[0].end()
    if instance is not None:
        await instance.close()
        actors.tell(client, "closed", b"")


async def followed(actors: Actors, client: Client, world: World, impl: Impl, root: str = ROOT) -> DbReader | None:
    """Open a reader that polls; None if that failed."""
    instance = impl.reader(manifests_of(world, root), root, db_reader.Options(POLL_MS, actors.shape.lease_ms, 200, 8))
    call = Call(actors, client)
    said = await said_by(CALLS, "follow", actors.in_time(client, instance.open()), checkpoint=lambda _: shown_by(instance))
    call.end(said)
    if said.told != "opened":
        return None
    actors.kept.append(Kept(root, View(call.place, seq_of(instance))))
    return instance


def shown_by(instance: DbReader) -> str:
    """Return the checkpoint that a reader shows."""
    assert instance.pins.view is not None, "it is open"
    return instance.pins.view.checkpoint


# --- operators

CHANGES = ("take", "take", "refresh", "delete", "open", "open")


async def operator(actors: Actors, client: Client, world: World, number: int) -> None:
    """Take checkpoints, renew, read and delete them."""
    shape, impl, mine = actors.shape, actors.build(world, actors.shape, number), list[str]()
    await begun(actors, client, world)
    manifests = manifests_of(world, ROOT)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        what = CHANGES[actors.choose(f"{client.name}.change", len(CHANGES))] if mine else "take"
        checkpoint = mine[actors.choose(f"{client.name}.which", len(mine))] if mine else ""
        if what == "take":
            await taken(actors, client, manifests, mine)
        elif what == "open":
            await opened(actors, client, world, impl, checkpoint)
        elif what == "refresh":
            await asked(actors, client, "refresh", checkpoints.refresh(manifests, checkpoint, shape.lease_ms, 8),
                        checkpoint=lambda _, of=checkpoint: of)
        else:
            mine.remove(checkpoint)
            await asked(actors, client, "delete", checkpoints.delete(manifests, checkpoint, 8),
                        checkpoint=lambda _, of=checkpoint: of)


async def taken(actors: Actors, client: Client, manifests: Any, mine: list[str]) -> None:
    """Take a checkpoint with a lease: it shows what is flushed."""
    checkpoint, call = checkpoints.new_id(manifests), Call(actors, client)
    said = await said_by(CALLS, "take", actors.in_time(client, checkpoints.create(
        manifests, checkpoint, actors.shape.lease_ms, attempts=8)), checkpoint=lambda _: checkpoint)
    call.end(said)
    if said.told == "taken":
        mine.append(checkpoint)


async def opened(actors: Actors, client: Client, world: World, impl: Impl, checkpoint: str) -> None:
    """Read a checkpoint."""
    instance = impl.reader(manifests_of(world, ROOT), ROOT)
    said = await asked(actors, client, "view", instance.open(checkpoint), checkpoint=lambda _: shown_by(instance))
    if said.told == "opened":
        await read(actors, client, seq_of(instance), instance.snapshot())
        await instance.close()


# --- compactors and collectors

async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    """Open a compactor, and compact until another one has taken over; then open another one."""
    shape, impl, instance = actors.shape, actors.build(world, actors.shape, number), None
    await begun(actors, client, world)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.pause", 2 * shape.apart_ms))
        if instance is None:
            instance = impl.compactor(compaction.stores_of(world, ROOT), ROOT, options_of(shape))
        if not instance.epoch and not await begins(actors, client, instance):
            continue
        if await compacts(actors, client, instance) == "ended":
            instance = None


def options_of(shape: Shape) -> compaction.Options:
    form = Form(200 if shape.whole_keys else 80, 0, 64, 2, shape.whole_keys)
    return compaction.Options(0, Tiers(shape.sources, max(shape.sources, 4)), form, shape.pin_ms, 8)


async def begins(actors: Actors, client: Client, instance: DbCompactor) -> bool:
    """Open a compactor; return whether it is open."""
    return (await asked(actors, client, "begin", instance.open(), epoch=str)).told == "opened"


async def compacts(actors: Actors, client: Client, instance: DbCompactor) -> str:
    """Compact once; return what the caller is told."""
    said = await asked(actors, client, "compact", compacted(instance), compaction=lambda done: done.id,
                       outputs=lambda _: " ".join(sst.id for sst in instance.outputs or ()))
    return said.told


async def compacted(instance: DbCompactor) -> Any:
    return await instance.compact_once()


def keys_of(plan: Plan, root: str) -> list[str]:
    """Return the keys that a plan deletes, ascending."""
    ids = {"manifest": plan.manifests, "compactions": plan.compactions, "wal": plan.wal}
    return sorted([*(Namespace(root, name).key(i) for name, those in ids.items() for i in those),
                   *(key_of_sst(root, sst) for sst in plan.ssts)])


async def collector(actors: Actors, client: Client, world: World, number: int) -> None:
    """Collect the database; in a run with clones, one of the two in each round."""
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    options = GcOptions(shape.min_age_ms, shape.fences)

    def collected() -> Awaitable[Said]:
        root = ROOTS[actors.choose(f"{client.name}.root", len(ROOTS))] if shape.cloners else ROOT
        stores = compaction.stores_of(world, root)
        return said_by(CALLS, "collect", actors.in_time(client, impl.collect(stores, root, options)),
                       deleted=lambda plan: " ".join(keys_of(plan, root)))

    await begun(actors, client, world)
    await actors.collect_in_rounds(
        client, lambda: world.clock.sleep_ms(shape.min_age_ms // 2 + 1 + actors.choose(f"{client.name}.pause", 300)), collected)
