"""Print, write files and refuse bad input: the functions that all commands share."""

import os
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from highwater.dst.scenarios import DEFAULT as STEM
from highwater.dst.scenarios import STEMS, known, named, resolved
from highwater.gate.exits import BAD_INPUT

LINE_EVERY_S = 5  # between two lines of progress, without a terminal
LARGEST_SEED = 2**63 - 1  # Parquet's integers have 64 bits


class Output(Console):
    def on_broken_pipe(self) -> None:
        """Print nothing more after the reader has left (`| head`). The exit code stays that of the verdict."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


console = Output(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 160  # a log has room


@contextmanager
def steps_shown(doing: str, total: int) -> Generator[Callable[[str], None], None, None]:
    """Yield a function to call with the name of each step as it begins. It shows progress on stderr. Progress is a bar on a
    terminal; elsewhere it is a line, at most one every `LINE_EVERY_S`."""
    terminal = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    begun, printed_s = 0, time.monotonic()
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def show(step: str) -> None:
            nonlocal begun, printed_s
            bar.update(task, completed=begun, description=escape(step))
            if not terminal.is_terminal and time.monotonic() - printed_s >= LINE_EVERY_S:
                terminal.print(f"{doing}: {begun} of {total} done, next {step}", markup=False)
                printed_s = time.monotonic()
            begun += 1

        yield show


def refuse(message: str, code: int = BAD_INPUT) -> NoReturn:
    """Print one line to stderr and exit with 2, or with this code."""
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    """Print one line to stderr, whatever the message has in it."""
    line = "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in message)
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(line)}")


def write_text(path: Path, text: str) -> None:
    """Write a file, with the folders above it. Refuses a path that cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}")


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written, without changing the file that is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}")


Protocol = Annotated[str | None, typer.Option("--protocol", help=f"the protocol whose clients run [default: that of --project, "
                                              f"or {STEM}]")]
Scenario = Annotated[str | None, typer.Option("--scenario", help="one of the protocol's scenarios, if it has several: "
                                              f"{', '.join(stem for stem in STEMS if named(stem).protocol != stem)}")]


def scenario_of(protocol: str | None = None, scenario: str | None = None) -> str:
    """Return the stem of the scenario that --protocol and --scenario choose. Refuses unknown names."""
    try:
        return resolved(protocol, scenario)
    except LookupError as error:
        refuse(str(error))


def known_scenario(name: str) -> str:
    """Return `name`. Refuses a scenario that does not exist."""
    try:
        return known(name)
    except LookupError as error:
        refuse(str(error))


def seeds_of(text: str) -> range:
    """Parse "A:B" into a range that includes A and excludes B."""
    match = re.fullmatch(r"(\d{1,19}):(\d{1,19})", text, re.ASCII)
    if not match or not int(match[1]) < int(match[2]) <= LARGEST_SEED:
        refuse(f"seeds {text!r}: write A:B, with A < B; A is the first, B is one beyond the last")
    return range(int(match[1]), int(match[2]))


def build_of(mutant: str | None, scenario: str = STEM):
    """Return the implementation to run: production's, or a mutant's. Refuses unknown names."""
    from highwater.dst import zoo

    try:
        return zoo.build_of(mutant, scenario)
    except (LookupError, TypeError) as error:  # a tape may name anything
        refuse(str(error))
