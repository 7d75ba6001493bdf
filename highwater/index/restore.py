"""Safety: a restored index has what the backup has, and begins as a new cluster in new folders.

A backup is a snapshot file of the index. Restored into the folder of each node, it is the snapshot that they begin with. A node
that lives on would contradict them, so they have another cluster's name: a backup of a running index has the id of that name in
the place of voters. One that was made of a bucket has none.

Log time never goes back in an index. Only a backup can be given another clock, before it is restored.
"""

import hashlib

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.messages import JobState, decode, encode
from highwater.impl.codecs.index.snapshot import Row
from highwater.impl.errors import Definite
from highwater.impl.index.replicated import load
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity, snapshots
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import DiskLog
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import Save


class NotRestored(Definite):
    """Nothing was restored. The message says why."""


def id_of(cluster: str) -> int:
    """Return the id of a cluster's name in a backup."""
    return int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:8], "big")


async def restore(backup: bytes, disk: Disk, mine: FolderIdentity) -> snapshot.Position:
    """Make a folder of a backup for one node; return its place in the log it was taken of. Raises NotRestored, DiskLocked."""
    try:
        position, _ = snapshot.decode(backup)
        load(backup)
    except Undecodable as error:
        raise NotRestored(f"the backup cannot be read: {error}") from None
    if not position.index:
        raise NotRestored("the backup is of an index without an entry: start a new one instead")
    if id_of(mine.cluster) in position.voters:
        raise NotRestored(f"the backup is of index {mine.cluster!r}: give the new one another name, since nodes of the old one "
                          "may run, or come back")
    await disk.lock()  # which makes a file: only now
    if there := await disk.names():
        raise NotRestored(f"the folder has {there[0]!r} in it, and a backup is restored into an empty folder only")
    await snapshots.store(disk, Snapshot(position.index, position.term, mine.voters, backup))
    begun = Save(0, position.term, "", position.index + 1, (), (position.index, position.term))
    await DiskLog(disk, mine.node).write([begun])
    await identity.write(disk, mine)
    return position


def with_clock(backup: bytes, now_ns: int) -> tuple[bytes, int]:
    """Return a backup whose log time is `now_ns`, and the log time of the given one.

    Later times of blocks that wait, of jobs and of tombstones are set to it, too, so that none of them waits for a wrong clock.
    Raises NotRestored."""
    try:
        position, rows = snapshot.decode(backup)
        load(backup)
        before_ns = next((row.U64.unpack(value)[0] for key, value in rows if key == row.CLOCK), 0)
        return snapshot.encode(position, sorted(not_after(key, value, now_ns) for key, value in rows)), before_ns
    except Undecodable as error:
        raise NotRestored(f"the backup cannot be read: {error}") from None


def not_after(key: bytes, value: bytes, now_ns: int) -> Row:
    """Return a row with no time after `now_ns`. Raises Undecodable."""
    if key == row.CLOCK:
        return key, row.U64.pack(now_ns)
    if key.startswith(row.QUEUE):
        queued = row.queued_of(key, value)
        return key, row.queue_value(queued._replace(appended_ns=min(queued.appended_ns, now_ns)))
    if key.startswith(row.TOMBSTONES):
        index, appended_ns, name = row.tombstone_of(key)
        return row.tombstone_key(index, min(appended_ns, now_ns), name), value
    if key.startswith(row.JOB_STATE):
        state = decode(JobState, value)
        state.lease_expires_at, state.added_at = min(state.lease_expires_at, now_ns), min(state.added_at, now_ns)
        return key, encode(state)
    return key, value
