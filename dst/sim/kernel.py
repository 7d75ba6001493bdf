"""Run coroutines in virtual time. Safety: events happen one after another, in an order that the run's choices determine.

A client yields what it awaits: a Request to the store, a Sleep, the end of a task, or something else of its world, such as an
operation of its disk, which the kernel tells to `begin`. The caller of the kernel says when, and with what result, the client
continues. There is no asyncio and no thread. A task of a client is a Client of its own, so that
every order of their steps can be chosen. A crash ends a client together with its tasks.

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


class Delivery(NamedTuple):
    """A message that is under way to a node."""

    to: str
    message: Any
    number: int


class Sleep(NamedTuple):
    duration_ms: int


class Join(NamedTuple):
    """A client waits until one of these tasks has ended."""

    tasks: tuple["Client", ...]


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
    """A process that may crash, or a task of one. `incarnation` counts its lives and what was cancelled in it. Results for an
    earlier incarnation are dropped."""

    __slots__ = ("ahead_ms", "awaited_by", "clock_offset_ms", "coroutine", "done", "ended", "incarnation", "interrupted",
                 "name", "number", "of", "request", "result", "sites", "under_way", "waiting")

    def __init__(self, name: str, clock_offset_ms: int = 0, of: "Client | None" = None):
        self.of = of  # the process that it is a task of; None: it is a process
        self.interrupted = False  # it is cancelled, and has not heard of it
        self.awaited_by: list[tuple[Client, int]] = []  # clients that wait for its end, each in an incarnation
        self.result: Any = None  # of a task that has ended
        self.name, self.clock_offset_ms = name, clock_offset_ms
        self.ahead_ms = clock_offset_ms  # the most that its clock was ahead of the store's; negative if it was always behind
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
    """Thrown in where a client awaits, because the time of `call` is over, or because its task is cancelled (None). Like
    asyncio's, it is no Exception."""

    def __init__(self, call: Call | None):
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
        self.tasks: dict[str, dict[str, Client]] = {}  # process -> its tasks that have not ended, by name
        self.running: Client | None = None  # whose step it is
        self.on_request: Callable[[Client, Request], None]
        self.on_timeout: Callable[[Client, Call], None]
        self.on_interrupt: Callable[[Client], None]

    def at(self, t_ms: int, owner: str, action: Callable, *args: Any) -> None:
        if self.schedule is None:
            heappush(self.waiting, (t_ms, self._number(), owner, action, args))
        else:
            insort(self.waiting, Event(t_ms, self._number(), owner, action, args))

    def start(self, client: Client, work: Coroutine) -> None:
        client.coroutine, client.done = work, False
        self.resume(client, client.incarnation, None)

    def spawn(self, process: Client, name: str, work: Coroutine) -> Client:
        """Start a task of a process. Its first step is an event of its own."""
        tasks = self.tasks.setdefault(process.name, {})
        task = Client(f"{process.name}/{name}", of=process)
        if task.name in tasks:
            raise ValueError(f"{task.name} is running: give the tasks of a client different names")
        tasks[task.name] = task
        task.coroutine = work
        self.at(self.now_ms, task.name, self.resume, task, task.incarnation, None)
        return task

    def tasks_of(self, process: Client) -> list[Client]:
        """Return the tasks of a process that have not ended."""
        return list(self.tasks.get(process.name, {}).values())

    def crash(self, process: Client) -> None:
        """Crash a process. Its coroutines are never resumed, so none of their `finally` blocks runs before the verdict."""
        for client in (process, *self.tasks_of(process)):
            if client.coroutine is not None:
                self._graveyard.append(client.coroutine)
            client.incarnation += 1
            client.coroutine, client.waiting = None, 0
        self.tasks.pop(process.name, None)

    def interrupt(self, client: Client) -> None:
        """Cancel a task. What it awaits no longer resumes it; that it is cancelled is its next event."""
        client.incarnation += 1
        client.interrupted, client.waiting = True, 0
        self.at(self.now_ms, client.name, self._interrupted, client, client.incarnation)

    def _interrupted(self, client: Client, incarnation: int) -> None:
        if client.incarnation == incarnation:
            client.interrupted = False
            self.resume(client, incarnation, None, Cancelled(None))

    def cancel(self, client: Client, cancelled: Cancelled) -> None:
        """Throw `cancelled` in where the client awaits. What it awaits no longer resumes it."""
        client.incarnation += 1
        self.resume(client, client.incarnation, None, cancelled)

    def resume(self, client: Client, incarnation: int, result: Any, error: BaseException | None = None) -> None:
        if client.incarnation != incarnation:
            return
        client.waiting = 0
        self.running = client
        try:
            asked = client.coroutine.send(result) if error is None else client.coroutine.throw(error)
        except StopIteration as end:
            self._end(client, end.value)
            return
        if type(asked) is Request:
            self.on_request(client, asked)
        elif type(asked) is Sleep:
            self.at(self.now_ms + max(asked.duration_ms, 1), client.name, self.resume, client, incarnation, None)
        elif type(asked) is Join:
            for task in asked.tasks:
                task.awaited_by.append((client, incarnation))
        else:
            asked.begin(client)

    def _end(self, client: Client, result: Any) -> None:
        """Note that a client has ended, and resume who awaits it. Raises RuntimeError for a process whose tasks run."""
        client.done = True
        if client.of is None:
            if self.tasks.get(client.name):
                tasks = ", ".join(self.tasks[client.name])
                raise RuntimeError(f"{client.name} has ended before {tasks}: cancel and await them")
            return
        client.result, client.coroutine = result, None
        del self.tasks[client.of.name][client.name]
        for waiting, incarnation in client.awaited_by:
            if waiting.incarnation == incarnation:  # else another task that it awaits has ended, or it was cancelled
                waiting.incarnation += 1
                self.at(self.now_ms, waiting.name, self.resume, waiting, waiting.incarnation, None)
        client.awaited_by.clear()

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

    def postpone(self, is_owner: Callable[[str], bool], until_ms: int) -> None:
        """Let none of the waiting events of these owners happen before that time."""
        late = [event for event in self.waiting if is_owner(event[2])]
        rest = [event for event in self.waiting if not is_owner(event[2])]
        make = Event._make if self.schedule else tuple
        self.waiting[:] = sorted([*rest, *(make((max(event[0], until_ms), *event[1:])) for event in late)])

    def in_time(self) -> None:
        """Drop the schedule: from now on events happen at their times, and late ones at once."""
        self.schedule = None
        self.waiting = [(max(event[0], self.now_ms), *event[1:]) for event in self.waiting]
        self.waiting.sort()

    def close(self) -> None:
        """Close the coroutines of crashed clients, and drop all references, so that a run leaves no cycles.

        Raises what a coroutine raises that does not end; the others are closed all the same."""
        self._graveyard += [task.coroutine for tasks in self.tasks.values() for task in tasks.values()]
        self.tasks.clear()
        try:
            while self._graveyard:
                self._graveyard.pop(0).close()
        except BaseException:
            self.close()
            raise
        self.waiting.clear()
        self.running = None
        del self.on_request, self.on_timeout, self.on_interrupt, self.schedule
