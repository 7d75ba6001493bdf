"""Shrink what a campaign found, and compare it with earlier campaigns.

Safety: for each signature the smallest failing seed is shrunk, and the shrunk run fails with the same signature. A failure is
called known only if an earlier campaign of the same scenario and mutant has its signature.

Shrinking runs in local processes or on Spark's workers. It returns a tape, which the caller replays and writes as a bundle.
"""

import os
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.dst.campaign.folder import labelled, summary_in
from highwater.dst.campaign.processes import begin_worker
from highwater.dst.campaign.what import UNJUDGED, Campaign, CampaignError, Refused
from highwater.dst.run_spec import Run, protocol_words
from highwater.dst.scenarios import named
from highwater.dst.search.shrink import BUDGET, Shrunk, shrink
from highwater.dst.sim.alarm import Hung, alarmed, set_alarm
from highwater.dst.simulate import BaseShape, Build, Outcome, simulate
from highwater.dst.world.node_faults import AnyWeights
from highwater.dst.zoo import build_of

LONGEST_S = 600.0  # for one run


class Small(NamedTuple):
    """A shrunk failure of a seed."""

    seed: int
    strategy: str
    shape: BaseShape | None
    weights: AnyWeights | None
    tape: list[tuple[str, int, int]]
    runs: int  # spent on shrinking


class Compared(NamedTuple):
    """A signature compared with earlier campaigns.

    `state`: new (no earlier campaign has it), known, or gone (the last campaign has it, this one has not). `first`: the code of
    the first earlier campaign that has it."""

    signature: str
    state: str
    first: str


# --- what is new

def summary_of(out: Path) -> dict:
    """Return the summary of a finished campaign. Raises Refused or CampaignError."""
    labelled(out)
    summary = summary_in(out)
    if not summary:
        raise Refused(f"{out} has no summary: run `highwater campaign resume {out}{project.option()}` to finish the campaign")
    return summary


def compare(now: dict, earlier: list[dict]) -> list[Compared]:
    """Compare the signatures with `earlier`, summaries from the oldest on. Raises Refused for another scenario or mutant."""
    for one in earlier:
        for name in ("scenario", "mutant"):
            if one[name] != now[name]:
                raise Refused(f"a campaign of {name} {one[name]!r} is not compared with one of {now[name]!r}")
    here = [failure["signature"] for failure in now["failures"]]
    there = [{failure["signature"] for failure in one["failures"]} for one in earlier]

    def first(signature: str) -> str:
        return next((one["code"] for one, found in zip(earlier, there) if signature in found), "")

    compared = [Compared(signature, "known" if first(signature) else "new", first(signature)) for signature in here]
    gone = sorted(there[-1] - set(here)) if there else []
    return compared + [Compared(signature, "gone", first(signature)) for signature in gone]


# --- what is small

@contextmanager
def silence() -> Generator[None, None, None]:
    """Discard what this block prints: runs by the thousand may print anything."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def rerun(campaign: Campaign, seed: int) -> tuple[Outcome, Run]:
    """Run a row's seed again. Returns the outcome and the run."""
    run = campaign.spec.at(seed)
    return simulate(run), run


def shrunk(of: tuple, seed: int, signature: str, budget: int, *_: str) -> dict:
    """Shrink a seed's run. Returns the fields of a Small, for JSON. `of`: the fields of a Campaign.

    Raises CampaignError if the seed no longer fails in the same way, which means that something is not deterministic."""
    campaign = Campaign(*of)
    with silence():
        outcome, run = rerun(campaign, seed)
    if outcome.signature != signature:
        raise CampaignError(f"seed {seed} now ends with {outcome.signature or 'ok'}, and was {signature}: highwater dst doctor "
                            f"{protocol_words(campaign.scenario)} --seeds {seed}:{seed + 1}")
    found = shrunk_in_time(outcome, build_of(campaign.mutant, campaign.scenario), run, budget)
    return {"seed": seed, "strategy": found.outcome.strategy, "shape": found.shape and found.shape._asdict(),
            "weights": found.weights and found.weights._asdict(), "tape": found.outcome.tape, "runs": found.runs}


def shrunk_in_time(outcome: Outcome, build: Build, run: Run, budget: int) -> Shrunk:
    """Shrink a run within LONGEST_S. Returns it unshrunk if a smaller run does not end."""
    with silence(), alarmed():
        set_alarm(LONGEST_S)
        try:
            return shrink(outcome, build, run.shape, run.weights, budget)
        except Hung:
            return Shrunk(outcome, run.shape, run.weights, outcome, 0)


def small_of(campaign: Campaign, said: dict) -> Small:
    of = named(campaign.scenario)
    return Small(said["seed"], said["strategy"], said["shape"] and of.shape(**said["shape"]),
                 said["weights"] and of.weights(**said["weights"]), [tuple(choice) for choice in said["tape"]], said["runs"])


ToShrink = tuple[int, str]  # seed, signature
Shrinker = Callable[[Campaign, list[ToShrink], int], Iterable[Small]]  # int: most runs for each; results in order


def to_shrink(summary: dict) -> list[ToShrink]:
    """Return the smallest seed of each signature, for failures of the implementation."""
    return [(failure["smallest_seed"], failure["signature"]) for failure in summary["failures"]
            if failure["kind"] not in UNJUDGED]


@contextmanager
def shrinking_in_processes(jobs: int) -> Generator[Shrinker, None, None]:
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker) as pool:
        def each(campaign: Campaign, those: list[ToShrink], budget: int = BUDGET) -> list[Small]:
            futures = [pool.submit(shrunk, tuple(campaign), *one, budget) for one in those]
            try:
                return [small_of(campaign, future.result()) for future in futures]
            except BrokenProcessPool:
                raise CampaignError("a process died while it shrank a run: --jobs 1 shrinks one after another") from None

        yield each


def replayed(campaign: Campaign, small: Small) -> Outcome:
    with silence():
        return simulate(small_run(campaign.spec.at(small.seed), small), tape=small.tape)


def small_run(run: Run, small: Small) -> Run:
    return run._replace(strategy=small.strategy, shape=small.shape, weights=small.weights)


def names_of(signatures: Iterable[str]) -> dict[str, str]:
    """Name a folder for each signature, unique even on file systems that ignore case."""
    found: dict[str, str] = {}
    for signature in signatures:
        plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in signature).strip("-.")[:100]
        names, taken = [plain or "failure"], {name.lower() for name in found.values()}
        while names[-1].lower() in taken:
            names.append(f"{names[0]}-{len(names) + 1}")
        found[signature] = names[-1]
    return found
