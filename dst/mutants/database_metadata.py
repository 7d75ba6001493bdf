"""Mutants of impl/protocols/database_metadata.py: bugs that only a database has, and those of all its parts.

dst/mutants/database_metadata_parts.py makes the parts' mutants. The mutants of manifest_epochs are here, because in a database
each role has another client: EPOCHS says which mutant here has which bug there, or why a database cannot have it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.dst.mutants import database_metadata_parts as parts
from highwater.dst.mutants.database_metadata_parts import Build
from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.database_metadata import MANY, Impl, Shape, production
from highwater.impl.codecs.json.compactions import Job
from highwater.impl.codecs.json.manifest import Checkpoint
from highwater.impl.codecs.json.ssts import name_of, records_of
from highwater.impl.codecs.json.wal import WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import (
    Fenced,
    FencedInDoubt,
    FencedUnapplied,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
)
from highwater.impl.protocols import database_metadata, wal_fencing
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.database_metadata import CheckpointMissing, Deleted, SequencedManifest, lists
from highwater.impl.protocols.manifest_compactions import Compactor, Stores
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised, Verdict
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists, old_ids
from highwater.impl.protocols.wal_fencing import Known, Wal
from highwater.impl.world import World

# --- the WAL's manifest as a file of a sequence

class Manifests(SequencedManifest):
    """The usual one, in parts that mutants replace."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        base: Manifest = known.version.value
        new = manifest.flushed[len(known.manifest.flushed):]
        return base._replace(writer_epoch=manifest.writer_epoch, replay_after_wal_id=manifest.replay_after,
                             l0=(*base.l0, name_of(new)) if new else base.l0)

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        value, file_id = self.changed(known, manifest), known.version.id + 1
        try:
            await self.bounded.create(file_id, self.metadata.codec.encode(value))
        except ObjectVersionExists as error:
            raise PreconditionFailed(str(error)) from None
        except ObjectVersionBehindBoundary as error:
            raise OutcomeUnknown(str(error)) from error
        return Known(manifest, Committed(file_id, value))


class DropsOthers(Manifests):
    """Puts the writer's own fields, and no others."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        of = super().changed(known, manifest)
        return Manifest(writer_epoch=of.writer_epoch, replay_after_wal_id=of.replay_after_wal_id, l0=of.l0,
                        compacted=of.compacted)


class DropsCheckpoints(Manifests):
    """Puts no checkpoint that was taken since the writer opened."""

    at_open: tuple[Any, ...] | None = None

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        of = super().changed(known, manifest)
        self.at_open = of.checkpoints if self.at_open is None else self.at_open
        return of._replace(checkpoints=self.at_open)


class FlushesAnew(Manifests):
    """Counts only the records in L0 as flushed."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        there = sum(len(records_of(sst)) for sst in known.version.value.l0)
        new = manifest.flushed[there:]
        of = super().changed(known, manifest)
        base: Manifest = known.version.value
        return of._replace(l0=(*base.l0, name_of(new)) if new else base.l0)


class NewestFirst(Manifests):
    """Puts a new SST before the others in L0, as SlateDB orders them."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        of = super().changed(known, manifest)
        return of._replace(l0=(*of.l0[len(known.version.value.l0):], *known.version.value.l0))


class AdvancesAlone(Manifests):
    """Advances replay_after without an SST of the new records."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        return super().changed(known, manifest)._replace(l0=known.version.value.l0)


class BumpsAll(Manifests):
    """Takes the next epoch of every role."""

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        of = super().changed(known, manifest)
        return of._replace(compactor_epoch=of.compactor_epoch + (of.writer_epoch != known.version.value.writer_epoch))


class OldLists(Manifests):
    """Puts the lists of SSTs that it knew first under the other fields of the manifest that it read last."""

    first: Manifest | None = None

    def changed(self, known: Known, manifest: WalManifest) -> Manifest:
        base: Manifest = known.version.value
        first = self.first = self.first or base
        new = manifest.flushed[sum(len(records_of(sst)) for sst in (*first.compacted, *first.l0)):]
        return super().changed(known, manifest)._replace(
            compacted=first.compacted, l0=(*first.l0, *([name_of(new)] if new else [])))


class NotReread(Manifests):
    """Puts the same manifest at the next id after a conflict."""

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        try:
            return await super().put(known, manifest)
        except PreconditionFailed:
            return await super().put(known._replace(version=known.version._replace(id=known.version.id + 1)), manifest)


