"""Writers, workers and readers of an index of three processes, while nodes and workers are killed and stopped; judged.

Each datum is a dataset with bytes of its own. A datum whose add was acknowledged is in exactly one block of every answer to a
question that was asked later, and so is one that an earlier answer had. Its bytes are in the object that the block names.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from highwater.impl.codecs.index import snapshot, ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import CLASSES, BlockMeta, Dataset, QueryRequest, decode, encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.errors import NotFound, StoreError
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.local import LocalStore
from highwater.impl.world import ObjectStore
from highwater.index.client import Client
from highwater.index.operator import SNAPSHOT
from tests.index.processes import ROOT, Cluster, command, encrypted, listed

TENANTS, SHARDS = ("a", "b"), (1, 2)
SETTINGS = ("--set", "retry_ns=1000000000",
            "--set", "horizon_ns=4000000000", "--set", "delay_ns=8000000000", "--set", "query_ns=1000000000",
            "--set", "lease_ns=1500000000", "--set", "retry_failed_ns=500000000")
QUERY = "/metastore.v1.MetadataQueryService/QueryMetadata"


class Soak:
    """A run: the data that were written, the answers that came, and what is wrong."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int):
        self.cluster, self.folder, self.random = cluster, folder, Random(seed)
        self.objects = str(folder / "objects")
        self.store: ObjectStore = LocalStore(self.objects)
        self.begun: dict[str, bytes] = {}  # name of a datum -> its bytes
        self.acknowledged: dict[str, float] = {}  # name -> when
        self.seen: dict[str, float] = {}  # name -> when an answer that had it came
        self.workers: list[subprocess.Popen[bytes]] = []
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = False

    # --- clients

    async def writer(self, number: int) -> None:
        async with self.cluster.client(8.0) as client:
            older: list[Any] = []
            while not self.over:
                block, body, names = self.object(number)
                await self.store.create(block_path(block.shard, "", block.id, 0), body)
                self.begun |= names
                if await self.add(client, block):
                    now_s = time.monotonic()
                    self.acknowledged |= dict.fromkeys(names, now_s)
                older = [*older, block][-200:]
                if self.random.random() < 0.2:
                    await self.add(client, self.random.choice(older))  # again, long after
                await asyncio.sleep(self.random.random() / 30)

    async def add(self, client: Client, block: Any) -> bool:
        try:
            await client.call(CLASSES["AddBlockRequest"](block=block))
        except StoreError as error:
            self.counts[str(error)[:30]] += 1
            return False
        self.counts["added"] += 1
        return True

    def object(self, writer: int) -> tuple[Any, bytes, dict[str, bytes]]:
        """Draw an object with two datasets, of tenants that are drawn."""
        now_ms = time.time_ns() // 1_000_000
        table, data, names = ["", "w", "kind"], b"", {}
        block = BlockMeta(id=ulids.made(now_ms, self.random.randbytes(10)), shard=self.random.choice(SHARDS), min_time=now_ms,
                          max_time=now_ms + 10, created_by=1)
        for part in range(2):
            name, body, tenant = f"w{writer}.{len(self.begun)}.{part}", self.random.randbytes(20), self.random.choice(TENANTS)
            table += [name] + [tenant] * (tenant not in table)
            block.datasets.append(Dataset(
                tenant=table.index(tenant), name=table.index(name), min_time=now_ms, max_time=now_ms + 5, size=len(body),
                table_of_contents=[len(data)], labels=[1, 2, table.index(name)]))
            data += body
            names[name] = body
        block.string_table[:] = table
        block.metadata_offset = len(data)
        body = data + footer(block)
        block.size = len(body)
        return block, body, names

    async def reader(self, name: str) -> None:
        """Ask one node again and again; some of the objects of each answer are read."""
        async with self.cluster.channel(name) as channel:
            while not self.over:
                try:
                    await self.ask(channel, objects=3)
                    self.counts["answers"] += 1
                except StoreError:
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.02)

    async def ask(self, channel: Channel, objects: int) -> None:
        """Ask a node for everything, and check the answer."""
        begun_s = time.monotonic()
        everything = QueryRequest(tenant_id=TENANTS, start_time=0, end_time=1 << 62, query="{}")
        body = await channel.call(QUERY, encode(everything), 5.0)
        blocks = decode(CLASSES["QueryMetadataResponse"], body).blocks
        self.counts["compacted"] += sum(block.compaction_level > 0 for block in blocks) > 0
        found = Counter(block.string_table[of.name] for block in blocks for of in block.datasets)
        missing = [name for told in (self.acknowledged, self.seen) for name, at_s in told.items() if at_s < begun_s
                   and name not in found]
        twice = [name for name, count in found.items() if count > 1]
        strange = [name for name in found if name not in self.begun]
        if missing or twice or strange:
            self.wrong.append(f"missing {missing[:3]}, twice {twice[:3]}, strange {strange[:3]}, of {len(found)}")
        now_s = time.monotonic()
        self.seen |= {name: self.seen.get(name, now_s) for name in found}
        chosen = self.random.sample(list(blocks), min(objects, len(blocks))) if objects else blocks
        if objects and self.random.random() < 0.2:
            await asyncio.sleep(2 * self.random.random())  # a query that takes long
        for block in chosen:
            await self.read(block, begun_s)

    async def read(self, block: Any, begun_s: float) -> None:
        """Read a block's object; while the delay lasts it must be there."""
        strings = block.string_table
        path = block_path(block.shard, strings[block.tenant], block.id, block.compaction_level)
        try:
            body = (await self.store.get(path)).body
        except NotFound:
            if time.monotonic() - begun_s < 6:  # less than the delay
                self.wrong.append(f"{path} is visible, and gone")
            return
        for of in block.datasets:
            start = of.table_of_contents[0]
            if body[start:start + of.size] != self.begun[strings[of.name]]:
                self.wrong.append(f"{strings[of.name]} has other bytes in {path}")

    # --- faults

    def start_worker(self) -> None:
        words = command("index", "work", self.objects, "--at", listed(self.cluster.apis), "--poll-ms", 50,
                        "--renew-ms", 300, *encrypted(self.cluster.files))
        with (self.folder / "workers.log").open("ab") as log:
            self.workers.append(subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 env=os.environ | self.cluster.environment))

    async def faults(self) -> None:
        while not self.over:
            await asyncio.sleep(0.5 + self.random.random() * 2)
            kind = self.random.randrange(5)
            if kind < 2:
                worker = self.workers.pop(self.random.randrange(len(self.workers)))
                worker.kill()
                worker.wait()
                self.counts["workers killed"] += 1
                self.start_worker()
            elif kind < 4:
                name = self.random.choice(list(self.cluster.processes))
                await self.cluster.end(name, signal.SIGKILL)
                self.counts["nodes killed"] += 1
                await asyncio.sleep(self.random.random())
                self.cluster.start(name)
            else:
                name = self.random.choice(list(self.cluster.processes))
                os.kill(self.cluster.processes[name].pid, signal.SIGSTOP)
                await asyncio.sleep(0.3 + self.random.random())
                os.kill(self.cluster.processes[name].pid, signal.SIGCONT)
                self.counts["nodes stopped"] += 1

    # --- the whole

    async def live(self, seconds: float) -> None:
        """Run it all for so long, then without faults until all is done, and check the end."""
        await self.cluster.leader()
        for _ in range(2):
            self.start_worker()
        tasks = [asyncio.ensure_future(work) for work in (
            *(self.writer(number) for number in range(2)), *(self.reader(name) for name in self.cluster.names), self.faults())]
        try:
            await asyncio.sleep(seconds)
            self.over = True
            await asyncio.gather(*tasks)
            await self.end()
        finally:
            for task in tasks:
                task.cancel()
            for worker in self.workers:
                worker.kill()
                worker.wait()

    async def end(self) -> None:
        """Check that all nodes answer alike, that the objects are there, and that replicas have equal rows."""
        await self.cluster.leader()
        for name in self.cluster.names:
            async with self.cluster.channel(name) as channel:
                await self.again(lambda channel=channel: self.ask(channel, objects=0))
        for worker in self.workers:
            worker.kill()  # so that nothing is appended any more
        for _ in range(50):  # what a killed worker has asked for may still be under way
            files = [await self.again(lambda name=name: self.backup(name)) for name in self.cluster.names]
            places = [snapshot.decode(file) for file in files]
            if len({place for place, _ in places}) == 1:
                break
            await asyncio.sleep(0.2)
        if len({place for place, _ in places}) == 1:
            self.counts["replicas compared"] += 1
        if any(rows != places[0][1] for place, rows in places if place == places[0][0]):
            self.wrong.append("replicas differ")

    async def backup(self, name: str) -> bytes:
        async with self.cluster.channel(name) as channel:
            return b"".join([part async for part in channel.parts(SNAPSHOT, b"", 10.0)])

    async def again(self, work: Any) -> Any:
        for _ in range(200):
            try:
                return await work()
            except StoreError:
                await asyncio.sleep(0.1)
        raise AssertionError("a node does not answer")
