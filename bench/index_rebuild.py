"""An index made anew of a folder of objects, held against it, and summed up.

The objects are as in index_queries.py, with 300 bytes of data each. Footers are read and verified by two processes that run
already. A rebuild is timed from its listing to its snapshot, in two processes and on Spark with two tasks, each with the start
of what it runs on taken off. HIGHWATER_BLOCKS says how many there are. The check and the report are of a snapshot and a listing
of CHECKED blocks, which need no objects.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from bench import index_queries
from highwater.dst.bulk.footers import read
from highwater.dst.spark.session import SessionOptions, session
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import encode
from highwater.impl.codecs.index.names import block_path
from highwater.impl.index.bucket.rebuild import rows_of, snapshot_of
from highwater.impl.index.config import Config
from highwater.impl.index.replicated import load
from highwater.impl.index.retention import Policy
from highwater.index import audit, tables
from highwater.index import rebuild as rebuilding

BLOCKS, CHECKED = int(os.environ.get("HIGHWATER_BLOCKS", 100_000)), int(os.environ.get("HIGHWATER_CHECKED", 1_000_000))
LEAST_FOOTERS, LEAST_REBUILT, MOST_CHECK_S = 20_000, 8_000, 60


def main() -> bool:
    """Print the figures. Return True if one misses its target."""
    with tempfile.TemporaryDirectory() as folder:
        footers, rebuilt, on_spark = of_objects(Path(folder))
    print(f"{footers:,.0f} footers a second read and verified by two processes (target: {LEAST_FOOTERS:,}); {rebuilt:,.0f} "
          f"blocks a second rebuilt (target: {LEAST_REBUILT:,})")
    if on_spark:
        print(f"on Spark {on_spark / rebuilt:.0%} of that (target: 90 %)")
    check_s, report_s = of_snapshot()
    print(f"{CHECKED:,} blocks held against their listing in {check_s:.0f} s, and summed up in {report_s:.0f} s (target: "
          f"{MOST_CHECK_S})")
    return footers < LEAST_FOOTERS or rebuilt < LEAST_REBUILT or max(check_s, report_s) > MOST_CHECK_S


def of_objects(folder: Path) -> tuple[float, float, float]:
    """Return footers a second, and blocks a second of a whole rebuild in processes and on Spark (0 without Java)."""
    draw, bucket, index_queries.BLOCKS = Random(1), folder / "bucket", BLOCKS
    for number in range(BLOCKS):
        block = index_queries.made(number, draw)
        path = bucket / block_path(block.shard, block.string_table[block.tenant], block.id, block.compaction_level)
        path.parent.mkdir(parents=True, exist_ok=True)
        block.size = 0
        path.write_bytes(bytes(300) + footer(block))
    objects = rebuilding.objects_in(rebuilding.listing_of(str(bucket), ""))[0]
    parts = [objects[begin:begin + rebuilding.PART] for begin in range(0, len(objects), rebuilding.PART)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(len, parts))
        began = time.monotonic()
        list(pool.map(read, [str(bucket)] * len(parts), [""] * len(parts), parts))
        footers = len(objects) / (time.monotonic() - began)
        here = rebuilt(bucket, folder / "here", in_pool(pool))
    try:
        from highwater.dst.spark.footers import of_session

        with session(SessionOptions(2)) as spark:
            list(of_session(spark)(str(bucket), "", [(number, part[:1]) for number, part in enumerate(parts[:4])]))
            there = rebuilt(bucket, folder / "there", of_session(spark))
    except Exception as error:
        print(f"not on Spark: {error}")
        there = 0.0
    return footers, here, there


def in_pool(pool: Any) -> rebuilding.Engine:
    def engine(url: str, endpoint: str, parts: Any) -> Iterator[Any]:
        futures = [(number, pool.submit(read, url, endpoint, objects)) for number, objects in parts]
        yield from ((number, future.result()) for number, future in futures)

    return engine


def rebuilt(bucket: Path, out: Path, engine: rebuilding.Engine) -> float:
    began = time.monotonic()
    found = rebuilding.rebuild(str(bucket), "", out, engine, Config(), lambda *_: None)
    assert found.blocks == BLOCKS and not found.damaged
    return BLOCKS / (time.monotonic() - began)


def of_snapshot() -> tuple[float, float]:
    """Return the seconds of a check and of a report, from the snapshot's bytes and the listing on."""
    draw, index_queries.BLOCKS = Random(1), CHECKED
    made = [index_queries.made(number, draw) for number in range(CHECKED)]
    listing = tables.table(rebuilding.LISTING, ((block_path(block.shard, block.string_table[block.tenant], block.id, 1),
                                                 block.size, 0) for block in made))
    file = snapshot_of(*rows_of([encode(block) for block in made], Config()))
    del made
    with timed() as check_s:
        rows = load(file)
        with audit.here() as ask:
            found = audit.checked(ask, tables.blocks(rows, Policy(), 0), tables.removed(rows), tables.objects(listing))
    assert not found.num_rows
    with timed() as report_s, audit.here() as ask:
        audit.reported(ask, tables.blocks(load(file), Policy(), 0))
    return check_s(), report_s()


@contextmanager
def timed() -> Iterator[Callable[[], float]]:
    began, took = time.monotonic(), list[float]()
    yield lambda: took[0]
    took.append(time.monotonic() - began)


if __name__ == "__main__":
    main()
