"""Random walks of pure servers: nothing breaks, everything is met, and with a safeguard off the walk finds what breaks."""

import pytest

from highwater.impl.raft import effects, elections, following, reads, replication
from highwater.impl.raft.entries import last_index
from highwater.impl.raft.following import Contradiction
from highwater.impl.raft.state import LEADER
from tests.impl.raft.cluster import SMALL, Broken, Cluster

STEPS = 1000


@pytest.mark.parametrize("size, config", [(1, SMALL), (2, SMALL), (3, SMALL), (5, SMALL),
                                          (3, SMALL._replace(pre_vote=False, check_quorum=False))])
def test_nothing_breaks_and_all_heals(size, config):
    seen: dict[str, int] = {}
    for seed in range(60 // size):
        cluster = Cluster(size, seed, config)
        cluster.walk(STEPS)
        cluster.check_all_durable()
        cluster.settle()
        leaders = [server for server in cluster.servers.values() if server.state.role == LEADER]
        assert len(leaders) == 1, f"seed {seed}: {len(leaders)} leaders after all healed"
        cluster.propose(leaders[0].name)
        cluster.settle(8)
        commits = {server.state.commit for server in cluster.servers.values()}
        assert commits == {last_index(leaders[0].state.log)}, f"seed {seed}: not everything is committed everywhere"
        assert not any(server.state.held for server in cluster.servers.values())
        seen = {what: seen.get(what, 0) + count for what, count in cluster.seen.items()}
    unmet = {what for what, count in seen.items() if not count} - ({"installed"} if size < 3 else set())
    assert not unmet, f"the walks never met: {', '.join(sorted(unmet))}"


def test_a_walk_is_a_function_of_its_seed():
    def states(seed):
        cluster = Cluster(3, seed)
        cluster.walk(300)
        return {name: server.state for name, server in cluster.servers.items()}

    assert states(1) == states(1) != states(2)


# --- with a safeguard off


def every_vote(monkeypatch):
    monkeypatch.setattr(elections, "has_vote_for", lambda state, candidate: True)


def any_log(monkeypatch):
    monkeypatch.setattr(elections, "is_up_to_date", lambda log, index, term: True)


def half_elects(monkeypatch):
    monkeypatch.setattr(elections, "majority", lambda state: len(state.voters) // 2)


def half_commits(monkeypatch):
    monkeypatch.setattr(replication, "majority", lambda state: len(state.voters) // 2)


def ack_not_synced(monkeypatch):
    monkeypatch.setattr(following, "send_when_durable", effects.send)


def leader_counts_unsynced(monkeypatch):
    monkeypatch.setattr(replication, "own_match", lambda state: last_index(state.log))


def committed_entries_are_cut(monkeypatch):
    monkeypatch.setattr(following, "check_uncommitted", lambda state, first: None)
    monkeypatch.setattr(following, "first_difference", lambda state, message: 0)


def no_round(monkeypatch):
    monkeypatch.setattr(reads, "majority", lambda state: 1)


def stale_round(monkeypatch):
    def begin(state, name, asker):
        """Wait for a round that began before the read came."""
        pending = reads.PendingRead(name, asker)
        if not reads.knows_commits(state):
            return state._replace(reads=(*state.reads, pending))
        return reads.confirm(reads.beat(state._replace(reads=(*state.reads, pending._replace(index=state.commit,
                                                                                             round=state.round)))))

    monkeypatch.setattr(reads, "begin", begin)


def no_own_entry(monkeypatch):
    monkeypatch.setattr(reads, "knows_commits", lambda state: True)


KNOBS = {  # safeguard that is off -> how many walks may be needed; the others' stories are in test_raft_core.py
    every_vote: 300,
    any_log: 100,
    half_elects: 20,
    half_commits: 20,
    ack_not_synced: 20,
    leader_counts_unsynced: 20,
    committed_entries_are_cut: 50,
    no_round: 300,
    stale_round: 300,
    no_own_entry: 100,
}


def walks_until_broken(most: int) -> int:
    """Return the seed whose walk breaks something first; `most` if none does."""
    for seed in range(most):
        cluster = Cluster(3, seed, SMALL._replace(pre_vote=bool(seed % 2), check_quorum=bool(seed % 2)))
        try:
            cluster.walk(STEPS, crashes=0.01)
            cluster.check_all_durable()
        except (Broken, Contradiction):
            return seed
    return most


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.__name__)
def test_a_walk_notices_what_is_off(knob, monkeypatch):
    knob(monkeypatch)
    assert walks_until_broken(KNOBS[knob]) < KNOBS[knob]
