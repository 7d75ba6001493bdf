"""Safety: a collector can tell by its ULID that an SST is not in flight. It is older than the newest L0, and older than each
compaction that is listed.

SSTs are objects at `<root>/compacted/<ULID>.sst`. Each is uploaded before a manifest names it, so for some time nothing names
an object that is needed. Three rules let a collector see it:

- A writer commits an SST to L0 only if it is newer than the newest L0 of the manifest that it builds on. So an older one will
  never be committed, whatever the writers' clocks show and in whichever order uploads end.
- A compactor lists its compaction before it uploads an output, and the output has a newer ULID. It removes the compaction from
  the list after the manifest names the outputs.
- A compactor that opens claims the manifest's next epoch first, and then removes the compactions of those before it. After the
  claim they commit nothing.

ULIDs are compared by their time, in milliseconds. Two of the same millisecond have no order.
"""

from typing import NamedTuple

from highwater.impl.codecs.json.compactions import Compactions, Job
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, ulid_of
from highwater.impl.codecs.sst_ids import RANDOM, newest_l0, time_ms
from highwater.impl.errors import AlreadyExists, Definite
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols.manifest_compactions import InputMissing, Stores
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised
from highwater.impl.world import Ids, World


class SstTooOld(Definite):
    """The SST is not newer than the newest L0: a collector may have deleted it. It is not committed; upload another one."""

    def __init__(self, sst: str, newest: str):
        super().__init__(f"{sst} is not newer than {newest}, the newest L0: it is not committed, so upload another one")
        self.sst, self.newest = sst, newest


class Flushed(NamedTuple):
    """The WAL objects that an SST holds, and those that were there: a manifest's replay_after_wal_id and wal_id_last_seen."""

    after: int = 0
    seen: int = 0


NOTHING = Flushed()  # an SST that says nothing of the WAL


def minted(ids: Ids, after: str) -> str:
    """Return a new ULID of a later millisecond than `after` ("": any). If the clock is behind, take the next millisecond."""
    new = ids.new_id()
    if after and time_ms(new) <= time_ms(after):
        new = ulid_of(time_ms(after) + 1 << RANDOM | number_of_ulid(new) & (1 << RANDOM) - 1)
    return new


# --- a writer

async def upload(world: World, root: str, after: str, body: bytes) -> str:
    """Upload an SST with a ULID newer than `after`; return it. After an error nobody will ever name the object.

    Raises Unavailable, OutcomeUnknown.
    """
    while True:
        sst = minted(world.ids, after)
        try:
            await world.store.create(key_of_sst(root, sst), body)
            return sst
        except AlreadyExists:
            after = max(sst, after)  # another client has minted the same


async def flush(manifests: MetadataStore, root: str, body: bytes, wal: Flushed = NOTHING) -> str:
    """Upload an SST and commit it to L0; return its id. The manifest's WAL bounds become those of `wal`, unless they are ahead.

    Raises SstTooOld if another writer has committed a newer one meanwhile: the SST is not in L0, and never will be. After an
    Indefinite error it may be in L0, now or later. Raises what `update_recognised` raises.
    """
    sst = await upload(manifests.world, root, newest_l0((await manifests.current()).value), body)
    await commit(manifests, sst, wal)
    return sst


async def commit(manifests: MetadataStore, sst: str, wal: Flushed) -> Committed | Recognised:
    """Commit an uploaded SST to L0. Raises what `flush` raises."""
    def holds(m: Manifest) -> bool | SstTooOld:
        if sst in (newest := newest_l0(m), *m.l0):
            return True
        return bool(newest) and time_ms(newest) >= time_ms(sst) and SstTooOld(sst, newest)

    return await manifests.update_recognised(holds, lambda _, m: m._replace(
        l0=(*m.l0, sst), replay_after_wal_id=max(m.replay_after_wal_id, wal.after),
        wal_id_last_seen=max(m.wal_id_last_seen, wal.seen)))


# --- a compactor

