"""The database shows what a dictionary of versions shows, and what callers are told is so."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.destroyed import SOFT, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import WriterCheckpoint
from highwater.impl.db import manifest as db_manifest
from highwater.impl.db import retention
from highwater.impl.db.db import USUAL, Db, MergeMissing, Options, Snapshot
from highwater.impl.db.manifest import FIRST, manifests_of
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.writes import Op, delete, folded, merge, put
from highwater.impl.errors import FencedUnapplied, OutcomeUnknown, PreconditionFailed
from highwater.impl.layout import Namespace
from highwater.impl.manifests.readable import HasSegments
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.protocols.sequenced_metadata import Recognised
from highwater.impl.protocols.wal_fencing import Closed
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import SystemClock
from highwater.impl.world import World
from tests.support.database import OPTIONS, Plain, Stopped, all_of, joined, run, world_of


def is_refused(ops: list[Op]) -> bool:
    """Return whether merges of a batch end at other times than what they are merged with."""
    try:
        folded(ops, joined)
    except ValueError:
        return True
    return False


KEYS = (b"a", b"b", b"bb", b"c")
WAL = Namespace("db", "wal")
OPS = st.one_of(st.builds(put, st.sampled_from(KEYS), st.binary(max_size=3), st.sampled_from((None, None, 50))),
                st.builds(delete, st.sampled_from(KEYS)),
                st.builds(merge, st.sampled_from(KEYS), st.binary(min_size=1, max_size=2), st.sampled_from((None, 50))))
BATCHES = st.lists(OPS, min_size=1, max_size=4).filter(lambda ops: not is_refused(ops))
STEPS = st.one_of(BATCHES, BATCHES, st.sampled_from(("flush", "reopen", "snapshot", "end", "wait", "checkpoint", "durable")))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_it_shows_what_a_dictionary_shows(steps):
    async def work(world: World) -> None:
        plain, clock = Plain(), world.clock
        assert isinstance(clock, Stopped)
        db = await Db.open(world, "db", OPTIONS)
        snapshots: list[tuple[Snapshot, Plain]] = []
        kept: list[tuple[str, Plain]] = []
        for step in steps:
            if isinstance(step, list):
                await db.write(step)
                plain.apply(step, clock.now_ms())
            elif step == "flush":
                await db.flush()
            elif step == "reopen":
                await db.close()
                db, snapshots = await Db.open(world, "db", OPTIONS), []
            elif step == "snapshot":
                snapshots.append((db.snapshot(), plain.copy()))
            elif step == "end" and snapshots:
                snapshots.pop(0)[0].end()
            elif step == "wait":
                clock.at_ms += 30
            elif step in ("checkpoint", "durable"):
                kept.append((await db.checkpoint(durable_only=step == "durable"), plain.copy()))
            assert await all_of(db) == plain.shown(clock.now_ms())
            for snapshot, then in snapshots:
                assert await all_of(snapshot) == then.shown(clock.now_ms())
        for key in KEYS:
            assert await db.get(key) == plain.shown(clock.now_ms()).get(key)
            for snapshot, then in snapshots:
                assert await snapshot.get(key) == then.shown(clock.now_ms()).get(key)
        await db.close()
        for checkpoint, then in kept:
            assert await read_at(world, checkpoint) == then.shown(clock.now_ms())

    run(work)


async def read_at(world: World, checkpoint: str) -> dict[bytes, bytes]:
    reader = DbReader(manifests_of(world, "db"), "db")
    await reader.open(checkpoint)
    snapshot = reader.snapshot()
    found = {one.key: one.merged(joined) async for one in snapshot.scan()}
    await reader.close()
    return found


# --- snapshots

def test_a_snapshot_needs_the_versions_that_a_flush_keeps(monkeypatch):
    async def work(world: World) -> dict[bytes, bytes]:
        db = await Db.open(world, "db", OPTIONS)
        await db.put(b"a", b"1")
        snapshot = db.snapshot()
        await db.put(b"a", b"2")
        await db.flush()
        return await all_of(snapshot)

    assert run(work) == {b"a": b"1"}
    monkeypatch.setattr(db_manifest, "retained", lambda rows, keep_from, now_ms, bottom: retention.retained(
        rows, rows[0].seq, now_ms, bottom))
    assert run(work) == {}


# --- what callers are told

def test_a_second_writer_fences_the_first():
    async def work(world: World) -> None:
        first = await Db.open(world, "db", OPTIONS)
        await first.put(b"a", b"1")
        second = await Db.open(world, "db", OPTIONS)
        with pytest.raises(FencedUnapplied):
            await first.put(b"a", b"2")
        for call in (lambda: first.put(b"a", b"3"), first.flush, lambda: first.get(b"a"), first.checkpoint, first.poll):
            with pytest.raises(FencedUnapplied):
                await call()
        assert await second.get(b"a") == b"1" and (first.epoch, second.epoch) == (1, 2)
        own, = [one for one in second.manifest.checkpoints if isinstance(one.metadata, WriterCheckpoint)]
        assert own.metadata.epoch == 2

    run(work)


def test_the_poll_finds_out_that_there_is_another_writer():
    async def work(world: World) -> None:
        first = await Db.open(world, "db", Options(poll_ms=1))
        await Db.open(world, "db", OPTIONS)
        await asyncio.sleep(0.1)
        with pytest.raises(FencedUnapplied):
            await first.get(b"a")
        await first.close()

    run(work)


def test_writes_that_wait_are_one_object():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        numbers = await asyncio.gather(*(db.put(b"%d" % i, b"") for i in range(50)))
        assert numbers == list(range(1, 51)) and db.seq == 50
        await asyncio.gather(db.flush(), *(db.put(b"%d" % i, b"late") for i in range(5)))
        assert len(await all_of(db)) == 50
        await db.close()
        listed = await world.store.list_page(WAL.prefix)
        assert len(listed.entries) == 3  # the fence, and two objects

    run(work)


def test_after_close_nothing_is_done():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", USUAL)
        waiting = asyncio.gather(*(db.put(b"%d" % i, b"") for i in range(3)))
        await asyncio.sleep(0)
        await db.close()
        assert await waiting == [1, 2, 3]
        for call in (lambda: db.put(b"a", b"1"), db.flush, lambda: db.get(b"1"), lambda: all_of(db)):
            with pytest.raises(Closed):
                await call()
        await db.close()

    run(work)


@pytest.mark.parametrize("ops, says", [
    ([], "empty batch"), ([put(b"", b"1")], "1 to 65,535"), ([put(b"a", b"1", 0)], "TTL of 0 ms"),
    ([merge(b"a", b"1", 5), merge(b"a", b"2", 6)], "TTLs 5, 6"), ([put(b"a", b"1"), merge(b"a", b"2", 6)], "TTLs None, 6")])
def test_a_batch_that_cannot_be_written(ops, says):
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        with pytest.raises(ValueError, match=says):
            await db.write(ops)
        assert await db.put(b"a", b"1") == 1

    run(work)


@pytest.mark.parametrize("bad", [{"l0_sst_bytes": 0}, {"max_unflushed_bytes": 0}, {"poll_ms": -1}, {"replay_flush": 0},
                                 {"attempts": 0}, {"manifest_version": 3}])
def test_bad_options(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Db(world_of(), "db", Options(**bad))


def test_of_a_key_that_is_twice_in_a_batch_the_last_counts():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        await db.write([put(b"a", b"1"), delete(b"a"), delete(b"b"), put(b"b", b"2")])
        assert await all_of(db) == {b"b": b"2"}

    run(work)


@pytest.mark.parametrize("ops, row", [
    ([merge(b"k", b"1"), merge(b"k", b"2"), merge(b"k", b"3")], merge(b"k", b"123")),
    ([put(b"k", b"v"), merge(b"k", b"1"), merge(b"k", b"2")], put(b"k", b"v12")),
    ([delete(b"k"), merge(b"k", b"1", 9)], put(b"k", b"1", 9)), ([merge(b"k", b"1", 9), put(b"k", b"v")], put(b"k", b"v")),
    ([merge(b"k", b"1"), delete(b"k")], delete(b"k")), ([put(b"k", b"v", 9), merge(b"k", b"1", 9)], put(b"k", b"v1", 9)),
    ([merge(b"k", b"1"), put(b"k", b"v"), merge(b"k", b"2")], put(b"k", b"v2"))])
def test_changes_of_one_key_in_a_batch_become_one_row(ops, row):
    assert folded([put(b"a", b"1"), *ops, delete(b"z")], joined) == [put(b"a", b"1"), row, delete(b"z")]


def test_without_the_operator_a_batch_merges_a_key_once():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", Options(poll_ms=0))
        for ops in ([merge(b"a", b"1"), merge(b"a", b"2")], [put(b"a", b"1"), merge(b"a", b"2")]):
            with pytest.raises(ValueError, match="write two batches"):
                await db.write(ops)
        await db.write([merge(b"a", b"1"), put(b"a", b"2"), merge(b"b", b"3")])
        assert await db.get(b"a") == b"2"

    run(work)


def test_operands_need_the_function_that_applies_them():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", Options(poll_ms=0))
        await db.merge(b"a", b"1")
        with pytest.raises(MergeMissing, match="merge=.."):
            await db.get(b"a")
        found = await db.shown(b"a")
        assert found is not None and found.operands == (b"1",)

    run(work)


def test_a_clone_that_is_not_complete_is_not_opened():
    async def work(world: World) -> None:
        await manifests_of(world, "db").initialise(FIRST._replace(initialized=False))
        with pytest.raises(NotInitialized):
            await Db.open(world, "db", OPTIONS)

    run(work)


def test_a_destroyed_database_is_not_opened_nor_flushed():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        await db.put(b"a", b"1")

        def marked(file_id: int, manifest: Manifest) -> Manifest:
            return with_mark(manifest, Mark(SOFT, 1, 2), ManifestCodec(), file_id)

        await manifests_of(world, "db").update(marked)
        with pytest.raises(FencedUnapplied):
            await db.flush()
        with pytest.raises(DatabaseDestroyed):
            await Db.open(world, "db", OPTIONS)

    run(work)


# --- flushes by themselves, and waits

def test_a_memtable_that_is_full_is_flushed_by_itself():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", Options(poll_ms=0, l0_sst_bytes=200, l0_max_ssts=3))
        for i in range(40):
            await db.put(b"%02d" % i, b"x" * 50)
        await db.poll()
        assert len(db.manifest.l0) == 3 and db.memtable.size_bytes > 200  # L0 is full, and nothing waits for it yet
        assert len(await all_of(db)) == 40
        await db.close()

    run(work)


def test_writes_wait_while_l0_is_full_and_too_much_is_in_memory():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", Options(poll_ms=5, l0_sst_bytes=100, l0_max_ssts=1, max_unflushed_bytes=300))
        writes = asyncio.gather(*(write_many(db, i) for i in range(3)))
        await asyncio.sleep(0.1)
        assert not writes.done() and db.memtable.size_bytes < 1000
        await manifests_of(world, "db").update(lambda _, m: m._replace(l0=(), ssts=()))  # as if they were merged
        await asyncio.sleep(0.1)
        assert not writes.done()
        while not writes.done():
            await manifests_of(world, "db").update(lambda _, m: m._replace(l0=(), ssts=()))
            await asyncio.sleep(0.02)
        await writes
        await db.close()

    async def write_many(db: Db, number: int) -> None:
        for i in range(20):
            await db.put(b"%d %d" % (number, i), b"x" * 50)

    run(work, world_of(clock=SystemClock()))


# --- replies that are lost

class Unheard(MemoryStore):
    """A store whose creates of keys with this part are applied, and not answered, so many times."""

    def __init__(self, part: str, times: int):
        super().__init__()
        self.part, self.times = part, times

    async def create(self, key: str, body: bytes) -> str:
        version = await super().create(key, body)
        if self.part in key and self.times and self._writes > 10:
            self.times -= 1
            raise OutcomeUnknown(key)
        return version


@pytest.mark.parametrize("part", ["wal/", "manifest/", "compacted/"])
@pytest.mark.parametrize("times", [1, 3])
def test_an_unheard_reply_does_nothing_twice(part, times):
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        for i in range(12):
            await db.merge(b"a", b"%x" % i)
            if i % 3 == 2:
                await db.flush()
        assert await db.get(b"a") == b"0123456789ab"
        assert len(db.manifest.l0) == 4 and len({view.sst_id for view in db.manifest.l0}) == 4
        assert {sst.id for sst in db.manifest.ssts} == {view.sst_id for view in db.manifest.l0}
        await db.close()

    store = Unheard(part, times)
    run(work, world_of(store))
    assert not store.times


def test_another_role_changes_the_manifest_meanwhile():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        await db.put(b"a", b"1")
        await manifests_of(world, "db").update(lambda _, m: m._replace(compactor_epoch=7))
        await db.flush()
        assert db.manifest.compactor_epoch == 7 and len(db.manifest.l0) == 1
        with pytest.raises(PreconditionFailed):
            await world.store.update("db/none", b"", "1")

    run(work)


# --- what simulation has found

def test_a_flush_of_expired_operands_alone_has_no_sst():
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        await db.merge(b"a", b"1", 10)
        assert isinstance(world.clock, Stopped)
        world.clock.at_ms += 10
        await db.flush()
        assert db.manifest.l0 == () and db.manifest.last_l0_seq == 1
        assert await db.put(b"a", b"2") == 2
        second = await Db.open(world, "db", OPTIONS)
        assert await all_of(second) == {b"a": b"2"} and second.seq == 2

    run(work)


@pytest.mark.parametrize("durable_only", [False, True])
def test_a_checkpoint_of_a_writer_that_is_fenced_is_in_doubt(durable_only):
    """It would have rows of the next writer, of which this one knows nothing."""
    async def work(world: World) -> None:
        db = await Db.open(world, "db", OPTIONS)
        await db.put(b"a", b"1")
        await db.flush()
        second = await Db.open(world, "db", OPTIONS)
        await second.put(b"a", b"2")
        with pytest.raises(OutcomeUnknown, match="is taken, but"):
            await db.checkpoint(durable_only=durable_only)
        with pytest.raises(FencedUnapplied):
            await db.checkpoint(durable_only=durable_only)

    run(work)


# --- the writer's own checkpoint

def entries(manifest: Manifest) -> list[tuple[int | None, int, bool]]:
    return [(one.writer_epoch, one.manifest_id, one.metadata is None) for one in manifest.checkpoints]


def test_the_checkpoint_of_a_writer_goes_with_its_successor():
    """Also if a released client has dropped its metadata meanwhile. Ours is dropped by the next writer, or by a collector."""
    async def work(world: World) -> None:
        manifests = manifests_of(world, "db")
        for epoch, file_id in ((1, 2), (2, 4)):
            db = await Db.open(world, "db", OPTIONS)
            assert entries(db.manifest) == [(epoch, file_id, False)]
            await manifests.update(lambda _, m: m._replace(checkpoints=tuple(
                one._replace(metadata=None) for one in m.checkpoints)))
        await db.put(b"a", b"1")
        await db.flush()
        assert entries(db.manifest) == [(2, 6, False)]
        assert isinstance(await manifests.drop_ended(), Recognised)
        await manifests.update(lambda _, m: m._replace(writer_epoch=3, checkpoints=tuple(
            one._replace(metadata=None) for one in m.checkpoints)))
        await manifests.drop_ended()
        assert (await manifests.current()).value.checkpoints == ()

    run(work)


def test_segments_are_refused():
    async def work(world: World) -> None:
        await manifests_of(world, "db").initialise(FIRST._replace(segment_extractor_name="x"))
        with pytest.raises(HasSegments):
            await Db.open(world, "db", OPTIONS)
        assert (await manifests_of(world, "db").current()).id == 1

    run(work)
