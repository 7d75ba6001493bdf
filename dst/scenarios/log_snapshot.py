"""Simulate one node of impl/raft that is a group of its own: its log, its snapshots, and crashes at each operation of its disk.

The node and its callers are the scenario raft's. Its database is a machine that records each call. It is in memory, so each
crash loses it. traces/protocols/log_snapshot.py judges the bytes that go to the disk, and what the database has after a
restart.
"""

from dataclasses import dataclass

from highwater.dst.actors import Actors
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import raft
from highwater.dst.scenarios.replicated.group import Group, group_of
from highwater.dst.scripts.replicated import files, levels, log, node, owned
from highwater.dst.sim.kernel import Client
from highwater.dst.world.store import NEW
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.machine import Command, Machine
from highwater.traces.event import Event
from highwater.traces.protocols.log_snapshot import KEYS, Trace, constants, refiner
from highwater.traces.refine import refiner_of

DISK_LIMIT_MS = 150


@dataclass(frozen=True)
class Shape(raft.Shape):
    """The size of a run, drawn from its seed unless given."""

    servers: int = 1
    proposals: int = 8
    callers: int = 2
    segment_bytes: int = 200
    snapshot_entries: int = 3


MOST = {"servers": 1, "proposals": 16, "callers": 3, "readers": 2}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, proposals=(8, 4, 16), callers=(2, 1, 3), readers=(1, 0, 2), segment_bytes=(200, 100, 600),
                       snapshot_entries=(3, 2, 5), keep_entries=(0, 2), hardware=("usual", "slow disks"),
                       pause_ms=(60, 1, 200), chaos=(30, 60, 10))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants()), KEYS, shape.skew_ms)


def recording(group: Group, client: Client) -> Machine:
    """Return the scenario raft's machine, whose calls are events of the trace."""
    own = raft.MACHINE

    def told(what: str, body: bytes) -> None:
        group.machines.observe(NEW(Event, (group.actors.kernel.now_ms, 0, client.name, "step", what, "", "", 0, "", body, (),
                                           False, True, False)))

    def applied(value: tuple[bytes, ...], command: Command) -> tuple[tuple[bytes, ...], None]:
        told("apply", command.body)
        return own.apply(value, command)

    def dumped(value: tuple[bytes, ...]) -> bytes:
        content = own.dump(value)
        told("dump", content)
        return content

    def loaded(content: bytes) -> tuple[bytes, ...]:
        told("load", content)
        return own.load(content)

    return Machine(own.initial, applied, dumped, loaded, check=own.refusal)


def options_of(shape: Shape) -> raft.Options:
    return raft.options_of(shape)._replace(disk_limit_ms=DISK_LIMIT_MS)


async def server(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    await raft.server(actors, client, world, number, options=options_of, machine=recording(group_of(actors), client))


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, made = set(), False
    for e in events:
        if e.kind == "step" and e.op == "load":
            found.add("restart with a snapshot")
        elif e.kind == "disk" and e.op == "remove" and e.key.startswith("log-"):
            found.add("log cut")
        elif e.kind == "disk" and e.key == "snapshot.tmp":
            made = e.op != "rename"
        elif e.kind == "died":
            found |= {"crash while a snapshot is written"} if made else set()
            found |= {"unsynced bytes lost"} if e.keys else set()
            made = False
    return found


SCENARIO = raft.SCENARIO._replace(
    stem="log_snapshot",
    shape=Shape,
    draw_shape=draw_shape,
    most=MOST,
    mildest=Shape(pause_ms=1, readers=0, callers=1, audit=False),
    tiny=Shape(proposals=1, readers=0, callers=1, pause_ms=1, audit=False),
    work={"Server": server},
    trace_of=trace_of,
    trace_options=lambda shape: [],
    moments=("restart with a snapshot", "log cut", "crash while a snapshot is written", "unsynced bytes lost"),
    moments_of=moments_of,
    scripts=(*log.SCRIPTS, *node.SCRIPTS, *files.SCRIPTS, *levels.SCRIPTS, *owned.SCRIPTS),
)
