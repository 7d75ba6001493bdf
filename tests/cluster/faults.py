"""The faults that a cluster of processes meets, one after the other: each heals what it broke."""

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from highwater.cli.raft import replaced
from highwater.impl.errors import StoreError
from highwater.impl.raft.faults import NoChange
from highwater.impl.stores.stream_net import Address
from tests.cluster.processes import LIMIT_S, Cluster, status
from tests.cluster.workload import Workload


class Faults:
    """Faults at a cluster, chosen by a seed. A majority runs most of the time, and sometimes not."""

    def __init__(self, cluster: Cluster, seed: int, work: Workload):
        self.cluster, self.random, self.work = cluster, Random(seed), work
        self.counts: Counter[str] = Counter()
        self.all = [self.killed, self.all_killed, self.paused, self.frames_dropped, self.cut_off, self.disk_full,
                    self.disk_failed, self.handed_over, self.rolling_restart, self.members_changed, self.replaced]
        self.joined = 0  # nodes, so far: each has a name of its own

    async def run(self, seconds: float) -> None:
        """Let faults happen for this long, each kind in turn and in an order of chance."""
        end = asyncio.get_running_loop().time() + seconds
        waiting: list = []
        while asyncio.get_running_loop().time() < end:
            waiting = waiting or self.random.sample(self.all, len(self.all))
            fault = waiting.pop()
            await fault()
            self.counts[fault.__name__] += 1
            await asyncio.sleep(self.random.uniform(0.05, 0.6))

    async def _node(self) -> str:
        """Choose a node: the leader as often as not."""
        name = self.random.choice(self.cluster.names)
        if self.random.random() < 0.5:
            async with self.cluster.client(limit_s=1.0) as client:
                found = await status(client, name)
            name = found["leader"] if found and found["leader"] in self.cluster.names else name  # or it has left
        return name

    async def _started(self) -> str:
        """Choose a node, and wait until it answers: before that a signal ends it at once."""
        name = await self._node()
        async with asyncio.timeout(LIMIT_S), self.cluster.client(limit_s=1.0) as client:
            while await status(client, name) is None:
                await asyncio.sleep(0.02)
        return name

    async def killed(self) -> None:
        name = await self._node()
        await self.cluster.kill(name)
        await asyncio.sleep(self.random.uniform(0, 0.8))
        self.cluster.start(name)

    async def all_killed(self) -> None:
        for name in self.random.sample(self.cluster.names, self.random.choice((2, 3))):
            await self.cluster.kill(name)
        self.cluster.start(*(name for name in self.cluster.names if not self.cluster.is_running(name)))
        await self.cluster.leader()

    async def paused(self) -> None:
        name = await self._node()
        self.cluster.signal(name, signal.SIGSTOP)
        await asyncio.sleep(self.random.uniform(0.1, 2.0))
        self.cluster.signal(name, signal.SIGCONT)

    async def frames_dropped(self) -> None:
        for proxy in self.cluster.proxies.values():
            proxy.drop = self.random.choice((0.0, 0.2, 0.5))
        await asyncio.sleep(self.random.uniform(0.3, 1.5))
        self._heal()

    async def cut_off(self) -> None:
        name = await self._node()
        ways = self.random.choice(("there", "back", "both"))
        for (one, other), proxy in self.cluster.proxies.items():
            if (one == name and ways != "back") or (other == name and ways != "there"):
                proxy.cut()
        await asyncio.sleep(self.random.uniform(0.3, 1.5))
        self._heal()

    def _heal(self) -> None:
        for proxy in self.cluster.proxies.values():
            proxy.heal()

    async def disk_full(self) -> None:
        name = await self._started()
        self.cluster.fill_disk(name)
        await self._stops(name, "there is no room for")

    async def disk_failed(self) -> None:
        name = await self._started()
        self.cluster.signal(name, signal.SIGUSR1)
        await self._stops(name, "the device does not answer")

    async def _stops(self, name: str, why: str) -> None:
        """Wait until a node has stopped by itself, and start it again."""
        code = await self.cluster.ended(name)
        said = self.cluster.said(name)
        assert code == 3 and why in said.splitlines()[-1] and "Traceback" not in said, (code, said[-2000:])
        self.cluster.start(name)

    async def handed_over(self) -> None:
        async with self.cluster.client() as client:
            try:
                await client.transfer(self.random.choice(self.cluster.names))
            except StoreError:
                pass  # no leader at the moment, or not in time

    async def members_changed(self) -> None:
        """Let a new node join, lead now and then, be killed now and then, and leave."""
        name, address = await self._added()
        async with self.cluster.client(limit_s=2.0) as client:
            await self._until(lambda: client.join(name, address))
            if self.random.random() < 0.5:
                with suppress(StoreError):
                    await client.transfer(name)
            if self.random.random() < 0.5:
                await self.cluster.kill(name)
            await asyncio.sleep(self.random.uniform(0, 0.5))
            await self._until(lambda: client.leave(name))
        if self.cluster.is_running(name):
            assert await self.cluster.stop(name) == 0
        await self.cluster.remove(name)

    async def replaced(self) -> None:
        """Lose the folder of a node, and let a new node take its place, as `raft rejoin` does."""
        lost = await self._node()
        await self.cluster.kill(lost)
        name, address = await self._added()
        nodes = {other: self.cluster.addresses[other] for other in self.cluster.names}
        await self._until(lambda: replaced(nodes, "main", None, 5.0, lost, (name, address)))
        await self.cluster.remove(lost)
        self.work.names = self.cluster.names

    async def _added(self) -> tuple[str, Address]:
        """Start a node that may join, let clients know it, and return its name, and where the others should dial it."""
        self.joined += 1
        name = f"later{self.joined}"
        address = await self.cluster.add(name)
        self.work.client.add(name, self.cluster.addresses[name])
        return name, address

    async def _until(self, change: Callable[[], Awaitable[None]]) -> None:
        """Ask for a change of the members until it is made."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    await change()
                    return
                except NoChange:
                    return
                except StoreError:
                    await asyncio.sleep(0.05)

    async def rolling_restart(self) -> None:
        await self.cluster.leader()
        for name in self.cluster.names:
            assert await self.cluster.stop(name) == 0
            self.cluster.start(name)
            await self.cluster.leader()
