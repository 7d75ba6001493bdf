"""Three processes: what clients are told, any node's reads, hand-over, metrics, and restarts."""

import asyncio
import json
import signal
import urllib.request

import pytest

from highwater.cluster.calls import BadRequest
from highwater.cluster.client import Client
from highwater.impl.raft.faults import NoVoter, TooLarge
from highwater.impl.stores.certificates import loaded
from tests.cluster.processes import cluster
from tests.support.certificates import Authority


def asked(**fields) -> bytes:
    return json.dumps(fields).encode()


async def value(client: Client, key: str, node: str = ""):
    return json.loads(await client.query(asked(get=key), node))["value"]


async def append(client: Client, key: str, item) -> dict:
    return json.loads(await client.propose(asked(do="append", key=key, value=item)))


def test_what_is_acknowledged_is_read_on_every_node_and_after_all_were_killed(tmp_path):
    async def work():
        async with cluster(tmp_path) as three, three.client() as client:
            await three.leader()
            for number in range(30):
                assert await append(client, "l", number) == {"length": number + 1}
                node = three.names[number % 3]
                assert await value(client, "l", node) == [*range(number + 1)]
            assert json.loads(await client.propose(asked(do="write", key="r", value=1))) == {"ok": True}
            assert json.loads(await client.propose(asked(do="swap", key="r", old=2, new=3))) == {"ok": False}
            assert json.loads(await client.propose(asked(do="swap", key="r", old=1, new=3))) == {"ok": True}
            assert "no command" in json.loads(await client.propose(b"nonsense"))["error"]
            for name in three.names:
                await three.kill(name)
            three.start()
            await three.leader()
            for name in three.names:
                assert (await value(client, "l", name), await value(client, "r", name)) == ([*range(30)], 3)

    asyncio.run(work())


def test_errors_reach_the_client_as_what_they_are(tmp_path):
    async def work():
        async with cluster(tmp_path) as three, three.client() as client:
            leader = await three.leader()
            with pytest.raises(TooLarge, match=r"an entry of 1,048,577 bytes: at most 1,048,576"):
                await client.propose(b"x" * ((1 << 20) + 1))
            with pytest.raises(BadRequest, match="an entry without a byte"):
                await client.propose(b"")
            with pytest.raises(NoVoter, match="'9' is no server of this group: name one of 1, 2, 3"):
                await client.transfer("9")
            target = next(name for name in three.names if name != leader)
            await client.transfer(target)
            assert await three.leader() == target
            assert f"node {leader!r}: leader -> follower" in three.said(leader)
            assert f"node {target!r}: candidate -> leader" in three.said(target)

    asyncio.run(work())


def test_metrics_are_served_as_text(tmp_path):
    async def work():
        async with cluster(tmp_path) as three, three.client() as client:
            leader = await three.leader()
            await append(client, "l", 1)
            return leader, await asyncio.to_thread(page, three.metrics[leader])

    def page(port: int) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            lines = answer.read().decode().splitlines()
        return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}

    leader, found = asyncio.run(work())
    assert found[f'highwater_raft_role{{node="{leader}",role="leader"}}'] == 1
    assert found[f'highwater_raft_commit{{node="{leader}"}}'] >= 2
    assert found[f'highwater_disk_sync_seconds_count{{node="{leader}"}}'] > 0
    assert sum(name.startswith("highwater_raft_lag") for name in found) == 2


def test_a_process_ends_in_good_order_and_a_stopped_one_goes_on(tmp_path):
    async def work():
        async with cluster(tmp_path) as three, three.client() as client:
            leader = await three.leader()
            follower = next(name for name in three.names if name != leader)
            await append(client, "l", 1)
            assert await three.stop(follower) == 0
            await append(client, "l", 2)
            three.signal(leader, signal.SIGSTOP)
            three.start(follower)
            assert await value(client, "l", follower) == [1, 2]  # the two others lead on
            three.signal(leader, signal.SIGCONT)
            assert await value(client, "l", leader) == [1, 2]

    asyncio.run(work())


def test_all_connections_may_be_encrypted(tmp_path):
    async def work():
        files = Authority(tmp_path).signed("node")
        async with cluster(tmp_path) as three:
            for name in three.names:
                await three.kill(name)
            three.options["tls"] = files
            three.dialled = {}  # the proxies read frames
            three.start()
            async with Client(three.addresses, tls=loaded(files), limit_s=30) as client:
                assert await append(client, "l", 1) == {"length": 1}
                assert await value(client, "l", "2") == [1]

    asyncio.run(work())
