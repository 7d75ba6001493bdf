"""Mutants of impl/db: bugs of a database on SlateDB's own bytes.

Those of its protocols are in the files of the protocols. Here are those of the rows: which version of a key is shown, which
stays, and when it is durable. Those of a database and its clone are in dst/mutants/db_clones.py.
"""

from collections.abc import AsyncGenerator
from typing import Any

from highwater.dst.mutants import db_clones
from highwater.dst.mutants.db_clones import Build, instead
from highwater.dst.scenario import Mutants
from highwater.impl.codecs.json.wal import WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import SstInfo, View
from highwater.impl.db.claims import is_bottom
from highwater.impl.db.compactor import DbCompactor, tiered
from highwater.impl.db.db import Db
from highwater.impl.db.log import form_of
from highwater.impl.db.manifest import WrittenManifest
from highwater.impl.db.merge import Shown, Source, shown, versions
from highwater.impl.db.pinned import DbReader, Snapshot
from highwater.impl.db.reader import Reader, State
from highwater.impl.db.retention import retained
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.db.writes import Op
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.layout import key_of_sst
from highwater.impl.manifests.spans import Span, meet
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.sequenced_metadata import Committed
from highwater.impl.protocols.wal_fencing import Known, Wal
from highwater.impl.world import ObjectStore, list_all

LATEST = (1 << 64) - 1


def database(kind: type[Db]) -> Build:
    """Return a database with these writers. Their callers know them by the name of production's."""
    kind.__name__ = Db.__name__
    return instead(db=kind)


# --- flushes

def flushing(kind: type[WrittenManifest]) -> Build:
    """Return a database whose writers have this manifest."""
    class Flushing(Db):
        async def _opened(self, manifest: WrittenManifest) -> Wal:
            return await super()._opened(kind(self.manifests, self.root, self._oldest_snapshot, self.options.built))

    return database(Flushing)


class DropsTombstones(WrittenManifest):
    def _kept(self, versions: list[Row], keep_from: int, now_ms: int) -> list[Row]:
        return retained(versions, keep_from, now_ms, True)


class DropsVersions(WrittenManifest):
    def _kept(self, versions: list[Row], keep_from: int, now_ms: int) -> list[Row]:
        return retained(versions, LATEST, now_ms, False)


class PutsLast(WrittenManifest):
    """Puts the SST that is new behind the others."""

    async def _with_sst(self, before: Manifest, rows: list[Row]) -> Manifest:
        after = await super()._with_sst(before, rows)
        return after if after.l0 == before.l0 else after._replace(l0=(*before.l0, after.l0[0]))


class UploadsLater(WrittenManifest):
    """Puts the manifest, and then its SST."""

    body = b""

    async def _uploaded(self, body: bytes) -> str:
        self.body = body
        return self.metadata.world.ids.new_id()

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        done = await super().put(known, manifest)
        if self.body:
            await self.metadata.world.store.create(key_of_sst(self.root, done.version.value.l0[0].sst_id), self.body)
            self.body = b""
        return done


class BelievesInFlushes(WrittenManifest):
    """Takes a flush without a reply for done."""

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        try:
            return await super().put(known, manifest)
        except OutcomeUnknown:
            base: Committed = known.version
            if manifest.writer_epoch != known.manifest.writer_epoch:
                raise
            return Known(manifest._replace(flushed=()), Committed(base.id + 1, base.value))


# --- the log

def logging(kind: type[Wal]) -> Build:
    """Return a database whose writers have this log."""
    class Logging(Db):
        async def _opened(self, manifest: WrittenManifest) -> Wal:
            options, built = self.options, self.options.built
            form = form_of(built.codec, built.block_bytes)
            wal = kind(self.world, self.root, options.attempts, manifest, form)
            await wal._claim()
            await wal._replay(await wal._fence(), options.replay_flush)
            return wal

    return database(Logging)


class StopsAtFences(Wal):
    """Replays the log up to the first fence in it."""

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        first = self.known.manifest.replay_after + 1
        while first < fence and (await self.world.store.get(self.namespace.key(first))).body:
            first += 1
        await super()._replay(first, flush_every)
        self.last_id = fence


class PutsNoFence(Wal):
    """Appends behind what is there, and puts no fence before."""

    async def _fence(self) -> int:
        after = self.namespace.key(self.known.manifest.replay_after)
        entries = await list_all(self.world.store, self.namespace.prefix, after)
        return max([self.namespace.file_id(entry.key) or 0 for entry in entries], default=self.known.manifest.replay_after) + 1

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        await super()._replay(fence, flush_every)
        self.last_id = fence - 1


class DoesNotCheck(Wal):
    """Does not look at the manifest after it has put an object, slowly."""

    async def _append(self, body: Any) -> Any:
        record, i = self.form.record(self.world, self.epoch, body), self.last_id + 1
        await self.world.clock.sleep_ms(1000)
        await self._create(i, record)
        self.records.append(record)
        self.last_id = i
        return record


