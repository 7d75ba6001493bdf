"""Databases that released clients write with many versions of a key in small SSTs; both sides read the same of each.

The databases have keys with more versions than an SST holds, merges beside deletes, snapshots held over flushes and
compactions, SSTs down to 1 KiB, compactions of a killed client, which another one resumes, checkpoints, clones, projections
and unions. Each read is compared with what the writes have made one by one: scans of spans and point reads, of the latest
state, of held snapshots and of checkpoints, by our code and by the release. Our compactor works on a copy, and `admin check`
finds no fault.

    HIGHWATER_DRAWN=500 .venv/bin/python -m pytest -m interop tests/interop/test_interop_runs.py -s

draws five hundred databases for each release, and prints how many had a key in several SSTs of a run. HIGHWATER_DRAWN_FROM=42
begins at database 42. Five databases share a client, so that one is worked on while another one's compactor works.
"""

import asyncio
import os
import shutil
import time
from asyncio import Runner
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from highwater.admin.check import judge
from highwater.admin.clone import cloned
from highwater.admin.unite import Part, united
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import RUNNING, Compaction
from highwater.impl.db.compaction import Form
from highwater.impl.db.compactor import DbCompactor, Options, stores_of
from highwater.impl.db.reader import Reader, opened
from highwater.impl.db.tiers import Tiers
from highwater.impl.manifests.spans import Span, in_run
from highwater.impl.stores.databases import LocalDatabases
from highwater.impl.stores.system import system_world
from highwater.impl.world import World
from tests.interop.test_interop import HAS_CHECKPOINTS
from tests.support.slatedb.batches import Batch, joined, theirs
from tests.support.slatedb.client import Client, PeerError, client, compacting
from tests.support.slatedb.folders import latest
from tests.support.slatedb.releases import NEWEST, RELEASES, NotInstalled
from tests.support.slatedb.sides import Theirs, listed, until

pytestmark = pytest.mark.interop
DRAWN, FROM = int(os.environ.get("HIGHWATER_DRAWN", 20)), int(os.environ.get("HIGHWATER_DRAWN_FROM", 0))
KEYS = "aKmz"
NUMBER = "n"  # a key that each batch puts: the number of its row is that of the batch
SPANS = ((None, None), ("K", "m"), (None, "K"), ("L", None), ("a", "n"))
UNIONS = ([(None, "K"), ("K", None)], [("a", "n"), ("K", "a")], [("K", "L"), ("L", "m"), ("m", None)])
READ_ONE_SST = RELEASES[:3]  # without slatedb#1490: they look for a key in one SST of a run, and may show an old version
WRITE_SHARED = RELEASES[3:]  # with it: they go on with a key in the next SST of a run
CLONE, PROJECT = RELEASES[1:], RELEASES[2:]
READ_PARENTS = RELEASES[2:]  # by a DbReader; earlier ones look for each SST in the database's own folder, but writers do not
SCAN_SPANS = RELEASES[1:]  # scans of 0.13.1 show all keys of a run's SSTs, also those that a projection does not have
TOGETHER, POLL = 5, "150ms"  # databases of one client
LEAST = 2  # SSTs of L0, or runs, that are compacted
LONGEST_S = 3.0  # that a compaction takes; then none is due
LONGEST_KILL_S = 3.0  # until a client is killed that has no compaction half done

State = dict[str, str]
Spans = list[tuple[str | None, str | None]]


class Held(NamedTuple):
    """A snapshot of theirs: its place in the client, the number of its batch, and what it shows."""

    place: int
    seq: int
    rows: State


def settings_of(release: str, most_bytes: int) -> dict[str, object]:
    """Return the settings of a writer whose compactor polls about as often as its database is written to, and tells of each SST
    that it has written."""
    options = "compactor_options" if release == "0.13.1" else "compactor_options.worker"
    return dict.fromkeys(compacting(release), POLL) | {
        f"{options}.max_sst_size": most_bytes, "compactor_options.worker_heartbeat_timeout": "1s", "l0_max_ssts": 1000,
        "compactor_options.scheduler_options": {"min_compaction_sources": str(LEAST), "max_compaction_sources": "8"},
    } | ({} if release != NEWEST else {"l0_max_ssts_per_key": 1000}) | {f"{options}.{name}": value for name, value in {
        "0.13.1": {}, "0.14.1": {"heartbeat_bytes": 1, "heartbeat_min_interval": "10ms"}}.get(
        release, {"heartbeat_interval": "25ms"}).items()}


