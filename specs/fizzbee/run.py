"""Run FizzBee's programs: stdout and stderr apart, in an environment of few names, stopped after a time.

Uses: stdlib, and tools/fizzbee/build.py to find the CLI.
"""

import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

BUILD = Path(__file__).parent.parent.parent / "tools" / "fizzbee" / "build.py"
GRACE_S = 15  # from asking FizzBee to stop to killing it
INHERITED = ("PATH", "HOME", "LD_LIBRARY_PATH", "GOGC", "GOMEMLIMIT", "GOMAXPROCS")  # nothing else of our environment


def build_module() -> ModuleType:
    """Return the module tools/fizzbee/build.py, which knows where the CLI and the cache folder are."""
    found = importlib.util.spec_from_file_location("highwater_fizzbee_build", BUILD)
    assert found and found.loader  # as for every file that ends in .py
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Run:
    """One finished run of the checker, its files still present."""

    output: str
    errors: str
    stopped: bool
    seconds: float
    out: Path


def environment(scratch: Path) -> dict[str, str]:
    """Return the environment of FizzBee's programs. With Go's default settings, garbage collection took 1/3 of a run."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"GOGC": "400", "GOMEMLIMIT": "4GiB"} | inherited | {"LANG": "C.UTF-8", "PYTHONUTF8": "1", "TMPDIR": str(scratch)}


def execute(command: list[str], scratch: Path, timeout: float | None) -> tuple[str, str, int, bool]:
    """Run a command. Return stdout, stderr, the exit status, and whether it was stopped after `timeout` seconds (killed if it
    did not stop)."""
    process = subprocess.Popen(command, cwd=scratch, env=environment(scratch), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace")
    stopped = False
    try:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            stopped = True
            process.terminate()
            output, errors = process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return output, errors, process.returncode, stopped
