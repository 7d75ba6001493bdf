"""Answers a client of S3, a sweeper and a worker with odd replies: heads, listings, errors and bodies, over HTTP."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any
from unittest import mock

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import encode
from highwater.impl.errors import StoreError
from highwater.impl.index.compaction.worker import Options as WorkerOptions
from highwater.impl.index.compaction.worker import Worker
from highwater.impl.index.letters.letter import QUEUE, key_of
from highwater.impl.index.letters.sweeper import Options, Sweeper
from highwater.impl.stores.bounds import Bounds
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Counters, SystemClock
from highwater.impl.world import World, list_all
from highwater.servers.s3 import KEY, SECRET
from tests.fuzz.bucket import PERIOD_MS, POLL_MS, Jobs, Turns
from tests.fuzz.lives import Stopped, Subject
from tests.fuzz.mutations import STATUSES, mutated, mutated_head, mutated_xml
from tests.fuzz.peers import Numbered
from tests.support.metadata_index import block
from tests.support.stores.hostile_server import DATE, Hostile, Wire, hostile_server, lists, page_of, query_of

BOUNDS = Bounds(reply_s=5, listing_s=5, listing_keys=3_000, empty_pages=10)
ERROR = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>no</Message><Key>k</Key></Error>"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}


class Replies:
    """A server with odd replies, and those who ask it."""

    def __init__(self, server: Hostile):
        self.server, self.counts, self.made, self.added = server, Counter[str](), 0, list[str]()
        self.chance, self.is_odd = Random(0), False
        self.letters: dict[str, bytes] = {}
        server.answer = self.answer
        self.store = S3Store(connect(server.url, 2, 2, bounds=BOUNDS), "bucket", ids=Numbered(), bounds=BOUNDS, attempts=1)
        self.jobs = Jobs()
        self.clocks: list[Any] = [Turns(SystemClock(), PERIOD_MS), Turns(SystemClock(), POLL_MS)]
        worlds = [World(self.store, clock, Numbered(), Counters()) for clock in self.clocks]
        sweeper = Sweeper(worlds[0], self.add, lambda: True, Options(PERIOD_MS, at_once=1))
        worker = Worker(worlds[1], self.jobs.poll, WorkerOptions(POLL_MS, renew_ms=500, attempts=1))
        self.tasks = [asyncio.ensure_future(sweeper.run()), asyncio.ensure_future(worker.run())]

    async def add(self, made: Any) -> None:
        self.added.append(made.id)

    def block(self) -> Any:
        self.made += 1
        return block(self.made, tenant="t", ulid=ulids.made(1_790_000_000_000 + self.made, bytes(10)))

    # --- the server

    def valid(self, method: str, target: str) -> tuple[str, dict[str, str], bytes]:
        key = target.partition("?")[0].removeprefix("/bucket/")
        head = {"ETag": '"1"', "Last-Modified": DATE}
        if lists(method, target):
            query = query_of(target)
            keys = [key for key in sorted((*self.letters, "blocks/1/t/x/block.bin")) if key.startswith(query.get("prefix", ""))
                    and key > query.get("start-after", "")]
            return "200 OK", {}, page_of(keys)
        if method == "DELETE":
            return "204 No Content", {}, b""
        if method == "PUT":
            return "200 OK", head, b""
        if key.startswith(QUEUE) and key not in self.letters:
            return "404 Not Found", {}, ERROR
        body = self.letters.get(key) or bytes(20) + footer(block(1))
        return "200 OK", {**head, "x-amz-meta-highwater-put-id": "1"}, body

    def answer(self, method: str, target: str, wire: Wire) -> None:
        status, head, body = self.valid(method, target)
        is_page, is_odd = body.startswith(b"<?xml"), self.is_odd and self.chance.random() < 0.6
        if is_odd:
            if self.chance.random() < 0.3:
                status = self.chance.choice(STATUSES)
                body = self.chance.choice((body, ERROR, b""))
            head = mutated_head(head, self.chance)
            if self.chance.random() < 0.7:
                body = mutated_xml(body, self.chance) if is_page or self.chance.random() < 0.2 else mutated(body, self.chance)
        fields = {"Content-Length": str(len(body)), **head}
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        data = "\r\n".join(lines).encode() + (body if method != "HEAD" else b"")
        if is_odd and self.chance.random() < 0.1:
            data = mutated(data, self.chance)
        wire.send(data)
        if is_odd:
            raise ConnectionAbortedError  # close the connection, so that a client waits for no more

    # --- the fuzzer

    async def give(self, chance: Random) -> None:
        self.chance, self.is_odd = Random(chance.getrandbits(64)), True
        made = self.block()
        self.letters = {key_of(made): encode(made)}
        if chance.random() < 0.5:
            await self.clocks[0].take(self.tasks[:1], 0.0005)
        else:
            self.jobs.give([made.id, made.id], made.id, chance)
            await self.clocks[1].take(self.tasks[1:], 0.0005)
        store = self.store
        for call in chance.sample((
                lambda: store.get("k"), lambda: store.get_range("k", 2, 9), lambda: store.get_if_changed("k", '"0"'),
                lambda: store.head("k"), lambda: list_all(store, QUEUE), lambda: store.create("k", b"x"),
                lambda: store.update("k", b"x", '"0"'), lambda: store.put("k", b"x"), lambda: store.delete("k")), 2):
            try:
                await call()
                self.counts["results"] += 1
            except StoreError as error:
                self.counts[type(error).__name__] += 1
                if len(str(error)) > 2_000:
                    raise Stopped(f"an error of {len(str(error)):,} letters") from None

    async def check(self) -> None:
        """Bring a good letter: it is added."""
        self.is_odd = False
        made = self.block()
        self.letters = {key_of(made): encode(made)}
        for _ in range(5):  # a connection that is kept may have been closed by the server
            for clock, task in zip(self.clocks, self.tasks):
                await clock.take([task], 0.0005)
            if made.id in self.added:
                return
        raise Stopped("a good letter is not added")

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@asynccontextmanager
async def begin(chance: Random) -> AsyncGenerator[Replies]:
    async with AsyncExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, ENVIRONMENT))
        one = Replies(stack.enter_context(hostile_server()))
        stack.push_async_callback(one.close)
        await asyncio.sleep(0.01)
        yield one


SUBJECT = Subject("replies", begin)
