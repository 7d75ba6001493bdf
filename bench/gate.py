"""The gate's three times: without kept verdicts, unchanged, and after an edit of one protocol's implementation.

Each is a run of `highwater verify` on a copy of the package, with a folder of verdicts that is empty at first. FizzBee must
have been built. The first run takes minutes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from highwater.gate.run import cores
from highwater.specs.fizzbee.run import build_module

ROOT = Path(__file__).parents[1]
EDITED = "impl/protocols/sequenced_metadata_boundary.py"  # more protocols are made of it than of any other
MOST_S = {"without kept verdicts": 12 * 60, "unchanged": 30, "after an edit": 3 * 60}


def main() -> int:
    print(f"{cores()} cores")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="highwater-gate-") as folder:
        package, cache = Path(folder) / "highwater", Path(folder) / "cache"
        shutil.copytree(ROOT / "highwater", package, ignore=shutil.ignore_patterns("__pycache__"))
        cache.mkdir()
        for built in build_module().cache().iterdir():
            if built.name.startswith(("fizzbee-", "s3-", "jdk-")):  # what `make prepare` has made
                (cache / built.name).symlink_to(built)
        for name, most_s in MOST_S.items():
            if name == "after an edit":
                with (package / EDITED).open("a") as file:
                    file.write("# edited\n")
            seconds, code, count = verified(folder, cache)
            rows = f"{count['ok']} rows ran, {count['kept']} were kept"
            print(f"{name}: {seconds:.0f} s, at most {most_s} s; {rows}; exit {code}", flush=True)
            print(*failing(folder), sep="\n", end="" if code == 0 else "\n", flush=True)
            failed |= code != 0 or seconds > most_s
    return int(failed)


def failing(folder: str) -> list[str]:
    """Return a line for each row that did not pass, in the report of the last run of the gate."""
    rows = json.loads((Path(folder) / "verify.json").read_text())["rows"]
    return [f"    {row['protocol']}: {row['part']}: {row['what']}: {row['message']}" for row in rows if row["code"]]


def verified(folder: str, cache: Path) -> tuple[float, int, Counter[str]]:
    """Run the gate. Return its seconds, its exit code, and the number of rows of each verdict."""
    report, began = Path(folder) / "verify.json", time.monotonic()
    command = [sys.executable, "-P", "-m", "highwater", "verify", "--json", str(report)]
    code = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL,
                          env=os.environ | {"PYTHONPATH": folder, "HIGHWATER_CACHE": str(cache)}).returncode
    seconds = time.monotonic() - began
    return seconds, code, Counter(row["verdict"] for row in json.loads(report.read_text())["rows"])
