"""Single writer and epochs on every store: the sentences of SlateDB's page on the manifest, and the limits of the model."""

import asyncio
import json

import pytest

from highwater.impl.codecs.json.manifest import EPOCHS, NAMES, Checkpoint, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, FencedApplied, FencedUnapplied, Indefinite, OutcomeUnknown, Unavailable
from highwater.impl.protocols.manifest_epochs import (
    EMPTY,
    Collection,
    InDoubt,
    Instance,
    ManifestReader,
    initialise,
    open_collector,
    open_compactor,
    open_writer,
)
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.impl.world import World
from tests.support.stores.faulty import LATE, LOST, NEVER, REFUSED, Faulty
from tests.support.stores.held import Held

decode, encode = EPOCHS.decode, EPOCHS.encode

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run
FATES = pytest.mark.parametrize("fate", [LOST, LATE, NEVER])
DAY_MS = 86_400_000
OPEN = {"writer": open_writer, "compactor": open_compactor, "collector": open_collector}


def world_of(store) -> World:
    return system_world(store)


async def fresh(stores_or_store, first: Manifest = EMPTY):
    store = stores_or_store.open() if hasattr(stores_or_store, "open") else stores_or_store
    await initialise(world_of(store), "db", first)
    return store


async def latest(store) -> Manifest:
    return (await ManifestReader(world_of(store), "db").poll()).manifest


def unpinned(m: Manifest) -> Manifest:
    """Return the manifest without the checkpoints of writers."""
    return m._replace(checkpoints=tuple(one for one in m.checkpoints if one.writer_epoch is None))


def faulty(store) -> Faulty:
    found = Faulty(store)
    found.sent()
    return found


# --- opens


def test_an_epoch_begins_with_0_and_each_open_adds_one_to_its_own_role_s(stores):
    """«initialized to 0 when the database is first created»; «write_epoch is incremented once»"""

    async def case():
        with pytest.raises(NoLatest):
            await open_writer(world_of(stores.open()), "db")
        store = await fresh(stores)
        await initialise(world_of(store), "db", Manifest(writer_epoch=9))  # there is one: nothing happens
        assert await latest(store) == Manifest()
        assert [(await open_writer(world_of(stores.open()), "db")).epoch for _ in range(2)] == [1, 2]
        assert (await open_compactor(world_of(stores.open()), "db")).epoch == 1
        collector = await open_collector(world_of(stores.open()), "db")
        assert unpinned(await latest(store)) == Manifest(writer_epoch=2, compactor_epoch=1, collector_epoch=1)
        with pytest.raises(RuntimeError, match="open already"):
            await collector.open()
        assert await store.get("db/manifest/00000000000000000005.manifest")

    run(case())


@pytest.mark.parametrize("role", OPEN)
def test_an_open_that_loses_its_race_fails_at_once(stores, role):
    """«CAS ensures simultaneous attempts to write the manifest will fail», with ObjectVersionExists."""

    async def case():
        store = await fresh(stores)
        held = Held(stores.open(), "create", "manifest/")
        late = Instance(world_of(held), "db", role)
        task = asyncio.ensure_future(late.open())
        await held.reached.wait()
        await open_writer(world_of(stores.open()), "db")
        held.release.set()
        with pytest.raises(ObjectVersionExists) as lost:
            await task
        assert isinstance(lost.value, Definite) and lost.value.id == 2
        assert unpinned(await latest(store)) == Manifest(writer_epoch=1)
        with pytest.raises(RuntimeError, match="failed to open"):
            await late.open()

    run(case())


def test_an_open_that_may_retry_takes_the_epoch_after_the_one_that_it_reads_then(stores):
    async def case():
        await fresh(stores)
        held = Held(stores.open(), "create", "manifest/")
        task = asyncio.ensure_future(open_writer(world_of(held), "db", retry_for_s=60))
        await held.reached.wait()
        await open_writer(world_of(stores.open()), "db")
        held.release.set()
        assert (await task).epoch == 2

    run(case())


