"""Compute what a poll of a worker is to change, as data. This reads the state and changes nothing.

The leader proposes the plan as the next entry. Replicas do not compute it again; they check each part of it (plan_update.py),
because other entries may stand between the two.
"""

from typing import Any

from highwater.impl.codecs.index.messages import IN_PROGRESS, SUCCESS, PlanUpdate
from highwater.impl.index import jobs, planner, tombstones
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows

MOST_NEW_BYTES = 256 << 10  # of a plan that gets a new job: with the results of ended ones it has to fit into one entry of Raft


def plan_of(rows: Rows, request: Any, index: int, now_ns: int, config: Config) -> Any:
    """Return the PlanUpdate for the GetPlan entry with this log index, which is the token of what it assigns."""
    update = PlanUpdate()
    update.deleted.extend(request.deleted)
    _reports(rows, request, update, now_ns, config)
    ended = {one.state.name for one in update.completed_jobs}
    there = [job for job in jobs.states(rows) if job.name not in ended]
    renewed = {one.state.name for one in update.updated_jobs}
    free = [job for job in there if jobs.may_assign(job, now_ns, config) and job.name not in renewed]
    for job in jobs.in_order(free, now_ns, config)[:request.assign_jobs_max]:
        given = update.assigned_jobs.add()
        given.state.CopyFrom(jobs.assigned(job, index, now_ns, config))
    busy = renewed | {one.state.name for one in update.assigned_jobs}
    _new_jobs(rows, update, [job for job in there if job.name not in busy], len(there),
              request.assign_jobs_max, now_ns, config)
    if request.assign_jobs_max:
        gone = busy | {one.state.name for one in update.evicted_jobs}
        for job in there:
            if job.name not in gone and not job.paused and jobs.may_evict(job, now_ns, config):
                update.updated_jobs.add().state.CopyFrom(jobs.paused(job))
    return update


def _reports(rows: Rows, request: Any, update: Any, now_ns: int, config: Config) -> None:
    """Add what workers report of jobs that they have."""
    for report in request.status_updates:
        job = jobs.state(rows, report.name)
        if job is None or not jobs.holds(job, report.token):
            continue
        if report.status == SUCCESS:
            update.completed_jobs.add().state.CopyFrom(job)
        elif report.status == IN_PROGRESS:
            update.updated_jobs.add().state.CopyFrom(jobs.reported(job, now_ns, config))


def _new_jobs(rows: Rows, update: Any, idle: list[Any], count: int, most: int, now_ns: int, config: Config) -> None:
    """Add up to `most` new jobs, and the failed ones of `idle` that are evicted for them; `count` jobs are there.

    What does not fit into the plan is planned by the next poll."""
    free = [one for one in tombstones.all_of(rows) if tombstones.is_free(one, now_ns, config)]
    for batch in planner.batches(rows, now_ns, config):
        if len(update.new_jobs) == most or update.ByteSize() > MOST_NEW_BYTES:
            return
        if not jobs.may_add(count, config):
            evicted = jobs.evictable(idle, now_ns, config)
            if evicted is None:
                return
            update.evicted_jobs.add().state.CopyFrom(evicted)
            idle = [job for job in idle if job.name != evicted.name]
            count -= 1
        state, plan = planner.planned(batch, now_ns)
        plan.tombstones.extend(one.message for one in free[:config.tombstones])
        free = free[config.tombstones:]
        update.new_jobs.add(state=state, plan=plan)
        count += 1
