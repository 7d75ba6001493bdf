"""The compactor on SlateDB's own files: drawn databases show the same before and after, whoever dies, stalls or collects."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.destroyed import SOFT, Mark
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.header import InvalidFile, closed
from highwater.impl.codecs.slatedb.tables import (
    COMPACTED,
    COMPLETED,
    FAILED,
    RUNNING,
    SCHEDULED,
    SUBMITTED,
    Compaction,
    Drain,
    Run,
    Segment,
    Sst,
    SstInfo,
    SstV1,
    Tiered,
    View,
    Worker,
)
from highwater.impl.db import claims, compaction, compactor, tiers
from highwater.impl.db import db as writer
from highwater.impl.db.compaction import Form
from highwater.impl.db.compactor import DbCompactor, Options, run, stores_of
from highwater.impl.db.db import Db
from highwater.impl.db.reader import CannotRead
from highwater.impl.db.retention import retained
from highwater.impl.db.rows import MERGE, TOMBSTONE, Row
from highwater.impl.db.tiers import Tiers, pick
from highwater.impl.db.upload import uploaded
from highwater.impl.errors import FencedInDoubt, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace, key_of_sst
from highwater.impl.manifests.readable import HasSegments
from highwater.impl.manifests.spans import Malformed, Span, in_run
from highwater.impl.protocols import checkpoints, database_gc
from highwater.impl.protocols.checkpoints import NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed, with_mark
from highwater.impl.protocols.manifest_compactions import InputMissing
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import SystemClock, Ulids
from highwater.impl.world import World
from tests.impl.protocols.test_impl_manifest_compactions import Died, Interrupted
from tests.support.slatedb.layers import KEYS, Clock, Layers, Noted, check_layers, every_row, layers, reads
from tests.support.slatedb.tables import database, id_of

SEED = 45  # of a database whose life is three compactions: of L0, of the rest of L0, and of all runs
MOST = 50  # compactions of one database
PIN_MS = 900_000


def options_of(draw: Random) -> Options:
    least = draw.randint(1, 3)
    return Options(scheduler=Tiers(least, max(2, least + draw.randint(0, 2)), draw.choice((1, 4, 1e9))),
                   form=Form(draw.choice((1, 150, 1 << 20)), block_size=64, min_filter_keys=2))


async def collect(of: Layers) -> None:
    of.clock.now += 10
    await database_gc.collect(stores_of(of.world(), "db"), "db", database_gc.Options(0))


async def current(of: Layers) -> tuple[Manifest, Compactions]:
    stores = stores_of(of.world(), "db")
    return (await stores.manifest.current()).value, (await stores.compactions.current()).value


async def shown(of: Layers, manifest: Manifest) -> dict:
    return reads(await every_row(of.store, manifest), of.manifest.recent_snapshot_min_seq, of.manifest.last_l0_seq)


async def well(of: Layers, before: dict) -> Manifest:
    """Check what is there when a compactor has nothing to do any more; return the manifest."""
    manifest, listed = await current(of)
    await check_layers(of.store, manifest, of.manifest)
    assert await shown(of, manifest) == before
    assert len(listed.recent_compactions) <= 1 and all(one.status == COMPLETED for one in listed.recent_compactions)
    assert listed.compactor_epoch == manifest.compactor_epoch
    return manifest


async def judged(draw: Random) -> None:
    """Compact a drawn database as long as there is something to do. A collector works after each compaction."""
    of, options = await layers(draw), options_of(draw)
    before = await shown(of, of.manifest)
    manifests, is_kept = stores_of(of.world(), "db").manifest, draw.random() < 0.5
    if is_kept:
        await checkpoints.create(manifests, checkpoints.new_id(manifests))
    compacting = DbCompactor(stores_of(of.world(), "db"), "db", options)
    assert await compacting.open() == 1
    for _ in range(MOST):
        there = (await current(of))[0]
        job = await compacting.compact_once()
        if job is None:
            break
        await collect(of)
        assert await shown(of, there) == before  # a client that has read it, and has no checkpoint, has the time of the pin
        after = await well(of, before)
        assert len(after.l0) + len(after.compacted) < len(there.l0) + len(there.compacted) + bool(job.spec.l0_view_ids)
        await check_result(of, after, job)
    else:
        raise AssertionError("it does not end")
    of.clock.now += PIN_MS + 1000
    await collect(of)
    if is_kept:
        assert await shown(of, await manifests.read(2)) == before  # that of the checkpoint
    await well(of, before)


async def check_result(of: Layers, manifest: Manifest, job: Compaction) -> None:
    """Check that what nobody needs is gone."""
    keep_from = of.manifest.recent_snapshot_min_seq
    result = [run for run in manifest.compacted if run.id == job.spec.destination]
    for rows in (await every_row(of.store, manifest._replace(l0=(), compacted=tuple(result)))).values():
        left = [row for row in rows if row.seq <= keep_from and row.kind != MERGE]
        assert len(left) <= 1
        assert not (result and result[0] == manifest.compacted[-1] and rows[-1].kind == TOMBSTONE)
    if result:
        first_keys = [sst.info.first_entry for view in result[0].views for sst in manifest.ssts if sst.id == view.sst_id]
        assert len(first_keys) == len(set(first_keys))


@settings(max_examples=30, deadline=None)
@given(draw=st.randoms(use_true_random=False))
def test_reads_show_the_same(draw):
    asyncio.run(judged(draw))


# --- each safeguard is needed: with it broken, a drawn database is judged to be wrong

class NoPin(DbCompactor):
    def __init__(self, stores, root, options):
        super().__init__(stores, root, options._replace(pin_ms=0))


def cut_anywhere(real):
    async def parts(*arguments):
        async for rows in real(*arguments):
            for row in rows:
                yield [row]

    return parts


def first_only(run_id, views, ssts):
    """The views of a run without the keys that the view before has."""
    shown = in_run(run_id, views, ssts)
    cut = [(view, Span(max(span.start, before.end or b""), span.end)) for (_, before), (view, span) in pairwise(shown)]
    return [*shown[:1], *((view, span) for view, span in cut if not span.ends_by(span.start))]


def result_with(**fields: Callable[[Manifest, Sequence[Sst]], object]):
    """A result in which some fields are wrong."""
    real = claims.with_result
    return lambda manifest, spec, outputs: real(manifest, spec, outputs)._replace(
        **{name: of(manifest, outputs) for name, of in fields.items()})


BROKEN = {
    "the newest of L0 are picked": (tiers, "oldest_of", lambda l0, most: l0[:most]),
    "versions that a snapshot sees are dropped": (
        compaction, "retained", lambda rows, keep_from, now_ms, bottom: retained(rows, 1 << 60, now_ms, bottom)),
    "tombstones are dropped above the bottom": (compaction, "is_bottom", lambda manifest, spec: True),
    "tombstones are kept at the bottom": (compaction, "is_bottom", lambda manifest, spec: False),
    "visible ranges are ignored": (compaction, "effective", lambda view, ssts: Span()),
    "a key that SSTs of a run share is merged from the first only": (compaction, "in_run", first_only),
    "one key is in two SSTs of a run": (compaction, "parts", cut_anywhere(compaction.parts)),
    "inputs are not pinned": (sys.modules[__name__], "DbCompactor", NoPin),
    "SSTs of the parent stay in its entry": (
        claims, "with_result", result_with(external_dbs=lambda manifest, outputs: manifest.external_dbs)),
    "SSTs that nothing shows stay listed": (
        claims, "with_result", result_with(ssts=lambda manifest, outputs: (*manifest.ssts, *outputs))),
    "the last compacted view is not told": (
        claims, "with_result", result_with(last_compacted_l0_view_id=lambda manifest, outputs: None)),
    "what is over stays listed": (
        claims, "with_one", lambda compactions, one: compactions._replace(recent_compactions=(
            *(other for other in compactions.recent_compactions if other.id != one.id), one))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_every_safeguard_is_needed(name, monkeypatch):
    monkeypatch.setattr(*BROKEN[name])
    with pytest.raises((AssertionError, CannotRead, Malformed, InputMissing)):
        for seed in range(60):
            asyncio.run(judged(Random(seed)))


# --- crashes, lost replies, another compactor, and a collector, at each request of a life

LIFE = Options(scheduler=Tiers(2, 3, 1e9), form=Form(60, block_size=64, min_filter_keys=2))


async def begun() -> Layers:
    return await layers(Random(SEED))


async def life(of: Layers, store=None) -> list[Compaction]:
    compacting = DbCompactor(stores_of(of.world(store), "db"), "db", LIFE)
    await compacting.open()
    done = []
    while job := await compacting.compact_once():
        done.append(job)
    return done


class Named:
    """A store that notes its requests."""

    caches = False

    def __init__(self, store):
        self.store, self.names = store, []

    def __getattr__(self, name):
        async def request(*arguments):
            self.names.append(name)
            return await getattr(self.store, name)(*arguments)

        return request


@cache
def requests(only: str = "") -> list[int]:
    """The numbers of the requests of a life; only those of one kind."""
    async def names() -> list[str]:
        of = await begun()
        named = Named(of.store)
        done = await life(of, named)
        assert [bool(one.spec.l0_view_ids) for one in done] == [True, True, False] and of.manifest.external_dbs
        return named.names

    found = asyncio.run(names())
    return [number for number, name in enumerate(found, 1) if only in ("", name)]


async def case_of_death(at: int, what: str) -> None:
    """A compactor dies after its request number `at`, or does not hear the reply; another one goes on. In every other case a
    collector works in between."""
    of = await begun()
    before, done = await shown(of, of.manifest), []
    try:
        done = await life(of, Interrupted(of.store, at, what))
    except (Died, OutcomeUnknown):  # a lost reply to the first compactions file
        await asyncio.sleep(0) if at % 2 else await collect(of)
    assert len(done) in (0, 3) and (what == "lost" or not done)
    await life(of)
    manifest = await well(of, before)
    assert len(manifest.l0) + len(manifest.compacted) == 1
    if at % 2:  # all files are there: each compaction that was begun was finished, and none was done twice
        files = [(await of.store.get(entry.key)).body for entry in (await of.store.list_page("db/compactions/")).entries]
        seen = {one.id for body in files for one in compactions_slatedb.decode(body).recent_compactions}
        over = {one.id for body in files for one in compactions_slatedb.decode(body).recent_compactions
                if one.status == COMPLETED}
        assert seen == over and len(seen) == 3


def test_it_may_die_at_any_request_and_the_next_one_finishes():
    for at in requests():
        asyncio.run(case_of_death(at, "after"))


def test_any_reply_may_be_lost():
    assert len(requests("create")) > 20
    for at in requests("create"):
        asyncio.run(case_of_death(at, "lost"))


async def case_of_two(at: int) -> bool:
    """Another one opens, and does everything, before request number `at`. Return whether the first one was fenced."""
    of = await begun()
    before = await shown(of, of.manifest)
    first = DbCompactor(stores_of(of.world(Interrupted(of.store, at, "meanwhile", lambda: life(of))), "db"), "db", LIFE)
    fenced = False
    try:
        await first.open()
        while await first.compact_once():
            pass
        await first.compact_once()
    except FencedInDoubt:
        fenced = True
    manifest = await well(of, before)
    assert manifest.compactor_epoch == 2 and len(manifest.l0) + len(manifest.compacted) == 1
    assert fenced or first.epoch == 2
    return fenced


def test_another_one_may_take_over_at_any_request():
    fenced = [asyncio.run(case_of_two(at)) for at in requests()[::3]]
    assert fenced == sorted(fenced) and sum(fenced) > 30


async def case_of_collector(at: int) -> None:
    of = await begun()
    before = await shown(of, of.manifest)
    assert len(await life(of, Interrupted(of.store, at, "meanwhile", lambda: collect(of)))) == 3
    await well(of, before)


def test_a_collector_may_work_at_any_request():
    for at in requests()[::4]:
        asyncio.run(case_of_collector(at))


def test_an_output_older_than_its_compaction_may_be_collected(monkeypatch):
    given = count(1)
    monkeypatch.setattr(compactor, "minted", lambda ids, after: id_of(next(given)))
    with pytest.raises(CannotRead):
        test_a_collector_may_work_at_any_request()


class NotTakenOver(DbCompactor):
    """Does not look at what others have left."""

    def picked(self, manifest):
        self.left = []
        return super().picked(manifest)


def test_a_claim_that_is_not_continued_is_noticed(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "DbCompactor", NotTakenOver)
    with pytest.raises(AssertionError):
        for at in requests()[30::9]:
            asyncio.run(case_of_death(at, "after"))


# --- what others have left

ROWS = [[Row(b"a", i, value=b"%d" % i), Row(b"b%d" % i, i, value=b"%d" % i)] for i in range(1, 6)]
THEIRS = id_of(900)
OLDEST = (id_of(2), id_of(1))


def alone(store) -> World:
    clock = Clock()
    return World(store, clock, clock, Noted())


def left_with(compactions: Sequence[Compaction], **fields) -> tuple[World, DbCompactor]:
    """A database with five SSTs in L0, and a compactions file that somebody has left."""
    store, _ = database(ROWS, recent_snapshot_min_seq=5, **fields)
    body = compactions_slatedb.encode(Compactions(0, tuple(compactions)))
    asyncio.run(store.put(Namespace("db", "compactions").key(1), body))
    world = alone(store)
    return world, DbCompactor(stores_of(world, "db"), "db", Options(scheduler=Tiers(99, 99)))


def all_done(compacting: DbCompactor) -> tuple[list[Compaction], Manifest, list[Compaction]]:
    """Let a compactor work; return what it did, the manifest then, and what is listed."""
    async def work():
        await compacting.open()
        done = []
        while job := await compacting.compact_once():
            done.append(job)
        return done, (await compacting.stores.manifest.current()).value, [
            *(await compacting.stores.compactions.current()).value.recent_compactions]

    return asyncio.run(work())


@pytest.mark.parametrize("status", [SUBMITTED, SCHEDULED, RUNNING, COMPACTED])
def test_what_is_listed_is_finished_whoever_listed_it(status):
    """Outputs that another one names are not taken over: they may be of inputs that were replaced meanwhile."""
    output = SstV1(id_of(901), SstInfo(), None, 2)
    theirs = Compaction(THEIRS, Tiered((), (), OLDEST, b"", 7), status, (output,), Worker("them", 1))
    world, compacting = left_with([Compaction(id_of(800), Tiered(), COMPLETED), theirs])
    done, manifest, listed = all_done(compacting)
    assert [one.id for one in done] == [THEIRS] and [one.id for one in manifest.l0] == [id_of(5), id_of(4), id_of(3)]
    (run_of,) = manifest.compacted
    assert run_of.id == 7 and id_of(901) not in [view.sst_id for view in run_of.views]
    rows = asyncio.run(every_row(world.store, manifest))
    assert [row.seq for row in rows[b"a"]] == [5, 4, 3, 2] and set(rows) == {b"a", b"b1", b"b2", b"b3", b"b4", b"b5"}
    assert [(one.id, one.status) for one in listed] == [(THEIRS, COMPLETED)]
    assert listed[0].worker.worker_id == compacting.worker_id
    assert [one.id for one in listed[0].output_ssts] == [view.sst_id for view in run_of.views]


GONE = Tiered((), (), (id_of(77),), b"", 9)


@pytest.mark.parametrize(("spec", "status", "ends", "says"), [
    (Tiered((), (), (id_of(3), id_of(2)), b"", 9), SUBMITTED, FAILED, "not the oldest of L0"),
    (Tiered((), (), OLDEST[::-1], b"", 9), RUNNING, FAILED, "not the oldest of L0"),
    (Tiered((), (), (*OLDEST, id_of(77)), b"", 9), RUNNING, FAILED, "not the oldest of L0"),
    (Tiered((), (4,), OLDEST, b"", 4), RUNNING, FAILED, "no neighbours below L0"),
    (Tiered((), (6, 1), (), b"", 1), RUNNING, FAILED, "no neighbours among"),
    (Tiered((), (6, 4), (), b"", 6), SCHEDULED, FAILED, "destination 6 is not its oldest run, 4"),
    (Tiered((), (), OLDEST, b"", 6), RUNNING, FAILED, "no new run above 6"),
    (Tiered((), (), (), b"", 6), RUNNING, FAILED, "no inputs"),
    (Tiered((), (), OLDEST, b"p", 9), RUNNING, FAILED, "of a segment"),
    (Drain(b"p", OLDEST), RUNNING, FAILED, "of a segment"),
    (GONE, SUBMITTED, FAILED, "not the oldest of L0"),
    (GONE, COMPACTED, COMPLETED, ""),
    (GONE, RUNNING, COMPLETED, ""),
])
def test_what_the_manifest_does_not_allow_is_over(spec, status, ends, says):
    runs = tuple(Run(i, (View(id_of(90 + i), id_of(5)),)) for i in (6, 4, 1))
    world, compacting = left_with([Compaction(THEIRS, spec, status)], compacted=runs)
    done, manifest, listed = all_done(compacting)
    assert not done and len(manifest.l0) == 5 and manifest.compacted == runs
    assert [(one.id, one.status) for one in listed] == [(THEIRS, ends)]
    assert [says in warning for warning in world.metrics.warnings] == [True] * bool(says)
    assert world.metrics.counted["compactions_failed"] == bool(says)


def test_two_views_with_one_id_are_compacted_together():
    """Unions of releases up to 0.17 have such views (docs/operating/findings.md). What names one of them names both."""
    twice = tuple(View(id_of(7 if i in (1, 4) else i), id_of(i)) for i in (5, 4, 3, 2, 1))
    spec = Tiered((), (), (id_of(7),), b"", 0)
    world, compacting = left_with([Compaction(THEIRS, spec, SUBMITTED)], l0=twice)
    compacting.options = compacting.options._replace(scheduler=Tiers(2, 3))
    done, manifest, _ = all_done(compacting)
    assert "two views of L0 have the id" in world.metrics.warnings[0]
    assert [one.spec.l0_view_ids for one in done] == [(id_of(7), id_of(3), id_of(2), id_of(7))]
    rows = asyncio.run(every_row(world.store, manifest))
    assert [row.seq for row in rows[b"a"]] == [5, 4] and len(rows) == 6  # 5 is in L0, and 4 the newest of the run


def test_a_compaction_is_claimed_before_it_is_merged_and_merged_once():
    """Whoever reads the file sees who works on it. Outputs have at most two rows each here."""
    every = Tiered((), (), tuple(map(id_of, (5, 4, 3, 2, 1))), b"", 0)
    world, compacting = left_with([Compaction(THEIRS, every, RUNNING, worker=Worker("them", 1))])
    compacting.options = compacting.options._replace(form=Form(80))
    real_merge, real_pin, seen = compacting._merge, compacting._pin, []

    async def merge(job) -> None:
        (one,) = (await compacting.stores.compactions.current()).value.recent_compactions
        seen.append((one.status, one.worker.worker_id == compacting.worker_id))
        await real_merge(job)

    async def pin(job) -> None:
        if len(seen) == 1:
            raise Unavailable("once")
        await real_pin(job)

    async def work() -> int:
        compacting._merge, compacting._pin = merge, pin
        await compacting.open()
        with pytest.raises(Unavailable):
            await compacting.compact_once()
        await compacting.compact_once()
        return len((await world.store.list_page("db/compacted/")).entries)

    assert asyncio.run(work()) == 5 + 3 and seen == [(RUNNING, True), (COMPACTED, True)]


def test_a_database_that_gets_segments_later_is_left_alone():
    _, compacting = left_with([])

    async def work() -> None:
        await compacting.open()
        await compacting.stores.manifest.update(lambda _, m: m._replace(segments=(Segment(b"p"),)))
        with pytest.raises(HasSegments):
            await compacting.compact_once()

    asyncio.run(work())


def test_a_run_that_was_replaced_after_it_was_merged_is_not_dropped():
    """No compactor does that. An operator may, who writes a manifest by hand."""
    runs = tuple(Run(i, (View(id_of(90 + i), id_of(i)),)) for i in (2, 1))
    spec = Tiered((), (2, 1), (), b"", 1)
    world, compacting = left_with([Compaction(THEIRS, spec, SUBMITTED)], compacted=runs, l0=())

    async def work() -> None:
        await compacting.open()
        real = compacting._pin

        async def replaced(job) -> None:
            await real(job)
            await stores_of(world, "db").manifest.update(
                lambda _, m: m._replace(compacted=(Run(2, (View(id_of(99), id_of(3)),)), *m.compacted[1:])))

        compacting._pin = replaced
        with pytest.raises(InputMissing, match="replaced since it was merged"):
            await compacting.compact_once()
        assert [run.id for run in (await compacting.stores.manifest.current()).value.compacted] == [2, 1]

    asyncio.run(work())


def test_snapshots_of_a_writer_show_the_same_after_compactions():
    """The writer is ours, and polls the manifest as it goes on."""
    async def work() -> None:
        store = MemoryStore()

        def world() -> World:
            return World(store, SystemClock(), Ulids(), Noted())

        draw, plain, kept = Random(1), {}, []
        db = await Db.open(world(), "db", writer.Options(lambda key, value, operand: (value or b"") + operand, poll_ms=0))
        compacting = DbCompactor(stores_of(world(), "db"), "db", LIFE)
        await compacting.open()
        for number in range(40):
            key = draw.choice(KEYS)
            what = draw.choice((db.put, db.merge, db.delete))
            await what(*((key,) if what == db.delete else (key, b"%d," % number)))
            plain = {**plain, key: (b"" if what == db.put else plain.get(key, b"")) + b"%d," % number}
            if what == db.delete:
                del plain[key]
            if number % 3 == 0:
                await db.flush()
                while await compacting.compact_once():
                    await db.poll()
            if number % 9 == 4:
                kept.append((db.snapshot(), plain))
            if number == 30:
                kept.pop(0)[0].end()
            for one, then in (*kept, (db, plain)):
                assert {key: value async for key, value in one.scan()} == then
        assert len(kept) == 3 and db.manifest.compacted and db.manifest.recent_snapshot_min_seq < db.manifest.last_l0_seq
        await db.close()

    asyncio.run(work())


# --- what is picked

def of_sizes(l0: Sequence[int], runs: Sequence[int]) -> Manifest:
    """A manifest with SSTs of these sizes; the runs have the ids 20, 18, .., the newest first."""
    ssts = [Sst(id_of(i), SstInfo(filter_offset=size), 2) for i, size in enumerate((*l0, *runs), 1)]
    views = [View(sst.id, sst.id) for sst in ssts]
    return Manifest(ssts=tuple(ssts), l0=tuple(views[:len(l0)]),
                    compacted=tuple(Run(20 - 2 * i, (view,)) for i, view in enumerate(views[len(l0):])))


@pytest.mark.parametrize(("l0", "runs", "of_l0", "of_runs", "destination"), [
    ([1, 1, 1], [], (), (), None),
    ([1, 1, 1, 1], [], (1, 2, 3, 4), (), 0),
    ([1] * 10, [100], (3, 4, 5, 6, 7, 8, 9, 10), (), 21),
    ([1, 1, 1, 1], [1, 1, 1, 1], (1, 2, 3, 4), (), 21),  # L0 first
    ([], [1, 1, 1], (), (), None),
    ([], [4, 1, 4, 2, 100], (), (20, 18, 16, 14), 14),
    ([], [4, 1, 5, 2, 100], (), (), None),  # 5 is more than four times the smallest of the newer ones
    ([], [9, 1, 1, 1, 1, 99], (), (20, 18, 16, 14, 12), 12),  # a larger one above is similar
    ([], [1, 2, 900, 901, 902, 903], (), (16, 14, 12, 10), 10),
    ([], [1] * 10, (), (16, 14, 12, 10, 8, 6, 4, 2), 2),  # the oldest of them
    ([1] * 4, [1] * 8, (), (20, 18, 16, 14, 12, 10, 8, 6), 6),  # L0 would be a ninth
    ([1] * 4, [20] + [1] * 7, (1, 2, 3, 4), (), 21),
    ([], [1] * 3 + [12] * 8, (), (14, 12, 10, 8, 6, 4, 2, 0), 0),  # three are too few
    ([], [1] * 4 + [16] * 7, (), (20, 18, 16, 14), 14),
])
def test_what_is_picked(l0, runs, of_l0, of_runs, destination):
    manifest = of_sizes(l0, runs)
    spec = pick(manifest)
    if destination is None:
        assert spec is None
    else:
        assert spec == Tiered((), of_runs, tuple(map(id_of, of_l0)), b"", destination)
        assert not claims.refusal(manifest, Compaction(THEIRS, spec))


def test_no_run_joins_a_tier_that_is_full():
    """Four small runs would become one that is similar to eight below it; those are compacted first."""
    manifest = of_sizes([], [2] * 4 + [16] * 8)
    assert pick(manifest).sorted_runs == (12, 10, 8, 6, 4, 2, 0, -2)
    assert pick(manifest, Tiers(max_compaction_sources=9)).sorted_runs == (20, 18, 16, 14)


@pytest.mark.parametrize(("options", "says"), [
    (Options(scheduler=Tiers(5, 4)), "min_compaction_sources is 5"),
    (Options(scheduler=Tiers(0)), "min_compaction_sources is 0"),
    (Options(scheduler=Tiers(1, 1)), "max_compaction_sources is 1"),
    (Options(scheduler=Tiers(include_size_threshold=0.5)), "include_size_threshold is 0.5"),
    (Options(form=Form(0)), "max_sst_size is 0"), (Options(form=Form(compression_codec=9)), "compression_codec is 9"),
    (Options(pin_ms=-1), "pin_ms is -1"), (Options(poll_interval_ms=-1), "poll_interval_ms -1")])
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        DbCompactor(stores_of(alone(MemoryStore()), "db"), "db", options)


# --- databases that are not compacted, and the process

@pytest.mark.parametrize(("fields", "error"), [
    ({"segments": (Segment(b"p"),)}, HasSegments), ({"initialized": False}, NotInitialized)])
def test_what_it_cannot_compact_is_refused_before_anything_changes(fields, error):
    store, _ = database(ROWS, **fields)
    compacting = DbCompactor(stores_of(alone(store), "db"), "db")
    with pytest.raises(error):
        asyncio.run(compacting.open())
    assert len(asyncio.run(store.list_page("db/manifest/")).entries) == 1


def test_a_compactions_file_of_an_old_release_is_refused_before_anything_changes():
    _, compacting = left_with([Compaction(THEIRS, Tiered((), (), OLDEST), RUNNING)])
    store, key = compacting.world.store, Namespace("db", "compactions").key(1)
    asyncio.run(store.put(key, closed(1, asyncio.run(store.get(key)).body[2:])))
    with pytest.raises(InvalidFile):
        asyncio.run(compacting.open())
    assert len(asyncio.run(store.list_page("db/manifest/")).entries) == 1


def test_a_database_that_is_destroyed_is_left_alone():
    world, compacting = left_with([])

    async def work() -> None:
        manifests = stores_of(world, "db").manifest
        await compacting.open()
        await manifests.update(lambda file_id, m: with_mark(m, Mark(SOFT, 0, 9), manifests.codec, file_id))
        with pytest.raises(FencedInDoubt):
            await compacting.compact_once()
        with pytest.raises(DatabaseDestroyed):
            await DbCompactor(stores_of(world, "db"), "db").open()

    asyncio.run(work())


class Fails:
    """A store whose requests fail between two of them."""

    caches = False

    def __init__(self, store, first: int, last: int):
        self.store, self.first, self.last, self.requests = store, first, last, 0

    def __getattr__(self, name):
        async def request(*arguments):
            self.requests += 1
            if self.first <= self.requests <= self.last:
                raise OutcomeUnknown("no reply") if name == "create" else Unavailable("no answer")
            return await getattr(self.store, name)(*arguments)

        return request


@pytest.mark.parametrize("first", range(1, 60, 6))
def test_the_process_goes_on_when_the_store_fails(first):
    async def case() -> None:
        of = await begun()
        before = await shown(of, of.manifest)
        world = of.world(Fails(of.store, first, first + 120))
        began = of.clock.now
        await run(world, "db", LIFE, most=130)
        manifest = await well(of, before)
        assert len(manifest.l0) + len(manifest.compacted) == 1
        assert of.clock.now - began == 130 * LIFE.poll_interval_ms
        assert world.metrics.counted["compactor_failures"] == len(world.metrics.warnings) > 0
        assert world.metrics.counted["compactions"] >= 1

    asyncio.run(case())


def test_the_process_ends_when_another_one_takes_over():
    async def case() -> None:
        of = await begun()

        async def other() -> None:
            await life(of)

        with pytest.raises(FencedInDoubt):
            await run(of.world(Interrupted(of.store, 30, "meanwhile", other)), "db", LIFE)

    asyncio.run(case())


def test_an_upload_without_a_reply_is_repeated():
    store = MemoryStore()
    assert asyncio.run(uploaded(alone(Interrupted(store, 1, "lost")), "db", id_of(1), b"body")) == id_of(1)
    assert asyncio.run(store.get(key_of_sst("db", id_of(1)))).body == b"body"
    with pytest.raises(OutcomeUnknown, match="100 times over"):
        asyncio.run(uploaded(alone(Fails(store, 1, 100)), "db", id_of(2), b"body"))
