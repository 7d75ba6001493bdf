"""A proxy between two nodes that drops frames, or cuts the connection. It hands on everything else as it comes."""

import asyncio
from contextlib import suppress
from random import Random

from highwater.impl.stores.frames import framed, read_frame
from highwater.impl.stores.stream_net import Address

MOST_BYTES = 64 << 20


class Proxy:
    """One direction: from a node that dials to the one that listens."""

    def __init__(self, target: Address, random: Random):
        self.target, self.random = target, random
        self.drop = 0.0  # the share of frames that are lost
        self.is_cut = False
        self.dropped = 0
        self.writers: set[asyncio.StreamWriter] = set()
        self.tasks: set[asyncio.Task] = set()

    async def start(self) -> Address:
        self.server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return Address(*self.server.sockets[0].getsockname())

    def cut(self) -> None:
        """End all connections, and let none begin until `heal`."""
        self.is_cut = True
        for writer in self.writers:
            writer.transport.abort()

    def heal(self) -> None:
        self.is_cut, self.drop = False, 0.0

    async def close(self) -> None:
        self.server.close()
        self.cut()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        opened = [writer]
        self.writers.add(writer)
        try:
            if self.is_cut:
                return
            there, back = await asyncio.open_connection(*self.target)
            opened.append(back)
            self.writers.add(back)
            await first(self._forward(reader, back), hand_on(there, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            for one in opened:
                self.writers.discard(one)
                one.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while (frame := await read_frame(reader, MOST_BYTES)) is not None:
            number += 1
            if number > 1 and self.random.random() < self.drop:  # the first is the hello
                self.dropped += 1
                continue
            writer.write(framed(frame))
            await writer.drain()


async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def first(*works) -> None:
    """Run until one has ended, in whatever way, and end the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        with suppress(Exception):
            await asyncio.gather(*tasks, return_exceptions=True)
