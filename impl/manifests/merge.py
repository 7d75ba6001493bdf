"""Safety: merging views changes neither the rows that a manifest shows nor the order of a key's versions.

«Merging SST» of SlateDB's RFC on checkpoints and clones. Two views of one SST become one if the second begins where the
first ends. «views over the same SST might not be adjacent, i.e. have gaps; preserving those gaps is necessary». In L0 a
view that moves must not pass a view that has a key in common with it. The order in L0 decides this, not the time in a ULID:
«due to a wall clock skew, parents' SST ULIDs are later than the children's ones».
"""

from collections.abc import Callable
from itertools import pairwise

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import Sst, View
from highwater.impl.manifests import readable
from highwater.impl.manifests.spans import Span, effective, in_run, meet, with_span
from highwater.impl.manifests.union import fresh_view_ids

Group = list[int]  # places in L0 of views that become one, in the order of their keys


def merge_views(manifest: Manifest, new_id: Callable[[], str]) -> Manifest:
    """Return the manifest with adjacent views of one SST merged, in L0 and within each sorted run.

    A merged view has a new id. A compaction that names the old one must not find a view with more keys. So call this before
    a compactor has seen the manifest, as after a union. Raises Malformed, HasNoViews, HasSegments, NewerFields.
    """
    readable.check(manifest)
    ssts = readable.ssts_of(manifest)
    view_id = fresh_view_ids(new_id, {view.id for view in manifest.views})
    l0 = merged_l0(manifest.l0, ssts, view_id)
    runs = (run._replace(views=merged_run(in_run(run.id, run.views, ssts), ssts, view_id)) for run in manifest.compacted)
    return manifest._replace(l0=l0, compacted=tuple(runs))


def merged(views: list[tuple[View, Span]], ssts: dict[str, Sst], view_id: Callable[[View], str]) -> View:
    """Return one view with the keys of adjacent ones, which are in the order of their keys."""
    (first, span), (_, last) = views[0], views[-1]
    if len(views) == 1:
        return first
    return with_span(first._replace(id=view_id(first)), Span(span.start, last.end), ssts[first.sst_id])


def merged_run(views: list[tuple[View, Span]], ssts: dict[str, Sst], view_id: Callable[[View], str]) -> tuple[View, ...]:
    """Merge neighbours of a sorted run."""
    groups: list[list[tuple[View, Span]]] = []
    for view, span in views:
        if groups and groups[-1][-1][0].sst_id == view.sst_id and groups[-1][-1][1].end == span.start:
            groups[-1].append((view, span))
        else:
            groups.append([(view, span)])
    return tuple(merged(group, ssts, view_id) for group in groups)


def merged_l0(l0: tuple[View, ...], ssts: dict[str, Sst], view_id: Callable[[View], str]) -> tuple[View, ...]:
    """Merge views of L0 one pair after the other, as long as an order is left in which no view passes one that it
    overlaps."""
    spans = [effective(view, ssts) for view in l0]
    before = {place: {other for other in range(place) if overlap(spans[other], spans[place])} for place in range(len(l0))}
    groups: dict[int, Group] = {place: [place] for place in range(len(l0))}  # by the place of the first of its views
    for left, right in adjacent(l0, spans):
        a, b = (next(at for at, group in groups.items() if place in group) for place in (left, right))
        if not is_between(before, a, b) and not is_between(before, b, a):
            groups[a] += groups.pop(b)
            before = contracted(before, a, b)
    order = sorted_by_need(before, {at: min(group) for at, group in groups.items()})
    return tuple(merged([(l0[place], spans[place] or Span()) for place in groups[at]], ssts, view_id) for at in order)


def overlap(a: Span | None, b: Span | None) -> bool:
    return bool(a and b and meet(a, b))


def adjacent(l0: tuple[View, ...], spans: list[Span | None]) -> list[tuple[int, int]]:
    """Return the pairs of places whose views show one SST, the second from the end of the first on; in the order of
    keys."""
    shown = sorted((view.sst_id, span.start, place) for place, (view, span) in enumerate(zip(l0, spans)) if span)
    return [(left, right) for (sst, _, left), (other, start, right) in pairwise(shown)
            if sst == other and (span := spans[left]) and span.end == start]


def is_between(before: dict[int, set[int]], first: int, last: int) -> bool:
    """Return whether some other group must come after `first` and before `last`, or `last` itself after `first`."""
    todo, seen = [last], {last}
    while todo:
        for at in sorted(before[todo.pop()] - seen):
            if at == first:
                return True
            seen.add(at)
            todo.append(at)
    return False


def contracted(before: dict[int, set[int]], a: int, b: int) -> dict[int, set[int]]:
    """Return what must come before each group, after `b` has become a part of `a`."""
    both = before[a] | before[b]
    return {at: {a if one == b else one for one in (both if at == a else those)} for at, those in before.items() if at != b}


def sorted_by_need(before: dict[int, set[int]], place: dict[int, int]) -> list[int]:
    """Return the groups in an order in which each comes after what must be before it; the first place wins among
    several."""
    order: list[int] = []
    while len(order) < len(before):
        done = set(order)
        order.append(min((at for at in before if at not in done and before[at] <= done), key=lambda at: place[at]))
    return order
