"""Simulation: runs per second and microseconds per step, with online refinement, digest and default fault weights.

The shape is 2 writers x 3 commits and 1 collector (`Shape()`), without the audit that one run in four has. The strategies are
`times` and the default portfolio. A step is a request; for the bare kernel, a step is anything that a client awaits.
bench/peers/simulators.py measures other simulators."""

import statistics
import time
from collections.abc import Callable, Generator
from types import coroutine

from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Build, Shape, production
from highwater.dst.sim.kernel import Client, Kernel, Request, Sleep
from highwater.dst.simulate import Outcome, many

SHAPE = Shape(audit=False)
WARM, RUNS, EACH = 4_000, 7, 2_000
CLIENTS, STEPS = 3, 200_000
MOST_BARE_US = 1.5  # on a quiet core


ROWS = {"refined": {}, "not refined": {"by_model": False}, "portfolio": {"strategy": "portfolio"}}


def main() -> None:
    steps_us = {}
    for name, options in ROWS.items():
        rate, steps_us[name], requests = measure(RUNS, **options)
        print(f"{name:12} {rate:7,.0f} runs/s/core, {steps_us[name]:5.1f} us per step, {requests:.1f} requests per run "
              f"(median of {RUNS} x {EACH} runs)", flush=True)
    print(f"online refinement costs {steps_us['refined'] / steps_us['not refined']:.2f} times the simulation alone")
    print(f"kernel, bare {bare_step_us():5.2f} us per step; target: at most {MOST_BARE_US} (median of {RUNS} x {STEPS} steps)")


def ours(seeds: range, each: Callable[[Outcome], None], build: Build = production, by_model: bool = True,
         strategy: str = "times") -> None:
    """Run the scenario that is measured here and beside other simulators."""
    runs = (Run(seed, strategy=strategy, shape=SHAPE) for seed in seeds)
    many(runs, each, build, by_model=by_model)


def measure(runs: int, **options: object) -> tuple[float, float, float]:
    ours(range(WARM), lambda outcome: None, **options)
    rates, steps, counts = [], [], []
    for number in range(runs):
        requests: list[int] = []
        low = WARM + number * EACH
        start = time.process_time()
        ours(range(low, low + EACH), lambda outcome, r=requests: r.append(outcome.requests), **options)
        seconds = time.process_time() - start
        rates.append(EACH / seconds)
        steps.append(seconds / sum(requests) * 1e6)
        counts.append(sum(requests) / EACH)
    return statistics.median(rates), statistics.median(steps), statistics.mean(counts)


def bare_step_us(steps: int = STEPS, runs: int = RUNS) -> float:
    """Time the kernel alone: clients that sleep and send requests in turn, and a store that answers at once."""
    def measured() -> float:
        kernel = Kernel()
        kernel.on_request = lambda client, request: kernel.at(
            kernel.now_ms + 1, client.name, kernel.resume, client, client.incarnation, None)
        for number in range(CLIENTS):
            kernel.start(Client(f"Client#{number}"), asks_and_sleeps())
        start = time.process_time()
        kernel.run(steps, steps)  # each client takes a step a millisecond
        return (time.process_time() - start) / kernel.steps * 1e6

    return statistics.median(measured() for _ in range(runs))


@coroutine
def asks_and_sleeps() -> Generator[Request | Sleep, None, None]:
    request, sleep = Request("get", "key"), Sleep(1)
    while True:
        yield request
        yield sleep
