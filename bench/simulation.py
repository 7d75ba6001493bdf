"""Simulation: runs a second and microseconds a step, with online refinement and digest, default fault weights.

Shape: 2 writers x 3 commits, 1 collector (`Shape()`), without the audit that one run in four has. A step is a request."""

import statistics
import time

from dst.scenarios.sequenced_metadata_boundary import Shape, production
from dst.simulate import many

SHAPE = Shape(audit=False)
WARM, RUNS, EACH = 4_000, 7, 2_000


def main() -> None:
    judged = [measure(True, RUNS)][0]
    unjudged = [measure(False, RUNS)][0]
    for name, (rate, step_us, requests) in {"refined": judged, "not refined": unjudged}.items():
        print(f"{name:12} {rate:7,.0f} runs/s/core, {step_us:5.1f} us a step, {requests:.1f} requests a run "
              f"(median of {RUNS} x {EACH} runs)")
    print(f"online refinement costs {judged[1] / unjudged[1]:.2f} times the simulation alone")


def measure(by_model: bool, runs: int) -> tuple[float, float, float]:
    many(range(WARM), lambda outcome: None, production, shape=SHAPE, by_model=by_model)
    rates, steps, counts = [], [], []
    for number in range(runs):
        requests: list[int] = []
        low = WARM + number * EACH
        start = time.process_time()
        many(range(low, low + EACH), lambda outcome, r=requests: r.append(outcome.requests), production, shape=SHAPE,
             by_model=by_model)
        seconds = time.process_time() - start
        rates.append(EACH / seconds)
        steps.append(seconds / sum(requests) * 1e6)
        counts.append(sum(requests) / EACH)
    return statistics.median(rates), statistics.median(steps), statistics.mean(counts)
