"""The rows of the deeper gate that run real processes for minutes: they pass and fail with their test."""

import pytest

from highwater.gate import soak
from highwater.gate.exits import INCOMPLETE, SAFETY
from highwater.gate.protocols import metadata_fsm, raft

CASES = """
def test_passes():
    print("seed 7: 3 faults, 5 calls")

def test_skips():
    import pytest
    pytest.skip("no server here")

def test_fails():
    assert not "an acknowledged entry is lost"
"""


def test_a_row_passes_and_fails_with_its_test(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "root", lambda: tmp_path)
    (tmp_path / "test_it.py").write_text(CASES)
    assert soak.held("test_it.py::test_passes", "") == ("seed 7: 3 faults, 5 calls", 0, "", "")
    failed = soak.held("test_it.py::test_fails", "")
    assert failed.code == SAFETY and "an acknowledged entry is lost" in failed.message
    skipped = soak.held("test_it.py::test_skips", "")
    assert skipped.code == INCOMPLETE and "1 skipped" in skipped.message
    assert soak.held("nowhere.py::test_it", "").code == INCOMPLETE


def test_another_code_is_another_row(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "root", lambda: tmp_path)
    (tmp_path / "part").mkdir()
    names = set()
    for text in ("", "x = 1\n", "x = 2\n"):
        (tmp_path / "part" / "code.py").write_text(text)
        names |= {check.arguments for check in soak.checks("raft", "what", "test_it.py::test_it", ("part",))}
    assert len(names) == 3


@pytest.mark.parametrize("rows", (raft, metadata_fsm))
def test_only_the_deeper_gate_has_the_ten_minutes(rows):
    assert [check.part for check in rows.deep_checks()] == ["processes"] and all(
        check.part != "processes" for check in rows.checks())
    path, _, test = rows.TEN_MINUTES.partition("::")
    assert f"def {test}(" in (soak.root() / path).read_text() and all((soak.root() / folder).is_dir() for folder in rows.RUN_BY)
