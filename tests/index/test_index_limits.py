"""A server of an index with clients that ask too much: others are answered meanwhile, and memory stays bounded."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import CLASSES, BlockMeta, Dataset, QueryRequest, encode
from highwater.impl.index.query.meter import Meter
from highwater.impl.index.service.limits import Limits
from highwater.impl.index.service.service import Reply
from highwater.impl.stores import grpc_calls
from highwater.impl.stores.grpc_calls import Asked, Channel, Refused, Unclear, cut, serving
from highwater.impl.stores.in_flight import InFlight
from highwater.impl.stores.stream_net import Address
from highwater.index.client import PATHS
from highwater.index.server import Server, Settings, running

HERE = Address("127.0.0.1", 0)
NOW_MS = time.time_ns() // 1_000_000


@asynccontextmanager
async def server(folder: Any, **limits: int) -> AsyncIterator[tuple[Server, Channel]]:
    """Give a running index of one node, and a channel to it."""
    of = Settings(str(folder), api=HERE, limits=Limits(**limits))
    async with running(of) as found, Channel(HERE._replace(port=found.port)) as channel:
        while not found.leads():
            await asyncio.sleep(0.05)
        yield found, channel


def bomb(number: int, sets: int, letters: str = "n") -> Any:
    """Return a block whose label sets all have other names."""
    table = ["", "t", "w", *(f"{letters}{at}" for at in range(sets))]
    made = BlockMeta(id=ulids.made(NOW_MS, b"\0" * 8 + number.to_bytes(2)), tenant=1, shard=1, created_by=2, min_time=NOW_MS,
                     max_time=NOW_MS + 1, string_table=table)
    labels = [part for at in range(sets) for part in (1, 3 + at, 3 + at)]
    made.datasets.append(Dataset(tenant=1, name=2, min_time=NOW_MS, max_time=NOW_MS + 1, labels=labels))
    return made


def asked(**fields: Any) -> Any:
    return QueryRequest(**{"tenant_id": ["t"], "start_time": 0, "end_time": 1 << 62, "query": "{}", **fields})


async def call(channel: Channel, request: Any, timeout_s: float = 60.0) -> Any:
    return await channel.call(PATHS[type(request).__name__], encode(request), timeout_s)


@pytest.mark.parametrize("message, fields", [
    ("QueryMetadataRequest", {"tenant_id": ["t"], "end_time": 1 << 62, "query": "{}"}),
    ("QueryMetadataLabelsRequest", {"tenant_id": ["t"], "end_time": 1 << 62, "query": "{}", "labels": ["n1"]}),
    ("GetTenantsRequest", {}), ("GetTenantRequest", {"tenant_id": "t"}),
    ("GetBlockMetadataRequest", {"blocks": {"tenant": "t", "shard": 1, "blocks": [bomb(0, 1).id]}})])
def test_other_calls_are_answered_while_a_read_is_slow(tmp_path, monkeypatch, message, fields):
    """A slow step waits for another call, so it would wait in vain on the event loop."""
    begun, go, real = threading.Event(), threading.Event(), Meter.read

    def slow(self: Meter, rows: int = 1) -> None:
        begun.set()
        assert go.wait(30), "the other calls had no turn"
        real(self, rows)

    async def life() -> None:
        async with server(tmp_path, query_ms=120_000) as (_, channel):
            await call(channel, CLASSES["AddBlockRequest"](block=bomb(0, 10)))
            monkeypatch.setattr(Meter, "read", slow)
            asking = asyncio.ensure_future(call(channel, CLASSES[message](**fields)))
            await asyncio.to_thread(begun.wait, 30)
            await call(channel, CLASSES["AddBlockRequest"](block=bomb(1, 10)))
            go.set()
            assert await asking

    asyncio.run(life())


def test_slow_query_ends_at_its_limit(tmp_path):
    async def life() -> None:
        async with server(tmp_path, query_ms=100) as (of, channel):
            for number in range(2):
                await call(channel, CLASSES["AddBlockRequest"](block=bomb(number, 60_000, f"{number}x")))
            held, ended = of.index.apart, []

            async def slowly(step: Any) -> Any:
                def work() -> Any:
                    time.sleep(0.2)
                    ended.append(step)
                    return step()

                return await held(work)

            of.index.apart = slowly
            labels = CLASSES["QueryMetadataLabelsRequest"](tenant_id=["t"], start_time=0, end_time=1, query="{}")
            for request in (asked(), labels,
                            CLASSES["GetTenantsRequest"](), CLASSES["GetTenantRequest"](tenant_id="t")):
                with pytest.raises(Unclear, match="DEADLINE_EXCEEDED") as raised:
                    await call(channel, request)
                assert "took more than 100 ms: ask for a shorter time" in str(raised.value)
            of.index.apart = held
            of.index.budget = of.index.budget._replace(time_ms=20_000)
            assert await call(channel, asked())
            steps = len(ended)
            await asyncio.sleep(0.5)
            assert len(ended) == steps, "a query that was given up goes on"

    asyncio.run(life())


@pytest.mark.parametrize("fields, what", [
    ({"labels": [f"l{number}" for number in range(60_000)]}, "60,000 labels"), ({"shards": range(2_000)}, "2,000 shards"),
    ({"tenant_id": [f"t{number}" for number in range(2_000)]}, "2,000 tenants"),
    ({"query": "{" + " " * 70_000 + "}"}, "70,002 letters"),
    ({"query": "{" + ",".join(f'a{n}=~"x{n}"' for n in range(400)) + "}"}, "400 matchers")])
def test_large_question_is_refused(tmp_path, fields, what):
    async def life() -> None:
        async with server(tmp_path) as (_, channel):
            before = time.monotonic()
            with pytest.raises(Refused, match="RESOURCE_EXHAUSTED") as raised:
                await call(channel, asked(**fields))
            assert what in str(raised.value) and time.monotonic() - before < 10

    asyncio.run(life())


def test_block_of_many_labels_is_refused_and_letters_of_it_are_moved(tmp_path):
    async def life() -> None:
        async with server(tmp_path, labels=3_000) as (_, channel):
            await call(channel, CLASSES["AddBlockRequest"](block=bomb(1, 1_000)))
            with pytest.raises(Refused, match="3,003 labels of metadata, and this node takes 3,000"):
                await call(channel, CLASSES["AddBlockRequest"](block=bomb(2, 1_001)))

    asyncio.run(life())


# --- answers that nobody reads, and long ones

class Large:
    """It answers each call with so many bytes, and keeps what it holds."""

    def __init__(self, size_bytes: int):
        self.size_bytes, self.under_way, self.most = size_bytes, 0, 0

    async def __call__(self, path: str, body: bytes, stale: bool) -> Reply:
        if path == "/small":
            return Reply("OK", body=b"small")
        await asyncio.sleep(0)
        return Reply("OK", body=bytes(self.size_bytes))


LAZY = """
import asyncio, sys
from highwater.impl.stores.grpc_calls import Channel
from highwater.impl.stores.stream_net import Address

