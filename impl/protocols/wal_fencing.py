"""Safety: a record that `append` returned for is among those of every writer that opens later, and of the latest one that is
open; and no append returns after a later writer has opened.

«acknowledge writes as soon as they are logged in a WAL while still serving those writes in a read-your-write fashion»; «If your
system requires single-writer, the conflict resolution phase in the protocol should fail the writer (an indication that they
have been fenced)» (source 004). An open claims the next epoch in the manifest, then lists, puts an empty object in the first
free slot ahead of replay_after, replays, and reads the manifest again before it serves: in that order, as
model/protocols/wal_fencing.py, whose actions are the requests here, says why. An append is two requests: the object, created
if absent; and the manifest, if it has changed, for the slot may have been collected with the fence in it. Such an append has
left an object behind replay_after, which nobody replays who then serves.

Each method is told to its caller as done; or by a Definite error (Fenced: what was asked has not been done, and never will be);
or by an Indefinite one, after which this writer is closed: open another one, whose records tell.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.json.wal import (
    FENCE,
    Record,
    WalManifest,
    decode_manifest,
    decode_record,
    encode_manifest,
    encode_record,
)
from highwater.impl.errors import (
    AlreadyExists,
    Definite,
    Indefinite,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from highwater.impl.layout import Namespace
from highwater.impl.world import World, list_all


class Fenced(Definite):
    """A later writer has taken over: what was asked has not been done. Whoever wants to write opens anew."""


class Closed(Definite):
    """This writer does not know what became of an earlier request; nothing more was sent. Open another one."""


class ManifestVersionExists(Definite):
    """Others changed the manifest each time that this writer was to claim an epoch (source 002's error)."""


class ManifestLost(Indefinite):
    """A manifest that was seen is gone; nothing may delete it."""


class Known(NamedTuple):
    """The manifest as it was when it was last read or put."""

    manifest: WalManifest
    version: str | None  # None: there is none yet


class ManifestObject:
    """The one manifest of a WAL, put only if it is still what was read."""

    def __init__(self, world: World, root: str):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: a manifest must not be read through a "
                             "cache; give the store that it wraps")
        self.store, self.key = world.store, f"{root}/wal.manifest" if root else "wal.manifest"

    async def read(self, known: Known | None = None) -> Known:
        """The manifest now; where it is what is known it costs no body. Raises ManifestLost, InvalidWal, Unavailable."""
        try:
            if known is None or known.version is None:
                found = await self.store.get(self.key)
            else:
                found = await self.store.get_if_changed(self.key, known.version)
        except NotFound:
            if known is not None and known.version is not None:
                raise ManifestLost(f"{self.key!r} is gone: nothing may delete it; restore the last version") from None
            return Known(WalManifest(), None)
        if found is None:
            assert known is not None, "it was asked whether this has changed"
            return known
        return Known(decode_manifest(found.body), found.version)

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        """Raises AlreadyExists, PreconditionFailed: somebody has changed what is known; OutcomeUnknown."""
        body = encode_manifest(manifest)
        if known.version is None:
            return Known(manifest, await self.store.create(self.key, body))
        return Known(manifest, await self.store.update(self.key, body, known.version))


