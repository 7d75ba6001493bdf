"""Safety: a node never goes on in the folder of another cluster, or begins with other voters than it did before.

A folder's identity: a file of JSON that names the cluster, the node and the voters of the beginning. It is written when the
node is first opened there, before it says anything to others. A node that joined later began with no voters.
"""

import json
from typing import NamedTuple

from highwater.impl.node_world import Disk
from highwater.impl.raft.faults import Damaged, OtherNode

FILE, TEMPORARY = "identity", "identity.tmp"


class FolderIdentity(NamedTuple):
    """The owner of a folder."""

    cluster: str
    node: str
    voters: tuple[str, ...]  # sorted; () of a node that joined, or was recovered


async def check(disk: Disk, mine: FolderIdentity) -> FolderIdentity | None:
    """Return the folder's identity; None if it has none yet. Changes nothing. Raises OtherNode, Damaged."""
    if FILE not in await disk.names():
        return None
    found = decoded(await disk.read(FILE))
    if found.cluster != mine.cluster:
        raise OtherNode(f"{FILE}: the folder is of cluster {found.cluster!r}, and this node was given {mine.cluster!r}: give "
                        "the node its own folder")
    if found.node != mine.node:
        raise OtherNode(f"{FILE}: the folder is of node {found.node!r}, and this is node {mine.node!r}: give the node its own "
                        "folder")
    if found.voters and mine.voters and found.voters != mine.voters:
        raise OtherNode(f"{FILE}: the nodes of the group are {', '.join(found.voters)}, and this node was given "
                        f"{', '.join(mine.voters)}: two groups could lead at once; name the same nodes; those that joined "
                        "later are known from the log")
    return found


async def write(disk: Disk, mine: FolderIdentity) -> None:
    """Give the folder its identity, durably."""
    await disk.create(TEMPORARY)
    await disk.append(TEMPORARY, json.dumps(mine._asdict(), sort_keys=True).encode() + b"\n")
    await disk.sync(TEMPORARY)
    await disk.rename(TEMPORARY, FILE)
    await disk.sync_names()


def decoded(data: bytes) -> FolderIdentity:
    try:
        found = json.loads(data)
        return FolderIdentity(str(found["cluster"]), str(found["node"]), tuple(map(str, found["voters"])))
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(FILE, 0, f"it does not name a cluster and a node: {error!r}") from error
