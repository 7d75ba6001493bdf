"""Safety: what a node receives was sent by the node that it is told of, of its own cluster and in forms that it knows.

The network between nodes in processes of their own: the Net of the seam (impl/node_world.py) over frames. A node dials each
peer and sends on that connection; it receives on those that its peers dialled. What a bounded queue cannot take is lost, as on
any network, and counted. Only one process at a time is heard under a node's name. A peer that is no member as far as this node
knows is heard too, and dialled where its certificate says: it may lead a group whose change this node has missed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from highwater.impl.errors import Definite
from highwater.impl.level import FIRST, Level
from highwater.impl.node_world import Message
from highwater.impl.settings import difference
from highwater.impl.stores import frames, roles
from highwater.impl.stores.certificates import BadCertificate, Tls, check_encrypted, is_loopback, names_host, reason
from highwater.impl.stores.connections import OTHER_FILES, Connection, Listener, Slots, close_soon, closed, set_up
from highwater.impl.stores.frames import CLIENT, PEER, HandshakeRefused, Hello, Malformed, Welcome
from highwater.impl.stores.roles import OPERATOR, Roles
from highwater.impl.world import Metrics

log = logging.getLogger("highwater")
FULL_S = 0.005  # between two looks whether a full inbox has room
FORGOTTEN_S = 60.0  # after the last connection with a peer that is no member
OF_PEER = 2  # connections that one peer may have made: an old one may not be noticed as such yet
LINES, LINE_S = 20, 1.0  # lines on refused connections that are logged at once, and then one in so many seconds


class Caller(NamedTuple):
    """The sender of requests on a connection."""

    connection: Connection
    no_operator: str  # why its certificate does not allow the requests of an operator; "": it does


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Caller], Awaitable[None]]


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
    """The bounds of memory and of connections. A queue is full with so many frames, or so many bytes."""

    frame_bytes: int = 8 << 20
    inbox_frames: int = 1_000
    queue_frames: int = 10_000  # to one peer
    queue_bytes: int = 32 << 20  # to one peer
    waiting: int = 128  # connections whose sender is not known yet
    waiting_of_address: int = 64
    clients: int = 200  # connections
    inbox_bytes: int = 64 << 20  # of messages that the node has not taken yet
    client_bytes: int = 64 << 20  # of one client's requests and answers under way
    all_clients_bytes: int = 256 << 20  # of all clients'
    send_s: float = 20.0  # for a client to read an answer, or to make room for a request; then its connection is closed
    clients_of_address: int = 100
    operators: int = 16  # connections, beside those of clients
    strangers: int = 16  # peers that are no members, as far as the node knows
    members: int = 16  # whose connections `files` counts
    idle_s: float = 300.0  # a connection of a client without a request for so long is closed
    yields_s: float = 5.0  # one that was idle for so long is closed if another client finds no slot
    retry_s: float = 0.05  # between two attempts to dial a peer, at first; then twice as long each time
    most_retry_s: float = 1.0

    def files(self, peers: int) -> int:
        """Return how many files and connections a node with so many peers may have open at a time."""
        peers = max(peers, self.members) + self.strangers
        return self.waiting + self.clients + self.operators + peers * (OF_PEER + 1) + OTHER_FILES


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
            except (BadCertificate, HandshakeRefused, Malformed, OSError) as error:
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
            set_up(writer.get_extra_info("socket"))
            if tls and (why := net.roles.refusal(roles.uris_in(writer.get_extra_info("peercert")), roles.peer(self.peer))):
                raise BadCertificate(why)
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
            close_soon(writer)

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
                 limits: Limits = USUAL, serve: Serve | None = None, roles_required: bool = False):
        """`peers`: the other nodes. `serve` is given each connection of a client, after the welcome."""
        self.identity, self.metrics, self.tls, self.limits, self.serve = identity, metrics, tls, limits, serve
        self.roles = Roles(identity.cluster, roles_required)
        self.level: Callable[[], Level] = lambda: FIRST  # of the cluster, as the node knows it
        self.links = {peer: Link(self, peer, address) for peer, address in peers.items()}
        self.strangers: dict[str, asyncio.TimerHandle | None] = {}  # links to no members; when they are forgotten
        self.inbox: asyncio.Queue[Message] = asyncio.Queue(limits.inbox_frames)
        self.inbox_bytes = 0  # of what is in it
        self.instances: dict[str, list[str]] = {}  # of each peer, one for each connection
        self.taken: dict[str, list[Connection]] = {}  # from each peer, the oldest first
        self.clients = Slots(limits.clients, limits.clients_of_address, limits.yields_s)
        self.operators = Slots(limits.operators, limits.operators)
        self.lines, self.unlogged, self.line_at = LINES, 0, 0.0
        waiting = Slots(limits.waiting, limits.waiting_of_address)
        self.listener = Listener(self._take, waiting, lambda: frames.HANDSHAKE_S, metrics, tls.taken if tls else None)
        self.is_open = False
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
            return self._taken(self.inbox.get_nowait())
        try:
            async with asyncio.timeout(timeout_ms / 1e3):
                return self._taken(await self.inbox.get())
        except TimeoutError:
            return None

    def _taken(self, message: Message) -> Message:
        self.inbox_bytes -= len(message.body)
        return message

    async def _take_in(self, message: Message) -> None:
        """Put a message of a peer into the inbox, once there is room. Its connection is not read meanwhile."""
        while self.inbox_bytes and self.inbox_bytes + len(message.body) > self.limits.inbox_bytes:
            await asyncio.sleep(FULL_S)
        await self.inbox.put(message)
        self.inbox_bytes += len(message.body)

    # --- its life

    async def start(self, listen: Address, insecure: bool = False) -> None:
        """Listen, and dial the peers. Raises AddressInUse, NotEncrypted."""
        check_encrypted(listen.host, self.tls, insecure)
        try:
            await self.listener.start(*listen)
        except OSError as error:
            raise AddressInUse(f"node {self.identity.node!r} cannot listen on {listen}: {reason(error)}: end the other "
                               "process, or take another port") from error
        self.is_open = True
        for link in self.links.values():
            self._run(link)
        self._spawn(self._end_idle())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def _run(self, link: Link) -> None:
        link.task = self._spawn(link.run())

    async def _end_idle(self) -> None:
        """Close connections of clients and operators without requests, again and again."""
        while True:
            await asyncio.sleep(self.limits.idle_s / 10)
            for slots in (self.clients, self.operators):
                self.metrics.count("net_idle_connections", slots.end_idle(self.limits.idle_s))

    def reach(self, peer: str, address: Address) -> None:
        """Dial a member at this address from now on."""
        timer = self.strangers.pop(peer, None)
        if timer is not None:
            timer.cancel()
        self._dial(peer, address)

    def _dial(self, peer: str, address: Address) -> None:
        known = self.links.get(peer)
        if peer == self.identity.node or (known is not None and known.address == address):
            return
        self._hang_up(peer)
        self.links[peer] = Link(self, peer, address)
        if self.is_open:
            self._run(self.links[peer])

    def _meet(self, peer: str, address: Address) -> None:
        """Dial a peer that is no member, for as long as there are connections with it: a change of the members that this node
        has not heard of may have let it join. Raises HandshakeRefused if there are too many of them.
        """
        if peer not in self.strangers and len(self.strangers) >= self.limits.strangers:
            leaving = next((name for name, timer in self.strangers.items() if timer is not None), None)
            if leaving is None:
                raise HandshakeRefused(f"node {self.identity.node!r} has connections with {len(self.strangers)} nodes that are "
                                       f"no members already: let {peer!r} join first, or try again later")
            self.forget(leaving)
        self.strangers.setdefault(peer, None)
        self._dial(peer, address)

    def forget(self, peer: str) -> None:
        """Dial a peer no more."""
        timer = self.strangers.pop(peer, None)
        if timer is not None:
            timer.cancel()
        if not self.instances.get(peer):
            self.instances.pop(peer, None)
        self._hang_up(peer)

    def _hang_up(self, peer: str) -> None:
        link = self.links.pop(peer, None)
        if link is not None and link.task is not None:
            link.task.cancel()

    async def close(self) -> None:
        """Close all connections, and end all tasks."""
        self.is_open = False
        await self.listener.close()
        for timer in self.strangers.values():
            if timer is not None:
                timer.cancel()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def queued_frames(self) -> int:
        """Return how many frames wait to be sent."""
        return sum(len(link.queue) for link in self.links.values())

    def callers(self) -> int:
        """Return how many connections of clients and operators there are."""
        return len(self.clients.held | self.operators.held)

    # --- who is there

    def hello(self, purpose: str, to: str) -> Hello:
        mine = self.identity
        return Hello(self.level(), mine.known, purpose, mine.cluster, mine.node, to, mine.instance, mine.address,
                     mine.settings if purpose == PEER else "")

    def known_of(self, peer: str) -> Level | None:
        """Return the highest level that a peer knows; None if there is no connection to it."""
        link = self.links.get(peer)
        return link.known if link is not None else None

    def end_from(self, sender: str) -> None:
        """End the connections on which a peer sends. It dials again, after a pause."""
        for connection in self.taken.get(sender, ()):
            connection.end()

    def heard(self, peer: str, instance: str) -> None:
        """Note a connection with a peer's process. Raises HandshakeRefused if there is one with another process of its name."""
        known = self.instances.setdefault(peer, [])
        if any(other != instance for other in known):
            raise HandshakeRefused(f"another process is connected to node {self.identity.node!r} as node {peer!r}: every node "
                                   "needs a name of its own, and a folder of its own")
        known.append(instance)
        timer = self.strangers.get(peer)
        if timer is not None:
            timer.cancel()
            self.strangers[peer] = None

    def lost(self, peer: str, instance: str) -> None:
        """Note the end of a connection. Who is no member is forgotten some time after the last one."""
        self.instances[peer].remove(instance)
        if self.instances[peer] or not self.is_open:
            return
        if peer in self.strangers:
            self.strangers[peer] = asyncio.get_running_loop().call_later(FORGOTTEN_S, self.forget, peer)
        elif peer not in self.links:
            del self.instances[peer]

    def check(self, hello: Hello, writer: asyncio.StreamWriter) -> None:
        """Raises HandshakeRefused unless the sender may be heard."""
        mine = self.identity
        if hello.cluster != mine.cluster:
            raise HandshakeRefused(f"node {mine.node!r} is of cluster {mine.cluster!r}, and not of {hello.cluster!r}: correct "
                                   "the addresses, or the cluster's name")
        if hello.to not in ("", mine.node):
            raise HandshakeRefused(f"this is node {mine.node!r}, and not {hello.to!r}: correct the addresses")
        self._check_level(hello)
        certificate = writer.get_extra_info("peercert")
        uris = roles.uris_in(certificate)
        if hello.purpose == CLIENT and self.serve is not None:
            if why := self.roles.refusal(uris, OPERATOR if hello.sender == OPERATOR else roles.CLIENT):
                raise HandshakeRefused(why)
            return
        known = self.links.get(hello.sender) if hello.sender not in self.strangers else None
        address = known.address if known is not None else Address.of(hello.address)
        if hello.purpose != PEER or hello.sender in ("", mine.node) or address is None:
            raise HandshakeRefused(f"{hello.purpose} {hello.sender!r} is none of the nodes that node {mine.node!r} knows: "
                                   f"{', '.join(sorted(self.links))}")
        if hello.settings and mine.settings and (other := difference(hello.settings, mine.settings)):
            raise HandshakeRefused(f"the machine of node {hello.sender!r} has {other[0]}, and that of node {mine.node!r} has "
                                   f"{other[1]}: give all nodes the same")
        if why := self.roles.refusal(uris, roles.peer(hello.sender)):
            raise HandshakeRefused(why)
        is_named = self.roles.uri(roles.peer(hello.sender)) in uris and known is not None
        if self.tls and not is_named and not names_host(certificate, address.host):
            raise HandshakeRefused(f"the certificate does not name {address.host}, where node {hello.sender!r} is")
        if not self.tls and known is None and is_loopback(source(writer)) and not is_loopback(address.host):
            raise HandshakeRefused(f"node {hello.sender!r} connects from this machine, and says that it is at {address}")

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

    async def _take(self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = told(writer)  # which a closed connection does not know any more
        try:
            await self._answer(connection, reader, writer)
        except (Malformed, HandshakeRefused) as error:
            self.metrics.count("net_refused_connections")
            self._log_refusal(f"a connection from {place} is closed: {error}")

    def _log_refusal(self, line: str) -> None:
        """Log why a connection was closed; of very many connections only some."""
        now = asyncio.get_running_loop().time()
        self.lines = min(LINES, self.lines + int((now - self.line_at) / LINE_S))
        if not self.lines:
            self.unlogged += 1
            return
        self.metrics.warn(f"{line} (and {self.unlogged:,} more, for which no line was logged)" if self.unlogged else line)
        self.lines, self.unlogged, self.line_at = self.lines - 1, 0, now

    async def _answer(self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = None
        try:
            hello = await frames.read_hello(reader)
            self.check(hello, writer)
            if hello.purpose == PEER:
                self._admit_peer(connection, hello)
            else:
                self._admit_client(connection, hello)
        except HandshakeRefused as error:
            frames.refuse(writer, str(error))
            await closed(writer)
            raise
        frames.welcome(writer, Welcome(self.identity.known, self.identity.node, self.identity.instance))
        if hello.purpose == CLIENT:
            assert self.serve is not None
            why = self.roles.refusal(roles.uris_in(writer.get_extra_info("peercert")), OPERATOR)
            await self.serve(reader, writer, Caller(connection, why))
            return
        try:
            while (body := await frames.read_frame(reader, self.limits.frame_bytes)) is not None:
                await self._take_in(Message(hello.sender, body))
                await asyncio.sleep(0)  # while frames come without a pause, other tasks have their turn
        finally:
            self.taken[hello.sender].remove(connection)
            if not self.taken[hello.sender]:
                del self.taken[hello.sender]
            self.lost(hello.sender, hello.instance)

    def _admit_peer(self, connection: Connection, hello: Hello) -> None:
        """Hear a peer. Its oldest connections end if it has too many. Raises HandshakeRefused."""
        peer, address = hello.sender, Address.of(hello.address)
        if (peer in self.strangers or peer not in self.links) and address is not None:
            self._meet(peer, address)
        self.heard(peer, hello.instance)
        taken = self.taken.setdefault(peer, [])
        for other in taken[:max(len(taken) + 1 - OF_PEER, 0)]:
            other.end()
        taken.append(connection)
        connection.admit(None)

    def _admit_client(self, connection: Connection, hello: Hello) -> None:
        """Give a client a slot. Raises HandshakeRefused if there is none."""
        slots = self.operators if hello.sender == OPERATOR else self.clients
        if not connection.admit(slots):
            raise HandshakeRefused(f"node {self.identity.node!r} serves {len(slots.held)} connections already: try again later")


def source(writer: asyncio.StreamWriter) -> str:
    """Return the address from which a connection comes."""
    name = writer.get_extra_info("peername")
    return name[0].partition("%")[0] if name else ""


def told(writer: asyncio.StreamWriter) -> str:
    """Return where a connection comes from."""
    name = writer.get_extra_info("peername")
    return str(Address(*name[:2])) if name else "somewhere"
