"""Safety: nothing happens but in the order of the heap, so a run is a function of its choices.

A trampoline for coroutines in virtual time. A client's coroutine awaits a Request or a Sleep; whoever drives the kernel
says when, and with what, it goes on. There is no asyncio here and no thread.
"""

from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush
from typing import Any


class Request:
    """One request to the store, which lives apart from its caller: the caller may be gone before it is applied. To await it
    is to wait for its reply."""

    __slots__ = ("body", "client", "condition", "incarnation", "key", "number", "op")

    def __init__(self, client: "Client", op: str, key: str, body: bytes = b"", condition: str = ""):
        self.client, self.op, self.key, self.body, self.condition = client, op, key, body, condition
        self.incarnation, self.number = client.incarnation, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


class Sleep:
    __slots__ = ("duration_ms",)

    def __init__(self, duration_ms: int):
        self.duration_ms = duration_ms

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


class Client:
    """A process that may crash: `incarnation` counts its lives, and what an earlier life awaited finds nobody."""

    __slots__ = ("clock_offset_ms", "coroutine", "done", "incarnation", "name", "waiting")

    def __init__(self, name: str, clock_offset_ms: int = 0):
        self.name, self.clock_offset_ms = name, clock_offset_ms
        self.incarnation, self.done = 0, False
        self.coroutine: Coroutine | None = None
        self.waiting: Request | None = None


class Kernel:
    def __init__(self) -> None:
        self.now_ms, self._number = 0, 0
        self._heap: list[tuple[int, int, Callable, tuple]] = []
        self._graveyard: list[Coroutine] = []  # of crashed clients: never resumed, closed after the run
        self.on_request: Callable[[Request], None]

    def at(self, t_ms: int, action: Callable, *args: Any) -> None:
        self._number += 1
        heappush(self._heap, (t_ms, self._number, action, args))

    def start(self, client: Client, work: Coroutine) -> None:
        client.coroutine, client.done = work, False
        self.resume(client, client.incarnation, None)

    def crash(self, client: Client) -> None:
        """Its coroutine is never resumed, so no `finally` of it runs before the verdict."""
        if client.coroutine is not None:
            self._graveyard.append(client.coroutine)
        client.incarnation += 1
        client.coroutine = client.waiting = None

    def resume(self, client: Client, incarnation: int, result: Any, error: Exception | None = None) -> None:
        if client.incarnation != incarnation:
            return
        client.waiting = None
        try:
            asked = client.coroutine.send(result) if error is None else client.coroutine.throw(error)
        except StopIteration:
            client.done = True
            return
        if type(asked) is Sleep:
            self.at(self.now_ms + max(asked.duration_ms, 1), self.resume, client, incarnation, None)
        else:
            client.waiting = asked
            self.on_request(asked)

    def run(self, until_ms: int, max_steps: int) -> int:
        """Take the events up to that time, at most so many; returns how many were taken."""
        heap = self._heap
        for steps in range(max_steps):
            if not heap or heap[0][0] > until_ms:
                return steps
            self.now_ms, _, action, args = heappop(heap)
            action(*args)
        return max_steps

    def close(self) -> None:
        for work in self._graveyard:
            work.close()
