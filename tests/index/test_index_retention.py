"""Retention of an index as processes: a dry run shows what goes, and the leader drops it."""

import asyncio
import json
import time

from google.protobuf import json_format

from highwater.impl.codecs.index import ulids
from tests.index.processes import cluster, highwater
from tests.index.test_index_process import WHOLE, fresh

DAY_MS = 24 * 3600 * 1000


def test_the_leader_drops_what_is_over_and_a_dry_run_shows_it_before(tmp_path):
    for name, ago_ms in (("old", 2 * DAY_MS), ("young", 0)):
        made = fresh(1)
        made.id = ulids.made(time.time_ns() // 1_000_000 - ago_ms, b"\0" * 10)
        for one in (made, *made.datasets):
            one.min_time, one.max_time = one.min_time - ago_ms, one.max_time - ago_ms
        (tmp_path / f"{name}.json").write_text(json_format.MessageToJson(made))

    async def life() -> None:
        async with cluster(tmp_path, names=("1",), options=("--retain-s", "0")) as one:
            await one.leader()
            at = ("--at", one.apis["1"])
            assert highwater("index", "add", tmp_path / "old.json", tmp_path / "young.json", *at).returncode == 0
            dry = highwater("index", "retention", "--dry-run", "--retain-s", 3600, "--json", *at)
            assert [(one["tenant"], one["blocks"]) for one in map(json.loads, dry.stdout.splitlines())] == [("acme", 1)], dry
            kept = highwater("index", "retention", "--dry-run", "--retain-s", 3600, "--retain-tenant", "acme=0", *at)
            assert kept.returncode == 0 and "0 units, 0 blocks would be dropped" in kept.stdout, kept
            assert await one.end("1") == 0
        async with cluster(tmp_path, names=("1",), options=("--retain-s", "3600", "--clean-ms", "50")) as one:
            await one.leader()
            asked = ("index", "query", "{}", "--tenant", "acme", *WHOLE, "--json", "--at", one.apis["1"])
            async with asyncio.timeout(60):
                while len((await asyncio.to_thread(highwater, *asked)).stdout.splitlines()) != 1:
                    await asyncio.sleep(0.1)
            assert "retention drops tenant 'acme', shard 1, window" in one.said("1")
            again = highwater("index", "add", tmp_path / "old.json", "--at", one.apis["1"])
            assert again.returncode == 2 and "retention has dropped" in again.stderr, again

    asyncio.run(life())


def test_bad_periods_are_one_line(tmp_path):
    for words in (("retention", "--retain-s", 5), ("retention", "--dry-run", "--retain-tenant", "acme"),
                  ("serve", tmp_path, "--retain-tenant", "acme=5"), ("serve", tmp_path, "--retain-s", 1 << 50)):
        said = highwater("index", *words)
        assert said.returncode == 2 and "Traceback" not in said.stderr, said
