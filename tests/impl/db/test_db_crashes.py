"""A crash of the writer of a database loses nothing that was acknowledged, and leaves no half of a batch.

On the memory store a run is looked at after each of its changes. On local files and on a server a process is killed at a
request that a seed draws, before the request or after it.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from highwater.dst.mutants.db import UploadsLater
from highwater.impl.db import db as database
from highwater.impl.db import manifest as db_manifest
from highwater.impl.db.db import Db
from highwater.impl.db.reader import CannotRead
from highwater.impl.db.writes import Op, put
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids, system_world
from highwater.impl.world import Object, ObjectStore, World
from tests.support.database import OPTIONS, Plain, all_of, run, world_of

pytest_plugins = ["tests.support.stores.fixtures"]
REQUESTS = ("create", "update", "put", "delete", "get", "get_if_changed", "head", "list_page")


class Kept(MemoryStore):
    """A store that keeps what was in it after each change."""

    def __init__(self):
        super().__init__()
        self.states: list[tuple[dict[str, Object], int]] = []
        self.acknowledged = 0

    def _write(self, key: str, body: bytes) -> str:
        version = super()._write(key, body)
        self.states.append((dict(self._objects), self.acknowledged))
        return version


def of_state(objects: dict[str, Object]) -> MemoryStore:
    store = MemoryStore()
    for key, found in objects.items():
        asyncio.run(store.put(key, found.body))
    return store


def batches_of(number: int, seed: int = 0) -> list[list[Op]]:
    """Return batches that put one key of each group of three, so that half a batch is seen."""
    random = Random(seed)
    return [[put(b"%s%03d" % (group, random.randrange(7)), b"%d" % i) for group in (b"x", b"y", b"z")] for i in range(number)]


async def script(world: World, batches: list[list[Op]], acknowledge: Callable[[], Any]) -> None:
    """Write the batches: flushes, reopens and checkpoints are between them."""
    db = await Db.open(world, "db", OPTIONS)
    for i, batch in enumerate(batches):
        await db.write(batch)
        acknowledge()
        if i % 5 == 4:
            await db.flush()
        if i % 17 == 16:
            await db.checkpoint(durable_only=bool(i % 2))
        if i % 11 == 10:
            await db.close()
            db = await Db.open(world, "db", OPTIONS)
    await db.close()


async def found(world: World) -> dict[bytes, bytes]:
    """Open the database, and return what it shows."""
    db = await Db.open(world, "db", OPTIONS)
    there = await all_of(db)
    await db.close()
    return there


def shown_after(batches: list[list[Op]]) -> list[dict[bytes, bytes]]:
    """Return what is to be shown after no batch, after one, and so on."""
    shown, plain = [Plain().shown(0)], Plain()
    for batch in batches:
        plain.apply(batch, 0)
        shown.append(plain.shown(0))
    return shown


def lost_at(states: list[tuple[dict[str, Object], int]], batches: list[list[Op]]) -> list[str]:
    """Open the database at each state, and say what it does not show, or shows although nobody has written it."""
    shown = shown_after(batches)
    wrong = []
    for number, (objects, acknowledged) in enumerate(states):
        there = run(found, world_of(of_state(objects)))
        if there not in shown[acknowledged:acknowledged + 2]:  # the batch that was being written may be there
            wrong.append(f"after change {number}: {acknowledged} are acknowledged, and there is {there}")
    return wrong


def states_of(batches: list[list[Op]]) -> list[tuple[dict[str, Object], int]]:
    store = Kept()

    def acknowledge() -> None:
        store.acknowledged += 1

    run(lambda world: script(world, batches, acknowledge), world_of(store))
    return store.states


def test_a_crash_after_any_change_loses_nothing_that_was_acknowledged():
    batches = batches_of(60)
    states = states_of(batches)
    assert len(states) > 100 and lost_at(states, batches) == []


def test_two_thousand_crash_points():
    points = 0
    for seed in range(1, 22):
        batches = batches_of(60, seed)
        states = states_of(batches)
        points += len(states)
        assert lost_at(states, batches) == [], seed
    print(f"{points:,} crash points")
    assert points >= 2000


def test_the_sweep_sees_a_flush_that_comes_too_early(monkeypatch):
    """The manifest says that rows are flushed, and their SST has only half of them."""
    monkeypatch.setattr(db_manifest, "table_of", lambda rows: sorted(rows, key=lambda row: (row.key, -row.seq))[::2])
    batches = batches_of(20)
    assert lost_at(states_of(batches), batches)


# --- processes that are killed

class Dying:
    """A store that kills its process at a request, before it or after it."""

    caches = False

    def __init__(self, store: ObjectStore, number: int, after: bool):
        self.store, self.left, self.after = store, number, after

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self.store, name)
        if name not in REQUESTS:
            return asked

        async def request(*arguments: Any) -> Any:
            self.left -= 1
            if not self.left and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await asked(*arguments)
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return request


def killed(open_store: Callable[[], ObjectStore], batches: list[list[Op]], number: int, after: bool) -> int | None:
    """Run the script in a process that dies at this request. Return how many batches were acknowledged; None if it came to the
    end."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            world = system_world(Dying(open_store(), number, after))  # pyright: ignore[reportArgumentType]
            asyncio.run(script(world, batches, lambda: os.write(tell, b".")))
        finally:
            os._exit(0)
    os.close(tell)
    with open(told, "rb") as pipe:
        acknowledged = len(pipe.read())
    return acknowledged if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else None


