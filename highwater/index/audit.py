"""Holds a snapshot of an index against its bucket, and sums it up. Safety: what is wrong has a row; both engines give the same.

The tables are those of tables.py. Their SQL is one that DuckDB and Spark both read.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from highwater.impl.index.bucket.covered import Known, covered

if TYPE_CHECKING:
    from highwater.dst.spark.session import SessionOptions

DANGLING, ORPHANED, RESIZED, LETTER, REJECTED, COVERED, SUSPECTED = (
    "dangling", "orphaned", "other size", "dead letter", "rejected letter", "covered twice", "may be covered twice")
HARMLESS = (LETTER, REJECTED, SUSPECTED)  # they do not make a check fail
FOUND = pa.schema([("what", pa.string()), ("tenant", pa.string()), ("shard", pa.int64()), ("ulid", pa.string()),
                   ("key", pa.string()), ("bytes", pa.int64()), ("detail", pa.string())])
SAME = "a.tenant = b.tenant AND a.shard = b.shard AND a.ulid = b.ulid"
CHECK = f"""
SELECT '{DANGLING}' AS what, a.tenant, a.shard, a.ulid, '' AS key, a.bytes, 'it is in the index, and has no object' AS detail
FROM blocks a WHERE NOT EXISTS (SELECT 1 FROM stored b WHERE {SAME})
UNION ALL
SELECT '{ORPHANED}', a.tenant, a.shard, a.ulid, a.key, a.bytes, 'no block and no tombstone of the index names it'
FROM stored a WHERE NOT EXISTS (SELECT 1 FROM blocks b WHERE {SAME}) AND NOT EXISTS (SELECT 1 FROM removed b WHERE {SAME})
UNION ALL
SELECT '{RESIZED}', a.tenant, a.shard, a.ulid, b.key, b.bytes, concat('the index says ', CAST(a.bytes AS VARCHAR(20)), ' bytes')
FROM blocks a JOIN stored b ON {SAME} WHERE a.bytes <> b.bytes
UNION ALL
SELECT CASE kind WHEN 'letter' THEN '{LETTER}' ELSE '{REJECTED}' END, '', 0, '', key, bytes, 'a writer could not add its block'
FROM objects WHERE kind IN ('letter', 'rejected letter')
"""
REPORT = """
SELECT tenant, shard, count(*) AS blocks, sum(bytes) AS bytes, min(min_ms) AS oldest_ms, max(max_ms) AS newest_ms,
       count(DISTINCT window_ns) AS windows, sum(CASE WHEN level = 0 THEN 1 ELSE 0 END) AS segments,
       sum(max_ms - min_ms + 1) / CAST(max(max_ms) - min(min_ms) + 1 AS DOUBLE) AS read_amplification,
       sum(CASE WHEN over THEN 1 ELSE 0 END) AS blocks_over, sum(CASE WHEN over THEN bytes ELSE 0 END) AS bytes_over
FROM blocks GROUP BY tenant, shard
"""
REPORTED = pa.schema([
    ("tenant", pa.string()), ("shard", pa.int64()), ("blocks", pa.int64()), ("bytes", pa.int64()), ("oldest_ms", pa.int64()),
    ("newest_ms", pa.int64()), ("windows", pa.int64()), ("segments", pa.int64()),
    ("read_amplification", pa.float64()),  # blocks that hold data of one moment, on average from the oldest to the newest
    ("blocks_over", pa.int64()), ("bytes_over", pa.int64()),  # that retention would drop now
])
Tables = Mapping[str, pa.Table]
Ask = Callable[[Tables, str], pa.Table]
"""Answer a query of SQL on tables by their names."""


@contextmanager
def here() -> Generator[Ask]:
    """Provide the engine of this process."""
    import duckdb

    def ask(tables: Tables, query: str) -> pa.Table:
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            return connection.sql(query).to_arrow_table()

    yield ask


@contextmanager
def on_spark(options: "SessionOptions") -> Generator[Ask]:
    """Provide the engine of a Spark session. Raises NoSpark."""
    from highwater.dst.spark.session import session
    from highwater.dst.spark.tasks import watch

    with session(options) as spark:
        def ask(tables: Tables, query: str) -> pa.Table:
            for name, table in tables.items():
                spark.createDataFrame(table).createOrReplaceTempView(name)
            found: list[pa.Table] = []
            watch(spark, options.name.removeprefix("highwater "), lambda: found.append(spark.sql(query).toArrow()))
            return found[0]

        yield ask


def checked(ask: Ask, blocks: pa.Table, removed: pa.Table, objects: pa.Table) -> pa.Table:
    """Return what is wrong, in order: a row each, as FOUND says."""
    stored = objects.filter(pc.field("kind").isin(["segment", "block"]))
    found = ask({"blocks": blocks, "removed": removed, "objects": objects, "stored": stored}, CHECK).cast(FOUND)
    known = [Known(*one) for one in zip(*(blocks[name].to_pylist() for name in ("ulid", "shard", "tenant", "level")))]
    twice = [(COVERED if one.proved else SUSPECTED, one.source.tenant, one.source.shard, one.source.ulid, "", 0,
              f"block {one.by.ulid} of level {one.by.level} was made of it") for one in covered(known)]
    more = pa.Table.from_pylist([dict(zip(FOUND.names, one)) for one in twice], schema=FOUND)
    return pa.concat_tables([found, more]).sort_by([(name, "ascending") for name in ("what", "shard", "tenant", "ulid", "key")])


def reported(ask: Ask, blocks: pa.Table) -> pa.Table:
    """Return a row for each tenant and shard, as REPORTED says."""
    return ask({"blocks": blocks}, REPORT).cast(REPORTED).sort_by([("tenant", "ascending"), ("shard", "ascending")])
