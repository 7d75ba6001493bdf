"""A server in this process, of one node: the bounds of a connection, bad requests, and a machine with a bug."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

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
from highwater.impl.stores.roles import OPERATOR
from highwater.impl.stores.stream_net import USUAL, Address
from highwater.servers.leash import free_port

WAIT_S = 30.0


def apply(count: int, command) -> tuple[int, bytes]:
    if command.body == b"bug":
        raise ZeroDivisionError("it is a bug")
    return count + 1, b"%d" % count


def query(count: int, asked: bytes) -> bytes:
    if asked == b"bug":
        raise ZeroDivisionError("it is a bug")
    return asked * (1 << 20 if asked == b"L" else 1) + b"%d" % count


COUNTING = Service(Machine(0, apply, lambda count: b"%d" % count, int), query)


@asynccontextmanager
async def one(folder, service: Service = COUNTING, leads: bool = True, **limits) -> AsyncIterator[tuple[Server, Address]]:
    """Give a node that runs alone, once it leads. `leads`: whether to wait for that."""
    address = Address("127.0.0.1", free_port())
    options = server.OPTIONS._replace(tick_ms=10)
    of = Settings(str(folder), "1", {"1": address}, service, options=options, limits=USUAL._replace(**limits))
    async with running(of) as made:
        async with asyncio.timeout(WAIT_S):
            while leads and made.node.state.role != LEADER:
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


SMALL = {"client_bytes": 5 << 20, "all_clients_bytes": 8 << 20, "send_s": 1.0}


def test_client_that_does_not_read_is_closed_and_held_bytes_are_bounded(tmp_path):
    async def work():
        async with one(tmp_path, **SMALL) as (made, address):
            lazy, good = [await Connection.open(address, "main") for _ in range(2)], await Connection.open(address, "main")
            for connection in lazy:
                connection.receiver.cancel()
                connection.writer.transport.pause_reading()
                for number in range(30):  # the answers have 1 MiB each
                    connection.writer.write(framed(calls.request_to(number, calls.QUERY, b"L")))
            async with asyncio.timeout(3 * WAIT_S):
                while len(made.net.clients.held) > 1:
                    await asyncio.sleep(0.01)
                    assert made.held.total <= 8 << 20 and max(made.held.of.values(), default=0) <= 5 << 20
            assert await good.ask(calls.PROPOSE, b"x") == b"0"
            assert made.held.total == 0 and not made.held.of, made.held.of
            assert len(await good.ask(calls.QUERY, b"L")) == (1 << 20) + 1
            await good.close()

    asyncio.run(work())


def test_refused_requests_of_operators_give_their_room_back(tmp_path):
    async def work():
        async with one(tmp_path, **SMALL) as (made, address):
            net: Any = made.net
            net.roles = Named()
            connection = await Connection.open(address, "main")
            for _ in range(10):
                with pytest.raises(calls.BadRequest, match="one of operators: none"):
                    await connection.ask(calls.STATUS, bytes(1 << 20))
            assert await connection.ask(calls.PROPOSE, b"x") == b"0"
            async with asyncio.timeout(WAIT_S):
                while made.held.total:
                    await asyncio.sleep(0.01)
            await connection.close()

    asyncio.run(work())


class Named:
    """Roles of which nobody has that of an operator."""

    def refusal(self, uris, role: str) -> str:
        return "none" if role == OPERATOR else ""


def test_a_node_of_a_name_that_is_no_text_is_a_bad_request(tmp_path):
    async def work():
        async with one(tmp_path) as (_, address):
            connection = await Connection.open(address, "main")
            with pytest.raises(calls.BadRequest, match="the name of a node is not UTF-8"):
                await connection.ask(calls.TRANSFER, b"\xff")
            assert await connection.ask(calls.PROPOSE, b"x") == b"0"
            await connection.close()

    asyncio.run(work())


def test_answers_of_a_connection_are_written_one_after_the_other(tmp_path):
    async def work():
        async with one(tmp_path) as (made, address):
            connection = await Connection.open(address, "main")
            connection.receiver.cancel()
            transport: Any = connection.writer.transport
            transport.pause_reading()
            for number in range(20):  # the answers have 1 MiB each
                connection.writer.write(framed(calls.request_to(number, calls.QUERY, b"L")))
            async with asyncio.timeout(WAIT_S):
                while made.held.total < 10 << 20:
                    await asyncio.sleep(0.01)
            of: Any = made.held.of
            [written] = [writer.transport.get_write_buffer_size() for writer in of]
            assert written < 3 << 20
            await connection.close()

    asyncio.run(work())


def test_request_cut_short_gives_its_room_back(tmp_path):
    async def work():
        async with one(tmp_path, **SMALL) as (made, address):
            for _ in range(4):
                cut = await Connection.open(address, "main")
                cut.writer.write(framed(bytes(3 << 20))[:100])
                async with asyncio.timeout(WAIT_S):
                    while not made.held.total:
                        await asyncio.sleep(0.01)
                    await cut.close()
                    while made.held.total:
                        await asyncio.sleep(0.01)

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


def test_raising_command_is_refused_and_not_proposed(tmp_path):
    async def work():
        async with one(tmp_path) as (made, address), Client({"1": address}, limit_s=60.0) as client:
            with pytest.raises(calls.BadRequest, match="the machine cannot apply the command: ZeroDivisionError: it is a bug"):
                await client.propose(b"bug")
            assert b"bug" not in [entry.body for entry in made.node.state.log.entries]
            assert await client.propose(b"x") == b"0"

    asyncio.run(work())


def test_entry_that_raises_stops_the_node_by_name(tmp_path, caplog):
    """The trial did not see it coming: the leader's state was another one, or an older version proposed it."""
    caplog.set_level(logging.CRITICAL)
    blind = COUNTING._replace(machine=COUNTING.machine._replace(check=lambda count, command: None))

    async def stopped(proposes: bool) -> str:
        async with one(tmp_path, blind, leads=proposes) as (made, address), Client({"1": address}, limit_s=60.0) as client:
            if proposes:
                with pytest.raises(Indefinite, match=r"entry \d+ of term 1, a command of 3 bytes: the machine cannot apply it"):
                    await client.propose(b"bug")
            async with asyncio.timeout(WAIT_S):
                return await made.ended()

    for proposes in (True, False):
        why = asyncio.run(stopped(proposes))
        assert re.match(r"entry \d+ of term 1, a command of 3 bytes: the machine cannot apply it: ZeroDivisionError: it", why)
        assert "`highwater raft check FOLDER --machine FILE.py:NAME`" in why


