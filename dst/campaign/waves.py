"""Run a campaign in waves. Safety: it is done only when each seed that it covers has a row; it can be stopped and resumed.

A wave is a number of ranges, in the order of the seeds, which are committed together. After each wave the campaign may stop:
when its time is used up, or when enough seeds have failed. The reported failures do not depend on how the seeds were cut into
waves. They are the smallest ones, and the campaign covers the seeds up to the last of them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow.compute as pc

from highwater.dst.campaign.folder import Asked, missing, read
from highwater.dst.campaign.place import Part, Place, Target
from highwater.dst.campaign.summary import summarize
from highwater.dst.campaign.what import Campaign, Hangs, Seeds, Work
from highwater.dst.sim.alarm import MOST_HUNG

FIRST_SEEDS = 100  # for each slot in the first wave, whose rate determines the size of the next one
FIRST_RANGES = 10  # for each slot in the first wave, at most
FEWEST = 4  # ranges for each slot, unless they are too small to be cut
TASK_S = 5.0  # wanted time for a range
WAVE_S = 60.0  # wanted time for a wave
GROWTH = 16  # of a wave against the one before, at most
MOST_SEEDS = 20_000  # in a range
MOST_RANGES = 20_000  # in a wave

Progress = Callable[[int], None]  # number of seeds of the wave that are done
Told = Callable[[int, int], None]  # seeds done, and committed seeds that failed
Engine = Callable[[Work, list[Seeds], Path | Target, Progress], list[Part]]
"""Run the ranges, write their rows as Parquet files into the folder, or give them to the target. Return the target's parts when
all are written; else raise."""


@runtime_checkable
class Elastic(Protocol):
    """An engine whose size is not the caller's choice, and may change between waves."""

    def slots(self) -> int:
        """Return how many ranges it runs at once."""
        ...


class Done(NamedTuple):
    """The result of a campaign. `summary` None: the time was used up, and `left` seeds have no row yet."""

    summary: dict | None
    left: int


def run(campaign: Campaign, asked: Asked, place: Place, start: Callable[[], AbstractContextManager[Engine]], jobs: int,
        budget_s: float = 0, told: Told = lambda done, failed: None) -> Done:
    """Run the seeds that have no rows yet. `jobs`: how many ranges run at once; 0: as an Elastic engine says. Raises
    CampaignError."""
    began, (low, high) = time.monotonic(), asked.seeds
    with place.opened(campaign, asked):
        out = place.out
        todo = missing(out, asked.seeds)
        covered = covers(out, asked, todo)
        if todo and covered == asked.seeds:
            done, failed = high - low - sum(hi - lo for lo, hi in todo), failures_in(out, asked.seeds)
            with start() as engine:
                cut = Cut(todo, slots_of(engine, jobs), asked.range_size)
                for more, _ in waves(Work(campaign, asked.limit_s), cut, place, engine,
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


def slots_of(engine: Engine, jobs: int) -> Callable[[], int]:
    """Return a function that returns how many ranges run at once."""
    return engine.slots if not jobs and isinstance(engine, Elastic) else lambda: max(jobs, 1)


class Cut:
    """Cuts seeds into ranges and ranges into waves.

    A wave takes about WAVE_S seconds at the rate of the wave before it, and a range about TASK_S. `slots` returns how many
    ranges run at once, and is called for each wave. `size`: seeds in a range; 0: as above."""

    def __init__(self, gaps: list[Seeds], slots: Callable[[], int], size: int = 0) -> None:
        self.left, self.slots, self.size = list(reversed(gaps)), slots, size
        self.used = 1  # slots of the last wave
        self.most = self.rate = 0.0  # seeds of the next wave; seeds a second and slot in the last one, 0: there was none

    def wave(self) -> list[Seeds]:
        """Return the ranges of the next wave; [] if all are done."""
        if not self.left:
            return []
        self.used = self.slots()
        first = min(FIRST_SEEDS, FIRST_RANGES * self.size or FIRST_SEEDS)
        wanted = min(self.most, self.rate * WAVE_S * self.used) if self.rate else first * self.used
        wanted = max(1, min(int(wanted), sum(high - low for low, high in self.left)))
        size = self.size or self._size(wanted)
        found: list[Seeds] = []
        while self.left and (wanted > 0 or len(found) < self.used) and len(found) < MOST_RANGES:
            low, high = self.left.pop()
            end = min(low + size, high)
            found.append((low, end))
            wanted -= end - low
            if end < high:
                self.left.append((end, high))
        return found

    def took(self, seeds: int, wave_s: float) -> None:
        self.rate, self.most = seeds / (max(wave_s, 0.001) * self.used), seeds * GROWTH

    def _size(self, wanted: int) -> int:
        balanced = -(-wanted // (FEWEST * self.used))
        timed = max(1, int(self.rate * TASK_S)) if self.rate else wanted
        return min(max(min(balanced, timed), -(-wanted // MOST_RANGES)), MOST_SEEDS)
