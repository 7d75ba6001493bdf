"""Safety: `highwater campaign run` exits with 0 only if every seed has run and none failed.

Exit codes are in cli/exits.py: 2 bad input, 3 no Java for Spark, 10 to 15 the worst kind of failure, 130 Ctrl-C.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cli import exits
from cli.console import STEM, seeds_of

app = typer.Typer(help="Many seeds of a scenario, on Spark or in local processes: one row a seed.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Many seeds of a scenario, on Spark or in local processes: one row a seed."""


@app.command("run")
def run_command(
    seeds: Annotated[str, typer.Option(metavar="A:B", help="B is not among them.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder; or this campaign's own, and it goes on.")],
    scenario: Annotated[str, typer.Option(help="What is simulated.")] = STEM,
    mutant: Annotated[str, typer.Option(help="A known-bad implementation, which must fail.")] = "",
    engine: Annotated[Literal["spark", "local"], typer.Option(help="Both write the same rows.")] = "spark",
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes. [default: one a processor]")] = None,
    range_size: Annotated[int | None, typer.Option(min=1, help="Seeds in a task. [default: for some seconds]")] = None,
    seed_limit_s: Annotated[float, typer.Option(min=0.001, help="A seed that takes longer is a row of kind timeout.")] = 60.0,
) -> None:
    """Run a range of seeds and sum up the failures by signature. The same command again goes on where it was stopped."""
    from dst import campaign as dst

    began, asked = time.monotonic(), seeds_of(seeds)
    try:
        processes = jobs or os.cpu_count() or 1
        with shown(len(asked)) as progress:
            start = partial(dst.ENGINES[engine], processes)
            summary = dst.run(dst.campaign_of(scenario, mutant), (asked.start, asked.stop), out, start, processes,
                              range_size or 0, seed_limit_s, progress)
    except dst.Refused as error:
        stop(exits.BAD_INPUT, str(error))
    except dst.NoSpark as error:
        stop(exits.INCOMPLETE, str(error))
    except (dst.CampaignError, OSError) as error:
        stop(exits.HARNESS, f"The campaign has failed; what is done is kept. {error}")
    except KeyboardInterrupt:
        stop(exits.INTERRUPTED, "Stopped. What is done is kept: the same command goes on.")
    print_summary(summary, out, time.monotonic() - began)
    raise typer.Exit(exits.of_kinds(failure["kind"] for failure in summary["failures"]))


@contextmanager
def shown(total: int) -> Iterator[Callable[[int], None]]:
    """To be told how many seeds are done. From then on there is a progress bar, if there is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=console)
    task = bar.add_task("", total=total)

    def show(done: int) -> None:
        bar.start()
        bar.update(task, completed=done)

    try:
        yield show
    finally:
        bar.stop()


def print_summary(summary: dict, out: Path, took_s: float) -> None:
    console = Console(highlight=False, soft_wrap=True)
    name = summary["scenario"] + (f" with {summary['mutant']}" if summary["mutant"] else "")
    console.print(f"{summary['runs']:,} runs of {name}, {summary['failed']:,} failed; {took_s:.0f} s; rows and summary: {out}",
                  markup=False)
    print_reached(summary, console)
    if not summary["failures"]:
        return
    table = Table("signature", "runs", "smallest seed")
    for failure in summary["failures"]:
        table.add_row(failure["signature"], f"{failure['count']:,}", str(failure["smallest_seed"]))
    console.print(table)
    for failure in summary["failures"]:
        console.print(failure["replay"], markup=False)


def print_reached(summary: dict, console: Console) -> None:
    """What was never reached was never tested, which is no failure, but worth to know."""
    never, number = summary["never"], len(summary["never"]) + len(summary["reached"])
    console.print(f"Never reached, {len(never)} of {number}: {', '.join(never)}" if never else
                  f"Everything that is looked for was reached: {number} witnesses", markup=False)


def stop(code: int, message: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(message, markup=False)
    raise typer.Exit(code)


if __name__ == "__main__":
    app()
