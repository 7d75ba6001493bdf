"""Run checks, each in a forked process: the parent of these processes, which has imported next to nothing.

Safety: a check's process imports all that it needs itself, so highwater/gate/watch.py notes it. What this parent has imported
counts for every check. A check whose process dies has failed.

`run.py` starts this module as a program of its own, because the command line has imported every protocol. It reads one line of
JSON from stdin, and prints a line of JSON for each check as it ends. It ends with all its processes when its stdin does: the
command line is gone then, even if it was killed.
"""

import json
import os
import select
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from highwater.gate import watch
from highwater.gate.exits import HARNESS
from highwater.gate.rows import Check, Found, Row, timed


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    sys.path[:] = asked["path"]
    scratch, waiting = Path(asked["scratch"]), asked["checks"][::-1]
    running: dict[int, tuple[dict[str, Any], float]] = {}
    ended = noticed()
    while waiting or running:
        while waiting and len(running) < asked["jobs"]:
            job = waiting.pop()
            running[begun(job, scratch)] = job, time.time()
        ready, _, _ = select.select([0, ended], [], [])
        if 0 in ready:
            os.killpg(0, signal.SIGKILL)
        os.read(ended, 1024)
        for process, status, used in iter(gone, None):
            job, started = running.pop(process)
            row = row_at_end(job, started, os.waitstatus_to_exitcode(status), scratch)
            report(job, row._replace(cpu_s=round(used.ru_utime + used.ru_stime, 1)))


def noticed() -> int:
    """Return a pipe that can be read after a child process has ended."""
    ended, write = os.pipe()
    os.set_blocking(write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write)
    return ended


def gone() -> tuple[int, int, Any] | None:
    """Return a child process that has ended: its id, its status, and what it used."""
    try:
        found = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return found if found[0] else None


def begun(job: dict[str, Any], scratch: Path) -> int:
    """Fork a process for a check. Return its id. In the new process this function does not return."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    check_in_child(job, scratch)
    sys.exit()  # as any program ends, so that libraries clean up


def check_in_child(job: dict[str, Any], scratch: Path) -> None:
    number, log = job["number"], os.open(scratch / f"{job['number']}.log", os.O_WRONLY | os.O_CREAT)
    for stream, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
        os.dup2(file, stream)  # libraries print what they like; our own stdout is for rows
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ[watch.VARIABLE] = str(scratch / f"{number}.watch")
    watch.install(os.environ[watch.VARIABLE])
    protocol, part, what = job["names"]
    row = timed(Check(protocol, part, what, lambda *arguments: called(job["function"], arguments), tuple(job["arguments"]),
                      tuple(job["tools"])))
    (scratch / f"{number}.row").write_text(json.dumps(row))


def called(function: list[str], arguments: tuple) -> Found:
    module, name = function
    return getattr(import_module(module), name)(*arguments)


def row_at_end(job: dict[str, Any], started: float, status: int, scratch: Path) -> Row:
    """Return the row of a check whose process has ended. `started` is in seconds since the epoch."""
    path = scratch / f"{job['number']}.row"
    if status == 0 and path.exists():
        return Row(*json.loads(path.read_text()))
    said = (scratch / f"{job['number']}.log").read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    why = signal.Signals(-status).name if status < 0 else f"exit code {status}"
    message = f"its process ended with {why}: {said[-1]}"
    protocol, part, what = job["names"]
    return Row(protocol, part, what, "", round(time.time() - started, 1), HARNESS, message)


def report(job: dict[str, Any], row: Row) -> None:
    """Print what became of a check."""
    print(json.dumps({"number": job["number"], "row": row}), flush=True)


if __name__ == "__main__":
    main()
