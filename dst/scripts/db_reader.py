"""Scripts of readers of one database, impl/protocols/db_reader.py."""

from collections.abc import Awaitable
from typing import Any

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.rows import InvalidRows, Row, decode_rows, encode_rows
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing
from highwater.impl.protocols.db_reader import DbReader, NotOpen, Options
from highwater.impl.protocols.db_reader_view import NotReadable, added, last_wal_id, purged
from highwater.impl.protocols.sequenced_metadata import MetadataStore

MANIFESTS, WAL = Namespace("db", "manifest"), Namespace("db", "wal")
A, B = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"
OPTIONS = Options(10, 100, 60)


def row(i: int, key: str = "k") -> Row:
    return Row(i, key, f"v{i}")


async def begun(alone: Alone, rows: int, upto: int, after: int) -> MetadataStore:
    """Begin a database: WAL objects with one row each, of which an SST has those up to `upto`."""
    manifests = MetadataStore(alone.world, MANIFESTS, DATABASE)
    for i in range(1, rows + 1):
        await alone.real.create(WAL.key(i), encode_rows([row(i)]))
    await alone.real.create(key_of_sst("db", A), encode_rows(map(row, range(1, upto + 1))))
    await manifests.initialise(Manifest(l0=(A,), last_l0_seq=upto, replay_after_wal_id=after))
    alone.sent()
    return manifests


async def compacted(manifests: MetadataStore, alone: Alone, upto: int) -> None:
    """Put another SST in the place of all others, and collect what nothing in the latest manifest names."""
    await alone.real.create(key_of_sst("db", B), encode_rows(map(row, range(1, upto + 1))))
    await manifests.update(lambda _, m: m._replace(l0=(B,), last_l0_seq=upto, replay_after_wal_id=upto))
    alone.sent()


def seqs(rows: list[Row]) -> list[int]:
    return [one.seq for one in rows]


async def life(alone: Alone) -> None:
    """A reader opens, polls without a change, follows a compaction, renews its lease, and closes."""
    manifests = await begun(alone, 3, 2, 1)
    reader = DbReader(manifests, "db", OPTIONS)
    await alone.raises(NotOpen, reader.get("k"))
    view = await reader.open()
    same((view.manifest.wal_id_last_seen, view.wal, [table.rows for table in view.tables]), (3, 3, [(row(3),)]))
    same(alone.sent(), ["list manifest", "get 1.manifest", "list wal", "create 2.manifest", "get manifest.boundary",
                        "get 2.sst", "get 3.sst"])
    same(await reader.poll(), False)
    same(alone.sent(), ["list manifest"])
    for update in ("x", "y"):
        await manifests.update(lambda _, m, update=update: m._replace(updates=(update,)))
    alone.sent()
    same([await reader.poll(), await reader.poll()], [False, False])
    same(alone.sent(), ["list manifest", "get 4.manifest", "list manifest"])
    scan = reader.scan()
    await compacted(manifests, alone, 3)
    same(await reader.poll(), True)
    same((seqs(await scan.rows()), await reader.get("k"), await reader.get("z")), ([1, 2, 3], "v3", None))
    same(len((await manifests.current()).value.checkpoints), 2)
    scan.end()
    scan.end()
    same(await reader.poll(), False)
    same([one.id for one in (await manifests.current()).value.checkpoints], ["id2"])
    alone.sent()
    await reader.refresh()
    same(alone.sent(), [])
    alone.now += 50
    await reader.refresh()
    same((await manifests.current()).value.checkpoints[0].expiry_ms, alone.now + 100)
    await reader.close()
    same((await manifests.current()).value.checkpoints, ())


async def loss(alone: Alone) -> None:
    """A checkpoint that is gone is noticed by a poll and by a refresh, and another one is taken."""
    manifests = await begun(alone, 1, 0, 0)
    reader = DbReader(manifests, "db", OPTIONS)
    for lose in (reader.poll, reader.refresh):
        view = await reader.open()
        scan = reader.scan()
        alone.now += 60
        await checkpoints.delete(manifests, view.checkpoint)
        await lose()
        await reader.poll()
        same(reader.view is not None and reader.view.checkpoint != view.checkpoint, True)
        await alone.real.delete(key_of_sst("db", A))
        await alone.raises(NotReadable, scan.rows(), checkpoint=view.checkpoint)
        await alone.real.create(key_of_sst("db", A), encode_rows([]))
        await reader.close()
    view = await reader.open()
    alone.now += 101
    await reader.refresh()
    same(reader.lost, {view.checkpoint})
    same(await reader.poll(), True)


