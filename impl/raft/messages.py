"""Defines the messages between the servers of one Raft group. Each has the sender's term, and says nothing of who sends it."""

from typing import NamedTuple

from highwater.impl.raft.entries import Entry


class PreVote(NamedTuple):
    """«Would you vote for me in `term`?» Asked before the term is taken, so a server that is cut off disturbs nobody."""

    term: int  # the term that the sender would take: one more than its own
    last_index: int
    last_term: int


class PreVoteReply(NamedTuple):
    """An answer to PreVote. `term` is the asked one if it is granted, otherwise the own term of who refuses."""

    term: int
    granted: bool


class RequestVote(NamedTuple):
    """A candidate asks for a vote. Sent once its own vote is durable."""

    term: int
    last_index: int
    last_term: int
    transfer: bool = False  # the leader itself asked for this election, so nobody refuses for the leader's sake


class Vote(NamedTuple):
    """An answer to RequestVote. Sent once term and vote are durable."""

    term: int
    granted: bool


class Append(NamedTuple):
    """The leader's entries that follow the one at (prev_index, prev_term)."""

    term: int
    prev_index: int
    prev_term: int
    entries: tuple[Entry, ...]
    commit: int  # the leader's commit index


class Appended(NamedTuple):
    """The follower's log equals the leader's up to `match_index`, durably."""

    term: int
    match_index: int


class Conflict(NamedTuple):
    """The follower has no entry (prev_index, prev_term); at best the logs agree up to `hint_index`."""

    term: int
    prev_index: int  # as in the refused Append
    hint_index: int  # the follower's last index that may agree, at most prev_index
    hint_term: int  # the term of the follower's entry there


class Heartbeat(NamedTuple):
    """The leader leads. `commit` is no more than what the follower is known to have."""

    term: int
    commit: int
    round: int  # the leader's latest round of heartbeats


class HeartbeatReply(NamedTuple):
    """The sender follows this leader, and has seen `round` of its heartbeats."""

    term: int
    round: int


class ClockedReply(NamedTuple):
    """A HeartbeatReply with the clock of its sender. Drivers exchange it; the core is given the HeartbeatReply in it."""

    term: int
    round: int
    clock_ms: int  # since the epoch, when it was sent; 0 for a clock before that


class InstallSnapshot(NamedTuple):
    """The leader offers its snapshot up to `index`, because it has no more entries that the follower needs.

    The content is not here: the follower's driver fetches it from the leader's, see `FetchSnapshot` in state.py.
    """

    term: int
    index: int  # of the last entry that the snapshot covers
    last_term: int  # of that entry


class ReadIndex(NamedTuple):
    """A follower asks the leader for an index that a linearizable read has to wait for."""

    term: int
    read: str  # the id of the read, never given twice


class ReadIndexReply(NamedTuple):
    """The answer to ReadIndex. `index` is -1 if the receiver was no leader, or is none any more."""

    term: int
    read: str
    index: int


class TimeoutNow(NamedTuple):
    """The leader hands its leadership over: begin an election at once."""

    term: int


Message = (PreVote | PreVoteReply | RequestVote | Vote | Append | Appended | Conflict | Heartbeat | HeartbeatReply
           | InstallSnapshot | ReadIndex | ReadIndexReply | TimeoutNow)
