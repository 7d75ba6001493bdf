"""Safety: the description of a database is what was in the store, and reading it changes nothing.

This module reads all metadata of a SlateDB database in any state. A file that cannot be read is kept with the reason; no error
is raised for it.

    <root>/manifest/<id, 20 digits>.manifest      <root>/compactions/<id>.compactions      <root>/gc/<name>.boundary
    <root>/wal/<id>.sst, 0 bytes: a fence         <root>/compacted/<ULID>.sst              <root>/.deleting: it is being deleted
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.sst_ids import is_ulid
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import SST, InvalidName, Namespace, prefix_of_ssts
from highwater.impl.protocols.boundary_object import InvalidBoundary, parse
from highwater.impl.world import Entry, Object, World, list_all

NAMES = ("manifest", "compactions")  # the namespaces that have a boundary
AT_ONCE = 4  # files that are read at the same time


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
    folders: tuple[str, ...] = ()  # folders with the name of a file, which end with a slash
    wal_elsewhere: bool = False  # the WAL was read from another place

    @property
    def is_none(self) -> bool:
        """True if there is no file of a database."""
        return not (self.manifests or self.compactions or self.wal or self.ssts or self.foreign)

    @property
    def latest(self) -> Manifest | None:
        return self.manifests[-1].value if self.manifests else None

    @property
    def latest_compactions(self) -> compactions_slatedb.Compactions | None:
        return self.compactions[-1].value if self.compactions else None


class Place(NamedTuple):
    """The place of a WAL that is not beside the manifest."""

    world: World
    root: str


class Aside(NamedTuple):
    """The keys of a listing that are no files of a database."""

    foreign: list[str]  # with the suffix of a folder and a name that no client gives
    folders: set[str]  # with the name of a file, and a slash behind it


Seen = dict[str, tuple[str, File]]  # sequenced files that were read, with the versions of their objects, by key
Steps = Callable[[str, int], None]  # is called with the next object to read, and the number of all


async def load(world: World, root: str, wal_at: Place | None = None, seen: Seen | None = None, steps: Steps | None = None
               ) -> Database:
    """Read everything except the contents of SSTs and WAL objects. Raises Unavailable, ListingNeverEnds.

    `seen` has the files that an earlier call has read, and gets those of this one: an object that is the same is not decoded
    again."""
    seen, aside = {} if seen is None else seen, Aside([], set())
    namespaces = [Namespace(root, name) for name in NAMES]
    boundaries = {namespace.name: await boundary_of(world, namespace) for namespace in namespaces}
    manifests = await files_of(world, namespaces[0], ManifestCodec().decode, aside, seen, steps)
    compactions = await files_of(world, namespaces[1], compactions_slatedb.decode, aside, seen, steps)
    log, log_world = wal_namespace(root, wal_at), wal_at.world if wal_at else world
    wal = [Wal(number, entry.last_modified_ms, entry.size_bytes) for number, entry in await numbered(log_world, log, aside)]
    ssts = await ssts_of(world, root, aside)
    strays = [*strays_of(log_world, [log], aside), *strays_of(world, namespaces, aside), *strays_of_ssts(world, root, aside)]
    await boundaries_in_folders(world, namespaces, aside)
    return Database(root, manifests, compactions, boundaries, tuple(wal), ssts, tuple(aside.foreign),
                    await deleting(world, root), tuple(sorted(strays)), tuple(sorted(aside.folders)), wal_at is not None)


def wal_namespace(root: str, wal_at: Place | None) -> Namespace:
    return Namespace(wal_at.root if wal_at else root, "wal")


# --- what is no object, or has no name of a file

def is_file_name(namespace: Namespace, key: str) -> bool:
    """Return whether clients take this key for a file of the namespace, whether or not they can read its id."""
    try:
        return namespace.file_id(key) is not None
    except InvalidName:
        return True


def strays_of(world: World, namespaces: Iterable[Namespace], aside: Aside) -> list[str]:
    """Return the files of a local database that are no objects. Released clients list them, and may fail or wait. Folders with
    the name of a file are added to `aside`."""
    found = []
    for namespace in namespaces:
        for key in strays_in(world, namespace.prefix[:-1]):
            if not key.endswith("/"):
                found.append(key)
            elif is_file_name(namespace, key[:-1]):
                aside.folders.add(key)
        folder = namespace.boundary_key.rpartition("/")[0]
        aside.folders.update({f"{namespace.boundary_key}/"}.intersection(strays_in(world, folder)))
    return found


def strays_of_ssts(world: World, root: str, aside: Aside) -> list[str]:
    keys = strays_in(world, prefix_of_ssts(root)[:-1])
    aside.folders.update(key for key in keys if key.endswith(f"{SST}/"))
    return [key for key in keys if not key.endswith("/")]


def strays_in(world: World, folder: str) -> list[str]:
    """Return what LocalStore.strays returns; nothing for another store."""
    strays: Callable[[str], list[str]] | None = getattr(world.store, "strays", None)
    return strays(folder) if strays else []


async def boundaries_in_folders(world: World, namespaces: Iterable[Namespace], aside: Aside) -> None:
    """Look for keys below that of a boundary."""
    for namespace in namespaces:
        if (await world.store.list_page(f"{namespace.boundary_key}/")).entries:
            aside.folders.add(f"{namespace.boundary_key}/")


# --- files

async def boundary_of(world: World, namespace: Namespace) -> Boundary:
    try:
        return Boundary(parse(namespace.boundary_key, (await world.store.get(namespace.boundary_key)).body))
    except NotFound:
        return Boundary(0)
    except InvalidBoundary as error:
        return Boundary(None, str(error))


async def numbered(world: World, namespace: Namespace, aside: Aside) -> list[tuple[int, Entry]]:
    """Return the files of a namespace; add keys that only look like one to `aside`."""
    found = []
    for entry in await list_all(world.store, namespace.prefix):
        first, slash, _ = entry.key.removeprefix(namespace.prefix).partition("/")
        try:
            if slash and is_file_name(namespace, namespace.prefix + first):
                aside.folders.add(f"{namespace.prefix}{first}/")
                continue
            number = namespace.file_id(entry.key)
        except InvalidName:
            aside.foreign.append(entry.key)
        else:
            if number is not None:
                found.append((number, entry))
    return found


async def files_of(world: World, namespace: Namespace, decode: Callable[[bytes], Any], aside: Aside, seen: Seen,
                   steps: Steps | None) -> tuple[File, ...]:
    """Return the files of a namespace, without those deleted between the listing and the read. Equal parts of their values are
    in memory once: one file differs little from the next."""
    files, known, listed = list[File](), dict[Any, Any](), await numbered(world, namespace, aside)
    for at in range(0, len(listed), AT_ONCE):
        some = listed[at:at + AT_ONCE]
        objects = await asyncio.gather(*(object_of(world, entry.key, seen) for _, entry in some))
        for (number, entry), found in zip(some, objects):
            if steps:
                steps(entry.key, len(listed))
            if found == "deleted":
                continue
            if found == "unchanged":
                files.append(seen[entry.key][1]._replace(last_modified_ms=entry.last_modified_ms))
                continue
            version, value, fault = 0, None, ""
            try:
                version = version_of(found.body)
                value = sharing(decode(found.body), files[-1].value if files else None, known)
            except Definite as error:
                fault = str(error)
            files.append(File(number, entry.last_modified_ms, entry.size_bytes, version, value, fault))
            seen[entry.key] = found.version, files[-1]
    return tuple(files)


async def object_of(world: World, key: str, seen: Seen) -> Object | Literal["deleted", "unchanged"]:
    """Return an object that was listed, unless it has been deleted since, or has the version that was seen."""
    try:
        if key not in seen:
            return await world.store.get(key)
        return await world.store.get_if_changed(key, seen[key][0]) or "unchanged"
    except NotFound:
        return "deleted"


def sharing(value: Any, before: Any, known: dict[Any, Any]) -> Any:
    """Return an equal value that shares its equal parts with `before`, the value of the file before, and with all that came
    before those. `known`: what came, by itself."""
    if type(value) is not type(before) or not isinstance(value, tuple):
        return value
    if value == before:
        return before
    parts = [old if old == new else tuple(known.setdefault(one, one) for one in new) if type(new) is tuple else new
             for old, new in zip(before, value)]
    return type(value)(*parts)


async def ssts_of(world: World, root: str, aside: Aside) -> dict[str, int]:
    """Return the ids of the SSTs in compacted/, with their sizes in bytes.

    An empty file does not count: an SST describes its content at its end.
    """
    prefix = prefix_of_ssts(root)
    found: dict[str, int] = {}
    for entry in await list_all(world.store, prefix):
        first, slash, _ = entry.key.removeprefix(prefix).partition("/")
        if slash and first.endswith(SST):
            aside.folders.add(f"{prefix}{first}/")
        elif is_ulid(name := entry.key.removeprefix(prefix).removesuffix(SST)):
            found |= {name: entry.size_bytes} if entry.size_bytes else {}
        else:
            aside.foreign.append(entry.key)
    return found


async def deleting(world: World, root: str) -> bool:
    try:
        await world.store.head(f"{root}/.deleting" if root else ".deleting")
    except NotFound:
        return False
    return True
