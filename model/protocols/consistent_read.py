"""Safety: a read on any server sees every write that was acknowledged before it began.

A linearizable read over a replicated log, as the metadata index of Pyroscope does it: the leader takes its commit index, a
quorum confirms that it still leads, and the server that was asked waits until it has applied that much, then reads.
specs/ConsistentRead.fizz has the same names, states and labelled edges.

The log is abstract: model/protocols/raft.py proves what is assumed of it, so a leader has all that is committed. An election
and a write are one step each, together with the quorum that they need, and what is written is committed. A write is
acknowledged when its leader has applied it. A server leads as long as it has not heard of a later term, so an earlier leader
may believe that it leads. A restore of a snapshot takes what a server has applied back to an earlier entry. There is one read.

It does not matter whether the index is taken before the round or after it. It matters that the round begins after the read.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, one_more


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    SERVERS: int = 3
    CANDIDATES: int | None = 2  # servers that stand for election
    ASKED: int | None = 1  # servers that a client asks
    MAX_TERM: int | None = 2
    MAX_LOG: int | None = 1
    # Faults, each bounded
    RESTORES: int | None = 0  # snapshots that servers restore
    # Safeguards: switch one off and a property must fail
    WAIT_APPLIED: bool = True  # a read waits until its index is applied; False: until it is queued
    RECHECK: bool = True  # the wait and the read are one transaction; False: a restore may come between them
    ROUND: bool = True  # a quorum confirms the leader; False: the leader believes that it leads
    FRESH: bool = True  # the round begins after the read; False: an answer of before is counted
    NOOP: bool = True  # a leader commits an entry of its own term before it answers; False: it knows what it knew before
    SAME_TERM: bool = True  # the round is of the term in which the index was taken; False: of any term that it leads
    MAJORITY: bool = True  # a quorum is more than half of the servers; False: half of them suffice


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("CANDIDATES", "ASKED", "MAX_TERM", "MAX_LOG", "RESTORES"), MANY), "SERVERS": MANY[1:]}

Term = int


class Read(NamedTuple):
    pc: str = "Idle"  # Idle, Begun, Indexed, Confirmed, Waited, Done
    at: int | None = None  # the server that was asked
    leader: int | None = None  # that took the index
    term: Term = 0  # in which it did
    index: int = 0
    got: int = 0  # the entries that it read
    must: int = 0  # ghost: the entries that were acknowledged before it began


class Shared(NamedTuple):
    log: tuple[Term, ...]  # what is committed; of each entry the term
    promised: tuple[Term, ...]  # the latest term that each server has heard of
    answered: frozenset[Term]  # the terms in which a quorum has confirmed the leader, where FRESH is off
    read: Read
    restores: int  # so far
    # ghost
    acknowledged: int  # the entries that are acknowledged


class Server(NamedTuple):
    lead: Term = 0  # the last term that it has led
    queued: int = 0  # the entries that it knows to be committed
    applied: int = 0


# --- what is known

def quorums(c: Constants) -> list[tuple[int, ...]]:
    return list(combinations(range(c.SERVERS), c.SERVERS // 2 + c.MAJORITY))


def leads(s: Shared, me: int, w: Server) -> bool:
    """Tell whether a server believes that it leads."""
    return 0 < w.lead == s.promised[me]


def at_most(s: Shared, quorum: tuple[int, ...], t: Term) -> bool:
    return all(s.promised[x] <= t for x in quorum)


def promised(s: Shared, quorum: tuple[int, ...], t: Term) -> Shared:
    """Let a quorum promise a term."""
    return s._replace(promised=tuple(t if x in quorum else of for x, of in enumerate(s.promised)))


# --- the log

def elect(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A quorum elects a server. Its first entry, which is not counted here, tells it that all of its log is committed."""
    for quorum in quorums(c):
        t = max(s.promised[x] for x in quorum) + 1
        if me in quorum and below(me, c.CANDIDATES) and below(t - 1, c.MAX_TERM):
            yield (quorum,), promised(s, quorum, t), w._replace(lead=t, queued=len(s.log) if c.NOOP else w.queued)


