"""Safety: a term has one leader. What is committed is on the disks of a quorum, in the log of each later leader, and the same
for whoever applies it.

The replicated log of Raft: elections, replication, commit, restart. specs/Raft.fizz has the same names, states and labelled
edges. There are no queues of messages. What is sent stays as a fact: candidacies, votes, the log of each leader, and
acknowledgements. A message is a fact that is read late, twice, or never, so delay, loss, duplication and reordering need no
actions. An append is any prefix of a leader's log. A snapshot is a prefix that is committed, of any term: it may arrive after
its leader was deposed.

A log is a tuple of terms, one for each entry. `logs` are the logs on the disks. An action of a server is the moment when what
it writes is durable, because only then may its message be sent. The one exception is a leader: it may send its entries before
its own sync (`Propose` with `synced` false). Then only its log of that term, in `leaders`, has them, and it counts itself
once it has accepted them as a follower does.

A commit remembers the term in which it was made. Only later leaders must have the entry: a leader of an earlier term that has
not heard of its successor may lack it.

A message may be of a term that is too far ahead: perhaps its sender is spoilt, or lies. A server that takes it for one of
those raises its own term by FAR, without a vote. Whether some server is in that term does not matter.

Pre-vote and check-quorum serve liveness and have no actions here. Changes of membership are in raft_membership.py.
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
    MAX_TERM: int | None = 2
    MAX_LOG: int | None = 1  # length of a log up to which a leader appends
    ELECTED: bool = False  # True: server 0 leads term 1 from the start, by the votes of all
    AHEAD: int | None = 0  # entries, in all, that a leader sends before its own sync
    LEARNED: int | None = 0  # commits, in all, that a server hears of
    SEEN: int | None = 0  # terms, in all, that a server adopts without a vote or an entry
    FAR: int = 0  # a message whose term is further ahead is too far ahead; 0: none is
    INSTALLED: int | None = 0  # snapshots, in all, that a server installs
    # Faults, each bounded
    RESTARTS: int | None = 0
    TORN: int | None = 0  # writes, in all, of which a server's disk keeps the cut of its log and none of the entries
    # Safeguards: switch one off and a property must fail
    VOTE_ONCE: bool = True  # a server votes for one candidate in a term
    VOTE_NEAR: bool = True  # no vote in a term that is too far ahead; False: one in that term, and the own term rises by FAR
    UP_TO_DATE: bool = True  # a candidate whose log ends earlier than the voter's gets no vote
    MAJORITY: bool = True  # a quorum is more than half of the servers; False: half of them suffice
    PREV_MATCH: bool = True  # a server appends an entry if all before it are the leader's; False: to any log of that length
    OWN_TERM: bool = True  # a leader commits by counting acknowledgements of entries of its own term only
    COMMIT_MATCHED: bool = True  # a server takes for committed what it knows to be the leader's; False: any entry there
    SNAPSHOT_COMMITTED: bool = True  # a snapshot has committed entries only; False: any that a leader has
    SYNC_VOTE: bool = True  # term and vote are durable before the vote is sent; False: a restart loses them
    SYNC_LOG: bool = True  # entries are durable before they are acknowledged; False: a restart loses any tail of them
    SYNC_OWN: bool = True  # a leader counts itself after its own sync; False: as soon as it has sent the entries


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("CANDIDATES", "MAX_TERM", "MAX_LOG", "AHEAD", "LEARNED", "SEEN", "INSTALLED", "RESTARTS", "TORN"), MANY),
    "SERVERS": MANY[1:], "FAR": MANY[:-1]}

Term = int
Log = tuple[Term, ...]


class Shared(NamedTuple):
    cands: frozenset[tuple[Term, int, Log]]  # (term, who, its log); it sends the last term and the length
    votes: frozenset[tuple[Term, int, int]]  # (term, who, for whom)
    leaders: tuple[tuple[Term, int, Log], ...]  # each election that was won, with the leader's log; sorted
    acks: frozenset[tuple[Term, int, int]]  # (term, who, how much of that term's log it has): the largest
    logs: tuple[Log, ...]  # on the disk of each server
    restarts: int  # so far
    ahead: int
    learned: int
    seen: int
    installed: int
    torn: int
    raised: frozenset[Term]  # to which servers have raised their own, because another was too far ahead
    # ghosts
    commits: frozenset[tuple[Term, int]]  # (term of the leader, how much of its log it has committed): the largest
    applied: frozenset[tuple[int, Term]]  # (place, entry) of what servers took for committed because they heard so


class Server(NamedTuple):
    pc: str = "Follower"  # Follower, Candidate, Leader
    term: Term = 0  # durable
    vote: int | None = None  # durable: for whom, in this term
    commit: int = 0  # how much it knows to be committed


# --- what is known

def quorum(c: Constants) -> int:
    return c.SERVERS // 2 + 1 if c.MAJORITY else c.SERVERS // 2


def last(log: Log) -> tuple[Term, int]:
    """Return the term of the last entry, and the length: a log that ends later has more."""
    return (log[-1] if log else 0), len(log)


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
    if below(me, c.CANDIDATES) and below(w.term, c.MAX_TERM):
        t = w.term + 1
        s = s._replace(cands=s.cands | {(t, me, s.logs[me])}, votes=s.votes | {(t, me, me)})
        yield (), s, w._replace(pc="Candidate", term=t, vote=me)


def grant(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server votes for a candidate."""
    for t, who, log in sorted(s.cands):
        free = t > w.term or (t == w.term and (w.vote is None or not c.VOTE_ONCE))
        far = is_far(c, t, w.term)
        if who != me and free and (not c.UP_TO_DATE or last(log) >= last(s.logs[me])) and (t, me, who) not in s.votes and not (
                far and c.VOTE_NEAR):
            after = w._replace(pc="Follower", term=w.term + c.FAR if far else t, vote=None if far else who)
            yield (t, who), s._replace(votes=s.votes | {(t, me, who)}), after


