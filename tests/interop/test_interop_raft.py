"""Our Raft core and etcd's get the same commands; after each of them terms, votes, roles, logs and commits are equal.

tools/raft/etcd is a cluster of etcd's Raft that obeys commands on stdin. It needs Go; without it the tests are skipped.

    HIGHWATER_DRAWN=2000 .venv/bin/python -m pytest -m interop tests/interop/test_interop_raft.py -s

draws two thousand scripts for each setting. HIGHWATER_DRAWN_FROM=42 begins at script 42.

Not compared: which messages are sent. Our servers also answer where etcd's say nothing, so that whoever asks in vain learns the
term: those answers are lost here, see `etcd_says_nothing`.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from highwater.impl.raft import core
from highwater.impl.raft.entries import Log
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.messages import Append, Heartbeat, InstallSnapshot, ReadIndexReply, RequestVote, Vote
from highwater.impl.raft.state import (
    CANDIDATE,
    FOLLOWER,
    LEADER,
    PRE_CANDIDATE,
    Campaign,
    Compact,
    Config,
    FetchSnapshot,
    Installed,
    Output,
    Propose,
    Read,
    ReadReady,
    Received,
    Restart,
    Save,
    Send,
    Synced,
    Tick,
    TransferTo,
)
from tests.support import etcd

pytestmark = pytest.mark.interop
DRAWN, FROM = int(os.environ.get("HIGHWATER_DRAWN", 150)), int(os.environ.get("HIGHWATER_DRAWN_FROM", 0))
ROLES = {"StateFollower": FOLLOWER, "StatePreCandidate": PRE_CANDIDATE, "StateCandidate": CANDIDATE, "StateLeader": LEADER}
NEVER = 1 << 20
Command = dict[str, Any]


class Seen(NamedTuple):
    """The state of one server, as both sides tell it. `entries` are (term, body) after `base`."""

    term: int
    vote: int
    role: str
    leader: int
    commit: int
    base: int
    entries: tuple[tuple[int, str], ...]


class Etcd:
    """A cluster of etcd's Raft in a process of its own."""

    def __init__(self, program: Path):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, command: Command) -> tuple[list[Seen], dict[str, int], str]:
        """Return the servers' states, the indexes of all reads so far, and what was refused."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"etcd's program ended at {command}"
        answer = json.loads(line)
        return [Seen(node["term"], node["vote"], ROLES[node["role"]], node["lead"], node["commit"], node["base"],
                     tuple((entry["term"], entry["data"]) for entry in node["entries"]))
                for node in answer["nodes"]], answer["reads"], answer.get("error", "")

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Ours:
    """A cluster of our pure servers, whose disks are as fast as etcd's: all that is put out is durable at once."""

    def __init__(self, command: Command):
        self.config = Config(election_ticks=NEVER, pre_vote=command["preVote"], check_quorum=command["checkQuorum"])
        self.names = tuple(str(number + 1) for number in range(command["nodes"]))
        self.states = {name: self.started(name, Restart(0, "", Log(), 0, 1)) for name in self.names}
        self.messages: list[tuple[str, Received]] = []
        self.reads: dict[str, int] = {}

    def started(self, name: str, restart: Restart):
        return core.step(core.server(name, self.names, self.config), restart)[0]

    def give(self, name: str, given) -> None:
        before = self.states[name]
        self.states[name], outputs = core.step(before, given)
        for output in outputs:
            if isinstance(output, Send) and not etcd_says_nothing(given, output, self.config):
                self.messages.append((output.to, Received(name, output.message)))
            elif isinstance(output, ReadReady):
                self.reads[output.read] = output.index
        for output in outputs:
            self.follow(name, output)

    def follow(self, name: str, output: Output) -> None:
        if isinstance(output, Save):
            self.give(name, Synced(output.number))
        elif isinstance(output, FetchSnapshot):
            self.give(name, Installed(output.index, output.last_term))

    def exchange(self, parts: list[list[int]]) -> None:
        part = {str(member): number for number, members in enumerate(parts) for member in members}
        while self.messages:
            pending, self.messages = self.messages, []
            for to, received in pending:
                if part[to] == part[received.sender]:
                    self.give(to, received)

    def do(self, command: Command) -> None:
        name, op = str(command.get("id")), command["op"]
        if op == "exchange":
            self.exchange(command["parts"])
        elif op == "restart":
            state = self.states[name]
            self.states[name] = self.started(name, Restart(state.term, state.vote, state.log, state.commit, 1))
        elif op == "compact":
            commit = self.states[name].commit
            self.give(name, Compact(commit, commit))
        else:
            self.give(name, {"campaign": Campaign(), "propose": Propose((command.get("data", "").encode(),)), "tick": Tick(),
                             "read": Read(command.get("data", "")), "transfer": TransferTo(str(command.get("to")))}[op])

    def seen(self) -> list[Seen]:
        return [Seen(state.term, int(state.vote or 0), state.role, int(state.leader or 0), state.commit, state.log.base_index,
                     tuple((entry.term, entry.body.decode()) for entry in state.log.entries))
                for state in self.states.values()]


