"""Scripts of retention: when a unit's period is over, and what the cleaner of a node proposes."""

from typing import Any

from highwater.dst.script import Alone, Cancelled, Script, fails_with, same
from highwater.dst.scripts.indexed.one import START_S, at, block, opened, says, ulid
from highwater.impl.codecs.index.partitions import WINDOW_S, Partition
from highwater.impl.codecs.index.rows import Times, Unit
from highwater.impl.index import retention, units
from highwater.impl.index.config import S
from highwater.impl.index.library import PollAgain
from highwater.impl.index.retention import Cleaner, Policy, PolicyRefused
from highwater.impl.raft.faults import NotLeader

DAY_S = 24 * 3600
SIX = Partition(START_S * S)
POLICY = Policy(usual_s=DAY_S, tenants={"long": 3 * DAY_S, "short": 60})


async def periods_are_checked(alone: Alone) -> None:
    most = 100 * 366 * DAY_S
    for policy in (Policy(), POLICY, Policy(0), Policy(most, {"a": 0, "b": most})):
        same(retention.checked(policy), policy)
    for wrong, text in (
            (Policy(-1), f"the period of the others is -1 s: write 0 for ever, or at most {most}"),
            (Policy(most + 1), f"the period of the others is {most + 1} s: write 0 for ever, or at most {most}"),
            (Policy(1, {"t": -1}), f"the period of tenant 't' is -1 s: write 0 for ever, or at most {most}"),
            (Policy(1, {"": 1}), "a period is of the tenant '': it has no name"),
            (Policy(1, {"-": 1}), "a period is of the tenant '-': the tenant may not be called '-'")):
        says(PolicyRefused, text, lambda wrong=wrong: retention.checked(wrong))
        fails_with(PolicyRefused, lambda wrong=wrong: Cleaner(opened(alone), bool, wrong))
    same(Policy(), Policy(31 * DAY_S, {}))


async def a_unit_goes_by_its_tenants_period(alone: Alone) -> None:
    same([retention.period_s(POLICY, tenant) for tenant in ("short", "long", "t", "")], [60, 3 * DAY_S, DAY_S, 3 * DAY_S])
    same([retention.period_s(Policy(*of), "") for of in ((0, {"t": 5}), (5, {"t": 0}), (5, {}), (9, {"t": 5}))], [0, 0, 5, 9])
    end = SIX.end_ns
    for tenant, max_ms, now_ns, right in (
            ("short", 1, end + 60 * S - 1, False), ("short", 1, end + 60 * S, True), ("short", end // 10**6, end + 60 * S,
                True),
            ("short", end // 10**6 + 1, end + 60 * S, False), ("short", end // 10**6 + 1, end + 60 * S + 10**6, True),
            ("t", 1, end + DAY_S * S - 1, False), ("", 1, end + 3 * DAY_S * S - 1, False), ("", 1, end + 3 * DAY_S * S, True)):
        same(retention.is_over(POLICY, Unit(SIX, tenant, 1), Times(1, max_ms, 1), now_ns), right, f"{tenant!r} at {now_ns}")
    same(retention.is_over(Policy(0), Unit(SIX, "t", 1), Times(1, 1, 1), 1 << 70), False)


async def a_command_names_units_as_they_were_read(alone: Alone) -> None:
    made = retention.command(7, [(Unit(SIX, "t", 2), Times(1, 2, 5)), (Unit(Partition(0), "", 1), Times(1, 2, 1))])
    told = made.tombstones[0].shard
    same((made.term, told.name, told.timestamp, told.duration, told.shard, told.tenant, told.unit_version),
         (7, "2025-06-20 06:00:00 (6h0m0s)-Tt-S2", SIX.start_ns, WINDOW_S * S, 2, "t", 5))
    same([one.shard.name for one in made.tombstones], [told.name, "1970-01-01 00:00:00 (6h0m0s)-T-S1"])


async def a_cleaner_drops_what_is_over(alone: Alone) -> None:
    index = opened(alone)
    for number, tenant, shard in ((1, "short", 1), (2, "t", 1), (3, "", 1)):
        await index.add(block(number, tenant=tenant, shard=shard))
    lines: list[str] = []
    cleaner = Cleaner(index, lambda: True, POLICY, log=lines.append)
    at(alone, WINDOW_S + 59)
    entries = index.node.index
    same((await cleaner.clean(), index.node.index - entries, index.node.reads, alone.counted), (0, 0, 1, []))
    at(alone, WINDOW_S + 60)
    same(lines, [])
    same((await cleaner.clean(), alone.counted), (1, ["index_units_dropped"]))
    same(lines, ["retention drops tenant 'short', shard 1, window 2025-06-20 06:00:00 (6h0m0s), with data up to "
                 "1970-01-01T00:00:02Z"])
    same([unit.tenant for unit, _ in units.visible(index.node.value)], ["", "t"])
    same([unit.tenant for unit, _ in retention.over(index.node.value, POLICY, SIX.end_ns + DAY_S * S)], ["t"])
    index.node.state.term = 2
    at(alone, WINDOW_S + 3 * DAY_S)
    same((await cleaner.clean(), [*units.visible(index.node.value)], len(alone.counted)), (2, [], 3))


async def a_command_of_an_earlier_term_drops_nothing(alone: Alone) -> None:
    index = opened(alone)
    await index.add(block(1, tenant="short"))
    at(alone, WINDOW_S + 60)
    node = index.node

    async def read() -> Any:
        node.state.term = 2
        return node.value

    node.read = read
    cleaner = Cleaner(index, lambda: True, POLICY)
    await alone.raises(PollAgain, cleaner.clean())
    same(([ulid_ for _, ulid_ in units.visible(node.value)], alone.counted), ([ulid(1)], []))


async def many_units_are_dropped_some_at_a_time(alone: Alone) -> None:
    index = opened(alone)
    for shard in range(1, 66):
        await index.add(block(shard, tenant="short", shard=shard))
    at(alone, WINDOW_S + 60)
    began, turns = alone.now, iter((False, True, True, True))
    entries = index.node.index

    def leads() -> bool:
        if alone.now - began == 4_000:
            raise Cancelled
        return next(turns)

    cleaner = Cleaner(index, leads, POLICY, 1_000)
    index.node.troubles = [NotLeader("a", "b")]
    await alone.raises(Cancelled, cleaner.run())
    same((index.node.index - entries, len(alone.counted), [*units.visible(index.node.value)]), (3, 66, []))
    same(alone.warnings, [f"retention dropped nothing more: {NotLeader('a', 'b')}"])
    same((Cleaner(index, leads, POLICY).period_ms, retention.AT_ONCE), (60_000, 32))


SCRIPTS: tuple[Script, ...] = (
    periods_are_checked, a_unit_goes_by_its_tenants_period, a_command_names_units_as_they_were_read,
    a_cleaner_drops_what_is_over,
    a_command_of_an_earlier_term_drops_nothing, many_units_are_dropped_some_at_a_time)
