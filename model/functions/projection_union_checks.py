"""Safety: each property of projection, union and the merging of views holds for every small database, or its smallest
counterexample is told.

A check yields the steps of a story for each value that breaks its property, the smallest value first. `first` takes the
first. The functions are arguments: those of model/functions/projection_union.py, or the implementation's, between two
translations.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from highwater.model.functions.manifests import (
    Database,
    Job,
    Manifest,
    Objects,
    Version,
    compacted,
    effective,
    rows,
)
from highwater.model.functions.projection_union import OURS, Constants, Functions, Ids, Refused, Source
from highwater.model.functions.projection_union_values import databases, pairs, shown, spans, told, with_logs

Story = tuple[str, ...]
Rows = tuple[tuple[Version, ...], ...]
SMALL = 3  # keys, where two things are combined


def first(name: str, c: Constants, functions: Functions = OURS) -> Story | None:
    """Return the shortest story of a value that breaks the property; None if none does."""
    return next(CHECKS[name](c, functions), None)


def changed(before: Rows, after: Rows) -> str:
    """Describe the first key whose versions differ."""
    key = next(key for key, (one, other) in enumerate(zip(before, after)) if one != other)
    return f"key {key}: {said(before[key])} became {said(after[key])}"


def said(versions: tuple[Version, ...]) -> str:
    return " ".join(f"{owner}.{'log' if number < 0 else number}" for owner, number in versions) or "nothing"


# --- projection

def projection_is_restriction(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of projections that show other rows than those of the source in the span."""
    for database, objects in (*with_logs(c, 1), *databases(c)):
        before = rows(database, c.KEYS, objects)
        for span in spans(c.KEYS):
            try:
                after = rows(database._replace(manifest=f.project(c, database.manifest, span)), c.KEYS, objects)
            except Refused:
                continue
            wanted = tuple(those if span[0] <= key < span[1] else () for key, those in enumerate(before))
            if wanted != after:
                yield told(database, c), f"project {span_text(span)}", changed(wanted, after)


