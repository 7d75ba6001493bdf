"""Scripts of reads of a whole database: states, impl/db/reader.py; parts of SSTs, impl/db/ssts.py; pinned reads, pinned.py."""

from collections.abc import Callable
from typing import Any

from highwater.dst.script import Alone, Script, same
from highwater.dst.scripts.db_begun import MANIFESTS, WAL, change, joined, latest, left, opened, sst_id, world_of
from highwater.impl.codecs.slatedb.flatbuffer import write
from highwater.impl.codecs.slatedb.tables import (
    EXCLUDED,
    INCLUDED,
    UNBOUNDED,
    Bound,
    Checkpoint,
    ExternalDb,
    Range,
    Run,
    Segment,
    Sst,
    SstInfo,
    View,
)
from highwater.impl.db import reader as readers
from highwater.impl.db.build import VERSION, Built, sst_of
from highwater.impl.db.cache import Cache
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.merge import Shown, TwoRows, versions
from highwater.impl.db.parts import FOOTER, info_of, sealed
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.ranges import OutsideRange
from highwater.impl.db.reader import ATTEMPTS, CannotRead, Reader, State
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.db.wal import WalMissing
from highwater.impl.errors import NotFound
from highwater.impl.layout import key_of_sst
from highwater.impl.manifests.spans import Malformed, Span, range_of
from highwater.impl.protocols.db_reader import NotOpen, Options

UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"
A = key_of_sst("db", sst_id(1))


def row(key: bytes, seq: int, value: bytes | None = None, kind: int = VALUE, expire_ms: int | None = None) -> Row:
    return Row(key, seq, kind, (b"" if kind == TOMBSTONE else b"%d" % seq) if value is None else value, None, expire_ms)


async def scanned(of: Any, now_ms: int = 1, seq: int | None = None) -> dict[bytes, bytes]:
    return {one.key: one.merged(joined) async for one in of.scan(Span(), now_ms, seq)}


# --- which state

async def states(alone: Alone) -> None:
    """The latest state has the WAL behind the manifest; that of a checkpoint what its manifest has seen."""
    await left(alone, [[row(b"a", 1)]], [[row(b"a", 1)], [row(b"a", 2)], [], [row(b"b", 3)]], wal_id_last_seen=2)
    await change(alone, lambda m: m._replace(checkpoints=(Checkpoint(UUID, 1, name="mine"),)))
    alone.sent()
    state = await readers.opened(alone.world.store, "db")
    same(alone.sent(), ["list manifest", "get 2.manifest", "list wal", "get 1.sst", "get 2.sst", "get 3.sst", "get 4.sst"])
    same(await scanned(Reader(alone.real, state)), {b"a": b"2", b"b": b"3"})
    for checkpoint in (UUID, "mine"):
        alone.sent()
        state = await readers.opened(alone.world.store, "db", checkpoint)
        same(alone.sent(), ["list manifest", "get 2.manifest", "get 1.manifest", "get 1.sst", "get 2.sst"])
        same(await scanned(Reader(alone.real, state)), {b"a": b"2"})
    await alone.raises(CannotRead, readers.opened(alone.real, "db", "nobody's"))
    await alone.raises(CannotRead, readers.opened(alone.real, "nowhere"))
    await alone.real.delete(MANIFESTS.key(1))
    await alone.raises(CannotRead, readers.opened(alone.real, "db", UUID))
    await change(alone, lambda m: m._replace(initialized=False))
    await alone.raises(CannotRead, readers.opened(alone.real, "db"))
    await alone.real.put(MANIFESTS.key(4), b"\0\2")
    await alone.raises(CannotRead, readers.opened(alone.real, "db"))


async def elsewhere(alone: Alone) -> None:
    """The WAL may be in another store, and below another root."""
    await left(alone, [], [[row(b"a", 1)]])
    other = Alone()
    await other.real.put(f"w/wal/{1:020d}.sst", (await alone.real.get(WAL.key(1))).body)
    await alone.real.delete(WAL.key(1))
    same((await readers.opened(alone.real, "db", None, other.real, "w")).unflushed, [row(b"a", 1)])
    await alone.raises(WalMissing, readers.opened(alone.real, "db"))


