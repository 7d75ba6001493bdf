"""Safety: while a checkpoint is listed, the manifest that it names stays, and so does what that manifest names. A checkpoint
that a caller was told it has, or has renewed, is listed until it is deleted or its lease has ended.

A checkpoint is an entry of the manifest: its id, the manifest that it keeps, and a lease. All changes are updates of the one
manifest sequence (sequenced_metadata), so whoever creates the next file decides. A collector removes ended entries by such an
update (`MetadataStore.drop_ended`), and then spares every entry that is listed.

Two things differ between forms of manifests, and each codec's `Checkpoint` knows them: how an id is written, and to which unit
a lease is rounded (up).

A caller that got an Indefinite error calls again with the same id. Then nothing is done twice.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Attempt, Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import old_ids


class CheckpointMissing(Definite):
    """No checkpoint with this id is listed: it was never taken, or it was deleted or dropped. What it kept may be gone."""

    def __init__(self, checkpoint: str):
        self.checkpoint = checkpoint
        super().__init__(f"checkpoint {checkpoint!r} is not listed: take another one")


class CheckpointEnded(Definite):
    """The lease of this checkpoint has ended by the caller's clock. A collector may drop it at any time."""

    def __init__(self, checkpoint: str):
        self.checkpoint = checkpoint
        super().__init__(f"the lease of checkpoint {checkpoint!r} has ended: take another one")


class NotInitialized(Definite):
    """The database is a clone that is not complete yet, so it has no state to keep."""

    def __init__(self, prefix: str):
        super().__init__(f"{prefix!r}: the database is not initialized: finish its cloning first")


def new_id(manifests: MetadataStore) -> str:
    """Return a new id for a checkpoint, in the form of the sequence's codec."""
    return manifests.codec.checkpoint.id_of(manifests.world.ids.new_id())


def expiry_ms(manifests: MetadataStore, lifetime_ms: int | None) -> int:
    """Return the time at which a lease that begins now ends; 0: never. Raises ValueError."""
    if lifetime_ms is None:
        return 0
    if lifetime_ms < 1:
        raise ValueError(f"a lifetime of {lifetime_ms} ms: it must be at least 1 ms; None: it never ends")
    return manifests.world.clock.now_ms() + lifetime_ms


async def create(manifests: MetadataStore, checkpoint: str, lifetime_ms: int | None = None, name: str | None = None,
                 source: str | None = None, attempts: int | None = None,
                 also: Callable[[Manifest], Awaitable[Manifest]] | None = None, base: Committed | Recognised | None = None
                 ) -> Committed | Recognised:
    """Take a checkpoint with this id, exactly once however often this is called while it is listed.

    Without `source` it keeps the manifest that lists it first, which has all that its predecessor has. With `source` it keeps
    what that checkpoint keeps. The source is looked up in the manifest that the new entry is added to, so it is listed until
    then. `also` makes what else changes with the same update. `base`: a manifest to build on without reading it again.

    Raises CheckpointMissing or CheckpointEnded for the source, NotInitialized, DatabaseDestroyed, ValueError for a lifetime
    below 1 ms or an expiry that the form cannot hold, and what `MetadataStore.apply` raises.
    """
    now_ms, ends_ms = manifests.world.clock.now_ms(), expiry_ms(manifests, lifetime_ms)
    entry = manifests.codec.checkpoint.taken(checkpoint, 0, ends_ms, now_ms, name)

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if found(manifest, checkpoint):
            return Verdict(Recognised(latest, manifest))
        if not manifests.codec.is_initialized(manifest):
            return Verdict(NotInitialized(manifests.bounded.storage.namespace.prefix))
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        keeps = latest + 1
        if source is not None:
            of = found(manifest, source)
            if of is None or not of.active(manifests.world.clock.now_ms()):
                return Verdict(CheckpointEnded(source) if of else CheckpointMissing(source))
            keeps = of.manifest_id
        manifest = await also(manifest) if also else manifest
        return Put(manifest.with_checkpoint(entry._replace(manifest_id=keeps)))

    return done(await manifests.apply(decide, True, attempts, attempt=manifests.after(base)))


async def refresh(manifests: MetadataStore, checkpoint: str, lifetime_ms: int | None = None, attempts: int | None = None
                  ) -> Committed | Recognised:
    """Let a listed checkpoint's lease end `lifetime_ms` after this call began; None: never. Nothing else of it changes.

    Raises CheckpointMissing, CheckpointEnded, DatabaseDestroyed, ValueError as `create` does, and what `MetadataStore.apply`
    raises.
    """
    ends_ms = expiry_ms(manifests, lifetime_ms)

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        entry = found(manifest, checkpoint)
        if entry is None:
            return Verdict(CheckpointMissing(checkpoint))
        renewed = entry.renewed(ends_ms)
        if entry == renewed:
            return Verdict(Recognised(latest, manifest))
        if not entry.active(manifests.world.clock.now_ms()):
            return Verdict(CheckpointEnded(checkpoint))
        if mark := mark_of(manifest):
            return Verdict(DatabaseDestroyed(mark))
        return Put(manifest._replace(checkpoints=tuple(renewed if one is entry else one for one in manifest.checkpoints)))

    return done(await manifests.apply(decide, True, attempts))


