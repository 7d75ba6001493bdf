"""Safety: a record for which `append` returned is among the records of every writer that opens later, and of the latest open
writer. No append returns after a later writer has opened.

The essay on object-store protocols: «acknowledge writes as soon as they are logged in a WAL while still serving those writes in
a read-your-write fashion»; «If your system requires single-writer, the conflict resolution phase in the protocol should fail
the writer (an indication that they have been fenced)».

An open claims the next epoch in the manifest and lists the log. It puts an empty object in the first free slot ahead of
replay_after, replays, and reads the manifest again before it serves. model/protocols/wal_fencing.py says why the order matters;
its actions are the requests here. An append is two requests: it creates the object if absent, and reads the manifest if it has
changed, because the slot may have been collected together with the fence in it. A refused append leaves an object behind
replay_after. No writer that goes on to serve replays it.

A checkpoint keeps the objects of the records that are acknowledged and not flushed, so that a reader of the log as it is now
can read them after later flushes. SlateDB's RFC on checkpoints: a collector spares «the set of all WAL SSTs between
n.wal_id_last_compacted and n.wal_id_last_seen» for each manifest n that a checkpoint refers to. Here the manifest lists both
ids of each checkpoint, until a writer drops it.

The caller of each method is told one of three things. The method returns: it is done. A Definite error (FencedUnapplied): it
has not been done and never will be. An Indefinite error: this writer is closed; open another one, whose records tell.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from highwater.impl.codecs.json.wal import (
    FENCE,
    Record,
    WalCheckpoint,
    WalManifest,
    decode_manifest,
    decode_record,
    encode_manifest,
    encode_record,
)
from highwater.impl.errors import (
    AlreadyExists,
    Definite,
    FencedUnapplied,
    Indefinite,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UpdateConflict,
)
from highwater.impl.layout import Namespace
from highwater.impl.world import World, list_all

Result = TypeVar("Result")


class Closed(Definite):
    """This writer does not know the outcome of an earlier request, and sent nothing more. Open another one."""


class ManifestLost(Indefinite):
    """A manifest that was seen before is gone; nothing may delete it."""


class Known(NamedTuple):
    """The manifest when it was last read or put."""

    manifest: WalManifest
    version: Any  # opaque: of the object that returned it. None: there is no manifest yet


class Form(NamedTuple):
    """The form of records in the log: ours, or that of a database's own bytes (impl/db/log.py)."""

    record: Callable[[World, int, Any], Any]  # (world, epoch, body) -> the record that is appended
    encode: Callable[[Any], bytes]
    decode: Callable[[str, bytes], Any]  # (key, body) -> the record; None for a fence


JSON = Form(lambda world, epoch, body: Record(world.ids.new_id(), epoch, body), encode_record,
            lambda _, body: decode_record(body))


class Manifests(Protocol):
    """The manifest of a Wal: an object, or a sequence of files (impl/protocols/database_metadata.py)."""

    key: str
    keeps: bool  # `read` returns the records that were flushed. Without them a writer forgets what it has flushed

    async def read(self) -> Known:
        """Return the manifest to build on; `put` tells whether it was current."""
        ...

    async def read_again(self, known: Known) -> Known:
        """Return the current manifest; `known` itself if it is that."""
        ...

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        """Put a manifest. Raises AlreadyExists, PreconditionFailed, OutcomeUnknown."""
        ...


class ManifestObject:
    """The single manifest of a WAL. It is put only if it has not changed since it was read."""

    keeps = True

    def __init__(self, world: World, root: str):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: a manifest must not be read through a "
                             "cache; give the store that it wraps")
        self.store, self.key = world.store, f"{root}/wal.manifest" if root else "wal.manifest"

    async def read(self) -> Known:
        """Return the current manifest; an empty one if there is none. Raises InvalidWal, Unavailable."""
        try:
            found = await self.store.get(self.key)
        except NotFound:
            return Known(WalManifest(), None)
        return Known(decode_manifest(found.body), found.version)

    async def read_again(self, known: Known) -> Known:
        """Return the current manifest, which is there; no body is sent if it equals `known`. Raises ManifestLost, InvalidWal,
        Unavailable."""
        assert known.version is not None, "it was read or put before"
        try:
            found = await self.store.get_if_changed(self.key, known.version)
        except NotFound:
            raise ManifestLost(f"{self.key!r} is gone: nothing may delete it; restore the last version") from None
        return Known(decode_manifest(found.body), found.version) if found else known

    async def put(self, known: Known, manifest: WalManifest) -> Known:
        """Put a manifest. Raises AlreadyExists or PreconditionFailed if another client has changed it; raises OutcomeUnknown.
        """
        body = encode_manifest(manifest)
        if known.version is None:
            return Known(manifest, await self.store.create(self.key, body))
        return Known(manifest, await self.store.update(self.key, body, known.version))


