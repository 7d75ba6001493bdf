"""Queries of the index, against a search through all blocks that were added and not removed.

Drawn blocks of a few tenants, shards and times are added, removed and dropped. After each step the same question is asked with
caches of several sizes.
"""

import asyncio
import tracemalloc
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.labels import groups_of
from highwater.impl.codecs.index.messages import BlockMeta, Dataset, LabelsRequest, QueryRequest, copied, encode
from highwater.impl.codecs.index.partitions import WINDOW_S
from highwater.impl.index import units
from highwater.impl.index.kv import MemoryKV
from highwater.impl.index.query import answers, catalogue, columns
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.matching import COMPAT, SEMANTICS
from highwater.impl.index.query.meter import Meter
from highwater.impl.index.query.request import InvalidQuery, query_of
from highwater.impl.index.query.selector import parse
from highwater.impl.index.validate import invalid_block
from tests.support.metadata_index import START_S

TENANTS, SHARDS, NAMES, VALUES = ("a", "b", "\U0001F600"), (1, 2, 300), ("kind", "pod", "zone"), ("x", "y", "xy", "")
START_MS = START_S * 1000
QUERIES = ("{}", '{kind="x"}', '{kind!="x"}', '{kind=~"x.*",pod!~"y"}', '{pod=""}', '{nobody="x"}', '{nobody!="x"}', "x")
WHOLE = {"start_time": 0, "end_time": 1 << 62}


class World:
    """An index that a test changes row by row, and the blocks that are in it."""

    def __init__(self):
        self.kv, self.blocks, self.entries = MemoryKV(), dict[tuple, Any](), 0
        self.caches = [Cache(0), Cache(5), Cache(1_000)]

    def change(self, what: Any, *arguments: Any) -> None:
        self.entries += 1
        with self.kv.transaction() as rows:
            what(rows, *arguments)

    def add(self, block: Any) -> None:
        assert invalid_block(block) is None, invalid_block(block)
        unit = units.unit_of(block)
        if (unit, block.id) not in self.blocks:
            self.change(units.insert, unit, block, self.entries)
            self.blocks[unit, block.id] = block

    def remove(self, unit: Any, ulid: str) -> None:
        self.change(units.remove, unit, ulid)
        del self.blocks[unit, ulid]

    def drop(self, unit: Any) -> None:
        self.change(units.drop, unit)
        self.blocks = {key: block for key, block in self.blocks.items() if key[0] != unit}

    def rows(self) -> Any:
        with self.kv.snapshot() as rows:
            return rows


