"""The nodes of a metadata index in one run, the objects of its blocks, and what its callers know.

Raft is judged by its own scenario, so its steps are not in the trace. The state machine's are, and what callers do to objects.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from highwater.dst.actors import Actors
from highwater.dst.scenarios.raft import TICK_MS
from highwater.dst.scenarios.replicated.group import Group
from highwater.dst.sim.kernel import Client
from highwater.dst.world.store import NEW
from highwater.impl.codecs.index import names
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import encode
from highwater.impl.errors import StoreError
from highwater.impl.index import replicated, tombstones
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, View, under
from highwater.impl.index.library import MOST_ANSWER_BYTES, Budget, Index
from highwater.impl.index.log_time import MS, Bounds
from highwater.impl.index.machine import applied, clock_ns
from highwater.impl.index.query.columns import Cache
from highwater.impl.node_world import NodeWorld, Signal
from highwater.impl.raft import core
from highwater.impl.raft.clocks import Clocks
from highwater.impl.raft.machine import Command, Machine
from highwater.impl.raft.node import Node
from highwater.impl.raft.state import Input, Output, State
from highwater.traces.event import Event
from highwater.traces.protocols.indexed.log import Told, body_of, digest_of_rows
from highwater.traces.refine import Failure

Answer = TypeVar("Answer")
MS_OF_THE_INDEX = 45_000  # that one ms of the run is by the clocks of the index: its windows of time are of hours
PATIENCE_TICKS = 20
BOUNDS = Bounds(agree_ms=20 * MS_OF_THE_INDEX, silent_ms=500 * MS_OF_THE_INDEX)
JUMPS_S = (600, 7_200, 86_400, 10 * 86_400, 60 * 86_400, 366 * 86_400)  # of a wrong clock, in either direction
CACHED = 8  # datasets whose columns a node keeps: not all of a run's
SHARD, TENANT = 1, "t"  # of everything, and of results


class Impl(NamedTuple):
    """The parts of an index that mutants replace."""

    node: type[Node] = Node
    step: core.Step = core.step
    machine: Callable[[Config], Machine] = replicated.machine
    objects_of: Callable[[Any, Any], list[str]] = tombstones.objects_of


def production(world: Any, shape: Any, number: int) -> Impl:
    return Impl()


class IndexClock:
    """A node's clock, by which its index works. `times`: how many ms of the index one ms of the run is."""

    def __init__(self, of: Any, start_ms: int, times: int = MS_OF_THE_INDEX):
        self.of, self.start_ms, self.times = of, start_ms, times

    def now_ms(self) -> int:
        return self.start_ms + self.of.now_ms() * self.times

    def monotonic_ms(self) -> int:
        return self.of.monotonic_ms() * self.times

    def shown(self, clocks: Clocks) -> Clocks:
        """Return the clocks of nodes as those of the index."""
        told = {name: one._replace(clock_ms=self.start_ms + one.clock_ms * self.times, age_ms=one.age_ms * self.times)
                for name, one in clocks.told.items()}
        return clocks._replace(own_ms=self.now_ms(), told=told, passed_ms=clocks.passed_ms * self.times)

    def sleep_ms(self, ms: int) -> Awaitable[None]:
        return self.of.sleep_ms(ms // self.times)

    def timeout(self, duration_ms: int, call: Awaitable[Answer]) -> Awaitable[Answer]:
        return self.of.timeout(duration_ms, call)  # a limit of the time that a machine works, which is that of the run


class IndexGroup(Group):
    """The nodes of one run, and a store of objects. `config` and `start_ms`: the numbers of the index, and when it begins."""

    config: Config
    start_ms: int
    last_ms: int  # when the last block may be made

    def __init__(self, actors: Actors):
        super().__init__(actors)
        self.jumps: int = getattr(actors.shape, "jumps", 0)  # that the clock of one server still makes
        self.jumping, self.wrong = self.jumps > 0, ""  # whether the run has such a clock; the server, once it has jumped
        self.objects: dict[str, Any] = {}  # path -> BlockMeta
        self.written: dict[str, list[Any]] = {server: [] for server in self.names}  # blocks, by the server of their writer
        self.results: list[str] = []  # ULIDs of results that somebody has written
        self.acknowledged: set[str] = set()  # names of data
        self.dropped: set[row.Unit] = set()  # units that somebody has asked to drop
        self.plans: list[Any] = []  # UpdatePlan commands that are proposed once more
        self.marks: dict[int, None] = {}  # indexes that some node has applied
        self.caches: dict[Node, Cache] = {}
        self.turns: dict[Node, Signal | None] = {}  # node -> its poll that is under way
        self.truncations: int = actors.shape.truncations  # that the cleaner still makes
        self.bad: set[str] = set()  # ULIDs of blocks that nobody can compact
        self.number = 0  # of blocks that were made
        self.calls = 0  # that nodes have served
        self.serving: dict[str, list[Any]] = {}  # server -> the calls of its present life

    def slack_ms(self) -> int:
        """Return how far log time may be ahead of the time of the run: as the right clocks, and a single one as far as a jump
        that nobody has to confirm."""
        return (self.actors.shape.skew_ms + 1) * MS_OF_THE_INDEX + (BOUNDS.jump_ms if len(self.names) == 1 else 0)

    def check_clock(self, view: View) -> None:
        """Check that a clock that jumps has not moved log time."""
        now_ms = self.start_ms + self.actors.kernel.now_ms * MS_OF_THE_INDEX
        if self.jumping and clock_ns(view) > (now_ms + self.slack_ms()) * MS:
            raise Failure("safety", "index:clock", f"log time is {clock_ns(view) // MS - now_ms:,} ms ahead of the time, and a "
                          f"right clock at most {self.slack_ms():,} ms")

    def note(self, name: str, op: str, body: bytes, key: str = "", keys: tuple[str, ...] = ()) -> None:
        """Write a step into the trace."""
        self.machines.observe(NEW(Event, (self.actors.kernel.now_ms, 0, name, "step", op, key, "", 0, "", body, keys,
                                          False, True, False)))

    def _record(self, server: str, before: State, given: Input, after: State, outputs: tuple[Output, ...]) -> None:
        """Leave out the steps of Raft."""

    def is_settled(self, nodes: list[Node]) -> bool:
        return all(self.is_idle(node.value) for node in nodes)

    def is_idle(self, rows: Rows) -> bool:
        """Tell whether no block waits, no job is there, and nothing is to be deleted."""
        return not any(next(iter(under(rows, bucket)), None) for bucket in (row.QUEUE, row.JOB_STATE, row.TOMBSTONES))

    def works(self) -> bool:
        """Tell whether writers have something to do."""
        return any(self.actors.left[client.name] or self.busy.get(client.name) for client in self.actors.clients
                   if not client.done)

    def _check_equal(self, nodes: list[Node]) -> None:
        first = [*nodes[0].value.range(b"", None)]
        for node in nodes:
            if [*node.value.range(b"", None)] != first:
                raise Failure("safety", "index:replicas", f"{nodes[0].state.me} and {node.state.me} have applied "
                              f"{node.applied} entries, and their rows differ")

    async def led(self, server: str, world: NodeWorld) -> None:
        """Wait until a server knows a leader, or for a while."""
        for _ in range(PATIENCE_TICKS):
            if self.open[server][0].state.leader:
                return
            await world.clock.sleep_ms(TICK_MS)

    # --- objects

    def put(self, me: Client, made: Any, tenant: str) -> None:
        self.objects[names.block_path(SHARD, tenant, made.id, made.compaction_level)] = made
        self.note(me.name, "put", encode(made))

    def delete(self, me: Client, paths: list[str], unit: bytes = b"") -> None:
        """Delete objects. `unit`: they are all that a unit has."""
        for path in paths:
            self.objects.pop(path, None)
        self.note(me.name, "delete", unit, "unit" if unit else "", tuple(paths))

    # --- calls

    def index(self, node: Node) -> "Turns":
        return Turns(self, node)

    def now_ns(self, node: Node) -> int:
        return self.index(node).now_ns()

    def served(self, node: Node, call: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
        """Let a node serve a call. It goes on if the caller crashes, and ends with the node."""
        self.calls += 1
        task = node.world.clock.spawn(call, f"call{self.calls}")
        self.serving.setdefault(node.state.me, []).append(task)
        return task

    async def end_calls(self, server: str) -> None:
        """Let the calls end that a server still serves once its node is closed."""
        for task in self.serving.pop(server, []):
            try:
                await task
            except StoreError:
                pass


class OwnTime(Index):
    """An index whose log time is the clock of its node, as a scenario of clocks that differ by the skew has it."""

    def now_ns(self) -> int:
        return self.world.clock.now_ms() * MS

    async def _stamp_ns(self) -> int:
        return self.now_ns()


class Turns(Index):
    """The index on a node, as all its callers ask it: their polls take turns."""

    def __init__(self, group: IndexGroup, node: Node):
        self.group = group
        clock: Any = IndexClock(node.world.clock, group.start_ms)
        self.node, self.world, self.config = node, node.world._replace(clock=clock), group.config
        self.cache, self.most_answer_bytes = group.caches.setdefault(node, Cache(CACHED)), MOST_ANSWER_BYTES
        self.budget, self.apart = Budget(), self._after_others
        self.clock, self.bounds, self.alarm = clock, BOUNDS, ""

    def clocks(self) -> Clocks:
        return self.clock.shown(super().clocks())

    def now_ns(self) -> int:
        return super().now_ns() if self.group.jumping else self.clock.now_ms() * MS

    async def _stamp_ns(self) -> int:
        return await super()._stamp_ns() if self.group.jumping else self.now_ns()

    @property
    def polling(self) -> Signal | None:
        return self.group.turns.get(self.node)

    @polling.setter
    def polling(self, turn: Signal | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.group.turns[self.node] = turn


def recording(group: IndexGroup, client: Client, own: Machine) -> Machine:
    """Return a machine whose calls are events of the trace."""

    def apply(view: View, command: Command) -> tuple[View, Any]:
        after, result = own.apply(view, command)
        group.check_clock(after)
        rows = [*after.range(b"", None)]
        answer = result.answer
        value = None if answer.value is None else encode(answer.value)
        told = Told(command.body, answer.code, value, {})
        is_first = command.index not in group.marks
        if is_first:
            group.marks[command.index] = None
            before, now = dict(view.range(b"", None)), dict(rows)
            changed = {key: now.get(key) for key in sorted(before.keys() | now.keys()) if now.get(key) != before.get(key)}
            told = told._replace(changed=changed)
        body = body_of(command.index, command.term, told.digest(), digest_of_rows(rows), told if is_first else None)
        group.note(client.name, "apply", body)
        return after, result

    def load(content: bytes) -> View:
        view = own.load(content)
        said = f'{{"index":{applied(view)[1]},"state":"{digest_of_rows([*view.range(b"", None)])}"}}'
        group.note(client.name, "load", said.encode())
        return view

    return Machine(own.initial, apply, own.dump, load, check=own.check)