def test_query_that_raises_is_an_error_to_its_caller(tmp_path, caplog):
    async def work():
        async with one(tmp_path) as (_, address), Client({"1": address}, limit_s=60.0) as client:
            async with asyncio.timeout(WAIT_S):  # it is not asked again
                with pytest.raises(calls.BadRequest, match="node '1': the query failed: ZeroDivisionError: it is a bug"):
                    await client.query(b"bug")
            assert await client.query(b"?") == b"?0"

    asyncio.run(work())
    lines = [record.getMessage() for record in caplog.records if "query" in record.getMessage()]
    assert lines == ["node '1': a query of 3 bytes failed: ZeroDivisionError: it is a bug"]


def test_bug_of_the_server_is_an_error_to_its_caller(tmp_path, caplog):
    async def work():
        async with one(tmp_path) as (made, address), Client({"1": address}, limit_s=60.0) as client:
            made.status = lambda: {}["bug"]
            with pytest.raises(Indefinite, match="node '1' failed at the request: KeyError: 'bug'"):
                await client.status("1")
            assert await client.propose(b"x") == b"0"

    asyncio.run(work())
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert line.startswith("node '1': a request of kind 3 failed: KeyError: 'bug'\n") and "in _result" in line


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


def test_requests_of_all_connections_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "WORKING", 4)
    under_way, most = 0, 0

    async def work():
        async with one(tmp_path) as (made, address):
            usual = made.node.read

            async def counted():
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0.01)
                try:
                    return await usual()
                finally:
                    under_way -= 1

            monkeypatch.setattr(made.node, "read", counted)
            connections = [await Connection.open(address, "main") for _ in range(5)]
            await asyncio.gather(*(one.ask(calls.QUERY, b"?") for one in connections for _ in range(10)))
            for connection in connections:
                await connection.close()

    asyncio.run(work())
    assert most == 4
