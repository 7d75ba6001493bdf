"""Safety, for any number of servers, terms, entries and restores: every `always` property of
model/protocols/consistent_read.py, by an inductive invariant, action by action.

A quorum is an element of a sort of its own, and has a server. Any two quorums have a server in common (Meet).

The invariant
- LogIsPromised, LeadIsPromised: each quorum has a server that has promised the term of an entry, or the term that a server has
  led, or a later term. So if no server of a quorum has promised more than term t, no later leader has written.
- LogRises: the terms of the entries do not fall. LeaderIsAlone: two servers do not lead one term.
- OneLeaderPerTerm: a leader knows all entries of its term. LeaderKnowsBefore: it knows all entries of earlier terms, because
  its first own entry is committed. AppliedIsCommitted, AckedIsCommitted.
- IndexIsEnough: once the index is taken, the entry that the read must see is at most the index, or its term is later than the
  one in which the index was taken. ConfirmedIsEnough: once a quorum has confirmed that leader, it is at most the index.
- BegunIsCommitted: what the read must see is acknowledged.

Two checks tie this to the model. `tie` evaluates the relation below in plain Python, on every reachable state of an instance.
`walked` does so on random walks through a larger instance.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations
from typing import Any, Literal, NewType

from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import larger, nothing, one_more, room, zero
from highwater.model.proofs.engine.system import Scope, System, Tables, View
from highwater.model.protocols import consistent_read as m

Term = NewType("Term", int)
Place = NewType("Place", int)  # of an entry in the log, from 1 on; a length
Count = NewType("Count", int)
Quorum = NewType("Quorum", object)
Server = NewType("Server", View)

ROLES = {"Server": Server}
FIELDS = {
    "": {
        "log": (Place, Term), "size": (Place,), "promised": (Server, Term), "answered": (Term, bool),
        "pc": (Literal["Idle", "Begun", "Indexed", "Confirmed", "Waited", "Done"],), "asked": (Server, bool),
        "leader": (Server, bool), "term": (Term,), "index": (Place,), "got": (Place,), "must": (Place,),
        "restores": (Count,), "acknowledged": (Place,),
    },
    "Server": {"lead": (Term,), "queued": (Place,), "applied": (Place,)},
}
RIGID = {"member": (Quorum, Server, bool), "common": (Quorum, Quorum, Server)}


def meaning(_: Any) -> dict:
    return {"member": lambda q, x: x in q, "common": lambda p, q: min({*p} & {*q}, default=p[0])}


def initial(c: m.Constants) -> dict[str, dict]:
    shared = {"log": zero, "size": 0, "promised": zero, "answered": nothing, "pc": "Idle", "asked": nothing, "leader": nothing,
              "term": 0, "index": 0, "got": 0, "must": 0, "restores": 0, "acknowledged": 0}
    return {"": shared, "Server": {"lead": 0, "queued": 0, "applied": 0}}


# --- the transition relation, action by action as in model/protocols/consistent_read.py -----------------------------------

def leads(s, w):
    return And(w.lead > 0, w.lead == s.promised(w.me))


def at_most(s, q, t):
    return s.every(Server, lambda x: Implies(s.member(q, x), s.promised(x) <= t))


def promise(s, q, t):
    return s.but(promised=lambda x: If(s.member(q, x), t, s.promised(x)))


def elect(c, s, w, q: Quorum, t: Term):
    """`t`: the latest term that the quorum has promised."""
    latest = And(at_most(s, q, t), s.some(Server, lambda x: And(s.member(q, x), s.promised(x) == t)))
    yield And(s.member(q, w.me), room(w.me, c.CANDIDATES), room(t, c.MAX_TERM), latest), (q,), promise(s, q, t + 1), \
        w.but(lead=t + 1, queued=s.size if c.NOOP else w.queued)


def write(c, s, w, q: Quorum):
    n = s.size + 1
    yield And(leads(s, w), room(s.size, c.MAX_LOG), s.member(q, w.me), at_most(s, q, w.lead)), (q,), \
        promise(s, q, w.lead).but(log=lambda i: If(i == n, w.lead, s.log(i)), size=n), w.but(queued=n)


def queue(c, s, w):
    yield w.queued < s.size, (), s, w.but(queued=w.queued + 1)


def apply(c, s, w):
    n = w.applied + 1
    wrote = s.log(n) == w.lead
    yield And(n <= w.queued, wrote), (), s.but(acknowledged=larger(s.acknowledged, n)), w.but(applied=n)
    yield And(n <= w.queued, Not(wrote)), (), s, w.but(applied=n)


def restore(c, s, w, n: Place):
    yield And(room(s.restores, c.RESTORES), n >= 0, n < w.applied), (n,), \
        s.but(restores=one_more(s.restores, c.RESTORES)), w.but(applied=n)


def begin(c, s, w):
    yield And(at(s.pc, "Idle"), room(w.me, c.ASKED)), (), s.but(pc="Begun", asked=lambda x: x == w.me, must=s.acknowledged), w


def index(c, s, w):
    guard = And(at(s.pc, "Begun"), leads(s, w))
    confirmed = Or(not c.ROUND, s.answered(w.lead))
    taken = s.but(leader=lambda x: x == w.me, term=w.lead, index=w.queued)
    yield And(guard, confirmed), (), taken.but(pc="Confirmed"), w
    yield And(guard, Not(confirmed)), (), taken.but(pc="Indexed"), w


def quorum_round(c, s, w, q: Quorum):
    guard = And(c.ROUND, leads(s, w), s.member(q, w.me), at_most(s, q, w.lead))
    asked = And(at(s.pc, "Indexed"), s.leader(w.me), Or(s.term == w.lead, not c.SAME_TERM))
    yield And(guard, asked), (q,), promise(s, q, w.lead).but(pc="Confirmed"), w
    yield And(guard, Not(asked), not c.FRESH, Not(s.answered(w.lead))), (q,), \
        promise(s, q, w.lead).but(answered=lambda t: Or(t == w.lead, s.answered(t))), w


def waited(c, s, w):
    return (w.applied if c.WAIT_APPLIED else w.queued) >= s.index


def wait(c, s, w):
    yield And(at(s.pc, "Confirmed"), s.asked(w.me), not c.RECHECK, waited(c, s, w)), (), s.but(pc="Waited"), w


def server_read(c, s, w):
    ready = And(at(s.pc, "Confirmed"), waited(c, s, w)) if c.RECHECK else at(s.pc, "Waited")
    yield And(s.asked(w.me), ready), (), s.but(pc="Done", got=w.applied), w


ACTIONS = {"Server": {
    "Elect": elect, "Write": write, "Queue": queue, "Apply": apply, "Restore": restore,
    "Begin": begin, "Index": index, "Round": quorum_round, "Wait": wait, "Read": server_read,
}}


# --- the invariant, as in the docstring -----------------------------------------------------------------------------------

def meet(c, s, p: Quorum, q: Quorum):
    x = s.common(p, q)
    return And(s.member(p, s.common(p, p)), Or(not c.MAJORITY, And(s.member(p, x), s.member(q, x))))


def read_is_current(c, s):
    return Implies(at(s.pc, "Done"), s.got >= s.must)


def one_leader_per_term(c, s, w: Server, i: Place):
    return Implies(And(i >= 1, i <= s.size, s.log(i) == w.lead), i <= w.queued)


def applied_is_committed(c, s, w: Server):
    return And(w.applied <= w.queued, w.queued <= s.size)


def acked_is_committed(c, s):
    return And(s.acknowledged >= 0, s.acknowledged <= s.size)


def server_is_known(c, s, w: Server):
    return And(w.applied >= 0, w.lead >= 0, w.lead <= s.promised(w.me))


def promised_by_some(s, q, t):
    """Say that some server of the quorum has promised this term or a later one."""
    return s.some(Server, lambda x: And(s.member(q, x), s.promised(x) >= t))


def log_is_promised(c, s, q: Quorum, i: Place):
    return Implies(And(i >= 1, i <= s.size), And(s.log(i) >= 1, promised_by_some(s, q, s.log(i))))


def log_is_long(c, s, i: Place):
    return Implies(Or(i < 1, i > s.size), s.log(i) == 0)


def lead_is_promised(c, s, w: Server, q: Quorum):
    return promised_by_some(s, q, w.lead)


def log_rises(c, s, i: Place, j: Place):
    return Implies(And(i >= 1, i <= j, j <= s.size), s.log(i) <= s.log(j))


def leader_is_alone(c, s, w: Server, v: Server):
    return Implies(And(w.lead == v.lead, w.lead > 0), w.me == v.me)


def leader_knows_before(c, s, w: Server, i: Place):
    return Implies(And(i >= 1, i <= s.size, s.log(i) < w.lead), i <= w.queued)


def begun_is_committed(c, s):
    return And(s.must >= 0, s.must <= s.acknowledged, Implies(Not(at(s.pc, "Idle", "Begun")), s.index >= 0))


def index_is_enough(c, s):
    return Implies(Not(at(s.pc, "Idle", "Begun")), Or(s.must <= s.index, s.log(s.must) > s.term))


def confirmed_is_enough(c, s):
    return And(Implies(at(s.pc, "Confirmed", "Waited", "Done"), s.must <= s.index), Implies(c.FRESH, s.every(
        Term, lambda t: Not(s.answered(t)))), Not(And(c.RECHECK, at(s.pc, "Waited"))))


PROPERTIES = {
    "ReadIsCurrent": read_is_current, "OneLeaderPerTerm": one_leader_per_term,
}
CLAUSES = PROPERTIES | {
    "AppliedIsCommitted": applied_is_committed, "AckedIsCommitted": acked_is_committed, "ServerIsKnown": server_is_known,
    "LogIsPromised": log_is_promised, "LogIsLong": log_is_long, "LeadIsPromised": lead_is_promised, "LogRises": log_rises,
    "LeaderIsAlone": leader_is_alone,
    "LeaderKnowsBefore": leader_knows_before, "BegunIsCommitted": begun_is_committed, "IndexIsEnough": index_is_enough,
    "ConfirmedIsEnough": confirmed_is_enough,
}


# --- the model's values as tables, and back -------------------------------------------------------------------------------

def read(role: str, value: Any) -> Tables:
    tables = value._asdict()
    if role:
        return tables
    of = tables.pop("read")._asdict()
    asked, leader = ({of.pop(name)} - {None} for name in ("at", "leader"))
    return tables | of | {
        "log": defaultdict(int, enumerate(value.log, 1)), "size": len(value.log), "promised": dict(enumerate(value.promised)),
        "asked": frozenset(asked), "leader": frozenset(leader)}


def written(role: str, t: Tables) -> Any:
    if role:
        return m.Server(t["lead"], t["queued"], t["applied"])
    at_, leader = (next(iter(t[name]), None) for name in ("asked", "leader"))
    of = m.Read(t["pc"], at_, leader, t["term"], t["index"], t["got"], t["must"])
    log = tuple(t["log"][i] for i in range(1, t["size"] + 1))
    promised = tuple(term for _, term in sorted(t["promised"].items()))
    return m.Shared(log, promised, t["answered"], of, t["restores"], t["acknowledged"])


def scope(c: Any) -> Scope:  # a Constants without None
    """Return all values of each sort in an instance in which everything is bounded."""
    return {Term: [*range(c.MAX_TERM + 1)], Place: [*range(c.MAX_LOG + 1)], Count: [*range(c.RESTORES + 1)],
            Quorum: [*combinations(range(c.SERVERS), c.SERVERS // 2 + c.MAJORITY)], Server: [*range(c.SERVERS)]}


# Instances in which counterexamples to induction are searched.
SMALL = scope(m.Constants(MAX_TERM=3, RESTORES=1))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, read, written,
                axioms={"Meet": meet})
UNBOUNDED = dict.fromkeys(("CANDIDATES", "ASKED", "MAX_TERM", "MAX_LOG", "RESTORES"))
SAFEGUARDS = {"WAIT_APPLIED", "RECHECK", "ROUND", "FRESH", "NOOP", "SAME_TERM", "MAJORITY"}
SAFEGUARDS_OFF = tuple({name: False} for name in m.Constants._fields if name in SAFEGUARDS)
SYSTEMS = {"": {}}  # that are proved
# Instances for the tie that together take every action but Wait.
INSTANCES: tuple[dict[str, Any], ...] = (
    {"RESTORES": 1, "MAX_TERM": 1}, {"SERVERS": 2}, {"MAX_TERM": 1, "SERVERS": 2, "MAX_LOG": 2}, {})
NEAREST, UNTAKEN = 1_000, frozenset({"Server.Wait"})
# An instance too large to explore fully, the number of random walks through it, and the steps of a walk.
WALKED = {"CANDIDATES": 3, "ASKED": 3, "MAX_TERM": 4, "MAX_LOG": 3, "RESTORES": 2}
WALKS, STEPS = 10, 50


def system(c: m.Constants) -> System:
    """Return the system. Counterexamples have quorums of half of the servers if these suffice."""
    return SYSTEM if c.MAJORITY else SYSTEM._replace(scope=scope(m.Constants(MAX_TERM=3, RESTORES=1, MAJORITY=False)))


def prove(constants: m.Constants | None = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the protocol. Of the constants only the safeguards matter: nothing is bounded. `explain`: find counterexamples to
    induction."""
    c = (constants or m.Constants())._replace(**UNBOUNDED)
    return inductive.prove(system(c), c, progress, explain, timeout_ms)
