"""Gives a server of one node frames of clients, operators and peers: hellos and requests, valid and damaged."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from highwater.cluster import calls
from highwater.cluster.server import Server, Settings
from highwater.cluster.service import loaded
from highwater.impl.errors import StoreError
from highwater.impl.level import ANY_MACHINE, FIRST, Level
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import wire
from highwater.impl.raft.messages import Heartbeat, PreVote, RequestVote, TimeoutNow
from highwater.impl.raft.node import Node
from highwater.impl.raft.state import LEARN, PROMOTE, REMOVE
from highwater.impl.stores.connections import Connection
from highwater.impl.stores.frames import CLIENT, PEER, Hello, framed, hello_to, texts_to
from highwater.impl.stores.node_system import SystemSignals
from highwater.impl.stores.roles import OPERATOR
from highwater.impl.stores.stream_net import Address, Identity, Limits, StreamNet
from highwater.impl.stores.system import Counters
from tests.cluster.processes import MACHINE
from tests.fuzz.lives import Over, Stopped, Subject
from tests.fuzz.mutations import BOUNDS, TEXTS, mutated, mutated_json
from tests.fuzz.peers import OPTIONS, VALID, Numbered, Step
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.virtual import VirtualClock, run

HERE = Address("127.0.0.1", 1)
LIMITS = Limits(frame_bytes=1 << 20, send_s=1.0, clients=4, clients_of_address=4)
QUERIES = ({"get": "x"}, {"get": "l"})
GOOD = json.dumps({"do": "write", "key": "good", "value": 1}).encode()
HELLO = Hello(FIRST, ANY_MACHINE, CLIENT, "main", "", "", "instance")


class Transport:
    """The transport of a connection without a socket."""

    def __init__(self, reader: asyncio.StreamReader):
        self.reader = reader

    def abort(self) -> None:
        if not self.reader.at_eof():
            self.reader.feed_eof()


class Writer:
    """Keeps what a server writes, as the writer of a connection."""

    def __init__(self, reader: asyncio.StreamReader):
        self.reader, self.transport, self.written = reader, Transport(reader), b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 9) if name == "peername" else None

    def is_closing(self) -> bool:
        return self.reader.at_eof()

    def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        pass


class Frames:
    """A server, and its connections."""

    def __init__(self, server: Server, node: Node, step: Step):
        self.server, self.node, self.step, self.counts = server, node, step, Counter[str]()
        self.others: list[bytes] = []  # valid requests
        self.tasks: dict[asyncio.Task[None], asyncio.StreamReader] = {}

    def connect(self, data: bytes) -> tuple[Writer, asyncio.StreamReader]:
        """Begin a connection on which these bytes come, and perhaps more later."""
        reader = asyncio.StreamReader()
        writer: Any = Writer(reader)
        task = asyncio.ensure_future(self.server.net._take(Connection("127.0.0.1"), reader, writer))
        reader.feed_data(data)
        self.tasks[task] = reader
        return writer, reader

    def hello(self, chance: Random) -> bytes:
        purpose = chance.choice((CLIENT, CLIENT, CLIENT, PEER))
        made = HELLO._replace(purpose=purpose, sender=chance.choice(("", OPERATOR)), instance=str(chance.randrange(1 << 30)))
        if purpose == PEER:
            made = made._replace(sender=chance.choice(("b", "c", f"x{chance.randrange(20)}")), to="a", address="127.0.0.1:2")
        if chance.random() < 0.1:
            name = chance.choice(Hello._fields)
            odd = chance.choice([text for text in TEXTS if len(text) < 1_000 and text != "\ud800"])
            if name in ("level", "known"):
                odd = Level(chance.choice((0, 1, 65535)), chance.choice((0, 65535)))
            made = made._replace(**{name: odd})
        return hello_to(made)

    def request(self, chance: Random) -> bytes:
        kind = chance.choice(calls.KINDS)
        if kind == calls.PROPOSE:
            body = mutated_json(chance.choice(VALID), chance)
        elif kind == calls.QUERY:
            body = mutated_json(chance.choice(QUERIES), chance)
        elif kind == calls.CHANGE:
            body = texts_to((chance.choice((LEARN, PROMOTE, REMOVE, "")), chance.choice(("a", "b", "d", "", "é" * 90)),
                             chance.choice(("", "127.0.0.1:2", "[::1]:3", "x:99999", "h:٣"))))
        else:
            body = chance.choice(("a", "b", "", "é")).encode()
        number = chance.choice((chance.randrange(9), *BOUNDS[-3:]))
        return calls.request_to(number, kind, mutated(body, chance) if chance.random() < 0.2 else body)

    def message(self, chance: Random) -> bytes:
        """Return a message of a peer; peers.py has all kinds."""
        term = self.node.state.term + chance.choice((0, 1))
        made = chance.choice((PreVote(term, 1, 1), RequestVote(term, 9, term), Heartbeat(term, 0, 1), TimeoutNow(term)))
        return wire.encoded(made)

    async def give(self, chance: Random) -> None:
        hello = self.hello(chance)
        of = self.message if PEER.encode() in hello else self.request
        sent = [of(chance) for _ in range(chance.choice((1, 1, 3)))]
        self.others = [*self.others[-30:], *sent]
        sent = [mutated(one, chance, self.others) if chance.random() < 0.3 else one for one in sent]
        data = b"".join(map(framed, [hello, *sent]))
        if chance.random() < 0.15:
            data = mutated(data, chance, self.others)
        self.connect(data)
        await asyncio.sleep(0.01)
        self.counts["connections"] += 1
        await self.ended(all_of_them=chance.random() < 0.3)

    async def ended(self, all_of_them: bool) -> None:
        """Check how connections have ended; sometimes all are cut before."""
        if all_of_them:
            for reader in self.tasks.values():
                if not reader.at_eof():
                    reader.feed_eof()
            await asyncio.sleep(0.01)
        for task in [task for task in self.tasks if task.done()]:
            del self.tasks[task]
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, OSError | StoreError):
                raise Stopped(f"a connection ends with {error!r}") from error
        if self.server.counters.snapshot().get("raft_failed_requests"):
            raise Stopped("a request raised what nobody expected")
        self.step.check(self.node, self.counts)

    async def check(self) -> None:
        """Ask for the status, write and read, on one connection."""
        await asyncio.sleep(40.0)  # calls end by their limit, and an election has ended
        await self.ended(all_of_them=True)
        if self.node.state.voters != ("a",):
            raise Over  # a member was added by a valid request, and it does not run
        writer, reader = self.connect(framed(hello_to(HELLO._replace(sender=OPERATOR))))
        for kind, body, wanted in ((calls.STATUS, b"", b'"role": "leader"'), (calls.PROPOSE, GOOD, b'{"ok": true}'),
                                   (calls.QUERY, b'{"get": "good"}', b'{"value": 1}')):
            reader.feed_data(framed(calls.request_to(1, kind, body)))
            await asyncio.sleep(5.0)
            if wanted not in writer.written:
                raise Stopped(f"a good request has no good answer: {writer.written[-300:]!r}")
        await self.ended(all_of_them=True)
        if self.server.held.total:
            raise Stopped(f"{self.server.held.total:,} bytes are held, and no request is under way")


@asynccontextmanager
async def begin(chance: Random) -> AsyncGenerator[Frames]:
    service, counters = loaded(MACHINE), Counters()
    net = StreamNet(Identity("main", "a", ANY_MACHINE, "instance of a", str(HERE)), {}, counters, limits=LIMITS)
    world = NodeWorld(CrashingDisk(), net, VirtualClock(), SystemSignals(), Numbered(), counters)
    node = await Node.open(world, "a", ("a",), service.machine, OPTIONS._replace(tick_ms=100), step := Step())
    server = Server(Settings("", "a", {"a": HERE}, service, limits=LIMITS), node, net, counters)
    net.serve = server.serve
    one = Frames(server, node, step)
    await asyncio.sleep(3.0)
    try:
        yield one
    finally:
        for task in one.tasks:
            task.cancel()
        await asyncio.gather(*one.tasks, return_exceptions=True)
        try:
            await node.close()
        except Exception:
            pass  # of a task; it is reported


SUBJECT = Subject("frames", begin, run)
