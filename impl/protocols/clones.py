"""Safety: whatever an initialized clone names is there, in its own database and in those that it was cloned from. So it is for
its checkpoints. A clone has the rows of its source, and no copy overwrites a WAL object that somebody has written.

These are the clones of SlateDB's RFC on checkpoints and clones. A clone's manifest is created uninitialized, with an entry for
each database whose SSTs it names. Each entry has a final checkpoint there, made from a source while that is listed. Then the
WAL objects that the source has seen are copied, and the clone is initialized.

`clone` may be called again after any error, from another process if need be: it continues what it finds. If the source is gone,
`restart` begins the attempt again from another one. Its finals are new, because those of the attempt before may be listed with
other SSTs. Its source must have seen as much of the WAL: the copies of the attempt before stay, and a copy may land later.

The entries of the attempt before name no SST any more. `detach` removes such entries, and those that compaction has emptied:
the final checkpoint first, and then the entry, by which the checkpoint is found.
"""

from collections.abc import Callable, Mapping

from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import AlreadyExists, NotFound, StoreError, TimedOut, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing, NotInitialized, found
from highwater.impl.protocols.clones_manifest import (
    AttemptReplaced,
    NotPinned,
    Said,
    Source,
    SourceBehind,
    WalObjectMissing,
    attempt_in,
    check_parent,
    cloned,
    entry_in,
)
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, is_sealed
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import FIRST_ID, NoLatest, ObjectVersionExists

EPHEMERAL_MS = 300_000  # «Ephemeral checkpoint will have TTL of 5 minutes»
StoreOf = Callable[[str], MetadataStore]  # the manifests of the database at a path


# --- the steps, in their order

async def source_of(manifests: MetadataStore, checkpoint: str | None, known: Said | None = None) -> Source:
    """Return the checkpoint to clone. None: take one of the latest manifest, which lasts five minutes. `known`: the latest
    manifest, which has just been read.

    Raises CheckpointMissing, CheckpointEnded, NotInitialized, NotFound if its manifest is gone, and what reads raise."""
    if checkpoint is None:
        own = checkpoints.new_id(manifests)
        taken = await checkpoints.create(manifests, own, EPHEMERAL_MS, base=known)
        entry = found(taken.value, own)
        value = taken.value if entry.manifest_id == taken.id else await manifests.read(entry.manifest_id)
        return Source(own, value, taken)
    latest = known or await manifests.current()
    if not manifests.codec.is_initialized(latest.value):
        raise NotInitialized(manifests.bounded.storage.namespace.prefix)
    entry = found(latest.value, checkpoint)
    if entry is None or not entry.active(manifests.world.clock.now_ms()):
        raise CheckpointEnded(checkpoint) if entry else CheckpointMissing(checkpoint)
    return Source(checkpoint, await manifests.read(entry.manifest_id), latest)


async def existing(manifests: MetadataStore) -> Recognised | None:
    """Return the latest manifest at the clone's path; None if there is none."""
    if not await manifests.bounded.list():
        return None
    latest = await manifests.current()
    return Recognised(latest.id, latest.value)


