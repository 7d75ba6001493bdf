"""Scripts of the compactor on SlateDB's own files, impl/db/compactor.py, whose protocol is manifest_compactions."""

from highwater.dst.script import LOST, Alone, Script, same
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.compactions import decode
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import COMPACTED, COMPLETED, RUNNING, Compaction, Sst, Tiered, View
from highwater.impl.codecs.sst_ids import RANDOM
from highwater.impl.db.build import VERSION, sst_of
from highwater.impl.db.compactor import DbCompactor, Options, stores_of
from highwater.impl.db.rows import Row
from highwater.impl.db.tiers import Tiers
from highwater.impl.errors import FencedInDoubt, Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.world import World

MANIFESTS, COMPACTIONS = Namespace("db", "manifest"), Namespace("db", "compactions")
OPTIONS = Options(scheduler=Tiers(2, 8))
UPDATE = ["list {0}", "get {1}.{0}", "create {2}.{0}", "get {0}.boundary"]
PINNED_MS = 900_000


class Ulids:
    """Mints the ULIDs of a script by its clock."""

    def __init__(self, alone: Alone):
        self.alone, self.given = alone, 0

    def new_id(self) -> str:
        self.given += 1
        return ulid_of(self.alone.now << RANDOM | self.given)


def updated(name: str, latest: int) -> list[str]:
    """Return the requests of an update that builds on file `latest`."""
    return [of.format(name, latest, latest + 1) for of in UPDATE]


def name_of(sst: str) -> str:
    return f"{sst.lstrip('0')}.sst"


async def begun(alone: Alone, number: int) -> tuple[World, list[str]]:
    """A database with so many SSTs in L0; return its world, and the SSTs, the newest first."""
    world, ssts, views = alone.world._replace(ids=Ulids(alone)), list[Sst](), list[View]()
    for i in range(1, number + 1):
        sst = world.ids.new_id()
        built = sst_of([Row(b"k", i, value=b"%d" % i), Row(b"k%d" % i, i, value=b"v")])
        await world.store.put(key_of_sst("db", sst), built.body)
        ssts.append(Sst(sst, built.info, VERSION))
        views.insert(0, View(sst, sst))
    manifest = Manifest(initialized=True, ssts=tuple(ssts), l0=tuple(views), last_l0_seq=number,
                        recent_snapshot_min_seq=number)
    await world.store.put(MANIFESTS.key(1), ManifestCodec().encode(manifest))
    alone.sent()
    return world, [view.id for view in views]


async def listed(alone: Alone, file_id: int) -> list[tuple[str, int, list[str]]]:
    """Return each compaction of a file: its id, status and outputs."""
    found = decode((await alone.real.get(COMPACTIONS.key(file_id))).body).recent_compactions
    return [(one.id, one.status, [sst.id for sst in one.output_ssts]) for one in found]


async def compact(alone: Alone) -> None:
    """Each step is a request: claim, inputs, output, outputs in the claim, pin, result, end of the claim."""
    world, ssts = await begun(alone, 2)
    compactor = DbCompactor(stores_of(world, "db"), "db", OPTIONS)
    same(await compactor.open(), 1)
    same(alone.sent(), ["list manifest", "get 1.manifest", "get manifest.boundary", "list compactions", "create 1.compactions",
                        "get compactions.boundary", "list compactions", "get 1.compactions", "get compactions.boundary",
                        *updated("manifest", 1), *updated("compactions", 1)])
    job = await compactor.compact_once()
    same(type(job), Compaction)
    assert job is not None
    after = (await compactor.stores.manifest.current()).value
    output = after.ssts[0].id
    same(alone.sent()[:-3], [
        "list compactions", "get 2.compactions", "get compactions.boundary", "list manifest", "get 2.manifest",
        "get manifest.boundary", *updated("compactions", 2), *(f"get_range {name_of(sst)}" for sst in ssts),
        f"create {name_of(output)}", *updated("compactions", 3), *updated("manifest", 2), *updated("manifest", 3),
        *updated("compactions", 4)])
    same([await listed(alone, i) for i in (3, 4, 5)],
         [[(job.id, RUNNING, [])], [(job.id, COMPACTED, [output])], [(job.id, COMPLETED, [output])]])
    same(job.spec, Tiered((), (), tuple(ssts), b"", 0))
    same((after.l0, [(run.id, run.views) for run in after.compacted]), ((), [(0, (View(output, output),))]))
    same([(one.name, one.manifest_id, one.expire_time_s - one.create_time_s) for one in after.checkpoints],
         [(f"compaction {job.id}", 3, PINNED_MS // 1000)])
    same(await compactor.compact_once(), None)


async def result_unheard(alone: Alone) -> None:
    """The reply to the result is lost: the result is found, and nothing is merged again."""
    world, _ = await begun(alone, 2)
    compactor = DbCompactor(stores_of(world, "db"), "db", OPTIONS)
    await compactor.open()
    alone.sent()
    alone.fails("create", MANIFESTS.key(4), LOST)
    same(type(await compactor.compact_once()), Compaction)
    same(sum(request.endswith(".sst") for request in alone.sent()), 3)
    same((await compactor.stores.manifest.current()).id, 4)


async def taken_over(alone: Alone) -> None:
    """A compactor stops with a claim; the next one merges it with outputs of its own, and fences it."""
    world, ssts = await begun(alone, 2)
    first, second = (DbCompactor(stores_of(world, "db"), "db", OPTIONS) for _ in range(2))
    await first.open()
    alone.fails("get", MANIFESTS.key(2), Unavailable, 1)
    await alone.raises(Unavailable, first.compact_once())
    alone.fails("get_range", name_of(ssts[0]), Unavailable)
    await alone.raises(Unavailable, first.compact_once())
    claimed = await listed(alone, 3)
    same(await second.open(), 2)
    done = await second.compact_once()
    assert done is not None
    same([(done.id, RUNNING, [])], claimed)
    await alone.raises(FencedInDoubt, first.compact_once(), epoch=1, stored=2)
    same(await second.compact_once(), None)


SCRIPTS: tuple[Script, ...] = (compact, result_unheard, taken_over)
