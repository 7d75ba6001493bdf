"""The example in docs/operating/database.md: it opens a real database, and what it writes is there."""

import asyncio
import subprocess
import sys
from pathlib import Path

from highwater.impl.db.merge import Shown
from highwater.impl.db.reader import Reader, opened
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.local import LocalStore
from tests.support.slatedb.folders import asked

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "database" / "visits.py"


def said_by(folder: Path) -> list[str]:
    """Return what the example prints of the database in a folder."""
    done = subprocess.run([sys.executable, str(EXAMPLE), str(folder)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_example_opens_a_database_twice(tmp_path):
    async def rows(checkpoint: str | None) -> dict[bytes, Shown]:
        store = LocalStore(str(tmp_path))
        return {one.key: one async for one in Reader(store, await opened(store, "", checkpoint)).scan(Span(), 0)}

    assert said_by(tmp_path) == ["user:42 is Ada", "user:43 is Grace", "visits: 2 and now 5"]
    found = asyncio.run(rows(None))
    assert sorted(found) == [b"user:42", b"user:43", b"visits"] and found == asyncio.run(rows("nightly"))
    assert said_by(tmp_path)[-1] == "visits: 7 and now 10"


def test_the_example_runs_on_a_clone(tmp_path):
    """Its operands are in an SST of the parent."""
    (tmp_path / "parent").mkdir()
    said_by(tmp_path / "parent")
    asked("clone", tmp_path / "parent", tmp_path / "below" / "clone")
    assert said_by(tmp_path / "below" / "clone")[-1] == "visits: 7 and now 10"


def test_page_shows_example():
    """`python -m bench.pages database` writes it there."""
    shown = (ROOT / "docs/operating/database.md").read_text()
    assert all(f"    {line}" in shown for line in EXAMPLE.read_text().splitlines() if line)
