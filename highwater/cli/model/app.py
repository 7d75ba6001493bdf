"""highwater model: the group of its verbs."""

import typer

from highwater.cli.model.conform import conform_command
from highwater.cli.model.explore import explore_command, step_command, walk_command
from highwater.cli.model.prove import prove_command
from highwater.cli.model.refine import refine_command

app = typer.Typer(no_args_is_help=True)
app.command("explore")(explore_command)
app.command("walk")(walk_command)
app.command("step")(step_command)
app.command("conform")(conform_command)
app.command("prove")(prove_command)
app.command("refine")(refine_command)
