"""The real world of one node: asyncio's signals, the machine's clock, and a network between the nodes of one process."""

import asyncio
from collections.abc import Sequence

from highwater.impl.level import ANY_MACHINE, Level
from highwater.impl.node_world import Disk, Message, NodeWorld
from highwater.impl.stores.system import Counters, SystemClock, Ulids


class SystemSignal:
    """A signal between tasks of asyncio."""

    def __init__(self):
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class SystemSignals:
    """A maker of signals."""

    def signal(self) -> SystemSignal:
        return SystemSignal()


class LocalNet:
    """The network between nodes of one process. A node without peers has one of its own."""

    def __init__(self, me: str, inboxes: dict[str, asyncio.Queue[Message]], most_messages: int = 10_000):
        self._me, self._inboxes = me, inboxes
        self._inbox = inboxes.setdefault(me, asyncio.Queue(most_messages))

    async def send(self, to: str, body: bytes) -> None:
        inbox = self._inboxes.get(to)
        if inbox is not None and not inbox.full():  # what a full queue cannot take is lost, as on any network
            inbox.put_nowait(Message(self._me, body))

    async def receive(self, timeout_ms: int) -> Message | None:
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                return await self._inbox.get()
        except TimeoutError:
            return None

    def known_of(self, peer: str) -> Level | None:
        return ANY_MACHINE if peer in self._inboxes else None  # all nodes of a process have its version

    def end_from(self, sender: str) -> None:
        pass  # there are no connections


def local_worlds(disks: Sequence[tuple[str, Disk]]) -> dict[str, NodeWorld]:
    """Return the worlds of some nodes in this process, by name."""
    inboxes: dict[str, asyncio.Queue[Message]] = {}
    return {name: NodeWorld(disk, LocalNet(name, inboxes), SystemClock(), SystemSignals(), Ulids(), Counters())
            for name, disk in disks}
