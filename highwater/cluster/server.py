"""Safety: a client that is told of a commit finds it in every later read, on any node.

One process of a cluster: a node of Raft in a folder, its connections to the other nodes, and the requests of clients.
"""

import asyncio
import json
import logging
import signal
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from highwater.cluster import calls, status
from highwater.cluster.calls import CHANGE, PROPOSE, QUERY, STATUS, TRANSFER, BadRequest, NoAnswerInTime
from highwater.cluster.levels import raising
from highwater.cluster.members import following_members
from highwater.cluster.metrics import serving_metrics
from highwater.cluster.service import Service
from highwater.impl.errors import StoreError, TaskCancelled, TimedOut
from highwater.impl.level import Level
from highwater.impl.node_world import Disk, NodeWorld
from highwater.impl.raft import core, owned
from highwater.impl.raft.faults import QueueFull
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import LEARN, PROMOTE, REMOVE, Config
from highwater.impl.stores.certificates import Tls, check_encrypted
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.frames import Malformed, framed, read_frame, texts_of
from highwater.impl.stores.node_system import SystemSignals
from highwater.impl.stores.stream_net import USUAL as USUAL_LIMITS
from highwater.impl.stores.stream_net import Address, Identity, Limits, StreamNet
from highwater.impl.stores.system import Counters, SystemClock, Ulids

log = logging.getLogger("highwater")
REQUESTS = 1_000  # of one connection, at a time
LIMIT_MS = 30_000  # for the answer to a request
# A frame holds an Append with any bodies, each with its head: entries of one byte take 14 times as many.
OPTIONS = Options(Config(max_append_bytes=256 << 10))


class Settings(NamedTuple):
    """The settings of one process of a cluster. `nodes`: the names of all of them, and where they are dialled."""

    folder: str
    node: str
    nodes: Mapping[str, Address]
    service: Service
    cluster: str = "main"
    listen: Address | None = None  # None: where the others dial it
    tls: Tls | None = None
    insecure: bool = False
    metrics_port: int | None = None  # None: none; of the loopback address
    join: bool = False  # it begins as no member, and waits until an operator lets it join
    options: Options = OPTIONS
    limits: Limits = USUAL_LIMITS
    takes_clients: bool = True  # over the frames; an index has an API of its own


