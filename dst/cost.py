"""Measure the cost of a commit. Safety: requests are counted in runs of the implementation without faults.

Latencies and prices are inputs, and derived figures are no better than they are. `cost` of a protocol's scenario names the
contentions to measure: name -> shape. Each commit reported to a caller is attributed the requests that its client sent for it.
A commit is a response `committed`. The roles whose clients commit are those of which a client had that response.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import ceil, exp, log
from statistics import NormalDist
from typing import Any, NamedTuple

from highwater.dst.run_spec import Run
from highwater.dst.scenario import counted
from highwater.dst.scenarios import named
from highwater.dst.sim.choose import drawing
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import NONE
from highwater.traces.event import EMPTY, Event

MUTATIONS = ("create", "update", "put")
COMMITTED = "committed"  # what a caller is told of a commit
SAMPLES = 4096  # in a table of a latency distribution
P99 = NormalDist().inv_cdf(0.99)


class Latency(NamedTuple):
    """The latency of one kind of request, lognormal."""

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
    kinds: dict[str, Spread]  # for one commit, requests of each kind by its client
    requests: Spread  # of all kinds
    conflicts: Spread  # for one commit
    trips: Spread | None  # for one conflict: the failed attempt, the reads after it, the next attempt
    unchanged: float | None  # share of boundary checks answered "not modified"
    latency_ms: Spread
    all_kinds: dict[str, float]  # for one commit, the requests of all clients, collectors too
    refused: int  # updates that were not committed


class Commit(NamedTuple):
    events: list[Event]
    latency_ms: int


def sampler(latencies: Mapping[str, Latency], seed: int) -> Callable[[str], int]:
    """Return delay_ms(op), which draws from the quantiles of the op's latency distribution."""
    tables = {op: table(of) for op, of in latencies.items()}
    draw = drawing(seed, "delay")
    return lambda op: tables[op][draw(SAMPLES)]


@cache
def table(of: Latency) -> list[int]:
    """Return SAMPLES latencies in ms, at even steps of the distribution."""
    return [max(1, round(quantile(of, (i + 0.5) / SAMPLES))) for i in range(SAMPLES)]


def quantile(of: Latency, q: float) -> float:
    sigma = log(of.p99_ms / of.p50_ms) / P99
    return of.p50_ms * exp(sigma * NormalDist().inv_cdf(q))


def measure(protocol: str, contention: str, latencies: Mapping[str, Latency], runs: int) -> Cost:
    """Measure a protocol's cost in this number of runs without faults. Raises ValueError if a run fails, or if none commits."""
    commits: list[Commit] = []
    trips: list[int] = []
    checks: Counter[tuple[str, int]] = Counter()  # (role, status)
    committers: set[str] = set()  # roles
    every: Counter[str] = Counter()
    refused = 0
    shape = all_of(protocol)[contention]
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
            if e.kind == "applied" and e.op == "get_if_changed":
                checks[role_of(e), e.status] += 1
            if e.kind == "told" and e.op == COMMITTED:
                committers.add(role_of(e))
            refused += e.kind == "told" and e.op in ("refused", "failed", "fenced")
    if not commits:
        raise ValueError(f"{protocol}, {contention}: no client was told {COMMITTED!r} after a request, so there is no commit: "
                         "let the scenario report a commit with this word, or set cost={} in SCENARIO")
    checked = sum(count for (role, _), count in checks.items() if role in committers)
    kinds = sorted({e.op for commit in commits for e in commit.events})
    return Cost(
        protocol, contention, len(commits),
        {kind: spread([sum(e.op == kind for e in commit.events) for commit in commits]) for kind in kinds},
        spread([len(commit.events) for commit in commits]),
        spread([sum(map(conflicts, commit.events)) for commit in commits]), spread(trips) if trips else None,
        sum(checks[role, 304] for role in committers) / checked if checked else None,
        spread([commit.latency_ms for commit in commits]),
        {op: count / len(commits) for op, count in sorted(every.items()) if count and op in latencies}, refused)


def commits_of(own: list[Event]) -> Iterator[Commit]:
    """Yield one client's commits: the requests that it sent between two responses to its caller, if the second reports a
    commit.

    The latency is the time between the two responses, because a busy client begins the next update at once."""
    since: list[Event] = []
    told_ms = 0
    for e in own:
        if e.kind == "told":
            if e.op == COMMITTED and since:
                yield Commit(since, e.t_ms - told_ms)
            since, told_ms = [], e.t_ms
        elif e.kind == "applied":
            since.append(e)


def role_of(e: Event) -> str:
    return e.client.partition("#")[0]


def conflicts(e: Event) -> bool:
    return e.op in MUTATIONS and e.status in (409, 412)


def trips_of(own: list[Event]) -> Iterator[int]:
    """Yield, for each conflict, the number of requests from the failed attempt to the next one, both included."""
    for place, e in enumerate(own):
        if conflicts(e):
            later = (own[at] for at in range(place + 1, len(own)))
            rest = enumerate((e for e in later if e.kind in ("applied", "told")), start=2)
            requests, until = next((of for of in rest if of[1].kind == "told" or of[1].op in MUTATIONS), (0, EMPTY))
            if until.kind == "applied":
                yield requests


def spread(values: list[int]) -> Spread:
    values = sorted(values)
    return Spread(sum(values) / len(values), values[ceil(0.5 * len(values)) - 1], values[ceil(0.99 * len(values)) - 1])


def dollars(per_commit: Mapping[str, float], per_thousand: Mapping[str, float], commits: int = 1_000_000) -> float:
    return sum(count * per_thousand[op] / 1000 for op, count in per_commit.items()) * commits


def all_of(protocol: str) -> Mapping[str, Any]:
    """Return the contentions at which a protocol is measured; empty for one without commits."""
    scenario = named(protocol)
    if scenario.cost is not None:
        return scenario.cost
    role, (number, _) = next(iter(scenario.roles.items()))
    most = scenario.most.get(number, getattr(scenario.mildest, number))
    return {counted(n, role.lower()): scenario.mildest._replace(**{number: n}) for n in sorted({1, most})}
