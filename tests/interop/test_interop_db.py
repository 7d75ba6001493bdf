"""Our database and released clients take a database from each other: each reads and goes on from what the other has written.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from highwater.admin import gc_data
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.db.compression import NAMES
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import system_world
from tests.interop.test_interop import WRITES, Database
from tests.interop.test_interop import database as database
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.support.slatedb.client import Client, PeerError, compacting
from tests.support.slatedb.releases import NEWEST

pytestmark = pytest.mark.interop
HOUR_MS = 3_600_000


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
