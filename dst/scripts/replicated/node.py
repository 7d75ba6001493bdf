"""Scripts of one node of impl/raft, which is a group of its own: what its callers are told, and what it finds again."""

from typing import Any

from highwater.dst.script import Alone, Script, check, fails_with, forever, same
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.servers import ABC, after, got, leader, logged, server
from highwater.impl.codecs.crc32c import crc32c
from highwater.impl.level import Level
from highwater.impl.node_world import DiskFailed, DiskFull, Message, NodeWorld
from highwater.impl.raft import core, members, records, segments, snapshots, terms, wire
from highwater.impl.raft.entries import COMMAND, MEMBERS, NOOP, Entry, Log, last_index
from highwater.impl.raft.faults import (
    CommandRefused,
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
from highwater.impl.raft.fetch import Chunk, FetchChunk, Fetched, chunk_of
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.guard import GuardedDisk
from highwater.impl.raft.log import open_log
from highwater.impl.raft.machine import CannotApply, Command, Machine
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Heartbeat,
    InstallSnapshot,
    PreVoteReply,
    ReadIndex,
    ReadIndexReply,
    RequestVote,
    TimeoutNow,
    Vote,
)
from highwater.impl.raft.node import Done, Node, Options, seed_of
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import (
    FOLLOWER,
    LEADER,
    Campaign,
    Config,
    Installed,
    Progress,
    Propose,
    Read,
    ReadReady,
    Received,
    Restart,
    Save,
    State,
    StepDown,
    Synced,
    Tick,
    Transfer,
    TransferTo,
)
from highwater.impl.raft.waiters import Bell, Waiter

MACHINE = Machine((), lambda value, command: ((*value, command.body), len(value)), b"\n".join,
                  lambda data: tuple(data.split(b"\n")) if data else ())
OPTIONS = Options(Config(election_ticks=2), snapshot_entries=3, keep_entries=1)
SETTLED_TICKS = 10
TIMEOUTS = ([12, 14, 18], [7161166666904929013, 5280959628897358176, 9578493626487942959])  # drawn one after the other


class Happening:
    """A Signal of a script."""

    def __init__(self) -> None:
        self.happened = False

    def set(self) -> None:
        self.happened = True

    async def wait(self) -> None:
        if not self.happened:
            await forever()


class Happenings:
    def signal(self) -> Happening:
        return Happening()


