"""A metadata index as processes: programs ask it by gRPC, operators by the command line."""

import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from highwater.impl.codecs.index import footer, ulids
from highwater.impl.codecs.index.messages import CLASSES, QueryRequest, decode, encode
from highwater.impl.errors import StoreError
from highwater.impl.stores.grpc_calls import Channel, Refused, Unclear
from highwater.index.client import PATHS
from highwater.index.operator import CHECK, SERVING, WATCH
from highwater.servers.leash import free_port
from tests.index.processes import cluster, highwater
from tests.support.metadata_index import block

WHOLE = ("--start", 0, "--end", 1 << 62)
NOW_MS = time.time_ns() // 1_000_000  # one time for all blocks: a job compacts blocks of one window of six hours


def fresh(number: int, tenant: str = "acme", shard: int = 1) -> Any:
    """Return a block that was made when this run began."""
    made = block(number, tenant=tenant, shard=shard, ulid=ulids.made(NOW_MS, b"\0" * 8 + number.to_bytes(2)))
    for one in (made, *made.datasets):
        one.min_time, one.max_time = NOW_MS, NOW_MS + 1000
    return made


def add(made: Any) -> Any:
    return CLASSES["AddBlockRequest"](block=made)


def everything(tenant: str = "acme") -> Any:
    return QueryRequest(tenant_id=[tenant], start_time=0, end_time=1 << 62, query="{}")


def test_an_operator_starts_adds_asks_backs_up_and_restores(tmp_path):
    async def life() -> None:
        async with cluster(tmp_path, names=("1",)) as one:
            await one.leader()
            at = ("--at", one.apis["1"])
            first, second = fresh(1), fresh(2)
            (tmp_path / "1.json").write_text(json_format.MessageToJson(first))
            (tmp_path / "2.bin").write_bytes(b"data" + footer.footer(second))
            added = highwater("index", "add", tmp_path / "1.json", tmp_path / "2.bin", *at)
            assert added.returncode == 0 and added.stdout.count("is in the index") == 2, added
            asked = highwater("index", "query", '{kind="cpu"}', "--tenant", "acme", *WHOLE, "--label", "kind", "--json", *at)
            found = [json.loads(line) for line in asked.stdout.splitlines()]
            assert [of["id"] for of in found] == [first.id, second.id]
            assert int(found[1]["size"]) == 4 + len(footer.footer(second))
            assert first.id in highwater("index", "query", "{}", "--tenant", "acme", *WHOLE, *at).stdout
            labels = highwater("index", "labels", "{}", "--tenant", "acme", *WHOLE, "--label", "kind", "--json", *at)
            assert json.loads(labels.stdout) == {"kind": "cpu"}
            assert json.loads(highwater("index", "tenants", "--json", *at).stdout)["tenant"] == "acme"
            told = highwater("index", "status", "--json", *at)
            assert told.returncode == 0 and json.loads(told.stdout)["queued"] == 2
            backup = highwater("index", "snapshot", tmp_path / "backup", *at)
            assert backup.returncode == 0 and "rows up to entry" in backup.stdout, backup
            again = highwater("index", "snapshot", tmp_path / "backup", *at)
            assert again.returncode == 2 and "is there" in again.stderr
            refused = highwater("index", "query", "{", "--tenant", "acme", *WHOLE, *at)
            assert refused.returncode == 2 and "position 1" in refused.stderr
            twice = highwater("index", "serve", tmp_path / "other", *("--api", one.apis["1"]))
            assert twice.returncode == 2 and "take another port" in twice.stderr
            locked = highwater("index", "serve", tmp_path / "1", "--api", f"127.0.0.1:{free_port()}")
            assert locked.returncode == 2 and locked.stderr.count("\n") == 1
            assert await one.end("1") == 0
        checked = highwater("index", "check", tmp_path / "1")
        assert checked.returncode == 0 and "nothing is wrong" in checked.stdout
        tried = highwater("raft", "check", tmp_path / "1", "--machine", "index")
        assert tried.returncode == 0 and "its machine applies entries 1 to" in tried.stdout, tried
        same = highwater("index", "restore", tmp_path / "backup", tmp_path / "new" / "1", "--cluster", "main")
        assert same.returncode == 2 and "the backup is of index 'main': give the new one another name" in same.stderr
        restored = highwater("index", "restore", tmp_path / "backup", tmp_path / "new" / "1", "--cluster", "new")
        assert restored.returncode == 0, restored
        again = highwater("index", "restore", tmp_path / "backup", tmp_path / "new" / "1", "--cluster", "new")
        assert again.returncode == 2 and "has something in it" in again.stderr
        assert "2 blocks" in highwater("index", "check", tmp_path / "new" / "1").stdout
        wrong = highwater("index", "serve", tmp_path / "new" / "1", "--api", f"127.0.0.1:{free_port()}")
        assert wrong.returncode == 2 and "cluster 'new'" in wrong.stderr
        async with cluster(tmp_path / "new", names=("1",), options=("--cluster", "new")) as new, new.client() as client:
            await new.leader()
            assert [of.id for of in (await client.call(everything())).blocks] == [first.id, second.id]
            await client.call(add(fresh(3)))
            assert len((await client.call(everything())).blocks) == 3

    asyncio.run(life())


