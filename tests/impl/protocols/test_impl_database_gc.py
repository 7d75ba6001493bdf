"""The garbage collector, step by step as SlateDB's RFC on checkpoints and clones has it, on our files and on SlateDB's."""

import asyncio

import pytest

from highwater.dst.script import Alone
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import (
    COMPLETED,
    RUNNING,
    Checkpoint,
    Compaction,
    Run,
    Segment,
    Sst,
    SstInfo,
    Tiered,
    View,
)
from highwater.impl.codecs.sst_ids import listed, named, newest_l0, time_ms
from highwater.impl.errors import FencedInDoubt, NotFound, Unavailable
from highwater.impl.layout import InvalidName, Namespace, key_of_sst, sst_of
from highwater.impl.protocols import database_gc, database_metadata
from highwater.impl.protocols.database_gc import CheckpointGone, Collected, NoDatabase, Options, Plan
from highwater.impl.protocols.database_gc_uploads import Flushed, SstCompactor, SstTooOld, commit, flush, minted, upload
from highwater.impl.protocols.manifest_compactions import Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies

OLD = Options(10)
CHECKPOINT = "11111111-2222-4333-8444-555555555555"


class Ulids:
    """Mints ULIDs by the clock of `alone`, which `ahead_ms` moves."""

    def __init__(self, alone: Alone):
        self.alone, self.ahead_ms, self.given = alone, 0, 0

    def new_id(self) -> str:
        self.given += 1
        return ulid_of(self.alone.now + self.ahead_ms << 80 | self.given)


class Database:
    """A database with one client, whose clock moves by 100 ms after each step."""

    def __init__(self, root: str = "db", alone: Alone | None = None):
        self.alone, self.root = alone or Alone(), root
        self.ids = Ulids(self.alone)
        self.world = self.alone.world._replace(ids=self.ids)
        self.stores = database_metadata.stores_of(self.world, root)

    def does(self, call):
        try:
            return asyncio.run(call)
        finally:
            self.alone.now += 100

    def begin(self):
        self.does(database_metadata.initialise(self.stores))
        return self

    def flush(self, wal: Flushed | None = None) -> str:
        return self.does(flush(self.stores.manifest, self.root, b"rows", wal or Flushed()))

    def compact(self, *outputs: bytes) -> tuple[str, ...]:
        compactor = SstCompactor(self.stores, self.root)

        async def opened():
            await compactor.open()
            return await compactor.compact(outputs or (b"rows",))

        return self.does(opened())

    def collect(self, options: Options = OLD) -> Plan:
        return self.does(database_gc.collect(self.stores, self.root, options))

    def current(self) -> Manifest:
        return self.does(self.stores.manifest.current()).value

    def keys(self, part: str = "") -> list[str]:
        return [key for key in asyncio.run(self.listed()) if part in key]

    async def listed(self) -> list[str]:
        return [entry.key for entry in (await self.alone.real.list_page("")).entries]

    def ssts(self) -> list[str]:
        return [sst for key in self.keys(f"{self.root}/compacted/") if (sst := sst_of(self.root, key))]

    def data(self) -> list[str]:
        return self.keys("compacted/") + self.keys("wal/")

    def log(self, *ids: int) -> None:
        for i in ids:
            self.does(self.world.store.create(Namespace(self.root, "wal").key(i), b"record"))


# --- «Read the current manifest. If no manifest is found, exit.»

def test_no_manifest_ends_it():
    database = Database()
    with pytest.raises(NoDatabase):
        database.collect()
    with pytest.raises(NoDatabase):
        database.does(database_gc.plan(database.stores, "db", OLD))


# --- «Find any checkpoints that have expired and remove them»

def test_a_checkpoint_that_has_ended_is_removed_first_and_what_it_held_goes():
    database = Database().begin()
    first = database.flush()
    database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", database.alone.now + 500))
    output, = database.compact()
    second = database.flush()
    assert database.collect().ssts == () and database.ssts() == sorted([first, output, second])
    database.alone.now += 1_000
    assert database.collect().ssts == (first,)
    assert database.current().checkpoints == () and database.ssts() == sorted([output, second])


def test_a_checkpoint_that_has_ended_and_is_listed_keeps_what_it_names():
    """Its owner may renew it, and is told that it succeeded: the collector of released clients deletes nothing either."""
    database = Database().begin()
    first = database.flush()
    taken = database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", database.alone.now + 1))
    database.compact()
    database.flush()
    plan = database.does(database_gc.plan(database.stores, "db", OLD))
    assert taken.id not in plan.manifests and first not in plan.ssts
    shown = database.does(database_gc.plan(database.stores, "db", OLD, ended=True))
    assert taken.id in shown.manifests and first in shown.ssts


