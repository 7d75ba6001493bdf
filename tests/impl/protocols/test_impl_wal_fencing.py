"""The implementation of WAL fencing on every store, with unknown outcomes; a schedule kills each of its mutants."""

import asyncio

import pytest

from highwater.dst.mutants.wal_fencing import STAYS_OPEN, ClaimIsConcluded, StaysOpen
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios.wal_fencing import production
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json.wal import (
    InvalidWal,
    Record,
    WalCheckpoint,
    WalManifest,
    decode_manifest,
    decode_record,
    encode_manifest,
    encode_record,
)
from highwater.impl.errors import (
    Definite,
    FencedUnapplied,
    Indefinite,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
    UpdateConflict,
)
from highwater.impl.kv.wal import WalKv
from highwater.impl.layout import Namespace
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Closed, ManifestLost, Wal, collect
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]


# --- the implementation, on every store

async def opened(store, **options) -> Wal:
    return await wal_fencing.open(system_world(store), "db", **options)


def bodies(wal: Wal) -> list[bytes]:
    return [record.body for record in wal.records]


async def ids(store) -> list[int]:
    return [int(entry.key[7:27]) for entry in (await store.list_page("db/wal/")).entries]


class Told:
    """A store that notes each request, and does to some what a network may do: `faults[method]` are the fates of its next
    requests: None to pass it, or (error, whether it is applied, and what is awaited before the reply)."""

    def __init__(self, store):
        self.store, self.caches, self.seen, self.faults = store, False, [], {}

    def __getattr__(self, name: str):
        async def request(key, *rest):
            self.seen.append((name, key.removeprefix("db/")))
            fate = self.faults[name].pop(0) if self.faults.get(name) else None
            if fate is None:
                return await getattr(self.store, name)(key, *rest)
            error, applied, meanwhile = fate
            if applied:
                await getattr(self.store, name)(key, *rest)
            if meanwhile:
                await meanwhile()
            raise error
        return request


LOST = OutcomeUnknown("no reply")


def test_what_was_appended_is_there_after_any_number_of_flushes_opens_and_collections(stores):
    async def case():
        store, expected = stores.open(), []
        for round_ in range(3):
            wal = await opened(stores.open())
            assert bodies(wal) == expected and wal.epoch == round_ + 1
            for number in range(2):
                expected.append(b"%d.%d" % (round_, number))
                await wal.append(expected[-1])
            if round_ == 1:
                await wal.flush()
                await wal.flush()
                assert await collect(system_world(store), "db") == [1, 2, 3, 4, 5, 6]
        assert await ids(store) == [7, 8, 9]
        assert (await store.get("db/wal/00000000000000000007.sst")).body == b""  # a fence

    asyncio.run(case())


def test_the_requests_of_an_open_an_append_and_a_flush_are_the_models_actions():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        assert store.seen == [
            ("get", "wal.manifest"), ("create", "wal.manifest"), ("list_page", "wal/"),
            ("create", "wal/00000000000000000001.sst"), ("get_if_changed", "wal.manifest")]
        store.seen.clear()
        await wal.append(b"a")
        assert store.seen == [("create", "wal/00000000000000000002.sst"), ("get_if_changed", "wal.manifest")]
        store.seen.clear()
        await wal.flush()
        assert store.seen == [("update", "wal.manifest")]
        await wal.flush()
        assert len(store.seen) == 1

    asyncio.run(case())


def test_the_old_writer_is_fenced_and_its_caller_is_told(stores):
    async def case():
        old = await opened(stores.open())
        await old.append(b"a")
        new = await opened(stores.open())
        with pytest.raises(FencedUnapplied):
            await old.append(b"b")
        with pytest.raises(FencedUnapplied):
            await old.append(b"c")
        with pytest.raises(FencedUnapplied):
            await old.flush()
        await new.append(b"d")
        assert bodies(new) == bodies(await opened(stores.open())) == [b"a", b"d"]
        assert issubclass(FencedUnapplied, Definite)

    asyncio.run(case())


