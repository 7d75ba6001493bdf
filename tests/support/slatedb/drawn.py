"""Draws scripts of operations that a database allows."""

from random import Random

from tests.support.slatedb.batches import Batch
from tests.support.slatedb.sides import Step

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
STEPS = 14
FIRST = "first"  # a key that is never deleted, so that no compaction and no projection is empty


class Script:
    """A script that grows, and what the database has by then."""

    def __init__(self, random: Random):
        self.random, self.steps = random, list[Step]()
        self.l0 = self.runs = self.number = self.clones = self.unflushed = 0
        self.has_flushed = False  # since it was opened
        self.taken: list[bool] = []  # of each checkpoint: it is still listed

    def step(self) -> None:
        choices = [self.write] * 4 + [self.flush] * 3
        choices += [self.checkpoint, self.checkpoint_all, self.clone, self.project, self.reopen]
        choices += [self.compact] * 2 * bool(self.l0 or self.runs > 1) + [self.refresh, self.delete] * any(self.taken)
        self.random.choice(choices)()

    def write(self) -> None:
        batch: Batch = []
        if not self.number:
            batch.append(["put", FIRST, ""])
        for key in self.random.sample("abcdefgh", self.random.randrange(1, 5)):
            self.number += 1
            batch.append(["delete", key] if self.random.random() < 0.25 else ["put", key, f"value {self.number}"])
        if self.random.random() < 0.2:
            batch.append(["merge", "m", f"{self.number}"])
        self.steps.append(("write", batch))
        self.unflushed += 1

    def flush(self) -> None:
        self.write_if_none()
        self.steps.append(("flush",))
        self.flushed()

    def write_if_none(self) -> None:
        """Write, unless there is something to flush: a flush without rows is one of the differences that are decided."""
        if not self.unflushed:
            self.write()

    def flushed(self) -> None:
        self.l0, self.unflushed, self.has_flushed = self.l0 + 1, 0, True

    def checkpoint(self) -> None:
        self.steps.append(("checkpoint", *self.lease()))

    def checkpoint_all(self) -> None:
        self.write_if_none()
        self.steps.append(("checkpoint_all", *self.lease()))
        self.flushed()

    def lease(self) -> tuple[int | None, str | None]:
        self.taken.append(True)
        return self.random.choice((None, MINUTE_MS, HOUR_MS)), self.random.choice((None, "nightly", "weekly"))

    def listed(self) -> int:
        return self.random.choice([number for number, there in enumerate(self.taken) if there])

    def refresh(self) -> None:
        self.steps.append(("refresh", self.listed(), self.random.choice((None, MINUTE_MS, HOUR_MS))))

    def delete(self) -> None:
        number = self.listed()
        self.taken[number] = False
        self.steps.append(("delete", number))

    def clone(self) -> None:
        source = self.listed() if any(self.taken) and self.random.random() < 0.5 else None
        self.steps.append(("clone", f"clone{self.clones}", source))
        self.clones += 1

    def project(self) -> None:
        if self.unflushed:
            self.flush()  # what only the WAL has is in no projection, so ours refuses it
        start, end = self.random.choice((None, *"abcdef")), self.random.choice((None, *"gh"))  # around FIRST
        self.steps.append(("project", f"part{self.clones}", start, end))
        self.clones += 1

    def reopen(self) -> None:
        if self.unflushed or not self.has_flushed:  # what is else seen and flushed at a close is among the differences
            self.flush()
        self.steps.append(("reopen",))
        self.has_flushed = False

    def compact(self) -> None:
        l0, runs = self.random.randrange(self.l0 + 1), self.random.randrange(self.runs + 1)
        if not l0 and runs < 2:
            l0, runs = self.l0, 0 if self.l0 else self.runs
        self.steps.append(("compact", l0, runs))
        self.l0 -= l0
        self.runs += 1 - runs


def drawn(random: Random) -> tuple[Step, ...]:
    """Return a script. It begins with a flush, and ends with a collection."""
    script = Script(random)
    script.write()
    script.flush()
    for _ in range(STEPS):
        script.step()
    return (*script.steps, ("collect",))
