"""Safety, for any number of servers, terms, entries, restarts and messages: every `always` property of
model/protocols/raft.py, by an inductive invariant, action by action.

A quorum is an element of a sort of its own. The proof uses one fact about quorums: any two have a server in common (MEET). Sets
of more than half of the servers have that property. The members of the cluster do not change.

The invariant. E(t) is the log of the leader of term t, CL(t, c) the log with which candidate c stood in term t, and L(s) the
log on the disk of server s. An entry is the term in which it was proposed.

Votes
- VotesAreUnique. VoteIsKnown: a vote of s in term t is for a candidate of t, and t is at most the term of s. If t is the term
  of s, then s knows for whom it voted. CandidacyIsKnown: no server stood in a term later than its own. LatestIsKnown: the
  latest vote of a server is in no later term than its own.
- LeaderIsKnown: a leader stood in its term. LeaderWasElected: a quorum voted for it. LaterIsVoted: so each quorum has a server
  that voted in that term or later. OneLeaderPerTerm.
- CandidateIsNoLeader: a candidate has not led its term, and its disk is as it was when it stood. LeaderLeads: a server that
  leads has won its term, and knows all that it has committed.
Logs
- LeaderLog, DiskLog, CandidateLog: the terms of the entries are at least 1 and do not fall. In E(t) they are at most t, in
  CL(t, c) less than t, and in L(s) at most the term of s.
- LeaderMatches, DiskMatches, CandidateMatches: if such a log has an entry of term u at place n, then E(u) has it, and the two
  are equal up to n.
Acknowledgements
- AckIsKnown: a server that has acknowledged n entries of E(t) has at least the term t, and E(t) has n entries.
- Retained: an acknowledged entry of term t is on the disk of s. Or E(u) of a later term u does not have it.
- VoteFact: a server that has acknowledged such an entry, and voted in a later term, voted for a candidate that has it. Or E(u)
  of a term u after t does not have it.
- NeverChosen: if E(t) has an entry of term t that a later E(u) does not have, then each quorum has a server that has not
  acknowledged it and has voted in a later term. Such a server never will acknowledge it.
- CommitIsAcked: what the leader of t has committed ends with an entry of term t that a quorum has acknowledged.
- AppliedIsCommitted.

LeaderCompleteness follows from NeverChosen and CommitIsAcked (the lemma LeaderHasCommit), and CommittedIsDurable from these and
Retained (the lemma AckedIsOnDisk). BecomeLeader has a lemma, TermHasNoLeader, because most clauses need it. Facts about logs
name entries of logs at places that are entries of logs; a query that had all of them would not end. So NEEDS says what each
query may use.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import nothing, one_more, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import raft as m

Term = NewType("Term", int)
Place = NewType("Place", int)  # of an entry in a log, from 1 on; a length
Count = NewType("Count", int)
Quorum = NewType("Quorum", object)
Server = NewType("Server", View)

ROLES = {"Server": Server}
FIELDS = {
    "": {
        "stood": (Term, Server, bool), "cl": (Term, Server, Place, Term), "cl_size": (Term, Server, Place),
        "voted": (Term, Server, Server, bool), "latest": (Server, Term),
        "ruled": (Term, bool), "leads": (Term, Server, bool), "e": (Term, Place, Term), "e_size": (Term, Place),
        "acked": (Term, Server, Place), "disk": (Server, Place, Term), "size": (Server, Place), "committed": (Term, Place),
        "applied": (Place, Term, bool),
        "restarts": (Count,), "ahead": (Count,), "learned": (Count,), "seen": (Count,), "installed": (Count,), "torn": (Count,),
        "raised": (Term, bool),
    },
    "Server": {
        "pc": (Literal["Follower", "Candidate", "Leader"],), "term": (Term,), "vote": (Server, bool), "commit": (Place,),
    },
}
RIGID = {"member": (Quorum, Server, bool), "common": (Quorum, Quorum, Server)}


def meaning(_: Any) -> dict:
    return {"member": lambda q, x: x in q, "common": lambda p, q: min({*p} & {*q}, default=p[0])}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"stood": nothing, "cl": zero, "cl_size": zero, "voted": nothing, "latest": zero, "ruled": nothing,
              "leads": nothing, "e": zero, "e_size": zero, "acked": zero, "disk": zero, "size": zero, "committed": zero,
              "applied": nothing, "restarts": 0, "ahead": 0, "learned": 0, "seen": 0,
              "installed": 0, "torn": 0, "raised": nothing}
    return {"": shared, "Server": {"pc": "Follower", "term": 0, "vote": nothing, "commit": 0}}


# --- the transition relation, action by action as in model/protocols/raft.py ----------------------------------------------

def last(s, x):
    return s.disk(x, s.size(x))


def prefix(s, n, a, b):
    """Say that two logs are equal up to n."""
    return s.every(Place, lambda i: Implies(And(i >= 1, i <= n), a(i) == b(i)))


def majority(s, holds):
    """Say that a condition holds for all of a quorum."""
    return s.some(Quorum, lambda q: s.every(Server, lambda x: Implies(s.member(q, x), holds(x))))


def with_vote(s, t, me, who):
    return s.but(voted=lambda u, x, y: Or(And(u == t, x == me, y == who), s.voted(u, x, y)),
                 latest=lambda x: If(And(x == me, t > s.latest(x)), t, s.latest(x)))


def with_ack(s, t, me, n):
    return lambda u, x: If(And(u == t, x == me, n > s.acked(u, x)), n, s.acked(u, x))


def is_far(c, t, own):
    return And(c.FAR > 0, t > own + c.FAR)


def timeout(c, s, w):
    t, me = w.term + 1, w.me
    yield And(room(w.me, c.CANDIDATES), room(w.term, c.MAX_TERM)), (), with_vote(s, t, me, me).but(
        stood=lambda u, x: Or(And(u == t, x == me), s.stood(u, x)),
        cl=lambda u, x, i: If(And(u == t, x == me), s.disk(x, i), s.cl(u, x, i)),
        cl_size=lambda u, x: If(And(u == t, x == me), s.size(x), s.cl_size(u, x))), \
        w.but(pc="Candidate", term=t, vote=lambda x: x == me)


def grant(c, s, w, t: Term, who: Server):
    free = Or(t > w.term, And(t == w.term, Or(Not(s.some(Server, w.vote)), not c.VOTE_ONCE)))
    ends, mine = s.cl(t, who, s.cl_size(t, who)), last(s, w.me)
    later = Or(not c.UP_TO_DATE, ends > mine, And(ends == mine, s.cl_size(t, who) >= s.size(w.me)))
    guard, far = And(s.stood(t, who), who != w.me, free, later, Not(s.voted(t, w.me, who))), is_far(c, t, w.term)
    yield And(guard, Not(far)), (t, who), with_vote(s, t, w.me, who), w.but(pc="Follower", term=t, vote=lambda x: x == who)
    if not c.VOTE_NEAR:
        yield And(guard, far), (t, who), with_vote(s, t, w.me, who), w.but(pc="Follower", term=w.term + c.FAR, vote=nothing)


def become_leader(c, s, w):
    t, me = w.term, w.me
    guard = And(at(w.pc, "Candidate"), majority(s, lambda x: s.voted(t, x, me)))
    yield guard, (), s.but(
        ruled=lambda u: Or(u == t, s.ruled(u)), leads=lambda u, x: Or(And(u == t, x == me), s.leads(u, x)),
        e=lambda u, i: If(u == t, s.disk(me, i), s.e(u, i)), e_size=lambda u: If(u == t, s.size(me), s.e_size(u)),
        acked=with_ack(s, t, me, s.size(me))), w.but(pc="Leader")


def see_term(c, s, w, t: Term):
    can = room(s.seen, c.SEEN)
    s2 = s.but(seen=one_more(s.seen, c.SEEN))
    raises = And(c.FAR > 0, t == w.term + c.FAR)
    told = Or(s.some(Server, lambda x: s.stood(t, x)), s.raised(t), raises)
    yield And(can, t > w.term, Not(is_far(c, t, w.term)), told, room(t - 1, c.MAX_TERM)), (t,), \
        s2.but(raised=lambda u: Or(s.raised(u), And(u == t, raises))), w.but(pc="Follower", term=t, vote=nothing)
    yield And(can, t == w.term, at(w.pc, "Candidate"), s.ruled(t)), (t,), s2, w.but(pc="Follower")


def propose(c, s, w):
    t, me, n = w.term, w.me, s.e_size(w.term) + 1
    guard = And(at(w.pc, "Leader"), room(s.e_size(t), c.MAX_LOG))
    sent = s.but(e=lambda u, i: If(And(u == t, i == n), t, s.e(u, i)), e_size=lambda u: If(u == t, n, s.e_size(u)))
    counted = sent.but(acked=with_ack(s, t, me, n))
    yield And(guard, room(s.ahead, c.AHEAD)), (False,), \
        (sent if c.SYNC_OWN else counted).but(ahead=one_more(s.ahead, c.AHEAD)), w
    yield guard, (True,), counted.but(disk=lambda x, i: If(x == me, sent.e(t, i), s.disk(x, i)),
                                      size=lambda x: If(x == me, n, s.size(x))), w


def accept(c, s, w, t: Term, n: Place):
    me = w.me
    guard = And(s.ruled(t), t >= w.term, Not(is_far(c, t, w.term)), n > s.acked(t, me), n <= s.e_size(t))
    acked = s.but(acked=with_ack(s, t, me, n))
    if c.PREV_MATCH:
        same = prefix(s, n, lambda i: s.disk(me, i), lambda i: s.e(t, i))
        cut = acked.but(disk=lambda x, i: If(x == me, If(i <= n, s.e(t, i), 0), s.disk(x, i)))
    else:
        guard, same = And(guard, n <= s.size(me) + 1), s.disk(me, n) == s.e(t, n)
        cut = acked.but(disk=lambda x, i: If(And(x == me, i >= n), If(i == n, s.e(t, n), 0), s.disk(x, i)))
    cut = cut.but(size=lambda x: If(x == me, n, s.size(x)))
    leads = And(at(w.pc, "Leader"), t == w.term)
    for kept, s2 in ((same, acked), (Not(same), cut)):
        yield And(guard, leads, kept), (t, n), s2, w
        yield And(guard, Not(leads), kept), (t, n), s2, w.but(pc="Follower", term=t,
                                                              vote=lambda x: And(t == w.term, w.vote(x)))


def advance_commit(c, s, w, n: Place):
    t = w.term
    guard = And(at(w.pc, "Leader"), n > w.commit, n <= s.e_size(t), Or(s.e(t, n) == t, not c.OWN_TERM),
                majority(s, lambda x: s.acked(t, x) >= n))
    yield guard, (n,), s.but(committed=lambda u: If(u == t, n, s.committed(u))), w.but(commit=n)


def learn_commit(c, s, w, n: Place):
    known = s.some(Term, lambda t: And(n <= s.committed(t), Or(not c.COMMIT_MATCHED, prefix(
        s, n, lambda i: s.disk(w.me, i), lambda i: s.e(t, i)))))
    applied = s.but(applied=lambda i, of: Or(s.applied(i, of), And(i >= 1, i <= n, s.disk(w.me, i) == of)))
    guard = And(room(s.learned, c.LEARNED), n > w.commit, n <= s.size(w.me), known)
    yield guard, (n,), applied.but(learned=one_more(s.learned, c.LEARNED)), w.but(commit=n)


def install(c, s, w, t: Term, n: Place):
    me, ends = w.me, s.e(t, n)
    guard = And(room(s.installed, c.INSTALLED), n >= 1, n <= (s.committed(t) if c.SNAPSHOT_COMMITTED else s.e_size(t)),
                Not(prefix(s, n, lambda i: s.disk(me, i), lambda i: s.e(t, i))))
    s2 = s.but(installed=one_more(s.installed, c.INSTALLED), size=lambda x: If(x == me, n, s.size(x)),
               disk=lambda x, i: If(x == me, If(i <= n, s.e(t, i), 0), s.disk(x, i)))
    yield And(guard, ends <= w.term), (t, n), s2, w.but(pc="Follower")
    yield And(guard, ends > w.term), (t, n), s2, w.but(pc="Follower", term=ends, vote=nothing)


def tear(c, s, w, n: Place):
    me, t = w.me, w.term
    guard = And(room(s.torn, c.TORN), s.ruled(t), n >= 0, n < s.size(me), n < s.e_size(t), s.disk(me, n + 1) != s.e(t, n + 1),
                prefix(s, n, lambda i: s.disk(me, i), lambda i: s.e(t, i)))
    yield guard, (n,), s.but(torn=one_more(s.torn, c.TORN), size=lambda x: If(x == me, n, s.size(x)),
                             disk=lambda x, i: If(And(x == me, i > n), 0, s.disk(x, i))), w.but(pc="Follower")


def restart(c, s, w, n: Place):
    me = w.me
    guard = And(room(s.restarts, c.RESTARTS), n <= s.size(me), n >= (s.size(me) if c.SYNC_LOG else 0))
    cut = s.but(disk=lambda x, i: If(And(x == me, i > n), 0, s.disk(x, i)), size=lambda x: If(x == me, n, s.size(x)))
    after = w.but(pc="Follower", commit=0)
    yield guard, (n,), (s if c.SYNC_LOG else cut).but(restarts=one_more(s.restarts, c.RESTARTS)), \
        after if c.SYNC_VOTE else after.but(term=0, vote=nothing)


ACTIONS = {"Server": {
    "Timeout": timeout, "Grant": grant, "BecomeLeader": become_leader, "SeeTerm": see_term, "Propose": propose,
    "Accept": accept, "AdvanceCommit": advance_commit, "LearnCommit": learn_commit, "Install": install,
    "Restart": restart, "Tear": tear,
}}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def meet(c, s, p: Quorum, q: Quorum):
    x = s.common(p, q)
    return Or(not c.MAJORITY, And(s.member(p, x), s.member(q, x)))


def one_leader_per_term(c, s, t: Term):
    return s.every(Server, lambda x: s.every(Server, lambda y: Implies(And(s.leads(t, x), s.leads(t, y)), x == y)))


def matches(s, log, u, n, j):
    """Say of an entry of term u at place n of a log: E(u) has it, and is equal to the log at each place j up to n."""
    return Implies(And(n >= 1, log(n) == u, u >= 1),
                   And(s.ruled(u), n <= s.e_size(u), Implies(And(j >= 1, j <= n), log(j) == s.e(u, j))))


def log_matching(c, s, t: Term, u: Term, n: Place, j: Place):
    def same(a, b):
        return Implies(And(a(n) == b(n), a(n) >= 1, j >= 1, j <= n), a(j) == b(j))

    def leader(of):
        return lambda i: s.e(of, i)

    def disk(x):
        return lambda i: s.disk(x, i)

    return And(same(leader(t), leader(u)), s.every(Server, lambda x: And(
        same(leader(t), disk(x)), s.every(Server, lambda y: same(disk(x), disk(y))))))


def leader_completeness(c, s, t: Term, u: Term, j: Place):
    return Implies(And(t < u, s.ruled(u), j >= 1, j <= s.committed(t)), s.e(u, j) == s.e(t, j))


def state_machine_safety(c, s, t: Term, u: Term, j: Place):
    return Implies(And(j >= 1, j <= s.committed(t), j <= s.committed(u)), s.e(u, j) == s.e(t, j))


def committed_is_durable(c, s, t: Term):
    n = s.committed(t)
    return Implies(n >= 1, majority(s, lambda x: prefix(s, n, lambda i: s.disk(x, i), lambda i: s.e(t, i))))


def applied_is_committed(c, s, i: Place, of: Term):
    return Implies(s.applied(i, of), s.some(Term, lambda t: And(s.ruled(t), i >= 1, i <= s.committed(t), s.e(t, i) == of)))


def votes_are_unique(c, s, t: Term):
    return s.every(Server, lambda x: s.every(Server, lambda y: s.every(Server, lambda z: Implies(
        And(s.voted(t, x, y), s.voted(t, x, z)), y == z))))


def vote_is_known(c, s, w: Server, t: Term):
    return s.every(Server, lambda x: Implies(s.voted(t, w.me, x), And(
        t >= 1, t <= w.term, s.stood(t, x), t <= s.latest(w.me), Implies(t == w.term, w.vote(x)))))


def candidacy_is_known(c, s, w: Server, t: Term):
    return And(w.term >= 0, Implies(s.stood(t, w.me), And(t >= 1, t <= w.term)))


def latest_is_known(c, s, w: Server):
    of = s.latest(w.me)
    return And(of >= 0, of <= w.term, Implies(of > 0, s.some(Server, lambda x: s.voted(of, w.me, x))))


def leader_is_known(c, s, t: Term):
    return And(s.every(Server, lambda x: Implies(s.leads(t, x), And(s.ruled(t), s.stood(t, x)))),
               Implies(s.ruled(t), And(t >= 1, s.some(Server, lambda x: s.leads(t, x)))))


def leader_was_elected(c, s, t: Term):
    return s.every(Server, lambda x: Implies(s.leads(t, x), majority(s, lambda y: s.voted(t, y, x))))


def later_is_voted(c, s, t: Term, q: Quorum):
    return Implies(s.ruled(t), s.some(Server, lambda x: And(s.member(q, x), s.latest(x) >= t)))


def candidate_is_no_leader(c, s, w: Server, i: Place):
    return Implies(at(w.pc, "Candidate"), And(
        s.stood(w.term, w.me), Not(s.leads(w.term, w.me)), s.disk(w.me, i) == s.cl(w.term, w.me, i),
        s.size(w.me) == s.cl_size(w.term, w.me)))


def leader_leads(c, s, w: Server):
    return And(w.commit >= 0, Implies(at(w.pc, "Leader"), And(s.leads(w.term, w.me), s.committed(w.term) <= w.commit)))


def is_log(log, size, i, j, most):
    """Say of a log: it has `size` entries, of terms up to `most`, which rise."""
    inside = And(i >= 1, i <= size)
    return And(size >= 0, Implies(Not(inside), log(i) == 0), Implies(inside, And(log(i) >= 1, log(i) <= most)),
               Implies(And(i >= 1, i <= j, j <= size), log(i) <= log(j)))


def leader_log(c, s, t: Term, i: Place, j: Place):
    return And(is_log(lambda n: s.e(t, n), s.e_size(t), i, j, t),
               Implies(Not(s.ruled(t)), And(s.e_size(t) == 0, s.committed(t) == 0)))


def disk_log(c, s, w: Server, i: Place, j: Place):
    return is_log(lambda n: s.disk(w.me, n), s.size(w.me), i, j, w.term)


def candidate_log(c, s, t: Term, i: Place, j: Place):
    return s.every(Server, lambda x: And(is_log(lambda n: s.cl(t, x, n), s.cl_size(t, x), i, j, t - 1),
                                         Implies(Not(s.stood(t, x)), s.cl_size(t, x) == 0)))


def leader_matches(c, s, t: Term, u: Term, n: Place, j: Place):
    return matches(s, lambda i: s.e(t, i), u, n, j)


def disk_matches(c, s, w: Server, u: Term, n: Place, j: Place):
    return matches(s, lambda i: s.disk(w.me, i), u, n, j)


def candidate_matches(c, s, t: Term, u: Term, n: Place, j: Place):
    return s.every(Server, lambda x: matches(s, lambda i: s.cl(t, x, i), u, n, j))


def ack_is_known(c, s, w: Server, t: Term):
    n = s.acked(t, w.me)
    return And(n >= 0, n <= s.e_size(t), Implies(n > 0, And(s.ruled(t), t <= w.term)))


def differs(s, t, n):
    """Say that a leader after t has no entry of term t at place n."""
    return s.some(Term, lambda u: And(t < u, s.ruled(u), s.e(u, n) != t))


def retained(c, s, w: Server, t: Term, n: Place):
    return Implies(And(n >= 1, n <= s.acked(t, w.me), s.e(t, n) == t), Or(s.disk(w.me, n) == t, differs(s, t, n)))


def vote_fact(c, s, t: Term, u: Term, n: Place):
    return s.every(Server, lambda x: s.every(Server, lambda y: Implies(
        And(t < u, s.voted(u, x, y), n >= 1, n <= s.acked(t, x), s.e(t, n) == t),
        Or(s.cl(u, y, n) == t, differs(s, t, n)))))


def never_chosen(c, s, t: Term, u: Term, n: Place, q: Quorum):
    return Implies(And(t < u, s.ruled(t), s.ruled(u), n >= 1, s.e(t, n) == t, s.e(u, n) != t),
                   s.some(Server, lambda x: And(s.member(q, x), s.acked(t, x) < n, s.latest(x) > t)))


def commit_is_acked(c, s, t: Term):
    n = s.committed(t)
    return And(n >= 0, n <= s.e_size(t), Implies(n >= 1, And(s.e(t, n) == t, majority(s, lambda x: s.acked(t, x) >= n))))


PROPERTIES = {
    "OneLeaderPerTerm": one_leader_per_term, "LogMatching": log_matching, "LeaderCompleteness": leader_completeness,
    "StateMachineSafety": state_machine_safety, "CommittedIsDurable": committed_is_durable,
    "AppliedIsCommitted": applied_is_committed,
}
CLAUSES = {
    "OneLeaderPerTerm": one_leader_per_term, "AppliedIsCommitted": applied_is_committed, "VotesAreUnique": votes_are_unique,
    "VoteIsKnown": vote_is_known, "CandidacyIsKnown": candidacy_is_known, "LatestIsKnown": latest_is_known,
    "LeaderIsKnown": leader_is_known, "LeaderWasElected": leader_was_elected, "LaterIsVoted": later_is_voted,
    "CandidateIsNoLeader": candidate_is_no_leader, "LeaderLeads": leader_leads,
    "LeaderLog": leader_log, "DiskLog": disk_log, "CandidateLog": candidate_log, "LeaderMatches": leader_matches,
    "DiskMatches": disk_matches, "CandidateMatches": candidate_matches, "AckIsKnown": ack_is_known, "Retained": retained,
    "VoteFact": vote_fact, "NeverChosen": never_chosen, "CommitIsAcked": commit_is_acked,
}


def term_has_no_leader(c, s, w):
    """Nobody else has won the candidate's term: two quorums would have a server in common, which votes once."""
    return Not(s.ruled(w.term))


