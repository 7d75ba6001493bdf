"""Run coroutines in virtual time. Safety: events happen one after another, in an order that the run's choices determine.

A client yields what it awaits: a Request to the store, or a Sleep. The caller of the kernel says when, and with what result,
the client continues. There is no asyncio and no thread.

Without a `schedule` events happen at their time. With one, an event's time is the earliest at which it may happen. The schedule
picks any waiting event, and time advances to the latest time picked so far. An event that is not picked is late, as in a store
or a client that stalls.
"""

from bisect import insort
from collections.abc import Callable, Coroutine
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple


class Request(NamedTuple):
    """A client's request to the store."""

    op: str
    key: str
    body: bytes = b""
    condition: str = ""


class Sleep(NamedTuple):
    duration_ms: int


class Sites(dict[str, str]):
    """The labels of a client's choices, made when first used."""

    def __init__(self, client: str):
        self.client = client

    def __missing__(self, of: str) -> str:
        self[of] = f"{self.client}.{of}"
        return self[of]


@lru_cache(1_000)
def sites(client: str) -> Sites:
    return Sites(client)


class Client:
    """A process that may crash. `incarnation` counts its lives and its cancelled calls. Results for an earlier incarnation are
    dropped."""

    __slots__ = ("clock_offset_ms", "coroutine", "done", "ended", "incarnation", "name", "number", "request", "sites",
                 "under_way", "waiting")

    def __init__(self, name: str, clock_offset_ms: int = 0):
        self.name, self.clock_offset_ms = name, clock_offset_ms
        self.incarnation, self.done = 0, False
        self.coroutine: Any = None  # a Coroutine, or None
        self.waiting = 0  # number of the request that it awaits; 0: none
        self.request: Request | None = None  # its last request
        self.number = 0  # number of its last request
        self.ended = 0  # number of its last request that ended without a response from the store
        self.under_way = False  # whether its last request may still be applied
        self.sites = sites(name)


class Call:
    """A client's call that ends after a time at the latest."""

    __slots__ = ("coroutine", "first", "over")

    def __init__(self, client: Client):
        self.coroutine, self.first, self.over = client.coroutine, client.number + 1, False  # number of its first request

    def is_made_by(self, client: Client) -> bool:
        """Tell whether it is still under way, in this life of the client."""
        return not self.over and client.coroutine is self.coroutine


class Cancelled(BaseException):
    """Thrown in where a client awaits, because the time of `call` is over. Like asyncio's, it is no Exception."""

    def __init__(self, call: Call):
        self.call = call


class Event(NamedTuple):
    """An event that may happen. A schedule sees these sorted."""

    t_ms: int
    number: int
    owner: str  # the client whose next step it is; or "late Writer#0", for a request that nobody awaits
    action: Callable
    args: tuple  # for a request in flight: client, its sending incarnation, number, request, ..; see network.py


class Kernel:
    def __init__(self, schedule: Callable[[list[Event]], int] | None = None) -> None:
        self.now_ms, self._number = 0, count(1).__next__
        self.steps = 0  # events taken
        self.schedule = schedule
        self.waiting: list[Any] = []  # a heap of tuples; or, with a schedule, sorted Events
        self._graveyard: list[Coroutine] = []  # of crashed clients: never resumed, closed after the run
        self.on_request: Callable[[Client, Request], None]
        self.on_timeout: Callable[[Client, Call], None]

    def at(self, t_ms: int, owner: str, action: Callable, *args: Any) -> None:
        if self.schedule is None:
            heappush(self.waiting, (t_ms, self._number(), owner, action, args))
        else:
            insort(self.waiting, Event(t_ms, self._number(), owner, action, args))

    def start(self, client: Client, work: Coroutine) -> None:
        client.coroutine, client.done = work, False
        self.resume(client, client.incarnation, None)

    def crash(self, client: Client) -> None:
        """Crash a client. Its coroutine is never resumed, so none of its `finally` blocks runs before the verdict."""
        if client.coroutine is not None:
            self._graveyard.append(client.coroutine)
        client.incarnation += 1
        client.coroutine, client.waiting = None, 0

    def cancel(self, client: Client, cancelled: Cancelled) -> None:
        """Throw `cancelled` in where the client awaits. What it awaits no longer resumes it."""
        client.incarnation += 1
        self.resume(client, client.incarnation, None, cancelled)

    def resume(self, client: Client, incarnation: int, result: Any, error: BaseException | None = None) -> None:
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
            self.at(self.now_ms + max(asked.duration_ms, 1), client.name, self.resume, client, incarnation, None)

    def run(self, until_ms: int, max_steps: int) -> None:
        """Take events up to that time, at most `max_steps`."""
        self.steps += (self._run_timed if self.schedule is None else self._run_scheduled)(until_ms, max_steps)

    def _run_timed(self, until_ms: int, max_steps: int) -> int:
        """Take events by their times. Returns the number taken."""
        heap = self.waiting
        for steps in range(max_steps):
            if not heap:
                return steps
            t_ms, _, _, action, args = event = heappop(heap)
            if t_ms > until_ms:
                heappush(heap, event)
                return steps
            self.now_ms = t_ms
            action(*args)
        return max_steps

    def _run_scheduled(self, until_ms: int, max_steps: int) -> int:
        waiting, schedule = self.waiting, self.schedule
        assert schedule is not None
        for steps in range(max_steps):
            enabled = waiting
            if waiting and waiting[-1].t_ms > until_ms:
                enabled = [event for event in waiting if event.t_ms <= until_ms]
            if not enabled:
                return steps
            t_ms, _, _, action, args = waiting.pop(schedule(enabled) if len(enabled) > 1 else 0)
            self.now_ms = max(self.now_ms, t_ms)
            action(*args)
        return max_steps

    def in_time(self) -> None:
        """Drop the schedule: from now on events happen at their times, and late ones at once."""
        self.schedule = None
        self.waiting = [(max(event[0], self.now_ms), *event[1:]) for event in self.waiting]
        self.waiting.sort()

    def close(self) -> None:
        """Close the coroutines of crashed clients, and drop all references, so that a run leaves no cycles."""
        for work in self._graveyard:
            work.close()
        self._graveyard.clear()
        self.waiting.clear()
        del self.on_request, self.on_timeout, self.schedule
