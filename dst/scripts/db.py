"""Scripts of a writer of a whole database, impl/db/db.py."""

from itertools import chain

from highwater.dst.script import LOST, Alone, Script, check, fails_with, same
from highwater.dst.scripts.db_begun import (
    MANIFESTS,
    all_of,
    another,
    change,
    latest,
    left,
    opened,
    options_of,
    sst_id,
    with_sst,
    world_of,
)
from highwater.impl.codecs.destroyed import HARD, Mark
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import WriterCheckpoint
from highwater.impl.db.compactor import DbCompactor, stores_of
from highwater.impl.db.compactor import Options as Compacting
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.db import Db, MergeMissing, Options
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.memtable import Memtable
from highwater.impl.db.merge import Shown
from highwater.impl.db.ranges import OutsideRange
from highwater.impl.db.reader import CannotRead
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.tiers import Tiers
from highwater.impl.db.upload import UPLOADS
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.errors import FencedUnapplied, OutcomeUnknown, Unavailable
from highwater.impl.layout import key_of_sst, sst_of
from highwater.impl.manifests.spans import Span
from highwater.impl.protocols import destroy
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.protocols.wal_fencing import Closed
from highwater.impl.world import World

CURRENT = ["list manifest", "get 1.manifest", "get manifest.boundary"]
APPEND = ["create {}.sst", "list manifest"]
FIRST = "get manifest.boundary"  # after the first listing of a manifest by this writer


def name_of(sst: str) -> str:
    return f"{sst.lstrip('0')}.sst"


def appended(*numbers: int) -> list[str]:
    """Return the requests of writes that put these objects."""
    return [of.format(number) for number in numbers for of in APPEND]


# --- a life

async def life(alone: Alone) -> None:
    """A database is made, written to, flushed and opened again."""
    world = world_of(alone)
    db = await Db.open(world, "db", options_of())
    same(alone.sent(), ["list manifest", "create 1.manifest", "get manifest.boundary", *CURRENT, "list manifest",
                        "get 1.manifest", "create 2.manifest", "get manifest.boundary", "list wal", *appended(1), FIRST])
    same([await db.put(b"a", b"1"), await db.merge(b"a", b"2"), await db.delete(b"b")], [1, 2, 3])
    same(alone.sent(), appended(2, 3, 4))
    same((await db.get(b"a"), await db.get(b"b"), await all_of(db)), (b"1+2", None, {b"a": b"1+2"}))
    same(alone.sent(), [])
    await db.flush()
    number, manifest = await latest(alone)
    sst, own = manifest.ssts[0], manifest.checkpoints[0]
    same(alone.sent(), [f"create {name_of(sst.id)}", "create 3.manifest", "get manifest.boundary"])
    same((number, manifest.writer_epoch, manifest.replay_after_wal_id, manifest.wal_id_last_seen), (3, 1, 4, 4))
    same((manifest.last_l0_seq, manifest.last_l0_clock_tick, manifest.recent_snapshot_min_seq), (3, alone.now, 3))
    same(([view.id for view in manifest.l0], len(manifest.checkpoints), own.manifest_id, own.metadata),
         ([sst.id], 1, 3, WriterCheckpoint(1)))
    same((await db.get(b"a"), await all_of(db)), (b"1+2", {b"a": b"1+2"}))
    same(alone.sent(), [f"get_range {name_of(sst.id)}"])
    await db.flush()
    same(alone.sent(), [])
    alone.now += 7
    await db.put(b"c", b"3")
    await db.close()
    await db.close()
    await alone.raises(Closed, db.put(b"d", b"4"))
    same(alone.sent(), [*appended(5), FIRST])
    later = await Db.open(world, "db", options_of())
    same(alone.sent(), ["list manifest", "list manifest", "get 3.manifest", "get manifest.boundary", "list manifest",
                        "get 3.manifest", "create 4.manifest", "get manifest.boundary", "list wal", "create 6.sst", "get 5.sst",
                        "list manifest", FIRST])
    same((later.epoch, later.seq, later.tick_ms), (2, 4, alone.now))
    same(await all_of(later), {b"a": b"1+2", b"c": b"3"})
    await later.close()


