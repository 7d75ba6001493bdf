"""Safety: a compaction on SlateDB's own files is applied exactly once, and no read that may still come shows anything else.

The protocol is that of impl/protocols/manifest_compactions.py: epoch, claim, pin, result, end of the claim. Here a claim is a
compaction in SlateDB's compactions file (impl/db/claims.py), and two things are added:

- Outputs are uploaded between the claim and the result, with ULIDs newer than the compaction's. So a collector can tell that
  they are in flight. Each instance that merges a claim has outputs of its own, and keeps them until the manifest names them.
- What other compactors have left is finished first, also that of released ones: a compaction that the manifest allows is merged
  again; of one whose inputs are gone, the result is in the manifest; any other has failed.

One instance at a time compacts a database, and one compaction runs at a time. An instance that another one has taken over from
gets FencedInDoubt, and has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from highwater.impl.codecs.destroyed import mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.manifest import SameVersion
from highwater.impl.codecs.slatedb.tables import COMPACTED, COMPLETED, FAILED, RUNNING, Compaction, Sst, Tiered, Worker
from highwater.impl.db import claims, compaction, tiers
from highwater.impl.db.compaction import Form
from highwater.impl.db.tiers import Tiers
from highwater.impl.errors import OutcomeUnknown, TimedOut, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.manifests import readable
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.database_gc_uploads import minted
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.manifest_compactions import Compactor, Stores
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies
from highwater.impl.protocols.sequenced_storage import NoLatest, ObjectVersionExists
from highwater.impl.world import World

TRY_AGAIN = (Unavailable, OutcomeUnknown, TimedOut, ObjectVersionExists)  # errors after which a compactor goes on


class Options(NamedTuple):
    """The options of a compactor; those of SlateDB have its names and defaults.

    `pin_ms`: how long the checkpoint lasts that keeps the inputs of a compaction (SlateDB: 900 s). `attempts`: of an open that
    is refused, or gets no reply, again and again.
    """

    poll_interval_ms: int = 5_000
    scheduler: Tiers = tiers.USUAL
    form: Form = compaction.USUAL
    pin_ms: int = 900_000
    attempts: int = 100


USUAL = Options()


def stores_of(world: World, root: str) -> Stores:
    """Return the two sequences of a database, as its compactor uses them. The manifest keeps its version."""
    return Stores(
        MetadataStore(world, Namespace(root, "manifest"), SameVersion(), Policies(epoch="compactor_epoch")),
        MetadataStore(world, Namespace(root, "compactions"), compactions_slatedb,
                      Policies(epoch="compactor_epoch", spare_checkpoints=False)))


class DbCompactor(Compactor):
    """One instance: `open` it once, then call `compact_once` repeatedly."""

    def __init__(self, stores: Stores, root: str, options: Options = USUAL):
        """Make a compactor that is not open yet. Raises ValueError for options that do not go together."""
        why = options.scheduler.refusal() or options.form.refusal()
        if why or options.pin_ms < 0 or options.poll_interval_ms < 0:
            raise ValueError(why or f"pin_ms is {options.pin_ms} and poll_interval_ms {options.poll_interval_ms}: not below 0")
        super().__init__(stores, options.attempts, options.pin_ms)
        self.root, self.options, self.world = root, options, stores.manifest.world
        self.worker_id = self.world.ids.new_id()
        self.left: list[Compaction] = []  # by others, by the compactions file that was read last
        self.over: list[Compaction] = []  # those of them that nobody can do any more
        self.base = Manifest()  # the manifest with the inputs of the current compaction
        self.outputs: tuple[Sst, ...] | None = None  # of the current compaction; None: not all are uploaded

    async def open(self) -> int:
        """Open the compactor; return its epoch. The compactions file is made if there is none.

        Raises HasSegments, NewerFields, InvalidFile, NotInitialized and DatabaseDestroyed, before anything has changed; and
        what the protocol raises.
        """
        self.check((await self.stores.manifest.current()).value)
        await self.stores.compactions.initialise(Compactions())
        compactions_slatedb.encode((await self.stores.compactions.current()).value)  # refuses what cannot be written again
        return await super().open()

    async def compact_once(self) -> Compaction | None:
        """Finish one compaction; None if there is nothing to do.

        Raises FencedInDoubt: this instance has ended. Raises what `open` raises, CannotRead, DamagedObject, TwoRows and
        Malformed. After these it may be called again, and continues where it was.
        """
        done: Any = await self.compact(self._merge)
        return done or None

    def check(self, manifest: Manifest) -> None:
        """Check that the database may be compacted. Raises what `open` raises."""
        readable.check(manifest)
        if not manifest.initialized:
            raise NotInitialized(self.stores.manifest.bounded.storage.namespace.prefix)
        if mark := mark_of(manifest):
            raise DatabaseDestroyed(mark)

    # --- steps

    async def _pick(self) -> Any:
        """Read what is listed, and then pick by the manifest; record what is over.

        An epoch in the compactions is in the manifest already, so only the latter is compared.
        """
        self.left, self.over = claims.active((await self.stores.compactions.current()).value), []
        job, self.outputs = await super()._pick(), None
        for one in self.over:
            await self._end(one)
        return job

    async def _merge(self, job: Any) -> None:
        """Upload the outputs, and record them in the claim."""
        if self.outputs is None:
            self.outputs = await compaction.compacted(
                self.world, self.root, self.base, tiered(job), self.options.form, lambda: minted(self.world.ids, job.id))
        outputs = self.outputs
        await self.stores.compactions.update_recognised(
            lambda c: self.has_outputs(c, job, outputs),
            lambda _, c: claims.with_one(c, claims.compacted(job, self.worker(), outputs)), epoch=self.epoch)

    async def _end(self, job: Compaction) -> None:
        """Record that a compaction is over which another compactor has left."""
        await self.stores.compactions.update_recognised(
            lambda c: self.is_finished(c, job), lambda _, c: claims.with_one(c, job), epoch=self.epoch)

    def worker(self) -> Worker:
        return Worker(self.worker_id, self.world.clock.now_ms())

    def has_outputs(self, compactions: Compactions, job: Compaction, outputs: tuple[Sst, ...]) -> bool:
        """Return whether these outputs are recorded."""
        there = claims.listed(compactions, job.id)
        return there is not None and there.status == COMPACTED and (
            [sst.id for sst in there.output_ssts] == [sst.id for sst in outputs])

    # --- the form of a claim

    def claim_in(self, compactions: Compactions) -> Any:
        """Return no claim: whether one can be continued depends on the manifest, so it is picked as any other."""
        return ()

    def picked(self, manifest: Manifest) -> Any:
        """Return the oldest compaction that is listed and that the manifest allows; else one of the size-tiered schedule."""
        self.check(manifest)
        self.base = manifest
        for one in self.left:
            if not (why := claims.refusal(manifest, one)):
                return claims.running(one, self.worker())
            applied = one.status in claims.STARTED and isinstance(one.spec, Tiered) and claims.is_applied(
                manifest, one.spec, None)
            if not applied:
                self.world.metrics.count("compactions_failed")
                self.world.metrics.warn(f"compaction {one.id} has failed: {why}")
            self.over.append(one._replace(status=COMPLETED if applied else FAILED))
        spec = tiers.pick(manifest, self.options.scheduler)
        return Compaction(self.world.ids.new_id(), spec, RUNNING, worker=self.worker()) if spec else ()

    def is_claimed(self, compactions: Compactions, job: Compaction) -> bool:
        there = claims.listed(compactions, job.id)
        return there is not None and there.worker is not None and there.worker.worker_id == self.worker_id

    def with_claim(self, compactions: Compactions, job: Compaction) -> Compactions:
        return claims.with_one(compactions, job)

    def is_finished(self, compactions: Compactions, job: Compaction) -> bool:
        return claims.listed(compactions, job.id) is None

    def without_claim(self, compactions: Compactions, job: Compaction) -> Compactions:
        there = claims.listed(compactions, job.id) or job
        return claims.with_one(compactions, there._replace(status=COMPLETED))

    def name_of_pin(self, job: Compaction) -> str:
        return f"compaction {job.id}"

    def missing(self, manifest: Manifest, job: Compaction) -> str:
        """Return why the inputs are not those that were merged; "" if they are. A run may be another one with the same id."""
        merged, there = claims.inputs(self.base, tiered(job)), claims.inputs(manifest, tiered(job))
        return claims.refusal(manifest, job) or ("" if merged == there else "one of them has been replaced since it was merged")

    def is_applied(self, manifest: Manifest, job: Compaction) -> bool:
        return claims.is_applied(manifest, tiered(job), self.outputs)

    def with_result(self, manifest: Manifest, job: Compaction) -> Manifest:
        assert self.outputs is not None, "they are uploaded before the result is put"
        return claims.with_result(manifest, tiered(job), self.outputs)


def tiered(job: Compaction) -> Tiered:
    """Return the inputs and the destination of a compaction that was picked."""
    assert isinstance(job.spec, Tiered), "any other is refused"
    return job.spec


# --- the process

Told = Callable[[Compaction, Sequence[Sst]], None]


async def run(world: World, root: str, options: Options = USUAL, most: int | None = None,
              told: Told = lambda done, outputs: None) -> None:
    """Compact a database until this is cancelled, or for `most` polls. `told` is called with each compaction that was done, and
    its outputs.

    When the store fails, it goes on at the next poll, with a warning. Raises FencedInDoubt once another compactor has taken
    over, and what else `compact_once` raises: an operator has to look at that.
    """
    compactor, polls = DbCompactor(stores_of(world, root), root, options), 0
    while most is None or polls < most:
        try:
            if not compactor.epoch:
                await compactor.open()
            while done := await compactor.compact_once():
                world.metrics.count("compactions")
                told(done, compactor.outputs or ())
        except (*TRY_AGAIN, NoLatest) as error:
            world.metrics.count("compactor_failures")
            world.metrics.warn(f"the compactor of {root!r} goes on at the next poll: {error}")
        polls += 1
        await world.clock.sleep_ms(options.poll_interval_ms)
