"""highwater verify: run every check, and print one row for each. The exit code is the class of the worst failure.

Safety: the exit code is 0 only if every check ran to its end and had the expected result, now or when its verdict was kept. A
check that could not run has a row too, and makes the exit code 3 (incomplete).
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from highwater import project
from highwater.cli.console import check_writable, console, refuse, write_text
from highwater.gate import checks, engines, kept, reports
from highwater.gate.exits import worst
from highwater.gate.gate import Asked, Gate
from highwater.gate.rows import Check, Row
from highwater.gate.run import cores
from highwater.gate.sizes import DEEP, GATE, Size

COLOURS = {"ok": "green", "kept": "green", "skipped": "yellow", "FAILED": "bold red"}
PAGE = "GITHUB_STEP_SUMMARY"  # where it is set, a file of Markdown that the page of a CI run shows


def verify(protocol: Annotated[list[str] | None, typer.Option(help="only this protocol, or 'engines'; may be repeated")] = None,
           deep: Annotated[bool, typer.Option("--deep", help="the same rows with more seeds and larger instances")] = False,
           seeds: Annotated[int | None, typer.Option(min=2, help="seeds to simulate of each scenario, instead of the gate's "
                                                     "number")] = None,
           campaign: Annotated[int | None, typer.Option(min=2, help="seeds to run on Spark, likewise")] = None,
           anew: Annotated[bool, typer.Option("--anew", help="run every check, and use no kept verdict")] = False,
           again: Annotated[float, typer.Option(min=0, max=100, help="per cent of the kept rows to run again; one that comes "
                                                "out differently fails with exit code 14")] = 0,
           draw: Annotated[int | None, typer.Option(help="the seed that draws the rows of --again")] = None,
           jobs: Annotated[int | None, typer.Option(min=1, help="checks to run at a time [default: one for each core]")]
           = None,
           report: Annotated[Path, typer.Option("--json", help="write the table here, as JSON")] = Path("out/verify.json"),
           junit: Annotated[Path | None, typer.Option(help="write the rows here, as JUnit's XML")] = None,
           summary: Annotated[Path | None, typer.Option(help="write a summary in Markdown here. It is also added to the file "
                                                        f"that ${PAGE} names")] = None,
           ) -> None:
    """Check everything: specs, models, proofs, simulation, mutants, campaign."""
    protocols = [protocol_of(name) for name in protocol or all_protocols()]
    for path in filter(None, (junit, summary)):
        check_writable(path)
    write_text(report, "")  # fail now, not after all checks, if it cannot be written
    start, size = time.monotonic(), DEEP if deep else GATE
    size = size._replace(seeds=seeds or size.seeds, campaign=campaign or size.campaign)
    gate = Gate([check for name in protocols for check in checks_of(name, size)], Asked(jobs or cores(), anew, again, draw),
                kept.Verdicts(kept.folder()))
    if gate.kept:
        console.print(f"{len(gate.kept)} of {len(gate.checks)} verdicts are kept; --anew runs every check")
    if again and gate.kept:
        console.print(f"run again: {len(gate.drawn)} of them, drawn by --draw {gate.draw}")
    run(gate)
    found, seconds = [row for row in gate.rows if row], time.monotonic() - start
    code = worst(row.code for row in found)
    show(found, code, seconds)
    write(found, code, seconds, report, junit, summary)
    raise typer.Exit(code)


def all_protocols() -> list[str]:
    """List what can be verified: all protocols, of which some have a model but no scenario, and our engines."""
    if current := project.current():
        return sorted(current.packages)  # also one without any module: the gate says what is missing
    return [engines.GROUP, *sorted({*project.stems("scenario"), *project.stems("model")})]


def protocol_of(name: str) -> str:
    if name not in all_protocols():
        refuse(f"there is no protocol {name!r}; choose one of: {', '.join(all_protocols())}")
    return name


def checks_of(protocol: str, size: Size) -> Iterator[Check]:
    if protocol == engines.GROUP:
        return engines.checks(size)
    return checks.of_protocol(protocol, size, project.has("scenario", protocol))


def run(gate: Gate) -> None:
    """Run what is left, and print a line for each row as it ends."""
    columns = (SpinnerColumn(), TextColumn("{task.completed} of {task.total}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(gate.left))
        for done, row in enumerate(gate.run(), 1):
            progress.update(task, advance=1)
            console.print(line_of(row, done, len(gate.left)), markup=False)


def line_of(row: Row, done: int, total: int) -> str:
    said = f"exit {row.code}: {row.message}" if row.code else row.figures
    number = f"{done:>{len(str(total))}}/{total}"
    return f"{number} {row.verdict:<7} {row.seconds:6.1f} s  {row.protocol}: {row.part}: {row.what}: {said}"


def show(rows: list[Row], code: int, seconds: float) -> None:
    table = Table("protocol", "part", "what", "figure", "s", "verdict")
    for row, before in zip(rows, ["", *(row.protocol for row in rows)]):
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        name = "" if row.protocol == before else row.protocol
        table.add_row(name, row.part, row.what, row.figures, "" if row.kept else f"{row.seconds:.1f}", verdict)
    console.print(table)
    for row in rows:
        if row.code:
            where = f"{row.protocol}, {row.part}, {row.what}"
            console.print(f"[{COLOURS[row.verdict]}]{row.verdict}[/] {where} (exit {row.code}): ", end="")
            console.print(row.message, markup=False)
    console.print(f"{reports.counted(rows)} in {seconds:.0f} s: exit {code}")


def write(rows: list[Row], code: int, seconds: float, report: Path, junit: Path | None, summary: Path | None) -> None:
    write_text(report, reports.as_json(rows, code))
    if junit:
        write_text(junit, reports.as_junit(rows, seconds))
    text = reports.as_markdown(rows, code, seconds)
    if summary:
        write_text(summary, text)
    if os.environ.get(PAGE):
        with open(os.environ[PAGE], "a") as page:
            page.write(text)
