"""One contract for every store, then what is particular to each: races, crashes, lost answers.

In reading order: the seam's sentences as cases; clients at once; local files; S3; the store that is refused; the world.
"""

import asyncio
import functools
import logging
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import boto3
import pytest

from highwater.impl.errors import AlreadyExists, Definite, Indefinite, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.stores import local, s3
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.keys import OWN_FOLDER
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Counters, Ulids, open_store, system_world
from highwater.impl.world import Entry, Page, World, list_all
from tests.support.stores import crash
from tests.support.stores.crews import ProcessCrew, ThreadCrew, add_each, create_each, update_or_delete_each
from tests.support.stores.lossy_proxy import CUT, DROP, STALL, Fate, lossy_proxy
from tests.support.stores.moto_server import put_unsigned

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
            for read in (store.get(absent), store.head(absent), store.get_if_changed(absent, "1")):
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
        for request in [*requests, store.get(key), store.get_if_changed(key, "1"), store.head(key)]:
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
    """What `look(store)` gave again and again in one thread, while another did `act(store, number)`, 1 to `times`.

    Goes on past `times`, on a busy machine, until enough was seen.
    """
    seen: list = []
    done = threading.Event()

    async def watcher():
        store = stores.open()
        while not done.is_set():
            seen.append(await look(store))

    async def actor():
        store, number = stores.open(), 0
        while number < times or (len(seen) < 20 and not watching.done()):
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
    """What a client reads while another writes is what was put under that version, and never goes back."""
    numbers = {run(stores.open().put("k", b"0")): 0}
    bodies = {0: b"0"}

    async def look(store):
        return await store.get("k"), await store.head("k")

    async def act(store, number):
        bodies[number] = b"%d" % number + b" " * (20_000 if number % 2 else 0)
        numbers[await store.put("k", bodies[number])] = number

    order = []
    for found, entry in watch(stores, look, act, 40 if stores.s3 else 300):
        assert found.body == bodies[numbers[found.version]]
        assert entry.size_bytes == len(bodies[numbers[entry.version]])
        order += [numbers[found.version], numbers[entry.version]]
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


# --- Local files ---


def files_below(root: str) -> list[str]:
    """Every file of a store's folder but those in the folder of its own, as keys."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
    return sorted(key for key in (os.path.relpath(path, root) for path in paths) if not key.startswith(OWN_FOLDER))


def test_local_versions_never_repeat_even_if_the_clock_does(local_stores, monkeypatch):
    """The file system gives a deleted file's inode to the next one, and the sizes are the same: only time is left."""
    moment_ns = time.time_ns()
    monkeypatch.setattr(local.time, "time_ns", lambda: moment_ns)

    async def case():
        versions, inodes = [], set()
        for turn in range(20):
            store = local_stores.open()
            if turn == 10:
                monkeypatch.setattr(local.time, "time_ns", lambda: moment_ns - 10**12)
            versions.append(await store.create("k", b"same"))
            inodes.add(versions[-1].split("-")[0])
            versions.append(await store.put("k", b"same"))
            versions.append(await store.update("k", b"same", versions[-1]))
            with pytest.raises(PreconditionFailed):
                await store.update("k", b"other", versions[-2])
            await store.delete("k")
        assert len(set(versions)) == len(versions) == 60

    run(case())


