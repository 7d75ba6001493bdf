"""highwater dst lint: what may make a run differ from itself, in the source."""

import typer

from highwater.cli.console import console, steps_shown
from highwater.gate.exits import NONDETERMINISM


def lint_command() -> None:
    """Look for what may make a run differ from itself: sets' order, time, addresses, threads and the like."""
    from highwater.dst.determinism.lint import HAZARDS, lint, sources
    from highwater.dst.determinism.lint_allowed import ALLOWED

    with steps_shown("looking for hazards", len(sources())) as show:
        found, unused = lint(begin=show)
    for finding in found:
        console.print(str(finding), markup=False)
    for entry in unused:
        console.print(f"dst/determinism/lint_allowed.py: {entry.file}: {entry.hazard}: {entry.code}\n    is allowed, and is "
                      "nowhere to be found: take the entry out", markup=False)
    if found or unused:
        raise typer.Exit(NONDETERMINISM)
    console.print(f"[green]ok[/]: nothing of {len(HAZARDS)} kinds but {len(ALLOWED)} that are allowed, each for its reason")