class PutUnchecked(Manifests):
    """Creates the next file without the check of the boundary."""

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        value, file_id = self.changed(known, manifest), known.version.id + 1
        try:
            await self.bounded.storage.create(file_id, self.metadata.codec.encode(value))
        except ObjectVersionExists as error:
            raise PreconditionFailed(str(error)) from None
        return Known(manifest, Committed(file_id, value))


class RefusedIsConflict(Manifests):
    """Treats a refused or unanswered put as a conflict: as if nothing had been put."""

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        try:
            return await super().put(known, manifest)
        except OutcomeUnknown as error:
            raise PreconditionFailed(str(error)) from error


class ReadAgainUnchecked(SequencedManifest):
    """Believes a later file without reading the boundary after it."""

    async def read_again(self, known: Known) -> Known:
        while newer := await self.bounded.list(known.version.id):
            try:
                return self._known(newer[-1].id, await self.bounded.read(newer[-1].id))
            except NotFound:
                pass
        return known


class ReadAgainCheckedBefore(SequencedManifest):
    """Reads the boundary before the file, and not after it."""

    async def read_again(self, known: Known) -> Known:
        while newer := await self.bounded.list(known.version.id):
            if newer[-1].id > await self.bounded.boundary.read():
                try:
                    return self._known(newer[-1].id, await self.bounded.read(newer[-1].id))
                except NotFound:
                    pass
        return known


class ReadAgainTooFar(SequencedManifest):
    """Lists the files after the next one."""

    async def read_again(self, known: Known) -> Known:
        after = known.version._replace(id=known.version.id + 1)
        found = await super().read_again(known._replace(version=after))
        return known if found.version is after else found


class ReadAgainNext(SequencedManifest):
    """Looks only whether the next file is there. It may be collected, and later ones be there."""

    async def read_again(self, known: Known) -> Known:
        try:
            body = await self.bounded.read(known.version.id + 1)
        except NotFound:
            return known
        return self._known(known.version.id + 1, body)


class CompactorsEpoch(SequencedManifest):
    """Compares the epoch of compactors."""

    async def read_again(self, known: Known) -> Known:
        found = await super().read_again(known)
        changed = found.version.value.compactor_epoch != known.version.value.compactor_epoch
        return found._replace(manifest=found.manifest._replace(
            writer_epoch=known.manifest.writer_epoch + changed)) if found is not known else known


class FencesFirst(Wal):
    """Fences before it is known whether its claim stands: it reads the boundary of the claim only after the fence."""

    async def _claim(self) -> None:
        manifests: Any = self.object
        self.usual, manifests.put = manifests.put, PutUnchecked(manifests.metadata).put
        await super()._claim()

    async def _fence(self) -> int:
        fence = await super()._fence()
        manifests: Any = self.object
        manifests.put = self.usual
        await manifests.bounded.boundary.check(self.known.version.id)
        return fence


class ClaimsOnce(Wal):
    """Keeps the epoch of its first attempt to claim one."""

    async def _claim(self) -> None:
        first, put = 0, self.object.put

        async def claimed(known: Known, manifest: WalManifest) -> Known:
            nonlocal first
            first = first or manifest.writer_epoch
            return await put(known, manifest._replace(writer_epoch=first))

        self.object.put = claimed
        await super()._claim()
        self.object.put, self.epoch = put, first


class FencedIsServed(Wal):
    """Reports a flush that finds a later writer as done."""

    async def flush(self) -> None:
        try:
            await super().flush()
        except FencedUnapplied:
            pass


class UnknownIsDone(Wal):
    """Reports a flush without a response as done."""

    async def flush(self) -> None:
        try:
            await super().flush()
        except OutcomeUnknown:
            pass


class FlushedTwice(Wal):
    """Appends its records to L0 once more after a put without a response."""

    async def _reread(self, unknown: OutcomeUnknown | None) -> None:
        known = self.known.manifest
        await super()._reread(unknown)
        if unknown and len(self.known.manifest.flushed) > len(known.flushed):
            self.known = self.known._replace(manifest=known)


# --- compactors

class L0Emptied(Compactor):
    """Empties L0 with the result, also of what was flushed after the claim."""

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        await merge(job)
        await self.stores.manifest.update_recognised(
            lambda m: all(sst in m.compacted for sst in job),
            lambda _, m: m._replace(l0=(), compacted=(*m.compacted, *job)), epoch=self.epoch)
        self.applied = True


