"""Safety: while servers join and leave, a term has one leader, and what is committed is in the log of each later leader.

Membership of Raft, one server at a time. specs/RaftMembership.fizz has the same names, states and labelled edges. As in raft.py
there are no queues of messages: what is sent stays as a fact, and a message is a fact that is read late, twice, or never.

An entry of a log is (term, members). `members` is empty for an entry that changes no membership. The last change in a server's
log is in force for it, whether it is committed or not. A leader changes one server at a time. It must have committed an entry
of its own term before, and all earlier changes. Without the first of these Raft's dissertation had a bug, found in 2015: two
leaders of different terms change the same membership, and each has a majority of its own.

A server that is no member takes entries as any other. So a learner needs no state of its own: it is a server that is not yet
a member, and nobody counts it. Votes are given to whoever asks; a candidate counts those of the members in its own log.

Early sends, snapshots, torn writes, restarts and terms that are too far ahead are as in raft.py.
"""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, one_more


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted."""

    SERVERS: int = 4
    START: int = 3  # servers 0 to START - 1 are the members at first
    CANDIDATES: int | None = 2  # servers that stand for election
    MAX_TERM: int | None = 2
    MAX_LOG: int | None = 2  # length of a log up to which a leader appends
    CHANGES: int | None = 1  # changes of membership, in all, that leaders append
    AHEAD: int | None = 0  # entries, in all, that a leader sends before its own sync
    SEEN: int | None = 0  # terms, in all, that a server adopts without a vote or an entry
    FAR: int = 0  # a message whose term is further ahead is too far ahead; 0: none is
    INSTALLED: int | None = 0  # snapshots, in all, that a server installs
    RESTARTS: int | None = 0
    TORN: int | None = 0  # writes, in all, of which a server's disk keeps the cut of its log and none of the entries
    LED: int = 1  # terms led from the start: 1 by server 0, with the votes of all members; 2 by server 1, with all others'
    # Safeguards: switch one off and a property must fail
    ONE_SERVER: bool = True  # a change adds one server or removes one; False: any members follow any
    OWN_TERM_FIRST: bool = True  # a leader changes members after it has committed an entry of its own term (the bug of 2015)
    ONE_AT_A_TIME: bool = True  # a leader changes members after all earlier changes are committed
    MEMBERS_ONLY: bool = True  # votes and acknowledgements count if they are of members; False: of any server


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("CANDIDATES", "MAX_TERM", "MAX_LOG", "CHANGES", "AHEAD", "SEEN", "INSTALLED", "RESTARTS", "TORN"), MANY),
    "SERVERS": MANY[1:], "START": MANY[1:], "FAR": MANY[:-1], "LED": (0, 1, 2)}

Term = int
Members = tuple[int, ...]  # sorted
Log = tuple[tuple[Term, Members], ...]


class Shared(NamedTuple):
    cands: frozenset[tuple[Term, int, Log]]  # (term, who, its log); it sends the last term and the length
    votes: frozenset[tuple[Term, int, int]]  # (term, who, for whom)
    leaders: tuple[tuple[Term, int, Log], ...]  # each election that was won, with the leader's log; sorted
    acks: frozenset[tuple[Term, int, int]]  # (term, who, how much of that term's log it has): the largest
    logs: tuple[Log, ...]  # on the disk of each server
    changes: int  # so far
    ahead: int
    seen: int
    installed: int
    restarts: int
    torn: int
    raised: frozenset[Term]  # to which servers have raised their own, because another was too far ahead
    commits: frozenset[tuple[Term, int]]  # ghost: (term of the leader, how much of its log it has committed): the largest


class Server(NamedTuple):
    pc: str = "Follower"  # Follower, Candidate, Leader
    term: Term = 0
    vote: int | None = None  # for whom, in this term
    commit: int = 0  # how much it has committed as a leader


# --- what is known

def members(c: Constants, log: Log) -> Members:
    """Return the members that are in force: those of the last change."""
    return next((those for _, those in reversed(log) if those), tuple(range(c.START)))


def may_stand(c: Constants, log: Log, me: int) -> bool:
    """Tell whether a server is a member by its log, or was one before the last change, which may not be committed.

    Such a change may be in its log alone. Then nobody else is elected, because it does not vote for a log that ends earlier."""
    last_change = max((n for n, (_, those) in enumerate(log) if those), default=0)
    return me in members(c, log) or me in members(c, log[:last_change])


def is_quorum(c: Constants, those: Members, who: set[int]) -> bool:
    """Tell whether more than half of the members are among `who`."""
    counted = who & {*those} if c.MEMBERS_ONLY else who
    return 2 * len(counted) > len(those)


def last(log: Log) -> tuple[Term, int]:
    """Return the term of the last entry, and the length: a log that ends later has more."""
    return (log[-1][0] if log else 0), len(log)


def led(s: Shared, t: Term) -> Log:
    """Return the log of the leader of a term that has one."""
    return next(log for term, _, log in s.leaders if term == t)


def acked(s: Shared, t: Term, who: int) -> int:
    """Return how much of a term's log a server has acknowledged."""
    return max((n for term, one, n in s.acks if (term, one) == (t, who)), default=0)


