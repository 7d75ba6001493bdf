"""Safety: `highwater campaign run` and `resume` exit with 0 only if every requested seed has run and none failed.

Exit codes are in highwater/gate/exits.py: 2 bad input, 3 no Java for Spark, or the time limit was reached, 10 to 15 the worst
kind of failure, 130 Ctrl-C.
"""

import csv
import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from highwater import pages, project
from highwater.cli.campaign.places import folder_at, folder_to_resume, place_at, stop
from highwater.cli.console import (
    Protocol,
    Scenario,
    announce,
    announced,
    console,
    print_announced,
    print_output,
    scenario_of,
    seeds_of,
    write_text,
)
from highwater.cli.on_spark import Conf, Format, Master, Save, save_options, session_options
from highwater.gate import exits

if TYPE_CHECKING:
    from highwater.dst.campaign.folder import Asked
    from highwater.dst.campaign.place import Place
    from highwater.dst.campaign.waves import Told
    from highwater.dst.campaign.what import Campaign
    from highwater.dst.spark.saving import SaveOptions
    from highwater.dst.spark.session import SessionOptions

STATES = {True: "running", False: "stopped", None: "not done"}
MOST_LOCAL = 10_000  # seeds that take less time in local processes than Spark takes to start
WITHOUT_LOCAL = "leave out --engine local"
EVERY_S = 60  # between lines of progress, without a terminal
app = typer.Typer(help="Run many seeds of a scenario, on Spark or in local processes, one row for each.", no_args_is_help=True)


@app.callback()
def group(ctx: typer.Context) -> None:
    """Run many seeds of a scenario, on Spark or in local processes, one row for each."""
    ctx.with_resource(project.elsewhere())  # a campaign's files hold commands, and are read in other folders


Out = Annotated[Path, typer.Argument(metavar="DIR", parser=folder_at, help="A campaign's folder, or s3://BUCKET/PREFIX.")]
ToResume = Annotated[Path, typer.Argument(metavar="DIR", parser=folder_to_resume, help="A campaign's folder, or "
                                          "s3://BUCKET/PREFIX.")]
EngineName = Annotated[Literal["spark", "local"], typer.Option("--engine", help="Both write the same rows.")]
Chosen = Annotated[Literal["spark", "local"] | None, typer.Option("--engine", help=(
    f"Both write the same rows. [default: local up to {MOST_LOCAL:,} seeds, else spark]"))]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes, or tasks at once. [default: one per processor, of the "
                                          "cluster with --master]")]
Budget = Annotated[float, typer.Option(min=0, help="Stop after this time, at the end of a wave; 0: run all.")]


@app.command("run")
def run_command(
    seeds: Annotated[str, typer.Option(metavar="A:B", help="A to B-1. Or N@2026-11-22, N@COMMIT: N seeds that only this "
                                       "day or this commit has.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="A new folder, or that of this campaign to resume it. Or "
                                     "s3://BUCKET/PREFIX, for workers that share no folder with this machine.")],
    protocol: Protocol = None,
    scenario: Scenario = None,
    mutant: Annotated[str, typer.Option(help="A known-bad implementation, which must fail.")] = "",
    strategy: Annotated[str, typer.Option(help="The procedure that picks the next event.")] = "portfolio",
    profile: Annotated[str, typer.Option(help="The store profile; if not given, each run draws one.")] = "",
    shape: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Fix a part of the shape: writers=2, ..; "
                                                    "may be repeated.")] = None,
    fault: Annotated[list[str] | None, typer.Option(metavar="NAME=N", help="N of 1,000 requests, and no other faults: "
                                                    "late=100; may be repeated.")] = None,
    stop_after: Annotated[int, typer.Option(min=0, metavar="N", help="Stop once N seeds have failed, and report the N "
                                            "smallest; 0: run all.")] = 0,
    budget_s: Budget = 0,
    engine: Chosen = None,
    master: Master = "",
    conf: Conf = None,
    jobs: Jobs = None,
    range_size: Annotated[int | None, typer.Option(min=1, help="Seeds in a task. [default: some seconds' worth]")] = None,
    save: Save = "",
    format_: Format = "parquet",
    triage: Annotated[bool, typer.Option("--triage", help="Finally shrink the failures, as `campaign triage`.")] = False,
    seed_limit_s: Annotated[float, typer.Option(min=0.001, help="A seed that takes longer gets a row of kind timeout.")] = 60.0,
) -> None:
    """Run a range of seeds and summarise the failures by signature. Run the same command again to resume."""
    from highwater.dst.campaign.folder import Asked
    from highwater.dst.campaign.intervals import interval
    from highwater.dst.campaign.what import Refused, campaign_of

    try:
        those = range(*interval(seeds)) if "@" in seeds else seeds_of(seeds)
        campaign = campaign_of(scenario_of(protocol, scenario), mutant, strategy, profile, " ".join(shape or ()),
                               " ".join(fault or ()))
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    place, engine = place_at(out), engine or engine_for(len(those), master, conf)
    of_spark = session_options(f"campaign run {campaign.scenario}", engine == "spark", jobs, master, conf, WITHOUT_LOCAL)
    asked = Asked((those.start, those.stop), stop_after, range_size or 0, seed_limit_s)
    failures = go_on(campaign, asked, place, of_spark, jobs, budget_s, save_options(save, format_, of_spark, WITHOUT_LOCAL))
    if triage and failures:
        triage_of(place.out, [], 2_000, of_spark, jobs)
    raise typer.Exit(exits.of_kinds(failure["kind"] for failure in failures))


