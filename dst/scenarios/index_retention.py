"""Simulate the retention of a metadata index: two nodes whose cleaners run by turns, writers, and a worker.

The cleaners are those of impl/index/retention.py, and the index is impl/index's state machine, behind keys of the simulated
store. So each entry has the faults of a request. A node begins a term at any time, also between a cleaner's read and its
command. Writers add blocks again long after, the worker reports results late, and deletes what the tombstones of units name.
The windows of a run last 150 ms each. Once the faults have stopped, every visible block must have its object.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import BaseShape, Draw, Scenario, rarely
from highwater.dst.scenarios.indexed.group import JUMPS_S, IndexClock, OwnTime
from highwater.dst.scenarios.indexed.service import Proposed
from highwater.dst.scenarios.indexed.writers import block
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import Reply, SimulatedStore
from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import (
    SUCCESS,
    CompactedBlocks,
    GetPlan,
    StatusUpdate,
    TombstoneKey,
    UpdatePlan,
    encode,
)
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.codecs.index.rows import U64
from highwater.impl.errors import AlreadyExists, StoreError
from highwater.impl.index import jobs, replicated, tombstones, units
from highwater.impl.index import machine as of_index
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import View, under
from highwater.impl.index.library import Index
from highwater.impl.index.log_time import MS
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.retention import Cleaner, Policy, is_over
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.machine import Command, Machine
from highwater.impl.world import World, list_all
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.protocols.index_retention import (
    ANY,
    CLEANERS,
    DATA,
    HORIZON,
    INDEX,
    KEYS,
    LEAD,
    NO_LEADER,
    READ,
    START_S,
    TENANTS,
    WINDOWS,
    Shown,
    Trace,
    constants,
    refiner,
    version_of,
    window_of,
)
from highwater.traces.protocols.index_retention_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

WINDOW_MS = 150  # of the run
TIMES = WINDOW_S * 1000 // WINDOW_MS
SHARD = 1
CONFIG = Config(horizon_ns=HORIZON * WINDOW_S * S, delay_ns=HORIZON * WINDOW_S * S + S, lease_ns=100 * WINDOW_S * S,
                levels=(Level(1, S),), tombstones=1, retry_ns=S)


SAME = 2  # Shape.last


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    cleaners: int = CLEANERS
    rounds: int = 8
    writers: int = 2
    adds: int = 7
    workers: int = 1
    polls: int = 14
    period: int = 1  # of the first tenant, in windows; 0: for ever
    periods: int = 1  # of the others
    last: int = SAME  # the window of the last datum: SAME: its block's; one less: the one before; one more: the next
    jumps: bool = False  # the clocks of the nodes that cleaners and workers ask jump, one at a time, by seconds to a year
    pause_ms: int = 100  # between two operations of a client, at most


MOST = {"cleaners": CLEANERS, "writers": 2, "workers": 1, "last": 2 * SAME}


def ahead_in(shape: Shape) -> int:
    """Return by how many windows the last datum is later than its block; negative if it is earlier."""
    return shape.last - SAME


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, rounds=(8, 12), writers=(2, 1), adds=(7, 5, 9), polls=(14, 20), period=(1, 2, 1, 0),
                       periods=(1, 1, 2, 0, 2), last=(SAME, SAME + 2, SAME - 2, SAME - 2), pause_ms=(100, 60, 150),
                       chaos=(20, 8), jumps=(False, False, True))


def length(shape: Shape) -> int:
    return 3 * shape.cleaners * shape.rounds + 2 * shape.writers * shape.adds + 3 * shape.polls


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.period, shape.periods, ahead_in(shape))), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    usual = Shape()
    return [f"--shape {name}={getattr(shape, name)}" for name in ("period", "periods", "last")
            if getattr(shape, name) != getattr(usual, name)]


class Impl(NamedTuple):
    """The parts that mutants replace."""

    cleaner: type[Cleaner] = Cleaner
    machine: Callable[[Config], Machine] = replicated.machine
    objects_of: Callable[[Any, Any], list[str]] = tombstones.objects_of


def production(world: Any, shape: Shape, number: int) -> Impl:
    return Impl()


# --- the index

class Service:
    """The log and the rows of the index of one run, and the term in which it is."""

    def __init__(self, machine: Machine, ahead: int, policy: Policy, jumps: bool = False):
        self.machine, self.view, self.index, self.term, self.asked = machine, machine.initial, 0, 0, 0
        self.policy, self.jumps, self.stamped_ms = policy, jumps, 0  # `stamped_ms`: when the last entry came
        self.numbers: dict[str, int] = {}  # ULID -> the number of a block
        # numbers of data that nobody has written. If the last datum is not of its window, its units have no other
        self.free = [number for number in range(DATA) if not ahead or number % WINDOWS < WINDOWS - 1 or number == DATA - 1]
        self.written: list[Any] = []  # blocks of writers

    def serve(self, store: SimulatedStore) -> None:
        for key, put in ((INDEX, self.propose), (LEAD, self.lead), (READ, self.read)):
            store.serve(key, put)

    def lead(self, body: bytes, now_ms: int) -> Reply:
        self.term += 1
        return self.answer(f"term {self.term}", self.term)

    def read(self, body: bytes, now_ms: int) -> Reply:
        return self.answer(f"read of {self.index} in {self.term}", self.view)

    def answer(self, version: str, value: Any) -> Reply:
        self.asked += 1
        return Reply(200, f"{version}, {self.asked}", b"", value)

    def propose(self, body: bytes, now_ms: int) -> Reply:
        (term,) = U64.unpack_from(body)
        if not self.term or term not in (ANY, self.term):
            return self.answer(f"{NO_LEADER} of {content(body)}", None)
        self.index += 1
        before, self.stamped_ms = self.view, now_ms
        self.view, result = self.machine.apply(self.view, Command(self.index, self.term, body[U64.size:]))
        if self.jumps:
            self.check_clock(before, (START_S * 1000 + (now_ms + 1) * TIMES) * MS)
        return Reply(200, version_of(self.shown(body)), b"", result)  # pyright: ignore[reportArgumentType]  # its answer

    def check_clock(self, before: View, now_ns: int) -> None:
        """Check that no clock that jumps has moved log time, or has dropped a unit early."""
        if of_index.clock_ns(self.view) > now_ns:
            ahead_ns = of_index.clock_ns(self.view) - now_ns
            raise Failure("safety", "index:clock", f"log time is {ahead_ns:,} ns ahead of the time")
        for key, _ in under(self.view, row.DROPPED):
            unit, _ = row.unit_of(key[1:])
            times = units.times(before, unit)
            if before.get(key) is None and times is not None and not is_over(self.policy, unit, times, now_ns):
                raise Failure("safety", "index:early", f"{unit} is dropped before its period has passed")

    def shown(self, body: bytes) -> Shown:
        visible = [self.numbers[ulid] for _, ulid in units.visible(self.view)]
        keys = [key for bucket in (row.REMOVED, row.GONE) for key, _ in under(self.view, bucket)]
        removed = {self.numbers[row.removed_of(key).ulid] for key in keys}
        dropped = [named(row.unit_of(key[1:])[0]) for key, _ in under(self.view, row.DROPPED)]
        there = sorted((*named(unit), times.version) for unit, times in all_units(self.view))
        return Shown(self.index, content(body), self.term, of_index.clock_ns(self.view), tuple(sorted(visible)),
                     tuple(sorted(b for b in removed if b < DATA)), tuple(there), tuple(sorted(dropped)))


def named(unit: Any) -> tuple[int, int]:
    """Return the model's name of a unit."""
    return window_of(unit.partition.start_ns), int(unit.tenant.removeprefix("t") or 0)


