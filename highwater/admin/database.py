"""Safety: what is told of a database is what was in the store, and looking changes nothing.

All metadata of a SlateDB database, whatever state it is in: what cannot be read is kept with the reason, and not raised.

    <root>/manifest/<id, 20 digits>.manifest      <root>/compactions/<id>.compactions      <root>/gc/<name>.boundary
    <root>/wal/<id>.sst, 0 bytes: a fence         <root>/compacted/<ULID>.sst              <root>/.deleting: it is being deleted
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid
from highwater.impl.codecs.slatedb.header import version_of
from highwater.impl.codecs.slatedb.manifest import Manifest, ManifestCodec
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import InvalidName, Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary, parse
from highwater.impl.world import Entry, World, list_all

NAMES = ("manifest", "compactions")  # the namespaces that have a boundary


class File(NamedTuple):
    """A sequenced file. `value` None: it cannot be read, and `fault` says why."""

    id: int
    last_modified_ms: int
    size_bytes: int
    version: int  # 0: unknown
    value: Any
    fault: str = ""


class Wal(NamedTuple):
    id: int
    last_modified_ms: int
    size_bytes: int

    @property
    def fence(self) -> bool:
        """Before release 0.14 fences had a body: those cannot be told from data by their size."""
        return self.size_bytes == 0


class Boundary(NamedTuple):
    """`value` 0: there is none; None: it cannot be read."""

    value: int | None
    fault: str = ""


class Database(NamedTuple):
    root: str
    manifests: tuple[File, ...]  # in the order of their ids, as all here
    compactions: tuple[File, ...]
    boundaries: dict[str, Boundary]  # by namespace; read before the files are listed
    wal: tuple[Wal, ...]
    ssts: frozenset[str]  # ids of those in compacted/
    foreign: tuple[str, ...]  # keys with the suffix of a folder and a name that no client gives
    deleting: bool

    @property
    def is_none(self) -> bool:
        """Nothing of a database is there."""
        return not (self.manifests or self.compactions or self.wal or self.ssts or self.foreign)

    @property
    def latest(self) -> Manifest | None:
        return self.manifests[-1].value if self.manifests else None


async def load(world: World, root: str) -> Database:
    """Everything but the SSTs' contents. Raises Unavailable, ListingNeverEnds."""
    boundaries = {name: await boundary_of(world, Namespace(root, name)) for name in NAMES}
    foreign: list[str] = []
    manifests = await files_of(world, Namespace(root, "manifest"), ManifestCodec().decode, foreign)
    compactions = await files_of(world, Namespace(root, "compactions"), compactions_slatedb.decode, foreign)
    wal = [Wal(number, entry.last_modified_ms, entry.size_bytes)
           for number, entry in await numbered(world, Namespace(root, "wal"), foreign)]
    ssts = await ssts_of(world, root, foreign)
    return Database(root, manifests, compactions, boundaries, tuple(wal), ssts, tuple(foreign), await deleting(world, root))


async def boundary_of(world: World, namespace: Namespace) -> Boundary:
    try:
        return Boundary(parse(namespace.boundary_key, (await world.store.get(namespace.boundary_key)).body))
    except NotFound:
        return Boundary(0)
    except InvalidBoundary as error:
        return Boundary(None, str(error))


async def numbered(world: World, namespace: Namespace, foreign: list[str]) -> list[tuple[int, Entry]]:
    """The files of a namespace, and, added to `foreign`, what only looks like one."""
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
    """Without those that were deleted between the listing and their reading."""
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


async def ssts_of(world: World, root: str, foreign: list[str]) -> frozenset[str]:
    """The ids of the SSTs in compacted/ of a database. An empty file is none: at its end an SST says what is in it."""
    prefix = f"{root}/compacted/" if root else "compacted/"
    found = set()
    for entry in await list_all(world.store, prefix):
        name = entry.key.removeprefix(prefix).removesuffix(".sst")
        try:
            number_of_ulid(name)
        except ValueError:
            foreign.append(entry.key)
        else:
            found |= {name} if entry.size_bytes else set()
    return frozenset(found)


async def deleting(world: World, root: str) -> bool:
    try:
        await world.store.head(f"{root}/.deleting" if root else ".deleting")
    except NotFound:
        return False
    return True
