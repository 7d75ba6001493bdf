"""Run tasks on Spark: watch a job and report its progress, and collect one answer for each task.

Safety: jobs of others in the same session go on, and its user's threads keep their descriptions and tags.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from secrets import token_hex
from types import ModuleType
from typing import TYPE_CHECKING, Any

from highwater.dst.campaign.waves import Progress
from highwater.dst.campaign.what import CampaignError, NoSpark
from highwater.dst.spark.errors import report
from highwater.dst.spark.session import is_remote, is_there, other_python, python_wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_PYTHON = re.compile(r"Python in worker has different version: (\d+\.\d+)")
NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
OURS = re.compile(r"^(?:[\w.]+\.)?(?:CampaignError|ProjectError|PermissionError): (.+)$", re.MULTILINE)  # in Python's traceback
LACKS = re.compile(r"^ModuleNotFoundError: (.+)$", re.MULTILINE)
DESCRIPTION = "spark.job.description"


def failure(error: Exception, ended: bool = False) -> CampaignError:
    """Return the error that a failed job is reported by, in one line. `ended`: Java has."""
    text = str(error)
    if found := OTHER_PYTHON.search(text):
        return NoSpark(other_python(found[1]))
    if found := NO_PROGRAM.search(text):
        return NoSpark(f"Spark's workers have no {found[1]}: {python_wanted()}")
    if found := OURS.search(text):
        return CampaignError(f"Spark: {found[1]}")
    if found := LACKS.search(text):
        return CampaignError(f"Spark: a worker's Python lacks what is needed: {found[1]}")
    return CampaignError(f"Spark: {'its Java process has ended: ' if ended else ''}{report(error)}")


def watch(spark: "SparkSession", what: str, job: Callable[[], None], units: int = 0, progress: Progress = lambda done: None
          ) -> None:
    """Run a job, and report its progress meanwhile. `what`: the job in words, for Spark's UI. At the end cancel what the job
    has left, and no other job of the session. Raises CampaignError if it fails."""
    tag = f"{what.replace(',', '')} {token_hex(4)}"
    (watch_remote if is_remote(spark) else watch_classic)(spark, what, tag, job, units, progress)


def watch_classic(spark: "SparkSession", what: str, tag: str, job: Callable[[], None], units: int, progress: Progress) -> None:
    """Run the job in another thread, which has the settings of this one, but for its tag and its description."""
    from pyspark import inheritable_thread_target

    context = spark.sparkContext
    before = context.getLocalProperty(DESCRIPTION)

    def described() -> None:
        context.addJobTag(tag)
        context.setJobDescription(what)
        try:
            job()
        finally:
            if is_there(spark):  # without pinned threads the JVM's thread is not this thread's alone
                context.removeJobTag(tag)
                context.setLocalProperty(DESCRIPTION, before)  # pyright: ignore[reportArgumentType]  # None unsets it

    with ThreadPoolExecutor(1) as thread:
        future, part = thread.submit(inheritable_thread_target(spark)(described)), 0.0
        try:
            while not wait([future], timeout=0.5).done:
                part = max(part, part_done(spark, tag))  # no stage is active before the first or after the last
                progress(int(units * part))
            future.result()
        except Exception as error:
            raise failure(error, not is_there(spark)) from error
        finally:
            if is_there(spark):
                context.cancelJobsWithTag(tag)  # a job is left only after Ctrl-C or an exception here


def part_done(spark: "SparkSession", tag: str) -> float:
    tracker = spark.sparkContext.statusTracker()
    active = {*tracker.getActiveStageIds()}
    context: Any = spark.sparkContext
    numbers = context._jsc.sc().statusTracker().getJobIdsForTag(tag)
    jobs = [info for job in numbers if (info := tracker.getJobInfo(job))]
    stages = [info for job in jobs for stage in job.stageIds if stage in active and (info := tracker.getStageInfo(stage))]
    return sum(info.numCompletedTasks for info in stages) / max(sum(info.numTasks for info in stages), 1)


def watch_remote(spark: "SparkSession", what: str, tag: str, job: Callable[[], None], units: int, progress: Progress) -> None:
    """Run the job by Spark Connect, whose server reports the progress, and describes the job."""
    def told(stages: Any = (), **_: object) -> None:
        tasks, done = (sum(getattr(stage, name) for stage in stages) for name in ("num_tasks", "num_completed_tasks"))
        progress(int(units * done / max(tasks, 1)))

    spark.registerProgressHandler(told)  # pyright: ignore[reportArgumentType]  # it is called with keywords
    spark.addTag(tag)
    try:
        job()
    except Exception as error:
        raise failure(error) from error
    finally:
        spark.removeTag(tag)
        spark.removeProgressHandler(told)  # pyright: ignore[reportArgumentType]  # as above
        with suppress(Exception):  # the server is gone
            spark.interruptTag(tag)


def answers(spark: "SparkSession", module: Callable[[str], ModuleType], of: str, function: str, tasks: list[tuple], what: str
            ) -> list[Any]:
    """Call a function of module `of` in one task for each argument tuple, and return the results in order. `what`: the job in
    words.

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
    watch(spark, what, collect)
    return [json.loads(row["result"]) for row in sorted(rows, key=lambda row: row["id"])]
