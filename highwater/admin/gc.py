"""Plans and runs a collection; the plan is exact if nothing else changes in between."""

from highwater.admin.database import load
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata_boundary import MetadataStore
from highwater.impl.world import World

Row = tuple[str, str, str]  # the file in the database, the action, the reason


def stores_of(world: World, root: str) -> dict[str, MetadataStore]:
    return {"manifest": MetadataStore(world, Namespace(root, "manifest"), ManifestCodec(Phase.WRITE_V2)),
            "compactions": MetadataStore(world, Namespace(root, "compactions"), compactions_slatedb, spare_checkpoints=False)}


async def planned(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Return what a collection would do; nothing is written. Raises ValueError if there is no database."""
    database, now_ms = await load(world, root), world.clock.now_ms()
    if database.is_none:
        raise ValueError("there is no database here, so nothing to collect: check the URL")
    referenced = ManifestCodec().referenced(database.latest, now_ms) if database.latest else frozenset()
    rows = []
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
        within = Namespace("", name)
        old = [file.id for file in files[:-1] if now_ms - file.last_modified_ms > min_age_ms]
        if old:
            rows.append((within.boundary_key, f"advanced to {max(old)}", "first: a late writer is to notice"))
        for file in files:
            what, why = "deleted", "old, and not the latest"
            if file is files[-1]:
                what, why = "kept", "the latest"
            elif file.id not in old:
                what, why = "kept", f"younger than {min_age_ms // 1000} s"
            elif name == "manifest" and file.id in referenced:
                what, why = "kept", "an active checkpoint refers to it"
            rows.append((within.key(file.id), what, why))
    return rows


async def collected(world: World, root: str, min_age_ms: int) -> list[Row]:
    """Run a collection; return what it did. Raises what MetadataStore.collect raises."""
    rows = []
    for name, store in stores_of(world, root).items():
        deleted = await store.collect(min_age_ms)
        boundary = await ObjectStoreBoundaryObject(world, Namespace(root, name)).read()
        rows.append((Namespace("", name).boundary_key, f"is {boundary}", ""))
        rows += [(Namespace("", name).key(file_id), "deleted", "") for file_id in deleted]
    return rows