def service_of(actors: Actors, impl: Impl) -> Service:
    if not actors.kept:
        shape = actors.shape
        policy = Policy(shape.periods * WINDOW_S, {"t1": shape.period * WINDOW_S})
        actors.kept.append(Service(impl.machine(CONFIG), ahead_in(shape), policy, shape.jumps))
        actors.kept[0].serve(actors.store)
    return actors.kept[0]


class Node:
    """A node of the index, as its own cleaner and others see it. `term`: that it leads, as far as it knows; ANY: whoever does.
    `before`: runs between a call and its entry."""

    def __init__(self, world: World, term: int = ANY, before: Callable[["Node"], Any] | None = None):
        self.world, self.state, self.before = world, SimpleNamespace(term=term), before

    async def lead(self) -> None:
        self.state.term = await self.world.store.put(LEAD, b"")

    async def read(self) -> View:
        return await self.world.store.put(READ, b"")  # pyright: ignore[reportReturnType]  # the answer of the service

    async def settled(self) -> None:
        """Return at once: what it knows is what the service has."""

    async def propose(self, body: bytes) -> Proposed:
        if self.before:
            await self.before(self)
        result: Any = await self.world.store.put(INDEX, U64.pack(self.state.term) + body)
        if result is None:
            raise NotLeader("1", "")
        return Proposed(result)