class Wal:
    """A writer that is open. `records`: all, in the order of the log. For one caller at a time."""

    def __init__(self, world: World, root: str, attempts: int = 5):
        """`attempts`: how often a request is sent whose outcome stays unknown, or a read that gets no answer."""
        self.world, self.namespace, self.attempts = world, Namespace(root, "wal"), attempts
        self.object = ManifestObject(world, root)
        self.epoch = 0
        self.known = Known(WalManifest(), None)
        self.last_id = 0  # the last WAL id that it has replayed, or written
        self.records: list[Record] = []
        self.closed: type[Definite] | None = None

    # --- open

    async def _claim(self) -> None:
        """«an epoch is calculated by reading the epoch in the manifest and incrementing it by one» (source 002). Raises
        ManifestVersionExists; OutcomeUnknown where one of the attempts may have claimed an epoch that nobody has."""
        doubt: OutcomeUnknown | None = None
        for _ in range(self.attempts):
            known = await self._again(self.object.read)
            epoch = known.manifest.writer_epoch + 1
            try:
                self.known, self.epoch = await self.object.put(known, known.manifest._replace(writer_epoch=epoch)), epoch
                return
            except (AlreadyExists, PreconditionFailed):
                self.world.metrics.count("wal_claim_conflicts")
            except OutcomeUnknown as error:
                doubt = error
        raise doubt or ManifestVersionExists(f"{self.object.key!r} was changed by others, {self.attempts} times over")

    async def _fence(self) -> int:
        """Put an empty object in the first free slot ahead of the boundary; its id. Raises OutcomeUnknown."""
        after = self.namespace.key(self.known.manifest.replay_after)
        ids = [self.namespace.file_id(entry.key)
               for entry in await self._again(lambda: list_all(self.world.store, self.namespace.prefix, after))]
        fence = max((i for i in ids if i is not None), default=self.known.manifest.replay_after) + 1
        doubts = 0
        while True:
            try:
                await self.world.store.create(self.namespace.key(fence), FENCE)
                return fence
            except AlreadyExists:
                fence += 1  # the old writer's, or another fence, perhaps its own: as good as another's
            except (OutcomeUnknown, Unavailable):
                doubts += 1
                if doubts == self.attempts:
                    raise

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        """What to replay was settled by the claim and the fence: nothing is listed again. It is trusted only when it is over:
        of a later writer's WAL objects some may have been collected, and others be there in their place. Raises Fenced."""
        self.records, self.last_id = list(self.known.manifest.flushed), self.known.manifest.replay_after
        for i in range(self.last_id + 1, fence):
            try:
                found = await self._again(lambda i=i: self.world.store.get(self.namespace.key(i)))
            except NotFound:  # a later writer has flushed what was there, and it was collected
                raise self._stop(f"WAL id {i} is gone before it was replayed") from None
            record = decode_record(found.body)
            self.records += [record] if record else []
            self.last_id = i
            unflushed = len(self.records) - len(self.known.manifest.flushed)
            if flush_every and unflushed >= flush_every and i + 1 < fence:  # once it is over it is to be judged, and at once
                await self.flush()
        await self._refresh()
        self.last_id = fence

    # --- serve

    async def append(self, body: bytes) -> Record:
        """Log a record; when this returns, it is durable. Raises Fenced and Closed: it is in no log; OutcomeUnknown."""
        self.ensure_open()
        record, i = Record(self.world.ids.new_id(), self.epoch, body), self.last_id + 1
        await self._create(i, record)
        try:
            await self._refresh()  # after the create, before the acknowledgement
        except StoreError as error:
            self.closed = self.closed or Closed
            raise OutcomeUnknown(f"WAL id {i} is created, but {error}; whether a later writer has replayed it, or will, is not "
                                 "known") from error
        self.records.append(record)
        self.last_id = i
        return record

    async def _create(self, i: int, record: Record) -> None:
        """PUT the object if there is none, the same one again while the outcome is unknown. Raises Fenced, OutcomeUnknown."""
        doubt: OutcomeUnknown | None = None
        for _ in range(self.attempts):
            try:
                await self.world.store.create(self.namespace.key(i), encode_record(record))
                return
            except AlreadyExists:
                if doubt is None:
                    raise self._stop(f"WAL id {i} is taken") from None
                if not await self._is_own(i, record, doubt):
                    why = f"WAL id {i} is taken; whether its own was there before, and was flushed and collected, is not known"
                    raise OutcomeUnknown(str(self._stop(why))) from doubt
                return
            except Unavailable:
                if doubt is None:
                    raise  # the store says that nothing was applied
            except OutcomeUnknown as error:
                doubt = error
        self.closed = Closed
        raise doubt or ValueError("at least one attempt is made")

    async def _is_own(self, i: int, record: Record, doubt: OutcomeUnknown) -> bool:
        """Whether what is there is what it has put. Raises OutcomeUnknown."""
        try:
            found = await self._again(lambda: self.world.store.get(self.namespace.key(i)))
            return decode_record(found.body) == record
        except StoreError as error:
            self.closed = Fenced if isinstance(error, NotFound) else Closed
            raise OutcomeUnknown(f"WAL id {i} is taken, and what is there could not be read: {error!r}") from doubt

    async def flush(self) -> None:
        """All records up to the last WAL id become the flushed state; the collector may delete their objects then.
        Raises Fenced, Closed, OutcomeUnknown. Acknowledged records are durable before and after, whatever comes of it."""
        self.ensure_open()
        unknown: OutcomeUnknown | None = None
        for _ in range(self.attempts):
            flushed = self.known.manifest._replace(replay_after=self.last_id, flushed=tuple(self.records))
            if flushed == self.known.manifest:
                return
            try:
                self.known = await self.object.put(self.known, flushed)
                return
            except (AlreadyExists, PreconditionFailed):
                pass  # a later writer; or its own flush that it had no reply of
            except OutcomeUnknown as error:
                unknown = error
            except Unavailable:
                continue  # the store says that nothing was applied
            await self._reread(unknown)
        self.closed = Closed
        raise unknown or OutcomeUnknown(f"{self.object.key!r} could not be put, {self.attempts} times over")

    async def _reread(self, unknown: OutcomeUnknown | None) -> None:
        """Raises Fenced; OutcomeUnknown, if the flush may have been in time, or nobody can tell now."""
        try:
            await self._refresh()
        except StoreError as error:
            self.closed = self.closed or Closed
            if isinstance(error, Fenced) and unknown is None:
                raise
            raise OutcomeUnknown(f"the flush met a conflict, or no reply, and then: {error}") from error

    # --- what all of them do

    def ensure_open(self) -> None:
        """Raises Fenced, Closed."""
        if self.closed:
            raise self.closed(f"the writer of epoch {self.epoch} is no longer open: open another one")

    async def _refresh(self) -> None:
        """Read the manifest, and compare the epochs. Raises Fenced, Unavailable, ManifestLost."""
        known = await self._again(lambda: self.object.read(self.known))
        if known.manifest.writer_epoch != self.epoch:
            raise self._stop(f"the writer of epoch {self.epoch} is succeeded by {known.manifest.writer_epoch}")
        self.known = known

    def _stop(self, why: str) -> Fenced:
        self.closed = Fenced
        self.world.metrics.count("wal_fenced")
        self.world.metrics.warn(f"{self.namespace.prefix!r}: fenced: {why}")
        return Fenced(why)

    async def _again(self, read: Callable[[], Awaitable[Any]]) -> Any:
        """A read, again while it gets no answer. Raises Unavailable."""
        for _ in range(self.attempts - 1):
            try:
                return await read()
            except Unavailable:
                self.world.metrics.count("wal_reads_repeated")
        return await read()


