"""The lint finds each hazard and passes similar harmless code; every exception names existing code and a reason."""

import ast
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.dst.lint import lint_command
from highwater.dst.determinism import lint as linter
from highwater.dst.determinism.lint import HAZARDS, Linter, lint
from highwater.dst.determinism.lint_allowed import ALLOWED, Allowed
from highwater.dst.determinism.lint_sets import Sets, Whole
from highwater.gate.exits import NONDETERMINISM

CASES = [  # hazard, source in which it is found, neighbour in which nothing is
    ("set order", "for x in {1, 2}: print(x)", "for x in sorted({1, 2}): print(x)"),
    ("set order", "def f(s: set[int]): return list(s)", "def f(s: list[int]): return list(s)"),
    ("set order", "def f(s: frozenset[str] | None): return ','.join(s)",
     "def f(s: frozenset[str]): return ','.join(sorted(s))"),
    ("set order", "def f():\n  s = set(); t = s; print(t.pop())", "def f():\n  s = {}; print(s.pop(1))"),
    ("set order", "a = {1} | b\nfor x in a: print(x)", "a = {1} | b\nprint(len(a), 3 in a, max(a))"),
    ("set order", "def f(a: set): return [x for x in a - {1}]", "def f(a: set): return sorted([x for x in a - {1}])"),
    ("set order", "def f(a: set): return {x: 1 for x in a}", "def f(a: set): return {x for x in a}"),
    ("set order", "def f(a: set): return (*a, 1)", "def f(a: set): return {*a, 1}"),
    ("set order", "for x in dict.fromkeys({1}): print(x)", "for x in dict.fromkeys([1]): print(x)"),
    ("set order", "class A:\n  s: set[int]\n  def f(self): return tuple(self.s)",
     "class A:\n  s: list[int]\n  def f(self): return tuple(self.s)"),
    ("set order", "def f() -> set[str]: ...\nfor x in f(): print(x)", "def f() -> list[str]: ...\nfor x in f(): print(x)"),
    ("set order", "def f(s: set): return f'{s}'", "def f(s: set): return f'{sorted(s)}'"),
    ("address", "x = id(y)", "x = y.id()"),
    ("hash", "x = hash(y)", "x = y.hash(z)"),
    ("randomness", "import random", "import randomness"),
    ("randomness", "from uuid import uuid4", "from highwater.impl.world import Ids"),
    ("randomness", "import secrets", "from highwater.dst.sim.choose import Chooser"),
    ("environment", "import os", "import os.path"),
    ("time", "import time", "def now_ms(clock): return clock.time()"),
    ("time", "from datetime import datetime", "from calendar import timegm"),
    ("concurrency", "import asyncio", "from types import coroutine"),
    ("concurrency", "from concurrent.futures import Executor", "from functools import partial"),
    ("environment", "import sys\nx = sys.argv", "import sys\nx = sys.maxsize"),
    ("directory order", "for p in root.iterdir(): print(p)", "for p in sorted(root.iterdir()): print(p)"),
    ("directory order", "x = [p for p in root.glob('*')]", "x = sorted(p for p in root.glob('*'))"),
    ("float time", "t_ms = a / 2", "t_ms = a // 2"),
    ("float time", "self.t_ms = 1.5 * a", "self.t_ms = int(1.5 * a)"),
    ("float time", "t_ms /= 2", "ratio = t_ms / 2"),
    ("finalizer", "class A:\n  def __del__(self): ...", "class A:\n  def close(self): ..."),
    ("finalizer", "import weakref", "import heapq"),
    ("address in text", "class A:\n  def f(self): return f'{self!r}'", "class A:\n  def f(self): return f'{self.name!r}'"),
    ("address in text", "import logging\nlogging.info('%r', x)", "import logging\nlogging.info('%s', x)"),
    ("cache", "KNOWN = {}", "NAMES = {'a': 1}"),
    ("cache", "from functools import lru_cache\n@lru_cache\ndef f(x): ...",
     "from functools import wraps\n@wraps\ndef f(x): ..."),
    ("cache", "class A:\n  f = staticmethod(lru_cache(9)(g))", "class A:\n  f = staticmethod(g)"),
    ("cache", "def f():\n  global n\n  n = 1", "def f():\n  n = 1"),
    ("frames", "try: f()\nexcept E as error: last = error", "try: f()\nexcept E as error: last = str(error)"),
    ("frames", "def g():\n  try: f()\n  except E as error: all.append(error)",
     "def g():\n  try: f()\n  except E as error: all.append(error); error.__traceback__ = None"),
]