class Wal:
    """An open writer, for one caller at a time.

    `records` are all records in the order of the log; without those that were flushed, if the manifest does not keep them."""

    def __init__(self, world: World, root: str, attempts: int, manifest: Manifests | None = None, form: Form = JSON):
        """Make a writer that is not open yet. `attempts` limits requests of unknown outcome and reads without an answer."""
        self.world, self.namespace, self.attempts, self.form = world, Namespace(root, "wal"), attempts, form
        self.object: Manifests = manifest or ManifestObject(world, root)
        self.epoch: int
        self.known: Known
        self.last_id: int  # that was replayed or written
        self.records: list[Any] = []
        self.closed: type[Definite] | None = None

    # --- open

    async def _claim(self) -> None:
        """Claim the next epoch in the manifest.

        «an epoch is calculated by reading the epoch in the manifest and incrementing it by one» (SlateDB's page on the
        manifest). Raises UpdateConflict. Raises OutcomeUnknown if an attempt may have claimed an epoch that nobody uses.
        """
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
        raise doubt or UpdateConflict(f"{self.object.key!r} was changed by others, {self.attempts} times over")

    async def _fence(self) -> int:
        """Put an empty object in the first free slot ahead of the boundary; return its id. Raises OutcomeUnknown."""
        after = self.namespace.key(self.known.manifest.replay_after)
        ids = [self.namespace.file_id(entry.key)
               for entry in await self._again(lambda: list_all(self.world.store, self.namespace.prefix, after))]
        fence = max((i for i in ids if i is not None), default=self.known.manifest.replay_after) + 1
        return await fenced_at(self.world, self.namespace, fence, self.attempts)

    async def _replay(self, fence: int, flush_every: int | None) -> None:
        """Replay the log up to the fence. Raises FencedUnapplied.

        The claim and the fence settled what to replay, so nothing is listed again. The result is trusted only at the end: WAL
        objects of a later writer may have been collected, and others may be in their place.
        """
        self.records, self.last_id = list(self.known.manifest.flushed), self.known.manifest.replay_after
        for i in range(self.last_id + 1, fence):
            try:
                found = await self._again(lambda i=i: self.world.store.get(self.namespace.key(i)))
            except NotFound:  # a later writer has flushed that record, and it was collected
                raise self._stop(f"WAL id {i} is gone before it was replayed") from None
            record = self.form.decode(self.namespace.key(i), found.body)
            self.records += [record] if record else []
            self.last_id = i
            unflushed = len(self.records) - len(self.known.manifest.flushed)
            if flush_every and unflushed >= flush_every and i + 1 < fence:  # after the last record the replay is judged first
                await self.flush()
        await self._refresh()
        self.last_id = fence

    # --- serve

    async def append(self, body: Any) -> Any:
        """Log a record; it is durable on return. Raises FencedUnapplied or Closed if it is in no log; raises OutcomeUnknown."""
        self.ensure_open()
        return await self._closing(self._append(body))

    async def _append(self, body: Any) -> Any:
        record, i = self.form.record(self.world, self.epoch, body), self.last_id + 1
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

    async def _create(self, i: int, record: Any) -> None:
        """Create the object if there is none, again while the outcome is unknown. Raises FencedUnapplied, OutcomeUnknown."""
        doubt: OutcomeUnknown | None = None
        for _ in range(self.attempts):
            try:
                await self.world.store.create(self.namespace.key(i), self.form.encode(record))
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

    async def _is_own(self, i: int, record: Any, doubt: OutcomeUnknown) -> bool:
        """Return whether the object with this id is the one that this writer put. Raises OutcomeUnknown."""
        try:
            found = await self._again(lambda: self.world.store.get(self.namespace.key(i)))
            return self.form.decode(self.namespace.key(i), found.body) == record
        except StoreError as error:
            self.closed = FencedUnapplied if isinstance(error, NotFound) else Closed
            raise OutcomeUnknown(f"WAL id {i} is taken, and what is there could not be read: {error!r}") from doubt

    async def refresh(self) -> None:
        """Read the manifest again: what other roles have changed. Raises FencedUnapplied, Closed, Unavailable, ManifestLost."""
        self.ensure_open()
        await self._closing(self._refresh())

    async def flush(self) -> None:
        """Move all records up to the last WAL id to the flushed state, so that the collector may delete their objects.

        Raises FencedUnapplied, Closed, OutcomeUnknown. Acknowledged records are durable before and after, whatever the outcome.
        """
        self.ensure_open()
        await self._closing(self._change(lambda m: m if m.replay_after == self.last_id else m._replace(
            replay_after=self.last_id, flushed=tuple(self.records))))
        if not self.object.keeps:
            self.records = []

    async def checkpoint(self) -> WalCheckpoint:
        """Take a checkpoint of the log up to the last acknowledged record; a collector spares its objects until it is dropped.

        Raises FencedUnapplied, Closed; raises OutcomeUnknown: it may be listed in the manifest that the next writer finds.
        """
        self.ensure_open()
        number = self.known.manifest.checkpoints_taken

        def change(m: WalManifest) -> WalManifest:
            if m.checkpoints_taken > number:  # an attempt without a reply was applied: only this writer takes any
                return m
            mine = WalCheckpoint(number, m.replay_after, self.last_id)
            return m._replace(checkpoints=(*m.checkpoints, mine), checkpoints_taken=number + 1)

        await self._closing(self._change(change))
        return next(one for one in self.known.manifest.checkpoints if one.number == number)

    async def drop(self, number: int) -> None:
        """Drop a checkpoint of this or an earlier writer; one that is not listed is dropped already.

        Raises FencedUnapplied, Closed, OutcomeUnknown.
        """
        self.ensure_open()
        await self._closing(self._change(
            lambda m: m._replace(checkpoints=tuple(one for one in m.checkpoints if one.number != number))))

    async def _change(self, change: Callable[[WalManifest], WalManifest]) -> None:
        """Put the changed manifest, again while others change it. `attempts` limits the tries after which it has not changed.
        """
        unknown: OutcomeUnknown | None = None
        left = self.attempts
        while left:
            changed = change(self.known.manifest)
            if changed == self.known.manifest:
                return
            known = self.known
            try:
                self.known = await self.object.put(known, changed)
                return
            except PreconditionFailed:
                pass  # a later writer, its own flush whose reply was lost, or another role whose manifest it is, too
            except OutcomeUnknown as error:
                unknown = error
            except Indefinite:  # its boundary is broken: it is not known what stands
                self.closed = Closed
                raise
            except Unavailable:
                left -= 1
                continue  # the store says that nothing was applied
            await self._reread(unknown)
            left -= self.known is known
        self.closed = Closed
        raise unknown or OutcomeUnknown(f"{self.object.key!r} could not be put, {self.attempts} times over")

    async def _reread(self, unknown: OutcomeUnknown | None) -> None:
        """Read the manifest again. Raises FencedUnapplied; raises OutcomeUnknown if the put may have been applied before."""
        try:
            await self._refresh()
        except StoreError as error:
            self.closed = self.closed or Closed
            if isinstance(error, FencedUnapplied) and unknown is None:
                raise
            raise OutcomeUnknown(f"the put met a conflict, or no reply, and then: {error}") from error

    # --- shared by all of them

    def ensure_open(self) -> None:
        """Check that this writer is open. Raises FencedUnapplied, Closed."""
        if self.closed is FencedUnapplied:
            raise FencedUnapplied("writer", self.epoch, 0, "open another one")
        if self.closed:
            raise Closed(f"the writer of epoch {self.epoch} is no longer open: open another one")

    async def _closing(self, work: Awaitable[Result]) -> Result:
        """Await a part of a call. If it is cancelled, this writer is closed: its request in flight may still be applied."""
        try:
            return await work
        except Exception:
            raise
        except BaseException:
            self.closed = Closed
            raise

    async def _refresh(self) -> None:
        """Read the manifest, and compare the epochs. Raises FencedUnapplied, Unavailable, ManifestLost."""
        known = await self._again(lambda: self.object.read_again(self.known))
        if known.manifest.writer_epoch != self.epoch:
            raise self._stop("it has a successor", known.manifest.writer_epoch)
        self.known = known

    def _stop(self, why: str, successor: int = 0) -> FencedUnapplied:
        """End this writer; return the error. `successor`: the epoch of the writer that has fenced it, 0 if it is not known."""
        self.closed = FencedUnapplied
        self.world.metrics.count("wal_fenced")
        self.world.metrics.warn(f"{self.namespace.prefix!r}: fenced: {why}")
        return FencedUnapplied("writer", self.epoch, successor, why)

    async def _again(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Run a read, again while it gets no answer. Raises Unavailable."""
        for _ in range(self.attempts - 1):
            try:
                return await read()
            except Unavailable:
                self.world.metrics.count("wal_reads_repeated")
        return await read()


async def fenced_at(world: World, namespace: Namespace, fence: int, attempts: int) -> int:
    """Put a fence under this id, or the next one that is free; return its id. Raises OutcomeUnknown, Unavailable."""
    doubts = 0
    while True:
        try:
            await world.store.create(namespace.key(fence), FENCE)
            return fence
        except AlreadyExists:
            fence += 1  # an old writer's record or a fence; an own earlier fence serves as well as another's
        except (OutcomeUnknown, Unavailable):
            doubts += 1
            if doubts == attempts:
                raise


async def open(world: World, root: str, flush_every: int | None = None, attempts: int = 5,
               manifest: Manifests | None = None, form: Form = JSON) -> Wal:
    """Open a new writer with all earlier records; earlier writers are fenced.

    With `flush_every` that many records of the replay are flushed at a time. Without `manifest` it is the object
    `<root>/wal.manifest`. Raises UpdateConflict, FencedUnapplied: it is not open. Raises OutcomeUnknown, Unavailable: it is not
    open either, but an epoch may be claimed or a fence put, so that another writer is fenced. Raises InvalidWal, ManifestLost.
    """
    wal = Wal(world, root, attempts, manifest, form)
    await wal._claim()
    await wal._replay(await wal._fence(), flush_every)
    return wal


async def collect(world: World, root: str, min_age_ms: int = 0,
                  current: Callable[[], Awaitable[Known]] | None = None) -> list[int]:
    """Run one round of garbage collection; return the deleted ids.

    It deletes the objects behind replay_after, fences included, that are older than `min_age_ms` (0: of any age) and that no
    listed checkpoint refers to. The manifest is read before the listing, by `current` if it is given. replay_after is durable
    and never decreases, so the objects behind it stay behind it. A checkpoint that is taken later refers to none of them.
    """
    namespace, now_ms = Namespace(root, "wal"), world.clock.now_ms()
    known = (await (current or ManifestObject(world, root).read)()).manifest
    if not known.replay_after:
        return []
    listed = [(namespace.file_id(entry.key), entry.last_modified_ms) for entry in await list_all(world.store, namespace.prefix)]
    old = [i for i, modified_ms in listed if not min_age_ms or now_ms - modified_ms > min_age_ms]
    return [i for i in old if i is not None and i <= known.replay_after
            and not any(one.refers_to(i) for one in known.checkpoints) and await _delete(world, namespace, i)]


async def _delete(world: World, namespace: Namespace, i: int) -> bool:
    try:
        await world.store.delete(namespace.key(i))
    except (Definite, OutcomeUnknown) as error:
        world.metrics.warn(f"delete of WAL id {i} failed, the next round will find it: {error}")
        return False
    return True
