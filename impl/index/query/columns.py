"""Safety: a cached unit answers as its rows do, because the key of the cache says which rows these are.

A query looks at a few columns of many datasets: times, tenant, labels. They are read once from a unit's rows into arrays. The
key has the unit, the log index at which it was made, and its version, which each change of the unit raises. So a unit that was
dropped and made again has another key. Of a unit that has changed only the new blocks are decoded: since it was made, its table
of strings has only grown.
"""

from collections import OrderedDict
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.labels import groups_of
from highwater.impl.codecs.index.messages import BlockMeta, decode
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.codecs.index.strings import EMPTY, Table
from highwater.impl.index import units
from highwater.impl.index.kv import Rows, View, under
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.query.matching import LabelSets, Pair, label_sets
from highwater.impl.index.query.meter import DATASET_BYTES, PAIR_BYTES, Meter

CACHED_DATASETS = 2_000_000  # of the units that are kept, by default
MOST_ASKED = 100  # groups of tenants whose units are known
MOST_UNITS = 200_000  # that are known for these groups


class Columns(NamedTuple):
    """The blocks of a unit, in any order, and their datasets. Arrays have one number a dataset."""

    strings: Table
    blocks: tuple[bytes, ...]  # their rows
    keys: tuple[bytes, ...]  # and the keys of these
    numbers: dict[bytes, int]  # key of a row -> the block's number
    block: Any  # the number of the dataset's block
    place: Any  # its place in the block
    min_ms: Any  # its times, inside its block's; a dataset without times has the block's
    max_ms: Any
    tenant: Any  # a reference into the strings
    name: Any  # another
    labels: Any  # the number of its labels in `lists`
    lists: dict[tuple[int, ...], int]  # labels as they stand in the block -> their number
    distinct: tuple[tuple[int, ...], ...]  # for each number the label sets in it
    sets: LabelSets  # each once
    owner: Any  # for each number in `distinct`, one list after the other, which list that is
    member: Any  # and the number


ARRAYS = ("block", "place", "min_ms", "max_ms", "tenant", "name", "labels")
NO_NUMBERS: Any = np.zeros(0, np.int64)
NONE = Columns(EMPTY, (), (), {}, **dict.fromkeys(ARRAYS, NO_NUMBERS), lists={}, distinct=(), sets=label_sets(()),
               owner=NO_NUMBERS, member=NO_NUMBERS)


def read(rows: Rows, unit: Unit, before: Columns = NONE, meter: Meter | None = None) -> Columns:
    """Return the columns of a unit. `before`: what it was once since it was made; what has not changed is taken from there.

    `meter` counts rows, and the memory of what is decoded. Raises what it raises."""
    meter = meter or Meter()
    kept, new = np.zeros(len(before.blocks), bool), list[tuple[bytes, bytes]]()
    for key, value in under(rows, row.index_key(unit, row.BLOCK)):
        meter.read()
        number = before.numbers.get(key, -1)
        if number >= 0 and before.blocks[number] == value:
            kept[number] = True
        else:
            new.append((key, value))
    return added(reduced(before, kept), new, meter)._replace(strings=units.table(rows, unit))


def reduced(columns: Columns, kept: Any) -> Columns:
    """Return the columns of some of the blocks only."""
    if kept.all():
        return columns
    renumbered = np.cumsum(kept) - 1
    chosen = kept[columns.block]
    arrays = {name: getattr(columns, name)[chosen] for name in ARRAYS}
    arrays["block"] = renumbered[arrays["block"]]
    blocks, keys = (tuple(compress(several, kept.tolist())) for several in (columns.blocks, columns.keys))
    numbers = {key: int(renumbered[number]) for key, number in columns.numbers.items() if kept[number]}
    return columns._replace(blocks=blocks, keys=keys, numbers=numbers, **arrays)


