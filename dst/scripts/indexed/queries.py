"""Scripts of queries: which blocks, datasets and labels an index answers with, whatever it has kept of earlier questions."""

from typing import Any

from highwater.dst.script import MANY, Alone, Script, check, same
from highwater.dst.scripts.indexed.one import START_S, opened, ulid
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.messages import BlockMeta, Dataset, LabelsRequest, QueryRequest, Truncate
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.errors import TimedOut
from highwater.impl.index.config import S
from highwater.impl.index.kv import Writing
from highwater.impl.index.library import Budget, InvalidArgument, QueryTooLong
from highwater.impl.index.query import answers, catalogue, columns, found, tenants
from highwater.impl.index.query.answers import AnswerTooLarge
from highwater.impl.index.query.columns import Cache
from highwater.impl.index.query.matching import COMPAT
from highwater.impl.index.query.meter import Meter, QueryStopped, QueryTooCostly
from highwater.impl.index.query.request import Query, query_of

SIX = START_S * S


def made(number: int, *datasets: tuple[str, str, int, int, tuple[tuple[str, str], ...]], at_s: int = 0, shard: int = 1,
         tenant: str = "", times: tuple[int, int] = (1, 1000)) -> Any:
    """Return a block with datasets (tenant, name, from, to, labels); labels are one set, and `|` begins another one."""
    texts = [tenant, "w", *(text for of in datasets for text in (*of[:2], *(part for pair in of[4] for part in pair)))]
    table = ["", *dict.fromkeys(filter(None, texts))]
    of_block = BlockMeta(id=ulid(number, at_s), shard=shard, tenant=table.index(tenant), created_by=table.index("w"),
                         min_time=times[0], max_time=times[1], string_table=table)
    for owner, name, low, high, labels in datasets:
        groups: list[list[int]] = [[]]
        for key, value in labels:
            if key == "|":
                groups.append([])
            else:
                groups[-1] += [table.index(key), table.index(value)]
        of_block.datasets.append(Dataset(tenant=table.index(owner), name=table.index(name), min_time=low, max_time=high,
                                         labels=[part for group in groups for part in (len(group) // 2, *group)]))
    return of_block


def shown(answer: Any) -> list[tuple[int, list[tuple[str, list[int]]]]]:
    """Return the blocks of an answer: the last digits of each ULID, and name and labels of its datasets."""
    return [(int(of.id[-3:]), [(of.string_table[one.name], list(one.labels)) for one in of.datasets]) for of in answer.blocks]


def names(answer: Any) -> list[tuple[int, str]]:
    return [(number, "".join(name for name, _ in datasets)) for number, datasets in shown(answer)]


def asked(tenant: str | list[str] = "t", low: int = 1, high: int = 1000, query: str = "{}", labels: Any = (),
          shards: Any = ()) -> Any:
    return QueryRequest(tenant_id=[tenant] if isinstance(tenant, str) else tenant, start_time=low, end_time=high, query=query,
                        labels=labels, shards=shards)


async def filled(alone: Alone) -> Any:
    """Return an index with an anonymous unit, two of tenant t, and one of tenant u."""
    index = opened(alone)
    x, y = (("k", "x"), ("p", "1")), (("k", "y"), ("q", "2"))
    for of in (
            made(3, ("t", "a", 100, 200, x), ("u", "b", 100, 200, x), ("t", "c", 300, 400, y), ("", "n", 1, 1, x)),
            made(1, ("t", "d", 0, 0, x), times=(500, 600)),
            made(2, ("t", "e", 100, 200, (*x, ("|", ""), *y)), tenant="t", shard=2),
            made(5, ("t", "f", 100, 200, y), tenant="t", shard=1), made(4, ("t", "g", 100, 900, ()), tenant="t"),
            made(6, ("u", "h", 100, 200, x), tenant="u"), made(7, ("t", "i", 700, 900, x), tenant="t", at_s=WINDOW_S)):
        await index.add(of)
    return index


# --- queries

async def a_query_has_its_tenants_datasets_of_its_times(alone: Alone) -> None:
    index = await filled(alone)
    for request, right in (
            (asked(), [(1, "d"), (3, "ac"), (4, "g"), (5, "f"), (7, "i"), (2, "e")]), (asked("u"), [(3, "b"), (6, "h")]),
            (asked("v"), []), (asked(["u", "t"], 100, 100), [(3, "ab"), (4, "g"), (5, "f"), (2, "e"), (6, "h")]),
            (asked(low=200, high=299), [(3, "a"), (4, "g"), (5, "f"), (2, "e")]), (asked(low=201, high=299), [(4, "g")]),
            (asked(low=400, high=500), [(1, "d"), (3, "c"), (4, "g")]), (asked(low=600, high=699), [(1, "d"), (4, "g")]),
            (asked(low=601, high=699), [(4, "g")]), (asked(low=901), []), (asked(low=900), [(4, "g"), (7, "i")]),
            (asked(high=99), []), (asked(high=100, low=100), [(3, "a"), (4, "g"), (5, "f"), (2, "e")]),
            (asked(shards=[2]), [(2, "e")]), (asked(shards=[2, 9]), [(2, "e")]), (asked(shards=[9]), []),
            (asked(query='{k="y"}'), [(3, "c"), (5, "f"), (2, "e")]), (asked(query='{k!="y"}'), [(1, "d"), (3, "a"), (4, "g"),
                (7, "i"),
                                                                                                (2, "e")]),
            (asked(query='{k="x",q="2"}'), [])):
        for _ in range(2):
            same(names(await index.query(request)), right, f"the answer to {request}")
    reads = index.node.reads
    same((names(await index.query(asked("u"), stale=True)), index.node.reads), ([(3, "b"), (6, "h")], reads))


async def an_answer_has_the_labels_that_are_asked_for(alone: Alone) -> None:
    index = await filled(alone)
    answer = await index.query(asked("t", query='{k=~"x|y"}', labels=["q", "k"], shards=[2]))
    (only,) = answer.blocks
    same((list(only.string_table), list(only.datasets[0].labels)), (["", "t", "w", "e", "k", "x", "q", "2", "y"],
                                                                    [1, 4, 5, 2, 6, 7, 4, 8]))
    same((only.tenant, only.created_by, only.datasets[0].tenant, only.datasets[0].name, only.shard, only.id), (1, 2, 1, 3, 2,
        ulid(2)))
    same((only.datasets[0].min_time, only.datasets[0].max_time, only.min_time, only.max_time), (100, 200, 1, 1000))
    answer = await index.query(asked("t", query='{k="y"}', labels=["k"], shards=[2]))
    same((list(answer.blocks[0].datasets[0].labels), list(answer.blocks[0].string_table)), ([1, 4, 5], ["", "t", "w", "e", "k",
        "y"]))
    same(shown(await index.query(asked("u", labels=["none", ""]))), [(3, [("b", [0])]), (6, [("h", [0])])])
    same(shown(await index.query(asked("u"))), [(3, [("b", [])]), (6, [("h", [])])])
    (first, second) = (await index.query(asked("u"))).blocks
    same((list(first.string_table), list(second.string_table)), (["", "w", "u", "b"], ["", "u", "w", "h"]))
    twice = made(8, ("t", "z", 1, 1, (("k", "x"), ("k", "y"))), tenant="t", shard=9)
    await index.add(twice)
    answer = await index.query(asked("t", labels=["k"], shards=[9]))
    same((list(answer.blocks[0].datasets[0].labels), list(answer.blocks[0].string_table)[4:]), ([1, 4, 5], ["k", "x"]))


async def a_label_without_a_name_is_not_shown(alone: Alone) -> None:
    index = opened(alone)
    await index.add(made(1, ("t", "z", 1, 1, (("", "x"), ("k", "y")))))
    answer = await index.query(asked("t", labels=["", "k"]))
    (only,) = answer.blocks
    same((list(only.datasets[0].labels), list(only.string_table)), ([1, 4, 5], ["", "w", "t", "z", "k", "y"]))
    request = LabelsRequest(tenant_id=["t"], start_time=1, end_time=9, query="{}", labels=["", "k"])
    (found_,) = (await index.query_labels(request)).labels
    same([(one.name, one.value) for one in found_.labels], [("", ""), ("k", "y")])


async def a_query_has_a_budget(alone: Alone) -> None:
    index = await filled(alone)
    labels = LabelsRequest(tenant_id=["t"], start_time=1, end_time=1000, query="{}", labels=["k"])
    for ask, rows, held in ((lambda: index.query(asked("t")), 18, 2_240), (lambda: index.query_labels(labels), 18, 2_240),
                            (index.tenants, 9, 2_240), (lambda: index.tenant("t"), 10, 2_240)):
        least = []
        for field, enough in (("rows", rows), ("held_bytes", held)):
            low, high = 0, 10_000
            while high - low > 1:
                middle = (low + high) // 2
                index.cache, index.budget = Cache(), Budget(**{field: middle})
                try:
                    await ask()
                    high = middle
                except QueryTooCostly:
                    low = middle
            least.append((high, enough))
        same([found for found, _ in least], [right for _, right in least], str(index.budget))
    index.budget = Budget(rows=5)
    same(str(await alone.raises(QueryTooCostly, index.query(asked("u")))),
         "the query reads more than 5 rows: ask for a shorter time, or for fewer tenants or shards")
    index.cache, index.budget = Cache(), Budget(held_bytes=5)
    same(str(await alone.raises(QueryTooCostly, index.query(asked("u")))),
         "the query needs more than 5 bytes of memory: ask for a shorter time, or for fewer tenants, shards or labels")
    index.budget = Budget(matchers=2)
    same(len((await index.query(asked("t", query='{k!="1",k!="2",k!="1"}'))).blocks), 6)
    same(str(await alone.raises(QueryTooCostly, index.query(asked("t", query='{k!="1",k!="2",k!="3"}')))),
         "the query has 3 matchers, and this node takes 2: join regular expressions of one label with |")

    async def over(duration_ms: int, call: Any) -> Any:
        call.close()
        raise TimedOut(f"{duration_ms}")

    index.budget = Budget()
    alone.timeout = over  # pyright: ignore[reportAttributeAccessIssue]
    same(str(await alone.raises(QueryTooLong, index.query(asked("t")))),
         "the query took more than 20,000 ms: ask for a shorter time, or for fewer tenants, shards or labels; or repeat it "
         "later")
    meter = Meter()
    meter.stop()
    await alone.raises(QueryStopped, answers.metadata(index.node.value, query_of(asked("t")), Cache(), 1 << 20, meter,
                                                      index.apart))
    same(Budget(), Budget(20_000, 10_000_000, 256 << 20, 100))


async def label_sets_of_an_answer(alone: Alone) -> None:
    index = await filled(alone)

    async def values(**of: Any) -> list[tuple[tuple[str, str], ...]]:
        fields = {"tenant_id": ["t"], "start_time": 1, "end_time": 1000, "query": "{}"} | of
        answer = await index.query_labels(LabelsRequest(**fields))
        return [tuple((one.name, one.value) for one in each.labels) for each in answer.labels]

    same(await values(labels=["q", "k"]), [(("q", ""), ("k", "")), (("q", ""), ("k", "x")), (("q", "2"), ("k", "y"))])
    same(await values(labels=["k"], query='{q="2"}'), [(("k", "y"),)])
    same(await values(labels=["k"], shards=[2]), [(("k", "x"),), (("k", "y"),)])
    same(await values(labels=["k"], end_time=99), [])
    same(await values(labels=[]), [])
    same(await values(labels=["none", ""], tenant_id=["u"]), [(("none", ""), ("", ""))])
    same(await values(labels=["k"], tenant_id=["u"]), [(("k", "x"),)])


async def bad_questions_are_refused(alone: Alone) -> None:
    index = opened(alone)
    for request, text in (
            (asked([]), "tenant_id is empty: name at least one tenant"), (asked(["t", ""]),
                "tenant_id: an empty name is no tenant's"),
            (asked("-"), "tenant_id: the tenant may not be called '-'"), (asked(low=2, high=1),
                "start_time 2 is after end_time 1"),
            (asked(labels=["b", "c", "b", "a", "a"]), "labels has 'a' twice"),
            (asked(query="{"), "the query '{' has the end at position 1, where a label's name or a closing brace has to be")):
        same(str(await alone.raises(InvalidArgument, index.query(request))), text)
        labels = LabelsRequest.FromString(request.SerializeToString())
        same(str(await alone.raises(InvalidArgument, index.query_labels(labels))), text)
    for tenant, text in (("", "an empty name is no tenant's"), ("-", "the tenant may not be called '-'")):
        same(str(await alone.raises(InvalidArgument, index.tenant(tenant))), text)
    right = query_of(asked(["t", "u", "t"], 5, 5, "m", ["b", "a"], [3, 3]))
    same((right.tenants, right.min_ms, right.max_ms, len(right.matchers), right.labels, right.shards, right.semantics),
         (frozenset("tu"), 5, 5, 1, ("b", "a"), frozenset([3]), COMPAT))


async def an_answer_that_is_too_large_is_refused(alone: Alone) -> None:
    index = await filled(alone)
    size = sum(of.ByteSize() for of in (await index.query(asked())).blocks)
    index.most_answer_bytes = size
    same(len((await index.query(asked())).blocks), 6)
    index.most_answer_bytes = size - 1
    text = (f"the answer has more than {size - 1} bytes: ask for a shorter time, fewer tenants, shards or labels, or add a "
            "matcher")
    same(str(await alone.raises(AnswerTooLarge, index.query(asked()))), text)
    request = LabelsRequest(tenant_id=["t"], start_time=1, end_time=1000, query="{}", labels=["k"])
    index.most_answer_bytes = (await index.query_labels(request)).ByteSize()
    await index.query_labels(request)
    index.most_answer_bytes -= 1
    await alone.raises(AnswerTooLarge, index.query_labels(request))
    index.most_answer_bytes = 1  # there are values of two letters
    await alone.raises(AnswerTooLarge, index.query_labels(request))
    same(str(await alone.raises(AnswerTooLarge, index.get("", 1, [ulid(3)]))),
         "the answer has more than 1 bytes: ask for fewer blocks")


async def a_query_lets_others_run_between_two_units(alone: Alone) -> None:
    index, query = await filled(alone), query_of(asked(labels=["k"]))
    for ask in (answers.metadata, answers.label_sets):
        steps = list[Any]()

        async def apart(step: Any, of: list[Any] = steps) -> Any:
            of.append(step())
            return of[-1]

        answer = await ask(index.node.value, query, Cache(), 1 << 20, Meter(), apart)
        same(steps, [True] * 4 + [False] + [answer] * (ask is answers.label_sets))


# --- tenants

async def tenants_and_their_times(alone: Alone) -> None:
    index = await filled(alone)
    for _ in range(2):
        same(list((await index.tenants()).tenant_ids), ["t", "u"])
        for tenant, right in (("t", (True, 1, 1000)), ("u", (True, 1, 1000)), ("v", (False, 0, 0))):
            stats = (await index.tenant(tenant)).stats
            same((stats.data_ingested, stats.oldest_profile_time, stats.newest_profile_time), right, tenant)
    same((await index.tenant("v")).HasField("stats"), True)
    alone_ = opened(alone)
    await alone_.add(made(1, ("t", "a", 100, 200, ()), ("u", "b", 50, 60, ()), ("u", "c", 70, 90, ())))
    same(list((await alone_.tenants()).tenant_ids), ["t", "u"])
    same(tenants.times_of(alone_.node.value, "u", Cache(), Meter()), tenants.Range(50, 90))
    same(tenants.times_of(alone_.node.value, "t", Cache(), Meter()), tenants.Range(100, 200))
    same(tenants.times_of(alone_.node.value, "v", Cache(), Meter()), None)
    unit = {"name": "2025-06-20 06:00:00 (6h0m0s)-T-S1", "timestamp": SIX, "duration": WINDOW_S * S, "shard": 1,
            "unit_version": 1}
    await alone_.truncate(Truncate(term=1, tombstones=[{"shard": unit}]))
    same((list((await alone_.tenants()).tenant_ids), tenants.times_of(alone_.node.value, "u", Cache(), Meter())), ([], None))
    empty = Unit(Partition(SIX), "e", 1)
    writing = Writing(index.node.value, 99)
    writing.put(row.index_key(empty, row.TIMES), row.times_value(Times(1, 2, 1)))
    same((tenants.tenants(writing, Cache(), Meter()), tenants.times_of(writing, "e", Cache(), Meter())), (["t", "u"], None))


# --- units and what is kept of them

async def units_are_found_by_jumps(alone: Alone) -> None:
    index = await filled(alone)
    rows = index.node.value
    every = [(unit.partition.start_ns == SIX, unit.tenant, unit.shard) for unit, _ in catalogue.all_units(rows)]
    same(every, [(True, "", 1), (True, "t", 1), (True, "t", 2), (True, "u", 1), (False, "t", 1)])
    same([(unit.tenant, unit.shard) for unit, _ in catalogue.all_units(rows, ["u", ""])], [("u", 1), ("", 1)])
    same(next(iter(catalogue.all_units(rows)))[1], Times(1, 1000, 2))
    same([*catalogue.all_units(opened(alone).node.value)], [])
    query = query_of(asked("t", 100, 200))
    same([(unit.tenant, unit.shard, unit.partition.start_ns == SIX) for unit, _ in found.units_of(rows, query, Cache())],
         [("", 1, True), ("t", 1, True), ("t", 1, False), ("t", 2, True)])
    wide: Query = query._replace(min_ms=1001, max_ms=2000)
    same(found.units_of(rows, wide, Cache()), [])
    same(len(found.units_of(rows, wide._replace(min_ms=1000), Cache())), 4)
    same(len(found.units_of(rows, wide._replace(min_ms=0, max_ms=1), Cache())), 4)
    same(found.units_of(rows, wide._replace(min_ms=0, max_ms=0), Cache()), [])


async def columns_follow_a_unit(alone: Alone) -> None:
    index = opened(alone)
    unit = Unit(Partition(SIX), "", 1)
    x, y = (("k", "x"),), (("k", "y"),)
    await index.add(made(1, ("t", "a", 100, 200, x), ("t", "b", 0, 0, x), ("t", "c", 1, 5, y)))
    first = columns.read(index.node.value, unit)
    same([getattr(first, name).tolist() for name in columns.ARRAYS],
         [[0, 0, 0], [0, 1, 2], [100, 1, 1], [200, 1000, 5], [first.strings.index["t"]] * 3,
          [first.strings.index[name] for name in "abc"], [0, 0, 1]])
    same((first.distinct, first.owner.tolist(), first.member.tolist()), (((0,), (1,)), [0, 1], [0, 1]))
    await index.add(made(2, ("t", "d", 300, 400, (*y, ("|", ""), *x))))
    second = columns.read(index.node.value, unit, first)
    whole = columns.read(index.node.value, unit)
    for of in (second, whole):
        same((of.block.tolist(), of.labels.tolist(), of.distinct, len(of.blocks)), ([0, 0, 0, 1], [0, 0, 1, 2],
                                                                               ((0,), (1,), (1, 0)), 2))
        same((of.owner.tolist(), of.member.tolist()), ([0, 1, 2, 2], [0, 1, 1, 0]))
    gone = Writing(index.node.value, 99)
    gone.delete(row.block_key(unit, ulid(1)))
    third = columns.read(gone, unit, second)
    same((third.block.tolist(), third.min_ms.tolist(), len(third.blocks), [*third.numbers.values()]), ([0], [300], 1, [0]))
    same(columns.read(gone, unit, third).numbers, third.numbers)
    changed = Writing(index.node.value, 99)
    changed.put(row.block_key(unit, ulid(1)), index.node.value.get(row.block_key(unit, ulid(2))) or b"")
    same(columns.read(changed, unit, second).min_ms.tolist(), [300, 300])
    same((columns.cost(columns.NONE), columns.cost(second)), (1, 4 + 6 + 2 + len(second.strings.strings)))


async def a_cache_answers_as_the_rows_do(alone: Alone) -> None:
    index = opened(alone)
    for number, shard in ((1, 1), (2, 2), (3, 3)):
        await index.add(made(number, ("t", "a", 1, 1, ()), ("t", "b", 1, 1, ()), shard=shard))
    rows = index.node.value
    units = [unit for unit, _ in catalogue.all_units(rows)]
    times = [of for _, of in catalogue.all_units(rows)]
    cache = Cache(14)  # a unit has two datasets and five strings
    kept = [cache.columns(rows, unit, of) for unit, of in zip(units, times)]
    same((list(cache.units), cache.held), (units[1:], 14))
    check(cache.columns(rows, units[1], times[1]) is kept[1], "a unit that is kept is not read again")
    again = cache.columns(rows, units[0], times[0])
    check(again is not kept[0], "a unit that was let go is read again")
    same((list(cache.units), cache.held), ([units[1], units[0]], 14))
    await index.add(made(4, ("t", "c", 1, 1, ()), shard=2))
    rows = index.node.value
    new = dict(catalogue.all_units(rows))
    same((len(cache.columns(rows, units[1], new[units[1]]).block), cache.held, list(cache.units)), (3, 9, [units[1]]))
    same((len(cache.columns(rows, units[1], times[1]).block), cache.held), (3, 9))
    small = Cache(8)
    small.columns(rows, units[1], new[units[1]])
    same((list(small.units), small.held), ([], 0))
    small.columns(rows, units[0], new[units[0]])
    none = Cache(0)
    none.columns(rows, units[0], new[units[0]])
    same((list(small.units), small.held, list(none.units), none.held), ([units[0]], 7, [], 0))
    found_ = cache.units_in(rows, ("", "t"))
    same(([unit for unit, _ in found_], cache.units_in(rows, ("", "t")) is found_), (units, True))
    same((none.units_in(rows, ("",)) is none.units_in(rows, ("",)), Cache().datasets), (False, 2_000_000))
    lately = Cache(14)
    lately.units_in(rows, ("t",))
    for number in (0, 0, 2, 0):
        lately.columns(rows, units[number], new[units[number]])
    same(list(lately.units), [units[2], units[0]])  # what was asked for last goes last
    for number in range(102):
        cache.units_in(rows, (f"x{number}",))
    same((len(cache.found), cache.last is rows), (2, True))
    writing = Writing(rows, 99)
    same((cache.units_in(writing, ("",)) is cache.units_in(writing, ("",)), cache.last), (False, None))


async def blocks_keep_their_order_whenever_they_came(alone: Alone) -> None:
    index = opened(alone)
    for number, right in ((2, [2]), (3, [2, 3]), (1, [1, 2, 3])):
        await index.add(made(number, ("t", "a", 1, 1, ())))
        same([of for of, _ in names(await index.query(asked()))], right)


async def many_blocks_are_in_an_answer(alone: Alone) -> None:
    index = opened(alone)
    for number in range(0, MANY, 4):
        datasets = [("t", "a", 1, 1, (("k", f"v{number + part:04}"),)) for part in range(4)]
        await index.add(made(number, *datasets, shard=number % 3))
    answer = await index.query(asked())
    right = [ulid(number) for shard in range(3) for number in range(0, MANY, 4) if number % 3 == shard]
    same(([of.id for of in answer.blocks], sum(len(of.datasets) for of in answer.blocks)), (right, MANY))
    request = LabelsRequest(tenant_id=["t"], start_time=1, end_time=9, query="{}", labels=["k"])
    same([of.labels[0].value for of in (await index.query_labels(request)).labels], [f"v{number:04}" for number in range(MANY)])


async def a_unit_that_is_made_again_is_read_again(alone: Alone) -> None:
    index = opened(alone)
    await index.add(made(1, ("t", "a", 1, 1, (("k", "x"),))))
    same(names(await index.query(asked())), [(1, "a")])
    unit = Unit(Partition(SIX), "", 1)
    writing = Writing(index.node.value, 1 << 40)
    for key, _ in [*writing.range(row.index_key(unit), None)]:
        writing.delete(key)
    index.node.value = type(index.node.value)(writing.root)
    await index.add(made(1, ("t", "z", 1, 1, (("k", "y"),))))
    same((names(await index.query(asked())), names(await index.query(asked(query='{k="x"}')))), ([(1, "z")], []))


SCRIPTS: tuple[Script, ...] = (
    a_query_has_a_budget,
    a_query_has_its_tenants_datasets_of_its_times, an_answer_has_the_labels_that_are_asked_for,
    a_label_without_a_name_is_not_shown, label_sets_of_an_answer, a_query_lets_others_run_between_two_units,
    bad_questions_are_refused, an_answer_that_is_too_large_is_refused, tenants_and_their_times, units_are_found_by_jumps,
    columns_follow_a_unit, a_cache_answers_as_the_rows_do, a_unit_that_is_made_again_is_read_again,
    blocks_keep_their_order_whenever_they_came, many_blocks_are_in_an_answer)
