"""One database that our writer, compactor, collector, readers and clones share with released clients, for a chosen time.

Our `Db` and writers of 0.15.0 and 0.17.0 take the database from each other. Our compactor and those inside the writers of
0.17.0 take over from each other, and are stopped at any moment. Both sides collect, take checkpoints, read, clone; clones are
written and compacted by both sides, detached and destroyed by ours. Requests are held, delayed, answered late and lost.

Every acknowledged change is read back by both sides, all the time and at the end. A checkpoint shows the same as long as it is
held, and a clone the same until it is written. The log refines the models.

    HIGHWATER_SOAK_S=600 HIGHWATER_SOAK_SEED=7 .venv/bin/python -m pytest -m interop -s tests/interop -k acknowledged_change

Clients of 0.15.0 change the manifest only as writers, without a compactor. A reader, a cloner or a compactor of that release
makes open writers forget what is compacted (docs/operating/findings.md). So they read checkpoints, which changes nothing, until
all writers have ended.

WAL objects and SSTs have no boundary, only an age (DATA_MIN_AGE_MS) that everything held must be shorter than. The pins of
compactors last PIN_MS, so that what they have compacted away is collected during the run.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

import pytest

from highwater.admin import gc_data
from highwater.admin.check import judge
from highwater.admin.clone import cloned
from highwater.admin.destroy import destroyed
from highwater.admin.detach import detached
from highwater.admin.gc import stores_of
from highwater.impl.db import compactor
from highwater.impl.db.compaction import Form
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built
from highwater.impl.db.merge import Shown
from highwater.impl.db.pinned import DbReader, Snapshot
from highwater.impl.db.reader import CannotRead, Reader, opened
from highwater.impl.db.tiers import Tiers
from highwater.impl.errors import FencedInDoubt, StoreError, Unavailable
from highwater.impl.manifests.spans import Span
from highwater.impl.protocols import checkpoints, db_reader
from highwater.impl.protocols.db_reader_view import NotReadable
from highwater.impl.stores.system import Counters
from highwater.impl.world import World
from tests.interop.test_interop_traffic import refined
from tests.support.slatedb.batches import Batch, Batches, changes, joined, ours, theirs
from tests.support.slatedb.client import Client, PeerError, compacting
from tests.support.slatedb.ledger import NOTHING, Known, Ledger
from tests.support.slatedb.recorded import URL, Scene, recorded
from tests.support.slatedb.releases import NEWEST
from tests.support.slatedb.together import REFUSED, Together, credentials, seconds, seed

pytestmark = pytest.mark.interop
SOAK_S, SEED = seconds(60), seed()
OLDER = "0.15.0"
THEIRS = {"A": NEWEST, "B": OLDER, "G": NEWEST, "R": NEWEST, "S": OLDER, "K": NEWEST, "U": NEWEST}
WRITERS = ("A", "B")
ROLES = ("writer", "compactor", "collector", "operator", "reader", "cloner", "user", "detacher")
PORTS = max(10, int(SOAK_S / 2))  # of each role: an instance that was stopped has a name that no other one gets
AT = {"path": "db", "url": URL}
DATA_MIN_AGE_MS, PIN_MS, HOUR_MS = 12_000, 10_000, 3_600_000
LONGEST_HOLD_S = 4
LATE = "stale write"  # what `admin check` finds of a held PUT that landed where files were collected: its writer was refused
RULES = ("PUT */manifest/*", "GET */manifest/*", "LIST */manifest*", "PUT */compactions/*", "GET */compactions/*",
         "PUT */gc/*", "GET */gc/*", "PUT */wal/*", "GET */wal/*", "PUT */compacted/*", "GET */compacted/*",
         "DELETE */manifest/*", "DELETE_MANY *")
SHORT = ("PUT */wal/*", "GET */wal/*", "PUT */compacted/*", "GET */compacted/*")  # of data: not held for long
LOST = ("lose", "lose", "drop", "late 200", "fail 503", "fail-reply 503")
QUICK = {"compactor_options.worker_heartbeat_timeout": "1s"}  # what a compactor of ours has left is taken over soon
PATIENT = {"l0_max_ssts": 1000, "l0_max_ssts_per_key": 1000,  # else a flush may wait for a compactor that has ended
           "manifest_poll_interval": "50ms"}


async def rows_of(found: AsyncIterator[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the rows of a scan by our `Db`."""
    return {key.decode(): value.decode() async for key, value in found}


