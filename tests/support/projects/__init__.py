"""Runs commands on a project in this process, and makes this process forget the project afterwards; or in a forked process."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import print_exc
from typing import Any

from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app, main
from highwater.dst import scenarios
from highwater.dst.search import reached
from highwater.traces import protocols
from highwater.traces.damage import protocols as damage

REGISTER = Path(__file__).resolve().parents[2] / "highwater" / "register"
TOML = '[protocols]\nregister = "register"\n'


def forget() -> None:
    """Make this process as if it had never seen a project."""
    folder = os.environ.pop(project.VARIABLE, None)
    project.given, project.searched, project.noticed = "", None, False
    for cached in (project.opened, project.installed, scenarios.named, scenarios.mutants_of, reached.bits, protocols.recorded,
                   damage.knowledge):
        cached.cache_clear()
    sys.path[:] = [path for path in sys.path if path != folder]
    for name in [name for name, module in sys.modules.items() if folder and within(module, folder)]:
        del sys.modules[name]


def within(module: Any, folder: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(f"{folder}/")


@contextmanager
def used(folder: Path) -> Iterator[None]:
    """Take the protocols of a project for the length of a block."""
    forget()
    try:
        project.use(str(folder))
        yield
    finally:
        forget()


def highwater(*words: object) -> tuple[int, str, str]:
    """Run a command in this process; return the exit code, stdout and stderr."""
    forget()
    try:
        result = CliRunner().invoke(app, list(map(str, words)))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr
    finally:
        forget()


def begun(folder: Path, *words: object) -> int:
    """Fork a process that runs a command as the program `highwater` does, in a session of its own. It writes to the files out
    and err of the folder. Returns its id."""
    folder.mkdir(parents=True, exist_ok=True)
    if process := os.fork():
        return process
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        sys.argv = ["highwater", *map(str, words)]
        forget()
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(process: int, folder: Path) -> tuple[int, str, str]:
    """Wait for a process that was begun; return its exit code, stdout and stderr."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code, (folder / "out").read_text(), (folder / "err").read_text()


def below(process: int) -> list[int]:
    """Return the processes that a process has started, and those that they have, without those that have ended."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = children.get(process, [])
    for one in found:
        found += children.get(one, [])
    return found


def made(folder: Path, files: dict[str, str]) -> Path:
    """Write a project: path -> content. Returns its folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


HELPERS = """
import ctypes, os, signal, sys, time
from os import getpid, kill, killpg
class Odd(BaseException):
    def __str__(self): raise SystemExit(0)
def swallow():
    try: time.sleep(0.05)
    except BaseException: pass
def shout():
    for name in os.listdir("/proc/self/fd"):
        try: "pipe:" in os.readlink(f"/proc/self/fd/{name}") and os.write(int(name), bytes(99))
        except OSError: pass
"""
PLACES = {"impl": "        try:\n", "mapping": "        update = update_of(e.body.decode())\n        action", "model":
          "    if w.pc == \"Idle\" and below(w.k, c.UPDATES) and is_free(c, s):\n        yield (), s._replace(value"}


def planted(folder: Path, part: str, statement: str) -> Path:
    """Write the register with a statement before each request of its implementation, each judgement of a response in its
    mapping, or each commit of its model. It has no spec.fizz. Returns its folder."""
    files = {path.relative_to(REGISTER).as_posix(): path.read_text() for path in REGISTER.rglob("*.*")
             if path.suffix in (".py", ".toml")}
    name, place = f"register/{part}.py", PLACES[part]
    indent = place[:len(place) - len(place.lstrip())]
    assert files[name].count(place) == 1
    files[name] = files[name].replace(place, f"{indent}{statement}\n{place}").replace(
        "from highwater import", f"{HELPERS}from highwater import", 1)
    return made(folder, files)


def half(folder: Path, *parts: str) -> Path:
    """Write a project that has only these files of the register."""
    names = [f"register/{part}" for part in ("__init__.py", *parts)]
    return made(folder, {"highwater.toml": TOML, **{name: (REGISTER / name).read_text() for name in names}})


READS = """
from pathlib import Path
TABLE = (Path(__file__).parent / "TABLE").read_text()
"""


def with_data(tmp_path: Path, *, table: str = "table.json", toml: str = TOML) -> Path:
    """Write the register with an implementation that reads a data file."""
    folder = tmp_path / "project"
    shutil.copytree(REGISTER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    impl = folder / "register/impl.py"
    reads = READS.replace("TABLE\"", f"{table}\"")
    impl.write_text(impl.read_text().replace("from highwater import", f"{reads}from highwater import", 1))
    return made(folder, {f"register/{table}": "[1]\n", "highwater.toml": toml})
