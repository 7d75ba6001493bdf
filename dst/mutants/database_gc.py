"""Mutants of impl/protocols/database_gc.py and impl/protocols/database_gc_uploads.py. Simulation must find each of them.

Each knob of model/protocols/database_gc.py has at least one mutant: ORDER (`manifest_first`, `list_last`), L0_CUTOFF
(`min_age_alone`: slatedb#604, #984), COMPACTION_CUTOFF (`compactions_unread`: slatedb#1028, #1029), REFUSE_OLDER
(`older_committed`: slatedb#1822), KEEP_NEWEST (`newest_forgotten`), OUTPUT_AFTER (`output_before`), CLAIM_FIRST
(`upload_first`), FINISH_LAST (`finished_first`),
EPOCH_CHECK (`zombie`), CLEAR (`not_cleared`), SPARE_LATEST (`latest_not_spared`), SPARE_CHECKPOINTED (`checkpoints_unread`,
`checkpointed_files_go`), SPARE_LISTED (`ended_not_spared`), SPARE_SEEN (`seen_not_spared`).
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.database_gc import Impl, Shape, production
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, ulid_of
from highwater.impl.codecs.sst_ids import RANDOM, listed, named, newest_l0, time_ms
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown
from highwater.impl.layout import key_of_sst, prefix_of_ssts, sst_of
from highwater.impl.protocols import database_gc, database_gc_uploads
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.database_gc import Options, Plan
from highwater.impl.protocols.database_gc_uploads import NOTHING, Flushed, SstCompactor
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.world import World, list_all

# --- collectors


async def ssts_of(stores: Stores, root: str, options: Options, order: str, *, l0: bool = True, pending: bool = True,
                  latest: bool = True, held: bool = True) -> tuple[str, ...]:
    """Plan which SSTs to delete, with reads in this order, and without some of the safeguards."""
    world, now_ms = stores.manifest.world, stores.manifest.world.clock.now_ms()
    reads = {"list": partial(list_all, world.store, prefix_of_ssts(root)), "compactions": stores.compactions.current,
             "manifest": stores.manifest.current}
    got = {name: await reads[name]() for name in order.split()}
    manifest: Manifest = got["manifest"].value
    try:
        manifests = [await stores.manifest.read(i) for i in sorted(manifest.referenced())] if held else []
    except NotFound as error:
        raise database_gc.CheckpointGone(str(error)) from error
    kept = frozenset[str]().union(*map(named, [*manifests, *([manifest] if latest else [])]))
    newest, before_ms = newest_l0(manifest), now_ms - options.min_age_ms
    ends = [before_ms, *([time_ms(newest) if newest else 0] if l0 else []),
            *(map(time_ms, listed(got["compactions"].value) or ()) if pending else ())]
    found = [(sst_of(root, entry.key), entry.last_modified_ms) for entry in got["list"]]
    return tuple(sst for sst, put_ms in found
                 if sst is not None and sst not in kept and time_ms(sst) < min(ends) and put_ms < before_ms)


ORDER = "list compactions manifest"


def ssts_otherwise(order: str = ORDER, **without: bool) -> Build:
    async def collect(stores: Stores, root: str, options: Options) -> Plan:
        await stores.manifest.drop_ended()
        plan = await database_gc.plan(stores, root, options)
        ssts = await ssts_of(stores, root, options, order, **without)
        return await database_gc.delete(stores, root, plan._replace(ssts=ssts))

    return with_collect(collect)


def with_collect(collect: Callable) -> Build:
    def build(world: World, shape: Shape, number: int) -> Impl:
        return production(world, shape, number)._replace(collect=collect)

    return build


def planned_otherwise(change: Callable[[Stores, Plan, Manifest, Options], Any], drops: bool = True) -> Build:
    """Return the Build of a collector that changes its plan."""
    async def collect(stores: Stores, root: str, options: Options) -> Plan:
        if drops:
            await stores.manifest.drop_ended()
        plan = await database_gc.plan(stores, root, options)
        latest = (await stores.manifest.current()).value
        return await database_gc.delete(stores, root, await change(stores, plan, latest, options))

    return with_collect(collect)


async def checkpointed_files(stores: Stores, plan: Plan, latest: Manifest, options: Options) -> Plan:
    return plan._replace(manifests=tuple(sorted({*plan.manifests, *latest.referenced()} - {plan.manifest})))


async def ended_files(stores: Stores, plan: Plan, latest: Manifest, options: Options) -> Plan:
    now_ms = stores.manifest.world.clock.now_ms()
    active = latest.without_ended(now_ms).referenced() | {plan.manifest}
    ended = [i for i in sorted(latest.referenced()) if i not in active and i <= plan.boundaries[0]]
    return plan._replace(manifests=tuple(sorted({*plan.manifests, *ended})))


async def all_flushed(stores: Stores, plan: Plan, latest: Manifest, options: Options) -> Plan:
    return plan._replace(wal=tuple(range(1, latest.replay_after_wal_id)))


async def all_logged(stores: Stores, plan: Plan, latest: Manifest, options: Options) -> Plan:
    return plan._replace(wal=tuple(range(1, latest.wal_id_last_seen + 1)))


async def drops_all(stores: Stores, root: str, options: Options) -> Plan:
    """Remove all checkpoints, also those that have not ended."""
    await stores.manifest.update_recognised(lambda m: not m.checkpoints, lambda _, m: m._replace(checkpoints=()))
    return await database_gc.delete(stores, root, await database_gc.plan(stores, root, options))


async def young_too(stores: Stores, root: str, options: Options) -> Plan:
    return await database_gc.collect(stores, root, options._replace(min_age_ms=-1_000_000))


async def says_planned(stores: Stores, root: str, options: Options) -> Plan:
    """Return what was planned, and not what was deleted."""
    await stores.manifest.drop_ended()
    plan = await database_gc.plan(stores, root, options)
    await database_gc.delete(stores, root, plan)
    return plan


async def keeps_ssts(stores: Stores, root: str, options: Options) -> Plan:
    await stores.manifest.drop_ended()
    return await database_gc.delete(stores, root, (await database_gc.plan(stores, root, options))._replace(ssts=()))


# --- writers

async def commit_older(manifests: MetadataStore, root: str, body: bytes, wal: Flushed = NOTHING) -> str:
    """Commit an SST to L0 although a newer one may be there."""
    sst = await database_gc_uploads.upload(manifests.world, root, newest_l0((await manifests.current()).value), body)
    await manifests.update_recognised(lambda m: sst in (newest_l0(m), *m.l0), lambda _, m: m._replace(
        l0=(*m.l0, sst), replay_after_wal_id=max(m.replay_after_wal_id, wal.after),
        wal_id_last_seen=max(m.wal_id_last_seen, wal.seen)))
    return sst


async def commit_first(manifests: MetadataStore, root: str, body: bytes, wal: Flushed = NOTHING) -> str:
    """Commit an SST before it is uploaded."""
    sst = database_gc_uploads.minted(manifests.world.ids, newest_l0((await manifests.current()).value))
    await database_gc_uploads.commit(manifests, sst, wal)
    await manifests.world.store.create(key_of_sst(root, sst), body)
    return sst


async def unheard_is_flushed(manifests: MetadataStore, root: str, body: bytes, wal: Flushed = NOTHING) -> str:
    """Report a commit without a response as done."""
    sst = await database_gc_uploads.upload(manifests.world, root, newest_l0((await manifests.current()).value), body)
    try:
        await manifests.update(lambda _, m: m._replace(l0=(*m.l0, sst)))
    except (OutcomeUnknown, ObjectVersionBehindBoundary):
        pass
    return sst


def with_flush(flush: Callable) -> Build:
    def build(world: World, shape: Shape, number: int) -> Impl:
        return production(world, shape, number)._replace(flush=flush)

    return build


# --- compactors

class OutputBefore(SstCompactor):
    """Mints its compaction's ULID a second ahead, so that the outputs' are older."""

    async def _list(self) -> None:
        await super()._list()
        number = number_of_ulid(self.id)
        self.outputs += [await upload_as(self, ulid_of(max(number - (100 << RANDOM), 0)))]


async def upload_as(of: SstCompactor, sst: str) -> str:
    with suppress(AlreadyExists):  # an earlier attempt uploaded it
        await of.stores.manifest.world.store.create(key_of_sst(of.root, sst), b"rows")
    return sst


class UploadFirst(SstCompactor):
    """Uploads before the compaction is listed."""

    async def _list(self) -> None:
        if not self.outputs:
            self.outputs.append(await database_gc_uploads.upload(self.stores.manifest.world, self.root, "", b"rows"))
        await super()._list()


class Unlisted(SstCompactor):
    """Compacts without listing it."""

    async def _list(self) -> None:
        self.listed = True

    async def _finish(self) -> None:
        pass


class FinishedFirst(SstCompactor):
    """Removes its compaction from the list before the outputs are in the manifest."""

    async def _apply(self, outputs: tuple[str, ...]) -> None:
        await self._finish()
        await super()._apply(outputs)


class NotCompared(MetadataStore):
    def is_fenced(self, value: Any, epoch: int) -> bool:
        return False


class NotCleared(SstCompactor):
    """Leaves the compactions of those before it in the list."""

    async def open(self) -> int:
        epoch = (await self.stores.manifest.claim(self.attempts)).value.compactor_epoch
        await self.stores.compactions.update_recognised(
            lambda c: c.compactor_epoch == epoch, lambda _, c: c._replace(compactor_epoch=epoch), epoch=epoch)
        self.epoch = epoch
        return epoch


class ClearedFirst(SstCompactor):
    """Removes the compactions of those before it, and claims its epoch then."""

    async def open(self) -> int:
        epoch = (await self.stores.manifest.current()).value.compactor_epoch + 1
        await self.stores.compactions.update_recognised(
            lambda c: c.compactor_epoch == epoch, lambda _, c: Compactions(epoch), epoch=epoch)
        self.epoch = (await self.stores.manifest.claim(self.attempts)).value.compactor_epoch
        return self.epoch


class InputsKept(SstCompactor):
    """Removes no input from L0."""

    async def _apply(self, outputs: tuple[str, ...]) -> None:
        await self.stores.manifest.update_recognised(
            lambda m: all(sst in m.compacted for sst in outputs),
            lambda _, m: m._replace(compacted=(*m.compacted, *outputs)), epoch=self.epoch)
        self.applied = True


class NewestForgotten(SstCompactor):
    """Does not write down the newest L0, which it merges."""

    async def _apply(self, outputs: tuple[str, ...]) -> None:
        await self.stores.manifest.update_recognised(
            lambda m: all(sst in m.compacted for sst in outputs),
            lambda _, m: m._replace(l0=tuple(sst for sst in m.l0 if sst not in self.inputs),
                                    compacted=(*(sst for sst in m.compacted if sst not in self.inputs), *outputs)),
            epoch=self.epoch)
        self.applied = True


def with_compactor(compactor: type[SstCompactor]) -> Build:
    def build(world: World, shape: Shape, number: int) -> Impl:
        return production(world, shape, number)._replace(compactor=compactor)

    return build


def zombie(world: World, shape: Shape, number: int) -> Impl:
    of = production(world, shape, number)
    stores = Stores(*(NotCompared(world, store.bounded.storage.namespace, store.codec, store.policies) for store in of.stores))
    return of._replace(stores=stores)


BUILDS = {  # name -> (its bug, its Build)
    "manifest_first": ("the manifest is read before the compactions", ssts_otherwise("list manifest compactions")),
    "list_last": ("the SSTs are listed after the compactions and the manifest are read",
                  ssts_otherwise("compactions manifest list")),
    "min_age_alone": ("SSTs newer than the newest L0 are deleted, once they are old", ssts_otherwise(l0=False)),
    "compactions_unread": ("SSTs newer than a listed compaction are deleted", ssts_otherwise(pending=False)),
    "no_cutoff": ("SSTs are deleted by age alone", ssts_otherwise(l0=False, pending=False)),
    "latest_not_spared": ("only what checkpoints refer to is kept", ssts_otherwise(latest=False)),
    "checkpoints_unread": ("only what the latest manifest names is kept", ssts_otherwise(held=False)),
    "checkpointed_files_go": ("manifests that checkpoints refer to are deleted", planned_otherwise(checkpointed_files)),
    "ended_not_spared": ("manifests of checkpoints that have ended are deleted, and the checkpoints are listed still",
                         planned_otherwise(ended_files, drops=False)),
    "seen_not_spared": ("the WAL objects that a checkpoint has seen are deleted", planned_otherwise(all_flushed)),
    "all_logged": ("WAL objects that are not flushed are deleted", planned_otherwise(all_logged)),
    "drops_all": ("checkpoints that have not ended are removed", with_collect(drops_all)),
    "young_too": ("young objects are deleted", with_collect(young_too)),
    "says_planned": ("a round says that it has deleted what it planned", with_collect(says_planned)),
    "keeps_ssts": ("SSTs are never deleted", with_collect(keeps_ssts)),
    "older_committed": ("an SST older than the newest L0 is committed", with_flush(commit_older)),
    "commit_first": ("an SST is committed before it is uploaded", with_flush(commit_first)),
    "unheard_is_flushed": ("a commit without a response is reported as done", with_flush(unheard_is_flushed)),
    "output_before": ("an output has an older ULID than its compaction", with_compactor(OutputBefore)),
    "upload_first": ("outputs are uploaded before their compaction is listed", with_compactor(UploadFirst)),
    "unlisted": ("compactions are not listed", with_compactor(Unlisted)),
    "finished_first": ("a compaction leaves the list before its outputs are in the manifest", with_compactor(FinishedFirst)),
    "zombie": ("a compactor does not compare epochs", zombie),
    "not_cleared": ("an open leaves the compactions of earlier compactors in the list", with_compactor(NotCleared)),
    "cleared_first": ("an open clears the list before it claims its epoch", with_compactor(ClearedFirst)),
    "inputs_kept": ("a compaction removes no input", with_compactor(InputsKept)),
    "newest_forgotten": ("a compaction forgets the newest L0", with_compactor(NewestForgotten)),
}
OF_COLLECTOR, OF_COMPACTOR, OF_WRITER = "refinement:Collector.", "refinement:Compactor.", "refinement:Writer."
LOST = ("history:lost object",)
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(("manifest_first", "min_age_alone", "compactions_unread", "no_cutoff", "latest_not_spared",
                     "checkpoints_unread"), ((OF_COLLECTOR,), LOST)),
    "list_last": ((OF_COLLECTOR,), ()),  # an object is lost in 1 run of some 2,000
    "checkpointed_files_go": ((OF_COLLECTOR, "refinement:delete"), ("history:lost checkpoint",)),
    "ended_not_spared": ((OF_COLLECTOR,), ("history:lost checkpoint",)),
    "seen_not_spared": ((OF_COLLECTOR, "refinement:evidence", "history:too young"), (*LOST, "history:too young")),
    "all_logged": ((OF_COLLECTOR, "history:too young"), (*LOST, "history:too young")),
    "drops_all": (("refinement:DropEnded",), ()),
    "young_too": (("history:too young",), ()),
    "says_planned": (("call:collect",), ()),
    "keeps_ssts": (("liveness:garbage",), ("liveness:garbage",)),
    "older_committed": ((OF_WRITER, OF_COLLECTOR), LOST),
    "commit_first": (("refinement:",), LOST),
    "unheard_is_flushed": ((OF_WRITER, "told:flushed", "call:flush"), ()),
    "output_before": (("refinement:",), LOST),
    "upload_first": ((OF_COMPACTOR, "refinement:evidence"), LOST),
    "unlisted": ((OF_COMPACTOR, "refinement:evidence"), LOST),
    "finished_first": ((OF_COMPACTOR,), LOST),
    "zombie": ((OF_COMPACTOR, "told:"), ()),
    "not_cleared": ((OF_COMPACTOR,), ("liveness:garbage",)),
    "cleared_first": ((OF_COMPACTOR,), ()),
    "inputs_kept": ((OF_COMPACTOR, "refinement:create"), ()),
    "newest_forgotten": ((OF_COMPACTOR, "refinement:create"), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
