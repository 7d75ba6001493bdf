"""Safety: a read shows what one state of the database shows: one manifest's SSTs in their visible ranges, and the WAL behind.

Nothing is written, so nothing keeps that state: a collector may delete an SST while it is read. Then the read fails, and says
so. With a checkpoint that lasts, it cannot happen.

SSTs are read as far as a read needs them (impl/db/ssts.py). Of a run, one SST is read at a time. The versions of a key may lie
in several SSTs of a run, so each that may have the key is read. A manifest has no sequence numbers of rows. So the order of the
versions, from block to block and from SST to SST, is checked here.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Run, Sst, View
from highwater.impl.db import wal
from highwater.impl.db.cache import Cache
from highwater.impl.db.damaged import DamagedObject
from highwater.impl.db.merge import Shown, Source, shown, versions
from highwater.impl.db.rows import Row
from highwater.impl.db.ssts import Ssts
from highwater.impl.errors import Definite, NotFound
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.manifests.spans import Span, effective, in_run, meet
from highwater.impl.world import ObjectStore, list_all

MISSING = "it is missing; if a collector has just deleted it, read again, or read a checkpoint"
ATTEMPTS = 5  # to read the latest manifest and the WAL behind it, while others write and collect


class CannotRead(Definite):
    """The database has no such state, or no longer has it."""


class State(NamedTuple):
    """The state that is read: a manifest, and the rows of the WAL behind it."""

    root: str
    manifest: Manifest
    unflushed: list[Row]  # sorted as those of an SST

    @property
    def ssts(self) -> dict[str, Sst]:
        return {sst.id: sst for sst in self.manifest.ssts}

    def key_of(self, sst: str) -> str:
        """Return the key of an SST, which may be of a parent."""
        for one in self.manifest.external_dbs:
            if sst in one.sst_ids:
                return key_of_sst(one.path, sst)
        return key_of_sst(self.root, sst)


async def opened(store: ObjectStore, root: str, checkpoint: str | None = None, wal_store: ObjectStore | None = None,
                 wal_root: str | None = None) -> State:
    """Return the latest state, or that of a checkpoint. Raises CannotRead, WalMissing, DamagedObject, InvalidFile, ..."""
    for attempt in range(ATTEMPTS):
        latest, manifest = await latest_of(store, root)
        manifest_id = latest
        if checkpoint is not None:
            manifest_id, manifest = await kept(store, root, manifest, checkpoint)
        if not manifest.initialized:
            raise CannotRead(f"manifest {manifest_id} is that of an unfinished clone: its parent may delete what it reads")
        rows: list[Row] = []
        try:
            async for more in wal.replayed(wal_store or store, Namespace(root if wal_root is None else wal_root, "wal"),
                                           manifest, checkpoint is None):
                rows += more
        except wal.WalMissing:
            if checkpoint is not None or attempt == ATTEMPTS - 1 or (await latest_of(store, root))[0] == latest:
                raise
            continue  # what was in the WAL is in L0 now
        return State(root, manifest, wal.table_of(rows))
    raise AssertionError("the last attempt returns or raises")


async def latest_of(store: ObjectStore, root: str) -> tuple[int, Manifest]:
    """Return the latest manifest and its id. Raises CannotRead."""
    namespace = Namespace(root, "manifest")
    for _ in range(ATTEMPTS):
        ids = [number for entry in await list_all(store, namespace.prefix)
               if (number := namespace.file_id(entry.key)) is not None]
        if not ids:
            raise CannotRead(f"there is no manifest in {namespace.prefix!r}: correct the path of the database")
        try:
            return max(ids), await manifest_of(store, namespace, max(ids))
        except NotFound:
            continue  # a later one has been written, and this one collected
    raise CannotRead(f"each of {ATTEMPTS} times the latest manifest was deleted before it was read: try again")


async def manifest_of(store: ObjectStore, namespace: Namespace, manifest_id: int) -> Manifest:
    key = namespace.key(manifest_id)
    body = (await store.get(key)).body
    try:
        return ManifestCodec().decode(body)
    except Definite as error:
        raise CannotRead(f"{key}: {error}") from error


async def kept(store: ObjectStore, root: str, latest: Manifest, checkpoint: str) -> tuple[int, Manifest]:
    """Return the manifest that a checkpoint keeps, and its id. Raises CannotRead."""
    namespace = Namespace(root, "manifest")
    for one in latest.checkpoints:
        if checkpoint in (one.id, one.name):
            try:
                return one.manifest_id, await manifest_of(store, namespace, one.manifest_id)
            except NotFound:
                raise CannotRead(f"{namespace.key(one.manifest_id)}: it is missing, but checkpoint {one.id} keeps it") from None
    raise CannotRead(f"the latest manifest lists no checkpoint {checkpoint!r}: see `highwater admin checkpoint list`")


# --------------------------------------------------------------------------------------------------------------- reads

Told = Callable[[str], None]


class Reader:
    """Reads one state.

    `told` is called with the key of each SST before it is read. `cache` keeps what reads need again. Readers of any states of
    the databases in one store may share it, since SSTs never change.
    """

    def __init__(self, store: ObjectStore, state: State, told: Told = lambda key: None, cache: Cache | None = None):
        self.store, self.state, self.told = store, state, told
        self.ssts, self.listed = Ssts(store, cache), state.ssts

    async def get(self, key: bytes, now_ms: int, seq: int | None = None) -> Shown | None:
        """Return what a key shows; None if it shows nothing. Rows after `seq` are left out. Raises DamagedObject, CannotRead.
        """
        async for rows in versions(self.sources(Span(key, key + b"\0"), key)):
            return shown(rows, now_ms, seq)
        return None

    async def scan(self, span: Span, now_ms: int, seq: int | None = None) -> AsyncGenerator[Shown]:
        """Yield what each key of the span shows, in ascending order. Raises what `get` raises."""
        async for rows in versions(self.sources(span)):
            if (found := shown(rows, now_ms, seq)) is not None:
                yield found

    def sources(self, span: Span, key: bytes | None = None) -> Iterator[Source]:
        """Yield the WAL, the views of L0 and the runs, as far as they have keys of the span, and may have `key`."""
        yield self.of_wal(span)
        for l0, runs in self.trees():
            for view in l0:
                yield self.of_views([(view, effective(view, self.listed))], span, key)
            for run in runs:
                yield self.of_views([*in_run(run.id, run.views, self.listed)], span, key)

    def trees(self) -> Iterator[tuple[tuple[View, ...], tuple[Run, ...]]]:
        manifest = self.state.manifest
        yield manifest.l0, manifest.compacted
        for segment in manifest.segments:
            yield segment.l0, segment.compacted

    async def of_wal(self, span: Span) -> Source:
        yield [row for row in self.state.unflushed if span.start <= row.key and (span.end is None or row.key < span.end)]

    async def of_views(self, views: list[tuple[View, Span | None]], span: Span, key: bytes | None) -> Source:
        """Yield the rows of a run, or of one view of L0. Raises CannotRead, DamagedObject."""
        last: Row | None = None
        for view, visible in views:
            both = meet(visible, span) if visible else None
            if both is None:
                continue
            name, info = self.state.key_of(view.sst_id), self.listed[view.sst_id].info
            self.told(name)
            try:
                if key is not None and not await self.ssts.may_contain(name, info, key):
                    continue
                async for block in self.ssts.blocks(name, info, both, keep=key is not None):
                    if rows := within(block, both):
                        last = in_order(name, last, rows)
                        yield rows
            except NotFound:
                raise CannotRead(f"{name}: {MISSING}") from None


def in_order(name: str, last: Row | None, rows: list[Row]) -> Row:
    """Return the last of the rows of a block, which follow `last`. `name`: the key of their SST. Raises DamagedObject."""
    first = rows[0]
    if last is not None and (first.key, -first.seq) <= (last.key, -last.seq):
        raise DamagedObject(name, 0, "order of rows", f"{first.key!r} of number {first.seq} follows {last.key!r} of number "
                            f"{last.seq}; in a run keys ascend, and the versions of a key descend: restore the SSTs and the "
                            "manifest from one backup")
    return rows[-1]


def within(rows: list[Row], span: Span) -> list[Row]:
    """Return the rows of a block with keys of the span."""
    if span.start <= rows[0].key and (span.end is None or rows[-1].key < span.end):
        return rows
    return [row for row in rows if span.start <= row.key and (span.end is None or row.key < span.end)]