async def empty(alone: Alone) -> None:
    """A writer that finds nothing in the log goes on with the numbers and the times of the SSTs."""
    await left(alone, [[Row(b"a", 7, create_ms=1_000_500)]], last_l0_clock_tick=1_000_500)
    db = await opened(alone)
    same((db.seq, db.tick_ms, db.memtable.size_bytes), (7, 1_000_500, 0))
    same(await db.put(b"b", b"1"), 8)
    await db.flush()
    same((await latest(alone))[1].last_l0_clock_tick, 1_000_500)
    await db.close()


async def batches(alone: Alone) -> None:
    """A batch has one number, and one change for each key: a put or a delete replaces those before, and merges join them."""
    db = await opened(alone)
    same(await db.write([put(b"a", b"1"), put(b"b", b"1"), put(b"a", b"2")]), 1)
    same(await db.write([delete(b"a"), put(b"c", b"", 5)]), 2)
    same(await all_of(db), {b"b": b"1", b"c": b""})
    same(await db.shown(b"c"), Shown(b"c", b"", (), 2, alone.now, alone.now + 5))
    alone.now += 4
    same(await db.get(b"c"), b"")
    alone.now += 1
    same((await db.get(b"c"), await db.shown(b"c"), await all_of(db, Span(b"b", b"c"))), (None, None, {b"b": b"1"}))
    for ops in ([], [put(b"", b"1")], [put(b"a", b"1", 0)], [put(b"a", b"1"), merge(b"a", b"2", 5)],
                [merge(b"a", b"1", 5), merge(b"a", b"1")], [put(b"k" * 65_536, b"")]):
        await alone.raises(ValueError, db.write(ops))
    same(await db.write([put(b"k" * 65_535, b""), put(b"d", b"1", 1)]), 3)
    same(await db.write([put(b"e", b"1"), merge(b"e", b"2"), merge(b"f", b"3"), merge(b"f", b"4"), merge(b"b", b"5"),
                         delete(b"b"), delete(b"g"), merge(b"g", b"6")]), 4)
    same([await db.get(key) for key in (b"b", b"e", b"f", b"g")], [None, b"1+2", b"++3+4", b"+6"])
    await db.close()


async def misplaced(alone: Alone) -> None:
    """WAL objects in each other's places, and an SST among them, are noticed: no writer opens."""
    db = await opened(alone)
    for key in (b"a", b"b"):
        await db.put(key, b"1")
    await db.flush()
    for key in (b"c", b"d"):
        await db.put(key, b"1")
    await db.close()
    first, second = (f"db/wal/{number:020}.sst" for number in (4, 5))
    bodies = [(await alone.real.get(key)).body for key in (first, second)]
    sst = (await alone.real.get(key_of_sst("db", db.manifest.l0[0].sst_id))).body
    for those in ((bodies[1], bodies[0]), (bodies[0], sst)):
        for key, body in zip((first, second), those):
            await alone.real.put(key, body)
        await alone.raises(DamagedObject, Db.open(world_of(alone), "db", options_of()))


async def without_operator(alone: Alone) -> None:
    """A batch that changes a key and merges it needs the operator."""
    db = await opened(alone, merge=None)
    await alone.raises(ValueError, db.write([put(b"a", b"1"), merge(b"a", b"2")]))
    await db.close()


async def options(alone: Alone) -> None:
    for bad in ({"l0_sst_bytes": 0}, {"max_unflushed_bytes": 0}, {"l0_max_ssts": 0}, {"attempts": 0}, {"manifest_version": 3},
                {"cache_bytes": -1}, {"poll_ms": -1}, {"replay_flush": 0}):
        fails_with(ValueError, lambda bad=bad: Db(world_of(alone), "db", options_of(**bad)))
    Db(world_of(alone), "db", Options(None, 1, 1, 1, 1, 0, 1, 1, 0))
    same(alone.sent(), [])
    db = await opened(alone, manifest_version=1)
    same((await alone.real.get("db/manifest/00000000000000000002.manifest")).body[:2], b"\0\1")
    await db.close()


