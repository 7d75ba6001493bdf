"""The damage that each depth of `highwater admin check` finds: manifests only, `--deep`, `--full`.

Each row of DAMAGE has a harm, and what each depth finds of it: a kind of damage or danger, a note in brackets, or "" for
nothing.
"""

import asyncio
import json
import time
import tracemalloc
from collections.abc import Callable

import pytest

from highwater.admin import contents
from highwater.admin.check import Depth, Report, examine
from highwater.cli.admin import LINES, READING_EVERY_S
from highwater.cli.console import steps_begun
from highwater.dst.actors import METRICS
from highwater.dst.scenarios.database import end
from highwater.dst.simulate import Run as Seed
from highwater.dst.simulate import simulate
from highwater.gate.exits import SAFETY
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb.flatbuffer import ulid_of
from highwater.impl.codecs.slatedb.tables import (
    EXCLUDED,
    INCLUDED,
    RUNNING,
    Bound,
    Checkpoint,
    Compaction,
    Range,
    Run,
    Sst,
    Tiered,
    View,
    Worker,
)
from highwater.impl.db.build import Built, sst_of, wal_of
from highwater.impl.db.rows import Row
from highwater.impl.db.table import Table
from highwater.impl.layout import Namespace
from highwater.impl.manifests.readable import gaps
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import Ulids, system_world
from highwater.impl.world import Object, World
from tests.admin.test_admin import BUILT, LOG, NIGHT_S, UUIDS, V2, A, B, Bench, C, D, built_of, manifests, ran, sst
from tests.admin.test_admin import bench as bench
from tests.support.database import Stopped
from tests.support.slatedb.damaged import NOW_MS, samples

E = ulid_of(5 << 80)
LATER_S = 4_000_000_000
MANIFESTS, LOGS = Namespace("", "manifest"), Namespace("", "wal")


class StoreOf(MemoryStore):
    """A store with these objects, and the times at which they were put; 0 if none are given."""

    def __init__(self, bodies: dict[str, bytes], times_ms: dict[str, int] | None = None):
        super().__init__(lambda: 0)
        self._objects = {key: Object(body, key, (times_ms or {}).get(key, 0)) for key, body in bodies.items()}
        self._keys = sorted(bodies)


def examined(bench: Bench, depth: Depth) -> Report:
    return asyncio.run(examine(system_world(LocalStore(bench.folder, read_only=True)), "", None, depth))


def kinds(bench: Bench, depth: Depth) -> set[str]:
    """Return the kinds that are found, notes in brackets."""
    return {f"({one.kind})" if one.level == "note" else one.kind for one in examined(bench, depth).findings}


def at(number: int) -> Callable[[Bench], None]:
    """Put a copy of the latest manifest there."""
    return lambda b: b.put(MANIFESTS.key(number), V2.encode(manifests()[8]))


def referred_to(number: int) -> Callable[[Bench], None]:
    """Do so, with a checkpoint of the manifest before."""
    return lambda b: b.manifest(number, manifests()[8]._replace(checkpoints=(Checkpoint(UUIDS[0], 8),)))


def changed(key: str, change: Callable[[bytearray, Table], None]) -> Callable[[Bench], None]:
    def harm(b: Bench) -> None:
        body = bytearray((b.folder / key).read_bytes())
        change(body, Table(key, bytes(body)))
        b.put(key, bytes(body))
    return harm


def flip(where: Callable[[Table], int]) -> Callable[[bytearray, Table], None]:
    def change(body: bytearray, table: Table) -> None:
        body[where(table)] ^= 4
    return change


def zero(body: bytearray, table: Table) -> None:
    start, end = table.place_of(1)
    body[start:end] = bytes(end - start)


def sst_key(name: str) -> str:
    return f"compacted/{name}.sst"


