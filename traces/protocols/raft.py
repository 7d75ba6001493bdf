"""Map the steps of Raft servers to the actions of model/protocols/raft.py.

A `step` event is one pure step of a server (impl/raft/core.py): its input, what it asked to make durable, what became durable,
its role, term and commit index. The model acts when something is durable, so a step is 0 to n actions:

    what became durable, save by save    Timeout, Grant or SeeTerm for term and vote; Accept for entries, Install for a snapshot
    it leads now                         BecomeLeader
    a leader asks to make entries durable    Propose before its own sync, for each
    it tells the leader how far its log agrees    Accept
    its commit index rose                AdvanceCommit at the leader; LearnCommit at others, and at a leader that installs
    it starts again                      what a save under way had left on the disk, and Restart; a part of a save is Tear if
                                         it cuts the log and puts nothing there; Install for a snapshot that the log lacks

After each the model's server must have the same term, vote and log as the server's disk. Messages and operations of disks are
no steps; a message that arrives must have been sent.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from highwater.model.protocols import raft
from highwater.model.protocols.raft import Constants, Log, acked, led
from highwater.traces.calls import untrue
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.machines import OK, Files, node_of
from highwater.traces.nodes import CALLED, NodeTrace, asks
from highwater.traces.protocols.raft_calls import CALLS, COMMAND, JUDGES, Since, never_proposed, transferred, wrongly_read
from highwater.traces.protocols.replicated import log as raft_log
from highwater.traces.protocols.replicated import messages as raft_messages
from highwater.traces.protocols.replicated import servers as raft_servers
from highwater.traces.protocols.replicated.log import Written
from highwater.traces.protocols.replicated.servers import BEGIN, FAR, LEADER, MESSAGES, Known, Save, Step
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import UNCHECKED, refiner_without_witnesses

KEYS = Keys("", listed=("",))  # a disk's files may have any name
NO_CUT = -1  # of a save's entries: not even the log is cut where they begin


class Disk(NamedTuple):
    """Content of a server's disk: the term, the vote, and the terms of its entries. A log that begins later has the base's term
    in the place of all before."""

    term: int
    vote: str
    log: Log


def body_of(step: Step) -> bytes:
    """Write the body of a `step` event. What is empty is left out."""
    return json.dumps({name: value for name, value in step._asdict().items() if value}, separators=(",", ":")).encode()


@lru_cache(50_000)
def step_of(body: bytes) -> Step:
    """Read the body of a `step` event. Raises ValueError or TypeError for any other."""
    said = json.loads(body)
    save, found = said.pop("save", None), said.pop("found", None)
    if save is not None:
        number, term, vote, first, terms, base = save
        save = Save(number, term, vote, first, tuple(terms), base and pair(base))
    if found is not None:
        term, vote, base, terms = found
        found = term, vote, pair(base), tuple(terms)
    return NOTHING._replace(**said, save=save, found=found)


def pair(of: list[int]) -> tuple[int, int]:
    index, term = of
    return index, term


NOTHING = Step("", 0, 0, 0, None, 0, 0, None)


def constants(servers: int) -> Constants:
    """Return the constants of the model that traces of so many servers refine: without bounds."""
    return Constants(SERVERS=servers, CANDIDATES=None, MAX_TERM=None, MAX_LOG=None, AHEAD=None, LEARNED=None, SEEN=None,
                     FAR=FAR, INSTALLED=None, RESTARTS=None, TORN=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(raft.model(c))


class Trace(NodeTrace):
    """Refines the trace of a Raft group."""

    alien = UNCHECKED
    calls, claims = CALLS, JUDGES

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.waiting: dict[str, tuple[Save, ...]] = {}  # server -> its saves that it does not take for durable yet
        self.known: dict[str, Known] = {}  # server that is up -> what its latest step said
        self.commit: dict[str, int] = {}  # server -> its commit index
        self.written: dict[str, Written] = {}  # server that is up -> its log, by its appends
        self.counted: dict[tuple[str, int, str], int] = {}  # server, term, follower -> how far that agrees
        self.told: set[tuple] = set()  # what messages told that is no fact of the model: replicated/messages.py
        self.bodies: dict[tuple[int, int], bytes] = {}  # index, term of an entry -> its kind and content
        self.answered: set[int] = set()  # indexes of entries that a caller was told of
        self.heard = 0  # callers' entries that some caller knows: they are among the first so many
        self.depositions = 0  # steps in which a leader ceased to lead
        self.asked: dict[bytes, int] = {}  # content of an entry -> the number of the call that has asked for it
        self.proposed: dict[tuple[int, int], int] = {}  # index, term of an entry -> how many calls had begun then
        self.calls_begun = 0  # of those that propose an entry

    def _take(self, e: Event) -> None:
        kind = e.kind
        if kind == "disk":
            me = node_of(e.client)
            files = self.machines.files.get(me, {})
            super()._take(e)
            self._on_disk(e, me, files)
            return
        super()._take(e)
        if (kind in ("told", "received") or asks(e)) and node_of(e.client) not in self.known:
            raise self._refused("form", f"{kind} {e.op} of {e.client}, whose server has made no step yet")
        if kind == "sent":
            self._sends_message(e)
        elif kind == "received":
            raft_messages.counted(self.counted, e.client, *self.machines.arrived[e.client])
        elif asks(e):
            if e.keys[0] == "propose":
                self.calls_begun += 1
                self.asked.setdefault(e.body, self.calls_begun)
        elif kind == "step":
            step = step_of(e.body)
            self._takes_call(e, step)
            before = self._checked(e, step)
            self._steps(e.client, before, step)
        elif kind == "told":
            self._told(e)
            rule = {"failed": never_proposed, "transferred": transferred}.get(e.op, wrongly_read)
            if why := rule(self, e):
                raise untrue(self, e, e.op, why)
            if e.op == "failed":
                self.asked.pop(e.body, None)
        elif kind == "died":
            self.known.pop(e.client, None)

    def _no_call(self, e: Event) -> str:
        return super()._no_call(e) or (f"{e.client} begins a read of {e.body!r}" if e.keys == ("read",) and e.body else "")

    def _takes_call(self, e: Event, step: Step) -> None:
        """Check that a caller has asked for what a step takes up. What an entry has is checked when it is written or sent."""
        if e.op == "Propose" and step.save:
            self.proposed[step.save.first, step.term] = self.calls_begun
        for _, caller in [of for note, *of in step.reads if note == BEGIN]:
            if (call := self.open.get(caller)) is None or call.name != CALLED[e.op]:
                raise self._refused("Server.step", f"{e.client} takes up a read of {caller}, which has not asked for one")
        if e.op == "TransferTo" and not any(
                node_of(client) == e.client and call.name == CALLED[e.op] for client, call in self.open.items()):
            raise self._refused("Server.step", f"{e.client} takes a step with {e.op}, for which nobody has asked")

    def _checked(self, e: Event, step: Step) -> Known | None:
        """Check a step by what is known of its server alone. Return what was known before."""
        me, before = e.client, self.known.get(e.client)
        if e.op in MESSAGES and (why := raft_messages.why_not_caused(
                before, e.op, step, *self.machines.arrived.pop(me, ("", b"")))):
            raise self._refused("message", f"{me} takes a step with {e.op}, and no such message came since its last one: {why}")
        now = raft_servers.after(before, me, e.op, step)
        if isinstance(now, str):
            raise self._refused("Server.step", now)
        self._on_its_disk(e, step, now)
        self.known[me] = now
        raft_messages.stepped(self.refiner.index[me], before, now, self.told)
        return before

    def _on_its_disk(self, e: Event, step: Step, now: Known) -> None:
        """Check that the server's files have what a step takes for durable."""
        me, snapshot = e.client, f"snapshot-{step.commit:016d}-"
        if e.op == "Installed" and not any(name.startswith(snapshot) for name in self.machines.files[me]):
            raise self._refused("Server.Install", f"{me} takes {snapshot}.. for installed, and its disk has none")
        if e.op == "Installed" and (name := self._unnamed(me, self.machines.files[me])):
            raise self._refused("Server.disk", f"{me} takes {name} for installed, and no sync covers its name")
        log = self.written.get(me, Written())
        if step.found is not None:
            log = Written(*step.found[:2], now.last)
        if step.synced or step.found is not None:
            why = raft_log.why_not_durable(log, step.synced, self.machines.uncovered(me))
            if why:
                raise self._refused("Server.disk", f"{me} takes save {step.synced} for durable, and {why}")
        self.written[me] = raft_log.asked(log, step.save) if step.save else log

    def _on_disk(self, e: Event, me: str, before: Files) -> None:
        """Follow what a server writes to its log. `before`: its files before that."""
        if why := raft_log.why_not_done(e, before, me in self.known):
            raise self._refused("Server.disk", f"{me}: {why}")
        if e.op == "rename" and e.condition in self.machines.dirty.get(me, ()):
            raise self._refused("Server.disk", f"{me} gives {e.key} its name {e.condition} before it is synced")
        if e.op == "rename" and (of := raft_log.snapshot_of(e.condition)) and not self._is_committed(*of):
            raise self._refused("Server.disk", f"{me} makes {e.condition}, and the model has no such entry that is committed")
        if e.op == "remove" and me in self.known and (
                why := raft_log.why_needed(e.key, before, self.machines.unsynced.get(me, ()))):
            raise self._refused("Server.disk", f"{me}: {why}")
        if e.op != "append":
            return
        if me in self.known and raft_log.is_segment(e.key):  # a failed write may be found after a restart
            self._match(me, [(of.index, of.term, of.body) for of in raft_log.records_in(e.body) if of.type == raft_log.ENTRY])
        if e.status != OK:
            return
        files = self.machines.files[me]
        if me not in self.known:
            if why := raft_log.why_not_recovered(me, e.key, e.body, files):
                raise self._refused("Server.disk", f"{me}: {why}")
            return
        if not raft_log.is_segment(e.key):
            return
        records = list(raft_log.records_in(e.body))
        now = raft_log.why_misplaced(me, e.key, e.body, files, records) or raft_log.written(self.written[me], records)
        if isinstance(now, str):
            raise self._refused("Server.disk", f"{me}: {now}")
        self.written[me] = now

    def _unnamed(self, me: str, files: Files) -> str:
        """Return a snapshot of a server whose name a crash may lose; "" if there is none."""
        names = sorted(name for name in self.machines.unsynced.get(me, ()) if name in files and raft_log.snapshot_of(name))
        return names[-1] if names else ""

    def _is_committed(self, index: int, term: int) -> bool:
        """Tell whether the entry of this index and term is committed."""
        s = self.facts()
        return any(index <= upto and led(s, by)[index - 1] == term for by, upto in s.commits)

    def _match(self, me: str, entries: Iterable[tuple[int, int, bytes]]) -> None:
        """Check that entries of one index and term are equal, wherever they are written or sent."""
        for index, term, body in entries:
            if (index, term) not in self.bodies and body[:1] == COMMAND and (index, term) in self.proposed and not (
                    0 < self.asked.get(body[1:], 0) <= self.proposed[index, term]):
                raise self._refused("Server.Propose", f"{me} has {body[1:]!r} in entry {index}, and nobody had asked for that")
            if self.bodies.setdefault((index, term), body) != body:
                raise self._refused("LogMatching", f"{me} has another entry {index} of term {term} than a server has had")

    def _sends_message(self, e: Event) -> None:
        me, to = self.refiner.index[e.client], self.refiner.index.get(e.key)
        if to is None or to == me:
            raise self._refused("message", f"{e.client} sends to {e.key!r}")
        if e.client not in self.known:
            raise self._refused("message", f"{e.client} sends a message before its first step")
        known, durable = self.known[e.client], self.refiner.local(e.client).term
        why = raft_messages.untrue(self.facts(), me, to, known, durable, e.body, self.told)
        self._match(e.client, raft_messages.entries_in(e.body) if not why else ())
        if why:
            raise self._refused("message", f"{e.client}, which is {known}, tells {e.key} what is not so: {why}")

    def _since(self, e: Event) -> Since:
        return Since(self.most_committed(), self.heard, self.depositions)

    def most_committed(self) -> int:
        """Return how many entries some leader has committed."""
        return max((n for _, n in self.facts().commits), default=0)

    # --- what is known in the model

    def facts(self) -> raft.Shared:
        """Return what the servers have sent and have on their disks."""
        return self.refiner.shared()

    def _known_commit(self, me: str) -> int:
        """Return how much a server knows to be committed."""
        return self.refiner.local(me).commit

    def _is_quorum(self, me: str, others: list[str]) -> bool:
        """Tell whether the leader is a quorum, together with others."""
        return len(others) >= len(self.refiner.index) // 2

    # --- a step of a server

    def _steps(self, me: str, before: Known | None, step: Step) -> None:
        if before is not None and before.role == LEADER and (step.role, step.term) != (LEADER, before.term):
            self.depositions += 1
        if step.found is not None:
            self._restarts(me, step)
        saves = self.waiting.get(me, ())
        while step.synced and saves and saves[0].number <= step.synced:
            self._becomes_durable(me, saves[0])
            saves = saves[1:]
        self.waiting[me] = saves
        if step.role == LEADER and (before is None or (before.role, before.term) != (LEADER, step.term)):
            self._do(me, "BecomeLeader", ())
        if step.save is not None:
            self.waiting[me] = (*saves, step.save)
            if step.role == LEADER:
                for _ in step.save.terms:
                    self._do(me, "Propose", (False,))
        if step.agreed:
            if step.agreed > (durable := len(self.facts().logs[self.refiner.index[me]])):
                raise self._refused("Server.Accept", f"{me} tells its leader that it has {step.agreed} entries, and {durable} "
                                    "are durable")
            self._accepts(me, step.term, step.agreed)
        if step.role == LEADER:
            self._leads(me, step)
        else:
            self.commit[me] = max(step.commit, self.commit.get(me, 0))
            self._learns(me)

    def _leads(self, me: str, step: Step) -> None:
        s, w = self.facts(), self.refiner.local(me)
        if w.pc != "Leader" or w.term != step.term or len(led(s, w.term)) != step.last:
            raise self._refused("Server.leader", f"{me} leads term {step.term} with {step.last} entries, and in the model it "
                                f"is {w} with {len(led(s, w.term)) if w.pc == 'Leader' else 0}")
        own = step.commit > max(w.commit, self.commit.get(me, 0)) and led(s, w.term)[step.commit - 1:step.commit] == (w.term,)
        self.commit[me] = step.commit
        others = [name for name in self.refiner.index
                  if name != me and self.counted.get((me, step.term, name), 0) >= step.commit]
        if own and not self._is_quorum(me, others):
            raise self._refused("Server.AdvanceCommit", f"{me} commits entry {step.commit}, of which it heard from "
                                f"{' and '.join(others) or 'nobody'}")
        if own:
            self._do(me, "AdvanceCommit", (step.commit,))
        else:
            self._learns(me)

    def _learns(self, me: str) -> None:
        """Learn of commits as far as the durable log reaches and stays: the server may know of more."""
        durable = len(self.facts().logs[self.refiner.index[me]])
        n = min(self.commit.get(me, 0), durable, *[0 if save.base else save.first - 1 for save in self.waiting[me]])
        if n > self._known_commit(me):
            self._do(me, "LearnCommit", (n,))

    # --- what becomes durable

    def _disk(self, me: str) -> Disk:
        """Return what the server's disk has, by the model."""
        w, number = self.refiner.local(me), self.refiner.index[me]
        return Disk(w.term, "" if w.vote is None else f"Server#{w.vote}", self.facts().logs[number])

    def _becomes_durable(self, me: str, save: Save) -> None:
        before = self._disk(me)
        self._takes_term(me, before, save)
        if save.base:
            self._installs(me, save.base[0])
        if save.terms:
            self._accepts(me, save.term, save.first - 1 + len(save.terms))
        self._agrees(me, after(before, save, len(save.terms)), save.base[0] if save.base else 0)

    def _takes_term(self, me: str, before: Disk, save: Save) -> None:
        if save.term > before.term and save.vote == me:
            if save.term > before.term + 1:
                self._do(me, "SeeTerm", (save.term - 1,))
            self._do(me, "Timeout", ())
        elif save.vote and (save.term, save.vote) != (before.term, before.vote):
            self._do(me, "Grant", (save.term, self.refiner.index[save.vote]))
        elif save.term > before.term and not save.terms:
            self._do(me, "SeeTerm", (save.term,))

    def _accepts(self, me: str, term: int, n: int) -> None:
        """Take a server's log to agree with that of the leader of a term up to index `n`."""
        if n > acked(self.facts(), term, self.refiner.index[me]):
            self._do(me, "Accept", (term, n))

    def _installs(self, me: str, index: int) -> None:
        """Take a server's disk to have a snapshot of all up to `index`, which a leader has committed."""
        s = self.facts()
        term = max((t for t, n in s.commits if n >= index), default=0)
        if not term or s.logs[self.refiner.index[me]][:index] != led(s, term)[:index]:
            self._do(me, "Install", (term, index))

    def _agrees(self, me: str, disk: Disk, base: int = 0) -> None:
        found = self._disk(me)
        if not same(found, disk, base):
            raise self._refused("Server.disk", f"{me} has {disk} on its disk, and in the model {found}")

    # --- a restart

    def _restarts(self, me: str, step: Step) -> None:
        """Start a server with what it found: what was durable, some of the saves that were under way, and perhaps a snapshot
        that the log does not have."""
        assert step.found is not None
        term, vote, (base, base_term), terms = step.found
        disk, saves, found = self._disk(me), self.waiting.get(me, ()), Disk(term, vote, (*(base_term,) * base, *terms))
        for save in saves:
            if leaves(disk, found, base):
                break
            part = next((n for n in range(NO_CUT, len(save.terms) + 1) if leaves(after(disk, save, n), found, base)), None)
            if part is not None:
                self._partly(me, save, part)
                break
            disk = after(disk, save, len(save.terms))
            self._becomes_durable(me, save)
        self.waiting[me] = ()
        if base and not same(self._disk(me), found, base):
            self._installs(me, base)
        self._agrees(me, found, base)
        self._do(me, "Restart", (len(found.log),))
        self.commit[me] = 0

    def _partly(self, me: str, save: Save, entries: int) -> None:
        """Take a save of which the disk has the term, the vote, and then perhaps the cut of the log, and some entries."""
        before = self._disk(me)
        self._takes_term(me, before, save._replace(terms=save.terms[:max(entries, 0)]))
        if entries != NO_CUT and save.base:
            self._installs(me, save.base[0])
        if entries > 0:
            self._accepts(me, save.term, save.first - 1 + entries)
        elif entries != NO_CUT and not save.base and save.terms and save.first <= len(before.log):
            self._do(me, "Tear", (save.first - 1,))

    # --- one action

    def _do(self, me: str, action: str, choices: tuple) -> None:
        self.refiner.event(me, (0, 0, me, action, choices), matched)


