"""Released SlateDB clients on a real S3 server through the recorder: what they do all day refines the models, and each of the
known schedules in which a safeguard is missing is told from the log alone, with the request and the guard."""

import re
import time
from pathlib import Path

import pytest
from slatedb_support.client import PeerError, compacting
from slatedb_support.recorded import URL, Asked, Scene, recorded
from slatedb_support.releases import NEWEST, RELEASES
from typer.testing import CliRunner

from cli.main import app

pytestmark = pytest.mark.interop
AT = {"path": "db", "url": URL}
NO_BOUNDARY = ("--set", "BOUNDARY=False")
COLLECTING = {f"garbage_collector_options.{kind}_options": {"interval": "300ms", "min_age": "0s"}
              for kind in ("manifest", "wal", "compacted", "compactions")}  # within a writer: before 0.15 nothing else asks for it


def check(log: Path, *options: str) -> tuple[int, str]:
    """What `highwater trace check` says."""
    result = CliRunner().invoke(app, ["trace", "check", str(log), *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def refines(log: Path, *options: str) -> dict[str, int]:
    """How many of each action there were."""
    code, text = check(log, *options)
    assert code == 0, text
    assert "of no kind that a mapping knows" not in text, text
    return {name: int(many.replace(",", "")) for many, name in
            re.findall(r"([\d,]+) ([A-Z]\w+(?:, (?:of the|with an) \w+)?)", " ".join(text.partition("actions: ")[2].split()))}


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
    A.open(**AT)
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
    B.open(**AT)
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
