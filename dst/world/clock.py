"""The clock and the tasks of a simulated client. Safety: a task that is cancelled takes no further step.

In which order the tasks of a run take their steps is a choice of the run, as it is for clients."""

from collections.abc import Awaitable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from highwater.dst.sim.kernel import Call, Cancelled, Client, Join, Kernel, Sleep
from highwater.dst.world.store import NEW
from highwater.impl.errors import StoreError, TaskCancelled, TimedOut

Answer = TypeVar("Answer")


class ClientClock:
    """Virtual time with this client's offset, and the client's tasks."""

    def __init__(self, kernel: Kernel, client: Client):
        self.kernel, self.client = kernel, client

    def now_ms(self) -> int:
        return self.kernel.now_ms + self.client.clock_offset_ms

    def monotonic_ms(self) -> int:
        return self.kernel.now_ms

    @coroutine
    def sleep_ms(self, duration_ms: int) -> Generator[Sleep, None, None]:
        yield NEW(Sleep, (duration_ms,))

    async def timeout(self, duration_ms: int, call: Awaitable[Answer]) -> Answer:
        kernel, client = self.kernel, self.kernel.running
        assert client is not None, "a coroutine is run by the kernel"
        under_way = Call(client)
        kernel.at(kernel.now_ms + duration_ms, f"timeout {client.name}", kernel.on_timeout, client, under_way)
        try:
            return await call
        except Cancelled as cancelled:
            if cancelled.call is not under_way:
                raise
            raise TimedOut(f"the call was cancelled after {duration_ms:,} ms") from None
        finally:
            under_way.over = True

    def spawn(self, work: Coroutine[Any, Any, Answer], name: str) -> "SimulatedTask":
        ended = result_of(work, name)
        ended.send(None)  # until it has begun
        return SimulatedTask(self.kernel, self.kernel.spawn(self.client, name, ended))

    async def first(self, **works: Coroutine[Any, Any, Answer]) -> Answer:
        tasks = [self.spawn(work, name) for name, work in works.items()]
        try:
            while not (ended := [task for task in tasks if task.client.done]):
                await joined(tasks)
        except GeneratorExit:  # the client has crashed, and the run is over: nothing of it takes a step any more
            raise
        except BaseException:
            await cancelled(tasks)
            raise
        await cancelled(tasks)
        return await ended[0]


class SimulatedTask:
    def __init__(self, kernel: Kernel, client: Client):
        self.kernel, self.client = kernel, client

    def cancel(self) -> None:
        if not self.client.done and self.client.coroutine is not None:
            self.kernel.on_interrupt(self.client)

    def __await__(self) -> Generator[Join, None, Any]:
        while not self.client.done:
            yield Join((self.client,))
        result, error = self.client.result
        if error:
            raise error
        return result


async def result_of(work: Coroutine[Any, Any, Answer], name: str) -> tuple[Answer | None, StoreError | None]:
    """Run a task; return its result, or its error. Any other exception ends the run: an implementation must not raise it."""
    try:
        await begun()
        return await work, None
    except StoreError as error:
        return None, error.with_traceback(None)
    except Cancelled:
        return None, TaskCancelled(f"the task {name!r} was cancelled")
    finally:
        work.close()  # it may not have begun


async def cancelled(tasks: list[SimulatedTask]) -> None:
    """Cancel tasks, and return once all have ended."""
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.client.done]:
        await joined(running)


@coroutine
def begun() -> Generator[None, None, None]:
    yield


@coroutine
def joined(tasks: list[SimulatedTask]) -> Generator[Join, None, None]:
    yield Join(tuple(task.client for task in tasks))
