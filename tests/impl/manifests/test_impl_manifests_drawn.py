"""Projection, union and the merging of views on drawn manifests: any bounds, keys that touch, and both versions of the
file."""

from itertools import count, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.manifest import CannotHold, Manifest
from highwater.impl.codecs.slatedb.flatbuffer import NewerFields, ulid_of, uuid_of
from highwater.impl.codecs.slatedb.manifest import ManifestCodec, Phase
from highwater.impl.codecs.slatedb.tables import (
    EXCLUDED,
    INCLUDED,
    UNBOUNDED,
    Bound,
    Checkpoint,
    ExternalDb,
    Range,
    Run,
    Segment,
    Sst,
    SstInfo,
    View,
)
from highwater.impl.manifests import readable, spans
from highwater.impl.manifests.externals import SstOfTwoDatabases
from highwater.impl.manifests.merge import merge_views
from highwater.impl.manifests.project import project
from highwater.impl.manifests.spans import Malformed, Span
from highwater.impl.manifests.union import NotAdjacent, NotInitialized, Overlap, Source, union

V1, V2 = ManifestCodec(Phase.WRITE_V1), ManifestCodec(Phase.WRITE_V2)
PROBES = [b"".join(letters) for size in (1, 2, 3) for letters in product((b"\0", b"a", b"b", b"c"), repeat=size)]
KEYS = st.sampled_from([key for key in PROBES if len(key) <= 2])
HERE, THERE = uuid_of(7), uuid_of(8)


# ------------------------------------------------------------------------------------------- what is shown, by the bounds alone

def starts_by(visible, key):
    (first, start), _ = visible
    return start == UNBOUNDED or first < key or (start == INCLUDED and first == key)


def has(visible, key):
    """Tell whether a range has a key: by the kinds of its bounds, and not by spans."""
    last, end = visible.end
    return starts_by(visible, key) and (end == UNBOUNDED or key < last or (end == INCLUDED and last == key))


ALL = Range(Bound(None, UNBOUNDED), Bound(None, UNBOUNDED))


def info_of(manifest, view):
    (info,) = [sst.info for sst in manifest.ssts if sst.id == view.sst_id]
    return info


def shows(manifest, view, key):
    info = info_of(manifest, view)
    inside = info.first_entry <= key and (info.last_entry is None or key <= info.last_entry)
    return inside and has(view.visible_range or ALL, key)


def begins_before(manifest, view, key):
    start, kind = (view.visible_range or ALL).start
    return info_of(manifest, view).first_entry < key and (kind == UNBOUNDED or start < key)


def shown(manifest, key):
    """The SSTs that show a key, the newest first. In a run a reader looks into the views that start at the key or before, up
    to the first one behind which another one starts before the key."""
    l0 = [view.sst_id for view in manifest.l0 if shows(manifest, view, key)]
    for run in manifest.compacted:
        last = max((n for n, view in enumerate(run.views) if begins_before(manifest, view, key)), default=0)
        l0 += [view.sst_id for view in run.views[last:] if starts_by(view.visible_range or ALL, key)
               and shows(manifest, view, key)]
    return tuple(l0)


def all_shown(manifest):
    return {key: shown(manifest, key) for key in PROBES}


# ------------------------------------------------------------------------------------------------------------- what is drawn

@st.composite
def ranges(draw):
    def bound():
        kind = draw(st.sampled_from((UNBOUNDED, INCLUDED, EXCLUDED)))
        return Bound(None if kind == UNBOUNDED else draw(KEYS), kind)
    return draw(st.none() | st.just(Range(bound(), bound())))