@FATES
def test_an_open_without_a_reply(fate):
    async def case():
        store = faulty(await fresh(MemoryStore()))
        store.next("create", fate)
        with pytest.raises(OutcomeUnknown):
            await open_writer(world_of(store), "db")
        store.next("create", fate)
        writer = await open_writer(world_of(store), "db", retry_for_s=60)
        await store.arrive()
        assert writer.epoch == {LOST: 3, LATE: 1, NEVER: 1}[fate]  # an epoch that nobody has is no harm
        await writer.flush("0.0")
        store.next("create", NEVER)
        store.next("list_page", "", REFUSED)
        with pytest.raises(OutcomeUnknown):
            await open_writer(world_of(store), "db", retry_for_s=60)

    run(case())


def test_an_open_that_was_refused_without_effect_may_be_called_again():
    async def case():
        store = faulty(await fresh(MemoryStore()))
        writer = Instance(world_of(store), "db", "writer")
        for method, requests in (("list_page", "list_page"), ("get", "list_page get"), ("create", "list_page get create")):
            store.next(method, REFUSED)
            with pytest.raises(Unavailable):
                await writer.open()
            assert store.sent() == requests
        assert (await writer.open()).id == 2 and store.sent() == "create"

    run(case())


# --- updates


def test_after_a_read_without_an_answer_an_update_begins_at_step_1():
    """The earlier listing is out of date by then. An update that picked from it would find nothing."""

    async def case():
        store = faulty(await fresh(MemoryStore()))
        writer, compactor = await open_writer(world_of(store), "db"), await open_compactor(world_of(store), "db")
        store.sent()
        store.next("get", REFUSED)
        with pytest.raises(Unavailable):
            await compactor.compact()
        await writer.flush("a")
        done = await compactor.compact()
        assert done and done.value.compacted == ("a",)
        assert store.sent() == "list_page get list_page get create list_page get create"

    run(case())


def test_the_four_kinds_of_update_and_what_they_say(stores):
    """«When the database is opened for write», «opened and compaction is enabled», «When compaction finishes it's current
    cycle», «When “MemTables” are flushed»"""

    async def case():
        store = await fresh(stores)
        writer = await open_writer(world_of(stores.open()), "db")
        compactor = await open_compactor(world_of(stores.open()), "db")
        opened = Manifest(writer_epoch=1, compactor_epoch=1)
        assert await compactor.compact() is None
        assert unpinned((await writer.flush("a")).value) == opened._replace(l0=("a",), replay_after_wal_id=1, next_wal=2)
        assert unpinned((await writer.flush("b")).value) == opened._replace(l0=("a", "b"), replay_after_wal_id=2, next_wal=3)
        merged = []

        async def merge(picked: tuple[str, ...]) -> None:
            merged.append(picked)

        done = await compactor.compact(merge)
        assert merged == [("a", "b")]
        assert done and done.id == 6
        assert unpinned(done.value) == opened._replace(compacted=("a", "b"), replay_after_wal_id=2, next_wal=3)
        assert await latest(store) == done.value

    run(case())


def test_a_writer_has_one_checkpoint_of_the_manifest_that_it_put_last(stores):
    """SlateDB's RFC on checkpoints: «Look through the checkpoints under `checkpoint` for any entries with `metadata` of type
    `WriterCheckpoint`, and remove any such entries», and create one of «the next manifest version (V + 1)»."""

    async def case():
        lasting = Checkpoint("c", 1, 0)
        store = await fresh(stores, Manifest(checkpoints=(lasting,)))
        old = await open_writer(world_of(stores.open()), "db")
        compactor, collector = [await OPEN[role](world_of(stores.open()), "db") for role in ("compactor", "collector")]
        await old.flush("a")
        taken = (await latest(store)).checkpoints
        assert [(one.manifest_id, one.writer_epoch) for one in taken] == [(1, None), (5, 1)]
        await compactor.compact()
        assert (await latest(store)).checkpoints == taken and await collector.drop_ended_checkpoints() is None
        held = Held(stores.open(), "create", "7.manifest")
        task = asyncio.ensure_future(open_writer(world_of(held), "db", retry_for_s=60))
        await held.reached.wait()
        await old.flush("b")
        held.release.set()
        assert (await task).epoch == 2
        assert [(one.manifest_id, one.writer_epoch) for one in (await latest(store)).checkpoints] == [(1, None), (8, 2)]

    run(case())


