"""Safety: a second judge of a run, who has none of our model's code: FizzBee, driven along the steps that its trace stands for.

The run is accepted if FizzBee can take every step, its assertions hold after each, and it ends with the files, their updates
and the boundary that the store's own log ends with. What is shared with the first judge is the mapping of events to steps
(traces/), and no more. What callers were told is no step, so of that FizzBee says nothing.
"""

from typing import Any, NamedTuple

from highwater.cli.console import STEM
from highwater.cli.dst.export import TooLarge, guided, row_of
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, namespace, production
from highwater.dst.simulate import Outcome, simulate
from highwater.impl.codecs.json import manifest as manifest_json
from highwater.impl.layout import Namespace
from highwater.specs.fizzbee.cli import Fizz
from highwater.traces.event import Event

Files = dict[int, frozenset[tuple[int, int]]]  # id -> its updates


class Judgement(NamedTuple):
    accepted: bool
    steps: int  # FizzBee's links that it followed
    why: str  # "" if accepted


SMALL = Shape(writers=2, commits=2, collectors=1, rounds=2, readers=1, reads=1, think_ms=1, min_age_ms=60, manifest=True)
MOST_SEEDS = 2_000


def small_runs(mutant: str, number: int) -> list[tuple[Outcome, str]]:
    """So many runs, and what they are called, that fit into a guided trace: good ones, all different in what went wrong on the
    way; or of a mutant, such that our own refinement refuses."""
    found: dict[object, tuple[Outcome, str]] = {}
    for seed in range(MOST_SEEDS):
        outcome = simulate(Run(seed, shape=SMALL), ZOO[mutant][1] if mutant else production)
        faults = frozenset((e.kind, e.pending) for e in outcome.events)
        if (outcome.kind == "refinement" if mutant else not outcome.kind) and faults not in found and fits(outcome):
            found[faults] = outcome, f"seed {seed} of {mutant or 'production'} in highwater/conformance/judge.py's SMALL"
            if len(found) == number:
                break
    return list(found.values())


def fits(outcome: Outcome) -> bool:
    try:
        return bool(guided(outcome))
    except TooLarge:
        return False


def judge(fizz: Fizz, outcome: Outcome, timeout: float | None = None) -> Judgement:
    """Raises TooLarge for a run that is too long for a guided trace, FizzError where FizzBee cannot run."""
    constants, links = guided(outcome)
    found = fizz.guided(row_of(STEM).path, constants, links, timeout=timeout, cache=True)
    if found.verdict == "FAILED":
        return Judgement(False, found.followed, f"{', '.join(found.failed_assertions)} fails after {found.followed} links")
    if found.followed != len(links):
        return Judgement(False, found.followed, f"FizzBee cannot take link {found.followed} of {len(links)}, "
                         f"{links[found.followed]}" + (f": {found.error}" if found.error else ""))
    return compared(found.trace[-1][1], stored(outcome.events, namespace(outcome.shape)), found.followed)


def compared(state: dict[str, Any], stored: tuple[Files, int], followed: int) -> Judgement:
    files = {int(file_id): frozenset(map(tuple, file["updates"])) for file_id, file in state["files"].items()}
    if (files, state["boundary"]) != stored:
        return Judgement(False, followed, f"FizzBee ends with the files {sorted(files)} and the boundary {state['boundary']}, "
                         f"the store with {sorted(stored[0])} and {stored[1]}, or their updates differ")
    return Judgement(True, followed, "")


def stored(events: list[Event], where: Namespace) -> tuple[Files, int]:
    """What the store's log says is there in the end, and the boundary."""
    files: Files = {1: frozenset()}
    boundary = 0
    for e in events:
        if e.kind != "applied" or e.status >= 300 or e.op not in ("create", "update", "put", "delete"):
            continue
        if e.key == where.boundary_key:
            boundary = int(e.body)
        elif e.op == "delete":
            files.pop(where.file_id(e.key), None)
        else:
            updates = manifest_json.decode(e.body).updates
            files[where.file_id(e.key)] = frozenset(tuple(map(int, update.split("."))) for update in updates)
    return files, boundary
