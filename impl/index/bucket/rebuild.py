"""Safety: the index that is made of a bucket is the one that adding the same blocks in the order of their ids would make.

Each block is added at the time of its ULID. The footers lack what happened later: sources that are not yet deleted stand beside
the block that they were compacted to (covered.py), and neither tombstones nor jobs are known.
"""

from collections.abc import Iterable
from typing import Any

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import snapshot, ulids
from highwater.impl.codecs.index.messages import BlockMeta, decode, encode
from highwater.impl.codecs.index.rows import Queued, Times, Unit
from highwater.impl.codecs.index.snapshot import Position, Row
from highwater.impl.codecs.index.strings import Table, imported
from highwater.impl.index.config import Config
from highwater.impl.index.units import unit_of

TERM = 1


class Made:
    """A unit that grows by one block after another."""

    def __init__(self, unit: Unit, index: int):
        self.unit, self.index, self.times = unit, index, Times(0, 0, 0)
        self.strings, self.numbers = [""], {"": 0}
        self.rows: list[Row] = [(row.index_key(unit, row.INCARNATION), row.U64.pack(index))]

    def add(self, block: Any) -> None:
        own, new = imported(Table(self.strings, self.numbers), block)  # pyright: ignore[reportArgumentType]  # it grows
        if new:
            self.rows.append((row.strings_key(self.unit, len(self.strings)), row.strings_value(new)))
            for text in new:
                self.numbers[text] = len(self.strings)
                self.strings.append(text)
        self.rows.append((row.block_key(self.unit, block.id), encode(own)))
        before = self.times
        first = before.version == 0
        self.times = Times(block.min_time if first else min(before.min_ms, block.min_time),
                           block.max_time if first else max(before.max_ms, block.max_time), before.version + 1)

    def ended(self) -> list[Row]:
        return [*self.rows, (row.index_key(self.unit, row.TIMES), row.times_value(self.times))]


def rows_of(bodies: Iterable[bytes], config: Config) -> tuple[list[Row], int]:
    """Return the rows of an index with these blocks, in order, and how many there are. `bodies`: their metadata, each valid and
    once, in any order. Raises DamagedMessage."""
    blocks = [decode(BlockMeta, body) for body in bodies]
    blocks.sort(key=lambda block: (block.id, unit_of(block)))
    made: dict[Unit, Made] = {}
    rows: list[Row] = []
    clock_ns = 0
    for index, block in enumerate(blocks, 1):
        unit = unit_of(block)
        if unit not in made:
            made[unit] = Made(unit, index)
        made[unit].add(block)
        clock_ns = max(ulids.time_ns(block.id), clock_ns + 1)
        if block.compaction_level < len(config.levels):
            queued = Queued(index, block.id, clock_ns, block.compaction_level, unit.shard, unit.tenant)
            rows.append((row.queue_key(index, block.id), row.queue_value(queued)))
    for unit in made.values():
        rows += unit.ended()
    if blocks:
        rows += [(row.APPLIED, row.applied_value(TERM, len(blocks))), (row.CLOCK, row.U64.pack(clock_ns))]
    return sorted(rows), len(blocks)


def snapshot_of(rows: list[Row], blocks: int) -> bytes:
    """Return the file that `index restore` takes."""
    return snapshot.encode(Position(blocks, TERM, ()), rows)


