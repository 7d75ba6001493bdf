"""Scripts of clients and collectors of checkpoints, impl/protocols/checkpoints.py."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.destroyed import MARK, SOFT, Mark
from highwater.impl.codecs.json.manifest import DATABASE, Checkpoint
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import tables
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.protocols.checkpoints import (
    CheckpointEnded,
    CheckpointMissing,
    NotInitialized,
    collect,
    create,
    delete,
    listed,
    new_id,
    refresh,
)
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised

MANIFESTS = Namespace("db", "manifest")
READ = ["list manifest", "get {0}.manifest", "get manifest.boundary"]


async def begun(alone: Alone, *ssts: str) -> MetadataStore:
    manifests = MetadataStore(alone.world, MANIFESTS, DATABASE)
    await manifests.initialise(Manifest(l0=ssts))
    for sst in ssts:
        await alone.real.create(key_of_sst("db", sst), b"")
    alone.sent()
    return manifests


def update(latest: int) -> list[str]:
    """Return the requests of an update that builds on file `latest`."""
    return ["list manifest", f"get {latest}.manifest", f"create {latest + 1}.manifest", "get manifest.boundary"]


def read(latest: int) -> list[str]:
    return [of.format(latest) for of in READ]


async def life(alone: Alone) -> None:
    """One checkpoint from its creation to its deletion."""
    manifests, now = await begun(alone), alone.now
    taken = await create(manifests, "x", 5, "nightly")
    same(taken, Committed(2, Manifest(checkpoints=(Checkpoint("x", 2, now + 5, "nightly"),))))
    same(alone.sent(), update(1))
    same(type(await create(manifests, "x", 5)), Recognised)
    same(alone.sent(), read(2))
    same((await create(manifests, "y", None, None, "x")).value.checkpoints[1], Checkpoint("y", 2, 0))
    alone.now += 4
    same((await refresh(manifests, "x", 7)).value.checkpoints[0], Checkpoint("x", 2, now + 11, "nightly"))
    same(type(await refresh(manifests, "y")), Recognised)
    same([one.id for one in await listed(manifests)], ["x", "y"])
    same([one.id for one in await listed(manifests, "nightly")], ["x"])
    same([one.id for one in await listed(manifests, "")], ["y"])
    same([one.id for one in (await delete(manifests, "x")).value.checkpoints], ["y"])
    await alone.raises(CheckpointMissing, delete(manifests, "x"), checkpoint="x")
    same((await manifests.current()).id, 5)


async def missing_and_ended(alone: Alone) -> None:
    """Nothing is written for a checkpoint that is not listed, or has ended: it is neither renewed nor copied."""
    manifests = await begun(alone)
    await create(manifests, "x", 5)
    for call in (refresh(manifests, "z", 5), create(manifests, "w", 5, None, "z")):
        await alone.raises(CheckpointMissing, call, checkpoint="z")
    alone.now += 4
    await create(manifests, "y", 9, None, "x")
    alone.now += 1
    for call in (refresh(manifests, "x", 5), create(manifests, "w", 5, None, "x")):
        await alone.raises(CheckpointEnded, call, checkpoint="x")
    for lifetime_ms in (0, -1):
        await alone.raises(ValueError, create(manifests, "w", lifetime_ms))
        await alone.raises(ValueError, refresh(manifests, "y", lifetime_ms))
    same((await manifests.current()).id, 3)


async def meanwhile(alone: Alone) -> None:
    """A source, or what is renewed, goes between the read and the update."""
    manifests = await begun(alone)
    other = MetadataStore(alone.world._replace(store=alone.real), MANIFESTS, DATABASE)
    for latest, call in ((2, lambda: create(manifests, "y", None, None, "x")), (4, lambda: refresh(manifests, "x", 5))):
        await create(other, "x")
        alone.fails("create", "manifest/", lambda: delete(other, "x"))
        await alone.raises(CheckpointMissing, call(), checkpoint="x")
        same((await manifests.current()).id, latest + 1)
        same((await manifests.current()).value.checkpoints, ())


async def lost(alone: Alone) -> None:
    """A change whose reply is lost is found, and is not made again."""
    manifests = await begun(alone)
    for latest, call in ((1, lambda: create(manifests, "x")), (2, lambda: refresh(manifests, "x", 50)),
                         (3, lambda: delete(manifests, "x"))):
        alone.fails("create", "manifest/", LOST)
        alone.sent()
        done = await call()
        same((type(done), done.id), (Recognised, latest + 1))
        same(alone.sent(), [*update(latest)[:3], *read(latest + 1)])
    alone.fails("create", "manifest/", LOST)
    await alone.raises(OutcomeUnknown, create(manifests, "y", attempts=1))
    same(type(await create(manifests, "y")), Recognised)


async def unfinished(alone: Alone) -> None:
    """SlateDB's form: a clone that is not complete has no checkpoints, and leases are whole seconds, rounded up."""
    manifests = MetadataStore(alone.world, MANIFESTS, ManifestCodec())
    await manifests.initialise(Manifest())
    name = manifests.codec.checkpoint.id_of("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    same((name[14], name[19] in "89ab"), ("4", True))
    same(new_id(MetadataStore(alone.world, MANIFESTS, DATABASE)), "id1")
    await alone.raises(NotInitialized, create(manifests, name))
    await manifests.update(lambda _, m: m._replace(initialized=True))
    taken = await create(manifests, name, 1, "n")
    same(taken.value.checkpoints, (tables.Checkpoint(name, 3, alone.now // 1000 + 1, alone.now // 1000, None, "n"),))


async def collection(alone: Alone) -> None:
    """A collector deletes what nothing that is listed names, SSTs first; and never what is in no manifest yet."""
    manifests = await begun(alone, "a")
    await alone.real.create(key_of_sst("db", "uploaded"), b"")
    await create(manifests, "x", 1000)
    for new in "bcd":
        await alone.real.create(key_of_sst("db", new), b"")
        await manifests.update(lambda _, m, new=new: m._replace(l0=(new,)))
    alone.now += 500
    alone.sent()
    same(await collect(manifests, "db", 100), ([1, 3, 4], ["b", "c"]))
    same(alone.sent(), [*read(5), "list manifest", *(f"get {i}.manifest" for i in (1, 2, 3, 4)), *read(5), "delete b.sst",
                        "delete c.sst", "list manifest", "get manifest.boundary", "create manifest.boundary", "get 5.manifest",
                        "get_if_changed manifest.boundary", "delete 1.manifest", "delete 3.manifest", "delete 4.manifest"])
    alone.now += 500
    same(await collect(manifests, "db", 1000, 1), ([], []))
    alone.now += 1
    alone.fails("delete", "compacted/", OutcomeUnknown)
    same(await collect(manifests, "db", 100, 1), ([], []))
    same((await manifests.current()).value.checkpoints, ())
    same(await collect(manifests, "db", 100, 1), ([2, 5], ["a"]))
    left = ["db/compacted/d.sst", "db/compacted/uploaded.sst", "db/gc/manifest.boundary", MANIFESTS.key(6)]
    same([of.key for of in (await alone.real.list_page("db/")).entries], left)


async def names(alone: Alone) -> None:
    """A manifest names the SSTs of L0 and of runs, and none of another database."""
    same(Manifest(l0=("a",), compacted=("b",)).named_ssts, frozenset("ab"))
    ssts = tuple(tables.Sst(one, tables.SstInfo()) for one in "abc")
    views = tuple(tables.View(one, one) for one in "abc")
    parent = tables.ExternalDb("p", "", "", ("b",))
    both = Manifest(ssts=ssts, l0=views[:1], compacted=(tables.Run(1, views[1:]),), external_dbs=(parent,))
    same(both.named_ssts, frozenset("ac"))
    same((key_of_sst("", "a"), key_of_sst("db", "a")), ("compacted/a.sst", "db/compacted/a.sst"))


async def destroyed(alone: Alone) -> None:
    """A destroyed database takes no checkpoint, and renews none; one may still be deleted."""
    manifests = await begun(alone)
    await create(manifests, "x", 5)
    await manifests.update(lambda file_id, m: with_mark(m, Mark(SOFT, 0, 9), DATABASE, file_id))
    await alone.raises(DatabaseDestroyed, create(manifests, "y"), mark=Mark(SOFT, 0, 9))
    await alone.raises(DatabaseDestroyed, refresh(manifests, "x", 9), mark=Mark(SOFT, 0, 9))
    same([one.id for one in (await delete(manifests, "x")).value.checkpoints], [MARK])


SCRIPTS: tuple[Script, ...] = (life, missing_and_ended, meanwhile, lost, unfinished, collection, names, destroyed)
