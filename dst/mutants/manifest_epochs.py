"""Mutants of impl/protocols/manifest_epochs.py, each with one safeguard removed. Simulation must find each of them.

The first fourteen are the knobs of model/protocols/manifest_epochs.py, in its order.
"""

from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.manifest_epochs import ROOT, Codec, Shape
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, Fenced, FencedApplied, OutcomeUnknown
from highwater.impl.protocols.manifest_epochs import Flush, Instance, ManifestReader, Polled, Update
from highwater.impl.protocols.sequenced_metadata import Attempt, Committed, MetadataStore, Put, Verdict
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.world import World

EPOCHS = ("writer_epoch", "compactor_epoch", "collector_epoch")


class Overwrites(MetadataStore):
    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        try:
            await self.world.store.put(self.bounded.storage.namespace.key(latest + 1), self.codec.encode(value))
        except OutcomeUnknown as error:
            attempt.doubt, attempt.why = latest + 1, error.with_traceback(None)
            raise
        return Committed(latest + 1, value)


class ClaimsOnce(MetadataStore):
    """Keeps the epoch of its first attempt when it retries an open that lost its race."""

    claim_of_first = 0

    def claimed(self, value: Any) -> Any:
        self.claim_of_first = self.claim_of_first or getattr(super().claimed(value), self.policies.epoch)
        return value._replace(**{self.policies.epoch: self.claim_of_first})


class BumpsAll(MetadataStore):
    def claimed(self, value: Any) -> Any:
        return value._replace(**{name: getattr(value, name) + 1 for name in EPOCHS})


class Unchecked(MetadataStore):
    def is_fenced(self, value: Any, epoch: int) -> bool:
        return False


class Noting(MetadataStore):
    """Notes whether it has sent a create of its current update."""

    tried = False

    async def apply(self, decide: Any, again: bool, *asked: Any) -> Any:
        done = await super().apply(decide, again, *asked)
        self.tried = False
        return done

    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        self.tried = True
        return await super()._create(latest, base, value, attempt)


class UncheckedAfterConflict(Noting):
    def is_fenced(self, value: Any, epoch: int) -> bool:
        return not self.tried and super().is_fenced(value, epoch)


class UncheckedCompactor(MetadataStore):
    """SlateDB's page on the manifest: «TODO: Fencing and Compaction», left open."""

    def is_fenced(self, value: Any, epoch: int) -> bool:
        return self.policies.epoch != "compactor_epoch" and super().is_fenced(value, epoch)


class Opened(MetadataStore):
    """Notes whether the instance is open."""

    opened = False

    async def claim(self, *asked: Any) -> Committed:
        done = await super().claim(*asked)
        self.opened = True
        return done


class NotReread(Opened):
    """Puts the same manifest at the next id after a conflict."""

    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        while True:
            try:
                return await super()._create(latest, base, value, attempt)
            except ObjectVersionExists:
                if not self.opened:
                    raise
                latest += 1


class NotReapplied(Noting):
    """Reads the epochs again after a conflict, but keeps its old lists."""

    built_on: Manifest | None = None

    async def apply(self, decide: Any, again: bool, *asked: Any) -> Any:
        async def decided(latest: int, m: Manifest) -> Any:
            if not (self.built_on and self.tried):
                self.built_on = m
            return await decide(latest, self.built_on._replace(**{name: getattr(m, name) for name in EPOCHS}))

        opens = not asked[3:]  # the epoch is given for an update alone
        return await super().apply(decide if opens else decided, again, *asked)


class Swallows(Instance):
    """SlateDB's page on the manifest: it «aborts and logs an error without retry», and «no error is ever returned»."""

    async def _update(self, *asked: Any) -> Committed | None:
        try:
            return await super()._update(*asked)
        except Fenced:
            self.over = self.update = None
            self.attempt = Attempt()
            return Committed(1, Manifest())


class UnknownIsDone(Opened):
    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        try:
            return await super()._create(latest, base, value, attempt)
        except OutcomeUnknown:
            if not self.opened:
                raise
            return Committed(latest + 1, value)


class ListsOnce(ManifestReader):
    """Polls the manifest that it already knows."""

    known: Polled | None = None

    async def poll(self) -> Polled:
        if self.known is None:
            self.known = await super().poll()
            return self.known
        return self.known._replace(manifest=await self.metadata.read(self.known.id))


class OpensUnpinned(Instance):
    """Takes its checkpoint in its first flush only, so until then nothing keeps the SSTs that it reads."""

    def with_own_checkpoint(self, file_id: int, m: Manifest) -> Manifest:
        return super().with_own_checkpoint(file_id, m) if self.epoch else m


