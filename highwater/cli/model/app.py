"""highwater model: explore | walk | step | conform | prove."""

from typing import Annotated

import typer
from rich.markup import escape

from highwater.cli.console import console, refuse
from highwater.cli.model.explore import explore_command, step_command, walk_command
from highwater.cli.model.prove import prove_command
from highwater.gate.exits import INCOMPLETE, OF_KIND, worst

app = typer.Typer(no_args_is_help=True)
app.command("explore")(explore_command)
app.command("walk")(walk_command)
app.command("step")(step_command)
app.command("prove")(prove_command)


@app.command("conform")
def conform_command(ids: Annotated[list[str] | None, typer.Argument(help="ids of rows in specs/*.toml [default: all]")] = None,
                    no_cache: Annotated[bool, typer.Option("--no-cache", help="ignore cached results")] = False) -> None:
    """Compare FizzBee's verdicts and state graphs with the model's."""
    from highwater.conformance.conform import conform
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing
    from highwater.specs.runs import rows

    known = {row.id: row for row in rows()}
    unknown = [name for name in ids or () if name not in known]
    if unknown:
        refuse(f"there is no run {unknown[0]!r} in specs/*.toml; choose one of {', '.join(known)}")
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
        console.print(f"{'[green]ok  [/]' if result.ok else '[bold red]FAIL[/]'} {row.id:24} {result.figure}  "
                      f"{escape(result.message)}")
    raise typer.Exit(worst(codes))
