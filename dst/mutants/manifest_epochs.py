"""Mutants of impl/protocols/manifest_epochs.py, each with one safeguard removed. Simulation must find each of them.

The first eleven are the knobs of model/protocols/manifest_epochs.py, in its order.
"""

from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.manifest_epochs import ROOT, Codec, Shape
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, OutcomeUnknown
from highwater.impl.protocols.manifest_epochs import (
    EPOCH,
    Committed,
    Fenced,
    FencedApplied,
    Flush,
    Instance,
    ManifestReader,
    Polled,
    Update,
)
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.world import World


class Overwrites(Instance):
    async def _create(self, m: Manifest) -> Committed:
        await self.world.store.put(self.storage.namespace.key(self.at + 1), self.codec.encode(m))
        committed, self.base = Committed(self.at + 1, m), None
        return committed


class ClaimsOnce(Instance):
    """Keeps the epoch of its first attempt when it retries an open that lost its race."""

    claim = 0

    async def _latest(self) -> Manifest:
        m = await super()._latest()
        if self.epoch:
            return m
        self.claim = self.claim or getattr(m, EPOCH[self.role]) + 1
        return m._replace(**{EPOCH[self.role]: self.claim - 1})


class BumpsAll(Instance):
    async def _create(self, m: Manifest) -> Committed:
        others = {} if self.epoch else {name: getattr(m, name) + 1 for role, name in EPOCH.items() if role != self.role}
        return await super()._create(m._replace(**others))


class Unchecked(Instance):
    def _compare(self, m: Manifest) -> None:
        pass


class Noting(Instance):
    """Notes whether it has sent a create of its current update."""

    tried = False

    async def _create(self, m: Manifest) -> Committed:
        self.tried = bool(self.epoch)
        return await super()._create(m)

    def _forget(self) -> None:
        self.tried = False
        super()._forget()


class UncheckedAfterConflict(Noting):
    def _compare(self, m: Manifest) -> None:
        if not self.tried:
            super()._compare(m)


class UncheckedCompactor(Instance):
    """SlateDB's page on the manifest: «TODO: Fencing and Compaction», left open."""

    def _compare(self, m: Manifest) -> None:
        if self.role != "compactor":
            super()._compare(m)


class NotReread(Instance):
    """Puts the same manifest at the next id after a conflict."""

    async def _create(self, m: Manifest) -> Committed:
        while True:
            try:
                return await super()._create(m)
            except ObjectVersionExists:
                if not self.epoch:
                    raise
                self.at += 1


class NotReapplied(Noting):
    """Reads the epochs again after a conflict, but keeps its old lists."""

    built_on: Manifest | None = None

    async def _latest(self) -> Manifest:
        m = await super()._latest()
        if not (self.epoch and self.tried and self.built_on):
            self.built_on = m
        return self.built_on._replace(**{name: getattr(m, name) for name in EPOCH.values()})


class Swallows(Instance):
    """SlateDB's page on the manifest: it «aborts and logs an error without retry», and «no error is ever returned»."""

    async def _update(self, *asked: Any) -> Committed | None:
        try:
            return await super()._update(*asked)
        except Fenced:
            self.over = None
            return self._done(Committed(self.at, Manifest()))


class UnknownIsDone(Instance):
    async def _create(self, m: Manifest) -> Committed:
        try:
            return await super()._create(m)
        except OutcomeUnknown:
            if not self.epoch:
                raise
            committed, self.base = Committed(self.at + 1, m), None
            return committed


class ListsOnce(ManifestReader):
    """Polls the manifest that it already knows."""

    known: Polled | None = None

    async def poll(self) -> Polled:
        if self.known is None:
            self.known = await super().poll()
            return self.known
        return self.known._replace(manifest=self.codec.decode(await self.storage.read(self.known.id)))


class UnheardIsConflict(Instance):
    """Treats its own create with an indeterminate outcome as another instance's."""

    async def _create(self, m: Manifest) -> Committed:
        try:
            return await super()._create(m)
        except OutcomeUnknown:
            raise ObjectVersionExists(self.at + 1) from None


