"""Committed but rejected: the anomaly on every store, and retries that recognise their own update whatever requests do.

docs/protocols/committed-but-rejected.md explains it. The model's runs are rows of specs/SequencedMetadataBoundary.toml."""

import asyncio

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, Indefinite, OutcomeUnknown, Unavailable
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised, compactions_store
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.protocols.update_ids import Session, SessionForgotten, noted
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.traces.event import Event
from highwater.traces.refine import Failure
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]


def opened(store) -> MetadataStore:
    return compactions_store(system_world(store), "db")


async def begun(store) -> MetadataStore:
    metadata = opened(store)
    await metadata.initialise(Manifest())
    return metadata


def put(update: str):
    return lambda _, m: m.with_update(update)


async def updates(store) -> tuple[str, ...]:
    return (await opened(store).current()).value.updates


async def landed_and_refused(stores, attempt):
    """`attempt` has its create land, others build on that file, the boundary passes it, and then the boundary is read."""
    store = stores.open() if hasattr(stores, "open") else stores
    other = await begun(store)
    held = Held(store, "get", "gc/")
    task = asyncio.ensure_future(attempt(opened(held)))
    await held.reached.wait()
    for update in ("b1", "b2"):
        await other.update(put(update))
    await other.advance_boundary(3)
    held.release.set()
    return store, task


# --- the anomaly

def test_a_refused_update_is_in_the_history(stores):
    async def case():
        store, task = await landed_and_refused(stores, lambda metadata: metadata.update(put("a")))
        with pytest.raises(ObjectVersionBehindBoundary):
            await task
        assert await updates(store) == ("a", "b1", "b2")

    asyncio.run(case())


def test_so_who_refreshes_and_tries_again_applies_it_twice(stores):
    """Released code retries in this way, because it sees one more conflict."""

    async def retried(metadata):
        while True:
            try:
                return await metadata.update(put("a"))
            except ObjectVersionBehindBoundary:
                continue

    async def case():
        store, task = await landed_and_refused(stores, retried)
        assert (await task).id == 5
        assert await updates(store) == ("a", "b1", "b2", "a")

    asyncio.run(case())


# --- recognised

def test_a_refused_update_is_recognised_without_a_second_create(stores):
    async def case():
        store, task = await landed_and_refused(stores, lambda metadata: metadata.update_once("a", put("a")))
        assert await task == Recognised(4, Manifest(("a", "b1", "b2")))
        assert await updates(store) == ("a", "b1", "b2")

    asyncio.run(case())


def test_a_refused_update_that_came_too_late_is_applied_again(stores):
    async def case():
        store = stores.open()
        other = await begun(store)
        held = Held(store, "create", "compactions/")
        task = asyncio.ensure_future(opened(held).update_once("a", put("a")))
        await held.reached.wait()
        for update in ("b1", "b2"):
            await other.update(put(update))
        await other.advance_boundary(2)
        await other.bounded.storage.delete(2)
        held.release.set()
        assert await task == Committed(4, Manifest(("b1", "b2", "a")))

    asyncio.run(case())


class Lossy:
    """A store that answers the first creates of files with `error`, and applies them before, or by `arrive`, or never."""

    def __init__(self, store, when: str, error: Exception | None = None, times: int = 1):
        self._store, self._when, self._error, self._left = store, when, error or OutcomeUnknown("no answer"), times
        self.caches, self.late = False, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, key, body):
        if "/gc/" in key or not self._left:
            return await self._store.create(key, body)
        self._left -= 1
        if self._when == "before":
            await self._store.create(key, body)
        self.late.append((key, body))
        raise self._error

    async def arrive(self):
        for key, body in self.late:
            try:
                await self._store.create(key, body)
            except AlreadyExists:
                pass


@pytest.mark.parametrize("when, told", [("before", Recognised), ("never", Committed)])
def test_a_create_without_an_answer_is_tried_again_and_recognised(when, told):
    async def case():
        store = MemoryStore()
        await begun(store)
        assert await opened(Lossy(store, when)).update_once("a", put("a")) == told(2, Manifest(("a",)))
        assert await updates(store) == ("a",)

    asyncio.run(case())


def test_a_file_that_came_back_from_the_dead_proves_nothing():
    """The row recognised_unchecked: why the boundary must be read after the file."""

    async def case(unchecked: bool):
        store = MemoryStore()
        other = await begun(store)
        lossy = Lossy(store, "late")
        metadata = opened(slow := Held(lossy, "get", "0002.compactions"))
        create = metadata.bounded.create

        async def and_then_others(file_id, body):
            try:
                return await create(file_id, body)
            except OutcomeUnknown:
                await other.update(put("b1"))  # file 2, which is what it lists next
                raise

        metadata.bounded.create = and_then_others
        if unchecked:
            async def zero():
                return 0
            metadata.bounded.boundary.read = zero
        task = asyncio.ensure_future(metadata.update_once("a", put("a")))
        await slow.reached.wait()
        await other.update(put("b2"))
        await other.advance_boundary(2)
        await other.bounded.storage.delete(2)
        await lossy.arrive()
        slow.release.set()
        return await task, await updates(store)

    assert asyncio.run(case(unchecked=True)) == (Recognised(2, Manifest(("a",))), ("b1", "b2"))  # and it is lost
    assert asyncio.run(case(unchecked=False)) == (Committed(4, Manifest(("b1", "b2", "a"))), ("b1", "b2", "a"))