async def open(world: World, root: str, flush_every: int | None = None, attempts: int = 5) -> Wal:
    """A new writer, with the records of all before it; they are fenced. `flush_every`: so many records of the replay are
    flushed at a time. Raises ManifestVersionExists, Fenced: it is not open; OutcomeUnknown, Unavailable: nor then, but an epoch
    may be claimed, or a fence put, so that another is fenced; InvalidWal, ManifestLost."""
    wal = Wal(world, root, attempts)
    await wal._claim()
    await wal._replay(await wal._fence(), flush_every)
    return wal


async def collect(world: World, root: str, min_age_ms: int = 0) -> list[int]:
    """One round of garbage collection: what is behind replay_after, fences too, older than `min_age_ms` if not 0; the ids.

    replay_after is read before anything is listed: it is durable, and never less again, so what is behind it stays so.
    """
    namespace, now_ms = Namespace(root, "wal"), world.clock.now_ms()
    boundary = (await ManifestObject(world, root).read()).manifest.replay_after
    if not boundary:
        return []
    old = [namespace.file_id(entry.key) for entry in await list_all(world.store, namespace.prefix)
           if not min_age_ms or now_ms - entry.last_modified_ms > min_age_ms]
    return [i for i in old if i is not None and i <= boundary and await _delete(world, namespace, i)]


async def _delete(world: World, namespace: Namespace, i: int) -> bool:
    try:
        await world.store.delete(namespace.key(i))
    except (Definite, OutcomeUnknown) as error:
        world.metrics.warn(f"delete of WAL id {i} failed, the next round will find it: {error}")
        return False
    return True
