"""Scripts of the calls of an index on one node: what is added, dropped and refused, and what polls return."""

from typing import Any

from highwater.dst.script import MANY, Alone, Script, check, fails_with, same
from highwater.dst.scripts.indexed.one import SMALL, START_S, OneNode, at, block, opened, says, ulid
from highwater.dst.scripts.replicated.disks import ScriptDisk
from highwater.dst.scripts.replicated.node import world_of
from highwater.impl.codecs.index import entries, snapshot
from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index.entries import UnknownEntry
from highwater.impl.codecs.index.messages import (
    AddBlock,
    BlockMeta,
    DamagedMessage,
    Dataset,
    GetPlan,
    PollRequest,
    Truncate,
    decode,
    encode,
)
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.codecs.index.snapshot import Position
from highwater.impl.index import config, machine, replicated, truncate, units, validate
from highwater.impl.index.answers import Answer
from highwater.impl.index.config import Config, ConfigRefused, Level, S
from highwater.impl.index.kv import MemoryKV, View, under
from highwater.impl.index.library import Index, InvalidArgument, PollAgain, TooLate
from highwater.impl.index.machine import Entry, EntryMissing, Machine
from highwater.impl.index.removed import is_dropped
from highwater.impl.index.replicated import Result
from highwater.impl.index.tombstones import all_of
from highwater.impl.node_world import DiskLocked
from highwater.impl.raft.faults import LeadershipLost, NotLeader, NotRunning, OtherNode, OtherSettings
from highwater.impl.raft.machine import Command

SIX = NOW = START_S * S
MOST = 100 * 365 * 24 * 3600 * S  # of a time
HOUR = 3600 * S
USUAL = Config(168 * HOUR, 192 * HOUR, 15 * S, 3, 600 * S, 10_000, (Level(20, 36 * S), Level(10, 720 * S), Level(10, 3 * HOUR)),
               10, 5, HOUR, HOUR)  # what entries mean unless an operator sets other numbers


def told(block: Any) -> bytes:
    return encode(block)


async def refused(alone: Alone, index: Any, made: Any, text: str, error: type[Exception] = InvalidArgument,
                  **how: Any) -> None:
    """Check how an add is refused, and that it changes nothing."""
    before = [*index.node.value.range(b"", None)]
    raised = await alone.raises(error, index.add(made, **how))
    same(str(raised), text, "the message")
    same([key for key, _ in index.node.value.range(b"", None) if key[:1] not in b"\x02\x0a"],
         [key for key, _ in before if key[:1] not in b"\x02\x0a"], "what is there")


def changed(made: Any, **fields: Any) -> Any:
    """Return the block after some of its fields were set."""
    for name, value in fields.items():
        setattr(made, name, value)
    return made


# --- blocks

async def a_block_is_added_once_and_read(alone: Alone) -> None:
    index = opened(alone)
    first, second, other = block(1, tenant="t"), block(2, tenant="t", data=("x", "y")), block(1, tenant="t", shard=2)
    for made in (first, second, other, first):
        same(await index.add(made), None)
    same([told(of) for of in await index.get("t", 1, [ulid(2), ulid(9), ulid(1)])],
         [told(of) for of in (rewritten(second), rewritten(first))])
    same([told(of) for of in await index.get("t", 2, [ulid(1), ulid(2)])], [told(rewritten(other))])
    same([await index.get("u", 1, [ulid(1)]), await index.get("t", 3, [ulid(1)]), await index.get("t", 1, [])], [[], [], []])
    same((index.node.index, index.node.reads), (4, 5))
    same([told(of) for of in await index.get("t", 1, [ulid(1)], stale=True)], [told(rewritten(first))])
    same(index.node.reads, 5)
    index.node.stopped = "its disk failed"
    for call in (index.get("t", 1, [], stale=True), index.tenants(stale=True)):
        await alone.raises(NotRunning, call)
    unit = Unit(Partition(SIX), "t", 1)
    same(units.times(index.node.value, unit), Times(1000, 2000, 2))
    same(units.ids(index.node.value, unit), [ulid(1), ulid(2)])
    same([*units.visible(index.node.value)], [(unit, ulid(1)), (unit, ulid(2)), (unit._replace(shard=2), ulid(1))])


