"""Safety: a follower's log equals its leader's as far as it says so, and never loses a committed entry.

The follower's side of replication.
"""

from highwater.impl.raft.effects import begin_anew, emit, put, send_in_term, send_when_durable
from highwater.impl.raft.entries import agreeing, last_index, term_at
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Append, Appended, Conflict, Heartbeat, HeartbeatReply, InstallSnapshot
from highwater.impl.raft.replication import commit_up_to
from highwater.impl.raft.state import FOLLOWER, LEADER, FetchSnapshot, Restore, State
from highwater.impl.raft.terms import become_follower


class Contradiction(Exception):
    """A committed entry would change: one of the servers lost what it had made durable, or has a bug. The server must stop."""


def append(state: State, leader: str, message: Append) -> State:
    """Take the leader's entries, in the place of entries that contradict them. Raises Contradiction."""
    if message.prev_index < state.log.base_index:
        return send_when_durable(state, leader, Appended(state.term, state.commit))
    if term_at(state.log, message.prev_index) != message.prev_term:
        check_uncommitted(state, message.prev_index)
        hint = agreeing(state.log, message.prev_index, message.prev_term)
        return send_in_term(state, leader, Conflict(state.term, message.prev_index, *hint))
    match = message.prev_index + len(message.entries)
    new = first_difference(state, message)
    if new < len(message.entries):
        first = message.prev_index + 1 + new
        check_uncommitted(state, first)
        state = put(state, first, message.entries[new:])
    match = max(match, state.commit)
    state = state._replace(commit=max(state.commit, min(message.commit, match)))
    return send_when_durable(state, leader, Appended(state.term, match))


def first_difference(state: State, message: Append) -> int:
    """Return how many of the message's entries the log has already. What follows those in the log is cut only for others."""
    for place, entry in enumerate(message.entries):
        if term_at(state.log, message.prev_index + 1 + place) != entry.term:
            return place
    return len(message.entries)


def check_uncommitted(state: State, index: int) -> None:
    """Raises Contradiction if the entry at `index`, of which the leader has another one, is committed."""
    if index <= state.commit:
        raise Contradiction(f"{state.me}: entry {index} is committed, and {state.leader}, which leads term {state.term}, has "
                            "another one: a server lost what it had made durable; compare the logs before you start any again")


def heartbeat(state: State, leader: str, message: Heartbeat) -> State:
    """Learn the commit index, and tell the leader that it leads."""
    state = state._replace(commit=max(state.commit, min(message.commit, last_index(state.log))))
    return send_in_term(state, leader, HeartbeatReply(state.term, message.round))


def offered(state: State, leader: str, message: InstallSnapshot) -> State:
    """Fetch the offered snapshot, unless the log has as much, or a fetch is under way.

    The term must be durable before. Otherwise a restart might find the snapshot in an earlier term. The leader of that term may
    have other entries there, and would seem to contradict what is committed.
    """
    if message.index <= state.commit:
        return send_when_durable(state, leader, Appended(state.term, state.commit))
    if state.fetching is not None or state.durable.term != state.term:
        return state
    state = state._replace(fetching=(message.index, message.last_term))
    return emit(state, FetchSnapshot(leader, message.index, message.last_term))


def installed(state: State, index: int, last_term: int, members: Members | None = None) -> State:
    """Go on after an installed snapshot, which only holds what is committed. A log that has its last entry stays.

    A server that leads by now has all of it in its log, and learns that it is committed. A candidate that lacks some of it is
    elected by nobody.
    """
    state = state._replace(fetching=None)
    if index <= state.commit:
        return state
    if term_at(state.log, index) != last_term:
        if state.role == LEADER:
            raise Contradiction(f"{state.me}: a snapshot has entry {index} of term {last_term}, which is committed, and the "
                                f"leader of term {state.term} lacks it: compare the logs before any node is restarted")
        if state.role != FOLLOWER:
            state = become_follower(state, state.term, "")
        state = begin_anew(state, index, last_term, members)
    elif state.role == LEADER:
        state = commit_up_to(state, index)
    state = emit(state._replace(commit=index, snapshot=(index, last_term)), Restore(index))
    if state.role == FOLLOWER and state.leader:
        state = send_when_durable(state, state.leader, Appended(state.term, index))
    return state
