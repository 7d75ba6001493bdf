"""highwater index dlq: show the dead letters of a metadata index, and add their blocks again."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from highwater.cli.console import console
from highwater.cli.index import LOOPBACK, AsJson, At, files_of, finish, opened, places_of
from highwater.cli.raft import Authority, Certificate, Key
from highwater.gate.exits import INCOMPLETE

app = typer.Typer(no_args_is_help=True)
Bucket = Annotated[str, typer.Argument(help="where the objects are: a folder, file://, s3://BUCKET/PREFIX")]


@app.callback()
def dlq() -> None:
    """Look after the blocks that writers could not add."""


@app.command("list")
def list_command(bucket: Bucket, as_json: AsJson = False) -> None:
    """Show the letters: those that wait, those that are rejected, and those kept aside because the index refused them."""
    from highwater.impl.index.letters.kept import letters

    found = finish(letters(opened(bucket, new=False)))
    if as_json:
        for letter in found:
            print(json.dumps(letter._asdict()))
        return
    for letter in found:
        put = datetime.fromtimestamp(letter.put_ms / 1000, UTC).isoformat(timespec="seconds")
        console.print(f"{letter.key}: {letter.state}, {letter.size_bytes:,} bytes, put {put}{': ' * bool(letter.wrong)}"
                      f"{letter.wrong}", markup=False, soft_wrap=True)  # keys are copied from here
    if not found:
        console.print("there is no letter")


@app.command("readd")
def readd_command(
        bucket: Bucket,
        keys: Annotated[list[str], typer.Argument(help="keys of letters, as `list` shows them")],
        past_horizon: Annotated[bool, typer.Option("--past-horizon", help="add blocks that are older than the horizon; only if "
                                                   "you know that they were never in the index")] = False,
        at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Add the blocks of letters, and delete each letter whose block is in the index then. The exit code is 3 if one stays."""
    found = finish(again(opened(bucket, new=False), keys, at, files_of(authority, certificate, key), past_horizon))
    for letter in found:
        console.print(f"{letter.key}: {(letter.why and 'stays: ' + letter.why) or f'block {letter.block} is in the index'}",
                      markup=False)
    if any(letter.why for letter in found):
        raise typer.Exit(INCOMPLETE)


async def again(store: Any, keys: list[str], at: str, files: Any, past_horizon: bool) -> Any:
    from highwater.index.client import Client
    from highwater.index.letters import add_again

    async with Client(places_of(at), files, 5.0) as client:
        return await add_again(store, keys, client, past_horizon)
