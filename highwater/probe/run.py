"""Safety: a store that was seen to do something unsafe is never reported as safe, and lines that were not asked are named.

This module runs a probe from beginning to end, and names the profile of dst/world/profiles.py nearest to the observations.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from botocore.exceptions import ClientError

from highwater.dst.world.profiles import PROFILES, S3
from highwater.impl.stores.s3 import bound_of
from highwater.impl.stores.system import Ulids
from highwater.probe import asking, lost, races
from highwater.probe.asking import Asker, connect
from highwater.probe.lines import NOT_ASKED, ONE_CLIENT, OTHERS, PROTOCOLS, UNSAFE, Found, Line

ROUNDS = 100
TRIES = 3
MATTERS = ("create_", "update_", "version", "lexicographic", "stale")  # fields of a Profile
FAILURES = (ClientError, *asking.FAILURES, OSError, RuntimeError, KeyError)


class NoStore(Exception):
    """The store cannot be asked."""


class Result(NamedTuple):
    """A line with its result."""

    line: Line
    found: Found


class Report(NamedTuple):
    """The results of a whole probe."""

    results: list[Result]
    left: list[str]  # keys that could not be deleted
    gone: str = ""  # the line during which the store stopped answering

    def unsafe(self, uses: Iterable[str]) -> dict[str, list[str]]:
        """Return the uses at risk, each with the names of its unsafe lines."""
        found = {use: [r.line.name for r in self.results if r.found.verdict == UNSAFE and use in r.line.uses] for use in uses}
        return {use: names for use, names in found.items() if names}

    def not_asked(self, uses: Iterable[str]) -> list[str]:
        return [r.line.name for r in self.results if r.found.verdict == NOT_ASKED and set(uses) & set(r.line.uses)]

    @property
    def data(self) -> dict[str, object]:
        return {name: value for r in self.results for name, value in r.found.data.items() if value != 0 or name == "stale"}

    def nearest(self) -> tuple[str, dict[str, object]]:
        """Return the nearest profile for simulation, and the observations that differ from it. Important fields count first."""
        def apart(name: str) -> tuple[int, int, int]:
            differing, peculiar = self.differing(name), sum(a != b for a, b in zip(PROFILES[name], S3))
            return sum(field.startswith(MATTERS) for field in differing), len(differing), peculiar

        best = min(PROFILES, key=apart)
        return best, self.differing(best)

    def differing(self, name: str) -> dict[str, object]:
        return {field: value for field, value in self.data.items() if getattr(PROFILES[name], field) != value}


def lines(rounds: int = ROUNDS) -> tuple[Line, ...]:
    return (*ONE_CLIENT, *races.lines(rounds), *lost.LINES)


USES = (*PROTOCOLS, *OTHERS)


def probe(endpoint_url: str | None, bucket: str, prefix: str = "", rounds: int = ROUNDS,
          tell: Callable[[Result], None] = lambda result: None) -> Report:
    """Run all lines below a new prefix, which is emptied at the end in any case. Raises NoStore if the bucket cannot be listed.
    """
    try:
        asker = Asker(connect(endpoint_url), bucket, f"{prefix}highwater-probe-{Ulids().new_id()}/")
        asker.listed()
    except (*FAILURES, ValueError) as error:
        raise NoStore(str(bound_of(error) or error)) from error
    results: list[Result] = []
    left, gone = [], ""
    try:
        for line in lines(rounds):
            if gone:
                found = Found(NOT_ASKED, f"the store stopped answering during {gone}")
            else:
                found = asked(line, asker.place(line.name))
                gone = line.name * (found.verdict == NOT_ASKED and not asker.answers())
            results.append(Result(line, found))
            tell(results[-1])
    finally:
        left = asker.clean()
    return Report(results, left, gone)


def asked(line: Line, asker: Asker) -> Found:
    """Ask one line. A single client's line is asked again if the store was busy, unreachable, or refused writes.

    If each time only the request that the line is about had no definite answer, its effect decides.
    """
    found = Found(NOT_ASKED, "")
    place = asker
    for again in range(TRIES):
        if again:
            place = asker.place(f"again-{again}")
        try:
            found = line.ask(place)
        except FAILURES as error:
            found = Found(NOT_ASKED, f"{type(error).__name__}: {error}"[:160])
        if line not in ONE_CLIENT or not place.undecided:
            return found
    if found.by_effect and len(place.undecided) == 1:
        return found
    return Found(NOT_ASKED, f"{TRIES} times it was not answered: {place.undecided[0]}")
