"""The gate of users' protocols: in a project, or in an installed package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cli.verify import checks_of
from highwater.gate import simulation
from highwater.gate.exits import BAD_INPUT, HARNESS, INCOMPLETE, LIVENESS, NONDETERMINISM, SPEC
from highwater.gate.extras import install_extra
from highwater.gate.rows import Check, Row, timed
from highwater.gate.sizes import DEEP, GATE
from highwater.project import PARTS, ProjectError
from tests.support.installed import ROOT
from tests.support.projects import REGISTER, half, made, used

READS = "\nfrom pathlib import Path\nDATA = (Path(__file__).parent / 'data.txt').read_text()\n"


def gate(folder: Path, *words: object, **more: str) -> dict[str, str]:
    """Run the gate in a process of its own, with verdicts of its own. Return the verdict of each row."""
    command = [sys.executable, "-m", "highwater", "verify", "--json", "out.json", "--jobs", "1", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "HIGHWATER_CACHE": str(folder / "cache")} | more)
    assert "Traceback" not in done.stderr, done.stderr
    return {f"{row['part']}: {row['what']}": row["verdict"] for row in json.loads((folder / "out.json").read_text())["rows"]}


# --- a package that is installed in editable mode: its folder is on the path, and is none of Python's libraries

@pytest.fixture(scope="module")
def editable(tmp_path_factory) -> Path:
    folder = half(tmp_path_factory.mktemp("editable"), "model.py", "spec.toml")
    with (folder / "register/model.py").open("a") as model:
        model.write(READS)
    return made(folder, {"register/data.txt": "1", "register-1.dist-info/METADATA": "Name: register\nVersion: 1\n",
                         "register-1.dist-info/entry_points.txt": "[highwater.protocols]\nregister = register\n"})


@pytest.mark.parametrize("edited", ["model.py", "spec.toml", "data.txt"])
def test_an_edit_of_an_installed_package_makes_its_checks_run_again(editable, edited):
    path = os.pathsep.join([str(ROOT), str(editable)])
    rows = [gate(editable, "--protocol", "register", PYTHONPATH=path)]
    with (editable / "register" / edited).open("a") as file:
        file.write("\n# edited\n")
    rows += [gate(editable, "--protocol", "register", PYTHONPATH=path) for _ in range(2)]
    verdicts = [{verdict for row, verdict in each.items() if row.startswith("model: register")} for each in rows]
    assert verdicts[1:] == [{"ok"}, {"kept"}], verdicts


def test_gate_in_project_folder_keeps_verdicts(tmp_path):
    """With a package in editable mode sys.path has an entry that is no path. Read as one, it is in the working folder."""
    project = half(tmp_path / "project", "model.py", "spec.toml")
    path = os.pathsep.join([str(ROOT), "__editable__.some-1.0.finder.__path_hook__"])
    rows = [gate(project, PYTHONPATH=path, HIGHWATER_CACHE=str(tmp_path / "cache")) for _ in range(2)]
    verdicts = [{verdict for row, verdict in each.items() if row.startswith("model: register")} for each in rows]
    assert verdicts == [{"ok"}, {"kept"}], rows


def test_a_package_that_was_uninstalled_has_changed(monkeypatch):
    from highwater.gate import watch

    monkeypatch.setattr(watch, "roots", lambda: {"highwater": str(watch.PACKAGE)})
    assert watch.place("highwater/gate") == f"{watch.PACKAGE}/gate"
    assert not Path(watch.place("installed/0/register/model.py")).exists()


# --- a module that cannot be used is one failed row of its protocol

def two(folder: Path, files: dict[str, str]) -> Path:
    """Write a project of `register`, of which only the model and its table of runs are there, and `other`, which has files."""
    half(folder, "model.py", "spec.toml")
    return made(folder, {"highwater.toml": '[protocols]\nregister = "register"\nother = "other"\n', "other/__init__.py": "",
                         **{f"other/{name}": text for name, text in files.items()}})


MODEL, PROOF = (REGISTER / "register/model.py").read_text(), "".join(f"{name} = {{}}\n" for name in PARTS["proof"].names)


@pytest.mark.parametrize("files, part, said, code", [
    ({"model.py": "1 / 0\n", "mapping.py": "from .model import x\n", "mutants.py": "from . import mapping\n"}, "model",
     "ZeroDivisionError: division by zero (DIR/other/model.py:1)", BAD_INPUT),
    ({"model.py": "def (:\n"}, "model", "SyntaxError: invalid syntax (DIR/other/model.py:1)", BAD_INPUT),
    ({"model.py": MODEL, "scenario.py": "SCENARIO = 3\n"}, "scenario", "SCENARIO is no highwater.Scenario", BAD_INPUT),
    ({"model.py": MODEL, "mutants.py": "raise SystemExit(0)\n"}, "mutants", "SystemExit: 0 (DIR/other/mutants", BAD_INPUT),
    ({"model.py": MODEL, "proof.py": PROOF.replace("WALKS = {}", "")}, "proof", "defines no WALKS; proof.py must", BAD_INPUT),
    ({"model.py": MODEL, "recorded.py": "import nonexistent_thing\n"}, "recorded", "No module named", BAD_INPUT),
    ({"model.py": MODEL, "damage.py": "1 / 0\n"}, "damage", "division by zero (DIR/other/damage.py:1)", BAD_INPUT),
    ({"model.py": MODEL, "judge.py": "SMALL = 1\n"}, "judge", "judge.py defines no IMPOSSIBLE", BAD_INPUT),
    ({"model.py": MODEL, "proof.py": PROOF + "SYSTEMS = 3\n"}, "proof", "'int' object is not iterable", HARNESS),
    ({"model.py": MODEL, "checks.py": "def checks():\n    yield 1 / 0\n"}, "checks", "division by zero", HARNESS),
    ({"model.py": MODEL, "spec.toml": "[[run]\n"}, "spec", "spec.toml: Expected ']]'", BAD_INPUT),
    ({"model.py": MODEL, "proof.py": "import pyspark.no_such_module\n"}, "proof", install_extra("spark"), INCOMPLETE),
])
def test_a_module_that_cannot_be_used_is_a_row_and_all_other_rows_run(tmp_path, files, part, said, code):
    with used(two(tmp_path, files)):
        broken, fine = ([timed(check) for check in checks_of(name, GATE)] for name in ("other", "register"))
    [row] = [row for row in broken if row.code and "no" not in row.what.split()]  # of what is there
    assert (row.part, row.code) == (part, code) and said.replace("DIR", str(tmp_path)) in row.message, row
    assert [row.code for row in fine if row.part == "model"] == [0, 0]


def test_the_gate_of_a_module_that_cannot_be_used_writes_all_reports(tmp_path):
    folder = two(tmp_path, {"model.py": "1 / 0\n"})
    rows = gate(folder, "--project", ".", "--junit", "junit.xml")
    assert rows["model: model.py can be used"] == "FAILED" and rows["model: register_plain: PASSED"] == "ok"
    assert "ZeroDivisionError" in (folder / "junit.xml").read_text()
    assert json.loads((folder / "out.json").read_text())["exit"] == BAD_INPUT


def test_a_check_that_cannot_import_a_module_of_a_users_has_bad_input():
    def judge():
        raise ProjectError("register.judge cannot be imported")

    row = timed(Check("register", "simulation", "a check", judge))
    assert (row.code, row.message) == (BAD_INPUT, "register.judge cannot be imported")


# --- without a .fizz

def test_the_larger_instance_of_a_row_runs_in_the_deeper_gate(tmp_path):
    """And nowhere else: a wrong number of its states is noticed there."""
    folder = half(tmp_path, "model.py", "spec.toml")
    table = folder / "register/spec.toml"
    deep = "states = 5\ndeep = { constants = { WRITERS = 3 }, states = 1 }\n"
    table.write_text(table.read_text().replace("states = 5\n", deep))
    with used(folder):
        codes = {size.name: [timed(check).code for check in checks_of("register", size) if "register_plain" in check.what]
                 for size in (GATE, DEEP)}
    assert codes == {GATE.name: [0], DEEP.name: [SPEC]}


# --- what the simulation of a project may show

def row_of(function: str, folder: Path, *arguments: object) -> Row:
    with used(folder):
        return timed(Check("register", "simulation", function, getattr(simulation, function), arguments))


def edited(folder: Path, old: str, new: str) -> Path:
    made(folder, {path.relative_to(REGISTER).as_posix(): path.read_text() for path in REGISTER.rglob("*.*")
                  if path.suffix in (".py", ".toml")})
    impl = folder / "register/impl.py"
    assert old in impl.read_text()
    impl.write_text(impl.read_text().replace(old, new, 1))
    return folder


def test_a_run_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("highwater.dst.sim.alarm.LONGEST_RUN_S", 0.5)
    row = row_of("seeds_refine", edited(tmp_path, "        try:\n", "        while True:\n            pass\n        try:\n"),
                 "register", 5, 0)
    assert row.code == LIVENESS and "a loop without await: highwater dst run" in row.message and "--seed 0" in row.message


def test_a_cause_of_nondeterminism_fails_the_gate(tmp_path):
    assert row_of("linted", REGISTER).code == 0
    row = row_of("linted", edited(tmp_path, "class Taken", "import random\n\nSEED = random.random()\n\n\nclass Taken"))
    assert row.code == NONDETERMINISM and "register/impl.py" in row.message and "highwater dst lint" in row.message
