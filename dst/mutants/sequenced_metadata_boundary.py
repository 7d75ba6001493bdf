"""Mutants of impl/protocols/sequenced_metadata_boundary.py, each with one safeguard removed.

Simulation must find each mutant within its budget, by the oracle in ORACLES. A mutant is a `Build`: it makes the MetadataStore
of one client.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.mutants import sequenced_metadata_boundary_ambiguity as ambiguity
from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.sequenced_metadata_boundary import Codec
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import ListingNeverEnds, NotFound, OutcomeUnknown
from highwater.impl.layout import InvalidName, Namespace
from highwater.impl.protocols.boundary_object import (
    BoundaryLost,
    InvalidBoundary,
    ObjectStoreBoundaryObject,
    ObjectVersionBehindBoundary,
)
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest, ObjectVersionExists, SequencedStorage, old_ids
from highwater.impl.world import Page, World, list_all


def build(world: World, where: Namespace, spare: bool, *, bounded: type = BoundedSequencedStorage,
          boundary: type = ObjectStoreBoundaryObject, storage: type = SequencedStorage,
          store: type = MetadataStore) -> MetadataStore:
    return store(world, where, Codec, Policies(spare_checkpoints=spare), bounded(storage(world, where), boundary(world, where)))


class SaysItDeleted(SequencedStorage):
    async def collect(self, file_id: int) -> bool:
        await super().collect(file_id)
        return True


class ReturnsNoValue(MetadataStore):
    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        return (await super().update(change, attempts))._replace(value=Manifest())


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
            raise ObjectVersionExists(file_id) from None  # makes the caller apply its update to the latest file again


class ReadUnchecked(BoundedSequencedStorage):
    async def current(self) -> tuple[int, bytes]:
        return await self.latest()


class MissingIsAskedAgain(BoundedSequencedStorage):
    """Requests a file that was listed and then collected, forever, without listing again."""

    async def latest(self) -> tuple[int, bytes]:
        files = await self.list()
        if not files:
            return await super().latest()
        while True:
            try:
                return files[-1].id, await self.read(files[-1].id)
            except NotFound:
                pass


class ConflictNotLookedAt(MetadataStore):
    """Tries the same id again after a conflict, without reading the winner's file, until its attempts are used up."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        latest, body = await self.bounded.latest()
        value = change(latest + 1, self.codec.decode(body))
        for _ in range(attempts or 3):
            try:
                await self.bounded.create(latest + 1, self.codec.encode(value))
                return Committed(latest + 1, value)
            except ObjectVersionExists:
                pass
        raise ObjectVersionExists(latest + 1)


class KeepsNothing(MetadataStore):
    """Deletes the latest file too."""

    async def collect(self, min_age_ms: int) -> list[int]:
        now_ms = self.world.clock.now_ms()
        old = old_ids(await self.bounded.list(), now_ms, min_age_ms)
        if not old:
            return []
        await self.advance_boundary(max(old))
        return [file_id for file_id in old if await self.bounded.storage.collect(file_id)]


class TakesAnyForOld(MetadataStore):
    async def collect(self, min_age_ms: int) -> list[int]:
        return await super().collect(-(1 << 40))


class TakesTheFutureForOld(MetadataStore):
    """Takes a file for old if its time is far from the own clock's, in either direction."""

    async def collect(self, min_age_ms: int) -> list[int]:
        files, now_ms = await self.bounded.list(), self.world.clock.now_ms()
        if files and files[0].last_modified_ms - now_ms > min_age_ms:
            return await super().collect(-(1 << 40))
        return await super().collect(min_age_ms)


class DeletesFirst(MetadataStore):
    async def collect(self, min_age_ms: int) -> list[int]:
        files = await self.bounded.list()
        now_ms = self.world.clock.now_ms()
        old = old_ids(files[:-1], now_ms, min_age_ms)
        if not old:
            return []
        spared = await self._spared(files[-1].id) or frozenset()
        deleted = [file_id for file_id in old if file_id not in spared and await self.bounded.storage.collect(file_id)]
        await self.advance_boundary(max(old))
        return deleted


class SparesNothing(MetadataStore):
    async def _spared(self, latest: int) -> frozenset[int] | None:
        return None if await super()._spared(latest) is None else frozenset()


class SparesOnlyActive(MetadataStore):
    """Deletes the file of a checkpoint that has ended by its clock, although it is listed and its owner may still renew it."""

    async def read(self, file_id: int) -> Any:
        return (await super().read(file_id)).without_ended(self.world.clock.now_ms())


