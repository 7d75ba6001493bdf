"""The peers of our simulator run the same scenario: equal numbers of requests and responses, and the same mutants found.

The benchmark skips a missing peer with one line."""

from collections import Counter

import pytest

from bench.peers import simulators
from bench.peers.run import PeerMissing
from bench.peers.simulators import OUR, SIMULATORS, SPARED, main, python_program, started
from bench.simulation import bare_step_us, ours

RUNS = 500
ALIKE = {"requests": 0.05, "committed": 0.05, "unknown": 0.25}  # more than three times the noise
PEERS = [name for name in SIMULATORS if name != OUR]


@pytest.fixture
def ask(request, monkeypatch):
    """The peers that are there already: `python -m bench.peers.simulators` fetches them."""
    def fetch(name, scratch, out):
        raise PeerMissing(f"{name} is not fetched: `python -m bench.peers.simulators`")

    monkeypatch.setattr(simulators, "fetch", fetch)
    try:
        with started(request.param + SPARED, python_program()) as ask:
            yield ask
    except PeerMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def counted():
    counts = Counter()

    def each(outcome):
        assert not outcome.message
        counts["requests"] += outcome.requests
        for event in outcome.events:
            counts[event.op] += event.kind == "told"

    ours(range(2 * RUNS), each)
    return counts


@pytest.mark.parametrize("ask", PEERS, indirect=True)
def test_it_is_the_same_scenario(ask, counted):
    seconds, found, theirs = ask(0, RUNS)
    assert found is None and seconds > 0
    for what, tolerance in ALIKE.items():
        assert theirs[what] / RUNS == pytest.approx(counted[what] / RUNS / 2, rel=tolerance), what


@pytest.mark.parametrize("mutant, harm", [("no_check", "duplicate commit"), ("latest_deleted", "Harm")])
@pytest.mark.parametrize("ask", PEERS, indirect=True)
def test_mutants_are_found_on_the_peers(ask, mutant, harm):
    _, found, _ = ask(0, 3_000, mutant)
    assert found and harm in found[1]
    assert ask(found[0], found[0] + 1, mutant)[1] == found  # the same seed, the same run


def test_without_the_python_that_they_want_one_line_says_so(monkeypatch, capsys):
    def none():
        raise PeerMissing("there is no Python 3.12")

    monkeypatch.setattr(simulators, "python_program", none)
    assert main([]) == 0
    assert capsys.readouterr().out == "simloop, simloom not measured: there is no Python 3.12\n"


def test_what_pip_cannot_fetch_is_not_measured(monkeypatch, capsys):
    def kept(name, sources, make):
        raise PeerMissing(f"pip could not download {name}")

    monkeypatch.setattr(simulators, "kept", kept)
    monkeypatch.setattr(simulators, "python_program", lambda: "no Python is started")
    monkeypatch.setattr(simulators, "EACH", dict.fromkeys(PEERS, 1))
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name:15} not measured: pip could not download {name}" for name in PEERS]


def test_a_bare_step_takes_time():
    assert 0 < bare_step_us(3_000, 1) < 1_000
