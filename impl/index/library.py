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

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from highwater.impl.codecs.index.messages import (
    SUCCESS,
    AddBlock,
    GetPlan,
    PollResponse,
    StatusUpdate,
    TombstoneKey,
    UpdatePlan,
)
from highwater.impl.errors import Definite, TimedOut
from highwater.impl.index import tombstones
from highwater.impl.index.answers import ABORTED, INVALID, OK, PRECONDITION
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows
from highwater.impl.index.log_time import BOUNDS, MS, Bounds, alarm_of, log_time, utc
from highwater.impl.index.machine import clock_ns
from highwater.impl.index.query import answers
from highwater.impl.index.query.answers import Apart
from highwater.impl.index.query.columns import CACHED_DATASETS, Cache
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.query.meter import HELD_BYTES, ROWS, Meter, QueryTooCostly
from highwater.impl.index.query.request import InvalidQuery, Query, query_of, unnamed
from highwater.impl.index.replicated import Result, machine, stamped
from highwater.impl.index.validate import invalid_block, invalid_tenant
from highwater.impl.node_world import Disk, DiskLocked, NodeWorld, Signal
from highwater.impl.raft import owned
from highwater.impl.raft.clocks import Clocks
from highwater.impl.raft.faults import CommandRefused, NotLeader
from highwater.impl.raft.identity import FolderIdentity
from highwater.impl.raft.node import USUAL, Node, Options
from highwater.impl.raft.state import LEADER

Answer = TypeVar("Answer")
MOST_ANSWER_BYTES = 16 << 20
OPEN: set[Disk] = set()  # the disks of open indexes: a disk's lock keeps out other processes only


class InvalidArgument(Definite):
    """The request is refused for a reason that the message names. Nothing has changed."""


class TooLate(Definite):
    """The block is older than the horizon, or retention has dropped its unit. It is never added; keep it aside."""


class QueryTooLong(Definite):
    """The query took more time than this node allows one query. The message says how much."""


class Budget(NamedTuple):
    """The limits of one query. It sends no request to an object store: the rows of an index are its node's own."""

    time_ms: int = 20_000
    rows: int = ROWS  # that it may read
    held_bytes: int = HELD_BYTES  # that it may hold at a time beside the cache, estimated
    matchers: int = 100


class PollAgain(Definite):
    """The leader has changed since a poll or a command was begun. Nothing was assigned, ended or dropped; begin again."""