async def a_name_that_no_tenant_has_is_refused(alone: Alone) -> None:
    """Anonymous blocks have the name `-` in rows. Who asks for a tenant of that name is not shown them."""
    index = opened(alone)
    await index.add(block(1))
    for tenant, text in (("-", "the tenant may not be called '-'"), ("anonymous", "the tenant may not be called 'anonymous'"),
                         ("a\0", "the tenant 'a\\x00' has a zero byte or a slash"),
                         ("x" * 151, "the tenant's name has 151 bytes; 150 are allowed")):
        raised = await alone.raises(InvalidArgument, index.get(tenant, 1, [ulid(1)]))
        same(str(raised), text)
    for tenant, shard, text in (("", 1 << 32, f"the shard {1 << 32} is not one from 0 to 4,294,967,295"),
                                ("", -1, "the shard -1 is not one from 0 to 4,294,967,295"),
                                ("\ud800", 1, "the tenant '\\ud800' is not UTF-8: 'utf-8' codec can't encode character "
                                 "'\\ud800' in position 0: surrogates not allowed")):
        same(str(await alone.raises(InvalidArgument, index.get(tenant, shard, [ulid(1)]))), text)
    same(([of.id for of in await index.get("", 1, [ulid(1)])], index.node.reads), ([ulid(1)], 1))
    same((await index.get("", (1 << 32) - 1, [ulid(1)]), await index.get("", 0, [ulid(1)])), ([], []))


async def what_no_node_could_decode_is_not_proposed(alone: Alone) -> None:
    """An entry has a block one message deeper than the block alone, and protobuf takes 100."""
    index, deep = opened(alone), None
    for depth in range(200):
        try:
            deep = decode(BlockMeta, encode(block(1)) + b"\xc3\x0c" * depth + b"\xc4\x0c" * depth)  # unknown groups
        except DamagedMessage:
            break
    same(validate.invalid_block(deep), None)
    check("nested too deep" in str(await alone.raises(InvalidArgument, index.add(deep))), "it says why")
    same(index.node.index, 0)


async def blocks_of_several_windows_are_read(alone: Alone) -> None:
    """Each unit has strings of its own, so the same number is another string there."""
    index = opened(alone)
    made = [block(1, tenant="t", data=("x",)), block(2, WINDOW_S, tenant="t", data=("y",)), block(3, tenant="t", data=("z",))]
    for one in made:
        await index.add(one)
    for several in (made, made[::-1]):
        found = await index.get("t", 1, [one.id for one in several])
        same([told(of) for of in found], [told(rewritten(one)) for one in several])


def rewritten(made: Any) -> Any:
    """Return a block as the index shows it: its strings are in the order of their references."""
    names = [made.string_table[of.name] for of in made.datasets]
    table = ["", "t", "writer"]
    again = BlockMeta(id=made.id, tenant=1, shard=made.shard, min_time=1000, max_time=2000, created_by=2)
    for name in names:
        table += [name] if name not in table else []
        table += [text for text in ("kind", "cpu") if text not in table]
        again.datasets.append(Dataset(tenant=1, name=table.index(name), min_time=1000, max_time=2000,
                                      labels=[1, table.index("kind"), table.index("cpu")]))
    again.string_table[:] = table
    return again


async def many_blocks_are_read(alone: Alone) -> None:
    index = opened(alone)
    every = [ulid(number) for number in range(MANY)]
    for number in range(MANY):
        await index.add(block(number, data=("same",)))
    same([of.id for of in await index.get("", 1, [*every[::-1], every[5], every[5]])], [*every[::-1], every[5], every[5]])
    same([one for _, one in units.visible(index.node.value)], every)
    same(units.times(index.node.value, Unit(Partition(SIX), "", 1)), Times(1000, 2000, MANY))
    content = replicated.dump(index.node.value)
    same([*replicated.load(content).range(b"", None)], [*index.node.value.range(b"", None)])