def test_local_refuses_a_file_system_without_nanoseconds(local_stores, monkeypatch):
    real = os.utime
    monkeypatch.setattr(local.os, "utime", lambda fd, ns: real(fd, ns=(ns[0] // 10**9 * 10**9,) * 2))
    with pytest.raises(Unavailable, match="nanosecond"):
        run(local_stores.open().create("k", b""))
    assert files_below(local_stores.root) == []


def test_local_a_key_cannot_be_a_folder_too(local_stores):
    async def case():
        store = local_stores.open()
        await fill(store, ["a", "b/c"])
        for key in ("a/b", "a/b/c", "b"):
            for write in (store.create(key, b""), store.put(key, b"")):
                with pytest.raises(ValueError, match=f"bad key '{key}'.*folder"):
                    await write
            await store.delete(key)
        assert keys_of(await store.list_page("")) == ["a", "b/c"]

    run(case())


def key_of_the_same_lock(key: str) -> str:
    locks = {}
    for other in map(str, range(100_000)):
        locks.setdefault(local.zlib.crc32(other.encode()) % local.LOCKS, other)
    return locks[local.zlib.crc32(key.encode()) % local.LOCKS]


def test_local_what_a_dead_process_left_is_removed_and_not_written_through(local_stores):
    """A process killed just after `link` leaves the temporary file as a second name of the object itself."""

    async def case():
        store = local_stores.open()
        await store.create("k", b"precious")
        with store._locked("k") as held:
            os.link(os.path.join(local_stores.root, "k"), held.temp)
        assert keys_of(await store.list_page("")) == ["k"]
        await store.put(key_of_the_same_lock("k"), b"another")
        assert (await store.get("k")).body == b"precious"
        with store._locked("k") as held:
            assert not os.path.exists(held.temp)

    run(case())


def test_local_a_failure_before_the_commit_is_definite_and_after_it_is_not(local_stores, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    async def case():
        store = local_stores.open()
        await store.create("k", b"1")
        version = (await store.get("k")).version
        with monkeypatch.context() as patch:
            patch.setattr(local.os, "fsync", fail)
            for write in (store.create("new", b""), store.put("k", b"2"), store.update("k", b"2", version)):
                with pytest.raises(Unavailable, match="No space"):
                    await write
        assert [(entry.key, entry.version) for entry in (await store.list_page("")).entries] == [("k", version)]
        with monkeypatch.context() as patch:
            patch.setattr(local, "fsync_folder", fail)
            for write in (store.create("new", b""), store.put("k", b"2"), store.delete("k")):
                with pytest.raises(OutcomeUnknown, match="No space"):
                    await write

    run(case())


def test_local_listing_opens_only_the_folders_that_it_needs(local_stores, monkeypatch):
    opened, real = [], os.scandir

    def scandir(path):
        opened.append(os.path.relpath(path, local_stores.root))
        return real(path)

    monkeypatch.setattr(local.os, "scandir", scandir)

    async def case():
        store = local_stores.open(page_size=2)
        await fill(store, [f"{folder}/{number}" for folder in ("a", "b/x", "b/y", "c") for number in range(3)])
        await store.list_page("b/x/")
        assert opened == ["b/x"]
        opened.clear()
        await store.list_page("b", after="b/x/1")
        assert opened == [".", "b", "b/x", "b/y"]
        opened.clear()
        await store.list_page("", after="b/y")
        assert opened == [".", "b", "b/y"]

    run(case())


def test_local_dies_at_each_line(local_stores):
    """Each mutation has one line before which nothing has happened and after which all has."""
    ours, theirs = multiprocessing.Pipe()
    explorer = multiprocessing.get_context("spawn").Process(
        target=crash.killed_at_each_line, args=(local_stores.root, theirs), daemon=True
    )
    explorer.start()
    try:
        assert ours.poll(60), "a dead process's lock is still held"
        found = ours.recv()
    finally:
        explorer.kill()
        explorer.join()
    assert isinstance(found, dict), found
    before = {"create": None, "put over nothing": None, "put": b"old", "update": b"old", "delete": b"old"}
    for name, states in found.items():
        after = None if name == "delete" else b"new"
        assert len(states) > 10 and set(states) == {before[name], after}
        assert states == sorted(states, key=lambda state, after=after: state == after), "a thing done was undone"


def test_local_is_whole_after_kill(local_stores, tmp_path):
    """Processes are killed at work: what they were told was done is there, whole, and nothing else is there."""
    store = local_stores.open()
    for counter in crash.COUNTERS:
        run(store.create(counter, crash.sealed(b"0 ")))
    for turn in range(2):
        names = [f"{turn}-{number}" for number in range(4)]
        notes = {name: str(tmp_path / f"notes-{name}") for name in names}
        workers = [crash.start_worker(local_stores.root, name, notes[name]) for name in names]
        try:
            wait_for_files(notes.values())
            time.sleep(random.uniform(0.1, 0.4))
        finally:
            for worker in workers:
                os.kill(worker.pid, signal.SIGKILL)
            for worker in workers:
                worker.join()
    noted = [note for path in tmp_path.glob("notes-*") for note in path.read_text().splitlines()]
    told = {verb: Counter() for verb in ("created", "deleting", "deleted", "counted")}
    for note in noted:
        verb, key = note.split()
        told[verb][key] += 1
    assert len(told["created"]) > 30 and sum(told["counted"].values()) > 30

    listed = [entry.key for entry in run(list_all(store, ""))]
    assert listed == files_below(local_stores.root)
    there = {key for key in listed if key.startswith("files/")}
    assert sorted(there) + list(crash.COUNTERS) == sorted(listed, key=lambda key: (key in crash.COUNTERS, key))
    assert told["created"].keys() - told["deleting"].keys() <= there
    assert not told["deleted"].keys() & there
    assert len(there - told["created"].keys()) <= 8, "at most one file a worker that it had not been told of yet"
    for key in there:
        assert crash.unsealed(run(store.get(key)).body).split(b" ")[0] == key.encode()

    counted = {counter: int(crash.unsealed(run(store.get(counter)).body).split()[0]) for counter in crash.COUNTERS}
    assert all(counted[counter] >= told["counted"][counter] for counter in counted), "an acknowledged update is lost"
    assert sum(counted.values()) <= sum(told["counted"].values()) + 8
    for key in listed:
        run(store.put(key, b"the dead hold no lock"))


def wait_for_files(paths, limit_s: float = 30) -> None:
    end_s = time.monotonic() + limit_s
    while not all(os.path.exists(path) for path in paths):
        assert time.monotonic() < end_s, f"the workers did not begin within {limit_s} s"
        time.sleep(0.01)


# --- S3: lost answers ---


class Lossy:
    """A store behind the proxy, and `direct`, one that is not."""

    def __init__(self, proxy, stores):
        self.proxy = proxy
        self.direct = stores.open()
        self.behind = stores._replace(url=proxy.url)
        self.store = self.behind.open()

    def expect(self, answer: str | int) -> None:
        """Be impatient where the answer never comes; elsewhere a busy machine must not look like a lost answer."""
        if answer == STALL:
            self.store = self.behind.open(read_timeout_s=0.5)

    def written(self) -> int:
        return self.proxy.seen.count("PUT")

    def requests(self) -> dict:
        """The three kinds of PUT, each ready to succeed."""
        first = run(self.direct.create("updated", b"old"))
        run(self.direct.put("overwritten", b"old"))
        return {
            "created": lambda: self.store.create("created", b"mine"),
            "updated": lambda: self.store.update("updated", b"mine", first),
            "overwritten": lambda: self.store.put("overwritten", b"mine"),
        }

    def body(self, key: str) -> bytes | None:
        try:
            return run(self.direct.get(key)).body
        except NotFound:
            return None


@pytest.fixture(scope="module")
def proxies():
    """One for each server, by its URL."""
    with ExitStack() as stack:
        yield functools.lru_cache(lambda url: stack.enter_context(lossy_proxy(url)))


@pytest.fixture
def lossy(proxies, s3_stores, monkeypatch):
    monkeypatch.setattr(s3, "PAUSE_S", 0.01)
    proxy = proxies(s3_stores.url)
    proxy.forget()
    yield Lossy(proxy, s3_stores)
    proxy.release.set()


@pytest.mark.parametrize("answer", [DROP, STALL, 408, 500, 502, 503, 504])
def test_s3_a_put_whose_answer_was_lost_is_found_by_its_id(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        sent_before = lossy.written()
        lossy.proxy.next("PUT", Fate(answer=answer, code="SlowDown" if answer == 503 else "InternalError"))
        version = run(request())
        assert lossy.body(key) == b"mine"
        assert version == run(lossy.direct.head(key)).version
        assert lossy.written() == sent_before + 1, "a PUT in doubt is not sent again"


@pytest.mark.parametrize("answer", [DROP, STALL, 500, 503])
def test_s3_a_put_superseded_before_it_could_be_found_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=answer, meanwhile=lambda key=key: run(lossy.direct.put(key, b"later"))))
        with pytest.raises(OutcomeUnknown):
            run(request())
        assert lossy.body(key) == b"later"


@pytest.mark.parametrize("answer", [DROP, 500])
def test_s3_a_put_collected_before_it_could_be_found_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=answer, meanwhile=lambda key=key: run(lossy.direct.delete(key))))
        with pytest.raises(OutcomeUnknown):
            run(request())


@pytest.mark.parametrize("answer", [DROP, STALL, 500, 503])
def test_s3_a_put_that_never_arrived_is_unknown(lossy, answer):
    lossy.expect(answer)
    for key, request in lossy.requests().items():
        before = lossy.body(key)
        lossy.proxy.next("PUT", Fate(apply=False, answer=answer, code="SlowDown" if answer == 503 else "InternalError"))
        with pytest.raises(OutcomeUnknown) as raised:
            run(request())
        assert not isinstance(raised.value, Definite)
        assert lossy.body(key) == before


def test_s3_a_put_still_under_way_when_it_is_looked_for_is_unknown(lossy):
    """Why a HEAD that finds nothing proves nothing."""
    lossy.proxy.next("PUT", Fate(apply=False, answer=DROP, late=True))
    with pytest.raises(OutcomeUnknown):
        run(lossy.store.create("k", b"mine"))
    assert lossy.body("k") is None
    lossy.proxy.release.set()
    assert lossy.proxy.arrived.wait(10)
    assert lossy.body("k") == b"mine"


def test_s3_a_put_in_doubt_is_unknown_when_the_head_fails_too(lossy):
    lossy.proxy.next("PUT", Fate(answer=DROP))
    lossy.proxy.next("HEAD", *[Fate(answer=500)] * s3.ATTEMPTS)
    with pytest.raises(OutcomeUnknown):
        run(lossy.store.create("k", b"mine"))
    lossy.proxy.next("PUT", Fate(answer=DROP))
    lossy.proxy.next("HEAD", Fate(answer=500), Fate(answer=DROP))
    assert run(lossy.store.create("k2", b"mine")) == run(lossy.direct.head("k2")).version


def test_s3_a_plain_412_is_a_conflict_for_one_request(lossy):
    version = run(lossy.direct.create("k", b"theirs"))
    with pytest.raises(AlreadyExists):
        run(lossy.store.create("k", b"mine"))
    run(lossy.direct.put("k", b"theirs 2"))
    with pytest.raises(PreconditionFailed):
        run(lossy.store.update("k", b"mine", version))
    run(lossy.direct.delete("k"))
    with pytest.raises(PreconditionFailed):
        run(lossy.store.update("k", b"mine", version))
    assert lossy.proxy.seen == ["PUT"] * 3


@pytest.mark.parametrize(
    "status, code", [(409, "ConditionalRequestConflict"), (409, "OperationAborted"), (429, "TooManyRequests")]
)
def test_s3_a_put_refused_without_effect_is_sent_again(lossy, status, code):
    refusal = Fate(apply=False, answer=status, code=code)
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", refusal, refusal)
        assert run(request()) == run(lossy.direct.head(key)).version


@pytest.mark.parametrize("status", [409, 429])
def test_s3_a_put_that_is_always_refused_has_had_no_effect(lossy, status):
    for key, request in lossy.requests().items():
        before, sent_before = lossy.body(key), lossy.written()
        lossy.proxy.next("PUT", *[Fate(apply=False, answer=status, code="TryAgain")] * s3.ATTEMPTS)
        with pytest.raises(Unavailable, match="TryAgain"):
            run(request())
        assert (lossy.body(key), lossy.written() - sent_before) == (before, s3.ATTEMPTS)


def test_s3_a_conflict_after_a_refusal_is_a_conflict(lossy):
    """As on S3 the loser of a race may first hear 409, then 412."""
    refusal = Fate(apply=False, answer=409, code="ConditionalRequestConflict")
    lossy.proxy.next("PUT", refusal._replace(meanwhile=lambda: run(lossy.direct.create("k", b"theirs"))))
    with pytest.raises(AlreadyExists):
        run(lossy.store.create("k", b"mine"))


def test_s3_a_412_that_is_its_own_echo_is_a_success(lossy):
    """A server, or something before it, that says 409 or 429 of what it has applied after all."""
    for key, request in lossy.requests().items():
        lossy.proxy.next("PUT", Fate(answer=429, code="TooManyRequests"))
        assert run(request()) == run(lossy.direct.head(key)).version
        assert lossy.body(key) == b"mine"


def test_s3_a_delete_in_doubt_is_unknown_and_not_sent_again(lossy):
    for fate in (Fate(answer=DROP), Fate(answer=500), Fate(apply=False, answer=DROP), Fate(apply=False, answer=503)):
        run(lossy.direct.put("k", b""))
        sent_before = len(lossy.proxy.seen)
        lossy.proxy.next("DELETE", fate)
        with pytest.raises(OutcomeUnknown):
            run(lossy.store.delete("k"))
        assert lossy.proxy.seen[sent_before:] == ["DELETE"]
        assert lossy.body("k") == (None if fate.apply else b"")
    refusal = Fate(apply=False, answer=409, code="OperationAborted")
    lossy.proxy.next("DELETE", refusal)
    run(lossy.store.delete("k"))
    assert lossy.body("k") is None
    lossy.proxy.next("DELETE", *[refusal] * s3.ATTEMPTS)
    with pytest.raises(Unavailable):
        run(lossy.store.delete("k"))


def reads_of(store, version: str) -> list:
    """Each way of reading, and the method that it sends."""
    return [
        ("GET", lambda: store.get("k")),
        ("GET", lambda: store.get_if_changed("k", version)),
        ("HEAD", lambda: store.head("k")),
        ("GET", lambda: store.list_page("")),
    ]


@pytest.mark.parametrize("answer", [DROP, STALL, CUT, 429, 500, 503])
def test_s3_a_read_is_sent_again_a_few_times(lossy, answer):
    lossy.expect(answer)
    run(lossy.direct.create("k", b"body" * 10_000))
    for method, read in reads_of(lossy.store, '"another"'):
        expected = run(read())
        lossy.proxy.next(method, Fate(answer=answer))
        assert run(read()) == expected
        if answer in (DROP, 503):
            lossy.proxy.next(method, *[Fate(answer=answer)] * s3.ATTEMPTS)
            with pytest.raises(Unavailable):
                run(read())


def test_s3_no_server_is_definite(s3_stores, monkeypatch):
    monkeypatch.setattr(s3, "PAUSE_S", 0.001)
    store = s3_stores._replace(url="http://127.0.0.1:1").open()
    requests = [lambda: store.create("k", b""), lambda: store.put("k", b""), lambda: store.delete("k")]
    for request in [*requests, *(read for _, read in reads_of(store, "1"))]:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:1"):
            run(request())


def test_s3_no_bucket_is_told_as_such(s3_stores):
    store = s3_stores._replace(bucket="no-such-bucket").open()
    requests = [lambda: store.create("k", b""), lambda: store.update("k", b"", '"1"'), lambda: store.delete("k")]
    for request in [*requests, *(read for _, read in reads_of(store, "1"))]:
        with pytest.raises(Unavailable, match=r"no such bucket.*make it") as raised:
            run(request())
        assert "no-such-bucket" in str(raised.value)


def test_s3_no_credentials_is_told_as_such(s3_stores, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = S3Store(connect(s3_stores.url), s3_stores.bucket, ids=Ulids())
    for request in (lambda: store.create("k", b""), lambda: store.get("k"), lambda: store.list_page("")):
        with pytest.raises(Unavailable, match="AWS_ACCESS_KEY_ID"):
            run(request())


def test_s3_a_client_that_retries_by_itself_is_refused(moto_url):
    """What it would do: the lost answer becomes a conflict with itself."""
    with pytest.raises(ValueError, match="may send a PUT again"):
        S3Store(boto3.client("s3", endpoint_url=moto_url), "bucket", ids=Ulids())


def test_s3_lists_past_an_empty_page_and_over_what_cannot_be_a_key(moto_stores):
    store = moto_stores.open(page_size=2)
    names = ["prefix/a/", "prefix/a//b", "prefix/a//c", "prefix/a//d", "prefix/a/e", "prefix/a/f", "prefixes"]
    put_unsigned(moto_stores.url, *(f"/{moto_stores.bucket}/some/{name}" for name in names))
    assert [entry.key for entry in run(list_all(store, ""))] == ["a/e", "a/f"]


def test_s3_more_keys_than_one_answer_can_hold(moto_stores):
    names = [f"manifest/{number:020}.manifest" for number in range(1003)]
    put_unsigned(moto_stores.url, *(f"/{moto_stores.bucket}/some/prefix/{name}" for name in names))

    async def case():
        store = moto_stores.open()
        page = await store.list_page("manifest/")
        assert (keys_of(page), page.truncated) == (names[:1000], True)
        assert [entry.key for entry in await list_all(store, "manifest/")] == names
        assert keys_of(await store.list_page("manifest/", names[999])) == names[1000:]

    run(case())


# --- The store that is refused ---


def test_caching_store_answers_from_memory_when_another_has_written(stores):
    async def case():
        store, cached = stores.open(), CachingStore(stores.open())
        first = await cached.create("k", b"1")
        assert (await cached.get("k")).body == b"1"
        await store.put("k", b"2")
        assert (await cached.get("k"))[:2] == (b"1", first)
        assert await cached.get_if_changed("k", first) is None
        assert (await cached.get_if_changed("k", "another")).body == b"1"
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
