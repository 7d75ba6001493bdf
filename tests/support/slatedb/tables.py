"""Rows to draw, a database of ours in memory, and SSTs of format 1, which no release writes any more."""

import asyncio
import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of, write
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Sst, SstInfo, View
from highwater.impl.db.bloom import COMPOSITE
from highwater.impl.db.build import Built, separator, sst_of, wal_of
from highwater.impl.db.parts import FOOTER, BlockMeta, Index, sealed
from highwater.impl.db.rows import LONGEST_KEY, MERGE, TOMBSTONE, VALUE, Row, flags_of
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.stores.memory import MemoryStore

TIMES = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.binary(min_size=1, max_size=6) | st.sampled_from([b"k" * 300, b"k" * 299 + b"l", b"k" * LONGEST_KEY])
VALUES = st.binary(max_size=20) | st.sampled_from([bytes(200), b"v" * 5000, b"w" * 70_000])


@st.composite
def rows(draw, least: int = 1) -> list[Row]:
    """Rows as an SST has them."""
    places = draw(st.sets(st.tuples(KEYS, st.integers(0, 40) | st.integers(0, (1 << 64) - 1)), min_size=least, max_size=60))
    found = []
    for key, seq in sorted(places, key=lambda place: (place[0], -place[1])):
        kind = draw(st.sampled_from((VALUE, VALUE, TOMBSTONE, MERGE)))
        found.append(Row(key, seq, kind, b"" if kind == TOMBSTONE else draw(VALUES), draw(TIMES), draw(TIMES)))
    return found


def id_of(number: int) -> str:
    return ulid_of(number << 80)


def database(ssts: Sequence[Sequence[Row]], wal: Sequence[Sequence[Row] | None] = (), codec: int = 0,
             first: int = 1, **fields) -> tuple[MemoryStore, Manifest]:
    """A database at "db": the SSTs in L0, the newest last, with ids from `first` on; WAL objects, None for a fence."""
    store, built = MemoryStore(), {id_of(i): sst_of(rows, codec, 200, 5) for i, rows in enumerate(ssts, first)}
    manifest = Manifest(initialized=True, ssts=tuple(Sst(name, one.info, 2) for name, one in built.items()),
                        l0=tuple(View(name, name) for name in reversed(built)), wal_id_last_seen=len(wal),
                        last_l0_seq=max((row.seq for rows in ssts for row in rows), default=0))._replace(**fields)
    bodies = {key_of_sst("db", name): one.body for name, one in built.items()}
    bodies |= {Namespace("db", "wal").key(i): wal_of(rows, codec).body if rows else b"" for i, rows in enumerate(wal, 1)}
    bodies[Namespace("db", "manifest").key(1)] = ManifestCodec().encode(manifest)
    for key, body in bodies.items():
        asyncio.run(store.put(key, body))
    return store, manifest


def fence_with_body() -> bytes:
    """A fence as releases before 0.14 write it: a table without blocks."""
    index = sealed(write(Index()))
    info = SstInfo(index_len=len(index), filter_format=COMPOSITE)
    return index + sealed(write(info)) + FOOTER.pack(len(index), 2)


def block_v1(rows: Sequence[Row]) -> bytes:
    """A block of format 1: every key shares with the first one."""
    entries, offsets = bytearray(), []
    for row in rows:
        offsets.append(len(entries))
        shared = next((i for i, (a, b) in enumerate(zip(rows[0].key, row.key)) if a != b), min(len(rows[0].key), len(row.key)))
        shared = shared if entries else 0
        entries += struct.pack(">HH", shared, len(row.key) - shared) + row.key[shared:]
        entries += struct.pack(">QB", row.seq, flags_of(row))
        entries += b"".join(struct.pack(">q", time) for time in (row.expire_ms, row.create_ms) if time is not None)
        entries += b"" if row.kind == TOMBSTONE else struct.pack(">I", len(row.value)) + row.value
    return bytes(entries) + struct.pack(f">{len(offsets) + 1}H", *offsets, len(offsets))


def sst_v1(blocks: Sequence[Sequence[Row]]) -> Built:
    """An SST of format 1, without filter and statistics."""
    body, metas = bytearray(), []
    for before, rows in zip((None, *blocks), blocks):
        metas.append(BlockMeta(len(body), separator(before[-1].key, rows[0].key) if before else b""))
        body += sealed(block_v1(rows))
    index = sealed(write(Index(tuple(metas))))
    info = SstInfo(blocks[0][0].key, len(body), len(index), len(body), 0, last_entry=blocks[-1][-1].key,
                   filter_format=COMPOSITE)
    body += index
    return Built(bytes(body) + sealed(write(info)) + FOOTER.pack(len(body), 1), info)
