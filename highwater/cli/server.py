"""The S3 server of a command: one that it starts and ends, or the user's."""

from collections.abc import Generator
from contextlib import contextmanager

import typer

from highwater.cli.console import console
from highwater.gate.exits import INCOMPLETE
from highwater.servers import s3
from highwater.servers.leash import CannotStart


@contextmanager
def server(endpoint: str) -> Generator[str, None, None]:
    if endpoint:
        yield endpoint
        return
    try:
        with s3.s3_server() as url:
            yield url
    except CannotStart as error:
        console.print(f"[yellow]cannot run here[/]: {error}; or give a server of your own")
        raise typer.Exit(INCOMPLETE) from None
