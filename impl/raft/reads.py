"""Safety: a read sees every write that was acknowledged before it came.

The leader takes its commit index as the read's. It must have committed an entry of its own term, or it may not know of commits
by leaders before it. Then a quorum has to answer a round of heartbeats that began after the read came: so no other leader had
committed anything when it came. Whoever asked waits until its machine has applied all up to that index.
"""

from highwater.impl.raft.effects import emit, send, send_in_term
from highwater.impl.raft.entries import term_at
from highwater.impl.raft.messages import Heartbeat, ReadIndex, ReadIndexReply
from highwater.impl.raft.state import LEADER, PendingRead, ReadReady, ReadRefused, State
from highwater.impl.raft.terms import majority, of_voters

READS = 1_000  # of one follower, that wait at the leader


def beat(state: State) -> State:
    """Send heartbeats to all followers. Each gets a commit index that it is known to have."""
    for follower in state.followers:
        commit = min(state.commit, follower.match_index)
        state = send(state, follower.name, Heartbeat(state.term, commit, state.round))
    return state._replace(since_heartbeat=0)


def read(state: State, name: str) -> State:
    """Serve a client's read: at the leader by a round of heartbeats, elsewhere by asking the leader."""
    if state.role == LEADER:
        return begin(state, name, state.me)
    if not state.leader:
        return emit(state, ReadRefused(name))
    return send_in_term(state, state.leader, ReadIndex(state.term, name))


def asked(state: State, sender: str, message: ReadIndex) -> State:
    """Serve the read of a follower, unless too many of it wait: each is looked at with each answer to a heartbeat."""
    if state.role != LEADER or sum(pending.asker == sender for pending in state.reads) >= READS:
        return send_in_term(state, sender, ReadIndexReply(state.term, message.read, -1))
    return begin(state, message.read, sender)


def answered(state: State, message: ReadIndexReply) -> State:
    """Hand the leader's answer to the client."""
    known = message.index >= 0
    return emit(state, ReadReady(message.read, message.index) if known else ReadRefused(message.read, state.leader))


def begin(state: State, name: str, asker: str) -> State:
    """Let a read wait for a new round of heartbeats, or first for an entry of the leader's own term to be committed."""
    pending = PendingRead(name, asker)
    if not knows_commits(state):
        return state._replace(reads=(*state.reads, pending))
    pending = pending._replace(index=state.commit, round=state.round + 1)
    return confirm(beat(state._replace(reads=(*state.reads, pending), round=state.round + 1)))


def knows_commits(state: State) -> bool:
    """Tell whether an entry of the leader's own term is committed: then it knows of all commits before its term."""
    return term_at(state.log, state.commit) == state.term


def begin_waiting(state: State) -> State:
    """Begin a round for the reads that waited for the first commit of this term."""
    if not any(pending.index is None for pending in state.reads) or not knows_commits(state):
        return state
    number = state.round + 1
    reads = tuple(pending._replace(index=state.commit, round=number) if pending.index is None else pending
                  for pending in state.reads)
    return confirm(beat(state._replace(reads=reads, round=number)))


def confirm(state: State) -> State:
    """Answer the reads whose round a quorum has answered."""
    rounds = of_voters(state, state.round, [(follower.name, follower.round) for follower in state.followers])
    confirmed = rounds[majority(state) - 1]
    for pending in state.reads:
        if pending.index is not None and pending.round <= confirmed:
            state = ready(state, pending)
    return state._replace(reads=tuple(p for p in state.reads if p.index is None or p.round > confirmed))


def ready(state: State, pending: PendingRead) -> State:
    assert pending.index is not None
    if pending.asker == state.me:
        return emit(state, ReadReady(pending.read, pending.index))
    return send(state, pending.asker, ReadIndexReply(state.term, pending.read, pending.index))
