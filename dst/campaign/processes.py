"""The engine of local processes. Safety: each seed that was run has one row.

Each worker runs its seeds in a child process of its own (supervised.py), so no seed ends a worker. A worker that ends all the
same, because the system killed it, is replaced, and its ranges are run again.
"""

import os
import signal
import threading
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.campaign.place import Part, Target
from highwater.dst.campaign.rows import keep_child, run_range
from highwater.dst.campaign.waves import Engine, Progress
from highwater.dst.campaign.what import CampaignError, Seeds, Work

MOST_LOST = 3  # times that a wave is begun again because a worker was killed


@contextmanager
def local_engine(jobs: int) -> Generator[Engine, None, None]:
    """Provide an engine of processes that are spawned, not forked, because the caller may have threads."""
    pools = [new_pool(jobs)]

    def engine(work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress) -> list[Part]:
        parts, todo = write_with_pool(pools[0], work, ranges, target, progress)
        for _ in range(MOST_LOST):
            if not todo:
                return parts
            pools[0].shutdown(wait=True, cancel_futures=True)
            pools[0] = new_pool(jobs)
            more, todo = write_with_pool(pools[0], work, todo, target, progress)
            parts += more
        if todo:
            raise CampaignError(f"workers were killed {MOST_LOST + 1} times, perhaps because memory ran out: use fewer --jobs")
        return parts

    try:
        yield engine
    except KeyboardInterrupt:
        for worker in active_children():  # they need not finish their ranges, of which nothing is kept
            worker.kill()
        raise
    finally:
        pools[0].shutdown(wait=True, cancel_futures=True)


def new_pool(jobs: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker)


def begin_worker() -> None:
    """Prepare a worker: Ctrl-C ends it at once, and so does the end of its parent, even by SIGKILL."""
    keep_child()
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
