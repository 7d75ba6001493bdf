"""highwater verify: run every check. The exit code is the class of the worst failure.

Safety: the exit code is 0 only if every check ran to its end and had the expected result, now or when its verdict was kept. A
check that could not run has a row too, and makes the exit code 3 (incomplete). After Ctrl-C the exit code is 130, and the
last lines and all reports say how many checks have no row.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from highwater import project
from highwater.cli.console import announce_names, check_writable, console, refuse, write_text
from highwater.cli.verify_output import print_end, progress
from highwater.gate import checks, engines, kept, reports, tools
from highwater.gate.exits import INCOMPLETE, INTERRUPTED, MEANING, worst
from highwater.gate.gate import Asked, Gate
from highwater.gate.reports import Ended
from highwater.gate.rows import Check
from highwater.gate.run import cores
from highwater.gate.sizes import DEEP, GATE, Size
from highwater.messages import meant

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
           only_plan: Annotated[bool, typer.Option("--plan", help="run nothing: list the rows that would be skipped here, and "
                                                   "why. Exit code 3 if there are any")] = False,
           every_row: Annotated[bool, typer.Option("--rows", help="print every row as it ends, and a table of all rows")]
           = False,
           report: Annotated[Path, typer.Option("--json", help="write all rows here, as JSON, and as Markdown into a "
                                            "file of this name that ends in .md")] = Path("out/verify.json"),
           junit: Annotated[Path | None, typer.Option(help="write the rows here, as JUnit's XML")] = None,
           summary: Annotated[Path | None, typer.Option(help="write a summary in Markdown here. It is also added to the file "
                                                        f"that ${PAGE} names")] = None,
           ) -> None:
    """Check everything: specs, models, proofs, simulation, mutants, campaign."""
    protocols = [protocol_of(name) for name in protocol or all_protocols()]
    start, size = time.monotonic(), DEEP if deep else GATE
    size = size._replace(seeds=seeds or size.seeds, campaign=campaign or size.campaign)

    def listed() -> Gate:
        return Gate([check for name in protocols for check in checks_of(name, size)], Asked(jobs or cores(), anew, again, draw),
                    kept.Verdicts(kept.folder()))

    if only_plan:
        plan(listed())
    pages = beside(report)
    for path in filter(None, (*pages, junit, summary)):
        check_writable(path)
    write_text(report, "")  # fail now, not after all checks, if it cannot be written
    announce_names(protocols, at_once=True)
    gate, cut = None, ""
    try:
        gate = listed()
        run(gate, every_row)
    except KeyboardInterrupt:
        cut = cut_short(gate)
    rows = [row for row in gate.rows if row] if gate else []
    code = INTERRUPTED if cut else worst(row.code for row in rows)
    ended = Ended(rows, code, time.monotonic() - start, cut)
    write(ended, report, pages, junit, summary)
    print_end(ended, every_row, checks.absent_parts(protocols), [*pages, report])
    raise typer.Exit(code)


def all_protocols() -> list[str]:
    """List what can be verified: all protocols, of which some have a model but no scenario, and our engines."""
    if current := project.current():
        return sorted(current.packages)  # also one without any module: the gate says what is missing
    return [engines.GROUP, *sorted({*project.stems("scenario"), *project.stems("model")})]


def protocol_of(name: str) -> str:
    if name not in all_protocols():
        refuse(f"there is no protocol {name!r}{meant(name, all_protocols())}; choose one of: {', '.join(all_protocols())}")
    return name


def checks_of(protocol: str, size: Size) -> Iterator[Check]:
    if protocol == engines.GROUP:
        return engines.checks(size)
    return checks.of_protocol(protocol, size, project.has("scenario", protocol))


def run(gate: Gate, every_row: bool) -> None:
    """Run what is left. After Ctrl-C no check's process is left."""
    with progress(gate, every_row) as ended, closing(gate.run()) as rows:
        for row in rows:
            ended(row)


def cut_short(gate: Gate | None) -> str:
    """Say in one line what Ctrl-C has left out."""
    unrun = f"{gate.rows.count(None)} of {len(gate.checks)} checks have no verdict" if gate else "no check had begun"
    return f"{MEANING[INTERRUPTED]}: {unrun}"


def plan(gate: Gate) -> NoReturn:
    """Print the checks that would be skipped here, and why. Exit with 3 if there are any."""
    unfinished = [gate.checks[number] for number in sorted(gate.unfinished())]
    skipped = tools.skipped(unfinished)
    for check, reason in skipped:
        console.print(f"{check.protocol}: {check.part}: {check.what}: {' '.join(reason.split())}", markup=False)
    console.print(f"{len(skipped):,} of {len(gate.checks):,} checks would be skipped here", markup=False)
    raise typer.Exit(INCOMPLETE if skipped else 0)


def beside(report: Path) -> list[Path]:
    """Return where the rows are written as Markdown: beside a report that is a file. Refuses a report that it would replace."""
    page = report.with_suffix(".md")
    if page == report:
        refuse(f"--json {report}: choose another ending: the rows are also written as Markdown, into {page}")
    return [page] if report.is_file() or not report.exists() else []


def write(ended: Ended, report: Path, pages: list[Path], junit: Path | None, summary: Path | None) -> None:
    write_text(report, reports.as_json(ended))
    if junit:
        write_text(junit, reports.as_junit(ended))
    text = reports.as_markdown(ended)
    if summary:
        write_text(summary, text)
    for page in pages:  # the last: --summary may name the same file, and has fewer rows
        write_text(page, text + reports.as_table(ended.rows))
    if os.environ.get(PAGE):
        with open(os.environ[PAGE], "a") as file:
            file.write(text)
