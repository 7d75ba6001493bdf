"""Each module is loaded once, under its one name `highwater.*`: in this checkout a folder can be reached by two paths.

A module that is loaded twice has two copies of every class and table in it: an `isinstance` fails, a cache is empty.
tests/conftest.py checks the processes of the suite itself when they end, tests/highwater/test_installed.py those of an
installed package.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import watched

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("specs", "model", "impl", "traces", "dst")
PROGRAM = """
import importlib, pkgutil, sys
import highwater
from highwater.cli.main import main

if __name__ == "__main__":
    for found in pkgutil.walk_packages(highwater.__path__, "highwater."):
        importlib.import_module(found.name)
    sys.argv = ["highwater", "campaign", "run", "--engine", "local", "--jobs", "2", "--seeds", "0:20", "--range-size", "5",
                "--scenario", "baseline", "--out", sys.argv[1]]
    main()
"""


def run(tmp_path: Path, program: str, *arguments: str) -> Path:
    """Run a program in the checkout's root; return the log of what its processes imported."""
    file, log = tmp_path / "program.py", tmp_path / "watched"
    file.write_text(program)
    subprocess.run([sys.executable, file, *arguments], cwd=ROOT, check=True, capture_output=True, timeout=120,
                   env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{watched.FOLDER}:{ROOT}", "WATCHED": str(log)})
    return log


def test_no_module_is_loaded_twice_in_a_campaign_and_its_workers(tmp_path):
    processes = watched.by_process(run(tmp_path, PROGRAM, str(tmp_path / "campaign")))
    ours = {process: [(name, path) for name, path in modules if Path(path).is_relative_to(ROOT / "dst")]
            for process, modules in processes.items()}
    assert sum(bool(modules) for modules in ours.values()) >= 3, "the campaign's two workers import what they run"
    for modules in processes.values():
        assert not watched.loaded_twice(found for found in modules if Path(found[1]).is_relative_to(ROOT))


def test_the_check_sees_a_second_copy(tmp_path):
    second = "import sys, importlib; import highwater.traces.event; sys.path.append('traces'); import event"
    (modules,) = watched.by_process(run(tmp_path, second)).values()
    twice = watched.loaded_twice(modules)
    assert twice == {str(ROOT / "traces" / "event.py"): {"highwater.traces.event", "event"}}


@pytest.mark.parametrize("name", LINKED)
def test_a_folder_of_the_checkout_is_no_package_by_itself(name):
    result = subprocess.run([sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("ImportError: ") and f"highwater.{name}" in result.stderr