@app.command("resume")
def resume_command(out: ToResume, engine: Chosen = None, master: Master = "", conf: Conf = None, jobs: Jobs = None,
                   budget_s: Budget = 0, save: Save = "", format_: Format = "parquet") -> None:
    """Resume a stopped campaign. Its folder holds its options."""
    from highwater.dst.campaign.folder import labelled
    from highwater.dst.campaign.what import Refused, campaign_of

    try:
        campaign, asked = labelled(out)
        campaign = campaign_of(*campaign[:-1])  # with the current code; the folder says which code it began with
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    engine = engine or engine_for(asked.seeds[1] - asked.seeds[0], master, conf)
    of_spark = session_options(f"campaign resume {campaign.scenario}", engine == "spark", jobs, master, conf, WITHOUT_LOCAL)
    to_save = save_options(save, format_, of_spark, WITHOUT_LOCAL)
    failures = go_on(campaign, asked, place_at(out), of_spark, jobs, budget_s, to_save)
    raise typer.Exit(exits.of_kinds(failure["kind"] for failure in failures))


@app.command("status")
def status_command(out: Out, as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False) -> None:
    """Show the progress and the failures of a campaign, which may be running. Writes nothing."""
    from highwater.dst.campaign.status import status
    from highwater.dst.campaign.what import CampaignError, Refused, replayed_in

    try:
        found = status(out)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except CampaignError as error:
        stop(exits.HARNESS, str(error))
    if as_json:
        failures = [failure | {"replay": replayed_in(failure["replay"], out)} for failure in found["failures"]]
        print(json.dumps(found | {"failures": failures}, indent=2))
    else:
        print_status(found, out)


@app.command("replay")
def replay_command(out: Out, seed: Annotated[int, typer.Argument(min=0)],
                   keep: Annotated[Path | None, typer.Option("--out", help="Keep the run in this folder, as a bundle.")] = None
                   ) -> None:
    """Run the seed of a row again, and report what happened."""
    from highwater.cli.campaign.replay import replay

    replay(out, seed, keep)


@app.command("triage")
def triage_command(
    out: Out,
    against: Annotated[list[Path] | None, typer.Option(metavar="DIR", parser=folder_at, help="An earlier campaign; may be "
                                                       "repeated, the oldest first. Then only new failures count.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Maximum number of runs to shrink one failure.")] = 2_000,
    engine: EngineName = "local",
    master: Master = "",
    conf: Conf = None,
    jobs: Jobs = None,
) -> None:
    """Shrink the smallest failure of each signature, keep a bundle of each, and say which are new, known or gone."""
    on_spark = engine == "spark" or bool(master or conf)
    triage_of(out, against or [], budget, session_options("campaign triage", on_spark, jobs, master, conf), jobs)


