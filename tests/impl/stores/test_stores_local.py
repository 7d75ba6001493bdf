"""The store in local files: its names, its crashes, its processes."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import pytest

from highwater.impl.errors import OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.stores import local
from highwater.impl.stores.keys import OWN_FOLDER
from highwater.impl.world import Page, list_all
from tests.support.stores import crash

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run


def keys_of(page: Page) -> list[str]:
    return [entry.key for entry in page.entries]


async def fill(store, keys) -> None:
    for key in keys:
        await store.create(key, f"body of {key}".encode())


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
            wait_for_work(notes.values(), random.randrange(16, 40))
            time.sleep(random.uniform(0, 0.1))
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


def wait_for_work(notes: Collection[str], count: int, limit_s: float = 120) -> None:
    """Wait until all workers have begun, and together have noted `count` creations and `count` updates of counters."""
    end_s = time.monotonic() + limit_s
    while True:
        told = [Path(path).read_text() if os.path.exists(path) else "" for path in notes]
        if all(told) and min("".join(told).count(verb) for verb in ("created ", "counted ")) >= count:
            return
        assert time.monotonic() < end_s, f"the workers did not get so far within {limit_s} s"
        time.sleep(0.01)


def test_local_reads_without_threads_can_be_cancelled(tmp_path):
    (tmp_path / "k").write_bytes(b"1")
    store = local.LocalStore(tmp_path, read_only=True, threads=False)

    async def many() -> None:
        for _ in range(100_000):
            await store.get("k")

    with pytest.raises(TimeoutError):
        run(asyncio.wait_for(many(), 0.01))


def test_local_listing_stays_inside_the_store(local_stores, tmp_path):
    """Whoever moves or deletes what a listing shows would otherwise do so to files of others."""
    other = tmp_path / "other"
    store = local_stores.open()
    run(store.create("a/b", b"x"))
    (other / "below").mkdir(parents=True)
    (other / "below" / "file").write_bytes(b"not of the store")
    os.symlink(other, os.path.join(local_stores.root, "a", "link"))
    os.symlink(other / "below" / "file", os.path.join(local_stores.root, "a", "one"))
    for prefix in ("", "a/link/", "a/link/below/"):
        assert keys_of(run(store.list_page(prefix))) == ([] if prefix else ["a/b"])
    reading = local.LocalStore(local_stores.root, read_only=True)  # a database may lie on several disks
    assert keys_of(run(reading.list_page(""))) == ["a/b", "a/link/below/file", "a/one"]