class BelievesInPuts(Wal):
    """Takes an object whose put had no reply for put."""

    async def _create(self, i: int, record: Any) -> None:
        try:
            await self.world.store.create(self.namespace.key(i), self.form.encode(record))
        except OutcomeUnknown:
            pass


class ReplaysTwice(Db):
    """Writes what it has replayed once more."""

    @classmethod
    async def open(cls, *arguments: Any) -> Db:
        db = await super().open(*arguments)
        rows = [row for record in db.wal.records[-1:] for row in record.rows]
        if rows:
            await db.write([Op(row.key, row.kind, row.value) for row in {row.key: row for row in rows}.values()])
        return db


class CountsAnew(Db):
    """Numbers its batches from those on that it has replayed, and not from those in SSTs."""

    def _replayed(self) -> None:
        super()._replayed()
        if not self.wal.records:
            self.seq = 0


# --- reads

def reading(kind: type[Reader]) -> Build:
    """Return a database whose writers read with this reader."""
    class Reading(Db):
        def _reader(self, span: Span) -> Reader:
            return kind(self.world.store, State(self.root, self.manifest, self.memtable.rows(span)), cache=self.cache)

    return database(Reading)


class AppliesBackwards(Reader):
    """Applies operands from the newest to the oldest."""

    async def get(self, key: bytes, now_ms: int, seq: int | None = None) -> Shown | None:
        found = await super().get(key, now_ms, seq)
        return found and found._replace(operands=found.operands[::-1])

    async def scan(self, span: Span, now_ms: int, seq: int | None = None) -> AsyncGenerator[Shown]:
        async for one in super().scan(span, now_ms, seq):
            yield one._replace(operands=one.operands[::-1])


class StopsAtOperands(Reader):
    """Stops at the first source that has the key, also if that has only operands."""

    async def get(self, key: bytes, now_ms: int, seq: int | None = None) -> Shown | None:
        for source in self.sources(Span(key, key + b"\0"), key):
            async for rows in versions([source]):
                return shown(rows, now_ms, seq)
        return None


class ShowsOlder(Reader):
    """Shows an older version in place of a value that has expired."""

    async def scan(self, span: Span, now_ms: int, seq: int | None = None) -> AsyncGenerator[Shown]:
        async for rows in versions(self.sources(span)):
            live = [row for row in rows if not row.expired(now_ms)]
            if live and (found := shown(live, now_ms, seq)) is not None:
                yield found


class ShowsLatest(Reader):
    """Shows the newest versions, whatever snapshot asks."""

    async def scan(self, span: Span, now_ms: int, seq: int | None = None) -> AsyncGenerator[Shown]:
        async for one in super().scan(span, now_ms):
            yield one


class Filtered(Ssts):
    async def may_contain(self, key: str, info: SstInfo, row_key: bytes) -> bool:
        return row_key != b"c" and await super().may_contain(key, info, row_key)


class FiltersWrongly(Reader):
    """Has filters that say of a key that it is not there, and it is."""

    def __init__(self, store: ObjectStore, state: State, **more: Any):
        super().__init__(store, state, **more)
        self.ssts = Filtered(store, more["cache"])


class ForgetsSources(Reader):
    """Reads the newest SST of L0 alone, and the runs."""

    def trees(self) -> Any:
        for l0, runs in super().trees():
            yield l0[:1], runs


class StopsAtFirstSst(Reader):
    """Reads a key from the first SST of a run that may have it, and not from those that go on with its versions."""

    async def of_views(self, views: list[tuple[View, Span | None]], span: Span, key: bytes | None) -> Source:
        cut, begins = list[tuple[View, Span | None]](), b""
        for view, visible in views:
            cut.append((view, meet(visible, Span(begins)) if visible else None))
            begins = visible.end if visible and visible.end else begins
        async for rows in super().of_views(cut, span, key):
            yield rows


class MixesManifests(DbReader):
    """Shows the rows of the WAL behind the latest manifest, and the SSTs of the first."""

    first: Manifest | None = None

    async def open(self, checkpoint: str | None = None) -> None:
        await super().open(checkpoint)
        self.first = self.pins.view.manifest if self.pins.view else None

    def snapshot(self) -> Snapshot:
        scan = self.pins.scan()
        scan.view = scan.view._replace(manifest=self.first or scan.view.manifest)
        return Snapshot(scan, self.cache)


class SeesNoLog(Db):
    """Takes durable checkpoints that have seen nothing of the WAL behind the last flush."""

    async def checkpoint(self, lifetime_ms: int | None = None, name: str | None = None, durable_only: bool = False) -> str:
        if not durable_only:
            return await super().checkpoint(lifetime_ms, name)
        checkpoint = checkpoints.new_id(self.manifests)
        await checkpoints.create(self.manifests, checkpoint, lifetime_ms, name)
        return checkpoint


