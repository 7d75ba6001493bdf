"""Safety: a batch for which `write` returned is shown whole and once by every read that begins later, by this writer and by
each one that opens later. A snapshot shows what was there when it was taken.

This is the writer of one database on SlateDB's own bytes, until another one opens it. The protocol is that of
impl/protocols/wal_fencing.py, on the manifest of impl/db/manifest.py: an open claims the next epoch and puts a fence, a write
puts an object into the WAL, and a flush moves what is in the WAL to an SST in L0. These are done one after the other. The
writes that wait while an object is put are the next object together.

    write                  an object of the WAL, and a look at the manifest
    flush                  an SST, and the manifest that names it; it begins by itself once `l0_sst_bytes` are in memory
    poll                   a look at the manifest: what compactors have changed, and whether there is another writer
    get, scan              the memtable, L0 and the runs of the manifest that was seen last

The caller of each method is told one of three things. The method returns: it is done. A Definite error: it was not done, and
never will be. An Indefinite error: it is not known; after one of a write or a flush this writer is closed. While another writer
has opened the database, and this one has not noticed it yet, `get` and `scan` may show what is old. A reader
(impl/db/pinned.py) may show a batch while its put is under way, and so before this writer does.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.db.cache import USUAL_BYTES, Cache
from highwater.impl.db.log import form_of
from highwater.impl.db.manifest import FIRST, Built, WrittenManifest, manifests_of, rows_in
from highwater.impl.db.memtable import Memtable
from highwater.impl.db.merge import Merge, Shown
from highwater.impl.db.ranges import check_key, inside
from highwater.impl.db.reader import CannotRead, Reader, State
from highwater.impl.db.writes import Op, delete, folded, merge, put, rows_of
from highwater.impl.errors import Definite, OutcomeUnknown, StoreError, TaskCancelled
from highwater.impl.manifests import readable
from highwater.impl.manifests.spans import EVERYTHING, Span
from highwater.impl.protocols import checkpoints, clones, wal_fencing
from highwater.impl.protocols.database_clones import take_seen
from highwater.impl.protocols.wal_fencing import Wal
from highwater.impl.world import Task, World

Result = TypeVar("Result")


class MergeMissing(Definite):
    """A key has merge operands, and this database was opened without the function that applies them."""

    def __init__(self, key: bytes):
        super().__init__(f"{key!r} has merge operands: open the database with Options(merge=..), or read it with `shown`")


@dataclass(frozen=True)
class Options:
    """The options of a writer; those that SlateDB has, too, have its defaults."""

    merge: Merge | None = None  # (key, what was there, operand) -> what is there then
    l0_sst_bytes: int = 64 << 20  # in memory: then a flush begins
    max_unflushed_bytes: int = 1 << 30  # in memory: then writes wait
    l0_max_ssts: int = 8  # while L0 has so many, no flush begins by itself until writes wait
    manifest_version: int = 2  # of a new database: 1 for clients up to release 0.15. An old one stays as it is
    poll_ms: int = 1000  # between two looks at the manifest; 0: none
    replay_flush: int | None = None  # WAL objects flushed at a time while they are replayed; None: all later
    attempts: int = 5  # of a request whose outcome stays unknown, or of a read without an answer
    cache_bytes: int = USUAL_BYTES  # of filters, indexes and blocks that are kept for reads
    span: Span = EVERYTHING  # of a projection: its keys. A write outside is refused, and so is a read wholly outside
    built: Built = field(default_factory=Built)

    def check(self) -> None:
        """Raise ValueError for a size, a time or a number that is not positive."""
        for name in ("l0_sst_bytes", "max_unflushed_bytes", "l0_max_ssts", "attempts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: it must be at least 1")
        if self.manifest_version not in (1, 2):
            raise ValueError(f"manifest_version = {self.manifest_version}: give 1 or 2")
        if self.span.ends_by(self.span.start):
            raise ValueError(f"span = {self.span}: there is no key in it")
        if self.cache_bytes < 0:
            raise ValueError(f"cache_bytes = {self.cache_bytes}: give at least 0")
        if self.poll_ms < 0 or (self.replay_flush is not None and self.replay_flush < 1):
            raise ValueError(f"poll_ms = {self.poll_ms}, replay_flush = {self.replay_flush}: give a time of at least 0, and a "
                             "number of at least 1 or None")


USUAL = Options()


class Snapshot:
    """The state that a database showed when this was taken. End it, so that compactors may drop what only it shows."""

    def __init__(self, db: "Db", seq: int):
        self.db, self.seq = db, seq
        db.snapshots.append(self)

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none. Raises what `Db.get` raises."""
        return self.db._merged(await self.db._shown(key, self.seq))

    def scan(self, span: Span = EVERYTHING) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield the keys of the span with their values, ascending. Raises what `Db.get` raises."""
        return self.db._scan(span, self.seq)

    def end(self) -> None:
        """End the snapshot. It may be ended twice."""
        if self in self.db.snapshots:
            self.db.snapshots.remove(self)


class Db:
    """An open database. `Db.open` one, and `close` it: it has tasks until then."""

    def __init__(self, world: World, root: str, options: Options = USUAL):
        """Make a writer that is not open yet. Raises ValueError for bad options."""
        options.check()
        self.world, self.root, self.options = world, root, options
        self.manifests = manifests_of(world, root, options.manifest_version)
        self.wal: Wal
        self.memtable = Memtable()
        self.cache = Cache(options.cache_bytes)
        self.seq = 0  # of the last batch that is shown
        self.tick_ms = 0  # the latest time of a row: times of rows never go back
        self.snapshots: list[Snapshot] = []
        self.waiting: list[list[Op]] = []  # the batches of the next object of the WAL
        self.waiting_bytes = 0
        self.writing: Task[int] | None = None  # has not begun, and will write what is waiting
        self.last: Task[Any] | None = None  # the last in turn
        self.turns = 0
        self.poller: Task[None] | None = None

    # --- its life

    @classmethod
    async def open(cls, world: World, root: str, options: Options = USUAL) -> "Db":
        """Open the database at `root` with all that was written; make it if there is none. Earlier writers are fenced.

        Raises NotInitialized for a clone that is not complete, HasSegments and NewerFields for what a newer release has,
        DatabaseDestroyed, DamagedObject, and what wal_fencing.open raises."""
        db = cls(world, root, options)
        await db.manifests.initialise(FIRST)
        readable.check((await clones.opened(db.manifests)).value)
        db.wal = await db._opened(WrittenManifest(db.manifests, root, db._oldest_snapshot, options.built))
        db._replayed()
        if options.poll_ms:
            db.poller = world.clock.spawn(db._poll_on(), "poller")
        return db

    async def _opened(self, manifest: WrittenManifest) -> Wal:
        built = self.options.built
        return await wal_fencing.open(self.world, self.root, self.options.replay_flush, self.options.attempts, manifest,
                                      form_of(built.codec, built.block_bytes))

    def _replayed(self) -> None:
        """Show the rows of the log that are in no SST."""
        flushed = self.manifest.last_l0_seq
        rows = rows_in(self.wal.records, flushed)
        self.memtable.add(rows)
        self.seq = max((row.seq for row in rows), default=flushed)
        self.tick_ms = max([self.manifest.last_l0_clock_tick, *(row.create_ms for row in rows if row.create_ms is not None)])

    async def close(self) -> None:
        """End the tasks once all that was asked for is done. What is in the WAL is there for the next writer.

        It raises nothing, and may be called twice."""
        if self.poller is not None:
            self.poller.cancel()
            await settled(self.poller)
        while self.last is not None:
            last, self.last = self.last, None
            await settled(last)
        self.wal.closed = self.wal.closed or wal_fencing.Closed

    @property
    def manifest(self) -> Manifest:
        """The manifest that was seen last."""
        return self.wal.known.version.value

    @property
    def epoch(self) -> int:
        return self.wal.epoch

    # --- writes

    async def put(self, key: bytes, value: bytes, ttl_ms: int | None = None) -> int:
        """Put a value; return its number. Raises what `write` raises."""
        return await self.write([put(key, value, ttl_ms)])

    async def delete(self, key: bytes) -> int:
        """Delete a key, whether it is there or not; return the number. Raises what `write` raises."""
        return await self.write([delete(key)])

    async def merge(self, key: bytes, operand: bytes, ttl_ms: int | None = None) -> int:
        """Add an operand to a key; return its number. Raises what `write` raises."""
        return await self.write([merge(key, operand, ttl_ms)])

    async def write(self, ops: list[Op]) -> int:
        """Write a batch, all of it or nothing; return its number. It is durable on return. Later batches have larger numbers.

        A key may be in it several times: see `folded` of impl/db/writes.py. It waits while `max_unflushed_bytes` are in memory.
        A caller that stops waiting does not stop the write. Raises ValueError for a batch that cannot be written, OutsideRange,
        FencedUnapplied or Closed if it is in no log, and OutcomeUnknown.
        """
        ops = folded(ops, self.options.merge)
        for op in ops:
            check_key(op.key, self.options.span)
        self.wal.ensure_open()
        while self.writing and self.waiting_bytes + self.memtable.size_bytes > self.options.max_unflushed_bytes:
            await settled(self.writing)
            self.wal.ensure_open()
        place = len(self.waiting)
        self.waiting.append(ops)
        self.waiting_bytes += sum(len(op.key) + len(op.value) for op in ops)
        if self.writing is None:
            self.writing = self._in_turn(self._write, "write")
        return await self.writing + place

    async def _write(self) -> int:
        """Write what is waiting as one object; return the number of its first batch."""
        batches, self.waiting, self.waiting_bytes, self.writing = self.waiting, [], 0, None
        await self._below_limit()
        first = self.seq + 1
        self.tick_ms = max(self.tick_ms, self.world.clock.now_ms())
        rows = [row for place, ops in enumerate(batches) for row in rows_of(ops, first + place, self.tick_ms)]
        await self.wal.append(rows)
        self.memtable.add(rows)
        self.seq = first + len(batches) - 1
        if self.memtable.size_bytes >= self.options.l0_sst_bytes and len(self.manifest.l0) < self.options.l0_max_ssts:
            self._in_turn(self._flush, "flush")
        return first

    async def _below_limit(self) -> None:
        """Return once less than `max_unflushed_bytes` are in memory. While L0 is full it waits for a compactor."""
        while self.memtable.size_bytes >= self.options.max_unflushed_bytes:
            if len(self.manifest.l0) < self.options.l0_max_ssts:
                return await self._flush()
            self.world.metrics.count("db_waits_for_compaction")
            await self.world.clock.sleep_ms(max(self.options.poll_ms, 1))
            await self.wal.refresh()
        return None

    # --- flushes and checkpoints

    async def flush(self) -> None:
        """Move all that was written before into an SST. Raises FencedUnapplied, Closed, OutcomeUnknown, DatabaseDestroyed."""
        self.wal.ensure_open()
        await self._in_turn(self._flush, "flush")

    async def _flush(self) -> None:
        await self.wal.flush()
        self.memtable = Memtable()  # reads that have begun have the rows of the one before

    async def checkpoint(self, lifetime_ms: int | None = None, name: str | None = None, durable_only: bool = False) -> str:
        """Take a checkpoint with all that was written before this call, and return its id.

        The scope All flushes first, so that all rows are in SSTs. `durable_only` is the scope Durable: rows of the WAL stay
        where they are, and the checkpoint keeps the objects. A write that has returned is durable, so both have its rows.
        Raises what `flush` and `checkpoints.create` raise; after an error there may be a checkpoint. OutcomeUnknown: there is
        one, and another writer may have written before it was taken.
        """
        self.wal.ensure_open()
        checkpoint = checkpoints.new_id(self.manifests)

        async def take() -> None:
            if durable_only:
                await take_seen(self.manifests, checkpoint, lifetime_ms, name)
            else:
                await self._flush()
                await checkpoints.create(self.manifests, checkpoint, lifetime_ms, name)
            try:
                await self.wal.refresh()
            except StoreError as error:
                raise OutcomeUnknown(f"checkpoint {checkpoint} is taken, but {error}") from error

        await self._in_turn(take, "checkpoint")
        return checkpoint

    async def _poll_on(self) -> None:
        while not self.wal.closed:
            await self.world.clock.sleep_ms(self.options.poll_ms)
            await settled(self._in_turn(self.wal.refresh, "poll"))

    async def poll(self) -> None:
        """Look at the manifest.

        Raises FencedUnapplied, Closed, Unavailable; NoLatest or InvalidBoundary if the database was destroyed.
        """
        self.wal.ensure_open()
        await self._in_turn(self.wal.refresh, "poll")

    # --- reads

    async def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none.

        Raises FencedUnapplied, Closed, OutsideRange, DamagedObject, MergeMissing, Unavailable, and CannotRead if an SST is
        gone.
        """
        return self._merged(await self._shown(key, self.seq))

    async def shown(self, key: bytes) -> Shown | None:
        """Return the rows that a key shows: value, operands, number and times. Raises what `get` raises but MergeMissing."""
        return await self._shown(key, self.seq)

    def scan(self, span: Span = EVERYTHING) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield the keys of the span with their values, ascending, as they were at the first step. Raises what `get` raises."""
        return self._scan(span, None)

    def snapshot(self) -> Snapshot:
        """Return what is shown now. Raises FencedUnapplied, Closed."""
        self.wal.ensure_open()
        return Snapshot(self, self.seq)

    async def _shown(self, key: bytes, seq: int) -> Shown | None:
        self.wal.ensure_open()
        check_key(key, self.options.span)
        found = Snapshot(self, seq)
        try:
            return await self._again(lambda: self._reader(Span(key, key + b"\0")).get(key, self.world.clock.now_ms(), seq))
        finally:
            found.end()

    async def _scan(self, span: Span, seq: int | None) -> AsyncIterator[tuple[bytes, bytes]]:
        self.wal.ensure_open()
        span = inside(span, self.options.span)
        snapshot, start = Snapshot(self, self.seq if seq is None else seq), span.start
        try:
            for attempt in range(self.options.attempts):
                try:
                    rest = Span(start, span.end)
                    async for one in self._reader(rest).scan(rest, self.world.clock.now_ms(), snapshot.seq):
                        start = one.key + b"\0"
                        yield one.key, self._value(one)
                    return
                except CannotRead:
                    if attempt == self.options.attempts - 1:
                        raise
                    await self.poll()
        finally:
            snapshot.end()

    def _reader(self, span: Span) -> Reader:
        """Return a reader of what is there now, with the rows of the memtable in the span."""
        return Reader(self.world.store, State(self.root, self.manifest, self.memtable.rows(span)), cache=self.cache)

    async def _again(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Return what a read returns. If an SST has been compacted and collected, look at the manifest, and read again."""
        for _ in range(self.options.attempts - 1):
            try:
                return await read()
            except CannotRead:
                await self.poll()
        return await read()

    def _merged(self, found: Shown | None) -> bytes | None:
        return None if found is None else self._value(found)

    def _value(self, found: Shown) -> bytes:
        if not found.operands:
            return found.value or b""
        if self.options.merge is None:
            raise MergeMissing(found.key)
        return found.merged(self.options.merge)

    def _oldest_snapshot(self) -> int | None:
        return min((one.seq for one in self.snapshots), default=None)

    # --- one after the other

    def _in_turn(self, work: Callable[[], Awaitable[Result]], name: str) -> Task[Result]:
        """Do the work once all that was asked for before is done."""
        before, self.turns = self.last, self.turns + 1

        async def go() -> Result:
            if before is not None:
                await settled(before)
            return await work()

        task = self.world.clock.spawn(go(), f"{name} {self.turns}")
        self.last = task
        return task


async def settled(task: Task[Any]) -> None:
    """Wait for the end of a task, and drop what it returns or raises."""
    try:
        await task
    except (StoreError, TaskCancelled):
        pass
