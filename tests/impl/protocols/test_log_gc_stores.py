"""The log of impl/protocols/log_gc.py on every store: memory, local files, S3 by moto; the sources' sentences as cases."""

import asyncio

import pytest

from highwater.impl.errors import Definite, Indefinite, NotFound, OutcomeUnknown, Unavailable
from highwater.impl.protocols.boundary_object import InvalidBoundary, ObjectVersionBehindBoundary
from highwater.impl.protocols.log_gc import AppendLog, InvalidSnapshot, NotRecovered
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.impl.world import World, list_all
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]

DAY_MS = 86_400_000


class Clock:
    """The wall clock, a day ahead: everything that is in the store is a day old."""

    def __init__(self, world: World):
        self.world = world

    def now_ms(self) -> int:
        return self.world.clock.now_ms() + DAY_MS

    async def sleep_ms(self, duration_ms: int) -> None:
        await self.world.clock.sleep_ms(duration_ms)


def opened(store, mode="boundary", **options) -> AppendLog:
    return AppendLog(system_world(store), "db", mode, **options)


def collector(store, mode="boundary") -> AppendLog:
    world = system_world(store)
    return AppendLog(world._replace(clock=Clock(world)), "db", mode)


async def grown(store, *entries: str, mode="boundary") -> AppendLog:
    log = opened(store, mode)
    for entry in entries:
        await log.append(entry.encode())
    return log


