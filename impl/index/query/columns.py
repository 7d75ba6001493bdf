"""Safety: a cached unit answers as its rows do, because the key of the cache says which rows these are.

A query looks at a few columns of many datasets: times, tenant, labels. They are read once from a unit's rows into arrays. The
key has the unit, the log index at which it was made, and its version, which each change of the unit raises. So a unit that was
dropped and made again has another key.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.labels import groups_of
from highwater.impl.codecs.index.messages import BlockMeta, decode
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.codecs.index.strings import Table
from highwater.impl.index import units
from highwater.impl.index.kv import Rows, View, under
from highwater.impl.index.query.catalogue import all_units
from highwater.impl.index.query.matching import LabelSets, Pair, label_sets

CACHED_DATASETS = 2_000_000  # of the units that are kept, by default
MOST_ASKED = 100  # groups of tenants whose units are known


class Columns(NamedTuple):
    """The blocks of a unit, in the order of their ULIDs, and their datasets, in order. Arrays have one number a dataset."""

    strings: Table
    blocks: tuple[bytes, ...]  # their rows
    block: Any  # the number of the dataset's block
    place: Any  # its place in the block
    min_ms: Any  # its times, inside its block's; a dataset without times has the block's
    max_ms: Any
    tenant: Any  # a reference into the strings
    labels: Any  # the number of its labels in `distinct`
    distinct: tuple[tuple[int, ...], ...]  # the numbers of the label sets, each list of them once
    sets: LabelSets  # each once
    owner: Any  # for each number in `distinct`, one list after the other, which list that is
    member: Any  # and the number


def read(rows: Rows, unit: Unit) -> Columns:
    """Return the columns of a unit."""
    blocks = tuple(value for _, value in under(rows, row.index_key(unit, row.BLOCK)))
    numbers: list[tuple[int, int, int, int, int, int]] = []
    distinct: dict[tuple[int, ...], int] = {}
    for number, body in enumerate(blocks):
        block = decode(BlockMeta, body)
        for place, of in enumerate(block.datasets):
            times = (of.min_time, of.max_time) if of.min_time or of.max_time else (block.min_time, block.max_time)
            labels = distinct.setdefault(tuple(of.labels), len(distinct))
            numbers.append((number, place, *times, of.tenant, labels))
    columns = np.array(numbers, dtype=np.int64).reshape(-1, 6).T.copy()
    sets: dict[tuple[Pair, ...], int] = {}
    lists = tuple(tuple(sets.setdefault(pairs, len(sets)) for pairs in groups_of(labels)) for labels in distinct)
    members = [(owner, number) for owner, several in enumerate(lists) for number in several]
    owner, member = np.array(members, dtype=np.int32).reshape(-1, 2).T.copy()
    return Columns(units.table(rows, unit), blocks, *columns, lists, label_sets(list(sets)), owner, member)


class Cache:
    """The columns of the units that were asked for lately, of at most so many datasets together; 0: of none."""

    def __init__(self, datasets: int = CACHED_DATASETS):
        self.datasets, self.held = datasets, 0
        self.units: OrderedDict[Unit, tuple[bytes | None, int, Columns]] = OrderedDict()
        self.last: Rows | None = None  # whose units are known
        self.found: dict[tuple[str, ...], list[tuple[Unit, Times]]] = {}  # tenants -> their units in `last`

    def units_in(self, rows: Rows, tenants: tuple[str, ...]) -> list[tuple[Unit, Times]]:
        """Return the units of these tenants. Rows that nobody changes are looked through once; see kv.View."""
        if self.last is not rows or len(self.found) > MOST_ASKED:
            self.last, self.found = (rows if type(rows) is View and self.datasets else None), {}
        if tenants not in self.found:
            self.found[tenants] = list(all_units(rows, tenants))
        return self.found[tenants]

    def columns(self, rows: Rows, unit: Unit, times: Times) -> Columns:
        """Return the columns of a unit as it is in `rows`."""
        made = rows.get(row.index_key(unit, row.INCARNATION))
        kept = self.units.get(unit)
        if kept is not None and kept[:2] == (made, times.version):
            self.units.move_to_end(unit)
            return kept[2]
        found = read(rows, unit)
        self.keep(unit, made, times.version, found)
        return found

    def keep(self, unit: Unit, made: bytes | None, version: int, columns: Columns) -> None:
        if unit in self.units:
            self.held -= cost(self.units.pop(unit)[2])
        if cost(columns) > self.datasets:
            return
        self.units[unit] = made, version, columns
        self.held += cost(columns)
        while self.held > self.datasets:
            self.held -= cost(self.units.popitem(last=False)[1][2])


def cost(columns: Columns) -> int:
    return max(1, len(columns.block))
