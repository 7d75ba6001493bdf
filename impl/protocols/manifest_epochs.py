"""Safety: no flush that was reported as done leaves the manifest, whoever else writes to it. Of each role only the instance
that opened last commits. A fenced instance tells its caller so, and whether its current update is in the manifest.

SlateDB's page on the manifest: «During db::open an epoch is calculated by reading the epoch in the manifest and incrementing it
by one, this only happens once for each call to db::open.» An update follows the page's «Manifest Update Protocol»: LIST, sort,
GET the latest, apply, compare the epochs, PUT the next id if absent; upon a «CAS conflict error, then restart at step 1». Here
epochs are compared before the change is applied. Nobody can observe the order, and a fenced instance should not begin to merge.
The code follows model/protocols/manifest_epochs.py request by request.

An open writer has one checkpoint of its own, so that no collector deletes what the manifest that it put last names. SlateDB's
RFC on checkpoints: a writer that opens removes the checkpoints of all writers and creates its own, in the update that claims
its epoch; later it puts a new one in its place «whenever the set of L0 SSTs, or Sorted Runs has changed». Here each flush does.

The page leaves two TODOs. Here a compactor or a collector is fenced as a writer is: by an epoch of its own, at its next read of
the manifest. A reader in another process learns of new keys by `poll`, which is one LIST and one GET.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Codec
from highwater.impl.codecs.json.manifest import EPOCHS, Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, Fenced, FencedApplied, FencedUnapplied, OutcomeUnknown, StoreError
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import Attempt, Committed, MetadataStore, Policies, Put, Verdict
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.world import World

EMPTY = Manifest()
ROLES = ("writer", "compactor", "collector")


class InDoubt(Definite):
    """Another update of this instance has an indeterminate outcome. Repeat that one first: it finds out."""


# --- updates

class Flush(NamedTuple):
    """A writer's update: «When “MemTables” are flushed to the store»."""

    sst: str

    def landed(self, m: Manifest) -> bool:
        return m.has_sst(self.sst)

    def applied(self, m: Manifest) -> Manifest:
        return m._replace(l0=(*m.l0, self.sst), replay_after_wal_id=m.next_wal, next_wal=m.next_wal + 1)


class Compaction(NamedTuple):
    """A compactor's update: «When compaction finishes it's current cycle»."""

    picked: tuple[str, ...]

    def landed(self, m: Manifest) -> bool:
        return all(sst in m.compacted for sst in self.picked)

    def applied(self, m: Manifest) -> Manifest:
        new = tuple(sst for sst in self.picked if sst not in m.compacted)
        return m._replace(l0=tuple(sst for sst in m.l0 if sst not in self.picked), compacted=m.compacted + new)


class Collection(NamedTuple):
    """A collector's update: it drops the checkpoints that have ended."""

    picked: tuple[Checkpoint, ...]

    def landed(self, m: Manifest) -> bool:
        return not any(checkpoint in m.checkpoints for checkpoint in self.picked)

    def applied(self, m: Manifest) -> Manifest:
        return m._replace(checkpoints=tuple(checkpoint for checkpoint in m.checkpoints if checkpoint not in self.picked))


Update = Flush | Compaction | Collection
Merge = Callable[[tuple[str, ...]], Awaitable[Any]]


def store_of(world: World, root: str, role: str = "", codec: Codec = EPOCHS, kind: type[MetadataStore] = MetadataStore
             ) -> MetadataStore:
    """Return the client of the manifests for an instance of this role. Nothing is collected here, so there is no boundary."""
    epoch = f"{role}_epoch" if role else ""
    return kind(world, Namespace(root, "manifest"), codec, Policies(boundary=False, epoch=epoch, spare_checkpoints=False))


