"""Known-bad queues of a metadata index: the real state machine of impl/index with one of its functions replaced.

traces/protocols/compaction_queue.py judges each poll. A run in which a block is never compacted does not end.
"""

from typing import Any

from highwater.dst.mutants.metadata_fsm import ANY_WORKER, always, applying, given_up_and_forgotten
from highwater.dst.scenario import Build, Mutants
from highwater.impl.codecs.index.messages import IN_PROGRESS, JobState
from highwater.impl.codecs.index.rows import Block
from highwater.impl.index import jobs, plan_get, plan_update, queue
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction

own_cancel, own_enqueue, own_reports = plan_update.cancel, queue.enqueue, plan_get._reports


def unheard_counts(job: Any, now_ns: int) -> int:
    """Count a lease that nobody has heard of as a failure."""
    return job.failures + (job.status == IN_PROGRESS and jobs.is_free(job, now_ns))


def none(several: list[Any], now_ns: int, config: Config) -> None:
    """Give no job up."""


def never_again(job: Any, now_ns: int, config: Config) -> bool:
    return jobs.is_free(job, now_ns) and not jobs.has_failed(job, now_ns, config)


def enqueued_first(rows: Transaction, block: Block, level: int, index: int, now_ns: int, config: Config) -> None:
    own_enqueue(rows, block, level, 0, now_ns, config)


def cancelled_first(rows: Transaction, name: str, index: int, now_ns: int, config: Config) -> None:
    """End a job, and let its sources wait before all others."""
    queue.enqueue = enqueued_first
    try:
        own_cancel(rows, name, index, now_ns, config)
    finally:
        queue.enqueue = own_enqueue


def reports_of_any(rows: Rows, request: Any, update: Any, now_ns: int, config: Config) -> None:
    """Take reports of jobs that are gone, too."""
    own_reports(rows, request, update, now_ns, config)
    for report in request.status_updates:
        if jobs.state(rows, report.name) is None and report.status == IN_PROGRESS:
            state = JobState(name=report.name, status=IN_PROGRESS, token=report.token)
            update.updated_jobs.add().state.CopyFrom(jobs.reported(state, now_ns, config))


BUILDS: dict[str, tuple[str, Build]] = {  # name -> (its bug, its Build)
    "none_given_up": ("at the limit no failed job makes room", applying((jobs, "evictable", none))),
    "given_up_first": ("the block of a job that is given up waits before the others",
                       applying((plan_update, "cancel", cancelled_first))),
    "not_tried_again": ("a failed job waits until it is given up", applying((jobs, "may_assign", never_again))),
    "sources_forgotten": ("the sources of a job that is given up wait no more",
                          applying((plan_update, "cancel", given_up_and_forgotten))),
    "unheard_counts": ("an answer that was lost counts as a failure", applying((jobs, "failures", unheard_counts))),
    "any_worker": ("a worker that has lost its job renews or ends it", ANY_WORKER),
    "job_gone": ("a job that is gone is renewed", applying((plan_update, "is_current", always),
                                                           (plan_get, "_reports", reports_of_any))),
}
MODEL = ("refinement:Worker.", "refinement:index.", "refinement:.", "safety:")
ORACLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # name -> prefixes of its signatures: by model; by harm
    "none_given_up": (MODEL, ("liveness:Server",)),
    "not_tried_again": (("liveness:Server",), ("liveness:Server",)),
    "sources_forgotten": (MODEL, ()),
    **dict.fromkeys(("given_up_first", "unheard_counts", "any_worker", "job_gone"), (MODEL, ())),
}
MUTANTS = Mutants(BUILDS, ORACLES)
