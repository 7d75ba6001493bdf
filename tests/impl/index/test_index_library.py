"""The index as a library: one voter that crashes and starts again, and three nodes in one process; in virtual time."""

import asyncio
from contextlib import AsyncExitStack, nullcontext, suppress
from random import Random

import pytest

from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    SUCCESS,
    CompactedBlocks,
    LabelsRequest,
    PollRequest,
    QueryRequest,
    UpdatePlan,
)
from highwater.impl.codecs.index.rows import Block
from highwater.impl.index import replicated, tombstones
from highwater.impl.index.answers import OK
from highwater.impl.index.config import Config, ConfigRefused, Level, S
from highwater.impl.index.library import Index, InvalidArgument, PollAgain, TooLate
from highwater.impl.node_world import DiskLocked
from highwater.impl.raft.faults import NotLeader, NotRunning, OtherNode, OtherSettings
from highwater.impl.raft.machine import Command
from highwater.impl.raft.node import Options
from highwater.impl.raft.state import LEADER
from highwater.impl.raft.state import Config as RaftConfig
from highwater.impl.stores.node_system import local_worlds
from tests.impl.raft.crashing import CrashingDisk
from tests.impl.raft.virtual import VirtualClock, run
from tests.support.metadata_index import START_S, Story, block

CONFIG = Config(query_ns=S, retry_ns=S, horizon_ns=10 * S, delay_ns=20 * S, levels=(Level(2, 36 * S),))
FAST = Options(RaftConfig(), tick_ms=10, disk_limit_ms=1_000, snapshot_entries=10, keep_entries=2)
BLOCKS = [block(number) for number in range(30)]


class Late(VirtualClock):
    """Virtual time from the start of the blocks on."""

    def now_ms(self) -> int:
        return START_S * 1000 + super().now_ms()


def worlds(*nodes: str, disks: dict[str, CrashingDisk] | None = None):
    made = disks or {name: CrashingDisk() for name in nodes}
    return {name: world._replace(clock=Late()) for name, world in local_worlds(list(made.items())).items()}


async def leads(index: Index) -> None:
    for _ in range(2000):
        if index.node.state.role == LEADER and index.node.state.commit:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not lead")


async def first_leader(nodes: list[Index]) -> Index:
    for _ in range(2000):
        for one in nodes:
            if one.node.state.role == LEADER and one.node.state.commit:
                return one
        await asyncio.sleep(0.01)
    raise AssertionError("nobody leads")


def texts(found: list) -> list[str]:
    return [one.id for one in found]


def result(job) -> CompactedBlocks:
    made = block(0, tenant="t", level=1, data=("both",), ulid=names.compacted_id(list(job.source_blocks), 1, "t"))
    return CompactedBlocks(source_blocks={"blocks": job.source_blocks}, new_blocks=[made])


def test_what_was_added_is_there_after_a_crash_from_the_log_and_from_a_snapshot():
    async def work():
        for count in (3, 25):
            disk = CrashingDisk()
            async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST) as index:
                await leads(index)
                for made in BLOCKS[:count]:
                    await index.add(made)
                await index.add(BLOCKS[0])
                before = index.node.value
            disk.crash(Random(count))
            assert any(name.startswith("snapshot-") for name in disk.files) == (count == 25)
            async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST) as index:
                await leads(index)
                wanted = [made.id for made in BLOCKS[:count]]
                assert texts(await index.get("", 1, [*wanted, BLOCKS[29].id])) == wanted
                assert list(index.node.value.range(b"", None)) == list(before.range(b"", None))
            for call in (lambda: index.add(BLOCKS[0]), lambda: index.get("", 1, []), lambda: index.get("", 1, [], stale=True),
                         lambda: index.tenants(stale=True)):
                with pytest.raises(NotRunning):
                    await call()

    run(work())


