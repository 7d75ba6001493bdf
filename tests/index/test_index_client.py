"""Our client of an index, against servers that answer with recorded bytes, that refuse, that are gone, or that hang."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from highwater.impl.codecs.index.footer import TAIL
from highwater.impl.codecs.index.messages import CLASSES, QueryRequest, encode
from highwater.impl.index.service.codes import code_of
from highwater.impl.index.service.service import Reply
from highwater.impl.raft.faults import NodeStopped, NotLeader
from highwater.impl.stores.certificates import NotEncrypted
from highwater.impl.stores.grpc_calls import Asked, Channel, Refused, Unclear, serving
from highwater.impl.stores.stream_net import Address, AddressInUse
from highwater.index.client import Client
from highwater.servers.leash import free_port
from tests.support.certificates import Authority

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden/index/pyroscope.json").read_text())
QUERY, ADD = QueryRequest(tenant_id=["t"], query="{}"), CLASSES["AddBlockRequest"](block={"id": "x"})
HERE = Address("127.0.0.1", 0)


class Server:
    """A server that gives one reply to everything, and keeps what it was asked."""

    def __init__(self, reply: Reply, after_s: float = 0.0):
        self.reply, self.after_s, self.asked = reply, after_s, []

    async def answer(self, path: str, body: bytes, stale: bool) -> Reply:
        self.asked.append((path, body, stale))
        await asyncio.sleep(self.after_s)
        return self.reply


def run(servers: list[Server], work: Any, limit_s: float = 20.0) -> Any:
    """Run `work(client)` with a client of these servers, named 1, 2, .."""
    async def nested(at: int, nodes: dict[str, Address]) -> Any:
        if at == len(servers):
            async with Client(nodes, limit_s=limit_s) as client:
                return await work(client)
        async with serving(HERE, Asked(servers[at].answer, {})) as port:
            return await nested(at + 1, {**nodes, str(at + 1): HERE._replace(port=port)})

    return asyncio.run(nested(0, {}))


def test_bytes_that_pyroscope_wrote_are_read():
    metadata = [bytes.fromhex(case["hex"])[:-TAIL.size] for case in GOLDEN["footers"]]
    answer = b"".join(b"\x0a" + varint(len(body)) + body for body in metadata)
    server = Server(Reply("OK", body=answer))
    found = run([server], lambda client: client.call(QUERY, stale=True))
    assert [encode(block) for block in found.blocks] == metadata
    assert server.asked == [("/metastore.v1.MetadataQueryService/QueryMetadata", encode(QUERY), True)]


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def test_a_refusal_is_final_and_a_leader_that_is_named_is_asked():
    wrong = Server(Reply("INVALID_ARGUMENT", "no"))
    with pytest.raises(Refused, match="INVALID_ARGUMENT: no"):
        run([wrong, wrong], lambda client: client.call(ADD))
    assert len(wrong.asked) == 1
    third = Server(Reply("OK"))
    servers = [*(Server(Reply("UNAVAILABLE", "ask 3", leader="3=x:1")) for _ in range(2)), third]

    async def twice(client: Client) -> None:
        await client.call(ADD)
        await client.call(ADD)

    run(servers, twice)
    assert len(third.asked) == 2 and sum(len(one.asked) for one in servers[:2]) <= 2


def test_without_an_answer_the_call_is_unclear_and_ends_in_time():
    begun_s = time.monotonic()
    with pytest.raises(Unclear, match="DEADLINE_EXCEEDED|UNAVAILABLE"):
        run([Server(Reply("OK"), after_s=60.0)], lambda client: client.call(ADD), limit_s=0.5)
    with pytest.raises(Unclear, match="UNKNOWN: .*: perhaps"):
        run([Server(Reply("UNKNOWN", "perhaps"))], lambda client: client.call(ADD), limit_s=0.5)

    async def gone() -> None:
        async with Client({"1": Address("127.0.0.1", free_port())}, limit_s=0.5) as client:
            await client.call(ADD)

    with pytest.raises(Unclear, match="UNAVAILABLE"):
        asyncio.run(gone())
    assert time.monotonic() - begun_s < 30


@pytest.mark.parametrize("error, kind", [(NotLeader("1", "2"), Refused), (NodeStopped("it stopped"), Unclear)])
def test_a_stream_that_fails_says_why(error, kind):
    async def parts(path: str, body: bytes):
        yield b"a"
        raise error

    async def work() -> None:
        asked = Asked(Server(Reply("OK")).answer, {"/x/Y": parts})
        async with serving(HERE, asked) as port, Channel(HERE._replace(port=port)) as channel:
            with pytest.raises(kind, match=str(error)):
                [part async for part in channel.parts("/x/Y", b"", 10.0)]

    asyncio.run(work())


def test_the_code_of_a_stream_is_that_of_a_call():
    async def life() -> None:
        async def parts(path: str, body: bytes):
            raise NotLeader("1", "")
            yield b""

        asked = Asked(Server(Reply("OK")).answer, {"/x/Y": parts}, code_of)
        async with serving(HERE, asked) as port, Channel(HERE._replace(port=port)) as channel:
            with pytest.raises(Unclear, match="^UNAVAILABLE: "):
                [part async for part in channel.parts("/x/Y", b"", 10.0)]

    asyncio.run(life())


def test_connections_are_encrypted_with_the_clusters_certificates(tmp_path):
    ours, strange = (Authority(tmp_path, name).signed(f"node of {name}") for name in ("ours", "strange"))
    server = Server(Reply("OK"))

    async def work() -> None:
        async with serving(HERE._replace(port=free_port()), Asked(server.answer, {}), ours) as port:
            async with Channel(HERE._replace(port=port), ours) as channel:
                assert await channel.call("/x/Y", b"1", 10.0) == b""
            for files in (None, strange):
                async with Channel(HERE._replace(port=port), files) as channel:
                    with pytest.raises(Unclear):
                        await channel.call("/x/Y", b"2", 3.0)
        assert [body for _, body, _ in server.asked] == [b"1"]
        with pytest.raises(NotEncrypted):
            async with serving(Address("0.0.0.0", free_port()), Asked(server.answer, {})):
                pass
        async with serving(HERE, Asked(server.answer, {})) as port:
            with pytest.raises(AddressInUse):
                async with serving(HERE._replace(port=port), Asked(server.answer, {})):
                    pass

    asyncio.run(work())
