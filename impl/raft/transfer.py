"""Hands leadership over. The target begins an election at once, when it has the whole log; if it fails, the leader leads on."""

from highwater.impl.raft.effects import emit, send
from highwater.impl.raft.entries import last_index
from highwater.impl.raft.messages import TimeoutNow
from highwater.impl.raft.state import LEADER, NO_VOTER, NOT_LEADER, Refused, State, Transfer


def transfer(state: State, target: str) -> State:
    """Begin to hand over to `target`. The leader itself as the target ends an earlier transfer."""
    if state.role != LEADER:
        return emit(state, Refused(NOT_LEADER, state.leader))
    if target not in state.voters:
        return emit(state, Refused(NO_VOTER, state.me))
    return ask_target(state._replace(transfer=Transfer(target) if target != state.me else None))


def ask_target(state: State) -> State:
    """Send TimeoutNow, once, when the target has the whole log."""
    handing = state.transfer
    if handing is None or handing.asked:
        return state
    target = next(follower for follower in state.followers if follower.name == handing.target)
    if target.match_index < last_index(state.log):
        return state
    return send(state._replace(transfer=handing._replace(asked=True)), target.name, TimeoutNow(state.term))


def tick(state: State) -> State:
    """Give up after an election timeout: the target is down, or its election failed."""
    handing = state.transfer
    if handing is None:
        return state
    late = handing.elapsed + 1 >= state.config.election_ticks
    return state._replace(transfer=None if late else handing._replace(elapsed=handing.elapsed + 1))
