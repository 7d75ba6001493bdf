"""Simulate a group of nodes of impl/raft whose callers read at any node, under faults of disks and network.

The nodes and those who propose are the scenario raft's. traces/protocols/consistent_read.py judges each read beside each step
of each node. A node that starts again has applied what its snapshot has, so a restart is a restore.
"""

from dataclasses import dataclass
from typing import NoReturn

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import raft
from highwater.dst.scenarios.raft import TICK_MS, asked
from highwater.dst.scenarios.replicated.reading import reading_group_of
from highwater.dst.sim.kernel import Client
from highwater.impl.errors import TimedOut
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.node import Node
from highwater.traces.protocols.consistent_read import KEYS, Trace, constants, refiner
from highwater.traces.protocols.raft_calls import CALLS
from highwater.traces.refine import refiner_of

READ_MS = 3_000  # a reader waits so long: the leader that it asks may be deposed and elected again meanwhile
MOST_READS = 30  # of a reader in one life of its server


@dataclass(frozen=True)
class Shape(raft.Shape):
    """The size of a run, drawn from its seed unless given."""

    readers: int = 2  # of each server


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, servers=(3, 3, 3, 5), proposals=(3, 2, 4), readers=(2, 1, 3), segment_bytes=(600, 200, 100_000),
                       hardware=("usual", "slow network", "slow disks"), pause_ms=(60, 1, 200), chaos=(30, 60, 10),
                       snapshot_entries=(0, 3), keep_entries=(2, 0))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.servers)), KEYS, shape.skew_ms)


def options_of(shape: Shape) -> raft.Options:
    """Return the settings of a node: it asks once for each read, so that an answer tells of one question."""
    return raft.options_of(shape)._replace(read_retry_ms=2 * READ_MS)


async def server(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    reading_group_of(actors)
    await raft.server(actors, client, world, number, reader, options_of)


async def reader(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    """Read while the callers of the same server propose, at the own node or now and then at another one."""
    group = reading_group_of(actors)
    me = Client(f"{client.name}/reader{number}", of=client)
    for _ in range(MOST_READS):
        await actors.pause(me, world)
        if not group.busy[client.name]:
            return
        actors.begin(me)
        call = read_once(actors, me, asked(actors, me, group, client.name))
        try:
            told = await world.clock.timeout(READ_MS, actors.in_time(me, call))
        except TimedOut as error:
            told = finished(actors, me, await said_by(CALLS, "read", raised(error)))
        if told != "read":
            await world.clock.sleep_ms(TICK_MS)


async def read_once(actors: Actors, me: Client, node: Node) -> str:
    """Read, and record the response in the moment in which the node gives it."""
    reading_group_of(actors).asking = me.name
    return finished(actors, me, await said_by(CALLS, "read", node.read()))


def finished(actors: Actors, me: Client, said: Said) -> str:
    seen = tuple(body.decode() for body in said.value) if said.told == "read" else ()
    actors.end(me, said.told, body=" ".join(seen).encode(), seen=seen, keys=said.keys)
    return said.told


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
    share=0.5,
)
