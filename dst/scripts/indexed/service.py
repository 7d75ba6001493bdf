"""Scripts of the calls over a network: which code and which bytes a client gets, and what is refused."""

from typing import Any

from highwater.dst.script import MANY, Alone, Script, same
from highwater.dst.scripts.indexed.one import at, block, opened, ulid
from highwater.impl.codecs.index.messages import CLASSES, encode
from highwater.impl.errors import Definite, Indefinite, TimedOut
from highwater.impl.index.library import InvalidArgument, PollAgain, QueryTooLong, TooLate
from highwater.impl.index.query.answers import AnswerTooLarge
from highwater.impl.index.query.meter import QueryTooCostly
from highwater.impl.index.service import codes
from highwater.impl.index.service.codes import OverLimit, code_of
from highwater.impl.index.service.limits import Limits, too_large
from highwater.impl.index.service.service import HANDLERS, METHODS, Reply, Service
from highwater.impl.raft.faults import LeadershipLost, NodeStopped, NotLeader, NotRunning, QueueFull, TooLarge

INDEX, WORKERS, QUERIES, TENANTS = (f"/metastore.v1.{of}Service/" for of in ("Index", "Compaction", "MetadataQuery", "Tenant"))


def service(alone: Alone, **limits: int) -> Any:
    return Service(opened(alone), Limits(**limits))


async def called(of: Any, path: str, message: str, stale: bool = False, **fields: Any) -> Reply:
    return await of.call(path, encode(CLASSES[message](**fields)), stale)


def refused(code: str, text: str, leader: str = "") -> Reply:
    return Reply(code, text, b"", leader)


async def errors_have_codes(alone: Alone) -> None:
    for error, code in (
            (InvalidArgument("x"), "INVALID_ARGUMENT"), (TooLate("x"), "FAILED_PRECONDITION"), (OverLimit("x"),
                "RESOURCE_EXHAUSTED"),
            (QueryTooCostly("x"), "RESOURCE_EXHAUSTED"), (QueryTooLong("x"), "DEADLINE_EXCEEDED"),
            (AnswerTooLarge(5), "RESOURCE_EXHAUSTED"), (TooLarge("x"), "RESOURCE_EXHAUSTED"), (QueueFull("x"),
                "RESOURCE_EXHAUSTED"),
            (PollAgain("x"), "ABORTED"), (NotLeader("a", "b"), "UNAVAILABLE"), (NotRunning("x"), "UNAVAILABLE"),
            (LeadershipLost("x"), "UNKNOWN"), (NodeStopped("x"), "UNKNOWN"), (TimedOut("x"), "UNKNOWN"),
            (Definite("x"), "FAILED_PRECONDITION"), (Indefinite("x"), "UNKNOWN")):
        same(code_of(error), code)
    same((codes.OK, codes.UNIMPLEMENTED, len(codes.CODES)), ("OK", "UNIMPLEMENTED", 14))
    same(sorted(HANDLERS), sorted(method.request for method in METHODS.values()))
    same([path.rpartition("/")[2] for path, method in METHODS.items() if method.reads],
         ["GetBlockMetadata", "QueryMetadata", "QueryMetadataLabels", "GetTenants", "GetTenant"])


