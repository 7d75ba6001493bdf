"""The scripts with which etcd tests its Raft, played on our core: terms, votes, commits and logs are as they say.

The scripts are in the testdata of etcd's module, which Go fetches; without Go the tests are skipped. Each has commands, and
what etcd's servers printed. Only what both have is compared: hard states, logs, and how far a leader knows its followers' logs.

UNPLAYED says of each other script why it is left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.impl.raft import core
from highwater.impl.raft.entries import Log
from highwater.impl.raft.messages import Append
from highwater.impl.raft.state import (
    Campaign,
    Compact,
    Config,
    FetchSnapshot,
    Installed,
    Output,
    Propose,
    Received,
    Restart,
    Save,
    Send,
    State,
    Synced,
    Tick,
)
from tests.support import etcd

pytestmark = pytest.mark.interop
SCRIPTS = ("async_storage_writes", "campaign", "checkquorum", "lagging_commit", "prevote", "prevote_checkquorum",
           "probe_and_replicate", "replicate_pause", "single_node", "slow_follower_after_compaction",
           "snapshot_succeed_via_app_resp")
UNPLAYED = {  # script -> why our core cannot play it
    **dict.fromkeys(("confchange_disable_validation", "confchange_v1_add_single", "confchange_v1_remove_leader",
                     "confchange_v1_remove_leader_stepdown", "confchange_v2_add_double_auto",
                     "confchange_v2_add_double_implicit", "confchange_v2_add_single_auto", "confchange_v2_add_single_explicit",
                     "confchange_v2_replace_leader", "confchange_v2_replace_leader_stepdown"), "it changes the members"),
    "campaign_learner_must_vote": "it has a learner, which a change of membership makes a voter",
    **dict.fromkeys(("forget_leader", "forget_leader_prevote_checkquorum", "forget_leader_read_only_lease_based"),
                    "its servers are told to forget their leader"),
    "heartbeat_resp_recovers_from_probing": "its leader is told that it cannot reach a server",
    "snapshot_succeed_via_app_resp_behind": "its leader is told to send a snapshot, which our leader decides by itself",
    "async_storage_writes_append_aba_race": "its candidates ask for votes before their own vote is durable, and ours then",
}
ELECTION_TICKS = 3


class Command(NamedTuple):
    """A command of a script, and what etcd printed for it."""

    name: str
    servers: tuple[int, ...]
    options: dict[str, str]
    rest: str  # of the line
    printed: str


def commands(text: str) -> Iterator[Command]:
    """Yield the commands of a script: a line, then four dashes, then what was printed up to an empty line."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if "----" not in lines:
            continue
        line, printed = lines[lines.index("----") - 1], "\n".join(lines[lines.index("----") + 1:])
        name, _, rest = line.partition(" ")
        options = dict(re.findall(r"(\S+?)=(\S+)", rest))
        numbers = tuple(int(number) for number in re.sub(r"\S+=\S+", "", rest).split() if number.isdigit())
        yield Command(name, numbers, options, rest, printed)