async def merged_rows(shown: AsyncIterator[Shown]) -> dict[str, str]:
    """Return the rows of a scan by a reader of ours."""
    return {one.key.decode(): one.merged(joined).decode() async for one in shown}


async def read_here(world: World, path: str, checkpoint: str | None = None) -> dict[str, str]:
    """Read the latest state, or that of a checkpoint, as `highwater db scan` does: nothing is written."""
    state = await opened(world.store, path, checkpoint)
    return await merged_rows(Reader(world.store, state).scan(Span(), world.clock.now_ms()))


def run(work: Callable[..., Coroutine[Any, Any, Any]], *words: Any) -> Any:
    return asyncio.run(work(*words))


class Clone:
    """`rows`: what the clone showed at first; `own`: what was acknowledged since."""

    def __init__(self, rows: dict[str, str]):
        self.rows, self.own, self.tried = rows, dict[str, str](), dict[str, str]()


class Soak(Together):
    """`flushed`: what was in SSTs at the last look. `held`: checkpoints, from when they are taken until before they are
    deleted; with the rows that they showed first. `live`: the port that each of our roles has now."""

    def __init__(self, scene: Scene, seed: int):
        super().__init__(scene, seed)
        self.ledger, self.flushed = Ledger(), NOTHING
        self.held: dict[str, dict[str, str] | None] = {}
        self.clones: dict[str, Clone] = {}
        self.live: dict[str, str] = {}
        self.turn_ends_s = 0.0  # until then most writers leave the database to the one that has opened it last
        self.instances: dict[str, int] = dict.fromkeys(ROLES, 0)

    def run(self, seconds: float) -> None:
        works = [self.write_ours, self.compact, self.collect_ours, self.collect_theirs, self.take_checkpoints, self.read_theirs,
                 self.read_ours, self.clone, self.use, self.detach, lambda random: self.disturb(
                     lambda: self.rules(random), random, 0.2)]
        works += [lambda random, name=name: self.write_theirs(name, random) for name in "AB"]
        self.side_by_side(works, seconds)
        world, last_s = self.new_world("collector"), time.monotonic() + 60
        while not self.counts["deleted by ours in compacted/"] and time.monotonic() < last_s:  # none was old
            time.sleep(1)
            run(self.collected, world, "db", True)

    def new_world(self, role: str) -> World:
        """Return the world of a new instance: the recorder knows it by a name of its own. One that was told of an unknown
        outcome ends: `trace check` does not see what callers are told, and takes its next update for a claim that the one
        before stands."""
        self.live[role] = f"{role}{self.instances[role] % PORTS}"
        self.instances[role] += 1
        return self.world(self.live[role])

    def rules(self, random: Random) -> tuple[list[str], float]:
        long = random.random() < 0.2
        made, ours = [], list(self.live.values())
        for _ in range(random.randrange(3, 15)):
            how = random.choice(("hold", "hold", "hold-reply", "delay 300", "delay-reply 300", random.choice(LOST)))
            what = random.choice([one for one in RULES if not (long and one in SHORT)])
            client = random.choice(random.choice((WRITERS, [*THEIRS], ours)) or WRITERS)
            made.append(f"{how} {what} client={client} every={random.choice((1, 1, 2, 4))}")
        return made, random.uniform(1, LONGEST_HOLD_S) if long else random.uniform(0.3, 2)

    # --- writers

    def waits_for_turn(self, random: Random) -> None:
        """Leave the last writer some time, so that a slow one is not always fenced before it has written; but not each time."""
        self.pause(random, 0, 1)
        if random.random() < 0.7:
            self.over.wait(max(0.0, self.turn_ends_s - time.monotonic()))

    def begins_turn(self, random: Random) -> None:
        self.turn_ends_s = time.monotonic() + random.uniform(0.5, 4)

    def write_theirs(self, name: str, random: Random) -> None:
        """Open, and write until it is fenced or has enough; then the others may have it for a while."""
        client, batches = self.scene.clients[name], Batches(name, random)
        while not self.over.is_set():
            self.waits_for_turn(random)
            self.count(f"sessions of {THEIRS[name]}", partial(self.session_of, client, name, batches, random))
            try:
                client.close()
            except PeerError:
                pass  # it was not open, or ends as it should

    def session_of(self, client: Client, name: str, batches: Batches, random: Random) -> None:
        before = self.ledger.known()
        settings = PATIENT | {"min_filter_keys": random.choice((1, 1000))}
        if THEIRS[name] == NEWEST and random.random() < 0.6:
            settings |= compacting(NEWEST) | QUICK
        client.open(**AT, settings=settings, merging=True)
        self.counts[f"openings of {THEIRS[name]}"] += 1
        self.begins_turn(random)
        for _ in range(random.randrange(5, 60)):
            if self.over.is_set():
                break
            if random.random() < 0.05:
                self.ledger.shown(scanned(client), before)
                self.counts["scans by released writers"] += 1
            batch, kind = batches.next(), random.choice(("WAL", "WAL", "MEM_TABLE"))
            places = self.ledger.tried(changes(batch))
            client.write(batch=theirs(batch))
            client.flush(kind=kind)
            self.ledger.acknowledged(places)
            before = before.newer(self.ledger.of(places))
            if kind == "MEM_TABLE":
                self.flushed = self.flushed.newer(before)
            self.counts[f"batches by {THEIRS[name]}"] += 1
        client.close()

    def write_ours(self, random: Random) -> None:
        batches = Batches("ours", random)
        while not self.over.is_set():
            self.waits_for_turn(random)
            self.count("our sessions", lambda: asyncio.run(self.our_session(batches, random)))

    async def our_session(self, batches: Batches, random: Random) -> None:
        before = self.ledger.known()
        options = Options(joined, l0_sst_bytes=random.choice((2000, 10_000, 64 << 20)), poll_ms=random.choice((0, 100, 1000)),
                          replay_flush=random.choice((None, None, 1, 3)), built=Built(least_filtered=random.choice((1, 1000))))
        db = await Db.open(self.new_world("writer"), "db", options)
        self.counts["our openings"] += 1
        self.begins_turn(random)
        try:
            for _ in range(random.randrange(5, 60)):
                if self.over.is_set():
                    break
                before = await self.our_step(db, batches, before, random)
                await asyncio.sleep(random.uniform(0, 0.1))
        finally:
            await db.close()

    async def our_step(self, db: Db, batches: Batches, before: Known, random: Random) -> Known:
        """Do one thing; return what later reads of this writer must show."""
        what = random.random()
        if what < 0.7:
            made = [batches.next() for _ in range(random.choice((1, 1, 3)))]
            told = await asyncio.gather(*[self.our_write(db, batch) for batch in made], return_exceptions=True)
            for one in told:
                if isinstance(one, BaseException):
                    raise one
                before = before.newer(one)
        elif what < 0.85:
            await db.flush()
            self.flushed = self.flushed.newer(before)
            self.counts["our flushes"] += 1
        elif what < 0.9:
            durable_only = random.random() < 0.5
            checkpoint = await db.checkpoint(HOUR_MS, "soak", durable_only)
            found = await self.checkpoint_here(db.world, checkpoint)
            if not durable_only:
                self.flushed = self.flushed.newer(before)
            self.ledger.shown(found, before)
            self.held[checkpoint] = found
            self.counts["checkpoints of our writer"] += 1
        else:
            await self.our_reads(db, before, random)
        return before

    async def our_write(self, db: Db, batch: Batch) -> Known:
        places = self.ledger.tried(changes(batch))
        await db.write(ours(batch))
        self.ledger.acknowledged(places)
        self.counts["batches by ours"] += 1
        return self.ledger.of(places)

    async def our_reads(self, db: Db, before: Known, random: Random) -> None:
        """A scan; a snapshot that is read again; and single keys, as the snapshot shows them."""
        self.ledger.shown(await rows_of(db.scan()), before)
        snapshot = db.snapshot()
        first = await rows_of(snapshot.scan())
        self.ledger.shown(first, before)
        await asyncio.sleep(random.uniform(0, 1))
        for key in random.sample(sorted(first), min(3, len(first))):
            assert await snapshot.get(key.encode()) == first[key].encode()
        assert await rows_of(snapshot.scan()) == first
        snapshot.end()
        self.counts["scans by our writer"] += 2

    async def checkpoint_here(self, world: World, checkpoint: str) -> dict[str, str]:
        """Read a checkpoint that is held; it can be read."""
        return await again(lambda: read_here(world, "db", checkpoint))

    # --- compactors and collectors

    def compact(self, random: Random) -> None:
        """Compact for some polls, or until another compactor takes over. Some instances are stopped at any moment."""
        while not self.pause(random, 0, 3):
            options = compactor.Options(100, Tiers(random.choice((2, 4)), 8, random.choice((4.0, 1e9))),
                                        Form(random.choice((3000, 1 << 20)), min_filter_keys=random.choice((1, 1000))), PIN_MS)
            path = "db" if random.random() < 0.8 else random.choice([*self.clones, "db"])
            limit_s = random.uniform(0.2, 8) if random.random() < 0.5 else 60
            try:
                asyncio.run(self.compacted(path, options, random.randrange(2, 40), limit_s))
                self.counts[f"our compactors of {'db' if path == 'db' else 'clones'}"] += 1
            except FencedInDoubt:
                self.counts["our compactors fenced"] += 1
            except REFUSED as error:
                assert path != "db", f"our compactor stops: {error!r}"
                self.counts[f"our compactor of a clone: {type(error).__name__}"] += 1

    async def compacted(self, path: str, options: compactor.Options, polls: int, limit_s: float) -> None:
        world = self.new_world("compactor")
        try:
            async with asyncio.timeout(limit_s):
                await compactor.run(world, path, options, polls)
        except TimeoutError:
            self.counts["our compactors stopped"] += 1
        finally:
            assert isinstance(world.metrics, Counters)
            for name in ("compactions", "compactions_failed"):
                self.counts[f"our {name}"] += int(world.metrics.snapshot().get(name, 0))

    def collect_ours(self, random: Random) -> None:
        known = False
        while not self.pause(random, 0.1, 1.5):
            if not known:
                world = self.new_world("collector")
            path = random.choice(("db", "db", *self.clones))
            known = self.count("our rounds", partial(run, self.collected, world, path, random.random() < 0.5))

    async def collected(self, world: World, path: str, data: bool) -> None:
        stores = stores_of(world, path)
        for one in (await stores["manifest"].current()).value.checkpoints:
            if is_pin(one.create_time_s, one.expire_time_s) and one.create_time_s < time.time() - PIN_MS / 1000:
                await checkpoints.delete(stores["manifest"], one.id)
        if not data:
            await stores["manifest"].drop_ended()
            for store in stores.values():
                self.counts["files deleted by ours"] += len(await store.collect(0))
            return
        rows = await gc_data.collected(world, path, DATA_MIN_AGE_MS)
        for folder in ("wal", "compacted"):
            self.counts[f"deleted by ours in {folder}/"] += sum(row[0].startswith(f"{folder}/") for row in rows)

    def collect_theirs(self, random: Random) -> None:
        while not self.pause(random, 0.1, 1.5):
            path = random.choice(("db", "db", *self.clones))
            with self.spared(path):
                if path == "db" or path in self.clones:
                    self.count("their rounds", partial(self.scene.G.collect, path=path, url=URL,
                                                       data_min_age_ms=DATA_MIN_AGE_MS))

    # --- checkpoints

    def take_checkpoints(self, random: Random) -> None:
        known = False
        while not self.pause(random, 0.1, 1.5):
            if not known:
                manifests = stores_of(self.new_world("operator"), "db")["manifest"]
            known = self.change_checkpoints(manifests, self.held, random)

    def read_checkpoint(self, name: str, read: Callable[[], dict[str, str]], who: str) -> None:
        """A checkpoint that is held can be read, and shows what it showed before."""
        try:
            found = read()
        except REFUSED as error:
            assert name not in self.held, f"{name} is held, and {who} cannot read it: {error!r}"
            return
        before = self.held.get(name)
        if before is None:
            self.ledger.shown(found, NOTHING)
            if name in self.held:
                self.held[name] = found
        else:
            assert found == before, f"checkpoint {name} shows {difference(before, found)} to {who}"
        self.counts[f"checkpoints read by {who}"] += 1

    # --- readers

    def read_theirs(self, random: Random) -> None:
        while not self.pause(random, 0.1, 1):
            if self.held and random.random() < 0.6:
                client, name = random.choice((self.scene.R, self.scene.S)), random.choice(list(self.held))
                self.read_checkpoint(name, lambda client=client, name=name: client.read(
                    **AT, checkpoint=name, merging=True), "theirs")
            else:
                self.count("reads by theirs", lambda: self.read_latest(lambda: self.scene.R.read(**AT, merging=True)))

    def read_latest(self, read: Callable[[], dict[str, str]]) -> None:
        since = self.ledger.known()
        self.ledger.shown(read(), since)

    def read_ours(self, random: Random) -> None:
        while not self.pause(random, 0.1, 1):
            world = self.new_world("reader")
            try:
                if self.held and random.random() < 0.6:
                    name = random.choice(list(self.held))
                    self.read_checkpoint(name, lambda name=name, world=world: asyncio.run(
                        self.checkpoint_here(world, name)), "ours")
                else:
                    asyncio.run(self.follow(world, random))
            except StoreError as error:  # not begun, or no reply
                assert not isinstance(error, NotReadable | CannotRead), error
                self.counts[f"our reader: {type(error).__name__}"] += 1

    async def follow(self, world: World, random: Random) -> None:
        """Open a reader, and take snapshots. The first one has what was acknowledged before the reader was opened, and each has
        what the one before has. Each shows the same to its end, whatever is compacted and collected meanwhile."""
        least = self.ledger.known()
        reader = DbReader(stores_of(world, "db")["manifest"], "db", db_reader.Options(HOUR_MS // 3, HOUR_MS))
        await reader.open()
        taken: list[tuple[Snapshot, dict[str, str]]] = []
        for _ in range(random.randrange(1, 8)):
            if self.over.is_set():
                break
            taken.append((reader.snapshot(), {}))
            found = await merged_rows(taken[-1][0].scan())
            least = self.ledger.shown(found, least)
            taken[-1] = (taken[-1][0], found)
            await asyncio.sleep(random.uniform(0, 1))
            await reader.pins.poll()
        for snapshot, found in taken:
            assert await merged_rows(snapshot.scan()) == found
            snapshot.end()
            self.counts["our snapshots read again"] += 1
        await reader.close()

    # --- clones

    def clone(self, random: Random) -> None:
        number = 0
        while not self.pause(random, 1, 8):
            path, before = f"clone{number}", self.flushed
            number += 1
            if not before.changes:
                continue
            source = random.choice([None, *self.held])
            if number % 2:
                words = self.new_world("cloner"), ["db", path], source, False, False
                made = self.count("clones by ours", partial(run, cloned, *words))
            else:
                made = self.count("clones by theirs", partial(self.scene.K.clone, path=path, url=URL, sources=[
                    ["db", None, None, *([source] if source else [])]]))
            if made:
                self.registered(path, NOTHING if source else before)

    def registered(self, path: str, since: Known) -> None:
        """Read a new clone by both sides; from now on others may use it."""
        found: list[dict[str, str]] = []
        self.count("new clones read by theirs", lambda: found.append(self.scene.K.read(path=path, url=URL, merging=True)))
        self.count("new clones read by ours", lambda: found.append(asyncio.run(read_here(self.new_world("cloner"), path))))
        for rows in found:
            self.ledger.shown(rows, since)
            assert rows == found[0], f"{path} shows {difference(found[0], rows)}"
        if found:
            self.clones[path] = Clone(found[0])

    def use(self, random: Random) -> None:
        """Open a clone, write and read; one at a time."""
        number = 0
        while not self.pause(random, 0.2, 1):
            path = random.choice([*self.clones, ""])
            if not path:
                continue
            rows = {f"own{number + i:06d}": str(random.random()) for i in range(random.randrange(1, 10))}
            number += len(rows)
            clone = self.clones.get(path)
            if clone is None:
                continue  # it is destroyed meanwhile
            clone.tried |= rows
            if random.random() < 0.5:
                self.count("clones used by ours", partial(run, self.use_ours, path, clone, rows))
                continue
            with self.spared(path):
                if path in self.clones:
                    self.count("clones used by theirs", partial(self.use_theirs, path, clone, rows, random))
                    try:
                        self.scene.U.close()
                    except PeerError:
                        pass

    def check_clone(self, path: str, clone: Clone, found: dict[str, str]) -> None:
        """A clone shows what it showed at first, and what was acknowledged since; unless it is destroyed meanwhile."""
        least, most = clone.rows | clone.own, clone.rows | clone.tried
        lost = {key for key, value in least.items() if found.get(key) != value}
        more = {key for key, value in found.items() if most.get(key) != value}
        assert not (lost or more) or path not in self.clones, (path, sorted(lost)[:5], sorted(more)[:5])
        self.counts["clones read"] += 1

    async def use_ours(self, path: str, clone: Clone, rows: dict[str, str]) -> None:
        db = await Db.open(self.new_world("user"), path, Options(joined, l0_sst_bytes=2000, poll_ms=100))
        try:
            self.check_clone(path, clone, await rows_of(db.scan()))
            for key, value in rows.items():
                await db.put(key.encode(), value.encode())
                clone.own[key] = value
                await db.flush()
            self.check_clone(path, clone, await rows_of(db.scan()))
        finally:
            await db.close()

    def use_theirs(self, path: str, clone: Clone, rows: dict[str, str], random: Random) -> None:
        settings = PATIENT | (compacting(NEWEST) | QUICK if random.random() < 0.7 else {})
        self.scene.U.open(path=path, url=URL, settings=settings, merging=True)
        self.check_clone(path, clone, {row[0]: row[1] for row in self.scene.U.rows()})
        for key, value in rows.items():
            self.scene.U.put(**{key: value})
            self.scene.U.flush()
            clone.own[key] = value
        self.check_clone(path, clone, {row[0]: row[1] for row in self.scene.U.rows()})
        self.scene.U.close()

    def detach(self, random: Random) -> None:
        while not self.pause(random, 0.2, 3):
            path = random.choice([*self.clones, ""])
            if not path:
                continue
            world = self.new_world("detacher")
            if len(self.clones) > 4 and random.random() < 0.3:
                if self.forgotten(self.clones, path):
                    self.count("clones destroyed", partial(run, destroyed, world, path, "hard", 0, False))
            else:
                self.count("detaches", partial(run, self.detached, world, path))

    async def detached(self, world: World, path: str) -> None:
        self.counts["parents left"] += len((await detached(world, path, False, False)).detached)

    # --- the end

    def read_back(self) -> None:
        """Everything that was acknowledged, is held or cloned is read by both sides."""
        world, since = self.new_world("reader"), self.ledger.known()
        states = [reader.read(**AT, merging=True) for reader in (self.scene.R, self.scene.S)]
        states.append(asyncio.run(read_here(world, "db")))
        for found in states:
            self.ledger.shown(found, since)
            assert found == states[0], difference(states[0], found)
        for name in list(self.held):
            for reader in (self.scene.R, self.scene.S):
                self.read_checkpoint(name, lambda reader=reader, name=name: reader.read(
                    **AT, checkpoint=name, merging=True), "theirs")
            self.read_checkpoint(name, lambda name=name: asyncio.run(self.checkpoint_here(world, name)), "ours")
        for path, clone in self.clones.items():
            for found in (self.scene.R.read(path=path, url=URL, merging=True), asyncio.run(read_here(world, path))):
                self.check_clone(path, clone, found)
        for path in ("db", *self.clones):
            found = asyncio.run(judge(world, path))
            wrong = [one for one in found if one.level != "note" and one.kind != LATE]
            assert not wrong, (path, wrong)
        asyncio.run(self.written_once_more())
        found = self.scene.R.read(**AT, merging=True)
        assert found.pop("end") == "ours" and found == states[0]

    async def written_once_more(self) -> None:
        db = await Db.open(self.new_world("writer"), "db", Options(joined, poll_ms=0))
        assert await rows_of(db.scan()) == self.scene.R.read(**AT, merging=True)
        await db.put(b"end", b"ours")
        await db.close()


def scanned(client: Client) -> dict[str, str]:
    """Return what a released writer shows. It has no checkpoint: the pin of a compaction keeps what it still reads."""
    try:
        return {row[0]: row[1] for row in client.rows()}
    except PeerError as error:
        assert "compacted/" not in str(error), f"an SST was deleted while its pin should have kept it: {error}"
        raise


def is_pin(create_s: int, expire_s: int) -> bool:
    """Say whether a checkpoint is the one of a released compactor: it lasts 900 s, and no other one here does."""
    return expire_s - create_s in (899, 900, 901)


def difference(before: dict[str, str], found: dict[str, str]) -> list[tuple[str, str | None, str | None]]:
    keys = sorted(before.keys() | found.keys())
    return [(key, before.get(key), found.get(key)) for key in keys if before.get(key) != found.get(key)][:5]


async def again(read: Callable[[], Awaitable[dict[str, str]]]) -> dict[str, str]:
    """Read, and again while there is no reply."""
    for _ in range(4):
        try:
            return await read()
        except Unavailable:
            continue
    return await read()


def run_soak(log: Any, made: Callable[[Scene, int], Soak]) -> Soak:
    ports = tuple(f"{role}{number}" for role in ROLES for number in range(PORTS))
    with recorded(log, others=ports, limit_s=SOAK_S + 600, **THEIRS) as scene:
        soak = made(scene, SEED)
        soak.run(SOAK_S)
        soak.read_back()
        soak.counts |= {f"{folder} left": len(scene.ids(folder)) for folder in ("manifest", "compactions", "wal")}
    return soak


def test_no_acknowledged_change_is_lost(tmp_path, monkeypatch):
    credentials(monkeypatch)
    soak = run_soak(tmp_path / "log", Soak)
    print(soak.summary(SOAK_S), len(soak.ledger.known().changes), "keys acknowledged;", len(soak.clones), "clones left;",
          dict(sorted(soak.counts.items())))
    for what in ("batches by 0.15.0", "batches by 0.17.0", "batches by ours", "our compactions", "our rounds", "their rounds",
                 "files deleted by ours", "deleted by ours in compacted/", "checkpoints read by theirs",
                 "checkpoints read by ours", "our snapshots read again", "reads by theirs", "clones by ours", "detaches"):
        assert soak.counts[what], what
    began_s = time.monotonic()
    seen = refined(tmp_path / "log", monkeypatch)
    print(f"checked in {time.monotonic() - began_s:.1f} s:", seen)
