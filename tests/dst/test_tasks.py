"""Tasks beside each other mean the same on asyncio and in the simulation, where each order of their steps is a choice."""

import asyncio
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest

from highwater.dst.actors import STORE
from highwater.dst.determinism.lint import lint
from highwater.dst.sim.kernel import Client, Kernel
from highwater.dst.world.clock import ClientClock
from highwater.dst.world.faults import FATES
from highwater.dst.world.network import Network
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import Indefinite, NotFound, TaskCancelled, TimedOut
from highwater.impl.stores.system import SystemClock

Work = Callable[[Any, list[Any]], Any]  # (clock, what it says)


def on_asyncio(work: Work) -> list[Any]:
    said: list[Any] = []
    asyncio.run(work(SystemClock(), said))
    return said


def simulated(work: Work, pick: Callable[[list[Any]], int] | None = None) -> list[Any]:
    said: list[Any] = []
    kernel, client = Kernel(pick), Client("Reader#0")
    Network(kernel, SimulatedStore(), lambda e: None, lambda site, bound: 0, lambda site, bound: 0, None, None, b"", (60,), 0,
            lambda client: None)
    try:
        kernel.start(client, work(ClientClock(kernel, client), said))
        kernel.run(10_000, 1_000)
        assert client.done and not kernel.tasks_of(client)
    finally:
        kernel.close()
    return said


BOTH = pytest.mark.parametrize("run", [on_asyncio, simulated])


async def sleeps(clock: Any, said: list[Any], name: str, duration_ms: int = 20) -> str:
    try:
        said.append(f"{name} begins")
        await clock.sleep_ms(duration_ms)
        said.append(f"{name} ends")
        return name
    finally:
        said.append(f"{name} is over")


@BOTH
def test_a_task_runs_beside_its_caller_and_is_awaited_often(run):
    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(sleeps(clock, said, "a"), "a")
        said.append("spawned")
        await clock.sleep_ms(5)
        said.append("meanwhile")
        said.append((await task, await task))
        task.cancel()  # it has ended
        said.append(await task)

    assert run(work) == ["spawned", "a begins", "meanwhile", "a ends", "a is over", ("a", "a"), "a"]


@BOTH
def test_a_cancelled_task_takes_no_further_step(run):
    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(sleeps(clock, said, "a"), "a")
        await clock.sleep_ms(5)
        task.cancel()
        task.cancel()
        said.append("cancelled")
        for _ in range(2):
            with pytest.raises(TaskCancelled, match="'a' was cancelled") as caught:
                await task
            said.append(isinstance(caught.value, Indefinite))

    assert run(work) == ["a begins", "cancelled", "a is over", True, True]


@BOTH
def test_a_task_that_is_cancelled_at_once_never_begins(run):
    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(sleeps(clock, said, "a"), "a")
        task.cancel()
        with pytest.raises(TaskCancelled):
            await task

    assert run(work) == []


@BOTH
def test_cancellation_reaches_a_task_through_what_it_awaits(run):
    async def outer(clock: Any, said: list[Any]) -> None:
        try:
            await clock.first(inner=sleeps(clock, said, "inner", 1_000))
        finally:
            said.append("outer is over")

    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(outer(clock, said), "outer")
        await clock.sleep_ms(5)
        task.cancel()
        with pytest.raises(TaskCancelled):
            await task

    assert run(work) == ["inner begins", "inner is over", "outer is over"]


@BOTH
def test_who_is_cancelled_while_it_awaits_a_task_does_not_cancel_the_task(run):
    async def work(clock: Any, said: list[Any]) -> None:
        async def waits() -> None:
            await task

        task = clock.spawn(sleeps(clock, said, "a"), "a")
        with pytest.raises(TimedOut):
            await clock.timeout(5, waits())
        said.append(await task)

    assert run(work) == ["a begins", "a ends", "a is over", "a"]


@BOTH
def test_an_error_of_a_task_is_kept_for_who_awaits_it(run):
    async def fails() -> None:
        raise NotFound("k")

    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(fails(), "fails")
        await clock.sleep_ms(5)
        for _ in range(2):
            with pytest.raises(NotFound):
                await task
        said.append("raised")

    assert run(work) == ["raised"]


@BOTH
def test_first_returns_the_first_result_and_the_others_have_ended(run):
    async def work(clock: Any, said: list[Any]) -> None:
        said.append(await clock.first(slow=sleeps(clock, said, "slow", 1_000), fast=sleeps(clock, said, "fast", 5)))
        said.append("back")

    assert run(work) == ["slow begins", "fast begins", "fast ends", "fast is over", "slow is over", "fast", "back"]


