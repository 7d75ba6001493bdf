"""Safety: of two memberships in force one after the other any two majorities have a server in common.

A leader changes one server at a time. It must have committed an entry of its own term, and all earlier changes. Without the
first of these two leaders may each change the same membership, and have majorities without a common server: the bug of 2015
in Raft's dissertation. A server joins as a learner, and is a voter once it has caught up.

A voter that left and has lost its folder does not know its votes any more. So its name comes back only in a later term than
that of the leader that removed it, and a server that joins votes for nobody before it has an entry (elections.py). The former
server's votes do not count in a later term: whoever is elected then has the removal in its log.
"""

from highwater.impl.raft import in_force, members, reads
from highwater.impl.raft.effects import emit, put
from highwater.impl.raft.entries import MEMBERS, last_index, made, term_at
from highwater.impl.raft.members import Members
from highwater.impl.raft.replication import advance_commit, send_appends
from highwater.impl.raft.state import (
    CHANGE_UNDER_WAY,
    HANDING_OVER,
    LAST_VOTER,
    LEADER,
    LEARN,
    LEFT,
    NO_CHANGE,
    NO_LEARNER,
    NOT_CAUGHT_UP,
    NOT_LEADER,
    OWN_TERM_UNCOMMITTED,
    PROMOTE,
    REMOVE,
    REPLICATE,
    Accepted,
    Change,
    Refused,
    State,
)
from highwater.impl.raft.terms import become_follower


def change(state: State, given: Change) -> State:
    """Append a change of the members to the leader's log, where it is in force at once, or refuse it. Fewer voters may commit
    more, and confirm reads: those who are left may have answered, and nobody else need do so any more."""
    if why := reason_to_refuse(state, given):
        return emit(state, Refused(why, state.leader))
    body, first = members.encoded(after(state, given)), last_index(state.log) + 1
    if given.what == REMOVE and given.name in state.voters:
        state = state._replace(left=state.left | {given.name})
    state = put(state, first, (made(state.term, MEMBERS, body),))
    state = in_force.with_peers(state._replace(uncommitted_bytes=state.uncommitted_bytes + len(body)))
    following = reads.confirm(advance_commit(emit(state, Accepted(state.term, first))))
    return following if following.commit > state.commit else send_appends(following)


def settled(state: State) -> State:
    """Let a leader forget who was removed, once that is committed. One that was removed itself leads no more."""
    if not state.configurations[-1].index or in_force.is_open(state):
        return state
    if state.me not in state.voters:
        return become_follower(state, state.term, "")
    return in_force.with_peers(state) if len(state.followers) != len(in_force.peers(state)) else state


def after(state: State, given: Change) -> Members:
    """Return the members after a change."""
    now = state.configurations[-1].members
    if given.what == LEARN:
        return members.with_learner(now, given.name, given.address)
    return members.with_voter(now, given.name) if given.what == PROMOTE else members.without(now, given.name)


def reason_to_refuse(state: State, given: Change) -> str:
    """Return why the change is refused; "" if it is not."""
    if state.role != LEADER:
        return NOT_LEADER
    if state.transfer is not None:
        return HANDING_OVER
    if not may_change(state):
        return OWN_TERM_UNCOMMITTED
    if in_force.is_open(state):
        return CHANGE_UNDER_WAY
    if state.me not in state.voters:
        return NOT_LEADER  # any more, with its next tick
    if given.what == LEARN and given.name in state.left:
        return LEFT
    if given.what == PROMOTE and given.name in state.learners:
        return "" if has_caught_up(state, given.name) else NOT_CAUGHT_UP
    if given.what == PROMOTE and given.name not in state.voters:
        return NO_LEARNER
    if after(state, given) == state.configurations[-1].members or given.what == PROMOTE:
        return NO_CHANGE
    return LAST_VOTER if not after(state, given).voters else ""


def may_change(state: State) -> bool:
    """Tell whether the leader has committed an entry of its own term: then it knows of all changes before its term."""
    return term_at(state.log, state.commit) == state.term


def has_caught_up(state: State, name: str) -> bool:
    """Tell whether a learner would hold up commits by little if it counted."""
    follower = next(follower for follower in state.followers if follower.name == name)
    behind = last_index(state.log) - follower.match_index
    return follower.active and follower.mode == REPLICATE and behind <= state.config.caught_up_entries
