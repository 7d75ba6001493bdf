"""Mutants of impl/protocols/wal_fencing.py, each with one safeguard removed. Simulation must find each of them.

Some are bugs that SlateDB had: #352 and #1622 (`unchecked`), #1682 (`fence_not_ahead`), #271 (`claimed_after_fence`), #1694
(`gone_is_skipped`), #1625 (`flushed_too_far`), #766 (`doubt_is_fenced`).
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.wal_fencing import Impl, Shape
from highwater.dst.world.faults import NONE
from highwater.impl.codecs.json.wal import Record, WalCheckpoint, WalManifest, decode_record, encode_manifest, encode_record
from highwater.impl.errors import AlreadyExists, FencedUnapplied, NotFound, OutcomeUnknown, UpdateConflict
from highwater.impl.kv.wal import WalKv, decode
from highwater.impl.layout import Namespace
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Known, ManifestObject, Wal
from highwater.impl.world import World, list_all


class Unchecked(Wal):
    """Acknowledges an append as soon as its object is created."""

    async def append(self, body: bytes) -> Record:
        self.ensure_open()
        record, i = Record(self.world.ids.new_id(), self.epoch, body), self.last_id + 1
        await self._create(i, record)
        self.records.append(record)
        self.last_id = i
        return record


class FenceNotAhead(Wal):
    """Puts the fence after the listed objects, although objects up to replay_after may have been flushed and collected."""

    async def _fence(self) -> int:
        known = self.known
        self.known = known._replace(manifest=known.manifest._replace(replay_after=0))
        try:
            return await super()._fence()
        finally:
            self.known = known


class NotValidated(Wal):
    """Trusts a replay without reading the manifest again."""

    async def _refresh(self) -> None:
        if self.last_id:
            await super()._refresh()

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        refresh, self._refresh = self._refresh, nothing
        try:
            await super()._replay(fence, flush_every)
        finally:
            self._refresh = refresh


class OpenAfterCancel(Wal):
    """Stays open after a call was cancelled, as if it had requested nothing."""

    async def _closing(self, work: Awaitable[Any]) -> Any:
        return await work


async def nothing() -> None:
    pass


class GoneIsSkipped(NotValidated):
    """Skips a missing WAL object in a replay, and does not validate the replay."""

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        self.records, self.last_id = list(self.known.manifest.flushed), self.known.manifest.replay_after
        for i in range(self.last_id + 1, fence):
            try:
                record = decode_record((await self._again(lambda i=i: self.world.store.get(self.namespace.key(i)))).body)
                self.records += [record] if record else []
            except NotFound:
                pass
            self.last_id = i
        self.last_id = fence


class FlushedTooFar(Wal):
    """Puts replay_after one beyond the flushed records."""

    async def flush(self) -> None:
        self.last_id += 1
        await super().flush()
        self.last_id -= 1


class BlindManifest(Wal):
    """Puts the manifest without a condition."""

    def __init__(self, world: World, root: str, attempts: int = 5):
        super().__init__(world, root, attempts)
        self.object.put = self._put

    async def _put(self, known: Known, manifest: WalManifest) -> Known:
        return Known(manifest, await self.world.store.put(self.object.key, encode_manifest(manifest)))


class BlindCreate(Wal):
    """Puts WAL objects without a condition."""

    async def _create(self, i: int, record: Record) -> None:
        await self.world.store.put(self.namespace.key(i), encode_record(record))


class DoubtIsFenced(Wal):
    """Treats the object that it finds after a lost response as another writer's."""

    async def _is_own(self, i: int, record: Record, doubt: OutcomeUnknown) -> bool:
        raise self._stop(f"WAL id {i} is taken")


class DoubtIsSkipped(Wal):
    """Tries the next slot with the same record after a lost response."""

    async def _create(self, i: int, record: Record) -> None:
        for _ in range(self.attempts):
            try:
                await self.world.store.create(self.namespace.key(self.last_id + 1), encode_record(record))
                return
            except AlreadyExists:
                raise self._stop("taken") from None
            except OutcomeUnknown:
                self.last_id += 1
        raise OutcomeUnknown("given up")

    async def append(self, body: bytes) -> Record:
        record = await super().append(body)
        self.last_id = max(self.last_id, 1)
        return record


