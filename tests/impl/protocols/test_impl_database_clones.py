"""A database and its clones on one store: impl/protocols/database_clones.py, and the codec of their manifests."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from highwater.impl.codecs.json.database import CLONED
from highwater.impl.codecs.json.manifest import DATABASE, Checkpoint, InvalidManifest
from highwater.impl.codecs.json.ssts import name_of, parts_of, records_of, stored, ulid_of
from highwater.impl.codecs.json.wal import Record
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of as ulid
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import AlreadyExists, OutcomeUnknown
from highwater.impl.protocols import clones, database_clones
from highwater.impl.protocols.database_clones import MergingCompactor, collect, open, stores_of, take_seen
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World

RECORDS = Record("0-1", 1, b"0.0"), Record("0-2", 1, b"0.1"), Record("1-1", 2, b"1.0")
FIRST, SECOND = name_of(RECORDS[:2]), name_of(RECORDS[2:])


# --- names and manifests

def test_an_sst_is_named_by_its_object_and_by_what_it_holds():
    merged = stored("0" * 26, (FIRST, SECOND))
    assert (ulid_of(merged), parts_of(merged), records_of(merged)) == ("0" * 26, (FIRST, SECOND), RECORDS)
    assert parts_of(FIRST) == (FIRST,) and records_of(FIRST) == RECORDS[:2]
    with pytest.raises(InvalidManifest):
        records_of("0" * 26 + "!no records")


FULL = Manifest(("u",), (Checkpoint("c", 2, 5),), (), 3, 2, 0, ("a", "b"), ("c",), 7, 1, 9, None, 0,
                (ExternalDb("p", "s", "f", ("b", "c")), ExternalDb("q", "t", None, ())), True)


@pytest.mark.parametrize("manifest", [Manifest(), Manifest(initialized=True), FULL], ids=["empty", "root", "full"])
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert CLONED.decode(CLONED.encode(manifest)) == manifest
    assert CLONED.is_initialized(manifest) == manifest.initialized
    assert (FULL.named_ssts, FULL.all_ssts) == ({"a"}, ("a", "b", "c"))


@pytest.mark.parametrize("body", [DATABASE.encode(Manifest()), b"[]", CLONED.encode(FULL).replace(b"true", b"1"),
                                  CLONED.encode(FULL).replace(b'"path"', b'"root"')])
def test_what_is_no_such_manifest_is_refused(body):
    with pytest.raises(InvalidManifest):
        CLONED.decode(body)


# --- databases

class Alone:
    """A clock, ids and metrics."""

    def __init__(self) -> None:
        self.now, self.ids = 1_000_000, count(1)

    def now_ms(self) -> int:
        return self.now

    async def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms

    def new_id(self) -> str:
        return ulid(self.now << 80 | next(self.ids))

    def count(self, name: str, amount: int = 1) -> None:
        pass

    observe = warn = count


class Failing:
    """A store whose next PUTs of the keys with this text do what they are told to."""

    def __init__(self, real: Any):
        self.real, self.part, self.then = real, "", list[Callable[..., Awaitable[str]]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    async def create(self, key: str, body: bytes) -> str:
        if self.then and self.part in key:
            return await self.then.pop(0)(key, body)
        return await self.real.create(key, body)


class Databases:
    """The databases of a test, for one client that runs everything to its end."""

    def __init__(self) -> None:
        self.alone = Alone()
        self.store = Failing(MemoryStore(self.alone.now_ms))
        self.world = World(self.store, self.alone, self.alone, self.alone)  # pyright: ignore[reportArgumentType]
        self.does(stores_of(self.world, "p").manifest.initialise(Manifest(initialized=True)))
        for root in ("p", "c"):
            self.does(stores_of(self.world, root).compactions.initialise(database_clones.compactions_json.Compactions()))

    def does(self, work: Any) -> Any:
        try:
            while True:
                work.send(None)
        except StopIteration as stop:
            return stop.value

    def latest(self, root: str) -> Manifest:
        return self.does(stores_of(self.world, root).manifest.current()).value

    def opened(self, root: str) -> Any:
        return self.does(open(stores_of(self.world, root), root, self.world))

    def cloned(self, checkpoint: str | None = None) -> Manifest:
        return self.does(clones.clone(lambda root: stores_of(self.world, root).manifest, "c", "p", checkpoint)).value

    def compact(self, root: str) -> None:
        async def merge(job: Any) -> None:
            pass

        compactor = MergingCompactor(stores_of(self.world, root), root)
        self.does(compactor.open())
        assert self.does(compactor.compact(merge))

    def collected(self, root: str) -> Any:
        self.alone.now += 1_000
        return self.does(collect(stores_of(self.world, root), root, 10))

    def ssts(self, root: str) -> list[str]:
        return [entry.key for entry in self.does(self.store.list_page(f"{root}/compacted/")).entries]


@pytest.fixture
def databases() -> Iterator[Databases]:
    yield Databases()


def test_a_clone_lives_on_without_its_parent(databases):
    writer = databases.opened("p")
    databases.does(writer.append(b"a"))
    databases.does(writer.flush())
    databases.does(writer.append(b"b"))
    databases.does(take_seen(stores_of(databases.world, "p").manifest, "x", 60_000))
    databases.does(writer.append(b"c"))
    databases.does(writer.flush())
    assert databases.collected("p")[2] == [1, 2, 4]  # 3 is b, which x has seen, and not flushed
    made = databases.cloned("x")
    assert (made.replay_after_wal_id, made.wal_id_last_seen, made.writer_epoch) == (2, 3, 2)
    clone = databases.opened("c")
    assert [record.body for record in clone.records] == [b"a", b"b"]
    databases.does(clone.flush())
    databases.compact("p")
    databases.collected("p")
    assert len(databases.ssts("p")) == 2  # its own, and the one that the clone's final keeps
    databases.compact("c")
    assert [of.sst_ids for of in databases.latest("c").external_dbs] == [()]
    assert databases.does(clones.detach(lambda root: stores_of(databases.world, root).manifest, "c")) == [
        made.external_dbs[0].final_checkpoint_id]
    databases.alone.now += 100_000
    databases.does(stores_of(databases.world, "p").manifest.drop_ended())
    databases.collected("p")
    assert len(databases.ssts("p")) == 1 and [record.body for record in databases.opened("c").records] == [b"a", b"b"]


def test_each_attempt_to_put_a_manifest_names_another_sst(databases):
    """A collector may delete the SST of an attempt that is in no history."""
    writer = databases.opened("p")
    databases.does(writer.append(b"a"))

    async def taken(key: str, body: bytes) -> str:
        await take_seen(stores_of(databases.world._replace(store=databases.store.real), "p").manifest, "x", None)
        raise AlreadyExists(key)

    databases.store.part, databases.store.then = "p/manifest/", [taken]
    databases.does(writer.flush())
    assert len(databases.ssts("p")) == 2 and len(databases.latest("p").l0) == 1


def test_an_sst_is_there_before_it_is_named(databases):
    writer = databases.opened("p")
    databases.does(writer.append(b"a"))

    async def lost(key: str, body: bytes) -> str:
        await databases.store.real.create(key, body)
        raise OutcomeUnknown(key)

    databases.store.part, databases.store.then = "/compacted/", [lost]
    databases.does(writer.flush())
    assert databases.ssts("p") == [database_clones.key_of("p", databases.latest("p").l0[0])]

    async def never(key: str, body: bytes) -> str:
        raise OutcomeUnknown(key)

    databases.does(writer.append(b"b"))
    databases.store.then = [never] * 1_000
    with pytest.raises(OutcomeUnknown):
        databases.does(writer.flush())
    assert len(databases.latest("p").l0) == 1
