"""Says what a check of a database finds, and what it looks at."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from highwater.admin.database import Database, File
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Run, Sst, View
from highwater.impl.manifests.spans import Malformed, Span, after, effective

LEVELS = ("damage", "danger", "note")
NAMED = 3  # names in one line; more are counted


class Finding(NamedTuple):
    """One thing that the check found."""

    level: str
    kind: str  # a short name
    what: str  # the fault and its place
    then: str  # its consequence, and what to do


class Parent(NamedTuple):
    """A database whose SSTs this one reads. `latest` is None if it has no manifest, or if the latest cannot be read."""

    latest: Manifest | None
    ssts: dict[str, int]  # with their sizes in bytes
    fault: str = ""  # why the latest manifest cannot be read


Parents = dict[str, Parent]


def referenced(database: Database, now_ms: int) -> frozenset[int]:
    """Return the ids of the manifests that a collection keeps for a checkpoint."""
    return frozenset(one.manifest_id for one in database.latest.checkpoints if one.active(now_ms)) \
        if database.latest else frozenset()


def in_history(database: Database) -> list[File]:
    """Return the manifests that can be read and are ahead of the boundary."""
    return [file for file in database.manifests if file.value and file.id > (database.boundaries["manifest"].value or 0)]


def sequences(database: Database) -> Iterator[tuple[str, tuple[File, ...], int]]:
    """Yield each sequence of files: its name, the files, and the boundary; 0 if there is none, or if it cannot be read."""
    for name, files in (("manifest", database.manifests), ("compactions", database.compactions)):
        yield name, files, database.boundaries[name].value or 0


def listed(names: Collection[str]) -> str:
    """Return names for a line; of many the first ones and their number."""
    shown = sorted(names)[:NAMED]
    return ", ".join(shown) + (f" and {len(names) - NAMED:,} more" if len(names) > NAMED else "")


def span(ids: Sequence[int]) -> str:
    """Return ids for a line."""
    return str(ids[0]) if len(ids) == 1 else f"{len(ids)} ({ids[0]} to {ids[-1]})"


def span_of_runs(runs: Sequence[range]) -> str:
    """Return runs of ids for a line."""
    number = sum(run.stop - run.start for run in runs)
    return str(runs[0].start) if number == 1 else f"{number:,} ({runs[0].start} to {runs[-1].stop - 1})"


# --- the views of a manifest

def runs_of(manifest: Manifest) -> Iterator[tuple[str, tuple[View, ...], tuple[Run, ...]]]:
    """Yield each tree of a manifest: how its name ends in a message, L0, and the sorted runs. Our own files have no views."""
    if not any(isinstance(one, str) for one in (*manifest.l0, *manifest.compacted)):
        yield "", manifest.l0, manifest.compacted
    for segment in manifest.segments:
        yield f" of segment {segment.prefix!r}", segment.l0, segment.compacted


def shown_by(views: Sequence[View], ssts: dict[str, Sst]) -> list[tuple[View, Span]]:
    """Return the views that show keys, and which keys. Other checks report views of no SST and ranges without bounds."""
    found = []
    for view in views:
        try:
            span = effective(view, ssts)
        except Malformed:
            continue
        if span:
            found.append((view, span))
    return found


def shared_keys(views: Sequence[View], ssts: dict[str, Sst]) -> Iterator[tuple[View, View]]:
    """Yield the neighbours in a sorted run of which the second one begins with the last key that the first one may show."""
    for (view, span), (follower, following) in pairwise(shown_by(views, ssts)):
        if span.end == after(following.start):
            yield view, follower
