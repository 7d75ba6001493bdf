"""Safety: the level of a cluster rises only to one that every member has said it knows, over a connection that is open now.

The leader raises it by itself, as soon as that is so. A member that cannot be reached keeps the level as it is.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from highwater.impl.errors import StoreError
from highwater.impl.level import Level, common
from highwater.impl.raft import in_force
from highwater.impl.raft.node import Node
from highwater.impl.raft.state import LEADER

log = logging.getLogger("highwater")
EVERY_MS = 500
Known = Callable[[str], Level | None]  # the highest level that a peer knows; None if it is not connected


@asynccontextmanager
async def raising(node: Node, known: Known) -> AsyncGenerator[None]:
    """Within the context, raise the level of the cluster while `node` leads, and log where the level is another one."""
    task = asyncio.create_task(raise_on(node, known))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def raise_on(node: Node, known: Known) -> None:
    """Look whether the level may rise, again and again."""
    told = node.level
    while True:
        await node.world.clock.sleep_ms(EVERY_MS)
        wanted = possible(node, known)
        if wanted is not None:
            try:
                await node.raise_level(wanted)
            except StoreError as error:
                log.info("node %r: the level does not rise to %s yet: %s", node.state.me, wanted, error)
        if node.level != told:
            told = node.level
            log.info("node %r: the cluster is at level %s", node.state.me, told)


def possible(node: Node, known: Known) -> Level | None:
    """Return the higher level that the node may raise its cluster to; None if there is none, or it does not lead."""
    if node.state.role != LEADER or node.stopped:
        return None
    others = [known(peer) for peer in in_force.peers(node.state)]
    all_known = [level for level in others if level is not None]
    if len(all_known) < len(others):
        return None
    wanted = node.level.raised(common([node.known, *all_known]))
    return wanted if wanted != node.level else None