class Instance:
    """One writer, compactor or collector. It opens once, and then updates, one call at a time.

    If a read fails, the next call starts over with LIST. If the store refuses a create without effect, the next call repeats it
    from the same manifest. If that is out of date by then, the create conflicts. A cancelled call (asyncio.wait_for) counts as
    one whose response was lost: repeat an update to find out; an open has failed.
    """

    def __init__(self, world: World, root: str, role: str, codec: Codec = EPOCHS, kind: type[MetadataStore] = MetadataStore):
        if role not in ROLES:
            raise ValueError(f"role is {role!r}: accepted are {', '.join(ROLES)}")
        self.world, self.role = world, role
        self.metadata = store_of(world, root, role, codec, kind)
        self.epoch = 0  # 0: not open
        self.update: Update | None = None  # the current update
        self.attempt = Attempt()  # what is known of the open, and then of the current update
        self.over: StoreError | None = None  # the reason why this instance has ended

    async def open(self, retry_for_s: float = 0) -> Committed:
        """Add one to this role's epoch in the manifest, and take the result as the epoch of this instance.

        After a conflict or a lost response it starts over for `retry_for_s` seconds, and takes the epoch after the one that it
        reads then, as released SlateDB does. When the time is up, it raises ObjectVersionExists, or OutcomeUnknown if a
        response was lost. In the second case a manifest may have an epoch that no instance has. After either error this
        instance has ended: make another. Raises NoLatest, Unavailable: call it again.
        """
        self._check_not_over()
        if self.epoch:
            raise RuntimeError(f"this {self.role} is open already, with epoch {self.epoch}: an epoch is taken once")
        end_ms = self.world.clock.now_ms() + int(retry_for_s * 1000)
        try:
            opened = await self.metadata.claim(None if retry_for_s else 1, end_ms, self.attempt, self.with_own_checkpoint)
        except (ObjectVersionExists, OutcomeUnknown) as error:
            self.over = StoreError(str(error))
            raise
        except Definite:
            raise
        except BaseException:  # the caller stopped waiting: the request in flight may be applied
            if self.attempt.doubt:
                self.over = OutcomeUnknown(f"open of a {self.role}: its caller did not wait for the response")
            raise
        self.epoch, self.attempt = getattr(opened.value, self.metadata.policies.epoch), Attempt()
        return opened

    def with_own_checkpoint(self, file_id: int, m: Manifest) -> Manifest:
        """Return manifest `file_id` with a checkpoint of itself for the writer that puts it, in place of all writers' ones."""
        if self.role != "writer":
            return m
        others = tuple(one for one in m.checkpoints if one.writer_epoch is None)
        own = Checkpoint(self.world.ids.new_id(), file_id, 0, None, m.writer_epoch)
        return m._replace(checkpoints=(*others, own))

    async def flush(self, sst: str, deadline_ms: int | None = None) -> Committed:
        """Apply a writer's update: add the SST to L0, advance the WAL ids, and replace the writer's checkpoint. `sst` must be a
        name never used before.

        It retries after each conflict, until it succeeds or the clock reaches `deadline_ms`. Then it raises
        ObjectVersionExists, or OutcomeUnknown if a create had no response. After OutcomeUnknown only the same flush is
        accepted; it finds out whether the first one was applied. Raises FencedUnapplied, FencedApplied: this writer has ended,
        and the same flush again raises the same. Raises Unavailable, InDoubt: the call had no effect.
        """
        self._check_role("writer", Flush(sst))
        if self.update != Flush(sst):
            if self.attempt.doubt:
                raise InDoubt(f"{self.update} has an indeterminate outcome: repeat it first to find out")
            self.update = Flush(sst)
        return await self._update(lambda _: self.update, None, deadline_ms)

    async def compact(self, merge: Merge | None = None, deadline_ms: int | None = None) -> Committed | None:
        """Apply a compactor's update: pick all of L0, `merge` it, and record the result in the manifest.

        Returns None if L0 is empty. Merged SSTs stay picked until they are in the manifest, and are not merged again. Raises
        what `flush` raises.
        """
        self._check_role("compactor")
        return await self._update(lambda m: Compaction(m.l0) if m.l0 else None, merge, deadline_ms)

    async def drop_ended_checkpoints(self, deadline_ms: int | None = None) -> Committed | None:
        """Apply a collector's update: drop the checkpoints that have ended by its clock.

        Returns None if there are none. Raises what `flush` raises.
        """
        self._check_role("collector")
        now_ms = self.world.clock.now_ms()

        def pick(m: Manifest) -> Collection | None:
            ended = tuple(checkpoint for checkpoint in m.checkpoints if not checkpoint.active(now_ms))
            return Collection(ended) if ended else None

        return await self._update(pick, None, deadline_ms)

    async def _update(self, pick: Callable[[Manifest], Update | None], merge: Merge | None,
                      deadline_ms: int | None) -> Any:
        """Return what was committed; None if `pick` found nothing to do."""
        async def decide(latest: int, m: Manifest) -> Put | Verdict:
            return await self._decide(latest, m, pick, merge)

        try:
            done = await self.metadata.apply(decide, True, None, deadline_ms, self.attempt, self.epoch, self._fenced)
        except Fenced as error:
            self.over = type(error)(error.role, error.epoch, error.stored, "an earlier call reported this already")
            self.world.metrics.count("fenced")
            self.world.metrics.warn(str(error))
            raise
        self.update, self.attempt = None, Attempt()
        return done

    async def _decide(self, latest: int, m: Manifest, pick: Callable[[Manifest], Update | None], merge: Merge | None
                      ) -> Put | Verdict:
        """Recognise the current update in the latest manifest, find that there is nothing to do, or apply the update."""
        if self.update and self.update.landed(m):
            return Verdict(Committed(latest, m))
        if self.attempt.doubt <= latest:
            self.attempt.settle()  # that id is taken, so the create cannot be applied later
        if self.update is None:
            update = pick(m)
            if update is None:
                return Verdict(None)
            if merge:
                await merge(update.picked)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]  # a compaction
            self.update = update
        return Put(self.update.applied(self.with_own_checkpoint(latest + 1, m)))

    def _fenced(self, m: Manifest) -> Fenced:
        """Return the error of an instance that is fenced by this manifest.

        «If our epoch is less than the epoch stored in the manifest, then an error is logged, and the manifest update is
        aborted». Here the caller gets the error too, which the page's NOTE rules out. An update without a response is in the
        manifest by now or never will be, because the id that it was sent for is taken.
        """
        stored = getattr(m, self.metadata.policies.epoch)
        applied = bool(self.attempt.doubt and self.update and self.update.landed(m))
        kind, what = (FencedApplied, "is in the manifest") if applied else (FencedUnapplied, "is not in the manifest")
        return kind(self.role, self.epoch, stored, f"{self.update or 'its update'} {what}")

    def _check_role(self, role: str, update: Update | None = None) -> None:
        if self.role != role:
            raise RuntimeError(f"only a {role} may do this, but this is a {self.role}")
        self._check_not_over(update or self.update)
        if not self.epoch:
            raise RuntimeError(f"open this {self.role} first")

    def _check_not_over(self, update: Update | None = None) -> None:
        """Check that this instance has not ended. `update`: what is asked for. Raises FencedApplied again for the update whose
        effect is in the manifest."""
        match self.over:
            case FencedApplied() as fenced if update == self.update:
                raise FencedApplied(self.role, fenced.epoch, fenced.stored, f"{update} is in the manifest")
            case Fenced() as fenced:
                raise FencedUnapplied(self.role, fenced.epoch, fenced.stored, "an earlier call reported this already")
            case StoreError() as failed:
                raise RuntimeError(f"this {self.role} failed to open, so make another: {failed}")
            case _:
                pass


