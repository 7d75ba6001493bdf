"""Known-bad reads of Raft nodes: the real core or the real node, each without one safeguard of a consistent read.

traces/protocols/consistent_read.py judges them, and what callers saw.
"""

from typing import Any

from highwater.dst.mutants.raft import BUILDS as of_raft
from highwater.dst.mutants.raft import node_of, stepping
from highwater.dst.scenario import Build, Mutants
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import core, elections, terms
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import State

own_lead = elections.lead
AFTER_MS = 250  # between the wait and the read, where they are two calls


def reads_stay(state: State, leader: str) -> State:
    """Keep the reads of a leader that is deposed."""
    return state


def lead_with_reads(state: State) -> State:
    """Confirm the reads of an earlier term by the first round of this one."""
    after = own_lead(state)
    return after._replace(reads=tuple(one._replace(round=1) for one in state.reads if one.index is not None))


class ReadLater(Node):
    """Waits in one call and reads in another one, which may meet a process that has started again since."""

    def __init__(self, world: NodeWorld, me: str, voters: Any, machine: Machine, options: Options, step: core.Step):
        super().__init__(world, me, voters, machine, options, step)
        world.disk.serving = self  # pyright: ignore[reportAttributeAccessIssue]  # the disk outlives the process

    async def read(self) -> Any:
        await super().read()
        await self.world.clock.sleep_ms(AFTER_MS)
        return self.world.disk.serving.value  # pyright: ignore[reportAttributeAccessIssue]


SAME = ("read_unapplied", "read_at_once", "read_by_old_round", "read_before_own_term", "half_confirms")  # as raft's
BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    **{name: of_raft[name] for name in SAME},
    "read_later": ("a restart may come between the wait and the read", node_of(ReadLater)),
    "read_of_earlier_term": ("a leader that is elected again confirms the reads of its earlier term", stepping(
        (terms, "refuse_reads", reads_stay), (elections, "lead", lead_with_reads))),
}
MODEL = ("call:read", "refinement:Server.", "refinement:machine", "refinement:message", "refinement:LogMatching")
HARM = ("history:stale read", "history:read went back")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(BUILDS, (MODEL, HARM)),
    **dict.fromkeys(("read_by_old_round", "read_of_earlier_term"), (MODEL, ())),
}
MUTANTS = Mutants(BUILDS, ORACLES)
