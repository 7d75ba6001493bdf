"""Our client of an index, against servers that answer with recorded bytes, that refuse, that are gone, or that hang."""

import asyncio
import json
import os
import ssl
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from highwater.impl.codecs.index.footer import TAIL
from highwater.impl.codecs.index.messages import CLASSES, QueryRequest, encode
from highwater.impl.index.service.codes import code_of
from highwater.impl.index.service.service import Reply
from highwater.impl.raft.faults import NodeStopped, NotLeader
from highwater.impl.stores import front, grpc_calls
from highwater.impl.stores.certificates import NotEncrypted
from highwater.impl.stores.connections import OTHER_FILES
from highwater.impl.stores.front import Bounds
from highwater.impl.stores.grpc_calls import Asked, Channel, Refused, Unclear, serving
from highwater.impl.stores.roles import Roles
from highwater.impl.stores.stream_net import Address, AddressInUse
from highwater.index.client import PATHS, Client
from highwater.index.operator import CHECK, SNAPSHOT, STATUS, role_of
from highwater.servers.leash import free_port
from tests.support.certificates import Authority
from tests.support.holding import held

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden/index/pyroscope.json").read_text())
QUERY, ADD = QueryRequest(tenant_id=["t"], query="{}"), CLASSES["AddBlockRequest"](block={"id": "x"})
HERE = Address("127.0.0.1", 0)
QUERY_PATH = PATHS["QueryMetadataRequest"]


def client_hello() -> bytes:
    """Return the first bytes of a client of TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="x").do_handshake()
    return outgoing.read()


CLIENT_HELLO = client_hello()


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


# --- limits and roles


@pytest.mark.parametrize("first", (b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", CLIENT_HELLO),
                         ids=("silent", "preface", "client hello"))
@pytest.mark.parametrize("is_encrypted", (False, True))
def test_held_connections_keep_no_client_out(tmp_path, first, is_encrypted):
    async def work():
        files = Authority(tmp_path).signed("node") if is_encrypted else None
        place = HERE._replace(port=free_port())
        async with serving(place, Asked(Server(Reply("OK")).answer, {}), files), held(*place, 400, first):
            descriptors = len(os.listdir("/proc/self/fd"))
            assert descriptors < Bounds().files() + OTHER_FILES
            for _ in range(5):
                async with Client({"1": place}, files, 20.0) as client:
                    await client.call(ADD)

    asyncio.run(work())


def test_silent_connections_do_not_last(monkeypatch):
    monkeypatch.setattr(front, "HANDSHAKE_S", 1.0)
    monkeypatch.setattr(grpc_calls, "HANDSHAKE_S", 1.0)

    async def work():
        async with serving(HERE, Asked(Server(Reply("OK")).answer, {})) as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
            for _, writer in held[::2]:
                writer.write(b"PRI * HTTP/2.0\r\n")
            await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in held), return_exceptions=True), 15.0)
            for _, writer in held:
                writer.close()

    asyncio.run(work())


def test_idle_connections_of_the_api_are_closed(monkeypatch):
    monkeypatch.setattr(grpc_calls, "IDLE_MS", 1_000)

    async def work():
        async with serving(HERE, Asked(Server(Reply("OK")).answer, {})) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")  # a connection of HTTP/2 without a call
            async with asyncio.timeout(20.0):
                assert b"connection idle" in await reader.read()
            writer.close()

    asyncio.run(work())


def test_clients_take_no_slot_of_operators(tmp_path):
    async def work():
        authority, roles = Authority(tmp_path), Roles("main", required=True)
        asked = Asked(Server(Reply("OK", body=b"x")).answer, {}, code_of, roles, role_of)
        bounds = Bounds(clients=2, operators=1)  # one of them of an address
        async with AsyncExitStack() as several:
            port = await several.enter_async_context(serving(HERE._replace(port=free_port()), asked, authority.signed("node"),
                                                             bounds=bounds))
            first, second, operator, other = [
                await several.enter_async_context(Channel(HERE._replace(port=port),
                                                          authority.signed(name, roles=[roles.uri(role)])))
                for name, role in (("a", "client"), ("b", "client"), ("c", "operator"), ("d", "operator"))]
            for channel in (first, second):
                with pytest.raises(Refused, match="PERMISSION_DENIED"):
                    await channel.call(STATUS, b"", 20.0)
            assert await first.call(QUERY_PATH, b"", 20.0) == b"x"
            for _ in range(2):
                with pytest.raises(Refused, match="RESOURCE_EXHAUSTED: this node has no room for more connections"):
                    await second.call(QUERY_PATH, b"", 20.0)
            assert await second.call(CHECK, b"", 20.0) == b"x"
            assert await operator.call(STATUS, b"", 20.0) == b"x"
            with pytest.raises(Refused, match="no room"):
                await other.call(STATUS, b"", 20.0)
            assert await first.call(QUERY_PATH, b"", 20.0) == b"x" and await operator.call(QUERY_PATH, b"", 20.0) == b"x"

    asyncio.run(work())


@pytest.mark.parametrize("name", ("odd %41 é", "long" * 40))
def test_any_temporary_folder_will_do(tmp_path, monkeypatch, name):
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))

    async def work():
        async with serving(HERE._replace(port=free_port()), Asked(Server(Reply("OK", body=b"x")).answer, {}),
                           bounds=Bounds(clients=1)) as port, Channel(HERE._replace(port=port)) as channel:
            assert await channel.call(QUERY_PATH, b"", 20.0) == b"x"

    asyncio.run(work())


@pytest.mark.parametrize("given,path,refusal", (
    ("client", QUERY_PATH, ""), ("operator", QUERY_PATH, ""), ("operator", STATUS, ""), ("client", CHECK, ""),
    ("peer/1", CHECK, ""), ("", CHECK, ""),
    ("client", STATUS, "is for highwater://main/client, and not for highwater://main/operator"),
    ("client", SNAPSHOT, "and not for highwater://main/operator"),
    ("client", "/metastore.v1.TenantService/DeleteTenant", "and not for highwater://main/operator"),
    ("peer/1", QUERY_PATH, "is for highwater://main/peer/1, and not for highwater://main/client"),
    ("", QUERY_PATH, "required"), ("", STATUS, "required"), ("", SNAPSHOT, "required"),
))
@pytest.mark.parametrize("required", (False, True))
def test_a_call_needs_the_role_of_its_path(tmp_path, given, path, refusal, required):
    async def parts(path: str, body: bytes):
        yield b"part"

    async def work():
        authority, roles = Authority(tmp_path), Roles("main", required)
        files = authority.signed("caller", roles=[roles.uri(given)] if given else [])
        asked = Asked(Server(Reply("OK", body=b"x")).answer, {SNAPSHOT: parts}, code_of, roles, role_of)
        async with serving(HERE._replace(port=free_port()), asked, authority.signed("node")) as port, \
                Channel(HERE._replace(port=port), files) as channel:
            why = refusal if refusal != "required" else "roles are required, and the certificate has none" if required else ""
            try:
                if path == SNAPSHOT:
                    assert [part async for part in channel.parts(path, b"", 20.0)] == [b"part"] and not why
                else:
                    assert await channel.call(path, b"", 20.0) == b"x" and not why
            except Refused as error:
                assert error.code == "PERMISSION_DENIED" and why and why in str(error) and path in str(error)

    asyncio.run(work())
