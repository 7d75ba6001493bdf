"""Safety: a writer is never told «you lost» of a write of its own that was applied, though its SDK sends requests again.

SlateDB's put-id, above any store of the seam: each logical put has bytes of its own, and who finds them there finds its own.
By default the put-id is the whole body, which names its writer wherever no two logical puts of a key are alike: a manifest
holds the id of its update. (A boundary holds none; but of two equal boundaries either will do.)

An error speaks of the last attempt alone. So a put in doubt (no answer, or a refusal after it was sent again) is resolved by
reading back:

- Its own put-id is there: it was applied.
- Another's: that proves nothing by itself. Ours may have been there before, and been collected. Only if nothing of this key can
  have been deleted yet (`kept`) was the other there first: AlreadyExists.
- Nothing (404), or no answer: the third outcome. It may never have been applied, or be under way, or applied, built upon and
  collected: OutcomeUnknown, never «not mine».

A refusal without doubt (409: another request to the key was under way; 429) is definite, and sent again here; it is no evidence
of an object, so it is never AlreadyExists. A 503 leaves doubt, like no answer.
"""

from collections.abc import Awaitable, Callable, Hashable

from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import BoundaryLost, InvalidBoundary, ObjectStoreBoundaryObject
from highwater.impl.world import Clock, ObjectStore, World

Kept = Callable[[str], Awaitable[bool]]  # whether no object of this key can have been deleted before the call


def whole(body: bytes) -> Hashable:
    return body


async def never(key: str) -> bool:
    return False


class VerifiedStore:
    """An ObjectStore above one that may send requests again.

    An error tells in its attribute `attempts` how many it stands for; one that has none stands for one, or, if `inner` is
    `silent` about it, for any number. `attempts` of this class: how often a put that was refused is sent in all.
    """

    def __init__(self, inner: ObjectStore, clock: Clock, put_id: Callable[[bytes], Hashable] = whole, kept: Kept = never,
                 silent: bool = False, attempts: int = 4, pause_ms: int = 100):
        self.inner, self.clock, self.put_id, self.kept, self.silent = inner, clock, put_id, kept, silent
        self.attempts, self.pause_ms, self.caches = attempts, pause_ms, inner.caches
        self.get, self.get_if_changed, self.head = inner.get, inner.get_if_changed, inner.head
        self.list_page, self.delete = inner.list_page, inner.delete

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
        """The version of our own object. Raises AlreadyExists, OutcomeUnknown."""
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
    """«Before GC may delete sequenced metadata file ID i, the durable boundary for that namespace must be >= i»: ahead of a
    boundary read now nothing has been deleted yet. Nothing deletes a boundary."""
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
    """The world of a client of sequenced metadata whose store sends requests again."""
    store = VerifiedStore(world.store, world.clock, kept=ahead_of_boundary(world, namespace), silent=silent)
    return world._replace(store=store)
