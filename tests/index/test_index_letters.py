"""Dead letters of an index as processes: a program leaves one while no node runs, and the leader's sweep adds the block."""

import asyncio
import json
import time
from pathlib import Path

from google.protobuf import json_format

from highwater.impl.codecs.index import ulids
from highwater.impl.index.letters.kept import Letter, letters
from highwater.impl.stores.local import LocalStore
from tests.index.processes import cluster, highwater
from tests.index.test_index_process import WHOLE, fresh

OLD_MS = 8 * 24 * 3600 * 1000  # above the horizon of seven days


def left(folder: Path, bucket: Path, number: int, ago_ms: int = 0) -> str:
    """Leave a letter while no node runs; return the ULID of its block."""
    made = fresh(number)
    if ago_ms:
        made.id = ulids.made(time.time_ns() // 1_000_000 - ago_ms, b"\0" * 10)
    (folder / f"{number}.json").write_text(json_format.MessageToJson(made))
    said = highwater("index", "add", folder / f"{number}.json", "--dead-letters", bucket, "--retry-ms", 0,
                     "--at", "127.0.0.1:1")
    assert said.returncode == 0 and "is kept, and no query finds it" in said.stdout, said
    return made.id


def listed(bucket: Path) -> list[Letter]:
    return asyncio.run(letters(LocalStore(str(bucket))))


def test_a_letter_that_is_left_while_no_node_runs_is_added_by_whoever_leads(tmp_path):
    bucket = tmp_path / "bucket"
    good, old = left(tmp_path, bucket, 1), left(tmp_path, bucket, 2, OLD_MS)
    (bucket / "dlq/1/acme/bad").mkdir(parents=True)
    (bucket / "dlq/1/acme/bad/meta.pb").write_bytes(b"\xff")
    assert {(one.block, one.state) for one in listed(bucket)} == {(good, "waits"), (old, "waits"), ("", "waits")}
    assert "not a BlockMeta" in highwater("index", "dlq", "list", bucket).stdout

    async def life() -> None:
        async with cluster(tmp_path, names=("1", "2", "3"), options=("--bucket", str(bucket), "--sweep-ms", "100")) as three:
            await three.leader()
            async with asyncio.timeout(60):
                while {one.state for one in await asyncio.to_thread(listed, bucket)} != {"aside", "rejected"}:
                    await asyncio.sleep(0.1)
            at = ("--at", ",".join(f"{name}={place}" for name, place in three.apis.items()))
            asked = ("index", "query", "{}", "--tenant", "acme", *WHOLE, "--json", *at)
            assert [json.loads(line)["id"] for line in highwater(*asked).stdout.splitlines()] == [good]
            moved = {one.state: one.key for one in await asyncio.to_thread(listed, bucket)}
            aside, rejected = moved["aside"], moved["rejected"]
            refused = highwater("index", "dlq", "readd", bucket, aside, rejected, *at)
            assert refused.returncode == 3 and refused.stdout.count("stays") == 2, refused
            assert "older than the horizon" in refused.stdout
            added = highwater("index", "dlq", "readd", bucket, aside, "--past-horizon", *at)
            assert added.returncode == 0 and f"block {old} is in the index" in added.stdout, added
            assert [json.loads(line)["id"] for line in highwater(*asked).stdout.splitlines()] == [old, good]
            told = [json.loads(line) for line in highwater("index", "dlq", "list", bucket, "--json").stdout.splitlines()]
            assert [(one["key"], one["state"]) for one in told] == [(rejected, "rejected")]

    asyncio.run(life())


def test_bad_input_is_one_line(tmp_path):
    for words in (("dlq", "list", "nonsense://x"), ("serve", tmp_path / "1", "--bucket", "nonsense://x"),
                  ("serve", tmp_path / "1", "--set", "horizon_ns=1"), ("dlq", "readd", tmp_path)):
        said = highwater("index", *words)
        assert said.returncode == 2 and "Traceback" not in said.stderr, said
    said = highwater("index", "dlq", "readd", tmp_path, "segments/x")
    assert said.returncode == 3 and "is no letter" in said.stdout, said
