"""The rows of the gates that run real processes: they pass and fail with their test, or with their command."""

import pytest

from highwater.gate import soak
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from highwater.gate.protocols import dlq_recovery, metadata_fsm, raft
from highwater.gate.rows import timed

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


def test_rows_of_tests_are_skipped_without_a_checkout(tmp_path, monkeypatch):
    [check] = soak.checks("raft", "what", "test_it.py::test_it", ())
    monkeypatch.setattr(soak, "root", lambda: tmp_path)
    row = timed(check)
    assert (row.code, row.message) == (INCOMPLETE, "the tests are not installed: run this in a checkout")


def test_another_code_is_another_row(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "root", lambda: tmp_path)
    (tmp_path / "part").mkdir()
    names = set()
    for text in ("", "x = 1\n", "x = 2\n"):
        (tmp_path / "part" / "code.py").write_text(text)
        names |= {check.arguments for check in soak.checks("raft", "what", "test_it.py::test_it", ("part",))}
    assert len(names) == 3


def test_a_row_of_a_command_ends_as_the_command_does(tmp_path):
    refused = soak.ended(["index", "check", str(tmp_path)], "")
    assert refused.code == BAD_INPUT and "is no folder of a node" in refused.message and not refused.figure.startswith("error")
    nowhere = soak.ended(["index", "story", "--seconds", "1", "--endpoint", "http://127.0.0.1:1", "--out", str(tmp_path)], "")
    assert nowhere.code == INCOMPLETE and "no bucket can be made" in nowhere.message
    assert soak.ended(["index", "--help"], "")[:3] == ("index --help", 0, "")


def test_the_story_of_an_index_is_told_in_each_gate_and_for_ten_minutes_on_spark_in_the_deeper_one():
    (short,), (long,) = dlq_recovery.checks(), dlq_recovery.deep_checks()
    assert short.part == long.part == "story" and short.arguments[1] != long.arguments[1]
    assert short.arguments[0][:4] == ["index", "story", "--seconds", "30"]
    assert long.arguments[0][:4] == ["index", "story", "--seconds", "600"] and long.arguments[0][-2:] == ["--engine", "spark"]
    assert all((soak.root() / folder).is_dir() for folder in dlq_recovery.ON_SPARK)


@pytest.mark.parametrize(("rows", "tests"), [
    (raft, {"processes": raft.TEN_MINUTES, "hostile": raft.HOSTILE, "fuzz": raft.FUZZ}),
    (metadata_fsm, {"bytes": metadata_fsm.BYTES, "processes": metadata_fsm.TEN_MINUTES, "hostile": metadata_fsm.HOSTILE})])
def test_only_the_deeper_gate_has_these_tests(rows, tests):
    assert {check.part: check.arguments[0] for check in rows.deep_checks()} == tests
    assert all(check.part not in tests for check in rows.checks())
    for path, _, test in (one.partition("::") for one in tests.values()):
        assert f"def {test}(" in (soak.root() / path).read_text()
    assert all((soak.root() / folder).is_dir() for folder in rows.RUN_BY)
