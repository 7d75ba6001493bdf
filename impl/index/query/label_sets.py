"""Safety: the label sets of an answer are those of datasets that the query matches, each once, without a block being read."""

from collections.abc import Iterable, Sequence
from typing import Any

from highwater.impl.codecs.index.messages import Labels
from highwater.impl.index.query.found import Found
from highwater.impl.index.query.meter import PAIR_BYTES, Meter


def add_values(found: Found, labels: Sequence[str], values: set[tuple[str, ...]], meter: Meter) -> int:
    """Add the values of these labels in the sets of a unit that satisfy the matchers; "" for one that is missing. Return the
    letters that were added. Raises what `meter` raises."""
    table = found.columns.strings
    names = [table.index.get(name) if name else None for name in labels]
    letters = 0
    for sets in found.sets.values():
        for pairs in sets:
            of, known = dict(reversed(pairs)), len(values)
            texts = tuple([table.strings[of[name]] if name in of else "" for name in names])
            values.add(texts)
            if len(values) > known:
                meter.hold(PAIR_BYTES * len(texts))
                letters += sum(map(len, texts))
    return letters


def messages_of(labels: Sequence[str], values: Iterable[tuple[str, ...]]) -> list[Any]:
    """Return a Labels message for each combination of values, sorted."""
    return [Labels(labels=[{"name": name, "value": value} for name, value in zip(labels, of)]) for of in sorted(values)]
