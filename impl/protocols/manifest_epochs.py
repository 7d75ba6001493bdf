"""Safety: no flush that was reported as done leaves the manifest, whoever else writes to it; of one role only the instance that
opened last commits; and an instance that is fenced tells its caller, who learns whether this update of its is in the manifest.

Source 002: «During db::open an epoch is calculated by reading the epoch in the manifest and incrementing it by one, this only
happens once for each call to db::open.» An update is its «Manifest Update Protocol»: LIST, sort, GET the latest, apply, compare
the epochs, PUT the next id if absent; upon a «CAS conflict error, then restart at step 1». (Epochs are compared before the
change is applied: nobody sees the order, and who is fenced should not begin to merge.) model/protocols/manifest_epochs.py,
request by request.

The source's two TODOs: a compactor, and a collector, is fenced as a writer is, by an epoch of its own, at its next read of the
manifest; and a reader in another process learns of new keys by `poll`, one LIST and one GET.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.json import manifest_epochs as manifest_epochs_json
from highwater.impl.codecs.json.manifest import Checkpoint
from highwater.impl.codecs.json.manifest_epochs import Manifest
from highwater.impl.errors import Definite, Indefinite, OutcomeUnknown, StoreError
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import FIRST_ID, NoLatest, ObjectVersionExists, SequencedStorage
from highwater.impl.world import World

EMPTY = Manifest()
EPOCH = {"writer": "writer_epoch", "compactor": "compactor_epoch", "collector": "collector_epoch"}  # each role's own


class ManifestVersionExists(Definite):
    """Others were faster: this open, or this update, is not in any manifest."""

    def __init__(self, what: str, file_id: int):
        self.id = file_id
        super().__init__(f"{what}: another instance has written manifest {file_id} before; this has had no effect")


class Fenced(StoreError):
    """Another instance of this role has opened since. This one is over; what it was about, see its two kinds."""

    def __init__(self, role: str, epoch: int, stored: int, what: str):
        self.role, self.epoch, self.stored = role, epoch, stored
        super().__init__(f"this {role} has epoch {epoch}, the manifest {stored}: another {role} has opened since; {what}")


class FencedUnapplied(Fenced, Definite):
    """The update is in no manifest, and never will be."""


class FencedApplied(Fenced, Indefinite):
    """What the update was to bring about is in the manifest. Of a writer: its flush, sent without a reply, was applied before
    the other opened. Of a compactor or a collector: it is done, by this one or by its successor, whose output it then is."""


class InDoubt(Definite):
    """Another update of this instance is of unknown outcome: repeat that one first, which finds out."""


class Committed(NamedTuple):
    id: int  # of the manifest; where an update in doubt was found, of the manifest in which it was
    manifest: Manifest


# --- what an update changes

class Flush(NamedTuple):
    """«When “MemTables” are flushed to the store»."""

    sst: str

    def landed(self, m: Manifest) -> bool:
        return self.sst in m.ssts

    def applied(self, m: Manifest) -> Manifest:
        return m._replace(l0=(*m.l0, self.sst), last_wal=m.next_wal, next_wal=m.next_wal + 1)


class Compaction(NamedTuple):
    """«When compaction finishes it's current cycle»."""

    picked: tuple[str, ...]

    def landed(self, m: Manifest) -> bool:
        return all(sst in m.compacted for sst in self.picked)

    def applied(self, m: Manifest) -> Manifest:
        new = tuple(sst for sst in self.picked if sst not in m.compacted)
        return m._replace(l0=tuple(sst for sst in m.l0 if sst not in self.picked), compacted=m.compacted + new)


class Collection(NamedTuple):
    picked: tuple[Checkpoint, ...]

    def landed(self, m: Manifest) -> bool:
        return not any(checkpoint in m.checkpoints for checkpoint in self.picked)

    def applied(self, m: Manifest) -> Manifest:
        return m._replace(checkpoints=tuple(checkpoint for checkpoint in m.checkpoints if checkpoint not in self.picked))


