"""Safety: a client that is told of a commit finds it in every later read, on any node.

One process of a cluster: a node of Raft in a folder, its connections to the other nodes, and the requests of clients.
"""

import asyncio
import json
import logging
import signal
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from highwater.cluster import calls, status
from highwater.cluster.calls import CHANGE, PROPOSE, QUERY, STATUS, TRANSFER, BadRequest, NoAnswerInTime
from highwater.cluster.levels import raising
from highwater.cluster.members import following_members
from highwater.cluster.metrics import CONNECTIONS as METRICS_CONNECTIONS
from highwater.cluster.metrics import serving_metrics
from highwater.cluster.service import Service
from highwater.impl.errors import Definite, Indefinite, StoreError, TaskCancelled, TimedOut
from highwater.impl.level import Level
from highwater.impl.node_world import Disk, NodeWorld
from highwater.impl.raft import core, owned
from highwater.impl.raft.faults import CommandRefused, QueueFull
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.machine import named
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import LEARN, PROMOTE, REMOVE, Config
from highwater.impl.stores.certificates import Tls, check_encrypted
from highwater.impl.stores.connections import Connection, check_open_files
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.frames import Malformed, framed, read_frame, texts_of
from highwater.impl.stores.in_flight import InFlight
from highwater.impl.stores.keys import escaped
from highwater.impl.stores.node_system import SystemSignals
from highwater.impl.stores.stream_net import USUAL as USUAL_LIMITS
from highwater.impl.stores.stream_net import Address, Caller, Identity, Limits, StreamNet
from highwater.impl.stores.system import Counters, SystemClock, Ulids, with_frames

log = logging.getLogger("highwater")
REQUESTS = 1_000  # of one connection, at a time
WORKING = 256  # requests of clients that the node works on at a time: the cost of each grows with the number of the others
LIMIT_MS = 30_000  # for the answer to a request
ROOM_S = 0.02  # between two looks for room
# A frame holds an Append with any bodies, each with its head: entries of one byte take 14 times as many.
OPTIONS = Options(Config(max_append_bytes=256 << 10))


class RolesWithoutCertificates(Definite):
    """Roles are required, and there are no certificates that could have them."""


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
    roles_required: bool = False  # in the certificates of all who connect
    other_files: int = 0  # that the process may have open, beside those of the node


class Reader(NamedTuple):
    """The reader of the answers of one connection. `turn`: of the answer that is written."""

    writer: asyncio.StreamWriter
    turn: asyncio.Lock


