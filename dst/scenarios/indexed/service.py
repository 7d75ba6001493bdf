"""A metadata index behind one key of the simulated store, for a scenario whose clients use a store and an index.

It is impl/index's state machine, with a log of its own. A PUT of the key proposes an entry, which is applied at the moment of
the request. So an entry has the faults of a request: it may be late, or never applied, or its answer may be lost. How nodes
agree on such a log is the subject of other scenarios.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.dst.scenarios.indexed.group import IndexClock, OwnTime
from highwater.dst.world.store import Reply
from highwater.impl.codecs.index import rows as row
from highwater.impl.index import machine as of_index
from highwater.impl.index import units
from highwater.impl.index.config import Config
from highwater.impl.index.kv import View, under
from highwater.impl.index.library import Index
from highwater.impl.index.replicated import Result
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.machine import Command, Machine
from highwater.traces.calls import content
from highwater.traces.protocols.dlq_recovery import INDEX, Shown, version_of

TERM = 1


class Service:
    """The index of one run. `shown`: ULIDs of writers' blocks that were visible once; `again`: those that came back."""

    def __init__(self, machine: Machine):
        self.machine, self.view, self.index = machine, machine.initial, 0
        self.visible: set[str] = set()
        self.shown: set[str] = set()
        self.again: set[str] = set()

    def put(self, body: bytes, now_ms: int) -> Reply:
        self.index += 1
        self.view, result = self.machine.apply(self.view, Command(self.index, TERM, body))
        visible = {ulid for unit, ulid in units.visible(self.view) if not unit.tenant}
        self.again |= visible & self.shown - self.visible
        self.visible, self.shown = visible, self.shown | visible
        told = Shown(self.index, content(body), result.answer.code, of_index.clock_ns(self.view), tuple(sorted(visible)),
                     removed(self.view))
        return Reply(200, version_of(told), b"", result)  # pyright: ignore[reportArgumentType]  # the answer of the service


def removed(view: View) -> tuple[str, ...]:
    """Return the ULIDs of writers' blocks that an index knows as removed."""
    keys = [key for bucket in (row.REMOVED, row.GONE) for key, _ in under(view, bucket)]
    return tuple(sorted(of.ulid for of in map(row.removed_of, keys) if not of.tenant))


class Proposed(NamedTuple):
    result: Result


class Node:
    """A node of the index, as its callers see it. `leads` tells at each call whether it does."""

    def __init__(self, world: Any, leads: Callable[[], bool]):
        self.world, self.leads = world, leads

    async def propose(self, body: bytes) -> Proposed:
        if not self.leads():
            raise NotLeader("1", "")
        return Proposed(await self.world.store.put(INDEX, body))


def index_of(world: Any, config: Config, start_ms: int, times: int, leads: Callable[[], bool]) -> Index:
    """Return the index as a client of a world asks it. `start_ms`, `times`: of its clock."""
    clock: Any = IndexClock(world.clock, start_ms, times)
    node: Any = Node(world, leads)
    return OwnTime(node, world._replace(clock=clock), config, cached_datasets=0)