class BumpsWriters(Compactor):
    """Takes the next epoch of writers, too."""

    async def _bump(self) -> int:
        epoch = await super()._bump()
        await self.stores.manifest.update(lambda _, m: m._replace(writer_epoch=m.writer_epoch + 1))
        return epoch


class ManifestOfItsOwn(Compactor):
    """Applies a compaction to the manifest that it picked from, and drops what other roles have changed since."""

    async def _pick(self) -> Job:
        self.base = (await self.stores.manifest.current()).value
        return await super()._pick()

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        base = getattr(self, "base", None)
        if base is None:
            return await super()._apply(job, merge)
        await merge(job)
        await self.stores.manifest.update_recognised(
            lambda m: all(sst in m.compacted for sst in job),
            lambda _, m: base._replace(l0=tuple(sst for sst in base.l0 if sst not in job),
                                       compacted=(*base.compacted, *job), compactor_epoch=m.compactor_epoch),
            epoch=self.epoch)
        self.applied = True
        return None


class FencedIsReported(Compactor):
    """Reports a compaction as done when it finds a later compactor."""

    async def compact(self, merge: Callable[[Job], Awaitable[None]]) -> Job:
        try:
            return await super().compact(merge)
        except FencedInDoubt:
            return self.job


class LooksUnchecked(MetadataStore):
    """Believes what it finds in a file without reading the boundary after it."""

    async def _believed(self, latest: int, verdict: Verdict) -> Committed | Recognised | None:
        if isinstance(verdict.said, StoreError):
            raise verdict.said
        return verdict.said


class FencedUnchecked(MetadataStore):
    """Believes that it is fenced by any file, also by one that is in nobody's history."""

    async def _believed(self, latest: int, verdict: Verdict) -> Committed | Recognised | None:
        if isinstance(verdict.said, Fenced):
            raise verdict.said
        return await super()._believed(latest, verdict)


class ReadsOnce(MetadataStore):
    """Returns what it read first."""

    first: Committed | None = None

    async def current(self) -> Committed:
        self.first = self.first or await super().current()
        return self.first


# --- operators

async def take_previous(manifests: MetadataStore, update_id: str, expiry_ms: int) -> Committed | Recognised:
    """Take a checkpoint of the manifest before the one that lists it first."""
    return await manifests.update_once(update_id, lambda file_id, m: m.with_update(update_id).with_checkpoint(
        Checkpoint(update_id, max(file_id - 1, 1), expiry_ms)))


async def take_ended(manifests: MetadataStore, update_id: str, expiry_ms: int) -> Committed | Recognised:
    """Report a checkpoint as taken although it is no longer listed."""
    return await manifests.update_once(update_id, lambda file_id, m: m.with_update(update_id).with_checkpoint(
        Checkpoint(update_id, file_id, expiry_ms)))


async def take_unnamed(manifests: MetadataStore, update_id: str, expiry_ms: int) -> Committed | Recognised:
    """Take a checkpoint whose id alone says that it was taken: once it has ended, a second attempt takes it again."""
    return await manifests.update_once(update_id, lambda file_id, m: m.with_checkpoint(
        Checkpoint(update_id, file_id, expiry_ms)))


async def renew_unchecked(manifests: MetadataStore, update_id: str, checkpoint: str, expiry_ms: int) -> Committed | Recognised:
    """Conclude from any file that the checkpoint is missing, without reading the boundary after it."""
    def present(m: Manifest) -> bool:
        if not lists(m, checkpoint):
            raise CheckpointMissing(checkpoint)
        return m.holds(update_id)

    return await manifests.update_recognised(present, lambda _, m: m.with_update(update_id)._replace(checkpoints=tuple(
        one._replace(expiry_ms=expiry_ms) if one.id == checkpoint else one for one in m.checkpoints)))


def resurrecting(world: World, shape: Shape, number: int) -> Impl:
    """Renew a checkpoint that is no longer listed by listing it again, although its file may be gone."""
    taken: dict[str, Checkpoint] = {}

    async def take(manifests: MetadataStore, update_id: str, expiry_ms: int) -> Committed | Recognised:
        done = await database_metadata.take_checkpoint(manifests, update_id, expiry_ms)
        taken.update((one.id, one) for one in done.value.checkpoints)
        return done

    async def renew(manifests: MetadataStore, update_id: str, checkpoint: str, expiry_ms: int) -> Committed | Recognised:
        if checkpoint not in taken:
            return await database_metadata.renew_checkpoint(manifests, update_id, checkpoint, expiry_ms)
        return await manifests.update_once(update_id, lambda _, m: m.with_update(update_id)._replace(checkpoints=(
            *(one for one in m.checkpoints if one.id != checkpoint), taken[checkpoint]._replace(expiry_ms=expiry_ms))))

    return production(world, shape, number)._replace(take=take, renew=renew)