def test_a_flush_of_a_writer_that_was_succeeded_is_refused(stores):
    async def case():
        old = await opened(stores.open())
        await old.append(b"a")
        await opened(stores.open())
        with pytest.raises(FencedUnapplied):
            await old.flush()

    asyncio.run(case())


def test_what_a_checkpoint_refers_to_is_collected_when_it_is_dropped(stores):
    async def case():
        store, collector = stores.open(), system_world(stores.open())
        wal = await opened(store)
        await wal.append(b"a")
        taken = await wal.checkpoint()
        await wal.flush()
        assert await collect(collector, "db") == []
        later = await opened(stores.open())
        await later.append(b"b")
        await later.flush()
        assert await collect(collector, "db") == [3, 4] and await ids(store) == [1, 2]
        await later.drop(taken.number)
        assert await collect(collector, "db") == [1, 2]

    asyncio.run(case())


async def stalled_append(stores, checked: bool):
    """Bug 2: the old writer's PUT is held; the new one opens and flushes; all is collected, the fence in the slot, too."""
    store, held = stores.open(), Held(stores.open(), "create", "wal/00000000000000000003")
    old = await opened(held)
    await old.append(b"a")
    if not checked:
        async def unchecked() -> None:
            pass
        old._refresh = unchecked
    append = asyncio.ensure_future(old.append(b"b"))
    await held.reached.wait()
    new = await opened(store)
    await new.flush()
    assert await collect(system_world(store), "db") == [1, 2, 3]
    held.release.set()
    try:
        await append
    finally:
        assert await ids(store) == [3] and bodies(await opened(store)) == [b"a"]  # it was put, and nobody replays it


def test_an_append_to_a_collected_slot_is_not_acknowledged(stores):
    with pytest.raises(OutcomeUnknown, match="the latest is 2"):
        asyncio.run(stalled_append(stores, checked=True))


def test_without_the_check_it_is_acknowledged_and_lost(stores):
    asyncio.run(stalled_append(stores, checked=False))


def test_an_opener_that_stalls_before_its_fence_is_not_open(stores):
    """Bug 3: its fence lands in a slot that was flushed and collected."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "create", "wal/00000000000000000002")
        old = await opened(store)
        late = asyncio.ensure_future(opened(held))
        await held.reached.wait()
        with pytest.raises(OutcomeUnknown):
            await old.append(b"a")  # put, but the epoch is claimed; the next writer has it
        new = await opened(store)
        await new.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3]
        held.release.set()
        with pytest.raises(FencedUnapplied):
            await late
        await new.append(b"b")
        assert bodies(await opened(store)) == [b"a", b"b"]

    asyncio.run(case())


def test_a_replay_that_finds_an_object_gone_is_fenced(stores):
    """Bug 4: a third writer and a collection, while the second replays."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "get", "wal/00000000000000000002")
        await (await opened(store)).append(b"a")
        second = asyncio.ensure_future(opened(held))
        await held.reached.wait()
        third = await opened(store)
        await third.append(b"b")
        await third.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3, 4, 5]
        held.release.set()
        with pytest.raises(FencedUnapplied, match="gone"):
            await second

    asyncio.run(case())


def test_a_replay_that_met_what_is_not_of_the_log_is_not_served(stores):
    """The model's walk above: what was to be read next is collected, and a stale writer's record lands there."""
    async def case():
        store = stores.open()
        stale_store = Held(stores.open(), "create", "wal/00000000000000000002")
        stale = await opened(stale_store)
        append = asyncio.ensure_future(stale.append(b"stale"))
        await stale_store.reached.wait()
        held = Held(stores.open(), "get", "wal/00000000000000000002")
        told = Told(held)
        told.faults["create"] = [(LOST, True, None)]  # of its fence, so that the next slot gets another
        second = asyncio.ensure_future(opened(told))
        await held.reached.wait()
        third = await opened(store)
        await third.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3, 4]
        stale_store.release.set()
        with pytest.raises(OutcomeUnknown):
            await append
        await asyncio.sleep(0)
        assert decode_record((await store.get("db/wal/00000000000000000002.sst")).body).body == b"stale"
        held.release.set()
        with pytest.raises(FencedUnapplied):
            await second
        assert bodies(await opened(store)) == []

    asyncio.run(case())


