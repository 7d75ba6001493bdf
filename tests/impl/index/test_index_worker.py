"""The worker on a real index and a store in memory: what it makes, and that it may die or be answered late anywhere."""

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.footer import DamagedFooter, footer
from highwater.impl.codecs.index.messages import PollRequest, QueryRequest
from highwater.impl.codecs.index.names import block_path
from highwater.impl.errors import OutcomeUnknown, StoreError
from highwater.impl.index.compaction.merge import DamagedObject, Source, merged, source_of
from highwater.impl.index.compaction.worker import JobLost, Options, Worker
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import under
from highwater.impl.index.library import Index
from highwater.impl.index.validate import invalid_block
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World
from tests.impl.index.failing import Failing
from tests.impl.index.segments import data_in, made
from tests.impl.index.test_index_library import FAST, leads, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_index import START_S

CONFIG = Config(query_ns=S, retry_ns=S, horizon_ns=10 * S, delay_ns=20 * S, lease_ns=5 * S, retry_failed_ns=S,
                levels=(Level(3, 30 * S), Level(2, 60 * S)))
QUICK = Options(poll_ms=200, renew_ms=500, attempts=3)
TENANTS = ("a", "b")


# --- merging

@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(TENANTS), st.sampled_from("xyz"), st.binary(max_size=9)), max_size=4),
                min_size=1, max_size=5))
def test_each_dataset_is_in_one_result_byte_for_byte(drawn):
    sources = [made(number, tuple(datasets), at_ms=START_S * 1000 + number) for number, datasets in enumerate(drawn)]
    results = merged(1, 1, sources)
    assert results == merged(1, 1, sources)
    for result in results:
        again = source_of(result.block.id, result.body)
        assert invalid_block(result.block) is None
        assert again.block == result.block and again.block.compaction_level == 1 and again.block.created_by
    for tenant in TENANTS:
        before = [of for source in sources for of in data_in(source.body, source.block) if of[0] == tenant]
        after = [of for result in results for of in data_in(result.body, result.block) if of[0] == tenant]
        assert after == before
    sections = [[offset - of.table_of_contents[0] for offset in of.table_of_contents] for source in sources
                for of in source.block.datasets]
    assert sorted(sections) == sorted([offset - of.table_of_contents[0] for offset in of.table_of_contents]
                                      for result in results for of in result.block.datasets)
    assert len({result.block.id for result in results}) == len(results)
    assert all(ulids.time_ms(result.block.id) == ulids.time_ms(sources[0].block.id) for result in results)


def test_an_object_that_is_not_as_its_metadata_says_is_refused():
    one = made(1, (("a", "x", b"data"),))
    with pytest.raises(DamagedObject, match="is that of"):
        source_of(made(2, ()).block.id, one.body)
    with pytest.raises(DamagedFooter):
        source_of(one.block.id, one.body[:-1] + b"!")
    for change in ({"size": 1_000}, {"table_of_contents": [500]}, {"table_of_contents": [4, 500]},
                   {"table_of_contents": []}):
        block = made(1, (("a", "x", b"data"),)).block
        for name, value in change.items():
            if name == "size":
                block.datasets[0].size = value
            else:
                block.datasets[0].table_of_contents[:] = value
        block.size = 0
        body = one.body[:8] + footer(block)
        with pytest.raises(DamagedObject):
            merged(1, 1, [Source(block, body)])


# --- the worker

class Scene:
    """An index, a store, and what was put there."""

    def __init__(self, index: Index):
        self.index, self.store = index, MemoryStore()
        self.data: list[tuple[str, str, bytes]] = []
        self.random = Random(1)

    def worker(self, store: Any = None, poll: Any = None) -> Worker:
        world = World(store or self.store, self.index.world.clock, self.index.world.ids, self.index.world.metrics)
        return Worker(world, poll or self.index.poll, QUICK)

    async def write(self, number: int, datasets: int = 2) -> None:
        """Write an object and add its block."""
        now_ms = self.index.world.clock.now_ms()
        of = tuple((self.random.choice(TENANTS), f"d{number}.{n}", self.random.randbytes(5)) for n in range(datasets))
        one = made(number, of, at_ms=now_ms)
        await self.store.create(block_path(1, "", one.block.id, 0), one.body)
        await self.index.add(one.block)
        self.data += of

    async def visible(self) -> list[tuple[str, str, bytes]]:
        """Return all data that a query finds, out of the objects that its answer names."""
        asked = QueryRequest(tenant_id=TENANTS, start_time=0, end_time=1 << 62, query="{}")
        found = []
        for block in (await self.index.query(asked)).blocks:
            strings = block.string_table
            body = (await self.store.get(block_path(1, strings[block.tenant], block.id, block.compaction_level))).body
            found += [of[:3] for of in data_in(body, block)]
        return found

    async def check(self) -> None:
        assert sorted(await self.visible()) == sorted(self.data)


def played(story: Any) -> None:
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            await story(Scene(index))

    run(work())


