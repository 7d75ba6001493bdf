"""Scripts of what a compactor of a whole database picks, merges and finds, impl/db/compactor.py.

Those of its protocol on SlateDB's files are in manifest_compactions_slatedb.py.
"""

from collections.abc import Sequence

from highwater.dst.script import LOST, Alone, Script, fails_with, same
from highwater.dst.scripts.db_begun import (
    COMPACTIONS,
    another,
    change,
    latest,
    left,
    sst_id,
    with_sst,
    world_of,
)
from highwater.impl.codecs.destroyed import HARD, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.compactions import Compactions, decode, encode
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import (
    COMPACTED,
    COMPLETED,
    FAILED,
    INCLUDED,
    RUNNING,
    SCHEDULED,
    SUBMITTED,
    Bound,
    Compaction,
    Drain,
    ExternalDb,
    Range,
    Run,
    SstInfo,
    SstV1,
    Tiered,
    View,
    Worker,
)
from highwater.impl.db import claims, compactor
from highwater.impl.db.compaction import Form
from highwater.impl.db.compactor import DbCompactor, Options, stores_of
from highwater.impl.db.merge import versions
from highwater.impl.db.reader import Reader, State
from highwater.impl.db.rows import MERGE, TOMBSTONE, VALUE, Row
from highwater.impl.db.tiers import Tiers, pick
from highwater.impl.db.upload import UPLOADS, uploaded
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown, Unavailable
from highwater.impl.manifests.spans import Span
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.world import World

UUID = "01740ee5-6459-44af-9a45-85deb6e468e3"
FORM = Form(1 << 20, 0, 64, 2)
NEVER = Tiers(99, 99)
ROWS = [[Row(b"a", i, value=b"%d" % i), Row(b"b%d" % i, i, value=b"%d" % i)] for i in range(1, 4)]


def row(seq: int, kind: int = VALUE, value: bytes | None = None, expire_ms: int | None = None, key: bytes = b"a") -> Row:
    return Row(key, seq, kind, b"" if kind == TOMBSTONE else b"%d" % seq if value is None else value, None, expire_ms)


async def made(alone: Alone, tiers: Tiers = NEVER, form: Form = FORM) -> DbCompactor:
    """Open a compactor. Its requests are forgotten."""
    instance = DbCompactor(stores_of(world_of(alone), "db"), "db", Options(0, tiers, form, 0, 3))
    await instance.open()
    alone.sent()
    return instance


async def rows_of(alone: Alone, manifest: Manifest) -> list[Row]:
    """Return all versions that there are."""
    reader = Reader(alone.real, State("db", manifest, []))
    return [one async for found in versions(reader.sources(Span())) for one in found]


async def listed(alone: Alone) -> list[tuple[str, int]]:
    """Return the compactions in the latest file, each with its status."""
    key = (await alone.real.list_page(COMPACTIONS.prefix)).entries[-1].key
    return [(one.id, one.status) for one in decode((await alone.real.get(key)).body).recent_compactions]


# --- what is merged

async def merged(alone: Alone) -> None:
    """All of L0 becomes one run. Of each key stays what a read at the oldest snapshot needs, and all that is newer."""
    older = [row(3, MERGE), row(2, MERGE), row(2, TOMBSTONE, key=b"b")]
    await left(alone, [[row(1), row(1, key=b"b"), row(1, key=b"c")], older, [row(5), row(4), row(4, MERGE, key=b"c")]],
               recent_snapshot_min_seq=3)
    instance = await made(alone, tiers=Tiers(3, 8))
    done = await instance.compact_once()
    same((done and done.spec, await instance.compact_once()), (
        Tiered((), (), (sst_id(3), sst_id(2), sst_id(1)), b"", 0), None))
    (_, manifest) = await latest(alone)
    run, = manifest.compacted
    same((manifest.l0, run.id, len(run.views), manifest.last_compacted_l0_view_id), ((), 0, 1, sst_id(3)))
    same(await rows_of(alone, manifest), [row(5), row(4), row(3, MERGE), row(2, MERGE), row(1), row(4, MERGE, key=b"c"),
                                          row(1, key=b"c")])
    same([status for _, status in await listed(alone)], [COMPLETED])


