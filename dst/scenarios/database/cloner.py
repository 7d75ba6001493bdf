"""The clients of a clone of a whole database: cloners and destroyers.

A cloner clones the database, in several attempts if need be. Then it works in the clone as writer, reader and compactor, and
detaches it. A destroyer marks the database or its clone, and finishes what is marked.
"""

from typing import Any

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenarios.database.calls import Gone, Kept, asked, read, seq_of
from highwater.dst.scenarios.database.others import begins, begun, compacts, followed, options_of
from highwater.dst.scenarios.database.shape import Impl
from highwater.dst.scenarios.database.writer import Session, opened, works
from highwater.dst.sim.kernel import Client
from highwater.impl.codecs.destroyed import HARD, SOFT
from highwater.impl.db.compactor import stores_of
from highwater.impl.db.manifest import manifests_of
from highwater.impl.protocols import checkpoints, destroy
from highwater.impl.protocols.database_clones import take_seen
from highwater.impl.world import World
from highwater.traces.protocols.db import CLONE, ROOT
from highwater.traces.protocols.db_calls import CALLS

ATTEMPTS = ("clone", "clone", "seen", "seen", "stop", "again")  # what a cloner does until it has a clone
USES = ("work", "work", "work", "read", "compact", "compact", "detach")  # and then
ATTEMPT_MS = 400  # of an attempt, about
THERE, BEGUN = "there", "in doubt"
DETACHED = "OtherParent"  # said of a clone that is there, and is detached already
COMPACTIONS = 3  # of one call, at most


async def cloner(actors: Actors, client: Client, world: World, number: int) -> None:
    """Clone the database, and use the clone; sometimes also one that is perhaps not complete."""
    impl, said = actors.build(world, actors.shape, number), ""
    await begun(actors, client, world)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        if not said or (said != THERE and actors.choose(f"{client.name}.early", 3)):
            said = await cloned(actors, client, world, impl)
            continue
        what = USES[actors.choose(f"{client.name}.use", len(USES))]
        if what == "work":
            db = await opened(actors, client, world, impl, CLONE)
            if db is not None:
                await works(Session(actors, client, world, db))
                await db.close()
                actors.tell(client, "closed", b"")
        elif what == "read":
            await read_it(actors, client, world, impl)
        elif what == "compact":
            await compact(actors, client, world, impl)
        else:
            await asked(actors, client, "detach", impl.detach(lambda root: manifests_of(world, root), CLONE),
                        finals=" ".join)


async def cloned(actors: Actors, client: Client, world: World, impl: Impl) -> str:
    """Clone the database, or finish an attempt that is there; return THERE, BEGUN if there may be an attempt, or "".

    "seen": from a checkpoint that has seen the WAL. "stop": the caller gives up. "again": begin again from another source."""
    what, source = ATTEMPTS[actors.choose(f"{client.name}.attempt", len(ATTEMPTS))], None
    if what == "seen":
        manifests = manifests_of(world, ROOT)
        source = checkpoints.new_id(manifests)
        said = await asked(actors, client, "take", take_seen(manifests, source, actors.shape.lease_ms),
                           checkpoint=lambda _: source or "")
        if said.told != "taken":
            return ""
    again = what == "again" or (what == "seen" and actors.choose(f"{client.name}.again", 2) == 1)
    call = impl.clone(lambda root: manifests_of(world, root), CLONE, ROOT, source, again)
    if what == "stop":
        call = world.clock.timeout(1 + actors.choose(f"{client.name}.stop", ATTEMPT_MS), call)
    said = await asked(actors, client, "clone", call)
    if said.told == "cloned" or said.keys[1] == DETACHED:
        return THERE
    await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.apart", actors.shape.apart_ms))
    return BEGUN if said.told == BEGUN else ""


async def read_it(actors: Actors, client: Client, world: World, impl: Impl) -> None:
    """Read the clone with a reader of its own."""
    instance = await followed(actors, client, world, impl, CLONE)
    if instance is not None:
        await read(actors, client, seq_of(instance), instance.snapshot(), root=CLONE)
        await instance.close()


async def compact(actors: Actors, client: Client, world: World, impl: Impl) -> None:
    """Compact the clone, until there is nothing to do."""
    instance = impl.compactor(stores_of(world, CLONE), CLONE, options_of(actors.shape))
    if await begins(actors, client, instance):
        for _ in range(COMPACTIONS):
            if await compacts(actors, client, instance) != "compacted":
                return


# --- destroyers

async def destroyer(actors: Actors, client: Client, world: World, number: int) -> None:
    """Mark the clone or the database as destroyed, softly or hard, and finish what is marked."""
    shape, impl = actors.shape, actors.build(world, actors.shape, number)
    await begun(actors, client, world)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await world.clock.sleep_ms(1 + actors.choose(f"{client.name}.pause", 4 * shape.apart_ms))
        root = (CLONE, CLONE, ROOT)[actors.choose(f"{client.name}.root", 3)]
        kind = (SOFT, HARD, HARD)[actors.choose(f"{client.name}.kind", 3)]
        if actors.choose(f"{client.name}.marks", 2):
            await mark(actors, client, world, impl, root, kind)
        manifests = manifests_of(world, root)
        said = await said_by(CALLS, "finish", actors.in_time(client, impl.finish(manifests, root, 2 * shape.skew_ms)))
        actors.tell(client, said.told, root.encode(), keys=said.keys)
        if said.told == "destroyed":
            actors.moments += 1
            actors.kept.append(Kept(root, Gone(actors.moments)))


async def mark(actors: Actors, client: Client, world: World, impl: Impl, root: str, kind: str) -> None:
    """Mark a database as destroyed, and fence its WAL."""
    manifests = manifests_of(world, root)
    said = await said_by(CALLS, "mark", actors.in_time(client, impl.mark(manifests, kind, actors.shape.grace_ms)))
    actors.tell(client, said.told, root.encode(), keys=said.keys)
    marked: Any = said.value
    if marked is not None and kind == SOFT:
        await asked(actors, client, "fence", destroy.fence(manifests, root, marked.value, actors.shape.attempts))