class OfThree(Index):
    """The index on the leader of three nodes. The clocks of the others are right."""

    def __init__(self, node: Any, world: Any, service: Service):
        super().__init__(node, world, CONFIG, cached_datasets=0)
        self.clock, self.service = world.clock, service

    def clocks(self) -> Clocks:
        now_ms = self.node.world.clock.monotonic_ms()
        return self.clock.shown(Clocks("1", ("1", "2", "3"), 0, dict.fromkeys(("2", "3"), Told(now_ms, 0)),
                                       now_ms - self.service.stamped_ms))

    def now_ns(self) -> int:
        self.node.value = self.service.view
        return super().now_ns()


def index_on(node: Any, service: Service) -> Index:
    clock: Any = IndexClock(node.world.clock, START_S * 1000, TIMES)
    world = node.world._replace(clock=clock)
    return OfThree(node, world, service) if service.jumps else OwnTime(node, world, CONFIG, cached_datasets=0)


def jump(actors: Actors, client: Client) -> None:
    """Set the clock of a node wrong now and then, and right again."""
    if actors.shape.jumps:
        size_s = JUMPS_S[actors.choose(client.sites["jump"], len(JUMPS_S))]
        way = (0, 1, 1, -1)[actors.choose(client.sites["jumps"], 4)]
        client.clock_offset_ms = way * size_s * 1000 // TIMES


# --- cleaners

