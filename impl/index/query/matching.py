"""Safety: a dataset is in an answer only if one of its label sets satisfies all matchers of the query.

There are two meanings. COMPAT is that of Pyroscope: `=` and `=~` need the label to be there, `!=` and `!~` hold where it is
missing. PROMETHEUS takes a missing label for an empty one. They differ where a label is missing: `{a=""}` and `{a=~".*"}` hold
without `a` only in PROMETHEUS, and `{a!=""}` only in COMPAT. COMPAT ignores a matcher of a label without a name. A dataset
without label sets is in no answer, not even to `{}`. If a set has a label twice, the first counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.index.query.selector import EQUAL, NEGATIVE, NOT_EQUAL, Matcher

COMPAT, PROMETHEUS = SEMANTICS = ("compat", "prometheus")
Pair = tuple[int, int]  # name and value of a label, as references into a table of strings
MISSING = -1


class LabelSets(NamedTuple):
    """Some label sets whose references are into one table of strings, by columns."""

    sets: tuple[tuple[Pair, ...], ...]
    values: dict[int, Any]  # name -> for each set the value of that label, or MISSING; the first one if it is there twice


def label_sets(sets: Sequence[tuple[Pair, ...]]) -> LabelSets:
    values: dict[int, Any] = {}
    for number, pairs in enumerate(sets):
        for name, value in reversed(pairs):
            if name not in values:
                values[name] = np.full(len(sets), MISSING, np.int32)
            values[name][number] = value
    return LabelSets(tuple(sets), values)


def holding(of: LabelSets, matchers: Sequence[Matcher], strings: Sequence[str], index: dict[str, int], semantics: str) -> Any:
    """Return for each set whether it satisfies all matchers. `index` has the number of each string.

    Each text is looked at once."""
    good = np.ones(len(of.sets), bool)
    for matcher in matchers:
        if matcher.name or semantics == PROMETHEUS:
            good &= satisfying(of, matcher, strings, index, semantics)
    return good


def satisfying(of: LabelSets, matcher: Matcher, strings: Sequence[str], index: dict[str, int], semantics: str) -> Any:
    """Return for each set whether it satisfies one matcher."""
    holds = matcher.predicate()
    if_missing = holds("") if semantics == PROMETHEUS else matcher.op in NEGATIVE
    values = of.values.get(index.get(matcher.name, MISSING))
    if values is None:
        return np.full(len(of.sets), if_missing)
    if matcher.op in (EQUAL, NOT_EQUAL):
        found = values == index.get(matcher.value, MISSING)
        if matcher.op == NOT_EQUAL:
            found = ~found
    else:
        distinct, places = np.unique(values, return_inverse=True)
        numbers: list[int] = distinct.tolist()
        found = np.array([number != MISSING and holds(strings[number]) for number in numbers])[places]
    found[values == MISSING] = if_missing
    return found