def runs_are_sorted(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of projections with two views in a run that have more than one key in common, or are in another order."""
    for database, _ in databases(c):
        for span in spans(c.KEYS):
            for run in f.project(c, database.manifest, span).runs:
                for a, b in pairwise(effective(view, c.KEYS) for view in run.views):
                    if a[0] > b[0] or a[1] > b[0] + 1:
                        yield (told(database, c), f"project {span_text(span)}",
                               f"run {run.id} has {span_text(a)} before {span_text(b)}")


def span_text(span: tuple[int, int]) -> str:
    return f"[{span[0]}, {span[1]})"


# --- clones

def clone(c: Constants, f: Functions, of: Database, path: str, ids: Ids, span: tuple[int, int] | None = None) -> Database:
    """Return a clone of a database, or of a projection of it. Its pins are those of a union of this one source."""
    shown = of._replace(manifest=f.project(c, of.manifest, span)) if span else of
    return Database(path, f.union(c, [source(shown, ids)], ids))


def source(of: Database, ids: Ids, span: tuple[int, int] | None = None) -> Source:
    return Source(of, 1, f"made {ids.new()}", span)


def halves(c: Constants, f: Functions, of: Database, cut: int, ids: Ids) -> list[Database]:
    return [clone(c, f, of, "left", ids, (0, cut)), clone(c, f, of, "right", ids, (cut, c.KEYS))]


def united(c: Constants, f: Functions, parts: list[Database], ids: Ids, cut: int | None = None) -> Database:
    those = [None] * len(parts) if cut is None else [(0, cut), (cut, c.KEYS)]
    return Database("u", f.union(c, [source(part, ids, span) for part, span in zip(parts, those)], ids))


def split(c: Constants, f: Functions) -> Iterator[tuple[Database, Objects, int, Ids, Database | None]]:
    """Yield (database, objects, cut, ids, union of its two halves). The union is None if it is refused."""
    for database, objects in databases(c):
        for cut in range(1, c.KEYS):
            ids = Ids()
            try:
                union = united(c, f, halves(c, f, database, cut, ids), ids)
            except Refused:
                union = None
            yield database, objects, cut, ids, union


def pins_are_needed(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of projections of a clone that pin an SST that they do not show, or show one of another database
    unpinned."""
    for database, _ in databases(c, min(c.SSTS, 2)):
        whole = clone(c, f, database, "c", Ids())
        for span in spans(c.KEYS):
            m = f.project(c, whole.manifest, span)
            pinned, needed = {sst for pin in m.pins for sst in pin.ssts}, {view.sst.number for view in m.views}
            if pinned != needed or not all(pin.ssts for pin in m.pins):
                yield (told(database, c), "clone it", f"project the clone to {span_text(span)}",
                       f"it pins SSTs {sorted(pinned)} and shows {sorted(needed)}")


# --- union

def halves_are_the_whole(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of databases that are split and united, and then show other rows."""
    for database, objects, cut, _, union in split(c, f):
        if not union:
            yield told(database, c), f"split at {cut} and unite", "it is refused"
            continue
        before, after = rows(database, c.KEYS, objects), rows(union, c.KEYS, objects)
        if before != after:
            yield told(database, c), f"split at {cut} and unite", changed(before, after)


def halves_are_as_few(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of databases that are split, united and merged, and then have more views, runs or pins."""
    for database, _, cut, ids, union in split(c, f):
        if not union:
            continue
        merged = f.merge(c, union.manifest, ids)
        before, after = sizes(database.manifest), sizes(merged)
        if any(after[name] > before[name] for name in after if name != "pins") or after["pins"] > 1:
            yield told(database, c), f"split at {cut}, unite and merge", f"{before} became {after}"


def sizes(m: Manifest) -> dict[str, int]:
    return {"views": len(m.views), "in L0": len(m.l0), "runs": len(m.runs), "pins": len(m.pins)}


def union_is_the_sources(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of unions of two databases that show other rows than those, or two databases' versions of one key."""
    c = c._replace(KEYS=min(c.KEYS, SMALL))
    for a, b, objects in pairs(c):
        each = [rows(database, c.KEYS, objects) for database in (a, b)]
        for cut in (None, *range(1, c.KEYS)):
            try:
                after = rows(united(c, f, [a, b], Ids(), cut), c.KEYS, objects)
            except Refused:
                continue
            inside = [[those if cut is None or (key < cut) == (place == 0) else () for key, those in enumerate(each[place])]
                      for place in range(2)]
            for key, (one, other) in enumerate(zip(*inside)):
                if (one and other) or after[key] != one + other:
                    given = "" if cut is None else f" with spans {span_text((0, cut))} and {span_text((cut, c.KEYS))}"
                    yield (told(a, c), told(b, c), f"unite{given}",
                           f"key {key}: {said(one)} and {said(other)} became {said(after[key])}")


def new_writes_are_newest(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of unions whose next write would get a sequence number that a row has."""
    c = c._replace(KEYS=min(c.KEYS, SMALL))
    for a, b, _ in pairs(c):
        try:
            m = united(c, f, [a, b], Ids()).manifest
        except Refused:
            continue
        largest = max(view.sst.number for view in m.views)
        if m.last_seq < largest:
            yield told(a, c), told(b, c), "unite", f"the last sequence number is {m.last_seq}, and a row has {largest}"


# --- compaction

def compaction_loses_nothing(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of a union that is compacted, before or after its views are merged, and then shows other rows."""
    for database, objects, cut, ids, union in split(c, f):
        if not union:
            continue
        before = rows(database, c.KEYS, objects)
        merged = union._replace(manifest=f.merge(c, union.manifest, ids))
        for what, now in (("", union), (" and merge its views", merged)):
            for job in jobs(now.manifest):
                after = compacted(now, job, c.KEYS, objects)
                if after != before:
                    yield (told(database, c), f"split at {cut} and unite{what}", job_text(job), changed(before, after))


def job_text(job: Job) -> str:
    return f"compact views {list(job.views)} and runs {list(job.runs)}"


def planned_compaction_loses_nothing(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of a compaction that is planned before views are merged, is applied after, and loses rows."""
    c = c._replace(KEYS=min(c.KEYS, SMALL))
    for database, objects in shown(c):
        merged = database._replace(manifest=f.merge(c, database.manifest, Ids()))
        before = rows(merged, c.KEYS, objects)
        for job in jobs(database.manifest):
            after = compacted(merged, job, c.KEYS, objects, database)
            if after != before:
                yield told(database, c), f"plan to {job_text(job)}", "merge views, and apply the plan", changed(before, after)


def jobs(m: Manifest) -> Iterator[Job]:
    """Yield what a compactor may merge: the oldest views of L0; or all of L0 and the newest runs; or the newest runs."""
    views, runs = tuple(view.id for view in m.l0), tuple(run.id for run in m.runs)
    for number in range(len(views)):
        yield Job(views[number:], ())
    for number in range(1, len(runs) + 1):
        yield Job(views, runs[:number])


# --- rounds

def pins_are_bounded(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of rounds of splitting and uniting after which there are more pins than owners x manifests."""
    for database, _ in databases(c, min(c.SSTS, 2)):
        for cut in range(1, c.KEYS):
            ids, now = Ids(), database
            for number in range(1, c.ROUNDS + 1):
                try:
                    now = united(c, f, halves(c, f, now, cut, ids), ids)
                except Refused:
                    break
                bound = len({(pin.owner, pin.manifest) for pin in now.manifest.pins})
                if len(now.manifest.pins) > bound:
                    yield (told(database, c), f"split at {cut} and unite, {number} times",
                           f"{len(now.manifest.pins)} pins of {bound} manifest")
                    break


def sources_are_kept(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of a clone of a clone whose pin is made from a checkpoint that only its maker keeps."""
    for database, _ in databases(c, 1):
        ids = Ids()
        child = clone(c, f, database, "c", ids)
        kept = {pin.final for pin in child.manifest.pins}
        for pin in clone(c, f, child, "g", ids).manifest.pins:
            if pin.source not in kept:
                yield (told(database, c), "clone it as c, and c as g",
                       f"g needs the checkpoint {pin.source!r}, which anyone may delete; c keeps {sorted(kept)}")


# --- merging views

def merging_changes_nothing(c: Constants, f: Functions) -> Iterator[Story]:
    """Yield stories of manifests whose rows change, or their order, when views are merged."""
    for database, objects in shown(c):
        before = rows(database, c.KEYS, objects)
        after = rows(database._replace(manifest=f.merge(c, database.manifest, Ids())), c.KEYS, objects)
        if before != after:
            yield told(database, c), "merge views", changed(before, after)


CHECKS: Mapping[str, Callable[[Constants, Functions], Iterator[Story]]] = {
    "ProjectionIsRestriction": projection_is_restriction,
    "RunsAreSorted": runs_are_sorted,
    "PinsAreNeeded": pins_are_needed,
    "HalvesAreTheWhole": halves_are_the_whole,
    "HalvesAreAsFew": halves_are_as_few,
    "UnionIsTheSources": union_is_the_sources,
    "NewWritesAreNewest": new_writes_are_newest,
    "CompactionLosesNothing": compaction_loses_nothing,
    "PlannedCompactionLosesNothing": planned_compaction_loses_nothing,
    "PinsAreBounded": pins_are_bounded,
    "SourcesAreKept": sources_are_kept,
    "MergingChangesNothing": merging_changes_nothing,
}