async def tasks(alone: Alone) -> None:
    """The refresher goes on, whatever the poller takes and deletes between two of its requests, and so does the poller."""
    manifests = await begun(alone, 3, 2, 1)
    reader = DbReader(manifests, "db", OPTIONS)
    await reader.open()
    scan = reader.scan()
    await compacted(manifests, alone, 3)
    await reader.poll()

    async def another_replaces_the_second() -> None:
        await manifests.update(lambda _, m: m._replace(l0=(A, B)))
        same([await reader.poll(), await reader.poll()], [True, False])

    async def the_scan_ends() -> None:
        scan.end()
        await reader.poll()

    async def renewed_when_half_is_over() -> None:
        alone.now += 60
        await reader.refresh()

    moments = (("create", another_replaces_the_second, {"id1", "id3"}), ("get", the_scan_ends, {"id3"}))
    for op, during, left in moments:  # while the lease of the first one is renewed: before the update, and after it
        alone.now += 60
        alone.fails(op, MANIFESTS.boundary_key if op == "get" else "manifest/", during)
        await reader.refresh()
        same((set(reader.held), reader.lost), (left, set()))
    scan = reader.scan()
    await manifests.update(lambda _, m: m._replace(l0=(B,)))
    alone.fails("create", "manifest/", renewed_when_half_is_over)  # while the next checkpoint is created
    same([await reader.poll(), await reader.poll(), reader.lost], [True, False, set()])
    await reader.refresh()
    alone.now += 60
    alone.fails("create", "manifest/", the_scan_ends)
    await reader.refresh()
    same((set(reader.held), reader.lost), ({"id4"}, set()))


async def failures(alone: Alone) -> None:
    """The next poll tries again what failed, and the view stays as it is meanwhile."""
    manifests = await begun(alone, 2, 1, 0)
    reader = DbReader(manifests, "db", OPTIONS)
    alone.fails("create", "manifest/", LOST)
    await reader.open()
    same(alone.sent()[-3:], ["get 2.manifest", "get 1.sst", "get 2.sst"])
    await compacted(manifests, alone, 1)
    await alone.real.create(WAL.key(3), encode_rows([row(3)]))
    alone.fails("get", "wal/", lambda: alone.real.delete(WAL.key(3)))
    await alone.raises(NotReadable, reader.poll(), checkpoint="id2")
    same(seqs(await reader.rows_of(reader.scan().view)), [1, 2])
    await alone.real.create(WAL.key(3), encode_rows([row(3)]))
    same((await reader.poll(), reader.view and reader.view.wal), (True, 3))
    await manifests.update(lambda _, m: m._replace(updates=("x",)))
    latest = (await manifests.current()).id
    alone.fails("get", f"{latest}.manifest", lambda: alone.real.delete(MANIFESTS.key(latest)))
    same(await reader.poll(), False)
    alone.now += 60
    alone.fails("list", "manifest", Unavailable)
    await reader.refresh()
    same(any("could not be renewed" in one for one in alone.warnings), True)
    alone.fails("list", "manifest", Unavailable)
    await reader.close()
    same("not deleted yet" in alone.warnings[-1], True)


async def releases(alone: Alone) -> None:
    """A checkpoint that cannot be deleted now keeps no other one."""
    manifests = await begun(alone, 2, 0, 0)
    reader = DbReader(manifests, "db", OPTIONS)
    await reader.open()
    scans = [reader.scan()]
    await compacted(manifests, alone, 1)
    await reader.poll()
    scans.append(reader.scan())
    await manifests.update(lambda _, m: m._replace(l0=(A, B)))
    await reader.poll()
    for scan in scans:
        scan.end()
    alone.fails("list", "manifest", Unavailable)
    await reader.poll()
    same([one.id for one in (await manifests.current()).value.checkpoints], ["id1", "id3"])
    await reader.poll()
    same([one.id for one in (await manifests.current()).value.checkpoints], ["id3"])


