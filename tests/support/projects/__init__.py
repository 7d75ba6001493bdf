"""Runs commands on a project in this process, and makes this process forget the project afterwards."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from highwater import project
from highwater.cli.main import app
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


def made(folder: Path, files: dict[str, str]) -> Path:
    """Write a project: path -> content. Returns its folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def half(folder: Path, *parts: str) -> Path:
    """Write a project that has only these files of the register."""
    names = [f"register/{part}" for part in ("__init__.py", *parts)]
    return made(folder, {"highwater.toml": TOML, **{name: (REGISTER / name).read_text() for name in names}})
