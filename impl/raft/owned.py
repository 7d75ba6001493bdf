"""Safety: a node works in its own folder alone: it runs only once the folder durably says whose it is."""

from highwater.impl.node_world import Disk, NodeWorld
from highwater.impl.raft import core, identity, snapshots
from highwater.impl.raft.faults import Damaged
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.log import open_log
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.node import Node, Options


async def opened(world: NodeWorld, mine: FolderIdentity, machine: Machine, options: Options,
                 step: core.Step = core.step) -> Node:
    """Open a node in a folder of this identity, or in one in which no node has worked, which gets it.

    Raises what `identity.check` and `Node.open` raise, and Damaged if the identity is lost.
    """
    await world.disk.lock()
    known = await identity.check(world.disk, mine)
    if known is None:
        await begin_log(world.disk, mine.node)
    await identity.take(world.disk, mine, known)
    return await Node.open(world, mine.node, (known or mine).voters, machine, options, step)


async def begin_log(disk: Disk, node: str) -> None:
    """Make the log of a new folder durable before its identity: a folder with an identity and no log has lost its log.

    Raises Damaged if a node has worked in the folder: then it had an identity."""
    worked = any(map(snapshots.is_snapshot, await disk.names()))
    if not worked:
        _, found = await open_log(disk, node, (0, 0))
        worked = bool(found.term or found.log.entries)
    if worked:
        raise Damaged(identity.FILE, 0, "the file is missing, and a node has worked in the folder")
