"""highwater model conform: compare specs with their models, and accept what a table of runs should say."""

import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from highwater import project
from highwater.cli.console import LINE_EVERY_S, announce_names, console, refuse
from highwater.cli.instances import module_of, of_user
from highwater.gate.exits import INCOMPLETE, OF_KIND, worst
from highwater.messages import meant

if TYPE_CHECKING:
    from highwater.conformance.conform import Result
    from highwater.model.core import Progress
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.runs import Row

LARGE = 1_000_000  # states: a row that must fail and has more gets a warning


def conform_command(ids: Annotated[list[str] | None, typer.Argument(help="ids of rows in specs/*.toml, or in the spec.toml of "
                                                                    "--project [default: all]")] = None,
                    no_cache: Annotated[bool, typer.Option("--no-cache", help="ignore cached results")] = False,
                    accept: Annotated[bool, typer.Option("--accept", help=(
                        "write the numbers of states, and what never fires or is never witnessed, into the rows; only where "
                        "spec and model are equal, and never an expected verdict"))] = False) -> None:
    """Compare FizzBee's verdicts and state graphs with the model's. A protocol without a .fizz is compared with its rows
    alone."""
    new, code = begin_tables() if accept else [], INCOMPLETE
    try:
        code = conform_rows(ids, accept, not no_cache)
    finally:
        for path in new if code else ():
            path.unlink()
    raise typer.Exit(code)


def conform_rows(ids: list[str] | None, accept: bool, cache: bool) -> int:
    """Compare the rows with these ids, or accept what they should say. Returns the exit code."""
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing

    wanted = rows_named(ids)
    if not wanted:
        console.print("[bold yellow]skipped[/]: there is no spec.toml, so nothing is compared; --accept writes one")
        return INCOMPLETE
    announce_names(row.stem for row in wanted)
    for spec in dict.fromkeys(row.spec for row in wanted if not row.path.is_file()):
        console.print(f"{spec}: no .fizz: the model is not held against FizzBee", markup=False)
    try:
        fizz = Fizz.find() if any(row.path.is_file() for row in wanted) else None
    except FizzMissing as error:
        console.print(f"[bold yellow]skipped[/]: {error}")
        return INCOMPLETE
    return accept_rows(wanted, fizz, cache) if accept else compare(wanted, fizz, cache)


def rows_named(ids: list[str] | None) -> list["Row"]:
    """Return the rows with these ids, or all rows. Refuses an unknown id and a table that is not well formed."""
    from highwater.specs.runs import rows

    try:
        known = {row.id: row for row in rows()}
    except ValueError as error:
        refuse(f"{error}")
    unknown = [name for name in ids or () if name not in known]
    if unknown:
        where = "spec.toml" if project.current() else "specs/*.toml"
        refuse(f"there is no run {unknown[0]!r} in {where}{meant(unknown[0], known)}; choose one of {', '.join(known)}")
    return [known[name] for name in ids or known]


def compare(rows: Iterable["Row"], fizz: "Fizz | None", cache: bool) -> int:
    """Compare each row, print the results, and return the exit code."""
    from highwater.conformance.conform import conform

    codes = []
    for row in rows:
        with searching(row) as progress, of_user(module_of(row.stem)):
            result = conform(row, fizz if row.path.is_file() else None, cache=cache, progress=progress)
        codes.append(show(result))
    return worst(codes)


@contextmanager
def searching(row: "Row") -> Generator["Progress", None, None]:
    """Yield a function to call with (states, depth) of a search. It shows progress: on a terminal in the status line, elsewhere
    as a line on stderr, at most one every `LINE_EVERY_S`. It warns once of a row that must fail and is large."""
    printed_s, warned = time.monotonic(), False
    with console.status(row.id) as status:
        def show(states: int, depth: int) -> None:
            nonlocal printed_s, warned
            status.update(f"{row.id}: {states:,} states, depth {depth}")
            if not console.is_terminal and time.monotonic() - printed_s >= LINE_EVERY_S:
                typer.echo(f"{row.id}: {states:,} states, depth {depth}", err=True)
                printed_s = time.monotonic()
            if not warned and states > LARGE and row.expect == "FAILED" and row.states and not row.path.is_file():
                typer.echo(f"warning: {row.id} counts its whole graph, more than {LARGE:,} states: without `states` in the "
                           "row, the search ends at the violation", err=True)
                warned = True

        yield show


def show(result: "Result") -> int:
    """Print one result, and return its exit code."""
    console.print(f"{'[green]ok  [/]' if result.ok else '[bold red]FAIL[/]'} {result.row.id:24} {result.figure}  "
                  f"{escape(result.message)}")
    return 0 if result.ok else OF_KIND.get(result.kind, 16)


# --- accepting

def begin_tables() -> list[Path]:
    """Write a table with one row for each of the project's protocols that has none. Returns the new files."""
    from highwater.conformance.accept import begin

    current = project.current()
    stems = [stem for stem in (current.packages if current else ())
             if project.has("model", stem) and not project.spec(stem, ".toml").is_file()]
    return [begin(stem) for stem in stems]


def in_words(row: "Row") -> str:
    """Say what is accepted of a row, so that its author can see what is not checked there."""
    said = [f"{row.states:,} states" if row.states else "not counted: the search ends at the violation"]
    said += [f"{what}: {', '.join(names)}" for what, names in (
        ("never fires", row.silent), ("never witnessed", row.never)) if names]
    return f"     {'; '.join(said)}"


def accept_rows(rows: list["Row"], fizz: "Fizz | None", cache: bool) -> int:
    """Write the figures of these rows, if every one of them then passes. Returns the exit code."""
    from highwater.conformance.accept import accepted, write

    codes, changed = [], []
    for row in rows:
        with searching(row) as progress, of_user(module_of(row.stem)):
            found = accepted(row, fizz if row.path.is_file() else None, cache, progress)
        codes.append(show(found.result))
        if found.result.ok and found.changed:
            console.print(in_words(found.row), markup=False)
        changed += [found.row] if found.changed else []
    if worst(codes):
        console.print("[bold red]nothing is accepted[/]: a row fails whatever its figures are")
        return worst(codes)
    try:
        files = write(changed)
    except (OSError, ValueError) as error:
        refuse(str(error))
    console.print("\n".join(f"written: {path}" for path in files) or "every row is as it should be: nothing is written",
                  markup=False)
    return 0
