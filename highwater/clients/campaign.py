"""Choose trials and run them. Each is kept in a folder as it ends, so that a campaign that was stopped goes on.

First comes the run without faults. Then each fault at each mutation of each client, each request of each client held while the
others run, and pairs of these, drawn by a seed.
"""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import chain, combinations
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

from highwater.clients.faults import HOLD, Fault, Placed
from highwater.clients.findings import CODES, Evidence, Finding
from highwater.clients.judges import conditional, findings
from highwater.clients.models import unused_maps
from highwater.clients.plan import Unfit
from highwater.clients.trial import Asked, Place, Seen, mutations, seen
from highwater.outside import json_of, lines_of
from highwater.recorder.rules import MUTATIONS
from highwater.traces.recorded.s3log import Request, read
from highwater.traces.recorded.systems.mapped import Map

CLEAN = 0  # the number of the run without faults


class Settings(NamedTuple):
    """The commands, their faults, and how they are tried. `place` gives a fresh place for a trial's number."""

    asked: Asked
    faults: dict[str, Fault]
    place: Callable[[int], Place]
    leave: Callable[[Place, Path | None], None]  # copies the objects of a trial into a folder, if there is one; then it is over
    folder: Path
    jobs: int
    hints: tuple[str, ...] = ()
    names: re.Pattern[str] | None = None
    maps: tuple[Map, ...] = ()
    holds: bool = True


class Result(NamedTuple):
    """The verdict on a trial. `verdict`: "fine", "error" if the client failed without harm, "killed", "not reached", or the
    kind of its worst finding."""

    number: int
    placed: tuple[Placed, ...]
    verdict: str
    findings: tuple[Finding, ...]
    ended: dict[str, int]  # client -> exit code
    seconds: dict[str, float]  # client -> how long it ran
    where: tuple[str, ...]  # the requests at which the faults were
    mutations: dict[str, list[int]]  # client -> which of its requests were mutations, counted from 1

    @property
    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}

    @property
    def failed(self) -> bool:
        return self.verdict in CODES


class CleanRunFailed(Exception):
    """Without any fault the client or its check fails. The text says how."""


def tried(settings: Settings, number: int, placed: tuple[Placed, ...], clean: Sequence[Request], stopped: Callable[[], bool]
          ) -> tuple[Result, Seen]:
    """Run one trial in a folder of its own and judge it. Raises SetupFailed, KeyboardInterrupt."""
    folder, place = folder_of(settings, number), settings.place(number)
    shutil.rmtree(folder, ignore_errors=True)  # of a trial that was stopped
    folder.mkdir(parents=True)
    saw = seen(settings.asked, place, placed, settings.faults, folder, stopped)
    evidence = Evidence(saw, clean or saw.requests, place, settings.hints, settings.names, settings.maps)
    if unused := unused_maps(evidence) if number == CLEAN else []:
        raise CleanRunFailed(f"no request puts or deletes a key that fits {', '.join(unused)}: correct --map")
    found = tuple(findings(evidence))
    took = {rule: f"{one.method} {one.key.removeprefix(place.prefix)}" for one in saw.requests if (rule := one.rule)}
    result = Result(number, placed, verdict_of(saw, found), found, {name: one.exit_code for name, one in saw.ended.items()},
                    {name: round(one.seconds, 3) for name, one in saw.ended.items()}, tuple(took.values()),
                    {name: places(saw.requests, name) for name in saw.ended})
    settings.leave(place, folder / "bucket" if result.failed else None)
    if not result.failed and number != CLEAN:
        shutil.rmtree(folder)
    return result, saw


def verdict_of(saw: Seen, found: Sequence[Finding]) -> str:
    if found:
        return found[0].kind
    if not all(saw.reached):
        return "not reached"
    failed = [name for name, one in saw.ended.items() if one.exit_code]
    return "error" if set(failed) - saw.killed else "killed" if failed else "fine"


def places(requests: Sequence[Request], client: str) -> list[int]:
    return [nth for nth, one in enumerate((one for one in requests if one.client == client), 1) if one.op in MUTATIONS]


def folder_of(settings: Settings, number: int) -> Path:
    return settings.folder / "runs" / f"{number:05}"


# --- which trials

def singles(asked: Asked, clean: Sequence[Request], faults: dict[str, Fault], holds: bool = True) -> list[tuple[Placed, ...]]:
    found = [Placed(fault, client, nth) for client in asked.clients
             for nth, one in enumerate(mutations(clean, client), 1) for fault in faults
             if conditional(one) or not faults[fault].of_conditions]
    if len(asked.clients) > 1 and holds:
        found += [Placed(HOLD, client, nth) for client in asked.clients
                  for nth in range(1, sum(one.client == client for one in clean) + 1)]
    return [(one,) for one in found]


