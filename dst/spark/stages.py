"""Run the stages of an exploration on disk (model/explore/disk/search.py) on Spark; dst/campaign/stages.py is without Spark."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from highwater.dst.spark.session import SessionOptions, session
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import answers
from highwater.dst.version import code_version
from highwater.model.explore.disk.search import Stages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_stages(options: SessionOptions) -> Generator[Stages, None, None]:
    with session(options) as spark:
        yield partial(run_stage, spark, shipped(code_version()))


def run_stage(spark: "SparkSession", module: Callable[[str], ModuleType], work: str, tasks: list[dict]) -> list[dict]:
    """Run a stage's tasks, and return their results. Raises CampaignError."""
    return answers(spark, module, "highwater.model.explore.disk.work", "do", [(work, task) for task in tasks],
                   f"exploration, {work}")