async def cleaner(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    service = service_of(actors, impl)

    async def before(node: Node) -> None:
        if actors.choose(client.sites["stalls"], 4) == 0:
            await world.clock.sleep_ms(1 + actors.choose(client.sites["stall"], 2 * WINDOW_MS))
        if actors.choose(client.sites["leads again"], 6) == 0:
            await node.lead()

    node = Node(world, before=before)
    of = impl.cleaner(index_on(node, service), lambda: True, service.policy)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        jump(actors, client)
        try:
            if not node.state.term or actors.choose(client.sites["elected"], 4) == 0:
                await node.lead()
        except StoreError:
            continue
        said = await said_by(CALLS, "clean", actors.in_time(client, of.clean()), units=str)
        actors.tell(client, said.told, b"", keys=said.keys)


# --- writers and the worker

def made_block(number: int, ulid: str, level: int, ahead: int) -> Any:
    """Return the block of a datum. Its data end with its window, but those of the last datum."""
    made = block(ulid, level, f"t{number % TENANTS + 1}" if level else "", (f"d{number}",))
    window = number % WINDOWS + 1 + (ahead if number == DATA - 1 else 0)
    made.min_time = made.max_time = made.datasets[0].min_time = made.datasets[0].max_time = (
        START_S + window * WINDOW_S) * 1000
    return made


def new_block(actors: Actors, client: Client, world: World, service: Service) -> Any:
    """Return the block of a new datum, of a window that has begun; None if there is none any more."""
    now = max(world.clock.now_ms(), 0) // WINDOW_MS
    free = [number for number in service.free if number % WINDOWS <= now]
    if not free:
        return None
    number = free[-1 - actors.choose(client.sites["datum"], len(free))]
    service.free.remove(number)
    at_ms = (START_S + (number % WINDOWS + 1) * WINDOW_S) * 1000 - 60_000 * (DATA - number)
    made = made_block(number, ulids.made(at_ms, b"\0" * 8 + number.to_bytes(2)), 0, ahead_in(actors.shape))
    service.numbers[made.id] = number
    service.written.append(made)
    return made


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    service = service_of(actors, actors.build(world, actors.shape, number))
    index = index_on(Node(world), service)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        made = new_block(actors, client, world, service) if actors.choose(client.sites["new"], 2) == 0 else None
        if made is None:
            if not service.written:
                continue
            made = service.written[actors.choose(client.sites["again"], len(service.written))]
        if not await stored(world, made, ""):
            continue
        try:
            await index.add(made)
        except StoreError:
            pass  # it is added again later, or never


async def stored(world: World, made: Any, tenant: str) -> bool:
    """Write the object of a block. Return whether it is there."""
    try:
        await world.store.create(names.block_path(SHARD, tenant, made.id, made.compaction_level), encode(made))
    except AlreadyExists:
        return True
    except StoreError:
        return False
    return True


async def worker(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    service = service_of(actors, impl)
    index = index_on(Node(world), service)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        jump(actors, client)
        try:
            await polled(actors, client, world, service, index, impl)
        except StoreError:
            pass  # it polls again


async def polled(actors: Actors, client: Client, world: World, service: Service, index: Any, impl: Impl) -> None:
    """Poll for a job, report the results of those that are ready, and delete what tombstones of units name."""
    view = service.view
    due = [one for one in tombstones.all_of(view) if tombstones.is_due(one, index.now_ns(), CONFIG)
           and one.message.HasField("shard")]
    for one in due:
        prefix = names.block_path(SHARD, one.message.shard.tenant, "", 1 if one.message.shard.tenant else 0).partition("//")[0]
        listed = [(entry.key.split("/")[3], entry.key) for entry in await list_all(world.store, KEYS.listed[
            bool(one.message.shard.tenant)]) if entry.key.startswith(f"{prefix}/")]
        for key in impl.objects_of(one.message, listed):
            await world.store.delete(key)
    told, results = [], {}
    for state in jobs.states(view):
        plan = jobs.plan(view, state.name)
        if state.token and plan is not None and actors.choose(client.sites["is slow"], 3) > 0:
            results[state.name] = made = result_of(actors, service, plan)
            is_there = await stored(world, made, f"t{service.numbers[made.id] % TENANTS + 1}")
            if is_there and actors.choose(client.sites["is late"], 3) > 0:
                told.append(StatusUpdate(name=state.name, token=state.token, status=SUCCESS))
    keys = [TombstoneKey(index=one.index, name=one.name) for one in due]
    planned = await index._proposed(GetPlan(status_updates=told, assign_jobs_max=1, deleted=keys))
    update = planned.answer.value
    if not update.ByteSize():
        return
    for part in update.completed_jobs:
        made, plan = results[part.state.name], jobs.plan(view, part.state.name)
        assert plan is not None
        part.compacted_blocks.CopyFrom(CompactedBlocks(source_blocks={"blocks": plan.source_blocks}, new_blocks=[made]))
    await index._proposed(UpdatePlan(term=planned.term, plan_update=update))


def result_of(actors: Actors, service: Service, plan: Any) -> Any:
    """Return the result of a job, which compacts one writer's block."""
    (source,) = plan.source_blocks
    number = service.numbers[source]
    ulid = names.compacted_id([source], 1, f"t{number % TENANTS + 1}")
    service.numbers[ulid] = number + DATA
    return made_block(number, ulid, 1, ahead_in(actors.shape))


# --- the end

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that every visible block has its object, if that was ever written."""
    service, keys = actors.kept[0], {*actors.store.keys}
    written = {e.key for e in events if e.kind == "applied" and e.op == "create" and e.status == 200}
    for unit, ulid in units.visible(service.view):
        key = names.block_path(SHARD, unit.tenant, ulid, int(unit.tenant != ""))
        if key in written - keys:
            raise Failure("safety", "history:dangling", f"{key} is visible, and its object is gone")


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    for e in events:
        if e.kind == "applied" and e.op == "delete":
            found.add("object deleted")
        elif e.kind == "applied" and e.key == INDEX and e.version.startswith(NO_LEADER):
            found.add("entry of a deposed leader")
        elif e.kind == "told" and e.keys[1] == "PollAgain":
            found.add("command of an earlier term")
    return found


SCENARIO = Scenario(
    stem="index_retention",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Cleaner": ("cleaners", "rounds"), "Writer": ("writers", "adds"), "Worker": ("workers", "polls")},
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(cleaners=1, rounds=1, writers=1, adds=1, polls=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Cleaner": cleaner, "Writer": writer, "Worker": worker},
    audit=(),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("cleaned", "not cleaned"),
    waits_ms=lambda shape: (shape.pause_ms, TIMEOUT_MS, 2 * WINDOW_MS),
    moments=("object deleted", "entry of a deposed leader", "command of an earlier term"),
    moments_of=moments_of,
    rare=rarely(),
    needs=("create",),  # only the end of a run lists
    cost={},
)