@pytest.mark.parametrize("change,why", (
    ({"horizon_ns": 5 * S}, "applied with horizon_ns=10000000000, and this node was given horizon_ns=5000000000"),
    ({"levels": (Level(2, S),)}, "applied with levels=2:36000000000, and this node was given levels=2:1000000000"),
    ({"retry_ns": 2 * S, "query_ns": 2 * S}, ""),
))
def test_the_numbers_of_an_index_stay_as_they_are(change, why):
    """After a restart the log behind the snapshot is applied again: with a shorter horizon, blocks in it would be refused."""
    async def work():
        disk = CrashingDisk()
        async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST) as index:
            await leads(index)
            await index.add(BLOCKS[0])
        before = dict(disk.files)
        with pytest.raises(OtherSettings, match=why) if why else nullcontext():
            async with Index.open(worlds(disks={"1": disk})["1"], CONFIG._replace(**change), options=FAST):
                pass
        assert dict(disk.files) == before or not why
        async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST) as index:
            await leads(index)
            assert texts(await index.get("", 1, [BLOCKS[0].id])) == [BLOCKS[0].id]

    run(work())


def test_a_folder_is_not_opened_for_others_than_it_has():
    async def work():
        disk = CrashingDisk()
        for voters, cluster, why in ((("1",), "main", ""), (("1", "2"), "main", "the nodes of the group are 1, and"),
                                     (("1",), "other", "of cluster 'main'")):
            with pytest.raises(OtherNode, match=why) if why else nullcontext():
                async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, "1", voters, FAST, cluster):
                    pass

    run(work())


def test_the_plan_of_a_poll_fits_into_an_entry():
    """Each new job carries due tombstones, with many blocks each. A plan that is too large would never be committed."""
    story = Story(Config())
    for number in range(1_000):
        story.add(block(number))
    with story.machine.kv.transaction() as rows:
        for number in range(500):
            those = [Block(ulids.made(START_S * 1000, number.to_bytes(5) + of.to_bytes(5)), 1, "") for of in range(40)]
            tombstones.add(rows, tombstones.of_blocks(f"job{number}-Ttenant-S1-L0", 0, those), number + 1, 0)
    story.now_s, planned = 40, 0
    while jobs := len((plan := story.get_plan(capacity=2**32 - 1)).new_jobs):
        assert len(replicated.stamped(0, UpdatePlan(term=1, plan_update=plan))) < RaftConfig().max_entry_bytes // 3
        assert story.put(UpdatePlan(term=1, plan_update=plan)).code == OK
        planned += jobs
    assert planned == 50


def test_one_index_at_a_time_is_open_on_a_disk():
    """A folder's lock keeps other processes out. Two nodes of one process would write one log, each its own records."""
    async def work():
        disk = CrashingDisk()
        async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST) as index:
            await leads(index)
            for _ in range(2):
                with pytest.raises(DiskLocked, match="close it first"):
                    async with Index.open(worlds(disks={"1": disk})["1"], CONFIG, options=FAST):
                        pass
            await index.add(BLOCKS[0])
        for numbers in (CONFIG._replace(delay_ns=1), CONFIG):
            with suppress(ConfigRefused):
                async with Index.open(worlds(disks={"1": disk})["1"], numbers, options=FAST) as index:
                    await leads(index)
                    assert texts(await index.get("", 1, [BLOCKS[0].id])) == [BLOCKS[0].id]

    run(work())


def test_a_worker_polls_compacts_and_confirms():
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            for made in BLOCKS[:2]:
                await index.add(made)
            assert not (await index.poll(PollRequest(job_capacity=1))).compaction_jobs
            answer = await index.poll(PollRequest(job_capacity=1))
            (job,), (lease,) = answer.compaction_jobs, answer.assignments
            assert list(job.source_blocks) == [made.id for made in BLOCKS[:2]] and lease.name == job.name
            renewed = await index.poll(PollRequest(status_updates=[dict(name=job.name, token=lease.token, status=IN_PROGRESS)]))
            assert renewed.assignments[0].lease_expires_at >= lease.lease_expires_at and not renewed.compaction_jobs
            done = dict(name=job.name, token=lease.token, status=SUCCESS, compacted_blocks=result(job))
            assert not (await index.poll(PollRequest(status_updates=[done]))).assignments
            assert not await index.get("", 1, list(job.source_blocks))
            (made,) = await index.get("t", 1, [done["compacted_blocks"].new_blocks[0].id])
            assert made.string_table[made.datasets[0].name] == "both"
            await index.add(BLOCKS[0])
            assert not await index.get("", 1, [BLOCKS[0].id]), "it was compacted"
            assert not await index.overdue()
            await asyncio.sleep(41)
            (tombstone,) = await index.overdue()
            assert list(tombstone.blocks.blocks) == list(job.source_blocks)
            await index.confirm([tombstone])
            assert not await index.overdue()

    run(work())