async def delete(manifests: MetadataStore, checkpoint: str, attempts: int | None = None) -> Committed | Recognised:
    """Remove a checkpoint. What only it kept may be collected from then on.

    Nothing is written if it is not listed. Raises CheckpointMissing then, unless an earlier try of this call may have removed
    it; and what `MetadataStore.apply` raises.
    """
    attempt = Attempt()

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        if found(manifest, checkpoint) is None:
            return Verdict(Recognised(latest, manifest) if attempt.doubt else CheckpointMissing(checkpoint))
        return Put(manifest._replace(checkpoints=tuple(one for one in manifest.checkpoints if one.id != checkpoint)))

    return done(await manifests.apply(decide, True, attempts, attempt=attempt))


async def listed(manifests: MetadataStore, name: str | None = None) -> tuple[Any, ...]:
    """Return the checkpoints of the latest manifest in their order, also those whose lease has ended.

    `name`: only those with this name; "": only those without one. Names need not be unique. Raises what
    `MetadataStore.current` raises.
    """
    entries = (await manifests.current()).value.checkpoints
    return entries if name is None else tuple(one for one in entries if (one.name or "") == name)


# --- the collector

async def collect(manifests: MetadataStore, root: str, min_age_ms: int, skew_ms: int = 0) -> tuple[list[int], list[str]]:
    """Run one round of garbage collection of manifests and SSTs; return the ids and the names that it deleted.

    It removes the checkpoints that have ended, and treats each one that is still listed as in force. It deletes the SSTs that
    manifests to be deleted name, and neither the latest one nor that of a checkpoint, and then those manifests. So an SST that
    is in no manifest yet is left alone, and a round that stops is continued by the next one.

    A client must upload another SST after an update with an unknown outcome: the manifest that it created may be in no history,
    and still name the first one. `skew_ms`: see `MetadataStore.drop_ended`. Raises what that and `MetadataStore.collect` raise.
    """
    await manifests.drop_ended(skew_ms=skew_ms)
    return await collect_named(manifests, min_age_ms, lambda sst: key_of_sst(root, sst))


async def collect_named(manifests: MetadataStore, min_age_ms: int, key_of: Callable[[str], str]
                        ) -> tuple[list[int], list[str]]:
    """Run the round of `collect`, and remove no checkpoint before. `key_of`: the key of an SST by its name."""
    garbage, dead = await _unnamed(manifests, min_age_ms)
    deleted = []
    for sst in dead:
        key = key_of(sst)
        try:
            await manifests.world.store.delete(key)
        except (Definite, OutcomeUnknown) as error:
            manifests.world.metrics.warn(f"delete of {key!r} failed, the next round will find it: {error}")
            return [], deleted  # the manifests that name it stay, so that it is found
        deleted.append(sst)
    return await manifests.collect(min_age_ms, only=garbage), deleted


async def _unnamed(manifests: MetadataStore, min_age_ms: int) -> tuple[list[int], list[str]]:
    """Return the manifests that may go, and the SSTs that only they name.

    The latest manifest is read last. An SST that an earlier manifest names, and it does not, is in no later one either.
    """
    files = await manifests.bounded.list()
    values: dict[int, Manifest] = {}
    for file_id in old_ids(files[:-1], manifests.world.clock.now_ms(), min_age_ms):
        try:
            values[file_id] = await manifests.read(file_id)
        except NotFound:
            continue  # another collector was faster
    latest = (await manifests.current()).value
    spared = latest.referenced()
    alive = {*latest.named_ssts}
    for file_id in sorted(spared):
        try:
            alive |= (values[file_id] if file_id in values else await manifests.read(file_id)).named_ssts
        except NotFound:  # its checkpoint has been removed meanwhile, or the database is damaged
            return [], []
    garbage = [file_id for file_id in values if file_id not in spared]
    return garbage, sorted({sst for file_id in garbage for sst in values[file_id].named_ssts} - alive)


# --- what is listed

def found(manifest: Manifest, checkpoint: str) -> Any:
    """Return the entry of this id; None if there is none."""
    return next((one for one in manifest.checkpoints if one.id == checkpoint), None)


def done(said: Committed | Recognised | None) -> Committed | Recognised:
    assert said is not None, "nothing else was decided"
    return said
