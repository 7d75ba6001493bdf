"""Safety: a server's term never falls, and it forgets its vote only with its term.

How a server goes into a term as a follower, and what a majority is.
"""

from highwater.impl.raft.effects import emit, send
from highwater.impl.raft.messages import ReadIndexReply
from highwater.impl.raft.state import FOLLOWER, LEADER, FarAhead, ReadRefused, State, StepDown

BITS = 1 << 64
FAR = 1 << 20  # terms ahead; of a message that is further ahead its sender may be spoilt, or lie
LEAP_TIMEOUTS = 4  # shortest election timeouts between two rises by FAR, so that elections can end between them


def majority(state: State) -> int:
    """Return how many servers any two quorums need, so that they have one in common."""
    return len(state.voters) // 2 + 1


def counted(state: State, servers: frozenset[str]) -> int:
    """Return how many of the servers count: the voters."""
    return len(servers.intersection(state.voters))


def of_voters(state: State, own: int, followers: list[tuple[str, int]]) -> list[int]:
    """Return the numbers of the servers that count, the highest first: the leader's own, and those of its followers."""
    voters = state.voters
    numbers = [number for name, number in followers if name in voters]
    if state.me in voters:
        numbers.append(own)
    return sorted(numbers, reverse=True)


def others(state: State) -> tuple[str, ...]:
    """Return the voters besides this server."""
    return tuple(name for name in state.voters if name != state.me)


def with_new_timeout(state: State) -> State:
    """Draw the next election timeout, between `election_ticks` and just below twice as many, and wait from now on."""
    random = (state.random * 6364136223846793005 + 1442695040888963407) % BITS
    ticks = state.config.election_ticks
    return state._replace(random=random, timeout=ticks + (random >> 33) % ticks, elapsed=0)


def become_follower(state: State, term: int, leader: str) -> State:
    """Be a follower in `term`, which is not lower than the own one. `leader`: "" if it is not known."""
    if state.role == LEADER:
        state = emit(refuse_reads(state, leader), StepDown(state.term))
    if term > state.term:
        state = state._replace(term=term, vote="", held=())
    return with_new_timeout(state._replace(role=FOLLOWER, leader=leader, granted=frozenset(), refused=frozenset(),
                                           followers=(), transfer=None))


def far_ahead(state: State, sender: str, term: int) -> State:
    """Ignore a message whose term is too far ahead, so that one spoilt server deposes nobody.

    A server that leads nobody and hears of no leader raises its term by FAR, so that it comes to a group that is really so far
    ahead. It votes for nobody in the message's term, which it has not reached. Its election timeout goes on."""
    hears = state.role == LEADER or (state.leader != "" and state.elapsed < state.config.election_ticks)
    leaps = not hears and state.since_leap >= LEAP_TIMEOUTS * state.config.election_ticks
    state = emit(state, FarAhead(sender, term, leaps))
    if not leaps:
        return state
    return state._replace(term=state.term + FAR, vote="", held=(), role=FOLLOWER, leader="", granted=frozenset(),
                          refused=frozenset(), since_leap=0)


def refuse_reads(state: State, leader: str) -> State:
    """Refuse all reads that wait for a confirmation: in a later term of the same leader their index may be too low."""
    for pending in state.reads:
        if pending.asker == state.me:
            state = emit(state, ReadRefused(pending.read, leader))
        else:
            state = send(state, pending.asker, ReadIndexReply(state.term, pending.read, -1))
    return state._replace(reads=())