async def ranges(alone: Alone) -> None:
    """A database that is opened for a range neither takes nor shows a key outside it."""
    world = world_of(alone)
    db = await opened(alone, world)
    await db.write([put(key, b"1") for key in (b"a", b"b", b"c", b"d")])
    await db.close()
    for span, shown in ((Span(b"b", b"d"), b"bc"), (Span(b"c"), b"cd"), (Span(b"", b"b"), b"a")):
        db = await opened(alone, world, span=span)
        same(b"".join(await all_of(db)), shown)
        for key in (b"a", b"b", b"c", b"d"):
            if key in shown:
                same((await db.get(key), type(await db.put(key, b"1"))), (b"1", int))
            else:
                error = await alone.raises(OutsideRange, db.get(key))
                same(str(error), f"{key!r} is outside the range {span} of this database")
                await alone.raises(OutsideRange, db.write([put(shown[:1], b"2"), delete(key)]))
                await alone.raises(OutsideRange, all_of(db, Span(key, key + b"\0")))
        await db.close()
    fails_with(ValueError, lambda: Db(world, "db", options_of(span=Span(b"b", b"b"))))


async def operands(alone: Alone) -> None:
    """Without the function that applies operands, a value without operands is shown, and `shown` shows the parts."""
    world = world_of(alone)
    db = await opened(alone, world)
    await db.put(b"a", b"1")
    await db.merge(b"b", b"x")
    await db.merge(b"b", b"y")
    same(await db.get(b"b"), b"+x+y")
    await db.close()
    plain = await opened(alone, world, merge=None)
    same((await plain.get(b"a"), await plain.get(b"z")), (b"1", None))
    same(await plain.shown(b"b"), Shown(b"b", None, (b"x", b"y"), 3, alone.now, None))
    await alone.raises(MergeMissing, plain.get(b"b"))
    await alone.raises(MergeMissing, all_of(plain))
    await plain.close()


async def expiry(alone: Alone) -> None:
    """An expired value hides what is older. A flush makes a tombstone of it, and drops expired operands."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    await db.flush()
    await db.put(b"a", b"2", 10)
    await db.merge(b"b", b"x", 10)
    alone.now += 10
    same(await all_of(db), {})
    await db.flush()
    same((await all_of(db), await db.get(b"a")), ({}, None))
    (_, manifest) = await latest(alone)
    same((len(manifest.l0), manifest.ssts[1].info.last_entry), (2, b"a"))
    await db.merge(b"c", b"x", 10)
    alone.now += 10
    await db.flush()
    (_, manifest) = await latest(alone)
    same((len(manifest.l0), manifest.last_l0_seq, manifest.last_l0_clock_tick), (2, 4, alone.now - 10))
    await db.close()


# --- snapshots

async def snapshots(alone: Alone) -> None:
    """A snapshot shows what was there. The oldest one that is open decides which versions a flush keeps."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    first = db.snapshot()
    await db.put(b"a", b"2")
    second = db.snapshot()
    await db.put(b"a", b"3")
    await db.put(b"b", b"3")
    await db.flush()
    same((await latest(alone))[1].recent_snapshot_min_seq, 1)
    same([await one.get(b"a") for one in (first, second, db)], [b"1", b"2", b"3"])
    same([await all_of(one) for one in (first, second)], [{b"a": b"1"}, {b"a": b"2"}])
    same(await all_of(first, Span(b"b")), {})
    first.end()
    first.end()
    await db.put(b"a", b"5")
    await db.flush()
    same((await latest(alone))[1].recent_snapshot_min_seq, 2)
    second.end()
    await db.put(b"a", b"6")
    await db.flush()
    same(((await latest(alone))[1].recent_snapshot_min_seq, db.snapshots), (6, []))
    await db.close()
    await alone.raises(Closed, db.get(b"a"))
    fails_with(Closed, db.snapshot)


