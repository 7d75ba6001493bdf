"""highwater index clock: the clocks of the nodes of a metadata index, and its log time."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from highwater.cli.console import console, refuse
from highwater.cli.index import LOOPBACK, At, files_of, finish, places_of, told_by_all, written
from highwater.cli.raft import Authority, Certificate, Key
from highwater.gate.exits import INCOMPLETE


def clock_command(
        confirm: Annotated[bool, typer.Option("--confirm", help="let log time go on from the leader's clock, if it agrees with "
                                              "the clock of this machine")] = False,
        at: At = LOOPBACK, authority: Authority = None, certificate: Certificate = None, key: Key = None) -> None:
    """Show the clock of each node, the log time, and the alarms. The exit code is 3 if there is one, or no answer."""
    from highwater.impl.index.log_time import MS, utc

    places, files = places_of(at), files_of(authority, certificate, key)
    if confirm:
        time_ms = int(finish(confirmed(places, files)))
        console.print(f"log time goes on from {utc(time_ms * MS)}", markup=False)
        return
    found = finish(told_by_all(places, files))
    table = Table("node", "address", "role", "clock", "log time", "alarm")
    for place, told in found.items():
        if isinstance(told, str) or "alarm" not in told:
            table.add_row("", place, told if isinstance(told, str) else "a node of an older release")
        else:
            table.add_row(told["node"], place, told["role"], utc(told["clock_ms"] * MS), utc(told["log_time_ms"] * MS),
                          told["alarm"])
    console.print(table)
    if any(isinstance(told, str) or told.get("alarm") for told in found.values()):
        raise typer.Exit(INCOMPLETE)


async def confirmed(places: Mapping[str, Any], files: Any) -> bytes:
    from highwater.index.client import Client
    from highwater.index.operator import CONFIRM

    async with Client(places, files, 5.0) as client:
        return await client.answer(CONFIRM, str(time.time_ns() // 1_000_000).encode())


def reset_clock_command(
        backup: Annotated[Path, typer.Argument(help="what `snapshot` has written")],
        out: Annotated[Path, typer.Option("--out", help="the backup to write; nothing may be there")]) -> None:
    """Write a backup anew with the clock of this machine as its log time. Then restore that file for each node."""
    from highwater.impl.index.log_time import utc
    from highwater.index.restore import NotRestored, with_clock

    if out.exists():
        refuse(f"{out} is there: give a name that is free")
    now_ns = time.time_ns()
    try:
        body, before_ns = with_clock(backup.read_bytes(), now_ns)
    except OSError as error:
        refuse(f"{backup}: {error.strerror}")
    except NotRestored as error:
        refuse(f"{backup}: {error}")
    written(out, body)
    console.print(f"{out}: log time is {utc(now_ns)}, and was {utc(before_ns)}", markup=False)