def test_an_update_is_list_get_create_and_a_conflict_begins_at_step_1():
    """«SlateDB must restart the entire protocol at step 1, if a CAS conflict occurs»"""

    async def case():
        store = faulty(await fresh(MemoryStore()))
        store.sent()
        writer = await open_writer(world_of(store), "db")
        assert store.sent() == "list_page get create"
        await writer.flush("a")
        await writer.flush("b")
        assert store.sent() == "list_page get create list_page get create"
        await ManifestReader(world_of(store), "db").poll()
        assert store.sent() == "list_page get"

        compactor = await open_compactor(world_of(store), "db")
        held = Held(store, "create", "manifest/")
        writer.metadata.bounded.storage.store.create = held.create
        store.sent()
        task = asyncio.ensure_future(writer.flush("c"))
        await held.reached.wait()
        await compactor.compact()
        held.release.set()
        committed = await task
        assert store.sent() == "list_page get list_page get create create list_page get create"
        assert (committed.value.l0, committed.value.compacted) == (("c",), ("a", "b"))  # the change, applied again

    run(case())


def test_a_flush_that_is_reported_stays_whoever_else_writes(stores):
    """«CAS conflict ensures writes to a file do not clobber each other»; a conflict of the same epoch is another role's."""

    async def case():
        now_ms = world_of(stores.open()).clock.now_ms()
        ended = tuple(Checkpoint(f"c{n}", 1, now_ms - DAY_MS) for n in range(2))
        kept = Checkpoint("kept", 1, now_ms + DAY_MS), Checkpoint("for ever", 1, 0)
        store = await fresh(stores, Manifest(checkpoints=ended + kept))
        writer, compactor, collector = [await OPEN[role](world_of(stores.open()), "db") for role in OPEN]

        async def flushes():
            for number in range(4):
                await writer.flush(f"0.{number}")

        async def compactions():
            for _ in range(3):
                await compactor.compact()

        await asyncio.gather(flushes(), compactions(), collector.drop_ended_checkpoints())
        final = await latest(store)
        assert sorted(final.sst_names) == [f"0.{n}" for n in range(4)]
        assert (final.writer_epoch, final.compactor_epoch, final.collector_epoch) == (1, 1, 1)
        assert (final.replay_after_wal_id, final.next_wal) == (4, 5)
        assert unpinned(final).checkpoints == kept
        assert await collector.drop_ended_checkpoints() is None

    run(case())


def test_conflicts_are_retried_until_the_deadline_if_there_is_one():
    """«This process will continue to retry indefinitely until manifest write occurs without conflict.»"""

    async def case():
        store = await fresh(MemoryStore())
        writer = await open_writer(world_of(store), "db")
        real, busy, conflicts = store.create, await open_compactor(world_of(store), "db"), []

        async def overtaken(key: str, body: bytes) -> str:
            if len(conflicts) < 20:
                conflicts.append(key)
                manifest = decode((await store.get(f"db/manifest/{2 + len(conflicts):020}.manifest")).body)
                await real(key, encode(manifest))  # another role's update
            return await real(key, body)

        writer.metadata.bounded.storage.store.create = overtaken
        assert (await writer.flush("a")).id == 24 and len(conflicts) == 20
        conflicts.clear()

        async def always(key: str, body: bytes) -> str:
            await real(key, encode(await latest(store)))
            return await real(key, body)

        writer.metadata.bounded.storage.store.create = always
        clock = writer.world.clock
        with pytest.raises(ObjectVersionExists) as late:
            await writer.flush("b", deadline_ms=clock.now_ms() + 20)
        assert isinstance(late.value, Definite) and "b" not in (await latest(store)).sst_names
        writer.metadata.bounded.storage.store.create = real
        await writer.flush("c")
        assert (await latest(store)).l0 == ("a", "c") and busy.epoch == 1

    run(case())


