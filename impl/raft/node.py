"""Safety: callers hear of a commit only after it, and the machine is only shown once it has all that a read must see.

A node of a Raft group: it drives the pure core (core.py) with its disk, its network and its clock. Its tasks: one that ticks,
one that receives, one that writes the log, and one that makes and fetches snapshots. A failed or late write ends all of them:
the node is stopped then, and may only be opened anew.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from highwater.impl import level
from highwater.impl.errors import StoreError, TaskCancelled, TimedOut
from highwater.impl.level import FIRST, FORMS, Level
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import core, in_force, levels, reads, snapshots, wire
from highwater.impl.raft.clocks import Clocks, Told
from highwater.impl.raft.entries import COMMAND, LEVEL, entry_at, term_at, without_before
from highwater.impl.raft.faults import (
    ChangeRefused,
    CommandRefused,
    LeadershipLost,
    LevelTooLow,
    NoChange,
    NodeStopped,
    NotLeader,
    NotRunning,
    NotYet,
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
from highwater.impl.raft.log import SEGMENT_BYTES, DiskLog, Recovered, open_log
from highwater.impl.raft.machine import CannotApply, Command, Machine, applied, named
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Append, ClockedReply, HeartbeatReply, Message
from highwater.impl.raft.snapshots import Snapshot
from highwater.impl.raft.state import (
    CHANGE_UNDER_WAY,
    HANDING_OVER,
    LAST_VOTER,
    LEADER,
    LEFT,
    NO_CHANGE,
    NO_LEARNER,
    NO_VOTER,
    NOT_CAUGHT_UP,
    OWN_TERM_UNCOMMITTED,
    QUEUE_FULL,
    REMOVE,
    TOO_LARGE,
    Accepted,
    Change,
    Compact,
    Config,
    FarAhead,
    FetchFailed,
    FetchSnapshot,
    Input,
    Installed,
    Output,
    Propose,
    Read,
    ReadReady,
    ReadRefused,
    Received,
    Refused,
    Restart,
    Restore,
    Save,
    Send,
    StepDown,
    Synced,
    Tick,
    TransferTo,
)
from highwater.impl.raft.terms import FAR
from highwater.impl.raft.waiters import Bell, Waiter
from highwater.impl.world import Task


class Options(NamedTuple):
    """The settings of a node. Times of elections are in ticks of `tick_ms`: see Config."""

    config: Config = Config()
    tick_ms: int = 100
    disk_limit_ms: int = 10_000  # a call of the disk that takes longer stops the node
    read_retry_ms: int = 1_000  # a read without an answer is asked for again
    snapshot_entries: int = 10_000  # so many are applied between two snapshots
    keep_entries: int = 1_000  # stay in the log before a snapshot, for followers that are a little behind
    segment_bytes: int = SEGMENT_BYTES
    chunk_bytes: int = 256 << 10  # of a snapshot in one message
    fetch_retry_ms: int = 500
    fetch_attempts: int = 10  # for one chunk
    forms: int = FORMS  # the highest level of forms that this node knows


USUAL = Options()
CLOCKED = 2  # the level of forms at which replies to heartbeats have clocks
UNAPPLIED = ("`highwater raft check FOLDER --machine FILE.py:NAME` (of an index: --machine index) shows what the machine does "
             "with the folder of a stopped node")
REFUSALS: dict[str, tuple[type[StoreError], str]] = {  # of a change -> what the caller is told
    OWN_TERM_UNCOMMITTED: (NotYet, "the leader has committed no entry of its own term yet: try again soon"),
    CHANGE_UNDER_WAY: (NotYet, "an earlier change is not committed yet: try again soon"),
    NOT_CAUGHT_UP: (NotYet, "the learner lacks too many entries: try again later"),
    NO_LEARNER: (ChangeRefused, "only a learner may become a voter, and this server is none: let it join first"),
    LAST_VOTER: (ChangeRefused, "the last voter cannot leave"),
    LEFT: (ChangeRefused, "it has left in this term, in which it could vote again if its folder was lost: let another node "
                          "lead (`highwater raft transfer`), or restart a node that is alone, and then let it join"),
    NO_CHANGE: (NoChange, "the members are so already"),
}


class Done(NamedTuple):
    """A proposal that was committed and applied: its index, and what the machine returned."""

    index: int
    result: Any


class Node:
    """An open node. `propose` and `read`, then `close` it: it has tasks until then."""

    def __init__(self, world: NodeWorld, me: str, voters: Iterable[str], machine: Machine, options: Options, step: core.Step):
        """Make a node that is not open; `Node.open` opens one."""
        self.world, self.machine, self.options, self.step = world, machine, options, step
        self.disk = GuardedDisk(world.disk, world.clock, options.disk_limit_ms)
        self.state = core.server(me, tuple(voters), options.config)
        self.known = Level(options.forms, machine.level)  # the highest level that this node knows
        self.value, self.applied = machine.initial, 0  # the machine's state, and how far it has applied
        self.level = FIRST  # of the group, by what is applied
        self.commanded_ms = world.clock.monotonic_ms()  # when the last command was applied, or the state of a snapshot taken
        self.told: dict[str, tuple[int, int]] = {}  # follower -> its clock, and the monotonic one when its reply came
        self.snapshot, self.snapshot_data = snapshots.EMPTY, b""  # the latest verified one; its file
        self.log: DiskLog | None = None
        self.saves: list[Save] = []  # not written yet
        self.proposals: dict[int, Waiter] = {}  # by index, while this node leads
        self.asked: dict[str, Waiter] = {}  # reads, by id, until they have an index
        self.readers: list[tuple[int, Waiter]] = []  # reads that wait for an index to be applied
        self.transfers: list[Waiter] = []
        self.writing, self.snapshotting = Bell(world.signals), Bell(world.signals)
        self.fetching: Fetched | None = None
        self.fetched_more = Bell(world.signals)
        self.stopped = "it is not open"  # "" while it runs
        self.keeper: Task[None] | None = None

    # --- its life

    @classmethod
    async def open(cls, world: NodeWorld, me: str, voters: Iterable[str], machine: Machine, options: Options = USUAL,
                   step: core.Step = core.step) -> "Node":
        """Take the folder, recover what is in it, and start the tasks.

        `step` may be another one than the core's, which records what it is given. Raises DiskLocked, Damaged, OtherNode,
        OtherVersion, and after a failure of the disk DiskFull, DiskFailed.
        """
        node = cls(world, me, voters, machine, options, step)
        await node.disk.lock()
        recovered = await node._recover()
        keep = max(recovered.log.base_index, node.snapshot.index - options.keep_entries)
        node.stopped = ""
        await node._give(Restart(recovered.term, recovered.vote, without_before(recovered.log, keep), node.snapshot.index,
                                 seed_of(world.ids.new_id()), node._members_of(node.snapshot)))
        node.keeper = world.clock.spawn(node._run(), "raft")
        return node

    async def _recover(self) -> Recovered:
        """Load the snapshot into the machine, and open the log. Nothing is changed in a folder that is refused."""
        me = self.state.me
        snapshot, bad = await snapshots.load(self.disk)
        if snapshot.index and snapshot.members is None and self.state.voters and snapshot.voters != self.state.voters:
            name = snapshots.name_of(snapshot.index, snapshot.term)
            raise OtherNode(f"{name}: its group is {', '.join(snapshot.voters)}, and this node was given "
                            f"{', '.join(self.state.voters)}: give the node its own folder")
        levels.check_level("the snapshot in the folder is of a cluster raised", snapshot.level, self.known)
        with snapshots.named(bad):
            self.log, recovered = await open_log(self.disk, me, (snapshot.index, snapshot.term), self.options.segment_bytes,
                                                 self.known)
        for name, damage in bad:
            self.world.metrics.warn(f"{name} was never finished and is removed, and nothing is lost: {damage.what}")
        await snapshots.remove_unfinished(self.disk, bad)
        if snapshot.index:
            self._take(snapshot)
            self._restore(snapshot)
        return recovered

    async def close(self) -> None:
        """End the tasks. Calls that wait raise NodeStopped. What is durable stays so."""
        self._stop("it was closed")
        if self.keeper is not None:
            self.keeper.cancel()
            try:
                await self.keeper
            except TaskCancelled:
                pass
            self.keeper = None

    async def _run(self) -> None:
        clock = self.world.clock
        try:
            await clock.first(ticker=self._tick_on(), receiver=self._receive_on(), writer=self._ends(self._write_on),
                              snapshots=self._ends(self._snapshot_on))
        except StoreError as error:
            self._stop(str(error))
        finally:
            self._stop("one of its tasks failed")

    async def _ends(self, of_disk: Callable[[], Awaitable[None]]) -> None:
        """Run a task that uses the disk. When it fails the node stops in that moment, before its other tasks have ended."""
        try:
            await of_disk()
        except StoreError as error:
            self._stop(str(error))
            raise

    def _stop(self, why: str) -> None:
        """Take no more calls, and end those that wait. Only the first reason counts."""
        if self.stopped:
            return
        self.stopped = why
        if why != "it was closed":
            self.world.metrics.warn(f"node {self.state.me!r} stops: {why}")
        for waiter in [*self.proposals.values(), *self.asked.values(), *(waiter for _, waiter in self.readers),
                       *self.transfers]:
            waiter.failed(NodeStopped(f"node {self.state.me!r} stopped: {why}"))
        self.proposals, self.asked, self.readers, self.transfers = {}, {}, [], []

    def check_running(self) -> None:
        """Raise NotRunning if the node has stopped."""
        if self.stopped:
            raise NotRunning(f"node {self.state.me!r} is not running: {self.stopped}; open it again")

    # --- what callers may ask

    async def propose(self, body: bytes) -> Done:
        """Replicate an entry, and return once it is committed and applied here.

        Definite errors: NotLeader, TooLarge, QueueFull, LevelTooLow, CommandRefused, NotRunning. Indefinite ones, after which
        the entry may be committed: LeadershipLost, NodeStopped.
        """
        self.check_running()
        needed = self.machine.level_of(body)
        if needed > self.level.machine and needed > self._level_of_log().machine:
            raise LevelTooLow(f"the command needs level {needed} of the machine, and the cluster is at level "
                              f"{self.level.machine}: upgrade all nodes, then call again")
        if self.state.role == LEADER and len(body) <= self.state.config.max_entry_bytes:
            command = Command(self.applied + 1, self.state.term, body, self.level.machine)
            if (why := self.machine.refusal(self.value, command)) is not None:
                raise CommandRefused(why)
        return await self._proposed(Propose((body,)))

    def _level_of_log(self) -> Level:
        """Return the level of the group after all entries of the own log. What a leader appends stands behind them, so a new
        leader need not know that they are committed."""
        of = self.level
        for entry in self.state.log.entries:
            if entry.kind == LEVEL:
                of = of.raised(level.decoded(entry.body))
        return of

    async def raise_level(self, to: Level) -> Done:
        """Let the group use the forms of this level, and return once that is committed and applied here.

        All members must know the level: one that does not stops at the entry. Raises what `propose` does.
        """
        self.check_running()
        return await self._proposed(Propose((level.encoded(to),), LEVEL))

    async def _proposed(self, given: Propose) -> Done:
        waiter = Waiter(self.world.signals)
        outputs = self._step(given, waiter)
        refused = next((output for output in outputs if isinstance(output, Refused)), None)
        if refused is not None:
            raise self._refusal(refused, len(given.bodies[0]))
        await self._send(outputs)
        return await waiter.wait()

    async def read(self) -> Any:
        """Return the machine's state, with all that was acknowledged before this call. Any node may be asked.

        Raises NotLeader if no leader is known, NotRunning, NodeStopped. Without an answer it asks again: use `clock.timeout`.
        """
        while True:
            self.check_running()
            name, waiter = self.world.ids.new_id(), Waiter(self.world.signals)
            self.asked[name] = waiter
            try:
                await self._give(Read(name))
                await self.world.clock.timeout(self.options.read_retry_ms, waiter.wait())
                return self.value
            except TimedOut:
                self.world.metrics.count("raft_reads_retried")
            finally:
                self.asked.pop(name, None)
                self.readers = [(index, other) for index, other in self.readers if other is not waiter]

    async def settled(self) -> None:
        """Return once this node, if it leads, has applied all that was committed before it led. Raises what `read` does."""
        if self.state.role == LEADER and not reads.knows_commits(self.state):
            await self.read()

    def clocks(self) -> Clocks:
        """Return the clocks that this node knows."""
        now_ms, state = self.world.clock.monotonic_ms(), self.state
        voters = state.voters if self.level.forms >= CLOCKED else (state.me,)
        if state.role != LEADER or not reads.knows_commits(state):
            voters = ()
        told = {name: Told(clock_ms, now_ms - at_ms) for name, (clock_ms, at_ms) in self.told.items()}
        return Clocks(state.me, voters, self.world.clock.now_ms(), told, now_ms - self.commanded_ms)

    async def change(self, what: str, name: str, address: str = "") -> Done:
        """Change the members by one server, and return once that is committed and applied here.

        `what`: LEARN, PROMOTE or REMOVE of state.py. `address`: where a server that joins is dialled. Definite errors:
        NotLeader, NotYet, NoChange, ChangeRefused, NotRunning. Indefinite ones, after which the change may be made:
        LeadershipLost, NodeStopped.
        """
        self.check_running()
        waiter = Waiter(self.world.signals)
        outputs = self._step(Change(what, name, address), waiter)
        refused = next((output for output in outputs if isinstance(output, Refused)), None)
        if refused is not None:
            if refused.why not in REFUSALS:
                raise self._refusal(refused, 0)
            error, why = REFUSALS[refused.why]
            members = ", ".join((*self.state.voters, *self.state.learners))
            raise error(f"{name!r}: " + (f"no member of this group, whose members are {members}" if error is NoChange
                                         and what == REMOVE else why))
        await self._send(outputs)
        return await waiter.wait()

    async def transfer(self, target: str) -> None:
        """Let `target` lead; return once this node does not.

        Raises NotLeader, NoVoter, TransferFailed, NotRunning, NodeStopped.
        """
        self.check_running()
        waiter = Waiter(self.world.signals)
        self.transfers.append(waiter)
        outputs = await self._give(TransferTo(target))
        refused = next((output for output in outputs if isinstance(output, Refused)), None)
        if refused is not None:
            self.transfers = [other for other in self.transfers if other is not waiter]
            if refused.why == NO_VOTER:
                raise NoVoter(f"{target!r} is no server of this group: name one of {', '.join(self.state.voters)}")
            raise self._refusal(refused, 0)
        await waiter.wait()

    def _refusal(self, refused: Refused, size_bytes: int) -> StoreError:
        config = self.state.config
        if refused.why == TOO_LARGE:
            return TooLarge(f"an entry of {size_bytes:,} bytes: at most {config.max_entry_bytes:,} are taken")
        if refused.why == QUEUE_FULL:
            return QueueFull(f"entries of {self.state.uncommitted_bytes:,} bytes wait to be committed, and at most "
                             f"{config.max_uncommitted_bytes:,} may: try again later")
        handing = self.state.transfer if refused.why == HANDING_OVER else None
        return NotLeader(self.state.me, handing.target if handing else refused.leader)

    # --- steps

    async def _give(self, given: Input) -> tuple[Output, ...]:
        """Take a step, do what it puts out, and send its messages. A node that has stopped takes none."""
        if self.stopped:
            return ()
        outputs = self._step(given)
        await self._send(outputs)
        return outputs

    async def _send(self, outputs: tuple[Output, ...]) -> None:
        for output in outputs:
            if isinstance(output, Send) and not self.stopped:
                await self.world.net.send(output.to, wire.encoded(self._clocked(output.message), self.level.forms))

    def _clocked(self, message: Message) -> wire.OnWire:
        """Return the form of a message on the wire: a reply to a heartbeat gets this node's clock once the level allows it."""
        if isinstance(message, HeartbeatReply) and self.level.forms >= CLOCKED:
            return ClockedReply(*message, max(self.world.clock.now_ms(), 0))
        return message

    def _step(self, given: Input, proposer: Waiter | None = None) -> tuple[Output, ...]:
        """Take a step, and do what it puts out, but for messages. `proposer` waits for the entry that this step proposes.

        A member that contradicts what is committed stops the node. A message of anybody else is dropped then."""
        try:
            self.state, outputs = self.step(self.state, given)
        except Contradiction as error:
            if isinstance(given, Received) and not in_force.is_known(self.state, given.sender):
                self.world.metrics.count("raft_contradicting_strangers")
                self.world.metrics.warn(f"a message of {given.sender!r}, which is no member as far as this node knows, is "
                                        f"dropped: {error}")
                return ()
            self._stop(str(error))
            raise NodeStopped(str(error)) from error
        for output in outputs:
            if isinstance(output, Accepted) and proposer is not None:
                self.proposals[output.first_index] = proposer
            self._do(output)
        self._apply()
        if self.transfers:
            self._end_transfers()
        return outputs

    def _do(self, output: Output) -> None:
        if isinstance(output, Send):
            return  # messages go out after all else
        if isinstance(output, Save):
            self.saves.append(output)
            self.writing.ring()
        elif isinstance(output, ReadReady | ReadRefused):
            self._answer_read(output)
        elif isinstance(output, StepDown):
            for waiter in self.proposals.values():
                waiter.failed(LeadershipLost(f"node {self.state.me!r} does not lead any more: its successor may commit the "
                                             "entry, or not"))
            self.proposals = {}
        elif isinstance(output, FarAhead):
            self.world.metrics.count("raft_far_ahead_messages")
            if output.raised:
                self.world.metrics.warn(f"{output.sender!r} is in term {output.term:,}, or lies: this node hears of no leader, "
                                        f"and raises its own term by {FAR:,} to {self.state.term:,}")
        elif isinstance(output, FetchSnapshot):
            self.fetching = Fetched(output.leader, output.index, output.last_term)
            self.snapshotting.ring()
        elif isinstance(output, Restore) and output.index > self.applied:
            self._restore(self.snapshot)

    def _answer_read(self, output: ReadReady | ReadRefused) -> None:
        waiter = self.asked.pop(output.read, None)
        if waiter is None:
            return  # its caller has given up
        if isinstance(output, ReadReady):
            self.readers.append((output.index, waiter))
        else:
            waiter.failed(NotLeader(self.state.me, output.leader))

    def _apply(self) -> None:
        """Let the machine apply what is committed, and let those go on who waited for it."""
        while self.applied < self.state.commit:
            index = self.applied + 1
            entry = entry_at(self.state.log, index)
            try:
                self.value, reached, result = applied(self.machine, self.value, self.level, index, entry)
            except CannotApply as error:
                raise self._failed(str(error)) from error
            self.applied = index
            if entry.kind == COMMAND:
                self.commanded_ms = self.world.clock.monotonic_ms()
            if reached != self.level:
                self._come_to(reached)
            waiter = self.proposals.pop(index, None)
            if waiter is not None:
                waiter.done(Done(index, result))
        if self.readers:
            for index, waiter in self.readers:
                if index <= self.applied:
                    waiter.done()
            self.readers = [(index, waiter) for index, waiter in self.readers if index > self.applied]
        if self._snapshot_is_due():
            self.snapshotting.ring()

    def _failed(self, what: str) -> NodeStopped:
        """Stop because of an error of the machine, and return what to raise: this node would differ if it went on."""
        self._stop(f"{what}; {UNAPPLIED}")
        return NodeStopped(f"{what}; {UNAPPLIED}")

    def _come_to(self, of: Level) -> None:
        """Have the level of the group, which the log has or a snapshot."""
        self.level = of
        if self.log is not None:
            self.log.checksums = of.forms >= wire.CHECKSUMS

    def _end_transfers(self) -> None:
        for waiter in self.transfers:
            if self.state.role != LEADER:
                waiter.done()
            elif self.state.transfer is None:
                waiter.failed(TransferFailed(f"node {self.state.me!r} still leads: the target did not take over in time"))
        self.transfers = [waiter for waiter in self.transfers if not waiter.ended]

    # --- tasks

    async def _tick_on(self) -> None:
        while True:
            await self.world.clock.sleep_ms(self.options.tick_ms)
            await self._give(Tick())

    async def _receive_on(self) -> None:
        while True:
            received = await self.world.net.receive(self.options.tick_ms)
            if received is None:
                continue
            try:
                message = wire.decoded(received.body)
                if isinstance(message, Append):
                    levels.check(message.prev_index + 1, message.entries, self.known)
            except (wire.Malformed, OtherVersion) as problem:
                self._refuse(received.sender, problem)
                continue
            if isinstance(message, FetchChunk):
                chunk = chunk_of(message, self.snapshot, self.snapshot_data, self.options.chunk_bytes)
                if not self.stopped:
                    await self.world.net.send(received.sender, wire.encoded(chunk))
            elif isinstance(message, Chunk):
                if self.fetching is not None and self.fetching.take(received.sender, message):
                    self.fetched_more.ring()
            else:
                if isinstance(message, ClockedReply):
                    if received.sender in self.state.voters:
                        self.told[received.sender] = message.clock_ms, self.world.clock.monotonic_ms()
                    message = HeartbeatReply(message.term, message.round)
                await self._give(Received(received.sender, message))

    def _refuse(self, sender: str, problem: wire.Malformed | OtherVersion) -> None:
        """Drop a message that cannot be read, and end its connection.

        Raises OtherVersion if a later version of highwater sent it: the group has come to a level that this node does not know.
        """
        if isinstance(problem, OtherVersion | wire.UnknownForm) and self._is_later(sender):
            raise OtherVersion(f"from {sender!r}: {problem}") from problem
        self.world.metrics.count("raft_malformed_messages")
        self.world.metrics.warn(f"a message of {sender!r} is dropped, and its connection ends: {problem}")
        self.world.net.end_from(sender)

    def _is_later(self, sender: str) -> bool:
        """Tell whether a sender is a member, and has said that it knows a level that this node does not know."""
        known = self.world.net.known_of(sender)
        return known is not None and not self.known.covers(known) and in_force.is_known(self.state, sender)

    async def _write_on(self) -> None:
        """Make saves durable, all that came meanwhile with one sync, and cut the log after a snapshot."""
        assert self.log is not None
        while True:
            await self.writing.wait()
            saves, self.saves = self.saves, []
            if saves:
                await self.log.write(saves)
                await self._give(Synced(saves[-1].number))
            await self.log.compact(self.state.log.base_index)

    async def _snapshot_on(self) -> None:
        while True:
            await self.snapshotting.wait()
            if self.fetching is not None:
                fetched = self.fetching
                await self._fetch(fetched)
                if self.fetching is fetched:  # else another snapshot was offered meanwhile: the bell was rung again
                    self.fetching = None
            if self._snapshot_is_due():
                await self._make_snapshot()

    # --- snapshots

    def _snapshot_is_due(self) -> bool:
        """Tell whether enough was applied. A node that joined knows no members before the change that let it join."""
        return (self.applied - self.snapshot.index >= self.options.snapshot_entries
                and bool(in_force.at(self.state, self.applied).members.voters))

    async def _make_snapshot(self) -> None:
        """Make what is applied a durable snapshot, verify it, and only then forget entries."""
        index = self.applied
        term = term_at(self.state.log, index)
        assert term is not None
        snapshot = self._snapshot_of(index, term)
        await snapshots.store(self.disk, snapshot)
        self._take(snapshot)
        await self._give(Compact(index, max(index - self.options.keep_entries, 0)))
        await snapshots.remove_older(self.disk, snapshot)
        self.writing.ring()

    def _snapshot_of(self, index: int, term: int) -> Snapshot:
        """Return the snapshot of what is applied, with the members that are in force there."""
        since, of = in_force.at(self.state, index)
        try:
            content = self.machine.dump(self.value)
        except Exception as error:
            raise self._failed(f"the machine cannot dump its state after entry {index:,}: {named(error)}") from error
        return Snapshot(index, term, of.voters, content, of if since else None, self.level)

    def _members_of(self, snapshot: Snapshot) -> Members | None:
        """Return the members by a snapshot; None if they are those with which this node began."""
        began = self.state.configurations[0].members.voters
        return snapshot.members or (None if began or not snapshot.index else Members(snapshot.voters))

    def _take(self, snapshot: Snapshot) -> None:
        """Serve this snapshot from now on: it is durable and verified."""
        self.snapshot, self.snapshot_data = snapshot, snapshots.encoded(snapshot)

    def _restore(self, snapshot: Snapshot) -> None:
        """Have the state of a snapshot, and no other."""
        try:
            value = self.machine.load(snapshot.content)
        except Exception as error:
            what = f"the machine cannot load the snapshot up to entry {snapshot.index:,}: {named(error)}"
            raise self._failed(what) from error
        self.value, self.applied = value, snapshot.index
        self.commanded_ms = self.world.clock.monotonic_ms()
        self._come_to(snapshot.level)

    async def _fetch(self, fetched: Fetched) -> None:
        """Fetch an offered snapshot and install it, or say that it failed: the leader offers again."""
        snapshot = await self._fetched(fetched)
        if snapshot is None or snapshot.index <= self.applied:
            await self._give(FetchFailed())
            return
        await snapshots.store(self.disk, snapshot)
        self._take(snapshot)
        await self._give(Installed(snapshot.index, snapshot.term, self._members_of(snapshot)))
        await self._give(Compact(snapshot.index, self.state.log.base_index))  # if the log had all of it by now
        await snapshots.remove_older(self.disk, snapshot)
        self.writing.ring()

    async def _fetched(self, fetched: Fetched) -> Snapshot | None:
        """Ask for one chunk after the other; return None if the leader has it no more, or does not answer."""
        attempts = 0
        while attempts < self.options.fetch_attempts:
            before = len(fetched.data)
            await self.world.net.send(fetched.leader, wire.encoded(fetched.wants()))
            try:
                await self.world.clock.timeout(self.options.fetch_retry_ms, self.fetched_more.wait())
            except TimedOut:
                pass
            if fetched.is_gone():
                return None
            if fetched.is_whole():
                try:
                    found = fetched.snapshot()
                    if found is not None:
                        levels.check_level(f"the snapshot of {fetched.leader!r} is of a cluster raised", found.level,
                                           self.known)
                except OtherVersion as problem:
                    self._refuse(fetched.leader, problem)
                    return None
                return found
            attempts = 0 if len(fetched.data) > before else attempts + 1
        return None


def seed_of(name: str) -> int:
    """Return the seed of a node's election timeouts, made of a unique id."""
    return int.from_bytes(name.encode()[-8:])
