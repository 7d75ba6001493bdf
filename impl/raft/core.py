"""Safety: servers never apply different entries at one index, whatever the network does, and with any crashes.

Raft without I/O: `step` takes a server's state and one input, and returns the next state and what to do (state.py). It is a
pure function. Who leads is the subject of elections.py, what the leader and followers do of replication.py and following.py,
and what must be durable first of effects.py.
"""

from collections.abc import Callable

from highwater.impl.raft import elections, following, in_force, membership, reads, replication, terms, transfer
from highwater.impl.raft.effects import close, synced
from highwater.impl.raft.entries import last_index, term_at, without_before
from highwater.impl.raft.members import Configuration, Members
from highwater.impl.raft.messages import (
    Append,
    Appended,
    Conflict,
    Heartbeat,
    HeartbeatReply,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    ReadIndex,
    ReadIndexReply,
    RequestVote,
    TimeoutNow,
    Vote,
)
from highwater.impl.raft.state import (
    FOLLOWER,
    LEADER,
    Campaign,
    Change,
    Compact,
    Config,
    FetchFailed,
    Input,
    Installed,
    Output,
    Propose,
    Read,
    Received,
    Restart,
    State,
    Synced,
    Tick,
    TransferTo,
    Unsynced,
)

Step = Callable[[State, Input], tuple[State, tuple[Output, ...]]]
USUAL = Config()


def server(me: str, voters: tuple[str, ...], config: Config = USUAL) -> State:
    """Return the state before the first input, which is Restart. `voters`: those of the beginning; none for a server that
    joined later. Raises ValueError for bad settings, or a server that is not among `voters`, if there are any."""
    config.check()
    if (voters and me not in voters) or len(set(voters)) != len(voters):
        raise ValueError(f"the server {me!r} must be one of the voters {', '.join(voters)}, and each must be named once")
    of = Members(tuple(sorted(voters)))
    return State(me, of.voters, config, configurations=(Configuration(0, of),))


def step(state: State, given: Input) -> tuple[State, tuple[Output, ...]]:
    """Take one input. Raises Contradiction if a committed entry would change."""
    return close(INPUTS[type(given)](state, given))


def restart(state: State, given: Restart) -> State:
    """Begin as a follower, with what the disk has."""
    snapshot_term = term_at(given.log, given.snapshot_index)
    if snapshot_term is None:
        raise ValueError(f"the log from {given.log.base_index + 1} to {last_index(given.log)} does not go on from the snapshot "
                         f"up to {given.snapshot_index}")
    state = state._replace(term=given.term, vote=given.vote, log=given.log, commit=given.snapshot_index,
                           snapshot=(given.snapshot_index, snapshot_term), random=given.seed % terms.BITS,
                           durable=Unsynced(0, given.term, given.vote, last_index(given.log)))
    return terms.with_new_timeout(in_force.found(state, given))


def tick(state: State, given: Tick) -> State:
    state = state._replace(elapsed=state.elapsed + 1, since_leap=state.since_leap + 1,
                           stalled=state.stalled + 1 if state.unsynced else 0)
    if state.role != LEADER:
        return elections.campaign(state) if state.elapsed >= state.timeout else state
    if elections.is_stalled(state):
        return terms.become_follower(state, state.term, "")
    state = membership.settled(transfer.tick(state))
    if state.role == LEADER and state.elapsed >= state.config.election_ticks:
        state = elections.check_quorum(state._replace(elapsed=0))
    if state.role != LEADER:
        return state
    state = state._replace(since_heartbeat=state.since_heartbeat + 1)
    return reads.beat(state) if state.since_heartbeat >= state.config.heartbeat_ticks else state


def received(state: State, given: Received) -> State:
    """Take a message, after the rules on its term."""
    sender, message = given
    if sender == state.me:
        return state
    if message.term > state.term + terms.FAR:
        return terms.far_ahead(state, sender, message.term)
    if disturbs(state, message) or is_strange(state, sender):
        return state
    if message.term > state.term and not is_hypothetical(message):
        leader = sender if isinstance(message, Append | Heartbeat | InstallSnapshot) else ""
        state = terms.become_follower(state, message.term, leader)
    if message.term < state.term and not isinstance(message, ReadIndex):  # whoever asks, the index is of now
        asks = isinstance(message, Append | Heartbeat | InstallSnapshot | PreVote | RequestVote)
        return elections.tell_term(state, sender) if asks else state
    return MESSAGES[type(message)](state, sender, message)