Update = Flush | Compaction | Collection
Merge = Callable[[tuple[str, ...]], Awaitable[Any]]


class Instance:
    """One writer, compactor or collector: it opens once, and then updates, one call at a time.

    After a read without an answer the next call begins anew, with LIST. After a create that was refused without effect it goes
    on from where this one was (`at`, `base`): that can only be out of date, and then its create conflicts. A call that is
    cancelled (asyncio.wait_for) counts as one whose reply was lost: an update is repeated to find out, an open is over.
    """

    def __init__(self, world: World, root: str, role: str, codec: Any = manifest_epochs_json):
        if role not in EPOCH:
            raise ValueError(f"role is {role!r}: accepted are {', '.join(EPOCH)}")
        self.world, self.role, self.codec = world, role, codec
        self.storage = SequencedStorage(world, Namespace(root, "manifest"))
        self.epoch = 0  # 0: not open
        self.at = 0  # the latest id that it has listed, and read, for what it is about; 0: it has not
        self.base: Manifest | None = None  # the manifest of `at`, compared and ready to be built on
        self.update: Update | None = None  # what it is about
        self.tried = False  # it has met a conflict, or no reply, for this update
        self.doubt = 0  # the id under which a create of it may be, now or later; 0: none
        self.over: StoreError | None = None  # why it does nothing any more

    async def open(self, retry_for_s: float = 0) -> Committed:
        """Take the epoch after the one in the manifest, and write it: the only epoch that this role changes.

        Raises ManifestVersionExists for a lost race, and OutcomeUnknown where no reply came: then nobody may have the epoch.
        Either only when `retry_for_s` are over: until then it begins anew, with the epoch after what it reads then, as released
        SlateDB does. After either the instance is over: make another. Raises NoLatest, Unavailable: call it again.
        """
        self._check_not_over()
        if self.epoch:
            raise RuntimeError(f"this {self.role} is open already, with epoch {self.epoch}: an epoch is taken once")
        end_ms, doubt = self.world.clock.now_ms() + int(retry_for_s * 1000), False
        while True:
            try:
                if self.base is None:
                    self.base = await self._latest()
                mine = getattr(self.base, EPOCH[self.role]) + 1
                committed = await self._create(self.base._replace(**{EPOCH[self.role]: mine}))
            except ObjectVersionExists:
                self.world.metrics.count("open_conflicts")
            except OutcomeUnknown:
                doubt = True
            except Definite as error:
                if doubt:
                    raise self._not_open(OutcomeUnknown(f"open of a {self.role}: no reply, and then {error}")) from None
                raise
            except BaseException:  # whoever called stopped waiting: what is under way may be applied
                if self.base is not None or doubt:
                    self._not_open(OutcomeUnknown(f"open of a {self.role}: its caller did not wait for the reply"))
                raise
            else:
                self.epoch = mine
                return committed
            lost, self.at, self.base = self.at + 1, 0, None
            if not retry_for_s or self.world.clock.now_ms() >= end_ms:  # a clock may be put back meanwhile
                what = f"open of a {self.role}"
                raise self._not_open(OutcomeUnknown(f"{what}: no reply") if doubt else ManifestVersionExists(what, lost))

    def _not_open(self, why: StoreError) -> StoreError:
        self.over = why
        return why

    async def flush(self, sst: str, deadline_ms: int | None = None) -> Committed:
        """A writer's update: the SST is in L0, and the WAL ids move on. `sst` must be a name never used before.

        It is tried again after each conflict, until it is done, or until `deadline_ms` by the clock: then it raises
        ManifestVersionExists, or OutcomeUnknown if some create had no reply; after that only the same flush is accepted, which
        finds out. Raises FencedUnapplied, FencedApplied: this writer is over. Raises Unavailable, InDoubt: nothing was done.
        """
        self._check_role("writer")
        if self.update != Flush(sst):
            if self.doubt:
                raise InDoubt(f"{self.update} is of unknown outcome: repeat it first, which finds out")
            self._forget()
            self.update = Flush(sst)
        return await self._update(lambda _: self.update, None, deadline_ms)

    async def compact(self, merge: Merge | None = None, deadline_ms: int | None = None) -> Committed | None:
        """A compactor's update: pick all of L0, `merge` those, and say so in the manifest. None: L0 is empty. What is merged
        stays picked until it is in the manifest, and is not merged again. Raises as `flush`."""
        self._check_role("compactor")
        return await self._update(lambda m: Compaction(m.l0) if m.l0 else None, merge, deadline_ms)

    async def drop_ended_checkpoints(self, deadline_ms: int | None = None) -> Committed | None:
        """A collector's update: pick the checkpoints that have ended by its clock, and drop those. None: there are none.
        Raises as `flush`."""
        self._check_role("collector")
        now_ms = self.world.clock.now_ms()

        def pick(m: Manifest) -> Collection | None:
            ended = tuple(checkpoint for checkpoint in m.checkpoints if not checkpoint.active(now_ms))
            return Collection(ended) if ended else None

        return await self._update(pick, None, deadline_ms)

    # --- the update protocol

    async def _update(self, pick: Callable[[Manifest], Update | None], merge: Merge | None,
                      deadline_ms: int | None) -> Any:
        """Return what was committed; None if `pick` found nothing to do."""
        while True:
            try:
                if self.base is None and (found := await self._prepare(pick, merge)):
                    return self._done(found)
                if self.update is None:
                    return None
                assert self.base is not None, "_prepare has found something to build on"
                return self._done(await self._create(self.update.applied(self.base)))
            except ObjectVersionExists:
                self.world.metrics.count("update_conflicts")
            except OutcomeUnknown:
                self.world.metrics.count("updates_in_doubt")
                self.doubt = self.at + 1
            except Definite as error:
                if self.doubt and not isinstance(error, Fenced):
                    raise OutcomeUnknown(f"{self.update} is in doubt, repeat it to find out: {error}") from error
                raise
            except BaseException:  # whoever called stopped waiting: a create that is under way may be applied
                if self.base is not None:
                    self.doubt, self.at, self.base, self.tried = self.at + 1, 0, None, True
                raise
            tried, self.at, self.base, self.tried = self.at + 1, 0, None, True
            if deadline_ms is not None and self.world.clock.now_ms() >= deadline_ms:
                if self.doubt:
                    raise OutcomeUnknown(f"{self.update} is in doubt after its deadline, repeat it to find out")
                raise ManifestVersionExists(str(self.update), tried)

    async def _prepare(self, pick: Callable[[Manifest], Update | None], merge: Merge | None) -> Committed | None:
        """LIST, GET, compare; then there is something to build on (`base`, `update`), or nothing to do (no `update`), or it is
        done already, which is returned. Raises Fenced."""
        m = await self._latest()
        self._compare(m)
        if self.tried and self.update and self.update.landed(m):
            return Committed(self.at, m)
        if self.doubt <= self.at:
            self.doubt = 0  # what took that id was not it
        if self.update is None:
            update = pick(m)
            if update is None:
                self.at = 0
                return None
            if merge:
                await merge(update.picked)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]  # a compaction
            self.update = update
        self.base = m
        return None

    def _compare(self, m: Manifest) -> None:
        """«If our epoch is less than the epoch stored in the manifest, then an error is logged, and the manifest update is
        aborted», and the error reaches the caller, which the source's NOTE misses. An update without a reply is in the manifest
        by now, or never will be: the id that it was sent for is taken."""
        stored = getattr(m, EPOCH[self.role])
        if self.epoch >= stored:
            return
        applied = bool(self.doubt and self.update and self.update.landed(m))
        kind, what = (FencedApplied, "is in the manifest") if applied else (FencedUnapplied, "is not in the manifest")
        self.over = kind(self.role, self.epoch, stored, f"{self.update or 'what it was about'} {what}")
        self.world.metrics.count("fenced")
        self.world.metrics.warn(str(self.over))
        raise self.over

    async def _latest(self) -> Manifest:
        """«Sort the list of files and select the manifest with the largest manifest id.»"""
        self.at = 0  # what was listed before is out of date, if it could not be read then
        files = await self.storage.list()
        if not files:
            raise NoLatest(f"there is no file in {self.storage.namespace.prefix!r}: initialise it first")
        m = self.codec.decode(await self.storage.read(files[-1].id))
        self.at = files[-1].id
        return m

    async def _create(self, m: Manifest) -> Committed:
        """«Write the modified manifest using the next manifest id number in the sequence.»"""
        await self.storage.create(self.at + 1, self.codec.encode(m))
        committed, self.at, self.base = Committed(self.at + 1, m), 0, None
        return committed

    def _done(self, committed: Committed) -> Committed:
        self._forget()
        self.at = 0
        return committed

    def _forget(self) -> None:
        self.update, self.tried, self.doubt = None, False, 0

    def _check_role(self, role: str) -> None:
        if self.role != role:
            raise RuntimeError(f"that is for a {role} to do, and this is a {self.role}")
        self._check_not_over()
        if not self.epoch:
            raise RuntimeError(f"open this {self.role} first")

    def _check_not_over(self) -> None:
        match self.over:
            case Fenced() as fenced:
                raise FencedUnapplied(self.role, fenced.epoch, fenced.stored, "it was told so, and does nothing any more")
            case StoreError() as failed:
                raise RuntimeError(f"this {self.role} failed to open, make another: {failed}")
            case _:
                pass


