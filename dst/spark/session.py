"""Start and end a session of Spark: a local one, one on a cluster (`--master spark://.., yarn, local-cluster[..]`), or one by
Spark Connect (`--master sc://host:port`).

Safety: a local session listens to nothing outside of the machine, and a session ends with what needed it.
"""

import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from highwater.dst.campaign.what import NoSpark
from highwater.dst.version import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_PORT = 15002  # where Connect listens, if no port is said
REACH_S = 10
ATTEMPTS = 2  # of a task: the second is careful


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
    settings: dict[str, bool | float | int | str | None] = {
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
    assert found and found.loader  # as for every file that ends in .py
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def is_remote(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_there(spark: "SparkSession") -> bool:
    """Its Java process, that is."""
    try:
        spark.sparkContext.statusTracker().getActiveStageIds()
    except Exception:
        return False
    return True