class AppliedAgain(Instance):
    """Applies its update without checking whether the manifest already has it."""

    async def _prepare(self, *asked: Any) -> Committed | None:
        if self.update is None:
            return await super()._prepare(*asked)
        m = await self._latest()
        self._compare(m)
        self.doubt = self.doubt if self.doubt > self.at else 0
        self.base = m
        return None


class FencedIsDenied(Instance):
    """Reports a fenced update as not applied, without checking."""

    def _compare(self, m: Manifest) -> None:
        doubt, self.doubt = self.doubt, 0
        super()._compare(m)
        self.doubt = doubt


class ForgetsDoubt(Instance):
    """Begins another flush while the outcome of one is not known."""

    async def flush(self, sst: str, deadline_ms: int | None = None) -> Committed:
        if self.update != Flush(sst):
            self.doubt = 0
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


class ReturnsItsBase(Instance):
    """Returns the manifest that it built on, without its update."""

    async def _create(self, m: Manifest) -> Committed:
        base = self.base
        committed = await super()._create(m)
        return committed._replace(manifest=base or m)


class NothingIsOld(ManifestReader):
    """Calls every SST new, also those that it has returned before."""

    async def poll(self) -> Polled:
        self.seen = frozenset()
        return await super().poll()


def client(instance: type[Instance] = Instance, reader: type[ManifestReader] = ManifestReader) -> Build:
    def build(world: World, shape: Shape, role: str) -> Instance | ManifestReader:
        return reader(world, ROOT, Codec) if role == "reader" else instance(world, ROOT, role, Codec)

    return build


BUILDS = {  # name -> (its bug, its Build)
    "overwrites": ("a manifest is put without a condition", client(Overwrites)),
    "claims_once": ("an open that retries keeps the epoch of its first attempt", client(ClaimsOnce)),
    "bumps_all": ("an open takes the next epoch of every role", client(BumpsAll)),
    "unchecked": ("no update compares epochs", client(Unchecked)),
    "unchecked_after_conflict": ("epochs are not compared again after a conflict", client(UncheckedAfterConflict)),
    "unchecked_compactor": ("a compactor is never fenced", client(UncheckedCompactor)),
    "not_reread": ("after a conflict the same manifest is put at the next id", client(NotReread)),
    "not_reapplied": ("after a conflict the old lists are put under the new epochs", client(NotReapplied)),
    "fencing_swallowed": ("a fenced instance only logs it, and reports success", client(Swallows)),
    "unknown_is_done": ("an update without a response is reported as done", client(UnknownIsDone)),
    "lists_once": ("a reader polls the manifest that it already knows", client(reader=ListsOnce)),
    "unheard_is_conflict": ("a create without a response is treated as refused", client(UnheardIsConflict)),
    "applied_again": ("an update without a response is applied again although it is in the manifest", client(AppliedAgain)),
    "fenced_is_denied": ("a fenced update without a response is reported as not applied although it was applied",
                         client(FencedIsDenied)),
    "forgets_doubt": ("a flush begins while the outcome of another is not known", client(ForgetsDoubt)),
    "opens_again": ("an instance that is open takes another epoch", client(OpensAgain)),
    "fenced_is_forgotten": ("a flush that is repeated after FencedApplied is reported as not applied",
                            client(FencedIsForgotten)),
    "fenced_is_definite": ("FencedApplied is a definite error", client(FencedIsDefinite)),
    "fenced_is_for_all": ("a flush after FencedApplied is reported as applied, too", client(FencedIsForAll)),
    "returns_its_base": ("a committed update returns the manifest without its change", client(ReturnsItsBase)),
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
    "unheard_is_conflict": (("told:version_exists", "told:failed", "told:fenced"), ("history:denied update",)),
    "applied_again": ((*STALE, "refinement:ValueError", "told:failed", "told:unknown", "told:version_exists"),
                      ("history:applied twice",)),
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
