"""`highwater admin` shows a database, reports damage, and changes nothing unless asked."""

import asyncio
import errno
import json
import os
import signal
from collections.abc import Iterable

import pytest
from typer.testing import CliRunner

from highwater.admin import check as admin_check
from highwater.admin.database import load
from highwater.cli.main import app
from highwater.gate.exits import BAD_INPUT, INTERRUPTED, SAFETY
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb import compactions
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields, ulid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import (
    COMPLETED,
    EXCLUDED,
    INCLUDED,
    Bound,
    Checkpoint,
    Compaction,
    ExternalDb,
    Range,
    Run,
    Segment,
    Sst,
    Tiered,
    View,
)
from highwater.impl.db.build import Built, sst_of, wal_of
from highwater.impl.db.rows import Row
from highwater.impl.errors import Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.stores.databases import LocalDatabases
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.read_only import ReadOnly
from highwater.impl.stores.system import open_database, open_store, system_world
from highwater.impl.world import Page
from tests.support.signals import deliver

pytest_plugins = ["tests.support.stores.fixtures"]
V1, V2 = ManifestCodec(Phase.WRITE_V1), ManifestCodec(Phase.WRITE_V2)
A, B, C, D = (ulid_of(number << 80) for number in (1, 2, 3, 4))
UUIDS = tuple(f"01740ee5-6459-44af-9a45-85deb6e468e{digit}" for digit in "345")
NIGHT_S = 1_795_304_338
SEQS = {A: range(1, 4), B: range(4, 7), C: range(1, 7), D: range(7, 10)}  # C is of A and B


def rows_of(seqs: Iterable[int]) -> list[Row]:
    """Return rows with the keys "a" to "z" for these numbers."""
    seqs = [*seqs]
    keys = [b"a", *(b"k%03d" % seq for seq in seqs[1:-1]), b"z"][:len(seqs)]
    rows = [Row(key, seq, value=b"value %d " % seq * 5) for key, seq in zip(keys, seqs)]
    return sorted(rows, key=lambda row: (row.key, -row.seq))


def built_of(seqs: Iterable[int]) -> Built:
    return sst_of(rows_of(seqs), block_bytes=64, least_filtered=1)


BUILT = {name: built_of(seqs) for name, seqs in SEQS.items()}
LOG = wal_of([Row(b"w%d" % seq, seq, value=bytes(30)) for seq in range(10, 13)], block_bytes=64).body  # WAL object 5
WHOLE = BUILT[D].body


def sst(name: str) -> Sst:
    return Sst(name, BUILT[name].info, 2)


def of_run(*ends: tuple[bytes, bytes | None]) -> dict[str, object]:
    """The fields of a manifest with one run, of SSTs with these first and last keys."""
    names = (A, B, C, D)[:len(ends)]
    infos = (BUILT[name].info._replace(first_entry=first, last_entry=last) for name, (first, last) in zip(names, ends))
    return {"l0": (), "ssts": tuple(Sst(name, info, 2) for name, info in zip(names, infos)),
            "compacted": (Run(0, tuple(View(name, name) for name in names)),)}


def manifests() -> dict[int, Manifest]:
    """Create, two openings, two flushes, a checkpoint, a compaction, a flush."""
    one = Manifest(initialized=True)
    two = one._replace(writer_epoch=1, wal_id_last_seen=1)
    three = two._replace(compactor_epoch=1)
    four = three._replace(l0=(View(A, A),), ssts=(sst(A),), replay_after_wal_id=2, wal_id_last_seen=2, last_l0_seq=3)
    five = four._replace(l0=(View(B, B), View(A, A)), ssts=(sst(A), sst(B)), replay_after_wal_id=3, wal_id_last_seen=3,
                         last_l0_seq=6)
    six = five._replace(checkpoints=(Checkpoint(UUIDS[0], 5, 0, NIGHT_S, name="nightly"),))
    seven = six._replace(l0=(), ssts=(sst(C),), compacted=(Run(0, (View(C, C),)),), last_compacted_l0_view_id=B)
    eight = seven._replace(l0=(View(D, D),), ssts=(sst(C), sst(D)), replay_after_wal_id=4, wal_id_last_seen=5, last_l0_seq=9)
    return dict(enumerate((one, two, three, four, five, six, seven, eight), 1))


