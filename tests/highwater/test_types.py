"""The type checker passes: basedpyright, as [tool.basedpyright] in pyproject.toml sets it. `make lint` runs the same."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_type_checker_passes():
    checker = Path(sys.executable).parent / "basedpyright"
    assert checker.exists(), "basedpyright is not installed: run `make setup`"
    done = subprocess.run([checker, "--pythonpath", sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