def test_refusals_are_definite_and_name_the_reason():
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            await asyncio.sleep(15)
            before = index.node.applied
            bad = block(1)
            bad.id = "!" * 26
            with pytest.raises(InvalidArgument, match="ULID"):
                await index.add(bad)
            with pytest.raises(InvalidArgument, match="ULID"):
                await index.poll(PollRequest(status_updates=[dict(compacted_blocks=dict(new_blocks=[bad]))]))
            assert index.node.applied == before, "nothing was proposed"
            with pytest.raises(TooLate, match="horizon"):
                await index.add(BLOCKS[0])
            await index.add(block(1, 15))
        with pytest.raises(ConfigRefused):
            async with Index.open(worlds("1")["1"], CONFIG._replace(delay_ns=1)):
                pass

    run(work())


@pytest.mark.parametrize("tenant, shard, why", [
    ("-", 1, "may not be called"), ("-", -1, "the shard -1 is not one from 0 to"), ("a\0", 1, "zero byte"),
    ("\ud800", 1, "not UTF-8"), ("", -1, "shard"), ("", 1 << 32, "shard")])
def test_blocks_of_what_is_no_tenant_or_shard_are_refused(tenant, shard, why):
    """The rows of anonymous blocks have the tenant `-`: a tenant who says so does not get them."""
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            await index.add(BLOCKS[0])
            with pytest.raises(InvalidArgument, match=why):
                await index.get(tenant, shard, [BLOCKS[0].id])

    run(work())


@pytest.mark.parametrize("token, status", [(999, SUCCESS), (0, IN_PROGRESS)])
def test_a_job_ends_with_the_result_of_the_report_that_has_its_token(token, status):
    """A poll reports one job twice: once with the token and a result, then again without it or without a result."""
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            for made in BLOCKS[:2]:
                await index.add(made)
            await index.poll(PollRequest(job_capacity=1))
            answer = await index.poll(PollRequest(job_capacity=1))
            (job,), (lease,) = answer.compaction_jobs, answer.assignments
            other = result(job)
            other.new_blocks[0].id = names.compacted_id(list(job.source_blocks), 1, "other")
            told = dict(name=job.name, token=lease.token, status=SUCCESS, compacted_blocks=result(job))
            again = dict(name=job.name, token=token or lease.token, status=status, compacted_blocks=other)
            await index.poll(PollRequest(status_updates=[told, again]))
            wanted = result(job).new_blocks[0].id
            assert texts(await index.get("t", 1, [wanted, other.new_blocks[0].id])) == [wanted]

    run(work())


def test_polls_take_turns():
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            for made in BLOCKS[:8]:
                await index.add(made)
            answers = await asyncio.gather(*(index.poll(PollRequest(job_capacity=2)) for _ in range(6)))
            jobs = [job.name for answer in answers for job in answer.compaction_jobs]
            assert len(jobs) == len(set(jobs)) == 4

    run(work())


def test_a_plan_of_another_leader_is_refused(monkeypatch):
    async def work():
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            for made in BLOCKS[:2]:
                await index.add(made)
            real = index._proposed

            async def later(command):
                done = await real(command)
                return done._replace(term=done.term - 1)

            monkeypatch.setattr(index, "_proposed", later)
            with pytest.raises(PollAgain, match="poll again"):
                await index.poll(PollRequest(job_capacity=1))

    run(work())


