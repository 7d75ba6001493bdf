"""Safety, for any keys and any number of views and sources: the facts about spans on which projection, union and the
merging of views rest.

A span has the keys k with start <= k < end; `end` may be infinite, which is a key that no row has. Each key has a next one,
as b"k" has b"k\\0". The lemmas are proved for integers, and hold for any total order with next keys: a lemma compares
finitely many keys, and a counterexample in any such order can be numbered so that it is one in the integers. A fact about
any number of views or sources is proved by induction: a lemma is the step.

Each lemma has a safeguard: a knob of model/functions/projection_union.py, or one of the conversion of bounds. With it off,
Z3 finds a counterexample. `REFUTED` lists them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import z3

from highwater.model.functions.projection_union import Constants
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or


class Knobs(NamedTuple):
    """The safeguards of the functions, and those of the conversion of bounds."""

    functions: Constants = Constants()
    END_INCLUDES: bool = True  # an included end k is the end before the next key of k; False: before k
    HALF_OPEN: bool = True  # of two parts, only the second has the key at the cut; False: both have it


class Span(NamedTuple):
    start: Any
    end: Any


def span(name: str) -> Span:
    return Span(z3.Int(f"{name}.start"), z3.Int(f"{name}.end"))


def has(of: Span, key: Any) -> Any:
    return And(of.start <= key, key < of.end)


def meet(a: Span, b: Span, cut: bool = True) -> Span:
    """Return the keys of both; without the safeguard, those of `a`."""
    return Span(If(a.start < b.start, b.start, a.start), If(a.end < b.end, a.end, b.end)) if cut else a


k = z3.Int("k")  # any key


# --- the lemmas

def bounds_are_spans(c: Knobs) -> Any:
    """A range with an excluded start and an included end."""
    start, end = z3.Ints("start end")
    made = Span(start + 1, end + 1 if c.END_INCLUDES else end)
    return has(made, k) == And(start < k, k <= end)


def intersection(c: Knobs) -> Any:
    """The intersection of two spans has the keys of both."""
    a, b = span("a"), span("b")
    return has(meet(a, b, c.functions.CUT_VIEWS), k) == And(has(a, k), has(b, k))


def only_narrowed(c: Knobs) -> Any:
    """Projected twice is projected once, to the keys of both spans."""
    view, a, b = span("view"), span("a"), span("b")
    cut = c.functions.CUT_VIEWS
    return has(meet(meet(view, a, cut), b, cut), k) == has(meet(view, meet(a, b)), k)


def next_bounds(c: Knobs) -> Any:
    """A view of a run ends with the first key of the next one. Then the two have only that key in common, and no row of the
    run is lost: the last row of the first view's SST is at the next start or before."""
    view, following, last = span("view"), span("following"), z3.Int("last")
    end = following.start + 1 if c.functions.SHARE_KEYS else following.start
    bound = Span(view.start, end) if c.functions.NEXT_BOUNDS else view
    known = And(view.start <= following.start, last <= following.start, following.start < view.end)
    shared = Implies(And(has(bound, k), has(following, k)), k == following.start)
    return Implies(known, And(shared, Implies(And(has(view, k), k <= last), has(bound, k))))


def chain_shares_one(c: Knobs) -> Any:
    """The step of an induction: if no view before n has a key after the first one of n, then no view before n + 1 has a key
    after the first one of n + 1. So it suffices to compare neighbours."""
    earlier, now, following = span("earlier"), span("now"), span("following")
    most = following.start + 1 if c.functions.NEXT_BOUNDS else now.end
    known = And(earlier.end <= now.start + 1, now.start <= following.start, now.end <= most)
    shared = [Implies(And(has(one, k), has(following, k)), k == following.start) for one in (earlier, now)]
    return Implies(known, And(earlier.end <= following.start + 1, *shared))


def cut_covers(c: Knobs) -> Any:
    """A key of a span is in exactly one of the parts before the cut and from it on."""
    whole, cut = span("whole"), z3.Int("cut")
    left = meet(whole, Span(whole.start, cut if c.HALF_OPEN else cut + 1))
    right = meet(whole, Span(cut, whole.end))
    return And(has(whole, k) == Or(has(left, k), has(right, k)), Not(And(has(left, k), has(right, k))))


def adjacent_merge(c: Knobs) -> Any:
    """Two views of one SST, the second from the end of the first on, show what one view of both shows."""
    a, b = span("a"), span("b")
    touching = a.end == b.start if c.functions.NO_GAPS else a.end <= b.start
    known = And(a.start <= a.end, b.start <= b.end, touching)
    return Implies(known, has(Span(a.start, b.end), k) == Or(has(a, k), has(b, k)))


def sorted_are_disjoint(c: Knobs) -> Any:
    """The step of an induction: if source n starts at the ends of all sources before it or later, so does source n + 1,
    which starts at the end of n or later. So it suffices to compare neighbours."""
    earlier, now, following = span("earlier"), span("now"), span("following")
    checked = now.end <= following.start if c.functions.REFUSE_OVERLAP else now.start <= following.start
    known = And(earlier.end <= now.start, now.start <= now.end, checked)
    disjoint = [Not(And(has(one, k), has(following, k))) for one in (earlier, now)]
    return Implies(known, And(earlier.end <= following.start, *disjoint))


def order_is_kept(c: Knobs) -> Any:
    """A view moves past another in L0 only if they have no key in common. So no key has versions in both, whose order could
    change."""
    a, b = span("a"), span("b")
    both = meet(a, b)
    may_pass = both.end <= both.start if c.functions.KEEP_ORDER else True
    return Implies(may_pass, Not(And(has(a, k), has(b, k))))


LEMMAS: dict[str, Callable[[Knobs], Any]] = {  # a formula; its free constants are any values
    "BoundsAreSpans": bounds_are_spans,
    "Intersection": intersection,
    "OnlyNarrowed": only_narrowed,
    "NextBounds": next_bounds,
    "ChainSharesOne": chain_shares_one,
    "CutCovers": cut_covers,
    "AdjacentMerge": adjacent_merge,
    "SortedAreDisjoint": sorted_are_disjoint,
    "OrderIsKept": order_is_kept,
}
OFF = Constants()
REFUTED = [  # a lemma, and the knobs without a safeguard that it needs
    ("BoundsAreSpans", Knobs(END_INCLUDES=False)),
    ("Intersection", Knobs(OFF._replace(CUT_VIEWS=False))),
    ("OnlyNarrowed", Knobs(OFF._replace(CUT_VIEWS=False))),
    ("NextBounds", Knobs(OFF._replace(NEXT_BOUNDS=False))),
    ("NextBounds", Knobs(OFF._replace(SHARE_KEYS=False))),
    ("ChainSharesOne", Knobs(OFF._replace(NEXT_BOUNDS=False))),
    ("CutCovers", Knobs(HALF_OPEN=False)),
    ("AdjacentMerge", Knobs(OFF._replace(NO_GAPS=False))),
    ("SortedAreDisjoint", Knobs(OFF._replace(REFUSE_OVERLAP=False))),
    ("OrderIsKept", Knobs(OFF._replace(KEEP_ORDER=False))),
]


def counterexample(name: str, knobs: Knobs | None = None) -> str | None:
    """Return values for which a lemma does not hold; None if it is proved."""
    solver = z3.Solver()
    solver.add(Not(LEMMAS[name](knobs or Knobs())))
    found = solver.check()
    assert found != z3.unknown, "linear arithmetic without quantifiers is decidable"
    return str(solver.model()) if found == z3.sat else None