async def above_others(alone: Alone) -> None:
    """Above an older run a tombstone stays. At the bottom it goes, and with its last row a run."""
    manifest = await left(alone, [[row(1)], [row(2, TOMBSTONE)]], recent_snapshot_min_seq=2)
    await change(alone, lambda m: m._replace(l0=m.l0[:1], compacted=(Run(4, m.l0[1:]),)))
    same(len(manifest.l0), 2)
    instance = await made(alone, tiers=Tiers(1, 8, 1))
    await instance.compact_once()
    (_, manifest) = await latest(alone)
    same(([run.id for run in manifest.compacted], await rows_of(alone, manifest)), ([5, 4], [row(2, TOMBSTONE), row(1)]))
    instance.options = instance.options._replace(scheduler=Tiers(2, 8, 1e9))
    done = await instance.compact_once()
    same(done and done.spec, Tiered((), (5, 4), (), b"", 4))
    (_, manifest) = await latest(alone)
    same((manifest.compacted, manifest.ssts, await instance.compact_once()), ((), (), None))


async def expired(alone: Alone) -> None:
    """An expired value becomes a tombstone; an expired operand that no snapshot needs goes."""
    await left(alone, [[row(1, key=b"b")], [row(3, MERGE, expire_ms=alone.now), row(2, expire_ms=alone.now)],
                       [row(9, MERGE, expire_ms=alone.now, key=b"b")]], recent_snapshot_min_seq=5)
    await change(alone, lambda m: m._replace(compacted=(Run(0, m.l0[2:]),), l0=m.l0[:2]))
    await (await made(alone, tiers=Tiers(2, 2, 1))).compact_once()
    (_, manifest) = await latest(alone)
    same(await rows_of(alone, manifest), [row(2, TOMBSTONE), row(9, MERGE, expire_ms=alone.now, key=b"b"), row(1, key=b"b")])


async def divided(alone: Alone) -> None:
    """An output has at most so many bytes of rows, unless one key has more. All versions of a key are in one. Another form cuts
    between any two rows, and what has been cut is merged again."""
    every = [row(3, MERGE), row(2), row(1), row(1, value=b"1" * 50, key=b"b"), row(1, key=b"c"), row(1, key=b"d")]
    await left(alone, [every], recent_snapshot_min_seq=0)
    instance = await made(alone, tiers=Tiers(1, 2, 1e9), form=Form(68, 0, 64, 2, False))
    await instance.compact_once()
    manifest = await with_sst(alone, (await latest(alone))[1], 8, [row(4)])
    same(([first_key(manifest, view) for view in manifest.compacted[0].views], await rows_of(alone, manifest)),
         ([b"a", b"a", b"b", b"c"], [row(4), *every]))
    await change(alone, lambda _: manifest)
    instance.options = instance.options._replace(form=Form(68, 0, 64, 2))
    while await instance.compact_once():
        pass
    (_, manifest) = await latest(alone)
    same(([first_key(manifest, view) for view in manifest.compacted[0].views], await rows_of(alone, manifest)),
         ([b"a", b"b", b"c"], [row(4), *every]))


def first_key(manifest: Manifest, view: View) -> bytes | None:
    return next(sst.info.first_entry for sst in manifest.ssts if sst.id == view.sst_id)


async def shared(alone: Alone) -> None:
    """Rows of a clone's parent are merged as far as they are visible, and the parent's SSTs are listed no longer."""
    await left(alone, [[row(1), row(1, key=b"b")], [row(2)]])
    visible = Range(Bound(b"b", INCLUDED), Bound(b"b", INCLUDED))
    await change(alone, lambda m: m._replace(
        l0=(m.l0[0], m.l0[1]._replace(visible_range=visible)),
        external_dbs=(ExternalDb("db", UUID, UUID, (sst_id(1), sst_id(7))), ExternalDb("q", UUID, UUID, ()))))
    await (await made(alone, tiers=Tiers(2, 2))).compact_once()
    (_, manifest) = await latest(alone)
    same(await rows_of(alone, manifest), [row(2), row(1, key=b"b")])
    same([one.sst_ids for one in manifest.external_dbs], [(), ()])