class Server:
    """One running process of a cluster."""

    def __init__(self, settings: Settings, node: Node, net: StreamNet, counters: Counters):
        self.settings, self.node, self.net, self.counters = settings, node, net, counters
        self.clock = node.world.clock
        self.held = InFlight(settings.limits.client_bytes, settings.limits.all_clients_bytes)
        self.turns = asyncio.Semaphore(WORKING)  # connections get them in turn, one for each request

    def status(self) -> dict:
        return status.of(self.node, self.net)

    async def ended(self) -> str:
        """Return why the node stopped, once it has. Raises what a task of it raised."""
        assert self.node.keeper is not None
        try:
            await self.node.keeper
        except TaskCancelled:
            pass  # of `close`
        return self.node.stopped

    # --- clients

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller) -> None:
        """Answer the requests of one connection until it ends. It is not read while requests and answers under way have too
        many bytes, and it is closed if that lasts. Raises Malformed, OSError."""
        working: set[asyncio.Task[None]] = set()
        to = Reader(writer, asyncio.Lock())

        async def room(size_bytes: int) -> None:
            until_s = time.monotonic() + self.settings.limits.send_s
            while why := self.held.refusal(writer, size_bytes):
                if time.monotonic() > until_s:
                    raise Malformed(why)
                await asyncio.sleep(ROOM_S)
            reserved.append(size_bytes)

        reserved: list[int] = []  # of the frame that is read now
        try:
            while (frame := await read_frame(reader, self.settings.limits.frame_bytes, room)) is not None:
                caller.connection.touch()
                number, kind, body = calls.request_of(frame)
                if caller.no_operator and kind not in (PROPOSE, QUERY):
                    refused = BadRequest(f"this request is one of operators: {caller.no_operator}")
                    await self._send(to, self._framed(to, number, refused))
                    self.held.give_back(writer, reserved.pop())
                    continue
                if len(working) >= REQUESTS:
                    full = QueueFull(f"{REQUESTS:,} requests of this connection are under way: wait for their answers")
                    await self._send(to, self._framed(to, number, full))
                    self.held.give_back(writer, reserved.pop())
                    continue
                turn = ExitStack()  # closed once there is a result, or the task has ended without one
                if kind in (PROPOSE, QUERY):
                    await self.turns.acquire()
                    turn.callback(self.turns.release)
                task = asyncio.create_task(self._answer(to, number, kind, body, caller.connection, turn))
                task.add_done_callback(partial(self._end_turn, turn))
                working.add(task)
                task.add_done_callback(working.discard)
                task.add_done_callback(partial(self._over, writer, reserved.pop()))
        finally:
            self.held.give_back(writer, sum(reserved))
            for task in list(working):
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    def _end_turn(self, turn: ExitStack, _: object) -> None:
        turn.close()

    def _over(self, writer: asyncio.StreamWriter, size_bytes: int, _: object) -> None:
        self.held.give_back(writer, size_bytes)

    async def _answer(self, to: Reader, number: int, kind: int, body: bytes, connection: Connection, turn: ExitStack) -> None:
        connection.busy += 1
        try:
            result: bytes | StoreError = await self.clock.timeout(LIMIT_MS, self._result(kind, body))
        except TimedOut:
            result = NoAnswerInTime(f"node {self.node.state.me!r} had no answer within {LIMIT_MS // 1000} s")
        except StoreError as error:
            result = error
        except Exception as error:  # a bug must not end the node, or the other replicas with it
            self.counters.count("raft_failed_requests")
            log.error("node %r: a request of kind %d failed: %s", self.node.state.me, kind, with_frames(error))
            result = Indefinite(f"node {self.node.state.me!r} failed at the request: {named(error)}")
        finally:
            connection.busy -= 1
            connection.touch()
            turn.close()
        answer = self._framed(to, number, result)
        del result  # so that it does not stay beside the answer while the client does not read
        await self._send(to, answer)

    def _framed(self, to: Reader, number: int, result: bytes | StoreError) -> bytes:
        """Return the frame of an answer, whose bytes are held until it is sent; b"" if the connection is cut. An answer for
        which there is no room is an error: what the request has done stays done."""
        answer = framed(calls.answer_to(number, result, self.node.state.me))
        if why := self.held.refusal(to.writer, len(answer)):
            unsent = NoAnswerInTime(f"the answer has {len(answer):,} bytes, and {why}")
            answer = framed(calls.answer_to(number, unsent, self.node.state.me))
            if self.held.refusal(to.writer, len(answer)):
                to.writer.transport.abort()
                return b""
        return answer

    async def _send(self, to: Reader, answer: bytes) -> None:
        """Send an answer, and close the connection of a client that does not read. The answers of a connection are written one
        after the other: TLS keeps a copy of all that was written, and takes twice that for a moment when it grows."""
        try:
            async with asyncio.timeout(self.settings.limits.send_s), to.turn:
                if not to.writer.is_closing():  # asyncio logs a line for each write after the client is gone
                    to.writer.write(answer)
                    await to.writer.drain()
        except TimeoutError:
            self.counters.count("net_unread_connections")
            to.writer.transport.abort()
        except OSError:
            pass  # the client is gone
        finally:
            self.held.give_back(to.writer, len(answer))

    async def _result(self, kind: int, body: bytes) -> bytes:
        if kind in (PROPOSE, QUERY) and not self.settings.takes_clients:
            raise BadRequest("this cluster has an API of its own, and takes no entry or query here")
        if kind == PROPOSE:
            if not body:
                raise BadRequest("an entry without a byte: there is nothing to replicate")
            try:
                return (await self.node.propose(body)).result
            except CommandRefused as error:
                raise BadRequest(str(error)) from None
        if kind == QUERY:
            return self._queried(await self.node.read(), body)
        if kind == TRANSFER:
            await self.node.transfer(name_of(body))
            return b""
        if kind == CHANGE:
            return str((await self.node.change(*change_of(body))).index).encode()
        assert kind == STATUS
        return json.dumps(self.status()).encode()

    def _queried(self, state: Any, body: bytes) -> bytes:
        try:
            return self.settings.service.query(state, body)
        except Exception as error:
            log.warning("node %r: a query of %d bytes failed: %s", self.node.state.me, len(body), escaped(named(error)))
            log.debug("%s", with_frames(error))
            raise BadRequest(f"node {self.node.state.me!r}: the query failed: {named(error)}") from None


