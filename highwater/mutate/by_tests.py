"""Judge the mutants that the simulation leaves: run the tests that execute the changed lines, until one fails.

Which tests those are is recorded once, by running all of them, and kept for this code. In a test that simulates, the failure
may be the simulation's: such a test comes last, and is told apart.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from highwater.dst.version import code_version
from highwater.mutate.operators import Mutant

LIMIT_S = 300  # of the tests of one mutant
LEFT_OUT = (".git", ".venv", ".cache", "out", "__pycache__", "*.egg-info")


class Reached(NamedTuple):
    test: str  # as pytest names it
    simulates: bool
    lines: dict[str, frozenset[int]]


class Killed(NamedTuple):
    test: str
    simulates: bool


def recorded(root: Path, files: Sequence[str], kept: Path) -> list[Reached]:
    """Return what each test below `root` executes of these files: what the folder `kept` has of it, else all tests run. Raises
    RuntimeError if none executes them."""
    path = kept / f"tests-{code_version()}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        environment = {"HIGHWATER_RECORD": str(new), "HIGHWATER_RECORDED": os.pathsep.join(files)}
        command = ["-p", "highwater.mutate.tests_reached", "-p", "no:cacheprovider"]
        ended = tested(root, command, environment, None)
        if not new.exists():
            raise RuntimeError(f"no test executes any of {len(files)} files: {last_line(ended)}")
        new.rename(path)
    return [Reached(entry["test"], entry["simulates"], {file: frozenset(lines) for file, lines in entry["lines"].items()})
            for entry in map(json.loads, path.read_text().splitlines())]


def tests_of(mutant: Mutant, tests: Sequence[Reached]) -> list[Reached]:
    """Return the tests that execute a line of the mutant: those without a simulation first, and of these the most specific."""
    lines = range(mutant.first, mutant.last + 1)
    found = [test for test in tests if not test.lines.get(mutant.file, frozenset()).isdisjoint(lines)]
    return sorted(found, key=lambda test: (test.simulates, sum(map(len, test.lines.values())), test.test))


def killed(root: Path, mutant: Mutant, tests: Sequence[Reached]) -> Killed | None:
    """Run tests on a copy of `root` in which this mutant is. Return the first that fails; None if all pass."""
    with TemporaryDirectory(prefix="highwater-mutate-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if (root / ".cache").exists():
            (copy / ".cache").symlink_to(root / ".cache")
        (copy / mutant.file).write_text(mutant.source)
        for group in ([test for test in tests if not test.simulates], [test for test in tests if test.simulates]):
            if not group:
                continue
            (copy / "wanted").write_text("\n".join(test.test for test in group))
            try:
                ended = tested(copy, ["-x", "-p", "no:cacheprovider", "--tb=no", "-rfE", "@wanted"], {}, LIMIT_S)
            except subprocess.TimeoutExpired:
                return Killed(f"no end after {LIMIT_S} s", group[0].simulates)
            if ended.returncode:
                named = [line.split(" ", 1)[1].partition(" - ")[0] for line in ended.stdout.splitlines()
                         if line.startswith(("FAILED ", "ERROR "))]
                return Killed((named or [last_line(ended)])[0], group[0].simulates)
    return None


def tested(folder: Path, arguments: list[str], environment: dict[str, str],
           limit_s: float | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], cwd=folder, timeout=limit_s, capture_output=True,
                          text=True, env=os.environ | environment | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})


def last_line(ended: subprocess.CompletedProcess[str]) -> str:
    return ((ended.stdout.strip() or ended.stderr.strip() or "pytest said nothing").splitlines())[-1]
