"""A rolling upgrade of real processes to newer forms and a newer machine, under load; what is refused before and after it."""

import asyncio
import json
from pathlib import Path

import pytest

from highwater.cluster.client import Client
from highwater.impl.level import FORMS, Level
from highwater.impl.raft.faults import LevelTooLow, NotYet
from tests.cluster.processes import LIMIT_S, MACHINE, ROOT, Cluster, cluster
from tests.cluster.workload import Workload

OLDER = {"machine": MACHINE, "forms": FORMS - 1}
NEWER = {"machine": f"{ROOT / 'tests' / 'cluster' / 'counting.py'}:SERVICE", "forms": FORMS}
COUNT = b'{"do": "count", "key": "c", "value": 1}'
CLIENTS = 4


async def count(client: Client) -> int:
    return json.loads(await client.propose(COUNT))["count"]


async def levels(three: Cluster, client: Client) -> list[list[int]]:
    return [(await client.status(name))["level"] for name in three.names]


async def raised_to(three: Cluster, client: Client, level: Level) -> None:
    """Wait until all nodes are at this level."""
    async with asyncio.timeout(LIMIT_S):
        while await levels(three, client) != [[*level]] * len(three.names):
            await asyncio.sleep(0.02)


async def restarted(three: Cluster, name: str, version: dict) -> None:
    assert await three.stop(name) == 0
    three.options |= version
    three.start(name)
    await three.leader()


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


async def ends_with(three: Cluster, name: str, what: str) -> None:
    """Check that a node ends by itself with one line, and that its folder is as it was."""
    before, said = files(three.folder / name), len(three.said(name))
    three.start(name)
    assert await three.ended(name) == 1
    lines = three.said(name)[said:].splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and what in lines[0], lines
    assert files(three.folder / name) == before


@pytest.mark.parametrize("snapshot_entries", (10_000, 30), ids=("level in the log", "level in a snapshot"))
def test_a_cluster_is_upgraded_node_by_node_while_it_works(tmp_path, snapshot_entries):
    async def work():
        async with cluster(tmp_path, snapshot_entries=snapshot_entries, **OLDER) as three, three.client(limit_s=5.0) as client:
            await three.leader()
            load = Workload(client, three.names, seed=1)
            clients = asyncio.ensure_future(load.run(CLIENTS))
            assert "no command" in json.loads(await client.propose(COUNT))["error"]  # an older leader knows no such command
            for name, version in (("1", NEWER), ("2", NEWER), ("2", OLDER), ("2", NEWER)):  # the way back is open
                await restarted(three, name, version)
            await client.transfer("1")
            with pytest.raises(LevelTooLow, match="needs level 2 of the machine, and the cluster is at level 1: upgrade"):
                await count(client)
            await asyncio.sleep(1.0)  # time enough to raise the level, if the older node did not matter
            assert await levels(three, client) == [[FORMS - 1, 1]] * 3
            await restarted(three, "3", NEWER)
            async with three.client(limit_s=30.0) as other:
                await raised_to(three, other, Level(FORMS, 2))
                assert [await count(other) for _ in range(3)] == [1, 2, 3]
                for name in three.names:
                    assert json.loads(await other.query(b'{"count": "c"}', name)) == {"count": 3}
                    await three.said_so(name, f"the cluster is at level {FORMS}.2")
            await asyncio.sleep(0.5)  # of load at the new level
            load.is_over = True
            await clients
            follower = next(name for name in three.names if name != "1")
            await three.stop(follower)
            three.options |= OLDER
            await ends_with(three, follower, f"to level {FORMS}.2, and this node knows levels up to {FORMS - 1}.1: start")
            three.options |= NEWER
            three.start(follower)
            await three.leader()
            client.limit_s = 30.0
            await load.read_all()
            assert not load.problems() and load.told["ok"] > 50
            assert all("Traceback" not in three.said(name) for name in three.names)

    asyncio.run(work())


def test_an_older_node_does_not_join_a_cluster_that_was_raised(tmp_path):
    async def work():
        async with cluster(tmp_path, **OLDER) as three:
            for name in three.names:
                await three.kill(name)
            three.options |= NEWER
            three.start()
            leader = await three.leader()
            async with three.client() as client:
                await raised_to(three, client, Level(FORMS, 2))
                three.options |= OLDER
                await three.add("4")
                for name in ("1", "2", "3"):
                    line = f"node '4' knows levels up to {FORMS - 1}.1, and node {name!r} is at level {FORMS}.2: start on '4'"
                    await three.said_so("4", f"refuses the connection: {line}")
                    await three.said_so(name, f"is closed: {line}")
                client.limit_s = 2.0
                with pytest.raises(NotYet, match="the learner lacks too many entries"):
                    await client.join("4", three.addresses["4"])
                line = f"node {leader!r} is at level {FORMS}.2, and node '4' knows levels up to {FORMS - 1}.1"
                await three.said_so(leader, f"node '4' at {three.addresses['4']} refuses the connection: {line}")
                await three.said_so("4", f"is closed: {line}")
                await client.leave("4")
                assert await count(client) == 1

    asyncio.run(work())
