"""A released client reads our projections and unions, and compacts them without losing a key; its own unions lose some."""

import asyncio

import pytest
from ulid import ULID

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Checkpoint, ExternalDb
from highwater.impl.manifests import union as union_module
from highwater.impl.manifests.merge import merge_views
from highwater.impl.manifests.project import project
from highwater.impl.manifests.spans import Span
from highwater.impl.manifests.union import Source, union
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from tests.interop.test_interop import Database, checked
from tests.interop.test_interop import database as database
from tests.interop.test_interop import newest as newest
from tests.support.slatedb.client import Client, compacting
from tests.support.slatedb.releases import NEWEST

pytestmark = pytest.mark.interop
KEYS = "abcdefgh"
ALL = dict.fromkeys(KEYS, "1") | {"a": "2", "h": "2"}
SPANS = {"left": Span(b"", b"d"), "right": Span(b"d")}


def new_id() -> str:
    return str(ULID())


def latest(database: Database) -> tuple[int, Manifest]:
    file_id, body = max(database.files("manifest").items())
    return file_id, ManifestCodec().decode(body)


def write(database: Database, manifest: Manifest, file_id: int) -> None:
    storage = SequencedStorage(database.world, database.namespace("manifest"))
    asyncio.run(storage.create(file_id, ManifestCodec().encode(manifest)))


def pin(database: Database, one: ExternalDb) -> int:
    """Make the final checkpoint of an entry from its source, in the database that owns the SSTs; return its manifest's id."""
    file_id, manifest = latest(database)
    (named,) = {other.manifest_id for other in manifest.checkpoints if other.id == one.source_checkpoint_id}
    assert one.final_checkpoint_id
    write(database, manifest.with_checkpoint(Checkpoint(one.final_checkpoint_id, named)), file_id + 1)
    return named


def filled_twice(peer: Client, database: Database) -> None:
    peer.open(path=database.path, settings={"wal_enabled": False})
    for pairs in (dict.fromkeys(KEYS, "1"), {"a": "2", "h": "2"}):
        peer.put(**pairs)
        peer.flush()
    peer.close()


def compacted(peer: Client, database: Database) -> None:
    """Let the client's compactor merge L0, which a few more SSTs make long enough."""
    peer.open(path=database.path, settings=compacting(NEWEST))
    for number in range(500):
        peer.put(x=str(number))
        peer.flush(kind="MEM_TABLE" if number < 3 else "WAL")
        if latest(database)[1].compacted:
            break
    peer.close()
    assert latest(database)[1].compacted


def source_of(peer: Client, database: Database) -> Source:
    taken = peer.checkpoint(path=database.path)
    (manifest,) = [ManifestCodec().decode(body) for file_id, body in database.files("manifest").items()
                   if file_id == taken["manifest_id"]]
    return Source(database.path, taken["id"], taken["manifest_id"], manifest)


def united(peer: Client, database: Database, merged: bool) -> Database:
    """Split a database into two clones and unite them. All manifests are ours, written by hand."""
    filled_twice(peer, database)
    parent = source_of(peer, database)
    named, parts = {(parent.path, parent.checkpoint_id): parent.manifest_id}, []
    for name, span in SPANS.items():
        clone = Database(database.root, name)
        made = union([parent._replace(manifest=project(parent.manifest, span))], new_id)
        named |= {(one.path, one.final_checkpoint_id): pin(database, one) for one in made.external_dbs}
        write(clone, made._replace(initialized=True), 1)
        assert sorted(peer.read(path=clone.path)) == [key for key in KEYS if (key < "d") == (name == "left")]
        parts.append(source_of(peer, clone))
    whole = Database(database.root, "whole")
    manifest = union(parts, new_id, named)
    (entry,) = manifest.external_dbs  # both halves have one manifest of one owner
    pin(database, entry)
    manifest = merge_views(manifest, new_id) if merged else manifest
    assert len(manifest.l0) == (2 if merged else 4)
    write(whole, manifest._replace(initialized=True), 1)
    assert peer.read(path=whole.path) == ALL
    return whole


@pytest.mark.parametrize("merged", [False, True])
def test_a_union_of_ours_is_read_and_compacted(newest, database, merged):
    whole = united(newest, database, merged)
    assert checked(whole) == set()
    compacted(newest, whole)
    after = newest.read(path=whole.path)
    assert {key: after[key] for key in KEYS} == ALL


def test_with_copied_view_ids_the_same_union_loses_keys(newest, database, monkeypatch):
    """The union of the release itself does the same: docs/operating/findings.md."""
    monkeypatch.setattr(union_module, "fresh_view_ids", lambda new_id, taken: lambda view: view.id)
    whole = united(newest, database, merged=False)
    assert checked(whole) == {"view twice"}
    compacted(newest, whole)
    assert sorted(newest.read(path=whole.path)) == [*"defgh", "x"]
