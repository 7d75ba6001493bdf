"""Safety: of each signature that a campaign has found the smallest failing seed is shrunk, and what is shrunk fails alike; a
failure is called known only if an earlier campaign of the same scenario and mutant has its signature.

Shrinking goes where the campaign's runs go: to processes, or to Spark's workers. What comes back is a tape, which the caller
replays and writes down (a bundle each).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from dst.alarm import Hung, alarmed, set_alarm
from dst.campaign.folder import labelled, read_json
from dst.campaign.processes import begin_worker
from dst.campaign.what import Campaign, CampaignError, Refused
from dst.scenarios import named
from dst.shrink import BUDGET, Shrunk, shrink
from dst.simulate import Build, Outcome, Shape, drawn_shape, simulate
from dst.world.faults import Weights
from dst.zoo import build_of

LEFT_OUT = ("timeout", "memory", "death", "harness", "nondeterminism")  # kinds that no shrinking helps: they are of no run
LONGEST_S = 600.0  # to shrink one


class Small(NamedTuple):
    """What a seed's failure was shrunk to."""

    seed: int
    strategy: str
    shape: Shape | None
    weights: Weights | None
    tape: list[tuple[str, int, int]]
    runs: int  # that it took


class Compared(NamedTuple):
    """`state`: new (no earlier campaign has the signature), known, gone (the last one has it, and this one has not). `first`:
    of the earlier campaigns the first that has it: its code."""

    signature: str
    state: str
    first: str


# --- what is new

def summary_of(out: Path) -> dict:
    """Of a campaign that has come to its end. Raises Refused."""
    labelled(out)
    summary = read_json(out / "summary.json")
    if not summary:
        raise Refused(f"{out} has no summary: `highwater campaign resume {out}` brings it to its end")
    return summary


def compare(now: dict, earlier: list[dict]) -> list[Compared]:
    """`earlier`: summaries, the oldest first. Raises Refused where one is of something else."""
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

def rerun(campaign: Campaign, seed: int) -> tuple[Outcome, Shape | None]:
    """A seed's run, and the shape that it was given, if not all of it was drawn."""
    shape = drawn_shape(seed, campaign.scenario)._replace(store=campaign.profile) if campaign.profile else None
    return simulate(seed, build_of(campaign.mutant, campaign.scenario), shape, strategy=campaign.strategy,
                    scenario=campaign.scenario), shape


def shrunk(campaign: Campaign, seed: int, signature: str, budget: int) -> str:
    """JSON of a Small. Raises CampaignError where the seed does not fail as it did: then something is not deterministic."""
    outcome, shape = rerun(campaign, seed)
    if outcome.signature != signature:
        raise CampaignError(f"seed {seed} now ends with {outcome.signature or 'ok'}, and was {signature}: highwater dst doctor "
                            f"--scenario {campaign.scenario} --seeds {seed}:{seed + 1}")
    found = shrunk_in_time(outcome, build_of(campaign.mutant, campaign.scenario), shape, budget)
    return json.dumps({"seed": seed, "strategy": found.outcome.strategy, "shape": found.shape and found.shape._asdict(),
                       "weights": found.weights and found.weights._asdict(), "tape": found.outcome.tape, "runs": found.runs})


def shrunk_in_time(outcome: Outcome, build: Build, shape: Shape | None, budget: int) -> Shrunk:
    """As it was, if some smaller run does not end."""
    with alarmed():
        set_alarm(LONGEST_S)
        try:
            return shrink(outcome, build, shape, None, budget)
        except Hung:
            return Shrunk(outcome, shape, None, outcome, 0)


def small_of(campaign: Campaign, text: str) -> Small:
    said = json.loads(text)
    return Small(said["seed"], said["strategy"], said["shape"] and named(campaign.scenario).Shape(**said["shape"]),
                 said["weights"] and Weights(**said["weights"]), [tuple(choice) for choice in said["tape"]], said["runs"])


def to_shrink(summary: dict) -> list[tuple[int, str]]:
    """(seed, signature): of each signature of a simulated run the smallest."""
    return [(failure["smallest_seed"], failure["signature"]) for failure in summary["failures"]
            if failure["kind"] not in LEFT_OUT]


Shrink = Callable[[Campaign, Iterable[tuple[int, str]], int], Iterator[Small]]


def with_processes(jobs: int) -> Shrink:
    def each(campaign: Campaign, seeds: Iterable[tuple[int, str]], budget: int = BUDGET) -> Iterator[Small]:
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker) as pool:
            futures = {pool.submit(shrunk, campaign, seed, signature, budget): seed for seed, signature in seeds}
            for future, seed in futures.items():
                try:
                    yield small_of(campaign, future.result())
                except BrokenProcessPool:
                    why = f"a process died while it shrank seed {seed}, or another beside it: --jobs 1 tells which"
                    raise CampaignError(why) from None

    return each


def replayed(campaign: Campaign, small: Small) -> Outcome:
    return simulate(small.seed, build_of(campaign.mutant, campaign.scenario), small.shape, small.weights, small.tape,
                    strategy=small.strategy, scenario=campaign.scenario)


def names_of(signatures: Iterable[str]) -> dict[str, str]:
    """Of folders, each its own, whatever upper case is to the file system: the signatures' letters."""
    found: dict[str, str] = {}
    for signature in signatures:
        plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in signature).strip("-.")[:100]
        names, taken = [plain or "failure"], {name.lower() for name in found.values()}
        while names[-1].lower() in taken:
            names.append(f"{names[0]}-{len(names) + 1}")
        found[signature] = names[-1]
    return found
