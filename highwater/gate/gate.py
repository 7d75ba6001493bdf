"""Run the gate: take the verdicts that are kept, and run all other checks.

Safety: the gate has a row for each check. A kept row that comes out differently when it is run again fails.
"""

from collections.abc import Generator
from random import SystemRandom
from typing import NamedTuple

from highwater.gate.exits import HARNESS
from highwater.gate.kept import Verdicts, drawn
from highwater.gate.rows import Check, Row
from highwater.gate.run import Done, longest_first, ran


class Asked(NamedTuple):
    jobs: int
    anew: bool = False  # use no kept verdict
    again: float = 0  # per cent of the kept rows to run again
    draw: int | None = None  # the seed that draws them


class Gate:
    """The checks, the rows so far, and what is left to run. `rows` has None for a check that has not ended."""

    def __init__(self, checks: list[Check], asked: Asked, verdicts: Verdicts) -> None:
        self.checks, self.asked, self.verdicts = checks, asked, verdicts
        self.rows: list[Row | None] = [None if asked.anew else verdicts.recalled(check) for check in checks]
        self.kept = {number for number, row in enumerate(self.rows) if row}
        self.draw = SystemRandom().randrange(1_000_000) if asked.draw is None else asked.draw
        self.drawn = drawn(self.kept, asked.again, self.draw)
        self.left = self.to_run()
        self.ended: set[int] = set()  # numbers of the checks that have run

    def to_run(self) -> list[tuple[int, Check]]:
        """Return the checks to run, the longest first."""
        left = [(number, check) for number, check in enumerate(self.checks) if number not in self.kept - self.drawn]
        took = {number: self.verdicts.seconds(check) for number, check in left}
        return longest_first(left, {number: seconds for number, seconds in took.items() if seconds is not None})

    def run(self) -> Generator[Row, None, None]:
        """Run the checks that are left, and yield their rows as they end. If the caller closes it, all processes are killed."""
        for done in ran(self.left, self.asked.jobs) if self.left else ():
            row = self.rows[done.number] = self.judged(done)
            self.ended.add(done.number)
            yield row

    def unfinished(self) -> list[int]:
        """Return the numbers of the checks that run or wait, in the order in which they begin."""
        return [number for number, _ in self.left if number not in self.ended]

    def running(self) -> list[Check]:
        return [self.checks[number] for number in self.unfinished()[:self.asked.jobs]]

    def judged(self, done: Done) -> Row:
        """Return the row of a check that has run, and keep it if it may be kept. A drawn row must be as it was."""
        check, before = self.checks[done.number], self.rows[done.number]
        if before and (done.row.figure, done.row.code) != (before.figure, before.code):
            self.verdicts.forget(check)
            now = done.row.figure if not done.row.code else f"exit {done.row.code}: {done.row.message}"
            return done.row._replace(code=HARNESS, message=f"not as its kept verdict: it was {before.figure!r}, and now it is "
                                     f"{now!r}; to run every check: --anew")
        self.verdicts.keep(check, done.row, done.noted, done.started)
        return done.row
