"""Run an implementation by scripts: one client alone, with a store that fails exactly where the script says.

Drawn runs seldom bring about ten conflicts in a row, and never a call that is refused before any request. A script does, and it
knows the one right answer to each call, and the requests that lead to it. Safety: a run of a scenario fails if one of its
scripts does. The scripts of a scenario run once in a process, because nothing in them is drawn.
"""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import coroutine
from typing import Any, NamedTuple

from highwater.impl.errors import OutcomeUnknown, StoreError, TaskCancelled
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import Entry, Object, ObjectStore, Page, World
from highwater.traces.refine import Failure

Script = Callable[["Alone"], Coroutine[Any, Any, None]]
LOST = "lost"  # the request takes effect, and its response is lost
HANGS = "hangs"  # the request takes no effect yet, and the client waits for it until its caller cancels the call
UNHEARD = "unheard"  # the request takes effect, and the client waits for its response until its caller cancels the call
How = str | type[StoreError] | Callable[[], Awaitable[Any]]
MOST_REQUESTS = 10_000  # of a script
MANY = 1_100  # objects of a script: more than a page of a listing has
LARGE = (8, 98, 998, 10**9, 2**63, 2**64 - 5)  # ids after which a script goes on: some have a digit more soon


class Cancelled(BaseException):
    """Thrown into a call by its caller, who cancels it."""


class Fault(NamedTuple):
    op: str
    part: str  # of the key
    how: How
    times: list[int]  # one number: how often it still happens


class Alone:
    """The world of one client, for a script: a store in memory with faults, a clock that only sleeping moves, and what was
    counted and warned."""

    def __init__(self) -> None:
        self.now, self.jumped, self.ids, self.asked = 1_000_000, 0, 0, 0  # `jumped`: what the clock was set ahead by
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.real = MemoryStore(self.now_ms)  # to look at, and to change as another client does
        self.world = World(Faulty(self), self, self, self)  # pyright: ignore[reportArgumentType]  # three parts in one
        self.counted: list[str] = []
        self.warnings: list[str] = []

    def fails(self, op: str, part: str, how: How, times: int = 1) -> None:
        """Let the next `times` requests of this kind, whose keys contain `part`, fail.

        `how`: LOST, HANGS, UNHEARD, the class of an error for a request without effect, or what another client does just
        before it."""
        self.faults.append(Fault(op, part, how, [times]))

    def sent(self) -> list[str]:
        """Return the requests since the last call of this, each as its kind and the last part of its key."""
        sent, self.requests = self.requests, []
        return sent

    async def raises(self, error: type[BaseException], call: Awaitable[Any], **attributes: Any) -> BaseException:
        """Check that a call raises exactly this class, with these attributes. Return the error."""
        try:
            value = await call
        except (Failure, GeneratorExit):
            raise
        except BaseException as raised:
            if type(raised) is not error:
                raise wrong(f"{type(raised).__name__} is raised, and should be {error.__name__}") from raised
            for name, of in attributes.items():
                same(getattr(raised, name, None), of, f"{name} of {error.__name__}")
            return raised
        raise wrong(f"{value!r} is returned, and {error.__name__} should be raised")

    async def cancels(self, call: Coroutine[Any, Any, Any]) -> None:
        """Cancel a call at the first request of it that hangs."""
        await self.raises(Cancelled, thrown_into(call))

    # --- clock, ids and metrics

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now - self.jumped

    async def sleep_ms(self, duration_ms: int) -> None:
        self.now += duration_ms

    async def timeout(self, duration_ms: int, call: Awaitable[Any]) -> Any:
        return await call

    async def first(self, **works: Coroutine[Any, Any, Any]) -> Any:
        """Run the work that stands first to its end; the others do not begin."""
        first, *others = works.values()
        for other in others:
            other.close()
        return await first

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "Still":
        work.close()
        return Still()

    def new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    def count(self, name: str, amount: int = 1) -> None:
        self.counted += [name] * amount

    def observe(self, name: str, value: float) -> None:
        self.counted.append(name)

    def warn(self, message: str) -> None:
        self.warnings.append(message)


class Still:
    """A task of a script: it takes no step, and the script does what the task would do."""

    def cancel(self) -> None:
        pass

    def __await__(self) -> Generator[Any, Any, Any]:
        raise TaskCancelled("it was cancelled before it began")
        yield


