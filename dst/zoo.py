"""Safety: none, on purpose. Each mutant is the implementation with one safeguard taken out; a simulation that does not
find it within its budget is no good.

A mutant is a `Build`: it makes the MetadataStore of one client.
"""

from dst.scenarios.sequenced_metadata_boundary import Codec
from impl.boundary_object import ObjectStoreBoundaryObject, ObjectVersionBehindBoundary
from impl.errors import OutcomeUnknown
from impl.layout import Namespace
from impl.sequenced_metadata_boundary import BoundedSequencedStorage, MetadataStore
from impl.sequenced_storage import Listed, ObjectVersionExists, SequencedStorage
from impl.world import World


def build(world: World, where: Namespace, spare: bool, *, bounded: type = BoundedSequencedStorage,
          boundary: type = ObjectStoreBoundaryObject, storage: type = SequencedStorage,
          store: type = MetadataStore) -> MetadataStore:
    return store(world, where, Codec, spare, bounded(storage(world, where), boundary(world, where)))


class Unchecked(BoundedSequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        await self.storage.create(file_id, body)


class CheckedBefore(BoundedSequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        await self.boundary.check(file_id)
        await self.storage.create(file_id, body)


class ReportedAllTheSame(BoundedSequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except ObjectVersionBehindBoundary:
            pass


class AppliedAgain(BoundedSequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except (ObjectVersionBehindBoundary, OutcomeUnknown):
            raise ObjectVersionExists(file_id) from None  # so that the caller applies its update to the latest again


class ReadUnchecked(BoundedSequencedStorage):
    async def current(self) -> tuple[int, bytes]:
        return await self.latest()


class KeepsNothing(MetadataStore):
    """Takes the latest file, too, for something to delete."""

    async def collect(self, min_age_ms: int) -> list[int]:
        now_ms = self.world.clock.now_ms()
        old = [f.id for f in await self.bounded.list() if now_ms - f.last_modified_ms > min_age_ms]
        if not old:
            return []
        await self.advance_boundary(max(old))
        return [file_id for file_id in old if await self._delete(file_id)]


class TakesAnyForOld(MetadataStore):
    async def collect(self, min_age_ms: int) -> list[int]:
        return await super().collect(-(1 << 40))


class DeletesFirst(MetadataStore):
    async def collect(self, min_age_ms: int) -> list[int]:
        files: list[Listed] = await self.bounded.list()
        now_ms = self.world.clock.now_ms()
        old = [file.id for file in files[:-1] if now_ms - file.last_modified_ms > min_age_ms]
        if not old:
            return []
        spared = await self._spared(files[-1].id, now_ms) or frozenset()
        deleted = [file_id for file_id in old if file_id not in spared and await self._delete(file_id)]
        await self.advance_boundary(max(old))
        return deleted


class SparesNothing(MetadataStore):
    async def _spared(self, latest: int, now_ms: int) -> frozenset[int]:
        await self.read(latest)
        return frozenset()


class WrittenBlindly(ObjectStoreBoundaryObject):
    """Advances without the condition that the boundary be what was read."""

    async def _write(self, boundary: int) -> str:
        return await self.world.store.put(self.key, b"%d" % boundary)


class NeverAskedAgain(ObjectStoreBoundaryObject):
    """Answers from its cache, as a caching store would."""

    async def read(self) -> int:
        return self.seen[0] if self.seen else await super().read()


class LostReplyIsConflict(SequencedStorage):
    """Takes its own create, of which it got no answer, for somebody else's."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown:
            raise ObjectVersionExists(file_id) from None


ZOO = {  # name -> (what it does wrong, its Build)
    "no_check": ("a writer does not check the boundary",
                 lambda w, n, spare, i: build(w, n, spare, bounded=Unchecked)),
    "check_before_create": ("it checks before its create only",
                            lambda w, n, spare, i: build(w, n, spare, bounded=CheckedBefore)),
    "reported_though_refused": ("it reports success though the check failed",
                                lambda w, n, spare, i: build(w, n, spare, bounded=ReportedAllTheSame)),
    "one_old_writer": ("a rolling upgrade: writer 0 does not check yet",
                       lambda w, n, spare, i: build(w, n, spare, bounded=Unchecked if i == 0 else BoundedSequencedStorage)),
    "cached_boundary": ("the check is answered by a cache",
                        lambda w, n, spare, i: build(w, n, spare, boundary=NeverAskedAgain)),
    "delete_before_advance": ("files are deleted before the boundary is durable",
                              lambda w, n, spare, i: build(w, n, spare, store=DeletesFirst)),
    "boundary_moves_backward": ("the boundary is written without a condition",
                                lambda w, n, spare, i: build(w, n, spare, boundary=WrittenBlindly)),
    "latest_deleted": ("the latest file is collected, too",
                       lambda w, n, spare, i: build(w, n, spare, store=KeepsNothing)),
    "age_ignored": ("files younger than min_age are deleted",
                    lambda w, n, spare, i: build(w, n, spare, store=TakesAnyForOld)),
    "checkpoints_not_spared": ("files that checkpoints refer to are deleted",
                               lambda w, n, spare, i: build(w, n, spare, store=SparesNothing)),
    "reads_not_checked": ("a reader trusts the latest file without asking for the boundary, as source 000 has it",
                          lambda w, n, spare, i: build(w, n, spare, bounded=ReadUnchecked)),
    "lost_reply_is_conflict": ("a create of unknown outcome is taken for a conflict and applied again",
                               lambda w, n, spare, i: build(w, n, spare, storage=LostReplyIsConflict)),
    "refused_is_applied_again": ("a refused or doubtful update is applied to the latest file again",
                                 lambda w, n, spare, i: build(w, n, spare, bounded=AppliedAgain)),
}
