"""Walks a cluster of pure Raft servers at random, and checks at every step what must hold of them.

Messages are lost, doubled and reordered; now and then a server is cut off for a while, or crashes, and then keeps any beginning
of what it had not synced. Checked are: one leader a term (R1), log matching (R2), leader completeness (R3), state machine
safety (R4), that what is committed is durable on a quorum (R5), and that a read's index covers every commit before it
came (I4).
"""

from random import Random
from typing import NamedTuple

from highwater.impl.raft import core
from highwater.impl.raft.entries import Entry, Log, entry_at, last_index, spliced, term_at, without_before
from highwater.impl.raft.state import (
    LEADER,
    Accepted,
    Campaign,
    Compact,
    Config,
    FetchFailed,
    FetchSnapshot,
    Installed,
    Lead,
    Propose,
    Read,
    ReadReady,
    Received,
    Refused,
    Restart,
    Save,
    Send,
    State,
    Synced,
    Tick,
    TransferTo,
)

NAMES = ("a", "b", "c", "d", "e")
SMALL = Config(election_ticks=4, max_inflight=3, max_append_bytes=3, max_uncommitted_bytes=12)


class Broken(AssertionError):
    """A property does not hold."""


class OnDisk(NamedTuple):
    """The part of a server that a crash leaves."""

    term: int = 0
    vote: str = ""
    log: Log = Log()
    snapshot: tuple[int, int] = (0, 0)

    def with_save(self, save: Save, entries: int | None = None) -> "OnDisk":
        """Apply a save; with a number of entries only its beginning, as of a torn write."""
        disk = self._replace(term=save.term, vote=save.vote)
        if save.base is not None:
            disk = disk._replace(log=Log(*save.base))
        if entries == -1:
            return disk._replace(log=self.log)
        log = spliced(disk.log, save.first_index, save.entries[:entries])
        return disk._replace(log=log)

    def opened(self) -> "OnDisk":
        """Return what a server finds: a log that does not go on from the snapshot begins anew after it."""
        index, term = self.snapshot
        return self if term_at(self.log, index) == term else self._replace(log=Log(index, term))


class Server:
    """A server, its disk, and what it put out."""

    def __init__(self, name: str, voters: tuple[str, ...], config: Config):
        self.name, self.disk, self.saves, self.fetch = name, OnDisk(), [], None
        self.state = core.server(name, voters, config)
        self.voters, self.config = voters, config


