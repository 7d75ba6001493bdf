"""The metadata index: applied inserts per second beside bbolt's with the same rows, bytes of a block, and a restart.

A block has 8 datasets. Blocks come in the order of time, one entry each, for 32 shards. Both sides write one transaction for
each entry and sync nothing. bbolt gets the rows only, in buckets as Pyroscope has them; it does not decode, check and import
blocks. Its program needs Go; without it there is no ratio. Rates are of seconds of CPU, the best of three. Memory is the growth
of the process's peak, so it is measured first.
"""

import gc
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from highwater.impl.codecs.index import rows, snapshot, ulids
from highwater.impl.codecs.index.entries import entry
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, Dataset
from highwater.impl.index.config import Config, S
from highwater.impl.index.kv import MemoryKV
from highwater.impl.index.machine import Entry, Machine
from highwater.impl.stores.ordered_lmdb import LmdbKV
from highwater.model.core import peak_bytes

INSERTS, BLOCKS, RUNS = 5_000, 100_000, 3
SHARDS, DATASETS, START_MS = 32, 8, 1_750_399_200_000
LEAST_RATIO, MOST_BYTES, MOST_RESTART_S = 0.8, 1_000, 60  # of bbolt's inserts; of a block; of a million blocks
PEER = Path(__file__).resolve().parent / "peers" / "bbolt"


def main() -> bool:
    """Print the figures. Return True if one misses its target."""
    size, restart_s = measured()
    print(f"a block takes {size:,.0f} bytes; a restart from a snapshot of {BLOCKS:,} blocks takes {restart_s:.1f} s of CPU "
          f"(targets: {MOST_BYTES:,} bytes, {MOST_RESTART_S} s for a million)")
    entries = [*made(INSERTS)]
    with tempfile.TemporaryDirectory() as folder:
        transactions = recorded(entries)
        memory = max(rate(MemoryKV(), entries) for _ in range(RUNS))
        lmdb = max(in_lmdb(Path(folder) / f"rows{n}", entries) for n in range(RUNS))
        each = sum(map(len, transactions)) / len(transactions)
        print(f"inserts applied per second: {memory:,.0f} in memory, {lmdb:,.0f} in lmdb; {each:.1f} rows each")
        bolt = in_bbolt(Path(folder), transactions)
    missed = size > MOST_BYTES or restart_s * 1e6 / BLOCKS > MOST_RESTART_S
    if isinstance(bolt, str):
        print(f"no ratio: {bolt}")
        return missed
    print(f"bbolt writes {bolt:,.0f} per second: ours are {memory / bolt:.2f} times as many in memory, {lmdb / bolt:.2f} in "
          f"lmdb (target: {LEAST_RATIO})")
    return missed or memory / bolt < LEAST_RATIO


def made(number: int) -> Iterator[Entry]:
    """Yield the entries of so many new blocks."""
    for n in range(number):
        services = [f"service-{n % 50 * DATASETS + i}" for i in range(DATASETS)]
        table = ["", *services, "segment-writer", "profile_type", "cpu"]
        block = BlockMeta(id=ulids.made(START_MS + n, n.to_bytes(10)), shard=n % SHARDS, min_time=START_MS + n,
                          max_time=START_MS + n + 500, created_by=DATASETS + 1, size=1_000_000, string_table=table)
        for i in range(DATASETS):
            block.datasets.append(Dataset(name=i + 1, min_time=START_MS + n, max_time=START_MS + n + 500, size=100_000,
                                          table_of_contents=[i * 100_000, i * 100_000 + 50_000, i * 100_000 + 90_000],
                                          labels=[1, DATASETS + 2, DATASETS + 3]))
        yield Entry(n + 1, 1, (START_MS + n) * S // 1000, entry(AddBlock(metadata=block)))


def measured() -> tuple[float, float]:
    """Return the bytes of a block, and the seconds of CPU of a restart."""
    machine = Machine(MemoryKV(), Config())
    gc.collect()
    before = peak_bytes()
    for one in made(BLOCKS):
        machine.apply(one)
    size = (peak_bytes() - before) / BLOCKS
    file = snapshot.encode(*machine.snapshot((1,)))
    start_s = time.process_time()
    restored = Machine(MemoryKV(), Config())
    restored.restore(snapshot.decode(file)[1])
    restart_s = time.process_time() - start_s
    assert restored.dump() == machine.dump()
    return size, restart_s


def rate(kv: Any, entries: list[Entry]) -> float:
    machine = Machine(kv, Config())
    start_s = time.process_time()
    for one in entries:
        machine.apply(one)
    return len(entries) / (time.process_time() - start_s)


def in_lmdb(folder: Path, entries: list[Entry]) -> float:
    kv = LmdbKV(folder)
    try:
        return rate(kv, entries)
    finally:
        kv.close()


class Recording(MemoryKV):
    """A store that keeps the rows of each transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[list[tuple[bytes, bytes]]] = []

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with super().transaction() as writing:
            self.transactions.append(put := [])
            inner = writing.put
            writing.put = lambda key, value: (put.append((key, value)), inner(key, value))
            yield writing


def recorded(entries: list[Entry]) -> list[list[tuple[bytes, bytes]]]:
    kv = Recording()
    rate(kv, entries)
    return kv.transactions


def parts_of(key: bytes) -> list[bytes]:
    """Return the buckets of a row and its key in the last one: a unit's bucket is in its tenant's, and that in its window's."""
    if key[:1] != rows.INDEX:
        return [b"rows" + key[:1], key[1:] or b"value"]
    unit, rest = rows.unit_of(key[1:])
    path = [b"index", key[1:1 + rows.PARTITION_BYTES], rows.tenant_bytes(unit.tenant), struct.pack(">I", unit.shard)]
    return [*path, *([b".strings", rest[1:]] if rest[:1] == rows.STRINGS else [rest])]


def in_bbolt(folder: Path, transactions: list[list[tuple[bytes, bytes]]]) -> float | str:
    """Return how many of the transactions bbolt writes in a second of CPU, or why it does not."""
    go = shutil.which("go")
    if go is None:
        return "Go is missing"
    program, written = folder / "bbolt", folder / "rows"
    env = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    done = subprocess.run([go, "build", "-o", program, "."], cwd=PEER, env=env, capture_output=True, text=True)
    if done.returncode:
        return f"bbolt cannot be built: {done.stderr.strip()[-300:]}"
    with written.open("wb") as file:
        for puts in transactions:
            file.write(struct.pack(">I", len(puts)))
            for key, value in puts:
                *buckets, last = parts_of(key)
                file.write(struct.pack(">I", len(buckets)))
                for text in (*buckets, last, value):
                    file.write(struct.pack(">I", len(text)) + text)
    seconds = [float(subprocess.run([program, written, folder / f"bolt{n}"], capture_output=True, text=True, check=True).stdout)
               for n in range(RUNS)]
    return len(transactions) / min(seconds)


if __name__ == "__main__":
    main()