# --- «any manifest that is older than min_age and is not referenced by a checkpoint»

def test_manifests_and_compactions_files():
    database = Database().begin()
    for _ in range(3):
        database.flush()
    taken = database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", 0))
    database.compact()
    assert database.collect(Options(1_000_000)) == Plan(database.does(database.stores.manifest.current()).id, (0, 0))
    done = database.collect()
    latest = done.manifest
    assert set(done.manifests) == set(range(1, latest)) - {taken.id} and done.boundaries[0] == latest - 1
    assert database.keys("manifest/") == [f"db/manifest/{i:020d}.manifest" for i in (taken.id, latest)]
    assert len(database.keys("compactions/")) == 1
    assert asyncio.run(database.alone.real.get("db/gc/manifest.boundary")).body == b"%d" % (latest - 1)


# --- «Delete all WAL SSTs not in W»

def test_wal_objects_behind_the_latest_go_and_those_that_a_checkpoint_has_seen_stay():
    database = Database().begin()
    database.log(1, 2, 3, 4)
    database.flush(Flushed(2, 4))
    database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", 0))
    database.log(5, 6, 7)
    database.flush(Flushed(6, 7))
    assert database.collect(Options(1_000_000)).wal == ()
    assert database.collect().wal == (1, 2, 5)  # the checkpoint has seen 3 and 4; 6 is the end of the log, 7 is not flushed
    database.does(database_metadata.drop_checkpoint(database.stores.manifest, "cp"))
    assert database.collect().wal == (3, 4)


def test_fences_of_released_writers_stay():
    database = Database().begin()
    database.log(1)
    database.does(database.world.store.create(Namespace("db", "wal").key(2), b""))
    database.log(3, 4)
    database.flush(Flushed(4, 4))
    assert database.collect(OLD._replace(fences=False)).wal == (1, 3)
    assert database.collect().wal == (2,)


# --- «Delete all SSTs not in S with age older than min_age»

def test_an_sst_in_flight_stays_however_old_it_is():
    database = Database().begin()
    database.flush()
    pending = database.does(upload(database.world, "db", newest_l0(database.current()), b"rows"))
    database.alone.now += 1_000_000
    assert database.collect().ssts == ()
    database.does(commit(database.stores.manifest, pending, Flushed()))
    assert pending in named(database.current()) and pending in database.ssts()


def test_an_sst_that_can_no_longer_be_committed_goes():
    database = Database().begin()
    orphan = database.does(upload(database.world, "db", "", b"rows"))
    newest = database.flush()
    with pytest.raises(SstTooOld):
        database.does(commit(database.stores.manifest, orphan, Flushed()))
    assert database.collect().ssts == (orphan,) and database.ssts() == [newest]


def test_outputs_in_flight_stay_while_their_compaction_is_listed():
    database = Database().begin()
    inputs = [database.flush()]
    compactor = SstCompactor(database.stores, "db")
    database.does(compactor.open())
    database.alone.fails("create", ".manifest", Unavailable)
    with pytest.raises(Unavailable):
        database.does(compactor.compact((b"a", b"b")))
    newest = database.flush()
    assert database.collect().ssts == () and len(database.ssts()) == 4
    outputs = database.does(compactor.compact((b"a", b"b")))
    assert named(database.current()) == {*outputs, newest} and database.collect().ssts == tuple(inputs)


def test_outputs_of_a_compactor_that_is_fenced_go():
    database = Database().begin()
    database.flush()
    compactor = SstCompactor(database.stores, "db")
    database.does(compactor.open())
    database.alone.fails("create", ".manifest", Unavailable)
    with pytest.raises(Unavailable):
        database.does(compactor.compact((b"a",)))
    outputs, newest = [*compactor.outputs], database.flush()
    assert len(outputs) == 1
    database.does(SstCompactor(database.stores, "db").open())
    assert database.collect().ssts == tuple(outputs)
    with pytest.raises(FencedInDoubt):
        database.does(compactor.compact((b"a",)))
    assert newest in database.ssts()


def test_a_writer_whose_clock_is_behind_mints_a_newer_ulid():
    database = Database().begin()
    first = database.flush()
    database.ids.ahead_ms = -1_000_000
    second = database.flush()
    assert time_ms(second) == time_ms(first) + 1 and newest_l0(database.current()) == second
    assert time_ms(minted(database.ids, second)) == time_ms(second) + 1


