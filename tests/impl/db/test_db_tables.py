"""SSTs and WAL objects: what is built is read again, filters exclude no key, and damage is an error that says where."""

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.slatedb.flatbuffer import write
from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db import block, bloom, compression
from highwater.impl.db.build import sst_of, wal_of
from highwater.impl.db.compression import LZ4, NAMES, SNAPPY, ZLIB, ZSTD, CodecMissing, pack, unpack
from highwater.impl.db.damaged import DamagedObject, Place
from highwater.impl.db.parts import FOOTER, BlockMeta, Index, sealed
from highwater.impl.db.rows import TOMBSTONE, Row
from highwater.impl.db.table import Table
from highwater.impl.db.wal import rows_of
from tests.support.slatedb.forged import SOME, read_whole, try_forged
from tests.support.slatedb.tables import block_v1, fence_with_body, rows, sst_v1

HERE = Place("db/compacted/x.sst", 0, "block 0")
CODECS = range(len(NAMES))


@settings(max_examples=60, deadline=None)
@given(rows=rows(), codec=st.sampled_from(CODECS), block_bytes=st.sampled_from([1, 60, 300, 4096, 65_535]))
def test_an_sst_is_read_as_it_was_built(rows, codec, block_bytes):
    built = sst_of(rows, codec, block_bytes, least_filtered=3)
    table = Table("x", built.body, built.info)
    assert list(table.rows()) == rows and table.version == 2 and not table.is_wal
    assert (table.bloom is not None) == (len(rows) >= 3) and all(table.may_contain(row.key) for row in rows)
    assert table.stats and sum(table.stats[:3]) == len(rows)
    assert [sum(one) for one in table.stats.blocks] == [len(one) for one in table.blocks()]
    cuts = sorted({row.key for row in rows})
    start, end = cuts[len(cuts) // 3], cuts[2 * len(cuts) // 3]
    assert list(table.rows(start, end)) == [row for row in rows if start <= row.key < end]


@settings(max_examples=40, deadline=None)
@given(rows=rows(), codec=st.sampled_from(CODECS))
def test_a_wal_object_is_read_as_it_was_built(rows, codec):
    commits = sorted(rows, key=lambda row: row.seq)
    built = wal_of(commits, codec, 200)
    assert rows_of("x", built.body) == commits and Table("x", built.body).is_wal
    assert built.info.first_entry == commits[0].seq.to_bytes(8, "big") and built.info.last_entry is None


def test_a_fence_has_no_rows():
    """Empty, or as 0.13.1 writes it."""
    assert rows_of("x", b"") == rows_of("x", fence_with_body()) == []


@settings(max_examples=40, deadline=None)
@given(rows=rows())
def test_format_1_is_read(rows):
    short = [row for row in rows if len(row.value) < 5000 and len(row.key) < 5000] or [Row(b"k", 1)]
    half = len(short) // 2
    built = sst_v1([part for part in (short[:half], short[half:]) if part])
    assert list(Table("x", built.body, built.info).rows()) == short


def test_what_no_sst_may_hold_is_refused():
    for bad in ([], [Row(b"b", 1), Row(b"a", 1)], [Row(b"a", 1), Row(b"a", 1)], [Row(b"", 1)], [Row(b"a" * 65_536, 1)],
                [Row(b"a", 1, TOMBSTONE, b"v")], [Row(b"a", -1)], [Row(b"a", 1, 9)]):
        with pytest.raises(ValueError):
            sst_of(bad)
    with pytest.raises(ValueError, match="descend"):
        wal_of([Row(b"a", 2), Row(b"a", 1)])


def test_siphash_of_nothing():
    """The hash of nothing, as Rust's SipHasher13 gives it. tests/interop compares filters with those of released clients."""
    assert bloom.siphash13(b"") == 0xd1fba762150c532c
    assert len({bloom.siphash13(bytes(n)) for n in range(64)}) == 64


def test_a_filter_says_no_about_most_other_keys():
    built = sst_of(SOME, least_filtered=1)
    table = Table("x", built.body)
    others = [b"a%03d\0" % i for i in range(118)]
    assert sum(map(table.may_contain, others)) < 12


# ------------------------------------------------------------------------------------------------------------- damage

@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_byte_is_an_error_or_changes_nothing(codec):
    """The checksums see to it; an error names the object and a byte in it."""
    built = sst_of(SOME[:30], codec, 200, least_filtered=3)
    for at in range(len(built.body)):
        body = bytearray(built.body)
        body[at] ^= 1 + at % 255
        with pytest.raises(DamagedObject) as told:
            read_whole(bytes(body), built.info)
        assert told.value.key == "db/x.sst" and 0 <= told.value.offset <= len(body) and told.value.field


def test_every_cut_is_an_error():
    built = sst_of(SOME[:30], 0, 200, least_filtered=3)
    for end in range(len(built.body)):
        with pytest.raises(DamagedObject):
            read_whole(built.body[:end], built.info)


@pytest.mark.parametrize("seed", range(2))
def test_a_forged_part_is_an_error_or_other_rows(seed):
    assert try_forged(seed, 1000) > 300


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=300))
def test_any_bytes_are_a_block_or_an_error(body):
    for version in (1, 2):
        try:
            found = block.decode(body, version, HERE)
        except DamagedObject as error:
            assert error.key == HERE.key
        else:
            assert found and sum(len(row.value) for row in found) <= len(body)


