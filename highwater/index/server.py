"""Safety: a program that is told that its block was added finds it at every node, whichever it asks.

One process of an index: a node of Raft in a folder, alone or in a cluster, and the API on one address.
"""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from highwater.cluster import server as replicas
from highwater.cluster import status
from highwater.cluster.levels import raising
from highwater.cluster.metrics import CONNECTIONS as METRICS_CONNECTIONS
from highwater.cluster.metrics import serving_metrics
from highwater.cluster.service import Service as Replicated
from highwater.impl.errors import TaskCancelled
from highwater.impl.index.config import Config, checked
from highwater.impl.index.letters import sweeper
from highwater.impl.index.library import Budget, Index, bounds_of
from highwater.impl.index.query.columns import CACHED_DATASETS
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.replicated import machine
from highwater.impl.index.retention import Cleaner, Policy
from highwater.impl.index.service.codes import DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, code_of
from highwater.impl.index.service.limits import Limits
from highwater.impl.index.service.service import METHODS, Reply, Service
from highwater.impl.node_world import NodeWorld
from highwater.impl.raft import owned
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.node import Node, Options
from highwater.impl.raft.state import LEADER
from highwater.impl.stores.certificates import Files, check_encrypted, loaded
from highwater.impl.stores.connections import OTHER_FILES, check_open_files
from highwater.impl.stores.folder_disk import FolderDisk
from highwater.impl.stores.front import Bounds
from highwater.impl.stores.grpc_calls import Asked, serving
from highwater.impl.stores.in_flight import InFlight
from highwater.impl.stores.node_system import LocalNet, SystemSignals
from highwater.impl.stores.roles import Roles
from highwater.impl.stores.stream_net import Address
from highwater.impl.stores.stream_net import Limits as NetLimits
from highwater.impl.stores.system import Counters, SystemClock, Ulids
from highwater.impl.world import ObjectStore, Task, World
from highwater.index.operator import Operator, role_of

log = logging.getLogger("highwater")
Result = TypeVar("Result")
API = Address("127.0.0.1", 4040)
BUCKET_FILES = 64  # connections and files of the client of an object store
PEERS_ONLY = NetLimits(waiting=64, clients=16, clients_of_address=16)  # operators come to this port, too


class Settings(NamedTuple):
    """The settings of one process of an index. `peers`: where the nodes of a cluster dial each other; none: it is alone.

    `apis`: where the nodes serve their clients, for those who ask a node that does not lead.
    """

    folder: str
    node: str = "1"
    peers: Mapping[str, Address] = {}
    api: Address = API
    apis: Mapping[str, Address] = {}
    cluster: str = "main"
    config: Config = Config()
    limits: Limits = Limits()
    semantics: str = COMPAT
    cached_datasets: int = CACHED_DATASETS
    files: Files | None = None  # certificates, for the API and between nodes
    insecure: bool = False
    metrics_port: int | None = None
    options: Options = replicas.OPTIONS
    bucket: ObjectStore | None = None  # the objects, for what the leader does there; None: it does nothing
    letters: sweeper.Options = sweeper.USUAL
    retention: Policy | None = None  # None: nothing is dropped
    clean_ms: int = 60_000  # between two runs of retention
    roles_required: bool = False  # in the certificates of all who connect
    bounds: Bounds = Bounds()  # of connections to the API


class Server:
    """One running process of an index. `port`: of the API."""

    def __init__(self, settings: Settings, node: Node, counters: Counters):
        self.settings, self.node, self.counters, self.port = settings, node, counters, 0
        self.reads, self.waiting = asyncio.Semaphore(settings.limits.reads), 0  # reads that are worked on, and those that wait
        self.queries = ThreadPoolExecutor(1, "queries")  # one thread: the steps of queries share a cache
        limits = settings.limits
        self.index = Index(node, node.world, settings.config, settings.cached_datasets, limits.answer_bytes,
                           Budget(limits.query_ms, limits.query_rows, limits.query_bytes, limits.matchers), self.apart,
                           bounds_of(settings.options))
        self.service = Service(self.index, settings.limits, settings.semantics)
        self.operator = Operator(node, settings.cluster, self.service)
        self.duties: list[Task[None]] = []  # what the leader does beside answering

    async def apart(self, step: Callable[[], Result]) -> Result:
        """Call a step of a query in the thread of queries. The steps of several queries take turns."""
        return await asyncio.get_running_loop().run_in_executor(self.queries, step)

    async def answer(self, path: str, body: bytes, stale: bool) -> Reply:
        """Answer a call, with the address of the node to ask instead if there is one."""
        reply = await self.operator.call(path, body) or await self.in_turn(path, body, stale)
        if reply.leader in self.settings.apis:
            return reply._replace(leader=f"{reply.leader}={self.settings.apis[reply.leader]}")
        return reply

    async def in_turn(self, path: str, body: bytes, stale: bool) -> Reply:
        """Answer a call of a program; a read once it is among those that are worked on."""
        if path not in METHODS or not METHODS[path].reads:
            return await self.service.call(path, body, stale)
        limits = self.settings.limits
        if self.waiting >= limits.calls:
            return Reply(RESOURCE_EXHAUSTED, f"{limits.calls:,} reads wait at this node: repeat it later")
        self.waiting += 1
        try:
            async with asyncio.timeout(limits.query_ms / 1e3):
                await self.reads.acquire()
        except TimeoutError:
            return Reply(DEADLINE_EXCEEDED, f"the read had no turn within {limits.query_ms:,} ms: repeat it later")
        finally:
            self.waiting -= 1
        try:
            return await self.service.call(path, body, stale)
        finally:
            self.reads.release()

    def page(self) -> str:
        """Return the metrics, as text for Prometheus."""
        return self.operator.metrics(self.counters)

    def leads(self) -> bool:
        """Return whether this node leads, as far as it knows."""
        return self.node.state.role == LEADER

    def begin_duties(self) -> None:
        """Begin what whoever leads does: retention, if there are periods, and what is to do in the bucket, if there is one."""
        if self.settings.retention is not None:
            cleaner = Cleaner(self.index, self.leads, self.settings.retention, self.settings.clean_ms, log.info)
            self.duties.append(self.node.world.clock.spawn(cleaner.run(), "cleaner"))
        if self.settings.bucket:
            of = self.node.world
            world = World(self.settings.bucket, of.clock, of.ids, self.counters)
            sweeps = sweeper.Sweeper(world, self.service.add, self.leads, self.settings.letters)
            self.duties.append(world.clock.spawn(sweeps.run(), "sweeper"))

    async def end_duties(self) -> None:
        for task in self.duties:
            task.cancel()
        for task in self.duties:
            try:
                await task
            except TaskCancelled:
                pass

    async def ended(self) -> str:
        """Return why the node stopped, once it has. Raises what a task of it raised."""
        await self.node.world.clock.first(keeper=self.kept(), **{f"duty{n}": awaited(of) for n, of in enumerate(self.duties)})
        return self.node.stopped

    async def kept(self) -> None:
        assert self.node.keeper is not None
        try:
            await self.node.keeper
        except TaskCancelled:
            pass  # of `close`