class Index:
    """An open index on one node."""

    def __init__(self, node: Node, world: NodeWorld, config: Config, cached_datasets: int = CACHED_DATASETS,
                 most_answer_bytes: int = MOST_ANSWER_BYTES, budget: "Budget | None" = None, apart: Apart | None = None,
                 bounds: Bounds = BOUNDS):
        """Make an index on an open node; `Index.open` opens both.

        `cached_datasets`: whose columns are kept for queries; 0: of none. `most_answer_bytes`: of a query. `apart` calls the
        steps of queries, one at a time [default: other tasks have their turn before each]. `bounds`: of log time."""
        self.node, self.world, self.config, self.budget = node, world, config, budget or Budget()
        self.cache, self.most_answer_bytes = Cache(cached_datasets), most_answer_bytes
        self.apart: Apart = apart or self._after_others
        self.polling: Signal | None = None  # set when the poll that is under way has ended
        self.bounds = bounds
        self.alarm = ""  # why log time does not follow the clocks; "": it does

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
                yield cls(node, world, numbers, bounds=bounds_of(options))
            finally:
                await node.close()
        finally:
            OPEN.discard(world.disk)

    def clocks(self) -> Clocks:
        """Return the clocks that this node knows."""
        return self.node.clocks()

    def now_ns(self) -> int:
        """Return the log time, as this node knows it: entries are stamped with it, and the age of data is judged by it. Warns
        when it ceases to follow the clocks."""
        found = log_time(clock_ns(self.node.value), self.clocks(), self.bounds)
        why = "" if found.shown_ns is None else alarm_of(found.time_ns, found.shown_ns)
        if why and not self.alarm:
            self.world.metrics.count("index_clock_alarms")
            self.world.metrics.warn(why)
        self.alarm = why
        return found.time_ns

    async def _stamp_ns(self) -> int:
        """Return the time for a new entry. Raises what `rows` raises."""
        await self.node.settled()
        return self.now_ns()

    async def confirm_clock(self, present_ms: int) -> int:
        """Let log time go on from this node's clock, however far that is ahead, and return the time. `present_ms`: the time by
        another clock, which must agree.

        Raises InvalidArgument, and what `add` raises.
        """
        if self.node.state.role != LEADER:
            raise NotLeader(self.node.state.me, self.node.state.leader)
        own_ms = self.clocks().own_ms
        if abs(own_ms - present_ms) > self.bounds.agree_ms:
            raise InvalidArgument(f"this node's clock shows {utc(own_ms * MS)}, and that of the operator "
                                  f"{utc(present_ms * MS)}: set the wrong clock right, then confirm again")
        await self.node.settled()
        last_ns = clock_ns(self.node.value)
        if own_ms * MS <= last_ns:
            raise InvalidArgument(f"log time is {utc(last_ns)} already, and never goes back: if it is wrong, restore a "
                                  "snapshot with another clock")
        await self._stamped(own_ms * MS, GetPlan())
        self.now_ns()
        return own_ms

    async def _proposed(self, command: Any) -> Result:
        """Replicate a command and return its result. Raises InvalidArgument, TooLate, PollAgain, and what `propose` raises."""
        return await self._stamped(await self._stamp_ns(), command)

    async def _stamped(self, at_ns: int, command: Any) -> Result:
        try:
            result: Result = (await self.node.propose(stamped(at_ns, command))).result
        except CommandRefused as error:
            raise InvalidArgument(str(error)) from None
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

        Raises InvalidArgument, InvalidUlid, InvalidPartition, AnswerTooLarge, QueryTooLong, and what `rows` raises.
        """
        if (wrong := unnameable(tenant, shard)) is not None:
            raise InvalidArgument(wrong)
        most_bytes = self.most_answer_bytes
        return await self._step(lambda rows, meter: answers.blocks(rows, tenant, shard, ulids, most_bytes, meter), stale)

    async def rows(self, stale: bool = False) -> Rows:
        """Return the rows with all that was acknowledged before this call; `stale`: as this node has applied them, which may
        be less. Any node may be asked. Raises NotLeader if no leader is known, NotRunning, NodeStopped."""
        if not stale:
            return await self.node.read()
        self.node.check_running()
        return self.node.value

    async def _after_others(self, step: Callable[[], Answer]) -> Answer:
        await self.world.clock.sleep_ms(0)
        return step()

    async def _within_budget(self, work: Callable[[Meter], Coroutine[Any, Any, Answer]]) -> Answer:
        """Return what `work` returns. Raises QueryTooLong, and what `work` and the meter raise."""
        meter = Meter(self.budget.rows, self.budget.held_bytes)
        try:
            return await self.world.clock.timeout(self.budget.time_ms, work(meter))
        except TimedOut:
            raise QueryTooLong(f"the query took more than {self.budget.time_ms:,} ms: ask for a shorter time, or for fewer "
                               "tenants, shards or labels; or repeat it later") from None
        finally:
            meter.stop()  # a step may still be under way in a thread

    async def _step(self, step: Callable[[Rows, Meter], Answer], stale: bool) -> Answer:
        """Return what one step returns for the rows that `rows` gives. Raises what `_within_budget` raises."""
        async def work(meter: Meter) -> Answer:
            rows = await self.rows(stale)
            return await self.apart(lambda: step(rows, meter))

        return await self._within_budget(work)

    async def query(self, request: Any, semantics: str = COMPAT, stale: bool = False) -> Any:
        """Return the blocks that have datasets of the tenants and times of a QueryRequest, and that its matchers hold for.

        Raises InvalidArgument, AnswerTooLarge, QueryTooLong, QueryTooCostly, and what `rows` raises.
        """
        return await self._queried(answers.metadata, request, semantics, stale)

    async def query_labels(self, request: Any, semantics: str = COMPAT, stale: bool = False) -> Any:
        """Return the values of the labels of a LabelsRequest in the datasets that `query` would find, each combination once.

        Raises what `query` raises.
        """
        return await self._queried(answers.label_sets, request, semantics, stale)

    async def _queried(self, answer: Any, request: Any, semantics: str, stale: bool) -> Any:
        async def work(meter: Meter) -> Any:
            now = await self.rows(stale=True) if stale else None
            query = await self.apart(lambda: asked(request, semantics, self.budget.matchers))
            rows = await self.rows() if now is None else now
            return await answer(rows, query, self.cache, self.most_answer_bytes, meter, self.apart)

        return await self._within_budget(work)

    async def tenants(self, stale: bool = False) -> Any:
        """Return the names of the tenants that have data in the index: a TenantsResponse. Raises QueryTooLong, QueryTooCostly,
        and what `rows` raises."""
        return await self._step(lambda rows, meter: answers.tenant_names(rows, self.cache, meter), stale)

    async def tenant(self, tenant: str, stale: bool = False) -> Any:
        """Return from when to when a tenant has data in the index: a TenantResponse. Raises InvalidArgument, and what `tenants`
        raises."""
        if (wrong := unnamed(tenant)) is not None:
            raise InvalidArgument(wrong)
        return await self._step(lambda rows, meter: answers.tenant_stats(rows, tenant, self.cache, meter), stale)

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


def bounds_of(options: Options) -> Bounds:
    """Return the bounds of log time for a node: a voter is silent once it has answered none of ten heartbeats."""
    return BOUNDS._replace(silent_ms=max(BOUNDS.silent_ms, 10 * options.config.heartbeat_ticks * options.tick_ms))


def unnameable(tenant: str, shard: int) -> str | None:
    """Return why there can be no blocks of this tenant, "" for anonymous ones, and shard, or None."""
    if not 0 <= shard < 1 << 32:
        return f"the shard {shard} is not one from 0 to {(1 << 32) - 1:,}"
    try:
        return invalid_tenant(tenant)
    except UnicodeEncodeError as error:
        return f"the tenant {tenant!r} is not UTF-8: {error}"


def asked(request: Any, semantics: str, most_matchers: int) -> Query:
    """Return the question of a request. Raises InvalidArgument, QueryTooCostly."""
    try:
        query = query_of(request, semantics)
    except InvalidQuery as error:
        raise InvalidArgument(str(error)) from None
    if len(query.matchers) > most_matchers:
        raise QueryTooCostly(f"the query has {len(query.matchers):,} matchers, and this node takes {most_matchers:,}: "
                             "join regular expressions of one label with |")
    return query


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
