"""The baseline on every store: the essay's sentences as cases, the limits of its model, and the key-value store on top."""

import asyncio

import pytest

from highwater.impl.errors import Definite, OutcomeUnknown, Unavailable
from highwater.impl.protocols.baseline import Baseline, BaselineKv, InvalidRecord
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from tests.support.stores.faulty import LATE, LOST, NEVER, REFUSED, Faulty

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run


def opened(store, attempts: int = 1) -> Baseline:
    return Baseline(system_world(store), "db", attempts)


class Given:
    """The source of one id."""

    def __init__(self, one: str):
        self.one = one

    def new_id(self) -> str:
        return self.one


async def kv(store, of: str = "") -> BaselineKv:
    """Open a store of keys and values, with the id `of`, or a ULID."""
    world = system_world(store)
    return await BaselineKv.open(world._replace(ids=Given(of)) if of else world, "db")


def test_whoever_recovers_reads_all_that_was_acknowledged(stores):
    """«if at any point the database crashes, we'll have only acknowledged writes stored»: all of them, at least."""

    async def case():
        await asyncio.gather(*(opened(stores.open()).write(f"{w}.{k}", b"%d %d" % (w, k)) for w in range(3) for k in range(3)))
        found = await opened(stores.open(page_size=4)).recover()
        assert found == {f"{w}.{k}": b"%d %d" % (w, k) for w in range(3) for k in range(3)}
        assert await opened(stores.open()).read("1.2") == b"1 2"

    run(case())


def test_a_write_is_one_put_and_a_recovery_one_list_and_a_get_of_each():
    async def case():
        store = Faulty(MemoryStore())
        await opened(store).write("0.0", b"a")
        await opened(store).write("0.1", b"b")
        assert store.sent() == "put put"
        await opened(store).recover()
        assert store.sent() == "list_page get get"

    run(case())


@pytest.mark.parametrize("fate", [LOST, LATE, NEVER])
def test_a_write_without_a_reply_is_of_unknown_outcome_and_may_be_stored_later(fate):
    """Why the source's «only acknowledged writes» is too much to ask."""

    async def case():
        store = Faulty(MemoryStore())
        store.next("put", fate)
        with pytest.raises(OutcomeUnknown):
            await opened(store).write("0.0", b"a")
        assert list(await opened(store).recover()) == (["0.0"] if fate == LOST else [])
        await store.arrive()
        assert list(await opened(store).recover()) == ([] if fate == NEVER else ["0.0"])

    run(case())


@pytest.mark.parametrize("fate", [LOST, LATE, NEVER])
def test_as_its_name_is_its_own_it_may_be_sent_again_blindly(fate):
    async def case():
        store = Faulty(MemoryStore())
        store.next("put", fate, fate)
        await opened(store, attempts=3).write("0.0", b"a")
        await opened(store).write("0.1", b"b")
        await store.arrive()
        assert await opened(store).recover() == {"0.0": b"a", "0.1": b"b"}
        assert store.sent() == "put put put put list_page get get"

    run(case())


def test_a_refused_write_is_not_stored_but_not_after_one_without_a_reply():
    async def case():
        store = Faulty(MemoryStore())
        store.next("put", REFUSED)
        with pytest.raises(Unavailable) as refused:
            await opened(store, attempts=3).write("0.0", b"a")
        assert isinstance(refused.value, Definite)
        store.next("put", LATE, REFUSED)
        with pytest.raises(OutcomeUnknown):
            await opened(store, attempts=2).write("0.1", b"b")

    run(case())


def test_a_store_that_caches_is_refused():
    with pytest.raises(ValueError, match="CachingStore"):
        opened(CachingStore(MemoryStore()))


# --- keys and values


def test_read_your_writes_and_those_of_who_was_there_before(stores):
    async def case():
        first = await kv(stores.open())
        assert await first.get("k") is None
        await first.put("k", b"1")
        await first.put("k", b"2")
        await first.put("", b"\x00")
        await first.flush()
        assert (await first.get("k"), await first.get("")) == (b"2", b"\x00")
        second = await kv(stores.open())
        assert (await second.get("k"), await second.get(""), await second.get("kk")) == (b"2", b"\x00", None)
        await second.put("k", b"3")
        assert await (await kv(stores.open())).get("k") == b"3"

    run(case())


def test_a_put_is_one_put_a_get_one_get_and_a_flush_nothing():
    async def case():
        store = Faulty(MemoryStore())
        opened = await kv(store)
        await opened.put("another", b"1")
        assert store.sent() == "list_page list_page put put"  # the instance announces itself before its first put
        await opened.put("k", b"1")
        await opened.get("k")
        await opened.get("a third")
        await opened.flush()
        assert store.sent() == "put get"

    run(case())


def test_what_a_predecessor_has_under_way_does_not_hide_what_its_successor_was_told_is_stored(stores):
    async def case():
        store = Faulty(stores.open())
        first = await kv(store, "b")
        await first._announce()
        store.next("put", NEVER, LATE)
        for value in (b"never", b"late"):
            with pytest.raises(OutcomeUnknown):
                await first.put("k", value)
        second = await kv(stores.open(), "a")
        await second.put("k", b"mine")
        await store.arrive()
        assert await second.get("k") == await (await kv(stores.open())).get("k") == b"mine"

    run(case())


@pytest.mark.parametrize("fate", [LOST, LATE, NEVER, REFUSED])
def test_an_instance_that_cannot_announce_itself_puts_nothing_and_may_be_asked_again(fate):
    async def case():
        store = Faulty(MemoryStore())
        opened = await kv(store)
        store.next("put", fate)
        with pytest.raises(Unavailable):
            await opened.put("k", b"1")
        assert await opened.get("k") is None
        await opened.put("k", b"1")
        assert await opened.get("k") == await (await kv(store)).get("k") == b"1"

    run(case())


def test_an_announcement_that_is_none_is_an_error_that_names_it():
    async def case():
        store = MemoryStore()
        await store.put("db/baseline-instances/x.y", b"")
        with pytest.raises(InvalidRecord, match=r"x\.y"):
            await kv(store)

    run(case())


def test_a_put_of_unknown_outcome_is_read_as_soon_as_it_is_there():
    async def case():
        store = Faulty(MemoryStore())
        opened = await kv(store)
        await opened.put("k", b"1")
        store.next("put", LATE)
        with pytest.raises(OutcomeUnknown):
            await opened.put("k", b"2")
        assert await opened.get("k") == b"1"
        await store.arrive()
        assert await opened.get("k") == b"2"
        store.sent()
        assert await opened.get("k") == b"2" and store.sent() == "get"

    run(case())


def test_a_refused_put_is_not_looked_for():
    async def case():
        store = Faulty(MemoryStore())
        opened = await kv(store)
        await opened.put("another", b"1")
        store.next("put", REFUSED)
        with pytest.raises(Unavailable):
            await opened.put("k", b"1")
        store.sent()
        assert await opened.get("k") is None and store.sent() == ""

    run(case())


@pytest.mark.parametrize("name, body", [("0.1", b"\x00\x00\x00\x00"), ("x.y.0", b"\x00\x00\x00\x00"), ("1.y.0", b"\x00"),
                                        ("1.y.0", b"\x00\x00\x00\x02k"), ("1.y.0", b"\x00\x00\x00\x01\xff")])
def test_what_it_has_not_written_is_an_error_that_names_it(name, body):
    async def case():
        store = MemoryStore()
        await opened(store).write(name, body)
        with pytest.raises(InvalidRecord, match=name):
            await kv(store)

    run(case())
