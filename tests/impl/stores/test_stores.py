"""One contract for every store; test_stores_local.py and test_stores_s3.py have what is particular to each.

In reading order: the seam's sentences as cases; clients at once; the store that is refused; the world.
"""

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from highwater.impl.errors import (
    AlreadyExists,
    BeyondEnd,
    Definite,
    Indefinite,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.keys import OWN_FOLDER
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import Counters, open_store, system_world
from highwater.impl.world import Entry, Page, World, list_all
from tests.support.stores.crews import ProcessCrew, ThreadCrew, add_each, create_each, update_or_delete_each

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run

BODIES = [b"", b"12", bytes(range(256)) * 3, b"\r\n\x00\xff" * 100_000]


def keys_of(page: Page) -> list[str]:
    return [entry.key for entry in page.entries]


async def fill(store, keys) -> None:
    for key in keys:
        await store.create(key, f"body of {key}".encode())


# --- The seam, sentence by sentence ---


@pytest.mark.parametrize("body", BODIES, ids=len)
def test_what_was_put_is_what_is_got(stores, body):
    async def case():
        store = stores.open()
        versions = [await store.create("a/key", body)]
        assert (await store.get("a/key"))[:2] == (body, versions[-1])
        versions.append(await store.update("a/key", body + b"2", versions[-1]))
        assert (await store.get("a/key"))[:2] == (body + b"2", versions[-1])
        versions.append(await store.put("a/key", body + b"3"))
        assert (await store.get("a/key"))[:2] == (body + b"3", versions[-1])
        assert len(set(versions)) == 3
        assert (await stores.open().get("a/key"))[:2] == (body + b"3", versions[-1])

    run(case())


def test_create_is_for_what_is_not_there(stores):
    async def case():
        store = stores.open()
        version = await store.create("k", b"first")
        with pytest.raises(AlreadyExists, match="k"):
            await store.create("k", b"second")
        with pytest.raises(AlreadyExists):
            await store.create("k", b"first")
        assert (await store.get("k"))[:2] == (b"first", version)
        await store.delete("k")
        await store.create("k", b"third")
        assert (await store.get("k")).body == b"third"

    run(case())


def test_update_is_for_the_version_that_was_read(stores):
    async def case():
        store = stores.open()
        with pytest.raises(PreconditionFailed, match="k"):
            await store.update("k", b"x", '"0123456789abcdef0123456789abcdef"')
        first = await store.create("k", b"1")
        second = await store.update("k", b"2", first)
        with pytest.raises(PreconditionFailed):
            await store.update("k", b"3", first)
        assert (await store.get("k"))[:2] == (b"2", second)
        await store.delete("k")
        with pytest.raises(PreconditionFailed):
            await store.update("k", b"3", second)
        with pytest.raises(NotFound):
            await store.get("k")
        with pytest.raises(PreconditionFailed):
            await store.update("no/such/folder", b"3", second)
        assert await store.list_page("") == Page((), False)

    run(case())


def test_put_makes_and_overwrites(stores):
    async def case():
        store = stores.open()
        first = await store.put("k", b"1")
        second = await store.put("k", b"2")
        assert first != second
        with pytest.raises(PreconditionFailed):
            await store.update("k", b"3", first)
        assert (await store.get("k"))[:2] == (b"2", second)

    run(case())


def test_equal_bytes_written_again_are_another_version_but_on_s3(stores):
    """On S3 a version is a digest of the bytes: the one promise that S3Store cannot keep, told in its docstring."""

    async def case():
        store = stores.open()
        versions = [await store.create("k", b"A"), await store.put("k", b"B"), await store.put("k", b"A")]
        await store.delete("k")
        versions.append(await store.create("k", b"A"))
        if stores.s3:
            assert versions[0] == versions[2] == versions[3] != versions[1]
        else:
            assert len(set(versions)) == 4

    run(case())


def test_what_is_not_there_is_not_found(stores):
    async def case():
        store = stores.open()
        await store.create("there/is", b"")
        for absent in ("nothing", "there", "there/is-not", "there/is/not"):
            for read in (store.get(absent), store.head(absent), store.get_if_changed(absent, "1"),
                         store.get_range(absent, 0, 9)):
                with pytest.raises(NotFound, match=absent):
                    await read

    run(case())


def test_get_if_changed_gives_nothing_until_it_changes(stores):
    async def case():
        store = stores.open()
        first = await store.create("k", b"1")
        assert await store.get_if_changed("k", first) is None
        second = await store.update("k", b"2", first)
        assert (await store.get_if_changed("k", first))[:2] == (b"2", second)
        assert await store.get_if_changed("k", second) is None
        await store.delete("k")
        with pytest.raises(NotFound):
            await store.get_if_changed("k", second)

    run(case())


def test_a_range_is_that_part_of_the_object(stores):
    async def case():
        store, body = stores.open(), bytes(range(256)) * 3
        version = await store.create("a/k", body)
        whole = await store.get("a/k")
        for start, end in ((0, 1), (0, 768), (5, 700), (767, 768), (100, 101), (700, 769), (0, 10**9), (767, 10**12)):
            assert await store.get_range("a/k", start, end) == whole._replace(body=body[start:end]), (start, end)
        for start in (768, 769, 10**12):
            with pytest.raises(BeyondEnd, match="a/k"):
                await store.get_range("a/k", start, start + 9)
        for start, end in ((-1, 1), (1, 1), (2, 1), (0, 0)):
            with pytest.raises(ValueError, match="bad range"):
                await store.get_range("a/k", start, end)
        later = await store.update("a/k", b"12", version)
        assert (await store.get_range("a/k", 1, 9))[:2] == (b"2", later) and later != version
        await store.put("a/k", b"")
        with pytest.raises(BeyondEnd):
            await store.get_range("a/k", 0, 1)

    run(case())


def test_head_get_and_a_listing_tell_the_same(stores):
    async def case():
        store = stores.open()
        version = await store.create("a/b", b"12345")
        entry = await store.head("a/b")
        found = await store.get("a/b")
        (listed,) = (await store.list_page("a/")).entries
        assert entry[:2] == listed[:2] == ("a/b", 5)
        assert version == entry.version == listed.version == found.version
        assert entry.last_modified_ms == found.last_modified_ms == listed.last_modified_ms // 1000 * 1000 or (
            entry == listed and entry.last_modified_ms == found.last_modified_ms
        )

    run(case())