def leader_has_commit(c, s, t: Term, u: Term):
    n = s.committed(t)
    return Implies(And(t < u, s.ruled(u), n >= 1), And(t >= 1, s.e(u, n) == t))


def acked_is_on_disk(c, s, w: Server, t: Term):
    n = s.committed(t)
    return Implies(And(n >= 1, s.acked(t, w.me) >= n), And(t >= 1, s.disk(w.me, n) == t))


LEMMAS = {"Property": {"LeaderHasCommit": leader_has_commit, "AckedIsOnDisk": acked_is_on_disk},
           "Server.BecomeLeader": {"TermHasNoLeader": term_has_no_leader}}
BASE = {  # clause -> what its query needs after most actions
    "OneLeaderPerTerm": ("LeaderIsKnown",),
    "AppliedIsCommitted": ("LeaderLeads", "LeaderLog", "LeaderIsKnown"),
    "VotesAreUnique": ("VoteIsKnown",),
    "VoteIsKnown": ("CandidacyIsKnown", "LatestIsKnown"),
    "CandidacyIsKnown": (),
    "LatestIsKnown": ("CandidacyIsKnown",),
    "LeaderIsKnown": ("CandidateIsNoLeader", "CandidacyIsKnown"),
    "LeaderWasElected": (),
    "LaterIsVoted": ("VoteIsKnown",),
    "CandidateIsNoLeader": ("LeaderIsKnown", "CandidacyIsKnown"),
    "LeaderLeads": ("LeaderLog", "LeaderIsKnown"),
    "LeaderLog": ("LeaderLeads", "LeaderIsKnown"),
    "DiskLog": ("LeaderLog", "LeaderLeads", "LeaderIsKnown", "CandidacyIsKnown"),
    "CandidateLog": ("DiskLog", "CandidacyIsKnown"),
    "LeaderMatches": ("LeaderLog", "LeaderLeads", "LeaderIsKnown"),
    "DiskMatches": ("LeaderMatches", "LeaderLog", "LeaderLeads", "LeaderIsKnown"),
    "CandidateMatches": ("DiskMatches", "LeaderLog"),
    "AckIsKnown": ("LeaderLog", "LeaderLeads", "LeaderIsKnown"),
    "Retained": ("AckIsKnown", "LeaderLog", "LeaderLeads", "LeaderIsKnown"),
    "VoteFact": ("AckIsKnown", "VoteIsKnown", "LatestIsKnown", "LeaderLog"),
    "NeverChosen": ("LatestIsKnown",),
    "CommitIsAcked": ("LeaderLog", "LeaderLeads"),
}
MORE = {  # the queries that need something else: "Lemma" and "Property" are of any state
    ("Lemma", "LeaderHasCommit"): ("NeverChosen", "CommitIsAcked", "LeaderLog"),
    ("Lemma", "AckedIsOnDisk"): ("LeaderHasCommit", "CommitIsAcked", "Retained", "LeaderLog"),
    ("Property", "LogMatching"): ("LeaderMatches", "DiskMatches"),
    ("Property", "LeaderCompleteness"): ("LeaderHasCommit", "LeaderMatches"),
    ("Property", "StateMachineSafety"): ("LeaderCompleteness", "LeaderLog"),
    ("Property", "CommittedIsDurable"): ("AckedIsOnDisk", "CommitIsAcked", "DiskMatches"),
    ("Server.Timeout", "VoteFact"): ("Retained", "VoteIsKnown", "CandidacyIsKnown"),
    ("Server.Grant", "VoteFact"): ("Retained", "DiskLog", "DiskMatches", "CandidateLog", "CandidateMatches", "LeaderLog"),
    ("Server.BecomeLeader", "TermHasNoLeader"): ("LeaderIsKnown", "LeaderWasElected", "VotesAreUnique", "CandidateIsNoLeader"),
    ("Server.BecomeLeader", "LeaderLog"): ("DiskLog", "CandidateLog", "CandidateIsNoLeader"),
    ("Server.BecomeLeader", "LeaderMatches"): ("DiskMatches", "LeaderLog", "DiskLog", "CandidateIsNoLeader", "CandidateLog"),
    ("Server.BecomeLeader", "AckIsKnown"): ("LeaderLog", "DiskLog"),
    ("Server.BecomeLeader", "Retained"): ("LeaderLog", "AckIsKnown", "CandidateIsNoLeader", "CandidateLog"),
    ("Server.BecomeLeader", "VoteFact"): ("LeaderLog", "AckIsKnown", "CandidateIsNoLeader", "CandidateLog"),
    ("Server.BecomeLeader", "NeverChosen"): ("VoteFact", "CandidateIsNoLeader", "CandidateLog", "VoteIsKnown", "LeaderLog"),
    ("Server.BecomeLeader", "CommitIsAcked"): ("LeaderLog", "AckIsKnown", "DiskLog"),
    ("Server.Propose", "AppliedIsCommitted"): ("CommitIsAcked",),
    ("Server.Propose", "NeverChosen"): ("LaterIsVoted", "AckIsKnown", "LatestIsKnown", "LeaderLog"),
    ("Server.AdvanceCommit", "LeaderLeads"): ("OneLeaderPerTerm", "LeaderLog", "LeaderIsKnown"),
    ("Server.Accept", "Retained"): ("AckIsKnown", "DiskMatches", "LeaderMatches", "DiskLog", "LeaderLog"),
    ("Server.Install", "DiskLog"): ("LeaderLog", "CommitIsAcked"),
    ("Server.Install", "Retained"): ("LeaderHasCommit", "DiskMatches", "LeaderMatches", "DiskLog", "LeaderLog",
                                     "CommitIsAcked"),
    ("Server.Tear", "Retained"): ("AckIsKnown", "DiskMatches", "LeaderMatches", "DiskLog", "LeaderLog"),
}
NEEDS = {(f"Server.{action}", clause): needs for action in ACTIONS["Server"] for clause, needs in BASE.items()} | MORE