async def collected(store, mode="boundary") -> list[int]:
    """A snapshot of all, and a round of collection in which everything is old."""
    await opened(store, mode).snapshot()
    return await collector(store, mode).collect(DAY_MS // 2)


async def keys(store) -> list[str]:
    return [entry.key.replace("0" * 19, "") for entry in await list_all(store, "db/")]


class Counted:
    """Counts requests by method."""

    def __init__(self, store):
        self.store, self.caches, self.seen = store, store.caches, []

    def __getattr__(self, name):
        real = getattr(self.store, name)

        async def counted(*arguments):
            self.seen.append(name)
            return await real(*arguments)

        return counted


def test_entries_are_recovered_in_their_order(stores):
    """«the state of the system is represented by reading all the files and resolving them in order»"""

    async def case():
        store = stores.open()
        assert await opened(store).recover() == (0, (), 0)
        log = opened(store)
        assert [await log.append(entry) for entry in (b"a", b"b", b"c")] == [1, 2, 3]
        assert await opened(store).recover() == (3, ("a", "b", "c"), 0)
        assert await keys(store) == [f"db/log/{i}.log" for i in (1, 2, 3)]

    asyncio.run(case())


def test_an_entry_that_is_no_text_keeps_nobody_from_reading():
    async def case():
        log = opened(MemoryStore())
        for entry in (b"a", b"\xff\xfe", b"b"):
            await log.append(entry)
        await log.snapshot()
        state = (await log.recover()).state
        assert [text.encode("utf-8", "surrogateescape") for text in state] == [b"a", b"\xff\xfe", b"b"]

    asyncio.run(case())


def test_of_racing_appends_none_is_lost(stores):
    async def case():
        async def work(number):
            log = opened(stores.open())
            return [await log.append(f"{number}.{k}".encode()) for k in range(3)]

        taken = [file_id for ids in await asyncio.gather(*map(work, range(4))) for file_id in ids]
        assert sorted(taken) == [*range(1, 13)]
        recovered = await opened(stores.open()).recover()
        assert sorted(recovered.state) == sorted(f"{n}.{k}" for n in range(4) for k in range(3))
        for number in range(4):
            assert [text for text in recovered.state if text[0] == str(number)] == [f"{number}.{k}" for k in range(3)]

    asyncio.run(case())


def test_two_appends_of_one_client_at_once(stores):
    async def case():
        log = await grown(stores.open(), "a")
        assert sorted(await asyncio.gather(*(log.append(b"b") for _ in range(4)))) == [2, 3, 4, 5]

    asyncio.run(case())


def test_a_conflict_costs_no_get():
    """«reduces the cost of contention from three S3 round trips to two by avoiding the GET»"""

    async def case():
        store = MemoryStore()
        counted = Counted(store)
        late = opened(counted)
        await late.append(b"a")
        await grown(store, "b")
        counted.seen.clear()
        assert await late.append(b"c") == 3
        assert counted.seen == ["create", "create", "get"]  # the boundary: GET, with its version once there is one

    asyncio.run(case())


def test_entries_go_only_behind_a_snapshot_and_the_last_stays(stores):
    """«entries of a log are collectable only behind a durable snapshot of them», and the listing tells where it ends."""

    async def case():
        store = stores.open()
        log = await grown(store, "a", "b", "c")
        assert await collector(store).collect(DAY_MS // 2) == []
        assert await log.snapshot() == 3
        assert await log.collect(DAY_MS // 2) == []  # nothing is old enough
        await log.append(b"d")
        assert await collector(store).collect(DAY_MS // 2) == [1, 2, 3]
        assert await keys(store) == ["db/gc/log.boundary", "db/log/4.log", "db/snapshot/3.snapshot"]
        assert (await store.get("db/gc/log.boundary")).body == b"3"
        assert await opened(store).recover() == (4, ("a", "b", "c", "d"), 3)
        assert await collected(store) == []
        assert await keys(store) == ["db/gc/log.boundary", "db/log/4.log", "db/snapshot/4.snapshot"]
        assert await opened(store).recover() == (4, ("a", "b", "c", "d"), 4)
        assert await opened(store).append(b"e") == 5
        assert await collected(store) == [4]
        assert (await opened(store).recover()).state == ("a", "b", "c", "d", "e")

    asyncio.run(case())


def test_the_boundary_is_durable_before_the_first_delete(stores):
    """«Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.»"""

    async def case():
        store = stores.open()
        await (await grown(store, "a", "b", "c")).snapshot()
        held = Held(store, "delete", "log/")
        task = asyncio.ensure_future(collector(held).collect(DAY_MS // 2))
        await held.reached.wait()
        assert (await store.get("db/gc/log.boundary")).body == b"2"
        held.release.set()
        assert await task == [1, 2]

    asyncio.run(case())


async def stalled_append(stores, mode: str) -> int:
    """An appender stalls before its create, while another appends, a snapshot is written, and what it holds collected."""
    store = stores.open()
    held = Held(stores.open(), "create", "log/")
    append = asyncio.ensure_future(opened(held, mode).append(b"late"))
    await held.reached.wait()
    await grown(store, "a", "b", "c", mode=mode)
    assert await collected(store, mode) == [1, 2]
    held.release.set()
    try:
        return await append
    finally:
        assert (await store.get("db/log/00000000000000000001.log")).body == b"late"
        assert (await opened(store, mode).recover()).state == ("a", "b", "c")
        assert await opened(store, mode).append(b"d") == 4
        assert await collected(store, mode) == [1, 3]  # «Eventually the garbage collector will LIST and notice»
        assert (await opened(store, mode).recover()).state == ("a", "b", "c", "d")


def test_a_stalled_appender_is_refused(stores):
    """«checked after any file is written to ensure that the previously described race does not happen»"""
    with pytest.raises(ObjectVersionBehindBoundary) as refused:
        asyncio.run(stalled_append(stores, "boundary"))
    assert (refused.value.id, refused.value.boundary) == (1, 2) and isinstance(refused.value, Indefinite)


def test_with_min_age_alone_it_makes_a_branch(stores):
    """«it might come back online and continue processing requests without noticing»: told 1, and in no recovery."""
    assert asyncio.run(stalled_append(stores, "min_age")) == 1


def test_who_was_refused_goes_on_at_the_end(stores):
    async def case():
        store = stores.open()
        log = await grown(store, "a")
        await grown(store, "b", "c")
        await collected(store)
        with pytest.raises(ObjectVersionBehindBoundary):
            await log.append(b"x")
        assert await log.append(b"y") == 4
        assert (await log.recover()).state == ("a", "b", "c", "y")

    asyncio.run(case())


async def slow_recovery(stores, mode: str) -> tuple[str, ...]:
    """It has listed the snapshots, there are none, and then they come, and the entries go."""
    store = stores.open()
    await grown(store, "a", "b", mode=mode)
    held = Held(stores.open(), "get", "log/")
    recovery = asyncio.ensure_future(opened(held, mode).recover())
    await held.reached.wait()
    assert await collected(store, mode) == [1]
    held.release.set()
    return (await recovery).state


def test_a_slow_recovery_starts_again(stores):
    """A missing entry is the end of the log, or has been collected: the boundary, read after it, tells which."""
    assert asyncio.run(slow_recovery(stores, "boundary")) == ("a", "b")


def test_with_min_age_alone_it_loses_what_was_acknowledged(stores):
    assert asyncio.run(slow_recovery(stores, "min_age")) == ()


def test_a_slow_snapshotter_takes_no_refused_entry(stores):
    """An entry that it reads may belong to the branch. Without a check that entry would become the history."""

    async def case():
        store = stores.open()
        stale, slow = Held(stores.open(), "create", "log/"), Held(stores.open(), "get", "log/")
        append = asyncio.ensure_future(opened(stale).append(b"late"))
        await stale.reached.wait()
        await grown(store, "a")
        snapshot = asyncio.ensure_future(opened(slow).snapshot())
        await slow.reached.wait()
        await opened(store).snapshot()
        await grown(store, "b")
        assert await collector(store).collect(DAY_MS // 2) == [1]
        stale.release.set()
        with pytest.raises(ObjectVersionBehindBoundary):
            await append
        slow.release.set()  # it reads "late", and "b"
        assert await snapshot == 2
        assert await opened(store).recover() == (2, ("a", "b"), 2)

    asyncio.run(case())


def test_a_snapshot_that_goes_while_it_is_read_has_a_successor(stores):
    async def case():
        store = stores.open()
        await (await grown(store, "a", "b")).snapshot()
        held = Held(stores.open(), "get", "snapshot/")
        recovery = asyncio.ensure_future(opened(held).recover())
        await held.reached.wait()
        await grown(store, "c")
        assert await collected(store) == [1, 2]
        assert await keys(store) == ["db/gc/log.boundary", "db/log/3.log", "db/snapshot/3.snapshot"]
        held.release.set()
        assert await recovery == (3, ("a", "b", "c"), 3)

    asyncio.run(case())


class Unanswered:
    """A store whose next requests of one method get no answer; they are applied, or not."""

    def __init__(self, store, method, error, applied, times=1):
        self.store, self.method, self.error, self.applied, self.times = store, method, error, applied, times
        self.caches = store.caches

    def __getattr__(self, name):
        real = getattr(self.store, name)

        async def answered(*arguments):
            if not self.times:
                return await real(*arguments)
            self.times -= 1
            if self.applied:
                await real(*arguments)
            raise self.error("no answer")

        return answered if name == self.method else real


@pytest.mark.parametrize("method, error, applied, after", [
    ("create", OutcomeUnknown, True, ("a", "x", "b")), ("create", OutcomeUnknown, False, ("a", "b")),
    ("create", Unavailable, False, ("a", "b")), ("get", Unavailable, False, ("a", "x", "b")),
])
def test_what_the_caller_of_an_append_is_told(method, error, applied, after):
    """The outcome is unknown if the create or its check got no answer. Nothing appends the entry again."""

    async def case():
        store = MemoryStore()
        await grown(store, "a")
        log = opened(Unanswered(store, method, error, applied))
        with pytest.raises(Unavailable if (method, error) == ("create", Unavailable) else OutcomeUnknown) as told:
            await log.append(b"x")
        assert isinstance(told.value, Definite) == (error is Unavailable and method == "create")
        await log.append(b"b")
        assert (await opened(store).recover()).state == after

    asyncio.run(case())


def test_a_delete_that_fails_is_left_to_the_next_round():
    async def case():
        store = MemoryStore()
        await (await grown(store, "a", "b", "c")).snapshot()
        assert await collector(Unanswered(store, "delete", OutcomeUnknown, False)).collect(DAY_MS // 2) == [2]
        assert (await opened(store).recover()).state == ("a", "b", "c")
        assert await collector(store).collect(DAY_MS // 2) == [1]

    asyncio.run(case())


def test_a_snapshot_put_twice_is_one():
    async def case():
        store = MemoryStore()
        await grown(store, "a")
        held = Held(store, "create", "snapshot/")
        first = asyncio.ensure_future(opened(held).snapshot())
        await held.reached.wait()
        assert await opened(store).snapshot() == 1
        held.release.set()
        assert await first == 1
        assert await opened(store).snapshot() == 1

    asyncio.run(case())


def test_a_recovery_that_is_always_overtaken_says_so():
    async def case():
        store = MemoryStore()
        await (await grown(store, "a")).snapshot()
        held = Unanswered(store, "get", NotFound, False, times=100)
        with pytest.raises(NotRecovered, match="min_age"):
            await opened(held).recover()

    asyncio.run(case())


def test_faults_of_the_namespace_are_clear_errors():
    async def case():
        store = MemoryStore()
        log = await grown(store, "a", "b")
        await store.put("db/gc/log.boundary", b"1")
        reader = opened(store)
        with pytest.raises(InvalidBoundary, match="snapshot"):
            await reader.recover()
        await store.put("db/snapshot/00000000000000000001.snapshot", b"[1]")
        with pytest.raises(InvalidSnapshot):
            await log.recover()
        with pytest.raises(ValueError, match="mode"):
            opened(store, "max_age")
        with pytest.raises(ValueError, match="cache"):
            opened(CachingStore(store))

    asyncio.run(case())
