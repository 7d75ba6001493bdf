"""Safety: clients that write into one local database exclude each other, whichever other databases they write into.

A clone names its parents by paths from the root of the file system, so a command may write into several databases. Each of
them is a LocalStore of its own, with its locks in its own folder. This store finds the database by the key:
`<root>/<folder>/<file>`. A database's folder and its locks are made by the first mutation, so what only reads leaves nothing.
"""

import asyncio

from highwater.impl.errors import Unavailable
from highwater.impl.stores.local import LocalStore
from highwater.impl.world import Entry, Object, Page

FOLDERS = ("manifest", "compactions", "wal", "compacted", "gc")


class LocalDatabases:
    """An ObjectStore of all databases below `root`. Their keys begin with the paths of their folders."""

    caches = False

    def __init__(self, root: str = "/"):
        self._root = root.rstrip("/")
        self._read = LocalStore(root, read_only=True)
        self._opened: dict[str, LocalStore] = {}

    async def get(self, key: str) -> Object:
        return await self._read.get(key)

    async def get_range(self, key: str, start: int, end: int) -> Object:
        return await self._read.get_range(key, start, end)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._read.get_if_changed(key, version)

    async def head(self, key: str) -> Entry:
        return await self._read.head(key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self._read.list_page(prefix, after)

    async def create(self, key: str, body: bytes) -> str:
        store, key = await self._of(key)
        return await store.create(key, body)

    async def update(self, key: str, body: bytes, version: str) -> str:
        store, key = await self._of(key)
        return await store.update(key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        store, key = await self._of(key)
        return await store.put(key, body)

    async def delete(self, key: str) -> None:
        store, key = await self._of(key)
        await store.delete(key)

    async def _of(self, key: str) -> tuple[LocalStore, str]:
        """Return the store of a key's database, and the key in it. Raises ValueError for a key that no database has, and
        Unavailable if its folder cannot be opened."""
        root, _, folder = key.rpartition("/")[0].rpartition("/")
        if folder not in FOLDERS:
            raise ValueError(f"bad key {key!r}: a database's objects are in its folders {', '.join(FOLDERS)}")
        if root not in self._opened:
            try:
                self._opened[root] = await asyncio.to_thread(LocalStore, f"{self._root}/{root}")
            except OSError as error:
                raise Unavailable(f"{key!r}: {error}") from error
        return self._opened[root], key.removeprefix(f"{root}/")

    def strays(self, folder: str) -> list[str]:
        """Return what LocalStore.strays returns."""
        return self._read.strays(folder)


