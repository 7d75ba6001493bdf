"""Databases on SlateDB's own bytes, for scripts: a world with ULIDs and tasks, writers, and SSTs that somebody has left."""

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from highwater.dst.script import Alone
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Sst, View
from highwater.impl.codecs.sst_ids import RANDOM
from highwater.impl.db.build import VERSION, sst_of, wal_of
from highwater.impl.db.db import Db, Options
from highwater.impl.db.manifest import Built
from highwater.impl.db.rows import Row
from highwater.impl.errors import StoreError, TaskCancelled
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.world import World

MANIFESTS, COMPACTIONS, WAL = (Namespace("db", name) for name in ("manifest", "compactions", "wal"))


class Ulids:
    """Mints the ULIDs of a script by its clock."""

    def __init__(self, alone: Alone):
        self.alone, self.given = alone, 0

    def new_id(self) -> str:
        self.given += 1
        return ulid_of(self.alone.now << RANDOM | self.given)


class Later:
    """A task that takes its steps while somebody waits for it: nobody else runs in a script."""

    def __init__(self, work: Coroutine[Any, Any, Any]):
        self.work, self.ended = work, False
        self.result: Any = None
        self.error: StoreError | None = None

    def cancel(self) -> None:
        self.work.close()
        if not self.ended:
            self.ended, self.error = True, TaskCancelled("a script has cancelled it")

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self.ended:
            try:
                self.result = yield from self.work.__await__()
            except StoreError as error:
                self.error = error.with_traceback(None)
            self.ended = True
        if self.error:
            raise self.error
        return self.result


class Clock:
    """The clock of a script, with tasks."""

    def __init__(self, alone: Alone):
        self.now_ms, self.sleep_ms, self.timeout = alone.now_ms, alone.sleep_ms, alone.timeout

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Later:
        return Later(work)


def world_of(alone: Alone) -> World:
    return alone.world._replace(ids=Ulids(alone), clock=Clock(alone))  # pyright: ignore[reportArgumentType]  # parts of one


def another(world: World, alone: Alone) -> World:
    """Return the world of another client, whose requests do not fail."""
    return world._replace(store=alone.real)


def joined(key: bytes, found: bytes | None, operand: bytes) -> bytes:
    return (found or b"") + b"+" + operand


def options_of(**fields: Any) -> Options:
    return Options(**{"merge": joined, "poll_ms": 0, "attempts": 3, "built": Built(0, 64, 2)} | fields)


async def opened(alone: Alone, world: World | None = None, **fields: Any) -> Db:
    """Open a writer. Its requests are forgotten."""
    db = await Db.open(world or world_of(alone), "db", options_of(**fields))
    alone.sent()
    return db


async def all_of(of: Any, *span: Any) -> dict[bytes, bytes]:
    """Return what a writer or one of its snapshots shows."""
    return {key: value async for key, value in of.scan(*span)}


async def latest(alone: Alone) -> tuple[int, Manifest]:
    """Return the latest manifest and its id."""
    keys = [entry.key for entry in (await alone.real.list_page(MANIFESTS.prefix)).entries]
    return MANIFESTS.file_id(keys[-1]) or 0, ManifestCodec().decode((await alone.real.get(keys[-1])).body)


async def change(alone: Alone, how: Callable[[Manifest], Manifest]) -> None:
    """Put the next manifest, as another role does."""
    number, manifest = await latest(alone)
    await alone.real.create(MANIFESTS.key(number + 1), ManifestCodec().encode(how(manifest)))


def sst_id(number: int) -> str:
    return ulid_of(number << RANDOM)


async def left(alone: Alone, ssts: Sequence[Sequence[Row]], wal: Sequence[Sequence[Row]] = (), **fields: Any) -> Manifest:
    """Put a database that somebody has left: SSTs in L0, the newest last, with ids from 1 on; then WAL objects, [] for a
    fence."""
    manifest = Manifest(initialized=True, wal_id_last_seen=len(wal),
                        last_l0_seq=max((row.seq for rows in ssts for row in rows), default=0))
    for number, rows in enumerate(ssts, 1):
        manifest = await with_sst(alone, manifest, number, rows)
    for number, rows in enumerate(wal, 1):
        await alone.real.put(WAL.key(number), wal_of(rows).body if rows else b"")
    manifest = manifest._replace(**fields)
    await alone.real.put(MANIFESTS.key(1), ManifestCodec().encode(manifest))
    return manifest


async def with_sst(alone: Alone, manifest: Manifest, number: int, rows: Sequence[Row]) -> Manifest:
    """Put an SST, and return the manifest with it in L0."""
    built = sst_of(rows, 0, 64, 2)
    await alone.real.put(key_of_sst("db", sst_id(number)), built.body)
    return manifest._replace(l0=(View(sst_id(number), sst_id(number)), *manifest.l0),
                             ssts=(*manifest.ssts, Sst(sst_id(number), built.info, VERSION)))
