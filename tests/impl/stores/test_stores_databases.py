"""impl/stores/databases.py: what is particular to a store of all local databases."""

import asyncio
import fcntl
import os
import shutil
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import AlreadyExists, Unavailable
from highwater.impl.stores.databases import LocalDatabases, base_of
from highwater.impl.stores.local import LocalStore, flocked
from highwater.impl.stores.system import locate, open_database
from tests.support.slatedb.folders import asked, put, rewritten, rows, written

run = asyncio.run
KEY, INNER = "some/db/wal/1.sst", "wal/1.sst"
UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"


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


def test_a_listing_of_a_database_waits_for_its_lock(tmp_path):
    one, found = LocalStore(tmp_path / "db"), list[str]()
    run(one.create(INNER, b"1"))

    def listed():
        found.extend(entry.key for entry in run(LocalDatabases(str(tmp_path)).list_page("db/wal/")).entries)

    with flocked(str(tmp_path / "db/.highwater/gate"), fcntl.LOCK_SH):
        waiting = threading.Thread(target=listed)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    waiting.join()
    assert found == [f"db/{INNER}"]
    assert run(LocalDatabases(str(tmp_path)).list_page("db/wal/", found[0])).entries == ()


def test_base_is_the_lowest_folder_below_which_most_parents_are(tmp_path):
    """A client whose store has a prefix names parents from there."""
    clone = written(tmp_path / "a/b/clone", [put("a")])
    for parents, there, base in (
            (["db"], ["a/db"], "a"), (["db"], ["a/db", "a/b/db"], "a/b"), (["x/db", "db"], ["a/b/db", "a/x/db", "a/db"], "a"),
            (["b/clone/in"], ["a/b/clone/in"], "a"), (["in"], ["a/b/clone/in"], "a/b/clone"), ([""], ["a"], "a"),
            ([str(tmp_path / "z").lstrip("/")], ["z"], "/"), (["none"], [], ""), (["../z", "/z", "a//z"], ["z"], ""),
            ([], ["z"], "")):
        for path in there:
            (tmp_path / path / "manifest").mkdir(parents=True)
        rewritten(clone, external_dbs=tuple(ExternalDb(path, UUID) for path in parents))
        assert base_of(str(clone)) == (str(tmp_path / base) if base not in ("", "/") else base), (parents, there)
        for path in there:
            (tmp_path / path / "manifest").rmdir()


def test_copied_tree_reads_its_own_parents_or_the_originals(tmp_path):
    """A union of two parents, which names them from the root of the file system, reads both from one place."""
    store = tmp_path / "store"
    parents = [written(store / key, [put(key)], first=first) for first, key in ((1, "a"), (2, "b"))]
    asked("union", *parents, store / "union")
    flat = Path(shutil.copytree(store, tmp_path / "flat"))  # its manifests name the originals
    whole = Path(shutil.copytree(store, tmp_path / "copy" / store.relative_to("/")))  # they name the copies, too
    part = Path(shutil.copytree(store, tmp_path / "part" / store.relative_to("/")))
    shutil.rmtree(part / "b")  # only the originals are complete
    copies = [flat / "union", whole / "union", part / "union"]
    assert [rows(one) for one in copies] == [{"a": "1", "b": "1"}] * 3
    for sst in (parents[0] / "compacted").iterdir():
        sst.unlink()
    assert rows(whole / "union") == {"a": "1", "b": "1"}
    for one in (flat, part):
        result = CliRunner().invoke(app, ["db", "scan", str(one / "union")])
        assert result.exit_code == 2 and str(parents[0]).lstrip("/") in result.output, result.output


def test_a_database_behind_a_link_is_found_where_it_is(tmp_path):
    clone = written(tmp_path / "store/clone", [put("a")])
    written(tmp_path / "store/db", [put("a")])
    rewritten(clone, external_dbs=(ExternalDb("db", UUID),))
    (tmp_path / "link").symlink_to(clone)
    assert open_database(str(tmp_path / "link"))[1] == open_database(str(clone))[1] == "clone"


def test_sources_that_name_parents_from_several_places(tmp_path):
    one, two = (written(tmp_path / name / "clone", [put("a")]) for name in ("one", "two"))
    for clone in (one, two):
        written(clone.parent / "db", [put("a")])
        rewritten(clone, external_dbs=(ExternalDb("db", UUID),))
    assert locate([str(one)], [str(one.parent / "new")]).roots == ("clone", "new")
    for urls, new, says in (
            ([one, two], tmp_path / "new", "one database cannot name both"), ([one], two, "cannot name both"),
            ([one], tmp_path / "new", "is not below"), ([one.parent / "db", one], tmp_path / "new", "is not below")):
        with pytest.raises(ValueError, match=says):
            locate([*map(str, urls)], [str(new)])
    with pytest.raises(ValueError, match="its bucket"):
        locate(["s3://bucket/db"], ["s3://bucket/new"], "/data")
    with pytest.raises(ValueError, match="no bucket"):
        locate([str(one)], [str(one.parent / "new")], "s3://bucket")
    with pytest.raises(ValueError, match="no folder"):
        locate([str(one)], [str(one.parent / "new")], str(tmp_path / "none"))


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
