"""highwater verify: run every check, and print one row for each. The exit code is the class of the worst failure.

Safety: the exit code is 0 only if every check ran to its end and had the expected result, now or when its verdict was kept. A
check that could not run has a row too, and makes the exit code 3 (incomplete). After Ctrl-C the exit code is 130, and the table
and all reports say how many checks have no row.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from highwater import project
from highwater.cli.console import check_writable, console, refuse, write_text
from highwater.gate import checks, engines, kept, reports
from highwater.gate.exits import INTERRUPTED, MEANING, worst
from highwater.gate.gate import Asked, Gate
from highwater.gate.reports import Ended
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
    gate, cut = None, ""
    try:
        gate = Gate([check for name in protocols for check in checks_of(name, size)], Asked(jobs or cores(), anew, again, draw),
                    kept.Verdicts(kept.folder()))
        run(gate)
    except KeyboardInterrupt:
        cut = cut_short(gate)
    rows = [row for row in gate.rows if row] if gate else []
    code = INTERRUPTED if cut else worst(row.code for row in rows)
    ended = Ended(rows, code, time.monotonic() - start, cut)
    show(ended)
    write(ended, report, junit, summary)
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
    if gate.kept:
        console.print(f"{len(gate.kept)} of {len(gate.checks)} verdicts are kept; --anew runs every check")
    if gate.asked.again and gate.kept:
        console.print(f"run again: {len(gate.drawn)} of them, drawn by --draw {gate.draw}")
    columns = (SpinnerColumn(), TextColumn("{task.completed} of {task.total}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(gate.left))
        with closing(gate.run()) as rows:  # after Ctrl-C no check's process is left
            for done, row in enumerate(rows, 1):
                progress.update(task, advance=1)
                console.print(line_of(row, done, len(gate.left)), markup=False)


def cut_short(gate: Gate | None) -> str:
    """Say in one line what Ctrl-C has left out."""
    unrun = f"{gate.rows.count(None)} of {len(gate.checks)} checks have no verdict" if gate else "no check had begun"
    return f"{MEANING[INTERRUPTED]}: {unrun}"


def line_of(row: Row, done: int, total: int) -> str:
    said = f"exit {row.code}: {row.message}" if row.code else row.figures
    number = f"{done:>{len(str(total))}}/{total}"
    return f"{number} {row.verdict:<7} {row.seconds:6.1f} s  {row.protocol}: {row.part}: {row.what}: {said}"


def show(ended: Ended) -> None:
    table = Table("protocol", "part", "what", "figure", "s", "verdict")
    for row, before in zip(ended.rows, ["", *(row.protocol for row in ended.rows)]):
        verdict = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
        name = "" if row.protocol == before else row.protocol
        table.add_row(name, row.part, row.what, row.figures, "" if row.kept else f"{row.seconds:.1f}", verdict)
    console.print(table)
    for row in ended.rows:
        if row.code:
            where = f"{row.protocol}, {row.part}, {row.what}"
            console.print(f"[{COLOURS[row.verdict]}]{row.verdict}[/] {where} (exit {row.code}): ", end="")
            console.print(row.message, markup=False)
    if ended.cut:
        console.print(f"[bold red]{ended.cut}[/]")
    console.print(f"{reports.counted(ended.rows)} in {ended.seconds:.0f} s: exit {ended.code}")


def write(ended: Ended, report: Path, junit: Path | None, summary: Path | None) -> None:
    write_text(report, reports.as_json(ended))
    if junit:
        write_text(junit, reports.as_junit(ended))
    text = reports.as_markdown(ended)
    if summary:
        write_text(summary, text)
    if os.environ.get(PAGE):
        with open(os.environ[PAGE], "a") as page:
            page.write(text)