def become_leader(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A candidate has the votes of a quorum. It counts itself for the log that it has."""
    if w.pc == "Candidate" and sum((t, who) == (w.term, me) for t, _, who in s.votes) >= quorum(c):
        log = s.logs[me]
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

def propose(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A leader appends an entry. It syncs it at once, or sends it before its own sync."""
    if w.pc == "Leader":
        log = led(s, w.term)
        if below(len(log), c.MAX_LOG):
            longer = (*log, w.term)
            s = s._replace(leaders=tuple(sorted((t, who, longer if t == w.term else of) for t, who, of in s.leaders)))
            counted = with_ack(s, w.term, me, len(longer))
            if below(s.ahead, c.AHEAD):
                sent = s if c.SYNC_OWN else counted
                yield (False,), sent._replace(ahead=one_more(s.ahead, c.AHEAD)), w
            yield (True,), with_log(counted, me, longer), w


def accept(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server has the first n entries of a leader's log on its disk, and acknowledges them. What it has beyond them stays,
    unless it is in conflict with them. A leader acknowledges what it sent before its own sync."""
    for t, _, log in s.leaders:
        if t >= w.term and not is_far(c, t, w.term):
            for n in range(acked(s, t, me) + 1, (len(log) if c.PREV_MATCH else min(len(log), len(s.logs[me]) + 1)) + 1):
                sent = log[:n] if c.PREV_MATCH else (*s.logs[me][:n - 1], log[n - 1])
                kept = s.logs[me] if s.logs[me][:n] == sent else sent
                leads = w.pc == "Leader" and t == w.term
                after = w._replace(pc="Leader" if leads else "Follower", term=t, vote=w.vote if t == w.term else None)
                yield (t, n), with_log(with_ack(s, t, me, n), me, kept), after


def advance_commit(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A quorum has acknowledged the first n entries, and the last of them is of the leader's own term."""
    if w.pc == "Leader":
        log = led(s, w.term)
        for n in range(w.commit + 1, len(log) + 1):
            counted = sum(t == w.term and upto >= n for t, _, upto in s.acks)
            if (log[n - 1] == w.term or not c.OWN_TERM) and counted >= quorum(c):
                commits = frozenset(one for one in s.commits if one[0] != w.term) | {(w.term, n)}
                yield (n,), s._replace(commits=commits), w._replace(commit=n)


def learn_commit(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server that has the first n entries of a leader's log hears that they are committed."""
    if below(s.learned, c.LEARNED):
        mine = s.logs[me]
        most = max((n for _, n in s.commits), default=0)
        for n in range(w.commit + 1, min(most, len(mine)) + 1):
            if not c.COMMIT_MATCHED or any(n <= upto and mine[:n] == led(s, t)[:n] for t, upto in s.commits):
                applied = s.applied.union(enumerate(mine[:n], 1))
                yield (n,), s._replace(learned=one_more(s.learned, c.LEARNED), applied=applied), w._replace(commit=n)


def install(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """A server has a snapshot of the first n entries of a leader's log on its disk, in the place of a log without them. They
    are committed. The server acknowledges nothing, and its term may be a later one."""
    if below(s.installed, c.INSTALLED):
        s2 = s._replace(installed=one_more(s.installed, c.INSTALLED))
        for t, most in sorted(s.commits) if c.SNAPSHOT_COMMITTED else [(t, len(log)) for t, _, log in s.leaders]:
            for n in range(1, most + 1):
                log = led(s, t)[:n]
                if s.logs[me][:n] != log:
                    term = max(w.term, log[-1])
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
        s = s._replace(restarts=one_more(s.restarts, c.RESTARTS))
        log = s.logs[me]
        for kept in range(len(log) if c.SYNC_LOG else 0, len(log) + 1):
            after = Server(term=w.term, vote=w.vote) if c.SYNC_VOTE else Server()
            yield (kept,), with_log(s, me, log[:kept]), after


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


def log_matching(c: Constants, s: Shared) -> bool:
    """If two logs have an entry of the same term at the same place, they are equal up to there."""
    logs = {*s.logs, *(log for *_, log in s.leaders)}
    return all(a[:i] == b[:i] for a, b in combinations(logs, 2) for i in [last_common(a, b)])


def last_common(a: Log, b: Log) -> int:
    """Return the last place at which two logs have an entry of the same term; 0 if there is none."""
    return next((i for i in range(min(len(a), len(b)), 0, -1) if a[i - 1] == b[i - 1]), 0)


def leader_completeness(c: Constants, s: Shared) -> bool:
    """A leader of a later term has every committed entry."""
    return all(log[:len(of)] == of for t, of in committed(s) for term, _, log in s.leaders if term > t)


def state_machine_safety(c: Constants, s: Shared) -> bool:
    """No two different entries are committed at the same place."""
    return all(agree(a, b) for (_, a), (_, b) in combinations(committed(s), 2))


def committed_is_durable(c: Constants, s: Shared) -> bool:
    """A committed entry is on the disks of a quorum."""
    return all(2 * sum(log[:len(of)] == of for log in s.logs) > c.SERVERS for _, of in committed(s))


def applied_is_committed(c: Constants, s: Shared) -> bool:
    """A server applies only what a leader has committed at that place."""
    return all(any(of[i - 1:i] == (entry,) for _, of in committed(s)) for i, entry in s.applied)


def two_terms_are_led(c: Constants, s: Shared) -> bool:
    return len({t for t, *_ in s.leaders}) > 1


def leader_is_stale(c: Constants, s: Shared, w: Server) -> bool:
    """A leader has a successor that it has not heard of."""
    return w.pc == "Leader" and s.leaders[-1][0] > w.term


def logs_conflict(c: Constants, s: Shared) -> bool:
    """Two servers have different entries at the same place, and one of them is not committed."""
    return not all(agree(a, b) for a, b in combinations(s.logs, 2))


def later_leader_has_committed(c: Constants, s: Shared) -> bool:
    return bool(s.commits) and s.leaders[-1][0] > max(s.commits)[0]


def stale_leader_lacks_committed(c: Constants, s: Shared) -> bool:
    """A leader of an earlier term lacks an entry that is committed."""
    return any(log[:len(of)] != of for t, of in committed(s) for term, _, log in s.leaders if term < t)


def earlier_term_is_committed(c: Constants, s: Shared) -> bool:
    """A leader has committed an entry of an earlier term, together with one of its own."""
    return any(of[0] < t for t, of in committed(s))


def committed_before_own_sync(c: Constants, s: Shared) -> bool:
    """A leader has committed an entry that is not yet on its own disk."""
    return any(s.logs[who][:len(of)] != of for t, of in committed(s) for term, who, _ in s.leaders if term == t)


def follower_learns(c: Constants, s: Shared, w: Server) -> bool:
    return w.commit > 0 and w.pc == "Follower"


def snapshot_is_of_earlier_term(c: Constants, s: Shared, w: Server) -> bool:
    """A server has installed a snapshot, and is in a later term than all that committed it."""
    return s.installed > 0 and bool(s.commits) and w.term > max(s.commits)[0]


def committed_survives_restart(c: Constants, s: Shared) -> bool:
    return bool(s.commits) and s.restarts > 0


SERVER = {
    "Timeout": timeout, "Grant": grant, "BecomeLeader": become_leader, "SeeTerm": see_term, "Propose": propose,
    "Accept": accept, "AdvanceCommit": advance_commit, "LearnCommit": learn_commit, "Install": install, "Restart": restart,
    "Tear": tear,
}
ROLES = {"Server": SERVER}

ALWAYS = {
    "OneLeaderPerTerm": (None, one_leader_per_term),
    "LogMatching": (None, log_matching),
    "LeaderCompleteness": (None, leader_completeness),
    "StateMachineSafety": (None, state_machine_safety),
    "CommittedIsDurable": (None, committed_is_durable),
    "AppliedIsCommitted": (None, applied_is_committed),
}
SOMETIMES = {
    "TwoTermsAreLed": (None, two_terms_are_led),
    "LeaderIsStale": ("Server", leader_is_stale),
    "LogsConflict": (None, logs_conflict),
    "LaterLeaderHasCommitted": (None, later_leader_has_committed),
    "StaleLeaderLacksCommitted": (None, stale_leader_lacks_committed),
    "EarlierTermIsCommitted": (None, earlier_term_is_committed),
    "CommittedBeforeOwnSync": (None, committed_before_own_sync),
    "FollowerLearns": ("Server", follower_learns),
    "SnapshotIsOfEarlierTerm": ("Server", snapshot_is_of_earlier_term),
    "CommittedSurvivesRestart": (None, committed_survives_restart),
}


def renamed_servers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which server i is called names[i]."""
    match part:
        case Shared():
            places = sorted(range(len(names)), key=names.__getitem__)
            return part._replace(
                cands=frozenset((t, names[who], log) for t, who, log in part.cands),
                votes=frozenset((t, names[who], names[whom]) for t, who, whom in part.votes),
                leaders=tuple(sorted((t, names[who], log) for t, who, log in part.leaders)),
                acks=frozenset((t, names[who], n) for t, who, n in part.acks),
                logs=tuple(part.logs[i] for i in places))
        case Server():
            return part._replace(vote=None if part.vote is None else names[part.vote])
        case _:
            return part


def initial(c: Constants) -> tuple[Shared, tuple[Server, ...]]:
    nobody: frozenset = frozenset()
    s = Shared(nobody, nobody, (), nobody, ((),) * c.SERVERS, 0, 0, 0, 0, 0, 0, nobody, nobody, nobody)
    if not c.ELECTED:
        return s, (Server(),) * c.SERVERS
    s = s._replace(cands=frozenset({(1, 0, ())}), votes=frozenset((1, i, 0) for i in range(c.SERVERS)), leaders=((1, 0, ()),))
    return s, (Server("Leader", 1, 0), *(Server("Follower", 1, 0),) * (c.SERVERS - 1))


def absent(c: Constants) -> Iterator[str]:
    """Yield the witnesses that an instance cannot have."""
    if c.AHEAD == 0:
        yield "CommittedBeforeOwnSync"
    if c.LEARNED == 0:
        yield "FollowerLearns"
    if c.INSTALLED == 0:
        yield "SnapshotIsOfEarlierTerm"
    if c.RESTARTS == 0:
        yield "CommittedSurvivesRestart"
    if c.MAX_LOG is not None and c.MAX_LOG < 2:
        yield "EarlierTermIsCommitted"


def model(c: Constants) -> Model:
    s, servers = initial(c)
    processes = tuple(p._replace(local=local) for p, local in zip(clients(("Server", c.SERVERS, Server(), SERVER)), servers))
    alike = not c.ELECTED and (c.CANDIDATES is None or c.CANDIDATES >= c.SERVERS)
    return Model("raft", c, s, processes, ALWAYS, all_but(SOMETIMES, absent(c)),
                 renamed={"Server": renamed_servers} if alike else {})
