"""Mutants of impl/protocols/log_gc.py, each with one safeguard removed. Simulation must find each of them.

`naive` is the collection of the essay on object-store protocols, by `min_age` alone. A client that stalls or is idle for longer
makes the history branch. The others are the knobs of model/protocols/log_gc.py switched off: CHECK (`no_check`,
`check_before_create`), REAPPEND, BOUNDARY_FIRST (`delete_before_advance`), CONDITIONAL_ADVANCE (`boundary_moves_backward`),
SNAPSHOT_FIRST, KEEP_LATEST, KEEP_SNAPSHOT, CHECK_READS; and assumptions of the model.
"""

from collections.abc import Callable

from highwater.dst.mutants.sequenced_metadata_boundary import (
    CheckedBefore,
    LostReplyIsConflict,
    NeverAskedAgain,
    ReportedAllTheSame,
    SaysItDeleted,
    Unchecked,
    WrittenBlindly,
)
from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.log_gc import ROOT, Shape
from highwater.impl.errors import NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject, ObjectVersionBehindBoundary
from highwater.impl.protocols.log_gc import AppendLog, NotRecovered, Recovered
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import SequencedStorage, old_ids
from highwater.impl.world import World


class PutBlindly(SequencedStorage):
    async def create(self, file_id: int, body: bytes) -> None:
        await self.world.store.put(self.namespace.key(file_id), body)


class AppendedAgain(AppendLog):
    """Appends a refused entry again."""

    async def append(self, entry: bytes) -> int:
        while True:
            try:
                return await super().append(entry)
            except ObjectVersionBehindBoundary:
                pass


class ReadUnchecked(AppendLog):
    """Treats a missing entry as the end of the log in a recovery."""

    async def recover(self) -> Recovered:
        for _ in range(self.read_attempts):
            snapshot = await self._latest_snapshot()
            try:
                state = self.fold.decode(await self.snapshots.read(snapshot)) if snapshot else self.fold.empty
            except NotFound:
                continue
            return Recovered(*await self._replayed(snapshot, state), snapshot)
        raise NotRecovered("each snapshot was gone before it could be read")


