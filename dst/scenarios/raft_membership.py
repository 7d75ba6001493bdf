"""Simulate a group of nodes of impl/raft whose members change, one server at a time, under faults of disks and network.

The nodes and their callers are the scenario raft's. Operators ask the leader to let servers join as learners, be voters, and
leave: any server, also the leader. traces/protocols/raft_membership.py judges each step of each node.
"""

from dataclasses import dataclass

from highwater.dst.actors import Actors
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import raft
from highwater.dst.scenarios.replicated.changing import ChangingGroup
from highwater.dst.scenarios.replicated.group import group_of
from highwater.dst.scripts.replicated import members as member_scripts
from highwater.dst.sim.kernel import Client
from highwater.impl.node_world import NodeWorld
from highwater.traces.event import Event
from highwater.traces.nodes import asks
from highwater.traces.protocols.raft import step_of
from highwater.traces.protocols.raft_membership import KEYS, Trace, constants, refiner
from highwater.traces.refine import refiner_of


@dataclass(frozen=True)
class Shape(raft.Shape):
    """The size of a run, drawn from its seed unless given."""

    servers: int = 4
    founders: int = 3  # of the servers: the first ones begin the group
    proposals: int = 3
    changes: int = 6  # that the operators ask for
    change_ms: int = 200  # between two of them, at most; and so long an operator waits for one


MOST = {"servers": 6, "proposals": 8, "callers": 2, "readers": 2}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, servers=(4, 4, 5, 3), founders=(3, 3, 2, 1), proposals=(3, 2, 5), changes=(6, 3, 10),
                       change_ms=(200, 60, 500), readers=(0, 1), segment_bytes=(600, 200, 100_000),
                       hardware=("usual", "usual", "slow network", "slow disks"), pause_ms=(60, 1, 200), chaos=(30, 60, 10),
                       snapshot_entries=(0, 3, 6), keep_entries=(2, 0), transfers=(0, 0, 3))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.servers, shape.founders)), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    """Return the options of `trace check`: how many servers there are, and how many of them begin the group."""
    given, usual = {"servers": shape.servers, "founders": shape.founders}, Shape()
    told = [f"{name}={value}" for name, value in given.items() if value != getattr(usual, name)]
    return [f"--shape {one}" for one in told]


def options_of(shape: Shape) -> raft.Options:
    """Return the settings of a node: a learner counts soon, and not at once."""
    options = raft.options_of(shape)
    return options._replace(config=options.config._replace(caught_up_entries=2))


async def server(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    group_of(actors, ChangingGroup)
    await raft.server(actors, client, world, number, options=options_of)


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, sizes, latest = set(), set(), dict[str, tuple]()
    for e in events:
        if e.kind == "told" and e.op == "changed":
            found.add("members changed")
        if e.kind != "step" or asks(e):
            continue
        step = step_of(e.body)
        if step.changes:
            latest[e.client] = step.changes[-1]
            sizes.add(len(step.changes[-1][1]))
            if step.role == "leader" and e.client not in step.changes[-1][1]:
                found.add("leader removes itself")
        elif step.save and step.save.terms and step.save.first <= latest.get(e.client, (0,))[0]:
            found.add("change undone")
            latest.pop(e.client)
        if step.save and step.save.base:
            found.add("snapshot installed")
        if step.found and e.client in latest:
            found.add("restart after a change")
    return found | ({"group grown and shrunk"} if len(sizes) > 1 else set())


SCENARIO = raft.SCENARIO._replace(
    stem="raft_membership",
    shape=Shape,
    draw_shape=draw_shape,
    most=MOST,
    mildest=Shape(pause_ms=1, readers=0, audit=False),
    tiny=Shape(servers=3, founders=2, proposals=1, changes=2, readers=0, pause_ms=1, audit=False),
    work={"Server": server},
    trace_of=trace_of,
    trace_options=trace_options,
    told=(*raft.SCENARIO.told, "changed", "not changed"),
    moments=("members changed", "leader removes itself", "change undone", "group grown and shrunk", "snapshot installed",
             "restart after a change"),
    moments_of=moments_of,
    may_retire=lambda shape: 0,
    scripts=member_scripts.SCRIPTS,
)
