"""Dead letters swept into a metadata index of three processes, from a real S3 server.

The leader's process sweeps, as `index serve` does: it gets each letter, adds its block, which is durable on a majority then,
and deletes the letter. That is measured without writers, and while writers add blocks at half the rate that they reach alone.
All processes share one machine and one disk, the S3 server among them.
"""

import asyncio
import os
import tempfile
import time
from pathlib import Path

from bench.index_adds import SECONDS, added, leading, made, steadily
from highwater.impl.codecs.index.messages import encode
from highwater.impl.index.letters.letter import key_of
from highwater.impl.index.letters.sweeper import Sweeper
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids, system_world
from highwater.impl.world import ObjectStore, list_all
from highwater.index.server import Server
from highwater.servers import s3

LETTERS, MOST_S = int(os.environ.get("HIGHWATER_LETTERS", 10_000)), 60
PUT_AT_ONCE = 16


def main() -> bool:
    """Print the figures. Return True if the sweep without writers misses its target."""
    if not s3.found("versitygw"):
        print("versitygw is not built: make servers")
        return False
    os.environ.update(s3.CREDENTIALS)
    with s3.s3_server() as url, tempfile.TemporaryDirectory() as folder:
        store = S3Store(connect(url), s3.new_bucket(url), ids=Ulids())
        idle_s, rate, busy_s = asyncio.run(measured(Path(folder), store))
    print(f"{LETTERS:,} dead letters swept in {idle_s:.0f} s without writers (target: {MOST_S}), and in {busy_s:.0f} s while "
          f"{rate:,.0f} blocks per second are added")
    return idle_s > MOST_S


async def measured(folder: Path, store: ObjectStore) -> tuple[float, float, float]:
    """Return the seconds of a sweep without writers, the blocks per second that writers add, and the seconds beside them."""
    async with leading(folder) as (server, _):
        await left(store)
        idle_s = await swept(server, store)
        rate = await added(server.index.add, SECONDS) / 2
        await left(store)
        writers = asyncio.create_task(steadily(server, rate, 1e9))
        busy_s = await swept(server, store)
        writers.cancel()
        await asyncio.wait([writers])
        return idle_s, rate, busy_s


async def left(store: ObjectStore) -> None:
    """Put the letters."""
    numbers = iter(range(LETTERS))

    async def put() -> None:
        for _ in numbers:
            block = made()
            await store.create(key_of(block), encode(block))

    await asyncio.gather(*(put() for _ in range(PUT_AT_ONCE)))


async def swept(server: Server, store: ObjectStore) -> float:
    began = time.perf_counter()
    await Sweeper(system_world(store), server.service.add, server.leads).sweep()
    took_s = time.perf_counter() - began
    assert not await list_all(store, "dlq/")
    return took_s


if __name__ == "__main__":
    main()
