"""Safety: a restored index has what the backup has, and begins as a new cluster in new folders.

A backup is a snapshot file of the index. Restored into the folder of each node, it is the snapshot that they begin with. A node
that lives on would contradict them, so they have another cluster's name.
"""

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import snapshot
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


async def restore(backup: bytes, disk: Disk, mine: FolderIdentity) -> snapshot.Position:
    """Make a folder of a backup for one node; return its place in the log it was taken of. Raises NotRestored, DiskLocked."""
    try:
        position, _ = snapshot.decode(backup)
        load(backup)
    except Undecodable as error:
        raise NotRestored(f"the backup cannot be read: {error}") from None
    if not position.index:
        raise NotRestored("the backup is of an index without an entry: start a new one instead")
    await disk.lock()  # which makes a file: only now
    if there := await disk.names():
        raise NotRestored(f"the folder has {there[0]!r} in it, and a backup is restored into an empty folder only")
    await snapshots.store(disk, Snapshot(position.index, position.term, mine.voters, backup))
    begun = Save(0, position.term, "", position.index + 1, (), (position.index, position.term))
    await DiskLog(disk, mine.node).write([begun])
    await identity.write(disk, mine)
    return position
