"""Simulate a metadata index on three nodes, with writers that add blocks again, workers that are slow or die, readers, and a
cleaner that drops units, under faults of disks and network. In most runs the nodes make snapshots.

The nodes are impl/raft's, and their machine is impl/index. traces/protocols/metadata_fsm.py judges each entry and each answer,
and that all replicas have the same bytes. The clocks of the nodes differ, and those of the writers; one ms of a run is 45 s of
the index. Once the faults have stopped, all that waits must be compacted, and all that was removed deleted.
"""

import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from highwater.dst.actors import Actors
from highwater.dst.scenario import BaseShape, Draw, Scenario, rarely
from highwater.dst.scenarios import raft
from highwater.dst.scenarios.indexed import end
from highwater.dst.scenarios.indexed.group import IndexGroup, production, recording
from highwater.dst.scenarios.indexed.workers import Worker
from highwater.dst.scenarios.indexed.writers import cleaner, clock, jumping, raising, reader, writer
from highwater.dst.scenarios.raft import NEVER
from highwater.dst.scenarios.replicated.group import group_of
from highwater.dst.scripts.indexed import clocks, codecs, kv, library, queries, retention, selector, service
from highwater.dst.sim.kernel import Client
from highwater.dst.world.node_faults import HARDWARE
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.index.config import Config, Level, S
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.state import Config as RaftConfig
from highwater.traces.event import Event
from highwater.traces.protocols.indexed.log import IndexTrace
from highwater.traces.protocols.metadata_fsm import (
    BEFORE,
    HORIZON_NS,
    KEYS,
    LEVELS,
    START_S,
    WINDOWS,
    Trace,
    constants,
    refiner,
)
from highwater.traces.refine import refiner_of

DISK_LIMIT_MS, ELECTION_TICKS, HEARTBEAT_TICKS = 300, 9, 4
CONFIG = Config(horizon_ns=HORIZON_NS, delay_ns=10_500 * S, lease_ns=22_000 * S, failures=1, retry_failed_ns=3_000 * S, jobs=3,
                levels=(Level(2, 12_000 * S), Level(2, 4_500 * S)), tombstones=2, hand_outs=2)
assert len(CONFIG.levels) == LEVELS
MOST_BLOCKS = 9


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    bad = 0  # blocks that nobody can compact
    reports_first = False  # a worker reports before it does anything
    servers: int = 3
    adds: int = 3  # of the writers of each server
    retries: int = 2  # long after the last add, of each writer
    writers: int = 1  # of each server
    readers: int = 1
    reads: int = 4  # of a reader in one life of its server
    workers: int = 1
    poll_ms: int = 150  # between two polls of a worker, at most
    truncations: int = 0  # that the cleaner asks for
    jobs: int = 3  # at most
    transfers: int = 0  # of leadership, that an operator asks for
    jumps: int = 0  # of the clock of one node, by seconds to a year
    stalls: bool = True  # the node that serves a poll may stall, and plans may be proposed again
    deletes: bool = True  # workers delete what tombstones name
    snapshot_entries: int = 0  # applied between two snapshots; 0: none is made
    keep_entries: int = 2  # stay in the log before a snapshot
    segment_bytes: int = 4_000
    hardware: str = "usual"  # name of a Hardware in dst/world/node_faults.py
    pause_ms: int = 40  # between two operations of a writer or reader, at most


MOST = {"servers": 3, "adds": 9, "writers": 2, "readers": 2, "workers": 2, "retries": 3, "truncations": 6}


def draw_shape(of: Draw) -> Shape:
    return alike(Shape.drawn(of, servers=(3, 1, 1, 1), adds=(2, 3), retries=(3, 2), workers=(1, 1, 2), poll_ms=(200, 100),
                             truncations=(4, 0, 6), jobs=(3, 2), transfers=(2, 0, 4), snapshot_entries=(12, 0, 30),
                             keep_entries=(2, 0), skew_ms=(700, 0, 700), hardware=("usual",), pause_ms=(40, 1, 80),
                             chaos=(30, 45, 10), jumps=(0, 0, 4)))


def alike(shape: Any) -> Any:
    """Return a shape that has several writers and workers on one server, as others have on three."""
    return shape if shape.servers > 1 else shape._replace(adds=2 * shape.adds, writers=2, workers=2)


def length(shape: Shape) -> int:
    return shape.servers * (200 + 60 * shape.adds)


def blocks_of(shape: Any) -> int:
    """Return how many blocks writers make at most; no fewer than any drawn run's, as each number has a model of its own."""
    return max(MOST_BLOCKS, shape.servers * shape.adds)


