"""Keep the verdicts of checks, so that an unchanged check is not run twice.

Safety: a verdict is used only if all that its check depends on is the same now: the content of files, the names in folders,
the versions of libraries, of tools and of Python, and the programs that it started. It is kept only if the check passed and ran
to its end. An entry that cannot be read, or is not as it was written, is not used. The folder may be deleted at any time.

What a check depends on was noted while it ran: highwater/gate/watch.py. Its parameters are part of the entry's name.
"""

import hashlib
import json
import os
import platform
import random
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from highwater import project
from highwater.gate import tools, watch
from highwater.gate.rows import Check, Row
from highwater.specs.fizzbee.run import build_module

FORMAT = 2  # of an entry
KINDS = ("file", "folder", "library", "program", "tool", "python")


def folder() -> Path:
    return build_module().cache() / "verdicts"


# --- what there is now


def python() -> str:
    """Return which Python runs a check. PYTHONOPTIMIZE takes its assertions away."""
    return " ".join(filter(None, (sys.version, sys.platform, platform.machine(), os.environ.get("PYTHONOPTIMIZE"))))


def digest(*paths: str) -> str:
    """Return the hash of files, in which one that cannot be read counts as such."""
    found = hashlib.sha256()
    for path in paths:
        try:
            content = Path(path).read_bytes()
            found.update(b"%d " % len(content) + content)
        except OSError:
            found.update(b"absent ")
    return found.hexdigest()[:32]


def before(path: str) -> list[str]:
    """Return the file that Python would import instead of a module: a package of its name."""
    return [f"{path.removesuffix('.py')}/__init__.py"] if path.endswith(".py") else []


def content(path: str) -> str:
    """Return the hash of a file. That of a module covers a package that comes before it."""
    return digest(path, *(package for package in before(path) if os.path.exists(package)))


def listing(path: str) -> str:
    """Return the hash of the names in a folder, without those that our programs and editors make."""
    try:
        names = sorted(name for name in os.listdir(path) if name[:1] not in "._~" and name not in ("__pycache__", "out"))
    except OSError:
        return "absent"
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()[:32]


def program(path: str) -> str:
    """Return the hash of a program. A Java runtime says its version in the file `release` above its folder bin/."""
    return digest(path, str(Path(path).parent.parent / "release"))


@cache
def distributions() -> dict[str, list[str]]:
    return {name: sorted({*of}) for name, of in packages_distributions().items()}


def library(name: str) -> str:
    """Return the distributions that have this top-level module, with their versions."""
    return " ".join(f"{of} {version(of)}" for of in distributions().get(name, ()))


class Now:
    """Hash what there is now. Each file is read once, unless it changes meanwhile."""

    def __init__(self) -> None:
        self.known: dict[tuple, str] = {}

    def value(self, kind: str, name: str) -> str:
        path = watch.place(name) if kind in ("file", "folder", "program") else ""
        key = (kind, name, *(stamp(each) for each in (path, *before(path))))
        if key not in self.known:
            self.known[key] = {
                "file": lambda: content(path), "folder": lambda: listing(path), "program": lambda: program(path),
                "library": lambda: library(name), "tool": lambda: tools.identity(name), "python": python}[kind]()
        return self.known[key]


def stamp(path: str) -> tuple[int, ...]:
    """Return what differs after a file was changed."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


# --- entries


class Verdicts:
    """The verdicts that are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, Now()

    def path(self, check: Check) -> Path:
        whose = os.environ.get(watch.PROJECT), project.users().get(check.protocol)
        asked = json.dumps([FORMAT, *whose, check[:3], check.function, check.arguments])
        return self.folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.json"

    def seconds(self, check: Check) -> float | None:
        """Return how much of a core the check took when it passed last, whatever has changed since."""
        entry = read(self.path(check))
        return Row(*entry["row"]).cpu_s if entry else None

    def recalled(self, check: Check) -> Row | None:
        """Return the row of a check that need not run again."""
        entry = read(self.path(check))
        if not entry or self.changed(entry["needs"]):
            return None
        return Row(*entry["row"])._replace(kept=True)

    def changed(self, needs: dict[str, dict[str, str]]) -> list[str]:
        """List what differs from what an entry needs."""
        return [f"{kind} {name}" for kind in needs for name, value in needs[kind].items()
                if self.now.value(kind, name) != value]

    def keep(self, check: Check, row: Row, noted: dict[str, set[str]], started: float) -> bool:
        """Keep a verdict, and return whether it was kept. `started` is in seconds since the epoch: if a file was changed after
        that, nobody knows what the check has read."""
        if row.code or any(is_newer(watch.place(name), started) for name in noted["file"]):
            return False
        named = {**noted, "tool": set(check.tools), "python": {"python"}}
        needs = {kind: {name: self.now.value(kind, name) for name in sorted(named[kind])} for kind in KINDS}
        write(self.path(check), {"row": row, "needs": needs})
        return True

    def forget(self, check: Check) -> None:
        self.path(check).unlink(missing_ok=True)


def is_newer(path: str, moment: float) -> bool:
    try:
        return os.stat(path).st_ctime >= moment
    except OSError:
        return True


def read(path: Path) -> dict[str, Any] | None:
    """Read an entry. None if there is none, or it is damaged."""
    try:
        document = json.loads(path.read_text())
        entry = document["entry"]
        well = document["sum"] == summed(entry) and not Row(*entry["row"]).code and {*entry["needs"]} == {*KINDS}
        return entry if well else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry whole, and put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = json.loads(json.dumps(entry))
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as new:
        json.dump({"entry": entry, "sum": summed(entry)}, new)
    os.replace(new.name, path)


def summed(entry: object) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def drawn(numbers: Iterable[int], percent: float, seed: int) -> set[int]:
    """Draw this share of kept rows; of a share above 0, at least one row if there are any."""
    numbers = sorted(numbers)
    return set(random.Random(seed).sample(numbers, min(len(numbers), -int(-len(numbers) * percent // 100))))