async def steady_scans(alone: Alone) -> None:
    """A scan shows what was there at its first step, and counts as a snapshot until it ends."""
    db = await opened(alone)
    for key in (b"a", b"b"):
        await db.put(key, b"1")
    scan = db.scan()
    same(await anext(scan), (b"a", b"1"))
    await db.put(b"b", b"2")
    await db.flush()
    same((await latest(alone))[1].recent_snapshot_min_seq, 2)
    same([row async for row in scan], [(b"b", b"1")])
    same((db.snapshots, await all_of(db)), ([], {b"a": b"1", b"b": b"2"}))
    await db.close()


# --- flushes by themselves, and writes that wait

async def full(alone: Alone) -> None:
    """A memtable that is full is flushed after the write that filled it, unless L0 is full."""
    db = await opened(alone, l0_sst_bytes=60, l0_max_ssts=1)
    await db.put(b"a", b"1")
    same(db.memtable.size_bytes, 26)
    await db.put(b"b", b"1" * 9)
    same((db.memtable.size_bytes, await db.put(b"c", b"1")), (60, 3))
    same((len(db.manifest.l0), db.manifest.last_l0_seq, db.memtable.size_bytes), (1, 2, 26))
    await db.put(b"d", b"1" * 99)
    await db.put(b"e", b"1")
    same((len(db.manifest.l0), [key for key in await all_of(db)]), (1, [b"a", b"b", b"c", b"d", b"e"]))
    await db.close()


async def replaced(alone: Alone) -> None:
    """Other writers may put rows of one key and number into one object. The last of them counts, also for the size."""
    rows = [Row(b"a", 1, VALUE, b"12"), Row(b"a", 1, VALUE, b"345"), Row(b"b", 1)]
    await left(alone, [], [rows])
    db = await opened(alone)
    same((await all_of(db), db.memtable.size_bytes), ({b"a": b"345", b"b": b""}, 24 + 4 + 24 + 1))
    await db.flush()
    same(await all_of(db), {b"a": b"345", b"b": b""})
    await db.close()


async def memtables(alone: Alone) -> None:
    """A memtable has the versions of each key, the newest first, and returns those of a span."""
    table = Memtable([Row(b"b", 1), Row(b"a", 1), Row(b"c", 1)])
    table.add([Row(b"a", 2), Row(b"d", 2)])
    for span, keys in ((Span(), b"aabcd"), (Span(b"a", b"c"), b"aab"), (Span(b"b"), b"bcd"), (Span(b"a", b"a\0"), b"aa"),
                       (Span(b"x", b"x\0"), b""), (Span(b"", b"a"), b"")):
        same(b"".join(row.key for row in table.rows(span)), keys)
    same([row.seq for row in table.rows(Span(b"a", b"b"))], [2, 1])
    same((table.size_bytes, alone.sent()), (5 * 25, []))


async def waits_for_flush(alone: Alone) -> None:
    """While too much is in memory, a write flushes first."""
    db = await opened(alone, max_unflushed_bytes=40)
    await db.put(b"a", b"1" * 20)
    same(alone.sent(), appended(2))
    await db.put(b"b", b"1")
    sst = db.manifest.l0[0].id
    same(alone.sent(), [f"create {name_of(sst)}", "create 3.manifest", "get manifest.boundary", *appended(3), FIRST])
    same((db.memtable.size_bytes, alone.counted.count("db_waits_for_compaction")), (26, 0))
    await db.close()


