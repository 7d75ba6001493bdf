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
from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.messages import BlockMeta, decode
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import Definite
from highwater.impl.index.bucket.covered import Covered, Known, covered
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
    """What a rebuild has made."""

    objects: int  # under keys of blocks
    blocks: int  # in the snapshot
    damaged: list[tuple[str, str]]  # key, reason
    covered: list[Covered]
    letters: int
    others: int  # objects that are none of an index


def work_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.work")


def rebuild(url: str, endpoint: str, out: Path, engine: Engine, config: Config, told: Callable[[int, int], None]) -> Rebuilt:
    """Write the snapshot of a bucket. `told`: how many objects are read, of how many.

    Raises NotRebuilt, OtherLayout, StoreError, and ValueError for a bad URL."""
    if out.exists():
        raise NotRebuilt(f"{out} is there: give another name, or delete it")
    work = work_of(out)
    listing = listed(url, endpoint, work)
    todo, others, letters = objects_in(listing)
    parts = [(number, todo[begin:begin + PART]) for number, begin in enumerate(range(0, len(todo), PART))]
    left = [part for part in parts if not (work / f"part-{part[0]}.parquet").exists()]
    done = len(todo) - sum(len(objects) for _, objects in left)
    told(done, len(todo))
    for number, rows in engine(url, endpoint, left):
        write(work / f"part-{number}.parquet", tabled(READ, rows))
        done += len(rows)
        told(done, len(todo))
    found = [pq.read_table(work / f"part-{number}.parquet", schema=READ) for number, _ in parts]
    table = pa.concat_tables(found) if found else READ.empty_table()
    bodies, damaged, known = judged(table)
    rows, blocks = rows_of(bodies, config)
    half = out.with_name(f".{out.name}.half")
    half.write_bytes(snapshot_of(rows, blocks))
    half.replace(out)
    shutil.rmtree(work)
    return Rebuilt(len(todo), blocks, damaged, list(covered(known)), letters, others)


def listed(url: str, endpoint: str, work: Path) -> pa.Table:
    """List the bucket, once. Raises NotRebuilt if the work is another bucket's."""
    if work.exists():
        label = read_json(work / "work.json")
        if label and (label.get("url"), label.get("version")) != (url, VERSION):
            raise NotRebuilt(f"{work} is of a rebuild of {label.get('url')!r}: delete it, or give another name")
        if label:
            return pq.read_table(work / "listing.parquet", schema=LISTING)
        shutil.rmtree(work)
    table = listing_of(url, endpoint)
    work.mkdir(parents=True)
    write(work / "listing.parquet", table)
    write_json(work / "work.json", {"url": url, "version": VERSION, "objects": table.num_rows})
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
    if others and not todo and not letters:
        raise OtherLayout(f"no object has the key of a block, as blocks/1/acme/ULID/block.bin; there are {others:,} others, "
                          f"{listing['key'][0].as_py()!r} first: give the URL with the prefix below which the blocks are")
    return todo, others, letters


def judged(table: pa.Table) -> tuple[list[bytes], list[tuple[str, str]], list[Known]]:
    """Return the metadata of good blocks, the damaged objects, and the good blocks. Of two of one name the first counts."""
    bodies, damaged, known, seen = [], [], [], dict[tuple[str, int, str], str]()
    for key, reason, metadata in zip(*(table[name].to_pylist() for name in ("key", "reason", "metadata"))):
        if reason:
            damaged.append((key, reason))
            continue
        block = decode(BlockMeta, metadata)
        one = Known(block.id, block.shard, tenant_of(block), block.compaction_level)
        first = seen.setdefault(one[:3], key)
        if first != key:
            damaged.append((key, f"{first} is a block of the same name, tenant and shard"))
            continue
        bodies.append(metadata)
        known.append(one)
    return bodies, damaged, known


def stream_of(out: Path) -> bytes:
    """Return the rows of a snapshot file before compression. Raises DamagedSnapshot."""
    return snapshot.stream(snapshot.decode(out.read_bytes())[1])[0]


def in_processes(jobs: int) -> Engine:
    """Return the engine of local processes."""
    def engine(url: str, endpoint: str, parts: Sequence[Part]) -> Iterator[tuple[int, list[Read]]]:
        if not parts:
            return
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
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
    lines += [{"covered": one.source._asdict(), "by": one.by._asdict(), "proved": one.proved} for one in rebuilt.covered]
    return "".join(json.dumps(line) + "\n" for line in lines)
