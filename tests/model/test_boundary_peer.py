"""The transition system for measuring peers is the specified one: its counts, its mutants, the meaning of a rejection.

Each peer on this machine counts the same."""

import pytest

from bench.peers.run import HERE, PEERS, PeerFailed, PeerMissing, Rate, agreed
from highwater.gate.boundary_peer import EXACT, MUTANTS, Constants, latest, model
from highwater.model.core import State, init, moves
from highwater.model.explore.tabulated import explore
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing
from highwater.specs.fizzbee.values import canonical

SMALL = {c: counts for c, counts in EXACT.items() if counts.distinct < 100_000}
TINY = Constants(2, 1, 1, 3)


def id_of(c: Constants) -> str:
    return " ".join(map(str, c[:4]))


@pytest.mark.parametrize("c", SMALL, ids=id_of)
def test_counts(c):
    found = explore(model(c))
    assert (found.violated, found.never, found.complete) == (None, (), True)
    assert (found.states, found.transitions, found.depth) == EXACT[c]


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found_by_a_shortest_counterexample(name):
    mutant = MUTANTS[name]
    found = explore(model(mutant.constants))
    assert (found.violated, len(found.trace) - 1) == (mutant.violated, mutant.steps)


def test_each_safeguard_has_its_mutant():
    safeguards = Constants._fields[Constants._fields.index("M") + 1:]
    off = [tuple(name for name in safeguards if not getattr(mutant.constants, name)) for mutant in MUTANTS.values()]
    assert sorted(off) == sorted((name,) for name in safeguards)


def test_every_action_fires():
    system = model(Constants(2, 2, 2, 3))  # PutLost needs a second collector
    assert explore(system).fired == {(p.role, action) for p in system.processes for action in p.actions}


def test_a_rejected_write_has_not_failed():
    """In 450 of 594 rejections the update is already part of the latest file; the first takes 12 steps."""
    system = model(Constants(2, 2, 1, 4))
    writers = {process.name: p for p, process in enumerate(system.processes)}
    seen, level, depth, rejections, shortest = {init(system)}, [init(system)], 0, [], 0
    while level:
        following, depth = [], depth + 1
        for state in level:
            for (process, action, _), successor in moves(system, state):
                if action == "Reject":
                    rejections.append(state.locals[writers[process]].update in latest(state.shared))
                    shortest = shortest or depth * rejections[-1]
                if successor not in seen:
                    seen.add(successor)
                    following.append(successor)
        level = following
    assert (len(rejections), sum(rejections), shortest) == (594, 450, 12)


@pytest.mark.parametrize("peer", PEERS)
def test_peers_count_the_same(peer, monkeypatch):
    """Those that are there already: `python -m bench.peers.run` fetches and builds."""
    def make(scratch, out):
        raise PeerMissing(f"{peer} is not built: `python -m bench.peers.run {peer}`")

    monkeypatch.setattr("bench.peers.run.build_stateright", make)
    monkeypatch.setattr("bench.peers.run.fetch_tlc", make)
    try:
        rate = PEERS[peer](TINY)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    assert rate.states == EXACT[TINY].distinct and rate.seconds > 0


def test_a_peer_that_counts_otherwise_has_no_rate():
    exact = EXACT[TINY]
    assert agreed("Peer", TINY, Rate(exact.distinct, None, None, 1.0, None))
    for wrong in (Rate(exact.distinct + 1, None, None, 1.0, None), Rate(*exact[:2], exact.depth + 1, 1.0, None)):
        with pytest.raises(PeerFailed, match="counts"):
            agreed("Peer", TINY, wrong)


def test_fizzbee_has_the_same_states_and_labelled_edges():
    try:
        fizz = Fizz.find()
    except FizzMissing as missing:
        pytest.skip(str(missing))
    system = model(TINY)

    def written(state: State) -> tuple:
        files = {i: file for i, file in enumerate(state.shared.files, 1) if file is not None}
        locals_ = {process.name: local._asdict() for process, local in zip(system.processes, state.locals)}
        return canonical({**state.shared._asdict(), "files": files}), canonical(locals_)

    ours, new = set(), [init(system)]
    seen = set(new)
    for state in new:
        for (process, action, choices), successor in moves(system, state):
            ours.add((written(state), (process, action, choices), written(successor)))
            if successor not in seen:
                seen.add(successor)
                new.append(successor)
    theirs = fizz.graph(HERE / "boundary_peer.fizz", {name: getattr(TINY, name) for name in "WKGM"}, cache=True)
    states = [(tuple(pair for pair in globals_ if pair[0] != "clients"), tuple(sorted(roles)))
              for globals_, roles in theirs.states]
    assert set(map(written, seen)) == set(states)
    assert ours == {(states[source], (process, action, tuple(value for _, value in choices)), states[target])
                    for source, (process, action, choices), target in theirs.edges}
