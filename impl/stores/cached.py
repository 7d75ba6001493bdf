"""Unsafe on purpose: answers reads from memory long after another client has changed the object.

SlateDB's RFC on GC boundary files: «The boundary read must not be served from a stale object cache. Manifest and compactions
stores must not use CachedObjectStore.» This is such a store. Sequenced metadata refuses it because `caches` is true. A mutant
that uses it anyway shows why.
"""

from highwater.impl.stores.ranges import check_range, part_of
from highwater.impl.world import Entry, Object, ObjectStore, Page


class CachingStore:
    """A read-through cache over `inner`. The first GET of an object is kept and answers all later ones.

    Its own writes and deletes drop the kept object; it does not notice those of other clients. Listings and HEAD are not
    cached.
    """

    caches = True

    def __init__(self, inner: ObjectStore):
        self._inner = inner
        self._kept: dict[str, Object] = {}

    async def create(self, key: str, body: bytes) -> str:
        self._kept.pop(key, None)
        return await self._inner.create(key, body)

    async def update(self, key: str, body: bytes, version: str) -> str:
        self._kept.pop(key, None)
        return await self._inner.update(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        self._kept.pop(key, None)
        return await self._inner.put(key, body)

    async def get(self, key: str) -> Object:
        if key not in self._kept:
            self._kept[key] = await self._inner.get(key)
        return self._kept[key]

    async def get_range(self, key: str, start: int, end: int) -> Object:
        check_range(start, end)
        return part_of(await self.get(key), key, start, end)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        found = await self.get(key)
        return None if found.version == version else found

    async def head(self, key: str) -> Entry:
        return await self._inner.head(key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self._inner.list_page(prefix, after)

    async def delete(self, key: str) -> None:
        self._kept.pop(key, None)
        await self._inner.delete(key)
