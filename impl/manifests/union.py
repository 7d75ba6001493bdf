"""Safety: the rows of a union are the rows of its sources, each key keeps the order of its versions, and a compaction of
the union loses none of them.

«Union» of SlateDB's RFC on checkpoints and clones. The sources have no key in common, so no version of one can hide a
version of another. Two views of one SST have different ids: a compaction names its inputs by these ids.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, ulid_of
from highwater.impl.codecs.slatedb.tables import Run, Sst, View
from highwater.impl.errors import Definite
from highwater.impl.manifests import externals, readable
from highwater.impl.manifests.externals import Named, Pin
from highwater.impl.manifests.project import project
from highwater.impl.manifests.spans import Malformed, Span, effective, hull, meet

RANDOM = (1 << 80) - 1  # the bits of a ULID after its time


class NotInitialized(Definite):
    """A source is a clone that is still being made: its SSTs are not pinned yet."""


class Overlap(Definite):
    """Two sources have keys in the same range, so the order of a key's versions would be unknown."""


class NotAdjacent(Definite):
    """The spans that were given for the sources leave a gap."""


class Source(NamedTuple):
    """One input of a union."""

    path: str  # of the database
    checkpoint_id: str  # a checkpoint there, which names the manifest
    manifest_id: int
    manifest: Manifest
    span: Span | None = None  # the keys that the database has by its owner's account; None: those that its SSTs have
    fences: frozenset[int] = frozenset()  # the ids of WAL objects that are known to have no rows


class Part(NamedTuple):
    """A source with the keys of its span only."""

    path: str
    keys: Span | None  # from its first key to its last; None: it shows none
    manifest: Manifest
    pins: list[Pin]  # of all SSTs that it shows


def union(sources: list[Source], new_id: Callable[[], str], named: Named | None = None) -> Manifest:
    """Return the manifest of a new database with the rows of all sources. It is not initialized: the caller creates the
    final checkpoints first.

    `new_id` returns ULIDs. `named` tells which manifests the checkpoints in `external_dbs` of the sources name. What it
    does not know is pinned separately, which costs entries and no row. If a source has a span, all have, and what it shows
    outside is left out.

    Raises what `project` raises, NotInitialized, Overlap, NotAdjacent, SstOfTwoDatabases; ValueError if there are no
    sources, or if only some have a span.
    """
    parts = sorted(map(part_of, ordered(sources)), key=lambda part: part.keys.start if part.keys else b"")
    check_disjoint([(part.path, part.keys) for part in parts if part.keys])
    pins = [pin for part in parts for pin in part.pins]
    externals.owners(pins)
    view_id = fresh_view_ids(new_id, {view.id for part in parts for view in part.manifest.views})
    l0 = tuple(view._replace(id=view_id(view)) for part in parts for view in part.manifest.l0)
    compacted = tuple(run._replace(views=tuple(view._replace(id=view_id(view)) for view in run.views)) for run in tiers(parts))
    known = {**(named or {}), **{(one.path, one.checkpoint_id): one.manifest_id for one in sources}}
    last_seq = max(part.manifest.last_l0_seq for part in parts)
    return Manifest(
        l0=l0, compacted=compacted, ssts=ssts_of(parts), last_l0_seq=last_seq,
        last_l0_clock_tick=max(part.manifest.last_l0_clock_tick for part in parts),
        recent_snapshot_min_seq=last_seq,  # a new database has no snapshots
        external_dbs=externals.entries(externals.deduplicated(pins, known), new_id))


def ordered(sources: list[Source]) -> list[Source]:
    """Return the sources in the order of their spans, if they have some. Raises Overlap, NotAdjacent, ValueError."""
    if not sources:
        raise ValueError("a union of no sources: give one at least")
    spans = [(one.path, one.span) for one in sources if one.span is not None]
    if spans and len(spans) < len(sources):
        raise ValueError("some sources of the union have a span and some have none: give all of them one, or none")
    spans.sort(key=lambda one: one[1].start)
    check_disjoint(spans)
    for (path, span), (following, after) in pairwise(spans):
        if span.end != after.start:
            raise NotAdjacent(f"{path!r} has {span}, {following!r} has {after}, and nobody has the keys in between")
    return sorted(sources, key=lambda one: one.span.start) if spans else sources  # type: ignore


def check_disjoint(spans: list[tuple[str, Span]]) -> None:
    """Check that spans in the order of their starts have no key in common. Raises Overlap."""
    for (path, span), (following, after) in pairwise(spans):
        if common := meet(span, after):
            raise Overlap(f"{path!r} has keys in {span}, {following!r} in {after}, so both have {common}: project them to "
                          "spans without a common key first")


def part_of(source: Source) -> Part:
    """Return what a source shows of its span, and the pins that this needs. Raises what `project` raises,
    NotInitialized."""
    if not source.manifest.initialized:
        raise NotInitialized(f"{source.path!r} is not initialized: finish its clone first")
    shown = project(source.manifest, source.span or Span(), source.fences)
    pins = externals.inherited(shown.external_dbs)
    of_others = {sst for pin in pins for sst in pin.ssts}
    if own := frozenset(sst.id for sst in shown.ssts) - of_others:
        pins.append(Pin(source.path, source.checkpoint_id, own))
    ssts = readable.ssts_of(shown)
    keys = hull([span for view in shown.views if (span := effective(view, ssts))])
    return Part(source.path, keys, shown, pins)


def tiers(parts: list[Part]) -> list[Run]:
    """Return the sorted runs of all parts, the newest first. Runs with one id become one run, which keeps the id.

    Parts have no key in common, so their runs can be one. The ids of one source descend, so each keeps the order of its
    runs. «Preserving original IDs is important so that union can correctly match the same logical tier across projected
    manifests»: after a projection and a union there are as many runs as before. Raises Malformed.
    """
    found: dict[int, tuple[View, ...]] = {}
    for part in parts:
        ids = [run.id for run in part.manifest.compacted]
        if any(newer <= older for newer, older in pairwise(ids)):
            raise Malformed(f"{part.path!r} has the runs {ids}: their ids must descend")
        for run in part.manifest.compacted:
            found[run.id] = found.get(run.id, ()) + run.views
    return [Run(run_id, found[run_id]) for run_id in sorted(found, reverse=True)]


def fresh_view_ids(new_id: Callable[[], str], taken: set[str]) -> Callable[[View], str]:
    """Return a function that makes an id for a view: the time of its SST, and random bits, so that no other view has it."""
    given = set(taken)

    def view_id(view: View) -> str:
        while (made := ulid_of(number_of_ulid(view.sst_id) & ~RANDOM | number_of_ulid(new_id()) & RANDOM)) in given:
            pass
        given.add(made)
        return made

    return view_id


def ssts_of(parts: list[Part]) -> tuple[Sst, ...]:
    """Return the SSTs of all parts, each once. Raises Malformed if two parts disagree about one."""
    return tuple(readable.ssts_of(Manifest(ssts=tuple(sst for part in parts for sst in part.manifest.ssts))).values())