@FATES
def test_a_flush_without_a_reply_is_tried_again_and_found_if_it_has_landed(fate):
    async def case():
        store = faulty(await fresh(MemoryStore()))
        writer = await open_writer(world_of(store), "db")
        store.sent()
        store.next("create", fate)
        await writer.flush("a")
        assert store.sent() == "list_page get create list_page get" + " create" * (fate != LOST)
        await store.arrive()
        await writer.flush("b")
        assert (await latest(store)).l0 == ("a", "b")

    run(case())


def test_a_flush_that_lands_while_it_is_tried_again_is_applied_once():
    async def case():
        store = faulty(await fresh(MemoryStore()))
        real, gets = store.store.get, []

        async def get(key: str):
            found = await real(key)
            gets.append(key)
            if len(gets) == 3:
                await store.arrive()  # just after it was looked for
            return found

        store.store.get = get
        writer = await open_writer(world_of(store), "db")
        store.next("create", LATE)
        store.sent()
        await writer.flush("a")
        assert store.sent() == "list_page get create list_page get create list_page get"
        assert (await latest(store)).l0 == ("a",)

    run(case())


def test_an_update_in_doubt_is_found_out_before_another_begins():
    async def case():
        store = faulty(await fresh(MemoryStore()))
        writer = await open_writer(world_of(store), "db")
        now_ms = writer.world.clock.now_ms()
        store.next("create", LATE)
        with pytest.raises(OutcomeUnknown):
            await writer.flush("a", deadline_ms=now_ms)
        with pytest.raises(InDoubt):
            await writer.flush("b")
        store.next("list_page", REFUSED)
        with pytest.raises(OutcomeUnknown):
            await writer.flush("a")
        await store.arrive()
        store.sent()
        assert (await writer.flush("a")).id == 3 and store.sent() == "list_page get"
        assert (await writer.flush("b")).value.l0 == ("a", "b")

    run(case())


@FATES
def test_a_compaction_and_a_collection_without_a_reply(fate):
    async def case():
        store = faulty(await fresh(MemoryStore(), Manifest(checkpoints=(Checkpoint("c", 1, 1),))))
        writer, compactor, collector = [await OPEN[role](world_of(store), "db") for role in OPEN]
        await writer.flush("a")
        merged = []

        async def merge(picked: tuple[str, ...]) -> None:
            merged.append(picked)

        for instance, update in ((compactor, lambda: compactor.compact(merge)),
                                 (collector, collector.drop_ended_checkpoints)):
            store.next("create", fate)
            assert await update() and not instance.attempt.doubt
            await store.arrive()
        final = await latest(store)
        assert (final.l0, final.compacted, unpinned(final).checkpoints, merged) == ((), ("a",), (), [("a",)])

    run(case())


def test_after_a_create_refused_without_effect_an_update_goes_on_from_where_it_was():
    async def case():
        store = faulty(await fresh(MemoryStore()))
        writer, compactor = [await OPEN[role](world_of(store), "db") for role in ("writer", "compactor")]
        merged = []

        async def merge(picked: tuple[str, ...]) -> None:
            merged.append(picked)

        for update in (lambda: writer.flush("a"), lambda: compactor.compact(merge)):
            store.sent()
            for method, requests in (("list_page", "list_page"), ("get", "list_page get"), ("create", "list_page get create")):
                store.next(method, REFUSED)
                with pytest.raises(Unavailable):
                    await update()
                assert store.sent() == requests
            assert await update() and store.sent() == "create"
        assert (await latest(store)).compacted == ("a",) and merged == [("a",)]
        store.next("create", REFUSED)
        with pytest.raises(Unavailable):
            await writer.flush("b")
        assert (await writer.flush("c")).value.l0 == ("c",)  # b is nowhere, and never will be

    run(case())


# --- fencing