def test_three_nodes_have_equal_rows_and_followers_answer():
    async def work():
        disks = {name: CrashingDisk() for name in "123"}
        made = worlds(disks=disks)
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(Index.open(made[name], CONFIG, name, "123", FAST)) for name in "123"]
            leader = await first_leader(nodes)
            followers = [one for one in nodes if one is not leader]
            for number, item in enumerate(BLOCKS[:25]):
                await leader.add(item)
                assert texts(await followers[number % 2].get("", 1, [item.id])) == [item.id], "a follower does not see it"
            with pytest.raises(NotLeader):
                await followers[0].add(BLOCKS[25])
            await leader.poll(PollRequest(job_capacity=1))
            for one in followers:
                await one.get("", 1, [])
            assert len({replicated.dump(one.node.value) for one in nodes}) == 1

    run(work())


def test_every_node_answers_queries_and_a_stale_answer_may_lack_what_is_new():
    async def work():
        made = worlds(*"123")
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(Index.open(made[name], CONFIG, name, "123", FAST)) for name in "123"]
            leader = await first_leader(nodes)
            nodes.sort(key=lambda one: one is leader)  # the leader's reads tell the followers what is committed
            lacking = 0
            for number in range(9):
                await leader.add(block(number, tenant=f"t{number}"))
                asked = {"tenant_id": [f"t{number}"], "start_time": 1500, "end_time": 1500,
                         "query": '{kind="cpu"}', "labels": ["kind"]}
                for one in nodes:
                    lacking += not (await one.query(QueryRequest(**asked), stale=True)).blocks
                    (found,) = (await one.query(QueryRequest(**asked))).blocks
                    assert found.id == block(number).id and list(found.datasets[0].labels) != []
                    (pair,) = (await one.query_labels(LabelsRequest(**asked))).labels[0].labels
                    assert (pair.name, pair.value) == ("kind", "cpu")
                    assert list((await one.tenants()).tenant_ids) == [f"t{n}" for n in range(number + 1)]
                    stats = (await one.tenant(f"t{number}")).stats
                    assert (stats.data_ingested, stats.oldest_profile_time, stats.newest_profile_time) == (True, 1000, 2000)
            assert lacking, "the stale reads were all fresh"
            assert not (await leader.tenant("t9")).stats.data_ingested
            for wrong in (QueryRequest(query="{}"), QueryRequest(tenant_id=["a"], query="{")):
                with pytest.raises(InvalidArgument):
                    await leader.query(wrong)
            with pytest.raises(InvalidArgument):
                await leader.tenant("")
        with pytest.raises(NotRunning):
            await leader.query(QueryRequest(tenant_id=["a"], query="{}"))

    run(work())


def test_the_machine_is_pure():
    """The same entry on the same state gives equal states, and changes neither the state before nor each other's."""
    machine = replicated.machine(CONFIG)
    state = machine.initial
    for index, made in enumerate(BLOCKS[:9], 1):
        body = replicated.stamped(START_S * S, replicated.entries.AddBlock(metadata=made))
        before = machine.dump(state)
        (one, first), (other, second) = (machine.apply(state, Command(index, 1, body)) for _ in range(2))
        assert first == second and first.answer.code == OK and machine.dump(one) == machine.dump(other) != before
        machine.apply(one, Command(index + 1, 1, replicated.stamped(0, replicated.entries.AddBlock(metadata=BLOCKS[20]))))
        assert machine.dump(state) == before and machine.dump(one) == machine.dump(other)
        state = machine.load(machine.dump(one)) if index % 4 == 0 else one
    with pytest.raises(replicated.entries.UnknownEntry):
        machine.apply(state, Command(99, 1, b"short"))
    later = replicated.stamped(0, replicated.entries.AddBlock())[:8] + b"\0\0\0\5"
    with pytest.raises(replicated.entries.UnknownEntry, match="kind 5, and .*, whose index has level 1, knows kinds 1 to 4"):
        machine.apply(state, Command(99, 1, later))
    assert machine.level == 1
