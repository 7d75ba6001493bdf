"""Tests of the list of tests that `make test` leaves out: each is there, asks what rows of the gate ask, and runs in CI."""

from pathlib import Path

import pytest

from highwater.gate.checks import of_protocol
from highwater.gate.sizes import GATE
from tests.support.repeated import ROWS

ROOT = Path(__file__).resolve().parents[2]
PROTOCOLS = ("sequenced_metadata_boundary", "sequenced_write")


@pytest.fixture(scope="module")
def rows():
    return [(check.part, check.what) for protocol in PROTOCOLS for check in of_protocol(protocol, GATE, True)]


@pytest.mark.parametrize("test, row", ROWS.items())
def test_the_gate_asks_it_too(test, row, rows):
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(), "the test has another name now"
    assert [what for part, what in rows if part == row[0] and what.startswith(row[1])]


def test_ci_runs_them():
    assert "make repeated\n" in (ROOT / ".ci" / "run").read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert "pytest -m repeated" in makefile.partition("\nrepeated:")[2].partition("\n\n")[0]
