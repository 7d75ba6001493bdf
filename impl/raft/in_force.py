"""Safety: who counts is said by the last change in a server's log, from the moment at which the log has it.

A change is in force whether it is committed or not. Where the log is cut before it, the one before it is in force again. A
leader sends entries to those whom a change removes, too, until it is committed: so they learn that they are removed.
"""

from highwater.impl.raft.entries import MEMBERS, Entry, last_index
from highwater.impl.raft.members import Configuration, Members, decoded
from highwater.impl.raft.state import Progress, Restart, State


def with_configurations(state: State, configurations: tuple[Configuration, ...]) -> State:
    members = configurations[-1].members
    return state._replace(configurations=configurations, voters=members.voters, learners=members.learners)


def changed(state: State, first: int, entries: tuple[Entry, ...]) -> State:
    """Let changes among `entries` be in force, which take the place of all in the log from index `first` on."""
    if state.configurations[-1].index < first and not any(entry.kind == MEMBERS for entry in entries):
        return state
    kept = tuple(one for one in state.configurations if one.index < first)
    return with_configurations(state, (*kept, *changes_in(entries, first)))


def changes_in(entries: tuple[Entry, ...], first: int) -> tuple[Configuration, ...]:
    """Return the changes among entries, of which the first has the index `first`."""
    return tuple(Configuration(index, decoded(entry.body)) for index, entry in enumerate(entries, first)
                 if entry.kind == MEMBERS)


def found(state: State, given: Restart) -> State:
    """Take the members from what the disk has: those of the snapshot, and the changes after it."""
    base = Configuration(given.snapshot_index, given.members) if given.members else state.configurations[0]
    later = given.log.entries[max(given.snapshot_index - given.log.base_index, 0):]
    first = max(given.snapshot_index, given.log.base_index) + 1
    return with_configurations(state, (base, *changes_in(later, first)))


def begun_anew(state: State, index: int, members: Members | None) -> State:
    """Take the members from an installed snapshot up to `index`. None: they are those of the beginning. A change that the own
    log had was never committed."""
    base = Configuration(index, members) if members else state.configurations[0]
    return with_configurations(state, (base,))


def at(state: State, index: int) -> Configuration:
    """Return the members that were in force after the entry at `index`, which is not before the snapshot's."""
    return next((one for one in reversed(state.configurations) if one.index <= index), state.configurations[0])


def forgotten(state: State, index: int) -> State:
    """Forget the changes before the one that was in force at `index`: all up to there is committed."""
    base = at(state, index)
    if base is state.configurations[0]:
        return state
    return state._replace(configurations=tuple(one for one in state.configurations if one.index >= base.index))


def is_known(state: State, server: str) -> bool:
    """Tell whether a server is a member, or was one before a change that may not be committed. Who knows no members knows all.
    """
    return not state.voters or any(server in (*one.members.voters, *one.members.learners) for one in state.configurations)


def is_open(state: State) -> bool:
    """Tell whether the last change is not known to be committed."""
    return state.configurations[-1].index > state.commit


def may_stand(state: State) -> bool:
    """Tell whether this server may stand for election: it is a voter, or was one before a change that may not be committed.

    Such a change may be in this server's log alone. Then the others need its vote, and do not get it, because its log ends
    later. So it must stand itself; its own vote does not count.
    """
    if state.me in state.voters:
        return True
    return is_open(state) and len(state.configurations) > 1 and state.me in state.configurations[-2].members.voters


# --- the leader's side


def peers(state: State) -> tuple[str, ...]:
    """Return who gets entries: all members, and those whom a change removes that is not committed."""
    if not state.learners and len(state.configurations) == 1:
        return tuple(name for name in state.voters if name != state.me)
    names = {*state.voters, *state.learners}
    if is_open(state) and len(state.configurations) > 1:
        before = state.configurations[-2].members
        names |= {*before.voters, *before.learners}
    return tuple(sorted(names - {state.me}))


def with_peers(state: State) -> State:
    """Let a leader know its followers by the members that are in force. It begins with its last entry for a new one."""
    known = {follower.name: follower for follower in state.followers}
    next_index = max(last_index(state.log), 1)
    return state._replace(followers=tuple(known.get(name) or Progress(name, next_index=next_index) for name in peers(state)))