async def the_times_of_a_unit_widen(alone: Alone) -> None:
    index = opened(alone)
    unit = Unit(Partition(SIX), "", 1)
    for number, low, high, times in ((1, 50, 60, Times(50, 60, 1)), (2, 40, 55, Times(40, 60, 2)),
                                     (3, 45, 70, Times(40, 70, 3)), (4, 50, 51, Times(40, 70, 4))):
        made = block(number, min_time=low, max_time=high)
        made.datasets[0].min_time, made.datasets[0].max_time = low, high
        await index.add(made)
        same(units.times(index.node.value, unit), times)
    same(index.node.value.get(row.index_key(unit, row.INCARNATION)), row.U64.pack(1))
    strings = [(key[-4:], row.strings_of(value)) for key, value in under(index.node.value, row.index_key(unit, row.STRINGS))]
    same(strings, [(row.U32.pack(1), ("writer", "kind", "cpu", "d1")), (row.U32.pack(5), ("d2",)),
                   (row.U32.pack(6), ("d3",)), (row.U32.pack(7), ("d4",))])
    same(row.times_of(index.node.value.get(row.index_key(unit, row.TIMES)) or b""), Times(40, 70, 4))


async def bad_blocks_are_refused(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(9))
    long = "é" * 75 + "x"
    for made, text in (
            (block(1, id=""), "byte 0, ULID: '' is not a ULID in its usual form"),
            (block(1, min_time=0), "min_time 0 and max_time 2000 are no range of times after 0"),
            (block(1, min_time=2001), "min_time 2001 and max_time 2000 are no range of times after 0"),
            (block(1, max_time=1999), "dataset 0 is from 1000 to 2000, which is no range inside the block's"),
            (block(1, min_time=1001), "dataset 0 is from 1000 to 2000, which is no range inside the block's"),
            (changed(block(1), tenant=99), "byte 0, string_table: reference 99 into a table of 5 strings"),
            (block(1, created_by=-1), "byte 0, string_table: reference -1 into a table of 5 strings"),
            (block(1, tenant="-"), "the tenant may not be called '-'"),
            (block(1, tenant="anonymous"), "the tenant may not be called 'anonymous'"),
            (block(1, tenant="."), "the tenant may not be called '.'"), (block(1, tenant=".."),
                "the tenant may not be called '..'"),
            (block(1, tenant="a/b"), "the tenant 'a/b' has a zero byte or a slash"),
            (block(1, tenant="a\0"), "the tenant 'a\\x00' has a zero byte or a slash"),
            (block(1, tenant=long), "the tenant's name has 151 bytes; 150 are allowed")):
        await refused(alone, index, made, text)
    await index.add(block(2, tenant=long[:-1]))
    await index.add(block(3, min_time=1000, max_time=2000))


async def bad_datasets_are_refused(alone: Alone) -> None:
    index = opened(alone)
    first = block(1)
    first.string_table[0] = "x"
    await refused(alone, index, first, "the first string is 'x', and has to be empty")
    inside = block(1, tenant="t", data=("a", "b"))
    inside.datasets[1].tenant = 0
    await refused(alone, index, inside, "dataset 1 is of the tenant '', and the block of 't'")
    several = block(1, data=("a", "b", "x/y"))
    several.datasets[1].tenant = several.datasets[2].name
    await refused(alone, index, several, "the tenant 'x/y' has a zero byte or a slash")
    for number, times in ((1, (1500, 1499)), (0, (0, 1500)), (1, (1500, 0)), (1, (1500, 2001)), (0, (999, 1000))):
        made = block(1, data=("a", "b"))
        made.datasets[number].min_time, made.datasets[number].max_time = times
        await refused(alone, index, made, f"dataset {number} is from {times[0]} to {times[1]}, which is no range inside the "
                      "block's")
    cut = block(1)
    cut.datasets[0].labels.append(7)
    await refused(alone, index, cut, "byte 3, labels: a group of 7 pairs has 0 numbers")
    timeless = block(1, tenant="t")
    timeless.datasets[0].min_time = timeless.datasets[0].max_time = 0
    await index.add(timeless)
    large = block(1)
    large.string_table.append("x" * (validate.LARGEST_BLOCK_BYTES - large.ByteSize() - 5))
    same((large.ByteSize(), validate.invalid_block(large)), (4 << 20, None))
    large.string_table[-1] += "x"
    await refused(alone, index, large, f"the metadata has {(4 << 20) + 1} bytes; {4 << 20} are allowed")
    same(validate.invalid_block(BlockMeta(id=ulid(1), min_time=1, max_time=1)), None)
    fails = BlockMeta(id=ulid(1), min_time=1, max_time=1, datasets=[Dataset(min_time=1, max_time=1)])
    same(validate.invalid_block(fails), None)


