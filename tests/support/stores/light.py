"""Opens the stores that import little, so that a worker process on local files need not wait for boto3."""

from typing import NamedTuple

from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore, wall_clock_ms
from highwater.impl.world import ObjectStore


class MemoryStores:
    kind = "memory"
    s3 = False

    def __init__(self):
        self._store: MemoryStore | None = None
        self.now_ms = wall_clock_ms

    def open(self, page_size: int = 1000) -> ObjectStore:
        """Return the same store each time; the first caller chooses its page size."""
        self._store = self._store or MemoryStore(self.now_ms, page_size)
        return self._store


class LocalStores(NamedTuple):
    root: str
    kind = "local"
    s3 = False

    def open(self, page_size: int = 1000) -> ObjectStore:
        return LocalStore(self.root, page_size)
