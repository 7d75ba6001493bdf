"""Safety: a message that tells of a term, a vote or entries goes out only once they are durable.

The small changes of a state that all rules are made of, and the end of each step.
"""

from highwater.impl.raft import in_force
from highwater.impl.raft.entries import Entry, Log, last_index, spliced
from highwater.impl.raft.members import Members
from highwater.impl.raft.messages import Message
from highwater.impl.raft.state import Held, Output, Save, Send, State, Unsynced


def emit(state: State, *outputs: Output) -> State:
    return state._replace(outputs=state.outputs + outputs)


def send(state: State, to: str, message: Message) -> State:
    """Send a message that depends on nothing that is not durable yet."""
    return state._replace(outputs=(*state.outputs, Send(to, message)))


def send_when_durable(state: State, to: str, message: Message) -> State:
    """Send a message once all saves are durable, with that of this step."""
    return state._replace(replies=(*state.replies, (to, message)))


def send_in_term(state: State, to: str, message: Message) -> State:
    """Send a message that depends on nothing but the term: at once if that is durable."""
    return (send if state.durable.term == state.term else send_when_durable)(state, to, message)


def put(state: State, first: int, entries: tuple[Entry, ...]) -> State:
    """Put `entries` into the log from index `first` on, in the place of all that is there."""
    changed_from = first if state.changed_from is None else min(first, state.changed_from)
    state = capped(state, first - 1)._replace(log=spliced(state.log, first, entries), changed_from=changed_from)
    return in_force.changed(state, first, entries)


def begin_anew(state: State, index: int, term: int, members: Members | None = None) -> State:
    """Let the log begin anew after entry (index, term), the last one of a durable snapshot with these members."""
    state = state._replace(durable=state.durable._replace(index=index),
                           unsynced=tuple(save._replace(index=index) for save in state.unsynced))
    state = in_force.begun_anew(state, index, members)
    return state._replace(log=Log(index, term), changed_from=index + 1, base=(index, term))


def capped(state: State, index: int) -> State:
    """Let no save count for entries after `index`: others take their places, and are not durable with it."""
    if state.durable.index <= index and all(save.index <= index for save in state.unsynced):
        return state
    return state._replace(durable=state.durable._replace(index=min(state.durable.index, index)),
                          unsynced=tuple(save._replace(index=min(save.index, index)) for save in state.unsynced))


def close(state: State) -> tuple[State, tuple[Output, ...]]:
    """End a step: put out what it changed as one Save, and hold the messages that wait for it."""
    outputs = state.outputs
    latest = state.unsynced[-1] if state.unsynced else state.durable
    if state.changed_from is not None or (state.term, state.vote) != (latest.term, latest.vote):
        number, last = state.number + 1, last_index(state.log)
        first = last + 1 if state.changed_from is None else state.changed_from
        entries = state.log.entries[first - state.log.base_index - 1:]
        outputs = (Save(number, state.term, state.vote, first, entries, state.base), *outputs)
        state = state._replace(number=number,
                               unsynced=(*state.unsynced, Unsynced(number, state.term, state.vote, last)))
    if state.replies and state.unsynced:
        state = state._replace(held=state.held + tuple(Held(state.number, to, message) for to, message in state.replies))
    elif state.replies:
        outputs += tuple(Send(to, message) for to, message in state.replies)
    if not (state.outputs or state.replies or state.base) and state.changed_from is None:
        return state, outputs  # all is as it is between steps
    return state._replace(changed_from=None, base=None, replies=(), outputs=()), outputs


def synced(state: State, number: int) -> State:
    """Take all saves up to `number` for durable, and send what waited for them."""
    done = [save for save in state.unsynced if save.number <= number]
    if not done:
        return state
    free = [held for held in state.held if held.number <= number]
    return state._replace(durable=done[-1], unsynced=state.unsynced[len(done):], held=state.held[len(free):], stalled=0,
                          outputs=state.outputs + tuple(Send(held.to, held.message) for held in free))
