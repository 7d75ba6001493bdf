"""A server in this process, of one node: the bounds of a connection, bad requests, and a machine with a bug."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from highwater.cluster import calls, server
from highwater.cluster.client import Client, Connection, Unreachable
from highwater.cluster.server import Server, Settings, running
from highwater.cluster.service import Service
from highwater.impl.errors import Indefinite
from highwater.impl.raft.faults import QueueFull
from highwater.impl.raft.machine import Machine
from highwater.impl.raft.state import LEADER
from highwater.impl.stores.frames import HandshakeRefused, framed
from highwater.impl.stores.stream_net import Address
from highwater.servers.leash import free_port

WAIT_S = 30.0


def apply(count: int, command) -> tuple[int, bytes]:
    if command.body == b"bug":
        raise ZeroDivisionError("a machine must not raise")
    return count + 1, b"%d" % count


COUNTING = Service(Machine(0, apply, lambda count: b"%d" % count, int), lambda count, asked: asked + b"%d" % count)


@asynccontextmanager
async def one(folder) -> AsyncIterator[tuple[Server, Address]]:
    address = Address("127.0.0.1", free_port())
    options = server.OPTIONS._replace(tick_ms=10)
    async with running(Settings(str(folder), "1", {"1": address}, COUNTING, options=options)) as made:
        async with asyncio.timeout(WAIT_S):
            while made.node.state.role != LEADER:
                await asyncio.sleep(0.005)
        yield made, address


def test_requests_of_one_connection_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "REQUESTS", 2)

    async def work():
        async with one(tmp_path) as (_, address):
            connection = await Connection.open(address, "main")
            results = await asyncio.gather(*(connection.ask(calls.PROPOSE, b"x") for _ in range(10)), return_exceptions=True)
            assert {type(result) for result in results} == {bytes, QueueFull}
            assert await connection.ask(calls.QUERY, b"?") == b"?%d" % sum(isinstance(result, bytes) for result in results)
            await connection.close()

    asyncio.run(work())


def test_a_malformed_request_closes_the_connection_and_nothing_else(tmp_path):
    async def work():
        async with one(tmp_path) as (made, address):
            first, second = await Connection.open(address, "main"), await Connection.open(address, "main")
            first.writer.write(framed(b"nonsense!"))
            async with asyncio.timeout(WAIT_S):
                await first.receiver
            with pytest.raises(Unreachable, match="the node closed it"):
                await first.ask(calls.QUERY, b"")
            assert await second.ask(calls.PROPOSE, b"x") == b"0"
            assert made.counters.snapshot()["net_refused_connections"] == 1
            await second.close()

    asyncio.run(work())


def test_a_client_of_another_cluster_is_refused(tmp_path):
    async def work():
        async with one(tmp_path) as (_, address), Client({"1": address}, cluster="other") as client:
            with pytest.raises(HandshakeRefused, match="node '1' is of cluster 'main', and not of 'other'"):
                await client.propose(b"x")

    asyncio.run(work())


def test_a_machine_that_raises_ends_the_process_with_its_error(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)

    async def work():
        async with one(tmp_path) as (made, address), Client({"1": address}, limit_s=1.0) as client:
            proposing = asyncio.ensure_future(client.propose(b"bug"))
            try:
                async with asyncio.timeout(WAIT_S):
                    await made.ended()
            finally:
                with pytest.raises(Indefinite):
                    await proposing

    with pytest.raises(ZeroDivisionError, match="must not raise"):
        asyncio.run(work())


def test_an_answer_that_takes_too_long_is_indefinite(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LIMIT_MS", 50)

    async def work():
        async with one(tmp_path) as (made, address), Client({"1": address}) as client:
            async def stalled(name: str) -> None:
                await asyncio.sleep(0.3)

            made.node.disk.disk.sync = stalled
            with pytest.raises(calls.NoAnswerInTime, match="node '1' had no answer within"):
                await client.propose(b"x")

    asyncio.run(work())
