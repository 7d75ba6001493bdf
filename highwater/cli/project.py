"""Give every verb the options --project and --no-project, and refuse a project that cannot be used in one line."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup
from typer.main import get_command

from highwater import project
from highwater.cli.console import announced, print_announced, refuse
from highwater.gate.exits import BAD_INPUT, HARNESS, INCOMPLETE
from highwater.gate.extras import install_command
from highwater.messages import mistakes

USERS = ("verify", "cost", "model", "dst", "trace", "campaign")
"""The verbs that run the code under test. They take the project around the working folder."""
NONE = "highwater.no_project"  # in the context of a command: it has --no-project


def use(context: typer.Context, folders: list[str] | None) -> None:
    """Take the protocols of the folder in --project. Refuses one that cannot be used, and two."""
    try:
        for folder in folders or ():
            project.use(folder)
            refuse_both(context)
    except project.ProjectError as error:
        refuse(str(error))


def use_none(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[NONE] = True
        refuse_both(context)
        project.leave()


def refuse_both(context: typer.Context) -> None:
    if project.given and context.meta.get(NONE):
        refuse("--project and --no-project: leave out one of them")


Folders = Annotated[list[str] | None, typer.Option(
    "--project", metavar="DIR", is_eager=True, expose_value=False, callback=use,
    help="the folder of a protocol of one's own, with highwater.toml; its protocols take the place of highwater's "
         "[default: the working folder, or the nearest above it in the repository that has one]")]
NoProject = Annotated[bool, typer.Option("--no-project", is_eager=True, expose_value=False, callback=use_none,
                                         help="highwater's own protocols, also in the folder of a project")]


def options() -> list[Any]:
    """Make the options, as typer makes them for a function."""
    def verb(highwater_project: Folders = None, highwater_no_project: NoProject = False) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(verb)
    return get_command(app).params[:2]


def plain(text: str | None) -> str | None:
    """Return a help text whose brackets are no markup, and whose first paragraph a table of verbs does not break."""
    if text is None:
        return None
    first, *others = text.split("\n\n", 1)
    return escape("\n\n".join([first.replace("\n", " "), *others]))


class WithProject(TyperGroup):
    """The group of all verbs. Each verb has the options --project and --no-project, and so has each group."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        todo: list[Any] = [self]
        for command in todo:
            command.params += options()
            command.help = plain(command.help)
            for param in command.params:
                param.help = plain(getattr(param, "help", None))
            todo += getattr(command, "commands", {}).values()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb, and let it take the project around the working folder if it is one of USERS."""
        found = super().resolve_command(ctx, args)
        project.search(None)
        announced.clear()
        if found[0] in USERS:
            with suppress(FileNotFoundError):  # the working folder was deleted
                project.search(Path.cwd())
        return found

    def invoke(self, ctx: Any) -> Any:
        """Run a verb, and print what it ran. Prints one line if the project cannot be used, or if a module of it raises an
        exception. The exit code is then 2, or 3 if a library is missing; 14 if anything else than a verb ends the program."""
        try:
            with mistakes():
                result = super().invoke(ctx)
            print_announced()
            return result
        except typer.Exit as error:
            if error.exit_code != BAD_INPUT:
                print_announced()
            raise
        except project.ProjectError as error:
            missing = install_command(error.__cause__) if isinstance(error.__cause__, ModuleNotFoundError) else ""
            if missing:
                typer.echo(f"error: {error}: {missing}", err=True)
                raise typer.Exit(INCOMPLETE) from None
            refuse(str(error))
        except SystemExit as error:
            refuse(f"what this command runs raised SystemExit({error.code!r}), so there is no result", HARNESS)
