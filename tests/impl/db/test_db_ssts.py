"""SSTs that are read by ranges: the rows are those of the whole object, by few requests, or an error says what is wrong."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Run, Sst, SstInfo, View
from highwater.impl.db import ssts
from highwater.impl.db.build import Built, sst_of
from highwater.impl.db.cache import Cache
from highwater.impl.db.compression import LZ4, NAMES
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.reader import CannotRead, Reader, State
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.db.table import Table
from highwater.impl.layout import key_of_sst
from highwater.impl.manifests.spans import Span
from tests.support.slatedb.forged import SOME
from tests.support.slatedb.ranged import KEY, Counting, rows_by_ranges, sizes, store_of
from tests.support.slatedb.tables import id_of, rows, sst_v1

MANY = [Row(b"key%05d" % i, 1 + i % 3, value=b"%d" % i * 3) for i in range(1500)]
BIG = sst_of(MANY, block_bytes=200)
ABSENT = b"key00700x"


def reader_of(*built: Built, cache: Cache | None = None) -> tuple[Counting, Reader]:
    """Return a reader of SSTs in one run, and its store."""
    store, names = Counting(), [id_of(i) for i in range(1, len(built) + 1)]
    for name, one in zip(names, built):
        asyncio.run(store.put(key_of_sst("db", name), one.body))
    manifest = Manifest(ssts=tuple(Sst(name, one.info, 2) for name, one in zip(names, built)),
                        compacted=(Run(1, tuple(View(name, name) for name in names)),))
    return store, Reader(store, State("db", manifest, []), cache=cache)


def rows_of(reader: Reader, key: bytes) -> list[Row]:
    """Return the rows of one key, as a point read finds them."""
    async def go() -> list[Row]:
        span = Span(key, key + b"\0")
        return [row for source in reader.sources(span, key) async for found in source for row in found]

    return asyncio.run(go())


def scanned(reader: Reader, span: Span = ssts.EVERYTHING) -> list[bytes]:
    async def go() -> list[bytes]:
        return [found.key async for found in reader.scan(span, 0)]

    return asyncio.run(go())


# ----------------------------------------------------------------------------------------------------------- the rows

@settings(max_examples=40, deadline=None)
@given(rows=rows(), codec=st.sampled_from(range(len(NAMES))), block_bytes=st.sampled_from([1, 60, 300, 4096]),
       small=st.sampled_from([0, 0, 2000]), together=st.sampled_from([0, 1 << 18]), first=st.sampled_from([1, 100, 1 << 16]),
       kept=st.sampled_from([0, 5000, 1 << 26]))
def test_ranges_show_the_rows_of_the_whole(rows, codec, block_bytes, small, together, first, kept):
    built = sst_of(rows, codec, block_bytes, least_filtered=3)
    keys, cache, table = sorted({row.key for row in rows}), Cache(kept), Table("x", built.body)
    span = Span(keys[len(keys) // 3], keys[2 * len(keys) // 3])
    part = [row for block in table.blocks(*span) for row in block]
    with sizes(small, together, first, 4 * first):
        for info in (built.info, None):
            assert rows_by_ranges(built.body, info, cache=cache) == rows
            assert rows_by_ranges(built.body, info, span, cache) == part
        _, reader = reader_of(built, cache=cache)
        for key in (keys[0], keys[-1], keys[len(keys) // 2], b"\0", keys[0] + b"x") * 2:  # the second time of what is kept
            assert rows_of(reader, key) == [row for row in rows if row.key == key]
    assert cache.held_bytes <= kept


def test_format_1_is_read_by_ranges():
    built = sst_v1([SOME[:60], SOME[60:]])
    with sizes():
        assert rows_by_ranges(built.body, built.info) == rows_by_ranges(built.body) == SOME


# ------------------------------------------------------------------------------------------------------- the requests

@pytest.mark.parametrize(("limits", "cold", "other"), [
    ({"small": 1 << 20}, 1, 0),  # a small SST is read whole
    ({"together": 1 << 20}, 2, 1),  # filter and index together, then a block
    ({}, 3, 1)])  # a filter, an index, a block
def test_a_point_read_sends_few_requests(limits, cold, other):
    """`other`: for another key, when filter and index are kept."""
    with sizes(**limits):
        store, reader = reader_of(BIG)
        assert rows_of(reader, ABSENT) == [] and store.sent() == 1, "nothing is read but what has the filter"
        _, reader = reader_of(BIG)
        reader.ssts.store = store
        assert rows_of(reader, MANY[700].key) == [MANY[700]] and store.sent() == cold
        assert rows_of(reader, MANY[1200].key) == [MANY[1200]] and store.sent() == other
        assert rows_of(reader, MANY[700].key) == [MANY[700]] and store.sent() == 0, "the block is kept"
        assert rows_of(reader, ABSENT) == rows_of(reader, b"a") == rows_of(reader, b"z") == [] and store.sent() == 0
        assert all(end - start < len(BIG.body) // 4 for start, end in store.ranges)


def test_a_point_read_of_an_sst_without_filter_sends_two_requests():
    built = sst_of(MANY, block_bytes=200, least_filtered=10_000)
    with sizes():
        store, reader = reader_of(built)
        assert rows_of(reader, MANY[3].key) == [MANY[3]] and store.sent() == 2
        assert rows_of(reader, ABSENT) == [] and store.sent() == 1


def test_versions_of_one_key_in_many_blocks_are_one_request():
    versions = [Row(b"k", 500 - i, value=b"%d" % i * 9) for i in range(400)]
    with sizes():
        store, reader = reader_of(sst_of([Row(b"a", 1), *versions, Row(b"z", 1)], block_bytes=200))
        assert rows_of(reader, b"k") == versions and store.sent() == 2


def test_of_a_run_a_point_read_asks_one_sst():
    store, reader = reader_of(*(sst_of(MANY[i:i + 100], block_bytes=200) for i in range(0, 1000, 100)))
    assert rows_of(reader, MANY[555].key) == [MANY[555]] and store.sent() == 1


def test_a_scan_reads_ahead_more_and_more():
    """No request of it brings more than the limit, so no more is in memory; and a short scan brings little."""
    with sizes(first=1 << 10, most=1 << 13):
        store, reader = reader_of(BIG)
        assert scanned(reader) == [row.key for row in MANY]
        asked = [end - start for start, end in store.ranges[1:]]
        assert asked[0] <= 1 << 10 and max(asked) <= 1 << 13 and sum(asked) == BIG.info.filter_offset
        assert len(asked) < BIG.info.filter_offset / (1 << 13) + 6
        store.sent()
        assert len(scanned(reader, Span(MANY[500].key, MANY[505].key))) == 5 and store.sent() == 1
    whole, reader = reader_of(BIG)
    assert len(scanned(reader)) == 1500 and whole.sent() == 1, "64 KiB at first, so this is all of it"


def test_a_scan_pushes_nothing_out_of_the_cache():
    with sizes(first=1 << 10, most=1 << 10):
        store, reader = reader_of(BIG, cache=Cache(40_000))
        assert rows_of(reader, MANY[3].key) and scanned(reader) and store.sent() > 20
        assert rows_of(reader, MANY[3].key) == [MANY[3]] and store.sent() == 0


def test_readers_share_a_cache():
    cache = Cache()
    store, one = reader_of(BIG, cache=cache)
    other = Reader(store, one.state, cache=cache)
    assert rows_of(one, MANY[3].key) == rows_of(other, MANY[3].key) == [MANY[3]] and store.sent() == 1
    lies = one.state._replace(manifest=one.state.manifest._replace(ssts=(Sst(id_of(1), BIG.info._replace(stats_len=9), 2),)))
    with pytest.raises(DamagedObject, match="manifest says"):
        rows_of(Reader(store, lies, cache=cache), MANY[3].key)


def test_a_cache_keeps_what_was_used_last_and_no_more_bytes():
    cache = Cache(10)
    for key, size in (("a", 4), ("b", 4), ("a", 5), ("c", 1)):
        cache.put(key, key, size)
    assert [cache.get(key) for key in "abcd"] == ["a", "b", "c", None] and cache.held_bytes == 10
    assert cache.get("a") == "a"
    cache.put("d", "d", 1)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"] and cache.held_bytes == 7
    cache.put("e", "e", 11)
    cache.put("a", "A", 11)
    assert cache.get("e") is cache.get("a") is None and cache.held_bytes == 2
    cache.drop("c")
    cache.drop("c")
    assert cache.held_bytes == 1


# ------------------------------------------------------------------------------------------------------------- damage

@pytest.mark.parametrize("codec", (0, LZ4))
def test_every_flipped_byte_is_noticed_by_ranges_too(codec):
    """Each byte is in a part that a scan and a point read together read, but for statistics."""
    built = sst_of(SOME[:20], codec, 200, least_filtered=3)
    info = built.info
    unread = range(info.stats_offset, info.stats_offset + info.stats_len)
    for at in range(0, len(built.body), 2 if codec else 1):
        body = bytearray(built.body)
        body[at] ^= 1 + at % 255
        changed = Built(bytes(body), info)
        with sizes(first=300):
            try:
                _, reader = reader_of(changed)
                found = [rows_of(reader, SOME[3].key), scanned(reader)]
            except DamagedObject as error:
                assert error.field and 0 <= error.offset <= len(body)
                continue
        assert at in unread and len(found) == 2, at


def test_every_cut_is_noticed_by_ranges_too():
    built = sst_of(SOME[:30], 0, 200, least_filtered=3)
    for end in range(0, len(built.body), 3):
        for info in (built.info, None):
            with sizes(), pytest.raises(DamagedObject):
                rows_by_ranges(built.body[:end], info)


def reads(store: Counting, work: Callable[[Ssts], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work(Ssts(store)))


async def rows_while(of: Ssts, change: Callable[[], Coroutine[Any, Any, Any]], info: SstInfo) -> list[Row]:
    """Read an SST, and change the store after the first block."""
    found: list[Row] = []
    async for block in of.blocks(KEY, info):
        if not found:
            await change()
        found += block
    return found


def test_an_object_that_is_written_again_must_be_the_same():
    """A PUT in flight may arrive after the SST is in a manifest. Another SST in its place is an error, also if it fits."""
    other = sst_of([row._replace(key=row.key.replace(b"key", b"kex")) for row in MANY], block_bytes=200)
    with sizes(first=1000, most=1000):
        for body, same in ((BIG.body, True), (other.body, False)):
            store = store_of(BIG.body)
            work = lambda of, body=body, store=store: rows_while(of, lambda: store.put(KEY, body), BIG.info)  # noqa: E731
            if same:
                assert reads(store, work) == MANY
            else:
                with pytest.raises(DamagedObject, match="manifest says"):
                    reads(store, work)


def test_an_object_with_the_same_info_and_another_index_is_noticed():
    first, second = ([Row(b"a", 1), *(Row(key, 1) for key in keys), Row(b"z", 1)] for keys in ((b"b", b"c"), (b"d", b"e")))
    one, other = (sst_of(of, 0, 1) for of in (first, second))
    assert one.info == other.info and one.body != other.body
    with sizes(first=1), pytest.raises(DamagedObject, match="another object was put in its place"):
        store = store_of(one.body)
        reads(store, lambda of: rows_while(of, lambda: store.put(KEY, other.body), one.info))


def test_what_is_not_there_or_not_what_the_manifest_says_is_an_error():
    store, reader = reader_of(BIG)
    key = key_of_sst("db", id_of(1))
    asyncio.run(store.put(key, b""))
    with pytest.raises(DamagedObject, match="the object ends here"):
        scanned(reader)
    asyncio.run(store.put(key, sst_of(MANY[:9]).body))
    with pytest.raises(DamagedObject):
        rows_of(reader, MANY[3].key)
    asyncio.run(store.delete(key))
    for read in (lambda: scanned(reader), lambda: rows_of(reader, MANY[3].key)):
        with pytest.raises(CannotRead, match="it is missing"):
            read()


@pytest.mark.parametrize("wrong", [
    {"index_offset": 1 << 63}, {"index_len": 1 << 40}, {"filter_len": 1 << 40, "filter_offset": 9}, {"filter_offset": 1 << 43},
    {"stats_offset": (1 << 64) - 1}, {"index_offset": 0}, {"index_len": 0}, {"last_entry": b"key99999"}, {"filter_offset": 0}])
def test_a_manifest_that_names_other_places_is_an_error_before_much_is_read(wrong):
    changed = Built(BIG.body, BIG.info._replace(**wrong))
    for limits in ({}, {"small": 1 << 20}, {"together": 1 << 20}):
        with sizes(**limits):
            store, reader = reader_of(changed)
            for read in (lambda reader=reader: scanned(reader), lambda reader=reader: rows_of(reader, MANY[3].key)):
                with pytest.raises(DamagedObject):
                    read()
            assert store.sent() <= 4
