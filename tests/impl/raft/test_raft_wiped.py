"""Servers that leave, lose their folders, and join again under their names: no term has two leaders, and nothing is lost."""

import pytest

from highwater.impl.raft import core, elections, membership
from highwater.impl.raft.entries import MEMBERS, Entry, Log
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.members import decoded
from highwater.impl.raft.messages import RequestVote
from highwater.impl.raft.state import LEADER, LEARN, PROMOTE, REMOVE, Campaign, Change, Restart, State, Tick
from tests.impl.raft.cluster import SMALL, Broken, Cluster, OnDisk

STEPS = 600
CONFIG = SMALL._replace(pre_vote=False, check_quorum=False)
own_reason = membership.reason_to_refuse


class Changing(Cluster):
    """Servers that an operator lets leave and join. One that has left loses its folder now and then. No snapshot is made."""

    def __init__(self, size: int, seed: int):
        super().__init__(size, seed, CONFIG)
        self.seen |= {"wiped": 0, "counts again": 0}
        self.names, self.wiped = tuple(self.servers), set[str]()

    def walk(self, steps: int, loss: float = 0.02, crashes: float = 0.01) -> None:
        actions = {self.crash: crashes, self.tick: 0.08, self.sync_some: 0.25, self.propose_to_leader: 0.02,
                   self.campaign: 0.02, self.change: 0.06, self.wipe: 0.05, self.deliver_any: 0.51}
        for _ in range(steps):
            (action,) = self.random.choices(tuple(actions), tuple(actions.values()))
            action(self.random.choice(self.names))

    def deliver_any(self, name: str) -> None:
        """Let a message arrive; a request for a vote at any later time."""
        if self.messages:
            place = self.random.randrange(min(len(self.messages), 8))
            if isinstance(self.messages[place][1].message, RequestVote) and self.random.random() < 0.7:
                self.messages.append(self.messages.pop(place))
            else:
                self.deliver(place, 0.02)

    def change(self, name: str) -> None:
        leaders = [server.state for server in self.servers.values() if server.state.role == LEADER]
        if leaders:
            leader = self.random.choice(leaders)
            what = REMOVE if name in leader.voters else PROMOTE if name in leader.learners else LEARN
            self.give(leader.me, Change(what, name))

    def wipe(self, name: str) -> None:
        """Let a server lose its folder, if the last committed change has it as no member."""
        changes = [decoded(entry.body) for _, (entry, _) in sorted(self.committed.items()) if entry.kind == MEMBERS]
        if changes and name not in (*changes[-1].voters, *changes[-1].learners):
            self.lose_folder(name)

    def lose_folder(self, name: str) -> None:
        server = self.servers[name]
        server.disk, server.saves, server.voters = OnDisk(), [], ()
        server.state = core.server(name, (), CONFIG)
        self.wiped.add(name)
        self.seen["wiped"] += 1
        self.give(name, Restart(0, "", Log(), 0, self.random.getrandbits(32)))

    def check(self, before: State, state: State) -> None:
        super().check(before, state)
        if state.role == LEADER and self.wiped.intersection(state.voters):
            self.seen["counts again"] += 1

    def check_durable(self, index: int, entry: Entry) -> None:
        """Check nothing: the members change, so there is no fixed quorum."""


def walks_until_broken(most: int) -> tuple[int, dict[str, int]]:
    """Return the seed whose walk breaks something first, `most` if none does, and what the walks met."""
    seen: dict[str, int] = {}
    for seed in range(most):
        cluster = Changing(3 + seed % 3, seed)
        try:
            cluster.walk(STEPS)
        except (Broken, Contradiction):
            return seed, seen
        seen = {what: seen.get(what, 0) + count for what, count in cluster.seen.items()}
    return most, seen


def any_vote(state: State, candidate: str) -> bool:
    """Vote also without an entry."""
    return state.vote == candidate or (not state.vote and not state.leader)


def any_term(state: State, given: Change) -> str:
    """Let a name come back in the term in which it left."""
    return own_reason(state._replace(left=frozenset()), given)


def test_walks_with_lost_folders_break_nothing():
    broken, seen = walks_until_broken(150)
    assert broken == 150 and seen["wiped"] > 300 and seen["counts again"] > 100, (broken, seen)


def test_walk_notices_votes_without_an_entry(monkeypatch):
    monkeypatch.setattr(elections, "has_vote_for", any_vote)
    assert walks_until_broken(250)[0] < 250


@pytest.mark.parametrize("is_off", (False, True), ids=("on", "off"))
def test_name_in_the_term_it_left_would_elect_two_leaders(is_off, monkeypatch):
    """a leads term 2 by the vote of e, and removes it. The candidate b has two votes of that term. The new e has the entries of
    term 1 when it starts again, and hears of b's candidacy late."""
    if is_off:
        monkeypatch.setattr(membership, "reason_to_refuse", any_term)
    five = Changing(5, 0)
    five.elect("c", 1, "a", "b", "d", "e")
    for _ in range(5):
        five.propose("c")
    for _ in range(8):
        five.give("c", Tick())
        five.exchange(*five.names)
    assert {len(server.disk.log.entries) for server in five.servers.values()} == {6}
    five.give("b", Campaign())
    five.sync("b")
    late = next(message for message in five.messages if message[0] == "e")
    five.messages = [message for message in five.messages if message[0] == "d"]
    five.exchange("b", "d")
    five.elect("a", 2, "c", "e")
    five.give("a", Tick())
    five.exchange("a", "c", "d")
    five.give("a", Change(REMOVE, "e"))
    five.exchange("a", "c", "d")
    five.give("a", Tick())
    assert "e" not in five.servers["a"].state.voters and five.servers["a"].state.commit == 8
    five.lose_folder("e")
    five.give("a", Change(LEARN, "e"))
    five.exchange("a", "e", until=lambda: len(five.servers["e"].state.log.entries) > 0)
    five.sync("e")
    five.crash("e")
    assert (five.servers["e"].disk.term, [entry.term for entry in five.servers["e"].disk.log.entries]) == (
        (2, [1, 1, 1, 1]) if is_off else (0, []))
    five.messages = [late]
    try:
        five.exchange("b", "e")
        assert not is_off and five.servers["b"].state.role != LEADER
    except Broken as error:
        assert is_off and "R1: b and a lead term 2" in str(error)
