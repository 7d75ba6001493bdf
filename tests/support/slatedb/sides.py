"""Two sides that do the same: our code, and a released client. Each has databases of its own in a folder of its own.

A script is a list of steps; a step is a name and its arguments, and each side has a method of that name. Checkpoints are named
by the order in which they were taken.

    write batch                       changes that are durable in the WAL when the step is over
    flush                             they are in L0
    checkpoint lifetime name          of the current manifest, by an operator
    checkpoint_all lifetime name      with all that was written, by the writer
    refresh, delete                   a checkpoint
    clone name checkpoint             of the database, or of a checkpoint of it
    project name start end            the keys of a span; None: no bound
    union name parts                  of databases that were made before; each with its first key and the key after its last
    compact l0 runs                   so many of the oldest views of L0 and of the newest runs, as they are submitted
    reopen                            another writer and another compactor
    collect                           everything that nobody needs: the last step

Some steps are only for the differences that are decided: checkpoint_durable, delete_unknown, flush_nothing, reader,
reopen_again, reopen_unflushed.
"""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from highwater.admin import checkpoints as operator
from highwater.admin import gc_data
from highwater.admin.clone import cloned
from highwater.admin.unite import Part, united
from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.compactions import Compactions
from highwater.impl.codecs.slatedb.tables import COMPLETED, SUBMITTED, Compaction, Tiered
from highwater.impl.db import claims
from highwater.impl.db.compactor import DbCompactor, stores_of
from highwater.impl.db.compactor import Options as CompactorOptions
from highwater.impl.db.db import Db, Options
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.tiers import Tiers
from highwater.impl.manifests.spans import Span
from highwater.impl.protocols import db_reader
from highwater.impl.stores.databases import LocalDatabases
from highwater.impl.stores.system import system_world
from tests.support.slatedb.batches import Batch, joined, ours, theirs
from tests.support.slatedb.client import Client, PeerError, compacting
from tests.support.slatedb.folders import latest

Step = tuple[Any, ...]
NEVER = 100_000  # SSTs until a compactor compacts without being asked
UNKNOWN = "3f522e9a-0000-4000-8000-000000000000"  # the id of no checkpoint
WAIT_S = 20


class Side(Protocol):
    """`root`: the folder of all databases; `taken`: the ids of the checkpoints that the script has taken."""

    root: Path
    taken: list[str]

    def take(self, step: Step) -> None: ...

    def close(self) -> None: ...


def inputs(root: Path, l0: int, runs: int) -> Tiered:
    """Return what a step `compact` submits."""
    manifest = latest(root / "db")
    views = tuple(view.id for view in manifest.l0[len(manifest.l0) - l0:]) if l0 else ()
    merged, ids = tuple(run.id for run in manifest.compacted[:runs]), [run.id for run in manifest.compacted]
    destination = merged[-1] if merged else (ids[0] + 1 if ids else 0)
    return Tiered(l0_view_ids=views, sorted_runs=merged, segment=b"", destination=destination)


def span(start: str | None, end: str | None) -> Span:
    return Span((start or "").encode(), None if end is None else end.encode())


def listed(root: Path, name: str = "db") -> Compactions:
    """Return the latest compactions file of a database; an empty one if there is none."""
    files = sorted((root / name / "compactions").glob("*.compactions"))
    return compactions_slatedb.decode(files[-1].read_bytes()) if files else Compactions()


