"""Roles in certificates, on real processes: the change to them under load, what each role may do, and who catches up."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from highwater.cluster.calls import BadRequest
from highwater.cluster.client import Client
from highwater.impl.errors import Indefinite
from highwater.impl.raft.faults import NoChange
from highwater.impl.stores.certificates import Files, Tls, loaded
from highwater.impl.stores.frames import HandshakeRefused
from highwater.impl.stores.roles import Roles, peer
from highwater.impl.stores.stream_net import Address
from highwater.servers.leash import free_port
from tests.cluster.processes import LIMIT_S, Cluster, cluster, status
from tests.cluster.workload import CALLS, KEYS, Workload
from tests.support.certificates import Authority


class Certificates:
    """The certificates of a cluster: of today, without a role, and new ones."""

    def __init__(self, authority: Authority):
        self.authority = authority

    def node(self, name: str, has_role: bool = True) -> Files:
        return self.authority.signed(f"node-{name}-{has_role}", roles=[Roles("main").uri(peer(name))] if has_role else [])

    def client(self, role: str = "") -> Tls:
        return loaded(self.authority.signed(f"user-{role}", roles=[Roles("main").uri(role)] if role else []))


@asynccontextmanager
async def encrypted(folder, has_roles: bool, **options):
    """Give three processes with certificates, and what makes certificates."""
    async with cluster(folder, **options) as three:
        for name in three.names:
            await three.kill(name)
        made = Certificates(Authority(folder))
        three.dialled = {}  # the proxies read frames
        three.certificates = {name: made.node(name, has_roles) for name in three.names}
        three.options["roles_required"] = has_roles
        three.tls = made.client("operator" if has_roles else "")
        three.start()
        await three.leader()
        yield three, made


async def restarted(three: Cluster, name: str) -> None:
    assert await three.stop(name) == 0
    three.start(name)
    await three.leader()


async def begin(three: Cluster, made: Certificates, name: str) -> None:
    """Start a process that is no member yet."""
    three.names = (*three.names, name)
    three.addresses[name], three.metrics[name] = Address("127.0.0.1", free_port()), free_port()
    three.certificates[name] = made.node(name)
    three.start(name)
    await three.answers(name)


async def append(client: Client, item: int) -> int:
    """Append, and repeat it after an indefinite error: the machine recognises it by its id."""
    command = json.dumps({"do": "append", "key": "new", "value": item, "id": str(item)}).encode()
    async with asyncio.timeout(LIMIT_S):
        while True:
            with suppress(Indefinite):
                return json.loads(await client.propose(command))["length"]


async def changed(change: Callable[..., Awaitable[None]], *given: Any) -> None:
    """Change the members, and ask again after an indefinite error."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with suppress(Indefinite):
                with suppress(NoChange):
                    await change(*given)
                return


async def until_over(load: Workload) -> None:
    """End a load once it has had enough answers."""
    async with asyncio.timeout(LIMIT_S):
        while load.told["ok"] < 20:
            await asyncio.sleep(0.05)
    load.is_over = True


def test_a_cluster_changes_to_roles_while_it_works(tmp_path):
    async def work():
        async with encrypted(tmp_path, has_roles=False) as (three, made), three.client() as old, \
                Client(three.addresses, tls=made.client("client"), limit_s=30.0) as new:
            loads = [Workload(client, three.names, seed) for seed, client in enumerate((old, new))]
            loads[1].began = itertools.count(CALLS * KEYS)  # it has keys of its own
            working = [asyncio.ensure_future(load.run(2)) for load in loads]
            for name in three.names:  # new certificates, and those of today are still accepted
                three.certificates[name] = made.node(name)
                await restarted(three, name)
            await until_over(loads[0])
            await working[0]
            three.tls = made.client("operator")
            three.options["roles_required"] = True
            for name in three.names:
                await restarted(three, name)
            await until_over(loads[1])
            await working[1]
            loads[0].client = new
            for load in loads:
                await load.read_all()
                assert not load.problems()
            assert not any("Traceback" in three.said(name) for name in three.names)
            with pytest.raises(HandshakeRefused, match="roles are required, and the certificate has none: make one with the "
                                                       "URI highwater://main/client"):
                await old._connection("1")
            # a node that was left behind with a certificate of today
            three.certificates["3"] = made.node("3", has_role=False)
            assert await three.stop("3") == 0
            three.start("3")
            line = "roles are required, and the certificate has none: make one with the URI highwater://main/peer/3"
            for name in ("1", "2"):
                await three.said_so("3", f"node {name!r} at {three.addresses[name]} refuses the connection: {line}")
                await three.said_so(name, f"is closed: {line}")
            assert await append(new, 1) == 1  # the two others go on

    asyncio.run(work())


def test_each_role_may_do_its_part_and_no_more(tmp_path):
    async def work():
        async with encrypted(tmp_path, has_roles=True) as (three, made):
            leader = await three.leader()
            target = next(name for name in three.names if name != leader)
            async with Client(three.addresses, tls=made.client("client"), limit_s=10.0) as client:
                assert await append(client, 1) == 1
                assert json.loads(await client.query(b'{"get": "new"}'))["value"] == [1]
                for call in (client.status("1"), client.transfer(target), client.leave(target), client.voters(),
                             client.join("9", Address("127.0.0.1", 1))):
                    with pytest.raises(BadRequest, match="this request is one of operators: the certificate is for "
                                                         "highwater://main/client, and not for highwater://main/operator"):
                        await call
            async with Client(three.addresses, tls=made.client("client"), operator=True) as pretender:
                with pytest.raises(HandshakeRefused, match="and not for highwater://main/operator"):
                    await pretender.status("1")
            async with three.client() as operator:
                assert await append(operator, 2) == 2
                await operator.transfer(target)
                assert await three.leader() == target
            async with Client(three.addresses, tls=loaded(three.certificates["1"])) as node:
                with pytest.raises(HandshakeRefused, match="is for highwater://main/peer/1, and not for highwater://main/client"):
                    await node.propose(b"x")

    asyncio.run(work())


@pytest.mark.parametrize("snapshot_entries", (10_000, 20), ids=("by the log", "by a snapshot"))
def test_a_node_that_was_away_while_others_were_replaced_catches_up(tmp_path, snapshot_entries):
    async def work():
        async with encrypted(tmp_path, has_roles=True, snapshot_entries=snapshot_entries) as (five, made):
            async with five.client(limit_s=30.0) as client:
                for item in range(30):
                    await append(client, item)
            assert await five.stop("3") == 0
            for name in ("4", "5"):
                await begin(five, made, name)
                async with five.client(limit_s=30.0) as client:
                    await changed(client.join, name, five.addresses[name])
            async with five.client(limit_s=30.0) as client:
                for name in ("1", "2"):
                    await changed(client.leave, name)
                    assert await five.stop(name) == 0
                for item in range(30, 60):
                    if item == 35:
                        five.start("3")  # it knows 1, 2 and itself; without it, 4 and 5 are a majority
                    await append(client, item)
                async with asyncio.timeout(LIMIT_S):
                    while True:
                        found = await status(client, "3")
                        if found and found["voters"] == ["3", "4", "5"]:
                            break
                        await asyncio.sleep(0.05)
                assert json.loads(await client.query(b'{"get": "new"}', "3"))["value"] == [*range(60)]

    asyncio.run(work())
