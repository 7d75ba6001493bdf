"""Safety: a dataset is in an answer only if one of its label sets satisfies all matchers of the query.

There are two meanings. COMPAT is that of Pyroscope: `=` and `=~` need the label to be there, `!=` and `!~` hold where it is
missing. PROMETHEUS takes a missing label for an empty one. They differ where a label is missing: `{a=""}` and `{a=~".*"}` hold
without `a` only in PROMETHEUS, and `{a!=""}` only in COMPAT. COMPAT ignores a matcher of a label without a name. A dataset
without label sets is in no answer, not even to `{}`. If a set has a label twice, the first counts.
"""

from collections.abc import Callable, Sequence

from highwater.impl.index.query.selector import NEGATIVE, Matcher

COMPAT, PROMETHEUS = SEMANTICS = ("compat", "prometheus")
Pair = tuple[int, int]  # name and value of a label, as references into a table of strings
Condition = Callable[[Sequence[Pair]], bool]  # of one label set


def satisfies(pairs: Sequence[Pair], conditions: Sequence[Condition]) -> bool:
    """Return whether one label set satisfies all conditions."""
    return all(condition(pairs) for condition in conditions)


def conditions_of(matchers: Sequence[Matcher], strings: Sequence[str], index: dict[str, int], semantics: str
                  ) -> list[Condition]:
    """Return the conditions of these matchers for label sets that refer into a table. `index` has the number of each string.

    Each string is looked at once."""
    return [condition_of(matcher, strings, index, semantics) for matcher in matchers if matcher.name or semantics == PROMETHEUS]


def condition_of(matcher: Matcher, strings: Sequence[str], index: dict[str, int], semantics: str) -> Condition:
    holds, known, named = matcher.predicate(), dict[int, bool](), index.get(matcher.name)
    if_missing = holds("") if semantics == PROMETHEUS else matcher.op in NEGATIVE

    def condition(pairs: Sequence[Pair]) -> bool:
        for name, value in pairs:
            if name == named:
                found = known.get(value)
                if found is None:
                    found = known[value] = holds(strings[value])
                return found
        return if_missing

    return condition