async def moving(alone: Alone) -> None:
    """While others flush and collect, the next manifest is read. A missing WAL object is an error if there is none."""
    await left(alone, [[row(b"a", 1)]], [[row(b"b", 2)]], wal_id_last_seen=1)

    async def flushes() -> None:
        await alone.real.delete(WAL.key(1))
        await change(alone, lambda m: m._replace(replay_after_wal_id=1))

    alone.fails("get", "wal/", flushes)
    alone.sent()
    state = await readers.opened(alone.world.store, "db")
    same(alone.sent(), ["list manifest", "get 1.manifest", "list wal", "get 1.sst", "list manifest", "get 2.manifest",
                        "list manifest", "get 2.manifest", "list wal"])
    same(state.unflushed, [])

    async def goes_on() -> None:
        (number, _) = await latest(alone)
        await change(alone, lambda m: m._replace(wal_id_last_seen=9))
        await alone.real.delete(MANIFESTS.key(number))

    alone.fails("get", "manifest/", goes_on)
    await alone.raises(WalMissing, readers.opened(alone.world.store, "db"))
    alone.fails("get", "manifest/", goes_on, ATTEMPTS)
    await alone.raises(CannotRead, readers.latest_of(alone.world.store, "db"))
    alone.fails("get", "wal/", lambda: change(alone, lambda m: m), ATTEMPTS)
    await change(alone, lambda m: m._replace(wal_id_last_seen=3))
    alone.sent()
    await alone.raises(WalMissing, readers.opened(alone.world.store, "db"))
    same(alone.sent().count("get 2.sst"), ATTEMPTS)


# --- which rows

async def views(alone: Alone) -> None:
    """A view shows its range, of a run one SST at a time; segments and the SSTs of parents are read, too."""
    manifest = await left(alone, [[row(b"a", 1), row(b"b", 1), row(b"c", 1)], [row(b"d", 2)], [row(b"s", 3)]])
    await alone.real.put(key_of_sst("p", sst_id(7)), (await alone.real.get(A)).body)
    first = manifest.ssts[0]
    shown = [Range(Bound(b"a", EXCLUDED), Bound(b"b", INCLUDED)), Range(Bound(b"c", INCLUDED), Bound(None, UNBOUNDED))]
    state = State("db", manifest._replace(
        l0=(View(sst_id(1), sst_id(1), shown[0]),), ssts=(*manifest.ssts, Sst(sst_id(7), first.info, first.format_version)),
        compacted=(Run(0, (View(sst_id(8), sst_id(7), shown[1]), View(sst_id(2), sst_id(2)))),),
        segments=(Segment(b"s", None, (View(sst_id(3), sst_id(3)),), ()),),
        external_dbs=(ExternalDb("q", UUID, UUID, ()), ExternalDb("p", UUID, UUID, (sst_id(7),)))), [row(b"e", 4)])
    told: list[str] = []
    reader = Reader(alone.world.store, state, told.append)
    same(await scanned(reader), {b"b": b"1", b"c": b"1", b"d": b"2", b"e": b"4", b"s": b"3"})
    same(told, [A, key_of_sst("p", sst_id(7)), key_of_sst("db", sst_id(3)), key_of_sst("db", sst_id(2))])
    told.clear()
    same([one.key async for one in reader.scan(Span(b"c", b"e"), 1)], [b"c", b"d"])
    same((len(told), await reader.get(b"a", 1), await reader.get(b"e", 1)), (2, None, Shown(b"e", b"4", (), 4, None, None)))
    await alone.real.delete(A)
    await alone.raises(CannotRead, scanned(Reader(alone.real, state)))


