"""Run checks on all cores, and yield the row of each as it ends.

The longest checks begin first, so that no core is idle at the end.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from highwater.gate import watch
from highwater.gate.rows import Check, Row


class Done(NamedTuple):
    number: int  # of the check, in the order of the table
    row: Row
    started: float  # when the program did that runs the checks, in seconds since the epoch
    noted: dict[str, set[str]]  # what it depends on: highwater/gate/watch.py


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ran(checks: list[tuple[int, Check]], jobs: int) -> Iterator[Done]:
    """Run numbered checks in this order, `jobs` at a time. If the caller stops, all of their processes are killed."""
    with TemporaryDirectory(prefix="highwater-verify-") as scratch:
        start = time.time()  # what the program has imported counts for every check, also for one that begins later
        program = started()
        try:
            assert program.stdin and program.stdout
            program.stdin.write(json.dumps(asked(checks, jobs, scratch)) + "\n")
            program.stdin.flush()  # and it stays open: its end would say that we are gone
            missing = {number for number, _ in checks}
            for line in program.stdout:
                said = json.loads(line)
                missing.remove(said["number"])
                noted = watch.noted(f"{scratch}/{said['number']}.watch")
                yield Done(said["number"], Row(*said["row"]), start, noted)
            if missing:
                raise RuntimeError(f"the program that runs the checks ended with exit code {program.wait()}")
        finally:
            killed(program)


def started() -> subprocess.Popen[str]:
    """Start highwater/gate/forks.py, in a group of its own, on the package that this process has imported."""
    path = os.pathsep.join(filter(None, (str(watch.PACKAGE.parent), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen([sys.executable, "-P", "-m", "highwater.gate.forks"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, start_new_session=True, env=os.environ | {"PYTHONPATH": path})


def asked(checks: list[tuple[int, Check]], jobs: int, scratch: str) -> dict[str, Any]:
    return {"jobs": jobs, "scratch": scratch, "path": [folder for folder in sys.path if folder], "checks": [
        {"number": number, "names": check[:3], "function": check.function, "arguments": check.arguments,
         "tools": check.tools}
        for number, check in checks]}


def killed(program: subprocess.Popen[str]) -> None:
    """Kill the group, if it is there: the program, its checks, and the programs that these have started."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    program.wait()


def longest_first(checks: list[tuple[int, Check]], seconds: dict[int, float]) -> list[tuple[int, Check]]:
    """Order checks by the time that they took last; by their weight, if that is unknown."""
    return sorted(checks, key=lambda numbered: -seconds.get(numbered[0], numbered[1].weight))


