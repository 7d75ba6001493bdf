"""The gate runs each check once for what it depends on: whatever of that changes, this check runs again, and no other.

The checks here are those of a small copy of the package, in which one protocol has a spec, a model, a proof and an
implementation.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = '''
    """Cheap checks that depend on what the checks of the gate depend on."""

    import os
    import subprocess
    import sys
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    from pathlib import Path

    from highwater.gate.rows import Check, Found

    HERE = Path(__file__).parent


    def checks():
        for function in (simulation, exploration, spec, proof, data, linked, tool, listed, spawned, forked, started, killed):
            yield Check("small", function.__name__, "is as expected", function)
        yield Check("small", "seeds", "5 seeds", seeds, (5,))
        yield Check("small", "fails", "always", fails)


    def simulation():
        from highwater.impl.protocols import baseline

        return Found(baseline.__name__)


    def exploration():
        from highwater.model.protocols import baseline

        return Found(baseline.__name__)


    def spec():
        from highwater.specs.runs import FOLDER

        return Found(str(len((FOLDER / "Baseline.fizz").read_text())))


    def proof():
        import z3

        from highwater.model.proofs import sequenced_write

        return Found(sequenced_write.__name__)


    def data():
        return Found((HERE / "data.toml").read_text())


    def linked():
        return Found((HERE / "linked.txt").read_text())


    def tool():
        return Found(subprocess.run([os.environ["SMALL_TOOL"]], capture_output=True, text=True).stdout)


    def listed():
        return Found(str(len(list((HERE / "folder").glob("*")))))


    def spawned():
        """Workers end without clean-up, as those of a pool do that was broken."""
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return Found(str(pool.submit(work, "spawned").result()))


    def forked():
        with ProcessPoolExecutor(1, get_context("fork")) as pool:
            return Found(str(pool.submit(work, "forked").result()))


    def work(name):
        return len((HERE / f"{name}.txt").read_text())


    def started():
        command = "import highwater.gate.started"
        return Found(subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout)


    def killed():
        command = f"import os, highwater; open({str(HERE / 'killed.txt')!r}).close(); os.kill(os.getpid(), 9)"
        return Found(str(subprocess.run([sys.executable, "-c", command]).returncode))


    def seeds(number):
        return Found(str(number))


    def fails():
        return Found("", 14, "it fails")
'''
RUN = '''
    import json, sys
    from pathlib import Path

    from highwater.gate import kept, small
    from highwater.gate.gate import Asked, Gate

    gate = Gate(list(small.checks()), Asked(4, **json.loads(sys.argv[2])), kept.Verdicts(Path(sys.argv[1])))
    ran = []
    for row in gate.run():
        ran.append(row.part)
        if len(ran) == 1 and sys.argv[3]:
            with open(sys.argv[3], "a") as file:
                file.write("# edited\\n")
    print(json.dumps({"ran": ran, "rows": [[row.part, row.verdict, row.code, row.message] for row in gate.rows]}))
'''
ALL = {"simulation", "exploration", "spec", "proof", "data", "linked", "tool", "listed", "spawned", "forked", "started",
       "killed", "seeds"}


class Small:
    """A copy of the package with the checks above, and the folder of its verdicts."""

    def __init__(self, folder: Path) -> None:
        self.package, self.verdicts = folder / "highwater", folder / "verdicts"
        shutil.copytree(ROOT / "highwater", self.package, ignore=shutil.ignore_patterns("__pycache__", "cli", "reports"))
        self.write("gate/small.py", dedent(CHECKS))
        for name in ("data.toml", "spawned.txt", "forked.txt", "killed.txt", "folder/a"):
            self.write(f"gate/{name}", name)
        (folder / "elsewhere.txt").write_text("elsewhere")
        (self.package / "gate/linked.txt").symlink_to(folder / "elsewhere.txt")
        self.write("gate/started.py", "print('started')\n")
        self.tool = folder / "tool"
        self.tool.write_text("#!/bin/sh\necho 1\n")
        self.tool.chmod(0o755)
        time.sleep(0.01)  # a file must be older than the check that reads it

    def write(self, name: str, text: str) -> None:
        path = self.package / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def edit(self, name: str) -> None:
        with (self.package / name).open("a") as file:
            file.write("\n# edited\n")
        time.sleep(0.01)

    def run(self, edited: str = "", **asked) -> dict:
        """Run the gate. After its first row, edit this file."""
        path = str(self.package / edited) if edited else ""
        result = subprocess.run([sys.executable, "-c", dedent(RUN), str(self.verdicts), json.dumps(asked), path], text=True,
                                capture_output=True, cwd=self.package.parent, timeout=120,
                                env=os.environ | {"PYTHONPATH": str(self.package.parent), "SMALL_TOOL": str(self.tool)})
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def ran(self, **asked) -> set[str]:
        """Run the gate. Return the checks that ran, without the one that fails and so always runs."""
        found = self.run(**asked)["ran"]
        assert "fails" in found
        return {*found} - {"fails"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    made = Small(tmp_path_factory.mktemp("small"))
    assert made.ran() == ALL
    return made


def test_what_is_unchanged_does_not_run_again(small: Small) -> None:
    found = small.run()
    assert found["ran"] == ["fails"]
    assert [verdict for _, verdict, *_ in found["rows"]] == ["kept"] * len(ALL) + ["FAILED"]


@pytest.mark.parametrize("edited, runs", [
    ("impl/protocols/baseline.py", {"simulation"}),
    ("model/protocols/baseline.py", {"exploration"}),
    ("specs/Baseline.fizz", {"spec"}),
    ("model/proofs/sequenced_write.py", {"proof"}),
    ("model/proofs/engine/inductive.py", {"proof"}),
    ("model/core.py", {"exploration", "proof"}),
    ("gate/data.toml", {"data"}),
    ("gate/linked.txt", {"linked"}),  # a link to a file elsewhere
    ("gate/spawned.txt", {"spawned"}),
    ("gate/forked.txt", {"forked"}),
    ("gate/killed.txt", {"killed"}),
    ("gate/started.py", {"started"}),
    ("gate/folder/a", set()),  # only the names were read
    ("gate/folder/b", {"listed"}),
    ("impl/protocols/wal_fencing.py", set()),
    ("gate/gate.py", set()),  # it runs the checks, and does not judge
    ("gate/rows.py", ALL),
])
def test_an_edit_makes_those_checks_run_again_that_depend_on_it(small: Small, edited: str, runs: set[str]) -> None:
    small.edit(edited)
    assert small.ran() == runs
    assert small.ran() == set()


def test_a_package_that_comes_before_a_module_makes_its_checks_run_again(small: Small) -> None:
    module = small.package / "impl/protocols/baseline.py"
    small.write("impl/protocols/baseline/__init__.py", module.read_text())
    assert small.ran() == {"simulation"}
    shutil.rmtree(module.with_suffix(""))
    assert small.ran() == {"simulation"}


def test_an_edit_while_the_gate_runs_leaves_no_verdict_of_the_old_code(small: Small) -> None:
    small.run(edited="gate/rows.py", anew=True)  # the parent of all checks has imported it
    assert small.ran() == ALL
    assert small.ran() == set()


def test_python_without_assertions_is_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    from highwater.gate.kept import python

    before = python()
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    assert python() != before


def test_another_version_of_a_tool_makes_the_checks_run_again_that_start_it(small: Small) -> None:
    small.tool.write_text("#!/bin/sh\necho 2\n")
    time.sleep(0.01)
    assert small.ran() == {"tool"}


def entries(small: Small) -> dict[str, Path]:
    return {json.loads(path.read_text())["entry"]["row"][1]: path for path in small.verdicts.glob("*.json")}


def changed(path: Path, change) -> None:
    """Change an entry as if it had been written so."""
    from highwater.gate.kept import read, write

    entry = read(path)
    assert entry
    change(entry)
    write(path, entry)


def test_another_version_of_a_library_or_of_python_makes_the_checks_run_again_that_need_it(small: Small) -> None:
    needing = {part for part, path in entries(small).items() if "z3" in path.read_text()}
    assert needing == {"proof"}
    changed(entries(small)["proof"], lambda entry: entry["needs"]["library"].update(z3="z3-solver 4.0.0"))
    assert small.ran() == {"proof"}
    changed(entries(small)["data"], lambda entry: entry["needs"]["python"].update(python="3.11.0"))
    assert small.ran() == {"data"}


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b"\xff", b'{"entry": {}, "sum": ""}'])
def test_a_damaged_entry_is_not_used(small: Small, damage: bytes) -> None:
    entries(small)["data"].write_bytes(damage)
    assert small.ran() == {"data"}


@pytest.mark.parametrize("other", [{"row": ["small"]}, {"row": None}, {"needs": {"unknown": {"a": "b"}}}, {"needs": None}])
def test_an_entry_of_another_shape_is_not_used(small: Small, other: dict) -> None:
    changed(entries(small)["seeds"], lambda entry: entry.update(other))
    assert small.ran() == {"seeds"}


def test_an_entry_that_was_edited_is_not_used(small: Small) -> None:
    path = entries(small)["seeds"]
    path.write_text(path.read_text().replace("5 seeds", "6 seeds"))
    assert small.ran() == {"seeds"}


def test_a_kept_verdict_that_lies_is_found(small: Small) -> None:
    def lie(entry: dict) -> None:
        entry["row"][3] = "7"

    changed(entries(small)["seeds"], lie)
    assert small.ran() == set()
    found = small.run(again=100, draw=1)
    assert {*found["ran"]} == {*ALL, "fails"}
    [wrong] = [row for row in found["rows"] if row[1] == "FAILED" and row[0] != "fails"]
    assert wrong[0] == "seeds" and wrong[2] == 14 and "it was '7', and now it is '5'" in wrong[3]
    assert small.ran() == {"seeds"}  # the lie is not kept


def test_a_share_is_drawn_by_a_seed(small: Small) -> None:
    drawn = [small.ran(again=20, draw=seed) for seed in (1, 1, 2)]
    assert [len(parts) for parts in drawn] == [3, 3, 3] and drawn[0] == drawn[1] != drawn[2]


def test_all_checks_run_anew(small: Small) -> None:
    assert small.ran(anew=True) == ALL


def test_a_failure_is_not_kept(small: Small) -> None:
    assert "fails" not in entries(small)


def test_a_file_that_changes_while_a_check_runs_leaves_no_verdict(tmp_path: Path) -> None:
    from highwater.gate.kept import Verdicts
    from highwater.gate.rows import Check, Row, timed

    check, path = Check("p", "part", "what", timed), tmp_path / "module.py"
    path.write_text("1")
    row, noted = Row(*check[:3], "1", 1.0, 0, ""), {kind: set() for kind in ("folder", "library", "program")}
    verdicts = Verdicts(tmp_path / "verdicts")
    assert not verdicts.keep(check, row, {**noted, "file": {str(path)}}, path.stat().st_ctime - 1)
    assert verdicts.recalled(check) is None
    assert verdicts.keep(check, row, {**noted, "file": {str(path)}}, path.stat().st_ctime + 1)
    assert verdicts.recalled(check) == row._replace(kept=True)
    path.write_text("2")
    assert verdicts.recalled(check) is None