async def open_writer(world: World, root: str, retry_for_s: float = 0) -> Instance:
    """«When the database is opened for write, write_epoch is incremented once». Raises as `Instance.open`."""
    return await opened(Instance(world, root, "writer"), retry_for_s)


async def open_compactor(world: World, root: str, retry_for_s: float = 0) -> Instance:
    """«When the database is opened and compaction is enabled, compactor_epoch is incremented once»."""
    return await opened(Instance(world, root, "compactor"), retry_for_s)


async def open_collector(world: World, root: str, retry_for_s: float = 0) -> Instance:
    return await opened(Instance(world, root, "collector"), retry_for_s)


async def opened(instance: Instance, retry_for_s: float) -> Instance:
    await instance.open(retry_for_s)
    return instance


async def initialise(world: World, root: str, first: Manifest = EMPTY) -> None:
    """Create the first manifest, if there is none. Raises OutcomeUnknown, Unavailable."""
    storage = SequencedStorage(world, Namespace(root, "manifest"))
    if not await storage.list():
        try:
            await storage.create(FIRST_ID, manifest_epochs_json.encode(first))
        except ObjectVersionExists:
            pass  # somebody else has


# --- a reader in another process

class Polled(NamedTuple):
    id: int
    manifest: Manifest
    new: tuple[str, ...]  # SSTs that no poll of this reader has shown before


class ManifestReader:
    """«How does a SlateDB reader know there are new keys written by other instances?» By asking."""

    def __init__(self, world: World, root: str, codec: Any = manifest_epochs_json):
        self.storage, self.codec = SequencedStorage(world, Namespace(root, "manifest")), codec
        self.seen: frozenset[str] = frozenset()

    async def poll(self) -> Polled:
        """LIST, GET the latest: every flush that was reported before the call is in it. Raises NoLatest, Unavailable."""
        files = await self.storage.list()
        if not files:
            raise NoLatest(f"there is no file in {self.storage.namespace.prefix!r}")
        manifest = self.codec.decode(await self.storage.read(files[-1].id))
        new = tuple(sst for sst in manifest.ssts if sst not in self.seen)
        self.seen |= frozenset(new)
        return Polled(files[-1].id, manifest, new)
