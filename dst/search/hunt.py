"""Measure how soon independent campaigns find a failure, and estimate from that.

A campaign is one strategy's runs of one implementation, up to the first failure or the cap. Campaign i has the seeds from i *
1,000,000 on. So no two share a run, and a higher cap only extends them.

The estimates do not assume a distribution of waits. A quantile's interval lies between two of the sorted waits, chosen by the
binomial distribution. A wait cut off by the cap counts as longer than all others.
"""

from collections.abc import Callable, Iterator
from math import ceil, comb, inf
from typing import NamedTuple

from highwater import project
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.simulate import Build, Outcome, simulate
from highwater.model.uncollected import uncollected

STRIDE = 1_000_000
NAMES = ("portfolio", *STRATEGIES)


class First(NamedTuple):
    """The first failure of a campaign. `runs` includes the failing one; `signature` is "" if the cap came first."""

    runs: int
    signature: str
    cpu_s: float


class Estimate(NamedTuple):
    """An estimate with its interval; inf means beyond the cap."""

    value: float
    low: float
    high: float


def outcomes(strategy: str, seeds: range, build: Build | None = None, by_model: bool = True, scenario: str = DEFAULT
             ) -> Iterator[Outcome]:
    return (simulate(Run(seed, scenario, None, strategy), build, by_model=by_model) for seed in seeds)


def first_failure(strategy: str, campaign: int, cap: int, build: Build | None, by_model: bool, clock: Callable[[], float],
                  scenario: str = DEFAULT) -> First:
    """Run a campaign up to its first failure. `clock()` returns CPU-seconds of this process.

    Raises ValueError for a bad cap. Raises ProjectError if the scenario, the mapping or the model raises an exception, because
    that says nothing of the mutant.

    Results cached from the model by earlier campaigns of this process are reused, as in a long campaign."""
    if not 0 < cap <= STRIDE:
        raise ValueError(f"a campaign has 1 to {STRIDE:,} runs, not {cap:,}")
    began, runs, signature = clock(), 0, ""
    with uncollected():
        for outcome in outcomes(strategy, range(campaign * STRIDE, campaign * STRIDE + cap), build, by_model,
                                scenario):
            runs += 1
            if outcome.kind == "harness":
                raise project.ProjectError(f"{scenario}, seed {outcome.seed}: {outcome.message}")
            if outcome.kind:
                signature = outcome.signature
                break
    return First(runs, signature, clock() - began)


@uncollected()
def hunt(build: Build | None, failures: int, budget: int, by_model: bool = True, strategy: str = "portfolio",
         scenario: str = DEFAULT) -> tuple[list[int], set[str]]:
    """Return the number of runs from each failure to the next, and the signatures; stop at that many failures or at the
    budget."""
    waits, signatures, last = [], set(), 0
    for runs, outcome in enumerate(outcomes(strategy, range(budget), build, by_model, scenario), 1):
        if outcome.kind:
            waits.append(runs - last)
            signatures.add(outcome.signature)
            last = runs
            if len(waits) == failures:
                break
    return waits, signatures


# --- what many campaigns say


def quantile(waits: list[float], q: float, confidence: float = 0.95) -> Estimate:
    """Estimate the q-quantile of waits with a confidence interval.

    The quantile is the smallest wait that a share of q does not exceed. The median of an even number is the mean of the middle
    two. The interval has at least the given confidence. An end for which there are too few waits is 0 or inf."""
    waits, n = sorted(waits), len(waits)
    value = waits[ceil(q * n) - 1]
    if q == 0.5 and n % 2 == 0:
        value = (waits[n // 2 - 1] + waits[n // 2]) / 2
    tail = (1 - confidence) / 2
    below = [sum(comb(n, k) * q ** k * (1 - q) ** (n - k) for k in range(rank)) for rank in range(n + 1)]  # P(fewer than rank)
    low = max((rank for rank in range(1, n + 1) if below[rank] <= tail), default=0)
    high = min((rank for rank in range(1, n + 1) if 1 - below[rank] <= tail), default=n + 1)
    return Estimate(value, waits[low - 1] if low else 0, waits[high - 1] if high <= n else inf)


def share(found: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for a share that was estimated as found/of (Clopper, Pearson)."""
    tail = (1 - confidence) / 2

    def at_least(p: float) -> float:
        return sum(comb(of, k) * p ** k * (1 - p) ** (of - k) for k in range(found, of + 1))

    def at_most(p: float) -> float:
        return sum(comb(of, k) * p ** k * (1 - p) ** (of - k) for k in range(found + 1))

    low = bisected(lambda p: at_least(p) > tail) if found else 0.0
    high = bisected(lambda p: at_most(p) <= tail) if found < of else 1.0
    return low, high


def bisected(holds: Callable[[float], bool]) -> float:
    """Return the point in 0..1 from which the condition holds."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
