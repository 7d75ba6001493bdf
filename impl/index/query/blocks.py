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


def projected(sets: Sequence[Sequence[Pair]], names: Sequence[int]) -> list[int]:
    """Return the labels of these names in each set, in the order of the names; what a set lacks is left out."""
    groups = []
    for pairs in sets:
        values = dict(reversed(pairs))  # the first one counts if a name is there twice
        groups.append(tuple((name, values[name]) for name in names if name in values))
    return flat(groups)


def blocks_of(found: Found, labels: Sequence[str], new: Callable[[], Any] = BlockMeta) -> Iterator[Any]:
    """Yield a BlockMeta for each block of a unit that has a matching dataset, in the order of their ULIDs. `new` makes an empty
    one.
    """
    columns = found.columns
    table = columns.strings
    names = [table.index[name] for name in labels if name and name in table.index]
    shown = {number: projected(sets, names) for number, sets in found.sets.items()} if labels else {}
    references = {number: positions(several) for number, several in shown.items()}
    chosen: dict[int, list[tuple[int, int]]] = {}
    for block, place, of in zip(columns.block[found.hits].tolist(), columns.place[found.hits].tolist(),
                                columns.labels[found.hits].tolist()):
        chosen.setdefault(block, []).append((place, of))
    for number in sorted(chosen, key=columns.keys.__getitem__):
        made, (fresh, number_of) = new(), fresh_table(table.strings)
        fill(made, columns.blocks[number])
        only(made.datasets, [place for place, _ in chosen[number]])
        made.tenant, made.created_by = number_of(made.tenant), number_of(made.created_by)
        for dataset, (_, of) in zip(made.datasets, chosen[number]):
            dataset.tenant, dataset.name = number_of(dataset.tenant), number_of(dataset.name)
            own = list(shown.get(of, ()))
            for at in references.get(of, ()):
                own[at] = number_of(own[at])
            dataset.labels[:] = own
        made.string_table[:] = list(fresh)
        yield made


def only(datasets: Any, places: list[int]) -> None:
    """Remove all datasets but those at these places, which ascend."""
    end = len(datasets)
    for place in reversed(places):
        if place + 1 < end:
            del datasets[place + 1:end]
        end = place
    if end:
        del datasets[:end]
