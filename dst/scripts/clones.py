"""Scripts of cloners and detachers, impl/protocols/clones.py."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.destroyed import HARD, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Sst, SstInfo, View
from highwater.impl.errors import OutcomeUnknown, TimedOut, Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols import checkpoints, destroy
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.checkpoints import CheckpointMissing, NotInitialized
from highwater.impl.protocols.clones import begin, clone, detach, initialize, opened, remove, restart, source_of
from highwater.impl.protocols.clones_manifest import (
    AttemptReplaced,
    NotPinned,
    OtherParent,
    SourceBehind,
    WalObjectMissing,
    without_sst,
)
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised

A, B = "0" * 26, "0" * 25 + "Z"


class Ulids:
    """Mints the ULIDs of a script."""

    given = 0

    def new_id(self) -> str:
        self.given += 1
        return ulid_of(self.given << 4)


class Stores:
    """The databases of a script."""

    def __init__(self, alone: Alone):
        self.world = alone.world._replace(ids=Ulids())

    def __call__(self, path: str) -> MetadataStore:
        return MetadataStore(self.world, Namespace(path, "manifest"), ManifestCodec())


async def begun(alone: Alone, wal: int = 0) -> Stores:
    """Make a parent with one SST, which has seen some WAL objects."""
    stores = Stores(alone)
    await alone.real.create(key_of_sst("p", A), b"")
    for i in range(1, wal + 1):
        await alone.real.create(Namespace("p", "wal").key(i), b"%d" % i)
    await stores("p").initialise(Manifest(initialized=True, l0=(View(A, A),), ssts=(Sst(A, SstInfo()),), wal_id_last_seen=wal))
    alone.sent()
    return stores


async def life(alone: Alone) -> None:
    """A clone from its first request until it is detached. It takes 11 requests, and 2 a WAL object."""
    stores = await begun(alone, 1)
    done = await clone(stores, "c", "p")
    same((type(done), done.id, done.value.initialized, done.value.writer_epoch), (Committed, 2, True, 1))
    sent = alone.sent()
    same(len(sent), 11 + 2)
    entry, = done.value.external_dbs
    same((entry.path, entry.sst_ids), ("p", (A,)))
    parent = (await stores("p").current()).value
    same([one.id for one in parent.checkpoints], [entry.source_checkpoint_id, entry.final_checkpoint_id])
    same(parent.checkpoints[0].manifest_id, parent.checkpoints[1].manifest_id)
    same([one.expire_time_s for one in parent.checkpoints], [alone.now // 1000 + 300, 0])
    same((await alone.real.get(Namespace("c", "wal").key(1))).body, b"1")
    for source in (None, entry.source_checkpoint_id):
        same(type(await clone(stores, "c", "p", source)), Recognised)
    again = await initialize(stores("c"), done)
    same((type(again), again.id, again.value.initialized), (Recognised, 2, True))
    same(await detach(stores, "c"), [])
    await stores("c").update(lambda _, m: without_sst(m, A))
    same(await detach(stores, "c"), [entry.final_checkpoint_id])
    left = (await stores("c").current()).value
    same((left.l0, left.ssts, left.external_dbs), ((), (), ()))
    same(type(await remove(stores("c"), entry)), Recognised)
    same([one.id for one in (await stores("p").current()).value.checkpoints], [entry.source_checkpoint_id])


async def looked(alone: Alone) -> None:
    """A cloner that has just read the latest manifests, and seen that the path is free, sends 8 requests. If another one is
    faster, those manifests do not list its source, and are read again; and so is a manifest that has changed."""
    stores = await begun(alone)

    async def faster() -> None:
        await begin(stores("d"), "p", await source_of(stores("p"), None))

    for path, meanwhile in (("c", None), ("d", faster), ("e", lambda: clone(stores, "x", "p"))):
        known = {"p": await stores("p").current()}
        alone.sent()
        if meanwhile:
            alone.fails("create", f"{path}/manifest/" if path == "d" else "p/manifest/", meanwhile)
        done = await clone(stores, path, "p", None, False, known)
        same((done.value.initialized, meanwhile is not None or len(alone.sent()) == 8), (True, True))
        listed = {one.id for one in (await stores("p").current()).value.checkpoints}
        same({of.final_checkpoint_id for of in done.value.external_dbs} <= listed, True)
    done = await clone(stores, "g", "c", None, False, {path: await stores(path).current() for path in "cp"})
    same([of.path for of in done.value.external_dbs], ["c", "p"])


async def lost(alone: Alone) -> None:
    """Each step may be lost, and the next call goes on from there."""
    stores = await begun(alone, 1)
    for where in ("c/manifest/", "p/manifest/", "c/wal/"):
        alone.fails("create", where, OutcomeUnknown)
        try:
            await clone(stores, "c", "p")
        except OutcomeUnknown:
            pass
        alone.fails("create", where, LOST)
        try:
            await clone(stores, "c", "p")
        except OutcomeUnknown:
            pass
    same((await clone(stores, "c", "p")).value.initialized, True)
    same((await opened(stores("c"))).value.initialized, True)


async def refusals(alone: Alone) -> None:
    """Another parent, an unfinished clone, a missing final and a source that is behind are refused."""
    stores = await begun(alone)
    await alone.raises(CheckpointMissing, clone(stores, "c", "p", checkpoints.new_id(stores("p"))))
    done = await clone(stores, "c", "p")
    await alone.raises(OtherParent, clone(stores, "c", "q"))
    other = checkpoints.new_id(stores("p"))
    await checkpoints.create(stores("p"), other)
    await alone.raises(OtherParent, clone(stores, "c", "p", other))
    begun_of = await begin(stores("f"), "p", await source_of(stores("p"), other))
    await checkpoints.delete(stores("p"), other)
    await alone.raises(CheckpointMissing, clone(stores, "f", "p"), checkpoint=other)
    same((await stores("f").current()).value, begun_of.value)
    await stores("p").update(lambda _, m: m._replace(checkpoints=()))
    await alone.raises(NotPinned, clone(stores, "c", "p"))
    await stores("d").initialise(done.value._replace(initialized=False, wal_id_last_seen=2))
    await alone.raises(NotInitialized, opened(stores("d")))
    await alone.raises(NotInitialized, detach(stores, "d"))
    await alone.raises(NotInitialized, clone(stores, "e", "d", done.value.external_dbs[0].source_checkpoint_id))
    await alone.raises(NotInitialized, clone(stores, "e", "d"))
    await alone.raises(SourceBehind, clone(stores, "d", "p", None, True))
    await stores("p").update(lambda _, m: m._replace(wal_id_last_seen=2))
    alone.fails("create", "d/manifest/", LOST)
    await alone.raises(WalObjectMissing, clone(stores, "d", "p", None, True))
    same((await stores("d").current()).value.writer_epoch, done.value.writer_epoch + 1)
    await alone.raises(CheckpointMissing, clone(stores, "d2", "p", checkpoints.new_id(stores("p"))))


async def nested(alone: Alone) -> None:
    """A clone of a clone has a final in each of its ancestors, and may be detached from each alone."""
    stores = await begun(alone)
    await clone(stores, "c", "p")
    await stores("c").update(lambda _, m: m._replace(l0=(View(B, B), *m.l0), ssts=(*m.ssts, Sst(B, SstInfo()))))
    done = await clone(stores, "g", "c")
    same([(of.path, of.sst_ids) for of in done.value.external_dbs], [("c", (B,)), ("p", (A,))])
    await stores("g").update(lambda _, m: without_sst(m, B))
    same(await detach(stores, "g"), [done.value.external_dbs[0].final_checkpoint_id])
    same([of.path for of in (await stores("g").current()).value.external_dbs], ["p"])


async def detached(alone: Alone) -> None:
    """A clone is detached when neither its latest manifest nor a checkpoint uses the entry. A detach that stops after the final
    is gone has left the entry, and the next one goes on from there."""
    stores = await begun(alone)
    entry, = (await clone(stores, "c", "p")).value.external_dbs
    held = checkpoints.new_id(stores("c"))
    await checkpoints.create(stores("c"), held)
    await stores("c").update(lambda _, m: without_sst(m, A))
    same((await detach(stores, "c"), (await stores("c").current()).value.external_dbs), ([], (entry._replace(sst_ids=()),)))
    await checkpoints.delete(stores("c"), held)
    alone.fails("create", "c/manifest/", Unavailable)
    await alone.raises(Unavailable, detach(stores, "c"))
    same([one.id for one in (await stores("p").current()).value.checkpoints], [entry.source_checkpoint_id])
    same((await stores("c").current()).value.external_dbs, (entry._replace(sst_ids=()),))
    same((await detach(stores, "c"), (await stores("c").current()).value.external_dbs), ([entry.final_checkpoint_id], ()))


async def replaced(alone: Alone) -> None:
    """A cloner does not complete an attempt that another one has begun, also if the parent has no SST."""
    stores = Stores(alone)
    await stores("p").initialise(Manifest(initialized=True))
    attempts = []
    for seen, begins in ((1, begin), (2, restart)):
        await alone.real.create(Namespace("p", "wal").key(seen), b"%d" % seen)
        await stores("p").update(lambda _, m, seen=seen: m._replace(wal_id_last_seen=seen))
        attempts.append(await begins(stores("c"), "p", await source_of(stores("p"), None)))
    await alone.raises(AttemptReplaced, initialize(stores("c"), attempts[0]))
    same((await clone(stores, "c", "p")).value.wal_id_last_seen, 2)
    same((await alone.real.get(Namespace("c", "wal").key(2))).body, b"2")


async def epochs(alone: Alone) -> None:
    """An attempt that begins again has no lower epoch than its source and the attempt before: it fences who has opened that."""
    stores = await begun(alone)
    found = []
    for begins, parent, opened_with in ((begin, (3, 5), (6, 9)), (restart, (4, 7), (20, 8)), (restart, (30, 12), (31, 12))):
        await stores("p").update(lambda _, m, of=parent: m._replace(writer_epoch=of[0], compactor_epoch=of[1]))
        value = (await begins(stores("c"), "p", await source_of(stores("p"), None))).value
        found.append((value.writer_epoch, value.compactor_epoch))
        await stores("c").update(lambda _, m, of=opened_with: m._replace(writer_epoch=of[0], compactor_epoch=of[1]))
    same(found, [(4, 5), (7, 9), (31, 12)])


async def destroyed(alone: Alone) -> None:
    """A database that was destroyed after its source was taken gets no final checkpoint."""
    stores = await begun(alone)
    source = checkpoints.new_id(stores("p"))
    await checkpoints.create(stores("p"), source)
    marked = with_mark((await stores("p").current()).value, Mark("soft", 1, 2), stores("p").codec, 3)
    await stores("p").update(lambda _, m: marked._replace(checkpoints=(*m.checkpoints, *marked.checkpoints[-1:])))
    await alone.raises(DatabaseDestroyed, clone(stores, "c", "p", source))
    await alone.raises(DatabaseDestroyed, clone(stores, "d", "p"))


async def destroyed_clone(alone: Alone) -> None:
    """A clone that was destroyed before it was complete is neither completed nor begun again: its mark stays."""
    stores = await begun(alone)
    await begin(stores("c"), "p", await source_of(stores("p"), None))
    await stores("c").update(lambda i, m: with_mark(m, Mark("soft", 1, 2), stores("c").codec, i))
    marked = (await stores("c").current()).value
    for again in (False, True):
        await alone.raises(DatabaseDestroyed, clone(stores, "c", "p", None, again))
    same((await stores("c").current()).value, marked)


async def destroyed_meanwhile(_: Alone) -> None:
    """A clone is destroyed at any moment of its making. Then no final is left in the parent: nobody would find its id.

    The destroyer has released what was listed, and the cloner lists a final after that, or only learns later that it is over.
    """
    for where in ("p/manifest/", "c/wal/", Namespace("c", "manifest").key(2)):
        for is_deleted in (False, True):
            alone = Alone()
            stores = await begun(alone, 1)
            source = checkpoints.new_id(stores("p"))
            await checkpoints.create(stores("p"), source)

            async def gone(stores: Stores = stores, is_deleted: bool = is_deleted) -> None:
                here = stores("c")
                await destroy.mark(here, HARD)
                await (destroy.finish(here, "c") if is_deleted else destroy.release(here, (await here.current()).value))

            alone.fails("create", where, gone)
            await alone.raises(InvalidBoundary if is_deleted else DatabaseDestroyed, clone(stores, "c", "p", source))
            same([one.id for one in (await stores("p").current()).value.checkpoints], [source])
            await destroy.finish(stores("c"), "c")
            same([of.key for of in (await alone.real.list_page("c/")).entries], [Namespace("c", "manifest").boundary_key])


async def given_up(alone: Alone) -> None:
    """Its caller waits no more: nothing is asked after that, not even whether the attempt is over."""
    stores = await begun(alone, 1)
    alone.fails("create", Namespace("c", "manifest").key(2), TimedOut)
    await alone.raises(TimedOut, clone(stores, "c", "p"))
    same(alone.sent()[-1], "create 2.manifest")
    same((await clone(stores, "c", "p")).value.initialized, True)


SCRIPTS: tuple[Script, ...] = (
    life, looked, lost, refusals, nested, detached, replaced, epochs, destroyed, destroyed_clone, destroyed_meanwhile, given_up)
