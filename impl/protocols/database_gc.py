"""Safety: no object that the latest manifest names is deleted, and none that the manifest of a listed checkpoint names. Nor is
an SST that is uploaded, and that a manifest may still name.

This is the garbage collector of SlateDB's RFC on checkpoints and clones, on our own files and on SlateDB's. A round removes the
checkpoints that have ended, plans what to delete, and deletes it. The plan is a value, so a dry run makes it and shows it.

The order of the reads matters. The SSTs are listed first: an output that is listed later is not in the plan. Then the
compactions file is read, and then the manifest. A compaction leaves the file after the manifest names its outputs. So an output
that was listed is older than no listed compaction, or the manifest names it, or nothing will ever name it
(impl/protocols/database_gc_uploads.py). Files are believed only if they are ahead of a boundary read after them.

Every checkpoint that is listed keeps what its manifest names, also if it has ended: its owner may renew it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.sst_ids import listed, named, newest_l0, time_ms
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, StoreError
from highwater.impl.layout import Namespace, key_of_sst, prefix_of_ssts, sst_of
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest, old_ids
from highwater.impl.world import Entry, World, list_all


class NoDatabase(Definite):
    """No manifest is left: «If no manifest is found, exit.»"""


class CheckpointGone(Definite):
    """The manifest of a checkpoint is gone. Either the checkpoint was removed since the latest manifest was read, or the
    database is damaged. Nothing was deleted."""


class Options(NamedTuple):
    """The rules of a collection. `fences`: empty WAL objects are deleted as others are; a released writer relies on them."""

    min_age_ms: int
    fences: bool = True


class Plan(NamedTuple):
    """The objects that a round deletes: ids of sequenced files and WAL objects, and SSTs.

    `boundaries` are put first; 0: none."""

    manifest: int  # the id of the manifest that says so
    boundaries: tuple[int, int]  # of the manifests, of the compactions
    manifests: tuple[int, ...] = ()
    compactions: tuple[int, ...] = ()
    wal: tuple[int, ...] = ()
    ssts: tuple[str, ...] = ()


# --- the plan

async def plan(stores: Stores, root: str, options: Options, ended: bool = False) -> Plan:
    """Return what a round would delete; nothing is written. `ended`: as if the checkpoints that have ended were removed.

    Raises NoDatabase, CheckpointGone, NoLatest, InvalidName, InvalidBoundary, BoundaryLost, Unavailable.
    """
    world, now_ms = stores.manifest.world, stores.manifest.world.clock.now_ms()
    objects = await list_all(world.store, prefix_of_ssts(root))
    pending = await _compactions(stores.compactions)
    latest, manifest = await _latest(stores.manifest)
    if ended:
        manifest = manifest.without_ended(now_ms)
    held = {file_id: await _held(stores.manifest, file_id) for file_id in sorted(manifest.referenced()) if file_id < latest}
    old = [_old(await store.bounded.list(), last, now_ms, options.min_age_ms)
           for store, last in ((stores.manifest, latest), (stores.compactions, pending[0]))]
    return Plan(
        latest, (max(old[0], default=0), max(old[1], default=0)),
        tuple(file_id for file_id in old[0] if file_id not in manifest.referenced()), tuple(old[1]),
        await _wal(world, root, options, manifest, held.values()),
        _ssts(objects, root, now_ms - options.min_age_ms, pending[1], (manifest, *held.values())))


async def _compactions(store: MetadataStore) -> tuple[int, tuple[str, ...] | None]:
    """Return the id of the latest compactions file, and the compactions in it; None if that is unknown."""
    try:
        latest = await store.current()
    except NoLatest:
        if await store.bounded.list():
            raise
        return 0, None  # no compactor has ever opened, or a release without such files
    return latest.id, listed(latest.value)


async def _latest(store: MetadataStore) -> tuple[int, Manifest]:
    try:
        latest = await store.current()
    except NoLatest as error:
        if await store.bounded.list():
            raise
        raise NoDatabase(f"{store.bounded.storage.namespace.prefix!r} has no manifest: the database is gone") from error
    return latest.id, latest.value


async def _held(store: MetadataStore, file_id: int) -> Manifest:
    try:
        return await store.read(file_id)
    except NotFound:
        key = store.bounded.storage.namespace.key(file_id)
        raise CheckpointGone(f"{key!r} of a checkpoint is gone: run another round, and check the database if it fails as well"
                             ) from None


def _old(files: list[Listed], latest: int, now_ms: int, min_age_ms: int) -> list[int]:
    """Return the ids of the files before the latest that are older than `min_age_ms`."""
    return old_ids([file for file in files if file.id < latest], now_ms, min_age_ms)


async def _wal(world: World, root: str, options: Options, latest: Manifest, held: Iterable[Manifest]) -> tuple[int, ...]:
    """Return the ids of the WAL objects before replay_after that no checkpoint has seen.

    The object at replay_after stays, so that a writer which lists the log finds its end.
    """
    namespace, now_ms = Namespace(root, "wal"), world.clock.now_ms()
    entries = [(namespace.file_id(entry.key), entry) for entry in await list_all(world.store, namespace.prefix)]
    seen = [range(m.replay_after_wal_id + 1, m.wal_id_last_seen + 1) for m in held]
    return tuple(i for i, entry in entries if i is not None and i < latest.replay_after_wal_id
                 and now_ms - entry.last_modified_ms > options.min_age_ms and not any(i in ids for ids in seen)
                 and (options.fences or entry.size_bytes))


def _ssts(objects: list[Entry], root: str, before_ms: int, pending: tuple[str, ...] | None, manifests: tuple[Manifest, ...]
          ) -> tuple[str, ...]:
    """Return the SSTs that no manifest names, and that are not in flight: see impl/protocols/database_gc_uploads.py.

    An SST is old if it was put before `before_ms` by the store's clock, and minted before by its client's.
    """
    newest = newest_l0(manifests[0])
    if pending is None or not newest:
        return ()
    cutoff_ms = min([before_ms, time_ms(newest), *map(time_ms, pending)])
    kept = frozenset[str]().union(*map(named, manifests))
    ssts = [(sst_of(root, entry.key), entry.last_modified_ms) for entry in objects]
    return tuple(sst for sst, put_ms in ssts
                 if sst is not None and sst not in kept and time_ms(sst) < cutoff_ms and put_ms < before_ms)


# --- the deletion

async def delete(stores: Stores, root: str, of: Plan) -> Plan:
    """Delete what is planned; return what was deleted. A delete that fails is left to the next round, with a warning.

    «Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.» Raises what
    `advance` of a boundary raises: nothing was deleted then.
    """
    world = stores.manifest.world
    for store, boundary in zip(stores, of.boundaries):
        if boundary:
            await store.advance_boundary(boundary)
    files = [[i for i in ids if await store.bounded.storage.collect(i)]
             for store, ids in zip(stores, (of.manifests, of.compactions))]
    wal = [i for i in of.wal if await _deleted(world, Namespace(root, "wal").key(i))]
    ssts = [sst for sst in of.ssts if await _deleted(world, key_of_sst(root, sst))]
    return of._replace(manifests=tuple(files[0]), compactions=tuple(files[1]), wal=tuple(wal), ssts=tuple(ssts))


async def _deleted(world: World, key: str) -> bool:
    try:
        await world.store.delete(key)
    except (Definite, OutcomeUnknown) as error:
        world.metrics.warn(f"delete of {key!r} failed, the next round will find it: {error}")
        return False
    return True


# --- rounds

async def collect(stores: Stores, root: str, options: Options) -> Plan:
    """Run one round on one database; return what was deleted. It may be repeated after any error.

    Raises NoDatabase once the database is gone. Raises what `drop_ended`, `plan` and `delete` raise.
    """
    try:
        await stores.manifest.drop_ended()
    except NoLatest:
        await _latest(stores.manifest)
        raise
    return await delete(stores, root, await plan(stores, root, options))


class Collected(NamedTuple):
    """One database of a process that collects several. `collect` runs a round; it raises NoDatabase at the end."""

    name: str
    collect: Any  # () -> Awaitable[Plan]


async def rounds(world: World, databases: Iterable[Collected], pause_ms: int, most: int | None = None) -> None:
    """Run rounds on several databases until all are gone, or `most` rounds.

    A round that fails never stops the others: it is warned of, and the next one begins anew.
    """
    left, done = [*databases], 0
    while left and (most is None or done < most):
        left = [one for one in left if await go_on(world, one)]
        done += 1
        if left:
            await world.clock.sleep_ms(pause_ms)


async def go_on(world: World, database: Collected) -> bool:
    """Run a round on one database; return whether the database is still there."""
    try:
        await database.collect()
    except NoDatabase:
        return False
    except StoreError as error:
        world.metrics.count("database_gc_failures")
        world.metrics.warn(f"a round on {database.name!r} failed, the next one begins anew: {error}")
    return True
