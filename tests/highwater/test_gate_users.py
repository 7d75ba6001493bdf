"""The gate of users' protocols: in a project, or in an installed package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installed import ROOT
from tests.support.projects import half, made

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


def test_a_package_that_was_uninstalled_has_changed(monkeypatch):
    from highwater.gate import watch

    monkeypatch.setattr(watch, "roots", lambda: {"highwater": str(watch.PACKAGE)})
    assert watch.place("highwater/gate") == f"{watch.PACKAGE}/gate"
    assert not Path(watch.place("installed/0/register/model.py")).exists()
