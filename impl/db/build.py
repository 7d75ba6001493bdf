"""Safety: what is built is read again as the same rows, by this code and by released clients.

Objects of format 2: see impl/db/parts.py and impl/db/block.py for their parts.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from highwater.impl.codecs.slatedb.flatbuffer import write
from highwater.impl.codecs.slatedb.tables import SstInfo
from highwater.impl.db.block import blocks_of, shared_prefix
from highwater.impl.db.bloom import COMPOSITE, filter_of
from highwater.impl.db.compression import pack
from highwater.impl.db.parts import COMPACTED, FOOTER, WAL, BlockMeta, BlockStats, Index, Stats, sealed
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row

VERSION = 2
BLOCK_BYTES, LARGEST_BLOCK = 4096, (1 << 16) - 1
LEAST_FILTERED = 1000  # rows; an SST with fewer gets no filter
FENCE = b""  # the WAL object that fences earlier writers


class Built(NamedTuple):
    """An object, and what a manifest says of it."""

    body: bytes
    info: SstInfo


def sst_of(rows: Sequence[Row], codec: int = 0, block_bytes: int = BLOCK_BYTES, least_filtered: int = LEAST_FILTERED) -> Built:
    """Return an SST with these rows. Raises ValueError unless keys ascend and the versions of each key descend."""
    for a, b in pairwise(rows):
        if (a.key, -a.seq) >= (b.key, -b.seq):
            raise ValueError(f"{b.key!r} of number {b.seq} follows {a.key!r} of {a.seq}: an SST is sorted")
    blocks = checked(rows, block_bytes)
    keys = [b"", *(separator(before[-1].key, after[0].key) for (before, _), (after, _) in pairwise(blocks))]
    found = filter_of((row.key for row in rows), len(rows)) if len(rows) >= least_filtered else b""
    return closed(blocks, keys, codec, SstInfo(rows[0].key, compression=codec, sst_type=COMPACTED, last_entry=rows[-1].key,
                                               filter_format=COMPOSITE), found, write(stats_of(block for block, _ in blocks)))


def wal_of(rows: Sequence[Row], codec: int = 0, block_bytes: int = BLOCK_BYTES) -> Built:
    """Return a WAL object with these rows. Raises ValueError unless their numbers do not descend."""
    if any(a.seq > b.seq for a, b in pairwise(rows)):
        raise ValueError("the numbers of rows descend: a WAL object has them in the order of their commits")
    blocks = checked(rows, block_bytes)
    keys = [block[0].seq.to_bytes(8, "big") for block, _ in blocks]
    return closed(blocks, keys, codec, SstInfo(keys[0], compression=codec, sst_type=WAL, filter_format=COMPOSITE))


def checked(rows: Sequence[Row], block_bytes: int) -> list[tuple[list[Row], bytes]]:
    if not rows or not 0 < block_bytes <= LARGEST_BLOCK:
        raise ValueError(f"{len(rows)} rows in blocks of {block_bytes:,} bytes: write some, in at most {LARGEST_BLOCK:,}")
    return blocks_of(rows, block_bytes)


def separator(last: bytes, first: bytes) -> bytes:
    """Return the shortest prefix of `first` that is after `last`; all of it if both are one key."""
    return first[:shared_prefix(last, first) + 1]


def stats_of(blocks: Iterable[list[Row]]) -> Stats:
    counted = [(BlockStats(*(sum(row.kind == kind for row in rows) for kind in (VALUE, TOMBSTONE, MERGE))), rows)
               for rows in blocks]
    puts, deletes, merges = (sum(of[place] for of, _ in counted) for place in range(3))
    return Stats(puts, deletes, merges, sum(len(row.key) for _, rows in counted for row in rows),
                 sum(len(row.value) for _, rows in counted for row in rows), tuple(of for of, _ in counted))


def closed(blocks: list[tuple[list[Row], bytes]], keys: list[bytes], codec: int, info: SstInfo, found: bytes = b"",
           stats: bytes = b"") -> Built:
    """Put the parts of an object together."""
    body, metas = bytearray(), []
    for (_, content), key in zip(blocks, keys):
        metas.append(BlockMeta(len(body), key))
        body += sealed(pack(content, codec))
    for name, content in (("filter", found), ("index", write(Index(tuple(metas)))), ("stats", stats)):
        part = sealed(pack(content, codec)) if content else b""
        offset = 0 if name == "stats" and not part else len(body)
        info = info._replace(**{f"{name}_offset": offset, f"{name}_len": len(part)})
        body += part
    return Built(bytes(body) + sealed(write(info)) + FOOTER.pack(len(body), VERSION), info)