def triage_of(out: Path, against: list[Path], budget: int, of_spark: "SessionOptions | None", jobs: int | None) -> NoReturn:
    from highwater.cli.campaign.triage import triage
    from highwater.dst.campaign.triage import shrinking_in_processes
    from highwater.dst.campaign.what import CampaignError, NoSpark, Refused
    from highwater.dst.spark.engine import shrinking_on_spark

    try:
        rows = triage(out, against, budget, partial(shrinking_on_spark, of_spark) if of_spark else
                      partial(shrinking_in_processes, jobs or os.cpu_count() or 1))
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except NoSpark as error:
        stop(exits.INCOMPLETE, str(error))
    except (CampaignError, OSError) as error:
        stop(exits.HARNESS, str(error))
    except KeyboardInterrupt:
        stop(exits.INTERRUPTED, "Stopped. Finished bundles are kept; run the same command to do all of them again.")
    table = Table("signature", "", "runs", "smallest seed", "requests", "replay")
    for row in rows:
        of = [f"{row['count']:,}", str(row["seed"]), row["requests"], row["replay"]] if row["state"] != "gone" else [""] * 4
        table.add_row(*map(escape, (row["signature"], row["state"], *of)))
    console = Console(emoji=False, highlight=False, soft_wrap=True, width=None if Console().is_terminal else 200)
    console.print(table if rows else "no run failed")
    raise typer.Exit(exits.of_kinds(row["kind"] for row in rows if row["state"] == "new"
                                    or (row["state"] == "known" and not against)))


@app.command("tidy")
def tidy_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="A campaign's s3://BUCKET/PREFIX.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
) -> None:
    """Delete the rows that killed workers and drivers have left in a bucket, and that no campaign counts."""
    from highwater.dst.campaign.bucket.tidy import tidy
    from highwater.dst.campaign.what import CampaignError, Refused

    if not url.startswith("s3://"):
        stop(exits.BAD_INPUT, f"{url} is no bucket: write s3://BUCKET/PREFIX; `campaign resume` tidies a folder")
    try:
        found = tidy(url.rstrip("/"), dry_run)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except CampaignError as error:
        stop(exits.HARNESS, str(error))
    for name in found.names:
        console.print(name, markup=False, highlight=False)
    console.print(f"{len(found.names):,} parts of epochs before {found.epoch}, {found.size:,} bytes: "
                  f"{'would be deleted' if dry_run else 'deleted'}", markup=False, highlight=False)


@app.command("report")
def report_command(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR..", parser=folder_at, help="Campaigns' folders, or folders of "
                                                  "campaigns.")],
    against: Annotated[list[Path] | None, typer.Option(metavar="DIR", parser=folder_at, help="An earlier campaign, or a folder "
                                                       "of them: say what is new, known, gone. May be repeated, oldest first."
                                                       )] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The HTML file. [default: report.html in DIR; of a bucket, "
                                             "here]")] = None,
) -> None:
    """Write one page that works offline: is it safe, how sure is that, what was not tried. Campaigns may be unfinished."""
    from highwater.dst.campaign.folder import url_of
    from highwater.dst.campaign.what import CampaignError, Refused
    from highwater.reports.campaign.report import report

    target = out or (Path() if url_of(folders[0]) else folders[0]) / "report.html"
    try:
        text, damaged = report(folders, against or [], target)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except (CampaignError, OSError) as error:
        stop(exits.HARNESS, str(error))
    write_text(target, text)
    size = len(text.encode()) / 1024
    Console(emoji=False, highlight=False, soft_wrap=True).print(f"written: {target} ({size:,.0f} KiB)", markup=False)
    if damaged:
        stop(exits.HARNESS, "\n".join(damaged))


Several = Annotated[Path, typer.Argument(metavar="DIR", parser=folder_at, help="A campaign's folder, or a folder of such.")]
SqlEngine = Annotated[Literal["duckdb", "spark"], typer.Option("--engine", help="The dialect of SQL; the views are the same.")]


