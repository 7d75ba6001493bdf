"""Safety: a campaign is done only when each seed that it covers has its row; it may be stopped at any moment, and goes on.

It runs some ranges at a time, a wave, in the order of the seeds, and commits them together. After each wave it looks whether it
may stop: when its time is used up, or when so many seeds have failed. Which failures are then told does not depend on how the
seeds were cut into waves: it is the smallest ones, and the campaign covers the seeds up to the last of them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from dst.campaign.folder import Asked, committed, missing, opened, read, write_json
from dst.campaign.summary import summarize
from dst.campaign.what import Campaign, Seeds

MOST_SEEDS = 500  # in a range, unless asked otherwise: a task of some seconds
WAVE = 8  # ranges for each job, committed together

Progress = Callable[[int], None]  # how many seeds of the wave are done
Engine = Callable[[Campaign, list[Seeds], Path, float, Progress], None]
"""Run the ranges, write their rows as Parquet files into the folder, and return when all are written; else raise."""


class Done(NamedTuple):
    """`summary` None: the time was used up first, and `left` seeds have no row yet."""

    summary: dict | None
    left: int


def run(campaign: Campaign, asked: Asked, out: Path, start: Callable[[], AbstractContextManager[Engine]], jobs: int,
        budget_s: float = 0, progress: Progress = lambda done: None) -> Done:
    """Run what the folder does not hold yet, if anything. `progress` is told how many seeds have rows."""
    began, (low, high) = time.monotonic(), asked.seeds
    size = asked.range_size or max(1, min(MOST_SEEDS, (high - low) // (4 * jobs)))
    with opened(out, campaign, asked):
        todo = missing(out, asked.seeds)
        covered = covers(out, asked, todo)
        if todo and covered != asked.seeds:
            todo = []
        if todo:
            done = high - low - sum(hi - lo for lo, hi in todo)
            with start() as engine:
                for more in waves(campaign, cut(todo, size), WAVE * jobs, out, engine, asked.limit_s,
                                  lambda more: progress(done + more)):
                    covered = covers(out, asked, missing(out, asked.seeds)) if asked.stop_after else asked.seeds
                    if covered != asked.seeds:
                        break
                    if budget_s and time.monotonic() - began > budget_s and done + more < high - low:
                        return Done(None, high - low - done - more)
        summary = summarize(campaign, covered, out)
        write_json(out / "summary.json", summary)
        return Done(summary, 0)


def covers(out: Path, asked: Asked, todo: list[Seeds]) -> Seeds:
    """What the campaign covers once it has found as many failures as asked: up to the last of them. Else all seeds."""
    if not asked.stop_after:
        return asked.seeds
    whole = asked.seeds[0], min((lo for lo, _ in todo), default=asked.seeds[1])  # without a gap
    table = read(out, whole, ["seed", "kind"])
    failed = sorted(table.filter(pc.field("kind") != "")["seed"].to_pylist())
    return (asked.seeds[0], failed[asked.stop_after - 1] + 1) if len(failed) >= asked.stop_after else asked.seeds


def waves(campaign: Campaign, ranges: Iterator[Seeds], most: int, out: Path, engine: Engine, limit_s: float,
          progress: Progress) -> Iterator[int]:
    """So many ranges at a time, each time committed together; yields how many seeds are done."""
    done = 0
    progress(done)
    while wave := list(islice(ranges, most)):
        with committed(out) as folder:
            engine(campaign, wave, folder, limit_s, lambda more, before=done: progress(before + more))
        done += sum(hi - lo for lo, hi in wave)
        progress(done)
        yield done


def cut(gaps: list[Seeds], size: int) -> Iterator[Seeds]:
    for lo, hi in gaps:
        yield from ((at, min(at + size, hi)) for at in range(lo, hi, size))
