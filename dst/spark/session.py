"""Start and end a Spark session of a verb.

It may be local, on a cluster (`--master spark://.., yarn, local-cluster[..]`), use Spark Connect (`--master sc://host:port`),
or be that of a program which spark-submit has started. Safety: a local session does not listen outside the machine, unless a
setting of the user's says so, and a session ends with its verb.
"""

import importlib.util
import logging
import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from highwater.dst.campaign.what import NoSpark
from highwater.dst.spark.errors import report
from highwater.dst.version import ROOT

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

MOST_SLOTS = 10_000  # that are asked for work at once
PYTHON = "spark.pyspark.python"  # Spark's setting, which precedes the variable
VARIABLE = "PYSPARK_PYTHON"
BARS = "spark.ui.showConsoleProgress"
PYTHON_S = 60  # for a Python to report its version
REPORTS = "import sys; print(*sys.version_info[:2], sep='.')"
HERE = ".".join(map(str, sys.version_info[:2]))
CONNECT_PORT = 15002  # Connect's usual port
REACH_S = 10
ATTEMPTS = 2  # of a task, whose worker may be lost
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # of a local session, in which Python does the work, and Java lives shortly
GATEWAY = "PYSPARK_GATEWAY_PORT"  # spark-submit has started this program, and its Java
UNNAMED = ("pyspark-shell", "submit.py")  # application names that Spark takes from what it starts


class SessionOptions(NamedTuple):
    """How to start a session."""

    jobs: int = 1  # tasks at once, if there is no master
    master: str = ""  # "": that of spark-submit; else a local one
    conf: tuple[tuple[str, str], ...] = ()  # settings of Spark, which precede all others
    name: str = "highwater"  # of the application


@contextmanager
def session(options: SessionOptions) -> Generator["SparkSession", None, None]:
    """Provide a session for a block. Raises NoSpark."""
    spark = start_spark(options)
    try:
        yield spark
    finally:
        if is_remote(spark) or is_there(spark):
            spark.stop()


def start_spark(options: SessionOptions) -> "SparkSession":
    """Start a session of this process. Workers run the Python of Spark's setting PYTHON, else that of the variable, else this
    one by its path. What the user has set for Spark, here or in a file of Spark, precedes our settings. Raises NoSpark."""
    os.environ[VARIABLE] = os.environ.get(VARIABLE) or sys.executable
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # if Java was killed, our own message says so
    master = options.master or ("" if is_submitted() else f"local[{options.jobs}]")
    if master.startswith("sc://"):
        try:
            reach(master)
            return SparkSession.builder.remote(master).config(map=dict(options.conf)).getOrCreate()
        except Exception as error:
            raise NoSpark(f"{master}: {report(error)}") from error
    if not is_submitted():
        java = load_java()
        home = java.find_java()
        if home is None:
            raise NoSpark(java.MISSING)
        os.environ.update(JAVA_HOME=home)
        if master.startswith("local"):
            os.environ.update(SPARK_LOCAL_IP="127.0.0.1")  # of the UI, too
    try:
        spark = SparkSession.builder.config(conf=settings(options, with_attempts(master))).getOrCreate()
        context = spark.sparkContext
        context.pythonExec = context.getConf().get(PYTHON) or context.pythonExec
    except Exception as error:
        raise NoSpark(f"Spark does not start ({master or 'spark-submit'}): {report(error)}") from error
    try:
        if str(context.master).startswith("local") and context.pythonExec != sys.executable:
            check_python(context.pythonExec, PYTHON if context.getConf().get(PYTHON) else VARIABLE)
    except NoSpark:
        spark.stop()
        raise
    return spark


def settings(options: SessionOptions, master: str) -> "SparkConf":
    """Start Java, and return the settings of the session: those of the options, then those of Spark's files and of
    spark-submit, then ours."""
    from pyspark import SparkConf, SparkContext

    given = {**({"spark.master": master} if master else {}),
             **({"spark.driver.defaultJavaOptions": JAVA} if master.startswith("local") else {}), **dict(options.conf)}
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(given.items())))
    found = SparkConf().setAll(list(given.items()))
    if found.get("spark.app.name", UNNAMED[0]) in UNNAMED:
        found.setAppName(options.name)
    ours = {
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
           if str(found.get("spark.master")).startswith("local") else {}),
        "spark.log.level": "FATAL",  # our own message reports a failed task
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes reports where
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",  # tasks move files in place; we commit the folder
    }
    for name, value in ours.items():
        found.setIfMissing(name, value)
    found.set(BARS, given.get(BARS, "false"))  # Spark takes a Python session for a shell, and sets it
    return found


def is_submitted() -> bool:
    """Return whether spark-submit has started this program."""
    return GATEWAY in os.environ


def with_attempts(master: str) -> str:
    """Return a local master that gives a task ATTEMPTS attempts, where it names no number; Spark gives it one."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{found[1] or 1},{ATTEMPTS}]" if found else master


def check_python(python: str, source: str) -> None:
    """Raises NoSpark if a Python of this machine cannot run, or has another minor version than this one."""
    try:
        done = subprocess.run([python, "-c", REPORTS], capture_output=True, text=True, timeout=PYTHON_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSpark(f"{source}={python} cannot run ({getattr(error, 'strerror', None) or 'it does not end'}): "
                      f"{python_wanted()}") from None
    if done.stdout.strip() != HERE:
        raise NoSpark(other_python(done.stdout.strip(), f" ({source}={python})"))


def other_python(version: str, source: str = "") -> str:
    return (f"Spark's workers run Python {version or 'of an unknown version'}{source}, and this is Python {HERE}: "
            f"{python_wanted()}")


def python_wanted() -> str:
    return f"set {VARIABLE} to a Python {HERE} that has pyarrow, by a path that all workers have"


def slots(spark: "SparkSession") -> int:
    """Return how many tasks Spark runs at once, by its default number of partitions; at most MOST_SLOTS. It changes as
    executors come and go. With Connect this takes a small job."""
    if is_remote(spark):
        found = 1 + spark.range(1 << 20).selectExpr("spark_partition_id() AS part").agg({"part": "max"}).collect()[0][0]
    else:
        found = spark.sparkContext.defaultParallelism
    return max(1, min(found, MOST_SLOTS))


def is_elsewhere(spark: "SparkSession") -> bool:
    """Return whether workers may be on other machines."""
    if is_remote(spark):
        return True
    master = str(spark.sparkContext.master)
    return not master.startswith("local") or master.startswith("local-cluster")


def reach(master: str) -> None:
    """Check that a Connect server answers, because its client tries silently for ten minutes. Raises OSError or ValueError."""
    url = urlsplit(master)
    socket.create_connection((url.hostname or "localhost", url.port or CONNECT_PORT), timeout=REACH_S).close()


def load_java() -> ModuleType:
    found = importlib.util.spec_from_file_location("highwater_java", ROOT / "tools" / "java.py")
    assert found and found.loader  # as for every file that ends in .py
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_there(spark: "SparkSession") -> bool:
    """Tell whether the session's Java process is alive."""
    try:
        spark.sparkContext.statusTracker().getActiveStageIds()
    except Exception:
        return False
    return True