class Play:
    """Our servers under a script. What a server puts out waits until a command handles it, as etcd's Ready does."""

    def __init__(self):
        self.states: dict[int, State] = {}
        self.ready: dict[int, list[Output]] = {}
        self.network: list[tuple[int, Received]] = []
        self.hard: dict[int, tuple[int, int, int]] = {}  # server -> term, vote, commit, as etcd printed last
        self.compared = 0
        self.appending: dict[int, list[int]] = {}  # server with a storage thread -> the last save of each Ready it has to write

    def give(self, server: int, given) -> None:
        self.states[server], outputs = core.step(self.states[server], given)
        self.ready[server] += outputs

    def handle(self, server: int) -> bool:
        """Make durable what the server wants to be, and send its messages; tell whether there was any."""
        had, saves = bool(self.ready[server]), list[int]()
        while self.ready[server]:
            output = self.ready[server].pop(0)
            if isinstance(output, Save):
                if server in self.appending:
                    saves.append(output.number)
                else:
                    self.give(server, Synced(output.number))
            elif isinstance(output, Send):
                self.network.append((int(output.to), Received(str(server), output.message)))
            elif isinstance(output, FetchSnapshot):
                self.give(server, Installed(output.index, output.last_term))
        if saves:
            self.appending[server].append(saves[-1])
        return had

    def append(self, server: int) -> bool:
        """Let the storage thread of a server make the saves of its first Ready durable, and send what waited for that; tell
        whether there were any."""
        if not self.appending.get(server):
            return False
        before, self.ready[server] = self.ready[server], []
        self.give(server, Synced(self.appending[server].pop(0)))
        released = [output for output in self.ready[server] if isinstance(output, Send)]
        self.network += [(int(output.to), Received(str(server), output.message)) for output in released]
        self.ready[server] = before + [output for output in self.ready[server] if not isinstance(output, Send)]
        return True

    def deliver(self, servers: tuple[int, ...], kind: type | None = None) -> bool:
        """Let messages to these servers arrive; tell whether there were any."""
        here = [(to, received) for to, received in self.network
                if to in servers and to in self.states and (kind is None or isinstance(received.message, kind))]
        self.network = [pair for pair in self.network if pair not in here]
        for to, received in here:
            self.give(to, received)
        return bool(here)

    def do(self, command: Command) -> None:
        name, servers = command.name, command.servers
        if name == "add-nodes":
            self.add(servers[0], command.options)
        elif name == "campaign":
            self.give(servers[0], Campaign())
        elif name == "propose":
            self.give(servers[0], Propose((command.rest.split()[1].strip('"').encode(),)))
        elif name == "process-ready":
            for server in servers:
                self.handle(server)
        elif name == "deliver-msgs":
            if "drop" in command.options:
                lost = [int(number) for number in re.findall(r"\d+", command.options["drop"])]
                self.network = [(to, received) for to, received in self.network if to not in lost]
            self.deliver(servers, Append if command.options.get("type") == "MsgApp" else None)
        elif name == "stabilize":
            servers = servers or tuple(self.states)
            while any([self.handle(server) | self.append(server) for server in servers]) | self.deliver(servers):
                pass
        elif name == "process-append-thread":
            for server in servers:
                self.append(server)
        elif name == "process-apply-thread":
            pass  # our core applies nothing
        elif name in ("tick-election", "tick-heartbeat"):
            for _ in range(ELECTION_TICKS if name == "tick-election" else 1):
                self.give(servers[0], Tick())
        elif name == "set-randomized-election-timeout":
            self.states[servers[0]] = self.states[servers[0]]._replace(timeout=int(command.options["timeout"]))
        elif name == "compact":
            self.give(servers[0], Compact(self.states[servers[0]].commit, servers[1]))
        else:
            assert name in ("log-level", "status", "raft-log", "raft-state"), f"a script has the command {name}"

    def add(self, number: int, options: dict[str, str]) -> None:
        if "voters" in options:
            self.voters = tuple(sorted(re.findall(r"\d+", options["voters"])))
            self.config = Config(election_ticks=ELECTION_TICKS, pre_vote=options.get("prevote") == "true",
                                 check_quorum=options.get("checkquorum") == "true",
                                 max_inflight=int(options.get("inflight", 256)))
        index = int(options.get("index", 0))
        for _ in range(number):
            server = len(self.states) + 1
            fresh = core.server(str(server), self.voters, self.config)
            log = Log(index, 1 if index else 0)
            if options.get("async-storage-writes") == "true":
                self.appending[server] = []
            self.states[server], self.ready[server] = core.step(fresh, Restart(0, "", log, index, server))[0], []

    def check(self, command: Command) -> None:
        """Compare with what etcd printed."""
        server, where = command.servers[0] if command.servers else 0, f"after «{command.name} {command.rest}»"
        if command.name == "raft-log":
            theirs = [(int(term), int(index), body) for term, index, body in
                      re.findall(r"(\d+)/(\d+) EntryNormal \"(.*?)\"", command.printed)]
            log = self.states[server].log
            ours = [(entry.term, index, entry.body.decode()) for index, entry in enumerate(log.entries, log.base_index + 1)]
            assert ours == theirs or (not ours and "empty" in command.printed), f"the log of server {server} {where}"
            self.compared += 1
        if command.name == "status":
            for follower, match in re.findall(r"(\d+): State\w+ match=(\d+)", command.printed):
                state = self.states[server]
                known = {int(progress.name): progress.match_index for progress in state.followers}
                assert known.get(int(follower), state.durable.index) == int(match), f"match of {follower} {where}"
                self.compared += 1
        handled = command.servers if command.name == "process-ready" else ()
        for line in command.printed.splitlines():
            if found := re.match(r"> (\d+) ", line):
                handled = (int(found[1]),)
            if found := re.match(r"\s*HardState Term:(\d+) (?:Vote:(\d+) )?Commit:(\d+)", line):
                self.hard[handled[0]] = int(found[1]), int(found[2] or 0), int(found[3])
        if command.name == "stabilize" and not command.servers:
            for number, hard in self.hard.items():
                state = self.states[number]
                assert (state.term, int(state.vote or 0), state.commit) == hard, f"server {number} {where}"
                self.compared += 1


@pytest.fixture(scope="module")
def scripts() -> Path:
    """Return the folder of etcd's scripts."""
    return etcd.module() / "testdata"


def test_each_script_is_played_or_said_why_not(scripts):
    assert {path.stem for path in scripts.glob("*.txt")} == {*SCRIPTS, *UNPLAYED} and not {*SCRIPTS} & UNPLAYED.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_our_core_does_what_etcds_script_says(scripts, name):
    play, silent = Play(), False
    for command in commands((scripts / f"{name}.txt").read_text()):
        if command.name == "log-level":
            silent = command.rest == "none"
        play.do(command)
        if silent:
            play.hard = {}
        play.check(command)
    print(f"\n{name}: {play.compared} comparisons")
    assert play.compared
