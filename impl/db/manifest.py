"""Safety: a manifest that says that rows of the WAL are flushed names an SST with each version of them that a snapshot shows.

This is the manifest of a writer, on SlateDB's own bytes. The protocol is in impl/protocols/database_metadata.py, and what is
added for SSTs in impl/protocols/database_clones.py: an SST is an object of its own, and each attempt to put a manifest has
another one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.json.wal import WalManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import PHASES, SameVersion
from highwater.impl.codecs.slatedb.sequences import recorded
from highwater.impl.codecs.slatedb.tables import Checkpoint, Sst, View
from highwater.impl.db.build import BLOCK_BYTES, LEAST_FILTERED, VERSION, sst_of
from highwater.impl.db.log import Commit
from highwater.impl.db.retention import retained
from highwater.impl.db.rows import Row
from highwater.impl.db.upload import uploaded
from highwater.impl.db.wal import table_of
from highwater.impl.layout import Namespace
from highwater.impl.protocols.database_metadata import SequencedManifest
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore
from highwater.impl.protocols.sequenced_storage import Listed, NoLatest
from highwater.impl.protocols.wal_fencing import Known
from highwater.impl.world import World

NEVER = -(1 << 63)  # the clock tick of a database without rows
FIRST = Manifest(initialized=True, last_l0_clock_tick=NEVER)


@dataclass(frozen=True)
class Built:
    """The form of the objects that a writer builds."""

    codec: int = 0
    block_bytes: int = BLOCK_BYTES
    least_filtered: int = LEAST_FILTERED  # rows; an SST with fewer gets no filter


def manifests_of(world: World, root: str, version: int = 2) -> MetadataStore:
    """Return the manifests of a database on SlateDB's own bytes. `version`: of its first one; then it stays as it is."""
    return MetadataStore(world, Namespace(root, "manifest"), SameVersion(PHASES[version]))


class WrittenManifest(SequencedManifest):
    """The manifest of a writer. `keep_from()`: the number of the oldest snapshot that is open; None: there is none."""

    keeps = False

    def __init__(self, metadata: MetadataStore, root: str, keep_from: Callable[[], int | None], built: Built):
        super().__init__(metadata)
        self.root, self.keep_from, self.built = root, keep_from, built
        self.seen: Listed | None = None  # the last file that was listed as the latest one, and was ahead of the boundary then

    def _known(self, file_id: int, body: bytes) -> Known:
        value: Manifest = self.metadata.decoded(file_id, body)
        return Known(WalManifest(value.writer_epoch, value.replay_after_wal_id), Committed(file_id, value))

    async def _newer(self, file_id: int) -> list[Listed]:
        """List the files after this one. Raises NoLatest, or InvalidBoundary, if the database was destroyed.

        A destroyed database has no latest manifest, and ids of its WAL are free again. Who takes an empty listing for «nothing
        is new» acknowledges rows there. A PUT that was delayed in the network may even put this id back: another attempt for
        the same file. So the boundary is read after the first listing of a file, and if it is listed with another time."""
        listed = await self.bounded.list(file_id - 1)
        if listed == [self.seen]:
            return []
        newer = [file for file in listed if file.id > file_id]
        if not newer:
            if not listed:
                raise NoLatest(f"{self.key!r} has no manifest any more: the database was destroyed")
            if file_id <= await self.bounded.boundary.read():  # later files were put and collected since the listing
                return await self._newer(file_id)
            self.seen, = listed
        return newer

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        """Put the next manifest as `SequencedManifest.put` does. Raises DatabaseDestroyed, too."""
        if mark := mark_of(known.version.value):
            raise DatabaseDestroyed(mark)
        done = await super().put(known, manifest)
        return done._replace(manifest=manifest._replace(flushed=()))

    async def _next(self, base: Committed, manifest: WalManifest, new: tuple[Any, ...]) -> Manifest:
        """Return the manifest after `base`, with an SST of the new commits, and a checkpoint of itself for this writer.

        «writer checkpoint»: it is in the update that claims the epoch, and each later update of this writer replaces it."""
        before: Manifest = base.value
        flushed = await self._with_sst(before, [row for commit in new for row in commit.rows if row.seq > before.last_l0_seq])
        others = tuple(one for one in before.checkpoints if one.writer_epoch is None)
        own = Checkpoint.of_writer(Checkpoint.id_of(self.metadata.world.ids.new_id()), base.id + 1,
                                   self.metadata.world.clock.now_ms(), manifest.writer_epoch)
        return flushed._replace(
            writer_epoch=manifest.writer_epoch, replay_after_wal_id=manifest.replay_after, checkpoints=(*others, own),
            wal_id_last_seen=max(before.wal_id_last_seen, manifest.replay_after))

    async def _with_sst(self, before: Manifest, rows: list[Row]) -> Manifest:
        """Return the manifest with one more SST in L0, the newest first. If all rows are expired operands, it has none."""
        if not rows:
            return before
        last = max(row.seq for row in rows)
        keep_from = self.keep_from()
        keep_from = last if keep_from is None else keep_from
        now_ms = self.metadata.world.clock.now_ms()
        kept = [row for _, versions in of_one_key(table_of(rows)) for row in self._kept(versions, keep_from, now_ms)]
        if kept:
            sst = sst_of(kept, self.built.codec, self.built.block_bytes, self.built.least_filtered)
            name = await self._uploaded(sst.body)
            before = before._replace(l0=(View(name, name), *before.l0), ssts=(*before.ssts, Sst(name, sst.info, VERSION)))
        ticks = [row.create_ms for row in rows if row.create_ms is not None]
        tracker = recorded(before.sequence_tracker, ((row.seq, row.create_ms) for row in rows if row.create_ms is not None))
        return before._replace(last_l0_seq=last, last_l0_clock_tick=max(ticks, default=before.last_l0_clock_tick),
                               recent_snapshot_min_seq=keep_from, sequence_tracker=tracker)

    def _kept(self, versions: list[Row], keep_from: int, now_ms: int) -> list[Row]:
        return retained(versions, keep_from, now_ms, False)

    async def _uploaded(self, body: bytes) -> str:
        return await uploaded(self.metadata.world, self.root, self.metadata.world.ids.new_id(), body)


def of_one_key(rows: list[Row]) -> Iterator[tuple[bytes, list[Row]]]:
    for key, versions in groupby(rows, key=lambda row: row.key):
        yield key, list(versions)


def rows_in(commits: list[Commit], after: int) -> list[Row]:
    """Return the rows of commits with numbers after `after`, in their order."""
    return [row for commit in commits for row in commit.rows if row.seq > after]