def with_ack(s: Shared, t: Term, who: int, n: int) -> Shared:
    old = acked(s, t, who)
    return s._replace(acks=s.acks - {(t, who, old)} | {(t, who, n)}) if n > old else s


def with_log(s: Shared, who: int, log: Log) -> Shared:
    return s._replace(logs=(*s.logs[:who], log, *s.logs[who + 1:]))


def is_far(c: Constants, t: Term, own: Term) -> bool:
    """Tell whether a message's term is too far ahead of a server's."""
    return 0 < c.FAR < t - own


# --- elections

def timeout(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server stands for election in the next term, and votes for itself."""
    if below(me, c.CANDIDATES) and below(w.term, c.MAX_TERM) and may_stand(c, s.logs[me], me):
        t = w.term + 1
        s = s._replace(cands=s.cands | {(t, me, s.logs[me])}, votes=s.votes | {(t, me, me)})
        yield (), s, w._replace(pc="Candidate", term=t, vote=me)


def grant(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server votes for a candidate, whether either is a member or not."""
    for t, who, log in sorted(s.cands):
        free = t > w.term or (t == w.term and w.vote is None)
        if who != me and free and not is_far(c, t, w.term) and last(log) >= last(s.logs[me]):
            yield (t, who), s._replace(votes=s.votes | {(t, me, who)}), w._replace(pc="Follower", term=t, vote=who)


def become_leader(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A candidate has the votes of a quorum of the members in its own log."""
    log = s.logs[me]
    if w.pc == "Candidate" and is_quorum(c, members(c, log), {who for t, who, whom in s.votes if (t, whom) == (w.term, me)}):
        s = s._replace(leaders=tuple(sorted((*s.leaders, (w.term, me, log)))))
        yield (), with_ack(s, w.term, me, len(log)), w._replace(pc="Leader")


def see_term(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A message tells a server of a later term, or a candidate that its term has a leader. Of one that is too far ahead the
    server believes FAR."""
    if below(s.seen, c.SEEN):
        s2, raised = s._replace(seen=one_more(s.seen, c.SEEN)), {w.term + c.FAR} if c.FAR else set()
        for t in sorted({t for t, *_ in s.cands} | s.raised | raised):
            if t > w.term and not is_far(c, t, w.term) and below(t - 1, c.MAX_TERM):
                yield (t,), s2._replace(raised=s.raised | (raised & {t})), w._replace(pc="Follower", term=t, vote=None)
            elif t == w.term and w.pc == "Candidate" and any(term == t for term, *_ in s.leaders):
                yield (t,), s2, w._replace(pc="Follower")


# --- replication

def appended(c: Constants, s: Shared, me: int, w: Server, those: Members) -> Iterator[tuple[bool, Shared]]:
    """A leader's log with one more entry, which it syncs at once and counts itself for, or sends before its own sync."""
    longer = (*led(s, w.term), (w.term, those))
    s = s._replace(leaders=tuple(sorted((t, who, longer if t == w.term else of) for t, who, of in s.leaders)))
    if below(s.ahead, c.AHEAD):
        yield False, s._replace(ahead=one_more(s.ahead, c.AHEAD))
    yield True, with_log(with_ack(s, w.term, me, len(longer)), me, longer)


def propose(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A leader appends an entry that changes no membership."""
    if w.pc == "Leader" and below(len(led(s, w.term)), c.MAX_LOG):
        for synced, after in appended(c, s, me, w, ()):
            yield (synced,), after, w


def next_members(c: Constants, those: Members) -> list[Members]:
    """Return the memberships that may follow."""
    everyone = range(c.SERVERS)
    if not c.ONE_SERVER:
        return sorted(set(chain.from_iterable(combinations(everyone, n) for n in range(1, c.SERVERS + 1))) - {those})
    added = [tuple(sorted((*those, who))) for who in everyone if who not in those]
    removed = [tuple(other for other in those if other != who) for who in those if len(those) > 1]
    return sorted([*added, *removed])


def may_change(c: Constants, log: Log, w: Server) -> bool:
    """Tell whether a leader may change the membership: it knows all that was committed before its term, and nothing is open."""
    knows = w.commit > 0 and log[w.commit - 1][0] == w.term
    is_open = any(those for _, those in log[w.commit:])
    return (knows or not c.OWN_TERM_FIRST) and (not is_open or not c.ONE_AT_A_TIME)


def change(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A leader appends a change of membership, which is in force for it at once."""
    if w.pc == "Leader" and below(s.changes, c.CHANGES):
        log = led(s, w.term)
        if below(len(log), c.MAX_LOG) and may_change(c, log, w):
            s2 = s._replace(changes=one_more(s.changes, c.CHANGES))
            for those in next_members(c, members(c, log)):
                for synced, after in appended(c, s2, me, w, those):
                    yield (those, synced), after, w


def accept(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server, member or not, has the first n entries of a leader's log on its disk, and acknowledges them. What it has beyond
    them stays, unless it is in conflict with them. A leader acknowledges what it sent before its own sync."""
    for t, _, log in s.leaders:
        if t >= w.term and not is_far(c, t, w.term):
            for n in range(acked(s, t, me) + 1, len(log) + 1):
                kept = s.logs[me] if s.logs[me][:n] == log[:n] else log[:n]
                leads = w.pc == "Leader" and t == w.term
                after = w._replace(pc="Leader" if leads else "Follower", term=t, vote=w.vote if t == w.term else None)
                yield (t, n), with_log(with_ack(s, t, me, n), me, kept), after


def advance_commit(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A quorum of the members that are in force has acknowledged the first n entries, and the last is of the leader's term."""
    if w.pc == "Leader":
        log = led(s, w.term)
        for n in range(w.commit + 1, len(log) + 1):
            counted = {who for t, who, upto in s.acks if t == w.term and upto >= n}
            if log[n - 1][0] == w.term and is_quorum(c, members(c, log), counted):
                commits = frozenset(one for one in s.commits if one[0] != w.term) | {(w.term, n)}
                yield (n,), s._replace(commits=commits), w._replace(commit=n)


def install(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server has a snapshot of the first n entries of a leader's log on its disk, in the place of a log without them, with
    the members that are in force there. They are committed. The server acknowledges nothing, and its term may be later."""
    if below(s.installed, c.INSTALLED):
        s2 = s._replace(installed=one_more(s.installed, c.INSTALLED))
        for t, most in sorted(s.commits):
            for n in range(1, most + 1):
                log = led(s, t)[:n]
                if s.logs[me][:n] != log:
                    term = max(w.term, log[-1][0])
                    after = w._replace(pc="Follower", term=term, vote=w.vote if term == w.term else None)
                    yield (t, n), with_log(s2, me, log), after


def tear(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server writes entries of its leader in the place of others, and the write is torn: the others are gone from its disk,
    and the leader's are not there."""
    if below(s.torn, c.TORN):
        log = s.logs[me]
        for sent in [of for t, _, of in s.leaders if t == w.term]:
            for n in range(min(len(log), len(sent))):
                if log[:n] == sent[:n] and log[n] != sent[n]:
                    yield (n,), with_log(s._replace(torn=one_more(s.torn, c.TORN)), me, log[:n]), w._replace(pc="Follower")


def restart(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server starts again with what is on its disk."""
    if below(s.restarts, c.RESTARTS):
        yield (), s._replace(restarts=one_more(s.restarts, c.RESTARTS)), Server(term=w.term, vote=w.vote)


# --- properties ---------------------------------------------------------------------------------------------------------

def committed(s: Shared) -> list[tuple[Term, Log]]:
    """The entries that each leader has committed, with its term."""
    return [(t, led(s, t)[:n]) for t, n in sorted(s.commits)]


def agree(a: Log, b: Log) -> bool:
    """Tell whether two logs have the same entries as far as both reach."""
    return a[:len(b)] == b[:len(a)]


def one_leader_per_term(c: Constants, s: Shared) -> bool:
    """No term is led twice."""
    return len({t for t, *_ in s.leaders}) == len(s.leaders)


def leader_completeness(c: Constants, s: Shared) -> bool:
    """A leader of a later term has every committed entry."""
    return all(log[:len(of)] == of for t, of in committed(s) for term, _, log in s.leaders if term > t)


def state_machine_safety(c: Constants, s: Shared) -> bool:
    """No two different entries are committed at the same place."""
    return all(agree(a, b) for (_, a), (_, b) in combinations(committed(s), 2))


def changes_of(log: Log) -> list[Members]:
    return [those for _, those in log if those]


def change_is_committed(c: Constants, s: Shared) -> bool:
    return any(changes_of(of) for _, of in committed(s))


def change_is_undone(c: Constants, s: Shared) -> bool:
    """A change is in the log of a deposed leader, and a later leader leads without it."""
    return any(changes_of(log) and not agree(log, later) for t, _, log in s.leaders for term, _, later in s.leaders if t < term)


def members_differ(c: Constants, s: Shared) -> bool:
    """Two servers have different memberships in force."""
    return len({members(c, log) for log in s.logs}) > 1


def new_member_counts(c: Constants, s: Shared) -> bool:
    """A server that was added has acknowledged the change that added it, and the change is committed."""
    return any(n >= upto and who >= c.START and who in members(c, led(s, t)[:upto])
               for t, upto in s.commits for term, who, n in s.acks if term == t)


def leader_is_removed(c: Constants, s: Shared, w: Server) -> bool:
    """A leader is no member by its own log."""
    return w.pc == "Leader" and bool(s.leaders) and any(
        t == w.term and who not in members(c, log) for t, who, log in s.leaders)


def later_leader_has_change(c: Constants, s: Shared) -> bool:
    """A leader of a later term has a committed change."""
    return any(changes_of(of) and term > t for t, of in committed(s) for term, *_ in s.leaders)


SERVER = {
    "Timeout": timeout, "Grant": grant, "BecomeLeader": become_leader, "SeeTerm": see_term, "Propose": propose,
    "Change": change, "Accept": accept, "AdvanceCommit": advance_commit, "Install": install, "Tear": tear, "Restart": restart,
}
ROLES = {"Server": SERVER}

ALWAYS = {
    "OneLeaderPerTerm": (None, one_leader_per_term),
    "LeaderCompleteness": (None, leader_completeness),
    "StateMachineSafety": (None, state_machine_safety),
}
SOMETIMES = {
    "ChangeIsCommitted": (None, change_is_committed),
    "ChangeIsUndone": (None, change_is_undone),
    "MembersDiffer": (None, members_differ),
    "NewMemberCounts": (None, new_member_counts),
    "LeaderIsRemoved": ("Server", leader_is_removed),
    "LaterLeaderHasChange": (None, later_leader_has_change),
}


def initial(c: Constants) -> tuple[Shared, tuple[Server, ...]]:
    nobody: frozenset = frozenset()
    s = Shared(nobody, nobody, (), nobody, ((),) * c.SERVERS, 0, 0, 0, 0, 0, 0, nobody, nobody)
    servers = [Server()] * c.SERVERS
    for t in range(1, c.LED + 1):
        who = t - 1
        s = s._replace(cands=s.cands | {(t, who, ())}, votes=s.votes | {(t, i, who) for i in range(who, c.START)},
                       leaders=(*s.leaders, (t, who, ())))
        servers[who:c.START] = [Server("Leader", t, who), *[Server("Follower", t, who)] * (c.START - t)]
    return s, tuple(servers)


def absent(c: Constants) -> Iterator[str]:
    """Yield the witnesses that an instance cannot have."""
    if c.START == c.SERVERS:
        yield "NewMemberCounts"


def model(c: Constants) -> Model:
    s, servers = initial(c)
    processes = tuple(p._replace(local=local) for p, local in zip(clients(("Server", c.SERVERS, Server(), SERVER)), servers))
    return Model("raft_membership", c, s, processes, ALWAYS, all_but(SOMETIMES, absent(c)))
