"""Read from the rows of a metadata index what it shows: blocks, waiting ones, jobs, tombstones, what it knows as removed.

This reads the bytes of the rows (impl/codecs/index/rows.py), and nothing of the state machine that writes them.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import JobPlan, JobState, Tombstones, decode
from highwater.impl.codecs.index.rows import Block, Queued, Unit

KEPT = 20_000  # messages that are read, because rows stay for many entries
TombKey = tuple[int, str]  # log index of a tombstone, and its name


class Shown(NamedTuple):
    """All that an index shows at one applied index. Nobody changes the messages in it."""

    visible: dict[str, Unit]  # by ULID
    waiting: list[Queued]  # the first first
    jobs: dict[str, Any]  # name -> JobState
    plans: dict[str, Any]  # name -> JobPlan
    tombstones: dict[TombKey, Any]
    removed: set[Block]
    dropped: set[Unit]
    clock_ns: int


@lru_cache(KEPT)
def message(of: type, value: bytes) -> Any:
    return decode(of, value)


@lru_cache(KEPT)
def unit_and_rest(key: bytes) -> tuple[Unit, bytes]:
    return row.unit_of(key[1:])


def name_of(tombstone: Any) -> str:
    return tombstone.shard.name if tombstone.HasField("shard") else tombstone.blocks.name


def shown(rows: Mapping[bytes, bytes]) -> Shown:
    """Return what these rows show. Raises Undecodable."""
    found = Shown({}, [], {}, {}, {}, set(), set(), row.U64.unpack(rows[row.CLOCK])[0] if row.CLOCK in rows else 0)
    for key in sorted(rows):
        bucket, value = key[:1], rows[key]
        if bucket == row.INDEX:
            unit, rest = unit_and_rest(key)
            if rest[:1] == row.BLOCK:
                found.visible[rest[1:].decode()] = unit
        elif bucket == row.QUEUE:
            found.waiting.append(row.queued_of(key, value))
        elif bucket == row.JOB_STATE:
            found.jobs[key[1:].decode()] = message(JobState, value)
        elif bucket == row.JOB_PLAN:
            found.plans[key[1:].decode()] = message(JobPlan, value)
        elif bucket == row.TOMBSTONES:
            of = message(Tombstones, value)
            found.tombstones[row.tombstone_of(key)[0], name_of(of)] = of
        elif bucket in (row.REMOVED, row.GONE):
            found.removed.add(row.removed_of(key))
        elif bucket == row.DROPPED:
            found.dropped.add(unit_and_rest(key)[0])
    return found
