"""Databases of drawn layers, to compact: L0, runs of several SSTs, visible ranges, SSTs of a parent; and what they show."""

from collections import Counter
from itertools import pairwise
from random import Random
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of, uuid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import ExternalDb, Run, Sst, View
from highwater.impl.codecs.sst_ids import RANDOM
from highwater.impl.db.build import sst_of
from highwater.impl.db.merge import Shown, shown, versions
from highwater.impl.db.reader import Reader, State
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.manifests.spans import Span, effective, in_run, range_of
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World

KEYS = [b"b", b"c", b"d", b"e", b"f", b"g"]
START_MS = 1_700_000_000_000
LATER_MS = 10**9  # when all that expires has expired
ALL = Span()


class Clock:
    """A clock that only sleeping, and the test, moves; and the ULIDs of its time."""

    def __init__(self) -> None:
        self.now, self.given = START_MS, 0

    def now_ms(self) -> int:
        return self.now

    async def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms

    def new_id(self) -> str:
        self.given += 1
        return ulid_of(self.now << RANDOM | self.given)


class Noted:
    """Metrics that a test looks at."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.warnings: list[str] = []

    def count(self, name: str, amount: int = 1) -> None:
        self.counted[name] += amount

    def observe(self, name: str, value: float) -> None:
        self.counted[name] += 1

    def warn(self, message: str) -> None:
        self.warnings.append(message)


class Layers(NamedTuple):
    store: MemoryStore
    clock: Clock
    manifest: Manifest  # manifest 1 of the database "db"

    def world(self, store=None) -> World:
        return World(store or self.store, self.clock, self.clock, Noted())


def tables(draw: Random, clock: Clock) -> list[list[Row]]:
    """Rows of flushes, the oldest first, each sorted as an SST is."""
    found, seq = [], 0
    for _ in range(draw.randint(2, 9)):
        rows = []
        for _ in range(draw.randint(1, 3)):
            seq += 1
            for key in draw.sample(KEYS, draw.randint(1, 3)):
                kind = draw.choice((VALUE, VALUE, TOMBSTONE, MERGE))
                value = b"" if kind == TOMBSTONE else b"%d" % seq * draw.choice((1, 30))
                expiry = None if kind == TOMBSTONE else draw.choice((None, None, clock.now - 5, clock.now + LATER_MS - 5))
                rows.append(Row(key, seq, kind, value, clock.now - 9, expiry))
        found.append(sorted(rows, key=lambda row: (row.key, -row.seq)))
    return found


def pieces(draw: Random, rows: list[Row], most: int) -> list[list[Row]]:
    """Cut the rows of a run between any two, as released compactors do: a key's versions may be in several SSTs."""
    cuts = sorted(draw.sample(range(1, len(rows)), min(len(rows) - 1, draw.randint(0, most - 1))))
    return [rows[a:b] for a, b in pairwise([0, *cuts, len(rows)])]


async def layers(draw: Random) -> Layers:
    clock = Clock()
    store, ssts, views, parents = MemoryStore(clock.now_ms), list[Sst](), list[list[View]](), list[str]()
    flushed = tables(draw, clock)
    runs = draw.randint(0, len(flushed) // 2)
    for number, rows in enumerate(flushed):
        views.append([])
        for piece in pieces(draw, rows, 3 if number < runs else 1):
            clock.now += 10
            sst, visible, root = clock.new_id(), None, draw.choice(("db", "db", "parent"))
            if draw.random() < 0.3:  # a projection: rows outside are not shown
                visible = range_of(Span(piece[0].key, piece[-1].key + b"\0"))
                piece = [Row(b"a", 1, value=b"hidden"), *piece, Row(b"z", 1, value=b"hidden")]
            built = sst_of(piece, 0, 64, 2)
            await store.put(key_of_sst(root, sst), built.body)
            ssts.append(Sst(sst, built.info, 2))
            views[-1].append(View(draw.choice((sst, clock.new_id())), sst, visible))
            parents += [sst] * (root == "parent")
    last = max(row.seq for rows in flushed for row in rows)
    external = (ExternalDb("parent", uuid_of(1), uuid_of(2), tuple(parents)),) if parents else ()
    manifest = Manifest(
        initialized=True, ssts=tuple(ssts), l0=tuple(view for of in reversed(views[runs:]) for view in of),
        compacted=tuple(Run(3 * i, tuple(views[i])) for i in reversed(range(runs))), external_dbs=external, last_l0_seq=last,
        recent_snapshot_min_seq=draw.choice((0, draw.randint(1, last), last)))
    clock.now += 10
    await store.put(Namespace("db", "manifest").key(1), ManifestCodec().encode(manifest))
    return Layers(store, clock, manifest)


# --- what they show

async def every_row(store, manifest: Manifest) -> dict[bytes, list[Row]]:
    """All versions of each key."""
    reader = Reader(store, State("db", manifest, []))
    return {rows[0].key: rows async for rows in versions(reader.sources(ALL))}


def reads(rows: dict[bytes, list[Row]], first: int, last: int) -> dict[tuple[bytes, int, int], Shown]:
    """Show each key at each number that is kept, now and when all that expires has expired."""
    found = {(key, seq, at): shown(of, at, seq) for key, of in rows.items() for seq in range(first, last + 1)
             for at in (START_MS, START_MS + LATER_MS)}
    return {place: one for place, one in found.items() if one}


async def levels(store, manifest: Manifest) -> list[dict[bytes, list[int]]]:
    """The numbers of each key's versions in each run and SST of L0, the oldest level first."""
    reader = Reader(store, State("db", manifest, []))
    ssts = reader.state.ssts
    sources = [in_run(run.id, run.views, ssts) for run in reversed(manifest.compacted)]
    sources += [[(view, effective(view, ssts))] for view in reversed(manifest.l0)]
    found = []
    for views in sources:
        found.append({})
        async for rows in reader.of_views([*views], ALL, None):
            for row in rows:
                found[-1].setdefault(row.key, []).append(row.seq)
    return found


async def check_layers(store, manifest: Manifest, before: Manifest) -> None:
    """Check that released clients read it as ours do: newer versions are above older ones, and lists name what is shown."""
    seen: dict[bytes, int] = {}
    for level in await levels(store, manifest):
        assert level, "an empty run"
        for key, seqs in level.items():
            assert min(seqs) > seen.get(key, 0), f"{key!r}: {min(seqs)} is above {seen[key]}"
            seen[key] = max(seqs)
    ids = [run.id for run in manifest.compacted]
    assert ids == sorted(set(ids), reverse=True)
    shown_ssts = {view.sst_id for view in manifest.views}
    assert sorted(sst.id for sst in manifest.ssts) == sorted(shown_ssts)
    external = {sst for of in before.external_dbs for sst in of.sst_ids}
    assert [of.path for of in manifest.external_dbs] == [of.path for of in before.external_dbs]
    assert {sst for of in manifest.external_dbs for sst in of.sst_ids} == shown_ssts & external
    gone = [view for view in before.l0 if view not in manifest.l0]
    if gone:
        newest = next(view for view in before.l0 if view in gone)
        assert (manifest.last_compacted_l0_view_id, manifest.last_compacted_l0_sst_id) in ((newest.id, newest.sst_id),
                                                                                           (newest.id, None))
        assert manifest.l0 == before.l0[:before.l0.index(newest)]