async def late(alone: Alone) -> None:
    """A checkpoint that is found again when its lease is over is not shown: a collector may have dropped it."""
    manifests = await begun(alone, 1, 0, 0)

    async def time_passes() -> None:
        alone.now += OPTIONS.lifetime_ms or 0

    async def lost(call: Awaitable[Any]) -> None:
        shown, latest = reader.view, (await manifests.current()).id
        alone.fails("create", "manifest/", LOST)
        alone.fails("get", f"{latest + 1}.manifest", time_passes)
        await alone.raises(CheckpointEnded, call, checkpoint=f"id{alone.ids + 1}")
        same(reader.view is shown, True)

    reader = DbReader(manifests, "db", OPTIONS)
    await lost(reader.open())
    await reader.open()
    same(await reader.poll(), False)
    await compacted(manifests, alone, 1)
    await lost(reader.poll())
    same((await reader.poll(), reader.view and reader.view.manifest.l0), (True, (B,)))
    await reader.close()
    same((await manifests.current()).value.checkpoints, ())


async def beside(alone: Alone) -> None:
    """A file at or below the boundary may be in nobody's history: a checkpoint that it does not list is not lost."""
    manifests = await begun(alone, 1, 0, 0)
    reader = DbReader(manifests, "db", OPTIONS)
    await reader.open()
    await alone.real.create(MANIFESTS.key(3), DATABASE.encode(Manifest(l0=(A,))))
    await MetadataStore(alone.world, MANIFESTS, DATABASE).bounded.boundary.advance(3)
    same((await reader.poll(), reader.lost), (False, set()))


async def given(alone: Alone) -> None:
    """A reader of somebody's checkpoint takes none, and neither polls nor refreshes."""
    manifests = await begun(alone, 2, 1, 1)
    await checkpoints.create(manifests, "x", 100)
    await compacted(manifests, alone, 2)
    reader = DbReader(manifests, "db", OPTIONS)
    same((await reader.open("x")).manifest.l0, (A,))
    same(seqs(await reader.scan().rows()), [1])
    await reader.close()
    await alone.raises(CheckpointMissing, reader.open("y"), checkpoint="y")
    alone.now += 100
    await alone.raises(CheckpointEnded, reader.open("x"), checkpoint="x")
    same((await manifests.current()).id, 3)


async def tables(alone: Alone) -> None:
    """Tables are of at most so many bytes, and rows go by their sequence numbers."""
    full = added((), map(row, range(1, 6)), 25)
    same([seqs([*table.rows]) for table in full], [[1, 2], [3, 4], [5]])
    same([(seqs([*table.rows]), table.size_bytes) for table in purged(full, 3)], [([4], 11), ([5], 11)])
    same([table.size_bytes for table in added((), [Row(1, "k", None)], 1)], [9])
    for i in (1, 2, 4):
        await alone.real.create(WAL.key(i), b"")
    await alone.real.create(WAL.prefix + "0.tmp", b"")
    same([await last_wal_id(alone.world.store, WAL, after) for after in (0, 1, 2, 3)], [2, 2, 2, 4])
    same((decode_rows(b""), decode_rows(encode_rows([row(1)]))), ((), (row(1),)))
    for body in (b"{", b"[[1]]", b'[["1","k","v"]]', b'[[1,"k",2]]'):
        try:
            decode_rows(body)
        except InvalidRows:
            continue
        raise AssertionError(f"{body!r} was decoded")
    for lifetime_ms in (20, 19):
        try:
            Options(10, lifetime_ms).check()
        except ValueError:
            continue
        raise AssertionError(f"a lifetime of {lifetime_ms} ms was allowed")
    Options(10, None).check()


async def forever(alone: Alone) -> None:
    """Without a lifetime a checkpoint never ends, and nothing renews it."""
    manifests = await begun(alone, 0, 0, 0)
    reader = DbReader(manifests, "db", Options(10, None))
    await reader.open()
    same((await manifests.current()).value.checkpoints[0].expiry_ms, 0)
    alone.sent()
    await reader.refresh()
    same(alone.sent(), [])


SCRIPTS: tuple[Script, ...] = (life, loss, tasks, failures, releases, late, beside, given, tables, forever)
