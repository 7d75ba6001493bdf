"""Exploration on disk: states per second of XL, by processes and by Spark, beside the wide engine in memory.

Every count is checked. Each way is a process of its own. Only the search is timed, with warm workers; the start-up of the
workers is reported apart. Also measured: the cost of a level with few states, the memory of the program and of its largest
worker, and the size of the files. `python -m bench.exploration_on_disk WAY SYSTEM` is one run; TMPDIR says where the files go.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from highwater.dst.campaign.stages import local_stages
from highwater.dst.spark.session import SessionOptions
from highwater.dst.spark.stages import spark_stages
from highwater.gate import boundary_peer as bp
from highwater.model.core import Bounds, Exploration, Model, peak_bytes
from highwater.model.explore import wide
from highwater.model.explore.disk.search import PARTITIONS, explore

CORES, LEVELS = 2, 8
WAYS = {"memory": "in memory", "processes": f"on disk, {CORES} processes", "spark": f"on disk, Spark local[{CORES}]"}
LEAST, AIM = 150_000, 500_000  # states a second, of Spark


def run(way: str, name: str) -> dict:
    """Run one search in this process. Raises AssertionError for a wrong count."""
    model, measured = bp.model(bp.NAMED[name]), {}
    found = in_memory(model, measured) if way == "memory" else on_disk(way, model, measured)
    assert (found.states, found.transitions, found.depth) == bp.EXACT[bp.NAMED[name]], f"{name}, {WAYS[way]}: {found[:3]}"
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return measured | {"states": found.states, "bytes": peak_bytes(), "worker_bytes": workers.ru_maxrss * 1024}


def in_memory(model: Model, measured: dict) -> Exploration:
    began = time.perf_counter()
    found = wide.explore(model)
    measured["seconds"] = time.perf_counter() - began
    return found


def on_disk(way: str, model: Model, measured: dict) -> Exploration:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, \
            (spark_stages(SessionOptions(CORES)) if way == "spark" else local_stages(CORES)) as stages:
        out = Path(folder)
        for name in ("first", "small"):
            measured["start"], start = time.perf_counter() - began, time.perf_counter()
            explore(model, out / name, {}, nullcontext(stages), bounds=Bounds(depth=LEVELS - 1), few=0)
            measured["level"] = (time.perf_counter() - start) / LEVELS
        start = time.perf_counter()
        found = explore(model, out / "whole", {}, nullcontext(stages))
        measured["seconds"] = time.perf_counter() - start
        measured["disk"] = sum(path.stat().st_size for path in (out / "whole").rglob("*") if path.is_file())
    return found


def apart(way: str, name: str) -> dict:
    done = subprocess.run([sys.executable, "-m", "bench.exploration_on_disk", way, name], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name}, {WAYS[way]}, failed:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    name, rates = "XL", {}
    for way, what in WAYS.items():
        found = apart(way, name)
        rates[way] = found["states"] / found["seconds"]
        print(f"{name}: {what:22} {rates[way]:10,.0f} states/s, {found['seconds']:.1f} s, {found['bytes'] / 1e6:,.0f} MB",
              flush=True)
        if way != "memory":
            print(f"    {PARTITIONS} partitions, {found['disk'] / found['states']:.1f} bytes per state on disk; workers "
                  f"warm after {found['start']:.1f} s; {found['level']:.2f} s for a level of a few states", flush=True)
        if way == "processes":
            print(f"    the largest worker {found['worker_bytes'] / 1e6:,.0f} MB, including files that it read", flush=True)
    held = f"at least {LEAST:,}{'' if rates['spark'] >= LEAST else ': MISSED'}; aim: {AIM:,}"
    print(f"by Spark {rates['spark'] / rates['memory']:.2f} times the rate in memory ({held})")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(run(*sys.argv[1:])))
    else:
        main()
