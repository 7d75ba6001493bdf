"""Map reads of a Raft group to the actions of model/protocols/consistent_read.py.

The trace is one of Raft servers, whose steps also say what they did for reads (`Step.reads`). It must refine
model/protocols/raft.py (traces/protocols/raft.py). The log of that model is abstracted to the log of this one:

    a leader commits an entry of its own term    Elect for the first one, which says nothing; Write for each further one
    a server's commit index rose                 Queue and Apply for each entry: a node applies what it commits within the step
    a server starts again                        Restore, to what its snapshot has

If a later leader commits entries of earlier leaders together with its own, their elections and writes come right before its
election. The model has one read. So each read of the trace has states of its own, which also follow all other actions:

    the server takes a caller's read             Begin
    the leader takes its commit index            Index
    a quorum has answered a round of heartbeats  Round: the round must have begun after the index was taken, in the same term
    a caller is told what was read               Read, of as many entries as the server has applied then

A round takes several answers, and is one action of the model. It takes place at the last of the answers that it needs. If a
later leader is elected between these answers, it takes place before that election.
"""

from typing import Any, NamedTuple

from highwater.model.protocols import consistent_read
from highwater.model.protocols.consistent_read import Constants, leads
from highwater.model.protocols.raft import led
from highwater.traces.event import Event
from highwater.traces.machines import node_of
from highwater.traces.nodes import NodeTrace, asks
from highwater.traces.protocols import raft
from highwater.traces.protocols.raft import KEYS, LEADER, Step, step_of
from highwater.traces.protocols.raft_calls import CALLS, JUDGES
from highwater.traces.protocols.replicated.servers import BEGIN
from highwater.traces.refine import Failure, Match, Refiner, refiner_of
from highwater.traces.trace import UNCHECKED, refiner_without_witnesses

INDEX, ROUND, ANSWER = "index", "round", "answer"  # notes of a step, each with its values; of BEGIN, a read and its
# caller; a read and its index; the leader's latest round; the term and the latest round that is answered


CAUSES = {  # note -> the inputs of a step that may have it
    BEGIN: ("Read",), ANSWER: ("Heartbeat", "Synced"), INDEX: ("Read", "ReadIndex", "Appended", "Synced"),
    ROUND: ("Tick", "Read", "ReadIndex", "Appended", "Synced", "Vote"),
}
ORDER = (BEGIN, INDEX, ROUND, ANSWER)  # of the notes of a step


