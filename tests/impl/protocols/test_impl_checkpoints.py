"""impl/protocols/checkpoints.py on the memory store: each call once, whoever else writes, and whatever reply is lost."""

import asyncio
import itertools

import pytest

from highwater.dst import script
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import mutants_of
from highwater.dst.scripts.checkpoints import SCRIPTS
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.json.ssts import records_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import Definite, OutcomeUnknown
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints, database_metadata
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing, NotInitialized
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world

CODECS = {"json": DATABASE, "V1": ManifestCodec(Phase.WRITE_V1), "V2": ManifestCodec(Phase.WRITE_V2)}
HOUR_MS = 3_600_000
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


class Clock:
    """The system's clock, which a test may move."""

    def __init__(self):
        self.ahead_ms = 0
        self.of = system_world(MemoryStore()).clock

    def now_ms(self) -> int:
        return self.of.now_ms() + self.ahead_ms

    async def sleep_ms(self, duration_ms: int) -> None:
        self.ahead_ms += duration_ms

    async def timeout(self, duration_ms, call):
        return await self.of.timeout(duration_ms, call)


class Losing:
    """A store that loses the reply of the create with this number, applied or not; and lets another client go first."""

    caches = False

    def __init__(self, store, number: int = 0, applied: bool = True, meanwhile=None):
        self.store, self.number, self.applied, self.meanwhile, self.creates = store, number, applied, meanwhile, 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def create(self, key, body):
        self.creates += 1
        if self.meanwhile and self.creates == 1:
            await self.meanwhile()
        if self.creates == self.number:
            if self.applied:
                await self.store.create(key, body)
            raise OutcomeUnknown(f"create {key}: lost")
        return await self.store.create(key, body)


class Scene:
    def __init__(self, codec):
        self.codec, self.memory, self.clock = codec, MemoryStore(), Clock()

    def client(self, store=None) -> MetadataStore:
        world = system_world(store or self.memory)._replace(clock=self.clock)
        return MetadataStore(world, Namespace("db", "manifest"), self.codec)

    async def begin(self, **fields) -> MetadataStore:
        one = self.client()
        first = Manifest(initialized=self.codec is not DATABASE)._replace(**fields)
        await one.initialise(first)
        return one

    async def entries(self):
        return await checkpoints.listed(self.client())

    async def files(self) -> int:
        return len(await self.client().bounded.list())


@pytest.fixture(params=CODECS.values(), ids=CODECS.keys())
def scene(request) -> Scene:
    return Scene(request.param)


def run(coroutine):
    return asyncio.run(coroutine)


def test_one_keeps_the_manifest_that_lists_it_first(scene):
    async def go():
        one = await scene.begin()
        name = checkpoints.new_id(one)
        taken = await checkpoints.create(one, name, HOUR_MS, "nightly")
        assert type(taken) is Committed and taken.id == 2
        entry, = await scene.entries()
        assert (entry.id, entry.manifest_id, entry.name) == (name, 2, "nightly")
        assert entry.active(scene.clock.now_ms()) and not entry.active(scene.clock.now_ms() + HOUR_MS + 2000)
        again = await checkpoints.create(one, name, HOUR_MS)
        assert type(again) is Recognised and await scene.files() == 2

    run(go())


@pytest.mark.parametrize("lost, applied, busy", [*itertools.product((0, 1, 2), (True, False), (False, True))])
def test_each_change_is_made_once_whatever_is_lost(scene, lost, applied, busy):
    async def go():
        other = await scene.begin()
        kept = checkpoints.new_id(other)
        await checkpoints.create(other, kept)

        async def write():
            if busy:
                await other.update(lambda _, m: m._replace(writer_epoch=m.writer_epoch + 1))

        one = scene.client(Losing(scene.memory, lost, applied, write))
        name = checkpoints.new_id(one)
        await checkpoints.create(one, name, HOUR_MS, source=kept)
        assert [entry.manifest_id for entry in await scene.entries()] == [2, 2]
        one = scene.client(Losing(scene.memory, lost, applied, write))
        await checkpoints.refresh(one, name)
        assert [entry.active(10**13) for entry in await scene.entries()] == [True, True]
        one = scene.client(Losing(scene.memory, lost, applied, write))
        await checkpoints.delete(one, name)
        assert [entry.id for entry in await scene.entries()] == [kept]
        assert (await other.current()).value.writer_epoch == 3 * busy

    run(go())


