"""Run a campaign in waves. Safety: it is done only when each seed that it covers has a row; it can be stopped and resumed.

A wave is a number of ranges, in the order of the seeds, which are committed together. After each wave the campaign may stop:
when its time is used up, or when enough seeds have failed. The reported failures do not depend on how the seeds were cut into
waves. They are the smallest ones, and the campaign covers the seeds up to the last of them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from highwater.dst.campaign.folder import Asked, missing, read
from highwater.dst.campaign.place import Part, Place, Target
from highwater.dst.campaign.summary import summarize
from highwater.dst.campaign.what import Campaign, Hangs, Seeds, Work
from highwater.dst.sim.alarm import MOST_HUNG

FIRST_SEEDS = 100  # in a range of the first wave; their time determines the size of the next ranges
TASK_S = 5.0  # wanted time for a range
MOST_SEEDS = 20_000  # in a range
WAVE = 10  # ranges for each job in a wave

Progress = Callable[[int], None]  # number of seeds of the wave that are done
Told = Callable[[int, int], None]  # seeds done, and committed seeds that failed
Engine = Callable[[Work, list[Seeds], Path | Target, Progress], list[Part]]
"""Run the ranges, write their rows as Parquet files into the folder, or give them to the target. Return the target's parts when
all are written; else raise."""


class Done(NamedTuple):
    """The result of a campaign. `summary` None: the time was used up, and `left` seeds have no row yet."""

    summary: dict | None
    left: int


def run(campaign: Campaign, asked: Asked, place: Place, start: Callable[[], AbstractContextManager[Engine]], jobs: int,
        budget_s: float = 0, told: Told = lambda done, failed: None) -> Done:
    """Run the seeds that have no rows yet. Raises CampaignError."""
    began, (low, high) = time.monotonic(), asked.seeds
    with place.opened(campaign, asked):
        out = place.out
        todo = missing(out, asked.seeds)
        covered = covers(out, asked, todo)
        if todo and covered == asked.seeds:
            done, failed = high - low - sum(hi - lo for lo, hi in todo), failures_in(out, asked.seeds)
            with start() as engine:
                for more, _ in waves(Work(campaign, asked.limit_s), Cut(todo, jobs, asked.range_size), place, engine,
                                     lambda more, bad: told(done + more, failed + bad)):
                    covered = covers(out, asked, missing(out, asked.seeds)) if asked.stop_after else asked.seeds
                    if covered != asked.seeds:
                        return ended(campaign, covered, place)
                    if budget_s and time.monotonic() - began > budget_s and done + more < high - low:
                        return Done(None, high - low - done - more)
        return ended(campaign, covered, place)


def ended(campaign: Campaign, covered: Seeds, place: Place) -> Done:
    summary = summarize(campaign, covered, place.out)
    place.finish(summary)
    return Done(summary, 0)


def covers(out: Path, asked: Asked, todo: list[Seeds]) -> Seeds:
    """Return the seeds up to the failure at which the campaign stops; all seeds if it has not found that many."""
    if not asked.stop_after:
        return asked.seeds
    whole = asked.seeds[0], min((lo for lo, _ in todo), default=asked.seeds[1])  # the seeds before the first gap
    table = read(out, whole, ["seed", "kind"])
    failed = sorted(table.filter(pc.field("kind") != "")["seed"].to_pylist())
    return (asked.seeds[0], failed[asked.stop_after - 1] + 1) if len(failed) >= asked.stop_after else asked.seeds


def failures_in(out: Path, seeds: Seeds) -> int:
    return read(out, seeds, ["kind"]).filter(pc.field("kind") != "").num_rows


def waves(work: Work, cut: "Cut", place: Place, engine: Engine, told: Told) -> Iterator[tuple[int, int]]:
    """Run and commit wave by wave. Yields the number of seeds done, and of those that failed. Raises Hangs if seeds are left
    after a wave in which several did not end."""
    done = failed = 0
    told(done, failed)
    while wave := cut.wave():
        began, seeds = time.monotonic(), sum(hi - lo for lo, hi in wave)

        def run(target: Path | Target, wave: list[Seeds] = wave, done: int = done, failed: int = failed) -> list[Part]:
            return engine(work, wave, target, lambda more: told(done + more, failed))

        folder = place.commit(run)
        kinds = read(place.out, (wave[0][0], wave[-1][1]), ["kind"], folder)["kind"].to_pylist()
        failed += len(kinds) - kinds.count("")
        cut.took(seeds, time.monotonic() - began)
        done += seeds
        told(done, failed)
        yield done, failed
        if (hung := kinds.count("timeout")) >= MOST_HUNG and (cut.left or len(kinds) < seeds):
            raise Hangs(f"{hung} seeds did not end within {work.limit_s:g} s each")


class Cut:
    """Cuts seeds into ranges and ranges into waves. `size`: seeds in a range; 0: as many as take about TASK_S seconds."""

    def __init__(self, gaps: list[Seeds], jobs: int, size: int = 0) -> None:
        self.left, self.jobs, self.fixed = list(reversed(gaps)), jobs, size > 0
        self.size = size or max(1, min(FIRST_SEEDS, sum(hi - lo for lo, hi in gaps) // (4 * jobs)))

    def wave(self) -> list[Seeds]:
        """Return the ranges of the next wave; [] if all are done."""
        found: list[Seeds] = []
        while self.left and len(found) < WAVE * self.jobs:
            low, high = self.left.pop()
            found.append((low, min(low + self.size, high)))
            if low + self.size < high:
                self.left.append((low + self.size, high))
        return found

    def took(self, seeds: int, wave_s: float) -> None:
        if not self.fixed:
            wanted = int(seeds * TASK_S / (max(wave_s, 0.001) * self.jobs))
            self.size = max(1, min(wanted, 8 * self.size, MOST_SEEDS))
