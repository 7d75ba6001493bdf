"""Safety: an entry is committed once a quorum has it durably and it is of the leader's own term, or before such an entry.

The leader's side of replication. To a follower in mode PROBE it sends one Append at a time, until it knows where the logs
agree; in mode REPLICATE it sends on without waiting, up to a window; in mode SNAPSHOT it offers its snapshot. A lost Append is
noticed by the reply to the next heartbeat: the leader then sends an Append, perhaps an empty one, and its refusal tells what is
missing.
"""

from highwater.impl.raft import reads, transfer
from highwater.impl.raft.effects import emit, put, send
from highwater.impl.raft.entries import agreeing, entries_from, last_index, made, term_at
from highwater.impl.raft.messages import Append, Appended, Conflict, HeartbeatReply, InstallSnapshot
from highwater.impl.raft.state import (
    HANDING_OVER,
    LEADER,
    NOT_LEADER,
    PROBE,
    QUEUE_FULL,
    REPLICATE,
    SNAPSHOT,
    TOO_LARGE,
    Accepted,
    Progress,
    Refused,
    State,
)
from highwater.impl.raft.terms import majority, of_voters


def propose(state: State, bodies: tuple[bytes, ...], kind: int) -> State:
    """Append entries to the leader's log, or refuse all of them."""
    size = sum(map(len, bodies))
    if why := reason_to_refuse(state, bodies, size):
        return emit(state, Refused(why, state.leader))
    first = last_index(state.log) + 1
    state = put(state, first, tuple(made(state.term, kind, body) for body in bodies))
    state = emit(state._replace(uncommitted_bytes=state.uncommitted_bytes + size), Accepted(state.term, first))
    return send_appends(state)


def reason_to_refuse(state: State, bodies: tuple[bytes, ...], size: int) -> str:
    """Return why these entries are refused; "" if they are not. One proposal is always taken when nothing else waits."""
    if state.role != LEADER:
        return NOT_LEADER
    if state.transfer is not None:
        return HANDING_OVER
    if any(len(body) > state.config.max_entry_bytes for body in bodies):
        return TOO_LARGE
    full = state.uncommitted_bytes and state.uncommitted_bytes + size > state.config.max_uncommitted_bytes
    return QUEUE_FULL if full else ""


# --- what followers get


def send_appends(state: State, even_empty: bool = False) -> State:
    """Send all followers what they may get now."""
    for follower in state.followers:
        state = send_append(state, follower.name, even_empty)
    return state


def send_append(state: State, name: str, even_empty: bool = False) -> State:
    """Send a follower the entries that it lacks, as far as its window allows. `even_empty`: send an Append in any case."""
    follower = progress_of(state, name)
    while not is_paused(state, follower):
        previous = term_at(state.log, follower.next_index - 1)
        if previous is None:
            return offer_snapshot(state, follower)
        entries = entries_from(state.log, follower.next_index, state.config.max_append_bytes)
        if not entries and not even_empty:
            break
        even_empty = False
        message = Append(state.term, follower.next_index - 1, previous, entries, state.commit)
        if follower.mode == PROBE:
            follower = follower._replace(paused=True)
        elif entries:
            last = follower.next_index + len(entries) - 1
            follower = follower._replace(next_index=last + 1, inflight=(*follower.inflight, last))
        state = with_progress(send(state, name, message), follower)
    return state


def is_paused(state: State, follower: Progress) -> bool:
    """Tell whether the follower gets no Append before it answers."""
    return follower.paused or len(follower.inflight) >= state.config.max_inflight


def offer_snapshot(state: State, follower: Progress) -> State:
    index, last_term = state.snapshot
    state = with_progress(state, follower._replace(mode=SNAPSHOT, inflight=(), paused=True))
    return send(state, follower.name, InstallSnapshot(state.term, index, last_term))


# --- what they answer


def appended(state: State, sender: str, message: Appended) -> State:
    """Take note of what a follower has durably: it may make an entry committed, and the follower may get more."""
    follower = progress_of(state, sender)._replace(active=True)
    if not follower.match_index <= message.match_index <= last_index(state.log):
        return with_progress(state, follower)  # an answer that is late, or of entries that nobody has sent
    match, waited = message.match_index, is_paused(state, follower)  # and missed what was committed meanwhile
    follower = follower._replace(match_index=match, next_index=max(follower.next_index, match + 1), paused=False,
                                 inflight=tuple(last for last in follower.inflight if last > match))
    if follower.mode == PROBE or (follower.mode == SNAPSHOT and match >= state.log.base_index):
        follower = follower._replace(mode=REPLICATE, next_index=match + 1, inflight=())
    before = state.commit
    state = advance_commit(with_progress(state, follower))
    return transfer.ask_target(state if state.commit > before else send_append(state, sender, even_empty=waited))


def refused(state: State, sender: str, message: Conflict) -> State:
    """Go back to where the logs may agree, a whole term at a time, and probe there."""
    follower = progress_of(state, sender)._replace(active=True)
    previous = follower.next_index - 1
    late = message.prev_index <= follower.match_index or (follower.mode == PROBE and message.prev_index != previous)
    if late or follower.mode == SNAPSHOT:
        return with_progress(state, follower)
    if follower.mode == REPLICATE:
        next_index = follower.match_index + 1
    else:
        agreed, _ = agreeing(state.log, message.hint_index, message.hint_term)
        agreed = min(agreed, message.hint_index)  # before the log's beginning: a snapshot is offered
        next_index = max(min(message.prev_index, agreed + 1), follower.match_index + 1)
    follower = follower._replace(mode=PROBE, next_index=next_index, inflight=(), paused=False)
    return send_append(with_progress(state, follower), sender, even_empty=True)


def heartbeat_answered(state: State, sender: str, message: HeartbeatReply) -> State:
    """Confirm reads, and go on where an Append or its answer may have been lost."""
    follower = progress_of(state, sender)
    inflight = follower.inflight[1:] if len(follower.inflight) >= state.config.max_inflight else follower.inflight
    answered = min(message.round, state.round)  # none is later than the own one
    follower = follower._replace(active=True, paused=False, inflight=inflight, round=max(follower.round, answered))
    state = with_progress(state, follower)
    if follower.match_index < last_index(state.log) or follower.mode != REPLICATE:
        state = send_append(state, sender, even_empty=True)
    return reads.confirm(state)


# --- commits


def advance_commit(state: State) -> State:
    """Commit what a quorum has durably."""
    matches = of_voters(state, own_match(state), [(follower.name, follower.match_index) for follower in state.followers])
    index = matches[majority(state) - 1]
    if index <= state.commit or not may_commit(state, index):
        return state
    return reads.begin_waiting(send_appends(commit_up_to(state, index), even_empty=True))


def commit_up_to(state: State, index: int) -> State:
    """Take all up to `index` for committed."""
    bodies = sum(len(entry.body) for entry in state.log.entries[state.commit - state.log.base_index:
                                                                index - state.log.base_index])
    return state._replace(commit=index, uncommitted_bytes=state.uncommitted_bytes - bodies)


def own_match(state: State) -> int:
    """Return how far the leader counts itself: as far as its own disk is."""
    return state.durable.index


def may_commit(state: State, index: int) -> bool:
    """Tell whether counting replicas commits the entry: one of an earlier term may still be replaced (the paper's figure 8)."""
    return term_at(state.log, index) == state.term


# --- what the leader knows of followers


def progress_of(state: State, name: str) -> Progress:
    return next(follower for follower in state.followers if follower.name == name)


def with_progress(state: State, follower: Progress) -> State:
    return state._replace(followers=tuple(follower if old.name == follower.name else old for old in state.followers))