async def the_horizon_refuses_what_is_older(alone: Alone) -> None:
    index = opened(alone)
    at(alone, 1101)
    late = (f"block {ulid(1, 1000)} is older than the horizon of 100000 ms, so nobody knows whether it was added before; keep "
            "it aside")
    await refused(alone, index, block(1, 1000), late, TooLate)
    at(alone, 1102)
    await index.add(block(1, 1002))
    for second in (0, 1001, 1002):
        await alone.raises(TooLate, index.add(block(5, second)))
    await index.add(block(2, 1000), past_horizon=True)
    await index.add(block(2, 1000))
    await refused(alone, index, block(3, 1000, tenant="-"), "the tenant may not be called '-'", past_horizon=True)


async def entries_are_checked_when_they_are_applied(alone: Alone) -> None:
    index = opened(alone)
    raised = await alone.raises(InvalidArgument, index._proposed(AddBlock(metadata=block(1, min_time=0))))
    same((str(raised), [*units.visible(index.node.value)]), ("min_time 0 and max_time 2000 are no range of times after 0", []))
    for body in (b"", bytes(7)):
        says(UnknownEntry, "byte 0, time: the entry has no time",
             lambda body=body: replicated.applied_to(View(), Command(1, 1, body), SMALL))
    same(replicated.applied_to(View(), Command(1, 1, bytes(8)), SMALL)[1], Result(1, Answer()))
    same(replicated.stamped(5, GetPlan()), bytes(7) + b"\5" + b"\0\0\0\2")
    same(replicated.unreadable(replicated.stamped(5, GetPlan())), None)
    same(replicated.unreadable(bytes(8)), "the command is nested too deep, or cannot be decoded for another reason: byte 0, "
                                          "kind: 0 bytes are too few for an entry")
    nameless = snapshot.encode(snapshot.Position(1, 1, ()), [(b"", b"")])
    says(snapshot.DamagedSnapshot, "byte 0, rows: a key of 0 bytes; keys have 1 to 511", lambda: replicated.load(nameless))
    after, result = replicated.applied_to(View(), Command(3, 2, replicated.stamped(NOW, AddBlock(metadata=block(1)))), SMALL)
    same((result, machine.applied(after), machine.clock_ns(after)), (Result(2, Answer()), (2, 3), NOW))
    earlier = replicated.applied_to(after, Command(4, 2, replicated.stamped(5, GetPlan())), SMALL)[0]
    same((machine.clock_ns(earlier), machine.applied(View()), machine.clock_ns(View())), (NOW + 1, (0, 0), 0))


async def a_state_is_dumped_and_loaded(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1))
    content = replicated.dump(index.node.value)
    same([*replicated.load(content).range(b"", None)], [*index.node.value.range(b"", None)])
    same(snapshot.decode(content)[0], Position(1, 1, ()))
    again = replicated.applied_to(replicated.load(content), Command(2, 1, replicated.stamped(NOW, AddBlock(metadata=block(2)))),
                                  SMALL)[0]
    same((len([*units.visible(again)]), len([*units.visible(index.node.value)])), (2, 1))
    same((replicated.machine(SMALL).level, [*replicated.machine(SMALL).initial.range(b"", None)]), (1, []))


async def a_machine_takes_each_entry_once(alone: Alone) -> None:
    of = Machine(MemoryKV(), SMALL)
    add = Entry(1, 7, NOW, entries.entry(AddBlock(metadata=block(1))))
    for entry, answer in ((add, Answer()), (add, None), (Entry(2, 7, NOW, b""), Answer()), (Entry(1, 7, NOW, b""), None)):
        same((of.apply(entry),), (answer,))
    says(EntryMissing, "entry 4 came after entry 2", lambda: of.apply(Entry(4, 7, NOW, b"")))
    says(UnknownEntry, "byte 0, kind: 1 bytes are too few for an entry", lambda: of.apply(Entry(3, 7, NOW, b"x")))
    position, rows = of.snapshot((1, 2))
    same(position, Position(2, 7, (1, 2)))
    same(of.dump(), snapshot.stream(rows)[0])
    other = Machine(MemoryKV(), SMALL)
    other.apply(Entry(1, 1, NOW, entries.entry(AddBlock(metadata=block(2)))))
    other.restore(rows)
    same((other.dump(), other.apply(add)), (of.dump(), None))
    says(ConfigRefused, "jobs is 0, and has to be positive", lambda: Machine(MemoryKV(), SMALL._replace(jobs=0)))