class Ours:
    """Our writer, compactor, operator and collector."""

    def __init__(self, root: Path, version: int):
        self.root, self.version, self.taken = root, version, list[str]()
        self.world, self.runner = system_world(LocalDatabases()), asyncio.Runner()
        self.db: Db
        self.compactor: DbCompactor
        self.open()

    def take(self, step: Step) -> None:
        name, *words = step
        getattr(self, name)(*words)

    def close(self) -> None:
        self.ran(self.db.close())
        self.runner.close()

    def ran(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def path(self, name: str = "db") -> str:
        return str(self.root / name).lstrip("/")

    def open(self) -> None:
        (self.root / "db").mkdir(parents=True, exist_ok=True)
        options = CompactorOptions(scheduler=Tiers(NEVER, NEVER))
        self.db = self.ran(Db.open(self.world, self.path(), Options(joined, poll_ms=0, manifest_version=self.version)))
        self.compactor = DbCompactor(stores_of(self.world, self.path()), self.path(), options)
        self.ran(self.compactor.open())

    def reopen(self) -> None:
        self.ran(self.db.close())
        self.open()

    reopen_unflushed = reopen_again = reopen

    def write(self, batch: Batch) -> None:
        self.ran(self.db.write(ours(batch)))

    def flush(self) -> None:
        self.ran(self.db.flush())

    flush_nothing = flush

    def checkpoint(self, lifetime_ms: int | None, name: str | None) -> None:
        self.taken.append(self.ran(operator.create(self.world, self.path(), lifetime_ms, None, name)).id)

    def checkpoint_all(self, lifetime_ms: int | None, name: str | None) -> None:
        self.taken.append(self.ran(self.db.checkpoint(lifetime_ms, name)))

    def checkpoint_durable(self, lifetime_ms: int | None, name: str | None) -> None:
        self.taken.append(self.ran(self.db.checkpoint(lifetime_ms, name, durable_only=True)))

    def refresh(self, number: int, lifetime_ms: int | None) -> None:
        self.ran(operator.refresh(self.world, self.path(), self.taken[number], lifetime_ms))

    def delete(self, number: int) -> None:
        self.ran(operator.delete(self.world, self.path(), self.taken[number]))

    def delete_unknown(self) -> None:
        try:
            self.ran(operator.delete(self.world, self.path(), UNKNOWN))
        except Exception:
            pass

    def clone(self, name: str, number: int | None) -> None:
        source = None if number is None else self.taken[number]
        self.ran(cloned(self.world, [self.path(), self.path(name)], source, False, False))

    def project(self, name: str, start: str | None, end: str | None) -> None:
        self.ran(united(self.world, self.path(name), [Part(self.path(), span(start, end))], (), False, False))

    def union(self, name: str, *parts: tuple[str, str | None, str | None]) -> None:
        made = [Part(self.path(part), span(start, end)) for part, start, end in parts]
        self.ran(united(self.world, self.path(name), made, (), False, False))

    def compact(self, l0: int, runs: int) -> None:
        spec = inputs(self.root, l0, runs)

        async def go() -> None:
            job = Compaction(self.world.ids.new_id(), spec, SUBMITTED)
            await self.compactor.stores.compactions.update_recognised(
                lambda c: claims.listed(c, job.id) is not None, lambda _, c: claims.with_one(c, job))
            done = await self.compactor.compact_once()
            assert done and done.id == job.id
            await self.db.poll()

        self.ran(go())

    def reader(self) -> None:
        """Open a reader, and leave its checkpoint to its lease."""
        reader = DbReader(stores_of(self.world, self.path()).manifest, self.path(), db_reader.Options(60_000, 600_000))
        self.ran(reader.open())

    def collect(self) -> None:
        names = sorted(one.name for one in self.root.iterdir() if (one / "manifest").exists())
        for name in names:
            self.ran(gc_data.collected(self.world, self.path(name), 0))


class Theirs:
    """A released client. Unless other settings are given, its compactor does what is submitted, and nothing else."""

    def __init__(self, root: Path, client: Client, release: str, settings: dict[str, Any] | None = None):
        """`settings`: of the writer and its compactor, in place of those with which it waits for what is submitted."""
        self.root, self.client, self.release, self.taken = root, client, release, list[str]()
        self.settings = settings or {"compactor_options.scheduler_options": dict.fromkeys(
            ("min_compaction_sources", "max_compaction_sources"), str(NEVER))}
        self.root.mkdir(parents=True, exist_ok=True)
        self.open()

    def take(self, step: Step) -> None:
        name, *words = step
        getattr(self, name)(*words)

    def close(self) -> None:
        self.client.close()

    def path(self, name: str = "db") -> str:
        return str(self.root / name).lstrip("/")

    def open(self) -> None:
        before = latest(self.root / "db").compactor_epoch if (self.root / "db" / "manifest").exists() else 0
        self.client.open(path=self.path(), settings=compacting(self.release) | self.settings, merging=True)
        until(lambda: latest(self.root / "db").compactor_epoch == before + 1)
        until(lambda: listed(self.root).compactor_epoch == before + 1)

    def reopen(self) -> None:
        self.client.close()
        self.open()

    reopen_unflushed = reopen_again = reopen

    def write(self, batch: Batch) -> None:
        self.client.write(batch=theirs(batch), durable=False)
        self.client.flush(kind="WAL")

    def flush(self) -> None:
        self.client.flush()

    flush_nothing = flush

    def checkpoint(self, lifetime_ms: int | None, name: str | None) -> None:
        self.taken.append(self.client.checkpoint(path=self.path(), lifetime_ms=lifetime_ms, name=name)["id"])

    def checkpoint_all(self, lifetime_ms: int | None, name: str | None) -> None:
        """The binding of Python has no checkpoints of a writer: flush, and take one of the current manifest."""
        self.flush()
        self.checkpoint(lifetime_ms, name)

    checkpoint_durable = checkpoint

    def refresh(self, number: int, lifetime_ms: int | None) -> None:
        self.client.refresh(path=self.path(), id=self.taken[number], lifetime_ms=lifetime_ms)

    def delete(self, number: int) -> None:
        self.client.delete_checkpoint(path=self.path(), id=self.taken[number])

    def delete_unknown(self) -> None:
        try:
            self.client.delete_checkpoint(path=self.path(), id=UNKNOWN)
        except PeerError:
            pass

    def clone(self, name: str, number: int | None) -> None:
        source = [] if number is None else [self.taken[number]]
        self.client.clone(path=self.path(name), sources=[[self.path(), None, None, *source]])

    def project(self, name: str, start: str | None, end: str | None) -> None:
        self.client.clone(path=self.path(name), sources=[[self.path(), start, end]])

    def union(self, name: str, *parts: tuple[str, str | None, str | None]) -> None:
        self.client.clone(path=self.path(name), sources=[[self.path(part), start, end] for part, start, end in parts])

    def compact(self, l0: int, runs: int) -> None:
        spec, before = inputs(self.root, l0, runs), {one.id for one in listed(self.root).recent_compactions}
        self.client.submit(path=self.path(), l0=spec.l0_view_ids, runs=spec.sorted_runs, destination=spec.destination)
        until(lambda: any(one.status == COMPLETED and one.id not in before for one in listed(self.root).recent_compactions))

    def reader(self) -> None:
        """Open a reader, and leave its checkpoint to its lease."""
        self.client.begin_reader(path=self.path(), lifetime_ms=600_000)

    def collect(self) -> None:
        time.sleep(0.01)  # what is as old as the clock's tick is too young
        names = sorted(one.name for one in self.root.iterdir() if (one / "manifest").exists())
        for name in names:
            self.client.collect(path=self.path(name), fences=False)


def until(holds: Any) -> None:
    end_s = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end_s, "it does not come"
        time.sleep(0.01)