def test_a_fenced_writer_tells_its_caller_and_goes_on_with_nothing(stores, caplog):
    """«If our epoch is less than the epoch stored in the manifest, then an error is logged, and the manifest update is
    aborted»; the source's NOTE: «no error is ever returned»."""

    async def case():
        store = await fresh(stores)
        old = await open_writer(world_of(stores.open()), "db")
        await old.flush("0.0")
        new = await open_writer(world_of(stores.open()), "db")
        with pytest.raises(FencedUnapplied) as fenced:
            await old.flush("0.1")
        assert isinstance(fenced.value, Definite) and (fenced.value.epoch, fenced.value.stored) == (1, 2)
        assert "another writer has opened since" in caplog.text
        assert old.world.metrics.snapshot()["fenced"] == 1
        with pytest.raises(FencedUnapplied):
            await old.flush("0.2")
        await new.flush("1.0")
        assert (await latest(store)).l0 == ("0.0", "1.0")

    run(case())


def test_a_writer_whose_conflict_shows_a_higher_epoch_is_fenced(stores):
    async def case():
        store = await fresh(stores)
        held = Held(stores.open(), "create", "4.manifest")
        old = await open_writer(world_of(held), "db")
        await old.flush("0.0")
        task = asyncio.ensure_future(old.flush("0.1"))
        await held.reached.wait()
        await open_writer(world_of(stores.open()), "db")
        held.release.set()
        with pytest.raises(FencedUnapplied):
            await task
        assert (await latest(store)).l0 == ("0.0",)

    run(case())


@FATES
def test_who_is_fenced_while_in_doubt_learns_whether_its_flush_is_in_the_manifest(fate):
    async def case():
        store = faulty(await fresh(MemoryStore()))
        old = await open_writer(world_of(store), "db")
        store.next("create", fate)
        with pytest.raises(OutcomeUnknown):
            await old.flush("0.0", deadline_ms=0)
        await open_writer(world_of(store), "db")
        await store.arrive()
        with pytest.raises(FencedApplied if fate == LOST else FencedUnapplied) as fenced:
            await old.flush("0.0")
        assert isinstance(fenced.value, Indefinite) == (fate == LOST)
        with pytest.raises(type(fenced.value), match="in the manifest" if fate == LOST else "reported this already"):
            await old.flush("0.0")  # it asks again
        with pytest.raises(FencedUnapplied):
            await old.flush("0.1")  # which was never sent
        assert (await latest(store)).l0 == (("0.0",) if fate == LOST else ())

    run(case())


def test_compaction_is_fenced_by_its_own_epoch(stores):
    """The source's first TODO: «Fencing and Compaction»."""

    async def case():
        store = await fresh(stores)
        writer = await open_writer(world_of(stores.open()), "db")
        await writer.flush("0.0")
        old = await open_compactor(world_of(stores.open()), "db")
        merging, go_on = asyncio.Event(), asyncio.Event()

        async def merge(picked: tuple[str, ...]) -> None:
            merging.set()
            await go_on.wait()

        task = asyncio.ensure_future(old.compact(merge))
        await merging.wait()
        new = await open_compactor(world_of(stores.open()), "db")
        go_on.set()
        with pytest.raises(FencedUnapplied):
            await task
        assert (await latest(store)).compacted == ()
        assert (await writer.flush("0.1")).value.l0 == ("0.0", "0.1")  # which concerns no writer
        assert (await new.compact()).value.compacted == ("0.0", "0.1")
        with pytest.raises(RuntimeError, match="only a compactor may do this"):
            await writer.compact()

    run(case())


def test_a_merge_that_fails_is_begun_anew():
    async def case():
        store = await fresh(MemoryStore())
        writer, compactor = [await OPEN[role](world_of(store), "db") for role in ("writer", "compactor")]
        await writer.flush("a")

        async def fail(picked: tuple[str, ...]) -> None:
            raise LookupError(picked)

        with pytest.raises(LookupError):
            await compactor.compact(fail)
        merged = []

        async def merge(picked: tuple[str, ...]) -> None:
            merged.append(picked)

        await compactor.compact(merge)
        assert merged == [("a",)] and (await latest(store)).compacted == ("a",)

    run(case())


