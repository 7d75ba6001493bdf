"""Plans and runs a collection; the plan is exact if nothing else changes in between.

Expired checkpoints are removed first, by an update of the manifest. The collection then spares every checkpoint that is listed:
a released client may refresh one that has expired, and is told that it succeeded.
"""

from highwater.admin.database import Database, load
from highwater.impl.codecs.manifest import CannotHold, Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields
from highwater.impl.codecs.slatedb.manifest import PHASES, ManifestCodec, SameVersion
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies
from highwater.impl.world import World

Row = tuple[str, str, str]  # the file in the database, the action, the reason
MANIFESTS = Namespace("", "manifest")
ATTEMPTS = 20  # of the removal of expired checkpoints, after conflicts and failures of the store


def stores_of(world: World, root: str) -> dict[str, MetadataStore]:
    return {"manifest": MetadataStore(world, Namespace(root, "manifest"), SameVersion()),
            "compactions": MetadataStore(world, Namespace(root, "compactions"), compactions_slatedb,
                                         Policies(spare_checkpoints=False))}


async def planned(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Return what a collection would do; nothing is written. Raises ValueError if there is no database."""
    database, now_ms = await load(world, root), world.clock.now_ms()
    if database.is_none:
        raise ValueError("there is no database here, so nothing to collect: check the URL")
    rows, after = update_of(database, now_ms)
    referenced = after.referenced() if after else frozenset()
    written = after != database.latest
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
        within = Namespace("", name)
        last = None if name == "manifest" and written else files[-1] if files else None
        old = [file.id for file in files if file is not last and now_ms - file.last_modified_ms > min_age_ms]
        if old:
            rows.append((within.boundary_key, f"advanced to {max(old)}", "first: a late writer is to notice"))
        for file in files:
            what, why = "deleted", "old, and not the latest"
            if file is last:
                what, why = "kept", "the latest"
            elif file.id not in old:
                what, why = "kept", f"younger than {min_age_ms // 1000} s"
            elif name == "manifest" and file.id in referenced:
                what, why = "kept", "a checkpoint refers to it"
            rows.append((within.key(file.id), what, why))
    return rows


def update_of(database: Database, now_ms: int) -> tuple[list[Row], Manifest | None]:
    """Return the rows for the checkpoints that have expired, and the latest manifest after their removal."""
    latest = database.latest
    if latest is None:
        return [], None
    file, after = database.manifests[-1], latest.without_ended(now_ms)
    ended = [one for one in latest.checkpoints if one not in after.checkpoints]
    try:
        ManifestCodec(PHASES[file.version]).encode(after)
    except (NewerFields, CannotHold) as error:
        return ([not_removed(file.id, error)] if ended else []), latest
    key = MANIFESTS.key(file.id + 1)
    return [(key, "created", f"without checkpoint {one.id} of manifest {one.manifest_id}: expired") for one in ended], after


def not_removed(file_id: int, error: Exception) -> Row:
    return MANIFESTS.key(file_id), "kept", f"its expired checkpoints stay, and what they refer to: {error}"


async def collected(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Run a collection; return what it did. Raises what MetadataStore.drop_ended and MetadataStore.collect raise."""
    rows = []
    for name, store in stores_of(world, root).items():
        if name == "manifest":
            rows += await dropped(store)
        deleted = await store.collect(min_age_ms)
        boundary = await ObjectStoreBoundaryObject(world, Namespace(root, name)).read()
        rows.append((Namespace("", name).boundary_key, f"is {boundary}", ""))
        rows += [(Namespace("", name).key(file_id), "deleted", "") for file_id in deleted]
    return rows


async def dropped(manifests: MetadataStore) -> list[Row]:
    """Remove the checkpoints that have expired. One manifest that we cannot write again keeps them, and the rest goes on."""
    try:
        done = await manifests.drop_ended(ATTEMPTS)
    except (NewerFields, CannotHold) as error:
        return [not_removed((await manifests.current()).id, error)]
    return [(MANIFESTS.key(done.id), "created", "without the checkpoints that have expired")] \
        if isinstance(done, Committed) else []
