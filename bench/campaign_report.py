"""Measures CPU seconds and memory of `highwater campaign report` and `campaign sql` on a large campaign.

    python -m bench.campaign_report [--rows 2000000] [--keep DIR]

The rows of a few real runs are repeated under other seeds, with a tenth of their sketches' hashes replaced. Files and waves
are as a campaign writes them. Each command runs once, in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.campaign.folder import VERSION, Asked, write_json
from highwater.dst.campaign.rows import run_range
from highwater.dst.campaign.what import Work, campaign_of

REAL, FILE, WAVE = 2_000, 500, 16  # runs; rows in a file; files in a wave


def made(out: Path, rows: int) -> None:
    campaign = campaign_of()
    real, random = run_range(Work(campaign, 60), (0, REAL)).combine_chunks(), np.random.default_rng(1)
    for low in range(0, rows, REAL):
        table = real.set_column(0, "seed", pa.array(np.arange(low, low + REAL)))
        for name in ("model_states", "model_steps"):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), mixed(table[name], random, low))
        for at in range(0, REAL, FILE):
            folder = out / "rows" / f"wave={(low + at) // FILE // WAVE}"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.slice(at, FILE), folder / f"{low + at}-{low + at + FILE}.parquet")
    write_json(out / "campaign.json", {"version": VERSION, **campaign._asdict(), "asked": Asked((0, rows))._asdict()})


def mixed(sketches: pa.ChunkedArray, random: np.random.Generator, low: int) -> pa.Array:
    lists = sketches.chunk(0)
    hashes = lists.values.to_numpy().copy()
    if low:
        new = random.random(len(hashes)) < 0.1
        hashes[new] = random.integers(-2**60, 2**60, int(new.sum())) * 8
    return pa.ListArray.from_arrays(lists.offsets, pa.array(hashes))


def measured(*words: object) -> tuple[float, float, float]:
    """Run one command; return its CPU seconds, elapsed seconds and peak MiB. Raises SystemExit if it fails."""
    began = time.monotonic()
    running = subprocess.Popen([sys.executable, "-m", "highwater", *map(str, words)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit code {running.returncode}")
    return used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keep", type=Path, help="the folder of the campaign; it is created if missing, and kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = given.keep or Path(temporary) / "campaign"
        if not (out / "campaign.json").exists():
            made(out, given.rows)
        size = sum(path.stat().st_size for path in out.rglob("*.parquet"))
        print(f"{given.rows:,} rows, {size / 2**20:,.0f} MiB; {len(os.sched_getaffinity(0))} processors, load "
              f"{os.getloadavg()[0]:.1f}")
        for words in (("campaign", "report", out), ("campaign", "sql", out, "select count(*), sum(requests) from runs"),
                      ("campaign", "sql", out, "select fault, sum(times) from faults group by fault")):
            cpu_s, wall_s, most = measured(*words)
            print(f"{' '.join(map(str, words[:2])):16} {cpu_s:6.1f} CPU s, {wall_s:6.1f} s, peak {most:,.0f} MiB"
                  f"{'' if words[1] == 'report' else ': ' + str(words[3])}")


if __name__ == "__main__":
    main()
