"""The example in README.md: it opens a real database, and what it writes is there."""

import asyncio
import subprocess
import sys
from pathlib import Path

from highwater.impl.db.merge import Shown
from highwater.impl.db.reader import Reader, opened
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.local import LocalStore

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


def test_the_readme_shows_it():
    """`python -m bench.pages database` writes it there."""
    shown = (ROOT / "README.md").read_text()
    assert all(f"    {line}" in shown for line in EXAMPLE.read_text().splitlines() if line)
