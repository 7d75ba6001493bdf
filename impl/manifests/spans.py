"""Safety: a range in a file and a span in memory have the same keys, whatever the kinds of the range's bounds.

A span has the keys from `start` on and before `end`. Nothing is between a key k and k + b"\\0". So a bound that includes k
as the last key, or excludes it as the first, is the same as one at k + b"\\0", and each range has one span.
"""

from itertools import pairwise
from typing import NamedTuple

from highwater.impl.codecs.slatedb.tables import EXCLUDED, INCLUDED, UNBOUNDED, Bound, Range, Sst, View
from highwater.impl.errors import Definite


class Malformed(Definite):
    """A manifest breaks a rule that all readers rely on, so no function of it means anything."""


class Span(NamedTuple):
    """The keys from `start` on and before `end`; None is after every key."""

    start: bytes = b""
    end: bytes | None = None

    def __str__(self) -> str:
        return f"[{self.start!r}, {'..' if self.end is None else repr(self.end)})"

    def ends_by(self, key: bytes) -> bool:
        """Return whether every key of the span is before `key`."""
        return self.end is not None and self.end <= key


EVERYTHING = Span()


def meet(a: Span, b: Span) -> Span | None:
    """Return the keys that both spans have; None if there are none."""
    ends = [end for end in (a.end, b.end) if end is not None]
    both = Span(max(a.start, b.start), min(ends, default=None))
    return None if both.ends_by(both.start) else both


def hull(spans: list[Span]) -> Span | None:
    """Return the smallest span that has all keys of these; None if there are no spans."""
    if not spans:
        return None
    ends = [span.end for span in spans if span.end is not None]
    return Span(min(span.start for span in spans), max(ends) if len(ends) == len(spans) else None)


def after(key: bytes) -> bytes:
    """Return the key that follows `key` at once."""
    return key + b"\0"


def span_of(visible: Range | None) -> Span:
    """Return the span of a range in a file. Raises Malformed."""
    if visible is None:
        return Span()
    start, end = visible

    def key_of(bound: Bound) -> bytes:
        if bound.key is None or bound.kind not in (INCLUDED, EXCLUDED):
            raise Malformed(f"the manifest has the bound {bound}, which is of no kind: it is damaged")
        return bound.key

    first = b"" if start.kind == UNBOUNDED else after(key_of(start)) if start.kind == EXCLUDED else key_of(start)
    last = None if end.kind == UNBOUNDED else after(key_of(end)) if end.kind == INCLUDED else key_of(end)
    return Span(first, last)


def range_of(span: Span) -> Range:
    """Return the range of a span. A released reader wants the start included, or no start."""
    start = Bound(span.start, INCLUDED) if span.start else Bound(None, UNBOUNDED)
    if span.end is None:
        return Range(start, Bound(None, UNBOUNDED))
    return Range(start, Bound(span.end[:-1], INCLUDED) if span.end.endswith(b"\0") else Bound(span.end, EXCLUDED))


def physical(sst: Sst) -> Span:
    """Return the span of an SST's keys. Older releases do not write the last key; then nothing is known of the end."""
    last = sst.info.last_entry
    return Span(sst.info.first_entry or b"", None if last is None else after(last))


def effective(view: View, ssts: dict[str, Sst]) -> Span | None:
    """Return the visible keys of a view's SST; None if it shows none. Raises Malformed."""
    if view.sst_id not in ssts:
        raise Malformed(f"view {view.id} shows SST {view.sst_id}, which the manifest does not list: it is damaged")
    return meet(physical(ssts[view.sst_id]), span_of(view.visible_range))


def in_run(run_id: int, views: tuple[View, ...], ssts: dict[str, Sst]) -> list[tuple[View, Span]]:
    """Return the views of a sorted run that show keys, and which keys, in the order of the run.

    Neighbours may share one key: the last of the one is the first of the other. A compactor writes this if a key has more
    versions than fit into an SST, and then a key may be in many SSTs, [a..k] [k..k] [k..m]. Its versions descend from SST to
    SST, which the reader of the rows checks (`in_order` of impl/db/reader.py). If the last key of an SST is not known, its
    span ends behind the first key of the next view, which both may have.

    Raises Malformed if the views are not in the order of their keys, or if two share more than that. Cutting one of them
    would then hide a version of a key.
    """
    shown = [(view, span) for view in views if (span := effective(view, ssts))]
    for place, ((view, span), (follower, following)) in enumerate(pairwise(shown)):
        if following.start < span.start:
            raise Malformed(f"run {run_id} has view {view.id} of {span} before view {follower.id} of {following}: it is not "
                            "sorted")
        shared = Span(span.start, after(following.start))
        if meet(shared, span) == span:
            continue
        if ssts[view.sst_id].info.last_entry is not None:
            raise Malformed(f"run {run_id} has view {view.id} of {span} and view {follower.id} of {following}: both have the "
                            f"keys from {following.start!r} on, and neighbours may share one key only")
        shown[place] = view, shared
    return shown


def with_span(view: View, span: Span, sst: Sst) -> View:
    """Return the view with exactly this span of its SST."""
    return view._replace(visible_range=None if span == physical(sst) else range_of(span))