def hazards(source: str) -> list[str]:
    tree = ast.parse(source)
    return [finding.hazard for finding in Linter("dst/x.py", tree, Sets(tree, Whole.of([tree]))).findings()]


@pytest.mark.parametrize("hazard, found, neighbour", CASES)
def test_hazard_is_found_and_its_neighbour_is_not(hazard, found, neighbour):
    assert set(hazards(found)) == {hazard} and hazards(neighbour) == []


def test_each_hazard_has_a_case():
    assert {hazard for hazard, _, _ in CASES} == HAZARDS.keys()


def test_the_tables_of_a_scenario_and_of_mutants_are_no_cache():
    assert hazards("SCENARIO = Scenario(stem='x', cost={}, optional=())") == hazards("MUTANTS = Mutants({}, {})") == []
    assert hazards("MUTANTS = Mutants({}, {})\nKNOWN = {}") == ["cache"]


def test_what_is_a_set_in_one_class_and_not_in_another_is_judged_in_its_own_file():
    one, other = ast.parse("class A:\n  s: set\ndef f(a): return list(a.s)"), ast.parse("class B:\n  s: tuple")
    assert Linter("x", one, Sets(one, Whole.of([one, other]))).findings()
    third = ast.parse("def f(a): return list(a.s)")
    assert Linter("x", third, Sets(third, Whole.of([one, third]))).findings()
    assert not Linter("x", third, Sets(third, Whole.of([one, other, third]))).findings()


def test_nothing_is_found_here_that_is_not_allowed():
    found, unused = lint()
    assert not found, "\n".join(map(str, found))
    assert not unused


def project(folder: Path, source: str) -> Path:
    for name in linter.FOLDERS:
        (folder / name).mkdir()
    (folder / "dst" / "a.py").write_text(source)
    (folder / "dst" / "campaign").mkdir()
    (folder / "dst" / "campaign" / "a.py").write_text("import time\n")  # outside the seam
    return folder


def test_an_entry_that_covers_nothing_is_an_error(tmp_path):
    root = project(tmp_path, "import time\n\nKNOWN = {}\n")
    entry = Allowed("dst/a.py", "cache", "KNOWN", "of values")
    found, unused = lint(root, [entry, entry._replace(hazard="address")])
    assert [(f.file, f.line, f.hazard) for f in found] == [("dst/a.py", 1, "time")]
    assert unused == [entry._replace(hazard="address")]
    assert str(found[0]) == "dst/a.py:1: time: import time\n    ask the world's clock"


def test_entries_have_reasons():
    assert all(entry.hazard in HAZARDS and entry.why for entry in ALLOWED) and len(set(ALLOWED)) == len(ALLOWED)


def test_progress_names_each_file_and_goes_to_stderr(monkeypatch, tmp_path, capsys):
    from highwater.cli import console

    monkeypatch.setattr(console, "LINE_EVERY_S", 0)
    root = project(tmp_path, "x = 1\n")
    with console.steps_shown("looking", len(linter.sources(root))) as show:
        lint(root, (), show)
    output = capsys.readouterr()
    assert output.out == "" and output.err == "looking: 0 of 1 done, next dst/a.py\n"


def test_command_tells_and_fails(monkeypatch, tmp_path):
    import typer

    app = typer.Typer()
    app.command("lint")(lint_command)
    for name in ("clean", "sick"):
        (tmp_path / name).mkdir()
    clean, root = project(tmp_path / "clean", "x = 3\n"), project(tmp_path / "sick", "x = id(3)\n")
    monkeypatch.setattr(linter, "lint", lambda begin, **ours: lint(clean, (), begin))
    assert CliRunner().invoke(app, []).exit_code == 0
    monkeypatch.setattr(linter, "lint", lambda begin, **ours: lint(root, (ALLOWED[0], ALLOWED[-1]), begin))
    result = CliRunner().invoke(app, [])
    assert result.exit_code == NONDETERMINISM
    assert "dst/a.py:1: address" in result.output
    assert f"dst/determinism/lint_allowed.py: {ALLOWED[0].file}: {ALLOWED[0].hazard}" in result.output
    assert f"dst/determinism/lint_allowed_protocols.toml: {ALLOWED[-1].file}: {ALLOWED[-1].hazard}" in result.output
