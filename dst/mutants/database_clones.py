"""Mutants of impl/protocols/database_clones.py: bugs of what holds a database and its clones together.

The mutants of the parts are in dst/mutants/database_metadata.py and dst/mutants/clones.py. Some of clones are here, too, and
meet real writers, compactors and collectors.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.mutants.clones import cloning, detaching
from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.database_clones import CODEC, Impl, Shape, production
from highwater.impl.codecs.json.compactions import Job
from highwater.impl.codecs.json.ssts import name_of, stored
from highwater.impl.codecs.json.wal import Record, WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints, clones, database_clones, wal_fencing
from highwater.impl.protocols.clones_manifest import Said, Source
from highwater.impl.protocols.database_clones import ClonedManifest, Deleted, MergingCompactor, key_of
from highwater.impl.protocols.database_metadata import SequencedManifest
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised
from highwater.impl.protocols.wal_fencing import Known, Wal
from highwater.impl.world import World

Build = Callable[[World, Shape, int], Impl]


def instead(**parts: Any) -> Build:
    return lambda world, shape, number: production(world, shape, number)._replace(**parts)


# --- collectors

class WithoutFinals:
    """Reads manifests without finals. (An operator's checkpoint has a number with a point.)"""

    checkpoint, is_initialized, encode = CODEC.checkpoint, CODEC.is_initialized, CODEC.encode

    @staticmethod
    def decode(body: bytes) -> Manifest:
        m: Manifest = CODEC.decode(body)
        return m._replace(checkpoints=tuple(one for one in m.checkpoints if one.expiry_ms or "." in one.id))


async def collect_finals(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    blind = database_clones.stores_of(stores.manifest.world, root, WithoutFinals())
    return await database_clones.collect(blind, root, min_age_ms)


async def collect_ssts_of_checkpoints(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Delete each SST that an old manifest names, and the latest does not, although it is a checkpoint's."""
    manifests, world = stores.manifest, stores.manifest.world
    latest, gone = await manifests.current(), []
    for file in await manifests.bounded.list():
        try:
            old: Manifest = await manifests.read(file.id)
        except NotFound:
            continue
        gone += [sst for sst in old.named_ssts - latest.value.named_ssts if sst not in gone]
    for sst in sorted(gone):
        await world.store.delete(key_of(root, sst))
    kept = await database_clones.collect(stores, root, min_age_ms)
    return (*kept[:3], sorted({*kept[3], *gone}))


async def collect_seen(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Delete WAL objects behind replay_after, also those that a checkpoint has seen and not flushed."""
    current = ClonedManifest(stores.manifest, root, stores.manifest.world).current
    return await database_clones.collect(stores, root, min_age_ms, current)


async def collect_others(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Delete the SSTs of a parent that the clone has merged."""
    latest = (await stores.manifest.current()).value
    done = await database_clones.collect(stores, root, min_age_ms)
    for file in await stores.manifest.bounded.list():
        try:
            old: Manifest = await stores.manifest.read(file.id)
        except NotFound:
            continue
        for of in old.external_dbs:
            for sst in sorted({*of.sst_ids} - {*latest.all_ssts}):
                await stores.manifest.world.store.delete(key_of(of.path, sst))
    return done


# --- cloners

async def pin_last(stores: clones.StoreOf, path: str, parent: str, checkpoint: str | None = None, again: bool = False) -> Said:
    """Initialize the clone, and make its finals then."""
    done = await cloning(pins=False)(stores, path, parent, checkpoint, again)
    for of in done.value.external_dbs:
        if of.sst_ids:
            await clones.pin(stores(of.path), of)
    return done


async def begin_with_epoch(manifests: MetadataStore, parent: str, source: Source) -> Said:
    """Begin a clone with the epoch of its source."""
    value = clones.cloned(manifests, parent, source)
    return await clones.first(manifests, value._replace(writer_epoch=source.value.writer_epoch))


async def copy_all(stores: clones.StoreOf, path: str, parent: str, checkpoint: str | None = None, again: bool = False) -> Said:
    """Copy also what the source had not seen."""
    done = await clones.clone(stores, path, parent, checkpoint, again)
    world, here, there = stores(path).world, Namespace(path, "wal"), Namespace(parent, "wal")
    for entry in (await world.store.list_page(there.prefix)).entries:
        if (there.file_id(entry.key) or 0) > done.value.wal_id_last_seen:
            try:
                body = (await world.store.get(entry.key)).body
            except NotFound:
                continue
            await world.store.put(here.key(there.file_id(entry.key) or 0), body)
    return done


async def take_ahead(manifests: MetadataStore, checkpoint: str, lifetime_ms: int | None) -> Committed | Recognised:
    """Take a checkpoint that says that it has seen one WAL object more than is there."""
    async def with_seen(m: Manifest) -> Manifest:
        return m._replace(wal_id_last_seen=max(m.wal_id_last_seen, m.replay_after_wal_id) + 1)

    return await checkpoints.create(manifests, checkpoint, lifetime_ms, also=with_seen)


async def open_early(manifests: MetadataStore) -> Committed:
    """Use a database also if it is not initialized."""
    return await manifests.current()


# --- writers and compactors

def writing(kind: type[ClonedManifest]) -> Build:
    """Return a database whose writers have this manifest."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        async def open(stores: Stores, root: str, world: World, flush_every: int | None = None) -> Wal:
            return await wal_fencing.open(stores.manifest.world, root, flush_every, shape.attempts,
                                          kind(stores.manifest, root, world))

        return production(world, shape, number)._replace(open=open)

    return build


class DropsEntries(ClonedManifest):
    """Puts a manifest without the entries of other databases."""

    async def _next(self, base: Committed, manifest: WalManifest, new: tuple[Record, ...]) -> Manifest:
        return (await super()._next(base, manifest, new))._replace(external_dbs=())


class UploadsLater(ClonedManifest):
    """Puts the manifest first, and uploads its SST later."""

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        done = await super().put(known, manifest)
        for sst in done.version.value.l0[len(known.version.value.l0):]:
            await self.world.store.create(key_of(self.root, sst), sst.encode())
        return done

    async def _next(self, base: Committed, manifest: WalManifest, new: tuple[Record, ...]) -> Manifest:
        made = await SequencedManifest._next(self, base, manifest, ())
        if not new:
            return made
        return made._replace(l0=(*base.value.l0, stored(self.world.ids.new_id(), (name_of(new),))))


class ReplaysUnseen(ClonedManifest):
    """Replays the WAL only behind what the manifest has seen of it."""

    def _known(self, file_id: int, body: bytes) -> Known:
        known = super()._known(file_id, body)
        seen = max(known.manifest.replay_after, known.version.value.wal_id_last_seen)
        return known._replace(manifest=known.manifest._replace(replay_after=seen))


class RemovesEntries(MergingCompactor):
    """Removes an entry once the latest manifest uses no SST of it, although a checkpoint may."""

    async def _merged(self, manifest: Manifest, job: Job) -> Manifest:
        made = await super()._merged(manifest, job)
        return made._replace(external_dbs=tuple(of for of in made.external_dbs if of.sst_ids))


class ReleasesParents(MergingCompactor):
    """Deletes the final of an entry once the latest manifest uses no SST of it, although a checkpoint may."""

    unused: tuple[ExternalDb, ...] = ()

    async def _merged(self, manifest: Manifest, job: Job) -> Manifest:
        made = await super()._merged(manifest, job)
        self.unused = tuple(of for of in made.external_dbs if not of.sst_ids)
        return made

    async def _drop_inputs(self, job: Job) -> None:
        await super()._drop_inputs(job)
        for of in self.unused:
            there = Namespace(of.path, "manifest")
            await clones.release(MetadataStore(self.stores.manifest.world, there, CODEC), of)


class LeavesNothing(MergingCompactor):
    """Merges only what it has claimed, and drops what was merged before."""

    async def _merged(self, manifest: Manifest, job: Job) -> Manifest:
        return await super()._merged(manifest._replace(compacted=()), job)


def unpinned(stores: Stores, root: str, pin_ms: int = 0) -> MergingCompactor:
    """Return a compactor that takes no pin."""
    return MergingCompactor(stores, root)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "finals_not_spared": ("a parent's collector spares no final of a clone", instead(collect=collect_finals)),
    "ssts_of_checkpoints": ("a collector deletes the SSTs that only checkpoints name",
                            instead(collect=collect_ssts_of_checkpoints)),
    "seen_not_spared": ("a parent's collector deletes WAL objects that the source of a clone has seen",
                        instead(collect=collect_seen)),
    "others_collected": ("a clone's collector deletes the SSTs of its parent that the clone has merged",
                         instead(collect=collect_others)),
    "pinned_last": ("a clone is initialized before its finals are listed", instead(clone=pin_last)),
    "epoch_kept": ("a clone begins with the epoch of its source", instead(clone=cloning(first=begin_with_epoch))),
    "copied_over": ("the copy of the WAL overwrites what is there", instead(clone=cloning(copies="over"))),
    "copied_more": ("a clone gets WAL objects that its source had not seen", instead(clone=copy_all)),
    "not_copied": ("a clone is initialized without the WAL objects of its source", instead(clone=cloning(copies=""))),
    "seen_ahead": ("a checkpoint says that it has seen a WAL object which is not there", instead(create=take_ahead)),
    "opened_early": ("a database is used before it is initialized", instead(initialized=open_early)),
    "detached_from_checkpoints": ("a clone is detached although a checkpoint of it uses the entry",
                                  instead(detach=detaching(held=False))),
    "entry_first": ("an entry goes before its final checkpoint", instead(detach=detaching(entry_first=True))),
    "entries_dropped": ("a writer drops the entries of a clone", writing(DropsEntries)),
    "uploaded_later": ("a manifest names an SST that is not there", writing(UploadsLater)),
    "replayed_unseen": ("a writer does not replay what a checkpoint has seen", writing(ReplaysUnseen)),
    "entry_removed": ("a clone's compactor removes an entry that a checkpoint may use", instead(compactor=RemovesEntries)),
    "parent_released": ("a clone's compactor deletes a final that a checkpoint may need", instead(compactor=ReleasesParents)),
    "merged_dropped": ("a compactor drops what was merged before", instead(compactor=LeavesNothing)),
    "inputs_not_pinned": ("a compactor drops its inputs, and has not pinned them", instead(compactor=unpinned)),
}
CLONES, HARM = "refinement:clones.", "history:"
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "finals_not_spared": (("refinement:manifest.Collector", f"{CLONES}Collector"), (HARM,)),
    "ssts_of_checkpoints": ((f"{CLONES}Collector",), (HARM,)),
    "seen_not_spared": (("refinement:wal",), (HARM,)),
    "others_collected": (("refinement:Collector.delete",), (HARM,)),
    "pinned_last": ((f"{CLONES}Cloner",), ("liveness:", HARM)),
    "epoch_kept": (("refinement:epoch",), ()),
    "copied_over": ((f"{CLONES}put",), (HARM,)),
    "copied_more": (("refinement:wal", f"{CLONES}put", f"{CLONES}Cloner"), (HARM,)),
    "not_copied": ((f"{CLONES}Cloner", "refinement:copy"), (HARM,)),
    "seen_ahead": ((f"{CLONES}create",), ("liveness:", HARM)),
    "opened_early": (("refinement:Writer", "refinement:Compactor", f"{CLONES}Cloner"), ("liveness:", HARM)),
    "detached_from_checkpoints": ((f"{CLONES}Detacher",), ()),
    "entry_first": ((f"{CLONES}Detacher",), ()),
    "entries_dropped": ((f"{CLONES}create", f"{CLONES}Detacher", f"{CLONES}manifest", f"{CLONES}sst"), (HARM,)),
    "uploaded_later": ((f"{CLONES}sst",), (HARM,)),
    "replayed_unseen": (("refinement:wal.", "refinement:history"), (HARM,)),
    "entry_removed": ((f"{CLONES}manifest", f"{CLONES}create"), ()),
    "parent_released": (("refinement:Compactor.list",), ()),
    "merged_dropped": (("refinement:history",), (HARM,)),
    "inputs_not_pinned": (("refinement:history",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