class SparesUnchecked(MetadataStore):
    """Trusts the checkpoints of the latest file listed, without reading the boundary after it."""

    async def _spared(self, latest: int) -> frozenset[int] | None:
        if not self.policies.spare_checkpoints:
            return frozenset()
        try:
            return (await self.read(latest)).referenced()
        except NotFound:
            return None


class WrittenBlindly(ObjectStoreBoundaryObject):
    """Advances the boundary even if it has changed since it was read."""

    async def _write(self, boundary: int) -> str:
        return await self.world.store.put(self.key, b"%d" % boundary)


class NeverAskedAgain(ObjectStoreBoundaryObject):
    """Answers from its cache, as a caching store would."""

    async def read(self) -> int:
        return self.seen[0] if self.seen else await super().read()


class LostIsNone(ObjectStoreBoundaryObject):
    """Takes a boundary that is gone for one that has never been, although it was seen."""

    async def read(self) -> int:
        try:
            return await super().read()
        except BoundaryLost:
            self.seen = None
            return 0


class InvalidIsIgnored(ObjectStoreBoundaryObject):
    """Goes on with the boundary that it knew if the file holds no number, or a smaller one."""

    async def read(self) -> int:
        try:
            return await super().read()
        except InvalidBoundary:
            return self.at_least


class ListsRepeatedKeys(SequencedStorage):
    """Lists a key twice that a page repeats from the page before."""

    async def list(self, after: int | None = None) -> list[Listed]:
        files, start = [], "" if after is None else self.namespace.key(after)
        while True:
            page = await self.store.list_page(self.namespace.prefix, start)
            ids = [(self.namespace.file_id(entry.key), entry.last_modified_ms) for entry in page.entries]
            files += [Listed(file_id, ms) for file_id, ms in ids if file_id is not None]
            if self.is_last(page, start):
                return files
            start = page.entries[-1].key

    def is_last(self, page: Page, after: str) -> bool:
        if page.truncated and (not page.entries or page.entries[-1].key <= after):
            raise ListingNeverEnds(self.namespace.prefix, after)
        return not page.truncated


class EndsAtEmptyPage(ListsRepeatedKeys):
    """Takes a page without keys for the end of a listing."""

    async def list(self, after: int | None = None) -> list[Listed]:
        return sorted(set(await super().list(after)))

    def is_last(self, page: Page, after: str) -> bool:
        return not page.entries or super().is_last(page, after)


class SkipsBadNames(SequencedStorage):
    """Lists no file whose name is no id."""

    async def list(self, after: int | None = None) -> list[Listed]:
        files, start = [], "" if after is None else self.namespace.key(after)
        for entry in await list_all(self.store, self.namespace.prefix, start):
            try:
                file_id = self.namespace.file_id(entry.key)
            except InvalidName:
                continue
            files += [Listed(file_id, entry.last_modified_ms)] if file_id is not None else []
        return files


class ListsForEver(SequencedStorage):
    """Asks for the next page as long as a page is truncated."""

    async def list(self, after: int | None = None) -> list[Listed]:
        while True:
            try:
                return await super().list(after)
            except ListingNeverEnds:
                continue


class LooksForEver(SequencedStorage):
    """Lists again whenever an id exists that is not listed."""

    def check_listed(self, latest: int, conflicts: dict[int, int]) -> None:
        pass


class ListedIsThere(BoundedSequencedStorage):
    """Lists again whenever a listed file is not there."""

    async def latest(self) -> tuple[int, bytes]:
        while True:
            try:
                return await super().latest()
            except NoLatest:
                pass


class AheadIsBelieved(BoundedSequencedStorage):
    """Does not compare a listing with the boundary."""

    async def list(self, after: int | None = None) -> list[Listed]:
        return await self.storage.list(after)


class LostReplyIsConflict(SequencedStorage):
    """Treats its own create with an indeterminate outcome as another client's."""

    async def create(self, file_id: int, body: bytes) -> None:
        try:
            await super().create(file_id, body)
        except OutcomeUnknown:
            raise ObjectVersionExists(file_id) from None