@st.composite
def manifests(draw):
    """A well-formed manifest: L0 in any order, and runs in which neighbours have at most one key in common."""
    ssts, numbers = [], count(1)

    def sst(first, last, last_is_known):
        info = SstInfo(first_entry=first, last_entry=last if last_is_known else None)
        ssts.append(Sst(ulid_of(next(numbers) << 80), info, 2))
        return ssts[-1].id

    l0, runs = [], []
    for _ in range(draw(st.integers(0, 3))):
        first, last = sorted((draw(KEYS), draw(KEYS)))
        name = sst(first, last, draw(st.booleans()))
        l0.append(View(name, name, draw(ranges())))
    for run_id in sorted(draw(st.sets(st.integers(0, 4), max_size=2)), reverse=True):
        ends = sorted(draw(st.lists(KEYS, min_size=2, max_size=7)))
        names = [sst(first, last, draw(st.booleans())) for first, last in zip(ends[::2], ends[1::2])]
        runs.append(Run(run_id, tuple(View(name, name) for name in names)))
    others = draw(st.sets(st.sampled_from([one.id for one in ssts]))) if ssts else set()
    external = (ExternalDb("owner", HERE, THERE, tuple(sorted(others))),) if others else ()
    return Manifest(
        initialized=True, ssts=tuple(ssts), l0=tuple(l0), compacted=tuple(runs), external_dbs=external,
        last_l0_seq=draw(st.integers(0, 9)), last_l0_clock_tick=draw(st.integers(-5, 5)), replay_after_wal_id=3,
        wal_id_last_seen=3, writer_epoch=4, compactor_epoch=2, checkpoints=(Checkpoint(HERE, 2),))


@st.composite
def wanted(draw):
    start, end = sorted((draw(KEYS), draw(KEYS)))
    ends = (None, end + b"\0", end) if start < end else (None,)
    return Span(draw(st.sampled_from((b"", start))), draw(st.sampled_from(ends)))


def ids():
    numbers = count(1 << 40)
    return lambda: ulid_of(next(numbers))


def within(span, key):
    return span.start <= key and (span.end is None or key < span.end)


def checked(manifest):
    """Return the manifest after its way through a V2 file, and, if V1 can hold it, through a V1 file."""
    assert V2.decode(V2.encode(manifest)) == manifest
    try:
        body = V1.encode(manifest)
    except CannotHold:
        return manifest
    assert all_shown(V1.decode(body)) == all_shown(manifest)
    return manifest


DRAWN = settings(max_examples=200, deadline=None, derandomize=True)


# -------------------------------------------------------------------------------------------------------------- properties

@DRAWN
@given(ranges())
def test_a_range_and_its_span_have_the_same_keys(visible):
    span = spans.span_of(visible)
    assert [has(visible or ALL, key) for key in PROBES] == [within(span, key) for key in PROBES]
    if not span.ends_by(span.start):
        again = spans.range_of(span)
        assert spans.span_of(again) == span and again.start.kind in (INCLUDED, UNBOUNDED)


@DRAWN
@given(manifests(), wanted())
def test_a_projection_shows_the_keys_of_its_span(manifest, span):
    found = checked(project(manifest, span))
    assert all_shown(found) == {key: those if within(span, key) else () for key, those in all_shown(manifest).items()}
    assert {sst.id for sst in found.ssts} == {view.sst_id for view in found.views}
    assert {sst for one in found.external_dbs for sst in one.sst_ids} <= {sst.id for sst in found.ssts}
    assert {run.id for run in found.compacted} <= {run.id for run in manifest.compacted} and all(
        run.views for run in found.compacted)
    for view in found.views:
        if view.visible_range not in [other.visible_range for other in manifest.views if other.id == view.id]:
            (info,) = [sst.info for sst in found.ssts if sst.id == view.sst_id]
            start, _ = view.visible_range
            assert start.kind == INCLUDED and start.key >= info.first_entry, "a released reader panics"
            assert info.last_entry is None or start.key <= info.last_entry


@DRAWN
@given(manifests(), wanted(), wanted())
def test_a_projection_is_only_narrowed(manifest, span, other):
    both = spans.meet(span, other)
    twice = project(project(manifest, span), other)
    assert all_shown(twice) == (all_shown(project(manifest, both)) if both else dict.fromkeys(PROBES, ()))


@DRAWN
@given(manifests())
def test_a_projection_onto_all_keys_changes_no_view_that_shows_some(manifest):
    found = project(manifest, Span())
    assert [view for view in manifest.l0 if view in found.l0] == list(found.l0)
    assert project(found, Span()) == found