@app.command("sql", help=f"Query the rows of campaigns in SQL. Examples: {pages.named('campaign-queries')}.")
def sql_command(
    folder: Several,
    query: Annotated[str, typer.Argument(metavar="SQL", help="A query on the views that `campaign views` prints.")],
    engine: SqlEngine = "duckdb",
    master: Master = "",
    conf: Conf = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV only.")] = False,
) -> None:
    """Query the rows of campaigns in SQL."""
    from highwater.dst.campaign.what import CampaignError, NoSpark, Refused
    from highwater.reports.campaign.figures import folders
    from highwater.reports.campaign.sql import query as asked
    from highwater.reports.campaign.sql import said

    of_spark = session_options("campaign sql", engine == "spark", 2, master, conf)
    try:
        found = asked(folders([folder]), query, of_spark)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except NoSpark as error:
        stop(exits.INCOMPLETE, str(error))
    except CampaignError as error:
        stop(exits.HARNESS, str(error))
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(found.column_names)
        writer.writerows(row.values() for row in found.to_pylist())
        return
    table = Table(*found.column_names)
    for row in found.to_pylist():
        table.add_row(*(escape(said(value)) for value in row.values()))
    console.print(table)


@app.command("views")
def views_command(folder: Several, engine: SqlEngine = "duckdb") -> None:
    """Print the statements that define the views, for another program that reads Parquet."""
    from highwater.dst.campaign.what import Refused
    from highwater.reports.campaign.figures import folders
    from highwater.reports.campaign.sql import statements

    try:
        print(*statements(folders([folder]), engine), sep=";\n\n", end=";\n")
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))


def engine_for(seeds: int, master: str, conf: list[str] | None) -> Literal["spark", "local"]:
    """Choose the engine of a campaign for which none is named, and announce it if it is not Spark."""
    from highwater.dst.spark.session import is_submitted

    if master or conf or is_submitted() or seeds > MOST_LOCAL:
        return "spark"
    announced.append(f"{seeds:,} seeds, so local processes run them, and not Spark: --engine selects the other")
    return "local"


def go_on(campaign: "Campaign", asked: "Asked", place: "Place", of_spark: "SessionOptions | None", jobs: int | None,
          budget_s: float, to_save: "SaveOptions | None" = None) -> list[dict]:
    """Run the missing seeds and return the failures. Exits if the campaign cannot finish."""
    from highwater.dst.campaign.bucket.journal import Fenced
    from highwater.dst.campaign.processes import local_engine
    from highwater.dst.campaign.waves import run
    from highwater.dst.campaign.what import CampaignError, Hangs, NoSpark, Refused
    from highwater.dst.spark.engine import spark_engine

    again = f"highwater campaign resume {place.name}{project.option()}"
    began, processes = time.monotonic(), jobs or os.cpu_count() or 1
    announce(campaign.scenario)
    try:
        with ExitStack() as until_saved, shown(asked.seeds[1] - asked.seeds[0]) as progress:
            def told(done: int, failed: int) -> None:
                print_announced()  # once the engine has started
                progress(done, failed)

            start = partial(spark_engine, of_spark) if of_spark else partial(local_engine, processes)
            engine = cache(lambda: until_saved.enter_context(start()))
            at_once = jobs or 0 if of_spark else processes
            done = run(campaign, asked, place, lambda: nullcontext(engine()), at_once, budget_s, told)
            if to_save:
                save_rows(campaign, place, engine(), to_save)
    except Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except NoSpark as error:
        stop(exits.INCOMPLETE, str(error))
    except Fenced as error:
        stop(exits.INCOMPLETE, str(error))
    except Hangs as error:
        stop(exits.TIMEOUT, f"Stopped: {error}. Their rows and all others of finished waves are kept: "
             f"`highwater campaign status {place.name}{project.option()}` lists them, and `{again}` runs the rest.")
    except (CampaignError, OSError) as error:
        stop(exits.HARNESS, f"The campaign failed; finished waves are kept: resume with `{again}`. "
             f"{error}")
    except KeyboardInterrupt:
        stop(exits.INTERRUPTED, f"Stopped. Finished waves are kept: resume with `{again}`.")
    if done.summary is None:
        stop(exits.INCOMPLETE, f"Time is up; {done.left:,} seeds are left: resume with `{again}`.")
    print_summary(done.summary, place, time.monotonic() - began)
    return done.summary["failures"]


def save_rows(campaign: "Campaign", place: "Place", engine: Any, to_save: "SaveOptions") -> None:
    """Save the waves of a campaign that were not saved there yet, in the session of the engine."""
    from highwater.dst.campaign.place import Folder
    from highwater.dst.spark.saving import save_waves

    shared = isinstance(place, Folder)
    name = place.out.absolute().name if shared else place.name.rstrip("/").rpartition("/")[2]
    waves = save_waves(engine.spark, campaign, place.out, name, to_save, shared)
    console.print(f"saved: {waves:,} waves in {to_save.to}", markup=False, highlight=False)