# --- a reader in another process, and the codec


def test_a_reader_learns_of_new_keys_by_asking(stores):
    """The source's second TODO: «how does a SlateDB reader know there are new keys written by other instances?»"""

    async def case():
        reader = ManifestReader(world_of(stores.open()), "db")
        with pytest.raises(NoLatest):
            await reader.poll()
        await fresh(stores)
        writer, compactor = [await OPEN[role](world_of(stores.open()), "db") for role in ("writer", "compactor")]
        assert (await reader.poll()).new == ()
        await writer.flush("a")
        await writer.flush("b")
        polled = await reader.poll()
        assert (polled.id, polled.new) == (5, ("a", "b"))
        await compactor.compact()
        await writer.flush("c")
        assert (await reader.poll()).new == ("c",)
        assert await reader.poll() == (7, await latest(stores.open()), ())

    run(case())


def test_the_codec_sorts_its_keys_and_refuses_what_it_would_drop():
    manifest = Manifest(writer_epoch=1, compactor_epoch=2, collector_epoch=3, l0=("a",), compacted=("b",),
                        replay_after_wal_id=4, next_wal=5, checkpoints=(Checkpoint("c", 1, 0),))
    assert decode(encode(manifest)) == manifest
    assert encode(Manifest(l0=("a",))) == (
        b'{"checkpoints":[],"collector_epoch":0,"compacted":[],"compactor_epoch":0,"l0":["a"],"last_wal":0,"next_wal":1,'
        b'"writer_epoch":0}')
    for body in (b"", b"[]", b"{}", b'{"updates":[]}', encode(manifest)[:-1] + b',"newer":1}'):
        with pytest.raises(InvalidManifest):
            decode(body)


def test_fields_are_named_as_in_the_model():
    from highwater.model.protocols import manifest_epochs as model

    assert {NAMES[field] for field in EPOCHS.always} == set(model.Manifest._fields) - {"writer_checkpoints"}
    first = model.initial(model.Constants(CHECKPOINTS=0)).files[0]._asdict()
    assert not first.pop("writer_checkpoints")  # in the files they are among the checkpoints
    assert json.loads(encode(Manifest())) == {
        name: value if isinstance(value, int) else list(value) for name, value in first.items()}


def test_what_it_is_made_of_is_checked():
    with pytest.raises(ValueError, match="accepted are writer"):
        Instance(world_of(MemoryStore()), "db", "reader")
    with pytest.raises(RuntimeError, match="open this writer first"):
        run(Instance(world_of(MemoryStore()), "db", "writer").flush("a"))
    assert Collection((Checkpoint("c", 1, 1),)).landed(Manifest())


# --- time-outs of opens


class Silent:
    """Applies each create, and never replies while `silent`."""

    def __init__(self, store):
        self._store, self.caches, self.silent = store, store.caches, False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, key, body):
        version = await self._store.create(key, body)
        if self.silent:
            await asyncio.Event().wait()
        return version


async def given_up(store: Silent, call) -> None:
    store.silent = True
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(call, 0.05)
    store.silent = False


def test_a_flush_that_is_cancelled_is_in_doubt():
    async def case():
        store = Silent(await fresh(MemoryStore()))
        writer = await open_writer(world_of(store), "db")
        await given_up(store, writer.flush("a"))
        with pytest.raises(InDoubt):
            await writer.flush("b")
        assert (await writer.flush("a")).id == 3
        await given_up(store, writer.flush("b"))
        await open_writer(world_of(store), "db")
        with pytest.raises(FencedApplied):
            await writer.flush("b")
        assert (await latest(store)).l0 == ("a", "b")

    run(case())


def test_an_open_that_is_cancelled_is_over():
    async def case():
        store = Silent(await fresh(MemoryStore()))
        writer = Instance(world_of(store), "db", "writer")
        await given_up(store, writer.open())
        with pytest.raises(RuntimeError, match="did not wait"):
            await writer.open()
        assert (await open_writer(world_of(store), "db")).epoch == 2

    run(case())