def applied(batch: Batch, state: State) -> State:
    """Return what a database shows after a batch."""
    after = dict(state)
    for what, key, *value in theirs(batch):
        if what == "delete":
            after.pop(key, None)
        else:
            after[key] = after.get(key, "") * (what == "merge") + value[0]
    return after


def shared_keys(manifest: Manifest) -> set[str]:
    """Return the keys that several SSTs of a run may have."""
    ssts = {sst.id: sst for sst in manifest.ssts}
    return {after.start.decode() for run in manifest.compacted
            for (_, before), (_, after) in pairwise(in_run(run.id, run.views, ssts)) if before.end == after.start + b"\0"}


def outputs(compaction: Compaction) -> set[str]:
    """Return the SSTs that a compaction has written; from 0.14.1 on, those of a running one are in its parts."""
    parts = compaction.context.subcompactions if compaction.context else ()
    return {sst.id for ssts in (compaction.output_ssts, *(part.output_ssts for part in parts)) for sst in ssts}


def spanned(state: State, start: str | None, end: str | None) -> State:
    return {key: value for key, value in state.items() if (start or "") <= key and (end is None or key < end)}


class Life:
    """One database of a release, and all that is known of it."""

    def __init__(self, root: Path, release: str, random: Random, ran: Runner):
        self.root, self.release, self.random, self.ran = root, release, random, ran.run
        self.world: World = system_world(LocalDatabases())
        self.settings = settings_of(release, random.choice((1024, 1024, 1024, 8192)))
        self.hot = random.choice(KEYS)  # most writes are to this key
        self.state: State = {}
        self.held: list[Held] = []
        self.checkpoints: dict[str, State] = {}
        self.half_done: list[Compaction] = []
        self.batches = self.parts = 0
        self.counts: Counter[str] = Counter()

    # --- what is done

    def open(self, peer: Client) -> None:
        """Work with this client from here on."""
        self.peer, self.side, self.held = peer, Theirs(self.root, peer.at(str(self.root)), self.release, self.settings), []
        self.write()
        if self.random.random() < 0.7:
            self.hold()

    def live(self) -> None:
        """Do one thing."""
        self.random.choices((self.write, self.hold, self.drop, self.checked, self.derive), (9, 2, 1, 1, 1))[0]()

    def close(self) -> None:
        """Check all reads, and what our compactor and our checks make of it."""
        self.checked()
        self.side.close()
        faults = [one for one in self.ran(judge(self.world, self.side.path(), deep=True)) if one.level != "note"]
        assert not faults, faults
        self.counts["compactions resumed"] += sum(map(self.resumed, self.half_done))
        self.ran(self.compacted_here())

    def running(self) -> list[Compaction]:
        """Return the compactions that have written some of their SSTs."""
        return [one for one in listed(self.root).recent_compactions if one.status == RUNNING and outputs(one)]

    def resumed(self, before: Compaction) -> bool:
        """Return whether another client has gone on with the SSTs of a killed one: a manifest has them."""
        bodies = (path.read_bytes() for path in (self.root / "db" / "manifest").glob("*.manifest"))
        wanted = outputs(before)
        return any(wanted <= {sst.id for sst in ManifestCodec().decode(body).ssts} for body in bodies)

    def write(self) -> None:
        """Write to a few keys, over and over, and flush."""
        random = self.random
        for _ in range(random.choice((1, 4, 8))):
            self.batches += 1
            batch: Batch = [["put", NUMBER, str(self.batches)]]
            for one in sorted({random.choice((self.hot, *KEYS)), random.choice((self.hot, *KEYS))}):
                text = f"{self.batches} " * random.choice((1, 100, 100))
                batch.append([random.choice(("put", "put", "merge", "merge")), one, text] if random.random() < 0.85
                             else ["delete", one])
            self.side.write(batch)
            self.state = applied(batch, self.state)
        if random.random() < 0.9:
            self.side.flush()

    def fill(self) -> None:
        """Make a compaction due that writes many SSTs: they end with a block, which has 4 KiB."""
        for _ in range(LEAST):
            self.batches += 1
            batch: Batch = [["put", NUMBER, str(self.batches)], *(["put", f"f{key:02}", "2 " * 1000] for key in range(24))]
            self.side.write(batch)
            self.state = applied(batch, self.state)
            self.side.flush()

    def hold(self) -> None:
        if not self.batches:
            return
        try:
            place = self.side.client.hold()
        except PeerError as error:
            assert "AttributeError" in str(error), error  # the binding of this release has no snapshots
            self.counts["no snapshots"] += 1
            return
        seq = next(row[2] for row in self.side.client.rows() if row[0] == NUMBER)
        self.held.append(Held(place, seq, self.state))
        self.counts["snapshots"] += 1

    def drop(self) -> None:
        if self.held:
            self.side.client.drop(place=self.held.pop(0).place)

    def derive(self) -> None:
        """Make a clone, a projection or a union by both sides, or by ours if the release makes none."""
        if not self.batches or self.random.random() < 0.5:
            return
        self.side.flush()
        kind = self.random.choice(("clone", "project", "union"))
        spans = {"clone": [(None, None)], "project": [self.random.choice(SPANS[1:])],
                 "union": self.random.choice(UNIONS)}[kind]
        self.parts += 1
        shared = shared_keys(latest(self.root / "db"))
        for name in (f"ours{self.parts}", *[f"theirs{self.parts}"] * (self.release in (CLONE if kind == "clone" else PROJECT))):
            path, source = self.side.path(name), self.side.path()
            if name.startswith("theirs"):
                try:
                    self.derive_theirs(name, spans)
                except PeerError as error:
                    assert shared and "Range must be non-empty" in str(error), error  # it cuts [K..K] down to nothing
                    self.counts["projections that the release cannot make"] += 1
                    return
            elif kind == "clone":
                self.ran(cloned(self.world, [source, path], None, False, False))
            else:
                parts = [Part(source, Span((start or "").encode(), end and end.encode())) for start, end in spans]
                self.ran(united(self.world, path, parts, (), False, False))
            wanted = self.derived(spans)
            if name.startswith("theirs") and kind != "clone":
                wanted = self.cut(name, shared | shared_keys(latest(self.root / "db")), wanted)
            self.ran(self.same_here(wanted, name))
            self.same_beside(name, spans, wanted)
            self.counts[f"{name.rstrip('0123456789')}: {kind}"] += 1

    def derived(self, spans: Spans) -> State:
        return {key: value for start, end in spans for key, value in spanned(self.state, start, end).items()}

    def derive_theirs(self, name: str, spans: Spans) -> None:
        """Its union takes a source once only, so it is one of projections."""
        if len(spans) == 1:
            self.side.project(name, *spans[0])
            return
        parts = [(f"{name}part{place}", *one) for place, one in enumerate(spans)]
        for part in parts:
            self.side.project(*part)
        self.side.union(name, *parts)

    def cut(self, name: str, shared: set[str], wanted: State) -> State:
        """Return what a projection or a union of theirs shows. It shows a key that two SSTs share only in the second one, so it
        loses the newest versions of the key (docs/operating/findings.md)."""
        found = self.side.client.read(path=self.side.path(name), merging=True)
        self.counts["keys that the release cuts"] += sum(found.get(key) != wanted.get(key) for key in shared)
        return {key: value for key, value in wanted.items() if key not in shared} | {
            key: value for key, value in found.items() if key in shared}

    def same_beside(self, name: str, spans: Spans, wanted: State) -> None:
        """Compare what the release reads of a database beside this one."""
        if self.release in READ_PARENTS:
            self.same_theirs(self.side.client.read(path=self.side.path(name), merging=True), wanted, (name, spans))
            return
        writer = self.peer.at(f"{self.root} {name}")
        writer.open(path=self.side.path(name), merging=True)
        if self.release in SCAN_SPANS or spans == [(None, None)]:
            self.same_theirs(writer.all(), wanted, (name, spans))
        self.same_points(writer, None, wanted, (name, spans))
        writer.close()

    def compacted(self) -> bool:
        """Return whether no compaction is due."""
        manifest, file = latest(self.root / "db"), listed(self.root)
        return len(manifest.l0) < LEAST and not any(one.status == RUNNING for one in file.recent_compactions)

    # --- what is read

    def checked(self) -> None:
        """Wait for a compaction, and compare all reads."""
        if not self.batches:
            return
        end_s = time.monotonic() + LONGEST_S
        while not self.compacted() and time.monotonic() < end_s:
            time.sleep(0.02)
        self.side.flush()
        if self.random.random() < 0.5 and self.release in HAS_CHECKPOINTS:
            self.side.checkpoint(None, None)
            self.checkpoints[self.side.taken[-1]] = self.state
        self.counts["keys in several SSTs of a run"] += len(shared_keys(latest(self.root / "db")))
        self.ran(self.same_here(self.state))
        for one in self.held:
            self.ran(self.same_here(one.rows, seq=one.seq))
        for checkpoint, rows in self.checkpoints.items():
            self.ran(self.same_here(rows, checkpoint=checkpoint))
            found = self.side.client.read(path=self.side.path(), checkpoint=checkpoint, merging=True)
            self.same_theirs(found, rows, checkpoint)
        for place, rows in ((None, self.state), *((one.place, one.rows) for one in self.held)):
            for start, end in SPANS:
                self.same_theirs(self.side.client.scanned(start=start, end=end, place=place), spanned(rows, start, end), place)
            self.same_points(self.side.client, place, rows, place)
        self.counts["states compared"] += 1 + len(self.held) + len(self.checkpoints)

    async def same_here(self, wanted: State, name: str = "db", checkpoint: str | None = None, seq: int | None = None) -> None:
        """Compare what our reader shows: scans of spans, and point reads."""
        reader = Reader(self.world.store, await opened(self.world.store, self.side.path(name), checkpoint))
        for start, end in SPANS:
            span = Span((start or "").encode(), end and end.encode())
            found = {one.key.decode(): one.merged(joined).decode() async for one in reader.scan(span, 0, seq)}
            assert found == spanned(wanted, start, end), (name, checkpoint, seq, span, found, wanted)
        for key in (*KEYS, "x"):
            one = await reader.get(key.encode(), 0, seq)
            assert (one and one.merged(joined).decode()) == wanted.get(key), (name, checkpoint, seq, key)

    def same_points(self, client: Client, place: int | None, wanted: State, what: object) -> None:
        found = zip((*KEYS, "x"), client.got(keys=[*KEYS, "x"], place=place), strict=True)
        self.same_theirs({key: value for key, value in found if value is not None},
                         {key: value for key, value in wanted.items() if key in KEYS}, what)

    def same_theirs(self, found: State, wanted: State, what: object) -> None:
        """Compare what a read of theirs shows. A release that looks into one SST of a run may show an old version."""
        wrong = {key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)}
        stale = {key for path in sorted(self.root.iterdir()) for key in shared_keys(latest(path))} \
            if wrong and self.release in READ_ONE_SST else set()
        self.counts["stale reads by the release"] += len(wrong & stale)
        assert not wrong - stale, (what, {key: (found.get(key), wanted.get(key)) for key in wrong})

    async def compacted_here(self) -> None:
        """Let our compactor compact a copy, until there is nothing to do."""
        shutil.copytree(self.root / "db", self.root / "copy")
        options = Options(scheduler=Tiers(1, 2, 1e9), form=Form(self.random.choice((500, 1 << 20)), min_filter_keys=2))
        compactor = DbCompactor(stores_of(self.world, self.side.path("copy")), self.side.path("copy"), options)
        await compactor.open()
        while done := await compactor.compact_once():
            manifest = latest(self.root / "copy")
            made = tuple(run for run in manifest.compacted if run.id == done.spec.destination)
            assert not shared_keys(manifest._replace(compacted=made)), "a release without slatedb#1490 cannot read this"
            await self.same_here(self.state, "copy")
            self.counts["our compactions"] += 1