async def uploads(alone: Alone) -> None:
    """An upload without a reply is repeated under the same id, so many times."""
    world = world_of(alone)
    alone.fails("create", "compacted/", LOST)
    same(await uploaded(world, "db", sst_id(1), b"x"), sst_id(1))
    same(len(alone.sent()), 2)
    alone.fails("create", "compacted/", Unavailable, UPLOADS)
    await alone.raises(OutcomeUnknown, uploaded(world, "db", sst_id(2), b"x"))
    same(len(alone.sent()), UPLOADS)


# --- what others have left

async def left_with(alone: Alone, *compactions: Compaction, runs: Sequence[int] = ()) -> DbCompactor:
    """A database of three SSTs in L0 and perhaps runs, a compactions file that somebody has left, and a compactor."""
    await left(alone, ROWS, recent_snapshot_min_seq=3)
    await change(alone, lambda m: m._replace(compacted=tuple(Run(i, (View(sst_id(90 + i), sst_id(3)),)) for i in runs)))
    await alone.real.put(COMPACTIONS.key(1), encode(Compactions(0, compactions)))
    return await made(alone)


async def continued(alone: Alone) -> None:
    """A listed compaction is done, whoever listed it. Outputs that another one has uploaded are not taken over."""
    for status in (SUBMITTED, SCHEDULED, RUNNING, COMPACTED):
        one = Alone()
        theirs = Compaction(sst_id(900), Tiered((), (), (sst_id(2), sst_id(1)), b"", 7), status,
                            (SstV1(sst_id(901), SstInfo(), None, 2),), Worker("them", 1))
        instance = await left_with(one, Compaction(sst_id(800), Tiered(), COMPLETED), theirs)
        done = await instance.compact_once()
        same((done and done.id, await instance.compact_once()), (theirs.id, None))
        (_, manifest) = await latest(one)
        same(([view.id for view in manifest.l0], [run.id for run in manifest.compacted]), ([sst_id(3)], [7]))
        same([found.seq for found in await rows_of(one, manifest) if found.key == b"a"], [3, 2])
        same(await listed(one), [(theirs.id, COMPLETED)])
    same(alone.sent(), [])


OLDEST = (sst_id(2), sst_id(1))
OVER = (
    (Tiered((), (), (sst_id(3), sst_id(2)), b"", 9), SUBMITTED, "not the oldest of L0"),
    (Tiered((), (), OLDEST[::-1], b"", 9), RUNNING, "not the oldest of L0"),
    (Tiered((), (4,), OLDEST, b"", 4), RUNNING, "no neighbours below L0"),
    (Tiered((), (6, 1), (), b"", 1), RUNNING, "no neighbours among"),
    (Tiered((), (6, 4), (), b"", 6), SCHEDULED, "destination 6 is not its oldest run, 4"),
    (Tiered((), (), OLDEST, b"", 6), RUNNING, "no new run above 6"),
    (Tiered((), (), (), b"", 6), SUBMITTED, "no inputs"),
    (Tiered((), (), OLDEST, b"p", 9), RUNNING, "of a segment"),
    (Drain(b"p", OLDEST), RUNNING, "of a segment"),
    (Tiered((), (), (sst_id(77),), b"", 9), SCHEDULED, "not the oldest of L0"),
    (Tiered((), (), (sst_id(77),), b"", 9), COMPACTED, ""),
    (Tiered((), (), (sst_id(77),), b"", 9), RUNNING, ""),
)


async def over(alone: Alone) -> None:
    """A compaction that the manifest does not allow has failed, unless its inputs are gone: then its result is there."""
    for spec, status, says in OVER:
        one = Alone()
        instance = await left_with(one, Compaction(sst_id(900), spec, status), runs=(6, 4, 1))
        before = (await latest(one))[1]
        same(await instance.compact_once(), None)
        same((await latest(one))[1], before)
        same(await listed(one), [(sst_id(900), FAILED if says else COMPLETED)])
        same([says in warning for warning in one.warnings], [True] * bool(says))
        same(one.counted.count("compactions_failed"), int(bool(says)))


