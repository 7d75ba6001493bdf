"""highwater admin checkpoint: create | refresh | delete | list, for SlateDB databases."""

import json
import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.gate.exits import SAFETY

app = typer.Typer(no_args_is_help=True)
LAST_MS = (1 << 32) * 1000  # a manifest has times in seconds, in 32 bits

Url = Annotated[str, typer.Argument(help="the database: file:///a/folder, a/folder, s3://bucket/prefix")]
Json = Annotated[bool, typer.Option("--json", help="print JSON only")]
Id = Annotated[str, typer.Option("--id", "-i", help="the checkpoint's id, a UUID")]
Lifetime = Annotated[str | None, typer.Option("--lifetime", "-l", help='"7days 30min 10s", from now on; without it the '
                                              "checkpoint does not end, and must be deleted")]


@app.callback()
def checkpoint() -> None:
    """Create, refresh, delete and list checkpoints, which keep a state of the database readable."""


@app.command("create")
def create_command(url: Url, lifetime: Lifetime = None,
                   source: Annotated[str | None, typer.Option("--source", "-s", help="keep what this checkpoint keeps, a UUID; "
                                                              "without it, the latest manifest")] = None,
                   name: Annotated[str | None, typer.Option("--name", "-n", help="need not be unique")] = None,
                   as_json: Json = False) -> None:
    """Take a checkpoint, and print its id. It has what is flushed to SSTs, and not what is only in the WAL or in memory."""
    from highwater.admin.checkpoints import as_json as fields
    from highwater.admin.checkpoints import create

    taken = asked(url, create, lifetime_ms(lifetime), source and uuid(source, "--source"), utf_8(name))
    if as_json:
        print(json.dumps(fields(taken)))
    else:
        console.print(f"{taken.id} keeps manifest {taken.manifest_id}{until(taken)}", markup=False)


@app.command("refresh")
def refresh_command(url: Url, checkpoint: Id, lifetime: Lifetime = None, as_json: Json = False) -> None:
    """Give a checkpoint a new lifetime, from now on."""
    from highwater.admin.checkpoints import as_json as fields
    from highwater.admin.checkpoints import refresh

    renewed = asked(url, refresh, uuid(checkpoint, "--id"), lifetime_ms(lifetime))
    if as_json:
        print(json.dumps(fields(renewed)))
    else:
        console.print(f"{renewed.id} keeps manifest {renewed.manifest_id}{until(renewed)}", markup=False)


@app.command("delete")
def delete_command(url: Url, checkpoint: Id) -> None:
    """Remove a checkpoint. What only it keeps may be collected from then on."""
    from highwater.admin.checkpoints import delete

    asked(url, delete, uuid(checkpoint, "--id"))
    console.print(f"{checkpoint} is deleted", markup=False)


@app.command("list")
def list_command(url: Url, name: Annotated[str | None, typer.Option("--name", "-n", help='only those with this name; "": '
                                                                     "without one")] = None, as_json: Json = False) -> None:
    """List the checkpoints, also those that have expired and are not removed yet."""
    from highwater.admin.checkpoints import as_json as fields
    from highwater.admin.checkpoints import listed

    rows = [fields(one) for one in asked(url, listed, name, read_only=True)]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("id", "manifest", "created", "expires", "name")
    for row in rows:
        table.add_row(row["id"], str(row["manifest_id"]), row["create_time"], row["expire_time"] or "never",
                      escape(row["name"] or ""))
    console.print(table if rows else "no checkpoints")


def lifetime_ms(text: str | None, option: str = "--lifetime") -> int | None:
    """Return a lifetime in milliseconds; None: it does not end. Refuses a text that is no duration."""
    from highwater.admin.durations import duration_ms

    try:
        lifetime = None if text is None else duration_ms(text)
    except ValueError as error:
        refuse(f"{option}: {error}")
    if lifetime is not None and time.time() * 1000 + lifetime >= LAST_MS:
        refuse(f"{option}: {text!r} from now is too long: a manifest holds no time after 2106; give less, or no lifetime")
    return lifetime


def utf_8(name: str | None) -> str | None:
    """Return a name for a checkpoint. Refuses bytes that are no text: a manifest cannot hold them."""
    try:
        (name or "").encode()
    except UnicodeEncodeError:
        refuse(f"--name: {name!r} is not UTF-8: give a name that is")
    return name


def uuid(text: str, option: str) -> str:
    """Return a UUID in its usual form. Refuses a text that is none."""
    from highwater.impl.codecs.slatedb.flatbuffer import number_of_uuid

    try:
        number_of_uuid(text.lower())
    except ValueError as error:
        refuse(f"{option}: {error}: give 8-4-4-4-12 hexadecimal digits, as `checkpoint list` prints them")
    return text.lower()


def until(of: Any) -> str:
    from highwater.admin.checkpoints import moment

    return f" until {moment(of.expire_time_s)}" if of.expire_time_s else " until it is deleted"


def asked(url: str, ask: Any, *more: Any, read_only: bool = False) -> Any:
    """Return `await ask(world, root, *more)` for the database at `url`, if its latest manifest can be read.

    Exits with 10 where the protocol refuses for the sake of safety, and with 2 for any other bad input."""
    from highwater.admin.checkpoints import REFUSALS, check_readable
    from highwater.cli.admin import asked as asked_of

    asked_of(url, check_readable)
    try:
        return asked_of(url, ask, read_only, *more, through=REFUSALS)
    except REFUSALS as error:
        refuse(f"{url}: {error}", SAFETY)