class DoubtIsConcluded(Wal):
    """Concludes from another writer's object, after a lost response, that its own create was never applied."""

    async def _create(self, i: int, record: Record) -> None:
        try:
            await super()._create(i, record)
        except OutcomeUnknown as error:
            if self.closed is FencedUnapplied and "flushed and collected" in str(error):
                raise FencedUnapplied("writer", self.epoch, 0, str(error)) from error
            raise


class ClaimIsConcluded(Wal):
    """Reports an open with conflicts as having claimed nothing, although one of its claims had no response."""

    async def _claim(self) -> None:
        try:
            await super()._claim()
        except OutcomeUnknown as error:
            raise UpdateConflict(str(error)) from error


class GivesUpAtOnce(Wal):
    """Gives up an open after one conflict of its claim, whatever the limit of attempts."""

    async def _claim(self) -> None:
        self.attempts, limit = 1, self.attempts
        try:
            await super()._claim()
        finally:
            self.attempts = limit


class FlushIsConcluded(Wal):
    """Reports a flush as fenced without effect, although one of its puts had no response."""

    async def _reread(self, unknown: OutcomeUnknown | None) -> None:
        await super()._reread(None)


class StaysOpen(Wal):
    """Continues with the next append when it cannot read the object after a lost response."""

    async def _is_own(self, i: int, record: Record, doubt: OutcomeUnknown) -> bool:
        try:
            return await super()._is_own(i, record, doubt)
        except OutcomeUnknown:
            self.closed = None
            raise


class EpochNotCompared(Wal):
    """Reads the manifest after a conflict in a flush without comparing epochs, and puts its own again."""

    async def _reread(self, unknown: OutcomeUnknown | None) -> None:
        self.known = await self._again(lambda: self.object.read_again(self.known))


class EverOpen(Wal):
    """Goes on after it was fenced, or does not know an outcome."""

    def ensure_open(self) -> None:
        pass


class ServedUnlogged(WalKv):
    """Puts a value into its table before it is logged."""

    async def put(self, key: str, value: bytes) -> None:
        self.table[key] = value
        await super().put(key, value)


class OldestWins(WalKv):
    """Opens with the first value of each key."""

    def __init__(self, wal: Wal):
        super().__init__(wal)
        self.table = dict(reversed([decode(record.body) for record in wal.records]))


class ForgetsCheckpoints(Wal):
    """Flushes a manifest without the checkpoints that it has found."""

    async def _change(self, change: Callable[[WalManifest], WalManifest]) -> None:
        def forgets(m: WalManifest) -> WalManifest:
            changed = change(m)
            return changed if changed.replay_after == m.replay_after else changed._replace(checkpoints=())

        await super()._change(forgets)


class OneTooFew(Wal):
    """Takes a checkpoint that ends before the last record."""

    async def checkpoint(self) -> WalCheckpoint:
        self.last_id -= 1
        try:
            return await super().checkpoint()
        finally:
            self.last_id += 1


async def collect_checkpointed(world: World, root: str, min_age_ms: int = 0, current: Any = None) -> list[int]:
    """Delete all WAL objects behind replay_after, those of checkpoints too."""
    async def read() -> Known:
        known = await ManifestObject(world, root).read()
        return known._replace(manifest=known.manifest._replace(checkpoints=()))

    return await wal_fencing.collect(world, root, min_age_ms, read)


async def collect_end_of_checkpoint(world: World, root: str, min_age_ms: int = 0, current: Any = None) -> list[int]:
    """Delete the last WAL object of a checkpoint as well."""
    async def read() -> Known:
        known = await ManifestObject(world, root).read()
        return known._replace(manifest=known.manifest._replace(checkpoints=tuple(
            one._replace(last_id=one.last_id - 1) for one in known.manifest.checkpoints)))

    return await wal_fencing.collect(world, root, min_age_ms, read)


