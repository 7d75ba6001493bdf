"""Safety: a database and its clones each keep what database_metadata keeps, and whatever an initialized clone names is there.
A clone has every record that its source has seen. This holds although writers, compactors and collectors work on all of them.

A database here is one of database_metadata, and it is cloned as clones.py does it. Three things are added:

- An SST is an object, `<root>/compacted/<ULID>.sst`. A writer uploads it before it puts the manifest that names it. Each
  attempt to put a manifest has an SST of its own: a collector may delete the SST of an attempt that is in no history.
- A compaction merges the SSTs that it has claimed with all that were merged before, into one. So the SSTs of a parent leave the
  clone's entries, and it can be detached.
- A checkpoint may say how much of the WAL it has seen, and then its clones copy that. So a collector spares the WAL objects
  behind the replay_after of each listed checkpoint's manifest, up to the last one that this manifest has seen.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Job
from highwater.impl.codecs.json.database import CLONED
from highwater.impl.codecs.json.ssts import name_of, parts_of, stored, ulid_of
from highwater.impl.codecs.json.wal import Record, WalCheckpoint, WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints, wal_fencing
from highwater.impl.protocols.database_metadata import SequencedManifest
from highwater.impl.protocols.db_reader_view import last_wal_id
from highwater.impl.protocols.manifest_compactions import Compactor, InputMissing, Stores, Unpinned
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Put, Recognised, Verdict
from highwater.impl.protocols.wal_fencing import Known, Wal
from highwater.impl.world import World

Deleted = tuple[list[int], list[int], list[int], list[str]]  # the ids of manifests, compactions, WAL objects; names of SSTs
UPLOADS = 100  # attempts to put one SST


def stores_of(world: World, root: str, codec: Any = CLONED) -> Stores:
    """Return the two sequences of one client."""
    return Stores(
        MetadataStore(world, Namespace(root, "manifest"), codec, Policies(epoch="compactor_epoch")),
        MetadataStore(world, Namespace(root, "compactions"), compactions_json,
                      Policies(epoch="compactor_epoch", spare_checkpoints=False)))


# --- SSTs

def key_of(root: str, sst: str) -> str:
    """Return the key of the object of an SST with this name."""
    return key_of_sst(root, ulid_of(sst))


async def uploaded(world: World, root: str, parts: tuple[str, ...]) -> str:
    """Put an SST with these parts; return its name. Raises OutcomeUnknown: it may be there, and nobody names it."""
    sst = stored(world.ids.new_id(), parts)
    for _ in range(UPLOADS):
        try:
            await world.store.create(key_of(root, sst), sst.encode())
        except (OutcomeUnknown, Unavailable):
            continue
        except AlreadyExists:
            pass  # an earlier attempt: nobody else has this ULID
        return sst
    raise OutcomeUnknown(f"SST {key_of(root, sst)!r} could not be put, {UPLOADS} times over")


# --- the writer

class ClonedManifest(SequencedManifest):
    """The manifest of a WAL whose database has clones, or is one."""

    def __init__(self, metadata: MetadataStore, root: str, world: World):
        super().__init__(metadata)
        self.root, self.world = root, world

    async def _next(self, base: Committed, manifest: WalManifest, new: tuple[Record, ...]) -> Manifest:
        value = base.value
        new_ssts = (await uploaded(self.world, self.root, (name_of(new),)),) if new else ()
        return value._replace(writer_epoch=manifest.writer_epoch, replay_after_wal_id=manifest.replay_after,
                              wal_id_last_seen=max(value.wal_id_last_seen, manifest.replay_after), l0=(*value.l0, *new_ssts))

    async def spared(self) -> Known:
        """Return the latest manifest, ahead of a boundary read after it, with what its checkpoints have seen of the WAL.

        Raises NotFound if a checkpoint has gone meanwhile, and what `current` raises."""
        known = await self.current()
        held = [await self.metadata.read(i) for i in sorted(known.version.value.referenced())]
        ranges = tuple(WalCheckpoint(number, m.replay_after_wal_id, m.wal_id_last_seen) for number, m in enumerate(held))
        return known._replace(manifest=known.manifest._replace(checkpoints=ranges))


async def open(stores: Stores, root: str, world: World, flush_every: int | None = None, attempts: int = 5) -> Wal:
    """Open a new writer of an initialized database. Raises what wal_fencing.open and `SequencedManifest` raise.

    Call `clones.opened` before: a clone that is not initialized has no log yet."""
    manifest = ClonedManifest(stores.manifest, root, world)
    return await wal_fencing.open(stores.manifest.world, root, flush_every, attempts, manifest)


# --- the compactor

class MergingCompactor(Compactor):
    """A compactor that merges what it has claimed with all earlier results, into one SST."""

    def __init__(self, stores: Stores, root: str, attempts: int = 100, pin_ms: int = 0):
        super().__init__(stores, attempts, pin_ms)
        self.root = root

    def is_applied(self, manifest: Manifest, job: Job) -> bool:
        merged = {part for sst in manifest.compacted for part in parts_of(sst)}
        return all(part in merged for sst in job for part in parts_of(sst))

    async def _drop_inputs(self, job: Job) -> None:
        async def decide(latest: int, m: Manifest) -> Put | Verdict:
            if self.is_applied(m, job):
                return Verdict(Recognised(latest, m))
            if missing := [sst for sst in job if sst not in m.l0]:
                return Verdict(InputMissing(f"claimed is {list(job)}, but {missing} is not in L0"))
            if self.pin_ms and not self.is_pinned(m, job):
                return Verdict(Unpinned(f"{list(job)} is not pinned"))
            return Put(await self._merged(m, job))

        await self.stores.manifest.apply(decide, True, epoch=self.epoch)
        self.applied = True

    async def _merged(self, manifest: Manifest, job: Job) -> Manifest:
        """Return the manifest with one SST in the place of the inputs. Those of other databases leave their entries."""
        inputs = (*manifest.compacted, *job)
        output = await uploaded(self.stores.manifest.world, self.root, tuple(part for sst in inputs for part in parts_of(sst)))
        return manifest._replace(
            l0=tuple(sst for sst in manifest.l0 if sst not in job), compacted=(output,),
            external_dbs=tuple(of._replace(sst_ids=tuple(sst for sst in of.sst_ids if sst not in inputs))
                               for of in manifest.external_dbs))


# --- checkpoints, as sources of clones

async def take_seen(manifests: MetadataStore, checkpoint: str, lifetime_ms: int | None, name: str | None = None
                    ) -> Committed | Recognised:
    """Take a checkpoint that has all records which are in the WAL by then. Raises what `checkpoints.create` raises."""
    wal = Namespace(manifests.bounded.storage.namespace.prefix.removesuffix("/manifest/"), "wal")

    async def with_seen(manifest: Manifest) -> Manifest:
        seen = await last_wal_id(manifests.world.store, wal, manifest.replay_after_wal_id)
        return manifest._replace(wal_id_last_seen=max(manifest.wal_id_last_seen, seen))

    return await checkpoints.create(manifests, checkpoint, lifetime_ms, name, also=with_seen)


# --- the collector

async def collect(stores: Stores, root: str, min_age_ms: int, spared: Callable[[], Awaitable[Known]] | None = None) -> Deleted:
    """Run one round of garbage collection: manifests, SSTs, compactions and WAL objects; return what it deleted.

    It spares what a listed checkpoint names, so also what a clone's final does. `spared` returns the manifest by which WAL
    objects are spared."""
    manifests, ssts = await checkpoints.collect_named(stores.manifest, min_age_ms, lambda sst: key_of(root, sst))
    compactions = await stores.compactions.collect(min_age_ms)
    spared = spared or ClonedManifest(stores.manifest, root, stores.manifest.world).spared
    return manifests, compactions, await wal_fencing.collect(stores.manifest.world, root, min_age_ms, spared), ssts