class Cluster:
    """Some servers and the messages between them. `step` may be another one than the core's."""

    def __init__(self, size: int, seed: int, config: Config = SMALL, step: core.Step = core.step):
        voters = NAMES[:size]
        self.random, self.step = Random(seed), step
        self.servers = {name: Server(name, voters, config) for name in voters}
        self.messages: list[tuple[str, Received]] = []
        self.leaders: dict[int, str] = {}
        self.known: dict[tuple[int, int], tuple[Entry, int]] = {}  # (index, term) -> entry, term of the one before
        self.committed: dict[int, tuple[Entry, int]] = {}  # index -> entry, term of the leader that committed it
        self.reads: dict[str, int] = {}  # id -> what it has to see
        self.seen = {"reads": 0, "commits": 0, "leaders": 0, "installed": 0, "refused": 0, "crashes": 0}
        self.proposed, self.cut_off = 0, ""
        for name in voters:
            self.give(name, Restart(0, "", Log(), 0, self.random.getrandbits(32)))

    def quorum(self) -> int:
        return len(self.servers) // 2 + 1

    # --- what happens

    def give(self, name: str, given) -> tuple:
        """Give an input to a server, do what it puts out, and check everything."""
        server, before = self.servers[name], self.servers[name].state
        server.state, outputs = self.step(before, given)
        for output in outputs:
            if isinstance(output, Save):
                server.saves.append(output)
            elif isinstance(output, Send):
                self.messages.append((output.to, Received(name, output.message)))
            elif isinstance(output, FetchSnapshot):
                server.fetch = output
            elif isinstance(output, Lead):
                self.check_leader(server.state)
            elif isinstance(output, ReadReady):
                self.check_read(output)
            elif isinstance(output, Refused):
                self.seen["refused"] += 1
        self.check(before, server.state)
        return outputs

    def sync(self, name: str, count: int | None = None) -> None:
        """Make the oldest saves durable, and tell the server."""
        server = self.servers[name]
        done, server.saves = server.saves[:count], server.saves[count:] if count is not None else []
        for save in done:
            server.disk = server.disk.with_save(save)
        if done:
            self.give(name, Synced(done[-1].number))

    def crash(self, name: str) -> None:
        """End a server, and start it with what is on its disk: a beginning of what was not synced may be there, too."""
        server = self.servers[name]
        kept = self.random.randint(0, len(server.saves))
        for save in server.saves[:kept]:
            server.disk = server.disk.with_save(save)
        if server.saves[kept:] and self.random.random() < 0.5:
            torn = server.saves[kept]
            server.disk = server.disk.with_save(torn, self.random.randint(-1, len(torn.entries)))
        server.disk = server.disk.opened()
        server.saves, server.fetch = [], None
        server.state = core.server(name, server.voters, server.config)
        disk = server.disk
        self.seen["crashes"] += 1
        self.give(name, Restart(disk.term, disk.vote, disk.log, disk.snapshot[0], self.random.getrandbits(32)))

    def fetched(self, name: str) -> None:
        """Install a snapshot that the server wants: another one has it, or a later one, or nothing comes."""
        server = self.servers[name]
        fetch, server.fetch = server.fetch, None
        if fetch is None:
            return
        if self.random.random() < 0.2:
            self.give(name, FetchFailed())
            return
        server.disk = server.disk._replace(snapshot=max(server.disk.snapshot, (fetch.index, fetch.last_term)))
        self.seen["installed"] += 1
        self.give(name, Installed(fetch.index, fetch.last_term))

    def compact(self, name: str) -> None:
        """Take a snapshot of what is committed, and forget the beginning of the log."""
        server = self.servers[name]
        index = server.state.commit
        if index <= server.state.snapshot[0]:
            return
        term = term_at(server.state.log, index)
        server.disk = server.disk._replace(snapshot=(index, term))
        keep = max(index - self.random.randint(0, 2), server.state.log.base_index)
        self.give(name, Compact(index, keep))
        if server.disk.log.base_index < keep <= last_index(server.disk.log):
            server.disk = server.disk._replace(log=without_before(server.disk.log, keep))

    def read(self, name: str) -> None:
        read = f"r{len(self.reads)}"
        self.reads[read] = max(self.committed, default=0)
        self.give(name, Read(read))

    def propose(self, name: str) -> tuple:
        self.proposed += 1
        return self.give(name, Propose((b"%d" % self.proposed,)))

    def walk(self, steps: int, loss: float = 0.05, crashes: float = 0.005) -> None:
        """Let anything happen, `steps` times."""
        weights = {self.crash: crashes, self.cut: 0.002, self.tick: 0.11, self.sync_some: 0.2, self.propose_to_leader: 0.05,
                   self.read: 0.04, self.transfer: 0.002, self.campaign: 0.003, self.compact: 0.01, self.fetched: 0.03}
        actions, names = (*weights, None), tuple(self.servers)
        chances = (*weights.values(), 1 - sum(weights.values()))
        for _ in range(steps):
            (action,) = self.random.choices(actions, chances)
            if action is not None:
                action(self.random.choice(names))
            elif self.messages:
                self.deliver(self.random.randrange(min(len(self.messages), 8)), loss)

    def deliver(self, place: int, loss: float) -> None:
        """Let a message arrive, once or twice, or not."""
        to, received = self.messages[place]
        fate = self.random.random()
        if fate >= loss:
            del self.messages[place]  # otherwise it arrives again
        if fate < 1 - loss and self.cut_off not in (to, received.sender):
            self.give(to, received)

    def cut(self, name: str) -> None:
        self.cut_off = self.random.choice((name, ""))

    def tick(self, name: str) -> None:
        self.give(name, Tick())

    def sync_some(self, name: str) -> None:
        self.sync(name, self.random.randint(1, 3))

    def propose_to_leader(self, name: str) -> None:
        leaders = [server.name for server in self.servers.values() if server.state.role == LEADER]
        self.propose(self.random.choice(leaders or [name]))

    def transfer(self, name: str) -> None:
        self.give(name, TransferTo(self.random.choice(tuple(self.servers))))

    def campaign(self, name: str) -> None:
        self.give(name, Campaign())

    def settle(self, rounds: int = 60) -> None:
        """Let everything heal: no loss, no crash."""
        self.cut_off = ""
        for _ in range(rounds):
            for name in self.servers:
                self.give(name, Tick())
                self.sync(name)
                self.fetched(name)
            pending, self.messages = self.messages, []
            for to, received in pending:
                self.give(to, received)
                self.sync(to)

    def exchange(self, *names: str, syncs: bool = True, until=lambda: False) -> None:
        """Let these servers sync and hear each other, `until` something or to the end; all other messages are lost."""
        while True:
            for name in names if syncs else ():
                self.sync(name)
            pending, self.messages = self.messages, []
            pending = [(to, received) for to, received in pending if to in names and received.sender in names]
            if not pending:
                return
            for to, received in pending:
                self.give(to, received)
                if until():
                    return

    def elect(self, name: str, term: int, *others: str) -> None:
        """Let a server win the election of a term with the votes of `others`; all that it sends as the leader is lost."""
        while self.servers[name].state.term < term:
            self.give(name, Campaign())
        self.exchange(name, *others, until=lambda: self.servers[name].state.role == LEADER)
        assert self.servers[name].state.role == LEADER, f"{name} does not win the election of term {term}"
        self.messages = []

    # --- what must hold

    def check(self, before: State, state: State) -> None:
        if state.log is not before.log:
            self.check_matching(state)
        if state.term < before.term or state.commit < before.commit:
            raise Broken(f"{state.me}: term or commit index fell")
        for index in range(before.commit + 1, state.commit + 1):
            if index > state.log.base_index:
                self.check_commit(index, state)

    def check_matching(self, state: State) -> None:
        """R2: entries of one index and term are equal, and so are those before them."""
        log = state.log
        for index in range(log.base_index + 1, last_index(log) + 1):
            entry, before = entry_at(log, index), term_at(log, index - 1)
            if self.known.setdefault((index, entry.term), (entry, before)) != (entry, before):
                raise Broken(f"R2: {state.me} has another entry ({index}, {entry.term}), or another one before it")

    def check_leader(self, state: State) -> None:
        """R1 and R3."""
        if self.leaders.setdefault(state.term, state.me) != state.me:
            raise Broken(f"R1: {state.me} and {self.leaders[state.term]} lead term {state.term}")
        self.seen["leaders"] += 1
        for index, (entry, by) in self.committed.items():
            if by < state.term and index > state.log.base_index and (
                    index > last_index(state.log) or entry_at(state.log, index) != entry):
                raise Broken(f"R3: {state.me} leads term {state.term} without the committed entry {index}")

    def check_commit(self, index: int, state: State) -> None:
        """R4, and R5 where a leader commits."""
        entry = entry_at(state.log, index)
        if index not in self.committed:
            self.seen["commits"] += 1
            self.committed[index] = entry, state.term
            self.check_durable(index, entry)
        elif self.committed[index][0] != entry:
            raise Broken(f"R4: {state.me} commits another entry {index}")

    def check_durable(self, index: int, entry: Entry) -> None:
        having = [name for name, server in self.servers.items() if on_disk(server.disk, index, entry)]
        if len(having) < self.quorum():
            raise Broken(f"R5: entry {index} is committed, but durable on {', '.join(having) or 'none'} only")

    def check_all_durable(self) -> None:
        for index, (entry, _) in self.committed.items():
            self.check_durable(index, entry)

    def check_read(self, ready: ReadReady) -> None:
        self.seen["reads"] += 1
        if ready.index < self.reads[ready.read]:
            raise Broken(f"I4: a read gets index {ready.index}, but {self.reads[ready.read]} was committed before it")


def on_disk(disk: OnDisk, index: int, entry: Entry) -> bool:
    if index <= max(disk.snapshot[0], disk.log.base_index):
        return True
    return index <= last_index(disk.log) and entry_at(disk.log, index) == entry


def accepted(outputs: tuple) -> Accepted:
    return next(output for output in outputs if isinstance(output, Accepted))
