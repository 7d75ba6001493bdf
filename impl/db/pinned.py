"""Safety: a read shows what one state of the database shows, and a checkpoint keeps that state until the read has ended.

impl/protocols/db_reader.py takes the checkpoints, replays the WAL and follows the writer. Here are the rows, of SlateDB's own
bytes. A checkpoint is an update of the manifest, so a reader needs the right to write.
"""

from collections.abc import AsyncIterator

from highwater.impl.db import wal
from highwater.impl.db.cache import USUAL_BYTES, Cache
from highwater.impl.db.memtable import size_of
from highwater.impl.db.merge import Shown
from highwater.impl.db.ranges import check_key, inside
from highwater.impl.db.reader import Reader, State
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.protocols import db_reader
from highwater.impl.protocols.db_reader import USUAL, Options, Scan
from highwater.impl.protocols.db_reader_view import Form
from highwater.impl.protocols.sequenced_metadata import MetadataStore


class Snapshot:
    """A state that a reader has shown. End it, so that its checkpoint can go."""

    def __init__(self, scan: Scan, cache: Cache | None = None, span: Span = EVERYTHING):
        """`cache`: for what its reads need again. `span`: the keys of the database."""
        view, of, self.span = scan.view, scan.reader, span
        self._scan, self._world = scan, of.manifests.world
        state = State(of.root, view.manifest, wal.table_of([row for table in view.tables for row in table.rows]))
        self._reader = Reader(self._world.store, state, cache=cache)

    async def get(self, key: bytes) -> Shown | None:
        """Return what a key shows; None if it shows nothing.

        Raises CannotRead if the checkpoint was lost, OutsideRange, DamagedObject."""
        check_key(key, self.span)
        return await self._reader.get(key, self._world.clock.now_ms())

    async def scan(self, span: Span = EVERYTHING) -> AsyncIterator[Shown]:
        """Yield what each key of the span shows, in ascending order. Raises what `get` raises."""
        async for one in self._reader.scan(inside(span, self.span), self._world.clock.now_ms()):
            yield one

    def end(self) -> None:
        """End the reads. The next poll deletes the checkpoint, if it is not in use any more."""
        self._scan.end()


class DbReader:
    """A reader of one database. `open` it, take snapshots, then `close` it: it has tasks until then."""

    def __init__(self, manifests: MetadataStore, root: str, options: Options = USUAL, cache_bytes: int = USUAL_BYTES,
                 span: Span = EVERYTHING):
        """`span`: of a projection, its keys. A read wholly outside is refused."""
        self.span = span
        self.pins = db_reader.DbReader(manifests, root, options, Form(wal.Order().rows_of, size_of))
        self.cache = Cache(cache_bytes)  # of all snapshots

    async def open(self, checkpoint: str | None = None) -> None:
        """Take a checkpoint, replay the WAL, and follow the writer. A given `checkpoint` is only read.

        Raises what `open` of impl/protocols/db_reader.py raises, and DamagedObject.
        """
        await self.pins.open(checkpoint)

    async def close(self) -> None:
        """End the tasks, and delete the own checkpoints. A delete that fails is left to the lease, with a warning."""
        await self.pins.close()

    def snapshot(self) -> Snapshot:
        """Begin to read what is shown now. Raises NotOpen."""
        return Snapshot(self.pins.scan(), self.cache, self.span)
