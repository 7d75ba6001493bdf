"""Snapshots of our readers beside a released writer that compacts, and two collectors, for a chosen time. Only a reader's own
checkpoint keeps what it shows.

Nobody else takes a checkpoint here, the pins of the compactor are deleted at once, and SSTs are collected when they are
DATA_MIN_AGE_MS old. A snapshot is read for longer than a reader's lease lasts. So a reader that does not renew its lease, or
drops a checkpoint too early, loses SSTs under its snapshot: the second test shows that this test would see it.

    HIGHWATER_SOAK_S=600 HIGHWATER_SOAK_SEED=7 .venv/bin/python -m pytest -m interop -s tests/interop -k keeps_what_it_shows
"""

import asyncio
import time
from itertools import count
from random import Random

import pytest

from highwater.admin import gc_data
from highwater.admin.gc import stores_of
from highwater.impl.db.pinned import DbReader, Snapshot
from highwater.impl.protocols import checkpoints, db_reader
from highwater.impl.protocols.db_reader import Options
from tests.interop.test_interop_soak import AT, Soak
from tests.interop.test_interop_traffic import refined
from tests.support.slatedb.recorded import Scene, recorded
from tests.support.slatedb.releases import NEWEST
from tests.support.slatedb.together import credentials, seconds, seed

pytestmark = pytest.mark.interop
SOAK_S, SEED = seconds(40), seed()
DATA_MIN_AGE_MS, LEASE_MS, POLL_MS = 1500, 6000, 1000
PORTS = max(20, int(SOAK_S))  # a reader that is closed may have an update under way, so no other one has its name
ROLES = ("reader", "closing")
RULES = ("PUT db/manifest/*", "GET db/manifest/*", "PUT db/compactions/*", "PUT db/gc/*", "PUT db/compacted/*")


class Snapshots(Soak):
    """One writer, which compacts; two threads with readers; both collectors."""

    def __init__(self, scene: Scene, seed: int):
        super().__init__(scene, seed)
        self.numbers = count()  # of readers: two threads take them

    def run(self, seconds: float) -> None:
        self.side_by_side([lambda random: self.write("A", random), self.collect_theirs, self.collect_ours, self.read_ours,
                           self.read_ours, self.hold], seconds)

    def collect_theirs(self, random: Random) -> None:
        while not self.pause(random, 0.2, 1):
            self.count("their rounds", lambda: self.scene.G.collect(**AT, data_min_age_ms=DATA_MIN_AGE_MS))

    def collect_ours(self, random: Random) -> None:
        world = self.world("ours")
        manifests = stores_of(world, "db")["manifest"]

        async def collect() -> None:
            for one in (await manifests.current()).value.checkpoints:
                if one.expire_time_s - one.create_time_s > 800:
                    await checkpoints.delete(manifests, one.id)  # of the compactor
            rows = await gc_data.collected(world, "db", DATA_MIN_AGE_MS)
            self.counts["SSTs deleted by ours"] += sum(row[0].startswith("compacted/") for row in rows)

        while not self.pause(random, 0.2, 1):
            self.count("our rounds", lambda: asyncio.run(collect()))

    async def follow(self, random: Random) -> None:
        """Take snapshots of one reader, and read each again, for up to three times as long as a lease lasts.

        It is closed under another name: `close` may cancel an update before the boundary is read, and `trace check` would take
        the next update of the same client for a conclusion from that one (AckIsChecked), which it is not."""
        number, least = next(self.numbers) % PORTS, dict(self.acked)
        manifests, closing = (stores_of(self.world(f"{role}{number}"), "db")["manifest"] for role in ROLES)
        reader = DbReader(manifests, "db", Options(POLL_MS, LEASE_MS), cache_bytes=0)
        taken: list[tuple[Snapshot, dict[str, str]]] = []
        await reader.open()
        ends_s = time.monotonic() + random.uniform(1, 3) * LEASE_MS / 1000
        while time.monotonic() < ends_s and not self.over.is_set():
            if len(taken) < 3:
                taken.append((reader.snapshot(), {}))
                found = await self.shown(taken[-1][0])
                self.is_as_written(found, least)
                taken[-1], least = (taken[-1][0], found), found
            await asyncio.sleep(random.uniform(0.2, 1))
            snapshot, found = random.choice(taken)
            assert await self.shown(snapshot) == found
            self.counts["our snapshots read again"] += 1
        for snapshot, found in taken:
            await self.ended(snapshot, found)
        reader.pins.manifests = closing
        await reader.close()
        self.counts["our readers"] += 1

    def hold(self, random: Random) -> None:
        """Requests of all but the readers: a reader that is held for longer than its lease loses it, as it should."""
        self.disturb(lambda: ([f"{random.choice(('hold', 'hold-reply', 'delay 300'))} {random.choice(RULES)} "
                               f"client={random.choice(('A', 'G', 'ours'))} every={random.randrange(1, 4)}"
                               for _ in range(random.randrange(1, 4))], random.uniform(0.2, 2)), random, 0.5)


def soaked(tmp_path, monkeypatch, seconds: float) -> Snapshots:
    credentials(monkeypatch)
    ports = ("ours", *(f"{role}{number}" for role in ROLES for number in range(PORTS)))
    with recorded(tmp_path / "log", others=ports, limit_s=seconds + 600, A=NEWEST, G=NEWEST) as scene:
        soak = Snapshots(scene, SEED)
        soak.run(seconds)
    print(soak.summary(seconds), f"{len(soak.acked):,} keys acknowledged;", dict(soak.counts))
    return soak


def test_a_snapshot_keeps_what_it_shows(tmp_path, monkeypatch):
    soak = soaked(tmp_path, monkeypatch, SOAK_S)
    assert soak.counts["our snapshots read again"] > 20 and soak.counts["SSTs deleted by ours"]
    assert soak.counts["their rounds"]
    print(refined(tmp_path / "log", monkeypatch))


async def nothing(*_: object) -> None:
    pass


def only_the_latest(reader: db_reader.DbReader) -> set[str]:
    return {one for one in reader.held if one == (reader.view.checkpoint if reader.view else reader.building)}


@pytest.mark.parametrize(("name", "broken"), [("refresh", nothing), ("_used", only_the_latest)])
def test_without_its_checkpoint_a_snapshot_is_lost(tmp_path, monkeypatch, name, broken):
    """The lease is not renewed; or the checkpoint is deleted while a snapshot needs it."""
    monkeypatch.setattr(db_reader.DbReader, name, broken)
    with pytest.raises(AssertionError, match="missing|CannotRead|NotReadable"):
        soaked(tmp_path, monkeypatch, 120)
