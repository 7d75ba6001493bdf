"""The simple conditional protocol on every store: the essay's sentences, and the limits of the model."""

import asyncio

import pytest

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, Unavailable, UpdateConflict
from highwater.impl.protocols.simple_conditional import SimpleConditional
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from tests.support.stores.faulty import LATE, LOST, NEVER, REFUSED, Faulty

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run


async def opened(store, resolve: str = "unknown", recurs: bool = False) -> SimpleConditional:
    client = SimpleConditional(system_world(store), "db/all", resolve=resolve, recurs=recurs)
    await client.initialise(Manifest())
    if isinstance(store, Faulty):
        store.sent()
    return client


async def add(client: SimpleConditional, update: str, attempts: int | None = None) -> tuple[str, ...]:
    return (await client.update(update, lambda m: m.with_update(update), attempts)).value.updates


@pytest.mark.parametrize("resolve", ["unknown", "check"])
def test_of_racing_updates_none_is_lost_and_none_is_there_twice(stores, resolve):
    """«the conflicting data is re-read, conflicts are resolved, and then the write is retried»"""

    async def case():
        async def work(w: int) -> list[int]:
            client = await opened(stores.open(), resolve)
            return [len(await add(client, f"{w}.{k}")) for k in range(3)]

        places = await asyncio.gather(*map(work, range(4)))
        final = (await (await opened(stores.open())).current()).value.updates
        assert sorted(final) == sorted(f"{w}.{k}" for w in range(4) for k in range(3))
        assert sorted(place for of in places for place in of) == list(range(1, 13))
        assert all(final[place - 1] == f"{w}.{k}" for w, of in enumerate(places) for k, place in enumerate(of))

    run(case())


def test_after_a_put_no_get_is_needed_and_a_conflict_costs_three_requests():
    """«doesn't need an additional GET to write again»; «the initial attempt, the GET, and the final PUT»"""

    async def case():
        store = Faulty(MemoryStore())
        one, other = await opened(store), await opened(store)
        await add(one, "0.0")
        await add(one, "0.1")
        assert store.sent() == "get update update"
        await add(other, "1.0")
        assert store.sent() == "get update"
        assert await add(one, "0.2") == ("0.0", "0.1", "1.0", "0.2")
        assert store.sent() == "update get update"

    run(case())


def test_it_gives_up_after_so_many_attempts_and_nothing_is_applied():
    async def case():
        store = Faulty(MemoryStore())
        one, busy = await opened(store), await opened(store)
        await add(one, "0.0")
        await add(busy, "1.0")
        with pytest.raises(UpdateConflict) as given_up:
            await add(one, "0.1", attempts=1)
        assert isinstance(given_up.value, Definite)
        assert (await busy.current()).value.updates == ("0.0", "1.0")
        assert await add(one, "0.2", attempts=1) == ("0.0", "1.0", "0.2")

    run(case())


@pytest.mark.parametrize("fate", [LOST, LATE, NEVER])
def test_unknown_the_caller_is_told_and_nothing_repeats_it(fate):
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store)
        store.next("update", fate)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.0")
        assert store.sent() == "get update"
        await store.arrive()
        assert (await client.current()).value.updates == (() if fate == NEVER else ("0.0",))
        assert (await add(client, "0.1"))[-1] == "0.1"
        assert store.sent() == "get get update"

    run(case())


@pytest.mark.parametrize("fate", [LOST, LATE, NEVER])
def test_check_the_update_is_looked_for_in_what_is_read_next(fate):
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store, "check")
        store.next("update", fate)
        assert await add(client, "0.0") == ("0.0",)
        assert store.sent() == ("get update get" if fate == LOST else "get update get update")
        await store.arrive()
        assert (await client.current()).value.updates == ("0.0",)

    run(case())


def test_check_what_arrives_between_the_check_and_the_second_put_is_found_after_its_conflict():
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store, "check")
        store.next("update", LATE)
        real_get, gets = store.store.get, []

        async def get(key: str):
            found = await real_get(key)
            gets.append(key)
            if len(gets) == 2:
                await store.arrive()  # after the check has not found it
            return found

        store.store.get = get
        assert await add(client, "0.0") == ("0.0",)
        assert store.sent() == "get update get update get"

    run(case())


def test_check_what_cannot_be_resolved_is_of_unknown_outcome():
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store, "check")
        store.next("update", NEVER, NEVER)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.0", attempts=2)
        store.next("update", LATE)
        store.next("get", "", REFUSED)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.1")
        store.next("update", LATE, REFUSED)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.2")
        with pytest.raises(ValueError, match="is not among the updates"):
            await client.update("0.3", lambda m: m)

    run(case())


def test_a_change_that_refuses_what_it_reads_while_in_doubt_is_not_the_last_word():
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store, "check")

        def once(m: Manifest) -> Manifest:
            if m.updates:
                raise LookupError("taken")
            return m.with_update("0.0")

        store.next("update", LATE)
        real_get, gets = store.store.get, []
        others = b'{"checkpoints":[],"updates":["1.0"]}'

        async def get(key: str):
            gets.append(key)
            if len(gets) == 2:
                await store.store.update(key, others, (await real_get(key)).version)
            return await real_get(key)

        store.store.get = get
        with pytest.raises(OutcomeUnknown):
            await client.update("0.0", once)
        with pytest.raises(LookupError):
            await client.update("0.1", once)

    run(case())


def test_a_refused_request_has_had_no_effect_and_what_is_known_stays_known():
    async def case():
        store = Faulty(MemoryStore())
        client = await opened(store)
        store.next("get", REFUSED)
        store.next("update", REFUSED)
        for requests in ("get", "get update"):
            with pytest.raises(Unavailable):
                await add(client, "0.0")
            assert store.sent() == requests
        assert await add(client, "0.0") == ("0.0",)
        assert store.sent() == "update"

    run(case())


def test_equal_contents_may_have_equal_versions_and_the_history_is_serial_all_the_same(moto_stores):
    """On S3 a version is a digest: a condition holds although others have written in between, if the content is what it was."""

    async def case():
        one, other = await opened(moto_stores.open()), await opened(moto_stores.open(), recurs=True)
        await add(one, "0.0")
        known = one.known
        await add(other, "1.0")
        await other.update("back", lambda _: Manifest(("0.0",)))
        assert (await other.current()).version == known.version
        assert await add(one, "0.1", attempts=1) == ("0.0", "0.1")

    run(case())


def test_nothing_is_there_before_it_is_initialised(stores):
    async def case():
        with pytest.raises(NotFound):
            await add(SimpleConditional(system_world(stores.open()), "db/all"), "0.0")

    run(case())


def test_what_it_is_made_of_is_checked():
    with pytest.raises(ValueError, match="CachingStore"):
        SimpleConditional(system_world(CachingStore(MemoryStore())), "k")
    with pytest.raises(ValueError, match="reapply"):
        SimpleConditional(system_world(MemoryStore()), "k", resolve="reapply")
