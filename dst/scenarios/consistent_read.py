"""Simulate a group of nodes of impl/raft whose callers read at any node, under faults of disks and network.

The nodes and those who propose are the scenario raft's. traces/protocols/consistent_read.py judges each read beside each step
of each node. A node that starts again has applied what its snapshot has, so a restart is a restore.
"""

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import raft
from highwater.dst.scenarios.raft import ended_read
from highwater.dst.scenarios.replicated.group import group_of
from highwater.dst.scenarios.replicated.reading import ReadingGroup
from highwater.dst.sim.kernel import Client
from highwater.impl.errors import TimedOut
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.node import Node
from highwater.traces.protocols.consistent_read import KEYS, Trace, constants, refiner
from highwater.traces.protocols.raft_calls import CALLS
from highwater.traces.refine import refiner_of

READ_MS = 3_000  # a reader waits so long: the leader that it asks may be deposed and elected again meanwhile


@dataclass(frozen=True)
class Shape(raft.Shape):
    """The size of a run, drawn from its seed unless given."""

    most_reads: ClassVar[int] = 30
    readers: int = 2  # of each server


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, servers=(3, 3, 3, 3, 3, 5), proposals=(2, 1, 3), readers=(1, 1, 2),
                       segment_bytes=(600, 200, 100_000), hardware=("usual", "slow network", "slow disks"),
                       pause_ms=(60, 1, 200), chaos=(30, 60, 10), snapshot_entries=(0, 3), keep_entries=(2, 0))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.servers)), KEYS, shape.skew_ms)


def options_of(shape: Shape) -> raft.Options:
    """Return the settings of a node: it asks once for each read, so that an answer tells of one question."""
    return raft.options_of(shape)._replace(read_retry_ms=2 * READ_MS)


async def server(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    group_of(actors, ReadingGroup)
    await raft.server(actors, client, world, number, read, options_of)


async def read(actors: Actors, me: Client, world: NodeWorld, node: Node) -> str:
    """Read for as long as READ_MS, and return the kind of response."""
    try:
        return await world.clock.timeout(READ_MS, actors.in_time(me, read_once(actors, me, node)))
    except TimedOut as error:
        return ended_read(actors, me, await said_by(CALLS, "read", raised(error)))


async def read_once(actors: Actors, me: Client, node: Node) -> str:
    """Read, and record the response in the moment in which the node gives it."""
    group_of(actors, ReadingGroup).asking = me.name
    return ended_read(actors, me, await said_by(CALLS, "read", node.read()))


async def raised(error: TimedOut) -> NoReturn:
    raise error


SCENARIO = raft.SCENARIO._replace(
    stem="consistent_read",
    shape=Shape,
    draw_shape=draw_shape,
    most={**raft.MOST, "readers": 3},
    mildest=Shape(pause_ms=1, readers=1, audit=False),
    tiny=Shape(servers=3, proposals=1, readers=1, pause_ms=1, audit=False),
    work={"Server": server},
    trace_of=trace_of,
)
