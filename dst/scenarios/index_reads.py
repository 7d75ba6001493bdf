"""Simulate the readers of a metadata index, while workers replace the blocks of their answers and delete the objects.

Readers run impl/index/reader.py, and the worker is that of impl/index/compaction. The index is impl/index's state machine
behind keys of the simulated store, so each entry has the faults of a request. Leaders come and go, and every second one's clock
is ahead. A leader stamps an entry when it gets it. An operator drops units. A window of a run lasts 150 ms, and a query at most
200 ms. No caller may be told that an object is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import BaseShape, Draw, Scenario, rarely
from highwater.dst.scenarios.indexed.group import IndexClock, OwnTime
from highwater.dst.scenarios.indexed.service import Proposed
from highwater.dst.scripts.indexed import reader as reads
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import Reply, SimulatedStore
from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.footer import footer, metadata_of
from highwater.impl.codecs.index.messages import BlockMeta, Dataset, QueryRequest
from highwater.impl.codecs.index.rows import U64
from highwater.impl.errors import AlreadyExists, StoreError
from highwater.impl.index import machine as of_index
from highwater.impl.index import replicated, units
from highwater.impl.index.compaction.worker import Options, Worker
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import View
from highwater.impl.index.library import Index
from highwater.impl.index.reader import Query, Reader
from highwater.impl.index.retention import command
from highwater.impl.raft.faults import NotLeader
from highwater.impl.raft.machine import Command, Machine
from highwater.impl.world import World
from highwater.traces.calls import content
from highwater.traces.event import Event
from highwater.traces.protocols.index_reads import (
    AHEAD,
    DELAY,
    INDEX,
    KEYS,
    LEAD,
    NO_LEADER,
    QUERY,
    READ,
    READ_MS,
    READERS,
    SHARD,
    START_S,
    TENANT,
    TIMES,
    UNIT_MS,
    WINDOW_MS,
    Shown,
    Trace,
    constants,
    refiner,
    stamp_ns,
    version_of,
)
from highwater.traces.protocols.index_reads_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

MS = TIMES * 1_000_000  # ns of the index in one ms of the run
UNIT_NS = UNIT_MS * MS
CONFIG = Config(horizon_ns=DELAY * UNIT_NS - S, delay_ns=DELAY * UNIT_NS, query_ns=(QUERY + AHEAD) * UNIT_NS, lease_ns=250 * MS,
                levels=(Level(1, S),), tombstones=2, retry_ns=S)
OPTIONS = Options(poll_ms=30, renew_ms=60, attempts=4)
SLOW_MS = 90  # between two objects that a reader reads, at most
BEHIND = 12  # entries by which a node lags
REQUEST = QueryRequest(tenant_id=[TENANT], start_time=1, end_time=1 << 50, query='{kind="cpu"}')


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    readers: int = READERS
    reads: int = 10
    writers: int = 1
    adds: int = 14
    workers: int = 1
    polls: int = 50
    operators: int = 1
    orders: int = 6
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"readers": READERS, "writers": 2, "workers": 1, "operators": 1}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, reads=(10, 14), writers=(1, 2), adds=(14, 10, 18), polls=(50, 70), orders=(6, 10, 3),
                       pause_ms=(60, 30, 100), skew_ms=(0, 0, 40), chaos=(20, 8))


def length(shape: Shape) -> int:
    return 5 * shape.readers * shape.reads + 2 * shape.writers * shape.adds + 3 * shape.polls + 2 * shape.orders


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants()), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return []


def asks(index: Index) -> Query:
    return index.query


class Impl(NamedTuple):
    """The parts that mutants replace."""

    machine: Callable[[Config], Machine] = replicated.machine
    reader: type[Reader] = Reader
    asks: Callable[[Index], Query] = asks


def production(world: Any, shape: Shape, number: int) -> Impl:
    return Impl()


# --- the index

class Service:
    """The log and the rows of the index of one run, and the term in which it is."""

    def __init__(self, machine: Machine):
        self.machine, self.views, self.term, self.asked = machine, [machine.initial], 0, 0
        self.number = 0  # of blocks that were made

    def serve(self, store: SimulatedStore) -> None:
        for key, put in ((INDEX, self.propose), (LEAD, self.lead), (READ, self.read)):
            store.serve(key, put)

    def lead(self, body: bytes, now_ms: int) -> Reply:
        self.term += 1
        return self.answer(f"term {self.term}", self.term)

    def read(self, body: bytes, now_ms: int) -> Reply:
        return self.answer(f"read of {len(self.views) - 1}", self.views[-1])

    def answer(self, version: str, value: Any) -> Reply:
        self.asked += 1
        return Reply(200, f"{version}, {self.asked}", b"", value)

    def propose(self, body: bytes, now_ms: int) -> Reply:
        if not self.term:
            return self.answer(f"{NO_LEADER} of {content(body)}", None)
        index, entry = len(self.views), U64.pack(stamp_ns(now_ms, self.term)) + body[U64.size:]
        view, result = self.machine.apply(self.views[-1], Command(index, self.term, entry))
        self.views.append(view)
        visible = tuple(sorted(ulid for _, ulid in units.visible(view)))
        shown = Shown(index, content(body), of_index.clock_ns(view), visible)
        return Reply(200, version_of(shown), b"", result)  # pyright: ignore[reportArgumentType]  # its answer


def service_of(actors: Actors, impl: Impl) -> Service:
    if not actors.kept:
        actors.kept.append(Service(impl.machine(CONFIG)))
        actors.kept[0].serve(actors.store)
    return actors.kept[0]


class Node:
    """A node of the index, as its callers see it."""

    def __init__(self, world: World, service: Service):
        self.world, self.service = world, service

    @property
    def value(self) -> View:
        """Return what a node has applied that lags behind."""
        return self.service.views[max(0, len(self.service.views) - 1 - BEHIND)]

    def check_running(self) -> None:
        """Let its callers ask: it runs for ever."""

    async def read(self) -> View:
        return await self.world.store.put(READ, b"")  # pyright: ignore[reportReturnType]  # the answer of the service

    async def propose(self, body: bytes) -> Proposed:
        result: Any = await self.world.store.put(INDEX, body)
        if result is None:
            raise NotLeader("1", "")
        return Proposed(result)


class Turn:
    """A signal that nobody awaits: each client has one poll at a time."""

    def set(self) -> None:
        pass


def index_on(world: World, service: Service) -> Index:
    clock: Any = IndexClock(world.clock, START_S * 1000, TIMES)
    node: Any = Node(world, service)
    seam: Any = SimpleNamespace(**world._replace(clock=clock)._asdict(), signals=SimpleNamespace(signal=Turn))
    return OwnTime(node, seam, CONFIG, cached_datasets=0)


# --- readers

async def reader(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    service = service_of(actors, impl)
    slow: Any = Slow(actors, client, world)
    of = impl.reader(world._replace(store=slow), impl.asks(index_on(world, service)), READ_MS)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        said = await said_by(CALLS, "read", actors.in_time(client, of.read(REQUEST, nothing)), blocks=str)
        actors.tell(client, said.told, b"", keys=said.keys)


class Slow:
    """A store that a reader reads slowly, because it does something with each object."""

    def __init__(self, actors: Actors, client: Client, world: World):
        self.actors, self.client, self.world = actors, client, world

    async def get(self, key: str) -> Any:
        await self.world.clock.sleep_ms(1 + self.actors.choose(self.client.sites["reads slowly"], SLOW_MS))
        return await self.world.store.get(key)


def nothing(block: Any, found: Any) -> None:
    """Take a block and its object."""


# --- writers, the worker, and the operator

def new_object(service: Service, now_ms: int) -> tuple[Any, bytes]:
    """Return a block that is made now, and its object."""
    service.number += 1
    at_ms = (START_S * 1000) + max(now_ms, 0) * TIMES
    table = ["", TENANT, "writer", "kind", "cpu", f"d{service.number}"]
    made = BlockMeta(id=ulids.made(at_ms, b"\0" * 8 + service.number.to_bytes(2)), shard=SHARD, min_time=at_ms, max_time=at_ms,
                     created_by=2, string_table=table)
    data = table[-1].encode()
    made.datasets.append(Dataset(tenant=1, name=5, min_time=at_ms, max_time=at_ms, size=len(data), table_of_contents=[0],
                                 labels=[1, 3, 4]))
    made.metadata_offset = len(data)
    body = data + footer(made)
    return metadata_of(body, len(body)), body


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    service = service_of(actors, actors.build(world, actors.shape, number))
    index = index_on(world, service)
    made: Any = None
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        if made is None or actors.choose(client.sites["new"], 4) > 0:
            made, body = new_object(service, world.clock.now_ms())
            try:
                await world.store.create(names.block_path(SHARD, "", made.id, 0), body)
            except AlreadyExists:
                pass  # an SDK has repeated the request
            except StoreError:
                made = None
                continue
        try:
            await index.add(made)
        except StoreError:
            pass  # it is added again later, or never


async def worker(actors: Actors, client: Client, world: World, number: int) -> None:
    service = service_of(actors, actors.build(world, actors.shape, number))
    of = Worker(world, index_on(world, service).poll, OPTIONS)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        await of.once()


async def operator(actors: Actors, client: Client, world: World, number: int) -> None:
    """Let another node lead, or drop a unit."""
    service = service_of(actors, actors.build(world, actors.shape, number))
    index, term = index_on(world, service), 0
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        try:
            if not term or actors.choose(client.sites["elected"], 2) == 0:
                term: Any = await world.store.put(LEAD, b"")
            else:
                rows = await index.rows()
                there = sorted({unit for unit, _ in units.visible(rows)})
                if there:
                    unit = there[actors.choose(client.sites["unit"], len(there))]
                    times = units.times(rows, unit)
                    assert times is not None
                    await index.truncate(command(term, [(unit, times)]))
        except StoreError:
            pass  # it tries something else
        await world.clock.sleep_ms(1 + actors.choose(client.sites["pause"], 4 * WINDOW_MS))


# --- the end

def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that no reader was told that an object is gone."""
    gone = [e.client for e in events if e.kind == "told" and e.op == "gone"]
    if gone:
        raise Failure("safety", "history:gone", f"{gone[0]} was told that an object of its answer is gone")


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    for e in events:
        if e.kind == "applied" and e.op == "delete":
            found.add("object deleted")
        elif e.kind == "told" and e.op == "over":
            found.add("query over")
        elif e.kind == "applied" and e.op == "list":
            found.add("unit swept")
    return found


SCENARIO = Scenario(
    stem="index_reads",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Reader": ("readers", "reads"), "Writer": ("writers", "adds"), "Worker": ("workers", "polls"),
           "Operator": ("operators", "orders")},
    most=MOST,
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(readers=1, reads=1, adds=1, polls=1, orders=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Reader": reader, "Writer": writer, "Worker": worker, "Operator": operator},
    audit=(),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("read", "over", "gone", "not read"),
    waits_ms=lambda shape: (shape.pause_ms, SLOW_MS, TIMEOUT_MS, DELAY * UNIT_MS, OPTIONS.poll_ms),
    moments=("object deleted", "query over", "unit swept"),
    moments_of=moments_of,
    rare=rarely(),
    needs=("create",),  # only what a unit's tombstone names is listed
    cost={},
    scripts=reads.SCRIPTS,
)
