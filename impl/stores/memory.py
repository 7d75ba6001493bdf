"""Safety: one lock makes every request atomic between tasks and threads; no version is given twice."""

import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable

from highwater.impl.errors import AlreadyExists, NotFound, PreconditionFailed
from highwater.impl.stores.keys import check_key
from highwater.impl.stores.ranges import check_range, part_of
from highwater.impl.world import Entry, Object, Page


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """An ObjectStore in the memory of one process, which ends with the process.

    `now_ms` is the store's clock; it sets `last_modified_ms`. A version is a number that counts all writes of this store. So
    equal bytes written twice have two versions.
    """

    caches = False

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms, page_size: int = 1000):
        self._now_ms = now_ms
        self._page_size = page_size
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self._keys: list[str] = []  # sorted; the order of code points equals the order of UTF-8 bytes
        self._writes = 0

    async def create(self, key: str, body: bytes) -> str:
        check_key(key)
        with self._lock:
            if key in self._objects:
                raise AlreadyExists(key)
            return self._write(key, body)

    async def update(self, key: str, body: bytes, version: str) -> str:
        check_key(key)
        with self._lock:
            if key not in self._objects or self._objects[key].version != version:
                raise PreconditionFailed(key)
            return self._write(key, body)

    async def put(self, key: str, body: bytes) -> str:
        check_key(key)
        with self._lock:
            return self._write(key, body)

    async def get(self, key: str) -> Object:
        check_key(key)
        with self._lock:
            return self._find(key)

    async def get_range(self, key: str, start: int, end: int) -> Object:
        check_range(start, end)
        return part_of(await self.get(key), key, start, end)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        found = await self.get(key)
        return None if found.version == version else found

    async def head(self, key: str) -> Entry:
        check_key(key)
        with self._lock:
            return self._entry(key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        with self._lock:
            start = bisect_right(self._keys, after) if after >= prefix else bisect_left(self._keys, prefix)
            keys = self._keys[start : start + self._page_size + 1]
            keys = [key for key in keys if key.startswith(prefix)]
            entries = tuple(self._entry(key) for key in keys[: self._page_size])
            return Page(entries, truncated=len(keys) > self._page_size)

    async def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def _write(self, key: str, body: bytes) -> str:
        if key not in self._objects:
            insort(self._keys, key)
        self._writes += 1
        self._objects[key] = Object(bytes(body), str(self._writes), self._now_ms())
        return self._objects[key].version

    def _find(self, key: str) -> Object:
        if key not in self._objects:
            raise NotFound(key)
        return self._objects[key]

    def _entry(self, key: str) -> Entry:
        found = self._find(key)
        return Entry(key, len(found.body), found.last_modified_ms, found.version)
