"""Two collectors, ours and the released client's, on a database that two writers take from each other, for a chosen time. An
operator of ours takes, copies, refreshes and deletes checkpoints, and a released reader reads them. Readers of ours take their
own checkpoints, follow the writers, and read snapshots for a while.

Requests are held, delayed or answered late. No acknowledged key is lost, a checkpoint is readable as long as it is held, and
the log refines the models.

    HIGHWATER_SOAK_S=600 HIGHWATER_SOAK_SEED=7 .venv/bin/python -m pytest -m interop tests/interop/test_interop_soak.py -s

Manifests and compactions files are collected as soon as they are there, for that the protocol allows: the boundary keeps late
writers out. WAL objects and SSTs have no boundary, only an age (DATA_MIN_AGE_MS) that everything held must be shorter than.
"""

import asyncio
import time
from random import Random

import pytest

from highwater.admin import gc_data
from highwater.admin.gc import stores_of
from highwater.impl.db.pinned import DbReader, Snapshot
from highwater.impl.db.reader import CannotRead
from highwater.impl.errors import StoreError
from highwater.impl.protocols.db_reader import Options
from highwater.impl.protocols.db_reader_view import NotReadable
from highwater.impl.world import World
from tests.interop.test_interop_traffic import refined
from tests.support.slatedb.client import PeerError, compacting
from tests.support.slatedb.recorded import URL, Scene, recorded
from tests.support.slatedb.releases import NEWEST
from tests.support.slatedb.together import Together, credentials, seconds, seed

pytestmark = pytest.mark.interop
SOAK_S, SEED = seconds(60), seed()
DATA_MIN_AGE_MS, HOUR_MS = 30_000, 3_600_000
MOST_SNAPSHOTS = 3
AT = {"path": "db", "url": URL}
OURS = ("ours", "operator", "reader")
CLIENTS = ("A", "B", "G", "R", *OURS)
METADATA = ("PUT db/manifest/*", "GET db/manifest/*", "LIST db/manifest*", "PUT db/compactions/*", "PUT db/gc/*", "GET db/gc/*",
            "DELETE db/manifest/*", "DELETE_MANY *")
DATA = ("PUT db/wal/*", "HEAD db/wal/*", "PUT db/compacted/*")