async def split(alone: Alone) -> None:
    """Neighbours of a run may share a key, of which all versions are read. Versions that do not descend are damage."""
    every = [row(b"a", 1), row(b"k", 5, kind=MERGE), row(b"k", 4, kind=MERGE), row(b"k", 3), row(b"k", 2), row(b"m", 1)]
    manifest = await left(alone, [every[:2], every[2:4], every[4:]])
    views = tuple(View(sst_id(number), sst_id(number)) for number in (1, 2, 3))
    reader = Reader(alone.real, State("db", manifest._replace(l0=(), compacted=(Run(0, views),)), []))
    for seq, value in ((5, b"3+4+5"), (4, b"3+4"), (3, b"3"), (2, b"2")):
        found = await reader.get(b"k", 1, seq)
        same((found and found.merged(joined), (await scanned(reader, 1, seq))[b"k"]), (value, value))
    without = await left(alone, [[row(b"a", 1), row(b"z", 1)], [row(b"k", 2), row(b"m", 1)]])
    first = views[0]._replace(visible_range=range_of(Span(b"a", b"k\0")))  # it may have the key, and its filter says no
    reader = Reader(alone.real, State("db", without._replace(l0=(), compacted=(Run(0, (first, views[1])),)), []))
    found = await reader.get(b"k", 1)
    same(found and found.value, b"2")
    wrong = await left(alone, [every[2:4], every[1:2]])
    other = Reader(alone.real, State("db", wrong._replace(l0=(), compacted=(Run(0, views[:2]),)), []))
    await alone.raises(DamagedObject, other.get(b"k", 1))
    await alone.raises(DamagedObject, scanned(other))
    for spans_ in ((Span(b"a"), Span(b"k", b"l")), (Span(b"k"), Span(b"a"))):
        several = tuple(View(sst_id(1), sst_id(1), range_of(span)) for span in spans_)
        wrong = State("db", (await left(alone, [every]))._replace(l0=(), compacted=(Run(0, several),)), [])
        await alone.raises(Malformed, scanned(Reader(alone.real, wrong)))


async def rows(alone: Alone) -> None:
    """The newest versions up to a number are shown, wherever they are; a row that two SSTs have counts once."""
    older = [row(b"a", 2, kind=MERGE), row(b"a", 1), row(b"b", 1), row(b"c", 2, expire_ms=5), row(b"c", 1)]
    newer = [row(b"a", 2, kind=MERGE), row(b"b", 3, kind=TOMBSTONE), row(b"d", 3, kind=MERGE, expire_ms=5)]
    manifest = await left(alone, [older, newer])
    reader = Reader(alone.real, State("db", manifest, [row(b"a", 4, kind=MERGE)]))
    for seq, now_ms, shown in (
            (None, 4, {b"a": b"1+2+4", b"c": b"2", b"d": b"+3"}), (None, 5, {b"a": b"1+2+4"}), (3, 4, {
                b"a": b"1+2", b"c": b"2", b"d": b"+3"}), (2, 5, {b"a": b"1+2", b"b": b"1"}), (1, 5, {
                b"a": b"1", b"b": b"1", b"c": b"1"}), (0, 1, {})):
        same(await scanned(reader, now_ms, seq), shown, f"what is shown up to {seq} at {now_ms} ms")
        for key in (b"a", b"b", b"c", b"d"):
            one = await reader.get(key, now_ms, seq)
            same(one and one.merged(joined), shown.get(key))
    same(await reader.get(b"d", 4), Shown(b"d", None, (b"3",), 3, None, 5))
    other = State("db", manifest, [row(b"a", 2, b"x", kind=MERGE)])
    await alone.raises(TwoRows, scanned(Reader(alone.real, other)))
    same([one async for one in versions([])], [])


# --- parts of an SST

LONG = [Row(b"k" * 60_000 + bytes([2 * i]), 1, VALUE, b"%d" % i) for i in range(6)]  # keys that fill an index


async def put_long(alone: Alone, kept: bool = True) -> Built:
    """Put an SST whose index and filter are too long to be read together; without its filter unless `kept`."""
    built = sst_of(LONG, 0, 64, 2 if kept else 99)
    await alone.real.put(A, built.body)
    alone.sent()
    return built