def test_three_processes_lose_nothing_when_leaders_are_killed(tmp_path):
    async def life() -> None:
        async with cluster(tmp_path) as three, three.client() as client:
            acknowledged = []
            for turn in range(3):
                leader = await three.leader()
                for number in range(10):
                    made = fresh(10 * turn + number)
                    await client.call(add(made))
                    acknowledged.append(made.id)
                await three.end(leader, signal.SIGKILL)
                await client.call(add(made))  # again, at the next leader
                for name in three.processes:
                    async with Channel(three.apis[name]) as one:
                        assert ids(await asked(one)) == sorted(acknowledged)
                three.start(leader)
            leader = await three.leader()
            other = next(name for name in three.names if name != leader)
            async with Channel(three.apis[other]) as one:
                with pytest.raises(Refused) as refused:
                    await one.call("/metastore.v1.IndexService/AddBlock", encode(add(made)), 10.0)
            assert refused.value.leader == f"{leader}={three.apis[leader]}" and f"ask '{leader}'" in str(refused.value)
            told = highwater("index", "status", "--at", ",".join(f"{name}={place}" for name, place in three.apis.items()))
            assert told.returncode == 0, told

    asyncio.run(life())


async def asked(channel: Channel) -> Any:
    """Ask one node for everything, again until it knows a leader."""
    for _ in range(200):
        try:
            body = await channel.call("/metastore.v1.MetadataQueryService/QueryMetadata", encode(everything()), 10.0)
            return decode(CLASSES["QueryMetadataResponse"], body)
        except StoreError:
            await asyncio.sleep(0.05)
    raise AssertionError("it has no answer")


def ids(answer: Any) -> list[str]:
    return [of.id for of in answer.blocks]


def test_a_deadline_ends_a_call_on_both_sides(tmp_path):
    """While a majority is stopped nothing is committed and no read is confirmed. A call ends at its deadline, and holds nothing
    at the server. What it asked for may still happen, once."""
    async def call(channel: Channel, request: Any, seconds: float) -> str:
        try:
            await channel.call(PATHS[request.DESCRIPTOR.name], encode(request), seconds)
        except Unclear as error:
            return error.code
        except Refused as error:
            return error.code
        return "OK"

    async def life() -> None:
        async with cluster(tmp_path) as three:
            leader = await three.leader()
            others = [name for name in three.names if name != leader]
            added = [fresh(number) for number in range(20)]
            async with Channel(three.apis[leader]) as channel:
                assert await call(channel, add(added[0]), 5.0) == "OK"
                for name in others:
                    three.processes[name].send_signal(signal.SIGSTOP)
                began = time.monotonic()
                codes = await asyncio.gather(*(call(channel, request, 0.1) for made in added[1:] for request in (
                    add(made), everything())))
                assert time.monotonic() - began < 10 and "OK" not in codes and codes.count("DEADLINE_EXCEEDED") > 20, codes
                async with asyncio.timeout(30):
                    while (await three.status(leader) or {"calls": 1})["calls"]:
                        await asyncio.sleep(0.05)
                for name in others:
                    three.processes[name].send_signal(signal.SIGCONT)
            await three.leader()
            async with three.client() as client:
                for made in added:
                    await client.call(add(made))
                assert ids(await client.call(everything())) == sorted(made.id for made in added)

    asyncio.run(life())