@settings(max_examples=200, deadline=None)
@given(packed=st.binary(max_size=100), codec=st.sampled_from(CODECS))
def test_any_bytes_are_unpacked_or_an_error(packed, codec):
    try:
        content = unpack(packed, codec, HERE)
    except DamagedObject as error:
        assert error.key == HERE.key
    else:
        assert unpack(pack(content, codec), codec, HERE) == content


@settings(max_examples=50, deadline=None)
@given(part=st.binary(max_size=60))
def test_any_bytes_are_a_filter_or_an_error(part):
    try:
        found = bloom.decode(part, HERE)
    except DamagedObject:
        return
    assert found is None or found.may_contain(b"x") in (True, False)


@pytest.mark.parametrize("codec", (SNAPPY, ZLIB, LZ4, ZSTD))
def test_a_small_part_does_not_unpack_into_all_memory(codec, monkeypatch):
    """A bomb: much content in few bytes; and a length that nobody wrote."""
    monkeypatch.setattr(compression, "MOST", 1 << 16)
    bomb = pack(bytes(1 << 20), codec)
    with pytest.raises(DamagedObject):
        unpack(bomb, codec, HERE)
    assert unpack(pack(bytes(1 << 16), codec), codec, HERE) == bytes(1 << 16)


@pytest.mark.parametrize("length", (0, 99, 101, 1 << 31))
def test_a_wrong_length_of_lz4_is_noticed(length):
    """The library fills up a content that is too short."""
    packed = pack(b"ab" * 50, LZ4)
    with pytest.raises(DamagedObject, match="length"):
        unpack(length.to_bytes(4, "little") + packed[4:], LZ4, HERE)


def test_a_cut_part_is_noticed_by_every_codec():
    content = bytes(random.Random(1).choices(b"abcd", k=5000))
    for codec in CODECS[1:]:
        packed = pack(content, codec)
        for end in range(len(packed) - 1, 0, -97):
            with pytest.raises(DamagedObject):
                unpack(packed[:end], codec, HERE)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for codec in (SNAPPY, LZ4, ZSTD):
        with pytest.raises(CodecMissing, match=r"pyarrow, which the extra `codecs` brings"):
            pack(b"x", codec)
    assert unpack(pack(b"x", ZLIB), ZLIB, HERE) == b"x"


WRONG = {  # what is wrong with a block -> its bytes, and what is said
    "empty": (b"", "number of offsets"),
    "no offsets": (b"\0\0", "number of offsets"),
    "offsets descend": (b"x" * 40 + b"\0\0\0\5\0\4\0\3", "offsets"),
    "shares too much": (b"\1\1\1kv" + bytes(9) + b"\0\0\0\1", "lengths of the key"),
    "no key": (b"\0\0\1v" + bytes(9) + b"\0\0\0\1", "lengths of the key"),
    "too long": (b"\0\1\x7fkv" + bytes(9) + b"\0\0\0\1", "entry"),
    "unknown flag": (b"\0\1\1kv" + bytes(8) + b"\x10\0\0\0\1", "flags"),
    "tombstone and merge": (b"\0\1\0k" + bytes(8) + b"\x09\0\0\0\1", "flags"),
    "tombstone with a value": (b"\0\1\1kv" + bytes(8) + b"\x01\0\0\0\1", "length of the value"),
    "endless number": (b"\0\1\xff\xff\xff\xff\xff\xff\xffk" + bytes(9) + b"\0\0\0\1", "length of the value"),
    "restart inside an entry": (b"\0\1\1kv" + bytes(9) + b"\0\0\0\3\0\2", "restart"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_block_is_named(what):
    body, field = WRONG[what]
    with pytest.raises(DamagedObject, match=field):
        block.decode(body, 2, HERE)


def test_a_wrong_order_is_noticed():
    """Rows, blocks and the first and last key are those that the index and info say."""
    one, other = block_v1([Row(b"a", 1), Row(b"b", 1)]), block_v1([Row(b"d", 1), Row(b"c", 1)])
    for blocks, keys, first, last, field in (
            ([one, other], [b"", b"c"], b"a", b"c", "order of rows"), ([one, one], [b"", b"c"], b"a", b"b", "keys"),
            ([one], [b""], b"b", b"b", "keys"), ([one], [b""], b"a", b"c", "keys"),
            ([one, one], [b"b", b"a"], b"a", b"b", "first keys"), ([block_v1([Row(b"a", 1), Row(b"a", 2)])], [b""], b"a", b"a",
                                                                   "order of rows")):
        body, metas = b"", []
        for content, key in zip(blocks, keys):
            metas.append(BlockMeta(len(body), key))
            body += sealed(content)
        index = sealed(write(Index(tuple(metas))))
        info = SstInfo(first, len(body), len(index), len(body), 0, last_entry=last)
        body += index
        with pytest.raises(DamagedObject, match=field):
            read_whole(body + sealed(write(info)) + FOOTER.pack(len(body), 1))


def test_an_object_of_another_sst_is_noticed():
    one, other = sst_of([Row(b"a", 1)]), sst_of([Row(b"a", 1, 0, b"longer")])
    with pytest.raises(DamagedObject, match="manifest says"):
        Table("x", one.body, other.info)


def test_an_error_says_where():
    built = sst_of(SOME, 0, 400)
    body = bytearray(built.body)
    body[500] ^= 1
    offsets = Table("x", built.body).offsets
    number = max(i for i, offset in enumerate(offsets) if offset <= 500)
    with pytest.raises(DamagedObject) as told:
        list(Table("db/x.sst", bytes(body)).rows())
    assert str(told.value).startswith("db/x.sst: byte ") and f"block {number}, checksum" in str(told.value)
    assert offsets[number] <= told.value.offset < offsets[number + 1]
