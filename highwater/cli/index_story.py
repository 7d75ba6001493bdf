"""highwater index story: an index of real processes from end to end, under kills and stalls, judged."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any, Literal

import typer

from highwater.cli.console import LARGEST_SEED, complain, console, refuse
from highwater.cli.on_spark import Conf, Master, session_options
from highwater.cli.server import server
from highwater.gate.exits import HARNESS, INCOMPLETE, LIVENESS, SAFETY
from highwater.servers import s3
from highwater.servers.leash import CannotStart

MOST_SHOWN = 10


def story_command(
        seconds: Annotated[float, typer.Option("--seconds", min=1, max=3 * 3600, help="for which writers write and faults "
                                               "happen; the end takes about half a minute more")] = 30,
        seed: Annotated[int | None, typer.Option("--seed", min=0, max=LARGEST_SEED, help="of the faults and of what is "
                                                 "written [default: drawn, and printed]")] = None,
        engine: Annotated[Literal["spark", "local"], typer.Option("--engine", help="reads the bucket at the end")] = "local",
        master: Master = "",
        conf: Conf = None,
        endpoint: Annotated[str, typer.Option(help="an S3 server of your own; a bucket is made on it [default: versitygw is "
                                              "started]")] = "",
        out: Annotated[Path | None, typer.Option("--out", help="a new or empty folder for logs, journals and snapshots "
                                                 "[default: a temporary one, kept only if something is wrong]")] = None,
        fault_ms: Annotated[int, typer.Option("--fault-ms", min=10, help="from a fault to the next, on average")] = 700,
) -> None:
    """Let three nodes, workers and writers live on a bucket while they are killed and stopped, and check that nothing is lost.

    The exit code is 10 if a datum was lost or doubled, 12 if something does not drain, 14 if a process ends by itself, and 3 if
    no S3 server or no Spark is here, or too little has happened."""
    session_options("index story", engine == "spark", None, master, conf)
    if out and out.exists() and (not out.is_dir() or any(out.iterdir())):
        refuse(f"{out} has something in it: give a new or empty folder")
    number = SystemRandom().randrange(1 << 32) if seed is None else seed
    folder = made(out)
    options = ("--engine", engine, *(("--master", master) if master else ()),
               *(word for each in conf or () for word in ("--conf", each)))
    console.print(f"seed {number}, folder {folder}", markup=False)
    with server(endpoint) as url:
        os.environ.update({} if endpoint else s3.CREDENTIALS)
        os.environ["AWS_ENDPOINT_URL_S3"] = url
        code, said = lived(folder, url, number, seconds, options, fault_ms)
    for line in said[:MOST_SHOWN]:
        complain(line)
    if code:
        complain(f"the story of seed {number} ended with {code}; its logs are in {folder}")
        raise typer.Exit(code)
    if not out:
        shutil.rmtree(folder)


def made(out: Path | None) -> Path:
    """Return the folder of a story, made if it is missing."""
    if not out:
        return Path(tempfile.mkdtemp(prefix="story-"))
    try:
        out.mkdir(parents=True, exist_ok=True)
        return out.absolute()
    except OSError as error:
        refuse(f"{out} cannot be made: {error.strerror}")


def lived(folder: Path, url: str, seed: int, seconds: float, engine: tuple[str, ...], fault_ms: int) -> tuple[int, list[str]]:
    """Let a story live on a new bucket of a server. Return the exit code, and what is wrong."""
    from highwater.impl.errors import StoreError
    from highwater.index.story.cast import Numbers
    from highwater.index.story.ending import NotDrained
    from highwater.index.story.processes import Broken
    from highwater.index.story.story import Story

    try:
        bucket = s3.new_bucket(url)
    except CannotStart as error:
        return INCOMPLETE, [str(error)]
    of = Story(folder, f"s3://{bucket}/index", seed, engine, Numbers(fault_s=fault_ms / 1000))
    try:
        told = asyncio.run(of.told(seconds))
    except NotDrained as error:
        return (SAFETY if of.wrong else LIVENESS), [*of.wrong, str(error)]
    except (Broken, StoreError, TimeoutError) as error:
        return (SAFETY if of.wrong else HARNESS), [*of.wrong, str(error) or "a node does not answer at the end"]
    console.print(figures(told), markup=False)
    if told.wrong:
        return SAFETY, told.wrong
    return (INCOMPLETE, [f"too little has happened: no {', no '.join(told.missing)}; let it live for longer"]
            ) if told.missing else (0, [])


def figures(told: Any) -> str:
    """Return the amounts of a story in one line."""
    kills = ", ".join(f"{count} {role}" for role, count in told.kills.items())
    counts = {what: count for what, count in told.counts.items() if not what.startswith("kill ")}
    return f"{sum(told.kills.values())} kills ({kills}); " + ", ".join(f"{count:,} {what}" for what, count in counts.items())