async def asks():
    async with Channel(Address("127.0.0.1", int(sys.argv[1]))) as channel:
        calls = [channel.channel.unary_stream("/large")(b"") for _ in range(60)]
        await asyncio.sleep(100)

asyncio.run(asks())
"""


def test_answers_that_nobody_reads_are_bounded(monkeypatch):
    monkeypatch.setattr(grpc_calls, "SEND_S", 2.0)

    async def life() -> None:
        held, large, calls = InFlight(32 << 20, 40 << 20), Large(4 << 20), 0

        async def answer(path: str, body: bytes, stale: bool) -> Reply:
            nonlocal calls
            calls += 1
            if calls == 2:
                lazy.send_signal(signal.SIGSTOP)
            return await large(path, body, stale)

        async with serving(HERE, Asked(answer, {}), held=held) as port, Channel(HERE._replace(port=port)) as good:
            lazy = await asyncio.create_subprocess_exec(sys.executable, "-c", LAZY, str(port))
            try:
                async with asyncio.timeout(60):
                    while held.total < 24 << 20:
                        await asyncio.sleep(0.05)
                        assert max(held.of.values(), default=0) <= 32 << 20
                    assert await good.call("/small", b"", 20.0) == b"small"
                    while held.total:
                        await asyncio.sleep(0.1)
                assert not held.of, "what nobody reads is let go"
                assert len(await good.call("/large", b"", 20.0)) == 4 << 20
            finally:
                lazy.kill()
                await lazy.wait()

    asyncio.run(life())


def test_requests_under_way_are_bounded():
    async def life() -> None:
        go = asyncio.Event()

        async def answer(path: str, body: bytes, stale: bool) -> Reply:
            await go.wait()
            return Reply("OK")

        held = InFlight(3 << 20, 5 << 20)
        async with serving(HERE, Asked(answer, {}), held=held) as port:
            at = HERE._replace(port=port)
            async with Channel(at) as one, Channel(at._replace(host="localhost")) as two:
                calls = [asyncio.ensure_future(of.call("/x", bytes(1 << 20), 30.0)) for of in (one, two) for _ in range(6)]
                async with asyncio.timeout(30):
                    while sum(one.done() for one in calls) < 7:
                        await asyncio.sleep(0.05)
                        assert held.total <= 5 << 20
                go.set()
                found = await asyncio.gather(*calls, return_exceptions=True)
                refused = [str(one) for one in found if isinstance(one, Refused)]
                assert found.count(b"") == 5 and len(refused) == 7, found
                assert all("RESOURCE_EXHAUSTED" in one and "bytes" in one for one in refused)
        assert held.total == 0 and not held.of

    asyncio.run(life())


@pytest.mark.parametrize("text", ["x" * 1_000_000, "\x1b[2J\n" * 1_000, "é𝄞" * 100_000, "\udcff" * 5_000, ""])
@pytest.mark.parametrize("raises", [False, True])
def test_long_error_arrives_cut_short_with_its_code(text, raises, caplog):
    async def answer(path: str, body: bytes, stale: bool) -> Reply:
        if raises:
            raise RuntimeError(text)
        return Reply("INVALID_ARGUMENT", text)

    async def life() -> None:
        async with serving(HERE, Asked(answer, {})) as port, Channel(HERE._replace(port=port)) as channel:
            with pytest.raises(Unclear if raises else Refused, match="UNKNOWN" if raises else "INVALID_ARGUMENT") as raised:
                await channel.call("/x", b"", 20.0)
            assert len(str(raised.value)) < 8_000 and str(raised.value).isprintable()
            assert ("letters)" in str(raised.value)) == (len(text) > 500)

    asyncio.run(life())
    assert ("in answer" in caplog.text) == raises and len(caplog.text) < 20_000
    assert caplog.text.replace("\n", "").isprintable()


def test_long_query_is_refused_with_what_is_wrong(tmp_path):
    async def life() -> None:
        async with server(tmp_path) as (_, channel):
            with pytest.raises(Refused, match="INVALID_ARGUMENT.*a closing brace"):
                await call(channel, asked(query="{" + "a='b'," * 9_000 + "!"))

    asyncio.run(life())


def test_cut_keeps_short_texts():
    assert cut("a short text: 1,000") == "a short text: 1,000" and cut("a\nb\x1b") == "a\\nb\\x1b"
