"""Map the steps of Raft servers whose members change to the actions of model/protocols/raft_membership.py.

The mapping is that of traces/protocols/raft.py, over a log whose entries may change the members:

    a leader asks to make an entry durable    Change if it has other voters than those in force in its log; otherwise Propose
    a commit index rose at another server     no action: some leader must have committed as much, with the same entries
    a server starts again                     Restart; the members are those that its log has

An entry that only adds or moves a learner changes no voters, so it is a Propose. A step says which voters its entries name.
The bytes of these entries, on the disk and in messages, must say the same. It also says which voters are in force once it has
changed the log: they must be those of the last change there. A snapshot must have the members that are in force at its entry.
"""

from collections.abc import Iterable

from highwater.model.protocols import raft as fixed
from highwater.model.protocols import raft_membership
from highwater.model.protocols.raft_membership import Constants, Members, Shared, led, members
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.machines import OK, Files
from highwater.traces.protocols import raft
from highwater.traces.protocols.raft import KEYS
from highwater.traces.protocols.raft_membership_calls import CALLS, JUDGES
from highwater.traces.protocols.replicated.log import SINK
from highwater.traces.protocols.replicated.members import VOTER, voters_in, voters_of_snapshot
from highwater.traces.protocols.replicated.servers import FAR, LEADER, Known, Step
from highwater.traces.refine import Refiner
from highwater.traces.trace import refiner_without_witnesses

NONE = fixed.Shared(frozenset(), frozenset(), (), frozenset(), (), 0, 0, 0, 0, 0, 0, *[frozenset()] * 3)


def constants(servers: int, founders: int) -> Constants:
    """Return the constants of the model that traces of so many servers refine, without bounds. `founders`: how many began."""
    return Constants(SERVERS=servers, START=founders, CANDIDATES=None, MAX_TERM=None, MAX_LOG=None, CHANGES=None, AHEAD=None,
                     SEEN=None, FAR=FAR, INSTALLED=None, RESTARTS=None, TORN=None, LED=0)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(raft_membership.model(c))


def terms(log: raft_membership.Log) -> fixed.Log:
    return tuple([term for term, _ in log])