async def an_index_is_opened_on_its_folder(alone: Alone) -> None:
    at(alone, 0)
    disk = ScriptDisk()
    async with Index.open(world_of(alone, disk), SMALL) as index:
        same((index.config, index.node.state.me, index.node.stopped, index.polling), (SMALL, "1", "", None))
        same((index.most_answer_bytes, index.cache.datasets, index.now_ns()), (16 << 20, 2_000_000, NOW))
    check(index.node.stopped, "the node is closed with its index")
    async with Index.open(world_of(alone, ScriptDisk())) as usual:
        same(usual.config, Config())
    opening = Index.open(world_of(alone, ScriptDisk()), SMALL._replace(jobs=0))
    await alone.raises(ConfigRefused, opening.__aenter__())
    folder = {name: of.now for name, of in disk.files.items()}
    for error, given, me, voters in (
            (OtherNode, SMALL, "2", ("2",)), (OtherNode, SMALL, "1", ("1", "2")),
            (OtherSettings, SMALL._replace(horizon_ns=99 * S), "1", ("1",)),
            (OtherSettings, SMALL._replace(levels=()), "1", ("1",))):
        await alone.raises(error, Index.open(world_of(alone, disk), given, me, voters).__aenter__())
        same({name: of.now for name, of in disk.files.items()}, folder)
    async with Index.open(world_of(alone, disk), SMALL._replace(query_ns=2 * S, retry_ns=2 * S)) as again:
        opening = Index.open(world_of(alone, disk), SMALL)
        same(str(await alone.raises(DiskLocked, opening.__aenter__())),
             "this process has an index open on this disk: close it first, or give another folder")
        same(again.node.stopped, "")


async def answers_that_nobody_knows_are_raised(alone: Alone) -> None:
    index = opened(alone)
    for error in (LeadershipLost("gone"), NotLeader("a", "b")):
        for call in (index.add(block(1)), index.poll(PollRequest()), index.truncate(Truncate())):
            index.node.troubles = [error]
            await alone.raises(type(error), call)
    same(index.node.index, 0)
    same(index.polling, None)


async def numbers_that_break_a_promise_are_refused(alone: Alone) -> None:
    same(config.checked(SMALL), SMALL)
    same(config.checked(Config()), Config())
    same(Config(), USUAL)
    for changes, text in (
            ({"delay_ns": 100 * S},
             f"delay_ns {100 * S} is not above horizon_ns {100 * S}: a retry could come after its source is "
                                    "deleted; set a longer delay"),
            *(({name: 0}, f"{name} is 0, and has to be positive") for name in (
                "retry_ns", "horizon_ns", "lease_ns", "retry_failed_ns", "jobs", "tombstones", "hand_outs", "failures",
                "query_ns")),
            ({"query_ns": 200 * S}, f"delay_ns {200 * S} is not above query_ns {200 * S}: an object could be deleted while a "
                                    "query still reads it; set a longer delay"),
            ({"retry_ns": 101 * S},
             f"horizon_ns {100 * S} is below retry_ns {101 * S}: a block would be refused while its writer "
                                    "still tries to add it; set a longer horizon"),
            ({"lease_ns": MOST + 1}, f"lease_ns is {MOST + 1}, and may be {MOST} at most, which are 100 years"),
            ({"levels": (Level(1, S), Level(2, MOST + 1))},
             f"age_ns of a level is {MOST + 1}, and may be {MOST} at most, which are 100 years"),
            ({"levels": (Level(1, S), Level(0, S))}, "a level is compacted from 0 blocks on; set at least 1")):
        says(ConfigRefused, text, lambda changes=changes: config.checked(SMALL._replace(**changes)))
    fails_with(ConfigRefused, lambda: OneNode(SMALL._replace(jobs=0), alone))
    for changes in ({"delay_ns": 100 * S + 1}, {"query_ns": 200 * S - 1}, {"retry_ns": 100 * S}, {"jobs": 1}, {"levels": ()},
                    {"lease_ns": MOST}, {"levels": (Level(1, MOST),)}):
        same(config.checked(SMALL._replace(**changes)), SMALL._replace(**changes))


