"""Safety: connections that do not finish a handshake keep no client of an API out, and take no descriptor of others.

A listener before a server of a library that bounds its connections only in all, as gRPC's does. It passes bytes on, as they
are, to the library's socket, which lies in a folder that only this user may enter. So TLS is between the client and the
library. A connection has a waiting slot, see connections.py, until the library has got a call on it that its certificate
allows. Then it has one of a client, or one of those that are kept back for operators.
"""

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from highwater.impl.stores.connections import Connection, Listener, Slots
from highwater.impl.stores.frames import HANDSHAKE_S
from highwater.impl.world import Metrics

FIRST_CALL_S = 30.0  # from the acceptance of a connection until its first call
PIECE = 1 << 16  # bytes that are passed on at a time
LONGEST_FOLDER = 60  # bytes of the path: that of a socket has 103 at most, on macOS
OF_EACH = 3  # descriptors of a connection: the client's, and both ends of the one to the library


class Bounds(NamedTuple):
    """The bounds of an API's connections."""

    waiting: int = 64  # without a call so far
    clients: int = 128
    operators: int = 8  # whose first call is one of an operator
    yields_s: float = 30.0  # a connection without a byte for so long is closed if another one finds no slot

    def files(self) -> int:
        """Return how many descriptors the connections may take."""
        return self.most() * OF_EACH

    def most(self) -> int:
        """Return how many connections there may be at a time."""
        return self.waiting + self.clients + self.operators


class Front:
    """Passes connections on to a socket of a library."""

    def __init__(self, place: str, bounds: Bounds):
        self.place, self.number = place, 0
        self.clients = Slots(bounds.clients, max(bounds.clients // 2, 1), bounds.yields_s)
        self.operators = Slots(bounds.operators, bounds.operators, bounds.yields_s)
        self.passages: dict[str, Passage] = {}  # by the name of their end at the library

    async def take(self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one connection until either side ends it. Raises OSError."""
        async with asyncio.timeout(HANDSHAKE_S):
            first = await reader.read(PIECE)
        if not first:
            return
        self.number += 1
        name = f"{self.place}-{self.number}"
        inner_reader, inner_writer = await self._inner(name)
        passage = self.passages[name] = Passage(connection)
        passage.asks = True
        inner_writer.write(first)
        directions = [asyncio.ensure_future(passage.up(reader, inner_writer)),
                      asyncio.ensure_future(passage.down(inner_reader, writer))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            inner_writer.transport.abort()
            del self.passages[name]

    def admit(self, peer: str, is_operator: bool) -> str:
        """Note a call that its certificate allows. Return why it is refused all the same; "" if it is not. `peer`: as the
        library names the connection, which keeps its waiting slot, and the deadline, if there is no other slot."""
        passage = self.passages.get(unquote(peer.removeprefix("unix:")))
        if passage is None or passage.has_called:
            return ""
        passage.has_called = passage.connection.admit(self.operators if is_operator else self.clients)
        return "" if passage.has_called else "this node has no room for more connections: try another one, or again later"

    async def _inner(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the library. The own end has this name, by which the library tells its peers apart."""
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            inner.bind(name)
            try:
                await asyncio.get_running_loop().sock_connect(inner, self.place)
            finally:
                os.unlink(name)
            return await asyncio.open_unix_connection(sock=inner)
        except BaseException:
            inner.close()
            raise


class Passage:
    """One connection."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.asks = False  # bytes of the client have come since the last answer
        self.has_called = False

    async def up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            self.asks = True
            if self.has_called:
                self.connection.touch()  # bytes that drip keep no waiting slot
            writer.write(data)
            await writer.drain()

    async def down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            if self.asks:
                self.asks = False
                self.connection.touch()
                self.connection.progress += 1
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def folder_of_socket() -> AsyncGenerator[Path]:
    """Give a folder for a socket that only this user may enter, and remove it afterwards."""
    usual = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="highwater-", dir=usual if len(os.fsencode(usual)) <= LONGEST_FOLDER else "/tmp")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listener_of(front: Front, bounds: Bounds, metrics: Metrics) -> Listener:
    """Return a listener that gives connections to the front."""
    return Listener(front.take, Slots(bounds.waiting, bounds.waiting), lambda: FIRST_CALL_S, metrics)
