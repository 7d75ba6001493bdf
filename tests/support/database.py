"""A database and what it is to show, for tests: a clock that stands still, and a dictionary of the rows."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from highwater.dst.actors import METRICS
from highwater.impl.db.db import Db, Options, Snapshot
from highwater.impl.db.manifest import Built
from highwater.impl.db.rows import TOMBSTONE, VALUE
from highwater.impl.db.writes import Op
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import SystemClock, Ulids
from highwater.impl.world import World


class Stopped(SystemClock):
    """A clock that tests set."""

    def __init__(self, now_ms: int = 1_000_000):
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms


def joined(key: bytes, found: bytes | None, operand: bytes) -> bytes:
    return (found or b"") + operand


OPTIONS = Options(merge=joined, poll_ms=0, built=Built(least_filtered=2, block_bytes=64))


def world_of(store: Any = None, clock: SystemClock | None = None) -> World:
    return World(MemoryStore() if store is None else store, clock or Stopped(), Ulids(), METRICS)


async def all_of(db: Db | Snapshot, span: Span = EVERYTHING) -> dict[bytes, bytes]:
    return {key: value async for key, value in db.scan(span)}


def run(work: Callable[[World], Awaitable[Any]], world: World | None = None) -> Any:
    return asyncio.run(work(world or world_of()))  # pyright: ignore[reportArgumentType]


class Plain:
    """The rows that the database is to show: of each key its value and when it ends."""

    def __init__(self):
        self.parts: dict[bytes, tuple[tuple[bytes, int | None], ...]] = {}  # the value or a tombstone, then operands

    def apply(self, ops: list[Op], now_ms: int) -> None:
        for op in ops:
            ends_ms = None if op.ttl_ms is None else now_ms + op.ttl_ms
            if op.kind == TOMBSTONE:
                self.parts[op.key] = ()
            elif op.kind == VALUE:
                self.parts[op.key] = ((b"=" + op.value, ends_ms),)
            else:
                self.parts[op.key] = (*self.parts.get(op.key, ()), (b"+" + op.value, ends_ms))

    def shown(self, now_ms: int) -> dict[bytes, bytes]:
        found = {}
        for key, parts in self.parts.items():
            live = [part for part, ends_ms in parts if ends_ms is None or now_ms < ends_ms]
            if live:
                found[key] = b"".join(part[1:] for part in live)
        return found

    def copy(self) -> "Plain":
        other = Plain()
        other.parts = dict(self.parts)
        return other