def write(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A leader appends an entry, and a quorum has it."""
    if leads(s, me, w) and below(len(s.log), c.MAX_LOG):
        for quorum in quorums(c):
            if me in quorum and at_most(s, quorum, w.lead):
                after = promised(s, quorum, w.lead)
                yield (quorum,), after._replace(log=(*s.log, w.lead)), w._replace(queued=len(s.log) + 1)


def queue(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server receives the next entry, and hears that it is committed."""
    if w.queued < len(s.log):
        yield (), s, w._replace(queued=w.queued + 1)


def apply(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server applies the next entry. Whoever wrote it acknowledges it then."""
    n = w.applied + 1
    if n <= w.queued:
        yield (), s._replace(acknowledged=max(s.acknowledged, n)) if s.log[n - 1] == w.lead else s, w._replace(applied=n)


def restore(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server restores a snapshot of fewer entries than it has applied."""
    if below(s.restores, c.RESTORES):
        for n in range(w.applied):
            yield (n,), s._replace(restores=one_more(s.restores, c.RESTORES)), w._replace(applied=n)


# --- the read

def begin(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A client asks a server."""
    if s.read.pc == "Idle" and below(me, c.ASKED):
        yield (), s._replace(read=s.read._replace(pc="Begun", at=me, must=s.acknowledged)), w


def index(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A leader takes as the index what it knows to be committed."""
    if s.read.pc == "Begun" and leads(s, me, w):
        confirmed = not c.ROUND or w.lead in s.answered
        pc = "Confirmed" if confirmed else "Indexed"
        yield (), s._replace(read=s.read._replace(pc=pc, leader=me, term=w.lead, index=w.queued)), w


def quorum_round(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A quorum confirms that a server leads."""
    if not c.ROUND or not leads(s, me, w):
        return
    asked = s.read.pc == "Indexed" and s.read.leader == me and (s.read.term == w.lead or not c.SAME_TERM)
    for quorum in quorums(c):
        if me in quorum and at_most(s, quorum, w.lead):
            after = promised(s, quorum, w.lead)
            if asked:
                yield (quorum,), after._replace(read=s.read._replace(pc="Confirmed")), w
            elif not c.FRESH and w.lead not in s.answered:
                yield (quorum,), after._replace(answered=s.answered | {w.lead}), w


def wait(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server that was asked has waited long enough. It reads later, where RECHECK is off."""
    if s.read.pc == "Confirmed" and s.read.at == me and not c.RECHECK and waited(c, s, w):
        yield (), s._replace(read=s.read._replace(pc="Waited")), w


def waited(c: Constants, s: Shared, w: Server) -> bool:
    return (w.applied if c.WAIT_APPLIED else w.queued) >= s.read.index


def server_read(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server that was asked reads what it has applied."""
    ready = s.read.pc == "Confirmed" and waited(c, s, w) if c.RECHECK else s.read.pc == "Waited"
    if s.read.at == me and ready:
        yield (), s._replace(read=s.read._replace(pc="Done", got=w.applied)), w


# --- properties ---------------------------------------------------------------------------------------------------------

def read_is_current(c: Constants, s: Shared) -> bool:
    """A read sees every write that was acknowledged before it began."""
    return s.read.pc != "Done" or s.read.got >= s.read.must


def one_leader_per_term(c: Constants, s: Shared, w: Server) -> bool:
    """A leader knows what is written in the term that it leads, because nobody else writes in that term."""
    return all(of != w.lead or n <= w.queued for n, of in enumerate(s.log, 1))


def leader_is_stale(c: Constants, s: Shared, w: Server) -> bool:
    """A server has been succeeded, and another server's promise tells so."""
    return 0 < w.lead < max(s.promised)


def follower_serves(c: Constants, s: Shared) -> bool:
    """A server that did not take the index serves a read that must see a write."""
    return s.read.pc == "Done" and s.read.must > 0 and s.read.at != s.read.leader


def read_sees_more(c: Constants, s: Shared) -> bool:
    """A read sees a write that was acknowledged only after it began, or never."""
    return s.read.pc == "Done" and s.read.got > s.read.must


def server_is_behind(c: Constants, s: Shared, w: Server) -> bool:
    """A server has queued an entry that it has not applied."""
    return w.applied < w.queued


SERVER = {
    "Elect": elect, "Write": write, "Queue": queue, "Apply": apply, "Restore": restore,
    "Begin": begin, "Index": index, "Round": quorum_round, "Wait": wait, "Read": server_read,
}
ROLES = {"Server": SERVER}

ALWAYS = {
    "ReadIsCurrent": (None, read_is_current),
    "OneLeaderPerTerm": ("Server", one_leader_per_term),
}
SOMETIMES = {
    "LeaderIsStale": ("Server", leader_is_stale),
    "FollowerServes": (None, follower_serves),
    "ReadSeesMore": (None, read_sees_more),
    "ServerIsBehind": ("Server", server_is_behind),
}


def renamed_servers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which server i is called names[i]."""
    if not isinstance(part, Shared):
        return part
    places = sorted(range(len(names)), key=names.__getitem__)
    read = part.read._replace(**{name: None if of is None else names[of]
                                 for name, of in (("at", part.read.at), ("leader", part.read.leader))})
    return part._replace(promised=tuple(part.promised[i] for i in places), read=read)


def initial(c: Constants) -> Shared:
    return Shared((), (0,) * c.SERVERS, frozenset(), Read(), 0, 0)


def model(c: Constants) -> Model:
    absent = {"LeaderIsStale", "FollowerServes"} if c.SERVERS == 1 else set[str]()
    return Model("consistent_read", c, initial(c), clients(("Server", c.SERVERS, Server(), SERVER)), ALWAYS,
                 all_but(SOMETIMES, absent), renamed={"Server": renamed_servers})