def test_an_upload_does_not_overwrite_an_object():
    database = Database().begin()
    sst = database.does(upload(database.world, "db", "", b"first"))
    database.ids.given, database.alone.now = 0, database.alone.now - 100
    again = database.does(upload(database.world, "db", "", b"second"))
    assert time_ms(again) > time_ms(sst)
    assert asyncio.run(database.alone.real.get(key_of_sst("db", sst))).body == b"first"


def test_a_clock_that_is_ahead_deletes_nothing_young_by_the_store():
    """The ULID's time is compared as well: an object whose client's clock was behind looks older than it is."""
    database = Database().begin()
    database.ids.ahead_ms = -1_000_000
    database.does(upload(database.world, "db", "", b"rows"))
    database.flush()
    assert database.collect(Options(500)).ssts == ()
    database.alone.now += 500
    assert len(database.collect(Options(500)).ssts) == 1


def test_a_file_in_the_folder_that_is_no_sst():
    database = Database().begin()
    database.does(database.world.store.create("db/compacted/readme.txt", b""))
    database.flush()
    assert database.collect().ssts == ()
    database.does(database.world.store.create("db/compacted/copy.sst", b""))
    with pytest.raises(InvalidName):
        database.collect()


def test_a_listed_compaction_without_an_id_keeps_all():
    """The compactor of manifest_compactions merges records that are named, and not objects."""
    database = Database().begin()
    database.does(upload(database.world, "db", "", b"rows"))
    database.flush()
    database.does(database.stores.compactions.update(lambda _, c: c._replace(jobs=(("a",),))))
    assert listed(Compactions(1, (("a",),))) is None and database.collect().ssts == ()


# --- a plan, and its deletion

def test_a_dry_run_shows_what_a_round_does_and_writes_nothing():
    database = Database().begin()
    database.log(1, 2)
    database.flush(Flushed(2, 2))
    database.compact()
    database.flush()
    before = database.keys()
    plan = database.does(database_gc.plan(database.stores, "db", OLD, ended=True))
    assert database.keys() == before and (plan.ssts and plan.manifests and plan.wal and plan.compactions)
    assert database.collect() == plan


def test_it_may_die_at_every_request_and_is_started_again():
    def grown() -> Database:
        database = Database().begin()
        database.log(1, 2)
        database.flush(Flushed(2, 2))
        database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", 1))
        database.compact()
        database.flush()
        return database

    whole = grown()
    whole.alone.sent()
    whole.collect()
    requests = len(whole.alone.sent())
    assert requests > 20
    for at in range(requests):
        database = grown()
        stores = database_metadata.stores_of(database.world._replace(store=Dies(database.world.store, at)), "db")
        with pytest.raises(Died):
            database.does(database_gc.collect(stores, "db", OLD))
        database.collect()
        assert database.data() == whole.data()


class Died(Exception):
    pass


class Dies:
    """A store whose client dies before its request number `at`."""

    caches = False

    def __init__(self, store, at: int):
        self.store, self.left = store, at

    def __getattr__(self, name):
        def asked(*given):
            self.left -= 1
            if self.left < 0:
                raise Died
            return getattr(self.store, name)(*given)

        return asked


def test_a_delete_that_fails_is_left_to_the_next_round():
    database = Database().begin()
    database.does(upload(database.world, "db", "", b"rows"))
    database.flush()
    database.alone.fails("delete", ".sst", Unavailable)
    assert database.collect().ssts == () and any("the next round will find it" in text for text in database.alone.warnings)
    assert len(database.collect().ssts) == 1


def test_the_manifest_of_a_checkpoint_is_gone():
    database = Database().begin()
    taken = database.does(database_metadata.take_checkpoint(database.stores.manifest, "cp", 0))
    database.flush()
    database.does(database.world.store.delete(Namespace("db", "manifest").key(taken.id)))
    before = database.keys()
    with pytest.raises(CheckpointGone):
        database.collect()
    assert database.keys() == before


# --- «a single GC process that can manage GC for multiple databases»

def test_a_database_that_fails_does_not_stop_the_others():
    alone = Alone()
    good, bad, gone = (Database(root, alone) for root in ("good", "bad", "gone"))
    for database in (good, bad):
        database.begin()
        database.does(upload(database.world, database.root, "", b"rows"))
        database.flush()
    bad.does(bad.world.store.create("bad/compacted/x.sst", b""))
    databases = [Collected(of.root, lambda of=of: database_gc.collect(of.stores, of.root, OLD)) for of in (bad, gone, good)]
    asyncio.run(database_gc.rounds(alone.world, databases, 100, most=3))
    assert len(good.ssts()) == 1 and alone.counted.count("database_gc_failures") == 3
    assert sum("'bad' failed" in text for text in alone.warnings) == 3


