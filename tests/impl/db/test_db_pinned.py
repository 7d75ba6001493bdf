"""The reader that keeps what it shows: it follows the writer, and its snapshots outlive compaction and collection."""

import asyncio
from collections.abc import Sequence

import pytest

from highwater.admin.gc import stores_of
from highwater.admin.gc_data import collected
from highwater.dst.actors import METRICS
from highwater.impl.codecs.destroyed import SOFT, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.tables import Sst, View
from highwater.impl.db.build import sst_of, wal_of
from highwater.impl.db.memtable import size_of
from highwater.impl.db.pinned import DbReader, Snapshot
from highwater.impl.db.reader import CannotRead
from highwater.impl.db.rows import TOMBSTONE, Row
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.db_reader import NotOpen, Options
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.stores.system import SystemClock, Ulids
from highwater.impl.world import World
from tests.support.slatedb.tables import database, id_of

OPTIONS = Options(poll_ms=60_000, lifetime_ms=600_000)  # tests poll by hand
FIRST, SECOND = [Row(b"a", 1, value=b"1"), Row(b"b", 2, value=b"2")], [Row(b"b", 3, value=b"3")]


def world_of(ssts: Sequence[Sequence[Row]], wal: Sequence[Sequence[Row] | None]) -> World:
    return World(database(ssts, wal)[0], SystemClock(), Ulids(), METRICS)


async def shown(snapshot: Snapshot, span: Span = EVERYTHING) -> dict[bytes, bytes | None]:
    return {one.key: one.value async for one in snapshot.scan(span)}


async def compacted(world: World) -> None:
    """Flush the WAL into L0, and put one SST in the place of all others, as a writer and a compactor do."""
    built = sst_of([Row(b"a", 1, value=b"1"), Row(b"b", 3, value=b"3"), Row(b"c", 4, value=b"4")])
    await world.store.create(key_of_sst("db", id_of(9)), built.body)
    compactions_file = Namespace("db", "compactions").key(1)
    await world.store.create(compactions_file, compactions.encode(Compactions()))

    def change(_: int, m: Manifest) -> Manifest:
        return m._replace(ssts=(Sst(id_of(9), built.info, 2),), l0=(View(id_of(9), id_of(9)),), last_l0_seq=4,
                          replay_after_wal_id=3, wal_id_last_seen=3)

    await stores_of(world, "db")["manifest"].update(change)


def test_a_snapshot_is_kept_while_its_ssts_and_wal_are_compacted_and_collected():
    world = world_of([FIRST], [SECOND, None, [Row(b"c", 4, value=b"4")]])

    async def work() -> None:
        reader = DbReader(stores_of(world, "db")["manifest"], "db", OPTIONS, cache_bytes=0)
        await reader.open()
        before = reader.snapshot()
        await world.store.create(Namespace("db", "wal").key(4), wal_of([Row(b"a", 5, TOMBSTONE)]).body)
        await compacted(world)
        assert await reader.pins.poll()
        after = reader.snapshot()
        await asyncio.sleep(0.005)
        await collected(world, "db", 0)
        assert await shown(before) == {b"a": b"1", b"b": b"3", b"c": b"4"}
        assert await shown(after) == {b"b": b"3", b"c": b"4"} and await after.get(b"a") is None
        assert await shown(after, Span(b"c")) == {b"c": b"4"}
        before.end()
        await reader.pins.poll()
        await asyncio.sleep(0.005)
        gone = [row[0] for row in await collected(world, "db", 0) if row[1] == "deleted"]
        assert f"compacted/{id_of(1)}.sst" in gone
        with pytest.raises(CannotRead, match=id_of(1)):
            await shown(before)
        await reader.close()
        assert not await checkpoints.listed(stores_of(world, "db")["manifest"])
        with pytest.raises(NotOpen):
            reader.snapshot()

    asyncio.run(work())


def test_a_checkpoint_of_somebody_else_is_read_and_left():
    world = world_of([FIRST], [SECOND])

    async def work() -> None:
        manifests = stores_of(world, "db")["manifest"]
        own = checkpoints.new_id(manifests)
        await checkpoints.create(manifests, own)
        await compacted(world)
        reader = DbReader(manifests, "db", OPTIONS)
        await reader.open(own)
        assert await shown(reader.snapshot()) == {b"a": b"1", b"b": b"3"}
        await reader.close()
        assert [one.id for one in await checkpoints.listed(manifests)] == [own]

    asyncio.run(work())


def test_a_destroyed_database_is_not_opened():
    world = world_of([FIRST], [])

    async def work() -> None:
        manifests = stores_of(world, "db")["manifest"]
        await manifests.update(lambda file_id, m: with_mark(m, Mark(SOFT, 0, 9), manifests.codec, file_id))
        with pytest.raises(DatabaseDestroyed):
            await DbReader(manifests, "db", OPTIONS).open()

    asyncio.run(work())


def test_tables_in_memory_are_limited():
    rows = [[Row(b"%03d" % i, i + 1, value=bytes(100))] for i in range(20)]
    world = world_of([], rows)

    async def work() -> None:
        options = OPTIONS._replace(max_memtable_bytes=3 * size_of(rows[0][0]))
        reader = DbReader(stores_of(world, "db")["manifest"], "db", options)
        await reader.open()
        view = reader.pins.view
        assert view and [len(table.rows) for table in view.tables] == [3] * 6 + [2]
        assert len(await shown(reader.snapshot())) == 20
        await reader.close()

    asyncio.run(work())