async def cold_and_warm(alone: Alone) -> None:
    """A point read of a long SST takes three requests: filter, end, block. What is kept is not read again."""
    built = await put_long(alone)
    ssts = Ssts(alone.world.store, Cache(1 << 30))
    absent = LONG[2].key[:-1] + b"\3"
    same((await ssts.may_contain(A, built.info, absent), len(alone.sent())), (False, 1))
    same((await ssts.may_contain(A, built.info, b"a"), await ssts.may_contain(A, built.info, b"z")), (False, False))
    same((await ssts.may_contain(A, built.info, LONG[2].key), alone.sent()), (True, []))
    span = Span(LONG[2].key, LONG[2].key + b"\0")
    for requests in (2, 0):  # a block that begins with a key may go on with it: the one before is read, too
        found = [one.key[-1] async for part in ssts.blocks(A, built.info, span, True) for one in part]
        same((found, len(alone.sent())), ([2, 4], requests))
    same((await all_blocks(ssts, built.info) == LONG, len(alone.sent())), (True, 3))


async def small_ones(alone: Alone) -> None:
    """A small SST is read whole, and kept as far as there is room."""
    built = sst_of([row(b"a", 1), row(b"c", 1)], 0, 64, 2)
    await alone.real.put(A, built.body)
    alone.sent()
    for most, requests in ((1 << 20, 1), (0, 3)):
        ssts = Ssts(alone.world.store, Cache(most))
        same([await ssts.may_contain(A, built.info, key) for key in (b"a", b"b")], [True, False])
        same([one async for part in ssts.blocks(A, built.info) for one in part], [row(b"a", 1), row(b"c", 1)])
        same(len(alone.sent()), requests)
    end = await ssts.end_without_manifest(A)
    same((end.table.info, end.table.stats and end.table.stats.puts, alone.sent()), (built.info, 2, [
        f"head {sst_id(1).lstrip('0')}.sst", f"get_range {sst_id(1).lstrip('0')}.sst"]))
    plain = sst_of([row(b"a", 1)], 0, 64, 99)
    await alone.real.put(A, plain.body)
    same(await Ssts(alone.real).may_contain(A, plain.info, b"a"), True)
    _, _, at = info_of(plain.body, A)
    other = plain.info._replace(filter_offset=plain.info.index_offset + 1)  # a place of nothing
    await alone.real.put(A, plain.body[:at] + sealed(write(other)) + FOOTER.pack(at, VERSION))
    same([one async for part in Ssts(alone.real).blocks(A, other) for one in part], [row(b"a", 1)])
    await alone.raises(NotFound, Ssts(alone.real).end(key_of_sst("db", sst_id(9)), plain.info))


async def written_again(alone: Alone) -> None:
    """An object that is written again while it is read must have the same info and index; else the read fails."""
    built = await put_long(alone)
    for body in (built.body, sst_of(LONG[:5], 0, 64, 2).body, b"x" * 9, other_index(built)):
        await alone.real.put(A, built.body)
        ssts = Ssts(alone.world.store)
        await ssts.end(A, built.info)
        await alone.real.put(A, body)
        if body == built.body:
            same(await all_blocks(ssts, built.info) == LONG, True)
        else:
            await alone.raises(DamagedObject, all_blocks(ssts, built.info))


def other_index(built: Built) -> bytes:
    """Return an SST with the same info, and other first keys of its blocks."""
    made = sst_of([*LONG[:3], LONG[3]._replace(key=LONG[3].key[:-1] + b"\7"), *LONG[4:]], 0, 64, 2)
    same(made.info, built.info)
    return made.body


async def all_blocks(ssts: Ssts, info: SstInfo) -> list[Row]:
    return [one async for part in ssts.blocks(A, info) for one in part]


async def other_places(alone: Alone) -> None:
    """A manifest that names places which no SST has is an error before anything is read."""
    built = await put_long(alone)
    long, behind = 1 << 45, built.info.index_offset + 1
    for wrong in ({"filter_offset": long}, {"index_len": long}, {"stats_offset": long}, {"filter_offset": behind}):
        info = built.info._replace(**wrong)
        await alone.raises(DamagedObject, Ssts(alone.world.store).end(A, info))
    same(alone.sent(), [])
    await alone.raises(DamagedObject, Ssts(alone.real).end(A, built.info._replace(first_entry=b"k")))
    await alone.real.put(A, built.body[:100])
    await alone.raises(DamagedObject, Ssts(alone.real).end(A, built.info))
    await alone.raises(DamagedObject, Ssts(alone.real).end_without_manifest(A))