def test_a_source_that_goes_meanwhile_is_missed(scene):
    """It is looked up in the manifest that the new entry is added to: SOURCE_IN_SAME_CAS."""
    async def go():
        other = await scene.begin()
        source = checkpoints.new_id(other)
        await checkpoints.create(other, source)
        one = scene.client(Losing(scene.memory, meanwhile=lambda: checkpoints.delete(other, source)))
        with pytest.raises(CheckpointMissing):
            await checkpoints.create(one, checkpoints.new_id(one), source=source)
        assert await scene.entries() == ()

    run(go())


def test_a_checkpoint_that_goes_meanwhile_is_not_put_back_by_a_refresh(scene):
    """REFRESH_NEEDS_ENTRY: what it kept may be collected by then."""
    async def go():
        other = await scene.begin()
        kept = checkpoints.new_id(other)
        await checkpoints.create(other, kept)
        one = scene.client(Losing(scene.memory, meanwhile=lambda: checkpoints.delete(other, kept)))
        with pytest.raises(CheckpointMissing):
            await checkpoints.refresh(one, kept, HOUR_MS)
        assert await scene.entries() == ()

    run(go())


def test_an_ended_lease_is_neither_renewed_nor_copied(scene):
    async def go():
        one = await scene.begin()
        kept = checkpoints.new_id(one)
        await checkpoints.create(one, kept, 1)
        scene.clock.ahead_ms += 3000
        for call in (checkpoints.refresh(one, kept), checkpoints.create(one, checkpoints.new_id(one), source=kept)):
            with pytest.raises(CheckpointEnded):
                await call
        assert await scene.files() == 2
        await checkpoints.delete(one, kept)
        assert await scene.entries() == ()

    run(go())


def test_what_is_not_there_writes_nothing(scene):
    async def go():
        one = await scene.begin()
        name = checkpoints.new_id(one)
        for call in (checkpoints.delete(one, name), checkpoints.refresh(one, name),
                     checkpoints.create(one, name, source=checkpoints.new_id(one))):
            with pytest.raises(CheckpointMissing):
                await call
        for lifetime_ms in (0, -5):
            with pytest.raises(ValueError, match="at least 1 ms"):
                await checkpoints.create(one, name, lifetime_ms)
        assert await scene.files() == 1

    run(go())


def test_a_checkpoint_that_may_have_been_renewed_and_is_gone_is_in_doubt(scene):
    async def go():
        other = await scene.begin()
        kept = checkpoints.new_id(other)
        await checkpoints.create(other, kept)
        losing = Losing(scene.memory, 1)
        read = losing.list_page

        async def list_page(prefix, after=""):
            if losing.creates == 1 and (await scene.entries()):
                await checkpoints.delete(other, kept)
            return await read(prefix, after)

        losing.list_page = list_page
        one = scene.client(losing)
        with pytest.raises(OutcomeUnknown):
            await checkpoints.refresh(one, kept, HOUR_MS)

    run(go())


@pytest.mark.parametrize("codec", [CODECS["V1"], CODECS["V2"]], ids=["V1", "V2"])
def test_an_unfinished_clone_has_none(codec):
    async def go():
        scene = Scene(codec)
        one = await scene.begin(initialized=False)
        with pytest.raises(NotInitialized):
            await checkpoints.create(one, checkpoints.new_id(one))

    run(go())


