"""The calls of the index as bytes: each answers with its code, limits are kept, and what is refused changes nothing."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest

from highwater.impl import errors
from highwater.impl.codecs.index.messages import (
    CLASSES,
    SUCCESS,
    BlockMeta,
    DamagedMessage,
    PollRequest,
    decode,
    encode,
)
from highwater.impl.index import library, replicated
from highwater.impl.index.letters.letter import key_of
from highwater.impl.index.letters.sweeper import Sweeper
from highwater.impl.index.library import Index, InvalidArgument
from highwater.impl.index.query import answers
from highwater.impl.index.service import codes
from highwater.impl.index.service.codes import CODES, UNKNOWN, code_of
from highwater.impl.index.service.limits import Limits
from highwater.impl.index.service.service import METHODS, Reply, Service
from highwater.impl.raft import faults
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World
from tests.impl.index.test_index_library import CONFIG, FAST, first_leader, leads, result, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_index import block

PATH = {method.request: path for path, method in METHODS.items()}
USUAL = Limits()
ASKED = {"tenant_id": ["t"], "start_time": 1000, "end_time": 2000, "query": "{}"}


@asynccontextmanager
async def alone(limits: Limits = USUAL):
    async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
        await leads(index)
        index.most_answer_bytes = limits.answer_bytes
        yield Service(index, limits)


async def asked(service: Service, request: str, stale: bool = False, **fields: Any) -> Reply:
    return await service.call(PATH[request], encode(CLASSES[request](**fields)), stale)


async def told(service: Service, request: str, **fields: Any) -> Any:
    reply = await asked(service, request, **fields)
    assert reply.code == "OK", reply
    return decode(CLASSES[request.removesuffix("Request") + "Response"], reply.body)


def test_each_method_answers_with_its_message():
    async def work():
        async with alone() as service:
            one, two = block(1, tenant="t"), block(2)
            await told(service, "AddBlockRequest", block=one)
            await told(service, "AddBlockRequest", block=two)
            asked_for = {"tenant": "t", "shard": 1, "blocks": [one.id, two.id]}
            assert [of.id for of in (await told(service, "GetBlockMetadataRequest", blocks=asked_for)).blocks] == [one.id]
            assert [of.id for of in (await told(service, "QueryMetadataRequest", **ASKED)).blocks] == [one.id]
            (sets,) = (await told(service, "QueryMetadataLabelsRequest", **ASKED, labels=["kind"])).labels
            assert (sets.labels[0].name, sets.labels[0].value) == ("kind", "cpu")
            assert list((await told(service, "GetTenantsRequest")).tenant_ids) == ["t"]
            assert (await told(service, "GetTenantRequest", tenant_id="t")).stats.newest_profile_time == 2000
            assert not (await told(service, "PollCompactionJobsRequest", job_capacity=0)).compaction_jobs
            reply = await asked(service, "DeleteTenantRequest", tenant_id="t")
            assert reply.code == "UNIMPLEMENTED" and "'t'" in reply.text
            assert (await service.call("/metastore.v1.IndexService/Nothing", b"")).code == "UNIMPLEMENTED"

    run(work())


def result_of(made: Any) -> dict[str, Any]:
    return {"status_updates": [{"compacted_blocks": {"new_blocks": [made]}}]}


LARGE = block(1, data=("d" * 400,))
SMALL = Limits(block_bytes=300, datasets=3, strings=12, request_bytes=2_000, answer_bytes=200, ids=3, calls=2)


@pytest.mark.parametrize("request_, fields, code, why", [
    ("AddBlockRequest", {}, "INVALID_ARGUMENT", "has no block"),
    ("AddBlockRequest", {"block": {"id": "!"}}, "INVALID_ARGUMENT", "!"),
    ("AddBlockRequest", {"block": LARGE}, "RESOURCE_EXHAUSTED", "bytes of metadata, and this node takes 300"),
    ("AddBlockRequest", {"block": block(1, data=tuple("abcd"))}, "RESOURCE_EXHAUSTED", "4 datasets"),
    ("AddBlockRequest", {"block": {"string_table": ["x"] * 13}}, "RESOURCE_EXHAUSTED", "13 strings"),
    ("PollCompactionJobsRequest", result_of(LARGE), "RESOURCE_EXHAUSTED", "this node takes 300"),
    ("PollCompactionJobsRequest", result_of({"id": "!"}), "INVALID_ARGUMENT", "!"),
    ("GetBlockMetadataRequest", {"blocks": {"blocks": ["x"] * 4}}, "RESOURCE_EXHAUSTED", "4 ids, and this node takes 3"),
    ("GetBlockMetadataRequest", {"blocks": {"blocks": ["x"]}}, "INVALID_ARGUMENT", "'x'"),
    ("QueryMetadataRequest", {**ASKED, "tenant_id": []}, "INVALID_ARGUMENT", "tenant_id is empty"),
    ("QueryMetadataRequest", {**ASKED, "query": "{"}, "INVALID_ARGUMENT", "position 1"),
    ("QueryMetadataRequest", ASKED, "RESOURCE_EXHAUSTED", "ask for a shorter time"),
    ("QueryMetadataLabelsRequest", {**ASKED, "start_time": 3000}, "INVALID_ARGUMENT", "after end_time"),
    ("QueryMetadataRequest", {**ASKED, "query": "x" * 3000}, "RESOURCE_EXHAUSTED", "the request has 3,"),
    ("GetTenantRequest", {}, "INVALID_ARGUMENT", "no tenant's"),
])
def test_what_is_refused_has_a_code_and_a_line_and_changes_nothing(request_, fields, code, why):
    async def work():
        async with alone(SMALL) as service:
            for number in range(4):
                await told(service, "AddBlockRequest", block=block(number, tenant="t"))
            before = replicated.dump(service.index.node.value)
            reply = await asked(service, request_, **fields)
            assert (reply.code, why in reply.text, reply.body) == (code, True, b""), reply
            assert replicated.dump(service.index.node.value) == before and not service.under_way

    run(work())


def test_a_node_that_does_not_lead_answers_reads_and_names_the_leader():
    async def work():
        made = worlds(*"123")
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(Index.open(made[name], CONFIG, name, "123", FAST)) for name in "123"]
            leader = await first_leader(nodes)
            other = Service(next(one for one in nodes if one is not leader), Limits())
            await told(Service(leader, Limits()), "AddBlockRequest", block=block(1, tenant="t"))
            stale = await asked(other, "QueryMetadataRequest", stale=True, **ASKED)
            assert stale.code == "OK"  # and may lack the block
            assert len((await told(other, "QueryMetadataRequest", **ASKED)).blocks) == 1
            for request, fields in (("AddBlockRequest", {"block": block(2)}), ("PollCompactionJobsRequest", {})):
                reply = await asked(other, request, stale=True, **fields)
                assert (reply.code, reply.leader) == ("UNAVAILABLE", leader.node.state.me)
        assert (await asked(other, "QueryMetadataRequest", **ASKED)).code == "UNAVAILABLE"

    run(work())


def test_calls_under_way_are_limited():
    async def work():
        async with alone(Limits(calls=2)) as service:
            adding = [asyncio.ensure_future(asked(service, "AddBlockRequest", block=block(number))) for number in range(2)]
            await asyncio.sleep(0)
            reply = await asked(service, "GetTenantsRequest")
            assert reply.code == "RESOURCE_EXHAUSTED" and "2 calls are under way" in reply.text
            assert [(await one).code for one in adding] == ["OK", "OK"]
            assert (await asked(service, "GetTenantsRequest")).code == "OK"

    run(work())


def test_any_bytes_are_answered_and_only_valid_blocks_change_anything():
    async def work():
        draw, codes_met = Random(1), set()
        valid = [encode(CLASSES["AddBlockRequest"](block=block(number, tenant="t"))) for number in range(5)]
        async with alone() as service:
            for _ in range(3_000):
                body = bytearray(draw.choice(valid) if draw.random() < 0.7 else draw.randbytes(draw.randrange(60)))
                for _ in range(draw.randrange(4)):
                    if body:
                        at = draw.randrange(len(body))
                        body[at:at + draw.randrange(3)] = draw.randbytes(draw.randrange(3))
                path = draw.choice(list(METHODS))
                before = replicated.dump(service.index.node.value) if path != PATH["AddBlockRequest"] else b""
                reply = await service.call(path, bytes(body), draw.random() < 0.3)
                codes_met.add(reply.code)
                assert reply.code in ("OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "ABORTED", "UNIMPLEMENTED",
                                      "RESOURCE_EXHAUSTED"), reply
                if reply.code == "INVALID_ARGUMENT" and before:
                    assert replicated.dump(service.index.node.value) == before
        assert {"OK", "INVALID_ARGUMENT", "UNIMPLEMENTED"} <= codes_met

    run(work())


def nested(made: Any, depth: int) -> Any:
    """Return a block with an unknown field that has groups in groups, as deep as this. Raises DamagedMessage."""
    return decode(BlockMeta, encode(made) + b"\xc3\x0c" * depth + b"\xc4\x0c" * depth)


def deepest(takes: Any) -> int:
    """Return how deep a block may be nested for `takes` to succeed."""
    depth = 0
    while True:
        try:
            takes(depth + 1)
        except DamagedMessage:
            return depth
        depth += 1


def test_a_block_that_is_nested_as_deep_as_a_decoder_takes_stops_no_node():
    """An entry has the block inside more messages than the request, the letter or the caller had. None must be committed that
    no node can decode again."""
    async def work():
        async with alone() as service:
            index, store = service.index, MemoryStore()
            deep = nested(block(1, tenant="t"), deepest(lambda depth: nested(block(1), depth)))
            with pytest.raises(InvalidArgument, match="nested"):
                await index.add(deep)
            await store.create(key_of(deep), encode(deep))
            world = World(store, index.world.clock, index.world.ids, index.world.metrics)
            await Sweeper(world, index.add, lambda: True).sweep()
            (left,) = (await store.list_page("", "")).entries
            assert left.key.startswith("dlq-rejected/")
            for number in (2, 3):
                await index.add(block(number))
            await index.poll(PollRequest(job_capacity=1))
            answer = await index.poll(PollRequest(job_capacity=1))
            (job,), (lease,) = answer.compaction_jobs, answer.assignments
            done = {"name": job.name, "token": lease.token, "status": SUCCESS, "compacted_blocks": result(job)}
            body = encode(PollRequest(status_updates=[done]))

            def request(depth: int) -> bytes:
                done["compacted_blocks"].new_blocks[0].CopyFrom(nested(result(job).new_blocks[0], depth))
                made = encode(PollRequest(status_updates=[done]))
                decode(PollRequest, made)
                return made

            reply = await service.call(PATH["PollCompactionJobsRequest"], request(deepest(request)))
            assert reply.code == "INVALID_ARGUMENT" and "nested" in reply.text, reply
            assert (await service.call(PATH["PollCompactionJobsRequest"], body)).code == "OK"
            assert len(await index.get("t", 1, [result(job).new_blocks[0].id])) == 1 and not index.node.stopped

    run(work())


def test_every_error_of_the_index_has_a_code():
    kinds = [kind for module in (library, answers, codes, faults, errors) for kind in vars(module).values()
             if isinstance(kind, type) and issubclass(kind, errors.StoreError)]
    for kind in kinds:
        code = code_of(kind.__new__(kind))
        assert (code == UNKNOWN) == (not issubclass(kind, errors.Definite)), (kind, code)
    assert all(issubclass(kind, errors.StoreError) and then for kind, _, then in CODES)
