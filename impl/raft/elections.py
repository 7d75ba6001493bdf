"""Safety: at most one server leads a term, and it has every committed entry.

A server gives one vote a term, durably, and only to a candidate whose log is at least as up to date as its own. With pre-vote a
server first asks whether it would be elected, so that one which was cut off does not depose a leader. With check-quorum a
leader that hears of no quorum steps down, and followers that hear of a leader ignore candidates.
"""

from highwater.impl.raft import in_force
from highwater.impl.raft.effects import emit, put, send_in_term, send_when_durable
from highwater.impl.raft.entries import NOOP, is_up_to_date, last_index, last_term, made
from highwater.impl.raft.messages import PreVote, PreVoteReply, RequestVote, Vote
from highwater.impl.raft.replication import advance_commit, send_appends
from highwater.impl.raft.state import CANDIDATE, LEADER, PRE_CANDIDATE, Lead, Progress, State
from highwater.impl.raft.terms import become_follower, counted, majority, others, with_new_timeout


def campaign(state: State, transfer: bool = False) -> State:
    """Begin an election; with pre-vote only ask first, unless the leader itself asked for the election (`transfer`).

    A server whose disk has stalled does not: its own vote would never be durable. Neither does one that may not stand.
    """
    if state.role == LEADER or is_stalled(state) or not in_force.may_stand(state):
        return state
    if transfer or not state.config.pre_vote:
        return begin_election(state, transfer)
    state = with_new_timeout(state._replace(role=PRE_CANDIDATE, leader="", granted=frozenset({state.me}),
                                            refused=frozenset()))
    for name in others(state):
        state = send_in_term(state, name, PreVote(state.term + 1, last_index(state.log), last_term(state.log)))
    return count(state)


def is_stalled(state: State) -> bool:
    return bool(state.unsynced) and state.stalled >= state.config.election_ticks


def begin_election(state: State, transfer: bool = False) -> State:
    """Take the next term as a candidate. Its own vote counts once it is durable, and only then are others asked for theirs."""
    state = with_new_timeout(state._replace(term=state.term + 1, vote=state.me, role=CANDIDATE, leader="", held=(),
                                            granted=frozenset(), refused=frozenset()))
    for name in others(state):
        message = RequestVote(state.term, last_index(state.log), last_term(state.log), transfer)
        state = send_when_durable(state, name, message)
    return state


def own_vote(state: State) -> State:
    """Count a candidate's own vote, if it is durable."""
    durable = state.durable
    if state.role != CANDIDATE or (durable.term, durable.vote) != (state.term, state.me):
        return state
    return count(state._replace(granted=state.granted | {state.me}))


# --- the voter


def heard_of_leader(state: State) -> bool:
    """Tell whether this server would disturb a leader that works, if it took part in an election."""
    return state.config.check_quorum and bool(state.leader) and state.elapsed < state.config.election_ticks


def pre_vote_asked(state: State, sender: str, message: PreVote) -> State:
    """Answer without a promise."""
    granted = message.term > state.term and is_up_to_date(state.log, message.last_index, message.last_term)
    if granted:
        return send_in_term(state, sender, PreVoteReply(message.term, True))
    return send_in_term(state, sender, PreVoteReply(state.term, False))


def vote_asked(state: State, sender: str, message: RequestVote) -> State:
    """Vote for the first candidate of the term that has a log as good as the own one."""
    granted = has_vote_for(state, sender) and is_up_to_date(state.log, message.last_index, message.last_term)
    if granted:
        state = state._replace(vote=sender, elapsed=0)
    return send_when_durable(state, sender, Vote(state.term, granted))


def has_vote_for(state: State, candidate: str) -> bool:
    """Tell whether this server may vote for the candidate in its term: it did already, or it has voted for nobody.

    A server that joins votes for nobody before it has an entry: one with its name, whose folder is lost, may have voted. Then
    it has its term from the leader that lets it join. A server without an entry is no voter, so no election waits for it."""
    if not state.voters and not last_index(state.log):
        return False
    return state.vote == candidate or (not state.vote and not state.leader)


# --- the candidate


def pre_vote_answered(state: State, sender: str, message: PreVoteReply) -> State:
    if state.role != PRE_CANDIDATE or (message.granted and message.term != state.term + 1):
        return state
    return answered(state, sender, message.granted)


def vote_answered(state: State, sender: str, message: Vote) -> State:
    return answered(state, sender, message.granted) if state.role == CANDIDATE else state


def answered(state: State, sender: str, granted: bool) -> State:
    if granted:
        return count(state._replace(granted=state.granted | {sender}))
    return count(state._replace(refused=state.refused | {sender}))


def count(state: State) -> State:
    """Go on with a quorum's votes, and be a follower again if it can no longer be had."""
    if counted(state, state.granted) >= majority(state):
        return begin_election(state) if state.role == PRE_CANDIDATE else lead(state)
    if counted(state, state.refused) >= majority(state):
        return become_follower(state, state.term, "")
    return state


def lead(state: State) -> State:
    """Lead the term, and open it with an entry that has no effect: once it is committed, so is all before it."""
    following = last_index(state.log) + 1
    state = state._replace(role=LEADER, leader=state.me, elapsed=0, since_heartbeat=0, round=0, reads=(), transfer=None,
                           left=frozenset(), granted=frozenset(), refused=frozenset(),
                           uncommitted_bytes=sum(len(entry.body) for entry in
                                                 state.log.entries[state.commit - state.log.base_index:]),
                           followers=tuple(Progress(name, next_index=following) for name in in_force.peers(state)))
    state = put(emit(state, Lead(state.term)), following, (made(state.term, NOOP, b""),))
    return advance_commit(send_appends(state))


def check_quorum(state: State) -> State:
    """Let a leader step down unless a quorum was heard of since the last check."""
    if not state.config.check_quorum:
        return state
    active = frozenset({state.me, *(follower.name for follower in state.followers if follower.active)})
    if counted(state, active) < majority(state):
        return become_follower(state, state.term, "")
    return state._replace(followers=tuple(follower._replace(active=False) for follower in state.followers))


def tell_term(state: State, sender: str) -> State:
    """Tell a server that is behind of the own term, so that it does not stay a leader or candidate of an old one."""
    return send_in_term(state, sender, Vote(state.term, False))
