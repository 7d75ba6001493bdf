"""highwater dst coverage: which statements of an implementation the simulation executes."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from highwater.cli.console import announce_names, console, known_scenario, refuse, steps_shown, write_text
from highwater.gate.exits import HARNESS

ASKED = 90.0  # per cent


def coverage_command(
        protocol: Annotated[str | None, typer.Option(help="only the file of this protocol's implementation")] = None,
        file: Annotated[list[Path] | None, typer.Option(help="only this file; may be repeated")] = None,
        seeds: Annotated[int, typer.Option(min=1, help="seeds of each scenario")] = 2_000,
        share: Annotated[float, typer.Option(min=0, max=100, help="the least share of statements that must be executed, in per "
                                             "cent")] = ASKED,
        functions: Annotated[bool, typer.Option("--functions", help="show each function, and not only each file")] = False,
        report: Annotated[Path | None, typer.Option("--json", help="write the figures and statements here, as JSON")] = None,
        ) -> None:
    """Run all scenarios, and show which statements of the implementation no run executes."""
    from highwater.dst.scenarios import stems
    from highwater.mutate import wanted
    from highwater.mutate.coverage import listed, measured

    if protocol:
        known_scenario(protocol)
    if report:
        write_text(report, "")
    try:
        files = wanted.files(protocol, file or ()) if protocol or file else wanted.simulated()
        entries = listed()
    except ValueError as error:
        refuse(str(error))
    announce_names((), stems(), at_once=True)
    with steps_shown("simulating", len(stems())) as show:
        found = measured(files, stems(), seeds, seeds, entries, show)
    console.print(table(found, functions))
    for unit in found.left:
        why = next((entry.reason for entry in entries if entry.is_of(unit)), "NOT LISTED")
        console.print(f"{unit.file}:{unit.line} {unit.function}: {unit.text}\n    {why}", markup=False)
    console.print(f"{len(found.units) - len(found.left):,} of {len(found.units):,} statements executed ({found.share():.1f} %) "
                  f"in {found.runs:,} runs; of the others {len(found.left) - len(found.unlisted)} are listed with a reason")
    if report:
        write_text(report, json.dumps(fields_of(found), indent=1) + "\n")
    wrong = [f"is listed, but was executed or is not there: {entry.file}, {entry.function}: {entry.line}"
             for entry in found.stale]
    if found.unlisted:
        wrong.append(f"{len(found.unlisted)} statements were not executed and are not listed with a reason")
    if found.share() < share:
        wrong.append(f"{found.share():.1f} % of the statements are executed, less than {share:g} %")
    for words in wrong:
        console.print("[bold red]wrong[/]", end=" ")
        console.print(words, markup=False)
    raise typer.Exit(HARNESS if wrong else 0)


def table(found: Any, functions: bool) -> Table:
    """Return the figures of each file, or of each function."""
    shown = Table("file", *["function"] * functions, *["statements", "executed", "%"])
    for column in shown.columns[-3:]:
        column.justify = "right"
    of = [(unit.file, unit.function) if functions else (unit.file,) for unit in found.units]
    left = Counter((unit.file, unit.function) if functions else (unit.file,) for unit in found.left)
    for name, number in sorted(Counter(of).items()):
        executed = number - left[name]
        shown.add_row(*name, f"{number}", f"{executed}", f"{100 * executed / number:.1f}")
    return shown


def fields_of(found: Any) -> dict[str, Any]:
    def named(units: list[Any]) -> list[dict[str, Any]]:
        return [unit._asdict() for unit in units]

    return {"runs": found.runs, "statements": len(found.units), "share": round(found.share(), 2), "left": named(found.left),
            "unlisted": named(found.unlisted), "stale": named(found.stale), "units": named(found.units)}
