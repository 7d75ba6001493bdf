"""Judge mutants: the simulation runs each in a process of its own until a run fails, or the budget is used up.

Safety: a mutant counts as killed only because of its change. The unchanged code must pass the first runs of every scenario
before any mutant is judged, and each later run that kills one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.dst.version import code_version
from highwater.mutate import wanted
from highwater.mutate.operators import Mutant
from highwater.mutate.reached import Lines

RECORDED = 300  # seeds of each scenario that show which lines it executes
FEW = 40  # seeds of each scenario that are tried before many of any
HANG_S = 60  # for the few, and for each 1,000 of the many


class Verdict(NamedTuple):
    mutant: Mutant
    killed: str  # "simulation", "tests", "simulation in tests"; "" for one that survived
    how: str  # the signature of the failure, or the test that failed
    where: str  # the scenario
    seed: int  # the first that failed; -1 where there is none
    reached: tuple[str, ...]  # the scenarios that execute its lines
    reason: str = ""  # why it is listed as equivalent; "" if it is not


Tasks = list[tuple[str, int, int]]
Found = tuple[str, int, str] | None  # scenario, seed, signature


def scenarios_of(mutant: Mutant, reached: dict[str, Lines]) -> tuple[str, ...]:
    """Return the scenarios that execute a line of the mutant, those first that do in the most runs. A mutant outside of
    functions is executed by all that execute a line of its file."""
    def is_of(line: int) -> bool:
        return not mutant.function or mutant.first <= line <= mutant.last or line == mutant.head

    hits = {scenario: max((count for line, count in lines.get(mutant.file, {}).items() if is_of(int(line))), default=0)
            for scenario, lines in reached.items()}
    return tuple(sorted((scenario for scenario, count in hits.items() if count), key=lambda name: (-hits[name], name)))


def judged(mutants: Iterable[Mutant], reached: dict[str, Lines], budget: int, jobs: int,
           show: Callable[[str], None] = lambda name: None) -> Iterator[Verdict]:
    """Judge mutants by simulation, `jobs` at a time, in their order. `budget`: seeds for each, over all its scenarios. `show`
    is called with the name of each as it begins. Raises RuntimeError if the code fails without them."""
    def one(mutant: Mutant) -> Verdict:
        show(mutant.name)
        scenarios = scenarios_of(mutant, reached)
        found = killed_by(mutant, scenarios, budget) if scenarios else None
        scenario, seed, how = found or ("", -1, "")
        return Verdict(mutant, "simulation" if found else "", how, scenario, seed, scenarios)

    if failure := tried([(scenario, 0, FEW) for scenario in sorted(reached)], HANG_S * (1 + len(reached))):
        raise fails_by_itself(failure)
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(one, mutants)
        finally:
            pool.shutdown(cancel_futures=True)  # what has not begun does not begin after Ctrl-C


def fails_by_itself(failure: tuple[str, int, str]) -> RuntimeError:
    where = f"{failure[0]}, seed {failure[1]}: " if failure[1] >= 0 else ""
    return RuntimeError(f"the code fails without any mutant: {where}{failure[2]}")


def killed_by(mutant: Mutant, scenarios: tuple[str, ...], budget: int) -> Found:
    """Return the first failure of a mutant. Raises RuntimeError if the code fails there without it."""
    few: Tasks = [(scenario, 0, min(FEW, budget)) for scenario in scenarios]
    many: Tasks = [(scenario, FEW, max(budget // len(scenarios), FEW)) for scenario in scenarios]
    if found := tried(few, HANG_S, mutant):
        return found
    limit_s = HANG_S * (1 + budget // 1000)
    found = tried(many, limit_s, mutant)
    if found and (failure := tried([(found[0], found[1], found[1] + 1)] if found[1] >= 0 else many, limit_s)):
        raise fails_by_itself(failure)
    return found


def tried(tasks: Tasks, limit_s: float, mutant: Mutant | None = None) -> Found:
    """Run seeds, with a mutant or on the code as it is. Return the first failure: scenario, seed, signature."""
    file, source = (str(wanted.root() / mutant.file), mutant.source) if mutant else ("", "")
    what = {"tasks": tasks, "file": file, "source": source}
    command = [sys.executable, "-P", "-m", "highwater.mutate.trial"]
    try:
        ended = subprocess.run(command, input=json.dumps(what), capture_output=True, text=True, timeout=limit_s, env=paths())
    except subprocess.TimeoutExpired:
        return "", -1, f"hangs: no end after {limit_s:.0f} s"
    try:
        found = json.loads(ended.stdout)
    except ValueError:
        said = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
        return "", -1, f"its process ended with {ended.returncode}: {said}"
    return (found[0], found[1], found[2]) if found else None


def paths() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(project.PACKAGE.parent)}


def reached_by(scenarios: Iterable[str], seeds: int, files: Iterable[str], root: Path, kept: Path,
               jobs: int, show: Callable[[str], None] = lambda name: None) -> dict[str, Lines]:
    """Return which lines of the files (named from `root`) the seeds of each scenario execute. It is read from the folder `kept`
    if it is there. `show` is called with the name of each scenario as it begins."""
    names, scenarios = sorted(files), sorted(scenarios)
    of = blake2b(json.dumps([code_version(), seeds, names, scenarios]).encode(), digest_size=8).hexdigest()
    path = kept / f"reached-{of}.json"
    if path.exists():
        return json.loads(path.read_text())

    def one(scenario: str) -> Lines:
        show(scenario)
        command = [sys.executable, "-P", "-m", "highwater.mutate.reached", scenario, str(seeds), *names]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=root, env=paths())
        try:
            if ended.returncode == 0:
                return json.loads(ended.stdout)
        except ValueError:
            pass
        said = (ended.stderr.strip() or "it said nothing").splitlines()[-1]
        raise RuntimeError(f"{scenario}: its process ended with {ended.returncode}: {said}")

    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(scenarios, pool.map(one, scenarios)))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(found))
    new.replace(path)  # another process may read it meanwhile
    return found
