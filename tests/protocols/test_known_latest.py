"""Two requests per commit: a writer need not list and read its own last commit, but after any error it does.

docs/operating/cost.md explains it. The model's runs are the rows known_* of specs/SequencedMetadataBoundary.toml."""

import asyncio

import pytest

from highwater.dst.cost import Latency, measure
from highwater.dst.scenarios.known_latest import SCENARIO
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.model.proofs import sequenced_metadata_boundary as proofs
from highwater.model.protocols import sequenced_metadata_boundary as m
from tests.support.stores.held import Held

REQUESTS = ("create", "update", "put", "get", "get_if_changed", "list_page", "delete")
TWO = ["create", "get_if_changed"]
FOUR = ["list_page", "get", *TWO]


class Counted:
    """A store that records its requests in order. `fail`: the error of the next request of a kind, applied before it or not."""

    def __init__(self, store):
        self.store, self.asked, self.fail, self.caches = store, [], {}, False

    def __getattr__(self, name):
        if name not in REQUESTS:
            return getattr(self.store, name)

        async def request(*arguments, **options):
            self.asked.append(name)
            error, applied = self.fail.pop(name, (None, True))
            reply = await getattr(self.store, name)(*arguments, **options) if applied else None
            if error:
                raise error
            return reply
        return request

    def taken(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


def opened(store, keep_latest: bool = True) -> MetadataStore:
    return MetadataStore(system_world(store), Namespace("db", "compactions"),
                         policies=Policies(spare_checkpoints=False, keep_latest=keep_latest))


def put(update: str):
    return lambda _, manifest: manifest.with_update(update)


async def begun() -> tuple[MemoryStore, Counted, MetadataStore]:
    """A store, and a writer of it that knows its last commit, with the boundary written."""
    store = MemoryStore()
    other = opened(store, False)
    await other.initialise(Manifest())
    await other.update(put("0"))
    await other.advance_boundary(1)
    counted = Counted(store)
    metadata = opened(counted)
    await metadata.update(put("1"))
    counted.taken()
    return store, counted, metadata


async def updates(store) -> tuple[str, ...]:
    return (await opened(store, False).current()).value.updates


def test_a_commit_is_two_requests():
    async def case():
        store, counted, metadata = await begun()
        for number in "234":
            assert (await metadata.update(put(number))).id == int(number) + 2
            assert counted.taken() == TWO
        assert await updates(store) == ("0", "1", "2", "3", "4")

    asyncio.run(case())


def test_of_which_the_boundary_check_is_the_second():
    """It must come after the create: the rows known_no_check and known_check_before_create."""

    async def case():
        store, counted, metadata = await begun()
        other = opened(store, False)
        counted.store = held = Held(store, "create", "compactions/")
        task = asyncio.ensure_future(metadata.update(put("late")))
        await asyncio.wait_for(held.reached.wait(), 10)
        for update in ("b1", "b2"):
            await other.update(put(update))
        await other.advance_boundary(4)
        await other.bounded.storage.delete(4)
        held.release.set()
        with pytest.raises(ObjectVersionBehindBoundary):
            await task
        assert metadata.kept is None
        assert await updates(store) == ("0", "1", "b1", "b2")

    asyncio.run(case())


def test_four_by_default():
    async def case():
        _, counted, _ = await begun()
        metadata = opened(counted, False)
        for number in "23":
            await metadata.update(put(number))
            assert [kind.replace("_if_changed", "") for kind in counted.taken()] == ["list_page", "get", "create", "get"]

    asyncio.run(case())


def test_a_conflict_costs_three_more_and_nothing_is_lost():
    async def case():
        store, counted, metadata = await begun()
        await opened(store, False).update(put("other"))
        assert await metadata.update(put("2")) == Committed(5, Manifest(("0", "1", "other", "2")))
        assert counted.taken() == ["create", *FOUR]
        await metadata.update(put("3"))
        assert counted.taken() == TWO

    asyncio.run(case())


@pytest.mark.parametrize("kind, error, applied, held", [
    ("create", OutcomeUnknown("no answer"), True, True), ("create", OutcomeUnknown("no answer"), False, False),
    ("create", Unavailable("503"), False, False), ("get_if_changed", Unavailable("503"), False, True),
])
def test_any_error_forgets_it(kind, error, applied, held):
    async def case():
        store, counted, metadata = await begun()
        counted.fail[kind] = error, applied
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await metadata.update(put("2"))
        counted.taken()
        await opened(store, False).update(put("other"))
        await metadata.update(put("3"))
        assert counted.taken() == FOUR
        assert await updates(store) == ("0", "1", *["2"] * held, "other", "3")

    asyncio.run(case())


def test_so_does_a_change_that_fails():
    async def case():
        _, counted, metadata = await begun()

        def fails(_, manifest):
            raise KeyError("no")

        with pytest.raises(KeyError):
            await metadata.update(fails)
        assert counted.taken() == []
        await metadata.update(put("2"))
        assert counted.taken() == FOUR

    asyncio.run(case())


def test_two_updates_at_once_lose_nothing():
    async def case():
        store, _, metadata = await begun()
        await asyncio.gather(*(metadata.update(put(number)) for number in "23456"))
        await metadata.update(put("7"))
        assert sorted(await updates(store)) == [*"01234567"]

    asyncio.run(case())


def test_a_writer_alone_needs_two_round_trips():
    one = Latency(20, 100)
    latencies = dict.fromkeys(("create", "update", "put", "get", "get_if_changed", "list", "delete"), one)
    cost = measure("known_latest", "1 writer", latencies, 3)
    assert cost.requests.p50 == 2 and cost.conflicts.mean == 0
    assert measure("sequenced_metadata_boundary", "1 writer", latencies, 3).requests.p50 == 4
    assert {*SCENARIO.cost} == {"1 writer", "2 writers", "4 writers", "8 writers"}


@pytest.mark.parametrize("known", ["accepted", "created"])
def test_it_is_proved_for_any_number_of_writers(known):
    """"created": what to build on needs no check, only what to acknowledge does."""
    result = proofs.prove(known=known)
    assert result.failing == result.impossible == () and all(result.possible.values())
    assert {("Property", "AcceptedIsOwn"), ("Writer.Accept", "BaseHasLatest")} <= {(r.action, r.clause) for r in result.rows}


@pytest.mark.parametrize("known", ["accepted", "created"])
def test_and_the_clause_of_its_own_cannot_be_spared(monkeypatch, known):
    monkeypatch.delitem(proofs.CLAUSES, "AcceptedIsOwn")
    assert ("Writer.Accept", "BaseHasLatest") in proofs.prove(known=known, explain=False).failing


def test_nor_is_it_known_where_an_update_is_tried_again():
    again = m.Constants(KNOWN="accepted", ON_REFUSAL="recognised")
    assert m.known(again) == "never" and m.known(again._replace(ON_REFUSAL="failed")) == "accepted"