def test_small_blocks_are_merged_level_by_level_and_their_objects_deleted_after_the_delay():
    async def story(scene: Scene) -> None:
        for number in range(12):
            await scene.write(number)
        worker = scene.worker()
        for turn in range(500):
            await worker.once()
            await scene.check()
            await asyncio.sleep(0.5)
            if turn in (150, 250):
                for number in range(3):  # their jobs carry tombstones; the last ones are left for the worker's own deletion
                    await scene.write(20 + turn + number)
        left = [entry.key for entry in (await scene.store.list_page("")).entries]
        assert not [key for key in left if key.startswith("segments/")], left
        answer = (await scene.index.query(QueryRequest(tenant_id=TENANTS, start_time=0, end_time=1 << 62, query="{}"))).blocks
        assert {block.compaction_level for block in answer} <= {1, 2} and 2 in {block.compaction_level for block in answer}

    played(story)


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("applied", [False, True])
def test_a_worker_may_fail_or_die_at_each_request(applied, dies):
    async def story(scene: Scene) -> None:
        number, at = 0, 0
        for at in range(1, 14):
            for _ in range(3):
                number += 1
                await scene.write(number)
            failing = scene.worker(Failing(scene.store, at, applied, dies))
            for _ in range(3):
                try:
                    await failing.once()
                except asyncio.CancelledError:
                    break
            await scene.check()
            healthy = scene.worker()
            for _ in range(20):
                await healthy.once()
                await asyncio.sleep(0.5)
            await scene.check()

    played(story)


def test_a_job_that_was_lost_is_not_reported_and_a_late_report_changes_nothing():
    async def story(scene: Scene) -> None:
        for number in range(3):
            await scene.write(number)
        await scene.index.poll(poll_request())
        answer = await scene.index.poll(poll_request())
        (job,), (lease,) = answer.compaction_jobs, answer.assignments
        slow = scene.worker()
        results = await slow.made(job)
        await asyncio.sleep(6)
        other = scene.worker()
        for _ in range(10):
            await other.once()
            await asyncio.sleep(0.3)
        with pytest.raises(JobLost):
            await slow.work(job, lease.token)
        assert [result.body for result in results] == [result.body for result in await slow.made(job)]
        await scene.check()

    played(story)


def test_an_object_that_is_there_is_reported_as_it_is():
    async def story(scene: Scene) -> None:
        worker = scene.worker()
        (result,) = merged(1, 1, [made(1, (("a", "x", b"data"),))])
        other = merged(1, 1, [made(1, (("a", "x", b"data"), ("a", "y", b"more")))])[0]
        assert other.block.id == result.block.id  # as another release might make it
        assert await worker.put(other) == other
        assert await worker.put(result) == other

    played(story)


def test_a_job_deletes_what_its_tombstones_name_and_says_so():
    async def story(scene: Scene) -> None:
        for number in range(3):
            await scene.write(number)
        worker, first = scene.worker(), [entry.key for entry in (await scene.store.list_page("")).entries]
        while not await worker.once():
            await asyncio.sleep(0.1)
        await asyncio.sleep(21)  # the delay; the worker's own deletion begins after two of them
        for number in range(3, 6):
            await scene.write(number)
        while not await worker.once():
            await asyncio.sleep(0.1)
        left = [entry.key for entry in (await scene.store.list_page("")).entries]
        assert not set(first) & set(left)
        rows = scene.index.node.value
        assert [row.tombstone_of(key)[2] for key, _ in under(rows, row.TOMBSTONES)] != [] and len(
            [*under(rows, row.TOMBSTONES)]) == 1, "the second job's own sources wait for the delay"

    played(story)


def test_a_slow_job_is_kept_by_renewing_its_lease():
    class Slow:
        def __init__(self, store: Any):
            self.store = store

        def __getattr__(self, name: str) -> Any:
            async def asked(*arguments: Any) -> Any:
                await asyncio.sleep(2)
                return await getattr(self.store, name)(*arguments)

            return asked

    async def story(scene: Scene) -> None:
        for number in range(3):
            await scene.write(number)
        slow, other = scene.worker(Slow(scene.store)), scene.worker()
        await scene.index.poll(poll_request())  # the job is planned
        working = asyncio.ensure_future(slow.once())
        for _ in range(12):  # its lease is 5 s, and reading takes 6 s
            await asyncio.sleep(1)
            assert not await other.once()
        assert await working
        assert slow.world.metrics.snapshot()["index_jobs_done"] == 1
        await scene.check()

    played(story)


def poll_request() -> Any:
    return PollRequest(job_capacity=1)


def test_answers_to_polls_may_be_lost():
    async def story(scene: Scene) -> None:
        draw = Random(2)

        async def lossy(request: Any) -> Any:
            answer = await scene.index.poll(request)
            if draw.random() < 0.4:
                raise OutcomeUnknown("lost")
            return answer

        worker = scene.worker(poll=lossy)
        for number in range(30):
            await scene.write(number)
            await worker.once()
            await asyncio.sleep(1)
            await scene.check()
        steady = scene.worker()
        for _ in range(40):
            await steady.once()
            await asyncio.sleep(1)
        await scene.check()
        assert worker.world.metrics.snapshot()["index_jobs_done"] > 2

    played(story)


def test_an_object_of_a_job_that_is_gone_fails_the_job_and_not_the_worker():
    async def story(scene: Scene) -> None:
        for number in range(3):
            await scene.write(number)
        for key in [entry.key for entry in (await scene.store.list_page("")).entries][:1]:
            await scene.store.delete(key)
        worker = scene.worker()
        for _ in range(10):
            await worker.once()
            await asyncio.sleep(1)
        assert worker.world.metrics.snapshot()["index_jobs_failed"] >= 1
        with pytest.raises(StoreError):
            await scene.visible()

    played(story)
