"""Safety: a verb that compacts takes over from the compactor before, which ends; and no read shows anything else.

The compactor is that of impl/db/compactor.py. Here it is run until there is nothing to do, or for ever, and says what it does.
"""

from collections.abc import Callable, Sequence
from typing import Any

from highwater.impl.codecs.slatedb.flatbuffer import NewerFields
from highwater.impl.codecs.slatedb.tables import STATUSES, Compaction, Sst, Tiered
from highwater.impl.db import claims, compaction, tiers
from highwater.impl.db.compactor import DbCompactor, Options, run, stores_of
from highwater.impl.db.compression import pack
from highwater.impl.db.reader import MISSING, CannotRead, Reader, State, latest_of
from highwater.impl.errors import NotFound
from highwater.impl.manifests.readable import HasSegments
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_storage import NoLatest
from highwater.impl.world import World

REFUSALS = (DatabaseDestroyed, HasSegments, NewerFields, NotInitialized)  # for the sake of safety
Told = Callable[[dict[str, Any]], None]


async def planned(world: World, root: str, options: Options) -> list[dict[str, Any]]:
    """Return what would be compacted first; [] if there is nothing to do. Nothing is written.

    Raises REFUSALS, CannotRead if there is no database, Malformed, and ValueError for bad options."""
    await latest_of(world.store, root)
    compactor = DbCompactor(stores_of(world, root), root, options)
    compactor.left = await left_by_others(compactor)
    job = compactor.picked((await compactor.stores.manifest.current()).value)
    return [said(job)] if job else []


async def compacted(world: World, root: str, options: Options, told: Told) -> int:
    """Compact until there is nothing to do; return how many compactions that took. `told` is called after each.

    Raises REFUSALS, CannotRead if there is no database, ValueError for bad options, FencedInDoubt if another compactor has
    taken over, and what else `DbCompactor` raises."""
    await check_first(world, root, options)
    compactor, number = DbCompactor(stores_of(world, root), root, options), 0
    await compactor.open()
    while done := await compactor.compact_once():
        number += 1
        told(said(done, compactor.outputs))
    return number


async def watched(world: World, root: str, options: Options, told: Told) -> None:
    """Compact, and look for more at each poll, until this is stopped or another compactor takes over: FencedInDoubt.

    Raises what `compacted` raises but errors of the store, after which it goes on at the next poll."""
    await check_first(world, root, options)
    await run(world, root, options, told=lambda done, outputs: told(said(done, outputs)))


async def check_first(world: World, root: str, options: Options) -> None:
    """Check that the first compaction can be made, as far as codecs, small SSTs, and the ends of larger ones show, before
    anybody is fenced. A damaged block of a larger SST is found when it is merged: reading all twice would cost too much.

    Raises what `planned` raises, CodecMissing, DamagedObject, and CannotRead for an SST that is missing."""
    pack(b"", options.form.compression_codec)
    await latest_of(world.store, root)
    compactor = DbCompactor(stores_of(world, root), root, options)
    manifest = (await compactor.stores.manifest.current()).value
    compactor.check(manifest)
    left = [one.spec for one in await left_by_others(compactor) if not claims.refusal(manifest, one)]
    spec = left[0] if left else tiers.pick(manifest, options.scheduler)
    if not isinstance(spec, Tiered):
        return
    compaction.sources(world, root, manifest, spec)  # the order of the SSTs in its runs
    reader = Reader(world.store, State(root, manifest, []))
    l0, runs = claims.inputs(manifest, spec)
    for view in (*l0, *(view for one in runs for view in one.views)):
        await check_sst(reader, view.sst_id)


async def check_sst(reader: Reader, sst: str) -> None:
    """Check that an SST of the reader's state is there and its end whole; also the blocks of one that is read by one request.

    Raises CannotRead, DamagedObject, CodecMissing."""
    name = reader.state.key_of(sst)
    try:
        end = await reader.ssts.end(name, reader.listed[sst].info)
        if end.table.start == 0:
            async for _ in reader.ssts.blocks_of(end):
                pass
    except NotFound:
        raise CannotRead(f"{name}: {MISSING}") from None


async def left_by_others(compactor: DbCompactor) -> list[Compaction]:
    """Return the compactions that are listed and not over."""
    try:
        return claims.active((await compactor.stores.compactions.current()).value)
    except NoLatest:
        return []


def said(job: Compaction, outputs: Sequence[Sst] | None = None) -> dict[str, Any]:
    """Return what a compaction takes and makes. `outputs`: None if there are none yet."""
    spec = job.spec
    assert isinstance(spec, Tiered), "any other is refused"
    found: dict[str, Any] = {"compaction": job.id, "status": STATUSES[job.status], "l0": list(spec.l0_view_ids),
                             "runs": list(spec.sorted_runs), "destination": spec.destination}
    if outputs is None:
        return found
    return found | {"status": "completed", "outputs": [{"sst": sst.id, "bytes_of_blocks": sst.info.filter_offset}
                                                       for sst in outputs]}
