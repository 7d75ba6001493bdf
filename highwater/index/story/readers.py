"""The readers of a story: each asks one node again and again, and its answers are judged. So are objects that answers name."""

import asyncio
import time
from collections import Counter
from random import Random
from typing import Any

from highwater.impl.codecs.index.messages import CLASSES, QueryRequest, decode, encode
from highwater.impl.errors import NotFound, StoreError
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.world import ObjectStore
from highwater.index.client import PATHS
from highwater.index.story.blocks import SHARDS, TENANTS, bytes_of, now_ms, path_of
from highwater.index.story.cast import DELAY_S, Cast
from highwater.index.story.ledger import Ledger

QUERY = PATHS[QueryRequest.DESCRIPTOR.name]
ANSWER_S = 10.0
LONGEST_QUERY_S = 2.0  # of a reader that takes its time: well below the delay
OBJECTS = 2  # that are read of an answer


class Readers:
    """All that asks, with what they found wrong."""

    def __init__(self, cast: Cast, store: ObjectStore, ledger: Ledger, counts: Counter[str]):
        self.cast, self.store, self.ledger, self.counts = cast, store, ledger, counts
        self.random = Random("readers")
        self.wrong: list[str] = []

    async def read_on(self, name: str) -> None:
        """Ask a node until cancelled."""
        async with Channel(self.cast.apis[name]) as channel:
            while True:
                begun_s = time.monotonic()
                tenants, shards = (self.random.choice(TENANTS),), (self.random.choice(SHARDS),)
                try:
                    answer = await self.ask(channel, tenants, shards)
                    self.counts["answers"] += 1
                    await self.look_at(answer, begun_s)
                except StoreError:
                    self.counts["questions without an answer"] += 1
                await asyncio.sleep(0.05 + 2 * (time.monotonic() - begun_s) * self.random.random())

    async def ask(self, channel: Channel, tenants: tuple[str, ...] = TENANTS, shards: tuple[int, ...] = SHARDS,
                  letters_too: bool = False) -> Any:
        """Ask for everything of some tenants and shards, and judge the answer. Raises StoreError."""
        self.ledger.read()
        due = self.ledger.due(letters_too)
        asked = QueryRequest(tenant_id=tenants, start_time=0, end_time=1 << 62, query="{}", shards=shards)
        body = await channel.call(QUERY, encode(asked), ANSWER_S)
        blocks = decode(CLASSES["QueryMetadataResponse"], body).blocks
        at = f"an answer for {', '.join(tenants)} in {', '.join(map(str, shards))}"
        self.wrong += [f"{at}: {line}" for line in self.ledger.judged(due, blocks, now_ms(), tenants, shards)]
        self.counts["answers with compacted blocks"] += any(block.compaction_level for block in blocks)
        return blocks

    async def look_at(self, blocks: Any, begun_s: float) -> None:
        """Read some objects of an answer, now or after a while; they must be there while the delay lasts."""
        chosen = self.random.sample(list(blocks), min(OBJECTS, len(blocks)))
        if self.random.random() < 0.2:
            await asyncio.sleep(LONGEST_QUERY_S * self.random.random())
        for block in chosen:
            await self.read(block, begun_s)

    async def read(self, block: Any, begun_s: float) -> None:
        """Read the object of a visible block, and compare its data."""
        path = path_of(block)
        try:
            body = (await self.store.get(path)).body
        except NotFound:
            if time.monotonic() - begun_s < DELAY_S - 0.5:
                self.wrong.append(f"a block is visible, and its object is gone: {path}")
            return
        self.counts["objects read"] += 1
        for of in block.datasets:
            name, start = block.string_table[of.name], of.table_of_contents[0]
            if body[start:start + of.size] != bytes_of(name):
                self.wrong.append(f"datum {name} has other bytes in {path}")


