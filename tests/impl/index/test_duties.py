"""The duties of a leader and of a worker in the bucket survive any object, any key and any response of it."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from highwater.impl.codecs.index.messages import PollResponse, Tombstones, encode
from highwater.impl.errors import TaskCancelled
from highwater.impl.index.compaction.worker import Options as WorkerOptions
from highwater.impl.index.compaction.worker import Worker
from highwater.impl.index.letters.letter import ASIDE, QUEUE, REJECTED, key_of
from highwater.impl.index.letters.sweeper import Options, Sweeper, ended
from highwater.impl.index.library import Index
from highwater.impl.index.retention import Cleaner, Policy
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World
from tests.impl.index.test_dead_letters import Folder, Scene, played  # noqa: F401  # a fixture
from tests.impl.index.test_index_library import CONFIG, FAST, leads, worlds
from tests.impl.raft.virtual import VirtualClock, run

ODD = (KeyError("IsTruncated"), TypeError("int"), RecursionError("deep"), AssertionError(), ValueError("bad key"),
       OSError(28, "x"), MemoryError())


class Warned:
    """Metrics that keep what was counted and warned."""

    def __init__(self):
        self.counted: list[str] = []
        self.warnings: list[str] = []

    def count(self, name: str, amount: int = 1) -> None:
        self.counted += [name] * amount

    def observe(self, name: str, value: float) -> None:
        pass

    def warn(self, message: str) -> None:
        self.warnings.append(message)


class Odd:
    """A store of which some requests raise what no store may raise."""

    def __init__(self, store: Any, *names: str):
        self.store, self.names, self.raised = store, names, 0

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            return getattr(self.store, name)

        async def asked(*_: Any) -> Any:
            self.raised += 1
            raise ODD[self.raised % len(ODD)]

        return asked


LONG = tuple(QUEUE + "/".join(["s" * 200] * 6)[:size - len(QUEUE)] for size in (1_016, 1_017, 1_020, 1_024))
NARROW = QUEUE + "a" * 255  # a suffix would make this segment too long


@pytest.mark.parametrize("at_once", [1, 3])
def test_sweep_leaves_keys_that_cannot_be_moved(played, at_once):  # noqa: F811
    async def story(scene: Scene) -> None:
        for key in LONG:
            await scene.store.create(key, b"\xff")
        await scene.store.create(REJECTED + "1", b"not a folder")  # a folder store cannot make REJECTED/1/..
        await scene.store.create(QUEUE + "1/x/y/meta.pb", b"\xff")
        await scene.store.create(REJECTED + NARROW.removeprefix(QUEUE), b"\xfe")
        await scene.store.create(NARROW, b"\xff")
        made = scene.made(1)
        await scene.put(made)
        metrics = Warned()
        of = Sweeper(scene.world()._replace(metrics=metrics), scene.index.add, lambda: True, Options(at_once=at_once))
        for _ in range(5):
            await of.sweep()
        assert await scene.found() == [made.id]
        assert {*LONG, NARROW} <= set(await scene.keys(QUEUE))
        told = [line for line in metrics.warnings if " stays" in line]
        for key in (*LONG, NARROW):
            assert len([line for line in told if line.startswith(key + " ")]) == 1, "each is logged once"
        assert metrics.counted.count("dead_letters_left") >= 2 * len(LONG)

    played(story)


def test_sweep_rests_between_attempts_for_a_stuck_letter(played):  # noqa: F811
    async def story(scene: Scene) -> None:
        await scene.store.create(LONG[0], b"\xff")
        asked: list[int] = []

        class Noting(Sweeper):
            async def settle(self, entry: Any) -> None:
                asked.append(self.world.clock.now_ms())
                await super().settle(entry)

        of = scene.sweeper(kind=Noting, options=Options(period_ms=1_000))
        for _ in range(200):
            await asyncio.sleep(1)
            await of.sweep()
        gaps = [b - a for a, b in pairwise(asked)]
        assert len(asked) < 12 and gaps == sorted(gaps) and gaps[-1] >= 32_000, gaps
        await scene.store.delete(LONG[0])
        await scene.store.create(LONG[0], b"\xff another")
        await of.sweep()
        assert len(asked) == len(gaps) + 2, "another object is tried at once"

    played(story)


def test_sweeper_forgets_the_oldest_stuck_letters(played):  # noqa: F811
    async def story(scene: Scene) -> None:
        for key in LONG:
            await scene.store.create(key, b"\xff")
        of = scene.sweeper(options=Options(stuck=2))
        for _ in range(3):
            await of.sweep()
        assert len(of.stuck) == 2

    played(story)


@pytest.mark.parametrize("names", [("list_page",), ("get",), ("create",), ("delete",)])
def test_sweeper_survives_whatever_a_store_raises(names):
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            scene, metrics = Scene(index, MemoryStore()), Warned()
            for number in range(3):
                await scene.put(scene.made(number))
            await scene.store.create(QUEUE + "junk", b"\xff")
            store = Odd(scene.store, *names)
            of = Sweeper(scene.world(store)._replace(metrics=metrics), index.add, lambda: True, Options(1_000, at_once=2))
            running = asyncio.ensure_future(of.run())
            await asyncio.sleep(300)
            assert not running.done() and metrics.warnings and store.raised > 3
            assert {"dead_letter_sweeps_failed", "dead_letters_left"} & set(metrics.counted)
            assert store.raised < 4 * 20, "the pauses grow"
            store.names = ()
            await asyncio.sleep(700)
            aside = await scene.keys(ASIDE)  # those that were too old by then
            assert await scene.keys(QUEUE) == [] and len(await scene.found()) + len(aside) == 3
            running.cancel()

    run(work())


def test_sweeper_survives_an_index_that_raises_anything():
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            scene = Scene(index, MemoryStore())
            made = scene.made(1)
            await scene.put(made)
            raising = [*ODD]

            async def add(block: Any) -> None:
                if raising:
                    raise raising.pop()
                await index.add(block)

            running = asyncio.ensure_future(scene.sweeper(add=add, options=Options(1_000)).run())
            await asyncio.sleep(600)
            assert not running.done() and await scene.keys() == [ASIDE + key_of(made).removeprefix(QUEUE)], "it is old by then"
            running.cancel()

    run(work())


class Ends:
    """A task that raises an error each time that it is awaited."""

    def __init__(self, error: BaseException):
        self.error = error

    def cancel(self) -> None:
        pass

    def __await__(self) -> Any:
        raise self.error
        yield


@pytest.mark.parametrize("error", [*ODD, TaskCancelled("x")])
def test_ended_returns_whatever_a_task_raises(error):
    asyncio.run(ended([Ends(error), Ends(error)]))  # pyright: ignore[reportArgumentType]


def test_ended_raises_what_ends_a_program_once():
    with pytest.raises(SystemExit):
        asyncio.run(ended([Ends(SystemExit()), Ends(KeyError())]))  # pyright: ignore[reportArgumentType]


def test_cleaner_survives_whatever_a_read_raises():
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            real, raised = index.rows, 0

            async def rows(stale: bool = False) -> Any:
                nonlocal raised
                raised += 1
                if raised < 12:
                    raise ODD[raised % len(ODD)]
                return await real(stale)

            index.rows = rows  # pyright: ignore[reportAttributeAccessIssue]
            running = asyncio.ensure_future(Cleaner(index, lambda: True, Policy(), 100).run())
            await asyncio.sleep(20)
            assert not running.done() and 5 < raised < 12, "the pauses grow"
            await asyncio.sleep(500)
            assert not running.done() and raised > 12, "it has recovered"
            running.cancel()

    run(work())


def test_worker_survives_whatever_index_and_store_raise():
    async def work() -> None:
        store, metrics, asked = Odd(MemoryStore(), "get"), Warned(), 0

        async def poll(_: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked % 2:
                raise ODD[asked % len(ODD)]
            job = {"name": "j", "source_blocks": ["x"]}
            return PollResponse(compaction_jobs=[job], assignments=[{"name": "j", "token": 1}])

        clock = VirtualClock()
        of = Worker(World(store, clock, clock, metrics), poll, WorkerOptions(poll_ms=100))  # pyright: ignore
        running = asyncio.ensure_future(of.run())
        await asyncio.sleep(60)
        assert not running.done() and len(metrics.warnings) > 3 and asked < 40, asked
        running.cancel()

    run(work())


@pytest.mark.parametrize("folder", [False, True])
def test_worker_deletes_what_it_can_beside_a_bad_tombstone(folder, tmp_path):
    async def work() -> None:
        store: Any = Folder(str(tmp_path)) if folder else MemoryStore()
        good = Tombstones(index=2, blocks={"name": "g", "shard": 1, "tenant": "t", "compaction_level": 1, "blocks": ["g"]})
        of = {"shard": 1, "tenant": "t", "compaction_level": 1}
        bad = Tombstones(index=1, blocks={"name": "b", "blocks": ["x" * 1_024], **of})
        path = "blocks/1/t/g/block.bin"
        await store.create(path, b"")
        asked: list[Any] = []

        async def poll(request: Any) -> Any:
            asked.append(request)
            return PollResponse(overdue=[bad, good] * (len(asked) == 1))

        clock, metrics = VirtualClock(), Warned()
        of = Worker(World(store, clock, clock, metrics), poll)  # pyright: ignore[reportArgumentType]
        await of.once()
        assert [key.index for update in asked[1].status_updates for key in update.deleted] == [2]
        assert not (await store.list_page("blocks/")).entries and "index_deletions_failed" in metrics.counted

    run(work())


def test_sweeper_takes_a_letter_whose_bytes_are_in_a_folder_of_pipes(tmp_path):
    """Other files than objects are no letters."""
    import os

    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            scene = Scene(index, LocalStore(str(tmp_path), threads=False))
            made = scene.made(1)
            await scene.store.create(key_of(made), encode(made))
            os.mkfifo(tmp_path / "dlq/1/pipe")
            (tmp_path / "dlq/1/loop").symlink_to(tmp_path / "dlq")
            (tmp_path / os.fsdecode(b"dlq/1/\xff")).write_bytes(b"")
            await scene.sweeper().sweep()
            assert await scene.found() == [made.id]

    run(work())
