"""Clones of ours and of a released client, made of a database that a released client writes and compacts, for a chosen time.

A released client writes into the clones and compacts them. Ours detaches them, and destroys those that no released client uses.
Both collectors collect the database and its clones. Requests are held, delayed or answered late. A clone has what was flushed
before it was begun, and keeps it.

    HIGHWATER_SOAK_S=600 HIGHWATER_SOAK_SEED=7 .venv/bin/python -m pytest -m interop -s tests/interop -k keeps_its_rows

SSTs and WAL objects have no boundary, only an age (DATA_MIN_AGE_MS) that everything held must be shorter than.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from highwater.admin import gc_data
from highwater.admin.clone import cloned
from highwater.admin.destroy import destroyed
from highwater.admin.detach import detached
from highwater.admin.several import stores_of_all
from highwater.impl.protocols import checkpoints
from highwater.impl.world import World
from tests.interop.test_interop_traffic import refined
from tests.support.slatedb.client import compacting
from tests.support.slatedb.recorded import URL, Scene, recorded
from tests.support.slatedb.releases import NEWEST
from tests.support.slatedb.together import Together, credentials, seconds, seed

pytestmark = pytest.mark.interop
SOAK_S, SEED = seconds(45), seed()
DATA_MIN_AGE_MS, LEASE_S = 12_000, 10
OURS = ("cloner", "detacher", "destroyer", "collector")
RULES = ("PUT */manifest/*", "GET */manifest/*", "LIST */manifest*", "PUT */compactions/*", "PUT */gc/*", "PUT */wal/*",
         "GET */wal/*", "DELETE */manifest/*")


class Soak(Together):
    """`flushed`: the rows in the SSTs of the database; `clones`: the rows that each clone must show, whoever has made it."""

    def __init__(self, scene: Scene, seed: int):
        super().__init__(scene, seed)
        self.tried: dict[str, str] = {}
        self.flushed: dict[str, str] = {}
        self.clones: dict[str, dict[str, str]] = {}

    def run(self, seconds: float) -> None:
        self.side_by_side((self.write, self.clone_theirs, self.clone_ours, self.use, self.detach, self.destroy,
                           self.collect_ours, self.collect_theirs, self.read, self.hold), seconds)

    @staticmethod
    def ours(verb: Callable[..., Any], *words: Any) -> None:
        asyncio.run(verb(*words))

    # --- the database

    def write(self, random: Random) -> None:
        number = 0
        while not self.over.is_set():
            self.scene.A.open(path="db", url=URL, settings=compacting(NEWEST))
            for _ in range(random.randrange(5, 40)):
                batch = {f"db{number + i:06d}": str(random.random()) for i in range(random.randrange(1, 6))}
                number += len(batch)
                self.tried |= batch
                self.scene.A.put(**batch)
                self.scene.A.flush()
                self.flushed |= batch
                if self.pause(random, 0.1, 0.5):
                    break
            self.scene.A.close()

    # --- clones

    def clone_theirs(self, random: Random) -> None:
        self.clone("theirs", random, lambda path: self.scene.K.clone(path=path, url=URL, sources=[["db", None, None]]))

    def clone_ours(self, random: Random) -> None:
        world = self.world("cloner")
        self.clone("ours", random, lambda path: self.ours(cloned, world, ["db", path], None, False, False))

    def clone(self, whose: str, random: Random, made: Callable[[str], Any]) -> None:
        number = 0
        while not self.pause(random, 0.1, 6):
            path, before = f"{whose}{number}", dict(self.flushed)
            number += 1
            if before and self.count(f"clones of {whose}", partial(made, path)):
                self.clones[path] = before

    def use(self, random: Random) -> None:
        """Open a clone, and write until it is compacted or nearly so."""
        number = 0
        while not self.pause(random, 0.1, 1):
            path = self.any_of(random)
            with self.spared(path):
                opens = partial(self.scene.U.open, path=path, url=URL, settings=compacting(NEWEST))
                if path not in self.clones or not self.count("clones opened", opens):
                    continue
                for _ in range(random.randrange(1, 12)):
                    row = {f"own{number:06d}": path}
                    number += 1
                    self.tried |= row
                    if not self.count("rows put into clones", partial(self.put, row)):
                        break
                    self.clones[path] = self.clones[path] | row
                self.count("clones closed", self.scene.U.close)

    def put(self, row: dict[str, str]) -> None:
        self.scene.U.put(**row)
        self.scene.U.flush()

    def any_of(self, random: Random) -> str:
        return random.choice([*self.clones, ""])

    def detach(self, random: Random) -> None:
        world = self.world("detacher")
        while not self.pause(random, 0.1, 2):
            if path := self.any_of(random):
                self.count("detaches", partial(self.ours, detached, world, path, False, False))

    def destroy(self, random: Random) -> None:
        world = self.world("destroyer")
        while not self.pause(random, 0.1, 15):
            if (path := self.any_of(random)) and self.forgotten(self.clones, path):
                self.count("clones destroyed", partial(self.ours, destroyed, world, path, "hard", 0, False))

    # --- around them

    def collect_ours(self, random: Random) -> None:
        world = self.world("collector")
        while not self.pause(random, 0.1, 2):
            path = random.choice(("db", self.any_of(random) or "db"))
            self.count("our rounds", partial(self.ours, self.collect, world, path))

    async def collect(self, world: World, path: str) -> None:
        """Let leases end early, so that SSTs which only a compactor's checkpoint keeps go; then collect."""
        manifests = stores_of_all(world)(path)
        for one in (await manifests.current()).value.checkpoints:
            if one.expire_time_s and one.create_time_s < time.time() - LEASE_S:
                await checkpoints.delete(manifests, one.id)
        rows = await gc_data.collected(world, path, DATA_MIN_AGE_MS)
        self.counts[f"SSTs deleted {'in the database' if path == 'db' else 'in clones'}"] += sum(
            row[0].startswith("compacted/") for row in rows)

    def collect_theirs(self, random: Random) -> None:
        while not self.pause(random, 0.1, 2):
            path = random.choice(("db", "db", *self.clones))
            with self.spared(path):
                if path == "db" or path in self.clones:
                    self.count("their rounds", partial(self.scene.G.collect, path=path, url=URL,
                                                       data_min_age_ms=DATA_MIN_AGE_MS))

    def read(self, random: Random) -> None:
        while not self.pause(random, 0.1, 1):
            if path := self.any_of(random):
                self.read_one(path)

    def read_one(self, path: str) -> None:
        with self.spared(path):
            if path not in self.clones:
                return
            before, found = self.clones[path], self.scene.R.read(path=path, url=URL)
        lost = {key for key, value in before.items() if found.get(key) != value}
        assert not lost and all(self.tried.get(key) == value for key, value in found.items()), (path, sorted(lost))
        self.counts["clones read"] += 1

    def hold(self, random: Random) -> None:
        clients = ("A", "K", "U", "G", *OURS)  # a reader that is held may take longer than its lease

        def rules() -> tuple[list[str], float]:
            return [f"{random.choice(('hold', 'hold-reply', 'delay 300', 'delay-reply 300'))} {random.choice(RULES)} "
                    f"client={random.choice(clients)} every={random.randrange(1, 4)}"
                    for _ in range(random.randrange(1, 9))], random.uniform(0.2, 4)

        self.disturb(rules, random, 1)


def test_a_clone_keeps_its_rows(tmp_path, monkeypatch):
    credentials(monkeypatch)
    with recorded(tmp_path / "log", others=OURS, limit_s=SOAK_S + 600, A=NEWEST, K=NEWEST, U=NEWEST, G=NEWEST,
                  R=NEWEST) as scene:
        soak = Soak(scene, SEED)
        soak.run(SOAK_S)
        for path in soak.clones:
            soak.read_one(path)
        found = scene.R.read(path="db", url=URL)
    print(soak.summary(SOAK_S), f"{len(soak.flushed):,} rows;", len(soak.clones), "clones left;", dict(soak.counts))
    assert soak.flushed == {key: found.get(key) for key in soak.flushed}
    for what in ("clones of ours", "clones of theirs", "clones read", "rows put into clones", "detaches", "our rounds",
                 "their rounds", "SSTs deleted in the database"):
        assert soak.counts[what], what
    began_s = time.monotonic()
    seen = refined(tmp_path / "log", monkeypatch)
    print(f"checked in {time.monotonic() - began_s:.1f} s:", seen)
