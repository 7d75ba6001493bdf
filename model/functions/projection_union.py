"""Safety: a projection shows the rows of its source in a span, a union the rows of all its sources, and merging views
changes nothing. A compaction of the result loses no row, and rounds of projection and union keep the number of pins
bounded.

Projection, union and the merging of views, of SlateDB's RFC on checkpoints and clones, as functions on small manifests.
Each safeguard can be switched off; model/functions/projection_union_checks.py then finds the smallest manifest that shows
the harm.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from typing import NamedTuple

from highwater.model.functions.manifests import Database, Manifest, Pin, Run, View, effective


class Constants(NamedTuple):
    """The sizes of the values, and the safeguards."""

    KEYS: int = 4
    SSTS: int = 3  # of a database
    ROUNDS: int = 3  # of projection and union
    # Safeguards: switch one off and a property must fail
    CUT_VIEWS: bool = True  # a projection narrows each view; False: it only leaves out views without a key in the span
    NEXT_BOUNDS: bool = True  # a view in a run ends with the first key of the next one; False: where its SST may end
    SHARE_KEYS: bool = True  # and has that key, which both may have; False: it ends before it
    PRUNE_PINS: bool = True  # an SST that nothing shows is no longer pinned
    REFUSE_LOG: bool = True  # a database with rows in the log only is neither projected nor united
    REFUSE_OVERLAP: bool = True  # sources with a common key are not united
    CUT_TO_SPAN: bool = True  # what a source shows outside of its given span is left out
    ONE_OWNER: bool = True  # sources with equal SST numbers of different owners are not united
    FRESH_VIEW_IDS: bool = True  # a union gives its views new ids; False: it copies them, as release 0.17.0 does
    JOIN_TIERS: bool = True  # runs with one id become one run of a union; False: a union has several runs with one id
    LARGEST_SEQ: bool = True  # a union goes on after the largest sequence number of all; False: of the first source
    PIN_BY_MANIFEST: bool = True  # pins of one owner and manifest are one; False: of one owner and checkpoint, as the RFC says
    SOURCE_IS_FINAL: bool = True  # a pin is made from the final checkpoint of the source; False: from the one that this was of
    NO_GAPS: bool = True  # only views without a gap between them are merged
    KEEP_ORDER: bool = True  # a view passes no view that it overlaps; False: L0 is ordered by the numbers of its SSTs
    WITHIN_L0: bool = True  # L0 and runs are merged by themselves; False: a view of a run is merged into one of L0
    MERGED_HAS_NEW_ID: bool = True  # a merged view has an id of its own; False: the id of the first


SAFEGUARDS = frozenset(name for name in Constants._fields if name.isupper()) - {"KEYS", "SSTS", "ROUNDS"}


class Refused(Exception):
    """The function does not take this value."""


class Source(NamedTuple):
    database: Database
    manifest: int  # the number of the manifest
    checkpoint: str  # that names it
    span: tuple[int, int] | None = None


class Ids:
    """Ids that nobody has used."""

    def __init__(self, first: int = 100):
        self.last = first

    def new(self) -> int:
        self.last += 1
        return self.last


class Functions(NamedTuple):
    """The functions of this module, or others to be held against the same properties. Each raises Refused."""

    project: Callable[[Constants, Manifest, tuple[int, int]], Manifest]
    union: Callable[[Constants, list[Source], Ids], Manifest]
    merge: Callable[[Constants, Manifest, Ids], Manifest]


# --- projection

def project(c: Constants, m: Manifest, span: tuple[int, int]) -> Manifest:
    if m.log and c.REFUSE_LOG:
        raise Refused("rows in the log")
    l0 = narrowed(c, [(view, effective(view, c.KEYS)) for view in m.l0], span)
    runs = [Run(run.id, narrowed(c, bounded(c, run.views), span)) for run in m.runs]
    runs = tuple(run for run in runs if run.views)
    shown = {view.sst.number for view in m._replace(l0=l0, runs=runs).views}
    return m._replace(l0=l0, runs=runs, pins=pruned(m.pins, shown) if c.PRUNE_PINS else m.pins)


def bounded(c: Constants, views: tuple[View, ...]) -> list[tuple[View, tuple[int, int]]]:
    """Return the views of a run with the keys that each shows."""
    spans = [effective(view, c.KEYS) for view in views]
    if c.NEXT_BOUNDS:
        spans = [(start, min(end, following + c.SHARE_KEYS)) for (start, end), (following, _) in pairwise(
            [*spans, (c.KEYS, c.KEYS)])]
    return list(zip(views, spans))


def narrowed(c: Constants, views: list[tuple[View, tuple[int, int]]], span: tuple[int, int]) -> tuple[View, ...]:
    cut = [(view, max(start, span[0]), min(end, span[1])) for view, (start, end) in views]
    return tuple(view._replace(start=start, end=end) if c.CUT_VIEWS else view for view, start, end in cut if start < end)


def pruned(pins: tuple[Pin, ...], shown: set[int]) -> tuple[Pin, ...]:
    left = (pin._replace(ssts=pin.ssts & shown) for pin in pins)
    return tuple(pin for pin in left if pin.ssts)


# --- union

def union(c: Constants, sources: list[Source], ids: Ids) -> Manifest:
    parts = [part(c, source) for source in sources]
    parts.sort(key=lambda one: hull(c, one[1])[0])
    spans = sorted(source.span for source in sources if source.span)
    hulls = [hull(c, m) for _, m, _ in parts if m.views]
    if c.REFUSE_OVERLAP and any(one[1] > other[0] for those in (spans, hulls) for one, other in pairwise(those)):
        raise Refused("a common key")
    if any(one[1] < other[0] for one, other in pairwise(spans)):
        raise Refused("a gap")
    pins = [pin for _, _, those in parts for pin in those]
    owners = {(pin.owner, sst) for pin in pins for sst in pin.ssts}
    if c.ONE_OWNER and len({sst for _, sst in owners}) < len(owners):
        raise Refused("two owners")
    l0 = tuple(renamed(c, view, ids) for _, m, _ in parts for view in m.l0)
    last = [m.last_seq for _, m, _ in parts]
    return Manifest(l0, tiers(c, [m for _, m, _ in parts], ids), deduplicated(c, pins, ids), frozenset(),
                    max(last) if c.LARGEST_SEQ else last[0])


def part(c: Constants, source: Source) -> tuple[Source, Manifest, list[Pin]]:
    """Return a source, what it shows, and the pins that this needs."""
    m = project(c, source.database.manifest, source.span if source.span and c.CUT_TO_SPAN else (0, c.KEYS))
    pins = [pin._replace(source=pin.final if c.SOURCE_IS_FINAL else pin.source) for pin in m.pins]
    others = {sst for pin in pins for sst in pin.ssts}
    own = frozenset(view.sst.number for view in m.views) - others
    if own:
        pins.append(Pin(source.database.path, source.manifest, source.checkpoint, "", own))
    return source, m, pins


def hull(c: Constants, m: Manifest) -> tuple[int, int]:
    spans = [effective(view, c.KEYS) for view in m.views]
    return min((start for start, _ in spans), default=0), max((end for _, end in spans), default=0)


def renamed(c: Constants, view: View, ids: Ids) -> View:
    return view._replace(id=ids.new()) if c.FRESH_VIEW_IDS else view


def tiers(c: Constants, parts: list[Manifest], ids: Ids) -> tuple[Run, ...]:
    """Return the runs of all parts, the newest first; those of one id are one, because parts have no key in common."""
    runs = [Run(run.id, tuple(renamed(c, view, ids) for view in run.views)) for m in parts for run in m.runs]
    if not c.JOIN_TIERS:
        return tuple(runs)
    known = sorted({run.id for run in runs}, reverse=True)
    return tuple(Run(one, tuple(view for run in runs if run.id == one for view in run.views)) for one in known)


def deduplicated(c: Constants, pins: list[Pin], ids: Ids) -> tuple[Pin, ...]:
    """Return pins of the same SSTs, each with a final checkpoint of its own: one for each owner and manifest. Each SST is
    in one of them."""
    groups: dict[tuple, Pin] = {}
    for pin in pins:
        key = pin.owner, pin.manifest if c.PIN_BY_MANIFEST else pin.source
        first = groups.setdefault(key, pin)
        groups[key] = first._replace(ssts=first.ssts | pin.ssts)
    kept: list[Pin] = []
    for pin in sorted(groups.values(), key=lambda pin: -len(pin.ssts)):
        others = [other.ssts for other in kept if other.owner == pin.owner and c.PIN_BY_MANIFEST]
        if left := pin.ssts.difference(*others):
            kept.append(pin._replace(ssts=left, final=f"final {ids.new()}"))
    return tuple(kept)


# --- merging views

def merge(c: Constants, m: Manifest, ids: Ids) -> Manifest:
    groups: list[Group] = [(view,) for view in m.l0]
    while following := next(merged_once(c, m.l0, groups), None):
        groups = following
    runs = tuple(run._replace(views=merged_run(c, run.views, ids)) for run in m.runs)
    return across(c, m._replace(l0=tuple(one_of(c, group, ids) for group in groups), runs=runs))


Group = tuple[View, ...]  # views of L0 that become one


def merged_once(c: Constants, l0: tuple[View, ...], groups: list[Group]) -> Iterator[list[Group]]:
    """Yield the groups in a possible order after two of them were merged."""
    for a, b in permutations(groups, 2):
        if adjoin(c, a[-1], b[0]):
            merged = [a + b if group is a else group for group in groups if group is not b]
            if order := possible_order(c, l0, merged):
                yield order


def possible_order(c: Constants, l0: tuple[View, ...], groups: list[Group]) -> list[Group] | None:
    """Return the groups in an order in which no view passes one that it overlaps; None if there is none."""
    if not c.KEEP_ORDER:
        return sorted(groups, key=lambda group: -group[0].sst.number)
    order: list[Group] = []
    while left := [group for group in groups if group not in order]:
        if (following := next((group for group in left if not waits(c, l0, group, left)), None)) is None:
            return None
        order.append(following)
    return order


def waits(c: Constants, l0: tuple[View, ...], group: Group, left: list[Group]) -> bool:
    """Tell whether a view of another group that is left is newer than one of this group, and overlaps it."""
    others = [view for other in left if other is not group for view in other]
    return any(overlap(c, newer, view) for view in group for newer in l0[:l0.index(view)] if newer in others)


def overlap(c: Constants, a: View, b: View) -> bool:
    (start, end), (other_start, other_end) = effective(a, c.KEYS), effective(b, c.KEYS)
    return max(start, other_start) < min(end, other_end)


def adjoin(c: Constants, a: View, b: View) -> bool:
    """Tell whether `b` shows the keys of the same SST that follow those of `a`."""
    (_, end), (start, _) = effective(a, c.KEYS), effective(b, c.KEYS)
    return a.sst == b.sst and (end == start if c.NO_GAPS else end <= start)


def one_of(c: Constants, group: Group, ids: Ids) -> View:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return first
    return View(ids.new() if c.MERGED_HAS_NEW_ID else first.id, first.sst, first.start, last.end)


def merged_run(c: Constants, views: tuple[View, ...], ids: Ids) -> tuple[View, ...]:
    groups: list[Group] = []
    for view in views:
        if groups and adjoin(c, groups[-1][-1], view):
            groups[-1] += (view,)
        else:
            groups.append((view,))
    return tuple(one_of(c, group, ids) for group in groups)


def across(c: Constants, m: Manifest) -> Manifest:
    """Return the manifest with views of runs merged into those of L0, if WITHIN_L0 is off."""
    for run in m.runs if not c.WITHIN_L0 else ():
        for view in run.views:
            for place, first in enumerate(m.l0):
                if adjoin(c, first, view):
                    left = tuple(other for other in run.views if other is not view)
                    runs = tuple(other if other is not run else run._replace(views=left) for other in m.runs)
                    l0 = (*m.l0[:place], first._replace(end=view.end), *m.l0[place + 1:])
                    return m._replace(l0=l0, runs=tuple(one for one in runs if one.views))
    return m


OURS = Functions(project, union, merge)
