"""Scripts of the worker of an index: what it makes of the sources, what it asks, and what it does when a request fails."""

from typing import Any

from highwater.dst.script import LOST, Alone, Cancelled, Script, check, fails_with, same
from highwater.dst.scripts.indexed.one import START_S, says, ulid
from highwater.impl.codecs.index.footer import footer, metadata_of
from highwater.impl.codecs.index.messages import (
    IN_PROGRESS,
    SUCCESS,
    BlockMeta,
    BlockTombstones,
    Dataset,
    PollRequest,
    PollResponse,
    TombstoneKey,
    Tombstones,
)
from highwater.impl.codecs.index.names import compacted_id
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.errors import NotFound, OutcomeUnknown, Unavailable
from highwater.impl.index import pauses
from highwater.impl.index.compaction import merge
from highwater.impl.index.compaction.merge import DamagedObject, Source
from highwater.impl.index.compaction.worker import USUAL, JobLost, Options, Worker
from highwater.impl.index.config import S
from highwater.impl.raft.faults import NotLeader

MS = START_S * 1000


def source(number: int, datasets: tuple[tuple[str, str, bytes], ...], at_ms: int = 0, tenant: str = "",
           **fields: Any) -> Source:
    """Return an object of datasets (tenant, name, data), each with two sections."""
    texts = [tenant, "w", "kind", *(text for of in datasets for text in of[:2])]
    table = ["", *dict.fromkeys(filter(None, texts))]
    made = BlockMeta(id=ulid(number, at_ms // 1000), shard=1, min_time=MS, max_time=MS + 10 * number,
                     tenant=table.index(tenant),
                     created_by=table.index("w"), string_table=table, **fields)
    data = b"head"
    for of, name, body in datasets:
        made.datasets.append(Dataset(
            tenant=table.index(of), name=table.index(name), min_time=MS + number, max_time=MS + 2 * number, size=len(body),
            table_of_contents=[len(data), len(data) + len(body) // 2], labels=[1, table.index("kind"), table.index(name), 0]))
        data += body
    made.metadata_offset = len(data)
    return with_footer(made, data)


def with_footer(made: Any, data: bytes) -> Source:
    body = data + footer(made)
    return Source(metadata_of(body, len(body)), body)


# --- merging

async def datasets_are_merged_by_tenant(alone: Alone) -> None:
    one = source(1, (("b", "x", b"111"), ("a", "y", b"2222"), ("", "x", b"33")), format_version=3)
    two = source(2, (("a", "x", b"4444"), ("b", "x", b"")), 5000, format_version=2)
    results = merge.merged(1, 4, [two, one])
    same([(of.block.string_table[of.block.tenant], of.block.id) for of in results],
         [(tenant, compacted_id([two.block.id, one.block.id], 4, tenant)) for tenant in ("", "a", "b")])
    result = results[1]
    block = result.block
    same((block.shard, block.compaction_level, block.format_version, block.size, block.metadata_offset),
         (1, 4, 3, len(result.body), 8))
    same((list(block.string_table), block.tenant, block.created_by), (["", "a", "highwater", "x", "kind", "y"], 1, 2))
    same((block.min_time, block.max_time), (MS + 1, MS + 4))
    same([(of.tenant, of.name, list(of.labels), of.size, list(of.table_of_contents), of.min_time, of.max_time)
          for of in block.datasets],
         [(1, 3, [1, 4, 3, 0], 4, [0, 2], MS + 2, MS + 4), (1, 5, [1, 4, 5, 0], 4, [4, 6], MS + 1, MS + 2)])
    same((result.body[:8], metadata_of(result.body, len(result.body))), (b"44442222", block))
    same(([list(of.table_of_contents) for of in results[2].block.datasets], results[2].body[:3]), ([[0, 0], [0, 1]], b"111"))
    same((results[0].block.tenant, list(results[0].block.string_table)[:2]), (0, ["", "highwater"]))
    same((list(one.block.datasets[1].table_of_contents), one.block.datasets[1].tenant), ([7, 9], 5))
    same(merge.merged(1, 4, [with_footer(BlockMeta(id=ulid(1)), b"")]), [])


async def datasets_without_times_or_data(alone: Alone) -> None:
    plain = source(3, (("a", "x", b"12"),))
    del plain.block.datasets[0].table_of_contents[:]
    plain.block.datasets[0].size = plain.block.datasets[0].min_time = plain.block.datasets[0].max_time = 0
    bare = with_footer(plain.block, b"")
    (result,) = merge.merged(1, 1, [bare])
    same((result.block.min_time, result.block.max_time, result.block.metadata_offset), (MS, MS + 30, 0))
    same(list(result.block.datasets[0].table_of_contents), [])
    same((merge.text(BlockMeta(), 0), merge.text(BlockMeta(string_table=["", "x"]), 1)), ("", "x"))
    fails_with(IndexError, lambda: merge.text(BlockMeta(), 1))


async def damaged_objects_are_refused(alone: Alone) -> None:
    good = source(1, (("a", "x", b"1234"),))
    same(merge.source_of(good.block.id, good.body), good)
    says(DamagedObject, f"byte 0, id: the object of block {ulid(2)} is that of {ulid(1)}",
         lambda: merge.source_of(ulid(2), good.body))
    for toc, size in (([4, 9], 4), ([5, 6], 4), ([], 4), ([4, 3], 4), ([-1 % 2**64], 0), ([9], 0), ([4], 5)):
        made = source(1, (("a", "x", b"1234"),)).block
        made.datasets[0].size = size
        made.datasets[0].table_of_contents[:] = toc
        wrong = with_footer(made, b"head1234")
        says(DamagedObject,
             f"byte 0, table_of_contents: a dataset of block {ulid(1)} is at {toc} with {size} bytes, and the data "
             "has 8", lambda wrong=wrong: merge.merged(1, 1, [wrong]))
    for toc, size, data in (([4, 8], 4, b"1234"), ([8], 0, b""), ([0], 8, b"head1234"), ([4, 4], 4, b"1234"), ([5], 3, b"234")):
        made = source(1, (("a", "x", b"1234"),)).block
        made.datasets[0].size = size
        made.datasets[0].table_of_contents[:] = toc
        same(merge.data_of(with_footer(made, b"head1234"), made.datasets[0]), (toc[0], data))


# --- the worker

class Told:
    """An index that gives the answers of a script, and keeps what it was asked. An answer may be an error."""

    def __init__(self, *answers: Any):
        self.answers, self.asked = list(answers), []

    async def __call__(self, request: Any) -> Any:
        self.asked.append(PollRequest.FromString(request.SerializeToString()))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


OPTIONS = Options(poll_ms=700, renew_ms=500, attempts=3)
GONE = NotLeader("a", "b")
PATHS = {number: f"segments/1/anonymous/{ulid(number)}/block.bin" for number in (1, 2)}
RESULT = f"blocks/1/a/{compacted_id([ulid(1), ulid(2)], 1, 'a')}/block.bin"


def job(*tombs: Any, **fields: Any) -> Any:
    return {"name": "j", "shard": 1, "source_blocks": [ulid(1), ulid(2)], "tombstones": tombs} | fields


def given(*tombs: Any, token: int = 5, overdue: Any = ()) -> Any:
    return PollResponse(compaction_jobs=[job(*tombs)], assignments=[{"name": "j", "token": token}], overdue=overdue)


LEASE = PollResponse(assignments=[{"name": "other", "token": 5}, {"name": "j", "token": 5}])


def worker(alone: Alone, *answers: Any) -> tuple[Worker, Told]:
    told = Told(*answers)
    return Worker(alone.world, told, OPTIONS), told


async def with_sources(alone: Alone) -> list[Source]:
    sources = [source(1, (("a", "x", b"111"),)), source(2, (("a", "y", b"2222"),))]
    for number, of in enumerate(sources, 1):
        await alone.real.put(PATHS[number], of.body)
    return sources


async def a_job_is_done_and_reported(alone: Alone) -> None:
    sources = await with_sources(alone)
    await alone.real.put(f"blocks/1/a/{ulid(7)}/block.bin", b"old")
    tomb = Tombstones(index=3, blocks=BlockTombstones(name="t", shard=1, tenant="a", compaction_level=1, blocks=[ulid(7),
        ulid(8)]))
    of, told = worker(alone, given(tomb), LEASE, PollResponse())
    same(await of.once(), True)
    (result,) = merge.merged(1, 1, sources)
    first, renewal, report = told.asked
    same(first, PollRequest(job_capacity=1, takes_overdue=True))
    same(renewal, PollRequest(status_updates=[{"name": "j", "token": 5, "status": IN_PROGRESS}]))
    same(report, PollRequest(status_updates=[{
        "name": "j", "token": 5, "status": SUCCESS, "deleted": [{"index": 3, "name": "t"}],
        "compacted_blocks": {"source_blocks": {"shard": 1, "blocks": [ulid(1), ulid(2)]}, "new_blocks": [result.block]}}]))
    same((await alone.real.get(RESULT)).body, result.body)
    await alone.raises(NotFound, alone.real.get(f"blocks/1/a/{ulid(7)}/block.bin"))
    same(alone.sent(), ["get block.bin", "get block.bin", "create block.bin", "delete block.bin", "delete block.bin"])
    same((alone.counted, alone.warnings), (["index_jobs_done"], []))


async def a_job_has_many_sources_and_tombstones(alone: Alone) -> None:
    """One of the datasets is empty. It stays, and so does its result."""
    for number in range(40):
        made = source(number, ((f"t{number:02}", "x", b"" if number == 7 else b"1"),))
        await alone.real.put(f"segments/1/anonymous/{ulid(number)}/block.bin", made.body)
    tombs = [Tombstones(index=number, blocks=BlockTombstones(name="t", shard=1, blocks=[ulid(99)])) for number in range(40)]
    of, told = worker(alone, LEASE, PollResponse())
    task = PollResponse(compaction_jobs=[job(*tombs, source_blocks=[ulid(number) for number in range(40)])]).compaction_jobs[0]
    await of.work(task, 5)
    report = told.asked[-1].status_updates[0]
    same([one.string_table[one.tenant] for one in report.compacted_blocks.new_blocks],
         [f"t{number:02}" for number in range(40)])
    same(([key.index for key in report.deleted], len(report.compacted_blocks.source_blocks.blocks)), ([*range(40)], 40))


async def a_job_of_a_tenant_is_reported_with_its_tenant(alone: Alone) -> None:
    made = source(1, (("a", "x", b"1"),), tenant="a")
    await alone.real.put(f"blocks/1/a/{ulid(1)}/block.bin", made.body)
    of, told = worker(alone, LEASE, PollResponse())
    task = PollResponse(compaction_jobs=[job(tenant="a", compaction_level=1, source_blocks=[ulid(1)])]).compaction_jobs[0]
    same(await of.work(task, 5), None)
    report = told.asked[-1].status_updates[0].compacted_blocks
    same((report.source_blocks.tenant, report.source_blocks.shard, list(report.source_blocks.blocks)), ("a", 1, [ulid(1)]))
    same([one.compaction_level for one in report.new_blocks], [2])


async def a_worker_without_a_job_rests(alone: Alone) -> None:
    of, told = worker(alone, PollResponse(), GONE)
    same((await of.once(), await of.once(), alone.warnings), (False, False, [f"the index gives no job: {GONE}"]))
    began = alone.now
    of, told = worker(alone, PollResponse(), PollResponse(), Cancelled())
    await alone.raises(Cancelled, of.run())
    same((alone.now - began, len(told.asked)), (1_400, 3))
    began = alone.now
    await with_sources(alone)
    of, told = worker(alone, given(), LEASE, PollResponse(), Cancelled())
    await alone.raises(Cancelled, of.run())
    same(alone.now - began, 0)
    of, told = worker(alone, given(), GONE, GONE, KeyError("odd"), PollResponse(), Cancelled())
    await alone.raises(Cancelled, of.run())  # it rests after failures, the longer the more there were
    same((alone.now - began, alone.warnings[-1]), (700 + 1_400 + 2_800 + 700, "the index gives no job: KeyError: 'odd'"))
    same(pauses.pause_ms(700, 99), 60_000)


async def a_lost_job_is_not_reported(alone: Alone) -> None:
    await with_sources(alone)
    for answer, text in ((PollResponse(), "j is somebody else's, or over"), (GONE, str(GONE)),
                         (PollResponse(assignments=[{"name": "j", "token": 4}, {"name": "k", "token": 5}]),
                          "j is somebody else's, or over")):
        alone.counted, alone.warnings = [], []
        of, told = worker(alone, given(), answer)
        same((await of.once(), len(told.asked), alone.counted), (True, 2, ["index_jobs_failed"]))
        same((alone.warnings, alone.sent()), ([f"job j: {text}"], []))
    of, told = worker(alone, LEASE, LEASE, PollResponse())
    began = alone.now
    task = given().compaction_jobs[0]
    await alone.raises(JobLost, of.renewing(task, 5))
    same((alone.now - began, len(told.asked)), (1_500, 3))


async def sources_that_are_gone_or_damaged_fail_the_job(alone: Alone) -> None:
    of, _ = worker(alone, given(), LEASE)
    same((await of.once(), alone.counted), (True, ["index_jobs_failed"]))
    await with_sources(alone)
    await alone.real.put(PATHS[2], b"damaged")
    of, told = worker(alone, given(), LEASE)
    same((await of.once(), alone.counted, len(told.asked)), (True, ["index_jobs_failed"] * 2, 2))
    lost = source(2, (("a", "x", b"1"),)).block
    lost.datasets[0].name = 99
    await alone.real.put(PATHS[2], with_footer(lost, b"head1").body)
    of, told = worker(alone, given(), LEASE)
    same((await of.once(), alone.counted, len(told.asked)), (True, ["index_jobs_failed"] * 3, 2))
    unnamed = PollResponse(compaction_jobs=[job()])
    of, told = worker(alone, unnamed)
    same((await of.once(), alone.counted, alone.warnings[-1]), (True, ["index_jobs_failed"] * 4, "job j: KeyError: 'j'"))
    same(USUAL, Options(5_000, 5_000, 10))


async def a_report_is_repeated_after_an_error(alone: Alone) -> None:
    await with_sources(alone)
    began = alone.now
    of, told = worker(alone, given(), LEASE, GONE, GONE, PollResponse())
    same((await of.once(), alone.counted, alone.now - began), (True, ["index_jobs_done"], 200))
    same([one == told.asked[-1] for one in told.asked[2:]], [True] * 3)
    of, told = worker(alone, given(), LEASE, GONE, GONE, GONE)
    same((await of.once(), alone.counted, len(told.asked)), (True, ["index_jobs_done", "index_jobs_failed"], 5))


async def a_result_that_is_there_is_reported_as_it_is(alone: Alone) -> None:
    sources = await with_sources(alone)
    (result,) = merge.merged(1, 1, sources)
    other = BlockMeta()
    other.CopyFrom(result.block)
    other.format_version = 9
    other.size = 0
    there = result.body[:result.block.metadata_offset] + footer(other)
    await alone.real.put(RESULT, there)
    of, told = worker(alone, LEASE, PollResponse())
    await of.work(given().compaction_jobs[0], 5)
    other.size = len(there)
    same(list(told.asked[-1].status_updates[0].compacted_blocks.new_blocks), [other])


async def a_put_is_repeated_while_its_outcome_is_unknown(alone: Alone) -> None:
    sources = await with_sources(alone)
    (result,) = merge.merged(1, 1, sources)
    of, _ = worker(alone)
    for how in (LOST, OutcomeUnknown):
        alone.fails("create", "blocks/", how)
        same(await of.put(result), result)
        await alone.real.delete(RESULT)
    alone.fails("create", "blocks/", OutcomeUnknown, 3)
    alone.sent()
    raised = await alone.raises(OutcomeUnknown, of.put(result))
    same((str(raised), alone.sent()), (f"{RESULT!r} could not be put, 3 times over", ["create block.bin"] * 3))
    alone.fails("create", "blocks/", Unavailable)
    await alone.raises(Unavailable, of.put(result))

    async def appears() -> None:
        await alone.real.put(RESULT, b"")

    async def goes() -> None:
        await alone.real.delete(RESULT)

    alone.fails("create", "blocks/", appears)
    alone.fails("get", "blocks/", goes)
    same(await of.put(result), result)
    same((await alone.real.get(RESULT)).body, result.body)


# --- deleting

UNIT = Tombstones(index=4, shard={"name": "u", "timestamp": START_S * S, "duration": WINDOW_S * S, "shard": 1, "tenant": "a"})


async def what_jobs_have_carried_in_vain_is_deleted(alone: Alone) -> None:
    inside, outside = ulid(1, 0), ulid(2, WINDOW_S)
    kept = [f"blocks/1/a/{outside}/block.bin", f"blocks/11/a/{inside}/block.bin", f"blocks/1/ab/{inside}/block.bin",
            f"segments/1/anonymous/{inside}/block.bin"]
    made = [f"blocks/1/anonymous/{of}/block.bin" for of in (inside, outside)]
    for path in (*kept, *made, f"blocks/1/a/{inside}/block.bin", "blocks/1/a/x/y"):
        await alone.real.put(path, b"")
    tomb = Tombstones(index=3, blocks=BlockTombstones(name="t", shard=1, blocks=[ulid(7)]))
    of, told = worker(alone, PollResponse(overdue=[UNIT, tomb]), PollResponse())
    same(await of.once(), False)
    same(told.asked[1], PollRequest(status_updates=[{"deleted": [{"index": 4, "name": "u"}, {"index": 3, "name": "t"}]}]))
    same([entry.key for entry in (await alone.real.list_page("")).entries], sorted([*kept, *made, "blocks/1/a/x/y"]))
    anonymous = Tombstones()
    anonymous.CopyFrom(UNIT)
    anonymous.shard.tenant = ""
    of, told = worker(alone, PollResponse(overdue=[anonymous]), PollResponse())
    await of.once()
    same([entry.key for entry in (await alone.real.list_page("")).entries], sorted([*kept[:3], made[1], "blocks/1/a/x/y"]))
    of, told = worker(alone, PollResponse())
    same((await of.once(), len(told.asked), alone.warnings), (False, 1, []))


async def what_cannot_be_deleted_is_not_reported(alone: Alone) -> None:
    tomb = Tombstones(index=3, blocks=BlockTombstones(name="t", shard=1, blocks=[ulid(7)]))
    alone.fails("delete", "", Unavailable)
    of, told = worker(alone, PollResponse(overdue=[tomb]))
    same((await of.once(), len(told.asked)), (False, 1))
    check(alone.warnings[0].startswith("not everything was deleted: as the script says"), "a failed deletion is a warning")
    await with_sources(alone)
    other = Tombstones(index=4, blocks=BlockTombstones(name="u", shard=1, blocks=[ulid(8)]))
    alone.fails("delete", "", Unavailable)
    of, told = worker(alone, given(tomb, other), LEASE, PollResponse())
    same((await of.once(), alone.counted), (True, ["index_deletions_failed"] * 2 + ["index_jobs_done"]))
    same(told.asked[-1].status_updates[0].deleted[:], [TombstoneKey(index=4, name="u")])
    of, told = worker(alone, PollResponse(overdue=[tomb]), GONE)
    same((await of.once(), alone.warnings[-1]), (False, f"the index was not told what is deleted: {GONE}"))


SCRIPTS: tuple[Script, ...] = (
    datasets_are_merged_by_tenant, datasets_without_times_or_data, damaged_objects_are_refused, a_job_is_done_and_reported,
    a_job_has_many_sources_and_tombstones, a_job_of_a_tenant_is_reported_with_its_tenant, a_worker_without_a_job_rests,
    a_lost_job_is_not_reported, sources_that_are_gone_or_damaged_fail_the_job, a_report_is_repeated_after_an_error,
    a_result_that_is_there_is_reported_as_it_is, a_put_is_repeated_while_its_outcome_is_unknown,
    what_jobs_have_carried_in_vain_is_deleted, what_cannot_be_deleted_is_not_reported)
