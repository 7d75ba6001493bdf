"""Says which databases a command may build on and make: one that has been destroyed has no state to keep, and a place with
objects of another database is not overwritten.

Nothing here writes. So a command that is refused leaves nothing behind.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from highwater.admin.checkpoints import Unreadable
from highwater.admin.database import NAMES, Aside, deleting, ssts_of
from highwater.admin.gc import ATTEMPTS, PHASES
from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.db import wal
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace, key_of_sst, prefix_of_ssts
from highwater.impl.manifests.readable import gaps
from highwater.impl.protocols import destroy
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing, NotInitialized, found
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.world import World, list_all


class Unusable(Definite):
    """A database has no state that a new one may be made of, or may have none soon."""

    def __init__(self, path: str, why: object):
        super().__init__(f"{path!r}: {why}")


class Taken(Definite):
    """The place of the new database is not free."""


REFUSALS: tuple[type[Exception], ...] = (Unusable, Taken, CheckpointEnded, CheckpointMissing, DatabaseDestroyed, NotInitialized)
TOMBSTONE = "a database was destroyed here, and its boundary 2^63-1 keeps every client out"


class NewestVersion(ManifestCodec):
    """Writes a database's manifests in the newest version that it has read there, so that its clients can read them."""

    version = 0

    def decode(self, body: bytes) -> Manifest:
        manifest = super().decode(body)
        self.at_least(version_of(body))
        return manifest

    def at_least(self, version: int) -> None:
        """Write this version, or a newer one that was read. A new database begins with that of its parent."""
        self.version = max(self.version, version)
        self.phase = PHASES[self.version]


class Patient(MetadataStore):
    """Gives up after some attempts, because an operator waits."""

    async def apply(self, decide: Any, again: bool, attempts: int | None = None, *more: Any, **named: Any) -> Any:
        return await super().apply(decide, again, ATTEMPTS if attempts is None else attempts, *more, **named)


def stores_of_all(world: World) -> Callable[[str], Patient]:
    """Return a function from the path of a database to its manifests."""
    opened: dict[str, Patient] = {}

    def store(path: str) -> Patient:
        if path not in opened:
            opened[path] = Patient(world, Namespace(path, "manifest"), NewestVersion())
        return opened[path]

    return store


# ------------------------------------------------------------------------------------------------------- what may be built on

class Found(NamedTuple):
    """A state of a database: a manifest, and the latest one, which may list the checkpoint that keeps it."""

    path: str
    latest: Committed
    manifest_id: int
    manifest: Manifest


async def database_at(manifests: MetadataStore, path: str) -> Committed:
    """Return the latest manifest of a database. Raises ValueError if there is none, Unusable, Unreadable, and what reads
    raise."""
    try:
        file_id, body = await manifests.bounded.current()
    except (NoLatest, InvalidBoundary):
        if await destroy.is_sealed(manifests):
            raise Unusable(path, TOMBSTONE) from None
        if not await manifests.bounded.list():
            raise ValueError(f"there is no database at {path!r}: correct the URL") from None
        raise
    if await deleting(manifests.world, path):
        raise Unusable(path, "the database has the mark .deleting, so somebody deletes it")
    try:
        return Committed(file_id, manifests.decoded(file_id, body))
    except Definite as error:
        raise Unreadable(f"manifest {file_id} of {path!r}, the latest, cannot be read: {error}") from error


async def source_at(manifests: MetadataStore, path: str, checkpoint: str | None, latest: Committed) -> Found:
    """Return the state that a new database can be made of. `latest`: what `database_at` returned.

    Raises ValueError for a checkpoint that is not listed; Unusable for a database that is not initialized or is destroyed, and
    for a checkpoint that has ended or has lost its manifest; and what reads raise."""
    if not latest.value.initialized:
        raise Unusable(path, "it is an unfinished clone, whose SSTs are not pinned yet: finish it first")
    if mark := mark_of(latest.value):
        raise Unusable(path, DatabaseDestroyed(mark))
    if checkpoint is None:
        return Found(path, latest, *latest)
    entry = found(latest.value, checkpoint)
    if entry is None:
        raise ValueError(f"{path!r}: {CheckpointMissing(checkpoint)}")
    if not entry.active(manifests.world.clock.now_ms()):
        raise Unusable(path, CheckpointEnded(checkpoint))
    try:
        return Found(path, latest, entry.manifest_id, await manifests.read(entry.manifest_id))
    except NotFound:
        raise Unusable(path, f"checkpoint {checkpoint} keeps manifest {entry.manifest_id}, which is not there: take another "
                       "one, and see `highwater admin check`") from None


