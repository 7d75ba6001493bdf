"""Safety: what a node receives was sent by the node that it is told of, of its own cluster and in forms that it knows.

The network between nodes in processes of their own: the Net of the seam (impl/node_world.py) over frames. A node dials each
peer and sends on that connection; it receives on those that its peers dialled. What a bounded queue cannot take is lost, as on
any network, and counted. Only one process at a time is heard under a node's name.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.level import FIRST, Level
from highwater.impl.node_world import Message
from highwater.impl.settings import difference
from highwater.impl.stores import frames
from highwater.impl.stores.certificates import Tls, check_encrypted, names_host, reason
from highwater.impl.stores.frames import CLIENT, PEER, HandshakeRefused, Hello, Malformed, Welcome
from highwater.impl.world import Metrics

log = logging.getLogger("highwater")
KEEP_ALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))  # seconds, seconds, times: where the system has it
BACKLOG = 128  # connections that wait to be taken
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class AddressInUse(Definite):
    """The node cannot listen on its address."""


class Address(NamedTuple):
    """An address at which a process listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str) -> "Address | None":
        """Parse "host:port" or "[host]:port"; None if it is neither."""
        host, separator, port = text.rpartition(":")
        if not separator or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
            return None
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


class Identity(NamedTuple):
    """The name of a process, as it gives it to others."""

    cluster: str
    node: str
    known: Level  # the highest level that it knows
    instance: str  # of this process
    address: str = ""  # where others dial it
    settings: str = ""  # of its machine


class Limits(NamedTuple):
    """The bounds of memory. A queue is full with so many frames, or so many bytes."""

    frame_bytes: int = 8 << 20
    inbox_frames: int = 1_000
    queue_frames: int = 10_000  # to one peer
    queue_bytes: int = 32 << 20  # to one peer
    clients: int = 200  # connections
    retry_s: float = 0.05  # between two attempts to dial a peer, at first; then twice as long each time
    most_retry_s: float = 1.0


USUAL = Limits()