class ReadCheckedFirst(ReadUnchecked):
    """Reads the boundary before the entries."""

    async def _replayed(self, file_id: int, state: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        assert self.boundary is not None
        await self.boundary.read()
        return await super()._replayed(file_id, state)


class Collecting(AppendLog):
    """A round of collection in parts that mutants override."""

    async def collect(self, min_age_ms: int) -> list[int]:
        listed, now_ms = await self.bounded.list(), self.world.clock.now_ms()
        if not listed:
            return []
        snapshots = await self.snapshots.list()
        held = snapshots[-1].id if snapshots else 0

        for file_id in self.of_snapshots(old_ids(snapshots, now_ms, min_age_ms), held):
            await self.snapshots.collect(file_id)
        entries = self.of_entries(old_ids(listed, now_ms, min_age_ms), held, listed[-1].id)
        return await self.gone(entries) if entries else []

    def of_snapshots(self, old: list[int], latest: int) -> list[int]:
        return [i for i in old if i < latest]

    def of_entries(self, old: list[int], held: int, latest: int) -> list[int]:
        return [i for i in old if i <= held and i < latest]

    async def gone(self, entries: list[int]) -> list[int]:
        assert self.boundary is not None
        await self.boundary.advance(max(entries))
        return [i for i in entries if await self.entries.collect(i)]


class DeletesFirst(Collecting):
    async def gone(self, entries: list[int]) -> list[int]:
        assert self.boundary is not None
        deleted = [i for i in entries if await self.entries.collect(i)]
        await self.boundary.advance(max(entries))
        return deleted


class NeedsNoSnapshot(Collecting):
    def of_entries(self, old: list[int], held: int, latest: int) -> list[int]:
        return [i for i in old if i < latest]


class KeepsNoEntry(Collecting):
    def of_entries(self, old: list[int], held: int, latest: int) -> list[int]:
        return [i for i in old if i <= held]


class KeepsNoSnapshot(Collecting):
    def of_snapshots(self, old: list[int], latest: int) -> list[int]:
        return old


class TakesAnyForOld(AppendLog):
    async def collect(self, min_age_ms: int) -> list[int]:
        return await super().collect(-(1 << 40))


class ForgetsToCollectSnapshots(Collecting):
    def of_snapshots(self, old: list[int], latest: int) -> list[int]:
        return []


class GoesOnFromSnapshot(AppendLog):
    """Takes the end of the log from the latest snapshot, without listing the entries."""

    async def append(self, entry: bytes) -> int:
        if self.latest is None:
            self.latest = await self._latest_snapshot()
        return await super().append(entry)


def build(world: World, shape: Shape, number: int, *, log: type[AppendLog] = AppendLog,
          bounded: type = BoundedSequencedStorage, boundary: type = ObjectStoreBoundaryObject,
          storage: type = SequencedStorage) -> AppendLog:
    of = log(world, ROOT)
    namespace = Namespace(ROOT, "log")
    of.entries, of.boundary = storage(world, namespace), boundary(world, namespace)
    of.bounded = bounded(of.entries, of.boundary)
    return of


class Miscounts(AppendLog):
    """Returns the id after the last entry to callers of `recover`; its snapshots are right."""

    snaps = False

    async def recover(self) -> Recovered:
        found = await super().recover()
        return found if self.snaps else found._replace(id=found.id + 1)

    async def snapshot(self) -> int:
        self.snaps = True
        try:
            return await super().snapshot()
        finally:
            self.snaps = False


class LostSnapshotIsNone(AppendLog):
    """Recovers from the latest snapshot, though a boundary read before is ahead of it."""

    async def _latest_snapshot(self) -> int:
        listed = await self.snapshots.list()
        return listed[-1].id if listed else 0


def made(**parts: type) -> Callable[[World, Shape, int], AppendLog]:
    return lambda world, shape, number: build(world, shape, number, **parts)


BUILDS = {  # name -> (its bug, its Build)
    "naive": ("entries are collected by min_age alone, without a boundary",
              lambda world, shape, number: AppendLog(world, ROOT, "min_age")),
    "no_check": ("an appender does not check the boundary", made(bounded=Unchecked)),
    "check_before_create": ("an appender checks the boundary only before its create", made(bounded=CheckedBefore)),
    "reported_though_refused": ("an appender reports success although the check failed", made(bounded=ReportedAllTheSame)),
    "one_old_client": ("a rolling upgrade: the first client of each role does not check yet",
                       lambda world, shape, number: build(world, shape, number,
                                                          bounded=BoundedSequencedStorage if number else Unchecked)),
    "cached_boundary": ("a cache answers the reads of the boundary", made(boundary=NeverAskedAgain)),
    "refused_is_appended_again": ("a refused entry is appended again", made(log=AppendedAgain)),
    "doubt_is_conflict": ("a create with an indeterminate outcome is treated as a conflict, and the entry put at the next id",
                          made(storage=LostReplyIsConflict)),
    "blind_create": ("entries are put without a condition", made(storage=PutBlindly)),
    "delete_before_advance": ("entries are deleted before the boundary is durable", made(log=DeletesFirst)),
    "boundary_moves_backward": ("the boundary is written without a condition", made(boundary=WrittenBlindly)),
    "no_snapshot_needed": ("entries are collected that no snapshot holds", made(log=NeedsNoSnapshot)),
    "last_entry_deleted": ("the last entry is collected too", made(log=KeepsNoEntry)),
    "last_snapshot_deleted": ("the latest snapshot is collected too", made(log=KeepsNoSnapshot)),
    "age_ignored": ("entries younger than min_age are deleted", made(log=TakesAnyForOld)),
    "reads_not_checked": ("a recovery treats a missing entry as the end of the log", made(log=ReadUnchecked)),
    "read_checked_first": ("a recovery reads the boundary before the entries, not after", made(log=ReadCheckedFirst)),
    "end_from_snapshot": ("an appender begins after the latest snapshot, without a listing", made(log=GoesOnFromSnapshot)),
    "snapshots_kept": ("old snapshots are never collected", made(log=ForgetsToCollectSnapshots)),
    "says_it_deleted": ("a round of collection returns ids whose delete failed", made(storage=SaysItDeleted)),
    "entries_miscounted": ("a recovery returns the id after its last entry", made(log=Miscounts)),
    "lost_snapshot_is_none": ("a recovery begins again and again though the boundary is ahead of the latest snapshot",
                              made(log=LostSnapshotIsNone)),
}
LOST, TWICE, STALE = "history:lost update", "history:applied twice", "history:stale read"
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "says_it_deleted": (("call:collect deleted",), ()),
    "lost_snapshot_is_none": (("history:untrue error",), ("history:untrue error",)),
    "entries_miscounted": (("call:recover id",), ()),
    "naive": (("told:", "refinement:"), (LOST,)),
    "no_check": (("told:committed",), (LOST,)),
    "check_before_create": (("refinement:Appender.Accept|Reject",), (LOST,)),
    "reported_though_refused": (("told:committed",), (LOST,)),
    "one_old_client": (("told:committed",), (LOST,)),
    # The harm of the next two is rare: a client must stall while the boundary moves twice.
    "cached_boundary": (("told:committed", "told:read", "told:snapshot", "refinement:"), ()),
    "boundary_moves_backward": (("refinement:put", "refinement:Collector."), ()),
    "refused_is_appended_again": (("refinement:Appender.", "told:failed"), (TWICE,)),
    "doubt_is_conflict": (("refinement:Appender.",), (TWICE, LOST)),
    "blind_create": (("refinement:put",), (LOST,)),
    "delete_before_advance": (("refinement:Collector.",), ("history:",)),
    "no_snapshot_needed": (("refinement:Collector.",), (LOST,)),
    "last_entry_deleted": (("refinement:Collector.",), ("history:", "liveness:")),
    "last_snapshot_deleted": (("refinement:Collector.",), (LOST,)),
    "age_ignored": (("history:too young",), ()),
    "reads_not_checked": (("told:read", "told:snapshot", "refinement:Reader."),
                          (STALE, LOST, "history:read went back", "history:untrue success")),
    "read_checked_first": (("refinement:Reader.",), (STALE, LOST, "history:read went back", "history:untrue success")),
    "end_from_snapshot": (("refinement:Appender.",), ()),
    "snapshots_kept": (("liveness:stale",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
