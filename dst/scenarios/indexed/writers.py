"""Writers, readers and the cleaner of a metadata index in simulation. They run on the nodes' machines, and crash with them.

A writer writes the object of its block and adds the block. It adds the block again after any error, and now and then a long
time after it was acknowledged. Readers ask any node. The cleaner drops units, and asks the leader.
"""

from typing import Any

from highwater.dst.actors import Actors, said_by
from highwater.dst.scenarios.indexed.group import JUMPS_S, MS_OF_THE_INDEX, SHARD, TENANT, IndexGroup
from highwater.dst.scenarios.raft import CALL_MS, ELECTION_MS, TICK_MS, asked
from highwater.dst.sim.kernel import Client
from highwater.dst.world.network import offset_ms
from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.messages import (
    BlockMeta,
    Dataset,
    LabelsRequest,
    QueryRequest,
    TenantResponse,
    TenantsResponse,
    Truncate,
)
from highwater.impl.codecs.index.rows import Unit
from highwater.impl.errors import StoreError
from highwater.impl.index import units
from highwater.impl.index.machine import clock_ns
from highwater.impl.level import Level
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft.node import CLOCKED, Node
from highwater.impl.raft.state import LEADER
from highwater.traces.protocols.indexed.answers import unit_text
from highwater.traces.protocols.metadata_fsm_calls import CALLS

QUESTIONS = ("get", "get", "query", "query", "query_labels", "tenants", "tenant")
TIMES_MS = 1000, 2000  # of all data
LATER_MS = 500  # a block that was acknowledged is added again after at most so long
CLOCK_MS = 1_200  # between two times at which the clock of a node is set, at most
JUMP_MS = 200  # before a clock jumps, at most
WRONG_MS = 600  # a clock that has jumped is wrong for so long, at most
CLEANER_MS = 300  # between two commands of the cleaner, at most
AHEAD_MS = (0, 0, 0, 500, 1_500, -180)  # of a writer's clock


def block(ulid: str, level: int, tenant: str, data: tuple[str, ...]) -> Any:
    """Return the metadata of a block with these data, each a dataset."""
    table = ["", *dict.fromkeys(filter(None, (tenant, "writer", "kind", "cpu", *data)))]
    made = BlockMeta(id=ulid, tenant=table.index(tenant), shard=SHARD, compaction_level=level, min_time=TIMES_MS[0],
                     max_time=TIMES_MS[1], created_by=table.index("writer"), string_table=table)
    for name in data:
        made.datasets.append(Dataset(tenant=table.index(tenant), name=table.index(name), min_time=TIMES_MS[0],
                                     max_time=TIMES_MS[1], labels=[1, table.index("kind"), table.index("cpu")]))
    return made


def new_block(actors: Actors, me: Client, world: NodeWorld, group: IndexGroup) -> Any:
    """Make a block by the clock of its writer."""
    group.number += 1
    now_ms = actors.kernel.now_ms if group.jumping else world.clock.now_ms()
    at_ms = now_ms + AHEAD_MS[actors.choose(me.sites["ahead"], len(AHEAD_MS))]
    ulid = ulids.made(min(group.start_ms + at_ms * MS_OF_THE_INDEX, group.last_ms), b"\0" * 8 + group.number.to_bytes(2))
    if group.number <= actors.shape.bad:
        group.bad.add(ulid)
    return block(ulid, 0, "", (f"d{group.number}",))


async def writer(actors: Actors, client: Client, world: NodeWorld, number: int, group: IndexGroup) -> None:
    me = Client(f"{client.name}/writer{number}", of=client)
    group.busy[client.name] += 1
    written = group.written[client.name]
    while actors.left[client.name]:
        actors.left[client.name] -= 1
        await group.led(client.name, world)
        if written and actors.choose(me.sites["again"], 3) == 0:
            made = written[actors.choose(me.sites["which"], len(written))]
        else:
            made = new_block(actors, me, world, group)
            await world.clock.sleep_ms(1 + actors.choose(me.sites["put"], 5))
            group.put(me, made, "")
            written.append(made)
            if actors.choose(me.sites["forgets"], 8) == 0:
                continue  # it is added later, or never
        await add(actors, me, world, group, made)
        await actors.pause(me, world)
    for _ in range(actors.shape.retries if written else 0):
        await world.clock.sleep_ms(1 + actors.choose(me.sites["later"], LATER_MS))
        await add(actors, me, world, group, written[actors.choose(me.sites["which"], len(written))])
    group.busy[client.name] -= 1