def put_sst(name: str, built: Built) -> Callable[[Bench], None]:
    """Put another SST there, with a manifest that has its description: only the rows can tell."""
    def harm(b: Bench) -> None:
        b.put(sst_key(name), built.body)
        for number in (7, 8):
            value = manifests()[number]
            b.manifest(number, value._replace(ssts=tuple(one._replace(info=built.info) if one.id == name else one
                                                         for one in value.ssts)))
    return harm


def log(number: int, seqs: range) -> Callable[[Bench], None]:
    return lambda b: b.put(LOGS.key(number), wal_of([Row(b"w%d" % seq, seq) for seq in seqs], block_bytes=64).body)


def swapped(b: Bench) -> None:
    log(6, range(13, 16))(b)
    one, other = ((b.folder / LOGS.key(number)).read_bytes() for number in (5, 6))
    b.put(LOGS.key(5), other)
    b.put(LOGS.key(6), one)


def two_in_l0(newest_first: bool, earlier: bool) -> Callable[[Bench], None]:
    """Have two SSTs in L0. `earlier`: the manifest before has one of them."""
    def harm(b: Bench) -> None:
        b.put(sst_key(E), built_of(range(10, 13)).body)
        views = View(E, E), View(D, D)
        if not earlier:
            b.manifest(7, manifests()[7])
        b.manifest(9 if earlier else 8, manifests()[8]._replace(
            l0=views if newest_first else views[::-1], last_l0_seq=12, replay_after_wal_id=5,
            ssts=(sst(C), sst(D), Sst(E, built_of(range(10, 13)).info, 2))))
    return harm


def ids_reversed(newest_first: bool) -> Callable[[Bench], None]:
    """Have two SSTs in L0 in the order of their ids, whose rows say the same, or the reverse."""
    def harm(b: Bench) -> None:
        bodies = built_of(range(7, 10)), built_of(range(10, 13))
        ids = (D, E) if newest_first else (E, D)
        for name, built in zip(ids, bodies):
            b.put(sst_key(name), built.body)
        b.delete("manifest", 7)
        for number in range(1, 7):
            b.delete("manifest", number)
        b.put("gc/manifest.boundary", b"7")
        b.manifest(8, manifests()[8]._replace(
            l0=tuple(View(name, name) for name in ids[::-1]), last_l0_seq=12, replay_after_wal_id=5, checkpoints=(),
            ssts=(sst(C), *(Sst(name, built.info, 2) for name, built in zip(ids, bodies)))))
    return harm


def run_of(*ends: tuple[bytes, int, bytes, int], last_seq: int = 9) -> Callable[[Bench], None]:
    """Have a sorted run, whose SSTs have these first and last rows: key, number, key, number."""
    def harm(b: Bench) -> None:
        ssts = []
        for number, (first, seq, last, last_seq_of) in enumerate(ends, 20):
            built = sst_of([Row(first, seq), *([Row(last, last_seq_of)] if (first, seq) != (last, last_seq_of) else [])])
            ssts.append(Sst(ulid_of(number << 80), built.info, 2))
            b.put(sst_key(ssts[-1].id), built.body)
        b.latest(compacted=(Run(0, tuple(View(one.id, one.id) for one in ssts)),), ssts=(sst(D), *ssts), last_l0_seq=last_seq)
        b.manifest(7, manifests()[7]._replace(last_l0_seq=last_seq))
    return harm


def latest(**changes: object) -> Callable[[Bench], None]:
    return lambda b: b.latest(**changes)


def folder(key: str, within: bool = False) -> Callable[[Bench], None]:
    def harm(b: Bench) -> None:
        path = b.folder / key
        if path.is_file():
            path.unlink()
        path.mkdir(parents=True)
        if within:
            (path / "x").write_bytes(b"x")
    return harm


def beside(one: Callable[[Bench], None], *others: Callable[[Bench], None]) -> Callable[[Bench], None]:
    def harm(b: Bench) -> None:
        for each in (one, *others):
            each(b)
    return harm


