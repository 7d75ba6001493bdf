"""Defines the seam: everything that an implementation may know of the outside world.

In production the seam gives real things (impl/stores, impl/stores/system.py); the simulator gives its own. Code above the seam
is plain `async def` and awaits only these methods. So one await is one store request, one sleep, or the end of a task.
"""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, NamedTuple, Protocol, TypeVar

from highwater.impl.errors import ListingNeverEnds

Result = TypeVar("Result")
Kept = TypeVar("Kept", covariant=True)


class Object(NamedTuple):
    """An object as one GET saw it, or a range of its bytes."""

    body: bytes
    version: str  # opaque: compare for equality only; hand it back to `update` and `get_if_changed`
    last_modified_ms: int  # by the store's clock


class Entry(NamedTuple):
    """One object of a listing."""

    key: str
    size_bytes: int
    last_modified_ms: int  # by the store's clock
    version: str


class Page(NamedTuple):
    """One page of a listing, in ascending key order.

    If `truncated` is true, more keys may follow the last one. It may be true even if none follows.
    """

    entries: tuple[Entry, ...]
    truncated: bool


class ObjectStore(Protocol):
    """The store primitives of the essay on object-store protocols.

    Without an answer, reads raise `Unavailable` and mutations raise `OutcomeUnknown`. Every method takes effect atomically at
    one moment between its call and its return. After an indefinite error that moment may lie in the future.

    A page of a listing contains every put that was completed before the page was requested. A listing of several pages is not a
    snapshot. A key consists of segments between slashes; no segment is empty, `.` or `..`. A store raises ValueError for any
    other key.
    """

    caches: bool  # True for a store that may answer a read from memory; sequenced metadata refuses such a store

    async def create(self, key: str, body: bytes) -> str:
        """PUT If-None-Match: *. Returns the new version. Raises AlreadyExists."""
        ...

    async def update(self, key: str, body: bytes, version: str) -> str:
        """PUT If-Match: version. Returns the new version. Raises PreconditionFailed, also if there is no object."""
        ...

    async def put(self, key: str, body: bytes) -> str:
        """Unconditional PUT: the last writer wins. Returns the new version."""
        ...

    async def get(self, key: str) -> Object:
        """GET. Raises NotFound."""
        ...

    async def get_range(self, key: str, start: int, end: int) -> Object:
        """GET with a Range: only the bytes from `start` up to before `end`, or up to the object's end if that comes first.

        Version and time are those of the object, so ranges with equal versions are of equal objects. Raises NotFound,
        BeyondEnd if the object has no byte at `start`, and ValueError unless 0 <= start < end.
        """
        ...

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        """GET If-None-Match: version. Returns None if the object is not modified (304). Raises NotFound."""
        ...

    async def head(self, key: str) -> Entry:
        """HEAD. Raises NotFound."""
        ...

    async def list_page(self, prefix: str, after: str = "") -> Page:
        """Return the first page of the keys that start with `prefix` and are greater than `after`, in key order."""
        ...

    async def delete(self, key: str) -> None:
        """DELETE. Deleting an absent object is not an error."""
        ...


class Task(Protocol[Kept]):
    """Work that goes on beside the code that spawned it.

    `await task` returns what the work returned, or raises the StoreError that it raised, as often as it is awaited. It raises
    TaskCancelled if the task was cancelled. A caller that is cancelled while it awaits a task does not cancel the task.
    """

    def cancel(self) -> None:
        """Cancel the work at the point that it awaits: it takes no further step but its `finally` blocks.

        A task that has ended stays as it is. A task that has not begun never begins. Await the task to know that it has ended.
        """
        ...

    def __await__(self) -> Generator[Any, Any, Kept]: ...


class Clock(Protocol):
    """A client's own time: a clock, which may be ahead of the store's clock or behind it, and what happens beside each other.
    """

    def now_ms(self) -> int:
        """Return the milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Return the milliseconds since some moment. It advances at the rate of time, whatever the clock is set to."""
        ...

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after `duration_ms` at the earliest; it may return any number of milliseconds later."""
        ...

    async def timeout(self, duration_ms: int, call: Awaitable[Result]) -> Result:
        """Return what `call` returns. Once `duration_ms` are over, cancel it at the point that it awaits, and raise TimedOut.

        A request in flight is not recalled: it may still be applied. An object whose call was cancelled may be used again,
        unless it refuses that.
        """
        ...

    def spawn(self, work: Coroutine[Any, Any, Result], name: str) -> Task[Result]:
        """Run `work` beside the caller. Its first step comes after the caller's next await.

        `name` tells the tasks of a client apart: two that run at the same time have different names. Whoever spawns a task
        cancels and awaits it, or awaits its end: a client does not end before its tasks. A crash ends all of them.
        """
        ...

    async def first(self, **works: Coroutine[Any, Any, Result]) -> Result:
        """Run `works` beside each other, each as a task of its name. Return what the first to end returns, or raise its error.

        The others are cancelled, and have ended when this returns; what they raised is dropped. So have all if the caller is
        cancelled. If several have ended, the one that stands first counts.
        """
        ...


class Ids(Protocol):
    """A source of unique ids."""

    def new_id(self) -> str:
        """Return a new ULID in its 26-letter form; no ULID is returned twice."""
        ...


class Metrics(Protocol):
    """The metrics and warnings of one client."""

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float) -> None:
        """Record one value of a distribution; the name ends in its unit."""
        ...

    def warn(self, message: str) -> None:
        """Send a warning to the operator."""
        ...


class World(NamedTuple):
    """Everything that one client is given."""

    store: ObjectStore
    clock: Clock
    ids: Ids
    metrics: Metrics


async def list_all(store: ObjectStore, prefix: str, after: str = "") -> list[Entry]:
    """List all keys, page by page. The result is not a snapshot (see `ObjectStore`).

    A key that a page repeats from the page before is listed once: callers take the last entry for the latest, and the others
    for older ones. Raises ListingNeverEnds if a truncated page brings no key greater than `after`.
    """
    entries: list[Entry] = []
    while True:
        page = await store.list_page(prefix, after)
        repeated = bool(after and page.entries and page.entries[0].key == after)
        entries.extend(page.entries[1:] if repeated else page.entries)
        if not page.truncated:
            return entries
        if not page.entries or page.entries[-1].key <= after:
            raise ListingNeverEnds(prefix, after)
        after = page.entries[-1].key