async def add(actors: Actors, me: Client, world: NodeWorld, group: IndexGroup, made: Any) -> None:
    """Add a block until there is an answer, or the writer gives up."""
    while True:
        assert me.of is not None
        node = asked(actors, me, group, group.open[me.of.name][0].state.leader)
        actors.ask(me, "add", made.id.encode())
        said = await said_by(CALLS, "add", world.clock.timeout(CALL_MS, actors.in_time(me, group.index(node).add(made))))
        actors.tell(me, said.told, made.id.encode(), keys=said.keys)
        if said.told == "added":
            group.acknowledged.add(made.string_table[made.datasets[0].name])
        if said.told in ("added", "refused") or actors.choose(me.sites["gives up"], 8) == 0:
            return
        await world.clock.sleep_ms(ELECTION_MS // 4)


async def reader(actors: Actors, client: Client, world: NodeWorld, number: int, group: IndexGroup) -> None:
    """Read writers' blocks, or results, at any node, while there is something to do."""
    me = Client(f"{client.name}/reader{number}", of=client)
    for _ in range(actors.shape.reads):
        await actors.pause(me, world)
        await group.led(client.name, world)
        if not group.works():
            return
        of_results = actors.choose(me.sites["results"], 2)
        several = group.results if of_results else [made.id for made in group.written[client.name]]
        node, wanted = asked(actors, me, group, client.name), sorted({*several})
        how = QUESTIONS[actors.choose(me.sites["how"], len(QUESTIONS))] if of_results else "get"
        actors.ask(me, how, " ".join(wanted).encode())
        call = question(group.index(node), how, TENANT if of_results else "", wanted)
        said = await said_by(CALLS, how, world.clock.timeout(CALL_MS, actors.in_time(me, call)), any=has_any)
        found = ulids_in(said.value, wanted) if said.told == "read" else []
        actors.tell(me, said.told, " ".join(found).encode(), keys=said.keys)


def question(index: Any, how: str, tenant: str, ulids: list[str]) -> Any:
    """Ask an index for blocks by their ULIDs, or for all of a tenant, or for what is known of the tenant."""
    if how == "get":
        return index.get(tenant, SHARD, ulids)
    if how in ("query", "query_labels"):
        kind = QueryRequest if how == "query" else LabelsRequest
        asked = kind(tenant_id=[tenant], start_time=TIMES_MS[0], end_time=TIMES_MS[1], query='{kind="cpu"}', labels=["kind"])
        return getattr(index, how)(asked)
    return index.tenants() if how == "tenants" else index.tenant(tenant)


def ulids_in(answer: Any, wanted: list[str]) -> list[str]:
    """Return the ULIDs of an answer, in order, that are among those that the reader knew."""
    blocks = answer if isinstance(answer, list) else answer.blocks
    return [one.id for one in blocks if one.id in wanted]


def has_any(answer: Any) -> str:
    """Return 1 if an answer says that the tenant of results has data, and 0 if not."""
    if isinstance(answer, TenantsResponse):
        return str(int(TENANT in answer.tenant_ids))
    return str(int(answer.stats.data_ingested if isinstance(answer, TenantResponse) else len(answer.labels) > 0))


async def clock(actors: Actors, client: Client, world: NodeWorld, group: IndexGroup) -> None:
    """Set the clock of a node anew now and then, within the skew, while there is something to do."""
    while group.works():
        await world.clock.sleep_ms(1 + actors.choose(client.sites["clock is right"], CLOCK_MS))
        client.clock_offset_ms = offset_ms(actors.choose, client.sites["clock"], actors.shape.skew_ms)


async def raising(world: NodeWorld, node: Node) -> None:
    """Raise the level of the group, so that replies tell the clocks of followers."""
    while node.level.forms < CLOCKED:
        await world.clock.sleep_ms(TICK_MS)
        if node.state.role == LEADER:
            try:
                await world.clock.timeout(CALL_MS, node.raise_level(Level(forms=CLOCKED)))
            except StoreError:
                pass  # it may be raised all the same


async def jumping(actors: Actors, client: Client, world: NodeWorld, group: IndexGroup) -> None:
    """Set the clock of one node wrong now and then, and right again, once the clocks of the others count. It is mostly the node
    that leads at first."""
    if group.wrong == client.name:
        client.clock_offset_ms = 0
    while group.jumps and group.works() and group.wrong in ("", client.name):
        await world.clock.sleep_ms(1 + actors.choose(client.sites["before a jump"], JUMP_MS))
        nodes = [node for node, _ in group.open.values()]
        if not all(node.level.forms >= CLOCKED and clock_ns(node.value) for node in nodes) or group.wrong not in (
                "", client.name):
            continue
        if not group.wrong and group.open[client.name][0].state.role != LEADER and actors.choose(client.sites["any"], 4):
            continue
        group.jumps, group.wrong = group.jumps - 1, client.name
        way = (1, -1)[actors.choose(client.sites["jumps back"], 2)]
        size_s = JUMPS_S[actors.choose(client.sites["jump"], len(JUMPS_S))]
        client.clock_offset_ms = way * size_s * 1000 // MS_OF_THE_INDEX
        await world.clock.sleep_ms(1 + actors.choose(client.sites["clock is wrong"], WRONG_MS))
        client.clock_offset_ms = 0


async def cleaner(actors: Actors, client: Client, world: NodeWorld, group: IndexGroup) -> None:
    """Now and then drop a unit, as the leader shows it."""
    me = Client(f"{client.name}/cleaner", of=client)
    while group.truncations:
        group.truncations -= 1
        await world.clock.sleep_ms(1 + actors.choose(me.sites["pause"], CLEANER_MS))
        node = asked(actors, me, group, group.open[client.name][0].state.leader)
        try:
            term, view = node.state.term, await world.clock.timeout(CALL_MS, node.read())
            there = sorted({unit for unit, _ in units.visible(view)})
            if not there:
                continue
            of_results = [unit for unit in there if unit.tenant]
            if of_results and actors.choose(me.sites["of results"], 3):
                there = of_results
            unit = there[actors.choose(me.sites["unit"], len(there))]
            command = truncation(term, unit, units.times(view, unit))
            if actors.choose(me.sites["late"], 3) == 0:
                await world.clock.sleep_ms(1 + actors.choose(me.sites["later"], 2 * ELECTION_MS))
                node = asked(actors, me, group, group.open[client.name][0].state.leader)
        except StoreError:
            continue
        group.dropped.add(unit)
        call = group.served(node, group.index(node).truncate(command))
        dropped = unit_text(command.tombstones[0])
        actors.ask(me, "truncate", dropped.encode())
        said = await said_by(CALLS, "truncate", world.clock.timeout(CALL_MS, call), unit=lambda _, of=dropped: of)
        actors.tell(me, said.told, b"", keys=said.keys)


def truncation(term: int, unit: Unit, times: Any) -> Any:
    """Return the command that drops a unit as it was read in a term."""
    command = Truncate(term=term)
    told = command.tombstones.add().shard
    told.name = names.unit_tombstone_name(unit.partition, unit.tenant, unit.shard)
    told.timestamp, told.duration = unit.partition.start_ns, unit.partition.length_s * 1_000_000_000
    told.shard, told.tenant, told.unit_version = unit.shard, unit.tenant, times.version
    return command
