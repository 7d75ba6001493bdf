"""Clones by released SlateDB clients, through the recorder: what they do all day refines the models, and each finding is shown
by what a client is told, and by the guard that refuses its request (docs/operating/findings.md)."""

import time

import pytest

from tests.interop.test_interop_traffic import AT, broken, check, fill, fill_open, refines
from tests.support.slatedb.client import PeerError, compacting
from tests.support.slatedb.recorded import URL, Asked, Scene, recorded
from tests.support.slatedb.releases import NEWEST, RELEASES

pytestmark = pytest.mark.interop
CLONE = {"path": "clone", "url": URL}
HOUR_MS = 3_600_000
CLONING = RELEASES[1:]
DETACHING = RELEASES[2:]
NO_WAL = {"wal_enabled": False}  # a union has none
SMALL_L0 = {"l0_sst_size_bytes": 400, "max_unflushed_bytes": 1 << 20}


def compacted(scene: Scene, name: str, at: dict[str, str], prefix: str, release: str) -> None:
    """A client writes until its SSTs are compacted, and removes the checkpoints that its compactor has taken."""
    client = scene.clients[name]
    client.open(**at, settings=compacting(release))
    fill(scene, name, prefix, 12)
    client.close()
    for one in scene.G.manifest(**at)["checkpoints"]:
        if one["expire_time_secs"] is not None:
            scene.G.delete_checkpoint(**at, id=one["id"])


# ------------------------------------------------------------------------------------------------ what they do all day

@pytest.mark.parametrize("release", CLONING)
def test_a_clone_refines_the_models(release, tmp_path):
    """Clone, write, compact; from 0.15.0 on the collector of the clone detaches it, and then the parent's collects its SSTs."""
    with recorded(tmp_path / "log", B=release, G=release, K=release) as scene:
        fill_open(scene)
        scene.B.close()
        source = scene.G.checkpoint(**AT, lifetime_ms=HOUR_MS)["id"]
        scene.G.refresh(**AT, id=source, lifetime_ms=2 * HOUR_MS)
        scene.K.clone(**CLONE, sources=[["db", None, None, source]])
        compacted(scene, "B", AT, "b", release)
        compacted(scene, "K", CLONE, "k", release)
        if release in DETACHING:
            for path in ("clone", "db", "clone"):
                scene.collect_all("G", path=path)
            assert scene.G.manifest(**CLONE)["external_dbs"] == scene.G.manifest(**AT)["checkpoints"] == []
        assert scene.G.read(**CLONE).keys() == {"first0", *(f"k{i}" for i in range(12))}
    seen = refines(tmp_path / "log")
    assert seen["CreateFinal"] == seen["Initialize"] == 1
    if release in DETACHING:
        assert seen["Rewrite"] == seen["Detach"] == seen["Leave"] == 1 and seen["Delete, of the SSTs"] >= 1


def test_a_clone_of_a_clone_and_a_union_refine_the_models(tmp_path):
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST, K=NEWEST) as scene:
        scene.B.open(**AT, settings=NO_WAL)
        fill(scene, "B", "b", 1)
        scene.B.close()
        scene.K.clone(**CLONE, sources=[["db", None, None]])
        scene.K.open(**CLONE, settings=NO_WAL)
        fill(scene, "K", "k", 1)
        scene.K.close()
        scene.K.clone(path="grandchild", url=URL, sources=[["clone", None, None]])
        scene.K.clone(path="union", url=URL, sources=[["clone", None, "h"], ["grandchild", "h", None]])
        assert scene.G.read(path="grandchild", url=URL) == scene.G.read(path="union", url=URL) == {"b0": "0", "k0": "0"}
    seen = refines(tmp_path / "log")
    assert seen["Initialize"] == 3 and seen["CreateFinal"] == 5  # one for each database whose SSTs a clone reads


