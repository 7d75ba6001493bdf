"""Checks the order of SSTs: a read takes the first version that it finds in L0, newest first, and then in the sorted runs.

What the manifests alone tell is damage where clients never change it: the order of SSTs from one manifest to the next, ids of
runs, keys of a run. The ids of SSTs are those of a clock, which may have been set back. Only the numbers of rows decide then.
"""

from collections.abc import Iterator
from itertools import pairwise

from highwater.admin.contents import Contents
from highwater.admin.database import Database
from highwater.admin.findings import Finding, Parents, in_history, listed, referenced, runs_of, shared_keys, shown_by
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Run, Sst, View
from highwater.impl.codecs.sst_ids import time_ms
from highwater.impl.manifests.spans import Malformed, after, effective, meet, span_of

NEAR = 8  # SSTs of L0 that are compared with one: more than that many may come from other parts of a union
STALE = "reads return old values: released clients take the first one that they find"


# --- by the manifests alone

def l0_keeps_its_order(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that SSTs of L0 stay in order from one manifest to the next, and that new ones come before old ones."""
    for before, later in pairwise(in_history(database)):
        known = {where: l0 for where, l0, _ in runs_of(before.value)}
        for where, l0, _ in runs_of(later.value):
            place = {(view.sst_id, view.visible_range): number for number, view in enumerate(known.get(where, ()))}
            places = [place.get((view.sst_id, view.visible_range), -1) for view in l0]
            if any(a > b for a, b in pairwise(places)):
                yield Finding(
                    "damage", "L0 out of order",
                    f"manifest {later.id} has the SSTs of L0{where} in another order than manifest {before.id}, or has put "
                    "new ones behind old ones",
                    STALE)


def l0_leaves_by_compaction(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that SSTs leave L0 together with the mark of the last compaction, which every compactor writes."""
    for before, later in pairwise(in_history(database)):
        if later.id > before.id + 1 or later.version != before.version or not before.value.initialized:
            continue
        old, new = ({where: (l0, mark) for where, l0, mark in marked(file.value)} for file in (before, later))
        for where, (l0, mark) in old.items():
            kept = {view.id for view in new[where][0]} if where in new and new[where][1] == mark else None
            if lost := [view.sst_id for view in l0 if kept is not None and view.id not in kept]:
                yield Finding(
                    "damage", "L0 lost",
                    f"manifest {later.id} lacks SST {listed(lost)} in L0{where}, which manifest {before.id} has, and names the "
                    "same last compaction",
                    "no compaction has merged these SSTs: reads miss their rows, and a collector deletes them")


def marked(manifest: Manifest) -> Iterator[tuple[str, tuple[View, ...], object]]:
    """Yield each tree of a manifest: how its name ends in a message, L0, and the mark of its last compaction."""
    last = manifest.last_compacted_l0_view_id, manifest.last_compacted_l0_sst_id
    marks = {f" of segment {segment.prefix!r}": segment.last_compacted_l0_view_id for segment in manifest.segments}
    for where, l0, _ in runs_of(manifest):
        yield where, l0, marks.get(where, last)


def runs_are_sorted(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that ids of runs descend, and that a run's SSTs ascend, in the latest manifest and in those that active checkpoints
    refer to. Neighbours may share one key."""
    kept = referenced(database, now_ms)
    for file in database.manifests:
        if not file.value or (file is not database.manifests[-1] and file.id not in kept):
            continue
        ssts = {sst.id: sst for sst in file.value.ssts}
        for where, _, runs in runs_of(file.value):
            ids = [run.id for run in runs]
            if any(a <= b for a, b in pairwise(ids)):
                yield Finding(
                    "damage", "runs out of order",
                    f"manifest {file.id}: the sorted runs{where} have the ids {', '.join(map(str, ids[:20]))}"
                    f"{' ..' if len(ids) > 20 else ''}, which do not descend",
                    f"{STALE}; no released compactor can open the database")
            for run in runs:
                if bad := unsorted(run, ssts):
                    yield Finding(
                        "damage", "run not sorted",
                        f"manifest {file.id}: sorted run {run.id}{where}: SST {bad[0].sst_id} comes before SST "
                        f"{bad[1].sst_id}, which has keys before its last one",
                        "reads fail, and released clients miss keys of this run")


def unsorted(run: Run, ssts: dict[str, Sst]) -> tuple[View, View] | None:
    """Return the first neighbours in a run that are not in the order of their keys."""
    for (view, span), (follower, following) in pairwise(shown_by(run.views, ssts)):
        overlap = ssts[view.sst_id].info.last_entry is not None and not span.ends_by(after(following.start))
        if following.start < span.start or (overlap and span.end != after(following.start)):
            return view, follower
    return None


def views_show_keys(database: Database, parents: Parents, now_ms: int) -> Iterator[Finding]:
    """Check that the visible range of each view has a meaning, and keys of its SST."""
    if not database.latest:
        return
    ssts, outside, bad = {sst.id: sst for sst in database.latest.ssts}, [], []
    for _, l0, runs in runs_of(database.latest):
        for view in (*l0, *(view for run in runs for view in run.views)):
            try:
                if view.visible_range is None:
                    continue
                span_of(view.visible_range)
                if view.sst_id in ssts and effective(view, ssts) is None:
                    outside.append(view.sst_id)
            except Malformed:
                bad.append(view.sst_id)
    if bad:
        yield Finding(
            "damage", "view of nothing",
            f"the latest manifest has views of SST {listed(bad)} with a range that has no bounds",
            "no client can open the database")
    if outside:
        yield Finding(
            "danger", "view outside",
            f"the latest manifest has views of SST {listed(outside)} whose visible range has no key of the SST",
            "reads find nothing there: either the range is wrong, or the SST is another one")


# --- with the rows

def l0_is_newest_first(database: Database, contents: Contents) -> Iterator[Finding]:
    """Compare each SST of L0 with those behind it that have keys in its range: by the numbers of their rows, if these were
    read, else by the times of their ids."""
    if not database.latest:
        return
    ssts, unusual = {sst.id: sst for sst in database.latest.ssts}, []
    for where, l0, _ in runs_of(database.latest):
        shown = shown_by(l0, ssts)
        for place, (view, span) in enumerate(shown):
            for older, other in shown[place + 1:place + 1 + NEAR]:
                if view.sst_id == older.sst_id or meet(span, other) is None:
                    continue
                new, old = (seqs_of(contents, one.sst_id) for one in (view, older))
                if new is None or old is None:
                    unusual += [view.sst_id] if time_ms(view.id) < time_ms(older.id) else []
                elif new[0] <= old[1]:
                    yield Finding(
                        "damage", "L0 out of order",
                        f"SST {view.sst_id} of L0{where} comes before SST {older.sst_id}, but has rows {new[0]} to "
                        f"{new[1]}, and that one {old[0]} to {old[1]}",
                        STALE)
    if unusual:
        yield Finding(
            "note", "unusual order",
            f"SST {listed({*unusual})} of L0 comes before an SST with a later id",
            "a clock was set back, or writers' clocks differ, or the order is damaged; --deep compares the numbers of rows")


def seqs_of(contents: Contents, sst: str) -> tuple[int, int] | None:
    content = contents.ssts.get(sst)
    return None if content is None or content.fault else content.seqs


def versions_descend_in_runs(database: Database, contents: Contents) -> Iterator[Finding]:
    """Check a key that two neighbours in a sorted run share: the first SST has the newer versions."""
    if not database.latest:
        return
    ssts = {sst.id: sst for sst in database.latest.ssts}
    for where, _, runs in runs_of(database.latest) if contents.ssts else ():
        for run in runs:
            for view, follower in shared_keys(run.views, ssts):
                one, other = contents.ssts.get(view.sst_id), contents.ssts.get(follower.sst_id)
                if one and other and one.last and other.first and not one.fault and not other.fault and (
                        one.last[0] == other.first[0] and one.last[1] <= other.first[1]):
                    yield Finding(
                        "damage", "versions out of order",
                        f"sorted run {run.id}{where}: the key that SST {view.sst_id} ends with and SST {follower.sst_id} "
                        f"begins with has the number {one.last[1]} there and {other.first[1]} here",
                        "reads of this key return an old value; the SSTs are in each other's places")


def rows_are_those_of_the_manifest(database: Database, contents: Contents) -> Iterator[Finding]:
    """Check the numbers of rows against `last_l0_seq`: of all SSTs, and of those that a flush has added."""
    latest = database.latest
    ahead = {sst.id for sst in latest.ssts if (seqs := seqs_of(contents, sst.id)) and seqs[1] > latest.last_l0_seq} if (
        latest and latest.last_l0_seq) else set()
    if ahead and latest:
        yield Finding(
            "damage", "rows ahead",
            f"SST {listed(ahead)} has rows with numbers above {latest.last_l0_seq}, which the latest manifest has as the last "
            "one of all SSTs",
            "later writes get the same numbers; the manifest or the SST is another one")
    for before, later in pairwise(in_history(database) if contents.ssts else ()):
        known, shown = ({view.sst_id for _, l0, _ in runs_of(file.value) for view in l0} for file in (before, later))
        first, last = before.value.last_l0_seq, later.value.last_l0_seq
        for sst in sorted(shown - known) if later.id == before.id + 1 and last > first else ():
            seqs = seqs_of(contents, sst)
            if seqs and (seqs[1] > last or seqs[1] <= first) and sst not in ahead:
                yield Finding(
                    "damage", "another SST",
                    f"SST {sst} was flushed with manifest {later.id}, which is for rows {first + 1} to {last}, but has rows "
                    f"{seqs[0]} to {seqs[1]}",
                    "it is another object: its own rows are lost")


ORDER = (l0_keeps_its_order, l0_leaves_by_compaction, runs_are_sorted, views_show_keys)
ORDER_OF_ROWS = (l0_is_newest_first, versions_descend_in_runs, rows_are_those_of_the_manifest)