async def the_numbers_of_entries_are_told(alone: Alone) -> None:
    same(config.settings(SMALL), "horizon_ns=100000000000 delay_ns=200000000000 lease_ns=10000000000 failures=2 "
         "retry_failed_ns=50000000000 jobs=2 levels=2:30000000000,2:60000000000 tombstones=2 hand_outs=2")
    same(replicated.machine(SMALL).settings, config.settings(SMALL))


# --- units

def unit_tombstone(tenant: str = "", shard: int = 1, version: int = 1, **fields: Any) -> Any:
    told = {"name": f"2025-06-20 06:00:00 (6h0m0s)-T{tenant}-S{shard}", "timestamp": SIX, "duration": WINDOW_S * S,
            "shard": shard,
            "tenant": tenant, "unit_version": version} | fields
    return {"shard": told}


async def a_unit_is_dropped_as_it_was_read(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1))
    await index.add(block(2))
    await index.add(block(3, shard=2))
    await index.add(block(4, 6 * 3600))
    raised = await alone.raises(PollAgain, index.truncate(Truncate(term=2, tombstones=[unit_tombstone(version=2)])))
    same(str(raised), "the command was made in term 2, and appended in term 1: read again")
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone(version=1), unit_tombstone(tenant="t")]))
    same(len([*units.visible(index.node.value)]), 4)
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone(version=2)]))
    same([one for _, one in units.visible(index.node.value)], [ulid(3), ulid(4, 6 * 3600)])
    same([row.queued_of(*one).ulid for one in under(index.node.value, row.QUEUE)], [ulid(3), ulid(4, 6 * 3600)])
    key = row.dropped_key(Unit(Partition(SIX), "", 1))
    same(index.node.value.get(key), row.TWO_U64.pack(7, alone.now * 10**6 + 6))
    same([of.shard.name for of in [one.message for one in tombstones_of(index)]], ["2025-06-20 06:00:00 (6h0m0s)-T-S1"])
    same([of.message.index for of in tombstones_of(index)], [7])
    await refused(alone, index, block(1), f"retention has dropped the unit of block {ulid(1)}", TooLate)
    await refused(alone, index, block(5), f"retention has dropped the unit of block {ulid(5)}", TooLate)
    same(await index.get("", 1, [ulid(1)]), [])
    same([*under(index.node.value, row.index_key(Unit(Partition(SIX), "", 1)))], [], "the rows of the unit")


def tombstones_of(index: Any) -> list[Any]:
    return [*all_of(index.node.value)]


async def a_unit_that_is_to_be_deleted_takes_no_block_past_the_horizon(alone: Alone) -> None:
    """While retention's drop is known, and after it is forgotten, until the objects are deleted."""
    index = opened(alone)
    await index.add(block(1))
    await index.add(block(2, tenant="t"))
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone()]))
    refusal = f"retention has dropped the unit of block {ulid(3)}"
    await refused(alone, index, block(3), refusal, TooLate, past_horizon=True)
    (stored,) = tombstones_of(index)
    for second, known in ((WINDOW_S, True), (WINDOW_S + 200, False)):
        at(alone, second)
        await index.truncate(Truncate(term=1))
        same(is_dropped(index.node.value, Unit(Partition(SIX), "", 1)), known)
        await refused(alone, index, block(3), refusal, TooLate, past_horizon=True)
    await index.add(block(4, tenant="t"), past_horizon=True)
    await index.confirm([stored.message])
    await index.add(block(3), past_horizon=True)
    same([one for _, one in units.visible(index.node.value)], [ulid(3), ulid(2), ulid(4)])
    index = opened(alone)
    await index.add(block(1))
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone()]))
    at(alone, 300)
    await index.confirm([tombstones_of(index)[0].message])
    same(tombstones_of(index), [])
    await refused(alone, index, block(3), refusal, TooLate, past_horizon=True)


async def several_units_are_dropped_by_one_command(alone: Alone) -> None:
    """Blocks of all levels go with their unit, and do not wait any more."""
    index = opened(alone)
    for number, tenant, level in ((1, "t", 0), (2, "t", 1), (3, "u", 0), (4, "", 0), (5, "", 1)):
        await index.add(block(number, tenant=tenant, level=level))
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone(tenant="u", version=2)]))
    same(len([*units.visible(index.node.value)]), 5, "a unit that is older than it was read stays")
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone(tenant="t", version=2), unit_tombstone(tenant="u"),
                                                      unit_tombstone(version=1)]))
    same([one for _, one in units.visible(index.node.value)], [ulid(4), ulid(5)])
    same([row.queued_of(*one).ulid for one in under(index.node.value, row.QUEUE)], [ulid(4), ulid(5)])
    same([(one.index, one.name) for one in tombstones_of(index)],
         [(7, f"2025-06-20 06:00:00 (6h0m0s)-T{of}-S1") for of in ("t", "u")])
    at(alone, 300)
    await index.confirm([one.message for one in tombstones_of(index)])
    same(tombstones_of(index), [])


