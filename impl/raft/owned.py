"""Safety: a node works in its own folder alone: it is opened there once the folder is known to be its own, or nobody's yet."""

from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import core, identity
from highwater.impl.raft.entries import NOOP
from highwater.impl.raft.faults import Damaged
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.node import Node, Options


async def opened(world: NodeWorld, mine: FolderIdentity, machine: Machine, options: Options,
                 step: core.Step = core.step) -> Node:
    """Open a node in a folder of this identity, or in one that has none yet, which gets it.

    Raises what `Node.open` and `identity.check` raise, and Damaged if the identity is lost: before it is written, a node
    makes nothing but the first entries of terms that it leads alone.
    """
    await world.disk.lock()
    known = await identity.check(world.disk, mine)
    node = await Node.open(world, mine.node, (known or mine).voters, machine, options, step)
    try:
        if known is None and (node.snapshot.index or any(entry.kind != NOOP for entry in node.state.log.entries)):
            raise Damaged(identity.FILE, 0, "the file is missing, and a node has worked in the folder")
        await identity.take(world.disk, mine, known)
    except BaseException:
        await node.close()
        raise
    return node
