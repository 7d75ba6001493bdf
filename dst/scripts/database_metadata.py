"""Scripts of a database's metadata, impl/protocols/database_metadata.py."""

from collections.abc import Awaitable, Callable

from highwater.dst.script import LOST, Alone, Script, check, fails_with, same
from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.json.manifest import DATABASE, Checkpoint, InvalidManifest
from highwater.impl.codecs.json.ssts import name_of, records_of
from highwater.impl.codecs.json.wal import Record
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import FencedUnapplied, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import BoundaryLost
from highwater.impl.protocols.database_metadata import (
    CheckpointMissing,
    checkpoint_all,
    collect,
    drop_checkpoint,
    initialise,
    open,
    renew_checkpoint,
    stores_of,
    take_checkpoint,
)
from highwater.impl.protocols.manifest_compactions import Compactor, Stores
from highwater.impl.protocols.sequenced_metadata import Committed, Recognised
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.protocols.wal_fencing import Closed, Wal

MANIFESTS, WAL = Namespace("db", "manifest"), Namespace("db", "wal")
BOUNDARY = "gc/manifest.boundary"


async def begun(alone: Alone) -> Stores:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    alone.sent()
    return stores


def others(alone: Alone) -> Stores:
    """Return the stores of another client, whose requests do not fail."""
    return stores_of(alone.world._replace(store=alone.real), "db")


async def current(alone: Alone) -> Manifest:
    return (await others(alone).manifest.current()).value


async def writing(alone: Alone, *bodies: bytes) -> tuple[Stores, Wal]:
    """Return an open writer with these records; its manifest is file 2."""
    stores = await begun(alone)
    wal = await open(stores, "db", attempts=3)
    for body in bodies:
        await wal.append(body)
    alone.sent()
    return stores, wal


def bodies(wal: Wal) -> list[bytes]:
    return [record.body for record in wal.records]


def flushed(manifest: Manifest) -> list[bytes]:
    return [record.body for sst in (*manifest.compacted, *manifest.l0) for record in records_of(sst)]


async def nothing(job: Job) -> None:
    pass


def taking(alone: Alone, checkpoint: str) -> Callable[[], Awaitable[object]]:
    return lambda: take_checkpoint(others(alone).manifest, checkpoint, 0)


def replacing(alone: Alone, file_id: int, late: Manifest) -> Callable[[], Awaitable[object]]:
    """Return what happens to file `file_id`, the latest: another one is created, a collector passes it with the boundary and
    deletes it, and then the late create of a stalled client puts `late` in its place."""
    async def replace() -> None:
        await others(alone).manifest.update(lambda _, m: m)
        alone.now += 10
        await others(alone).manifest.collect(5)
        await alone.real.create(MANIFESTS.key(file_id), DATABASE.encode(late))

    async def twice() -> None:  # the file before the latest is old enough, and the boundary is ahead of `file_id`
        alone.now += 10
        await replace()

    return twice


# --- a writer

async def first_files(alone: Alone) -> None:
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    same(alone.sent(), ["list manifest", "create 1.manifest", "get manifest.boundary",
                        "list compactions", "create 1.compactions", "get compactions.boundary"])
    same((await stores.manifest.current()).value, Manifest())
    same((await stores.compactions.current()).value, Compactions())


async def write(alone: Alone) -> None:
    stores = await begun(alone)
    wal = await open(stores, "db")
    same(alone.sent(), ["list manifest", "get 1.manifest", "create 2.manifest", "get manifest.boundary", "list wal",
                        "create 1.sst", "list manifest"])
    same(bodies(wal), [])
    await wal.append(b"a")
    await wal.append(b"b")
    same(alone.sent(), ["create 2.sst", "list manifest", "create 3.sst", "list manifest"])
    await wal.flush()
    same(alone.sent(), ["create 3.manifest", "get manifest.boundary"])
    await wal.flush()
    same(alone.sent(), [])
    same(await current(alone), Manifest(writer_epoch=1, replay_after_wal_id=3, l0=(name_of(wal.records),)))
    await wal.append(b"c")
    alone.sent()
    later = await open(stores_of(alone.world, "db"), "db")
    same(alone.sent(), ["list manifest", "get 3.manifest", "create 4.manifest", "get manifest.boundary", "list wal",
                        "create 5.sst", "get 4.sst", "list manifest"])
    same(bodies(later), [b"a", b"b", b"c"])
    same((later.epoch, later.last_id), (2, 5))
    await later.flush()
    same((await current(alone)).l0, (name_of(wal.records[:2]), name_of(wal.records[2:])))