def constants(servers: int) -> Constants:
    """Return the constants of the model that traces of so many servers refine: without bounds."""
    return Constants(SERVERS=servers, CANDIDATES=None, ASKED=None, MAX_TERM=None, MAX_LOG=None, RESTORES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(consistent_read.model(c))


class Pending(NamedTuple):
    """A read, and the states of the model in which it is the one read."""

    name: str
    at: str  # the server that was asked
    begun: tuple[int, ...]  # the states before any leader took its index
    states: tuple[int, ...]
    leader: str = ""  # that took the index; "": none did that could be confirmed
    term: int = 0
    fresh: int = 0  # the first round of that leader that began after the index was taken
    placed: bool = False  # its round took place in the model
    confirmed: bool = False  # a quorum has answered


class Trace(NodeTrace):
    """Refines the trace of a Raft group whose callers read."""

    alien = UNCHECKED
    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: raft.Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        servers = len(refiner.index)
        self.raft = raft.Trace(refiner_of(raft.refiner, raft.constants(servers)), namespace, skew_ms)
        self.quorum = servers // 2 + 1
        self.base = refiner.states  # of the model without a read
        self.reads: dict[str, Pending] = {}  # caller -> its read
        self.terms: list[int] = []  # of each entry that is committed
        self.counts = [0]  # of entries of callers among the first so many
        self.names: set[str] = set()  # of all reads
        self.elected: list[int] = []  # the terms whose election took place in the model
        self.rounds: dict[tuple[str, int], int] = {}  # leader, term -> its latest round of heartbeats
        self.answers: dict[tuple[str, int], int] = {}  # server, term -> the latest round that it answered

    def observe(self, e: Event) -> None:
        """Check the next event. Raises Failure."""
        super().observe(e)
        self.refiner.states = tuple(dict.fromkeys((*self.base, *[state for of in self.reads.values() for state in of.states])))

    @property
    def refiners(self) -> tuple[Refiner, ...]:
        return self.refiner, self.raft.refiner

    def standing(self) -> Any:
        return super().standing(), self.raft.standing()

    def _take(self, e: Event) -> None:
        try:
            self.raft._take(e)
        except Failure as failure:
            failure.states = self.refiner.unpacked()  # of this model, as all failures here
            raise
        if e.kind == "step" and not asks(e):
            step = step_of(e.body)
            self._follows(e.client, step)
            if e.op == "Read" and [note for note, *_ in step.reads[:1]] != [BEGIN]:
                raise self._refused("Server.Begin", f"{e.client} takes a read, and does not say which")
            places = [ORDER.index(note) for note, *_ in step.reads]
            once = [note for note in step.reads if note[0] != INDEX]  # a server may be asked twice for a read's index
            if places != sorted(places) or any(once.count(note) > 1 for note in once):
                raise self._refused("Server.step", f"{e.client} has the notes {step.reads}")
            for note, *of in step.reads:
                if e.op not in CAUSES[note]:
                    raise self._refused("Server.step", f"{e.client} has the note {note} {of} in a step with {e.op}")
                self._notes(e.client, step.term, note, of)
        elif e.kind == "told":
            self._reads(e)
        elif e.kind == "died":
            self.reads = {caller: of for caller, of in self.reads.items() if not caller.startswith(f"{e.client}/")}

    # --- the log

    def _follows(self, me: str, step: Step) -> None:
        """Take the elections and writes that a leader's commit tells of, and what a server applies."""
        if step.role == LEADER and step.commit > len(self.terms):
            self._commits(me, step.term, step.commit)
        if step.found is not None:
            kept = self.counts[step.commit]  # which is what its snapshot has
            if self._applied(me) > kept:
                self._all(me, "Restore", (kept,))
        most = self.counts[step.commit]
        while self._applied(me) < most:
            if self._local(me).queued == self._applied(me):
                self._all(me, "Queue", ())
            self._all(me, "Apply", ())

    def _commits(self, me: str, term: int, upto: int) -> None:
        s = self.raft.refiner.shared()
        leaders = {t: who for t, who, _ in s.leaders}
        for of in led(s, term)[len(self.terms):upto]:
            who = f"Server#{leaders[of]}"
            if of not in self.elected:
                self._elects(who, of)
            else:
                self._all(who, "Write", (self._quorum(who),))
            self.counts.append(self.counts[-1] + (of in self.terms))
            self.terms.append(of)

    def _elects(self, who: str, term: int) -> None:
        """Elect a leader. Rounds of earlier leaders that may still get their answers take place before."""
        for caller, of in self.reads.items():
            if of.leader and not of.placed and self.elected[-1] == of.term:
                self.reads[caller] = self._on(of, of.leader, "Round", (self._quorum(of.leader),))._replace(placed=True)
        self._all(who, "Elect", (self._quorum(who),))
        self.elected.append(term)

    def _quorum(self, me: str, servers: tuple[str, ...] = ()) -> tuple[int, ...]:
        """Return a quorum of a server, of these and perhaps further ones."""
        number = self.refiner.index
        others = [i for i in sorted(number.values()) if i not in {number[me], *[number[name] for name in servers]}]
        return tuple(sorted([number[me], *[number[name] for name in servers if name != me], *others][:self.quorum]))

    def _local(self, me: str) -> consistent_read.Server:
        self.refiner.states = self.base
        return self.refiner.local(me)

    def _applied(self, me: str) -> int:
        return self._local(me).applied

    # --- reads

    def _notes(self, me: str, term: int, note: str, of: list) -> None:
        if note == BEGIN:
            name, caller = of
            if node_of(caller) == caller or node_of(caller) not in self.refiner.index:
                raise self._refused("Server.Begin", f"{me} takes a read of {caller}, which is no caller")
            if name in self.names:
                raise self._refused("Server.Begin", f"{me} takes a read of {caller} as {name}, as which another was taken")
            self.names.add(name)
            self.reads[caller] = self._on(Pending(name, me, self.base, self.base), me, "Begin", (), begun=True)
        elif note == INDEX:
            self._takes_index(me, term, *of)
        elif note == ROUND:
            number, = of
            latest = self.rounds.get((me, term), 0)
            if number != latest + 1:
                raise self._refused("Server.Round", f"{me} begins round {number} of term {term} after {latest}")
            self.rounds[me, term] = number
        elif note == ANSWER:
            of_term, number = of
            begun = max((of_round for (_, then), of_round in self.rounds.items() if then == of_term), default=0)
            if not self.answers.get((me, of_term), 0) < number <= begun:
                raise self._refused("Server.Round", f"{me} answers round {number} of term {of_term}, and {begun} have begun")
            self.answers[me, of_term] = number
            self._confirms(of_term)
        else:
            raise ValueError(f"a step has the note {note!r}")

    def _takes_index(self, me: str, term: int, name: str, index: int) -> None:
        """Take the index of a read. A leader that was succeeded can take one that nobody will confirm: that is no step."""
        caller, of = next(((caller, of) for caller, of in self.reads.items() if of.name == name), ("", None))
        if of is None or of.confirmed or (of.leader, of.term) == (me, term):
            return  # its caller has given up, or the question came twice
        self.refiner.states = of.begun
        s, w = self.refiner.shared(), self.refiner.local(me)
        knows = leads(s, self.refiner.index[me], w) and self.elected[-1] == term
        if not knows or index > len(self.terms):
            return
        if w.queued != self.counts[index]:
            raise self._refused("Server.Index", f"{me} takes index {index} for a read, so {self.counts[index]} entries of "
                                f"callers, and in the model it knows {w.queued} to be committed")
        fresh = self.rounds.get((me, term), 0) + 1
        again = of._replace(states=of.begun, leader=me, term=term, fresh=fresh, placed=False)
        self.reads[caller] = self._on(again, me, "Index", ())

    def _confirms(self, term: int) -> None:
        """Let the rounds take place that a quorum has answered now."""
        for caller, of in self.reads.items():
            if of.term != term or of.confirmed:
                continue
            those = tuple(name for name in self.refiner.index if self.answers.get((name, term), 0) >= of.fresh)
            if len({of.leader, *those}) >= self.quorum:
                placed = of if of.placed else self._on(of, of.leader, "Round", (self._quorum(of.leader, those),))
                self.reads[caller] = placed._replace(placed=True, confirmed=True)

    def _reads(self, e: Event) -> None:
        """Judge what a caller is told of its read."""
        of = self.reads.pop(e.client, None)
        if of is None and e.keys[:1] == ("read",) and e.keys[1] != "NotRunning":
            raise self._refused("Server.Begin", f"{e.client} is told of a read that no server has taken")
        if e.op != "read":
            return
        assert of is not None
        if of.leader and not of.confirmed:
            raise self._refused("Server.Round", f"{e.client} is told of a read at {of.at}, and no quorum has answered a round "
                                f"of {of.leader} in term {of.term} that began after it took the index")
        self._on(of, of.at, "Read", len(e.body.split()))

    # --- one action

    def _all(self, me: str, action: str, choices: tuple) -> None:
        """Take an action of the log, also in the states of each read."""
        self.base = self._from(self.base, me, action, choices)
        for caller, of in self.reads.items():
            begun = self._from(of.begun, me, action, choices)
            states = begun if of.states == of.begun else self._from(of.states, me, action, choices)
            self.reads[caller] = of._replace(begun=begun, states=states)

    def _on(self, of: Pending, me: str, action: str, choices: tuple | int, begun: bool = False) -> Pending:
        """Take an action of a read; with `begun`, the first one."""
        states = self._from(of.states, me, action, choices)
        return of._replace(begun=states if begun else of.begun, states=states)

    def _from(self, states: tuple[int, ...], me: str, action: str, choices: tuple | int) -> tuple[int, ...]:
        """Return the states after an action."""
        self.refiner.states = states
        self.refiner.event(me, (0, 0, me, action, choices), matched)
        return self.refiner.states


def matched(event: tuple) -> Match:
    _, _, me, action, choices = event
    if action == "Read":
        return Match(me, (action,), (), lambda action, s, w, s2, w2: s2.read.got == choices)
    return Match(me, (action,), choices)
