"""A compactor changes two objects, and no request writes both: it may crash, be refused or get no reply at any request."""

import asyncio

import pytest

from highwater.dst.mutants.manifest_compactions import NOT_PINNED_AGAIN
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios.manifest_compactions import production
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.manifest import COMPACTED, InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown, Unavailable
from highwater.impl.protocols.manifest_compactions import (
    Compactor,
    InputMissing,
    collect,
    flush,
    initialise,
    stores_of,
)
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]
SSTS = ("s1", "s2")




def opened(store, root="db"):
    return stores_of(system_world(store), root)


async def begun(store, root="db"):
    stores = opened(store, root)
    await initialise(stores)
    for sst in SSTS:
        await flush(stores, sst)
    return stores


async def nothing(job) -> None:
    pass


class Died(Exception):
    pass


class Interrupted:
    """At its request number `at`, "before" or "after" it, the client dies; or the reply is "lost"; or before it something is
    done `meanwhile`."""

    caches = False

    def __init__(self, store, at: int, what: str, meanwhile=None):
        self._store, self._at, self._what, self._meanwhile, self.requests = store, at, what, meanwhile, 0

    def __getattr__(self, name):
        real = getattr(self._store, name)

        async def request(*arguments):
            self.requests += 1
            if self.requests != self._at:
                return await real(*arguments)
            if self._what == "before":
                raise Died
            if self._what == "meanwhile":
                await self._meanwhile()
            try:
                found = await real(*arguments)
            finally:
                if self._what == "after":
                    raise Died
            if self._what == "lost" and name == "create":
                raise OutcomeUnknown("no answer")
            return found

        return request


async def life(store, root="db") -> list:
    """Open, and merge all there is."""
    compactor = Compactor(opened(store, root))
    await compactor.open()
    merged = []
    while job := await compactor.compact(nothing):
        merged.append(job)
    return merged


async def counted() -> int:
    """Requests of a life: two bumps, a claim, an application, the claim taken out, each LIST, GET, PUT, GET; two picks."""
    store = MemoryStore()
    await begun(store)
    counting = Interrupted(store, 0, "")
    assert await life(counting) == [SSTS]
    return counting.requests


REQUESTS = 5 * 4 + 2 * 3


def places(stores) -> range:
    """The requests of a life, one after another; a few where they take long."""
    return range(1, REQUESTS + 1, 9 if stores.s3 else 1)


def test_so_many_requests_make_a_life():
    assert asyncio.run(counted()) == REQUESTS


async def all_is_well(store, root="db", more: tuple[str, ...] = ()) -> int:
    """Everything is compacted once, no claim is left, and the epochs, which are returned, are one."""
    stores = opened(store, root)
    manifest, compactions = (await stores.manifest.current()).value, (await stores.compactions.current()).value
    assert (sorted(manifest.compacted), manifest.l0) == (sorted((*SSTS, *more)), ())
    assert compactions == Compactions(manifest.compactor_epoch, ())
    return manifest.compactor_epoch


def test_a_life(stores):
    async def case():
        store = stores.open()
        await begun(store)
        assert await life(store) == [SSTS] and await all_is_well(store) == 1
        assert await life(store) == [] and await all_is_well(store) == 2

    asyncio.run(case())


@pytest.mark.parametrize("what", ["before", "after"])
def test_it_may_die_at_any_request(stores, what):
    """Between the two bumps (slatedb#1095), between the manifest and the claim, and wherever else."""

    async def case(at: int, root: str):
        store = stores.open()
        await begun(store, root)
        with pytest.raises(Died):
            await life(Interrupted(store, at, what), root)
        await life(store, root)
        assert await all_is_well(store, root) in (1, 2)

    for at in places(stores):
        asyncio.run(case(at, f"db-{at}"))


def test_any_reply_to_a_create_may_be_lost(stores):
    async def case(at: int, root: str):
        store = stores.open()
        await begun(store, root)
        assert await life(Interrupted(store, at, "lost"), root) == [SSTS]
        await all_is_well(store, root)

    for at in places(stores):
        asyncio.run(case(at, f"db-{at}"))


def test_it_may_be_built_upon_and_refused_at_any_request(stores):
    """Before a request the writer flushes, both boundaries are moved as far as they may be, and what is behind is deleted."""

    async def case(at: int, root: str):
        store = stores.open()
        rival = await begun(store, root)

        async def meanwhile():
            await flush(rival, "s3")
            await flush(rival, "s4")
            for metadata in rival:
                *old, _ = [file.id for file in await metadata.bounded.list()]
                if old:
                    await metadata.advance_boundary(max(old))
                for file_id in old:
                    await metadata.bounded.storage.delete(file_id)

        merged = await life(Interrupted(store, at, "meanwhile", meanwhile), root)
        assert sorted(sst for job in merged for sst in job) == sorted((*SSTS, "s3", "s4"))
        await all_is_well(store, root, ("s3", "s4"))

    for at in places(stores):
        asyncio.run(case(at, f"db-{at}"))


