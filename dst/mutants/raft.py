"""Known-bad Raft nodes: the real core with one of its functions replaced during a step, or the real node with one changed.

Each is judged by the model, by the properties over all nodes (dst/scenarios/replicated/properties.py), and by what callers saw.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.raft import Impl
from highwater.dst.world.node_faults import NodeWeights
from highwater.impl.errors import TimedOut
from highwater.impl.node_world import DiskFailed, NodeWorld
from highwater.impl.raft import core, effects, elections, following, reads, replication, snapshots, terms, transfer
from highwater.impl.raft.entries import Log, last_index, last_term, term_at
from highwater.impl.raft.faults import LeadershipLost, NotLeader
from highwater.impl.raft.fetch import Fetched
from highwater.impl.raft.guard import GuardedDisk
from highwater.impl.raft.log import REWRITTEN, DiskLog, Recovered
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.messages import Append, InstallSnapshot, RequestVote
from highwater.impl.raft.node import Done, Node, Options
from highwater.impl.raft.records import HARD, Record
from highwater.impl.raft.snapshots import TEMPORARY, Snapshot
from highwater.impl.raft.state import (
    LEADER,
    Accepted,
    Compact,
    FetchFailed,
    Input,
    Installed,
    Output,
    PendingRead,
    Propose,
    ReadReady,
    ReadRefused,
    Received,
    Refused,
    Restore,
    Save,
    State,
    Synced,
)

# --- the core


def step_with(*swaps: tuple[Any, str, Any]) -> core.Step:
    """Return the core's step, in which these functions or constants of its modules are others."""
    def step(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
        before = [(module, name, getattr(module, name)) for module, name, _ in swaps]
        for module, name, other in swaps:
            setattr(module, name, other)
        try:
            return core.step(state, given)
        finally:
            for module, name, own in before:
                setattr(module, name, own)

    return step


def stepping(*swaps: tuple[Any, str, Callable]) -> Build:
    step = step_with(*swaps)
    return lambda world, shape, number: Impl(step=step)


def half(state: State) -> int:
    return len(state.voters) // 2


def step_forgetting_votes(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Answer each candidate as if it were the first."""
    asked = isinstance(given, Received) and isinstance(given.message, RequestVote) and given.message.term == state.term
    return core.step(state._replace(vote="", leader="") if asked else state, given)


def step_voting_far(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Take a request for a vote whatever its term is."""
    asked = isinstance(given, Received) and isinstance(given.message, RequestVote)
    return (NO_TERM_IS_FAR if asked else core.step)(state, given)


NO_TERM_IS_FAR = step_with((terms, "FAR", 1 << 63))
own_advance, own_begin = replication.advance_commit, reads.begin


def count_unsynced(state: State) -> State:
    """Count the leader for all of its log, synced or not."""
    after = own_advance(state._replace(durable=state.durable._replace(index=last_index(state.log))))
    return after._replace(durable=state.durable)


def read_at_once(state: State, name: str, asker: str) -> State:
    return reads.ready(state, PendingRead(name, asker, state.commit))


def read_by_any_round(state: State, name: str, asker: str) -> State:
    """Let an answer to an earlier round confirm a read."""
    after = own_begin(state, name, asker)
    return after._replace(reads=tuple(one._replace(round=min(one.round, state.round)) for one in after.reads))


def all_differs(state: State, message: Append) -> int:
    return 0


def none_is_committed(state: State, first: int) -> None:
    pass


def always(*given: Any) -> bool:
    return True


def is_longer(log: Log, index: int, term: int) -> bool:
    """Compare the lengths of logs alone."""
    return index >= last_index(log)


def step_installing_all(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Take every snapshot that is offered, and install it also if it covers less than what is committed here."""
    if isinstance(given, Installed) and state.role != LEADER:
        anew = effects.begin_anew(state, given.index, given.last_term)
        anew = anew._replace(commit=given.index, snapshot=(given.index, given.last_term), fetching=None)
        return effects.close(effects.emit(anew, Restore(given.index)))
    if isinstance(given, Received) and isinstance(given.message, InstallSnapshot):
        after, outputs = core.step(state._replace(commit=0), given)
        return after._replace(commit=state.commit), outputs
    return core.step(state, given)


# --- the disk


class NamesUnsynced(GuardedDisk):
    """Never syncs the folder."""

    async def sync_names(self) -> None:
        pass


class Unsynced(GuardedDisk):
    """Never syncs a file."""

    async def sync(self, name: str) -> None:
        pass


class SnapshotUnsynced(GuardedDisk):
    """Never syncs a snapshot."""

    async def sync(self, name: str) -> None:
        if name != TEMPORARY:
            await super().sync(name)


class FailureIgnored(GuardedDisk):
    """Goes on after a sync that failed."""

    async def sync(self, name: str) -> None:
        try:
            await super().sync(name)
        except DiskFailed:
            pass


class SyncedAgain(GuardedDisk):
    """Tries a sync that failed again."""

    async def sync(self, name: str) -> None:
        try:
            await super().sync(name)
        except DiskFailed:
            await super().sync(name)


class LateIsDone(GuardedDisk):
    """Takes a sync that took too long for done."""

    async def sync(self, name: str) -> None:
        try:
            await self.clock.timeout(self.limit_ms, self.disk.sync(name))
        except TimedOut:
            pass


class NotRewritten(GuardedDisk):
    """Syncs the newest segment at a start, as it is, and does not write it again."""

    async def create(self, name: str) -> None:
        if name != REWRITTEN:
            await super().create(name)

    async def append(self, name: str, body: bytes) -> None:
        if name == REWRITTEN:
            self.size_bytes = len(body)
        else:
            await super().append(name, body)

    async def sync(self, name: str) -> None:
        if name != REWRITTEN:
            await super().sync(name)

    async def rename(self, old: str, new: str) -> None:
        if old != REWRITTEN:
            await super().rename(old, new)
            return
        await super().truncate(new, self.size_bytes)
        await super().sync(new)


class TornStays(NotRewritten):
    """Writes behind a torn end."""

    async def rename(self, old: str, new: str) -> None:
        if old != REWRITTEN:
            await super().rename(old, new)


def with_disk(of: type[GuardedDisk]) -> Build:
    """Return the build of a node with another disk."""
    class Other(Node):
        def __init__(self, world: NodeWorld, me: str, voters: Any, machine: Machine, options: Options, step: core.Step):
            super().__init__(world, me, voters, machine, options, step)
            self.disk = of(world.disk, world.clock, options.disk_limit_ms)

    return node_of(Other)


# --- the node


def node_of(of: type[Node]) -> Build:
    return lambda world, shape, number: Impl(of)


class TermUnwritten(Node):
    """Writes a term only together with a vote in it."""

    async def _recover(self) -> Recovered:
        recovered = await super()._recover()
        assert self.log is not None
        self.log._records = partial(records_without_term, self.log)  # pyright: ignore[reportAttributeAccessIssue]
        return recovered


def records_without_term(log: DiskLog, save: Save) -> list[Record]:
    return [record for record in DiskLog._records(log, save) if record.type != HARD or save.vote]


class SyncedBefore(Node):
    """Tells the core that saves are durable before they are written."""

    async def _write_on(self) -> None:
        assert self.log is not None
        while True:
            await self.writing.wait()
            saves, self.saves = self.saves, []
            if saves:
                await self._give(Synced(saves[-1].number))
                await self.log.write(saves)


class AcknowledgedEarly(Node):
    """Reports a commit once the entry is in the leader's log."""

    async def propose(self, body: bytes) -> Done:
        self.check_running()
        outputs = self._step(Propose((body,)))
        for output in outputs:
            if isinstance(output, Refused):
                raise self._refusal(output, len(body))
        await self._send(outputs)
        return Done(next(output.first_index for output in outputs if isinstance(output, Accepted)), None)


class LostIsDenied(Node):
    """Reports an entry as refused after the leader stepped down."""

    async def propose(self, body: bytes) -> Done:
        try:
            return await super().propose(body)
        except LeadershipLost:
            raise NotLeader(self.state.me, "") from None


class ReadUnapplied(Node):
    """Answers a read once the node knows its index, whether it has applied it or not."""

    def _answer_read(self, output: ReadReady | ReadRefused) -> None:
        super()._answer_read(output)
        for _, waiter in self.readers:
            waiter.done()


class CutBefore(Node):
    """Cuts the log before the snapshot is written."""

    async def _make_snapshot(self) -> None:
        index = self.applied
        await self._give(Compact(index, max(index - self.options.keep_entries, 0)))
        self.writing.ring()
        term = term_at(self.state.log, index)
        assert term is not None
        snapshot = Snapshot(index, term, self.state.voters, self.machine.dump(self.value))
        await snapshots.store(self.disk, snapshot)
        self._take(snapshot)
        await snapshots.remove_older(self.disk, snapshot)


class RemovedBefore(Node):
    """Removes the earlier snapshots before the next one is written."""

    async def _make_snapshot(self) -> None:
        for name in await self.disk.names():
            if snapshots.is_snapshot(name):
                await self.disk.remove(name)
        await self.disk.sync_names()
        await super()._make_snapshot()


class LastTermWrong(Node):
    """Gives a snapshot the term of the last entry of the log."""

    async def _make_snapshot(self) -> None:
        index = self.applied
        snapshot = Snapshot(index, last_term(self.state.log), self.state.voters, self.machine.dump(self.value))
        await snapshots.store(self.disk, snapshot)
        self._take(snapshot)
        await self._give(Compact(index, max(index - self.options.keep_entries, 0)))
        self.writing.ring()


class AppliedMeanwhile(Node):
    """Gives a snapshot the index that is applied once its content is read, and not before."""

    async def _make_snapshot(self) -> None:
        content = self.machine.dump(self.value)
        await self.world.clock.sleep_ms(self.options.tick_ms)  # it is compressed meanwhile
        own, self.machine = self.machine, self.machine._replace(dump=lambda value: content)
        await super()._make_snapshot()
        self.machine = own


class HalfFetched(Node):
    """Takes the first half of a snapshot's content for the whole."""

    async def _fetched(self, fetched: Fetched) -> Snapshot | None:
        found = await super()._fetched(fetched)
        return found and found._replace(content=found.content[:len(found.content) // 2])


class FetchedAgain(Node):
    """Installs a snapshot also if the machine has applied more meanwhile."""

    async def _fetch(self, fetched: Fetched) -> None:
        snapshot = await self._fetched(fetched)
        if snapshot is None:
            await self._give(FetchFailed())
            return
        await snapshots.store(self.disk, snapshot)
        self._take(snapshot)
        self.applied = 0
        await self._give(Installed(snapshot.index, snapshot.term))


class NotRestored(Node):
    """Installs a snapshot, and lets the machine apply what follows to what it had."""

    def _do(self, output: Output) -> None:
        if isinstance(output, Restore):
            self.applied = max(self.applied, output.index)
        else:
            super()._do(output)


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "vote_unsynced": ("a vote is sent before it is durable", stepping((elections, "send_when_durable", effects.send))),
    "ack_unsynced": ("entries are acknowledged before they are durable",
                     stepping((following, "send_when_durable", effects.send))),
    "voted_twice": ("a server votes for every candidate of a term",
                    lambda world, shape, number: Impl(step=step_forgetting_votes)),
    "log_not_compared": ("a vote does not ask whose log ends later", stepping((elections, "is_up_to_date", always))),
    "half_elects": ("half of the servers elect a leader", stepping((elections, "majority", half))),
    "half_commits": ("half of the servers commit", stepping((replication, "majority", half))),
    "half_confirms": ("half of the servers confirm a read", stepping((reads, "majority", half))),
    "old_term_commit": ("a leader commits entries of earlier terms by counting", stepping((replication, "may_commit", always))),
    "leader_counts_unsynced": ("a leader counts itself before its own sync", stepping(
        (replication, "advance_commit", count_unsynced), (elections, "advance_commit", count_unsynced))),
    "cuts_what_agrees": ("an Append cuts all behind its entries, committed or not", stepping(
        (following, "first_difference", all_differs), (following, "check_uncommitted", none_is_committed))),
    "term_not_bounded": ("a server adopts any term of a message", lambda world, shape, number: Impl(step=NO_TERM_IS_FAR)),
    "votes_in_far_term": ("a server votes in the term of a message that is too far ahead",
                          lambda world, shape, number: Impl(step=step_voting_far)),
    "read_at_once": ("a leader answers reads without asking a quorum", stepping((reads, "begin", read_at_once))),
    "read_by_old_round": ("an answer to an earlier round confirms a read", stepping((reads, "begin", read_by_any_round))),
    "read_before_own_term": ("a new leader answers reads before it has committed", stepping((reads, "knows_commits", always))),
    "folder_unsynced": ("the folder is never synced", with_disk(NamesUnsynced)),
    "log_unsynced": ("the log is never synced", with_disk(Unsynced)),
    "failure_ignored": ("a node goes on after a sync that failed", with_disk(FailureIgnored)),
    "synced_again": ("a sync that failed is tried again", with_disk(SyncedAgain)),
    "late_is_done": ("a sync that took too long is taken for done", with_disk(LateIsDone)),
    "torn_stays": ("a torn end of the log is not cut", with_disk(TornStays)),
    "term_unwritten": ("a term is made durable only with a vote in it", node_of(TermUnwritten)),
    "synced_before": ("a save counts as durable before it is written", node_of(SyncedBefore)),
    "acknowledged_early": ("a commit is reported once the leader has the entry", node_of(AcknowledgedEarly)),
    "lost_is_denied": ("an entry whose leader stepped down is reported as refused", node_of(LostIsDenied)),
    "read_unapplied": ("a read is answered before its index is applied", node_of(ReadUnapplied)),
    "snapshot_unsynced": ("a snapshot is not synced", with_disk(SnapshotUnsynced)),
    "cut_before_snapshot": ("the log is cut before the snapshot is written", node_of(CutBefore)),
    "removed_before_snapshot": ("earlier snapshots are removed before the next one is written", node_of(RemovedBefore)),
    "snapshot_term_wrong": ("a snapshot has the term of the log's last entry", node_of(LastTermWrong)),
    "snapshot_index_late": ("a snapshot's index is taken after its content", node_of(AppliedMeanwhile)),
    "snapshot_half": ("half of a fetched snapshot is taken for the whole", node_of(HalfFetched)),
    "snapshot_not_restored": ("a snapshot is installed, and the machine does not take its content", node_of(NotRestored)),
    "snapshot_moves_backwards": ("a snapshot that covers less than the node has applied is installed",
                                 lambda world, shape, number: Impl(FetchedAgain, step_installing_all)),
}
# Drawn runs seldom find these. They die with more faults: a Build, and the weights.
MORE_FAULTS = NodeWeights()._replace(lost=60, cut=20, stall=12, crash=8)
ONLY_LENGTHS_COMPARED = stepping((elections, "is_up_to_date", is_longer)), MORE_FAULTS
# A transfer that failed stays pending, and the leader refuses all proposals. The message to the target must have been lost.
TRANSFER_NEVER_ENDS = stepping((transfer, "tick", lambda state: state)), NodeWeights()._replace(lost=200, crash=0)
MODEL = ("refinement:Server.", "refinement:machine", "refinement:message", "refinement:LogMatching")
HARM = ("safety:R", "safety:I17", "raft:", "history:")
READS = ("call:read", "history:stale read", "history:read went back")
ON_DISK = (*MODEL, *HARM)
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    **dict.fromkeys(("voted_twice", "log_not_compared", "half_elects", "half_commits", "cuts_what_agrees"), (MODEL, HARM)),
    **dict.fromkeys(("vote_unsynced", "old_term_commit", "leader_counts_unsynced",
                     "term_unwritten", "term_not_bounded", "votes_in_far_term"), (MODEL, ())),
    **dict.fromkeys(("half_confirms", "read_at_once", "read_by_old_round", "read_before_own_term", "read_unapplied"),
                    (READS, ())),
    **dict.fromkeys(("ack_unsynced", "folder_unsynced", "log_unsynced", "synced_before", "snapshot_unsynced",
                     "cut_before_snapshot", "removed_before_snapshot", "snapshot_term_wrong"), (ON_DISK, HARM)),
    **dict.fromkeys(("snapshot_index_late", "snapshot_half", "snapshot_not_restored"), (("call:read", *HARM), HARM)),
    "snapshot_moves_backwards": ((*ON_DISK, "liveness:"), ()),
    **dict.fromkeys(("failure_ignored", "synced_again", "late_is_done", "torn_stays"), (ON_DISK, ())),
    "acknowledged_early": (("call:propose index", "history:"), ("history:",)),
    "lost_is_denied": (("call:propose failed", "history:"), ("history:",)),
}
MUTANTS = Mutants(BUILDS, ORACLES)
