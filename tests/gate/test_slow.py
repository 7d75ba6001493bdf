"""Tests of the list of tests that `make test` leaves out: each is there, and each of ROWS asks what rows of the gate ask."""

from pathlib import Path

import pytest

from highwater.gate.checks import of_protocol
from highwater.gate.sizes import GATE
from tests.support.slow import OTHERS, ROWS

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = ("sequenced_metadata_boundary", "sequenced_write")


@pytest.fixture(scope="module")
def rows():
    return [(check.part, check.what) for protocol in PROTOCOLS for check in of_protocol(protocol, GATE, True)]


@pytest.mark.parametrize("test", [*ROWS, *OTHERS])
def test_it_is_there(test):
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(), "the test has another name now"


@pytest.mark.parametrize("row", set(ROWS.values()))
def test_the_gate_asks_it_too(row, rows):
    assert [what for part, what in rows if part == row[0] and what.startswith(row[1])]


def test_a_command_runs_them():
    makefile = (ROOT / "Makefile").read_text()
    assert "pytest -m slow" in makefile.partition("\nslow:")[2].partition("\n\n")[0]