# --- the model's values as tables, and back -------------------------------------------------------------------------------

COUNTERS = ("restarts", "ahead", "learned", "seen", "installed", "torn")


def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables | {"vote": frozenset() if value.vote is None else frozenset({value.vote})}

    def entries(logs: dict[tuple[int, ...], m.Log]) -> dict:
        return defaultdict(int, {(*key, i): of for key, log in logs.items() for i, of in enumerate(log, 1)})

    def sizes(logs: dict[tuple[int, ...], m.Log]) -> dict:
        return defaultdict(int, {key[0] if len(key) == 1 else key: len(log) for key, log in logs.items()})

    stood = {(t, who): log for t, who, log in sorted(value.cands)}
    led = {(t,): log for t, _, log in value.leaders}
    disks = {(who,): log for who, log in enumerate(value.logs)}
    latest: dict[int, int] = defaultdict(int)
    for t, who, _ in sorted(value.votes):
        latest[who] = max(latest[who], t)
    counters = {name: tables[name] for name in COUNTERS}
    return counters | {
        "stood": frozenset(stood), "cl": entries(stood), "cl_size": sizes(stood), "voted": value.votes, "latest": latest,
        "ruled": frozenset(t for t, *_ in value.leaders), "leads": frozenset((t, who) for t, who, _ in value.leaders),
        "e": entries(led), "e_size": sizes(led), "acked": defaultdict(int, {(t, who): n for t, who, n in sorted(value.acks)}),
        "disk": entries(disks), "size": sizes(disks), "committed": defaultdict(int, dict(value.commits)),
        "applied": value.applied, "raised": value.raised}