async def waits_for_compaction(alone: Alone) -> None:
    """While L0 is full, too, a write waits for a compactor, and looks for it at each poll."""
    world = world_of(alone)
    db = await opened(alone, world, max_unflushed_bytes=40, l0_max_ssts=1, poll_ms=5)
    assert db.poller
    db.poller.cancel()
    db.poller = None
    await db.put(b"a", b"1" * 20)
    await db.flush()
    await db.put(b"b", b"1" * 20)
    looked, now = [], alone.now

    async def looks() -> None:
        looked.append(alone.now)

    async def compacts() -> None:
        await looks()
        await compacted(world, alone)

    for how in (looks, looks, compacts):
        alone.fails("list", "manifest", how)
    await db.put(b"c", b"1")
    same((looked, alone.counted.count("db_waits_for_compaction")), ([now + 5, now + 10, now + 15], 3))
    same((len(db.manifest.l0), len(db.manifest.compacted), await all_of(db)), (
        1, 1, {b"a": b"1" * 20, b"b": b"1" * 20, b"c": b"1"}))
    await db.close()


async def compacted(world: World, alone: Alone, sources: int = 1) -> None:
    """Let another client compact all that there is to compact."""
    compactor = DbCompactor(stores_of(another(world, alone), "db"), "db", Compacting(scheduler=Tiers(sources, 8), pin_ms=0))
    await compactor.open()
    while await compactor.compact_once():
        pass


async def waits_for_others(alone: Alone) -> None:
    """A batch waits while those that wait before it, and what is in memory, are too much together."""
    world = world_of(alone)
    db = await opened(alone, world, max_unflushed_bytes=60)
    await db.put(b"a", b"1" * 20)
    of_another_caller(db)
    same((await db.put(b"c", b"1"), len(db.manifest.l0), db.memtable.size_bytes), (3, 1, 26))
    await db.put(b"d", b"1" * 20)
    of_another_caller(db)
    alone.fails("create", "wal/", lambda: opens(world, alone))
    await alone.raises(FencedUnapplied, db.put(b"e", b"1"))
    same((db.waiting, db.seq), ([], 4))
    await db.close()


def of_another_caller(db: Db) -> None:
    """Let a batch wait whose caller has not gone on yet."""
    db.waiting.append([put(b"b", b"1" * 20)])
    db.waiting_bytes += 21
    db.writing = db._in_turn(db._write, "write")


# --- checkpoints