def pairs(of: Sequence[Result], most: int, seed: int) -> list[tuple[Placed, ...]]:
    """Draw pairs of faults, from the results of single ones and of the clean run: a longer draw extends a shorter one.

    First come faults after which the client has mutated more than without, together with a hold at a later mutation: what it
    does to mend things may meet others. Then come other faults with such a hold, then two of the single faults."""
    alone, usual = [one for one in of if len(one.placed) == 1], next(one.mutations for one in of if not one.placed)
    tiers: list[list[tuple[Placed, ...]]] = [[], [], []]
    for one in alone:
        fault, places = one.placed[0], one.mutations[one.placed[0].client]
        if fault.fault != HOLD and len(one.mutations) > 1:
            tiers[len(places) <= len(usual[fault.client])] += [(fault, Placed(HOLD, fault.client, nth))
                                                               for nth in places[fault.nth:]]
    tiers[2] = [one.placed + two.placed for one, two in combinations(alone, 2) if one.placed[0][1:] != two.placed[0][1:] and (
        [one.placed[0].fault, two.placed[0].fault].count(HOLD) < 2)]
    for tier in tiers:
        random.Random(seed).shuffle(tier)
    return [*dict.fromkeys(chain(*tiers))][:most]


def campaign(settings: Settings, most_pairs: int, seed: int, most_runs: int, enough: Callable[[], bool],
             each: Callable[[Result], None]) -> Iterator[Result]:
    """Yield the result of each trial, the clean run's first; those that an earlier call has kept are not run again.

    `enough` says when the time is over. `each` is called with each new result. Raises SetupFailed and CleanRunFailed."""
    kept = {result.number: result for result in results(settings.folder)}
    rewrite(settings.folder, kept.values())
    if CLEAN in kept:
        with open(folder_of(settings, CLEAN) / "log.ndjson") as log:
            clean = read(log).requests
    else:
        result, saw = tried(settings, CLEAN, (), (), lambda: False)
        clean = saw.requests
        if why := [finding.why for finding in result.findings if finding.kind in ("hung", "check failed")] or [
                f"{name} ended with exit code {code}" for name, code in result.ended.items() if code]:
            raise CleanRunFailed("; ".join(why))
        keep(settings.folder, result)
        each(result)
        kept[CLEAN] = result
    yield kept[CLEAN]
    alone = list(enumerate(singles(settings.asked, clean, settings.faults, settings.holds), 1))[:most_runs]

    def ran(trials: Sequence[tuple[int, tuple[Placed, ...]]]) -> Iterator[Result]:
        yield from (kept[number] for number, _ in trials if number in kept)
        yield from side_by_side(settings, [trial for trial in trials if trial[0] not in kept], clean, enough, each)

    first = [kept[CLEAN], *ran(alone)]
    yield from first[1:]
    if len(first) > len(alone):  # all of them have ended
        drawn = pairs(sorted(first), min(most_pairs, most_runs - len(alone)), seed)
        yield from ran(list(enumerate(drawn, len(alone) + 1)))


def side_by_side(settings: Settings, trials: Iterable[tuple[int, tuple[Placed, ...]]], clean: Sequence[Request],
                 enough: Callable[[], bool], each: Callable[[Result], None]) -> Iterator[Result]:
    """Run trials, some at a time, and keep their results. If the caller stops, those that run are ended."""
    stop, left = Event(), iter(trials)
    with ThreadPoolExecutor(settings.jobs) as pool:
        running: set[Future[tuple[Result, Seen]]] = set()
        try:
            while True:
                for number, placed in left if not enough() else ():
                    running.add(pool.submit(tried, settings, number, placed, clean, stop.is_set))
                    if len(running) >= settings.jobs:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result, _ = future.result()
                    keep(settings.folder, result)
                    each(result)
                    yield result
        finally:
            stop.set()  # the trials that still run end, with their processes


# --- what is kept

def keep(folder: Path, result: Result) -> None:
    with open(folder / "results.ndjson", "a") as file:
        file.write(json.dumps(result._asdict()) + "\n")


def rewrite(folder: Path, kept: Iterable[Result]) -> None:
    """Leave out what a campaign that was killed has left of its last line."""
    whole = folder / "results.ndjson.whole"
    whole.write_text("".join(json.dumps(result._asdict()) + "\n" for result in kept))
    whole.rename(folder / "results.ndjson")


def results(folder: Path) -> Iterator[Result]:
    """Yield the kept results. A last line without its end, of a campaign that was killed, does not count."""
    path = folder / "results.ndjson"
    if not path.exists():
        return
    with open(path, "rb") as stream:
        for number, line in enumerate(lines_of(stream), 1):
            if line.endswith(b"\n"):
                try:
                    yield result_of(json_of(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise Unfit(f"{path}:{number}: the folder is damaged: {error!r}; give a new one to --out") from None


def result_of(fields: dict[str, Any]) -> Result:
    placed = tuple(Placed(*one) for one in fields["placed"])
    found = tuple(Finding(kind, why, tuple(numbers)) for kind, why, numbers in fields["findings"])
    return Result(**{**fields, "placed": placed, "findings": found, "where": tuple(fields["where"])})


def fewest(all_results: Iterable[Result]) -> list[Result]:
    """Return the results that failed, but those in which fewer faults have led to the same kinds of findings: one of a pair, or
    none."""
    by_faults = {result.placed: result for result in all_results}
    return [result for placed, result in by_faults.items() if result.failed and not any(
        (less := by_faults.get(fewer)) and result.kinds <= less.kinds
        for fewer in [()] * bool(placed) + [(one,) for one in placed] * (len(placed) > 1))]