def test_health_is_told_and_watched(tmp_path):
    async def life() -> None:
        async with cluster(tmp_path, names=("1",)) as one:
            await one.leader()
            async with Channel(one.apis["1"]) as channel:
                for name in ("", "metastore.v1.IndexService"):
                    body = await channel.call(CHECK, encode(CLASSES["HealthCheckRequest"](service=name)), 5.0)
                    assert decode(CLASSES["HealthCheckResponse"], body).status == SERVING
                with pytest.raises(Refused, match="NOT_FOUND"):
                    await channel.call(CHECK, encode(CLASSES["HealthCheckRequest"](service="x")), 5.0)
                async for part in channel.parts(WATCH, b"", 5.0):
                    assert decode(CLASSES["HealthCheckResponse"], part).status == SERVING
                    break

    asyncio.run(life())


@pytest.mark.parametrize("words, why", [
    (("serve", "x", "--node", "2", "--peers", "1=127.0.0.1:1"), "none of those in --peers"),
    (("serve", "x", "--api", "nonsense"), "HOST:PORT"), (("serve", "x", "--semantics", "x"), "compat or prometheus"),
    (("serve", "x", "--limit", "x=1"), "the names are block_bytes"), (("serve", "x", "--limit", "calls=x"), "calls=NUMBER"),
    (("serve", "x", "--limit", "calls=0"), "the limit calls is 0"),
    (("serve", "x", "--set", "delay_ns=1"), "is not above horizon_ns"), (("serve", "x", "--set", "levels=1"), "horizon_ns"),
    (("serve", "x", "--tls-ca", "x"), "all of --tls-ca"), (("serve", "x", "--api", "0.0.0.0:1"), "--insecure"),
    (("check", "nowhere"), "no folder"), (("check", "."), "no segment"),
    (("restore", "nowhere", "x", "--cluster", "c"), "nowhere"),
    (("restore", "damaged", "x", "--cluster", "c"), "cannot be read"), (("add", "nowhere"), "nowhere"),
    (("dlq", "list", "mistyped"), "there is no folder"), (("work", "mistyped", "--once"), "there is no folder"),
    (("query", "{}", "--tenant", "\udcff", "--start", 0, "--end", 1), "is not UTF-8"),
    (("add", "damaged"), "no metadata of a block"), (("add", "damaged.json"), "no metadata of a block"),
])
def test_bad_input_is_one_line(tmp_path, words, why):
    for name in ("damaged", "damaged.json"):
        (tmp_path / name).write_bytes(b"not a snapshot, and no object with a footer either: it is much too short for that")
    files = ("x", "nowhere", "damaged", "damaged.json")
    there = [words[0], *(tmp_path / word if word in files else word for word in words[1:])]
    done = highwater("index", *there)
    assert done.returncode == 2 and why in done.stderr and done.stderr.count("\n") == 1, done
    assert not (tmp_path / "x").exists() or not list((tmp_path / "x").iterdir()) or words[0] == "serve"


def test_nobody_answers_and_the_exit_code_says_so(tmp_path: Path):
    done = highwater("index", "tenants", "--at", "127.0.0.1:1")
    assert done.returncode == 3 and "127.0.0.1:1" in done.stderr
    assert highwater("index", "status", "--at", "127.0.0.1:1").returncode == 3
