"""The blocks of a story. Each datum is a dataset with a name that nobody else uses, and its bytes follow from its name.

Most blocks are made now. A few are of windows that ended long ago: their data are over for tenant "a", or for both tenants.
Such a block has its window to itself, because it is added past the horizon, which may be done once only.
"""

import time
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import BlockMeta, Dataset
from highwater.impl.codecs.index.names import block_path
from highwater.impl.codecs.index.partitions import WINDOW_S, partition_of
from highwater.impl.codecs.index.strings import tenant_of

TENANTS, SHARDS = ("a", "b"), (1, 2, 3)
DAY_S = 24 * 3600
PERIODS_S = {"a": 3 * DAY_S, "b": 3_000 * DAY_S}
FRESH, OLD_FOR_A, OLD_FOR_ALL, LATE, LETTER = KINDS = ("fresh", "old for a", "old for all", "late", "letter")
SHARES = (88, 5, 5, 2, 0)  # of the kinds, in per cent
LEFT = (LATE, LETTER)  # of them a writer leaves letters only
FIRST_AGO_S = {OLD_FOR_A: PERIODS_S["a"] + DAY_S, OLD_FOR_ALL: PERIODS_S["b"] + DAY_S}  # of the first such block's window
LATE_MS = 60_000  # how long ago a late block was made: past the horizon
DATA_AT_ONCE = 2  # in a block
DATUM_MS = 10  # from its first to its last millisecond


class Datum(NamedTuple):
    """A datum, by what its writer says of it."""

    name: str
    tenant: str
    shard: int
    ulid: str  # of the block in which it was written
    max_ms: int


def bytes_of(name: str) -> bytes:
    """Return the bytes of a datum."""
    return sha256(name.encode()).digest()[:20]


def is_over(datum: Datum, now_ms: int) -> bool:
    """Return whether retention may have dropped a datum."""
    end_ms = max(partition_of(datum.ulid).end_ns // 1_000_000, datum.max_ms)
    return end_ms + PERIODS_S[datum.tenant] * 1000 <= now_ms


def kind_of(random: Random) -> str:
    return random.choices(KINDS, SHARES)[0]


def block_of(random: Random, kind: str, name: str, number: int, now_ms: int) -> Any:
    """Draw the metadata of a block, with its size. `number`: of an old block, which no other has, for its window."""
    made_ms = now_ms
    if kind in FIRST_AGO_S:
        window_s = ((now_ms // 1000 - FIRST_AGO_S[kind]) // WINDOW_S - number) * WINDOW_S
        made_ms = window_s * 1000 + random.randrange(WINDOW_S * 1000)
    elif kind == LATE:
        made_ms -= LATE_MS
    data_ms = now_ms if kind in FIRST_AGO_S and random.random() < 0.25 else made_ms
    block = BlockMeta(id=ulids.made(made_ms, random.randbytes(10)), shard=random.choice(SHARDS), min_time=data_ms,
                      max_time=data_ms + DATUM_MS, created_by=1)
    table, at = ["", "story"], 0
    for part in range(DATA_AT_ONCE):
        own, tenant = f"{name}.{part}", random.choice(TENANTS)
        table += [own] + [tenant] * (tenant not in table)
        block.datasets.append(Dataset(
            tenant=table.index(tenant), name=table.index(own), min_time=data_ms, max_time=data_ms + DATUM_MS,
            size=len(bytes_of(own)), table_of_contents=[at], labels=[1, 1, table.index(own)]))
        at += len(bytes_of(own))
    block.string_table[:] = table
    block.metadata_offset = at
    block.size = len(body_of(block))
    return block


def body_of(block: Any) -> bytes:
    """Return the object of a block that a writer has made."""
    unsized = BlockMeta()
    unsized.CopyFrom(block)
    unsized.size = 0
    return b"".join(bytes_of(block.string_table[of.name]) for of in block.datasets) + footer(unsized)


def data_of(block: Any) -> list[Datum]:
    """Return the data of a block that a writer has made."""
    table = block.string_table
    return [Datum(table[of.name], table[of.tenant], block.shard, block.id, of.max_time) for of in block.datasets]


def path_of(block: Any) -> str:
    return block_path(block.shard, tenant_of(block), block.id, block.compaction_level)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
