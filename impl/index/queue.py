"""Safety: every block below the highest level waits in the queue or is a source of one live job, and of no second one."""

from collections.abc import Iterable, Iterator

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.rows import Block, Queued
from highwater.impl.index.config import Config
from highwater.impl.index.kv import Rows, Transaction, under


def enqueue(rows: Transaction, block: Block, level: int, index: int, now_ns: int, config: Config) -> None:
    """Let a block of this level wait for its compaction; blocks of the highest level do not."""
    if level < len(config.levels):
        queued = Queued(index, block.ulid, now_ns, level, block.shard, block.tenant)
        rows.put(row.queue_key(index, block.ulid), row.queue_value(queued))


def waiting(rows: Rows) -> Iterator[Queued]:
    """Yield the waiting blocks, the first first."""
    return (row.queued_of(key, value) for key, value in under(rows, row.QUEUE))


def dequeue(rows: Transaction, several: Iterable[Queued]) -> None:
    for queued in several:
        rows.delete(row.queue_key(queued.index, queued.ulid))


def block_of(queued: Queued) -> Block:
    return Block(queued.ulid, queued.shard, queued.tenant)
