"""Reads the rows of a database, of its SSTs and of its WAL, one by one, as plain values; nothing is written.

What is yielded has the key `object` if it describes an object (highwater/admin/rows.py), and is a row otherwise.
"""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from highwater.admin.database import Place, wal_namespace
from highwater.admin.rows import row_of, shown_of, table_of
from highwater.impl.codecs.sst_ids import is_ulid
from highwater.impl.db.merge import shown, versions
from highwater.impl.db.reader import Reader, State, latest_of, opened
from highwater.impl.db.ssts import Ssts
from highwater.impl.db.table import Table
from highwater.impl.db.wal import ids_after
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import key_of_sst
from highwater.impl.manifests.spans import Span
from highwater.impl.world import World

Steps = Callable[[str], None]  # is told what is read next


class Asked(NamedTuple):
    """The state that is read, and how much of it."""

    span: Span = Span()
    checkpoint: str | None = None  # its id or its name
    wal_at: Place | None = None
    every_version: bool = False


async def state_of(world: World, root: str, asked: Asked) -> State:
    wal = asked.wal_at
    return await opened(world.store, root, asked.checkpoint, wal and wal.world.store, wal and wal.root)


async def got(world: World, root: str, key: bytes, asked: Asked) -> dict[str, Any] | None:
    """Return what a key shows now; None if it shows nothing."""
    found = await Reader(world.store, await state_of(world, root, asked)).get(key, now_ms())
    return found and shown_of(found)


async def scanned(world: World, state: State, asked: Asked, told: Steps) -> AsyncIterator[dict[str, Any]]:
    """Yield what each key shows now, or every version of it."""
    now = now_ms()
    async for rows in versions(Reader(world.store, state, told).sources(asked.span)):
        if asked.every_version:
            for row in rows:
                yield row_of(row)
        elif (found := shown(rows, now)) is not None:
            yield shown_of(found)


async def of_sst(world: World, root: str, sst: str, rows: bool) -> AsyncIterator[dict[str, Any]]:
    """Yield an SST of the database or of its parents, then its rows. Raises ValueError if it is not there."""
    if not is_ulid(sst):
        raise ValueError(f"SST {sst!r}: its id is a ULID, the name of its file without .sst")
    keys, ssts = await keys_of(world, root, sst), Ssts(world.store)
    for key in keys:
        try:
            end = await ssts.end_without_manifest(key)
        except NotFound:
            continue
        yield table_of(end.table)
        if rows:
            async for block in ssts.blocks_of(end):
                for row in block:
                    yield row_of(row)
        return
    raise ValueError(f"there is no SST {' and no '.join(keys)}")


async def keys_of(world: World, root: str, sst: str) -> list[str]:
    """Return the keys that an SST may have: here, and in the parents that the latest manifest names, if it can be read."""
    try:
        parents = (await latest_of(world.store, root))[1].external_dbs
    except Definite:
        parents = ()
    return [key_of_sst(root, sst), *(key_of_sst(one.path, sst) for one in parents if sst in one.sst_ids)]


async def wal_ids(world: World, root: str, wal_at: Place | None, first: int, last: int | None) -> list[int]:
    """Return the ids of the WAL objects from `first` to `last`. Raises ValueError if there are none."""
    namespace = wal_namespace(root, wal_at)
    ids = await ids_after((wal_at.world if wal_at else world).store, namespace, first - 1)
    ids = [number for number in ids if last is None or number <= last]
    if not ids:
        raise ValueError(f"there is no WAL object in {namespace.prefix!r} from {first} on"
                         + (f" up to {last}" if last is not None else ""))
    return ids


async def of_wal(world: World, root: str, wal_at: Place | None, ids: list[int], rows: bool, told: Steps
                 ) -> AsyncIterator[dict[str, Any]]:
    """Yield each WAL object, then its rows in the order of their commits."""
    namespace = wal_namespace(root, wal_at)
    for number in ids:
        key = namespace.key(number)
        told(key)
        body = (await (wal_at.world if wal_at else world).store.get(key)).body
        table = Table(key, body) if body else None
        if table is None or not table.offsets:
            yield {"object": key, "bytes": len(body), "fence": True}
            continue
        yield table_of(table)
        for row in table.rows() if rows else ():
            yield row_of(row)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