class Posted:
    """A Net that keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.known: dict[str, Level] = {}  # peer -> the highest level that it has said it knows
        self.ended: list[str] = []  # senders whose connections were ended

    async def send(self, to: str, body: bytes) -> None:
        self.sent.append((to, wire.decoded(body)))

    async def receive(self, timeout_ms: int) -> None:
        return None

    def known_of(self, peer: str) -> Level | None:
        return self.known.get(peer)

    def end_from(self, sender: str) -> None:
        self.ended.append(sender)


def world_of(alone: Alone, disk: ScriptDisk) -> NodeWorld:
    return NodeWorld(disk, Posted(), alone, Happenings(), alone, alone)  # pyright: ignore[reportArgumentType]


async def opened(alone: Alone, disk: ScriptDisk, voters: tuple[str, ...] = ("a",), options: Options = OPTIONS,
                 machine: Machine = MACHINE) -> Node:
    """Return a node that has taken its first step. Its tasks are not begun: the script does what they would do."""
    node = Node(world_of(alone, disk), "a", voters, machine, options, core.step)
    recovered = await node._recover()
    node.stopped = ""
    await node._give(Restart(recovered.term, recovered.vote, recovered.log, node.snapshot.index, 7))
    return node


async def write(node: Node) -> None:
    """Do what the task does that writes the log, and the one that makes snapshots."""
    while node.saves:
        saves, node.saves = node.saves, []
        assert node.log is not None
        await node.log.write(saves)
        await node._give(Synced(saves[-1].number))
    if node._snapshot_is_due():
        await node._make_snapshot()
        assert node.log is not None
        await node.log.compact(node.state.log.base_index)


async def leading(alone: Alone, disk: ScriptDisk, options: Options = OPTIONS, machine: Machine = MACHINE) -> Node:
    """Return a node that leads its group of one, and has committed its first entry."""
    node = await opened(alone, disk, options=options, machine=machine)
    for _ in range(SETTLED_TICKS):
        await node._give(Tick())
        await write(node)
    same((node.state.role, node.applied), (LEADER, node.state.commit))
    return node


async def leading_three(alone: Alone) -> Node:
    """Return a node that leads a group of three in term 1, by the vote of b. Its first entry is on its own disk alone."""
    node = await opened(alone, ScriptDisk(), ABC)
    await node._give(Campaign())
    for answer in (PreVoteReply(1, True), Vote(1, True)):
        await node._give(Received("b", answer))
        await write(node)
    same((node.state.role, last_index(node.state.log)), (LEADER, 1))
    return node


async def proposed(node: Node, body: bytes) -> Done:
    """Propose an entry, write it, and return the answer."""
    waiter = Waiter(node.world.signals)
    node._step(Propose((body,)), waiter)
    await write(node)
    return await waiter.wait()


# --- a life

async def life(alone: Alone) -> None:
    """Entries are applied once and in order, also after restarts, with and without a snapshot."""
    disk = ScriptDisk()
    node = await leading(alone, disk)
    same(await proposed(node, b"x"), Done(2, 0))
    same(await node.read(), (b"x",))
    same(await proposed(node, b"y"), Done(3, 1))
    same(sorted(name for name in disk.files if snapshots.is_snapshot(name)), [snapshots.name_of(3, 1)])
    same(node.state.snapshot, (3, 1))
    same(node.state.log.base_index, 2)
    for term in (2, 3):
        node = await leading(alone, disk)
        same((node.state.term, await node.read()), (term, (b"x", b"y")))
        same(node.log and node.log.disk, node.disk)
    same(await proposed(node, b"z"), Done(6, 2))
    same(alone.warnings, [])


async def newer_snapshot_goes_first(alone: Alone) -> None:
    """The newer one of two snapshots is loaded, and the older one goes."""
    disk = ScriptDisk()
    node = await leading(alone, disk)
    for body in (b"1", b"2", b"3", b"4", b"5"):
        await proposed(node, body)
    same([name for name in disk.files if snapshots.is_snapshot(name)], [snapshots.name_of(6, 1)])
    same((await leading(alone, disk)).value, (b"1", b"2", b"3", b"4", b"5"))


async def unfinished_snapshots_go(alone: Alone) -> None:
    """A file that never became a snapshot is removed with a warning; if the log was cut after it, the folder is refused."""
    disk = ScriptDisk()
    node = await leading(alone, disk, OPTIONS._replace(snapshot_entries=100))
    for body in (b"1", b"2", b"3"):
        await proposed(node, body)
    for name, content in ((snapshots.TEMPORARY, b"?"), (snapshots.name_of(9, 1), b"?")):
        await disk.create(name)
        await disk.append(name, content)
    renamed = snapshots.name_of(8, 1)
    await disk.create(renamed)
    await disk.append(renamed, snapshots.encoded(Snapshot(2, 1, ("a",), b"1")))
    _, bad = await snapshots.load(disk)
    same([(name, damage.file, damage.offset) for name, damage in bad], [(snapshots.name_of(9, 1), snapshots.name_of(9, 1), 0),
                                                                        (renamed, renamed, 0)])
    node = await opened(alone, disk)
    same([name for name in disk.files if "snapshot" in name], [])
    same(len(alone.warnings), 2)
    check("is removed, and nothing is lost" in alone.warnings[0], "an unfinished snapshot is told")


async def cut_snapshots_are_refused(alone: Alone) -> None:
    """A snapshot that is cut is refused once the log was cut after it, and nothing is changed."""
    disk = ScriptDisk()
    node = await leading(alone, disk, OPTIONS._replace(segment_bytes=1, keep_entries=0))
    for body in (b"1", b"2", b"3"):
        await proposed(node, body)
    name = snapshots.name_of(3, 1)
    disk.files[name].now = disk.files[name].now[:-1]
    names = sorted(disk.files)
    error = await alone.raises(Damaged, opened(alone, disk), file=name, offset=0)
    check("raft rejoin" in str(error), "the way out is named")
    same(sorted(disk.files), names)


async def damaged_logs_are_refused(alone: Alone) -> None:
    """A node whose log is damaged does not open, and nothing is changed."""
    disk = ScriptDisk()
    await proposed(await leading(alone, disk, OPTIONS._replace(segment_bytes=1)), b"1")
    name = min(name for name in disk.files if name.startswith("log-"))
    disk.files[name].now = disk.files[name].now[:-1]
    files = {name: file.now for name, file in disk.files.items()}
    error = await alone.raises(Damaged, opened(alone, disk), file=name)
    check("a later segment follows" in str(error), "it is told what is wrong")
    same({name: file.now for name, file in disk.files.items()}, files)


async def other_groups(alone: Alone) -> None:
    """A folder of another group is refused."""
    disk = ScriptDisk()
    await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    await snapshots.store(disk, Snapshot(3, 1, ("a", "z"), b"x"))
    await alone.raises(OtherNode, opened(alone, disk))


async def snapshots_are_read_back(alone: Alone) -> None:
    """A snapshot that the disk gives back as it was is taken, and no other."""
    disk = ScriptDisk()
    await snapshots.store(disk, Snapshot(3, 1, ("a",), b"x"))

    async def other(name: str) -> bytes:
        return b"?"

    disk.read = other  # pyright: ignore[reportAttributeAccessIssue]
    await alone.raises(DiskFailed, snapshots.store(disk, Snapshot(4, 1, ("a",), b"x")))


# --- what callers are told

async def closed_nodes(alone: Alone) -> None:
    """A node that is not open, or was closed, takes nothing, and ends who waits."""
    fresh = Node(world_of(alone, ScriptDisk()), "a", ("a",), MACHINE, OPTIONS, core.step)
    for call in (fresh.propose(b"x"), fresh.read(), fresh.transfer("a")):
        check("it is not open" in str(await alone.raises(NotRunning, call)), "the reason is told")
    node = await leading(alone, ScriptDisk())
    waiters = [Waiter(node.world.signals) for _ in range(4)]
    node.proposals[99], node.asked["r"], node.transfers = waiters[0], waiters[1], [waiters[3]]
    node.readers.append((99, waiters[2]))
    await node.close()
    for waiter in waiters:
        await alone.raises(NodeStopped, waiter.wait())
    same((alone.warnings, node.stopped, node.keeper), ([], "it was closed", None))
    for call in (node.propose(b"x"), node.read(), node.transfer("a")):
        await alone.raises(NotRunning, call)


async def refusals(alone: Alone) -> None:
    """Refused calls say why, and whom to ask."""
    node = await leading(alone, ScriptDisk(), OPTIONS._replace(config=Config(election_ticks=2, max_entry_bytes=4)))
    check("an entry of 5 bytes: at most 4" in str(await alone.raises(TooLarge, node.propose(b"12345"))), "the limit is told")
    await alone.raises(NoVoter, node.transfer("z"))
    same(node.transfers, [])
    follower = await opened(alone, ScriptDisk(), ABC)
    for call in (follower.propose(b"x"), follower.read(), follower.transfer("b")):
        check("no leader is known" in str(await alone.raises(NotLeader, call, leader="")), "nobody is named")
    same((follower.transfers, follower.asked, follower.readers), ([], {}, []))
    await follower._give(Received("b", Heartbeat(1, 0, 0)))
    for call in (follower.propose(b"x"), follower.transfer("b")):
        check("ask 'b'" in str(await alone.raises(NotLeader, call, leader="b")), "the leader is named")
    check("no leader is known" in str(NotLeader("a", "a")), "nobody is sent to himself")
    error = Damaged("log-1", 7, "it is cut")
    same((error.file, error.offset, error.what), ("log-1", 7, "it is cut"))
    check(str(error).startswith("log-1: byte 7: it is cut; "), "file, offset and damage are told")


def fragile(state: tuple, command: Command) -> tuple[tuple, int]:
    if command.body == b"bad":
        raise ZeroDivisionError("it is a bug")
    return (*state, command.body), len(state)


async def commands_that_the_machine_refuses(alone: Alone) -> None:
    """A command that the machine refuses, or fails to apply when it is tried, is not proposed. The leader goes on."""
    seen = list[tuple]()

    def taken(state: tuple, command: Command) -> str | None:
        seen.append((state, command))
        return "it is long" if len(command.body) > 3 else None

    tried = MACHINE._replace(apply=fragile)
    for machine, body, why in (
            (tried, b"bad", "the machine cannot apply the command: ZeroDivisionError: it is a bug"),
            (tried._replace(check=taken), b"long", "it is long"),
            (tried._replace(check=lambda state, command: fragile(state, command) and None), b"bad",
             "the machine cannot apply the command: ZeroDivisionError: it is a bug")):
        node = await leading(alone, ScriptDisk(), machine=machine)
        same(await proposed(node, b"x"), Done(2, 0))
        same(str(await alone.raises(CommandRefused, node.propose(body))), why)
        same((node.value, last_index(node.state.log), node.stopped), ((b"x",), 2, ""))
    same(seen, [((b"x",), Command(3, 1, b"long", 1))])
    node = await opened(alone, ScriptDisk(), ABC, machine=tried)
    await alone.raises(NotLeader, node.propose(b"bad"))


async def entries_that_the_machine_cannot_apply(alone: Alone) -> None:
    """Such an entry stops the node in each of its lives, and is never skipped. The message names it."""
    disk = ScriptDisk()
    machine = MACHINE._replace(apply=fragile, check=lambda state, command: None)
    node = await leading(alone, disk, machine=machine)
    raised = await alone.raises(NodeStopped, proposed(node, b"bad"))
    cause, stopped = raised.__cause__, str(raised)
    same(isinstance(cause, CannotApply) and cause.index, 2)
    check(stopped.startswith("entry 2 of term 1, a command of 3 bytes: the machine cannot apply it: ZeroDivisionError: it is a "
                             "bug; `highwater raft check FOLDER --machine "), stopped)
    same((node.stopped, node.applied, node.value), (stopped, 1, ()))
    await alone.raises(NotRunning, node.read())
    same(str(await alone.raises(NodeStopped, leading(alone, disk, machine=machine))), stopped)
    same((await leading(alone, disk)).value, (b"bad",))


async def states_that_the_machine_cannot_dump_or_load(alone: Alone) -> None:
    """A snapshot that cannot be made or loaded stops the node, and the message names it."""
    disk = ScriptDisk()
    node = await leading(alone, disk, machine=MACHINE._replace(dump=lambda state: b"%d" % (1 // 0)))
    await proposed(node, b"x")
    stopped = str(await alone.raises(NodeStopped, proposed(node, b"y")))
    check(stopped.startswith("the machine cannot dump its state after entry 3: ZeroDivisionError: "), stopped)
    same((node.stopped, [name for name in disk.files if snapshots.is_snapshot(name)]), (stopped, []))
    await leading(alone, disk)
    unread = opened(alone, disk, machine=MACHINE._replace(load=lambda content: 1 // 0))
    stopped = str(await alone.raises(NodeStopped, unread))
    check(stopped.startswith("the machine cannot load the snapshot up to entry 4: ZeroDivisionError: "), stopped)


async def leaders_that_step_down(alone: Alone) -> None:
    """Callers whose entry the node took as a leader hear that it leads no more."""
    node = await leading(alone, ScriptDisk())
    waiter, transfers = Waiter(node.world.signals), Waiter(node.world.signals)
    node.proposals[99], node.transfers = waiter, [transfers]
    node._do(StepDown(1))
    await alone.raises(LeadershipLost, waiter.wait())
    same(node.proposals, {})
    node._end_transfers()
    await alone.raises(TransferFailed, transfers.wait())
    node.transfers = [Waiter(node.world.signals)]
    ended = node.transfers[0]
    node.state = node.state._replace(role=FOLLOWER)
    node._end_transfers()
    same((await ended.wait(), node.transfers), (None, []))


async def transfers_that_are_asked_for(alone: Alone) -> None:
    """A caller who hands leadership over is told once the node leads no more, and not when the target is asked to stand."""
    node = await leading_three(alone)
    call = node.transfer("b")
    call.send(None)  # it waits until the node leads no more
    await node._give(Received("b", Appended(1, 1)))
    net, (waiter,) = node.world.net, node.transfers
    assert isinstance(net, Posted)
    check(("b", TimeoutNow(1)) in net.sent and not waiter.ended, "the target is asked, and the caller waits")
    await node._give(Received("b", RequestVote(2, 1, 1, True)))
    same((node.state.role, await waiter.wait(), node.transfers), (FOLLOWER, None, []))
    call.close()


async def entries_that_were_replaced(alone: Alone) -> None:
    """A caller is not told that an entry is committed if another one stands in its place, also if one message brings both the
    entry and its commit."""
    node = await leading_three(alone)
    waiters_ = [Waiter(node.world.signals) for _ in range(2)]
    for waiter in waiters_:
        node._step(Propose((b"mine",)), waiter)
    await node._give(Received("c", Append(2, 0, 0, logged(2, 2, 2).entries, 2)))
    same((node.value, node.proposals), ((b"x", b"x"), {}))
    for waiter in waiters_:
        await alone.raises(LeadershipLost, waiter.wait())


# --- rules

async def contradictions(alone: Alone) -> None:
    """Two leaders of a term, and an entry in the place of a committed one, are never followed."""
    fails_with(Contradiction, lambda: after(leader(), got("b", Heartbeat(5, 0, 0))))
    for config in (Config(election_ticks=1), Config(heartbeat_ticks=0), Config(max_inflight=0), Config(max_append_bytes=0)):
        fails_with(ValueError, lambda config=config: core.server("a", ABC, config))


async def wrong_beginnings(alone: Alone) -> None:
    """A server that is none of the voters does not begin, and neither does one whose log does not go on from its snapshot."""
    for voters in (("b",), ("a", "a")):
        fails_with(ValueError, lambda voters=voters: core.server("a", voters))
    fails_with(ValueError, lambda: server(log=logged(5, base=(4, 4)), commit=2))
    for append in (Append(5, 1, 1, logged(5).entries, 0), Append(5, 2, 5, (), 0)):
        fails_with(Contradiction, lambda append=append: after(server(term=5, log=logged(1, 1), commit=2), got("b", append)))
    fails_with(Contradiction, lambda: after(leader(log=logged(1, 1)), Installed(2, 4)))
    log, _ = await open_log(ScriptDisk(), "a", (0, 0))  # pyright: ignore[reportArgumentType]
    await log.write([Save(1, 1, "", 1, logged(1, 1).entries)])
    await alone.raises(ValueError, log.write([Save(2, 1, "", 2, ())]))


async def contradictions_end_the_node(alone: Alone) -> None:
    """A node whose committed entry would change stops, and says so to who waits. Who is no member stops none."""
    led = await leading(alone, ScriptDisk())
    same((await led._give(Received("x", Heartbeat(led.state.term, 0, 0))), led.state.role, led.stopped), ((), LEADER, ""))
    node = await opened(alone, ScriptDisk(), ABC)
    await node._give(Received("b", Append(1, 0, 0, logged(1).entries, 1)))
    await write(node)
    while node.state.leader:  # without one it takes messages also of those whom it does not know
        await node._give(Tick())
    await node._give(Received("x", Append(2, 0, 0, logged(2).entries, 0)))
    check("a message of 'x', which is no member" in alone.warnings.pop() and not node.stopped, "the message is dropped")
    await alone.raises(NodeStopped, node._give(Received("c", Append(2, 0, 0, logged(2).entries, 0))))
    check("entry 1 is committed" in node.stopped and len(alone.warnings) == 1, "the reason is told once")


async def full_queues(alone: Alone) -> None:
    """Entries that would wait for too many others are refused."""
    node = await leading(alone, ScriptDisk(), OPTIONS._replace(config=Config(election_ticks=2, max_uncommitted_bytes=3)))
    node._step(Propose((b"12",)), Waiter(node.world.signals))
    error = await alone.raises(QueueFull, node.propose(b"34"))
    check("entries of 2 bytes wait" in str(error) and "at most 3 may" in str(error), "the limit is told")


async def disks_that_fail_once(alone: Alone) -> None:
    """A node whose disk was full or failed for one call stops, and does not try again: a part may be in the log already."""
    for call, failure in (("append", DiskFull("no room")), ("append", DiskFailed("no room")), ("sync", DiskFailed("no room"))):
        disk = ScriptDisk()
        node = await leading(alone, disk)
        works, failures = getattr(disk, call), [failure]

        async def fails_once(*given: Any, works: Any = works, failures: list = failures) -> None:
            if failures:
                raise failures.pop()
            await works(*given)

        setattr(disk, call, fails_once)
        waiter = Waiter(node.world.signals)
        node._step(Propose((b"x",)), waiter)
        await alone.raises(type(failure), node._ends(node._write_on))
        await alone.raises(NodeStopped, waiter.wait())
        check("no room" in str(await alone.raises(NotRunning, node.propose(b"y"))), "the reason is told")
        stopped = node.state
        same((await node._give(Synced(stopped.number)), node.state), ((), stopped))  # it takes no step any more


async def strange_messages(alone: Alone) -> None:
    """Bytes that are no message are dropped with a warning, their connection ends, and the node goes on."""
    node = await opened(alone, ScriptDisk(), ABC)
    bodies = [b"?", wire.encoded(Append(1, 0, 0, logged(1).entries, 0))[:-9], wire.encoded(Heartbeat(1, 0, 0))]

    async def receive(timeout_ms: int) -> Message | None:
        if not bodies:
            await forever()
        return Message("b", bodies.pop(0))

    node.world.net.receive = receive  # pyright: ignore[reportAttributeAccessIssue]
    await alone.cancels(node._receive_on())
    same((len(alone.warnings), alone.counted, node.state.leader), (2, ["raft_malformed_messages"] * 2, "b"))
    same(node.world.net.ended, ["b", "b"])  # pyright: ignore[reportAttributeAccessIssue]


async def other_folders(alone: Alone) -> None:
    """A log of another node or of another version is refused, and so is one that is damaged before its last batch."""
    disk = ScriptDisk()
    log, _ = await open_log(disk, "a", (0, 0))  # pyright: ignore[reportArgumentType]
    for index in (1, 2, 3):
        await log.write([Save(index, 1, "", index, logged(1).entries)])
    name = min(disk.files)
    whole = disk.files[name].now
    await alone.raises(OtherNode, open_log(disk, "b", (0, 0)))  # pyright: ignore[reportArgumentType]
    head = records.record_at(whole, 0)
    assert head is not None
    later = head._replace(body=head.body[:8] + b"\0\7" + head.body[10:])
    disk.files[name].now = records.encoded(later) + whole[head.end:]
    await alone.raises(OtherVersion, open_log(disk, "a", (0, 0)))  # pyright: ignore[reportArgumentType]
    second = records.record_at(whole, head.end)
    assert second is not None
    disk.files[name].now = whole[:second.end + 5] + b"?" + whole[second.end + 6:]
    await alone.raises(Damaged, open_log(disk, "a", (0, 0)), file=name, offset=second.end)  # pyright: ignore[reportArgumentType]


async def other_snapshots(alone: Alone) -> None:
    """Bytes that only have the checksum of a snapshot are refused, and so is another version."""
    for body in (b"otherone" + bytes(40), b"hwraftsn\0\1" + bytes(16) + b"\0\x09" + bytes(30),
                 b"hwraftsn\0\1" + bytes(16) + b"\0\1\0\1\xff" + bytes(30)):
        fails_with(Damaged, lambda body=body: snapshots.decoded("x", body + snapshots.SUM.pack(crc32c(body))))
    whole = snapshots.encoded(Snapshot(3, 1, ("a",), b"x"))
    for version in (b"\0", b"\4"):
        fails_with(OtherVersion, lambda version=version: snapshots.decoded("x", whole[:9] + version + whole[10:]))


async def small_numbers(alone: Alone) -> None:
    """Counts begin where they must, also after a log was cut and at index 0."""
    same(leader(log=logged(2, 2, 2, base=(4, 2)), commit=5).uncommitted_bytes, 2)
    beaten, _ = after(leader(), Tick())
    same(beaten.since_heartbeat, 0)
    follower, _ = after(server(term=5), got("b", Heartbeat(5, 0, 0)), Read("r"))
    same(after(follower, got("b", ReadIndexReply(5, "r", 0)))[1], (ReadReady("r", 0),))
    handing, _ = after(leader(), TransferTo("b"), *[Tick()] * 3)
    same((handing.transfer and handing.transfer.elapsed, after(handing, Tick())[0].transfer), (3, None))
    drawn = State("a", ("a",), Config(), random=(1 << 64) - 2)
    timeouts, states = list[int](), list[int]()
    for _ in range(3):
        drawn = terms.with_new_timeout(drawn)
        timeouts.append(drawn.timeout)
        states.append(drawn.random)
    same((timeouts, states), TIMEOUTS)
    disk = ScriptDisk()
    await open_log(disk, "", (0, 0))  # pyright: ignore[reportArgumentType]
    name = min(disk.files)
    whole = disk.files[name].now
    found = segments.parsed(name, whole + b"torn", "", True)
    check(found is not None and (found.size_bytes, found.torn_bytes) == (len(whole), 4), "what is torn is counted")


async def usual_values(alone: Alone) -> None:
    """Usual values are those that the documentation names."""
    same(Config(), Config(10, 1, 1 << 20, 1 << 20, 64, 64 << 20, True, True, 100))
    same(RequestVote(5, 1, 1), RequestVote(5, 1, 1, False))
    fresh = State("a", ("a",), Config())
    same((fresh.durable.index, fresh.uncommitted_bytes, fresh.commit, fresh.number, fresh.stalled), (0, 0, 0, 0, 0))
    same((Transfer("b").elapsed, Progress("b").next_index, Progress("b").match_index), (0, 1, 0))
    same((NOOP, COMMAND, MEMBERS, seed_of("id-12345678")), (0, 1, 2, int.from_bytes(b"12345678", "big")))
    same(server(term=5).durable.index, 0)


async def a_target_needs_no_pre_vote(alone: Alone) -> None:
    """A server that was told to stand for election does it at once, and a vote resets its time."""
    target, _ = after(server(Config(election_ticks=4), 5), got("b", Heartbeat(5, 0, 0)), got("b", TimeoutNow(5)))
    same((target.role, target.term, target.elapsed), ("candidate", 6, 0))
    voter, _ = after(server(term=4), Tick(), got("b", RequestVote(5, 0, 0)))
    same((voter.vote, voter.elapsed), ("b", 0))
    known, _ = after(server(term=5), got("b", Heartbeat(5, 0, 0)), got("c", RequestVote(5, 9, 9)))
    same((known.vote, known.leader), ("", "b"))


async def waiters(alone: Alone) -> None:
    """The first end of a waiter counts, and a bell wakes once for each ring."""
    first, second = (Waiter(Happenings()) for _ in range(2))
    first.done(1)
    first.done(2)
    first.failed(NotRunning("late"))
    same((await first.wait(), first.ended), (1, True))
    second.failed(NotRunning("it ended"))
    second.done(3)
    await alone.raises(NotRunning, second.wait())
    same((second.ended, second.result), (True, None))
    await alone.cancels(Waiter(Happenings()).wait())
    bell = Bell(Happenings())
    bell.ring()
    bell.ring()
    same(await bell.wait(), None)
    await alone.cancels(bell.wait())


async def parts_of_a_snapshot(alone: Alone) -> None:
    """Only the part that is missed next is taken, of the snapshot that was offered, and by whom."""
    for sender, chunk in (("c", Chunk(7, 3, 0, 9, b"x")), ("b", Chunk(8, 3, 0, 9, b"x")), ("b", Chunk(7, 4, 0, 9, b"x")),
                          ("b", Chunk(7, 3, 1, 9, b"x"))):
        fetched = Fetched("b", 7, 3)
        same((fetched.take(sender, chunk), fetched.wants(), fetched.is_gone()), (False, FetchChunk(7, 3, 0), False))
    fetched = Fetched("b", 7, 3)
    same((fetched.take("b", Chunk(7, 3, 0, 9, b"x")), fetched.wants(), fetched.is_gone()), (True, FetchChunk(7, 3, 1), False))
    same((Fetched("b", 7, 3).take("b", Chunk(7, 3, 0, 0, b"")), fetched.is_whole()), (True, False))


async def snapshots_of_what_is_committed_meanwhile(alone: Alone) -> None:
    """While a fetched snapshot is stored, the node hears that all of it is committed: it offers that snapshot all the same."""
    disk = ScriptDisk()
    node = await opened(alone, disk, ("a", "b", "c"), OPTIONS._replace(snapshot_entries=100))
    await node._give(Received("b", Append(1, 0, 0, logged(1, 1, 1).entries, 0)))
    await write(node)
    rename = disk.rename

    async def commits(old: str, new: str) -> None:
        await rename(old, new)
        await node._give(Received("b", Heartbeat(1, 3, 0)))

    async def fetch(fetched: Fetched) -> Snapshot:
        return Snapshot(2, 1, ("a", "b", "c"), b"x\nx")

    disk.rename, node._fetched = commits, fetch
    await node._fetch(Fetched("b", 2, 1))
    same((node.applied, node.state.snapshot, node.snapshot.index), (3, (2, 1), 2))


async def snapshots_of_what_is_applied(alone: Alone) -> None:
    """While a snapshot is fetched, the node applies all that it covers: it is not stored, and a later one stays."""
    disk = ScriptDisk()
    node = await opened(alone, disk, ABC)
    await node._give(Received("b", Append(1, 0, 0, logged(1, 1, 1).entries, 3)))
    await write(node)
    same((node.applied, node.snapshot.index), (3, 3))
    for index in (2, 3):
        fetched = Fetched("b", index, 1)
        data = snapshots.encoded(Snapshot(index, 1, ABC, b"x"))
        fetched.take("b", Chunk(index, 1, 0, len(data), data))
        node.fetched_more.ring()
        disk.calls.clear()
        await node._fetch(fetched)
        same((node.snapshot.index, node.value, disk.calls), (3, (b"x", b"x", b"x"), []))


async def snapshots_have_the_members_of_their_entry(alone: Alone) -> None:
    """A change behind the last entry of a snapshot may never be committed."""
    node = await opened(alone, ScriptDisk(), ABC)
    change = Entry(1, MEMBERS, members.encoded(Members(("a", "b"))))
    await node._give(Received("b", Append(1, 0, 0, (*logged(1, 1).entries, change), 2)))
    same(node.state.voters, ("a", "b"))
    same(node._snapshot_of(2, 1)[:5], (2, 1, ABC, b"x\nx", None))
    await node._give(Received("b", Append(1, 3, 1, (), 3)))
    same(node._snapshot_of(3, 1)[:5], (3, 1, ("a", "b"), b"x\nx", Members(("a", "b"))))


async def snapshots_of_many_parts(alone: Alone) -> None:
    """One part after the other is asked for, as often as there are parts. Only a part that does not come ends it."""
    node = await opened(alone, ScriptDisk(), ABC, OPTIONS._replace(fetch_attempts=3))
    snapshot = Snapshot(7, 1, ABC, bytes(range(200)))
    fetched, parts, data = Fetched("b", 7, 1), [0], snapshots.encoded(snapshot)

    async def send(to: str, body: bytes) -> None:
        asked = wire.decoded(body)
        assert isinstance(asked, FetchChunk)
        parts[0] += 1
        if parts[0] % 3 and parts[0] < stops_after:
            fetched.take(to, chunk_of(asked, snapshot, data, 10))
        node.fetched_more.ring()

    node.world.net.send = send  # pyright: ignore[reportAttributeAccessIssue]
    stops_after = 1_000
    same(await node._fetched(fetched), snapshot)
    check(parts[0] > 30, "there are more parts than attempts at one")
    fetched, parts[0], stops_after = Fetched("b", 7, 1), 0, 20
    same((await node._fetched(fetched), parts[0]), (None, 22))


async def snapshots_that_are_gone(alone: Alone) -> None:
    """A snapshot that its leader does not have any more is not waited for: the next offer is taken."""
    node = await opened(alone, ScriptDisk(), ABC)
    offers = [Received("b", InstallSnapshot(1, index, 1)) for index in (7, 9)]
    await node._give(offers[0])
    await write(node)
    await node._give(offers[0])
    gone = node.fetching
    assert gone is not None
    gone.take("b", Chunk(7, 1, 0, 0, b""))
    node.fetched_more.ring()
    await node._fetch(gone)
    await node._give(offers[1])
    same((node.state.fetching, node.fetching and node.fetching.wants()), ((9, 1), FetchChunk(9, 1, 0)))


async def snapshots_of_a_group_that_was_joined(alone: Alone) -> None:
    """A server that joined takes the voters of a snapshot that has no members, also if its log has a later change."""
    node = Node(world_of(alone, ScriptDisk()), "d", (), MACHINE, OPTIONS, core.step)
    node.stopped = ""
    await node._give(Restart(0, "", Log(), 0, 7))
    change = Entry(1, MEMBERS, members.encoded(Members(ABC, ("d",))))
    await node._give(Received("a", Append(1, 0, 0, (change,), 0)))
    same(node._members_of(Snapshot(3, 1, ("a", "b"), b"")), Members(("a", "b")))


async def reads_that_are_asked_again(alone: Alone) -> None:
    """An answer to an earlier question says nothing of a read that came later."""
    node = await opened(alone, ScriptDisk(), ABC)
    await node._give(Received("b", Heartbeat(1, 0, 0)))
    await write(node)
    await alone.cancels(node.read())
    later = node.read()
    later.send(None)  # it waits for its answer
    net = node.world.net
    assert isinstance(net, Posted)
    earlier, asked = [message.read for _, message in net.sent if isinstance(message, ReadIndex)]
    await node._give(Received("b", ReadIndexReply(1, earlier, 4)))
    same(([*node.asked], node.readers), ([asked], []))
    await node._give(Received("b", ReadIndexReply(1, asked, 4)))
    same(([*node.asked], [index for index, _ in node.readers]), ([], [4]))  # it waits until that is applied
    later.close()
    same(node.readers, [])


async def guarded_disks(alone: Alone) -> None:
    """Each call reaches the disk, and its answer comes back."""
    disk = ScriptDisk()
    guarded = GuardedDisk(disk, alone, 10)  # pyright: ignore[reportArgumentType]
    await guarded.lock()
    await guarded.create("f")
    await guarded.append("f", b"12345")
    await guarded.truncate("f", 3)
    await guarded.sync("f")
    await guarded.sync_names()
    same((await guarded.names(), await guarded.read("f")), (["f"], b"123"))
    await guarded.rename("f", "g")
    await guarded.remove("g")
    same([call for call, _ in disk.calls], ["lock", "create", "append", "truncate", "sync", "sync_names", "names", "read",
                                            "rename", "remove"])


async def malformed_messages(alone: Alone) -> None:
    """Bytes that are one byte shorter or longer than a message are none."""
    for message in (Heartbeat(1, 2, 3), RequestVote(1, 2, 3, True), Chunk(1, 2, 3, 4, b"x")):
        whole = wire.encoded(message)
        same(wire.decoded(whole), message)
        for body in (whole[:-1], whole + b"\0", b"", b"\1"):
            fails_with(wire.Malformed, lambda body=body: wire.decoded(body))
        for body in (b"\2" + whole[1:], whole[:1] + b"\x63" + whole[2:]):
            fails_with(wire.UnknownForm, lambda body=body: wire.decoded(body))
    for body in (wire.encoded(Heartbeat(1, 1 << 62, 3)), wire.encoded(Append(1, 0, 0, (Entry(1 << 63, COMMAND, b""),), 0))):
        fails_with(wire.Malformed, lambda body=body: wire.decoded(body))


async def terms_that_are_too_far_ahead(alone: Alone) -> None:
    """A node that hears of no leader raises its term by a bounded number, and says so. One that hears of one only counts."""
    node = await opened(alone, ScriptDisk(), ABC, OPTIONS._replace(config=Config(election_ticks=2)))
    far = Received("b", Heartbeat(1 << 40, 0, 0))
    for _ in range(4 * 2):
        node.state, _ = core.step(node.state._replace(elapsed=0), Tick())
    await node._give(far)
    same((node.state.term, node.state.vote, alone.counted), (terms.FAR, "", ["raft_far_ahead_messages"]))
    check(f"'b' is in term {1 << 40:,}, or lies" in alone.warnings.pop(), "the rise is told")
    await node._give(far)
    same((node.state.term, alone.warnings, alone.counted), (terms.FAR, [], ["raft_far_ahead_messages"] * 2))


SCRIPTS: tuple[Script, ...] = (
    life, newer_snapshot_goes_first, unfinished_snapshots_go, cut_snapshots_are_refused, damaged_logs_are_refused, other_groups,
    snapshots_are_read_back, snapshots_of_what_is_committed_meanwhile, snapshots_of_what_is_applied,
    snapshots_have_the_members_of_their_entry, snapshots_that_are_gone, snapshots_of_a_group_that_was_joined,
    reads_that_are_asked_again, closed_nodes, refusals, leaders_that_step_down, transfers_that_are_asked_for,
    entries_that_were_replaced, snapshots_of_many_parts, commands_that_the_machine_refuses,
    entries_that_the_machine_cannot_apply, states_that_the_machine_cannot_dump_or_load,
    contradictions, usual_values, a_target_needs_no_pre_vote, waiters, parts_of_a_snapshot, guarded_disks, malformed_messages,
    terms_that_are_too_far_ahead,
    wrong_beginnings, contradictions_end_the_node, full_queues, disks_that_fail_once, strange_messages, other_folders,
    other_snapshots, small_numbers,
)
