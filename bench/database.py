"""Simulation of a whole database, on SlateDB's own bytes: runs per second of CPU, microseconds per request.

The shapes are those that the seeds draw. In one run in eight a promise of the environment is broken. Every other run is judged
request by request, and all is read back at its end."""

import statistics
import time

from highwater.dst.run_spec import Run
from highwater.dst.simulate import Outcome, many

WARM, RUNS, EACH = 30, 5, 100
LEAST = 50  # runs a second of some 200 requests


def main() -> bool:
    """Print the rates. Return True if they are less than the target."""
    runs(range(WARM))
    rates, counts = [], []
    for number in range(RUNS):
        low, start = WARM + number * EACH, time.process_time()
        requests = runs(range(low, low + EACH))
        rates.append(EACH / (time.process_time() - start))
        counts.append(sum(requests) / EACH)
    rate, count = statistics.median(rates), statistics.mean(counts)
    print(f"{rate:.1f} runs/s/core, {1e6 / rate / count:.1f} us per request, {count:.1f} requests per run "
          f"(median of {RUNS} x {EACH} runs); target: at least {LEAST} runs/s/core of some 200 requests")
    return rate * count < LEAST * 200


def runs(seeds: range) -> list[int]:
    """Run seeds, and return the requests of each run."""
    requests: list[int] = []

    def each(outcome: Outcome) -> None:
        assert not outcome.kind, outcome.message
        requests.append(outcome.requests)

    many((Run(seed, "db", strategy="times") for seed in seeds), each)
    return requests


if __name__ == "__main__":
    main()
