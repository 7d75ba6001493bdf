"""Safety: a plan changes only what is still as it was when the plan was made, and each result of a job exactly once.

A plan is proposed by the leader of a term, so it has an effect in that term only. Each part of it is checked again, because a
block may have been added and a unit dropped since. A part that does not hold any more has no effect.
"""

from typing import Any

from highwater.impl.codecs.index.messages import PlanUpdate, copied
from highwater.impl.codecs.index.names import job_name
from highwater.impl.codecs.index.rows import Queued
from highwater.impl.index import jobs, queue, replace, tombstones
from highwater.impl.index.answers import ABORTED, Answer
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction


def is_of_term(entry_term: int, request_term: int) -> bool:
    """Return whether a command was made by the leader that has appended it."""
    return entry_term == request_term


def update(rows: Transaction, request: Any, term: int, index: int, now_ns: int, config: Config) -> Answer:
    """Apply an UpdatePlan entry. The answer's PlanUpdate has the parts that had an effect, and the plans of assigned jobs."""
    if not is_of_term(term, request.term):
        return Answer(ABORTED, f"the plan was made in term {request.term}, and appended in term {term}: poll again")
    asked, done = request.plan_update, PlanUpdate()
    for key in asked.deleted:
        if tombstones.confirm(rows, key.index, key.name, now_ns, config):
            done.deleted.add().CopyFrom(key)
    for part in asked.completed_jobs:
        if complete(rows, part, index, now_ns, config):
            done.completed_jobs.add().state.CopyFrom(part.state)
    for part in asked.updated_jobs:
        if is_current(rows, part.state):
            jobs.put_state(rows, part.state)
            done.updated_jobs.add().CopyFrom(part)
    for part in asked.evicted_jobs:
        job = jobs.state(rows, part.state.name)
        if job is not None and jobs.may_evict(job, now_ns, config):
            cancel(rows, part.state.name, index, now_ns, config)
            done.evicted_jobs.add().CopyFrom(part)
    for part in asked.assigned_jobs:
        job = jobs.state(rows, part.state.name)
        if job is not None and jobs.may_assign(job, now_ns, config):
            jobs.put_state(rows, part.state)
            done.assigned_jobs.add(state=part.state, plan=jobs.plan(rows, part.state.name))
    for part in asked.new_jobs:
        if add_job(rows, part, now_ns, config):
            done.new_jobs.add().CopyFrom(part)
    return Answer(value=done)


def is_current(rows: Rows, told: Any) -> bool:
    """Return whether a job is there, and its worker is still the one that this state names."""
    job = jobs.state(rows, told.name)
    return job is not None and jobs.holds(job, told.token)


def complete(rows: Transaction, part: Any, index: int, now_ns: int, config: Config) -> bool:
    """Replace a job's sources by its result, and end the job. Return whether that has happened."""
    if not is_current(rows, part.state):
        return False
    plan = jobs.plan(rows, part.state.name)
    if plan is None or replace.invalid_result(rows, plan, part.compacted_blocks) is not None:
        return False
    replace.replace(rows, plan, list(part.compacted_blocks.new_blocks), index, now_ns, config)
    tombstones.take_back(rows, plan.name, plan.tombstones)
    jobs.delete(rows, plan.name)
    return True


def cancel(rows: Transaction, name: str, index: int, now_ns: int, config: Config) -> None:
    """End a job without a result: its tombstones are free, and those of its sources that are still there wait again."""
    plan = jobs.plan(rows, name)
    jobs.delete(rows, name)
    if plan is None:
        return
    tombstones.take_back(rows, name, plan.tombstones)
    for block in replace.sources_of(plan):
        if replace.is_visible(rows, block):
            queue.enqueue(rows, block, plan.compaction_level, index, now_ns, config)


def add_job(rows: Transaction, part: Any, now_ns: int, config: Config) -> bool:
    """Add a planned job: its sources leave the queue. Return whether that has happened."""
    plan, state = part.plan, part.state
    sources = list(plan.source_blocks)
    named = job_name(plan.tenant, plan.shard, plan.compaction_level, sources)
    if not sources or state.name != named or plan.name != named or jobs.state(rows, named) is not None:
        return False
    if not jobs.may_add(sum(1 for _ in jobs.states(rows)), config):
        return False
    batch = waiting_for(rows, plan)
    if batch is None:
        return False
    queue.dequeue(rows, batch)
    stored = copied(plan)
    del stored.tombstones[:]
    for message in plan.tombstones:
        found = tombstones.find(rows, message.index, tombstones.name_of(message))
        if found is not None and tombstones.is_free(found, now_ns, config):
            stored.tombstones.append(tombstones.hand_out(rows, found, named))
    jobs.put_plan(rows, stored)
    jobs.put_state(rows, state)
    return True


def waiting_for(rows: Rows, plan: Any) -> list[Queued] | None:
    """Return the rows of the queue with a plan's sources; None if one of them does not wait there."""
    wanted = set(plan.source_blocks)
    found = [queued for queued in queue.waiting(rows) if queued.ulid in wanted and (
        queued.tenant, queued.shard, queued.level) == (plan.tenant, plan.shard, plan.compaction_level)]
    return found if sorted(queued.ulid for queued in found) == sorted(plan.source_blocks) else None
