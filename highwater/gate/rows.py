"""Define a check of `highwater verify`, what it finds, and the row of a finished check.

Safety: a check that crashes, or that could not run, never passes.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from highwater.gate.exits import BAD_INPUT, HARNESS, INCOMPLETE, PROOF
from highwater.gate.extras import install_command
from highwater.project import ProjectError, type_and_message


class Found(NamedTuple):
    """The result of a check. `code` is an exit code of highwater/gate/exits.py.

    `figure` is the same whenever the check runs on the same sources. What differs from run to run is in `speed`.
    """

    figure: str
    code: int = 0
    message: str = ""
    speed: str = ""


class Row(NamedTuple):
    """A finished check: its names, figure, time, exit code and message. `kept`: the verdict of an earlier run."""

    protocol: str
    part: str
    what: str
    figure: str
    seconds: float
    code: int
    message: str
    speed: str = ""
    cpu_s: float = 0  # of its process, and of those that it has started
    kept: bool = False

    @property
    def verdict(self) -> str:
        return ("kept" if self.kept else "ok") if self.code == 0 else "skipped" if self.code == INCOMPLETE else "FAILED"

    @property
    def figures(self) -> str:
        return ", ".join(filter(None, (self.figure, self.speed)))


class Check(NamedTuple):
    """A check, which takes one core. It runs as `run(*arguments)` in a process of its own, so `run` is a function of a module,
    and the arguments are JSON. `tools` are names of highwater/gate/tools.py or of libraries: without one of them the check is
    skipped, and another version may give another result.
    """

    protocol: str
    part: str
    what: str
    run: Callable[..., Found]
    arguments: tuple = ()
    tools: tuple[str, ...] = ()
    weight: float = 1  # about how many seconds it takes, to begin with the longest

    @property
    def function(self) -> tuple[str, str]:
        return self.run.__module__, self.run.__qualname__

    @property
    def name(self) -> str:
        return f"{self.protocol}, {self.part}, {self.what}"


def said(figure: str, code: int, message: str) -> Found:
    """Return what is known before the check runs."""
    return Found(figure, code, message)


def timed(check: Check) -> Row:
    from highwater.gate.tools import missing_tool

    start = time.monotonic()
    try:
        reason = missing_tool(check) if check.tools else ""
        found = Found("", INCOMPLETE, reason) if reason else check.run(*check.arguments)
    except BaseException as error:  # a check that crashes has not passed
        found = failed(error)
    seconds = round(time.monotonic() - start, 1)
    return Row(*check[:3], found.figure, seconds, found.code, found.message, found.speed)


def failed(error: BaseException) -> Found:
    """Return the result of a check that raised this. A module of a user's that cannot be used is bad input."""
    cause = error.__cause__ if isinstance(error, ProjectError) else error
    if isinstance(cause, ModuleNotFoundError) and (command := install_command(cause)):
        return Found("", INCOMPLETE, f"{error}; {command}")
    if isinstance(error, ProjectError):
        return Found("", BAD_INPUT, str(error))
    if isinstance(error, ModuleNotFoundError):
        return Found("", HARNESS, str(error))
    return Found("", PROOF if type(error).__name__ == "Misnamed" else HARNESS, type_and_message(error))
