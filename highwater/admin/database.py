"""Safety: the description of a database is what was in the store, and reading it changes nothing.

This module reads all metadata of a SlateDB database in any state. A file that cannot be read is kept with the reason; no error
is raised for it.

    <root>/manifest/<id, 20 digits>.manifest      <root>/compactions/<id>.compactions      <root>/gc/<name>.boundary
    <root>/wal/<id>.sst, 0 bytes: a fence         <root>/compacted/<ULID>.sst              <root>/.deleting: it is being deleted
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import InvalidName, Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary, parse
from highwater.impl.stores.local import LocalStore
from highwater.impl.world import Entry, World, list_all

NAMES = ("manifest", "compactions")  # the namespaces that have a boundary


class File(NamedTuple):
    """A sequenced file. `value` is None if it cannot be read; `fault` says why."""

    id: int
    last_modified_ms: int
    size_bytes: int
    version: int  # 0: unknown
    value: Any
    fault: str = ""


class Wal(NamedTuple):
    """A file of the write-ahead log."""

    id: int
    last_modified_ms: int
    size_bytes: int

    @property
    def fence(self) -> bool:
        """True for a fence. Before release 0.14 fences had a body; those look like data here."""
        return self.size_bytes == 0


class Boundary(NamedTuple):
    """A boundary. `value` is 0 if there is none, and None if it cannot be read."""

    value: int | None
    fault: str = ""


class Database(NamedTuple):
    """All metadata of one database."""

    root: str
    manifests: tuple[File, ...]  # in the order of their ids, like the other files here
    compactions: tuple[File, ...]
    boundaries: dict[str, Boundary]  # by namespace; read before the files are listed
    wal: tuple[Wal, ...]
    ssts: dict[str, int]  # the ids of the SSTs in compacted/, with their sizes in bytes
    foreign: tuple[str, ...]  # keys with the suffix of a folder and a name that no client gives
    deleting: bool
    strays: tuple[str, ...] = ()  # files in a folder that are no objects here
    wal_elsewhere: bool = False  # the WAL was read from another place

    @property
    def is_none(self) -> bool:
        """True if there is no file of a database."""
        return not (self.manifests or self.compactions or self.wal or self.ssts or self.foreign)

    @property
    def latest(self) -> Manifest | None:
        return self.manifests[-1].value if self.manifests else None


class Place(NamedTuple):
    """The place of a WAL that is not beside the manifest."""

    world: World
    root: str


async def load(world: World, root: str, wal_at: Place | None = None) -> Database:
    """Read everything except the contents of SSTs. Raises Unavailable, ListingNeverEnds."""
    boundaries = {name: await boundary_of(world, Namespace(root, name)) for name in NAMES}
    foreign: list[str] = []
    manifests = await files_of(world, Namespace(root, "manifest"), ManifestCodec().decode, foreign)
    compactions = await files_of(world, Namespace(root, "compactions"), compactions_slatedb.decode, foreign)
    wal = [Wal(number, entry.last_modified_ms, entry.size_bytes)
           for number, entry in await numbered(wal_at.world if wal_at else world, wal_namespace(root, wal_at), foreign)]
    ssts = await ssts_of(world, root, foreign)
    return Database(root, manifests, compactions, boundaries, tuple(wal), ssts, tuple(foreign), await deleting(world, root),
                    strays_of(world, root), wal_at is not None)


def wal_namespace(root: str, wal_at: Place | None) -> Namespace:
    return Namespace(wal_at.root if wal_at else root, "wal")


def strays_of(world: World, root: str) -> tuple[str, ...]:
    """Return the files of a local database that are no objects. Released clients list them, and may fail or wait."""
    if not isinstance(world.store, LocalStore):
        return ()
    folder = f"{root}/" if root else ""
    return tuple(key for name in (*NAMES, "wal", "compacted") for key in world.store.strays(folder + name))


async def boundary_of(world: World, namespace: Namespace) -> Boundary:
    try:
        return Boundary(parse(namespace.boundary_key, (await world.store.get(namespace.boundary_key)).body))
    except NotFound:
        return Boundary(0)
    except InvalidBoundary as error:
        return Boundary(None, str(error))


async def numbered(world: World, namespace: Namespace, foreign: list[str]) -> list[tuple[int, Entry]]:
    """Return the files of a namespace; add keys that only look like one to `foreign`."""
    found = []
    for entry in await list_all(world.store, namespace.prefix):
        try:
            number = namespace.file_id(entry.key)
        except InvalidName:
            foreign.append(entry.key)
        else:
            if number is not None:
                found.append((number, entry))
    return found


async def files_of(world: World, namespace: Namespace, decode: Callable[[bytes], Any], foreign: list[str]) -> tuple[File, ...]:
    """Return the files of a namespace, without those deleted between the listing and the read."""
    files = []
    for number, entry in await numbered(world, namespace, foreign):
        try:
            body = (await world.store.get(entry.key)).body
        except NotFound:
            continue
        version, value, fault = 0, None, ""
        try:
            version, value = version_of(body), decode(body)
        except Definite as error:
            fault = str(error)
        files.append(File(number, entry.last_modified_ms, entry.size_bytes, version, value, fault))
    return tuple(files)


async def ssts_of(world: World, root: str, foreign: list[str]) -> dict[str, int]:
    """Return the ids of the SSTs in compacted/, with their sizes in bytes.

    An empty file does not count: an SST describes its content at its end.
    """
    prefix = f"{root}/compacted/" if root else "compacted/"
    found: dict[str, int] = {}
    for entry in await list_all(world.store, prefix):
        name = entry.key.removeprefix(prefix).removesuffix(".sst")
        try:
            number_of_ulid(name)
        except ValueError:
            foreign.append(entry.key)
        else:
            found |= {name: entry.size_bytes} if entry.size_bytes else {}
    return found


async def deleting(world: World, root: str) -> bool:
    try:
        await world.store.head(f"{root}/.deleting" if root else ".deleting")
    except NotFound:
        return False
    return True