def test_a_deleted_database_and_a_new_one_in_its_place_refine_the_models(tmp_path):
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST) as scene:
        for _ in range(2):
            fill_open(scene)
            scene.B.close()
            scene.collect_all("G")
            scene.G.delete_db(**AT)
            assert scene.ids("manifest") == []
    seen = refines(tmp_path / "log")
    assert seen["Mark"] == 2 and seen["DeleteDb"] >= 6


# ------------------------------------------------------------------------------------------------------------ findings

def test_finding_a_clone_without_a_pin(tmp_path):
    """Anomaly 2: the source's checkpoint expires, and is collected, while the clone's final one is under way. No retry helps;
    but a writer opens what there is, and the parent keeps nothing for it."""
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST, K=NEWEST) as scene:
        fill_open(scene)
        scene.B.close()
        source = scene.G.checkpoint(**AT, lifetime_ms=3000)["id"]
        scene.rules("hold PUT db/manifest/* client=K")
        cloning = scene.begin(lambda: scene.K.clone(**CLONE, sources=[["db", None, None, source]]))
        scene.wait_for_hold()
        assert scene.ids("manifest", "clone") == [1]
        time.sleep(3)
        scene.collect_all("G")
        scene.rules("")
        assert "checkpoint" in cloning.told().lower()
        for again in (source, None):
            with pytest.raises(PeerError, match="(?i)checkpoint"):
                scene.K.clone(**CLONE, sources=[["db", None, None, again]])
        scene.K.open(**CLONE)
        assert scene.K.all() == {"first0": "0"}
        assert scene.G.manifest(**AT)["checkpoints"] == []
    broken(tmp_path / "log", "OPEN_INITIALIZED", "K", "PUT clone/manifest/0{19}2.manifest")


def overwritten(scene: Scene) -> None:
    """A clone's WAL is copied over what a writer was told is durable. Five WAL objects are to be copied, as B's flush of one
    of them is recorded after the others."""
    B, G, K, W = (scene.clients[name] for name in "BGKW")
    B.open(**AT, settings=SMALL_L0)
    fill(scene, "B", "a", 1)
    scene.rules("hold PUT db/manifest/* client=B")
    B.put(big="1" * 600)
    B.flush(kind="WAL")
    scene.wait_for_hold()
    for i in range(4):
        B.put(**{f"z{i}": "1"})
        B.flush(kind="WAL")
    G.checkpoint(**AT, lifetime_ms=HOUR_MS)  # B's manifest conflicts, and is put again with what is in the WAL by then
    scene.rules("")
    scene.session.wait(lambda _: len(scene.ids("manifest")) == 5)
    B.kill()
    scene.rules("hold PUT clone/wal/* client=K")
    cloning = scene.begin(lambda: K.clone(**CLONE, sources=[["db", None, None]]))
    scene.wait_for_hold()
    W.open(**CLONE)
    W.put(lost="1")
    W.flush(kind="WAL")  # W is told that it is durable
    assert W.all()["lost"] == "1"
    scene.rules("")
    assert "already exists" in cloning.told()
    K.clone(**CLONE, sources=[["db", None, None]])
    assert G.read(**CLONE).keys() == {"a0", "big", "z0", "z1", "z2", "z3"}
    with pytest.raises(PeerError, match="FENCED"):
        W.put(late="1")
        W.flush(kind="WAL")


@pytest.mark.parametrize("release", ("0.15.0", NEWEST))
def test_finding_the_copy_of_a_wal_overwrites_an_acknowledged_write(release, tmp_path):
    with recorded(tmp_path / "log", B=release, G=release, K=release, W=release) as scene:
        overwritten(scene)
    broken(tmp_path / "log", "OPEN_INITIALIZED", "W", "PUT clone/manifest/0{19}2.manifest")


