"""A released client refreshes a checkpoint that has expired. Our collector, beside it, must not have taken its manifest."""

import asyncio
import time
from collections.abc import Callable

import pytest

from highwater.admin.gc import collected, planned
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.stores.system import open_database, system_world
from highwater.impl.world import World
from tests.interop.test_interop import Database, checked, filled
from tests.interop.test_interop import database as database
from tests.interop.test_interop import newest as newest
from tests.support.slatedb.client import Client, PeerError

pytestmark = pytest.mark.interop
LIFETIME_MS = 1_000  # the shortest that the file format holds


def gone(peer: Client, database: Database) -> dict:
    """Take a checkpoint of the first manifests, write on, and wait until it has expired by any clock."""
    filled(peer, database)
    taken = peer.checkpoint(path=database.path, lifetime_ms=LIFETIME_MS)
    peer.open(path=database.path)
    peer.put(later="1")
    peer.flush()
    peer.close()
    entries = ManifestCodec().decode(max(database.files("manifest").items())[1]).checkpoints
    while any(entry.active(int(time.time() * 1000)) for entry in entries):
        time.sleep(0.1)
    return taken


def ask(database: Database, ask: Callable, *more: int):
    store, root = open_database(database.path_on_disk, read_only=False)
    world: World = system_world(store)
    return asyncio.run(ask(world, root, *more))


def test_a_listed_checkpoint_is_spared_until_its_entry_is_gone(newest, database):
    """docs/operating/expired-checkpoints.md: this collector has not dropped the entry, so its owner may still refresh it."""
    taken = gone(newest, database)
    before = newest.read(path=database.path, checkpoint=taken["id"])
    asyncio.run(database.store(Phase.WRITE_V2).collect(-1))
    newest.refresh(path=database.path, id=taken["id"])  # accepted, although it has expired
    assert newest.read(path=database.path, checkpoint=taken["id"]) == before
    assert checked(database) == set()


def test_admin_gc_drops_the_entry_first(newest, database):
    """Then the owner is told that its checkpoint is gone, and nothing that it was promised is missing."""
    taken = gone(newest, database)
    plan = ask(database, planned, 0)
    assert any(taken["id"] in why for _, _, why in plan)
    ask(database, collected, 0)
    assert set(database.files("manifest")) == {max(database.files("manifest"))}
    with pytest.raises(PeerError):
        newest.refresh(path=database.path, id=taken["id"])
    assert newest.read(path=database.path)["later"] == "1" and checked(database) == set()


def test_a_checkpoint_refreshed_in_time_outlives_our_collector(newest, database):
    taken = gone(newest, database)
    before = newest.read(path=database.path, checkpoint=taken["id"])
    newest.refresh(path=database.path, id=taken["id"])
    ask(database, collected, 0)
    assert newest.read(path=database.path, checkpoint=taken["id"]) == before
    assert taken["manifest_id"] in database.files("manifest")
