"""Puts odd keys and bodies into a bucket, for a sweeper, a worker, and the listings of `index check` and `index rebuild`."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import PollResponse, Tombstones, encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.errors import Definite, StoreError
from highwater.impl.index.bucket.objects import OtherLayout, metadata_in, place_of
from highwater.impl.index.compaction.worker import Options as WorkerOptions
from highwater.impl.index.compaction.worker import Worker
from highwater.impl.index.letters.letter import ASIDE, QUEUE, REJECTED, key_of
from highwater.impl.index.letters.sweeper import Options, Sweeper
from highwater.impl.index.library import Index
from highwater.impl.stores.keys import fault_of
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World, list_all
from tests.fuzz.lives import Stopped, Subject
from tests.fuzz.mutations import mutated, odd_key
from tests.impl.index.test_index_library import CONFIG, FAST, leads, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_damage import damage
from tests.support.metadata_index import block

PERIOD_MS, POLL_MS = 1_000, 700


class Turns:
    """A clock whose sleeps for one period end only when the fuzzer says so; other sleeps are those of `clock`."""

    def __init__(self, clock: Any, *periods_ms: int):
        self.clock, self.periods_ms, self.sleeping, self.turn = clock, periods_ms, 0, asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.clock, name)

    async def sleep_ms(self, duration_ms: int) -> None:
        if not any(duration_ms >= period_ms for period_ms in self.periods_ms):
            await self.clock.sleep_ms(duration_ms)
            return
        self.sleeping += 1
        try:
            await self.turn.wait()
        finally:
            self.sleeping -= 1

    async def take(self, tasks: list[asyncio.Task[None]], pause_s: float) -> None:
        """Let each task work until it sleeps again. Raises Stopped if one has ended, or does not come back."""
        turn, self.turn = self.turn, asyncio.Event()
        turn.set()
        await asyncio.sleep(0)
        for _ in range(100_000):
            for task in tasks:
                if task.done():
                    raise Stopped(f"a task ends: {task.exception()!r}") from task.exception()
            if self.sleeping == len(tasks):
                return
            await asyncio.sleep(pause_s)
        raise Stopped("a task does not end its turn")


class Jobs:
    """An index that gives a worker one job or tombstone after the other."""

    def __init__(self) -> None:
        self.next: Any = PollResponse()
        self.reports = 0

    async def poll(self, request: Any) -> Any:
        if request.status_updates:
            self.reports += 1
            return PollResponse(assignments=[{"name": "job", "token": 1}])
        given, self.next = self.next, PollResponse()
        return given

    def give(self, sources: list[str], gone: str, chance: Random) -> None:
        unit = {"shard": 1, "tenant": "t", "compaction_level": chance.choice((0, 1))}
        self.next = PollResponse(compaction_jobs=[{"name": "job", "source_blocks": sources, **unit}],
                                 assignments=[{"name": "job", "token": 1}],
                                 overdue=[Tombstones(index=1, blocks={"name": "n", "blocks": [gone], **unit})])


class Bucket:
    """An index, a bucket, and those who work on it."""

    def __init__(self, index: Index):
        self.index, self.store, self.jobs, self.counts = index, MemoryStore(), Jobs(), Counter[str]()
        of = index.world
        clock: Any = Turns(of.clock, PERIOD_MS, POLL_MS)
        self.turns, world = clock, World(self.store, clock, of.ids, of.metrics)
        sweeper = Sweeper(world, index.add, lambda: True, Options(PERIOD_MS, at_once=2))
        worker = Worker(world, self.jobs.poll, WorkerOptions(POLL_MS, renew_ms=300, attempts=2))
        self.tasks = [asyncio.ensure_future(sweeper.run()), asyncio.ensure_future(worker.run())]
        self.made = 0

    def block(self) -> Any:
        self.made += 1
        now_ms = self.index.world.clock.now_ms()
        return block(self.made, tenant="t", ulid=ulids.made(now_ms, self.made.to_bytes(10)))

    def letter(self, chance: Random) -> tuple[str, bytes]:
        made = self.block()
        key, kind = key_of(made), chance.randrange(4)
        if kind == 0:
            damage(made, chance)
        body = encode(made)
        if kind == 1:
            body = mutated(body, chance)
        if kind > 1 or chance.random() < 0.2:
            key = odd_key(QUEUE, (key,), chance)
        return key, body

    def stored(self, chance: Random) -> tuple[str, bytes]:
        made = self.block()
        if chance.random() < 0.3:
            damage(made, chance)
        body = bytes(20) + footer(made)
        valid = block_path(1, "t", made.id[:26], chance.choice((0, 1)))
        key = valid if chance.random() < 0.5 else odd_key(valid.split("/")[0] + "/", (valid,), chance)
        return key, mutated(body, chance) if chance.random() < 0.5 else body

    async def give(self, chance: Random) -> None:
        for make in (self.letter, self.stored):
            key, body = make(chance)
            if fault_of(key):
                self.counts["keys that no store takes"] += 1
                continue
            await self.store.put(key, body)
            if chance.random() < 0.2:
                moved = chance.choice((REJECTED, ASIDE)) + key.removeprefix(QUEUE)
                if not fault_of(moved):
                    await self.store.put(moved, b"another one")
            if make == self.stored:
                await self.place(key, body)
                sources = [part for part in key.split("/") if len(part) == 26] or [key]
                self.jobs.give(sources * chance.choice((1, 2)), chance.choice((key[-1_000:], *sources)), chance)
        self.counts["objects"] += 2
        await self.turns.take(self.tasks, 0.05)

    async def place(self, key: str, body: bytes) -> None:
        """Look at an object as `index check` and `index rebuild` do."""
        try:
            place_of(key)
            await metadata_in(self.store, key, len(body))
        except (OtherLayout, Definite):
            pass
        self.counts["objects looked at"] += 1

    async def check(self) -> None:
        """Put a good letter: it is in the index soon. Then empty the bucket."""
        made = self.block()
        await self.store.put(key_of(made), encode(made))
        for _ in range(3):
            await self.turns.take(self.tasks, 0.05)
        if [one.id for one in await self.index.get("t", 1, [made.id])] != [made.id]:
            raise Stopped("a good letter is not added")
        for entry in await list_all(self.store, ""):
            try:
                await self.store.delete(entry.key)
            except StoreError:
                pass

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def begin(chance: Random) -> AsyncGenerator[Bucket]:
    async with AsyncExitStack() as stack:
        index = await stack.enter_async_context(Index.open(worlds("1")["1"], CONFIG, options=FAST))
        await leads(index)
        one = Bucket(index)
        stack.push_async_callback(one.close)
        await asyncio.sleep(0.1)
        yield one


SUBJECT = Subject("bucket", begin, run)