def test_delete_twice_is_no_error(stores):
    async def case():
        store = stores.open()
        await store.delete("never/was")
        await store.create("k", b"")
        await store.delete("k")
        await store.delete("k")
        with pytest.raises(NotFound):
            await store.head("k")
        assert (await store.list_page("")).entries == ()

    run(case())


def test_last_modified_is_the_stores_clock(stores):
    async def case():
        store = stores.open()
        times_ms = [time.time() * 1000]
        await store.create("k", b"1")
        times_ms.append((await store.head("k")).last_modified_ms)
        await asyncio.sleep(1.1 if stores.s3 else 0.01)
        await store.put("k", b"2")
        times_ms.append((await store.get("k")).last_modified_ms)
        times_ms.append(time.time() * 1000 + 1)
        times_ms[0] -= 1000 if stores.s3 else 1  # whole seconds, rounded down
        assert times_ms == sorted(times_ms) and times_ms[1] < times_ms[2]

    run(case())


BAD_KEYS = ["", "/a", "a//b", "a/", "..", "a/../b", "./a", f"{OWN_FOLDER}/gate", OWN_FOLDER, "a\0b", "\ud800"]
BAD_KEYS += ["a" * 256, "/".join(["segment"] * 200)]


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_a_bad_key_is_named(stores, key):
    async def case():
        store = stores.open()
        requests = [store.create(key, b""), store.update(key, b"", "1"), store.put(key, b""), store.delete(key)]
        for request in [*requests, store.get(key), store.get_if_changed(key, "1"), store.head(key),
                        store.get_range(key, 0, 1)]:
            with pytest.raises(ValueError, match="bad key") as raised:
                await request
            assert repr(key) in str(raised.value)
        assert await store.list_page("") == Page((), False)

    run(case())


