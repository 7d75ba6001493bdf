"""The end of a story. Safety: it ends well only if nothing waits any more, and the bucket alone gives the same blocks.

After the writers have ended:

1. The dead letters drain.
2. An operator decides on the letters that were kept aside, because they were older than the horizon. If a query finds the
   block's data, the letter is deleted; if it finds none of them, the block is added again.
3. The queue, the jobs and the tombstones drain, and nothing is left that retention drops.
4. Nobody works any more, and the snapshots of all nodes have equal rows.
5. `index check --snapshot` holds the snapshot against the bucket. Orphaned objects may be there: a writer's whose block was
   refused, or a worker's that has lost its job. They are deleted, as an operator would. If the block of one was in the index,
   its deletion was lost.
6. `index rebuild` makes a snapshot of the bucket alone. It has the same blocks.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Set
from pathlib import Path

import pyarrow.parquet as pq

from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.rows import Unit
from highwater.impl.errors import StoreError
from highwater.impl.index import replicated, units
from highwater.impl.index.kv import Rows
from highwater.impl.index.letters import kept
from highwater.impl.index.letters.letter import QUEUE, letter_of
from highwater.impl.index.retention import Policy, over
from highwater.impl.world import ObjectStore, list_all
from highwater.index import audit
from highwater.index.story import ledger
from highwater.index.story.blocks import PERIODS_S, data_of
from highwater.index.story.cast import DELAY_S, NAMES, Cast
from highwater.index.story.processes import Broken

POLICY = Policy(PERIODS_S["b"], {"a": PERIODS_S["a"]})
DRAINED_S = 180.0 + 10 * DELAY_S  # a machine may be busy
WAITS = ("queued", "jobs", "tombstones")


class NotDrained(Exception):
    """Something still waits after all had time to end. The message says what."""


class Ending:
    """The end of a story, with what it found wrong."""

    def __init__(self, cast: Cast, store: ObjectStore, engine: tuple[str, ...], known: Set[ledger.Key], counts: Counter[str]):
        """Make it. `known`: the blocks that were in the index."""
        self.cast, self.store, self.engine, self.known, self.counts = cast, store, engine, known, counts
        self.wrong: list[str] = []

    # --- nothing waits any more

    async def drained(self, letters_only: bool = False) -> None:
        """Wait until nothing waits, or no letter does. Raises NotDrained."""
        until_s, left = time.monotonic() + DRAINED_S, dict[str, int]()
        while time.monotonic() < until_s:
            self.cast.check()
            left = await self.left(letters_only)
            if not left:
                return
            await asyncio.sleep(0.2)
        raise NotDrained(f"after {DRAINED_S:.0f} s without writers and faults there are still "
                         + ", ".join(f"{count:,} {what}" for what, count in left.items()))

    async def left(self, letters_only: bool) -> dict[str, int]:
        """Return what still waits."""
        name = await self.cast.leader()
        try:
            said = await self.cast.status(name) if name else {}
            if not said:
                return {"nodes without a leader": len(NAMES)}
            left = {"letters": len(await list_all(self.store, QUEUE))}
            if not letters_only:
                left |= {what: said[what] for what in WAITS}
                left["units that are over"] = len(list(over(await self.rows(name), POLICY, time.time_ns())))
        except StoreError as error:
            return {f"node or bucket that does not answer ({error})": 1}
        return {what: count for what, count in left.items() if count}

    async def rows(self, name: str) -> Rows:
        return replicated.load(await self.cast.backup(name))

    # --- an operator looks after letters

    async def letters(self, found: list[str]) -> None:
        """Decide on the letters that are kept aside. `found`: the data that a query finds."""
        again = []
        for letter in await kept.letters(self.store):
            if letter.wrong or letter.state != "aside":
                self.wrong.append(f"a letter is {letter.state}: {letter.key} {letter.wrong}")
                continue
            block = letter_of(letter.key, (await self.store.get(letter.key)).body)
            there = [of.name for of in data_of(block) if of.name in found]
            if not there:
                again.append(letter.key)
            elif len(there) == len(block.datasets):
                await self.store.delete(letter.key)  # its block was added, and compacted before the letter was swept
            else:
                self.wrong.append(f"a part of a block is found: {', '.join(there)} of {block.id}")
        self.counts["letters added again by hand"] += len(again)
        if again:
            await self.cast.command("dlq", "readd", self.cast.url, *again, "--past-horizon", "--at", self.cast.at)

    # --- the bucket alone

    async def compared(self, folder: Path) -> None:
        """Compare the nodes, the bucket, and the index that is made of it. Nobody works any more."""
        files = await self.replicas()
        last = folder / "last.snapshot"
        last.write_bytes(files[0])
        rows = replicated.load(files[0])
        await self.orphans(folder, last, rows)
        rebuilt = folder / "rebuilt.snapshot"
        code = await self.cast.command("rebuild", self.cast.url, "--out", str(rebuilt), *self.engine, codes=(0, 3))
        if code:
            self.wrong.append(f"the rebuild found damaged or covered objects: see {rebuilt}.damaged.ndjson")
        blocks = exported(rows)
        self.counts["blocks rebuilt"] = len(blocks)
        self.wrong += ledger.differences(blocks, exported(replicated.load(rebuilt.read_bytes())))

    async def replicas(self) -> list[bytes]:
        """Return the snapshots of all nodes at one place of the log."""
        for _ in range(100):
            files = [await self.cast.backup(name) for name in NAMES]
            decoded = [snapshot.decode(file) for file in files]
            if len({place for place, _ in decoded}) == 1:
                if any(rows != decoded[0][1] for _, rows in decoded):
                    self.wrong.append("replicas differ")
                return files
            await asyncio.sleep(0.1)
        raise Broken("the nodes do not come to one place of the log, though nobody works")

    async def orphans(self, folder: Path, last: Path, rows: Rows) -> None:
        """Hold the snapshot against the bucket, and delete orphaned objects."""
        table = folder / "wrong.parquet"
        await self.cast.command("check", self.cast.url, "--snapshot", str(last), "--out", str(table), *self.engine,
                                codes=(0, 10))
        for row in pq.read_table(table).to_pylist():
            if row["what"] == audit.ORPHANED and (row["tenant"], row["shard"], row["ulid"]) not in self.known:
                self.counts["orphaned objects"] += 1
                await self.store.delete(row["key"])
            elif row["what"] == audit.ORPHANED:
                self.wrong.append(f"a block was removed, and its object is not deleted: {row['key']}")
            else:
                which = row["key"] or row["ulid"]
                self.wrong.append(f"the bucket and the index differ: {row['what']}: {which}: {row['detail']}")


def exported(rows: Rows) -> dict[ledger.Key, bytes]:
    """Return the visible blocks of an index, each with a string table of its own."""
    found: dict[Unit, list[str]] = {}
    for unit, ulid in units.visible(rows):
        found.setdefault(unit, []).append(ulid)
    return ledger.exported(block for unit, ids in found.items() for block in units.get(rows, unit.tenant, unit.shard, ids))