async def check_ssts(stores: Callable[[str], MetadataStore], external_dbs: tuple[ExternalDb, ...],
                     known: Mapping[str, Committed]) -> dict[str, Committed]:
    """Check that the SSTs of a new database are there, and can be kept: their checkpoints are listed in the databases that own
    them. The id of a checkpoint that is still to be taken is "". Return the latest manifests of the owners, by their paths:
    those that are `known`, and the others as they are read.

    Raises Unusable, Unreadable, and what reads raise."""
    latest = dict(known)
    for of in external_dbs:
        reads = f"{len(of.sst_ids)} of its SSTs are to be shared"
        if of.path not in latest:
            try:
                latest[of.path] = await database_at(stores(of.path), of.path)
            except ValueError:
                raise Unusable(of.path, f"{reads}, but there is no database: restore it, or see `highwater admin check` of the "
                               "source") from None
        owner = latest[of.path].value
        if of.source_checkpoint_id and found(owner, of.source_checkpoint_id) is None:
            raise Unusable(of.path, f"{reads}, but checkpoint {of.source_checkpoint_id}, which should keep them, is not "
                           "listed: see `highwater admin check` of the source")
        if mark := mark_of(owner):
            raise Unusable(of.path, DatabaseDestroyed(mark))
        there = await ssts_of(stores(of.path).world, of.path, Aside([], set())) if of.sst_ids else {}
        if missing := [sst for sst in of.sst_ids if sst not in there]:
            raise Unusable(of.path, f"{reads}, but {missing[0]} is not there ({len(missing)} such): see `highwater admin "
                           "check`")
    return latest


def shown(manifest: Manifest) -> object:
    """Return what a manifest shows: its views without their ids, and the WAL that it has seen."""
    l0, *runs = ([(view.sst_id, view.visible_range) for view in views]
                 for views in (manifest.l0, *(run.views for run in manifest.compacted)))
    log = manifest.wal_id_last_seen - manifest.replay_after_wal_id
    return l0, runs, [run.id for run in manifest.compacted], manifest.last_l0_seq, log


class Log(NamedTuple):
    """The WAL behind a manifest. `missing`: objects that the manifest has seen, and that are not there."""

    seen: tuple[int, ...]
    later: tuple[int, ...]  # which the manifest has not seen
    missing: tuple[range, ...]  # runs of ids


async def log_behind(world: World, path: str, manifest: Manifest) -> Log:
    """Return the WAL objects that are not flushed by this manifest."""
    there = await wal.ids_after(world.store, Namespace(path, "wal"), manifest.replay_after_wal_id)
    expected = range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1)
    return Log(tuple(i for i in there if i in expected), tuple(i for i in there if i >= expected.stop),
               tuple(gaps(there, expected.start, manifest.wal_id_last_seen)))


async def without_rows(world: World, path: str, manifest: Manifest, ids: tuple[int, ...]) -> frozenset[int]:
    """Return those of some WAL objects that have no row behind the SSTs: fences, and what was flushed meanwhile."""
    keys = {i: Namespace(path, "wal").key(i) for i in ids}
    return frozenset([i for i, key in keys.items() if all(
        row.seq <= manifest.last_l0_seq for row in wal.rows_of(key, (await world.store.get(key)).body))])


# ----------------------------------------------------------------------------------------------------------- what may be made

async def check_unopened(world: World, path: str, attempt: Manifest) -> None:
    """Check that no writer has put anything into an unfinished database that is to be begun again. Raises Taken."""
    shared = {sst for of in attempt.external_dbs for sst in of.sst_ids}
    own = [key_of_sst(path, sst.id) for sst in attempt.ssts if sst.id not in shared]
    later = await wal.ids_after(world.store, Namespace(path, "wal"), attempt.wal_id_last_seen)
    if left := [*own, *(Namespace(path, "wal").key(i) for i in later)]:
        raise Taken(f"{path!r} is unfinished, but has {left[0]!r}: a writer has opened it, and would lose what it wrote, so "
                    "it is not begun again; give another place")


async def place_at(manifests: MetadataStore, path: str) -> Committed | None:
    """Return the latest manifest at the place of a new database; None if the place is free.

    Raises Taken if it has objects and no manifest, Unusable if its database is destroyed, and what `database_at` raises."""
    page = await manifests.world.store.list_page(f"{path}/" if path else "")
    if not page.entries and not page.truncated:
        return None
    if await destroy.is_sealed(manifests):
        raise Unusable(path, f"{TOMBSTONE}: choose another place")
    if await manifests.bounded.list():
        latest = await database_at(manifests, path)
        if mark := mark_of(latest.value):
            raise Unusable(path, DatabaseDestroyed(mark))
        return latest
    boundaries = [Namespace(path, name).boundary_key for name in NAMES]
    folders = [Namespace(path, name).prefix for name in (*NAMES, "wal")]
    for prefix in (*boundaries, *folders, prefix_of_ssts(path)):
        if left := await list_all(manifests.world.store, prefix):
            raise Taken(f"there is no manifest at {path!r}, but {left[0].key!r}: this is left of another database, whose rows "
                        "could appear in the new one, so delete it or choose another place")
    return None
