"""Safety: whoever connects, there are slots and file descriptors left for the peers, for operators and for the disk.

Connections that others make, bounded from the moment in which they are accepted. Until its sender is known, a connection has
one of a few waiting slots, and a deadline for the TLS handshake and the hello. If no slot is free, the oldest connection of the
address that holds most of them is closed: who connects and says nothing cannot keep others out.
"""

import asyncio
import errno
import ipaddress
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.world import Metrics

KEEP_ALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))  # seconds, seconds, times: where the system has it
BACKLOG = 128  # connections that the system holds until they are accepted
CLOSE_S = 2.0  # for the last bytes of a connection; then it is cut
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE_S = 0.1  # after the system had no descriptor for a connection
OTHER_FILES = 64  # descriptors of the disk, of listening sockets, of the log and of libraries


class TooFewFiles(Definite):
    """The process may open fewer files than its limits need; the message says what to set."""


def check_open_files(needed: int) -> None:
    """Raises TooFewFiles if the process may not have as many files and connections open at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    higher = "" if hard == resource.RLIM_INFINITY or hard >= needed else f" (its hard limit is {hard:,}: raise that, too)"
    raise TooFewFiles(f"the process may open {soft:,} files and connections at a time, and its limits need {needed:,}: set "
                      f"`ulimit -n {needed}`{higher}, or lower --clients")


class Connection:
    """A connection that somebody else made. It begins as a waiting one."""

    def __init__(self, host: str, sock: socket.socket | None = None):
        self.network = network_of(host)
        self.sock = sock  # until its task has begun
        self.busy = 0  # requests under way
        self.progress = 0  # steps of its handshake that are done
        self.active_at = asyncio.get_running_loop().time()
        self.slots: Slots | None = None
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        """Note that the other side did something."""
        self.active_at = asyncio.get_running_loop().time()

    def idle_s(self) -> float:
        """Return for how many seconds nothing was done or asked; 0.0 while a request is under way."""
        return 0.0 if self.busy else asyncio.get_running_loop().time() - self.active_at

    def admit(self, slots: "Slots | None") -> bool:
        """Leave the waiting slots for one of `slots`, if there is room, and have no deadline any more."""
        if slots is not None and not slots.make_room(self.network):
            return False
        self.touch()
        self.leave()
        self.slots, self.progress = slots, 0
        if slots is not None:
            slots.held.add(self)
        return True

    def leave(self) -> None:
        """Give up the slot and the deadline."""
        if self.slots is not None:
            self.slots.held.discard(self)
        if self.deadline is not None:
            self.deadline.cancel()
        self.slots = self.deadline = None

    def end(self) -> None:
        """Close the connection at once, from outside of its task."""
        self.leave()
        if self.task is not None:
            self.task.cancel()


class Slots:
    """The connections of one kind."""

    def __init__(self, most: int, of_address: int, yields_s: float = 0.0):
        """`most`: connections in all, and `of_address` of one address. `yields_s`: once a connection was idle for so long, it
        is closed if a new one finds no slot; 0.0: also a busy one is.
        """
        self.most, self.of_address, self.yields_s = most, of_address, yields_s
        self.held: set[Connection] = set()

    def make_room(self, network: str) -> bool:
        """Return whether there is a slot for a connection from `network`, after closing another one if need be.

        An address that has its share loses one of its own; otherwise the address with most connections does. Connections that
        have begun a handshake and those that have not keep half of the slots each: many of one kind do not drive out the other.
        """
        number = Counter(one.network for one in self.held)
        if number[network] < self.of_address:
            if len(self.held) < self.most:
                return True
            network = number.most_common(1)[0][0] if number else ""
        closable = [one for one in self.held if one.network == network
                    and (not self.yields_s or one.idle_s() >= self.yields_s)]
        if not closable:
            return False
        fresh = [one for one in closable if not one.progress]
        if 2 * len(fresh) < len(closable):
            fresh = [one for one in closable if one.progress]
        min(fresh, key=lambda one: one.active_at).end()
        return True

    def end_idle(self, idle_s: float) -> int:
        """Close the connections that were idle for so long; return their number."""
        idle = [one for one in self.held if one.idle_s() >= idle_s]
        for one in idle:
            one.end()
        return len(idle)


class Streams(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


Take = Callable[[Connection, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Accepts connections at an address, and gives each to `take` in a task of its own. `start` it, and `close` it."""

    def __init__(self, take: Take, waiting: Slots, deadline_s: Callable[[], float], metrics: Metrics,
                 tls: ssl.SSLContext | None = None):
        """`deadline_s`: from the acceptance of a connection until `take` must have admitted it, or is cancelled."""
        self.take, self.waiting, self.deadline_s, self.metrics, self.tls = take, waiting, deadline_s, metrics, tls
        self.sockets: list[socket.socket] = []
        self.accepting: list[asyncio.Task[None]] = []
        self.connections: set[Connection] = set()

    async def start(self, host: str, port: int) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, place in dict.fromkeys((family, place) for family, _, _, _, place in found):
                sock = socket.create_server(place, family=family, backlog=BACKLOG)
                sock.setblocking(False)
                self.sockets.append(sock)
        except OSError:
            await self.close()
            raise
        self.accepting = [loop.create_task(self._accept_on(sock)) for sock in self.sockets]

    async def stop_accepting(self) -> None:
        """Accept no more connections."""
        for task in self.accepting:
            task.cancel()
        await asyncio.gather(*self.accepting, return_exceptions=True)
        for sock in self.sockets:
            sock.close()
        self.sockets, self.accepting = [], []

    async def close(self) -> None:
        """Accept no more, and close all connections."""
        await self.stop_accepting()
        tasks = [one.task for one in self.connections if one.task is not None]
        for one in list(self.connections):
            one.end()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept_on(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # while connections come without a pause, other tasks have their turn
            try:
                sock, place = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self.metrics.count("net_unaccepted_connections")
                    await asyncio.sleep(PAUSE_S)
                continue  # otherwise the other side has gone already
            connection = Connection(place[0], sock)
            if not has_set_up(sock) or not self.waiting.make_room(connection.network):
                sock.close()
                continue
            connection.slots = self.waiting
            self.waiting.held.add(connection)
            self.connections.add(connection)
            connection.deadline = loop.call_later(self.deadline_s(), connection.end)
            connection.task = loop.create_task(self._run(connection, sock))
            connection.task.add_done_callback(partial(self._ended, connection))

    async def _run(self, connection: Connection, sock: socket.socket) -> None:
        connection.sock = writer = None
        try:
            reader, writer = await streams_of(sock, self.tls, self.deadline_s())
            connection.progress = int(self.tls is not None)
            await self.take(connection, reader, writer)
            await closed(writer)
        except OSError:
            pass  # the other side is gone, or does not speak TLS
        except asyncio.CancelledError:
            pass  # of `end`
        finally:
            if writer is not None:
                writer.transport.abort()

    def _ended(self, connection: Connection, task: asyncio.Task[None]) -> None:
        connection.leave()
        self.connections.discard(connection)
        if connection.sock is not None:
            connection.sock.close()  # the task was cancelled before it began
        if not task.cancelled() and (error := task.exception()) is not None:
            self.metrics.warn(f"a connection ended with an unexpected error: {error!r}")


async def streams_of(sock: socket.socket, tls: ssl.SSLContext | None, deadline_s: float) -> Streams:
    """Return the streams of an accepted socket, after the handshake of TLS. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    limits = {"ssl_handshake_timeout": deadline_s, "ssl_shutdown_timeout": CLOSE_S} if tls else {}
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=tls, **limits)
    return Streams(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


def close(writer: asyncio.StreamWriter) -> None:
    """Begin to close a connection. After a second `close`, the transport of TLS in Python 3.11 cannot be aborted."""
    if not writer.is_closing():
        writer.close()


async def closed(writer: asyncio.StreamWriter) -> None:
    """Send what is left, and close the connection; cut it if the other side does not take that in time."""
    close(writer)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await writer.wait_closed()


def close_soon(writer: asyncio.StreamWriter) -> None:
    """Close a connection as `closed` does, without waiting for it."""
    close(writer)
    asyncio.get_running_loop().call_later(CLOSE_S, writer.transport.abort)


def set_up(sock: socket.socket) -> None:
    """Send frames at once, and let the system notice a host that is gone."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def has_set_up(sock: socket.socket) -> bool:
    """Set up a connection that was accepted; return whether it is still open."""
    try:
        set_up(sock)
    except OSError:
        return False
    return True


def network_of(host: str) -> str:
    """Return whose share a connection from this address is of: its own, or that of its /64 network of IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
