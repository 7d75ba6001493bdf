"""The example's spec and its model have equal state graphs, as FizzBee computes them."""

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing

ROOT = Path(__file__).resolve().parents[2]
ROWS = ("lease_plain", "lease_no_token")  # the gate of the example runs all of them


def test_the_lease_is_what_fizzbee_says():
    try:
        Fizz.find()
    except FizzMissing as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "highwater", "model", "conform", "--project", "examples/lease", *ROWS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines() if "edges equal" in line] == list(ROWS), result.stdout