async def scopes(alone: Alone) -> None:
    """A checkpoint flushes first, or else keeps the WAL that was seen."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    alone.sent()
    every = await db.checkpoint(500, "mine")
    sst = db.manifest.l0[0].id
    read = ["list manifest", "get {}.manifest", "get manifest.boundary"]
    same(alone.sent(), [f"create {name_of(sst)}", "create 3.manifest", "get manifest.boundary", "list manifest",
                        "get 3.manifest", "create 4.manifest", "get manifest.boundary", *(of.format(4) for of in read)])
    entry, = [one for one in (await latest(alone))[1].checkpoints if one.id == every]
    same((entry.manifest_id, entry.name, entry.expire_time_s), (4, "mine", 1001))
    await db.put(b"b", b"1")
    alone.sent()
    durable = await db.checkpoint(durable_only=True)
    same(alone.sent(), ["list manifest", "get 4.manifest", "list wal", "create 5.manifest", "get manifest.boundary",
                        *(of.format(5) for of in read)])
    (_, manifest) = await latest(alone)
    entry, = [one for one in manifest.checkpoints if one.id == durable]
    same((entry.manifest_id, entry.expire_time_s, manifest.wal_id_last_seen, manifest.replay_after_wal_id), (5, 0, 3, 2))
    same(len(db.manifest.checkpoints), 3)
    await db.close()
    await alone.raises(Closed, db.checkpoint())


async def doubtful_checkpoints(alone: Alone) -> None:
    """A checkpoint is taken, and then there is another writer, or no reply: it may lack what that one has written."""
    world = world_of(alone)
    db = await opened(alone, world)
    await db.put(b"a", b"1")
    alone.fails("list", "manifest", lambda: nothing())
    alone.fails("list", "manifest", Unavailable, 3)
    await alone.raises(OutcomeUnknown, db.checkpoint())
    same(len((await latest(alone))[1].checkpoints), 2)
    await db.put(b"b", b"1")
    alone.fails("list", "manifest", lambda: nothing())
    alone.fails("list", "manifest", lambda: opens(world, alone))
    await alone.raises(OutcomeUnknown, db.checkpoint(durable_only=True))
    await alone.raises(FencedUnapplied, db.checkpoint())
    await db.close()


async def nothing() -> None:
    pass


async def opens(world: World, alone: Alone) -> None:
    """Let another writer open, write and close."""
    other = await Db.open(another(world, alone), "db", options_of())
    await other.put(b"other", b"1")
    await other.close()


# --- other writers, and replies that are lost

async def fenced(alone: Alone) -> None:
    """Each call finds out that another writer has opened; a write is in the log of that one, or in none."""
    world = world_of(alone)
    for call, error in ((lambda of: of.put(b"x", b"1"), FencedUnapplied), (lambda of: of.flush(), FencedUnapplied),
                        (lambda of: of.poll(), FencedUnapplied), (lambda of: of.checkpoint(), FencedUnapplied)):
        db = await opened(alone, world)
        await db.put(b"mine", b"1")
        await opens(world, alone)
        await alone.raises(error, call(db))
        for later in (db.put(b"x", b"1"), db.flush(), db.poll(), db.checkpoint(), db.get(b"a"), all_of(db), db.shown(b"a")):
            await alone.raises(FencedUnapplied, later)
        fails_with(FencedUnapplied, db.snapshot)
        await db.close()
    db = await opened(alone, world)
    same(await all_of(db), {b"mine": b"1", b"other": b"1"})
    await db.close()


async def meanwhile(alone: Alone) -> None:
    """Another writer opens while a write or a flush is under way."""
    world = world_of(alone)
    db = await opened(alone, world)
    alone.fails("create", "2.sst", lambda: opens(world, alone))
    await alone.raises(FencedUnapplied, db.put(b"x", b"1"))
    await db.close()
    db = await opened(alone, world)
    same((await all_of(db), db.epoch), ({b"other": b"1"}, 3))
    await db.put(b"a", b"1")
    alone.fails("create", "compacted/", lambda: opens(world, alone))
    await alone.raises(FencedUnapplied, db.flush())
    await db.close()
    db = await opened(alone, world)
    same((await all_of(db), len(db.manifest.l0)), ({b"a": b"1", b"other": b"1"}, 0))
    await db.close()


async def lost_replies(alone: Alone) -> None:
    """A put is recognised, whatever reply is lost. After the last attempt the writer is closed, and nothing is lost."""
    world = world_of(alone)
    db = await opened(alone, world)
    alone.fails("create", "2.sst", LOST)
    same(await db.put(b"a", b"1"), 1)
    alone.fails("create", "compacted/", LOST)
    alone.fails("create", "3.manifest", LOST)
    await db.flush()
    same((len(db.manifest.l0), await all_of(db)), (1, {b"a": b"1"}))
    alone.fails("create", "3.sst", OutcomeUnknown, 3)
    await alone.raises(OutcomeUnknown, db.put(b"b", b"1"))
    await alone.raises(Closed, db.put(b"c", b"1"))
    await db.close()
    db = await opened(alone, world)
    await db.put(b"d", b"1")
    alone.fails("create", "compacted/", Unavailable, 3 * UPLOADS)
    await alone.raises(OutcomeUnknown, db.flush())
    await db.close()
    db = await opened(alone, world)
    same((await all_of(db), db.seq), ({b"a": b"1", b"d": b"1"}, 2))
    await db.close()


async def replays(alone: Alone) -> None:
    """With `replay_flush` the log is flushed while it is replayed. What is in SSTs already is not shown twice."""
    rows = [[Row(b"a", 1, VALUE, b"1")], [], [Row(b"a", 2, MERGE, b"2"), Row(b"b", 2)], [Row(b"b", 3, TOMBSTONE)], []]
    for every, ssts, number in ((None, 1, 2), (1, 3, 5), (2, 2, 3)):
        one = Alone()
        await left(one, [[Row(b"a", 1, VALUE, b"1")]], rows)
        db = await opened(one, replay_flush=every)
        same((await all_of(db), db.seq, len(db.manifest.l0), (await latest(one))[0]), ({b"a": b"1+2"}, 3, ssts, number))
        await db.flush()
        same((await all_of(db), (await latest(one))[1].replay_after_wal_id), ({b"a": b"1+2"}, 6))
        await db.close()
    check(alone.now, "it has not been used")


# --- what compactors and collectors change

async def follows(alone: Alone) -> None:
    """A writer shows what compactors have changed once it has looked, and keeps it in its next manifest."""
    world = world_of(alone)
    db = await opened(alone, world)
    for value in (b"1", b"2"):
        await db.put(b"a", value)
        await db.flush()
    await compacted(world, alone)
    same((len(db.manifest.l0), await db.get(b"a")), (2, b"2"))
    await db.poll()
    same((len(db.manifest.l0), len(db.manifest.compacted), await db.get(b"a")), (0, 1, b"2"))
    await db.put(b"a", b"3")
    await compacted(world, alone)
    alone.sent()
    await db.flush()
    (_, manifest) = await latest(alone)
    same((len(manifest.l0), len(manifest.compacted), await all_of(db)), (1, 1, {b"a": b"3"}))
    await db.close()


async def gone(alone: Alone) -> None:
    """An SST was compacted and collected since the writer has looked: it looks, and reads again."""
    world = world_of(alone)
    for how, shown in (("get", b"2"), ("scan", {b"a": b"2", b"b": b"1"})):
        db = await opened(alone, world, cache_bytes=0)
        for value in (b"1", b"2"):
            await db.write([put(b"a", value), put(b"b", b"1")])
            await db.flush()
        await collected(world, alone)
        alone.sent()
        same(await db.get(b"a") if how == "get" else await all_of(db), shown)
        check("list manifest" in alone.sent(), "it has looked at the manifest")
        await db.close()


async def collected(world: World, alone: Alone) -> None:
    """Let other clients compact everything, and delete each SST that the latest manifest does not name."""
    await compacted(world, alone)
    (_, manifest) = await latest(alone)
    for entry in (await alone.real.list_page("db/compacted/")).entries:
        if sst_of("db", entry.key) not in manifest.named_ssts:
            await alone.real.delete(entry.key)


async def gone_in_between(alone: Alone) -> None:
    """A scan goes on behind the last key that it has shown."""
    world = world_of(alone)
    db = await opened(alone, world, cache_bytes=0)
    for key in (b"a", b"b", b"c"):
        await db.put(key, b"1")
        await db.flush()
    scan = db._scan(Span(), None)
    same(await anext(scan), (b"a", b"1"))
    await collected(world, alone)
    same([row async for row in scan], [(b"b", b"1"), (b"c", b"1")])
    await db.close()


async def gone_for_good(alone: Alone) -> None:
    """An SST is gone that the latest manifest names: after so many attempts the caller is told."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    await db.flush()
    await alone.real.delete(key_of_sst("db", db.manifest.l0[0].id))
    alone.sent()
    await alone.raises(CannotRead, db.get(b"a"))
    sst = name_of(db.manifest.l0[0].id)
    same(alone.sent(), [f"get_range {sst}", "list manifest", FIRST, f"get_range {sst}", "list manifest", f"get_range {sst}"])
    await alone.raises(CannotRead, all_of(db))
    same(alone.sent(), [f"get_range {sst}", "list manifest"] * 2 + [f"get_range {sst}"])
    same((await db.get(b"b"), db.snapshots), (None, []))
    await db.close()


