"""Safety: FizzBee judges a run independently of our model's code. It follows the model's steps that explain the run's trace.

The run is accepted if FizzBee can take every step, its assertions hold after each, and its last state is the one that the
model ends in. If the protocol defines `unlike_the_store`, FizzBee's state must also equal the store's final content. The judges
share only the mapping of events to steps (traces/). A response to a caller is not a step, so FizzBee does not judge it.

A protocol's own part is highwater/conformance/protocols/STEM.py.
"""

import re
from collections import Counter
from types import ModuleType
from typing import Any, NamedTuple

from highwater import project
from highwater.conformance.difference import differing
from highwater.conformance.guided import Guided, TooLarge, guided
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import mutants_of, named
from highwater.dst.simulate import Outcome, simulate
from highwater.messages import meant
from highwater.specs.fizzbee.check import Fizz

PROTOCOLS = project.ours("judge")
MOST_SEEDS = 2_000


class Judgement(NamedTuple):
    accepted: bool
    steps: int  # the number of links that FizzBee followed
    why: str  # "" if accepted


class Rate(NamedTuple):
    """The number of production's small runs that FizzBee can follow, and the limits that stop the others."""

    runs: int
    fit: int
    limits: tuple[tuple[str, int], ...]  # (limit, number of runs), most frequent first

    def __str__(self) -> str:
        why = f" ({self.limits[0][0]})" if self.limits else ""
        return f"FizzBee can follow {self.fit} of {self.runs} small runs{why}"


def own(scenario: str) -> ModuleType:
    """Return the module of a protocol's own part. Raises LookupError if it has none."""
    if not project.has("judge", scenario):
        stems = project.stems("judge")
        raise LookupError(f"FizzBee cannot judge runs of {scenario!r}{meant(scenario, stems)}; choose one of "
                          f"{', '.join(stems)}")
    return project.load("judge", scenario)


def small_run(scenario: str, seed: int, mutant: str = "") -> Outcome:
    build = mutants_of(scenario).builds[mutant][1] if mutant else named(scenario).production
    return simulate(Run(seed, scenario, shape=own(scenario).SMALL), build)


def small_runs(scenario: str, mutant: str, number: int) -> list[tuple[Outcome, str]]:
    """Return `number` runs that fit into a guided trace, with their names: good runs with different faults, or runs of a mutant
    that refinement refuses."""
    found: dict[object, tuple[Outcome, str]] = {}
    for seed in range(MOST_SEEDS):
        outcome = small_run(scenario, seed, mutant)
        faults = frozenset((e.kind, e.pending) for e in outcome.events)
        if (outcome.kind == "refinement" if mutant else not outcome.kind) and faults not in found and not limit(outcome):
            found[faults] = outcome, (f"seed {seed} of {mutant or 'production'}, shape SMALL of "
                                      f"{project.module('judge', scenario)}")
            if len(found) == number:
                break
    return list(found.values())


def limit(outcome: Outcome) -> str:
    """Say why FizzBee cannot follow a run; "" if it can."""
    try:
        guided(outcome)
    except TooLarge as error:
        return str(error)
    return ""


def rate(scenario: str, runs: int) -> Rate:
    found = Counter(re.sub(r"\d+", "N", limit(small_run(scenario, seed))) for seed in range(runs))
    return Rate(runs, found.pop("", 0), tuple(found.most_common()))


def judge(fizz: Fizz, outcome: Outcome, timeout: float | None = None, cache: bool = True) -> Judgement:
    """Let FizzBee judge a run. Raises TooLarge if no guided trace fits the run, FizzError if FizzBee cannot run."""
    run = guided(outcome)
    found = fizz.guided(run.row.path, run.constants, run.links, timeout=timeout, cache=cache)
    followed = found.followed
    assert followed is not None  # a guided check says it
    if found.verdict == "FAILED":
        return Judgement(False, followed, f"{', '.join(found.failed_assertions)} fails after {followed} links")
    if followed != len(run.links):
        return Judgement(False, followed, f"FizzBee cannot take link {followed} of {len(run.links)}, "
                         f"{run.links[followed]}" + (f": {found.error}" if found.error else ""))
    state = found.trace[-1][1]
    why = unlike_the_model(run, state) or unlike_the_store(outcome, state)
    return Judgement(not why, followed, why)


def unlike_the_model(run: Guided, state: dict[str, Any]) -> str:
    """Say how FizzBee's last state differs from those in which the model may end; "" if it is one of them."""
    if run.impossible or any(not differing(run.row.stem, run.model, end, state) for end in run.ends):
        return ""
    names = differing(run.row.stem, run.model, next(iter(run.ends)), state)
    return f"FizzBee's last state differs from the model's in {', '.join(names)}"


def unlike_the_store(outcome: Outcome, state: dict[str, Any]) -> str:
    """Say how FizzBee's last state differs from the store; "" if it does not, or if the protocol does not define it."""
    compare = getattr(own(outcome.scenario), "unlike_the_store", None)
    return compare(state, outcome) if compare else ""