def test_a_crash_in_a_replay_that_has_been_flushed_in_part_loses_nothing(stores):
    """Bug 6: replay_after is the last id whose record is flushed, not the last that is there."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "get", "wal/00000000000000000004")
        first = await opened(store)
        for body in (b"a", b"b", b"c"):
            await first.append(body)
        second = asyncio.ensure_future(opened(held, flush_every=1))
        await held.reached.wait()
        second.cancel()
        flushed = decode_manifest((await store.get("db/wal.manifest")).body)
        assert flushed.replay_after == 3 and [record.body for record in flushed.flushed] == [b"a", b"b"]
        assert await collect(system_world(store), "db") == [1, 2, 3]
        assert bodies(await opened(store, flush_every=2)) == [b"a", b"b", b"c"]

    asyncio.run(case())


def test_of_writers_that_open_at_once_each_has_an_epoch_of_its_own_and_one_at_most_appends(stores):
    async def case():
        wals = await asyncio.gather(*[opened(stores.open(), attempts=20) for _ in range(4)], return_exceptions=True)
        assert all(isinstance(wal, Wal | FencedUnapplied) for wal in wals)
        open_ = [wal for wal in wals if isinstance(wal, Wal)]
        assert len({wal.epoch for wal in open_}) == len(open_)
        done = await asyncio.gather(*[wal.append(b"%d" % wal.epoch) for wal in open_], return_exceptions=True)
        acked = [record.body for record in done if isinstance(record, Record)]
        assert len(acked) <= 1 and all(isinstance(told, Record | FencedUnapplied | OutcomeUnknown) for told in done)
        assert set(acked) <= set(bodies(await opened(stores.open())))

    asyncio.run(case())


# --- outcomes that are not known

@pytest.mark.parametrize("applied", [True, False])
def test_an_append_without_a_reply_is_put_again_and_recognised(stores, applied):
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, applied, None)]
        await wal.append(b"a")
        await wal.append(b"b")
        assert bodies(await opened(stores.open())) == [b"a", b"b"]
        assert [name for name, _ in store.seen[5:9]] == (
            ["create", "create", "get", "get_if_changed"] if applied else ["create", "create", "get_if_changed", "create"])

    asyncio.run(case())


def test_what_is_in_doubt_and_meets_a_fence_stays_in_doubt(stores):
    """The writer's own record may have been in that slot before the fence; the next test shows it."""
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, False, lambda: opened(stores.open()))]
        with pytest.raises(OutcomeUnknown, match="is taken"):
            await wal.append(b"a")
        with pytest.raises(FencedUnapplied):
            await wal.append(b"b")
        assert bodies(await opened(stores.open())) == []

    asyncio.run(case())


def test_what_is_in_doubt_was_flushed_although_another_object_is_in_its_slot():
    async def case():
        memory = MemoryStore()

        async def replaced():
            await (await opened(memory)).flush()
            await collect(system_world(memory), "db")
            await memory.create(Namespace("db", "wal").key(2), b"")  # of one that was to open, and is late

        store = Told(memory)
        wal = await opened(store)
        store.faults["create"] = [(LOST, True, replaced)]
        with pytest.raises(OutcomeUnknown, match="is taken"):
            await wal.append(b"a")
        assert bodies(await opened(memory)) == [b"a"]

    asyncio.run(case())


def test_what_is_in_doubt_and_meets_its_own_behind_a_successor_stays_in_doubt(stores):
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, True, lambda: opened(stores.open()))]
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        with pytest.raises(FencedUnapplied):
            await wal.append(b"b")
        assert bodies(await opened(stores.open())) == [b"a"]

    asyncio.run(case())