def of_process(stores: Any) -> Callable[[], ObjectStore]:
    """Return what opens the store in a forked process: a connection must not be shared with the parent."""
    if stores.s3:
        return lambda: S3Store(connect(stores.url), stores.bucket, "some/prefix", ids=Ulids())
    return stores.open


async def clear(store: ObjectStore) -> None:
    for entry in (await store.list_page("db/")).entries:
        await store.delete(entry.key)


def sweep(stores: Any, seed: int, times: int) -> int:
    """Kill processes at drawn requests, each on an empty store, and look at what is left. Return how many were killed."""
    random, batches, died = Random(seed), batches_of(40), 0
    shown = shown_after(batches)
    for _ in range(times):
        run(lambda world: clear(world.store), world_of(stores.open()))
        number, after = random.randrange(1, 170), random.random() < 0.5
        acknowledged = killed(of_process(stores), batches, number, after)
        there = run(found, world_of(stores.open()))
        if acknowledged is None:
            assert there == shown[-1]
            continue
        died += 1
        assert there in shown[acknowledged:acknowledged + 2], (number, after, acknowledged, there)
    return died


def test_a_few_killed_processes_on_local_files(local_stores):
    assert sweep(local_stores, 1, 8) > 4


class ReturnsEarly(Db):
    """A database whose writes return before they are durable: each waits for the one before."""

    last: Sequence[Op] = ()

    async def write(self, batch: Sequence[Op]) -> int:
        self.last, due = batch, self.last
        return await super().write(due) if due else 0

    async def close(self) -> None:
        if self.last:
            await super().write(self.last)
        await super().close()


def test_killed_processes_show_that_a_write_returns_too_early(local_stores, monkeypatch):
    monkeypatch.setitem(globals(), "Db", ReturnsEarly)
    with pytest.raises(AssertionError):
        sweep(local_stores, 1, 8)


def test_killed_processes_show_a_manifest_that_comes_before_its_sst(local_stores, monkeypatch):
    monkeypatch.setattr(database, "WrittenManifest", UploadsLater)
    with pytest.raises(CannotRead):
        sweep(local_stores, 1, 8)


@pytest.mark.parametrize("kind", ["local", "versitygw"])
def test_two_hundred_killed_processes(kind, request):
    died = sweep(request.getfixturevalue(f"{kind}_stores"), 2, 230)
    print(f"{kind}: {died} processes were killed")
    assert died >= 200