def disturbs(state: State, message: Message) -> bool:
    """Tell whether to ignore a candidate of a later term, because there is a leader."""
    return (isinstance(message, PreVote | RequestVote) and message.term > state.term and elections.heard_of_leader(state)
            and not (isinstance(message, RequestVote) and message.transfer))


def is_strange(state: State, sender: str) -> bool:
    """Tell whether to ignore a sender that is no member, as far as this server knows, because there is a leader.

    Without one it is heard: it may belong to the group by changes that this server does not have yet."""
    return sender != state.leader and elections.heard_of_leader(state) and not in_force.is_known(state, sender)


def is_hypothetical(message: Message) -> bool:
    """Tell whether the message's term is one that nobody has taken yet."""
    return isinstance(message, PreVote) or (isinstance(message, PreVoteReply) and message.granted)


def from_leader(rule: Callable) -> Callable:
    """Precede a rule by another one: the sender of such a message leads this term."""
    def applied(state: State, sender: str, message: Message) -> State:
        if state.role == LEADER:
            raise following.Contradiction(f"{state.me} and {sender} both lead term {state.term}: a server voted twice; compare "
                                          "the logs before any node is restarted")
        if state.leader != sender or state.role != FOLLOWER:
            state = terms.become_follower(state, state.term, sender)
        return rule(state._replace(elapsed=0), sender, message)
    return applied


def at_leader(rule: Callable) -> Callable:
    """Let a rule hold only while this server leads the sender."""
    def applied(state: State, sender: str, message: Message) -> State:
        follows = state.role == LEADER and any(follower.name == sender for follower in state.followers)
        return rule(state, sender, message) if follows else state
    return applied


def disk_synced(state: State, given: Synced) -> State:
    state = elections.own_vote(synced(state, given.number))
    return replication.advance_commit(state) if state.role == LEADER else state


def compact(state: State, given: Compact) -> State:
    """Forget entries that a snapshot covers. An older snapshot than the known one changes nothing."""
    if given.snapshot_index < state.snapshot[0]:
        return state
    last_term = term_at(state.log, given.snapshot_index)
    assert last_term is not None and given.index <= given.snapshot_index <= state.commit
    index = max(given.index, state.log.base_index)
    state = in_force.forgotten(state, given.snapshot_index)
    return state._replace(snapshot=(given.snapshot_index, last_term), log=without_before(state.log, index))


INPUTS: dict[type, Callable] = {
    Restart: restart,
    Tick: tick,
    Received: received,
    Synced: disk_synced,
    Propose: lambda state, given: replication.propose(state, given.bodies, given.kind),
    Read: lambda state, given: reads.read(state, given.read),
    TransferTo: lambda state, given: transfer.transfer(state, given.target),
    Change: membership.change,
    Campaign: lambda state, given: elections.campaign(state),
    Compact: compact,
    Installed: lambda state, given: following.installed(state, given.index, given.last_term, given.members),
    FetchFailed: lambda state, given: state._replace(fetching=None),
}
MESSAGES: dict[type, Callable] = {
    PreVote: elections.pre_vote_asked,
    PreVoteReply: elections.pre_vote_answered,
    RequestVote: elections.vote_asked,
    Vote: elections.vote_answered,
    Append: from_leader(following.append),
    Appended: at_leader(replication.appended),
    Conflict: at_leader(replication.refused),
    Heartbeat: from_leader(following.heartbeat),
    HeartbeatReply: at_leader(replication.heartbeat_answered),
    InstallSnapshot: from_leader(following.offered),
    ReadIndex: reads.asked,
    ReadIndexReply: lambda state, sender, message: reads.answered(state, message),
    TimeoutNow: lambda state, sender, message: elections.campaign(state, transfer=True),
}
