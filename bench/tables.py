"""Tables: how fast SSTs are decoded and built, in MB of rows (keys and values) for each second of CPU.

Rows have keys of 16 bytes and values of 84, as many tests of key-value stores have, or of 8, where most of the work is of rows.
The ratio compares a scan, which checks and merges, with nothing but the checksum of the same bytes.
"""

import asyncio
import random
import time
import zlib

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.tables import Sst, View
from highwater.impl.db.build import sst_of
from highwater.impl.db.compression import NAMES
from highwater.impl.db.reader import Reader, State
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table
from highwater.impl.layout import key_of_sst
from highwater.impl.manifests.spans import Span
from highwater.impl.stores.memory import MemoryStore

ROWS, LEAST_MB_S = 50_000, 5.0


def main() -> bool:
    """Print the rates. Return True if decoding is slower than the target."""
    slowest = min(measure(value_bytes, codec) for value_bytes, codec in ((84, 0), (8, 0), (84, 4), (84, 1)))
    return slowest < LEAST_MB_S


def measure(value_bytes: int, codec: int) -> float:
    draw = random.Random(value_bytes)
    rows = [Row(b"key%013d" % i, 1 + i % 7, value=draw.randbytes(value_bytes // 2) * 2, create_ms=i) for i in range(ROWS)]
    megabytes = sum(len(row.key) + len(row.value) for row in rows) / 1e6
    start_s = time.process_time()
    built = sst_of(rows, codec)
    built_s = time.process_time() - start_s
    decoded_s = seconds_of(lambda: sum(1 for _ in Table("x", built.body).rows()))
    summed_s = seconds_of(lambda: zlib.crc32(built.body))
    store, name = MemoryStore(), ulid_of(1)
    asyncio.run(store.put(key_of_sst("db", name), built.body))
    state = State("db", Manifest(ssts=(Sst(name, built.info, 2),), l0=(View(name, name),)), [])
    scanned_s = seconds_of(lambda: asyncio.run(scan(store, state)))
    print(f"values of {value_bytes} bytes, {NAMES[codec]}: decoded {megabytes / decoded_s:,.0f} MB/s, scanned "
          f"{megabytes / scanned_s:,.0f}, built {megabytes / built_s:,.1f}; a scan takes {scanned_s / summed_s:,.0f} times as "
          "long as the checksum")
    return megabytes / decoded_s


async def scan(store: MemoryStore, state: State) -> None:
    found = 0
    async for _ in Reader(store, state).scan(Span(), 0):
        found += 1
    assert found == ROWS


def seconds_of(work) -> float:
    """Return the least CPU time of three."""
    times = []
    for _ in range(3):
        start_s = time.process_time()
        work()
        times.append(time.process_time() - start_s)
    return max(min(times), 1e-9)


if __name__ == "__main__":
    main()