BUILDS = {  # name -> (its bug, its Build)
    "no_check": ("a writer does not check the boundary",
                 lambda w, n, spare, i: build(w, n, spare, bounded=Unchecked)),
    "check_before_create": ("a writer checks the boundary only before its create",
                            lambda w, n, spare, i: build(w, n, spare, bounded=CheckedBefore)),
    "reported_though_refused": ("a writer reports success although the check failed",
                                lambda w, n, spare, i: build(w, n, spare, bounded=ReportedAllTheSame)),
    "one_old_writer": ("a rolling upgrade: writer 0 does not check yet",
                       lambda w, n, spare, i: build(w, n, spare, bounded=Unchecked if i == 0 else BoundedSequencedStorage)),
    "cached_boundary": ("a cache answers the check of the boundary",
                        lambda w, n, spare, i: build(w, n, spare, boundary=NeverAskedAgain)),
    "delete_before_advance": ("files are deleted before the boundary is durable",
                              lambda w, n, spare, i: build(w, n, spare, store=DeletesFirst)),
    "boundary_moves_backward": ("the boundary is written without a condition",
                                lambda w, n, spare, i: build(w, n, spare, boundary=WrittenBlindly)),
    "latest_deleted": ("the latest file is collected too",
                       lambda w, n, spare, i: build(w, n, spare, store=KeepsNothing)),
    "future_is_old": ("a file whose time is far ahead of the collector's clock counts as old",
                      lambda w, n, spare, i: build(w, n, spare, store=TakesTheFutureForOld)),
    "age_ignored": ("files younger than min_age are deleted",
                    lambda w, n, spare, i: build(w, n, spare, store=TakesAnyForOld)),
    "checkpoints_not_spared": ("files that checkpoints refer to are deleted",
                               lambda w, n, spare, i: build(w, n, spare, store=SparesNothing)),
    "expired_not_spared": ("files of checkpoints that have ended are deleted, though their owners may still renew them",
                           lambda w, n, spare, i: build(w, n, spare, store=SparesOnlyActive)),
    "checkpoints_not_checked": ("a collector trusts the checkpoints that it read without reading the boundary",
                                lambda w, n, spare, i: build(w, n, spare, store=SparesUnchecked)),
    "reads_not_checked": ("a reader trusts the latest file without reading the boundary, as in SlateDB's RFC",
                          lambda w, n, spare, i: build(w, n, spare, bounded=ReadUnchecked)),
    "lost_reply_is_conflict": ("a create with an indeterminate outcome is treated as a conflict, and its update applied again",
                               lambda w, n, spare, i: build(w, n, spare, storage=LostReplyIsConflict)),
    "refused_is_applied_again": ("a refused or indeterminate update is applied to the latest file again",
                                 lambda w, n, spare, i: build(w, n, spare, bounded=AppliedAgain)),
    "missing_is_asked_again": ("a client requests a file forever that was deleted after it was listed",
                               lambda w, n, spare, i: build(w, n, spare, bounded=MissingIsAskedAgain)),
    "lost_boundary_is_none": ("a boundary that was seen and is gone counts as one that has never been",
                              lambda w, n, spare, i: build(w, n, spare, boundary=LostIsNone)),
    "invalid_boundary_is_ignored": ("a boundary that holds no number, or went back, counts as unchanged",
                                    lambda w, n, spare, i: build(w, n, spare, boundary=InvalidIsIgnored)),
    "repeated_key_is_listed": ("a key that a page repeats from the page before is listed twice",
                               lambda w, n, spare, i: build(w, n, spare, storage=ListsRepeatedKeys)),
    "empty_page_ends_listing": ("a truncated page without keys counts as the end of a listing",
                                lambda w, n, spare, i: build(w, n, spare, storage=EndsAtEmptyPage)),
    "misnamed_file_is_skipped": ("a file whose name is no id is not listed",
                                 lambda w, n, spare, i: build(w, n, spare, storage=SkipsBadNames)),
    "looks_for_ever": ("an id that exists and is never listed is looked for again and again",
                       lambda w, n, spare, i: build(w, n, spare, storage=LooksForEver)),
    "listed_is_there": ("a file that is listed and not there is looked for again and again",
                        lambda w, n, spare, i: build(w, n, spare, bounded=ListedIsThere)),
    "boundary_ahead_is_believed": ("a boundary that is ahead of all files is not noticed",
                                   lambda w, n, spare, i: build(w, n, spare, bounded=AheadIsBelieved)),
    "listing_without_end": ("a listing that never ends is requested forever",
                            lambda w, n, spare, i: build(w, n, spare, storage=ListsForEver)),
    "conflict_not_looked_at": ("after a conflict the same id is tried again, without reading the winner's file",
                               lambda w, n, spare, i: build(w, n, spare, store=ConflictNotLookedAt)),
    "says_it_deleted": ("a round of collection returns ids whose delete failed",
                        lambda w, n, spare, i: build(w, n, spare, storage=SaysItDeleted)),
    "returns_no_value": ("a committed update returns a value without it",
                         lambda w, n, spare, i: build(w, n, spare, store=ReturnsNoValue)),
    **ambiguity.BUILDS,
}

