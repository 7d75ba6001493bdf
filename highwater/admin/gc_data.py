"""Plans and runs a collection of all that a database no longer needs: its files, WAL objects and SSTs.

The plan is a value that one function makes, for a dry run as for a collection: impl/protocols/database_gc.py. Empty WAL objects
are the fences of released writers, which rely on them, so they stay.
"""

from highwater.admin.database import load
from highwater.admin.gc import Row, dropped, stores_of, update_of
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import database_gc
from highwater.impl.protocols.database_gc import NoDatabase, Options, Plan
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.world import World

WHY = "neither the latest manifest nor that of a listed checkpoint needs it"


async def planned(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Return what a collection would do; nothing is written. Raises ValueError if there is no database."""
    database = await load(world, root)
    rows, after = update_of(database, world.clock.now_ms())
    try:
        plan = await database_gc.plan(Stores(*stores_of(world, root).values()), root, options(min_age_ms),
                                      ended=after != database.latest)
    except NoDatabase:
        raise ValueError("there is no database here, so nothing to collect: check the URL") from None
    return [*rows, *rows_of(plan)]


async def collected(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Run a collection; return what it did. Raises what `plan` and `delete` of impl/protocols/database_gc.py raise."""
    stores = Stores(*stores_of(world, root).values())
    rows = await dropped(stores.manifest)
    plan = await database_gc.plan(stores, root, options(min_age_ms))
    return [*rows, *rows_of(await database_gc.delete(stores, root, plan))]


def options(min_age_ms: int) -> Options:
    return Options(min_age_ms, fences=False)


def rows_of(plan: Plan) -> list[Row]:
    names = {name: Namespace("", name) for name in ("manifest", "compactions", "wal")}
    rows = [(names[name].boundary_key, f"advanced to {boundary}", "first: a late writer is to notice")
            for name, boundary in zip(("manifest", "compactions"), plan.boundaries) if boundary]
    files = (("manifest", plan.manifests), ("compactions", plan.compactions), ("wal", plan.wal))
    keys = [*(names[name].key(i) for name, ids in files for i in ids), *(key_of_sst("", sst) for sst in plan.ssts)]
    return [*rows, *((key, "deleted", WHY) for key in keys)]