async def blocks_are_added_and_read(alone: Alone) -> None:
    of = service(alone)
    made = block(1, tenant="t")
    same(await called(of, INDEX + "AddBlock", "AddBlockRequest", block=made), Reply("OK"))
    found = CLASSES["GetBlockMetadataResponse"](blocks=await of.index.get("t", 1, [ulid(1)]))
    asked = {"tenant": "t", "shard": 1, "blocks": [ulid(1), ulid(2)]}
    reads = of.index.node.reads
    same(await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", blocks=asked), Reply("OK", "", encode(found)))
    same((len(found.blocks), of.index.node.reads), (1, reads + 1))
    same(await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", True, blocks=asked), Reply("OK", "",
        encode(found)))
    same(of.index.node.reads, reads + 1)
    many = [ulid(1)] * MANY
    reply = await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", blocks=asked | {"blocks": many})
    same(len(CLASSES["GetBlockMetadataResponse"].FromString(reply.body).blocks), MANY)
    same(await called(of, INDEX + "AddBlock", "AddBlockRequest"), refused("INVALID_ARGUMENT", "the request has no block"))
    same(await called(of, INDEX + "AddBlock", "AddBlockRequest", block=block(1, min_time=0)),
         refused("INVALID_ARGUMENT", "min_time 0 and max_time 2000 are no range of times after 0"))
    at(alone, 500)
    late = await called(of, INDEX + "AddBlock", "AddBlockRequest", block=block(2))
    same((late.code, late.text[:len(ulid(2)) + 6]), ("FAILED_PRECONDITION", f"block {ulid(2)}"))
    same(await called(of, INDEX + "AddBlock", "AddBlockRequest", block=block(2), past_horizon=True), Reply("OK"))
    same((await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", blocks={"blocks": ["x"]})),
         refused("INVALID_ARGUMENT", "byte 0, ULID: 'x' is not a ULID in its usual form"))


async def what_is_no_call_is_refused(alone: Alone) -> None:
    of = service(alone)
    same(await of.call("/other", b""), refused("UNIMPLEMENTED", "'/other' is no method of this index"))
    reply = await of.call(INDEX + "AddBlock", b"\x08")
    same((reply.code, reply.text[:37], reply.body), ("INVALID_ARGUMENT", "byte 0, request: not a AddBlockReques", b""))
    same(await called(of, TENANTS + "DeleteTenant", "DeleteTenantRequest", tenant_id="t"),
         refused("UNIMPLEMENTED", "tenants are not deleted one by one: retention drops the units of 't'"))
    for error, code, leader in ((NotLeader("a", "b"), "UNAVAILABLE", "b"), (LeadershipLost("gone"), "UNKNOWN", ""),
                                (QueueFull("full"), "RESOURCE_EXHAUSTED", "")):
        of.index.node.troubles = [error]
        same(await called(of, INDEX + "AddBlock", "AddBlockRequest", block=block(1)), refused(code, str(error), leader))
    of.index.node.troubles = [RuntimeError("a bug")]
    await alone.raises(RuntimeError, called(of, INDEX + "AddBlock", "AddBlockRequest", block=block(1)))
    same(of.under_way, 0)


async def what_is_above_a_limit_is_refused(alone: Alone) -> None:
    made = block(1, data=("a", "b"))
    size = made.ByteSize()
    for limits, text in (
            ({"block_bytes": size - 1}, f"{size} bytes of metadata, and this node takes {size - 1}"),
            ({"datasets": 1}, "2 datasets of metadata, and this node takes 1"),
            ({"strings": 5}, "6 strings of metadata, and this node takes 5"),
            ({"labels": 5}, "6 labels of metadata, and this node takes 5")):
        of = service(alone, **limits)
        right = refused("RESOURCE_EXHAUSTED", f"block {ulid(1)!r} has {text}")
        same(await called(of, INDEX + "AddBlock", "AddBlockRequest", block=made), right)
        update = {"name": "j", "status": 2, "compacted_blocks": {"new_blocks": [made]}}
        same(await called(of, WORKERS + "PollCompactionJobs", "PollCompactionJobsRequest", status_updates=[update]), right)
        same((too_large(made, of.limits), of.index.node.index), (right.text, 0))
    same(too_large(made, Limits(block_bytes=size, datasets=2, strings=6, labels=6)), None)
    of = service(alone, query_text=2, query_names=1, updates=2)
    for fields, what in (({"query": "{ }"}, "3 letters of its selector"), ({"tenant_id": ["t", "u"]}, "2 tenants"),
                         ({"shards": [1, 2]}, "2 shards"), ({"labels": ["a", "b"]}, "2 labels")):
        for method in ("QueryMetadata", "QueryMetadataLabels"):
            body = encode(CLASSES[f"{method}Request"](**fields))
            same(await of.call(QUERIES + method, body), refused(
                "RESOURCE_EXHAUSTED", f"the query has {what}, and this node takes {2 if 'letters' in what else 1}"))
    for updates in ([{}, {}, {}], [{"deleted": [{"index": 1}, {"index": 2}]}]):
        same(await called(of, WORKERS + "PollCompactionJobs", "PollCompactionJobsRequest", status_updates=updates), refused(
            "RESOURCE_EXHAUSTED", "the poll has 3 reports and confirmations, and this node takes 2"))
    request = encode(CLASSES["AddBlockRequest"](block=made))
    of = service(alone, request_bytes=len(request) - 1)
    same(await of.call(INDEX + "AddBlock", request), refused(
        "RESOURCE_EXHAUSTED", f"the request has {len(request)} bytes, and this node takes {len(request) - 1}"))
    same((await service(alone, request_bytes=len(request)).call(INDEX + "AddBlock", request)).code, "OK")
    of = service(alone, ids=1, calls=1)
    asked = {"tenant": "t", "shard": 1, "blocks": [ulid(1), ulid(2)]}
    same(await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", blocks=asked),
         refused("RESOURCE_EXHAUSTED", "the request has 2 ids, and this node takes 1"))
    same((await called(of, INDEX + "GetBlockMetadata", "GetBlockMetadataRequest", blocks={"blocks": [ulid(1)]})).code, "OK")
    of.under_way = 1
    same(await called(of, TENANTS + "GetTenants", "GetTenantsRequest"),
         refused("RESOURCE_EXHAUSTED", "1 calls are under way at this node: repeat it later"))
    same(of.under_way, 1)
    same(Limits(), Limits(1 << 20, 10_000, 100_000, 300_000, 4 << 20, 16 << 20, 10_000, 1_000, 64 << 20, 256 << 20, 8, 20_000,
                          10_000_000, 256 << 20, 64 << 10, 1_000, 100, 10_000))
    same([Limits().refusal(), Limits(ids=1).refusal(), Limits(ids=0, calls=0).refusal()],
         ["", "", "the limit ids is 0: at least 1 is needed"])


async def polls_and_queries_are_answered(alone: Alone) -> None:
    of = service(alone)
    index: Any = of.index
    for number in (1, 2):
        await index.add(block(number, tenant="t"))
    at(alone, 1)
    same(await called(of, WORKERS + "PollCompactionJobs", "PollCompactionJobsRequest", job_capacity=1), Reply("OK"))
    reply = await called(of, WORKERS + "PollCompactionJobs", "PollCompactionJobsRequest", job_capacity=1)
    jobs = CLASSES["PollCompactionJobsResponse"].FromString(reply.body).compaction_jobs
    same((reply.code, [list(one.source_blocks) for one in jobs]), ("OK", [[ulid(1), ulid(2)]]))
    asked = {"tenant_id": ["t"], "start_time": 1, "end_time": 5000, "query": "{}", "labels": ["kind"]}
    request = CLASSES["QueryMetadataRequest"](**asked)
    reads = index.node.reads
    for stale in (False, True):
        reply = await called(of, QUERIES + "QueryMetadata", "QueryMetadataRequest", stale, **asked)
        same(reply, Reply("OK", "", encode(await index.query(request, stale=True))))
        reply = await called(of, QUERIES + "QueryMetadataLabels", "QueryMetadataLabelsRequest", stale, **asked)
        same(reply, Reply("OK", "", encode(CLASSES["QueryMetadataLabelsResponse"](
            labels=[{"labels": [{"name": "kind", "value": "cpu"}]}]))))
        reply = await called(of, TENANTS + "GetTenants", "GetTenantsRequest", stale)
        same(reply, Reply("OK", "", encode(CLASSES["GetTenantsResponse"](tenant_ids=["t"]))))
        reply = await called(of, TENANTS + "GetTenant", "GetTenantRequest", stale, tenant_id="t")
        same(reply, Reply("OK", "", encode(CLASSES["GetTenantResponse"](
            stats={"data_ingested": True, "oldest_profile_time": 1000, "newest_profile_time": 2000}))))
    same(index.node.reads, reads + 4)
    same(await called(of, TENANTS + "GetTenant", "GetTenantRequest"),
         refused("INVALID_ARGUMENT", "an empty name is no tenant's"))
    strict = Service(index, Limits(), "prometheus")
    for semantics, count in ((of, 0), (strict, 2)):
        reply = await called(semantics, QUERIES + "QueryMetadata", "QueryMetadataRequest", False,
                             **asked | {"query": '{missing=""}'})
        same(len(CLASSES["QueryMetadataResponse"].FromString(reply.body).blocks), count)
        reply = await called(semantics, QUERIES + "QueryMetadataLabels", "QueryMetadataLabelsRequest",
                             False, **asked | {"query": '{missing=""}'})
        same(len(CLASSES["QueryMetadataLabelsResponse"].FromString(reply.body).labels), count // 2)
    index.most_answer_bytes = 10
    for path, message in (("QueryMetadata", "QueryMetadataRequest"), ("QueryMetadataLabels", "QueryMetadataLabelsRequest")):
        same(await called(of, QUERIES + path, message, **asked), refused("RESOURCE_EXHAUSTED", str(AnswerTooLarge(10))))


SCRIPTS: tuple[Script, ...] = (errors_have_codes, blocks_are_added_and_read, what_is_no_call_is_refused,
                               what_is_above_a_limit_is_refused, polls_and_queries_are_answered)
