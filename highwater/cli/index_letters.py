"""highwater index dlq: show the dead letters of a metadata index, and add their blocks again; index admit: of an interval."""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from highwater.cli.console import console, refuse
from highwater.cli.index import LOOPBACK, AsJson, At, files_of, finish, opened, places_of
from highwater.cli.raft import Authority, Certificate, Key
from highwater.gate.exits import INCOMPLETE
from highwater.impl.stores.keys import escaped

app = typer.Typer(no_args_is_help=True)
TIME = "%Y-%m-%dT%H:%M:%SZ"
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
        said = f"{letter.key}: {letter.state}, {letter.size_bytes:,} bytes, put {put}{': ' * bool(letter.wrong)}{letter.wrong}"
        console.print(escaped(said), markup=False, soft_wrap=True)  # keys are copied from here
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
        said = (letter.why and 'stays: ' + letter.why) or f'block {letter.block} is in the index'
        console.print(escaped(f"{letter.key}: {said}"), markup=False)
    if any(letter.why for letter in found):
        raise typer.Exit(INCOMPLETE)


def admit_command(
        bucket: Bucket,
        since: Annotated[datetime, typer.Option("--from", formats=[TIME], help="when the first block was made, in UTC")],
        until: Annotated[datetime, typer.Option("--until", formats=[TIME], help="the end of the interval, which is not in it")],
        at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Add the blocks that writers made in an interval, though they are older than the horizon: those of letters that are kept
    aside, and those of objects in the bucket. The exit code is 3 if one is not added."""
    interval_ms = range(*(int(of.replace(tzinfo=UTC).timestamp() * 1000) for of in (since, until)))
    if not interval_ms:
        refuse("--from is not before --until: name an interval")
    found = finish(admitted(opened(bucket, new=False), interval_ms, at, files_of(authority, certificate, key)))
    for letter in found:
        if letter.why:
            console.print(escaped(f"{letter.key}: not added: {letter.why}"), markup=False)
    left = sum(1 for letter in found if letter.why)
    console.print(f"{len(found) - left:,} blocks are in the index, or it knows them as removed; {left:,} were not added")
    if left:
        raise typer.Exit(INCOMPLETE)


async def admitted(store: Any, interval_ms: range, at: str, files: Any) -> Any:
    from highwater.index import letters
    from highwater.index.client import Client

    async with Client(places_of(at), files, 5.0) as client:
        return await letters.admitted(store, interval_ms, client)


async def again(store: Any, keys: list[str], at: str, files: Any, past_horizon: bool) -> Any:
    from highwater.index.client import Client
    from highwater.index.letters import add_again

    async with Client(places_of(at), files, 5.0) as client:
        return await add_again(store, keys, client, past_horizon)
