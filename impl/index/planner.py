"""Liveness: every waiting block is in a planned job once enough others wait with it, or it has waited long enough.

A job compacts blocks of one unit and level. Blocks go into jobs in the order in which they came. Pyroscope mixes windows. But a
result has the window of its oldest source, so a younger datum would be lost if that window's unit is dropped.
"""

from collections.abc import Iterator
from typing import Any

from highwater.impl.codecs.index.messages import JobPlan, JobState
from highwater.impl.codecs.index.names import job_name
from highwater.impl.codecs.index.partitions import partition_of
from highwater.impl.codecs.index.rows import Queued, Unit
from highwater.impl.index import queue
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows


def batches(rows: Rows, now_ns: int, config: Config) -> Iterator[list[Queued]]:
    """Yield the blocks of the jobs that are ready, low levels first, then the ones that have waited longest."""
    groups: dict[tuple[int, Unit], list[Queued]] = {}
    full: list[list[Queued]] = []
    for queued in queue.waiting(rows):
        if queued.level >= len(config.levels):
            continue  # there were more levels when it came
        level = config.levels[queued.level]
        same = queued.level, unit_of(queued)
        group = groups.setdefault(same, [])
        group.append(queued)
        if len(group) == level.blocks:
            full.append(groups.pop(same))
    aged = [group for group in groups.values() if group[0].appended_ns + config.levels[group[0].level].age_ns <= now_ns]
    yield from sorted(full + aged, key=lambda group: (group[0].level, group[0].index, group[0].ulid))


def unit_of(queued: Queued) -> Unit:
    return Unit(partition_of(queued.ulid), queued.tenant, queued.shard)


def planned(batch: list[Queued], now_ns: int) -> tuple[Any, Any]:
    """Return the state and the plan of the job of these blocks, without tombstones."""
    first, sources = batch[0], [queued.ulid for queued in batch]
    name = job_name(first.tenant, first.shard, first.level, sources)
    return (JobState(name=name, compaction_level=first.level, added_at=now_ns),
            JobPlan(name=name, tenant=first.tenant, shard=first.shard, compaction_level=first.level, source_blocks=sources))