@DRAWN
@given(manifests(), st.lists(KEYS, min_size=1, max_size=3, unique=True), st.booleans())
def test_parts_that_are_united_and_merged_are_the_whole(manifest, cuts, given_spans):
    edges = [b"", *sorted(cuts), None]
    those = [Span(start, end) for start, end in pairwise(edges)]
    parts = [Source("db", uuid_of(20 + n), 5, project(manifest, span), span if given_spans else None)
             for n, span in enumerate(those)]
    new_id = ids()
    found = checked(union(parts, new_id))
    assert all_shown(found) == all_shown(manifest) and len(found.external_dbs) <= 2
    assert len({view.id for view in found.views}) == len(found.views)
    merged = checked(merge_views(found, new_id))
    assert all_shown(merged) == all_shown(manifest)
    whole = project(manifest, Span())
    assert sorted(view.sst_id for view in merged.views) == sorted(view.sst_id for view in whole.views)
    assert [run.id for run in merged.compacted] == [run.id for run in whole.compacted]


@DRAWN
@given(manifests())
def test_a_union_is_a_fresh_database(manifest):
    found = union([Source("whole", HERE, 2, manifest)], ids())
    assert found == Manifest(
        l0=found.l0, compacted=found.compacted, ssts=found.ssts, external_dbs=found.external_dbs,
        last_l0_seq=manifest.last_l0_seq,
        recent_snapshot_min_seq=manifest.last_l0_seq, last_l0_clock_tick=manifest.last_l0_clock_tick)
    assert not found.initialized
    finals = [one.final_checkpoint_id for one in found.external_dbs]
    assert len({*finals, HERE, THERE}) == len(finals) + 2
    assert {one.path: one.source_checkpoint_id for one in found.external_dbs}.items() <= {"owner": THERE, "whole": HERE}.items()
    pinned = [sst for one in found.external_dbs for sst in one.sst_ids]
    assert sorted(pinned) == sorted(sst.id for sst in found.ssts)


def flushed(manifest, number, key):
    """The manifest after its database has written one SST of its own."""
    name = ulid_of(number << 80 | 1)
    return manifest._replace(initialized=True, ssts=(*manifest.ssts, Sst(name, SstInfo(first_entry=key, last_entry=key), 2)),
                             l0=(View(name, name), *manifest.l0))


@pytest.mark.parametrize("knows_manifests", [True, False])
def test_rounds_of_splitting_and_uniting_have_a_bound(knows_manifests):
    """Each of the databases flushes, in 10 rounds. There is one pin for each owner that still shows an SST."""
    new_id, numbers = ids(), count(100)
    now = flushed(flushed(Manifest(), next(numbers), b"a"), next(numbers), b"c")
    now = now._replace(ssts=(*now.ssts, Sst(ulid_of(5 << 80), SstInfo(first_entry=b"a", last_entry=b"c"), 2)),
                       l0=(*now.l0, View(ulid_of(5 << 80), ulid_of(5 << 80))))
    named, written = {}, 1
    for number in range(10):
        path, halves = f"u{number}", []
        for name, span, key in (("l", Span(b"", b"b"), b"a"), ("r", Span(b"b"), b"c")):
            own = uuid_of(next(numbers))
            named[path, own] = 1
            half = union([Source(path, own, 1, project(now, span))], new_id, named)
            named |= {(one.path, one.final_checkpoint_id): 1 for one in half.external_dbs}
            halves.append(Source(f"{name}{number}", uuid_of(next(numbers)), 1, flushed(half, next(numbers), key)))
            written += 1
        united = union(halves, new_id, named if knows_manifests else None)
        named |= {(one.path, one.final_checkpoint_id): 1 for one in united.external_dbs}
        now = merge_views(united, new_id)._replace(initialized=True)
    owners = {one.path for one in now.external_dbs}
    assert len(owners) == written and len(now.external_dbs) <= (written if knows_manifests else len(now.ssts))
    assert len(now.l0) == len(now.ssts) == written + 2


# ---------------------------------------------------------------------------------------------------------- what is refused

A, B = (ulid_of(number << 80) for number in (1, 2))


def of(first, last, name=A, **changes):
    """A database with one SST in L0."""
    return Manifest(initialized=True, ssts=(Sst(name, SstInfo(first_entry=first, last_entry=last), 2),), l0=(View(name, name),),
                    **changes)


def source(path, manifest, span=None, fences=frozenset()):
    return Source(path, HERE, 1, manifest, span, fences)


