"""Databases of ours in folders, with real rows: they are written without a client, and read by `highwater db`."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.db.rows import Row
from highwater.impl.layout import Namespace
from highwater.impl.world import list_all
from tests.support.slatedb.tables import database


def put(*keys: str, seq: int = 1, value: bytes = b"1") -> list[Row]:
    """Rows of one number, in the order of their keys."""
    return [Row(key.encode(), seq, value=value) for key in keys]


def written(folder: Path, ssts: Sequence[Sequence[Row]], wal: Sequence[Sequence[Row] | None] = (), first: int = 1,
            **fields) -> Path:
    """Write a database: SSTs in L0 with ids from `first` on, the newest last; WAL objects, None for a fence."""
    store, _ = database(ssts, wal, first=first, **fields)
    for entry in asyncio.run(list_all(store, "")):
        path = folder / entry.key.removeprefix("db/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(asyncio.run(store.get(entry.key)).body)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """All objects below a folder, without the locks of the store."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and ".highwater" not in path.parts}


def latest(folder: Path) -> Manifest:
    """Return the latest manifest. A file that a client of `file:///` is about to rename has another suffix."""
    return ManifestCodec().decode(max((folder / "manifest").glob("*.manifest")).read_bytes())


def rewritten(folder: Path, codec: ManifestCodec | None = None, **changes: object) -> None:
    """Write one more manifest, with changes."""
    last = int(max((folder / "manifest").iterdir()).name[:20])
    path = folder / Namespace("", "manifest").key(last + 1)
    path.write_bytes((codec or ManifestCodec()).encode(latest(folder)._replace(**changes)))


def admin(*words: object):
    return CliRunner().invoke(app, ["admin", *map(str, words)])


def asked(*words: object) -> dict:
    """Return what a verb of `highwater admin` prints as JSON; it must succeed."""
    result = admin(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def rows(folder: Path | str, *options: object) -> dict[str, str]:
    result = CliRunner().invoke(app, ["db", "scan", str(folder), "--json", *map(str, options)])
    assert result.exit_code == 0, result.output
    return {row["key"]: row["value"] for row in map(json.loads, result.stdout.splitlines())}


def kinds(folder: Path) -> set[str]:
    """The kinds of what `admin check` finds."""
    result = admin("check", folder, "--json")
    return {one["kind"] for one in json.loads(result.stdout)}
