"""Traces in bulk: events a second of `trace check` of many runs, in two processes and on Spark local[2], in turns.

Runs of the simulator's benchmark (bench/simulation.py's scenario, strategy `times`), 40,000 of them, in two files; kept under
.cache/ for the next time. Start-up aside: the processes of a pool, and Spark's session with its workers, have checked 400 runs
before; what was worked out of the model then counts for little. In a second row the same of drawn runs, where half of the
clients retry and there are namespaces with checkpoints and pages: traces/follow.py shortens little there."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.simulation import ours
from dst.bulk import engines, on_spark
from dst.bulk.checking import Asked
from dst.bulk.engines import Work, work_of
from dst.bulk.export import Export
from dst.bulk.sources import plan
from dst.campaign.spark import start_spark
from dst.campaign.what import NoSpark
from dst.simulate import many
from dst.version import ROOT, code_version

JOBS, LEAST, TIMES = 2, 300_000, 3
RUNS = {"small": 40_000, "drawn": 4_000, "warm": 400}


def written(name: str) -> Path:
    """A folder of traces, by this code."""
    folder = ROOT / ".cache" / "bulk" / f"{name}-{RUNS[name]}-{code_version()}"
    half = RUNS[name] // 2
    parts = [(name, low, low + half, folder / f"{low}.parquet") for low in (0, half)]
    todo = [part for part in parts if not part[3].exists()]
    if todo:
        with ProcessPoolExecutor(JOBS) as pool:
            list(pool.map(write, todo))
    return folder


def write(part: tuple[str, int, int, Path]) -> None:
    name, low, high, file = part
    with Export(file) as export:
        if name == "drawn":
            many(range(low, high), export.outcome)
        else:
            ours(range(low, high), export.outcome)


@contextmanager
def started() -> Iterator[dict[str, Callable[[Work], object]]]:
    """What checks, by name."""
    with engines.pool_of(JOBS) as pool:
        found: dict[str, Callable[[Work], object]] = {f"{JOBS} processes": lambda work: engines.check(work, JOBS, pool=pool)}
        try:
            spark = start_spark(JOBS, of_java=on_spark.OF_JAVA)
        except NoSpark as error:
            print(f"skipped: Spark: {error}")
            yield found
            return
        try:
            found[f"Spark local[{JOBS}]"] = lambda work: on_spark.check(spark, work)
            yield found
        finally:
            spark.stop()


def cpu_of_all_s() -> float:
    """Of this process and all that descend from it: Spark's are not our children."""
    spent, parents = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(stat.parent.name)
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(spent[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


def main() -> bool:
    """Whether Spark is slower than it may be, or the rows are not the same."""
    failed = False
    with started() as checks:
        for name in ("small", "drawn"):
            work, warm = (work_of(plan([str(written(which))]), JOBS, Asked()) for which in (name, "warm"))
            rates: dict[str, list[float]] = {what: [] for what in checks}
            rows = []
            for _ in range(TIMES):
                for what, check in checks.items():
                    check(warm)
                    began, cpu_s = time.monotonic(), cpu_of_all_s()
                    rows.append(check(work))
                    took, cpu_s = time.monotonic() - began, cpu_of_all_s() - cpu_s
                    rates[what].append(work.events / took)
                    print(f"{name}, {what}: {work.events:,} events in {took:.2f} s, {work.events / took:,.0f} a second; "
                          f"{cpu_s / work.events * 1e6:.2f} us of CPU each: {JOBS * work.events / cpu_s:,.0f} a second on "
                          f"{JOBS} cores of its own (load {os.getloadavg()[0]:.1f})", flush=True)
            medians = {what: statistics.median(rate) for what, rate in rates.items()}
            print(f"{name}: " + ", ".join(f"{what} {rate:,.0f} events/s" for what, rate in medians.items())
                  + (f"; {LEAST:,} asked" if name == "small" else ""), flush=True)
            if not all(row.equals(rows[0]) for row in rows):
                print("the rows are not the same")
                failed = True
            if name == "small" and list(medians.values())[-1] < LEAST:
                failed = True
    return failed


if __name__ == "__main__":
    main()
