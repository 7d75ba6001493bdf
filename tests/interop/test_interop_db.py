"""Our database and released clients take a database from each other: each reads and goes on from what the other has written.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.admin import gc_data
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.sequences import Entry, decode
from highwater.impl.db.compression import NAMES
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built
from highwater.impl.db.rows import KINDS, MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.wal import rows_of
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import system_world
from tests.impl.db.test_db_example import said_by
from tests.interop.test_interop import WRITES, Database
from tests.interop.test_interop import database as database
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.support.database import Stopped, world_of
from tests.support.slatedb.client import Client, PeerError, compacting
from tests.support.slatedb.releases import NEWEST

pytestmark = pytest.mark.interop
HOUR_MS = 3_600_000
NAMES_OF = {VALUE: "put", TOMBSTONE: "delete", MERGE: "merge"}


def joined(key: bytes, value: bytes | None, operand: bytes) -> bytes:
    return (value or b"") + operand


def ours(database: Database, release: str, work: Callable[[Db], Awaitable[Any]], codec: int = 0) -> Any:
    """Open the database here, work, and close it."""
    async def go() -> Any:
        options = Options(joined, poll_ms=0, manifest_version=WRITES[release], built=Built(codec, least_filtered=10))
        db = await Db.open(system_world(LocalStore(database.path_on_disk)), "", options)
        try:
            return await work(db)
        finally:
            await db.close()

    return asyncio.run(go())


async def rows(db: Db) -> list[list]:
    """All rows, as peer.py tells them."""
    keys = [key async for key, _ in db.scan()]
    found = [await db.shown(key) for key in keys]
    return [[one.key.decode("latin-1"), one.merged(joined).decode("latin-1"), one.seq, one.create_ms, one.expire_ms]
            for one in found if one]


async def written(db: Db, name: str) -> list[list]:
    """Write rows of each kind: a part is in L0, a part in the WAL."""
    for i in range(30):
        await db.put(b"%s%03d" % (name.encode(), i), b"value %d " % i * (i % 5))
    await db.write([delete(b"%s004" % name.encode()), merge(b"m", b"1"), put(b"ttl", b"v", HOUR_MS), put(b"\xff\x00", b"\x00")])
    await db.flush()
    await db.merge(b"m", name.encode())
    await db.put(b"both", name.encode())
    await db.write([put(b"last", name.encode()), delete(b"%s005" % name.encode())])
    return await rows(db)


def theirs(peer: Client, database: Database, release: str, name: str) -> list[list]:
    peer.open(path=database.path, merging=True, settings={"min_filter_keys": 10} | compacting(release))
    found = peer.rows()
    peer.write(batch=[["put", f"{name}{i:03d}", f"{i}"] for i in range(20)])
    peer.write(batch=[["merge", "m", name], ["delete", f"{name}007"]])
    peer.flush()
    peer.write(batch=[["put", "both", name], ["merge", "m", "."]])
    peer.flush(kind="WAL")
    return found


@pytest.mark.parametrize("begins", ["ours", "theirs"])
def test_they_take_the_database_from_each_other(release, peer, database, begins):
    if begins == "theirs":
        theirs(peer, database, release, "t0-")
        peer.close()
    for number in range(3):
        before = ours(database, release, lambda db, number=number: written(db, f"o{number}-"))
        assert theirs(peer, database, release, f"t{number}-") == before
        told = peer.rows()
        if number == 1:
            peer.close()  # else it is fenced while it is open
        assert ours(database, release, rows) == told
        if number != 1:
            with pytest.raises(PeerError, match="(?i)fenced"):
                peer.put(late="1")
                peer.flush(kind="WAL")
            try:
                peer.close()
            except PeerError:
                pass


def test_our_collector_drops_the_checkpoint_of_a_writer_that_a_release_has_fenced(release, peer, database):
    """The release keeps it as any other one. It goes with the manifest that only it has kept, and the release goes on."""
    def owners() -> list[int | None]:
        return [one.writer_epoch for one in ManifestCodec().decode(max(database.files("manifest").items())[1]).checkpoints]

    ours(database, release, lambda db: written(db, "o"))
    kept = max(database.files("manifest"))
    assert owners() == [1]
    theirs(peer, database, release, "t")
    assert owners() == [1] and kept in database.files("manifest")
    before = peer.rows()
    asyncio.run(gc_data.collected(database.world, database.name, 0))
    assert owners() == [] and kept not in database.files("manifest")
    peer.put(more="1")
    peer.flush()
    assert [row for row in peer.rows() if row[0] != "more"] == before


@pytest.mark.parametrize("codec", NAMES)
def test_each_codec(codec, database, release, peer):
    if release not in (NEWEST, "0.15.0"):
        pytest.skip("two releases are enough for what does not change")
    before = ours(database, release, lambda db: written(db, "o"), NAMES.index(codec))
    assert theirs(peer, database, release, "t") == before


def test_fifty_thousand_rows(release, peer, database):
    async def work(db: Db) -> None:
        for start in range(0, 50_000, 5000):
            await db.write([put(b"key%06d" % i, b"value of %d" % i) for i in range(start, start + 5000)])
            if start % 20_000 == 0:
                await db.flush()

    began_s = time.monotonic()
    ours(database, release, work)
    peer.open(path=database.path)
    told = peer.rows()
    assert [(key, value) for key, value, *_ in told] == [(f"key{i:06d}", f"value of {i}") for i in range(50_000)]
    peer.write(batch=[["put", f"key{i:06d}", f"again {i}"] for i in range(0, 50_000, 7)])
    peer.flush()
    told = peer.rows()
    peer.close()
    assert ours(database, release, rows) == told
    print(f"{release}: {time.monotonic() - began_s:.1f} s")


def test_they_find_the_time_of_a_number(release, peer, database):
    """The sequence tracker: ours is read by them, and goes on in theirs, and theirs in ours."""
    hour_ago_s = int(time.time()) - 3600
    clock = Stopped(1000 * hour_ago_s)

    async def work(minutes: tuple[int, ...]) -> tuple[Entry, ...]:
        options = Options(joined, poll_ms=0, manifest_version=WRITES[release])
        db = await Db.open(world_of(LocalStore(database.path_on_disk), clock), "", options)
        for minute in minutes:
            await db.put(b"a", b"1")
            clock.at_ms += 60_000 * minute
        await db.flush()
        await db.close()
        return decode(db.manifest.sequence_tracker or b"")

    entries = asyncio.run(work((1, 1, 2, 5, 1, 40, 1, 1)))
    assert [one.at_s - hour_ago_s for one in entries] == [0, 60, 120, 240, 540, 600, 3000, 3060]
    for one in entries:
        assert peer.second_of(path=database.path, seq=one.seq) == one.at_s
    assert peer.second_of(path=database.path, seq=entries[-1].seq + 9) == entries[-1].at_s
    peer.open(path=database.path)
    peer.put(b="2")
    peer.flush()
    peer.close()
    clock.at_ms = 1000 * (hour_ago_s + 3600 + 900)
    after = asyncio.run(work((1,)))
    assert after[:len(entries)] == entries and len(after) == len(entries) + 2  # theirs and ours
    assert peer.second_of(path=database.path, seq=after[-1].seq) == after[-1].at_s


def test_the_example_of_the_readme_opens_a_database_of_theirs(release, peer, database):
    peer.open(path=database.path)
    peer.write(batch=[["put", "user:7", "Alan"], ["put", "user:9", "Edsger"], ["put", "visits", "10"]])
    peer.close()
    assert said_by(Path(database.path_on_disk)) == ["user:42 is Ada", "user:43 is Grace", "user:9 is Edsger",
                                                    "visits: 12 and now 15"]
    peer.open(path=database.path, merging=True)
    assert [row[:2] for row in peer.rows()] == [["user:42", "Ada"], ["user:43", "Grace"], ["user:9", "Edsger"],
                                                ["visits", "1023"]]  # their operator joins


FOLDED = (  # the changes of one key in a batch
    [merge(b"k", b"1"), merge(b"k", b"2")], [put(b"k", b"v"), merge(b"k", b"1"), merge(b"k", b"2")],
    [merge(b"k", b"1"), put(b"k", b"v")], [delete(b"k"), merge(b"k", b"1")], [merge(b"k", b"1"), delete(b"k")],
    [merge(b"k", b"1"), put(b"k", b"v"), merge(b"k", b"2")], [put(b"k", b"v", HOUR_MS), merge(b"k", b"1", HOUR_MS)],
    [put(b"k", b"1"), put(b"k", b"2")])


@pytest.mark.parametrize("ops", FOLDED, ids=lambda ops: "-".join(KINDS[op.kind] for op in ops))
def test_a_batch_that_changes_a_key_twice_has_the_same_row(ops, release, peer, database):
    """The row in the WAL, not only what is shown."""
    peer.open(path=database.path, merging=True)
    peer.write(batch=[["put", "k", "old"]])
    peer.write(batch=[[NAMES_OF[op.kind], "k", op.value.decode(), op.ttl_ms] for op in ops])
    peer.flush(kind="WAL")
    peer.close()
    ours(database, release, lambda db: db.write(ops))
    theirs, mine = [row for row in in_wal(database) if row.seq > 1]
    assert theirs._replace(seq=0, create_ms=0, expire_ms=0) == mine._replace(seq=0, create_ms=0, expire_ms=0)
    for row in (theirs, mine):
        assert (None if row.expire_ms is None else row.expire_ms - (row.create_ms or 0)) == ops[0].ttl_ms


def test_a_batch_with_merges_that_end_at_other_times_is_refused(release, peer, database):
    """Release 0.13.1 writes two rows with one number, and shows one of them."""
    peer.open(path=database.path, merging=True)
    batch = [["merge", "k", "1", HOUR_MS], ["merge", "k", "2", 2 * HOUR_MS]]
    if release == "0.13.1":
        peer.write(batch=batch)
        assert [row[1] for row in peer.rows()] == ["1"]
    else:
        with pytest.raises(PeerError, match="only one merge TTL per-key"):
            peer.write(batch=batch)
    peer.close()
    with pytest.raises(ValueError, match="with the TTLs"):
        ours(database, release, lambda db: db.write([merge(b"k", b"1", HOUR_MS), merge(b"k", b"2", 2 * HOUR_MS)]))


def in_wal(database: Database) -> list[Row]:
    """All rows of the WAL, in its order."""
    objects = sorted(Path(database.path_on_disk, "wal").glob("*.sst"))
    return [row for path in objects for row in rows_of(path.name, path.read_bytes())]