async def begin(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Create the clone's first manifest; Recognised if another cloner was faster. Raises what `create` and `current` raise."""
    return await first(manifests, cloned(manifests, parent, source))


async def first(manifests: MetadataStore, value: Manifest) -> Said:
    """Create the first manifest of a database; return the one that is there, as Recognised, if there is one."""
    try:
        await manifests.bounded.create(FIRST_ID, manifests.codec.encode(value))
    except ObjectVersionExists:
        latest = await manifests.current()
        return Recognised(latest.id, latest.value)
    return Committed(FIRST_ID, value)


async def restart(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Begin the attempt again from another source; Recognised if the clone is initialized. Raises OtherParent, SourceBehind,
    DatabaseDestroyed: the mark of a destroyed clone would be gone.

    The epochs do not go back: a released writer may have opened the attempt before, and is fenced then."""
    value: list[Manifest] = []

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if manifests.codec.is_initialized(manifest):
            return Verdict(Recognised(latest, manifest))
        if value and attempt_in(manifest) == attempt_in(value[0]):
            return Verdict(Recognised(latest, manifest))
        check_parent(manifest, parent, None)
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        if source.value.wal_id_last_seen < manifest.wal_id_last_seen:
            return Verdict(SourceBehind(f"{source.id!r} has seen WAL object {source.value.wal_id_last_seen}, and the attempt "
                                        f"before {manifest.wal_id_last_seen}: take a later checkpoint"))
        new = cloned(manifests, parent, source, manifest.external_dbs)
        value[:] = [new._replace(writer_epoch=max(new.writer_epoch, manifest.writer_epoch + 1),
                                 compactor_epoch=max(new.compactor_epoch, manifest.compactor_epoch))]
        return Put(value[0])

    return checkpoints.done(await manifests.apply(decide, True))


async def pin(manifests: MetadataStore, entry: ExternalDb, base: Said | None = None) -> Said:
    """Make the final checkpoint of an entry, if it is not listed. `base`: a manifest to build on without reading it again.

    Raises CheckpointMissing if the source is gone, DatabaseDestroyed, and what `apply` raises."""
    final = entry.final_checkpoint_id or ""

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if found(manifest, final):
            return Verdict(Recognised(latest, manifest))
        source = found(manifest, entry.source_checkpoint_id)
        if source is None:
            return Verdict(CheckpointMissing(entry.source_checkpoint_id))
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        kept = manifests.codec.checkpoint.taken(final, source.manifest_id, 0, manifests.world.clock.now_ms(), None)
        return Put(manifest.with_checkpoint(kept))

    return checkpoints.done(await manifests.apply(decide, True, attempt=manifests.after(base)))


async def copy_wal(manifests: MetadataStore, parent: str, path: str, manifest: Manifest) -> int:
    """Copy the WAL objects that the source has seen, where there is none yet; return their number.

    Raises WalObjectMissing, and what the store raises. It may be repeated."""
    store, there, here = manifests.world.store, Namespace(parent, "wal"), Namespace(path, "wal")
    ids = range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1)
    for i in ids:
        try:
            body = (await store.get(there.key(i))).body
        except NotFound:
            raise WalObjectMissing(f"{there.key(i)!r} is gone: begin again from another source") from None
        try:
            await store.create(here.key(i), body)
        except AlreadyExists:
            pass  # another cloner, or an earlier attempt, has copied it: an object of the parent never changes
    return len(ids)


async def initialize(manifests: MetadataStore, attempt: Said) -> Said:
    """Say in the clone's manifest that it is complete, if the attempt is still this one.

    Raises AttemptReplaced, DatabaseDestroyed."""
    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if manifests.codec.is_initialized(manifest):
            return Verdict(Recognised(latest, manifest))
        if attempt_in(manifest) != attempt_in(attempt.value):
            return Verdict(AttemptReplaced("another cloner has begun again from another source: call again"))
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        return Put(manifest._replace(initialized=True))

    return checkpoints.done(await manifests.apply(decide, True, attempt=manifests.after(attempt)))


async def check_pinned(stores: StoreOf, manifest: Manifest) -> None:
    """Check that all finals of an initialized clone are listed. Raises NotPinned."""
    for of in manifest.external_dbs:
        if manifest.uses(of) and not found((await stores(of.path).current()).value, of.final_checkpoint_id or ""):
            raise NotPinned(f"final checkpoint {of.final_checkpoint_id!r} is not listed in {of.path!r}: restore that database")


# --- the calls

async def clone(stores: StoreOf, path: str, parent: str, checkpoint: str | None = None, again: bool = False,
                known: Mapping[str, Said] | None = None) -> Said:
    """Clone a parent into a path, or finish a clone that is there; return its initialized manifest.

    `again`: begin again from this checkpoint, or from the latest state, if the clone is not initialized. `known`: the caller
    has just seen that nothing is at the path, and these latest manifests of other databases, by their paths: they list the
    sources, and are not read again.

    It may be called again after any error. Raises OtherParent, NotPinned, SourceBehind, CheckpointMissing, CheckpointEnded,
    NotInitialized, DatabaseDestroyed, AttemptReplaced, WalObjectMissing, and what `apply` raises.
    """
    here, seen = stores(path), dict(known or {})
    attempt = None if known else await existing(here)
    if attempt is None:
        source = await source_of(stores(parent), checkpoint, seen.get(parent))
        seen[parent] = source.parent
        attempt = await begin(here, parent, source)
    elif again and not here.codec.is_initialized(attempt.value):
        attempt = await restart(here, parent, await source_of(stores(parent), checkpoint))
    if isinstance(attempt, Recognised):
        seen = {}  # they may not list the sources of this attempt yet
        check_parent(attempt.value, parent, None if again else checkpoint)
    if here.codec.is_initialized(attempt.value):
        await check_pinned(stores, attempt.value)
        return attempt
    try:
        for at, of in enumerate(attempt.value.external_dbs):
            if of.sst_ids or at == 0:
                seen[of.path] = await pin(stores(of.path), of, seen.get(of.path))
        await copy_wal(here, parent, path, attempt.value)
        return await initialize(here, attempt)
    except (Unavailable, TimedOut):
        raise  # the store does not answer, or nobody waits any more
    except StoreError:
        await give_up(stores, path, attempt.value)
        raise


async def give_up(stores: StoreOf, path: str, attempt: Manifest) -> None:
    """Release the finals of an attempt that has failed, if nobody can complete it any more.

    It was replaced, or the clone was destroyed meanwhile: what destroys it releases the finals that are listed by then, and
    later nobody finds their ids. If this fails, too, finals may stay, as after a crash."""
    try:
        if await is_over(stores(path), attempt):
            for of in attempt.external_dbs:
                await release(stores(of.path), of)
    except StoreError as error:
        stores(path).world.metrics.warn(f"final checkpoints of an attempt to make {path!r} may stay listed in "
                                        f"{[of.path for of in attempt.external_dbs]}: {error}")


async def is_over(manifests: MetadataStore, attempt: Manifest) -> bool:
    """Return whether nobody can complete this attempt any more."""
    try:
        latest = (await manifests.current()).value
    except (NoLatest, InvalidBoundary):
        return await is_sealed(manifests)
    replaced = attempt_in(latest) != attempt_in(attempt)
    return not manifests.codec.is_initialized(latest) and (replaced or mark_of(latest) is not None)


async def detach(stores: StoreOf, path: str) -> list[str]:
    """Remove the entries of which neither the latest manifest nor a checkpoint uses an SST; return their finals.

    The final goes first. A detach that stops is continued by the next one. Raises NotInitialized, and what `apply` raises.
    """
    here = stores(path)
    latest = (await here.current()).value
    if not here.codec.is_initialized(latest):
        raise NotInitialized(here.bounded.storage.namespace.prefix)
    held = [await here.read(i) for i in sorted(latest.referenced())] if latest.external_dbs else []
    gone = []
    for of in latest.external_dbs:
        entries = [(manifest, entry_in(manifest, of)) for manifest in (latest, *held)]  # each has its own SSTs of it
        if not any(entry and manifest.uses(entry) for manifest, entry in entries):
            await release(stores(of.path), of)
            await remove(here, of)
            gone.append(of.final_checkpoint_id or "")
    return gone


async def release(manifests: MetadataStore, entry: ExternalDb) -> None:
    """Delete a final checkpoint, if it is listed."""
    if entry.final_checkpoint_id:
        try:
            await checkpoints.delete(manifests, entry.final_checkpoint_id)
        except CheckpointMissing:
            pass  # another detach was faster, or it was never made


async def remove(manifests: MetadataStore, entry: ExternalDb) -> Said:
    """Remove an entry whose final checkpoint is gone."""
    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if not entry_in(manifest, entry):
            return Verdict(Recognised(latest, manifest))
        left = tuple(of for of in manifest.external_dbs if of.final_checkpoint_id != entry.final_checkpoint_id)
        return Put(manifest._replace(external_dbs=left))

    return checkpoints.done(await manifests.apply(decide, True))


# --- a writer

async def opened(manifests: MetadataStore) -> Committed:
    """Return the manifest that a writer may build on. Raises NotInitialized, and what `current` raises.

    A writer that opens a clone before it is initialized loses acknowledged rows: the WAL copy has the same ids."""
    latest = await manifests.current()
    if not manifests.codec.is_initialized(latest.value):
        raise NotInitialized(manifests.bounded.storage.namespace.prefix)
    return latest