def test_no_store_here_but_the_caching_one_answers_from_memory(stores):
    store = stores.open()
    assert store.caches is False
    assert CachingStore(store).caches is True


# --- Listings ---

# In the order of their UTF-8 bytes. By path segments "a/..." comes first, by UTF-16 units the last two change places.
ORDERED = ["B", "a b", "a!", "a-b", "a.b", "a/!", "a/b", "a/b-", "a/c/d", "a/c0", "a0", "ab", "b/x", "z/é", "é"]
ORDERED += ["\uff5e", "\U0001f600"]


def test_listing_is_in_byte_order(stores):
    async def case():
        store = stores.open()
        await fill(store, random.Random(1).sample(ORDERED, len(ORDERED)))
        assert keys_of(await store.list_page("")) == ORDERED == sorted(ORDERED, key=str.encode)

    run(case())


@pytest.mark.parametrize("page_size", [1, 2, 3, 1000])
def test_pages_join_up(stores, page_size):
    async def case():
        store = stores.open(page_size)
        await fill(store, ORDERED)
        for prefix in ("", "a", "a/", "a/b", "a/c", "a-", "no", "a/c/d/", "../", "/", OWN_FOLDER, "z/\u00e9"):
            expected = [key for key in ORDERED if key.startswith(prefix)]
            assert [entry.key for entry in await list_all(store, prefix)] == expected
            first = await store.list_page(prefix)
            assert keys_of(first) == expected[:page_size]
            assert first.truncated or len(expected) <= page_size, "there may be no more after it, but more is never hidden"

    run(case())


def test_listing_begins_after_a_key_whether_it_is_there_or_not(stores):
    async def case():
        store = stores.open(page_size=4)
        await fill(store, ORDERED)
        for after in (*ORDERED, "A", "a", "a/", "a/a", "a/c", "a/c/", "a/c/zz", "a/zz", "zzz", "\U0010ffff"):
            for prefix in ("", "a", "a/", "a/c/"):
                expected = [key for key in ORDERED if key.startswith(prefix) and key > after]
                page = await store.list_page(prefix, after)
                assert keys_of(page) == expected[:4], (prefix, after)
                assert page.truncated or len(expected) <= 4, (prefix, after)

    run(case())


def test_a_listing_of_pages_is_not_a_snapshot(stores):
    async def case():
        store = stores.open(page_size=2)
        await fill(store, ["k/1", "k/2", "k/4", "k/5", "k/6"])
        assert keys_of(await store.list_page("k/")) == ["k/1", "k/2"]
        for key in ("k/2", "k/4"):
            await store.delete(key)
        await fill(store, ["k/0", "k/3"])
        page = await store.list_page("k/", "k/2")
        assert (keys_of(page), page.truncated) == (["k/3", "k/5"], True)
        page = await store.list_page("k/", "k/5")
        assert (keys_of(page), page.truncated) == (["k/6"], False)

    run(case())


@pytest.mark.parametrize("seed", range(4))
def test_local_listings_are_those_of_memory(local_stores, seed):
    choose = random.Random(seed)
    keys = {"/".join(choose.choices(["a", "a-", "a0", "b", "é", "."], k=choose.randint(1, 4))) for _ in range(40)}
    keys = [key for key in keys if "." not in key.split("/")]
    keys = [key for key in keys if not any(other.startswith(key + "/") for other in keys)]
    page_size = choose.randint(1, 5)
    stores = [MemoryStore(page_size=page_size), local_stores.open(page_size)]

    async def case():
        for store in stores:
            await fill(store, keys)
        for _ in range(100):
            prefix, after = ("".join(choose.choices("a-0bé/", k=choose.randint(0, 5))) for _ in range(2))
            memory, files = [await store.list_page(prefix, after) for store in stores]
            assert (keys_of(files), files.truncated) == (keys_of(memory), memory.truncated), (prefix, after)

    run(case())


