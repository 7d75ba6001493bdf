"""Let the faults of a story hit processes, each at the moment when its role is at work.

The sweeper and the cleaner are the leader. To hit the sweeper, letters are left first; the leader is killed once some of them
are swept, and others are not. To hit the cleaner, a block of a unit that is over is added first; the leader is killed within
the cleaner's next period. A worker is killed while there is a job.
"""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from highwater.impl.index.letters.letter import QUEUE
from highwater.impl.world import ObjectStore, list_all
from highwater.index.client import Client
from highwater.index.story.blocks import FIRST_AGO_S, LETTER, OLD_FOR_ALL, block_of, now_ms
from highwater.index.story.cast import CLEAN_MS, NAMES, Cast
from highwater.index.story.faults import ALL, CLEANER, KILL, LEADER, NODE, SWEEPER, WORKER, WRITER, Fault
from highwater.index.story.journal import ADDED, Journal
from highwater.index.story.processes import Process
from highwater.index.story.writer import Writer

LETTERS = 30  # that are left for a sweeper: more than it adds at once
JOB_S = 1.0  # for a worker to have a job
SWEPT_S = 3.0  # for a sweep to begin
AGAIN_S = 10.0  # for the nodes to be well, before a fault that waits for that


class Hits:
    """Hits the processes of a story. What it writes for that is in a journal of its own."""

    def __init__(self, cast: Cast, store: ObjectStore, client: Client, journal: Path, seed: int, counts: Counter[str]):
        self.cast, self.store, self.counts = cast, store, counts
        self.random = Random(f"hits {seed}")
        self.writer = Writer(store, client, Journal(journal), self.random)
        self.begun, self.old = 0, 0  # blocks

    async def hit(self, fault: Fault) -> None:
        """Let a fault happen, and wait until it is over."""
        if fault.role not in (WORKER, WRITER) and fault.waits:
            await self.cast.well(AGAIN_S)
        victims = await self.victims(fault)
        for victim in victims:
            if fault.kind == KILL:
                victim.kill()
            else:
                victim.signal(signal.SIGSTOP)
        await asyncio.sleep(fault.lasts_s)
        for victim in victims:
            if fault.kind == KILL:
                victim.start()
            else:
                victim.signal(signal.SIGCONT)

    async def victims(self, fault: Fault) -> list[Process]:
        """Return whom a fault hits, at the moment when it should; count it by its role."""
        role, nodes = fault.role, list(self.cast.nodes.values())
        if role in (WORKER, WRITER):
            those = self.cast.workers if role == WORKER else self.cast.writers
            if role == WORKER:
                await self.worked()
            found = [those[fault.number % len(those)]]
        elif role in (ALL, NODE):
            found = nodes if role == ALL else [nodes[fault.number % len(nodes)]]
        else:
            name = await self.cast.leader()
            self.writer.client.first = name or NAMES[0]
            if role == SWEEPER and not await self.swept():
                role = LEADER  # it had nothing to sweep
            if role == CLEANER and not await self.cleaned():
                role = LEADER
            found = [self.cast.nodes[name or NAMES[fault.number % len(NAMES)]]]
            role = role if name else NODE
        self.counts[f"{fault.kind} {role}"] += len(found)
        return found

    async def worked(self) -> None:
        """Return once there is a job, or after a while."""
        until_s = time.monotonic() + JOB_S
        while time.monotonic() < until_s:
            if (await self.cast.status(await self.cast.leader() or NAMES[0])).get("jobs"):
                return

    async def swept(self) -> bool:
        """Leave letters; return once some of them are swept, and whether others are not, so that a sweep goes on."""
        left = {}
        for block in [self.block(LETTER) for _ in range(LETTERS)]:
            left[block.id] = asyncio.ensure_future(self.writer.begin(LETTER, block))
        await asyncio.gather(*left.values())
        until_s = time.monotonic() + SWEPT_S
        while time.monotonic() < until_s:
            waiting = sum(entry.key.split("/")[3] in left for entry in await list_all(self.store, QUEUE))
            if waiting < LETTERS:
                return waiting > 0
        return False

    async def cleaned(self) -> bool:
        """Add a block of a unit that is over; return within the cleaner's next period, and whether it was added."""
        what = await self.writer.begin(OLD_FOR_ALL, self.block(OLD_FOR_ALL))
        await asyncio.sleep(self.random.random() * CLEAN_MS / 1000)
        return what == ADDED

    def block(self, kind: str) -> Any:
        self.begun, self.old = self.begun + 1, self.old + (kind in FIRST_AGO_S)
        writers = len(self.cast.writers)
        return block_of(self.random, kind, f"h.{self.begun}", self.old * (writers + 1) + writers, now_ms())

    async def end(self) -> None:
        """End what is open of its own blocks."""
        for ulid in list(self.writer.open):
            await self.writer.end(ulid)
