"""Safety: every compaction that was begun is applied exactly once, and no flush that was reported is lost, although compactors
take over from each other, crash between two objects, are refused after they have succeeded, and old files are deleted.

The manifest and the compactions are two sequences of files, each with its boundary (source 000), and no request writes to both.
So between any two requests a compactor may be gone, and what it leaves must tell the next one all:

- It opens by an epoch: the next after the manifest's, into the manifest, and the same one into the compactions. In this order:
  once its epoch is anywhere, no older compactor changes the manifest. The next to open takes a higher one, and writes that into
  both, whatever a crash has left there.
- What it merges it claims in the compactions first, and takes the claim out when the manifest has it. Who opens goes on with
  the claim that it finds.
- Whether a change has been made already is looked for in what was read: `MetadataStore.update_recognised`. So a refusal, a lost
  reply, and a claim that another has applied are one case.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.errors import Definite, Indefinite, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata_boundary import Committed, MetadataStore, Recognised
from highwater.impl.world import World

Job = tuple[str, ...]  # names of the SSTs that are merged
ATTEMPTS = 100  # of an open that is refused, or has no reply, again and again


class Manifest(NamedTuple):
    compactor_epoch: int = 0
    l0: tuple[str, ...] = ()  # in the order of their flushes
    compacted: tuple[str, ...] = ()

    def flushed(self, sst: str) -> bool:
        return sst in self.l0 or sst in self.compacted


class Compactions(NamedTuple):
    compactor_epoch: int = 0
    jobs: tuple[Job, ...] = ()  # claimed


class InvalidContent(Definite):
    """A file that this codec has not written."""


class JsonCodec:
    """One JSON object: the fields of a named tuple, keys sorted, no spaces."""

    def __init__(self, kind: type[Manifest] | type[Compactions]):
        self.kind = kind

    def encode(self, value: Manifest | Compactions) -> bytes:
        return json.dumps(value._asdict(), sort_keys=True, separators=(",", ":")).encode()

    def decode(self, body: bytes) -> Manifest | Compactions:
        """Raises InvalidContent."""
        try:
            return self.kind(**{name: frozen(value) for name, value in json.loads(body).items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidContent(f"no {self.kind.__name__}: {body[:60]!r}: {error}") from None


def frozen(value: Any) -> Any:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


class Fenced(Indefinite):
    """A compactor that opened later is at work: this one has ended. (Indefinite: what it was about may be done, or be done by
    the other, who finds out.)"""

    def __init__(self, name: str, epoch: int, stored: int):
        self.epoch, self.stored = epoch, stored
        super().__init__(f"the {name} has compactor epoch {stored}, and this compactor has {epoch}: another has opened")


class InputMissing(Indefinite):
    """A claim names an SST that is neither in L0 nor compacted: not to be merged, and nothing that this code does."""


class Stores(NamedTuple):
    manifest: MetadataStore
    compactions: MetadataStore


def stores_of(world: World, root: str) -> Stores:
    return Stores(*(MetadataStore(world, Namespace(root, name), JsonCodec(kind), spare_checkpoints=False)
                    for name, kind in (("manifest", Manifest), ("compactions", Compactions))))


async def initialise(stores: Stores) -> None:
    """Create the first files, where there are none."""
    await stores.manifest.initialise(Manifest())
    await stores.compactions.initialise(Compactions())


async def flush(stores: Stores, sst: str) -> Committed | Recognised:
    """Add an SST to L0, exactly once however often it is asked for. Errors as of `update_recognised`."""
    return await stores.manifest.update_recognised(
        lambda m: m.flushed(sst), lambda _, m: m._replace(l0=(*m.l0, sst)))


async def collect(stores: Stores, min_age_ms: int) -> tuple[list[int], list[int]]:
    """One round of garbage collection in both; returns the ids deleted."""
    return await stores.manifest.collect(min_age_ms), await stores.compactions.collect(min_age_ms)


class Compactor:
    """One instance: `open` it once, then `compact` again and again. After Fenced it is of no more use; after another error it
    may be asked again, and goes on where it was."""

    def __init__(self, stores: Stores):
        self.stores = stores
        self.epoch = 0  # 0: not open
        self.job: Job = ()  # what it works on; () if there is nothing
        self.claimed = False  # for certain
        self.applied = False  # the same

    async def open(self) -> int:
        """Returns the epoch. Raises Fenced, and as `update_recognised`."""
        epoch = await self._bump()
        opened = await self.stores.compactions.update_recognised(
            lambda c: self._unfenced("compactions", c, epoch) and c.compactor_epoch == epoch,
            lambda _, c: c._replace(compactor_epoch=epoch))
        self.epoch, self.job = epoch, min(opened.value.jobs, default=())
        self.claimed, self.applied = bool(self.job), False
        return epoch

    async def _bump(self) -> int:
        """The next epoch, in the manifest. One of which nobody knows whether it is there nobody uses: so take the next."""
        for attempt in range(ATTEMPTS):
            try:
                bumped = await self.stores.manifest.update(lambda _, m: m._replace(compactor_epoch=m.compactor_epoch + 1))
                return bumped.value.compactor_epoch
            except (ObjectVersionBehindBoundary, OutcomeUnknown):
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("not reached")

    async def compact(self, merge: Callable[[Job], Awaitable[None]]) -> Job:
        """Go on with the claim that there is, or claim all of L0; `merge` it, apply it, take the claim out. Returns what was
        merged, () if there is nothing to do. `merge` may be called again for the same job, by another compactor, too."""
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
        """From a manifest that is ahead of the boundary: one that is back from the dead may name as L0 what is merged."""
        manifest = (await self.stores.manifest.current()).value
        self._unfenced("manifest", manifest, self.epoch)
        self.claimed = self.applied = False
        return manifest.l0

    async def _claim(self, job: Job) -> None:
        await self.stores.compactions.update_recognised(
            lambda c: self._unfenced("compactions", c, self.epoch) and job in c.jobs,
            lambda _, c: c._replace(jobs=(*c.jobs, job)))
        self.claimed = True

    async def _apply(self, job: Job, merge: Callable[[Job], Awaitable[None]]) -> None:
        await merge(job)

        def applied(m: Manifest) -> bool:
            self._unfenced("manifest", m, self.epoch)
            return all(sst in m.compacted for sst in job)

        def change(_: int, m: Manifest) -> Manifest:
            if missing := [sst for sst in job if sst not in m.l0]:
                raise InputMissing(f"claimed is {list(job)}, but {missing} is not in L0")
            return m._replace(l0=tuple(sst for sst in m.l0 if sst not in job), compacted=(*m.compacted, *job))

        await self.stores.manifest.update_recognised(applied, change)
        self.applied = True

    async def _finish(self, job: Job) -> None:
        await self.stores.compactions.update_recognised(
            lambda c: self._unfenced("compactions", c, self.epoch) and job not in c.jobs,
            lambda _, c: c._replace(jobs=tuple(other for other in c.jobs if other != job)))

    def _unfenced(self, name: str, value: Manifest | Compactions, epoch: int) -> bool:
        """True, or raises Fenced: «If our epoch is less than the epoch stored»."""
        if value.compactor_epoch > epoch:
            raise Fenced(name, epoch, value.compactor_epoch)
        return True
