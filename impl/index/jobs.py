"""Safety: a job has one result. A worker whose lease went to another one changes nothing, nor does a job that is gone.

Liveness: while workers report, every job ends. A lease that ends without a result counts as a failure only if its worker has
reported once, because the answer that assigned it may be lost. A job with too many failures goes last. It is tried again
after a pause in which there was a poll. It is evicted if the jobs are at their limit; its sources then wait in the queue again.
"""

from collections.abc import Iterator
from typing import Any

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import IN_PROGRESS, UNASSIGNED, JobPlan, JobState, copied, decode, encode
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, under


def state(rows: Rows, name: str) -> Any | None:
    """Return the state of a job, or None if there is no such job."""
    value = rows.get(row.name_key(row.JOB_STATE, name))
    return None if value is None else decode(JobState, value)


def plan(rows: Rows, name: str) -> Any | None:
    """Return the plan of a job, or None if there is no such job."""
    value = rows.get(row.name_key(row.JOB_PLAN, name))
    return None if value is None else decode(JobPlan, value)


def states(rows: Rows) -> Iterator[Any]:
    return (decode(JobState, value) for _, value in under(rows, row.JOB_STATE))


def put_state(rows: Transaction, job: Any) -> None:
    rows.put(row.name_key(row.JOB_STATE, job.name), encode(job))


def put_plan(rows: Transaction, job: Any) -> None:
    rows.put(row.name_key(row.JOB_PLAN, job.name), encode(job))


def delete(rows: Transaction, name: str) -> None:
    for bucket in (row.JOB_STATE, row.JOB_PLAN):
        rows.delete(row.name_key(bucket, name))


def holds(job: Any, token: int) -> bool:
    """Return whether this token is the job's, so that its worker is the one that has the job."""
    return job.status == IN_PROGRESS and job.token == token


def is_free(job: Any, now_ns: int) -> bool:
    """Return whether no worker has the job."""
    return job.status == UNASSIGNED or job.lease_expires_at <= now_ns


def failures(job: Any, now_ns: int) -> int:
    """Return how many leases have ended without a result, after their worker had reported."""
    return job.failures + (job.heard and is_free(job, now_ns))


def has_failed(job: Any, now_ns: int, config: Config) -> bool:
    return failures(job, now_ns) >= config.failures


def may_assign(job: Any, now_ns: int, config: Config) -> bool:
    """Return whether a worker may have the job now."""
    return is_free(job, now_ns) and (not has_failed(job, now_ns, config) or (
        job.paused and job.lease_expires_at + config.retry_failed_ns <= now_ns))


def may_evict(job: Any, now_ns: int, config: Config) -> bool:
    return is_free(job, now_ns) and has_failed(job, now_ns, config)


def in_order(several: list[Any], now_ns: int, config: Config) -> list[Any]:
    """Return jobs in the order in which workers get them: low levels first, those that have failed last."""
    return sorted(several, key=lambda job: (has_failed(job, now_ns, config), job.compaction_level,
                                            min(failures(job, now_ns), config.failures), job.added_at, job.name))


def assigned(job: Any, token: int, now_ns: int, config: Config) -> Any:
    """Return the state of a job once a worker gets it."""
    new = copied(job)
    new.failures, new.heard, new.paused = failures(job, now_ns), False, False
    new.status, new.token, new.lease_expires_at = IN_PROGRESS, token, now_ns + config.lease_ns
    return new


def reported(job: Any, now_ns: int, config: Config) -> Any:
    """Return the state of a job once its worker has reported that it goes on."""
    new = copied(job)
    new.heard, new.paused, new.lease_expires_at = True, False, now_ns + config.lease_ns
    return new


def paused(job: Any) -> Any:
    """Return the state of a failed job once there was a poll that could have given it up."""
    new = copied(job)
    new.paused = True
    return new


def may_add(count: int, config: Config) -> bool:
    """Return whether there is room for one more job beside `count`."""
    return count < config.jobs


def evictable(several: list[Any], now_ns: int, config: Config) -> Any | None:
    """Return the failed job, of any level, that is to make room: the one that was planned first; None if none has failed."""
    failed = [job for job in several if may_evict(job, now_ns, config)]
    return min(failed, key=lambda job: (job.added_at, job.name)) if failed else None