def etcd_says_nothing(given, output: Send, config: Config) -> bool:
    """Tell whether a server tells another one its term, where etcd's ignores the message: a request of an earlier term for a
    vote, a read at a server that does not lead, and without pre-vote and check-quorum also an earlier leader's message."""
    if isinstance(output.message, ReadIndexReply):
        return output.message.index < 0
    refusal = isinstance(given, Received) and isinstance(output.message, Vote) and given.message.term < output.message.term
    if not refusal:
        return False
    if isinstance(given.message, Append | Heartbeat | InstallSnapshot):
        return not (config.pre_vote or config.check_quorum)
    return isinstance(given.message, RequestVote)


def script(seed: int, settings: Command) -> Iterator[Command]:
    """Draw commands. Which ones are possible depends on the states, which `yield` is sent."""
    random, nodes = Random(seed), settings["nodes"]
    everyone = list(range(1, nodes + 1))
    parts, reads = [everyone], 0
    seen: list[Seen] = yield settings
    for number in range(40):
        one = random.choice(everyone)
        leaders = [name for name in everyone if seen[name - 1].role == LEADER]
        op = random.choice(("campaign", "propose", "propose", "propose", "tick", "read", "read", "transfer", "restart",
                            "compact", "part", "heal"))
        command: Command = {"op": op, "id": one}
        if op in ("part", "heal"):
            cut = random.sample(everyone, random.randint(1, nodes - 1)) if op == "part" else []
            parts = [part for part in (cut, [name for name in everyone if name not in cut]) if part]
            command = {"op": "tick", "id": one}
        elif op == "propose":
            if not leaders:
                continue
            command = {"op": op, "id": random.choice(leaders), "data": f"e{number}"}
        elif op == "read":
            reads += 1
            command["data"] = f"r{reads}"
        elif op == "transfer":  # etcd's followers pass it on to the leader, ours say where to ask
            if not leaders:
                continue
            command = {"op": op, "id": random.choice(leaders), "to": random.choice(everyone)}
        elif op == "compact" and not seen[one - 1].entries:
            continue
        seen = yield command
        seen = yield {"op": "exchange", "parts": parts}
        for leader in [name for name in everyone if seen[name - 1].role == LEADER]:
            seen = yield {"op": "tick", "id": leader}
            seen = yield {"op": "exchange", "parts": parts}


def played(program: Path, seed: int, settings: Command) -> tuple[int, dict[str, int]]:
    """Play a script on both sides and compare them when all is quiet; return the number of comparisons, and what was met."""
    theirs = Etcd(program)
    try:
        commands, history, compared = script(seed, settings), [], 0
        met = {"commits": 0, "leaders": 0, "reads": 0, "compactions": 0}
        command, ours = next(commands), Ours(settings)
        while True:
            history.append(command)
            if command["op"] != "new":
                ours.do(command)
            seen, reads, _ = theirs.do(command)
            if command["op"] == "exchange":
                compared += 1
                where = f"script {seed} of {settings}:\n" + "\n".join(json.dumps(done) for done in history)
                for name, (us, them) in enumerate(zip(ours.seen(), seen), 1):
                    assert difference(us, them) == {}, f"server {name} (ours, theirs), {where}"
                assert ours.reads == reads, where
            met["compactions"] = max(met["compactions"], *(server.base for server in seen))
            met["commits"] = max(met["commits"], *(server.commit for server in seen))
            met["leaders"] = max(met["leaders"], *(server.term for server in seen if server.role == LEADER), 0)
            met["reads"] = len(reads)
            try:
                command = commands.send(seen)
            except StopIteration:
                return compared, met
    finally:
        theirs.close()


def difference(ours: Seen, theirs: Seen) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ; logs are compared where both have them."""
    base = max(ours.base, theirs.base)
    mine, other = (server._replace(base=0, entries=server.entries[base - server.base:]) for server in (ours, theirs))
    return {field: (a, b) for field, a, b in zip(Seen._fields, mine, other) if a != b}


@pytest.fixture(scope="module")
def program() -> Path:
    return etcd.commanded()


@pytest.mark.parametrize("nodes", (3, 5))
@pytest.mark.parametrize("pre_vote, check_quorum", ((False, False), (True, False), (True, True)))
def test_our_core_and_etcds_agree(program, nodes, pre_vote, check_quorum):
    settings = {"op": "new", "nodes": nodes, "preVote": pre_vote, "checkQuorum": check_quorum}
    compared, met = 0, {"commits": 0, "leaders": 0, "reads": 0, "compactions": 0}
    for seed in range(FROM, FROM + DRAWN):
        more, found = played(program, seed, settings)
        compared += more
        met = {what: count + found[what] for what, count in met.items()}
    print(f"\n{nodes} nodes, pre-vote {pre_vote}, check-quorum {check_quorum}: {compared:,} comparisons in {DRAWN} scripts, "
          f"{met}")
    assert all(met.values())


def test_a_difference_is_noticed(program, monkeypatch):
    from highwater.impl.raft import elections

    monkeypatch.setattr(elections, "is_up_to_date", lambda log, index, term: True)
    settings = {"op": "new", "nodes": 3, "preVote": False, "checkQuorum": False}
    with pytest.raises((AssertionError, Contradiction), match="server . \\(ours, theirs\\), script|is committed"):
        for seed in range(300):
            played(program, seed, settings)
