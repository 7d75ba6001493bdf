"""Hostile clients and peers of a cluster, in a process of their own: `python -m tests.cluster.hostile JSON`.

Each actor works until the process ends; then it prints how often each has done what, as JSON. `nodes`: name -> host and port;
`ports`: of other ports that connections flood; `files`: certificates of a client, of a peer that is no member ("ghost"), of a
member ("member", stolen) and of another authority ("foreign"). Without files nothing is encrypted.
"""

import asyncio
import json
import os
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from highwater.cluster import calls
from highwater.impl.errors import StoreError
from highwater.impl.level import ANY_MACHINE, FIRST
from highwater.impl.raft import wire
from highwater.impl.raft.messages import Append, Appended, Heartbeat, InstallSnapshot, PreVote, RequestVote, TimeoutNow, Vote
from highwater.impl.stores import frames
from highwater.impl.stores.certificates import Files, Tls, loaded
from highwater.impl.stores.frames import CLIENT, PEER, Hello, framed
from highwater.impl.stores.roles import OPERATOR
from highwater.impl.stores.stream_net import Address
from highwater.impl.stores.system import Ulids
from highwater.interrupt import die_with

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # of HTTP/2
MEMBER = "1"  # whose certificate is stolen
COPIES = 2  # of each actor, at a time
FLOOD = 150  # connections that one flood holds at a time
FAR_TERMS = (1 << 22, 1 << 40, (1 << 62) - 1, (1 << 63) - 1)
DEEP = b"[" * 200_000 + b"]" * 200_000
UNKNOWN_KIND = bytes([wire.VERSION, 200]) + bytes(24)
GARBAGE = (b"abc", b"", bytes(100), b"\xff" * 2_000, UNKNOWN_KIND)
Actor = Callable[[], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def far_messages(random: Random) -> list[bytes]:
    """Return messages of a term that no group comes to, of which some have a valid form."""
    term = random.choice(FAR_TERMS)
    made = (Heartbeat(term, 1, 1), PreVote(term, 1, 1), RequestVote(term, 1 << 40, term), RequestVote(term, 1, 1, True),
            Append(term, 0, 0, (), 0), InstallSnapshot(term, 1 << 40, term), TimeoutNow(term), Vote(term, True),
            Appended(term, 1))
    return [wire.encoded(random.choice(made)), random.choice(GARBAGE)]


class Hostile:
    """The actors, and what they have done."""

    def __init__(self, wanted: dict[str, Any]):
        self.random, self.cluster = Random(wanted["seed"]), wanted["cluster"]
        self.nodes = {name: Address(*place) for name, place in wanted["nodes"].items()}
        self.ports = [*self.nodes.values(), *(Address(*place) for place in wanted["ports"])]
        self.files = {name: Files(*files) for name, files in wanted["files"].items()}
        self.counts: Counter[str] = Counter()
        self.takes_clients = wanted["takes_clients"]

    def tls(self, who: str) -> Tls | None:
        return loaded(self.files[who]) if self.files else None

    def node(self) -> tuple[str, Address]:
        return self.random.choice(list(self.nodes.items()))

    async def dialled(self, address: Address, hello: Hello, who: str) -> Streams:
        """Connect and say hello. Raises HandshakeRefused, Malformed, OSError."""
        tls = self.tls(who)
        reader, writer = await asyncio.open_connection(*address, ssl=tls.made if tls else None)
        try:
            await frames.introduce(reader, writer, hello)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def instance(self, name: str) -> str:
        """Return the id of a node's process, which it gives to everybody who is welcome."""
        tls = self.tls("client")
        reader, writer = await asyncio.open_connection(*self.nodes[name], ssl=tls.made if tls else None)
        try:
            return (await frames.introduce(reader, writer, self.hello())).instance
        finally:
            writer.close()

    def hello(self, purpose: str = CLIENT, sender: str = "", to: str = "", address: str = "") -> Hello:
        return Hello(FIRST, ANY_MACHINE, purpose, self.cluster, sender, to, Ulids().new_id(), address)

    async def client(self, sender: str = "") -> Streams:
        return await self.dialled(self.node()[1], self.hello(sender=sender), "client")

    # --- actors: each of them does one thing once

    async def flood(self) -> None:
        """Open many connections that say nothing, or begin a handshake, and hold them."""
        address, held = self.random.choice(self.ports), list[asyncio.StreamWriter]()
        begin = self.random.choice((b"", b"\x16\x03\x01", b"\0\0\0\x09hwfr", b"GET / HTTP/1.1\r\n", PREFACE))
        try:
            for _ in range(FLOOD):
                _, writer = await asyncio.open_connection(*address)
                writer.write(begin)
                held.append(writer)
            await asyncio.sleep(self.random.uniform(0, 3))
        finally:
            for writer in held:
                writer.transport.abort()

    async def many_clients(self) -> None:
        """Open many connections of clients, and hold them."""
        held = list[asyncio.StreamWriter]()
        try:
            for _ in range(30):
                held.append((await self.client())[1])
            await asyncio.sleep(self.random.uniform(0, 3))
        finally:
            for writer in held:
                writer.transport.abort()

    async def does_not_read(self) -> None:
        """Ask for a large value again and again, and do not read the answers."""
        _, writer = await self.client()
        try:
            transport: Any = writer.transport
            transport.pause_reading()
            large = json.dumps({"do": "write", "key": "large", "value": "x" * 300_000}).encode()
            writer.write(framed(calls.request_to(0, calls.PROPOSE, large)))
            for number in range(300):
                writer.write(framed(calls.request_to(number, calls.QUERY, b'{"get": "large"}')))
            await asyncio.sleep(self.random.uniform(1, 5))
        finally:
            writer.transport.abort()

    async def drips(self) -> None:
        """Announce a large frame, and send a byte of it now and then."""
        _, writer = await self.client()
        try:
            writer.write(frames.LENGTH.pack(self.random.choice((8 << 20, 1 << 20, 100))))
            for _ in range(10):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.2)
        finally:
            writer.transport.abort()

    async def huge(self) -> None:
        """Send requests at the bounds of frames and entries, and beyond; and such as a machine may not expect."""
        reader, writer = await self.client()
        try:
            kind, body = self.random.choice((
                (calls.QUERY, b"x" * (7 << 20)), (calls.PROPOSE, b"x" * ((1 << 20) + 1)),
                (calls.PROPOSE, DEEP), (calls.QUERY, DEEP),
                (calls.PROPOSE, json.dumps({"do": "write", "key": "large", "value": "y" * 900_000}).encode()),
                (calls.QUERY, b"x" * (9 << 20)), (calls.PROPOSE, b"")))
            writer.write(framed(calls.request_to(1, kind, body)))
            await writer.drain()
            await frames.read_frame(reader, 16 << 20)
        finally:
            writer.transport.abort()

    async def wrong_role(self) -> None:
        """Ask for what the certificate does not allow, or with a certificate of another authority."""
        who, sender, purpose = self.random.choice((("client", OPERATOR, CLIENT), ("client", "", CLIENT), ("ghost", "", CLIENT),
                                                   ("foreign", "", CLIENT), ("client", "1", PEER), ("foreign", "ghost", PEER)))
        name, address = self.node()
        _, writer = await self.dialled(address, self.hello(purpose, sender, name, "127.0.0.1:9"), who)
        try:
            for kind, body in ((calls.TRANSFER, b"\xff\xfe"), (calls.TRANSFER, b"1"), (calls.CHANGE, b"\0\6remove\0\0011\0\0")):
                writer.write(framed(calls.request_to(1, kind, body)))
            await writer.drain()
            await asyncio.sleep(0.1)
        finally:
            writer.transport.abort()

    async def fake_peer(self) -> None:
        """Be a peer that is no member, and send far terms."""
        name, address = self.node()
        place = f"127.0.0.1:{self.random.randrange(1, 1024)}"
        await self.send_far(await self.dialled(address, self.hello(PEER, "ghost", name, place), "ghost"))

    async def stolen(self) -> None:
        """Be a member beside the real one, and send far terms."""
        name, address = self.random.choice([one for one in self.nodes.items() if one[0] != MEMBER])
        hello = self.hello(PEER, MEMBER, name, str(self.nodes[MEMBER]))
        if self.takes_clients:
            hello = hello._replace(instance=await self.instance(MEMBER))
        await self.send_far(await self.dialled(address, hello, "member"))

    async def any_name(self) -> None:
        """Be a peer of any name, with the certificate of a client."""
        name, address = self.node()
        hello = self.hello(PEER, f"nobody{self.random.randrange(1_000)}", name, "127.0.0.1:9")
        await self.send_far(await self.dialled(address, hello, "client"))

    async def send_far(self, streams: Streams) -> None:
        _, writer = streams
        try:
            for _ in range(5):
                for message in far_messages(self.random):
                    writer.write(framed(message))
                await writer.drain()
                await asyncio.sleep(0.05)
        finally:
            writer.transport.abort()

    def actors(self) -> dict[Actor, float]:
        """Return each actor, and its longest pause in seconds."""
        peers: dict[Actor, float] = {self.flood: 1.0, self.wrong_role: 0.5, self.fake_peer: 0.3, self.stolen: 0.5,
                                     self.any_name: 0.5}
        if not self.takes_clients:
            return peers
        return {**peers, self.many_clients: 3.0, self.does_not_read: 3.0, self.drips: 2.0, self.huge: 2.0}

    # --- the whole

    async def again(self, actor: Actor, pause_s: float) -> None:
        """Let an actor work again and again. What the nodes do to it is counted."""
        name = actor.__name__
        while True:
            try:
                async with asyncio.timeout(20):
                    await actor()
                self.counts[name] += 1
            except (StoreError, OSError, EOFError, ssl.SSLError) as error:
                self.counts[f"{name}: {type(error).__name__}"] += 1
            await asyncio.sleep(self.random.uniform(0, pause_s))

    async def run(self) -> None:
        """Work until standard input ends."""
        tasks = [asyncio.ensure_future(self.again(*one)) for one in self.actors().items() for _ in range(COPIES)]
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        ended = asyncio.ensure_future(reader.read())
        done, _ = await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done - {ended}:
            task.result()  # an actor has a bug
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        print(json.dumps(self.counts))


class Process:
    """A process of hostile clients."""

    def __init__(self, module: str, **wanted: Any):
        self.words = [sys.executable, "-m", module, json.dumps({"parent": os.getpid(), **wanted})]
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(*self.words, cwd=Path(__file__).resolve().parents[2],
                                                            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)

    async def stop(self) -> Counter[str]:
        """End it, and return what it did. Fails if it had failed itself."""
        printed, _ = await self.process.communicate(b"")
        assert self.process.returncode == 0
        return Counter(json.loads(printed))


def main(kind: type[Hostile] = Hostile) -> None:
    wanted = json.loads(sys.argv[1])
    die_with(wanted["parent"])
    asyncio.run(kind(wanted).run())


if __name__ == "__main__":
    main()