def test_another_process_may_ask_for_the_same_update():
    async def case():
        store, task = await landed_and_refused(MemoryStore(), lambda metadata: metadata.update_once("a", put("a"), attempts=1))
        with pytest.raises(ObjectVersionBehindBoundary):
            await task
        assert isinstance(await opened(store).update_once("a", put("a")), Recognised)
        assert await updates(store) == ("a", "b1", "b2")

    asyncio.run(case())


def test_after_an_attempt_in_doubt_no_error_is_definite():
    """`Unavailable` says that nothing has happened: of the LIST that found no answer, not of the create before it."""

    class Down(Lossy):
        async def list_page(self, prefix, after=""):
            if self.late:
                raise Unavailable("list")
            return await self._store.list_page(prefix, after)

    async def case():
        store = MemoryStore()
        await begun(store)
        with pytest.raises(OutcomeUnknown, match="an earlier attempt is in doubt"):
            await opened(Down(store, "before")).update_once("a", put("a"))
        refused = Lossy(store, "never", Unavailable("429, and nothing was done"))
        with pytest.raises(Unavailable):
            await opened(refused).update_once("b", put("b"))
        assert await updates(store) == ("a",)

    asyncio.run(case())


def test_conflicts_alone_are_definite():
    async def case():
        store = MemoryStore()
        await begun(store)
        held = Held(store, "create", "compactions/")
        task = asyncio.ensure_future(opened(held).update_once("a", put("a"), attempts=1))
        await held.reached.wait()
        await opened(store).update(put("b"))
        held.release.set()
        with pytest.raises(ObjectVersionExists):
            await task
        assert await updates(store) == ("b",)

    asyncio.run(case())


def test_a_change_that_leaves_out_its_id_is_refused():
    async def case():
        metadata = await begun(MemoryStore())
        with pytest.raises(ValueError, match="could never be recognised"):
            await metadata.update_once("a", lambda _, m: m)

    asyncio.run(case())


# --- ids that do not grow for ever

def test_of_a_session_the_last_number_is_kept():
    async def case():
        store = MemoryStore()
        session = Session(await begun(store))
        await session.open()
        await session.open()  # it may be in doubt, too
        for number in range(5):
            assert isinstance(await session.update(put(f"u{number}")), Committed)
        assert isinstance(await session.again(put("u4")), Recognised)
        value = (await opened(store).current()).value
        assert value.updates == ("u0", "u1", "u2", "u3", "u4") and value.sessions == ((session.id, 5),)
        assert UPDATES.decode(UPDATES.encode(value)) == value

    asyncio.run(case())


def test_a_session_goes_on_after_a_crash():
    async def case():
        store = MemoryStore()
        session = Session(await begun(store))
        await session.open()
        lossy = Session(opened(Lossy(store, "before")), session.id)
        with pytest.raises(Indefinite):
            await lossy.update(put("a"), attempts=1)
        after = Session(opened(store), lossy.id, lossy.number)
        assert isinstance(await after.again(put("a")), Recognised)
        assert isinstance(await after.update(put("b")), Committed)
        with pytest.raises(ValueError, match="update 1 is over"):
            await Session(opened(store), lossy.id, 1).again(put("a"))
        assert await updates(store) == ("a", "b")

    asyncio.run(case())


def test_a_session_that_is_forgotten_is_in_doubt_and_applies_nothing():
    async def case():
        store = MemoryStore()
        await begun(store)
        first, *others = [Session(opened(store), capacity=3) for _ in range(4)]
        await first.open()
        await first.update(put("a"))
        for other in others:
            await other.open()
        with pytest.raises(SessionForgotten) as error:
            await first.again(put("a"))
        assert isinstance(error.value, Indefinite)
        value = (await opened(store).current()).value
        assert value.updates == ("a",) and [s for s, _ in value.sessions] == [other.id for other in others]

    asyncio.run(case())


def judged(events: list[Event], shape: object) -> str:
    trace = named("update_ids").judge(shape)
    try:
        for event in events:
            trace.observe(event)
    except Failure as failure:
        return failure.signature
    return ""


@pytest.mark.parametrize("seed", [13610, 19499])
def test_a_late_file_in_the_place_of_a_collected_one_makes_no_session_forgotten(seed):
    outcome = simulate(Run(seed, "update_ids"))
    assert (outcome.signature, [e for e in outcome.events if e.op == "forgotten"]) == ("", [])


def test_forgotten_is_told_only_of_a_file_ahead_of_a_boundary_read_after_it():
    outcome = simulate(Run(13, "update_ids"))
    events = outcome.events
    told = next(i for i, e in enumerate(events) if e.op == "forgotten")
    check = max(i for i in range(told) if events[i].client == events[told].client)
    assert (outcome.signature, judged(events, outcome.shape)) == ("", "")
    assert events[check].key.endswith(".boundary")
    assert judged([*events[:check], *events[check + 1:]], outcome.shape) == "told:forgotten"


def test_the_table_is_in_order_of_use():
    table = noted(noted(noted((), "a", 0), "b", 0), "a", 1)
    assert table == (("b", 0), ("a", 1)) and noted(table, "c", 0, capacity=2) == (("a", 1), ("c", 0))


def test_files_without_sessions_are_as_they_were():
    assert UPDATES.encode(Manifest(("a",))) == b'{"checkpoints":[],"updates":["a"]}'
    assert UPDATES.decode(b'{"checkpoints":[],"updates":["a"]}') == Manifest(("a",))
