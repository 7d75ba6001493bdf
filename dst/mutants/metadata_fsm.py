"""Known-bad metadata indexes: the real state machine of impl/index with one of its functions replaced, or a real worker's.

traces/protocols/metadata_fsm.py judges what each entry does. Callers judge the rest: whether what was acknowledged is there
once, with its object.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.indexed.group import Impl
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import SUCCESS, BlockMeta, decode, encode
from highwater.impl.codecs.index.partitions import Partition
from highwater.impl.codecs.index.rows import Block, Queued, Unit
from highwater.impl.index import add, jobs, plan_get, plan_update, planner, queue, removed, replace, replicated, tombstones
from highwater.impl.index import machine as of_index
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, View, Writing, under
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.machine import Command, Machine
from highwater.impl.raft.node import Node

Swap = tuple[Any, str, Callable]  # a module, the name of its function, and another function
own_reports = plan_get._reports


def with_swaps(call: Callable, *swaps: Swap) -> Callable:
    """Return a function during whose calls these functions of the modules are others."""
    def called(*given: Any) -> Any:
        before = [(module, name, getattr(module, name)) for module, name, _ in swaps]
        for module, name, other in swaps:
            setattr(module, name, other)
        try:
            return call(*given)
        finally:
            for module, name, own in before:
                setattr(module, name, own)

    return called


def applying(*swaps: Swap) -> Build:
    """Make an index that applies entries with these functions."""
    def machine(config: Config) -> Machine:
        own = replicated.machine(config)
        return own._replace(apply=with_swaps(own.apply, *swaps))

    return lambda world, shape, number: Impl(machine=machine)


def reports_as_they_came(rows: Rows, request: Any, update: Any, now_ns: int, config: Config) -> None:
    """Plan the ends of jobs with the tokens of whoever reported them."""
    own_reports(rows, request, update, now_ns, config)
    tokens = {report.name: report.token for report in request.status_updates if report.status == SUCCESS}
    for part in update.completed_jobs:
        part.state.token = tokens[part.state.name]


def always(*given: Any) -> bool:
    return True


def never(*given: Any) -> bool:
    return False


def of_any_window(queued: Queued) -> Unit:
    return Unit(Partition(0), queued.tenant, queued.shard)


# --- each datum once

def only_in_a_free_tombstone(rows: Rows, block: Block) -> bool:
    """Look as Pyroscope does: a tombstone leaves the index as soon as a job takes it."""
    return any(block.ulid in one.message.blocks.blocks and not one.message.job for one in tombstones.all_of(rows))


def forgotten_when_gone(rows: Transaction, block: Block) -> None:
    rows.delete(row.removed_key(row.REMOVED, block))


def no_clock(rows: Rows) -> int:
    return -1


own_replace, LEFT = replace.replace, b"\xf0"  # a bucket of the mutant's


def replaced_in_two_steps(rows: Transaction, plan: Any, blocks: list[Any], index: int, now_ns: int, config: Config) -> None:
    """Remove the sources, and leave the result to the next entry."""
    replace.bury(rows, replace.sources_of(plan), plan.name, plan.compaction_level, index, now_ns)
    for number, block in enumerate(blocks):
        rows.put(LEFT + row.U64.pack(number), encode(block))


def two_steps(config: Config) -> Machine:
    own = replicated.machine(config)
    swapped = with_swaps(own.apply, (replace, "replace", replaced_in_two_steps))

    def apply(view: View, command: Command) -> tuple[View, Any]:
        after, result = swapped(view, command)
        left = [(key, decode(BlockMeta, value)) for key, value in under(view, LEFT)]
        if not left:
            return after, result
        writing = Writing(after, command.index)
        for key, block in left:
            writing.delete(key)
            unit = replace.units.unit_of(block)
            replace.units.insert(writing, unit, block, command.index)
            queue.enqueue(writing, Block(block.id, unit.shard, unit.tenant), block.compaction_level, command.index,
                          of_index.clock_ns(writing), config)
        return View(writing.root), result

    return own._replace(apply=apply)


# --- jobs

def those_that_wait(rows: Rows, plan: Any) -> list[Queued]:
    """Take the rows of the queue that are there."""
    return [queued for queued in queue.waiting(rows) if queued.ulid in plan.source_blocks]


def given_up_and_forgotten(rows: Transaction, name: str, index: int, now_ns: int, config: Config) -> None:
    """End a job, and let nobody compact its sources, as Pyroscope does with an evicted one."""
    plan = jobs.plan(rows, name)
    jobs.delete(rows, name)
    tombstones.take_back(rows, name, plan.tombstones if plan else ())


# --- objects

def handed_out_and_forgotten(rows: Transaction, stored: Any, job: str) -> Any:
    """Forget a tombstone as soon as a job carries it, as Pyroscope does."""
    rows.delete(stored.key)
    return stored.message


def is_older(window: Partition, ulid: str) -> bool:
    return ulids.time_ns(ulid) < window.end_ns


def sweeping(world: Any, shape: Any, number: int) -> Impl:
    return Impl(objects_of=with_swaps(tombstones.objects_of, (tombstones, "is_inside", is_older)))


# --- log time

class OwnClock(Node):
    """The leader stamps its own clock."""

    def clocks(self) -> Clocks:
        own = super().clocks()
        return own._replace(told={name: Told(own.own_ms, 0) for name in own.voters})


class LatestClock(Node):
    """The latest clock of any voter counts as the clock of all followers."""

    def clocks(self) -> Clocks:
        own = super().clocks()
        latest = max((own.own_ms, *(told.clock_ms for told in own.told.values())))
        return own._replace(told={name: Told(latest, 0) for name in own.voters})


def nodes(of: type[Node]) -> Build:
    return lambda world, shape, number: Impl(node=of)


ANY_WORKER = applying((jobs, "holds", always), (plan_get, "_reports", reports_as_they_came))
BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "tombstones_unchecked": ("a removed block is added again", applying((removed, "is_removed", never))),
    "only_tombstones_checked": ("a removed block is known until a job takes its tombstone",
                                applying((removed, "is_removed", only_in_a_free_tombstone))),
    "known_until_deleted": ("a removed block is known until its object is deleted",
                            applying((removed, "gone", forgotten_when_gone))),
    "no_horizon": ("blocks of any age are added", applying((removed, "is_too_old", never))),
    "clock_goes_back": ("the time of the log goes back", applying((of_index, "clock_ns", no_clock))),
    "added_again": ("a block that is there is added again, and waits again", applying((add, "is_here", never))),
    "windows_mixed": ("a job compacts blocks of several windows", applying((planner, "unit_of", of_any_window))),
    "sources_gone": ("a job is made though not all its sources wait", applying((plan_update, "waiting_for", those_that_wait))),
    "any_term": ("a command of an earlier term has an effect", applying((plan_update, "is_of_term", always))),
    "replaced_in_two_steps": ("sources go with one entry, and the result comes with the next one",
                              lambda world, shape, number: Impl(machine=two_steps)),
    "any_worker": ("a worker that has lost its job ends it", ANY_WORKER),
    "job_gone": ("a job that is gone is renewed", applying((plan_update, "is_current", always))),
    "sources_forgotten": ("the sources of a job that is given up wait no more",
                          applying((plan_update, "cancel", given_up_and_forgotten))),
    "dropped_unknown": ("a dropped unit refuses nothing", applying((removed, "is_dropped", never))),
    "dropped_forgotten": ("a dropped unit is forgotten though a job may bring a block of it",
                          applying((removed, "may_come_back", never))),
    "older_deleted": ("the tombstone of a unit deletes all that is older", sweeping),
    "tombstone_leaves": ("a tombstone leaves with the job that carries it",
                         applying((tombstones, "hand_out", handed_out_and_forgotten))),
    "own_clock": ("the leader stamps its own clock", nodes(OwnClock)),
    "latest_clock": ("the leader stamps the latest clock of any voter", nodes(LatestClock)),
    "tombstone_lost": ("the tombstones of a job that has ended stay with it",
                       applying((tombstones, "take_back", lambda rows, job, carried: None))),
}
MODEL = (*(f"refinement:{of}" for of in (".", "Add", "Sweep", "Truncate", "Worker.", "index.")), "safety:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(BUILDS, (MODEL, ())),
    **dict.fromkeys(("own_clock", "latest_clock"), ((*MODEL, "index:clock"), ("index:clock",))),
    "added_again": ((*MODEL, "liveness:Server"), ()),  # a job whose source is gone never ends
}
MUTANTS = Mutants(BUILDS, ORACLES)
