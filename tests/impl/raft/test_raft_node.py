"""The node: what callers are told, what a restart finds, and what ends a node; in virtual time, with disks in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from highwater.impl.errors import TimedOut
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import core, in_force, members, snapshots, wire
from highwater.impl.raft import node as driver
from highwater.impl.raft.entries import MEMBERS, Entry
from highwater.impl.raft.faults import (
    Damaged,
    LeadershipLost,
    NodeStopped,
    NotLeader,
    NotRunning,
    NoVoter,
    OtherNode,
    OtherVersion,
    QueueFull,
    TooLarge,
    TransferFailed,
)
from highwater.impl.raft.fetch import Chunk
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.log import open_log
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import ReadIndex
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import LEADER, Config, Save, Tick
from highwater.impl.stores.node_system import local_worlds
from tests.impl.raft.appending import APPENDING
from tests.impl.raft.crashing import CrashingDisk, broken
from tests.impl.raft.virtual import VirtualClock, run

FAST = Options(Config(), tick_ms=10, disk_limit_ms=1_000, snapshot_entries=1_000, keep_entries=2, chunk_bytes=40,
               fetch_retry_ms=50)
NAMES = ("a", "b", "c")


class Group:
    """Some nodes in one process, and their disks."""

    def __init__(self, names: tuple[str, ...], options: Options):
        self.names, self.options = names, options
        self.disks = {name: CrashingDisk() for name in names}
        self.worlds = {name: world._replace(clock=VirtualClock())
                       for name, world in local_worlds(list(self.disks.items())).items()}
        self.nodes: dict[str, Node] = {}

    async def start(self, *names: str) -> None:
        for name in names:
            while await self.worlds[name].net.receive(0) is not None:
                pass  # what was sent to it while it was down is lost
            self.nodes[name] = await Node.open(self.worlds[name], name, self.names, APPENDING, self.options)

    async def end(self, name: str, crash: int | None = None) -> None:
        await self.nodes.pop(name).close()
        if crash is not None:
            self.disks[name].crash(Random(crash))

    async def leader(self) -> Node:
        """Wait for a leader that has committed something."""
        for _ in range(2000):
            for node in self.nodes.values():
                if node.state.role == LEADER and node.state.commit and not node.stopped:
                    return node
            await asyncio.sleep(0.002)
        raise AssertionError("no leader")


@asynccontextmanager
async def group(names: tuple[str, ...] = NAMES, options: Options = FAST) -> AsyncIterator[Group]:
    made = Group(names, options)
    await made.start(*names)
    try:
        yield made
    finally:
        for name in list(made.nodes):
            await made.end(name)


async def until(condition) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")


def bodies(value) -> list[str]:
    return [body for _, body in value]


def cut_off(world: NodeWorld, *others: str) -> None:
    """Let nothing that a node sends to `others` arrive."""
    send = world.net.send

    async def partly(to: str, body: bytes) -> None:
        if to not in others:
            await send(to, body)

    world.net.send = partly


def slow_down(world: NodeWorld, delay_ms: int) -> None:
    """Let each message that a node sends leave later."""
    send = world.net.send

    async def slowly(to: str, body: bytes) -> None:
        await asyncio.sleep(delay_ms / 1e3)
        await send(to, body)

    world.net.send = slowly


# --- one node


def test_one_node_commits_alone_and_finds_it_again():
    async def work():
        async with group(("a",)) as one:
            node = await one.leader()
            assert await node.propose(b"x") == (2, 0) and await node.propose(b"y") == (3, 1)
            assert bodies(await node.read()) == ["x", "y"]
            await one.end("a", crash=1)
            await one.start("a")
            assert bodies(await (await one.leader()).read()) == ["x", "y"]

    run(work())


def test_a_closed_node_takes_nothing():
    async def work():
        async with group(("a",)) as one:
            node = await one.leader()
            await node.close()
            for call in (node.propose(b"x"), node.read(), node.transfer("b")):
                with pytest.raises(NotRunning, match="it was closed"):
                    await call

    run(work())


def test_limits_are_definite_refusals():
    async def work():
        options = FAST._replace(config=Config(max_entry_bytes=10, max_uncommitted_bytes=20))
        async with group(("a",), options) as one:
            node = await one.leader()
            with pytest.raises(TooLarge, match="an entry of 11 bytes: at most 10"):
                await node.propose(b"x" * 11)
            results = await asyncio.gather(*(node.propose(b"x" * 10) for _ in range(3)), return_exceptions=True)
            assert [type(result) for result in results] == [driver.Done, driver.Done, QueueFull]
            assert (await node.propose(b"z")).index > 3

    run(work())


@pytest.mark.parametrize("call", ("append", "sync"))
def test_a_failed_write_ends_the_node(call):
    async def work():
        async with group(("a",)) as one:
            node = await one.leader()
            await node.propose(b"x")
            one.disks["a"].fail[call] = broken()
            with pytest.raises(NodeStopped, match="the device does not answer"):
                await node.propose(b"y")
            with pytest.raises(NotRunning, match="the device does not answer"):
                await node.propose(b"z")
            await one.end("a", crash=1)
            await one.start("a")
            assert bodies(await (await one.leader()).read())[:1] == ["x"]

    run(work())


def test_a_full_disk_ends_the_node_with_one_line_and_loses_nothing():
    async def work():
        async with group(("a",)) as one:
            node, disk = await one.leader(), one.disks["a"]
            await node.propose(b"x")
            disk.room_bytes = sum(len(file.now) for file in disk.files.values()) + 10
            with pytest.raises(NodeStopped, match="there is no room for log-0000000000000001: make room"):
                await node.propose(b"y" * 20)
            await one.end("a", crash=1)
            disk.room_bytes = 1 << 30
            await one.start("a")
            assert bodies(await (await one.leader()).read()) == ["x"]

    run(work())


def test_a_late_sync_ends_the_node():
    async def work():
        async with group(("a",), FAST._replace(disk_limit_ms=20)) as one:
            node = await one.leader()

            async def late(name):
                await asyncio.sleep(60)

            one.disks["a"].sync = late
            with pytest.raises((NodeStopped, LeadershipLost)):
                await node.propose(b"y")
            await until(lambda: "took more than 20 ms" in node.stopped)
            del one.disks["a"].sync

    run(work())


# --- three nodes


def test_any_node_serves_reads_and_only_the_leader_takes_entries():
    async def work():
        async with group() as three:
            leader = await three.leader()
            for number in range(20):
                await leader.propose(b"%d" % number)
                for node in three.nodes.values():
                    assert bodies(await node.read())[-1] == str(number)
            follower = next(node for node in three.nodes.values() if node is not leader)
            with pytest.raises(NotLeader, match=f"ask '{leader.state.me}'") as caught:
                await follower.propose(b"x")
            assert caught.value.leader == leader.state.me

    run(work())


def test_leadership_is_handed_over():
    async def work():
        async with group() as three:
            leader = await three.leader()
            target = next(name for name in NAMES if name != leader.state.me)
            await leader.transfer(target)
            await until(lambda: three.nodes[target].state.role == LEADER)
            with pytest.raises(NotLeader):
                await leader.transfer(target)

    run(work())


def test_a_transfer_to_a_node_that_is_down_fails_and_the_leader_leads_on():
    async def work():
        async with group() as three:
            leader = await three.leader()
            target = next(name for name in NAMES if name != leader.state.me)
            await three.end(target)
            handing = asyncio.ensure_future(leader.transfer(target))
            await asyncio.sleep(0)
            with pytest.raises(NotLeader, match=f"ask '{target}'"):  # it takes nothing while it hands over
                await leader.propose(b"x")
            with pytest.raises(TransferFailed, match="still leads"):
                await handing
            with pytest.raises(NoVoter, match="'x' is no server of this group: name one of a, b, c"):
                await leader.transfer("x")
            await leader.propose(b"x")

    run(work())


def test_a_leader_without_followers_cannot_tell_what_became_of_an_entry():
    async def work():
        async with group() as three:
            leader = await three.leader()
            cut_off(leader.world, *NAMES)
            with pytest.raises(LeadershipLost, match="may commit"):
                await leader.propose(b"x")

    run(work())


def test_a_leader_with_a_stalled_disk_steps_down_and_another_leads():
    async def work():
        async with group(options=FAST._replace(disk_limit_ms=5_000)) as three:
            leader = await three.leader()
            name = leader.state.me
            sync, free = three.disks[name].sync, asyncio.Event()

            async def stalled(file):
                await free.wait()
                await sync(file)

            three.disks[name].sync = stalled
            waiting = asyncio.create_task(leader.propose(b"x"))
            await until(lambda: any(node.state.role == LEADER for node in three.nodes.values() if node is not leader))
            successor = next(node for node in three.nodes.values() if node.state.role == LEADER and node is not leader)
            free.set()
            (told,) = await asyncio.gather(waiting, return_exceptions=True)
            assert isinstance(told, driver.Done | LeadershipLost)
            await successor.propose(b"y")
            assert bodies(await leader.read())[-1] == "y"

    run(work())


def test_no_crash_loses_an_acknowledged_entry():
    async def work(seed):
        random, acked = Random(seed), []
        async with group(options=FAST._replace(snapshot_entries=7)) as three:
            for number in range(40):
                leader = await three.leader()
                try:
                    await leader.propose(b"%d" % number)
                    acked.append(str(number))
                except (LeadershipLost, NotLeader, NodeStopped, NotRunning):
                    pass
                if random.random() < 0.2:
                    name = random.choice(NAMES)
                    await three.end(name, crash=random.getrandbits(30))
                    await three.start(name)
            leader = await three.leader()
            found = bodies(await leader.read())
            assert [body for body in found if body in acked] == acked
            await until(lambda: all(node.state.leader == leader.state.me for node in three.nodes.values()))
            for node in three.nodes.values():
                assert bodies(await node.read()) == found

    for seed in range(3):
        run(work(seed))


# --- snapshots


def test_a_follower_that_missed_much_gets_a_snapshot_in_chunks():
    async def work():
        async with group(options=FAST._replace(snapshot_entries=5)) as three:
            leader = await three.leader()
            late = next(name for name in NAMES if name != leader.state.me)
            await three.end(late)
            for number in range(30):
                await leader.propose(b"%d" % number)
            await until(lambda: leader.state.log.base_index > 20)
            await three.start(late)
            await until(lambda: three.nodes[late].applied >= leader.state.commit)
            assert bodies(three.nodes[late].value) == [str(number) for number in range(30)]
            await until(lambda: three.nodes[late].snapshot.index > 20)
            await three.end(late, crash=3)
            await three.start(late)
            await until(lambda: three.nodes[late].state.leader)
            assert bodies(await three.nodes[late].read()) == [str(number) for number in range(30)]

    run(work())


def test_snapshots_bound_the_folder():
    async def work():
        options = FAST._replace(snapshot_entries=5, segment_bytes=200)
        async with group(("a",), options) as one:
            node = await one.leader()
            for number in range(60):
                await node.propose(b"%d" % number)
            await until(lambda: len(one.disks["a"].files) <= 5)
            await one.end("a", crash=5)
            await one.start("a")
            assert len(await (await one.leader()).read()) == 60

    run(work())


def test_a_snapshot_that_cannot_be_read_back_is_never_taken_for_one():
    async def work():
        async with group(("a",), FAST._replace(snapshot_entries=5)) as one:
            node, disk = await one.leader(), one.disks["a"]
            append = disk.append

            async def sink(name, body):
                await append(name, body[:-3] + b"???" if name == snapshots.TEMPORARY else body)

            disk.append = sink
            with pytest.raises((NodeStopped, NotRunning), match="does not give back what was written"):
                for number in range(20):
                    await node.propose(b"%d" % number)
            assert node.state.log.base_index == 0
            before = node.applied
            del disk.append
            await one.end("a", crash=2)
            await one.start("a")
            assert len(await (await one.leader()).read()) >= before - 2

    run(work())


def test_a_cut_snapshot_is_refused_once_the_log_was_cut():
    async def work():
        async with group(("a",), FAST._replace(snapshot_entries=5, segment_bytes=200)) as one:
            node, disk = await one.leader(), one.disks["a"]
            for number in range(20):
                await node.propose(b"%d" % number)
            await until(lambda: "log-0000000000000001" not in disk.files)
            await one.end("a", crash=1)
            name = max(name for name in disk.files if snapshots.is_snapshot(name))
            disk.files[name].now = disk.files[name].now[:-1]
            before = {name: file.now for name, file in disk.files.items()}
            with pytest.raises(Damaged, match=f"{name}: byte 0: the checksum of the snapshot's .* raft rejoin"):
                await one.start("a")
            assert {name: file.now for name, file in disk.files.items()} == before

    run(work())


def test_an_unfinished_snapshot_is_removed_with_a_warning():
    async def work():
        async with group(("a",)) as one:
            await (await one.leader()).propose(b"x")
            await one.end("a", crash=1)
            disk = one.disks["a"]
            name = snapshots.name_of(9, 1)
            for made in (name, snapshots.TEMPORARY):
                await disk.create(made)
            await one.start("a")
            assert sorted(disk.files) == ["log-0000000000000001"]
            assert bodies(await (await one.leader()).read()) == ["x"]

    run(work())


def test_a_folder_of_another_group_is_refused():
    async def work():
        disk = CrashingDisk()
        await snapshots.store(disk, snapshots.Snapshot(5, 1, ("a", "z"), b"[]"))
        with pytest.raises(OtherNode, match="its group is a, z, and this node was given a"):
            await Node.open(local_worlds([("a", disk)])["a"], "a", ("a",), APPENDING, FAST)

    run(work())


@asynccontextmanager
async def one_behind() -> AsyncIterator[tuple[Group, Node, str]]:
    """Give a group whose leader has cut its log, and the name of a node that is down and lacks what was cut."""
    async with group(options=FAST._replace(snapshot_entries=5)) as three:
        leader = await three.leader()
        late = next(name for name in NAMES if name != leader.state.me)
        await three.end(late)
        for number in range(30):
            await leader.propose(b"%d" % number)
        await until(lambda: leader.state.log.base_index > 20)
        yield three, leader, late


@pytest.mark.parametrize("lost", ("some chunks", "the snapshot", "all chunks for a while"))
def test_a_fetch_goes_on_or_begins_again(lost):
    async def work():
        async with one_behind() as (three, leader, late):
            send, chunks = leader.world.net.send, 0

            async def partly(to: str, body: bytes) -> None:
                nonlocal chunks
                message = wire.decoded(body)
                if isinstance(message, Chunk):
                    chunks += 1
                    if (lost == "some chunks" and chunks % 3 == 0) or (lost == "all chunks for a while" and chunks < 20):
                        return
                    if chunks == 2 and lost == "the snapshot":
                        body = wire.encoded(message._replace(size_bytes=0, body=b""))
                await send(to, body)

            leader.world.net.send = partly
            await three.start(late)
            await until(lambda: three.nodes[late].applied >= leader.state.commit)
            assert bodies(three.nodes[late].value) == [str(number) for number in range(30)] and chunks > 3

    run(work())


# --- reads and rare ends


def test_a_read_whose_answer_is_lost_is_asked_for_again():
    async def work():
        async with group() as three:
            leader = await three.leader()
            await leader.propose(b"x")
            follower = next(node for node in three.nodes.values() if node is not leader)
            await until(lambda: follower.state.leader)
            send, lost = follower.world.net.send, 0

            async def partly(to: str, body: bytes) -> None:
                nonlocal lost
                if isinstance(wire.decoded(body), ReadIndex) and not lost:
                    lost += 1
                else:
                    await send(to, body)

            follower.world.net.send = partly
            assert bodies(await follower.read()) == ["x"] and lost == 1
            assert follower.world.metrics.snapshot()["raft_reads_retried"] == 1 and not follower.asked and not follower.readers

    run(work())


def test_an_answer_to_a_read_that_was_given_up_is_dropped():
    async def work():
        async with group() as three:
            leader = await three.leader()
            for node in three.nodes.values():
                if node is not leader:
                    slow_down(node.world, 20)
            with pytest.raises(TimedOut):
                await leader.world.clock.timeout(10, leader.read())
            await asyncio.sleep(0.1)
            assert not leader.asked and not leader.readers and not leader.stopped

    run(work())


def test_a_read_without_a_known_leader_is_refused():
    async def work():
        async with group() as three:
            leader = await three.leader()
            for name in NAMES:
                if name != leader.state.me:
                    await three.end(name)
            with pytest.raises(NotLeader, match="no leader is known"):
                while True:
                    await leader.read()

    run(work())


def test_a_contradiction_ends_the_node():
    async def work():
        def contradicts(state, given):
            if isinstance(given, Tick) and state.role == LEADER:
                raise Contradiction("entry 1 is committed, and another leader has another one")
            return core.step(state, given)

        world = Group(("a",), FAST).worlds["a"]
        node = await Node.open(world, "a", ("a",), APPENDING, FAST, contradicts)
        await until(lambda: node.stopped)
        with pytest.raises(NotRunning, match="another leader has another one"):
            await node.propose(b"x")
        await node.close()

    run(work())


def test_an_entry_of_a_later_version_in_the_log_is_refused():
    async def work():
        one = Group(("a",), FAST)
        log, _ = await open_log(one.disks["a"], "a", (0, 0))
        await log.write([Save(1, 1, "a", 1, (Entry(1, 9, b""),))])
        with pytest.raises(OtherVersion, match="entry 1 is of kind 9, and this highwater, which knows levels up to 2.1, "):
            await one.start("a")

    run(work())


def test_a_damaged_log_is_refused_when_a_node_opens():
    async def work():
        async with group(("a",)) as one:
            node = await one.leader()
            for body in (b"x", b"y"):
                await node.propose(body)
            await one.end("a")
            file = one.disks["a"].files["log-0000000000000001"]
            file.now = file.now[:60] + b"?" + file.now[61:]
            with pytest.raises(Damaged, match="no record can be read here"):
                await one.start("a")

    run(work())


# --- messages


def test_bytes_that_are_no_message_are_dropped():
    async def work():
        async with group() as three:
            leader = await three.leader()
            other = next(name for name in NAMES if name != leader.state.me)
            for body in (b"", b"\1", b"\1\5", b"\1\5abc", wire.encoded(driver.FetchChunk(1, 1, 0)) + b"x"):
                await three.worlds[other].net.send(leader.state.me, body)
            await leader.propose(b"x")
            await until(lambda: leader.world.metrics.snapshot().get("raft_malformed_messages") == 5)

    run(work())


def test_a_node_whose_disk_fails_stops_before_its_other_tasks_have_ended():
    async def work():
        async with group(("a",)) as one:
            node, net = await one.leader(), one.worlds["a"].net
            receive = net.receive

            async def slow_to_end(limit_ms):
                try:
                    return await receive(limit_ms)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.3)
                    raise

            net.receive = slow_to_end
            await asyncio.sleep(0.5)
            one.disks["a"].fail["append"] = broken()
            first = asyncio.ensure_future(node.propose(b"x"))
            await asyncio.sleep(0.1)
            with pytest.raises(NotRunning, match="the device does not answer"):
                await node.propose(b"y")
            with pytest.raises(NodeStopped, match="the device does not answer"):
                await first

    run(work())


@pytest.mark.parametrize("began", [(), ("a",)])
def test_a_snapshot_before_all_changes_names_the_voters_to_a_node_that_knows_a_later_change(began):
    """Found by seed 31,392 of raft_membership: such a node took nobody for the voters. Its change was never committed."""
    async def work():
        world = local_worlds([("a", CrashingDisk())])["a"]._replace(clock=VirtualClock())
        node = await Node.open(world, "a", began, APPENDING, FAST)
        node.state = in_force.changed(node.state, 1, (Entry(1, MEMBERS, members.encoded(Members(("a", "b")))),))
        assert node.state.voters == ("a", "b")
        found = node._members_of(Snapshot(6, 2, ("a",), b"[]"))
        assert in_force.begun_anew(node.state, 6, found).voters == ("a",)
        await node.close()

    run(work())
