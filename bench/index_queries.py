"""Queries of the metadata index: CPU of one beside a scan of the same units in bbolt by a program in Go.

The blocks lie over 48 hours, in 32 shards, of 200 tenants, of which the largest has one in five. A block has 8 datasets of 100
services. The query is for one hour of the largest tenant, and one service: about 1 % of the datasets in that hour. Both sides
have looked at these units before, and both are narrowed to the tenant's units of that time first. Go decodes blocks with the
published API's functions, and matches with Prometheus's. Without Go there is no ratio. `HIGHWATER_BLOCKS` says how many blocks
there are; a million of them take some minutes to make.
"""

import asyncio
import os
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import BlockMeta, Dataset, QueryRequest
from highwater.impl.index import units
from highwater.impl.index.kv import MemoryKV, under
from highwater.impl.index.query import answers
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.found import units_of
from highwater.impl.index.query.meter import Meter
from highwater.impl.index.query.request import Query, query_of

BLOCKS, RUNS, LEAST_RATIO = int(os.environ.get("HIGHWATER_BLOCKS", 1_000_000)), 6, 10
SHARDS, TENANTS, DATASETS, SERVICES = 32, 200, 8, 100
START_MS, SPAN_MS, HOUR_MS = 1_750_399_200_000, 48 * 3_600_000, 3_600_000
FROM_MS = START_MS + SPAN_MS // 2 + HOUR_MS
ASKED = {"tenant_id": ["t0"], "start_time": FROM_MS, "end_time": FROM_MS + HOUR_MS, "query": '{service_name="service-7"}'}
PEER = Path(__file__).resolve().parent / "peers" / "index_scan"


def main() -> bool:
    """Print the figures. Return True if one misses its target."""
    rows, query = filled(), query_of(QueryRequest(**ASKED, labels=["service_name"]))
    cache = Cache(1 << 62)
    cold_s, found = asked(rows, query, cache)
    warm_s = min(asked(rows, query, cache)[0] for _ in range(RUNS))
    print(f"{BLOCKS:,} blocks: the query finds {found:,} datasets in {warm_s * 1e3:.1f} ms of CPU, at first "
          f"{cold_s * 1e3:.0f} ms; it looks at {cache.held:,} datasets in {len(cache.units)} units")
    with tempfile.TemporaryDirectory() as folder:
        theirs = in_go(Path(folder), rows, query)
    if isinstance(theirs, str):
        print(f"no ratio: {theirs}")
        return False
    seconds, theirs_found = theirs
    assert theirs_found == found, (theirs_found, found)
    print(f"the scan in Go takes {seconds * 1e3:.1f} ms: {seconds / warm_s:.1f} times as long (target: {LEAST_RATIO})")
    return seconds / warm_s < LEAST_RATIO


def filled() -> Any:
    """Return the rows of an index with the blocks in it."""
    draw, kv = Random(1), MemoryKV()
    with kv.transaction() as rows:
        for number in range(BLOCKS):
            block = made(number, draw)
            units.insert(rows, units.unit_of(block), block, number + 1)
    with kv.snapshot() as rows:
        return rows


def made(number: int, draw: Random) -> Any:
    at_ms = START_MS + number * SPAN_MS // BLOCKS
    tenant = f"t{0 if draw.random() < 0.2 else 1 + draw.randrange(TENANTS - 1)}"
    services = [f"service-{draw.randrange(SERVICES)}" for _ in range(DATASETS)]
    table = ["", tenant, "compaction-worker", "service_name", "profile_type", "cpu", "memory", *dict.fromkeys(services)]
    block = BlockMeta(id=ulids.made(at_ms, number.to_bytes(10)), tenant=1, shard=number % SHARDS, compaction_level=1,
                      created_by=2, min_time=at_ms, max_time=at_ms + 10_000, size=1_000_000, string_table=table)
    for i, service in enumerate(services):
        name = table.index(service)
        block.datasets.append(Dataset(tenant=1, name=name, min_time=at_ms, max_time=at_ms + 10_000, size=100_000,
                                      table_of_contents=[i * 100_000, i * 100_000 + 50_000, i * 100_000 + 90_000],
                                      labels=[2, 3, name, 4, 5, 2, 3, name, 4, 6]))
    return block


async def at_once(step: Any) -> Any:
    return step()


def asked(rows: Any, query: Query, cache: Cache) -> tuple[float, int]:
    """Return the seconds of CPU of a query, and the number of datasets that it finds."""
    async def work() -> tuple[float, int]:
        start_s = time.process_time()
        answer = await answers.metadata(rows, query, cache, 1 << 40, Meter(1 << 62, 1 << 62), at_once)
        return time.process_time() - start_s, sum(len(block.datasets) for block in answer.blocks)

    return asyncio.run(work())


def in_go(folder: Path, rows: Any, query: Query) -> tuple[float, int] | str:
    """Return the same of the scan in Go, or why there is none."""
    go = shutil.which("go")
    if go is None:
        return "Go is missing"
    program, written = folder / "scan", folder / "units"
    env = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    done = subprocess.run([go, "build", "-o", program, "."], cwd=PEER, env=env, capture_output=True, text=True)
    if done.returncode:
        return f"the scan cannot be built: {done.stderr.strip()[-300:]}"
    with written.open("wb") as file:
        for unit, _ in units_of(rows, query, Cache(0)):
            strings = [text.encode() for text in units.table(rows, unit).strings]
            blocks = [text for pair in under(rows, row.index_key(unit, row.BLOCK)) for text in pair]
            for number, texts in ((len(strings), strings), (len(blocks) // 2, blocks)):
                file.write(struct.pack(">I", number) + b"".join(struct.pack(">I", len(text)) + text for text in texts))
    words = [program, written, folder / "bolt", "t0", str(query.min_ms), str(query.max_ms), ASKED["query"]]
    told = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"GOMAXPROCS": "1"})
    seconds, found = told.stdout.split()
    return float(seconds), int(found)


if __name__ == "__main__":
    main()
