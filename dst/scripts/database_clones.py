"""Scripts of what holds a database and its clones together, impl/protocols/database_clones.py."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.json.compactions import Job
from highwater.impl.codecs.json.ssts import parts_of, ulid_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import OutcomeUnknown, Unavailable
from highwater.impl.protocols.database_clones import UPLOADS, MergingCompactor, key_of, stores_of, uploaded
from highwater.impl.protocols.manifest_compactions import InputMissing, Stores, initialise


async def begun(alone: Alone, *names: str) -> tuple[Stores, list[str]]:
    """Make a database that has an SST in L0 for each name; return the SSTs, too."""
    stores = stores_of(alone.world, "db")
    await initialise(stores)
    ssts = [await uploaded(alone.world, "db", (name,)) for name in names]
    await stores.manifest.update(lambda _, m: m._replace(l0=tuple(ssts)))
    return stores, ssts


async def uploads(alone: Alone) -> None:
    """An attempt whose response is lost is tried again under the same id, which nobody else has."""
    alone.fails("create", "compacted/", LOST)
    alone.fails("create", "compacted/", Unavailable)
    sst = await uploaded(alone.world, "db", ("a", "b"))
    same((await alone.real.get(key_of("db", sst))).body, sst.encode())
    same((tuple(parts_of(sst)), len(alone.sent())), (("a", "b"), 3))
    alone.fails("create", "compacted/", Unavailable, UPLOADS)
    await alone.raises(OutcomeUnknown, uploaded(alone.world, "db", ("c",)))
    same(len(alone.sent()), UPLOADS)


async def merging(alone: Alone) -> None:
    """A compaction puts one SST in the place of its inputs and of what was merged before."""
    stores, _ = await begun(alone, "a", "b")
    compactor = MergingCompactor(stores, "db")

    async def merge(job: Job) -> None:
        pass

    await compactor.open()
    await compactor.compact(merge)
    first, = (await stores.manifest.current()).value.compacted
    same(tuple(parts_of(first)), ("a", "b"))
    third = await uploaded(alone.world, "db", ("c",))
    await stores.manifest.update(lambda _, m: m._replace(l0=(third,)))
    same(await compactor.compact(merge), (third,))
    latest: Manifest = (await stores.manifest.current()).value
    same((latest.l0, [tuple(parts_of(sst)) for sst in latest.compacted]), ((), [("a", "b", "c")]))
    same(ulid_of(latest.compacted[0]) == ulid_of(first), False)


async def claims_of_nothing(alone: Alone) -> None:
    """A claim names an SST that is in nobody's L0: nothing is applied."""
    stores, ssts = await begun(alone, "a")
    await stores.compactions.update(lambda _, c: c._replace(jobs=((*ssts, "x:y"),)))
    compactor = MergingCompactor(stores, "db")
    await compactor.open()

    async def merge(job: Job) -> None:
        pass

    await alone.raises(InputMissing, compactor.compact(merge))
    same((await stores.manifest.current()).value, Manifest(compactor_epoch=1, l0=tuple(ssts)))


async def continued(alone: Alone) -> None:
    """A compactor stops when its result is in the manifest: the next one removes the claim, and merges nothing."""
    stores, ssts = await begun(alone, "a")
    first, second = MergingCompactor(stores, "db"), MergingCompactor(stores, "db")

    async def merge(job: Job) -> None:
        pass

    await first.open()
    alone.fails("create", "4.compactions", Unavailable)
    await alone.raises(Unavailable, first.compact(merge))
    merged: Manifest = (await stores.manifest.current()).value
    same(merged.l0, ())
    await second.open()
    same(await second.compact(merge), tuple(ssts))
    same((await stores.manifest.current()).value, merged._replace(compactor_epoch=2))
    same((await stores.compactions.current()).value.jobs, ())


async def pins(alone: Alone) -> None:
    """A pin that a collector has dropped is taken again before the inputs go."""
    stores, ssts = await begun(alone, "a")
    compactor = MergingCompactor(stores, "db", pin_ms=10)

    async def merge(job: Job) -> None:
        pass

    async def ends() -> None:
        alone.now += 20
        await stores_of(alone.world, "db").manifest.drop_ended()

    await compactor.open()
    alone.fails("create", "5.manifest", ends)
    same(await compactor.compact(merge), tuple(ssts))
    latest = await stores.manifest.current()
    pin, = latest.value.checkpoints
    same((latest.id, pin.manifest_id, alone.counted.count("compactor_pins_again")), (7, 6, 1))
    same((await stores.manifest.read(pin.manifest_id)).l0, tuple(ssts))


SCRIPTS: tuple[Script, ...] = (uploads, merging, claims_of_nothing, continued, pins)