class Faulty:
    """The store of a script."""

    caches = False

    def __init__(self, alone: Alone):
        self.alone = alone

    async def create(self, key: str, body: bytes) -> str:
        return await self.asked("create", key, lambda: self.alone.real.create(key, body))

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self.asked("update", key, lambda: self.alone.real.update(key, body, version))

    async def put(self, key: str, body: bytes) -> str:
        return await self.asked("put", key, lambda: self.alone.real.put(key, body))

    async def get(self, key: str) -> Object:
        return await self.asked("get", key, lambda: self.alone.real.get(key))

    async def get_range(self, key: str, start: int, end: int) -> Object:
        return await self.asked("get_range", key, lambda: self.alone.real.get_range(key, start, end))

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self.asked("get_if_changed", key, lambda: self.alone.real.get_if_changed(key, version))

    async def head(self, key: str) -> Entry:
        return await self.asked("head", key, lambda: self.alone.real.head(key))

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self.asked("list", prefix, lambda: self.alone.real.list_page(prefix, after))

    async def delete(self, key: str) -> None:
        return await self.asked("delete", key, lambda: self.alone.real.delete(key))

    async def asked(self, op: str, key: str, apply: Callable[[], Awaitable[Any]]) -> Any:
        of = self.alone
        of.requests.append(f"{op} {key.rstrip('/').rpartition('/')[2].lstrip('0')}")
        of.asked += 1
        if of.asked > MOST_REQUESTS:
            raise wrong(f"no end after {MOST_REQUESTS:,} requests")
        fault = next((each for each in of.faults if each.op == op and each.part in key and each.times[0]), None)
        if fault is None:
            return await apply()
        fault.times[0] -= 1
        if isinstance(fault.how, type):
            raise fault.how(f"as the script says: {op} {key}")
        if callable(fault.how):
            await fault.how()
            return await apply()
        if fault.how == HANGS:
            await forever()
        await apply()
        if fault.how == UNHEARD:
            await forever()
        raise OutcomeUnknown(f"as the script says: no response to {op} {key}")


@coroutine
def forever() -> Generator[None, None, None]:
    """Suspend the call, which its caller then cancels."""
    yield


@coroutine
def thrown_into(call: Coroutine[Any, Any, Any]) -> Generator[None, None, Any]:
    """Run a call until it is suspended, and cancel it there."""
    yield from ()
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    return call.throw(Cancelled())


def wrong(what: str) -> Failure:
    return Failure("safety", "script", what)


def same(found: Any, right: Any, what: str = "the answer") -> None:
    """Check a value that a script knows. Raises Failure."""
    if found != right or type(found) is not type(right):
        raise wrong(f"{what} is {found!r}, and should be {right!r}")


def check(condition: object, what: str) -> None:
    """Raise Failure unless the condition holds. `what` tells what should be so."""
    if not condition:
        raise wrong(f"it is not so that {what}")


def refuses_a_cache(made: Callable[[ObjectStore], Any]) -> None:
    """Check that nothing can be made of a store that answers reads from memory."""
    store = Faulty(Alone())
    store.caches = True
    fails_with(ValueError, lambda: made(store))


def fails_with(error: type[Exception], call: Callable[[], Any]) -> None:
    """Check that a plain call raises exactly this class."""
    try:
        value = call()
    except Exception as raised:
        if type(raised) is not error:
            raise wrong(f"{type(raised).__name__} is raised, and should be {error.__name__}") from raised
    else:
        raise wrong(f"{value!r} is returned, and {error.__name__} should be raised")


def line_of(error: BaseException, script: Script) -> str:
    """Return, in brackets, the innermost line of a script's file that raised an error."""
    file = script.__code__.co_filename
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" ({'/'.join(Path(file).parts[-2:])}:{lines[-1]})" if lines else ""


@cache
def failed(scripts: tuple[Script, ...]) -> Failure | None:
    """Run scripts; return how the first of them that fails does."""
    for script in scripts:
        try:
            script(Alone()).send(None)
        except StopIteration:
            continue
        except Failure as failure:
            what = f"{failure}{line_of(failure, script)}"
        except Exception as error:
            what = f"{type(error).__name__}: {error}{line_of(error, script)}"
        else:
            what = "it waits for something that never comes"
        return Failure("safety", f"script:{script.__name__}", f"the script {script.__name__} of "
                       f"{script.__module__.removeprefix('highwater.')} failed: {what}")
    return None