class Soak(Together):
    """`acked`, and `tried`: key -> value."""

    def __init__(self, scene: Scene, seed: int):
        super().__init__(scene, seed)
        self.acked: dict[str, str] = {}
        self.tried: dict[str, str] = {}
        self.held: dict[str, None] = {}  # our checkpoints, from when they are taken until before they are deleted

    def run(self, seconds: float) -> None:
        self.side_by_side([lambda random: self.write("A", random), lambda random: self.write("B", random), self.collect_theirs,
                           self.collect_ours, self.take_checkpoints, self.read, self.read_ours, self.hold], seconds)

    def write(self, name: str, random: Random) -> None:
        """Opens, and writes until it is fenced or has enough; then the other may have it for a while."""
        client, number = self.scene.clients[name], 0
        while not self.over.is_set():
            try:
                client.open(**AT, settings=compacting(NEWEST))
                self.counts["opened"] += 1
                for _ in range(random.randrange(10, 80)):
                    if self.over.is_set():
                        break
                    batch = {f"{name}{number + i:06d}": str(random.random()) for i in range(random.randrange(1, 6))}
                    batch[f"latest {name}"] = f"{number:06d}"
                    number += len(batch)
                    self.tried |= batch
                    client.put(**batch)
                    client.flush(kind=random.choice(("WAL", "WAL", "MEM_TABLE")))
                    self.acked |= batch
                    self.counts["flushes acknowledged"] += 1
                client.close()
            except PeerError as error:
                self.counts["fenced" if "FENCED" in str(error) else f"writer: {error}"] += 1
                try:
                    client.close()
                except PeerError:
                    pass  # it was not open, or ends as it should
            self.over.wait(random.uniform(0, 2))

    def collect_theirs(self, random: Random) -> None:
        while not self.over.wait(random.uniform(0.2, 1.5)):
            try:
                if random.random() < 0.3:
                    self.scene.G.checkpoint(**AT, lifetime_ms=random.choice((1000, 5000)))
                self.scene.G.collect(**AT, data_min_age_ms=DATA_MIN_AGE_MS)
                self.counts["their rounds"] += 1
            except PeerError as error:
                self.counts[f"collector: {error}"] += 1

    def collect_ours(self, random: Random) -> None:
        world = self.world("ours")
        stores = stores_of(world, "db")
        while not self.over.wait(random.uniform(0.2, 1.5)):
            if random.random() < 0.3:
                self.collect_data(world)
            for store in stores.values():
                try:
                    if store is stores["manifest"]:
                        asyncio.run(store.drop_ended())
                    self.counts["deleted by ours"] += len(asyncio.run(store.collect(0)))
                    self.counts["our rounds"] += 1
                except StoreError as error:  # the other collector was faster, or there is no database yet
                    self.counts[f"ours: {type(error).__name__}"] += 1

    def collect_data(self, world: World) -> None:
        try:
            rows = asyncio.run(gc_data.collected(world, "db", DATA_MIN_AGE_MS))
            for what in ("wal", "compacted"):
                self.counts[f"deleted by ours in {what}/"] += sum(row[0].startswith(f"{what}/") for row in rows)
        except (StoreError, ValueError) as error:  # ValueError: there is no database yet
            self.counts[f"ours, data: {type(error).__name__}"] += 1

    def take_checkpoints(self, random: Random) -> None:
        manifests = stores_of(self.world("operator"), "db")["manifest"]
        while not self.over.wait(random.uniform(0.1, 1)):
            self.change_checkpoints(manifests, self.held, random)

    def read(self, random: Random) -> None:
        """Read what is held. It can be read, and shows nothing that nobody has written."""
        while not self.over.wait(random.uniform(0.5, 2)):
            if held := list(self.held):
                self.read_one(random.choice(held))

    def read_one(self, name: str) -> None:
        try:
            found = self.scene.R.read(**AT, checkpoint=name)
        except PeerError as error:
            assert name not in self.held, f"{name} is held, and cannot be read: {error}"
            return
        assert all(self.tried[key] == value for key, value in found.items() if not key.startswith("latest"))
        self.counts["our checkpoints read"] += 1

    def read_ours(self, random: Random) -> None:
        while not self.over.wait(random.uniform(0.1, 1)):
            try:
                asyncio.run(self.follow(random))
            except StoreError as error:  # not begun, or no reply
                assert not isinstance(error, NotReadable | CannotRead), error
                self.counts[f"our reader: {type(error).__name__}"] += 1

    async def follow(self, random: Random) -> None:
        """Open a reader, and take snapshots. The first one has what was acknowledged before the reader was opened, and each has
        what the one before has. It shows the same to its end, whatever is compacted and collected meanwhile.

        It polls here, not by its task: `close` may cancel that after an update, before the boundary is read. `trace check` then
        takes the next update for a conclusion from the first one (AckIsChecked), which it is not."""
        manifests, least = stores_of(self.world("reader"), "db")["manifest"], dict(self.acked)
        reader, snapshots = DbReader(manifests, "db", Options(HOUR_MS // 3, HOUR_MS)), list[tuple[Snapshot, dict[str, str]]]()
        await reader.open()
        for _ in range(random.randrange(1, 12)):
            snapshot = reader.snapshot()
            found = await self.shown(snapshot)
            self.is_as_written(found, least)
            snapshots.append((snapshot, found))
            least = found
            await asyncio.sleep(random.uniform(0, 2))
            await reader.pins.poll()
            if len(snapshots) > MOST_SNAPSHOTS:
                await self.ended(*snapshots.pop(random.randrange(MOST_SNAPSHOTS)))
        for snapshot, found in snapshots:
            await self.ended(snapshot, found)
        await reader.close()
        self.counts["our readers"] += 1

    async def ended(self, snapshot: Snapshot, found: dict[str, str]) -> None:
        assert await self.shown(snapshot) == found
        snapshot.end()
        self.counts["our snapshots read again"] += 1

    async def shown(self, snapshot: Snapshot) -> dict[str, str]:
        self.counts["our snapshots read"] += 1
        return {one.key.decode(): (one.value or b"").decode() async for one in snapshot.scan()}

    def is_as_written(self, found: dict[str, str], least: dict[str, str]) -> None:
        assert not least.keys() - found.keys(), sorted(least.keys() - found.keys())
        for key, value in found.items():
            if key.startswith("latest"):
                assert least.get(key, "") <= value <= self.tried[key]
            else:
                assert self.tried[key] == value

    def hold(self, random: Random) -> None:
        """Others each time: a few of the metadata's for up to 6 s, of the data's for up to 2."""
        def rules() -> tuple[list[str], float]:
            long = random.random() < 0.2
            made = [f"{random.choice(('hold', 'hold', 'hold-reply', 'delay 300', 'delay-reply 300'))} "
                    f"{random.choice(METADATA if long else METADATA + DATA)} client={random.choice(CLIENTS)} "
                    f"every={random.randrange(1, 5)}" for _ in range(random.randrange(1, 4))]
            return made, random.uniform(2, 6) if long else random.uniform(0.2, 2)

        self.disturb(rules, random, 0.5)


def test_no_acknowledged_key_is_lost(tmp_path, monkeypatch):
    credentials(monkeypatch)
    with recorded(tmp_path / "log", others=OURS, limit_s=SOAK_S + 600, A=NEWEST, B=NEWEST, G=NEWEST,
                  R=NEWEST) as scene:
        soak = Soak(scene, SEED)
        soak.run(SOAK_S)
        for name in soak.held:
            soak.read_one(name)
        found = scene.G.read(**AT)
        left = {folder: len(scene.ids(folder)) for folder in ("manifest", "compactions", "wal")}
    print(soak.summary(SOAK_S), f"{len(soak.acked):,} keys acknowledged;", dict(soak.counts), "left:", left)
    lost = {key for key in soak.acked.keys() - found.keys() if not key.startswith("latest")}
    assert not lost, sorted(lost)
    for key, value in found.items():
        if key.startswith("latest"):
            assert soak.acked[key] <= value <= soak.tried[key]
        else:
            assert soak.tried[key] == value
    assert soak.counts["our snapshots read again"] and soak.counts["our checkpoints read"]
    assert soak.counts["our changes of checkpoints"]
    assert soak.counts["our rounds"] and soak.counts["deleted by ours"] and soak.counts["their rounds"]
    began_s = time.monotonic()
    seen = refined(tmp_path / "log", monkeypatch)
    print(f"checked in {time.monotonic() - began_s:.1f} s:", seen)
    assert seen["Delete"] and seen["Advance"] and seen["CreateFence"]
