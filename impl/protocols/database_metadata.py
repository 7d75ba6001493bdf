"""Safety: every record for which `append` returned is served by each writer that opens later, exactly once. No compaction and
no checkpoint is lost. This holds although writers, compactors, operators and collectors change one manifest at the same time.

A database has two sequences of files, each with its boundary, and a WAL:

    <root>/manifest/      writers, compactors and operators each change their own fields, and keep the others
    <root>/compactions/   the claims of compactors
    <root>/wal/           the records of writers. It has no boundary file: the manifest's replay_after_wal_id is its boundary

Everything here is made of the parts: manifest_compactions, wal_fencing and sequenced metadata. Two rules hold them together:

- An update builds on all fields of the file that it has read, and creates the next file. So no role overwrites another's.
- A client believes what a file says (an epoch, a checkpoint that is missing, how far the WAL is flushed) only if the file's id
  is ahead of a boundary read after the file. Otherwise a late create may have put it where a file was collected.
"""

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.manifest import DATABASE, Checkpoint
from highwater.impl.codecs.json.ssts import name_of, records_of
from highwater.impl.codecs.json.wal import Record, WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import NotFound, OutcomeUnknown, PreconditionFailed
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints, manifest_compactions, wal_fencing
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.checkpoints import CheckpointMissing
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Recognised
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest, ObjectVersionExists
from highwater.impl.protocols.wal_fencing import Known, Wal
from highwater.impl.world import World

Deleted = tuple[list[int], list[int], list[int]]  # the ids of manifests, compactions and WAL objects


def stores_of(world: World, root: str) -> Stores:
    """Return the two sequences of one client. A compactor is made of them: `Compactor(stores)`."""
    return Stores(
        MetadataStore(world, Namespace(root, "manifest"), DATABASE, Policies(epoch="compactor_epoch")),
        MetadataStore(world, Namespace(root, "compactions"), compactions_json,
                      Policies(epoch="compactor_epoch", spare_checkpoints=False)))


async def initialise(stores: Stores) -> None:
    """Create the first files if there are none."""
    await manifest_compactions.initialise(stores)


# --- the writer

class SequencedManifest:
    """The manifest of a WAL as the latest file of a sequence, in which other roles have fields of their own."""

    keeps = True

    def __init__(self, metadata: MetadataStore):
        self.metadata, self.bounded = metadata, metadata.bounded
        self.key = metadata.bounded.storage.namespace.prefix

    async def read(self) -> Known:
        """Return the latest manifest, to build on. If it was not current, the `put` conflicts or is refused."""
        file_id, body = await self.bounded.latest()
        return self._known(file_id, body)

    async def current(self) -> Known:
        """Return the latest manifest, which is ahead of a boundary read after it."""
        return self._known(*await self.bounded.current())

    async def read_again(self, known: Known) -> Known:
        """Return `known` if no later file is listed, else the latest manifest, ahead of a boundary read after it.

        The latest file is never deleted, so a file after it would be listed. Raises NoLatest, InvalidName, InvalidBoundary,
        BoundaryLost, Unavailable.
        """
        for _ in range(self.bounded.storage.read_attempts):
            newer = await self._newer(known.version.id)
            if not newer:
                return known
            try:
                body = await self.bounded.read(newer[-1].id)
            except NotFound:
                continue
            if newer[-1].id > await self.bounded.boundary.read():
                return self._known(newer[-1].id, body)
        raise NoLatest(f"{self.key!r}: the latest file was gone or behind the boundary, {self.bounded.storage.read_attempts} "
                       "times over: this writer is slower than min_age")

    async def _newer(self, file_id: int) -> list[Listed]:
        """List the files after this one."""
        return await self.bounded.list(file_id)

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        """Create the next file: what is known, with the writer's fields of `manifest`, and an SST of its new records.

        Raises PreconditionFailed if another update won. Raises OutcomeUnknown also if the boundary refuses the file, because
        another client may have built on it. Raises ValueError for a checkpoint of the WAL: `checkpoint_all` takes one.
        """
        if manifest.checkpoints:
            raise ValueError("a manifest of a database lists no checkpoints of the WAL: take them with checkpoint_all")
        base: Committed = known.version
        new = manifest.flushed[len(known.manifest.flushed):]
        value = await self._next(base, manifest, new)
        try:
            await self.bounded.create(base.id + 1, self.metadata.codec.encode(value))
        except ObjectVersionExists as error:
            raise PreconditionFailed(str(error)) from None
        except ObjectVersionBehindBoundary as error:
            raise OutcomeUnknown(str(error)) from error
        return Known(manifest, Committed(base.id + 1, value))

    async def _next(self, base: Committed, manifest: WalManifest, new: tuple[Record, ...]) -> Manifest:
        """Return the manifest after `base`, with an SST of the new records if there are any."""
        value = base.value
        return value._replace(writer_epoch=manifest.writer_epoch, replay_after_wal_id=manifest.replay_after,
                              l0=(*value.l0, name_of(new)) if new else value.l0)

    def _known(self, file_id: int, body: bytes) -> Known:
        value: Manifest = self.metadata.decoded(file_id, body)
        flushed = tuple(record for sst in (*value.compacted, *value.l0) for record in records_of(sst))
        return Known(WalManifest(value.writer_epoch, value.replay_after_wal_id, flushed), Committed(file_id, value))


