"""Check by experiment that a seed gives the same run in another process, under another hash seed, and on another Python.

If it does not, the first different choice and the first different event are reported. `python -m
highwater.dst.determinism.doctor` is the other process: it reads a job from stdin, and writes the result of each run to stdout,
as JSON.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from highwater import project
from highwater.dst.bundle import tape_hash
from highwater.dst.run_spec import Run, RunSpec, fields_of, run_of
from highwater.dst.sim.choose import TapeMismatch
from highwater.dst.simulate import Build, Outcome, simulate
from highwater.traces.event import from_json, to_json
from highwater.traces.explain.explain import words

USUAL = RunSpec()
PLACE = Path(__file__).parent.parent.parent.parent  # the folder that contains the package `highwater`
HASH_SEEDS = (1, 2)
LONGEST_S = 600.0  # for one process


class Place(NamedTuple):
    """A Python and a hash seed to run with."""

    python: str
    hash_seed: int
    version: str = ""  # "": this process's Python

    @property
    def name(self) -> str:
        return f"PYTHONHASHSEED={self.hash_seed}" + (f" on Python {self.version}" if self.version else "")


class Difference(NamedTuple):
    seed: int
    message: str


class Broken(Exception):
    """A process did not answer, so nothing is known about determinism. The message names the place and the reason."""


def check(seeds: Iterable[int], spec: RunSpec = USUAL, places: Sequence[Place] = (), build: str = "", path: str = ""
          ) -> Difference | None:
    """Return the first seed whose run differs between places, or None.

    `places`: two fresh processes under two hash seeds, unless given. `build`: "module:name" of a Build to use in place of the
    spec's. `path`: the folder of that module. Raises Broken."""
    places = places or [Place(sys.executable, hash_seed) for hash_seed in HASH_SEEDS]
    seeds = list(seeds)
    job = {"build": build, "runs": [(fields_of(spec.at(seed)), None) for seed in seeds]}
    first, *others = [ask(place, job, path) for place in places]
    for number, seed in enumerate(seeds):
        for place, other in zip(places[1:], others):
            if first[number] != other[number]:
                return Difference(seed, located({**job, "runs": [job["runs"][number]]}, places[0], place, path))
    return None


def located(job: dict[str, Any], one: Place, two: Place, path: str = "") -> str:
    """Run a seed again in two places, and describe the first choice and the first event that differ."""
    tapes, traces = zip(*(ask(place, {**job, "whole": True}, path)[0][-2:] for place in (one, two)))
    said = []
    at = first_difference(*tapes)
    if at is not None:
        said.append(f"choice {at}: {choice(tapes[0], at)} with {one.name}, {choice(tapes[1], at)} with {two.name}")
    at = first_difference(*traces)
    if at is not None:
        said.append(f"event {at}: {event(traces[0], at)} with {one.name}, {event(traces[1], at)} with {two.name}")
    return "; ".join(said) or "the run differed once, but not when repeated: it depends on more than the hash seed"


def first_difference(one: list, two: list) -> int | None:
    differing = (i for i, pair in enumerate(zip(one, two)) if pair[0] != pair[1])
    return next(differing, None if len(one) == len(two) else min(len(one), len(two)))


def choice(tape: Any, at: int) -> str:
    return "{}: {} of {}".format(*tape[at]) if at < len(tape) else "no more choices"


def event(lines: Any, at: int) -> str:
    return words(from_json(lines[at])).partition("\n")[0] if at < len(lines) else "no more events"


def replays(outcome: Outcome, run: Run) -> bool:
    """Tell whether a fresh process that replays the run's tape strictly gives the same result. Raises Broken."""
    job = {"build": "", "runs": [(fields_of(run), outcome.tape)]}
    return ask(Place(sys.executable, HASH_SEEDS[0]), job) == [summary(outcome)]


def newer_python() -> Place | str:
    """Find the newest other Python that runs here. Returns the reason if there is none."""
    own, unusable = sys.version_info.minor, []
    for minor in sorted({*range(11, own + 6)} - {own}, reverse=True):
        found = shutil.which(f"python3.{minor}")
        if found:
            tell = [found, "-c", "import sys; print(sys.executable, '.'.join(map(str, sys.version_info[:3])), sep='\\n')"]
            said = subprocess.run(tell, capture_output=True, text=True, check=False)
            if said.returncode == 0:
                return Place(said.stdout.split("\n")[0], HASH_SEEDS[0], said.stdout.split("\n")[1])
            unusable.append(f"python3.{minor}")
    return f"no other Python 3.11 or newer runs here ({', '.join(unusable)} on PATH do not start)" if unusable else \
        "no other Python 3.11 or newer is on PATH"


def ask(place: Place, job: dict[str, Any], path: str = "") -> list:
    """Run a job in a fresh process, and return its answer. No file in the working folder takes the place of a module. Raises
    Broken."""
    environment = {"PYTHONHASHSEED": str(place.hash_seed), "PYTHONPATH": ":".join(filter(None, [str(PLACE), path])),
                   "PYTHONDONTWRITEBYTECODE": "1", **project.environment()}
    try:
        done = subprocess.run([place.python, "-P", "-m", "highwater.dst.determinism.doctor"], input=json.dumps(job),
                              capture_output=True, text=True, env=environment, timeout=LONGEST_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Broken(f"{place.name}: {error}") from None
    try:
        if done.returncode == 0:
            return json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        pass
    last = done.stderr.strip().rpartition("\n")[2]
    raise Broken(f"{place.name}: exit {done.returncode}: {last}")


# --- the other process


def answer(job: dict[str, Any]) -> list[list]:
    build = build_named(job["build"]) if job["build"] else None
    return [ran(run_of(fields), build, tape, job.get("whole", False)) for fields, tape in job["runs"]]


def ran(run: Run, build: Build | None, tape: list[list] | None, whole: bool) -> list:
    """Run once, and return the result in the form that JSON gives: with lists, not tuples."""
    try:
        outcome = simulate(run, build, None if tape is None else [(site, choice, bound) for site, choice, bound in tape])
    except TapeMismatch as error:  # raised before the run began
        return ["nondeterminism", str(error), "", ""]
    return [*summary(outcome), outcome.tape, list(map(to_json, outcome.events))] if whole else summary(outcome)


def build_named(text: str) -> Build:
    module, _, name = text.partition(":")
    return getattr(import_module(module), name)


def summary(outcome: Outcome) -> list:
    return [outcome.kind, outcome.signature, outcome.digest, tape_hash(outcome.tape)]


if __name__ == "__main__":
    found = json.dumps(answer(json.load(sys.stdin)))
    print(f"\n{found}")  # a line of its own: what runs print stands before it
