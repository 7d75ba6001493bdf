"""The blocks of a snapshot and the objects of a bucket as tables. Safety: each block and each object is one row."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import BlockMeta, Tombstones, decode
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.errors import Definite
from highwater.impl.index.bucket.objects import place_of
from highwater.impl.index.kv import Rows, under
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.retention import Policy, is_over

BLOCKS = pa.schema([
    ("tenant", pa.string()), ("shard", pa.int64()), ("window_ns", pa.int64()), ("ulid", pa.string()), ("level", pa.int64()),
    ("bytes", pa.int64()), ("min_ms", pa.int64()), ("max_ms", pa.int64()),
    ("over", pa.bool_()),  # whether retention would drop its unit now
])
REMOVED = pa.schema([("tenant", pa.string()), ("shard", pa.int64()), ("ulid", pa.string())])
OBJECTS = pa.schema([
    ("key", pa.string()), ("bytes", pa.int64()), ("last_modified_ms", pa.int64()),
    ("kind", pa.string()), ("shard", pa.int64()), ("tenant", pa.string()), ("ulid", pa.string()),
])
LISTED = OBJECTS.names[:3]


class NoListing(Definite):
    """A file that is no listing of a bucket."""


def table(schema: pa.Schema, rows: Iterable[tuple]) -> pa.Table:
    columns = list(zip(*rows)) or [()] * len(schema)
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema)


def blocks(rows: Rows, policy: Policy, now_ns: int) -> pa.Table:
    """Return the visible blocks of an index. Raises DamagedRow, DamagedMessage."""
    def found() -> Iterator[tuple]:
        for unit, times in all_units(rows):
            over = is_over(policy, unit, times, now_ns)
            yield from of_unit(rows, unit, times, over)

    return table(BLOCKS, found())


def of_unit(rows: Rows, unit: Unit, times: Times, over: bool) -> Iterator[tuple]:
    prefix = row.index_key(unit, row.BLOCK)
    for key, value in under(rows, prefix):
        block = decode(BlockMeta, value)
        yield (unit.tenant, unit.shard, unit.partition.start_ns, row.ulid_of(key[len(prefix):]), block.compaction_level,
               block.size, block.min_time, block.max_time, over)


def removed(rows: Rows) -> pa.Table:
    """Return the blocks whose objects are to be deleted, or are. Raises DamagedRow, DamagedMessage."""
    found = {(of.tenant, of.shard, ulid) for _, value in under(rows, row.TOMBSTONES)
             for of in [decode(Tombstones, value).blocks] for ulid in of.blocks}
    for bucket in (row.REMOVED, row.GONE):
        found |= {(of.tenant, of.shard, of.ulid) for key, _ in under(rows, bucket) for of in [row.removed_of(key)]}
    return table(REMOVED, sorted(found))


def objects(listing: pa.Table) -> pa.Table:
    """Return the objects of a listing (key, bytes, last_modified_ms) with what their keys say."""
    places = [place_of(key) for key in listing["key"].to_pylist()]
    said = zip(*places) if places else [()] * 4
    columns = [listing[name].combine_chunks() for name in LISTED]
    return pa.Table.from_arrays([*columns, *(pa.array(column, field.type) for column, field in zip(said, list(OBJECTS)[3:]))],
                                schema=OBJECTS)


def listing_in(path: Path) -> pa.Table:
    """Read a listing from a Parquet file. Raises NoListing."""
    try:
        found = pq.read_table(path, columns=LISTED)
        return found.cast(pa.schema([OBJECTS.field(name) for name in LISTED]))
    except (OSError, pa.ArrowException) as error:
        raise NoListing(f"{path} is no listing with the columns {', '.join(LISTED)}: {str(error).splitlines()[0]}") from None
