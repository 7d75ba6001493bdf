"""Released SlateDB clients on a real S3 server through the recorder: their normal traffic refines the models.

For each known schedule without a safeguard, the log alone reveals the failure, with the request and the guard."""

import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.traces.recorded.systems import slatedb_files
from tests.support.slatedb.client import PeerError, compacting
from tests.support.slatedb.recorded import URL, Asked, Scene, recorded
from tests.support.slatedb.releases import NEWEST, RELEASES

pytestmark = pytest.mark.interop
AT = {"path": "db", "url": URL}
NO_BOUNDARY = ("--set", "BOUNDARY=False")
LISTED_TWICE = r'request \d+, [A-Z]: PUT [a-z0-9]+/manifest/.*\n +OnlyOwnIsAdded: .*\n.*"checkpoint [-0-9a-f]{36}, again"'
COLLECTING = {f"garbage_collector_options.{kind}_options": {"interval": "300ms", "min_age": "0s"}
              for kind in ("manifest", "wal", "compacted", "compactions")}  # within a writer: before 0.15 there is no other way


def check(log: Path, *options: str) -> tuple[int, str]:
    """Run `highwater trace check` on a log and return its exit code and output."""
    result = CliRunner().invoke(app, ["trace", "check", str(log), *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def refines(log: Path, *options: str) -> dict[str, int]:
    """Check that a log refines the models; return the number of steps of each action."""
    return steps_of(*check(log, *options))


def steps_of(code: int, text: str) -> dict[str, int]:
    """Return the number of steps of each action, as a check of a log has told it: the log must refine the models."""
    assert code == 0, text
    assert "of kinds that no mapping knows" not in text, text
    return {name: int(many.replace(",", "")) for many, name in
            re.findall(r"([\d,]+) ([A-Z]\w+(?:, (?:of the|with an) \w+)?)", " ".join(text.partition("actions: ")[2].split()))}


def refined(log: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Like `refines`, but a released client may list a checkpoint twice. test_what_is_committed_and_refused_is_applied_again
    has the schedule. Then everything else of the log is checked."""
    code, text = check(log)
    if code == 0 or "OnlyOwnIsAdded is broken" not in text:
        return steps_of(code, text)
    assert re.search(LISTED_TWICE, text), text
    print("0.17.0 listed a checkpoint twice")
    monkeypatch.setattr(slatedb_files, "again", lambda before, after: set())
    return refines(log)


def broken(log: Path, guard: str, client: str, what: str, *options: str) -> None:
    """A property is, and the request is told that breaks it."""
    code, text = check(log, *options)
    lines = [line for line in text.splitlines() if line.startswith(f"    {guard}: ")]
    assert code == 10 and f"{guard} is broken" in text and lines, text
    assert re.search(rf"request \d+, {client}: {what}", text), text


def fill(scene: Scene, name: str, prefix: str, many: int) -> None:
    for i in range(many):
        scene.clients[name].put(**{f"{prefix}{i}": str(i)})
        scene.clients[name].flush()


# ------------------------------------------------------------------------------------------------ what they do all day

def day(scene: Scene, release: str, number: int, flushes: int) -> None:
    """Open, write, flush, compaction, checkpoint, collection, reopen, and a second writer that fences the first."""
    A, B, G = scene.A, scene.B, scene.G
    A.open(**AT, settings=compacting(release) if number else {})
    fill(scene, "A", f"a{number}.", 3)
    A.put(w="x")
    A.flush(kind="WAL")
    A.close()
    own = RELEASES.index(release) < RELEASES.index("0.15.0")  # the writer collects
    A.open(**AT, settings=compacting(release) | (COLLECTING if own else {}))
    fill(scene, "A", f"c{number}.", flushes)
    if release != "0.13.1":
        G.checkpoint(**AT, lifetime_ms=1000)
        G.checkpoint(**AT, lifetime_ms=3_600_000, name="kept")
    time.sleep(2.5)
    if not own:
        G.collect(**AT)
    fill(scene, "A", f"d{number}.", 2)
    B.open(**AT, settings=compacting(release))
    B.put(z=str(number))
    B.flush()
    with pytest.raises(PeerError):
        fill(scene, "A", "late", 1)
    found = B.all()
    assert {f"c{number}.{i}" for i in range(flushes)} < found.keys() and found["z"] == str(number) and "late0" not in found
    B.close()
    A.close()


@pytest.mark.parametrize("release", RELEASES)
def test_what_each_release_does_refines_the_models(release, tmp_path):
    with recorded(tmp_path / "log", A=release, B=release, G=release) as scene:
        day(scene, release, 0, 12)
        assert min(scene.ids("manifest")) > 1 and min(scene.ids("compactions")) > 1  # what was collected
    seen = refines(tmp_path / "log", *NO_BOUNDARY * (release == "0.13.1"))
    assert seen["CreateNext"] > 20 and seen["CreateNext, of the WAL"] > 10 and seen["Delete"] > 10
    assert release == "0.13.1" or (seen["Accept"] > 20 and seen["Advance"] >= 2 and seen["CreateFence"] == 3)


def test_ten_thousand_requests(tmp_path):
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        number = 0
        while len(scene.session.requests) < 10_000:
            day(scene, NEWEST, number, 60)
            number += 1
    seen = refines(tmp_path / "log")
    assert seen["CreateNext"] > 500 and seen["Advance"] >= 2 * number and seen["CreateFence"] == 3 * number


# ----------------------------------------------------------------------------------------------- the stale writer, bug row 1

def stale_writer(scene: Scene, boundary: bool) -> Asked:
    """The hazard of SlateDB's RFC on GC boundary files: A's create is delayed until B's file of that id has been collected."""
    A, B = scene.A, scene.B
    A.open(**AT)
    A.put(lost="1")
    scene.rules("hold PUT db/manifest/* client=A")
    flushing = scene.begin(A.flush)
    scene.wait_for_hold()
    B.open(**AT)
    fill(scene, "B", "b", 2)
    B.close()
    scene.collect_all("G", boundary=boundary)
    scene.rules("")
    return flushing


def test_the_stale_writer_is_refused(tmp_path):
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        assert "FENCED" in stale_writer(scene, boundary=True).told()
    assert refines(tmp_path / "log")["Reject"] == 1


def test_without_boundary_files_the_stale_writer_forks_the_history(tmp_path):
    """Bug row 1, anomaly 4."""
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        assert stale_writer(scene, boundary=False).told() == "ok"
        scene.A.put(lost2="1")
        scene.A.flush()
        assert scene.G.read(**AT).keys() == {"lost", "b0", "b1"}
    broken(tmp_path / "log", "AckedIsKept", "A", "PUT db/manifest/0{19}3.manifest", *NO_BOUNDARY)


def test_a_claim_that_is_in_no_history_fences_nobody(tmp_path):
    """A false fence, as docs/composition.md has it: A reads a claim of S that was put where a file had been collected. S has
    died, and nobody has its epoch. A looks at the boundary after the file, and goes on."""
    with recorded(tmp_path / "log", A=NEWEST, S=NEWEST, C=NEWEST, G=NEWEST) as scene:
        A, S, C = scene.A, scene.S, scene.C
        A.open(**AT)
        fill(scene, "A", "a", 1)
        claimed = max(scene.ids("manifest")) + 1
        held, read = "hold PUT db/manifest/* client=S", f"hold GET db/manifest/{claimed:020d}.manifest client=A"
        scene.rules(held)
        scene.begin(lambda: S.open(**AT))
        scene.wait_for_hold()
        scene.rules(f"{held}\n{read}")
        C.checkpoint(**AT, lifetime_ms=1000)
        A.put(late="1")
        flushing = scene.begin(A.flush)  # its create conflicts, and it reads the file that is there
        scene.session.wait(lambda session: len(session.held()) == 2)
        C.checkpoint(**AT, lifetime_ms=1000)
        time.sleep(2.5)
        scene.collect_all("G")
        assert claimed not in scene.ids("manifest")
        S.kill()
        scene.rules(read)
        scene.session.wait(lambda session: claimed in scene.ids("manifest"))
        scene.rules("")
        assert flushing.told() == "ok"
        assert scene.G.manifest(**AT)["writer_epoch"] == 1 and scene.G.read(**AT).keys() == {"a0", "late"}
    refines(tmp_path / "log")


# -------------------------------------------------------------------------------------------------- the WAL, bug rows 2 and 3

def test_a_stale_writer_appends_where_nobody_reads(tmp_path):
    """Bug row 2, anomaly 4: its next WAL object was there, is flushed, and is collected, together with the fence."""
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        scene.A.open(**AT)
        scene.A.put(a="1")
        scene.A.flush(kind="WAL")
        scene.B.open(**AT)
        fill(scene, "B", "b", 3)
        scene.B.close()
        scene.collect_all("G")
        scene.A.put(lost="1")
        scene.A.flush(kind="WAL")
        assert scene.G.read(**AT).keys() == {"a", "b0", "b1", "b2"}
    broken(tmp_path / "log", "AckedIsDurable", "A", "PUT db/wal/0{19}3.sst")


def test_where_fences_stay_it_is_fenced(tmp_path):
    """The same, but the collector leaves fences where they are, as it does unless it is told otherwise."""
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        scene.A.open(**AT)
        scene.A.put(a="1")
        scene.A.flush(kind="WAL")
        scene.B.open(**AT)
        fill(scene, "B", "b", 3)
        scene.B.close()
        scene.collect_all("G", fences=False)
        scene.A.put(lost="1")
        with pytest.raises(PeerError, match="FENCED"):
            scene.A.flush(kind="WAL")
    refines(tmp_path / "log")


def test_a_fence_lands_where_it_fences_nobody(tmp_path):
    """Bug row 3: the place that B has found for it is taken by A, flushed, and collected, before it is put there."""
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, C=NEWEST, G=NEWEST) as scene:
        scene.A.open(**AT)
        scene.A.put(a="1")
        scene.A.flush(kind="WAL")
        scene.rules("hold PUT db/wal/* client=B")
        opening = scene.begin(lambda: scene.B.open(**AT))
        scene.wait_for_hold()
        scene.A.put(a="2")
        scene.A.flush(kind="WAL")
        scene.C.open(**AT)
        fill(scene, "C", "c", 3)
        scene.C.close()
        scene.collect_all("G")
        scene.rules("")
        assert "FENCED" in opening.told()  # not by the fence: it asks for the epoch again
    broken(tmp_path / "log", "FENCE_AHEAD", "B", "PUT db/wal/0{19}3.sst")


# -------------------------------------------------------------------------------------------------------------- anomalies

def test_what_is_committed_and_refused_is_applied_again(tmp_path):
    """Anomaly 1: A's checkpoint is in a manifest that others build upon, and then A's check of the boundary refuses it."""
    with recorded(tmp_path / "log", A=NEWEST, B=NEWEST, G=NEWEST) as scene:
        fill_open(scene)
        scene.rules("hold GET db/gc/* client=A nth=2")
        checkpointing = scene.begin(lambda: scene.A.checkpoint(**AT, lifetime_ms=3_600_000))
        scene.wait_for_hold()
        fill(scene, "B", "b", 3)
        scene.B.close()
        scene.collect_all("G")
        scene.rules("")
        assert checkpointing.told() == "ok"
        checkpoints = scene.G.manifest(**AT)["checkpoints"]
        assert len(checkpoints) == 2 and len({one["id"] for one in checkpoints}) == 1
    broken(tmp_path / "log", "OnlyOwnIsAdded", "A", "PUT db/manifest/")


def fill_open(scene: Scene) -> None:
    """B has a database, and a flush in it."""
    scene.B.open(**AT)
    fill(scene, "B", "first", 1)
