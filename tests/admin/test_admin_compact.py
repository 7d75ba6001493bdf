"""`highwater db compact` merges what there is, changes no row that is shown, and says what it did."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.admin.compact import compacted, planned, watched
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, INTERRUPTED, SAFETY
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.db import compression
from highwater.impl.db.compactor import Options
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table
from highwater.impl.errors import FencedInDoubt
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.system import system_world
from highwater.impl.world import list_all
from tests.support.slatedb.tables import database

ROWS = [[Row(b"a", seq, value=b"%d" % seq), Row(b"k%d" % seq, seq, value=b"v")] for seq in range(1, 6)]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A database in files, with five SSTs in L0."""
    store, _ = database(ROWS)
    for entry in asyncio.run(list_all(store, "")):
        path = tmp_path / entry.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asyncio.run(store.get(entry.key)).body)
    return tmp_path / "db"


def run(*arguments, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["db", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def manifest(folder: Path):
    return ManifestCodec().decode(max((folder / "manifest").iterdir()).read_bytes())


def files(folder: Path) -> dict[str, bytes]:
    """All but those of the store itself."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and ".highwater" not in path.parts}


def test_it_compacts_until_there_is_nothing_to_do(folder):
    before = run("scan", folder)
    said = run("compact", folder)
    assert ": 5 of L0 -> run 0: 1 SSTs, " in said and len(said.splitlines()) == 1
    assert not manifest(folder).l0 and [run.id for run in manifest(folder).compacted] == [0]
    assert run("scan", folder) == before
    assert run("compact", folder) == "there is nothing to compact\n" and run("compact", folder, "--json") == ""


def test_json(folder):
    (one,) = map(json.loads, run("compact", folder, "--json", "--codec", "zstd").splitlines())
    names = [view.id for view in manifest(folder).compacted[0].views]
    assert one["status"] == "completed" and [sst["sst"] for sst in one["outputs"]] == names and len(one["l0"]) == 5
    path = folder / "compacted" / f"{names[0]}.sst"
    assert Table(names[0], path.read_bytes()).info.compression == compression.ZSTD


def test_a_dry_run_writes_nothing(folder):
    before = files(folder)
    assert ": 5 of L0 -> run 0, running" in run("compact", folder, "--dry-run")
    assert json.loads(run("compact", folder, "--dry-run", "--json"))["runs"] == []
    assert run("compact", folder, "--dry-run", "--min-sources", 6) == "there is nothing to compact\n"
    assert files(folder) == before


def test_what_is_asked_wrongly(folder, tmp_path):
    for more, says in ((("--codec", "x"), "--codec x"), (("--watch", "--dry-run"), "give one of them")):
        assert says in run("compact", folder, *more, code=BAD_INPUT)
    (tmp_path / "none").mkdir()
    for more in ((), ("--dry-run",), ("--watch",)):
        assert "there is no manifest" in run("compact", tmp_path / "none", *more, code=BAD_INPUT)
    assert not files(tmp_path / "none")


def test_what_is_refused(folder):
    path = max((folder / "manifest").iterdir())
    good = path.read_bytes()
    path.write_bytes(ManifestCodec().encode(manifest(folder)._replace(initialized=False)))
    before = files(folder)
    for more in ((), ("--dry-run",), ("--watch",)):
        assert "error: " in run("compact", folder, *more, code=SAFETY)
    assert files(folder) == before
    path.write_bytes(good)
    sst = min((folder / "compacted").iterdir())
    whole = sst.read_bytes()
    for body, says in ((whole[:-1], f"{sst.name}: byte "), (b"x" + whole[1:], f"{sst.name}: byte "), (None, "it is missing")):
        sst.write_bytes(body) if body else sst.unlink()
        before = files(folder)
        for more in ((), ("--watch",)):
            assert says in run("compact", folder, *more, code=BAD_INPUT)
        assert files(folder) == before, "a compactor that cannot work takes no epoch"


def test_a_missing_library_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    before = files(folder)
    assert "pyarrow" in run("compact", folder, "--codec", "zstd", code=INCOMPLETE)
    assert files(folder) == before


def test_whoever_comes_later_takes_over(folder):
    """A watching one ends when another one compacts."""
    async def work() -> None:
        world = system_world(LocalStore(str(folder)))
        told: list[dict] = []
        watching = asyncio.create_task(watched(world, "", Options(poll_interval_ms=20), told.append))
        while not told:
            await asyncio.sleep(0.01)
        assert await compacted(system_world(LocalStore(str(folder))), "", Options(), told.append) == 0
        with pytest.raises(FencedInDoubt):
            await asyncio.wait_for(watching, 20)
        assert len(told) == 1 and await planned(world, "", Options()) == []

    asyncio.run(work())


def test_ctrl_c_ends_it(folder):
    process = subprocess.Popen([sys.executable, "-m", "highwater", "db", "compact", str(folder), "--watch", "--poll-s", "0.1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stdout is not None and "-> run 0" in process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED and "stopped" in told
