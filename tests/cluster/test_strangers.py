"""Connections without a credential, or with that of a client: no node stops, and peers and operators find their slots."""

import asyncio
import json
import resource

import pytest

from highwater.cluster.client import Client
from highwater.impl.level import ANY_MACHINE, FIRST
from highwater.impl.stores import frames
from highwater.impl.stores.frames import CLIENT, Hello
from tests.cluster.processes import LIMIT_S, Cluster, cluster
from tests.support.holding import held

FILES = 1024  # the usual `ulimit -n`
HELLO = frames.framed(frames.hello_to(Hello(FIRST, ANY_MACHINE, CLIENT, "main", "", "", "x")))
PROMPT_S = 20.0  # an operator is answered within, which takes no second on a quiet machine


def limit_files(three: Cluster) -> None:
    for process in three.processes.values():
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))


async def write(client: Client, number: int) -> None:
    for item in range(number):
        await client.propose(json.dumps({"do": "append", "key": "l", "value": item}).encode())


@pytest.mark.parametrize("first", (b"", b"\0\0", HELLO), ids=("silent", "half a frame", "clients"))
def test_held_connections_stop_no_node(tmp_path, first):
    async def work():
        async with cluster(tmp_path, snapshot_entries=50, tick_ms=100) as three:
            leader = await three.leader()
            limit_files(three)
            follower = next(name for name in three.names if name != leader)
            async with three.client(LIMIT_S) as client:
                await write(client, 1)
                async with held(*three.addresses[leader], 1_100, first):
                    assert await three.stop(follower) == 0
                    three.start(follower)  # a peer finds a slot
                    await write(client, 120)
                    async with asyncio.timeout(LIMIT_S):
                        while True:
                            async with asyncio.timeout(PROMPT_S), operator(three) as fresh:
                                found = await fresh.status(leader)
                            assert found["role"] == "leader" and all(map(three.is_running, three.names))
                            if found["snapshot"] >= 100 and follower in found["connected"]:
                                return
                            await asyncio.sleep(0.1)

    asyncio.run(work())


def operator(three: Cluster) -> Client:
    return Client(three.addresses, limit_s=PROMPT_S, operator=True)
