"""SSTs and WAL objects of released clients are read and rebuilt here, and theirs and ours are read by the same clients."""

import asyncio
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import Run, Sst, View
from highwater.impl.db.bloom import filter_of
from highwater.impl.db.build import FENCE, LARGEST_BLOCK, Built, sst_of, wal_of
from highwater.impl.db.compression import NAMES
from highwater.impl.db.merge import Shown
from highwater.impl.db.reader import Reader, opened
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.table import Table
from highwater.impl.layout import Namespace
from highwater.impl.manifests.spans import Span, range_of
from highwater.impl.stores.system import open_database
from tests.interop.test_interop import WRITES, Database
from tests.interop.test_interop import database as database
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.support.slatedb.client import Client, PeerError, compacting
from tests.support.slatedb.tables import fence_with_body, sst_v1

pytestmark = pytest.mark.interop
CODECS = (None, "Snappy", "Zlib", "Lz4", "Zstd")
HOUR_MS = 3_600_000
NOW_MS = time.time_ns() // 1_000_000


def joined(key: bytes, value: bytes | None, operand: bytes) -> bytes:
    return (value or b"") + operand


def as_told(shown: Shown) -> list:
    """The rows that a key shows, as peer.py tells it."""
    return [shown.key.decode("latin-1"), shown.merged(joined).decode("latin-1"), shown.seq, shown.create_ms, shown.expire_ms]