async def others_fields(alone: Alone) -> None:
    """Other roles change the manifest before each put of a writer: it keeps what they have put."""
    stores = await begun(alone)
    alone.fails("create", "2.manifest", taking(alone, "x"))
    wal = await open(stores, "db")
    same(wal.known.version.id, 3)
    await wal.append(b"a")
    alone.sent()
    alone.fails("create", "4.manifest", taking(alone, "y"))
    await wal.flush()
    same(alone.sent(), ["create 4.manifest", "list manifest", "get 4.manifest", "get manifest.boundary", "create 5.manifest",
                        "get manifest.boundary"])
    compactor = Compactor(others(alone))
    await compactor.open()
    await compactor.compact(nothing)
    await wal.append(b"b")
    await wal.flush()
    same(flushed(await current(alone)), [b"a", b"b"])
    found = await current(alone)
    same((found.compactor_epoch, found.writer_epoch, len(found.compacted), len(found.l0)), (1, 1, 1, 1))
    same([(one.id, one.manifest_id) for one in found.checkpoints], [("x", 2), ("y", 4)])
    same(bodies(await open(stores, "db")), [b"a", b"b"])


async def many_conflicts(alone: Alone) -> None:
    """Others win more often than a writer has attempts: it goes on, because each of them has changed the manifest."""
    _, wal = await writing(alone, b"a")
    for i in range(5):
        alone.fails("create", f"{3 + i}.manifest", taking(alone, f"{i}"))
    await wal.flush()
    same(wal.known.version.id, 8)
    await wal.append(b"b")
    alone.fails("create", "9.manifest", Unavailable, 3)
    await alone.raises(OutcomeUnknown, wal.flush())
    await alone.raises(Closed, wal.flush())


async def put_in_doubt(alone: Alone) -> None:
    """The put of a flush takes effect, and its response is lost, or the boundary refuses it: it is not put twice."""
    _, wal = await writing(alone, b"a")
    alone.fails("create", "3.manifest", LOST)
    await wal.flush()
    same(alone.sent(), ["create 3.manifest", "list manifest", "get 3.manifest", "get manifest.boundary"])
    same(flushed(await current(alone)), [b"a"])
    await wal.append(b"b")

    async def passes() -> None:
        await others(alone).manifest.update(lambda _, m: m.with_update("built upon"))
        await alone.real.put(MANIFESTS.boundary_key, b"4")

    alone.fails("get", BOUNDARY, passes)
    alone.sent()
    wal.object.bounded.boundary.seen = None  # pyright: ignore[reportAttributeAccessIssue]  # the next read is a GET
    await wal.flush()
    same(alone.sent(), ["create 4.manifest", "get manifest.boundary", "list manifest", "get 5.manifest",
                        "get_if_changed manifest.boundary"])
    same(flushed(await current(alone)), [b"a", b"b"])
    same((await current(alone)).updates, ("built upon",))


async def claim_in_doubt(alone: Alone) -> None:
    """A claim whose response is lost, or which is refused, is used by nobody."""
    stores = await begun(alone)
    alone.fails("create", "2.manifest", LOST)
    wal = await open(stores, "db")
    same((wal.epoch, wal.known.version.id), (2, 3))
    alone.fails("create", "4.manifest", Unavailable)
    await alone.raises(Unavailable, open(stores, "db"))
    alone.fails("create", "manifest/", OutcomeUnknown, 5)
    await alone.raises(OutcomeUnknown, open(stores, "db"))
    same((await current(alone)).writer_epoch, 2)


async def fenced(alone: Alone) -> None:
    """Another writer opens before each request of an append, of a flush, and of an open."""
    async def opens() -> None:
        await open(others(alone), "db")

    _, wal = await writing(alone, b"a")
    alone.fails("create", "wal/", opens)
    await alone.raises(FencedUnapplied, wal.append(b"b"))
    await alone.raises(FencedUnapplied, wal.append(b"b"))
    wal = await open(others(alone)._replace(manifest=stores_of(alone.world, "db").manifest), "db")
    alone.fails("list", "manifest/", opens)
    await alone.raises(OutcomeUnknown, wal.append(b"c"))  # the other one has replayed it
    await alone.raises(FencedUnapplied, wal.flush())
    same(bodies(await open(others(alone), "db")), [b"a", b"c"])
    wal = await open(stores_of(alone.world, "db"), "db")
    await wal.append(b"d")
    alone.fails("create", "manifest/", opens)
    await alone.raises(FencedUnapplied, wal.flush())
    alone.fails("create", "wal/", opens)
    await alone.raises(FencedUnapplied, open(stores_of(alone.world, "db"), "db"))
    same(bodies(await open(others(alone), "db")), [b"a", b"c", b"d"])
    same(flushed(await current(alone)), [])


