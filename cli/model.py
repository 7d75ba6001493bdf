"""highwater model: explore | conform | prove."""

import ast
from typing import Annotated

import typer
from rich.table import Table

from cli.console import console, refuse
from cli.exits import INCOMPLETE, OF_KIND, PROOF, SAFETY, worst
from model import sequenced_metadata_boundary as protocol
from model.core import Exploration, Model, Step, explore

app = typer.Typer(no_args_is_help=True)
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, a constant of the model; may be repeated")]


def constants_of(settings: list[str] | None) -> protocol.Constants:
    values = {}
    for setting in settings or ():
        name, _, text = setting.partition("=")
        if name not in protocol.Constants._fields:
            refuse(f"there is no constant {name!r}; there are {', '.join(protocol.Constants._fields)}")
        try:
            values[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[name] = text
        if type(values[name]) is not type(getattr(protocol.Constants(), name)):
            refuse(f"{setting!r}: {name} is {getattr(protocol.Constants(), name)!r} unless set; give one like it")
        if name == "CHECK" and values[name] not in ("after", "before", "off"):
            refuse(f"{setting!r}: CHECK is after, before or off")
        if type(values[name]) is int and not (name in ("WRITERS", "MAX_ID")) <= values[name] <= 100:
            refuse(f"{setting!r}: {name} is from {int(name in ('WRITERS', 'MAX_ID'))} to 100")
    return protocol.Constants(**values)


@app.command("explore")
def explore_command(settings: Settings = None, max_states: Annotated[int | None, typer.Option(min=1)] = None) -> None:
    """Visit every state of an instance, or print a shortest counterexample."""
    model = protocol.model(constants_of(settings))
    with console.status("exploring") as status:
        found = explore(model, max_states, lambda states, depth: status.update(f"exploring: {states:,} states, depth {depth}"))
    console.print(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}"
                  + ("" if found.complete or found.violated else ", NOT complete: stopped at the bound"))
    if found.never:
        console.print(f"never witnessed: {', '.join(found.never)}")
    if found.violated:
        console.print(told(model, found))
        raise typer.Exit(SAFETY)
    if not found.complete:
        raise typer.Exit(INCOMPLETE)


def told(model: Model, found: Exploration) -> str:
    """A counterexample, step by step, with what changed."""
    doc = " ".join((model.always[found.violated][1].__doc__ or "").split())
    lines = [f"[bold red]{found.violated} fails[/]: {doc}", ""]
    before: Step | None = None
    for number, step in enumerate(found.trace):
        process, action, choices = step.label
        lines.append(f"{number:3} [bold]{process + '.' if process else ''}{action}[/]{choices or ''}")
        lines += [f"      {change}" for change in changes(model, before, step)]
        before = step
    return "\n".join(lines)


def changes(model: Model, before: Step | None, after: Step) -> list[str]:
    if before is None:
        return []
    parts = [("", before.state.shared, after.state.shared)]
    parts += [(f"{p.name} ", old, new) for p, old, new in zip(model.processes, before.state.locals, after.state.locals)]
    return [f"{name}{field}: {plain(x)} → {plain(y)}" for name, old, new in parts if old != new
            for field, x, y in zip(old._fields, old, new) if x != y]


def plain(value: object) -> str:
    """Sets in order, and without their wrappings."""
    if hasattr(value, "_asdict"):
        return "{" + ", ".join(f"{k} {plain(v)}" for k, v in value._asdict().items()) + "}"
    if isinstance(value, frozenset):
        return "{" + ", ".join(plain(v) for v in sorted(value)) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(plain(v) for v in value) + ")"
    return repr(value)


@app.command("conform")
def conform_command(ids: Annotated[list[str] | None, typer.Argument(help="rows of specs/manifest.toml; all")] = None,
                    no_cache: Annotated[bool, typer.Option("--no-cache", help="run FizzBee anew")] = False) -> None:
    """Hold FizzBee's verdicts and state graphs against the model's."""
    from cli.conform import conform
    from specs.fizz import Fizz, FizzMissing
    from specs.manifest import rows

    known = {row.id: row for row in rows()}
    unknown = [name for name in ids or () if name not in known]
    if unknown:
        refuse(f"there is no run {unknown[0]!r} in specs/manifest.toml; there are {', '.join(known)}")
    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        console.print(f"[bold yellow]skipped[/]: {error}")
        raise typer.Exit(INCOMPLETE) from None
    codes = []
    for row in [known[name] for name in ids or known]:
        with console.status(row.id):
            result = conform(row, fizz, cache=not no_cache)
        codes.append(0 if result.ok else OF_KIND.get(result.kind, 16))
        console.print(f"{'[green]ok  [/]' if result.ok else '[bold red]FAIL[/]'} {row.id:24} {result.figure}  {result.message}")
    raise typer.Exit(worst(codes))


@app.command("prove")
def prove_command(settings: Settings = None) -> None:
    """Prove the safety properties for any number of clients, ids, checkpoints and requests under way."""
    from model.proofs.sequenced_metadata_boundary import prove

    with console.status("proving") as status:
        proof = prove(constants_of(settings), lambda row: status.update(f"proving {row.action}"))
    table = Table("action", "clauses", "ms", "verdict")
    for action in dict.fromkeys(row.action for row in proof.rows):
        rows = [row for row in proof.rows if row.action == action]
        failing = [f"{row.clause} {row.verdict}" for row in rows if row.verdict != "proved"]
        failing += [] if proof.possible.get(action, True) else ["never possible: its guard contradicts the invariant"]
        table.add_row(action, str(len(rows)), f"{sum(row.ms for row in rows):.0f}", ", ".join(failing) or "proved")
    console.print(table)
    console.print(f"{len(proof.rows):,} queries, {proof.ms:,.0f} ms" +
                  (f"; switched off: {', '.join(proof.disabled)}" if proof.disabled else ""))
    for action, row in {row.action: row for row in reversed(proof.rows) if row.verdict != "proved"}.items():
        console.print(f"[bold red]{action} does not keep {row.clause}[/]")
        console.print(row.counterexample, markup=False)
    if not proof.holds:
        raise typer.Exit(PROOF)
