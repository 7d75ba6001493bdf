"""Scripts of collectors, impl/protocols/database_gc.py, and of uploads, impl/protocols/database_gc_uploads.py."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.sst_ids import RANDOM, time_ms
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown, Unavailable
from highwater.impl.layout import key_of_sst
from highwater.impl.protocols import database_metadata
from highwater.impl.protocols.database_gc import (
    CheckpointGone,
    Collected,
    NoDatabase,
    Options,
    Plan,
    collect,
    delete,
    plan,
    rounds,
)
from highwater.impl.protocols.database_gc_uploads import Flushed, SstCompactor, SstTooOld, commit, flush, upload
from highwater.impl.protocols.manifest_compactions import Stores

OLD = Options(10)
READS = ["list compacted", "list compactions", "get 1.compactions", "get compactions.boundary", "list manifest"]


class Ulids:
    """Mints the ULIDs of a script by its clock."""

    def __init__(self, alone: Alone):
        self.alone, self.given, self.same = alone, 0, 0

    def new_id(self) -> str:
        """Return one that is newer than those of the same time; the one given last as often as `same` says."""
        self.given += not self.same
        self.same = max(0, self.same - 1)
        return ulid_of(self.alone.now << RANDOM | self.given)


async def begun(alone: Alone) -> Stores:
    stores = database_metadata.stores_of(alone.world._replace(ids=Ulids(alone)), "db")
    await database_metadata.initialise(stores)
    alone.sent()
    return stores


async def flushed(alone: Alone, stores: Stores, wal: Flushed | None = None) -> str:
    sst = await flush(stores.manifest, "db", b"rows", wal or Flushed())
    alone.now += 100
    return sst


async def uploaded(alone: Alone) -> None:
    """An SST is uploaded and then committed; an older one is refused."""
    stores = await begun(alone)
    older = await upload(stores.manifest.world, "db", "", b"rows")
    alone.now += 100
    sst = await flushed(alone, stores, Flushed(1, 2))
    name = sst[-20:] + ".sst"
    sent = alone.sent()
    same(sent[1:4], ["list manifest", "get 1.manifest", "get manifest.boundary"])
    same([sent[4].endswith(name), *sent[5:]], [True, "list manifest", "get 1.manifest", "create 2.manifest",
                                               "get manifest.boundary"])
    value = (await stores.manifest.current()).value
    same((value.l0, value.replay_after_wal_id, value.wal_id_last_seen), ((sst,), 1, 2))
    await alone.raises(SstTooOld, commit(stores.manifest, older, Flushed()), sst=older, newest=sst)
    await commit(stores.manifest, sst, Flushed(9, 9))
    same((await stores.manifest.current()).value, value)
    same(time_ms(await upload(stores.manifest.world, "db", ulid_of(alone.now + 5 << RANDOM), b"rows")), alone.now + 6)


async def lost_reply(alone: Alone) -> None:
    """The commit takes effect, and its response is lost: the SST is found in the manifest."""
    stores = await begun(alone)
    alone.fails("create", ".manifest", LOST)
    sst = await flushed(alone, stores)
    same((await stores.manifest.current()).value.l0, (sst,))
    alone.fails("create", ".sst", LOST)
    await alone.raises(OutcomeUnknown, flush(stores.manifest, "db", b"rows"))
    same((await stores.manifest.current()).value.l0, (sst,))


async def compacted(alone: Alone) -> None:
    stores = await begun(alone)
    one, two = await flushed(alone, stores), await flushed(alone, stores)
    compactor = SstCompactor(stores, "db")
    await alone.raises(ValueError, compactor.compact((b"a",)))
    same(await compactor.open(), 1)
    alone.now += 100
    alone.sent()
    outputs = await compactor.compact((b"a", b"b"))
    same(len(outputs), 2)
    sent = alone.sent()
    same(next(of for of in sent if "compacted" in of or of.startswith("create")), "create 3.compactions")
    value, claims = (await stores.manifest.current()).value, (await stores.compactions.current()).value
    same((value.l0, value.compacted, value.last_compacted_l0_sst_id), ((), outputs, two))
    same((claims.compactor_epoch, claims.jobs, claims.ids), (1, (), ()))
    same(await compactor.compact((b"a",)), ())
    three = await flushed(alone, stores)
    merged = await compactor.compact((b"c",))
    value = (await stores.manifest.current()).value
    same((value.compacted, value.last_compacted_l0_sst_id), (merged, three))
    await SstCompactor(stores, "db").open()
    await alone.raises(FencedInDoubt, compactor.compact((b"d",)))
    same(one < two < three, True)


async def continued(alone: Alone) -> None:
    """A compaction that failed goes on where it was, and uploads nothing again."""
    stores = await begun(alone)
    await flushed(alone, stores)
    compactor = SstCompactor(stores, "db")
    await compactor.open()
    alone.fails("create", ".manifest", Unavailable)
    await alone.raises(Unavailable, compactor.compact((b"a",)))
    first, listed = compactor.outputs[:], (await stores.compactions.current()).value
    same((len(first), listed.ids, listed.jobs), (1, (compactor.id,), (compactor.inputs,)))
    alone.fails("create", ".compactions", Unavailable)
    await alone.raises(Unavailable, compactor.compact((b"a",)))
    same(await compactor.compact((b"a",)), tuple(first))
    alone.now += 100
    await flushed(alone, stores)
    alone.fails("create", "6.compactions", Unavailable)
    await alone.raises(Unavailable, compactor.compact((b"b",)))
    await SstCompactor(stores, "db").open()
    await alone.raises(FencedInDoubt, compactor.compact((b"b",)))


async def collected(alone: Alone) -> None:
    stores = await begun(alone)
    orphan = await upload(stores.manifest.world, "db", "", b"rows")
    alone.now += 100
    await flushed(alone, stores)
    await database_metadata.take_checkpoint(stores.manifest, "cp", 0)
    alone.now += 100
    await flushed(alone, stores)
    alone.sent()
    shown = await plan(stores, "db", OLD)
    same(alone.sent(), [*READS, "get 4.manifest", "get manifest.boundary", "get 3.manifest", "list manifest",
                        "list compactions", "list wal"])
    same(shown, Plan(4, (3, 0), (1, 2), (), (), (orphan,)))
    same(await delete(stores, "db", shown), shown)
    same(alone.sent(), ["get manifest.boundary", "create manifest.boundary", "delete 1.manifest", "delete 2.manifest",
                        f"delete {key_of_sst('db', orphan)[-24:]}"])
    same(await collect(stores, "db", OLD), Plan(4, (3, 0)))
    await stores.manifest.world.store.delete("db/manifest/00000000000000000003.manifest")
    await alone.raises(CheckpointGone, collect(stores, "db", OLD))


async def logs(alone: Alone) -> None:
    """WAL objects behind the flushed ones go, but not those that a checkpoint shows, nor what has no id."""
    stores = await begun(alone)
    for name in ("readme", *(f"{i:020}.sst" for i in range(1, 8))):
        await alone.real.create(f"db/wal/{name}", b"record")
    await flushed(alone, stores, Flushed(3, 5))
    await database_metadata.take_checkpoint(stores.manifest, "cp", 0)
    await flushed(alone, stores, Flushed(6, 6))
    same((await collect(stores, "db", OLD)).wal, (1, 2, 3))


async def minted_twice(alone: Alone) -> None:
    """Another client has uploaded an SST of the same ULID: it is not overwritten, and a newer ULID is minted."""
    ids = Ulids(alone)
    world = alone.world._replace(ids=ids)
    one = await upload(world, "db", "", b"theirs")
    ids.same = 1
    two = await upload(world, "db", "", b"ours")
    same((one < two, time_ms(two)), (True, time_ms(one) + 1))
    same([(await alone.real.get(key_of_sst("db", sst))).body for sst in (one, two)], [b"theirs", b"ours"])


async def shown(alone: Alone) -> None:
    """A plan as if what has ended were removed: nothing is written. The round then removes it, and deletes that much."""
    stores = await begun(alone)
    await flushed(alone, stores)
    await database_metadata.take_checkpoint(stores.manifest, "cp", alone.now + 50)
    alone.now += 100
    await flushed(alone, stores)
    same((await plan(stores, "db", OLD)).manifests, (1, 2))
    alone.sent()
    same((await plan(stores, "db", OLD, ended=True)).manifests, (1, 2, 3))
    same([of for of in alone.sent() if not of.startswith(("get ", "list "))], [])
    done = await collect(stores, "db", OLD)
    same((done.manifest, done.manifests), (5, (1, 2, 3, 4)))


async def several(alone: Alone) -> None:
    """Rounds on three databases: one fails once, one is gone, and neither stops the others."""
    asked, began = list[str](), alone.now

    def database(name: str, *ends: Exception | None) -> Collected:
        async def round_of_it() -> Plan:
            asked.append(f"{name} {alone.now - began}")
            if error := ends[sum(of.startswith(name) for of in asked) - 1]:
                raise error
            return Plan(1, (0, 0))
        return Collected(name, round_of_it)

    a, b, c = (database("a", Unavailable("no answer"), None, NoDatabase("gone")), database("b", NoDatabase("gone")),
               database("c", None, None, None, NoDatabase("gone")))
    await rounds(alone.world, (a, b, c), 7)
    same(asked, ["a 0", "b 0", "c 0", "a 7", "c 7", "a 14", "c 14", "c 21"])
    same(alone.now, began + 21)
    same(alone.counted, ["database_gc_failures"])
    same(alone.warnings, ["a round on 'a' failed, the next one begins anew: no answer"])
    asked.clear()
    await rounds(alone.world, (database("d", None, None, None),), 7, most=2)
    same([of[0] for of in asked], ["d", "d"])
    await alone.raises(ValueError, rounds(alone.world, (database("e", ValueError("a mistake")),), 7))


async def nothing_there(alone: Alone) -> None:
    stores = database_metadata.stores_of(alone.world, "db")
    await alone.raises(NoDatabase, collect(stores, "db", OLD))
    await alone.raises(NoDatabase, plan(stores, "db", OLD))


SCRIPTS: tuple[Script, ...] = (uploaded, lost_reply, compacted, continued, collected, logs, minted_twice, shown,
                               several, nothing_there)