def worker(heartbeat_ms: int) -> Callable[[Bench], None]:
    one = Compaction(D, Tiered(l0_view_ids=(B, A)), RUNNING, (), Worker("w", heartbeat_ms))
    return lambda b: b.put(Namespace("", "compactions").key(3), compactions.encode(compactions.Compactions(1, (one,))))


def same(kind: str) -> tuple[str, str, str]:
    return kind, kind, kind


OBJECT, ROWS = ("", "damaged object", "damaged object"), ("", "", "damaged object")
DAMAGE: dict[str, tuple[Callable[[Bench], object], tuple[str, str, str]]] = {
    # ids
    "a gap of one": (at(10), same("gap")),
    "a gap of one behind a checkpoint": (referred_to(10), same("gap")),
    "a gap of a hundred behind a checkpoint": (referred_to(108), same("gap")),
    "a manifest at 2^63": (referred_to(1 << 63), same("number out of reach")),
    "a manifest at 2^64 - 1": (referred_to((1 << 64) - 1), same("gap")),
    "a gap that no collector had the time for": (
        lambda b: ([b.delete("manifest", number) for number in (1, 2, 3, 4, 6, 7)], b.delete("manifest", 8),
                   b.manifest(1 << 40, manifests()[8])), same("gap")),
    "a gap that a collector may have left": (
        lambda b: [b.delete("manifest", number) for number in (1, 2, 3, 4, 6, 7)], same("(unusual gap)")),
    "a compactions file ahead": (lambda b: b.put(Namespace("", "compactions").key(9), compactions.encode(
        compactions.Compactions(1, ()))), same("gap")),
    "a WAL object ahead": (log(1 << 63, range(13, 14)), same("WAL missing")),
    "a WAL object out of reach": (log(1 << 63, range(13, 14)), same("number out of reach")),
    "a boundary of 2^64 - 1": (lambda b: b.put("gc/manifest.boundary", b"%d" % ((1 << 64) - 1)), same("number out of reach")),
    "a boundary as of a destroyed database": (
        lambda b: b.put("gc/manifest.boundary", b"%d" % ((1 << 63) - 1)), same("(destroyed)")),
    "a boundary out of reach for compactors": (
        lambda b: b.put("gc/compactions.boundary", b"%d" % (1 << 63)), same("boundary ahead")),
    "an epoch out of reach": (latest(writer_epoch=(1 << 64) - 1), same("number out of reach")),
    "a last number out of reach": (latest(last_l0_seq=(1 << 64) - 1), same("number out of reach")),
    "a run out of reach": (latest(compacted=(Run((1 << 32) - 1, (View(C, C),)),)), same("number out of reach")),
    # the WAL
    "the last id of the WAL is too large": (latest(wal_id_last_seen=501), same("WAL ends early")),
    "the last id of the WAL is 2^64 - 1": (latest(wal_id_last_seen=(1 << 64) - 1), same("WAL ends early")),
    "WAL objects swapped": (swapped, ("", "WAL out of order", "WAL out of order")),
    "a WAL object twice": (lambda b: b.put(LOGS.key(6), LOG), ("", "WAL out of order", "WAL out of order")),
    "a WAL object is an SST": (lambda b: b.put(LOGS.key(5), built_of(range(7, 10)).body), OBJECT),
    "an old WAL object is damaged": (lambda b: b.put(LOGS.key(2), LOG[:-1]), ("", "", "(damaged object)")),
    "a WAL row is flipped": (changed(LOGS.key(5), flip(lambda table: table.place_of(1)[0] + 6)), ROWS),
    "a WAL object is emptied": (beside(log(6, range(13, 15)), log(7, range(15, 16)), lambda b: b.put(LOGS.key(6), b"")),
                                ("(unusual fences)", "WAL emptied", "WAL emptied")),
    "a WAL object is behind the one to replay": (lambda b: b.put(LOGS.key(3), (b.folder / LOGS.key(5)).read_bytes()),
                                                 ("", "", "WAL not replayed")),
    "last_l0_seq is too high": (latest(last_l0_seq=11), ("", "", "WAL not replayed")),
    "last_l0_seq is far too high": (latest(last_l0_seq=1 << 40), ("", "", "WAL not replayed")),
    "a WAL object begins with rows that are flushed": (log(5, range(8, 13)), ("", "", "")),
    "a number is left out": (log(6, range(14, 16)), ("", "(unusual numbers)", "(unusual numbers)")),
    # folders
    "the latest manifest is a folder": (folder(MANIFESTS.key(8)), same("folder")),
    "the next manifest is a folder": (folder(MANIFESTS.key(9), within=True), same("folder")),
    "a compactions file is a folder": (folder(Namespace("", "compactions").key(4)), same("folder")),
    "a WAL object is a folder": (folder(LOGS.key(6), within=True), same("folder")),
    "an SST is a folder": (folder(sst_key(D)), same("folder")),
    "a boundary is a folder": (folder("gc/manifest.boundary"), same("folder")),
    "a boundary is a folder with an object": (folder("gc/compactions.boundary", within=True), same("folder")),
    # times
    "the clock is ahead": (latest(last_l0_clock_tick=LATER_S * 1000), same("clock ahead")),
    "a worker's clock is ahead": (worker(LATER_S * 1000), same("clock ahead")),
    "a worker's clock is right": (worker(NIGHT_S * 1000), same("")),
    "a checkpoint is made in the future": (
        latest(checkpoints=(Checkpoint(UUIDS[0], 5, 0, LATER_S),)), same("(unusual time)")),
    # order
    "L0 in order": (two_in_l0(True, True), same("")),
    "L0 is reversed": (two_in_l0(False, True), same("L0 out of order")),
    "L0 loses an SST": (beside(two_in_l0(True, True), lambda b: b.manifest(9, manifests()[8]._replace(
        l0=(View(E, E),), last_l0_seq=12, replay_after_wal_id=5, ssts=(sst(C), Sst(E, built_of(range(10, 13)).info, 2))))),
        same("L0 lost")),
    "L0 is compacted to nothing": (lambda b: b.manifest(9, manifests()[8]._replace(
        l0=(), ssts=(sst(C),), last_compacted_l0_view_id=D)), same("")),
    "L0 is reversed, and no manifest tells": (
        two_in_l0(False, False), ("(unusual order)", "L0 out of order", "L0 out of order")),
    "L0 by a clock that was set back": (ids_reversed(False), ("(unusual order)", "", "")),
    "L0 by a right clock": (ids_reversed(True), same("")),
    "runs in the wrong order": (latest(compacted=(Run(0, (View(C, C),)), Run(1, ()))), same("runs out of order")),
    "a run out of order": (run_of((b"m", 1, b"p", 2), (b"a", 3, b"c", 4)), same("run not sorted")),
    "a run that overlaps": (run_of((b"a", 1, b"p", 2), (b"m", 3, b"z", 4)), same("run not sorted")),
    "a run with a shared key": (run_of((b"a", 1, b"k", 9), (b"k", 8, b"k", 8), (b"k", 7, b"z", 4)), same("")),
    "a run with a shared key, versions reversed": (
        run_of((b"a", 1, b"k", 7), (b"k", 8, b"k", 8), (b"k", 9, b"z", 4)),
        ("", "versions out of order", "versions out of order")),
    # SSTs
    "a view outside": (latest(l0=(View(D, D, Range(Bound(b"0", INCLUDED), Bound(b"1", EXCLUDED))),)), same("view outside")),
    "a view with no bounds": (latest(l0=(View(D, D, Range(Bound(None, INCLUDED), Bound(b"1", EXCLUDED))),)),
                              same("view of nothing")),
    "a block is flipped": (changed(sst_key(C), flip(lambda table: table.place_of(2)[0] + 6)), ROWS),
    "a zero page": (changed(sst_key(C), zero), ROWS),
    "an index is flipped": (changed(sst_key(C), flip(lambda table: table.info.index_offset + 6)), OBJECT),
    "a filter is flipped": (changed(sst_key(C), flip(lambda table: table.info.filter_offset + 6)), OBJECT),
    "statistics are flipped": (changed(sst_key(C), flip(lambda table: table.info.stats_offset + 6)), OBJECT),
    "info is flipped": (changed(sst_key(C), flip(lambda table: table.info_offset + 6)), OBJECT),
    "an SST is another one": (lambda b: b.put(sst_key(D), BUILT[C].body), OBJECT),
    "an SST is a WAL object": (
        lambda b: b.put(sst_key(D), wal_of([Row(b"k", seq) for seq in range(10, 40)]).body), OBJECT),
    "an SST of other rows": (put_sst(D, built_of(range(4, 7))), ("", "another SST", "another SST")),
    "an SST of later rows": (put_sst(C, built_of(range(40, 44))), ("", "", "rows ahead")),
    "an unnamed SST is damaged": (
        lambda b: b.put(sst_key(E), LOG[:-1]), ("(unnamed SSTs)", "(unnamed SSTs)", "(damaged object)")),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_each_depth_finds_what_it_reads(bench, what):
    harm, expected = DAMAGE[what]
    harm(bench)
    for depth, kind in zip(Depth, expected):
        found = kinds(bench, depth)
        if kind:
            assert kind in found, (depth, found)
        if not kind or kind.startswith("("):
            assert not [one for one in found if not one.startswith("(")], (depth, found)
        if not kind:
            assert found <= {"(to be collected)", "(unnamed SSTs)"}, (depth, found)


def test_full_check_finds_every_flipped_byte(bench):
    """Each byte of an SST and of a WAL object is covered by a checksum, or compared with what the manifest says."""
    for key in (sst_key(C), LOGS.key(5)):
        body = (bench.folder / key).read_bytes()
        for place in range(0, len(body), 7):
            bench.put(key, body[:place] + bytes([body[place] ^ 0x10]) + body[place + 1:])
            assert "damaged object" in kinds(bench, Depth.BLOCKS), (key, place)
        bench.put(key, body)
    assert kinds(bench, Depth.BLOCKS) == set()


@pytest.mark.parametrize("number", range(6))
def test_right_databases_have_no_finding(number):
    """Databases of each codec, of V1, and with SSTs of format 1: runs, L0, WAL objects behind fences."""
    store = StoreOf(samples()[number].objects)
    report = asyncio.run(examine(World(store, Stopped(NOW_MS), Ulids(), METRICS), "db", None, Depth.BLOCKS))
    assert report.findings == () or {one.level for one in report.findings} == {"note"}, report.findings
    assert not {one.kind for one in report.findings if one.kind.startswith(("unusual", "not read"))}, report.findings
    assert len(report.contents.ssts) > 2 and len(report.contents.wal) > 2
    assert all(content.rows and not content.fault for content in report.contents.by_key.values())


def test_simulated_databases_have_no_finding(monkeypatch):
    """Writers, compactors, collectors, clones and crashes make these. Held requests may leave a stale write."""
    checked = end.check
    reports = []

    def check(actors, root, log, others):
        checked(actors, root, log, others)
        store = StoreOf({key: stored[0].body for key, stored in actors.store.objects.items()},
                        {key: stored[0].last_modified_ms for key, stored in actors.store.objects.items()})
        clock = Stopped(actors.kernel.now_ms + 2 * actors.shape.skew_ms)
        if any(key.startswith(f"{root}/manifest/") for key in store._objects):
            reports.append(asyncio.run(examine(World(store, clock, Ulids(), METRICS), root, None, Depth.BLOCKS)))

    monkeypatch.setattr(end, "check", check)
    for seed in range(20):
        outcome = simulate(Seed(seed, scenario="db"))
        assert not outcome.kind, outcome
    found = {one.kind for report in reports for one in report.findings if one.level != "note"}
    unusual = {one.kind for report in reports for one in report.findings if one.kind.startswith("unusual")}
    assert found <= {"stale write"} and not unusual and sum(len(report.contents.ssts) for report in reports) > 10


def test_second_look_reads_only_damaged_objects(bench, monkeypatch):
    bench.put(sst_key(C), (bench.folder / sst_key(C)).read_bytes()[:-1])
    keys = []

    async def content_of(target, everything):
        keys.append(target.key)
        return await read(target, everything)

    read = contents.content_of
    monkeypatch.setattr(contents, "content_of", content_of)
    assert "damaged object" in kinds(bench, Depth.BLOCKS)
    assert sorted(keys) == sorted([*(sst_key(name) for name in BUILT), LOGS.key(5), sst_key(C)])


def test_progress_names_each_object_that_is_read(bench):
    world, steps = system_world(LocalStore(bench.folder, read_only=True)), []
    asyncio.run(examine(world, "", None, Depth.ENDS, lambda *step: steps.append(step)))
    assert steps == [*((MANIFESTS.key(number), 8) for number in range(1, 9)),
                     *((Namespace("", "compactions").key(number), 3) for number in range(1, 4)),
                     *((sst_key(name), 5) for name in BUILT), (LOGS.key(5), 5)]


def test_lines_of_one_kind_are_bounded(bench):
    many = [ulid_of(number << 80) for number in range(100, 200)]
    bench.latest(ssts=(sst(D), *(Sst(name, sst(D).info, 2) for name in many)),
                 compacted=(Run(0, tuple(View(name, name) for name in many)),))
    output = ran("check", bench.folder).output
    assert output.count("SST missing: manifest") == LINES and "SST missing: and 90 more; --all prints them" in output
    assert ran("check", bench.folder, "--all").output.count("SST missing: manifest") == 100
    assert len(json.loads(ran("check", bench.folder, "--json").stdout)) >= 100


def test_rows_are_never_printed(bench):
    bench.put(sst_key(C), BUILT[D].body)
    for options in (("--full",), ("--full", "--json")):
        result = ran("check", bench.folder, *options)
        assert result.exit_code == SAFETY and "value 7" not in result.output + result.stderr


def test_progress_is_a_line_a_minute_without_a_terminal(capsys, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    with steps_begun("check", READING_EVERY_S) as step:
        for total in (100, 100, 40):  # manifests, compactions files, other objects
            for number in range(total):
                now_s[0] += 3
                step(f"object {number}", total)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == lines[4] == "check: 20 of 100 done, next object 20"
    assert len(lines) == 9 and lines[8] == "check: 20 of 40 done, next object 20"


def test_memory_does_not_grow_with_rows():
    """Objects of 16 MB are read with a few MB of memory beside them."""
    store, rows = StoreOf({}), 16_000
    built = sst_of([Row(b"%08d" % number, number + 1, value=bytes(1000)) for number in range(rows)])
    asyncio.run(store.put(f"compacted/{A}.sst", built.body))
    manifest = Manifest(initialized=True, l0=(View(A, A),), ssts=(Sst(A, built.info, 2),), last_l0_seq=rows)
    asyncio.run(store.put(MANIFESTS.key(1), V2.encode(manifest)))
    world = World(store, Stopped(NOW_MS), Ulids(), METRICS)
    tracemalloc.start()
    report = asyncio.run(examine(world, "", None, Depth.BLOCKS))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.rows for one in report.contents.by_key.values()] == [rows] and peak_bytes < 8 << 20, peak_bytes


def test_gaps_are_runs_of_missing_ids():
    assert gaps([3, 4, 9], 2, 11) == [range(2, 3), range(5, 9), range(10, 12)]
    assert gaps([], 1, 0) == gaps([1, 2], 1, 2) == [] and gaps([1, 1 << 63], 1, 4) == [range(2, 5)]
    assert gaps([5], 1, (1 << 64) - 1) == [range(1, 5), range(6, 1 << 64)]