def lives(release: str, root: Path, numbers: range, runner: Runner) -> Iterator[Counter[str]]:
    """Work on these databases by turns with two clients, of which the first is killed."""
    group = [Life(root / str(number), release, Random(f"{release} {number}"), runner) for number in numbers]
    for last in (False, True):
        with client(release) as peer:
            each(group, lambda life: life.open(peer))
            for _ in range(14):
                each(group, Life.live)
            if last:
                each(group, Life.close)
            else:
                each(group, Life.fill)
                killed(peer, group)
    for life in group:
        shutil.rmtree(life.root)
        yield life.counts


def each(group: list[Life], do: Callable[[Life], None]) -> None:
    for life in group:
        try:
            do(life)
        except (AssertionError, PeerError) as error:
            raise AssertionError(f"HIGHWATER_DRAWN=1 HIGHWATER_DRAWN_FROM={life.root.name}: {error}") from error


def killed(peer: Client, group: list[Life]) -> None:
    """Kill a client in the middle of a compaction, if it has one."""
    end_s = time.monotonic() + LONGEST_KILL_S
    while True:
        peer.pause()
        if any(life.running() for life in group) or time.monotonic() > end_s:
            break
        peer.resume()
        time.sleep(0.002)
    peer.kill()
    for life in group:
        life.half_done = life.running()


