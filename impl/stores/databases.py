"""Safety: clients that write into one local database exclude each other, whichever other databases they write into.

A clone names its parents by paths, so a client reads and writes several databases. Each of them is a LocalStore of its own,
with its locks in its own folder. This store finds the database by the key: `<root>/<folder>/<file>`. A database's folder and
its locks are made by the first mutation, so what only reads leaves nothing.

Paths begin at the root of the object store of the client that made the clone, and no manifest says where that is. It is the
root of the file system for a client of `file:///`, and another folder for one with a prefix (SlateDB's LOCAL_PATH). `base_of`
finds it: the parents are below it.
"""

import asyncio
import os
from collections.abc import Iterator

from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.errors import Definite, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.stores.keys import OWN_FOLDER, fault_of
from highwater.impl.stores.local import LocalStore
from highwater.impl.world import Page

FOLDERS = ("manifest", "compactions", "wal", "compacted", "gc")
MANIFESTS = Namespace("", "manifest")


def base_of(folder: str) -> str:
    """Return the folder from which the database in `folder` names its parents, and which is above `folder` or is it: the one
    below which most of them are, and the lowest of several. "" if it has no parents, or if they are below none.

    `folder` is an absolute path, and so is what is returned."""
    parents = parents_of(folder)
    best, most = "", 0
    for base in above(folder) if parents else ():
        places = (os.path.normpath(os.path.join(base, path)) for path in sorted(parents))
        number = sum(place != folder and os.path.isdir(os.path.join(place, MANIFESTS.name)) for place in places)
        if number > most:
            best, most = base, number
    return best


def parents_of(folder: str) -> set[str]:
    """Return the paths of parents in the latest manifest of the database in `folder`, as far as they can be read."""
    try:
        ids = [number for name in sorted(os.listdir(os.path.join(folder, MANIFESTS.name)))
               if (number := MANIFESTS.file_id(MANIFESTS.prefix + name)) is not None]
        with open(os.path.join(folder, MANIFESTS.key(max(ids))), "rb") as file:
            manifest = ManifestCodec().decode(file.read())
    except (OSError, ValueError, Definite):  # the command says what is wrong with it
        return set()
    return {one.path for one in manifest.external_dbs if not (one.path and fault_of(one.path))}


def above(folder: str) -> Iterator[str]:
    """Yield a folder, and each one above it, up to the root."""
    while True:
        yield folder
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


class LocalDatabases:
    """An ObjectStore of all databases below `root`. Their keys begin with the paths of their folders."""

    caches = False

    def __init__(self, root: str = "/"):
        self._root = root.rstrip("/")
        self._read = LocalStore(root, read_only=True)
        self._opened: dict[str, LocalStore] = {}
        self.get, self.get_range, self.get_if_changed = self._read.get, self._read.get_range, self._read.get_if_changed
        self.head, self.strays = self._read.head, self._read.strays

    async def list_page(self, prefix: str, after: str = "") -> Page:
        """Return a page of keys. In a folder of a database it shows one moment, unless the locks there may not be written."""
        root, folder = parts(prefix)
        if folder not in FOLDERS or not await asyncio.to_thread(self._has_locks, root):
            page = await self._read.list_page(prefix, after)
            if folder not in FOLDERS or not await asyncio.to_thread(self._has_locks, root):
                return page  # no client with locks has changed anything meanwhile
        store, below = await self._opened_at(root), f"{root}/" if root else ""
        page = await store.list_page(prefix.removeprefix(below), after.removeprefix(below))
        return page._replace(entries=tuple(entry._replace(key=below + entry.key) for entry in page.entries))

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
        root, folder = parts(key)
        if folder not in FOLDERS:
            raise ValueError(f"bad key {key!r}: a database's objects are in its folders {', '.join(FOLDERS)}")
        return await self._opened_at(root), key.removeprefix(f"{root}/" if root else "")

    async def _opened_at(self, root: str) -> LocalStore:
        if root not in self._opened:
            try:
                self._opened[root] = await asyncio.to_thread(LocalStore, f"{self._root}/{root}")
            except OSError as error:
                raise Unavailable(f"{root!r}: {error}") from error
        return self._opened[root]

    def _has_locks(self, root: str) -> bool:
        return os.access(f"{self._root}/{root}/{OWN_FOLDER}", os.W_OK)


def parts(key: str) -> tuple[str, str]:
    """Return the root of the database, and the folder in it, that a key or the prefix of a folder is in."""
    root, _, folder = key.rpartition("/")[0].rpartition("/")
    return root, folder
