"""A client made of Pyroscope's published API adds to our index, polls it and queries it, and reads our answers.

tools/index is that client. It needs Go; without it the test is skipped.
"""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.messages import BlockMeta, Dataset
from tests.index.processes import Cluster, cluster
from tests.index.test_index_process import fresh
from tests.support.go import built

pytestmark = pytest.mark.interop
SOURCES = Path(__file__).resolve().parents[2] / "tools" / "index"


class Theirs:
    """The client, asked one call at a time."""

    def __init__(self, at: str):
        program = built(SOURCES, "index-client", "Pyroscope's client")
        self.process = subprocess.Popen([program, at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, method: str, **request: Any) -> dict[str, Any]:
        """Return the answer, or the code and its reason."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"method": method, "request": request}) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        return told.get("answer", told)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def as_json(made: Any) -> dict[str, Any]:
    return json_format.MessageToDict(made)


def whole(**more: Any) -> dict[str, Any]:
    return {"tenantId": ["acme"], "startTime": 0, "endTime": 1 << 62, "query": "{}", **more}


async def played(one: Cluster) -> None:
    await one.leader()
    theirs = Theirs(str(one.apis["1"]))
    try:
        adds_and_asks(theirs)
        compacts(theirs)
    finally:
        theirs.close()


def adds_and_asks(theirs: Theirs) -> None:
    blocks = [fresh(number) for number in range(20)]
    for made in (*blocks, blocks[0]):
        assert theirs("AddBlock", block=as_json(made)) == {}
    found = theirs("QueryMetadata", **whole(query='{kind="cpu"}', labels=["kind"]))["blocks"]
    assert [of["id"] for of in found] == [of.id for of in blocks]
    assert [found[3]["stringTable"][n] for n in found[3]["datasets"][0]["labels"][1:]] == ["kind", "cpu"]
    (one,) = theirs("QueryMetadataLabels", **whole(labels=["kind"]))["labels"]
    assert one == {"labels": [{"name": "kind", "value": "cpu"}]}
    assert theirs("GetTenants") == {"tenantIds": ["acme"]}
    assert theirs("GetTenant", tenantId="acme")["stats"]["dataIngested"] is True
    some = {"tenant": "acme", "shard": 1, "blocks": [blocks[7].id, "01JY5YREN00000000000000009"]}
    assert [of["id"] for of in theirs("GetBlockMetadata", blocks=some)["blocks"]] == [blocks[7].id]
    for method, request, code in (("QueryMetadata", whole(query="{"), "InvalidArgument"),
                                  ("QueryMetadata", {"query": "{}"}, "InvalidArgument"),
                                  ("AddBlock", {"block": {**as_json(blocks[1]), "id": "!" * 26}}, "InvalidArgument"),
                                  ("AddBlock", {"block": as_json(fresh_of_long_ago())}, "FailedPrecondition"),
                                  ("DeleteTenant", {"tenantId": "acme"}, "Unimplemented")):
        told = theirs(method, **request)
        assert told.get("code") == code and told["text"], told


def fresh_of_long_ago() -> Any:
    made = fresh(99)
    made.id = "01JY5YREN00000000000000009"  # of 2025: behind the horizon
    return made


def compacts(theirs: Theirs) -> None:
    """Compact the twenty blocks as a released worker does, which confirms no deletion."""
    for _ in range(2):  # a job is planned, and then assigned
        told = theirs("PollCompactionJobs", jobCapacity=1)
    assert "compactionJobs" in told, told
    (job,), (lease,) = told["compactionJobs"], told["assignments"]
    assert len(job["sourceBlocks"]) == 20 and job["tenant"] == "acme" and lease["name"] == job["name"]
    going = {"name": job["name"], "token": lease["token"], "status": "COMPACTION_STATUS_IN_PROGRESS"}
    assert theirs("PollCompactionJobs", statusUpdates=[going])["assignments"][0]["token"] == lease["token"]
    sources = theirs("QueryMetadata", **whole(labels=["kind"]))["blocks"]
    result = merged(sources, names.compacted_id(job["sourceBlocks"], 1, "acme"))
    done = {**going, "status": "COMPACTION_STATUS_SUCCESS", "compactedBlocks": {
        "sourceBlocks": {"tenant": "acme", "shard": 1, "blocks": job["sourceBlocks"]}, "newBlocks": [result]}}
    assert theirs("PollCompactionJobs", statusUpdates=[{**done, "token": "7"}]) == {}, "somebody else's token"
    assert len(theirs("QueryMetadata", **whole())["blocks"]) == 20
    theirs("PollCompactionJobs", statusUpdates=[done])
    (found,) = theirs("QueryMetadata", **whole())["blocks"]
    assert found["id"] == result["id"] and len(found["datasets"]) == 20
    assert theirs("AddBlock", block=sources[0]) == {}, "a retry of what is compacted is answered, and changes nothing"
    assert len(theirs("QueryMetadata", **whole())["blocks"]) == 1


def merged(sources: list[dict[str, Any]], ulid: str) -> dict[str, Any]:
    """Return the metadata of the block that has the datasets of these."""
    made = BlockMeta(id=ulid, shard=1, compaction_level=1, tenant=1, min_time=min(int(of["minTime"]) for of in sources),
                     max_time=max(int(of["maxTime"]) for of in sources), string_table=["", "acme", "kind", "cpu"])
    for source in sources:
        for of in source["datasets"]:
            made.string_table.append(source["stringTable"][of["name"]])
            made.datasets.append(Dataset(tenant=1, name=len(made.string_table) - 1, min_time=int(of["minTime"]),
                                         max_time=int(of["maxTime"]), labels=[1, 2, 3]))
    return as_json(made)


def test_a_client_of_the_published_api_is_served(tmp_path):
    async def life() -> None:
        async with cluster(tmp_path, names=("1",)) as one:
            await played(one)

    asyncio.run(life())