async def open(stores: Stores, root: str, flush_every: int | None = None, attempts: int = 5) -> Wal:
    """Open a new writer with all earlier records; earlier writers are fenced. Raises what wal_fencing.open and
    `SequencedManifest` raise."""
    return await wal_fencing.open(stores.manifest.world, root, flush_every, attempts, SequencedManifest(stores.manifest))


# --- the operator

async def take_checkpoint(manifests: MetadataStore, update_id: str, expiry_ms: int) -> Committed | Recognised:
    """Take a checkpoint of the manifest that lists it first, exactly once however often this is called. Its id is `update_id`.

    It has the records that are flushed by then, and pins no WAL object: flush before to have all.

    Raises CheckpointMissing if an earlier attempt took it, and it has ended and was dropped since. Raises what
    `update_recognised` raises.
    """
    taken = await manifests.update_once(update_id, lambda file_id, m: m.with_update(update_id).with_checkpoint(
        Checkpoint(update_id, file_id, expiry_ms)))
    if not lists(taken.value, update_id):
        raise CheckpointMissing(update_id)
    return taken


async def checkpoint_all(wal: Wal, manifests: MetadataStore, checkpoint: str, lifetime_ms: int | None = None,
                         name: str | None = None) -> Committed | Recognised:
    """Take a checkpoint with every record that this writer has appended when it is called: the scope All of SlateDB's RFC.

    An append that has returned is durable, so the scope Durable is the same for these records. A checkpoint pins no WAL object:
    its records are in SSTs, because the writer flushes first. Raises what `Wal.flush` and `checkpoints.create` raise; after an
    error of the flush there is no checkpoint. It may be called again with the same id.
    """
    await wal.flush()
    return await checkpoints.create(manifests, checkpoint, lifetime_ms, name)


async def renew_checkpoint(manifests: MetadataStore, update_id: str, checkpoint: str, expiry_ms: int) -> Committed | Recognised:
    """Give a checkpoint another expiry, exactly once however often this is called with this `update_id`.

    Raises CheckpointMissing, and what `update_recognised` raises.
    """
    def holds(m: Manifest) -> bool | CheckpointMissing:
        return m.holds(update_id) if lists(m, checkpoint) else CheckpointMissing(checkpoint)

    def renewed(_: int, m: Manifest) -> Manifest:
        return m.with_update(update_id)._replace(checkpoints=tuple(
            one._replace(expiry_ms=expiry_ms) if one.id == checkpoint else one for one in m.checkpoints))

    return await manifests.update_recognised(holds, renewed)


async def drop_checkpoint(manifests: MetadataStore, checkpoint: str) -> Committed | Recognised:
    """Remove a checkpoint that was reported as taken. It may be repeated. Raises what `update_recognised` raises."""
    return await manifests.update_recognised(lambda m: not lists(m, checkpoint), lambda _, m: m._replace(
        checkpoints=tuple(one for one in m.checkpoints if one.id != checkpoint)))


def lists(manifest: Manifest, checkpoint: str) -> bool:
    return any(one.id == checkpoint for one in manifest.checkpoints)


# --- the collector

async def collect(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Run one round of garbage collection in both sequences and the WAL; return the deleted ids of each.

    A manifest is spared while a checkpoint refers to it. Compactions have no checkpoints. A WAL object is behind the
    replay_after of a manifest that is `current`: the latest one may have been put where a file was collected.
    """
    manifests = await stores.manifest.collect(min_age_ms)
    compactions = await stores.compactions.collect(min_age_ms)
    current = SequencedManifest(stores.manifest).current
    return manifests, compactions, await wal_fencing.collect(stores.manifest.world, root, min_age_ms, current)