async def gone_before_it_is_read(alone: Alone) -> None:
    """A writer lists a later manifest, and it is collected before the writer reads it."""
    _, wal = await writing(alone, b"a")
    await taking(alone, "x")()

    async def collects() -> None:
        await others(alone).manifest.update(lambda _, m: m._replace(checkpoints=()))
        alone.now += 10
        await others(alone).manifest.collect(5)

    alone.fails("get", "3.manifest", collects)
    await wal.append(b"b")
    same(alone.sent(), ["create 3.sst", "list manifest", "get 3.manifest", "list manifest", "get 4.manifest",
                        "get manifest.boundary"])
    same(wal.known.version.id, 4)


async def late_file(alone: Alone) -> None:
    """A writer reads a manifest that a stalled client has put where the latest was collected: it has a later writer's epoch,
    and the history has not."""
    _, wal = await writing(alone, b"a")
    await others(alone).manifest.update(lambda _, m: m)
    alone.fails("get", "3.manifest", replacing(alone, 3, Manifest(writer_epoch=7)))
    await wal.append(b"b")
    same(alone.sent(), ["create 3.sst", "list manifest", "get 3.manifest", "get manifest.boundary", "list manifest",
                        "get 4.manifest", "get_if_changed manifest.boundary"])
    await wal.flush()
    same(flushed(await current(alone)), [b"a", b"b"])
    await alone.real.put(MANIFESTS.boundary_key, b"6")
    alone.fails("list", "manifest/", lambda: alone.real.create(MANIFESTS.key(6), DATABASE.encode(Manifest())))
    await alone.raises(OutcomeUnknown, wal.append(b"c"))  # time and again the latest is behind the boundary
    await alone.raises(Closed, wal.append(b"d"))


async def broken_boundary(alone: Alone) -> None:
    """A writer whose boundary is gone is closed: it knows no more what stands."""
    _, wal = await writing(alone, b"a")
    await alone.real.put(MANIFESTS.boundary_key, b"1")
    await wal.flush()
    await wal.append(b"b")
    await alone.real.delete(MANIFESTS.boundary_key)
    await alone.raises(BoundaryLost, wal.flush())
    await alone.raises(Closed, wal.append(b"c"))


# --- a compactor and an operator

async def compact(alone: Alone) -> None:
    """A compaction keeps what others change between its requests."""
    _, wal = await writing(alone, b"a")
    await wal.flush()
    stores = stores_of(alone.world, "db")
    compactor = Compactor(stores)
    same(await compactor.open(), 1)

    async def merge(job: Job) -> None:
        same(job, (name_of(wal.records[:1]),))
        await wal.append(b"b")
        await wal.flush()
        await taking(alone, "x")()

    await compactor.compact(merge)
    found = await current(alone)
    same((found.compacted, found.l0), ((name_of(wal.records[:1]),), (name_of(wal.records[1:]),)))
    same((found.writer_epoch, found.replay_after_wal_id, len(found.checkpoints)), (1, 3, 1))
    same((await stores.compactions.current()).value, Compactions(1, ()))


async def checkpoints(alone: Alone) -> None:
    manifests = (await begun(alone)).manifest
    taken = await take_checkpoint(manifests, "x", 0)
    same(taken, Committed(2, Manifest(updates=("x",), checkpoints=(Checkpoint("x", 2, 0),))))
    same(type(await take_checkpoint(manifests, "x", 0)), Recognised)
    ends = alone.now + 5
    same((await renew_checkpoint(manifests, "r", "x", ends)).value.checkpoints, (Checkpoint("x", 2, ends),))
    same(type(await renew_checkpoint(manifests, "r", "x", ends)), Recognised)
    await alone.raises(CheckpointMissing, renew_checkpoint(manifests, "s", "y", 0), checkpoint="y")
    same(type(await manifests.drop_ended()), Recognised)
    alone.now += 5
    same((await manifests.drop_ended()).value.checkpoints, ())
    await alone.raises(CheckpointMissing, take_checkpoint(manifests, "x", 0), checkpoint="x")
    await alone.raises(CheckpointMissing, renew_checkpoint(manifests, "r", "x", ends), checkpoint="x")
    await take_checkpoint(manifests, "z", 0)
    same((await drop_checkpoint(manifests, "z")).value.checkpoints, ())
    same(type(await drop_checkpoint(manifests, "z")), Recognised)
    same((await manifests.current()).value.updates, ("x", "r", "z"))