@contextmanager
def shown(total: int) -> Generator["Told", None, None]:
    """Yield a function that shows progress: a bar on a terminal, else a line a minute. It begins with the first call."""
    console = Console(emoji=False, stderr=True, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        yield Lines(total, console).show
        return
    columns = TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    bar, pace = Progress(*columns, console=console), Pace()
    task = bar.add_task("", total=total)

    def show(done: int, failed: int) -> None:
        bar.start()
        bar.update(task, completed=done, description=f"{failed:,} failed, {pace.rate(done):,.0f}/s")

    try:
        yield show
    finally:
        bar.stop()


class Pace:
    """Measures seeds per second from the first call of `rate`, when the workers have started."""

    def __init__(self) -> None:
        self.first, self.began = -1, 0.0

    def rate(self, done: int) -> float:
        if self.first < 0:
            self.first, self.began = done, time.monotonic()
        return (done - self.first) / max(time.monotonic() - self.began, 0.001)


class Lines:
    """Shows progress without a terminal, as lines."""

    def __init__(self, total: int, console: Console):
        self.total, self.console, self.pace, self.told = total, console, Pace(), 0.0

    def show(self, done: int, failed: int) -> None:
        rate = self.pace.rate(done)
        self.told = max(self.told, self.pace.began)
        if time.monotonic() - self.told >= EVERY_S and rate:
            self.told = time.monotonic()
            self.console.print(f"{done:,} of {self.total:,} seeds, {failed:,} failed, {rate:,.0f}/s, about "
                               f"{(self.total - done) / rate:,.0f} s left", markup=False)


def print_status(found: dict, out: Path) -> None:
    from highwater.dst.campaign.what import replayed_in

    console = Console(emoji=False, highlight=False, soft_wrap=True)
    name = found["scenario"] + (f" with {found['mutant']}" if found["mutant"] else "")
    state = "done" if not found["left"] else STATES[found["running"]]
    console.print(f"{name}, seeds {found['seeds']}: {state}; {found['done']:,} have rows, {found['left']:,} are left; "
                  f"{found['failed']:,} failed", markup=False)
    if found["rate"] and found["left"]:
        console.print(f"{found['rate']:,.0f} seeds/s in the last waves: about {found['left'] / found['rate']:,.0f} s to go",
                      markup=False)
    for failure in found["failures"]:
        console.print(f"{failure['count']:,} x {failure['signature']}: {replayed_in(failure['replay'], out)}", markup=False)


def print_summary(summary: dict, place: "Place", took_s: float) -> None:
    from highwater.dst.campaign.folder import output_of
    from highwater.dst.campaign.what import replayed_in

    console = Console(emoji=False, highlight=False, soft_wrap=True)
    name = summary["scenario"] + (f" with {summary['mutant']}" if summary["mutant"] else "")
    console.print(f"{summary['runs']:,} runs of {name}, {summary['failed']:,} failed; {took_s:.0f} s; about "
                  f"{summary['model_states']:,} states of the model and {summary['model_steps']:,} steps reached; rows and "
                  f"summary: {place.name}", markup=False)
    print_reached(summary, console)
    if not summary["failures"]:
        return
    table = Table("signature", "runs", "smallest seed")
    for failure in summary["failures"]:
        table.add_row(escape(failure["signature"]), f"{failure['count']:,}", str(failure["smallest_seed"]))
    console.print(table)
    printed = output_of(place.out, [failure["smallest_seed"] for failure in summary["failures"]])
    for failure in summary["failures"]:
        console.print(replayed_in(failure["replay"], place.name), markup=False)
        print_output(printed.get(failure["smallest_seed"], ""), console)


def print_reached(summary: dict, console: Console) -> None:
    """Print the witnesses that no run reached: what they stand for was not tested."""
    never, number = summary["never"], len(summary["never"]) + len(summary["reached"])
    console.print(f"Never reached, {len(never)} of {number}: {', '.join(never)}" if never else
                  f"All {number} witnesses were reached", markup=False)


if __name__ == "__main__":
    app()
