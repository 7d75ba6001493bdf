"""Traces in bulk: events per second of `trace check`, in two processes and on Spark local[2] by turns.

The input is 100,000 runs of the simulator's benchmark (bench/simulation.py's scenario, strategy `times`) in two files. They
are kept in .cache/bulk/ for the next time. Start-up does not count: each round begins with new processes and new Spark workers
that have checked 400 runs. What they learn of the model after that does count.

A second row measures 4,000 drawn runs, in which half of the clients retry, with pages and checkpoints. Few events
recur in them. A third measures the drawn runs beside one huge run, which one process judges: it must not delay the end by more
than its own check takes."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa

from bench.simulation import ours
from highwater.dst.bulk import engines
from highwater.dst.bulk.checking import Asked
from highwater.dst.bulk.engines import Work, work_of
from highwater.dst.bulk.export import Export
from highwater.dst.bulk.sources import plan
from highwater.dst.campaign.what import NoSpark
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import many
from highwater.dst.spark import bulk as on_spark
from highwater.dst.spark.session import SessionOptions, session
from highwater.dst.version import code_version

JOBS, LEAST, TIMES = 2, 300_000, 3
RUNS = {"small": 100_000, "drawn": 4_000, "warm": 400}
HUGE = 1_000_000  # events of one run
NOISE = 1.1


def written(name: str) -> Path:
    """Return the folder of traces that this version of the code wrote; write it if it is missing."""
    folder = Path(__file__).parent.parent / ".cache" / "bulk" / f"{name}-{RUNS[name]}-{code_version()}"
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
            many(map(Run, range(low, high)), export.outcome)
        else:
            ours(range(low, high), export.outcome)


def written_huge() -> Path:
    """Return the file of a run of HUGE events, with one reader's last call repeated; write it if it is missing."""
    from tests.highwater.test_outside import reads

    file = Path(__file__).parent.parent / ".cache" / "bulk" / f"huge-{HUGE}-{code_version()}" / "huge.parquet"
    if not file.exists():
        run, events = reads(HUGE)
        with Export(file) as export:
            export.add("huge", run.scenario, " ".join(named(run.scenario).trace_options(run.shape)), events)
    return file


def on_processes(works: list[Work]) -> Iterator[pa.Table]:
    with engines.pool_of(JOBS) as pool:
        for work in works:
            yield engines.check(work, JOBS, pool=pool)


def on_local_spark(works: list[Work]) -> Iterator[pa.Table]:
    """Check each work on Spark and yield its rows. Raises NoSpark."""
    with session(SessionOptions(JOBS)) as spark:
        for work in works:
            yield on_spark.check(spark, work)


ENGINES = {f"{JOBS} processes": on_processes, f"Spark local[{JOBS}]": on_local_spark}


def measured(engine: Callable[[list[Work]], Iterator[pa.Table]], warm: Work, work: Work) -> tuple[pa.Table, float, float]:
    """Return the rows, the elapsed seconds and the CPU seconds. Raises NoSpark."""
    rows = engine([warm, work])
    next(rows)
    began, cpu_s = time.monotonic(), cpu_of_all_s()
    table = next(rows)
    took, cpu_s = time.monotonic() - began, cpu_of_all_s() - cpu_s
    rows.close()
    return table, took, cpu_s


def cpu_of_all_s() -> float:
    """Sum the CPU seconds of this process and its descendants; Spark's workers are not direct children."""
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


def delayed() -> bool:
    """Print the seconds of many runs, of a huge one, and of both. Return True if the huge one delays the others too much."""
    many, huge = str(written("drawn")), str(written_huge())
    took: list[float] = []
    for inputs in ([many], [huge], [huge, many]):
        warm, work = work_of(plan([str(written("warm"))]), JOBS, Asked()), work_of(plan(inputs), JOBS, Asked())
        took.append(statistics.median(measured(on_processes, warm, work)[1] for _ in range(TIMES)))
    print(f"{RUNS['drawn']:,} drawn runs {took[0]:.2f} s, a run of {HUGE:,} events {took[1]:.2f} s, both {took[2]:.2f} s in "
          f"{JOBS} processes; target: at most their sum", flush=True)
    return took[2] > NOISE * (took[0] + took[1])


def main() -> bool:
    """Print the rates. Return True if Spark misses its target, if the engines' rows differ, or if a huge run delays others."""
    failed, engines_there = False, dict(ENGINES)
    for name in ("small", "drawn"):
        warm, work = (work_of(plan([str(written(which))]), JOBS, Asked()) for which in ("warm", name))
        rates: dict[str, list[float]] = {}
        tables: list[pa.Table] = []
        for _ in range(TIMES):
            for what, engine in list(engines_there.items()):
                try:
                    table, took, cpu_s = measured(engine, warm, work)
                except NoSpark as error:
                    print(f"skipped: {what}: {error}")
                    del engines_there[what]
                    continue
                tables.append(table)
                rates.setdefault(what, []).append(work.events / took)
                print(f"{name}, {what}: {work.events:,} events in {took:.2f} s, {work.events / took:,.0f} events/s; "
                      f"{cpu_s / work.events * 1e6:.2f} us of CPU per event, so {JOBS * work.events / cpu_s:,.0f} events/s on "
                      f"{JOBS} idle cores (load {os.getloadavg()[0]:.1f})", flush=True)
        medians = {what: statistics.median(rate) for what, rate in rates.items()}
        print(f"{name}, {len(tables[0]):,} runs: " + ", ".join(f"{what} {rate:,.0f} events/s" for what, rate in medians.items())
              + (f"; target: at least {LEAST:,}" if name == "small" else ""), flush=True)
        if any(not table.equals(tables[0]) for table in tables) or set(tables[0]["verdict"].to_pylist()) != {"ok"}:
            print("FAILED: the engines' rows differ, or a run was not accepted")
            failed = True
        failed |= name == "small" and list(medians.values())[-1] < LEAST
    return failed | delayed()


if __name__ == "__main__":
    main()
