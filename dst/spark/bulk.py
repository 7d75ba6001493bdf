"""Check traces in bulk on Spark, of files or of a DataFrame. Safety: the rows are the same as those of any other engine."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.bulk.checking import Asked, judge
from highwater.dst.bulk.engines import Progress, Work, sort_rows
from highwater.dst.bulk.packets import packets
from highwater.dst.bulk.rows import SCHEMA, BadInput, BulkError
from highwater.dst.bulk.sources import SPLIT_EVENTS, Choice, Split, check_columns, groups, reads
from highwater.dst.campaign.what import CampaignError, NoSpark
from highwater.dst.spark.session import is_elsewhere, slots
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import watch
from highwater.dst.verdict import Options
from highwater.dst.version import code_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED = "part int, payload binary"
FRAME = "DataFrame"  # names the events of a DataFrame in messages
ROWS = ", ".join(f"{field.name} {'bigint' if field.type == pa.int64() else 'string'}" for field in SCHEMA)


def check(spark: "SparkSession", work: Work, progress: Progress = lambda hundredths: None) -> pa.Table:
    """Return the rows of all runs, sorted by name, with one task for each group of splits and each part. Raises BulkError,
    BadInput, NoSpark."""
    if is_elsewhere(spark):
        check_visible(spark, work)
    frame = verdicts(spark, work)
    found: list[pa.Table] = []
    try:
        watch(spark, f"trace check, {len(work.splits):,} splits", lambda: found.append(frame.toArrow()), 100, progress)
    except NoSpark:
        raise
    except CampaignError as error:
        raise BulkError(str(error)) from error
    return sort_rows([found[0].cast(SCHEMA)])


def verdicts(spark: "SparkSession", work: Work, events: "DataFrame | None" = None) -> "DataFrame":
    """Return the rows of all runs as a DataFrame, which computes them when it is asked. `events`: in place of the splits.
    Raises BadInput if it has other columns than events, or is a stream."""
    tasks = groups(work.splits, work.parts)
    pack, pack_frame, rows = tasks_of(work, tasks)
    if events is None:
        packed = spark.range(0, len(tasks), 1, max(len(tasks), 1)).mapInArrow(pack, PACKED)
    else:
        from pyspark.sql.pandas.types import to_arrow_schema

        if events.isStreaming:
            raise BadInput(f"{FRAME} is a stream: a verdict needs all events of a run; write them, and check what is written")
        check_columns(FRAME, to_arrow_schema(events.schema, timezone="UTC"))
        packed = events.mapInArrow(pack_frame, PACKED)
    return packed.repartitionById(work.parts, "part").mapInArrow(rows, ROWS)


def check_visible(spark: "SparkSession", work: Work) -> None:
    """Run a small job in which each task looks for the first file, and all together for all files. Raises BadInput if one of
    them is not there; BulkError; NoSpark."""
    files, tasks = sorted({split.path for split in work.splits}), slots(spark)

    def unseen(batches: Iterable[Any]) -> Iterator[Any]:
        import os
        import socket

        import pyarrow

        for batch in batches:
            for number in batch.column("id").to_pylist():
                lost = [path for path in (*files[:1], *files[number::tasks]) if not os.access(path, os.R_OK)][:1]
                yield pyarrow.record_batch([pyarrow.array([socket.gethostname()] * len(lost), pyarrow.string()),
                                            pyarrow.array(lost, pyarrow.string())], ["host", "path"])

    found: list[pa.Table] = []
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(unseen, "host string, path string")
    try:
        watch(spark, f"trace check, look for {len(files):,} files", lambda: found.append(frame.toArrow()))
    except NoSpark:
        raise
    except CampaignError as error:
        raise BulkError(str(error)) from error
    for row in found[0].sort_by("path").slice(0, 1).to_pylist():
        raise BadInput(f"{row['path']}: the worker on {row['host']} cannot read it: put the traces into a folder that this "
                       "machine and all workers share under one path")


def tasks_of(work: Work, tasks: list[list[Split]]) -> tuple:
    """Return the workers' functions. Spark sends them as code, so they may refer to our modules only inside."""
    module, plain = shipped(code_version()), [list(map(tuple, task)) for task in tasks]
    parts, choice, asked = work.parts, tuple(work.choice), (tuple(work.asked.usual), work.asked.command)

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        ours = module("highwater.dst.spark.bulk")
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from ours.packed(plain[number], choice, parts)

    def pack_frame(batches: Iterable[Any]) -> Iterator[Any]:
        ours = module("highwater.dst.spark.bulk")
        yield from ours.packed_events(choice, parts, batches)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        ours = module("highwater.dst.spark.bulk")
        yield from ours.judged(*asked, batches)

    return pack, pack_frame, rows


# --- in the worker

def packed(splits: list[tuple], choice: tuple, parts: int) -> Iterator[pa.RecordBatch]:
    for read in (read for split in splits for read in reads(Split(*split), Choice(*choice))):
        for part, payload in packets(read, parts):
            yield pa.record_batch({"part": pa.array([part], pa.int32()), "payload": pa.array([payload], pa.binary())})


def packed_events(choice: tuple, parts: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the events of a partition. They are read as those of any file, from files that are deleted at once."""
    with TemporaryDirectory(prefix="highwater-") as folder:
        for table in tables_of(batches):
            pq.write_table(table, Path(folder, FRAME), row_group_size=len(table))
            yield from packed([Split(0, FRAME, True, 0, 1, folder=folder)], choice, parts)


def tables_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Unite batches, so that each table but the last has about SPLIT_EVENTS rows. No table is empty."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held += [batch] if len(batch) else []
        if sum(map(len, held)) >= SPLIT_EVENTS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def judged(usual: tuple, command: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Judge batches, which must be of one part."""
    payloads = (payload for batch in batches for payload in batch.column("payload").to_pylist())
    yield from judge(payloads, Asked(Options(*usual), command)).to_batches()
