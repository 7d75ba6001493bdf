"""The engine of local processes. Safety: a seed that kills its process has a row, and the other seeds' rows are unaffected."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.campaign.place import Part, Target
from highwater.dst.campaign.rows import row_of_death, run_range
from highwater.dst.campaign.waves import Engine, Progress
from highwater.dst.campaign.what import Campaign, CampaignError, Seeds, Work

ALONE = "import sys; from highwater.dst.campaign.processes import alone; alone(sys.stdin.read())"


@contextmanager
def local_engine(jobs: int) -> Generator[Engine, None, None]:
    """Provide an engine of processes that are spawned, not forked, because the caller may have threads."""
    pools = [new_pool(jobs)]

    def engine(work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress) -> list[Part]:
        parts, todo = write_with_pool(pools[0], work, ranges, target, progress)
        if todo:  # a worker died and broke the pool: run each range alone to find the cause
            pools[0].shutdown(wait=True, cancel_futures=True)
            pools[0] = new_pool(jobs)
            parts += [part for seeds in todo for part in write(run_carefully(work, seeds), seeds, target)]
        return parts

    try:
        yield engine
    finally:
        pools[0].shutdown(wait=True, cancel_futures=True)


def new_pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker)


def begin_worker() -> None:
    """Prepare a worker: Ctrl-C ends it at once, and so does the end of its parent, even by SIGKILL."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=end_with, args=(parent_process(),), daemon=True).start()


def end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def write_with_pool(pool: ProcessPoolExecutor, work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress
                    ) -> tuple[list[Part], list[Seeds]]:
    """Write the ranges, but begin none after one in which several seeds did not end. Returns the target's parts, and the ranges
    that were not written because a worker died."""
    done, todo, parts = 0, set(ranges), []
    try:
        futures = {pool.submit(write_range, work, seeds, target): seeds for seeds in ranges}
        for future in as_completed(futures):
            if future.cancelled():
                todo.remove(futures[future])
                continue
            new, whole = future.result()
            parts += new
            todo.remove(futures[future])
            done += futures[future][1] - futures[future][0]
            progress(done)
            if not whole:
                for other in futures:
                    other.cancel()
    except BrokenProcessPool:
        pass
    except CampaignError:
        raise
    except Exception as error:  # for example a full disk; not caused by a seed
        raise CampaignError(f"a worker failed: {type(error).__name__}: {error}") from error
    return parts, sorted(todo)


def write_range(work: Work, seeds: Seeds, target: Path | Target) -> tuple[list[Part], bool]:
    """Run and write a range. Returns the target's parts, and whether each seed has a row."""
    table = run_range(work, seeds)
    return write(table, seeds, target), table.num_rows == seeds[1] - seeds[0]


def write(table: pa.Table, seeds: Seeds, target: Path | Target) -> list[Part]:
    """Write the rows completely or not at all: a killed worker may have left a part of a file under another name."""
    if not isinstance(target, Path):
        return [target.put(table, seeds)]
    half = target / f".{seeds[0]}-{seeds[1]}.parquet"
    pq.write_table(table, half)
    half.rename(target / half.name[1:])
    return []


# --- where a worker has died

def run_carefully(work: Work, seeds: Seeds) -> pa.Table:
    """Run a range in its own process. If the process dies, run each half, until the seed that caused it is known."""
    table, why = in_child(work, seeds)
    if table is not None:
        return table
    if seeds[1] - seeds[0] == 1:
        return row_of_death(work, seeds[0], why)
    middle = sum(seeds) // 2
    return pa.concat_tables([run_carefully(work, half) for half in ((seeds[0], middle), (middle, seeds[1]))])


def in_child(work: Work, seeds: Seeds) -> tuple[pa.Table | None, str]:
    """Return the rows; or None, and how the process died. Raises CampaignError if it could not run the range."""
    done = subprocess.run([sys.executable, "-c", ALONE], input=json.dumps([*work, seeds]).encode(), capture_output=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    if done.returncode == 0:
        return pa.ipc.open_stream(done.stdout).read_all(), ""
    if done.returncode < 0:
        return None, f"it killed its process: {signal.Signals(-done.returncode).name}"
    if done.returncode == FAILED:
        raise CampaignError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return None, f"it ended its process, with exit code {done.returncode}"


FAILED = 97  # exit code of a process that could not run the range, for a reason other than a seed


def alone(job: str) -> None:
    """Run a range, and write its rows to standard output as an Arrow stream."""
    out = os.dup(1)
    os.dup2(2, 1)  # keeps output of a run out of the rows
    try:
        campaign, limit_s, seeds = json.loads(job)
        table = run_range(Work(Campaign(*campaign), limit_s), tuple(seeds))
        with os.fdopen(out, "wb") as stream, pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(FAILED)
