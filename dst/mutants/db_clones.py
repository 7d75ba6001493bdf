"""Mutants of a database and its clone: bugs of cloners, detachers, collectors, and of those who destroy one of the two.

Most are mutants of clones and of destroy, on the real code and on SlateDB's own bytes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.dst.mutants.clones import cloning
from highwater.dst.mutants.destroy import delete_manifests, finish_as, mark_as
from highwater.dst.scenarios.database.cloner import CLONE
from highwater.dst.scenarios.db import Impl
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import named
from highwater.impl.db.db import USUAL, Db, Options
from highwater.impl.db.manifest import FIRST, WrittenManifest, manifests_of
from highwater.impl.errors import NotFound
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import clones, database_gc, destroy
from highwater.impl.protocols.database_gc import Plan
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import NoLatest

Build = Callable[..., Impl]


def instead(**parts: Any) -> Build:
    return lambda world, shape, number: Impl(**parts)


class OpensEarly(Db):
    """Opens a clone that is not initialized."""

    @classmethod
    async def open(cls, world: Any, root: str, options: Options = USUAL) -> Db:
        db = cls(world, root, options)
        await db.manifests.initialise(FIRST)
        db.wal = await db._opened(WrittenManifest(db.manifests, root, db._oldest_snapshot, options.built))
        db._replayed()
        return db


OpensEarly.__name__ = Db.__name__  # callers know writers by the name of production's


async def collect_finals(stores: Stores, root: str, options: database_gc.Options) -> Plan:
    """Collect as if the finals of a clone kept no SST."""
    done, manifests = await database_gc.collect(stores, root, options), stores.manifest
    latest: Manifest = (await manifests.current()).value
    try:
        clone: Manifest = (await manifests_of(manifests.world, CLONE).current()).value
    except NoLatest:
        return done
    finals = {of.final_checkpoint_id for of in clone.external_dbs}
    for one in latest.checkpoints:
        if one.id not in finals:
            continue
        try:
            kept: Manifest = await manifests.read(one.manifest_id)
        except NotFound:
            continue
        for sst in sorted(named(kept) - named(latest)):
            await manifests.world.store.delete(key_of_sst(root, sst))
    return done


async def detach_at_once(stores: clones.StoreOf, path: str) -> list[str]:
    """Detach a clone from its parents, although it names SSTs of theirs."""
    here = stores(path)
    latest = (await clones.opened(here)).value
    for of in latest.external_dbs:
        await clones.release(stores(of.path), of)
        await clones.remove(here, of)
    return [of.final_checkpoint_id or "" for of in latest.external_dbs]


async def finish_open(manifests: MetadataStore, root: str, skew_ms: int = 0) -> list[str]:
    """Delete a database, and leave its boundary where it is."""
    value = (await manifests.drop_ended(skew_ms=skew_ms)).value
    destroy.check_time(value, manifests, skew_ms)
    await destroy.release(manifests, value)
    deleted = await destroy.others_of(manifests, root)
    for key in deleted:
        await manifests.world.store.delete(key)
    return [*deleted, *await delete_manifests(manifests)]


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "clone_not_pinned": ("a clone is initialized, and its parent's checkpoint is not pinned",
                         instead(clone=cloning(pins=False))),
    "clone_misses_log": ("a clone is initialized without the WAL objects that its source has seen",
                         instead(clone=cloning(copies=""))),
    "clone_opened_early": ("a writer opens a clone that is not initialized", instead(db=OpensEarly)),
    "clone_overwrites_log": ("a writer opens a clone that is not initialized, and the copy of the WAL overwrites its rows",
                             instead(db=OpensEarly, clone=cloning(copies="over"))),
    "finals_not_spared": ("a collector deletes the parent's SSTs that only a clone reads", instead(collect=collect_finals)),
    "detached_at_once": ("a clone is detached before it has compacted its parent's SSTs away", instead(detach=detach_at_once)),
    "destroyed_with_clones": ("a database is destroyed, and nobody looks for live clones",
                              instead(mark=partial(mark_as, checks=""), finish=partial(finish_as, pins=False))),
    "destroyed_comes_back": ("a late manifest is put into a database that was destroyed without a tombstone",
                             instead(finish=finish_open)),
}
SEEN = "history:", "call:get", "call:scan"
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "clone_not_pinned": (("call:clone", "refinement:FINAL_FIRST"), ()),
    "clone_misses_log": ((*SEEN, "call:clone"), SEEN),
    "clone_opened_early": (("call:open", "refinement:OPEN_INITIALIZED"), ()),
    "clone_overwrites_log": (
        ("call:clone", "call:open", "refinement:OPEN_INITIALIZED", "refinement:CREATE_IF_ABSENT"), ()),
    "finals_not_spared": (("refinement:sst",), ()),
    "detached_at_once": (("refinement:DETACH_UNNAMED",), SEEN),
    "destroyed_with_clones": (("refinement:CHECK_PINS",), ()),
    "destroyed_comes_back": (("refinement:", *SEEN), SEEN),
}