class Trace(raft.Trace):
    """Refines the trace of a Raft group whose members change."""

    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.learned: dict[str, int] = {}  # server -> how much of its log is committed, as far as it knows
        self.voters: dict[tuple[int, int], tuple[str, ...]] = {}  # index, term of a change -> the voters that it names
        self.projected: tuple[Shared, fixed.Shared] | None = None  # the latest state, and what is in it without members

    @property
    def founders(self) -> dict[str, int]:
        """Return the members with which the group began, each with its role."""
        return dict.fromkeys(sorted(name for name, number in self.refiner.index.items()
                                    if number < self.refiner.model.constants.START and name), VOTER)

    def facts(self) -> fixed.Shared:
        """Return what the servers have sent and have on their disks, with the terms of the entries alone."""
        s = self.refiner.shared()
        if self.projected is None or self.projected[0] is not s:
            self.projected = s, NONE._replace(
                cands=frozenset([(t, who, terms(log)) for t, who, log in s.cands]), votes=s.votes, acks=s.acks,
                leaders=tuple([(t, who, terms(log)) for t, who, log in s.leaders]),
                logs=tuple([terms(log) for log in s.logs]), commits=s.commits)
        return self.projected[1]

    def _known_commit(self, me: str) -> int:
        return self.learned.get(me, 0)

    def _in_force(self, me: str) -> Members:
        """Return the members that are in force for a leader."""
        return members(self.refiner.model.constants, led(self.refiner.shared(), self.refiner.local(me).term))

    def _is_quorum(self, me: str, others: list[str]) -> bool:
        those = self._in_force(me)
        return 2 * sum(self.refiner.index[name] in those for name in (me, *others)) > len(those)

    def _match(self, me: str, entries: Iterable[tuple[int, int, bytes]]) -> None:
        """Check also that a change names the voters that its leader said."""
        entries = list(entries)
        super()._match(me, entries)
        for index, term, body in entries:
            found = voters_in(body)
            if found != self.voters.get((index, term)):
                raise self._refused("LogMatching", f"{me} has {found and ', '.join(found)} as voters in entry {index} of term "
                                    f"{term}, and its leader has said {self.voters.get((index, term))}")

    def _checked(self, e: Event, step: Step) -> Known | None:
        before = super()._checked(e, step)
        if e.op == "Change":
            as_asked = len(step.changes) == 1 and step.role == LEADER and step.save and len(step.save.terms) == 1
        else:
            as_asked = not step.changes or e.op == "Append"
        if not as_asked:
            raise self._refused("Server.step", f"{e.client} takes a step with {e.op}, and changes the members: {step.changes}")
        for index, named in step.changes:
            save, voters = step.save, tuple(named)
            if save is None or not save.first <= index < save.first + len(save.terms):
                raise self._refused("Server.step", f"{e.client} changes the members in entry {index}, which it does not save")
            if self.voters.setdefault((index, save.terms[index - save.first]), voters) != voters:
                raise self._refused("LogMatching", f"{e.client} has other voters in entry {index} than a server has had")
        saved = enumerate(step.save.terms, step.save.first) if step.save else ()
        if [index for index, term in saved if (index, term) in self.voters] != [index for index, _ in step.changes]:
            raise self._refused("Server.step", f"{e.client} says that its save changes the members by {step.changes}, and it "
                                "has other changes")
        return before

    def _steps(self, me: str, before: Known | None, step: Step) -> None:
        super()._steps(me, before, step)
        if step.found is None and not (step.save and (step.save.terms or step.save.base)):
            return
        named = tuple([self.refiner.index[name] for name in step.voters])
        log, c = self._in_memory(me), self.refiner.model.constants
        changes = [index for index, (term, _) in enumerate(log, 1) if (index, term) in self.voters]
        knows = self.refiner.index[me] < c.START or changes or any(
            name.startswith("snapshot-") for name in self.machines.files.get(me, {}))
        if named != (members(c, log) if knows else ()):  # who did not begin the group knows nobody before the first change
            raise self._refused("Server.members", f"{me} takes {', '.join(step.voters) or 'nobody'} for the voters, and its "
                                f"log has others: {log}")

    def _on_disk(self, e: Event, me: str, before: Files) -> None:
        super()._on_disk(e, me, before)
        content = before.get(e.key) if (e.op, e.key, e.status) == ("rename", SINK, OK) else None
        if content is None:
            return
        index, voters = voters_of_snapshot(content)
        s = self.refiner.shared()
        term = max((t for t, n in s.commits if n >= index), default=0)
        if not term or tuple(sorted(self.refiner.index[name] for name in voters)) != members(
                self.refiner.model.constants, led(s, term)[:index]):
            raise self._refused("Server.members", f"{me} writes a snapshot up to entry {index} with the voters "
                                f"{', '.join(voters) or 'nobody'}, and the log has others there")

    def _in_memory(self, me: str) -> raft_membership.Log:
        """Return a server's log in memory: that of its disk, after the saves that are under way."""
        s = self.refiner.shared()
        log = s.logs[self.refiner.index[me]]
        for save in self.waiting.get(me, ()):
            if save.base:
                term = max((t for t, n in s.commits if n >= save.base[0]), default=0)
                log = led(s, term)[:save.base[0]] if term else ()
            if save.base or save.terms:
                entries = [(term, self._named(index, term)) for index, term in enumerate(save.terms, save.first)]
                log = (*log[:save.first - 1], *entries)
        return log

    def _named(self, index: int, term: int) -> Members:
        return tuple(sorted(self.refiner.index[name] for name in self.voters.get((index, term), ())))

    # --- one action

    def _do(self, me: str, action: str, choices: tuple) -> None:
        if action == "LearnCommit":
            self._learn(me, *choices)
            return
        if action == "Restart":
            self.learned[me] = 0
            choices = ()
        if action == "AdvanceCommit":
            self.learned[me] = choices[0]
        if action == "Propose":
            term = self.refiner.local(me).term
            those = self._named(len(led(self.refiner.shared(), term)) + 1, term)
            if those and those != self._in_force(me):
                action, choices = "Change", (those, *choices)
        super()._do(me, action, choices)

    def _learn(self, me: str, n: int) -> None:
        """Check that a server takes only what some leader has committed for committed."""
        s = self.refiner.shared()
        mine = s.logs[self.refiner.index[me]][:n]
        if not any(n <= upto and led(s, t)[:n] == mine for t, upto in s.commits):
            raise self._refused("Server.LearnCommit", f"{me} takes {n} entries for committed that no leader has committed")
        self.learned[me] = n
