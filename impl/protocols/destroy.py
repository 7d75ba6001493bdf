"""Safety: nothing of a database is deleted that a listed checkpoint names, and what is destroyed stays destroyed: after the
last manifest is deleted, no late request makes another one.

`mark` puts the mark into the manifest in whose list it has looked for checkpoints, by one update: destroy_mark.py. The same
update fences the writer and the compactor, and `fence` stops a writer that has not read it. `finish` deletes what is marked: at
once after a hard mark, and after a soft one once the grace is over and the last checkpoint has gone. It first sets the boundary
to SEALED, so that no create is accepted any more, also none with a higher id that is under way. Then it deletes the SSTs, the
WAL and the compactions, and then the manifests, the latest one last. The sealed boundary stays as the tombstone.

Each call may be made again after any error, by any client: it goes on where an earlier one stopped.
"""

from highwater.impl.codecs.destroyed import HARD, SEALED, SOFT, Mark, mark_of, pins_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite
from highwater.impl.layout import Namespace, prefix_of_ssts
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointMissing, done
from highwater.impl.protocols.destroy_mark import is_sealed, with_mark
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.protocols.wal_fencing import fenced_at
from highwater.impl.world import list_all


class InvalidDeletion(Definite):
    """A checkpoint is listed, which may be a clone's: what it keeps must stay."""

    def __init__(self, checkpoint: str):
        self.checkpoint = checkpoint
        super().__init__(f"checkpoint {checkpoint!r} is listed, and a clone may need it: delete it first, or destroy the clone")


class NotMarked(Definite):
    """The database is not marked as destroyed, so nothing of it is deleted."""

    def __init__(self, prefix: str):
        super().__init__(f"{prefix!r}: the database is not marked as destroyed: mark it first")


class GraceRuns(Definite):
    """The grace of a soft mark is not over."""

    def __init__(self, until_ms: int):
        self.until_ms = until_ms
        super().__init__(f"the grace lasts until {until_ms} ms: wait, or mark the database hard")


async def mark(manifests: MetadataStore, kind: str, grace_ms: int = 0, attempts: int | None = None
               ) -> Committed | Recognised:
    """Mark the database as destroyed, SOFT or HARD. A hard mark replaces a soft one. `grace_ms`: how long a soft one waits.

    Raises InvalidDeletion for a hard mark if a checkpoint is listed, also one that has ended; and what `MetadataStore.apply`
    raises. After an Indefinite error call it again.
    """
    now_ms = manifests.world.clock.now_ms()
    made = Mark(kind, now_ms, now_ms + (grace_ms if kind == SOFT else 0))

    async def decide(latest: int, manifest: Manifest) -> Put | Verdict:
        before, pins = mark_of(manifest), pins_of(manifest)
        if before and before.kind in (kind, HARD):
            return Verdict(Recognised(latest, manifest))
        if kind == HARD and pins:
            return Verdict(InvalidDeletion(pins[0].id))
        return Put(with_mark(manifest, made, manifests.codec, latest + 1))

    return done(await manifests.apply(decide, True, attempts))


async def fence(manifests: MetadataStore, root: str, marked: Manifest, attempts: int = 5) -> int:
    """Fence the WAL of a database that `mark` has marked, and return the fence's id. It may be called again.

    «fence the WAL»: a writer that has not read the mark meets the fence at its next append, and acknowledges nothing more. The
    rows before are readable for the grace. Raises OutcomeUnknown, Unavailable.
    """
    wal = Namespace(root, "wal")
    ids = [wal.file_id(entry.key) or 0 for entry in await list_all(
        manifests.world.store, wal.prefix, wal.key(marked.replay_after_wal_id))]
    return await fenced_at(manifests.world, wal, max(ids, default=marked.replay_after_wal_id) + 1, attempts)


async def finish(manifests: MetadataStore, root: str, skew_ms: int = 0) -> list[str]:
    """Delete a database whose time has come, or what is left of it; return the keys that this call deleted.

    `skew_ms`: the largest difference between the clocks of two clients. Raises NotMarked, GraceRuns, InvalidDeletion, and what
    `MetadataStore.drop_ended` and a DELETE raise. What is deleted by then stays deleted.
    """
    if not await is_sealed(manifests):
        value = (await manifests.drop_ended(skew_ms=skew_ms)).value
        check_time(value, manifests, skew_ms)
        await release(manifests, value)
        await manifests.advance_boundary(SEALED)
    deleted = []
    while keys := await others_of(manifests, root):
        for key in keys:
            await manifests.world.store.delete(key)
        deleted += keys
    for file in await manifests.bounded.storage.list():
        await manifests.bounded.storage.delete(file.id)
        deleted.append(manifests.bounded.storage.namespace.key(file.id))
    return deleted


def check_time(value: Manifest, manifests: MetadataStore, skew_ms: int) -> None:
    """Check that the manifest says that the database may be deleted. Raises NotMarked, GraceRuns, InvalidDeletion."""
    made, pins = mark_of(value), pins_of(value)
    if made is None:
        raise NotMarked(manifests.bounded.storage.namespace.prefix)
    if made.kind == SOFT and manifests.world.clock.now_ms() < made.due_ms + skew_ms:
        raise GraceRuns(made.due_ms + skew_ms)
    if pins:
        raise InvalidDeletion(pins[0].id)


async def release(manifests: MetadataStore, value: Manifest) -> None:
    """Delete the checkpoints by which this database, a clone, keeps its parents. Raises what `checkpoints.delete` raises."""
    for of in value.external_dbs:
        if of.final_checkpoint_id is not None:
            parent = MetadataStore(manifests.world, Namespace(of.path, "manifest"), manifests.codec)
            try:
                await checkpoints.delete(parent, of.final_checkpoint_id)
            except (CheckpointMissing, NoLatest):
                pass  # an earlier call deleted it, or the parent is gone


async def others_of(manifests: MetadataStore, root: str) -> list[str]:
    """Return the keys of the database but for its manifests and boundaries: SSTs, WAL objects, compactions."""
    folders = (Namespace(root, "wal").prefix, Namespace(root, "compactions").prefix, prefix_of_ssts(root))
    return [entry.key for folder in folders for entry in await list_all(manifests.world.store, folder)]