async def a_truncation_that_names_no_unit_is_refused(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1))
    for wrong, text in (
            ({}, "a tombstone names no unit: single blocks are not dropped"),
            ({"blocks": {"name": "j"}}, "a tombstone names no unit: single blocks are not dropped"),
            (unit_tombstone() | {"blocks": {}}, "a tombstone names no unit: single blocks are not dropped"),
            (unit_tombstone(tenant="-"), "the tenant may not be called '-'"),
            (unit_tombstone(duration=1), f"2025-06-20 06:00:00 (6h0m0s)-T-S1: {SIX} ns, for 1 ns, is no partition"),
            (unit_tombstone(timestamp=SIX + 1),
             f"2025-06-20 06:00:00 (6h0m0s)-T-S1: {SIX + 1} ns, for {WINDOW_S * S} ns, is no "
                                                "partition"),
            (unit_tombstone(timestamp=-WINDOW_S * S),
             f"2025-06-20 06:00:00 (6h0m0s)-T-S1: {-WINDOW_S * S} ns, for {WINDOW_S * S} "
                                                      "ns, is no partition"),
            (unit_tombstone(name="x"), "x is not the name of its unit"),
            (unit_tombstone(shard=2, name="2025-06-20 06:00:00 (6h0m0s)-T-S1"),
             "2025-06-20 06:00:00 (6h0m0s)-T-S1 is not the name of its unit")):
        raised = await alone.raises(InvalidArgument, index.truncate(Truncate(term=1, tombstones=[unit_tombstone(), wrong])))
        same(str(raised), text)
        same([one for _, one in units.visible(index.node.value)], [ulid(1)])
    same(truncate.invalid(Truncate(tombstones=[unit_tombstone(timestamp=0, name="1970-01-01 00:00:00 (6h0m0s)-T-S1")])
                          .tombstones[0]), None)


async def a_dropped_unit_is_forgotten_late(alone: Alone) -> None:
    """It is forgotten once the horizon refuses all of its blocks, and an anonymous unit that jobs could make it of is gone."""
    index = opened(alone)
    await index.add(block(1))
    await index.add(block(2, tenant="t"))
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone(tenant="t")]))
    dropped = [Unit(Partition(SIX), of, 1) for of in ("", "t")]

    def known() -> list[bool]:
        return [index.node.value.get(row.dropped_key(unit)) is not None for unit in dropped]

    same(known(), [False, True])
    at(alone, WINDOW_S + 101)
    await index.truncate(Truncate(term=1))
    same(known(), [False, True])
    at(alone, WINDOW_S + 99)
    index = opened(alone)
    await index.add(block(1))
    await index.truncate(Truncate(term=1, tombstones=[unit_tombstone()]))
    for second, there in ((WINDOW_S + 99.9, True), (WINDOW_S + 100, False)):
        at(alone, second)
        await index.truncate(Truncate(term=1))
        same(known(), [there, False])


SCRIPTS: tuple[Script, ...] = (
    a_block_is_added_once_and_read, a_name_that_no_tenant_has_is_refused, what_no_node_could_decode_is_not_proposed,
    blocks_of_several_windows_are_read, many_blocks_are_read, the_times_of_a_unit_widen, bad_blocks_are_refused,
    bad_datasets_are_refused, the_horizon_refuses_what_is_older, entries_are_checked_when_they_are_applied,
    a_state_is_dumped_and_loaded, a_machine_takes_each_entry_once, an_index_is_opened_on_its_folder,
    answers_that_nobody_knows_are_raised, numbers_that_break_a_promise_are_refused,
    the_numbers_of_entries_are_told, a_unit_is_dropped_as_it_was_read,
    a_unit_that_is_to_be_deleted_takes_no_block_past_the_horizon, several_units_are_dropped_by_one_command,
    a_truncation_that_names_no_unit_is_refused, a_dropped_unit_is_forgotten_late)
