"""Check traces in bulk on Spark. Safety: the rows are the same as those of any other engine."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from highwater.dst.bulk.checking import Asked, judge
from highwater.dst.bulk.engines import Progress, Work, sort_rows
from highwater.dst.bulk.packets import packets
from highwater.dst.bulk.rows import SCHEMA, BulkError
from highwater.dst.bulk.sources import Choice, Split, read
from highwater.dst.campaign.what import CampaignError
from highwater.dst.spark.session import is_remote
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import watch, watch_remote
from highwater.dst.verdict import Options
from highwater.dst.version import code_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for short-lived JVMs, in which better compilation never pays
PACKED = "part int, payload binary"
ROWS = ", ".join(f"{field.name} {'bigint' if field.type == pa.int64() else 'string'}" for field in SCHEMA)


def check(spark: "SparkSession", work: Work, progress: Progress = lambda hundredths: None) -> pa.Table:
    """Return the rows of all runs, sorted by name, with one task for each split and each part. Raises BulkError."""
    pack, rows = tasks_of(work)
    frame = (spark.range(0, len(work.splits), 1, len(work.splits)).mapInArrow(pack, PACKED)
             .repartitionById(work.parts, "part").mapInArrow(rows, ROWS))
    found: list[pa.Table] = []
    try:
        (watch_remote if is_remote(spark) else watch)(spark, lambda: found.append(frame.toArrow()), 100, progress)
    except CampaignError as error:
        raise BulkError(f"Spark: {str(error).strip().splitlines()[-1].strip()}") from error  # the end of a traceback
    return sort_rows([found[0].cast(SCHEMA)])


def tasks_of(work: Work) -> tuple:
    """Return the workers' functions. Spark sends them as code, so they may refer to our modules only inside."""
    asked = tuple(work.asked.usual), work.asked.command
    module, plain = shipped(code_version()), (list(map(tuple, work.splits)), work.parts, asked, tuple(work.choice))

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        ours = module("highwater.dst.spark.bulk")
        work = ours.work_again(*plain)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from ours.packed(work, number)

    def rows(batches: Iterable[Any]) -> Iterator[Any]:
        ours = module("highwater.dst.spark.bulk")
        yield from ours.judged(ours.work_again(*plain), batches)

    return pack, rows


# --- in the worker

def work_again(splits: list[tuple], parts: int, asked: tuple[tuple, str], choice: tuple) -> Work:
    return Work([Split(*split) for split in splits], parts, Asked(Options(*asked[0]), asked[1]), Choice(*choice))


def packed(work: Work, number: int) -> Iterator[pa.RecordBatch]:
    for part, payload in packets(read(work.splits[number], work.choice), work.parts):
        yield pa.record_batch({"part": pa.array([part], pa.int32()), "payload": pa.array([payload], pa.binary())})


def judged(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Judge batches, which must be of one part."""
    payloads = (payload for batch in batches for payload in batch.column("payload").to_pylist())
    yield from judge(payloads, work.asked).to_batches()