# --- compactions

class CompactsTombstones(DbCompactor):
    """Drops tombstones wherever their run is."""

    def picked(self, manifest: Manifest) -> Any:
        job = super().picked(manifest)
        if job and not is_bottom(manifest, tiered(job)):
            self.base = manifest._replace(compacted=tuple(
                run for run in manifest.compacted if run.id in tiered(job).sorted_runs))
        return job


class CompactsVersions(DbCompactor):
    """Keeps the newest version of each key, whatever snapshots see."""

    def picked(self, manifest: Manifest) -> Any:
        job = super().picked(manifest)
        self.base = manifest._replace(recent_snapshot_min_seq=LATEST)
        return job


class DeletesInputs(DbCompactor):
    """Deletes the SSTs that it has merged, although checkpoints may name them."""

    async def _finish(self, job: Any) -> None:
        await super()._finish(job)
        inputs = [view for view in self.base.l0 if view.id in tiered(job).l0_view_ids]
        for view in inputs:
            await self.world.store.delete(key_of_sst(self.root, view.sst_id))


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "flush_drops_tombstones": ("a flush drops a tombstone, and an older version is in an SST below", flushing(DropsTombstones)),
    "flush_drops_versions": ("a flush drops the versions that a snapshot sees", flushing(DropsVersions)),
    "l0_order": ("a flush puts its SST behind the older ones, so that compactions move it below them", flushing(PutsLast)),
    "uploaded_later": ("a manifest is put before the SST that it names", flushing(UploadsLater)),
    "unheard_flush_is_done": ("a flush whose put had no reply is taken for done", flushing(BelievesInFlushes)),
    "replay_stops_at_fences": ("a writer replays the log up to the first fence in it", logging(StopsAtFences)),
    "no_fence": ("a writer puts no fence when it opens", logging(PutsNoFence)),
    "append_not_checked": ("a writer does not compare the epoch after it has put an object", logging(DoesNotCheck)),
    "unheard_write_is_done": ("a write whose put had no reply is taken for done", logging(BelievesInPuts)),
    "replayed_twice": ("what a writer has replayed is written once more", database(ReplaysTwice)),
    "numbers_start_anew": ("a writer with an empty log numbers its batches from 1 on", database(CountsAnew)),
    "operands_backwards": ("merge operands are applied from the newest to the oldest", reading(AppliesBackwards)),
    "stops_at_operands": ("a read stops at the first source with the key, and an older one has the value",
                          reading(StopsAtOperands)),
    "expired_shows_older": ("an older version shows up once a value has expired", reading(ShowsOlder)),
    "snapshot_shows_latest": ("a scan of a snapshot shows what was written later", reading(ShowsLatest)),
    "filter_says_no": ("a filter says that a key is not in an SST, and it is", reading(FiltersWrongly)),
    "l0_forgotten": ("a read looks into the newest SST of L0 alone", reading(ForgetsSources)),
    "stops_at_first_sst": ("a read looks for a key in one SST of a run, and its versions go on in the next (slatedb#1367)",
                           reading(StopsAtFirstSst)),
    "manifests_mixed": ("a reader shows the WAL behind one manifest, and the SSTs of another", instead(reader=MixesManifests)),
    "log_not_seen": ("a durable checkpoint has not seen the WAL", database(SeesNoLog)),
    "compaction_drops_tombstones": ("a compaction drops a tombstone above an older version",
                                    instead(compactor=CompactsTombstones)),
    "compaction_drops_versions": ("a compaction drops the versions that a snapshot sees", instead(compactor=CompactsVersions)),
    "inputs_deleted": ("a compactor deletes its inputs, and a checkpoint names them", instead(compactor=DeletesInputs)),
    **db_clones.BUILDS,
}
SEEN = "history:", "call:get", "call:scan"  # what callers saw, or what is there in the end
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **{name: ((*SEEN, "call:", "refinement:rows"), SEEN) for name in BUILDS},
    **db_clones.ORACLES,
    "no_fence": (("refinement:fence", "call:open"), ()),
    "uploaded_later": (("refinement:sst",), ("history:",)),
    "inputs_deleted": (("refinement:sst",), ("history:",)),
    "l0_order": ((*SEEN, "call:compact"), SEEN),
    # the WAL may have a gap, which no later writer can replay
    "unheard_write_is_done": ((*SEEN, "call:write", "liveness:open"), (*SEEN, "liveness:open")),
    "unheard_flush_is_done": ((*SEEN, "refinement:", "call:flush"), SEEN),
}
MUTANTS = Mutants(BUILDS, ORACLES)
