"""Mutants of impl/protocols/manifest_compactions.py, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/manifest_compactions.py has at least one mutant: CHECK (`manifest_unchecked`,
`compactions_unchecked`), EPOCH_CHECK (`epochs_not_compared`), MANIFEST_FIRST (`bumped_second`), HEAL (`not_healed`:
slatedb#1095, #1152), APPLY_FIRST (`claim_out_first`), RECOGNISE (`claim_not_looked_up`, `refused_is_repeated`), TAKE_OVER
(`not_taken_over`), PIN_FIRST (`pins_with_the_drop`), PIN_AGAIN (`NotPinnedAgain`), SPARE_PINNED (`pinned_not_spared`).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.manifest_compactions import Impl, Shape, production
from highwater.impl.codecs.json.compactions import Job
from highwater.impl.codecs.json.manifest import Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.protocols import manifest_compactions
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.manifest_compactions import Compactor, Stores, is_applied, name_of_pin
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Put, Recognised
from highwater.impl.protocols.sequenced_storage import FIRST_ID, SequencedStorage
from highwater.impl.world import World


class NotCompared(MetadataStore):
    def is_fenced(self, value: Any, epoch: int) -> bool:
        return False


class BumpedSecond(Compactor):
    """Writes the epoch into the compactions first, and then into the manifest."""

    async def open(self) -> int:
        opened = await self.stores.compactions.update(lambda _, c: c._replace(compactor_epoch=c.compactor_epoch + 1))
        epoch = opened.value.compactor_epoch
        await self.stores.manifest.update_recognised(
            lambda m: m.compactor_epoch == epoch, lambda _, m: m._replace(compactor_epoch=epoch), epoch=epoch)
        self.epoch, self.job = epoch, min(opened.value.jobs, default=())
        self.claimed = bool(self.job)
        return epoch


class NotHealed(Compactor):
    """Adds one to the epoch of each object, instead of making them equal."""

    async def open(self) -> int:
        epoch = await self._bump()
        opened = await self.stores.compactions.update(lambda _, c: c._replace(compactor_epoch=c.compactor_epoch + 1))
        self.epoch, self.job = epoch, min(opened.value.jobs, default=())
        self.claimed = bool(self.job)
        return epoch


class EpochInManifestAlone(Compactor):
    async def open(self) -> int:
        self.epoch, compactions = await self._bump(), await self.stores.compactions.current()
        self.job = min(compactions.value.jobs, default=())
        self.claimed = bool(self.job)
        return self.epoch


class NotTakenOver(Compactor):
    """Picks new work although it has found a claim."""

    async def open(self) -> int:
        epoch = await super().open()
        self.job, self.claimed = (), False
        return epoch


class ClaimOutFirst(Compactor):
    """Removes a claim before the manifest has the claimed compaction."""

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        await self._finish(job)
        await super()._apply(job, merge)


class Unclaimed(Compactor):
    """Merges without writing a claim."""

    async def _claim(self, job: Job) -> None:
        self.claimed = True


async def apply_unseen(compactor: Compactor, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
    await merge(job)

    async def decide(_: int, m: Manifest) -> Put:
        return Put(m._replace(l0=tuple(sst for sst in m.l0 if sst not in job), compacted=(*m.compacted, *job)))

    await compactor.stores.manifest.apply(decide, False, epoch=compactor.epoch)
    compactor.applied = True


class ClaimNotLookedUp(Compactor):
    """Applies a claimed compaction without checking whether the manifest has it."""

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        await apply_unseen(self, job, merge)


class UnknownIsApplied(Compactor):
    """Treats a compaction with an indeterminate or refused update as done."""

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        try:
            await apply_unseen(self, job, merge)
        except (ObjectVersionBehindBoundary, OutcomeUnknown):
            self.applied = True


class PickedAnew(Compactor):
    """Forgets its claim after an error."""

    async def compact(self, merge: Callable[[Job], Awaitable[None]]) -> Job:
        self.job = self.job if not self.claimed or self.applied else ()
        return await super().compact(merge)


class NeverPins(Compactor):
    """Drops inputs without a pin."""

    def __init__(self, stores: Stores, attempts: int = 100, pin_ms: int = 0):
        super().__init__(stores, attempts)


class PinsWithTheDrop(Compactor):
    """Takes its pin in the update that drops the inputs, so that it keeps the manifest without them."""

    async def _pin(self, job: Job) -> None:
        self.pinned = True

    async def _drop_inputs(self, job: Job) -> None:
        if not self.pin_ms:
            await super()._drop_inputs(job)
            return
        now_ms, pin_id = self.stores.manifest.world.clock.now_ms(), self.stores.manifest.world.ids.new_id()

        def change(file_id: int, m: Manifest) -> Manifest:
            pin = Checkpoint(pin_id, file_id, now_ms + self.pin_ms, name_of_pin(job))
            rest = tuple(sst for sst in m.l0 if sst not in job)
            return m._replace(l0=rest, compacted=(*m.compacted, *job), checkpoints=(*m.checkpoints, pin))

        await self.stores.manifest.update_recognised(lambda m: is_applied(m, job), change, epoch=self.epoch)
        self.applied = True


class NotPinnedAgain(Compactor):
    """Drops inputs although its pin was dropped."""

    async def _drop_inputs(self, job: Job) -> None:
        self.pin_ms, pin_ms = 0, self.pin_ms
        try:
            await super()._drop_inputs(job)
        finally:
            self.pin_ms = pin_ms


class PinsBase(Compactor):
    """Takes a pin of the manifest before the one that lists it, which may be collected already."""

    def __init__(self, stores: Stores, attempts: int = 100, pin_ms: int = 0):
        super().__init__(stores, attempts, pin_ms)
        self.put = stores.manifest.update_recognised

    async def _pin(self, job: Job) -> None:
        async def update(holds: Any, change: Callable[[int, Manifest], Manifest], epoch: int) -> Committed | Recognised:
            return await self.put(holds, lambda file_id, m: change(file_id - 1, m), epoch=epoch)

        self.stores.manifest.update_recognised = update  # pyright: ignore[reportAttributeAccessIssue]  # for this call
        try:
            await super()._pin(job)
        finally:
            self.stores.manifest.update_recognised = self.put


async def collect_pinned(stores: Stores, min_age_ms: int) -> tuple[list[int], list[int]]:
    """Delete manifests that pins refer to."""
    if stores.manifest.policies.spare_checkpoints:
        await stores.manifest.drop_ended()
        stores.manifest.policies = stores.manifest.policies._replace(spare_checkpoints=False)
    try:
        return await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)
    finally:
        stores.manifest.policies = stores.manifest.policies._replace(spare_checkpoints=True)


async def flush_again(stores: Stores, sst: str) -> Committed:
    """Flush again after a refusal or an indeterminate outcome, without checking whether the SST is there."""
    while True:
        try:
            return await stores.manifest.update(lambda _, m: m._replace(l0=(*m.l0, sst)))
        except (ObjectVersionBehindBoundary, OutcomeUnknown):
            continue


async def flush_blindly(stores: Stores, sst: str) -> Committed | Recognised:
    """Report a flush with an indeterminate outcome as done."""
    try:
        return await stores.manifest.update(lambda _, m: m._replace(l0=(*m.l0, sst)))
    except OutcomeUnknown:
        return Committed(FIRST_ID, Manifest())
    except ObjectVersionBehindBoundary:
        return await manifest_compactions.flush(stores, sst)


class Unbounded:
    """A SequencedStorage whose creates succeed regardless of the boundary."""

    def __init__(self, world: World, store: MetadataStore):
        self.storage, self.boundary = store.bounded.storage, store.bounded.boundary
        self.list, self.latest, self.current, self.read = (
            store.bounded.list, store.bounded.latest, store.bounded.current, store.bounded.read)
        self.create = self.storage.create


class Overwriting(SequencedStorage):
    """Puts the next file without a condition."""

    async def create(self, file_id: int, body: bytes) -> None:
        await self.world.store.put(self.namespace.key(file_id), body)


def unchecked(name: str) -> Callable[[World, Shape, int], Impl]:
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl = production(world, shape, number)
        store = getattr(impl.stores, name)
        store.bounded = Unbounded(world, store)
        return impl

    return build


def overwriting(world: World, shape: Shape, number: int) -> Impl:
    impl = production(world, shape, number)
    bounded = impl.stores.manifest.bounded
    bounded.storage = Overwriting(world, bounded.storage.namespace)
    return impl


def with_stores(kind: type[MetadataStore]) -> Callable[[World, Shape, int], Impl]:
    def build(world: World, shape: Shape, number: int) -> Impl:
        impl = production(world, shape, number)
        stores = (kind(world, of.bounded.storage.namespace, of.codec, of.policies, of.bounded) for of in impl.stores)
        return impl._replace(stores=Stores(*stores))

    return build


def with_compactor(kind: type[Compactor]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(compactor=kind)


def with_flush(flush: Callable[..., Any]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(flush=flush)


async def flush_unread(stores: Stores, sst: str) -> Committed | Recognised:
    """Return a manifest without the SST."""
    return (await manifest_compactions.flush(stores, sst))._replace(value=Manifest())


async def collect_first(stores: Stores, min_age_ms: int) -> tuple[list[int], ...]:
    """Delete files before advancing the boundary. Return the deleted ids of each of the two stores."""
    deleted = []
    for store in stores:
        old = [file.id for file in (await store.bounded.list())[:-1]]
        for file_id in old:
            await store.bounded.storage.delete(file_id)
        if old:
            await store.advance_boundary(old[-1])
        deleted.append(old)
    return tuple(deleted)


def collecting_first(world: World, shape: Shape, number: int) -> Impl:
    return production(world, shape, number)._replace(collect=collect_first)


BUILDS = {  # name -> (its bug, its Build)
    "manifest_unchecked": ("the manifest's boundary is not checked after a create", unchecked("manifest")),
    "compactions_unchecked": ("the compactions' boundary is not checked after a create", unchecked("compactions")),
    "epochs_not_compared": ("a compactor does not compare epochs", with_stores(NotCompared)),
    "bumped_second": ("an open writes its epoch into the compactions first", with_compactor(BumpedSecond)),
    "epoch_in_manifest_alone": ("an open writes its epoch into the manifest alone", with_compactor(EpochInManifestAlone)),
    "not_healed": ("an open increments the epoch of each object, although the two may differ", with_compactor(NotHealed)),
    "not_taken_over": ("an open ignores the claim that it finds", with_compactor(NotTakenOver)),
    "claim_out_first": ("the claim is removed before the compaction is in the manifest", with_compactor(ClaimOutFirst)),
    "unclaimed": ("a compactor merges without a claim", with_compactor(Unclaimed)),
    "claim_not_looked_up": ("a compaction is applied although the manifest may already hold it",
                            with_compactor(ClaimNotLookedUp)),
    "unknown_is_applied": ("a compaction that is refused, or has no response, is treated as done",
                           with_compactor(UnknownIsApplied)),
    "picked_anew": ("after an error a compactor forgets its claim", with_compactor(PickedAnew)),
    "refused_is_repeated": ("a flush that is refused, or has no response, is put again", with_flush(flush_again)),
    "unheard_is_reported": ("a flush without a response is reported as done", with_flush(flush_blindly)),
    "overwrites": ("the manifest is put without a condition", overwriting),
    "never_pins": ("a compactor drops inputs that it has not pinned", with_compactor(NeverPins)),
    "pins_with_the_drop": ("a pin is taken in the update that drops the inputs", with_compactor(PinsWithTheDrop)),
    "pins_base": ("a pin refers to the manifest before the one that lists it", with_compactor(PinsBase)),
    "pinned_not_spared": ("manifests are deleted although pins refer to them",
                          lambda world, shape, number: production(world, shape, number)._replace(collect=collect_pinned)),
    "flush_unread": ("a flush returns a manifest that does not hold it", with_flush(flush_unread)),
    "collects_first": ("files are deleted before the boundary is durable", collecting_first),
}
# Drawn runs find this seldom: a collector must drop a pin between two updates of the compactor.
NOT_PINNED_AGAIN = with_compactor(NotPinnedAgain), {  # its Build, Shape
    "pin_ms": 1, "collectors": 2, "rounds": 12, "pause_ms": 60, "compactors": 4, "compactions": 4}
OF_COMPACTOR, LOST, TWICE = "refinement:Compactor.", "history:lost update", "history:applied twice"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "manifest_unchecked": (("refinement:", "told:"), ("history:",)),
    "compactions_unchecked": (("refinement:", "told:"), ()),
    "epochs_not_compared": ((OF_COMPACTOR, "told:"), ("history:lost epoch",)),
    "bumped_second": ((OF_COMPACTOR,), ()),
    "epoch_in_manifest_alone": ((OF_COMPACTOR, "told:opened"), ("history:lost epoch",)),
    "not_healed": ((OF_COMPACTOR,), ("history:lost epoch", "liveness:epochs apart")),
    "not_taken_over": ((OF_COMPACTOR, "told:nothing"), ("liveness:left",)),
    "claim_out_first": ((OF_COMPACTOR,), ()),
    "unclaimed": ((OF_COMPACTOR,), ()),
    "claim_not_looked_up": ((OF_COMPACTOR, "told:"), (TWICE,)),
    "unknown_is_applied": ((OF_COMPACTOR, "told:"), ("history:",)),
    "picked_anew": ((OF_COMPACTOR, "told:"), ("liveness:left",)),
    "refused_is_repeated": (("refinement:Writer.", "refinement:ValueError", "told:"), (TWICE,)),
    "unheard_is_reported": (("refinement:ValueError", "refinement:Writer.", "told:committed"), (LOST, TWICE)),
    "overwrites": (("refinement:put",), ("history:",)),
    "never_pins": ((OF_COMPACTOR,), ()),
    "pins_with_the_drop": ((OF_COMPACTOR,), ()),
    "pins_base": ((OF_COMPACTOR,), ()),
    "pinned_not_spared": (("refinement:Collector.",), ("history:lost manifest",)),
    "flush_unread": (("call:flush value",), ()),
    "collects_first": (("refinement:Collector.",), ("history:",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