def test_who_is_fenced_changes_nothing_and_its_claim_is_taken_over(stores):
    async def case():
        store = stores.open()
        await begun(store)
        merging, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(job):
            merging.set()
            await go_on.wait()

        old, new = Compactor(opened(store)), Compactor(opened(store))
        await old.open()
        task = asyncio.ensure_future(old.compact(slowly))
        await merging.wait()
        await new.open()
        assert old.job == new.job == SSTS
        before = await opened(store).manifest.current()
        go_on.set()
        with pytest.raises(FencedInDoubt, match="this compactor has epoch 1, and the latest is 2"):
            await task
        assert await opened(store).manifest.current() == before
        assert await new.compact(nothing) == SSTS
        assert await all_is_well(store) == 2

    asyncio.run(case())


def test_an_open_that_was_overtaken_between_the_two_bumps_is_fenced():
    async def case():
        store = MemoryStore()
        await begun(store)
        held = Held(store, "create", "compactions/")
        late = asyncio.ensure_future(Compactor(opened(held)).open())
        await held.reached.wait()
        assert await Compactor(opened(store)).open() == 2
        held.release.set()
        with pytest.raises(FencedInDoubt):
            await late
        assert (await opened(store).compactions.current()).value.compactor_epoch == 2

    asyncio.run(case())


def test_all_at_once(stores):
    """Compactors that open and die by turns, a writer, and a collector to whom all is old."""

    async def case():
        store = stores.open()
        await begun(store)
        names = [f"w{number}" for number in range(8)]

        async def writer():
            mine = opened(store)
            for sst in names:
                await flush(mine, sst)

        async def compactor():
            try:
                await life(store)
            except FencedInDoubt:
                pass

        async def collector():
            mine = opened(store)
            for _ in range(6):
                await collect(mine, -1)

        await asyncio.gather(writer(), compactor(), compactor(), compactor(), collector())
        await life(store)
        await all_is_well(store, more=tuple(names))

    asyncio.run(case())


def test_a_claim_of_what_is_nowhere_is_an_error():
    async def case():
        stores = await begun(MemoryStore())
        await stores.compactions.update(lambda _, c: c._replace(jobs=(("s1", "s9"),)))
        compactor = Compactor(stores)
        await compactor.open()
        with pytest.raises(InputMissing, match="'s9'"):
            await compactor.compact(nothing)

    asyncio.run(case())


def test_one_that_is_not_open_does_nothing():
    with pytest.raises(ValueError, match="not open"):
        asyncio.run(Compactor(opened(MemoryStore())).compact(nothing))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}x", b'{"l1":[]}'])
def test_garbage_is_an_error(body):
    with pytest.raises(InvalidManifest):
        COMPACTED.decode(body)


def test_content_is_what_was_put():
    for codec, value in ((COMPACTED, Manifest(compactor_epoch=3, l0=("a",), compacted=("b",))),
                         (compactions_json, Compactions(3, (("a", "b"),)))):
        assert codec.decode(codec.encode(value)) == value
    assert compactions_json.encode(Compactions(1, (("a",),))) == b'{"compactor_epoch":1,"jobs":[["a"]]}'


def test_a_claim_in_doubt_is_made_certain_before_anything_else_is_picked():
    """Else, with another flush meanwhile, there would be two claims of one SST."""

    class Down(Interrupted):
        async def list_page(self, *arguments):
            if self.requests == self._at:
                raise Unavailable("list")
            self.requests += 1
            return await self._store.list_page(*arguments)

    async def case():
        store = MemoryStore()
        rival = await begun(store)
        compactor = Compactor(opened(Down(store, 8 + 3 + 3, "lost")))  # two bumps, a pick, LIST, GET, and the PUT of the claim
        await compactor.open()
        with pytest.raises(OutcomeUnknown, match="an earlier attempt is in doubt"):
            await compactor.compact(nothing)
        assert (await rival.compactions.current()).value.jobs == (SSTS,)
        await flush(rival, "s3")
        compactor.stores = rival
        assert [await compactor.compact(nothing), await compactor.compact(nothing)] == [SSTS, ("s3",)]
        await all_is_well(store, more=("s3",))

    asyncio.run(case())


def test_what_a_reader_has_read_stays_until_the_pin_ends(stores):
    """A collector leaves the manifest that had the inputs. When the pin has ended, it drops the pin, and then the file."""
    async def case():
        compacts, collects = (stores_of(system_world(stores.open()), "db", pins=True) for _ in range(2))
        await initialise(compacts)
        await flush(compacts, "s1")
        compactor = Compactor(compacts, pin_ms=60_000)
        await compactor.open()
        assert await compactor.compact(nothing) == ("s1",)
        latest = (await compacts.manifest.current()).value
        pin, = latest.checkpoints
        assert (latest.l0, latest.compacted) == ((), ("s1",))
        await collect(collects, -1)
        assert (await collects.manifest.read(pin.manifest_id)).l0 == ("s1",)
        await collects.manifest.drop_ended(skew_ms=-60_000)
        await collect(collects, -1)
        assert [file.id for file in await collects.manifest.bounded.list()] == [pin.manifest_id + 2]

    asyncio.run(case())


def test_simulation_finds_that_a_compactor_drops_inputs_although_its_pin_was_dropped():
    build, shape = NOT_PINNED_AGAIN

    def failed(build, seed):
        drawn = drawn_shape(seed, "manifest_compactions")._replace(**shape)
        return simulate(Run(seed, scenario="manifest_compactions", shape=drawn), build).kind

    assert any(failed(build, seed) for seed in range(60))
    assert not any(failed(production, seed) for seed in range(60))
