"""Safety: every compaction that was begun is applied exactly once, and no acknowledged flush is lost. This holds although
compactors take over from each other, crash between two objects, are refused after they have succeeded, and old files are
deleted.

The manifest and the compactions are two sequences of files. Each has its boundary (SlateDB's RFC on GC boundary files), and no
request writes to both. A compactor may disappear between any two requests, so what it leaves must tell the next one everything:

- A compactor opens with an epoch: the successor of the manifest's epoch, written to the manifest and then to the compactions.
  The order matters: once its epoch is stored anywhere, no older compactor changes the manifest. The next compactor takes a
  higher epoch and writes that to both, whatever a crash has left there.
- A compactor claims its input in the compactions first, and removes the claim when the manifest has the result. A compactor
  that opens continues the claim that it finds.
- Before each change it looks in the files it read for the change itself: `MetadataStore.update_recognised`. So a refusal, a
  lost reply, and a claim that another compactor has applied are one case.
- What it concludes from a file, it believes only if the file is in the history: that it is fenced, too, and that its input is
  missing.
- With `pin_ms` it takes a checkpoint before it drops inputs from L0, in an update of its own: a pin of the manifest that this
  update puts. Released compactors of SlateDB do the same, for 900 s. So a client that has read a manifest without a checkpoint
  has that time to finish. A collector may drop a pin that has ended before the inputs are dropped: then the compactor takes
  another one.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.json.manifest import COMPACTED
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Indefinite
from highwater.impl.layout import Namespace
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies, Recognised
from highwater.impl.world import World


class InputMissing(Indefinite):
    """A claim names an SST that is neither in L0 nor compacted. It must not be merged; this code never makes such a claim."""


class Unpinned(Indefinite):
    """The pin of a compaction has ended and was dropped. A compactor takes another one, and raises this to nobody."""


class Stores(NamedTuple):
    """The two sequences of files that a compactor works on."""

    manifest: MetadataStore
    compactions: MetadataStore


def stores_of(world: World, root: str, pins: bool = False) -> Stores:
    """Return the clients of both sequences. `pins`: a collection spares what checkpoints refer to, as `pin_ms` needs it.
    """
    return Stores(*(MetadataStore(world, Namespace(root, name), codec,
                                  Policies(epoch="compactor_epoch", spare_checkpoints=spare))
                    for name, codec, spare in (("manifest", COMPACTED, pins), ("compactions", compactions_json, False))))


async def initialise(stores: Stores) -> None:
    """Create the first files if there are none."""
    await stores.manifest.initialise(Manifest())
    await stores.compactions.initialise(Compactions())


async def flush(stores: Stores, sst: str) -> Committed | Recognised:
    """Add an SST to L0, exactly once however often this is called. Raises what `update_recognised` raises."""
    return await stores.manifest.update_recognised(
        lambda m: m.has_sst(sst), lambda _, m: m._replace(l0=(*m.l0, sst)))


async def collect(stores: Stores, min_age_ms: int) -> tuple[list[int], list[int]]:
    """Run one round of garbage collection in both sequences; return the deleted ids of each.

    If manifests of checkpoints are spared, the checkpoints that have ended are dropped first.
    """
    if stores.manifest.policies.spare_checkpoints:
        await stores.manifest.drop_ended()
    return await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)


def name_of_pin(job: Job) -> str:
    """Return the name of the checkpoint that pins the inputs of a compaction."""
    return f"compaction of {' '.join(job)}"


def is_applied(manifest: Manifest, job: Job) -> bool:
    return all(sst in manifest.compacted for sst in job)


class Compactor:
    """One instance: `open` it once, then call `compact` repeatedly.

    After FencedInDoubt it is of no more use. After any other error it may be called again, and continues where it was.

    A claim is a Job here, in our own files. A subclass for other files says what a claim is, and where it stands.
    """

    def __init__(self, stores: Stores, attempts: int = 100, pin_ms: int = 0):
        """Make a compactor that is not open yet. `attempts` limits an open that is refused, or gets no reply, again and again.

        `pin_ms` is the lifetime of the checkpoint that it takes before it drops inputs (released SlateDB: 900,000); 0: none.
        """
        self.stores, self.attempts, self.pin_ms = stores, attempts, pin_ms
        self.epoch = 0  # 0: not open. The others are known once it is open
        self.job: Any  # the claim in progress; () if there is none
        self.claimed: bool  # the claim is known to be in the compactions
        self.pinned = not pin_ms  # its pin was seen in the manifest, or it takes none
        self.applied: bool  # the result is known to be in the manifest

    async def open(self) -> int:
        """Open the compactor; return its epoch. Raises what `update_recognised` and `claim` raise."""
        epoch = await self._bump()
        opened = await self.stores.compactions.update_recognised(
            lambda c: c.compactor_epoch == epoch, lambda _, c: c._replace(compactor_epoch=epoch), epoch=epoch)
        self.epoch, self.job = epoch, self.claim_in(opened.value)
        self.claimed, self.pinned, self.applied = bool(self.job), not self.pin_ms, False
        return epoch

    async def _bump(self) -> int:
        """Write the next epoch to the manifest, and return it.

        If it is unknown whether an epoch was written, nobody uses it and the next one is taken.
        """
        return (await self.stores.manifest.claim(self.attempts)).value.compactor_epoch

    async def compact(self, merge: Callable[[Job], Awaitable[None]]) -> Job:
        """Continue the existing claim, or claim all of L0; `merge` it, apply it, remove the claim.

        Returns the SSTs that were merged; () if there was nothing to do. `merge` may be called again for the same job, also by
        another compactor.
        """
        if not self.epoch:
            raise ValueError("this compactor is not open")
        job = self.job = self.job or await self._pick()
        if job:
            if not self.claimed:
                await self._claim(job)
            if not self.applied:
                await self._apply(job, merge)
            await self._finish(job)
        self.job = ()
        return job

    async def _pick(self) -> Job:
        """Pick from a manifest ahead of the boundary. One behind it may list SSTs in L0 that are merged already."""
        manifest = (await self.stores.manifest.current()).value
        if self.stores.manifest.is_fenced(manifest, self.epoch):
            raise self.stores.manifest.fenced_by(manifest, self.epoch)
        self.claimed, self.pinned, self.applied = False, not self.pin_ms, False
        return self.picked(manifest)

    async def _claim(self, job: Job) -> None:
        await self.stores.compactions.update_recognised(
            lambda c: self.is_claimed(c, job), lambda _, c: self.with_claim(c, job), epoch=self.epoch)
        self.claimed = True

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        await merge(job)
        while not self.applied:
            if not self.pinned:
                await self._pin(job)
            try:
                await self._drop_inputs(job)
            except Unpinned:
                self.pinned = False
                self.stores.manifest.world.metrics.count("compactor_pins_again")

    async def _pin(self, job: Job) -> None:
        """Put a manifest with a checkpoint of itself, in which the inputs are in L0, unless it has one, or the result."""
        manifests = self.stores.manifest
        checkpoint = checkpoints.new_id(manifests)

        def change(file_id: int, m: Manifest) -> Manifest:
            now_ms = manifests.world.clock.now_ms()
            return m.with_checkpoint(manifests.codec.checkpoint.taken(
                checkpoint, file_id, now_ms + self.pin_ms, now_ms, self.name_of_pin(job)))

        await manifests.update_recognised(lambda m: self.is_pinned(m, job) or self.is_applied(m, job), change, epoch=self.epoch)
        self.pinned = True

    async def _drop_inputs(self, job: Job) -> None:
        """Put a manifest with the result in place of the inputs. Raises Unpinned if it was to be pinned, and is not."""
        def applied(m: Manifest) -> bool | InputMissing | Unpinned:
            if self.is_applied(m, job):
                return True
            if missing := self.missing(m, job):
                return InputMissing(f"claimed is {list(job)}, but {missing}")
            return bool(self.pin_ms) and not self.is_pinned(m, job) and Unpinned(f"{list(job)} is not pinned")

        await self.stores.manifest.update_recognised(applied, lambda _, m: self.with_result(m, job), epoch=self.epoch)
        self.applied = True

    async def _finish(self, job: Job) -> None:
        await self.stores.compactions.update_recognised(
            lambda c: self.is_finished(c, job), lambda _, c: self.without_claim(c, job), epoch=self.epoch)

    # --- the form of a claim in the compactions, and of its pin and its result in the manifest

    def claim_in(self, compactions: Compactions) -> Job:
        """Return the claim that an opened compactor continues; () if there is none."""
        return min(compactions.jobs, default=())

    def picked(self, manifest: Manifest) -> Job:
        """Return what to claim next: all of L0."""
        return manifest.l0

    def is_claimed(self, compactions: Compactions, job: Job) -> bool:
        return job in compactions.jobs

    def with_claim(self, compactions: Compactions, job: Job) -> Compactions:
        """Return the compactions with this claim."""
        return compactions._replace(jobs=(*compactions.jobs, job))

    def is_finished(self, compactions: Compactions, job: Job) -> bool:
        """Return whether the compactions no longer have this claim."""
        return job not in compactions.jobs

    def without_claim(self, compactions: Compactions, job: Job) -> Compactions:
        """Return the compactions without this claim."""
        return compactions._replace(jobs=tuple(other for other in compactions.jobs if other != job))

    def name_of_pin(self, job: Job) -> str:
        """Return the name of the checkpoint that pins the inputs."""
        return name_of_pin(job)

    def is_pinned(self, manifest: Manifest, job: Job) -> bool:
        return any(one.name == self.name_of_pin(job) for one in manifest.checkpoints)

    def missing(self, manifest: Manifest, job: Job) -> str:
        """Return which inputs the manifest does not have; "" if it has all."""
        missing = [sst for sst in job if sst not in manifest.l0]
        return f"{missing} is not in L0" if missing else ""

    def is_applied(self, manifest: Manifest, job: Job) -> bool:
        """Return whether the manifest has the result of the compaction."""
        return is_applied(manifest, job)

    def with_result(self, manifest: Manifest, job: Job) -> Manifest:
        """Return the manifest with the result in place of the inputs."""
        return manifest._replace(l0=tuple(sst for sst in manifest.l0 if sst not in job),
                                 compacted=(*manifest.compacted, *job))
