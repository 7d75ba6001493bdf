"""Safety: a folder that is recovered never talks to the nodes of its former cluster, so these cannot lead beside it.

Makes a node the only one of a new cluster, after a majority of its former one was lost. What only the lost nodes had is lost,
and what this node has counts as committed, also what never was. A term that a message has spoilt becomes the one after the last
entry's: the new cluster has no other node that could have voted in it.
"""

from highwater.cluster.check import Content, checked
from highwater.impl.node_world import Disk
from highwater.impl.raft import identity, members
from highwater.impl.raft.entries import MEMBERS, last_index, last_term, made, spliced
from highwater.impl.raft.faults import OtherNode
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log
from highwater.impl.raft.members import Members


async def recoverable(disk: Disk, cluster: str) -> Content:
    """Return the content of a folder that can be recovered for a new cluster. Changes nothing. Raises DiskLocked, NoFolder,
    Damaged, OtherNode, OtherVersion."""
    found = await checked(disk)
    if found.whose is None:
        raise OtherNode(f"{identity.FILE} is missing: no server of a cluster was ever opened in this folder")
    if found.whose.cluster == cluster and found.whose.voters:
        raise OtherNode(f"{identity.FILE}: the folder is of cluster {cluster!r}: give the new cluster another name, since "
                        "nodes that were lost may come back")
    return found


async def recover(disk: Disk, cluster: str) -> Content:
    """Let the node of a folder be the only one of a new cluster. Return what the folder had before.

    The folder gets the new cluster's name first. So if the process ends meanwhile, the node reaches none of the former cluster,
    and the same call goes on. Raises what `recoverable` raises, DiskFull, DiskFailed.
    """
    before = await recoverable(disk, cluster)
    await identity.write(disk, FolderIdentity(cluster, before.node, (), before.whose.settings if before.whose else ""))
    log, found = await open_log(disk, before.node, (before.snapshot.index, before.snapshot.term), may_be_spoilt=True)
    term = max(last_term(found.log), before.snapshot.term) + 1 if before.is_spoilt() else found.term + 1
    alone = made(term, MEMBERS, members.encoded(Members((before.node,))))
    await log.replace(term, before.node, spliced(found.log, last_index(found.log) + 1, (alone,)))
    return before
