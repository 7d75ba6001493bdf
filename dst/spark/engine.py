"""The engine of campaigns on Spark. Safety: the rows are the same as those of any other engine.

Each task carries the sources that a run depends on (shipping.py). If a worker dies, its task is tried again and runs the range
in expendable processes (dst/campaign/processes.py). The tasks write the rows. So they must share the folder with the driver, or
put the rows into a bucket.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from highwater.dst.campaign.place import Part, Target
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
def spark_engine(jobs: int, master: str = "") -> Generator[Engine, None, None]:
    with session(jobs, master) as spark:
        yield partial(write_with_spark, spark)


def task_of(work: Work, ranges: list[Seeds], target: Target | None = None) -> Callable[[Iterable["pa.RecordBatch"]], Iterator]:
    """Return a worker's function, which runs its ranges. It returns their rows, or gives them to the target and returns its
    parts."""
    module, pairs = shipped(work.campaign.code), list(map(tuple, ranges))
    campaign, limit_s = tuple(work.campaign), work.limit_s
    # A target is a tuple of plain values; a worker without highwater could not read the target itself.
    kind, fields = type(target), tuple(cast("Iterable[Any]", target or ()))
    kinds = kind.__module__, kind.__name__

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        import json

        import pyarrow
        from pyspark import TaskContext

        run, what = module("highwater.dst.campaign.rows").run_range, module("highwater.dst.campaign.what")
        task = TaskContext.get()
        if task and task.attemptNumber():
            run = module("highwater.dst.campaign.processes").run_carefully
        job = what.Work(what.Campaign(*campaign), limit_s)
        to = getattr(module(kinds[0]), kinds[1])(*fields) if fields else None
        for batch in batches:
            for number in batch.column("id").to_pylist():
                table = run(job, pairs[number])
                if to is None:
                    yield from table.to_batches()
                else:
                    yield pyarrow.record_batch([pyarrow.array([json.dumps(to.put(table, pairs[number]))])], ["part"])

    return rows


def write_with_spark(spark: "SparkSession", work: Work, ranges: list[Seeds], target: Path | Target, progress: Progress
                     ) -> list[Part]:
    """Run one task for each range. It receives the range's number, and makes one row for each seed. Into a folder Spark writes
    the rows; to any other target the task gives them itself, and returns the part."""
    parts: list[Part] = []

    def write() -> None:
        numbers = spark.range(0, len(ranges), 1, len(ranges))
        if isinstance(target, Path):
            frame = numbers.mapInArrow(task_of(work, ranges), COLUMNS)
            frame.write.mode("append").parquet(f"file://{target.absolute()}")  # Hadoop expects it unquoted
            return
        done = numbers.mapInArrow(task_of(work, ranges, target), "part string").collect()
        parts.extend(Part(*json.loads(row["part"])) for row in done)

    seeds = sum(hi - lo for lo, hi in ranges)
    (watch_remote if is_remote(spark) else watch)(spark, write, seeds, progress)
    return parts


@contextmanager
def shrinking_on_spark(jobs: int, master: str = "") -> Generator[Shrinker, None, None]:
    """Provide a Shrinker on Spark; compare `shrinking_in_processes` in triage.py."""
    with session(jobs, master) as spark:
        def each(campaign: Campaign, those: list[ToShrink], budget: int = BUDGET) -> list[Small]:
            tasks = [(tuple(campaign), *one, budget) for one in those]
            found = answers(spark, shipped(campaign.code), "highwater.dst.campaign.triage", "shrunk", tasks)
            return [small_of(campaign, said) for said in found]

        yield each