def test_what_is_in_doubt_and_was_collected_stays_in_doubt():
    async def case():
        memory = MemoryStore()

        async def succeed():
            await (await opened(memory)).flush()

        async def collected():
            await collect(system_world(memory), "db")

        store = Told(memory)
        wal = await opened(store)
        store.faults = {"create": [(LOST, True, succeed)], "get": [(Unavailable("not now"), False, collected)]}
        with pytest.raises(OutcomeUnknown, match="NotFound"):
            await wal.append(b"a")
        assert bodies(await opened(memory)) == [b"a"]

    asyncio.run(case())


def test_a_writer_that_never_gets_a_reply_closes_and_leaves_no_gap():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store, attempts=2)
        store.faults["create"] = [(LOST, False, None)] * 2
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        for again in (wal.append(b"b"), wal.flush()):
            with pytest.raises(Closed):
                await again
        assert issubclass(Closed, Definite)
        assert bodies(await opened(store)) == []

    asyncio.run(case())


def test_an_append_whose_check_gets_no_answer_is_in_doubt():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store, attempts=2)
        store.faults["get_if_changed"] = [(Unavailable("down"), False, None)] * 2
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        with pytest.raises(Closed):
            await wal.append(b"b")
        assert bodies(await opened(store)) == [b"a"]

    asyncio.run(case())


def test_an_append_that_the_store_refuses_has_not_been_done():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        store.faults["create"] = [(Unavailable("slow down"), False, None)]
        with pytest.raises(Unavailable):
            await wal.append(b"a")
        await wal.append(b"b")
        assert bodies(await opened(store)) == [b"b"]

    asyncio.run(case())


@pytest.mark.parametrize("applied", [True, False])
def test_a_claim_a_fence_and_a_flush_without_a_reply_are_made_good(applied):
    async def case():
        store = Told(MemoryStore())
        await (await opened(store)).append(b"a")
        store.faults = {"update": [(LOST, applied, None)], "create": [(LOST, applied, None)]}
        wal = await opened(store)
        assert wal.epoch == (3 if applied else 2) and bodies(wal) == [b"a"] and wal.last_id == (4 if applied else 3)
        store.faults = {"update": [(LOST, applied, None)]}
        await wal.flush()
        await wal.append(b"b")
        assert bodies(await opened(store)) == [b"a", b"b"]

    asyncio.run(case())


def test_a_flush_without_a_reply_and_then_fenced_is_in_doubt():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        await wal.append(b"a")
        store.faults["update"] = [(LOST, True, lambda: opened(store))]
        with pytest.raises(OutcomeUnknown, match="has a successor"):
            await wal.flush()

    asyncio.run(case())


def test_an_open_that_others_outrun_has_failed():
    async def case():
        store = Told(MemoryStore())

        async def another():
            await opened(store.store)

        async def get(key):
            found = await MemoryStore.get(store.store, key)
            await another()
            return found

        await another()
        store.get = get
        with pytest.raises(UpdateConflict):
            await opened(store, attempts=3)

    asyncio.run(case())


# --- mutants, by schedules of their own

async def opened_as(kind, store, attempts):
    wal = kind(system_world(store), "db", attempts)
    await wal._claim()
    await wal._replay(await wal._fence(), None)
    return wal


@pytest.mark.parametrize("kind, told", [(Wal, OutcomeUnknown), (ClaimIsConcluded, UpdateConflict)])
def test_an_open_whose_claim_had_no_reply_is_in_doubt_though_others_outrun_it_then(kind, told):
    async def case():
        store = Told(MemoryStore())
        await opened(store)
        store.faults["update"] = [(LOST, True, None), (PreconditionFailed("another was faster"), False, None)]
        with pytest.raises(told):
            await opened_as(kind, store, 2)
        manifest = decode_manifest((await store.get("db/wal.manifest")).body)
        assert manifest.writer_epoch == 2  # it has claimed one, and so fenced the first

    asyncio.run(case())


@pytest.mark.parametrize("kind, next_one, sends", [
    (Wal, Closed, []), (StaysOpen, FencedUnapplied, [("create", f"wal/{2:020}.sst")])])