# --- Many clients at once ---


@pytest.fixture(scope="module")
def process_crew():
    crew = ProcessCrew()
    yield crew
    crew.dismiss()


@pytest.fixture(scope="module")
def thread_crew():
    crew = ThreadCrew()
    yield crew
    crew.dismiss()


@pytest.fixture
def crew(request, stores):
    """Processes for local files, threads for the others: in memory, threads that give way in the midst of a write."""
    if stores.kind == "memory":
        stores.now_ms = lambda: time.sleep(1e-6) or 0
    return request.getfixturevalue("process_crew" if stores.kind == "local" else "thread_crew")


def test_one_creator_wins(stores, crew):
    keys = [f"race/{number:04}" for number in range({"memory": 500, "local": 100, "moto": 20}.get(stores.kind, 50))]
    won = crew.run(create_each, stores, keys)
    assert sorted(key for mine in won for key in mine) == keys, "each key has one winner, and no more"

    async def case():
        store = stores.open()
        for number, mine in enumerate(won):
            for key in mine:
                assert (await store.get(key)).body == b"member %d" % number

    run(case())


def test_no_update_is_lost(stores, crew):
    run(stores.open().create("set", b""))
    added = crew.run(add_each, stores, "set", {"memory": 100, "local": 15, "moto": 2}.get(stores.kind, 5))
    lines = run(stores.open().get("set")).body.decode().split()
    assert sorted(lines) == sorted(line for mine in added for line in mine)
    assert all([line for line in lines if line in set(mine)] == mine for mine in added), "each member's in its order"


def test_what_was_deleted_is_not_updated(stores, crew):
    async def fill_with_versions():
        store = stores.open()
        return {f"k{number}": await store.create(f"k{number}", b"") for number in range(number_of_keys)}

    number_of_keys = {"memory": 500, "local": 100, "moto": 15}.get(stores.kind, 30)
    updated = crew.run(update_or_delete_each, stores, run(fill_with_versions()))
    assert max(Counter(key for mine in updated for key in mine).values(), default=1) == 1
    assert run(list_all(stores.open(), "")) == [], "an update came after the delete that it should have failed for"


def watch(stores, look, act, times: int) -> list:
    """Collect the results of `look(store)` in one thread while another calls `act(store, number)` for 1 to `times`.

    It sees what was there before the first call. Goes on past `times`, on a busy machine, until enough was seen after it.
    """
    seen: list = []
    done = threading.Event()

    async def watcher():
        store = stores.open()
        while not done.is_set():
            seen.append(await look(store))

    async def actor():
        store, number = stores.open(), 0
        while not seen and not watching.done():
            await asyncio.sleep(0.001)
        before = len(seen)
        while number < times or (len(seen) < before + 20 and not watching.done()):
            number += 1
            await act(store, number)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(run, watcher())
        try:
            run(actor())
        finally:
            done.set()
        watching.result()
    assert len(seen) >= 20
    return seen


def test_a_body_belongs_to_its_version(stores):
    """A client that reads while another writes gets the body of the version that it is given, and versions never go back."""
    numbers = {run(stores.open().put("k", b"0")): 0}
    bodies = {0: b"0"}

    async def look(store):
        return await store.get("k"), await store.head("k"), await store.get_range("k", 0, 100)

    async def act(store, number):
        bodies[number] = b"%d" % number + b" " * (20_000 if number % 2 else 0)
        numbers[await store.put("k", bodies[number])] = number

    order = []
    for found, entry, part in watch(stores, look, act, 40 if stores.s3 else 300):
        assert found.body == bodies[numbers[found.version]] and part.body == bodies[numbers[part.version]][:100]
        if stores.kind != "versitygw":  # seen once: its HEAD answers with the version of one PUT and the size of the next
            assert entry.size_bytes == len(bodies[numbers[entry.version]])
        order += [numbers[found.version], numbers[entry.version], numbers[part.version]]
    assert order == sorted(order) and len(set(order)) > 1