async def long_ends(alone: Alone) -> None:
    """Without a manifest, the end of a long SST is read in two parts."""
    rows_ = [Row(b"k" * 65_000 + bytes([i]), 1, VALUE, b"%d" % i) for i in range(9)]
    built = sst_of(rows_, 0, 64, 2)
    await alone.real.put(A, built.body)
    alone.sent()
    end = await Ssts(alone.world.store).end_without_manifest(A)
    same((end.table.info, len(alone.sent()), end.table.start), (built.info, 3, built.info.filter_offset))


async def caches(alone: Alone) -> None:
    """A cache drops what was not used for the longest time; what has no room alone is not kept."""
    cache = Cache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    same((cache.get("a"), cache.get("z"), cache.held_bytes), (1, None, 8))
    cache.put("c", 3, 4)
    same((cache.get("b"), cache.get("a"), cache.get("c"), cache.held_bytes), (None, 1, 3, 8))
    cache.put("a", 4, 11)
    same((cache.get("a"), cache.get("c"), cache.held_bytes), (None, 3, 4))
    cache.put("c", 5, 10)
    same((cache.get("c"), cache.held_bytes), (5, 10))
    cache.drop("c")
    cache.drop("c")
    same((cache.get("c"), cache.held_bytes), (None, 0))
    for key, size in (("d", 3), ("e", 3), ("f", 4), ("g", 6)):
        cache.put(key, key, size)
    same(([cache.get(key) for key in "defg"], cache.held_bytes), ([None, None, "f", "g"], 10))


# --- pinned reads

async def pinned(alone: Alone) -> None:
    """A snapshot shows the rows of one view, while the writer goes on; a given checkpoint is only read."""
    world = world_of(alone)
    db = await opened(alone, world)
    await db.put(b"a", b"1")
    await db.flush()
    await db.put(b"b", b"2")
    reader = DbReader(manifests_of(world, "db"), "db", Options(10, 100))
    for call in (reader.snapshot,):
        await alone.raises(NotOpen, asked(call))
    await reader.open()
    snapshot = reader.snapshot()
    await db.put(b"a", b"3")
    await db.flush()
    same({one.key: one.value async for one in snapshot.scan()}, {b"a": b"1", b"b": b"2"})
    found = await snapshot.get(b"b")
    same((found and found.value, await snapshot.get(b"z")), (b"2", None))
    same([one.key async for one in snapshot.scan(Span(b"b"))], [b"b"])
    same((await reader.pins.poll(), await owners(alone)), (True, 2))
    snapshot.end()
    same((await reader.pins.poll(), await owners(alone)), (False, 1))
    later = reader.snapshot()
    same({one.key: one.value async for one in later.scan()}, {b"a": b"3", b"b": b"2"})
    checkpoint = await db.checkpoint()
    await db.put(b"c", b"4")
    given = DbReader(manifests_of(world, "db"), "db")
    await given.open(checkpoint)
    same([one.key async for one in given.snapshot().scan()], [b"a", b"b"])
    await given.close()
    part = DbReader(manifests_of(world, "db"), "db", span=Span(b"b"))
    await part.open(checkpoint)
    same([one.key async for one in part.snapshot().scan()], [b"b"])
    await alone.raises(OutsideRange, part.snapshot().get(b"a"))
    error = await alone.raises(OutsideRange, anext(part.snapshot().scan(Span(b"", b"b"))))  # pyright: ignore[reportArgumentType]
    same(str(error), f"{Span(b'', b'b')} is outside the range {Span(b'b')} of this database")
    await part.close()
    await reader.close()
    await alone.raises(NotOpen, asked(reader.snapshot))
    same([one.id for one in (await latest(alone))[1].checkpoints if one.writer_epoch is None], [checkpoint])
    await db.close()


async def owners(alone: Alone) -> int:
    """Return how many checkpoints are listed that no writer has for itself."""
    return sum(one.writer_epoch is None for one in (await latest(alone))[1].checkpoints)


async def asked(call: Callable[[], Any]) -> Any:
    return call()


SCRIPTS: tuple[Script, ...] = (states, elsewhere, moving, views, split, rows, cold_and_warm, small_ones, written_again,
                               other_places, long_ends, caches, pinned)