@pytest.mark.parametrize("sources, error, says", [
    ([source("left", of(b"a", b"c")), source("right", of(b"c", b"d", B))], Overlap,
     r"'left' has keys in \[b'a', b'c\\x00'\), 'right' in \[b'c', b'd\\x00'\), so both have \[b'c', b'c\\x00'\)"),
    ([source("left", of(b"a", None)), source("right", of(b"c", b"d", B))], Overlap, r"both have \[b'c', b'd\\x00'\)"),
    ([source("left", of(b"a", b"a"), Span(b"a", b"c")), source("right", of(b"d", b"d", B), Span(b"b", b"e"))], Overlap,
     r"both have \[b'b', b'c'\)"),
    ([source("left", of(b"a", b"a"), Span(b"a", b"b")), source("right", of(b"d", b"d", B), Span(b"c", b"e"))], NotAdjacent,
     "nobody has the keys in between"),
    ([source("left", of(b"a", b"a")), source("right", of(b"b", b"b"))], SstOfTwoDatabases,
     "both 'left' and 'right' own an SST"),
    ([source("left", of(b"a", b"a", wal_id_last_seen=4, replay_after_wal_id=2), fences=frozenset({3}))],
     readable.WalNotCompacted, r"WAL object 4 may have rows that are in no SST \(1 such"),
    ([source("left", of(b"a", b"a")._replace(initialized=False))], NotInitialized, "'left' is not initialized"),
    ([source("left", of(b"a", b"a", segments=(Segment(b"p"),)))], readable.HasSegments, "segments"),
    ([source("left", of(b"a", b"a", unknown=("ManifestV2 slot 18",)))], NewerFields, "slot 18"),
    ([source("left", Manifest(initialized=True, l0=("sst-1",)))], readable.HasNoViews, "names SSTs"),
    ([source("left", of(b"a", b"a")._replace(compacted=(Run(1), Run(1))))], None, ""),
    ([], ValueError, "no sources"),
    ([source("left", of(b"a", b"a"), Span()), source("right", of(b"b", b"b", B))], ValueError, "some have none"),
])
def test_what_a_union_refuses(sources, error, says):
    if error is None:  # runs without views are not copied
        assert union(sources, ids()).compacted == ()
        return
    with pytest.raises(error, match=says):
        union(sources, ids())


def test_a_fence_is_no_row():
    assert union([source("left", of(b"a", b"a", wal_id_last_seen=4, replay_after_wal_id=2), fences=frozenset({3, 4}))], ids())


def test_sources_are_sorted_and_one_without_rows_is_no_matter():
    parts = [source("right", of(b"c", b"d", B)), source("none", Manifest(initialized=True, last_l0_seq=9)),
             source("left", of(b"a", b"b"))]
    found = union(parts, ids())
    assert [view.sst_id for view in found.l0] == [A, B] and found.last_l0_seq == 9
    assert [one.path for one in found.external_dbs] == ["left", "right"]


def run_of(*ends, **visible):
    """A database with one run: SSTs with these first and last keys, None for a last key that is not known. `visible`: the range
    of the view at a place, as in v0=Span(b"a", b"b")."""
    names = [ulid_of(number << 80) for number in range(1, len(ends) + 1)]
    ssts = tuple(Sst(name, SstInfo(first_entry=first, last_entry=last), 2) for name, (first, last) in zip(names, ends))
    views = tuple(View(name, name, spans.range_of(visible[f"v{n}"]) if f"v{n}" in visible else None)
                  for n, name in enumerate(names))
    return Manifest(initialized=True, ssts=ssts, compacted=(Run(1, views),))


@pytest.mark.parametrize("manifest, says", [
    (run_of((b"a", b"c"), (b"b", b"d")), "both have the keys from b'b' on"),
    (run_of((b"a", b"c"), (b"b", b"b")), "both have the keys from b'b' on"),
    (run_of((b"a", b"b"), (b"a", b"b")), "both have the keys from b'a' on"),
    (run_of((b"a", b"b"), (b"b", b"c"), (b"b", b"d")), "both have the keys from b'b' on"),  # the one between has another key
    (run_of((b"a", b"d"), (b"a", b"d"), v0=Span(b"a", b"c"), v1=Span(b"b")), "both have the keys from b'b' on"),
    (run_of((b"a", b"d"), (b"a", b"d"), v0=Span(b"a", b"b\0a"), v1=Span(b"b")), "both have the keys from b'b' on"),
    (run_of((b"c", b"d"), (b"a", b"b")), "it is not sorted"),
    (run_of((b"b", None), (b"a", b"b")), "it is not sorted"),
    (run_of((b"b", b"b"), (b"b", b"b"), (b"a", b"b")), "it is not sorted"),
])
def test_a_run_that_is_not_sorted_is_damage(manifest, says):
    with pytest.raises(Malformed, match=says):
        project(manifest, Span())
    with pytest.raises(Malformed, match=says):
        merge_views(manifest, ids())