# --- collectors

async def collect_by_latest(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Collect WAL objects by the latest manifest, without reading the boundary after it."""
    manifests, compactions = await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)
    read = SequencedManifest(stores.manifest).read
    return manifests, compactions, await wal_fencing.collect(stores.manifest.world, root, min_age_ms, read)


def collecting_behind(boundary: Callable[[Stores, Known], Awaitable[int]]) -> Build:
    """Return a database whose collectors take another number for the boundary of the WAL."""
    async def collect(stores: Stores, root: str, min_age_ms: int) -> Deleted:
        manifests, compactions = await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)

        async def current() -> Known:
            known = await SequencedManifest(stores.manifest).current()
            return known._replace(manifest=known.manifest._replace(replay_after=await boundary(stores, known)))

        return manifests, compactions, await wal_fencing.collect(stores.manifest.world, root, min_age_ms, current)

    return lambda world, shape, number: production(world, shape, number)._replace(collect=collect)


async def of_manifests(stores: Stores, known: Known) -> int:
    return await stores.manifest.bounded.boundary.read()


async def of_records(stores: Stores, known: Known) -> int:
    """Count the flushed records: a fence has an id, too, and no record."""
    return len(known.manifest.flushed) + known.manifest.writer_epoch


async def one_more(stores: Stores, known: Known) -> int:
    return known.manifest.replay_after + 1


async def collect_by_manifests(stores: Stores, root: str, min_age_ms: int) -> Deleted:
    """Collect compactions up to the boundary of manifests."""
    manifests = await stores.manifest.collect(min_age_ms)
    files = await stores.compactions.bounded.list()
    boundary = await stores.manifest.bounded.boundary.read()
    old = [i for i in old_ids(files, stores.manifest.world.clock.now_ms(), min_age_ms) if i <= boundary]
    if old:
        await stores.compactions.advance_boundary(max(old))
    compactions = [i for i in old if await stores.compactions.bounded.storage.collect(i)]
    current = SequencedManifest(stores.manifest).current
    return manifests, compactions, await wal_fencing.collect(stores.manifest.world, root, min_age_ms, current)


def sparing(spared: str, by: str) -> Build:
    """Return a database whose collectors spare in one sequence what the latest file of another refers to."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl = production(world, shape, number)
        store, other = getattr(impl.stores, spared), getattr(impl.stores, by)

        async def spare(latest: int) -> frozenset[int]:
            value = (await other.current()).value
            return value.referenced() if isinstance(value, Manifest) else frozenset()

        store._spared = spare
        return impl

    return build


# --- databases

def with_manifest(kind: type[SequencedManifest], wal: type[Wal] = Wal) -> Build:
    """Return a database whose writers have this manifest, and are of this class."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        async def open(stores: Stores, root: str, flush_every: int | None = None) -> Wal:
            opened = wal(stores.manifest.world, root, shape.attempts, kind(stores.manifest))
            await opened._claim()
            await opened._replay(await opened._fence(), flush_every)
            return opened

        return production(world, shape, number)._replace(open=open)

    return build


def with_wal(kind: type[Wal]) -> Build:
    return with_manifest(SequencedManifest, kind)


def with_part(**changes: Any) -> Build:
    return lambda world, shape, number: production(world, shape, number)._replace(**changes)


def with_store(kind: type[MetadataStore]) -> Build:
    """Return a database whose two sequences have stores of this class."""
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl = production(world, shape, number)
        return impl._replace(stores=Stores(*(kind(world, store.bounded.storage.namespace, store.codec, store.policies)
                                             for store in impl.stores)))

    return build


OWN: dict[str, tuple[str, Build]] = {  # bugs that only a database can have
    "drops_others": ("a writer puts its own fields of the manifest, and drops those of others", with_manifest(DropsOthers)),
    "drops_checkpoints": ("a writer puts the checkpoints that it saw first", with_manifest(DropsCheckpoints)),
    "flushes_anew": ("a writer flushes compacted records again", with_manifest(FlushesAnew)),
    "newest_first": ("a flush puts its SST before those in L0", with_manifest(NewestFirst)),
    "advances_alone": ("a flush advances replay_after without an SST", with_manifest(AdvancesAlone)),
    "put_unchecked": ("a writer puts the manifest without the check of the boundary", with_manifest(PutUnchecked)),
    "refused_is_conflict": ("a writer's refused or unanswered put is treated as a conflict", with_manifest(RefusedIsConflict)),
    "read_again_unchecked": ("a writer believes a later manifest without reading the boundary",
                             with_manifest(ReadAgainUnchecked)),
    "read_again_checked_before": ("a writer reads the boundary only before a later manifest",
                                  with_manifest(ReadAgainCheckedBefore)),
    "read_again_too_far": ("a writer lists the manifests after the next one", with_manifest(ReadAgainTooFar)),
    "read_again_next": ("a writer looks only for the next manifest", with_manifest(ReadAgainNext)),
    "compactors_epoch": ("a writer compares the epoch of compactors", with_manifest(CompactorsEpoch)),
    "fences_first": ("a writer fences before its claim is checked", with_wal(FencesFirst)),
    "l0_emptied": ("a compaction empties L0, also of what was flushed after its claim", with_part(compactor=L0Emptied)),
    "manifest_of_its_own": ("a compaction drops what others have changed since it was picked",
                            with_part(compactor=ManifestOfItsOwn)),
    "bumps_writers": ("a compactor that opens takes an epoch of writers, too", with_part(compactor=BumpsWriters)),
    "looks_unchecked": ("a compactor or an operator believes a file without reading the boundary", with_store(LooksUnchecked)),
    "fenced_unchecked": ("a compactor believes that it is fenced without reading the boundary", with_store(FencedUnchecked)),
    "missing_unchecked": ("a checkpoint counts as missing by a file that may be behind the boundary",
                          with_part(renew=renew_unchecked)),
    "resurrects": ("a renewal lists a checkpoint again that was dropped", resurrecting),
    "ended_is_taken": ("a checkpoint that has ended and was dropped is reported as taken", with_part(take=take_ended)),
    "takes_previous": ("a checkpoint refers to the manifest before it", with_part(take=take_previous)),
    "taken_twice": ("a checkpoint that was dropped is taken again by a second attempt", with_part(take=take_unnamed)),
    "wal_by_latest": ("WAL objects are collected by a manifest that may be behind the boundary",
                      with_part(collect=collect_by_latest)),
    "wal_by_manifests": ("WAL objects are collected up to the boundary of manifests", collecting_behind(of_manifests)),
    "wal_by_records": ("WAL objects are collected up to the number of records and epochs", collecting_behind(of_records)),
    "wal_one_more": ("the WAL object after replay_after is collected", collecting_behind(one_more)),
    "compactions_by_manifests": ("compactions are collected up to the boundary of manifests",
                                 with_part(collect=collect_by_manifests)),
    "compactions_spared": ("compactions are spared that have the id of a manifest with a checkpoint",
                           sparing("compactions", "manifest")),
    "manifests_not_spared": ("the checkpoints are looked for in the compactions", sparing("manifest", "compactions")),
}
OF_EPOCHS: dict[str, tuple[str, Build]] = {
    "epochs_claims_once": ("an open keeps the epoch of its first attempt", with_wal(ClaimsOnce)),
    "epochs_bumps_all": ("a writer that opens takes the next epoch of every role", with_manifest(BumpsAll)),
    "epochs_not_reread": ("after a conflict the same manifest is put at the next id", with_manifest(NotReread)),
    "epochs_not_reapplied": ("a flush puts the lists that its writer knew first", with_manifest(OldLists)),
    "epochs_fencing_swallowed": ("a fenced writer reports its flush as done", with_wal(FencedIsServed)),
    "epochs_compactor_fencing_swallowed": ("a fenced compactor reports its compaction as done",
                                           with_part(compactor=FencedIsReported)),
    "epochs_unknown_is_done": ("a flush without a response is reported as done", with_wal(UnknownIsDone)),
    "epochs_applied_again": ("a flush without a response is applied again", with_wal(FlushedTwice)),
    "epochs_lists_once": ("a reader returns the manifest that it read first", with_store(ReadsOnce)),
}
EPOCHS = {  # mutant of manifest_epochs -> the mutant here that has its bug, or the request that a database never makes
    "overwrites": "compactor_overwrites", "claims_once": "epochs_claims_once", "bumps_all": "epochs_bumps_all",
    "unchecked": "wal_not_validated", "unchecked_after_conflict": "wal_epoch_not_compared",
    "unchecked_compactor": "compactor_epochs_not_compared", "not_reread": "epochs_not_reread",
    "not_reapplied": "epochs_not_reapplied", "fencing_swallowed": "epochs_fencing_swallowed",
    "unknown_is_done": "epochs_unknown_is_done", "lists_once": "epochs_lists_once",
    "unheard_is_conflict": "refused_is_conflict", "applied_again": "epochs_applied_again",
    "fenced_is_denied": "wal_flush_is_concluded", "forgets_doubt": "wal_ever_open",
    "opens_again": "a second open of one instance", "fenced_is_forgotten": "a flush that repeats one that was fenced",
    "fenced_is_definite": "a flush that repeats one that was fenced", "fenced_is_for_all": "a flush of a fenced writer",
    "returns_its_base": "the value of an update that is not recognised: `MetadataStore.update`",
    "nothing_is_old": "a poll for new SSTs",
    **dict.fromkeys(("opens_unpinned", "keeps_predecessors", "keeps_first_checkpoint", "pins_its_base"),
                    "a checkpoint of a writer's own"),
}
BUILDS: dict[str, tuple[str, Build]] = {
    **OWN, **OF_EPOCHS, **parts.OF_SEQUENCES,
    **{f"ids_{name}": of for name, of in parts.OF_IDS.items()},
    **{f"compactor_{name}": of for name, of in parts.OF_COMPACTIONS.items()},
    **{f"wal_{name}": of for name, of in parts.OF_WAL.items()},
}
# Bugs that drawn runs show seldom, and the settings with which they do: name -> settings
IN_DOUBT = {"patience_ms": 100, "operators": 2, "changes": 6, "min_age_ms": 1, "pause_ms": 60}
BROKEN = {**MANY, "page_size": 2, "appends": 6, "compactions": 6, "patience_ms": 0}
LONE = {"collectors": 0, "operators": 0, "readers": 0, "flush_every": 1, "patience_ms": 0}
BY_BREAK = {  # bug of a sequence -> the only break of the environment by which it shows
    "boundary_ahead_is_believed": "boundary_set_ahead_of_{}", "lost_boundary_is_none": "boundary_lost_of_{}",
    "listing_without_end": "listing_never_ends", "repeated_key_is_listed": "listing_repeats", "looks_for_ever": "listing_hides",
    "listed_is_there": "listing_invents", "misnamed_file_is_skipped": "file_misnamed",
    "empty_page_ends_listing": "listing_stops",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "ended_is_taken": IN_DOUBT, "taken_twice": IN_DOUBT,
    "wal_open_after_cancel": {"patience_ms": 100},
    "wal_doubt_is_concluded": {**LONE, "writers": 3, "appends": 6, "compactors": 0},
    "compactor_claim_not_looked_up": {**LONE, "writers": 2, "appends": 4, "compactors": 3, "compactions": 4},
    "manifest_future_is_old": {**BROKEN, "skew_ms": 2_000}, "compactions_future_is_old": {**BROKEN, "skew_ms": 2_000},
    **{f"{sequence}_{bug}": {**BROKEN, "broken": broken.format(sequence)} for sequence in ("manifest", "compactions")
       for bug, broken in BY_BREAK.items()},
}
SELDOM = {name: (BUILDS.pop(name)[1], settings) for name, settings in SETTINGS.items()}
HARM = ("told:", "history:", "liveness:", "call:")  # an exception is no oracle: it may be the mutant's own mistake
BY_HARM = (  # those that drawn runs show to harm callers, without the model
    "drops_others", "drops_checkpoints", "flushes_anew", "newest_first", "advances_alone", "l0_emptied", "manifest_of_its_own",
    "compactors_epoch", "wal_by_manifests", "wal_by_records", "wal_one_more", "compactions_by_manifests", "compactions_spared",
    "manifests_not_spared", "epochs_claims_once", "epochs_not_reread", "epochs_not_reapplied", "epochs_unknown_is_done",
    "epochs_applied_again", "epochs_lists_once", "manifest_latest_deleted", "manifest_checkpoints_not_spared",
    "manifest_expired_not_spared", "compactions_latest_deleted", "compactor_epoch_in_manifest_alone", "compactor_overwrites",
    "compactor_collects_first", "wal_flushed_too_far", "wal_doubt_is_skipped", "wal_epoch_not_compared", "wal_of_next_epoch",
    "wal_collects_all",
)
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    name: (("refinement:", *HARM), HARM if name in BY_HARM else ()) for name in BUILDS}
MUTANTS = Mutants(BUILDS, ORACLES)
