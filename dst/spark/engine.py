"""Safety: whatever Spark runs the ranges on, the rows are those of any other engine. The engine on Spark, named only here.

A local session, a cluster (`--master spark://.., yarn, local-cluster[..]`) or Spark Connect (`--master sc://host:port`). Each
task carries the sources that a run depends on: a worker that has other code, or none, runs those. Where a worker died in a
range, its task is tried again, and then runs the range in processes that may die (processes.py). Rows are written by the tasks,
so the folder must be one that they and the driver share.
"""

import importlib.util
import io
import json
import logging
import os
import socket
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from highwater.dst.campaign.rows import SCHEMA, SQL_TYPES
from highwater.dst.campaign.triage import Shrinker, Small, ToShrink, small_of
from highwater.dst.campaign.waves import Engine, Progress
from highwater.dst.campaign.what import Campaign, CampaignError, NoSpark, Seeds, Work
from highwater.dst.search.shrink import BUDGET
from highwater.dst.version import CODE, ROOT, code_version
from highwater.model.explore.disk.search import Stages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CONNECT_PORT = 15002  # where Connect listens, if no port is said
REACH_S = 10
ATTEMPTS = 2  # of a task: the second is careful
COLUMNS = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in SCHEMA)


@contextmanager
def spark_engine(jobs: int, master: str = "") -> Iterator[Engine]:
    with session(jobs, master) as spark:
        yield partial(write_with_spark, spark)


@contextmanager
def session(jobs: int, master: str = "", of_java: str = "") -> Iterator["SparkSession"]:
    """Raises NoSpark."""
    spark = start_spark(jobs, master, of_java)
    try:
        yield spark
    finally:
        if is_remote(spark) or is_there(spark):
            spark.stop()


def start_spark(jobs: int, master: str = "", of_java: str = "") -> "SparkSession":
    """A session of this process; of a local one nothing listens outside of the machine. `of_java`: options of the one that runs
    here. Raises NoSpark."""
    os.environ.update(PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # where Java was killed we say so, in a line
    if master.startswith("sc://"):
        try:
            reach(master)
            return SparkSession.builder.remote(master).getOrCreate()
        except Exception as error:
            raise NoSpark(f"{master}: {str(error).strip().splitlines()[0]}") from error
    java = load_java()
    home = java.find_java()
    if home is None:
        raise NoSpark(java.MISSING)
    os.environ.update(JAVA_HOME=home)
    if not master or master.startswith("local"):
        os.environ.update(SPARK_LOCAL_IP="127.0.0.1")
    settings = {
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
           if not master or master.startswith("local") else {}),
        **({"spark.driver.extraJavaOptions": of_java} if of_java else {}),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # of a task that fails we tell ourselves
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes says where
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",  # tasks put files in place: we commit the folder
    }
    builder = SparkSession.builder.appName("highwater campaign").master(master or f"local[{jobs},{ATTEMPTS}]")
    try:
        return builder.config(map=settings).getOrCreate()
    except Exception as error:
        raise NoSpark(f"Spark does not start ({master or 'local'}): {str(error).strip().splitlines()[0]}") from error


def reach(master: str) -> None:
    """A Connect client tries for ten minutes, and says nothing. Raises OSError, ValueError."""
    url = urlsplit(master)
    socket.create_connection((url.hostname or "localhost", url.port or CONNECT_PORT), timeout=REACH_S).close()


