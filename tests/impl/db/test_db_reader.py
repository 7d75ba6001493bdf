"""Reads of a database: its newest versions, in every order and with every kind of row; and what cannot be read."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb, Run, Segment, Sst, View
from highwater.impl.db.build import sst_of
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.merge import Shown, TwoRows, shown, versions
from highwater.impl.db.reader import CannotRead, Reader, opened
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.wal import WalMissing, table_of
from highwater.impl.errors import NotFound
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.manifests.spans import EVERYTHING, Malformed, Span, meet, range_of
from tests.support.slatedb.tables import database, id_of

NOW = 1000
UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"


def scanned(store, span=EVERYTHING, checkpoint=None, now_ms=NOW, root="db") -> list[Shown]:
    async def go():
        reader = Reader(store, await opened(store, root, checkpoint))
        return [found async for found in reader.scan(span, now_ms)]

    return asyncio.run(go())


def got(store, key: bytes, now_ms=NOW) -> Shown | None:
    async def go():
        return await Reader(store, await opened(store, "db")).get(key, now_ms)

    return asyncio.run(go())


def values(found: list[Shown]) -> dict[bytes, bytes | None]:
    return {one.key: one.value for one in found}


@st.composite
def histories(draw):
    """Commits of rows with numbers of their own, and where each of them is: in an SST or the WAL."""
    rows = [Row(draw(st.sampled_from([b"a", b"b", b"bb", b"c"])), seq, draw(st.sampled_from((VALUE, TOMBSTONE, MERGE))), b"",
                None, draw(st.sampled_from((None, None, NOW, NOW + 1)))) for seq in range(1, draw(st.integers(1, 24)) + 1)]
    rows = [row if row.kind == TOMBSTONE else row._replace(value=b"%d" % row.seq) for row in rows]
    flushed = draw(st.integers(0, len(rows)))
    places = [draw(st.integers(0, 2)) for _ in rows[:flushed]]
    ssts = [sorted((row for row, at in zip(rows, places) if at == place), key=lambda row: (row.key, -row.seq))
            for place in range(3)]
    return rows, [one for one in ssts if one], rows[flushed:]


def expected(rows: list[Row]) -> dict[bytes, tuple[bytes | None, tuple[bytes, ...]]]:
    """The rows of a map to which the commits are applied one by one: the same by another way."""
    found: dict[bytes, tuple[bytes | None, tuple[bytes, ...]] | None] = {}
    for row in rows:
        expired = row.expire_ms is not None and row.expire_ms <= NOW
        value, operands = found.get(row.key) or (None, ())
        if row.kind == MERGE:
            found[row.key] = found.get(row.key) if expired else (value, (*operands, row.value))
        else:
            found[row.key] = None if expired or row.kind == TOMBSTONE else (row.value, ())
    return {key: one for key, one in found.items() if one}


@settings(max_examples=60, deadline=None)
@given(history=histories(), codec=st.sampled_from((0, 2)))
def test_a_read_shows_what_the_commits_one_by_one_show(history, codec):
    rows, ssts, unflushed = history
    wal = [None, *([row] for row in unflushed)]
    last = max((row.seq for one in ssts for row in one), default=0)
    store, _ = database(ssts, wal, codec, last_l0_seq=last)
    found, wanted = scanned(store), expected(rows)
    assert {one.key: (one.value, one.operands) for one in found} == wanted
    assert [one.key for one in found] == sorted(wanted)
    for key in (b"a", b"b", b"bb", b"c", b"x"):
        one = got(store, key)
        assert (one and (one.value, one.operands)) == wanted.get(key)
    for span in (Span(b"b"), Span(b"", b"bb"), Span(b"b", b"b\0")):
        assert [one.key for one in scanned(store, span)] == [
            key for key in sorted(wanted) if span.start <= key and (span.end is None or key < span.end)]


def test_the_newest_number_counts_wherever_it_is():
    """An older SST may stand before a newer one: only numbers say which version is newer."""
    old, new = [Row(b"k", 1, value=b"old")], [Row(b"k", 2, value=b"new")]
    for ssts in ([old, new], [new, old]):
        assert values(scanned(database(ssts)[0])) == {b"k": b"new"}


def test_a_row_that_two_ssts_have_is_shown_once_and_two_different_ones_are_refused():
    row = Row(b"k", 1, MERGE, b"x")
    assert scanned(database([[row], [row]])[0])[0].operands == (b"x",)
    with pytest.raises(TwoRows, match="number 1"):
        scanned(database([[row], [row._replace(value=b"y")]])[0])


def test_rows_of_the_wal_that_are_in_l0_are_not_read_again():
    """The manifest may name a WAL object as not flushed whose rows are in L0."""
    store, _ = database([[Row(b"k", 1, MERGE, b"12")]], [[Row(b"k", 1, MERGE, b"1")], [Row(b"k", 2, MERGE, b"3")]])
    assert scanned(store)[0].operands == (b"12", b"3")


def test_of_equal_numbers_in_a_wal_the_last_counts():
    rows = [Row(b"k", 1, value=b"a"), Row(b"j", 1), Row(b"k", 1, value=b"b"), Row(b"k", 2)]
    assert table_of(rows) == [rows[1], rows[3], rows[2]]


def test_versions_up_to_a_number():
    rows = [Row(b"k", 3, MERGE, b"c"), Row(b"k", 2, MERGE, b"b", None, NOW), Row(b"k", 1, value=b"a", create_ms=7, expire_ms=9)]
    assert shown(rows, 0) == Shown(b"k", b"a", (b"b", b"c"), 3, None, 9)
    assert shown(rows, 0, 1) == Shown(b"k", b"a", (), 1, 7, 9)
    assert shown(rows, NOW) == Shown(b"k", None, (b"c",), 3, None, None)
    assert shown(rows, 0, 0) is None
    assert shown(rows, 0).merged(lambda key, value, operand: (value or b"") + operand) == b"abc"


def test_no_sources_have_no_versions():
    async def go():
        return [rows async for rows in versions([])]

    assert asyncio.run(go()) == []


# -------------------------------------------------------------------------------------------- visible ranges, parents

ALL = [Row(b"%c" % key, 1, value=b"1") for key in b"abcdefgh"]


def test_a_view_shows_its_range_only():
    name = id_of(1)
    store, _ = database([ALL], l0=(View(name, name, range_of(Span(b"c", b"f"))),))
    assert "".join(key.decode() for key in values(scanned(store))) == "cde"
    assert got(store, b"c") and got(store, b"b") is None and got(store, b"f") is None


def test_runs_and_segments_are_read():
    runs = tuple(Run(i, (View(id_of(i), id_of(i)),)) for i in (3, 2))
    segment = Segment(b"s", l0=(View(id_of(4), id_of(4)),), compacted=(Run(1, (View(id_of(1), id_of(1)),)),))
    store, _ = database([[Row(b"s1", 1)], [Row(b"a", 1, value=b"old"), Row(b"b", 1)], [Row(b"a", 2, value=b"new")], [
        Row(b"s2", 3)]], l0=(), compacted=runs, segments=(segment,))
    assert values(scanned(store)) == {b"a": b"new", b"b": b"", b"s1": b"", b"s2": b""}


def test_a_run_reads_only_the_ssts_that_have_keys_of_the_span():
    names = [id_of(i) for i in (1, 2, 3)]
    run = Run(1, tuple(View(name, name) for name in names))
    store, _ = database([ALL[:3], ALL[3:6], ALL[6:]], l0=(), compacted=(run,))
    asyncio.run(store.delete(key_of_sst("db", names[2])))
    asyncio.run(store.delete(key_of_sst("db", names[0])))
    assert [*values(scanned(store, Span(b"d", b"g")))] == [b"d", b"e", b"f"]
    with pytest.raises(CannotRead, match="is missing"):
        scanned(store)


def store_of_run(ssts: list[list[Row]], visible: list[Span | None] | None = None):
    """A database with one run of these SSTs."""
    names = [id_of(number) for number in range(1, len(ssts) + 1)]
    views = tuple(View(name, name, span and range_of(span)) for name, span in zip(names, visible or [None] * len(names)))
    return database(ssts, l0=(), compacted=(Run(1, views),))[0]


@st.composite
def split_runs(draw):
    """The rows of a run, and the SSTs into which a compactor has cut them, between any two rows. Some SSTs have rows outside of
    their visible range."""
    rows = []
    for key in (b"a", b"k", b"m"):
        for seq in range(draw(st.integers(0, 9)), 0, -1):
            kind, expiry = draw(st.sampled_from((VALUE, VALUE, TOMBSTONE, MERGE))), draw(st.sampled_from((None, None, NOW)))
            value = b"" if kind == TOMBSTONE else b"%d" % seq * draw(st.sampled_from((1, 30)))
            rows.append(Row(key, seq, kind, value, None, None if kind == TOMBSTONE else expiry))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(rows) - 1)))))
    ssts = [one for one in (rows[a:b] for a, b in pairwise([0, *cuts, len(rows)])) if one]
    visible = [Span(one[0].key, one[-1].key + b"\0") if draw(st.booleans()) else None for one in ssts]
    outside = Row(b"0", 1, value=b"hidden"), Row(b"z", 1, value=b"hidden")
    return rows, [[outside[0], *one, outside[1]] if span else one for one, span in zip(ssts, visible)], visible


@settings(max_examples=150, deadline=None)
@given(split_runs())
def test_versions_in_several_ssts_of_a_run_are_all_read(split):
    rows, ssts, visible = split
    store = store_of_run(ssts, visible)

    async def go():
        reader = Reader(store, await opened(store, "db"))
        for seq in (*range(10), None):
            wanted = {key: shown([row for row in rows if row.key == key], NOW, seq) for key in (b"a", b"k", b"m", b"z")}
            assert {key: await reader.get(key, NOW, seq) for key in wanted} == wanted
            for span in (EVERYTHING, Span(b"", b"k"), Span(b"k", b"k\0"), Span(b"k\0")):
                assert [one async for one in reader.scan(span, NOW, seq)] == [
                    one for key, one in wanted.items() if one and meet(Span(key, key + b"\0"), span)]

    asyncio.run(go())


def test_a_view_whose_filter_excludes_a_shared_key_does_not_end_a_read():
    """Its range goes on to the first key of the next view, and its SST has no such key."""
    store = store_of_run([[Row(b"%c" % key, 1) for key in b"abcxyz"], [Row(b"k", 2, value=b"2"), Row(b"m", 1)]],
                         [Span(b"a", b"k\0"), None])
    found = got(store, b"k")
    assert found and found.value == b"2" and got(store, b"x") is None


NEW, OLD = [Row(b"k", seq, value=b"x" * 30) for seq in (9, 8, 7)], [Row(b"k", seq, value=b"x" * 30) for seq in (3, 2, 1)]


@pytest.mark.parametrize("ssts", [
    [OLD, NEW], [[Row(b"a", 1), *OLD], [*NEW, Row(b"m", 1)]], [NEW, OLD, [Row(b"k", 4)]], [NEW, NEW], [OLD, OLD[2:]],
    [NEW, [Row(b"k", 7, TOMBSTONE)]]])
def test_versions_that_do_not_descend_in_a_run_are_damage(ssts):
    """The manifest cannot tell, so whoever reads the rows does."""
    store = store_of_run(ssts)
    for read in (lambda: scanned(store), lambda: got(store, b"k")):
        with pytest.raises(DamagedObject, match="order of rows: b'k' of number"):
            read()
    assert got(store, b"z") is None


def test_an_sst_of_a_parent_is_read_there():
    store, manifest = database([ALL])
    clone = manifest._replace(external_dbs=(ExternalDb("db", UUID, UUID, (id_of(1),)),))
    asyncio.run(store.put(Namespace("clone", "manifest").key(1), ManifestCodec().encode(clone)))
    assert len(scanned(store, root="clone")) == len(ALL)


# ---------------------------------------------------------------------------------------------- checkpoints, refusals

def with_checkpoint(**fields):
    """Manifest 2 keeps manifest 1 by a checkpoint, and has nothing in L0; its WAL has one object more than manifest 1 knows."""
    store, manifest = database([ALL[:1]], [[Row(b"w1", 2)], [Row(b"w2", 3)]], wal_id_last_seen=1)
    later = manifest._replace(l0=(), ssts=(), checkpoints=(Checkpoint(UUID, 1, name="kept"),), wal_id_last_seen=2)
    later = later._replace(**fields)
    asyncio.run(store.put(Namespace("db", "manifest").key(2), ManifestCodec().encode(later)))
    return store


def test_a_checkpoint_shows_its_manifest_and_the_wal_that_it_has_seen():
    store = with_checkpoint()
    assert [*values(scanned(store))] == [b"w1", b"w2"]
    assert [*values(scanned(store, checkpoint=UUID))] == [*values(scanned(store, checkpoint="kept"))] == [b"a", b"w1"]


def test_what_cannot_be_read_is_said():
    store = with_checkpoint()
    with pytest.raises(CannotRead, match="no checkpoint 'other'"):
        scanned(store, checkpoint="other")
    asyncio.run(store.delete(Namespace("db", "manifest").key(1)))
    with pytest.raises(CannotRead, match="checkpoint .* keeps it"):
        scanned(store, checkpoint=UUID)
    with pytest.raises(CannotRead, match="no manifest"):
        scanned(store, root="elsewhere")
    with pytest.raises(CannotRead, match="unfinished clone"):
        scanned(with_checkpoint(initialized=False))
    asyncio.run(store.put(Namespace("db", "manifest").key(3), b"\0\2damaged"))
    with pytest.raises(CannotRead, match="00003.manifest: "):
        scanned(store)


def test_a_missing_wal_object_is_an_error():
    store = with_checkpoint()
    asyncio.run(store.delete(Namespace("db", "wal").key(1)))
    for checkpoint in (None, UUID):
        with pytest.raises(WalMissing, match="00001.sst: it is missing"):
            scanned(store, checkpoint=checkpoint)


def test_a_view_of_nothing_and_a_changed_object_are_errors():
    store, manifest = database([ALL])
    other = sst_of([Row(b"z", 1)])
    asyncio.run(store.put(key_of_sst("db", id_of(1)), other.body))
    with pytest.raises(DamagedObject, match="manifest says"):
        scanned(store)
    nothing = manifest._replace(ssts=(Sst(id_of(2), other.info),))
    asyncio.run(store.put(Namespace("db", "manifest").key(2), ManifestCodec().encode(nothing)))
    with pytest.raises(Malformed, match="does not list"):
        scanned(store)


def test_while_others_flush_and_collect_the_next_manifest_is_read():
    """The WAL object that the latest manifest needs is collected just after it was listed; it is in L0 by then."""
    store, manifest = database([], [[Row(b"k", 1)]])
    get, flushed = store.get, []

    async def racing(key):
        if "/wal/" in key and not flushed:
            flushed.append(key)
            built = sst_of([Row(b"k", 1)])
            await store.put(key_of_sst("db", id_of(1)), built.body)
            later = manifest._replace(ssts=(Sst(id_of(1), built.info, 2),), l0=(View(id_of(1), id_of(1)),), last_l0_seq=1,
                                      replay_after_wal_id=1)
            await store.put(Namespace("db", "manifest").key(2), ManifestCodec().encode(later))
            await store.delete(key)
        if key.endswith("00001.manifest") and flushed:
            raise NotFound(key)
        return await get(key)

    store.get = racing
    assert [*values(scanned(store))] == [b"k"] and flushed
