"""Statements of an implementation that no simulated run executes are found, and the list of reasons is held to the truth."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app
from highwater.dst.scenarios import named
from highwater.gate.exits import BAD_INPUT, HARNESS
from highwater.mutate import coverage
from highwater.mutate.coverage import Recorder, Unreached, listed, measured
from highwater.mutate.units import units_of

FILE = "impl/protocols/simple_conditional.py"
FILES = {FILE: project.PACKAGE / FILE}

SOURCE = '''"""Nothing at import is a unit."""
from functools import cache

LIMIT = 3


class Store:
    """Nor the body of a class."""

    name = "store"

    def absent(self):
        """Nor a body that does nothing."""
        ...

    @cache
    def put(
            self, key):
        if key:
            return call(
                key,
                lambda value: value + 1)
        try:
            total = sum(each for each in [one for one in key])
        except ValueError:
            raise
        return total


def call(key, change): return change(key)
'''


def test_units_are_the_statements_of_functions(tmp_path):
    path = tmp_path / "store.py"
    path.write_text(SOURCE)
    found = sorted({unit for lines in units_of("s.py", path).values() for unit in lines.values()}, key=lambda unit: unit[1:3])
    assert [(unit.function, unit.line, unit.text) for unit in found] == [
        ("Store.put", 19, "if key:"), ("Store.put", 20, "return call("), ("Store.put", 23, "try:"),
        ("Store.put", 24, "total = sum(each for each in [one for one in key])"), ("Store.put", 25, "except ValueError:"),
        ("Store.put", 26, "raise"), ("Store.put", 27, "return total"),
        ("Store.put.<genexpr>", 24, "total = sum(each for each in [one for one in key])"),
        ("Store.put.<lambda>", 22, "lambda value: value + 1)"), ("call", 30, "def call(key, change): return change(key)")]


def test_what_is_executed_is_recorded(tmp_path):
    path = tmp_path / "store.py"
    path.write_text(SOURCE)
    names: dict = {}
    exec(compile(SOURCE, str(path), "exec"), names)
    recorder = Recorder({"s.py": path})
    recorder.start()
    names["Store"].put(names["Store"], "")
    recorder.stop()
    assert {unit.line for unit in recorder.left} == {20, 22, 25, 26, 30}
    recorder.start()
    with pytest.raises(TypeError):
        names["Store"]().put("key")
    recorder.stop()
    assert {unit.line for unit in recorder.left} == {25, 26}


@pytest.fixture
def without_scripts(monkeypatch):
    """Let scenarios have drawn runs alone: these leave statements that no run executes."""
    monkeypatch.setattr("highwater.dst.simulate.named", lambda stem: named(stem)._replace(scripts=()))


def test_a_run_executes_what_its_clients_call_and_the_list_is_held_to_it(without_scripts):
    entries = [Unreached(FILE, "SimpleConditional.update", "doubt, left = False, attempts", "is wrong"),
               Unreached(FILE, "SimpleConditional.update", "no such line", "is old"),
               Unreached("impl/protocols/baseline.py", "Baseline.write", "not asked for", "is not judged")]
    found = measured(FILES, ["simple_conditional"], 20, 20, entries)
    assert found.stale == entries[:2] and found.unlisted == found.left and 0 < found.share() < 100 and found.runs == 20
    entries = [Unreached(unit.file, unit.function, unit.text, "it is so") for unit in found.left]
    more = measured(FILES, ["baseline", "simple_conditional"], 20, 400, entries[1:])
    assert more.unlisted == found.left[:1] and more.runs == 20 + 400, "a scenario goes on only if it executes the file"
    assert measured(FILES, ["simple_conditional"], 20, 400, entries).runs == 20


def test_the_command_tells_what_is_not_listed(tmp_path, without_scripts):
    ran = CliRunner().invoke(app, ["dst", "coverage", "--file", str(FILES[FILE]), "--seeds", "5", "--json",
                                   str(tmp_path / "found.json"), "--functions"])
    assert ran.exit_code == HARNESS and "NOT LISTED" in ran.output and "not listed with a reason" in ran.output
    said = json.loads((tmp_path / "found.json").read_text())
    assert said["statements"] == len(said["units"]) and said["unlisted"] and said["runs"] == 5 * len(coverage_scenarios())
    ran = CliRunner().invoke(app, ["dst", "coverage", "--protocol", "nothing"])
    assert ran.exit_code == BAD_INPUT


def coverage_scenarios() -> tuple[str, ...]:
    from highwater.dst.scenarios import stems

    return stems()


def test_the_list_has_its_fields(tmp_path, monkeypatch):
    assert len(set(listed())) == len(listed()) and all(Path(project.PACKAGE / entry.file).is_file() for entry in listed())
    path = tmp_path / "unreached.toml"
    path.write_text('[[unreached]]\nfile = "a.py"\n')
    monkeypatch.setattr(coverage, "OURS", path)
    with pytest.raises(ValueError, match=r"\[\[unreached\]\] has the fields file, function, line, reason"):
        listed()
