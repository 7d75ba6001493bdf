"""Defines the state of one Raft server, and what goes in and out of `step` (core.py). All of it is immutable.

One step takes one input, and returns the next state and the outputs. It neither waits nor does I/O: a driver (node.py) does
what the outputs say, in their order, and tells with the next inputs what came of it.

What must be durable before what: a step that changes term, vote or log puts out one `Save`, with the next number. A message
that needs something to be durable is not put out then. It stands in `State.held` with the number of the save that it needs, and
the input `Synced` lets it out. So a driver may send at once whatever is put out, and may make any number of saves durable with
one sync, in their order.
"""

from typing import NamedTuple

from highwater.impl.raft.entries import COMMAND, Entry, Log
from highwater.impl.raft.members import Configuration, Members
from highwater.impl.raft.messages import Message

FOLLOWER, PRE_CANDIDATE, CANDIDATE, LEADER = "follower", "pre-candidate", "candidate", "leader"
PROBE, REPLICATE, SNAPSHOT = "probe", "replicate", "snapshot"  # what a leader does with a follower


class Config(NamedTuple):
    """The settings of a server. Times are in ticks: the driver says how long one is."""

    election_ticks: int = 10  # an election begins after this many to twice as many ticks without a leader
    heartbeat_ticks: int = 1
    max_entry_bytes: int = 1 << 20  # larger proposals are refused
    max_append_bytes: int = 1 << 20  # bodies in one Append, unless one entry alone is larger
    max_inflight: int = 64  # Appends to one follower without an answer
    max_uncommitted_bytes: int = 64 << 20  # bodies of a leader's uncommitted entries; then proposals are refused
    pre_vote: bool = True
    check_quorum: bool = True
    caught_up_entries: int = 100  # a learner that lacks no more may become a voter

    def check(self) -> None:
        """Raises ValueError for settings with which no leader would stay."""
        if self.election_ticks <= self.heartbeat_ticks or self.heartbeat_ticks < 1:
            raise ValueError(f"election_ticks={self.election_ticks} must be more than heartbeat_ticks={self.heartbeat_ticks}, "
                             "and that at least 1: otherwise followers miss heartbeats that are on time")
        if min(self.max_inflight, self.max_append_bytes, self.max_entry_bytes, self.max_uncommitted_bytes,
               self.caught_up_entries) < 1:
            raise ValueError("every limit must be at least 1")


class Unsynced(NamedTuple):
    """A save: once it is durable, so are this term and vote, and the log up to `index`.

    `index` falls when a later step cuts the log below it, so an entry put there afterwards never counts as durable too early.
    """

    number: int
    term: int
    vote: str
    index: int


class Held(NamedTuple):
    """A message that goes out once the save `number` is durable, unless the term changes before."""

    number: int
    to: str
    message: Message


class Progress(NamedTuple):
    """The knowledge that a leader has of one follower."""

    name: str
    match_index: int = 0  # the follower's log equals the leader's up to here, durably
    next_index: int = 1  # the next entry to send
    mode: str = PROBE
    inflight: tuple[int, ...] = ()  # last indexes of Appends without an answer, ascending
    paused: bool = False  # PROBE: one Append is under way, SNAPSHOT: offered; until an answer or a heartbeat's reply
    active: bool = True  # it was heard since the last check of the quorum
    round: int = 0  # the latest round of heartbeats that it answered


class PendingRead(NamedTuple):
    """A read at the leader that waits for a round of heartbeats, which begins after the read came."""

    read: str
    asker: str  # the server that wants to know
    index: int | None = None  # None until an entry of the leader's own term is committed
    round: int = 0  # a quorum has to answer this round, or a later one


class Transfer(NamedTuple):
    """A leader hands over to `target`, and takes no proposals meanwhile."""

    target: str
    elapsed: int = 0  # ticks
    asked: bool = False  # TimeoutNow was sent


class State(NamedTuple):
    """A server's state. `term`, `vote` and `log` are on its disk as far as `durable` says; all else is lost in a crash."""

    me: str
    voters: tuple[str, ...]  # the servers that count, sorted: of the last of `configurations`
    config: Config
    # who belongs to the group, by the own log
    learners: tuple[str, ...] = ()  # the servers that get entries and do not count, sorted
    configurations: tuple[Configuration, ...] = ()  # ascending: that of the snapshot or the beginning, and the changes after it
    # the paper's
    term: int = 0
    vote: str = ""  # whom it voted for in `term`; "": nobody
    log: Log = Log()
    commit: int = 0
    role: str = FOLLOWER
    leader: str = ""  # of `term`, if known
    # its disk
    number: int = 0  # of the latest save
    durable: Unsynced = Unsynced(0, 0, "", 0)  # what is certainly on the disk
    unsynced: tuple[Unsynced, ...] = ()  # saves after `durable`, ascending
    held: tuple[Held, ...] = ()
    stalled: int = 0  # ticks since a save became durable, while there are others
    # elections
    random: int = 0  # the state of the generator of election timeouts, 64 bits
    timeout: int = 0  # ticks without a leader after which this server begins an election
    elapsed: int = 0  # ticks since it heard of the leader, or gave a vote; at a leader: since it checked its quorum
    since_leap: int = 0  # ticks since it started, or raised its term for a message that was too far ahead
    granted: frozenset[str] = frozenset()  # a candidate's votes, or a pre-candidate's
    refused: frozenset[str] = frozenset()
    # leaders
    followers: tuple[Progress, ...] = ()  # sorted, without `me`
    since_heartbeat: int = 0  # ticks
    round: int = 0  # of heartbeats, in this term
    uncommitted_bytes: int = 0  # bodies of the entries after `commit`
    reads: tuple[PendingRead, ...] = ()  # oldest first
    transfer: Transfer | None = None
    left: frozenset[str] = frozenset()  # the voters that this leader has removed in its term
    # snapshots
    snapshot: tuple[int, int] = (0, 0)  # (index, last term) of the own one, which is durable and verified
    fetching: tuple[int, int] | None = None  # (index, last term) of the snapshot that the driver fetches
    # within one step; empty between steps
    changed_from: int | None = None  # the first index at which this step changed the log
    base: tuple[int, int] | None = None  # (index, term) after which this step let the log begin anew
    replies: tuple[tuple[str, Message], ...] = ()  # wait until the latest save is durable
    outputs: tuple["Output", ...] = ()