async def ends(alone: Alone) -> None:
    """A database that is destroyed, or is a clone that is not complete, gets no writer, and no manifest of one."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    await change(alone, lambda m: with_mark(m, Mark(HARD, 1, 2), ManifestCodec(), 3)._replace(writer_epoch=m.writer_epoch))
    await db.poll()
    await alone.raises(DatabaseDestroyed, db.flush())
    await db.close()
    await alone.raises(DatabaseDestroyed, opened(alone))
    await change(alone, lambda m: m._replace(checkpoints=(), initialized=False))
    await alone.raises(NotInitialized, opened(alone))


async def outlived(_: Alone) -> None:
    """A writer that has slept since before its database was destroyed acknowledges nothing: no manifest is left, not even the
    one that it knows. The id of its WAL object is free."""
    for call, error in ((lambda of: of.put(b"b", b"2"), OutcomeUnknown), (lambda of: of.poll(), NoLatest)):
        alone = Alone()
        world = world_of(alone)
        db = await opened(alone, world)
        await db.put(b"a", b"1")
        manifests = manifests_of(another(world, alone), "db")

        async def destroyed(manifests: MetadataStore = manifests) -> None:
            await destroy.mark(manifests, HARD)
            await destroy.finish(manifests, "db")

        if error is OutcomeUnknown:
            alone.fails("create", "wal", destroyed)
        else:
            await destroyed()
        await alone.raises(error, call(db))
        await db.close()


async def outlived_by_a_late_put(_: Alone) -> None:
    """A PUT of the manifest that a writer knows was delayed in the network, and lands in the destroyed database. It may be of
    another client, or of an attempt of its own. The writer acknowledges nothing, whether it has listed that manifest before."""
    for is_listed in (False, True):
        alone = Alone()
        world = world_of(alone)
        db = await opened(alone, world)
        await db.put(b"a", b"1")
        await db.flush()
        if is_listed:
            await db.put(b"a", b"2")
        number, manifest = await latest(alone)
        manifests = manifests_of(another(world, alone), "db")
        await destroy.mark(manifests, HARD)
        await destroy.finish(manifests, "db")
        alone.now += 1
        await alone.real.create(manifests.bounded.storage.namespace.key(number), ManifestCodec().encode(manifest))
        await alone.raises(OutcomeUnknown, db.put(b"b", b"2"))
        await db.close()


async def overtaken(alone: Alone) -> None:
    """A poll has listed the manifest that its writer knows, and then sleeps. Meanwhile a later one is put, and the known one is
    collected. The poll lists again."""
    db = await opened(alone)
    await db.put(b"a", b"1")
    await db.flush()
    number, manifest = await latest(alone)

    async def collected_meanwhile() -> None:
        await change(alone, lambda _: manifest._replace(last_l0_seq=7))
        await alone.real.create(MANIFESTS.boundary_key, b"%d" % number)
        await alone.real.delete(MANIFESTS.key(number))

    alone.fails("get", MANIFESTS.boundary_key, collected_meanwhile)
    await db.poll()
    same(db.manifest.last_l0_seq, 7)
    await db.close()


async def neighbours(alone: Alone) -> None:
    """A new SST is put in front of those of others; the checkpoints of others stay, and that of the last writer goes."""
    await left(alone, [[Row(b"a", 1, VALUE, b"1")]])
    world = world_of(alone)
    db = await opened(alone, world)
    mine = await db.checkpoint()
    manifest = await with_sst(alone, (await latest(alone))[1], 9, [Row(b"b", 1, VALUE, b"1")])
    await change(alone, lambda _: manifest)
    await db.put(b"a", b"2")
    await db.flush()
    (_, manifest) = await latest(alone)
    same([view.id for view in manifest.l0][1:], [sst_id(9), sst_id(1)])
    same([one.id == mine for one in manifest.checkpoints], [True, False])
    same((await all_of(db), len({*chain(view.id for view in manifest.l0)})), ({b"a": b"2", b"b": b"1"}, 3))
    await db.close()


SCRIPTS: tuple[Script, ...] = (
    life, empty, batches, misplaced, without_operator, options, ranges, operands, expiry, snapshots, steady_scans, full,
    replaced, memtables, waits_for_flush, waits_for_compaction, waits_for_others, scopes, doubtful_checkpoints, fenced,
    meanwhile, lost_replies, replays, follows, gone, gone_in_between, gone_for_good, ends, outlived,
    outlived_by_a_late_put, overtaken, neighbours)
