"""Safety: what a manifest shows is defined once, as the versions that a reader finds of each key, in its order.

Keys are 0, 1, .. KEYS - 1. An SST is an interval of keys with one version of each; the version is named by the owner and
the number of the SST. A key with more versions than an SST takes is in several SSTs of a run, as their first or last key. So
this module says what is read, and nothing of how a function on manifests works.
"""

from collections.abc import Iterable
from typing import NamedTuple

Version = tuple[str, int]  # the database that owns its SST, and the SST's number; of a row in the log: the database, and -1


class Sst(NamedTuple):
    """The object: it has the keys from `first` on and before `end`. A manifest may not know its last key."""

    number: int
    first: int
    end: int
    last_is_known: bool = True


class View(NamedTuple):
    """The keys of an SST from `start` on and before `end` are visible, as far as the SST has them."""

    id: int
    sst: Sst
    start: int
    end: int


class Run(NamedTuple):
    id: int
    views: tuple[View, ...]


class Pin(NamedTuple):
    """An external database: SSTs of a database `owner`, kept there by a checkpoint `final` of manifest `manifest`."""

    owner: str
    manifest: int
    source: str  # the checkpoint that the final one is made from
    final: str
    ssts: frozenset[int]


class Manifest(NamedTuple):
    l0: tuple[View, ...] = ()  # the newest first
    runs: tuple[Run, ...] = ()  # the newest first
    pins: tuple[Pin, ...] = ()
    log: frozenset[int] = frozenset()  # the keys of rows that are in the write-ahead log only
    last_seq: int = 0

    @property
    def views(self) -> tuple[View, ...]:
        return self.l0 + tuple(view for run in self.runs for view in run.views)


class Database(NamedTuple):
    path: str
    manifest: Manifest


Objects = dict[Version, Sst]  # the store


def physical(sst: Sst, keys: int) -> tuple[int, int]:
    """Return what a manifest knows of an SST's keys."""
    return sst.first, sst.end if sst.last_is_known else keys


def effective(view: View, keys: int) -> tuple[int, int]:
    """Return the span of a view; its start is its end or greater if it shows nothing."""
    first, end = physical(view.sst, keys)
    return max(first, view.start), min(end, view.end)


def owner_of(database: Database, sst: int) -> str:
    """Return where a reader looks for an SST: released clients have one path for each number, and the last one wins."""
    return next((pin.owner for pin in reversed(database.manifest.pins) if sst in pin.ssts), database.path)


def found(database: Database, view: View, key: int, keys: int, objects: Objects) -> list[Version]:
    start, end = effective(view, keys)
    version = owner_of(database, view.sst.number), view.sst.number
    sst = objects[version]
    return [version] if start <= key < end and sst.first <= key < sst.end else []


def in_run(database: Database, run: Run, key: int, keys: int, objects: Objects) -> list[Version]:
    """Look up a key as a reader does: in the views that start at the key or before it, from the last one on that starts before
    it. Views may share a key, which is the last of the one and the first of the next; the newest version is in the first."""
    starts = [effective(view, keys)[0] for view in run.views]
    first = max((place for place, start in enumerate(starts) if start < key), default=0)
    return [version for view, start in zip(run.views[first:], starts[first:]) if start <= key
            for version in found(database, view, key, keys, objects)]


def versions(database: Database, key: int, keys: int, objects: Objects) -> tuple[Version, ...]:
    """Return what a reader finds of a key, the newest first."""
    manifest = database.manifest
    logged = [(database.path, -1)] if key in manifest.log else []
    l0 = [version for view in manifest.l0 for version in found(database, view, key, keys, objects)]
    return (*logged, *l0, *(version for run in manifest.runs for version in in_run(database, run, key, keys, objects)))


def rows(database: Database, keys: int, objects: Objects) -> tuple[tuple[Version, ...], ...]:
    """Return the versions of every key."""
    return tuple(versions(database, key, keys, objects) for key in range(keys))


class Job(NamedTuple):
    """A compaction. It names its inputs by their ids: the oldest views of L0, and the newest runs."""

    views: tuple[int, ...]
    runs: tuple[int, ...]


def compacted(database: Database, job: Job, keys: int, objects: Objects, planned: Database | None = None) -> tuple:
    """Return the versions of every key after a compaction, as released clients do one: an id stands for the last view or
    run that has it, and the manifest loses all that have the id. No version is dropped for being old.

    `planned` is the database in which the job found its inputs, if the manifest has changed since. A job whose inputs are
    not in the manifest any more is not applied.
    """
    now, then = database.manifest, (planned or database).manifest
    if not {*job.views} <= {view.id for view in now.l0} or not {*job.runs} <= {run.id for run in now.runs}:
        return rows(database, keys, objects)
    views, runs = ({one.id: one for one in those} for those in (then.l0, then.runs))
    newer = now._replace(l0=tuple(view for view in now.l0 if view.id not in job.views), runs=())
    merged = Manifest(named(views, job.views), named(runs, job.runs), now.pins)
    older = Manifest(runs=tuple(run for run in now.runs if run.id not in job.runs), pins=now.pins)
    parts = [rows(database._replace(manifest=part), keys, objects) for part in (newer, merged, older)]
    return tuple(tuple(version for part in parts for version in part[key]) for key in range(keys))


def named(known: dict, ids: Iterable[int]) -> tuple:
    return tuple(known[one] for one in dict.fromkeys(ids))
