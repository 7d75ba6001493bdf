"""The seam: all that an implementation may know of the world outside itself.

Production gives it real things (impl/stores, impl/stores/system.py), the simulator gives it its own. Code above this
seam is plain `async def`; it awaits nothing but these methods, so one await is one store request, or one sleep.
"""

from typing import NamedTuple, Protocol

from highwater.impl.errors import ListingNeverEnds


class Object(NamedTuple):
    """An object as one GET saw it."""

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
    """One page of a listing: entries in ascending key order; `truncated` tells that further keys may follow the last, and
    may be true where none does."""

    entries: tuple[Entry, ...]
    truncated: bool


class ObjectStore(Protocol):
    """The primitives of source 004. Reads raise `Unavailable` and mutations raise `OutcomeUnknown` for want of an answer.

    Every method is atomic at one moment between its call and its return; after an indefinite error that moment may
    still lie ahead. A page of a listing sees every put that was completed before the page was asked for; a listing of
    several pages is not a snapshot. Keys are segments between slashes, none of them empty, `.` or `..`; a store raises
    ValueError for any other.
    """

    caches: bool  # True for a store that may answer a read from memory; sequenced metadata refuses such a store

    async def create(self, key: str, body: bytes) -> str:
        """PUT If-None-Match: *. Returns the new version; raises AlreadyExists."""
        ...

    async def update(self, key: str, body: bytes, version: str) -> str:
        """PUT If-Match: version. Returns the new version; raises PreconditionFailed, also where there is no object."""
        ...

    async def put(self, key: str, body: bytes) -> str:
        """Unconditional PUT: the last writer wins. Returns the new version."""
        ...

    async def get(self, key: str) -> Object:
        """GET. Raises NotFound."""
        ...

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        """GET If-None-Match: version. None means not modified (304). Raises NotFound."""
        ...

    async def head(self, key: str) -> Entry:
        """HEAD. Raises NotFound."""
        ...

    async def list_page(self, prefix: str, after: str = "") -> Page:
        """The first page of the keys that start with `prefix` and are greater than `after`, in key order."""
        ...

    async def delete(self, key: str) -> None:
        """DELETE. To delete what is not there is no error."""
        ...


class Clock(Protocol):
    """A client's own clock: it may be ahead of or behind the store's."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def sleep_ms(self, duration_ms: int) -> None:
        """Return after `duration_ms` at the earliest; any number of milliseconds later is possible."""
        ...


class Ids(Protocol):
    def new_id(self) -> str:
        """A ULID in its 26-letter form, never given before."""
        ...


class Metrics(Protocol):
    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        ...

    def observe(self, name: str, value: float) -> None:
        """Record one value of a distribution; the name ends in its unit."""
        ...

    def warn(self, message: str) -> None:
        """Tell the operator."""
        ...


class World(NamedTuple):
    """What one client is given."""

    store: ObjectStore
    clock: Clock
    ids: Ids
    metrics: Metrics


async def list_all(store: ObjectStore, prefix: str, after: str = "") -> list[Entry]:
    """Every page of a listing, one after another: not a snapshot (see `ObjectStore`).

    Raises ListingNeverEnds if a page is truncated and yet brings nothing that is greater than where it was to begin.
    """
    entries: list[Entry] = []
    while True:
        page = await store.list_page(prefix, after)
        entries.extend(page.entries)
        if not page.truncated:
            return entries
        if not page.entries or page.entries[-1].key <= after:
            raise ListingNeverEnds(prefix, after)
        after = page.entries[-1].key