async def collect_of_any_age(world: World, root: str, min_age_ms: int = 0, current: Any = None) -> list[int]:
    return await wal_fencing.collect(world, root, 0, current)


async def collect_and_recount(world: World, root: str, min_age_ms: int = 0, current: Any = None) -> list[int]:
    """Return one id more than the round has deleted."""
    deleted = await wal_fencing.collect(world, root, min_age_ms, current)
    return [*deleted, deleted[-1] + 1] if deleted else deleted


class OfNextEpoch(Wal):
    """Returns its records with another epoch than they have."""

    async def append(self, body: bytes) -> Record:
        return (await super().append(body))._replace(epoch=self.epoch + 1)


async def collect_all(world: World, root: str, min_age_ms: int = 0, current: Any = None) -> list[int]:
    """Delete all WAL objects but the latest."""
    namespace = Namespace(root, "wal")
    ids = [i for entry in await list_all(world.store, namespace.prefix) if (i := namespace.file_id(entry.key)) is not None]
    for i in ids[:-1]:
        await world.store.delete(namespace.key(i))
    return ids[:-1]


async def open_fenced_first(world: World, root: str, flush_every: int | None = None, attempts: int = 5,
                            manifest: Any = None) -> Wal:
    """Open by putting the fence first, and claiming the epoch after it."""
    wal = Wal(world, root, attempts, manifest)
    wal.known = await wal.object.read()
    fence = await wal._fence()
    await wal._claim()
    await wal._replay(fence, flush_every)
    return wal


def opening(kind: type[Wal]) -> Callable[[World, Shape, int], Impl]:
    async def open(world: World, root: str, flush_every: int | None = None, attempts: int = 5, **manifest: Any) -> Wal:
        wal = kind(world, root, attempts, **manifest)
        await wal._claim()
        await wal._replay(await wal._fence(), flush_every)
        return wal

    return lambda world, shape, number: Impl(partial(open, attempts=shape.attempts), wal_fencing.collect)


