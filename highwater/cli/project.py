"""Give every verb the option --project, and refuse a project that cannot be used in one line."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from highwater import project
from highwater.cli.console import refuse
from highwater.gate.exits import INCOMPLETE
from highwater.gate.extras import install_command

Folders = Annotated[list[str] | None, typer.Option(
    "--project", metavar="DIR", is_eager=True, expose_value=False, callback=lambda folders: use(folders or ()),
    help="the folder of a protocol of one's own, with highwater.toml; its protocols take the place of highwater's")]


def use(folders: Iterable[str]) -> None:
    """Take the protocols of the folder in --project. Refuses one that cannot be used, and two."""
    try:
        for folder in folders:
            project.use(folder)
    except project.ProjectError as error:
        refuse(str(error))


def option() -> Any:
    """Make the option, as typer makes it for a function."""
    def verb(highwater_project: Folders = None) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(verb)
    return get_command(app).params[0]


class WithProject(TyperGroup):
    """The group of all verbs. Each verb has the option --project, and so has each group."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        todo: list[Any] = [self]
        for command in todo:
            command.params.append(option())
            todo += getattr(command, "commands", {}).values()

    def invoke(self, ctx: Any) -> Any:
        """Run a verb. Prints one line if the project cannot be used. The exit code is 2, or 3 if a library is missing."""
        try:
            return super().invoke(ctx)
        except project.ProjectError as error:
            missing = install_command(error.__cause__) if isinstance(error.__cause__, ModuleNotFoundError) else ""
            if missing:
                typer.echo(f"error: {error}: {missing}", err=True)
                raise typer.Exit(INCOMPLETE) from None
            refuse(str(error))