@BOTH
def test_first_raises_the_first_error_and_drops_those_of_the_others(run):
    async def fails(clock: Any) -> None:
        try:
            await clock.sleep_ms(1_000)
        finally:
            raise NotFound("late")

    async def fails_first(clock: Any) -> None:
        await clock.sleep_ms(5)
        raise NotFound("first")

    async def work(clock: Any, said: list[Any]) -> None:
        with pytest.raises(NotFound, match="first"):
            await clock.first(late=fails(clock), first=fails_first(clock))
        said.append("raised")

    assert run(work) == ["raised"]


@BOTH
def test_of_several_that_have_ended_the_one_that_stands_first_counts(run):
    async def at_once(name: str) -> str:
        return name

    async def work(clock: Any, said: list[Any]) -> None:
        said.append(await clock.first(a=at_once("a"), b=at_once("b")))

    assert run(work) == ["a"]


@BOTH
def test_a_time_out_within_a_task_cancels_that_task_alone(run):
    async def hurried(clock: Any, said: list[Any]) -> None:
        with pytest.raises(TimedOut):
            await clock.timeout(5, sleeps(clock, said, "slow", 1_000))

    async def work(clock: Any, said: list[Any]) -> None:
        task = clock.spawn(hurried(clock, said), "hurried")
        await sleeps(clock, said, "main", 30)
        await task

    assert run(work) == ["main begins", "slow begins", "slow is over", "main ends", "main is over"]


# --- the simulation alone

def test_each_order_of_steps_is_a_choice():
    async def says(said: list[Any], name: str) -> None:
        said.append(name)

    async def work(clock: Any, said: list[Any]) -> None:
        for task in [clock.spawn(says(said, name), name) for name in "abc"]:
            await task

    found = set()
    for picks in product(range(3), repeat=4):
        left = iter(picks)
        found.add(tuple(simulated(work, lambda events, left=left: next(left, 0) % len(events))))
    assert found == set(permutations("abc"))


def test_two_tasks_of_a_client_that_run_have_different_names():
    async def work(clock: Any, said: list[Any]) -> None:
        first, second = sleeps(clock, said, "a"), sleeps(clock, said, "b")
        task = clock.spawn(first, "same")
        try:
            clock.spawn(second, "same")
        except ValueError as error:
            said.append(str(error))
        await task
        second.close()

    assert simulated(work)[0] == "Reader#0/same is running: give the tasks of a client different names"


def test_a_client_does_not_end_before_its_tasks():
    async def work(clock: Any, said: list[Any]) -> None:
        clock.spawn(sleeps(clock, said, "a"), "a")

    with pytest.raises(RuntimeError, match="Reader#0 has ended before Reader#0/a: cancel and await them"):
        simulated(work)


def crashed(number: int) -> tuple[list[Any], list[tuple[str, str, bool]]]:
    """Run a client with two tasks, and crash it at a request of its own (0) or of a task (1)."""
    said: list[Any] = []
    events: list[tuple[str, str, bool]] = []
    kernel, client = Kernel(None), Client("Reader#0")
    of = f"Reader#0{'/a' * number}.create"
    Network(kernel, SimulatedStore(), lambda e: events.append((e.client, e.kind, e.pending)), lambda site, bound: 0,
            lambda site, bound: 2 if site.endswith("crash") else 0,  # while the request is in flight
            lambda site, bound, draw, fates: FATES.index("crash") if site == of else 0, None, b"crashes", (60,), 0,
            lambda client: kernel.start(client, again()))

    async def task(name: str) -> None:
        try:
            await STORE.create(name, b"1")
            said.append(f"{name} goes on")
        finally:
            said.append(f"{name} is over")

    async def work(clock: ClientClock) -> None:
        clock.spawn(task("a"), "a")
        clock.spawn(task("b"), "b")
        await STORE.create("main", b"1")
        said.append("main goes on")

    async def again() -> None:
        said.append("again")

    kernel.start(client, work(ClientClock(kernel, client)))
    kernel.run(10_000, 1_000)
    before = list(said)
    kernel.close()
    assert client.done
    return before, events


@pytest.mark.parametrize("number", [0, 1])
def test_a_crash_ends_a_client_with_all_its_tasks(number):
    """The requests of the tasks may still be applied, and no `finally` runs."""
    said, events = crashed(number)
    assert said == ["again"]
    crashes = [(client, pending) for client, kind, pending in events if kind == "crash"]
    assert crashes[0] == (f"Reader#0{'/a' * number}", True) and all(pending for _, pending in crashes)


# --- nobody goes around the seam

def test_no_protocol_uses_asyncio(tmp_path):
    for folder in ("impl/protocols", "dst", "traces", "model"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "impl/protocols/db_reader.py").write_text("from asyncio import create_task\n")
    found, _ = lint(tmp_path, ())
    assert [(of.file, of.hazard) for of in found] == [("impl/protocols/db_reader.py", "concurrency")]
