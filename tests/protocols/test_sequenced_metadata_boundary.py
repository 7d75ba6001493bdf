"""SlateDB's RFC on GC boundary files: its sentences as cases on every store, and a thousand seeds.

test_rows.py has counts and knobs, test_refine.py golden traces, and test_stores.py the contract of the stores."""

import asyncio

import pytest

from highwater.conformance.conform import model_of
from highwater.dst.run_spec import Run
from highwater.dst.simulate import many
from highwater.impl.codecs.json.manifest import Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, Definite, Indefinite, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import InvalidId, InvalidName, Namespace
from highwater.impl.protocols.boundary_object import (
    BoundaryLost,
    InvalidBoundary,
    ObjectStoreBoundaryObject,
    ObjectVersionBehindBoundary,
)
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Recognised, compactions_store, manifest_store
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists, SequencedStorage
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.impl.world import World
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import always_possible
from highwater.model.protocols.sequenced_metadata_boundary import Constants, model, stale_files_are_collected
from highwater.specs.runs import rows
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]
ROWS = {row.id: row for row in rows() if row.stem == "sequenced_metadata_boundary" and row.how != "live"}


# --- the model

def test_status_quo_is_the_motivation_of_the_source_in_six_steps():
    steps = [step.label for step in explore(model_of(ROWS["status_quo"])).trace]
    stale, other = "Writer#1", "Writer#0"
    story = [(stale, "ReadLatest"), (other, "CreateNext"), (other, "CreateNext"), ("Collector#0", "Delete"),
             (stale, "CreateNext")]
    told = [(process, action) for process, action, _ in steps if (process, action) in story]
    assert sorted(told) == sorted(story) and told[-1] == (stale, "CreateNext")


def test_a_stale_file_can_always_still_be_collected():
    assert always_possible(model(Constants(MAX_LOST=1, COMMITS=1)), stale_files_are_collected) is None
    assert always_possible(model(Constants(COLLECTORS=0)), lambda c, s: s.boundary > 0) is not None


# --- the source's sentences, on every store

class Clock:
    """The store's time moved ahead by hand, for what is to be old."""

    def __init__(self, world: World):
        self.world, self.ahead_ms = world, 0

    def now_ms(self) -> int:
        return self.world.clock.now_ms() + self.ahead_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        await self.world.clock.sleep_ms(duration_ms)


DAY_MS = 86_400_000


def aged(store) -> World:
    """A world in which everything that is in the store is a day old."""
    world = system_world(store)
    clock = Clock(world)
    clock.ahead_ms = DAY_MS
    return world._replace(clock=clock)


def opened(store, make=manifest_store) -> MetadataStore:
    return make(system_world(store), "db")


async def grown(store, updates: int, make=manifest_store) -> MetadataStore:
    """A namespace of 1 + `updates` files."""
    metadata = opened(store, make)
    await metadata.initialise(Manifest())
    for number in range(updates):
        await metadata.update(lambda _, m, number=number: m.with_update(f"0.{number}"))
    return metadata


async def ids(metadata: MetadataStore) -> list[int]:
    return [file.id for file in await metadata.bounded.list()]


def test_ids_start_at_1_so_that_a_missing_boundary_is_behind_them(stores):
    """SlateDB's page says 0. A missing boundary reads as 0, and «IDs <= B must be treated as potentially deleted»."""

    async def case():
        metadata = opened(stores.open())
        with pytest.raises(NoLatest):
            await metadata.update(lambda _, m: m)
        await metadata.initialise(Manifest())
        await metadata.initialise(Manifest(("not taken",)))
        assert await ids(metadata) == [1]
        assert (await metadata.current()) == (1, Manifest())
        assert Namespace("db", "manifest").key(12) == "db/manifest/00000000000000000012.manifest"
        with pytest.raises(ObjectVersionBehindBoundary):
            await metadata.bounded.create(0, b"{}")

    asyncio.run(case())


def test_of_racing_updates_none_is_lost(stores):
    """«success means the sequenced update won»"""

    async def case():
        await grown(stores.open(), 0)

        async def work(number):
            metadata = opened(stores.open())
            return [(await metadata.update(lambda _, m, k=k: m.with_update(f"{number}.{k}"))).id for k in range(3)]

        taken = [file_id for ids in await asyncio.gather(*map(work, range(4))) for file_id in ids]
        assert sorted(taken) == list(range(2, 14))
        final = await opened(stores.open()).current()
        assert final.id == 13 and sorted(final.value.updates) == sorted(f"{n}.{k}" for n in range(4) for k in range(3))

    asyncio.run(case())


