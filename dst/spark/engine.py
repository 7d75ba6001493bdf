"""Safety: whatever Spark runs the ranges on, the rows are those of any other engine. A campaign's engine on Spark.

Each task carries the sources that a run depends on (shipping.py). Where a worker died in a range, its task is tried again, and
then runs the range in processes that may die (dst/campaign/processes.py). Rows are written by the tasks, so the folder must be
one that they and the driver share.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highwater.dst.campaign.rows import SCHEMA, SQL_TYPES
from highwater.dst.campaign.triage import Shrinker, Small, ToShrink, small_of
from highwater.dst.campaign.waves import Engine, Progress
from highwater.dst.campaign.what import Campaign, Seeds, Work
from highwater.dst.search.shrink import BUDGET
from highwater.dst.spark.session import is_remote, session
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import answers, watch, watch_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

COLUMNS = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in SCHEMA)


@contextmanager
def spark_engine(jobs: int, master: str = "") -> Iterator[Engine]:
    with session(jobs, master) as spark:
        yield partial(write_with_spark, spark)


def task_of(work: Work, ranges: list[Seeds]) -> Callable[[Iterable["pa.RecordBatch"]], Iterator]:
    """What a worker does."""
    module, ranges = shipped(work.campaign.code), list(map(tuple, ranges))
    campaign, limit_s, corpus = tuple(work.campaign), work.limit_s, tuple(work.corpus)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        run, what = module("highwater.dst.campaign.rows").run_range, module("highwater.dst.campaign.what")
        if TaskContext.get().attemptNumber():
            run = module("highwater.dst.campaign.processes").run_carefully
        job = what.Work(what.Campaign(*campaign), limit_s, what.Corpus(*corpus))
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from run(job, ranges[number]).to_batches()

    return rows


def write_with_spark(spark: "SparkSession", work: Work, ranges: list[Seeds], folder: Path, progress: Progress) -> None:
    """One task a range: one row with its number in, one row a seed out, written by the task."""
    def write() -> None:
        frame = spark.range(0, len(ranges), 1, len(ranges)).mapInArrow(task_of(work, ranges), COLUMNS)
        frame.write.mode("append").parquet(f"file://{folder.absolute()}")  # Hadoop does not want it quoted

    seeds = sum(hi - lo for lo, hi in ranges)
    (watch_remote if is_remote(spark) else watch)(spark, write, seeds, progress)


@contextmanager
def shrinking_on_spark(jobs: int, master: str = "") -> Iterator[Shrinker]:
    """As triage.py's `shrinking_in_processes`."""
    with session(jobs, master) as spark:
        def each(campaign: Campaign, those: list[ToShrink], budget: int = BUDGET) -> list[Small]:
            tasks = [(tuple(campaign), *one, budget) for one in those]
            found = answers(spark, shipped(campaign.code), "highwater.dst.campaign.triage", "shrunk", tasks)
            return [small_of(campaign, said) for said in found]

        yield each
