"""highwater client test: try a program that commits through an object store, with faults at each of its requests."""

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from highwater.cli.console import check_writable, console, refuse, write_text
from highwater.cli.server import server
from highwater.cli.store import ended_as_by_ctrl_c
from highwater.clients import report
from highwater.clients.campaign import CLEAN, CleanRunFailed, Result, Settings, campaign, folder_of, results, tried
from highwater.clients.faults import HOLD, faults_of
from highwater.clients.findings import CODES
from highwater.clients.maps import maps_of
from highwater.clients.plan import Plan, Unfit, begin, kept
from highwater.clients.trial import TAKEN, Place, SetupFailed
from highwater.gate.reports import Ended, as_junit
from highwater.gate.run import cores
from highwater.messages import meant
from highwater.servers import s3
from highwater.traces.recorded.s3log import read
from highwater.traces.recorded.systems import template
from highwater.traces.recorded.systems.mapped import PROTOCOLS

app = typer.Typer(no_args_is_help=True)
BAD = "[bold red]{}[/]"


@app.callback()
def clients() -> None:
    """Try programs that commit through an object store."""


@app.command("test")
def test_command(
        command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="the client; {url}, {endpoint}, "
                                                            "{bucket} and {prefix} in it are filled in")] = None,
        check: Annotated[str, typer.Option(help="a command that ends with 0 if what is stored is right; it finds the exit code "
                                           "of COMMAND in HIGHWATER_EXIT")] = "",
        setup: Annotated[str, typer.Option(help="a command that runs before COMMAND, without faults")] = "",
        reopen: Annotated[str, typer.Option(help="a command that opens what is stored again; then the check runs again")] = "",
        beside: Annotated[list[str] | None, typer.Option("--with", metavar="NAME=COMMAND", help="another client: it runs after "
                                                         "COMMAND, or while COMMAND is held at a request; may be repeated")
                          ] = None,
        endpoint: Annotated[str, typer.Option(help="a server of your own, with --bucket [default: versitygw is started]")] = "",
        bucket: Annotated[str, typer.Option(help="with --endpoint: the bucket; each run gets a prefix of its own in it")] = "",
        client_timeout: Annotated[float | None, typer.Option(min=0.01, help="after so many seconds the client gives a request "
                                                             "up: adds delays beyond it")] = None,
        hang: Annotated[bool, typer.Option("--hang", help="a lost reply leaves the connection open; needs --client-timeout")
                        ] = False,
        pairs: Annotated[int, typer.Option(min=0, help="so many pairs of faults, too")] = 0,
        seed: Annotated[int, typer.Option(help="draws the pairs")] = 0,
        runs: Annotated[int, typer.Option(min=1, help="at most so many runs with faults")] = 1_000_000,
        minutes: Annotated[float, typer.Option(min=0, help="begin no run after so many minutes; 0: no limit")] = 0,
        limit: Annotated[float, typer.Option(min=0.1, help="seconds after which a command counts as hung")] = 60,
        fault: Annotated[list[str] | None, typer.Option(help="only this fault, as the table names it; may be repeated")] = None,
        hint: Annotated[list[str] | None, typer.Option(help="a pattern of keys that nothing depends on, so they may be put "
                                                       "blindly; may be repeated")] = None,
        names: Annotated[str, typer.Option(help="a regular expression that finds, in a commit, the objects that it needs: "
                                           "its group is the end of a key")] = "",
        maps: Annotated[list[str] | None, typer.Option("--map", metavar="PATTERN=PROTOCOL", help="hold these keys against a "
                                                       f"model: {', '.join(PROTOCOLS)}; or a TOML file; may be repeated")
                        ] = None,
        out: Annotated[Path, typer.Option("--out", "-o", help="a folder for results; one of the same test goes on")] = Path(
            "out/client"),
        jobs: Annotated[int | None, typer.Option(min=1, help="runs at a time [default: one per processor]")] = None,
        replay: Annotated[int | None, typer.Option(min=0, help="run only this one of --out again, and tell it")] = None,
        json_file: Annotated[Path | None, typer.Option("--json", help="also write the results to this file")] = None,
        junit: Annotated[Path | None, typer.Option(help="also write them as JUnit's XML")] = None) -> None:
    """Run a client of an object store once without faults, then again with each fault at each of its mutations, and judge what
    became of its commits.

    The client may be written in any language. It finds its endpoint and credentials in the usual variables of the AWS SDKs."""
    try:
        if replay is not None:
            plan = kept(out)
        else:
            others = [named(text) for text in beside or ()]
            if len({*TAKEN, *dict(others)}) < len(TAKEN) + len(others):
                refuse(f"--with: give each client a name of its own, which is none of {', '.join(TAKEN)}")
            plan = Plan({"client": tuple(command or ()), **dict(others)}, words_of("--check", check),
                        words_of("--setup", setup), words_of("--reopen", reopen), limit, endpoint, bucket, client_timeout, hang,
                        seed, tuple(hint or ()), names, tuple(fault or ()), maps_of(maps or ()))
        refuse_unfit(plan)
        for file in (json_file, junit):
            if file:
                check_writable(file)
        begin(out, plan)
    except (Unfit, template.Unfit) as error:
        refuse(str(error))
    with ended_as_by_ctrl_c(), server(plan.endpoint) as url:
        secrets = {} if plan.endpoint else s3.CREDENTIALS
        store = Stored(url, plan.bucket, secrets)
        settings = Settings(plan.asked(secrets), plan.faults, store.place, store.leave, out, jobs or cores(), plan.hints,
                            plan.pattern, plan.maps, not plan.only or HOLD in plan.only)
        try:
            if replay is not None:
                replayed(settings, replay)
            found = tested(settings, pairs, seed, runs, minutes)
        except Unfit as error:
            refuse(str(error))
        except CleanRunFailed as error:
            refuse(f"without any fault: {error} ({folder_of(settings, CLEAN)} has the log and what was printed)")
        except SetupFailed as error:
            refuse(str(error))
    code = report.exit_code(found)
    show(found, out)
    write_text(out / "report.md", report.as_text(shlex.join(plan.clients["client"]), found, out))
    if json_file:
        write_text(json_file, json.dumps(report.as_json(found, code), indent=1) + "\n")
    if junit:
        write_text(junit, as_junit(Ended(report.as_rows(found), code, sum(sum(one.seconds.values()) for one in found))))
    raise typer.Exit(code)


