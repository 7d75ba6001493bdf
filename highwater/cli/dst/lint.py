"""highwater dst lint: look in the source for causes of nondeterminism."""

from typing import Any

import typer

from highwater import project
from highwater.cli.console import console, refuse, steps_shown
from highwater.gate.exits import NONDETERMINISM


def lint_command() -> None:
    """Look for causes of nondeterminism: the order of sets, time, addresses, threads and the like."""
    from highwater.dst.determinism.lint import HAZARDS, lint, of_project, sources
    from highwater.dst.determinism.lint_allowed import ALLOWED, PROTOCOLS, Allowed

    wanted: dict[str, Any] = {"files": of_project(), "allowed": ()} if project.current() else {}
    try:
        if wanted:
            wanted["allowed"] = [Allowed(**entry) for entry in project.settings().get("allowed", ())]
        with steps_shown("looking for hazards", len(wanted.get("files") or sources())) as show:
            found, unused = lint(begin=show, **wanted)
    except SyntaxError as error:
        refuse(project.raised(error))
    except TypeError as error:
        refuse(f"{project.FILE}: [[allowed]] has the fields {', '.join(Allowed._fields)}: {error}")
    for finding in found:
        console.print(str(finding), markup=False)
    for entry in unused:
        ours = "lint_allowed_protocols.toml" if entry in PROTOCOLS else "lint_allowed.py"
        place = project.FILE if project.current() else f"dst/determinism/{ours}"
        console.print(f"{place}: {entry.file}: {entry.hazard}: {entry.code}\n    is allowed, but does not occur: remove the "
                      "entry", markup=False)
    if found or unused:
        raise typer.Exit(NONDETERMINISM)
    allowed = len(wanted.get("allowed", ALLOWED))
    console.print(f"[green]ok[/]: none of {len(HAZARDS)} kinds of hazards, except {allowed} allowed with a reason")
