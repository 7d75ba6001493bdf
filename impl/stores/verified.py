"""Safety: a writer is never told «you lost» about a write of its own that was applied, even if its SDK retransmits requests.

This is SlateDB's put-id, above any store. Each logical put has bytes of its own, so a client that finds those bytes finds its
own put. By default the put-id is the whole body. It identifies the writer if no two logical puts of a key are equal; a
manifest, for example, holds the id of its update. A boundary holds no id, but of two equal boundaries either will do.

An error describes only the last attempt. So a put in doubt (no answer, or a refusal after a retransmission) is resolved by
reading back:

- Its own put-id is there: it was applied.
- Another put-id is there: that alone proves nothing. Ours may have been there before and been collected. Only if no object of
  this key can have been deleted yet (`kept`) was the other one first: AlreadyExists.
- Nothing is there (404), or there is no answer: the outcome is indeterminate. The put may never have been applied, be in
  flight, or have been applied, built upon and collected. The result is OutcomeUnknown, never «not mine».

A refusal without doubt (409: another request to the key was in flight; 429) is definite, and the put is sent again. It is no
evidence of an object, so it never becomes AlreadyExists. A 503 leaves doubt, like no answer.
"""

from collections.abc import Awaitable, Callable, Hashable

from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import BoundaryLost, InvalidBoundary, ObjectStoreBoundaryObject
from highwater.impl.world import Clock, ObjectStore, World

Kept = Callable[[str], Awaitable[bool]]  # returns True if no object of this key can have been deleted before the call


def whole(body: bytes) -> Hashable:
    return body


async def never(key: str) -> bool:
    return False


class VerifiedStore:
    """An ObjectStore above a store that may retransmit requests.

    The attribute `attempts` of an error is the number of attempts that it stands for. Without it, an error stands for one
    attempt, or for any number if `inner` is `silent` about retransmissions. `attempts` of this class is the number of times
    that a refused put is sent in all.
    """

    def __init__(self, inner: ObjectStore, clock: Clock, put_id: Callable[[bytes], Hashable] = whole, kept: Kept = never,
                 silent: bool = False, attempts: int = 4, pause_ms: int = 100):
        self.inner, self.clock, self.put_id, self.kept, self.silent = inner, clock, put_id, kept, silent
        self.attempts, self.pause_ms, self.caches = attempts, pause_ms, inner.caches
        self.get, self.get_range, self.get_if_changed = inner.get, inner.get_range, inner.get_if_changed
        self.head, self.list_page, self.delete = inner.head, inner.list_page, inner.delete

    async def create(self, key: str, body: bytes) -> str:
        return await self._resolved(AlreadyExists, key, body, lambda: self.inner.create(key, body))

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self._resolved(PreconditionFailed, key, body, lambda: self.inner.update(key, body, version))

    async def put(self, key: str, body: bytes) -> str:
        return await self._resolved(Unavailable, key, body, lambda: self.inner.put(key, body))

    async def _resolved(self, conflict: type[Exception], key: str, body: bytes, send: Callable[[], Awaitable[str]]) -> str:
        last: Exception = AssertionError("there is a first attempt")
        for attempt in range(self.attempts):
            if attempt:
                await self.clock.sleep_ms(self.pause_ms << attempt - 1)
            try:
                return await send()
            except (conflict, Unavailable, OutcomeUnknown) as error:
                last = error
            if isinstance(last, OutcomeUnknown) or self.in_doubt(last):
                return await self.verified(conflict, key, body, last)
            if not isinstance(last, Unavailable):
                break
        raise last

    def in_doubt(self, error: Exception) -> bool:
        return getattr(error, "attempts", 2 if self.silent else 1) > 1

    async def verified(self, conflict: type[Exception], key: str, body: bytes, error: Exception) -> str:
        """Return the version of our own object. Raises AlreadyExists, OutcomeUnknown."""
        try:
            found = await self.inner.get(key)
            if self.put_id(found.body) == self.put_id(body):
                return found.version
            lost = conflict is AlreadyExists and await self.kept(key)
        except (NotFound, Unavailable) as unread:
            raise OutcomeUnknown(f"{key!r}: {error}; whether it was applied could not be read: {unread!r}") from error
        if lost:
            raise AlreadyExists(key) from error
        raise OutcomeUnknown(f"{key!r}: {error}; another's is there, ours may have been before it") from error


def ahead_of_boundary(world: World, namespace: Namespace) -> Kept:
    """Return a `Kept` that reads the durable boundary: no file above it has been deleted yet.

    «Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i.» Nothing deletes a
    boundary.
    """
    boundary = ObjectStoreBoundaryObject(world, namespace)

    async def kept(key: str) -> bool:
        if key == namespace.boundary_key:
            return True
        file_id = namespace.file_id(key) if key.startswith(namespace.prefix) else None
        if file_id is None:
            return False
        try:
            return file_id > await boundary.read()
        except (BoundaryLost, InvalidBoundary) as error:
            raise Unavailable(f"the boundary does not tell: {error}") from error

    return kept


def verified(world: World, namespace: Namespace, silent: bool = False) -> World:
    """Return the world of a client of sequenced metadata whose store retransmits requests."""
    store = VerifiedStore(world.store, world.clock, kept=ahead_of_boundary(world, namespace), silent=silent)
    return world._replace(store=store)