@pytest.mark.parametrize("manifest", [
    run_of((b"a", b"b"), (b"b", b"d")),
    run_of((b"a", b"b"), (b"b", b"b"), (b"b", b"b"), (b"b", b"d")),
    run_of((b"b", b"b"), (b"b", b"b")),
    run_of((b"a", b"c"), (b"b", b"d"), v0=Span(b"a", b"b\0")),
    run_of((b"a", None), (b"b", None), (b"b", b"c")),
])
def test_neighbours_in_a_run_may_share_one_key(manifest):
    """Each SST that may have the shared key is in the projection that has it; a split and a union give back the run."""
    def shown(span):
        return [view.sst_id for run in project(manifest, span).compacted for view in run.views]

    sharing = [view.sst_id for view, span in spans.in_run(1, manifest.compacted[0].views, readable.ssts_of(manifest))
               if spans.meet(span, Span(b"b", b"b\0"))]
    assert len(sharing) >= 2 and shown(Span(b"b", b"b\0")) == sharing
    for cut in (b"b", b"b\0"):
        halves = [Source(path, HERE, 1, manifest, span) for path, span in (("db", Span(b"", cut)), ("db", Span(cut)))]
        merged = merge_views(union(halves, ids()), ids())
        assert [view.sst_id for view in merged.compacted[0].views] == [view.sst_id for view in manifest.compacted[0].views]


@pytest.mark.parametrize("manifest, says", [
    (Manifest(l0=(View(A, B),)), "which the manifest does not list"),
    (of(b"a", b"b")._replace(l0=(View(A, A, Range(Bound(b"a", 0), Bound(b"b", INCLUDED))),)), "is of no kind"),
    (of(b"a", b"b")._replace(ssts=(*of(b"a", b"b").ssts, *of(b"a", b"c").ssts)), "twice, with different contents"),
])
def test_damage_is_named(manifest, says):
    with pytest.raises(Malformed, match=says):
        project(manifest, Span())


def test_no_gap_of_a_run_is_bridged():
    """A union of projections without the keys in between leaves a gap; neighbours without one become one view."""
    def of_run(*shown):
        views = tuple(View(ulid_of(number << 80), A, spans.range_of(span)) for number, span in enumerate(shown, 10))
        return Manifest(ssts=(Sst(A, SstInfo(first_entry=b"a", last_entry=b"d"), 2),), compacted=(Run(1, views),))

    gap = of_run(Span(b"a", b"b"), Span(b"c", b"d"))
    assert merge_views(gap, ids()) == gap
    (run,) = merge_views(of_run(Span(b"a", b"b"), Span(b"b", b"c")), ids()).compacted
    assert [view.visible_range for view in run.views] == [spans.range_of(Span(b"a", b"c"))]


def test_runs_whose_ids_do_not_descend_are_damage():
    manifest = of(b"a", b"b")
    manifest = manifest._replace(l0=(), compacted=(Run(1, (View(A, A, Range(Bound(b"a", INCLUDED), Bound(b"b", EXCLUDED))),)),
                                                   Run(2, (View(B, A, Range(Bound(b"b", INCLUDED), Bound(b"b", INCLUDED))),))))
    with pytest.raises(Malformed, match="ids must descend"):
        union([source("left", manifest)], ids())


def test_a_bound_in_a_gap_of_a_run():
    """SlateDB's issue 1903: no SST has a key there, so no view is left."""
    ssts = (Sst(A, SstInfo(first_entry=b"a", last_entry=b"b"), 2), Sst(B, SstInfo(first_entry=b"e", last_entry=b"f"), 2))
    manifest = Manifest(ssts=ssts, compacted=(Run(1, (View(A, A), View(B, B))),))
    assert project(manifest, Span(b"c", b"d")) == Manifest()
    assert project(manifest, Span(b"c", b"e\0")).compacted == (
        Run(1, (View(B, B, Range(Bound(b"e", INCLUDED), Bound(b"e", INCLUDED))),)),)