@pytest.mark.parametrize("release", RELEASES)
def test_both_read_the_same_of_a_drawn_database(release, tmp_path):
    began_s, counts, databases = time.monotonic(), Counter[str](), Counter[str]()
    try:
        with Runner() as runner:
            for first in range(FROM, FROM + DRAWN, TOGETHER):
                for one in lives(release, tmp_path, range(first, min(first + TOGETHER, FROM + DRAWN)), runner):
                    counts += one
                    databases += Counter(name for name, number in one.items() if number)
    except NotInstalled as error:
        pytest.skip(str(error))
    print(f"\n{release}: {DRAWN} databases in {time.monotonic() - began_s:.1f} s; {dict(counts)}; "
          f"databases with: {dict(databases)}")
    assert DRAWN < TOGETHER or counts["compactions resumed"], "no client was killed in the middle of a compaction"
    if release in WRITE_SHARED:
        assert databases["keys in several SSTs of a run"] >= DRAWN // 4, "the drawn databases have lost what they are for"


@pytest.mark.parametrize("versions", (20, 40))
def test_finding_a_projection_loses_versions_of_a_shared_key(versions, tmp_path):
    """A key has versions in several SSTs of a run, since snapshots keep them. The newest one is in the first of these SSTs. A
    projection of 0.17.0 ends the view of each SST before the first key of the next one, and fails if that empties a view."""
    try:
        with client(NEWEST) as peer:
            side = Theirs(tmp_path, peer, NEWEST, settings_of(NEWEST, 1024))
            side.write([["put", "A", "0"], ["put", "z", "0"]])
            side.flush()
            for number in range(versions):
                side.write([["put", "K", f"{number} " * 150]])
                peer.hold()
            side.flush()
            until(lambda: not latest(tmp_path / "db").l0)
            assert shared_keys(latest(tmp_path / "db")) == {"K"}
            world, wanted = system_world(LocalDatabases()), peer.all()["K"]
            asyncio.run(united(world, side.path("ours"), [Part(side.path(), Span(b"B"))], (), False, False))
            assert peer.read(path=side.path("ours"))["K"] == wanted == f"{versions - 1} " * 150
            if versions == 20:
                side.project("theirs", "B", None)
                assert peer.read(path=side.path("theirs")).get("K") != wanted
            else:
                with pytest.raises(PeerError, match="Range must be non-empty"):
                    side.project("theirs", "B", None)
    except NotInstalled as error:
        pytest.skip(str(error))
