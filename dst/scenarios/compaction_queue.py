"""Simulate the jobs of a metadata index: leases that end, workers that die, and blocks of which every worker dies.

Nodes, writers and workers are the scenario metadata_fsm's. A job compacts one block, and a result is not compacted again.
traces/protocols/compaction_queue.py judges each poll. A worker reports before it does anything, so a job that kills its worker
counts as failed. Once the faults have stopped, every block that can be compacted must be, whatever the others do.
"""

from dataclasses import dataclass

from highwater.dst.actors import Actors
from highwater.dst.scenario import Draw
from highwater.dst.scenarios import metadata_fsm
from highwater.dst.scenarios.indexed.group import IndexGroup
from highwater.dst.scenarios.metadata_fsm import CONFIG, alike, blocks_of
from highwater.dst.scripts.indexed import jobs, letters, polls, worker
from highwater.dst.sim.kernel import Client
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import JobPlan, decode
from highwater.impl.index.config import Level, S
from highwater.impl.index.kv import Rows, under
from highwater.impl.node_world import NodeWorld
from highwater.traces.protocols.compaction_queue import FAILURES, JOBS, KEYS, Trace, constants, refiner
from highwater.traces.protocols.metadata_fsm import START_S
from highwater.traces.refine import refiner_of


@dataclass(frozen=True)
class Shape(metadata_fsm.Shape):
    """The size of a run, drawn from its seed unless given."""

    bad: int = 0  # the first blocks, which nobody can compact  # pyright: ignore
    reports_first: bool = True  # pyright: ignore
    retries: int = 0
    readers: int = 0
    jobs: int = JOBS
    stalls: bool = False
    deletes: bool = False


def draw_shape(of: Draw) -> Shape:
    return alike(Shape.drawn(of, servers=(3, 1, 1), bad=(0, 1, 2, 3), adds=(2, 3), retries=(0, 1), workers=(1, 1, 2),
                             poll_ms=(100, 60), transfers=(0, 2), snapshot_entries=(12, 0, 30), keep_entries=(2, 0),
                             skew_ms=(0, 300), hardware=("usual",), pause_ms=(40, 1, 80), chaos=(30, 45, 10)))


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(blocks_of(shape))), KEYS, shape.skew_ms)


class QueueGroup(IndexGroup):
    """The nodes of one run."""

    start_ms, last_ms = START_S * 1000, 1 << 47
    config = CONFIG._replace(levels=(Level(1, S),), jobs=JOBS, failures=FAILURES, lease_ns=13_500 * S,
                             retry_failed_ns=9_000 * S)

    def is_idle(self, rows: Rows) -> bool:
        """Tell whether no block is left but those that nobody can compact."""
        waiting = {row.queued_of(*one).ulid for one in under(rows, row.QUEUE)}
        plans = [decode(JobPlan, value) for _, value in under(rows, row.JOB_PLAN)]
        return self.bad.issuperset(waiting) and all(self.bad.issuperset(plan.source_blocks) for plan in plans)


async def server(actors: Actors, client: Client, world: NodeWorld, number: int) -> None:
    await metadata_fsm.server(actors, client, world, number, QueueGroup)


SCENARIO = metadata_fsm.SCENARIO._replace(
    stem="compaction_queue",
    shape=Shape,
    draw_shape=draw_shape,
    most={**metadata_fsm.MOST, "bad": 3},
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(adds=1, pause_ms=1, audit=False),
    work={"Server": server},
    trace_of=trace_of,
    moments=("several leaders", "state of a snapshot", "block refused"),
    scripts=(*jobs.SCRIPTS, *polls.SCRIPTS, *worker.SCRIPTS, *letters.SCRIPTS),
    share=2,
)
