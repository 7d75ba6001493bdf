"""Safety: nothing happens but in the order of the heap, so a run is a function of its choices.

A trampoline for coroutines in virtual time. What a client awaits it yields: a Request to the store, or a Sleep; whoever
drives the kernel says when, and with what, it goes on. There is no asyncio here and no thread.
"""

from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What a client asks of the store."""

    op: str
    key: str
    body: bytes = b""
    condition: str = ""


class Sleep(NamedTuple):
    duration_ms: int


class Sent(NamedTuple):
    """A request on its way, which lives apart from its caller: the caller may be gone before it is applied."""

    client: "Client"
    incarnation: int  # of the client that sent it
    number: int
    request: Request


class Client:
    """A process that may crash: `incarnation` counts its lives, and what an earlier life awaited finds nobody."""

    __slots__ = ("clock_offset_ms", "coroutine", "done", "incarnation", "name", "waiting")

    def __init__(self, name: str, clock_offset_ms: int = 0):
        self.name, self.clock_offset_ms = name, clock_offset_ms
        self.incarnation, self.done = 0, False
        self.coroutine: Coroutine | None = None
        self.waiting = 0  # the number of the request that it waits for; 0: none


class Kernel:
    def __init__(self) -> None:
        self.now_ms, self._number = 0, 0
        self._heap: list[tuple[int, int, Callable, tuple]] = []
        self._graveyard: list[Coroutine] = []  # of crashed clients: never resumed, closed after the run
        self.on_request: Callable[[Client, Request], None]

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
        client.coroutine, client.waiting = None, 0

    def resume(self, client: Client, incarnation: int, result: Any, error: Exception | None = None) -> None:
        if client.incarnation != incarnation:
            return
        client.waiting = 0
        try:
            asked = client.coroutine.send(result) if error is None else client.coroutine.throw(error)
        except StopIteration:
            client.done = True
            return
        if type(asked) is Request:
            self.on_request(client, asked)
        else:
            self.at(self.now_ms + max(asked.duration_ms, 1), self.resume, client, incarnation, None)

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
        """End the crashed clients, and let go of everything, so that a run leaves no cycles behind."""
        for work in self._graveyard:
            work.close()
        self._graveyard.clear()
        self._heap.clear()
        del self.on_request
