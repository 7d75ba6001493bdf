"""Detaches a SlateDB database from those that it was cloned from; impl/protocols/clones.py is the protocol.

Only an external database of which neither the latest manifest nor a checkpoint uses an SST is left: first its checkpoint there
is deleted, and then the entry here.
"""

from typing import NamedTuple

from highwater.admin import several
from highwater.admin.several import Unusable, database_at, stores_of_all
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import Indefinite, NotFound
from highwater.impl.protocols import clones
from highwater.impl.protocols.clones_manifest import entry_in, named_by
from highwater.impl.world import World

REFUSALS = several.REFUSALS  # for the sake of safety


class Kept(NamedTuple):
    """An external database that is still needed. `ssts`: how many of its SSTs each user has: "the latest manifest", or a
    checkpoint."""

    entry: ExternalDb
    ssts: dict[str, int]


class Detached(NamedTuple):
    """The result of a detach: the entries that are removed, or would be, and those that stay."""

    path: str
    detached: list[ExternalDb]
    kept: list[Kept]


class InDoubt(Indefinite):
    """The command stopped on the way."""


async def detached(world: World, path: str, gone: bool, dry_run: bool) -> Detached:
    """Remove the entries that nothing needs. With `dry_run` nothing is written.

    `gone`: also of parents that have no manifest any more, so that no checkpoint can be deleted there. Raises REFUSALS,
    ValueError if there is no database, and InDoubt.
    """
    stores = stores_of_all(world)
    found = await uses(stores, path)
    for entry in found.detached:
        if not gone and not await stores(entry.path).bounded.list():
            raise Unusable(path, f"there is no manifest at {entry.path!r}, where checkpoint {entry.final_checkpoint_id} should "
                           "be deleted: if that database is gone for good, give --parent-gone")
    if dry_run:
        return found
    try:
        if gone:
            for entry in found.detached:
                if not await stores(entry.path).bounded.list():
                    await clones.remove(stores(path), entry)
        await clones.detach(stores, path)
    except Indefinite as error:
        raise InDoubt(f"a checkpoint in a parent may be deleted, and the entry here may stay: give the command again ({error})"
                      ) from error
    return found


async def uses(stores: clones.StoreOf, path: str) -> Detached:
    """Return what a detach would do. Raises Unusable, and what `database_at` raises."""
    latest = (await database_at(stores(path), path)).value
    if not latest.initialized:
        raise Unusable(path, "it is an unfinished clone: finish it, or destroy it")
    users = [("the latest manifest", latest)]
    for one in latest.checkpoints if latest.external_dbs else ():
        try:
            users.append((f"checkpoint {one.id}", await stores(path).read(one.manifest_id)))
        except NotFound:
            raise Unusable(path, f"checkpoint {one.id} keeps manifest {one.manifest_id}, which is not there, so nobody can "
                           "tell what it needs: delete the checkpoint") from None
    removed: list[ExternalDb] = []
    kept: list[Kept] = []
    for entry in latest.external_dbs:
        own = {user: there for user, manifest in users if (there := entry_in(manifest, entry)) and manifest.uses(there)}
        ssts = {user: len(named_by(manifest) & {*own[user].sst_ids}) for user, manifest in users if user in own}
        if ssts:
            kept.append(Kept(entry, ssts))
        else:
            removed.append(entry)
    return Detached(path, removed, kept)
