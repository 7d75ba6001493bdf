"""Define checks that let real processes work under faults: a slow test of tests/ for minutes, or a command of ours.

Safety: the verdict is kept only for the same tests or words, and the same code of the processes. The processes start Python
anew, so their files are hashed here.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from highwater import project
from highwater.gate.exits import HARNESS, INCOMPLETE, MEANING, SAFETY
from highwater.gate.kept import digest
from highwater.gate.rows import Check, Found

LIMIT_S = 3_600
COUNTED = re.compile(r"^(seed \d+: .*)$", re.MULTILINE)  # what the test prints


def root() -> Path:
    return (project.PACKAGE / "impl").resolve().parent


def of_command(protocol: str, what: str, words: tuple[str, ...], folders: tuple[str, ...], weight: float,
               tools: tuple[str, ...]) -> Iterator[Check]:
    """Yield the check that a command of ours ends well. `folders`: what it and its processes are made of."""
    yield Check(protocol, "story", what, ended, (list(words), of_folders(folders)), tools, weight)


def ended(words: list[str], of: str) -> Found:
    """Run a command of ours. What it prints last are its amounts, which differ from run to run."""
    path = os.pathsep.join((str(root()), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run([sys.executable, "-m", "highwater", *words], capture_output=True, text=True, timeout=LIMIT_S,
                         env=os.environ | {"PYTHONPATH": path})
    code = ran.returncode if ran.returncode in MEANING else HARNESS
    amounts = (ran.stdout.strip().splitlines() or [""])[-1]
    return Found(" ".join(words), code, (ran.stderr.strip() or amounts)[-2000:] if code else "", amounts)


def checks(protocol: str, what: str, test: str, folders: tuple[str, ...], part: str = "processes", weight: float = 650
           ) -> Iterator[Check]:
    """Yield the check that a test passes. `folders`: what it and its processes are made of."""
    yield Check(protocol, part, what, held, (test, of_folders(folders)), ("checkout", "pytest"), weight)


def of_folders(folders: Iterable[str]) -> str:
    """Return a hash of the code in some folders."""
    return digest(*sorted(str(path) for folder in folders for path in (root() / folder).rglob("*.py")))


def held(test: str, of: str) -> Found:
    """Run a test, and return its figures."""
    path = os.pathsep.join((str(root()), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rP", "-m", "", "-p", "no:cacheprovider", test], cwd=root(),
                         capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | {"PYTHONPATH": path})
    if ran.returncode:
        return Found("", SAFETY, f"{test} failed: {ran.stdout[-2000:]}{ran.stderr[-500:]}")
    figures = COUNTED.search(ran.stdout)
    return Found(figures[1]) if figures else Found("", INCOMPLETE, f"{test} did not run to its figures: {ran.stdout[-500:]}")