class Server:
    """One running process of a cluster."""

    def __init__(self, settings: Settings, node: Node, net: StreamNet, counters: Counters):
        self.settings, self.node, self.net, self.counters = settings, node, net, counters
        self.clock = node.world.clock
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # a bug of the machine, as it was raised

    def status(self) -> dict:
        return status.of(self.node, self.net)

    async def ended(self) -> str:
        """Return why the node stopped, once it has. Raises what the machine raised, if it did."""
        kept = asyncio.ensure_future(self._kept())
        try:
            await asyncio.wait((kept, self.failed), return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                self.failed.result()
            kept.result()
            return self.node.stopped
        finally:
            kept.cancel()

    async def _kept(self) -> None:
        assert self.node.keeper is not None
        try:
            await self.node.keeper
        except TaskCancelled:
            pass  # of `close`

    # --- clients

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection until it ends."""
        working: set[asyncio.Task[None]] = set()
        try:
            while (frame := await read_frame(reader, self.settings.limits.frame_bytes)) is not None:
                number, kind, body = calls.request_of(frame)
                if len(working) >= REQUESTS:
                    full = QueueFull(f"{REQUESTS:,} requests of this connection are under way: wait for their answers")
                    await self._reply(writer, number, full)
                    continue
                task = asyncio.create_task(self._answer(writer, number, kind, body))
                working.add(task)
                task.add_done_callback(working.discard)
        finally:
            for task in list(working):
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    async def _answer(self, writer: asyncio.StreamWriter, number: int, kind: int, body: bytes) -> None:
        try:
            result: bytes | StoreError = await self.clock.timeout(LIMIT_MS, self._result(kind, body))
        except TimedOut:
            result = NoAnswerInTime(f"node {self.node.state.me!r} had no answer within {LIMIT_MS // 1000} s")
        except StoreError as error:
            result = error
        except Exception as error:
            if not self.failed.done():
                self.failed.set_exception(error)
            return
        await self._reply(writer, number, result)

    async def _reply(self, writer: asyncio.StreamWriter, number: int, result: bytes | StoreError) -> None:
        try:
            writer.write(framed(calls.answer_to(number, result, self.node.state.me)))
            await writer.drain()
        except OSError:
            pass  # the client is gone

    async def _result(self, kind: int, body: bytes) -> bytes:
        if kind in (PROPOSE, QUERY) and not self.settings.takes_clients:
            raise BadRequest("this cluster has an API of its own, and takes no entry or query here")
        if kind == PROPOSE:
            if not body:
                raise BadRequest("an entry without a byte: there is nothing to replicate")
            return (await self.node.propose(body)).result
        if kind == QUERY:
            return self.settings.service.query(await self.node.read(), body)
        if kind == TRANSFER:
            await self.node.transfer(body.decode())
            return b""
        if kind == CHANGE:
            return str((await self.node.change(*change_of(body))).index).encode()
        assert kind == STATUS
        return json.dumps(self.status()).encode()


def change_of(body: bytes) -> tuple[str, str, str]:
    """Return what is to be done with which member, and where it is dialled. Raises BadRequest."""
    try:
        what, name, address = texts_of(body, 3)
    except Malformed as error:
        raise BadRequest(str(error)) from None
    if what not in (LEARN, PROMOTE, REMOVE) or not name or (what == LEARN) != (Address.of(address) is not None):
        raise BadRequest(f"{what!r} of {name!r} at {address!r} is no change of the members")
    return what, name, address


def known_by(settings: Settings) -> Level:
    """Return the highest level that a node with these settings knows."""
    return Level(settings.options.forms, settings.service.machine.level)


@asynccontextmanager
async def running(settings: Settings, disk: Disk | None = None, step: core.Step = core.step) -> AsyncGenerator[Server]:
    """Give one running process of a cluster, and close it at the end of the context.

    `disk` takes the place of that of the folder. Raises DiskLocked, OtherNode, OtherSettings, Damaged, OtherVersion,
    AddressInUse, NotEncrypted, DiskFull, DiskFailed; then nothing in the folder was changed, except that a new one may have
    its identity.
    """
    if settings.node not in settings.nodes:
        raise BadRequest(f"node {settings.node!r} is none of the nodes {', '.join(settings.nodes)}")
    listen = settings.listen or settings.nodes[settings.node]
    check_encrypted(listen.host, settings.tls, settings.insecure)
    counters = Counters()
    folder = FolderDisk(settings.folder)
    timed = status.timed(disk or folder, counters, time.perf_counter)
    of_machine = settings.service.machine.settings
    voters = () if settings.join else tuple(sorted(settings.nodes))
    mine = FolderIdentity(settings.cluster, settings.node, voters, of_machine)
    others = {name: address for name, address in settings.nodes.items() if name != settings.node}
    net = StreamNet(Identity(settings.cluster, settings.node, known_by(settings), Ulids().new_id(),
                             str(settings.nodes[settings.node]), of_machine), others, counters, settings.tls, settings.limits)
    world = NodeWorld(timed, net, SystemClock(), SystemSignals(), Ulids(), counters)
    node = None
    try:
        node = await owned.opened(world, mine, settings.service.machine, settings.options,
                                     following_members(status.logging_roles(step), net))
        server = Server(settings, node, net, counters)
        net.serve, net.level = server.serve, lambda: node.level
        await net.start(listen, settings.insecure)
        async with serving_metrics(settings.metrics_port, lambda: status.prometheus(server.status(), counters)), \
                raising(node, net.known_of):
            yield server
    finally:
        await net.close()
        try:
            if node is not None:
                await node.close()
        finally:
            await folder.close()


async def serve(settings: Settings, disk: Disk | None = None) -> str:
    """Run a process of a cluster until SIGTERM or SIGINT. Return why its node stopped, if it did so by itself; "" otherwise.

    Raises what `running` raises, and what the machine raised.
    """
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    async with running(settings, disk) as server:
        log.info("node %r of cluster %r serves %s, and knows levels up to %s", settings.node, settings.cluster,
                 settings.listen or settings.nodes[settings.node], known_by(settings))
        ended, asking = asyncio.ensure_future(server.ended()), asyncio.ensure_future(asked.wait())
        await asyncio.wait((ended, asking), return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        if ended.done():
            return ended.result()
        ended.cancel()
        return ""
