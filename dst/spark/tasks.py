"""Run tasks on Spark: watch a job and report its progress, and collect one answer for each task."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType
from typing import TYPE_CHECKING, Any

from highwater.dst.campaign.waves import Progress
from highwater.dst.campaign.what import CampaignError
from highwater.dst.spark.session import is_remote, is_there

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def watch(spark: "SparkSession", job: Callable[[], None], seeds: int, progress: Progress) -> None:
    """Run the job in another thread, and report its progress meanwhile. Raises CampaignError if it fails."""
    with ThreadPoolExecutor(1) as thread:
        future, part = thread.submit(job), 0.0
        try:
            while not wait([future], timeout=0.5).done:
                part = max(part, part_done(spark))  # no stage is active before the first or after the last
                progress(int(seeds * part))
            future.result()
        except Exception as error:
            raise CampaignError(f"Spark: {'' if is_there(spark) else 'its Java process has ended: '}{error}") from error
        finally:
            if is_there(spark):
                spark.sparkContext.cancelAllJobs()  # a job is left only after Ctrl-C or an exception here


def part_done(spark: "SparkSession") -> float:
    tracker = spark.sparkContext.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
    return sum(info.numCompletedTasks for info in stages) / max(sum(info.numTasks for info in stages), 1)


def watch_remote(spark: "SparkSession", job: Callable[[], None], seeds: int, progress: Progress) -> None:
    """Run the job by Spark Connect, whose server reports the progress. Raises CampaignError if it fails."""
    def told(stages: Any = (), **_: object) -> None:
        tasks, done = (sum(getattr(stage, name) for stage in stages) for name in ("num_tasks", "num_completed_tasks"))
        progress(int(seeds * done / max(tasks, 1)))

    spark.registerProgressHandler(told)  # pyright: ignore[reportArgumentType]  # it is called with keywords
    try:
        job()
    except Exception as error:
        raise CampaignError(f"Spark: {error}") from error
    finally:
        spark.interruptAll()
        spark.removeProgressHandler(told)  # pyright: ignore[reportArgumentType]  # as above


def answers(spark: "SparkSession", module: Callable[[str], ModuleType], of: str, function: str, tasks: list[tuple]
            ) -> list[Any]:
    """Call a function of module `of` in one task for each argument tuple, and return the results in order.

    The function also receives a name of the attempt. Arguments must be of Python's own types; results go through JSON. Raises
    CampaignError."""
    def done(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context  # in a task there is one
        do, mark = getattr(module(of), function), str(context.taskAttemptId())
        for batch in batches:
            for number in batch.column("id").to_pylist():
                columns = pyarrow.array([number], pyarrow.int64()), pyarrow.array([json.dumps(do(*tasks[number], mark))])
                yield pyarrow.record_batch(list(columns), ["id", "result"])

    def collect() -> None:
        together = len(tasks) if is_remote(spark) else min(len(tasks), 2 * spark.sparkContext.defaultParallelism)  # at once
        rows.extend(spark.range(0, len(tasks), 1, together).mapInArrow(done, "id long, result string").collect())

    rows: list[Any] = []
    (watch_remote if is_remote(spark) else watch)(spark, collect, 0, lambda done: None)
    return [json.loads(row["result"]) for row in sorted(rows, key=lambda row: row["id"])]
