"""impl/protocols/destroy.py on the memory store: whoever else writes, whatever is lost, on each form of manifests."""

import asyncio

import pytest

from highwater.dst import script
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import mutants_of
from highwater.dst.scripts.destroy import SCRIPTS
from highwater.dst.simulate import simulate
from highwater.impl.codecs.destroyed import HARD, SEALED, SOFT, mark_of, pins_of
from highwater.impl.codecs.json.manifest import DATABASE
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import ExternalDb
from highwater.impl.errors import Indefinite, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints, destroy
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.destroy import InvalidDeletion
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world

CODECS = {"json": DATABASE, "V1": ManifestCodec(Phase.WRITE_V1), "V2": ManifestCodec(Phase.WRITE_V2)}


class Failing:
    """A store of which request number `number` fails, before it is applied or after it; and lets another client go first."""

    caches = False

    def __init__(self, store, number: int = 0, applied: bool = False, meanwhile=None):
        self.store, self.number, self.applied, self.meanwhile, self.sent = store, number, applied, meanwhile, 0

    def __getattr__(self, name):
        real = getattr(self.store, name)
        if name not in ("create", "update", "delete"):
            return real

        async def asked(*arguments):
            self.sent += 1
            if self.meanwhile and self.sent == 1:
                await self.meanwhile()
            if self.sent == self.number:
                if self.applied:
                    await real(*arguments)
                raise OutcomeUnknown(f"{name}: lost")
            return await real(*arguments)

        return asked


class Scene:
    def __init__(self, codec):
        self.codec, self.memory = codec, MemoryStore()

    def client(self, store=None, root: str = "db") -> MetadataStore:
        return MetadataStore(system_world(store or self.memory), Namespace(root, "manifest"), self.codec)

    async def begin(self, root: str = "db", **fields) -> MetadataStore:
        one = self.client(root=root)
        await one.initialise(Manifest(initialized=self.codec is not DATABASE)._replace(**fields))
        await self.memory.create(f"{root}/wal/00000000000000000001.sst", b"")
        await self.memory.create(f"{root}/compacted/01ARZ3NDEKTSV4RRFFQ69G5FAV.sst", b"")
        return one

    async def left(self, root: str = "db") -> list[str]:
        return [of.key for of in (await self.memory.list_page(f"{root}/")).entries]


@pytest.fixture(params=CODECS.values(), ids=CODECS.keys())
def scene(request) -> Scene:
    return Scene(request.param)


def run(coroutine):
    return asyncio.run(coroutine)


def test_the_mark_is_an_entry_that_every_form_keeps(scene):
    async def go():
        one = await scene.begin()
        await destroy.mark(one, SOFT, 60_000)
        await one.update(lambda _, m: m._replace(last_l0_seq=0))
        latest = (await one.current()).value
        mark = mark_of(latest)
        assert (mark.kind, mark.due_ms - mark.at_ms, pins_of(latest)) == (SOFT, 60_000, ())
        assert (latest.writer_epoch, latest.compactor_epoch) == (1, 1)
        for call in (checkpoints.create(one, checkpoints.new_id(one)), checkpoints.refresh(one, latest.checkpoints[0].id, 5)):
            with pytest.raises(DatabaseDestroyed):
                await call

    run(go())


@pytest.mark.parametrize("applied", [False, True])
def test_a_destroy_that_dies_anywhere_is_resumed(scene, applied):
    async def go():
        for number in range(1, 9):
            scene.memory = MemoryStore()
            await scene.begin()
            store, died = Failing(scene.memory, number, applied), 0
            for _ in range(3):
                one = scene.client(store)
                try:
                    await destroy.mark(one, HARD)
                    await destroy.finish(one, "db")
                    break
                except (Indefinite, NoLatest):
                    died += 1
                    if await destroy.is_sealed(scene.client()):
                        await destroy.finish(scene.client(), "db")
                        break
            assert died < 2 and await scene.left() == ["db/gc/manifest.boundary"], number

    run(go())


def test_a_file_that_comes_late_is_told_from_a_boundary_that_somebody_moved():
    async def work(boundary: int, why: str) -> None:
        scene = Scene(DATABASE)
        one = await scene.begin()
        await one.advance_boundary(boundary)
        with pytest.raises(InvalidBoundary, match=why):
            await scene.client().current()
        with pytest.raises(InvalidBoundary, match=why):
            await one.current()

    run(work(SEALED, "what was here is destroyed for good, and file 1 was put later"))
    run(work(7, "was 7, but the latest file is 1: no collector puts the boundary"))


def test_a_checkpoint_that_is_taken_meanwhile_stops_a_hard_mark(scene):
    """CHECK_AND_MARK_IN_ONE_CAS: a clone's final checkpoint lands between the read and the update."""
    async def go():
        other = await scene.begin()
        name = checkpoints.new_id(other)
        one = scene.client(Failing(scene.memory, meanwhile=lambda: checkpoints.create(other, name)))
        with pytest.raises(InvalidDeletion, match=name):
            await destroy.mark(one, HARD)
        assert [entry.id for entry in await checkpoints.listed(other)] == [name]

    run(go())


@pytest.mark.parametrize("name", ["V1", "V2"])
def test_a_clone_lets_go_of_its_parents_first(name):
    async def go():
        scene = Scene(CODECS[name])
        parent = await scene.begin("parent")
        final = checkpoints.new_id(parent)
        await checkpoints.create(parent, final)
        of = ExternalDb("parent", final, final, ())
        one = await scene.begin("db", external_dbs=(of,))
        with pytest.raises(InvalidDeletion):
            await destroy.mark(parent, HARD)
        await destroy.mark(one, HARD)
        await destroy.finish(one, "db")
        assert await checkpoints.listed(parent) == ()
        await destroy.mark(parent, HARD)
        await destroy.finish(parent, "parent")
        assert await scene.left("parent") == ["parent/gc/manifest.boundary"]

    run(go())


@pytest.mark.parametrize("one", SCRIPTS, ids=lambda one: one.__name__)
def test_a_script(one):
    assert script.failed((one,)) is None


@pytest.mark.parametrize("name", mutants_of("destroy").builds)
def test_a_mutant_is_found_and_its_story_told(name):
    expected = mutants_of("destroy").oracles[name][0]
    runs = (simulate(Run(seed, "destroy", mutant=name)) for seed in range(1000))
    failed = next(run for run in runs if run.signature)
    assert failed.signature.startswith(expected) and failed.message
