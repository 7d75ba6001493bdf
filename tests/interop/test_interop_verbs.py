"""`highwater admin clone`, `project`, `union` and `detach` on databases of a released client: it reads every visible row and no
other, goes on from there, compacts, and its collector takes nothing that is still read."""

import pytest

from highwater.gate.exits import SAFETY
from tests.interop.test_interop import WRITES, Database, checked, filled
from tests.interop.test_interop import database as database
from tests.interop.test_interop import newest as newest
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.interop.test_interop_manifests import ALL, KEYS, compacted, filled_twice
from tests.support.slatedb.client import Client, PeerError, client
from tests.support.slatedb.folders import admin, asked, latest, rewritten
from tests.support.slatedb.releases import NEWEST, RELEASES

pytestmark = pytest.mark.interop


def beside(database: Database, name: str) -> Database:
    return Database(database.root, name)


def made(verb: str, *words: object) -> Database:
    """Return what a verb has made of databases; a new one is named last, before the options."""
    asked(verb, *(word.path_on_disk if isinstance(word, Database) else word for word in words))
    return [word for word in words if isinstance(word, Database)][-1]


def with_a_wal(peer: Client, database: Database) -> dict[str, str]:
    """A flush, and durable rows in the WAL that the latest manifest has seen: their writer has stopped."""
    with client(NEWEST) as writer:
        writer.open(path=database.path)
        writer.put(**dict.fromkeys(KEYS, "1"))
        writer.flush()
        for key in "ax":
            writer.put(**{key: "wal"})
            writer.flush(kind="WAL")
    last = max(int(file.name[:20]) for file in (database.root / database.name / "wal").iterdir())
    rewritten(database.root / database.name, wal_id_last_seen=last)
    written = dict.fromkeys(KEYS, "1") | {"a": "wal", "x": "wal"}
    assert peer.read(path=database.path) == written
    return written


def test_a_clone_is_read_and_written_and_outlives_the_parents_data(newest, database):
    written = with_a_wal(newest, database)
    clone = made("clone", database, beside(database, "clone"))
    assert newest.read(path=clone.path) == written and checked(clone) == checked(database) == set()
    compacted(newest, database)
    let_go(database)
    newest.collect(path=database.path)
    newest.open(path=clone.path)
    newest.put(b="mine")
    newest.flush()
    newest.close()
    assert newest.read(path=clone.path) == written | {"b": "mine"} and checked(clone) == set()
    assert newest.read(path=database.path)["b"] == "1"


def let_go(database: Database) -> None:
    """Delete the checkpoints that end: those of a compactor, and the source of a clone."""
    for one in asked("checkpoint", "list", database.path_on_disk):
        if one["expire_time"]:
            assert admin("checkpoint", "delete", database.path_on_disk, "-i", one["id"]).exit_code == 0


def test_a_clone_that_a_client_has_compacted_is_detached(newest, database):
    filled_twice(newest, database)
    clone = made("clone", database, beside(database, "clone"))
    compacted(newest, clone)
    let_go(clone)
    let_go(database)
    result = asked("detach", clone.path_on_disk)
    assert [one["path"] for one in result["detached"]] == [database.path] and result["kept"] == []
    assert asked("checkpoint", "list", database.path_on_disk) == []
    newest.delete_db(path=database.path)
    assert {key: newest.read(path=clone.path)[key] for key in KEYS} == ALL and checked(clone) == set()


def test_a_projection_is_read_and_compacted(newest, database):
    filled_twice(newest, database)
    part = made("project", database, beside(database, "part"), "--start", "b", "--end", "e")
    assert newest.read(path=part.path) == {"b": "1", "c": "1", "d": "1"} and checked(part) == set()
    compacted(newest, part)
    assert newest.read(path=part.path).keys() == {*"bcd", "x"}
    assert newest.read(path=database.path) == ALL


def test_a_union_is_read_and_compacted_and_the_parts_may_go(newest, database):
    filled_twice(newest, database)
    parts = [made("project", database, beside(database, name), *span)
             for name, span in (("left", ("--end", "d")), ("right", ("--start", "d")))]
    whole = made("union", *parts, beside(database, "whole"))
    assert newest.read(path=whole.path) == ALL and checked(whole) == set()
    assert len(latest(database.root / "whole").l0) == 2
    for part in parts:
        let_go(part)
        asked("destroy", part.path_on_disk, "--hard")
    compacted(newest, whole)
    after = newest.read(path=whole.path)
    assert {key: after[key] for key in KEYS} == ALL


def test_rows_in_a_clients_wal_are_flushed_before_a_projection(newest, database):
    written = with_a_wal(newest, database)
    words = "project", database.path_on_disk, beside(database, "part").path_on_disk, "--end", "y"
    result = admin(*words)
    assert result.exit_code == SAFETY and "flush" in result.stderr
    newest.open(path=database.path)
    newest.put(b="2")
    newest.flush()
    newest.close()
    asked(*words)
    assert newest.read(path=beside(database, "part").path) == written | {"b": "2"}


def test_a_stuck_attempt_of_a_client_is_begun_again(newest, database):
    """Its final checkpoint and its source are gone, and the release refuses each retry. Its collector then detaches what our
    restart leaves of the attempt."""
    filled_twice(newest, database)
    clone = beside(database, "clone")
    newest.clone(path=clone.path, sources=[[database.path, None, None]])
    rewritten(clone.root / clone.name, initialized=False)
    for one in newest.checkpoints(path=database.path):
        newest.delete_checkpoint(path=database.path, id=one["id"])
    with pytest.raises(PeerError, match="checkpoint missing"):
        newest.clone(path=clone.path, sources=[[database.path, None, None]])
    assert admin("clone", database.path_on_disk, clone.path_on_disk).exit_code == SAFETY
    made("clone", database, clone, "--restart")
    assert newest.read(path=clone.path) == ALL and len(latest(clone.root / clone.name).external_dbs) == 2
    newest.collect(path=clone.path)
    assert len(latest(clone.root / clone.name).external_dbs) == 1 and checked(clone) == set()


def test_each_release_goes_on_from_a_clone_of_ours(release, peer, database):
    """In the version of manifests that the release writes. Readers before 0.15.0 look for every SST in the clone's own folder,
    also in clones that their release has made."""
    written = filled(peer, database)
    clone = made("clone", database, beside(database, "clone"))
    peer.open(path=clone.path)
    assert peer.all() == written
    peer.put(k00="mine")
    peer.flush()
    peer.close()
    assert {body[1] for body in clone.files("manifest").values()} == {WRITES[release]} and checked(clone) == set()
    if release in RELEASES[2:]:
        assert peer.read(path=clone.path) == written | {"k00": "mine"}
    else:
        with pytest.raises(PeerError, match="not found"):
            peer.read(path=clone.path)
