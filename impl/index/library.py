"""Safety: `add` returns once the block is in the index on a majority, and a read that begins then sees it, on any node.

The metadata index as a library. By default it is one process with one voter, and no sockets:

    async with Index.open(world) as index:
        await index.add(block)
        blocks = await index.get(tenant="", shard=7, ulids=[block.id])
        found = await index.query(QueryRequest(tenant_id=["a"], start_time=1, end_time=2, query='{service_name="api"}'))
        answer = await index.poll(request)

`world` has the disk of a folder, or one in memory (impl/stores). A call that raises a Definite error has had no effect. After
an Indefinite one the block may be added, or may be later: add it again, which changes nothing if it was.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from highwater.impl.codecs.index.messages import (
    SUCCESS,
    AddBlock,
    GetPlan,
    PollResponse,
    StatusUpdate,
    TombstoneKey,
    UpdatePlan,
)
from highwater.impl.errors import Definite
from highwater.impl.index import tombstones, units
from highwater.impl.index.answers import ABORTED, INVALID, OK, PRECONDITION
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows
from highwater.impl.index.query import answers
from highwater.impl.index.query.columns import CACHED_DATASETS, Cache
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.query.request import InvalidQuery, Query, query_of, unnamed
from highwater.impl.index.replicated import Result, machine, stamped, unreadable
from highwater.impl.index.validate import invalid_block, invalid_tenant
from highwater.impl.node_world import Disk, DiskLocked, NodeWorld, Signal
from highwater.impl.raft import owned
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.node import USUAL, Node, Options

NS_PER_MS = 1_000_000
MOST_ANSWER_BYTES = 16 << 20
OPEN: set[Disk] = set()  # the disks of open indexes: a disk's lock keeps out other processes only


class InvalidArgument(Definite):
    """The request is refused for a reason that the message names. Nothing has changed."""


class TooLate(Definite):
    """The block is older than the horizon, or retention has dropped its unit. It is never added; keep it aside."""


class PollAgain(Definite):
    """The leader has changed since a poll or a command was begun. Nothing was assigned, ended or dropped; begin again."""


class Index:
    """An open index on one node."""

    def __init__(self, node: Node, world: NodeWorld, config: Config, cached_datasets: int = CACHED_DATASETS,
                 most_answer_bytes: int = MOST_ANSWER_BYTES):
        """Make an index on an open node; `Index.open` opens both.

        `cached_datasets`: whose columns are kept for queries; 0: of none. `most_answer_bytes`: of a query."""
        self.node, self.world, self.config = node, world, config
        self.cache, self.most_answer_bytes = Cache(cached_datasets), most_answer_bytes
        self.polling: Signal | None = None  # set when the poll that is under way has ended

    @classmethod
    @asynccontextmanager
    async def open(cls, world: NodeWorld, config: Config | None = None, me: str = "1", voters: Iterable[str] = ("1",),
                   options: Options = USUAL, cluster: str = "main") -> AsyncGenerator["Index"]:
        """Open the index in the folder of `world`, and close it at the end of the context.

        `cluster`: the name of the index, which its folders keep. Raises ConfigRefused, DiskLocked also if this process has an
        index open on that disk, OtherNode, OtherSettings, and what `Node.open` raises.
        """
        numbers, names = config or Config(), tuple(sorted(voters))
        replicated = machine(numbers)
        mine = FolderIdentity(cluster, me, names, replicated.settings)
        if world.disk in OPEN:
            raise DiskLocked("this process has an index open on this disk: close it first, or give another folder")
        OPEN.add(world.disk)
        try:
            node = await owned.opened(world, mine, replicated, options)
            try:
                yield cls(node, world, numbers)
            finally:
                await node.close()
        finally:
            OPEN.discard(world.disk)

    def now_ns(self) -> int:
        return self.world.clock.now_ms() * NS_PER_MS

    async def _proposed(self, command: Any) -> Result:
        """Replicate a command and return its result. Raises InvalidArgument, TooLate, PollAgain, and what `propose` raises."""
        body = stamped(self.now_ns(), command)
        if (wrong := unreadable(body)) is not None:
            raise InvalidArgument(wrong)
        result: Result = (await self.node.propose(body)).result
        if result.answer.code == OK:
            return result
        raise {INVALID: InvalidArgument, PRECONDITION: TooLate, ABORTED: PollAgain}[result.answer.code](result.answer.text)

    async def add(self, block: Any, past_horizon: bool = False) -> None:
        """Add a BlockMeta. It may be added again at any time; nothing changes then.

        `past_horizon`: an operator knows that it was never in the index, so it is added though it is older than the horizon.

        Definite errors: InvalidArgument, TooLate, NotLeader, QueueFull, TooLarge, NotRunning. Indefinite ones: LeadershipLost,
        NodeStopped.
        """
        if (wrong := invalid_block(block)) is not None:
            raise InvalidArgument(wrong)
        await self._proposed(AddBlock(metadata=block, past_horizon=past_horizon))

    async def truncate(self, command: Any) -> None:
        """Drop the units of a Truncate command that are still as it says. Raises PollAgain if another term has begun since it
        was made, and what `add` raises."""
        await self._proposed(command)

    async def get(self, tenant: str, shard: int, ulids: list[str], stale: bool = False) -> list[Any]:
        """Return those of these blocks that are in the index, as of this call or later. Any node may be asked.

        Raises InvalidArgument, InvalidUlid, InvalidPartition, NotLeader if no leader is known, NotRunning, NodeStopped.
        """
        if (wrong := unnameable(tenant, shard)) is not None:
            raise InvalidArgument(wrong)
        return units.get(await self.rows(stale), tenant, shard, ulids)

    async def rows(self, stale: bool = False) -> Rows:
        """Return the rows with all that was acknowledged before this call; `stale`: as this node has applied them, which may
        be less. Any node may be asked. Raises what `get` raises."""
        if not stale:
            return await self.node.read()
        self.node.check_running()
        return self.node.value

    async def breath(self) -> None:
        await self.world.clock.sleep_ms(0)

    async def query(self, request: Any, semantics: str = COMPAT, stale: bool = False) -> Any:
        """Return the blocks that have datasets of the tenants and times of a QueryRequest, and that its matchers hold for.

        Raises InvalidArgument, AnswerTooLarge, and what `rows` raises.
        """
        query = asked(request, semantics)
        return await answers.metadata(await self.rows(stale), query, self.cache, self.most_answer_bytes, self.breath)

    async def query_labels(self, request: Any, semantics: str = COMPAT, stale: bool = False) -> Any:
        """Return the values of the labels of a LabelsRequest in the datasets that `query` would find, each combination once.

        Raises what `query` raises.
        """
        query = asked(request, semantics)
        return await answers.label_sets(await self.rows(stale), query, self.cache, self.most_answer_bytes, self.breath)

    async def tenants(self, stale: bool = False) -> Any:
        """Return the names of the tenants that have data in the index: a TenantsResponse. Raises what `rows` raises."""
        return answers.tenant_names(await self.rows(stale), self.cache)

    async def tenant(self, tenant: str, stale: bool = False) -> Any:
        """Return from when to when a tenant has data in the index: a TenantResponse. Raises InvalidArgument, and what `rows`
        raises."""
        if (wrong := unnamed(tenant)) is not None:
            raise InvalidArgument(wrong)
        return answers.tenant_stats(await self.rows(stale), tenant, self.cache)

    async def poll(self, request: Any) -> Any:
        """Take a worker's reports, and return jobs for it: a PollRequest, a PollResponse. Polls take turns. A worker that asks
        for them also gets the tombstones that jobs have carried in vain.

        Raises InvalidArgument if a result has a bad block, PollAgain, and what `add` raises.
        """
        for update in request.status_updates:
            for block in update.compacted_blocks.new_blocks:
                if (wrong := invalid_block(block)) is not None:
                    raise InvalidArgument(wrong)
        results = {(update.name, update.token): update.compacted_blocks for update in reversed(request.status_updates)
                   if update.status == SUCCESS}  # of reports of one job, only one has the token; of the same twice the first
        told = [StatusUpdate(name=update.name, token=update.token, status=update.status) for update in request.status_updates]
        deleted = [key for update in request.status_updates for key in update.deleted]
        asked = GetPlan(status_updates=told, assign_jobs_max=request.job_capacity, deleted=deleted)
        response = response_of(await self._updated(asked, results))
        if request.takes_overdue:
            response.overdue.extend(await self.overdue())
        return response

    async def _updated(self, asked: Any, results: dict[tuple[str, int], Any]) -> Any:
        """Let a plan be made, propose it with the results of its jobs, and return what of it had an effect; one at a time.

        `results`: (name, token) of a job -> its CompactedBlocks."""
        while self.polling is not None:
            await self.polling.wait()
        self.polling = turn = self.world.signals.signal()
        try:
            planned = await self._proposed(asked)
            plan = planned.answer.value
            if not plan.ByteSize():
                return plan  # it changes nothing, so it is no entry
            for part in plan.completed_jobs:
                part.compacted_blocks.CopyFrom(results[part.state.name, part.state.token])
            return (await self._proposed(UpdatePlan(term=planned.term, plan_update=plan))).answer.value
        finally:
            self.polling = None
            turn.set()

    async def overdue(self) -> list[Any]:
        """Return the Tombstones that jobs have carried in vain: the caller deletes their objects, and calls `confirm`."""
        return tombstones.for_own_deleter(await self.node.read(), self.now_ns(), self.config)

    async def confirm(self, several: Iterable[Any]) -> None:
        """Forget Tombstones whose objects are deleted. Raises what `poll` raises."""
        keys = [TombstoneKey(index=one.index, name=tombstones.name_of(one)) for one in several]
        await self._updated(GetPlan(deleted=keys), {})


def unnameable(tenant: str, shard: int) -> str | None:
    """Return why there can be no blocks of this tenant, "" for anonymous ones, and shard, or None."""
    if not 0 <= shard < 1 << 32:
        return f"the shard {shard} is not one from 0 to {(1 << 32) - 1:,}"
    try:
        return invalid_tenant(tenant)
    except UnicodeEncodeError as error:
        return f"the tenant {tenant!r} is not UTF-8: {error}"


def asked(request: Any, semantics: str) -> Query:
    """Return the question of a request. Raises InvalidArgument."""
    try:
        return query_of(request, semantics)
    except InvalidQuery as error:
        raise InvalidArgument(str(error)) from None


def response_of(done: Any) -> Any:
    """Return the answer to a poll: the jobs that were assigned, and the leases of these and of those that go on."""
    response = PollResponse()
    for part in done.assigned_jobs:
        plan = part.plan
        response.compaction_jobs.add(name=plan.name, shard=plan.shard, tenant=plan.tenant, tombstones=plan.tombstones,
                                     compaction_level=plan.compaction_level, source_blocks=plan.source_blocks)
    for part in (*done.assigned_jobs, *(part for part in done.updated_jobs if not part.state.paused)):
        response.assignments.add(name=part.state.name, token=part.state.token, lease_expires_at=part.state.lease_expires_at)
    return response
