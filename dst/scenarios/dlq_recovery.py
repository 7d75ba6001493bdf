"""Simulate the dead letters of a metadata index: a writer, two nodes that both sweep, and a compactor.

impl/index/letters is what writers and sweepers run, over the simulated store. The index is impl/index's state machine behind
the same network. The letters of a writer's first blocks may be damaged, and a node may find that it does not lead. One ms of a
run is 1 s of the index. Once the faults have stopped, one sweep must settle every letter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenario import STORES, BaseShape, Draw, Scenario, rarely
from highwater.dst.scenarios.indexed.service import Service, index_of
from highwater.dst.scenarios.indexed.writers import block
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import TIMEOUT_MS
from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.messages import SUCCESS, CompactedBlocks, GetPlan, StatusUpdate, TombstoneKey, UpdatePlan
from highwater.impl.errors import StoreError
from highwater.impl.index import jobs, replicated, tombstones
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.letters.sweeper import Options, Sweeper
from highwater.impl.index.letters.writer import Options as WriterOptions
from highwater.impl.index.letters.writer import Writer
from highwater.impl.raft.machine import Machine
from highwater.impl.world import Object, World
from highwater.traces.event import Event
from highwater.traces.protocols.dlq_recovery import (
    ASIDE,
    AT_ONCE,
    HORIZON_NS,
    INDEX,
    KEYS,
    QUEUE,
    REJECTED,
    SWEEPERS,
    Trace,
    constants,
    refiner,
)
from highwater.traces.protocols.dlq_recovery_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

START_MS = 1_750_400_000_000
MS_OF_THE_INDEX = 1_000  # that one ms of the run is by the clocks of the index
SHARD, TENANT = 1, "t"
CONFIG = Config(horizon_ns=HORIZON_NS, delay_ns=HORIZON_NS + S, lease_ns=60 * S, levels=(Level(1, S),), tombstones=1,
                retry_ns=HORIZON_NS, query_ns=HORIZON_NS)
BACK_MS = (0, 0, 0, 200, 280, 400)  # how long before its addition a block is made
BLOCKS = 4
AUDIT_MS = 50  # before a sweep of the audit


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    writers: int = 1
    adds: int = 3
    bad: int = 0  # the first blocks, whose letters are damaged
    sweepers: int = 2
    sweeps: int = 4
    at_once: int = 2  # letters that a sweeper handles beside each other
    compactors: int = 1
    polls: int = 6
    retry_ms: int = 0  # for which a writer adds its block again
    page_size: int = 1000
    pause_ms: int = 60  # between two operations of a client, at most


MOST = {"writers": 1, "adds": BLOCKS, "bad": 2, "sweepers": SWEEPERS, "at_once": AT_ONCE, "compactors": 1}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, adds=(2, 3, BLOCKS), bad=(0, 0, 1, 2), sweepers=(2, 1), sweeps=(4, 6), at_once=(2, 1),
                       polls=(6, 10), retry_ms=(0, 0, 100), pause_ms=(60, 20, 150), skew_ms=(0, 0, 40), chaos=(30, 10),
                       page_size=(1000, 1), store=("s3", "s3", *STORES))


def length(shape: Shape) -> int:
    return 4 * shape.adds + shape.sweepers * shape.sweeps * 2 + 2 * shape.polls


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(BLOCKS, shape.bad)), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    return [f"--shape bad={shape.bad}"] if shape.bad else []


class Impl(NamedTuple):
    """The parts that mutants replace."""

    writer: type[Writer] = Writer
    sweeper: type[Sweeper] = Sweeper
    machine: Callable[[Config], Machine] = replicated.machine


def production(world: Any, shape: Shape, number: int) -> Impl:
    return Impl()


class Run:
    """The things that the clients of one run have in common."""

    def __init__(self, service: Service):
        self.service = service
        self.number = 0  # of blocks that were made
        self.kept: dict[str, str] = {}  # ULID -> how its writer was told that it is kept


def run_of(actors: Actors, impl: Impl) -> Run:
    if not actors.kept:
        actors.kept.append(Run(Service(impl.machine(CONFIG))))
        actors.store.serve(INDEX, actors.kept[0].service.put)
    return actors.kept[0]


class Damaging:
    """A store in which the letters of a writer are damaged, without its knowledge."""

    def __init__(self, store: Any):
        self.store = store

    async def create(self, key: str, body: bytes) -> str:
        return await self.store.create(key, body + b"\xff")

    async def get(self, key: str) -> Object:
        found = await self.store.get(key)
        return found._replace(body=found.body[:-1])


def new_block(actors: Actors, client: Client, world: World, run: Run) -> Any:
    run.number += 1
    ago_ms = BACK_MS[actors.choose(client.sites["back"], len(BACK_MS))]
    at_ms = START_MS + (world.clock.now_ms() - ago_ms) * MS_OF_THE_INDEX
    return block(ulids.made(at_ms, b"\0" * 8 + run.number.to_bytes(2)), 0, "", (f"d{run.number}",))


async def writer(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    run, shape = run_of(actors, impl), actors.shape
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        made = new_block(actors, client, world, run)
        while True:
            away = actors.choose(client.sites["no leader"], 3) == 0  # as long as this call lasts
            index = index_of(world, CONFIG, START_MS, MS_OF_THE_INDEX, lambda: not away)  # noqa: B023
            own = world._replace(store=Damaging(world.store)) if run.number <= shape.bad else world
            of = impl.writer(own, index.add, WriterOptions(shape.retry_ms, 20, 3))
            said = await said_by(CALLS, "add", actors.in_time(client, of.add(made)), how=str)
            actors.tell(client, said.told, made.id.encode(), keys=said.keys)
            if said.told == "stored":
                run.kept[made.id] = said.value
            await actors.pause(client, world)
            if said.told in ("stored", "refused") or actors.choose(client.sites["gives up"], 3) == 0:
                break


async def sweeper(actors: Actors, client: Client, world: World, number: int) -> None:
    impl = actors.build(world, actors.shape, number)
    run_of(actors, impl)

    def leads() -> bool:
        return actors.auditing or actors.choose(client.sites["leads"], 8) > 0

    add = index_of(world, CONFIG, START_MS, MS_OF_THE_INDEX, leads).add
    of = impl.sweeper(world, add, lambda: True, Options(at_once=actors.shape.at_once))
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await (world.clock.sleep_ms(AUDIT_MS) if actors.auditing else actors.pause(client, world))
        said = await said_by(CALLS, "sweep", actors.in_time(client, of.sweep()))
        actors.tell(client, said.told, b"", keys=said.keys)


async def compactor(actors: Actors, client: Client, world: World, number: int) -> None:
    """Compact each block that waits, and confirm that its object is deleted when that is due."""
    run = run_of(actors, actors.build(world, actors.shape, number))
    index = index_of(world, CONFIG, START_MS, MS_OF_THE_INDEX, lambda: True)
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await actors.pause(client, world)
        try:
            await poll(index, run, {})
        except StoreError:
            pass  # of the store: nobody reports it


async def poll(index: Any, run: Run, results: dict[str, Any]) -> None:
    view = run.service.view
    due = [one for one in tombstones.all_of(view) if tombstones.is_due(one, index.now_ns(), CONFIG)]
    told = [StatusUpdate(name=state.name, token=state.token, status=SUCCESS) for state in jobs.states(view) if state.token]
    asked = GetPlan(status_updates=told, assign_jobs_max=1,
                    deleted=[TombstoneKey(index=one.index, name=one.name) for one in due])
    planned = await index._proposed(asked)
    plan = planned.answer.value
    if not plan.ByteSize():
        return
    for part in plan.completed_jobs:
        if (job := jobs.plan(run.service.view, part.state.name)) is None:
            return  # an earlier plan has come late, and has ended it
        sources = job.source_blocks
        made = block(names.compacted_id(list(sources), 1, TENANT), 1, TENANT, tuple(sources))
        part.compacted_blocks.CopyFrom(CompactedBlocks(source_blocks={"blocks": sources}, new_blocks=[made]))
    await index._proposed(UpdatePlan(term=planned.term, plan_update=plan))


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that what is kept is or was in the index, or has a letter; that no block came back, and that the queue is empty."""
    run, keys = actors.kept[0], actors.store.keys
    if run.service.again:
        raise Failure("safety", "history:again", f"{', '.join(sorted(run.service.again))} was removed, and came back")
    there = {key.split("/")[3] for key in keys if key.startswith((QUEUE, REJECTED, ASIDE))} | run.service.shown
    if lost := sorted(run.kept.keys() - there):
        raise Failure("safety", "history:lost", f"{', '.join(lost)} was kept; neither the index had it, "
                      "nor has it a letter")
    if actors.auditing and (left := [key for key in keys if key.startswith(QUEUE)]):
        raise Failure("liveness", "liveness:letters", f"after the last sweep {', '.join(left)} is still there")


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found: set[str] = set()
    for e in events:
        if e.kind != "applied":
            continue
        if e.op == "create" and e.status == 200:
            found.add("rejected" if e.key.startswith(REJECTED) else "kept aside" if e.key.startswith(ASIDE) else
                      "letter" if e.awaited else "late letter")
        elif e.op == "get" and e.status == 404 and e.client.startswith("Sweeper"):
            found.add("two had one letter")
    return found


SCENARIO = Scenario(
    stem="dlq_recovery",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Writer": ("writers", "adds"), "Sweeper": ("sweepers", "sweeps"), "Compactor": ("compactors", "polls")},
    most=MOST,
    optional=("Compactor",),
    mildest=Shape(pause_ms=1, audit=False),
    tiny=Shape(adds=1, sweeps=1, polls=0, compactors=0, at_once=1, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Writer": writer, "Sweeper": sweeper, "Compactor": compactor},
    audit=(("Sweeper#0",), ("Sweeper#0",)),  # a store may take few changes of one key
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("stored", "refused", "invalid", "failed", "unknown", "swept", "not swept"),
    waits_ms=lambda shape: (shape.pause_ms, TIMEOUT_MS, CONFIG.horizon_ns // 1_000_000 // MS_OF_THE_INDEX),
    moments=("letter", "late letter", "rejected", "kept aside", "two had one letter"),
    moments_of=moments_of,
    rare=rarely(),
    needs=("create", "list"),
    cost={},
)
