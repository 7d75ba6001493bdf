"""Safety: the same sources always give the same names, so that two workers with one job write the same object.

Here are the names of jobs, of tombstones, of compacted blocks, and of objects.
"""

from collections.abc import Sequence
from hashlib import sha256

import xxhash

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.partitions import Partition, text

ANONYMOUS = "anonymous"  # in paths, where the tenant's name is ""


def job_name(tenant: str, shard: int, level: int, sources: Sequence[str]) -> str:
    """Return the name of a job: the hash of its sources, in order, without leading zeros; tenant, shard and level."""
    return f"{xxhash.xxh64_intdigest(''.join(sources).encode()):x}-T{tenant}-S{shard}-L{level}"


def unit_tombstone_name(partition: Partition, tenant: str, shard: int) -> str:
    return f"{text(partition)}-T{tenant}-S{shard}"


def compacted_id(sources: Sequence[str], level: int, tenant: str) -> str:
    """Return the ULID of the block that is made of `sources`: the oldest source's time, and entropy of all that made it.

    `level` is that of the new block. Raises InvalidUlid.
    """
    told = "\0".join((*sources, str(level), tenant))
    return ulids.made(min(map(ulids.time_ms, sources)), sha256(told.encode()).digest())


def block_path(shard: int, tenant: str, ulid: str, level: int) -> str:
    """Return the key of a block's object; level 0 holds datasets of several tenants."""
    if level == 0:
        return f"segments/{shard}/{ANONYMOUS}/{ulid}/block.bin"
    return f"blocks/{shard}/{tenant or ANONYMOUS}/{ulid}/block.bin"


def dead_letter_path(shard: int, tenant: str, ulid: str) -> str:
    """Return the key of a block's metadata in the dead letter queue."""
    return f"dlq/{shard}/{tenant or ANONYMOUS}/{ulid}/meta.pb"
