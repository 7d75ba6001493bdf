"""Safety: an answer has a block's matching datasets only, with a table of strings that has nothing else.

Blocks come in the order of tenants, shards, partitions, ULIDs. Of a dataset's labels the answer has the requested ones of each
set that satisfies the matchers; without requested labels it has none.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from highwater.impl.codecs.index.labels import flat, positions
from highwater.impl.codecs.index.messages import BlockMeta, fill
from highwater.impl.codecs.index.strings import fresh_table
from highwater.impl.index.query.found import Found
from highwater.impl.index.query.matching import Pair
from highwater.impl.index.query.meter import Meter

Own = tuple[int, int, list[tuple[int, int, list[int]]], list[str]]  # tenant, creator, (tenant, name, labels) of datasets; table
HIT = ("block", "place", "tenant", "name", "labels")  # columns


def projected(sets: Sequence[Sequence[Pair]], names: Sequence[int]) -> list[int]:
    """Return the labels of these names in each set, in the order of the names; what a set lacks is left out."""
    groups = []
    for pairs in sets:
        values = dict(reversed(pairs))  # the first one counts if a name is there twice
        groups.append(tuple((name, values[name]) for name in names if name in values))
    return flat(groups)


def blocks_of(found: Found, labels: Sequence[str], meter: Meter, new: Callable[[], Any] = BlockMeta) -> Iterator[Any]:
    """Yield a BlockMeta for each block of a unit that has a matching dataset, in the order of their ULIDs. `new` makes an empty
    one. Raises what `meter` raises.
    """
    columns = found.columns
    table = columns.strings
    names = [table.index[name] for name in labels if name and name in table.index]
    shown: dict[int, list[int]] = {}
    for number, sets in found.sets.items() if labels else ():
        meter.check()
        shown[number] = projected(sets, names)
    places: dict[int, list[int]] = {}  # of the hits in each block
    references: dict[int, list[int]] = {}  # tenant, name, labels of each
    for block, place, *three in zip(*(getattr(columns, name)[found.hits].tolist() for name in HIT)):
        places.setdefault(block, []).append(place)
        references.setdefault(block, []).extend(three)
    known: dict[tuple[int, ...], Own] = {}
    for number in sorted(places, key=columns.keys.__getitem__):
        meter.check()
        made = new()
        fill(made, columns.blocks[number])
        datasets = made.datasets
        only(datasets, places[number])
        key = (made.tenant, made.created_by, *references[number])
        own = known.get(key) or known.setdefault(key, own_of(key, shown, table.strings))
        made.tenant, made.created_by, parts, made.string_table[:] = own
        for dataset, part in zip(datasets, parts):
            dataset.tenant, dataset.name, dataset.labels[:] = part
        yield made


def own_of(references: Sequence[int], shown: dict[int, list[int]], strings: Sequence[str]) -> Own:
    """Return what a block with these references has in place of them, and its own table. `references`: tenant, creator, and for
    each dataset tenant, name and the number of its labels in `shown`. Raises UnknownString."""
    fresh, number_of = fresh_table(strings)
    tenant, creator = number_of(references[0]), number_of(references[1])
    datasets = []
    for at in range(2, len(references), 3):
        own, name = number_of(references[at]), number_of(references[at + 1])
        labels = list(shown.get(references[at + 2], ()))
        for place in positions(labels):
            labels[place] = number_of(labels[place])
        datasets.append((own, name, labels))
    return tenant, creator, datasets, list(fresh)


def only(datasets: Any, places: list[int]) -> None:
    """Remove all datasets but those at these places, which ascend."""
    end = len(datasets)
    for place in reversed(places):
        if place + 1 < end:
            del datasets[place + 1:end]
        end = place
    if end:
        del datasets[:end]