def drawn(draw: Random, number: int) -> Any:
    """Draw a block, made in one of three windows, with data from about then or from long before."""
    tenant = draw.choice(("", *TENANTS))
    made_ms = START_MS + draw.randrange(3) * WINDOW_S * 1000 + draw.randrange(1000)
    table = [""]

    def of(text: str) -> int:
        if text not in table or draw.random() < 0.1:  # a table may have a string twice
            table.append(text)
        return table.index(text) if draw.random() < 0.5 else len(table) - 1 - table[::-1].index(text)

    min_ms = made_ms - draw.choice((0, 1_000, 90_000_000))
    block = BlockMeta(id=ulids.made(made_ms, b"\0" * 8 + number.to_bytes(2)), shard=draw.choice(SHARDS), size=number,
                      min_time=min_ms, max_time=min_ms + 100, compaction_level=number % 3, metadata_offset=7,
                      created_by=of("w"), tenant=of(tenant))
    for _ in range(draw.randrange(4)):
        start = draw.randrange(100)
        times = {"min_time": min_ms + start, "max_time": min_ms + draw.randrange(start, 101)} if draw.random() < 0.8 else {}
        groups = [[of(text) for name in draw.choices((*NAMES, *NAMES, ""), k=draw.randrange(4))  # a name may be there twice
                   for text in (name, draw.choice(VALUES))]
                  for _ in range(draw.randrange(4))]
        block.datasets.append(Dataset(tenant=of(tenant or draw.choice(("", *TENANTS))), name=of(f"service{draw.randrange(3)}"),
                                      labels=[n for group in groups for n in (len(group) // 2, *group)],
                                      table_of_contents=[number, 2], size=5, format=number % 2, **times))
    block.string_table[:] = table
    return block


class Asked(NamedTuple):
    request: dict[str, Any]
    semantics: str


def question(draw: Random, world: World) -> Asked:
    about = draw.choice([*world.blocks.values(), None])
    start = about.min_time + draw.randrange(-200, 200) if about and draw.random() < 0.8 else 0
    request = {"tenant_id": draw.sample(TENANTS, draw.randrange(1, 4)), "start_time": start,
               "end_time": start + draw.choice((0, 50, 100_000_000)) if start else 1 << 62, "query": draw.choice(QUERIES),
               "labels": draw.sample((*NAMES, "nobody", ""), draw.randrange(4)),
               "shards": draw.sample(SHARDS, draw.choice((0, 0, 1, 2)))}
    return Asked(request, draw.choice(SEMANTICS))


# --- the plain search

def texts(block: Any, of: Any) -> list[list[tuple[str, str]]]:
    table = block.string_table or [""]
    return [[(table[name], table[value]) for name, value in group] for group in groups_of(of.labels)]


def matches(pairs: list[tuple[str, str]], asked: Asked) -> bool:
    first = dict(reversed(pairs))
    for name, op, value in parse(asked.request["query"]):
        text = first.get(name, None if asked.semantics == COMPAT else "")
        if text is None:
            good = op.startswith("!")
        else:
            equal = text == value if "~" not in op else text in {"x.*": ("x", "xy"), "y": ("y",)}[value]
            good = equal != op.startswith("!")
        if not good:
            return False
    return True


def hits(world: World, asked: Asked) -> Iterator[tuple[Any, Any, Any, list]]:
    """Yield (unit, block, dataset, matching label sets) in the order of an answer."""
    of = asked.request
    for unit, ulid in sorted(world.blocks, key=lambda one: (one[0].tenant, one[0].shard, one[0].partition, one[1])):
        block = world.blocks[unit, ulid]
        for dataset in block.datasets:
            low, high = (dataset.min_time, dataset.max_time) if dataset.max_time else (block.min_time, block.max_time)
            sets = [pairs for pairs in texts(block, dataset) if matches(pairs, asked)]
            inside = low <= of["end_time"] and of["start_time"] <= high
            asked_for = block.string_table[dataset.tenant] in of["tenant_id"] and block.shard in (of["shards"] or SHARDS)
            if inside and asked_for and sets:
                yield unit, block, dataset, sets


def plain(block: Any, datasets: list[tuple[Any, list]], labels: list[str]) -> dict[str, Any]:
    """Return what an answer has to say of a block."""
    table = block.string_table
    return {"id": block.id, "tenant": table[block.tenant], "shard": block.shard, "times": (block.min_time, block.max_time),
            "level": block.compaction_level, "creator": table[block.created_by], "size": block.size,
            "offset": block.metadata_offset, "datasets": [
                (table[of.tenant], table[of.name], of.min_time, of.max_time, list(of.table_of_contents), of.size, of.format,
                 [[(name, dict(reversed(pairs))[name]) for name in labels if name and name in dict(pairs)] for pairs in sets]
                 if labels else [])
                for of, sets in datasets]}


def expected(world: World, asked: Asked) -> list[dict[str, Any]]:
    by_block: dict[tuple, list] = {}
    for unit, block, dataset, sets in hits(world, asked):
        by_block.setdefault((unit, block.id), []).append((dataset, sets))
    return [plain(world.blocks[key], datasets, asked.request["labels"]) for key, datasets in by_block.items()]


def read(block: Any) -> dict[str, Any]:
    """Return the same of a block in an answer, whose labels are projected already."""
    whole = [(of, texts(block, of)) for of in block.datasets]
    names = sorted({name for _, sets in whole for pairs in sets for name, _ in pairs})
    told = plain(block, whole, names)
    told["datasets"] = [(*of[:-1], sets) for of, (_, sets) in zip(told["datasets"], whole)]
    return told


async def at_once(step: Any) -> Any:
    return step()


def answered(world: World, asked: Asked, cache: Cache, most_bytes: int = 1 << 30) -> tuple[Any, Any]:
    rows, of = world.rows(), asked.request
    blocks = answers.metadata(rows, query_of(QueryRequest(**of), asked.semantics), cache, most_bytes, Meter(), at_once)
    sets = answers.label_sets(rows, query_of(LabelsRequest(**of), asked.semantics), cache, most_bytes, Meter(), at_once)
    return asyncio.run(blocks), asyncio.run(sets)


def check(world: World, asked: Asked) -> int:
    told = [answered(world, asked, cache) for cache in world.caches]
    assert all(one == told[0] for one in told), "the caches are seen"
    blocks, sets = told[0]
    assert [read(block) for block in blocks.blocks] == expected(world, asked)
    labels = asked.request["labels"]
    those = [dict(reversed(pairs)) for *_, matching in hits(world, asked) for pairs in matching] if labels else []
    values = {tuple(of.get(name, "") if name else "" for name in labels) for of in those}
    assert [[(pair.name, pair.value) for pair in one.labels] for one in sets.labels] == [
        list(zip(labels, of)) for of in sorted(values)]
    for block in blocks.blocks:
        assert block.string_table[0] == "" and len(set(block.string_table)) == len(block.string_table)
        assert set(block.string_table) == {"", *strings_in(block)}, "no string is there for nothing, or of another tenant"
    return len(blocks.blocks)


def strings_in(block: Any) -> set[str]:
    table = block.string_table
    return {table[block.tenant], table[block.created_by], *(table[n] for of in block.datasets for n in (of.tenant, of.name)),
            *(text for of in block.datasets for pairs in texts(block, of) for pair in pairs for text in pair)}


def step(draw: Random, world: World, number: int) -> None:
    kind = draw.random()
    if world.blocks and kind < 0.15:
        unit, ulid = draw.choice(sorted(world.blocks))
        other = copied(world.blocks[unit, ulid])
        world.remove(unit, ulid)
        if kind < 0.05 and other.datasets:  # the index forbids this, and the columns would show it
            del other.datasets[0]
            world.add(other)
    elif world.blocks and kind < 0.25:
        world.drop(draw.choice(sorted(world.blocks))[0])
    else:
        world.add(drawn(draw, number))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_answers_are_those_of_a_search_through_all_blocks_whatever_is_cached(seed):
    draw, world = Random(seed), World()
    for number in range(25):
        step(draw, world, number)
        for _ in range(2):
            check(world, question(draw, world))


def test_rows_that_still_change_are_looked_through_each_time():
    kv, cache, one = MemoryKV(), Cache(), backfilled()
    with kv.transaction() as rows:
        assert cache.units_in(rows, ("a",)) == []
        units.insert(rows, units.unit_of(one), one, 1)
        assert [unit for unit, _ in cache.units_in(rows, ("a",))] == [units.unit_of(one)]


def test_the_search_above_finds_something():
    draw, world, blocks = Random(1), World(), 0
    for number in range(200):
        step(draw, world, number)
        blocks += check(world, question(draw, world))
    assert blocks > 200


def test_a_block_is_found_by_its_own_times_whenever_it_was_made():
    """Pyroscope looks a day around the query's times into the partitions of creation."""
    world = World()
    world.add(block := backfilled())
    asked = Asked({"tenant_id": ["a"], "start_time": block.min_time, "end_time": block.min_time, "query": "{}", "labels": [],
                   "shards": []}, COMPAT)
    assert check(world, asked) == 1


def backfilled(days: int = 30) -> Any:
    made = START_MS - days * 86_400_000
    return BlockMeta(id=ulids.made(START_MS, b"\0" * 10), shard=1, tenant=1, min_time=made, max_time=made + 5,
                     string_table=["", "a", "n"], datasets=[Dataset(tenant=1, name=2, labels=[0])])


def test_a_unit_that_is_dropped_and_made_again_is_not_answered_from_the_cache(monkeypatch):
    def story() -> None:
        world, asked = World(), Asked({"tenant_id": ["a"], **WHOLE, "query": "{}", "labels": [], "shards": []}, COMPAT)
        one = backfilled()
        world.add(one)
        check(world, asked)
        world.drop(units.unit_of(one))
        other = copied(one)
        other.string_table[2] = "other"
        world.add(other)  # the unit has the same version as before
        check(world, asked)

    story()
    whole = Cache.columns
    monkeypatch.setattr(Cache, "columns", lambda self, rows, *of: whole(self, Blind(rows), *of))
    with pytest.raises(AssertionError, match="the caches are seen"):
        story()


class Blind:
    """Rows that do not say when a unit was made."""

    def __init__(self, rows: Any):
        self.rows = rows

    def get(self, key: bytes) -> bytes | None:
        return None if key[-1:] == row.INCARNATION else self.rows.get(key)

    def range(self, start: bytes, end: bytes | None) -> Any:
        return self.rows.range(start, end)


def test_a_cache_keeps_what_was_asked_for_last_and_no_more_than_it_may():
    draw, world = Random(2), World()
    for number in range(300):
        step(draw, world, number)
        check(world, question(draw, world))
        for cache in world.caches:
            costs = [columns.cost(of) for *_, of in cache.units.values()]
            assert cache.held == sum(costs) <= cache.datasets
    assert world.caches[2].units and not world.caches[0].units
    whole = Cache(1_000_000)
    some = list(catalogue.all_units(world.rows()))
    for unit, times in some:
        whole.columns(world.rows(), unit, times)
    assert list(whole.units) == [unit for unit, _ in some]
    whole.columns(world.rows(), *some[0])
    assert list(whole.units)[-1] == some[0][0]
    first = whole.columns(world.rows(), *some[0])
    assert whole.columns(world.rows(), *some[0]) is first
    sizes = sorted(some, key=lambda one: columns.cost(whole.columns(world.rows(), *one)))
    tight = Cache(columns.cost(whole.columns(world.rows(), *sizes[-1])) - 1)
    tight.columns(world.rows(), *sizes[0])
    tight.columns(world.rows(), *sizes[-1])  # too large to be kept, so nothing makes room for it
    assert list(tight.units) == [sizes[0][0]]


@pytest.mark.parametrize("change, why", [
    ({"tenant_id": []}, "tenant_id is empty"), ({"tenant_id": ["a", ""]}, "empty name"), ({"tenant_id": ["-"]}, "'-'"),
    ({"tenant_id": ["a\0"]}, "zero byte"), ({"start_time": 2, "end_time": 1}, "start_time 2 is after end_time 1"),
    ({"labels": ["x", "y", "x"]}, "'x' twice"), ({"query": ""}, "the end at position 0"), ({"query": "{a=~'('}"}, "missing )"),
])
def test_a_question_that_means_nothing_is_refused(change, why):
    with pytest.raises(InvalidQuery) as refused:
        query_of(QueryRequest(**{"tenant_id": ["a"], "start_time": 1, "end_time": 1, "query": "{}", **change}))
    assert why in str(refused.value)


class Counted(str):
    """A text that counts how often texts of its kind are compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_check_of_names_is_linear():
    names = [Counted(f"label{number}") for number in range(5_000)]
    request = SimpleNamespace(labels=names, tenant_id=["t"], start_time=0, end_time=1, query="{}", shards=())
    Counted.compared = 0
    assert len(query_of(request).labels) == 5_000 and Counted.compared < 50_000


@pytest.mark.parametrize("names", [3_000, 1])
def test_columns_of_many_label_sets_take_memory_by_their_pairs(names):
    table = ["", "t", *(f"n{number}" for number in range(3_000))]
    made = BlockMeta(id=ulids.made(START_S * 1000, bytes(10)), tenant=1, shard=1, min_time=1, max_time=2, string_table=table)
    labels = [part for at in range(3_000) for part in (1, 2 + at % names, 2 + at)]
    made.datasets.append(Dataset(tenant=1, min_time=1, max_time=2, labels=labels))
    world = World()
    world.add(made)
    ((unit, _),) = catalogue.all_units(world.rows())
    tracemalloc.start()
    found = columns.read(world.rows(), unit)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.sets.sets) == 3_000 and peak_bytes < 400 * len(labels), peak_bytes
    assert columns.cost(found) >= 3_000, "the cache counts label sets"


def test_an_answer_that_is_too_large_is_refused_whole_with_what_to_narrow():
    world = World()
    for number in range(50):
        world.add(drawn(Random(number), number))
    asked = Asked({"tenant_id": list(TENANTS), **WHOLE, "query": "{}", "labels": list(NAMES), "shards": []}, COMPAT)
    blocks, sets = answered(world, asked, Cache())
    size = sum(len(encode(block)) for block in blocks.blocks)
    query = query_of(QueryRequest(**asked.request))
    assert asyncio.run(answers.metadata(world.rows(), query, Cache(), size, Meter(), at_once)) == blocks
    with pytest.raises(answers.AnswerTooLarge, match=f"more than {size - 1} bytes: ask for a shorter time"):
        asyncio.run(answers.metadata(world.rows(), query, Cache(), size - 1, Meter(), at_once))
    with pytest.raises(answers.AnswerTooLarge):
        asyncio.run(answers.label_sets(world.rows(), query, Cache(), len(encode(sets)) - 1, Meter(), at_once))


def test_tenants_are_those_of_all_datasets_and_units_with_their_times():
    draw, world = Random(3), World()
    for number in range(150):
        step(draw, world, number)
        told = answers.tenant_names(world.rows(), world.caches[number % 3], Meter()).tenant_ids
        names = {block.string_table[of.tenant] for block in world.blocks.values() for of in block.datasets}
        assert list(told) == sorted((names | {unit.tenant for unit, _ in world.blocks}) - {""})
        for tenant in (*TENANTS, "nobody"):
            stats = answers.tenant_stats(world.rows(), tenant, world.caches[number % 3], Meter()).stats
            ranges = [(of.min_time or block.min_time, of.max_time or block.max_time) for block in world.blocks.values()
                      for of in block.datasets if block.string_table[of.tenant] == tenant]
            assert stats.data_ingested == (tenant in told)
            if ranges:
                assert stats.oldest_profile_time <= min(low for low, _ in ranges)
                assert stats.newest_profile_time >= max(high for _, high in ranges)
            else:
                assert tenant in told or not stats.newest_profile_time


def test_units_are_found_by_jumps():
    draw, world = Random(5), World()
    for number in range(200):
        step(draw, world, number)
    those = sorted({unit for unit, _ in world.blocks})
    assert [unit for unit, _ in catalogue.all_units(world.rows()) if unit in those] == those
    few = [unit for unit, _ in catalogue.all_units(world.rows(), ["", "b"])]
    assert [unit for unit in few if unit in those] == [unit for unit in those if unit.tenant in ("", "b")]
