"""impl/stores/databases.py: what is particular to a store of all local databases."""

import asyncio
import fcntl
import os
import threading

import pytest

from highwater.impl.errors import AlreadyExists, Unavailable
from highwater.impl.stores.databases import LocalDatabases
from highwater.impl.stores.local import LocalStore, flocked

run = asyncio.run
KEY, INNER = "some/db/wal/1.sst", "wal/1.sst"


def test_a_key_names_a_database_and_an_object_in_it(tmp_path):
    async def case():
        all_of, one = LocalDatabases(str(tmp_path)), LocalStore(tmp_path / "some/db")
        version = await all_of.create(KEY, b"1")
        assert (await one.get(INNER))[:2] == (await all_of.get(KEY))[:2] == (b"1", version)
        with pytest.raises(AlreadyExists):
            await all_of.create(KEY, b"2")
        version = await all_of.update(KEY, b"2", version)
        assert await all_of.get_if_changed(KEY, version) is None and (await all_of.head(KEY)).size_bytes == 1
        await all_of.put(KEY, b"333")
        assert (await all_of.get_range(KEY, 1, 9)).body == b"33"
        await all_of.create("other/wal/1.sst", b"")
        assert [entry.key for entry in (await all_of.list_page("some/db/wal/")).entries] == [KEY]
        await all_of.delete(KEY)
        assert (await one.list_page("")).entries == ()

    run(case())
    assert sorted(os.listdir(tmp_path)) == ["other", "some"] and os.listdir(tmp_path / "some") == ["db"]


def test_clients_of_one_database_and_of_all_exclude_each_other(tmp_path):
    """A mutation through this store waits for the lock that a client of the folder holds, whichever key it is for."""
    one, done = LocalStore(tmp_path / "db"), threading.Event()
    run(one.create(INNER, b"1"))
    (lock,) = (tmp_path / "db/.highwater").glob("*.lock")

    def create():
        with pytest.raises(AlreadyExists):
            run(LocalDatabases(str(tmp_path)).create(f"db/{INNER}", b"2"))
        done.set()

    with flocked(str(lock), fcntl.LOCK_EX):
        waiting = threading.Thread(target=create)
        waiting.start()
        assert not done.wait(0.2)
    waiting.join()
    assert done.is_set()


def test_reads_leave_nothing(tmp_path):
    async def case():
        store = LocalDatabases(str(tmp_path))
        assert (await store.list_page("db/wal/")).entries == () and store.strays("db/wal") == []

    run(case())
    assert os.listdir(tmp_path) == []


def test_keys_outside_of_the_folders_of_a_database(tmp_path):
    for key in ("db/.deleting", "k", "wal", "db/other/1"):
        with pytest.raises(ValueError, match="bad key"):
            run(LocalDatabases(str(tmp_path)).create(key, b""))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="file"):
        run(LocalDatabases(str(tmp_path)).create("file/wal/1.sst", b""))
    assert os.listdir(tmp_path) == ["file"]