def added(columns: Columns, new: list[tuple[bytes, bytes]], meter: Meter) -> Columns:
    """Return the columns with more blocks, of which these are the rows. Raises what `meter` raises."""
    if not new:
        return columns
    lists, found = dict(columns.lists), list[tuple[int, ...]]()
    numbers = columns.numbers | {key: number for number, (key, _) in enumerate(new, len(columns.blocks))}
    for number, (_, body) in enumerate(new, len(columns.blocks)):
        block = decode(BlockMeta, body)
        meter.hold(DATASET_BYTES * len(block.datasets))
        for place, of in enumerate(block.datasets):
            times = (of.min_time, of.max_time) if of.min_time or of.max_time else (block.min_time, block.max_time)
            several, known = tuple(of.labels), len(lists)
            labels = lists.setdefault(several, known)
            if labels == known:
                meter.hold(PAIR_BYTES * len(several))
            found.append((number, place, *times, of.tenant, of.name, labels))
    more = np.array(found, dtype=np.int64).reshape(-1, len(ARRAYS)).T
    arrays = {name: np.concatenate((getattr(columns, name), of)) for name, of in zip(ARRAYS, more)}
    keys, blocks = (*columns.keys, *(key for key, _ in new)), (*columns.blocks, *(body for _, body in new))
    larger = columns._replace(blocks=blocks, keys=keys, numbers=numbers, lists=lists, **arrays)
    return larger if len(lists) == len(columns.lists) else with_sets(larger)


def with_sets(columns: Columns) -> Columns:
    """Return the columns with the label sets of their lists of labels."""
    sets: dict[tuple[Pair, ...], int] = {}
    distinct = tuple(tuple(sets.setdefault(pairs, len(sets)) for pairs in groups_of(labels)) for labels in columns.lists)
    members = [(owner, number) for owner, several in enumerate(distinct) for number in several]
    owner, member = np.array(members, dtype=np.int64).reshape(-1, 2).T.copy()
    return columns._replace(distinct=distinct, sets=label_sets(list(sets)), owner=owner, member=member)


class Cache:
    """The columns of the units that were asked for lately, of at most so many datasets together; 0: of none. Each label of the
    lists and each string counts as a dataset, too."""

    def __init__(self, datasets: int = CACHED_DATASETS):
        self.datasets, self.held = datasets, 0
        self.units: OrderedDict[Unit, tuple[bytes | None, int, Columns]] = OrderedDict()
        self.last: Rows | None = None  # whose units are known
        self.now: dict[Unit, Columns] = {}  # of units as they are in `last`; each is in `units`, too
        self.found: dict[tuple[str, ...], list[tuple[Unit, Times]]] = {}  # tenants -> their units in `last`

    def units_in(self, rows: Rows, tenants: tuple[str, ...], meter: Meter | None = None) -> list[tuple[Unit, Times]]:
        """Return the units of these tenants. Rows that nobody changes are looked through once; see kv.View. Raises what `meter`
        raises."""
        if self.last is not rows or len(self.found) > MOST_ASKED or sum(map(len, self.found.values())) > MOST_UNITS:
            self.last, self.found, self.now = (rows if type(rows) is View and self.datasets else None), {}, {}
        if tenants not in self.found:
            self.found[tenants] = list(all_units(rows, tenants, meter))
        return self.found[tenants]

    def columns(self, rows: Rows, unit: Unit, times: Times, meter: Meter | None = None) -> Columns:
        """Return the columns of a unit as it is in `rows`. Raises what `meter` raises if they have to be read."""
        if self.last is rows and unit in self.now:
            self.units.move_to_end(unit)
            return self.now[unit]
        made = rows.get(row.index_key(unit, row.INCARNATION))
        kept = self.units.get(unit)
        if kept is not None and kept[:2] == (made, times.version):
            self.units.move_to_end(unit)
            if self.last is rows:
                self.now[unit] = kept[2]
            return kept[2]
        meter = meter or Meter()
        before = meter.held
        found = read(rows, unit, kept[2] if kept is not None and kept[0] == made else NONE, meter)
        meter.release(meter.held - before)  # from here on it is the cache's, or this step's
        self.keep(unit, made, times.version, found)
        return found

    def keep(self, unit: Unit, made: bytes | None, version: int, columns: Columns) -> None:
        self.now.pop(unit, None)
        if unit in self.units:
            self.held -= cost(self.units.pop(unit)[2])
        if cost(columns) > self.datasets:
            return
        self.units[unit] = made, version, columns
        self.held += cost(columns)
        while self.held > self.datasets:
            gone, (_, _, its) = self.units.popitem(last=False)
            self.now.pop(gone, None)
            self.held -= cost(its)


def cost(columns: Columns) -> int:
    """Return the datasets, labels and strings of a unit: the memory of its columns is in proportion."""
    labels = sum(map(len, columns.lists)) // 2 + len(columns.sets.names)
    return max(1, len(columns.block) + labels + len(columns.strings.strings))
