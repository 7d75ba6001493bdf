"""highwater dst lint: look in the source for causes of nondeterminism."""

import typer

from highwater.cli.console import console, steps_shown
from highwater.gate.exits import NONDETERMINISM


def lint_command() -> None:
    """Look for causes of nondeterminism: the order of sets, time, addresses, threads and the like."""
    from highwater.dst.determinism.lint import HAZARDS, lint, sources
    from highwater.dst.determinism.lint_allowed import ALLOWED

    with steps_shown("looking for hazards", len(sources())) as show:
        found, unused = lint(begin=show)
    for finding in found:
        console.print(str(finding), markup=False)
    for entry in unused:
        console.print(f"dst/determinism/lint_allowed.py: {entry.file}: {entry.hazard}: {entry.code}\n    is allowed, but "
                      "does not occur: remove the entry", markup=False)
    if found or unused:
        raise typer.Exit(NONDETERMINISM)
    console.print(f"[green]ok[/]: none of {len(HAZARDS)} kinds of hazards, except {len(ALLOWED)} allowed with a reason")