def load_java() -> ModuleType:
    found = importlib.util.spec_from_file_location("highwater_java", ROOT / "tools" / "java.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def sources() -> bytes:
    """What a run depends on, as a zip file: the same bytes for the same code."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for pattern in ("__init__.py", *CODE) for path in ROOT.glob(pattern)):
            archive.writestr(zipfile.ZipInfo(path.relative_to(ROOT.parent).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def shipped(code: str) -> Callable[[str], ModuleType]:
    """What a worker imports our modules with: of these sources, sent along if it has others. It is sent by its code, as is
    what calls it, so both must name nothing of ours but within."""
    packed, root = sources(), str(ROOT.parent)

    def module(name: str) -> Any:
        import importlib
        import io
        import sys
        import tempfile
        import zipfile
        from pathlib import Path

        def unpacked() -> str:
            """The sources that were sent: one folder for each version of the code, put there in one step."""
            place = Path(tempfile.gettempdir()) / f"highwater-{code}"
            if not place.is_dir():
                half = tempfile.mkdtemp(prefix="highwater-")
                zipfile.ZipFile(io.BytesIO(packed)).extractall(half)
                try:
                    Path(half).rename(place)
                except OSError:
                    pass  # another worker was first
            return str(place)

        def version() -> str:
            try:
                return importlib.import_module("highwater.dst.version").code_version()
            except ImportError:
                return ""

        if Path(root).is_dir() and root not in sys.path:
            sys.path.insert(0, root)
        if version() != code:
            for of in [of for of in sys.modules if of.partition(".")[0] == "highwater"]:
                del sys.modules[of]
            sys.path.insert(0, unpacked())
            importlib.invalidate_caches()
        return importlib.import_module(name)

    return module


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


def is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def watch(spark: "SparkSession", job: Callable[[], None], seeds: int, progress: Progress) -> None:
    """Do the job in another thread, and tell how far it is meanwhile. Raises CampaignError if it fails."""
    with ThreadPoolExecutor(1) as thread:
        future, part = thread.submit(job), 0.0
        try:
            while not wait([future], timeout=0.5).done:
                part = max(part, part_done(spark))  # no stage is active before the first, nor after the last
                progress(int(seeds * part))
            future.result()
        except Exception as error:
            raise CampaignError(f"Spark: {'' if is_there(spark) else 'its Java process has ended: '}{error}") from error
        finally:
            if is_there(spark):
                spark.sparkContext.cancelAllJobs()  # there is one left only after Ctrl-C, or an exception here


def is_there(spark: "SparkSession") -> bool:
    """Its Java process, that is."""
    try:
        spark.sparkContext.statusTracker().getActiveStageIds()
    except Exception:
        return False
    return True


def part_done(spark: "SparkSession") -> float:
    tracker = spark.sparkContext.statusTracker()
    stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
    return sum(info.numCompletedTasks for info in stages) / max(sum(info.numTasks for info in stages), 1)


def watch_remote(spark: "SparkSession", job: Callable[[], None], seeds: int, progress: Progress) -> None:
    """The same by Spark Connect, whose server tells."""
    def told(stages: Any = (), **_: object) -> None:
        tasks, done = (sum(getattr(stage, name) for stage in stages) for name in ("num_tasks", "num_completed_tasks"))
        progress(int(seeds * done / max(tasks, 1)))

    spark.registerProgressHandler(told)
    try:
        job()
    except Exception as error:
        raise CampaignError(f"Spark: {error}") from error
    finally:
        spark.interruptAll()
        spark.removeProgressHandler(told)


# --- an exploration's stages (model/explore/disk/search.py)

@contextmanager
def spark_stages(jobs: int, master: str = "") -> Iterator[Stages]:
    with session(jobs, master) as spark:
        yield partial(run_stage, spark, shipped(code_version()))


def run_stage(spark: "SparkSession", module: Callable[[str], ModuleType], work: str, tasks: list[dict]) -> list[dict]:
    """Raises CampaignError."""
    return answers(spark, module, "highwater.model.explore.disk.work", "do", [(work, task) for task in tasks])


# --- whatever else has an answer

def answers(spark: "SparkSession", module: Callable[[str], ModuleType], of: str, function: str, tasks: list[tuple]
            ) -> list[Any]:
    """One task each, in their order: what the function of module `of` makes of it and of a name of the attempt. What goes there
    is of Python's own types; what comes back, JSON. Raises CampaignError."""
    def done(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        do, mark = getattr(module(of), function), str(TaskContext.get().taskAttemptId())
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


@contextmanager
def shrinking_on_spark(jobs: int, master: str = "") -> Iterator[Shrinker]:
    """As triage.py's `shrinking_in_processes`."""
    with session(jobs, master) as spark:
        def each(campaign: Campaign, those: list[ToShrink], budget: int = BUDGET) -> list[Small]:
            tasks = [(tuple(campaign), *one, budget) for one in those]
            found = answers(spark, shipped(campaign.code), "highwater.dst.campaign.triage", "shrunk", tasks)
            return [small_of(campaign, said) for said in found]

        yield each