def tested(settings: Settings, pairs: int, seed: int, runs: int, minutes: float) -> list[Result]:
    """Run the campaign, with a line for each failure as it comes."""
    began = time.monotonic()

    def over() -> bool:
        return bool(minutes) and time.monotonic() - began > 60 * minutes

    with console.status("the run without faults") as status:
        done = [0]

        def each(result: Result) -> None:
            done[0] += 1
            status.update(f"{done[0]} runs")
            if result.failed:
                console.print(BAD.format(result.verdict), f"{escape(report.place_of(result.placed))} (run {result.number})")

        return sorted(campaign(settings, pairs, seed, runs, over, each), key=lambda result: result.number)


def replayed(settings: Settings, number: int) -> None:
    """Run one trial of an earlier campaign again, print its story, and exit with its class."""
    kept = {result.number: result for result in results(settings.folder)}
    if number not in kept:
        refuse(f"--replay {number}: {settings.folder} has no such run; it has {len(kept)}")
    with open(folder_of(settings, CLEAN) / "log.ndjson") as log:
        clean = read(log).requests
    folder = settings.folder / "replayed"
    result, _ = tried(settings._replace(folder=folder), number, kept[number].placed, clean, lambda: False)
    console.print(report.title([result]), markup=False)
    for text in report.story(result, folder_of(settings._replace(folder=folder), number)):
        console.print(f"  {text}", markup=False)
    raise typer.Exit(report.exit_code([result]))


