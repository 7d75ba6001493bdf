"""Batches of changes that one writer of a soak makes, in the form that each side's client takes."""

from collections.abc import Callable
from random import Random
from typing import Any

from highwater.impl.db.writes import Op, delete, merge, put
from tests.support.slatedb.ledger import END, MERGED

HOUR_MS = 3_600_000
Batch = list[list[Any]]  # what, key, value, milliseconds to live


def joined(key: bytes, value: bytes | None, operand: bytes) -> bytes:
    return (value or b"") + operand


class Batches:
    """Batches of one writer: new keys, a counter, an operand, and deletes of its earlier keys."""

    def __init__(self, name: str, random: Random):
        self.name, self.random, self.number = name, random, 0
        self.there: list[str] = []

    def next(self) -> Batch:
        random, name, keys = self.random, self.name, []
        ops: Batch = []
        for _ in range(random.randrange(1, 6)):
            keys.append(f"{name}{self.number:06d}")
            self.number += 1
            live = [HOUR_MS] if random.random() < 0.1 else []
            ops.append(["put", keys[-1], str(random.random()) * random.choice((1, 1, 1, 40)), *live])
        ops.append(["put", f"latest {name}", f"{self.number:06d}"])
        if random.random() < 0.5:
            ops.append(["merge", f"{MERGED}{name}", f"{self.number}"])
        if self.there and random.random() < 0.5:
            ops.append(["delete", self.there.pop(random.randrange(len(self.there)))])
        self.there += keys
        return ops


def changes(batch: Batch) -> dict[str, str | None]:
    """Return the batch as the ledger takes it."""
    return {key: more[0] if more else None for _, key, *more in batch}


def theirs(batch: Batch) -> Batch:
    """Return the batch as peer.py takes it."""
    return [[what, key, f"{more[0]}{END}"] if what == "merge" else [what, key, *more] for what, key, *more in batch]


def ours(batch: Batch) -> list[Op]:
    """Return the batch as `Db.write` takes it."""
    made: dict[str, Callable[..., Op]] = {
        "put": lambda key, value, live=None: put(key, value.encode(), live),
        "merge": lambda key, value: merge(key, f"{value}{END}".encode()), "delete": delete}
    return [made[what](key.encode(), *more) for what, key, *more in batch]
