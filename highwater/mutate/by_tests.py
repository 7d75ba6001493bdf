"""Judge the mutants that the simulation leaves: run the tests that execute the changed lines, until one fails.

Which tests those are is recorded by running all of them, and kept for this code and these tests. In a test that simulates, the
failure may be the simulation's: such a test comes last, and is told apart.

Safety: a test that fails kills a mutant only if it passes in the same copy without it. Tests have many times as long as they
took when they were recorded.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from highwater import project
from highwater.dst.version import code_version
from highwater.mutate.operators import Mutant

LIMIT_S = 120  # of a mutant's tests, beside ten times what they took
LEFT_OUT = (".git", ".venv", ".cache", "out", "__pycache__", "*.egg-info")


class Reached(NamedTuple):
    test: str  # as pytest names it
    simulates: bool
    seconds: float
    lines: dict[str, frozenset[int]]


class Killed(NamedTuple):
    test: str
    simulates: bool


def recorded(root: Path, files: Sequence[str], kept: Path, folders: Sequence[str] = ()) -> list[Reached]:
    """Return what each test below `root` that passes executes of these files: what the folder `kept` has of it, else the tests
    run, of these files or folders only if any are named. Raises RuntimeError if none executes them, or if pytest breaks off."""
    of = blake2b(json.dumps([code_version(), sorted(files), *sorted(folders)]).encode(), digest_size=8)
    for test in sorted(path for path in root.rglob("*.py") if is_of_tests(path.relative_to(root))):
        of.update(f"{test.relative_to(root)}\n".encode() + test.read_bytes())
    of.update(Path(__file__).with_name("tests_reached.py").read_bytes())  # what is recorded
    path = kept / f"tests-{of.hexdigest()}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        environment = {"HIGHWATER_RECORD": str(new), "HIGHWATER_RECORDED": os.pathsep.join(files),
                       "HIGHWATER_RECORD_ALL": "1" if folders else ""}
        command = ["-p", "highwater.mutate.tests_reached", "-p", "no:cacheprovider"]
        ended = tested(root, [*command, *folders], environment, None)
        if ended.returncode not in (0, 1):  # all passed, or some failed
            raise RuntimeError(f"pytest broke off with {ended.returncode}: {last_line(ended)}")
        if not new.exists():
            raise RuntimeError(f"no test executes any of {len(files)} files: {last_line(ended)}")
        new.rename(path)
    return [Reached(entry["test"], entry["simulates"], entry["seconds"],
                    {file: frozenset(lines) for file, lines in entry["lines"].items()})
            for entry in map(json.loads, path.read_text().splitlines())]


def is_of_tests(path: Path) -> bool:
    """Return whether a test may read this file, which is named from the root: it is a test, or beside tests."""
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and ("tests" in path.parts[:-1] or path.name.startswith(("test_", "conftest")))


def tests_of(mutant: Mutant, tests: Sequence[Reached]) -> list[Reached]:
    """Return the tests that execute a line of the mutant: those without a simulation first, and of these the most specific.
    What runs when the file is imported, such as the default of a field, is for all recorded tests: with named folders these are
    all of their tests."""
    lines = range(mutant.first, mutant.last + 1)
    found = [test for test in tests if not (mutant.function and test.lines.get(mutant.file, frozenset()).isdisjoint(lines))]
    return sorted(found, key=lambda test: (test.simulates, mutant.file not in test.lines, sum(map(len, test.lines.values())),
                                           test.test))


def all_killed(root: Path, mutants: Sequence[Mutant], tests: Sequence[Reached], jobs: int,
               show: Callable[[str], None] = lambda name: None) -> Iterator[Killed | None]:
    """Run the tests that execute each mutant, of `jobs` mutants at a time. Yield what killed each, in their order. `show` is
    called with the name of each as it begins."""
    def one(mutant: Mutant) -> Killed | None:
        show(mutant.name)
        return killed(root, mutant, tests_of(mutant, tests))

    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(one, mutants)
        finally:
            pool.shutdown(cancel_futures=True)


def killed(root: Path, mutant: Mutant, tests: Sequence[Reached]) -> Killed | None:
    """Run tests on a copy of `root` in which this mutant is. Return the first that fails, and passes without it; else None."""
    if not tests:
        return None
    with TemporaryDirectory(prefix="highwater-mutate-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if (root / ".cache").exists():
            (copy / ".cache").symlink_to(root / ".cache")
        original = (copy / mutant.file).read_text()
        for simulates in (False, True):
            group = [test for test in tests if test.simulates == simulates]
            while group:
                (copy / mutant.file).write_text(mutant.source)
                if not (failed := first_failing(copy, group)):
                    break
                (copy / mutant.file).write_text(original)
                blamed = [test for test in group if test.test == failed] or group
                if not first_failing(copy, blamed):
                    return Killed(failed, simulates)
                group = [test for test in group if test not in blamed]
    return None


def first_failing(copy: Path, tests: Sequence[Reached]) -> str:
    """Run tests until one fails. Return its name, or what pytest said last; "" if all pass."""
    (copy / "wanted").write_text("\n".join(test.test for test in tests))
    limit_s = LIMIT_S + 10 * sum(test.seconds for test in tests)
    try:
        ended = tested(copy, ["-x", "-p", "no:cacheprovider", "--tb=no", "-rfE", "@wanted"], {}, limit_s)
    except subprocess.TimeoutExpired:
        return f"no end after {limit_s:.0f} s"
    named = [line.split(" ", 1)[1].partition(" - ")[0] for line in ended.stdout.splitlines()
             if line.startswith(("FAILED ", "ERROR "))]
    return (named or [last_line(ended)])[0] if ended.returncode else ""


def tested(folder: Path, arguments: list[str], environment: dict[str, str],
           limit_s: float | None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), str(project.PACKAGE.parent)))  # a copy of this repository has a package of its own
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], cwd=folder, timeout=limit_s, capture_output=True,
                          text=True, env=os.environ | environment | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})


def last_line(ended: subprocess.CompletedProcess[str]) -> str:
    return ((ended.stdout.strip() or ended.stderr.strip() or "pytest said nothing").splitlines())[-1]