async def open_writer(world: World, root: str, retry_for_s: float = 0) -> Instance:
    """Open a writer. Raises what `Instance.open` raises.

    «When the database is opened for write, write_epoch is incremented once»
    """
    return await opened(Instance(world, root, "writer"), retry_for_s)


async def open_compactor(world: World, root: str, retry_for_s: float = 0) -> Instance:
    """Open a compactor. Raises what `Instance.open` raises.

    «When the database is opened and compaction is enabled, compactor_epoch is incremented once»
    """
    return await opened(Instance(world, root, "compactor"), retry_for_s)


async def open_collector(world: World, root: str, retry_for_s: float = 0) -> Instance:
    """Open a collector. Raises what `Instance.open` raises."""
    return await opened(Instance(world, root, "collector"), retry_for_s)


async def opened(instance: Instance, retry_for_s: float) -> Instance:
    await instance.open(retry_for_s)
    return instance


async def initialise(world: World, root: str, first: Manifest = EMPTY) -> None:
    """Create the first manifest if there is none. Raises OutcomeUnknown, Unavailable."""
    await store_of(world, root).initialise(first)


# --- a reader in another process

class Polled(NamedTuple):
    """The result of one poll."""

    id: int
    manifest: Manifest
    new: tuple[str, ...]  # SSTs that earlier polls of this reader did not return


class ManifestReader:
    """A reader that polls the manifest.

    «How does a SlateDB reader know there are new keys written by other instances?» It asks.
    """

    def __init__(self, world: World, root: str, codec: Codec = EPOCHS, kind: type[MetadataStore] = MetadataStore):
        self.metadata = store_of(world, root, "", codec, kind)
        self.seen: frozenset[str] = frozenset()

    async def poll(self) -> Polled:
        """LIST, then GET the latest. Every flush that was reported before the call is in it. Raises NoLatest, Unavailable."""
        latest, manifest = await self.metadata.current()
        new = tuple(sst for sst in manifest.sst_names if sst not in self.seen)
        self.seen |= frozenset(new)
        return Polled(latest, manifest, new)