def trace_of(shape: Shape) -> IndexTrace:
    return Trace(refiner_of(refiner, constants(blocks_of(shape))), KEYS, shape.skew_ms)


def options_of(shape: Any) -> raft.Options:
    config = RaftConfig(election_ticks=ELECTION_TICKS, heartbeat_ticks=HEARTBEAT_TICKS)
    return raft.Options(config, raft.TICK_MS, DISK_LIMIT_MS, read_retry_ms=150,
                        snapshot_entries=shape.snapshot_entries or NEVER, keep_entries=shape.keep_entries,
                        segment_bytes=shape.segment_bytes, chunk_bytes=2_000, fetch_retry_ms=60)


class FsmGroup(IndexGroup):
    """The nodes of one run."""

    start_ms = START_S * 1000
    last_ms = (START_S + (WINDOWS - BEFORE) * WINDOW_S) * 1000 - 1

    def __init__(self, actors: Actors):
        super().__init__(actors)
        self.config = CONFIG._replace(jobs=actors.shape.jobs)


def callers(actors: Actors, client: Client, world: NodeWorld, number: int) -> dict[str, Coroutine[Any, Any, None]]:
    """Return the callers of one server, by their names."""
    group, shape = group_of(actors, IndexGroup), actors.shape
    impl = actors.build(world, shape, number)
    works: dict[str, Coroutine[Any, Any, None]] = {f"writer{n}": writer(actors, client, world, n, group)
                                                   for n in range(shape.writers)}
    works |= {f"reader{n}": reader(actors, client, world, n, group) for n in range(shape.readers)}
    works |= {f"worker{n}": Worker(actors, client, world, n, group, impl).work() for n in range(shape.workers)}
    works |= {"clock": clock(actors, client, world, group)} if shape.skew_ms else {}
    if group.jumping:
        works |= {"raising": raising(world, group.open[client.name][0]), "jumping": jumping(actors, client, world, group)}
    works |= {"cleaner": cleaner(actors, client, world, group)} if number == 0 and group.truncations else {}
    return works


async def server(actors: Actors, client: Client, world: NodeWorld, number: int, of: type[IndexGroup] = FsmGroup) -> None:
    """Open a node of an index, and serve its callers. `of`: the class of the run's group."""
    group = group_of(actors, of)
    group.serving.pop(client.name, None)
    machine = recording(group, client, actors.build(world, actors.shape, number).machine(group.config))
    await raft.server(actors, client, world, number, options=options_of, machine=machine, work=callers)
    await group.end_calls(client.name)


def final_check(actors: Actors, events: list[Event]) -> None:
    end.check(group_of(actors, IndexGroup))


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, terms = set(), set()
    for e in events:
        if e.kind == "step" and e.op == "apply":
            terms.add(json.loads(e.body)["term"])
        elif e.kind == "step" and e.op == "load":
            found.add("state of a snapshot")
        elif e.op == "delete":
            found.add("unit deleted" if e.key else "object deleted")
        elif e.kind == "told" and e.op == "refused":
            found.add("block refused")
    return found | ({"several leaders"} if len(terms) > 1 else set())


SCENARIO = Scenario(
    stem="metadata_fsm",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Server": ("servers", "adds")},
    most=MOST,
    mildest=Shape(pause_ms=1, readers=0, stalls=False, audit=False),
    tiny=Shape(adds=1, retries=0, readers=0, stalls=False, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Server": server},
    audit=(),
    trace_of=trace_of,
    final_check=final_check,
    told=("added", "refused", "invalid", "failed", "unknown", "read", "not read", "polled", "not polled", "perhaps polled",
          "overdue", "confirmed", "not confirmed", "perhaps confirmed", "seen", "truncated", "not truncated",
          "perhaps truncated", "transferred", "not transferred"),
    waits_ms=lambda shape: (shape.pause_ms, ELECTION_TICKS * raft.TICK_MS, DISK_LIMIT_MS),
    moments=("several leaders", "state of a snapshot", "object deleted", "unit deleted", "block refused"),
    moments_of=moments_of,
    nodes=("Server",),
    hardware=lambda shape: HARDWARE[shape.hardware],
    shows_io=False,  # they are Raft's
    rare=rarely(),
    scripts=(*clocks.SCRIPTS, *codecs.SCRIPTS, *kv.SCRIPTS, *library.SCRIPTS, *queries.SCRIPTS, *retention.SCRIPTS,
             *selector.SCRIPTS, *service.SCRIPTS),
    may_retire=lambda shape: (shape.servers - 1) // 2,
    cost={},
    share=2,
)
