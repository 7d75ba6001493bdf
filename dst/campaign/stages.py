"""Run the stages of an exploration on disk (model/explore/disk/search.py) in local processes, without Spark.

Safety: the processes end when the exploration does.
"""

import os
from collections.abc import Generator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

from highwater.dst.campaign.processes import new_pool
from highwater.model.explore.disk.search import Failed, Stages
from highwater.model.explore.disk.work import do


@contextmanager
def local_stages(jobs: int) -> Generator[Stages, None, None]:
    pool = new_pool(jobs)

    def stage(work: str, tasks: list[dict]) -> list[dict]:
        try:
            return list(pool.map(partial(marked, work), tasks))
        except BrokenProcessPool:
            raise Failed("a worker was killed; has the machine run out of memory?") from None

    try:
        yield stage
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def marked(work: str, task: dict) -> dict:
    return do(work, task, str(os.getpid()))