async def answers(alone: Alone) -> None:
    """Whether a result is applied, of compactions of L0, of runs, and of one run into itself."""
    await left(alone, ROWS)
    await change(alone, lambda m: m._replace(compacted=(Run(6, (View(sst_id(1), sst_id(1)),)), Run(4, ()))))
    (_, manifest) = await latest(alone)
    sst = manifest.ssts[0]
    for spec, outputs, applied in (
            (Tiered((), (), OLDEST, b"", 7), None, False), (Tiered((), (), (sst_id(9),), b"", 7), None, True),
            (Tiered((), (6, 4), (), b"", 4), None, False), (Tiered((), (5, 4), (), b"", 4), None, True),
            (Tiered((), (6,), (), b"", 6), None, False), (Tiered((), (6,), (), b"", 6), (sst,), True),
            (Tiered((), (6,), (), b"", 6), (), False), (Tiered((), (9,), (), b"", 9), (), True),
            (Tiered((), (6,), OLDEST, b"", 6), None, False), (Tiered((), (5,), (sst_id(9),), b"", 5), None, True)):
        same(claims.is_applied(manifest, spec, outputs), applied, f"{spec}, {outputs}")
    same(claims.refusal(manifest, Compaction(sst_id(9), Tiered((), (6,), (sst_id(3), *OLDEST), b"", 6))), "")
    same(claims.refusal(manifest, Compaction(sst_id(9), Tiered((), (4,), (), b"", 4))), "")


async def twice(alone: Alone) -> None:
    """Two views of L0 have one id: what names one of them names both."""
    await left(alone, ROWS)
    await change(alone, lambda m: m._replace(l0=(m.l0[0]._replace(id=sst_id(7)), m.l0[1], m.l0[2]._replace(id=sst_id(7)))))
    (_, manifest) = await latest(alone)
    why = claims.refusal(manifest, Compaction(sst_id(9), Tiered((), (), (sst_id(7),), b"", 0)))
    same(why, f"two views of L0 have the id {sst_id(7)}, and it names only one of them")
    same(pick(manifest, Tiers(2, 2)), Tiered((), (), (sst_id(7), sst_id(2), sst_id(7)), b"", 0))
    same(pick(manifest, Tiers(4, 8)), None)


# --- what is picked

async def picked(alone: Alone) -> None:
    """L0 comes first, unless its run would join as many similar ones as are compacted at once; then neighbours of a size."""
    manifest = await left(alone, ROWS[:1])

    def of(l0: int, *sizes: int) -> Manifest:
        """Return a manifest with so many SSTs in L0, of 4 bytes each, and runs of these sizes."""
        ssts = [manifest.ssts[0]._replace(id=sst_id(100 + i), info=manifest.ssts[0].info._replace(filter_offset=size))
                for i, size in enumerate([*[4] * l0, *sizes])]
        views = [View(sst.id, sst.id) for sst in ssts]
        runs = [Run(len(sizes) - i, (view,)) for i, view in enumerate(views[l0:])]
        return manifest._replace(ssts=tuple(ssts), l0=tuple(views[:l0]), compacted=tuple(runs))

    for there, l0, runs, destination in (
            (of(1), None, (), 0), (of(2), 2, (), 0), (of(4), 3, (), 0), (of(2, 400), 2, (), 2),
            (of(2, 8, 8, 8), None, (3, 2, 1), 1), (of(0, 8, 8), None, (2, 1), 1), (of(0, 8, 33), None, None, 0),
            (of(0, 8, 32), None, (2, 1), 1),
            (of(0, 8, 8, 8, 8), None, (3, 2, 1), 1), (of(0, 1, 8, 8), None, (2, 1), 1), (of(0, 8), None, None, 0),
            (of(2, 8, 8), 2, (), 3),
            (of(0, 4, 4, 16, 16, 16), None, (3, 2, 1), 1),
            (of(0, 4, 4, 20, 20, 20), None, (3, 2, 1), 1), (of(0, 4, 4, 20, 20), None, (4, 3), 3)):
        spec = pick(there, Tiers(2, 3, 4))
        expected = Tiered((), (), tuple(view.id for view in there.l0[-l0:]), b"", destination) if l0 else \
            Tiered((), runs, (), b"", destination) if runs else None
        same(spec, expected, f"picked of {[sst.info.filter_offset for sst in there.ssts]}")
    same(alone.sent(), [])