async def awaited(task: Task[None]) -> None:
    await task


@asynccontextmanager
async def running(settings: Settings) -> AsyncGenerator[Server]:
    """Give one running process of an index, and close it at the end of the context.

    Raises ConfigRefused, DiskLocked, OtherNode, OtherSettings, Damaged, OtherVersion, AddressInUse, NotEncrypted,
    BadCertificate, DiskFull, DiskFailed.
    """
    checked(settings.config)
    check_encrypted(settings.api.host, loaded(settings.files) if settings.files else None, settings.insecure)
    async with joined(settings) if settings.peers else alone(settings) as (node, counters):
        server = Server(settings, node, counters)
        roles = Roles(settings.cluster, settings.roles_required) if settings.files else None
        asked = Asked(server.answer, server.operator.streams(), code_of, roles, role_of)
        held = InFlight(settings.limits.connection_bytes, settings.limits.all_bytes)
        async with serving_metrics(settings.metrics_port, server.page), serving(
                settings.api, asked, settings.files, settings.insecure, settings.limits.request_bytes,
                settings.bounds, counters, held) as server.port:
            try:
                server.begin_duties()
                yield server
            finally:
                await server.end_duties()
                server.queries.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def joined(settings: Settings) -> AsyncGenerator[tuple[Node, Counters]]:
    """Give an open node of a cluster."""
    replicated = Replicated(machine(settings.config), no_query)
    tls = loaded(settings.files) if settings.files else None
    of = replicas.Settings(settings.folder, settings.node, settings.peers, replicated, settings.cluster, tls=tls,
                          insecure=settings.insecure, options=settings.options, takes_clients=False,
                          roles_required=settings.roles_required, other_files=files(settings),
                          limits=PEERS_ONLY)
    async with replicas.running(of) as server:
        yield server.node, server.counters


@asynccontextmanager
async def alone(settings: Settings) -> AsyncGenerator[tuple[Node, Counters]]:
    """Give an open node without others, and without a socket. Raises TooFewFiles."""
    replicas.check_roles(settings.roles_required, settings.files is not None)
    check_open_files(OTHER_FILES + METRICS_CONNECTIONS + files(settings))
    counters, folder = Counters(), FolderDisk(settings.folder)
    disk = status.timed(folder, counters, time.perf_counter)
    replicated = machine(settings.config)
    mine = FolderIdentity(settings.cluster, settings.node, (settings.node,), replicated.settings)
    world = NodeWorld(disk, LocalNet(settings.node, {}), SystemClock(), SystemSignals(), Ulids(), counters)
    try:
        node = await owned.opened(world, mine, replicated, settings.options)
        try:
            async with raising(node, lambda peer: None):  # it has no peers
                yield node, counters
        finally:
            await node.close()
    finally:
        await folder.close()


def files(settings: Settings) -> int:
    """Return how many files the API and the bucket may have open."""
    return settings.bounds.files() + (BUCKET_FILES if settings.bucket else 0)


def no_query(state: object, body: bytes) -> bytes:
    return b""  # clients are refused before it is asked


async def serve(settings: Settings) -> str:
    """Run a process of an index until SIGTERM or SIGINT. Return why its node stopped, if it did so by itself; "" otherwise.

    Raises what `running` raises.
    """
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    async with running(settings) as server:
        log.info("node %r of index %r serves its API at %s", settings.node, settings.cluster,
                 settings.api._replace(port=server.port))
        ended, asking = asyncio.ensure_future(server.ended()), asyncio.ensure_future(asked.wait())
        await asyncio.wait((ended, asking), return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        if ended.done():
            return ended.result()
        ended.cancel()
        return ""