def test_it_ends_when_all_databases_are_gone():
    database = Database()
    now_ms = database.alone.now
    databases = [Collected("db", lambda: database_gc.collect(database.stores, "db", OLD))]
    asyncio.run(database_gc.rounds(database.world, databases, 100))
    assert database.alone.now == now_ms


# --- SlateDB's files

def ulid(at_ms: int, number: int = 0) -> str:
    return ulid_of(at_ms << 80 | number)


L0, OUTPUT, HELD, ORPHAN, PENDING, COMPACTION, IN_SEGMENT = (ulid(100 * at) for at in (9, 5, 3, 2, 7, 6, 4))


def slatedb_manifest(held: str = "", checkpoints: tuple = ()) -> Manifest:
    ids = [L0, OUTPUT, *([held] if held else [])]
    runs = (Run(1, (View(OUTPUT, OUTPUT),)), *((Run(2, (View(held, held),)),) if held else ()))
    return Manifest(l0=(View(L0, L0),), compacted=runs, ssts=tuple(Sst(id_, SstInfo(), 2) for id_ in ids), initialized=True,
                    checkpoints=checkpoints, last_compacted_l0_view_id=HELD, last_compacted_l0_sst_id=HELD,
                    replay_after_wal_id=3, wal_id_last_seen=4)


@pytest.mark.parametrize("phase", [Phase.WRITE_V1, Phase.WRITE_V2])
@pytest.mark.parametrize("expire_time_s", [0, 1])
def test_slatedb_files(phase, expire_time_s):
    alone = Alone()
    stores = Stores(MetadataStore(alone.world, Namespace("db", "manifest"), ManifestCodec(phase)),
                    MetadataStore(alone.world, Namespace("db", "compactions"), compactions_slatedb,
                                  Policies(spare_checkpoints=False)))
    checkpoint = Checkpoint(CHECKPOINT, 2, expire_time_s)

    async def grown():
        await stores.manifest.initialise(Manifest(initialized=True))
        await stores.manifest.update(lambda _, m: slatedb_manifest(HELD, (checkpoint,)))
        await stores.manifest.update(lambda _, m: slatedb_manifest("", (checkpoint,)))
        await stores.compactions.initialise(compactions_slatedb.Compactions(1))
        await stores.compactions.update(lambda _, c: c._replace(recent_compactions=(
            Compaction(COMPACTION, Tiered(), RUNNING), Compaction(ulid(800), Tiered(), COMPLETED))))
        for sst in (L0, OUTPUT, HELD, ORPHAN, PENDING):
            await alone.world.store.create(key_of_sst("db", sst), b"sst")
        alone.now += 1_000_000

    asyncio.run(grown())
    plan = asyncio.run(database_gc.plan(stores, "db", OLD))
    assert plan == Plan(3, (2, 1), (1,), (1,), (), (ORPHAN,))  # PENDING is newer than COMPACTION, HELD is a checkpoint's
    done = asyncio.run(database_gc.collect(stores, "db", OLD))
    assert done.ssts == ((ORPHAN, HELD) if expire_time_s else (ORPHAN,))
    if not expire_time_s:
        assert asyncio.run(stores.manifest.read(2)) and asyncio.run(alone.real.get(key_of_sst("db", HELD)))
    else:
        with pytest.raises(NotFound):
            asyncio.run(alone.real.get(key_of_sst("db", HELD)))


def test_segments_and_last_compacted_ssts_are_seen():
    segment = Segment(b"p", ulid(1_000), (View(IN_SEGMENT, IN_SEGMENT),), (Run(1, (View(OUTPUT, OUTPUT),)),))
    manifest = Manifest(segments=(segment,), ssts=(Sst(HELD, SstInfo(), 2),))
    assert named(manifest) == {IN_SEGMENT, OUTPUT, HELD} and newest_l0(manifest) == ulid(1_000)
    assert newest_l0(Manifest(l0=("0-1~1~eA==",))) == ""


def test_no_compactions_file_keeps_all_ssts():
    """A database that no compactor has opened, or a release without such files, whose compactions nobody can see."""
    database = Database()
    database.does(database.stores.manifest.initialise(Manifest()))
    database.does(upload(database.world, "db", "", b"rows"))
    database.flush()
    assert database.collect().ssts == ()
