"""Released SlateDB clients and our code share databases: each reads the other's files and continues from them."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import pytest

from highwater.admin.check import judge
from highwater.impl.codecs.manifest import CannotHold
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import COMPLETED, Checkpoint
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import open_database, system_world
from highwater.impl.world import World
from tests.support.slatedb.client import Client, PeerError, client, compacting
from tests.support.slatedb.releases import NEWEST, RELEASES, NotInstalled
from tests.support.slatedb.theirs import compactions_of, differences, manifest_of, plainly

pytestmark = pytest.mark.interop
WRITES = {"0.13.1": 1, "0.14.1": 1, "0.15.0": 1, "0.17.0": 2}  # which version of manifests
HAS_CHECKPOINTS = RELEASES[1:]
UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"
FIRST = {"k00": "a", "k01": "b", "k10": "c", "k11": "d"}


class Database:
    """A database in the folder `name` below `root`; clients get the whole path."""

    def __init__(self, root: Path, name: str = "db"):
        self.root, self.name = root, name
        self.path = str(root / name).lstrip("/")
        self.path_on_disk = str(root / name)
        self.world: World = system_world(LocalStore(root))

    def namespace(self, folder: str) -> Namespace:
        return Namespace(self.name, folder)

    def files(self, folder: str) -> dict[int, bytes]:
        async def read():
            storage = SequencedStorage(self.world, self.namespace(folder))
            return {file.id: await storage.read(file.id) for file in await storage.list()}

        return asyncio.run(read())

    def store(self, phase: Phase) -> MetadataStore:
        return MetadataStore(self.world, self.namespace("manifest"), ManifestCodec(phase))


@pytest.fixture
def database(tmp_path) -> Database:
    return Database(tmp_path)


@pytest.fixture(params=RELEASES)
def release(request) -> str:
    return request.param


@pytest.fixture
def peer(release) -> Iterator[Client]:
    yield from started(release)


@pytest.fixture
def newest() -> Iterator[Client]:
    yield from started(NEWEST)


def started(release: str) -> Iterator[Client]:
    try:
        with client(release) as one:
            yield one
    except NotInstalled as error:
        pytest.skip(str(error))


def filled(peer: Client, database: Database) -> dict[str, str]:
    """Two flushes to L0, one to the WAL alone."""
    peer.open(path=database.path)
    for prefix in ("k0", "k1"):
        peer.put(**{key: value for key, value in FIRST.items() if key.startswith(prefix)})
        peer.flush()
    peer.put(late="wal")
    peer.flush(kind="WAL")
    peer.close()
    return FIRST | {"late": "wal"}


def compacted(peer: Client, release: str, database: Database) -> dict[str, str]:
    """Flushes until the compactor has made a sorted run of L0, and a few more."""
    written = filled(peer, database)
    peer.open(path=database.path, settings=compacting(release))
    for i in range(200):
        peer.put(**{f"m{i}": "x"})
        peer.flush()
        written[f"m{i}"] = "x"
        latest = max(database.files("compactions").items())[1]
        if i > 6 and any(one.status == COMPLETED for one in compactions.decode(latest).recent_compactions):
            break
    else:
        pytest.fail("nothing is compacted")
    peer.close()
    return written


# ------------------------------------------------------------------------------------------- they write, we read

def test_every_field_of_every_file(release, peer, database):
    """In a database with compactions, checkpoints and a clone: what we read is what its own admin shows."""
    compacted(peer, release, database)
    databases = [database]
    if release in HAS_CHECKPOINTS:
        peer.checkpoint(path=database.path, name="kept", lifetime_ms=3_600_000)
        peer.checkpoint(path=database.path)
        databases.append(Database(database.root, "clone"))
        peer.clone(path=databases[1].path, sources=[[database.path, None, None]])
    seen = 0
    for one in databases:
        for file_id, body in one.files("manifest").items():
            manifest = ManifestCodec().decode(body)
            assert int.from_bytes(body[:2], "big") == WRITES[release] and not manifest.unknown
            assert not differences(plainly(peer.manifest(path=one.path, id=file_id)), manifest_of(file_id, manifest))
            seen += 1
        for file_id, body in one.files("compactions").items():
            found = compactions.decode(body)
            assert found.version == 2 and not found.unknown
            assert not differences(plainly(peer.compactions(path=one.path, id=file_id)), compactions_of(file_id, found))
            seen += 1
    assert seen > 20


def test_what_they_wrote_is_written_again(release, peer, database):
    """Not the same bytes, but the same contents, in either version if it can hold them."""
    compacted(peer, release, database)
    codecs = {1: ManifestCodec(Phase.WRITE_V1), 2: ManifestCodec(Phase.WRITE_V2)}
    for body in database.files("manifest").values():
        manifest = codecs[2].decode(body)
        assert codecs[2].decode(codecs[body[1]].encode(manifest)) == manifest
    for body in database.files("compactions").values():
        assert compactions.decode(compactions.encode(compactions.decode(body))) == compactions.decode(body)


# ------------------------------------------------------------------------------------------- we write, they go on

@pytest.mark.parametrize("phase", [Phase.WRITE_V1, Phase.WRITE_V2], ids=["V1", "V2"])
def test_it_goes_on_from_a_manifest_of_ours(release, peer, database, phase):
    """The latest manifest, written again by us with a checkpoint more as the next id: it opens, has every key, and goes on."""
    written = filled(peer, database)
    before = max(database.files("manifest"))
    checkpoint = Checkpoint(UUID, before, create_time_s=1_795_304_338, name="ours")

    async def take():
        return await database.store(phase).update_once(
            UUID, lambda _, manifest: manifest._replace(checkpoints=(*manifest.checkpoints, checkpoint)))

    assert asyncio.run(take()).id == before + 1
    assert database.files("manifest")[before + 1][1] == phase
    peer.open(path=database.path)
    assert peer.all() == written
    peer.put(more="1")
    peer.flush()
    peer.close()
    latest = max(database.files("manifest").items())
    assert latest[0] > before + 1 and latest[1][1] == WRITES[release]
    assert checkpoint in ManifestCodec().decode(latest[1]).checkpoints
    peer.open(path=database.path)
    assert peer.all() == written | {"more": "1"}


@pytest.mark.parametrize("phase", [Phase.WRITE_V1, Phase.WRITE_V2], ids=["V1", "V2"])
def test_it_goes_on_from_a_compacted_manifest_of_ours(release, peer, database, phase):
    """V1 of a V2 file is refused once there is a last compacted view: the file does not say of which SST it was."""
    written = compacted(peer, release, database)

    async def again():
        return await database.store(phase).update(lambda _, manifest: manifest)

    if phase < WRITES[release]:
        with pytest.raises(CannotHold, match="the last compacted view"):
            asyncio.run(again())
        return
    asyncio.run(again())
    peer.open(path=database.path, settings=compacting(release))
    assert peer.all() == written
    for i in range(10):
        peer.put(**{f"n{i}": "y"})
        peer.flush()
    assert peer.all() == written | {f"n{i}": "y" for i in range(10)}


def test_it_goes_on_from_a_compactions_file_of_ours(release, peer, database):
    written = compacted(peer, release, database)
    store = MetadataStore(database.world, database.namespace("compactions"), compactions, Policies(spare_checkpoints=False))
    before = max(database.files("compactions"))
    assert asyncio.run(store.update(lambda _, found: found)).id == before + 1
    peer.open(path=database.path, settings=compacting(release))
    for i in range(12):
        peer.put(**{f"n{i}": "y"})
        peer.flush()
    assert peer.all() == written | {f"n{i}": "y" for i in range(12)}
    assert max(database.files("compactions")) > before + 1


def test_it_goes_on_after_our_collector(release, peer, database):
    """Manifests and compactions files but the latest are gone, the boundaries are where they should be; it goes on."""
    written = compacted(peer, release, database)
    before = {folder: max(database.files(folder)) for folder in ("manifest", "compactions")}

    async def collect():
        manifests = database.store(Phase.WRITE_V2)
        await manifests.update(lambda _, manifest: manifest._replace(checkpoints=()))  # its compactor takes some for a while
        kept = MetadataStore(database.world, database.namespace("compactions"), compactions, Policies(spare_checkpoints=False))
        return await manifests.collect(-1), await kept.collect(-1)

    deleted = asyncio.run(collect())
    assert all(deleted) and list(database.files("manifest")) == [before["manifest"] + 1]
    assert list(database.files("compactions")) == [before["compactions"]]
    for folder, expected in (("manifest", before["manifest"]), ("compactions", before["compactions"] - 1)):
        boundary = (database.root / database.namespace(folder).boundary_key).read_bytes()
        assert boundary == b"%d" % expected
    peer.open(path=database.path)
    assert peer.all() == written
    peer.put(more="1")
    peer.flush()
    assert peer.all() == written | {"more": "1"}


# ------------------------------------------------------------------------------------------------------- boundaries

def test_we_read_its_boundary_and_advance_it(newest, database):
    written = filled(newest, database)
    newest.collect(path=database.path, min_age_ms=0)
    latest = max(database.files("manifest"))

    async def advance():
        boundary = ObjectStoreBoundaryObject(database.world, database.namespace("manifest"))
        before = await boundary.read()
        await database.store(Phase.WRITE_V2).update(lambda _, manifest: manifest)
        await boundary.advance(latest)
        return before

    assert asyncio.run(advance()) == latest - 1
    newest.open(path=database.path)
    assert newest.all() == written
    newest.put(more="1")
    newest.flush()
    newest.close()
    assert newest.read(path=database.path) == written | {"more": "1"}


def test_its_collector_keeps_what_our_checkpoint_refers_to(newest, database):
    filled(newest, database)
    before = max(database.files("manifest"))

    async def take():
        ours = (Checkpoint(UUID, before - 1),)
        await database.store(Phase.WRITE_V2).update_once(UUID, lambda _, manifest: manifest._replace(checkpoints=ours))

    asyncio.run(take())
    newest.collect(path=database.path, min_age_ms=0)
    assert list(database.files("manifest")) == [before - 1, before + 1]


def test_our_collector_keeps_what_its_checkpoint_refers_to(newest, database):
    filled(newest, database)
    kept = newest.checkpoint(path=database.path, lifetime_ms=3_600_000)["manifest_id"]
    newest.checkpoint(path=database.path, lifetime_ms=3_600_000)
    asyncio.run(database.store(Phase.WRITE_V2).collect(-1))
    assert set(database.files("manifest")) == {kept, kept + 1}
    assert newest.read(path=database.path)


# ----------------------------------------------------------------------------------------------------------- admin

def checked(database: Database) -> set[str]:
    """Kinds of what is wrong, but notes."""
    store, root = open_database(database.path_on_disk)
    return {finding.kind for finding in asyncio.run(judge(system_world(store), root, deep=True)) if finding.level != "note"}


def test_nothing_is_wrong_with_what_they_write(release, peer, database):
    """Compacted, with checkpoints, cloned, collected by us, written to again."""
    compacted(peer, release, database)
    assert checked(database) == set()
    if release in HAS_CHECKPOINTS:
        peer.checkpoint(path=database.path, lifetime_ms=3_600_000)
        clone = Database(database.root, "clone")
        peer.clone(path=clone.path, sources=[[database.path, None, None]])
        peer.open(path=clone.path)
        peer.put(more="1")
        peer.flush()
        peer.close()
        assert checked(clone) == set()
    asyncio.run(database.store(Phase.WRITE_V2).collect(-1))
    assert checked(database) == set()
    peer.open(path=database.path)
    peer.put(more="1")
    peer.flush()
    assert checked(database) == set()


def test_nothing_is_wrong_while_it_is_used(newest, database):
    """Looked at while it writes, compacts and collects."""
    compacted(newest, NEWEST, database)
    newest.open(path=database.path, settings=compacting(NEWEST))
    for i in range(12):
        newest.put(**{f"n{i}": "y"})
        newest.flush()
        if i % 4 == 3:
            newest.collect(path=database.path)
        assert checked(database) == set()


def latest_of(database: Database, folder: str) -> Path:
    return max((database.root / database.name / folder).iterdir())


HARM = {  # damage to each file; tests/admin/test_admin.py damages the contents of manifests
    "gap": lambda d: sorted((d.root / d.name / "manifest").iterdir())[-3].unlink(),
    "unreadable file": lambda d: latest_of(d, "manifest").write_bytes(latest_of(d, "manifest").read_bytes()[:80]),
    "boundary ahead": lambda d: (d.root / d.namespace("manifest").boundary_key).write_bytes(b"99"),
    "invalid boundary": lambda d: (d.root / d.namespace("compactions").boundary_key).write_bytes(b"x"),
    "foreign file": lambda d: (d.root / d.name / "manifest/99.manifest").write_bytes(b""),
    "stale write": lambda d: (d.root / d.namespace("manifest").key(2)).write_bytes(latest_of(d, "manifest").read_bytes()),
    "SST missing": lambda d: [path.unlink() for path in (d.root / d.name / "compacted").iterdir()],
    "no manifest": lambda d: [path.unlink() for path in (d.root / d.name / "manifest").iterdir()],
    "being deleted": lambda d: (d.root / d.name / ".deleting").write_bytes(b""),
    "WAL missing": lambda d: [path.unlink() for path in sorted((d.root / d.name / "wal").iterdir())[-2:-1]],
    "history goes back": lambda d: (d.root / d.namespace("manifest").key(max(d.files("manifest")) + 1)).write_bytes(
        min(d.files("manifest").items())[1]),
}


@pytest.mark.parametrize("kind", HARM)
def test_damage_is_told(newest, database, kind):
    filled(newest, database)
    newest.collect(path=database.path, min_age_ms=0)
    newest.open(path=database.path)
    for value in "12":
        newest.put(more=value)
        newest.flush(kind="WAL")
    for _ in range(2):
        newest.checkpoint(path=database.path)
    assert checked(database) == set()
    HARM[kind](database)
    assert kind in checked(database)


# ---------------------------------------------------------------------------------------------------------- findings

def test_finding_a_union_loses_keys_when_it_is_compacted(newest, database):
    """docs/operating/findings.md: a union of two projections of one database has views with equal ids, and the compactor of
    the same release takes the last of each id for all of them: acknowledged keys are gone, and nobody is told."""
    parts = {name: Database(database.root, name) for name in ("left", "right", "union")}
    off = {"wal_enabled": False}
    newest.open(path=database.path, settings=off)
    newest.put(**{key: "1" for key in "abcdefgh"})
    newest.flush()
    newest.put(a="2", h="2")
    newest.flush()
    newest.close()
    newest.clone(path=parts["left"].path, sources=[[database.path, None, "d"]])
    newest.clone(path=parts["right"].path, sources=[[database.path, "d", None]])
    newest.clone(path=parts["union"].path, sources=[[parts["left"].path, None, "d"], [parts["right"].path, "d", None]])
    manifest = ManifestCodec().decode(max(parts["union"].files("manifest").items())[1])
    assert len(manifest.l0) == 4 and len({view.id for view in manifest.l0}) == 2
    assert checked(parts["union"]) == {"view twice"}
    newest.open(path=parts["union"].path, settings=compacting(NEWEST))
    before = newest.all()
    assert sorted(before) == list("abcdefgh")
    for i in range(500):
        newest.put(x=str(i))
        newest.flush(kind="WAL")
        if ManifestCodec().decode(max(parts["union"].files("manifest").items())[1]).compacted:
            break
    newest.close()
    assert sorted(newest.read(path=parts["union"].path)) == [*"defgh", "x"]


def test_finding_0_15_forgets_the_last_compacted_view(newest, database):
    """docs/operating/findings.md: phase 1 is to keep the SST's id beside the view's. Read from a V2 file it is not known, and
    0.15.0 writes V1 without any: what was last compacted is forgotten. (We refuse to.)"""
    compacted(newest, NEWEST, database)
    assert ManifestCodec().decode(max(database.files("manifest").items())[1]).last_compacted_l0_view_id
    for older in started("0.15.0"):
        older.open(path=database.path)
        latest = max(database.files("manifest").items())[1]
        assert latest[1] == 1 and ManifestCodec().decode(latest).last_compacted_l0_view_id is None


def test_finding_a_reader_of_0_15_brings_compacted_ssts_back(newest, database):
    """docs/operating/findings.md: what is forgotten above is what an open writer trims its L0 by. Its next flush lists the
    SSTs again that are compacted, and their merge operands count twice."""
    at_once = {"manifest_poll_interval": "600s", "compactor_options.scheduler_options": {
        "min_compaction_sources": "2", "max_compaction_sources": "8"}}
    newest.open(path=database.path, settings=compacting(NEWEST) | at_once, merging=True)
    for operand in "12":
        newest.write(batch=[["merge", "m", operand]])
        newest.flush()
    wait_for(lambda: ManifestCodec().decode(max(database.files("manifest").items())[1]).compacted)
    assert newest.all() == {"m": "12"}
    for older in started("0.15.0"):
        assert older.read(path=database.path, merging=True) == {"m": "12"}
    newest.put(x="1")
    newest.flush()
    assert newest.all() == newest.read(path=database.path, merging=True) == {"m": "1122", "x": "1"}
    latest = ManifestCodec().decode(max(database.files("manifest").items())[1])
    assert len(latest.l0) == 3 and len(latest.compacted) == 1


def wait_for(holds: Callable[[], object]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it does not come")


def test_it_refuses_what_we_refuse(newest, database):
    """A version that nobody knows, and a file that is cut off."""
    filled(newest, database)
    latest, body = max(database.files("manifest").items())
    for file_id, bad, what in ((latest + 1, b"\0\3" + body[2:], "version"), (latest + 1, body[:100], "")):
        path = database.root / database.namespace("manifest").key(file_id)
        path.write_bytes(bad)
        with pytest.raises(PeerError, match=re.compile(what, re.I)):
            newest.open(path=database.path)
        path.unlink()


UNREADABLE = b"\0\2"
STOPPED = {  # what is written -> who cannot open the database then
    "compactions/00000000000000000003.compactions": (UNREADABLE, {"compactor"}),
    "gc/compactions.boundary": (b"x", {"compactor"}),
    "gc/manifest.boundary": (b"x", {"reader", "writer", "compactor"}),
    "manifest/00000000000000000099.manifest": (UNREADABLE, {"reader", "writer", "compactor"}),
}


@pytest.mark.parametrize("key", STOPPED)
def test_who_cannot_open_a_damaged_database(newest, database, key):
    """`admin check` says it of these: a reader, and a writer without a compactor, need no compactions file."""
    body, expected = STOPPED[key]
    quick = compacting(NEWEST)
    newest.open(path=database.path, settings=quick)
    newest.put(**FIRST)
    newest.flush()
    newest.close()
    file = Path(database.path_on_disk) / key
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(body)
    failed = set()
    for who, do, settings in (("reader", "read", {}), ("writer", "open", {}), ("compactor", "open", {"settings": quick})):
        with client(NEWEST) as peer:
            Timer(5, peer.kill).start()
            try:
                getattr(peer, do)(path=database.path, **settings)
            except PeerError:
                failed.add(who)
    assert failed == expected
    assert checked(database)
