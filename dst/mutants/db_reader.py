"""Mutants of impl/protocols/db_reader.py, each with one safeguard removed. Simulation must find each of them.

Each knob of model/protocols/db_reader.py has a mutant: PIN_BEFORE_READ (`read_first`), LAST_SEEN (`seen_not_written`),
KEEP_OLD_UNTIL_READ (`old_released`), REPLAY_SKIPS_SEQ (`replayed_twice`), PURGE_BY_SEQ (`purged_by_wal`), REPLACE_AFTER_BUILT
(`replaced_at_once`). Released SlateDB 0.17 has one of the bugs: a scan fails once its reader has taken the next checkpoint
(`old_released`).
"""

from collections.abc import Callable

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.db_reader import Impl, Shape, production
from highwater.impl.codecs.json.rows import decode_rows
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import NotFound
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.db_reader import DbReader
from highwater.impl.protocols.db_reader_view import View, added, last_wal_id, purged
from highwater.impl.world import World


class ReadFirst(DbReader):
    """Shows the manifest that it has read before it takes its checkpoint."""

    async def _establish(self) -> View:
        self.first = (await self.manifests.current()).value
        return await super()._establish()

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        seen = manifest.wal_id_last_seen
        return await super()._built(checkpoint, self.first._replace(wal_id_last_seen=seen))


class SeenNotWritten(DbReader):
    """Replays the WAL that it has listed, and does not write down how far it is seen."""

    async def _with_seen(self, manifest: Manifest) -> Manifest:
        self.seen = await last_wal_id(self.manifests.world.store, self.wal, manifest.replay_after_wal_id)
        return manifest

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        return await super()._built(checkpoint, manifest._replace(wal_id_last_seen=self.seen))


class OldReleased(DbReader):
    """Deletes the earlier checkpoint although a scan uses it."""

    def _used(self) -> set[str]:
        shown = self.view.checkpoint if self.view else ""
        return {one for one in self.held if one in (shown, self.building)}


class Replays(DbReader):
    """Replays the WAL in a way of its own."""

    keeps, skips, stops = True, True, True

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        upto, last, before = manifest.last_l0_seq, manifest.wal_id_last_seen, self.view if self.keeps else None
        tables = self.purged(before, manifest)
        first = max(manifest.replay_after_wal_id, before.wal if before else 0) + 1
        for i in range(first, last + 1):
            try:
                rows = decode_rows((await self.manifests.world.store.get(self.wal.key(i))).body)
            except NotFound:
                if self.stops:
                    break
                continue
            wanted = [row for row in rows if row.seq > upto or not self.skips]
            tables = added(tables, wanted, self.options.max_memtable_bytes)
        return View(checkpoint, manifest, tables, max(first - 1, last))

    def purged(self, before: View | None, manifest: Manifest) -> tuple:
        return purged(before.tables, manifest.last_l0_seq) if before else ()


class ReplayedTwice(Replays):
    """Puts rows into memory that the SSTs have."""

    skips = False


class PurgedByWal(Replays):
    """Purges the rows of WAL objects that are not replayed any more, and keeps others that the SSTs have."""

    def purged(self, before: View | None, manifest: Manifest) -> tuple:
        return purged(before.tables, manifest.replay_after_wal_id) if before else ()


class NotPurged(Replays):
    """Keeps all rows in memory."""

    def purged(self, before: View | None, manifest: Manifest) -> tuple:
        return before.tables if before else ()


class ReplacedAtOnce(Replays):
    """Shows the new SSTs before the WAL is replayed."""

    keeps = False

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        self.view = View(checkpoint, manifest, (), 0)
        return await super()._built(checkpoint, manifest)


class LastTableOnly(DbReader):
    """Forgets a table when it is full."""

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        view = await super()._built(checkpoint, manifest)
        return view._replace(tables=view.tables[-1:])


class LatestShown(DbReader):
    """Shows the latest manifest in the place of the one that its checkpoint keeps."""

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        return await super()._built(checkpoint, (await self.manifests.current()).value)


class NeverTaken(DbReader):
    """Reads without a checkpoint: it deletes its own at once."""

    async def _built(self, checkpoint: str, manifest: Manifest) -> View:
        await checkpoints.delete(self.manifests, checkpoint)
        return await super()._built(checkpoint, manifest)


def with_reader(reader: type[DbReader]) -> Callable[[World, Shape, int], Impl]:
    return lambda world, shape, number: production(world, shape, number)._replace(reader=reader)


BUILDS = {  # name -> (its bug, its Build)
    "read_first": ("a reader shows a manifest that it has read before it took its checkpoint", with_reader(ReadFirst)),
    "seen_not_written": ("a checkpoint does not say how far the WAL is seen", with_reader(SeenNotWritten)),
    "old_released": ("the checkpoint of an open scan is deleted", with_reader(OldReleased)),
    "replayed_twice": ("a replay puts rows into memory that the SSTs have", with_reader(ReplayedTwice)),
    "purged_by_wal": ("rows in memory go by their WAL ids, and others stay that the SSTs have", with_reader(PurgedByWal)),
    "not_purged": ("rows in memory stay although the SSTs have them", with_reader(NotPurged)),
    "replaced_at_once": ("a view is replaced before the WAL is replayed", with_reader(ReplacedAtOnce)),
    "last_table_only": ("a full table is forgotten", with_reader(LastTableOnly)),
    "latest_shown": ("a reader shows a later manifest than its checkpoint keeps", with_reader(LatestShown)),
    "never_taken": ("a reader deletes its checkpoint before it reads", with_reader(NeverTaken)),
}
ROWS = ("call:rows", "told:", "refinement:Reader.get")
WRONG = ("history:wrong row",)
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "read_first": ((*ROWS, "refinement:"), ()),
    "seen_not_written": ((*ROWS, "refinement:"), ()),
    "old_released": (("refinement:Reader.Release",), ()),
    "replayed_twice": ((*ROWS, *WRONG), WRONG),
    "purged_by_wal": ((*ROWS, *WRONG), WRONG),
    "not_purged": ((*ROWS, *WRONG), WRONG),
    "replaced_at_once": ((*ROWS, "history:went back"), ("history:went back",)),
    "last_table_only": ((*ROWS, *WRONG), WRONG),
    "latest_shown": ((*ROWS, "refinement:"), ()),
    "never_taken": (("refinement:", "call:open", *ROWS), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
