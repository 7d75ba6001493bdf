"""Safety: counts of requests are what the implementation sent in runs without faults; latencies and prices are inputs, and
what is worked out with them is no better than they are.

A protocol's scenario says in `cost` at which contention it is measured: name -> shape. Every commit that a caller was told of
is taken apart into the requests that its client sent for it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil, exp, log
from statistics import NormalDist
from typing import Any, NamedTuple

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.sim.choose import drawing
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import NONE
from highwater.traces.event import Event

MUTATIONS = ("create", "update", "put")
COMMITTERS = ("Writer", "Appender")  # the roles whose clients are told of commits
SAMPLES = 4096  # of a distribution of latencies
P99 = NormalDist().inv_cdf(0.99)


class Latency(NamedTuple):
    """Of one kind of request, lognormal."""

    p50_ms: float
    p99_ms: float


class Spread(NamedTuple):
    mean: float
    p50: float
    p99: float


class Cost(NamedTuple):
    protocol: str
    contention: str  # a name in `cost`
    commits: int
    kinds: dict[str, Spread]  # requests of each kind for a commit, by its client
    requests: Spread  # of all kinds
    conflicts: Spread  # for a commit
    trips: Spread | None  # of one conflict: the attempt that failed, what is read after it, the next attempt
    unchanged: float | None  # of the boundary checks, the share that is answered "not modified"
    latency_ms: Spread
    all_kinds: dict[str, float]  # of all clients, collectors too, for one commit
    refused: int  # updates that were not committed


class Commit(NamedTuple):
    events: list[Event]
    latency_ms: int


def sampler(latencies: Mapping[str, Latency], seed: int) -> Callable[[str], int]:
    """delay_ms(op), drawn from the quantiles of its distribution."""
    tables = {op: [max(1, round(quantile(of, (i + 0.5) / SAMPLES))) for i in range(SAMPLES)] for op, of in latencies.items()}
    draw = drawing(seed, "delay")
    return lambda op: tables[op][draw(SAMPLES)]


def quantile(of: Latency, q: float) -> float:
    sigma = log(of.p99_ms / of.p50_ms) / P99
    return of.p50_ms * exp(sigma * NormalDist().inv_cdf(q))


def measure(protocol: str, contention: str, latencies: Mapping[str, Latency], runs: int) -> Cost:
    """Of so many runs without faults."""
    commits: list[Commit] = []
    trips: list[int] = []
    checks: Counter[int] = Counter()
    every: Counter[str] = Counter()
    refused = 0
    shape = named(protocol).cost[contention]
    for seed in range(runs):
        run = Run(seed, protocol, strategy="times", shape=shape, weights=NONE)
        outcome = simulate(run, by_model=False, delay_ms=sampler(latencies, seed))
        if outcome.kind:
            raise ValueError(f"{protocol}, {contention}, seed {seed}: {outcome.signature}: {outcome.message}")
        for client in sorted({e.client for e in outcome.events}):
            own = [e for e in outcome.events if e.client == client]
            commits += commits_of(own)
            trips += trips_of(own)
        for e in outcome.events:
            every[e.op] += e.kind == "applied"
            checks[e.status] += e.kind == "applied" and e.op == "get_if_changed" and e.client.startswith(COMMITTERS)
            refused += e.kind == "told" and e.op in ("refused", "failed", "fenced")
    kinds = sorted({e.op for commit in commits for e in commit.events})
    return Cost(
        protocol, contention, len(commits),
        {kind: spread([sum(e.op == kind for e in commit.events) for commit in commits]) for kind in kinds},
        spread([len(commit.events) for commit in commits]),
        spread([sum(map(conflicts, commit.events)) for commit in commits]), spread(trips) if trips else None,
        checks[304] / checks.total() if checks.total() else None, spread([commit.latency_ms for commit in commits]),
        {op: count / len(commits) for op, count in sorted(every.items()) if count and op in latencies}, refused)


def commits_of(own: list[Event]) -> Iterator[Commit]:
    """Of one client's events: what it sent between two tellings, where the second tells of a commit. Its latency is that from
    one to the other: clients are busy, and begin the next update at once."""
    since: list[Event] = []
    told_ms = 0
    for e in own:
        if e.kind == "told":
            if e.op == "committed" and since:
                yield Commit(since, e.t_ms - told_ms)
            since, told_ms = [], e.t_ms
        elif e.kind == "applied":
            since.append(e)


def conflicts(e: Event) -> bool:
    return e.op in MUTATIONS and e.status in (409, 412)


def trips_of(own: list[Event]) -> Iterator[int]:
    """From each attempt that met a conflict to the next one, both counted."""
    for place, e in enumerate(own):
        if conflicts(e):
            rest = [later for later in own[place + 1:] if later.kind in ("applied", "told")]
            until = next((n for n, later in enumerate(rest) if later.kind == "told" or later.op in MUTATIONS), None)
            if until is not None and rest[until].kind == "applied":
                yield until + 2


def spread(values: list[int]) -> Spread:
    values = sorted(values)
    return Spread(sum(values) / len(values), values[ceil(0.5 * len(values)) - 1], values[ceil(0.99 * len(values)) - 1])


def dollars(per_commit: Mapping[str, float], per_thousand: Mapping[str, float], commits: int = 1_000_000) -> float:
    return sum(count * per_thousand[op] / 1000 for op, count in per_commit.items()) * commits


def all_of(protocol: str) -> Mapping[str, Any]:
    """The contentions at which a protocol is measured; empty for one without commits."""
    return named(protocol).cost