def write(role: str, t: Tables) -> Any:
    if role:
        return m.Server(t["pc"], t["term"], next(iter(t["vote"]), None), t["commit"])

    def log(name: str, size: int, *key: int) -> m.Log:
        return tuple(t[name][(*key, i)] for i in range(1, size + 1))

    return m.Shared(
        cands=frozenset((u, who, log("cl", t["cl_size"][u, who], u, who)) for u, who in t["stood"]), votes=t["voted"],
        leaders=tuple(sorted((u, who, log("e", t["e_size"][u], u)) for u, who in t["leads"])),
        acks=frozenset((u, who, n) for (u, who), n in t["acked"].items() if n),
        logs=tuple(log("disk", n, who) for who, n in sorted(t["size"].items())),
        **{name: t[name] for name in COUNTERS}, raised=t["raised"],
        commits=frozenset((u, n) for u, n in t["committed"].items() if n), applied=t["applied"])


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    most = max(c.RESTARTS, c.AHEAD, c.LEARNED, c.SEEN, c.INSTALLED, c.TORN, 1)
    return {Term: [*range(c.MAX_TERM + 1)], Place: [*range(c.MAX_LOG + 1)], Count: [*range(most + 1)],
            Quorum: [*combinations(range(c.SERVERS), m.quorum(c))], Server: [*range(c.SERVERS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(RESTARTS=1))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, write, axioms={"Meet": meet},
                lemmas=LEMMAS, needs=NEEDS)
UNBOUNDED = dict.fromkeys(("CANDIDATES", "MAX_TERM", "MAX_LOG", "AHEAD", "LEARNED", "SEEN", "INSTALLED", "RESTARTS", "TORN")
                          ) | {"FAR": 1 << 20}  # that of impl/raft/terms.py
SAFEGUARDS = {"VOTE_ONCE", "VOTE_NEAR", "UP_TO_DATE", "MAJORITY", "PREV_MATCH", "OWN_TERM", "COMMIT_MATCHED", "SYNC_VOTE",
              "SYNC_LOG", "SYNC_OWN", "SNAPSHOT_COMMITTED"}
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action.
INSTANCES: tuple[dict[str, Any], ...] = (
    {}, {"AHEAD": 1, "CANDIDATES": 1}, {"LEARNED": 1, "CANDIDATES": 1, "MAX_TERM": 1}, {"SEEN": 1, "MAX_LOG": 0},
    {"SEEN": 1, "FAR": 1, "CANDIDATES": 1, "MAX_TERM": 3, "MAX_LOG": 0},
    {"RESTARTS": 1, "CANDIDATES": 1, "MAX_TERM": 1}, {"INSTALLED": 1, "CANDIDATES": 1, "MAX_TERM": 1},
    # With UP_TO_DATE two leaders in conflict take three servers, and many more states.
    {"TORN": 1, "SERVERS": 2, "UP_TO_DATE": False},
)
NEAREST, UNTAKEN = 1_000, frozenset[str]()
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"CANDIDATES": 3, "MAX_TERM": 4, "MAX_LOG": 3, "AHEAD": 2, "LEARNED": 2, "SEEN": 2, "INSTALLED": 2, "RESTARTS": 2,
          "TORN": 2}
WALKS, STEPS = 6, 60


def system(c: m.Constants) -> System:
    """Return the system. Counterexamples have quorums of half of the servers if these suffice, and two entries if they must."""
    return SYSTEM._replace(scope=scope(m.Constants(RESTARTS=1, MAJORITY=c.MAJORITY, MAX_LOG=1 if c.PREV_MATCH else 2)))


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(system(c), c, progress, explain, timeout_ms)
