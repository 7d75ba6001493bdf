"""Damaged bytes: the right rows or an error that says where, however they are read, in little time and memory."""

import asyncio
import struct
import tracemalloc
from random import Random

import pytest

from highwater.impl.codecs.slatedb.flatbuffer import DamagedBuffer, read, write
from highwater.impl.db import compression, parts, wal
from highwater.impl.db.build import sst_of, wal_of
from highwater.impl.db.cache import Cache
from highwater.impl.db.compactor import DbCompactor, stores_of
from highwater.impl.db.compression import LZ4, NONE, SNAPPY, ZLIB, ZSTD, pack
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.db import Db
from highwater.impl.db.manifest import manifests_of
from highwater.impl.db.parts import Index
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.reader import Reader, opened
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.db.table import Table
from highwater.impl.db.wal import Order, rows_of
from highwater.impl.errors import StoreError
from highwater.impl.layout import Namespace
from tests.support.database import OPTIONS, world_of
from tests.support.slatedb.damage import parts_of, repacked
from tests.support.slatedb.damaged import COMPACTIONS, MANIFEST, SST, WAL, Unexpected, memory_kb, samples, try_damaged
from tests.support.slatedb.forged import SOME
from tests.support.slatedb.ranged import KEY, sizes, store_of
from tests.support.slatedb.tables import database

A, B, C = ([Row(b"key", seq, value=b"%d" % seq)] for seq in (1, 2, 3))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_damaged_is_read_rightly_or_refused(seed):
    found = try_damaged(seed, 1000)
    for kind in (SST, WAL, MANIFEST, COMPACTIONS):
        assert sum(number for (of, _, what), number in found.items() if of == kind and what != "right rows") > 10


def test_a_hundred_thousand_are():
    samples()
    before_kb = memory_kb()
    assert sum(try_damaged(7, 100_000).values()) == 100_000
    assert memory_kb() - before_kb < 1 << 20


def test_without_checksums_they_are_not(monkeypatch):
    samples()
    monkeypatch.setattr(parts, "payload_of", lambda part, place: part[:-4])
    with pytest.raises(Unexpected):
        try_damaged(0, 1000)


def test_without_the_order_of_the_log_they_are_not(monkeypatch):
    samples()
    monkeypatch.setattr(Order, "rows_of", lambda self, key, body: rows_of(key, body))
    with pytest.raises(Unexpected, match="exchanged"):
        try_damaged(0, 3000)


# --------------------------------------------------------------------------------------- the object, the byte, the field

def refusal_of(work) -> StoreError:
    with pytest.raises(StoreError) as told:
        asyncio.run(work)
    return told.value


def test_a_damaged_manifest_is_named_by_each_client():
    store, _ = database([A], [B])
    world, key = world_of(store), Namespace("db", "manifest").key(1)
    body = asyncio.run(store.get(key)).body
    asyncio.run(store.put(key, body[:60]))
    for client in (Db.open(world, "db", OPTIONS), DbReader(manifests_of(world, "db"), "db").open(),
                   DbCompactor(stores_of(world, "db"), "db").open(), opened(store, "db")):
        assert f"{key}: byte " in str(refusal := refusal_of(client)) and ", ManifestV2: " in str(refusal)


def test_a_damaged_compactions_file_is_named():
    store, _ = database([A], [B])
    key = Namespace("db", "compactions").key(1)
    asyncio.run(store.put(key, b"\0\2" + bytes([1, 2, 3])))
    assert str(refusal_of(DbCompactor(stores_of(world_of(store), "db"), "db").open())) == (
        f"{key}: byte 2, CompactionsV1: bytes 0 to 4 are beyond the end of the buffer, which has 3 bytes: the file is damaged "
        "or cut off")


# ------------------------------------------------------------------------------------------------------ the WAL's order

@pytest.mark.parametrize("bodies", ((B, A), (A, A), (B, B), (A, C, B)))
def test_wal_objects_in_the_wrong_order_are_noticed_by_each_reader(bodies):
    store, _ = database([], bodies)
    world = world_of(store)
    for client in (Db.open(world, "db", OPTIONS), DbReader(manifests_of(world, "db"), "db").open(), opened(store, "db")):
        assert "in the place of another one" in str(refusal_of(client))


def test_an_sst_is_no_wal_object():
    with pytest.raises(DamagedObject, match="info, sst_type: 0 is that of an SST"):
        rows_of("x", sst_of(A).body)


def test_a_part_of_another_wal_object_is_noticed():
    """Each part has its own right checksum, and fits."""
    one, other = (wal_of([Row(b"key", seq)]) for seq in (3, 4))
    end = one.info.index_offset + one.info.index_len
    with pytest.raises(DamagedObject, match="begin with 3, and info says 4: a part is of another object"):
        rows_of("x", one.body[:end] + other.body[end:])
    built = wal_of([Row(b"a", seq) for seq in range(6)], block_bytes=1)
    first, second = (built.body[a:b] for a, b in ((0, 21), (21, 42)))
    with pytest.raises(DamagedObject, match="do not ascend as in the index|info says"):
        rows_of("x", second + first + built.body[42:])


