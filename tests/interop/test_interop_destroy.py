"""`highwater admin destroy` beside released clients: their writers are fenced, what their clones need stays, and what is
destroyed stays destroyed for all but the oldest."""

from itertools import cycle
from threading import Timer

import pytest

from highwater.gate.exits import SAFETY
from tests.interop.test_interop import HAS_CHECKPOINTS, Database, started
from tests.interop.test_interop import database as database
from tests.interop.test_interop import newest as newest
from tests.interop.test_interop import peer as peer
from tests.interop.test_interop import release as release
from tests.support.slatedb.client import PeerError, client, compacting
from tests.support.slatedb.folders import admin, asked, files
from tests.support.slatedb.releases import RELEASES

pytestmark = pytest.mark.interop
TOMBSTONE = ["gc/manifest.boundary"]


def left(database: Database) -> list[str]:
    return [*files(database.root / database.name)]


def test_a_writer_is_fenced_by_a_soft_mark_and_the_rows_are_read_until_the_grace_is_over(peer, database):
    peer.open(path=database.path)
    peer.put(a="1")
    peer.flush()
    assert "grace" in asked("destroy", database.path_on_disk, "--soft", "--grace", "1h")["waits"]
    with pytest.raises(PeerError, match="newer DB client"):  # it meets the fence in the WAL; up to 0.15.0 a put waits for that
        peer.put(b="2")
        peer.flush()
    with client(RELEASES[-1]) as reader:
        assert reader.read(path=database.path) == {"a": "1"}


def test_what_is_destroyed_stays_destroyed(release, peer, database):
    """A writer that is still open leaves objects, which the command given again deletes. Release 0.13.1 reads no boundary, so
    it makes a new database at that place; later ones fail, and leave a manifest that nobody reads."""
    peer.open(path=database.path)
    peer.put(a="1")
    peer.flush()
    assert asked("destroy", database.path_on_disk, "--hard")["mark"] == "hard" and left(database) == TOMBSTONE
    with pytest.raises(PeerError):
        peer.put(b="2")
        peer.flush()
    asked("destroy", database.path_on_disk, "--hard")
    assert left(database) == TOMBSTONE
    with client(release) as other:
        with pytest.raises(PeerError, match="failed to find latest"):
            other.read(path=database.path)
        if release == RELEASES[0]:
            other.open(path=database.path)
        else:
            with pytest.raises(PeerError, match="already exists"):
                other.open(path=database.path)
            assert left(database) == [*TOMBSTONE, "manifest/00000000000000000001.manifest"]
            asked("destroy", database.path_on_disk, "--hard")
            assert left(database) == TOMBSTONE


@pytest.mark.parametrize("release", RELEASES[2:])  # those that collect through their binding, and read boundaries
def test_finding_a_collector_does_not_end_where_no_manifest_is_ahead_of_the_boundary(peer, database):
    peer.open(path=database.path)
    asked("destroy", database.path_on_disk, "--hard")
    peer.collect(path=database.path)  # without a manifest it ends
    with pytest.raises(PeerError, match="already exists"):
        peer.open(path=database.path)
    ends = Timer(3, peer.kill)
    ends.start()
    with pytest.raises(PeerError, match="ended with -9"):
        peer.collect(path=database.path)
    ends.cancel()


@pytest.mark.parametrize("release", RELEASES[2:])
def test_finding_a_writer_does_not_end_in_a_destroyed_database(release, tmp_path):
    """It writes a manifest behind the boundary if it polls during the destruction; how often depends on the machine."""
    for place, milliseconds in zip((Database(tmp_path, f"db{number}") for number in range(60)), cycle([20, 10, 5, 40])):
        for writer in started(release):
            writer.open(path=place.path, settings=dict.fromkeys(compacting(release), f"{milliseconds}ms"))
            writer.put(a="1")
            writer.flush(kind="MEM_TABLE")
            asked("destroy", place.path_on_disk, "--hard")
            ends = Timer(3, writer.kill)
            ends.start()
            try:
                writer.close()
            except PeerError as error:
                if "ended with -9" in str(error):
                    assert len(place.files("manifest")) == 1
                    return
            ends.cancel()
    pytest.fail("each of them has ended")


@pytest.mark.parametrize("kind", ["--soft", "--hard"])
def test_a_clone_of_a_client_keeps_its_parent_until_it_is_destroyed(newest, database, kind):
    newest.open(path=database.path)
    newest.put(a="1")
    newest.flush()
    newest.close()
    clone = Database(database.root, "clone")
    newest.clone(path=clone.path, sources=[[database.path, None, None]])
    for one in asked("checkpoint", "list", database.path_on_disk):
        if one["expire_time"]:  # the source of the clone
            assert admin("checkpoint", "delete", database.path_on_disk, "-i", one["id"]).exit_code == 0
    result = admin("destroy", database.path_on_disk, kind)
    assert result.exit_code == (0 if kind == "--soft" else SAFETY) and "a clone may need it" in " ".join(result.output.split())
    assert newest.read(path=clone.path) == {"a": "1"}
    asked("destroy", clone.path_on_disk, "--hard")
    asked("destroy", database.path_on_disk, kind)
    assert left(clone) == left(database) == TOMBSTONE


@pytest.mark.parametrize("release", HAS_CHECKPOINTS)
def test_a_checkpoint_that_a_client_takes_of_a_marked_database_keeps_it(peer, database):
    """The client does not know the mark. The command looks at the checkpoints again before it deletes."""
    peer.open(path=database.path)
    peer.put(a="1")
    peer.flush()
    peer.close()
    asked("destroy", database.path_on_disk, "--soft", "--grace", "1h")
    late = peer.checkpoint(path=database.path, name="late")["id"]
    result = admin("destroy", database.path_on_disk, "--hard")
    assert result.exit_code == SAFETY and late in result.output
    assert peer.read(path=database.path, checkpoint=late) == {"a": "1"}
