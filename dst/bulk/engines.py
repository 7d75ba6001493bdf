"""Check traces in bulk, in this process or in other local ones. Safety: the rows do not depend on the number of processes.

Packets are kept in files between the two steps, so that the input need not fit in memory.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa

from highwater.dst.bulk.checking import Asked, judge
from highwater.dst.bulk.packets import packets
from highwater.dst.bulk.rows import SCHEMA, BulkError
from highwater.dst.bulk.sources import ALL, Choice, Plan, Split, groups, reads
from highwater.dst.campaign.processes import new_pool

PART_EVENTS = 250_000  # about, in one part: what one process holds in memory
FEWEST = 4  # parts, and groups of splits, for each process, so that none of them waits long for another at the end
Progress = Callable[[int], None]  # how many of 100 hundredths are done


class Work(NamedTuple):
    splits: list[Split]
    parts: int
    asked: Asked
    choice: Choice = ALL
    events: int = 0  # about


def work_of(plan: Plan, jobs: int, asked: Asked, choice: Choice = ALL) -> Work:
    return Work(plan.splits, parts_of(plan.events, jobs), asked, choice, plan.events)


def parts_of(events: int, jobs: int) -> int:
    return max(FEWEST * jobs if jobs > 1 else 1, -(-events // PART_EVENTS))


def sort_rows(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables or [SCHEMA.empty_table()]).sort_by([("run", "ascending"), ("namespace", "ascending")])


@contextmanager
def pool_of(jobs: int) -> Generator[ProcessPoolExecutor, None, None]:
    with new_pool(jobs) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def check(work: Work, jobs: int = 1, progress: Progress = lambda hundredths: None, pool: ProcessPoolExecutor | None = None
          ) -> pa.Table:
    """Return the rows of all runs, sorted by name. Raises BulkError."""
    with TemporaryDirectory(prefix="highwater-") as folder:
        if jobs == 1:
            return in_turn(map, work, Path(folder), progress)
        with nullcontext(pool) if pool else pool_of(jobs) as pool:
            try:
                return in_turn(partial(unordered, pool), work, Path(folder), progress)
            except BrokenProcessPool:
                raise BulkError("a process died, perhaps because memory ran out: try fewer --jobs") from None


def unordered(pool: ProcessPoolExecutor, function: Callable[[Any], Any], work: list[Any]) -> Iterator[Any]:
    return (future.result() for future in as_completed([pool.submit(function, one) for one in work]))


def in_turn(run: Callable[..., Iterator], work: Work, folder: Path, progress: Progress) -> pa.Table:
    of_part: dict[int, list[tuple[int, int, int]]] = {}
    tasks = list(enumerate(groups(work.splits, work.parts)))
    for done, (task, places) in enumerate(run(partial(pack, work, folder), tasks), 1):
        for part, low, high in places:
            of_part.setdefault(part, []).append((task, low, high))
        progress(50 * done // len(tasks))
    tables = []
    largest_first = sorted(map(sorted, of_part.values()), key=lambda places: -sum(high - low for _, low, high in places))
    for done, table in enumerate(run(partial(judge_part, work.asked, folder), largest_first), 1):
        tables.append(table)
        progress(50 + 50 * done // len(of_part))
    return sort_rows(tables)


def pack(work: Work, folder: Path, task: tuple[int, list[Split]]) -> tuple[int, list[tuple[int, int, int]]]:
    """Pack splits into a file. Returns its number and, for each packet, its part and its byte range in the file."""
    (number, splits), places = task, []
    with open(folder / str(number), "wb") as out:
        for read in (read for split in splits for read in reads(split, work.choice)):
            for part, payload in packets(read, work.parts):
                places.append((part, out.tell(), out.tell() + len(payload)))
                out.write(payload)
    return number, places


def judge_part(asked: Asked, folder: Path, places: list[tuple[int, int, int]]) -> pa.Table:
    return judge(payloads(folder, places), asked)


def payloads(folder: Path, places: list[tuple[int, int, int]]) -> Iterator[bytes]:
    for task, low, high in places:
        with open(folder / str(task), "rb") as packed:
            packed.seek(low)
            yield packed.read(high - low)