class KeepsPredecessors(Instance):
    """Leaves the checkpoints of earlier writers in the manifest. They never expire, so nobody drops them."""

    def with_own_checkpoint(self, file_id: int, m: Manifest) -> Manifest:
        earlier = tuple(one for one in m.checkpoints if one.writer_epoch not in (None, m.writer_epoch))
        found = super().with_own_checkpoint(file_id, m)
        return found._replace(checkpoints=earlier + found.checkpoints) if self.role == "writer" else m


class KeepsFirstCheckpoint(Instance):
    """Does not replace the checkpoint of its open when it flushes."""

    def with_own_checkpoint(self, file_id: int, m: Manifest) -> Manifest:
        return m if self.epoch else super().with_own_checkpoint(file_id, m)


class PinsItsBase(Instance):
    """Takes the checkpoint of the manifest that it has read, and not of the one that it puts."""

    def with_own_checkpoint(self, file_id: int, m: Manifest) -> Manifest:
        return super().with_own_checkpoint(file_id - 1, m)


class UnheardIsConflict(MetadataStore):
    """Treats its own create with an indeterminate outcome as another instance's."""

    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        try:
            return await super()._create(latest, base, value, attempt)
        except OutcomeUnknown:
            attempt.settle()
            raise ObjectVersionExists(latest + 1) from None


class AppliedAgain(Instance):
    """Applies its update without checking whether the manifest already has it."""

    async def _decide(self, latest: int, m: Manifest, *asked: Any) -> Put | Verdict:
        if self.update is None:
            return await super()._decide(latest, m, *asked)
        if self.attempt.doubt <= latest:
            self.attempt.settle()
        return Put(self.update.applied(m))


class FencedIsDenied(Instance):
    """Reports a fenced update as not applied, without checking."""

    def _fenced(self, m: Manifest) -> Fenced:
        doubt, self.attempt.doubt = self.attempt.doubt, 0
        error = super()._fenced(m)
        self.attempt.doubt = doubt
        return error


class ForgetsDoubt(Instance):
    """Begins another flush while the outcome of one is not known."""

    async def flush(self, sst: str, deadline_ms: int | None = None) -> Committed:
        if self.update != Flush(sst):
            self.attempt.settle()
        return await super().flush(sst, deadline_ms)


class OpensAgain(Instance):
    """Takes another epoch when it is open already."""

    async def open(self, retry_for_s: float = 0) -> Committed:
        self.epoch = 0
        return await super().open(retry_for_s)


class FencedIsForgotten(Instance):
    """Says that it is fenced without effect to every call after the one that found out."""

    def _check_not_over(self, update: Update | None = None) -> None:
        super()._check_not_over()


class DefiniteFencedApplied(FencedApplied, Definite):
    """The same error, in the wrong class."""


DefiniteFencedApplied.__name__ = FencedApplied.__name__


class FencedIsDefinite(Instance):
    """Raises an error that its callers take for a definite one, although the update is in the manifest."""

    async def _update(self, *asked: Any) -> Committed | None:
        try:
            return await super()._update(*asked)
        except FencedApplied as error:
            raise DefiniteFencedApplied(error.role, error.epoch, error.stored, "the error is of the wrong class") from None


class FencedIsForAll(Instance):
    """Says of every later flush what it said of the one that was applied before it was fenced."""

    def _check_not_over(self, update: Update | None = None) -> None:
        if isinstance(self.over, FencedApplied):
            raise FencedApplied(self.role, self.over.epoch, self.over.stored, f"{update} is in the manifest")
        super()._check_not_over(update)


class ReturnsItsBase(MetadataStore):
    """Returns the manifest that an update built on, without the update."""

    built_on = b""

    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        self.built_on = base
        return await super()._create(latest, base, value, attempt)

    async def apply(self, decide: Any, again: bool, *asked: Any) -> Any:
        done, opens = await super().apply(decide, again, *asked), not asked[3:]  # the epoch is given for an update alone
        return done if opens or done is None or not self.built_on else done._replace(value=self.codec.decode(self.built_on))


class NothingIsOld(ManifestReader):
    """Calls every SST new, also those that it has returned before."""

    async def poll(self) -> Polled:
        self.seen = frozenset()
        return await super().poll()


