"""Safety: sources are deleted only by a tombstone, and a result is in the store before the index hears of it.

A worker asks the index for jobs, merges the objects of a job's sources, puts the results, and reports them. It deletes what the
job's tombstones name, and reports that, too. It may die anywhere: whoever gets the job next makes equal objects under equal
names, and a tombstone that nobody has confirmed is handed out again. While it works it renews its lease, for the first time
before it reads anything, so that a job which kills its workers counts as failed.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from highwater.impl.codecs.index.messages import IN_PROGRESS, SUCCESS, PollRequest, TombstoneKey
from highwater.impl.codecs.index.names import ANONYMOUS, block_path
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, StoreError
from highwater.impl.index import tombstones
from highwater.impl.index.compaction.merge import Result, Source, merged, source_of
from highwater.impl.index.pauses import pause_ms, reason
from highwater.impl.world import World, list_all

Poll = Callable[[Any], Awaitable[Any]]  # a PollRequest -> a PollResponse; raises StoreError


class Options(NamedTuple):
    """The settings of a worker. `renew_ms` must be well below the lease."""

    poll_ms: int = 5_000  # between two polls without a job
    renew_ms: int = 5_000  # between two reports of a job that goes on
    attempts: int = 10  # to put one object, and to report a result


USUAL = Options()


class JobLost(StoreError):
    """The index has given the job to another worker, or it is over. Nothing is reported."""


class Worker:
    """A worker of one index and one store."""

    def __init__(self, world: World, poll: Poll, options: Options = USUAL):
        """Make a worker; `poll` asks the index."""
        self.world, self.ask, self.options = world, poll, options
        self.failures = 0  # polls in a row that failed, or whose job did

    async def run(self) -> None:
        """Work until it is cancelled. After failures it rests for a pause that grows."""
        while True:
            if not await self.once() or self.failures:
                await self.world.clock.sleep_ms(pause_ms(self.options.poll_ms, self.failures))

    async def once(self) -> bool:
        """Poll for one job and do it, and delete what jobs have carried in vain. Return whether there was a job.

        What goes wrong is a warning."""
        try:
            answer = await self.ask(PollRequest(job_capacity=1, takes_overdue=True))
        except Exception as error:
            self.failed(f"the index gives no job: {reason(error)}")
            return False
        failures, tokens = self.failures, {one.name: one.token for one in answer.assignments}
        for job in answer.compaction_jobs:
            try:
                await self.work(job, tokens[job.name])
                self.world.metrics.count("index_jobs_done")
            except Exception as error:  # whatever the bytes of its sources, their keys or a response of the store bring about
                self.world.metrics.count("index_jobs_failed")
                self.failed(f"job {job.name}: {reason(error)}")
        try:
            await self.delete_overdue(answer.overdue)
        except Exception as error:
            self.failed(f"the index was not told what is deleted: {reason(error)}")
        if self.failures == failures:
            self.failures = 0
        return bool(answer.compaction_jobs)

    def failed(self, why: str) -> None:
        self.failures += 1
        self.world.metrics.warn(why)

    async def delete_overdue(self, several: Any) -> None:
        """Delete what these tombstones name, and report that."""
        if done := await self.deleted(several):
            report = PollRequest()
            report.status_updates.add().deleted.extend(done)
            await self.ask(report)

    async def deleted(self, several: Any) -> list[Any]:
        """Delete what these tombstones name, and return the keys of those for which that succeeded; the index hands out the
        others again."""
        done = []
        for told in several:
            try:
                done.append(await self.delete(told))
            except Exception as error:  # also of one key that the store refuses
                self.world.metrics.count("index_deletions_failed")
                self.failed(f"not everything was deleted: {reason(error)}")
        return done

    async def work(self, job: Any, token: int) -> None:
        """Do a job and report it. Raises JobLost, NotFound if a source is gone, what merging raises, and StoreError."""
        await self.renew(job, token)
        results = await self.world.clock.first(work=self.made(job), lease=self.renewing(job, token))
        report = PollRequest()
        update = report.status_updates.add(name=job.name, token=token, status=SUCCESS)
        update.compacted_blocks.source_blocks.blocks.extend(job.source_blocks)
        update.compacted_blocks.source_blocks.shard = job.shard
        update.compacted_blocks.source_blocks.tenant = job.tenant
        update.compacted_blocks.new_blocks.extend(result.block for result in results)
        update.deleted.extend(await self.deleted(job.tombstones))
        await self.told(report)

    async def told(self, report: Any) -> None:
        """Report a result, again after an error: a report that had its effect has none when it comes again."""
        for left in reversed(range(self.options.attempts)):
            try:
                await self.ask(report)
                return
            except StoreError:
                if not left:
                    raise
                await self.world.clock.sleep_ms(self.options.renew_ms // 5)

    async def renewing(self, job: Any, token: int) -> Any:
        """Renew the lease until the job is lost."""
        while True:
            await self.world.clock.sleep_ms(self.options.renew_ms)
            await self.renew(job, token)

    async def renew(self, job: Any, token: int) -> None:
        """Report that the job goes on. Raises JobLost, and what the poll raises."""
        report = PollRequest()
        report.status_updates.add(name=job.name, token=token, status=IN_PROGRESS)
        answer = await self.ask(report)
        if all((one.name, one.token) != (job.name, token) for one in answer.assignments):
            raise JobLost(f"{job.name} is somebody else's, or over")

    # --- objects

    async def made(self, job: Any) -> list[Result]:
        """Read the sources, and put the results."""
        sources = [await self.source(job, ulid) for ulid in job.source_blocks]
        return [await self.put(result) for result in merged(job.shard, job.compaction_level + 1, sources)]

    async def source(self, job: Any, ulid: str) -> Source:
        path = block_path(job.shard, job.tenant, ulid, job.compaction_level)
        return source_of(ulid, (await self.world.store.get(path)).body)

    async def put(self, result: Result) -> Result:
        """Put a new object. If one is there, another worker has made it of the same sources: return what that says."""
        block = result.block
        path = block_path(block.shard, block.string_table[block.tenant], block.id, block.compaction_level)
        for _ in range(self.options.attempts):
            try:
                await self.world.store.create(path, result.body)
                return result
            except AlreadyExists:
                try:
                    body = (await self.world.store.get(path)).body
                except NotFound:
                    continue
                return Result(source_of(block.id, body).block, body)
            except OutcomeUnknown:
                continue
        raise OutcomeUnknown(f"{path!r} could not be put, {self.options.attempts} times over")

    async def delete(self, told: Any) -> Any:
        """Delete what a tombstone names; return its key."""
        for path in tombstones.objects_of(told, await self.listed(told)):
            await self.world.store.delete(path)
        return TombstoneKey(index=told.index, name=tombstones.name_of(told))

    async def listed(self, told: Any) -> Iterable[tuple[str, str]]:
        """Return the objects below the prefixes of a unit's tombstone, with their ULIDs; nothing for one of blocks.

        An anonymous unit has segments, and the blocks that jobs have made of datasets without a tenant.
        """
        if not told.HasField("shard"):
            return ()
        of = told.shard
        prefixes = [f"blocks/{of.shard}/{of.tenant or ANONYMOUS}/"]
        if not of.tenant:
            prefixes.append(f"segments/{of.shard}/{ANONYMOUS}/")
        found = [entry.key for prefix in prefixes for entry in await list_all(self.world.store, prefix)]
        return [(key.split("/")[3], key) for key in found]