class Bench:
    """A database in a folder, to be damaged: files are written as they are, at a second each."""

    def __init__(self, folder):
        self.folder = folder
        self.clock_s = NIGHT_S

    def put(self, key: str, body: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self.clock_s += 1
        os.utime(path, (self.clock_s, self.clock_s))

    def manifest(self, file_id: int, value: Manifest, codec: ManifestCodec = V2) -> None:
        self.put(Namespace("", "manifest").key(file_id), codec.encode(value))

    def delete(self, name: str, file_id: int) -> None:
        (self.folder / Namespace("", name).key(file_id)).unlink()

    def latest(self, **changes: object) -> None:
        self.manifest(8, manifests()[8]._replace(**changes))

    def files(self) -> dict:
        return {str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
                for path in sorted(self.folder.rglob("*"))}


@pytest.fixture
def bench(tmp_path) -> Bench:
    bench = Bench(tmp_path / "db")
    for file_id, manifest in manifests().items():
        bench.manifest(file_id, manifest)
    compaction = Compaction(D, Tiered(l0_view_ids=(B, A)), COMPLETED)
    for file_id, recent in enumerate(((), (), (compaction,)), 1):
        bench.put(Namespace("", "compactions").key(file_id), compactions.encode(compactions.Compactions(1, recent)))
    for wal_id in (4, 5):
        bench.put(Namespace("", "wal").key(wal_id), b"" if wal_id == 4 else LOG)
    for name, built in BUILT.items():
        bench.put(f"compacted/{name}.sst", built.body)
    return bench


def ran(*arguments: object):
    return CliRunner().invoke(app, ["admin", *map(str, arguments)])


def found(bench: Bench, *options: object) -> list[tuple[str, str]]:
    result = ran("check", bench.folder, "--json", *options)
    assert result.exit_code in (0, SAFETY), result.output
    findings = [(one["level"], one["kind"]) for one in json.loads(result.stdout)]
    assert (result.exit_code == SAFETY) == any(level != "note" for level, _ in findings)
    return findings


# ------------------------------------------------------------------------------------------------------------- check

def test_a_healthy_database(bench):
    assert found(bench) == []
    names = "ok: nothing is wrong in what was read (read 8 manifests, 3 compactions files and the boundaries"
    assert ran("check", bench.folder).output.strip() == f"{names}; of 4 SSTs and 2 WAL objects only names and sizes)"
    assert ran("check", bench.folder, "--deep").output.strip() == (
        f"{names}, and the ends of 4 SSTs and 1 WAL objects; most blocks were not read)")
    size = sum(len(built.body) for built in BUILT.values()) + len(LOG)
    assert ran("check", bench.folder, "--full").output.strip() == (
        f"{names}, and 4 SSTs and 1 WAL objects whole: 18 blocks, 18 rows, {size:,} bytes)")


def test_a_pin_that_nobody_needs(bench):
    """A checkpoint still shows A and B, the latest manifest C and D."""
    pin = (Checkpoint(UUIDS[0], 5), Checkpoint(UUIDS[1], 5))
    for needed in (A, D):
        bench.latest(checkpoints=pin, external_dbs=(own_parent(bench, needed),))
        assert found(bench) == []
    bench.latest(checkpoints=pin, external_dbs=(own_parent(bench, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),))
    assert found(bench) == [("note", "pin not needed")]
    assert UUIDS[1] in ran("check", bench.folder).output.replace("\n", "")


def test_a_collected_database(bench):
    for file_id in (1, 2, 3, 4, 6, 7):
        bench.delete("manifest", file_id)
    bench.put("gc/manifest.boundary", b"7")
    assert found(bench) == []


LEFT, RIGHT = (Range(Bound(start, INCLUDED), Bound(end, EXCLUDED)) for start, end in ((b"a", b"m"), (b"m", b"z")))
CLONE = ExternalDb("somewhere/else", UUIDS[1], UUIDS[2], (C,))


def own_parent(bench: Bench, *ssts: str) -> ExternalDb:
    """Return an entry that says that SSTs are another database's, which is this one: so they are there."""
    return ExternalDb(str(bench.folder).lstrip("/"), UUIDS[2], UUIDS[1], ssts or (D,))


def another_parent(bench: Bench) -> ExternalDb:
    """Return an entry of a parent in the folder `parent`, which has the SST D."""
    bench.put(f"parent/compacted/{D}.sst", WHOLE)
    return ExternalDb(f"{bench.folder}/parent".lstrip("/"), UUIDS[2], UUIDS[1], (D,))



@pytest.mark.parametrize("ends", [
    ((b"a", b"k"), (b"k", b"m")), ((b"a", b"k"), (b"k", b"k"), (b"k", b"k"), (b"k", b"m")),
    ((b"a", None), (b"k", None), (b"k", b"m"))])
def test_a_key_in_neighbours_of_a_run_is_no_fault(bench, ends):
    bench.latest(**of_run(*ends))
    assert [one for one in found(bench) if one[0] != "note"] == []


DAMAGE = {
    "a manifest is missing": (lambda b: b.delete("manifest", 3), ("damage", "gap")),
    "one is missing behind a boundary": (lambda b: (b.delete("manifest", 6), b.put("gc/manifest.boundary", b"4")),
                                         ("damage", "gap")),
    "a compactions file is missing": (lambda b: b.delete("compactions", 2), ("damage", "gap")),
    "the latest is cut off": (lambda b: b.put(Namespace("", "manifest").key(8), V2.encode(manifests()[8])[:90]),
                              ("damage", "unreadable file")),
    "the latest is of a version that nobody knows": (
        lambda b: b.put(Namespace("", "manifest").key(9), b"\0\3" + V2.encode(manifests()[8])[2:]),
        ("damage", "unreadable file")),
    "a compactions file is overwritten": (lambda b: b.put(Namespace("", "compactions").key(3), b"\0\2<html>"),
                                          ("damage", "unreadable file")),
    "the boundary is at the latest": (lambda b: b.put("gc/manifest.boundary", b"8"), ("danger", "boundary ahead")),
    "the boundary is no number": (lambda b: b.put("gc/compactions.boundary", b"-1"), ("danger", "invalid boundary")),
    "a name without zeros": (lambda b: b.put("manifest/99.manifest", b"x"), ("danger", "foreign file")),
    "a stale writer's file": (lambda b: (b.delete("manifest", 2), b.put("gc/manifest.boundary", b"4"),
                                         b.manifest(2, manifests()[2])), ("danger", "stale write")),
    "a checkpoint twice": (lambda b: b.latest(checkpoints=(Checkpoint(UUIDS[0], 4), Checkpoint(UUIDS[0], 7))),
                           ("damage", "checkpoint twice")),
    "a checkpoint without its manifest": (lambda b: b.latest(checkpoints=(Checkpoint(UUIDS[0], 77),)),
                                          ("damage", "checkpoint lost")),
    "an SST is missing": (lambda b: (b.folder / f"compacted/{D}.sst").unlink(), ("damage", "SST missing")),
    "an SST is empty": (lambda b: b.put(f"compacted/{D}.sst", b""), ("damage", "SST missing")),
    "an SST of a checkpoint is missing": (lambda b: (b.folder / f"compacted/{A}.sst").unlink(), ("damage", "SST missing")),
    "two views with one id": (lambda b: b.latest(l0=(View(D, D, LEFT), View(D, D, RIGHT))), ("danger", "view twice")),
    "a view of nothing": (lambda b: b.latest(ssts=(sst(D),)), ("damage", "view of nothing")),
    "SSTs of a run in another order": (lambda b: b.latest(**of_run((b"k", b"m"), (b"a", b"c"))), ("damage", "run not sorted")),
    "SSTs of a run with several common keys": (lambda b: b.latest(**of_run((b"a", b"k"), (b"j", b"m"))),
                                               ("damage", "run not sorted")),
    "a key that more than neighbours have": (lambda b: b.latest(**of_run((b"a", b"k"), (b"k", b"m"), (b"k", b"z"))),
                                             ("damage", "run not sorted")),
    "SSTs of a run of a segment": (lambda b: b.latest(ssts=(sst(C), sst(D)), l0=(), compacted=(), segments=(
        Segment(b"s", compacted=(Run(0, (View(C, C), View(D, D))),)),)), ("damage", "run not sorted")),
    "SSTs of a run that a checkpoint keeps": (
        lambda b: b.manifest(5, manifests()[5]._replace(last_compacted_l0_view_id=A, **of_run((b"b", b"c"), (b"a", b"c")))),
        ("damage", "run not sorted")),
    "runs in another order": (lambda b: b.latest(l0=(), compacted=(Run(0, (View(C, C),)), Run(1, (View(D, D),)))),
                              ("damage", "runs out of order")),
    "a range of no kind": (lambda b: b.latest(l0=(View(D, D, Range(Bound(b"a", 0), RIGHT[1])),)),
                           ("damage", "view of nothing")),
    "a writer that was fenced": (lambda b: b.latest(writer_epoch=0), ("damage", "history goes back")),
    "a WAL file is missing": (lambda b: b.delete("wal", 5), ("damage", "WAL ends early")),
    "a WAL file before others is missing": (
        lambda b: b.put(Namespace("", "wal").key(7), wal_of([Row(b"w", 13)]).body), ("damage", "WAL missing")),
    "a clone that was not finished": (lambda b: b.latest(initialized=False), ("danger", "not initialized")),
    "a clone without a pin": (lambda b: b.latest(external_dbs=(CLONE,)), ("danger", "clone not pinned")),
    "a clone whose pin is not named": (lambda b: b.latest(external_dbs=(CLONE._replace(final_checkpoint_id=None),)),
                                       ("danger", "clone not pinned")),
    "a clone whose pins differ": (lambda b: b.latest(
        checkpoints=(Checkpoint(UUIDS[0], 5), Checkpoint(UUIDS[1], 7)),
        external_dbs=(ExternalDb(str(b.folder).lstrip("/"), UUIDS[0], UUIDS[1]),)), ("danger", "pins differ")),
    "a clone that no try can finish": (lambda b: b.latest(
        initialized=False, external_dbs=(own_parent(b),)), ("danger", "clone stuck")),
    "a clone whose pin has expired": (lambda b: b.latest(
        checkpoints=(Checkpoint(UUIDS[1], 8, NIGHT_S),), external_dbs=(own_parent(b),)), ("danger", "clone not pinned")),
    "a clone whose parent is damaged": (lambda b: (
        b.put(f"parent/{Namespace('', 'manifest').key(1)}", b"\0\2"), b.latest(external_dbs=(another_parent(b),))),
        ("danger", "parent unreadable")),
    "a clone whose parent has a foreign file": (lambda b: (
        b.put("parent/manifest/99.manifest", b""), b.latest(external_dbs=(another_parent(b),))),
        ("danger", "parent unreadable")),
    "half deleted": (lambda b: b.put(".deleting", b""), ("danger", "being deleted")),
    "an SST is cut off": (lambda b: b.put(f"compacted/{D}.sst", WHOLE[:90]), ("damage", "cut short")),
    "a name that is not UTF-8": (lambda b: (b.folder / os.fsdecode(b"manifest/\xff.manifest")).write_bytes(b"x"),
                                 ("danger", "foreign file")),
    "a folder of locks among the manifests": (lambda b: (b.folder / "manifest/.highwater").mkdir(), ("danger", "foreign file")),
    "a link to nothing": (lambda b: (b.folder / Namespace("", "manifest").key(9)).symlink_to("nowhere"),
                          ("danger", "dangling link")),
    "no manifest at all": (lambda b: [b.delete("manifest", file_id) for file_id in manifests()], ("damage", "no manifest")),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_told_and_nothing_is_changed(bench, what):
    harm, expected = DAMAGE[what]
    harm(bench)
    before = bench.files()
    assert expected in found(bench)
    for verb in ("check", "inspect", "history"):
        assert ran(verb, bench.folder).exit_code in (0, SAFETY)
    for options in ((), ("--data",), ("--dry-run",), ("--data", "--dry-run")):
        result = ran("gc", bench.folder, "--min-age-s", "0", *options)
        assert result.exit_code == SAFETY and "has faults" in result.stderr and not result.stdout, result.output
    assert bench.files() == before


@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_nothing_else_is_told(bench, what):
    """Each kind of damage is called by its name, and by another only where it is a consequence."""
    harm, (_, kind) = DAMAGE[what]
    harm(bench)
    consequences = {"SST missing"} if kind == "clone not pinned" and "expired" not in what else set()
    assert {other for level, other in found(bench) if level != "note"} == {kind} | consequences


@pytest.mark.parametrize("harm", [
    lambda b: b.put(Namespace("", "compactions").key(3), b"\0\2"), lambda b: b.put("gc/compactions.boundary", b"x"),
    lambda b: b.put("gc/compactions.boundary", b"3")], ids=["unreadable", "invalid boundary", "boundary ahead"])
def test_what_stops_only_compactors_is_told_so(bench, harm):
    """tests/interop/test_interop.py asks SlateDB 0.17.0: readers, and writers without a compactor, open these."""
    harm(bench)
    text = ran("check", bench.folder).output
    assert "compactor" in text and "no client" not in text and "every client" not in text


def test_a_wal_in_another_store(bench, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (bench.folder / "wal").rename(tmp_path / "elsewhere/wal")
    assert found(bench) == [("damage", "WAL missing")] and "--wal-url" in ran("check", bench.folder).output
    bench.manifest(8, manifests()[8]._replace(wal_object_store_uri="s3://wal", last_compacted_l0_sst_id=B), V1)
    assert found(bench) == [("note", "WAL elsewhere")]
    bench.latest()
    wal_url = "--wal-url", tmp_path / "elsewhere"
    assert found(bench, *wal_url) == found(bench, *wal_url, "--deep") == []
    assert ran("gc", bench.folder, *wal_url).exit_code == 0 and ran("gc", bench.folder).exit_code == SAFETY
    (tmp_path / "elsewhere" / Namespace("", "wal").key(5)).unlink()
    assert found(bench, *wal_url) == [("damage", "WAL ends early")]
    assert ran("check", bench.folder, "--wal-url", tmp_path / "no").exit_code == BAD_INPUT


CUTS = {"a byte less": lambda body: body[:-1], "half of it": lambda body: body[:len(body) // 2], "a byte": lambda body: b"x",
        "other": lambda body: body[:-20] + bytes([body[-20] ^ 1]) + body[-19:], "more": lambda body: body + bytes(100)}


@pytest.mark.parametrize("key", [Namespace("", "wal").key(5), f"compacted/{D}.sst"], ids=["WAL", "SST"])
@pytest.mark.parametrize("cut", CUTS)
def test_ends_are_checked_if_asked(bench, key, cut):
    assert found(bench, "--deep") == []
    bench.put(key, CUTS[cut]((bench.folder / key).read_bytes()))
    for option in ("--deep", "--full"):
        assert ("damage", "damaged object") in found(bench, option)
        assert set(found(bench, option)) <= {("damage", "damaged object"), ("damage", "cut short")}


def test_what_is_only_seen_once_is_not_told(bench, monkeypatch):
    """A live database: an SST that a compaction had just replaced is missing in the first look only."""
    (bench.folder / f"compacted/{D}.sst").unlink()
    looks = []

    async def loaded(*given):
        looks.append(given)
        if len(looks) == 2:
            bench.put(f"compacted/{D}.sst", WHOLE)
        return await load(*given)

    monkeypatch.setattr(admin_check, "load", loaded)
    assert found(bench) == [] and len(looks) == 2


class Collected(LocalStore):
    """A store of which a collector deletes one file between its listing and its read."""

    def __init__(self, folder, key: str):
        super().__init__(folder)
        self.key = key

    async def list_page(self, prefix: str, after: str = "") -> Page:
        page = await super().list_page(prefix, after)
        if self.key.startswith(prefix):
            await self.delete(self.key)
        return page


@pytest.mark.parametrize("folder, name", [("manifest", "manifests"), ("compactions", "compactions")])
def test_a_file_that_is_collected_while_it_is_read_is_left_out(bench, folder, name):
    before = asyncio.run(load(system_world(LocalStore(bench.folder)), ""))
    during = asyncio.run(load(system_world(Collected(bench.folder, Namespace("", folder).key(1))), ""))
    assert getattr(during, name) == getattr(before, name)[1:]


@pytest.mark.parametrize("key", [f"compacted/{A}.sst", Namespace("", "wal").key(5)])
def test_the_end_of_a_file_that_is_collected_meanwhile_is_not_checked(bench, key):
    found = asyncio.run(admin_check.look(system_world(Collected(bench.folder, key)), "", None, admin_check.Depth.BLOCKS))
    assert not [one for one in found.findings if one.kind in ("cut short", "damaged object")]


def test_a_parent_whose_manifest_is_collected_meanwhile_has_none(bench):
    latest = Namespace("", "manifest").key(8)
    for store, has in ((LocalStore(bench.folder), True), (Collected(bench.folder, latest), False)):
        assert bool(asyncio.run(admin_check.parent_at(system_world(store), "")).latest) == has


def test_notes_are_no_damage(bench):
    bench.put("gc/manifest.boundary", b"4")
    bench.put(f"compacted/{ulid_of(9)}.sst", b"sst")
    assert {kind for _, kind in found(bench)} == {"to be collected", "unnamed SSTs"}


# ----------------------------------------------------------------------------------------------- inspect and history

def test_the_json_has_everything(bench):
    shown = json.loads(ran("inspect", bench.folder, "--json").stdout)
    latest = shown["manifests"][-1]
    assert (latest["id"], latest["version"], latest["value"]["writer_epoch"]) == (8, 2, 1)
    assert set(latest["value"]) == set(Manifest._fields)
    assert latest["value"]["checkpoints"][0]["name"] == "nightly" and latest["value"]["ssts"][0]["info"]["last_entry"] == "z"
    assert shown["compactions"][-1]["value"]["recent_compactions"][0]["spec"]["is"] == "Tiered"
    assert [one["id"] for one in shown["wal"]] == [4, 5] and shown["ssts"] == [A, B, C, D]


@pytest.mark.parametrize("words", [("inspect",), ("inspect", "--json"), ("history",), ("gc",), ("gc", "--dry-run"),
                                   ("gc", "--data")], ids=" ".join)
def test_where_nothing_is_there_is_no_database(tmp_path, words):
    result = ran(words[0], tmp_path, *words[1:])
    assert result.exit_code == 2 and "there is no database here" in result.output and list(tmp_path.iterdir()) == []


def test_the_tree_names_everything(bench):
    shown = ran("inspect", bench.folder).output
    for said in ("manifest: 1 to 8, 8 files V2; boundary: none", "writer_epoch: 1", "checkpoints: 1", "name nightly",
                 "expire_time_s never", f"id {D}, sst_id {D}", "compactions: 1 to 3", "status: completed", "spec: Tiered(",
                 "WAL: 4 to 5, 2 files, 1 of them fences ([4])", "compacted: 4 SSTs"):
        assert said in shown, shown


def test_the_history_names_who(bench):
    steps = json.loads(ran("history", bench.folder, "--json").stdout)
    assert [step["role"] for step in steps] == ["created", "writer opens", "compactor opens", "writer", "writer",
                                                "admin, reader or clone", "compactor", "writer"]
    assert ["l0 added", D] in steps[-1]["changes"] and ["last_l0_seq", "6 -> 9"] in steps[-1]["changes"]
    assert "compactor opens" in ran("history", bench.folder).output


def test_the_history_names_what_cannot_be_said(bench):
    bench.delete("manifest", 3)
    bench.put(Namespace("", "manifest").key(6), b"\0\2")
    bench.manifest(8, manifests()[8]._replace(last_compacted_l0_sst_id=B), V1)
    steps = {step["after"]: step for step in json.loads(ran("history", bench.folder, "--json").stdout)}
    assert steps[4]["role"] == "?" and steps[4]["changes"][0] == ["between", "1 manifests are not there"]
    assert steps[6]["changes"][0][0] == "unreadable" and steps[7]["changes"][0][0] == "unreadable"
    assert ["format", "V2 -> V1"] in steps[8]["changes"] and steps[8]["role"] == "writer"


# ---------------------------------------------------------------------------------------------------------------- gc

def test_what_a_dry_run_says_is_done(bench):
    rows = ran("gc", bench.folder, "--dry-run", "--min-age-s", "0").output
    for said in ("gc/manifest.boundary │ advanced to 7", "005.manifest │ kept │ a checkpoint refers to it",
                 "008.manifest │ kept │ the latest", "001.manifest │ deleted"):
        assert " ".join(said.split()) in " ".join(rows.split()), rows
    result = ran("gc", bench.folder, "--min-age-s", "0")
    assert result.exit_code == 0, result.output
    assert [path.name[18:20] for path in sorted((bench.folder / "manifest").iterdir())] == ["05", "08"]
    assert (bench.folder / "gc/manifest.boundary").read_bytes() == b"7"
    assert (bench.folder / "gc/compactions.boundary").read_bytes() == b"2"
    assert found(bench) == []


def collected_data(bench, *options: str) -> list[str]:
    result = ran("gc", bench.folder, "--data", "--json", "--min-age-s", "0", *options)
    assert result.exit_code == 0, result.output
    return [one["file"] for one in json.loads(result.stdout) if one["what"] == "deleted"]


@pytest.mark.parametrize("checkpoint", [True, False], ids=["of a checkpoint", "of nobody"])
def test_data_that_nothing_names_is_collected(bench, checkpoint):
    for wal_id in (2, 3):
        bench.put(Namespace("", "wal").key(wal_id), b"" if wal_id == 3 else LOG)
    if not checkpoint:
        bench.latest(checkpoints=())
    garbage = [] if checkpoint else [f"compacted/{A}.sst", f"compacted/{B}.sst"]
    before = bench.files()
    planned = collected_data(bench, "--dry-run")
    assert bench.files() == before
    assert [file for file in planned if file.startswith(("wal", "compacted"))] == [Namespace("", "wal").key(2), *garbage]
    assert collected_data(bench) == planned and not any((bench.folder / file).exists() for file in planned)
    assert (bench.folder / Namespace("", "wal").key(3)).exists()  # a fence
    assert found(bench) == [] and collected_data(bench, "--dry-run") == []


def test_data_of_a_database_with_faults_is_not_collected(bench):
    bench.put("gc/manifest.boundary", b"8")
    before = bench.files()
    result = ran("gc", bench.folder, "--data", "--min-age-s", "0")
    assert result.exit_code == SAFETY and "boundary ahead" in result.output and bench.files() == before


def test_there_is_no_data_to_collect(tmp_path):
    assert ran("gc", tmp_path, "--data", "--dry-run").exit_code == BAD_INPUT


@pytest.mark.parametrize("codec", [V1, V2], ids=["V1", "V2"])
def test_expired_checkpoints_are_removed_before_the_collection(bench, codec):
    """In the version of the latest manifest: an old release reads no other."""
    expired = Checkpoint(UUIDS[1], 4, NIGHT_S, NIGHT_S - 60)
    ours = (*manifests()[8].checkpoints, expired)
    bench.manifest(8, manifests()[8]._replace(checkpoints=ours, last_compacted_l0_sst_id=B), codec)
    before = bench.files()
    rows = " ".join(ran("gc", bench.folder, "--dry-run", "--min-age-s", "0").output.split())
    for said in (f"009.manifest │ created │ without checkpoint {UUIDS[1]} of manifest 4", "advanced to 8",
                 "004.manifest │ deleted", "008.manifest │ deleted", "005.manifest │ kept │ a checkpoint refers to it"):
        assert said in rows, rows
    assert bench.files() == before
    result = ran("gc", bench.folder, "--min-age-s", "0")
    assert result.exit_code == 0 and "009.manifest │ created" in " ".join(result.output.split()), result.output
    assert [path.name[18:20] for path in sorted((bench.folder / "manifest").iterdir())] == ["05", "09"]
    latest = (bench.folder / Namespace("", "manifest").key(9)).read_bytes()
    assert latest[1] == (1 if codec is V1 else 2) and V2.decode(latest).checkpoints == manifests()[8].checkpoints
    assert found(bench) == []


def test_expired_checkpoints_that_cannot_be_removed_keep_their_manifests(bench, monkeypatch):
    """In a manifest with fields of a newer release, which would be lost."""
    bench.latest(checkpoints=(Checkpoint(UUIDS[1], 4, NIGHT_S, NIGHT_S - 60),))

    def newer(self, manifest):
        raise NewerFields("manifest", ("ManifestV2 slot 99",))

    monkeypatch.setattr(ManifestCodec, "encode", newer)
    for words in (("--dry-run",), ()):
        result = ran("gc", bench.folder, *words, "--min-age-s", "0")
        assert result.exit_code == 0 and "its expired checkpoints stay" in " ".join(result.output.split()), result.output
    assert [path.name[18:20] for path in sorted((bench.folder / "manifest").iterdir())] == ["04", "08"]


def test_nothing_is_collected_where_something_is_wrong(bench):
    bench.put("manifest/99.manifest", b"x")
    before = bench.files()
    result = ran("gc", bench.folder, "--min-age-s", "0")
    assert result.exit_code == SAFETY and "foreign file" in result.stderr and bench.files() == before


# -------------------------------------------------------------------------------------------------------------- URLs

@pytest.mark.parametrize("url, says", [("memory://", "accepted are"), ("gs://bucket", "accepted are"),
                                       ("file://db", "accepted are"), ("", "accepted are"),
                                       ("s3://", "accepted are file"), ("s3:///x", "accepted are file"),
                                       ("/there/is/no/such", "there is no folder")])
def test_what_is_no_database(url, says):
    for verb in ("inspect", "history", "check", "gc"):
        result = ran(verb, url)
        assert result.exit_code == BAD_INPUT and says in result.stderr


def test_a_folder_without_a_database(tmp_path):
    result = ran("check", tmp_path.as_uri())
    assert result.exit_code == SAFETY and "no manifest" in result.output and list(tmp_path.iterdir()) == []


def test_a_store_that_is_open_for_reading(bench, tmp_path):
    async def go():
        for store in (LocalStore(bench.folder, read_only=True), ReadOnly(LocalStore(tmp_path))):
            for ask in (store.create("k", b""), store.update("k", b"", "v"), store.put("k", b""), store.delete("k")):
                with pytest.raises(Unavailable, match="for reading only"):
                    await ask

    asyncio.run(go())
    store, root = open_database(bench.folder.as_uri())
    assert asyncio.run(load(system_world(store), root)).latest == manifests()[8]
    assert not (bench.folder / ".highwater").exists()


def test_a_database_in_a_bucket(bench, moto_stores, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_stores.url)
    url = f"s3://{moto_stores.bucket}"

    async def copy():
        store = open_store(url)
        for path in sorted(bench.folder.rglob("*")):
            if path.is_file():
                await store.put(f"some/db/{path.relative_to(bench.folder)}", path.read_bytes())

    asyncio.run(copy())
    for options in ((), ("--deep",), ("--full",)):
        assert ran("check", f"{url}/some/db", *options).output.startswith("ok: nothing is wrong in what was read")
    assert "writer_epoch: 1" in ran("inspect", f"{url}/some/db").output
    result = ran("gc", f"{url}/some/db", "--min-age-s", "0")
    assert result.exit_code == 0, result.output
    assert "to be collected" not in ran("check", f"{url}/some/db").output
    assert ran("check", f"{url}/some").exit_code == SAFETY


def test_a_folder_that_cannot_be_read(bench, monkeypatch):
    def closed(*_):
        raise PermissionError(errno.EACCES, "Permission denied", "/db")

    monkeypatch.setattr(LocalStore, "strays", closed)
    result = ran("check", bench.folder)
    assert result.exit_code == BAD_INPUT and "Permission denied: /db" in result.stderr


def test_what_is_refused_is_one_line(tmp_path):
    result = ran("check", tmp_path / "a\nb\x1b[31m")
    assert result.exit_code == BAD_INPUT and len(result.stderr.splitlines()) == 1 and "\x1b" not in result.stderr


@pytest.mark.parametrize("words, store, says", [
    (("check",), LocalStore, "stopped"), (("checkpoint", "create"), LocalDatabases, "may be applied, now or later")])
def test_ctrl_c(bench, monkeypatch, words, store, says, ctrl_c):
    async def list_page(self, prefix, after=""):
        deliver(signal.SIGINT)
        await asyncio.sleep(30)

    monkeypatch.setattr(store, "list_page", list_page)
    result = ran(*words, bench.folder)
    assert result.exit_code == INTERRUPTED and says in result.stderr and len(result.stderr.splitlines()) == 1, result.output
