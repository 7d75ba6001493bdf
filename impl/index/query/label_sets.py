"""Safety: the label sets of an answer are those of datasets that the query matches, each once, without a block being read."""

from collections.abc import Iterable, Sequence
from typing import Any

from highwater.impl.codecs.index.messages import Labels
from highwater.impl.index.query.found import Found


def values_of(found: Found, labels: Sequence[str]) -> set[tuple[str, ...]]:
    """Return the values of these labels in the sets of a unit that satisfy the matchers; "" for one that is missing."""
    table = found.columns.strings
    names = [table.index.get(name) if name else None for name in labels]
    values = set[tuple[str, ...]]()
    for sets in found.sets.values():
        for pairs in sets:
            of = dict(reversed(pairs))
            values.add(tuple([table.strings[of[name]] if name in of else "" for name in names]))
    return values


def messages_of(labels: Sequence[str], values: Iterable[tuple[str, ...]]) -> list[Any]:
    """Return a Labels message for each combination of values, sorted."""
    return [Labels(labels=[{"name": name, "value": value} for name, value in zip(labels, of)]) for of in sorted(values)]