def name_of(body: bytes) -> str:
    """Return the node that a request names. Raises BadRequest."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the name of a node is not UTF-8: {error}") from None


def change_of(body: bytes) -> tuple[str, str, str]:
    """Return what is to be done with which member, and where it is dialled. Raises BadRequest."""
    try:
        what, name, address = texts_of(body, 3)
    except Malformed as error:
        raise BadRequest(str(error)) from None
    if what not in (LEARN, PROMOTE, REMOVE) or not name or (what == LEARN) != (Address.of(address) is not None):
        raise BadRequest(f"{what!r} of {name!r} at {address!r} is no change of the members")
    return what, name, address


def check_roles(required: bool, has_certificates: bool) -> None:
    """Raises RolesWithoutCertificates."""
    if required and not has_certificates:
        raise RolesWithoutCertificates("--roles required: roles are in certificates, and there are none: give --tls-ca, "
                                       "--tls-cert and --tls-key")


def known_by(settings: Settings) -> Level:
    """Return the highest level that a node with these settings knows."""
    return Level(settings.options.forms, settings.service.machine.level)


@asynccontextmanager
async def running(settings: Settings, disk: Disk | None = None, step: core.Step = core.step) -> AsyncGenerator[Server]:
    """Give one running process of a cluster, and close it at the end of the context.

    `disk` takes the place of that of the folder. Raises DiskLocked, OtherNode, OtherSettings, Damaged, OtherVersion,
    AddressInUse, NotEncrypted, RolesWithoutCertificates, TooFewFiles, DiskFull, DiskFailed; then nothing in the folder was
    changed, except that a new one may have its identity.
    """
    if settings.node not in settings.nodes:
        raise BadRequest(f"node {settings.node!r} is none of the nodes {', '.join(settings.nodes)}")
    listen = settings.listen or settings.nodes[settings.node]
    check_encrypted(listen.host, settings.tls, settings.insecure)
    check_roles(settings.roles_required, settings.tls is not None)
    check_open_files(settings.limits.files(len(settings.nodes)) + METRICS_CONNECTIONS + settings.other_files)
    counters = Counters()
    folder = FolderDisk(settings.folder)
    timed = status.timed(disk or folder, counters, time.perf_counter)
    of_machine = settings.service.machine.settings
    voters = () if settings.join else tuple(sorted(settings.nodes))
    mine = FolderIdentity(settings.cluster, settings.node, voters, of_machine)
    others = {name: address for name, address in settings.nodes.items() if name != settings.node}
    net = StreamNet(Identity(settings.cluster, settings.node, known_by(settings), Ulids().new_id(),
                             str(settings.nodes[settings.node]), of_machine), others, counters, settings.tls, settings.limits,
                    roles_required=settings.roles_required)
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

    Raises what `running` raises.
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
