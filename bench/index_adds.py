"""Blocks added to a metadata index of three processes, each durable on a majority, and queries while they are added.

Three processes on one disk, each with a folder of its own. 16 tasks in the leader's process add blocks with 8 datasets, one
after the other each: by the library, and by gRPC to the same process, from a client in it. Then blocks are added at half the
library's rate, and queries are asked one after the other. A query sees all that was added, and finds one service of one tenant.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.index_queries import DATASETS, SERVICES, SHARDS
from bench.replication import NAMES, WAIT_S, syncs_per_second
from highwater.cluster.client import Client
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import CLASSES, BlockMeta, Dataset, QueryRequest, encode
from highwater.impl.errors import StoreError
from highwater.impl.raft.state import LEADER
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.stream_net import Address
from highwater.index.server import Server, Settings, running
from highwater.servers import leash

TASKS, SECONDS, LEAST_RATE, AIM = 16, 8.0, 500, 1_000
ADD = "/metastore.v1.IndexService/AddBlock"


def main() -> bool:
    """Print the figures. Return True if the rate misses its target."""
    with tempfile.TemporaryDirectory() as folder:
        syncs = syncs_per_second(Path(folder))
        library, called, latencies_ms = asyncio.run(measured(Path(folder)))
    print(f"{library:,.0f} adds per second in the leader's process (target: {LEAST_RATE}, aim: {AIM:,}), {called:,.0f} through "
          f"gRPC; the disk alone syncs {syncs:,.0f} times per second")
    print(f"while {library / 2:,.0f} blocks are added per second, a query takes {at(latencies_ms, 0.5):.1f} ms in the middle, "
          f"and {at(latencies_ms, 0.99):.1f} ms at the 99th percentile of {len(latencies_ms)}")
    return library < LEAST_RATE


def at(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


async def measured(folder: Path) -> tuple[float, float, list[float]]:
    """Return adds per second by the library and through gRPC, and the ms that each query took."""
    async with leading(folder) as (server, api):
        library = await added(server.index.add, SECONDS)
        async with Channel(api) as channel:
            called = await added(lambda block: channel.call(ADD, request_of(block), 30.0), SECONDS)
        return library, called, await queried(server, library / 2)


@asynccontextmanager
async def leading(folder: Path) -> AsyncGenerator[tuple[Server, Address]]:
    """Run a cluster of three processes, of which this one leads. Yield its server, and where that is called."""
    peers = {name: Address("127.0.0.1", leash.free_port()) for name in NAMES}
    apis = {name: Address("127.0.0.1", leash.free_port()) for name in NAMES}
    others = [subprocess.Popen([sys.executable, "-SE", os.path.abspath(leash.__file__), *command(folder, name, peers, apis)],
                               stdin=subprocess.PIPE) for name in NAMES[1:]]
    try:
        async with running(Settings(str(folder / "1"), "1", peers, apis["1"])) as server:
            await lead(server, peers)
            yield server, apis["1"]
    finally:
        for other in others:
            leash.end(other)


def command(folder: Path, name: str, peers: dict[str, Address], apis: dict[str, Address]) -> list[str]:
    return [sys.executable, "-m", "highwater", "index", "serve", str(folder / name), "--node", name, "--api", str(apis[name]),
            "--peers", ",".join(f"{other}={address}" for other, address in peers.items()), "--quiet"]


async def lead(server: Server, peers: dict[str, Address]) -> None:
    """Wait until this node leads, and the others follow."""
    async with asyncio.timeout(WAIT_S), Client(peers) as client:
        while server.node.state.role != LEADER or any(f.match_index == 0 for f in server.node.state.followers):
            try:
                await client.transfer("1")
            except StoreError:
                pass  # there is no leader yet
            await asyncio.sleep(0.05)


NUMBER = iter(range(1 << 60))


def made() -> Any:
    """Return a new block, made now."""
    number, now_ms = next(NUMBER), time.time_ns() // 1_000_000
    services = [f"service-{(number * DATASETS + i) % SERVICES}" for i in range(DATASETS)]
    table = ["", "t0", "segment-writer", "service_name", *services]
    block = BlockMeta(id=ulids.made(now_ms, number.to_bytes(10)), tenant=1, shard=number % SHARDS, created_by=2,
                      min_time=now_ms, max_time=now_ms + 500, size=1_000_000, string_table=table)
    for i in range(DATASETS):
        block.datasets.append(Dataset(tenant=1, name=4 + i, min_time=now_ms, max_time=now_ms + 500, size=100_000,
                                      table_of_contents=[i * 100_000], labels=[1, 3, 4 + i]))
    return block


def request_of(block: Any) -> bytes:
    return encode(CLASSES["AddBlockRequest"](block=block))


async def added(add: Callable[[Any], Awaitable[Any]], seconds: float) -> float:
    """Return how many blocks are added per second."""
    began, number = time.perf_counter(), 0

    async def adds() -> None:
        nonlocal number
        while time.perf_counter() - began < seconds:
            await add(made())
            number += 1

    await asyncio.gather(*(adds() for _ in range(TASKS)))
    return number / (time.perf_counter() - began)


async def steadily(server: Server, rate: float, seconds: float) -> None:
    """Add so many blocks per second, for so long, or until it is cancelled."""
    began = time.perf_counter()
    async with asyncio.TaskGroup() as adding:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            adding.create_task(server.index.add(made()))


async def queried(server: Server, rate: float) -> list[float]:
    """Return the ms of queries while blocks are added at this rate."""
    latencies_ms: list[float] = []
    now_ms = time.time_ns() // 1_000_000
    request = QueryRequest(tenant_id=["t0"], start_time=now_ms, end_time=now_ms + 3_600_000, query='{service_name="service-7"}')
    steady = asyncio.create_task(steadily(server, rate, SECONDS))
    while not steady.done():
        start_s = time.perf_counter()
        await server.index.query(request)
        latencies_ms.append((time.perf_counter() - start_s) * 1e3)
        await asyncio.sleep(0.05)
    await steady
    return latencies_ms


if __name__ == "__main__":
    main()
