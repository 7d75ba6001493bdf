"""Makes an index anew of the objects in its bucket. Safety: the snapshot is the same however the work was cut, on whatever
engine, and however often it was stopped; each object that is not in it has a row with the reason.

The work is kept in a folder beside the snapshot, OUT.work, until the snapshot is written:

    work.json           the URL, and how many objects there are
    listing.parquet     the objects, as they were listed once: key, bytes, last_modified_ms
    part-N.parquet      what the footers of some of them say, in their order: key, bytes, reason, metadata

A part is renamed into place when it is whole. A rebuild that is started again reads the parts that are missing.
"""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.bulk.footers import Read, opened, read
from highwater.dst.campaign.folder import read_json, write_json
from highwater.dst.campaign.processes import begin_worker
from highwater.impl.codecs.index.messages import BlockMeta, decode
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import Definite
from highwater.impl.index.bucket.covered import Covered, Known, covered, left_out
from highwater.impl.index.bucket.objects import BLOCK, LETTER, OTHER, SEGMENT, OtherLayout, place_of
from highwater.impl.index.bucket.rebuild import rows_of, snapshot_of
from highwater.impl.index.config import Config
from highwater.impl.world import list_all
from highwater.index.tables import LISTED, OBJECTS
from highwater.index.tables import table as tabled

VERSION = 1
PART = 5_000  # objects
LISTING = pa.schema([OBJECTS.field(name) for name in LISTED])
READ = pa.schema([("key", pa.string()), ("bytes", pa.int64()), ("reason", pa.string()), ("metadata", pa.binary())])
Part = tuple[int, list[tuple[str, int]]]  # its number; its objects, each with its size
Engine = Callable[[str, str, Sequence[Part]], Iterator[tuple[int, list[Read]]]]
"""Read the footers of all parts in any order: (URL, endpoint, parts) -> number, rows."""


class NotRebuilt(Definite):
    """Nothing was made. The message says why."""


class Rebuilt(NamedTuple):
    """The result of a rebuild."""

    objects: int  # under keys of blocks
    blocks: int  # in the snapshot
    damaged: list[tuple[str, str]]  # key, reason
    covered: list[Covered]
    left_out: list[Known]  # of those, so that no datum is in the snapshot twice
    letters: int
    others: int  # objects that are none of an index


def work_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")


def rebuild(url: str, endpoint: str, out: Path, engine: Engine, config: Config, told: Callable[[int, int], None]) -> Rebuilt:
    """Write the snapshot of a bucket. `told`: how many objects are read, of how many.

    Raises NotRebuilt, OtherLayout, StoreError, and ValueError for a bad URL."""
    if out.exists():
        raise NotRebuilt(f"{out} is there: give another name, or delete it")
    work, url = work_of(out), url if "://" in url else str(Path(url).absolute())
    out.with_name(f"{out.name}.damaged.ndjson").unlink(missing_ok=True)
    listing = listed(url, endpoint, work)
    try:
        todo, others, letters = objects_in(listing)
    except OtherLayout:
        shutil.rmtree(work)
        raise
    parts = [(number, todo[begin:begin + PART]) for number, begin in enumerate(range(0, len(todo), PART))]
    left = [part for part in parts if not is_whole(work / f"part-{part[0]}.parquet", len(part[1]))]
    done = len(todo) - sum(len(objects) for _, objects in left)
    told(done, len(todo))
    for number, rows in engine(url, endpoint, left):
        write(work / f"part-{number}.parquet", tabled(READ, rows))
        done += len(rows)
        told(done, len(todo))
    found = [pq.read_table(work / f"part-{number}.parquet", schema=READ) for number, _ in parts]
    table = pa.concat_tables(found) if found else READ.empty_table()
    bodies, damaged, known = judged(table)
    twice = list(covered(known))
    gone = left_out(twice)
    rows, blocks = rows_of((body for body, one in zip(bodies, known) if one not in gone), config)
    half = out.with_name(f".{out.name}.half")
    half.write_bytes(snapshot_of(rows, blocks))
    half.replace(out)
    shutil.rmtree(work)
    return Rebuilt(len(todo), blocks, damaged, twice, sorted(gone), letters, others)


