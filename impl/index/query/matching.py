"""Safety: a dataset is in an answer only if one of its label sets satisfies all matchers of the query.

There are two meanings. COMPAT is that of Pyroscope: `=` and `=~` need the label to be there, `!=` and `!~` hold where it is
missing. PROMETHEUS takes a missing label for an empty one. They differ where a label is missing: `{a=""}` and `{a=~".*"}` hold
without `a` only in PROMETHEUS, and `{a!=""}` only in COMPAT. COMPAT ignores a matcher of a label without a name. A dataset
without label sets is in no answer, not even to `{}`. If a set has a label twice, the first counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.index.query.meter import Meter
from highwater.impl.index.query.selector import EQUAL, NEGATIVE, NOT_EQUAL, Matcher

COMPAT, PROMETHEUS = SEMANTICS = ("compat", "prometheus")
Pair = tuple[int, int]  # name and value of a label, as references into a table of strings
MISSING = -1


class LabelSets(NamedTuple):
    """Some label sets whose references are into one table of strings, and their pairs by the names: one number a pair, so that
    the memory is in proportion to the pairs, however many names and sets there are."""

    sets: tuple[tuple[Pair, ...], ...]
    names: Any  # of each pair, ascending; of equal ones the sets ascend. The first pair counts if a set has a name twice
    numbers: Any  # of the pair's set
    values: Any  # of the pair

    def of_name(self, name: int) -> tuple[Any, Any]:
        """Return the numbers of the sets that have this name, and its value in each."""
        begin, end = np.searchsorted(self.names, (name, name + 1))
        return self.numbers[begin:end], self.values[begin:end]


def label_sets(sets: Sequence[tuple[Pair, ...]]) -> LabelSets:
    triples = [(name, number, value) for number, pairs in enumerate(sets) for name, value in dict(reversed(pairs)).items()]
    names, numbers, values = np.array(triples, dtype=np.int64).reshape(-1, 3).T
    order = np.lexsort((numbers, names))
    return LabelSets(tuple(sets), names[order], numbers[order], values[order])


def holding(of: LabelSets, matchers: Sequence[Matcher], strings: Sequence[str], index: dict[str, int], semantics: str,
            meter: Meter | None = None) -> Any:
    """Return for each set whether it satisfies all matchers. `index` has the number of each string.

    Each text is looked at once. Raises what `meter` raises."""
    good = np.ones(len(of.sets), bool)
    for matcher in matchers:
        if matcher.name or semantics == PROMETHEUS:
            good &= satisfying(of, matcher, strings, index, semantics, meter or Meter())
    return good


def satisfying(of: LabelSets, matcher: Matcher, strings: Sequence[str], index: dict[str, int], semantics: str,
               meter: Meter) -> Any:
    """Return for each set whether it satisfies one matcher."""
    meter.check()
    holds = matcher.predicate()
    if_missing = holds("") if semantics == PROMETHEUS else matcher.op in NEGATIVE
    found = np.full(len(of.sets), if_missing)
    numbers, values = of.of_name(index.get(matcher.name, MISSING))
    if matcher.op in (EQUAL, NOT_EQUAL):
        found[numbers] = (values == index.get(matcher.value, MISSING)) == (matcher.op == EQUAL)
        return found
    distinct, places = np.unique(values, return_inverse=True)
    numbers_of_texts: list[int] = distinct.tolist()
    good: list[bool] = []
    for number in numbers_of_texts:
        meter.check()
        good.append(holds(strings[number]))
    found[numbers] = np.array(good, bool)[places]
    return found