def read(database: Database, checkpoint: str | None = None) -> list[list]:
    store, root = open_database(database.path_on_disk)

    async def go() -> list[list]:
        reader = Reader(store, await opened(store, root, checkpoint))
        return [as_told(found) async for found in reader.scan(Span(), time.time_ns() // 1_000_000)]

    return asyncio.run(go())


def objects(database: Database, folder: str) -> Iterator[tuple[Path, Table]]:
    """All objects of a folder but empty fences."""
    for path in sorted(Path(database.path_on_disk, folder).iterdir()):
        if body := path.read_bytes():
            yield path, Table(path.name, body)


def filled(peer: Client, database: Database, codec: str | None, **settings) -> None:
    """Values, tombstones, operands and times to live, in blocks of all sizes; a snapshot keeps older versions."""
    peer.open(path=database.path, merging=True, settings={"compression_codec": codec, "min_filter_keys": 10} | settings)
    peer.write(batch=[["put", f"key{i:05d}", f"value {i} " * (i % 7)] for i in range(500)])
    peer.write(batch=[["merge", "key00003", "+x"], ["delete", "key00004"], ["put", "ttl", "v", HOUR_MS], ["merge", "m", "1"],
                      ["merge", "t", "1", HOUR_MS]])
    peer.snapshot()
    peer.write(batch=[["merge", "key00003", "+y"], ["put", "key00005", "new"], ["delete", "key00006"], ["merge", "m", "2"],
                      ["put", "big", "z" * 70_000], ["put", "\xff\x00", "\x00\xff"]])
    peer.flush()
    peer.write(batch=[["merge", "m", "3"], ["put", "zz", "w"]])
    peer.write(batch=[["put", "key00007", "w"], ["delete", "key00008"]])
    peer.flush(kind="WAL")


def blocks_of(table: Table) -> list[bytes]:
    """The content of each block, to the byte; what a codec makes of it depends on the codec's library."""
    return [table.part("block", a, b - a)[0] for a, b in pairwise((*table.offsets, table.end_of_blocks))]


@pytest.mark.parametrize("codec", CODECS)
def test_every_object_decodes_and_rows_are_those_of_their_scan(release, peer, database, codec):
    """With rows that are only in the WAL; then with all in L0. What we build of these rows has the same blocks and filter."""
    filled(peer, database, codec)
    rows = peer.rows()
    assert read(database) == rows and len(rows) == 503
    peer.close()
    assert read(database) == rows == peer.rows_of(path=database.path, merging=True)
    seen = {"SST": 0, "WAL": 0, "fence": 0, "filter": 0}
    for path, table in [*objects(database, "compacted"), *objects(database, "wal")]:
        found = list(table.rows())
        if not found:
            seen["fence"] += 1
            assert release == "0.13.1"
            continue
        assert table.info.compression == CODECS.index(codec)
        if table.is_wal:
            built = wal_of(found, table.info.compression, LARGEST_BLOCK if release == "0.17.0" else 4096)
        else:
            built = sst_of(found, table.info.compression, least_filtered=10)
        ours = Table(path.name, built.body, built.info)
        assert ours.first_keys == table.first_keys and ours.stats == table.stats
        assert blocks_of(ours) == blocks_of(table)
        if table.info.filter_len:
            there = table.part("filter", table.info.filter_offset, table.info.filter_len)[0]
            assert there == filter_of((row.key for row in found), len(found))
            seen["filter"] += 1
        seen["WAL" if table.is_wal else "SST"] += 1
    assert seen["SST"] == 2 and seen["WAL"] > 1 and seen["filter"] == 1 and seen["fence"] == (release == "0.13.1")


def test_after_a_compaction_rows_are_those_of_their_scan(release, peer, database):
    """Runs of several levels, beside L0 and the WAL; blocks of 1 KiB."""
    peer.open(path=database.path, merging=True, settings=compacting(release) | {"min_filter_keys": 1}, block="BLOCK1_KIB")
    for i in range(200):
        peer.write(batch=[["put", f"k{j:03d}", f"{i} {j}"] for j in range(i % 5, 300, 5)]
                   + [["merge", "m", f"{i},"], ["delete", f"k{i:03d}"]])
        peer.flush()
        if i > 9 and latest(database)[1].compacted:
            break
    peer.write(batch=[["put", "late", "w"]])
    peer.flush(kind="WAL")
    assert latest(database)[1].compacted
    rows = peer.rows()
    assert read(database) == rows
    peer.close()
    assert read(database) == rows
    assert all(list(table.rows()) for path, table in objects(database, "compacted"))


# --------------------------------------------------------------------------------------------------- they read ours

def latest(database: Database) -> tuple[int, Manifest]:
    file_id, body = max(database.files("manifest").items())
    return file_id, ManifestCodec().decode(body)


def put(database: Database, key: str, body: bytes) -> None:
    asyncio.run(database.world.store.put(f"{database.name}/{key}", body))


def commit(database: Database, release: str, manifest: Manifest, file_id: int) -> None:
    codec = ManifestCodec(Phase.WRITE_V1 if WRITES[release] == 1 else Phase.WRITE_V2)
    put(database, Namespace("", "manifest").key(file_id), codec.encode(manifest))


@pytest.mark.parametrize("codec", range(len(NAMES)), ids=NAMES)
def test_it_reads_and_continues_what_we_wrote_in_the_place_of_theirs(release, peer, database, codec):
    """Every SST of theirs is replaced by one of ours with the same rows. It reads them, writes on, and merges them."""
    filled(peer, database, None)
    rows = peer.rows()
    peer.close()
    file_id, manifest = latest(database)
    infos = {}
    for path, table in objects(database, "compacted"):
        built = sst_of(list(table.rows()), codec, 1000, least_filtered=1)
        put(database, f"compacted/{path.name}", built.body)
        infos[path.stem] = built.info
    commit(database, release, manifest._replace(ssts=tuple(sst._replace(info=infos[sst.id]) for sst in manifest.ssts)),
           file_id + 1)
    assert peer.rows_of(path=database.path, merging=True) == rows == read(database)
    peer.open(path=database.path, merging=True, settings=compacting(release))
    assert peer.rows() == rows
    for i in range(300):
        peer.put(**{f"more{i:03d}": "1"})
        peer.flush()
        if latest(database)[1].compacted:
            break
    assert latest(database)[1].compacted
    after = peer.rows()
    assert [row[:3] for row in after if not row[0].startswith("more")] == [row[:3] for row in rows]
    assert read(database) == after


def ours(database: Database, release: str, built: list[Built], wal: list[bytes], **fields) -> Manifest:
    """A database of ours: SSTs, which `fields` may use by their ids, and a WAL."""
    names = [ulid_of((NOW_MS - 100 + i << 80) + i) for i in range(len(built))]
    for name, one in zip(names, built):
        put(database, f"compacted/{name}.sst", one.body)
    for number, body in enumerate(wal, 1):
        put(database, Namespace("", "wal").key(number), body)
    manifest = Manifest(initialized=True, writer_epoch=1, wal_id_last_seen=len(wal), last_l0_clock_tick=NOW_MS,
                        ssts=tuple(Sst(name, one.info, 2) for name, one in zip(names, built)))
    made = {name: one(names) if callable(one) else one for name, one in fields.items()}
    manifest = manifest._replace(**made)
    commit(database, release, manifest, 1)
    return manifest


def fence_of(release: str) -> bytes:
    """A fence as the release reads it. 0.13.1 refuses an empty one that it has to replay: "empty SSTable"."""
    return fence_with_body() if release == "0.13.1" else FENCE


def test_0_13_1_cannot_replay_an_empty_fence(release, peer, database):
    """docs/operating/reading-slatedb.md: where a later release has opened a database, and not flushed since."""
    ours(database, release, [], [FENCE, wal_of([Row(b"k", 1, VALUE, b"v", NOW_MS)]).body])
    assert [row[0] for row in read(database)] == ["k"]
    if release == "0.13.1":
        with pytest.raises(PeerError, match="empty SSTable"):
            peer.rows_of(path=database.path)
    else:
        assert peer.rows_of(path=database.path) == read(database)


def test_it_reads_a_whole_database_of_ours_and_goes_on(release, peer, database):
    """A run of two SSTs, L0, a view with a range, and a WAL that it replays: written by nobody but us."""
    run = [[Row(b"r%04d" % i, 1, VALUE, b"run", NOW_MS) for i in part] for part in (range(2000), range(2000, 2500))]
    newer = [Row(b"e", 3, VALUE, b"v", NOW_MS, NOW_MS + HOUR_MS), Row(b"m", 4, MERGE, b"2", NOW_MS),
             Row(b"m", 2, VALUE, b"1", NOW_MS), Row(b"r0001", 3, TOMBSTONE, b"", NOW_MS),
             Row(b"z", 3, VALUE, b"hidden", NOW_MS)]
    wal = [fence_of(release), wal_of([Row(b"m", 5, MERGE, b"3", NOW_MS), Row(b"r0002", 5, TOMBSTONE, b"", NOW_MS)]).body,
           wal_of([Row(b"w%04d" % i, 6, VALUE, b"wal", NOW_MS) for i in range(500)]).body]
    hidden = range_of(Span(b"", b"z"))
    ours(database, release, [sst_of(run[0]), sst_of(run[1]), sst_of(newer)], wal, last_l0_seq=4,
         l0=lambda names: (View(names[2], names[2], hidden),),
         compacted=lambda names: (Run(0, (View(names[0], names[0]), View(names[1], names[1]))),))
    expected = read(database)
    assert len(expected) == 2 + 2498 + 500 and ["m", "123", 5, NOW_MS, None] in expected
    assert peer.rows_of(path=database.path, merging=True) == expected
    peer.open(path=database.path, merging=True)
    assert peer.rows() == expected
    peer.put(last="1")
    peer.flush()
    (row,) = [row for row in peer.rows() if row[0] == "last"]
    assert row[2] == 7
    peer.close()
    assert read(database) == peer.rows_of(path=database.path, merging=True) and len(read(database)) == len(expected) + 1


def test_it_reads_format_1_of_ours(release, peer, database):
    """None of these releases writes it; all read it. So what we read as format 1 is what they do."""
    rows = [Row(b"k%02d" % i, 9 - i % 3, TOMBSTONE if i % 7 == 3 else VALUE, b"" if i % 7 == 3 else b"v%d" % i, NOW_MS,
                None if i % 2 else NOW_MS + HOUR_MS) for i in range(40)]
    built = sst_v1([rows[:25], rows[25:]])
    ours(database, release, [built], [fence_of(release)], last_l0_seq=9, replay_after_wal_id=1,
         l0=lambda names: (View(names[0], names[0]),), ssts=lambda names: (Sst(names[0], built.info, 1),))
    expected = read(database)
    assert len(expected) == 34 and peer.rows_of(path=database.path) == expected


def test_where_they_show_expired_rows_and_we_do_not(release, peer, database):
    """docs/operating/reading-slatedb.md: an expired value is read by released clients until it is compacted."""
    rows = [Row(b"a", 1, VALUE, b"old", NOW_MS), Row(b"e", 2, VALUE, b"expired", NOW_MS - 10, NOW_MS - 5)]
    ours(database, release, [sst_of(rows)], [fence_of(release)], last_l0_seq=2, replay_after_wal_id=1,
         l0=lambda names: (View(names[0], names[0]),))
    assert [row[0] for row in read(database)] == ["a"]
    assert [row[0] for row in peer.rows_of(path=database.path)] == ["a", "e"]
