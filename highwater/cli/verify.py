"""highwater verify: run every check, and print one row for each. The exit code is the class of the worst failure.

Safety: the exit code is 0 only if every check ran to its end and had the expected result. A check that could not run has a
row too, and makes the exit code 3 (incomplete).
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from highwater import project
from highwater.cli.console import console, refuse, write_text
from highwater.gate import checks, engines
from highwater.gate.checks import CORES, Check, Row, timed
from highwater.gate.exits import worst


def verify(protocol: Annotated[list[str] | None, typer.Option(help="only this protocol, or 'engines'; may be repeated")] = None,
           seeds: Annotated[int, typer.Option(min=2, help="number of seeds to simulate for each protocol")] = 10_000,
           campaign: Annotated[int, typer.Option(min=2, help="number of seeds to run on Spark")] = 2_000,
           report: Annotated[Path, typer.Option("--json", help="write the table here, as JSON")] = Path("out/verify.json"),
           ) -> None:
    """Check everything: specs, models, proofs, simulation, mutants, campaign."""
    protocols = [protocol_of(name) for name in protocol or all_protocols()]
    write_text(report, "")  # fail now, not after all checks, if it cannot be written
    start = time.monotonic()
    found = []
    columns = (SpinnerColumn(), TextColumn("{task.completed}/{task.total} {task.description}"), TimeElapsedColumn())
    every = [check for name in protocols for check in checks_of(name, seeds, campaign)]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(every))
        for part, group in groupby(every, lambda check: check.part):
            of_part = list(group)
            with ThreadPoolExecutor(CORES if part == "spec" else 1) as pool:  # FizzBee is a process of its own
                for check, row in zip(of_part, pool.map(timed, of_part)):
                    found.append(row)
                    progress.update(task, advance=1, description=f"{check.protocol}: {check.part}: {check.what}")
    code = worst(row.code for row in found)
    show(found, code, time.monotonic() - start)
    document = {"exit": code, "rows": [{**row._asdict(), "verdict": row.verdict} for row in found]}
    write_text(report, json.dumps(document, indent=1) + "\n")
    raise typer.Exit(code)


def all_protocols() -> list[str]:
    """List what can be verified: all protocols, of which some have a model but no scenario, and our engines."""
    protocols = sorted({*project.stems("scenario"), *project.stems("model")})
    return protocols if project.current() else [engines.GROUP, *protocols]


def protocol_of(name: str) -> str:
    if name not in all_protocols():
        refuse(f"there is no protocol {name!r}; choose one of: {', '.join(all_protocols())}")
    return name


def checks_of(protocol: str, seeds: int, campaign: int) -> Iterator[Check]:
    if protocol == engines.GROUP:
        return engines.checks(campaign)
    return checks.of_protocol(protocol, seeds, project.has("scenario", protocol))


def show(rows: list[Row], code: int, seconds: float) -> None:
    table = Table("protocol", "part", "what", "figure", "s", "verdict")
    colours = {"ok": "green", "skipped": "yellow", "FAILED": "bold red"}
    for row, before in zip(rows, ["", *(row.protocol for row in rows)]):
        verdict = f"[{colours[row.verdict]}]{row.verdict}[/]"
        name = "" if row.protocol == before else row.protocol
        table.add_row(name, row.part, row.what, row.figure, f"{row.seconds:.1f}", verdict)
    console.print(table)
    for row in rows:
        if row.code:
            where = f"{row.protocol}, {row.part}, {row.what}"
            console.print(f"[{colours[row.verdict]}]{row.verdict}[/] {where} (exit {row.code}): ", end="")
            console.print(row.message, markup=False)
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in colours}
    console.print(f"{count['ok']} ok, {count['FAILED']} failed, {count['skipped']} skipped in {seconds:.0f} s: exit {code}")
