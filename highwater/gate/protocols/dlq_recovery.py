"""Define checks of `highwater verify` for an index on a real S3 server, from end to end, with nodes that sweep and clean, with
workers and writers: 30 seconds in each gate, and ten minutes, with Spark at the end, in the deeper one."""

from collections.abc import Iterator

from highwater.gate import soak
from highwater.gate.rows import Check

STEM = "dlq_recovery"
RUN_BY = ("impl", "highwater/index", "highwater/cluster", "highwater/servers", "dst/bulk")
ON_SPARK = (*RUN_BY, "dst/spark")
WHAT = ("an index on an S3 server with writers, workers, dead letters and retention, {} of kills and stalls: each acknowledged "
        "datum is in exactly one block, and the bucket alone gives the same index")
STORY = ("index", "story")
TOOLS = ("versitygw", "boto3", "duckdb", "grpc", "lmdb", "pyarrow")


def checks() -> Iterator[Check]:
    yield from soak.of_command(STEM, WHAT.format("30 seconds"), (*STORY, "--seconds", "30", "--seed", "1"), RUN_BY, 75, TOOLS)


def deep_checks() -> Iterator[Check]:
    words = (*STORY, "--seconds", "600", "--seed", "2", "--engine", "spark")
    yield from soak.of_command(STEM, WHAT.format("ten minutes"), words, ON_SPARK, 700,
                               (*TOOLS, "pyspark", "java"))