def test_a_writer_that_cannot_read_what_it_has_met_after_a_lost_reply_is_closed(kind, next_one, sends):
    """Else its next append meets its own object, and is told of a successor that there is not."""
    async def case():
        store = Told(MemoryStore())
        wal = await opened_as(kind, store, 2)
        store.faults = {"create": [(LOST, True, None)], "get": [(Unavailable("no answer"), False, None)] * 2}
        with pytest.raises(OutcomeUnknown, match="could not be read"):
            await wal.append(b"a")
        store.seen.clear()
        with pytest.raises(next_one):
            await wal.append(b"b")
        assert store.seen == sends and bodies(await opened(store)) == [b"a"]

    asyncio.run(case())


def test_with_fewer_attempts_and_more_faults_simulation_finds_that_it_stays_open():
    build, fewer, weights = STAYS_OPEN

    def failed(build, seed):
        shape = drawn_shape(seed, "wal_fencing")._replace(**fewer)
        return simulate(Run(seed, scenario="wal_fencing", shape=shape, weights=weights), build).kind

    assert any(failed(build, seed) for seed in range(600))
    assert not any(failed(production, seed) for seed in range(200))


# --- what is there

def test_the_bytes_of_the_manifest_and_of_a_record():
    record = Record("01J", 3, b"hello")
    assert encode_record(record) == b'{"body":"aGVsbG8=","epoch":3,"id":"01J"}'
    manifest = WalManifest(4, 7, (record,))
    assert encode_manifest(manifest) == (
        b'{"flushed":[{"body":"aGVsbG8=","epoch":3,"id":"01J"}],"replay_after":7,"writer_epoch":4}')
    assert decode_record(encode_record(record)) == record and decode_record(b"") is None
    assert decode_manifest(encode_manifest(manifest)) == manifest
    listed = manifest._replace(checkpoints=(WalCheckpoint(1, 2, 6),), checkpoints_taken=2)
    assert encode_manifest(listed).startswith(
        b'{"checkpoints":[{"last_id":6,"number":1,"replay_after":2}],"checkpoints_taken":2,"flushed":[{"body":"')
    assert decode_manifest(encode_manifest(listed)) == listed


@pytest.mark.parametrize("garbage", [b"x", b"[]", b"{}", b'{"body":"?","epoch":1,"id":"a"}'], ids=str)
def test_garbage_is_a_clear_error_and_no_reason_to_skip_a_record(garbage):
    async def case():
        store = MemoryStore()
        await (await opened(store)).append(b"a")
        await store.put("db/wal/00000000000000000002.sst", garbage)
        with pytest.raises(InvalidWal, match="not a WAL object"):
            await opened(store)
        await store.put("db/wal.manifest", garbage)
        with pytest.raises(InvalidWal, match="not a WAL manifest"):
            await opened(store)

    asyncio.run(case())


def test_a_manifest_that_is_gone_is_an_error_and_no_acknowledgement():
    async def case():
        store = MemoryStore()
        wal = await opened(store)
        await store.delete("db/wal.manifest")
        with pytest.raises(OutcomeUnknown, match="gone"):
            await wal.append(b"a")
        assert issubclass(ManifestLost, Indefinite)

    asyncio.run(case())


def test_a_store_that_answers_from_memory_is_refused():
    with pytest.raises(ValueError, match="must not be read through a cache"):
        asyncio.run(opened(CachingStore(MemoryStore())))


# --- keys and values over it

def test_a_key_value_store_over_the_wal_reads_what_was_written(stores):
    async def case():
        kv = await WalKv.open(system_world(stores.open()), "db")
        await kv.put("a", b"1")
        await kv.put("b", b"\x00\xff")
        await kv.flush()
        await kv.put("a", b"2")
        assert [await kv.get(key) for key in "abc"] == [b"2", b"\x00\xff", None]
        again = await WalKv.open(system_world(stores.open()), "db")
        assert [await again.get(key) for key in "abc"] == [b"2", b"\x00\xff", None]
        with pytest.raises(FencedUnapplied):
            await kv.put("a", b"3")
        with pytest.raises(FencedUnapplied):
            await kv.get("a")
        assert await again.get("a") == b"2"

    asyncio.run(case())
