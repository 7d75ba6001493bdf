"""Shrinking: requests of shrunk failures beside the model's shortest counterexample; and replays that are identical."""

import sys
from collections.abc import Iterator
from itertools import islice
from statistics import median
from typing import NamedTuple

from highwater.conformance.conform import model_of
from highwater.dst.determinism import doctor
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.search.shrink import shrink
from highwater.dst.simulate import Outcome, simulate
from highwater.model.explore.tabulated import explore
from highwater.specs.runs import rows

SHORTEST = {"reported_though_refused": "no_check"}  # mutants after which no run of a spec is named
FAILURES = 9  # of each mutant
REPLAYS = 1_000


class Shrunk(NamedTuple):
    mutant: str
    requests: float  # medians: before,
    left: float  # and after
    steps: int  # of the model's shortest counterexample
    runs: float  # that it took

    @property
    def ratio(self) -> float:
        return self.left / self.steps


def failing(mutant: str, seeds: int = 1_000) -> Iterator[Outcome]:
    return (outcome for seed in range(seeds) if (outcome := simulate(Run(seed), ZOO[mutant][1])).kind)


def measured(failures: int = FAILURES) -> Iterator[Shrunk]:
    """Shrink failures of each mutant that corresponds to a safeguard of the model, and yield one row for each mutant."""
    known = {row.id: row for row in rows()}
    for mutant, (_, build) in ZOO.items():
        if row := known.get(SHORTEST.get(mutant, mutant)):
            outcomes = list(islice(failing(mutant), failures))
            found = [shrink(outcome, build) for outcome in outcomes]
            yield Shrunk(mutant, median(o.requests for o in outcomes), median(f.outcome.requests for f in found),
                         len(explore(model_of(row)).trace) - 1, median(f.runs for f in found))


def main() -> None:
    ratios = []
    for of in measured():
        ratios.append(of.ratio)
        print(f"{of.mutant:24} {of.requests:5.1f} requests, shrunk {of.left:4.1f} in {of.runs:5.0f} runs; the model's shortest "
              f"{of.steps:2}: {of.ratio:.2f} times", flush=True)
    print(f"median {median(ratios):.2f} times the model's shortest (target: at most 1.5), the largest {max(ratios):.2f}")
    places, other = [doctor.Place(sys.executable, seed) for seed in doctor.HASH_SEEDS], doctor.newer_python()
    places += [other] if isinstance(other, doctor.Place) else []
    different = doctor.check(range(REPLAYS), places=places)
    said = f"seed {different.seed} differs: {different.message}" if different else f"{REPLAYS:,} of {REPLAYS:,} identical"
    print(f"replays with {', '.join(place.name for place in places)}: {said}")
    if isinstance(other, str):
        print(f"skipped: another version of Python: {other}")