def is_whole(path: Path, objects: int) -> bool:
    """Return whether a part is there, and can be read."""
    try:
        return pq.read_table(path, schema=READ).num_rows == objects
    except (OSError, pa.ArrowException):
        return False


def listed(url: str, endpoint: str, work: Path) -> pa.Table:
    """List the bucket, once. Raises NotRebuilt if the work is another bucket's."""
    if work.exists():
        label = read_json(work / "work.json")
        if label and [label.get(name) for name in ("url", "version", "endpoint")] != [url, VERSION, endpoint]:
            raise NotRebuilt(f"{work} is of a rebuild of {label.get('url')!r}: delete it, or give another name")
        if label:
            return pq.read_table(work / "listing.parquet", schema=LISTING)
        shutil.rmtree(work)
    table = listing_of(url, endpoint)
    work.mkdir(parents=True)
    write(work / "listing.parquet", table)
    write_json(work / "work.json", {"url": url, "endpoint": endpoint, "version": VERSION, "objects": table.num_rows})
    return table


def listing_of(url: str, endpoint: str) -> pa.Table:
    """List a bucket. Raises StoreError, and ValueError for a bad URL."""
    entries = asyncio.run(list_all(opened(url, endpoint), ""))
    return tabled(LISTING, [(entry.key, entry.size_bytes, entry.last_modified_ms) for entry in entries])


def objects_in(listing: pa.Table) -> tuple[list[tuple[str, int]], int, int]:
    """Return the objects under keys of blocks, and the numbers of others and of dead letters. Raises OtherLayout."""
    todo, others, letters = [], 0, 0
    for key, size in zip(listing["key"].to_pylist(), listing["bytes"].to_pylist()):
        kind = place_of(key).kind
        if kind in (SEGMENT, BLOCK):
            todo.append((key, size))
        elif kind == OTHER:
            others += 1
        else:
            letters += kind == LETTER
    if not todo:
        first = f", {listing['key'][0].as_py()!r} first" if others else ""
        raise OtherLayout(f"no object has the key of a block, as blocks/1/acme/ULID/block.bin; there are {others:,} "
                          f"others{first}: give the URL with the prefix below which the blocks are")
    return todo, others, letters


def judged(table: pa.Table) -> tuple[list[bytes], list[tuple[str, str]], list[Known]]:
    """Return the metadata of good blocks, the damaged objects, and the good blocks. Of two of one name the first counts."""
    bodies, damaged, known, seen = [], [], [], dict[tuple[str, int, str], str]()
    for key, reason, metadata in zip(*(table[name].to_pylist() for name in ("key", "reason", "metadata"))):
        if reason:
            damaged.append((key, reason))
            continue
        block = decode(BlockMeta, metadata)
        tenants = tuple(sorted({block.string_table[of.tenant] for of in block.datasets}))
        one = Known(block.id, block.shard, tenant_of(block), block.compaction_level, tenants)
        first = seen.setdefault(one[:3], key)
        if first != key:
            damaged.append((key, f"{first} is a block of the same name, tenant and shard"))
            continue
        bodies.append(metadata)
        known.append(one)
    return bodies, damaged, known


def in_processes(jobs: int) -> Engine:
    """Return the engine of local processes."""
    def engine(url: str, endpoint: str, parts: Sequence[Part]) -> Iterator[tuple[int, list[Read]]]:
        if not parts:
            return
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker) as pool:
            futures: dict[Any, int] = {pool.submit(read, url, endpoint, objects): number for number, objects in parts}
            for future in as_completed(futures):
                yield futures[future], future.result()

    return engine


def write(path: Path, table: pa.Table) -> None:
    half = path.with_name(f".{path.name}")
    pq.write_table(table, half)
    half.replace(path)


def damaged_file(out: Path, rebuilt: Rebuilt) -> str:
    """Return the rows of what a rebuild found, as NDJSON."""
    lines: list[dict] = [{"key": key, "reason": reason} for key, reason in rebuilt.damaged]
    gone = set(rebuilt.left_out)
    lines += [{"covered": one.source._asdict(), "by": one.by._asdict(), "proved": one.proved,
               "left_out": [which for which, block in (("covered", one.source), ("by", one.by)) if block in gone]}
              for one in rebuilt.covered]
    return "".join(json.dumps(line) + "\n" for line in lines)