DUPLICATE, LOST, TWICE = "history:duplicate commit", "history:lost update", "history:applied twice"
CHECKPOINT = "history:lost checkpoint"
DELETES = ("refinement:Collector.Delete", "refinement:Collector.SendDelete")
WRITES_AGAIN = ("refinement:Writer.CreateNext", "refinement:Writer.SendCreate", "told:failed")
LISTS_AGAIN = ("refinement:Writer.List|ListPage", "call:update attempts", *WRITES_AGAIN, TWICE)  # for clients that retry
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "no_check": (("told:committed",), (DUPLICATE, LOST)),
    "check_before_create": (("refinement:Writer.Accept|Reject",), (DUPLICATE, LOST)),
    "reported_though_refused": (("told:committed", "history:untrue success"), (DUPLICATE, LOST)),
    "one_old_writer": (("told:committed",), (DUPLICATE, LOST)),
    "cached_boundary": (("told:committed", "told:read", "refinement:Collector."), (DUPLICATE, LOST)),
    # It may delete files that an earlier boundary covers. Then only its advance afterwards is wrong.
    "delete_before_advance": (("refinement:Collector.Delete", "refinement:Collector.SendDelete", "refinement:Collector.Advance",
                               "refinement:Collector.SendAdvance"), (DUPLICATE, LOST, CHECKPOINT)),
    "boundary_moves_backward": (("refinement:Collector.Advance", "refinement:.ApplyPending"),
                                (DUPLICATE, LOST, "exception:InvalidBoundary")),  # a client notices that saw the higher one
    "latest_deleted": (("refinement:Collector.",), ("history:", "liveness:", "exception:")),
    "future_is_old": (("history:too young",), ()),
    "age_ignored": (("history:too young",), ()),
    "checkpoints_not_spared": (DELETES, (CHECKPOINT,)),
    "expired_not_spared": (DELETES, (CHECKPOINT,)),
    "checkpoints_not_checked": (DELETES, ()),
    "reads_not_checked": (("told:read",), ("history:read", "history:stale read")),
    "lost_reply_is_conflict": (LISTS_AGAIN, (TWICE,)),
    "refused_is_applied_again": (LISTS_AGAIN, (TWICE,)),
    "Z7": (LISTS_AGAIN, (TWICE,)),
    # Without the latest file the boundary is at the file that is latest then. No client can continue from it.
    "Z8": (("refinement:Writer.Delete", "refinement:Writer.SendDelete", *WRITES_AGAIN),
           ("history:", "liveness:", "exception:InvalidBoundary")),
    "Z9": (LISTS_AGAIN, (TWICE,)),
    "Z9_fenced": (("told:failed",), (TWICE,)),
    "Z10": (LISTS_AGAIN, (TWICE,)),
    "gone_is_not_mine": (LISTS_AGAIN, (TWICE,)),
    "anothers_is_not_mine": (LISTS_AGAIN, ()),
    "sent_once_is_nothing": (LISTS_AGAIN, (TWICE,)),
    "timeout_is_nothing": ((*LISTS_AGAIN, "call:update Unavailable"), (TWICE,)),
    "missing_is_asked_again": (("refinement:Writer.ReadMissing", "refinement:Reader.ReadMissing"), ("liveness:",)),
    "lost_boundary_is_none": (("history:untrue success",), ("history:untrue success",)),
    "invalid_boundary_is_ignored": (("history:untrue success",), ("history:untrue success",)),
    "repeated_key_is_listed": (("history:", "liveness:"), ("history:", "liveness:")),
    "empty_page_ends_listing": (("call:",), ("call:",)),
    "misnamed_file_is_skipped": (("call:",), ("call:",)),
    "looks_for_ever": (("liveness:",), ("liveness:",)),
    "listed_is_there": (("liveness:",), ("liveness:",)),
    "boundary_ahead_is_believed": (("history:untrue answer",), ("history:untrue answer",)),
    "listing_without_end": (("liveness:", "call:"), ("liveness:", "call:")),
    "conflict_not_looked_at": (("refinement:Writer.CreateConflict", "refinement:Writer.create", *WRITES_AGAIN), ()),
    "says_it_deleted": (("call:collect deleted",), ()),
    "returns_no_value": (("call:update content",), ("told:change",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
