"""Replicated appends with fsync, beside the disk's own rate of fdatasync.

Three processes on one disk, each with a folder of its own. 16 tasks in the leader's process propose entries of 100 bytes, one
after the other each. The disk's rate is of 200 bytes appended and synced at a time by one process, before and after.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from highwater.cluster.client import Client
from highwater.cluster.server import Server, Settings, running
from highwater.cluster.service import Service
from highwater.impl.errors import StoreError
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.state import LEADER
from highwater.impl.stores.stream_net import Address
from highwater.servers import leash

TASKS, SECONDS, SYNC_SECONDS = 16, 5.0, 2.0
LEAST_RATIO = 3.0
WAIT_S = 60.0
ENTRY = b"x" * 100
NAMES = ("1", "2", "3")

COUNTING = Machine(0, lambda count, _: (count + 1, b""), lambda count: b"%d" % count, int)
SERVICE = Service(COUNTING, lambda count, _: b"%d" % count)


def main() -> bool:
    """Print the rates and their ratio. Return True if it misses its target."""
    with tempfile.TemporaryDirectory() as folder:
        before = syncs_per_second(Path(folder))
        appends, mean_ms = asyncio.run(measured(Path(folder)))
        after = syncs_per_second(Path(folder))
    syncs = (before + after) / 2
    print(f"{appends:,.0f} replicated appends per second by {TASKS} tasks, {mean_ms:.1f} ms each; the disk alone syncs "
          f"{syncs:,.0f} times per second: {appends / syncs:.1f} times as many (target: {LEAST_RATIO:g})")
    return appends / syncs < LEAST_RATIO


def syncs_per_second(folder: Path) -> float:
    fd = os.open(folder / "syncs", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        began, number = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < SYNC_SECONDS:
            os.write(fd, b"x" * 200)
            os.fdatasync(fd)
            number += 1
        return number / passed
    finally:
        os.close(fd)


async def measured(folder: Path) -> tuple[float, float]:
    """Return the appends per second of a leader in this process, and how long one takes in ms."""
    nodes = {name: Address("127.0.0.1", leash.free_port()) for name in NAMES}
    others = [subprocess.Popen([sys.executable, "-SE", os.path.abspath(leash.__file__), *command(folder, name, nodes)],
                               stdin=subprocess.PIPE) for name in NAMES[1:]]
    try:
        async with running(Settings(str(folder / "1"), "1", nodes, SERVICE)) as server:
            await lead(server, nodes)
            return await appended(server)
    finally:
        for other in others:
            leash.end(other)


def command(folder: Path, name: str, nodes: dict[str, Address]) -> list[str]:
    return [sys.executable, "-m", "highwater", "raft", "serve", str(folder / name), "--node", name, "--nodes",
            ",".join(f"{other}={address}" for other, address in nodes.items()), "--machine", f"{__file__}:SERVICE", "--quiet"]


async def lead(server: Server, nodes: dict[str, Address]) -> None:
    """Wait until all nodes are there, and this one leads them."""
    async with asyncio.timeout(WAIT_S), Client(nodes) as client:
        while server.node.state.role != LEADER or len(server.status()["connected"]) < len(nodes) - 1:
            try:
                await client.transfer("1")
            except StoreError:
                pass  # there is no leader yet
            await asyncio.sleep(0.05)


async def appended(server: Server) -> tuple[float, float]:
    end, number = time.perf_counter() + SECONDS, 0

    async def propose() -> None:
        nonlocal number
        while time.perf_counter() < end:
            await server.node.propose(ENTRY)
            number += 1

    began = time.perf_counter()
    await asyncio.gather(*(propose() for _ in range(TASKS)))
    passed = time.perf_counter() - began
    return number / passed, passed * TASKS / number * 1e3