async def checkpoint_of_all(alone: Alone) -> None:
    """The writer flushes first, so the checkpoint has every record; after an error of the flush there is none."""
    stores, wal = await writing(alone, b"a", b"b")
    taken = await checkpoint_all(wal, stores.manifest, "x", 5, "nightly")
    same(flushed(taken.value), [b"a", b"b"])
    same(taken.value.checkpoints, (Checkpoint("x", taken.id, alone.now + 5, "nightly"),))
    same(type(await checkpoint_all(wal, stores.manifest, "x", 5, "nightly")), Recognised)
    await wal.append(b"c")
    alone.fails("create", ".manifest", Unavailable, times=3)
    await alone.raises(OutcomeUnknown, checkpoint_all(wal, stores.manifest, "y"))
    same(await current(alone), taken.value)


async def missing_by_a_late_file(alone: Alone) -> None:
    """A checkpoint that is missing in a file which is in nobody's history is not missing."""
    manifests = (await begun(alone)).manifest
    await take_checkpoint(manifests, "x", 0)
    await manifests.update(lambda _, m: m)
    alone.fails("get", "3.manifest", replacing(alone, 3, Manifest()))
    renewed = await renew_checkpoint(manifests, "r", "x", 0)
    same([one.id for one in renewed.value.checkpoints], ["x"])


# --- a collector

async def collection(alone: Alone) -> None:
    stores, wal = await writing(alone, b"a")
    await wal.flush()
    await wal.append(b"b")
    await taking(alone, "x")()
    compactor = Compactor(others(alone))
    await compactor.open()
    await compactor.compact(nothing)
    alone.now += 10
    same(await collect(stores, "db", 10), ([], [], []))
    alone.sent()
    same(await collect(stores, "db", 9), ([1, 2, 3, 5], [1, 2, 3], [1, 2]))
    same(alone.sent(), [
        "list manifest", "get manifest.boundary", "create manifest.boundary",
        "get 6.manifest", "get_if_changed manifest.boundary", *(f"delete {i}.manifest" for i in (1, 2, 3, 5)),
        "list compactions", "get compactions.boundary", "create compactions.boundary",
        *(f"delete {i}.compactions" for i in (1, 2, 3)),
        "list manifest", "get 6.manifest", "get_if_changed manifest.boundary", "list wal", "delete 1.sst", "delete 2.sst"])
    same(bodies(await open(stores, "db")), [b"a", b"b"])
    check(await alone.real.get(MANIFESTS.key(4)), "the file of a checkpoint is there")
    await drop_checkpoint(others(alone).manifest, "x")
    alone.now += 10
    same((await collect(stores, "db", 9))[0], [4, 6, 7])


async def collection_by_a_late_file(alone: Alone) -> None:
    """A late manifest says that more of the log is flushed than is: no collector deletes that."""
    stores, wal = await writing(alone, b"a", b"b")
    alone.now += 1_000
    await others(alone).manifest.update(lambda _, m: m)
    late = Manifest(writer_epoch=1, replay_after_wal_id=3, l0=(name_of(wal.records),))
    alone.fails("get", "3.manifest", others(alone).manifest.current)  # the first looks for checkpoints
    alone.fails("get", "3.manifest", replacing(alone, 3, late))
    same(await collect(stores, "db", 500), ([1, 2], [], []))
    same(alone.sent()[-6:], ["list manifest", "get 3.manifest", "get_if_changed manifest.boundary", "list manifest",
                             "get 4.manifest", "get_if_changed manifest.boundary"])
    same(bodies(await open(others(alone), "db")), [b"a", b"b"])


async def collection_of_nothing(alone: Alone) -> None:
    stores = await begun(alone)
    await alone.real.delete(MANIFESTS.key(1))
    await alone.raises(NoLatest, collect(stores, "db", 0))


async def names(alone: Alone) -> None:
    """The name of an SST says what is in it."""
    records = (Record("1-1", 1, b"0.0"), Record("2-1", 22, b"\xff\xfb~+"), Record("3", 3, b""))
    same(name_of(records), "1-1~1~MC4w+2-1~22~__t-Kw==+3~3~")
    same(records_of(name_of(records)), records)
    for strange in ("", "a", "a~b", "a~1~b~c", "a~x~MC4w", "a~1~*", "a~01~MC4w", "a~1~MC4w+"):
        fails_with(InvalidManifest, lambda strange=strange: records_of(strange))
    same(DATABASE.encode(Manifest()), b'{"checkpoints":[],"compacted":[],"compactor_epoch":0,"l0":[],"last_wal":0,'
         b'"writer_epoch":0}')


SCRIPTS: tuple[Script, ...] = (
    first_files, write, others_fields, many_conflicts, put_in_doubt, claim_in_doubt, fenced, gone_before_it_is_read, late_file,
    broken_boundary, compact, checkpoints, checkpoint_of_all, missing_by_a_late_file, collection,
    collection_by_a_late_file, collection_of_nothing, names)
