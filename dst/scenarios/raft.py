"""Simulate a group of nodes of impl/raft, and callers that propose and read, under faults of disks and network. In some runs
the nodes make snapshots, and an operator hands leadership over.

traces/protocols/raft.py judges each step of each node, and dst/scenarios/replicated/properties.py all nodes at once. Callers
run on the nodes' machines, and crash with them. They ask the leader, as far as their node knows it. Once the faults have
stopped and all callers are done, every node that is left must have applied every acknowledged entry, once and in order.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from highwater.dst.actors import Actors, Said, raise_anomalies, said_by
from highwater.dst.scenario import BaseShape, Draw, Scenario, rarely
from highwater.dst.scenarios.replicated.group import Group, group_of
from highwater.dst.scripts.replicated import clocks as clock_scripts
from highwater.dst.scripts.replicated import core as core_scripts
from highwater.dst.scripts.replicated import files as file_scripts
from highwater.dst.scripts.replicated import leader as leader_scripts
from highwater.dst.scripts.replicated import levels as level_scripts
from highwater.dst.scripts.replicated import node as node_scripts
from highwater.dst.sim.kernel import Client
from highwater.dst.world.machines import ended
from highwater.dst.world.node_faults import HARDWARE
from highwater.impl.errors import StoreError, TaskCancelled
from highwater.impl.level import FORMS, Level
from highwater.impl.node_world import DiskFailed, DiskFull, NodeWorld
from highwater.impl.raft import core, wire
from highwater.impl.raft.faults import FolderRefused
from highwater.impl.raft.machine import Command, Machine
from highwater.impl.raft.messages import Append, Heartbeat, InstallSnapshot, PreVote, RequestVote, Vote
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.snapshots import TEMPORARY
from highwater.impl.raft.state import Config
from highwater.traces.event import Event
from highwater.traces.histories.serial import anomalies
from highwater.traces.nodes import asks
from highwater.traces.protocols.raft import KEYS, Trace, constants, refiner, step_of
from highwater.traces.protocols.raft_calls import CALLS
from highwater.traces.refine import Failure, refiner_of

TICK_MS, ELECTION_TICKS, HEARTBEAT_TICKS = 25, 6, 2
ELECTION_MS = TICK_MS * ELECTION_TICKS
CALL_MS = 400  # a caller waits so long
Reading = Callable[[Actors, Client, NodeWorld, Node], Awaitable[str]]  # a read at a node, which returns the kind of response
Callers = Callable[[Actors, Client, NodeWorld, int], dict[str, Coroutine[Any, Any, None]]]  # of a server, by their names
DISK_LIMIT_MS = 300
NEVER = 1 << 40
RAISED = Level(FORMS)
LIES = 1 << 24, 1 << 40, 1 << 61  # terms ahead: so many that they stay too far ahead while a message is under way


@dataclass(frozen=True)
class Shape(BaseShape):
    """The size of a run, drawn from its seed unless given."""

    most_reads: ClassVar[int] = 40  # of a reader in one life of its server
    servers: int = 3
    proposals: int = 4  # of the callers of each server
    callers: int = 1  # of each server
    readers: int = 1  # of each server
    segment_bytes: int = 600
    snapshot_entries: int = 0  # applied between two snapshots; 0: none is made
    keep_entries: int = 2  # stay in the log before a snapshot
    transfers: int = 0  # of leadership, that an operator asks for
    lies: int = 0  # messages with a term that is too far ahead, which a spoilt server sends
    raised: int = 0  # 1: the level of the group is raised at some time, from which on entries have their checksums
    hardware: str = "usual"  # name of a Hardware in dst/world/node_faults.py
    pause_ms: int = 60  # between two operations of a caller, at most


MOST = {"servers": 5, "proposals": 12, "callers": 3, "readers": 3}


def draw_shape(of: Draw) -> Shape:
    return Shape.drawn(of, servers=(3, 3, 3, 5), proposals=(3, 2, 5), callers=(1, 2), readers=(1, 0, 2),
                       segment_bytes=(600, 200, 100_000),
                       hardware=("usual", "usual", "slow network", "slow disks"), pause_ms=(60, 1, 200), chaos=(30, 60, 10),
                       snapshot_entries=(0, 3, 6), keep_entries=(2, 0), transfers=(0, 0, 3), lies=(0, 0, 6), raised=(0, 1))


def length(shape: Shape) -> int:
    return shape.servers * (60 + 30 * shape.proposals)


def trace_of(shape: Shape) -> Trace:
    return Trace(refiner_of(refiner, constants(shape.servers)), KEYS, shape.skew_ms)


def trace_options(shape: Shape) -> list[str]:
    """Return the options of `trace check`: how many servers there are says what a quorum is."""
    return [f"--shape servers={shape.servers}"] if shape.servers != Shape().servers else []


def applied(value: tuple[bytes, ...], command: Command) -> tuple[tuple[bytes, ...], None]:
    return (*value, command.body), None


MACHINE = Machine((), applied, b"\n".join, lambda data: tuple(data.split(b"\n")) if data else ())


class Impl(NamedTuple):
    """The parts of a node that mutants replace."""

    node: type[Node] = Node
    step: core.Step = core.step


def production(world: Any, shape: Shape, number: int) -> Impl:
    return Impl()


def options_of(shape: Shape) -> Options:
    config = Config(election_ticks=ELECTION_TICKS, heartbeat_ticks=HEARTBEAT_TICKS)
    return Options(config, TICK_MS, DISK_LIMIT_MS, read_retry_ms=150, snapshot_entries=shape.snapshot_entries or NEVER,
                   keep_entries=shape.keep_entries, segment_bytes=shape.segment_bytes, chunk_bytes=60, fetch_retry_ms=60)


async def server(actors: Actors, client: Client, world: NodeWorld, number: int, read: Reading | None = None,
                 options: Callable[[Any], Options] = options_of, machine: Machine = MACHINE,
                 work: Callers | None = None) -> None:
    """Open a node, serve its callers, and close it when the work of all is done. After an error of its disk the process ends.
    `read`: how a caller reads once; None: `read_in_time`. `work`: makes other callers than those who propose and read.
    """
    group, shape = group_of(actors), actors.shape
    if group.over:
        return
    impl = actors.build(world, shape, number)
    group.busy[client.name] = 0
    try:
        node = await impl.node.open(world, client.name, group.founders(client.name), machine, options(shape),
                                    group.recorded(client, impl.step))
    except (DiskFailed, DiskFull):
        await ended(group.machines, client)
        return
    except FolderRefused as error:
        raise Failure("safety", f"raft:{type(error).__name__}", f"{client.name} does not start: {error}") from None
    group.opened(client.name, node)
    if work:
        works = work(actors, client, world, number)
    else:
        works = {f"caller{n}": caller(actors, client, world, f"{number}.{n}") for n in range(shape.callers)}
        works |= {f"reader{n}": reader(actors, client, world, n, read or read_in_time) for n in range(shape.readers)}
    works |= {"operator": operator(actors, client, world)} if number == 0 and group.transfers else {}
    works |= {"liar": liar(actors, client, world)} if number == 1 and group.lies else {}
    works |= {"raiser": raiser(actors, client, world)} if number == 1 and group.raises else {}
    works |= group.tasks(client, world, number)
    callers = [world.clock.spawn(each, name) for name, each in works.items()]
    while not group.is_done():
        await world.clock.sleep_ms(TICK_MS)
        if node.stopped:
            await ended(group.machines, client)
    for task in callers:
        task.cancel()
        try:
            await task
        except TaskCancelled:
            pass
    await node.close()


async def caller(actors: Actors, client: Client, world: NodeWorld, name: str) -> None:
    """Propose entries one after another, at the leader as far as the own node knows it, or now and then at another node."""
    group = group_of(actors)
    me = Client(f"{client.name}/caller{name.partition('.')[2]}", of=client)
    group.busy[client.name] += 1
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        actors.named[me.name] += 1
        update = f"{name}.{actors.named[me.name]}"
        while True:
            actors.begin(me, update)
            actors.ask(me, "propose", update.encode())
            call = asked(actors, me, group, group.leader(client.name)).propose(update.encode())
            said = await said_by(CALLS, "propose", world.clock.timeout(CALL_MS, actors.in_time(me, call)),
                                 index=lambda done: str(done.index))
            actors.end(me, said.told, keys=said.keys)
            await actors.pause(me, world)
            if said.told != "failed":
                break
            await world.clock.sleep_ms(ELECTION_MS // 4)
    group.busy[client.name] -= 1


async def reader(actors: Actors, client: Client, world: NodeWorld, number: int, read: Reading) -> None:
    """Read while the callers of the same server propose, at the own node or now and then at another one."""
    group = group_of(actors)
    me = Client(f"{client.name}/reader{number}", of=client)
    for _ in range(actors.shape.most_reads):
        await actors.pause(me, world)
        if not group.busy[client.name]:
            return
        actors.begin(me)
        actors.ask(me, "read")
        if await read(actors, me, world, asked(actors, me, group, client.name)) != "read":
            await world.clock.sleep_ms(TICK_MS)


async def read_in_time(actors: Actors, me: Client, world: NodeWorld, node: Node) -> str:
    """Read, and return the kind of response."""
    return ended_read(actors, me, await said_by(CALLS, "read", world.clock.timeout(CALL_MS, actors.in_time(me, node.read()))))


def ended_read(actors: Actors, me: Client, said: Said) -> str:
    """Record the response to a read, and return its kind."""
    seen = tuple(body.decode() for body in said.value) if said.told == "read" else ()
    actors.end(me, said.told, body=" ".join(seen).encode(), seen=seen, keys=said.keys)
    return said.told


async def operator(actors: Actors, client: Client, world: NodeWorld) -> None:
    """Now and then ask the leader to hand over to some server."""
    group = group_of(actors)
    me = Client(f"{client.name}/operator", of=client)
    while group.transfers:
        group.transfers -= 1
        await world.clock.sleep_ms(1 + actors.choose(me.sites["pause"], 2 * ELECTION_MS))
        target = group.names[actors.choose(me.sites["target"], len(group.names))]
        call = asked(actors, me, group, group.leader(client.name)).transfer(target)
        actors.ask(me, "transfer", target.encode())
        said = await said_by(CALLS, "transfer", world.clock.timeout(CALL_MS, call))
        actors.tell(me, said.told, b"", keys=said.keys)


async def liar(actors: Actors, client: Client, world: NodeWorld) -> None:
    """Now and then send a message of a term that is too far ahead to some other server."""
    group = group_of(actors)
    me = Client(f"{client.name}/liar", of=client)
    others = [name for name in group.names if name != client.name]
    while group.lies:
        group.lies -= 1
        await world.clock.sleep_ms(1 + actors.choose(me.sites["pause"], 6 * ELECTION_MS))
        node = group.node(client.name)
        if node is None or node.stopped:
            return
        term = max(node.state.term for node, _ in group.open.values()) + LIES[actors.choose(me.sites["term"], len(LIES))]
        kinds = (Heartbeat(term, 0, 0), RequestVote(term, 1 << 30, term, True), Vote(term, True), PreVote(term, 1 << 30, term),
                 Append(term, 0, 0, (), 0), InstallSnapshot(term, 1 << 30, term))
        message = kinds[actors.choose(me.sites["kind"], len(kinds))]
        await world.net.send(others[actors.choose(me.sites["to"], len(others))], wire.encoded(message))


async def raiser(actors: Actors, client: Client, world: NodeWorld) -> None:
    """At some time ask the leader to raise the level of the group, until it is raised."""
    group = group_of(actors)
    me = Client(f"{client.name}/raiser", of=client)
    while group.raises:
        await world.clock.sleep_ms(1 + actors.choose(me.sites["pause"], 4 * ELECTION_MS))
        try:
            await world.clock.timeout(CALL_MS, asked(actors, me, group, group.leader(client.name)).raise_level(RAISED))
            group.raises = 0
        except StoreError:
            pass


def asked(actors: Actors, me: Client, group: Group, usual: str) -> Node:
    """Return the node that a caller asks: the usual one, or now and then another one that is up."""
    assert me.of is not None
    own = group.open[me.of.name][0]  # a caller crashes with its node
    which = actors.choose(me.sites["asks"], 3 * len(group.names))
    return group.node(group.names[which - 1] if 0 < which <= len(group.names) else usual) or own


def final_check(actors: Actors, events: list[Event]) -> None:
    """Check that the group agrees with its callers: every acknowledged entry is there, once, and reads saw what they must."""
    group = group_of(actors)
    raise_anomalies(anomalies(actors.history(), [body.decode() for body in group.final]))


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, terms, last, committed = set(), set(), dict[str, int](), 0
    for e in events:
        if e.kind == "step" and not asks(e):
            step = step_of(e.body)
            if step.role == "leader":
                terms.add(step.term)
            if step.save and step.save.terms and step.save.first <= last.get(e.client, 0):
                found.add("entries overwritten")
            last[e.client] = step.last
            if step.found and step.found[3]:
                found.add("restart with a log")
            if step.found and step.found[2][0]:
                found.add("restart with a snapshot")
            committed = max(committed, step.commit if step.role == "leader" else 0)
            if step.found and committed:
                found.add("restart after a commit")
            if step.save and step.save.base and step.save.base[1] < step.term:
                found.add("snapshot of an earlier term")
            if step.save and step.save.base:
                found.add("snapshot installed")
        elif e.op == "remove" and e.key == TEMPORARY:
            found.add("unfinished snapshot removed")
        elif e.kind == "died" and e.keys:
            found.add("unsynced bytes lost")
    return found | ({"several leaders"} if len(terms) > 1 else set())


SCENARIO = Scenario(
    stem="raft",
    shape=Shape,
    draw_shape=draw_shape,
    roles={"Server": ("servers", "proposals")},
    most=MOST,
    mildest=Shape(pause_ms=1, readers=0, audit=False),
    tiny=Shape(servers=3, proposals=1, readers=0, pause_ms=1, audit=False),
    length=length,
    production=production,
    work={"Server": server},
    audit=(),
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=("committed", "failed", "unknown", "read", "not read", "transferred", "not transferred"),
    waits_ms=lambda shape: (shape.pause_ms, ELECTION_MS, DISK_LIMIT_MS),
    moments=("several leaders", "restart with a log", "unsynced bytes lost", "entries overwritten", "restart with a snapshot",
             "snapshot installed", "unfinished snapshot removed", "restart after a commit", "snapshot of an earlier term"),
    moments_of=moments_of,
    nodes=("Server",),
    hardware=lambda shape: HARDWARE[shape.hardware],
    rare=rarely(),
    may_retire=lambda shape: (shape.servers - 1) // 2,
    share=2,
    cost={},
    scripts=(*core_scripts.SCRIPTS, *leader_scripts.SCRIPTS, *node_scripts.SCRIPTS, *file_scripts.SCRIPTS,
             *level_scripts.SCRIPTS, *clock_scripts.SCRIPTS),
)
