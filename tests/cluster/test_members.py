"""Nodes join and leave a cluster that runs; a node is replaced; a cluster that lost its majority is recovered. All by the
commands, on real processes."""

import asyncio
import json
import shutil
from contextlib import asynccontextmanager

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.cluster.client import Client
from highwater.impl.raft.faults import ChangeRefused, NoChange
from highwater.impl.stores.stream_net import Address
from highwater.servers.leash import free_port
from tests.cluster.processes import LIMIT_S, cluster


async def append(client: Client, item: int) -> None:
    assert json.loads(await client.propose(json.dumps({"do": "append", "key": "l", "value": item}).encode()))


async def values(client: Client, node: str) -> list[int]:
    return json.loads(await client.query(b'{"get": "l"}', node))["value"]


def listed(addresses: dict[str, Address], *names: str) -> str:
    return ",".join(f"{name}={addresses[name]}" for name in names or addresses)


async def raft(*words: str, code: int = 0) -> str:
    """Run a command of `highwater raft`, and return what it says."""
    result = await asyncio.to_thread(CliRunner().invoke, app, ["raft", *words])
    assert result.exit_code == code, (words, result.output, result.exception)
    return " ".join(result.output.split())


async def settled(client: Client, *names: str, voters: tuple[str, ...]) -> None:
    """Wait until these nodes agree on the voters, and have applied the same."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            found = [await client.status(name) for name in names]
            if all(tuple(one["voters"]) == voters and not one["learners"] for one in found) \
                    and len({one["applied"] for one in found}) == 1:
                return
            await asyncio.sleep(0.02)


@asynccontextmanager
async def three_and_more(folder, *later: str, **options):
    """Give three processes that run, and further ones that wait to join."""
    async with cluster(folder, **options) as three:
        await three.leader()
        for name in later:
            await three.add(name)
        async with three.client() as client:
            yield three, client


@pytest.mark.parametrize("snapshot_entries", (10_000, 20), ids=("by the log", "by a snapshot"))
def test_a_cluster_grows_and_shrinks_while_it_works(tmp_path, snapshot_entries):
    async def work():
        async with three_and_more(tmp_path, "4", "5", snapshot_entries=snapshot_entries) as (five, client):
            for number in range(50):
                await append(client, number)
            for name in ("4", "5"):
                said = await raft("join", f"{name}={five.addresses[name]}", "--nodes", listed(five.addresses))
                assert said == f"node {name} is a voter of cluster 'main'"
                await append(client, 50 + int(name))
            await settled(client, *five.names, voters=("1", "2", "3", "4", "5"))
            assert [await values(client, name) for name in five.names] == [[*range(50), 54, 55]] * 5
            assert "voters 1, 2, 3, 4, 5" in await raft("status", "--nodes", listed(five.addresses))
            for name in ("1", "2"):
                assert f"node {name} has left" in await raft("leave", name, "--nodes", listed(five.addresses))
                assert await five.stop(name) == 0
                await append(client, 60 + int(name))
            await settled(client, "3", "4", "5", voters=("3", "4", "5"))
            for name in ("3", "4", "5"):
                await five.kill(name)
            five.start("3", "4", "5")  # the ones that joined are dialled where the log says
            await five.leader()
            assert [await values(client, name) for name in ("3", "4", "5")] == [[*range(50), 54, 55, 61, 62]] * 3
            await append(client, 70)

    asyncio.run(work())


def test_the_leader_leaves_and_another_one_leads(tmp_path):
    async def work():
        async with three_and_more(tmp_path) as (three, client):
            leader = await three.leader()
            await append(client, 1)
            await raft("leave", leader, "--nodes", listed(three.addresses))
            await three.stop(leader)
            assert await three.leader() != leader
            await append(client, 2)
            left = [name for name in three.names if name != leader]
            assert [await values(client, name) for name in left] == [[1, 2]] * 2
            await settled(client, *left, voters=tuple(left))

    asyncio.run(work())


def test_a_node_whose_folder_is_lost_is_replaced_under_another_name(tmp_path):
    async def work():
        async with three_and_more(tmp_path, "4") as (four, client):
            await append(client, 1)
            await four.kill("2")
            nodes = listed(four.addresses)
            same = f"2={four.addresses['2']}"
            assert "must not come back under its name" in await raft("rejoin", "2", same, "--nodes", nodes, code=2)
            said = await raft("rejoin", "2", f"4={four.addresses['4']}", "--nodes", nodes)
            assert said == "node 2 has left cluster 'main', and node 4 is a voter"
            assert "and node 4 is a voter" in await raft("rejoin", "2", f"4={four.addresses['4']}", "--nodes", nodes)
            await append(client, 2)
            await four.kill("1" if await four.leader() != "1" else "3")
            await four.leader()  # two of the three that are left are a majority
            await append(client, 3)
            assert await values(client, "4") == [1, 2, 3]

    asyncio.run(work())


def test_a_change_that_cannot_be_made_is_one_line(tmp_path):
    async def work():
        async with three_and_more(tmp_path) as (three, client):
            nodes = listed(three.addresses)
            nobody = Address("127.0.0.1", free_port())
            assert "cannot be reached" in await raft("join", f"9={nobody}", "--nodes", nodes, code=2)
            assert "is no node: write NAME=HOST:PORT" in await raft("join", "9", "--nodes", nodes, code=2)
            assert "this is node '1', and not '9'" in await raft("join", f"9={three.addresses['1']}", "--nodes", nodes, code=2)
            said = await raft("leave", "9", "--nodes", nodes, code=2)
            assert "'9': no member of this group, whose members are 1, 2, 3" in said
            with pytest.raises(NoChange):
                await client.leave("9")
            for name in ("2", "3"):
                if name != await three.leader():
                    await client.leave(name)

    asyncio.run(work())


def test_a_voter_whose_folder_is_new_does_not_join_under_its_name(tmp_path):
    async def work():
        async with three_and_more(tmp_path, "4") as (four, _):
            nodes = listed(four.addresses)
            await raft("join", f"4={four.addresses['4']}", "--nodes", nodes)
            await four.kill("4")
            shutil.rmtree(tmp_path / "4")
            four.addresses["4"] = Address("127.0.0.1", free_port())  # where the others do not look for it
            four.start("4")
            await four.answers("4")
            said = await raft("join", f"4={four.addresses['4']}", "--nodes", nodes, code=2)
            assert "node '4' votes in cluster 'main', and its folder" in said and "by `raft rejoin`" in said

    asyncio.run(work())


def test_name_that_left_comes_back_in_a_later_term(tmp_path):
    """Its folder is new, so in the term in which it left it could vote a second time."""
    async def work():
        async with three_and_more(tmp_path, "4") as (four, client):
            nodes, place = listed(four.addresses), f"4={four.addresses['4']}"
            await raft("join", place, "--nodes", nodes)
            assert "under this one it is refused in this term" in await raft("leave", "4", "--nodes", nodes)
            await four.kill("4")
            shutil.rmtree(tmp_path / "4")
            four.start("4")
            await four.answers("4")
            said = await raft("join", place, "--nodes", nodes, code=2)
            assert "'4': it has left in this term" in said and "let another node lead (`highwater raft transfer`)" in said
            leader = (await client.status("1"))["leader"]
            await raft("transfer", "1" if leader != "1" else "2", "--nodes", nodes)
            assert "node 4 is a voter" in await raft("join", place, "--nodes", nodes)
            await append(client, 1)
            assert await values(client, "4") == [1]

    asyncio.run(work())


def test_the_last_voter_cannot_leave(tmp_path):
    async def work():
        async with cluster(tmp_path, names=("1",)) as one, one.client() as client:
            await one.leader()
            with pytest.raises(ChangeRefused, match="the last voter cannot leave"):
                await client.leave("1")

    asyncio.run(work())


def test_a_cluster_without_a_majority_is_recovered_as_a_new_one(tmp_path):
    async def work():
        async with three_and_more(tmp_path, snapshot_entries=20) as (three, client):
            for number in range(50):
                await append(client, number)
            await settled(client, *three.names, voters=("1", "2", "3"))
            for name in three.names:
                await three.kill(name)
            folder = str(tmp_path / "1")
            before = {file.name: file.read_bytes() for file in (tmp_path / "1").iterdir()}
            told = await raft("recover", folder, "--cluster", "second", code=2)
            assert "node '1' of cluster 'main' has entries up to" in told and "nothing was changed" in told
            assert before == {file.name: file.read_bytes() for file in (tmp_path / "1").iterdir()}
            assert "give the new cluster another name" in await raft("recover", folder, "--cluster", "main", "--unsafe", code=2)
            assert "is the only one of cluster 'second' now" in await raft("recover", folder, "--cluster", "second", "--unsafe")
            three.options["cluster"] = "second"
            three.start("1")
            async with Client(three.addresses, "second") as other:
                await append(other, 50)
                assert await values(other, "1") == [*range(51)]
                three.options["cluster"] = "main"
                three.start("2")  # a node of the former cluster finds nobody
                await three.said_so("2", "node '1' is of cluster 'second', and not of 'main'")
                three.options["cluster"] = "second"
                await three.add("4")
                await raft("join", f"4={three.addresses['4']}", "--nodes", listed(three.addresses, "1"), "--cluster", "second")
            async with Client(three.addresses, "second") as both:
                assert await values(both, "4") == [*range(51)]

    asyncio.run(work())


def test_a_member_is_dialled_elsewhere_after_it_moved(tmp_path):
    async def work():
        async with three_and_more(tmp_path, "4") as (four, client):
            nodes = listed(four.addresses)
            await raft("join", f"4={four.addresses['4']}", "--nodes", nodes)
            await four.stop("4")
            four.addresses["4"] = Address("127.0.0.1", free_port())
            four.start("4")
            await four.answers("4")
            await raft("join", f"4={four.addresses['4']}", "--nodes", nodes)
            await append(client, 1)
            async with four.client() as moved:
                await settled(moved, *four.names, voters=("1", "2", "3", "4"))
                assert await values(moved, "4") == [1]

    asyncio.run(work())