def test_a_collector_beside_it_spares_what_is_listed(scene):
    async def go():
        one = await scene.begin()
        lasts, ends = checkpoints.new_id(one), checkpoints.new_id(one)
        await checkpoints.create(one, lasts)
        await checkpoints.create(one, ends, 2000)
        copy = checkpoints.new_id(one)
        await checkpoints.create(one, copy, HOUR_MS, source=ends)
        for _ in range(3):
            await one.update(lambda _, m: m._replace(writer_epoch=m.writer_epoch + 1))
        scene.clock.ahead_ms += 5000
        assert [entry.id for entry in (await one.drop_ended()).value.checkpoints] == [lasts, copy]
        await one.collect(-1)
        ids = [file.id for file in await one.bounded.list()]
        assert ids[:2] == [2, 3] and len(ids) == 3
        assert [entry.manifest_id for entry in await scene.entries()] == [2, 3]

    run(go())


def test_what_a_form_cannot_hold(scene):
    async def go():
        one = await scene.begin()
        if scene.codec is DATABASE:
            await checkpoints.create(one, "any text")
            return
        for bad, lifetime_ms in (("any text", None), (checkpoints.new_id(one), 10**13)):
            with pytest.raises(ValueError, match="UUID|2106"):
                await checkpoints.create(one, bad, lifetime_ms)
        assert await scene.files() == 1

    run(go())


def test_errors_say_that_nothing_happened():
    assert all(issubclass(error, Definite) for error in (CheckpointMissing, CheckpointEnded, NotInitialized))


@pytest.mark.parametrize("one", SCRIPTS, ids=lambda one: one.__name__)
def test_a_script(one):
    assert script.failed((one,)) is None


@pytest.mark.parametrize("name", mutants_of("checkpoints").builds)
def test_a_mutant_is_found_and_its_story_told(name):
    """The first seeds that find it: as the page of the zoo says, few are needed."""
    expected = mutants_of("checkpoints").oracles[name][0]
    runs = (simulate(Run(seed, "checkpoints", mutant=name)) for seed in range(1000))
    failed = next(run for run in runs if run.signature)
    assert failed.signature.startswith(expected) and failed.message


def test_a_collector_leaves_an_sst_that_is_uploaded_and_not_yet_named(scene):
    """slatedb#1029, #1031: a compaction's output was collected before the manifest named it."""
    async def go():
        one = await scene.begin()
        await scene.memory.create(key_of_sst("db", ULID), b"")
        for epoch in (1, 2, 3):
            await one.update(lambda _, m, epoch=epoch: m._replace(writer_epoch=epoch))
        assert (await checkpoints.collect(one, "db", -1))[1] == []
        assert [of.key for of in (await scene.memory.list_page("db/compacted/")).entries] == [key_of_sst("db", ULID)]

    run(go())


@pytest.mark.parametrize("codec", [CODECS["V1"], CODECS["V2"]], ids=["V1", "V2"])
def test_a_clone_without_a_final_checkpoint_is_read_and_written(codec):
    """`final_checkpoint_id` is optional in the released schema."""
    parent = ExternalDb("parent", checkpoints.new_id(Scene(codec).client()), None, (ULID,))
    manifest = Manifest(initialized=True, external_dbs=(parent,))
    again = codec.decode(codec.encode(manifest))
    assert again.external_dbs == (parent,) and codec.encode(again) == codec.encode(manifest)


def test_a_checkpoint_of_all_has_every_record_that_was_appended():
    """FLUSH_BEFORE: without the flush of the writer, the checkpoint's manifest lacks the records that are in the WAL alone."""
    async def taken(take) -> list[bytes]:
        stores = database_metadata.stores_of(system_world(MemoryStore()), "db")
        await database_metadata.initialise(stores)
        wal = await database_metadata.open(stores, "db")
        await wal.append(b"a")
        manifest = (await take(wal, stores.manifest)).value
        return [record.body for sst in manifest.l0 for record in records_of(sst)]

    assert run(taken(lambda wal, manifests: database_metadata.checkpoint_all(wal, manifests, "x", HOUR_MS, "n"))) == [b"a"]
    assert run(taken(lambda wal, manifests: checkpoints.create(manifests, "x", HOUR_MS))) == []
