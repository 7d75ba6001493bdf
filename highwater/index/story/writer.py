"""A writer of a story, as a process of its own that may be killed.

Safety: it notes a block as added or kept only once it is told so.

    python -m highwater.index.story.writer URL NODES JOURNAL NUMBER WRITERS SEED PAUSE_MS

It puts the objects of small blocks and adds them. Now and then it adds one again. Now and then a request or its answer is
lost, so that it leaves a letter. After a kill it goes on with the blocks that its journal has open. Once the file JOURNAL.over
is there, it ends the blocks that are open, and then itself.
"""

import asyncio
import logging
import sys
from pathlib import Path
from random import Random
from typing import Any

from highwater.impl.codecs.index.messages import CLASSES, encode
from highwater.impl.errors import AlreadyExists, Definite, StoreError
from highwater.impl.index.letters import writer
from highwater.impl.stores.grpc_calls import Refused, Unclear
from highwater.impl.stores.stream_net import Address
from highwater.impl.stores.system import open_store, system_world
from highwater.index.client import PATHS, Client
from highwater.index.letters import adder
from highwater.index.story import blocks
from highwater.index.story.journal import ADDED, BEGUN, DOUBT, KEPT, PUT, REFUSED, Journal, Reading

RETRY_MS = 1_000
CALL_S = 1.0  # of one attempt, over all nodes: less than the delay after which a removed block may be forgotten
OPTIONS = writer.USUAL._replace(retry_ms=RETRY_MS, pause_ms=100)
ADD = PATHS["AddBlockRequest"]
LAST_TRIES = 50


class Writer:
    """A writer of one index and one bucket."""

    def __init__(self, store: Any, client: Client, journal: Journal, random: Random):
        self.store, self.client, self.journal, self.random = store, client, journal, random
        self.add = adder(client)
        self.world = system_world(store)
        self.open: dict[str, tuple[str, Any]] = {}  # ULID -> kind, block
        self.there: set[str] = set()  # ULIDs of blocks whose objects were put; they are not put again, for they may be deleted
        self.added: list[Any] = []

    async def begin(self, kind: str, block: Any) -> str:
        """Write a block, and end it if that can be done now; return what became of it."""
        self.journal.begin(kind, block)
        self.open[block.id] = kind, block
        return await self.end(block.id)

    async def end(self, ulid: str) -> str:
        """End an open block and return what became of it. If neither the bucket nor the index answers, that is "": it stays
        open."""
        kind, block = self.open[ulid]
        try:
            await self.put(block)
            what = await (self.past_horizon(block) if kind in blocks.FIRST_AGO_S else self.leave(block) if kind in blocks.LEFT
                          else self.written(block))
        except writer.FINAL:
            what = REFUSED
        except StoreError:
            return ""
        self.journal.note(what, ulid)
        if what == ADDED and kind == blocks.FRESH:
            self.added = [*self.added, block][-200:]
        del self.open[ulid]
        return what

    async def put(self, block: Any) -> None:
        if block.id in self.there:
            return
        try:
            await self.store.create(blocks.path_of(block), blocks.body_of(block))
        except AlreadyExists:
            pass  # it was put before a kill
        self.journal.note(PUT, block.id)
        self.there.add(block.id)

    async def written(self, block: Any) -> str:
        """Add a block, or leave a letter. Some requests are lost, and some answers."""
        drawn, options = self.random.random(), OPTIONS
        add = self.add
        if drawn < 0.1:
            add, options = self.unheard if drawn < 0.05 else self.unsent, OPTIONS._replace(retry_ms=0)
        return await writer.Writer(self.world, add, options).add(block)

    async def unsent(self, block: Any) -> None:
        raise Unclear("UNAVAILABLE", "the request is lost")

    async def unheard(self, block: Any) -> None:
        await self.add(block)
        raise Unclear("UNAVAILABLE", "the answer is lost")

    async def leave(self, block: Any) -> str:
        """Leave a letter of a block that the index has never heard of."""
        await writer.Writer(self.world, self.add, OPTIONS).leave(block)
        return KEPT

    async def past_horizon(self, block: Any) -> str:
        """Add an old block, as an operator would: once only, because the index may forget it."""
        request = encode(CLASSES["AddBlockRequest"](block=block, past_horizon=True))
        first = self.client.first  # which led last
        for name in (first, *(name for name in self.client.channels if name != first)):
            try:
                await self.client.channels[name].call(ADD, request, CALL_S)
                return ADDED
            except Refused:
                continue  # this node does not lead
            except StoreError as error:
                return REFUSED if isinstance(error, Definite) else DOUBT
        return REFUSED

    async def again(self) -> None:
        """Add a block again that was added before."""
        if self.added:
            try:
                await self.add(self.random.choice(self.added))
            except StoreError:
                pass  # it was acknowledged: whatever is said now changes nothing

    def resume(self, path: Path) -> tuple[int, int]:
        """Take up the blocks that a journal has open; return how many it has begun, and how many of these are old."""
        lines = Reading(path).new()
        begun = {line.ulid: (line.kind, line.block) for line in lines if line.what == BEGUN}
        self.there = {line.ulid for line in lines if line.what == PUT}
        ended = {line.ulid for line in lines if line.what not in (BEGUN, PUT)}
        for ulid, (kind, block) in begun.items():
            if ulid not in ended and kind in blocks.FIRST_AGO_S:
                self.journal.note(DOUBT, ulid)  # it may have been added, so it must not be added again
            elif ulid not in ended:
                self.open[ulid] = kind, block
        return len(begun), sum(kind in blocks.FIRST_AGO_S for kind, _ in begun.values())


async def live(url: str, nodes: str, journal: Path, number: int, writers: int, seed: str, pause_ms: int) -> None:
    """Write until it is over; then end what is open."""
    async with Client(addresses(nodes), limit_s=CALL_S) as client:
        of = Writer(open_store(url), client, Journal(journal), Random())
        begun, old = of.resume(journal)
        of.random.seed(f"writer {number} {begun} {seed}")
        while not over_of(journal).exists():
            for ulid in list(of.open):
                await of.end(ulid)
            name = f"w{number}.{begun}"
            kind = blocks.kind_of(of.random)
            block = blocks.block_of(of.random, kind, name, old * writers + number, blocks.now_ms())
            begun, old = begun + 1, old + (kind in blocks.FIRST_AGO_S)
            await of.begin(kind, block)
            if of.random.random() < 0.2:
                await of.again()
            await asyncio.sleep(of.random.random() * 2 * pause_ms / 1000)
        for _ in range(LAST_TRIES):
            for ulid in list(of.open):
                await of.end(ulid)
            if not of.open:
                return
            await asyncio.sleep(0.2)
        sys.exit(f"{len(of.open)} blocks are still open")


def over_of(journal: Path) -> Path:
    """Return the file that tells the writer of a journal to end."""
    return journal.with_name(f"{journal.name}.over")


def addresses(nodes: str) -> dict[str, Address]:
    """Parse "1=HOST:PORT,.."."""
    parted = [part.partition("=") for part in nodes.split(",")]
    return {name: Address(place.rpartition(":")[0], int(place.rpartition(":")[2])) for name, _, place in parted}


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(message)s")
    url, nodes, journal, number, writers, seed, pause_ms = sys.argv[1:]
    asyncio.run(live(url, nodes, Path(journal), int(number), int(writers), seed, int(pause_ms)))