# --- inputs


class Restart(NamedTuple):
    """The first input: what was found on the disk. `seed` makes the election timeouts of servers differ."""

    term: int
    vote: str
    log: Log
    snapshot_index: int  # all up to here is committed, and in the machine
    seed: int
    members: Members | None = None  # those of the snapshot; None: as at the beginning


class Tick(NamedTuple):
    """One unit of time is over."""


class Received(NamedTuple):
    """A message came from another server."""

    sender: str
    message: Message


class Synced(NamedTuple):
    """All saves up to `number` are durable."""

    number: int


class Propose(NamedTuple):
    """Entries of a client, or one that raises the level. All of them are accepted, or all refused."""

    bodies: tuple[bytes, ...]
    kind: int = COMMAND  # or LEVEL


class Read(NamedTuple):
    """A client wants a linearizable read. `read` is an id that is never given twice, not even after a restart."""

    read: str


class TransferTo(NamedTuple):
    """The operator wants `target` to lead."""

    target: str


class Change(NamedTuple):
    """The operator wants a server to join as a learner, a learner to become a voter, or a server to leave."""

    what: str  # one of the words below
    name: str
    address: str = ""  # where a server that joins is dialled


LEARN, PROMOTE, REMOVE = "learn", "promote", "remove"


class Campaign(NamedTuple):
    """Begin an election now, as if the timeout were over."""


class Compact(NamedTuple):
    """A durable and verified snapshot covers all up to `snapshot_index`: forget the entries up to `index`, which is not more.

    The entries between the two stay for followers that are a little behind."""

    snapshot_index: int
    index: int


class Installed(NamedTuple):
    """The fetched snapshot is durable and verified."""

    index: int
    last_term: int
    members: Members | None = None  # None: as at the beginning


class FetchFailed(NamedTuple):
    """The offered snapshot could not be fetched: wait for the next offer."""


Input = (Restart | Tick | Received | Synced | Propose | Read | TransferTo | Change | Campaign | Compact | Installed
         | FetchFailed)

# --- outputs


class Save(NamedTuple):
    """Make this durable, after all earlier saves, and then give `Synced(number)`."""

    number: int
    term: int
    vote: str
    first_index: int  # what the disk has from here on is void, and `entries` are put there
    entries: tuple[Entry, ...]
    base: tuple[int, int] | None = None  # (index, term): the log begins anew after this entry of an installed snapshot


class Send(NamedTuple):
    """Send a message. It may get lost."""

    to: str
    message: Message


class Accepted(NamedTuple):
    """The proposal is in the leader's log, at `first_index` and following. It is committed if an entry of `term` is there then.

    If an entry of another term is committed there, the proposal has no effect and never will."""

    term: int
    first_index: int


class Refused(NamedTuple):
    """The proposal, the transfer or the change has no effect. `why` is one of the words below."""

    why: str
    leader: str = ""  # a hint where to go, if known


NOT_LEADER, TOO_LARGE, QUEUE_FULL = "not leader", "too large", "queue full"
HANDING_OVER, NO_VOTER = "handing over", "no voter"
OWN_TERM_UNCOMMITTED, CHANGE_UNDER_WAY, NOT_CAUGHT_UP = "own term uncommitted", "change under way", "not caught up"
NO_CHANGE, NO_LEARNER, LAST_VOTER, LEFT = "no change", "no learner", "last voter", "left in this term"


class ReadReady(NamedTuple):
    """The read may go on once the machine has applied all up to `index`."""

    read: str
    index: int


class ReadRefused(NamedTuple):
    """No index for this read: no leader is known, or it changed. Ask again with a new id."""

    read: str
    leader: str = ""


class FetchSnapshot(NamedTuple):
    """Fetch the snapshot up to `index` from the leader, make it durable, verify it, and give `Installed` or `FetchFailed`."""

    leader: str
    index: int
    last_term: int


class Restore(NamedTuple):
    """The installed snapshot holds all up to `index`: let the machine have its content, unless it has applied more."""

    index: int


class Lead(NamedTuple):
    """This server leads `term` from now on."""

    term: int


class StepDown(NamedTuple):
    """This server does not lead any more: proposals that were accepted may still be committed, by others."""

    term: int  # that it led


class FarAhead(NamedTuple):
    """A message was ignored, because its term is too far ahead of this server's (terms.py)."""

    sender: str
    term: int
    raised: bool  # this server has raised its own term


Output = Save | Send | Accepted | Refused | ReadReady | ReadRefused | FetchSnapshot | Restore | Lead | StepDown | FarAhead