def test_a_wal_object_may_be_read_again():
    order = Order()
    assert [order.rows_of(key, wal_of(rows).body) for key, rows in (("1", A), ("2", B), ("2", B), ("1", A), ("3", C))] == [
        A, B, B, A, C]


def test_a_wal_object_with_more_than_a_writer_has_is_refused(monkeypatch):
    monkeypatch.setattr(wal, "MOST_BYTES", 10_000)
    rows = [Row(b"k", seq, value=bytes(3000)) for seq in range(3)]
    assert rows_of("x", wal_of(rows, ZSTD, 100).body) == rows
    with pytest.raises(DamagedObject, match="more than 10,000 bytes"):
        rows_of("x", wal_of([*rows, Row(b"k", 4, value=bytes(3000))], ZSTD, 100).body)


# -------------------------------------------------------------------------------------------------------------- memory

def test_fields_of_newer_releases_are_counted():
    """A thousand tables share a vtable of a thousand fields, of which this release knows three: 6,000 bytes, and a million
    fields."""
    slots, tables = 1000, 1000
    vtable = struct.pack(f"<{2 + slots}H", 4 + 2 * slots, 8, 0, 4, 0, *[4] * (slots - 3))
    root_vtable = struct.pack("<4H", 6, 8, 4, 0)
    root = 4 + len(vtable) + len(root_vtable)
    vector = struct.pack("<I", tables) + b"".join(struct.pack("<I", 4 * (tables - i)) for i in range(tables))
    one = root + 8 + len(vector)
    body = b"".join((struct.pack("<I", root), vtable, root_vtable, struct.pack("<iI", len(root_vtable), 4), vector,
                     struct.pack("<iI", one - 4, 4), struct.pack("<I", 0)))
    with pytest.raises(DamagedBuffer, match="overlap"):
        read(body, Index)


def test_an_index_has_no_more_blocks_than_the_object_has_room_for():
    """Without compression, and as a bomb: some 1,000 bytes stand for an index of a million blocks."""
    for codec in (NONE, ZSTD):
        wrong = repacked(parts_of(sst_of(SOME, codec).body)._replace(index=write(Index(tuple(
            parts.BlockMeta(i, b"k") for i in range(5000))))), keep_index=True)
        with pytest.raises(DamagedObject, match="index, Index.block_meta.*: it has 5,000 parts"):
            Table("x", wrong.body)
    wrong = repacked(parts_of(sst_of(SOME, ZSTD).body)._replace(index=bytes(1 << 27)), keep_index=True)
    with pytest.raises(DamagedObject, match="it has more than"):
        Table("x", wrong.body)


@pytest.mark.parametrize("codec", (SNAPPY, ZLIB, LZ4, ZSTD))
@pytest.mark.parametrize("part", ("index", "stats", "blocks"))
def test_a_bomb_takes_little_memory(codec, part):
    """16 MiB in one part; a block may have one large row, but not many small ones."""
    parts_there = parts_of(sst_of(SOME, codec).body)
    content = b"\0\1\0k" + bytes(9)
    content = content * ((1 << 24) // len(content))
    wrong = repacked(parts_there._replace(**{part: (content + b"\0\0\0\1",) if part == "blocks" else content}),
                     keep_index=part == "index")
    tracemalloc.start()
    try:
        with pytest.raises(DamagedObject):
            table = Table("x", wrong.body)
            list(table.rows())
            _ = table.stats
        assert tracemalloc.get_traced_memory()[1] < (3 << 24 if part == "blocks" else 1 << 24)
    finally:
        tracemalloc.stop()


def test_no_more_is_unpacked_than_allowed():
    for codec in (SNAPPY, ZLIB, LZ4, ZSTD):
        packed = pack(bytes(100_000), codec)
        assert compression.unpack(packed, codec, HERE, 100_000) == bytes(100_000)
        with pytest.raises(DamagedObject):
            compression.unpack(packed, codec, HERE, 99_999)


HERE = parts.Place("x", 0, "part")


def test_the_cache_counts_filters_as_they_are_unpacked():
    """Many rows and few keys: a filter that packs well."""
    rows = [Row(b"key%d" % (i // 500), 500 - i % 500, value=Random(i).randbytes(20)) for i in range(2000)]
    built = sst_of(rows, ZSTD, 4096)
    for limits, whole in (({}, 0), ({"small": 1 << 20}, len(built.body))):
        with sizes(**limits):
            cache = Cache()
            store = store_of(built.body)
            assert asyncio.run(Ssts(store, cache).may_contain(KEY, built.info, b"key1"))
            assert cache.held_bytes > whole + len(rows) * 10 // 8 > whole + 2 * built.info.filter_len


def test_a_point_read_of_damaged_ranges_is_refused():
    """The store's object is well; a range of it is not."""
    store, manifest = database([SOME])
    reader = Reader(store, asyncio.run(opened(store, "db")))

    async def damaged(key: str, start: int, end: int):
        found = await type(store).get_range(store, key, start, end)
        return found._replace(body=found.body[:-1] + bytes([found.body[-1] ^ 1]))

    store.get_range = damaged
    assert manifest and "footer" not in str(refusal_of(reader.get(SOME[3].key, 0)))