class SstCompactor:
    """One instance: `open` it once, then call `compact` repeatedly.

    After FencedInDoubt it is of no more use. After any other error it may be called again, and continues where it was.
    """

    def __init__(self, stores: Stores, root: str, attempts: int = 100):
        """Make a compactor that is not open yet. `attempts` limits an open that is refused, or gets no reply, again and again.
        """
        self.stores, self.root, self.attempts = stores, root, attempts
        self.epoch = 0  # 0: not open
        self.id = ""  # the ULID of the compaction in progress; "": there is none
        self.inputs: Job = ()
        self.outputs: list[str] = []  # uploaded
        self.listed = self.applied = False  # whether it is known to be in the compactions, its outputs in the manifest

    async def open(self) -> int:
        """Open the compactor, and remove the compactions of those before it; return its epoch. Raises what `claim` and
        `update_recognised` raise."""
        epoch = (await self.stores.manifest.claim(self.attempts)).value.compactor_epoch
        await self.stores.compactions.update_recognised(
            lambda c: c.compactor_epoch == epoch, lambda _, c: Compactions(epoch), epoch=epoch)
        self.epoch = epoch
        return epoch

    async def compact(self, bodies: tuple[bytes, ...]) -> tuple[str, ...]:
        """Continue the compaction in progress, or begin one of all SSTs: list it, upload an output for each of `bodies`, commit
        them, and remove it from the list. Returns the outputs; () if L0 is empty.

        Raises FencedInDoubt, InputMissing, and what `update_recognised` raises.
        """
        if not self.epoch:
            raise ValueError("this compactor is not open")
        if not self.id and not await self._pick():
            return ()
        if not self.listed:
            await self._list()
        while len(self.outputs) < len(bodies):
            self.outputs.append(await upload(self.stores.manifest.world, self.root, self.id, bodies[len(self.outputs)]))
        if not self.applied:
            await self._apply(tuple(self.outputs))
        await self._finish()
        outputs, self.id, self.outputs = tuple(self.outputs), "", []
        return outputs

    async def _pick(self) -> bool:
        """Pick all SSTs, if there are any in L0, from a manifest ahead of the boundary."""
        manifest = (await self.stores.manifest.current()).value
        if self.stores.manifest.is_fenced(manifest, self.epoch):
            raise self.stores.manifest.fenced_by(manifest, self.epoch)
        if manifest.l0:
            self.id, self.inputs = minted(self.stores.manifest.world.ids, ""), (*manifest.compacted, *manifest.l0)
            self.listed = self.applied = False
        return bool(manifest.l0)

    async def _list(self) -> None:
        await self.stores.compactions.update_recognised(
            lambda c: self.id in c.ids,
            lambda _, c: c._replace(jobs=(*c.jobs, self.inputs), ids=(*c.ids, self.id)), epoch=self.epoch)
        self.listed = True

    async def _apply(self, outputs: tuple[str, ...]) -> None:
        def applied(m: Manifest) -> bool | InputMissing:
            if all(sst in m.compacted for sst in outputs):
                return True
            missing = [sst for sst in self.inputs if not m.has_sst(sst)]
            return bool(missing) and InputMissing(f"compaction {self.id} has the inputs {list(self.inputs)}, but {missing} are "
                                                  "not in the manifest")

        def change(_: int, m: Manifest) -> Manifest:
            return m._replace(l0=tuple(sst for sst in m.l0 if sst not in self.inputs), last_compacted_l0_sst_id=newest_l0(m),
                              compacted=(*(sst for sst in m.compacted if sst not in self.inputs), *outputs))

        await self.stores.manifest.update_recognised(applied, change, epoch=self.epoch)
        self.applied = True

    async def _finish(self) -> None:
        def without(_: int, c: Compactions) -> Compactions:
            kept = [(job, id_) for job, id_ in zip(c.jobs, c.ids) if id_ != self.id]
            return c._replace(jobs=tuple(job for job, _ in kept), ids=tuple(id_ for _, id_ in kept))

        await self.stores.compactions.update_recognised(lambda c: self.id not in c.ids, without, epoch=self.epoch)