def show(found: list[Result], folder: Path) -> None:
    head, rows = report.table(found)
    table = Table(*head)
    for row in rows:
        table.add_row(escape(row[0]), *[BAD.format(verdict) if verdict in CODES else verdict for verdict in row[1:]])
    console.print(table)
    for alike in report.failures(found):
        console.print(f"\n{report.title(alike)}", markup=False)
        for text in report.story(alike[0], folder / "runs" / f"{alike[0].number:05}"):
            console.print(f"  {text}", markup=False, soft_wrap=True)
        console.print(f"again: {report.command(folder, alike[0].number)}", markup=False, soft_wrap=True)
    waited = sum(sum(result.seconds.values()) for result in found)
    console.print(f"{len(found)} runs: {report.counted(found)}; the clients ran for {waited:.0f} s; {folder / 'report.md'}",
                  markup=False)


# --- options

def named(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, command = text.partition("=")
    if not re.fullmatch(r"[\w.-]+", name) or not command:
        refuse(f"--with {text!r}: write NAME=COMMAND")
    return name, words_of(f"--with {name}", command)


def words_of(option: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        refuse(f"{option} {text!r}: {error}")


def refuse_unfit(plan: Plan) -> None:
    if not plan.clients["client"]:
        refuse("give the command of the client, after `--`")
    for option, words in (*((f"the client {name}", words) for name, words in plan.clients.items()), ("--check", plan.check),
                          ("--setup", plan.setup), ("--reopen", plan.reopen)):
        if words and not shutil.which(words[0]):
            refuse(f"{option}: there is no command {words[0]!r}")
    if plan.hang and plan.client_timeout_s is None:
        refuse("--hang: give --client-timeout, too")
    if bool(plan.endpoint) != bool(plan.bucket):
        refuse("--endpoint and --bucket belong together: give both, or neither")
    for name in plan.only:
        if name not in (known := [*faults_of(plan.client_timeout_s, plan.hang), HOLD]):
            refuse(f"--fault {name!r} is unknown{meant(name, known)}; there are {', '.join(known)}")
    try:
        if plan.pattern and plan.pattern.groups > 1:
            refuse(f"--names {plan.names!r}: it has more than one group")
    except re.error as error:
        refuse(f"--names {plan.names!r}: {error}")


# --- where the trials are

class Stored:
    """The places of trials on a server: a bucket for each, or a prefix of the user's bucket. Uses boto3."""

    def __init__(self, url: str, bucket: str, secrets: dict[str, str]):
        from highwater.impl.stores.s3 import connect

        os.environ.update({name: value for name, value in secrets.items()})
        self.url, self.bucket = url, bucket
        self.connect: Callable[[], Any] = lambda: connect(url)
        self.began = f"{time.time_ns() // 1_000_000:x}"

    def place(self, number: int) -> Place:
        if self.bucket:
            return Place(self.url, self.bucket, f"highwater-{self.began}/{number:05}/")
        place = Place(self.url, f"run-{self.began}-{number:05}")
        self.connect().create_bucket(Bucket=place.bucket)
        return place

    def leave(self, place: Place, folder: Path | None) -> None:
        """Copy the objects of a trial into a folder, if there is one. Then delete them from a bucket of the user's."""
        if not folder and not self.bucket:
            return  # the whole server goes
        client = self.connect()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
        for key in [one["Key"] for page in pages for one in page.get("Contents", ())]:
            path = (folder or Path()) / key.removeprefix(place.prefix)
            if folder and path.resolve().is_relative_to(folder.resolve()) and not key.endswith("/"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(client.get_object(Bucket=place.bucket, Key=key)["Body"].read())
            if self.bucket:
                client.delete_object(Bucket=place.bucket, Key=key)