def stuck(scene: Scene, release: str) -> Asked:
    """A clone of a checkpoint whose manifest still has the parent that the database has left since."""
    fill_open(scene)
    scene.B.close()
    scene.K.clone(**CLONE, sources=[["db", None, None]])
    compacted(scene, "K", CLONE, "k", release)
    source = scene.G.checkpoint(**CLONE, lifetime_ms=HOUR_MS)["id"]
    scene.collect_all("G", path="clone")
    assert scene.G.manifest(**CLONE)["external_dbs"] == []
    assert scene.G.read(**CLONE, checkpoint=source).keys() == {"first0", *(f"k{i}" for i in range(12))}
    return scene.begin(lambda: scene.K.clone(path="grandchild", url=URL, sources=[["clone", None, None, source]]))


def test_finding_a_clone_is_stuck_after_a_detach(tmp_path):
    """The clone inherits an external database that it needs nothing of, and waits for a checkpoint there. It waits for ever: a
    retry is refused in the same way. No request is wrong, so the log refines the models."""
    with recorded(tmp_path / "log", B="0.15.0", G="0.15.0", K="0.15.0") as scene:
        assert "checkpoint missing" in stuck(scene, "0.15.0").told()
        source = scene.G.manifest(path="grandchild", url=URL)["external_dbs"][1]["source_checkpoint_id"]
        with pytest.raises(PeerError, match="checkpoint missing"):
            scene.K.clone(path="grandchild", url=URL, sources=[["clone", None, None, source]])
        of_parent = scene.G.manifest(path="grandchild", url=URL)["external_dbs"][0]
        assert of_parent["path"] == "db" and of_parent["sst_ids"] == []
        assert scene.G.manifest(path="grandchild", url=URL)["initialized"] is False
    refines(tmp_path / "log")


def test_a_newer_release_leaves_out_the_parent_that_it_does_not_need(tmp_path):
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST, K=NEWEST) as scene:
        assert stuck(scene, NEWEST).told() == "ok"
        assert [one["path"] for one in scene.G.manifest(path="grandchild", url=URL)["external_dbs"]] == ["clone"]
    refines(tmp_path / "log")


def test_finding_a_database_is_deleted_under_a_live_clone(tmp_path):
    """Anomaly 3: delete_db does not look for checkpoints."""
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST, K=NEWEST) as scene:
        fill_open(scene)
        scene.B.close()
        scene.K.clone(**CLONE, sources=[["db", None, None]])
        assert scene.G.read(**CLONE) == {"first0": "0"}
        scene.G.delete_db(**AT)
        with pytest.raises(PeerError, match="not found"):
            scene.G.read(**CLONE)
    broken(tmp_path / "log", "CHECK_PINS", "G", "PUT db/.deleting")
    assert "the final one of clone" in check(tmp_path / "log")[1]


def test_finding_a_clone_is_made_of_a_database_that_is_being_deleted(tmp_path):
    """Nothing is pinned when the database is marked, and the clone's checkpoint comes then: a check is not enough, if a client
    that takes a checkpoint does not look for the mark, or its update is another one than the mark."""
    with recorded(tmp_path / "log", B=NEWEST, G=NEWEST, K=NEWEST) as scene:
        fill_open(scene)
        scene.B.close()
        source = scene.G.checkpoint(**AT, lifetime_ms=1000)["id"]
        held = "hold POST * client=G"
        scene.rules("hold PUT db/manifest/* client=K")
        cloning = scene.begin(lambda: scene.K.clone(**CLONE, sources=[["db", None, None, source]]))
        scene.wait_for_hold()
        time.sleep(3.2)  # the source is over, by any clock, and is listed
        scene.rules(f"hold PUT db/manifest/* client=K\n{held}")
        deleting = scene.begin(lambda: scene.G.delete_db(**AT))
        scene.session.wait(lambda session: len(session.held()) > 1)
        scene.rules(held)
        assert cloning.told() == "ok"
        scene.rules("")
        assert deleting.told() == "ok"
        with pytest.raises(PeerError, match="not found"):
            scene.G.read(**CLONE)
    broken(tmp_path / "log", "CLOSED", "K", "PUT db/manifest/0{19}6.manifest")