class Link:
    """The connection to one peer, and the queue of what is to be sent to it."""

    def __init__(self, net: "StreamNet", peer: str, address: Address):
        self.net, self.peer, self.address = net, peer, address
        self.queue: deque[bytes] = deque()
        self.queued_bytes = 0
        self.wake = asyncio.Event()
        self.is_connected = False
        self.known: Level | None = None  # the highest level that the peer knows, by the handshake of the connection there is
        self.told = ""  # the latest trouble that was logged
        self.task: asyncio.Task[None] | None = None  # it runs

    def put(self, body: bytes) -> bool:
        """Queue a frame; tell whether there was room, and a connection."""
        limits = self.net.limits
        is_full = len(self.queue) >= limits.queue_frames or self.queued_bytes + len(body) > limits.queue_bytes
        if is_full or not self.is_connected:
            return False
        self.queue.append(body)
        self.queued_bytes += len(body)
        self.wake.set()
        return True

    async def run(self) -> None:
        """Dial, send, and dial again after any end, until cancelled."""
        wait_s = self.net.limits.retry_s
        while True:
            try:
                await self._connect_and_send()
                wait_s = self.net.limits.retry_s
            except (HandshakeRefused, Malformed, OSError) as error:
                self._tell(error)
                wait_s = min(wait_s * 2, self.net.limits.most_retry_s)
            await asyncio.sleep(wait_s)

    def _tell(self, error: Exception) -> None:
        """Log a trouble once, until another one or a connection follows."""
        what = f"node {self.peer!r} at {self.address} cannot be reached: {reason(error)}"
        if isinstance(error, HandshakeRefused):
            what = f"node {self.peer!r} at {self.address} refuses the connection: {error}"
        if what != self.told:
            self.told = what
            self.net.metrics.warn(what)

    async def _connect_and_send(self) -> None:
        net, tls = self.net, self.net.tls
        async with asyncio.timeout(frames.HANDSHAKE_S):
            reader, writer = await asyncio.open_connection(*self.address, ssl=tls.made if tls else None)
        instance = ""
        try:
            set_up(writer)
            answer = await frames.introduce(reader, writer, net.hello(PEER, self.peer))
            if answer.node != self.peer:
                raise HandshakeRefused(f"it is node {answer.node!r}: correct the addresses")
            net.heard(self.peer, answer.instance)
            instance = answer.instance
            log.info("node %r reaches node %r at %s", net.identity.node, self.peer, self.address)
            self.is_connected, self.known, self.told = True, answer.known, ""
            await self._send_on(reader, writer)
        finally:
            self.is_connected, self.known, self.queued_bytes = False, None, 0
            self.queue.clear()
            if instance:
                net.lost(self.peer, instance)
            writer.close()

    async def _send_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send what is queued until the connection ends. The peer sends nothing on it, so anything that comes is its end."""
        ended = asyncio.ensure_future(reader.read(1))
        sending = asyncio.ensure_future(self._send(writer))
        try:
            await asyncio.wait((ended, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ended, sending):
                task.cancel()
            await asyncio.gather(ended, sending, return_exceptions=True)

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.queue:
                batch = []
                while self.queue and len(batch) < 64:
                    batch.append(frames.framed(self.queue.popleft()))
                writer.write(b"".join(batch))
                await writer.drain()
                self.queued_bytes -= sum(len(frame) - frames.LENGTH.size for frame in batch)


class StreamNet:
    """The network of one node. `start` it, and `close` it. Until then, and without a connection, what is sent is lost."""

    def __init__(self, identity: Identity, peers: Mapping[str, Address], metrics: Metrics, tls: Tls | None = None,
                 limits: Limits = USUAL, serve: Serve | None = None):
        """`peers`: the other nodes. `serve` is given each connection of a client, after the welcome."""
        self.identity, self.metrics, self.tls, self.limits, self.serve = identity, metrics, tls, limits, serve
        self.level: Callable[[], Level] = lambda: FIRST  # of the cluster, as the node knows it
        self.links = {peer: Link(self, peer, address) for peer, address in peers.items()}
        self.inbox: asyncio.Queue[Message] = asyncio.Queue(limits.inbox_frames)
        self.instances: dict[str, list[str]] = {}  # of each peer, one for each connection
        self.clients = 0
        self.server: asyncio.Server | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    # --- the seam

    async def send(self, to: str, body: bytes) -> None:
        link = self.links.get(to)
        if link is None or len(body) > self.limits.frame_bytes:
            self.metrics.count("net_unsendable_frames")
        elif not link.put(body):
            self.metrics.count("net_dropped_frames")

    async def receive(self, timeout_ms: int) -> Message | None:
        if not self.inbox.empty():
            return self.inbox.get_nowait()
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                return await self.inbox.get()
        except TimeoutError:
            return None

    # --- its life

    async def start(self, listen: Address, insecure: bool = False) -> None:
        """Listen, and dial the peers. Raises AddressInUse, NotEncrypted."""
        check_encrypted(listen.host, self.tls, insecure)
        try:
            self.server = await asyncio.start_server(self._take, listen.host, listen.port, backlog=BACKLOG,
                                                     ssl=self.tls.taken if self.tls else None)
        except OSError as error:
            raise AddressInUse(f"node {self.identity.node!r} cannot listen on {listen}: {reason(error)}: end the other "
                               "process, or take another port") from error
        for link in self.links.values():
            self._run(link)

    def _run(self, link: Link) -> None:
        link.task = asyncio.get_running_loop().create_task(link.run())
        self.tasks.add(link.task)
        link.task.add_done_callback(self.tasks.discard)

    def reach(self, peer: str, address: Address) -> None:
        """Dial a peer at this address from now on."""
        known = self.links.get(peer)
        if peer == self.identity.node or (known is not None and known.address == address):
            return
        self.forget(peer)
        self.links[peer] = Link(self, peer, address)
        if self.server is not None:
            self._run(self.links[peer])

    def forget(self, peer: str) -> None:
        """Dial a peer no more."""
        link = self.links.pop(peer, None)
        if link is not None and link.task is not None:
            link.task.cancel()

    async def close(self) -> None:
        """Close all connections, and end all tasks."""
        if self.server is not None:
            self.server.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def queued_frames(self) -> int:
        """Return how many frames wait to be sent."""
        return sum(len(link.queue) for link in self.links.values())

    # --- who is there

    def hello(self, purpose: str, to: str) -> Hello:
        mine = self.identity
        return Hello(self.level(), mine.known, purpose, mine.cluster, mine.node, to, mine.instance, mine.address,
                     mine.settings if purpose == PEER else "")

    def known_of(self, peer: str) -> Level | None:
        """Return the highest level that a peer knows; None if there is no connection to it."""
        link = self.links.get(peer)
        return link.known if link is not None else None

    def heard(self, peer: str, instance: str) -> None:
        """Note a connection with a peer's process. Raises HandshakeRefused if there is one with another process of its name."""
        known = self.instances.setdefault(peer, [])
        if any(other != instance for other in known):
            raise HandshakeRefused(f"another process is connected to node {self.identity.node!r} as node {peer!r}: every node "
                                   "needs a name of its own, and a folder of its own")
        known.append(instance)

    def lost(self, peer: str, instance: str) -> None:
        self.instances[peer].remove(instance)

    def check(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        """Raises HandshakeRefused unless the sender may be heard."""
        mine = self.identity
        if hello.cluster != mine.cluster:
            raise HandshakeRefused(f"node {mine.node!r} is of cluster {mine.cluster!r}, and not of {hello.cluster!r}: correct "
                                   "the addresses, or the cluster's name")
        if hello.to not in ("", mine.node):
            raise HandshakeRefused(f"this is node {mine.node!r}, and not {hello.to!r}: correct the addresses")
        self._check_level(hello)
        if hello.purpose == CLIENT and self.serve is not None:
            if self.clients >= self.limits.clients:
                raise HandshakeRefused(f"node {mine.node!r} serves {self.clients} connections already: try again later")
            return
        known = self.links.get(hello.sender)
        address = known.address if known is not None else Address.of(hello.address)
        if hello.purpose != PEER or not hello.sender or address is None:
            raise HandshakeRefused(f"{hello.purpose} {hello.sender!r} is none of the nodes that node {mine.node!r} knows: "
                                   f"{', '.join(sorted(self.links))}")
        if hello.settings and mine.settings and (other := difference(hello.settings, mine.settings)):
            raise HandshakeRefused(f"the machine of node {hello.sender!r} has {other[0]}, and that of node {mine.node!r} has "
                                   f"{other[1]}: give all nodes the same")
        host = address.host
        if self.tls and not names_host(writer.get_extra_info("peercert"), host):
            raise HandshakeRefused(f"the certificate does not name {host}, where node {hello.sender!r} is")

    def _check_level(self, hello: Hello) -> None:
        """Raises HandshakeRefused unless this node knows what the sender may send, and a peer what this one may."""
        mine, level, sender = self.identity, self.level(), hello.sender
        start = "the version of highwater and of the machine that the cluster has"
        if not mine.known.covers(hello.level):
            raise HandshakeRefused(f"node {sender!r} is at level {hello.level}, and node {mine.node!r} knows levels up to "
                                   f"{mine.known}: start on {mine.node!r} {start}")
        if hello.purpose == PEER and not hello.known.covers(level):
            raise HandshakeRefused(f"node {sender!r} knows levels up to {hello.known}, and node {mine.node!r} is at level "
                                   f"{level}: start on {sender!r} {start}")

    # --- connections that others made

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            set_up(writer)
            await self._answer(reader, writer)
        except (Malformed, HandshakeRefused) as error:
            self.metrics.count("net_refused_connections")
            self.metrics.warn(f"a connection from {told(writer)} is closed: {error}")
        except (OSError, TimeoutError):
            pass  # the other side is gone, or says nothing
        except asyncio.CancelledError:
            pass  # of `close`: asyncio's server would report it as an error
        finally:
            self.tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = await frames.read_hello(reader)
            self.check(hello, writer)
            if hello.purpose == PEER:
                self.heard(hello.sender, hello.instance)
                if hello.sender not in self.links and (address := Address.of(hello.address)) is not None:
                    self.reach(hello.sender, address)  # a change of the members that this node has not heard of let it join
        except HandshakeRefused as error:
            frames.refuse(writer, str(error))
            with suppress(OSError):
                await writer.drain()
            raise
        frames.welcome(writer, Welcome(self.identity.known, self.identity.node, self.identity.instance))
        if hello.purpose == CLIENT:
            assert self.serve is not None
            self.clients += 1
            try:
                await self.serve(reader, writer)
            finally:
                self.clients -= 1
            return
        try:
            while (body := await frames.read_frame(reader, self.limits.frame_bytes)) is not None:
                await self.inbox.put(Message(hello.sender, body))
        finally:
            self.lost(hello.sender, hello.instance)


def set_up(writer: asyncio.StreamWriter) -> None:
    """Send frames at once, and let the system notice a host that is gone."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def told(writer: asyncio.StreamWriter) -> str:
    """Return where a connection comes from."""
    name = writer.get_extra_info("peername")
    return str(Address(*name[:2])) if name else "somewhere"
