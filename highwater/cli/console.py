"""Print, write files and refuse bad input: the functions that all commands share."""

import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from highwater import project
from highwater.dst.scenarios import DEFAULT as STEM
from highwater.dst.scenarios import STEMS, known, named, resolved
from highwater.gate.exits import BAD_INPUT

LINE_EVERY_S = 5  # between two lines of progress, without a terminal
NAMED_AT_MOST = 5  # protocols or scenarios in a line; more are counted
LONGEST_MESSAGE = 2000  # characters; a longer one has quoted what it should not
LARGEST_SEED = 2**63 - 1  # Parquet's integers have 64 bits


def shown(text: str) -> str:
    """Return a text without control characters, which could move the cursor or hide lines: they are shown by their escapes."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else repr(sign)[1:-1] for sign in text)


class Output(Console):
    """The output of commands. Names from outside may be in whatever is printed, so control characters are escaped. In a line of
    a listing, `escaped` of impl/stores/keys.py escapes line ends, too. A cell of a table may have several lines."""

    def print(self, *objects: Any, **how: Any) -> None:
        for table in objects:
            for column in table.columns if isinstance(table, Table) else ():
                column._cells = [shown(cell) if isinstance(cell, str) else cell for cell in column._cells]
        super().print(*(shown(one) if isinstance(one, str) else one for one in objects), **how)

    def on_broken_pipe(self) -> None:
        """Print nothing more after the reader has left (`| head`). The exit code stays that of the verdict."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


console = Output(emoji=False, highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 160  # a log has room


def print_output(output: str, to: Console) -> None:
    """Print the last lines that a seed has printed, below the line about its failure."""
    for line in output.splitlines():
        to.print(f"       | {line}", markup=False)


def terminal_width() -> int | None:
    """Return the columns of the terminal; None without a terminal."""
    return console.width if console.is_terminal else None


@contextmanager
def steps_begun(doing: str, line_every_s: float = LINE_EVERY_S) -> Generator[Callable[[str, int], None], None, None]:
    """Yield a function to call with the name of each step as it begins, and the number of all steps of its phase. The first
    call of a phase begins to show its progress, as `steps_shown` does: one that follows all steps, or has another number."""
    with ExitStack() as stack:
        show: Callable[[str], None] | None = None
        steps = begun = 0

        def begin(step: str, total: int) -> None:
            nonlocal show, steps, begun
            if show is None or total != steps or begun == steps:
                stack.close()
                show, steps, begun = stack.enter_context(steps_shown(doing, total, line_every_s)), total, 0
            show(step)
            begun += 1

        yield begin


@contextmanager
def steps_shown(doing: str, total: int, line_every_s: float | None = None) -> Generator[Callable[[str], None], None, None]:
    """Yield a function to call with the name of each step as it begins, from any thread. It shows progress on stderr. Progress
    is a bar on a terminal; elsewhere it is a line, at most one every `line_every_s`, which is LINE_EVERY_S by default."""
    every_s = LINE_EVERY_S if line_every_s is None else line_every_s
    terminal = Console(emoji=False, stderr=True, highlight=False, soft_wrap=True)
    columns = TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    begun, printed_s, lock = 0, time.monotonic(), Lock()
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def show(step: str) -> None:
            nonlocal begun, printed_s
            with lock:
                bar.update(task, completed=begun, description=escape(step))
                if not terminal.is_terminal and time.monotonic() - printed_s >= every_s:
                    terminal.print(f"{doing}: {begun} of {total} done, next {step}", markup=False)
                    printed_s = time.monotonic()
                begun += 1

        yield show


def refuse(message: str, code: int = BAD_INPUT) -> NoReturn:
    """Print one line to stderr and exit with 2, or with this code."""
    complain(message)
    raise typer.Exit(code)


def complain(message: str) -> None:
    """Print one line to stderr, whatever the message has in it, and however long it is."""
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[:LONGEST_MESSAGE // 2]} .. {message[-LONGEST_MESSAGE // 2:]}"
    line = "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in message)
    Console(emoji=False, stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(line)}")


announced: list[str] = []  # lines that the command prints on stderr when it ends, unless it refuses its input


def announce(scenario: str, at_once: bool = False) -> None:
    """Print on stderr which project, protocol and scenario a command runs, as `announce_names` does."""
    announce_names([named(scenario).protocol], [scenario], at_once)


def announce_names(protocols: Iterable[str], scenarios: Iterable[str] = (), at_once: bool = False) -> None:
    """Print on stderr which project, protocols and scenarios a command runs: at its end, or at once if it takes long. A
    refusal of bad input remains one line."""
    current = project.current()
    parts = [f"project {current.folder}" if current else "no project"]
    parts += [counted(noun, list(dict.fromkeys(names))) for noun, names in (("protocol", protocols), ("scenario", scenarios))]
    announced.append(", ".join(filter(None, parts)))
    if at_once:
        print_announced()


def print_announced() -> None:
    while announced:
        Console(emoji=False, stderr=True, highlight=False, soft_wrap=True).print(announced.pop(0), markup=False)


def counted(noun: str, names: list[str]) -> str:
    """Name one or a few things; more are counted."""
    if len(names) > NAMED_AT_MOST:
        return f"{len(names)} {noun}s"
    return f"{noun}{'s' * (len(names) > 1)} {' and '.join(names)}" if names else ""


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
        stem = resolved(protocol, scenario)
    except LookupError as error:
        refuse(str(error))
    project.leave_for(stem)
    return stem


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
