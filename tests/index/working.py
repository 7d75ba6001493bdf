"""A whole index and its worker in one program, which `highwater client test` runs under faults: FOLDER keeps the index.

    working.py setup URL FOLDER    put the objects of some segments
    working.py work URL FOLDER     add their blocks, compact them, and delete their objects
    working.py check URL FOLDER    end with 0 if each datum is in exactly one block that a query finds

The delay of deletion passes by a clock that jumps. A word after FOLDER gives the worker a known bug.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import QueryRequest
from highwater.impl.codecs.index.names import block_path
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.index.compaction.merge import Result, Source
from highwater.impl.index.compaction.worker import Options, Worker
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import under
from highwater.impl.index.library import Index
from highwater.impl.raft.faults import LeadershipLost, NotLeader
from highwater.impl.raft.node import USUAL
from highwater.impl.raft.state import LEADER
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.node_system import local_worlds
from highwater.impl.stores.system import SystemClock, open_store, system_world
from highwater.impl.world import World, list_all
from tests.impl.index.segments import data_in, made

CONFIG = Config(horizon_ns=600 * S, retry_ns=599 * S, query_ns=S, delay_ns=601 * S, lease_ns=S, retry_failed_ns=S,
                levels=(Level(3, 600 * S),))
QUICK = Options(poll_ms=50, renew_ms=300, attempts=4)
JUMP_MS = 2_000_000  # more than two delays
TENANTS, SEGMENTS = ("a", "b"), 3
FAST = USUAL._replace(tick_ms=30)
LIMIT_S = 30.0


class Jumping(SystemClock):
    """The system's clock, and what it has jumped: a file keeps it."""

    def __init__(self, folder: Path):
        self.file = folder / "jumped"
        self.jumped_ms = int(self.file.read_text()) if self.file.exists() else 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jumped_ms

    def jump(self) -> None:
        self.jumped_ms += JUMP_MS
        self.file.write_text(str(self.jumped_ms))


class Trusting(Worker):
    """A bug: an object whose PUT was not answered counts as put."""

    async def put(self, result: Result) -> Result:
        try:
            await self.world.store.create(path_of(result.block), result.body)
        except OutcomeUnknown:
            pass
        return result


class Hasty(Worker):
    """A bug: the sources go as soon as the results are there, before the index has heard of them."""

    async def made(self, job: Any) -> list[Result]:
        results = await super().made(job)
        for ulid in job.source_blocks:
            await self.world.store.delete(block_path(job.shard, job.tenant, ulid, job.compaction_level))
        return results


WORKERS = {"": Worker, "trusting": Trusting, "hasty": Hasty}


def path_of(block: Any) -> str:
    return block_path(block.shard, block.string_table[block.tenant], block.id, block.compaction_level)


def segments(folder: Path) -> list[Source]:
    """Return the segments, which are always the same for one folder."""
    start_ms = int((folder / "started").read_text())
    return [made(number, tuple((tenant, f"{tenant}{number}", b"data %d" % number) for tenant in TENANTS), start_ms + number)
            for number in range(SEGMENTS)]


@asynccontextmanager
async def opened(folder: Path, clock: SystemClock) -> AsyncIterator[Index]:
    """Give the index of the folder, as soon as it can answer."""
    (world,) = local_worlds([("1", FolderDisk(folder / "index"))]).values()
    async with asyncio.timeout(LIMIT_S), Index.open(world._replace(clock=clock), CONFIG, options=FAST) as index:
        while not (index.node.state.role == LEADER and index.node.state.commit):
            await asyncio.sleep(0.01)
        yield index


async def set_up(world: World, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "started").write_text(str(time.time_ns() // 1_000_000))
    for one in segments(folder):
        await world.store.create(path_of(one.block), one.body)


async def worked(world: World, folder: Path, bug: str) -> None:
    """Add the blocks, again if that was done before, and work until nothing is left to do."""
    clock = Jumping(folder)
    async with opened(folder, clock) as index:
        for one in [] if clock.jumped_ms else segments(folder):
            await added(index, one.block)
        worker = WORKERS[bug](world._replace(clock=clock), index.poll, QUICK)
        for left in ("jobs", "tombstones"):
            while not (await worker.once() or is_idle(index, left)):
                await asyncio.sleep(0.02)
            while not is_idle(index, left):
                await worker.once()
                await asyncio.sleep(0.02)
            clock.jump()


async def added(index: Index, block: Any) -> None:
    """Add a block, again while nobody leads: a node steps down while its disk is slow."""
    while True:
        try:
            return await index.add(block)
        except (NotLeader, LeadershipLost):
            await asyncio.sleep(0.05)


def is_idle(index: Index, left: str) -> bool:
    prefixes = (row.JOB_PLAN, row.QUEUE) if left == "jobs" else (row.TOMBSTONES,)
    return not any(True for prefix in prefixes for _ in under(index.node.value, prefix))


async def checked(world: World, folder: Path) -> None:
    """Compare what a query finds with what was put; if all was done, nothing else is in the store."""
    async with opened(folder, Jumping(folder)) as index:
        asked = QueryRequest(tenant_id=TENANTS, start_time=0, end_time=1 << 62, query="{}")
        blocks = (await index.query(asked, stale=True)).blocks  # nobody else has it, so what it has applied is all
        found = [of[:3] for block in blocks for of in data_in((await world.store.get(path_of(block))).body, block)]
        put = [of[:3] for one in segments(folder) for of in data_in(one.body, one.block)]
        assert sorted(found) == sorted(put), f"{found} is found, and {put} was put"
        if os.environ.get("HIGHWATER_EXIT") == "0":
            assert {entry.key for entry in await list_all(world.store, "")} == {path_of(block) for block in blocks}


def main(what: str, url: str, folder: str, bug: str = "") -> None:
    world = system_world(open_store(url))
    works = {"setup": lambda: set_up(world, Path(folder)), "work": lambda: worked(world, Path(folder), bug),
             "check": lambda: checked(world, Path(folder))}
    asyncio.run(works[what]())


if __name__ == "__main__":
    main(*sys.argv[1:])