def test_conflict_is_definite_and_after_so_many_attempts_reported():
    async def case():
        store = MemoryStore()
        metadata = await grown(store, 0)
        rival = opened(store)

        held = Held(store, "create", "manifest/")
        late = opened(held)
        task = asyncio.ensure_future(late.update(lambda _, m: m.with_update("0.0"), attempts=1))
        await held.reached.wait()
        await rival.update(lambda _, m: m.with_update("1.0"))
        held.release.set()
        with pytest.raises(ObjectVersionExists) as error:
            await task
        assert isinstance(error.value, Definite)
        assert (await metadata.current()).value.updates == ("1.0",)

    asyncio.run(case())


@pytest.mark.parametrize("make, name", [(manifest_store, "manifest"), (compactions_store, "compactions")])
def test_collection_advances_the_boundary_and_then_deletes(stores, make, name):
    """«Remove the most recent metadata file from the list»; «choose the maximum file ID»; «a single ASCII-encoded u64»."""

    async def case():
        store = stores.open()
        metadata = await grown(store, 4, make)
        assert await metadata.collect(DAY_MS) == []  # nothing is old enough
        with pytest.raises(NotFound):  # «If no files are old enough, GC skips the boundary update»
            await store.get(f"db/gc/{name}.boundary")
        assert await make(aged(store), "db").collect(DAY_MS // 2) == [1, 2, 3, 4]
        assert (await store.get(f"db/gc/{name}.boundary")).body == b"4"
        assert await ids(metadata) == [5]
        assert (await metadata.update(lambda _, m: m.with_update("0.9"))).id == 6
        assert await make(aged(store), "db").collect(DAY_MS // 2) == [5]
        assert (await store.get(f"db/gc/{name}.boundary")).body == b"5"

    asyncio.run(case())


def test_boundary_is_durable_before_the_first_delete(stores):
    """«Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.»"""

    async def case():
        store = stores.open()
        await grown(store, 3)
        held = Held(store, "delete", "")
        task = asyncio.ensure_future(manifest_store(aged(held), "db").collect(DAY_MS // 2))
        await held.reached.wait()
        assert (await store.get("db/gc/manifest.boundary")).body == b"3"
        assert len(await ids(opened(store))) == 4
        held.release.set()
        assert await task == [1, 2, 3]

    asyncio.run(case())


def test_files_that_checkpoints_refer_to_are_kept_and_readable_behind_the_boundary(stores):
    """The boundary is the largest old id, before checkpoints are looked at; «not referenced by an active checkpoint»: one that
    has ended counts as active while it is listed."""

    async def case():
        store = stores.open()
        metadata = await grown(store, 1)
        far_ms = system_world(store).clock.now_ms() + 10 * DAY_MS
        pins = {"for ever": 0, "long": far_ms, "over": 1}
        for name, expiry_ms in pins.items():
            await metadata.update(lambda i, m, n=name, e=expiry_ms: m.with_checkpoint(Checkpoint(n, i, e)))
        await metadata.update(lambda _, m: m.with_update("0.8"))
        collector = manifest_store(aged(store), "db")
        assert await collector.collect(DAY_MS // 2) == [1, 2]
        assert (await store.get("db/gc/manifest.boundary")).body == b"5"
        assert await ids(metadata) == [3, 4, 5, 6]
        assert [one.id for one in (await collector.drop_ended()).value.checkpoints] == ["for ever", "long"]
        assert isinstance(await collector.drop_ended(), Recognised) and await ids(metadata) == [3, 4, 5, 6, 7]
        assert await collector.collect(DAY_MS // 2) == [5, 6]
        assert (await metadata.read(3)).checkpoints[-1].id == "for ever"
        assert (await metadata.read(4)).checkpoints[-1].id == "long"

    asyncio.run(case())


@pytest.mark.parametrize("renewed_first", [True, False])
def test_who_renews_an_ended_checkpoint_or_drops_it_first_decides(renewed_first):
    """The other finds it in the next file: the collector that it is active, the owner that it is gone."""

    def renew(_, manifest: Manifest) -> Manifest:
        if not manifest.checkpoints:
            raise NotFound("the checkpoint is gone")
        return manifest._replace(checkpoints=(manifest.checkpoints[0]._replace(expiry_ms=0),))

    async def case():
        store = MemoryStore()
        metadata = await grown(store, 0)
        await metadata.update(lambda i, m: m.with_checkpoint(Checkpoint("c", i, 1)))
        await metadata.update(lambda _, m: m.with_update("0.8"))
        held = Held(store, "create", "manifest/")
        slow, fast = opened(held), manifest_store(aged(store), "db")
        if renewed_first:
            task = asyncio.ensure_future(slow.drop_ended())
            await held.reached.wait()
            await fast.update(renew)
        else:
            task = asyncio.ensure_future(slow.update(renew))
            await held.reached.wait()
            await fast.drop_ended()
        held.release.set()
        if renewed_first:
            assert isinstance(await task, Recognised)
        else:
            with pytest.raises(NotFound, match="is gone"):
                await task
        await metadata.update(lambda _, m: m.with_update("0.9"))
        await fast.collect(0)
        assert ((2 in await ids(metadata)), len((await metadata.current()).value.checkpoints)) == (renewed_first, renewed_first)

    asyncio.run(case())


def test_compactions_are_not_spared_for_checkpoints():
    async def case():
        store = MemoryStore()
        metadata = await grown(store, 0, compactions_store)
        await metadata.update(lambda i, m: m.with_checkpoint(Checkpoint("c", 1, 0)))
        assert await compactions_store(aged(store), "db").collect(0) == [1]

    asyncio.run(case())


async def motivation(stores, checked: bool, min_age_ms: int = 1200) -> int:
    """The six steps of the source's Motivation, with real stalls and a real min_age (S3 tells whole seconds)."""

    async def unchecked(file_id: int) -> None:
        pass

    store = stores.open()
    await grown(store, 0)
    held = Held(stores.open(), "create", "manifest/")
    stale, other = opened(held), opened(store)
    if not checked:
        stale.bounded.boundary.check = unchecked
    write = asyncio.ensure_future(stale.update(lambda _, m: m.with_update("1.0")))  # 1: reads file 1 and prepares 2
    await held.reached.wait()  # 2: stalls before it creates 2
    for number in range(3):
        await other.update(lambda _, m, n=number: m.with_update(f"0.{n}"))  # 3: creates 2, and then 3 and 4
    await asyncio.sleep((min_age_ms + 1100) / 1000)
    assert await other.collect(min_age_ms) == [1, 2, 3]  # 4: deletes 2, which is old enough
    held.release.set()  # 5: creates 2, because the object no longer exists
    try:
        return (await write).id  # 6: treats the stale update as committed
    finally:
        assert await ids(other) == [2, 4]  # the file stays, and is not the latest
        assert (await other.current()).value.updates == ("0.0", "0.1", "0.2")
        await asyncio.sleep((min_age_ms + 1100) / 1000)
        assert await other.collect(min_age_ms) == [2]  # «Eventually the garbage collector will LIST and notice» it


def test_the_stale_writer_is_refused_after_a_real_stall(stores):
    with pytest.raises(ObjectVersionBehindBoundary) as refused:
        asyncio.run(motivation(stores, checked=True))
    assert (refused.value.id, refused.value.boundary) == (2, 3)
    assert isinstance(refused.value, Indefinite)


def test_with_the_boundary_disabled_the_stale_writer_is_wrongly_accepted(stores):
    assert asyncio.run(motivation(stores, checked=False)) == 2  # «committed», and in nobody's history


# --- the boundary object

def boundary_of(store, name: str = "manifest") -> ObjectStoreBoundaryObject:
    return ObjectStoreBoundaryObject(system_world(store), Namespace("db", name))


def test_boundary_never_moves_backward_and_racing_collectors_retry(stores):
    """«retry until the durable boundary is greater than or equal to the desired value»"""

    async def case():
        store = stores.open()
        assert await boundary_of(store).read() == 0
        await asyncio.gather(*[boundary_of(stores.open()).advance(value) for value in (3, 9, 5, 7, 1, 8)])
        assert (await store.get("db/gc/manifest.boundary")).body == b"9"
        await boundary_of(store).advance(4)
        assert await boundary_of(store).read() == 9
        await boundary_of(store).check(10)
        with pytest.raises(ObjectVersionBehindBoundary):
            await boundary_of(store).check(9)

    asyncio.run(case())


def test_boundary_is_asked_for_again_by_its_version(stores):
    """«readers can be optimized with an in-memory cache and conditional GETs»: never from memory alone."""

    async def case():
        store = stores.open()
        first, second = boundary_of(store), boundary_of(stores.open())
        await first.advance(3)
        await second.check(4)
        await first.advance(4)
        with pytest.raises(ObjectVersionBehindBoundary):
            await second.check(4)

    asyncio.run(case())


@pytest.mark.parametrize("garbage", [b"", b"x", b"-1", b"1_0", b"12 13", "¹²".encode(), str(1 << 64).encode()])
def test_garbage_in_the_boundary_is_a_clear_error(garbage):
    async def case():
        store = MemoryStore()
        await store.put("db/gc/manifest.boundary", garbage)
        with pytest.raises(InvalidBoundary, match="db/gc/manifest.boundary"):
            await boundary_of(store).check(1)
        assert (await store.get("db/gc/manifest.boundary")).body == garbage

    asyncio.run(case())


@pytest.mark.parametrize("written, value", [(b"12", 12), (b" 12\n", 12), (b"007", 7), (b"18446744073709551615", 2**64 - 1)])
def test_what_slatedb_reads_as_a_boundary_is_read(written, value):
    async def case():
        store = MemoryStore()
        await store.put("db/gc/manifest.boundary", written)
        assert await boundary_of(store).read() == value

    asyncio.run(case())


def test_a_boundary_that_was_seen_and_is_gone_is_fatal(stores):
    """«it panics because GC must never delete boundary files»"""

    async def case():
        store = stores.open()
        boundary = boundary_of(store)
        await boundary.advance(3)
        await store.delete("db/gc/manifest.boundary")
        with pytest.raises(BoundaryLost, match="at least that value"):
            await boundary.check(9)
        assert await boundary_of(store).read() == 0  # a process that has never seen it cannot know

    asyncio.run(case())


def test_a_boundary_that_went_back_is_noticed():
    async def case():
        store = MemoryStore()
        boundary = boundary_of(store)
        await boundary.advance(7)
        await store.put("db/gc/manifest.boundary", b"2")
        with pytest.raises(InvalidBoundary, match="went back from 7 to 2"):
            await boundary.read()

    asyncio.run(case())


def test_a_boundary_at_or_ahead_of_the_latest_is_an_error_and_no_endless_loop(stores):
    """Judged only by a LIST that was sent after the boundary was read."""

    async def case():
        store = stores.open()
        await grown(store, 2)
        await store.put("db/gc/manifest.boundary", b"9")
        metadata = opened(store)
        with pytest.raises(InvalidBoundary, match="gc/manifest.boundary' was 9, but the latest file is 3"):
            await metadata.current()
        with pytest.raises(InvalidBoundary):
            await metadata.collect(0)
        fresh = opened(store)
        with pytest.raises(ObjectVersionBehindBoundary):  # it cannot know yet that not its own write is at fault
            await fresh.update(lambda _, m: m.with_update("0.7"))
        with pytest.raises(InvalidBoundary):
            await fresh.update(lambda _, m: m.with_update("0.8"))

    asyncio.run(case())


def test_boundary_of_another_namespace():
    """«flexible enough to be used for WAL boundaries»"""

    async def case():
        store = MemoryStore()
        await boundary_of(store, "wal").advance(3)
        assert (await store.get("db/gc/wal.boundary")).body == b"3"
        assert Namespace("db", "wal").key(4) == "db/wal/00000000000000000004.sst"
        assert await boundary_of(store).read() == 0

    asyncio.run(case())


def test_a_boundary_is_a_u64_and_not_read_through_a_cache():
    async def case():
        store = MemoryStore()
        for value in (-1, 1 << 64):
            with pytest.raises(InvalidId):
                await boundary_of(store).advance(value)
        with pytest.raises(NotFound):
            await store.get("db/gc/manifest.boundary")
        await store.put("db/gc/manifest.boundary", b"9" * 5000)
        with pytest.raises(InvalidBoundary):
            await boundary_of(store).read()
        with pytest.raises(ValueError, match="must not be read through a cache"):
            boundary_of(CachingStore(store), "wal")

    asyncio.run(case())


def test_an_advance_that_fails_is_warned_of():
    """«warn on boundary advance failures»"""

    async def warnings(method, error, raises):
        store = MemoryStore()
        await boundary_of(store).advance(1)
        boundary = boundary_of(Failing(store, method, "boundary", error))
        boundary.attempts = 3
        with pytest.raises(raises):
            await boundary.advance(5)
        return boundary.world.metrics.snapshot()["warnings"]

    assert asyncio.run(warnings("update", PreconditionFailed("lost"), OutcomeUnknown)) == 3
    assert asyncio.run(warnings("update", Unavailable("503"), Unavailable)) == 1
    assert asyncio.run(warnings("get", Unavailable("503"), Unavailable)) == 1


# --- names, caches, errors

def test_ids_end_with_u64():
    async def case():
        store = MemoryStore()
        last = Namespace("db", "manifest").key(2**64 - 1)
        await store.put(last, b'{"checkpoints":[],"updates":[]}')
        with pytest.raises(InvalidId, match="used up"):
            await opened(store).update(lambda _, m: m)
        await store.put(last.replace("18446744073709551615", "18446744073709551616"), b"?")
        with pytest.raises(InvalidName):
            await opened(store).current()

    asyncio.run(case())


def test_a_conflict_with_an_id_that_is_never_listed_is_an_error_that_names_it():
    async def case():
        store = MemoryStore()
        await grown(store, 1)
        with pytest.raises(NoLatest, match=r"0003\.manifest' is said to exist, but is not listed"):
            await opened(Failing(store, "create", "manifest/", AlreadyExists("so it says"))).update(lambda _, m: m)

    asyncio.run(case())


@pytest.mark.parametrize("stalls_at", ["gc/", "manifest/"], ids=["before-its-advance", "after-its-advance"])
def test_a_collector_trusts_checkpoints_only_ahead_of_the_boundary(stalls_at):
    """The latest file that it listed renewed a checkpoint; before it read that file it was collected, and put back by a
    refused writer, who did not know of the renewal. (The model's checkpoints are never renewed: it cannot show this.)"""

    async def case():
        store = MemoryStore()
        first = await grown(store, 0)
        c1 = Checkpoint("c1", 2, system_world(store).clock.now_ms() + DAY_MS // 2)
        await first.update(lambda _, m: m.with_checkpoint(c1))  # 2, pinned for half a day
        await first.update(lambda _, m: m.with_update("0.1"))  # 3
        held = Held(store, "create", "manifest/")
        stale = asyncio.ensure_future(opened(held).update(lambda _, m: m.with_update("1.0")))  # 4 with c1 as it was
        await held.reached.wait()
        await first.update(lambda _, m: m._replace(checkpoints=(c1._replace(expiry_ms=0),)))  # 4: c1 is renewed
        slow = Held(store, "get", stalls_at)
        collector = asyncio.ensure_future(manifest_store(aged(slow), "db").collect(0))  # has listed 1 to 4, a day later
        await slow.reached.wait()
        await first.update(lambda _, m: m.with_update("0.2"))  # 5
        assert await manifest_store(aged(store), "db").collect(0) == [1, 3, 4]  # the boundary is 4, not ahead of it
        held.release.set()
        with pytest.raises(ObjectVersionBehindBoundary):
            await stale  # its 4 stays for the moment
        slow.release.set()
        assert await collector == []
        latest = await first.current()
        assert latest.value.checkpoints == (c1._replace(expiry_ms=0),)  # of 2, and that is there
        assert (await first.read(2)).checkpoints == (c1,)

    asyncio.run(case())


def test_a_foreign_name_with_our_suffix_is_an_error_that_names_it(stores):
    async def case():
        store = stores.open()
        metadata = await grown(store, 1)
        await store.put("db/manifest/99.manifest", b"?")
        for attempt in (metadata.current, lambda: metadata.collect(0), lambda: metadata.update(lambda _, m: m)):
            with pytest.raises(InvalidName, match=r"db/manifest/99\.manifest"):
                await attempt()

    asyncio.run(case())


def test_names_with_other_suffixes_are_ignored_with_one_warning(stores):
    async def case():
        store = stores.open()
        await grown(store, 1)
        await store.put("db/manifest/notes.txt", b"?")
        world = system_world(store)
        metadata = manifest_store(world, "db")
        for _ in range(3):
            assert (await metadata.current()).id == 2
        assert world.metrics.snapshot()["warnings"] == 1

    asyncio.run(case())


def test_a_listing_that_never_settles_is_an_error_that_names_the_file():
    class Ghost(MemoryStore):
        async def get(self, key):
            if key.endswith("3.manifest"):
                raise NotFound(key)
            return await super().get(key)

    async def case():
        store = Ghost()
        metadata = await grown(store, 1)
        await store.put(Namespace("db", "manifest").key(3), b"never to be read")
        with pytest.raises(NoLatest, match=r"00003\.manifest' is listed but not there, 10 times over"):
            await metadata.current()

    asyncio.run(case())


def test_a_caching_store_is_refused():
    """«Manifest and compactions stores must not use CachedObjectStore.»"""
    with pytest.raises(ValueError, match="CachingStore answers reads from memory"):
        opened(CachingStore(MemoryStore()))


def test_sequenced_metadata_is_put_only_if_absent_and_read_without_condition():
    """«asserting PutMode::Create and all GETs are unconditional»"""
    storage = SequencedStorage(system_world(MemoryStore()), Namespace("db", "manifest"))
    for request in (storage.store.put, storage.store.update, storage.store.get_if_changed):
        with pytest.raises(AssertionError, match="only if absent"):
            request("key")


class Failing:
    """A store one of whose methods fails, for keys that hold `part`."""

    caches = False

    def __init__(self, store, method: str, part: str, error: Exception, applied: bool = False):
        self._store, self._method, self._part, self._error, self._applied = store, method, part, error, applied

    def __getattr__(self, name):
        real = getattr(self._store, name)

        async def fails(key, *rest):
            if self._part not in key:
                return await real(key, *rest)
            if self._applied:
                await real(key, *rest)
            raise self._error

        return fails if name == self._method else real


def test_outcomes_are_definite_or_indefinite():
    async def outcome(failing):
        try:
            await opened(failing).update(lambda _, m: m.with_update("1.1"))
        except (Definite, Indefinite) as error:
            return type(error)

    async def case():
        store = MemoryStore()
        await grown(store, 1)
        assert await outcome(Failing(store, "list_page", "", Unavailable("list"))) is Unavailable  # nothing was sent
        assert await outcome(Failing(store, "create", "", OutcomeUnknown("lost"), applied=True)) is OutcomeUnknown
        assert (await opened(store).current()).value.updates == ("0.0", "1.1")
        # the create is done, the boundary cannot be read: nobody knows yet
        assert await outcome(Failing(store, "get", "boundary", Unavailable("boundary"))) is OutcomeUnknown
        assert (await opened(store).current()).value.updates == ("0.0", "1.1", "1.1")

    asyncio.run(case())


def test_a_collector_goes_on_after_a_delete_that_failed():
    async def case():
        store = MemoryStore()
        await grown(store, 3)
        failing = Failing(store, "delete", "0002.manifest", OutcomeUnknown("lost"))
        assert await manifest_store(aged(failing), "db").collect(0) == [1, 3]
        assert await manifest_store(aged(store), "db").collect(0) == [2]

    asyncio.run(case())


def test_a_listing_whose_latest_is_gone_ends_the_round():
    async def case():
        store = MemoryStore()
        await grown(store, 2)
        failing = Failing(store, "get", "0003.manifest", NotFound("gone"))
        assert await manifest_store(aged(failing), "db").collect(0) == []

    asyncio.run(case())


def test_metrics_and_warnings():
    """«Metrics: track boundary check latency, advance attempts, and rejected stale writes.»"""

    async def case():
        store = MemoryStore()
        metadata = await grown(store, 3)
        await manifest_store(aged(store), "db").collect(0)
        world = metadata.world
        with pytest.raises(ObjectVersionBehindBoundary):
            await metadata.bounded.create(2, b"stale")
        counted = world.metrics.snapshot()
        assert counted["stale_writes_rejected"] == 1 and counted["warnings"] == 1
        assert counted["boundary_check_latency_ms.count"] == 5  # the first file, three updates, and the refused one
        collector = system_world(store)
        await ObjectStoreBoundaryObject(collector, Namespace("db", "manifest")).advance(3)
        assert "boundary_advance_attempts" not in collector.metrics.snapshot()  # it is there already
        await ObjectStoreBoundaryObject(collector, Namespace("db", "compactions")).advance(3)
        assert collector.metrics.snapshot()["boundary_advance_attempts"] == 1

    asyncio.run(case())


# --- simulation

def test_a_thousand_seeds_refine():
    failed = []
    many(map(Run, range(1000)), lambda outcome: failed.append((outcome.seed, outcome.signature)) if outcome.kind else None)
    assert failed == []
