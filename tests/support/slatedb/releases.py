"""Installs released SlateDB clients, each in a virtual environment in the cache folder: `.cache/slatedb-<version>/`.

Claim: an environment that has its name is complete. It was made under another name and renamed at the end. The releases are
never a dependency of highwater: no module imports them, and tests talk to a process (tests/support/slatedb/peer.py).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RELEASES = ("0.13.1", "0.14.1", "0.15.0", "0.17.0")  # before 0.16 V1 manifests are written, from 0.16 on V2
NEWEST = RELEASES[-1]


class NotInstalled(Exception):
    """The release cannot be had here; the text says why."""


def cache() -> Path:
    return Path(os.environ.get("HIGHWATER_CACHE") or Path(__file__).resolve().parents[3] / ".cache").resolve()


def python_of(release: str) -> Path:
    """The interpreter of the environment, which is made the first time. Raises NotInstalled."""
    home = cache() / f"slatedb-{release}"
    if not home.exists():
        make(release, home)
    return home / "bin" / "python"


def make(release: str, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"tmp-slatedb-{release}-", dir=home.parent))
    try:
        for command in ([sys.executable, "-m", "venv", str(work)],
                        [str(work / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                         f"slatedb=={release}"],
                        [str(work / "bin" / "python"), "-c", "import slatedb.uniffi"]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last_line = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise NotInstalled(f"slatedb {release} cannot be installed: {last_line}")
        try:
            work.rename(home)  # an environment's interpreter and libraries are found from where it is
        except OSError:
            if not home.exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
