"""highwater dst lint: look in the source for causes of nondeterminism."""

import typer

from highwater import project
from highwater.cli.console import console, refuse, steps_shown
from highwater.gate.exits import NONDETERMINISM


def lint_command() -> None:
    """Look for causes of nondeterminism: the order of sets, time, addresses, threads and the like."""
    from highwater.dst.determinism.lint import HAZARDS, lint, searched
    from highwater.dst.determinism.lint_allowed import PROTOCOLS

    try:
        files, allowed = searched()
        with steps_shown("looking for hazards", len(files)) as show:
            found, unused = lint(begin=show, files=files, allowed=allowed)
    except SyntaxError as error:
        refuse(project.raised(error))
    except project.ProjectError as error:
        refuse(str(error))
    for finding in found:
        console.print(str(finding), markup=False)
    for entry in unused:
        ours = "lint_allowed_protocols.toml" if entry in PROTOCOLS else "lint_allowed.py"
        place = project.FILE if project.current() else f"dst/determinism/{ours}"
        console.print(f"{place}: {entry.file}: {entry.hazard}: {entry.code}\n    is allowed, but does not occur: remove the "
                      "entry", markup=False)
    if found or unused:
        raise typer.Exit(NONDETERMINISM)
    console.print(f"[green]ok[/]: none of {len(HAZARDS)} kinds of hazards, except {len(allowed)} allowed with a reason")
