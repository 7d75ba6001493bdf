"""Print what `highwater verify` does: its progress, a line for each protocol, and every failure at once and at the end.

Safety: every row that failed or was skipped is printed with its reason, and the last line has the exit code. Where there is no
terminal, a gate without failures prints at most MOST_LINES lines. All rows are in the reports.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from highwater.cli.console import console
from highwater.dst.scenario import counted
from highwater.gate import reports
from highwater.gate.gate import Gate
from highwater.gate.reports import Ended
from highwater.gate.rows import Check, Row

COLOURS = {"ok": "green", "kept": "green", "skipped": "yellow", "FAILED": "bold red"}
MOST_LINES = 60
MINUTE_S = 60.0
EVERY_MINUTE = 12  # lines of progress that are a minute apart
GROWTH = 1.5  # of each later pause, so that a gate of ten hours has 25 lines of progress
COUNT_LENGTH = 26  # of the bar's count, time and spaces: "1234 of 1458", "10:00:00"
NAME_LENGTH = 60  # of a running check in a line of progress


@contextmanager
def progress(gate: Gate, every_row: bool) -> Generator[Callable[[Row], None], None, None]:
    """Show the progress of a gate. Yield a function to call with each row as it ends."""
    if gate.kept:
        console.print(f"{len(gate.kept)} of {len(gate.checks)} verdicts are kept; --anew runs every check")
    if gate.asked.again and gate.kept:
        console.print(f"run again: {len(gate.drawn)} of them, drawn by --draw {gate.draw}")
    room = max(console.width - COUNT_LENGTH, 12)
    bar_column = BarColumn(min(40, room // 3))
    columns = bar_column, TextColumn("{task.completed} of {task.total}"), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar, lines(gate):
        def running() -> str:
            return escape(names(gate.running(), room - room // 3))

        task = bar.add_task(running(), total=len(gate.left))

        def ended(row: Row) -> None:
            bar.update(task, advance=1, description=running())
            if every_row:
                console.print(line_of(row, len(gate.ended), len(gate.left)), markup=False)
            if row.verdict == "FAILED":
                print_reason(row)
            if row.protocol not in {gate.checks[number].protocol for number in gate.unfinished()}:
                console.print(line_of_protocol(gate, row.protocol), markup=False)

        yield ended


@contextmanager
def lines(gate: Gate) -> Generator[None, None, None]:
    """Print a line of progress after each of `pauses()`, if there is no terminal."""
    stop, begun = Event(), monotonic()

    def print_lines() -> None:
        for pause in pauses():
            if stop.wait(pause):
                return
            console.print(line_of_progress(gate, monotonic() - begun), markup=False)

    thread = Thread(target=print_lines, daemon=True)
    if not console.is_terminal:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if thread.is_alive():
            thread.join()


def pauses() -> Iterator[float]:
    """Yield the seconds between two lines of progress: a minute at first, and later more, so that a long gate has few lines."""
    pause = MINUTE_S
    for _ in range(EVERY_MINUTE):
        yield pause
    while True:
        pause *= GROWTH
        yield pause


def line_of_progress(gate: Gate, seconds: float) -> str:
    left = len(gate.unfinished())
    return f"{seconds / MINUTE_S:.0f} min: {left:,} of {len(gate.left):,} checks left; running: {names(gate.running())}"


def names(checks: Iterable[Check], longest: int | None = None) -> str:
    """Name the checks, each in NAME_LENGTH characters, and all in `longest`."""
    text = " | ".join(short(f"{check.protocol}: {check.part}: {check.what}", NAME_LENGTH) for check in checks)
    return short(text, longest or len(text))


def short(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[:longest - 2]}.."


def line_of_protocol(gate: Gate, protocol: str) -> str:
    """Return the line of a protocol whose checks have all ended: their number, the sum of their seconds, and the verdict."""
    own = [row for check, row in zip(gate.checks, gate.rows) if row and check.protocol == protocol]
    count = Counter(row.verdict for row in own)
    kept = f" ({count['kept']} kept)" if count["kept"] else ""
    wrong = [f"{count[verdict]} {verdict}" for verdict in ("FAILED", "skipped") if count[verdict]]
    seconds = sum(map(reports.taken, own))
    return f"{protocol}: {counted(len(own), 'check')}{kept}, {seconds:.0f} s: {', '.join(wrong) or 'ok'}"


def line_of(row: Row, done: int, total: int) -> str:
    figure = f"exit {row.code}: {row.message}" if row.code else row.figures
    number = f"{done:>{len(str(total))}}/{total}"
    return f"{number} {row.verdict:<7} {row.seconds:6.1f} s  {row.protocol}: {row.part}: {row.what}: {figure}"


def print_reason(row: Row) -> None:
    """Print why a row failed or was skipped."""
    where = f"{row.protocol}, {row.part}, {row.what}"
    console.print(f"[{COLOURS[row.verdict]}]{row.verdict}[/] {escape(where)} (exit {row.code}): ", end="")
    console.print(row.message, markup=False)


def print_end(ended: Ended, every_row: bool, notes: Iterable[str], files: Iterable[Path]) -> None:
    """Print every failure and every skipped row, and as the last line how many rows of each kind there are."""
    if every_row:
        console.print(table_of(ended.rows))
    for row in ended.rows:
        if row.code:
            print_reason(row)
    for note in notes:
        console.print(note, markup=False)
    if ended.cut:
        console.print(f"[bold red]{ended.cut}[/]")
    counts, places = reports.counted(ended.rows), ", ".join(map(str, files))
    console.print(f"{counts} in {ended.seconds:.0f} s: exit {ended.code}; every row: {places}", markup=False)


def table_of(rows: list[Row]) -> Table:
    table = Table("protocol", "part", "what", "figure", "s", "verdict")
    for row, before in zip(rows, ["", *(row.protocol for row in rows)]):
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        name = "" if row.protocol == before else row.protocol
        table.add_row(*map(escape, (name, row.part, row.what, row.figures)), "" if row.kept else f"{row.seconds:.1f}", verdict)
    return table
