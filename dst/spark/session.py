"""Start and end a Spark session.

It may be local, on a cluster (`--master spark://.., yarn, local-cluster[..]`), or use Spark Connect (`--master
sc://host:port`). Safety: a local session does not listen outside the machine, and a session ends with its user.
"""

import importlib.util
import logging
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from highwater.dst.campaign.what import NoSpark
from highwater.dst.version import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_PORT = 15002  # Connect's usual port
REACH_S = 10
ATTEMPTS = 2  # of a task; the second one is careful


@contextmanager
def session(jobs: int, master: str = "", of_java: str = "") -> Generator["SparkSession", None, None]:
    """Provide a session for a block. Raises NoSpark."""
    spark = start_spark(jobs, master, of_java)
    try:
        yield spark
    finally:
        if is_remote(spark) or is_there(spark):
            spark.stop()


def start_spark(jobs: int, master: str = "", of_java: str = "") -> "SparkSession":
    """Start a session of this process. A local one does not listen outside the machine. `of_java`: options of the local JVM.

    Raises NoSpark."""
    os.environ.update(PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # if Java was killed, our own message says so
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
        "spark.log.level": "FATAL",  # our own message reports a failed task
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes reports where
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",  # tasks move files in place; we commit the folder
    }
    builder = SparkSession.builder.appName("highwater campaign").master(master or f"local[{jobs},{ATTEMPTS}]")
    try:
        return builder.config(map=settings).getOrCreate()
    except Exception as error:
        raise NoSpark(f"Spark does not start ({master or 'local'}): {str(error).strip().splitlines()[0]}") from error


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
