"""The engine of campaigns on Spark. Safety: the rows are the same as those of any other engine.

Each task carries the sources that a run depends on (shipping.py). It runs the seeds in a child process
(dst/campaign/supervised.py), so no seed ends a task. The tasks write the rows. So they must share the folder with the driver,
or put the rows into a bucket.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from highwater.dst.campaign.place import Part, Target
from highwater.dst.campaign.rows import SCHEMA, SQL_TYPES
from highwater.dst.campaign.triage import Shrinker, Small, ToShrink, small_of
from highwater.dst.campaign.waves import Progress
from highwater.dst.campaign.what import Campaign, Seeds, Work
from highwater.dst.search.shrink import BUDGET
from highwater.dst.spark.session import SessionOptions, session, slots
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import answers, watch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in SCHEMA)


@contextmanager
def spark_engine(options: SessionOptions) -> Generator["OfSession", None, None]:
    """Provide an engine. Raises NoSpark."""
    with session(options) as spark:
        yield OfSession(spark)


class OfSession:
    """The engine of a session that runs."""

    def __init__(self, spark: "SparkSession"):
        self.spark = spark
        self.wave = 0  # that runs, or the last one

    def __call__(self, work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress) -> list[Part]:
        self.wave += 1
        what = f"campaign {work.campaign.scenario}, wave {self.wave}, seeds {ranges[0][0]:,} to {ranges[-1][1]:,}"
        return write_with_spark(self.spark, work, ranges, target, progress, what)

    def slots(self) -> int:
        return slots(self.spark)


def task_of(work: Work, ranges: list[Seeds], target: Path | Target | None = None
            ) -> Callable[[Iterable["pa.RecordBatch"]], Iterator]:
    """Return a worker's function, which runs its ranges. It returns their rows, if the target is a folder that the worker
    sees, or None; else it gives them to the target and returns its parts."""
    module, pairs = shipped(work.campaign.code), list(map(tuple, ranges))
    campaign, limit_s = tuple(work.campaign), work.limit_s
    # A target is a tuple of plain values; a worker without highwater could not read the target itself.
    folder = str(target.absolute()) if isinstance(target, Path) else ""
    kind, fields = type(target), () if folder or target is None else tuple(cast("Iterable[Any]", target))
    kinds = kind.__module__, kind.__name__

    def written(batches: Iterable[Any]) -> Iterator[Any]:
        import json
        import os
        import socket

        import pyarrow

        rows, what = module("highwater.dst.campaign.rows"), module("highwater.dst.campaign.what")
        if folder and not os.path.isdir(folder):
            raise what.CampaignError(f"the worker on {socket.gethostname()} does not see {os.path.dirname(folder)}: give a "
                                     "folder that this machine and all workers share, or s3://BUCKET/PREFIX")
        rows.keep_child()
        job = what.Work(what.Campaign(*campaign), limit_s)
        to = getattr(module(kinds[0]), kinds[1])(*fields) if fields else None
        for batch in batches:
            for number in batch.column("id").to_pylist():
                table = rows.run_range(job, pairs[number])
                if to is None:
                    yield from table.to_batches()
                else:
                    yield pyarrow.record_batch([pyarrow.array([json.dumps(to.put(table, pairs[number]))])], ["part"])

    return written


def rows_of_seeds(spark: "SparkSession", work: Work, ranges: list[Seeds]) -> "DataFrame":
    """Return the rows of all seeds as a DataFrame, which runs them when it is asked: one task for each range."""
    return spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(task_of(work, ranges), COLUMNS)


def write_with_spark(spark: "SparkSession", work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress,
                     what: str) -> list[Part]:
    """Run one task for each range. It receives the range's number, and makes one row for each seed. Into a folder Spark writes
    the rows; to any other target the task gives them itself, and returns the part."""
    parts: list[Part] = []

    def write() -> None:
        numbers = spark.range(0, len(ranges), 1, len(ranges))
        if isinstance(target, Path):
            frame = numbers.mapInArrow(task_of(work, ranges, target), COLUMNS)
            frame.write.mode("append").parquet(f"file://{target.absolute()}")  # Hadoop expects it unquoted
            return
        done = numbers.mapInArrow(task_of(work, ranges, target), "part string").collect()
        parts.extend(Part(*json.loads(row["part"])) for row in done)

    seeds = sum(hi - lo for lo, hi in ranges)
    watch(spark, what, write, seeds, progress)
    return parts


@contextmanager
def shrinking_on_spark(options: SessionOptions) -> Generator[Shrinker, None, None]:
    """Provide a Shrinker on Spark; compare `shrinking_in_processes` in triage.py."""
    with session(options) as spark:
        def each(campaign: Campaign, those: list[ToShrink], budget: int = BUDGET) -> list[Small]:
            tasks = [(tuple(campaign), *one, budget) for one in those]
            found = answers(spark, shipped(campaign.code), "highwater.dst.campaign.triage", "shrunk", tasks,
                            f"triage {campaign.scenario}, {len(tasks):,} failures")
            return [small_of(campaign, said) for said in found]

        yield each