def serving(kind: type[WalKv]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: Impl(partial(wal_fencing.open, attempts=shape.attempts), wal_fencing.collect,
                                             partial(kind.open, attempts=shape.attempts))


BUILDS = {  # name -> (its bug, its Build)
    "unchecked": ("an append is acknowledged without reading the manifest", opening(Unchecked)),
    "fence_not_ahead": ("the fence is put after the last listed object, even if that is not ahead of replay_after",
                        opening(FenceNotAhead)),
    "not_validated": ("a replay is trusted without reading the manifest again", opening(NotValidated)),
    "gone_is_skipped": ("a replay skips a missing WAL object, and is not validated", opening(GoneIsSkipped)),
    "flushed_too_far": ("a flush sets replay_after beyond its last record", opening(FlushedTooFar)),
    "blind_manifest": ("the manifest is put without a condition", opening(BlindManifest)),
    "blind_create": ("WAL objects are put without a condition", opening(BlindCreate)),
    "doubt_is_fenced": ("an append without a response finds its own object, and is reported as refused",
                        opening(DoubtIsFenced)),
    "doubt_is_skipped": ("an append without a response is put again in the next slot", opening(DoubtIsSkipped)),
    "doubt_is_concluded": ("an append without a response finds another writer's object, and is reported as refused",
                           opening(DoubtIsConcluded)),
    "epoch_not_compared": ("a flush does not compare epochs after a conflict", opening(EpochNotCompared)),
    "open_after_cancel": ("a writer stays open after a call was cancelled, as if it had requested nothing",
                          opening(OpenAfterCancel)),
    "ever_open": ("a writer that was stopped accepts calls", opening(EverOpen)),
    "served_unlogged": ("get returns a put that was not logged", serving(ServedUnlogged)),
    "oldest_wins": ("a store opens with the first value of each key", serving(OldestWins)),
    "collects_any_age": ("a collector ignores the age of WAL objects",
                         lambda world, shape, number: Impl(wal_fencing.open, collect_of_any_age)),
    "collects_and_recounts": ("a round of collection returns an id that it has not deleted",
                              lambda world, shape, number: Impl(wal_fencing.open, collect_and_recount)),
    "of_next_epoch": ("an append returns a record of another epoch", opening(OfNextEpoch)),
    "collects_all": ("WAL objects ahead of replay_after are collected",
                     lambda world, shape, number: Impl(wal_fencing.open, collect_all)),
    "collects_checkpointed": ("a collector deletes WAL objects that a checkpoint refers to",
                              lambda world, shape, number: Impl(wal_fencing.open, collect_checkpointed)),
    "collects_end": ("a collector deletes the last WAL object of a checkpoint",
                     lambda world, shape, number: Impl(wal_fencing.open, collect_end_of_checkpoint)),
    "forgets_checkpoints": ("a flush puts a manifest without the checkpoints that were listed", opening(ForgetsCheckpoints)),
    "one_too_few": ("a checkpoint ends before the last acknowledged record", opening(OneTooFew)),
    "flush_is_concluded": ("a flush in doubt is reported as fenced without effect", opening(FlushIsConcluded)),
    "claim_is_concluded": ("an open with an epoch in doubt is reported as having claimed none", opening(ClaimIsConcluded)),
    "gives_up_at_once": ("an open gives up after one conflict", opening(GivesUpAtOnce)),
    "claimed_after_fence": ("the epoch is claimed after the fence is put",
                            lambda world, shape, number: Impl(open_fenced_first, wal_fencing.collect)),
}
# No drawn run has found this (docs/simulation/zoo.md): it needs a lost response, and then as many unanswered reads as the
# writer tries.
STAYS_OPEN = opening(StaysOpen), {"attempts": 2}, NONE._replace(refused=250, reply_lost=200)  # its Build, Shape, weights
LOST, HARM = "history:lost update", "history:"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "unchecked": (("told:committed",), (LOST,)),
    "fence_not_ahead": (("refinement:Writer.List",), (LOST,)),
    "not_validated": (("told:opened",), ()),  # rare: during the replay a slot must be collected, and a stale create land in it
    "gone_is_skipped": (("told:opened", "refinement:Writer."), ("history:read", LOST)),
    "flushed_too_far": (("refinement:Writer.",), (LOST,)),
    "blind_manifest": (("refinement:put",), (LOST,)),
    "blind_create": (("refinement:", "told:got"), (HARM,)),
    "doubt_is_fenced": (("told:fenced",), ("history:denied update",)),
    "doubt_is_skipped": (("refinement:Writer.", "told:got"), ("history:applied twice", LOST)),
    "doubt_is_concluded": (("told:fenced",), ()),  # none in 1,500
    "open_after_cancel": (("told:", "refinement:Writer."), ()),
    "epoch_not_compared": (("refinement:Writer.", "exception:Unavailable"), ()),
    "ever_open": (("refinement:ValueError", "told:closed"), ("told:closed",)),
    "served_unlogged": (("told:got",), ("history:strange get",)),
    "oldest_wins": (("history:strange get", "told:got"), ("history:strange get",)),
    "collects_any_age": (("history:too young",), ()),  # harmless to callers
    "collects_and_recounts": (("call:collect deleted",), ()),
    "of_next_epoch": (("call:append epoch",), ()),
    "collects_all": (("refinement:Collector.",), (LOST,)),
    "collects_checkpointed": (("refinement:Collector.",), ("history:lost object",)),
    "collects_end": (("refinement:Collector.",), ("history:lost object",)),
    "forgets_checkpoints": (("refinement:Writer.",), ()),
    "one_too_few": (("refinement:Writer.",), ()),
    "flush_is_concluded": (("call:flush unapplied", "call:checkpoint unapplied"), ()),  # a checkpoint flushes, too
    "claim_is_concluded": (("call:open attempts",), ()),
    "gives_up_at_once": (("call:open attempts",), ()),
    "claimed_after_fence": (("refinement:Writer.",), (HARM,)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