def client(instance: type[Instance] = Instance, reader: type[ManifestReader] = ManifestReader,
           store: type[MetadataStore] = MetadataStore) -> Build:
    def build(world: World, shape: Shape, role: str) -> Instance | ManifestReader:
        return reader(world, ROOT, Codec) if role == "reader" else instance(world, ROOT, role, Codec, store)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "overwrites": ("a manifest is put without a condition", client(store=Overwrites)),
    "claims_once": ("an open that retries keeps the epoch of its first attempt", client(store=ClaimsOnce)),
    "bumps_all": ("an open takes the next epoch of every role", client(store=BumpsAll)),
    "unchecked": ("no update compares epochs", client(store=Unchecked)),
    "unchecked_after_conflict": ("epochs are not compared again after a conflict", client(store=UncheckedAfterConflict)),
    "unchecked_compactor": ("a compactor is never fenced", client(store=UncheckedCompactor)),
    "not_reread": ("after a conflict the same manifest is put at the next id", client(store=NotReread)),
    "not_reapplied": ("after a conflict the old lists are put under the new epochs", client(store=NotReapplied)),
    "fencing_swallowed": ("a fenced instance only logs it, and reports success", client(Swallows)),
    "unknown_is_done": ("an update without a response is reported as done", client(store=UnknownIsDone)),
    "lists_once": ("a reader polls the manifest that it already knows", client(reader=ListsOnce)),
    "opens_unpinned": ("an open takes no checkpoint for the writer", client(OpensUnpinned)),
    "keeps_predecessors": ("a writer leaves the checkpoints of earlier writers in the manifest", client(KeepsPredecessors)),
    "keeps_first_checkpoint": ("a flush does not replace the writer's checkpoint", client(KeepsFirstCheckpoint)),
    "pins_its_base": ("a writer's checkpoint is of the manifest before the one that lists it", client(PinsItsBase)),
    "unheard_is_conflict": ("a create without a response is treated as refused", client(store=UnheardIsConflict)),
    "applied_again": ("an update without a response is applied again although it is in the manifest", client(AppliedAgain)),
    "fenced_is_denied": ("a fenced update without a response is reported as not applied although it was applied",
                         client(FencedIsDenied)),
    "forgets_doubt": ("a flush begins while the outcome of another is not known", client(ForgetsDoubt)),
    "opens_again": ("an instance that is open takes another epoch", client(OpensAgain)),
    "fenced_is_forgotten": ("a flush that is repeated after FencedApplied is reported as not applied",
                            client(FencedIsForgotten)),
    "fenced_is_definite": ("FencedApplied is a definite error", client(FencedIsDefinite)),
    "fenced_is_for_all": ("a flush after FencedApplied is reported as applied, too", client(FencedIsForAll)),
    "returns_its_base": ("a committed update returns the manifest without its change", client(store=ReturnsItsBase)),
    "nothing_is_old": ("a poll calls SSTs new that it has returned before", client(reader=NothingIsOld)),
}
STALE = ("refinement:Writer.", "refinement:Compactor.", "refinement:Collector.")
DONE = ("told:committed", "told:compacted", "told:collected")
UNFENCED = (*STALE, *DONE, "told:nothing")
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "overwrites": ((*STALE, "refinement:.ApplyPending"), ("history:",)),
    "claims_once": (STALE, ("history:one epoch twice",)),
    "bumps_all": (STALE, ()),
    "unchecked": (UNFENCED, ()),
    "unchecked_after_conflict": (UNFENCED, ()),
    "unchecked_compactor": (UNFENCED, ()),
    "not_reread": (STALE, ("history:",)),
    "not_reapplied": (STALE, ("history:",)),
    "fencing_swallowed": (DONE, ("history:lost update",)),
    "unknown_is_done": (DONE, ("history:lost update",)),
    "lists_once": (("refinement:Reader.",), ("history:stale read",)),
    "opens_unpinned": (("refinement:Writer.",), ("history:writer checkpoint",)),
    "keeps_predecessors": (("refinement:Writer.",), ("history:writer checkpoint",)),
    "keeps_first_checkpoint": (("refinement:Writer.",), ("history:writer checkpoint",)),
    "pins_its_base": (("refinement:Writer.",), ("history:writer checkpoint",)),
    "unheard_is_conflict": (("told:version_exists", "told:failed", "told:fenced"), ("history:denied update",)),
    "applied_again": ((*STALE, "refinement:ValueError", "told:failed", "told:unknown", "told:version_exists"),
                      ("history:applied twice", "history:writer checkpoint",)),
    "fenced_is_denied": (("told:fenced",), ("history:denied update",)),
    "forgets_doubt": (("refinement:", "told:misuse"), ("told:misuse", "history:")),
    "opens_again": (("refinement:", "told:misuse"), ("told:misuse",)),
    "fenced_is_forgotten": (("told:fenced",), ("history:denied update",)),
    "fenced_is_definite": (("call:",), ()),
    "fenced_is_for_all": (("told:misuse",), ("told:misuse",)),
    "returns_its_base": (("call:",), ()),
    "nothing_is_old": (("call:poll new",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
