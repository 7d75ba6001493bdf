"""The time of an index as an operator sees it: alarms, and the repair after a clock that was a year ahead."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from highwater.impl.codecs.index import footer, snapshot, ulids
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import CLASSES, AddBlock, GetPlan, encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.index import jobs, queue, replicated, tombstones
from highwater.impl.index.config import Config, S
from highwater.impl.index.kv import View
from highwater.impl.index.letters.letter import ASIDE, key_of
from highwater.impl.index.machine import clock_ns
from highwater.impl.raft.machine import Command
from highwater.impl.stores.grpc_calls import Channel, Refused
from highwater.index.operator import CONFIRM, STATUS, role_of
from highwater.index.restore import NotRestored, with_clock
from tests.index.processes import cluster, highwater
from tests.support.metadata_index import Story, block

YEAR_S, DAY_S = 366 * 86_400, 86_400


def made(number: int, ago_s: int = 0) -> Any:
    at_ms = (int(time.time()) - ago_s) * 1000
    return block(number, tenant="", ulid=ulids.made(at_ms, b"\0" * 8 + number.to_bytes(2)))


def wrong_backup() -> bytes:
    """Return a backup of an index whose leader was a year ahead when an idle worker polled."""
    machine, view, now_ns = replicated.machine(Config()), View(), time.time_ns()
    for index, (at_ns, command) in enumerate(((now_ns, AddBlock(metadata=made(1))), (now_ns + YEAR_S * S, GetPlan())), 1):
        view, _ = machine.apply(view, Command(index, 1, replicated.stamped(at_ns, command)))
    return machine.dump(view)


def served(folder: Path, backup: Path) -> None:
    said = highwater("index", "restore", backup, folder, "--cluster", "main")
    assert said.returncode == 0, said


def test_a_backup_of_a_year_ahead_is_repaired(tmp_path):
    (tmp_path / "fresh.json").write_text(json_format.MessageToJson(made(2)))
    bad, good, bucket = tmp_path / "bad", tmp_path / "good", tmp_path / "bucket"
    bad.write_bytes(wrong_backup())
    served(tmp_path / "1", bad)
    late, kept = made(3, 9 * DAY_S), made(4, 9 * DAY_S)
    for key, body in ((block_path(1, "", late.id, 0), b"data" + footer.footer(late)),
                      (ASIDE + key_of(kept).partition("/")[2], encode(kept))):
        (bucket / key).parent.mkdir(parents=True)
        (bucket / key).write_bytes(body)

    async def life() -> None:
        async with cluster(tmp_path, names=("1",)) as one:
            await one.leader()
            at = ("--at", one.apis["1"])
            refused = highwater("index", "add", tmp_path / "fresh.json", *at)
            assert refused.returncode == 2 and "older than the horizon" in refused.stderr, refused
            shown = highwater("index", "clock", *at)
            assert shown.returncode == 3 and "half speed" in "".join(shown.stdout.split("\n")).replace("│", " "), shown
            assert "behind log time" in highwater("index", "status", *at).stdout
            confirmed = highwater("index", "clock", "--confirm", *at)
            assert confirmed.returncode == 2 and "never goes back" in confirmed.stderr, confirmed
            assert await one.end("1") == 0
        assert highwater("index", "reset-clock", bad, "--out", good).returncode == 0
        again = highwater("index", "reset-clock", bad, "--out", good)
        assert again.returncode == 2 and "give a name that is free" in again.stderr, again
        (tmp_path / "1").rename(tmp_path / "old")
        served(tmp_path / "1", good)
        async with cluster(tmp_path, names=("1",)) as one:
            await one.leader()
            at = ("--at", one.apis["1"])
            assert highwater("index", "add", tmp_path / "fresh.json", *at).returncode == 0
            told = json.loads(highwater("index", "status", "--json", *at).stdout)
            assert told["alarm"] == "" and abs(told["log_time_ms"] - time.time() * 1000) < 60_000
            assert highwater("index", "clock", *at).returncode == 0
            assert highwater("index", "clock", "--confirm", *at).returncode == 0
            day = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - days * DAY_S)) for days in (10, 8)]
            empty = highwater("index", "admit", bucket, "--from", day[1], "--until", day[0], *at)
            assert empty.returncode == 2 and "name an interval" in empty.stderr, empty
            done = highwater("index", "admit", bucket, "--from", day[0], "--until", day[1], *at)
            assert done.returncode == 0 and "2 blocks are in the index" in done.stdout, done
            assert [path.name for path in bucket.rglob("*.pb")] == []
            async with one.client() as client:
                found = await client.call(CLASSES["GetBlockMetadataRequest"](blocks={
                    "shard": 1, "blocks": [late.id, kept.id]}))
            assert {of.id for of in found.blocks} == {late.id, kept.id}
            async with Channel(one.apis["1"]) as channel:
                for body in (b"", b"-1", b"1.5", b"9" * 19, b"{}"):
                    with pytest.raises(Refused, match="no time in ms"):
                        await channel.call(CONFIRM, body, 5.0)
                with pytest.raises(Refused, match="set the wrong clock right"):
                    await channel.call(CONFIRM, b"1000", 5.0)

    asyncio.run(life())


def test_confirmation_needs_the_role_of_status():
    assert role_of(CONFIRM) == role_of(STATUS) != role_of("/metastore.v1.IndexService/AddBlock")


def test_a_reset_clock_leaves_no_later_time():
    """Blocks that wait, jobs and tombstones of a wrong clock do not wait for that time."""
    story = Story()
    for number in (1, 2):
        story.add(block(number, tenant="t"))
    story.now_s = YEAR_S
    (job,) = story.assign()
    story.finish(job)
    for number in (3, 4, 5):
        story.add(block(number, at_s=YEAR_S, tenant="t"))
    story.assign()
    position, rows = story.machine.snapshot(())
    now_ns = row.U64.unpack(dict(rows)[row.CLOCK])[0] - (YEAR_S - 10) * S
    body, before_ns = with_clock(snapshot.encode(position, rows), now_ns)
    view = replicated.load(body)
    assert clock_ns(view) == now_ns < before_ns
    times = [[one.appended_ns for one in queue.waiting(view)], [one.appended_ns for one in tombstones.all_of(view)],
             [max(one.lease_expires_at, one.added_at) for one in jobs.states(view)]]
    assert all(several and max(several) <= now_ns for several in times), times
    with pytest.raises(NotRestored, match="cannot be read"):
        with_clock(body[:-1], now_ns)