# --- what is refused

async def refused(alone: Alone) -> None:
    stores = stores_of(world_of(alone), "db")
    for bad in (Options(pin_ms=-1), Options(poll_interval_ms=-1), Options(scheduler=Tiers(0)), Options(scheduler=Tiers(5, 4)),
                Options(scheduler=Tiers(1, 1)), Options(scheduler=Tiers(include_size_threshold=0.5)),
                Options(form=Form(0)), Options(form=Form(compression_codec=5)), Options(form=Form(compression_codec=-1))):
        fails_with(ValueError, lambda bad=bad: DbCompactor(stores, "db", bad))
    DbCompactor(stores, "db", Options(0, Tiers(1, 2, 1), Form(1, 4), 0))
    await left(alone, ROWS)
    await change(alone, lambda m: m._replace(initialized=False))
    alone.sent()
    await alone.raises(NotInitialized, DbCompactor(stores, "db").open())
    same(alone.sent(), ["list manifest", "get 2.manifest", "get manifest.boundary"])
    await change(alone, lambda m: m._replace(initialized=True))
    instance = await made(alone, tiers=Tiers(1, 2))
    await change(alone, lambda m: with_mark(m, Mark(HARD, 1, 2), ManifestCodec(), 5)._replace(compactor_epoch=1))
    await alone.raises(DatabaseDestroyed, instance.compact_once())
    await alone.raises(DatabaseDestroyed, DbCompactor(stores, "db").open())
    same((await alone.real.list_page("db/compacted/")).entries[-1].key.endswith(f"{sst_id(3)}.sst"), True)


async def defaults(alone: Alone) -> None:
    """The options have SlateDB's defaults, and name the codecs by its numbers."""
    same(tuple(Form()), (268_435_456, 0, 4096, 1000, True))
    same(tuple(Tiers()), (4, 8, 4.0))
    same(tuple(Options()), (5_000, Tiers(), Form(), 900_000, 100))
    same(alone.sent(), [])


async def files(alone: Alone) -> None:
    """No checkpoint refers to a compactions file: the old ones are collected."""
    await left(alone, ROWS)
    stores = stores_of(world_of(alone), "db")
    for _ in range(2):
        await DbCompactor(stores, "db").open()
    alone.now += 10
    same(await stores.compactions.collect(5), [1, 2])


# --- the process

async def process(alone: Alone) -> None:
    """It goes on when the store fails, and compacts at each poll until another one takes over."""
    await left(alone, ROWS, recent_snapshot_min_seq=3)
    world, options, now = world_of(alone), Options(50, Tiers(2, 8), FORM, 0, 3), alone.now
    alone.fails("list", "manifest", Unavailable)
    await compactor.run(world, "db", options, 1)
    same((alone.now, alone.counted.count("compactor_failures"), len(alone.warnings)), (now + 50, 1, 1))
    await compactor.run(world, "db", options, 2)
    same((alone.now, alone.counted.count("compactions")), (now + 150, 1))
    (_, manifest) = await latest(alone)
    same((len(manifest.l0), len(manifest.compacted), manifest.compactor_epoch), (0, 1, 1))
    manifest = await with_sst(alone, await with_sst(alone, manifest, 8, [row(8)]), 9, [row(9)])
    await change(alone, lambda _: manifest)
    alone.fails("create", "compacted/", lambda: opens(alone, world))
    await alone.raises(FencedInDoubt, compactor.run(world, "db", options))
    same(((await latest(alone))[1].compactor_epoch, len((await latest(alone))[1].l0)), (3, 2))


async def opens(alone: Alone, world: World) -> None:
    await DbCompactor(stores_of(another(world, alone), "db"), "db").open()


SCRIPTS: tuple[Script, ...] = (merged, above_others, expired, divided, shared, uploads, continued, over, answers, twice, picked,
                               refused, defaults, files, process)
