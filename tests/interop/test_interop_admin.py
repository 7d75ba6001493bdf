"""`highwater admin checkpoint` and released clients on the same database: each reads, refreshes, deletes and spares what the
other has taken. And what released clients do with checkpoints that ours refuse: docs/operating/findings.md."""

import json
import os
import time

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.gate.exits import SAFETY
from tests.interop.test_interop import FIRST, HAS_CHECKPOINTS, Database, checked, filled
from tests.interop.test_interop import database as database
from tests.interop.test_interop import newest as newest
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.support.slatedb.client import Client, PeerError, client, compacting
from tests.support.slatedb.releases import NEWEST

pytestmark = pytest.mark.interop


def admin(*words: str):
    return CliRunner().invoke(app, ["admin", *words])


def asked(verb: str, database: Database, *words: str):
    result = admin("checkpoint", verb, database.path_on_disk, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def written_on(peer: Client, database: Database) -> None:
    peer.open(path=database.path)
    peer.put(later="1")
    peer.flush()
    peer.close()


def test_each_release_reads_what_ours_keeps(release, peer, database):
    """In the version of manifests that the release writes."""
    written = filled(peer, database)
    ours = asked("create", database, "-n", "ours")
    written_on(peer, database)
    assert peer.read(path=database.path, checkpoint=ours["id"]) == written
    assert peer.read(path=database.path)["later"] == "1" and checked(database) == set()
    if release in HAS_CHECKPOINTS:
        row, = peer.checkpoints(path=database.path, name="ours")
        assert (row["id"], row["manifest_id"]) == (ours["id"], ours["manifest_id"])


def test_theirs_refreshes_and_collects_around_ours(newest, database):
    written = filled(newest, database)
    ours = asked("create", database, "-l", "1h")
    written_on(newest, database)
    newest.refresh(path=database.path, id=ours["id"])
    newest.collect(path=database.path)
    assert asked("list", database)[0]["expire_time"] is None
    assert newest.read(path=database.path, checkpoint=ours["id"]) == written and checked(database) == set()
    newest.delete_checkpoint(path=database.path, id=ours["id"])
    assert admin("gc", database.path_on_disk, "--min-age-s", "0").exit_code == 0
    assert asked("list", database) == [] and ours["manifest_id"] not in database.files("manifest")
    assert checked(database) == set()


def test_ours_refreshes_copies_and_deletes_theirs(newest, database):
    written = filled(newest, database)
    theirs = newest.checkpoint(path=database.path, lifetime_ms=3_600_000, name="theirs")
    copy = asked("create", database, "-s", theirs["id"])
    assert copy["manifest_id"] == theirs["manifest_id"]
    asked("refresh", database, "-i", theirs["id"])
    assert admin("checkpoint", "delete", database.path_on_disk, "-i", theirs["id"]).exit_code == 0
    written_on(newest, database)
    assert admin("gc", database.path_on_disk, "--min-age-s", "0").exit_code == 0
    assert [row["id"] for row in newest.checkpoints(path=database.path)] == [copy["id"]]
    assert newest.read(path=database.path, checkpoint=copy["id"]) == written and checked(database) == set()


# ------------------------------------------------------------------------------------------- findings in released clients

def test_finding_an_ended_source_and_an_ended_checkpoint_are_accepted(newest, database):
    """SlateDB's RFC makes both an error. Ours refuses them."""
    filled(newest, database)
    ended = newest.checkpoint(path=database.path, lifetime_ms=1000)["id"]
    time.sleep(2.5)
    for verb, option in (("create", "-s"), ("refresh", "-i")):
        assert admin("checkpoint", verb, database.path_on_disk, option, ended).exit_code == SAFETY
    newest.checkpoint(path=database.path, source=ended)
    newest.refresh(path=database.path, id=ended)


def test_finding_an_operators_checkpoint_misses_durable_rows(newest, database):
    """Those of the WAL: the manifest's wal_id_last_seen is of the last flush, and the checkpoint has nothing behind it."""
    newest.open(path=database.path)
    newest.put(**FIRST)
    newest.flush()
    newest.put(late="wal")
    newest.flush(kind="WAL")
    with client(NEWEST) as other:
        theirs, ours = other.checkpoint(path=database.path), asked("create", database)
        assert other.read(path=database.path) == FIRST | {"late": "wal"}
        for taken in (theirs, ours):
            assert other.read(path=database.path, checkpoint=taken["id"]) == FIRST


def test_finding_a_reader_replaces_its_checkpoint_under_an_open_scan(newest, database):
    """The SSTs of the scan are collected: it ends with an error. The lease was of a minute, and nobody's clock was wrong."""
    newest.open(path=database.path)
    for first in range(0, 360, 60):
        newest.put(**{f"k{i:03}": "x" * 20_000 for i in range(first, first + 60)})
        newest.flush()
    newest.close()
    with client(NEWEST) as reader:
        assert reader.begin_scan(path=database.path) == "k000"
        newest.open(path=database.path, settings=compacting(NEWEST) | {"compactor_options.checkpoint_lifetime": "1s"})
        for i in range(12):
            newest.put(**{f"m{i}": "x"})
            newest.flush()
            time.sleep(0.2)
        newest.close()
        time.sleep(2.5)
        before = len(os.listdir(f"{database.path_on_disk}/compacted"))
        newest.collect(path=database.path)
        assert len(os.listdir(f"{database.path_on_disk}/compacted")) < before
        with pytest.raises(PeerError, match="not found"):
            reader.end_scan()
