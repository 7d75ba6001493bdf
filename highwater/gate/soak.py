"""Define a check of `verify-deep` that lets real processes work under faults for minutes: a slow test of tests/.

Safety: the verdict is kept only for the same tests and the same code of the processes. The processes start Python anew, so
their files are hashed here.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from highwater import project
from highwater.gate.exits import INCOMPLETE, SAFETY
from highwater.gate.kept import digest
from highwater.gate.rows import Check, Found

LIMIT_S = 3_600
COUNTED = re.compile(r"^(seed \d+: .*)$", re.MULTILINE)  # what the test prints


def root() -> Path:
    return (project.PACKAGE / "impl").resolve().parent


def checks(protocol: str, what: str, test: str, folders: tuple[str, ...]) -> Iterator[Check]:
    """Yield the check that a test passes. `folders`: what it and its processes are made of."""
    files = sorted(str(path) for folder in folders for path in (root() / folder).rglob("*.py"))
    yield Check(protocol, "processes", what, held, (test, digest(*files)), weight=650)


def held(test: str, of: str) -> Found:
    """Run a test, and return its figures."""
    if not (root() / test.partition("::")[0]).is_file():
        return Found("", INCOMPLETE, "the tests are not installed: run this in a checkout")
    path = os.pathsep.join((str(root()), os.environ.get("PYTHONPATH", "")))
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rP", "-m", "", "-p", "no:cacheprovider", test], cwd=root(),
                         capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | {"PYTHONPATH": path})
    if ran.returncode:
        return Found("", SAFETY, f"{test} failed: {ran.stdout[-2000:]}{ran.stderr[-500:]}")
    figures = COUNTED.search(ran.stdout)
    return Found(figures[1]) if figures else Found("", INCOMPLETE, f"{test} did not run to its figures: {ran.stdout[-500:]}")
