"""Known-bad nodes: the real log and snapshots of impl/raft, each without one safeguard.

traces/protocols/log_snapshot.py judges what they write and cut, and what they have after a restart. Callers judge the rest.
"""

from highwater.dst.mutants.raft import FailureIgnored, LateIsDone, SyncedAgain, node_of, with_disk
from highwater.dst.scenario import Build, Mutants
from highwater.impl.node_world import DiskFailed
from highwater.impl.raft import snapshots
from highwater.impl.raft.entries import term_at
from highwater.impl.raft.guard import GuardedDisk
from highwater.impl.raft.node import Node
from highwater.impl.raft.snapshots import TEMPORARY, Snapshot, encoded, name_of
from highwater.impl.raft.state import Compact

# --- the disk


class SnapshotUnsynced(GuardedDisk):
    """Does not sync the file of a snapshot."""

    async def sync(self, name: str) -> None:
        if name != TEMPORARY:
            await super().sync(name)


class NameUnsynced(GuardedDisk):
    """Does not sync the name of a snapshot."""

    renamed = False

    async def rename(self, old: str, new: str) -> None:
        self.renamed = old == TEMPORARY
        await super().rename(old, new)

    async def sync_names(self) -> None:
        if not self.renamed:
            await super().sync_names()


class SinkFailureIgnored(GuardedDisk):
    """Names a snapshot though a write or a sync of its file has failed."""

    async def append(self, name: str, body: bytes) -> None:
        try:
            await super().append(name, body)
        except DiskFailed:
            if name != TEMPORARY:
                raise

    async def sync(self, name: str) -> None:
        try:
            await super().sync(name)
        except DiskFailed:
            if name != TEMPORARY:
                raise


# --- the node


class Snapshotting(Node):
    """A node that makes its snapshots in parts, which the mutants below replace."""

    async def _make_snapshot(self) -> None:
        index = await self._index()
        term = term_at(self.state.log, index)
        assert term is not None
        snapshot = Snapshot(index, term, self.state.voters, self.machine.dump(self.value))
        await self._store(snapshot)
        self._take(snapshot)
        await self._give(Compact(index, max(index - self.options.keep_entries, 0)))
        await snapshots.remove_older(self.disk, snapshot)
        self.writing.ring()

    async def _index(self) -> int:
        return self.applied

    async def _store(self, snapshot: Snapshot) -> None:
        await snapshots.store(self.disk, snapshot)


class IndexBefore(Snapshotting):
    """Takes the index of a snapshot, and its content later."""

    async def _index(self) -> int:
        index = self.applied
        await self.world.clock.sleep_ms(self.options.tick_ms)
        return index


class CutFirst(Snapshotting):
    """Cuts the log before the snapshot is written."""

    async def _index(self) -> int:
        assert self.log is not None
        await self._give(Compact(self.applied, self.applied))
        await self.log.compact(self.state.log.base_index)
        return self.applied


class OlderGoesFirst(Snapshotting):
    """Removes the older snapshot before the new one is written."""

    async def _index(self) -> int:
        await snapshots.remove_older(self.disk, Snapshot(self.applied, self.state.term, (), b""))
        return self.applied


class NotReadBack(Snapshotting):
    """Counts a snapshot once it has its name."""

    async def _store(self, snapshot: Snapshot) -> None:
        name = name_of(snapshot.index, snapshot.term)
        await self.disk.create(TEMPORARY)
        await self.disk.append(TEMPORARY, encoded(snapshot))
        await self.disk.sync(TEMPORARY)
        await self.disk.rename(TEMPORARY, name)
        await self.disk.sync_names()


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "index_before": ("a snapshot has the index of an earlier moment than its content", node_of(IndexBefore)),
    "snapshot_unsynced": ("the file of a snapshot is not synced", with_disk(SnapshotUnsynced)),
    "snapshot_name_unsynced": ("the name of a snapshot is not synced", with_disk(NameUnsynced)),
    "sink_failure_ignored": ("a snapshot counts though its file has failed", with_disk(SinkFailureIgnored)),
    "not_read_back": ("a snapshot counts before it is read back", node_of(NotReadBack)),
    "cut_first": ("the log is cut before the snapshot is written", node_of(CutFirst)),
    "older_goes_first": ("the older snapshot is removed before the new one is written", node_of(OlderGoesFirst)),
    "failure_ignored": ("a node goes on after a sync that failed", with_disk(FailureIgnored)),
    "synced_again": ("a sync that failed is tried again", with_disk(SyncedAgain)),
    "late_is_done": ("a sync that took too long is taken for done", with_disk(LateIsDone)),
}
LOST = ("safety:I17", "raft:Damaged")
MODEL = ("refinement:Server.", "refinement:machine", "refinement:message", "told:", "call:")
HARM = (*LOST, "safety:R5", "history:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "index_before": (MODEL, ("history:",)),
    **dict.fromkeys(("snapshot_unsynced", "snapshot_name_unsynced", "cut_first"), ((*MODEL, *HARM), LOST)),
    **dict.fromkeys(("sink_failure_ignored", "not_read_back"), (MODEL, ())),
    **dict.fromkeys(("older_goes_first", "failure_ignored", "synced_again", "late_is_done"), ((*MODEL, *HARM), HARM)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