def matched(event: tuple) -> Match:
    _, _, me, action, choices = event
    return Match(me, (action,), choices)


def after(disk: Disk, save: Save, entries: int) -> Disk:
    """Return what a disk has after a save with its first `entries` entries; NO_CUT: with its term and vote alone."""
    if entries == NO_CUT:
        return disk._replace(term=save.term, vote=save.vote)
    log = disk.log[:save.first - 1] if save.base is None else (save.base[1],) * save.base[0]
    kept = disk.log if not (entries or save.terms or save.base) else (*log, *save.terms[:entries])
    return Disk(save.term, save.vote, kept)


def leaves(disk: Disk, found: Disk, base: int) -> bool:
    """Tell whether a server with this disk finds this when it starts, perhaps with a snapshot up to `base` that it has besides.

    A log that lacks the snapshot's last entry begins anew after it, in the term of that entry at least."""
    if same(disk, found, base):
        return True
    if not 0 < base == len(found.log) or disk.log[base - 1:base] == found.log[-1:]:
        return False
    return found[:2] == ((disk.term, disk.vote) if disk.term >= found.log[-1] else (found.log[-1], ""))


def same(one: Disk, other: Disk, base: int) -> bool:
    """Tell whether two disks have the same, as far as their logs go on from the last entry of a snapshot at index `base`."""
    return one == other or (base > 0 and one[:2] == other[:2] and len(one.log) == len(other.log)
                            and one.log[base - 1:] == other.log[base - 1:])
