"""One story of an index from end to end. Safety: it ends well only if no acknowledged datum was lost or doubled at any moment.

Three nodes, workers and writers live on one bucket while processes are killed and stopped. Readers ask all nodes all the
time, and a ledger judges their answers. Then the writers stop, and ending.py says what has to hold.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from highwater.impl.errors import StoreError
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.system import open_store
from highwater.index.client import Client
from highwater.index.story.blocks import is_over, now_ms
from highwater.index.story.cast import NAMES, PROGRAM, WRITER, Cast, Numbers
from highwater.index.story.ending import Ending
from highwater.index.story.faults import KILL, ROLES, faults
from highwater.index.story.hits import Hits
from highwater.index.story.ledger import Ledger
from highwater.index.story.processes import Broken
from highwater.index.story.readers import Readers
from highwater.index.story.writer import CALL_S, over_of

WRONG = 20  # lines after which a story ends early
ASKED_S = 60.0  # for each node to answer at the end
BEGUN_S = 120.0  # for writers to begin
MOST_TIMES = 4  # as long as asked for, at most


class Told(NamedTuple):
    """The result of a story: its amounts, and what is wrong, a line each."""

    counts: dict[str, int]
    wrong: list[str]

    @property
    def kills(self) -> dict[str, int]:
        """Return how many processes were killed in each role."""
        return {role: self.counts[f"{KILL} {role}"] for role in ROLES if self.counts.get(f"{KILL} {role}")}

    @property
    def missing(self) -> list[str]:
        """Return what did not happen, though a story is about it."""
        return [what for what in ("answers with compacted blocks", "data added", "data kept in letters", "data dropped",
                                  "objects read", "blocks rebuilt") if not self.counts.get(what)]


class Story:
    """A story in a folder, on a bucket."""

    def __init__(self, folder: Path, url: str, seed: int, engine: Sequence[str] = (), numbers: Numbers | None = None,
                 program: Sequence[str] = PROGRAM, writer: Sequence[str] = WRITER):
        """Make a story. `engine`: options of the commands that read the bucket; `program`, `writer`: commands to run instead of
        ours."""
        self.folder, self.seed, self.numbers = folder, seed, numbers or Numbers()
        self.cast = Cast(folder, url, seed, self.numbers, program, writer)
        self.store, self.counts = open_store(url), Counter[str]()
        self.begun_s = time.monotonic()
        self.own = folder / "hits.ndjson"
        self.ledger = Ledger([*self.cast.journals, self.own])
        self.readers = Readers(self.cast, self.store, self.ledger, self.counts)
        self.ending = Ending(self.cast, self.store, tuple(engine), self.ledger.known, self.counts)

    async def told(self, seconds: float) -> Told:
        """Live for so long, come to the end, and tell. Raises Broken, NotDrained, StoreError."""
        try:
            async with Client(self.cast.apis, limit_s=CALL_S) as client:
                await self.live(seconds, Hits(self.cast, self.store, client, self.own, self.seed, self.counts))
                if not self.wrong:
                    await self.end()
        finally:
            self.cast.close()
        self.ledger.read()
        ended, data = self.ledger.ended, self.ledger.data
        self.counts |= {"data": len(data), "data added": len(self.ledger.added), "data kept in letters": len(self.ledger.kept),
                        "blocks refused": ended["refused"], "blocks in doubt": ended["doubt"]}
        return Told(dict(self.counts), self.wrong)

    @property
    def wrong(self) -> list[str]:
        return self.readers.wrong + self.ending.wrong

    async def live(self, seconds: float, hits: Hits) -> None:
        """Let all work under faults, and stop the writers."""
        for node in self.cast.nodes.values():
            node.start()
        if not await self.cast.well():
            raise Broken(f"no node leads at the beginning: see {self.folder}")
        self.note("the nodes lead")
        for process in (*self.cast.workers, *self.cast.writers):
            process.start()
        await self.begun()
        reading = [asyncio.ensure_future(self.readers.read_on(name)) for name in NAMES]
        try:
            await self.hit(hits, time.monotonic() + seconds, reading)
            self.note("the faults have ended")
            await asyncio.to_thread(self.end_of_writers)
            await hits.end()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    async def begun(self) -> None:
        """Wait until each writer has begun to write. Raises Broken."""
        until_s = time.monotonic() + BEGUN_S
        while not all(journal.exists() and journal.stat().st_size for journal in self.cast.journals):
            self.cast.check()
            if time.monotonic() > until_s:
                raise Broken(f"no writer writes within {BEGUN_S:.0f} s: see {self.folder}")
            await asyncio.sleep(0.05)
        self.note("the writers write")

    @property
    def is_enough(self) -> bool:
        """Return whether what a story is about has happened."""
        self.ledger.read()
        dropped = any(is_over(self.ledger.data[name], now_ms()) for name in self.ledger.added)
        asked = self.counts["answers with compacted blocks"] and self.counts["objects read"]
        return bool(dropped and self.ledger.kept and asked)

    async def hit(self, hits: Hits, until_s: float, reading: Sequence[asyncio.Future[None]]) -> None:
        """Let one fault after another happen until the time is over, or too much is wrong. On a machine that is busy it takes
        longer, if too little has happened by then."""
        begun_s = time.monotonic()
        last_s = begun_s + MOST_TIMES * (until_s - begun_s)
        with (self.folder / "faults.log").open("w") as log:
            for fault in faults(self.seed, self.numbers.fault_s):
                left_s = until_s - time.monotonic()
                await asyncio.sleep(min(fault.after_s, left_s) if left_s > 0 else fault.after_s)
                now_s = time.monotonic()
                if len(self.wrong) >= WRONG or now_s >= last_s or (now_s >= until_s and self.is_enough):
                    return
                self.cast.check()
                for task in reading:
                    if task.done():
                        task.result()
                print(fault, file=log, flush=True)
                await hits.hit(fault)

    def end_of_writers(self) -> None:
        """Let the writers end what they have begun, and end."""
        for journal in self.cast.journals:
            over_of(journal).touch()
        for writer in self.cast.writers:
            writer.ended()

    async def end(self) -> None:
        """Come to the end, and check it."""
        self.note("the writers have ended")
        await self.ending.drained(letters_only=True)
        self.note("no letter waits")
        await self.ending.letters(await self.everything(letters_too=False))
        self.note("no letter is kept aside")
        await self.ending.drained()
        self.note("nothing waits")
        found = await self.everything(letters_too=True)
        self.counts["data dropped"] = len([name for name in self.ledger.due(letters_too=True) if name not in found])
        for worker in self.cast.workers:
            worker.kill()
        await self.ending.compared(self.folder)
        self.note("the bucket is compared")

    def note(self, what: str) -> None:
        """Keep when a part of the story was over."""
        with (self.folder / "story.log").open("a") as log:
            print(f"{time.monotonic() - self.begun_s:6.1f} s: {what}", file=log)

    async def everything(self, letters_too: bool) -> list[str]:
        """Ask every node for all that there is; return the names of the data that the last one has."""
        found: list[str] = []
        for name in NAMES:
            async with asyncio.timeout(ASKED_S), Channel(self.cast.apis[name]) as channel:
                while True:
                    try:
                        blocks = await self.readers.ask(channel, letters_too=letters_too)
                        break
                    except StoreError:
                        await asyncio.sleep(0.1)
            found = [block.string_table[of.name] for block in blocks for of in block.datasets]
        return found