def test_a_page_is_one_moment(stores):
    """Each a/n is there before z/n: no page may have the second without the first, though "z/" is read after "a/"."""

    async def look(store):
        return keys_of(await store.list_page(""))

    async def act(store, number):
        await store.create(f"a/{number}", b"")
        await store.create(f"z/{number}", b"")

    for page in watch(stores, look, act, 15 if stores.s3 else 100):
        numbers = {folder: {key[2:] for key in page if key.startswith(folder)} for folder in ("a/", "z/")}
        assert numbers["z/"] <= numbers["a/"]


# --- The store that is refused ---


def test_caching_store_answers_from_memory_when_another_has_written(stores):
    async def case():
        store, cached = stores.open(), CachingStore(stores.open())
        first = await cached.create("k", b"1")
        assert (await cached.get("k")).body == b"1"
        await store.put("k", b"2")
        assert (await cached.get("k"))[:2] == (b"1", first)
        assert await cached.get_if_changed("k", first) is None
        assert (await cached.get_if_changed("k", "another")).body == (await cached.get_range("k", 0, 9)).body == b"1"
        second = await cached.put("k", b"3")
        assert (await cached.get("k"))[:2] == (b"3", second)
        third = await cached.update("k", b"4", second)
        assert [entry.version for entry in (await cached.list_page("")).entries] == [third]
        assert isinstance(await cached.head("k"), Entry)
        await cached.delete("k")
        with pytest.raises(NotFound):
            await cached.get("k")

    run(case())


# --- The world outside ---


def test_open_store_by_url(tmp_path, s3_stores, monkeypatch):
    assert isinstance(open_store("memory://"), MemoryStore)
    folder = tmp_path / "a folder"
    run(open_store(str(folder)).create("k", b"1"))
    assert run(open_store(f"file://{str(folder).replace(' ', '%20')}").get("k")).body == b"1"
    assert isinstance(open_store(f"file://{folder}"), LocalStore)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_stores.url)
    run(open_store(f"s3://{s3_stores.bucket}/some/prefix/").create("k", b"2"))
    assert run(s3_stores.open().get("k")).body == b"2"
    assert [entry.key for entry in run(list_all(open_store(f"s3://{s3_stores.bucket}"), ""))] == ["some/prefix/k"]


@pytest.mark.parametrize("url", ["", "memory://x", "file://", "file://host/path", "s3://", "s3:///k", "gs://b", "://"])
def test_open_store_says_what_it_accepts(url):
    with pytest.raises(ValueError, match="accepted are memory://, file:///") as raised:
        open_store(url)
    assert repr(url) in str(raised.value)


def test_system_world(caplog):
    async def case():
        world = system_world(MemoryStore())
        assert isinstance(world, World)
        before_ms = world.clock.now_ms()
        await world.clock.sleep_ms(20)
        assert 20 <= world.clock.now_ms() - before_ms + 1 < 5000
        ids = [world.ids.new_id() for _ in range(1000)]
        assert len(set(ids)) == 1000 and {len(each) for each in ids} == {26}

    run(case())
    metrics = Counters()
    metrics.count("gets")
    metrics.count("gets", 2)
    for value in (4.0, 2.0):
        metrics.observe("get_ms", value)
    with caplog.at_level(logging.WARNING, logger="highwater"):
        metrics.warn("100% full")
    assert caplog.messages == ["100% full"]
    parts = {"get_ms.count": 2, "get_ms.sum": 6.0, "get_ms.min": 2.0, "get_ms.max": 4.0}
    assert metrics.snapshot() == {"gets": 3, "warnings": 1, **parts}


def test_errors_are_definite_or_indefinite():
    assert issubclass(Unavailable, Definite) and not issubclass(OutcomeUnknown, Definite)
    assert issubclass(OutcomeUnknown, Indefinite)
